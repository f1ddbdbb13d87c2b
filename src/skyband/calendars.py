"""Calendars: the days, weeks and months of a time zone, with daylight saving and their unequal lengths.

Periods are numbered; number 0 contains the epoch or, in some zones, begins up to a day beside it. On the *axis* of a
calendar each period has the same room: a moment lies at ``number * room + (moment - start of the period)``. So the
periods are plain windows of the size `room` there, and positions are ordered as moments are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from skyband.errors import QueryError, TooManyWindows
from skyband.order import ALWAYS, NEVER, IntArray
from skyband.times import DAY, FARTHEST, moment_of

Unit = Literal["day", "week", "month"]

_EPOCH = date(1970, 1, 1).toordinal()
_MONDAY = date(1969, 12, 29).toordinal()
_CYCLE = 146_097
"""Days after which the Gregorian calendar repeats, weekdays included: beyond the years of `date`, rules do so too."""
_YEARS, _MONTHS = 400, 4_800  # of a cycle
_SAFE = 2, 9998
_DAYS = date(_SAFE[0], 1, 1).toordinal(), date(_SAFE[1], 1, 1).toordinal()
MOST_PERIODS = 1_000_000
"""Periods that may be known at once; more are a mistake in the unit of time."""
_AT_ONCE = 64
"""Periods that are looked up before and behind the ones that are asked for."""


@dataclass(frozen=True)
class Calendar:
    """The days, weeks (from Monday) or months of a time zone.

    A day begins when its date is first shown by the clocks of the zone.

    Examples
    --------
    >>> berlin = Calendar("day", "Europe/Berlin")
    >>> (berlin.starts(20_177, 20_180) // 3_600_000_000).tolist()  # 2025-03-30 has 23 hours
    [484247, 484270, 484294, 484318]
    >>> (berlin.positions(np.array([484_247, 484_269, 484_270]) * 3_600_000_000) // berlin.room).tolist()
    [20177, 20177, 20178]
    """

    unit: Unit
    zone: str

    def __post_init__(self) -> None:
        problems = []
        if self.unit not in get_args(Unit):
            problems.append(f"calendar is {self.unit!r}; use 'day', 'week' or 'month'")
        if not isinstance(self.zone, str) or self.zone not in _zones():
            problems.append(f"zone is {self.zone!r}; give the name of a time zone, such as 'Europe/Berlin' or 'UTC'")
        if problems:
            raise QueryError(problems)

    @property
    def room(self) -> int:
        """How much of the axis each period has: as much as the longest, in which a zone had a day twice."""
        return {"day": 2, "week": 8, "month": 32}[self.unit] * DAY

    @property
    def shortest(self) -> int:
        """How long a period is at least, as a rule."""
        return {"day": 1, "week": 7, "month": 28}[self.unit] * DAY - DAY // 24

    def starts(self, low: int, high: int) -> IntArray:
        """Return where the periods from `low` to `high` start, by number, in microseconds since the epoch."""
        first, known = _KNOWN.get(self, (low, np.empty(0, np.int64)))
        if low < first or high >= first + len(known):
            begin, end = min(low - _AT_ONCE, first), max(high + _AT_ONCE, first + len(known))
            if end - begin > MOST_PERIODS:
                msg = (
                    f"event time reaches over {end - begin:,} {self.unit}s; at most {MOST_PERIODS:,} are served: check "
                    "the unit of the time column (time_unit), or filter out rows with impossible times"
                )
                raise TooManyWindows(msg)
            before, after = (
                np.array([self._start(number) for number in range(*ends)], np.int64)
                for ends in ((begin, first), (first + len(known), end))
            )
            first, known = begin, np.concatenate([before, known, after])
            _KNOWN[self] = first, known
        return known[low - first : high + 1 - first]

    def positions(self, moments: IntArray) -> IntArray:
        """Return where moments lie on the axis of the calendar."""
        if not len(moments):
            return moments
        first = self._about(int(moments.min())) - 2
        starts = self.starts(first, self._about(int(moments.max())) + 2)
        place = np.searchsorted(starts, moments, side="right") - 1
        return (first + place) * self.room + moments - starts[place]

    def position(self, moment: int) -> int:
        """Return where a moment lies on the axis; NEVER and ALWAYS, which are none, stay."""
        if moment in (NEVER, ALWAYS):
            return moment
        return int(self.positions(np.clip(np.array([moment], np.int64), -FARTHEST, FARTHEST))[0])

    def moments(self, positions: IntArray) -> IntArray:
        """Return the moments at positions; behind the end of a period, the start of the next."""
        if not len(positions):
            return positions
        number, within = np.divmod(positions, self.room)
        first = int(number.min())
        starts = self.starts(first, int(number.max()) + 1)
        place = number - first
        found: IntArray = np.minimum(starts[place] + within, starts[place + 1])
        return found

    def moment(self, position: int) -> int:
        """Return the moment at a position; NEVER and ALWAYS, which are none, stay."""
        return position if position in (NEVER, ALWAYS) else int(self.moments(np.array([position], np.int64))[0])

    def buckets(self, low: int, high: int) -> tuple[int, int, IntArray, IntArray, IntArray]:
        """Lay the periods from number `low` to `high` out in buckets of equal width, for those who cannot search.

        Returns where the first bucket begins, how wide they are, and of each bucket: where the next period begins, the
        number of the period before, and that of the next. No bucket has more than one period's begin inside.
        """
        numbers, starts = np.arange(low, high + 2), self.starts(low, high + 1)
        real = np.append(starts[1:] > starts[:-1], True)  # not the days that a zone left out
        numbers, starts = numbers[real], starts[real]
        width = int(np.diff(starts).min())
        edges = np.arange(starts[0], starts[-1], width)
        behind = np.searchsorted(starts, edges, side="right")
        return int(starts[0]), width, starts[behind], numbers[behind - 1], numbers[behind]

    def about(self, moment: int) -> int:
        """Return the number of the period of a moment, or of one of its neighbours."""
        return self._about(min(max(moment, -FARTHEST), FARTHEST))

    def __reduce__(self) -> tuple[Any, ...]:
        # Who gets it elsewhere gets what is known with it: all must see the same periods.
        return _known, (self.unit, self.zone, _KNOWN.get(self))

    def _about(self, moment: int) -> int:
        """Return the number of the period of a moment in UTC."""
        day = _EPOCH + moment // DAY
        if self.unit == "day":
            return day - _EPOCH
        if self.unit == "week":
            return (day - _MONDAY) // 7
        cycles = _cycles(day, *_DAYS, _CYCLE)
        then = date.fromordinal(day - cycles * _CYCLE)
        return (then.year - 1970) * 12 + then.month - 1 + cycles * _MONTHS

    def _start(self, number: int) -> int:
        """Return where a period starts: at the first moment of its first day."""
        if self.unit == "day":
            return self._midnight(_EPOCH + number)
        if self.unit == "week":
            return self._midnight(_MONDAY + 7 * number)
        years, month = divmod(number, 12)
        cycles = _cycles(1970 + years, *_SAFE, _YEARS)
        return self._midnight(date(1970 + years - cycles * _YEARS, month + 1, 1).toordinal() + cycles * _CYCLE)

    def _midnight(self, day: int) -> int:
        """Return the first moment of a day, which is given by its ordinal."""
        cycles = _cycles(day, *_DAYS, _CYCLE)
        then, zone = date.fromordinal(day - cycles * _CYCLE), ZoneInfo(self.zone)
        local = datetime(then.year, then.month, then.day, tzinfo=zone)
        # Of a time that clocks skip, fold 0 has the offset before the change and fold 1 the one behind it: so the
        # change lies between. Of one that they show twice, fold 0 is the first.
        plain = (then.toordinal() - _EPOCH) * DAY
        first, other = (plain - _microseconds(local.replace(fold=fold).utcoffset()) for fold in (0, 1))
        if other < first:
            before, low, high = plain - first, other, first
            while low < high:
                middle = (low + high) // 2
                low, high = (middle + 1, high) if _offset(middle, zone) == before else (low, middle)
            first = low
        return first + cycles * _CYCLE * DAY


_KNOWN: dict[Calendar, tuple[int, IntArray]] = {}
"""The starts of the periods that were asked for, from the number of the first on."""


def _known(unit: Unit, zone: str, known: tuple[int, IntArray] | None) -> Calendar:
    calendar = Calendar(unit, zone)
    if known is not None:
        _KNOWN[calendar] = known
    return calendar


@lru_cache(1)
def _zones() -> set[str]:
    return available_timezones()


def _cycles(value: int, low: int, high: int, cycle: int) -> int:
    """Return by how many cycles a value lies outside, so that less them it is inside.

    Examples
    --------
    >>> [_cycles(year, 2, 9998, 400) for year in (1, 2, 9997, 9998, 10_397, 10_398)]
    [-1, 0, 0, 1, 1, 2]
    """
    return (value - low) // cycle if value < low else max(0, (value - high) // cycle + 1)


def _microseconds(offset: timedelta | None) -> int:
    assert offset is not None
    return offset // timedelta(microseconds=1)


def _offset(moment: int, zone: ZoneInfo) -> int:
    then = moment_of(moment)
    assert isinstance(then, datetime)
    return _microseconds(then.astimezone(zone).utcoffset())
