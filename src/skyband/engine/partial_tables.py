"""Partials that are kept as rows of tables: of joins, of aggregates that carry columns along, of distinct values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.engine.intake import APPROXIMATE
from skyband.engine.measures import DISTINCT, ROWS, SKETCH, adapted, final
from skyband.engine.partial_rows import CARRIED, ID, PANE, PART, REFRESHED, REMOTE, STREAM, TIME, concat, reduced
from skyband.engine.partials import Partials, Scored, numbers_of
from skyband.engine.snapshot import State
from skyband.events.batch import EventBatch
from skyband.events.store import retyped
from skyband.order import FloatArray, IntArray, value_ranks
from skyband.queries.query import Query
from skyband.windows import ALWAYS

MOST_PARTS = 64
MOST_VALUES = 1_000_000
"""How many distinct values are kept for the ``count(DISTINCT …)`` of a query: beyond, its answers are not exact."""
MANY_VALUES = f"more than {MOST_VALUES:,} distinct values"


class PartialTables(Partials):
    """The partials of one query as tables: whatever it aggregates or carries along.

    Parameters
    ----------
    query
        A query that ranks ids.
    """

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        self._parts: list[pa.Table] = []
        self._carried: pa.Table | None = None
        self._settled: dict[int, int] = {}  # by pane
        self._cut: set[int] = set()  # panes that lack some distinct values
        self.whole = True  # whether all distinct values of the last objects are known

    @property
    def doubt(self) -> str:
        """Why the last objects that were asked for are not exact; empty where they are."""
        if any(one.function == SKETCH for one in self.measures.values()):
            return APPROXIMATE
        return "" if self.whole else MANY_VALUES

    def __len__(self) -> int:
        return sum(part.num_rows for part in self._parts)

    # Rows in.

    def bind(self, schema: pa.Schema, id_column: str) -> None:
        """Look up the columns of the query; InputError where one is missing or of a wrong type."""
        super().bind(schema, id_column)
        assert self.bounds is not None
        kinds = {ID: self.bounds.ids} | {CARRIED + one.name: one.type(schema) for one in self.outputs}
        kinds |= {} if self.partition is None else {PART: self.bounds.parts}
        self._parts = [adapted(retyped(part, kinds), self.measures) for part in self._parts]

    def _partials(self, rows: EventBatch, chosen: IntArray, values: Sequence[FloatArray]) -> pa.Table:
        """Return some of the rows of a batch as partials."""
        assert self.bounds is not None
        bounds, batch = self.bounds, rows.batch.take(pa.array(chosen))
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

    def _keep(self, partials: pa.Table) -> None:
        self._parts.append(partials)
        full = bool(self._sets) and sum(int(self._values(part).sum()) for part in self._parts) > MOST_VALUES
        if len(self._parts) > MOST_PARTS or full:
            self._parts = [self._reduced(concat(self._parts), PANE)]
            self._bound_values()

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

    def _settle(self, panes: pa.Table) -> None:
        for pane, refreshed in zip(panes[PANE].to_pylist(), panes[REFRESHED].to_pylist(), strict=True):
            self._settled[pane] = min(refreshed, self._settled.get(pane, refreshed))

    def settled_since(self, window: int) -> int:
        """Return when the oldest remote value of a window's settled events, which are not here, was refreshed."""
        panes = range(self.panes.first(window), self.panes.behind(window))
        return min((since for pane, since in self._settled.items() if pane in panes), default=ALWAYS)

    def objects(self, end: int) -> pa.Table:
        """Return the objects of the window that ends there, and forget what no later window needs.

        The columns are `id`, `remote`, `time` and `stream`, and `part` where there are partitions. Of aggregates, all
        objects of the window; else those that are new in it, each once. Objects that have no score for an integer sum
        that does not fit 64 bits count as rejected.
        """
        window = self.windows.ending(end)
        found, unfit = self._of(window)
        self.counts.rejected += unfit
        self._unfit += unfit
        self._forget(window)
        if self.query.join is not None and self.query.columns and found.num_rows:
            self._carry(found)
        return found

    def scored(self, ends: Sequence[int]) -> Iterator[Scored]:
        """Yield the objects of windows that end there, in this order, and forget what no later window needs."""
        return (self._scored(self.objects(end)) for end in ends)

    def peek(self, ends: Sequence[int]) -> Iterator[Scored]:
        """Yield the objects so far of windows that are still open."""
        return (self._scored(self._of(self.windows.ending(end))[0]) for end in ends)

    def _scored(self, found: pa.Table) -> Scored:
        """Return the objects of a window with their scores."""

        def pick(rows: IntArray) -> tuple[pa.Array, pa.Array | None, pa.Table | None]:
            taken = pa.array(rows)
            part = found[PART].take(taken).combine_chunks() if PART in found.column_names else None
            shown = self.shown(found, taken) if self.query.columns and len(rows) else None
            return found[ID].take(taken).combine_chunks(), part, shown

        score, time = (found[name].to_numpy().astype(kind) for name, kind in ((STREAM, np.float64), (TIME, np.int64)))
        part = value_ranks(found[PART]) if PART in found.column_names else None
        return Scored(np.array([0, found.num_rows]), score, time, part, [self.doubt], pick)

    def _forget(self, window: int) -> None:
        """Forget what windows after this one do not need."""
        self._settled = {pane: since for pane, since in self._settled.items() if pane >= self.panes.first(window)}
        if self._carried is not None:
            alive = self.windows.last_of(self._carried[TIME].to_numpy()) >= window
            self._carried = self._carried.filter(pa.array(alive))
        if not self._parts:
            return
        whole = concat(self._parts)
        first = self.panes.first(window + 1) if self.decomposition.aggregates else self.panes.behind(window)
        later = whole[PANE].to_numpy() >= first
        self._parts = [whole.filter(pa.array(later))] if later.any() else []
        self._cut = {pane for pane in self._cut if pane >= first}
        self._join_panes(window)

    def _of(self, window: int) -> tuple[pa.Table, int]:
        """Return the objects of a window, and how many have no score for an integer sum that does not fit."""
        self.whole = not any(self.panes.first(window) <= pane < self.panes.behind(window) for pane in self._cut)
        if not self._parts:
            return pa.table({ID: [], REMOTE: [], TIME: [], STREAM: []}), 0
        self._parts = [concat(self._parts)]
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
            whole = concat(self._parts)
            pane = whole[PANE].to_numpy()
            place, joined = whole.column_names.index(PANE), np.where((pane >= first) & (pane < behind), first, pane)
            self._parts = [self._reduced(whole.set_column(place, PANE, pa.array(joined)), PANE)]
            self._cut = {first if first <= pane < behind else pane for pane in self._cut}

    def _aggregated(self, found: pa.Table) -> tuple[pa.Table, int]:
        """Add what is worked out of the aggregates of each object: the stream's part of the score, further values.

        That part is NaN where it is NULL. Leave out objects that do not meet the condition over aggregates. Return also
        how many have no score for an integer sum that does not fit 64 bits.
        """
        parts = self.decomposition
        held = {name: found[name].combine_chunks() for name in (ROWS, *self.measures)}
        held = {name: column if pa.types.is_list(column.type) else column.to_numpy() for name, column in held.items()}
        values = {str(one): final(one, held, self.measures) for one in parts.aggregates}
        outside = [mask for name, (_, mask) in values.items() if mask is not None and name in parts.part.columns]
        batch = pa.record_batch({name: column for name, (column, _) in values.items()})
        stream = numbers_of(parts.part.bind(batch.schema, "score"), batch)
        unfit = int(np.count_nonzero(np.logical_or.reduce(outside) & np.isnan(stream))) if outside else 0
        found = found.append_column(STREAM, pa.array(stream))
        for output in parts.outputs:
            found = found.append_column(CARRIED + output.name, output.values(batch))
        if parts.having is not None:
            found = found.filter(pa.array(parts.having.bind(batch.schema, "filter").mask(batch)))
        return found, unfit

    # What is carried along.

    def _carry(self, found: pa.Table) -> None:
        """Remember the columns of objects for their answers, and what decides between equal times."""
        names = [ID, TIME, *(name for name in (STREAM, REMOTE) if name in found.column_names)]
        fresh = found.select([*names, *(CARRIED + one.name for one in self.query.columns)])
        if self._carried is None or self.decomposition.aggregates:
            self._carried = fresh
        else:
            self._carried = reduced(concat([self._carried, fresh]), [], {}, self.query.order)

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
        return reduced(table, by, self.measures, self.query.order)

    # Snapshots.

    def state(self) -> State:
        """Return everything as plain values and tables."""
        meta, tables = super().state()
        tables |= {} if not self._parts else {"partials": self._reduced(concat(self._parts), PANE)}
        tables |= {} if self._carried is None else {"carried": self._carried}
        settled = {PANE: list(self._settled), REFRESHED: list(self._settled.values())}
        return meta | {"cut": sorted(self._cut)}, tables | ({"settled": pa.table(settled)} if self._settled else {})

    def load(self, state: State) -> None:
        """Take over what `state` returned, of the same query."""
        super().load(state)
        meta, tables = state
        self._cut = set(meta["cut"])
        self._parts = [tables["partials"]] if "partials" in tables else []
        self._carried = tables.get("carried")
        if "settled" in tables:
            self._settle(tables["settled"])
