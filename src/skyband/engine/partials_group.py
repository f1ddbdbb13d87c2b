"""Groups of queries that rank ids, each with partials of its own: aggregates and joins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import astuple
from typing import ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
import pyarrow as pa

from skyband.engine.groups import QueryGroup, ReducedBatch, Stream
from skyband.engine.intake import BatchOutcome
from skyband.engine.partial_rows import ID, REFRESHED
from skyband.engine.partials import Partials
from skyband.engine.plans import PartialsPlan
from skyband.engine.snapshot import State, under
from skyband.engine.stats import GroupStats
from skyband.errors import InputError, QueryError
from skyband.events.batch import EventBatch, StreamColumns
from skyband.queries.query import Query
from skyband.windows import ALWAYS, NEVER

Member = TypeVar("Member", bound=Partials)


class PartialsGroup(QueryGroup, Generic[Member]):
    """Queries that rank ids, each with partials of its own."""

    takes: ClassVar[Literal["rows", "partials"]] = "partials"

    def __init__(self) -> None:
        super().__init__()
        self.members: list[Member] = []
        self.schema: pa.Schema | None = None
        self._floats: set[str] = set()  # columns that have held floating-point numbers

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
            one.schedule.closed_to, one.schedule.since = self.position(watermark), newest
            if newest != NEVER:
                one.schedule.exact_from = one.schedule.first_start_from(self.position(newest) + 1)
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
        return {one.column for query in self.queries for one in query.carried if one.column is not None}

    @property
    def id_columns(self) -> set[str]:
        """The columns that queries take ids from, besides the stream's own."""
        keys = {key.column for one in self.members for key in one.query.group_keys if key.column is not None}
        return keys | {one.on for one in self.members if one.on is not None}

    def bind(self, schema: pa.Schema, source: StreamColumns) -> None:
        """Look up the columns of all queries."""
        schema = self._widened(schema)
        for one in self.members:
            try:
                one.bind(schema, source.id)
            except InputError as error:
                raise QueryError(str(error), one.name) from None
        self.answers.plain = source.is_plain(schema)
        self.schema = schema

    def _widened(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema in which aggregated columns that have held floating-point numbers still do.

        Rows that come without a schema may have whole numbers alone in a batch, and others in the next one.
        """
        for name in self._aggregated & self._floats:
            place = schema.get_field_index(name)
            if place >= 0 and pa.types.is_integer(schema.field(place).type):
                schema = schema.set(place, pa.field(name, pa.float64()))
        return schema

    @property
    def _aggregated(self) -> set[str]:
        """The columns that are aggregated."""
        arguments = (part.argument for one in self.members for part in one.decomposition.aggregates)
        return {column for one in arguments if one is not None for column in one.columns}

    def push(self, rows: EventBatch) -> list[BatchOutcome]:
        """Take in one batch."""
        assert self.schema is not None
        rows = rows.as_floats(self.schema)
        for name in self._aggregated.intersection(rows.batch.schema.names) - self._floats:
            column = rows.batch.column(name)  # of nothing but NULL, it may be said to have any type
            if pa.types.is_floating(column.type) and column.null_count < len(column):
                self._floats.add(name)
        return [one.push(rows) for one in self.members]

    def merge(self, reduced: Mapping[str, ReducedBatch]) -> None:
        """Take in a batch that is reduced already."""
        for one in self.members:
            one.merge(reduced[one.name])

    def partials_plans(self) -> list[tuple[Hashable, PartialsPlan]]:
        """Return which partials each query needs; those with the same key need the same."""
        return [self._plan(one) for one in self.members]

    def _plan(self, one: Member) -> tuple[Hashable, PartialsPlan]:
        parts, settled = one.decomposition, self.settled(one)
        joined = (parts.service, parts.condition) if settled.num_rows else ()
        key = (parts.part, parts.aggregates, parts.where, astuple(one.windows), one.periods, one.query.order, one.on,
               one.outputs, one.key, one.partition, one.late_before, one.query.join is None, *joined)  # fmt: skip
        return key, PartialsPlan(
            [one.name], parts, one.windows, one.panes, one.query.order, one.on, one.key, one.partition, one.outputs,
            one.measures, one.late_before, one.partly_before, settled, one.periods,
        )  # fmt: skip

    def settled(self, one: Member) -> pa.Table:
        """Return the ids that are out of every answer of a query for good, and when their values were refreshed."""
        return pa.table({ID: pa.array([], one.id_type), REFRESHED: np.empty(0, np.int64)})

    def limits(self, watermark: int | None) -> list[int] | None:
        """Return up to where windows close."""
        if watermark == ALWAYS:
            return [
                one.schedule.closed_to if one.last == NEVER else one.schedule.last_due(one.last) for one in self.members
            ]
        return None if watermark is None else [self.position(watermark)] * len(self.members)

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
            group._floats = {field.name for field in tables["schema"].schema if pa.types.is_floating(field.type)}
            group.bind(tables["schema"].schema, stream.source)
        return group
