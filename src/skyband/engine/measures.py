"""What is kept of aggregates, per pane and id, and the aggregates that it gives in the end.

NULL and NaN are left out of aggregates, as SQL leaves out NULL; of nothing they are NULL, and counts are 0.

Aggregates of integers are integers. Their sums are kept as sums of the upper and of the lower 32 bits, neither of which
overflows within 2^31 rows: so a sum is exact whatever the order of its parts, and NULL only where the whole does not
fit 64 bits. Sums of floating-point numbers depend in their last digits on the order in which they are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.expressions import Bound, Expression
from skyband.order import BoolArray, FloatArray, IntArray
from skyband.queries.decomposition import Aggregate

ROWS = "rows"
HIGH, LOW = "high", "low"
_BITS, _MASK = 32, 2**32 - 1
# What max, min and sums of integers are before the first value.
_NOTHING = {"max": -(2**63), "min": 2**63 - 1}

Reduce = Callable[[Any, IntArray], Any]


@dataclass(frozen=True)
class Measure:
    """One column of partials.

    Parameters
    ----------
    function
        ``count``, ``sum``, ``max`` or ``min``.
    argument
        What is aggregated.
    values
        The numbers that it stands for: of what is counted and no number, a 1.
    whole
        Whether these are integers.
    half
        Which half of an integer sum: `HIGH` or `LOW`; else empty.
    """

    function: str
    argument: Expression
    values: Expression
    whole: bool
    half: str = ""

    @property
    def name(self) -> str:
        """What the column is called."""
        return f"{self.half} {Aggregate(self.function, self.argument)}".strip()

    @property
    def nothing(self) -> float:
        """The value without any event."""
        if self.function == "count" or self.whole:
            return _NOTHING.get(self.function, 0)
        return np.nan

    def column(self, bound: Bound, batch: pa.RecordBatch) -> Any:
        """Return what each row of a batch adds."""
        values, valid = bound.evaluate(batch)
        known = np.ones(batch.num_rows, bool) if valid is None else valid
        if not self.whole:
            known = known & ~np.isnan(values)
        if self.function == "count":
            return known.astype(np.int64)
        if self.half:
            values = values >> _BITS if self.half == HIGH else values & _MASK
        return np.where(known, values, self.nothing)

    @property
    def reduce(self) -> Reduce:
        """How values of the same pane and id are put together."""
        if self.function == "sum" and not self.whole:
            return _sum
        return {"max": np.fmax.reduceat, "min": np.fmin.reduceat}.get(self.function, np.add.reduceat)

    def spark(self, argument: str) -> str:
        """Spark SQL for the column, from that of `values`."""
        if self.half:
            argument = f"shiftright({argument}, {_BITS})" if self.half == HIGH else f"({argument} & {_MASK}L)"
        return f"{self.function}({argument})"


def measures(aggregates: Sequence[Aggregate], schema: pa.Schema) -> dict[str, Measure]:
    """Return what is kept per pane and id, by name.

    An average is kept as a sum and a count; with integers there is a count, which tells whether there were any.

    Examples
    --------
    >>> from skyband.expressions import parse
    >>> schema = pa.schema([("i", pa.int64()), ("x", pa.float64())])
    >>> list(measures([Aggregate("sum", parse("x")), Aggregate("avg", parse("i"))], schema))
    ['sum(x)', 'high sum(i)', 'low sum(i)', 'count(i)']
    """
    kept: dict[str, Measure] = {}
    for one in aggregates:
        if one.argument is None:
            continue
        whole = one.function != "count" and one.argument.bind(schema, "score").type == "integer"
        functions = ["sum" if one.function == "avg" else one.function]
        functions += ["count"] if whole or one.function == "avg" else []
        for function in functions:
            values = Aggregate(function, one.argument).values(schema)
            kind = values.bind(schema, "score").type == "integer"
            for half in (HIGH, LOW) if kind and function == "sum" else ("",):
                measure = Measure(function, one.argument, values, kind, half)
                kept[measure.name] = measure
    return kept


def final(one: Aggregate, found: pa.Table, kept: dict[str, Measure]) -> tuple[pa.Array, BoolArray | None]:
    """Return the values of an aggregate, of a table of one row per id, and where an integer sum did not fit."""
    if one.argument is None:
        return found[ROWS].combine_chunks(), None
    mine = {name: measure for name, measure in kept.items() if measure.argument == one.argument}
    parts = {(measure.function, measure.half): found[name].to_numpy() for name, measure in mine.items()}
    count: Any = parts.get(("count", ""))
    if one.function == "count":
        return pa.array(count), None
    if one.function in ("max", "min"):
        values = parts[one.function, ""]
        whole = values.dtype == np.int64
        return pa.array(values, mask=count == 0) if whole else pa.array(values, from_pandas=True), None
    if ("sum", "") in parts:
        total = parts["sum", ""]
        values = total if one.function == "sum" else total / np.where(count == 0, np.nan, count)
        return pa.array(values, from_pandas=True), None
    high, low = parts["sum", HIGH], parts["sum", LOW]
    if one.function == "avg":
        total = high * float(2**_BITS) + low
        return pa.array(total / np.where(count == 0, np.nan, count), from_pandas=True), None
    high, low = high + (low >> _BITS), low & _MASK
    outside = (high < -(2**31)) | (high >= 2**31)
    return pa.array((high << _BITS) | low, mask=(count == 0) | outside), outside


def _sum(values: FloatArray, starts: IntArray) -> FloatArray:
    known = ~np.isnan(values)
    total, count = np.add.reduceat(np.where(known, values, 0.0), starts), np.add.reduceat(known, starts, dtype=np.int64)
    return np.where(count > 0, total, np.nan)
