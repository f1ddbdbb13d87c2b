"""Joins: queries with remote values in their score or condition. Those of one service share it, and fetch together.

The stream's part is `skyband.engine.partials`; the join is `skyband.remote.acquatop` or, where the condition compares
the remote value, `skyband.remote.filter_join`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from skyband.answers.answer import AnswerBlock, Events, RefreshCost
from skyband.engine.explain import query_line
from skyband.engine.groups import Stream
from skyband.engine.intake import WARMING_UP
from skyband.engine.partial_rows import ID, REFRESHED, REMOTE, STREAM, TIME
from skyband.engine.partial_tables import PartialTables
from skyband.engine.partials_group import PartialsGroup
from skyband.engine.snapshot import State, under
from skyband.engine.stats import GroupStats
from skyband.errors import QueryError
from skyband.order import IntArray
from skyband.queries.query import Query
from skyband.remote.acquatop import acquatop
from skyband.remote.filter_join import filter_join
from skyband.remote.join import JoinedAnswer, RemoteJoin
from skyband.remote.remote import Remote
from skyband.remote.services.base import Id
from skyband.windows import NEVER, DueWindows


class JoinedQuery(PartialTables):
    """One joined query: its partials, and the join of their objects.

    Parameters
    ----------
    query
        The query.
    remote
        The service that it joins with.
    """

    def __init__(self, query: Query, remote: Remote) -> None:
        super().__init__(query)
        self.join = self._join(remote)

    def _join(self, remote: Remote) -> RemoteJoin:
        query, join, windows, condition = self.query, self.query.join, self.windows, self.decomposition.condition
        assert join is not None
        common: dict[str, Any] = {
            "windows": windows, "score": self.decomposition.joined,
            "k": None if query.is_set else query.k, "order": query.order,
            "policy": join.policy_for(condition is not None), "budget": join.budget, "default": join.default,
            "seed": join.seed, "only_candidates": join.only_candidates, "one_event": not self.decomposition.aggregates,
        }  # fmt: skip
        if condition is None:
            return acquatop(remote, **common, n=join.n, discover=join.discover, carry=join.carry)
        return filter_join(
            remote, **common, condition=condition.sign, threshold=condition.threshold, distance=join.distance,
            max_rows=query.max_rows if query.is_set else None,
        )  # fmt: skip

    def arrive(self, end: int) -> None:
        """Let the objects of a window arrive at the join."""
        found = self.objects(end).combine_chunks()
        stream, time = found[STREAM].to_numpy(), found[TIME].to_numpy()
        remote = None if self.on is None else found[REMOTE].combine_chunks()
        self.join.arrive(found[ID].combine_chunks(), stream, time, remote)

    def why(self, answer: JoinedAnswer, now: int) -> str:
        """Say why an answer is not exact; empty where it is."""
        if answer.start < self.schedule.exact_from:
            return WARMING_UP
        if self.doubt:
            return self.doubt
        if self.settled_since(self.windows.ending(answer.end)) < now:
            answer = replace(answer, exact=False)
        return answer.why

    # Looking inside, and snapshots.

    def stats(self) -> GroupStats:
        """Return the numbers so far; nothing bounds what is kept but the window."""
        stats = super().stats()
        kept = stats.kept + len(self.join)
        return replace(stats, ranking=f"{self}, joined with {self.decomposition.service}", kept=kept, bound=kept)

    def state(self) -> State:
        """Return everything but the remote side, which is shared."""
        meta, tables = super().state()
        inner, more = self.join.state()
        return meta | {"join": inner}, tables | {f"join/{name}": table for name, table in more.items()}

    def load(self, state: State) -> None:
        """Take over what `state` returned, of the same query; the remote side is as it was then."""
        super().load(state)
        meta, tables = state
        self.join.load((meta["join"], under("join/", tables)))


class JoinGroup(PartialsGroup[JoinedQuery]):
    """The joined queries of one service: those with windows that end together fetch together.

    Parameters
    ----------
    remotes
        What queries may join with.
    remote
        What these queries join with.
    """

    kind = "join"

    def __init__(self, remotes: Mapping[str, Remote], remote: Remote) -> None:
        super().__init__()
        self.remotes, self.remote = remotes, remote

    @classmethod
    def handles(cls, query: Query) -> bool:
        """Tell whether a query joins."""
        return query.join is not None

    @classmethod
    def of(cls, query: Query, stream: Stream, newest: int = NEVER) -> Self:  # noqa: ARG003 - as all kinds
        """Make a group for queries that join with the service of one; QueryError where it was not given."""
        assert query.join is not None
        name, remotes = query.join.service, stream.remotes
        if name not in remotes:
            given = f"given are {', '.join(map(repr, remotes))}" if remotes else "none is given"
            msg = f"the query joins with the service {name!r}, and {given}; give it as services={{{name!r}: …}}"
            raise QueryError(msg, query.name)
        return cls(remotes, remotes[name])

    def serves(self, query: Query) -> bool:
        """Tell whether a query can be added: it joins with the same service."""
        return query.join is not None and self.remotes.get(query.join.service) is self.remote

    def _made(self, query: Query) -> JoinedQuery:
        return JoinedQuery(query, self.remote)

    def remove(self, name: str) -> None:
        """Stop serving a query; what is known of the service stays."""
        super().remove(name)
        self.remote.shared_budget.forget(name)

    def learn(self, remote: Remote, changed: dict[Id, float]) -> None:
        """Take in values of a service that have changed, if it is this one."""
        for one in self.members if remote is self.remote else ():
            one.join.learn(changed)

    def settled(self, one: JoinedQuery) -> pa.Table:
        """Return the ids that are out of every answer of a query for good, and when their values were refreshed.

        Their remote values keep them out, and nobody will ask for these values again: neither the query nor any other
        that joins with the service. So where events are reduced elsewhere, those of such ids may stay there. None are
        settled where an id may get another remote row, where a value may be evicted, or where the service pushes its
        changes. A query that comes later and does ask for such values learns nothing for events that have stayed
        elsewhere.
        """
        if one.on is not None or self.remote.replica.capacity is not None or self.remote.pushes:
            return super().settled(one)
        names, value, since = self.remote.replica.columns()
        out = ~one.join.admits(value)
        if self.remote.shared_budget.budget != 0:
            for other in self.members:
                out &= ~other.join.election.may_elect(value)
        text = pa.types.is_string(one.id_type)
        places = [place for place in np.flatnonzero(out).tolist() if isinstance(names[place], str) == text]
        ids = pa.array([names[place] for place in places], one.id_type)
        return pa.table({ID: ids, REFRESHED: since[np.array(places, np.int64)]})

    # Answers out.

    def answer(self, due: DueWindows, limits: Sequence[int]) -> list[AnswerBlock]:
        """Answer windows in the order of their ends; those that end together fetch together."""
        moments: dict[int, list[tuple[int, int]]] = {}
        for place, end in zip(due.query.tolist(), due.end.tolist(), strict=True):
            # A right-closed window is answered a microsecond before its end here.
            moments.setdefault(end - self.schedules[place].shift, []).append((place, end))
        found: list[list[_Found]] = [[] for _ in self.members]
        for now in sorted(moments):
            for place, answered in self._at(now, moments[now]):
                found[place].append(answered)
        self.close(limits)
        return [block for place, answers in enumerate(found) if answers for block in self._blocks(place, answers)]

    def _at(self, now: int, windows: Sequence[tuple[int, int]]) -> Iterator[tuple[int, _Found]]:
        """Answer the windows of one moment; each is the place of its query, and its end."""
        elected: dict[str, list[Id]] = {}
        for place, end in windows:
            one = self.members[place]
            one.arrive(end)
            if one.schedule.paused:
                one.join.skip(end)
            elected[one.name] = [] if one.schedule.paused else one.join.prepare(end, now)
        refreshed = self.remote.refresh(elected, now)
        for other in self.members:
            if other.name not in elected:
                other.join.learn(refreshed.changed)
        for place, end in windows:
            one = self.members[place]
            if not one.schedule.paused:
                mine = refreshed if len(elected) == 1 else refreshed.of(elected[one.name])
                answer = one.join.conclude(end, now, mine)
                yield place, _Found(answer, one.why(answer, now), one.carried(answer.ids))

    def _blocks(self, place: int, found: Sequence[_Found]) -> list[AnswerBlock]:
        """Make columns of the answers of one query."""
        one, answers = self.members[place], [answered.answer for answered in found]
        rows = [row for answer in answers for row in answer.rows]
        carried = [answered.carried for answered in found if answered.carried is not None]
        ids = pa.array([row.id for row in rows], one.id_type)
        events = Events(
            id=ids if pa.types.is_string(ids.type) else ids.to_numpy(),
            score=np.array([row.score for row in rows], np.float64),
            time=np.array([row.time for row in rows], np.int64),
            part=None, partition=None,
            payload=pa.concat_tables(carried).combine_chunks() if carried else None,
            remote=np.array([row.value for row in rows], np.float64),
            age=np.array([row.age for row in rows], np.int64),
        )  # fmt: skip
        assert one.decomposition.service is not None
        due = DueWindows(np.full(len(found), place), _column(answers, "start"), _column(answers, "end"))
        cost = {name: _column(answers, name) for name in ("refreshes", "failures", "stale", "unknown")}
        why = np.array([answered.why for answered in found])
        blocks = self.answers.blocks(
            due, np.cumsum([0, *(len(answer.rows) for answer in answers)]), events, why == "", why,
            spent=RefreshCost(one.decomposition.service, **cost), ranked=not one.query.is_set,
        )  # fmt: skip
        mine = tuple(output.name for output in one.query.columns)
        selects = [mine if query is one.query else () for query in self.queries]  # nobody else's are carried
        return [replace(block, selects=selects) for block in blocks]

    def explain(self, number: int) -> list[str]:  # noqa: ARG002 - only rankings are numbered
        """Say what each query asks of whom, and what it keeps."""
        lines = [[f"joined: {one}", *(f"  {line}" for line in self._lines(one))] for one in self.members]
        return [line for part in lines for line in ["", *part]][1:]

    def _lines(self, one: JoinedQuery) -> list[str]:
        join, parts, remote = one.query.join, one.decomposition, self.remote
        assert join is not None
        policy = join.policy_for(parts.condition is not None)
        most = "no bound" if join.only_candidates else "all of the window is refreshed"
        budget = most if join.budget is None else f"at most {join.budget:,} refreshes an answer"
        whole = remote.shared_budget.budget
        shared = "" if whole is None else f", {whole:,} at one moment with others that share it"
        counted = f"{', '.join(map(str, parts.aggregates))} of its events" if parts.aggregates else "its latest event"
        best = f"a list of the best {one.query.k} + {join.n} of each window"
        kept = "the whole window" if one.join.objects.whole else best
        lines = [
            query_line(one.query),
            f"service {join.service!r} by {join.on or 'the id'}: {policy.name}, {budget}{shared}",
            f"an id counts once, with {counted}; {kept} is kept{one.kept_now(' objects')}",
        ]
        if requests := remote.traffic.requests:
            lines.append(f"{len(remote.replica):,} remote values are known, {requests:,} requests were made")
        return lines


@dataclass(frozen=True)
class _Found:
    """The answer of a window, why it is not exact, and what its rows carry along."""

    answer: JoinedAnswer
    why: str
    carried: pa.Table | None


def _column(answers: Sequence[JoinedAnswer], name: str) -> IntArray:
    return np.array([getattr(answer, name) for answer in answers], np.int64)
