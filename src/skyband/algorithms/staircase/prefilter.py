"""The prefilter: one pass over a batch that drops what cannot be among the best K of its pane.

Each pane has a *threshold*, its K-th best event so far; the scan kernel raises thresholds as it goes. Large batches are
split among threads, each with thresholds of its own: the union of their candidates is a superset of what one thread
would find. Without partitions the best of a pane gather in a buffer that is cut back now and then; with partitions,
of which there may be many, each pane of each has a heap of K events (`heap_kernels`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from math import isqrt

import numpy as np
import numpy.typing as npt

from skyband.algorithms.base import BatchCounts, Columns, sift
from skyband.algorithms.panes import Panes
from skyband.algorithms.staircase import heap_kernels
from skyband.algorithms.staircase import scan_kernels as kernel
from skyband.algorithms.staircase.carry_kernels import carry_thresholds
from skyband.algorithms.staircase.scan_kernels import keep_latest
from skyband.compiled import PARALLEL_ROWS, THREADS, in_threads, split
from skyband.order import BoolArray, FloatArray, IntArray, fingerprints
from skyband.windows import ALWAYS, NEVER

PARTITIONED_ROWS = 1 << 18  # where ids count once, or there are too many panes and partitions to look at all at once
FEW_ROWS = 1 << 10
LATEST_ROWS = 1 << 17  # so that the hash table stays in the cache
POOL_BYTES = 1 << 26
TIED_ROWS = 1 << 14  # so many rows that tie with the worst of their heaps are set aside
MOST_THRESHOLDS = 1 << 22
_NOTHING, _NO_FLAGS = np.empty(0, np.int64), np.empty(0, bool)

Kth = tuple[IntArray, IntArray, FloatArray, IntArray]
"""Pane numbers, partitions, merits and times of the K-th best events of the panes that have so many."""
KthOf = Callable[[int, int], Kth]
"""Returns those of the panes from one number on and before another."""
Begins = Callable[[int, int], BoolArray]
"""Tells which panes, between two places, begin without the threshold of the one before; empty: all of them."""
Thresholds = tuple[FloatArray, IntArray, IntArray]
Pool = tuple[FloatArray, IntArray, IntArray, IntArray, IntArray]
Heaps = tuple[FloatArray, npt.NDArray[np.int32], IntArray, IntArray]


def _all(low: int, high: int) -> BoolArray:  # noqa: ARG001 - as `Begins`
    return _NO_FLAGS


def candidates(
    columns: Columns, counts: BatchCounts, panes: Panes, k: int, kth: KthOf, begins: Begins = _all
) -> Iterator[IntArray]:
    """Yield the rows that may be among the best `k` of their panes (of each partition), in pieces.

    Panes are added as far as the batch reaches, and its rejected and late rows are counted. `kth` returns the K-th best
    events known so far of some panes; it is asked again after each piece.
    """
    n = len(columns.merit)
    if n == 0:
        return
    look, at_once = _look(columns), n
    if columns.partitions > 1 and n > PARTITIONED_ROWS:
        panes.cover(*look)
        low, high = _span(columns, panes, look)
        if columns.ident is not None or (high - low) * columns.partitions > MOST_THRESHOLDS:
            at_once = PARTITIONED_ROWS
    for start in range(0, n, at_once):
        rows = columns[start : start + at_once]
        yield from _filter(rows, look if at_once == n else _look(rows), counts, panes, k, (kth, begins), start)


def is_sparse(columns: Columns, panes: Panes, k: int, carries: bool = False) -> bool:
    """Tell whether panes have so few events of a batch that hardly any can be dropped; covers the batch.

    Where thresholds are carried on, what counts is where windows start.
    """
    if len(columns.merit) == 0 or columns.partitions > 1:  # of partitions, a few may have most of the events
        return False
    low, high = _look(columns)
    panes.cover(low, high)
    first, last = panes.number(np.array([low, high])) - panes.base
    count = 1 + (int(panes.starts[first + 1 : last + 1].sum()) if carries else int(last - first))
    return len(columns.merit) < count * k


def pass_all(columns: Columns, counts: BatchCounts, panes: Panes, offset: int = 0) -> Iterator[IntArray]:
    """Yield all rows that are events and not late, where no threshold can help; rows are counted from `offset`."""
    rows = sift(columns, counts, offset)
    if len(rows):
        panes.cover(int(columns.position[rows].min()), int(columns.position[rows].max()))
        yield rows + offset


def few(columns: Columns, counts: BatchCounts, panes: Panes, bars: tuple[FloatArray, IntArray]) -> Iterator[IntArray]:
    """Yield the rows of a small batch that may matter; `bars` are merit and time of each pane's K-th best."""
    seen, late = np.empty(8, np.int64), np.empty(len(columns.merit), np.int64)
    rows = kernel.look(
        (columns.merit, columns.time, columns.position), panes.cuts, bars, counts.late_before, counts.partly_before,
        seen, late,
    )  # fmt: skip
    rejected, missed, partly, first, last, *_, newest = seen.tolist()
    counts.rejected += rejected
    counts.partly_late += partly
    counts.newest, counts.first = max(counts.newest, newest), min(counts.first, first)
    counts.last = max(counts.last, last)
    if missed:
        counts.late_rows.append(late[:missed])
    if len(rows):
        panes.cover(first, last)
        yield rows


