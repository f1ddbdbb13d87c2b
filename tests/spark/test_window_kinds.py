"""Windows that grow and those of a calendar, on Spark: the same as locally, streaming and as a batch."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.spark.batch.topk import topk
from skyband.spark.reducers.base import BatchProgress
from skyband.spark.reducers.partials import PartialsReducer
from tests.conformance.test_window_kinds import calendar, growing, microseconds
from tests.spark import test_topk
from tests.spark.streams import assert_same_answers, core, events, stream, write
from tests.spark.test_reducers import DELAY, both, shown
from tests.spark.test_start import Tables

pytestmark = pytest.mark.spark
GROWING = [sb.Window.cumulative(9_000, step=1_000), sb.Window.all_time(every=1_500), sb.Window(6_000, slide=2_000)]
CALENDARS = [sb.Window.calendar("day", zone="Europe/Berlin"), sb.Window.calendar("week", zone="America/New_York")]
BASE, SCALE = microseconds(datetime(2025, 3, 28, tzinfo=UTC)), 20_000_000


def moved(table: pa.Table) -> pa.Table:
    """Spread events over some days around a change of the clocks."""
    time = table["t"].to_pylist()
    return table.set_column(0, "t", pa.array([None if t is None else BASE + t * SCALE for t in time], pa.int64()))


def drawn(seed: int, batches: int = 4, n: int = 1_500) -> list[pa.Table]:
    rng = np.random.default_rng(seed)
    return [events(rng, n, b * n * 10, str(rng.choice(["random", "rising", "ties"]))) for b in range(batches)]


@pytest.mark.usefixtures("bold")
@pytest.mark.parametrize("seed", range(3))
def test_rankings_read_through_spark_are_the_same(spark: Any, seed: int) -> None:
    alike = {"distinct": [None, "best", None][seed], "partition_by": [None, None, "g"][seed]}
    queries = [sb.Query(f"q{i}", k=3, score="x", window=w, **alike) for i, w in enumerate(GROWING)]  # type: ignore[arg-type]
    readings = both(spark, queries[seed % 2 :], drawn(seed))
    assert min(reading.candidate_rows for reading in readings) < 1_500


@pytest.mark.usefixtures("bold")
@pytest.mark.parametrize("partition_by", [None, "g"])
def test_rankings_over_calendars_read_through_spark_are_the_same(spark: Any, partition_by: str | None) -> None:
    queries = [
        sb.Query(f"q{i}", k=3, score="x", window=window, partition_by=partition_by, select=("y",))
        for i, window in enumerate(CALENDARS)
    ]
    readings = both(spark, queries, [moved(table) for table in drawn(5)])
    if partition_by is None:  # of groups over calendars, all rows come: docs/spark.md
        assert min(reading.candidate_rows for reading in readings) < 1_500, "thresholds go to the data"


@pytest.mark.parametrize("window", [*GROWING[:2], *CALENDARS])
def test_aggregates_read_through_spark_are_the_same(spark: Any, window: sb.Window) -> None:
    query = sb.Query("q", k=4, score="sum(y) + count(*)", window=window, group_by="g", select=("y",))
    tables = [moved(table) if window.kind == "calendar" else table for table in drawn(7, n=300)]
    plain, read = (sb.Monitor([query], time="t", id="id") for _ in range(2))
    reducer = PartialsReducer(read.source, tables[0].schema)
    for monitor in (plain, read):
        monitor.declare(tables[0].schema)
    for table in tables:
        reducer.reduce(spark.createDataFrame(table), read, BatchProgress())
        plain.push(table)
        assert read.newest == plain.newest
        assert shown(list(read.advance(read.newest - DELAY))) == shown(list(plain.advance(plain.newest - DELAY)))
        assert read.stats().groups[0].partly_late == plain.stats().groups[0].partly_late
        assert read.stats().groups[0].late == plain.stats().groups[0].late
    assert shown(list(read.finish())) == shown(list(plain.finish()))


def test_a_stream_answers_all_kinds_side_by_side(spark: Any, tmp_path: Path) -> None:
    tables = [moved(table) for table in drawn(11, batches=3, n=200)]
    hour = 3_600_000_000
    windows = {
        "day": sb.Window.cumulative("1 day", step="6 hours"), "ever": sb.Window.all_time(every="12 hours"),
        "berlin": CALENDARS[0], "sliding": sb.Window("1 day", slide="6 hours"),
    }  # fmt: skip
    queries = [sb.Query(name, k=3, score="x", window=window) for name, window in windows.items()]
    sums = {"k": 2, "score": "sum(y) + count(*)", "group_by": "y"}
    queries += [sb.Query(f"{name} sums", window=window, **sums) for name, window in windows.items()]  # type: ignore[arg-type]
    write(tmp_path / "in", tables)
    sink = Tables()
    handle = sb.spark.start(
        stream(spark, tmp_path / "in"), queries, time="t", id="id", watermark="6 hours", sink=sink,
        trigger={"availableNow": True}, checkpoint=str(tmp_path / "checkpoint"),
    )  # fmt: skip
    handle.awaitTermination()
    truth = core(queries, tables, 6 * hour, time="t", id="id")
    assert_same_answers(sink.table().select(truth.column_names), truth)
    assert {row["query"] for row in truth.to_pylist() if row["window_start"] is None} == {"ever", "ever sums"}


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_equals_the_oracle(spark: Any, seed: int) -> None:
    distinct = [None, "best", "latest", None][seed]
    workload = growing(seed, n=80, many=4, delay=None, distinct=distinct, partitioned=seed == 3)
    kinds = ["cumulative", "sliding" if distinct == "latest" else "all_time", "cumulative", "sliding"]
    asks = [
        replace(ask, kind=kind, size=4 * ask.slide if kind == "cumulative" else max(ask.size, ask.slide), closed="left")
        for ask, kind in zip(workload.asks, kinds, strict=True)
    ]
    test_topk.check(spark, replace(workload, asks=tuple(asks)))


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_over_a_calendar_equals_the_oracle(spark: Any, seed: int) -> None:
    test_topk.check(spark, calendar(seed, n=80, many=2, delay=None), list(test_topk.TIMES)[seed % 3])


def test_windows_of_all_time_carry_moments(spark: Any) -> None:
    table = pa.table({"t": [0, 1_000, 2_500], "id": [1, 2, 3], "x": [1.0, 3.0, 2.0]})
    table = table.append_column("at", table["t"].cast(pa.timestamp("us", "UTC")))
    query = sb.Query("q", k=2, score="x", window=sb.Window.all_time(every=1_000), select=("at",))
    found = topk(spark.createDataFrame(table), query, time="t", id="id").toArrow()
    truth = sb.run(query, table, time="t", id="id").table()
    keys = [("window_end", "ascending"), ("rank", "ascending")]
    ours, core = (part.sort_by(keys) for part in (found, truth))
    for name in ("window_end", "rank", "id", "at"):
        assert ours[name].cast(core[name].type).to_pylist() == core[name].to_pylist(), name


def test_a_time_beyond_the_calendar_is_an_error(spark: Any) -> None:
    df = spark.createDataFrame(pa.table({"t": [-(2**56)], "id": [1], "x": [1.0]}))
    query = sb.Query("q", k=1, score="x", window=CALENDARS[0])
    with pytest.raises(Exception, match="not from 1900 to 2100"):
        topk(df, query, time="t", id="id").collect()


def test_aggregates_and_ties_of_a_batch_equal_the_core(spark: Any) -> None:
    (table,) = drawn(3, batches=1, n=300)
    sums: dict[str, Any] = {"k": 3, "score": "sum(y) + count(*)", "group_by": "y"}
    queries = [
        sb.Query("ever sums", window=sb.Window.all_time(every=500), **sums),
        sb.Query("day sums", window=sb.Window.cumulative(2_000, step=500), **sums),
        sb.Query("ever ties", k=2, score="y", window=sb.Window.all_time(every=700), ties="with", partition_by="g"),
        sb.Query("day ties", k=2, score="y", window=sb.Window.cumulative(2_100, step=700), ties="dense"),
    ]  # fmt: skip
    df = spark.createDataFrame(table)
    for query in queries[:2]:
        test_topk.assert_equals_core(df, table, query, time="t", id="id")
    for query in queries[2:]:
        truth = sb.run(query, table, time="t", id="id").table()
        names = [name for name in truth.column_names if name not in ("window_start", "window_end", "time")]
        order = [("window_end", "ascending"), ("partition", "ascending"), ("unique_rank", "ascending")]
        order = [(name, how) for name, how in order if name in truth.column_names]
        ours = topk(df, query, time="t", id="id").toArrow()
        ours, truth = (part.sort_by(order) for part in (ours, truth))
        assert ours.select(names).to_pylist() == truth.select(names).to_pylist()
        for name in ("window_start", "window_end", "time"):
            assert ours[name].cast(truth[name].type).to_pylist() == truth[name].to_pylist(), name
    moved_table = moved(table)
    berlin = sb.Query("berlin sums", window=CALENDARS[0], **sums)
    test_topk.assert_equals_core(spark.createDataFrame(moved_table), moved_table, berlin, time="t", id="id")
