"""What happens to every micro-batch: commands, reduction, answers, sinks, state, in this order.

The order makes a batch repeatable. It starts from the state after the batch before, takes in the commands that
were planned for it, and writes under its own number; so a batch that is cut short at any point and replayed by
Spark gives the same answers once more, in place of the first ones.
"""

from __future__ import annotations

import logging
import time as clock
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import TooManyWindows
from skyband.events.ahead import doubt
from skyband.spark.heartbeat import Heartbeat
from skyband.spark.reducers.base import BatchProgress
from skyband.spark.sinks.base import deliver
from skyband.spark.stream import ASKED, Blamed, Shown, StreamJob, StreamSpec
from skyband.spark.trial import TRIAL_BATCHES, Watch, allowed, ends_stream, newest_half

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)
RECENT = 100
AGAIN = "perhaps for another reason, so it will be tried again by itself"


def not_after(ahead: int | None) -> int | None:
    """Read the clock: return the last event time that a batch may bring now; None where any will do."""
    return None if ahead is None else clock.time_ns() // 1_000 + ahead


@dataclass
class MicroBatchLoop:
    """Handles the micro-batches of a stream; given to ``foreachBatch``, so it can be pickled before its first call.

    Parameters
    ----------
    spec
        What the stream is.
    job
        What its kind does with a batch.
    """

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
        if rows:
            found = None if limit is None else doubt(
                rows, progress.ahead, progress.ahead_at, limit, self.spec.source, self.spec.schema
            )  # fmt: skip
            if found is not None and shown.degraded is None:
                logger.warning(found)
            shown.degraded = found

    def _finish(self, df: DataFrame, batch_id: int, progress: BatchProgress, answers: pa.Table | None) -> None:
        """Write the answers of a batch that was taken in, keep the state, and report."""
        job, state = self.job, self.job.state
        with progress.phase("sink"):
            for sink, rows in ((self.spec.sink, answers), *job.side_rows()):
                deliver(sink, rows, batch_id, df.sparkSession)
        entry = {"batchId": batch_id, **job.report(batch_id, progress)}
        if job.durable:
            with progress.phase("state"):
                passed = {name: count + 1 for name, count in state.trial.items()}
                state.trial = {name: count for name, count in passed.items() if count < TRIAL_BATCHES}
                state.monitor = job.snapshot()
                entry["stateBytes"] = self.spec.checkpoint.save(batch_id, state)
        entry["durationMs"] = progress.milliseconds()
        shown = job.shown
        shown.progress = [*[old for old in shown.progress if old["batchId"] < batch_id][-RECENT + 1 :], entry]
        status = {
            "batch": batch_id, "applied": state.applied, "totals": shown.totals, "queries": job.queries(),
            "windows": shown.windows, "progress": shown.progress, "degraded": shown.degraded,
            "refused": state.refused,
        }  # fmt: skip
        self.spec.checkpoint.show(status, shown.latest)


def _blame(error: str, trial: bool = False) -> dict[str, Any]:
    return {"error": error, "trial": trial}
