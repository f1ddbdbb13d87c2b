"""What happens to every micro-batch: commands, one reading, answers, sinks, state, in this order.

The order makes a batch repeatable. It starts from the state after the batch before, takes in the commands that
were settled for it, and writes under its own number; so a batch that is cut short at any point and replayed by
Spark gives the same answers once more, in place of the first ones.
"""

from __future__ import annotations

import logging
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.answer import Answers
from skyband.answers.table import joined
from skyband.engine.intake import Ranking
from skyband.engine.limits import WindowLimits
from skyband.engine.monitor import Monitor
from skyband.errors import SkybandError, TooManyWindows
from skyband.events.ahead import ahead_time, doubt
from skyband.events.batch import StreamColumns
from skyband.queries.query import Query
from skyband.remote.remote import Remote
from skyband.spark import columns
from skyband.spark.checkpoint import Checkpoint, State
from skyband.spark.control import check, query_of
from skyband.spark.heartbeat import Heartbeat
from skyband.spark.history import History
from skyband.spark.reducers.partials import PartialsReducer
from skyband.spark.reducers.ranking import BatchProgress, RankingReducer
from skyband.spark.services import Changes
from skyband.spark.sinks import Sink
from skyband.spark.sinks.base import deliver
from skyband.spark.state_store import COUNTED, HELD, Outcome, Plan
from skyband.spark.trial import TRIAL_BATCHES, Watch, allowed, ends_stream, newest_half
from skyband.windows import NEVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)
RECENT = 100
REFUSED = 20
ASKED = "someone asked to set it aside"
AGAIN = "perhaps for another reason, so it will be tried again by itself"
Blamed = dict[str, dict[str, Any]]
"""Queries that a batch is handled without, each with its `error`, and whether it was on `trial`."""


@dataclass
class StreamSpec:
    """What a stream is: its columns, its delay, where answers and side rows go, and where it is kept."""

    source: StreamColumns
    schema: pa.Schema
    delay: int | None
    algorithm: str
    checkpoint: Checkpoint
    sink: Sink | None = None
    late: Sink | None = None
    rejected: Sink | None = None
    history: History | None = None
    services: Mapping[str, Remote] = field(default_factory=dict)
    limits: WindowLimits = field(default_factory=WindowLimits)
    ahead: int | None = None
    budget: float | None = 30.0

    @property
    def feeds(self) -> dict[str, Changes]:
        """The services that tell by themselves what is new."""
        asked = {name: remote.gateway.service for name, remote in self.services.items()}
        return {name: service for name, service in asked.items() if isinstance(service, Changes)}


def not_after(ahead: int | None) -> int | None:
    """Read the clock: return the last event time that a batch may bring now; None where any will do."""
    return None if ahead is None else clock.time_ns() // 1_000 + ahead


