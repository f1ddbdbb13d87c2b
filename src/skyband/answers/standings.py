"""The latest answer of a query, and how its rows moved: what every leaderboard shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from skyband.answers.answer import Row
from skyband.answers.changes import difference, moves, seat

Moves = dict[tuple[Any, int | str | None], int | None]
"""Ranks before, by seats (`changes.seat`), of the rows that are new (None) or moved."""


@dataclass
class Standing:
    """The latest answer of one query, compared with the answer of the window before.

    Parameters
    ----------
    by_id
        Whether rows are identified by their ids (`Query.ranks_ids`), not by the whole event.

    Examples
    --------
    >>> standing = Standing(by_id=True)
    >>> _ = standing.update([Row(1, "a", 9.0, 0), Row(2, "b", 8.0, 0)], 10)
    >>> standing.update([Row(1, "b", 9.5, 0), Row(2, "c", 9.2, 0), Row(3, "a", 9.0, 0)], 20)
    {(None, 1): 2, (None, 2): None, (None, 3): 1}
    >>> [standing.movement(row) for row in standing.rows]
    ['▲1', 'new', '▼2']
    """

    by_id: bool
    rows: Sequence[Row] = ()
    end: Any = None
    moves: Moves = field(default_factory=dict)
    before: Sequence[Row] = ()
    """The rows of the window before."""

    def update(self, rows: Sequence[Row], end: Any) -> Moves:
        """Take over the answer of the window that ends at `end`; a later answer of the same window replaces it."""
        if end != self.end:
            self.before = self.rows
        self.rows, self.end = rows, end
        self.moves = moves(difference(self.before, rows, by_id=self.by_id))
        return self.moves

    def movement(self, row: Row) -> str:
        """Write how a row came to its place: "new", "▲2", "▼1", or nothing."""
        was = self.moves.get(seat(row), row.rank)
        if seat(row) in self.moves and (was is None or row.rank is None):
            return "new"
        if was is None or row.rank is None or was == row.rank:
            return ""
        return f"▲{was - row.rank}" if was > row.rank else f"▼{row.rank - was}"
