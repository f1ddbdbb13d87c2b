"""Which queries decide what is kept, and what a new one would miss: the analysis of STKQF.

Paper → code (STKQF):

- section 3.1, q-dominance, observations 1 and 2, theorem 1 → `skyline`
- section 3.1, cases I to IV; algorithm 1, lines 11-15 → `Case`, `scan_for`
- section 3.2, SQ-grid, virtual queries and theorem 2 → `SQGrid`, `SQGrid.virtual`
- algorithm 1, lines 2-9 and 17-18 → `SQGrid.fill`; lines 19-20 → `SQGrid.forget`

A query needs the best `k` of the last `n`. One that needs no less of both *dominates* another: whatever the other can
answer with, it can. So the *skyline* of the queries, those that none dominates, decides what must be kept; and of what
a new query needs, only that may be missing which reaches further back than the skyline queries as deep as it.

References
----------
Jing et al., *Dynamic Multiple Continuous Top-k Queries Over Streaming Data* (STKQF), section 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Need:
    """The best `k` of the last `n`."""

    n: int
    k: int


class Case(StrEnum):
    """Position of a new query relative to the skyline (cases I-IV of the paper)."""

    DOMINATED = "I"
    DEEPER_THAN_FURTHER_ONES = "II"
    DEEPEST = "III"
    FURTHEST = "IV"

    @property
    def meaning(self) -> str:
        """The case in words."""
        return _MEANINGS[self]


_MEANINGS = {
    Case.DOMINATED: "another query reaches back as far and is as deep",
    Case.DEEPER_THAN_FURTHER_ONES: "the queries that reach back as far are less deep",
    Case.DEEPEST: "no other query is as deep",
    Case.FURTHEST: "no other query reaches back as far",
}


@dataclass(frozen=True)
class Scan:
    """What must be looked at for a new query: events whose age is from `newer` to `older`; none if they are equal."""

    case: Case
    newer: int
    older: int


def skyline(needs: Iterable[Need]) -> list[Need]:
    """Return the needs that no other dominates: the further back they reach, the less deep they are.

    Examples
    --------
    >>> skyline([Need(3, 5), Need(6, 4), Need(8, 2), Need(4, 3)])
    [Need(n=3, k=5), Need(n=6, k=4), Need(n=8, k=2)]
    """
    found: list[Need] = []
    for need in sorted(set(needs), key=lambda need: (-need.n, -need.k)):
        if not found or need.k > found[-1].k:
            found.append(need)
    return found[::-1]


def scan_for(new: Need, served: Sequence[Need]) -> Scan:
    """Return what a new query needs and the skyline queries do not.

    Examples
    --------
    >>> served = [Need(3, 8), Need(6, 6), Need(7, 3)]
    >>> [(scan_for(Need(n, k), served).case.value, scan_for(Need(n, k), served).newer) for n, k in ((4, 4), (5, 7))]
    [('I', 4), ('II', 3)]
    """
    as_deep = max((need.n for need in served if need.k >= new.k), default=0)
    if as_deep >= new.n:
        return Scan(Case.DOMINATED, new.n, new.n)
    if as_deep == 0:
        return Scan(Case.DEEPEST, 0, new.n)
    furthest = max(need.n for need in served)
    case = Case.FURTHEST if as_deep == furthest else Case.DEEPER_THAN_FURTHER_ONES
    return Scan(case, as_deep, new.n)


class SQGrid:
    """A grid over needs: the queries of a cell count as one *virtual* query, its upper right corner.

    Queries that come and go within a cell change nothing, and cells are few however many queries there are. A cell
    that has become empty stays until nobody has used it for as long as the grid reaches back: another query may come.
    The grid reaches `n` back and is `k` deep, with `cells` along each side.
    """

    def __init__(self, n: int, k: int, cells: int = 8) -> None:
        self.n, self.k, self.cells = n, k, cells
        self.members: Counter[tuple[int, int]] = Counter()  # how many queries a cell has
        self.left: dict[tuple[int, int], int] = {}  # when the last query left an empty cell

    def cell(self, need: Need) -> tuple[int, int]:
        """Return the cell that a need lies in, counted from 1."""
        return -(-need.n * self.cells // self.n), -(-need.k * self.cells // self.k)

    def corner(self, cell: tuple[int, int]) -> Need:
        """Return the virtual query of a cell."""
        return Need(cell[0] * self.n // self.cells, cell[1] * self.k // self.cells)

    def fits(self, need: Need) -> bool:
        """Tell whether a need lies within the grid."""
        return need.n <= self.n and need.k <= self.k

    def fill(self, needs: Iterable[Need], now: int) -> None:
        """Serve these needs from now on."""
        members = Counter(map(self.cell, needs))
        for cell in self.members.keys() - members.keys():
            self.left.setdefault(cell, now)
        for cell in members:
            self.left.pop(cell, None)
        self.members = members

    def forget(self, now: int) -> bool:
        """Forget the cells that have been empty for as long as the grid reaches back; tell whether there were any."""
        stale = [cell for cell, since in self.left.items() if since <= now - self.n]
        for cell in stale:
            del self.left[cell]
        return bool(stale)

    def virtual(self) -> list[Need]:
        """Return the skyline of the virtual queries."""
        return skyline(self.corner(cell) for cell in (*self.members, *self.left))
