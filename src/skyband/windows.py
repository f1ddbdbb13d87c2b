"""Windows: what a query says of them, which there are on one axis, and which are due.

The axis of a time window is event time in microseconds, that of a count window the arrival number of the
event. On it every window is ``[start, start + size)`` with ``start = phase (mod slide)``; right-closed windows
are the same, one microsecond later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Self, TypeVar, get_args

import numpy as np

from skyband.errors import QueryError, TooManyWindows
from skyband.order import ALWAYS, NEVER, IntArray
from skyband.times import Duration, format_duration, parse_duration

__all__ = ["ALWAYS", "NEVER", "Backfill", "DueWindows", "Layout", "Schedule", "layout", "progressions"]
MOST_DUE = 20_000_000

Closed = Literal["left", "right"]
N = TypeVar("N", int, IntArray)

_COUNT = re.compile(r"\s*(\d+)\s*(?:events?|rows?)\s*")


@dataclass
class WindowGrid:
    """Which windows there are, by number: window w is ``[phase + w * slide, phase + w * slide + size)``.

    Examples
    --------
    >>> windows = WindowGrid(9, 3)
    >>> windows.first_of(10), windows.last_of(10), windows.start(1), windows.end(1)
    (1, 3, 3, 12)
    >>> windows.first_end_after(12), windows.last_end_of(12), windows.first_start_from(12)
    (15, 21, 12)
    """

    size: int
    slide: int
    phase: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.slide <= self.size:
            msg = f"the window has size {self.size} and slide {self.slide}; a slide is more than 0 and at most the size"
            raise QueryError(msg)

    def start(self, window: N) -> N:
        """Return where a window starts."""
        return self.phase + window * self.slide

    def end(self, window: N) -> N:
        """Return where a window ends."""
        return self.start(window) + self.size

    def first_of(self, position: N) -> N:
        """Return the first window that contains a position."""
        return (position - self.phase - self.size) // self.slide + 1

    def last_of(self, position: N) -> N:
        """Return the last window that contains a position."""
        return (position - self.phase) // self.slide

    def ending(self, end: int) -> int:
        """Return the window that ends there."""
        window = self.first_of(end) - 1
        if self.end(window) != end:
            msg = (
                f"no window ends at {end}: with size {self.size}, slide {self.slide} and offset {self.phase} "
                f"one ends at {self.end(window)}, the next at {self.end(window + 1)}"
            )
            raise QueryError(msg)
        return window

    def first_end_after(self, position: N) -> N:
        """Return the first window end after a position: of the first window that contains it."""
        return self.end(self.first_of(position))

    def last_end_of(self, position: N) -> N:
        """Return the end of the last window that contains a position."""
        return self.end(self.last_of(position))

    def first_start_from(self, position: N) -> N:
        """Return the first window start at or after a position."""
        return self.start(self.last_of(position - 1) + 1)


@dataclass(frozen=True)
class PaneGrid:
    """The panes of one query's windows, by number: two for every slide, of which one may be empty.

    Examples
    --------
    >>> grid = PaneGrid(WindowGrid(7, 3))
    >>> grid.of(np.array([0, 1, 2, 6, 7])).tolist(), grid.first(0), grid.behind(0)
    ([0, 1, 1, 4, 5], 0, 5)
    """

    windows: WindowGrid

    @property
    def rest(self) -> int:
        """Where within a slide windows end; 0 where they end with it."""
        return self.windows.size % self.windows.slide

    def of(self, time: IntArray) -> IntArray:
        """Return the pane of each time."""
        slides, within = np.divmod(time - self.windows.phase, self.windows.slide)
        second = (within >= self.rest) & (self.rest > 0)
        return 2 * slides + second.astype(np.int64)

    def first(self, window: int) -> int:
        """Return the first pane of a window."""
        return 2 * window

    def behind(self, window: int) -> int:
        """Return the first pane behind a window."""
        return 2 * (window + self.windows.size // self.windows.slide) + (self.rest > 0)


@dataclass(frozen=True)
class Window:
    """The last `size`, answered every `slide`.

    Parameters
    ----------
    size
        How far a window reaches: ``"10 minutes"``, a `timedelta` or microseconds for event time; ``"100 events"``
        for the last 100 events in arrival order.
    slide
        How often it is answered, in the same kind; `size` (windows that touch and never overlap) when left out.
    offset
        Shifts the starts of time windows away from the epoch: ``"15 minutes"`` gives windows that start at a
        quarter past.
    closed
        ``"left"``: windows are ``[start, end)``; ``"right"``: ``(start, end]``, as in RSP-QL.

    Examples
    --------
    >>> Window("1 hour", slide="10 minutes")
    Window('1 hour', slide='10 minutes')
    >>> Window("100 events", slide="1 event").counts
    True
    """

    size: int
    slide: int
    offset: int
    closed: Closed
    counts: bool

    def __init__(
        self,
        size: Duration,
        slide: Duration | None = None,
        *,
        offset: Duration = 0,
        closed: Closed = "left",
    ) -> None:
        problems: list[str] = []
        length, counts = parse_extent(size, "size", problems)
        step, counts_too = (length, counts) if slide is None else parse_extent(slide, "slide", problems)
        shift = _checked(offset, "offset", problems)
        if not problems:
            problems += _window_problems(length, step, shift, closed, counts, counts_too)
        if problems:
            raise QueryError(problems)
        given = {"size": length, "slide": step, "offset": shift, "closed": closed, "counts": counts}
        for name, value in given.items():
            object.__setattr__(self, name, value)

    @property
    def shift(self) -> int:
        """How much later than here windows lie on their axis: 1 where they are closed on the right."""
        return 1 if self.closed == "right" else 0

    @property
    def grid(self) -> WindowGrid:
        """The windows on their axis."""
        if self.counts:  # answered every `slide` events: the ends are aligned, not the starts
            return WindowGrid(self.size, self.slide, -self.size % self.slide)
        return WindowGrid(self.size, self.slide, (self.offset + self.shift) % self.slide)

    def __repr__(self) -> str:
        parts = [repr(format_extent(self.size, self.counts)), f"slide={format_extent(self.slide, self.counts)!r}"]
        if self.offset:
            parts.append(f"offset={format_duration(self.offset)!r}")
        if self.closed != "left":
            parts.append(f"closed={self.closed!r}")
        return f"Window({', '.join(parts)})"

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters that make this window again."""
        return {
            "size": format_extent(self.size, self.counts),
            "slide": format_extent(self.slide, self.counts),
            "offset": format_duration(self.offset) if self.offset else 0,
            "closed": self.closed,
        }


