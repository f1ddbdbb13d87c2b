"""What changed from one answer to the next, and back: RSP-QL's IStream and DStream, with movements.

Rows are identified by their id where ids count once, else by the whole event; of events that are equal in
everything, the first of one answer is the first of the other. Rows of sets have no rank: they never move. Where ranks
repeat, a row whose rank stays has not moved, though others may now be listed before it.

`difference` says it row by row. Answers that show nothing but ranked events, of perhaps many thousand partitions, are
compared as columns, by `compared`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.answers import change_kernels as kernel
from skyband.answers.answer import AnswerBlock, Change, Kind, Row
from skyband.answers.table import TIME
from skyband.order import FloatArray, IntArray, Prefer, SlotArray, rank_in_runs, recency_of, value_ranks
from skyband.times import moment_of


def difference(before: Sequence[Row], after: Sequence[Row], *, by_id: bool) -> list[Change]:
    """List what left, then what entered, moved or was updated, by rank.

    Examples
    --------
    >>> before = [Row(1, "a", 9.0, 0), Row(2, "b", 8.0, 0)]
    >>> after = [Row(1, "c", 9.5, 1), Row(2, "a", 9.0, 0)]
    >>> [(c.kind, c.row.id, c.previous_rank, c.rank) for c in difference(before, after, by_id=False)]
    [('left', 'b', 2, None), ('entered', 'c', None, 1), ('moved', 'a', 1, 2)]
    """
    old = dict(zip(_names(before, by_id), before, strict=True))
    new = dict(zip(_names(after, by_id), after, strict=True))
    changes = [Change("left", row, row.rank) for name, row in old.items() if name not in new]
    for name, row in new.items():
        was = old.get(name)
        if was is None:
            changes.append(Change("entered", row))
        elif was.rank != row.rank:
            changes.append(Change("moved", row, was.rank))
        elif was != row:
            changes.append(Change("updated", row, was.rank))
    return changes


def fold(before: Sequence[Row], changes: Sequence[Change], prefer: Prefer = "latest") -> list[Row]:
    """Apply changes to an answer: gives the next one.

    Where ranks repeat, rows that share one are in order of their times, as the query's `prefer` says, and ids.

    Examples
    --------
    >>> before = [Row(1, "a", 9.0, 0), Row(2, "b", 8.0, 0)]
    >>> after = [Row(1, "c", 9.5, 1), Row(2, "a", 9.0, 0)]
    >>> fold(before, difference(before, after, by_id=False)) == after
    True
    """
    held: dict[Hashable, list[Row]] = {}
    for row in before:
        held.setdefault((row.partition, row.rank, row.id), []).append(row)
    for change in changes:
        if change.kind != "entered":
            _remove(held[change.row.partition, change.previous_rank, change.row.id], change.row)
    rows = [row for alike in held.values() for row in alike]
    return _in_order([*rows, *(change.row for change in changes if change.kind != "left")], prefer)


def seat(row: Row) -> tuple[Any, int | str | None]:
    """Return what no two rows of an answer have in common: partition and rank, its number with ties, its id in a set.

    Examples
    --------
    >>> seat(Row(2, "a", 9.0, 0)), seat(Row(None, "a", 9.0, 0))
    ((None, 2), (None, 'a'))
    """
    if row.unique_rank is not None:
        return row.partition, row.unique_rank
    return row.partition, row.id if row.rank is None else row.rank


def moves(changes: Sequence[Change]) -> dict[tuple[Any, int | str | None], int | None]:
    """Return where rows that are new in an answer or moved were before, by their seats; None for those that are new."""
    return {seat(change.row): change.previous_rank for change in changes if change.kind in ("entered", "moved")}


def as_table(rows: Sequence[Row]) -> pa.Table:
    """Return rows as a table, for snapshots."""
    if isinstance(rows, RowColumns):
        return rows.table()
    return pa.Table.from_pylist(
        [
            {name: getattr(row, name) for name in ("rank", "id", "score", "time", "partition", "age")}
            | ({} if row.unique_rank is None else {"unique_rank": row.unique_rank})
            | {f"value/{name}": value for name, value in row.values.items()}
            for row in rows
        ]
    )


def as_rows(table: pa.Table) -> Sequence[Row]:
    """Return the rows of a table."""
    if (columns := RowColumns.load(table)) is not None:
        return columns
    rows = []
    for given in table.to_pylist():
        values = {name.removeprefix("value/"): given.pop(name) for name in list(given) if name.startswith("value/")}
        rows.append(Row(**given, values=values))
    return rows


def _names(rows: Sequence[Row], by_id: bool) -> list[Hashable]:
    """Return what each row is identified by."""
    if by_id:
        return [(row.partition, row.id) for row in rows]
    seen: dict[Hashable, int] = {}
    names: list[Hashable] = []
    for row in rows:
        event = _event(row)
        seen[event] = seen.get(event, 0) + 1
        names.append((*event, seen[event]))
    return names


def _event(row: Row) -> tuple[Hashable, ...]:
    """Return what tells events apart."""
    return row.partition, row.id, row.time, row.score, repr(row.values)


def _remove(rows: list[Row], gone: Row) -> None:
    """Remove a row: of several with the same id and rank, which are events, that event."""
    event = _event(gone)
    found = next((row for row in rows if _event(row) == event), rows[0])
    rows[:] = [row for row in rows if row is not found]


def _in_order(rows: Sequence[Row], prefer: Prefer) -> list[Row]:
    """Sort the rows of an answer, and number them anew where ranks repeat."""
    if not rows:
        return []
    partition, rank, ids = (
        value_ranks(pa.array([getattr(row, name) for row in rows])) for name in ("partition", "rank", "id")
    )
    if rows[0].unique_rank is None:
        return [rows[i] for i in np.lexsort((ids, rank, partition))]
    recency = recency_of(value_ranks(pa.array([row.time for row in rows])), prefer)
    ties = [value_ranks(pa.array([row.values[name] for row in rows])) for name in rows[0].values]
    order = np.lexsort((*reversed(ties), ids, -recency, rank, partition))
    numbers = (rank_in_runs(partition[order]) + 1).tolist()
    return [replace(rows[i], unique_rank=number) for i, number in zip(order.tolist(), numbers, strict=True)]


# The same, column by column.


@dataclass(frozen=True, eq=False)
class RowColumns(Sequence[Row]):
    """Rows that have a rank and carry nothing along, column by column; each is made when it is looked at.

    Times are microseconds; `plain` ones are shown as such.
    """

    rank: SlotArray
    id: IntArray | pa.Array
    score: FloatArray
    time: IntArray
    partition: pa.Array | None
    plain: bool

    @classmethod
    def of(cls, block: AnswerBlock, plain: bool) -> RowColumns | None:
        """Return the rows of answers; None where they show more, or cannot be compared as columns."""
        known = block.partition is None or _has_codes(block.partition.type)
        if block.rank is None or block.ties is not None or block.spent is not None or any(block.selects) or not known:
            return None
        return cls(block.rank, block.id, block.score, block.time, block.partition, plain)

    @classmethod
    def load(cls, table: pa.Table) -> RowColumns | None:
        """Return the rows of a table; None where they show more."""
        if table.num_rows == 0 or set(table.column_names) != _STORED or table["age"].type != pa.null():
            return None
        columns = {name: table[name].combine_chunks() for name in _STORED - {"age"}}
        if columns["rank"].null_count or columns["id"].null_count:
            return None
        ids, partition, times = columns["id"], columns["partition"], columns["time"]
        if not (pa.types.is_null(partition.type) or _has_codes(partition.type)):
            return None
        return cls(
            columns["rank"].to_numpy().astype(np.int32), ids.to_numpy() if pa.types.is_integer(ids.type) else ids,
            columns["score"].to_numpy(), times.cast(pa.int64()).to_numpy(),
            None if pa.types.is_null(partition.type) else partition, bool(pa.types.is_integer(times.type)),
        )  # fmt: skip

    def table(self) -> pa.Table:
        """Return them as a table, for snapshots."""
        times = pa.array(self.time)
        columns = {
            "rank": pa.array(self.rank.astype(np.int64)),
            "id": self.id if isinstance(self.id, pa.Array) else pa.array(self.id),
            "score": pa.array(self.score),
            "time": times if self.plain else times.cast(TIME),
            "partition": pa.nulls(len(self)) if self.partition is None else self.partition,
            "age": pa.nulls(len(self)),
        }
        return pa.table(columns)

    def take(self, places: IntArray | slice) -> RowColumns:
        """Return some of them, with columns of their own."""
        at = np.arange(len(self))[places]
        ids = self.id.take(pa.array(at)) if isinstance(self.id, pa.Array) else self.id[at]
        partition = None if self.partition is None else self.partition.take(pa.array(at))
        return RowColumns(self.rank[at], ids, self.score[at], self.time[at], partition, self.plain)

    def after(self, parts: Sequence[RowColumns]) -> RowColumns:
        """Return the rows of some others, and these."""
        if not parts:
            return self
        every = [*parts, self]
        ids: Any = [one.id for one in every]
        if any(isinstance(some, pa.Array) for some in ids):  # whole numbers are an array where one of them is NULL
            columns = [some if isinstance(some, pa.Array) else pa.array(some) for some in ids]
            ids = _joined(columns, columns[-1].type)
        else:
            ids = np.concatenate(ids)
        partition = None
        if self.partition is not None:
            nulls = [one.partition if one.partition is not None else pa.nulls(len(one)) for one in every]
            partition = _joined(nulls, self.partition.type)
        rank, score, time = (
            np.concatenate([getattr(one, name) for one in every]) for name in ("rank", "score", "time")
        )
        return RowColumns(rank, ids, score, time, partition, self.plain)

    def numbers(self, by_id: bool) -> SlotArray:
        """Return for each row a number that equal ones share, of one id, or of one event."""
        nothing = np.zeros(len(self), np.int64)
        partition = nothing if self.partition is None else _codes(self.partition)
        ids = _codes(self.id) if isinstance(self.id, pa.Array) else self.id
        time, score = (nothing, nothing) if by_id else (self.time, (self.score + 0.0).view(np.int64))  # -0.0 is 0.0
        out = np.empty(len(self), np.int32)
        kernel.number_alike(partition, ids, time, score, out)
        return out

    @cached_property
    def rows(self) -> list[Row]:
        """All of them."""
        ids = self.id.to_pylist() if isinstance(self.id, pa.Array) else self.id.tolist()
        times = self.time.tolist() if self.plain else [moment_of(time) for time in self.time.tolist()]
        partition = [None] * len(self) if self.partition is None else self.partition.to_pylist()
        columns = (self.rank.tolist(), ids, self.score.tolist(), times, partition)
        return [Row(*row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return len(self.rank)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        """Return one row, or several."""
        return self.rows[index]


@dataclass(frozen=True, eq=False)
class ChangeColumns(Sequence[Sequence[Change]]):
    """Changes of several answers, column by column; those of answer i are from ``offsets[i]`` on.

    Of each: its kind, by its place in `change_kernels.KINDS`, the row with its own rank, and the rank before; 0: none.
    """

    offsets: IntArray
    kinds: npt.NDArray[np.int8]
    rows: RowColumns
    previous: SlotArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Sequence[Change]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[Change]]: ...
    def __getitem__(self, index: int | slice) -> Sequence[Change] | Sequence[Sequence[Change]]:
        """Return the changes of one answer, or of several."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        low, high = self.offsets[range(len(self))[index] :][:2].tolist()
        part = slice(low, high)
        kinds = [cast(Kind, kernel.KINDS[kind]) for kind in self.kinds[part].tolist()]
        ranks = [rank or None for rank in self.previous[part].tolist()]
        return [Change(*one) for one in zip(kinds, self.rows.take(part).rows, ranks, strict=True)]

    def columns(self) -> tuple[dict[str, pa.Array], IntArray]:
        """Return them as columns of a table, and where the changes of each answer begin."""
        rows, left = self.rows, self.kinds == kernel.LEFT
        columns: dict[str, pa.Array] = {
            "rank": pa.array(rows.rank, mask=left),
            "id": rows.id if isinstance(rows.id, pa.Array) else pa.array(rows.id),
            "score": pa.array(rows.score),
            "time": pa.array(rows.time).cast(TIME),
        }
        if rows.partition is not None:
            columns["partition"] = rows.partition
        columns["change"] = pa.DictionaryArray.from_arrays(self.kinds, list(kernel.KINDS)).cast(pa.string())
        columns["previous_rank"] = pa.array(self.previous, mask=self.previous == 0)
        return columns, self.offsets


