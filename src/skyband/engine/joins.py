"""Groups of queries that rank ids: aggregated ones, and the joined queries of one service, which fetch together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
import pyarrow as pa

from skyband.answers.answer import AnswerBlock
from skyband.engine.aggregates import AggregatedQuery
from skyband.engine.explain import query_line
from skyband.engine.groups import QueryGroup, ReducedBatch, Stream
from skyband.engine.intake import BatchOutcome
from skyband.engine.joined_query import JoinedQuery, answer_together, remote_of
from skyband.engine.partials import ID, REFRESHED
from skyband.engine.per_id import PerIdQuery
from skyband.engine.plans import PartialsPlan
from skyband.engine.snapshot import State, under
from skyband.engine.stats import GroupStats
from skyband.errors import InputError, QueryError
from skyband.events.batch import EventBatch, StreamColumns
from skyband.queries.query import Query
from skyband.remote.remote import Remote
from skyband.remote.services.base import Id
from skyband.windows import ALWAYS, NEVER, DueWindows

Member = TypeVar("Member", bound=PerIdQuery)


class PerIdGroup(QueryGroup, Generic[Member]):
    """Queries that rank ids; each works alone on its side of the stream."""

    takes: ClassVar[Literal["rows", "partials"]] = "partials"

    def __init__(self) -> None:
        super().__init__()
        self.members: list[Member] = []
        self.schema: pa.Schema | None = None

    @abstractmethod
    def _made(self, query: Query) -> Member:
        """Make a member of a query."""

    @classmethod
    def check(cls, query: Query, stream: Stream, schema: pa.Schema | None) -> None:
        """Raise QueryError where a query cannot be served."""
        group = cls.of(query, stream)
        group.add([query], NEVER, NEVER)
        if schema is not None:
            group.bind(schema, stream.source)

    def add(self, queries: Sequence[Query], watermark: int, newest: int) -> None:
        """Serve more queries; of what began before `newest` they have not seen all."""
        members = [self._made(query) for query in queries]
        for one in members:
            one.schedule.closed_to = watermark
            if newest != NEVER:
                one.schedule.exact_from = one.schedule.first_start_from(newest + 1)
        self._enter(members)

    def _enter(self, members: Sequence[Member]) -> None:
        self.members += members
        self.queries += [one.query for one in members]
        self.schedules += [one.schedule for one in members]

    def remove(self, name: str) -> None:
        """Stop serving a query."""
        super().remove(name)
        self.members = [one for one in self.members if one.name != name]

    @property
    def carried(self) -> set[str]:
        """The columns that are carried into answers."""
        return {name for query in self.queries for name in query.select}

    @property
    def id_columns(self) -> set[str]:
        """The columns that queries take ids from, besides the stream's own."""
        return {name for one in self.members for name in (one.side.group_by, one.side.on) if name is not None}

    def bind(self, schema: pa.Schema, source: StreamColumns) -> None:
        """Look up the columns of all queries."""
        for one in self.members:
            try:
                one.side.bind(schema, source.id)
            except InputError as error:
                raise QueryError(str(error), one.name) from None
        self.answers.plain = source.is_plain(schema)
        self.schema = schema

    def push(self, rows: EventBatch) -> list[BatchOutcome]:
        """Take in one batch."""
        return [one.push(rows) for one in self.members]

    def merge(self, reduced: Mapping[str, ReducedBatch]) -> None:
        """Take in a batch that is reduced already."""
        for one in self.members:
            one.take(reduced[one.name])

    def plans(self) -> Iterator[tuple[tuple[Any, ...], PartialsPlan]]:
        """Yield which partials each query takes; those with the same key take the same."""
        for one in self.members:
            sides, side, settled = one.sides, one.side, self.settled(one)
            key = (sides.part, sides.aggregates, sides.where, one.windows, one.query.order, side.on, side.select,
                   side.group_by, one.late_before)  # fmt: skip
            yield (*key, *((sides.service, sides.condition) if settled.num_rows else ())), PartialsPlan(
                [one.name], sides, one.windows, side.grid, one.query.order, side.on, side.group_by, side.select,
                side.measures, one.late_before, one.partly_before, settled,
            )  # fmt: skip

    def settled(self, one: Member) -> pa.Table:
        """Return the ids that are out of every answer of a query for good, and when their values were refreshed."""
        kind = pa.string() if one.side.text_ids else pa.int64()
        return pa.table({ID: pa.array([], kind), REFRESHED: np.empty(0, np.int64)})

    def limits(self, watermark: int | None) -> list[int] | None:
        """Return up to where windows close."""
        if watermark == ALWAYS:
            return [
                one.schedule.closed_to if one.last == NEVER else one.schedule.last_end_of(one.last)
                for one in self.members
            ]
        return None if watermark is None else [watermark] * len(self.members)

    def take_unfit(self) -> int:
        """Return how many objects were rejected while answering since this was asked last."""
        return sum(one.take_unfit() for one in self.members)

    def stats(self) -> list[GroupStats]:
        """Return the numbers so far, query by query."""
        return [one.stats() for one in self.members]

    def state(self) -> State:
        """Return the state of each query, and the columns that it is bound to."""
        states = [one.state() for one in self.members]
        tables = {} if self.schema is None else {"schema": self.schema.empty_table()}
        for place, (_, inner) in enumerate(states):
            tables |= {f"{place}/{name}": table for name, table in inner.items()}
        return {"members": [meta for meta, _ in states]}, tables | self.answers.state()

    @classmethod
    def load(cls, state: State, stream: Stream) -> Self:
        """Make a group again from what `state` returned."""
        meta, tables = state
        queries = [Query.from_dict(given["query"]) for given in meta["members"]]
        group = cls.of(queries[0], stream)
        members = [group._made(query) for query in queries]
        for place, (one, inner) in enumerate(zip(members, meta["members"], strict=True)):
            one.load((inner, under(f"{place}/", tables)))
        group._enter(members)
        group.answers.load(tables)
        if "schema" in tables:
            group.bind(tables["schema"].schema, stream.source)
        return group