def parse_extent(value: Duration, what: str, problems: list[str]) -> tuple[int, bool]:
    """Return how long something is, and whether that counts events; add to the problems what is wrong with it."""
    if isinstance(value, str) and (match := _COUNT.fullmatch(value)):
        if len(match[1]) > 18:
            problems.append(f"{what} has a number of {len(match[1]):,} digits; at most 18 are allowed")
            return 1, True
        return int(match[1]), True
    return _checked(value, what, problems), False


def format_extent(extent: int, counts: bool) -> str:
    """Return how long something is in words, as a number of events or as a duration."""
    return f"{extent} event{'' if extent == 1 else 's'}" if counts else format_duration(extent)


def _checked(value: Duration, what: str, problems: list[str]) -> int:
    try:
        return parse_duration(value, what)
    except QueryError as error:
        problems.extend(error.problems)
        return 0


def _window_problems(size: int, slide: int, offset: int, closed: str, counts: bool, counts_too: bool) -> list[str]:
    problems = []
    said, slide_said = format_extent(size, counts), format_extent(slide, counts_too)
    if counts != counts_too:
        problems.append(f"size is {said} but slide is {slide_said}; give both in time or both in events")
    if size <= 0:
        problems.append(f"size is {said}; it must be more than 0")
    if slide <= 0:
        problems.append(f"slide is {slide_said}; it must be more than 0")
    if counts == counts_too and slide > size > 0:
        problems.append(
            f"slide ({slide_said}) is larger than size ({said}), so events between two windows would be in no answer; "
            "use a slide of at most the size"
        )
    if closed not in get_args(Closed):
        problems.append(f"closed is {closed!r}; use 'left' for [start, end) or 'right' for (start, end]")
    if counts and (offset or closed != "left"):
        problems.append("offset and closed are for time windows; leave them out of a window that counts events")
    return problems


@dataclass(frozen=True)
class Backfill:
    """What a new query misses of a stream's past: events from `low` on and before `high`.

    `case` is its position relative to the other queries: case I-IV of `skyband.algorithms.stkqf.skyline`. `state` says
    whether the events are "missing" for good, "pending", or "done".
    """

    case: str
    low: int
    high: int
    state: Literal["missing", "pending", "done"] = "missing"


