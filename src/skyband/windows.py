"""Window arithmetic on one axis: which windows there are, and which are due.

The axis of a time window is event time in microseconds, that of a count window the arrival number of the
event. On it every window is ``[start, start + size)`` with ``start = phase (mod slide)``; right-closed windows
are the same, one microsecond later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from skyband.errors import TooManyWindows
from skyband.order import IntArray
from skyband.query import Query

NEVER = -(2**62)
"""A position before every event."""
ALWAYS = 2**62
"""A position after every event."""
MOST_DUE = 20_000_000


@dataclass
class Schedule:
    """The windows of one query: which are past, which come next, from where on answers are exact."""

    name: str
    k: int
    size: int
    slide: int
    phase: int
    shift: int
    closed_to: int = NEVER
    exact_from: int = NEVER
    paused: bool = False

    @classmethod
    def of(cls, query: Query) -> Self:
        """Lay out the windows of a query on its axis."""
        window = query.window
        if window.counts:  # answered every `slide` events: the ends are aligned, not the starts
            return cls(query.name, query.k, window.size, window.slide, -window.size % window.slide, 0)
        shift = 1 if window.closed == "right" else 0
        phase = (window.offset + shift) % window.slide
        return cls(query.name, query.k, window.size, window.slide, phase, shift)

    @property
    def next_start(self) -> int:
        """Where the first window that is not yet answered starts."""
        return NEVER if self.closed_to == NEVER else self.last_end_by(self.closed_to) + self.slide - self.size

    def first_end_after(self, position: int) -> int:
        """Return the first window end after a position: of the first window that contains it."""
        return position + self.slide - (position - self.phase - self.size) % self.slide

    def first_start_from(self, position: int) -> int:
        """Return the first window start at or after a position."""
        return self.first_end_after(position - 1 + self.size) - self.size

    def last_end_by(self, position: int) -> int:
        """Return the last window end at or before a position."""
        return position - (position - self.phase - self.size) % self.slide

    def last_end_of(self, position: int) -> int:
        """Return the end of the last window that contains a position."""
        return position - (position - self.phase) % self.slide + self.size

    def ends_between(self, first: int, limit: int) -> IntArray:
        """Return the ends of the unanswered windows from the one that contains `first` up to `limit`."""
        start = max(self.first_end_after(first), self.first_end_after(self.closed_to))
        if limit < start:
            return np.empty(0, np.int64)
        if (limit - start) // self.slide >= MOST_DUE:
            msg = (
                f"query {self.name!r} would have {(limit - start) // self.slide + 1:,} windows to answer at once: "
                f"event time jumps from {first} to {limit} (microseconds); check the unit of the time column "
                "(time_unit), or filter out rows with impossible times"
            )
            raise TooManyWindows(msg)
        return np.arange(start, limit + 1, self.slide, dtype=np.int64)


@dataclass(frozen=True)
class Due:
    """Windows to answer, in order of their ends; `query` indexes the schedules."""

    query: IntArray
    start: IntArray
    end: IntArray

    def __len__(self) -> int:
        return len(self.end)

    def __getitem__(self, part: slice) -> Due:
        return Due(self.query[part], self.start[part], self.end[part])

    @classmethod
    def none(cls) -> Due:
        """Return no windows."""
        return cls(*(np.empty(0, np.int64) for _ in range(3)))

    @classmethod
    def by(cls, schedules: Sequence[Schedule], first: int, limits: Sequence[int]) -> Due:
        """List the windows of each schedule that contain something from `first` on and end by its limit."""
        ends = [s.ends_between(first, limit) for s, limit in zip(schedules, limits, strict=True)]
        end = np.concatenate([*ends, np.empty(0, np.int64)])
        query = np.repeat(np.arange(len(ends)), [len(part) for part in ends])
        order = np.argsort(end, kind="stable")
        query, end = query[order], end[order]
        sizes = np.array([s.size for s in schedules], np.int64)
        return cls(query, end - sizes[query], end)
