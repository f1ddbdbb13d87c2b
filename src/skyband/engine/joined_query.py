"""A joined query at work: events in, and one answer for each window, refreshed within its budget.

The stream's side is `skyband.engine.partials`, the join is `skyband.remote.acquatop` or, where the condition compares
the remote value, `skyband.remote.filter_join`. Queries with windows that end at the same moment are answered together,
so that those who share a service fetch together, within the budget of the service.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.answers.answer import AnswerBlock, Events, RefreshCost
from skyband.engine.groups import AnswerBuilder
from skyband.engine.intake import WARMING_UP
from skyband.engine.partials import ID, REMOTE, STREAM, TIME
from skyband.engine.per_id import PerIdQuery
from skyband.engine.snapshot import State, under
from skyband.engine.stats import GroupStats
from skyband.errors import QueryError
from skyband.order import IntArray
from skyband.queries.query import Query
from skyband.remote.acquatop import acquatop
from skyband.remote.filter_join import filter_join
from skyband.remote.join import JoinedAnswer, RemoteJoin
from skyband.remote.remote import Refreshed, Remote
from skyband.remote.services.base import Id
from skyband.windows import DueWindows, WindowGrid


class JoinedQuery(PerIdQuery):
    """One joined query.

    Parameters
    ----------
    query
        The query.
    remote
        The service that it joins with.
    """

    def __init__(self, query: Query, remote: Remote) -> None:
        super().__init__(query)
        self.remote = remote
        self.join = _join(query, remote, self.windows)

    # Answers out.

    def prepare(self, end: int) -> list[Id]:
        """Let the objects of a window arrive; return the remote ids to refresh for its answer."""
        found = self.objects(end)
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
        if self.side.aside_since(self.windows.ending(end)) < self._moment(end):
            answer = replace(answer, exact=False)
        return answer, self.side.carried(answer.ids)

    def _moment(self, end: int) -> int:
        """Return when a window is answered: a right-closed one ends a microsecond before that here."""
        return end - self.schedule.shift

    def blocks(
        self, place: int, found: Sequence[tuple[JoinedAnswer, pa.Table | None]], answers: AnswerBuilder
    ) -> list[AnswerBlock]:
        """Make columns of answers; the query has this place in its group."""
        rows = [row for answer, _ in found for row in answer.rows]
        carried = [table for _, table in found if table is not None]
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
        assert self.sides.service is not None
        given = [answer for answer, _ in found]
        why = [self.why(answer) for answer in given]
        due = DueWindows(
            np.full(len(given), place),
            _column(answer.start for answer in given),
            _column(answer.end for answer in given),
        )
        spent = RefreshCost(
            self.sides.service,
            refreshes=_column(answer.refreshes for answer in given),
            failures=_column(answer.failures for answer in given),
            stale=_column(answer.stale for answer in given),
            unknown=_column(answer.unknown for answer in given),
        )
        return answers.blocks(
            due, np.cumsum([0, *(len(answer.rows) for answer in given)]), events,
            np.array([reason is None for reason in why]), np.array([reason or "" for reason in why]),
            spent=spent, ranked=not self.query.is_set,
        )  # fmt: skip

    def why(self, answer: JoinedAnswer) -> str | None:
        """Say why an answer is not exact."""
        if answer.start < self.schedule.exact_from:
            return WARMING_UP
        return None if answer.exact else answer.why

    # Looking inside, and snapshots.

    def stats(self) -> GroupStats:
        """Return the numbers so far; nothing bounds what is kept but the window."""
        stats = super().stats()
        kept = stats.kept + len(self.join.ids())
        return replace(stats, ranking=f"{self}, joined with {self.sides.service}", kept=kept, bound=kept)

    def state(self) -> State:
        """Return everything but what is known of the remote side, which is shared."""
        meta, tables = super().state()
        inner, more = self.join.state()
        return meta | {"join": inner}, tables | {f"join/{name}": table for name, table in more.items()}

    def load(self, state: State) -> None:
        """Take over what `state` returned, of the same query; the remote side is as it was then."""
        super().load(state)
        meta, tables = state
        self.join.load((meta["join"], under("join/", tables)))


def remote_of(query: Query, remotes: dict[str, Remote]) -> Remote:
    """Return the service that a query joins with; QueryError where it was not given."""
    assert query.join is not None
    name = query.join.service
    if name not in remotes:
        given = f"given are {', '.join(map(repr, remotes))}" if remotes else "none is given"
        msg = f"the query joins with the service {name!r}, and {given}; give it as services={{{name!r}: …}}"
        raise QueryError(msg, query.name)
    return remotes[name]


def answer_together(members: Sequence[JoinedQuery], due: DueWindows, answers: AnswerBuilder) -> list[AnswerBlock]:
    """Answer windows of queries that share a service in the order of their ends; those that end together fetch so."""
    moments: dict[int, list[tuple[JoinedQuery, int]]] = {}
    for query, end in zip(due.query.tolist(), due.end.tolist(), strict=True):
        moments.setdefault(end - members[query].schedule.shift, []).append((members[query], end))
    found: dict[str, list[tuple[JoinedAnswer, pa.Table | None]]] = {}
    for now in sorted(moments):
        elected = {one.name: one.prepare(end) for one, end in moments[now]}
        first = moments[now][0][0]
        refreshed = first.remote.refresh(elected, now)
        for other in members:
            if other.name not in elected:
                other.join.learn(refreshed.changed)
        for one, end in moments[now]:
            answered = one.conclude(end, refreshed.of(elected[one.name]))
            if answered is not None:
                found.setdefault(one.name, []).append(answered)
    return [
        block
        for place, one in enumerate(members)
        if one.name in found
        for block in one.blocks(place, found[one.name], answers)
    ]


def _join(query: Query, remote: Remote, windows: WindowGrid) -> RemoteJoin:
    join, sides = query.join, query.sides
    assert join is not None
    assert sides is not None
    policy = join.policy_for(sides.condition is not None)
    common: dict[str, Any] = {
        "size": windows.size, "slide": windows.slide, "offset": windows.offset, "score": sides.joined,
        "k": None if query.is_set else query.k,
        "order": query.order, "policy": policy,
        "budget": join.budget, "default": join.default, "seed": join.seed,
        "only_candidates": join.only_candidates, "one_event": not sides.aggregates,
    }  # fmt: skip
    if sides.condition is None:
        return acquatop(remote, **common, n=join.n, discover=join.discover, carry=join.carry)
    condition = sides.condition
    return filter_join(
        remote, **common, condition=condition.sign, threshold=condition.threshold, distance=join.distance,
        max_rows=query.max_rows if query.is_set else None,
    )  # fmt: skip


def _column(values: Any) -> IntArray:
    return np.array(list(values), np.int64)