@dataclass(kw_only=True)
class Schedule(WindowGrid):
    """The windows of one query: which are past, which come next, from where on answers are exact.

    Windows before that of the `first` event are not answered; one that came too late for all windows is not it.
    `backfill` is what a query that came later misses of the stream's past. Windows that start where it is done are
    exact too.
    """

    name: str
    k: int
    shift: int = 0
    closed_to: int = NEVER
    first: int = ALWAYS
    exact_from: int = NEVER
    paused: bool = False
    backfill: Backfill | None = None

    @classmethod
    def of(cls, name: str, k: int, window: Window) -> Self:
        """Lay out the windows of a query on their axis."""
        grid = window.grid
        return cls(grid.size, grid.slide, grid.phase, name=name, k=k, shift=window.shift)

    @classmethod
    def load(cls, state: dict[str, Any]) -> Self:
        """Return the schedule that `dataclasses.asdict` turned into a dict."""
        backfill = state["backfill"]
        return cls(**{**state, "backfill": None if backfill is None else Backfill(**backfill)})

    @property
    def next_start(self) -> int:
        """Where the first window that is not yet answered starts."""
        return NEVER if self.closed_to == NEVER else self.start(self.first_of(self.closed_to))

    def is_exact(self, start: int) -> bool:
        """Tell whether a window that starts there misses nothing."""
        past = self.backfill
        return start >= self.exact_from or (past is not None and past.state == "done" and past.low <= start < past.high)

    @property
    def pending(self) -> Backfill | None:
        """The past that the query waits for; None where it waits for nothing."""
        return self.backfill if self.backfill is not None and self.backfill.state == "pending" else None

    def still_missing(self) -> tuple[int, int]:
        """Return from where to where the query misses events of the past, from its next window on."""
        assert self.backfill is not None, f"query {self.name!r} misses nothing of the past"
        return max(self.next_start, self.backfill.low), self.backfill.high

    def ends_by(self, limit: int) -> IntArray:
        """Return the ends of the unanswered windows from the one that contains the first event up to `limit`."""
        return DueWindows.by([self], [limit]).end


@dataclass(frozen=True)
class DueWindows:
    """Windows to answer, in order of their ends; `query` indexes the schedules."""

    query: IntArray
    start: IntArray
    end: IntArray

    def __len__(self) -> int:
        return len(self.end)

    def __getitem__(self, part: slice | IntArray) -> DueWindows:
        return DueWindows(self.query[part], self.start[part], self.end[part])

    @classmethod
    def none(cls) -> DueWindows:
        """Return no windows."""
        return cls(*(np.empty(0, np.int64) for _ in range(3)))

    @classmethod
    def by(cls, schedules: Sequence[Schedule], limits: Sequence[int]) -> DueWindows:
        """List the windows of each schedule that contain something from its first event on and end by its limit."""
        columns = layout(schedules)
        first, slide = np.array([schedule.first for schedule in schedules], np.int64), columns.slide
        start, limit = columns.first_end_after(np.maximum(first, columns.closed)), np.array(limits, np.int64)
        count = np.where(limit < start, 0, (limit - start) // slide + 1)  # NEVER less ALWAYS does not fit int64
        if np.any(count > MOST_DUE):
            which = int(count.argmax())
            msg = (
                f"query {schedules[which].name!r} would have {count[which]:,} windows to answer at once: "
                f"event time jumps from {first[which]} to {limits[which]} (microseconds); check the unit of the time "
                "column (time_unit), or filter out rows with impossible times"
            )
            raise TooManyWindows(msg)
        query, end = progressions(start, slide, count)
        order = np.argsort(end, kind="stable")
        query, end = query[order], end[order]
        return cls(query, end - columns.size[query], end)


class Layout(NamedTuple):
    """Schedules column by column."""

    size: IntArray
    slide: IntArray
    phase: IntArray
    k: IntArray
    closed: IntArray

    def first_end_after(self, position: IntArray) -> IntArray:
        """Return, schedule by schedule, the first window end after a position, as `WindowGrid` does for one."""
        return position + self.slide - (position - self.phase - self.size) % self.slide

    @property
    def start(self) -> IntArray:
        """Where the next window of each starts, as `Schedule.next_start` says."""
        return np.where(self.closed == NEVER, NEVER, self.first_end_after(self.closed) - self.size)


_NUMBERS = attrgetter("size", "slide", "phase", "k", "closed_to")


def watermark_of(newest: int, delay: int | None) -> int | None:
    """Return the watermark: the time `delay` before the newest event; None without an event or a delay."""
    return None if delay is None or newest == NEVER else newest - delay


def layout(schedules: Sequence[Schedule]) -> Layout:
    """Return the numbers of schedules as columns."""
    numbers = np.fromiter(chain.from_iterable(map(_NUMBERS, schedules)), np.int64, 5 * len(schedules))
    return Layout(*np.ascontiguousarray(numbers.reshape(-1, 5).T))


def progressions(start: IntArray, step: IntArray | int, count: IntArray) -> tuple[IntArray, IntArray]:
    """Return the terms of several arithmetic progressions, one after another: which one each is of, and the term.

    Examples
    --------
    >>> which, term = progressions(np.array([0, 7]), np.array([10, 1]), np.array([2, 3]))
    >>> which.tolist(), term.tolist()
    ([0, 0, 1, 1, 1], [0, 10, 7, 8, 9])
    """
    which = np.repeat(np.arange(len(count)), count)
    turn = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return which, start[which] + turn * np.broadcast_to(step, count.shape)[which]
