"""Thresholds pane by pane, for algorithms that need no more of a pane than its best K.

All windows hold all of a pane or nothing of it. So an event that K others of its pane dominate is in no answer,
whatever an algorithm keeps; those others need not be kept any more, they only must have arrived. That makes the K-th
best of the kept events of a pane a threshold for the events to come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from skyband.algorithms.panes import Panes
from skyband.events.store import EventStore
from skyband.order import FloatArray, IntArray, SlotArray, rank_in_runs
from skyband.windows import NEVER, Schedule, layout

STATE = "panes/"  # what names in a snapshot begin with


class PaneThresholds:
    """The interface `skyband.algorithms.base.Thresholded` for the events that `kept` returns.

    What is filtered by it limits which later queries are exact: from the first call of `pane_edges` on, a pane may have
    lost events that K others of it dominate. Before, nothing is recorded, and nothing costs anything.
    """

    def __init__(self, store: EventStore, kept: Callable[[], SlotArray]) -> None:
        self.store, self.kept = store, kept
        self.panes, self.k = Panes(), 0
        self.passed = NEVER  # up to where events were handed on in order
        self.used = False

    def plan(self, schedules: Sequence[Schedule]) -> None:
        """Serve these queries from now on; panes are cut where their windows start and end."""
        self.k = max((schedule.k for schedule in schedules), default=0)
        self.panes.refine(schedules)

    # The interface.

    def pane_edges(self, low: int, high: int) -> IntArray:
        """Return the edges of the open panes, from `low` to `high` at least."""
        self.used = True
        edges = self.panes.edges(low, high)
        return edges[max(int(np.searchsorted(edges, self.passed, side="right")) - 1, 0) :]

    def kth_best(self, edges: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the K-th best kept events between neighbouring edges: place among the edges, partition, merit."""
        store, slots = self.store, self.kept()
        place = np.searchsorted(edges, store.position[slots], side="right") - 1
        inside = (place >= 0) & (place < len(edges) - 1)
        slots, place = slots[inside], place[inside]
        order = store.best_first(slots, place, store.part[slots])
        slots, place = slots[order], place[order]
        kth = rank_in_runs(place, store.part[slots]) == self.k - 1
        return place[kth], store.part[slots[kth]], store.merit[slots[kth]]

    def record_filtered(self, low: int, high: int, depth: int, best: float) -> None:
        """Record events between two edges that were dropped before `push`: their panes lost them."""
        self.panes.record_filtered(low, high, depth, best)

    # What was filtered.

    def pushed(self, first: int, newest: int) -> None:
        """Note that a batch has come, whose first event is at `first` and whose newest row at `newest`.

        Of the open panes that it reached, any event may be missing that K others of its pane dominate.
        """
        low = first if self.passed == NEVER else self.passed
        if self.used and low <= newest:
            self.panes.record_filtered(low, newest + 1, self.k, np.inf)

    def exact_from(self, schedule: Schedule, frontier: int) -> int:
        """Return the start of the first window from which on a new query misses nothing that was filtered."""
        return self.panes.exact_from(schedule, frontier) if self.used else NEVER

    def forget_between(self, low: int, high: int) -> None:
        """Note that all events of ``[low, high)`` will be pushed again."""
        if self.used:
            self.panes.restore(low, high, self.k)

    def forget(self, passed: int, schedules: Sequence[Schedule]) -> None:
        """Note that events were handed on up to a moment; forget the panes before every coming window."""
        self.passed = passed
        cuts = self.panes.cuts
        if len(cuts):
            oldest = int(layout(schedules).start.min(initial=passed))
            self.panes.forget(int(np.searchsorted(cuts, oldest, side="right")) - 1)

    # State.

    def state(self) -> dict[str, Any]:
        """Return what was filtered, as numbers and arrays; nothing where nothing was."""
        return {f"{STATE}{name}": value for name, value in self.panes.state().items()} if self.used else {}

    def load(self, state: dict[str, Any], passed: int) -> None:
        """Take over what `state` returned, among other things; `plan` was called before."""
        mine = {name.removeprefix(STATE): value for name, value in state.items() if name.startswith(STATE)}
        self.used, self.passed = bool(mine), passed
        if mine:
            self.panes.load(mine)
