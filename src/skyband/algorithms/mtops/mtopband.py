"""MTopBand: each predicted view has a sorted list of its own.

Paper → code (Shastri 2011):

- section 5.1, a result set for each view → `Band`, `Band.lists`
- section 5.2 → `kernel.process`, `kernel.insert`

Choose it to compare with the thesis; `mtoplist` is the better one.

Guarantees: exact; keeps the minimal set of events (Theorem 5.1.1), but refers to each of them from every view that
holds it: k places for every view. An event that arrives is compared with every view, and moves half a list in each
that it enters. Count and time windows of any size, slide and k.

Invariant: the list of a view has the best k of the events from its start on.

Notes
-----
Shastri, *MTopS: Multi-Query Optimization for Continuous Top-K Query Workloads*, chapter 5. Left open there, and
decided as in `top_list`: views that serve windows with different ends, late events, queries that come later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.algorithms.base import Selection, columns_of
from skyband.algorithms.in_order import CandidateKeeper, meta_query
from skyband.algorithms.mtops import mtopband_kernels as kernel
from skyband.algorithms.mtops.views import Predicting, Scheduler
from skyband.events.store import EventStore
from skyband.order import IntArray, SlotArray
from skyband.windows import DueWindows, Schedule, progressions

_VIEW = (np.int64, np.int64, np.int64, np.int64, np.float64)


class MTopBand(Predicting):
    """A band of lists, one per predicted view of the meta query."""

    name = "mtopband"
    summary = "a sorted list for each predicted view of all queries (MTopS)"

    def keeper(self, first: int) -> CandidateKeeper:
        """Make the lists of all queries' views."""
        return Band(self.store, meta_query(self.schedules), first)


class Band(CandidateKeeper):
    """Lists of views in a common pool."""

    def __init__(self, store: EventStore, members: Sequence[Schedule], first: int) -> None:
        self.store = store
        self.scheduler = Scheduler(members, first)
        self.views: Any = tuple(np.empty(0, kind) for kind in _VIEW)
        self.pool: Any = np.empty(0, np.int32), np.empty(0)
        self.refs = np.empty(0, np.int32)

    def process(self, slots: SlotArray, due: DueWindows, ks: IntArray, passed: int) -> Selection:
        """Take in events in order, and answer windows on the way."""
        store, (opened, steps) = self.store, self.scheduler.until(passed)
        self.refs = np.concatenate([self.refs, np.zeros(store.size - len(self.refs), np.int32)])
        count, used = len(self.views[0]), len(self.pool[0])
        views = tuple(np.concatenate([column, np.zeros(opened.shape[1], column.dtype)]) for column in self.views)
        room = int(opened[1].sum())
        pool = tuple(np.concatenate([column, np.empty(room, column.dtype)]) for column in self.pool)
        picks, offsets = np.empty(int(ks.sum()), np.int32), np.zeros(len(due) + 1, np.int64)
        picked = kernel.process(
            columns_of(store), slots, views, np.array([count, used]),
            pool, self.refs, opened, steps, (due.start, due.end, ks), passed, picks, offsets,
        )  # fmt: skip
        self._forget_closed(views, pool)
        return Selection(picks[:picked], offsets)

    def _forget_closed(self, views: Any, pool: Any) -> None:
        """Leave only the views that are open, and their stretches of the pool."""
        _start, k, _count, begin, _threshold = self.views = tuple(column[views[1] > 0] for column in views)
        moved = np.cumsum(k) - k
        _, place = progressions(begin, 1, k)
        self.pool = pool[0][place], pool[1][place]
        begin[:] = moved

    def lists(self) -> dict[int, list[int]]:
        """Return the slots of each view, best first, by the view's start."""
        start, _k, count, begin, _threshold = self.views
        stretches = zip(start.tolist(), begin.tolist(), count.tolist(), strict=True)
        return {s: self.pool[0][b : b + n].tolist() for s, b, n in stretches}

    def kept(self) -> SlotArray:
        """Return the slots of all events that a view refers to."""
        return np.flatnonzero(self.refs).astype(np.int32)

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        kept = self.kept()
        refs = np.zeros(int(moved.max(initial=-1)) + 1, np.int32)
        refs[moved[kept]] = self.refs[kept]
        self.refs = refs
        held = self._held()
        self.pool[0][held] = moved[self.pool[0][held]]

    def _held(self) -> IntArray:
        """Return the places of the pool that are in use."""
        _start, _k, count, begin, _threshold = self.views
        return progressions(begin, 1, count)[1]

    def bound(self) -> int:
        """Return the sum of what the views can hold."""
        return int(self.views[1].sum())

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        assert np.array_equal(self.refs, np.bincount(self.pool[0][self._held()], minlength=len(self.refs)))
        kept = self.kept()
        kept = kept[self.store.best_first(kept)]
        for (start, held), k in zip(self.lists().items(), self.views[1], strict=True):
            inside = kept[self.store.position[kept] >= start][:k]
            columns = (self.store.merit, self.store.time, self.store.key)
            assert all(np.array_equal(column[inside], column[held]) for column in columns), "a view holds others"
