"""The slow, obvious truth about a whole history: every window sorted anew, every query by itself.

It is written from docs/semantics.md and shares no code with the package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.histories import FILTERS, PARTITIONS, SCORES, Ask, History

Row = tuple[Any, int, Any, float, int, tuple[Any, ...]]  # partition, rank, id, score, time, selected columns
BEFORE_ALL = -(10**30)


@dataclass
class Event:
    time: int
    id: Any
    score: float
    part: Any
    values: tuple[Any, ...]
    arrival: int  # the number of its row
    position: int  # where it lies on the axis of the query's windows


@dataclass
class Reply:
    """What one answer must show; `rows` where it is exact, `changes` where the query asks for them."""

    query: str
    start: int
    end: int
    rows: list[Row]
    must_show: bool  # else it may be left out
    must_be_exact: bool
    provisional: bool = False
    changes: list[tuple[str, Row, int | None, int | None]] | None = None


@dataclass
class Followed:
    """One query as the definitions see it."""

    ask: Ask
    came: int  # how many rows had arrived before it
    newest: int  # the newest time then
    closed_to: int
    events: list[Event] = field(default_factory=list)
    paused: bool = False
    previous: list[Row] = field(default_factory=list)
    shown: dict[int, list[Row]] = field(default_factory=dict)

    @property
    def from_the_start(self) -> bool:
        return self.came == 0

    # Which windows there are.

    @property
    def phase(self) -> int:
        """Where windows start, modulo the slide; those that count events end after every `slide` events."""
        return -self.ask.size if self.ask.counts else self.ask.offset

    def first_end(self, position: int) -> int:
        """Return the end of the first window that contains a position."""
        ask = self.ask
        lowest = position - ask.size if ask.closed == "right" else position - ask.size + 1  # of its start
        return lowest + (self.phase - lowest) % ask.slide + ask.size

    def last_end(self, position: int) -> int:
        ask = self.ask
        highest = position - 1 if ask.closed == "right" else position
        return highest - (highest - self.phase) % ask.slide + ask.size

    def inside(self, end: int) -> list[Event]:
        start, right = end - self.ask.size, self.ask.closed == "right"
        return [e for e in self.events if (start < e.position <= end if right else start <= e.position < end)]

    # Rows in.

    def take(self, row: dict[str, Any], arrival: int) -> str:
        """Take in a row; say what became of it: "out", "rejected", "late", "partly" or "in"."""
        ask = self.ask
        if ask.where is not None and FILTERS[ask.where](row) is not True:
            return "out"
        score = SCORES[ask.score](row)
        if row["t"] is None or row["id"] is None or score is None or math.isnan(score):
            return "rejected"
        part = None if ask.partition_by is None else PARTITIONS[ask.partition_by](row)
        position = len(self.events) if ask.counts else row["t"]
        values = tuple(row[name] for name in ask.select)
        event = Event(row["t"], row["id"], float(score), part, values, arrival, position)
        if not ask.counts and self.last_end(position) <= self.closed_to:
            return "late"
        self.events.append(event)
        return "partly" if not ask.counts and self.first_end(position) <= self.closed_to else "in"

    # Answers out.

    def due(self, limit: int) -> list[Reply]:
        """Answer the windows that end by a limit, from the first one that contains an event on."""
        replies = []
        end = self.first_end(min(e.position for e in self.events)) if self.events else limit + 1
        while end <= limit:
            if end > self.closed_to:
                self.shown.pop(end, None)
                replies += [] if self.paused else [self.reply(end)]
            end += self.ask.slide
        self.closed_to = max(self.closed_to, limit)
        return replies

    def reply(self, end: int, provisional: bool = False) -> Reply:
        inside = self.inside(end)
        rows = ranked(self.ask, inside)
        since = self.from_the_start or any(e.arrival >= self.came for e in inside)
        unseen = end - self.ask.size > self.newest
        reply = Reply(
            self.ask.name, end - self.ask.size, end, rows, since, self.from_the_start or unseen, provisional
        )  # fmt: skip
        if self.ask.emit in ("changes", "entered", "left") and not provisional:
            by_id = self.ask.distinct is not None and self.ask.emit == "changes"
            found = difference(self.previous, rows, by_id)
            reply.changes = [change for change in found if self.ask.emit in ("changes", change[0])]
            self.previous = rows
        return reply

    def early(self) -> list[Reply]:
        """Show the open windows that look different from when they were last shown."""
        if self.ask.emit != "early" or self.paused or not self.events:
            return []
        end, last, replies = self.first_end(min(e.position for e in self.events)), self.end, []
        while end <= last:
            if end > self.closed_to:
                reply = self.reply(end, provisional=True)
                if self.shown.get(end) != reply.rows:
                    self.shown[end] = reply.rows
                    replies.append(reply)
            end += self.ask.slide
        return replies

    @property
    def end(self) -> int:
        """Return the end of the last window that is answered if no more events come."""
        if self.ask.counts:
            return -(-len(self.events) // self.ask.slide) * self.ask.slide
        return max(self.last_end(e.position) for e in self.events)


def ranked(ask: Ask, events: Sequence[Event]) -> list[Row]:
    rows: list[Row] = []
    parts = {e.part for e in events}
    for part in sorted(parts, key=lambda value: (value is not None, value if value is not None else 0)):
        members = sorted((e for e in events if e.part == part), key=lambda e: rank_key(ask, e))
        if ask.distinct == "latest":
            newest = {e.id: max(o.position for o in members if o.id == e.id) for e in members}
            members = [e for e in members if e.position == newest[e.id]]
        if ask.distinct is not None:
            members = [e for i, e in enumerate(members) if e.id not in {o.id for o in members[:i]}]
        rows += [(part, i, e.id, e.score, e.time, e.values) for i, e in enumerate(members[: ask.k], 1)]
    return rows


def rank_key(ask: Ask, event: Event) -> tuple[Any, ...]:
    """Sort by better score, later time, smaller id, then the selected columns, NULL first."""
    merit = event.score if ask.order == "desc" else -event.score
    values = tuple((value is not None, value if value is not None else 0) for value in event.values)
    return (-merit, -event.time, event.id, values)


def difference(
    before: Sequence[Row], after: Sequence[Row], by_id: bool
) -> list[tuple[str, Row, int | None, int | None]]:
    """List what left, then by rank what entered, moved or was updated: kind, row, rank before, rank now."""

    def named(rows: Sequence[Row]) -> list[tuple[Any, Row]]:
        names: list[Any] = []
        for part, _, id_, score, time, values in rows:
            name = (part, id_) if by_id else (part, id_, time, score, values)
            names.append((name, sum(other[0] == name for other in names)))
        return list(zip(names, rows, strict=True))

    old, new = dict(named(before)), dict(named(after))
    found: list[tuple[str, Row, int | None, int | None]] = [
        ("left", row, row[1], None) for name, row in named(before) if name not in new
    ]
    for name, row in named(after):
        was = old.get(name)
        if was is None:
            found.append(("entered", row, None, row[1]))
        elif was[1] != row[1]:
            found.append(("moved", row, was[1], row[1]))
        elif was != row:
            found.append(("updated", row, was[1], row[1]))
    return found


@dataclass
class Truth:
    """What must be seen of a history: replies step by step, and the counts in the end."""

    history: History
    replies: list[list[Reply]] = field(default_factory=list)  # by push, then those of the end
    rows: int = 0
    rejected: int = 0
    late: int = 0
    partly_late: int = 0

    @classmethod
    def of(cls, history: History) -> Truth:
        truth = cls(history)
        truth.play()
        return truth

    @property
    def from_the_start(self) -> set[str]:
        """The queries that never were anything but there from the start."""
        later = {step.ask.name for step in self.history.steps[len(self.history.begun) :] if step.ask is not None}
        return {ask.name for ask in self.history.begun} - later

    def play(self) -> None:
        self.queries: dict[str, Followed] = {}
        self.seen: list[dict[str, Any]] = []
        self.newest = self.watermark = BEFORE_ALL
        for step in self.history.steps:
            if step.do in ("register", "change"):
                assert step.ask is not None
                self.register(step.ask)
            elif step.do in ("pause", "resume"):
                self.queries[step.name].paused = step.do == "pause"
            elif step.do == "remove":
                del self.queries[step.name]
            elif step.do == "push":
                self.replies.append(self.push(step.rows))
        self.replies.append([reply for q in self.queries.values() if q.events for reply in q.due(q.end)])

    def register(self, ask: Ask) -> None:
        """Serve a query from now on; in the place of the one with its name, where there is one."""
        closed = BEFORE_ALL if ask.counts else self.limit(ask)
        paused = ask.name in self.queries and self.queries[ask.name].paused
        query = Followed(ask, len(self.seen), self.newest, closed, paused=paused)
        for arrival, row in enumerate(self.seen):  # what came before, as far as it is in a window that is still open
            query.take(row, arrival)
        self.queries[ask.name] = query

    def limit(self, ask: Ask) -> int:
        return self.watermark - 1 if ask.closed == "right" else self.watermark

    def push(self, rows: Sequence[dict[str, Any]]) -> list[Reply]:
        for row in rows:
            fates = [query.take(row, len(self.seen)) for query in self.queries.values()]
            self.count(fates)
            self.seen.append(row)
            if row["t"] is not None:
                self.newest = max(self.newest, row["t"])
        replies = [r for q in self.queries.values() if q.ask.counts for r in q.due(len(q.events))]
        if self.history.delay is not None and self.newest > BEFORE_ALL:
            self.watermark = max(self.watermark, self.newest - self.history.delay)
            for query in self.queries.values():
                if not query.ask.counts:
                    replies += query.due(self.limit(query.ask))
        return replies + [reply for query in self.queries.values() for reply in query.early()]

    def count(self, fates: list[str]) -> None:
        self.rows += 1
        concerned = [fate for fate in fates if fate != "out"]
        self.rejected += "rejected" in fates
        late = bool(concerned) and all(fate == "late" for fate in concerned)
        self.late += late
        self.partly_late += not late and any(fate in ("late", "partly") for fate in concerned)
