"""Top-k of very many groups or ids, kept in Spark's state store instead of on the driver.

Groups are dealt out to *buckets* by hash, and each bucket has one `Monitor`, whose snapshot is the bucket's
state. So Spark handles a few dozen keys, whatever the number of groups, and the core still works on whole
columns. Between the stages events and answers travel as Arrow batches packed into binary columns, one per
bucket: every type comes through as it is, and Python never sees a single event.

Queries that rank all ids by aggregates have their ids dealt out. Each bucket keeps the sums of its ids, and answers
with the best k of these; the driver merges what all buckets answer for a window. A bucket gets rows as they are, not
added up before: where there are so many ids that they are kept here, few rows of a batch have the same.

Spark's watermark is taken from the packed batches, and the column is dropped before it reaches the state: so
Spark advances the watermark but throws nothing away, and what is late for which window is the monitor's
business. A micro-batch sees the watermark that the ones before it left behind; so windows are answered first and
events taken in then. The answers are those of a local run over the same batches, one micro-batch later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband import algorithms
from skyband.answers.answer import Answers
from skyband.answers.table import TIME
from skyband.engine.groups import Stream
from skyband.engine.intake import Ranking
from skyband.engine.merged import Merger, asked_of_places, doubts_of
from skyband.engine.monitor import Monitor
from skyband.engine.schema import answer_schema, fit, fit_table, used_columns
from skyband.errors import InputError, QueryError
from skyband.events.ahead import ahead_time
from skyband.events.batch import EventBatch, StreamColumns
from skyband.expressions import Expression
from skyband.queries.outputs import plain
from skyband.queries.query import Query
from skyband.spark import columns
from skyband.spark.checkpoint import State
from skyband.spark.loop import StreamJob, StreamSpec, datetime_of
from skyband.spark.reducers.base import BatchProgress
from skyband.spark.reducers.candidates import ROWS_AT_ONCE, gathered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming import StatefulProcessorHandle
    from pyspark.sql.streaming.stateful_processor import TimerValues

BUCKETS = 64
COUNTED, HELD = ("late", "partlyLate", "rejected", "ahead"), ("kept", "keptLimit", "stateBytes")
"""What buckets count of the rows that come in, and of what they hold; a visit says by how much it changed."""
_BUCKET = "bucket of the partition"
_NOT_AFTER = "latest time that may be"
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
    ahead: int | None = None,
) -> tuple[DataFrame, Plan]:
    """Answer queries over the groups of a stream, with their state in Spark's state store.

    The queries have the same `partition_by`, or all of them rank the same ids by aggregates. A restart may bring other
    ones: buckets go on with what they have for those that stay, and take up new ones. Each of the `buckets` has a
    monitor: there should be several for every core, and so many that the state of each is some megabytes at most. A
    checkpoint stays with the number it began with.

    Spark rounds the `delay` up to milliseconds. It reads the clock, from which event times may be `ahead`, once per
    micro-batch, and keeps what it read with the batch's offsets, so a replay decides alike.

    Returns a streaming DataFrame, to be written in append mode, and the plan that reads its micro-batches. A window is
    answered in the first micro-batch that begins with a watermark beyond its end; when no more rows come, Spark runs
    one without. Spark has no watermark before 1970: windows that end before it wait until the stream has passed it.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    _check_engine(df)
    key, merges = _check_queries(queries, source)
    schema = columns.arrow_schema(df)
    columns.check(schema, source)
    used_columns(queries, source, schema)
    bucket = F.pmod(F.hash(columns.value(key, schema)), F.lit(buckets))
    latest = F.lit(None) if ahead is None else F.unix_micros(F.current_timestamp()) + F.lit(ahead)
    dealt = df.withColumns({_BUCKET: bucket, _NOT_AFTER: latest.cast("bigint")})
    plain_rankings = [query for query in queries if query.ranks_events]
    outputs = [output for query in plain_rankings for output in query.carried]
    used = used_columns([query for query in queries if not query.ranks_events], source, schema)
    more = [_BUCKET, _NOT_AFTER, *used]
    names, worked_out = columns.needed(source, schema, list(map(Ranking.of, plain_rankings)), outputs, more)
    view = dealt.select(*map(columns.quoted, names), *worked_out)
    plan = Plan(
        queries=tuple(queries),
        source=source,
        algorithm=algorithm,
        layout=f"{algorithm} in {buckets} buckets of {key}{', merged,' if merges else ''} over {_columns(source)}",
        names=tuple(view.columns),
        rows=columns.arrow_schema(view.drop(_BUCKET, _NOT_AFTER)),
        answers=_answer_schema(queries, source, algorithm, schema),
        merges=merges,
    )
    plan.monitor()  # refuses here what each executor would refuse
    seen = ("watermark", "rows", "newest", "notAfter", "aheadAt")
    visit = f"answers BINARY, {', '.join(f'{name} BIGINT' for name in seen + COUNTED + HELD)}"
    numbered = view.toDF(*map(str, range(len(plan.names))))  # names of expressions may have dots in them
    packed = numbered.mapInArrow(plan.pack, "bucket INT, newest TIMESTAMP, not_after BIGINT, rows BINARY")
    answered = (
        packed.withWatermark("newest", f"{-(-delay // 1_000)} milliseconds")
        .select("bucket", "not_after", "rows")
        .groupBy("bucket")
        .transformWithState(_Buckets(plan), visit, "append", "EventTime")
    )
    return answered, plan


