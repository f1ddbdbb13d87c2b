"""What is kept of aggregates, per pane and id, and the aggregates that it gives in the end.

NULL and NaN are left out of aggregates, as SQL leaves out NULL; of nothing they are NULL, and counts are 0.

Aggregates of integers are integers. Their sums are kept as sums of the upper and of the lower 32 bits, neither of which
overflows within 2^31 rows: so a sum is exact whatever the order of its parts, and NULL only where the whole does not
fit 64 bits.

Sums of floating-point numbers are kept in two parts as well: of the upper 24 bits of each, and of what these leave. A
sum of the one kind is exact as long as the numbers do not differ too much, in whatever order they come: 2^29 of the
same size. Where it is not, the order shows in the last digits. The sum of nothing is -0.0, which no other sum is.

Distinct values are kept as sets, lists in a column: the values themselves for ``count(DISTINCT x)``, and for
``approx_count_distinct(x)`` what a HyperLogLog sketch of 4,096 registers would hold, which is 1.6 % off, typically.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions import ARROW, Bound, Expression
from skyband.expressions.sparksql import micros
from skyband.order import BoolArray, FloatArray, IntArray
from skyband.queries.decomposition import Aggregate

ROWS = "rows"
HIGH, LOW = "high", "low"
_BITS, _MASK = 32, 2**32 - 1
_FLOATS = 3e38  # what is smaller has a 32-bit number near it
# What max, min and sums of integers are before the first value.
_NOTHING = {"max": -(2**63), "min": 2**63 - 1}
DISTINCT, SKETCH = "count distinct", "approx_count_distinct"
_REGISTERS, _RANK_BITS = 1 << 12, 6  # an entry of a sketch is the number of a register, and a rank in the last bits

Reduce = Callable[[Any, IntArray], Any]


@dataclass(frozen=True)
class Measure:
    """One column of partials.

    Parameters
    ----------
    function
        ``count``, ``sum``, ``max``, ``min``, `DISTINCT` or `SKETCH`.
    argument
        What is aggregated.
    values
        What it stands for: of what is counted and no number, a 1.
    whole
        Whether these are no floating-point numbers.
    half
        Which half of a sum: `HIGH` or `LOW`; else empty.
    moments
        Whether these are times, in microseconds.
    """

    function: str
    argument: Expression
    values: Expression
    whole: bool
    half: str = ""
    moments: bool = False

    @property
    def name(self) -> str:
        """What the column is called."""
        return f"{self.half} {Aggregate(self.function, self.argument)}".strip()

    @property
    def nothing(self) -> float:
        """The value without any event."""
        if self.function == "count" or self.whole:
            return _NOTHING.get(self.function, 0)
        return {HIGH: -0.0, LOW: 0.0}.get(self.half, np.nan)

    @property
    def is_set(self) -> bool:
        """Whether it is a set, and not a number."""
        return self.function in (DISTINCT, SKETCH)

    def column(self, bound: Bound, batch: pa.RecordBatch) -> Any:
        """Return what each row of a batch adds."""
        values, valid = bound.evaluate(batch)
        if self.half and self.whole:
            values = values >> _BITS if self.half == HIGH else values & _MASK
        known = np.ones(batch.num_rows, bool) if valid is None else valid
        if not self.whole:
            known = known & ~np.isnan(values)
        if self.is_set:
            return self._singles(values, known)
        if self.function == "count":
            return known.astype(np.int64)
        if self.half and not self.whole:
            values = _upper(values) if self.half == HIGH else _lower(values)
        return np.where(known, values, self.nothing)

    def numbers(self, bound: Bound, batch: pa.RecordBatch) -> Any:
        """Return what each row of a batch adds, numbers with both of their halves; NaN: nothing."""
        if self.function != "count" and not self.whole:
            values, valid = bound.evaluate(batch)
            values = np.broadcast_to(values, batch.num_rows)
            return values if valid is None else np.where(valid, values, np.nan)
        return self.column(bound, batch)

    def _singles(self, values: Any, known: BoolArray) -> pa.Array:
        """Return the set that each value makes; an empty one where there is none."""
        chosen = values.filter(pa.array(known)) if isinstance(values, pa.Array) else pa.array(values[known])
        if self.function == SKETCH:
            chosen = _entries(chosen)
        elif not self.whole:
            chosen = pc.add(chosen, 0.0)  # there is one zero
        return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(known)), pa.int32()), chosen)

    def merged(self, column: pa.ChunkedArray, sort: IntArray, starts: IntArray) -> pa.Array:
        """Put values of the same pane and id together: sorted by `sort`, they begin at `starts`."""
        if not self.is_set:
            with np.errstate(invalid="ignore"):  # infinity and its opposite: no number
                return pa.array(self._reduce(column.to_numpy()[sort], starts))
        group = np.empty(len(sort), np.int64)
        group[sort] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(sort))))
        sets = column.combine_chunks()
        sets = sets.chunk(0) if isinstance(sets, pa.ChunkedArray) else sets
        return _union(sets, group, len(starts), sketch=self.function == SKETCH)

    @property
    def _reduce(self) -> Reduce:
        return {"max": np.fmax.reduceat, "min": np.fmin.reduceat}.get(self.function, np.add.reduceat)

    def spark_argument(self, schema: pa.Schema) -> str:
        """Return Spark SQL for what each row adds; NULL for nothing."""
        text = self.values.spark_sql(schema)
        if self.function == SKETCH:
            return _spark_entry(text)
        if self.moments:
            return micros(text, self.values.bind(schema).typed.arrow)
        zero = " + 0D" if self.is_set else ""
        return text if self.whole else f"nullif(double({text}){zero}, double('NaN'))"

    def spark(self, argument: str) -> str:
        """Return Spark SQL for the column, from that of `spark_argument`."""
        if self.is_set:
            return f"collect_set({argument})"
        if self.half and self.whole:
            argument = f"shiftright({argument}, {_BITS})" if self.half == HIGH else f"({argument} & {_MASK}L)"
        elif self.half:
            upper, rest = ("double(float({0}))", "{0}") if self.half == HIGH else ("{0} - double(float({0}))", "0D")
            argument = f"if(abs({argument}) < {_FLOATS!r}D, {upper}, {rest})".format(argument)
        return f"{self.function}({argument})"

    def spark_merged(self, column: str) -> str:
        """Return Spark SQL for a column of parts put together."""
        if self.is_set:
            return f"array_distinct(flatten(collect_list({column})))"
        return f"{self.function if self.function in ('max', 'min') else 'sum'}({column})"


def measures(aggregates: Sequence[Aggregate], schema: pa.Schema) -> dict[str, Measure]:
    """Return what is kept per pane and id, by name.

    An average is kept as a sum and a count; with integers there is a count, which tells whether there were any.

    Examples
    --------
    >>> from skyband.expressions import parse
    >>> schema = pa.schema([("i", pa.int64()), ("x", pa.float64())])
    >>> list(measures([Aggregate("sum", parse("x")), Aggregate("avg", parse("i"))], schema))
    ['high sum(x)', 'low sum(x)', 'high sum(i)', 'low sum(i)', 'count(i)']
    """
    kept: dict[str, Measure] = {}
    for one in aggregates:
        if one.argument is None:
            continue
        if one.function in (DISTINCT, SKETCH):
            values = one.values(schema)
            kind = values.bind(schema).type
            kept[str(one)] = Measure(one.function, one.argument, values, kind != "number", moments=kind == "time")
            continue
        whole = one.function != "count" and _kind(one, schema) != "number"
        functions = ["sum" if one.function == "avg" else one.function]
        functions += ["count"] if whole or one.function == "avg" else []
        for function in functions:
            values = Aggregate(function, one.argument).values(schema)
            kind = values.bind(schema).type
            for half in (HIGH, LOW) if function == "sum" else ("",):
                measure = Measure(function, one.argument, values, kind != "number", half, kind == "time")
                kept[measure.name] = measure
    return kept


def adapted(table: pa.Table, kept: Mapping[str, Measure]) -> pa.Table:
    """Return partials as measures keep them by now: the types of columns have changed since.

    A column that held nothing but NULL has a type now; or whole numbers have become floating-point ones. Never the
    other way round.
    """
    for name, one in kept.items():
        if one.is_set:
            continue
        whole = one.function == "count" or one.whole
        place = table.column_names.index(name) if name in table.column_names else -1
        if place >= 0 and table[name].type == (pa.int64() if whole else pa.float64()):
            continue
        values = np.full(table.num_rows, one.nothing, np.int64 if whole else np.float64)
        if place >= 0 and not whole:
            some = table[str(Aggregate("count", one.argument))].to_numpy() > 0
            values[some] = table[name].to_numpy()[some] * (2.0**_BITS if one.half == HIGH else 1.0)
        column = pa.array(values)
        table = table.append_column(name, column) if place < 0 else table.set_column(place, name, column)
    return table


def _kind(one: Aggregate, schema: pa.Schema) -> str:
    """Return the type of an argument: a number or an integer, or for max and min a time."""
    assert one.argument is not None
    moments = one.function in ("max", "min") and one.argument.bind(schema).type == "time"
    return one.argument.bind(schema, None if moments else "score").type


def final_types(aggregates: Sequence[Aggregate], schema: pa.Schema) -> pa.Schema:
    """Return the types of aggregates, by name, over a stream's columns.

    Examples
    --------
    >>> from skyband.expressions import parse
    >>> some = [Aggregate("sum", parse("i")), Aggregate("avg", parse("i")), Aggregate("count", None)]
    >>> final_types(some, pa.schema([("i", pa.int32())])).types
    [DataType(int64), DataType(double), DataType(int64)]
    """

    def kind(one: Aggregate) -> str:
        if one.argument is None or one.function in ("count", DISTINCT, SKETCH):
            return "integer"
        return "number" if one.function == "avg" else _kind(one, schema)

    return pa.schema([(str(one), ARROW[kind(one)]) for one in aggregates])


def final(
    one: Aggregate, found: Mapping[str, Any], kept: Mapping[str, Measure]
) -> tuple[pa.Array, BoolArray | None]:  # fmt: skip
    """Return the values of an aggregate, from measures of each id, and where an integer sum did not fit."""
    if one.argument is None:
        return pa.array(found[ROWS]), None
    if one.function in (DISTINCT, SKETCH):
        sets = found[str(one)]
        return (_estimates(sets) if one.function == SKETCH else pc.list_value_length(sets).cast(pa.int64())), None
    mine = {name: measure for name, measure in kept.items() if measure.argument == one.argument and not measure.is_set}
    parts = {(measure.function, measure.half): found[name] for name, measure in mine.items()}
    count: Any = parts.get(("count", ""))
    if one.function == "count":
        return pa.array(count), None
    if one.function in ("max", "min"):
        values = parts[one.function, ""]
        if values.dtype != np.int64:
            return pa.array(values, from_pandas=True), None
        whole = pa.array(values, mask=count == 0)
        return whole.cast(ARROW["time"]) if kept[str(one)].moments else whole, None
    high, low = parts["sum", HIGH], parts["sum", LOW]
    if high.dtype != np.int64:
        nothing = (high == 0) & np.signbit(high)
        with np.errstate(invalid="ignore"):
            total = np.where(np.isfinite(high), high + low, high)
        if one.function == "avg":
            total = total / np.where(nothing, 1, count)
        return pa.array(total, mask=nothing), None
    if one.function == "avg":
        total = high * float(2**_BITS) + low
        return pa.array(total / np.where(count == 0, np.nan, count), from_pandas=True), None
    high, low = high + (low >> _BITS), low & _MASK
    outside = (high < -(2**31)) | (high >= 2**31)
    return pa.array((high << _BITS) | low, mask=(count == 0) | outside), outside


def spark_final(one: Aggregate, rows: str, columns: Mapping[str, str], kept: dict[str, Measure]) -> str:
    """Return `final` as Spark SQL, from that of the number of rows and of the measures."""
    if one.argument is None:
        return rows
    if one.function == SKETCH:
        return _spark_estimate(columns[str(one)])
    if one.function == DISTINCT:
        return f"cast(size({columns[str(one)]}) AS BIGINT)"
    parts = {(m.function, m.half): columns[name] for name, m in kept.items() if m.argument == one.argument}
    count = f"double({parts.get(('count', ''), 'NULL')})"
    if one.function in ("count", "max", "min"):
        found = parts[one.function, ""]
        return f"timestamp_micros({found})" if kept[str(one)].moments else found
    high, low = parts["sum", HIGH], parts["sum", LOW]
    if not kept[Measure("sum", one.argument, one.argument, whole=False, half=HIGH).name].whole:
        total = f"({high} + {low})"
        return total if one.function == "sum" else f"try_divide({total}, {count})"
    if one.function == "avg":
        return f"try_divide(double({high}) * {2**_BITS}D + double({low}), {count})"
    high, low = f"({high} + shiftright({low}, {_BITS}))", f"({low} & {_MASK}L)"
    return f"if({high} BETWEEN {-(2**31)}L AND {2**31 - 1}L, shiftleft({high}, {_BITS}) | {low}, NULL)"


def _upper(values: FloatArray) -> FloatArray:
    """Return the upper 24 bits of numbers; of those that are too large for 32-bit numbers, all."""
    with np.errstate(over="ignore", invalid="ignore"):
        short = values.astype(np.float32).astype(np.float64)
    return np.where(np.abs(values) < _FLOATS, short, values) + 0.0


def _lower(values: FloatArray) -> FloatArray:
    """Return what `_upper` leaves."""
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(values) < _FLOATS, values - _upper(values), 0.0)


# Sets.


def _union(sets: pa.ListArray, group: IntArray, groups: int, *, sketch: bool) -> pa.ListArray:
    """Return the union of the sets of each group; of a sketch, the highest rank of each register."""
    of = group[pc.list_parent_indices(sets).to_numpy()]
    flat = pc.list_flatten(sets)
    if sketch:
        pairs = np.unique(of * (_REGISTERS << _RANK_BITS) + flat.to_numpy())
        register = pairs >> _RANK_BITS
        pairs = pairs[np.append(register[1:] != register[:-1], True)] if len(pairs) else pairs
        of, entries = np.divmod(pairs, _REGISTERS << _RANK_BITS)
        values = pa.array(entries, pa.int32())
    else:
        coded = flat.dictionary_encode()
        of, code = np.divmod(np.unique(of * max(len(coded.dictionary), 1) + coded.indices.to_numpy()),
                             max(len(coded.dictionary), 1))  # fmt: skip
        values = coded.dictionary.take(pa.array(code))
    return pa.ListArray.from_arrays(pa.array(np.searchsorted(of, np.arange(groups + 1)), pa.int32()), values)


def _entries(texts: pa.Array) -> pa.Array:
    """Return what texts are in a sketch: 12 bits of a hash choose a register, the zeros that follow are the rank."""
    coded = texts.dictionary_encode()
    known = []
    for text in coded.dictionary.to_pylist():
        number = int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:7], "big") >> 4
        known.append(number >> 40 << _RANK_BITS | 41 - (number & (1 << 40) - 1).bit_length())
    return pa.array(known, pa.int32()).take(coded.indices)


def _spark_entry(text: str) -> str:
    """Return `_entries` as Spark SQL."""
    register = f"cast(conv(substr(md5({text}), 1, 3), 16, 10) AS INT)"
    rest = f"cast(conv(substr(md5({text}), 4, 10), 16, 10) AS BIGINT)"
    return f"({register} * {1 << _RANK_BITS} + 41 - if({rest} = 0L, 0, length(bin({rest}))))"


def _estimates(sketches: pa.ListArray) -> pa.Array:
    """Return how many values each sketch has seen, about (Flajolet et al., HyperLogLog, 2007)."""
    of = pc.list_parent_indices(sketches).to_numpy()
    used = np.bincount(of, minlength=len(sketches))
    rank = pc.list_flatten(sketches).to_numpy() & (1 << _RANK_BITS) - 1
    unused = _REGISTERS - used
    total = unused + np.bincount(of, weights=0.5**rank, minlength=len(sketches))
    rough = 0.7213 / (1 + 1.079 / _REGISTERS) * _REGISTERS**2 / total
    with np.errstate(divide="ignore"):
        few = _REGISTERS * np.log(_REGISTERS / unused)
    small = (rough <= 2.5 * _REGISTERS) & (unused > 0)
    return pa.array(np.rint(np.where(small, few, rough)).astype(np.int64))


def _spark_estimate(entries: str) -> str:
    """Return `_estimates` as Spark SQL."""
    register, rank = f"shiftright({{}}, {_RANK_BITS})", f"power(0.5D, e & {(1 << _RANK_BITS) - 1})"
    ascending = f"sort_array({entries})"
    last = f"coalesce({register.format(f'get({ascending}, i + 1)')} <> {register.format('e')}, true)"
    kept = f"filter({ascending}, (e, i) -> {last})"
    unused = f"({_REGISTERS} - size({kept}))"
    total = f"({unused} + aggregate({kept}, 0D, (a, e) -> a + {rank}))"
    rough = f"({0.7213 / (1 + 1.079 / _REGISTERS) * _REGISTERS**2!r}D / {total})"
    few = f"({_REGISTERS}D * ln({_REGISTERS}D / {unused}))"
    return f"cast(rint(if({rough} <= {2.5 * _REGISTERS!r}D AND {unused} > 0, {few}, {rough})) AS BIGINT)"
