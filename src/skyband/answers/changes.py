"""What changed from one answer to the next, and back: RSP-QL's IStream and DStream, with movements.

Rows are identified by their id where ids count once, else by the whole event; of events that are equal in
everything, the first of one answer is the first of the other. Rows of sets have no rank: they never move. Where ranks
repeat, a row whose rank stays has not moved, though others may now be listed before it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Change, Row
from skyband.order import Prefer, rank_in_runs, recency_of, value_ranks


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
    return pa.Table.from_pylist(
        [
            {name: getattr(row, name) for name in ("rank", "id", "score", "time", "partition", "age")}
            | ({} if row.unique_rank is None else {"unique_rank": row.unique_rank})
            | {f"value/{name}": value for name, value in row.values.items()}
            for row in rows
        ]
    )


def as_rows(table: pa.Table) -> list[Row]:
    """Return the rows of a table."""
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