def _check_engine(df: DataFrame) -> None:
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


def _check_queries(queries: Sequence[Query], source: StreamColumns) -> tuple[Expression, bool]:
    """Return what rows are dealt out by, and whether what buckets answer is merged; refuse what they cannot answer."""
    if not queries:
        msg = "no query was given; give at least one"
        raise QueryError(msg)
    for query in queries:
        problem = (
            "joins, and what is known of services is kept on the driver" if query.join is not None
            else "counts events as they arrive, which executors do not see in one order" if query.window.counts
            else "has no partition_by, so there are no groups to spread"
            if query.ranks_events and query.partition_by is None
            else "emits early answers, which buckets would give in pieces" if query.emit == "early"
            else None
        )  # fmt: skip
        if problem:
            msg = f"query {query.name!r} {problem}; run it with placement='driver'"
            raise InputError(msg)
    keys = {_dealt_by(query, source): query for query in queries}
    if len(keys) > 1:
        said = " and ".join(f"{key} (query {query.name!r})" for key, query in keys.items())
        msg = f"the queries are spread by {said}, and a stream can be spread one way only; start one for each"
        raise InputError(msg)
    whole = {query.partition_by is None: query for query in queries}
    if len(whole) > 1:
        msg = (
            f"query {whole[True].name!r} ranks all ids, so its answers are merged, and query {whole[False].name!r} has "
            "partition_by, so its answers are not; start a stream for each"
        )
        raise InputError(msg)
    return next(iter(keys)), True in whole


def _dealt_by(query: Query, source: StreamColumns) -> Expression:
    """Return what tells apart what a query keeps: its partitions, or else its ids."""
    return query.partition_expression or query.group_expression or plain(source.id).expression


def _answer_schema(queries: Sequence[Query], source: StreamColumns, algorithm: str, schema: pa.Schema) -> pa.Schema:
    quality = {"exact": pa.bool_(), "why": pa.string(), "provisional": pa.bool_()}
    found = answer_schema(queries, source, algorithms.find(algorithm), schema)
    return pa.schema([*((f.name, f.type) for f in found if f.name not in quality), *quality.items()])


@dataclass(frozen=True)
class Outcome:
    """What a micro-batch brought: the buckets' `answers`, by how much each number changed, the watermark, if it moved.

    `not_after` is the last event time that was taken, `ahead_at` one that was not, and `newest` the latest of all
    buckets that got rows.
    """

    answers: pa.Table
    changes: dict[str, int]
    watermark: int | None
    rows: int
    not_after: int | None
    ahead_at: int | None
    newest: int | None = None


