"""Many queries with scoring functions of their own over windows that slide with every event: the fast way, by blocks.

Events are shared by all queries for as long as they are recent: the last block and the one before lie in k-d trees, and
a query looks only at those that its threshold lets through. When a block is full, those of the block before it that
fewer than k of the last block dominate are written into the rows of queries; these are few. So a query keeps about
k (1 + ln(n / b)) events for a block of b events, and has work to do for about as many in each block, not in each event.

Everything is exact, and reported event by event, as by the published algorithms in `skyband.algorithms.topkw.bands`:
this is a relaxed skyband with the recent buffer as a filter, turned from one event and all queries to one query and all
events.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.algorithms.topkw.band_kernels import NOBODY, REPORT, BandRows
from skyband.algorithms.topkw.bands import Bands, Events, TopKReports
from skyband.algorithms.topkw.block_kernels import ROOM, fold, pass_block
from skyband.algorithms.topkw.event_kernels import KernelEvents
from skyband.algorithms.topkw.tree_kernels import LEAF, grow_tree
from skyband.order import FloatArray, IntArray

PARTS = 4  # a block is one part in so many of the shortest window
LEAST, MOST = 64, 1 << 16  # events in a block
REPORTS = 1 << 16  # that a kernel makes before they are fetched
THREADS = min(os.cpu_count() or 1, 8)
WORTH = 1_000_000  # from so many pairs of a query and an event on, threads pay


class Segment(NamedTuple):
    """Neighbouring rows of recent events: those in a tree, then those that have no place in one; boxes of the nodes."""

    begin: int
    middle: int
    end: int
    low: FloatArray
    high: FloatArray


class Done(NamedTuple):
    """How far a query has come in a block: how many of its events it has seen, and up to where time has passed."""

    events: int
    passed: int


class BlockBands(Bands):
    """Rows of relaxed k-skybands, behind two blocks of recent events that all queries share.

    The kinds of the method are not used, and the grid is not either: events are indexed, not queries.
    """

    def __post_init__(self) -> None:
        self.grid = None
        super().__post_init__()
        self.segments: list[Segment] = []
        self.before = 0  # how many segments the block before the last has: one or none
        self.began = -NOBODY  # where on the axis the last block began
        self.walk = self.used  # queries, neighbours one after the other: they visit the same parts of the trees

    def _replan(self) -> None:
        super()._replan()
        self.share = max(int(self.size[self.used].min(initial=NOBODY)) // PARTS, 1)
        about = np.hstack([self.point, self.weight])[self.used]
        self.walk = self.used[_by_tree(about)[0]] if about.size else self.used

    # Events.

    def _take(self, new: Events, moments: IntArray, time: IntArray, key: IntArray) -> TopKReports:
        n = len(new.slot)
        if not len(self.used):
            self.numbers, self.passed = self.numbers + n, int(moments[-1])
            return self._reports(np.empty(0, REPORT), np.empty(0, np.int64))
        found, begin, end = [], 0, -1
        while end < n:
            end = self._fitting(moments[:n], begin)
            if begin == end < n:
                self._close(time, key)
                continue
            until = moments[-1] if end == n else moments[end - 1]
            piece = slice(begin, end)
            found.append(self._pass(new.at(piece), np.append(moments[piece], until), time, key).after(begin))
            begin = end
        return TopKReports.joined(found)

    def _fitting(self, moments: IntArray, begin: int) -> int:
        """Return up to which event the last block has room."""
        held = len(self.held.slot) - (self.segments[self.before - 1].end if self.before else 0)
        if held == 0 and begin < len(moments):
            self.began = int(moments[begin])
        end = int(np.searchsorted(moments, self.began + self.share))
        return min(max(end, begin + max(LEAST - held, 0)), begin + MOST - held, len(moments))

    def _pass(self, new: Events, moments: IntArray, time: IntArray, key: IntArray) -> TopKReports:
        """Take in events that the last block has room for; time passes to the last of the moments."""
        now, first = self.passed, self.numbers
        kept, self.held = self._behind_held(new)
        self._plant(kept)
        found: list[npt.NDArray[Any]] = []
        room = REPORTS + 2 * int(self.k[self.used].max(initial=0))

        def run(turn: int, until: int, done: Done) -> tuple[int, int, Done]:
            reports = np.empty(room, REPORT)
            reports[0]["row"] = 0  # the first one counts the others
            why, turn, events, passed = pass_block(
                KernelEvents(*new, time, key), moments, self.timed, now, first, *self._tables(time, key), turn, until,
                *done, self.changes, reports,
            )  # fmt: skip
            found.append(reports[1 : reports[0]["row"] + 1])
            return why, turn, Done(events, passed)

        self._side_by_side(run, len(new.slot))
        self.passed = int(moments[-1])
        self._join_small()
        reports = np.concatenate(found)  # made query by query; now in the order of events, and of rows at the same
        reports = reports[np.lexsort((reports["row"], reports["at"], reports["moment"]))]
        return self._reports(reports, reports["slot"])

    def _side_by_side(self, run: Callable[[int, int, Done], tuple[int, int, Done]], events: int) -> None:
        """Run a kernel for all queries, in several threads where that pays; give rows more room where it asks."""
        queries = len(self.used)
        threads = THREADS if queries * events >= WORTH else 1
        edges = np.linspace(0, queries, threads + 1).astype(int).tolist()
        todo = [(turn, until, Done(0, self.passed)) for turn, until in pairwise(edges)]
        with ThreadPoolExecutor(threads) as pool:
            while todo:
                done = list(pool.map(run, *zip(*todo, strict=True)) if threads > 1 else (run(*one) for one in todo))
                todo = [(turn, part[1], far) for part, (_, turn, far) in zip(todo, done, strict=True) if turn < part[1]]
                if any(why == ROOM for why, _, _ in done):
                    self._widen()

    def _tables(self, time: IntArray, key: IntArray) -> tuple[Any, ...]:
        """Return what kernels ask for: functions, queries, rows, recent events and their trees."""
        low, high = (np.concatenate([getattr(s, name) for s in self.segments]) for name in ("low", "high"))
        node = np.cumsum([0, *(len(s.low) for s in self.segments)])[:-1]
        places = np.array([(*s[:3], at) for s, at in zip(self.segments, node, strict=True)], np.int64)
        queries = self.queries()._replace(used=self.walk)
        return self.functions(), queries, self.band, KernelEvents(*self.held, time, key), (low, high, places)

    def _widen(self) -> None:
        """Give every row twice the room."""
        wide = (np.concatenate([column, np.empty_like(column)], axis=1) for column in self.band[:4])
        self.band = BandRows._make([*wide, *self.band[4:]])

    # Blocks.

    def _plant(self, begin: int) -> None:
        """Make a segment of the last recent events, from a row on."""
        x = self.held.x[begin:]
        whole = np.isfinite(x[:, : self.dimensions]).all(axis=1) if self.dimensions else np.zeros(len(x), bool)
        middle = int(np.count_nonzero(whole))
        order = np.concatenate([np.flatnonzero(whole), np.flatnonzero(~whole)])
        low = high = np.empty((0, self.dimensions))
        if middle:
            in_tree, low, high = _by_tree(x[order[:middle], : self.dimensions])
            order[:middle] = order[:middle][in_tree]
        for column in self.held:
            column[begin:] = column[begin:][order]
        self.segments.append(Segment(begin, begin + middle, begin + len(x), low, high))

    def _join_small(self, least: float = 0.5) -> None:
        """Make one segment of the last two while the last is not much smaller: so there are few."""
        while len(self.segments) > self.before + 1:
            one, other = self.segments[-2:]
            if other.end - other.begin < least * (one.end - one.begin):
                return
            del self.segments[-2:]
            self._plant(one.begin)

    def _close(self, time: IntArray, key: IntArray) -> None:
        """Begin a new block: what may still matter of the block before the last goes into the rows of queries."""
        self._join_small(least=0.0)

        def run(turn: int, until: int, done: Done) -> tuple[int, int, Done]:
            return *fold(*self._tables(time, key), self.before, self.passed, turn, until), done

        self._side_by_side(run, len(self.held.slot))
        gone = self.segments[0].end if self.before else 0
        self.held = self.held.at(slice(gone, None))
        self.segments = [
            s._replace(begin=s.begin - gone, middle=s.middle - gone, end=s.end - gone)
            for s in self.segments[self.before :]
        ]
        self.before = len(self.segments)

    # What is kept.

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything but the queries as flat arrays, detached from the live ones."""
        behind = self.segments[0].end if self.before else 0
        events = self.held.at(np.argsort(self.held.number))  # as they came: trees are grown again
        return {**super().state(), **events.state("held"), "blocks": np.array([behind, self.began], np.int64)}

    def load(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Take over what `state` returned, for the same queries, added in the order of their rows."""
        super().load(state)
        behind, self.began = state["blocks"].tolist()
        events, self.segments, self.before = Events.joined([self.held]), [], int(behind > 0)
        for begin, end in ((0, behind), (behind, len(events.slot))):
            if begin < end:
                self.held = events.at(slice(0, end))
                self._plant(begin)


def _by_tree(points: npt.NDArray[Any]) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the order of points in a k-d tree, and the boxes of its nodes."""
    boxes = 4 * (len(points) // LEAF + 1), points.shape[1]
    low, high = np.empty(boxes), np.empty(boxes)
    return grow_tree(np.ascontiguousarray(points), low, high), low, high
