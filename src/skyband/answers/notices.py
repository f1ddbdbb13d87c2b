"""Notices to subscribers: which events entered, left or returned to the best of a subscription, and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from skyband.order import IntArray
from skyband.times import Moment, moment_of

What = Literal["entered", "left", "returned"]
WORDS: tuple[What, ...] = ("left", "entered", "returned")  # by the numbers that kernels report
COLUMNS = ("subscription", "change", "id", "score", "time", "at", "exact")


@dataclass(frozen=True, slots=True)
class Notice:
    """One event that entered, left or returned to the best of a subscription.

    `time` is that of the event, `at` the moment at which it happened. `exact` is False where the algorithm was
    approximate then: the event may not be one of the best, or another may have been missed. `values` are the selected
    columns.
    """

    subscription: str
    change: What
    id: int | str
    score: float
    time: Moment
    at: Moment
    exact: bool = True
    values: dict[str, Any] = field(default_factory=dict)


class Notices(Sequence[Notice]):
    """Notices in the order of what happened, as columns.

    Parameters
    ----------
    tables
        Each with the columns of a notice, those of the stream that were selected, and ``row``: at which row of the
        stream it happened, -1 where time alone did it.
    plain
        Whether times are bare numbers.
    """

    def __init__(self, tables: Sequence[pa.Table], plain: bool) -> None:
        self.plain = plain
        whole = pa.concat_tables(tables, promote_options="permissive") if tables else _nothing()
        if len(tables) > 1:
            whole = whole.sort_by([("at", "ascending"), ("row", "ascending")])
        self._table = whole.drop_columns("row")

    def __len__(self) -> int:
        return self._table.num_rows  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{len(self)} notices>"

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        return next(self._walk(self._table.slice(range(len(self))[place], 1)))

    def __iter__(self) -> Iterator[Notice]:
        return self._walk(self._table)

    def _walk(self, table: pa.Table) -> Iterator[Notice]:
        extra = [name for name in table.column_names if name not in COLUMNS]
        columns = {name: table[name].to_pylist() for name in ("subscription", "change", "id", "score", "exact", *extra)}
        for name in ("time", "at"):
            numbers = table[name].to_pylist()
            columns[name] = numbers if self.plain else [moment_of(number) for number in numbers]
        for i in range(table.num_rows):
            given = {name: columns[name][i] for name in COLUMNS}
            yield Notice(**given, values={name: columns[name][i] for name in extra})

    def table(self) -> pa.Table:
        """Return all as an Arrow table: the columns of a notice, then the selected ones."""
        if self.plain:
            return self._table
        kinds = [
            pa.timestamp("us", "UTC") if field.name in ("time", "at") else field.type for field in self._table.schema
        ]
        return self._table.cast(pa.schema(list(zip(self._table.column_names, kinds, strict=True))))

    def to_pandas(self) -> Any:
        """Return all as a pandas DataFrame."""
        return self.table().to_pandas()


def notices_table(
    names: pa.Array, who: IntArray, kind: IntArray, ids: pa.Array, columns: Mapping[str, Any]
) -> pa.Table:  # fmt: skip
    """Make a table of notices: whose, as places in names; what happened; to which event; and further columns."""
    given = {
        "subscription": pa.DictionaryArray.from_arrays(pa.array(who, pa.int32()), names),
        "change": pa.DictionaryArray.from_arrays(pa.array(kind, pa.int32()), pa.array(WORDS)),
        "id": ids,
        **columns,
    }
    return pa.table(given)


def _nothing() -> pa.Table:
    none = np.empty(0, np.int64)
    names = pa.array([], pa.string())
    rest = {"score": np.empty(0), "time": none, "at": none, "exact": np.empty(0, bool), "row": none}
    return notices_table(names, none, none, names, rest)