@dataclass(frozen=True)
class Plan:
    """What executors must know: what to serve, the columns of the `rows` that come and of the `answers` that go.

    `layout` is what a checkpoint cannot change; `names` are those of the columns that executors get, in order. `merges`
    says whether the `answers` are merged from those of all buckets.
    """

    queries: tuple[Query, ...]
    source: StreamColumns
    algorithm: str
    layout: str
    names: tuple[str, ...]
    rows: pa.Schema
    answers: pa.Schema
    merges: bool = False

    @cached_property
    def served(self) -> tuple[Query, ...]:
        """The queries that buckets answer."""
        return tuple(map(asked_of_places, self.queries)) if self.merges else self.queries

    @cached_property
    def parts(self) -> pa.Schema:
        """The columns of what buckets answer; what changed is found afterwards where they are merged."""
        later = ("change", "previous_rank") if self.merges else ()
        return pa.schema([field for field in self.answers if field.name not in later])

    @cached_property
    def version(self) -> str:
        """A short name of the queries that buckets answer."""
        return blake2b(repr(self.served).encode(), digest_size=12).hexdigest()

    def monitor(self) -> Monitor:
        """Return a monitor that has seen nothing yet."""
        source = self.source
        monitor = Monitor(
            self.served, algorithm=self.algorithm, time=source.time, id=source.id, time_unit=source.time_unit
        )
        monitor.declare(self.rows)
        return monitor

    def pack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Deal rows out to buckets: each bucket gets its own as one binary value."""
        for batch in gathered(batches, ROWS_AT_ONCE):
            yield self._packed(pa.Table.from_batches([batch.rename_columns(self.names)]))

    def _packed(self, table: pa.Table) -> pa.RecordBatch:
        bucket = table[_BUCKET].to_numpy()
        order = np.argsort(bucket, kind="stable")
        buckets, begins = np.unique(bucket[order], return_index=True)
        limit = table[_NOT_AFTER][0].as_py()  # the same for all rows of a micro-batch
        rows = _batch(table.drop_columns([_BUCKET, _NOT_AFTER]).cast(self.rows).take(pa.array(order)))
        ends = [*begins[1:].tolist(), rows.num_rows]
        # Spark's watermark begins with 1970, so that is a time which moves nothing where no row has one.
        newest = max(EventBatch(rows, self.source, limit).newest, 0)
        return pa.record_batch(
            {
                "bucket": pa.array(buckets, pa.int32()),
                "newest": pa.array([newest] * len(buckets), pa.int64()).cast(TIME),
                "not_after": pa.array([limit] * len(buckets), pa.int64()),
                "rows": [_bytes(rows[begin:end]) for begin, end in zip(begins.tolist(), ends, strict=True)],
            }
        )

    def outcome(self, visits: pa.Table) -> Outcome:
        """Return what the visits of all buckets brought."""
        packed = visits["answers"].drop_null()
        answers = [pa.ipc.read_record_batch(one.as_buffer(), self.parts) for one in packed]
        changes = {name: pc.sum(visits[name]).as_py() or 0 for name in COUNTED + HELD}
        watermark, table = pc.max(visits["watermark"]).as_py(), pa.Table.from_batches(answers, self.parts)
        return Outcome(
            table if self.merges else _flagged(table), changes, watermark and _microseconds(watermark),
            pc.sum(visits["rows"]).as_py() or 0, pc.max(visits["notAfter"]).as_py(), pc.min(visits["aheadAt"]).as_py(),
            pc.max(visits["newest"]).as_py(),
        )  # fmt: skip

    def take_over(self, monitor: Monitor) -> None:
        """Have a monitor serve the queries that are wanted now; it keeps what it has for those that stay."""
        wanted = {query.name: query for query in self.served}
        for query in monitor.queries:
            if not _goes_on(query, wanted.get(query.name)):
                monitor.unregister(query.name)
        monitor.declare(self._columns(monitor))
        left = {query.name: query for query in monitor.queries}
        for query in self.served:
            if query.name not in left:
                monitor.register(query)
            elif query != left[query.name]:
                monitor.change(query)

    def _columns(self, monitor: Monitor) -> pa.Schema:
        """Return the columns of the rows, and those that only queries of the past wanted to carry."""
        assert monitor.schema is not None
        outputs = [output for ranking in monitor.ranking_plans() for output in ranking.outputs]
        carried = {name for output in outputs for name in output.needs(monitor.schema)} - set(self.rows.names)
        return pa.schema([*self.rows, *(field for field in monitor.schema if field.name in carried)])

    def told(self, answers: Answers) -> pa.Table:
        """Return what a bucket answers as rows, and which of its answers are not exact."""
        table, doubts = fit(answers, self.parts), doubts_of(answers)
        return pa.concat_tables([table, pa.Table.from_pylist(doubts, self.parts)]) if doubts else table

    def merger(self) -> Merger:
        """Return what merges the answers of buckets, from the beginning."""
        stream = Stream(self.source, algorithms.find(self.algorithm), {})
        return Merger(self.queries, stream, self.source.is_plain(self.rows))

    def push(self, monitor: Monitor, batches: Sequence[pa.RecordBatch], not_after: int | None) -> dict[str, Any]:
        """Take in what came for a bucket; say how many rows and up to when, and whether any was ahead."""
        rows = fit_table(pa.Table.from_batches(batches), self._columns(monitor))
        monitor.push(rows.combine_chunks(), not_after=not_after)
        ahead = None if not_after is None else ahead_time(rows, self.source, not_after)
        return {"rows": rows.num_rows, "newest": monitor.newest, "notAfter": not_after, "aheadAt": ahead}


def _goes_on(query: Query, wanted: Query | None) -> bool:
    """Tell whether what is kept for a query serves the one of its name that is wanted now."""
    if wanted is None or not (query.ranks_events and wanted.ranks_events):
        return query == wanted
    return Ranking.of(query) == Ranking.of(wanted)


def _flagged(answers: pa.Table) -> pa.Table:
    """Return answers, each as a whole not exact where a bucket's part of it is not: of ties, only some may be cut.

    A part may have no rows, where nothing changed in it; what is doubted of it comes without a time.
    """
    if not answers.num_rows or all(exact := answers["exact"].to_pylist()):
        return answers
    of = list(zip(answers["query"].to_pylist(), answers["window_end"].to_pylist(), strict=True))
    reasons = zip(of, exact, answers["why"].to_pylist(), strict=True)
    known = {answer: why for answer, is_exact, why in reasons if not is_exact}
    flags = {"exact": [answer not in known for answer in of], "why": [known.get(answer) for answer in of]}
    for name, values in flags.items():
        field = answers.schema.field(name)
        answers = answers.set_column(answers.column_names.index(name), field, pa.array(values, field.type))
    return answers.filter(pc.is_valid(answers["time"]))


class StateStoreJob(StreamJob):
    """Writes the answers that executors made by a plan, and shows the latest; Spark keeps the state.

    Where the answers of buckets are merged, the driver keeps what the next changes are compared with.
    """

    outcome: Outcome
    told: pa.Table

    def __init__(self, spec: StreamSpec, plan: Plan) -> None:
        super().__init__(spec)
        self.plan = plan
        self.durable = plan.merges

    def resume(self, state: State | None) -> None:
        """Take up what was told last, where answers are merged; all else is in Spark's state store."""
        if self.plan.merges:
            self.merger, self.state = self.plan.merger(), state or State(b"")
            if state is not None:
                self.merger.load(state.monitor)

    def snapshot(self) -> bytes:
        """Return what the next answers are compared with."""
        return self.merger.snapshot()

    def reduce(self, df: DataFrame, progress: BatchProgress) -> None:
        """Collect what the executors say of the batch."""
        with progress.phase("scan"):
            self.outcome = found = self.plan.outcome(df.toArrow())
        progress.input_rows, progress.ahead = found.rows, found.changes["ahead"]
        progress.not_after, progress.ahead_at = found.not_after, found.ahead_at

    def advance(self, df: DataFrame, batch_id: int, progress: BatchProgress) -> pa.Table | None:  # noqa: ARG002 - executors did
        """Return the answers, and show the latest."""
        self.told = table = self._merged() if self.plan.merges else self.outcome.answers
        if table.num_rows:
            ends = table.group_by("query").aggregate([("window_end", "max")])
            last = table.join(ends, ["query", "window_end"], ["query", "window_end_max"], "left semi")
            of_window = [("window_start", "max"), ("window_end", "max"), ("rank", "count"), ("exact", "min")]
            windows = {
                row["query"]: {
                    "window_start": (start := row["window_start_max"]) and str(start),
                    "window_end": str(row["window_end_max"]),
                    "rows": row["rank_count"], "exact": row["exact_min"], "why": None,
                }
                for row in last.group_by("query").aggregate(of_window).to_pylist()
            }  # fmt: skip
            self.shown.note(windows, last)
        return table

    def _merged(self) -> pa.Table:
        """Return the answers of all buckets as one, in order of their ends, then of the queries."""
        plan, mark, newest = self.plan, self.outcome.watermark, self.outcome.newest
        found = Answers() if mark is None else self.merger.merge(self.outcome.answers, mark)
        if newest is not None:  # windows are answered first
            self.merger.note(newest)
        table = fit(found, plan.answers)
        turn = pc.index_in(table["query"], pa.array([query.name for query in plan.queries]))
        return table.take(np.lexsort((turn.to_numpy(), table["window_end"].cast(pa.int64()).to_numpy())))

    def report(self, batch_id: int, progress: BatchProgress) -> dict[str, Any]:  # noqa: ARG002 - for others
        """Return the batch's progress after that of the ones before, and add up the totals.

        Executors say by how much each number changed. What is kept is not known where the status was lost.
        """
        shown, changes, mark = self.shown, self.outcome.changes, self.outcome.watermark
        earlier = [entry for entry in shown.progress if entry["batchId"] < batch_id]
        again: dict[str, Any] = next((entry for entry in shown.progress if entry["batchId"] == batch_id), {})
        before = earlier[-1] if earlier else dict.fromkeys(HELD, 0) if batch_id == 0 else {}
        counted = {name: changes[name] for name in COUNTED}
        held = {name: None if before.get(name) is None else before[name] + changes[name] for name in HELD}
        shown.totals = {n: shown.totals.get(n, 0) - again.get(n, 0) + count for n, count in counted.items()}
        moved = before.get("watermark") if mark is None else datetime_of(mark).isoformat()
        return {**counted, "answerRows": self.told.num_rows, **held, "watermark": moved}

    def queries(self) -> list[dict[str, Any]]:
        """List the queries; all are served."""
        return [{"name": q.name, "state": "active", "query": q.as_dict()} for q in self.plan.queries]


