"""The micro-batch loop, batch by batch: replays, restarts, commands, trials, the past, joins, and what people see.

Batches are handed to the loop as Spark would, but without a stream: so a test says what happens between two of them.
A monitor of its own is given the same batches, and every answer and number must be the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.engine.limits import WindowLimits
from skyband.errors import TooManyWindows
from skyband.events.batch import StreamColumns
from skyband.remote.remote import as_remotes
from skyband.remote.services.gateway import Gateway
from skyband.spark import columns, loop, monitor_job, trial
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.control import Control
from skyband.spark.heartbeat import Heartbeat
from skyband.spark.loop import MicroBatchLoop, StreamSpec
from skyband.spark.monitor_job import MonitorJob
from skyband.spark.reducers import guesses, ranking
from skyband.spark.reducers.ranking import RankingReducer
from skyband.spark.services import Changes
from skyband.spark.sinks import as_sink
from skyband.spark.state_store import COUNTED, HELD, Outcome, StateStoreJob
from skyband.windows import NEVER
from tests.spark.streams import assert_same_answers, rows, sorted_table
from tests.spark.test_start import Tables

pytestmark = pytest.mark.spark
DELAY, DAY = 10, 86_400_000_000
WINDOW = sb.Window(100, slide=50)
TOP = sb.Query("top", k=2, score="x", window=WINDOW, select=("g",))
NEW = sb.Query("new", k=1, score="y - x", window=sb.Window(100))
OTHER = sb.Query("other", k=1, score="x + y", window=sb.Window(100))
POISON = sb.Query("poison", k=1, score="x + 12345", window=sb.Window(100))
SCHEMA = pa.schema(
    {"t": pa.int64(), "id": pa.string(), "x": pa.float64(), "y": pa.int64(), "g": pa.string(), "v": pa.int64()}
)


def some(first: int, *, n: int = 20, step: int = 5, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Events that begin at a time, one of them without a score; which ones are best changes from pane to pane."""
    times = range(first, first + n * step, step)
    return pa.table(
        {
            "t": pa.array(times).cast(schema.field("t").type),
            "id": [f"u{t // step % 7}" for t in times],
            "x": [None if t == first + step else float((t // step * 37) % 101) for t in times],
            "y": [t // step % 10 for t in times],
            "g": [f"g{t // step % 3}" for t in times],
            "v": list(times),
        },
        schema=schema,
    )


NOTHING = some(0, n=0)


class Stream:
    """A stream whose batches are handed over one by one, and beside it a monitor that is given the same.

    Parameters
    ----------
    spark
        The session.
    folder
        Where the checkpoint is.
    queries
        What it is started with.
    options
        Fields of `StreamSpec`.
    """

    def __init__(
        self, spark: Any, folder: Path, *queries: sb.Query, schema: pa.Schema = SCHEMA, **options: Any
    ) -> None:
        self.spark, self.folder, self.schema, self.options = spark, folder / "checkpoint", schema, options
        self.sinks = {name: Tables() for name in ("sink", "late", "rejected")}
        self.source, self.delay = StreamColumns("t", "id"), options.pop("delay", DELAY)
        self.next, self.services = 0, options.pop("services", {})
        identity = {"time": "t", "id": "id", "time_unit": None, "placement": "driver", "algorithm": "staircase"}
        checkpoint = Checkpoint(self.folder)
        free: dict[str, int | None] = {"ends": None, "cuts": None}
        checkpoint.open(identity, schema, [query.as_dict() for query in queries], list(self.services), free)
        self.control = Control(self.folder)
        self.truth = sb.Monitor(queries, time="t", id="id", services=options.pop("truth", {}))
        self.start(*queries)

    def start(self, *queries: sb.Query, **options: Any) -> None:
        """Start, or start again, as another process would."""
        self.options |= options
        usual: dict[str, Any] = {
            "sink": self.sinks["sink"], "services": as_remotes(self.services), "limits": WindowLimits(None, None)
        }  # fmt: skip
        spec = StreamSpec(
            self.source, self.schema, self.delay, "staircase", Checkpoint(self.folder), **(usual | self.options)
        )
        self.loop = MicroBatchLoop(spec, MonitorJob(spec, queries))

    def give(self, table: pa.Table) -> None:
        """Hand over the next batch, or the same again where it failed."""
        self.loop(self.spark.createDataFrame(table), self.next)
        self.next += 1

    def take(self, table: pa.Table, not_after: int | None = None) -> None:
        """Hand over the next batch, and compare all that is seen then with the truth."""
        before = self.truth.stats()
        began = time.perf_counter()
        self.give(table)
        seconds = time.perf_counter() - began
        parts = [self.truth.push(table, not_after=not_after)]
        parts.append(self.truth.advance(self.mark()))
        answers = [part.table(quality=True) for part in parts if len(part)]
        assert_same_answers(sorted_table(self.answers(self.next - 1)), sorted_table(answers))
        self.check_status(parts, before, seconds)

    def mark(self) -> int | None:
        return None if self.truth.newest == NEVER or self.delay is None else self.truth.newest - self.delay

    def answers(self, batch: int) -> list[pa.Table]:
        found = self.sinks["sink"].found
        return [found[batch]] if batch in found else []

    def check_status(self, parts: Sequence[sb.Answers], before: Any, seconds: float) -> None:
        stats, entry = self.truth.stats(), self.status["progress"][-1]
        mark = self.truth.watermark
        assert entry["batchId"] == self.status["batch"] == self.next - 1
        wanted = {
            "late": stats.late - before.late, "partlyLate": stats.partly_late - before.partly_late,
            "rejected": stats.rejected - before.rejected, "ahead": stats.ahead - before.ahead,
            "answers": sum(map(len, parts)), "answerRows": stats.answer_rows - before.answer_rows,
            "watermark": None if mark is None else moment(mark).isoformat(),
        }  # fmt: skip
        assert {name: entry[name] for name in wanted} == wanted
        totals = {"late": stats.late, "partlyLate": stats.partly_late, "rejected": stats.rejected, "ahead": stats.ahead}
        assert self.status["totals"] == totals
        spent = entry["durationMs"]
        assert {"commands", "scan", "push", "answer", "sink", "state", "total"} <= set(spent)
        assert 0 <= max(spent.values()) == spent["total"] <= 1_000 * seconds + 1
        for answer in (answer for part in parts for answer in part.latest()):
            window = self.status["windows"][answer.query]
            assert (window["window_end"], window["rows"]) == (str(answer.end), len(answer))
            assert window["window_start"] == (None if answer.start is None else str(answer.start))
            assert (window["exact"], window["why"]) == (answer.exact, answer.why)
            if answer.rows:
                assert rows(self.control.answers(answer.query), ["rank", "id"]) == [
                    {"rank": row.rank, "id": row.id} for row in answer.rows
                ]

    @property
    def status(self) -> dict[str, Any]:
        return self.control.checkpoint.status()

    @property
    def states(self) -> dict[str, str]:
        return {entry["name"]: entry["state"] for entry in self.control.queries}

    @property
    def errors(self) -> dict[str, str]:
        return {entry["name"]: entry["error"] for entry in self.control.queries if "error" in entry}

    def submit(self, do: str, what: Any) -> int:
        """Ask for something, as one would who does not look first."""
        return self.control.checkpoint.submit(
            {"do": do, **({"query": what} if isinstance(what, dict) else {"name": what})}
        )


def moment(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


class Trouble:
    """What queries do to the batches that are read with them, by a clock that only they move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.does: dict[str, Callable[[Any], None]] = {}
        self.seconds: dict[str, float] = {}
        self.served: list[list[str]] = []
        """The queries of every attempt at a batch."""
        self._now: list[str] = []
        read, enter = RankingReducer.reduce, trial.Watch.__enter__

        def troubled(reducer: RankingReducer, df: Any, monitor: sb.Monitor, *progress: Any) -> Any:
            self._now = [query.name for query in monitor.queries]
            self.served.append(self._now)
            for name in self._now:
                self.does.get(name, len)([df])
            return read(reducer, df, monitor, *progress)

        def begin(watch: trial.Watch) -> trial.Watch:
            self._now = []
            return enter(watch)

        monkeypatch.setattr(RankingReducer, "reduce", troubled)
        monkeypatch.setattr(trial.Watch, "__enter__", begin)
        monkeypatch.setattr(trial.Watch, "seconds", property(lambda _: sum(self.seconds.get(n, 0) for n in self._now)))


@pytest.fixture
def trouble(monkeypatch: pytest.MonkeyPatch) -> Trouble:
    return Trouble(monkeypatch)


def breaks(_: Any) -> None:
    raise RuntimeError("poisoned\nby a query")


def hangs(dfs: list[Any]) -> None:
    """Start a job that would take for ever."""
    one = dfs[0].sparkSession.range(1_000_000_000)
    one.crossJoin(one.withColumnRenamed("id", "other")).where("id * other % 1000003 = 17").count()


class Broken(Tables):
    """A sink that fails once, after it has written."""

    whole = False

    def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:
        super().write(answers, batch_id, session)
        if not self.whole:
            self.whole = True
            raise RuntimeError("the sink broke")


def fails(stream: Stream, table: pa.Table, why: str = "the sink broke") -> None:
    """Hand over a batch that fails; it comes again then."""
    with pytest.raises(Exception, match=why):
        stream.give(table)


# Batches, replays and restarts.


def test_batches_replays_and_restarts(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "RECENT", 3)
    alive: list[Path] = []
    monkeypatch.setattr(Heartbeat, "ensure", lambda checkpoint: alive.append(checkpoint.folder))
    queries = [TOP, replace(TOP, name="soon", emit="early"), replace(NEW, name="parts", partition_by="g")]
    stream = Stream(spark, tmp_path, *queries)
    for table in (NOTHING, some(0), some(100), some(205, n=2), pa.concat_tables([some(20, n=5), some(230)])):
        stream.take(table)
    assert alive == [stream.folder] * 5
    assert [entry["batchId"] for entry in stream.status["progress"]] == [2, 3, 4]
    assert stream.status["progress"][-1]["late"] > 0
    before, shown = stream.answers(4), stream.status
    for again in range(3):  # in the same process, in another, and in one that has lost what it showed
        stream.next = 4
        if again:
            stream.start(*queries)
        if again == 2:
            (stream.folder / "skyband" / "status.json").unlink()
            (stream.folder / "skyband" / "latest").unlink()
        stream.sinks["sink"].found.pop(4)
        stream.give(pa.concat_tables([some(20, n=5), some(230)]))
        assert stream.answers(4) == before
        assert stream.status["totals"] == shown["totals"]
        assert [entry["batchId"] for entry in stream.status["progress"]] == ([4] if again == 2 else [2, 3, 4])
        assert stream.status["windows"] == shown["windows"]
    stream.take(some(330))
    stream.start(*queries)
    stream.take(NOTHING)
    stream.take(some(430, n=8))  # ends a window of the first two
    assert set(stream.control.answers()["query"].to_pylist()) == {"top", "soon", "parts"}


def test_a_batch_that_failed_counts_once(spark: Any, tmp_path: Path) -> None:
    for number, again in enumerate((False, True)):
        sink = Broken()
        sink.whole = True
        stream = Stream(spark, tmp_path / str(number), TOP, sink=sink)
        stream.sinks["sink"] = sink
        stream.take(some(0))
        sink.whole = False
        fails(stream, some(100))
        if again:
            stream.start(TOP)
        stream.take(some(100))
        stream.take(some(200))


@pytest.mark.parametrize("again", [False, True])
def test_a_replay_tells_the_same_though_sums_are_added_up_in_another_order(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:  # fmt: skip
    """Spark adds up in no fixed order: here the replay finds sums that differ in their last digits."""
    sums = sb.Query("sums", k=3, score="sum(x)", window=sb.Window(50), group_by="g")
    changes = replace(sums, name="changes", emit="changes")
    sink = Broken()
    stream = Stream(spark, tmp_path, sums, changes, sink=sink)
    stream.sinks["sink"], sink.whole = sink, True
    stream.give(some(0))
    sink.whole = False
    fails(stream, some(100))
    written = sink.found[1]
    monkeypatch.setattr(columns, "collected", off_by_a_digit(columns.collected))
    if again:
        stream.start(sums, changes)
    stream.give(some(100))
    assert stream.answers(1) == [written]
    monkeypatch.undo()
    stream.give(some(200))
    before, after = (stream.answers(batch)[0] for batch in (1, 2))
    shown = [row for row in before.to_pylist() if row["query"] == "changes" and row["window_end"] == 150]
    left = [row for row in after.to_pylist() if row["query"] == "changes" and row["change"] == "left"]
    assert {row["id"]: row["score"] for row in left}.items() <= {row["id"]: row["score"] for row in shown}.items()


def off_by_a_digit(real: Any) -> Any:
    """Return a function that adds up as another order might."""

    def collected(frame: Any) -> pa.Table:
        table = real(frame)
        if "low sum(x)" in table.column_names:
            place = table.column_names.index("low sum(x)")
            table = table.set_column(place, "low sum(x)", pc.add(table["low sum(x)"], 1e-9))
        return table

    return collected


def test_without_a_watermark_nothing_is_answered(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, TOP, delay=None)
    stream.take(some(0))
    stream.take(some(1_000))
    assert stream.status["windows"] == {}
    assert not stream.sinks["sink"].found


@pytest.mark.parametrize("t", [-(2**60), 2**60], ids=["long ago", "long after"])
def test_times_that_no_calendar_has(spark: Any, tmp_path: Path, t: int) -> None:
    stream = Stream(spark, tmp_path, TOP)
    stream.give(some(t))
    end = datetime.min if t < 0 else datetime.max
    assert stream.status["progress"][-1]["watermark"] == end.replace(tzinfo=UTC).isoformat()


def test_late_and_rejected_rows(spark: Any, tmp_path: Path) -> None:
    tables = [some(0), some(300), pa.concat_tables([some(10, n=3), some(400)]), some(500)]
    tables += [some(505, n=3), some(515, n=2)]  # which are late for some of their windows
    for sides in (("late",), ("rejected",), ("late", "rejected"), ()):
        stream = Stream(spark, tmp_path / "+".join(sides), TOP)
        stream.start(TOP, **{side: stream.sinks[side] for side in sides})
        found: dict[str, list[pa.RecordBatch]] = {"late": [], "rejected": []}
        stream.truth.intake.on_late, stream.truth.intake.on_rejected = found["late"].append, found["rejected"].append
        for number, table in enumerate(tables):
            stream.take(table)
            for side, parts in found.items():
                ours = stream.sinks[side].found.get(number)
                truth = pa.Table.from_batches(parts).select(SCHEMA.names).to_pylist() if side in sides and parts else []
                assert sorted(map(repr, [] if ours is None else ours.to_pylist())) == sorted(map(repr, truth))
                parts.clear()
        assert [entry["partlyLate"] for entry in stream.status["progress"]][-2:] == [2, 1]


# Rows from the future.


def now() -> int:
    return time.time_ns() // 1_000


@pytest.mark.parametrize("kind", ["rankings", "sums", "whole"])
def test_rows_ahead_of_the_clock(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for module in (guesses, ranking):
        monkeypatch.setattr(module, "SMALL", 10)
    sums = sb.Query("sums", k=2, score="sum(x)", window=WINDOW)
    queries = {"rankings": [TOP], "sums": [sums], "whole": [TOP, sums]}[kind]
    stream = Stream(spark, tmp_path, *queries, ahead=DAY)
    if kind == "whole":
        stream.start(*queries, rejected=stream.sinks["rejected"])
    begin = now() - 10_000

    def told() -> str | None:
        found: str | None = stream.status["degraded"]
        return found

    def batch(first: int, near: int, far: int) -> pa.Table:
        return pa.concat_tables([some(begin + first, n=near, step=1), some(now() + 2 * DAY, n=far, step=1)])

    stream.take(batch(0, 100, 0), now() + DAY)
    assert told() is None
    stream.take(batch(100, 100, 60), now() + DAY)  # few of the others come back, but they count
    assert told() is None
    with caplog.at_level("WARNING"):
        for near, far in ((100, 200), (100, 300)):
            stream.take(batch(200 if far == 200 else 300, near, far), now() + DAY)
            assert f"{far} of the {near + far} rows of the last batch were rejected" in str(told())
            assert caplog.text.count("rows of the last batch were rejected") == 1
    stream.take(NOTHING)
    assert "300 of the 400" in str(told())
    stream.start(*queries)
    stream.take(NOTHING)
    assert "300 of the 400" in str(told())
    stream.take(batch(400, 100, 0), now() + DAY)
    assert told() is None


def test_the_clock_is_read_once_per_batch(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loop.not_after(None) is None
    assert now() + DAY <= (loop.not_after(DAY) or 0) <= now() + DAY
    sink = Broken()
    stream = Stream(spark, tmp_path, TOP, ahead=1_000, sink=sink)
    stream.sinks["sink"] = sink
    first = now()
    table = pa.concat_tables([some(first), some(first + DAY)])
    fails(stream, table)
    monkeypatch.setattr(loop, "not_after", lambda _: now() + 2 * DAY)
    stream.take(table, first + DAY - 1)
    assert stream.status["totals"]["ahead"] == 20


def test_without_a_limit_any_time_will_do(spark: Any, tmp_path: Path) -> None:
    sums = sb.Query("sums", k=2, score="sum(x)", window=WINDOW)
    stream = Stream(spark, tmp_path, TOP, sums)
    stream.start(TOP, sums, late=stream.sinks["late"])
    first = now() + 2 * DAY
    stream.take(some(first))
    stream.take(some(first + 100))
    assert stream.status["degraded"] is None


# Commands, and the list that a stream is started with.


def test_queries_come_and_go(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stream = Stream(spark, tmp_path, TOP, OTHER)
    control, truth = stream.control, stream.truth
    stream.take(some(0))
    control.register(NEW)
    truth.register(NEW)
    stream.take(some(100))
    control.pause("other")
    truth.pause("other")
    stream.take(some(200))
    assert stream.states == {"top": "active", "other": "paused", "new": "active"}
    stream.start(TOP, OTHER)
    control.resume("other")
    truth.resume("other")
    deeper = replace(NEW, k=2)
    stream.submit("change", deeper.as_dict())
    truth.unregister("new")
    truth.register(deeper)
    stream.take(some(300))
    stream.take(some(400))
    assert stream.states == {"top": "active", "other": "active", "new": "active"}
    control.unregister("other")
    truth.unregister("other")
    stream.take(some(500))
    assert stream.states == {"top": "active", "new": "active"}
    assert set(stream.status["windows"]) == {"top", "new"}
    control.suspend("new")
    truth.unregister("new")
    stream.take(some(600))
    assert stream.states == {"top": "active", "new": "suspended"}
    assert stream.errors == {"new": "someone asked to suspend it"}
    control.resume("new")
    truth.register(deeper)
    stream.take(some(700))
    assert stream.states == {"top": "active", "new": "active"}
    assert stream.errors == {}
    control.suspend("new")
    truth.unregister("new")
    control.unregister("new")
    stream.take(some(800))
    assert stream.states == {"top": "active"}
    stream.start(TOP, OTHER)  # as before: whoever removed it meant it
    stream.take(some(900))
    assert stream.states == {"top": "active"}
    assert "query" not in caplog.text


def test_queries_that_cannot_be_served(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stream = Stream(spark, tmp_path, TOP, OTHER)
    stream.take(some(0))
    bad, worse = replace(NEW, score="missing + 1").as_dict(), replace(NEW, score="gone + 1").as_dict()
    odd = {"name": "odd", "k": []}
    stream.submit("add", bad)
    stream.submit("add", odd)
    stream.submit("add", replace(TOP, k=1).as_dict())  # there is one of this name
    stream.submit("change", {**OTHER.as_dict(), "k": []})  # it stays as it was
    stream.take(some(100))
    assert stream.states == {"top": "active", "other": "active", "new": "suspended", "odd": "suspended"}
    assert "there is no column 'missing'" in stream.errors["new"]
    assert [entry["query"] for entry in stream.control.queries] == [TOP.as_dict(), OTHER.as_dict(), bad, odd]
    assert caplog.text.count("there is no column 'missing'") == 1
    stream.submit("change", worse)
    stream.take(some(200))
    assert "there is no column 'gone'" in stream.errors["new"]
    stream.submit("change", replace(OTHER, score="gone").as_dict())  # nothing is left of the other one
    stream.truth.unregister("other")
    stream.submit("resume", "new")
    stream.submit("pause", "new")  # which is not served
    stream.submit("resume", "nobody")
    stream.submit("remove", "nobody")
    stream.submit("suspend", "nobody")
    stream.take(some(300))
    assert stream.states == {"top": "active", "new": "suspended", "odd": "suspended", "other": "suspended"}
    assert "there is no query 'new'" in stream.errors["new"]
    assert set(stream.status["windows"]) == {"top"}
    assert stream.status["applied"] == 11
    stream.start(TOP, OTHER)
    stream.submit("add", NEW.as_dict())
    stream.truth.register(NEW)
    stream.take(some(400))
    assert stream.states == {"top": "active", "odd": "suspended", "other": "suspended", "new": "active"}


def test_the_latest_answer_over_all_time_begins_nowhere(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, TOP, replace(OTHER, window=sb.Window.all_time(every=50)))
    stream.take(some(0))
    stream.take(some(100))
    assert {name: window["window_start"] for name, window in stream.status["windows"].items()} == {
        "top": "50", "other": None
    }  # fmt: skip


def test_ids_of_queries_by_another_key(spark: Any, tmp_path: Path) -> None:
    schema = SCHEMA.set(1, pa.field("id", pa.int64()))

    def numbered(first: int) -> pa.Table:
        return some(first).set_column(1, "id", pa.array([t % 7 for t in range(20)]))

    words = sb.Query("words", k=2, score="sum(x)", group_by="g", window=sb.Window(100))
    stream = Stream(spark, tmp_path / "text", TOP, words, schema=schema)
    for batch, first in enumerate((0, 100, 200)):
        stream.give(numbered(first))
        stream.truth.push(numbered(first))
        truth = [(a.query, row.rank, str(row.id)) for a in stream.truth.advance(stream.mark()) for row in a.rows]
        found = [tuple(row.values()) for t in stream.answers(batch) for row in rows(t, ["query", "rank", "id"])]
        assert sorted(found) == sorted(truth)
        assert {table["id"].type for table in stream.answers(batch)} == {pa.string()}, "in all batches, of all queries"

    stream = Stream(spark, tmp_path / "numbers", TOP, schema=schema)
    stream.take(numbered(0))
    stream.submit("add", words.as_dict())
    for first in (100, 200):
        stream.take(numbered(first))
    assert stream.states == {"top": "active", "words": "suspended"}
    assert "its ids, group_by g, are text" in stream.errors["words"]
    assert {table["id"].type for batch in range(3) for table in stream.answers(batch)} == {pa.int64()}


def test_limits_hold_for_queries_that_come_later(spark: Any, tmp_path: Path) -> None:
    schema = SCHEMA.set(0, pa.field("t", pa.timestamp("us", "UTC")))
    stream = Stream(spark, tmp_path, TOP, schema=schema, limits=WindowLimits(30_000, 100_000))
    stream.take(some(0, schema=schema))
    tiny = replace(NEW, window=sb.Window(1))
    stream.submit("add", tiny.as_dict())
    stream.submit("add", replace(OTHER, window=sb.Window("3 events")).as_dict())
    stream.submit("add", NEW.as_dict() | {"name": "remote", "join": {"service": "nobody"}, "score": "x + nobody"})
    stream.take(some(100, schema=schema))
    assert stream.states == {"top": "active"} | dict.fromkeys(("new", "other", "remote"), "suspended")
    assert "its windows end 1,000,000 times" in stream.errors["new"]
    assert "its window counts events" in stream.errors["other"]
    assert "joins with the service 'nobody'" in stream.errors["remote"]


def test_commands_that_cannot_be_read(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stream = Stream(spark, tmp_path, TOP)
    for _ in range(monitor_job.REFUSED + 2):
        stream.control.checkpoint.submit({"do": "dance"})
    stream.take(some(0))
    assert list(stream.control.refused) == list(range(3, monitor_job.REFUSED + 3))
    stream.start(TOP)
    assert stream.control.checkpoint.submit({}) == monitor_job.REFUSED + 3
    stream.take(some(100))
    assert list(stream.control.refused) == list(range(4, monitor_job.REFUSED + 4))
    assert stream.control.refused[monitor_job.REFUSED + 3].startswith("it is {}; a command has 'do'")
    assert caplog.text.count("is left out") == monitor_job.REFUSED + 3


def test_the_list_that_a_stream_is_started_with_is_followed(
    spark: Any, tmp_path: Path, trouble: Trouble, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(spark, tmp_path, TOP)
    stream.take(NOTHING)
    stream.start(TOP, OTHER)  # before the first event
    stream.truth.register(OTHER)
    stream.take(some(0))
    stream.control.suspend("other")
    stream.control.register(NEW)
    stream.truth.unregister("other")
    stream.truth.register(NEW)
    stream.take(some(100))
    stream.control.suspend("new")
    stream.truth.unregister("new")
    stream.take(some(200))
    stream.start(TOP, OTHER, NEW)  # as they are known, though suspended
    stream.take(some(300))
    assert stream.states == {"top": "active", "other": "suspended", "new": "suspended"}
    deeper = replace(TOP, k=1)
    stream.start(deeper, replace(OTHER, k=2))
    stream.truth.unregister("top")
    stream.truth.register(deeper)
    stream.truth.register(replace(OTHER, k=2))
    stream.take(some(400))
    assert stream.states == {"top": "active", "other": "active"}
    assert set(stream.status["windows"]) == {"top"}, "what the other answered is over"
    stream.start()
    stream.truth.unregister("top")
    stream.truth.unregister("other")
    stream.take(some(500))
    assert stream.states == {}
    stream.start(TOP, POISON)  # where nothing was served they are new like others
    stream.truth.register(TOP)
    trouble.does["poison"] = breaks
    stream.take(some(600))
    assert stream.states == {"top": "active", "poison": "suspended"}
    assert caplog.text.count("query 'poison' is suspended: batch 7 failed while the query was new: poisoned") == 1


def test_a_query_that_is_removed_before_the_first_event_does_not_come_back(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, TOP)
    stream.control.unregister("top")
    stream.truth.unregister("top")
    stream.take(NOTHING)
    stream.start(TOP)  # the list is as it was
    stream.take(some(0))
    assert stream.states == {}
    stream.start(TOP, OTHER)
    stream.truth.register(OTHER)
    stream.take(some(100))
    assert stream.states == {"other": "active"}


# Queries on trial.


def test_a_new_query_that_breaks_a_batch_is_suspended(spark: Any, tmp_path: Path, trouble: Trouble) -> None:
    for budget in (30.0, None):
        stream = Stream(spark, tmp_path / str(budget), TOP, budget=budget)
        stream.take(some(0))
        stream.control.register(NEW, POISON)
        stream.truth.register(NEW)
        trouble.does["poison"] = breaks
        trouble.served.clear()
        stream.take(some(100))
        assert trouble.served == [["top", "new", "poison"], ["top", "new"]]
        assert stream.states == {"top": "active", "new": "active", "poison": "suspended"}
        assert stream.errors == {"poison": "batch 1 failed while the query was new: poisoned"}
        stream.next = 1
        stream.give(some(100))
        assert trouble.served[2:] == [["top", "new"]], "a replay knows"
        stream.control.resume("poison")
        stream.truth.register(POISON)
        trouble.does.clear()
        for number in (2, 3, 4):  # so many batches it is new
            stream.take(some(number * 100))
        assert set(stream.states.values()) == {"active"}
        trouble.does["poison"] = breaks
        fails(stream, some(500), "poisoned")
        trouble.does.clear()


def test_commands_before_the_first_batch_are_followed_in_each_attempt(
    spark: Any, tmp_path: Path, trouble: Trouble
) -> None:
    stream = Stream(spark, tmp_path, TOP)
    stream.control.register(NEW, POISON)
    stream.truth.register(NEW)
    trouble.does["poison"] = breaks
    stream.take(some(0))
    assert trouble.served == [["top", "new", "poison"], ["top", "new"]]
    assert stream.states == {"top": "active", "new": "active", "poison": "suspended"}


def test_a_query_is_new_for_three_batches(spark: Any, tmp_path: Path, trouble: Trouble) -> None:
    stream = Stream(spark, tmp_path, TOP)
    stream.take(some(0))
    stream.control.register(POISON)
    stream.truth.register(POISON)
    stream.take(some(100))
    stream.take(some(200))
    stream.start(TOP)
    trouble.does["poison"] = breaks
    stream.truth.unregister("poison")
    stream.take(some(300))
    assert stream.states == {"top": "active", "poison": "suspended"}
    stream.control.unregister("poison")
    stream.control.register(POISON)  # a new one of the old name
    stream.take(some(400))
    assert stream.errors == {"poison": "batch 4 failed while the query was new: poisoned"}


def test_whoever_was_suspended_with_others_comes_back(spark: Any, tmp_path: Path, trouble: Trouble) -> None:
    stream = Stream(spark, tmp_path, TOP)
    stream.take(some(0))
    a, b, c = (replace(NEW, name=name) for name in "abc")
    stream.control.register(a, b, c, POISON)
    stream.truth.register(a, b)
    trouble.does["poison"] = breaks
    trouble.served.clear()
    stream.take(some(100))
    assert trouble.served == [["top", "a", "b", "c", "poison"], ["top", "a", "b"]]
    said = f"batch 1 failed while the query was new: poisoned; {loop.AGAIN}"
    assert stream.errors == {"c": said, "poison": said}
    stream.control.register(OTHER)  # one new query at a time
    stream.truth.register(OTHER)
    stream.take(some(200))
    assert trouble.served[2:] == [["top", "a", "b", "other"]]
    stream.start(TOP)
    stream.truth.register(c)
    stream.take(some(300))
    assert trouble.served[3:] == [["top", "a", "b", "other", "c"]]
    stream.take(some(400))
    assert trouble.served[4:] == [["top", "a", "b", "other", "c", "poison"], ["top", "a", "b", "other", "c"]]
    assert stream.errors == {"poison": "batch 4 failed while the query was new: poisoned"}
    stream.take(some(500))
    assert trouble.served[6:] == [["top", "a", "b", "other", "c"]]


def test_one_that_is_tried_again_takes_nobody_along(spark: Any, tmp_path: Path, trouble: Trouble) -> None:
    stream = Stream(spark, tmp_path, TOP)
    stream.take(some(0))
    a, b, c, d, e = (replace(NEW, name=name) for name in "abcde")
    stream.control.register(a, b, c, POISON, d, e)
    stream.truth.register(a, b, c)
    trouble.does["poison"] = breaks
    stream.take(some(100))
    trouble.served.clear()
    stream.take(some(200))  # poison is the fourth on trial: half of them would be two
    assert trouble.served == [["top", "a", "b", "c", "poison"], ["top", "a", "b", "c"]]
    assert stream.errors["poison"] == "batch 2 failed while the query was new: poisoned"
    stream.truth.register(d)
    stream.take(some(300))
    stream.control.register(replace(POISON, name="poison 2"))
    trouble.does["poison 2"] = breaks
    trouble.served.clear()
    stream.take(some(400))  # the one that was tried again before has passed
    assert trouble.served == [["top", "a", "b", "c", "d", "poison 2"], ["top", "a", "b", "c", "d"]]


def test_a_query_that_goes_while_it_is_new_leaves_no_trial(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, TOP)
    stream.take(some(0))
    for goes in (stream.control.unregister, stream.control.suspend):
        stream.control.register(replace(NEW, name=goes.__name__))
        stream.give(some(stream.next * 100))
        assert stream.loop.job.state.trial == {goes.__name__: 1}
        goes(goes.__name__)
        stream.give(some(stream.next * 100))
        assert stream.loop.job.state.trial == {}


def test_one_that_is_tried_again_is_not_tried_beside_another_trouble(
    spark: Any, tmp_path: Path, trouble: Trouble
) -> None:
    stream = Stream(spark, tmp_path, TOP, OTHER)
    stream.take(some(0))
    a, b = (replace(NEW, name=name) for name in "ab")
    stream.control.register(a, b, POISON, replace(POISON, name="poison 2"))
    trouble.does |= dict.fromkeys(("poison", "poison 2"), breaks)
    stream.truth.register(a, b)
    stream.take(some(100))
    trouble.served.clear()

    def asks(df: Any) -> None:
        stream.control.suspend("other")
        breaks(df)

    trouble.does["poison"] = asks
    stream.truth.unregister("other")
    stream.take(some(200))
    assert trouble.served == [["top", "other", "a", "b", "poison"], ["top", "a", "b"]]
    stream.take(some(300))
    assert trouble.served[2:] == [["top", "a", "b", "poison 2"], ["top", "a", "b"]]
    assert stream.states == {"top": "active", "a": "active", "b": "active"} | dict.fromkeys(
        ("poison", "poison 2", "other"), "suspended"
    )


def test_an_error_that_no_query_is_to_blame_for_ends_the_stream(spark: Any, tmp_path: Path, trouble: Trouble) -> None:
    stream = Stream(spark, tmp_path, TOP)
    stream.take(some(0))
    stream.control.register(NEW)
    trouble.does["top"] = breaks
    fails(stream, some(100), "poisoned")

    def cancels(_: Any) -> None:
        raise RuntimeError("Job 1 cancelled")

    trouble.does["top"] = cancels
    fails(stream, some(100), "cancelled")  # by whoever stops the stream: nothing is tried again
    assert trouble.served[-3:] == [["top", "new"], ["top"], ["top", "new"]]
    trouble.does.clear()
    stream.truth.register(NEW)
    stream.take(some(100))
    assert stream.states == {"top": "active", "new": "active"}


def test_a_new_query_that_is_slow_is_suspended(spark: Any, tmp_path: Path, trouble: Trouble) -> None:
    stream = Stream(spark, tmp_path, TOP)
    stream.take(some(0))
    said = "batch {} took longer than the {} s that it may while the query is new"
    trouble.seconds = {"top": 20.0, "poison": 20.0}
    stream.control.register(POISON)
    stream.take(some(100))
    assert stream.errors == {"poison": said.format(1, 30)}
    stream.control.resume("poison")
    trouble.does["poison"], trouble.seconds["poison"] = hangs, 1_000.0
    stream.take(some(200))
    assert stream.errors == {"poison": said.format(2, 30)}
    stream.start(TOP)
    stream.control.resume("poison")
    stream.take(some(300))
    assert stream.errors == {"poison": said.format(3, 120)}, "the first batch of a process takes longer"
    trouble.does.clear()
    for top, expected in ((30.0, said.format(4, 30)), (31.0, f"{said.format(5, 30)}; {loop.AGAIN}")):
        trouble.seconds = {"top": top, "poison": 1.0}
        stream.control.resume("poison")
        stream.take(some(stream.next * 100))
        assert stream.errors == {"poison": expected}
    trouble.seconds = {"top": 1_000.0}
    stream.control.suspend("poison")
    stream.take(some(600))  # nobody is new
    stream.start(TOP, budget=None)
    stream.control.resume("poison")
    stream.truth.register(POISON)
    stream.take(some(700))
    assert stream.states == {"top": "active", "poison": "active"}


def test_a_query_of_a_batch_that_hangs_can_be_suspended_meanwhile(spark: Any, tmp_path: Path, trouble: Trouble) -> None:
    stream = Stream(spark, tmp_path, TOP, POISON)
    stream.take(some(0))

    def asks(dfs: list[Any]) -> None:
        stream.submit("suspend", "nobody")
        stream.control.suspend("poison")
        hangs(dfs)

    trouble.does["poison"] = asks
    stream.truth.unregister("poison")
    stream.take(some(100))
    assert stream.states == {"top": "active", "poison": "suspended"}
    assert stream.errors == {"poison": "someone asked to suspend it"}


def test_a_query_can_be_suspended_before_its_batch_begins_again(spark: Any, tmp_path: Path, trouble: Trouble) -> None:
    """One that is served, comes with the batch, is served again with it, or would be tried again by itself."""
    for kind in ("served", "added", "resumed", "tried again", "changed"):
        sink = Broken()
        sink.whole = True
        served = [TOP, POISON] if kind in ("served", "changed") else [TOP]
        stream = Stream(spark, tmp_path / kind, *served, sink=sink)
        stream.sinks["sink"] = sink
        stream.take(some(0))
        if kind == "resumed":
            stream.submit("add", POISON.as_dict())
            stream.control.suspend("poison")
        if kind == "tried again":
            trouble.does["poison"] = breaks
            stream.control.register(*(replace(NEW, name=name) for name in "ab"), POISON, NEW)
            stream.truth.register(*(replace(NEW, name=name) for name in "ab"))
        stream.take(some(100))
        trouble.does.clear()
        if kind == "added":
            stream.control.register(POISON)
        elif kind == "resumed":
            stream.control.resume("poison")
        elif kind == "changed":
            stream.submit("change", replace(POISON, k=2).as_dict())
        sink.whole = False
        fails(stream, some(200))
        stream.control.suspend("poison")
        trouble.does["poison"] = breaks
        trouble.served.clear()
        if kind in ("served", "changed"):
            stream.truth.unregister("poison")
        if kind == "tried again":
            stream.truth.register(NEW)
        stream.take(some(200))
        assert len(trouble.served) == 1
        assert stream.errors == {"poison": "someone asked to suspend it"}
        known = {entry["name"]: entry["query"]["k"] for entry in stream.control.queries}
        assert known["poison"] == (2 if kind == "changed" else 1)
        stream.take(some(300))
        assert stream.states["poison"] == "suspended"
        trouble.does.clear()


def test_a_query_with_too_many_windows_is_suspended(spark: Any, tmp_path: Path, trouble: Trouble) -> None:
    fine = sb.Query("fine", k=1, score="x", window=sb.Window(20, slide=1))
    stream = Stream(spark, tmp_path, replace(TOP, window=sb.Window(10**6)), fine)
    stream.take(some(0))
    stream.truth.unregister("fine")
    stream.take(some(10**8))
    assert stream.states == {"top": "active", "fine": "suspended"}
    assert "event time jumps" in stream.errors["fine"]

    for blamed in (None, "ghost"):  # nobody, and one without whom it is the same

        def overflows(_: Any, blamed: str | None = blamed) -> None:
            error = TooManyWindows("too many")
            error.query = blamed
            raise error

        trouble.does["top"] = overflows
        fails(stream, some(10**8 + 100), "too many")
    assert len(trouble.served) == 3 + 3


# The past.


@pytest.mark.parametrize(("n", "begin"), [(20, 400), (2, 300)], ids=["windows ended meanwhile", "at once"])
def test_a_new_query_is_filled_from_the_past(spark: Any, tmp_path: Path, n: int, begin: int) -> None:
    asked: list[tuple[datetime, datetime]] = []
    past: list[pa.Table] = []

    def history(session: Any, start: datetime, end: datetime) -> Any:
        asked.append((start, end))
        return session.createDataFrame(pa.concat_tables(past))

    stream = Stream(spark, tmp_path, TOP, history=history)
    deep = sb.Query("deep", k=3, score="x", window=sb.Window(300, slide=100))
    back: Any = None

    def take(first: int, n: int = 20) -> None:
        """As `Stream.take`, but the truth is filled where the watermark says that all of the past is there."""
        nonlocal back
        past.append(some(first, n=n, step=5 if n > 2 else 6))
        stream.give(past[-1])
        stream.truth.push(past[-1])
        if back is not None and back.high <= stream.truth.watermark:
            stream.truth.fill(deep.name, pa.concat_tables(past))
            back = None
        truth = stream.truth.advance(stream.mark()).table(quality=True)
        assert_same_answers(sorted_table(stream.answers(stream.next - 1)), sorted_table([truth]))

    for first in range(0, 600, 100):
        take(first)
    stream.control.register(deep)
    [back] = stream.truth.register(deep, history=True)
    assert (back.low, back.high) == (300, 596)
    take(600, n)
    assert stream.states == {"top": "active", "deep": "waiting"}
    assert asked == []
    take(700)
    assert stream.states == {"top": "active", "deep": "active"}
    assert asked == [(moment(begin), moment(596))], "from the first window on that was not answered yet"
    take(800)
    assert stream.status["windows"]["deep"]["exact"]
    stream.start(TOP, history=None)
    stream.truth.unregister("deep")
    stream.truth.register(replace(deep, name="later"))
    stream.control.unregister("deep")
    stream.control.register(replace(deep, name="later"))
    take(900)
    assert stream.states == {"top": "active", "later": "active"}, "it warms up"
    assert len(asked) == 1


def test_a_query_waits_where_its_past_is_gone(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, TOP, history=lambda *_: None)
    for first in range(0, 600, 100):
        stream.give(some(first))
    stream.control.register(sb.Query("deep", k=3, score="x", window=sb.Window(300, slide=100)))
    stream.give(some(600))
    stream.start(TOP, history=None)
    stream.give(some(700))
    assert stream.states == {"top": "active", "deep": "waiting"}


def test_windows_that_are_over_need_no_past(spark: Any, tmp_path: Path) -> None:
    def history(*_: Any) -> Any:
        raise AssertionError("nothing is missing")

    stream = Stream(spark, tmp_path, TOP, history=history)
    for first in range(0, 600, 100):
        stream.take(some(first))
    deep = sb.Query("deep", k=3, score="x", window=sb.Window(300, slide=100))
    stream.control.register(deep)
    stream.truth.register(deep, history=True)
    stream.take(some(5_000))
    assert stream.states["deep"] == "waiting"
    stream.give(some(5_100))
    assert stream.states["deep"] == "active"


def test_without_a_watermark_the_past_is_waited_for(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, TOP, delay=None, history=lambda *_: None)
    stream.take(some(0))
    deep = replace(TOP, name="deep", k=5)
    stream.control.register(deep)
    stream.truth.register(deep, history=True)
    stream.take(some(1_000))


# Joins and aggregates.


class Feed(Changes):
    """Changes that a test tells, by batch."""

    def __init__(self, news: dict[int, dict[str, float | None]]) -> None:
        self.news, self.asked = news, 0

    def drain(self, batch: int) -> dict[Any, float | None]:
        return self.news.get(batch, {})

    def fetch(self, ids: Sequence[Any]) -> dict[Any, float | None]:  # noqa: ARG002
        self.asked += 1
        return {}


def value(ids: Sequence[str]) -> dict[str, float | None]:
    return {name: None if name == "u3" else float(int(name[1:]) * 50 % 13) for name in ids}


JOINED = sb.Query("joined", k=2, score="x + value", window=WINDOW, join=sb.Join("value", budget=2))
SUMS = sb.Query("sums", k=2, score="sum(x)", window=WINDOW, group_by="g")


@pytest.mark.parametrize("kind", ["joined", "sums", "mixed", "whole"])
def test_joined_and_aggregated_queries(spark: Any, tmp_path: Path, kind: str) -> None:
    queries = {"joined": [JOINED], "sums": [SUMS]}.get(kind, [TOP, JOINED, SUMS])
    stream = Stream(spark, tmp_path, *queries, services={"value": value}, truth={"value": value})
    if kind == "whole":
        stream.start(*queries, late=stream.sinks["late"])
    for first in (0, 100, 200):
        stream.take(some(first))
        entry = stream.status["progress"][-1]
        if kind == "sums":
            assert "remote" not in entry
        else:
            assert entry["remote"]["refreshes"] > 0
            assert stream.status["windows"]["joined"]["refreshes"] == 2
        if kind == "whole":
            assert (entry["scans"], entry["candidateRows"]) == (1, 20)
            assert entry["reducedBy"] is None
        elif kind != "mixed":
            assert entry["candidateRows"] < 20, "one row for each pane and id or group, not one for each event"
    name = queries[-1].name
    stream.control.pause(name)
    stream.truth.pause(name)
    stream.start(*queries)
    stream.take(some(300))
    assert stream.states[name] == "paused"
    assert "refreshes" not in stream.status["windows"].get("top", {})


def test_the_first_request_of_a_stream_waits_as_after_a_restart(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed: list[Gateway] = []
    monkeypatch.setattr(Gateway, "resume", lambda self, *_: resumed.append(self))
    stream = Stream(spark, tmp_path, TOP, services={"likes": lambda ids: dict.fromkeys(ids, 1.0)})
    stream.give(some(0))
    assert resumed == [stream.loop.spec.services["likes"].gateway], "the batch before may have made requests"


def test_a_feed_of_changes(spark: Any, tmp_path: Path) -> None:
    news: dict[int, dict[str, float | None]] = {0: {"u1": 5.0}, 2: {"u1": 70.0, "u2": 90.0}, 3: {"u2": None}}
    query = replace(JOINED, join=sb.Join("value", budget=0, default=0.0))
    feed, other = Feed(news), Feed({})
    stream = Stream(spark, tmp_path, query, services={"value": feed}, truth={"value": other})
    for number, table in enumerate((NOTHING, some(0), some(100), some(200), some(300))):
        stream.give(table)
        stream.truth.push(table)
        at = None if stream.truth.newest == NEVER else stream.truth.newest
        stream.truth.push_changes("value", news.get(number, {}), at=at)
        truth = stream.truth.advance(stream.mark())
        assert_same_answers(sorted_table(stream.answers(number)), sorted_table([truth.table(quality=True)]))
    assert feed.asked == other.asked == 0


# Answers that executors made.


class Prepared:
    """Stands for what executors send."""

    queries, merges = (TOP, OTHER), False

    def __init__(self) -> None:
        self.next: Outcome | None = None

    def outcome(self, _: pa.Table) -> Outcome:
        assert self.next is not None
        return self.next


def test_answers_that_executors_made(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "RECENT", 3)
    alive: list[Path] = []
    monkeypatch.setattr(Heartbeat, "ensure", lambda checkpoint: alive.append(checkpoint.folder))
    stream = Stream(spark, tmp_path, TOP, OTHER)
    made = Prepared()
    spec = replace(stream.loop.spec, sink=as_sink(stream.sinks["sink"]))
    handle = MicroBatchLoop(spec, StateStoreJob(spec, made))  # type: ignore[arg-type]
    local = sb.Monitor([TOP, OTHER], time="t", id="id")
    local.push(pa.concat_tables([some(0), some(100)]))
    df = spark.createDataFrame(some(0, n=1))
    none = local.advance(-1_000).table(quality=True)

    def give(batch: int, answers: pa.Table, change: int, **more: Any) -> dict[str, Any]:
        changes = dict.fromkeys(COUNTED + HELD, change)
        usual = {"watermark": None, "rows": 10, "not_after": None, "ahead_at": None}
        made.next = Outcome(answers, changes, **(usual | more))
        began = time.perf_counter()
        handle(df, batch)
        seconds = time.perf_counter() - began
        shown = stream.status
        spent = shown["progress"][-1]["durationMs"]
        assert 0 <= spent["sink"] <= spent["total"] <= 1_000 * seconds + 1
        assert 0 <= spent["scan"] <= spent["total"]
        assert [entry["batchId"] for entry in shown["progress"]] == list(range(max(0, batch - 2), batch + 1))
        assert shown["progress"][-1]["answerRows"] == answers.num_rows
        return shown

    first = local.advance(100).table(quality=True)
    shown = give(0, first, 3, watermark=100)
    assert stream.sinks["sink"].found == {0: first}
    entry = shown["progress"][-1]
    assert all(entry[name] == 3 for name in COUNTED + HELD)
    assert entry["watermark"] == moment(100).isoformat()
    assert shown["totals"] == dict.fromkeys(COUNTED, 3)
    assert [(one["name"], one["state"]) for one in shown["queries"]] == [("top", "active"), ("other", "active")]
    window = {"window_start": str(moment(0)), "window_end": str(moment(100)), "exact": True, "why": None}
    assert shown["windows"] == {"top": window | {"rows": 2}, "other": window | {"rows": 1}}
    shown = give(1, none, 2)
    assert shown["progress"][-1]["watermark"] == moment(100).isoformat()
    assert all(shown["progress"][-1][name] == 5 for name in HELD)
    assert all(shown["progress"][-1][name] == 2 for name in COUNTED)
    assert shown["totals"] == dict.fromkeys(COUNTED, 5)
    assert set(stream.control.answers()["query"].to_pylist()) == {"top", "other"}
    top = local.advance(150).table(quality=True)
    for _ in range(2):  # and once more
        shown = give(2, top, 1, watermark=150)
        assert shown["totals"] == dict.fromkeys(COUNTED, 6)
        assert all(shown["progress"][-1][name] == 6 for name in HELD)
        assert set(shown["windows"]) == {"top", "other"}
        assert set(stream.control.answers()["query"].to_pylist()) == {"top", "other"}
    limit = now()
    far = {"rows": 5, "not_after": limit, "ahead_at": limit + DAY}
    assert "3 of the 5 rows" in give(3, none, 3, **far)["degraded"]
    assert "3 of the 5 rows" in give(4, none, 0, rows=0, not_after=limit)["degraded"]
    assert give(5, none, 0, rows=5)["degraded"] is None
    assert give(6, none, 0, **far)["degraded"] is None
    (stream.folder / "skyband" / "status.json").unlink()
    made.next = Outcome(none, dict.fromkeys(COUNTED + HELD, 1), None, 1, None, None)
    handle(df, 7)
    assert all(stream.status["progress"][-1][name] is None for name in HELD), "nobody knows"
    assert alive == [stream.folder] * 9
