"""The door of a stream: its columns and their types, conditions and values of rows, late and rejected rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from skyband.calendars import Calendar
from skyband.engine.snapshot import State
from skyband.errors import InputError, QueryError, SkybandError
from skyband.events.batch import EventBatch, StreamColumns, as_batches, type_null_columns
from skyband.expressions import Bound, Expression
from skyband.order import NEVER, BoolArray, FloatArray, IntArray, Prefer, Ties
from skyband.queries.outputs import Output, key_of
from skyband.queries.query import Distinct, Order, Query
from skyband.times import microseconds_of

logger = logging.getLogger(__name__)
MOST_ROWS = 1 << 25
WARMING_UP = "warming up"
APPROXIMATE = "approximate"
_NO_ROWS = np.empty(0, np.int64)


def too_many_ties(most: int) -> str:
    """Say why an answer with ties is not exact: it was cut."""
    return f"cut to {most:,} rows, as max_ties says"


Sink = Callable[[pa.RecordBatch], None]


@dataclass(frozen=True)
class Ranking:
    """What queries must have in common to share one staircase."""

    score: Expression
    where: Expression | None
    partition_keys: tuple[Output, ...]
    distinct: Distinct | None
    order: Order
    counts: bool
    ties: Ties | None = None
    max_ties: int = 0
    prefer: Prefer = "latest"
    periods: Calendar | None = None

    @classmethod
    def of(cls, query: Query) -> Ranking:
        """Return how a query ranks."""
        return cls(
            query.score_expression, query.where_expression, query.partition_keys, query.distinct, query.order,
            query.window.counts, query.ties, 0 if query.ties is None else query.max_ties, query.prefer,
            query.window.periods,
        )  # fmt: skip

    @cached_property
    def partition_by(self) -> Expression | None:
        """What tells partitions apart, if there are any."""
        return key_of(self.partition_keys)

    def __str__(self) -> str:
        parts = [f"score {self.score} {self.order}"]
        parts += [f"where {self.where}"] if self.where else []
        keys = ", ".join(str(key.expression) for key in self.partition_keys)
        parts += [f"partition by {keys}"] if keys else []
        parts += [f"distinct {self.distinct}"] if self.distinct else []
        parts += [f"ties {self.ties}, at most {self.max_ties:,}"] if self.ties else []
        parts += [f"prefer {self.prefer}"] if self.prefer != "latest" else []
        windows = "count" if self.counts else "time" if self.periods is None else "calendar"
        return ", ".join([*parts, f"{windows} windows"])


@dataclass
class Counts:
    """What a group has seen."""

    events: int = 0
    rejected: int = 0
    late: int = 0
    partly_late: int = 0


@dataclass
class BatchOutcome:
    """What became of the rows of one batch in one group: which passed, which were rejected, which came too late."""

    passed: BoolArray | None
    rejected: IntArray
    late: IntArray = field(default_factory=lambda: _NO_ROWS)
    partly: IntArray = field(default_factory=lambda: _NO_ROWS)
    newest: int | None = None  # the latest time of all rows, where the group looked at all of them


class Reader(Protocol):
    """A group of queries or subscriptions that reads the stream's columns."""

    @property
    def name(self) -> str:
        """By which an error names it: that of its first query."""

    @property
    def carried(self) -> AbstractSet[str]:
        """The columns that are carried along."""

    @property
    def id_columns(self) -> AbstractSet[str]:
        """The columns that ids are taken from, besides the stream's own."""

    @property
    def key_columns(self) -> AbstractSet[str]:
        """The columns that are keys as they are; where they hold nothing yet, they may well be whole numbers."""

    def sources(self, schema: pa.Schema) -> AbstractSet[str]:
        """Return the columns that keys, and what is carried along, are computed from."""

    def bind(self, schema: pa.Schema, source: StreamColumns) -> None:
        """Look up columns; InputError or QueryError where one is missing or of a wrong type."""


@dataclass
class RowCounts:
    """What became of a stream's rows."""

    rows: int = 0
    late: int = 0
    partly_late: int = 0
    rejected: int = 0
    ahead: int = 0


