"""A joined query at work: events in, and one answer for each window, refreshed within its budget.

The stream's side is `skyband.stream_side`, the join is `skyband.acquatop` or, where the condition compares the remote
value, `skyband.filter_join`. Queries with windows that end at the same moment are answered together, so that those who
share a service fetch together, within the budget of the service.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.acquatop import AcquaTop
from skyband.answer import Answers, Block, Events, Row, Spent
from skyband.changes import as_rows, as_table, difference
from skyband.errors import QueryError
from skyband.filter_join import FilterJoin
from skyband.intake import WARMING_UP, Counts, Seen
from skyband.joined import Id, Panorama
from skyband.maintainer import Refreshed
from skyband.order import IntArray
from skyband.query import Query
from skyband.remote_join import JoinedAnswer, RemoteJoin
from skyband.remotes import Remote
from skyband.rows import Rows
from skyband.stats import GroupStats
from skyband.stream_side import ID, REMOTE, ROWS, STREAM, TIME, StreamSide
from skyband.windows import ALWAYS, NEVER, Due, Schedule


@dataclass(frozen=True)
class Reduced:
    """Events of a batch as partials, and how many rows of the batch are none; `newest` is the latest time of all."""

    partials: pa.Table
    newest: int
    late: int = 0
    partly_late: int = 0
    rejected: int = 0


class JoinedQuery:
    """One joined query.

    Parameters
    ----------
    query
        The query.
    remote
        The service that it joins with.
    """

    def __init__(self, query: Query, remote: Remote) -> None:
        assert query.sides is not None
        assert query.join is not None
        self.query, self.remote, self.sides = query, remote, query.sides
        self.schedule = Schedule.of(query)
        self.windows = Panorama(self.schedule.size, self.schedule.slide, self.schedule.phase)
        self.side = StreamSide(self.sides, self.windows, query.order, query.join.on, query.select)
        self.join = _join(query, remote, self.windows)
        self.counts = Counts()
        self.first, self.last = ALWAYS, NEVER
        self.previous: list[Row] = []
        self.plain = False

    @property
    def name(self) -> str:
        """The query's name."""
        return self.query.name

    def __str__(self) -> str:
        return f"score {self.query.score_expression} {self.query.order}" + (
            "" if self.query.where is None else f", where {self.query.where_expression}"
        )

    # Events in.

    @property
    def late_before(self) -> int:
        """Where the next window starts: an event before it has missed all its windows."""
        return self.schedule.next_start

    def push(self, rows: Rows) -> Seen:
        """Take in one batch."""
        passed, good = self.side.passing(rows)
        missed = good & (rows.time < self.late_before)
        partly = np.flatnonzero(good & ~missed & (rows.time < self._answered_to))
        late, taken = np.flatnonzero(missed), np.flatnonzero(good & ~missed)
        seen = Seen(passed, np.flatnonzero(passed & ~good), late, partly)
        partials = self.side.partials(rows, taken)
        self.take(Reduced(partials, rows.newest, len(late), len(partly), len(seen.rejected)))
        return seen

    def take(self, reduced: Reduced) -> None:
        """Take in a batch that is reduced already; of late rows, only their number."""
        partials, counts = reduced.partials, self.counts
        counts.late += reduced.late
        counts.partly_late += reduced.partly_late
        counts.rejected += reduced.rejected
        if not partials.num_rows:
            return
        time = partials[TIME].to_numpy()
        # Which windows are the first is the same for all times of the first pane.
        self.first, self.last = min(self.first, int(time.min())), max(self.last, int(time.max()))
        counts.events += int(partials[ROWS].to_numpy().sum())
        self.side.add(partials)

    @property
    def partly_before(self) -> int:
        """The first pane that no answered window has: what lies before it has missed some of its windows."""
        return NEVER if self._answered_to == NEVER else int(self.side.grid.of(np.array([self._answered_to]))[0])

    @property
    def _answered_to(self) -> int:
        start = self.late_before
        return NEVER if start == NEVER else start + self.schedule.size - self.schedule.slide

    # Answers out.

    def due(self, watermark: int) -> Due:
        """List the windows that a watermark closes."""
        return Due.by([self.schedule], self.first, [watermark])

    def rest(self) -> Due:
        """List all windows that contain an event: the input has ended."""
        return Due.none() if self.last == NEVER else self.due(self.schedule.last_end_of(self.last))

    def close(self, watermark: int) -> None:
        """Note that windows up to a watermark are past."""
        self.schedule.closed_to = max(self.schedule.closed_to, watermark)

    def prepare(self, end: int) -> list[Id]:
        """Let the objects of a window arrive; return the remote ids to refresh for its answer."""
        window = self.windows.ending(end)
        found = self.side.objects(window)
        columns = [found[name] for name in (ID, STREAM, TIME, REMOTE)]
        self.join.arrive(columns[0].to_pylist(), columns[1].to_numpy(), columns[2].to_numpy(), columns[3].to_pylist())
        if self.schedule.paused:
            self.join.skip(end)
            return []
        return self.join.prepare(end, self._moment(end))

    def conclude(self, end: int, refreshed: Refreshed) -> tuple[JoinedAnswer, pa.Table | None] | None:
        """Return the answer of a window, with what its rows carry along; None where nobody wants to see it."""
        if self.schedule.paused:
            return None
        answer = self.join.conclude(end, self._moment(end), refreshed)
        carried = self.side.carried(answer.ids)
        if self.query.select:
            self.side.retain(self.join.ids())
        return answer, carried

    def _moment(self, end: int) -> int:
        """Return when a window is answered: a right-closed one ends a microsecond before that here."""
        return end - self.schedule.shift

    def block(self, answers: Sequence[tuple[JoinedAnswer, pa.Table | None]], why: str | None) -> Block:
        """Make columns of answers, which are exact or not for the same reason."""
        rows = [row for answer, _ in answers for row in answer.rows]
        carried = [table for _, table in answers if table is not None]
        ids: Any = pa.array([row.id for row in rows], pa.string() if self.side.text_ids else pa.int64())
        events = Events(
            id=ids if self.side.text_ids else ids.to_numpy(),
            score=np.array([row.score for row in rows], np.float64),
            time=np.array([row.time for row in rows], np.int64),
            part=None, partition=None,
            payload=pa.concat_tables(carried).combine_chunks() if carried else None,
            remote=np.array([row.value for row in rows], np.float64),
            age=np.array([row.age for row in rows], np.int64),
        )  # fmt: skip
        given = [answer for answer, _ in answers]
        block = Block(
            names=[self.name], query=np.zeros(len(given), np.int64),
            start=_column(answer.start - self.schedule.shift for answer in given),
            end=_column(answer.end - self.schedule.shift for answer in given),
            exact=np.full(len(given), why is None),
            offsets=np.cumsum([0, *(len(answer.rows) for answer in given)]),
            events=events, place=None, selects=[self.query.select], counts=False, why=why,
            spent=Spent(
                self.sides.service,
                refreshes=_column(answer.refreshes for answer in given),
                failures=_column(answer.failures for answer in given),
                stale=_column(answer.stale for answer in given),
                unknown=_column(answer.unknown for answer in given),
            ),
        )  # fmt: skip
        return self._with_changes(block) if self.query.emits_changes else block

    def why(self, answer: JoinedAnswer) -> str | None:
        """Say why an answer is not exact."""
        if answer.start < self.schedule.exact_from:
            return WARMING_UP
        return None if answer.exact else answer.why

    def _with_changes(self, block: Block) -> Block:
        changes, emit = [], self.query.emit
        for answer in Answers([block], plain=self.plain):
            found = difference(self.previous, answer.rows, by_id=emit == "changes")
            changes.append([change for change in found if emit in ("changes", change.kind)])
            self.previous = answer.rows
        return replace(block, changes=changes)

    # Looking inside, and snapshots.

    def stats(self) -> GroupStats:
        """Return the numbers so far; nothing bounds what is kept but the window."""
        kept = len(self.side) + len(self.join.ids())
        return GroupStats(f"{self}, joined with {self.sides.service}", (self.name,), **asdict(self.counts),
                          kept=kept, bound=kept)  # fmt: skip

    def state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """Return everything but what is known of the remote side, which is shared."""
        meta, tables = self.join.state()
        return {
            "query": self.query.as_dict(), "schedule": asdict(self.schedule), "counts": asdict(self.counts),
            "extent": [self.first, self.last], "join": meta,
        }, {
            **{f"side/{name}": table for name, table in self.side.state().items()},
            **{f"join/{name}": table for name, table in tables.items()},
            **({"previous": as_table(self.previous)} if self.previous else {}),
        }  # fmt: skip

    @classmethod
    def load(cls, state: tuple[dict[str, Any], dict[str, pa.Table]], remotes: dict[str, Remote]) -> JoinedQuery:
        """Make a joined query again from what `state` returned."""
        meta, tables = state
        query = Query.from_dict(meta["query"])
        one = cls(query, remote_of(query, remotes))
        one.schedule, one.counts = Schedule(**meta["schedule"]), Counts(**meta["counts"])
        one.first, one.last = meta["extent"]
        parts = {
            name: {key.removeprefix(name): table for key, table in tables.items() if key.startswith(name)}
            for name in ("side/", "join/")
        }
        one.side.load(parts["side/"])
        one.join.load((meta["join"], parts["join/"]))
        one.previous = as_rows(tables["previous"]) if "previous" in tables else []
        return one


