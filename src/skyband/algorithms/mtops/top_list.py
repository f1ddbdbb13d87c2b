"""MinTopK and MTopList: one list of all events that a predicted view holds, with marks and pointers.

Paper → code (MinTopK as told in AcquaTop; Shastri 2011):

- AcquaTop, section 3.1, the super-top-k list of a query → `MinTopK`
- section 6.1, one list for all views → `MTopList`, `TopList`
- section 6.1, window marks and FP_min → `TopList.marks`, `TopList.pointers`
- figures 6.3 and 6.4 → `kernel.process`

Choose ``mtoplist`` to compare with the thesis, or where memory is all that counts: nobody can keep fewer events. Choose
``mintopk`` to compare with its paper, for one query at a time.

Guarantees: exact; keeps the minimal set, that is the events which would be in an answer if no more came (Theorem
5.1.1); for one query that is about 2k events on average. An event that arrives is compared with a threshold per 64
views, and with each view whose threshold it may pass; each view that it enters costs one step along the list. Count
and time windows of any size, slide and k. ``mintopk`` has a list for each query: a thousand queries cost a thousand
times as much as one.

Invariant: an event is in the list if and only if a view of a window that is still to be answered holds it.

Notes
-----
Shastri, *MTopS: Multi-Query Optimization for Continuous Top-K Query Workloads*, chapter 6: each event is marked with
the first and the last view that hold it; each view points to the worst event it holds. Both are needed: where k differs
from view to view, an event may leave and come back (its Observation 2). Yang et al., *An Optimal Strategy for
Monitoring Top-k Queries in Streaming Windows* (MinTopK), as told there and in Zahmatkesh and Della Valle, *Relevant
Query Answering over Streaming and Distributed Data* (AcquaTop), section 3.1: the super-top-k list is the same list with
one query in it, or several with the same windows.

Left open there: how the place of an event in the list is found (here by a skip list); how the views that an event
enters are found where thresholds do not fall with age (here by the least threshold of 64 neighbours); what happens
when a view serves windows that end at different times (here it holds fewer events once the deeper ones are answered,
which the minimal set demands); late events (they enter the views that reach back to them); queries that come later
(their views are made of what is kept, and are exact where another query has a view of that start and depth).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyband.algorithms.base import Selection, columns_of
from skyband.algorithms.in_order import CandidateKeeper, PerQuery, meta_query
from skyband.algorithms.mtops import top_list_kernels as kernel
from skyband.algorithms.mtops.views import Predicting, Scheduler
from skyband.events.store import EventStore
from skyband.order import IntArray, SlotArray
from skyband.windows import DueWindows, Schedule


class MinTopK(Predicting):
    """A super-top-k list per query."""

    name = "mintopk"
    summary = "a list with marks and pointers per query; what it keeps is minimal (MinTopK)"

    def keeper(self, first: int) -> CandidateKeeper:
        """Make a list per query."""
        return PerQuery([(one, TopList(self.store, [one], first)) for one in meta_query(self.schedules)])


class MTopList(Predicting):
    """The list of the meta query."""

    name = "mtoplist"
    summary = "one list with marks and pointers for all predicted views of all queries (MTopS)"

    def keeper(self, first: int) -> CandidateKeeper:
        """Make one list for all queries."""
        return TopList(self.store, meta_query(self.schedules), first)


class TopList(CandidateKeeper):
    """One list for all views of some queries, whose windows `members` has each once; the first event is at `first`."""

    def __init__(self, store: EventStore, members: Sequence[Schedule], first: int) -> None:
        self.store = store
        self.scheduler = Scheduler(members, first)
        self.numbers = np.zeros(kernel.NUMBERS, np.int64)
        self.views, self.threshold, self.least = np.zeros((0, kernel.VIEW), np.int64), np.empty(0), np.empty(0)
        self.nodes, self.merit = np.zeros((0, kernel.NODE), np.int64), np.empty(0)
        self.links = np.zeros((0, kernel.LEVELS, 2), np.int64)
        self._widen(64)
        self.links[0, :, kernel.WORSE], self.links[1, :, kernel.BETTER] = 1, 0
        self.numbers[[kernel.USED, kernel.CHANCE]] = 2, 88_172_645_463_325_252

    def process(self, slots: SlotArray, due: DueWindows, ks: IntArray, passed: int) -> Selection:
        """Take in events in order, and answer windows on the way."""
        (opened, steps), at = self.scheduler.until(passed), np.zeros(kernel.PLACES, np.int64)
        events, live = columns_of(self.store), self._live()
        self.nodes[live, kernel.KEY] = self.store.key[self.nodes[live, kernel.SLOT]]  # keys move as ids come and go
        self._make_room(opened.shape[1])
        picks, offsets = np.empty(int(ks.sum()), np.int32), np.zeros(len(due) + 1, np.int64)
        while kernel.process(
            events, slots, self.nodes, self.merit, self.links, self.free, self.numbers, self.views, self.threshold,
            self.least, opened, steps, (due.start, due.end, ks), passed, at, picks, offsets,
        ) == kernel.FULL:  # fmt: skip
            self._widen(2 * len(self.nodes))
        return Selection(picks[: at[kernel.PICKED]], offsets)

    def _widen(self, room: int) -> None:
        """Make room for more nodes."""
        more = room - len(self.nodes)
        self.nodes, self.merit, self.links = (
            np.concatenate([column, np.zeros((more, *column.shape[1:]), column.dtype)])
            for column in (self.nodes, self.merit, self.links)
        )
        self.free = np.empty(room, np.int64)  # none is free, or there would be room

    def _make_room(self, opening: int) -> None:
        """Forget the views that are closed, and make room for those that open."""
        count = self.numbers[kernel.VIEWS]
        alive = np.flatnonzero(self.views[:count, kernel.DEPTH] > 0)
        place = np.full(count + 1, -1, np.int64)
        place[alive] = np.arange(len(alive))
        live = self._live()
        for mark in (kernel.FIRST, kernel.LAST):
            self.nodes[live, mark] = place[self.nodes[live, mark]]
        blocks = (len(alive) + opening) // kernel.BLOCK + 1
        views = np.zeros((blocks * kernel.BLOCK, kernel.VIEW), np.int64)
        threshold = np.full(len(views), np.inf)
        views[: len(alive)], threshold[: len(alive)] = self.views[alive], self.threshold[alive]
        self.views, self.threshold, self.least = views, threshold, threshold.reshape(blocks, -1).min(axis=1)
        self.numbers[kernel.VIEWS] = len(alive)

    def _live(self) -> IntArray:
        """Return the nodes of the list, best first."""
        live: IntArray = kernel.listed(self.links, self.numbers)
        return live

    def marks(self) -> list[tuple[int, int, int]]:
        """Return the events, best first: slot, and where the first and the last view start that hold it."""
        live, start = self._live(), self.views[:, kernel.START]
        first, last = (start[self.nodes[live, mark]].tolist() for mark in (kernel.FIRST, kernel.LAST))
        return list(zip(self.nodes[live, kernel.SLOT].tolist(), first, last, strict=True))

    def pointers(self) -> dict[int, int]:
        """Return, by the start of each open view, the slot of the worst event that it holds."""
        views = self.views[: self.numbers[kernel.VIEWS]]
        views = views[views[:, kernel.COUNT] > 0]
        worst = self.nodes[views[:, kernel.LOW], kernel.SLOT]
        return dict(zip(views[:, kernel.START].tolist(), worst.tolist(), strict=True))

    def kept(self) -> SlotArray:
        """Return the slots of all events of the list."""
        return np.sort(self.nodes[self._live(), kernel.SLOT]).astype(np.int32)

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        live = self._live()
        self.nodes[live, kernel.SLOT] = moved[self.nodes[live, kernel.SLOT]]

    def bound(self) -> int:
        """Return the sum of what the views can hold."""
        return int(self.views[: self.numbers[kernel.VIEWS], kernel.DEPTH].sum())

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        live = self._live()
        slot, position, first, last = (
            self.nodes[live, column] for column in (kernel.SLOT, kernel.POSITION, kernel.FIRST, kernel.LAST)
        )
        assert np.array_equal(self.store.best_first(slot), np.arange(len(live))), "the list is not in order"
        held = np.zeros((self.numbers[kernel.VIEWS], len(live)), bool)
        for view, (start, k, count, low) in enumerate(self.views[: len(held)].tolist()):
            inside = np.flatnonzero(position >= start)[:k]
            held[view, inside] = True
            assert count == len(inside), "a view does not count what it holds"
            assert count == 0 or low == live[inside[-1]], "a pointer is wrong"
        assert np.all(held.any(axis=0)), "an event is in no view"
        if len(live) == 0:
            return
        assert np.array_equal(held.argmax(axis=0), first), "a starting mark is wrong"
        assert np.array_equal(len(held) - 1 - held[::-1].argmax(axis=0), last), "an ending mark is wrong"
        assert np.array_equal(self.store.position[slot], position), "an event moved"
