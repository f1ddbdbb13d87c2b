"""What happens to every micro-batch: commands, reduction, answers, sinks, state, in this order.

The order makes a batch repeatable. It starts from the state after the batch before, takes in the commands that
were planned for it, and writes under its own number; so a batch that is cut short at any point and replayed by
Spark gives the same answers once more, in place of the first ones.

A `StreamSpec` says what the stream is, a `StreamJob` what its kind does with a batch. `MicroBatchLoop` does what all
kinds have in common.
"""

from __future__ import annotations

import logging
import time as clock
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.table import joined
from skyband.engine.limits import WindowLimits
from skyband.errors import TooManyWindows
from skyband.events.ahead import doubt
from skyband.events.batch import StreamColumns
from skyband.remote.remote import Remote
from skyband.spark.checkpoint import Checkpoint, State
from skyband.spark.heartbeat import Heartbeat
from skyband.spark.history import History
from skyband.spark.placement import Placement
from skyband.spark.reducers.base import BatchProgress
from skyband.spark.services import Changes
from skyband.spark.sinks import Sink
from skyband.spark.sinks.base import deliver
from skyband.spark.trial import TRIAL_BATCHES, Watch, allowed, ends_stream, newest_half

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)
RECENT = 100
AGAIN = "perhaps for another reason, so it will be tried again by itself"
ASKED = "someone asked to suspend it"
ANSWERS = "answers"
Blamed = dict[str, dict[str, Any]]
"""Queries that a batch is handled without, each with its `error`, and whether it was on `trial`."""
_STATUS = ("progress", "totals", "windows", "degraded")  # what is shown, under the same names in the status


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
    placement: Placement | None = None

    @property
    def feeds(self) -> dict[str, Changes]:
        """The services that push their changes."""
        asked = {name: remote.gateway.service for name, remote in self.services.items()}
        return {name: service for name, service in asked.items() if isinstance(service, Changes)}


@dataclass
class Shown:
    """What people see of a stream: progress, totals, and each query's latest window and answer."""

    progress: list[dict[str, Any]] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    windows: dict[str, dict[str, Any]] = field(default_factory=dict)
    degraded: str | None = None
    latest: pa.Table | None = None

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> Shown:
        """Return what is shown now."""
        status = checkpoint.status()
        return cls(**{name: status[name] for name in _STATUS if name in status}, latest=checkpoint.latest())

    def save(self, checkpoint: Checkpoint, **more: Any) -> None:
        """Show this from now on, and what else belongs to the status."""
        checkpoint.show(more | {name: getattr(self, name) for name in _STATUS}, self.latest)

    def note(self, windows: Mapping[str, dict[str, Any]], answers: pa.Table) -> None:
        """Show the latest windows of some queries, and their answers; those of others stay."""
        self.windows |= windows
        others = [] if self.latest is None else [
            self.latest.filter(pc.invert(pc.is_in(self.latest["query"], answers["query"].unique())))
        ]  # fmt: skip
        self.latest = joined([answers, *others])


