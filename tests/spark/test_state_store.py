"""Groups spread over executors: the answers are those of a monitor that sees every batch itself."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.events.batch import StreamColumns
from skyband.spark import placement, state_store
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.loop import MicroBatchLoop, StreamSpec
from skyband.spark.state_store import COUNTED, HELD, answers_of

pytest.importorskip("google.protobuf")
pytestmark = pytest.mark.spark

BEGIN = 1_700_000_000_000_000
SOURCE = StreamColumns("t", "id")
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    own = spark.newSession()
    own.conf.set(PROVIDER, ROCKSDB)
    own.conf.set("spark.sql.shuffle.partitions", "2")
    own.conf.set("spark.sql.session.timeZone", "America/New_York")
    own.sparkContext.pythonExec = sys.executable  # executors need the package that is tested
    return own


@dataclass
class Stream:
    """A folder of files, one micro-batch each, and what came out of it."""

    session: Any
    folder: Path
    delay: int
    source: StreamColumns = SOURCE
    files: int = 0
    parts: list[pa.Table] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))

    def feed(self, batches: Iterable[pa.Table]) -> None:
        (self.folder / "in").mkdir(exist_ok=True)
        for batch in batches:
            path = self.folder / "in" / f"{self.files}.parquet"
            pq.write_table(batch, path)
            os.utime(path, (1_000_000_000 + self.files,) * 2)  # the order in which Spark takes them
            self.files += 1

    def run(self, queries: Sequence[sb.Query], breaks_at: int | None = None, **options: Any) -> None:
        """Take in what is there, until Spark has nothing left to do or the sink breaks."""

        def sink(part: Any, batch: int) -> None:
            if batch == breaks_at:
                raise RuntimeError("the sink broke")
            outcome = plan.outcome(part.toArrow())
            self.parts.append(outcome.answers)
            for name in self.counts:
                self.counts[name] += outcome.changes[name]

        schema = self.session.read.parquet(str(self.folder / "in")).schema
        df = self.session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        answers, plan = answers_of(df, queries, source=self.source, delay=self.delay, **options)
        writer = answers.writeStream.foreachBatch(sink)
        stream = writer.option("checkpointLocation", str(self.folder / "state")).trigger(availableNow=True).start()
        try:
            assert stream.awaitTermination(600)
        finally:
            stream.stop()

    def answers(self) -> pa.Table:
        return in_order(pa.concat_tables(self.parts))


def in_order(table: pa.Table) -> pa.Table:
    keys = ("query", "window_end", "partition", "rank", "unique_rank", "id", "previous_rank")
    return table.sort_by([(name, "ascending") for name in keys if name in table.column_names])


def expected(monitor: sb.Monitor, batches: Iterable[pa.Table], delay: int) -> pa.Table:
    """Return what a monitor answers that advances after each batch, as Spark does before the next."""
    parts = []
    for batch in batches:
        monitor.push(batch)
        parts.append(monitor.advance(monitor.newest - delay).table(quality=True))
    return in_order(pa.concat_tables([part for part in parts if part.num_rows], promote_options="permissive"))


def same(ours: pa.Table, truth: pa.Table) -> None:
    assert set(ours.column_names) == set(truth.column_names)
    truth = truth.select(ours.column_names)
    assert ours.num_rows == truth.num_rows
    for mine, right in zip(ours.to_pylist(), truth.to_pylist(), strict=True):
        assert mine == right


def random_batches(seed: int, *, unit: int, disorder: int, text: bool, n: int = 400, cuts: int = 5) -> list[pa.Table]:
    """Draw events of 12 groups and NULL, with ties, rejected rows and a flush at the end."""
    rng = np.random.default_rng(seed)
    time = BEGIN + (np.arange(n) // 2 - rng.integers(0, disorder + 1, n)) * unit
    score = rng.choice([rng.integers(0, 5, n).astype(float), rng.normal(size=n)])
    ids = rng.integers(2**60, 2**60 + 9, n)
    group = rng.integers(0, 13, n)
    missing = {name: rng.integers(0, 40, n) == 0 for name in ("t", "id", "x")}
    score[rng.integers(0, 60, n) == 0] = np.inf
    table = pa.table(
        {
            "t": pa.array(time, pa.int64(), mask=missing["t"]),
            "id": pa.array([f"é{i}" for i in ids] if text else ids, mask=missing["id"]),
            "x": pa.array(score, mask=missing["x"]),
            "g": pa.array(group, pa.int64(), mask=group == 12),
            "note": pa.array([f"{g}/{i}" for i, g in enumerate(group)]),
            "seen": pa.array(time, pa.timestamp("us", "UTC")),
        }
    )
    edges = np.linspace(0, n, cuts + 1).astype(int)
    batches = [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    last = {"t": BEGIN + n * 1_000 * unit, "id": "last" if text else 1, "x": 0.0, "g": 0, "note": "", "seen": None}
    return [*batches, pa.Table.from_pylist([last], table.schema)]


def window(size: int, slide: int | None = None, *, unit: int, **more: Any) -> sb.Window:
    return sb.Window(size * unit, slide=(slide or size) * unit, **more)


def test_equals_a_local_run_with_the_same_batches(session: Any, tmp_path: Path) -> None:
    unit = 1_000  # Spark's watermark counts milliseconds, so both have the same
    batches = random_batches(1, unit=unit, disorder=60, text=True)
    batches.insert(2, batches[1].set_column(0, "t", pa.nulls(batches[1].num_rows, pa.int64())))
    queries = [
        sb.Query("best", k=2, score="x", window=window(20, 5, unit=unit), partition_by="g", distinct="best"),
        sb.Query("low", k=3, score="x + 1", window=window(13, unit=unit), partition_by="g", order="asc"),
        sb.Query("all", k=1, score="x", window=window(7, 3, unit=unit, closed="right"), partition_by="g",
                 select=("note", "seen"), where="x < 3"),
        sb.Query("latest", k=2, score="x", window=window(20, 10, unit=unit), partition_by="g", distinct="latest"),
    ]  # fmt: skip
    stream = Stream(session, tmp_path, delay=10 * unit)
    stream.feed(batches)
    stream.run(queries, buckets=5)
    monitor = sb.Monitor(queries, time="t", id="id")
    same(stream.answers(), expected(monitor, batches, stream.delay))
    stats = monitor.stats()
    assert min(stats.late, stats.partly_late, stats.rejected) > 0
    counts = {"rejected": stats.rejected, "late": stats.late, "partlyLate": stats.partly_late, "ahead": 0}
    assert stream.counts == counts


def test_shared_ranks_equal_a_local_run(session: Any, tmp_path: Path) -> None:
    unit = 1_000
    batches = random_batches(4, unit=unit, disorder=8, text=True)
    batches = [batch.set_column(2, "x", pc.round(batch["x"])) for batch in batches]
    common: dict[str, Any] = {"score": "x", "partition_by": "g"}
    queries = [
        sb.Query("with", k=1, ties="with", max_ties=3, window=window(40, 10, unit=unit), **common),
        sb.Query("dense", k=2, ties="dense", window=window(30, unit=unit), emit="changes", **common),
        sb.Query("first", k=2, prefer="earliest", window=window(20, 5, unit=unit), select=("note",), **common),
    ]
    stream = Stream(session, tmp_path, delay=10 * unit)
    stream.feed(batches)
    stream.run(queries, buckets=4)
    truth = expected(sb.Monitor(queries, time="t", id="id"), batches, stream.delay)
    cut = truth.filter(pc.invert(truth["exact"]))
    assert 0 < cut.num_rows < truth.num_rows
    same(stream.answers(), truth)


def test_goes_on_from_its_checkpoint_and_loses_nothing_when_the_sink_breaks(session: Any, tmp_path: Path) -> None:
    unit = 777  # watermarks are rounded, which must not matter while events are in time
    batches = random_batches(2, unit=unit, disorder=8, text=False)
    # Closes the last windows of most groups, so that at the very end nothing happens but that their rows leave.
    almost_last = batches[-1].set_column(0, "t", pa.array([BEGIN + 219 * unit]))
    batches.insert(-1, almost_last)
    batches = [batch.set_column(0, "t", batch["t"].cast(pa.timestamp("us", "UTC"))) for batch in batches]
    queries = [
        sb.Query("top", k=2, score="x", window=window(10, 5, unit=unit), partition_by="g", select=("note",)),
        sb.Query("moves", k=2, score="x", window=window(12, 4, unit=unit), partition_by="g", emit="changes"),
    ]
    stream = Stream(session, tmp_path, delay=8 * unit)
    stream.feed(batches[:4])
    with pytest.raises(Exception, match="the sink broke"):
        stream.run(queries, breaks_at=2, buckets=4)
    assert len(stream.parts) == 2
    stream.run(queries, buckets=4)
    stream.feed(batches[4:])
    stream.run(queries, buckets=4)
    same(stream.answers(), expected(sb.Monitor(queries, time="t", id="id"), batches, stream.delay))


def test_takes_up_other_queries_after_a_restart(session: Any, tmp_path: Path) -> None:
    unit = 1_000
    by: dict[str, Any] = {"partition_by": "g"}
    kept = sb.Query("kept", k=1, score="x", window=window(30, 10, unit=unit), **by)
    gone = sb.Query("gone", k=2, score="x", window=window(30, 10, unit=unit), select=("note",), **by)
    grows = sb.Query("changed", k=1, score="x", window=window(25, unit=unit), **by)
    other = sb.Query("other", k=1, score="x", window=window(30, 10, unit=unit), **by)
    before = [kept, gone, grows, other]
    after = [
        sb.Query("other", k=1, score="x * 2", window=window(30, 10, unit=unit), select=("seen",), **by),
        sb.Query("changed", k=2, score="x", window=window(25, unit=unit), **by),
        kept,
        sb.Query("new", k=1, score="x", window=window(28, 1, unit=unit), **by),
    ]
    *batches, last = random_batches(3, unit=unit, disorder=5, text=True, cuts=4)
    rest = batches.pop()
    rest = rest.filter(pa.array([group == 0 for group in rest["g"].to_pylist()]))  # most buckets are idle by now
    # Moves the watermark from 143 to 147: no window ends there before the restart, some do of the new query.
    nudge = pa.Table.from_pylist([rest.to_pylist()[0] | {"t": BEGIN + 152 * unit}], rest.schema)
    stream = Stream(session, tmp_path, delay=5 * unit)
    stream.feed([*batches, nudge])
    stream.run(before, buckets=12)
    first, stream.parts = stream.answers(), []
    stream.feed([rest, last])
    stream.run(after, buckets=12)

    monitor = sb.Monitor(before, time="t", id="id")
    same(first, expected(monitor, [*batches, nudge], stream.delay))
    monitor.unregister("gone")
    monitor.change(after[0])
    monitor.change(after[1])
    monitor.register(after[3])
    truth, ours = expected(monitor, [rest, last], stream.delay), stream.answers()
    values = [name for name in truth.column_names if name not in ("exact", "why")]
    same(ours.select(values), truth.select(values))
    assert set(ours["query"].to_pylist()) == {"kept", "changed", "other", "new"}
    flags = zip(ours["exact"].to_pylist(), truth["exact"].to_pylist(), strict=True)
    assert all(mine or not exact for mine, exact in flags)  # a bucket may know more of its own events
    assert not all(ours["exact"].to_pylist())


def test_answers_a_hundred_thousand_groups(session: Any, tmp_path: Path) -> None:
    groups, second = 100_000, 1_000_000
    rng = np.random.default_rng(4)
    batches = []
    for i in range(4):
        group = rng.permutation(groups)
        at = BEGIN + i * 60 * second + rng.integers(0, 60 * second, groups)
        batches.append(pa.table({"t": at, "id": group % 1000, "x": rng.normal(size=groups), "g": group}))
    batches.append(pa.table({"t": [BEGIN + 3_600 * second], "id": [0], "x": [0.0], "g": [0]}))
    query = sb.Query("top", k=2, score="x", window=sb.Window("2 minutes", slide="1 minute"), partition_by="g")
    stream = Stream(session, tmp_path, delay=0)
    stream.feed(batches)
    stream.run([query])
    truth = expected(sb.Monitor([query], time="t", id="id"), batches, stream.delay)
    ours = stream.answers()
    assert ours.num_rows > 4 * groups
    assert ours.select(truth.column_names).cast(truth.schema).equals(truth)


@dataclass
class Tables:
    """A sink that keeps the answers of each batch, the last that were written, and may break."""

    found: dict[int, pa.Table] = field(default_factory=dict)
    breaks_at: int | None = None

    def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:  # noqa: ARG002 - as sinks are
        self.found[batch_id] = answers
        if batch_id == self.breaks_at:
            self.breaks_at = None
            raise RuntimeError("the sink broke")

    def answers(self) -> pa.Table:
        """Return all answers in order; the ones of a query and window in the order in which they came."""
        return pa.concat_tables([part for _, part in sorted(self.found.items()) if part.num_rows])


@pytest.fixture
def few_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have so few buckets that each has several groups, and starting them takes little time."""
    monkeypatch.setattr(answers_of, "__kwdefaults__", {**(answers_of.__kwdefaults__ or {}), "buckets": 4})


