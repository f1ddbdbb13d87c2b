"""Subscriptions on Spark: executors leave out what nobody can want, the driver takes in the rest.

In each micro-batch the executors get the scoring functions of all subscriptions and the costs of their best so far, as
data. They look at their rows in Arrow batches, and let through those that may be among somebody's best now or
later. The driver takes them in in order of time and id, writes the notices, and keeps the state under the batch's
number; a batch that is replayed writes the same once more.

Time passes with the rows that reach the driver; the latest of each micro-batch always does. What leaves a window does
so at its own moment, whether a row gets there then or not. So every notice is the one that all rows would have given.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.answers.answer import Row
from skyband.engine.subscriptions import Subscriptions
from skyband.events.batch import TimeUnit
from skyband.queries.subscription import Subscription
from skyband.spark import columns
from skyband.spark.checkpoint import State
from skyband.spark.handle import Running
from skyband.spark.loop import StreamJob, StreamSpec
from skyband.spark.reducers.base import BatchProgress
from skyband.spark.reducers.subscriptions import reduce
from skyband.spark.sinks import as_sink
from skyband.spark.start import checkpoint_of, launch, stream_of
from skyband.times import Duration, not_negative

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)


def subscribe(
    df: DataFrame,
    subscriptions: Sequence[Subscription] = (),
    *,
    time: str,
    id: str,  # noqa: A002 - the word for it
    sink: object = None,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: dict[str, Any] | None = None,
    select: Sequence[str] = (),
    time_unit: TimeUnit | None = None,
    max_ahead: Duration | None = "1 day",
    algorithm: str = "blocks",
    name: str | None = None,
) -> SubscriptionHandle:
    """Follow subscriptions over a streaming DataFrame, until someone stops it.

    Parameters
    ----------
    df
        Any streaming DataFrame.
    subscriptions
        Those to begin with; more can be added while it runs. Started again with its checkpoint, a stream has those that
        it had, and those of this list that it does not know.
    time, id
        The columns of event times (timestamps, dates, or whole numbers) and of ids (whole numbers or text).
    sink
        Where notices go: ``"memory"``, ``"console"``, a folder for Parquet files, or a function of
        ``(notices, batch_id)``.
    checkpoint
        The folder that makes the stream durable. Without one, a folder is made that lasts as long as the process.
    trigger
        As for ``DataStreamWriter.trigger``.
    select
        Columns of the stream to carry into notices.
    time_unit
        The unit of times that are whole numbers; microseconds when left out.
    max_ahead
        How far event times may be ahead of the clock, as for `skyband.spark.start`.
    algorithm
        What keeps the best, as for `skyband.Subscriptions`.
    name
        The name that Spark shows.

    Examples
    --------
    >>> handle = sb.spark.subscribe(readings, [near], time="ts", id="station", sink="console")  # doctest: +SKIP
    """
    source, schema = stream_of(df, time, id, time_unit)
    listed = list(subscriptions)
    fresh = Subscriptions(listed, algorithm=algorithm, time=time, id=id, time_unit=time_unit, select=select)
    fresh.declare(columns.in_utc(schema))
    ahead = not_negative(max_ahead, "max_ahead")
    notation, folder = fresh.algorithm.notation(), checkpoint_of(checkpoint)
    spec = StreamSpec(source, schema, None, notation, folder, as_sink(sink), ahead=ahead)
    job, declared = SubscriptionJob(spec, fresh.snapshot()), [one.as_dict() for one in listed]
    query = launch(df, spec, job, declared, placement="subscriptions", trigger=trigger, name=name)
    return SubscriptionHandle(query, spec.checkpoint)


class SubscriptionJob(StreamJob):
    """Takes batches into subscriptions, and writes their notices.

    The stream was started with `fresh` subscriptions, as a snapshot without events.
    """

    subscriptions: Subscriptions

    def __init__(self, spec: StreamSpec, fresh: bytes) -> None:
        super().__init__(spec)
        self.fresh = fresh

    def resume(self, state: State | None) -> None:
        """Take up the state after the batch before, with those of the list that it does not know."""
        declared = Subscriptions.restore(self.fresh)
        self.state, self.subscriptions = State(b""), declared
        if state is not None:
            self.state, self.subscriptions = state, Subscriptions.restore(state.monitor)
            known = {*self.subscriptions.subscriptions, *(given["name"] for given in state.declared)}
            self.subscriptions.add(*(one for one in declared.subscriptions.values() if one.name not in known))
        self.state.declared = [{"name": name} for name in declared.subscriptions]

    def apply(self, command: dict[str, Any], suspended: Mapping[str, Any]) -> None:  # noqa: ARG002 - none are
        """Follow a command."""
        _apply(self.subscriptions, command)

    def reduce(self, df: DataFrame, progress: BatchProgress) -> None:
        """Take the batch in."""
        self._before = self.subscriptions.stats()
        reduce(df, self.subscriptions, progress)
        progress.ahead = self.subscriptions.stats().ahead - self._before.ahead

    def advance(self, df: DataFrame, batch_id: int, progress: BatchProgress) -> pa.Table | None:  # noqa: ARG002 - it is done
        """Return the notices that the batch gave."""
        (notices,) = progress.answers
        return notices.table() if len(notices) else None

    def snapshot(self) -> bytes:
        """Return the subscriptions after the batch."""
        return self.subscriptions.snapshot()

    def report(self, batch_id: int, progress: BatchProgress) -> dict[str, Any]:  # noqa: ARG002 - for others
        """Return the batch's progress."""
        stats, before = self.subscriptions.stats(), self._before
        counted = {name: getattr(stats, name) - getattr(before, name) for name in ("rejected", "ahead", "late")}
        notices = sum(map(len, progress.answers))
        return {"candidateRows": progress.candidate_rows, "notices": notices, **counted, "kept": stats.kept}