class Intake:
    """Lets batches in: types them, binds those who read them, counts late and rejected rows and hands these on.

    Parameters
    ----------
    source
        The stream's columns of times and ids.
    select
        More columns that the stream must have.
    on_late, on_rejected
        Called with the rows that missed all their windows, and with those that lack a score, a time or an id.
    """

    def __init__(
        self, source: StreamColumns, select: Sequence[str] = (), on_late: Sink | None = None,
        on_rejected: Sink | None = None,
    ) -> None:  # fmt: skip
        self.source, self.select, self.on_late, self.on_rejected = source, tuple(select), on_late, on_rejected
        self.schema: pa.Schema | None = None
        self.plain = False  # whether times are bare whole numbers
        self.counts = RowCounts()
        self.newest = NEVER
        self._types: dict[str, pa.DataType] = {}  # of the columns that have held anything
        self._usual: pa.Schema | None = None  # the schema, once a batch had values in all of its columns

    def batches(
        self, data: Any, readers: Collection[Reader], not_after: int | datetime | None = None
    ) -> Iterator[EventBatch]:  # fmt: skip
        """Yield the rows of whatever holds events, in batches that the readers are bound to."""
        limit = None if not_after is None else microseconds_of(not_after)
        for part in as_batches(data, MOST_ROWS):
            if self._usual is not None and self._usual is self.schema and part.schema.equals(self._usual):
                yield EventBatch(part, self.source, limit)
                continue
            carried = set(self.select).union(*(reader.carried for reader in readers))
            ids = set[str]().union(*(reader.id_columns | reader.key_columns for reader in readers))
            batch = type_null_columns(part, self._types, self.source, carried, ids)
            self.declare(batch.schema, readers)
            self._types |= {f.name: f.type for f in part.schema if f.type != pa.null()}
            self._usual = self.schema if batch is part else None
            yield EventBatch(batch, self.source, limit)

    def declare(self, schema: pa.Schema, readers: Collection[Reader]) -> None:
        """Bind readers to the stream's columns; refuse columns that cannot serve, or have changed their type.

        Where one reader refuses them, all stay bound to the columns from before: a bad batch must not stop good ones.
        """
        if self.schema is not None and schema.equals(self.schema):
            return
        self.source.check(schema)
        require_columns("select", self.select, schema)
        if self.schema is not None:
            columns = set(self.select).union(*(reader.carried | reader.id_columns for reader in readers))
            used = set[str]().union(*(reader.sources(self.schema) for reader in readers))
            columns |= used & set(schema.names)  # binding says what is missing
            self._check_types(self.schema, schema, {self.source.id, *columns})
        try:
            for reader in readers:
                _bind(reader, schema, self.source)
        except SkybandError:
            for reader in readers if self.schema is not None else ():
                reader.bind(self.schema, self.source)
            raise
        self.schema, self.plain = schema, self.source.is_plain(schema)

    def _check_types(self, before: pa.Schema, schema: pa.Schema, columns: set[str]) -> None:
        """Refuse a batch whose columns changed their type where kept events have the old one."""
        name = self.source.time
        if name in self._types and self.source.is_plain(before) != self.source.is_plain(schema):
            was, now = before.field(name).type, schema.field(name).type
            msg = f"the time column {name!r} was {was} so far and is {now} in this batch; give all batches one schema"
            raise InputError(msg)
        for name in columns:
            was, now = self._types.get(name), schema.field(name).type if name in schema.names else None
            if was is not None and was != now:
                found = now or "missing"
                msg = f"column {name!r} was {was} so far and is {found} in this batch; give all batches one schema"
                raise InputError(msg)

    def note(self, rows: EventBatch, seen: Sequence[BatchOutcome]) -> None:
        """Count the batch, and hand its late and rejected rows on."""
        counts = self.counts
        counts.rows += rows.batch.num_rows
        if len(rows.ahead) or any(len(s.rejected) or len(s.late) or len(s.partly) for s in seen):
            self._hand_on(rows, seen)
        known = [s.newest for s in seen if s.newest is not None]
        newest = known[0] if known else rows.newest
        if self.newest == NEVER and self.source.is_plain(rows.batch.schema):
            self._doubt(newest)
        self.newest = max(self.newest, newest)

    def _hand_on(self, rows: EventBatch, seen: Sequence[BatchOutcome]) -> None:
        late, partly, rejected = outcome(seen, rows.batch.num_rows)
        if len(rows.ahead):  # whether or not any query wants them
            rejected = np.union1d(rejected, rows.ahead)
        if self.on_late is not None and len(late):
            self.on_late(rows.batch.take(pa.array(late)))
        if self.on_rejected is not None and len(rejected):
            self.on_rejected(rows.batch.take(pa.array(rejected)))
        self.counts.late += len(late)
        self.counts.partly_late += partly
        self.counts.rejected += len(rejected)
        self.counts.ahead += len(rows.ahead)

    def _doubt(self, newest: int) -> None:
        """Warn of whole numbers that are dates of our days in seconds or milliseconds, but of 1970 in microseconds."""
        for unit, low, high in (("s", 10**9, 10**10), ("ms", 10**12, 10**13)):
            if low <= newest < high:
                logger.warning(
                    "the time column %r holds numbers such as %d, which are taken as microseconds since 1970; "
                    "if they are not, say time_unit=%r",
                    self.source.time, newest, unit,
                )  # fmt: skip

    def state(self) -> State:
        """Return everything as plain values and tables."""
        tables = {} if self.schema is None else {"schema": self.schema.empty_table()}
        tables["types"] = pa.schema(list(self._types.items())).empty_table()
        return {"source": asdict(self.source), "newest": self.newest, "counts": asdict(self.counts)}, tables

    def load(self, state: State, readers: Collection[Reader]) -> None:
        """Take over what `state` returned, of a stream with these readers."""
        meta, tables = state
        self.newest, self.counts = meta["newest"], RowCounts(**meta["counts"])
        if "schema" in tables:
            self.declare(tables["schema"].schema, readers)
        self._types = {field.name: field.type for field in tables["types"].schema}


