"""Partials: the events of queries that rank ids, reduced to one row per pane and id; one object per id and window.

All events of a pane lie in the same windows. So of an id whose latest event counts, the latest of each pane is enough;
of aggregates, those of each pane are. Partials can be made anywhere and merged in any order: here, of the rows of a
batch, or by Spark, on its executors.

`Partials` are those of one query; `PartialsGroup` is what the kinds of such queries share, `skyband.engine.aggregates`
and `skyband.engine.joins`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.engine.groups import QueryGroup, ReducedBatch, Stream
from skyband.engine.intake import BatchOutcome, Counts, Evaluator, require_columns
from skyband.engine.measures import ROWS, Measure, final, measures
from skyband.engine.plans import PartialsPlan
from skyband.engine.snapshot import State, under
from skyband.engine.stats import GroupStats
from skyband.errors import InputError, QueryError
from skyband.events.batch import EventBatch, StreamColumns
from skyband.events.keys import is_key, is_text
from skyband.expressions import Bound
from skyband.order import BoolArray, FloatArray, IntArray, merit_of, value_ranks
from skyband.queries.query import Query
from skyband.windows import ALWAYS, NEVER, PaneGrid, Schedule

PANE, ID, REMOTE, TIME, STREAM = "pane", "id", "remote", "time", "stream"
FIRST, REFRESHED = "first", "refreshed"
CARRIED = "carried "
"""Columns of the stream that are carried along have this before their names."""
MOST_PARTS = 64


@dataclass(frozen=True)
class _Bounds:
    arguments: dict[str, Bound]
    ids: pa.DataType
    remotes: pa.DataType


class Partials:
    """The events of one query on their way to a join, or to a ranking of their aggregates.

    Parameters
    ----------
    query
        A query that ranks ids.
    """

    def __init__(self, query: Query) -> None:
        assert query.decomposition is not None
        self.query, self.decomposition = query, query.decomposition
        self.select, self.group_by = query.select, query.group_by
        self.on = None if query.join is None else query.join.on
        self.schedule = Schedule.of(query.name, query.most_rows, query.window)
        self.windows, self.periods = query.window.grid, query.window.periods
        self.panes = PaneGrid(self.windows)
        self.counts = Counts()
        self.last = NEVER
        parts = self.decomposition
        self.evaluator = Evaluator(parts.where, [] if parts.aggregates else [parts.part])
        self.measures: dict[str, Measure] = {}
        self._bounds: _Bounds | None = None
        self._parts: list[pa.Table] = []
        self._carried: pa.Table | None = None
        self._settled: dict[int, int] = {}  # by pane
        self._unfit = 0

    @property
    def name(self) -> str:
        """The query's name."""
        return self.query.name

    def __str__(self) -> str:
        query = self.query
        return (
            f"score {query.score_expression} {query.order}"
            + ("" if query.group_by is None else f", group by {query.group_by}")
            + ("" if query.where is None else f", where {query.where_expression}")
        )

    @property
    def id_type(self) -> pa.DataType:
        """The type of ids: text or int64."""
        return pa.int64() if self._bounds is None else self._bounds.ids

    def __len__(self) -> int:
        return sum(part.num_rows for part in self._parts)

    @property
    def late_before(self) -> int:
        """Where the next window starts: an event before it has missed all its windows."""
        return self.schedule.next_start

    @property
    def partly_before(self) -> int:
        """The first pane that no answered window has: what lies before it has missed some of its windows."""
        return NEVER if self._answered_to == NEVER else int(self.panes.of(np.array([self._answered_to]))[0])

    @property
    def _answered_to(self) -> int:
        return self.schedule.answered_to

    def positions(self, time: IntArray) -> IntArray:
        """Return where times lie on the axis of the windows."""
        return time if self.periods is None else self.periods.positions(time)

    # Rows in.

    def bind(self, schema: pa.Schema, id_column: str) -> None:
        """Look up the columns of the query; InputError where one is missing or of a wrong type."""
        parts, key = self.decomposition, self.group_by or id_column
        if parts.service is not None and parts.service.lower() in (name.lower() for name in schema.names):
            msg = (
                f"the stream has a column {parts.service!r}, as the service is called that the query joins with; call "
                "the service otherwise, or rename the column"
            )
            raise InputError(msg)
        keys = {"group_by": self.group_by, "the join's on": self.on}
        wanted = {"select": self.select, **{what: (name,) for what, name in keys.items() if name is not None}}
        for what, names in wanted.items():
            require_columns(what, names, schema)
        for what, name in keys.items():
            if name is not None and not is_key(kind := schema.field(name).type):
                msg = f"{what} names {name!r}, which is {kind}; ids are text or whole numbers that fit int64: cast it"
                raise InputError(msg)
        self.measures = measures(parts.aggregates, schema)
        self.evaluator.bind(schema)
        self._bounds = _Bounds(
            arguments={name: one.values.bind(schema, "score") for name, one in self.measures.items()},
            ids=_plain(schema.field(key).type),
            remotes=_plain(schema.field(self.on or key).type),
        )

    def push(self, rows: EventBatch) -> BatchOutcome:
        """Take in one batch."""
        rows = rows.by(self.group_by)
        seen = self.evaluator.evaluate(rows.batch, self._valid(rows))
        taken = np.arange(rows.batch.num_rows) if seen.taken is None else seen.taken
        position = self.positions(rows.time[taken])
        missed = position < self.late_before
        partly = taken[~missed & (position < self._answered_to)]
        late, taken = taken[missed], taken[~missed]
        outcome = BatchOutcome(seen.passed, seen.rejected, late, partly)
        partials = self._partials(rows, taken, seen.values)
        self.merge(ReducedBatch(partials, rows.newest, len(late), len(partly), len(outcome.rejected)))
        return outcome

    def _valid(self, rows: EventBatch) -> BoolArray | None:
        """Tell which rows have a time, an id and a remote id; None: all."""
        if self.on is None:
            return rows.valid
        known: BoolArray = rows.batch.column(self.on).is_valid().to_numpy(zero_copy_only=False)
        return known if rows.valid is None else known & rows.valid

    def _partials(self, rows: EventBatch, chosen: IntArray, values: Sequence[FloatArray]) -> pa.Table:
        """Return some of the rows of a batch as partials."""
        assert self._bounds is not None
        bounds, batch = self._bounds, rows.batch.take(pa.array(chosen))
        time = rows.time[chosen]
        columns: dict[str, Any] = {
            PANE: self.panes.of(self.positions(time)),
            ID: rows.ids.take(pa.array(chosen)).cast(bounds.ids),
            TIME: time,
            ROWS: np.ones(len(chosen), np.int64),
        }
        if self.on is not None:
            columns[REMOTE] = batch.column(self.on).cast(bounds.remotes)
        if not self.decomposition.aggregates:
            columns[STREAM] = values[0][chosen]
        columns |= {name: one.column(bounds.arguments[name], batch) for name, one in self.measures.items()}
        columns |= {CARRIED + name: batch.column(name) for name in self.select}
        return self._reduced(pa.table(columns), PANE)

    def merge(self, reduced: ReducedBatch) -> None:
        """Take in a batch as partials, of whatever origin; of late rows, only their number."""
        partials, settled, counts = reduced.partials, reduced.settled, self.counts
        counts.late += reduced.late
        counts.partly_late += reduced.partly_late
        counts.rejected += reduced.rejected
        if partials.num_rows:
            time = self.positions(partials[TIME].to_numpy())
            # Which windows are the first is the same for all times of the first pane.
            self._note(int(time.min()), int(time.max()), int(partials[ROWS].to_numpy().sum()))
            self._parts.append(partials)
            if len(self._parts) > MOST_PARTS:
                self._parts = [self._reduced(_concat(self._parts), PANE)]
        if settled is not None and settled.num_rows:
            first, last, rows = (settled[name].to_numpy() for name in (FIRST, TIME, ROWS))
            self._note(int(first.min()), int(last.max()), int(rows.sum()))
            self._settle(settled)

    def _note(self, first: int, last: int, rows: int) -> None:
        self.schedule.first, self.last = min(self.schedule.first, first), max(self.last, last)
        self.counts.events += rows

    def _settle(self, panes: pa.Table) -> None:
        for pane, refreshed in zip(panes[PANE].to_pylist(), panes[REFRESHED].to_pylist(), strict=True):
            self._settled[pane] = min(refreshed, self._settled.get(pane, refreshed))

    def settled_since(self, window: int) -> int:
        """Return when the oldest remote value of a window's settled events, which are not here, was refreshed."""
        panes = range(self.panes.first(window), self.panes.behind(window))
        return min((since for pane, since in self._settled.items() if pane in panes), default=ALWAYS)

    # Objects out.

    def objects(self, end: int) -> pa.Table:
        """Return the objects of the window that ends there, with the columns `id`, `remote`, `time` and `stream`.

        Of aggregates, all objects of the window; else those that are new in it, each once. Objects with an integer sum
        that does not fit 64 bits have no score; they count as rejected.
        """
        window = self.windows.ending(end)
        self._settled = {pane: since for pane, since in self._settled.items() if pane >= self.panes.first(window)}
        if self._carried is not None:
            alive = self.windows.last_of(self._carried[TIME].to_numpy()) >= window
            self._carried = self._carried.filter(pa.array(alive))
        if not self._parts:
            return pa.table({ID: [], REMOTE: [], TIME: [], STREAM: []})
        whole = _concat(self._parts)
        pane = whole[PANE].to_numpy()
        first, behind = self.panes.first(window), self.panes.behind(window)
        found = self._reduced(whole.filter(pa.array((pane >= first) & (pane < behind))))
        later = pane >= (self.panes.first(window + 1) if self.decomposition.aggregates else behind)
        self._parts = [whole.filter(pa.array(later))] if later.any() else []
        self._join_panes(window)
        if self.decomposition.aggregates:
            found = found.append_column(STREAM, pa.array(self._aggregated(found)))
        if self.select:
            self._carry(found)
        return found if self.on is not None else found.append_column(REMOTE, found[ID])

    def _join_panes(self, window: int) -> None:
        """Make one pane of those of a window that grows on: all of them are in all that it grows to."""
        first, behind = self.panes.first(window), self.panes.behind(window)
        if self.windows.grows and self._parts and self.panes.first(window + 1) == first:
            whole = _concat(self._parts)
            pane = whole[PANE].to_numpy()
            place, joined = whole.column_names.index(PANE), np.where((pane >= first) & (pane < behind), first, pane)
            self._parts = [self._reduced(whole.set_column(place, PANE, pa.array(joined)), PANE)]

    def _aggregated(self, found: pa.Table) -> FloatArray:
        """Return the stream's part of the score of each object, worked out of its aggregates; NaN where it is NULL."""
        values = {str(one): final(one, found, self.measures) for one in self.decomposition.aggregates}
        outside = [mask for _, mask in values.values() if mask is not None]
        unfit = int(np.logical_or.reduce(outside).sum()) if outside else 0
        self.counts.rejected += unfit
        self._unfit += unfit
        batch = pa.record_batch({name: column for name, (column, _) in values.items()})
        return _values(self.decomposition.part.bind(batch.schema, "score"), batch)

    def take_unfit(self) -> int:
        """Return how many objects were rejected so since this was asked last."""
        unfit, self._unfit = self._unfit, 0
        return unfit

    # What is carried along.

    def _carry(self, found: pa.Table) -> None:
        """Remember the columns of objects for their answers, and what decides between equal times."""
        names = [ID, TIME, *(name for name in (STREAM, REMOTE) if name in found.column_names)]
        fresh = found.select([*names, *(CARRIED + name for name in self.select)])
        if self._carried is None or self.decomposition.aggregates:
            self._carried = fresh
        else:
            self._carried = _reduced(_concat([self._carried, fresh]), [], {}, self.query.order)

    def carried(self, ids: Sequence[Any]) -> pa.Table | None:
        """Return the carried columns of ids, in their order."""
        if self._carried is None or not self.select:
            return None
        place = pc.index_in(pa.array(ids, self._carried[ID].type), self._carried[ID])
        named = self._carried.select([CARRIED + name for name in self.select]).rename_columns(list(self.select))
        return named.take(place)

    def _reduced(self, table: pa.Table, *by: str) -> pa.Table:
        sums = {ROWS: np.add.reduceat, **{name: one.reduce for name, one in self.measures.items()}}
        return _reduced(table, by, sums, self.query.order)

    # Looking inside, and snapshots.

    def stats(self) -> GroupStats:
        """Return the numbers so far; nothing bounds what is kept but the window."""
        kept = len(self)
        return GroupStats(str(self), (self.name,), **asdict(self.counts), kept=kept, bound=kept)

    def kept_now(self, what: str = "") -> str:
        """Say how much is kept of the events so far; nothing before the first one."""
        stats = self.stats()
        return f": {stats.kept:,}{what} of {stats.events:,} events now" if stats.events else ""

    def state(self) -> State:
        """Return everything as plain values and tables."""
        meta = {
            "query": self.query.as_dict(), "schedule": asdict(self.schedule), "counts": asdict(self.counts),
            "last": self.last,
        }  # fmt: skip
        tables = {} if not self._parts else {"partials": self._reduced(_concat(self._parts), PANE)}
        tables |= {} if self._carried is None else {"carried": self._carried}
        settled = {PANE: list(self._settled), REFRESHED: list(self._settled.values())}
        return meta, tables | ({"settled": pa.table(settled)} if self._settled else {})

    def load(self, state: State) -> None:
        """Take over what `state` returned, of the same query."""
        meta, tables = state
        self.schedule, self.counts = Schedule.load(meta["schedule"]), Counts(**meta["counts"])
        self.last = meta["last"]
        self._parts = [tables["partials"]] if "partials" in tables else []
        self._carried = tables.get("carried")
        if "settled" in tables:
            self._settle(tables["settled"])


