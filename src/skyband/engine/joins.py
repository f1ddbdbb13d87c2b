"""The joined and aggregated queries of a monitor, and the services that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.answers.answer import AnswerBlock
from skyband.engine.aggregates import AggregatedQuery
from skyband.engine.intake import BatchOutcome
from skyband.engine.joined_query import JoinedQuery, answer_together, remote_of
from skyband.engine.partials import ID, REFRESHED
from skyband.engine.per_id import PerIdQuery, State
from skyband.errors import InputError, QueryError
from skyband.events.batch import EventBatch, StreamColumns
from skyband.queries.query import Query
from skyband.remote.remote import as_remotes
from skyband.remote.services.base import Id
from skyband.times import microseconds_of
from skyband.windows import NEVER, DueWindows, Schedule


class Joins:
    """Joined and aggregated queries over one stream.

    Parameters
    ----------
    services
        What they join with, by name.
    source
        The stream's columns of times and ids.
    """

    def __init__(self, services: Mapping[str, Any] | None, source: StreamColumns) -> None:
        self.remotes = as_remotes(services)
        self.source = source
        self.queries: list[PerIdQuery] = []
        self.schema: pa.Schema | None = None

    def find(self, name: str) -> PerIdQuery | None:
        """Return a query by its name, if there is one."""
        return next((one for one in self.queries if one.name == name), None)

    def schedule(self, name: str) -> Schedule | None:
        """Return the windows of a query, if there is one of this name."""
        found = self.find(name)
        return None if found is None else found.schedule

    @property
    def id_columns(self) -> set[str]:
        """The columns that queries take ids from, besides the stream's own."""
        return {name for one in self.queries for name in (one.side.group_by, one.side.on) if name is not None}

    def check(self, queries: Sequence[Query]) -> list[PerIdQuery]:
        """Return those of some queries that join or aggregate, ready to be added; refuse what cannot be served."""
        made = [self._made(query) for query in queries if query.sides is not None]
        if self.schema is not None:
            for one in made:
                self._bind(one, self.schema)
        return made

    def _made(self, query: Query) -> PerIdQuery:
        return AggregatedQuery(query) if query.join is None else JoinedQuery(query, remote_of(query, self.remotes))

    def add(self, made: Sequence[PerIdQuery], watermark: int, newest: int) -> None:
        """Serve more; windows that end by the watermark are past, and what began before `newest` is not all seen."""
        for one in made:
            one.close(watermark)
            if newest != NEVER:
                one.schedule.exact_from = one.schedule.first_start_from(newest + 1)
        self.queries += made

    def remove(self, name: str) -> bool:
        """Stop serving a query, if there is one of this name; what is known of its service stays."""
        found = self.find(name)
        if isinstance(found, JoinedQuery):
            found.remote.shared_budget.forget(name)
        self.queries = [one for one in self.queries if one is not found]
        return found is not None

    def bind(self, schema: pa.Schema) -> None:
        """Look up the columns of all queries."""
        for one in self.queries:
            self._bind(one, schema)
        self.schema = schema

    def _bind(self, one: PerIdQuery, schema: pa.Schema) -> None:
        try:
            one.side.bind(schema, self.source.id)
        except InputError as error:
            raise QueryError(str(error), one.name) from None
        one.plain = self.source.is_plain(schema)

    def settled(self, one: PerIdQuery) -> pa.Table:
        """Return the ids that are out of every answer of a query for good, and when their values were refreshed.

        Their remote values keep them out, and nobody will ask for these values again: neither the query nor any other
        that joins with the service. So where events are reduced elsewhere, those of such ids may stay there. None are
        settled where an id may get another remote row, where a value may be evicted, or where the service pushes its
        changes. A query that comes later and
        does ask for such values learns nothing for events that have stayed elsewhere.
        """
        ids: list[Id] = []
        refreshed = np.empty(0, np.int64)
        kept = isinstance(one, JoinedQuery) and one.remote.replica.capacity is None and not one.remote.pushes
        if kept and isinstance(one, JoinedQuery) and one.side.on is None:
            names, value, since = one.remote.replica.columns()
            out = ~one.join.admits(value)
            out &= np.array([isinstance(name, str) == one.side.text_ids for name in names], bool)
            if one.remote.shared_budget.budget != 0:
                for other in self.queries:
                    if isinstance(other, JoinedQuery) and other.remote is one.remote:
                        out &= ~other.join.may_ask(value)
            ids, refreshed = [names[place] for place in np.flatnonzero(out).tolist()], since[out]
        kind = pa.string() if one.side.text_ids else pa.int64()
        return pa.table({ID: pa.array(ids, kind), REFRESHED: refreshed})

    # Events and news in, answers out.

    def push(self, rows: EventBatch) -> list[BatchOutcome]:
        """Take in one batch."""
        return [one.push(rows) for one in self.queries]

    def tell(self, service: str, values: Mapping[Any, float | None], at: int | datetime | None, watermark: int) -> None:
        """Take in changes that the remote side tells by itself, at any time or now; every query of the service learns.

        What is told now is newer than all that is known of it, even if that was known from after the watermark on.
        """
        if service not in self.remotes:
            msg = f"there is no service {service!r}; there are {', '.join(map(repr, self.remotes)) or 'none'}"
            raise InputError(msg)
        remote, ids = self.remotes[service], list(values)
        known = remote.replica.view(ids).refreshed
        since = max(watermark, NEVER + 1, int(known.max(initial=NEVER))) if at is None else microseconds_of(at)
        changed = remote.push_changes(values, since)
        for one in self.queries:
            if isinstance(one, JoinedQuery) and one.remote is remote:
                one.join.learn(changed)

    def advance(self, dues: Sequence[DueWindows], watermark: int) -> list[AnswerBlock]:
        """Answer windows, listed query by query, which a watermark closes."""
        blocks = self._answer(dues)
        for one in self.queries:
            one.close(watermark)
        return blocks

    def finish(self) -> list[AnswerBlock]:
        """Answer every window that contains an event."""
        dues = [one.rest() for one in self.queries]
        blocks = self._answer(dues)
        for one, due in zip(self.queries, dues, strict=True):
            one.close(int(due.end.max(initial=NEVER)))
        return blocks

    def _answer(self, dues: Sequence[DueWindows]) -> list[AnswerBlock]:
        asked = list(zip(self.queries, dues, strict=True))
        joined = answer_together([(one, due) for one, due in asked if isinstance(one, JoinedQuery)])
        own = [block for one, due in asked if isinstance(one, AggregatedQuery) for block in one.answer(due)]
        return joined + own

    # Snapshots.

    def state(self) -> list[State]:
        """Return what there is, then the state of each query and of what is known of each service."""
        meta = {"queries": len(self.queries), "services": list(self.remotes)}
        own: State = (meta, {} if self.schema is None else {"schema": self.schema.empty_table()})
        states = [one.state() for one in self.queries]
        return [own, *states, *(remote.state() for remote in self.remotes.values())]

    def load(self, states: Sequence[State]) -> None:
        """Take over what `state` returned; services are those of now, what is known of them that of then."""
        (meta, tables), *rest = states
        queries, known = rest[: meta["queries"]], rest[meta["queries"] :]
        for name, state in zip(meta["services"], known, strict=True):
            if name in self.remotes:
                self.remotes[name] = self.remotes[name].restored(state)
        self.queries = [self._made(Query.from_dict(given["query"])) for given, _ in queries]
        for one, state in zip(self.queries, queries, strict=True):
            one.load(state)
        if "schema" in tables:
            self.bind(tables["schema"].schema)