def compared(
    rows: RowColumns, offsets: IntArray, before: Sequence[int | RowColumns | None], *, by_id: bool, kind: Kind | None
) -> ChangeColumns:
    """Compare answers with those before them; see `difference`.

    Parameters
    ----------
    rows, offsets
        The rows of the answers, and where those of each begin.
    before
        What each is compared with: an answer of these, by its place, rows that were shown earlier, or nothing.
    by_id
        Whether rows are identified by their ids.
    kind
        The one kind of changes that is wanted; None: all.
    """
    earlier = [one for one in before if isinstance(one, RowColumns)]
    every = rows.after(earlier)
    behind = np.cumsum([0, *(len(one) for one in earlier)])
    at, taken, pairs = offsets + behind[-1], 0, []
    for one in before:
        if isinstance(one, RowColumns):
            pairs.append(behind[taken : taken + 2])
            taken += 1
        else:
            pairs.append(at[:1].repeat(2) if one is None else at[one : one + 2])
    begins, ends = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    most = int((ends - begins).sum() + np.diff(at).sum())
    found, kinds = np.empty(len(at), np.int64), np.empty(most, np.int8)
    places, previous = np.empty(most, np.int64), np.empty(most, np.int32)
    n = kernel.compare(
        every.numbers(by_id), every.rank, every.score, every.time, (begins, ends, at[:-1], at[1:]),
        np.full(len(every), -1, np.int64), found, kinds, places, previous,
    )  # fmt: skip
    wanted: Any = slice(0, n)
    if kind is not None:
        wanted = np.flatnonzero(kinds[:n] == kernel.KINDS.index(kind))
        found = np.searchsorted(wanted, found)
    return ChangeColumns(found, kinds[wanted], every.take(places[wanted]), previous[wanted])


_STORED = {"rank", "id", "score", "time", "partition", "age"}


def _has_codes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind))


def _codes(column: pa.Array) -> IntArray:
    """Return numbers that equal values share; NULL is one of them."""
    if pa.types.is_integer(column.type) and column.null_count == 0:
        return column.cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]
    codes = column.dictionary_encode().indices.fill_null(-1)
    return codes.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _joined(columns: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([column.cast(kind) for column in columns])
