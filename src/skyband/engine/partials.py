"""Partials: the events of queries that rank ids, reduced to one row per pane and id; one object per id and window.

All events of a pane lie in the same windows. So of an id whose latest event counts, the latest of each pane is enough;
of aggregates, those of each pane are. Partials can be made anywhere and merged in any order: here, of the rows of a
batch, or by Spark, on its executors.

`Partials` are those of one query, however they are kept: `skyband.engine.partial_tables`, for all that may be asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from skyband.engine.groups import ReducedBatch
from skyband.engine.intake import BatchOutcome, Counts, Evaluator, bind_outputs, require_columns
from skyband.engine.measures import ROWS, Measure, final_types, measures
from skyband.engine.partial_rows import FIRST, TIME
from skyband.engine.snapshot import State
from skyband.engine.stats import GroupStats
from skyband.errors import InputError
from skyband.events.batch import EventBatch
from skyband.events.keys import is_key, is_text
from skyband.expressions import Bound, Expression
from skyband.order import BoolArray, FloatArray, IntArray
from skyband.queries.outputs import Output, check_keys, plain
from skyband.queries.query import Query
from skyband.windows import NEVER, PaneGrid, Schedule


@dataclass(frozen=True)
class Bounds:
    """The expressions of a query, bound to a stream's columns, and the types of its ids and partitions."""

    arguments: dict[str, Bound]
    key: Bound | None
    partition: Bound | None
    parts: pa.DataType
    ids: pa.DataType
    remotes: pa.DataType


@dataclass(frozen=True)
class Scored:
    """The objects of windows, with their scores.

    Parameters
    ----------
    edges
        Window w has the objects from ``edges[w]`` to ``edges[w + 1]``.
    score, time
        Their scores, NaN where there is none, and the times of their latest events.
    partition
        Numbers that sort as their partitions do; None where there are none.
    doubts
        Why the answer of each window is not exact; empty where it is.
    pick
        Returns the ids of some of them, their partitions, and what is shown besides, where there is any.
    """

    edges: IntArray
    score: FloatArray
    time: IntArray
    partition: IntArray | None
    doubts: list[str]
    pick: Callable[[IntArray], tuple[pa.Array, pa.Array | None, pa.Table | None]]


class Partials(ABC):
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
        self.bounds: Bounds | None = None
        self._unfit = 0

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
        return pa.int64() if self.bounds is None else self.bounds.ids

    @property
    def no_partitions(self) -> pa.Array:
        """The partitions of no rows."""
        return pa.array([], pa.null() if self.bounds is None else self.bounds.parts)

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
        self.bounds = Bounds(
            arguments={name: one.values.bind(schema) for name, one in self.measures.items()},
            key=None if self.key is None else self.key.bind(schema),
            partition=None if self.partition is None else self.partition.bind(schema),
            parts=pa.null() if self.partition is None else part_type(self.partition, schema),
            ids=ids,
            remotes=ids if self.on is None else _id_type(plain(self.on).expression, "the join's on", schema),
        )  # fmt: skip

    @abstractmethod
    def __len__(self) -> int:
        """How many partials are kept."""

    def push(self, rows: EventBatch) -> BatchOutcome:
        """Take in one batch."""
        assert self.bounds is not None
        if self.bounds.key is not None:  # NULL is a group, but no remote id
            joined = self.query.join is not None
            rows = rows.by(self.bounds.key.values(rows.batch).cast(self.bounds.ids), nulls=not joined)
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

    def _partials(self, rows: EventBatch, chosen: IntArray, values: Sequence[FloatArray]) -> pa.Table:
        """Return some of the rows of a batch as partials."""
        raise NotImplementedError

    def _valid(self, rows: EventBatch) -> BoolArray | None:
        """Tell which rows have a time, an id and a remote id; None: all."""
        if self.on is None:
            return rows.valid
        known: BoolArray = rows.batch.column(self.on).is_valid().to_numpy(zero_copy_only=False)
        return known if rows.valid is None else known & rows.valid

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
            self._keep(partials)
        if settled is not None and settled.num_rows:
            first, last, rows = (settled[name].to_numpy() for name in (FIRST, TIME, ROWS))
            self._note(int(first.min()), int(last.max()), int(rows.sum()))
            self._settle(settled)

    @abstractmethod
    def _keep(self, partials: pa.Table) -> None:
        """Keep partials until no window needs them."""

    def _settle(self, panes: pa.Table) -> None:
        """Note which panes have events that stayed elsewhere; only joins have any."""
        raise NotImplementedError

    def _note(self, first: int, last: int, rows: int) -> None:
        self.schedule.first, self.last = min(self.schedule.first, first), max(self.last, last)
        self.counts.events += rows

    # Objects out.

    def take_unfit(self) -> int:
        """Return how many objects were rejected so since this was asked last."""
        unfit, self._unfit = self._unfit, 0
        return unfit

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
        return {
            "query": self.query.as_dict(), "schedule": asdict(self.schedule), "counts": asdict(self.counts),
            "last": self.last,
        }, {}  # fmt: skip

    def load(self, state: State) -> None:
        """Take over what `state` returned, of the same query."""
        meta, _ = state
        self.schedule, self.counts = Schedule.load(meta["schedule"]), Counts(**meta["counts"])
        self.last = meta["last"]


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


def numbers_of(bound: Bound, batch: pa.RecordBatch) -> FloatArray:
    """Return the numbers of an expression, NaN where they are NULL."""
    values, valid = bound.scores(batch)
    return values if valid is None else np.where(valid, values, np.nan)