def spread(session: Any, stream: Stream, queries: Sequence[sb.Query], sink: Tables, **options: Any) -> Any:
    """Answer queries over all files that are there by sums that executors keep, and wait for the end."""
    schema = session.read.parquet(str(stream.folder / "in")).schema
    df = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(stream.folder / "in"))
    options = {"placement": "executors", "max_ahead": None} | options
    handle = sb.spark.start(
        df, queries, time="t", id="id", watermark=stream.delay, checkpoint=stream.folder / "checkpoint", sink=sink,
        trigger={"availableNow": True}, max_window_ends=None, max_cuts=None, **options,
    )  # fmt: skip
    assert handle.awaitTermination(600)
    return handle


def local(monitor: sb.Monitor, batches: Iterable[pa.Table], delay: int) -> pa.Table:
    """Return what a monitor answers that advances after each batch, in its own order."""
    parts = []
    for batch in batches:
        monitor.push(batch)
        parts.append(monitor.advance(monitor.newest - delay).table(quality=True))
    return pa.concat_tables([part for part in parts if part.num_rows], promote_options="permissive")


def sums_of(unit: int, **common: Any) -> list[sb.Query]:
    """Return aggregated queries of all kinds."""
    size, slide = 20 * unit, 5 * unit
    sliding: dict[str, Any] = {"window": sb.Window(size, slide=slide)} | common
    return [
        sb.Query("sum", k=3, score="sum(x * n)", **sliding),
        sb.Query("count", k=2, score="count(*)", ties="with", max_ties=4, order="asc", **sliding),
        sb.Query("dense", k=2, score="count(*)", ties="dense", prefer="id", **sliding),
        sb.Query("having", k=4, score="max(n)", having="count(*) > 3", select=("avg(n) AS mean", "min(x) AS least"),
                 prefer="earliest", **sliding),
        sb.Query("carried", k=2, score="sum(n)", select=("note", "seen"), where="n > 2", **sliding),
        sb.Query("distinct", k=3, score="count(DISTINCT n)", select=("approx_count_distinct(n) AS about",), **sliding),
        sb.Query("moves", k=3, score="sum(n)", emit="changes", **sliding),
        sb.Query("moving", k=2, score="count(*)", ties="with", max_ties=3, emit="changes", **sliding),
        sb.Query("entered", k=2, score="max(n)", emit="entered", having="count(*) > 2", **sliding),
        sb.Query("tumbling", k=1, score="avg(n)", **(common | {"window": sb.Window(13 * unit, closed="right")})),
        sb.Query("ever", k=2, score="sum(n)", **(common | {"window": sb.Window.all_time(every=30 * unit)})),
    ]  # fmt: skip


