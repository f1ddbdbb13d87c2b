"""One staircase skyband answers every query: the default.

Choose it always, unless you study one of its siblings.

Guarantees: exact. Of a sealed pane p an event is kept only while fewer than K(p) better ones lie in panes >= p,
K(p) being the largest k of the queries that still have an unanswered window over p; of an open pane the best K.
That is about ``k ln(n/k) + k`` events for n in the window in random order, at most ``K`` per live pane (and
partition) for any order. An arriving event costs one comparison with its pane's bar; a sealed pane costs one
linear merge; an answer one walk over the kept events. ``distinct="best"`` costs a factor ``log(panes)`` in the
merge. ``distinct="latest"`` must keep the latest event of *every* id of the longest window, however bad: a
better id may fall at any time and make room. It costs one sort per batch and O(ids) per sealed pane.

Invariant: each open pane holds its best K events, or all of them; the sealed panes hold every event that a
coming window can answer with.

Examples
--------
Window 4, slide 2, k = 1: panes are two wide, and once the pane [2, 4) is sealed its 4.0 beats all before it
but the 5.0, which stays until the window [0, 4) is answered.

>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window(4, slide=2))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id")]
[[0], [0], [2], [4]]

Notes
-----
The union of MTopS's adaptive slide (the panes) with STKQF's skyline of queries (K(p)): Shastri et al., chapter 4, and
the k-skyband of topkw section 3. Ours: the bar per pane in front of it all, the staircase over any number of
queries, late events, ids that count once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np

from skyband.algorithms.base import Algorithm, Columns, Picks, Tally, one_per_id, sift, starts_after
from skyband.arena import Arena
from skyband.kernels import scan as scanning
from skyband.kernels import seal as sealing
from skyband.kernels.seal import ALL, ANY_K, BEST, LATEST, UNTOUCHED
from skyband.order import BoolArray, FloatArray, IntArray, SlotArray, best_first, rank_in_runs
from skyband.query import Distinct
from skyband.windows import ALWAYS, NEVER, Cuts, Due, Schedule

MODES = {None: ALL, "best": BEST, "latest": LATEST}
POOL_BYTES = 1 << 26
PARALLEL_ROWS = 1 << 18
THREADS = min(os.cpu_count() or 1, 4)
MOST_BARS = 1 << 22
PARTITIONED_ROWS = 1 << 18
MOST_PICKS = 1 << 23
_NO_ROWS = np.empty(0, np.int64)
_NO_SLOTS = np.empty(0, np.int32)


@lru_cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="skyband")


class _Part:
    """A run of rows that one thread passes over."""

    def __init__(self, columns: Columns, start: int, stop: int, tally: Tally) -> None:
        self.columns, self.row, self.start, self.stop = columns, start, start, stop
        self.limits = np.array([tally.late_before, tally.partly_before], np.int64)
        self.late = np.empty(stop - start if tally.late_before > NEVER else 0, np.int64)
        self.seen = np.array([0, 0, 0, ALWAYS, NEVER, 0, start], np.int64)
        self.status = scanning.DONE
        self.rows: list[IntArray] = []

    def scan(self, cuts: IntArray, bars: Any, pool: Any, k: int) -> None:
        """Go on until the end, or until a position lies outside the cuts."""
        c = self.columns
        ident = _NO_ROWS if c.ident is None else c.ident
        arrays = (c.merit, c.time, c.position, _NO_ROWS if c.part is None else c.part, ident)
        self.status = scanning.FULL
        while self.status == scanning.FULL:
            self.status, self.row = scanning.scan(
                arrays, self.row, self.stop, (cuts, c.partitions), bars, pool, self.limits, k, self.seen, self.late
            )
            self.rows.append(scanning.drain(pool, bars, ident, self.seen[scanning.IN_USE], k))
            self.seen[scanning.IN_USE] = 0

    def take(self) -> Iterator[IntArray]:
        """Hand over the rows found so far."""
        rows, self.rows = self.rows, []
        if any(len(part) for part in rows):
            yield np.concatenate(rows)

    def count(self, tally: Tally, offset: int) -> None:
        """Add what was counted to a tally."""
        rejected, late, partly, first, last, *_ = self.seen.tolist()
        tally.rejected += rejected
        tally.partly_late += partly
        tally.newest = max(tally.newest, last)
        if late:
            tally.late_rows.append(self.late[:late] + offset)
        if rejected:  # rows without a merit are no events: leave their positions out
            rows = slice(self.start, self.stop)
            events = self.columns.position[rows][~np.isnan(self.columns.merit[rows])]
            first, last = events.min(initial=ALWAYS), events.max(initial=NEVER)
        tally.first, tally.last = min(tally.first, int(first)), max(tally.last, int(last))


class Staircase(Algorithm):
    """Panes, bars and one skyband whose depth falls in steps as panes age."""

    name = "staircase"
    summary = "one staircase skyband for all queries; the default"

    def __init__(self, arena: Arena, distinct: Distinct | None) -> None:
        super().__init__(arena, distinct)
        self.mode = MODES[distinct]
        self.k = 0
        self.cuts = Cuts(())
        self.depth = _NO_ROWS  # per pane: the least K that anything of it was dropped by
        self.torn = np.empty(0, bool)  # per cut: whether it goes through a pane that had lost events before
        self.sealed = 0  # the first pane that is still open
        self.forgot = False
        self.band = (_NO_SLOTS, _NO_ROWS, _NO_ROWS)  # sealed: slot, pane, beaten; partition by partition, best first
        self.open = _NO_SLOTS  # open: pane by pane, in each partition by partition, best first
        self.open_pane = _NO_ROWS

    def plan(self, schedules: Sequence[Schedule]) -> None:
        """Serve these queries from now on; open panes are cut where their windows start and end."""
        super().plan(schedules)
        before, self.k = self.k, max(s.k for s in schedules)
        at = self.sealed - self.cuts.base
        open_from = int(self.cuts.at[at]) if at < len(self.cuts.at) else NEVER
        new = self.cuts.refine(schedules, open_from)
        if len(new):
            places = np.searchsorted(self.cuts.at, new)
            old = np.ones(len(self.cuts.at), bool)
            old[places] = False
            self.depth = self.depth[np.cumsum(old) - 1]  # both halves of a pane have lost what it lost
            self.torn = self.torn[np.cumsum(old) - 1] & old
            self.torn[places] = self.depth[places] != UNTOUCHED
            self.open_pane = self.cuts.panes(self.arena.position[self.open])
        if len(new) or self.k < before:
            self._sort_open(self.open, self.open_pane)
        if self.k < before:
            self._insert_late(_NO_SLOTS, _NO_ROWS)  # drops what only a removed query asked for

    def exact_from(self, schedule: Schedule, frontier: int) -> int:
        """Walk back from the newest window while nothing it needs has been dropped."""
        cuts, depth = self.cuts.at, self.depth
        if frontier == NEVER or len(cuts) == 0:
            return NEVER
        start = schedule.last_end_of(frontier) - schedule.size
        while self._whole(start, frontier) and self._whole(start + schedule.size, frontier):
            pane = max(int(np.searchsorted(cuts, start, side="right")) - 1, 0)
            if depth[pane:].min() < schedule.k or (start < cuts[0] and self.forgot):
                break
            if start + schedule.size <= cuts[0]:
                return NEVER
            start -= schedule.slide
        return start + schedule.slide

    def _whole(self, cut: int, frontier: int) -> bool:
        """Tell whether a window may start or end here: no pane that lost an event is cut through."""
        cuts = self.cuts.at
        if cut > frontier or cut < cuts[0]:
            return True
        place = int(np.searchsorted(cuts, cut, side="right")) - 1
        return bool(not self.torn[place] if cuts[place] == cut else self.depth[place] == UNTOUCHED)

    def survivors(self, columns: Columns, tally: Tally) -> Iterator[IntArray]:
        """Drop, in one pass, what cannot be among the best K of its pane."""
        counted_panes_are_small = self.arena.counts and min((s.slide for s in self.schedules), default=1) <= self.k
        if self.mode == LATEST or counted_panes_are_small:
            yield from self._all(columns, tally)
        elif columns.partitions == 1:
            yield from self._scan(columns, tally, 0)
        else:
            for start in range(0, len(columns.merit), PARTITIONED_ROWS):
                part = columns[start : start + PARTITIONED_ROWS]
                for rows in self._scan(part, tally, start):
                    yield rows + start

    def _all(self, columns: Columns, tally: Tally) -> Iterator[IntArray]:
        rows = sift(columns, tally)
        if len(rows):
            self._cover(int(columns.position[rows].min()), int(columns.position[rows].max()))
            yield rows

    def _scan(self, columns: Columns, tally: Tally, offset: int) -> Iterator[IntArray]:
        n = len(columns.merit)
        if n == 0:
            return
        guess = columns.position[[0, n // 2, n - 1]] if columns.partitions == 1 else columns.position
        self._cover(int(guess.min()), int(guess.max()))
        threads = THREADS if n >= PARALLEL_ROWS else 1
        edges = np.linspace(0, n, threads + 1).astype(np.int64)
        parts = [_Part(columns, a, b, tally) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
        while todo := [part for part in parts if part.row < part.stop]:
            low, high = self._span(columns)
            if (high - low) * columns.partitions > MOST_BARS:
                assert threads == 1
                yield from self._all(columns[todo[0].row :], tally)
                break
            bars = self._bars(low, high, columns.partitions)
            jobs = [
                (part, self.cuts.at[low : high + 1], tuple(b.copy() for b in bars), self._pool(len(bars[0])), self.k)
                for part in todo
            ]
            if len(jobs) == 1:
                _Part.scan(*jobs[0])
            else:
                list(_workers().map(lambda job: _Part.scan(*job), jobs))
            for part in todo:
                yield from part.take()
            for part in todo:
                if part.status == scanning.OUTSIDE:
                    block = columns.position[part.row : part.row + scanning.BLOCK]
                    self._cover(int(block.min()), int(block.max()))
        for part in parts:
            part.count(tally, offset)

    def _span(self, columns: Columns) -> tuple[int, int]:
        """Return the places of the cuts around the batch; all of them when there is one partition."""
        if columns.partitions == 1:
            return 0, len(self.cuts.at) - 1
        low, high = np.searchsorted(self.cuts.at, [columns.position.min(), columns.position.max()], side="right")
        return int(low) - 1, int(high)

    def _bars(self, low: int, high: int, partitions: int) -> tuple[FloatArray, IntArray, IntArray]:
        """Return for each pane and partition the merit and time of its K-th best, where it has one."""
        size = (high - low) * partitions
        bar, bar_time = np.full(size, -np.inf), np.full(size, -(2**63), np.int64)
        kth = self.open[self._open_ranks() == self.k - 1]
        pane = self.cuts.panes(self.arena.position[kth]) - self.cuts.base - low
        inside = (pane >= 0) & (pane < high - low)
        kth, pane = kth[inside], pane[inside]
        slot = pane * partitions + (self.arena.part[kth] if partitions > 1 else 0)
        bar[slot], bar_time[slot] = self.arena.merit[kth], self.arena.time[kth]
        return bar, bar_time, np.full(size, -1, np.int64)

    def _pool(self, slots: int) -> tuple[FloatArray, IntArray, IntArray, IntArray, IntArray]:
        room = max(4 * self.k, 64) if self.k <= 65_536 else 2 * self.k
        buffers = max(1, min(slots, POOL_BYTES // (24 * room)))
        return (
            np.empty((buffers, room)),
            np.empty((buffers, room), np.int64),
            np.empty((buffers, room), np.int64),
            np.zeros(buffers, np.int64),
            np.zeros(buffers, np.int64),
        )

    def insert(self, slots: SlotArray) -> None:
        """Take new events into their open panes, or into the sealed band where their pane is sealed."""
        pane = self.cuts.panes(self.arena.position[slots])
        late = pane < self.sealed
        if late.any():
            self._insert_late(slots[late], pane[late])
            slots, pane = slots[~late], pane[~late]
        if len(slots) == 0:
            return
        tail = int(np.searchsorted(self.open_pane, pane.min()))
        together = np.concatenate([self.open[tail:], slots])
        panes = np.concatenate([self.open_pane[tail:], pane])
        self._sort_open(together, panes, tail)

    def _sort_open(self, slots: SlotArray, pane: IntArray, tail: int = 0) -> None:
        """Sort the open events from place `tail` on, and leave each pane only its best K."""
        order = np.argsort(pane, kind="stable")
        slots, pane = slots[order], pane[order]
        if self.mode != ALL:
            slots, pane = self._one_per_id(slots, pane)
        ends = np.append(np.flatnonzero(pane[1:] != pane[:-1]) + 1, len(pane))
        sealing.sort_runs(slots, ends, self._events())
        if self.mode != LATEST:
            rank = rank_in_runs(pane, self.arena.part[slots])
            # A pane with K events may have lost others, here or before, in the scan.
            self._lower(pane[rank == self.k - 1], self.k)
            slots, pane = slots[rank < self.k], pane[rank < self.k]
        if self.mode == BEST:
            self._lower(pane, ANY_K)
        self.open = np.concatenate([self.open[:tail], slots])
        self.open_pane = np.concatenate([self.open_pane[:tail], pane])

    def _one_per_id(self, slots: SlotArray, pane: IntArray) -> tuple[SlotArray, IntArray]:
        arena = self.arena
        major = (pane, arena.part[slots], arena.key[slots])
        if self.mode == LATEST:
            major = (*major, np.negative(arena.position[slots]))
        order = best_first(arena.merit[slots], arena.time[slots], arena.key[slots], *major)
        first = rank_in_runs(*(column[order] for column in major[:3])) == 0
        self._lower(pane[order[~first]], ANY_K)
        kept = np.sort(order[first])
        return slots[kept], pane[kept]

    def _lower(self, panes: IntArray, depth: int) -> None:
        np.minimum.at(self.depth, panes - self.cuts.base, depth)

    def _insert_late(self, slots: SlotArray, pane: IntArray) -> None:
        """Let events into sealed panes: count anew who beats whom."""
        arena = self.arena
        slots, pane = np.concatenate([self.band[0], slots]), np.concatenate([self.band[1], pane])
        if self.mode == LATEST:
            chosen = np.isin(slots, one_per_id(arena, slots, "latest"))
            slots, pane = slots[chosen], pane[chosen]
        order = best_first(arena.merit[slots], arena.time[slots], arena.key[slots], arena.part[slots])
        slots, pane = slots[order], pane[order] - self.cuts.base
        if self.mode == LATEST:
            self.band = (slots, pane + self.cuts.base, np.zeros(len(slots), np.int64))
            return
        band, out = self._bands(slots, pane, np.zeros(len(slots), np.int64), len(slots))
        starts = np.array([s.next_start for s in self.schedules], np.int64)
        ks = np.array([s.k for s in self.schedules], np.int64)
        need, last = np.zeros(len(self.cuts.at), np.int64), self.sealed - self.cuts.base - 1
        oldest = sealing.find_needs(self.cuts.at, starts, ks, np.zeros(len(starts), np.int64), last, need)
        code, codes = self._codes(np.arange(arena.size)) if self.mode == BEST else (np.arange(arena.size), arena.size)
        scratch = (code, np.full(codes, -1, np.int64))
        m = sealing.sweep(self._events(), band, len(slots), scratch, oldest, last, need, self.depth, out)
        self.band = (out[0][:m].copy(), out[1][:m] + self.cuts.base, out[2][:m].copy())

    def answer(self, due: Due, sealed_to: int) -> Picks:
        """Seal all panes that end by `sealed_to`, and answer each window when its last pane is sealed."""
        if len(self.cuts.at) == 0:
            return Picks(_NO_SLOTS, np.zeros(len(due) + 1, np.int64))
        if len(due):
            self._cover(int(self.cuts.at[0]), int(due.end[-1]))
        parts = self._pieces(due)
        queries = (
            starts_after(self.schedules, due[:0]),
            np.array([s.k for s in self.schedules], np.int64),
            np.array([s.slide for s in self.schedules], np.int64),
        )
        picks = [self._seal(piece, int(piece.end[-1]), queries) for piece in parts[:-1]]
        picks.append(self._seal(parts[-1], sealed_to, queries))
        self._forget(queries[0])
        starts = np.cumsum([0, *(len(p.slots) for p in picks)])
        offsets = [p.offsets[:-1] + start for p, start in zip(picks, starts[:-1], strict=True)]
        return Picks(np.concatenate([p.slots for p in picks]), np.concatenate([*offsets, starts[-1:]]))

    def _pieces(self, due: Due) -> list[Due]:
        """Split the due windows so that the answers of one piece fit into memory."""
        if len(due) == 0:
            return [due]
        most = np.array([s.k for s in self.schedules])[due.query] * self._partitions()
        piece = np.cumsum(most) // MOST_PICKS
        edges = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(due)]
        return [due[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]

    def _seal(self, due: Due, sealed_to: int, queries: tuple[IntArray, IntArray, IntArray]) -> Picks:
        cuts, base = self.cuts.at, self.cuts.base
        first = self.sealed - base
        last = max(int(np.searchsorted(cuts, sealed_to, side="right")) - 1, first)
        count = int(np.searchsorted(self.open_pane, base + last))
        ends = np.searchsorted(self.open_pane[:count], np.arange(base + first, base + last), side="right")
        fresh = self.open[:count]
        bands = self._bands(*self.band[:1], self.band[1] - base, self.band[2], len(self.band[0]) + count)
        most = int(queries[1][due.query].sum()) * self._partitions()
        picks, offsets = np.empty(most + 1, np.int32), np.zeros(len(due) + 1, np.int64)
        if last == first:
            return Picks(_NO_SLOTS, offsets)
        m, side = sealing.seal(
            self._events(), self._codes(fresh), self.mode, bands, len(self.band[0]), (fresh, ends), cuts, first,
            queries, (due.query, due.start, due.end), self.depth, picks, offsets,
        )  # fmt: skip
        band = bands[side]
        self.band = (band[0][:m].copy(), band[1][:m] + base, band[2][:m].copy())
        self.open, self.open_pane = self.open[count:], self.open_pane[count:]
        self.sealed = base + last
        return Picks(picks[: offsets[-1]], offsets)

    def _bands(self, slot: SlotArray, pane: IntArray, beaten: IntArray, room: int) -> tuple[Any, Any]:
        """Lay out the band as the kernels want it, and a second one to merge into."""
        kinds = (np.int32, np.int64, np.int64, np.float64, np.int64)
        bands = tuple(tuple(np.empty(room, kind) for kind in kinds) for _ in range(2))
        given = (slot, pane, beaten, self.arena.merit[slot], self.arena.position[slot])
        for column, values in zip(bands[0], given, strict=True):
            column[: len(slot)] = values
        return bands[0], bands[1]

    def _codes(self, fresh: SlotArray | IntArray) -> tuple[IntArray, int]:
        """Number the ids (of each partition) that are kept or about to be; per slot of the arena."""
        code = np.empty(0 if self.mode == ALL else self.arena.size, np.int64)
        if self.mode == ALL:
            return code, 0
        slots = np.concatenate([self.band[0], fresh]).astype(np.int64)
        pairs = np.stack([self.arena.part[slots], self.arena.key[slots]])
        unique, inverse = np.unique(pairs, axis=1, return_inverse=True)
        code[slots] = inverse.ravel()
        return code, unique.shape[1]

    def _events(self) -> tuple[FloatArray, IntArray, IntArray, IntArray, IntArray]:
        arena = self.arena
        return arena.merit, arena.time, arena.key, arena.part, arena.position

    def _partitions(self) -> int:
        return 1 if self.arena.size == 0 else int(self.arena.part.max() - self.arena.part.min()) + 1

    def _cover(self, low: int, high: int) -> None:
        known, base = len(self.cuts.at), self.cuts.base
        self.cuts.cover(low, high)
        before = base - self.cuts.base
        after = len(self.cuts.at) - known - before
        lost = 0 if self.forgot else UNTOUCHED
        self.depth = np.concatenate([np.full(before, lost), self.depth, np.full(after, UNTOUCHED)])
        self.torn = np.concatenate([np.zeros(before, bool), self.torn, np.zeros(after, bool)])
        if self.sealed == base:  # none is sealed yet: earlier panes are open too
            self.sealed = self.cuts.base

    def _forget(self, starts: IntArray) -> None:
        """Forget the cuts before every coming window, once nothing is kept there."""
        oldest = int(np.searchsorted(self.cuts.at, starts.min(initial=self.cuts.at[-1]), side="right")) - 1
        kept_from = int(self.band[1].min(initial=self.sealed))
        gone = min(oldest, kept_from - self.cuts.base)
        if gone > 0:
            self.cuts.forget(gone)
            self.depth, self.torn = self.depth[gone:].copy(), self.torn[gone:].copy()
            self.forgot = True

    def _open_ranks(self) -> IntArray:
        return rank_in_runs(self.open_pane, self.arena.part[self.open])

    def kept(self) -> SlotArray:
        """Return the slots of all kept events."""
        return np.concatenate([self.band[0], self.open])

    def bound(self) -> int:
        """Return K per live pane and partition; for ``distinct="latest"`` there is none but the number of ids."""
        if self.mode == LATEST:
            return len(self.kept())
        return self.k * max(len(self.cuts.at) - 1, 0) * self._partitions()

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        self.band = (moved[self.band[0]], *self.band[1:])
        self.open = moved[self.open]

    def snapshot(self) -> dict[str, Any]:
        """Return the state as numbers and arrays."""
        return {
            "cuts": self.cuts.at.copy(), "base": self.cuts.base, "sealed": self.sealed, "forgot": self.forgot,
            "depth": self.depth.copy(), "torn": self.torn.copy(), "band_slot": self.band[0].copy(), "band_pane": self.band[1].copy(),
            "band_beaten": self.band[2].copy(), "open": self.open.copy(), "open_pane": self.open_pane.copy(),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `snapshot` returned."""
        self.cuts = Cuts(self.schedules, state["cuts"], state["base"])
        self.sealed, self.forgot = state["sealed"], state["forgot"]
        self.depth, self.torn = state["depth"], state["torn"]
        self.band = (state["band_slot"], state["band_pane"], state["band_beaten"])
        self.open, self.open_pane = state["open"], state["open_pane"]

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        kept = self.kept()
        assert len(np.unique(kept)) == len(kept), "an event is kept twice"
        assert np.all(np.diff(self.cuts.at) > 0), "cuts are not in order"
        assert len(self.depth) == len(self.torn) == len(self.cuts.at), "a pane has no depth"
        assert np.all(self.open_pane >= self.sealed), "an open event lies in a sealed pane"
        assert np.all(self.band[1] < self.sealed), "a sealed event lies in an open pane"
        assert np.array_equal(self.cuts.panes(self.arena.position[self.open]), self.open_pane), "wrong pane"
        if self.mode != LATEST:
            assert np.all(self._open_ranks() < self.k), "an open pane keeps more than K"
            assert len(kept) <= self.bound(), "more is kept than the bound allows"
        _check_sorted(self.arena, self.band[0], np.zeros(len(self.band[0]), np.int64))
        _check_sorted(self.arena, self.open, self.open_pane)

    def explain(self) -> list[str]:
        """Describe the panes and the staircase."""
        starts = sorted((s.next_start, s.k, s.name) for s in self.schedules)
        steps, depth = [], 0
        for start, k, name in starts:
            if k > depth:
                depth = k
                steps.append(f"{k} deep from {'the beginning' if start == NEVER else start} on (because of {name!r})")
        return [
            f"open panes keep their best {self.k}; {len(self.cuts.at)} cuts, {len(self.open)} events in open panes",
            f"sealed panes keep the staircase skyband of {len(self.band[0])} events: " + "; ".join(steps),
        ]


def _check_sorted(arena: Arena, slots: SlotArray, major: IntArray) -> None:
    order = best_first(arena.merit[slots], arena.time[slots], arena.key[slots], major, arena.part[slots])
    same: BoolArray = np.diff(order) > 0
    assert same.all(), "events are not in order"
