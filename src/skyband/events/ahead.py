"""Rows from the future: which time such a row has, and what is likely wrong where most rows of a batch are such."""

from __future__ import annotations

from math import log
from typing import get_args

import pyarrow as pa

from skyband.events.batch import PER_UNIT, StreamColumns, TimeUnit, ahead_of, event_times
from skyband.times import moment_of


def ahead_time(table: pa.Table, source: StreamColumns, not_after: int) -> int | None:
    """Return the time of a row that is later than it may be; None where there is none."""
    if table.num_rows == 0:
        return None
    times = event_times(table[source.time].combine_chunks(), source)
    ahead = ahead_of(times, not_after)
    return times[int(ahead[0])].as_py() if len(ahead) else None


def doubt(
    rows: int, ahead: int, example: int | None, not_after: int, source: StreamColumns, schema: pa.Schema
) -> str | None:
    """Say what is wrong with a batch of which more than half was too far ahead of the clock; None where nothing is.

    Parameters
    ----------
    rows, ahead
        How many rows it had, and how many of them were ahead.
    example
        The time of one of these.
    not_after
        The last event time that was taken.
    source, schema
        The stream's columns.
    """
    if example is None or 2 * ahead <= rows:
        return None
    unit = likely_unit(source, schema, example, not_after)
    advice = "check how they are made" if unit is None else f"they look like time_unit={unit!r}"
    return (
        f"{ahead:,} of the {rows:,} rows of the last batch were rejected, since their times are too far ahead of the "
        f"clock: later than {moment_of(not_after)}, such as {moment_of(example)}; {advice}, or allow them by max_ahead"
    )


def likely_unit(source: StreamColumns, schema: pa.Schema, time: int, now: int) -> TimeUnit | None:
    """Return another unit of the time column that would bring a time nearer to now; None where there is none.

    Examples
    --------
    >>> milliseconds = 1_700_000_000_000
    >>> seconds = StreamColumns("t", "id", "s")
    >>> likely_unit(seconds, pa.schema([("t", pa.int64())]), milliseconds * 1_000_000, milliseconds * 1_000)
    'ms'
    """
    if not pa.types.is_integer(schema.field(source.time).type) or time <= 0 or now <= 0:
        return None
    given, per = source.time_unit or "us", {**PER_UNIT, "ns": 0.001}
    nearest = min(get_args(TimeUnit), key=lambda unit: abs(log(time / per[given] * per[unit] / now)))
    return None if nearest == given else nearest
