"""Subscriptions on Spark: executors leave out what nobody can want, the driver follows the rest.

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
import time as clock
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.answers.answer import Row
from skyband.engine.subscriptions import Subscriptions
from skyband.events.ahead import ahead_time, doubt
from skyband.events.batch import StreamColumns, TimeUnit
from skyband.queries.subscription import Subscription
from skyband.spark import columns
from skyband.spark.checkpoint import Checkpoint, State
from skyband.spark.handle import Running
from skyband.spark.heartbeat import Heartbeat
from skyband.spark.loop import not_after
from skyband.spark.reducers.subscriptions import SubscriptionPrefilter, in_order
from skyband.spark.sinks import Sink, as_sink
from skyband.spark.sinks.base import deliver
from skyband.spark.start import checkpoint_folder, stream_of, writer_of
from skyband.times import Duration, not_negative

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)
RECENT = 100


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
    folder = Checkpoint(checkpoint_folder(checkpoint))
    writer = writer_of(df, trigger, name, folder)
    identity = {
        "time": time, "id": id, "time_unit": time_unit, "id_type": str(schema.field(id).type),
        "algorithm": algorithm, "placement": "subscriptions",
    }  # fmt: skip
    folder.open(identity, schema, [one.as_dict() for one in listed])
    follower = SubscriptionLoop(folder, source, fresh.snapshot(), tuple(select), as_sink(sink), ahead)
    return SubscriptionHandle(writer.foreachBatch(follower).start(), folder)


@dataclass
class SubscriptionLoop:
    """Handles the micro-batches; given to ``foreachBatch``, so it can be pickled before its first call."""

    checkpoint: Checkpoint
    source: StreamColumns
    fresh: bytes
    select: tuple[str, ...]
    sink: Sink | None
    ahead: int | None = None
    _at: int | None = None
    _live: Subscriptions | None = None
    _applied: int = 0

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Handle one batch, or handle it again."""
        Heartbeat.ensure(self.checkpoint)
        began = clock.perf_counter()
        following = self._live if self._at == batch_id - 1 else None
        self._at = None  # what is in memory is good again only when this batch is done
        if following is None:
            following = self._load(batch_id)
        plan = self.checkpoint.plan(batch_id, not_after=not_after(self.ahead))
        upto, limit = plan["commands"], plan.get("not_after")
        for command in self.checkpoint.commands(self._applied, upto):
            _apply(following, command)
        scanned = clock.perf_counter()
        table = self._survivors(df, following, limit)
        pushed = clock.perf_counter()
        before = following.stats()
        notices = following.push(table, not_after=limit)
        written = clock.perf_counter()
        if len(notices):
            deliver(self.sink, notices.table(), batch_id, df.sparkSession)
        declared = [{"name": name} for name in self._declared()]
        size = self.checkpoint.save(batch_id, State(following.snapshot(), upto, declared))
        after = following.stats()
        self._show(batch_id, {
            "batchId": batch_id, "survivors": table.num_rows, "notices": len(notices),
            "rejected": after.rejected - before.rejected, "ahead": after.ahead - before.ahead,
            "late": after.late - before.late, "kept": after.kept,
            "stateBytes": size, "seconds": {
                "scan": pushed - scanned, "push": written - pushed, "all": clock.perf_counter() - began,
            },
        }, self._doubt(df, table, after.ahead - before.ahead, limit))  # fmt: skip
        self._live, self._at, self._applied = following, batch_id, upto

    def _load(self, batch_id: int) -> Subscriptions:
        """Take up the state after the batch before, with those of the list that it does not know."""
        state = self.checkpoint.before(batch_id)
        if state is None:
            self._applied = 0
            return Subscriptions.restore(self.fresh)
        self._applied = state.applied
        following = Subscriptions.restore(state.monitor)
        known = {*following.subscriptions, *(given["name"] for given in state.declared)}
        following.add(*(one for one in self._declared().values() if one.name not in known))
        return following

    def _declared(self) -> dict[str, Subscription]:
        return Subscriptions.restore(self.fresh).subscriptions

    def _survivors(self, df: DataFrame, following: Subscriptions, limit: int | None) -> pa.Table:
        """Let the executors leave out what nobody can want; return the rest in order of time and id."""
        survivors = SubscriptionPrefilter(following, limit)

        def leave_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.filter(pa.array(survivors.mask(batch.cast(columns.in_utc(batch.schema)))))

        table = (df if survivors.everything else df.mapInArrow(leave_out, df.schema)).toArrow()
        table = table.cast(columns.in_utc(table.schema))
        return table.take(in_order(table, self.source))

    def _doubt(self, df: DataFrame, table: pa.Table, ahead: int, limit: int | None) -> str | None:
        """Say whether most of a batch is ahead of the clock; only where it may be are all its rows counted."""
        if limit is None or 2 * ahead <= table.num_rows:
            return None
        example = ahead_time(table, self.source, limit)
        return doubt(df.count(), ahead, example, limit, self.source, table.schema)

    def _show(self, batch_id: int, entry: dict[str, Any], degraded: str | None) -> None:
        status = self.checkpoint.status()
        progress = [old for old in status.get("progress", []) if old["batchId"] < batch_id]
        shown = {"batch": batch_id, "progress": [*progress[-RECENT + 1 :], entry], "degraded": degraded}
        self.checkpoint.show(shown, None)