class _Buckets:
    """Keeps one monitor per bucket: what Spark calls a `StatefulProcessor`, whose methods these are.

    The `head` of a bucket says what its monitor serves, when it next has a window to close, and which watermark it
    has seen last. So timers can go off in all buckets whenever the watermark moves, and still a monitor is only
    loaded when it has something to do.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Say what a bucket's state is."""
        self.handle = handle
        self.head = handle.getValueState("head", "layout STRING, queries STRING, due BIGINT, seen BIGINT")
        self.snapshot = handle.getValueState("monitor", "snapshot BINARY")

    def handleInputRows(self, _: Any, rows: Iterator[Row], times: TimerValues) -> Iterator[Row]:  # noqa: N802 - Spark's
        """Take in a bucket's events."""
        packed = sorted(rows, key=lambda row: bytes(row.rows))  # sums must not depend on which task was the first
        batches = [pa.ipc.read_record_batch(row.rows, self.plan.rows) for row in packed]
        now = times.getCurrentWatermarkInMs()
        if not self.head.exists():
            self.handle.registerTimer(now + 1)
        yield self._visit(now, batches, packed[0].not_after)

    def handleExpiredTimer(self, timerValues: TimerValues, **_: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        """Answer a bucket's windows when the watermark has moved."""
        now = timerValues.getCurrentWatermarkInMs()
        self.handle.registerTimer(now + 1)
        layout, queries, due, _seen = self.head.get()
        if due <= now or queries != self.plan.version:
            yield self._visit(now, [])
        else:
            self.head.update((layout, queries, due, now))
            yield _row(None, now, dict.fromkeys(COUNTED + HELD, 0))

    def close(self) -> None:
        """Nothing is left open."""

    def _visit(self, now: int, batches: Sequence[pa.RecordBatch], not_after: int | None = None) -> Row:
        """Let a bucket answer, then take in; `now` is Spark's watermark in milliseconds, 0 while it has none."""
        plan, known = self.plan, self.head.exists()
        stored = self.snapshot.get()[0] if known else b""
        monitor = self._load(stored) if known else plan.monitor()
        before = _counts(monitor, stored)
        if known:
            self._take_over(monitor)
        answers = monitor.advance(_microseconds(now))
        seen = plan.push(monitor, batches, not_after) if batches else {}
        end = monitor.next_end(now * 1_000) or 0
        self.head.update((plan.layout, plan.version, -(-end // 1_000) if now else 1, now))
        stored = monitor.snapshot()
        self.snapshot.update((stored,))
        after, table = _counts(monitor, stored), plan.told(answers)
        packed = _bytes(_batch(table)) if table.num_rows else None
        return _row(packed, now, {name: after[name] - before[name] for name in after}, seen)

    def _load(self, stored: bytes) -> Monitor:
        layout, *_ = self.head.get()
        layout = layout.replace("over Source(", "over ").removesuffix(")")  # an earlier form
        if layout != self.plan.layout:
            msg = (
                f"this checkpoint was made with {layout}, and this run has {self.plan.layout}; go on as before, or "
                "start with a new checkpoint"
            )
            raise InputError(msg)
        return Monitor.restore(stored)

    def _take_over(self, monitor: Monitor) -> None:
        """Have a monitor serve the queries of this run, where it served others."""
        _, queries, _, seen = self.head.get()
        if queries != self.plan.version:
            monitor.advance(_microseconds(seen))  # closes nothing, but new queries must not begin before
            self.plan.take_over(monitor)


def _row(answers: bytes | None, watermark: int, changes: dict[str, int], seen: Mapping[str, Any] | None = None) -> Row:
    """Return what a visit brought, in the columns that the stream has."""
    from pyspark.sql import Row

    nothing = {"rows": 0, "newest": None, "notAfter": None, "aheadAt": None}
    return Row(answers=answers, watermark=watermark or None, **{**nothing, **(seen or {})}, **changes)


def _counts(monitor: Monitor, stored: bytes) -> dict[str, int]:
    """Return what a bucket counts, as things stand."""
    stats = monitor.stats()
    numbers = (stats.late, stats.partly_late, stats.rejected, stats.ahead, stats.kept, stats.bound, len(stored))
    return dict(zip(COUNTED + HELD, numbers, strict=True))


def _columns(source: StreamColumns) -> str:
    """Return what a bucket remembers of the columns: plain words, which no renamed class changes."""
    return f"time={source.time!r}, id={source.id!r}, time_unit={source.time_unit!r}"


def _microseconds(watermark: int) -> int | None:
    return watermark * 1_000 if watermark else None


def _batch(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


def _bytes(batch: pa.RecordBatch) -> bytes:
    return batch.serialize().to_pybytes()  # type: ignore[no-any-return]
