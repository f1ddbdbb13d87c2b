"""Subscriptions on Spark: every notice as the core has it, from the rows that executors let through."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.spark import Control, SubscriptionHandle, subscribe

pytestmark = pytest.mark.spark
FILES, ROWS = 5, 400


def events(number: int) -> pa.Table:
    """Return one file of a stream in order of time, with a row that lacks something and one that comes late."""
    rng = np.random.default_rng(number)
    t = np.sort(rng.integers(number * 1000, (number + 1) * 1000, ROWS))
    t[-1] = max(t[-1] - 100_000, 0) if number else t[-1]
    x = pa.array(rng.random(ROWS), mask=np.arange(ROWS) == 7)
    ids = np.arange(number * ROWS, (number + 1) * ROWS)
    return pa.table({"t": t, "id": ids, "x": x, "y": rng.random(ROWS), "kind": rng.choice(["a", "b"], ROWS)})


def everyone() -> list[sb.Subscription]:
    make = sb.Subscription
    return [
        make("near", k=3, score=sb.Distance({"x": 0.3, "y": 0.6}), last=1500, emit="changes"),
        make("near too", k=2, score=sb.Distance({"x": 0.7, "y": 0.1}), last=900, emit="changes"),
        make("most", k=2, score=sb.WeightedSum({"x": 1.0, "y": 1.0}), last=2000, where="kind = 'a'"),
        make("boxed", k=4, score="x * y", last=1000, within={"y": (0.4, 0.6)}),
        make("ends", k=2, score=sb.Distance({"x": 0.3, "y": 0.6}), last=1200, until=3456, emit="changes"),
    ]


def write(folder: Path, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    for number in numbers:
        path = folder / f"{number}.parquet"
        pq.write_table(events(number), path)
        os.utime(path, (1_000_000_000 + number,) * 2)  # the order in which Spark takes them


def follow(spark: Any, folder: Path, **more: Any) -> SubscriptionHandle:
    schema = "t long, id long, x double, y double, kind string"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    given: dict[str, Any] = {
        "subscriptions": everyone(),
        "sink": str(folder / "out"),
        "checkpoint": folder / "state",
    } | more
    return subscribe(stream, time="t", id="id", select=["kind"], trigger={"availableNow": True}, **given)


def local(files: int = FILES, algorithm: str = "blocks") -> tuple[sb.Subscriptions, list[dict[str, Any]]]:
    """Return what the core makes of all rows, and all that it tells."""
    following, rows = sb.Subscriptions(everyone(), algorithm=algorithm, time="t", id="id", select=["kind"]), []
    for number in range(files):
        table = events(number).sort_by([("t", "ascending"), ("id", "ascending")])
        rows += following.push(table).table().to_pylist()
    return following, rows


def told(folder: Path) -> list[dict[str, Any]]:
    """Return all that was written, batch by batch, in the order in which it was told."""
    files = sorted((folder / "out").rglob("*.parquet"), key=lambda path: (path.parent.name, path.name))
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def test_every_notice_of_the_core_and_less_to_carry(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", range(FILES))
    handle = follow(spark, tmp_path)
    handle.awaitTermination()
    assert (handle.checkpoint.sign_of_life() or ("",))[0] == "ended"
    following, expected = local()
    assert set(handle.subscriptions) == {"near", "near too", "most", "boxed"}, "one has ended"
    for name in following.subscriptions:
        assert handle.top(name) == following.top(name), name
    rows = told(tmp_path)
    assert [row | {"batch": None} for row in rows] == [row | {"batch": None} for row in expected]
    assert any(row["at"] != row["time"] and row["change"] == "entered" for row in rows), "some move up as others leave"
    progress = [entry["skyband"] for entry in handle.recentProgress if entry["skyband"]]
    assert [entry["batchId"] for entry in progress] == list(range(FILES))
    assert progress[0]["candidateRows"] == ROWS, "nothing is known yet"
    assert all(entry["candidateRows"] < ROWS / 2 for entry in progress[1:])
    assert sum(entry["rejected"] for entry in progress) == FILES
    assert sum(entry["late"] for entry in progress) >= FILES - 2


def test_options_of_the_algorithm_reach_every_task_and_stay(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", range(2))
    algorithm = "rapf(recent=0.2, cells=4)"
    follow(spark, tmp_path, algorithm=algorithm).awaitTermination()
    _, expected = local(2, algorithm)
    assert [row | {"batch": None} for row in told(tmp_path)] == [row | {"batch": None} for row in expected]
    with pytest.raises(sb.InputError, match=r"algorithm was 'rapf\(recent=0.2, cells=4\)', and now it is 'rapf'"):
        follow(spark, tmp_path, algorithm="rapf(recent=0.05)")
    follow(spark, tmp_path, algorithm="rapf(cells=4, recent=2e-1)").awaitTermination()


def test_a_stream_goes_on_and_a_replayed_batch_writes_the_same(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", range(3))
    follow(spark, tmp_path).awaitTermination()
    before = told(tmp_path)
    (tmp_path / "state" / "commits" / "2").unlink()
    (tmp_path / "state" / "commits" / ".2.crc").unlink(missing_ok=True)
    follow(spark, tmp_path).awaitTermination()
    assert told(tmp_path) == before
    write(tmp_path / "in", range(3, FILES))
    handle = follow(spark, tmp_path)
    handle.awaitTermination()
    following, _ = local()
    assert [r.id for r in handle.top("near")] == [r.id for r in following.top("near")]


def test_subscriptions_come_and_go_between_runs(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", range(2))
    handle = follow(spark, tmp_path)
    handle.awaitTermination()
    late = sb.Subscription("late", k=1, score=sb.Distance({"x": 0.0, "y": 0.0}), last=5000)
    handle.add(late)
    handle.remove("near")
    assert set(handle.subscriptions) == {"near too", "most", "boxed", "ends", "late"}
    write(tmp_path / "in", range(2, 4))
    handle = follow(spark, tmp_path)
    handle.awaitTermination()
    assert set(handle.subscriptions) == {"near too", "most", "boxed", "late"}, "the list names none that is new"
    assert handle.top("late")[0].time >= 2000, "it saw only what came"  # type: ignore[operator]
    with pytest.raises(sb.QueryError, match="there is a subscription 'late' already"):
        handle.add(late)
    with pytest.raises(sb.QueryError, match=r"query 'bad': .*'z'"):
        handle.add(sb.Subscription("bad", k=1, score="z", last=5000))
    with pytest.raises(sb.QueryError, match="there is no subscription 'near'"):
        handle.top("near")
    with pytest.raises(sb.InputError, match="belongs to a stream of subscriptions"):
        Control(tmp_path / "state")


def test_mistakes_are_told_before_spark_reads(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", range(1))
    batch = spark.read.parquet(str(tmp_path / "in"))
    with pytest.raises(sb.InputError, match="cannot start a stream on a batch DataFrame"):
        subscribe(batch, everyone(), time="t", id="id")
    with pytest.raises(sb.QueryError, match=r"query 'bad': .*'z'"):
        follow(spark, tmp_path, subscriptions=[sb.Subscription("bad", k=1, score="z", last=5)])
