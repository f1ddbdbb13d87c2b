"""Top-k of very many groups, kept in Spark's state store instead of on the driver.

Groups are dealt out to *buckets* by hash, and each bucket has one `Monitor`, whose snapshot is the bucket's
state. So Spark handles a few dozen keys, whatever the number of groups, and the core still works on whole
columns. Between the stages events and answers travel as Arrow batches packed into binary columns, one per
bucket: every type comes through as it is, and Python never sees a single event.

Spark's watermark is taken from the packed batches, and the column is dropped before it reaches the state: so
Spark advances the watermark but throws nothing away, and what is late for which window is the monitor's
business. A micro-batch sees the watermark that the ones before it left behind; so windows are answered first and
events taken in then. The answers are those of a local run over the same batches, one micro-batch later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband import algorithms
from skyband.answers.table import TIME
from skyband.engine.intake import Ranking
from skyband.engine.monitor import Monitor
from skyband.engine.schema import answer_schema, fit, used_columns
from skyband.errors import InputError, QueryError
from skyband.events.batch import EventBatch, StreamColumns
from skyband.expressions import Expression
from skyband.queries.query import Query
from skyband.spark import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming import StatefulProcessorHandle
    from pyspark.sql.streaming.stateful_processor import TimerValues

BUCKETS = 64
METRICS = "skyband"
"""The name of the metrics in Spark's progress that say how many rows were rejected, late and partly late."""
ROWS_AT_ONCE = 1 << 18
_BUCKET = "bucket of the partition"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def answers_of(
    df: DataFrame,
    queries: Sequence[Query],
    *,
    source: StreamColumns,
    delay: int,
    algorithm: str = "staircase",
    buckets: int = BUCKETS,
) -> DataFrame:
    """Answer queries over the groups of a stream, with their state in Spark's state store.

    Parameters
    ----------
    df
        The stream. Where a filter leaves few of its rows, filter it before: all rows go to the executors that
        keep their groups.
    queries
        Queries over time windows, all with the same `partition_by`. A restart may bring other ones: buckets go
        on with what they have for those that stay, and take up new ones.
    source
        The columns of event times and ids.
    delay
        How late events may come, in microseconds; Spark counts milliseconds, so it is rounded up to these.
    algorithm
        Which algorithm keeps the candidates.
    buckets
        How many monitors share the groups: several for every core, and so many that the state of each is some
        megabytes at most. A checkpoint stays with the number it began with.

    Returns
    -------
    A streaming DataFrame with the columns of ``Answers.table(quality=True)``, to be written in append mode. A
    window is answered in the first micro-batch that begins with a watermark beyond its end; when no more rows
    come, Spark runs one without. Spark has no watermark before 1970: windows that end before it wait until the
    stream has passed it.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    _check_engine(df)
    partition = _check_queries(queries, buckets)
    schema = columns.arrow_schema(df)
    columns.check(schema, source)
    used_columns(queries, source, schema)
    bucket = F.pmod(F.hash(columns.value(partition, schema)), F.lit(buckets))
    select = [*(name for query in queries for name in query.select), _BUCKET]
    rankings = [Ranking.of(query) for query in queries]
    view = columns.view(df.withColumn(_BUCKET, bucket), source, schema, rankings, select)
    plan = _Plan(
        queries=tuple(queries),
        source=source,
        algorithm=algorithm,
        layout=f"{algorithm} in {buckets} buckets of {partition} over {source}",
        rows=columns.arrow_schema(view.drop(_BUCKET)),
        answers=_answer_schema(queries, source, algorithm, schema),
    )
    plan.monitor()  # refuses here what each executor would refuse
    counts = ("rejected", "late", "partly_late")
    packed = view.mapInArrow(plan.pack, "bucket INT, newest TIMESTAMP, rows BINARY")
    answered = (
        packed.withWatermark("newest", f"{-(-delay // 1_000)} milliseconds")
        .select("bucket", "rows")
        .groupBy("bucket")
        .transformWithState(
            _Buckets(plan), f"answers BINARY, {', '.join(f'{name} BIGINT' for name in counts)}", "append", "EventTime"
        )
        .observe(METRICS, *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in counts))
    )
    one_row = pa.Table.from_pylist([{}], plan.answers)  # Connect takes no schema from an empty table
    return answered.mapInArrow(plan.unpack, df.sparkSession.createDataFrame(one_row).schema)


def _check_engine(df: DataFrame) -> None:
    if not df.isStreaming:
        msg = "the DataFrame is no stream; answer it with skyband.spark.topk, or make one with spark.readStream"
        raise InputError(msg)
    provider = df.sparkSession.conf.get(_PROVIDER)
    if provider.endswith("HDFSBackedStateStoreProvider"):
        msg = (
            f"Spark's state store is {provider.rpartition('.')[2]}, and placement='executors' needs RocksDB; before "
            f"you start, say spark.conf.set({_PROVIDER!r}, {_ROCKSDB!r})"
        )
        raise InputError(msg)
    try:
        import_module("google.protobuf")  # Spark's workers reach the state store by it, and crash without
    except ImportError:
        msg = "placement='executors' needs the package protobuf, here and on all executors: pip install protobuf"
        raise InputError(msg) from None


def _check_queries(queries: Sequence[Query], buckets: int) -> Expression:
    """Return the partition that all queries share; refuse what buckets cannot answer."""
    if buckets < 1:
        msg = f"buckets is {buckets}; it must be at least 1"
        raise InputError(msg)
    if not queries:
        msg = "no query was given; give at least one"
        raise QueryError(msg)
    partitions = {query.partition_expression: query for query in queries}
    for query in queries:
        problem = (
            "has no partition_by, so there are no groups to spread" if query.partition_by is None
            else "counts events as they arrive, which executors do not see in one order" if query.window.counts
            else "emits early answers, which buckets would give in pieces" if query.emit == "early"
            else None
        )  # fmt: skip
        if problem:
            msg = f"query {query.name!r} {problem}; run it with placement='driver'"
            raise InputError(msg)
    if len(partitions) > 1:
        said = " and ".join(f"{p} (query {q.name!r})" for p, q in partitions.items())
        msg = f"the queries are partitioned by {said}, and a stream can be spread one way only; start one for each"
        raise InputError(msg)
    (partition,) = partitions
    assert partition is not None
    return partition


def _answer_schema(queries: Sequence[Query], source: StreamColumns, algorithm: str, schema: pa.Schema) -> pa.Schema:
    quality = {"exact": pa.bool_(), "why": pa.string(), "provisional": pa.bool_()}
    found = answer_schema(queries, source, algorithms.find(algorithm), schema)
    return pa.schema([*((f.name, f.type) for f in found if f.name not in quality), *quality.items()])


@dataclass(frozen=True)
class _Plan:
    """What executors must know: what to serve, the columns of the `rows` that come and of the `answers` that go.

    `layout` is what a checkpoint cannot change.
    """

    queries: tuple[Query, ...]
    source: StreamColumns
    algorithm: str
    layout: str
    rows: pa.Schema
    answers: pa.Schema

    @cached_property
    def version(self) -> str:
        """A short name of the queries."""
        return blake2b(repr(self.queries).encode(), digest_size=12).hexdigest()

    def monitor(self) -> Monitor:
        """Return a monitor that has seen nothing yet."""
        source = self.source
        monitor = Monitor(
            self.queries, algorithm=self.algorithm, time=source.time, id=source.id, time_unit=source.time_unit
        )
        monitor.declare(self.rows)
        return monitor

    def pack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Deal rows out to buckets: each bucket gets its own as one binary value."""
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(part.num_rows for part in held) >= ROWS_AT_ONCE:
                yield self._packed(pa.Table.from_batches(held))
                held = []
        if held:
            yield self._packed(pa.Table.from_batches(held))

    def _packed(self, table: pa.Table) -> pa.RecordBatch:
        bucket = table[_BUCKET].to_numpy()
        order = np.argsort(bucket, kind="stable")
        buckets, begins = np.unique(bucket[order], return_index=True)
        rows = _batch(table.drop_columns(_BUCKET).cast(self.rows).take(pa.array(order)))
        ends = [*begins[1:].tolist(), rows.num_rows]
        # Spark's watermark begins with 1970, so that is a time which moves nothing where no row has one.
        newest = max(EventBatch(rows, self.source).newest, 0)
        return pa.record_batch(
            {
                "bucket": pa.array(buckets, pa.int32()),
                "newest": pa.array([newest] * len(buckets), pa.int64()).cast(TIME),
                "rows": [_bytes(rows[begin:end]) for begin, end in zip(begins.tolist(), ends, strict=True)],
            }
        )

    def unpack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the answers of all buckets as columns."""
        for batch in batches:
            for answers in batch["answers"].drop_null():
                yield pa.ipc.read_record_batch(answers.as_buffer(), self.answers)

    def take_over(self, monitor: Monitor) -> None:
        """Have a monitor serve the queries that are wanted now; it keeps what it has for those that stay."""
        known = {query.name: query for query in monitor.queries}
        for name in known.keys() - {query.name for query in self.queries}:
            monitor.unregister(name)
        for query in self.queries:
            if query.name in known and Ranking.of(query) != Ranking.of(known[query.name]):
                monitor.unregister(query.name)
        monitor.declare(self._columns(monitor))
        left = {query.name: query for query in monitor.queries}
        for query in self.queries:
            if query.name not in left:
                monitor.register(query)
            elif query != left[query.name]:
                monitor.change(query)

    def _columns(self, monitor: Monitor) -> pa.Schema:
        """Return the columns of the rows, and those that only queries of the past wanted to carry."""
        carried = {name for group in monitor.groups for name in group.intake.select} - set(self.rows.names)
        assert monitor.schema is not None
        return pa.schema([*self.rows, *(field for field in monitor.schema if field.name in carried)])

    def push(self, monitor: Monitor, batches: Sequence[pa.RecordBatch]) -> None:
        """Take in what came for a bucket."""
        rows = pa.Table.from_batches(batches)
        for field in self._columns(monitor):
            if field.name not in rows.column_names:
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        monitor.push(rows.combine_chunks())


class _Buckets:
    """Keeps one monitor per bucket: what Spark calls a `StatefulProcessor`, whose methods these are.

    The `head` of a bucket says what its monitor serves, when it next has a window to close, and which watermark it
    has seen last. So timers can go off in all buckets whenever the watermark moves, and still a monitor is only
    loaded when it has something to do.
    """

    def __init__(self, plan: _Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Say what a bucket's state is."""
        self.handle = handle
        self.head = handle.getValueState("head", "layout STRING, queries STRING, due BIGINT, seen BIGINT")
        self.snapshot = handle.getValueState("monitor", "snapshot BINARY")

    def handleInputRows(self, _: Any, rows: Iterator[Row], times: TimerValues) -> Iterator[Row]:  # noqa: N802 - Spark's
        """Take in a bucket's events."""
        batches = [pa.ipc.read_record_batch(row.rows, self.plan.rows) for row in rows]
        now = times.getCurrentWatermarkInMs()
        if not self.head.exists():
            self.handle.registerTimer(now + 1)
        yield self._visit(now, batches)

    def handleExpiredTimer(self, timerValues: TimerValues, **_: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        """Answer a bucket's windows when the watermark has moved."""
        now = timerValues.getCurrentWatermarkInMs()
        self.handle.registerTimer(now + 1)
        layout, queries, due, _seen = self.head.get()
        if due <= now or queries != self.plan.version:
            yield self._visit(now, [])
        else:
            self.head.update((layout, queries, due, now))

    def close(self) -> None:
        """Nothing is left open."""

    def _visit(self, now: int, batches: Sequence[pa.RecordBatch]) -> Row:
        """Let a bucket answer, then take in; `now` is Spark's watermark in milliseconds, 0 while it has none."""
        from pyspark.sql import Row

        plan = self.plan
        monitor = self._load() if self.head.exists() else plan.monitor()
        before = monitor.stats()
        answers = monitor.advance(_microseconds(now))
        if batches:
            plan.push(monitor, batches)
        ends = [schedule.first_end_after(now * 1_000) for group in monitor.groups for schedule in group.schedules]
        self.head.update((plan.layout, plan.version, -(-min(ends) // 1_000) if now else 1, now))
        self.snapshot.update((monitor.snapshot(),))
        after, table = monitor.stats(), fit(answers, plan.answers)
        return Row(
            answers=_bytes(_batch(table)) if table.num_rows else None,
            rejected=after.rejected - before.rejected,
            late=after.late - before.late,
            partly_late=after.partly_late - before.partly_late,
        )

    def _load(self) -> Monitor:
        layout, queries, _, seen = self.head.get()
        if layout != self.plan.layout:
            msg = (
                f"this checkpoint was made with {layout}, and this run has {self.plan.layout}; go on as before, or "
                "start with a new checkpoint"
            )
            raise InputError(msg)
        monitor = Monitor.restore(self.snapshot.get()[0])
        if queries != self.plan.version:
            monitor.advance(_microseconds(seen))  # closes nothing, but new queries must not begin before
            self.plan.take_over(monitor)
        return monitor


def _microseconds(watermark: int) -> int | None:
    return watermark * 1_000 if watermark else None


def _batch(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


def _bytes(batch: pa.RecordBatch) -> bytes:
    return batch.serialize().to_pybytes()  # type: ignore[no-any-return]