def _apply(following: Subscriptions, command: dict[str, Any]) -> None:
    """Do what was asked for; what no longer fits was overtaken by another command, and what cannot be read is left out.

    Whoever wrote the command must not be able to stop the stream.
    """
    known = following.subscriptions
    if command["do"] == "nothing":
        logger.warning("command %s is left out: %s", command["number"], command["error"])
        return
    try:
        if command["do"] == "add" and command["subscription"]["name"] not in known:
            following.add(Subscription.from_dict(command["subscription"]))
        elif command["do"] == "remove" and command["name"] in known:
            following.remove(command["name"])
    except Exception as error:
        logger.warning("a command is left out, since it cannot be followed (%r): %s", error, command)


class SubscriptionHandle(Running):
    """A stream that follows subscriptions: StreamingQuery's words, and those for subscriptions that come and go.

    Parameters
    ----------
    query
        Spark's own handle.
    checkpoint
        The stream's folder.
    """

    def __init__(self, query: StreamingQuery, checkpoint: Checkpoint) -> None:
        self.query, self.checkpoint = query, checkpoint
        self._heartbeat = Heartbeat(checkpoint, query)

    def add(self, *subscriptions: Subscription) -> None:
        """Let subscriptions see what comes from the next micro-batch on."""
        following = self._following()
        following.add(*subscriptions)  # refuses what cannot be
        for one in subscriptions:
            self.checkpoint.submit({"do": "add", "subscription": one.as_dict()})

    def remove(self, *names: str) -> None:
        """End subscriptions before the next micro-batch."""
        self._following().remove(*names)
        for name in names:
            self.checkpoint.submit({"do": "remove", "name": name})

    @property
    def subscriptions(self) -> dict[str, Subscription]:
        """The subscriptions by name, with what was asked for and is not done yet."""
        return self._following().subscriptions

    def top(self, name: str) -> list[Row]:
        """Return the best events of a subscription after the last micro-batch, best first."""
        return self._following().top(name)

    def _following(self) -> Subscriptions:
        """Return the subscriptions as they were after the last micro-batch, and as they were asked for since."""
        states = self.checkpoint.states()
        if states:
            state = self.checkpoint.load(states[-1])
            following = Subscriptions.restore(state.monitor)
        else:
            state = State(b"")
            identity = self.checkpoint.identity
            following = Subscriptions(
                [Subscription.from_dict(given) for given in self.checkpoint.declared()],
                algorithm=identity["algorithm"], time=identity["time"], id=identity["id"],
                time_unit=identity["time_unit"],
            )  # fmt: skip
            following.declare(columns.in_utc(self.checkpoint.schema()))
        for command in self.checkpoint.commands(state.applied):
            _apply(following, command)
        return following

    def stop(self) -> None:
        """End the stream; started again with its checkpoint it goes on."""
        self.query.stop()
        self._heartbeat.stop()

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802 - Spark's word
        """Wait until the stream ends; raises what ended it."""
        try:
            return self.query.awaitTermination(timeout)  # type: ignore[no-any-return]
        finally:
            if not self.query.isActive:
                self._heartbeat.stop()
