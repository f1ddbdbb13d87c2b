"""The base of the published algorithms: they process events in order of time.

Events that arrive out of order wait until the watermark has passed them; then they are processed in order, and each
window is answered after the last event before its end. A late event that still has an unanswered window is processed
at once. Each partition has a `CandidateKeeper` of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from skyband.algorithms.base import NO_SLOTS, Algorithm, Arriving, BatchCounts, Selection, keep_all
from skyband.algorithms.pane_thresholds import PaneThresholds
from skyband.events.store import EventStore
from skyband.order import IntArray, SlotArray, rank_in_runs
from skyband.queries.query import Distinct
from skyband.windows import NEVER, DueWindows, Schedule, progressions


class CandidateKeeper(ABC):
    """Keeps the candidates of one partition, and answers windows from them."""

    @abstractmethod
    def process(self, slots: SlotArray, due: DueWindows, ks: IntArray, passed: int) -> Selection:
        """Take in events in order, and answer windows, sorted by their ends, on the way.

        Time has come up to `passed`, and the events lie before it. Each window is there once; it asks for `ks` events.
        """

    @abstractmethod
    def kept(self) -> SlotArray:
        """Return the slots of all kept events, in order."""

    @abstractmethod
    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""

    @abstractmethod
    def bound(self) -> int:
        """Return how many events can be kept at most, as things stand."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold (for tests)."""


class PerQuery(CandidateKeeper):
    """Keepers side by side, each for the windows of one query."""

    def __init__(self, keepers: Sequence[tuple[Schedule, CandidateKeeper]]) -> None:
        # The deepest first: a window that two queries share is answered by the keeper that is deep enough for both.
        self.keepers = sorted(keepers, key=lambda each: -each[0].k)

    def process(self, slots: SlotArray, due: DueWindows, ks: IntArray, passed: int) -> Selection:
        """Let each keeper take in the events and answer its windows."""
        found, taken = [], np.zeros(len(due), bool)
        for query, keeper in self.keepers:
            size, rest = due.end - due.start, (due.start - query.phase) % query.slide
            mine = np.flatnonzero(~taken & (size == query.size) & (rest == 0))
            taken[mine] = True
            found.append((keeper.process(slots, due[mine], ks[mine], passed), mine))
        return together(found, len(due))

    def kept(self) -> SlotArray:
        """Return the slots of the events that any keeper has."""
        return np.unique(np.concatenate([keeper.kept() for _, keeper in self.keepers]))

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        for _, keeper in self.keepers:
            keeper.compact(moved)

    def bound(self) -> int:
        """Return the sum of what the keepers can hold."""
        return sum(keeper.bound() for _, keeper in self.keepers)

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        for _, keeper in self.keepers:
            keeper.check()


