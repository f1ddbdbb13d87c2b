"""How finely windows may cut event time: what keeps one tiny window from stalling a stream.

Every window end is an answer, and every start and end of a window is a *cut*, between two of which lies a pane.
Both cost time whether or not events come, so a stream that others add queries to bounds them per second of event time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, gcd, lcm

import numpy as np
import pyarrow as pa

from skyband.engine.intake import Ranking
from skyband.errors import InputError, QueryError
from skyband.events.batch import StreamColumns
from skyband.queries.outputs import Output
from skyband.queries.query import Query
from skyband.times import SECOND, format_duration

MAX_WINDOW_ENDS, MAX_CUTS = 1_000, 10_000
LONGEST_PERIOD = 1 << 20
"""Cuts repeat after the least common multiple of the slides; up to so many places of it are looked at one by one."""

Series = tuple[int, int]
"""The cuts at `rest` modulo `slide`."""


@dataclass(frozen=True)
class WindowLimits:
    """How many windows and panes queries over time may have per second of event time.

    Parameters
    ----------
    ends
        How many window ends one query may have; None for any number.
    cuts
        How many pane edges the stream may have; None for any number. Queries that rank alike share their panes, so a
        query counts with what it adds.

    Examples
    --------
    >>> from skyband import Window
    >>> WindowLimits().check([Query("top", k=1, score="x", window=Window("1 us"))])
    Traceback (most recent call last):
    skyband.errors.QueryError: query 'top': its windows end 1,000,000 times per second of event time (its slide is \
1 microsecond), and this stream allows 1,000; give it a longer slide, or start the stream with a higher max_window_ends
    """

    ends: int | None = MAX_WINDOW_ENDS
    cuts: int | None = MAX_CUTS

    def __post_init__(self) -> None:
        for name, limit in (("max_window_ends", self.ends), ("max_cuts", self.cuts)):
            if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
                msg = f"{name} is {limit!r}; give a whole number per second of event time, or None for no limit"
                raise InputError(msg)

    def over(self, source: StreamColumns, schema: pa.Schema) -> WindowLimits:
        """Return the limits of a stream with these columns; none where times are plain numbers, not moments."""
        return WindowLimits(None, None) if source.is_plain(schema) else self

    def check(self, queries: Sequence[Query], others: Iterable[Query] = ()) -> None:
        """Refuse queries that cut time too finely, alone or together with others that are served already."""
        served: list[_Panes] = []
        for query in others:
            panes = _panes_of(query, served)
            panes.series |= _series(query)
        rates = {id(panes): cuts_per_second(panes.series) for panes in served}
        for query in sorted(queries, key=lambda query: -len(query.carried)):  # as they will share panes
            panes = _panes_of(query, served)
            found = panes.series | _series(query)
            before, rate = sum(rates.values()), cuts_per_second(found)
            added = rate - rates.get(id(panes), 0)
            if problem := self._too_many_ends(query) or self._too_many_cuts(before, added):
                raise QueryError(problem, query.name)
            panes.series, rates[id(panes)] = found, rate

    def _too_many_ends(self, query: Query) -> str | None:
        slide = query.window.slide
        if self.ends is None or query.window.counts or self.ends * slide >= SECOND:
            return None
        return (
            f"its windows end {ceil(Fraction(SECOND, slide)):,} times per second of event time (its slide is "
            f"{format_duration(slide)}), and this stream allows {self.ends:,}; give it a longer slide, or start the "
            "stream with a higher max_window_ends"
        )

    def _too_many_cuts(self, before: Fraction | int, added: Fraction | int) -> str | None:
        if self.cuts is None or added <= 0 or before + added <= self.cuts:
            return None
        return (
            f"its windows add {ceil(added):,} cuts per second of event time to the {ceil(before):,} that the other "
            f"queries make, and this stream allows {self.cuts:,}; give it a longer slide, or one that the others "
            "have, or start the stream with a higher max_cuts"
        )


def cuts_per_second(series: Iterable[Series]) -> Fraction:
    """Return how many distinct cuts some series make per second; at most a little too many where they never repeat.

    Examples
    --------
    >>> halves, thirds = (0, 500_000), (0, 333_333)
    >>> [str(cuts_per_second(found)) for found in ([halves], [halves, (0, 1_000_000)], [(0, 500), (0, 250), (1, 500)])]
    ['2', '2', '6000']
    """
    found = set(series)
    if not found:
        return Fraction(0)
    period = lcm(*(slide for _, slide in found))
    origin = min(found)[0]
    grid = gcd(*(number for rest, slide in found for number in (slide, rest - origin)))
    if period // grid <= LONGEST_PERIOD:
        marked = np.zeros(period // grid, bool)
        for rest, slide in found:
            marked[(rest - origin) % slide // grid :: slide // grid] = True
        return Fraction(SECOND * int(np.count_nonzero(marked)), period)
    slides = {slide for _, slide in found}
    covered = {
        (rest, slide)
        for rest, slide in found
        if any(slide % other == 0 and other < slide and (rest % other, other) in found for other in slides)
    }
    most = sum((Fraction(SECOND, slide) for _, slide in found - covered), Fraction(0))
    return min(most, Fraction(SECOND, grid))


@dataclass
class _Panes:
    """What queries share that rank alike, ties included: what they carry begins as `carried` does."""

    ranking: object
    carried: tuple[Output, ...]
    series: set[Series] = field(default_factory=set)


def _panes_of(query: Query, served: list[_Panes]) -> _Panes:
    """Return the panes that a query shares, or its own, which are added; to join or to aggregate is to work alone."""
    ranking = Ranking.of(query) if query.ranks_events else query.name
    for panes in served:
        if panes.ranking == ranking and panes.carried[: len(query.carried)] == query.carried:
            return panes
    served.append(_Panes(ranking, query.carried))
    return served[-1]


def _series(query: Query) -> set[Series]:
    """Return where windows start and end; those that count events cut no time, those of a calendar hardly any."""
    if query.window.counts:
        return set()
    if query.window.periods is not None:
        return {(0, query.window.periods.shortest)}
    windows = query.window.grid
    return {(start % windows.slide, windows.slide) for start in (windows.phase, windows.phase + windows.size)}