@dataclass
class MicroBatchLoop:
    """Handles the micro-batches of a stream; given to ``foreachBatch``, so it can be pickled before its first call.

    Parameters
    ----------
    stream
        What the stream is.
    declared
        The queries that the stream was started with; those that changed since the last start are changed.
    """

    stream: StreamSpec
    declared: Sequence[Query]
    _at: int | None = None
    _live: _Live | None = None

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Handle one batch, or handle it again; where it fails, without the queries that are to blame."""
        Heartbeat.ensure(self.stream.checkpoint)
        live, cold = self._live if self._at == batch_id - 1 else None, self._live is None
        self._at = None  # what is in memory is good again only when this batch is done
        plan = self.stream.checkpoint.plan(batch_id, not_after=not_after(self.stream.ahead), aside={})
        plan = {"not_after": None, "aside": {}} | plan
        while self._at is None:
            self._live = live or _Live.load(self.stream, self.declared, batch_id)
            blamed = self._attempt(self._live, df, batch_id, plan, cold)
            if blamed is None:
                self._at = batch_id
                return
            for name, blame in blamed.items():
                logger.warning("query %r is set aside: %s", name, blame["error"])
            plan["aside"] |= blamed
            self.stream.checkpoint.replan(batch_id, plan)
            live, cold = None, False  # what it has taken in of the batch must not count twice

    def _attempt(self, live: _Live, df: DataFrame, batch_id: int, plan: dict[str, Any], cold: bool) -> Blamed | None:
        """Try to handle a batch; return whom to set aside before the next attempt, and why; None where it is done."""
        names, checkpoint = live.names(plan), self.stream.checkpoint

        def asked() -> Blamed:
            return {name: _blame(ASKED) for name in checkpoint.set_aside_since(plan["commands"]) & names}

        if found := asked():
            return found
        with Watch(df.sparkSession, lambda: bool(asked())) as watch:
            try:
                taken = live.take(df, batch_id, plan, watch, cold)
            except TooManyWindows as error:
                if error.query is None or error.query in plan["aside"]:
                    raise
                return {error.query: _blame(str(error))}
            except Exception as error:
                if watch.why == "asked":
                    return asked()
                if watch.why is None and ends_stream(error):
                    raise
                return self._tried(live, batch_id, plan, watch, error)
        if watch.is_slow:
            return self._tried(live, batch_id, plan, watch, None)
        live.finish(df, batch_id, taken)
        return None

    def _tried(self, live: _Live, batch_id: int, plan: dict[str, Any], watch: Watch, error: Exception | None) -> Blamed:
        """Return whom of those on trial to do without; where there is nobody left, nobody was to blame for an error."""
        names = [live.retried] if live.retried else newest_half(live.on_trial(plan["aside"]))
        if not names:
            plan["aside"] = {name: blame for name, blame in plan["aside"].items() if not blame["trial"]}
            self.stream.checkpoint.replan(batch_id, plan)
            assert error is not None  # without queries on trial a batch has no limit
            raise error
        if watch.why == "slow" or error is None:
            reason = f"batch {batch_id} took longer than the {watch.limit:.0f} s that it may while the query is new"
        else:
            reason = f"batch {batch_id} failed while the query was new: {str(error).strip().splitlines()[0][:300]}"
        return {name: _blame(reason, trial=True) for name in names}


@dataclass
class StateStoreLoop:
    """Writes the answers that executors made, and shows the latest; Spark keeps the state.

    Parameters
    ----------
    stream
        What the stream is.
    declared
        The queries that it was started with.
    plan
        How to read what the executors send.
    """

    stream: StreamSpec
    declared: Sequence[Query]
    plan: Plan

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Handle one batch, or handle it again."""
        Heartbeat.ensure(self.stream.checkpoint)
        began = clock.perf_counter()
        outcome = self.plan.outcome(df.toArrow())
        table = outcome.answers
        collected = clock.perf_counter()
        deliver(self.stream.sink, table, batch_id, df.sparkSession)
        status, latest = self.stream.checkpoint.status(), self.stream.checkpoint.latest()
        windows = status.get("windows", {})
        if table.num_rows:
            ends = table.group_by("query").aggregate([("window_end", "max")])
            last = table.join(ends, ["query", "window_end"], ["query", "window_end_max"], "left semi")
            windows |= {
                row["query"]: {
                    "window_start": str(row["window_start_max"]), "window_end": str(row["window_end_max"]),
                    "rows": row["rank_count"], "exact": row["exact_min"], "why": None,
                }
                for row in last.group_by("query")
                .aggregate([("window_start", "max"), ("window_end", "max"), ("rank", "count"), ("exact", "min")])
                .to_pylist()
            }  # fmt: skip
            latest = _merged([last], latest)
        spent = {"collect": collected - began, "sink": clock.perf_counter() - collected}
        seconds = {name: round(took, 6) for name, took in (spent | {"all": sum(spent.values())}).items()}
        progress, totals = self._progress(batch_id, outcome, seconds, status)
        listed = [{"name": q.name, "state": "active", "query": q.as_dict()} for q in self.declared]
        shown = {"batch": batch_id, "totals": totals, "queries": listed, "windows": windows, "progress": progress}
        shown["degraded"] = self._doubt(outcome, status.get("degraded"))
        self.stream.checkpoint.show(shown, latest)

    def _doubt(self, outcome: Outcome, before: str | None) -> str | None:
        """See whether most of a batch is ahead of the clock; one without rows changes nothing."""
        if not outcome.rows or outcome.not_after is None:
            return before if not outcome.rows else None
        return doubt(
            outcome.rows, outcome.changes["ahead"], outcome.ahead_at, outcome.not_after, self.stream.source,
            self.stream.schema,
        )  # fmt: skip

    def _progress(
        self, batch_id: int, outcome: Outcome, seconds: dict[str, float], status: dict[str, Any]
    ) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """Return the progress of this batch after that of the ones before, and what was counted in all of them.

        Executors say by how much each number changed. What is kept is not known where the status was lost.
        """
        changes, shown = outcome.changes, status.get("progress", [])
        earlier = [entry for entry in shown if entry["batchId"] < batch_id]
        again: dict[str, Any] = next((entry for entry in shown if entry["batchId"] == batch_id), {})
        before = earlier[-1] if earlier else dict.fromkeys(HELD, 0) if batch_id == 0 else {}
        counted = {name: changes[name] for name in COUNTED}
        held = {name: None if before.get(name) is None else before[name] + changes[name] for name in HELD}
        mark = before.get("watermark") if outcome.watermark is None else _moment(outcome.watermark).isoformat()
        entry = {"batchId": batch_id, **counted, "answerRows": outcome.answers.num_rows, **held, "watermark": mark}
        totals = status.get("totals", {})
        totals = {name: totals.get(name, 0) - again.get(name, 0) + count for name, count in counted.items()}
        return [*earlier[-RECENT + 1 :], entry | {"seconds": seconds}], totals