def with_numbers(batches: Sequence[pa.Table], seed: int) -> list[pa.Table]:
    """Return batches with a column of small whole numbers, and scores that add up the same in any order.

    Time jumps less at the end: each window on the way is answered, in each bucket.
    """
    rng = np.random.default_rng(seed)
    scores = [pc.divide(pc.round(pc.multiply(batch["x"], 8.0)), 8.0) for batch in batches]
    scores = [pc.if_else(pc.is_finite(score), score, None) for score in scores]
    numbers = [
        pa.array(rng.integers(0, 9, batch.num_rows), mask=rng.random(batch.num_rows) < 0.05) for batch in batches
    ]
    tables = [batch.set_column(2, "x", score) for batch, score in zip(batches, scores, strict=True)]
    tables[-1] = tables[-1].set_column(0, "t", pa.array([BEGIN + 300_000]))
    return [table.append_column("n", number) for table, number in zip(tables, numbers, strict=True)]


@pytest.mark.parametrize(
    ("common", "text"),
    [
        ({}, True),
        ({}, False),
        ({"group_by": "g"}, True),
        ({"group_by": ("g", "length(note) AS long")}, True),
        ({"partition_by": "g"}, False),
        ({"partition_by": "g", "group_by": "n % 3 AS third"}, False),
    ],
)
@pytest.mark.usefixtures("few_buckets")
def test_sums_equal_a_local_run(session: Any, tmp_path: Path, common: dict[str, Any], text: bool) -> None:
    unit = 1_000
    batches = with_numbers(random_batches(5, unit=unit, disorder=30, text=text), 6)
    queries, sink = sums_of(unit, **common), Tables()
    stream = Stream(session, tmp_path, delay=10 * unit)
    stream.feed(batches)
    handle = spread(session, stream, queries, sink)
    monitor = sb.Monitor(queries, time="t", id="id")
    truth, ours = local(monitor, batches, stream.delay), sink.answers()
    assert {*ours["query"].to_pylist()} == {query.name for query in queries}
    if common.get("partition_by"):
        truth, ours = in_order(truth), in_order(ours)
    same(ours, truth)
    stats = monitor.stats()
    assert min(stats.partly_late, stats.rejected) > 0
    totals = handle.checkpoint.status()["totals"]
    assert totals == {"late": stats.late, "partlyLate": stats.partly_late, "rejected": stats.rejected, "ahead": 0}
    assert handle.progress[-1]["kept"] > 0


