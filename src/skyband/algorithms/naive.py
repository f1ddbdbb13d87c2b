"""Keep the whole window and sort it anew for every answer: the baseline.

Choose it to check another algorithm, never for speed.

Guarantees: exact; keeps every event of the longest window still to be answered; an answer costs
O(n log n) for n events kept.

Invariant: no event that an unanswered window contains is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.base import NO_SLOTS, Algorithm, Arriving, BatchCounts, Selection, keep_all, top
from skyband.events.store import EventStore
from skyband.order import SlotArray
from skyband.queries.query import Distinct
from skyband.windows import NEVER, DueWindows, Schedule, layout


class Naive(Algorithm):
    """Recompute each answer from the whole window."""

    name = "naive"
    summary = "keeps the whole window, sorts it for every answer; the baseline"

    def __init__(self, store: EventStore, distinct: Distinct | None) -> None:
        super().__init__(store, distinct)
        self.slots = NO_SLOTS
        self.complete_from = NEVER

    def exact_from(self, schedule: Schedule, frontier: int) -> int:  # noqa: ARG002 - everything seen is kept
        """Return the first start at or after the point from which on every event is still here."""
        return NEVER if self.complete_from == NEVER else schedule.first_start_from(self.complete_from)

    def forget_between(self, low: int, high: int) -> None:
        """Drop what is kept there; what was forgotten before comes back."""
        self.slots = self.slots[self._outside(self.slots, low, high)]
        if high >= self.complete_from:
            self.complete_from = min(self.complete_from, low)

    def push(self, arriving: Arriving, counts: BatchCounts) -> None:
        """Keep all events."""
        self.slots = np.concatenate([self.slots, keep_all(arriving, counts)])

    def answer(self, due: DueWindows, sealed_to: int) -> Selection:  # noqa: ARG002 - nothing is done ahead of time
        """Sort each window anew, then forget what no coming window contains."""
        position = self.store.position[self.slots]
        found = [
            top(self.store, self.slots[(position >= start) & (position < end)], self.schedules[q].k, self.distinct)
            for q, start, end in zip(due.query, due.start, due.end, strict=True)
        ]
        if len(due):
            columns = layout(self.schedules)
            start = columns.start
            start[due.query] = columns.following(due)  # in order of ends: the last one stays
            self.complete_from = max(self.complete_from, int(start.min()))
            self.slots = self.slots[position >= self.complete_from]
        return Selection.of(found)

    def kept(self) -> SlotArray:
        """Return the slots of all kept events."""
        return self.slots

    def bound(self) -> int:
        """Return the number of events of the longest window: no smaller bound holds."""
        return len(self.slots)

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        self.slots = moved[self.slots]

    def snapshot(self) -> dict[str, Any]:
        """Return the state as numbers and arrays."""
        return {"slots": self.slots.copy(), "complete_from": self.complete_from}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `snapshot` returned."""
        self.slots = state["slots"]
        self.complete_from = state["complete_from"]

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        assert len(np.unique(self.slots)) == len(self.slots)
