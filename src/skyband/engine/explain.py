"""In words: how groups of queries explain what they share and keep, and why."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.algorithms.stkqf.skyline import Case
from skyband.queries.query import Query
from skyband.windows import Schedule


def clock_time(position: int) -> str:
    """Put microseconds since the epoch into a date and a time of day.

    Examples
    --------
    >>> clock_time(90_000_000)
    '1970-01-01 00:01:30'
    """
    return str(np.datetime64(position, "us")).replace("T", " ").removesuffix(".000000")


def query_line(query: Query) -> str:
    """Say what a query asks for, over which windows."""
    extras = [f"select {', '.join(query.select)}"] if query.select else []
    extras += [f"emit {query.emit}"] if query.emit != "final" else []
    extras += [f"ties {query.ties}"] if query.ties is not None else []
    extras += [f"prefer {query.prefer}"] if query.prefer != "latest" else []
    return f"{query.name}: {'all that pass' if query.is_set else f'best {query.k}'} over {query.window!r}" + "".join(
        f", {extra}" for extra in extras
    )


def backfill_text(schedule: Schedule, moment: Callable[[int], str]) -> str:
    """Say of a query that came later what it misses of the stream's past, and why."""
    past = schedule.backfill
    if past is None:
        return ""
    then = {"missing": "it warms up", "pending": "they will be read", "done": "they were read"}[past.state]
    low, high, case = moment(past.low), moment(past.high), Case(past.case)
    return f"; came later (case {case.value}: {case.meaning}), missed events from {low} to {high}: {then}"


def counted(count: int, word: str) -> str:
    """Say how many there are of something.

    Examples
    --------
    >>> counted(1, "query"), counted(2, "query"), counted(2, "group")
    ('1 query', '2 queries', '2 groups')
    """
    if count == 1:
        return f"1 {word}"
    return f"{count} {word[:-1]}ies" if word.endswith("y") else f"{count} {word}s"