@pytest.mark.usefixtures("few_buckets")
def test_sums_go_on_from_a_checkpoint_and_changes_too(session: Any, tmp_path: Path) -> None:
    unit = 1_000
    batches = with_numbers(random_batches(8, unit=unit, disorder=8, text=True), 9)
    queries = [query for query in sums_of(unit, group_by="g") if query.name in ("sum", "moves", "moving", "entered")]
    stream, sink = Stream(session, tmp_path, delay=8 * unit), Tables(breaks_at=2)
    stream.feed(batches[:4])
    with pytest.raises(Exception, match="the sink broke"):
        spread(session, stream, queries, sink)
    broken = sink.found[2]
    spread(session, stream, queries, sink)
    assert sink.found[2].equals(broken), "a replayed batch tells the same"
    stream.feed(batches[4:])
    spread(session, stream, queries, sink)
    same(sink.answers(), local(sb.Monitor(queries, time="t", id="id"), batches, stream.delay))


@pytest.mark.usefixtures("few_buckets")
def test_sums_take_up_other_queries_after_a_restart(session: Any, tmp_path: Path) -> None:
    unit = 1_000
    of = {query.name: query for query in sums_of(unit)}
    changed = sb.Query("count", k=1, score="count(x)", window=sb.Window(20 * unit, slide=5 * unit))
    before, after = [of["sum"], of["moves"], of["count"]], [of["moves"], changed, of["dense"], of["sum"]]
    *batches, last = with_numbers(random_batches(3, unit=unit, disorder=5, text=True, cuts=4), 2)
    rest = batches.pop()
    # The first rows after the restart are of one id: other buckets know only that they have missed something.
    first = rest.filter(pc.equal(rest["id"], rest["id"].drop_null()[0]))
    stream, sink = Stream(session, tmp_path, delay=5 * unit), Tables()
    stream.feed(batches)
    spread(session, stream, before, sink)
    told, sink.found = sink.answers(), {}
    stream.feed([first, rest, last])
    spread(session, stream, after, sink)

    monitor = sb.Monitor(before, time="t", id="id")
    same(told, local(monitor, batches, stream.delay))
    monitor.unregister("count")
    monitor.register(changed, of["dense"])
    truth, ours = in_order(local(monitor, [first, rest, last], stream.delay)), in_order(sink.answers())
    same(ours, truth)
    assert {*ours.filter(pc.invert(ours["exact"]))["query"].to_pylist()} == {"count", "dense"}


