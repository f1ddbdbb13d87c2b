"""Streams from start to stop: the same answers as the core, queries that come and go, the past, side outputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.errors import InputError, QueryError
from skyband.spark.control import Control
from tests.spark.streams import assert_same_answers, core, events, rows, sorted_table, stream, write

pytestmark = pytest.mark.spark

SECOND = 1_000_000
NOW = {"availableNow": True}
TOP = sb.Query("top", k=3, score="x * 2 + y", window=sb.Window(2_000, slide=500), select=("g", "y"))


class Tables:
    """A sink that keeps its tables."""

    def __init__(self) -> None:
        self.found: dict[int, pa.Table] = {}

    def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:  # noqa: ARG002
        self.found[batch_id] = answers

    def table(self) -> pa.Table:
        return sorted_table([self.found[batch] for batch in sorted(self.found)])


def batches(seed: int, count: int = 4, n: int = 300) -> list[pa.Table]:
    rng = np.random.default_rng(seed)
    return [events(rng, n, n * 10 * b) for b in range(count)]


def go(spark: Any, folder: Path, queries: Any, sink: Any, checkpoint: Path | None = None, **options: Any) -> Any:
    """Read all that is there, and stop."""
    usual: dict[str, Any] = {"time": "t", "id": "id", "watermark": 60, "trigger": NOW}
    handle = sb.spark.start(stream(spark, folder), queries, sink=sink, checkpoint=checkpoint, **(usual | options))
    handle.awaitTermination()
    return handle


def test_the_same_answers_as_the_core(spark: Any, tmp_path: Path) -> None:
    tables = batches(1)
    queries = [
        TOP,
        sb.Query("least", k=2, score="x", order="asc", window=sb.Window(1_000), where="y > 3", partition_by="g"),
        sb.Query("ids", k=5, score="x", distinct="best", window=sb.Window(3_000, slide=700, closed="right")),
        sb.Query("last", k=5, score="x", distinct="latest", window=sb.Window(3_000, slide=700)),
        sb.Query("moves", k=3, score="x", emit="changes", window=sb.Window(1_500, slide=500)),
        sb.Query("soon", k=1, score="x", emit="early", window=sb.Window(4_000)),
    ]
    write(tmp_path / "in", tables)
    sink = Tables()
    handle = go(spark, tmp_path / "in", queries, sink, tmp_path / "checkpoint")
    assert_same_answers(sink.table(), core(queries, tables, 60, time="t", id="id"))
    assert len(handle.finish()) > 0
    last = handle.lastProgress
    assert last["numInputRows"] == 300
    assert last["skyband"]["candidateRows"] == 300
    assert {"plan", "scan", "push", "answer", "sink", "state", "total"} <= set(last["skyband"]["durationMs"])
    assert sum(p["skyband"]["rejected"] for p in handle.recentProgress) > 0
    assert handle.exception() is None
    assert not handle.isActive
    assert handle.id != handle.runId
    assert last["skyband"]["reducedBy"] == "filter"
    assert "group 1" in handle.explain()
    assert "5 rankings: Spark's filter" in handle.explain()


def test_shared_ranks_and_where_an_id_stands(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    tables = [events(rng, 300, 3_000 * b, "ties") for b in range(3)]
    window: dict[str, Any] = {"window": sb.Window(2_000, slide=500)}
    queries = [
        sb.Query("all", k=2, score="x", ties="with", **window),
        sb.Query("few", k=2, score="x", ties="dense", max_ties=9, partition_by="g", emit="changes", **window),
        sb.Query("soon", k=1, score="x", ties="with", max_ties=5, emit="early", **window),
        sb.Query("first", k=4, score="x", prefer="earliest", **window),
        sb.Query("most", k=2, score="sum(y)", ties="with", prefer="earliest", **window),
    ]
    write(tmp_path / "in", tables)
    sink = Tables()
    handle = go(spark, tmp_path / "in", queries, sink, tmp_path / "checkpoint")
    truth = core(queries, tables, 60, time="t", id="id")
    by = [
        (name, "ascending")
        for name in ("query", "window_end", "provisional", "change", "partition", "unique_rank", "rank", "id")
    ]
    ours, right = (table.sort_by(by) for table in (sink.table(), truth))
    assert max(right["unique_rank"].drop_null().to_pylist()) > 9
    assert not all(right["exact"].to_pylist())
    assert rows(ours, right.column_names) == rows(right, right.column_names)
    monitor = sb.Monitor(queries, time="t", id="id")
    for table in tables:
        monitor.push(table)
        monitor.advance(monitor.newest - 60)
    for name in ("first", "most", "all"):
        for each in range(75):
            assert handle.rank_of(name, each) == monitor.rank_of(name, each)
    assert {handle.rank_of("most", each).stands for each in range(80)} == {"ranked", "absent"}
    with pytest.raises(QueryError, match="there is no query 'none'; there are 'all', 'few'"):
        handle.rank_of("none", 1)


def test_of_a_joined_query_an_id_stands_where_the_latest_answer_has_it(spark: Any, tmp_path: Path) -> None:
    liked = sb.Query("liked", k=2, score="y + likes", window=sb.Window(1_000), join=sb.Join("likes"))
    write(tmp_path / "in", batches(6, count=2))
    likes = {"likes": lambda ids: {i: float(i) for i in ids}}
    handle = go(spark, tmp_path / "in", [liked], Tables(), tmp_path / "checkpoint", services=likes)
    first, second = handle.answers("liked").to_pylist()
    found = handle.rank_of("liked", str(second["id"]))
    assert (found.stands, found.rank, found.score, found.provisional) == ("ranked", 2, second["score"], False)
    assert found.above is not None
    assert (found.above.id, found.below) == (first["id"], None)
    assert str(found.end) == next(entry["latest"]["window_end"] for entry in handle.queries)
    assert handle.rank_of("liked", -1).stands == "below k"


def test_two_hundred_rankings_are_served_and_said_to_be(spark: Any, tmp_path: Path) -> None:
    tables = batches(3, count=3)
    queries = [sb.Query(f"q{i}", k=2, score="x", where=f"id % 200 = {i}", window=sb.Window(2_000)) for i in range(200)]
    write(tmp_path / "in", tables)
    sink = Tables()
    handle = go(spark, tmp_path / "in", queries, sink, tmp_path / "checkpoint")
    assert_same_answers(sink.table(), core(queries, tables, 60, time="t", id="id"))
    assert handle.lastProgress["skyband"]["reducedBy"] == "core"
    assert "200 rankings, more than 20: each task runs the core" in handle.explain()


def test_count_windows(spark: Any, tmp_path: Path) -> None:
    tables = [table.sort_by([("t", "ascending"), ("id", "ascending")]) for table in batches(2)]
    query = sb.Query("every", k=3, score="x", window=sb.Window("50 events", slide="20 events"))
    write(tmp_path / "in", tables)
    sink = Tables()
    go(spark, tmp_path / "in", query, sink)
    assert_same_answers(sink.table(), core([query], tables, 60, time="t", id="id"))


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "seconds", "date"])
def test_times_of_every_kind(spark: Any, tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(3)
    seconds = np.sort(rng.integers(0, 4 * 86_400, 400))
    column: pa.Array = pa.array(seconds)
    source: dict[str, Any] = {"time": "t", "id": "id"}
    if kind == "seconds":
        source["time_unit"] = "s"
    elif kind == "date":
        column = pa.array((seconds // 86_400).astype(np.int32)).cast(pa.date32())
    else:
        column = pa.array(seconds * SECOND).cast(pa.timestamp("us", "UTC" if kind == "timestamp" else None))
    table = pa.table({"t": column, "id": [f"é{i}" for i in rng.integers(0, 50, 400)], "x": rng.normal(size=400)})
    tables = [table.slice(at, 100) for at in range(0, 400, 100)]
    query = sb.Query("q", k=3, score="x", window=sb.Window("1 day", slide="12 hours"))
    write(tmp_path / "in", tables)
    sink = Tables()
    go(spark, tmp_path / "in", query, sink, watermark=0, **source)
    assert sink.table().num_rows > 10
    assert_same_answers(sink.table(), core([query], tables, 0, **source))


def test_late_and_rejected_rows_go_to_sinks_of_their_own(spark: Any, tmp_path: Path) -> None:
    tables = batches(4)
    late = tables[0].filter(pa.compute.less(tables[0]["t"], 1_000))
    tables.append(late)
    write(tmp_path / "in", tables)
    go(spark, tmp_path / "in", TOP, None, late=tmp_path / "late", rejected=tmp_path / "rejected")
    found: dict[str, list[pa.RecordBatch]] = {"late": [], "rejected": []}
    monitor = sb.Monitor([TOP], time="t", id="id", on_late=found["late"].append, on_rejected=found["rejected"].append)
    for table in tables:
        monitor.push(table)
        monitor.advance(monitor.newest - 60)
    for side, parts in found.items():
        assert parts
        truth = pa.Table.from_batches(parts).select(tables[0].column_names)
        ours = pq.read_table(tmp_path / side).select(tables[0].column_names)
        assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, truth.to_pylist()))


def test_large_integers_stay_integers(spark: Any, tmp_path: Path) -> None:
    ids = [1811111111111111111 + n for n in range(5)]
    tables = [
        pa.table({"t": pa.array([at] * 5), "id": ids, "x": pa.array([at, 2**63 - 1, 3, 4, -(2**63)], pa.int64())})
        for at in (10, 3_000, 9_000)
    ]
    window = sb.Window(2_000)
    queries = [
        sb.Query("parts", k=3, score="x * 2 - 1", window=window, partition_by="id % 10"),
        sb.Query("rest", k=3, score="x", window=window, where="id % 10 = 2"),
    ]
    write(tmp_path / "in", tables)
    sink = Tables()
    handle = go(spark, tmp_path / "in", queries, sink)
    truth = core(queries, tables, 60, time="t", id="id")
    assert_same_answers(sink.table(), truth)
    assert sink.table().schema.field("partition").type == pa.int64()
    assert set(sink.table()["partition"].to_pylist()) == {1, 3, 4, None}
    assert sum(p["skyband"]["rejected"] for p in handle.recentProgress) == 6


def test_integer_aggregates_are_exact(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    values = [2**63 - 1, -(2**63), 2**53 + 1, 2**62, 1, -1, None]
    tables = [
        pa.table(
            {
                "t": pa.array(rng.integers(at, at + 900, 80)),
                "id": pa.array(rng.integers(0, 12, 80)),
                "x": pa.array([values[n] for n in rng.integers(0, len(values), 80)], pa.int64()),
            }
        )
        for at in range(0, 5_000, 1_000)
    ]
    scores = ["sum(x) % 1000", "max(x) % 1000 - min(x) % 7", "avg(x)", "count(x) + count(*)"]
    queries = [sb.Query(s, k=12, score=s, window=sb.Window(1_000, slide=500)) for s in scores]
    write(tmp_path / "in", tables)
    sink = Tables()
    handle = go(spark, tmp_path / "in", queries, sink)
    assert_same_answers(sink.table(), core(queries, tables, 60, time="t", id="id"))
    here = sb.Monitor(queries, time="t", id="id")
    for table in tables:
        here.push(table)
        here.advance(here.newest - 60)
    unfit = [group.rejected for group in here.stats().groups]
    assert unfit[0] > 0
    assert unfit[1:] == [0, 0, 0]
    assert sum(p["skyband"]["rejected"] for p in handle.recentProgress) == unfit[0]


# Queries that come and go.


def test_a_query_from_elsewhere_starts_between_two_batches(spark: Any, tmp_path: Path) -> None:
    tables = batches(5, count=6)
    write(tmp_path / "in", tables[:3])
    sink = Tables()
    handle = go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
    assert [entry["state"] for entry in handle.queries] == ["active"]
    new = sb.Query("new", k=2, score="y - x", window=sb.Window(1_000))
    Control(tmp_path / "checkpoint").register(new)
    assert [(entry["name"], entry["state"]) for entry in handle.queries] == [("top", "active"), ("new", "pending")]
    write(tmp_path / "in", tables[3:], first=3)
    handle = go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
    assert [(entry["name"], entry["state"]) for entry in handle.queries] == [("top", "active"), ("new", "active")]

    monitor = sb.Monitor([TOP], time="t", id="id")
    truth = []
    for number, table in enumerate(tables):
        if number == 3:
            monitor.register(new)
        monitor.push(table)
        truth.append(monitor.advance(monitor.newest - 60).table(quality=True))
    assert_same_answers(sink.table(), sorted_table(truth))
    assert not all(sink.table()["exact"].to_pylist()), "it warms up"
    assert rows(handle.answers("new"), ["query"]) == [{"query": "new"}] * 2


def test_pause_resume_and_remove(spark: Any, tmp_path: Path) -> None:
    tables = batches(6, count=8)
    other = sb.Query("other", k=1, score="x", window=sb.Window(1_000))
    sink, checkpoint = Tables(), tmp_path / "checkpoint"
    for number, do in enumerate((None, "pause", "resume", "unregister")):
        write(tmp_path / "in", tables[2 * number : 2 * number + 2], first=2 * number)
        if do:
            getattr(Control(checkpoint), do)("other")
        handle = go(spark, tmp_path / "in", [TOP, other], sink, checkpoint)
        states = {entry["name"]: entry["state"] for entry in handle.queries}
        assert states["top"] == "active"
        assert states.get("other") == {"pause": "paused", "unregister": None}.get(do or "", "active")
    answered = {batch: "other" in table["query"].to_pylist() for batch, table in sink.found.items()}
    assert answered == {0: True, 1: True, 2: False, 3: False, 4: True, 5: True, 6: False, 7: False}


def test_the_list_given_to_start_is_followed(spark: Any, tmp_path: Path) -> None:
    tables = batches(7, count=6)
    checkpoint, sink = tmp_path / "checkpoint", Tables()
    deeper = sb.Query("top", k=2, score="x * 2 + y", window=sb.Window(2_000, slide=500), select=("g", "y"))
    more = sb.Query("more", k=1, score="x", window=sb.Window(1_000))
    lists: list[list[sb.Query]] = [[TOP], [deeper, more], [more]]
    for number, queries in enumerate(lists):
        write(tmp_path / "in", tables[2 * number : 2 * number + 2], first=2 * number)
        handle = go(spark, tmp_path / "in", queries, sink, checkpoint)
        assert [entry["name"] for entry in handle.queries] == [query.name for query in queries]
    deep = sink.found[3].filter(pa.compute.equal(sink.found[3]["query"], "top"))
    assert max(deep["rank"].to_pylist()) == 2
    assert all(deep["exact"].to_pylist()), "fewer of what was kept are exact at once"
    assert set(sink.found[5]["query"].to_pylist()) == {"more"}


def test_a_query_that_cannot_be_served_is_suspended_and_the_others_go_on(spark: Any, tmp_path: Path) -> None:
    tables = batches(8, count=4)
    write(tmp_path / "in", tables[:2])
    checkpoint, sink = tmp_path / "checkpoint", Tables()
    handle = go(spark, tmp_path / "in", TOP, sink, checkpoint)
    bad = sb.Query("bad", k=1, score="missing + 1", window=sb.Window(1_000))
    handle.checkpoint.submit({"do": "add", "query": bad.as_dict()})  # as one would who does not look first
    fine = sb.Query("fine", k=1, score="1 / (y - y)", window=sb.Window(1_000))  # never a score: rows are rejected
    handle.register(fine)
    write(tmp_path / "in", tables[2:], first=2)
    handle = go(spark, tmp_path / "in", TOP, sink, checkpoint)
    states = {entry["name"]: entry for entry in handle.queries}
    assert states["bad"]["state"] == "suspended"
    assert "there is no column 'missing'" in states["bad"]["error"]
    assert states["fine"]["state"] == "active"
    assert handle.lastProgress["skyband"]["rejected"] == 300
    top = sink.table().filter(pa.compute.equal(sink.table()["query"], "top"))
    assert_same_answers(top, core([TOP], tables, 60, time="t", id="id"))
    handle.unregister("bad")
    assert "bad" not in [entry["name"] for entry in handle.queries]


def test_a_query_with_absurdly_many_windows_is_suspended(spark: Any, tmp_path: Path) -> None:
    tables = batches(9, count=2)
    far = tables[1].set_column(0, "t", pa.compute.add(tables[1]["t"], 10**9))
    fine = sb.Query("fine", k=1, score="x", window=sb.Window(20, slide=1))
    write(tmp_path / "in", [tables[0], far])
    sink = Tables()
    handle = go(spark, tmp_path / "in", [TOP, fine], sink, tmp_path / "checkpoint")
    states = {entry["name"]: entry for entry in handle.queries}
    assert states["fine"]["state"] == "suspended"
    assert "event time jumps" in states["fine"]["error"]
    top = sink.table().filter(pa.compute.equal(sink.table()["query"], "top"))
    assert_same_answers(top, core([TOP], [tables[0], far], 60, time="t", id="id"))


# The past.


@pytest.mark.parametrize("reader", ["frame", "function"])
def test_a_new_query_is_filled_from_the_past(spark: Any, tmp_path: Path, reader: str) -> None:
    tables = batches(10, count=8)
    asked = []
    write(tmp_path / "in", tables[:5])
    frame = spark.read.schema(spark.read.parquet(str(tmp_path / "in")).schema).parquet(str(tmp_path / "in"))

    def past(session: Any, start: Any, end: Any) -> Any:  # noqa: ARG001
        asked.append((start, end))
        return frame

    history = frame if reader == "frame" else past
    sink, checkpoint = Tables(), tmp_path / "checkpoint"
    handle = go(spark, tmp_path / "in", TOP, sink, checkpoint, history=history)
    # Deeper, over other cuts, and over more than is kept: nothing of it can be answered from what is there.
    new = sb.Query("new", k=9, score="x * 2 + y", window=sb.Window(9_000, slide=700), partition_by="g")
    handle.register(new)
    write(tmp_path / "in", tables[5:], first=5)
    handle = go(spark, tmp_path / "in", TOP, sink, checkpoint, history=history)
    assert {entry["name"]: entry["state"] for entry in handle.queries} == {"top": "active", "new": "active"}
    found = sink.table()
    ours = found.filter(pa.compute.equal(found["query"], "new"))
    exact = ours.filter(ours["exact"])
    first = min(exact["window_start"].cast(pa.int64()).to_pylist())
    registered = 5 * 300 * 10
    assert first < registered - 5_000, "windows that had begun long before are exact"
    truth = core([new], tables, 60, time="t", id="id")
    same = {(row["window_end"], row["partition"], row["rank"]): row["id"] for row in truth.to_pylist()}
    for row in exact.to_pylist():
        assert same[row["window_end"], row["partition"], row["rank"]] == row["id"]
    assert exact.num_rows == sum(end >= exact["window_end"].to_pylist()[0] for end, _, _ in same)
    top = found.filter(pa.compute.equal(found["query"], "top"))
    assert_same_answers(top, core([TOP], tables, 60, time="t", id="id"))
    if reader == "function":
        [(start, end)] = asked
        assert 0 < (end - start).total_seconds() < 10_000 / SECOND, "only the stretch that can matter is asked for"


def test_a_longer_query_reads_only_what_lies_before_the_others(spark: Any, tmp_path: Path) -> None:
    tables, asked = batches(10, count=8), []
    write(tmp_path / "in", tables[:5])
    frame = spark.read.schema(spark.read.parquet(str(tmp_path / "in")).schema).parquet(str(tmp_path / "in"))

    def past(session: Any, start: Any, end: Any) -> Any:  # noqa: ARG001
        asked.append((start, end))
        return frame

    sink, checkpoint = Tables(), tmp_path / "checkpoint"
    handle = go(spark, tmp_path / "in", TOP, sink, checkpoint, history=past)
    new = replace(TOP, name="new", window=sb.Window(9_000, slide=700))
    handle.register(new)
    write(tmp_path / "in", tables[5:], first=5)
    go(spark, tmp_path / "in", TOP, sink, checkpoint, history=past)
    [(start, end)] = asked
    read = (end - start).total_seconds() * SECOND
    assert 6_000 < read < 9_000 - TOP.window.size + 2 * TOP.window.slide + 700, "not the whole window"
    found = sink.table().filter(pa.compute.equal(sink.table()["query"], "new"))
    assert min(found.filter(found["exact"])["window_start"].cast(pa.int64()).to_pylist()) < 5 * 300 * 10 - 5_000
    truth = core([new], tables, 60, time="t", id="id")
    same = {(row["window_end"], row["rank"]): row["id"] for row in truth.to_pylist()}
    assert all(same[row["window_end"], row["rank"]] == row["id"] for row in found.to_pylist() if row["exact"])


def test_a_function_gets_frames_and_the_session_keeps_its_settings(spark: Any, tmp_path: Path) -> None:
    tables, parts = batches(14, count=2), []
    write(tmp_path / "in", tables)
    before = dict(spark.conf.getAll)

    def keep(frame: Any, batch_id: int) -> None:
        parts.append((batch_id, frame.toArrow()))

    go(spark, tmp_path / "in", TOP, keep, tmp_path / "checkpoint")
    assert [batch for batch, _ in parts] == [0, 1]
    assert_same_answers(sorted_table([part for _, part in parts]), core([TOP], tables, 60, time="t", id="id"))
    assert dict(spark.conf.getAll) == before


# Mistakes.


def test_what_is_wrong_is_said_before_anything_is_read(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", batches(11, count=1))
    df = stream(spark, tmp_path / "in")

    def start(frame: Any = df, queries: Any = TOP, **options: Any) -> None:
        usual: dict[str, Any] = {"time": "t", "id": "id", "checkpoint": tmp_path / "c"}
        sb.spark.start(frame, queries, **(usual | options))

    batch = spark.read.parquet(str(tmp_path / "in"))
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"frame": batch}, "cannot start a stream on a batch DataFrame; make one with spark.readStream, or use"),
        ({"frame": [1]}, "cannot start a stream on a list"),
        ({"time": "ts"}, "the stream has no column 'ts' for the time"),
        ({"time": "g"}, "the time column 'g' is text; turn it into a time first"),
        ({"id": "x"}, "the id column 'x' is double"),
        ({"watermark": -1}, "watermark is -1; it must not be negative"),
        ({"algorithm": "best"}, "there is no algorithm 'best'"),
        ({"trigger": {"now": True}}, "trigger is {'now': True}; give one of"),
        ({"placement": "moon"}, "placement is 'moon'; use 'auto', 'driver' or 'executors'"),
        ({"sink": 3}, "cannot write answers to this int"),
        ({"sink": tmp_path / "out", "late": tmp_path / "out"}, "sink and late are the same folder"),
        ({"sink": tmp_path / "c"}, "checkpoint and sink are the same folder"),
        ({"history": df}, "history is a streaming DataFrame"),
        ({"history": 3}, "history is of type int"),
        ({"checkpoint": "s3a://bucket/c"}, "is not on a file system that Python can write to"),
        ({"queries": [TOP, TOP]}, "there is already a query named 'top'"),
        ({"queries": ["top"]}, "'top' is no Query"),
        ({"queries": sb.Query("q", k=1, score="nope", window=sb.Window(1))}, "there is no column 'nope'"),
        ({"queries": sb.Query("q", k=1, score="g", window=sb.Window(1))}, "a score must be number or integer"),
        ({"queries": [TOP, sb.Query("n", k=1, score="x", window=sb.Window("5 events"))]}, "its window counts events"),
    ]
    for options, message in mistakes:
        with pytest.raises((InputError, QueryError)) as caught:
            start(**options)
        assert message in str(caught.value)
    assert not (tmp_path / "c" / "offsets").exists()


def test_tiny_windows_are_refused_with_the_numbers(spark: Any, tmp_path: Path) -> None:
    table = pa.table({"t": pa.array([0, SECOND]).cast(pa.timestamp("us", "UTC")), "id": [1, 2], "x": [1.0, 2.0]})
    write(tmp_path / "in", [table])

    def query(name: str, window: sb.Window, score: str = "x") -> sb.Query:
        return sb.Query(name, k=1, score=score, window=window)

    def begin(*queries: sb.Query, **options: Any) -> Any:
        return go(spark, tmp_path / "in", queries, None, tmp_path / options.pop("folder", "checkpoint"), **options)

    tiny, often = query("tiny", sb.Window("1 us")), query("often", sb.Window("1 s", slide="1 ms"))
    with pytest.raises(QueryError, match="query 'tiny': its windows end 1,000,000 times per second of event time"):
        begin(often, tiny)
    many = [replace(often, name=f"q{number}", score=f"x + {number}") for number in range(11)]
    with pytest.raises(QueryError, match=r"query 'q10': its windows add 1,000 cuts .* to the 10,000 that the other"):
        begin(*many)
    begin(*many, max_cuts=None, folder="other")
    handle = begin(often, max_window_ends=2_000, max_cuts=2_500)
    twice = query("twice", sb.Window("1 s", slide="500 us"))
    with pytest.raises(QueryError, match=r"query 'tiny': its windows end 1,000,000 times .* allows 2,000"):
        Control(tmp_path / "checkpoint").register(tiny)
    Control(tmp_path / "checkpoint").register(twice)  # shares the panes of `often`
    with pytest.raises(QueryError, match=r"query 'other': its windows add 1,000 cuts .* to the 2,000 that the other"):
        handle.register(query("other", sb.Window("1 s", slide="1 ms"), score="-x"))


def test_a_command_is_held_to_the_limits_of_the_stream(spark: Any, tmp_path: Path) -> None:
    """Another process may have checked against those of an earlier start."""
    table = pa.table({"t": pa.array([0, SECOND]).cast(pa.timestamp("us", "UTC")), "id": [1, 2], "x": [1.0, 2.0]})
    write(tmp_path / "in", [table])
    tiny = sb.Query("tiny", k=1, score="x", window=sb.Window("1 us"))
    top = replace(tiny, name="top", window=sb.Window("1 s"))
    handle = go(spark, tmp_path / "in", top, None, tmp_path / "checkpoint")
    handle.checkpoint.submit({"do": "add", "query": tiny.as_dict()})
    write(tmp_path / "in", [table], first=1)
    go(spark, tmp_path / "in", top, None, tmp_path / "checkpoint")
    states = {entry["name"]: entry for entry in handle.queries}
    assert states["top"]["state"] == "active"
    assert states["tiny"]["state"] == "suspended"
    assert "its windows end 1,000,000 times per second" in states["tiny"]["error"]


def test_what_is_asked_of_a_handle_is_checked_at_once(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", batches(12, count=1))
    handle = go(spark, tmp_path / "in", TOP, None, tmp_path / "checkpoint")
    with pytest.raises(QueryError, match="there is already a query named 'top'"):
        handle.register(TOP)
    with pytest.raises(QueryError, match="there is no column 'z'"):
        handle.register(sb.Query("q", k=1, score="z", window=sb.Window(1)))
    for do in ("unregister", "pause", "resume", "answers"):
        with pytest.raises(QueryError, match="there is no query 'nobody'; there are 'top'"):
            getattr(handle, do)("nobody")
    with pytest.raises(InputError, match="is no checkpoint of a Skyband stream"):
        Control(tmp_path)
