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
from skyband.engine.intake import APPROXIMATE, BatchOutcome, Counts, Evaluator, bind_outputs, require_columns
from skyband.engine.measures import DISTINCT, ROWS, SKETCH, Measure, final, final_types, measures
from skyband.engine.plans import PartialsPlan
from skyband.engine.snapshot import State, under
from skyband.engine.stats import GroupStats
from skyband.errors import InputError, QueryError
from skyband.events.batch import EventBatch, StreamColumns
from skyband.events.keys import is_key, is_text
from skyband.events.store import retyped
from skyband.expressions import Bound, Expression
from skyband.order import BoolArray, FloatArray, IntArray, merit_of, value_ranks
from skyband.queries.outputs import Output, check_keys, plain
from skyband.queries.query import Query
from skyband.windows import ALWAYS, NEVER, PaneGrid, Schedule

PANE, PART, ID, REMOTE, TIME, STREAM = "pane", "part", "id", "remote", "time", "stream"
FIRST, REFRESHED = "first", "refreshed"
CARRIED = "carried "
"""Columns of the stream that are carried along have this before their names."""
MOST_PARTS = 64
MOST_VALUES = 1_000_000
"""How many distinct values are kept for the ``count(DISTINCT …)`` of a query: beyond, its answers are not exact."""
MANY_VALUES = f"more than {MOST_VALUES:,} distinct values"


