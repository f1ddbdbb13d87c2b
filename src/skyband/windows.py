"""Windows: what a query says of them, which there are on one axis, and which are due.

The axis of a time window is event time in microseconds, that of a count window the arrival number of the
event, that of a calendar window `skyband.calendars`. On it every window that slides is ``[start, start + size)`` with
``start = phase (mod slide)``; right-closed windows are the same, one microsecond later. Windows that grow start at
``phase (mod period)``; those of all time are such with a period that holds all times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Self, TypeVar, cast, get_args

import numpy as np

from skyband.calendars import Calendar, Unit
from skyband.errors import QueryError, TooManyWindows
from skyband.order import ALWAYS, NEVER, IntArray
from skyband.times import DAY, FARTHEST, Duration, format_duration, parse_duration

__all__ = ["ALWAYS", "NEVER", "Backfill", "DueWindows", "Layout", "Schedule", "layout", "progressions"]
MOST_DUE = 20_000_000

Closed = Literal["left", "right"]
Kind = Literal["sliding", "cumulative", "all_time", "calendar"]
WINDOW_KEYS: dict[Kind, tuple[str, ...]] = {
    "sliding": ("size", "slide", "offset", "closed"),
    "cumulative": ("cumulative", "step", "offset"),
    "all_time": ("all_time", "every", "offset"),
    "calendar": ("calendar", "zone"),
}
"""What the table of a window may hold, by its kind; the first key says which it is."""
N = TypeVar("N", int, IntArray)
_RAREST = 365_250 * DAY

_COUNT = re.compile(r"\s*(\d+)\s*(?:events?|rows?)\s*")


@dataclass
class WindowGrid:
    """Which windows there are, by number: window w ends at ``phase + w * slide + size``.

    It starts at the first possible start from ``phase + w * slide`` on; these lie `period` apart. That is the slide
    where windows slide. Where windows grow until they begin anew it is their size.

    Examples
    --------
    >>> windows = WindowGrid(9, 3)
    >>> windows.first_of(10), windows.last_of(10), windows.start(1), windows.end(1)
    (1, 3, 3, 12)
    >>> windows.first_end_after(12), windows.last_end_of(12), windows.first_start_from(12)
    (15, 21, 12)
    >>> growing = WindowGrid(9, 3, period=9)
    >>> [(growing.start(window), growing.end(window)) for window in range(4)]
    [(0, 9), (9, 12), (9, 15), (9, 18)]
    """

    size: int
    slide: int
    phase: int = 0
    period: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.slide <= self.size:
            msg = f"the window has size {self.size} and slide {self.slide}; a slide is more than 0 and at most the size"
            raise QueryError(msg)
        self.period = self.period or self.slide

    def start(self, window: N) -> N:
        """Return where a window starts."""
        return self.phase - -window * self.slide // self.period * self.period

    def end(self, window: N) -> N:
        """Return where a window ends."""
        return self.phase + window * self.slide + self.size

    def first_of(self, position: N) -> N:
        """Return the first window that contains a position."""
        return (position - self.phase - self.size) // self.slide + 1

    def last_of(self, position: N) -> N:
        """Return the last window that contains a position."""
        return (position - self.phase) // self.period * self.period // self.slide

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
        return self.phase - (self.phase - position) // self.period * self.period

    def start_of(self, end: N) -> N:
        """Return where the window starts that ends there."""
        return self.first_start_from(end - self.size)

    @property
    def grows(self) -> bool:
        """Whether windows grow for a while, so that several start at one position."""
        return self.period != self.slide

    @property
    def endless(self) -> bool:
        """Whether windows grow for good."""
        return self.size >= 2 * FARTHEST

    def last_open(self, position: N) -> N:
        """Return the last window end to look at while the last event lies there.

        The further windows that grow hold the same events so far.
        """
        return self.first_end_after(position) if self.grows else self.last_end_of(position)

    def last_due(self, position: N) -> N:
        """Return the last window end that is due once the last event lies there; without end, the next."""
        return self.first_end_after(position) if self.endless else self.last_end_of(position)


@dataclass(frozen=True)
class PaneGrid:
    """The panes of one query's windows, by number: two for every slide, of which one may be empty.

    Where windows grow, they end with a slide: their size is a multiple of it.

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
        return 2 * ((self.windows.start(window) - self.windows.phase) // self.windows.slide)

    def behind(self, window: int) -> int:
        """Return the first pane behind a window."""
        return 2 * (window + self.windows.size // self.windows.slide) + (self.rest > 0)


@dataclass(frozen=True)
class Window:
    """The last `size`, answered every `slide`; other kinds of windows are made by the methods below.

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
    kind: Kind
    periods: Calendar | None

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
        self._set(size=length, slide=step, offset=shift, closed=closed, counts=counts)

    def _set(
        self, *, size: int, slide: int, offset: int = 0, closed: Closed = "left", counts: bool = False,
        kind: Kind = "sliding", periods: Calendar | None = None,
    ) -> Self:  # fmt: skip
        given = {"size": size, "slide": slide, "offset": offset, "closed": closed, "counts": counts, "kind": kind,
                 "periods": periods}  # fmt: skip
        for name, value in given.items():
            object.__setattr__(self, name, value)
        return self

    @classmethod
    def cumulative(cls, size: Duration, *, step: Duration, offset: Duration = 0) -> Self:
        """Make windows that grow by `step` until they are `size` long, and then begin anew, as Flink's CUMULATE.

        Parameters
        ----------
        size
            How long they become: ``"1 day"`` gives windows that all start at midnight (UTC).
        step
            By how much they grow, and how often they are answered; `size` must be a multiple of it.
        offset
            Shifts the starts away from the epoch.

        Examples
        --------
        >>> Window.cumulative("1 day", step="10 minutes")
        Window.cumulative('1 day', step='10 minutes')
        """
        problems: list[str] = []
        length, counts = parse_extent(size, "cumulative", problems)
        grows, counts_too = parse_extent(step, "step", problems)
        shift = _checked(offset, "offset", problems)
        if counts or counts_too:
            problems.append("cumulative windows are of time, and these count events; give both lengths in time")
        if not problems:
            problems += [
                f"{what} is {format_duration(extent)}; it must be more than 0"
                for what, extent in (("cumulative", length), ("step", grows))
                if extent <= 0
            ]
        if not problems and length % grows:
            problems.append(
                f"step ({format_duration(grows)}) does not divide the length ({format_duration(length)}), so the last "
                "window would be cut; give a step that fits into it a whole number of times"
            )
        if problems:
            raise QueryError(problems)
        return cls.__new__(cls)._set(size=length, slide=grows, offset=shift, kind="cumulative")

    @classmethod
    def all_time(cls, *, every: Duration, offset: Duration = 0) -> Self:
        """Make windows of everything so far, which never begin anew; their answers have no start.

        Parameters
        ----------
        every
            How often they are answered.
        offset
            Shifts the times of the answers away from the epoch.

        Examples
        --------
        >>> Window.all_time(every="10 seconds")
        Window.all_time(every='10 seconds')
        """
        problems: list[str] = []
        slide, counts = parse_extent(every, "every", problems)
        shift = _checked(offset, "offset", problems)
        if counts:
            problems.append("windows of all time are answered in time, and every counts events; give a length of time")
        elif not problems and not 0 < slide <= _RAREST:
            problems.append(f"every is {format_duration(slide)}; it must be more than 0, and at most 1000 years")
        if problems:
            raise QueryError(problems)
        size = (2 * FARTHEST // slide + 2) * slide  # from before all times to behind them
        return cls.__new__(cls)._set(size=size, slide=slide, offset=shift, kind="all_time")

    @classmethod
    def calendar(cls, unit: Unit, *, zone: str = "UTC") -> Self:
        """Make windows of the days, weeks (from Monday) or months of a time zone, each of its own length.

        Parameters
        ----------
        unit
            ``"day"``, ``"week"`` or ``"month"``.
        zone
            The name of a time zone, such as ``"Europe/Berlin"``.

        Examples
        --------
        >>> Window.calendar("month", zone="Europe/Berlin")
        Window.calendar('month', zone='Europe/Berlin')
        """
        periods = Calendar(unit, zone)
        return cls.__new__(cls)._set(size=periods.room, slide=periods.room, kind="calendar", periods=periods)

    @property
    def shift(self) -> int:
        """How much later than here windows lie on their axis: 1 where they are closed on the right."""
        return 1 if self.closed == "right" else 0

    @property
    def grid(self) -> WindowGrid:
        """The windows on their axis."""
        if self.counts:  # answered every `slide` events: the ends are aligned, not the starts
            return WindowGrid(self.size, self.slide, -self.size % self.slide)
        if self.kind == "all_time":
            return WindowGrid(self.size, self.slide, -FARTHEST - (-FARTHEST - self.offset) % self.slide, self.size)
        if self.kind == "cumulative":
            return WindowGrid(self.size, self.slide, self.offset % self.size, self.size)
        return WindowGrid(self.size, self.slide, (self.offset + self.shift) % self.slide)

    def __repr__(self) -> str:
        offset = [f"offset={format_duration(self.offset)!r}"] if self.offset else []
        match self.kind:
            case "cumulative":
                parts = [repr(format_duration(self.size)), f"step={format_duration(self.slide)!r}", *offset]
            case "all_time":
                parts = [f"every={format_duration(self.slide)!r}", *offset]
            case "calendar":
                assert self.periods is not None
                parts = [repr(self.periods.unit), f"zone={self.periods.zone!r}"]
            case _:
                parts = [repr(format_extent(self.size, self.counts)),
                         f"slide={format_extent(self.slide, self.counts)!r}", *offset]  # fmt: skip
                parts += [f"closed={self.closed!r}"] if self.closed != "left" else []
        return f"Window{'' if self.kind == 'sliding' else f'.{self.kind}'}({', '.join(parts)})"

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters that make this window again, as they stand in a query: a kind's in a table `window`."""
        offset = {"offset": format_duration(self.offset)} if self.offset else {}
        match self.kind:
            case "cumulative":
                size, step = format_duration(self.size), format_duration(self.slide)
                return {"window": {"cumulative": size, "step": step, **offset}}
            case "all_time":
                return {"window": {"all_time": True, "every": format_duration(self.slide), **offset}}
            case "calendar":
                assert self.periods is not None
                return {"window": {"calendar": self.periods.unit, "zone": self.periods.zone}}
        return {
            "size": format_extent(self.size, self.counts),
            "slide": format_extent(self.slide, self.counts),
            "offset": format_duration(self.offset) if self.offset else 0,
            "closed": self.closed,
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Make a window from plain values: what `as_dict` returns, or the table `window` of it.

        Examples
        --------
        >>> Window.from_dict({"size": "1 hour"})
        Window('1 hour', slide='1 hour')
        >>> Window.from_dict({"all_time": True, "every": "10 seconds"})
        Window.all_time(every='10 seconds')
        """
        table = given["window"] if set(given) == {"window"} else given
        forms = "; ".join(f"{{{', '.join(keys)}}}" for keys in WINDOW_KEYS.values())
        if not isinstance(table, Mapping):
            msg = f"window is {table!r}; give a table with one of these sets of keys: {forms}"
            raise QueryError(msg)
        if "session" in table:
            msg = f"session windows are not supported; window is a table with one of these sets of keys: {forms}"
            raise QueryError(msg)
        kind = next((kind for kind, keys in WINDOW_KEYS.items() if keys[0] in table), None)
        if kind is None or (unknown := sorted(set(table) - set(WINDOW_KEYS[kind]))):
            found = f"keys {', '.join(map(repr, table)) or 'none'}" if kind is None else f"unknown key {unknown[0]!r}"
            msg = f"window has {found}; give a table with one of these sets of keys: {forms}"
            raise QueryError(msg)
        needed = {"cumulative": "step", "all_time": "every"}.get(kind)
        if needed is not None and needed not in table:
            msg = f"window has {kind} without {needed!r}; say how often it is answered, such as {needed} = '10 seconds'"
            raise QueryError(msg)
        if kind == "sliding":
            return cls(**table)
        rest = {key: value for key, value in table.items() if key != kind}
        if kind == "all_time" and table[kind] is not True:
            msg = f"all_time is {table[kind]!r}; write all_time = true, or leave it out"
            raise QueryError(msg)
        first = () if kind == "all_time" else (table[kind],)
        return cast(Self, getattr(cls, kind)(*first, **rest))


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
    `since` is the position of the last event that came before the query. `backfill` is what a query that came later
    misses of the stream's past. Windows that start where it is done are exact too.
    """

    name: str
    k: int
    shift: int = 0
    closed_to: int = NEVER
    first: int = ALWAYS
    exact_from: int = NEVER
    paused: bool = False
    since: int = NEVER
    backfill: Backfill | None = None

    @classmethod
    def of(cls, name: str, k: int, window: Window) -> Self:
        """Lay out the windows of a query on their axis."""
        grid = window.grid
        return cls(grid.size, grid.slide, grid.phase, grid.period, name=name, k=k, shift=window.shift)

    @classmethod
    def load(cls, state: dict[str, Any]) -> Self:
        """Return the schedule that `dataclasses.asdict` turned into a dict."""
        backfill = state["backfill"]
        return cls(**{**state, "backfill": None if backfill is None else Backfill(**backfill)})

    @property
    def next_start(self) -> int:
        """Where the first window that is not yet answered starts."""
        return NEVER if self.closed_to == NEVER else self.start(self.first_of(self.closed_to))

    @property
    def answered_to(self) -> int:
        """Where the last answered window ends: an event before it is late for some windows at least."""
        return NEVER if self.closed_to == NEVER else self.first_end_after(self.closed_to) - self.slide

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
        return cls(query, columns.start_of(end, query), end)


class Layout(NamedTuple):
    """Schedules column by column."""

    size: IntArray
    slide: IntArray
    phase: IntArray
    k: IntArray
    closed: IntArray
    period: IntArray

    def first_end_after(self, position: IntArray) -> IntArray:
        """Return, schedule by schedule, the first window end after a position, as `WindowGrid` does for one."""
        return position + self.slide - (position - self.phase - self.size) % self.slide

    def start_of(self, end: IntArray, query: IntArray | slice = slice(None)) -> IntArray:
        """Return where windows start that end there: one of each schedule, or of those that `query` indexes."""
        earliest, phase, period = end - self.size[query], self.phase[query], self.period[query]
        return phase - (phase - earliest) // period * period

    def following(self, due: DueWindows) -> IntArray:
        """Return, for each window, where the next one of its query starts."""
        return self.start_of(due.end + self.slide[due.query], due.query)

    @property
    def start(self) -> IntArray:
        """Where the next window of each starts, as `Schedule.next_start` says."""
        return np.where(self.closed == NEVER, NEVER, self.start_of(self.first_end_after(self.closed)))

    @property
    def answered(self) -> IntArray:
        """Where the last answered window of each ends, as `Schedule.answered_to` says."""
        return np.where(self.closed == NEVER, NEVER, self.first_end_after(self.closed) - self.slide)


_NUMBERS = attrgetter("size", "slide", "phase", "k", "closed_to", "period")


def watermark_of(newest: int, delay: int | None) -> int | None:
    """Return the watermark: the time `delay` before the newest event; None without an event or a delay."""
    return None if delay is None or newest == NEVER else newest - delay


def layout(schedules: Sequence[Schedule]) -> Layout:
    """Return the numbers of schedules as columns."""
    numbers = np.fromiter(chain.from_iterable(map(_NUMBERS, schedules)), np.int64, 6 * len(schedules))
    return Layout(*np.ascontiguousarray(numbers.reshape(-1, 6).T))


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