class InOrder(Algorithm):
    """Holds events back until they can be processed in order.

    A change of queries, or a restored state, makes new keepers of what is kept.
    """

    distincts = (None,)
    kinds = ("sliding", "calendar")  # on its axis, a calendar's windows slide by their size
    by_panes: ClassVar[bool] = False
    """Whether the best K of each pane are all that it needs, so that others may drop the rest before `push`."""

    def __init__(self, store: EventStore, distinct: Distinct | None) -> None:
        super().__init__(store, distinct)
        self.thresholds = PaneThresholds(store, self.kept)
        self.waiting = NO_SLOTS
        self.passed = NEVER  # every event before it was handed on
        self.keepers: dict[int, CandidateKeeper] = {}

    @abstractmethod
    def keeper(self, first: int) -> CandidateKeeper:
        """Make the keeper of a partition whose first event lies at a position."""

    @abstractmethod
    def exact_before(self, schedule: Schedule, start: int) -> bool:
        """Tell whether a window that starts before `passed` misses nothing, for all that was taken in so far."""

    def plan(self, schedules: Sequence[Schedule]) -> None:
        """Serve these queries from now on."""
        super().plan(schedules)
        if self.by_panes:
            self.thresholds.plan(schedules)
        self._remake(self._held())

    def exact_from(self, schedule: Schedule, frontier: int) -> int:
        """Return the first start that is not passed yet, or an earlier one where what is kept is enough.

        What waits is not lost, unless it was filtered before it got here.
        """
        filtered = self.thresholds.exact_from(schedule, frontier)
        if self.passed == NEVER:
            return filtered
        start = schedule.first_start_from(self.passed)
        while self.keepers and self.exact_before(schedule, start - schedule.slide):
            start -= schedule.slide
        return max(start, filtered)

    @property
    def thresholded(self) -> PaneThresholds | None:
        """The thresholds of panes; None for count windows, and where more of a pane than its best K matters."""
        return self.thresholds if self.by_panes and not self.store.counts else None

    def forget_between(self, low: int, high: int) -> None:
        """Drop what is kept there, and make new keepers of the rest."""
        self.thresholds.forget_between(low, high)
        self.waiting = self.waiting[self._outside(self.waiting, low, high)]
        held = self._held()
        self._remake(held[self._outside(held, low, high)])

    # Insert.

    def push(self, arriving: Arriving, counts: BatchCounts) -> None:
        """Let events wait; process late ones at once."""
        slots = keep_all(arriving, counts)
        self.thresholds.pushed(counts.first, counts.newest)
        late = self.store.position[slots] < self.passed
        if late.any():
            self._hand_on(slots[late], DueWindows.none(), np.empty(0, np.int64))
        self.waiting = np.concatenate([self.waiting, slots[~late]])

    def _hand_on(self, slots: SlotArray, windows: DueWindows, ks: IntArray) -> Selection:
        """Hand events to their partitions' keepers, in order, and collect the answers, partition by partition."""
        position, part = self.store.position[slots], self.store.part[slots]
        order = np.lexsort((slots, position, part))
        slots, position, part = slots[order], position[order], part[order]
        self._renumber()
        for number in np.unique(part).tolist():
            if number not in self.keepers:
                self.keepers[number] = self.keeper(int(position[np.searchsorted(part, number)]))
        found, every = [], np.arange(len(windows))
        for number, keeper in sorted(self.keepers.items()):
            mine = slots[slice(*np.searchsorted(part, [number, number + 1]))]
            found.append((keeper.process(mine, windows, ks, self.passed), every))
        return together(found, len(windows))

    def _renumber(self) -> None:
        """Find the keepers' partitions again, whose numbers move as others come and go; forget empty keepers."""
        held = [(keeper, keeper.kept()) for keeper in self.keepers.values()]
        self.keepers = {int(self.store.part[kept[0]]): keeper for keeper, kept in held if len(kept)}

    # Expire and answer.

    def answer(self, due: DueWindows, sealed_to: int) -> Selection:
        """Take in all that is sealed, and answer each window when its last event is in."""
        ready = self.store.position[self.waiting] < sealed_to
        slots, self.waiting = self.waiting[ready], self.waiting[~ready]
        self.passed = max(self.passed, sealed_to)
        windows, ks, of = meta_windows(due, np.array([s.k for s in self.schedules], np.int64))
        found = extract(self._hand_on(slots, windows, ks), self.store, due, self.schedules, of)
        self.thresholds.forget(self.passed, self.schedules)
        return found

    # State.

    def kept(self) -> SlotArray:
        """Return the slots of all kept events."""
        return np.concatenate([self._held(), self.waiting])

    def _held(self) -> SlotArray:
        """Return the slots of all events that keepers have."""
        return np.concatenate([*(keeper.kept() for keeper in self.keepers.values()), NO_SLOTS])

    def bound(self) -> int:
        """Return how many events the keepers hold at most, and how many wait."""
        return sum(keeper.bound() for keeper in self.keepers.values()) + len(self.waiting)

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        self.waiting = moved[self.waiting]
        for keeper in self.keepers.values():
            keeper.compact(moved)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as numbers and arrays: the rest follows from it."""
        state = {"waiting": self.waiting.copy(), "held": np.sort(self._held()), "passed": self.passed}
        return state | self.thresholds.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `snapshot` returned."""
        self.waiting, self.passed = state["waiting"], state["passed"]
        self.thresholds.load(state, self.passed)
        self._remake(state["held"])

    def _remake(self, held: SlotArray) -> None:
        """Make new keepers of kept events: of those that any old or new query needs, none is missing in them."""
        self.keepers = {}
        if len(held):
            self._hand_on(held, DueWindows.none(), np.empty(0, np.int64))

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        kept = self.kept()
        assert len(np.unique(kept)) == len(kept), "an event is kept twice"
        assert np.all(self.store.position[self.waiting] >= self.passed), "an event waits in vain"
        assert len(kept) <= self.bound(), "more is kept than the bound allows"
        for keeper in self.keepers.values():
            assert len(np.unique(self.store.part[keeper.kept()])) < 2, "a keeper has events of two partitions"
            keeper.check()