@dataclass(frozen=True)
class _Bounds:
    arguments: dict[str, Bound]
    key: Bound | None
    partition: Bound | None
    parts: pa.DataType
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
        self.outputs, self.key, self.partition = query.carried, query.group_expression, query.partition_expression
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
        self._cut: set[int] = set()  # panes that lack some distinct values
        self._unfit = 0
        self.whole = True  # whether all distinct values of the last objects are known

    @property
    def name(self) -> str:
        """The query's name."""
        return self.query.name

    def __str__(self) -> str:
        query = self.query
        return (
            f"score {query.score_expression} {query.order}"
            + _listed("partition by", query.partition_keys)
            + _listed("group by", query.group_keys)
            + ("" if query.where is None else f", where {query.where_expression}")
            + ("" if query.having is None else f", having {query.having_expression}")
        )

    @property
    def id_type(self) -> pa.DataType:
        """The type of ids: text or int64."""
        return pa.int64() if self._bounds is None else self._bounds.ids

    @property
    def doubt(self) -> str:
        """Why the last objects that were asked for are not exact; empty where they are."""
        if any(one.function == SKETCH for one in self.measures.values()):
            return APPROXIMATE
        return "" if self.whole else MANY_VALUES

    @property
    def no_partitions(self) -> pa.Array:
        """The partitions of no rows."""
        return pa.array([], pa.null() if self._bounds is None else self._bounds.parts)

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
        parts, query = self.decomposition, self.query
        if parts.service is not None and parts.service.lower() in (name.lower() for name in schema.names):
            msg = (
                f"the stream has a column {parts.service!r}, as the service is called that the query joins with; call "
                "the service otherwise, or rename the column"
            )
            raise InputError(msg)
        bind_outputs(self.outputs, schema)
        require_columns("group_by", [key.column for key in query.group_keys if key.column is not None], schema)
        require_columns("the join's on", [] if self.on is None else [self.on], schema)
        check_keys("partition_by", query.partition_keys, schema)
        check_keys("group_by", query.group_keys, schema)
        ids = _id_type(self.key, "group_by", schema) if self.key is not None else _plain(schema.field(id_column).type)
        self.measures = measures(parts.aggregates, schema)
        finals = final_types(parts.aggregates, schema)
        if parts.having is not None:
            parts.having.bind(finals, "filter")
        for output in parts.outputs:
            output.type(finals)
        self.evaluator.bind(schema)
        self._bounds = _Bounds(
            arguments={name: one.values.bind(schema) for name, one in self.measures.items()},
            key=None if self.key is None else self.key.bind(schema),
            partition=None if self.partition is None else self.partition.bind(schema),
            parts=pa.null() if self.partition is None else part_type(self.partition, schema),
            ids=ids,
            remotes=ids if self.on is None else _id_type(plain(self.on).expression, "the join's on", schema),
        )  # fmt: skip

        kinds = {ID: ids} | {CARRIED + one.name: one.type(schema) for one in self.outputs}
        kinds |= {} if self.partition is None else {PART: self._bounds.parts}
        self._parts = [retyped(part, kinds) for part in self._parts]

    def push(self, rows: EventBatch) -> BatchOutcome:
        """Take in one batch."""
        assert self._bounds is not None
        if self._bounds.key is not None:  # NULL is a group, but no remote id
            joined = self.query.join is not None
            rows = rows.by(self._bounds.key.values(rows.batch).cast(self._bounds.ids), nulls=not joined)
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
            **({} if bounds.partition is None else {PART: bounds.partition.values(batch).cast(bounds.parts)}),
            ID: rows.ids.take(pa.array(chosen)).cast(bounds.ids),
            TIME: time,
            ROWS: np.ones(len(chosen), np.int64),
        }
        if self.on is not None:
            columns[REMOTE] = batch.column(self.on).cast(bounds.remotes)
        if not self.decomposition.aggregates:
            columns[STREAM] = values[0][chosen]
        columns |= {name: one.column(bounds.arguments[name], batch) for name, one in self.measures.items()}
        columns |= {CARRIED + one.name: one.values(batch) for one in self.outputs}
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
            full = bool(self._sets) and sum(int(self._values(part).sum()) for part in self._parts) > MOST_VALUES
            if len(self._parts) > MOST_PARTS or full:
                self._parts = [self._reduced(_concat(self._parts), PANE)]
                self._bound_values()
        if settled is not None and settled.num_rows:
            first, last, rows = (settled[name].to_numpy() for name in (FIRST, TIME, ROWS))
            self._note(int(first.min()), int(last.max()), int(rows.sum()))
            self._settle(settled)

    @property
    def _sets(self) -> list[str]:
        """The columns of distinct values, of which there is a bound."""
        return [name for name, one in self.measures.items() if one.function == DISTINCT]

    def _values(self, part: pa.Table) -> IntArray:
        """Return how many distinct values each row of a part has."""
        sizes = np.zeros(part.num_rows, np.int64)
        for name in self._sets:
            sizes += pc.list_value_length(part[name]).to_numpy()
        return sizes

    def _bound_values(self) -> None:
        """Forget distinct values beyond the bound, those of the latest panes first; note which panes lack any."""
        (part,) = self._parts
        pane, sizes = part[PANE].to_numpy(), self._values(part)
        order = np.argsort(pane, kind="stable")
        lacking = order[(np.cumsum(sizes[order]) > MOST_VALUES) & (sizes[order] > 0)]
        if len(lacking) == 0:
            return
        self._cut |= set(pane[lacking].tolist())
        kept = np.ones(len(pane), bool)
        kept[lacking] = False
        for name in self._sets:
            cut = pc.if_else(pa.array(kept), part[name].combine_chunks(), pa.scalar([], part[name].type))
            part = part.set_column(part.column_names.index(name), name, cut)
        self._parts = [part]

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
        """Return the objects of the window that ends there, and forget what no later window needs.

        The columns are `id`, `remote`, `time` and `stream`, and `part` where there are partitions. Of aggregates, all
        objects of the window; else those that are new in it, each once. Objects with an integer sum that does not fit
        64 bits have no score; they count as rejected.
        """
        window = self.windows.ending(end)
        found, unfit = self._of(window)
        self.counts.rejected += unfit
        self._unfit += unfit
        self._forget(window)
        if self.query.join is not None and self.query.columns and found.num_rows:
            self._carry(found)
        return found

    def peek(self, end: int) -> pa.Table:
        """Return the objects so far of a window that is still open."""
        return self._of(self.windows.ending(end))[0]

    def _forget(self, window: int) -> None:
        """Forget what windows after this one do not need."""
        self._settled = {pane: since for pane, since in self._settled.items() if pane >= self.panes.first(window)}
        if self._carried is not None:
            alive = self.windows.last_of(self._carried[TIME].to_numpy()) >= window
            self._carried = self._carried.filter(pa.array(alive))
        if not self._parts:
            return
        whole = _concat(self._parts)
        first = self.panes.first(window + 1) if self.decomposition.aggregates else self.panes.behind(window)
        later = whole[PANE].to_numpy() >= first
        self._parts = [whole.filter(pa.array(later))] if later.any() else []
        self._cut = {pane for pane in self._cut if pane >= first}
        self._join_panes(window)

    def _of(self, window: int) -> tuple[pa.Table, int]:
        """Return the objects of a window, and how many have an integer sum that does not fit."""
        self.whole = not any(self.panes.first(window) <= pane < self.panes.behind(window) for pane in self._cut)
        if not self._parts:
            return pa.table({ID: [], REMOTE: [], TIME: [], STREAM: []}), 0
        self._parts = [_concat(self._parts)]
        (whole,), unfit = self._parts, 0
        pane = whole[PANE].to_numpy()
        first, behind = self.panes.first(window), self.panes.behind(window)
        found = self._reduced(whole.filter(pa.array((pane >= first) & (pane < behind))))
        if self.decomposition.aggregates:
            found, unfit = self._aggregated(found)
        return found if self.on is not None else found.append_column(REMOTE, found[ID]), unfit

    def _join_panes(self, window: int) -> None:
        """Make one pane of those of a window that grows on: all of them are in all that it grows to."""
        first, behind = self.panes.first(window), self.panes.behind(window)
        if self.windows.grows and self._parts and self.panes.first(window + 1) == first:
            whole = _concat(self._parts)
            pane = whole[PANE].to_numpy()
            place, joined = whole.column_names.index(PANE), np.where((pane >= first) & (pane < behind), first, pane)
            self._parts = [self._reduced(whole.set_column(place, PANE, pa.array(joined)), PANE)]
            self._cut = {first if first <= pane < behind else pane for pane in self._cut}

    def _aggregated(self, found: pa.Table) -> tuple[pa.Table, int]:
        """Add what is worked out of the aggregates of each object: the stream's part of the score, further values.

        That part is NaN where it is NULL. Leave out objects that do not meet the condition over aggregates. Return also
        how many have a sum in the score that does not fit.
        """
        parts = self.decomposition
        values = {str(one): final(one, found, self.measures) for one in parts.aggregates}
        outside = [mask for name, (_, mask) in values.items() if mask is not None and name in parts.part.columns]
        unfit = int(np.logical_or.reduce(outside).sum()) if outside else 0
        batch = pa.record_batch({name: column for name, (column, _) in values.items()})
        found = found.append_column(STREAM, pa.array(_values(parts.part.bind(batch.schema, "score"), batch)))
        for output in parts.outputs:
            found = found.append_column(CARRIED + output.name, output.values(batch))
        if parts.having is not None:
            found = found.filter(pa.array(parts.having.bind(batch.schema, "filter").mask(batch)))
        return found, unfit

    def take_unfit(self) -> int:
        """Return how many objects were rejected so since this was asked last."""
        unfit, self._unfit = self._unfit, 0
        return unfit

    # What is carried along.

    def _carry(self, found: pa.Table) -> None:
        """Remember the columns of objects for their answers, and what decides between equal times."""
        names = [ID, TIME, *(name for name in (STREAM, REMOTE) if name in found.column_names)]
        fresh = found.select([*names, *(CARRIED + one.name for one in self.query.columns)])
        if self._carried is None or self.decomposition.aggregates:
            self._carried = fresh
        else:
            self._carried = _reduced(_concat([self._carried, fresh]), [], {}, self.query.order)

    def carried(self, ids: Sequence[Any]) -> pa.Table | None:
        """Return the carried columns of ids, in their order."""
        if self._carried is None or not self.query.columns:
            return None
        return self.shown(self._carried, pc.index_in(pa.array(ids, self._carried[ID].type), self._carried[ID]))

    def shown(self, objects: pa.Table, rows: pa.Array) -> pa.Table:
        """Return what answers show of some objects besides their own columns."""
        names = [one.name for one in self.query.columns]
        return objects.select([CARRIED + name for name in names]).rename_columns(names).take(rows)

    def _reduced(self, table: pa.Table, *by: str) -> pa.Table:
        return _reduced(table, by, self.measures, self.query.order)

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
            "last": self.last, "cut": sorted(self._cut),
        }  # fmt: skip
        tables = {} if not self._parts else {"partials": self._reduced(_concat(self._parts), PANE)}
        tables |= {} if self._carried is None else {"carried": self._carried}
        settled = {PANE: list(self._settled), REFRESHED: list(self._settled.values())}
        return meta, tables | ({"settled": pa.table(settled)} if self._settled else {})

    def load(self, state: State) -> None:
        """Take over what `state` returned, of the same query."""
        meta, tables = state
        self.schedule, self.counts = Schedule.load(meta["schedule"]), Counts(**meta["counts"])
        self.last, self._cut = meta["last"], set(meta["cut"])
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
        return {one.column for query in self.queries for one in query.carried if one.column is not None}

    @property
    def id_columns(self) -> set[str]:
        """The columns that queries take ids from, besides the stream's own."""
        keys = {key.column for one in self.members for key in one.query.group_keys if key.column is not None}
        return keys | {one.on for one in self.members if one.on is not None}

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
            group.bind(tables["schema"].schema, stream.source)
        return group


