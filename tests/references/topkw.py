"""Top-k/w: strict, relaxed and probabilistic k-skybands of one query, and query filters over a recent buffer.

Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*. Names and lines
are the paper's. Windows are count-based: an object's time is its sequence number, and the window has the last n.

Two decisions concern all of it. Objects are reported at the end of a step, not when they are added: a candidate that
takes an empty place and loses it to the object that comes never was among the best. Ties are ranked as in `objects`.
"""

from __future__ import annotations

from math import ceil, comb, inf

from tests.references.objects import Object, better, ranked


class SA:
    """Strict k-skyband, definition 3.8: all window objects that fewer than k others dominate."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.toptree: list[Object] = []  # the k best, the best first
        self.candtree: list[Object] = []  # all others, the best first

    @property
    def objects(self) -> list[Object]:
        """Both trees, the best first."""
        return self.toptree + self.candtree

    def _plant(self, objects: list[Object]) -> None:
        self.toptree, self.candtree = objects[: self.k], objects[self.k :]

    def process(self, o: Object) -> None:
        """Add an object, and remove what is then dominated by k or more (theorem 3.7)."""
        objects = ranked([*self.objects, o])
        dominators = {x: [y for y in objects if better(y, x) and y.time >= x.time] for x in objects}
        self._plant([x for x in objects if len(dominators[x]) < self.k])

    def drop(self, gone: int) -> None:
        """Remove objects that have left the window: those with a time up to `gone`."""
        self._plant([o for o in self.objects if o.time > gone])


class RA(SA):
    """Relaxed k-skyband, definition 4.7: the objects of the k-skyband, and some that are dominated."""

    def __init__(self, k: int, gamma: float) -> None:
        super().__init__(k)
        self.gamma = gamma
        self.limit = 4 * k  # "a few times larger than k"

    def process(self, o: Object) -> None:
        """Algorithm 3: process an incoming object."""
        if len(self.toptree) < self.k or better(o, self.toptree[-1]):  # line 2
            self.toptree = ranked([*self.toptree, o])  # line 5
            if len(self.toptree) > self.k:  # line 6, which prints ≥
                t = self.toptree.pop()  # lines 7-9
                self.candtree.insert(0, t)
        else:
            self.candtree = ranked([*self.candtree, o])  # line 12
        if len(self.candtree) >= self.limit:  # line 15
            self.prune()  # line 16
            # Line 17; a limit that is reached already would prune at every object.
            self.limit = max(ceil((1 + self.gamma) * len(self.candtree)), len(self.candtree) + 1)

    def prune(self) -> None:
        """Algorithm 4: prune dominated objects."""
        domtree = sorted(o.time for o in self.toptree)  # lines 1-4, the oldest first
        kept = []
        for o in self.candtree:  # line 5
            h = domtree[0]  # line 6
            if o.time > h:  # line 7
                domtree = sorted([*domtree[1:], o.time])  # lines 8-9
                kept.append(o)
        self.candtree = kept  # line 11

    def drop(self, gone: int) -> None:
        """Algorithm 5: remove dropped top-k/w objects. Candidates may stay until one is needed."""
        for o in [o for o in self.toptree if o.time <= gone]:
            self.toptree.remove(o)  # line 1
            while self.candtree:  # lines 2-7
                h = self.candtree.pop(0)
                if h.time > gone:
                    self.toptree.append(h)  # line 9
                    break


class PA(SA):
    """Probabilistic k-skyband, definition 4.5: the objects that are likely to be among the best."""

    def __init__(
        self, k: int, limit: int, additional: int, share: float = 1 / 2, reset_below: int | None = None
    ) -> None:
        super().__init__(k)
        self.limit, self.additional, self.share = limit, additional, share
        self.reset_below = limit if reset_below is None else reset_below
        self.threshold = inf  # a cost: smaller is better

    def process(self, o: Object) -> None:
        """Algorithm 1: process an incoming object."""
        if self.threshold < -o.F:  # line 2
            return  # line 3: its rank is poor
        self._plant(ranked([*self.objects, o]))  # lines 5-18
        if len(self.candtree) >= self.limit + self.additional:  # line 20
            if len(self.candtree) > self.limit + self.additional:  # line 21
                self.candtree.pop()  # line 22
            self.threshold = -self.objects[-1].F  # line 24

    def drop(self, gone: int) -> None:
        """Algorithm 2: remove dropped objects, from either tree."""
        for o in [o for o in self.objects if o.time <= gone]:
            self._plant([x for x in self.objects if x is not o])  # lines 1-12
            if len(self.candtree) < self.reset_below or len(self.objects) < 2:  # line 13
                self.threshold = inf  # line 14
            else:  # line 16: by a share of the difference between the two lowest ranks
                last, tail = self.objects[-2:]
                self.threshold += self.share * (last.F - tail.F)


def PF(k: int, limit: int) -> PA:
    """Make a probabilistic filter, section 6.1: no additional objects; the threshold rises by the whole difference.

    "Such that it is not reset": it is so only where the difference of two candidates is not defined.
    """
    return PA(k, limit, additional=0, share=1.0, reset_below=2)


class TopKW:
    """A query q with window size n, sections 5 and 6; a filter over the last b objects may guard its k-skyband."""

    def __init__(self, n: int, skyband: SA, query_filter: SA | None = None, b: int = 0) -> None:
        self.n, self.b, self.skyband, self.filter = n, b, skyband, query_filter
        self.buffer: list[Object] = []
        self.reported: list[Object] = []
        assert query_filter is None or 2 * b <= n + 1, "theorem 5.1"

    @property
    def top_k(self) -> list[Object]:
        """The top-k/w objects, the best first."""
        return self.skyband.toptree

    def process(self, o: Object) -> None:
        """One step: an object appears."""
        if self.filter is not None:
            self.filter.drop(o.time - self.b)
            while self.buffer and self.buffer[0].time <= o.time - self.b:
                self.second_attempt(self.buffer.pop(0))
        self.skyband.drop(o.time - self.n)
        if self.filter is None or self.first_attempt(o):
            self.skyband.process(o)
        self.reported += [x for x in self.top_k if x not in self.reported]

    def first_attempt(self, o: Object) -> bool:
        """Tell whether an object that appears is a top-k object in the query filter."""
        assert self.filter is not None
        self.buffer.append(o)
        wanted = self._is_top(o)
        self.filter.process(o)
        return wanted

    def second_attempt(self, o: Object) -> None:
        """Insert an object that leaves the buffer, unless it was inserted, or k in the filter dominate it."""
        if self._is_top(o) and o not in self.skyband.objects:
            self.skyband.process(o)

    def _is_top(self, o: Object) -> bool:
        assert self.filter is not None
        others = [x for x in self.filter.toptree if x != o]
        return len(others) < self.filter.k or better(o, others[-1])


def p_drop(rank: int, n: int, dropped: int, better: int) -> float:
    """Return the probability that, of so many dropped events, so many were better than the one at a rank; eq. (5).

    Examples
    --------
    >>> p_drop(rank=3, n=4, dropped=1, better=1)  # two of the other three are better
    0.6666666666666666
    """
    if not 0 <= better <= dropped:
        return 0.0
    return comb(rank - 1, better) * comb(n - rank, dropped - better) / comb(n - 1, dropped)


def p_arrival(rank: int, n: int, arrived: int, better: int) -> float:
    """Return the probability that, of so many events that arrived, so many are better than the one at a rank; eq. (6).

    Examples
    --------
    >>> p_arrival(rank=1, n=1, arrived=1, better=1)  # one event, one more: either may be the better one
    0.5
    """
    if not 0 <= better <= arrived:
        return 0.0
    above, below = rank - 1 + better, n - rank + arrived - better
    ways = comb(above, better) * comb(below, arrived - better)
    return n / (n + arrived) * (ways / comb(n + arrived - 1, arrived))


def p_theory(rank: int, n: int, k: int) -> float:
    """Return an upper bound for the probability to become one of the k best; eq. (7), a sum over all steps.

    Slow: `p_practice` of the package is what one computes.
    """
    return sum(
        p_drop(rank, n, step, rank - new + better) * p_arrival(rank, n, step, better)
        for step in range(1, n)
        for new in range(1, k + 1)
        for better in range(new)
    )