def latest(columns: Columns, counts: BatchCounts, panes: Panes) -> Iterator[IntArray]:
    """Yield the rows that are the latest of their id in their pane: what no threshold can decide."""
    for start in range(0, len(columns.merit), LATEST_ROWS):
        part = columns[start : start + LATEST_ROWS]
        for rows in pass_all(part, counts, panes, start):
            taken = rows - start
            pane = panes.number(part.position[taken])
            groups = np.zeros(len(rows), np.int64) if part.part is None else part.part[taken]
            assert part.ident is not None
            order = (part.position[taken], part.merit[taken], part.time[taken])
            yield rows[keep_latest(part.ident[taken], pane, groups, *order)]


def with_ties(pieces: Iterator[IntArray], columns: Columns, counts: BatchCounts, panes: Panes) -> Iterator[IntArray]:
    """Yield, with the rows of each piece, those that tie with them: where ids count once, one of them was taken.

    A few others may come along.
    """
    if columns.ident is None:
        yield from pieces
        return
    parts = () if columns.part is None else (columns.part,)
    marks, taken = fingerprints(columns.merit, columns.time, columns.ident, *parts), np.zeros(len(columns.merit), bool)
    for rows in pieces:
        known = np.sort(marks[rows])
        near = np.zeros(1 << 16, bool)
        near[known & np.uint64(0xFFFF)] = True
        found = np.flatnonzero(near[marks & np.uint64(0xFFFF)])  # all, and few others: quicker than a search for each
        found = found[known[np.minimum(np.searchsorted(known, marks[found]), len(known) - 1)] == marks[found]]
        position = columns.position[found]
        inside = (position >= panes.cuts[0]) & (position < panes.cuts[-1]) & (position >= counts.late_before)
        found = found[inside & ~taken[found] & ~np.isnan(columns.merit[found])]
        taken[found] = True
        if len(found):
            yield found


def _filter(
    columns: Columns,
    look: tuple[int, int],
    counts: BatchCounts,
    panes: Panes,
    k: int,
    known: tuple[KthOf, Begins],
    offset: int,
) -> Iterator[IntArray]:
    n = len(columns.merit)
    panes.cover(*look)
    shared = columns.partitions == 1 or columns.ident is None
    edges = split(n, THREADS if n >= PARALLEL_ROWS and shared else 1)
    parts = [_Part(columns, a, b, counts) for a, b in itertools.pairwise(edges)]
    while todo := [part for part in parts if part.row < part.stop]:
        low, high = _span(columns, panes, look)
        if (high - low) * columns.partitions > MOST_THRESHOLDS:
            for part in todo:
                yield from pass_all(columns[part.row : part.stop], counts, panes, part.row + offset)
            break
        lying = panes.cuts[low : high + 1], known[1](low, high)
        kth = known[0](low + panes.base, high + panes.base)
        jobs = [(part, lying, _thresholds(panes, low, high, columns.partitions, kth, lying[1]), k) for part in todo]
        in_threads(_Part.scan, jobs)
        for part in todo:
            rows, part.rows = np.concatenate(part.rows), []
            if len(rows):
                yield rows + offset
        if any(part.row < part.stop for part in todo):
            low, high = kernel.bounds(columns.position)
            look = int(low), int(high)
            panes.cover(*look)
    for part in parts:
        part.count(counts, offset)


