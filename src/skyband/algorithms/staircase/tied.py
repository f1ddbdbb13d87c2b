"""Rankings in which equal scores share a rank: of each pane, all that tie with its best K.

An answer has all rows whose score is at least that of the K-th best (``ties="with"``), or one of the K best scores
(``ties="dense"``). So only a strictly better score keeps an event out, never an event that is later or has a smaller
id, and the staircase, which drops events for those, cannot serve here.

Guarantees: exact. Of a pane, and partition, an event is dropped once K events of the pane, or events with K different
scores, are strictly better: these are in every window that contains it. Since an answer has at most `max_ties` rows,
one more than these is the most that a pane keeps: whether an answer had to be cut is then known too. Where an id counts
with its latest event, or different scores of ids are counted, nothing but the other events of the same id can be
dropped: an id's better score may take a score away that kept another id out. A window sorts what its panes keep. Now
and then, when the events of sealed panes have doubled, those go that events of their own and of later sealed panes keep
out.

Invariant: the panes hold all events that an unanswered window can show, or one more than such a window shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from skyband.algorithms.base import NO_SLOTS, Algorithm, Arriving, BatchCounts, Columns, Selection, one_per_id
from skyband.algorithms.panes import ANY_K, Panes, pane_widths
from skyband.algorithms.staircase import prefilter
from skyband.events.store import EventStore
from skyband.order import BoolArray, FloatArray, IntArray, SlotArray, Ties, rank_in_runs, ranks_in_runs
from skyband.queries.query import Distinct
from skyband.windows import ALWAYS, NEVER, DueWindows, Schedule, format_extent, layout

ROWS_AT_ONCE = 1 << 16
SPARE = 1024
"""So many events of sealed panes are kept at least before any are looked through."""
_NO_NUMBERS = np.empty(0, np.int64)


class TiedPanes(Algorithm):
    """Panes that keep all that tie with their best K.

    Parameters
    ----------
    store, distinct
        As for every algorithm.
    ties
        Whether the K best events are meant, or the K best scores.
    most
        How many rows an answer has at most, in each partition. What `answer` and `peek` return has one more where there
        are more.
    """

    name = "ties"
    summary = "all that tie with the best k of each pane; for queries with ties"
    every_watermark = False

    def __init__(self, store: EventStore, distinct: Distinct | None, ties: Ties, most: int) -> None:
        super().__init__(store, distinct)
        self.ties, self.most = ties, most
        self.drops = distinct is None or (distinct == "best" and ties == "with")  # worse events, not only those of ids
        self.k = 0
        self.panes = Panes()
        self.sealed_to = NEVER
        self.slots = NO_SLOTS  # pane by pane, partition by partition, best first
        self.pane = _NO_NUMBERS
        self._pruned = 0  # how many events of sealed panes were left when they were looked through

    def plan(self, schedules: Sequence[Schedule]) -> None:
        """Serve these queries from now on; panes are cut where their windows start and end."""
        super().plan(schedules)
        before, self.k = self.k, max(s.k for s in schedules)
        cut = self.panes.refine(schedules)
        if cut or self.k < before:
            self._set(self.slots, 0)

    def exact_from(self, schedule: Schedule, frontier: int) -> int:
        """Return the first start from which on nothing that was dropped is missed."""
        return self.panes.exact_from(schedule, frontier)

    def forget_between(self, low: int, high: int) -> None:
        """Drop what is kept there; the panes have lost nothing then."""
        held = self._outside(self.slots, low, high)
        self.slots, self.pane = self.slots[held], self.pane[held]
        self.panes.restore(low, high, self.k)

    # Insert.

    def push(self, arriving: Arriving, counts: BatchCounts) -> None:
        """Keep what ties with the best K of its pane, or is better."""
        for rows in self._pieces(arriving.columns, counts):  # the next piece is found by what this one leaves
            slots = arriving.keep(rows)
            if len(slots):
                first = int(self.panes.number(self.store.position[slots]).min())
                tail = int(np.searchsorted(self.pane, first))
                self._set(np.concatenate([self.slots[tail:], slots]), tail)

    def _pieces(self, columns: Columns, counts: BatchCounts) -> Iterator[IntArray]:
        """Yield the rows of a batch that may matter."""
        if self.drops and self.ties == "with":
            yield from self._prefiltered(columns, counts)
            return
        for start in range(0, len(columns.merit), ROWS_AT_ONCE):
            for rows in prefilter.pass_all(columns[start : start + ROWS_AT_ONCE], counts, self.panes, start):
                yield rows[self._reaching(columns, rows)]

    def _prefiltered(self, columns: Columns, counts: BatchCounts) -> Iterator[IntArray]:
        """Yield what the staircase would take of events that are all of one time: then no tie is settled."""
        untimed = replace(columns, time=np.zeros(len(columns.merit), np.int64))
        if prefilter.is_sparse(untimed, self.panes, self.k):
            pieces = prefilter.pass_all(untimed, counts, self.panes)
        else:
            pieces = prefilter.candidates(untimed, counts, self.panes, self.k, self._kth)
        return prefilter.with_ties(pieces, untimed, counts, self.panes)

    def _kth(self, low: int, high: int) -> prefilter.Kth:
        begin, end = np.searchsorted(self.pane, [low, high])
        slots, pane = self.slots[begin:end], self.pane[begin:end]
        last = self._last_needed(slots, pane)
        slots = slots[last]
        return pane[last], self.store.part[slots], self.store.merit[slots], np.zeros(len(last), np.int64)

    def _reaching(self, columns: Columns, rows: IntArray) -> BoolArray:
        """Tell which rows are no worse than the last event that their pane needs."""
        known_pane, known_part, limit, _ = self._kth(NEVER, ALWAYS)
        if len(limit) == 0:
            return np.ones(len(rows), bool)
        pane, part = self.panes.number(columns.position[rows]), 0 if columns.part is None else columns.part[rows]
        known, code = (number * columns.partitions + of for number, of in ((known_pane, known_part), (pane, part)))
        place = np.minimum(np.searchsorted(known, code), len(known) - 1)
        reaching: BoolArray = (known[place] != code) | (columns.merit[rows] >= limit[place])
        return reaching

    def _last_needed(self, slots: SlotArray, *major: IntArray) -> IntArray:
        """Return the places of the events below whose merits none can matter, where there are so many.

        The events are in order within the major columns, and partitions.
        """
        if not self.drops:
            return _NO_NUMBERS
        groups = (*major, self.store.part[slots])
        rank, place = ranks_in_runs(self.ties, self.store.merit[slots], *groups), rank_in_runs(*groups)
        if self.ties == "with":
            return np.flatnonzero(place == self.k - 1)  # max_ties is at least k
        reached = np.flatnonzero((rank == self.k - 1) | (place == self.most))
        first: IntArray = reached[rank_in_runs(*(column[reached] for column in groups)) == 0]
        return first

    def _set(self, slots: SlotArray, tail: int) -> None:
        """Sort events, which lie from place `tail` on, and leave each pane only what it needs."""
        store, pane = self.store, self.panes.number(self.store.position[slots])
        if self.distinct is not None:
            counting = one_per_id(store, slots, self.distinct, pane)
            slots, pane = slots[counting], pane[counting]
            self.panes.record_loss(pane, ANY_K, np.inf)
        order = store.best_first(slots, pane, store.part[slots])
        slots, pane = slots[order], pane[order]
        if self.drops:
            last = self._last_needed(slots, pane)
            self.panes.record_loss(pane[last], self.k, store.merit[slots[last]])
            kept = self._leading(slots, self.k, pane)
            slots, pane = slots[kept], pane[kept]
        self.slots = np.concatenate([self.slots[:tail], slots])
        self.pane = np.concatenate([self.pane[:tail], pane])

    def _leading(self, slots: SlotArray, k: int, *major: IntArray) -> BoolArray:
        """Tell which of events that are in order an answer would show, and the one behind the last it may show."""
        groups = (*major, self.store.part[slots])
        rank = ranks_in_runs(self.ties, self.store.merit[slots], *groups)
        return (rank < k) & (rank_in_runs(*groups) <= self.most)

    @property
    def thresholded(self) -> TiedPanes | None:
        """Itself; None for count windows, and where all ids matter."""
        return self if self.drops and not self.store.counts else None

    def pane_edges(self, low: int, high: int) -> IntArray:
        """Return the edges of the open panes, from `low` to `high` at least."""
        edges = self.panes.edges(low, high)
        return edges[edges >= self.sealed_to]

    def kth_best(self, edges: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the last events that intervals between edges need."""
        store, place = self.store, np.searchsorted(edges, self.store.position[self.slots], side="right") - 1
        inside = (place >= 0) & (place < len(edges) - 1)
        slots, place = self.slots[inside], place[inside]
        counting = one_per_id(store, slots, self.distinct, place)
        slots, place = slots[counting], place[counting]
        order = store.best_first(slots, place, store.part[slots])
        slots, place = slots[order], place[order]
        last = self._last_needed(slots, place)
        return place[last], store.part[slots[last]], store.merit[slots[last]]

    def record_filtered(self, low: int, high: int, depth: int, best: float) -> None:
        """Record events between two edges that were dropped before `push`: their panes lost them."""
        self.panes.record_filtered(low, high, depth, best)

    def emptied(self, store: EventStore) -> TiedPanes | None:
        """Return one with the same panes: each keeps what it needs of whatever part it is given."""
        if self.store.counts:
            return None
        found = TiedPanes(store, self.distinct, self.ties, self.most)
        found.plan(self.schedules)
        found.panes.load(self.panes.state())
        return found

    # Expire and answer.

    def answer(self, due: DueWindows, sealed_to: int) -> Selection:
        """Sort what the panes of each window keep; forget the panes that no window needs any more."""
        if len(self.panes) == 0:
            return Selection(NO_SLOTS, np.zeros(len(due) + 1, np.int64))
        self._forget(int(layout(self.schedules).start.min()))
        windows = zip(due.query.tolist(), due.start.tolist(), due.end.tolist(), strict=True)
        found = [self.peek(start, end, self.schedules[query].k) for query, start, end in windows]
        passed = self.panes.cuts[self.panes.cuts <= sealed_to]
        self.sealed_to = max(self.sealed_to, int(passed.max(initial=NEVER)))
        self._prune()
        return Selection.of(found)

    def _prune(self) -> None:
        """Drop events of sealed panes that others keep out for good: every window to come holds the later panes too."""
        sealed = int(np.searchsorted(self.pane, self.panes.number(np.int64(self.sealed_to))))
        if not self.drops or sealed <= 2 * self._pruned + SPARE:
            return
        slots, pane, store = self.slots[:sealed], self.pane[:sealed], self.store
        edges = [0, *(np.flatnonzero(pane[1:] != pane[:-1]) + 1).tolist(), sealed]
        kept, needed = np.zeros(sealed, bool), NO_SLOTS
        for begin, end in reversed(list(itertools.pairwise(edges))):  # what windows from this pane on can show
            both = np.concatenate([needed, slots[begin:end]])
            both = both[one_per_id(store, both, self.distinct)]
            both = both[store.best_first(both, store.part[both])]
            needed = both[self._leading(both, self.k)]
            kept[begin:end] = np.isin(slots[begin:end], needed)
        self.panes.record_loss(pane[~kept], self.k, store.merit[slots[~kept]])
        self.slots = np.concatenate([slots[kept], self.slots[sealed:]])
        self.pane = np.concatenate([pane[kept], self.pane[sealed:]])
        self._pruned = int(np.count_nonzero(kept))

    def peek(self, start: int, end: int, k: int) -> SlotArray:
        """Answer a window from the events so far; one more row than it may show says that there are more."""
        low, high = np.searchsorted(self.pane, self.panes.number(np.array([start, end])))
        slots = self.slots[low:high]
        slots = slots[one_per_id(self.store, slots, self.distinct)]
        part = self.store.part[slots]
        if len(slots) > k and part.min() == part.max():  # most need not be sorted
            merit = self.store.merit[slots]
            scores = np.unique(merit) if self.ties == "dense" else np.partition(merit, len(merit) - k)
            slots = slots[merit >= scores[max(len(scores) - k, 0)]]
        slots = slots[self.store.best_first(slots, self.store.part[slots])]
        return slots[self._leading(slots, k)]

    def _forget(self, start: int) -> None:
        """Forget the panes before every coming window; what the windows that were due needed stays until then."""
        first = int(np.searchsorted(self.panes.cuts, start, side="right")) - 1
        if first > 0:
            self.panes.forget(min(first, len(self.panes)))
            low = int(np.searchsorted(self.pane, self.panes.base))
            self.slots, self.pane = self.slots[low:], self.pane[low:]

    # State.

    def kept(self) -> SlotArray:
        """Return the slots of all kept events."""
        return self.slots

    def bound(self) -> int:
        """Return one more than an answer shows, per pane and partition; of ids that all matter there is no bound."""
        if not self.drops or len(self.slots) == 0:
            return len(self.slots)
        part = self.store.part
        return (self.most + 1) * len(self.panes) * (int(part.max() - part.min()) + 1)

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        self.slots = moved[self.slots]

    def snapshot(self) -> dict[str, Any]:
        """Return the state as numbers and arrays."""
        return {
            **self.panes.state(), "sealed_to": self.sealed_to, "slots": self.slots.copy(), "pane": self.pane.copy(),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `snapshot` returned."""
        self.panes.load(state)
        self.sealed_to, self.slots, self.pane = state["sealed_to"], state["slots"], state["pane"]

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        assert len(np.unique(self.slots)) == len(self.slots), "an event is kept twice"
        assert np.array_equal(self.panes.number(self.store.position[self.slots]), self.pane), "wrong pane"
        order = self.store.best_first(self.slots, self.pane, self.store.part[self.slots])
        assert np.all(np.diff(order) > 0), "events are not in order"
        assert not self.drops or self._leading(self.slots, self.k, self.pane).all(), "more is kept than is needed"

    def explain(self, moment: Callable[[int], str]) -> list[str]:  # noqa: ARG002 - it tells of no moment
        """Describe the panes."""
        widths = (format_extent(width, self.store.counts) for width in pane_widths(self.schedules))
        best = f"all events with one of their best {self.k} scores" if self.ties == "dense" else (
            f"their best {self.k}, and all that tie with the last of them"
        )  # fmt: skip
        kept = f"{best}, at most {self.most + 1:,}" if self.drops else f"the {self.distinct} event of each id"
        return [
            f"windows start and end on cuts that make panes of {' to '.join(widths)}: one pass serves all",
            f"equal scores share a rank, so panes keep {kept}",
        ]
