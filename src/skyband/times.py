"""Durations and moments: Spark's words, `timedelta`, `datetime` or numbers in; int64 microseconds inside."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from numbers import Integral

from skyband.errors import InputError, QueryError

MICROSECOND, MILLISECOND, SECOND = 1, 1_000, 1_000_000
MINUTE, HOUR, DAY, WEEK = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND, 7 * 86_400 * SECOND

_UNITS = {
    **dict.fromkeys(("microsecond", "microseconds", "us", "µs"), MICROSECOND),
    **dict.fromkeys(("millisecond", "milliseconds", "ms"), MILLISECOND),
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), SECOND),
    **dict.fromkeys(("minute", "minutes", "min", "mins", "m"), MINUTE),
    **dict.fromkeys(("hour", "hours", "h"), HOUR),
    **dict.fromkeys(("day", "days", "d"), DAY),
    **dict.fromkeys(("week", "weeks", "w"), WEEK),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-zµ]+)\s*")
MAX_DIGITS = 30
FARTHEST = 2**61
"""Times lie closer to the epoch than so many microseconds, and durations are no longer: sums of three fit int64."""

Duration = str | timedelta | int
"""A length of time: text such as ``"1 hour 30 minutes"``, a `timedelta`, or whole microseconds."""


def parse_duration(duration: Duration, what: str = "duration") -> int:
    """Return a length of time in microseconds; `what` names the parameter in error messages.

    Examples
    --------
    >>> parse_duration("1 minute 30 seconds"), parse_duration("500ms"), parse_duration(timedelta(seconds=1))
    (90000000, 500000, 1000000)
    """
    if isinstance(duration, timedelta):
        total = (duration.days * 86_400 + duration.seconds) * SECOND + duration.microseconds
    elif isinstance(duration, int) and not isinstance(duration, bool):
        total = duration
    elif isinstance(duration, str):
        total = _parse(duration, what)
    else:
        msg = (
            f"{what} is {duration!r}, a {type(duration).__name__}; give text such as '10 minutes', "
            "a timedelta, or whole microseconds"
        )
        raise QueryError(msg)
    if abs(total) > FARTHEST:
        msg = f"{what} is {duration!r}, longer than the 73,000 years that int64 microseconds can hold"
        raise QueryError(msg)
    return total


def not_negative(duration: Duration | None, what: str) -> int | None:
    """Return a length of time that may be left out, in microseconds; refuse one below 0."""
    found = None if duration is None else parse_duration(duration, what)
    if found is not None and found < 0:
        msg = f"{what} is {duration!r}; it must not be negative"
        raise InputError(msg)
    return found


def _parse(text: str, what: str) -> int:
    stripped = text.strip().removeprefix("interval ").removeprefix("INTERVAL ")
    total, at = 0, 0
    while match := _PART.match(stripped, at):
        number, unit = match.groups()
        factor = _UNITS.get(unit.lower())
        if factor is None:
            why = "; months and years have no fixed length" if unit.lower()[:4] in ("mont", "year") else ""
            msg = f"{what} is {text!r}: {unit!r} is no unit; use microseconds to weeks{why}"
            raise QueryError(msg)
        if len(number) > MAX_DIGITS:
            msg = f"{what} has a number of {len(number):,} digits; at most {MAX_DIGITS} are allowed"
            raise QueryError(msg)
        total += int(number) * factor if "." not in number else round(float(number) * factor)
        at = match.end()
    if at == 0 or at != len(stripped):
        msg = f"{what} is {text!r}, which is no length of time; write for example '10 minutes' or '1 hour 30 minutes'"
        raise QueryError(msg)
    return total


def format_duration(duration: int) -> str:
    """Return microseconds in the shortest exact words.

    Examples
    --------
    >>> format_duration(90_000_000), format_duration(3_600_000_000), format_duration(1500)
    ('90 seconds', '1 hour', '1500 microseconds')
    """
    units = {DAY: "day", HOUR: "hour", MINUTE: "minute", SECOND: "second", MILLISECOND: "millisecond"}
    for unit, name in units.items():
        if duration and duration % unit == 0:
            count = duration // unit
            return f"{count} {name}{'' if abs(count) == 1 else 's'}"
    return f"{duration} microsecond{'' if abs(duration) == 1 else 's'}"


def microseconds_of(moment: int | datetime) -> int:
    """Return a moment in microseconds since the epoch; a time without a zone is taken as UTC.

    Examples
    --------
    >>> microseconds_of(datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    if isinstance(moment, Integral) and not isinstance(moment, bool):
        if abs(int(moment)) >= 2 * FARTHEST:
            msg = f"{moment!r} is no moment; give microseconds since the epoch, fewer than 2^62 before or after it"
            raise InputError(msg)
        return int(moment)
    if not isinstance(moment, datetime):
        msg = f"{moment!r} is no moment; give a datetime, or whole microseconds since the epoch"
        raise InputError(msg)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


Moment = datetime | int
"""A time (UTC), or a whole number where the stream's times are plain numbers or the window counts events."""


def moment_of(microseconds: int) -> Moment:
    """Return a time, or the number itself where it is beyond what `datetime` can hold."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return microseconds


def read_moment(text: str) -> Moment:
    """Read a moment as a status file holds it.

    Examples
    --------
    >>> read_moment("1200"), read_moment("2026-03-02 09:30:00+00:00")
    (1200, datetime.datetime(2026, 3, 2, 9, 30, tzinfo=datetime.timezone.utc))
    """
    return int(text) if text.lstrip("-").isdigit() else datetime.fromisoformat(text)
