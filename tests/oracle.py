"""The slow, obvious truth: sort every window anew. Shares nothing with the package but the order rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.order import best_first, value_ranks

COLUMNS = {"note": pa.string(), "size": pa.float64()}
"""What events carry along."""


@dataclass
class Ask:
    """A query in plain numbers."""

    name: str
    k: int
    size: int
    slide: int
    offset: int = 0
    closed: str = "left"
    counts: bool = False
    distinct: str | None = None
    order: str = "desc"
    partitioned: bool = False
    select: tuple[str, ...] = ()
    ties: str | None = None
    max_ties: int = 10_000
    prefer: str = "latest"
    kind: str = "sliding"
    edges: tuple[int, ...] = ()  # of a calendar's periods
    unit: str = "day"
    zone: str = "UTC"


@dataclass
class Event:
    time: int | None
    id: Any
    score: float | None
    part: Any = None
    position: int = 0
    late_for: frozenset[str] = frozenset()
    note: str | None = None
    size: float | None = None


@dataclass
class Reply:
    query: str
    start: int | None
    end: int
    rows: list[tuple[Any, ...]]  # partition, rank, id, score, time, then what is selected
    cut: bool = False


@dataclass
class Oracle:
    """Replays a stream batch by batch for queries that all rank the same events."""

    asks: Sequence[Ask]
    delay: int | None = None
    events: list[Event] = field(default_factory=list)
    answered: dict[str, int] = field(default_factory=dict)
    replies: list[Reply] = field(default_factory=list)
    rejected: int = 0
    late: int = 0
    partly_late: int = 0
    newest: int | None = None

    def batch(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.time is not None:
                self.newest = event.time if self.newest is None else max(self.newest, event.time)
            if event.time is None or event.id is None or event.score is None or math.isnan(event.score):
                self.rejected += 1
                continue
            windows = [
                (ask, end)
                for ask in self.asks
                if not ask.counts
                for end in ends_around(ask, event.time, self.answered.get(ask.name))
            ]
            missed = sum(end <= self.answered.get(ask.name, -(10**18)) for ask, end in windows)
            if windows and missed == len(windows):
                self.late += 1
                continue
            self.partly_late += missed > 0
            in_time = {ask.name for ask, end in windows if end > self.answered.get(ask.name, -(10**18))}
            event.late_for = frozenset(ask.name for ask in self.asks if not ask.counts) - in_time
            event.position = len(self.events)
            self.events.append(event)
        if self.delay is not None and self.newest is not None:
            self.answer_until(self.newest - self.delay)
        self.answer_counts(final=False)

    def end(self) -> None:
        for ask in self.asks:
            if not ask.counts and self.events:
                last = max(e.time for e in self.events if e.time is not None)
                self._answer(ask, max(ends_around(ask, last)))
        self.answer_counts(final=True)

    def answer_until(self, watermark: int) -> None:
        for ask in self.asks:
            if not ask.counts:
                limit = watermark - 1 if ask.closed == "right" else watermark
                self._answer(ask, limit)
                self.answered[ask.name] = max(self.answered.get(ask.name, -(10**18)), limit)

    def _answer(self, ask: Ask, limit: int) -> None:
        """Answer the windows that end by `limit`, from the first one on that contains an event which came in time."""
        done = self.answered.get(ask.name, -(10**18))
        times = [e.time for e in self.events if e.time is not None and ask.name not in e.late_for]
        if not times:
            return
        first = min(times)
        end = min(ends_around(ask, first))
        while end <= limit:
            if end > done:
                inside = [e for e in self.events if e.time is not None and contains(ask, end, e.time)]
                self.reply(ask, end, inside)
            end = end + ask.slide if not ask.edges else min(edge for edge in ask.edges if edge > end)
        self.answered[ask.name] = max(done, limit)

    def reply(self, ask: Ask, end: int, inside: Sequence[Event]) -> None:
        rows = rank(ask, inside)
        self.replies.append(Reply(ask.name, start_of(ask, end), end, rows, is_cut(ask, inside, rows)))

    def answer_counts(self, final: bool) -> None:
        n = len(self.events)
        for ask in self.asks:
            if ask.counts:
                done = self.answered.get(ask.name, 0)
                last = -(-n // ask.slide) * ask.slide if final else n
                for end in range(done + ask.slide, last + 1, ask.slide):
                    inside = self.events[max(0, end - ask.size) : end]
                    self.reply(ask, end, inside)
                    self.answered[ask.name] = end


def ends_around(ask: Ask, time: int, answered: int | None = None) -> list[int]:
    """Return the ends of all windows that contain a time, by trying every candidate.

    Of windows without end there is no last: all up to the first that is neither over nor answered.
    """
    if ask.kind == "all_time":
        behind = max(time, time if answered is None else answered) + ask.slide
        return [end for end in range(time + 1, behind + 1) if (end - ask.offset) % ask.slide == 0]
    if ask.kind == "cumulative":
        ends = [end for end in range(time + 1, time + ask.size + 1) if (end - ask.offset) % ask.slide == 0]
        return [end for end in ends if contains(ask, end, time)]
    if ask.kind == "calendar":
        return [min(edge for edge in ask.edges if edge > time)]
    around = range(time - ask.size - ask.slide, time + ask.size + ask.slide + 1)
    starts = [s for s in around if (s - ask.offset) % ask.slide == 0]
    return [s + ask.size for s in starts if contains(ask, s + ask.size, time)]


def start_of(ask: Ask, end: int) -> int | None:
    """Return where the window starts that ends there."""
    if ask.kind == "all_time":
        return None
    if ask.kind == "cumulative":
        return next(start for start in range(end - 1, end - ask.size - 1, -1) if (start - ask.offset) % ask.size == 0)
    if ask.kind == "calendar":
        return max(edge for edge in ask.edges if edge < end)
    return end - ask.size


def contains(ask: Ask, end: int, time: int) -> bool:
    start = start_of(ask, end)
    if start is None:
        return time < end
    return start < time <= end if ask.closed == "right" else start <= time < end


def rank(ask: Ask, events: Sequence[Event]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    parts = {e.part for e in events} if ask.partitioned else {None}
    for part in sorted(parts, key=lambda p: (p is not None, p if p is not None else 0)):
        members = [e for e in events if not ask.partitioned or e.part == part]
        ordered = in_order(members, ask.order, ask.select, ask.prefer)
        if ask.distinct == "latest":
            ordered = [e for e in ordered if e is latest(ask, [o for o in ordered if o.id == e.id])]
        if ask.distinct == "best":
            ordered = [e for i, e in enumerate(ordered) if e.id not in {o.id for o in ordered[:i]}]
        rows += [
            (part, i, e.id, e.score, e.time, *(shown(getattr(e, name)) for name in ask.select))
            for i, e in ranked(ask, ordered)[: ask.max_ties]
        ]
    return rows


def ranked(ask: Ask, ordered: Sequence[Event]) -> list[tuple[int, Event]]:
    """Return the events of an answer with their ranks, by counting for each those that have a better score."""
    found = []
    for place, event in enumerate(ordered, 1):
        better = [e.score for e in ordered if e.score != event.score and worse_of(ask, e, event) is event]
        rank_of = {None: place, "with": len(better) + 1, "dense": len(set(better)) + 1}[ask.ties]
        if rank_of <= ask.k:
            found.append((rank_of, event))
    return found


def worse_of(ask: Ask, a: Event, b: Event) -> Event:
    assert a.score is not None
    assert b.score is not None
    return a if (a.score < b.score) == (ask.order == "desc") else b


def is_cut(ask: Ask, events: Sequence[Event], rows: Sequence[tuple[Any, ...]]) -> bool:
    """Tell whether an answer would have had more rows."""
    return len(rows) < len(rank(replace(ask, max_ties=10**9), events))


def shown(value: Any) -> Any:
    """Return a value as it can be compared: NaN is not equal to itself."""
    return "NaN" if value != value else value


def latest(ask: Ask, events: Sequence[Event]) -> Event:
    """Return the latest of some events that are in order: the best of those with the highest time."""
    key = (lambda e: e.position) if ask.counts else (lambda e: e.time)
    newest = max(key(e) for e in events)  # type: ignore[no-untyped-call]
    return next(e for e in events if key(e) == newest)  # type: ignore[no-untyped-call]


def in_order(
    events: Sequence[Event], order: str, select: Sequence[str] = (), prefer: str = "latest"
) -> list[Event]:  # fmt: skip
    """Sort events with the package's order rule."""
    if not events:
        return []
    names = sorted({e.id for e in events})
    key = np.array([names.index(e.id) for e in events])
    sign = 1.0 if order == "desc" else -1.0
    merit = np.array([sign * e.score for e in events])  # type: ignore[operator]
    columns = [pa.array([getattr(e, name) for e in events], COLUMNS[name], from_pandas=False) for name in select]
    ties = [value_ranks(column) for column in columns]
    turned = [e.time if prefer == "latest" else -e.time for e in events]  # type: ignore[operator]
    return [events[i] for i in best_first(merit, np.array(turned), key, ties=ties)]
