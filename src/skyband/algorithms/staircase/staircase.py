"""One staircase skyband answers every query: the default.

Choose it always, unless you study one of its siblings.

Guarantees: exact. Of a sealed pane p an event is kept only while fewer than K(p) better ones lie in panes >= p,
K(p) being the largest k of the queries that still have an unanswered window over p; of an open pane the best K.
That is about ``k ln(n/k) + k`` events for n in the window in random order, at most ``K`` per live pane (and
partition) for any order. An arriving event costs one comparison with its pane's threshold; a sealed pane costs one
linear merge; an answer one walk over the kept events. ``distinct="best"`` costs a factor ``log(panes)`` in the
merge. ``distinct="latest"`` must keep the latest event of *every* id of the longest window, however bad: a
better id may fall at any time and make room. It costs one look-up per event and O(ids) per sealed pane.

Invariant: each open pane holds its best K events, or all of them, but for those that K better ones dominate in the
panes before it, back to the last start of a window: every window over the pane holds these too. The sealed panes hold
every event that a coming window can answer with.

Examples
--------
Window 4, slide 2, k = 1: panes are two wide, and once the pane [2, 4) is sealed its 4.0 dominates all before it
but the 5.0, which stays until the window [0, 4) is answered.

>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window(4, slide=2))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id")]
[[0], [0], [2], [4]]

Notes
-----
The panes are the adaptive slide of MTopS (Shastri, *MTopS: Multi-Query Optimization for Continuous Top-K Query
Workloads*, chapter 4); that the queries with the latest starts and the largest k decide what is kept is the idea
behind the skyline queries of STKQF (Jing et al., *Dynamic Multiple Continuous Top-k Queries Over Streaming Data*); the
kept set of one query is the k-skyband (Pripužić et al., *Time- and Space-Efficient Sliding Window Top-k Query
Processing*). Ours: the threshold per pane in front of it all, with verified guesses; one staircase over any number of
queries; late events; ids that count once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.base import NO_SLOTS, Algorithm, Arriving, BatchCounts, Selection, columns_of, one_per_id
from skyband.algorithms.panes import ANY_K, Panes, pane_widths
from skyband.algorithms.staircase import partition_kernels, prefilter
from skyband.algorithms.staircase import seal_kernels as kernel
from skyband.algorithms.staircase.carry_kernels import Carried, carry
from skyband.algorithms.staircase.seal_kernels import ALL, BEST, LATEST
from skyband.compiled import THREADS, in_threads, split
from skyband.events.store import EventStore
from skyband.order import BoolArray, FloatArray, IntArray, SlotArray, rank_in_runs, sort_runs
from skyband.queries.query import Distinct
from skyband.times import FARTHEST
from skyband.windows import NEVER, DueWindows, Layout, Schedule, format_extent, layout

MODES = {None: ALL, "best": BEST, "latest": LATEST}
MOST_PICKS = 1 << 23
PARALLEL_SLOTS = 1 << 15
NO_FLOOR = (-np.inf, -(2**63))
"""Merit and time that every event reaches."""
_NO_NUMBERS, _NO_FLAGS = np.empty(0, np.int64), np.empty(0, bool)


class Staircase(Algorithm):
    """Panes with thresholds, and one skyband whose depth falls in steps as panes age."""

    name = "staircase"
    summary = "one staircase skyband for all queries; the default"
    every_watermark = False

    def __init__(self, store: EventStore, distinct: Distinct | None) -> None:
        super().__init__(store, distinct)
        self.mode = MODES[distinct]
        self.k = 0
        self.panes = Panes()
        self.sealed_to = NEVER  # the cut before which all panes are sealed; NEVER: none is, and none that is added
        self.band = (NO_SLOTS, _NO_NUMBERS, _NO_NUMBERS)  # sealed events: slot, pane, dominated; as the kernels sort
        self.open = NO_SLOTS  # open events: pane by pane, partition by partition, best first
        self.open_pane = _NO_NUMBERS
        self.floor = NO_FLOOR  # what K sealed events reach that are in every window over the first open pane
        self.uncarried_to = NEVER  # no threshold is carried on before
        self._barred = (self.open, _NO_NUMBERS, 0, (np.empty(0), _NO_NUMBERS))

    def plan(self, schedules: Sequence[Schedule]) -> None:
        """Serve these queries from now on; panes are cut where their windows start and end."""
        super().plan(schedules)
        before, self.k = self.k, max(s.k for s in schedules)
        if self.k > before:
            self.floor = NO_FLOOR
        cut = self.panes.refine(schedules)
        if cut:
            self.open_pane = self.panes.number(self.store.position[self.open])
        if cut or self.k < before:
            self._set_open(self.open, self.open_pane, 0)
            self._count_anew(NO_SLOTS)

    @property
    def sealed(self) -> int:
        """The number of the first pane that is still open."""
        panes = self.panes
        return panes.base if self.sealed_to == NEVER else int(panes.number(np.int64(self.sealed_to)))

    def exact_from(self, schedule: Schedule, frontier: int) -> int:
        """Return the first start from which on nothing that was dropped is missed."""
        return self.panes.exact_from(schedule, frontier)

    @property
    def proves(self) -> bool:
        """Whether the best of what was dropped is known: where events are ranked, and not by partitions.

        Of these, one may be gone that has a place in the answer, however bad its events are.
        """
        return self.mode == ALL and not self.store.partitioned

    def forget_between(self, low: int, high: int) -> None:
        """Drop what is kept there; the panes have lost nothing then."""
        band, held = (self._outside(slots, low, high) for slots in (self.band[0], self.open))
        self.band = (self.band[0][band], self.band[1][band], self.band[2][band])
        self.open, self.open_pane = self.open[held], self.open_pane[held]
        self.panes.restore(low, high, self.k)

    # Insert.

    def push(self, arriving: Arriving, counts: BatchCounts) -> None:
        """Drop, in one pass, what cannot be among the best K of its pane; keep the rest."""
        columns = arriving.columns
        if self.mode == LATEST:
            pieces = prefilter.latest(columns, counts, self.panes)
        elif len(columns.merit) <= prefilter.FEW_ROWS and columns.partitions == 1:
            pieces = prefilter.few(columns, counts, self.panes, self._bars())
        elif prefilter.is_sparse(columns, self.panes, self.k, self._carries):
            pieces = prefilter.pass_all(columns, counts, self.panes)
        else:
            pieces = prefilter.candidates(columns, counts, self.panes, self.k, self._kth, self._begins)
        if columns.carried:
            pieces = prefilter.with_ties(pieces, columns, counts, self.panes)
        for rows in pieces:  # the next piece is found by the thresholds that this one raises
            self._insert(arriving.keep(rows))
        if self._carries:
            self._drop_carried(counts.newest)

    @property
    def _carries(self) -> bool:
        """Whether thresholds are carried on over cuts at which windows only end."""
        return self.mode == ALL and not self.store.partitioned and self.panes.carry

    def _begins(self, low: int, high: int) -> BoolArray:
        """Tell which panes, by their places, begin without a threshold of the one before; empty: all of them."""
        if not self._carries:
            return _NO_FLAGS
        begins = self.panes.starts[low:high].copy()
        begins[: max(self._place(max(self.sealed_to, self.uncarried_to)) + 1 - low, 0)] = True
        return begins

    def _place(self, position: int) -> int:
        """Return the place of the pane that a position lies in, the first for one before all panes."""
        return max(int(self.panes.number(np.int64(position))) - self.panes.base, 0)

    def _carry(self, slots: SlotArray, place: IntArray, edges: IntArray) -> Carried:
        """Carry thresholds on through the intervals between edges, whose events are given in order, best first."""
        starts = self.panes.starts_between(int(edges[0]), int(edges[-1]))
        begin, end = np.searchsorted(starts, edges[:-1], side="right"), np.searchsorted(starts, edges[1:])
        follows = np.append(False, begin[:-1] == end[1:])
        floored = (end == np.searchsorted(starts, edges[0])) & (edges[0] == self.sealed_to)
        ends = np.searchsorted(place, np.arange(len(edges) - 1), side="right")
        store = self.store
        return Carried(*carry(store.merit[slots], store.time[slots], ends, follows, floored, self.floor, self.k))

    def _kth(self, low: int, high: int) -> prefilter.Kth:
        if self._carries:
            first = self._place(self.sealed_to)
            found = self._carry(self.open, self.open_pane - self.panes.base - first, self.panes.cuts[first:])
            known = np.flatnonzero(found.known)
            return known + self.panes.base + first, np.zeros_like(known), found.merit[known], found.time[known]
        begin, end = np.searchsorted(self.open_pane, [low, high])
        slots, pane, store = self.open[begin:end], self.open_pane[begin:end], self.store
        kth = self._kth_places(slots, pane)
        slots = slots[kth]
        return pane[kth], store.part[slots], store.merit[slots], store.time[slots]

    def _kth_places(self, slots: SlotArray, pane: IntArray) -> IntArray:
        """Return the places of the K-th best of events that are sorted pane by pane, partition by partition."""
        ends = self._run_ends(slots, pane)
        begins = np.append(0, ends[:-1]) if len(ends) else ends
        kth: IntArray = begins[ends - begins >= self.k] + self.k - 1
        return kth

    def _run_ends(self, slots: SlotArray, pane: IntArray) -> IntArray:
        """Return where the events of each pane and partition end."""
        ends = np.empty(len(slots) + 1, np.int64)
        return ends[: kernel.run_ends(slots, pane, self.store.part, ends)]

    def _bars(self) -> tuple[FloatArray, IntArray]:
        """Return merit and time of the K-th best of each pane, found once for the same open events and cuts."""
        opened, cuts, k, bars = self._barred
        if opened is not self.open or cuts is not self.panes.cuts or k != self.k:
            kth = self._kth_places(self.open, self.open_pane)
            slots, place = self.open[kth], self.open_pane[kth] - self.panes.base
            bars = np.full(len(self.panes), -np.inf), np.full(len(self.panes), NEVER)
            bars[0][place], bars[1][place] = self.store.merit[slots], self.store.time[slots]
            self._barred = self.open, self.panes.cuts, self.k, bars
        return bars

    @property
    def thresholded(self) -> Staircase | None:
        """Itself; None for count windows and ``distinct="latest"``, where every event matters."""
        return None if self.mode == LATEST or self.store.counts else self

    def pane_edges(self, low: int, high: int) -> IntArray:
        """Return the edges of the open panes, from `low` to `high` at least."""
        edges = self.panes.edges(low, high)
        return edges[edges >= self.sealed_to]

    def kth_best(self, edges: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the K-th best open events, or, where an id counts once, those of the K-th best ids."""
        store, place = self.store, np.searchsorted(edges, self.store.position[self.open], side="right") - 1
        inside = (place >= 0) & (place < len(edges) - 1)
        slots, place = self.open[inside], place[inside]
        if np.array_equal(np.diff(place) > 0, np.diff(self.open_pane[inside]) > 0):  # each of them is one pane
            kth = self._kth_places(slots, place)
            return place[kth], store.part[slots[kth]], store.merit[slots[kth]]
        counting = one_per_id(store, slots, self.distinct, place)
        slots, place = slots[counting], place[counting]
        order = store.best_first(slots, place, store.part[slots])
        slots, place = slots[order], place[order]
        if self._carries and len(edges) > 1:
            found = self._carry(slots, place, edges)
            known = np.flatnonzero(found.known)
            return known, np.zeros_like(known), found.merit[known]
        kth = rank_in_runs(place, store.part[slots]) == self.k - 1
        return place[kth], store.part[slots[kth]], store.merit[slots[kth]]

    def record_filtered(self, low: int, high: int, depth: int, best: float) -> None:
        """Record events between two edges that were dropped before `push`: their panes lost them."""
        self.panes.record_filtered(low, high, depth, best)

    def emptied(self, store: EventStore) -> Staircase | None:
        """Return a staircase with the same panes, all of them open: each keeps its best K, in whatever part it is."""
        if self.store.counts:
            return None
        found = Staircase(store, self.distinct)
        found.plan(self.schedules)
        found.panes.load(self.panes.state())
        found.uncarried_to = self.sealed_to  # what is late there is dropped for events of its own pane alone
        return found

    def _insert(self, slots: SlotArray) -> None:
        """Take new events into their open panes, or into the band where their pane is sealed."""
        pane = self.panes.number(self.store.position[slots])
        late = pane < self.sealed
        if late.any():
            order = np.lexsort((np.negative(self.store.merit[slots[late]]), self.store.part[slots[late]], pane[late]))
            ranked, of = slots[late][order], pane[late][order]
            kth = rank_in_runs(of, self.store.part[ranked]) == self.k - 1
            self._record_full(ranked[kth], of[kth])
            self._count_anew(slots[late])
            slots, pane = slots[~late], pane[~late]
        if len(slots):
            tail = int(np.searchsorted(self.open_pane, pane.min()))
            slots = np.concatenate([self.open[tail:], slots])
            self._set_open(slots, np.concatenate([self.open_pane[tail:], pane]), tail)

    def _set_open(self, slots: SlotArray, pane: IntArray, tail: int) -> None:
        """Sort open events, the new ones from place `tail` on, and leave each pane only its best K."""
        slots, pane = self._by_pane(slots, pane)
        if self.mode != ALL:
            counting = one_per_id(self.store, slots, self.distinct, pane)
            slots, pane = slots[counting], pane[counting]
            self.panes.record_loss(pane, ANY_K, np.inf)  # other events of the ids may be gone, here or in the prefilter
        ends = self._run_ends(slots, pane)
        if len(ends) < len(slots):  # else each is alone, as where count windows slide by one
            self._sort_runs(slots, ends)
        if self.mode != LATEST:
            last = np.empty(len(ends), np.int64)
            size, full = kernel.trim(slots, pane, ends, self.k, last)
            slots, pane = slots[:size], pane[:size]
            self._record_full(slots[last[:full]], pane[last[:full]])
        self.open = np.concatenate([self.open[:tail], slots])
        self.open_pane = np.concatenate([self.open_pane[:tail], pane])

    def _by_pane(self, slots: SlotArray, pane: IntArray) -> tuple[SlotArray, IntArray]:
        """Sort events pane by pane, partition by partition."""
        if len(slots) == 0:
            return slots, pane
        if self.store.partitioned:
            slots, pane, _ = _spread(slots, pane, self.store.part[slots])
        if np.any(pane[1:] < pane[:-1]):
            slots, pane, _ = _spread(slots, pane, pane)
        return slots, pane

    def _drop_carried(self, newest: int) -> None:
        """Drop open events for better ones of earlier panes that are in all of their windows.

        A batch that reached up to `newest` may have had more of these, which the prefilter dropped.
        """
        first, last = self._place(self.sealed_to), min(self._place(newest), len(self.panes) - 1)
        if last < first:
            return
        base = self.panes.base
        found = self._carry(self.open, self.open_pane - base - first, self.panes.cuts[first : last + 2])
        relies = np.flatnonzero(found.relies)
        self.panes.record_loss(relies + base + first, self.k, found.merit[relies])
        self.panes.record_carried(relies + base + first)
        self.open, self.open_pane = self.open[found.reaches], self.open_pane[found.reaches]

    def _record_full(self, slots: SlotArray, pane: IntArray) -> None:
        """Record, given the K-th events of panes, that others of these may be dropped, here or in the prefilter."""
        self.panes.record_loss(pane, self.k, self.store.merit[slots])

    def _sort_runs(self, slots: SlotArray, ends: IntArray) -> None:
        """Sort the events of each pane, or of each of its partitions, in place, on all cores where there are many."""
        events = columns_of(self.store)[:-1]
        if len(slots) < PARALLEL_SLOTS or len(ends) <= THREADS:
            sort_runs(slots, ends, *events)
            return
        runs = itertools.pairwise(split(len(ends), THREADS))
        stretches = [(int(ends[a - 1]) if a else 0, ends[a:b]) for a, b in runs]
        in_threads(sort_runs, [(slots[start : end[-1]], end - start, *events) for start, end in stretches])

    def _count_anew(self, late: SlotArray, starts: IntArray | None = None) -> None:
        """Insert late events into the band and recount how often each event is dominated: the general, slower way.

        `starts` are where the queries' next windows start, if that is not known by what is closed.
        """
        store, base = self.store, self.panes.base
        slots = np.concatenate([self.band[0], late])
        if self.mode == LATEST:
            slots = slots[one_per_id(store, slots, "latest")]
        slots = slots[store.best_first(slots, store.part[slots])]
        pane, dominated = self.panes.number(store.position[slots]), np.zeros(len(slots), np.int64)
        if self.mode != LATEST:
            band, out = self._bands(slots, pane - base, dominated, len(slots))
            starts, last = layout(self.schedules).start if starts is None else starts, self.sealed - base - 1
            ks = np.array([schedule.k for schedule in self.schedules], np.int64)
            since = kernel.find_needs(self.panes.cuts, starts, ks, np.zeros(len(starts), np.int64), last)
            code, codes = self._codes(slots) if self.mode == BEST else (np.arange(store.size), store.size)
            scratch = (code, np.full(codes, -1, np.int64))
            lost = self.panes.depth, self.panes.best_dropped
            size = kernel.sweep(columns_of(store), band, len(slots), scratch, last, since, *lost, out)
            slots, pane, dominated = out[0][:size].copy(), out[1][:size] + base, out[2][:size].copy()
        self.band = (slots, pane, dominated)

    # Expire and answer.

    def answer(self, due: DueWindows, sealed_to: int) -> Selection:
        """Seal all panes that end by `sealed_to`, and answer each window when its last pane is sealed."""
        if len(self.panes) == 0:
            return Selection(NO_SLOTS, np.zeros(len(due) + 1, np.int64))
        if len(due):
            self.panes.cover(int(self.panes.cuts[0]), int(due.end[-1]))
        columns = layout(self.schedules)
        queries = columns.start, columns.k
        unsure = self._unsure(due)
        pieces = self._pieces(due, columns.k)
        picks = [self._seal(piece, int(piece.end[-1]), columns, queries) for piece in pieces[:-1]]
        picks.append(self._seal(pieces[-1], sealed_to, columns, queries))
        self._forget(queries[0])
        if np.any(columns.period != columns.slide):
            self._join_panes(columns, queries[0])
        slots, lengths = (np.concatenate(parts) for parts in zip(*picks, strict=True))
        found = Selection(slots, np.append(0, np.cumsum(lengths)))
        return replace(found, proven=self._proven(due, found, unsure)) if unsure else found

    def _unsure(self, due: DueWindows) -> dict[int, float]:
        """Return, for windows that began before their query was added, the best merit of what may be missing.

        NaN stands for nothing at all. What is dropped from now on is dominated as often as any query asks for.
        """
        if not self.proves:
            return {}
        exact_from = np.array([s.exact_from for s in self.schedules], np.int64)[due.query]
        early = np.flatnonzero(due.start < exact_from)
        if len(early) == 0:
            return {}
        losses = self.panes.worst_losses(due.start[early], due.end[early])
        return dict(zip(early.tolist(), losses.tolist(), strict=True))

    def _proven(self, due: DueWindows, picks: Selection, unsure: dict[int, float]) -> BoolArray:
        """Tell which windows have k events that are all better than what may be missing, by their merits alone.

        What may be missing can win a tie: it may be later, or have a smaller id.
        """
        proven = np.zeros(len(due), bool)
        for window, lost in unsure.items():
            held = picks.slots[picks.offsets[window] : picks.offsets[window + 1]]
            full = len(held) == self.schedules[due.query[window]].k
            proven[window] = np.isnan(lost) or (full and self.store.merit[held[-1]] > lost)
        return proven

    def _pieces(self, due: DueWindows, ks: IntArray) -> list[DueWindows]:
        """Split the due windows so that the answers of one piece fit into memory; those that end together stay so."""
        if len(due) == 0:
            return [due]
        most = ks[due.query] * self._partitions()
        if most.sum() <= MOST_PICKS:
            return [due]
        piece = np.cumsum(most) // MOST_PICKS
        piece = piece[np.searchsorted(due.end, due.end)]  # a pane is sealed once, and answers all that end with it
        edges = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(due)]
        return [due[a:b] for a, b in itertools.pairwise(edges)]

    def _seal(
        self, due: DueWindows, sealed_to: int, columns: Layout, queries: tuple[IntArray, IntArray]
    ) -> tuple[SlotArray, IntArray]:
        """Seal the panes that end by `sealed_to`, and move the queries' starts forward.

        Returns the slots of the answers, and how many each window has.
        """
        cuts, base = self.panes.cuts, self.panes.base
        first = self.sealed - base
        last = max(int(np.searchsorted(cuts, sealed_to, side="right")) - 1, first)
        offsets = np.zeros(len(due) + 1, np.int64)
        if last == first:
            return NO_SLOTS, offsets[1:]
        count = int(np.searchsorted(self.open_pane, base + last))
        ends = np.cumsum(np.bincount(self.open_pane[:count] - (base + first), minlength=last - first))
        fresh = self.open[:count]
        windows = due.query, due.start, due.end, columns.following(due)
        if self.mode == ALL and self._partitions() > 1:
            found = self._seal_partitions(windows, first, last, count, queries)
            self.open, self.open_pane = self.open[count:], self.open_pane[count:]
            self.sealed_to = int(cuts[last])
            return found
        if self._carries:
            self.floor = self._next_floor(fresh, self.open_pane[:count] - base - first, first, last)
        held = len(self.band[0])
        bands = self._bands(self.band[0], self.band[1] - base, self.band[2], held + count)
        picks = np.empty(int(queries[1][due.query].sum()) * self._partitions() + 1, np.int32)
        m, side = kernel.seal(
            columns_of(self.store), self._codes(np.concatenate([self.band[0], fresh])), self.mode,
            self._partitions() == 1, bands, held, (fresh, ends), cuts, first, queries,
            windows, self.panes.depth, self.panes.best_dropped, picks, offsets,
        )  # fmt: skip
        band = bands[side]
        self.band = (band[0][:m].copy(), band[1][:m] + base, band[2][:m].copy())
        self.open, self.open_pane = self.open[count:], self.open_pane[count:]
        self.sealed_to = int(cuts[last])
        return picks[: offsets[-1]], np.diff(offsets)

    def _seal_partitions(
        self, due: tuple[IntArray, ...], first: int, last: int, count: int, queries: tuple[IntArray, IntArray]
    ) -> tuple[SlotArray, IntArray]:
        """Seal the `count` open events of some panes, and answer windows, partition by partition."""
        query, start, end, following = due
        store, panes, (starts, ks) = self.store, self.panes, queries
        partitions, lowest = self._partitions(), int(store.part.min())
        band = self.band[0], self.band[1] - panes.base, self.band[2]
        band_at = np.bincount(store.part[band[0]] - lowest + 1, minlength=partitions + 1).cumsum()
        *fresh, fresh_at = _spread(
            self.open[:count], self.open_pane[:count] - panes.base, store.part[self.open[:count]], lowest, partitions
        )
        due_at = np.append(0, np.searchsorted(end, panes.cuts[first + 1 : last + 1], side="right"))
        sinces = partition_kernels.needs_by_round(panes.cuts, first, last - first, starts, ks, query, following, due_at)
        k = ks[query]
        begins = np.cumsum(k * partitions) - k * partitions
        picks, counts = np.empty(int((k * partitions).sum()), np.int32), np.zeros((len(k), partitions), np.int32)
        out = tuple(np.empty(len(band[0]) + count, column.dtype) for column in band)
        work = band_at + fresh_at + np.arange(partitions + 1) * len(k)
        threads = THREADS if work[-1] >= PARALLEL_SLOTS else 1
        edges = np.searchsorted(work, split(int(work[-1]), threads)).tolist()
        losses = [(panes.depth.copy(), panes.best_dropped.copy()) for _ in range(threads)]
        ends = in_threads(
            partition_kernels.seal,
            [
                (
                    columns_of(store), band, tuple(fresh), (band_at, fresh_at), a, b, first, sinces, (start, k, begins),
                    due_at, *lost, picks, counts, out,
                )
                for (a, b), lost in zip(itertools.pairwise(edges), losses, strict=True)
            ],
        )  # fmt: skip
        for depth, best in losses:
            np.minimum(panes.depth, depth, out=panes.depth)
            np.maximum(panes.best_dropped, best, out=panes.best_dropped)
        parts = [slice(int((band_at + fresh_at)[a]), end) for a, end in zip(edges[:-1], ends, strict=True)]
        slot, pane, dominated = (np.concatenate([column[part] for part in parts]) for column in out)
        self.band = slot, pane + panes.base, dominated
        sizes = counts.sum(axis=1, dtype=np.int64)
        if len(picks) == sizes.sum():
            return picks, sizes
        found, offsets = np.empty(int(sizes.sum()), np.int32), np.append(0, np.cumsum(sizes))
        edges = split(len(k), threads)
        in_threads(
            partition_kernels.close_up,
            [(picks, k, begins, counts, offsets, a, b, found) for a, b in itertools.pairwise(edges)],
        )
        return found, sizes

    def _next_floor(self, slots: SlotArray, place: IntArray, first: int, last: int) -> tuple[float, int]:
        """Return the floor of the pane with the place `last`, once all from `first` on are sealed."""
        if self.panes.starts[last]:
            return NO_FLOOR
        found = self._carry(slots, place, self.panes.cuts[first : last + 1])
        return (float(found.merit[-1]), int(found.time[-1])) if found.known[-1] else NO_FLOOR

    def _bands(self, slot: SlotArray, pane: IntArray, dominated: IntArray, room: int) -> tuple[Any, Any]:
        """Lay out a band as the kernels want it, and a second one to merge into."""
        columns: tuple[npt.NDArray[Any], ...] = (
            slot,
            pane,
            dominated,
            self.store.merit[slot],
            self.store.position[slot],
        )
        band = tuple(np.append(column, np.empty(room - len(slot), column.dtype)) for column in columns)
        return band, tuple(np.empty_like(column) for column in band)

    def _codes(self, slots: SlotArray) -> tuple[IntArray, int]:
        """Return a code per slot of the store that tells the ids of a partition apart, and how many there are."""
        if self.mode == ALL:
            return _NO_NUMBERS, 0
        code = np.empty(self.store.size, np.int64)
        pairs = np.stack([self.store.part[slots], self.store.key[slots]])
        unique, inverse = np.unique(pairs, axis=1, return_inverse=True)
        code[slots] = inverse.ravel()
        return code, unique.shape[1]

    def _partitions(self) -> int:
        return 1 if self.store.size == 0 else int(self.store.part.max() - self.store.part.min()) + 1

    def _forget(self, starts: IntArray) -> None:
        """Forget the panes before every coming window, once nothing is kept there."""
        cuts = self.panes.cuts
        oldest = int(np.searchsorted(cuts, starts.min(initial=cuts[-1]), side="right")) - 1
        kept_from = int(self.band[1].min(initial=self.sealed))
        self.panes.forget(min(oldest, kept_from - self.panes.base))

    def _join_panes(self, columns: Layout, starts: IntArray) -> None:
        """Make one pane of sealed ones that are in the same windows from now on: as where windows grow."""
        if self.panes.join(columns, starts, self.sealed_to):
            self.open_pane = self.panes.number(self.store.position[self.open])
            self._count_anew(NO_SLOTS, starts)

    def _open_ranks(self) -> IntArray:
        return rank_in_runs(self.open_pane, self.store.part[self.open])

    # State.

    def kept(self) -> SlotArray:
        """Return the slots of all kept events."""
        return np.concatenate([self.band[0], self.open])

    def bound(self) -> int:
        """Return K per live pane and partition; for ``distinct="latest"`` there is none but the number of ids."""
        return len(self.kept()) if self.mode == LATEST else self.k * len(self.panes) * self._partitions()

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        self.band = (moved[self.band[0]], *self.band[1:])
        self.open = moved[self.open]

    def snapshot(self) -> dict[str, Any]:
        """Return the state as numbers and arrays."""
        slot, pane, dominated = self.band
        return {
            **self.panes.state(),
            "sealed_to": self.sealed_to,
            "band_slot": slot.copy(),
            "band_pane": pane.copy(),
            "band_dominated": dominated.copy(),
            "open": self.open.copy(),
            "open_pane": self.open_pane.copy(),
            "floor": list(self.floor),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `snapshot` returned."""
        self.panes.load(state)
        self.sealed_to, self.open, self.open_pane = state["sealed_to"], state["open"], state["open_pane"]
        self.band = (state["band_slot"], state["band_pane"], state["band_dominated"])
        self.floor = tuple(state["floor"])

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        kept, panes = self.kept(), self.panes
        assert len(np.unique(kept)) == len(kept), "an event is kept twice"
        assert np.all(np.diff(panes.cuts) > 0), "cuts are not in order"
        columns = panes.depth, panes.best_dropped, panes.cut_after_loss, panes.starts, panes.dominated_from
        assert {len(column) for column in columns} == {len(panes.cuts)}, "a pane has no depth"
        assert np.all(self.open_pane >= self.sealed), "an open event lies in a sealed pane"
        assert np.all(self.band[1] < self.sealed), "a sealed event lies in an open pane"
        assert np.array_equal(panes.number(self.store.position[self.open]), self.open_pane), "wrong pane"
        assert np.array_equal(panes.number(self.store.position[self.band[0]]), self.band[1]), "wrong pane"
        if self.mode != LATEST:
            assert np.all(self._open_ranks() < self.k), "an open pane keeps more than K"
            assert len(kept) <= self.bound(), "more is kept than the bound allows"
        for slots, pane in ((self.band[0], np.zeros(len(self.band[0]))), (self.open, self.open_pane)):
            order = self.store.best_first(slots, pane, self.store.part[slots])
            assert np.all(np.diff(order) > 0), "events are not in order"

    def explain(self, moment: Callable[[int], str]) -> list[str]:
        """Describe the panes and the staircase."""
        steps, depth = [], 0
        for start, k, name in sorted((s.next_start, s.k, s.name) for s in self.schedules):
            if k > depth:
                depth = k
                since = "the beginning" if start <= -FARTHEST else moment(start)
                steps.append(f"{k} deep from {since} on (because of {name!r})")
        kept = "the latest event of each id" if self.mode == LATEST else f"their best {self.k}"
        widths = [format_extent(width, self.store.counts) for width in pane_widths(self.schedules)]
        cut = f"start and end on cuts that make panes of {' to '.join(widths)}"
        if self.store.placed and not self.store.counts:
            cut = "are the periods of a calendar, each of them one pane"
        held, band = (f": {len(slots):,} events" if len(self.kept()) else "" for slots in (self.open, self.band[0]))
        return [
            f"windows {cut}: one pass serves all",
            f"open panes keep {kept}{held}",
            f"sealed panes keep the staircase skyband, {', '.join(steps)}{band}",
        ]


def _spread(
    slots: SlotArray, pane: IntArray, of: IntArray, lowest: int | None = None, numbers: int | None = None
) -> tuple[SlotArray, IntArray, IntArray]:
    """Sort slots, and the panes beside them, stably by numbers; also return where those of each number begin.

    The numbers go from `lowest` on, and are so many; where that is left out, as they are.
    """
    lowest = int(of.min()) if lowest is None else lowest
    of = of - lowest
    at = np.append(0, np.bincount(of, minlength=numbers or 0).cumsum())
    found = np.empty_like(slots), np.empty_like(pane)
    partition_kernels.spread(slots, pane, of, at[:-1].copy(), *found)
    return *found, at