def remote_of(query: Query, remotes: dict[str, Remote]) -> Remote:
    """Return the service that a query joins with; QueryError where it was not given."""
    assert query.join is not None
    name = query.join.service
    if name not in remotes:
        given = f"given are {', '.join(map(repr, remotes))}" if remotes else "none is given"
        msg = f"the query joins with the service {name!r}, and {given}; give it as services={{{name!r}: …}}"
        raise QueryError(msg, query.name)
    return remotes[name]


def answer_together(dues: Sequence[tuple[JoinedQuery, Due]]) -> list[Block]:
    """Answer windows in the order of their ends; those that end together and share a service fetch together."""
    moments: dict[int, list[tuple[JoinedQuery, int]]] = {}
    for one, due in dues:
        for end in due.end.tolist():
            moments.setdefault(end - one.schedule.shift, []).append((one, end))
    found: dict[tuple[str, str | None], list[tuple[JoinedAnswer, pa.Table | None]]] = {}
    for now in sorted(moments):
        by_remote: dict[int, list[tuple[JoinedQuery, int]]] = {}
        for one, end in moments[now]:
            by_remote.setdefault(id(one.remote), []).append((one, end))
        for members in by_remote.values():
            elected = [one.prepare(end) for one, end in members]
            first = members[0][0]
            refreshed = first.join.maintainer.refresh(first.remote.share(elected), now)
            for (one, end), mine in zip(members, elected, strict=True):
                answered = one.conclude(end, refreshed.of(mine))
                if answered is not None:
                    found.setdefault((one.name, one.why(answered[0])), []).append(answered)
    named = {one.name: one for one, _ in dues}
    return [named[name].block(answers, why) for (name, why), answers in found.items()]


def _join(query: Query, remote: Remote, windows: Panorama) -> RemoteJoin:
    join, sides = query.join, query.sides
    assert join is not None
    assert sides is not None
    policy = join.policy_for(sides.condition is not None)
    common: dict[str, Any] = {
        "size": windows.size, "slide": windows.slide, "offset": windows.offset, "k": query.k, "score": sides.joined,
        "order": query.order, "gateway": remote.gateway, "replica": remote.replica, "policy": policy,
        "budget": join.budget, "default": join.default, "seed": join.seed,
    }  # fmt: skip
    if sides.condition is None:
        return AcquaTop(**common, n=join.n, discover=join.discover, carry=join.carry)
    condition = sides.condition
    return FilterJoin(**common, condition=condition.sign, threshold=condition.threshold, distance=join.distance)


def _column(values: Any) -> IntArray:
    return np.array(list(values), np.int64)
