"""What changed from one answer to the next, and back: RSP-QL's IStream and DStream, with movements.

Rows are identified by their id where ids count once, else by the whole event; of events that are equal in
everything, the first of one answer is the first of the other. Rows of sets have no rank: they never move.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from skyband.answers.answer import Change, Row


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


def fold(before: Sequence[Row], changes: Sequence[Change]) -> list[Row]:
    """Apply changes to an answer: gives the next one.

    Examples
    --------
    >>> before = [Row(1, "a", 9.0, 0), Row(2, "b", 8.0, 0)]
    >>> after = [Row(1, "c", 9.5, 1), Row(2, "a", 9.0, 0)]
    >>> fold(before, difference(before, after, by_id=False)) == after
    True
    """
    rows = {seat(row): row for row in before}
    for change in changes:
        if change.kind != "entered":
            del rows[seat(replace(change.row, rank=change.previous_rank))]
    for change in changes:
        if change.kind != "left":
            rows[seat(change.row)] = change.row
    return sorted(rows.values(), key=_place)


def seat(row: Row) -> tuple[Any, int | str | None]:
    """Return what no two rows of an answer have in common: partition and rank, or partition and id in a set.

    Examples
    --------
    >>> seat(Row(2, "a", 9.0, 0)), seat(Row(None, "a", 9.0, 0))
    ((None, 2), (None, 'a'))
    """
    return row.partition, row.id if row.rank is None else row.rank


def moves(changes: Sequence[Change]) -> dict[tuple[Any, int | str | None], int | None]:
    """Return where rows that are new in an answer or moved were before, by their seats; None for those that are new."""
    return {seat(change.row): change.previous_rank for change in changes if change.kind in ("entered", "moved")}


def as_table(rows: Sequence[Row]) -> pa.Table:
    """Return rows as a table, for snapshots."""
    return pa.Table.from_pylist(
        [
            {name: getattr(row, name) for name in ("rank", "id", "score", "time", "partition", "age")}
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
        event = (row.partition, row.id, row.time, row.score, repr(row.values))
        seen[event] = seen.get(event, 0) + 1
        names.append((*event, seen[event]))
    return names


def _place(row: Row) -> tuple[Any, ...]:
    return (row.partition is not None, row.partition if row.partition is not None else 0, seat(row)[1])