@pytest.mark.usefixtures("few_buckets")
def test_goes_on_where_its_checkpoint_began(session: Any, tmp_path: Path, caplog: Any, monkeypatch: Any) -> None:
    batches = with_numbers(random_batches(1, unit=1_000, disorder=0, text=True, cuts=2), 2)
    query = sb.Query("most", k=2, score="sum(n)", window=window(20, unit=1_000))
    monkeypatch.setattr(placement, "MOST_ON_DRIVER", 1_000)
    began: list[str] = []
    for where in ("executors", "driver"):
        (tmp_path / where).mkdir()
        stream, sink = Stream(session, tmp_path / where, delay=0), Tables()
        stream.feed(batches[:1])
        spread(session, stream, [query], sink, placement="auto" if where == "driver" else where)
        stream.feed(batches[1:])
        handle = spread(session, stream, [query], sink, placement="auto")
        same(sink.answers(), local(sb.Monitor([query], time="t", id="id"), batches, 0))
        began.append(handle.status["placement"])
        assert handle.checkpoint.placement == where
    assert began[0].startswith("executors, as its checkpoint began; ")
    assert began[1].startswith("driver, as its checkpoint began; ")
    advice = handle.status["advice"]
    assert "outgrow the driver" in advice
    assert f"advice: {advice}" in handle.explain().splitlines()
    assert [record.message for record in caplog.records].count(advice) == 1