def _apply(subscriptions: Subscriptions, command: dict[str, Any]) -> None:
    """Follow a command; one that no longer fits was overtaken by another, and one that cannot be read is left out.

    Whoever wrote the command must not be able to stop the stream.
    """
    known = subscriptions.subscriptions
    if command["do"] == "nothing":
        logger.warning("command %s is left out: %s", command["number"], command["error"])
        return
    try:
        if command["do"] == "add" and command["subscription"]["name"] not in known:
            subscriptions.add(Subscription.from_dict(command["subscription"]))
        elif command["do"] == "remove" and command["name"] in known:
            subscriptions.remove(command["name"])
    except Exception as error:
        logger.warning("a command is left out, since it cannot be followed (%r): %s", error, command)


class SubscriptionHandle(Running):
    """A stream that serves subscriptions: StreamingQuery's words, and those for subscriptions that come and go."""

    def add(self, *subscriptions: Subscription) -> None:
        """Let subscriptions see what comes from the next micro-batch on."""
        self._current().add(*subscriptions)  # refuses what cannot be
        for one in subscriptions:
            self.checkpoint.submit({"do": "add", "subscription": one.as_dict()})

    def remove(self, *names: str) -> None:
        """End subscriptions before the next micro-batch."""
        self._current().remove(*names)
        for name in names:
            self.checkpoint.submit({"do": "remove", "name": name})

    @property
    def subscriptions(self) -> dict[str, Subscription]:
        """The subscriptions by name, with what was asked for and is not done yet."""
        return self._current().subscriptions

    def top(self, name: str) -> list[Row]:
        """Return the best events of a subscription after the last micro-batch, best first."""
        return self._current().top(name)

    def _current(self) -> Subscriptions:
        """Return the subscriptions as they were after the last micro-batch, and as they were asked for since."""
        state = self.checkpoint.last()
        if state is not None:
            found = Subscriptions.restore(state.monitor)
        else:
            identity, declared = self.checkpoint.identity, self.checkpoint.declared()
            fixed = {name: identity[name] for name in ("algorithm", "time", "id", "time_unit")}
            found = Subscriptions([Subscription.from_dict(given) for given in declared], **fixed)
            found.declare(columns.in_utc(self.checkpoint.schema()))
        for command in self.checkpoint.commands(0 if state is None else state.applied):
            _apply(found, command)
        return found
