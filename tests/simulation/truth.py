"""The slow, obvious truth about a whole history: every window sorted anew, every query by itself.

It is written from docs/semantics.md and shares no code with the package.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    start: int | None
    end: int
    rows: list[Row]
    must_show: bool  # else it may be left out
    must_be_exact: bool
    provisional: bool = False
    changes: list[tuple[str, Row, int | None, int | None]] | None = None
    is_covered: bool = False  # exact by what queries that rank alike have kept
    part: Any = None  # where each partition is answered apart
    fresh: list[Any] = field(default_factory=list)  # the partitions of its events that came after the query
    why: str = "warming up"  # what is said where it is not exact


@dataclass
class Shared:
    """What queries that rank alike share: the first and the last event that any of them was in time for."""

    ask: Ask  # the one that began it: its columns are carried
    names: set[str] = field(default_factory=set)
    first: int | None = None
    last: int | None = None
    is_doubtful: bool = False  # whether some of its queries might as well share something else
    grows: bool = False  # whether windows grow, or did: panes are joined then, and a new query may find less

    def serves(self, ask: Ask) -> bool:
        return ranks_alike(self.ask, ask)

    def take(self, position: int) -> None:
        self.first = position if self.first is None else min(self.first, position)
        self.last = position if self.last is None else max(self.last, position)


def ranks_alike(one: Ask, other: Ask) -> bool:
    """Tell whether what is kept for one query serves another: the selected columns settle ties."""
    same = ("score", "where", "partition_by", "distinct", "order", "counts", "ties", "prefer")
    alike = all(getattr(one, name) == getattr(other, name) for name in same)
    return alike and one.select[: len(other.select)] == other.select


@dataclass
class Followed:
    """One query as the definitions see it."""

    ask: Ask
    came: int  # how many rows had arrived before it
    newest: int  # the newest time then
    closed_to: int
    known: tuple[int, ...] = ()  # the first and last events that queries which rank alike had seen, where they matter
    covered_from: int | None = None  # windows from this position on are exact by what others have kept
    is_doubtful: bool = False  # whether `known` is
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
        if self.grows:
            return position + ask.slide - (position - ask.offset) % ask.slide
        lowest = position - ask.size if ask.closed == "right" else position - ask.size + 1  # of its start
        return lowest + (self.phase - lowest) % ask.slide + ask.size

    @property
    def grows(self) -> bool:
        return self.ask.kind != "sliding"

    def start(self, end: int) -> int:
        """Return where the window starts that ends there."""
        if self.ask.kind == "all_time":
            return BEFORE_ALL
        if self.ask.kind == "cumulative":
            return end - 1 - (end - 1 - self.ask.offset) % self.ask.size
        return end - self.ask.size

    @property
    def shift(self) -> int:
        """What must be added to starts and ends to get the first position inside, and the first one behind."""
        return 1 if self.ask.closed == "right" else 0

    @property
    def next_start(self) -> int:
        """Return the first position inside the first window that is not answered yet."""
        if self.closed_to <= BEFORE_ALL:
            return BEFORE_ALL
        if self.grows:
            return self.start(self.first_end(self.closed_to))
        end = self.closed_to + 1  # of a window that is still to be answered: no earlier than this
        return end + (self.phase + self.ask.size - end) % self.ask.slide - self.ask.size + self.shift

    @property
    def whole_from(self) -> int:
        """Return the position from which on nothing was missed of what this query may need."""
        if self.from_the_start:
            return BEFORE_ALL
        return self.newest + 1 if self.covered_from is None else min(self.newest + 1, self.covered_from)

    def has_cut(self, position: int, starts: bool = False) -> bool:
        """Tell whether a window starts or ends at a position; with `starts`, only whether one starts there."""
        ask, place = self.ask, position - self.shift - self.phase
        return place % ask.slide == 0 or (not starts and (place - ask.size) % ask.slide == 0)

    def last_end(self, position: int) -> int:
        ask = self.ask
        if ask.kind == "all_time":
            return -BEFORE_ALL
        if ask.kind == "cumulative":
            return position - (position - ask.offset) % ask.size + ask.size
        highest = position - 1 if ask.closed == "right" else position
        return highest - (highest - self.phase) % ask.slide + ask.size

    def inside(self, end: int) -> list[Event]:
        start, right = self.start(end), self.ask.closed == "right"
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

    @property
    def positions(self) -> list[int]:
        """The positions of the events that are known to be there."""
        return [*self.known, *(e.position for e in self.events if e.arrival >= self.came)]

    @property
    def begin(self) -> int:
        """Return the end of the first window that is answered."""
        return self.first_end(min(self.positions))

    def due(self, limit: int) -> list[Reply]:
        """Answer the windows that end by a limit, from the first one that contains an event on."""
        replies = []
        end = self.begin if self.positions else limit + 1
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
        start = self.start(end)
        unseen = self.from_the_start or start + self.shift > self.newest
        fresh = [e.part for e in inside if e.arrival >= self.came]
        must_show = not self.is_doubtful or bool(fresh)
        begin = None if start == BEFORE_ALL else start
        reply = Reply(self.ask.name, begin, end, rows, must_show, unseen, provisional, fresh=fresh)
        reply.why = f"since {self.newest}" if begin is None else reply.why
        reply.is_covered = self.covered_from is not None and start + self.shift >= self.covered_from
        if self.ask.emit in ("changes", "entered", "left") and not provisional:
            by_id = self.ask.distinct is not None and self.ask.emit == "changes"
            found = difference(self.previous, rows, by_id)
            reply.changes = [change for change in found if self.ask.emit in ("changes", change[0])]
            self.previous = rows
        return reply

    def early(self) -> list[Reply]:
        """Show the open windows that look different from when they were last shown."""
        if self.ask.emit != "early" or self.paused or not self.positions:
            return []
        end, last, replies = self.begin, self.end, []
        if self.grows:  # the further ones hold the same events so far
            last = self.first_end(max(self.positions))
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
        if self.ask.kind == "all_time":
            return self.first_end(max(self.positions))
        return self.last_end(max(self.positions))


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
        for place, e in enumerate(members, 1):
            better = [o.score for o in members if rank_key(ask, o)[0] < rank_key(ask, e)[0]]
            rank = {None: place, "with": len(better) + 1, "dense": len(set(better)) + 1}[ask.ties]
            rows += [(part, rank, e.id, e.score, e.time, e.values)] if rank <= ask.k else []
    return rows


def rank_key(ask: Ask, event: Event) -> tuple[Any, ...]:
    """Sort by better score, preferred time, smaller id, then the selected columns, NULL first."""
    merit = event.score if ask.order == "desc" else -event.score
    values = tuple((value is not None, value if value is not None else 0) for value in event.values)
    return (-merit, event.time if ask.prefer == "earliest" else -event.time, event.id, values)


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
    on_executors: bool = False  # whether it is as docs/spark.md says of many groups
    replies: list[list[Reply]] = field(default_factory=list)  # by push, then those of the end
    rows: int = 0
    rejected: int = 0
    late: int = 0
    partly_late: int = 0

    @classmethod
    def of(cls, history: History, on_executors: bool = False) -> Truth:
        truth = cls(history, on_executors)
        truth.play()
        return truth

    def __post_init__(self) -> None:
        self.queries: dict[str, Followed] = {}
        self.shared: list[Shared] = []
        self.seen: list[dict[str, Any]] = []
        self.newest = self.watermark = BEFORE_ALL

    def play(self) -> None:
        for step in self.history.steps:
            if step.do in ("register", "change"):
                assert step.ask is not None
                self.register(step.ask)
            elif step.do in ("pause", "resume"):
                self.queries[step.name].paused = step.do == "pause"
            elif step.do == "remove":
                del self.queries[step.name]
                self.leave(step.name)
            elif step.do == "push":
                self.replies.append(self.push(step.rows))
        self.replies.append([reply for q in self.queries.values() if q.positions for reply in q.due(q.end)])

    def register(self, ask: Ask) -> None:
        """Serve a query from now on; in the place of the one with its name, where there is one."""
        closed = BEFORE_ALL if ask.counts else self.limit(ask)
        paused = ask.name in self.queries and self.queries[ask.name].paused
        query = Followed(ask, len(self.seen), self.newest, closed, paused=paused)
        for arrival, row in enumerate(self.seen):  # what came before, as far as it is in a window that is still open
            query.take(row, arrival)
        self.join(query)
        found = [self.covered_from(query, shared) for shared in self.shared if shared.serves(ask)]
        query.covered_from = min((position for position in found if position is not None), default=None)
        self.queries[ask.name] = query

    def join(self, query: Followed) -> None:
        """Let a query share what is kept, and begin where that does."""
        ask = query.ask
        found = [shared for shared in self.shared if shared.serves(ask)] or [Shared(ask)]
        self.leave(ask.name)
        query.is_doubtful = len(found) > 1 or found[0].is_doubtful or (self.on_executors and query.came > 0)
        for shared in found:
            self.shared += [] if shared in self.shared else [shared]
            shared.names.add(ask.name)
            shared.grows |= query.grows
            shared.is_doubtful = query.is_doubtful
            if shared.last is not None and shared.first is not None and shared.last >= query.next_start:
                query.known += (shared.first, shared.last)

    def leave(self, name: str) -> None:
        for shared in self.shared:
            shared.names.discard(name)
        self.shared = [shared for shared in self.shared if shared.names]

    def covered_from(self, query: Followed, shared: Shared) -> int | None:
        """Return the position from which on the windows of a new query need nothing that was dropped.

        While a query of no smaller k still has to answer a window over an event, the event is dropped only for k better
        ones, of its pane or of later panes that are sealed. They are in every window of the new query that the event is
        in and that is not answered yet, if no window of it starts or ends inside a pane. Where neither partitions, nor
        ids that count once, nor shared ranks are asked for, better ones of the panes before count too, back to where a
        window starts: then each window of the new query must start where others do, or where there are too few of them.
        """
        ask = query.ask
        if shared.grows:
            return None
        others = [self.queries[name] for name in shared.names if name != ask.name]
        alike = [other for other in others if not other.is_doubtful]
        deep = [max(other.next_start, other.whole_from) for other in alike if other.ask.k >= ask.k]
        starts, ends = (self.cut_from(alike, query, place) for place in (query.phase, query.phase + ask.size))
        if ask.partition_by is None and ask.distinct is None and ask.ties is None:
            apart = [self.cut_from(alike, query, query.phase, starts=True), self.uncarried_from(alike, query)]
            known = [bound for bound in apart if bound is not None]
            starts = None if starts is None or not known else max(starts, min(known))
        found = [bound for bound in (min(deep, default=None), starts, ends) if bound is not None]
        return max(found) if len(found) == 3 else None

    def uncarried_from(self, others: Sequence[Followed], query: Followed) -> int | None:
        """Return from where on no event was dropped for others from before a start of the new query's windows.

        Between two starts of other windows there must be k better ones. Where all events together are fewer, nothing
        was dropped for others of another pane.
        """
        whole = Followed(replace(query.ask, counts=False), 0, BEFORE_ALL, BEFORE_ALL)
        for arrival, row in enumerate(self.seen):
            whole.take(row, arrival)
        found = []
        for other in others:
            if not other.from_the_start:
                continue
            slide, first = other.ask.slide, other.phase + other.shift
            begins = Counter(e.position - (e.position - first) % slide for e in whole.events)
            crossed = [
                begin + slide
                for begin, count in begins.items()
                if count >= other.ask.k and (query.phase + query.shift - begin - 1) % query.ask.slide < slide - 1
            ]
            found.append(max(crossed, default=BEFORE_ALL))
        return min(found, default=None)

    def cut_from(
        self, others: Sequence[Followed], query: Followed, place: int, starts: bool = False
    ) -> int | None:  # fmt: skip
        """Return from where on panes were cut at a place, and at every whole slide from there, before events came.

        With `starts`, these must be starts of windows.
        """
        found = []
        for other in others:
            if not other.from_the_start and other.covered_from is None:
                continue  # some of its cuts go through panes of before
            turns = math.lcm(query.ask.slide, other.ask.slide) // query.ask.slide
            places = [place + query.shift + turn * query.ask.slide for turn in range(turns)]
            found += [other.whole_from] if all(other.has_cut(position, starts) for position in places) else []
        return min(found, default=None)

    def limit(self, ask: Ask) -> int:
        return self.watermark - 1 if ask.closed == "right" else self.watermark

    def push(self, rows: Sequence[dict[str, Any]]) -> list[Reply]:
        for row in rows:
            fates = {name: query.take(row, len(self.seen)) for name, query in self.queries.items()}
            self.count([*fates.values()])
            for shared in self.shared:
                if any(fates[name] in ("in", "partly") for name in shared.names):
                    shared.take(row["t"])
            self.seen.append(row)
            if row["t"] is not None:
                self.newest = max(self.newest, row["t"])
        replies = [r for q in self.queries.values() if q.ask.counts for r in q.due(len(q.events))]
        if self.history.delay is not None and self.newest > BEFORE_ALL:
            self.watermark = max(self.watermark, self.mark(self.newest, self.history.delay))
            for query in self.queries.values():
                if not query.ask.counts:
                    replies += query.due(self.limit(query.ask))
        return replies + [reply for query in self.queries.values() for reply in query.early()]

    def mark(self, newest: int, delay: int) -> int:
        """Return the watermark; Spark counts whole milliseconds, and knows none before 1970."""
        if not self.on_executors:
            return newest - delay
        found = newest // 1_000 - -(-delay // 1_000)
        return found * 1_000 if found > 0 else BEFORE_ALL

    def count(self, fates: list[str]) -> None:
        self.rows += 1
        concerned = [fate for fate in fates if fate != "out"]
        self.rejected += "rejected" in fates
        late = bool(concerned) and all(fate == "late" for fate in concerned)
        self.late += late
        self.partly_late += not late and any(fate in ("late", "partly") for fate in concerned)