class StreamJob(ABC):
    """What one kind of stream does with a micro-batch; it can be pickled before it is resumed."""

    durable = True  # whether the driver keeps a state, and takes commands; else Spark's state store keeps all
    retried: str | None = None  # the suspended query that this batch tries again

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self.state, self.shown = State(b""), Shown()

    @abstractmethod
    def resume(self, state: State | None) -> None:
        """Take up the state after the batch before; begin anew where there is none."""

    # Queries that come and go; a job without commands has none that do.

    def apply(self, command: dict[str, Any], suspended: Mapping[str, Any]) -> None:  # noqa: B027 - as said
        """Follow a command; whoever wrote it must not be able to stop the stream."""

    def coming(self, commands: Sequence[dict[str, Any]]) -> set[str]:  # noqa: ARG002 - for those that have some
        """Return the queries that a batch with these commands is handled with, and that can be suspended."""
        return set()

    def suspend(self, suspended: Blamed) -> None:  # noqa: B027 - as said
        """Handle the batch without some queries, and perhaps try one again that was suspended before."""

    def on_trial(self, suspended: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 - for those that have some
        """Return the served queries that have not proved themselves yet, the newest last."""
        return []

    # One batch.

    @abstractmethod
    def reduce(self, df: DataFrame, progress: BatchProgress) -> None:
        """Take the batch in."""

    @abstractmethod
    def advance(self, df: DataFrame, batch_id: int, progress: BatchProgress) -> pa.Table | None:
        """Return the answers that the batch gives, and show the latest."""

    def unrepeatable(self) -> dict[str, pa.Table] | None:
        """Return what else belongs to answers that another reading of the batch might not give; None: it would."""
        return None

    def repeat(self, told: dict[str, pa.Table]) -> pa.Table:
        """Return the answers that an earlier attempt told, and go on as if these had been found now."""
        return told[ANSWERS]

    def side_rows(self) -> list[tuple[Sink | None, pa.Table]]:
        """Return what else the batch brought, and where it goes."""
        return []

    def snapshot(self) -> bytes:
        """Return the state after the batch."""
        return b""

    @abstractmethod
    def report(self, batch_id: int, progress: BatchProgress) -> dict[str, Any]:
        """Return the batch's progress, and add up the totals."""

    def queries(self) -> list[dict[str, Any]]:
        """List the queries, and how each stands."""
        return []


def not_after(ahead: int | None) -> int | None:
    """Read the clock: return the last event time that a batch may bring now; None where any will do."""
    return None if ahead is None else clock.time_ns() // 1_000 + ahead


@dataclass
class MicroBatchLoop:
    """Handles the micro-batches of a stream; given to ``foreachBatch``, so it can be pickled before its first call."""

    spec: StreamSpec
    job: StreamJob
    _at: int | None = None
    _cold: bool = True

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Handle one batch, or handle it again; where it fails, without the queries that are to blame."""
        checkpoint, durable = self.spec.checkpoint, self.job.durable
        Heartbeat.ensure(checkpoint)
        ready, cold = durable and self._at == batch_id - 1, self._cold
        self._at, self._cold = None, False  # what is in memory is good again only when this batch is done
        plan: dict[str, Any] = {"commands": 0, "not_after": None, "suspended": {}}
        if durable:
            plan |= checkpoint.plan(batch_id, not_after=not_after(self.spec.ahead), suspended={})
        while self._at is None:
            if not ready:
                self.job.shown = Shown.load(checkpoint)
                self.job.resume(checkpoint.before(batch_id) if durable else None)
            blamed = self._attempt(df, batch_id, plan, cold)
            if blamed is None:
                self._at = batch_id
                return
            for name, blame in blamed.items():
                logger.warning("query %r is suspended: %s", name, blame["error"])
            plan["suspended"] |= blamed
            checkpoint.replan(batch_id, plan)
            ready = cold = False  # what it has taken in of the batch must not count twice

    def _attempt(self, df: DataFrame, batch_id: int, plan: dict[str, Any], cold: bool) -> Blamed | None:
        """Try to handle a batch; return whom to suspend before the next attempt, and why; None where it is done."""
        job, checkpoint = self.job, self.spec.checkpoint
        commands = checkpoint.commands(job.state.applied, plan["commands"])
        names = job.coming(commands).difference(plan["suspended"])

        def asked() -> Blamed:
            return {name: _blame(ASKED) for name in checkpoint.suspended_since(plan["commands"]) & names}

        if found := asked():
            return found
        with Watch(df.sparkSession, lambda: bool(asked())) as watch:
            try:
                progress, answers = self._process(df, batch_id, plan, commands, watch, cold)
            except TooManyWindows as error:
                if error.query is None or error.query in plan["suspended"]:
                    raise
                return {error.query: _blame(str(error))}
            except Exception as error:
                if watch.why == "asked":
                    return asked()
                if watch.why is None and ends_stream(error):
                    raise
                return self._tried(batch_id, plan, watch, error)
        if watch.is_slow:
            return self._tried(batch_id, plan, watch, None)
        self._finish(df, batch_id, progress, answers)
        return None

    def _tried(self, batch_id: int, plan: dict[str, Any], watch: Watch, error: Exception | None) -> Blamed:
        """Return whom of those on trial to do without; where there is nobody left, nobody was to blame for an error."""
        retried = self.job.retried
        names = [retried] if retried else newest_half(self.job.on_trial(plan["suspended"]))
        if not names:
            plan["suspended"] = {name: blame for name, blame in plan["suspended"].items() if not blame["trial"]}
            if self.job.durable:
                self.spec.checkpoint.replan(batch_id, plan)
            assert error is not None  # without queries on trial a batch has no limit
            raise error
        if watch.why == "slow" or error is None:
            reason = f"batch {batch_id} took longer than the {watch.limit:.0f} s that it may while the query is new"
        else:
            reason = f"batch {batch_id} failed while the query was new: {str(error).strip().splitlines()[0][:300]}"
        return {name: _blame(reason, trial=True) for name in names}

    def _process(
        self,
        df: DataFrame,
        batch_id: int,
        plan: dict[str, Any],
        commands: list[dict[str, Any]],
        watch: Watch,
        cold: bool,
    ) -> tuple[BatchProgress, pa.Table | None]:
        """Take one batch in, with all that was planned for it, and answer what it closes.

        While queries are on trial, the watch limits how long that may take; the first batch of a process is `cold`.
        """
        job, suspended, progress = self.job, plan["suspended"], BatchProgress(plan["not_after"])
        with progress.phase("commands"):
            for command in commands:
                job.apply(command, suspended)
            job.state.applied = plan["commands"]
            job.suspend(suspended)
        earlier = [entry["durationMs"]["total"] / 1_000 for entry in job.shown.progress if entry["batchId"] < batch_id]
        usual = None if self.spec.budget is None else allowed(self.spec.budget, earlier, cold)
        watch.limit = usual if job.on_trial(suspended) else None
        job.reduce(df, progress)
        self._doubt(df, progress)
        with progress.phase("answer"):
            answers = job.advance(df, batch_id, progress)
            told = self.spec.checkpoint.told(batch_id) if job.durable else None
            if told is not None:
                answers = job.repeat(told)
        tried = [name for name, blame in suspended.items() if blame["trial"]]
        if len(tried) > 1 or (usual is not None and watch.seconds > usual):  # slow without them, too
            for name in tried:
                job.state.suspended[name] |= {"retry": True, "error": f"{suspended[name]['error']}; {AGAIN}"}
        return progress, answers

    def _doubt(self, df: DataFrame, progress: BatchProgress) -> None:
        """See whether most of a batch is ahead of the clock; only where it may be are all its rows counted."""
        rows, shown, limit = progress.input_rows, self.job.shown, progress.not_after
        if rows is None:
            rows = df.count() if 2 * progress.ahead > progress.candidate_rows else progress.candidate_rows
        if not rows:
            return
        found = None
        if limit is not None:
            found = doubt(rows, progress.ahead, progress.ahead_at, limit, self.spec.source, self.spec.schema)
        if found is not None and shown.degraded is None:
            logger.warning(found)
        shown.degraded = found

    def _finish(self, df: DataFrame, batch_id: int, progress: BatchProgress, answers: pa.Table | None) -> None:
        """Write the answers of a batch that was taken in, keep the state, and report."""
        job, state = self.job, self.job.state
        more_told = job.unrepeatable() if job.durable and answers is not None else None
        if answers is not None and more_told is not None:
            with progress.phase("state"):
                self.spec.checkpoint.tell(batch_id, {ANSWERS: answers} | more_told)
        with progress.phase("sink"):
            for sink, rows in ((self.spec.sink, answers), *job.side_rows()):
                deliver(sink, rows, batch_id, df.sparkSession)
        entry = {"batchId": batch_id, **job.report(batch_id, progress)}
        if job.durable:
            with progress.phase("state"):
                passed = {name: count + 1 for name, count in state.trial.items()}
                state.trial = {name: count for name, count in passed.items() if count < TRIAL_BATCHES}
                state.monitor = job.snapshot()
                saved = self.spec.checkpoint.save(batch_id, state)
                entry.setdefault("stateBytes", saved)  # where executors keep the state, that is not all of it
        entry["durationMs"] = progress.milliseconds()
        shown = job.shown
        if self.spec.placement is not None:
            entry |= self._placed(self.spec.placement, entry)
        shown.progress = [*[old for old in shown.progress if old["batchId"] < batch_id][-RECENT + 1 :], entry]
        more = {"batch": batch_id, "applied": state.applied, "queries": job.queries(), "refused": state.refused}
        shown.save(self.spec.checkpoint, **more)

    def _placed(self, placement: Placement, entry: Mapping[str, Any]) -> dict[str, str]:
        """Say in the progress of a batch where the state is, and what is advised; of the latter the log tells once."""
        size = entry["stateBytes"]
        advice, before = placement.advice(size), self.job.shown.progress[-1:]
        if advice and not any("advice" in old for old in before):
            logger.warning(advice)
        return {"placement": placement.said(entry["kept"], size)} | ({"advice": advice} if advice else {})


def _blame(error: str, trial: bool = False) -> dict[str, Any]:
    return {"error": error, "trial": trial}


def datetime_of(microseconds: int) -> datetime:
    """Return a moment; the earliest or latest `datetime` where it is out of range."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC) if microseconds < 0 else datetime.max.replace(tzinfo=UTC)