@dataclass(frozen=True)
class _Taken:
    """A batch that was taken in: what it took, the numbers before it, its answers, and when it began."""

    reading: BatchProgress
    before: Any
    answers: list[Answers]
    began: float


@dataclass
class _Live:
    """The stream between two batches."""

    stream: StreamSpec
    monitor: Monitor
    reader: RankingReducer
    joiner: PartialsReducer
    state: State
    progress: list[dict[str, Any]] = field(default_factory=list)
    latest: pa.Table | None = None
    windows: dict[str, dict[str, Any]] = field(default_factory=dict)
    degraded: str | None = None
    retried: str | None = None  # the query that this batch gives another chance
    side: dict[str, list[pa.RecordBatch]] = field(default_factory=lambda: {"late": [], "rejected": []})

    # Begin and continue.

    @classmethod
    def load(cls, stream: StreamSpec, declared: Sequence[Query], batch_id: int) -> _Live:
        """Take up the state after the batch before; begin anew where there is none."""
        state = stream.checkpoint.before(batch_id)
        if state is None:
            monitor = Monitor(
                algorithm=stream.algorithm, time=stream.source.time, id=stream.source.id,
                time_unit=stream.source.time_unit, services=stream.services,
            )  # fmt: skip
            state = State(b"")
            for remote in stream.services.values():
                remote.gateway.resume()  # the first batch may be a replay, too
        else:
            monitor = Monitor.restore(state.monitor, services=stream.services)
        whole = stream.late is not None or stream.rejected is not None
        reader = RankingReducer(stream.source, stream.schema, stream.delay, whole)
        live = cls(stream, monitor, reader, PartialsReducer(stream.source, stream.schema), state)
        status = stream.checkpoint.status()
        live.progress = [entry for entry in status.get("progress", []) if entry["batchId"] < batch_id]
        live.windows = status.get("windows", {})
        live.degraded = status.get("degraded")
        live.latest = stream.checkpoint.latest()
        monitor.intake.on_late = live.side["late"].append if stream.late else None
        monitor.intake.on_rejected = live.side["rejected"].append if stream.rejected else None
        live._declare(declared)
        return live

    def _declare(self, declared: Sequence[Query]) -> None:
        """Follow the list of queries that the stream is started with: what is new, gone or different in it."""
        before = {given["name"]: given for given in self.state.declared}
        now = {query.name: query.as_dict() for query in declared}
        for name in before.keys() - now.keys():
            self._apply({"do": "remove", "name": name})
        known = {query.name: query.as_dict() for query in self.monitor.queries}
        known |= {name: found["query"] for name, found in self.state.aside.items()}
        if self.monitor.newest == NEVER and not known:
            self._announce(declared)
            self.monitor.register(*declared)
        else:
            for name, given in now.items():
                if given not in (before.get(name), known.get(name)):
                    self._apply({"do": "change" if name in known else "add", "query": given})
        self.state.declared = list(now.values())

    # One batch.

    def take(self, df: DataFrame, batch_id: int, plan: dict[str, Any], watch: Watch, cold: bool) -> _Taken:
        """Take one batch in and answer what it closes; what the plan sets aside is set aside before.

        Parameters
        ----------
        df, batch_id
            The batch.
        plan
            What was settled for it.
        watch
            Is told how long the batch may take while queries are on trial.
        cold
            Whether it is the first of this process.
        """
        began = clock.perf_counter()
        limit, aside = plan["not_after"], plan["aside"]
        for command in self.stream.checkpoint.commands(self.state.applied, plan["commands"]):
            self._apply(command, aside)
        self.state.applied = plan["commands"]
        for name, blame in aside.items():
            self._set_aside(name, blame)
        self.retried = None
        self._retry(aside)
        earlier = [entry["seconds"]["all"] for entry in self.progress]
        usual = None if self.stream.budget is None else allowed(self.stream.budget, earlier, cold)
        watch.limit = usual if self.on_trial(aside) else None
        commands = clock.perf_counter() - began
        before = self.monitor.stats()
        reading = self._read(df, limit)
        reading.seconds["commands"] = commands
        self._doubt(df, reading, self.monitor.stats().ahead - before.ahead, limit)
        with reading.phase("answer"):
            self._fill(df.sparkSession)
            for name, feed in self.stream.feeds.items():
                since = self.monitor.newest if self.monitor.newest > NEVER else None
                self.monitor.push_changes(name, feed.drain(batch_id), at=since)
            mark = None if self.stream.delay is None else self.monitor.newest - self.stream.delay
            answers = [*reading.answers, self.monitor.advance(mark if self.monitor.newest > NEVER else None)]
        tried = [name for name, blame in aside.items() if blame["trial"]]
        if len(tried) > 1 or (usual is not None and watch.seconds > usual):  # slow without them, too
            for name in tried:
                self.state.aside[name] |= {"retry": True, "error": f"{aside[name]['error']}; {AGAIN}"}
        return _Taken(reading, before, answers, began)

    def finish(self, df: DataFrame, batch_id: int, taken: _Taken) -> None:
        """Write the answers of a batch that was taken in, and keep the state."""
        reading, answers = taken.reading, taken.answers
        with reading.phase("answer"):
            tables = [part.table(quality=True) for part in answers if len(part)]
            table = joined(tables) if tables else None
        with reading.phase("sink"):
            self._write(table, batch_id, df)
        with reading.phase("state"):
            passed = {name: count + 1 for name, count in self.state.trial.items()}
            self.state.trial = {name: count for name, count in passed.items() if count < TRIAL_BATCHES}
            self.state.monitor = self.monitor.snapshot()
            size = self.stream.checkpoint.save(batch_id, self.state)
            self._note_latest(answers)
        self._show(batch_id, reading, taken.before, answers, size, clock.perf_counter() - taken.began)

    def _read(self, df: DataFrame, limit: int | None) -> BatchProgress:
        """Take the batch in: what may matter of it, where queries join or aggregate reduced, with side outputs all."""
        reading, joined = BatchProgress(), bool(self.monitor.per_id)
        if joined and self.reader.whole:
            reading.passes = 1
            with reading.phase("scan"):
                table = df.toArrow()
            with reading.phase("push"):
                reading.shipped = reading.rows_read = table.num_rows
                table = table.cast(columns.in_utc(table.schema))
                reading.ahead_at = None if limit is None else ahead_time(table, self.stream.source, limit)
                reading.answers = [self.monitor.push(table, not_after=limit)]
            return reading
        if self.monitor.rankings or not joined:
            reading = self.reader.read(df, self.monitor, limit)
        if joined:
            self.joiner.read(df, self.monitor, reading, limit)
        return reading

    def _doubt(self, df: DataFrame, reading: BatchProgress, ahead: int, limit: int | None) -> None:
        """See whether most of a batch is ahead of the clock; only where it may be are all its rows counted."""
        rows = reading.rows_read
        if rows is None:
            rows = df.count() if 2 * ahead > reading.shipped else reading.shipped
        if rows:
            found = None if limit is None else doubt(
                rows, ahead, reading.ahead_at, limit, self.stream.source, self.stream.schema
            )  # fmt: skip
            if found is not None and self.degraded is None:
                logger.warning(found)
            self.degraded = found

    def _write(self, table: pa.Table | None, batch_id: int, df: DataFrame) -> None:
        deliver(self.stream.sink, table, batch_id, df.sparkSession)
        for sink, rows in ((self.stream.late, self.side["late"]), (self.stream.rejected, self.side["rejected"])):
            if rows:
                side = pa.Table.from_batches(rows).select(self.stream.schema.names)
                deliver(sink, side, batch_id, df.sparkSession)
            rows.clear()

    # Queries that come and go.

    def names(self, plan: dict[str, Any]) -> set[str]:
        """Return the queries that a batch is handled with: those that are served, and those that come with it."""
        commands = self.stream.checkpoint.commands(self.state.applied, plan["commands"])
        coming = [one["query"]["name"] for one in commands if "query" in one]
        coming += [one["name"] for one in commands if one["do"] == "resume"]
        coming += [name for name, found in self.state.aside.items() if found.get("retry")]
        return {*(query.name for query in self.monitor.queries), *coming}.difference(plan["aside"])

    def on_trial(self, aside: Mapping[str, Any]) -> list[str]:
        """Return the served queries that have not proved themselves yet, the newest last."""
        return [name for name in self.state.trial if name not in aside]

    def _retry(self, aside: Mapping[str, dict[str, Any]]) -> None:
        """Serve again one query that was set aside though others may have been to blame; not beside another trouble."""
        if 0 in self.state.trial.values() or any(blame["trial"] for blame in aside.values()):
            return
        for name, found in self.state.aside.items():
            if found.get("retry") and name not in aside:
                found["retry"], self.retried = False, name
                self._apply({"do": "resume", "name": name})
                return

    def _apply(self, command: dict[str, Any], aside: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Do what was asked for; a query that cannot be served, or is to be set `aside`, is kept with the reason."""
        if command["do"] == "nothing":
            logger.warning("command %s is left out: %s", command["number"], command["error"])
            refused = self.state.refused | {str(command["number"]): command["error"]}
            self.state.refused = dict(list(refused.items())[-REFUSED:])
            return
        name = command["query"]["name"] if "query" in command else command["name"]
        if name in aside and "query" in command:
            self._forget(name)
            self.state.aside[name] = {"query": command["query"], "error": aside[name]["error"]}
            return
        try:
            match command["do"]:
                case "add":
                    self._register(query_of(command["query"]))
                case "change":
                    query = query_of(command["query"])
                    self._remove(name)
                    self._register(query)
                case "set aside":
                    self._set_aside(name, _blame(ASKED))
                case "resume" if name in self.state.aside:
                    self._register(query_of(self.state.aside[name]["query"]))
                case "remove":
                    self._remove(name)
                case "pause":
                    self.monitor.pause(name)
                case "resume":
                    self.monitor.resume(name)
        except SkybandError as error:
            logger.warning("query %r: %s", name, error)
            served = any(query.name == name for query in self.monitor.queries)  # by an earlier command
            if "query" in command and not served:
                self.state.aside[name] = {"query": command["query"], "error": str(error)}
            elif name in self.state.aside:
                self.state.aside[name]["error"] = str(error)

    def _register(self, query: Query) -> None:
        check(query, self.monitor.queries, self.stream.source, self.stream.schema, self.stream.services)
        self.stream.limits.check([query], self.monitor.queries)
        self.state.aside.pop(query.name, None)
        self._announce([query])
        self.monitor.register(query, history=self.stream.history is not None)
        self.state.trial[query.name] = 0

    def _remove(self, name: str) -> None:
        self.windows.pop(name, None)
        if self.state.aside.pop(name, None) is None:
            self.monitor.unregister(name)
        self.state.trial.pop(name, None)

    def _set_aside(self, name: str, blame: Mapping[str, Any]) -> None:
        """Stop serving a query, but keep it with the reason; nothing happens where it is not known."""
        for query in [query for query in self.monitor.queries if query.name == name]:
            self._forget(name)
            self.state.aside[name] = {"query": query.as_dict()}
        if name in self.state.aside:
            self.state.aside[name] |= {"error": blame["error"], "retry": False}

    def _forget(self, name: str) -> None:
        """Stop serving a query, if it is served."""
        if any(query.name == name for query in self.monitor.queries):
            self.monitor.unregister(name)
        self.state.trial.pop(name, None)

    def _announce(self, more: Sequence[Query] = ()) -> None:
        """Let the monitor know which columns it will be given, also for some more queries."""
        plain = [query for query in more if query.sides is None]
        rankings = [*(group.ranking for group in self.monitor.rankings), *(Ranking.of(query) for query in plain)]
        self.monitor.declare(columns.declared(self.stream.schema, rankings))

    # The past.

    def _fill(self, session: SparkSession) -> None:
        """Bring queries the events of the past that they wait for, once the watermark says that all are there."""
        watermark = self.monitor.watermark
        if watermark is None or self.stream.history is None:
            return
        for group in self.monitor.rankings:
            for schedule in group.schedules:
                low, high = max(schedule.next_start, schedule.missing_from), schedule.missing_to
                if schedule.past == "awaited" and high <= watermark:
                    past = self._past(group.queries, low, high, session) if low < high else None
                    self.monitor.fill(schedule.name, [] if past is None else past)

    def _past(self, queries: Sequence[Query], low: int, high: int, session: SparkSession) -> pa.Table:
        """Return the candidates among the events of a stretch of the past."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        stream = self.stream
        assert stream.history is not None
        past = stream.history(session, _moment(low), _moment(high))
        time = columns.event_time_sql(stream.source, stream.schema)
        past = past.where(F.expr(f"{time} >= {low}L AND {time} < {high}L"))
        trial = Monitor(
            queries, algorithm=stream.algorithm, time=stream.source.time, id=stream.source.id,
            time_unit=stream.source.time_unit,
        )  # fmt: skip
        reader = RankingReducer(stream.source, stream.schema)
        return reader.read(past, trial).rows

    # How things stand.

    def _note_latest(self, answers: Sequence[Answers]) -> None:
        """Keep each query's latest answer in view."""
        found = [part.latest() for part in answers if len(part)]
        for part in found:
            for answer in part:
                self.windows[answer.query] = {
                    "window_start": str(answer.start), "window_end": str(answer.end), "rows": len(answer),
                    "exact": answer.exact, "why": answer.why,
                }  # fmt: skip
                if answer.refreshes is not None:
                    spent = {name: getattr(answer, name) for name in ("refreshes", "failures", "stale", "unknown")}
                    self.windows[answer.query] |= spent
            self.latest = _merged([part.table(quality=True)], self.latest)

    def _show(
        self, batch_id: int, reading: BatchProgress, before: Any, answers: Sequence[Answers], size: int, seconds: float
    ) -> None:
        stats, monitor = self.monitor.stats(), self.monitor
        entry = {
            "batchId": batch_id,
            "passes": reading.passes,
            "survivors": reading.shipped,
            "guesses": reading.guesses,
            "reReads": reading.re_reads,
            "contests": reading.contests,
            "discarded": reading.discarded,
            "reducedBy": reading.reduced_by,
            "late": stats.late - before.late,
            "partlyLate": stats.partly_late - before.partly_late,
            "rejected": stats.rejected - before.rejected,
            "ahead": stats.ahead - before.ahead,
            "answers": sum(map(len, answers)),
            "answerRows": stats.answer_rows - before.answer_rows,
            "kept": stats.kept,
            "bound": stats.bound,
            "stateBytes": size,
            "watermark": None if monitor.watermark is None else _moment(monitor.watermark).isoformat(),
            "seconds": {name: round(spent, 6) for name, spent in reading.seconds.items()} | {"all": round(seconds, 6)},
        }
        if any(query.join is not None for query in monitor.queries):
            spent = [block.spent for part in answers for block in part.blocks if block.spent is not None]
            entry["remote"] = {
                name: sum(int(getattr(one, name).sum()) for one in spent) for name in ("refreshes", "failures", "stale")
            }
        self.progress = [*self.progress[-RECENT + 1 :], entry]
        schedules = [schedule for group in monitor.groups for schedule in group.schedules]
        waiting = {s.name for s in schedules if s.past == "awaited"}
        paused = {s.name for s in schedules if s.paused}
        listed = [
            {
                "name": query.name,
                "state": "paused" if query.name in paused else "waiting" if query.name in waiting else "active",
                "query": query.as_dict(),
            }
            for query in monitor.queries
        ]
        listed += [{"name": name, "state": "set aside", **found} for name, found in self.state.aside.items()]
        totals = {"late": stats.late, "partlyLate": stats.partly_late, "rejected": stats.rejected}
        totals["ahead"] = stats.ahead
        status = {
            "batch": batch_id, "applied": self.state.applied, "totals": totals, "queries": listed,
            "windows": self.windows, "progress": self.progress, "degraded": self.degraded,
            "refused": self.state.refused,
        }  # fmt: skip
        self.stream.checkpoint.show(status, self.latest)


def _blame(error: str, trial: bool = False) -> dict[str, Any]:
    return {"error": error, "trial": trial}


def _merged(new: Sequence[pa.Table], old: pa.Table | None) -> pa.Table:
    """Return latest answers, the old ones of queries that have no new one included."""
    table = joined(new)
    if old is None:
        return table
    others = old.filter(pc.invert(pc.is_in(old["query"], table["query"].unique())))
    return joined([table, others])


def _moment(microseconds: int) -> datetime:
    """Return a moment; the first or last that there is where it lies beyond."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC) if microseconds < 0 else datetime.max.replace(tzinfo=UTC)
