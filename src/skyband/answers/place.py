"""Where an id stands in an answer: its row, and the rows just above and below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from skyband.answers.answer import Row
from skyband.times import Moment

Stands = Literal["ranked", "below k", "absent"]


@dataclass(frozen=True)
class Place:
    """Where an id stands in a window of a query.

    Parameters
    ----------
    query, id
        What was asked for.
    stands
        ``"ranked"``: `row` has its rank and score. ``"below k"``: it is not among the best k; it may have no event in
        the window, which is not known, since no more than the best are kept. ``"absent"``: it is not in the window; so
        it is said of aggregates, of which all ids are kept.
    row
        Its row, the best where there are several; None where it is not ranked.
    above, below
        The rows before and behind it in the list. Of an id that is not ranked, `above` is the last row of the list: the
        one to pass.
    start, end
        The window; None before the first event.
    exact, why, provisional
        Whether the ranking is exact as things stand, why it is not, and whether the window is still open.

    Examples
    --------
    >>> rows = [Row(1, "a", 9.0, 0), Row(2, "b", 8.0, 0), Row(3, "c", 7.0, 0)]
    >>> found = Place.among(rows, "top", "b")
    >>> found.rank, found.score, found.above.id, found.below.id
    (2, 8.0, 'a', 'c')
    >>> Place.among(rows, "top", "z").stands
    'below k'
    """

    query: str
    id: int | str
    stands: Stands
    row: Row | None = None
    above: Row | None = None
    below: Row | None = None
    start: Moment | None = None
    end: Moment | None = None
    exact: bool = True
    why: str | None = None
    provisional: bool = False

    @property
    def rank(self) -> int | None:
        """Its rank; None where it is not ranked."""
        return None if self.row is None else self.row.rank

    @property
    def score(self) -> float | None:
        """Its score; None where it is not ranked."""
        return None if self.row is None else self.row.score

    @classmethod
    def among(
        cls, rows: Sequence[Row], query: str, id: int | str, *,  # noqa: A002 - the word for it
        partition: Any = None, unranked: Stands = "below k", **window: Any,
    ) -> Place:  # fmt: skip
        """Find an id among the rows of an answer, best first, partition by partition.

        A text also names an integer that is written so. Of an id in several partitions, the best rank counts; where a
        `partition` is given, only that is looked at.
        """
        rows = [row for row in rows if partition is None or _same(row.partition, partition)]
        ranked = [place for place, row in enumerate(rows) if _same(row.id, id)]
        if not ranked:
            parts = {repr(row.partition) for row in rows}
            return cls(query, id, unranked, above=rows[-1] if len(parts) == 1 else None, **window)
        place = min(ranked, key=lambda place: rows[place].rank or 0)
        row = rows[place]
        above, below = (
            rows[near] if 0 <= near < len(rows) and rows[near].partition == row.partition else None
            for near in (place - 1, place + 1)
        )
        return cls(query, id, "ranked", row, above, below, **window)


def _same(value: Any, given: Any) -> bool:
    return bool(value == given) or (isinstance(given, str) and value is not None and str(value) == given)