def started(session: Any, folder: Path, queries: Sequence[sb.Query], place: Any) -> Any:
    """Read what there is with a watermark of ten milliseconds."""
    schema = session.read.parquet(str(folder / "in")).schema
    df = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    handle = sb.spark.start(
        df, queries, time="t", id="id", watermark="10 milliseconds", checkpoint=folder / place,
        trigger={"availableNow": True}, placement=place,
    )  # fmt: skip
    assert handle.awaitTermination(600)
    return handle


def test_progress_is_that_of_the_driver(session: Any, tmp_path: Path) -> None:
    unit = 1_000
    batches = random_batches(7, unit=unit, disorder=60, text=True, cuts=3)
    queries = [
        sb.Query("top", k=2, score="x", window=window(20, 10, unit=unit), partition_by="g"),
        sb.Query("low", k=3, score="x", window=window(20, 10, unit=unit), partition_by="g", order="asc"),
    ]
    stream = Stream(session, tmp_path, delay=0)
    for some in (batches[:2], batches[2:3]):  # the second run goes on with the numbers of the first
        stream.feed(some)
        driver, executors = (started(session, tmp_path, queries, place) for place in ("driver", "executors"))
        counts = [
            [tuple(entry[name] for name in COUNTED) for entry in handle.progress] for handle in (driver, executors)
        ]
        # Executors answer in a batch of its own what the last rows closed; it counts nothing.
        assert [found for found in counts[1] if any(found)] == [found for found in counts[0] if any(found)]
        marks = [list(dict.fromkeys(e["watermark"] for e in handle.progress)) for handle in (driver, executors)]
        assert marks[1] == [None, *marks[0]]
        last = [{name: handle.progress[-1][name] for name in ("kept", "watermark")} for handle in (driver, executors)]
        assert last[1] == last[0]
        assert last[1]["kept"] > 0
    totals = [handle.checkpoint.status()["totals"] for handle in (driver, executors)]
    assert totals[1] == totals[0]
    assert totals[1].pop("ahead") == 0
    assert min(totals[1].values()) > 0
    assert executors.lastProgress["skyband"] == executors.progress[-1]
    assert 0 < last[1]["kept"] <= executors.progress[-1]["keptLimit"]
    assert executors.progress[-1]["stateBytes"] > 0
    kept, size = (executors.progress[-1][name] for name in ("kept", "stateBytes"))
    said = f"executors, as start was asked; {kept:,} rows are kept ({size / 1e6:,.1f} MB) in Spark's state store"
    assert executors.status["placement"] == executors.progress[-1]["placement"] == said
    assert executors.explain().startswith(f"placement: {said}\n2 queries")
    assert driver.explain().startswith(f"placement: driver, as start was asked; {kept:,} rows are kept (")


