"""SAP, PH-Base and PH-Tree: candidates are kept partition by partition.

Paper → code (STKQF):

- sections 2.1 and 4.1, SAP and M-SAP → `SAP`
- section 4.1, PH-Base → `PHBase`
- section 2.3, the PH-Tree and its search → `PHTree`, `kernel.plant`, `kernel.pick`
- section 2.3, partitions P_i and their candidates → `Partitions`
- observation 1, meaningful objects → `Partitions._meaningful`, `kernel.skyband`
- section 3.3, arrivals and expired objects → `Partitions._complete`, `Partitions._expire`

Time is cut into partitions of equal width, no wider than the shortest window. While events arrive in the last one, the
*back*, its best K are kept in order, and all of its *meaningful* events: those that fewer than K better ones
follow. Once it is complete, the meaningful ones become its candidates, best first. A window is answered from the
candidates of the partitions that it covers; of the first one, which it may cut, those from its start on.

Choose them to compare with the papers; ``phtree`` is the best of them.

========  ============================================  ================================================================
class     partitions                                    what is kept, and what an answer costs
========  ============================================  ================================================================
`SAP`     per query, about the root of n/slide          about ``k ln(n/k) + k`` events a query; a thousand queries cost
                                                        a thousand times as much as one; an answer searches the
                                                        partitions of its window
`PHBase`  for all queries, an eighth of the shortest    the same for the largest k, until it leaves the longest window;
          window wide                                   an answer searches all partitions of its window
`PHTree`  for all queries under a tree, half as wide    the same, less what enough better events of later partitions
          as the shortest window                        outlive; an answer visits the partitions it takes an event from,
                                                        and their neighbours in the tree
========  ============================================  ================================================================

Guarantees: exact; every partition keeps its meaningful events, which are all of them where scores fall. An event that
arrives costs one comparison with the K-th best of its partition (for SAP, per query).

Invariant: an event that a coming window can answer with is a candidate of its partition.

Notes
-----
Zhu et al., *SAP: Improving Continuous Top-k Queries over Streaming Data*, and Zhu et al., *Multiple Continuous Top-k
Queries over Data Stream* (PH-Base, PH-Tree), are not at hand. What was reconstructed from their outlines in Jing et
al., *Dynamic Multiple Continuous Top-k Queries Over Streaming Data* (STKQF), sections 2.1, 2.3 and 3.3: that candidates
are the meaningful events of a partition, found when it is complete, so that a window may begin anywhere; how wide
partitions are (the root balances how many there are against how many events one has; PH-Base has smaller ones, and more
candidates); that the search goes through a heap of the partitions' next best; when dominated candidates of a PH-Tree
are dropped (once they have doubled); and late events, which become candidates of their partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from typing import ClassVar

import numpy as np

from skyband.algorithms.base import NO_SLOTS, Selection, columns_of
from skyband.algorithms.in_order import CandidateKeeper, InOrder, PerQuery, meta_query
from skyband.algorithms.options import Option
from skyband.algorithms.stkqf import partition_kernels as kernel
from skyband.events.store import EventStore
from skyband.order import IntArray, SlotArray, sort_runs
from skyband.windows import NEVER, DueWindows, Schedule

MOST_PARTITIONS = 4096
BUFFER = 4096
_SHORTEST = "into how many the shortest window is cut"

Needs = Callable[[int], Sequence[tuple[int, int]]]
"""Returns, for a moment, from where on each query needs events, and how many of the best: pairs (start, k)."""


def _per_window(default: int | None, meaning: str) -> Option:
    return Option("partitions", default, 1, MOST_PARTITIONS, meaning)


class Partitioned(InOrder):
    """Algorithms that keep candidates partition by partition."""

    def exact_before(self, schedule: Schedule, start: int) -> bool:
        """Tell whether some exact query reaches back as far, and is as deep."""
        return any(
            s.k >= schedule.k and start >= s.exact_from and start >= s.next_start > NEVER for s in self.schedules
        )


class SAP(Partitioned):
    """Partitions per query."""

    name = "sap"
    summary = "partitions of each query's window keep candidates (SAP, for many queries M-SAP)"
    by_panes = True
    options = (_per_window(None, "into how many a query's window is cut; else the root of n/slide"),)

    def keeper(self, first: int) -> CandidateKeeper:
        """Make partitions per query."""
        return PerQuery([(one, self._partitions(one, first)) for one in meta_query(self.schedules)])

    def _partitions(self, query: Schedule, first: int) -> Partitions:
        width = -(-query.size // (self.option("partitions") or isqrt(query.size // query.slide)))
        return Partitions(self.store, needs_of([query]), first, width, query.size, tree=False)


class PHBase(Partitioned):
    """Small partitions for all queries."""

    name = "phbase"
    summary = "small partitions for all queries keep candidates (PH-Base)"
    by_panes = True
    options = (_per_window(8, _SHORTEST),)
    tree: ClassVar[bool] = False

    def keeper(self, first: int) -> CandidateKeeper:
        """Make partitions for all queries."""
        members = meta_query(self.schedules)
        sizes = [member.size for member in members]
        width = max(min(sizes) // self.option("partitions"), 1)
        return Partitions(self.store, needs_of(members), first, width, max(sizes), self.tree)


class PHTree(PHBase):
    """Partitions under a tree, for all queries."""

    name = "phtree"
    summary = "partitions under a tree for all queries keep candidates (PH-Tree)"
    options = (_per_window(2, _SHORTEST),)
    tree = True


def needs_of(members: Sequence[Schedule]) -> Needs:
    """Return what queries need: the events from their next windows' starts on."""
    return lambda passed: [(m.start(m.first_of(passed)), m.k) for m in members]