class AggregateGroup(PerIdGroup[AggregatedQuery]):
    """One aggregated query."""

    kind = "aggregate"

    @classmethod
    def handles(cls, query: Query) -> bool:
        """Tell whether a query ranks ids by aggregates of the stream alone."""
        return query.sides is not None and query.join is None

    @classmethod
    def of(cls, query: Query, stream: Stream, newest: int = NEVER) -> Self:  # noqa: ARG003 - as all kinds
        """Make a group for a query."""
        return cls()

    def serves(self, query: Query) -> bool:  # noqa: ARG002 - as all kinds
        """Tell whether a query can be added: each has a group of its own."""
        return not self.members

    def _made(self, query: Query) -> AggregatedQuery:
        return AggregatedQuery(query)

    def answer(self, due: DueWindows, limits: Sequence[int]) -> list[AnswerBlock]:
        """Answer windows, in order; those of a query that came later may not have seen all."""
        blocks = self.members[0].answer(due, self.answers) if len(due) else []
        self.close(limits)
        return blocks

    def explain(self, number: int) -> list[str]:  # noqa: ARG002 - only rankings are numbered
        """Say what is kept."""
        (one,) = self.members
        key = one.query.group_by or "the id"
        return [
            f"aggregated: {one}",
            f"  {query_line(one.query)}",
            f"  {key} counts once, with {', '.join(map(str, one.sides.aggregates))} of its events; one row for each "
            f"pane and {key} is kept{_now(one)}",
        ]


class JoinGroup(PerIdGroup[JoinedQuery]):
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
        return cls(stream.remotes, remote_of(query, stream.remotes))

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
        ids: list[Id] = []
        refreshed = np.empty(0, np.int64)
        if one.side.on is None and self.remote.replica.capacity is None and not self.remote.pushes:
            names, value, since = self.remote.replica.columns()
            out = ~one.join.admits(value)
            out &= np.array([isinstance(name, str) == one.side.text_ids for name in names], bool)
            if self.remote.shared_budget.budget != 0:
                for other in self.members:
                    out &= ~other.join.may_ask(value)
            ids, refreshed = [names[place] for place in np.flatnonzero(out).tolist()], since[out]
        kind = pa.string() if one.side.text_ids else pa.int64()
        return pa.table({ID: pa.array(ids, kind), REFRESHED: refreshed})

    def answer(self, due: DueWindows, limits: Sequence[int]) -> list[AnswerBlock]:
        """Answer windows in the order of their ends."""
        blocks = answer_together(self.members, due, self.answers) if len(due) else []
        self.close(limits)
        return blocks

    def explain(self, number: int) -> list[str]:  # noqa: ARG002 - only rankings are numbered
        """Say what each query asks of whom, and what it keeps."""
        lines = [[f"joined: {one}", *(f"  {line}" for line in self._lines(one))] for one in self.members]
        return [line for part in lines for line in ["", *part]][1:]

    def _lines(self, one: JoinedQuery) -> list[str]:
        join, sides, remote = one.query.join, one.sides, self.remote
        assert join is not None
        policy = join.policy_for(sides.condition is not None)
        most = "no bound" if join.only_candidates else "all of the window is refreshed"
        budget = most if join.budget is None else f"at most {join.budget:,} refreshes an answer"
        whole = remote.shared_budget.budget
        shared = "" if whole is None else f", {whole:,} at one moment with others that share it"
        counted = f"{', '.join(map(str, sides.aggregates))} of its events" if sides.aggregates else "its latest event"
        best = f"a list of the best {one.query.k} + {join.n} of each window"
        kept = "the whole window" if one.join.objects.whole else best
        lines = [
            query_line(one.query),
            f"service {join.service!r} by {join.on or 'the id'}: {policy.name}, {budget}{shared}",
            f"an id counts once, with {counted}; {kept} is kept{_now(one, ' objects')}",
        ]
        if requests := remote.traffic.requests:
            lines.append(f"{len(remote.replica):,} remote values are known, {requests:,} requests were made")
        return lines


def _now(one: PerIdQuery, what: str = "") -> str:
    """Say how much is kept of the events so far; nothing before the first one."""
    stats = one.stats()
    return f": {stats.kept:,}{what} of {stats.events:,} events now" if stats.events else ""