class Visited:
    """What executors send in one micro-batch."""

    sparkSession = None  # noqa: N815 - Spark's

    def __init__(self, watermark: int | None, **changes: int) -> None:
        self.rows = [{"watermark": watermark, "rows": 9, **dict.fromkeys(COUNTED + HELD, 1), **changes}]

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's
        kinds = {"answers": pa.binary()} | dict.fromkeys(
            ("watermark", "rows", "newest", "notAfter", "aheadAt", *COUNTED, *HELD), pa.int64()
        )
        return pa.Table.from_pylist(self.rows, pa.schema(kinds))


def test_a_replayed_batch_is_counted_once(tmp_path: Path) -> None:
    query = sb.Query("q", **OK)
    schema = pa.schema({"t": pa.timestamp("us"), "id": pa.int64(), "x": pa.float64(), "g": pa.int64()})
    plan = state_store.Plan((query,), SOURCE, "staircase", "", (), schema, schema)
    folder = Checkpoint(tmp_path)
    spec = StreamSpec(SOURCE, schema, 0, "staircase", folder)
    handle = MicroBatchLoop(spec, state_store.StateStoreJob(spec, plan))
    visits = [Visited(None), Visited(1_000, late=5, kept=-1), Visited(None, kept=7)]
    for number in (0, 1, 1, 2, 2):
        handle(visits[number], number)
    assert folder.status()["totals"] == {"late": 7, "partlyLate": 3, "rejected": 3, "ahead": 3}
    entries = folder.status()["progress"]
    assert [entry["kept"] for entry in entries] == [1, 0, 7]
    assert [entry["late"] for entry in entries] == [1, 5, 1]
    assert [entry["watermark"] for entry in entries] == [None, *["1970-01-01T00:00:01+00:00"] * 2]
    (tmp_path / "skyband" / "status.json").unlink()
    handle(visits[2], 3)
    assert folder.status()["progress"][-1]["kept"] is None, "what was kept before is not known"