class Partitions(CandidateKeeper):
    """Candidates, partition by partition.

    The first event lies at `first`; `width` is that of the partitions, `longest` that of the longest window. With a
    `tree` over the partitions, answers are found by it, and candidates which those of later partitions dominate too
    often are dropped.
    """

    def __init__(self, store: EventStore, needs: Needs, first: int, width: int, longest: int, tree: bool) -> None:
        self.store, self.needs, self.tree = store, needs, tree
        self.width = max(width, -(-longest // MOST_PARTITIONS))
        self.back = first // self.width  # the number of the partition that events arrive in
        self.depth = max(k for _, k in needs(first))
        self.candidates: dict[int, SlotArray] = {}
        self.buffer, self.used = np.empty(BUFFER, np.int32), np.zeros(1, np.int64)
        self.small = 0  # how many candidates were left when dominated ones were last dropped
        self._lay_out(NO_SLOTS)

    # Insert.

    def process(self, slots: SlotArray, due: DueWindows, ks: IntArray, passed: int) -> Selection:
        """Take in events in order, and answer windows on the way."""
        at, slots = np.zeros(kernel.PLACES, np.int64), self._take_late(slots)
        picks, offsets = np.empty(int(ks.sum()), np.int32), np.zeros(len(due) + 1, np.int64)
        most = 3 * int(ks.max(initial=0)) + 4
        while True:
            heap = np.empty((len(self.begin) + most, 4), np.int64)
            edges = np.array([self.oldest * self.width, self.back * self.width, self.width], np.int64)
            status = kernel.process(
                columns_of(self.store), slots, self.cand, self.begin, self.end, self.nodes, edges, self.buffer,
                self.used, self.depth, (due.start, due.end, ks), passed, at, heap, picks, offsets,
            )  # fmt: skip
            if status == kernel.DONE:
                break
            if status == kernel.CROWDED:
                self._thin()
            else:
                now = int(self.store.position[slots[at[kernel.EVENT]]])
                self._complete(now // self.width)
                self._expire(now)
                self._lay_out(NO_SLOTS)
        if self._expire(passed):
            self._lay_out(self._back_best())
        return Selection(picks[: at[kernel.PICKED]], offsets)

    def _take_late(self, slots: SlotArray) -> SlotArray:
        """Make events of complete partitions candidates; return the others."""
        number = self.store.position[slots] // self.width
        late = number < self.back
        if late.any():
            for which in np.unique(number[late]).tolist():
                known = self.candidates.get(which, NO_SLOTS)
                self.candidates[which] = self._best_first(np.concatenate([known, slots[number == which]]))
            self._lay_out(self._back_best())
        return slots[~late]

    def _thin(self) -> None:
        """Leave in the buffer only meaningful events; make it larger where that is not enough."""
        left = self._meaningful(self._held(), self.depth, NO_SLOTS)
        room = max(BUFFER, 4 * len(left))
        self.buffer = np.concatenate([left, np.empty(room - len(left), np.int32)])
        self.used[0] = len(left)

    def _complete(self, following: int) -> None:
        """Make candidates of the back partition's meaningful events, and begin another one."""
        self.candidates[self.back] = self._best_first(self._meaningful(self._held(), self.depth, NO_SLOTS))
        self.back, self.used[0] = following, 0
        self.end[-1] = self.begin[-1]

    def _meaningful(self, slots: SlotArray, depth: int, following: SlotArray) -> SlotArray:
        """Return the events that fewer than `depth` better ones follow, in order of time."""
        slots = slots[np.argsort(self.store.position[slots], kind="stable")]
        out = np.empty(len(slots), np.int32)
        left = kernel.skyband(*columns_of(self.store)[:3], slots, depth, following, out)
        return out[len(out) - left :]

    def _best_first(self, slots: SlotArray) -> SlotArray:
        slots = slots.copy()
        sort_runs(slots, np.array([len(slots)]), *columns_of(self.store)[:4])
        return slots

    # Expire.

    def _expire(self, passed: int) -> bool:
        """Forget the partitions before all windows that are still to be answered; tell whether anything changed."""
        oldest = min(start for start, _ in self.needs(passed)) // self.width
        gone = [number for number in self.candidates if number < oldest]
        for number in gone:
            del self.candidates[number]
        crowded = self.tree and self._size() > 2 * self.small + BUFFER
        if crowded:
            self._prune(passed)
        return bool(gone) or crowded

    def _prune(self, passed: int) -> None:
        """Drop candidates that so many better ones of later partitions outlive as any query still asks for."""
        following, needs = self._back_best(), self.needs(passed)
        for number in sorted(self.candidates, reverse=True):
            depth = max((k for start, k in needs if start < (number + 1) * self.width), default=0)
            left = self._meaningful(self.candidates[number], depth, following[:depth]) if depth else NO_SLOTS
            self.candidates[number] = self._best_first(left)
            following = self._best_first(np.concatenate([following, self.candidates[number]]))[: self.depth]
        self.small = self._size()

    def _size(self) -> int:
        return sum(len(slots) for slots in self.candidates.values())

    def _lay_out(self, back_best: SlotArray) -> None:
        """Lay out the candidates as the kernels want them, with room for the best of the back partition."""
        self.oldest = min(self.candidates, default=self.back)
        runs = [self.candidates.get(number, NO_SLOTS) for number in range(self.oldest, self.back)]
        lengths = np.array([0, *(len(run) for run in runs)], np.int64)
        self.begin = np.cumsum(lengths)
        self.end = np.append(self.begin[1:], self.begin[-1] + len(back_best))
        self.cand = np.concatenate([*runs, back_best, np.empty(self.depth - len(back_best), np.int32)])
        leaves = 1 << max(len(runs) - 1, 0).bit_length()
        self.nodes = np.empty(2 * leaves if self.tree else 0, np.int64)
        if self.tree:
            kernel.plant(*columns_of(self.store)[:3], self.cand, self.begin, self.end, self.nodes)

    def _back_best(self) -> SlotArray:
        """Return the best events of the back partition."""
        return self.cand[self.begin[-1] : self.end[-1]].copy()

    def _held(self) -> SlotArray:
        """Return the events of the back partition that may matter, in order of time."""
        return self.buffer[: self.used[0]]

    # State.

    def kept(self) -> SlotArray:
        """Return the slots of all candidates, and of the back partition's events."""
        return np.sort(np.concatenate([*self.candidates.values(), self._held()]))

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        self.candidates = {number: moved[slots] for number, slots in self.candidates.items()}
        self._held()[:] = moved[self._held()]
        self._lay_out(moved[self._back_best()])

    def bound(self) -> int:
        """Return what is kept: of falling scores every event is meaningful."""
        return len(self.kept())

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        position = self.store.position
        for number, slots in self.candidates.items():
            assert np.all(position[slots] // self.width == number), "a candidate is in another partition"
            assert np.array_equal(self.store.best_first(slots), np.arange(len(slots))), "candidates are not in order"
        held = self._held()
        assert np.all(position[held] // self.width == self.back), "the back partition has events of another"
        best = held[self.store.best_first(held)][: self.depth]
        assert np.array_equal(self.store.merit[best], self.store.merit[self._back_best()]), "others are its best"
