"""Starting a stream: everything that can be wrong is said here, before Spark reads anything."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from skyband import algorithms
from skyband.engine.limits import MAX_CUTS, MAX_WINDOW_ENDS, WindowLimits
from skyband.engine.monitor import Monitor
from skyband.errors import InputError
from skyband.events.batch import StreamColumns, TimeUnit
from skyband.queries.query import Query
from skyband.remote.remote import as_remotes
from skyband.spark import columns
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.control import check
from skyband.spark.handle import Handle
from skyband.spark.history import History, as_history
from skyband.spark.loop import MicroBatchLoop, StreamJob, StreamSpec
from skyband.spark.monitor_job import MonitorJob
from skyband.spark.placement import Placement
from skyband.spark.sinks import Files, as_sink
from skyband.spark.state_store import Plan, StateStoreJob, answers_of
from skyband.times import SECOND, Duration, not_negative

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

logger = logging.getLogger(__name__)
TRIGGERS = ("processingTime", "availableNow")


def start(
    df: DataFrame,
    queries: Query | Sequence[Query] = (),
    *,
    time: str,
    id: str,  # noqa: A002 - the word for it
    watermark: Duration | None = "10 seconds",
    max_ahead: Duration | None = "1 day",
    sink: object = None,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: dict[str, Any] | None = None,
    late: object = None,
    rejected: object = None,
    history: DataFrame | History | None = None,
    time_unit: TimeUnit | None = None,
    services: Mapping[str, Any] | None = None,
    algorithm: str = "staircase",
    placement: Literal["auto", "driver", "executors"] = "auto",
    max_window_ends: int | None = MAX_WINDOW_ENDS,
    max_cuts: int | None = MAX_CUTS,
    trial_budget: Duration | None = "30 seconds",
    name: str | None = None,
) -> Handle:
    """Answer queries over a streaming DataFrame, until someone stops it.

    Parameters
    ----------
    df
        Any streaming DataFrame.
    queries
        One or several; more can be registered while it runs.
    time, id
        The columns of event times (timestamps, dates, or whole numbers) and of ids (whole numbers or text).
    watermark
        How late events may come: a window is answered when the latest event is so far beyond its end. None: windows
        wait for `Handle.finish`.
    max_ahead
        How far event times may be ahead of the clock. Rows beyond are rejected: one of them would close all windows,
        and make every honest row late. Near the delay of the watermark it protects best. None: as far as they like.
    sink
        Where answers go: ``"memory"``, ``"console"``, a folder for Parquet files, a function of
        ``(answers, batch_id)``, or one of `skyband.spark.sinks`. Without one, `Handle.answers` shows the latest.
    checkpoint
        The folder that makes the stream durable: started again with it, the stream goes on where it was. Without one,
        a folder is made that lasts as long as the process.
    trigger
        As for ``DataStreamWriter.trigger``: ``{"processingTime": "10 seconds"}`` or ``{"availableNow": True}``.
    late, rejected
        Sinks for rows that missed all their windows, and for rows without a score, a time or an id.
    history
        The stream's past, for queries that come later and need more than is kept: a batch DataFrame of the same
        columns, or a function of a session and two moments that returns one (such as `kafka_history`). Without it
        such queries warm up.
    time_unit
        The unit of times that are whole numbers; microseconds when left out.
    services
        What joined queries join with, by name: a `skyband.Remote`, a service, a function from ids to values, or a
        DataFrame in `skyband.spark.Frame`. The driver asks them, between two batches.
    algorithm
        Which algorithm keeps the candidates, perhaps with options, as in ``"pa(error=1e-4)"``.
    placement
        Where they are kept: on the driver, or, for ``partition_by`` with very many groups and aggregates of very many
        ids, on the executors. ``"auto"``: where the checkpoint has them, else on the driver. `Handle.explain` says
        which and why, and when they outgrow the driver.
    max_window_ends, max_cuts
        How many windows of one query may end per second of event time, and how many pane edges all queries together
        may have in it; a query beyond is refused, also one that comes later. None: any number. Where times are plain
        numbers (whole numbers without a `time_unit`) there are no seconds, so neither limit holds.
    trial_budget
        How long a batch may take while a query is new that came after the start: a query with which it takes longer,
        or fails, is suspended with the reason, and the batch is tried again without it. None: as long as it likes.
    name
        The name that Spark shows.

    Examples
    --------
    >>> handle = sb.spark.start(trades, [query], time="ts", id="symbol", sink="console")  # doctest: +SKIP
    """
    listed = [queries] if isinstance(queries, Query) else list(queries)
    source, schema = stream_of(df, time, id, time_unit)
    delay = not_negative(watermark, "watermark")
    folder = checkpoint_of(checkpoint)
    placed = Placement.of(placement, folder)
    stream = StreamSpec(
        source, schema, delay, algorithms.find(algorithm).notation(), folder,
        sink=as_sink(sink), late=as_sink(late, "late"), rejected=as_sink(rejected, "rejected"),
        history=as_history(history), services=as_remotes(services),
        limits=WindowLimits(max_window_ends, max_cuts).over(source, schema),
        ahead=not_negative(max_ahead, "max_ahead"), budget=_seconds(trial_budget),
        placement=placed,
    )  # fmt: skip
    _check_folders(stream)
    Monitor(listed, services=stream.services)  # refuses what is no query, and names that come twice
    for number, query in enumerate(listed):
        used = [name for output in query.carried for name in output.expression.columns]
        columns.check_names(used, schema.names)
        check(query, listed[:number], source, schema, stream.services)
    stream.limits.check(listed)
    job: StreamJob = MonitorJob(stream, listed)
    if placed.where == "executors":
        df, plan = _on_executors(df, listed, stream)
        job = StateStoreJob(stream, plan)
    declared = [query.as_dict() for query in listed]
    return Handle(launch(df, stream, job, declared, placement=placed.where, trigger=trigger, name=name), stream)


def launch(
    df: DataFrame,
    stream: StreamSpec,
    job: StreamJob,
    declared: list[dict[str, Any]],
    *,
    placement: str,
    trigger: dict[str, Any] | None,
    name: str | None,
) -> StreamingQuery:
    """Open the checkpoint of a stream, and let Spark hand its micro-batches to the loop."""
    folder, source = stream.checkpoint, stream.source
    writer = _writer(df, trigger, name, folder)
    identity = {
        "time": source.time, "id": source.id, "time_unit": source.time_unit,
        "id_type": str(stream.schema.field(source.id).type), "algorithm": stream.algorithm, "placement": placement,
    }  # fmt: skip
    folder.open(identity, stream.schema, declared, list(stream.services), asdict(stream.limits))
    for feed in stream.feeds.values():
        feed.start()
    return writer.foreachBatch(MicroBatchLoop(stream, job)).start()


def _seconds(trial_budget: Duration | None) -> float | None:
    budget = not_negative(trial_budget, "trial_budget")
    if budget is not None and budget < SECOND:
        msg = f"trial_budget is {trial_budget!r}; give at least '1 second', or None for no limit"
        raise InputError(msg)
    return None if budget is None else budget / SECOND


def _on_executors(df: DataFrame, queries: Sequence[Query], stream: StreamSpec) -> tuple[DataFrame, Plan]:
    """Return what Spark's own state store makes of the stream, and how to read it."""
    sides = {"late": stream.late, "rejected": stream.rejected, "history": stream.history}
    given = ", ".join(name for name, side in sides.items() if side is not None)
    if stream.delay is None or given:
        given = given or "watermark=None"
        msg = f"placement='executors' has no {given}; leave it out, or use placement='driver'"
        raise InputError(msg)
    return answers_of(
        df, queries, source=stream.source, delay=stream.delay, algorithm=stream.algorithm, ahead=stream.ahead
    )