def _look(columns: Columns) -> tuple[int, int]:
    """Return about where a batch begins and ends.

    Batches mostly end near their latest event: a look at three rows saves a pass. The scan finds exceptions.
    """
    look = columns.position[[0, len(columns.position) // 2, -1]]
    return int(look.min()), int(look.max())


def _span(columns: Columns, panes: Panes, look: tuple[int, int]) -> tuple[int, int]:
    """Return the places of the cuts around the batch; of all cuts when there is one partition."""
    if columns.partitions == 1:
        return 0, len(panes)
    low, high = np.searchsorted(panes.cuts, look, side="right")
    return int(low) - 1, int(high)


def _thresholds(panes: Panes, low: int, high: int, partitions: int, kth: Kth, begins: BoolArray) -> Thresholds:
    """Lay out the thresholds of the panes from `low` to `high`, pane by pane and partition by partition."""
    size = (high - low) * partitions
    threshold, threshold_time = np.full(size, -np.inf), np.full(size, -(2**63), np.int64)
    pane = kth[0] - panes.base - low
    inside = (pane >= 0) & (pane < high - low)
    slot = pane[inside] * partitions + kth[1][inside]
    threshold[slot], threshold_time[slot] = kth[2][inside], kth[3][inside]
    carry_thresholds(threshold, threshold_time, begins)
    return threshold, threshold_time, np.full(size, -1, np.int64)


def _pool(panes: int, k: int) -> Pool:
    """Make buffers of a few K events for as many panes as fit."""
    room = max(4 * k, 64) if k <= 65_536 else 2 * k
    count = max(1, min(panes, POOL_BYTES // (24 * room)))
    columns = np.empty((count, room)), np.empty((count, room), np.int64), np.empty((count, room), np.int64)
    return *columns, np.zeros(count, np.int64), np.zeros(count, np.int64)


def _heaps(slot_panes: int, rows: int, k: int) -> Heaps:
    """Make heaps of K events for as many slot panes as fit."""
    count = max(1, min(slot_panes, rows, POOL_BYTES // (12 * k)))
    return np.empty((count, k)), np.empty((count, k), np.int32), np.zeros(count, np.int64), np.zeros(count, np.int64)


class _Part:
    """A run of rows that one thread passes over."""

    def __init__(self, columns: Columns, start: int, stop: int, counts: BatchCounts) -> None:
        self.columns, self.row, self.start, self.stop = columns, start, start, stop
        self.limits = np.array([counts.late_before, counts.partly_before], np.int64)
        self.late = np.empty(stop - start if counts.late_before > NEVER else 0, np.int64)
        self.seen = np.array([0, 0, 0, ALWAYS, NEVER, 0, 0], np.int64)
        self.rows: list[IntArray] = []

    def scan(self, lying: tuple[IntArray, BoolArray], thresholds: Thresholds, k: int) -> None:
        """Go on until the end, or until a position lies outside the cuts."""
        if self.columns.partitions > 1 and self.columns.ident is None:
            self._fill_heaps(lying[0], thresholds, k)
            return
        # A guess that aims at four deviations more than K events is rarely too high, and lets few too many in.
        simple = self.columns.partitions == 1 and self.columns.ident is None
        target = k + 4 * isqrt(k) + 8 if simple else 0
        known = thresholds[0].copy()
        begun = np.full(len(thresholds[0]), kernel.NO_GUESS)
        self._process(lying, thresholds, k, begun, target)
        failed = begun <= kernel.FAILED
        if failed.any():  # their guess was too high: scan their rows again, with thresholds that no other pane reaches
            start = int((kernel.FAILED - begun[failed]).min())
            again = _Part(self.columns, start, self.row, BatchCounts(*self.limits.tolist()))
            threshold, threshold_time = np.where(failed, known, np.inf), np.where(failed, thresholds[1], 2**63 - 1)
            none = np.full(len(failed), -1, np.int64)
            again._process(lying, (threshold, threshold_time, none), k, np.full_like(none, kernel.NO_GUESS), 0)
            self.rows += again.rows

    def _process(
        self, lying: tuple[IntArray, BoolArray], thresholds: Thresholds, k: int, begun: IntArray, target: int
    ) -> None:
        c = self.columns
        part, ident = (_NOTHING if column is None else column for column in (c.part, c.ident))
        arrays, pool = (c.merit, c.time, c.position, part, ident), _pool(len(thresholds[0]), k)
        guesses = (np.array([-np.inf]), np.array([-1, target], np.int64), begun)
        status = kernel.FULL
        while status == kernel.FULL:
            status, self.row = kernel.scan(
                arrays, self.row, self.stop, (*lying, c.partitions), thresholds, pool, guesses, self.limits, k,
                self.seen, self.late,
            )  # fmt: skip
            self.rows.append(kernel.drain(pool, thresholds, begun, ident, self.seen[kernel.IN_USE], k))
            self.seen[kernel.IN_USE] = 0
            guesses[1][0] = -1

    def _fill_heaps(self, cuts: IntArray, bars: Thresholds, k: int) -> None:
        c = self.columns
        arrays, heaps = (c.merit, c.time, c.position, c.part), _heaps(len(bars[0]), self.stop - self.row, k)
        tied = np.empty(TIED_ROWS, np.int64), np.empty(TIED_ROWS, np.int64)
        status = kernel.FULL
        while status == kernel.FULL:
            status, self.row = heap_kernels.scan(
                arrays, self.row, self.stop, (cuts, c.partitions), bars, heaps, tied, self.limits, k, self.seen,
                self.late,
            )  # fmt: skip
            self.rows.append(heap_kernels.drain(c.merit, c.time, bars, heaps, tied, self.seen))

    def count(self, counts: BatchCounts, offset: int) -> None:
        """Add what this part counted."""
        rejected, late, partly, first, last, _, _ = self.seen.tolist()
        counts.rejected += rejected
        counts.partly_late += partly
        counts.newest = max(counts.newest, last)
        if late:
            counts.late_rows.append(self.late[:late] + offset)
        if rejected or late:  # neither are events of the group: leave their positions out
            rows = slice(self.start, self.stop)
            position, merit = self.columns.position[rows], self.columns.merit[rows]
            events = position[~np.isnan(merit) & (position >= self.limits[0])]
            first, last = events.min(initial=ALWAYS), events.max(initial=NEVER)
        counts.first, counts.last = min(counts.first, int(first)), max(counts.last, int(last))