OK: dict[str, Any] = {"k": 1, "score": "x", "window": sb.Window("1 minute"), "partition_by": "g"}
SUM: dict[str, Any] = {"k": 1, "score": "sum(x)", "window": sb.Window("1 minute")}


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([], "no query"),
        ([OK | {"partition_by": None}], "no partition_by.*placement='driver'"),
        ([OK | {"window": sb.Window("9 events")}], "counts events.*placement='driver'"),
        ([OK | {"emit": "early"}], "early answers.*placement='driver'"),
        ([OK, OK | {"partition_by": "id"}], "one way only"),
        ([SUM, SUM | {"group_by": "g"}], r"spread by id \(query 'q0'\) and g \(query 'q1'\).*one way only"),
        ([OK, SUM | {"group_by": "g"}], "'q1' ranks all ids.*'q0' has partition_by.*a stream for each"),
        ([SUM | {"emit": "early"}], "early answers.*placement='driver'"),
        ([SUM | {"join": sb.Join("fans"), "score": "sum(x) + fans"}], "joins.*placement='driver'"),
        ([OK | {"score": "price"}], "no column 'price'"),
        ([OK | {"select": ("price",)}], "select names 'price'"),
    ],
)
def test_refuses_queries_that_buckets_cannot_answer(session: Any, queries: list[Any], message: str) -> None:
    made = [sb.Query(f"q{i}", **query) for i, query in enumerate(queries)]
    stream = session.readStream.format("rate").load().selectExpr("timestamp t", "value id", "1.0D x", "value % 9 g")
    with pytest.raises(sb.SkybandError, match=message):
        answers_of(stream, made, source=SOURCE, delay=0)


def test_refuses_what_spark_cannot_do(session: Any) -> None:
    query = sb.Query("q", **OK)
    columns = ("timestamp t", "value id", "1.0D x", "value % 9 g")
    stream = session.readStream.format("rate").load().selectExpr(*columns)
    with pytest.raises(sb.QueryError, match="already a query named 'q'"):
        answers_of(stream, [query, query], source=SOURCE, delay=0)
    plain = session.newSession()
    plain.conf.set(PROVIDER, ROCKSDB.replace("RocksDB", "HDFSBacked"))
    stream = plain.readStream.format("rate").load().selectExpr(*columns)
    with pytest.raises(sb.InputError, match=f"HDFSBacked.*spark.conf.set.*{ROCKSDB}"):
        answers_of(stream, [query], source=SOURCE, delay=0)


def test_a_checkpoint_stays_with_its_buckets(session: Any, tmp_path: Path) -> None:
    batch = pa.table({"t": [BEGIN] * 20, "id": range(20), "x": [1.0] * 20, "g": range(20)})
    stream = Stream(session, tmp_path, delay=0)
    stream.feed([batch])
    stream.run([sb.Query("q", **OK)], buckets=1)
    stream.feed([batch])
    with pytest.raises(Exception, match=r"made with staircase in 1 buckets of g.*this run has staircase in 2 buckets"):
        stream.run([sb.Query("q", **OK)], buckets=2)


class Kept:
    """A value in Spark's state store."""

    def __init__(self, *value: Any) -> None:
        self.value = value

    def get(self) -> tuple[Any, ...]:
        return self.value


@pytest.mark.parametrize("columns", ["time='t', id='id', time_unit=None", "Source(time='t', id='id', time_unit=None)"])
def test_a_checkpoint_stays_readable_when_classes_are_renamed(columns: str) -> None:
    layout = f"staircase in 1 buckets of g over {state_store._columns(SOURCE)}"
    rows = pa.schema({"t": pa.timestamp("us"), "id": pa.int64(), "x": pa.float64(), "g": pa.int64()})
    plan = state_store.Plan((sb.Query("q", **OK),), SOURCE, "staircase", layout, (), rows, pa.schema([]))
    buckets = state_store._Buckets(plan)
    buckets.head = Kept(f"staircase in 1 buckets of g over {columns}", plan.version, 0, 0)
    assert [query.name for query in buckets._load(plan.monitor().snapshot()).queries] == ["q"]