Member = TypeVar("Member", bound=Partials)


class PartialsGroup(QueryGroup, Generic[Member]):
    """Queries that rank ids, each with partials of its own."""

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
        return {name for query in self.queries for name in query.select}

    @property
    def id_columns(self) -> set[str]:
        """The columns that queries take ids from, besides the stream's own."""
        return {name for one in self.members for name in (one.group_by, one.on) if name is not None}

    def bind(self, schema: pa.Schema, source: StreamColumns) -> None:
        """Look up the columns of all queries."""
        for one in self.members:
            try:
                one.bind(schema, source.id)
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
            one.merge(reduced[one.name])

    def partials_plans(self) -> list[tuple[Hashable, PartialsPlan]]:
        """Return which partials each query needs; those with the same key need the same."""
        return [self._plan(one) for one in self.members]

    def _plan(self, one: Member) -> tuple[Hashable, PartialsPlan]:
        parts, settled = one.decomposition, self.settled(one)
        joined = (parts.service, parts.condition) if settled.num_rows else ()
        key = (parts.part, parts.aggregates, parts.where, astuple(one.windows), one.periods, one.query.order, one.on,
               one.select, one.group_by, one.late_before, *joined)  # fmt: skip
        return key, PartialsPlan(
            [one.name], parts, one.windows, one.panes, one.query.order, one.on, one.group_by, one.select,
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
            group.bind(tables["schema"].schema, stream.source)
        return group


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if is_text(kind) else pa.int64()


def _values(bound: Bound, batch: pa.RecordBatch) -> FloatArray:
    """Return numbers, NaN where they are NULL."""
    values, valid = bound.scores(batch)
    return values if valid is None else np.where(valid, values, np.nan)


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def _reduced(table: pa.Table, by: Sequence[str], measures: dict[str, Any], order: str) -> pa.Table:
    """Return one row per id, and per value of the columns `by`: its latest, with the measures of all.

    Of equal times, the better stream part of the score counts, then the larger remote id, then what comes first by the
    carried columns: so the order of arrival does not matter.
    """
    if not table.num_rows:
        return table
    table = table.combine_chunks()
    code = table[ID].combine_chunks().dictionary_encode().indices.to_numpy()
    keys = [code, *(table[name].to_numpy() for name in by)]
    places = [table[TIME].to_numpy()]  # the most significant first; the last row of a key counts
    if STREAM in table.column_names:
        places.append(merit_of(table[STREAM].to_numpy(), order))
    if REMOTE in table.column_names:
        places.append(np.asarray(pc.rank(table[REMOTE], tiebreaker="dense")))
    sort = _by_carried(table, np.lexsort((*reversed(places), *keys)), [*keys, *places])
    begins = np.ones(len(sort), bool)
    begins[1:] = np.logical_or.reduce([key[sort][1:] != key[sort][:-1] for key in keys])
    starts = np.flatnonzero(begins)
    latest = table.take(pa.array(sort[np.append(starts[1:], len(sort)) - 1]))
    for name, operation in measures.items():
        values = pa.array(operation(table[name].to_numpy()[sort], starts))
        latest = latest.set_column(latest.column_names.index(name), name, values)
    return latest


def _by_carried(table: pa.Table, sort: IntArray, columns: Sequence[Any]) -> IntArray:
    """Return an order in which rows that are equal in some columns come by what they carry, the first of it last."""
    carried = [table[name] for name in table.column_names if name.startswith(CARRIED)]
    equal = np.logical_and.reduce([column[sort][1:] == column[sort][:-1] for column in columns])
    if not carried or not equal.any():
        return sort
    tied = np.append(False, equal) | np.append(equal, False)
    rows, run = sort[tied], np.cumsum(np.append(True, ~equal))[tied]  # only these are compared by what they carry
    ranks = [value_ranks(column.take(pa.array(rows))) for column in carried]
    sort = sort.copy()
    sort[tied] = rows[np.lexsort((*(-rank for rank in reversed(ranks)), run))]
    return sort
