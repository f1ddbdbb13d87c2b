"""Rows from the future on Spark: wherever a batch is reduced, the answers are as if they had not come."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.spark import loop
from skyband.spark.loop import datetime_of
from skyband.spark.reducers import guesses, ranking
from skyband.spark.reducers.base import BatchProgress
from skyband.spark.reducers.ranking import RankingReducer
from tests.spark.streams import assert_same_answers, core, events, sorted_table, stream, write
from tests.spark.test_start import NOW, TOP, Tables, batches, go
from tests.spark.test_state_store import PROVIDER, ROCKSDB

pytestmark = pytest.mark.spark
DAY = 86_400_000_000
SOURCE: dict[str, Any] = {"time": "t", "id": "id"}


def now() -> int:
    return time.time_ns() // 1_000


def with_future(tables: list[pa.Table], share: float = 0.1, seed: int = 0, reach: int = 3650 * DAY) -> list[pa.Table]:
    """Move some rows of every batch into the future, beyond the day that is allowed."""
    rng, found = np.random.default_rng(seed), []
    for table in tables:
        far = pa.array(now() + rng.integers(2 * DAY, reach, table.num_rows))
        moved = pa.compute.if_else(pa.array(rng.random(table.num_rows) < share), far, table["t"])
        found.append(table.set_column(0, "t", moved))
    return found


def split(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows that may be, and those of the future."""
    far = pa.compute.greater(table["t"], now() + DAY).fill_null(False)
    return table.filter(pa.compute.invert(far)), table.filter(far)


@pytest.mark.parametrize("kind", ["rankings", "sums", "both", "whole"])
def test_the_driver_rejects_them(spark: Any, tmp_path: Path, kind: str) -> None:
    tables = with_future(batches(1))
    sums = sb.Query("sums", k=3, score="sum(x)", window=sb.Window(2_000, slide=500), where="y > 2")
    filtered = sb.Query("rest", k=2, score="x", window=sb.Window(1_000), where="y > 5", partition_by="g")
    queries = {"rankings": [TOP, filtered], "sums": [sums], "both": [TOP, sums], "whole": [TOP, sums, filtered]}[kind]
    write(tmp_path / "in", tables)
    sink, sides = Tables(), {"rejected": tmp_path / "rejected"} if kind == "whole" else {}
    handle = go(spark, tmp_path / "in", queries, sink, tmp_path / "checkpoint", **sides)
    near, far = zip(*map(split, tables), strict=True)
    assert_same_answers(sink.table(), core(queries, near, 60, **SOURCE))
    progress = [entry["skyband"] for entry in handle.recentProgress]
    assert [entry["ahead"] for entry in progress] == [table.num_rows for table in far]
    truth = sb.Monitor(queries, **SOURCE)
    for number, table in enumerate(near):
        before = truth.stats()
        truth.push(table)
        truth.advance(truth.newest - 60)
        assert progress[number]["rejected"] == truth.stats().rejected - before.rejected + far[number].num_rows
        assert progress[number]["late"] == truth.stats().late - before.late
        assert progress[number]["watermark"] == datetime_of(truth.newest - 60).isoformat()
    assert handle.status["degraded"] is None
    if kind == "whole":
        given = pq.read_table(tmp_path / "rejected").select(tables[0].column_names).to_pylist()
        assert {repr(row) for row in pa.concat_tables(far).to_pylist()} <= set(map(repr, given))
        assert len(given) == sum(entry["rejected"] for entry in progress)


@pytest.mark.parametrize("reach", [10, 3650 * DAY], ids=["just beyond", "far beyond"])
@pytest.mark.parametrize("seed", range(3))
def test_guesses_do_not_see_them(spark: Any, monkeypatch: pytest.MonkeyPatch, seed: int, reach: int) -> None:
    """With thresholds, guesses and a foretold end of the batch, as in large batches."""
    for module in (guesses, ranking):
        monkeypatch.setattr(module, "EVERY", 8)
        monkeypatch.setattr(module, "SMALL", 200)
    rng, n, guessed, shipped = np.random.default_rng(seed), 3_000, 0, 0
    top = replace(TOP, window=sb.Window(8_000, slide=2_000))  # panes of so many events that guesses pay
    read, truth = (sb.Monitor([top], **SOURCE) for _ in range(2))
    reader: RankingReducer | None = None
    for number in range(5):
        table = events(rng, n, n * 10 * number)
        limit = n * 10 * (number + 1) + 500  # just behind what comes: the foretold end may lie beyond it
        far = pa.array(rng.integers(limit + 1, limit + 1 + reach, n))
        ahead = pa.array(rng.random(n) < 0.3)
        near = table.filter(pa.compute.invert(ahead))
        table = table.set_column(0, "t", pa.compute.if_else(ahead, far, table["t"]))
        reader = reader or RankingReducer(read.source, table.schema, 60)
        found = reader.reduce(spark.createDataFrame(table), read, BatchProgress(limit))
        truth.push(near)
        assert read.newest == truth.newest
        ours, theirs = (list(monitor.advance(monitor.newest - 60)) for monitor in (read, truth))
        assert [(a.query, a.end, a.rows, a.exact) for a in ours] == [(a.query, a.end, a.rows, a.exact) for a in theirs]
        assert read.stats().rejected - read.stats().ahead == truth.stats().rejected
        assert found.ahead_at is not None
        assert found.ahead_at > limit
        guessed += found.guessed_thresholds
        shipped += found.candidate_rows
    assert guessed > 0
    assert shipped < 5 * n
    assert read.stats().ahead == read.stats().rejected - truth.stats().rejected > 1_000