def together(found: Sequence[tuple[Selection, IntArray]], windows: int) -> Selection:
    """Put answers together, each given with the windows that it is about; in each window in the order given."""
    if len(found) == 1 and len(found[0][1]) == windows:
        return found[0][0]
    of = np.concatenate([*(np.repeat(about, np.diff(picks.offsets)) for picks, about in found), np.empty(0, np.int64)])
    order = np.argsort(of, kind="stable")
    slots = np.concatenate([*(picks.slots for picks, _ in found), NO_SLOTS])[order]
    return Selection(slots, np.searchsorted(of[order], np.arange(windows + 1)))


def meta_windows(due: DueWindows, ks: IntArray) -> tuple[DueWindows, IntArray, IntArray]:
    """Return each due window once, with the largest k that is asked of it, and which of them each due one is.

    Examples
    --------
    >>> due = DueWindows(np.array([0, 1, 2]), np.array([0, 4, 0]), np.array([8, 8, 8]))
    >>> windows, ks, of = meta_windows(due, np.array([3, 1, 2]))
    >>> windows.start.tolist(), ks.tolist(), of.tolist()
    ([0, 4], [3, 1], [0, 1, 0])
    """
    order = np.lexsort((due.start, due.end))
    start, end = due.start[order], due.end[order]
    new = rank_in_runs(start, end) == 0
    of = np.empty(len(order), np.int64)
    of[order] = np.cumsum(new) - 1
    most = np.maximum.reduceat(ks[due.query[order]], np.flatnonzero(new)) if len(order) else np.empty(0, np.int64)
    return DueWindows(due.query[order][new], start[new], end[new]), most, of


def extract(
    picks: Selection, store: EventStore, due: DueWindows, schedules: Sequence[Schedule], of: IntArray
) -> Selection:
    """Give each query its share of what was picked for its window: the first k of each partition."""
    ks = np.array([s.k for s in schedules], np.int64)[due.query]
    window, place = progressions(picks.offsets[:-1][of], 1, np.diff(picks.offsets)[of])
    slots = picks.slots[place]
    mine = rank_in_runs(window, store.part[slots]) < ks[window]
    return Selection(slots[mine], np.searchsorted(window[mine], np.arange(len(due) + 1)))


def meta_query(schedules: Sequence[Schedule]) -> list[Schedule]:
    """Return the members of the meta query: queries with the same windows count as one, with the largest k.

    Examples
    --------
    >>> queries = [Schedule(8, 4, name="a", k=3), Schedule(4, 2, name="b", k=1), Schedule(8, 4, name="c", k=5)]
    >>> [(member.size, member.slide, member.k) for member in meta_query(queries)]
    [(8, 4, 5), (4, 2, 1)]
    """
    alike: dict[tuple[int, int, int], list[Schedule]] = {}
    for schedule in schedules:
        alike.setdefault((schedule.size, schedule.slide, schedule.phase), []).append(schedule)
    return [
        Schedule(*windows, name="", k=max(s.k for s in same), closed_to=min(s.closed_to for s in same))
        for windows, same in alike.items()
    ]