def _listed(what: str, keys: Sequence[Output]) -> str:
    return f", {what} {', '.join(str(key.expression) for key in keys)}" if keys else ""


def _id_type(key: Expression, what: str, schema: pa.Schema) -> pa.DataType:
    """Return the type of ids that are taken from a key."""
    kind = plain(*key.columns).type(schema) if key.is_column else key.bind(schema).arrow
    if not is_key(kind):
        msg = f"{what} names {str(key)!r}, which is {kind}; ids are text or whole numbers that fit int64: cast it"
        raise InputError(msg)
    return _plain(kind)


def part_type(partition: Expression, schema: pa.Schema) -> pa.DataType:
    """Return the type of partitions; times stay what they are."""
    bound = partition.bind(schema)
    return Output("", partition).type(schema) if bound.type == "time" else bound.arrow


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if is_text(kind) else pa.int64()


def _values(bound: Bound, batch: pa.RecordBatch) -> FloatArray:
    """Return numbers, NaN where they are NULL."""
    values, valid = bound.scores(batch)
    return values if valid is None else np.where(valid, values, np.nan)


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def _reduced(table: pa.Table, by: Sequence[str], measures: dict[str, Measure], order: str) -> pa.Table:
    """Return one row per id and partition, and per value of the columns `by`: its latest, with the measures of all.

    Of equal times, the better stream part of the score counts, then the larger remote id, then what comes first by the
    carried columns: so the order of arrival does not matter.
    """
    if not table.num_rows:
        return table
    table = table.combine_chunks()
    code = table[ID].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    keys = [code, *(table[name].to_numpy() for name in by)]
    if PART in table.column_names:
        keys.append(value_ranks(table[PART]))
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
    merged = {name: one.merged(table[name], sort, starts) for name, one in measures.items()}
    if ROWS in table.column_names:
        merged[ROWS] = pa.array(np.add.reduceat(table[ROWS].to_numpy()[sort], starts))
    for name, values in merged.items():
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
