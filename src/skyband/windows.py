"""Window arithmetic on one axis: which windows there are, and which are due.

The axis of a time window is event time in microseconds, that of a count window the arrival number of the
event. On it every window is ``[start, start + size)`` with ``start = phase (mod slide)``; right-closed windows
are the same, one microsecond later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np

from skyband.errors import TooManyWindows
from skyband.order import ALWAYS, NEVER, IntArray
from skyband.query import Query

__all__ = ["ALWAYS", "NEVER", "Due", "Layout", "Schedule", "layout", "progressions"]
MOST_DUE = 20_000_000


@dataclass
class Schedule:
    """The windows of one query: which are past, which come next, from where on answers are exact.

    Of a query that came later, `case` says how it lies to the others, and `missing_from` and `missing_to` what of the
    stream's past it misses; `past` whether that is "missing" for good, "awaited", or "filled". Windows that start where
    it was filled are exact too.
    """

    name: str
    k: int
    size: int
    slide: int
    phase: int
    shift: int
    closed_to: int = NEVER
    exact_from: int = NEVER
    paused: bool = False
    case: str = ""
    missing_from: int = NEVER
    missing_to: int = NEVER
    past: str = ""

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

    def is_exact(self, start: int) -> bool:
        """Tell whether a window that starts there misses nothing."""
        return start >= self.exact_from or (self.past == "filled" and self.missing_from <= start < self.missing_to)

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
        return Due.by([self], first, [limit]).end


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
        size, slide, phase, _, closed, _ = layout(schedules)
        begun, limit = np.maximum(first, closed), np.array(limits, np.int64)
        start = begun + slide - (begun - phase - size) % slide  # the first end after either
        count = np.maximum((limit - start) // slide + 1, 0)
        if np.any(count > MOST_DUE):
            which = int(count.argmax())
            msg = (
                f"query {schedules[which].name!r} would have {count[which]:,} windows to answer at once: "
                f"event time jumps from {first} to {limits[which]} (microseconds); check the unit of the time column "
                "(time_unit), or filter out rows with impossible times"
            )
            raise TooManyWindows(msg)
        query, end = progressions(start, slide, count)
        order = np.argsort(end, kind="stable")
        query, end = query[order], end[order]
        return cls(query, end - size[query], end)


class Layout(NamedTuple):
    """Schedules column by column; `start` is where the next window of each starts, as `Schedule.next_start` says."""

    size: IntArray
    slide: IntArray
    phase: IntArray
    k: IntArray
    closed: IntArray
    start: IntArray


_NUMBERS = attrgetter("size", "slide", "phase", "k", "closed_to")


def layout(schedules: Sequence[Schedule]) -> Layout:
    """Return the numbers of schedules as columns."""
    numbers = np.fromiter(chain.from_iterable(map(_NUMBERS, schedules)), np.int64, 5 * len(schedules))
    size, slide, phase, k, closed = np.ascontiguousarray(numbers.reshape(-1, 5).T)
    start = np.where(closed == NEVER, NEVER, closed - (closed - phase - size) % slide + slide - size)
    return Layout(size, slide, phase, k, closed, start)


def progressions(start: IntArray, step: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Return the terms of several arithmetic progressions: of which one each is, and the term.

    Examples
    --------
    >>> which, term = progressions(np.array([0, 7]), np.array([10, 1]), np.array([2, 3]))
    >>> which.tolist(), term.tolist()
    ([0, 0, 1, 1, 1], [0, 10, 7, 8, 9])
    """
    which = np.repeat(np.arange(len(count)), count)
    turn = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return which, start[which] + turn * step[which]