def test_a_replay_decides_alike(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is read once per batch: what was rejected stays rejected, whatever the time is then."""
    tables = with_future(batches(2, count=2), reach=3 * DAY)
    write(tmp_path / "in", tables)

    class Broken(Tables):
        def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:
            super().write(answers, batch_id, session)
            if batch_id == 1:
                raise RuntimeError("the sink broke")

    broken, sink = Broken(), Tables()
    handle = sb.spark.start(
        stream(spark, tmp_path / "in"), TOP, **SOURCE, watermark=60, trigger=NOW, sink=broken,
        checkpoint=tmp_path / "checkpoint",
    )  # fmt: skip
    with pytest.raises(Exception, match="the sink broke"):
        handle.awaitTermination()
    later = now() + 365 * DAY
    monkeypatch.setattr(loop, "not_after", lambda _: later)
    handle = go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint", max_ahead="2 days")
    assert set(sink.found) == {1}
    assert sink.found[1].equals(broken.found[1])
    near = [split(table)[0] for table in tables]
    truth = core([TOP], near, 60, **SOURCE)
    assert_same_answers(sorted_table([broken.found[0], sink.found[1]]), truth)
    assert handle.lastProgress["skyband"]["ahead"] == split(tables[1])[1].num_rows


def test_a_wrong_unit_is_told(spark: Any, tmp_path: Path) -> None:
    """Milliseconds that are read as seconds: nothing is answered from them, and the status says what is likely."""
    began = now() // 1_000 - 3_600_000
    bad = pa.table({"t": [began + i for i in range(100)], "id": list(range(100)), "x": [1.0] * 100})
    good = bad.set_column(0, "t", pa.compute.divide(bad["t"], 1_000))
    write(tmp_path / "in", [bad, good])
    query = sb.Query("top", k=1, score="x", window=sb.Window("1 s"))
    options: dict[str, Any] = {"time": "t", "id": "id", "time_unit": "s", "watermark": "0 s"}
    handle = sb.spark.start(stream(spark, tmp_path / "in"), query, **options)
    try:
        handle.processAllAvailable()
        assert handle.status["degraded"] is None, "the last batch was fine"
        write(tmp_path / "in", [bad], first=2)
        handle.processAllAvailable()
        said = str(handle.status.get("degraded"))
        assert "100 of the 100 rows of the last batch were rejected" in said
        assert "they look like time_unit='ms'" in said
        assert [entry["skyband"]["ahead"] for entry in handle.recentProgress[-1:]] == [100]
    finally:
        handle.stop()


def test_executors_reject_them(spark: Any, tmp_path: Path) -> None:
    spark = spark.newSession()
    spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    query = sb.Query("top", k=2, score="x", window=sb.Window("1 s"), partition_by="g")
    rng, tables = np.random.default_rng(5), []
    begin = now() - 100 * DAY
    for number in range(4):
        t = begin + number * 2_000_000 + np.sort(rng.integers(0, 2_000_000, 200))
        tables.append(
            pa.table({"t": t, "id": rng.integers(0, 50, 200), "x": rng.random(200), "g": rng.integers(0, 5, 200)})
        )
    tables = with_future(tables)
    tables.append(with_future([tables[0]], share=1.0)[0])
    write(tmp_path / "in", tables)
    sink, options = Tables(), {"watermark": "10 ms", "placement": "executors"}
    handle = go(spark, tmp_path / "in", query, sink, tmp_path / "checkpoint", time_unit="us", **options)
    near, far = zip(*map(split, tables), strict=True)
    assert_same_answers(sink.table(), core([query], near, 10_000, **SOURCE, time_unit="us"))
    assert sum(entry["ahead"] for entry in handle.progress) == sum(table.num_rows for table in far)
    assert "200 of the 200 rows of the last batch were rejected" in handle.status["degraded"]


def test_subscriptions_reject_them(spark: Any, tmp_path: Path) -> None:
    near_zero = sb.Subscription("near", k=2, score=sb.Distance({"x": 0.0}), last=1500, emit="changes")
    rng = np.random.default_rng(6)
    tables = [
        pa.table({"t": np.sort(rng.integers(b * 1000, b * 1000 + 1000, 200)), "id": rng.integers(0, 99, 200),
                  "x": rng.random(200)})
        for b in range(4)
    ]  # fmt: skip
    tables = with_future(tables)
    tables.append(with_future([tables[0]], share=1.0)[0])
    write(tmp_path / "in", tables)
    handle = sb.spark.subscribe(
        stream(spark, tmp_path / "in"), [near_zero], **SOURCE, checkpoint=tmp_path / "checkpoint", trigger=NOW
    )
    handle.awaitTermination()
    truth = sb.Subscriptions([near_zero], **SOURCE)
    for table in tables:
        truth.push(split(table)[0].sort_by([("t", "ascending"), ("id", "ascending")]))
    assert [(row.id, row.time, row.score) for row in handle.top("near")] == [
        (row.id, row.time, row.score) for row in truth.top("near")
    ]
    ahead = [entry["skyband"]["ahead"] for entry in handle.recentProgress]
    assert ahead == [split(table)[1].num_rows for table in tables]
    assert "200 of the 200 rows of the last batch were rejected" in handle.status["degraded"]