class StreamConsumer:
    """Takes in one stream, by its intake: what `Monitor` and `Subscriptions` share."""

    def __init__(self, intake: Intake) -> None:
        self.intake, self.source = intake, intake.source

    @property
    def schema(self) -> pa.Schema | None:
        """The stream's columns, as far as they are known."""
        return self.intake.schema

    @property
    def newest(self) -> int:
        """The latest event time, or where `advance` of subscriptions has moved it; NEVER before the first event."""
        return self.intake.newest


@dataclass(frozen=True)
class Evaluated:
    """A condition and values over the rows of a batch."""

    passed: BoolArray | None  # which rows meet the condition; None: all
    complete: BoolArray | None  # which have a time, an id and every value; None: all
    values: list[FloatArray]

    @property
    def taken(self) -> IntArray | None:
        """The rows that meet the condition and are complete; None: all."""
        both = _both(self.passed, self.complete)
        return None if both is None else np.flatnonzero(both)

    @property
    def rejected(self) -> IntArray:
        """The rows that meet the condition and are not complete."""
        if self.complete is None:
            return _NO_ROWS
        return np.flatnonzero(~self.complete if self.passed is None else self.passed & ~self.complete)


class Evaluator:
    """Evaluates a condition and values over batches, for every kind of query.

    Parameters
    ----------
    where
        The condition; None: every row meets it.
    values
        What each row must have: scores, or the columns that they are computed from.
    """

    def __init__(self, where: Expression | None, values: Sequence[Expression]) -> None:
        self.where, self.values = where, values
        self._bound: tuple[Bound | None, list[Bound]] | None = None

    def bind(self, schema: pa.Schema) -> None:
        """Look up columns; InputError where one is missing or of a wrong type."""
        where = None if self.where is None else self.where.bind(schema, "filter")
        self._bound = where, [value.bind(schema, "score") for value in self.values]

    def evaluate(self, batch: pa.RecordBatch, valid: BoolArray | None, *, keep_nan: bool = False) -> Evaluated:
        """Evaluate all over a batch, whose `valid` rows have a time and an id; NaN is a missing value."""
        assert self._bound is not None
        where, bounds = self._bound
        passed = None if where is None else where.mask(batch)
        values = []
        for bound in bounds:
            value, known = bound.scores(batch)
            valid = _both(valid, known)
            if not keep_nan:
                valid = _both(valid, ~np.isnan(value))
            values.append(value)
        return Evaluated(passed, valid, values)


def require_columns(what: str, names: Sequence[str], schema: pa.Schema) -> None:
    """Refuse names that are no columns of the stream."""
    if missing := [name for name in names if name not in schema.names]:
        msg = f"{what} names {', '.join(map(repr, missing))}; the stream's columns are {', '.join(schema.names)}"
        raise InputError(msg)


def bind_outputs(outputs: Sequence[Output], schema: pa.Schema) -> None:
    """Refuse what is carried along and cannot be made of the stream's columns."""
    require_columns("select", [output.column for output in outputs if output.column is not None], schema)
    for output in outputs:
        output.type(schema)


def _bind(reader: Reader, schema: pa.Schema, source: StreamColumns) -> None:
    try:
        reader.bind(schema, source)
    except InputError as error:
        raise QueryError(str(error), reader.name) from None


def _both(a: BoolArray | None, b: BoolArray | None) -> BoolArray | None:
    if a is None or b is None:
        return a if b is None else b
    return a & b


def outcome(seen: Sequence[BatchOutcome], rows: int) -> tuple[IntArray, int, IntArray]:
    """Return the rows late for every group they concern, how many were late for some, and the rejected rows."""
    rejected = np.unique(np.concatenate([s.rejected for s in seen])) if seen else np.empty(0, np.int64)
    touched = [s for s in seen if len(s.late) or len(s.partly)]
    if not touched:
        return np.empty(0, np.int64), 0, rejected
    concerned, missed, some = (np.zeros(rows, np.int64) for _ in range(3))
    for s in seen:
        concerned += 1 if s.passed is None else s.passed
        missed[s.late] += 1
        some[s.late] += 1
        some[s.partly] += 1
    late = (missed > 0) & (missed == concerned)
    return np.flatnonzero(late), int(np.count_nonzero((some > 0) & ~late)), rejected
