"""Arriving rows, whatever they come as, turned into columns: event times in microseconds, ids, validity."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import InputError
from skyband.events.keys import is_key, is_text
from skyband.order import NEVER, BoolArray, IntArray
from skyband.times import FARTHEST

TimeUnit = Literal["s", "ms", "us", "ns"]
PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True)
class StreamColumns:
    """Which columns of a stream hold the event time and the id.

    Parameters
    ----------
    time
        Column of event times: timestamps, dates, ISO 8601 text, or whole numbers since the epoch.
    id
        Column of ids: whole numbers or text.
    time_unit
        The unit of whole numbers in the time column; microseconds when left out.
    """

    time: str
    id: str
    time_unit: TimeUnit | None = None

    def __post_init__(self) -> None:
        if self.time_unit is not None and self.time_unit not in get_args(TimeUnit):
            msg = f"time_unit is {self.time_unit!r}; use 's', 'ms', 'us' or 'ns'"
            raise InputError(msg)

    def check(self, schema: pa.Schema) -> None:
        """Refuse a stream whose columns cannot serve."""
        for what, name in (("time", self.time), ("id", self.id)):
            if name not in schema.names:
                near = difflib.get_close_matches(name, schema.names, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                msg = f"the stream has no column {name!r} for the {what}; it has {', '.join(schema.names)}{hint}"
                raise InputError(msg)
        kind = schema.field(self.time).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind) or is_text(kind)):
            msg = (
                f"the time column {self.time!r} is {kind}; it must hold timestamps, dates, ISO 8601 text or whole "
                "numbers since the epoch"
            )
            raise InputError(msg)
        if self.time_unit is not None and not pa.types.is_integer(kind):
            msg = f"time_unit is given but the time column {self.time!r} is {kind}; leave time_unit out"
            raise InputError(msg)
        kind = schema.field(self.id).type
        if not is_key(kind):
            msg = f"the id column {self.id!r} is {kind}; ids are text or whole numbers that fit int64: cast it first"
            raise InputError(msg)

    def is_plain(self, schema: pa.Schema) -> bool:
        """Tell whether times are bare whole numbers, which answers then show as such."""
        return self.time_unit is None and bool(pa.types.is_integer(schema.field(self.time).type))


class EventBatch:
    """One batch of a stream, seen through its time and id columns.

    Parameters
    ----------
    batch
        The rows.
    source
        Which columns hold time and id.
    not_after
        Rows with a later time, in microseconds, count as rows without a time; None: there is no such limit.
    """

    def __init__(self, batch: pa.RecordBatch, source: StreamColumns, not_after: int | None = None) -> None:
        self.batch = _with_plain_dictionaries(batch, source.id)
        self.source = source
        self.ids, self.nulls = self.batch.column(source.id), False
        self.not_after = not_after

    @cached_property
    def _given(self) -> pa.Array:
        return event_times(self.batch.column(self.source.time), self.source)

    @cached_property
    def _times(self) -> pa.Array:
        given = self._given
        return pc.if_else(pc.greater(given, self.not_after), None, given) if len(self.ahead) else given

    @cached_property
    def ahead(self) -> IntArray:
        """The rows whose time is later than it may be."""
        return np.empty(0, np.int64) if self.not_after is None else ahead_of(self._given, self.not_after)

    @cached_property
    def time(self) -> IntArray:
        """Event times in microseconds; any number where there is none."""
        column = self._times
        return (column.fill_null(0) if column.null_count else column).to_numpy()  # type: ignore[no-any-return]

    @cached_property
    def valid(self) -> BoolArray | None:
        """Which rows have a time and an id; None: all."""
        needed = (self._times,) if self.nulls else (self._times, self.ids)
        masks = [column.is_valid().to_numpy(zero_copy_only=False) for column in needed if column.null_count]
        return np.logical_and.reduce(masks) if masks else None

    def by(self, ids: pa.Array, *, nulls: bool) -> EventBatch:
        """Return the same rows with other ids; with `nulls`, NULL is one of them."""
        other = copy(self)
        other.__dict__.pop("valid", None)
        other.ids, other.nulls = ids, nulls
        return other

    def as_floats(self, schema: pa.Schema) -> EventBatch:
        """Return the same rows with floating-point numbers where a schema has these instead of whole ones."""
        if self.batch.schema.equals(schema):
            return self
        other = copy(self)
        for place, field in enumerate(self.batch.schema):
            wanted = schema.field(field.name) if field.name in schema.names else field
            if pa.types.is_integer(field.type) and pa.types.is_floating(wanted.type):
                column = self.batch.column(place).cast(wanted.type, safe=False)
                other.batch = other.batch.set_column(place, wanted, column)
        return other

    @cached_property
    def newest(self) -> int:
        """The latest event time of the batch; NEVER when there is none."""
        newest = pc.max(self._times).as_py()
        return NEVER if newest is None else int(newest)


def _with_plain_dictionaries(batch: pa.RecordBatch, ids: str) -> pa.RecordBatch:
    """Return a batch whose dictionaries hold no NULL, and that of its ids each of them once: Arrow asks for neither."""
    for place, column in enumerate(batch.columns):
        field = batch.schema.field(place)
        if not pa.types.is_dictionary(field.type):
            continue
        values = column.dictionary
        if values.null_count or (field.name == ids and len(values.unique()) < len(values)):
            plain = column.dictionary_decode().dictionary_encode().cast(field.type)
            batch = batch.set_column(place, field, plain)
    return batch


def ahead_of(times: pa.Array, not_after: int) -> IntArray:
    """Return which event times are later than they may be."""
    newest = pc.max(times).as_py()
    if newest is None or newest <= not_after:
        return np.empty(0, np.int64)
    return np.flatnonzero(pc.greater(times, not_after).fill_null(False).to_numpy(zero_copy_only=False))


def event_times(column: pa.Array, source: StreamColumns) -> pa.Array:
    """Return a time column as int64 microseconds since the epoch, UTC; NULL where that is `FARTHEST` away or more."""
    kind = column.type
    if pa.types.is_integer(kind):
        return _from_numbers(column, source)
    if is_text(kind):
        column = _from_text(column.cast(pa.string()), source)
    elif pa.types.is_date(kind):
        column = column.cast(pa.timestamp("ms"))
    if column.type.unit == "ns":
        return _floor(column, 1_000)
    return _micros(column.cast(pa.int64()), PER_UNIT[column.type.unit])


def _floor(column: pa.Array, unit: int) -> pa.Array:
    values = np.floor_divide(column.cast(pa.int64()).fill_null(0).to_numpy(), unit)
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(values, mask=mask)


def _from_numbers(column: pa.Array, source: StreamColumns) -> pa.Array:
    if pa.types.is_uint64(column.type):
        column = pc.if_else(pc.less(column, pa.scalar(2**63, pa.uint64())), column, pa.scalar(None, pa.uint64()))
    numbers = column.cast(pa.int64())
    return _floor(numbers, 1_000) if source.time_unit == "ns" else _micros(numbers, PER_UNIT[source.time_unit or "us"])


def _micros(numbers: pa.Array, unit: int) -> pa.Array:
    """Return whole numbers of a unit in microseconds; NULL where no window can be laid over them."""
    most = FARTHEST // unit
    extent = pc.min_max(numbers)
    low, high = extent["min"].as_py(), extent["max"].as_py()
    if low is not None and (low <= -most or high >= most):
        inside = pc.and_(pc.greater(numbers, -most), pc.less(numbers, most))
        numbers = pc.if_else(inside, numbers, pa.scalar(None, pa.int64()))
    return numbers if unit == 1 else pc.multiply(numbers, unit)


def _from_text(column: pa.Array, source: StreamColumns) -> pa.Array:
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    zoned = pc.match_substring_regex(column, r"(Z|[+-]\d\d:?\d\d)$")
    if pc.any(zoned).as_py() and not pc.all(zoned).as_py():
        msg = (
            f"the time column {source.time!r} mixes times with and without a time zone; write all with one "
            "(such as ...Z or ...+02:00) or all without (taken as UTC)"
        )
    else:
        sample = column.drop_null()[0].as_py()
        msg = f"the time column {source.time!r} holds text that is no ISO 8601 time, such as {sample!r}"
    raise InputError(msg)


def type_null_columns(
    batch: pa.RecordBatch,
    known: Mapping[str, pa.DataType],
    source: StreamColumns,
    carried: AbstractSet[str],
    ids: AbstractSet[str] = frozenset(),
) -> pa.RecordBatch:
    """Give columns that hold nothing but NULL, and so have no type, the type they are known by or a likely one.

    Without this, a batch of incomplete rows would stop the stream instead of being counted. Columns that are
    only carried along can stay without a type; `ids` are more columns that queries take ids from.
    """
    if pa.null() not in batch.schema.types:
        return batch
    likely = dict.fromkeys((source.time, source.id, *ids), pa.int64())
    kinds = dict(zip(batch.schema.names, batch.schema.types, strict=True))
    for name in [name for name, kind in kinds.items() if kind == pa.null()]:
        kinds[name] = known.get(name, likely.get(name, pa.null() if name in carried else pa.float64()))
    return batch.cast(pa.schema(list(kinds.items())))


def as_batches(data: Any, rows: int) -> Iterable[pa.RecordBatch]:
    """Yield record batches of at most `rows` rows from anything that holds columns or rows."""
    if isinstance(data, pa.RecordBatch):
        yield from (data.slice(at, rows) for at in range(0, data.num_rows, rows))
        return
    if isinstance(data, pa.Table):
        yield from data.to_batches(max_chunksize=rows)
        return
    if hasattr(data, "__arrow_c_stream__") or isinstance(data, pa.RecordBatchReader):
        reader = data if isinstance(data, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(data)
        for batch in reader:
            yield from as_batches(_without_views(batch), rows)
        return
    if hasattr(data, "to_arrow"):
        yield from as_batches(data.to_arrow(), rows)
        return
    if isinstance(data, Mapping):
        yield from as_batches(_columns(data), rows)
        return
    if isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
        msg = (
            f"cannot read events from a {type(data).__name__}; give an Arrow table or reader, a pandas or Polars "
            "frame, or an iterable of batches or of dicts"
        )
        raise InputError(msg)
    yield from _from_items(data, rows)


def _columns(data: Mapping[str, Any]) -> pa.Table:
    try:
        return pa.table(dict(data))
    except OverflowError:
        known = (pa.Array, pa.ChunkedArray, np.ndarray)
        return pa.table({name: c if isinstance(c, known) else [_fitting(v) for v in c] for name, c in data.items()})


def _fitting(value: Any) -> Any:
    """Return a value, NULL for an integer that does not fit int64: as in expressions, so that its row is counted."""
    return None if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Turn text views, which Polars makes and Arrow computes little with, into plain text."""
    kinds = [pa.large_string() if kind == pa.string_view() else kind for kind in batch.schema.types]
    if kinds == batch.schema.types:
        return batch
    return batch.cast(pa.schema(list(zip(batch.schema.names, kinds, strict=True))))


def _from_items(items: Iterable[Any], rows: int) -> Iterable[pa.RecordBatch]:
    pending: list[Mapping[str, Any]] = []
    schema: pa.Schema | None = None
    for item in items:
        if not isinstance(item, Mapping) or any(
            hasattr(v, "__len__") and not isinstance(v, str) for v in item.values()
        ):
            yield from as_batches(item, rows)
            continue
        pending.append(item)
        if len(pending) >= min(rows, 65_536):
            schema, table = _table(pending, schema)
            yield from as_batches(table, rows)
            pending = []
    if pending:
        schema, table = _table(pending, schema)
        yield from as_batches(table, rows)


def _table(dicts: list[Mapping[str, Any]], schema: pa.Schema | None) -> tuple[pa.Schema, pa.Table]:
    try:
        table = pa.Table.from_pylist([dict(d) for d in dicts], schema=schema)
    except OverflowError:
        return _table([{name: _fitting(value) for name, value in d.items()} for d in dicts], schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        if schema is not None:
            return _table(dicts, None)
        msg = f"the events do not have one type per column: {error}"
        raise InputError(msg) from None
    return table.schema, table
