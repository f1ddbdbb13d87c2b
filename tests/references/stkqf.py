"""STKQF: skyline queries, the SQ-grid, the four cases and Theorem 3, over a window that is kept as a whole.

Jing et al., *Dynamic Multiple Continuous Top-k Queries Over Streaming Data*. Of SAP and the PH-Tree the paper has only
an outline (sections 2.1 and 2.3): partitions P_i of the window, and their candidates C_i. Here I is those candidates,
without a tree, and a search looks at all of them.

Decided here as in the package: n_max and k_max are given. A query asks at moment t for objects of [t - n, t).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.references.objects import Object, better, ranked


class Need(NamedTuple):
    """What q(n, s, k, F) asks for, without its slide: a point of the SQ-grid."""

    n: int
    k: int


def q_dominates(q1: Need, q2: Need) -> bool:
    """Section 3.1: q1 reaches back as far as q2, and is as deep."""
    return q1.n >= q2.n and q1.k >= q2.k


def skyline(Q: Iterable[Need]) -> list[Need]:
    """Section 3.1, Q_S: the queries that no other one q-dominates, in ascending order of n (Observation 2)."""
    found = set(Q)
    return sorted(q for q in found if not any(q_dominates(other, q) for other in found if other != q))


def meaningful(objects: Iterable[Object], q: Need, t: int) -> set[Object]:
    """Observation 1, C(q): objects of the query's window that fewer than k better ones follow.

    An object of the same moment leaves the window at the same time: it may stand in for one that came before it.
    """
    window = [o for o in objects if t - q.n <= o.time < t]
    return {
        o
        for place, o in enumerate(window)
        if sum(better(later, o) for later in window[place + 1 :]) < q.k
    }  # fmt: skip


class Scope(NamedTuple):
    """What must be searched for a new query: the case, and objects whose age is from `newer` to `older`."""

    case: str
    newer: int
    older: int


def search_scope(q_new: Need, Q_S: list[Need]) -> Scope:
    """Section 3.1, cases I to IV; Algorithm 1, lines 11-15.

    The range of case IV begins, as in the paper's example, where the furthest skyline query ends, if that is as deep.
    In cases II and IV the skyline query with the smallest sq(k) that is not below the new one's reaches back the
    furthest of all as deep (Observation 2).
    """
    if any(q_dominates(sq, q_new) for sq in Q_S):
        return Scope("I", q_new.n, q_new.n)  # line 12
    as_deep = [sq for sq in Q_S if sq.k >= q_new.k]
    if not as_deep:
        return Scope("III", 0, q_new.n)  # line 14
    sq = min(as_deep, key=lambda sq: (sq.k, -sq.n))
    case = "IV" if sq == Q_S[-1] else "II"  # lines 13 and 15
    return Scope(case, sq.n, q_new.n)


@dataclass
class SQGrid:
    """Section 3.2, G: the queries of a cell count as one virtual query, its upper right corner."""

    n_max: int
    k_max: int
    side: int = 8
    cells: dict[tuple[int, int], list[Need]] = field(default_factory=dict)
    empty_since: dict[tuple[int, int], int] = field(default_factory=dict)

    def cell(self, q: Need) -> tuple[int, int]:
        """Return the cell of a query; a query on its upper or right edge is inside."""
        return -(-q.n * self.side // self.n_max), -(-q.k * self.side // self.k_max)

    def corner(self, c: tuple[int, int]) -> Need:
        """Return the virtual query of a cell."""
        return Need(c[0] * self.n_max // self.side, c[1] * self.k_max // self.side)

    def V_S(self) -> list[Need]:
        """Return the skyline virtual queries (Theorem 2)."""
        return skyline(self.corner(c) for c in self.cells)


class STKQF:
    """Section 3.3: the window in partitions, the candidates of each, and queries that come and go."""

    def __init__(self, n_max: int, k_max: int, width: int) -> None:
        self.G = SQGrid(n_max, k_max)
        self.width = width
        self.P: dict[int, list[Object]] = {}  # all objects of the window, by partition
        self.C: dict[int, set[Object]] = {}  # the candidates of each: I, the PH-Tree, without its tree
        self.t = 0
        self.searched: list[Scope] = []
        self.scanned = self.skipped = 0

    # Objects.

    def arrive(self, o: Object) -> None:
        """Add an object, which is a candidate until its partition is complete."""
        self.P.setdefault(o.time // self.width, []).append(o)
        self.C.setdefault(o.time // self.width, set()).add(o)

    def slide(self, t: int) -> None:
        """Let time pass: forget objects, make candidates of complete partitions, and forget cells that stay empty."""
        self.t = t
        for i in [i for i in self.P if (i + 1) * self.width <= t - self.G.n_max]:
            del self.P[i], self.C[i]
        meaningful_for_any = self._meaningful_for_any()
        for i in self.P:
            if (i + 1) * self.width <= t:
                self.C[i] &= meaningful_for_any
        # Lines 19-20. The paper looks at the cells whenever the window has slid n_max times; here always.
        for c in [c for c, since in self.G.empty_since.items() if since <= t - self.G.n_max]:
            del self.G.cells[c], self.G.empty_since[c]

    def _meaningful_for_any(self) -> set[Object]:
        """Return the candidates that are meaningful under a skyline virtual query."""
        objects = [o for i in sorted(self.P) for o in self.P[i]]
        return {o for v in self.G.V_S() for o in meaningful(objects, v, self.t)}

    def answer(self, q: Need, t: int) -> list[Object]:
        """Return the best k of the last n: Theorem 2, from the candidates alone."""
        return ranked(o for C_i in self.C.values() for o in C_i if t - q.n <= o.time < t)[: q.k]

    # Queries: Algorithm 1.

    def submit(self, q_new: Need) -> None:
        """Lines 1-16."""
        Q_v = self.G.V_S()
        c = self.G.cell(q_new)  # line 2
        if c in self.G.cells:  # line 3; also a cell that has been empty for a short while only
            self.G.cells[c].append(q_new)  # line 4
            self.G.empty_since.pop(c, None)
            return
        self.G.cells[c] = [q_new]  # line 6
        v_new = self.G.corner(c)
        if v_new not in self.G.V_S():  # lines 7-8
            return  # line 9
        if Q_v:
            scope = search_scope(v_new, Q_v)  # lines 11-15
            self.searched.append(scope)
            self._refine_and_search(v_new, scope)  # line 16

    def _refine_and_search(self, v_new: Need, scope: Scope) -> None:
        """Search the partitions of a scope in reverse order, but those that Theorem 3 says can miss nothing.

        Theorem 3 bounds what is in P_i but not in C_i by min(C_i). That holds where C_i are the best objects of P_i;
        here they are its meaningful ones, so the bound is the best object that is no candidate.
        """
        for i in sorted(self.P, reverse=True):
            if not (self.t - scope.older < (i + 1) * self.width and i * self.width < self.t - scope.newer):
                continue
            following = ranked(o for j in self.P if j > i for o in self.C[j])
            missing = ranked(set(self.P[i]) - self.C[i])
            theta = following[v_new.k - 1] if len(following) >= v_new.k else None
            if missing and theta is not None and better(theta, missing[0]):
                self.skipped += 1
                continue
            self.scanned += 1
            self.C[i] |= meaningful([o for j in sorted(self.P) for o in self.P[j]], v_new, self.t) & set(self.P[i])

    def delete(self, q_old: Need) -> None:
        """Lines 17-18: the cell and its virtual query stay for a while, as another query may come."""
        c = self.G.cell(q_old)
        self.G.cells[c].remove(q_old)
        if not self.G.cells[c]:
            self.G.empty_since[c] = self.t