def stream_of(df: DataFrame, time: str, id_: str, time_unit: TimeUnit | None) -> tuple[StreamColumns, pa.Schema]:
    """Return how the stream's columns are read; refuse what is no stream, or lacks them."""
    if not getattr(df, "isStreaming", False):
        what = "a batch DataFrame" if hasattr(df, "isStreaming") else f"a {type(df).__name__}"
        msg = f"cannot start a stream on {what}; make one with spark.readStream, or use skyband.spark.topk for a batch"
        raise InputError(msg)
    source, schema = StreamColumns(time, id_, time_unit), columns.arrow_schema(df)
    columns.check(schema, source)
    return source, schema


def _check_folders(stream: StreamSpec) -> None:
    """Refuse to write two things into one folder: each would replace what the other wrote."""
    sinks = {"sink": stream.sink, "late": stream.late, "rejected": stream.rejected}
    folders = {name: sink.folder for name, sink in sinks.items() if isinstance(sink, Files)}
    seen = {stream.checkpoint.folder.absolute(): "checkpoint"}
    for name, folder in folders.items():
        if other := seen.get(folder.absolute()):
            msg = f"{other} and {name} are the same folder, {folder}; give each a folder of its own"
            raise InputError(msg)
        seen[folder.absolute()] = name


def checkpoint_of(folder: str | os.PathLike[str] | None) -> Checkpoint:
    """Return the checkpoint in the folder that was given, or in one that lasts as long as the process."""
    if folder is not None:
        return Checkpoint(folder)
    made = tempfile.mkdtemp(prefix="skyband-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    logger.warning("no checkpoint was given: this stream cannot be continued after this process")
    return Checkpoint(made)


def _writer(df: DataFrame, trigger: dict[str, Any] | None, name: str | None, folder: Checkpoint) -> DataStreamWriter:
    """Return the writer of a stream; refuse a trigger that it does not know."""
    writer = df.writeStream.option("checkpointLocation", str(folder.folder.absolute()))
    if name is not None:
        writer = writer.queryName(name)
    if trigger is None:
        return writer
    if not isinstance(trigger, dict) or len(trigger) != 1 or not set(trigger) <= set(TRIGGERS):
        msg = f"trigger is {trigger!r}; give one of {{'processingTime': '10 seconds'}}, {{'availableNow': True}}"
        raise InputError(msg)
    return writer.trigger(**trigger)
