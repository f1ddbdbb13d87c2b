"""Subscriptions: the k best events of a window that slides with every event, by a score of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from skyband.errors import QueryError
from skyband.queries.query import Order, Query
from skyband.queries.scoring import Scoring, as_dict, from_dict
from skyband.times import Duration, microseconds_of
from skyband.windows import Window, parse_extent

Emit = Literal["entries", "changes"]
Range = tuple[float, float]


@dataclass(frozen=True)
class Subscription:
    """The `k` best events of the last while, by a score of its own, followed event by event.

    Parameters
    ----------
    name
        What notices are labelled with; unique among the subscriptions to one stream.
    k
        How many events, at least 1.
    score
        A `Distance`, a `WeightedSum`, an `AttributeDistance`, or an SQL expression over the stream's columns.
    last
        How far back the window reaches: ``"1 day"``, or ``"40000 events"``. It slides with every event.
    order
        ``"asc"``: smaller scores are better, as distances have it when left out; ``"desc"``: larger ones.
    within
        Per column the least and the largest value; events outside do not count.
    where
        SQL condition; only events for which it is true count. Thousands of subscriptions are fast where they share it.
    emit
        ``"entries"``: report when an event becomes one of the best; ``"changes"``: also when it leaves, and returns.
    since, until
        From when to when the subscription is active, in event time; from when it is added until it is removed when
        left out. It sees only events that come while it is active.

    Examples
    --------
    >>> from skyband import Distance
    >>> ann = Subscription("ann", k=10, score=Distance({"lat": 45.8, "lon": 16.0}), last="1 day")
    >>> ann.better
    'asc'
    >>> Subscription("bob", k=0, score="pm10 +", last="-1 day")
    Traceback (most recent call last):
    skyband.errors.QueryError: query 'bob': 3 problems:
    ...
    """

    name: str
    k: int = field(kw_only=True)
    score: Scoring | str = field(kw_only=True)
    last: Duration = field(kw_only=True)
    order: Order | None = field(kw_only=True, default=None)
    within: Mapping[str, Range] = field(kw_only=True, default_factory=dict)
    where: str | None = field(kw_only=True, default=None)
    emit: Emit = field(kw_only=True, default="entries")
    since: datetime | int | None = field(kw_only=True, default=None)
    until: datetime | int | None = field(kw_only=True, default=None)

    def __post_init__(self) -> None:
        problems: list[str] = []
        size, _ = parse_extent(self.last, "last", problems)
        if size <= 0 and not problems:
            problems.append(f"last is {self.last!r}; it must be more than 0")
        if not isinstance(self.score, Scoring | str):
            problems.append(f"score is {self.score!r}; give a Distance, WeightedSum, AttributeDistance or expression")
        if self.emit not in get_args(Emit):
            problems.append(f"emit is {self.emit!r}; use 'entries' or 'changes'")
        problems += [
            f"within says {edges!r} for {column!r}; give the least and the largest value, such as (0.0, 1.0)"
            for column, edges in self.within.items()
            if not _is_range(edges)
        ]
        if self.starts is not None and self.ends is not None and self.starts >= self.ends:
            problems.append(f"until ({self.until}) is not after since ({self.since})")
        score = self.score if isinstance(self.score, str) else "0"
        try:  # what it has in common with queries is checked there
            Query(self.name, k=self.k, score=score, window=Window(1), where=self.where, order=self.order or "desc")
        except QueryError as error:
            problems += error.problems
        if problems:
            raise QueryError(problems, self.name if isinstance(self.name, str) else None)

    @cached_property
    def extent(self) -> tuple[int, bool]:
        """The length of the window, and whether it counts events."""
        return parse_extent(self.last, "last", [])

    @property
    def better(self) -> Order:
        """Which scores are the better ones."""
        return self.order or ("desc" if isinstance(self.score, str) else self.score.order)

    @property
    def starts(self) -> int | None:
        """From when it is active, in microseconds."""
        return None if self.since is None else microseconds_of(self.since)

    @property
    def ends(self) -> int | None:
        """Until when it is active, in microseconds."""
        return None if self.until is None else microseconds_of(self.until)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values; `from_dict` makes it again.

        Examples
        --------
        >>> one = Subscription("cheap", k=3, score="price", last="100 events", order="asc", within={"price": (0, 9)})
        >>> Subscription.from_dict(one.as_dict()) == one
        True
        """
        last = self.last if isinstance(self.last, int | str) else self.extent[0]
        within = {name: list(edges) for name, edges in self.within.items()}
        given = {
            "name": self.name, "k": self.k, "score": as_dict(self.score), "last": last, "order": self.order,
            "within": within, "where": self.where, "emit": self.emit, "since": self.starts, "until": self.ends,
        }  # fmt: skip
        return {key: value for key, value in given.items() if value is not None and value != {}}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Subscription:
        """Make one from plain values."""
        score = from_dict(given["score"])
        within = {name: (low, high) for name, (low, high) in given.get("within", {}).items()}
        return cls(**{**given, "score": score, "within": within})


def _is_range(edges: Any) -> bool:
    if not isinstance(edges, tuple | list) or len(edges) != 2:
        return False
    good = all(isinstance(edge, int | float) and not np.isnan(edge) for edge in edges)
    return good and edges[0] <= edges[1]
