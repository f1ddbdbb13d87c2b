"""The stream's side of a query that joins or aggregates: events in, and for each window one object per id out.

Between the two, events are *partials*: one row per pane and id. All events of a pane lie in the same windows. So of an
id whose latest event counts, the latest of each pane is enough; of aggregates, those of each pane are. Partials can be
made anywhere and put together in any order: here, of the rows of a batch, or by Spark, on its executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.engine.measures import ROWS, Measure, final, measures
from skyband.errors import InputError
from skyband.events.batch import EventBatch
from skyband.events.keys import is_key, is_text
from skyband.expressions import Bound
from skyband.order import BoolArray, FloatArray, IntArray, merit_of, value_ranks
from skyband.queries.decomposition import Decomposition
from skyband.windows import ALWAYS, PaneGrid, WindowGrid

PANE, ID, REMOTE, TIME, STREAM = "pane", "id", "remote", "time", "stream"
FIRST, REFRESHED = "first", "refreshed"
CARRIED = "carried "
"""Columns of the stream that are carried along have this before their names."""
MOST_PARTS = 64


@dataclass(frozen=True)
class _Bounds:
    where: Bound | None
    part: Bound | None
    arguments: dict[str, Bound]
    ids: pa.DataType
    remotes: pa.DataType


class Partials:
    """Events of a stream on their way to a join, or to a ranking of their aggregates.

    Parameters
    ----------
    sides
        The query, taken apart.
    windows
        Its windows.
    order
        Of its scores: decides which of two events of an id at the same time counts.
    on
        The column of remote ids; None where they are the stream's.
    select
        Columns to carry along.
    group_by
        The column of the objects' ids; None where they are the stream's.
    """

    def __init__(
        self,
        sides: Decomposition,
        windows: WindowGrid,
        order: str,
        on: str | None,
        select: Sequence[str],
        group_by: str | None = None,
    ) -> None:
        self.sides, self.grid, self.order, self.on, self.select = sides, PaneGrid(windows), order, on, tuple(select)
        self.group_by = group_by
        self.measures: dict[str, Measure] = {}
        self.unfit = 0
        """How many of the last objects have no score because an integer sum of theirs does not fit 64 bits."""
        self._bounds: _Bounds | None = None
        self._parts: list[pa.Table] = []
        self._carried: pa.Table | None = None
        self._aside: dict[int, int] = {}  # by pane

    @property
    def text_ids(self) -> bool:
        """Whether ids are text."""
        return self._bounds is not None and self._bounds.ids == pa.string()

    def __len__(self) -> int:
        return sum(part.num_rows for part in self._parts)

    # Rows in.

    def bind(self, schema: pa.Schema, id_column: str) -> None:
        """Look up the columns of the query; InputError where one is missing or of a wrong type."""
        sides, key = self.sides, self.group_by or id_column
        if sides.service is not None and sides.service.lower() in (name.lower() for name in schema.names):
            msg = (
                f"the stream has a column {sides.service!r}, as the service is called that the query joins with; call "
                "the service otherwise, or rename the column"
            )
            raise InputError(msg)
        keys = {"group_by": self.group_by, "the join's on": self.on}
        wanted = {"select": self.select, **{what: (name,) for what, name in keys.items() if name is not None}}
        for what, names in wanted.items():
            if missing := [name for name in names if name not in schema.names]:
                msg = (
                    f"{what} names {', '.join(map(repr, missing))}; the stream's columns are {', '.join(schema.names)}"
                )
                raise InputError(msg)
        for what, name in keys.items():
            if name is not None and not is_key(kind := schema.field(name).type):
                msg = f"{what} names {name!r}, which is {kind}; ids are text or whole numbers that fit int64: cast it"
                raise InputError(msg)
        self.measures = measures(sides.aggregates, schema)
        self._bounds = _Bounds(
            where=None if sides.where is None else sides.where.bind(schema, "filter"),
            part=None if sides.aggregates else sides.part.bind(schema, "score"),
            arguments={name: one.values.bind(schema, "score") for name, one in self.measures.items()},
            ids=_plain(schema.field(key).type),
            remotes=_plain(schema.field(self.on or key).type),
        )

    def passing(self, rows: EventBatch) -> tuple[BoolArray, BoolArray]:
        """Tell which rows pass the condition, and which of these have all that they need."""
        assert self._bounds is not None
        batch = rows.batch
        passed = np.ones(batch.num_rows, bool) if self._bounds.where is None else self._bounds.where.mask(batch)
        good = passed if rows.valid is None else passed & rows.valid
        if self.on is not None:
            good = good & batch.column(self.on).is_valid().to_numpy(zero_copy_only=False)
        if self._bounds.part is not None:
            good = good & ~np.isnan(_values(self._bounds.part, batch))
        return passed, good

    def partials(self, rows: EventBatch, chosen: IntArray) -> pa.Table:
        """Return some of the rows of a batch as partials."""
        assert self._bounds is not None
        bounds, batch = self._bounds, rows.batch.take(pa.array(chosen))
        time = rows.time[chosen]
        columns: dict[str, Any] = {
            PANE: self.grid.of(time),
            ID: rows.ids.take(pa.array(chosen)).cast(bounds.ids),
            TIME: time,
            ROWS: np.ones(len(chosen), np.int64),
        }
        if self.on is not None:
            columns[REMOTE] = batch.column(self.on).cast(bounds.remotes)
        if bounds.part is not None:
            columns[STREAM] = _values(bounds.part, batch)
        columns |= {name: one.column(bounds.arguments[name], batch) for name, one in self.measures.items()}
        columns |= {CARRIED + name: batch.column(name) for name in self.select}
        return self._reduced(pa.table(columns), PANE)

    def add(self, partials: pa.Table) -> None:
        """Take in partials, of whatever origin."""
        if partials.num_rows:
            self._parts.append(partials)
        if len(self._parts) > MOST_PARTS:
            self._parts = [self._reduced(_concat(self._parts), PANE)]

    def put_aside(self, panes: pa.Table) -> None:
        """Note panes with events that are not here, and when the oldest of their remote values was refreshed."""
        for pane, refreshed in zip(panes[PANE].to_pylist(), panes[REFRESHED].to_pylist(), strict=True):
            self._aside[pane] = min(refreshed, self._aside.get(pane, refreshed))

    def aside_since(self, window: int) -> int:
        """Return when the oldest remote value of events of a window that are not here was refreshed."""
        panes = range(self.grid.first(window), self.grid.behind(window))
        return min((since for pane, since in self._aside.items() if pane in panes), default=ALWAYS)

    # Objects out.

    def objects(self, window: int) -> pa.Table:
        """Return the objects of a window, with the columns `id`, `remote`, `time` and `stream`.

        Of aggregates, all objects of the window; else those that are new in it, each once.
        """
        self._aside = {pane: since for pane, since in self._aside.items() if pane >= self.grid.first(window)}
        if self._carried is not None:
            alive = self.grid.windows.last_of(self._carried[TIME].to_numpy()) >= window
            self._carried = self._carried.filter(pa.array(alive))
        self.unfit = 0
        if not self._parts:
            return pa.table({ID: [], REMOTE: [], TIME: [], STREAM: []})
        whole = _concat(self._parts)
        pane = whole[PANE].to_numpy()
        first, behind = self.grid.first(window), self.grid.behind(window)
        found = self._reduced(whole.filter(pa.array((pane >= first) & (pane < behind))))
        later = pane >= (self.grid.first(window + 1) if self.sides.aggregates else behind)
        self._parts = [whole.filter(pa.array(later))] if later.any() else []
        if self.sides.aggregates:
            found = found.append_column(STREAM, pa.array(self._aggregated(found)))
        if self.select:
            self._carry(found)
        return found if self.on is not None else found.append_column(REMOTE, found[ID])

    def _aggregated(self, found: pa.Table) -> FloatArray:
        """Return the stream's part of the score of each object, worked out of its aggregates; NaN where it is NULL."""
        values = {str(one): final(one, found, self.measures) for one in self.sides.aggregates}
        outside = [mask for _, mask in values.values() if mask is not None]
        self.unfit = int(np.logical_or.reduce(outside).sum()) if outside else 0
        batch = pa.record_batch({name: column for name, (column, _) in values.items()})
        return _values(self.sides.part.bind(batch.schema, "score"), batch)

    # What is carried along.

    def _carry(self, found: pa.Table) -> None:
        """Remember the columns of objects for their answers, and what decides between equal times."""
        names = [ID, TIME, *(name for name in (STREAM, REMOTE) if name in found.column_names)]
        fresh = found.select([*names, *(CARRIED + name for name in self.select)])
        if self._carried is None or self.sides.aggregates:
            self._carried = fresh
        else:
            self._carried = _reduced(_concat([self._carried, fresh]), [], {}, self.order)

    def carried(self, ids: Sequence[Any]) -> pa.Table | None:
        """Return the carried columns of ids, in their order."""
        if self._carried is None or not self.select:
            return None
        place = pc.index_in(pa.array(ids, self._carried[ID].type), self._carried[ID])
        named = self._carried.select([CARRIED + name for name in self.select]).rename_columns(list(self.select))
        return named.take(place)

    def _reduced(self, table: pa.Table, *by: str) -> pa.Table:
        sums = {ROWS: np.add.reduceat, **{name: one.reduce for name, one in self.measures.items()}}
        return _reduced(table, by, sums, self.order)

    # Snapshots.

    def state(self) -> dict[str, pa.Table]:
        """Return everything as tables."""
        tables = {} if not self._parts else {"partials": self._reduced(_concat(self._parts), PANE)}
        tables |= {} if self._carried is None else {"carried": self._carried}
        aside = {PANE: list(self._aside), REFRESHED: list(self._aside.values())}
        return tables | ({"aside": pa.table(aside)} if self._aside else {})

    def load(self, tables: dict[str, pa.Table]) -> None:
        """Take over what `state` returned."""
        self._parts = [tables["partials"]] if "partials" in tables else []
        self._carried = tables.get("carried")
        if "aside" in tables:
            self.put_aside(tables["aside"])


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if is_text(kind) else pa.int64()


def _values(bound: Bound, batch: pa.RecordBatch) -> FloatArray:
    """Return numbers, NaN where they are NULL."""
    values, valid = bound.scores(batch)
    values = np.broadcast_to(values, batch.num_rows)
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
    sort = _settled(table, np.lexsort((*reversed(places), *keys)), [*keys, *places])
    begins = np.ones(len(sort), bool)
    begins[1:] = np.logical_or.reduce([key[sort][1:] != key[sort][:-1] for key in keys])
    starts = np.flatnonzero(begins)
    latest = table.take(pa.array(sort[np.append(starts[1:], len(sort)) - 1]))
    for name, operation in measures.items():
        values = pa.array(operation(table[name].to_numpy()[sort], starts))
        latest = latest.set_column(latest.column_names.index(name), name, values)
    return latest


def _settled(table: pa.Table, sort: IntArray, columns: Sequence[Any]) -> IntArray:
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
