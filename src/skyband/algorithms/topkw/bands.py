"""Many queries with scoring functions of their own, each with a k-skyband over windows that slide with every event.

The published algorithms keep the top k of subscriptions here: one row per query, in the arrays that the kernels work
on. Knows nothing of tables, names or clocks.

Paper → code (Top-k/w):

- section 3, query q = {s, k, n, t_A, t_C} → `BandSpec`, `Bands.add`, `Bands.remove`
- section 4.1.2, limit and additional → `Bands.expect`
- section 4.2, γ and the first candidate tree limit → `Method.pruning`, `FIRST_LIMIT`
- section 5, recent buffer of b objects; theorem 5.1 → `Method.buffer`, `Method.buffer_for`
- section 6, what happens when an object comes → `Bands.process`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from skyband.algorithms.topkw.band_kernels import CPM, NOBODY, PROBABLE, RELAXED, SNN, STRICT, BandRows, KernelQueries
from skyband.algorithms.topkw.event_kernels import (
    COLUMN,
    NONE,
    SUM,
    KernelEvents,
    KernelFunctions,
    KernelIndex,
    KernelMethod,
    pass_events,
)
from skyband.algorithms.topkw.probability import candidates
from skyband.algorithms.topkw.query_grid import QueryGrid
from skyband.order import BoolArray, FloatArray, IntArray, SlotArray, rank_in_runs

__all__ = ["CPM", "NONE", "PROBABLE", "RELAXED", "SNN", "STRICT", "BandSpec", "Bands", "Method", "TopKReports"]

FIRST_LIMIT = 4  # candidates of a relaxed band before it is first pruned, as a multiple of k
BITS = 52  # conditions whose gates share a column: a float has so many whole bits
_FIRST_ROOM = 16
_ENTRY, _ROW = ("cost", "position", "slot", "mark"), ("size", "limit", "threshold", "due")  # names in a snapshot
_PER_QUERY = (
    *KernelFunctions._fields, "k", "size", "since", "least", "most", "filter_most", "bound", "cell", "reach",
)  # fmt: skip


@dataclass(frozen=True)
class Method:
    """Which bands queries have, which filters in front of them, and the paper's parameters (table IX).

    `buffer` is b for windows that count events, and `recent` the same for windows of time, as a share of the shortest
    one; `cells` is ρ, how many cells a grid has in each dimension.
    """

    kind: int
    filter: int = NONE
    buffer: int = 2_000
    pruning: float = 0.2
    error: float = 0.001
    additional: int = 10
    recent: float = 0.05
    cells: int = 10
    limit: int | None = None  # candidates of a probabilistic band, where they are not computed

    def buffer_for(self, size: int) -> int:
        """Return how long the recent buffer may be at most for a window: half of it (theorem 5.1)."""
        return max(min(self.buffer, (size + 1) // 2), 1)

    def over_time(self, size: int) -> Method:
        """Return the method for windows of time that are so long at least: the buffer is a share of that."""
        return replace(self, buffer=max(int(size * self.recent), 1))


@dataclass(frozen=True)
class BandSpec:
    """One query as numbers: its scoring function, k, and how long the window is on its axis.

    `population` is how many events a window has, about; `sign` is -1 where larger scores are better. Where `floor`
    and `ceiling` are given, only events between them count, attribute by attribute. With a `gate`, only those count
    that meet a condition; see `gate_of`.
    """

    k: int
    size: int
    population: int
    family: int = SUM
    sign: float = 1.0
    point: tuple[float, ...] = ()
    weight: tuple[float, ...] = ()
    column: int = 0
    floor: tuple[float, ...] = ()
    ceiling: tuple[float, ...] = ()
    gate: int = -1


class Events(NamedTuple):
    """Events, one row each: attributes, position on the windows' axis, slot in the event store, number of arrival."""

    x: FloatArray
    position: IntArray
    slot: IntArray
    number: IntArray

    @classmethod
    def none(cls) -> Self:
        """Return no events."""
        return cls(np.empty((0, 0)), *(np.empty(0, np.int64) for _ in range(3)))

    @classmethod
    def joined(cls, parts: Sequence[Events]) -> Self:
        """Return copies, one part after the other; older events met no condition whose gate came after them."""
        width = max(part.x.shape[1] for part in parts)
        x, *rest = zip(*parts, strict=True)
        x = tuple(a if a.shape[1] == width else np.hstack([a, np.zeros((len(a), width - a.shape[1]))]) for a in x)
        return cls(*map(np.concatenate, (x, *rest)))

    def at(self, rows: slice | IntArray | BoolArray) -> Events:
        """Return some of them."""
        return Events(self.x[rows], self.position[rows], self.slot[rows], self.number[rows])

    def moved(self, moved: SlotArray) -> Events:
        """Return them with their new slots."""
        return self._replace(slot=moved[self.slot].astype(np.int64))

    def state(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Return the columns as flat arrays."""
        return {f"{name}_{part}": column.flatten() for part, column in zip(self._fields, self, strict=True)}

    @classmethod
    def load(cls, state: dict[str, npt.NDArray[Any]], name: str) -> Self:
        """Make them again from what `state` returned."""
        x, *rest = (state[f"{name}_{part}"] for part in cls._fields)
        return cls(x.reshape(len(rest[0]), len(x) // max(len(rest[0]), 1)), *rest)


class TopKReports(NamedTuple):
    """What became of the top k, in order: row of the query, slot of the event, what happened, at which new event.

    Where time alone passed, the new event is -1; `moment` is how far it had passed. `score` is the event's score for
    the query; `exact` says whether the query's top k was sure to be so.
    """

    row: IntArray
    slot: IntArray
    kind: IntArray
    at: IntArray
    moment: IntArray
    score: FloatArray
    exact: BoolArray

    def where(self, chosen: BoolArray) -> TopKReports:
        """Return only some of them."""
        return TopKReports(*(column[chosen] for column in self))  # type: ignore[arg-type]

    def after(self, events: int) -> TopKReports:
        """Return them as those of a piece of the new events that comes after so many of these."""
        return self._replace(at=np.where(self.at < 0, -1, self.at + events))

    @classmethod
    def joined(cls, parts: Sequence[TopKReports]) -> Self:
        """Return reports, one part after the other."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(eq=False, repr=False)
class Bands:
    """Rows of k-skybands."""

    method: Method
    dimensions: int  # attributes that the grid, distances and sums are about; further columns are scores by themselves
    grid: QueryGrid | None = None  # index of the queries; None offers each event to all of them
    changes: bool = False  # whether reports say also who leaves and who returns
    timed: bool = False  # whether what leaves a window does so at a moment of its own, not with the next event

    def __post_init__(self) -> None:
        self.buffer = 0  # how long it is on the axis
        self.passed = -NOBODY
        self.numbers = 0  # of events that came so far
        self.held = Events.none()  # the recent buffer
        none, cells = np.empty(0, np.int64), 0 if self.grid is None else len(self.grid)
        self.used = none  # rows that have a query, in order
        self.family, self.column, self.gate, self.sign, self.boxed = none, none, none, np.empty(0), np.empty(0, bool)
        self.point, self.weight, self.floor, self.ceiling = (np.empty((0, self.dimensions)) for _ in range(4))
        self.k = self.size = self.since = self.least = self.most = self.filter_most = self.reach = none
        self.bound, self.cell = np.empty((0, cells)), np.empty((0, cells), np.int64)
        self.watching = np.zeros((max(cells, 1), 1), np.uint64)
        self.band, self.filters = self._new_band(0), self._new_band(0)

    # Queries come and go.

    def add(self, specs: Sequence[BandSpec]) -> list[int]:
        """Let queries see the events from now on; return their rows."""
        needed, room = len(self.used) + len(specs), len(self.k)
        if needed > room:
            self._more_rows(max(needed, 2 * room, 8))
        rows: list[int] = np.setdiff1d(np.arange(len(self.k)), self.used)[: len(specs)].tolist()
        for row, spec in zip(rows, specs, strict=True):
            self._write(row, spec)
        self.used = np.union1d(self.used, rows).astype(np.int64)
        self._replan()
        return rows

    def remove(self, rows: Sequence[int]) -> None:
        """Forget queries."""
        for row in rows:
            for band in (self.band, self.filters):
                band.size[row] = 0
                band.next_expiry[row] = NOBODY
            if self.grid is not None:
                self.watching[:, row >> 6] &= ~(np.uint64(1) << np.uint64(row & 63))
        self.used = np.setdiff1d(self.used, rows)
        self._replan()

    def _replan(self) -> None:
        """Follow a change of the queries: one buffer for all, as long as the shortest window allows."""
        sizes = self.size[self.used].tolist()
        self.buffer = min((self.method.buffer_for(size) for size in sizes), default=self.method.buffer)
        if self.method.filter == NONE:
            return
        _, position, _, _, size, _, _, next_expiry, _ = self.filters
        for row in self.used.tolist():  # what leaves the buffer when depends on its length
            if next_expiry[row] != NOBODY:
                oldest = int(position[row, : size[row]].min(initial=NOBODY))
                next_expiry[row] = NOBODY if oldest == NOBODY else oldest + self.buffer
        self.filters = self.filters._replace(heap=self._heap(next_expiry))

    # Room.

    def _more_rows(self, rows: int) -> None:
        for name in _PER_QUERY:
            setattr(self, name, _with_rows(getattr(self, name), rows))
        self.watching = np.ascontiguousarray(_with_rows(self.watching.T, rows // 64 + 1).T)
        for name in ("band", "filters"):
            *columns, heap = getattr(self, name)
            setattr(self, name, BandRows._make([*(_with_rows(column, rows) for column in columns), heap]))

    def _new_band(self, rows: int, room: int = _FIRST_ROOM) -> BandRows:
        wide = (rows, room)
        return BandRows(
            np.empty(wide), np.empty(wide, np.int64), np.empty(wide, np.int64), np.empty(wide, np.int64),
            np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.full(rows, np.inf), np.full(rows, NOBODY),
            np.zeros((2, 8), np.int64),
        )  # fmt: skip

    def _heap(self, next_expiry: IntArray) -> IntArray:
        """Return the heap of the rows from which something leaves: sorted is a heap."""
        rows = self.used[next_expiry[self.used] != NOBODY]
        rows = rows[np.argsort(next_expiry[rows], kind="stable")]
        return np.stack([[len(rows), *next_expiry[rows]], [0, *rows]]).astype(np.int64)

    def _write(self, row: int, spec: BandSpec) -> None:
        self.family[row], self.sign[row], self.column[row] = spec.family, spec.sign, spec.column
        if spec.family != COLUMN:
            self.point[row], self.weight[row] = spec.point, spec.weight
        self.boxed[row], self.gate[row] = bool(spec.floor), spec.gate
        if spec.floor:
            self.floor[row], self.ceiling[row] = spec.floor, spec.ceiling
        self.k[row], self.size[row], self.since[row] = spec.k, spec.size, self.numbers
        self.expect(row, spec.population)
        for band in (self.band, self.filters):
            band.size[row], band.limit[row] = 0, FIRST_LIMIT * spec.k
            band.threshold[row], band.next_expiry[row] = np.inf, NOBODY
        self._watch_all(row)

    def _watch_all(self, row: int) -> None:
        """Let a query watch all cells: whatever comes first is among its best."""
        if self.grid is not None:
            found = self.grid.cells_of(int(self.family[row]), self.sign[row], self.point[row], self.weight[row])
            self.bound[row], self.cell[row] = found
            self.reach[row] = len(self.grid)
            self.watching[:, row >> 6] |= np.uint64(1) << np.uint64(row & 63)

    def expect(self, row: int, population: int) -> None:
        """Be prepared for so many events in a window of a query: so many candidates may matter."""
        method, k, size = self.method, int(self.k[row]), int(self.size[row])
        self.least[row] = method.limit if method.limit is not None else self._candidates(population, k)
        self.most[row] = self.least[row] + method.additional
        self.filter_most[row] = max(self._candidates(method.buffer_for(size) * population // size, k), 2)

    def _candidates(self, population: int, k: int) -> int:
        return candidates(max(population, k + 1), k, self.method.error)

    # Events.

    def process(
        self, x: FloatArray, position: IntArray, slots: SlotArray | IntArray, time: IntArray, key: IntArray,
        passed: int = -NOBODY, moments: IntArray | None = None,
    ) -> TopKReports:  # fmt: skip
        """Take in events, in order of arrival, then let time pass; return what became of the top k of each query.

        `x` has attributes and scores, a row per event. `position` and `slots` say where the events lie on the windows'
        axis and in the event store, `time` and `key` are columns of the store. Time has passed up to `moments` when
        each event comes (left out: as far as events came), and passes up to `passed` at the end, but never back.
        """
        numbers = np.arange(self.numbers, self.numbers + len(position))
        new = Events(np.ascontiguousarray(x), position.astype(np.int64), slots.astype(np.int64), numbers)
        moments = np.concatenate([[self.passed], position if moments is None else moments, [passed]])
        return self._take(new, np.maximum.accumulate(moments)[1:], time, key)  # a late event does not turn time back

    def _take(self, new: Events, moments: IntArray, time: IntArray, key: IntArray) -> TopKReports:
        """Take in events; `moments` say up to where time has passed when each of them comes, and at the end."""
        kept, events = self._behind_held(new)
        head, self.band, self.filters, reports = pass_events(
            KernelEvents(*events, time, key), kept, moments, self.functions(), self.queries(), self._settings(),
            self.band, self.filters, self._index(),
        )  # fmt: skip
        self.passed = int(moments[-1])
        if self.method.filter != NONE:
            self.held = events.at(slice(head, None))
        return self._reports(reports, reports["slot"])

    def _behind_held(self, new: Events) -> tuple[int, Events]:
        """Count new events; return how many are held, and these with the new ones behind them."""
        self.numbers += len(new.slot)
        return len(self.held.slot), Events.joined([self.held, new])

    def functions(self) -> KernelFunctions:
        """Return the scoring functions as kernels take them."""
        return KernelFunctions(*(getattr(self, name) for name in KernelFunctions._fields))

    def queries(self) -> KernelQueries:
        """Return the queries as kernels take them."""
        return KernelQueries(self.used, self.k, self.size, self.since)

    def _settings(self) -> KernelMethod:
        method = self.method
        most = self.most if method.kind == PROBABLE else self.filter_most
        return KernelMethod(
            method.kind, method.filter, self.buffer, method.pruning, self.least, most, self.changes, self.timed
        )

    def _index(self) -> KernelIndex:
        grid = self.grid or QueryGrid(np.zeros(0), np.zeros(0), cells=0)
        return KernelIndex(grid.low, grid.step, grid.cells, self.bound, self.cell, self.reach, self.watching)

    def _reports(self, found: npt.NDArray[Any], slot: IntArray) -> TopKReports:
        """Return the reports of a kernel, about events in these slots, as columns."""
        row, kind, at, moment, cost = (found[name].copy() for name in ("row", "kind", "at", "moment", "cost"))
        return TopKReports(row, slot.copy(), kind, at, moment, self.sign[row] * cost, self.exactness(row, moment))

    # What is kept.

    def top(self, row: int) -> IntArray:
        """Return the slots of the best events of a query, best first."""
        return np.asarray(self.band.slot[row, : min(self.k[row], self.band.size[row])])

    def kept(self) -> SlotArray:
        """Return the slots that any query, filter or the buffer refers to."""
        parts = [self.held.slot, *(band.slot[self._filled(band)] for band in (self.band, self.filters))]
        return np.unique(np.concatenate(parts)).astype(np.int32)

    def _filled(self, band: BandRows) -> BoolArray:
        """Return which places of a band are in use."""
        return np.asarray(np.arange(band.cost.shape[1]) < band.size[:, None])

    def exactness(self, rows: IntArray, moments: IntArray) -> BoolArray:  # noqa: ARG002 - others need them
        """Tell whether the top k of queries is sure to be exact at these moments, with what is used now."""
        return np.full(len(rows), self.method.kind != PROBABLE)

    def method_in_use(self) -> str:
        """Say what is used and why, where that may change."""
        return ""

    def references(self) -> int:
        """Return how many places in bands and filters are in use."""
        return int(self.band.size.sum() + self.filters.size.sum())

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        self.held = self.held.moved(moved)
        for band in (self.band, self.filters):
            filled = self._filled(band)
            band.slot[filled] = moved[band.slot[filled]]

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything but the queries as flat arrays, detached from the live ones."""
        width = self.held.x.shape[1] if len(self.held.slot) else 0
        numbers = np.array([self.numbers, self.passed, width], np.int64)
        found = {"numbers": numbers, "since": self.since[self.used], **self.held.state("held")}
        for name, band in (("band", self.band), ("filter", self.filters)):
            inside = self._filled(band)
            found |= {f"{name}_{part}": column[inside] for part, column in zip(_ENTRY, band[:4], strict=True)}
            found |= {f"{name}_{part}": column[self.used] for part, column in zip(_ROW, band[4:8], strict=True)}
        return found

    def load(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Take over what `state` returned, for the same queries, added in the order of their rows."""
        self.numbers, self.passed, _ = state["numbers"].tolist()
        self.since[self.used] = state["since"]
        for row in self.used.tolist():
            self._watch_all(row)  # until its threshold moves
        self.held = Events.load(state, "held")
        self.band, self.filters = (self._loaded(state, name) for name in ("band", "filter"))

    def _loaded(self, state: dict[str, npt.NDArray[Any]], name: str) -> BandRows:
        band = self._band_of([state[f"{name}_{part}"] for part in _ENTRY], state[f"{name}_size"])
        for part, column in zip(_ROW, band[4:8], strict=True):
            column[self.used] = state[f"{name}_{part}"]
        return band._replace(heap=self._heap(band.next_expiry))

    def _band_of(self, columns: Sequence[npt.NDArray[Any]], sizes: IntArray) -> BandRows:
        """Return a band with these entries, given row after row of those in use, so many in each."""
        band = self._new_band(len(self.k), max(int(sizes.max(initial=0)) + 2, _FIRST_ROOM))
        rows = np.repeat(self.used, sizes)
        for column, values in zip(band[:4], columns, strict=True):
            column[rows, rank_in_runs(rows)] = values
        band.size[self.used] = sizes
        return band

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold (for tests)."""
        for row in self.used.tolist():
            kinds = (self.method.kind, self.method.filter)
            limits = (self.most[row], self.filter_most[row])
            for kind, band, most in zip(kinds, (self.band, self.filters), limits, strict=True):
                k, size = int(self.k[row]), int(band.size[row])
                cost, position, slot, mark = (column[row, :size] for column in band[:4])
                assert np.all(cost[1:] >= cost[:-1]), "a row is not sorted"
                assert len(np.unique(slot)) == size, "an event is in a row twice"
                assert kind != PROBABLE or size <= k + most, "a row has more candidates than its limit"
                if kind == STRICT:
                    known = np.array([np.count_nonzero(position[:i] >= position[i]) for i in range(size)], np.int64)
                    assert np.all(mark >> 2 >= known), "an event is dominated more often than was counted"
                    assert np.all(mark >> 2 < k), "a dominated event was kept"
        short = self.size[self.used].min(initial=NOBODY)
        assert self.method.filter == NONE or 2 * self.buffer <= short + 1, "the buffer is longer than half a window"

    def scores_of(self, row: int) -> FloatArray:
        """Return the scores of the best events of a query, best first."""
        return np.asarray(self.sign[row] * self.band.cost[row, : len(self.top(row))])


def _with_rows(column: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Return a column with more rows; what they hold is written when a query gets one."""
    return np.concatenate([column, np.zeros((rows - len(column), *column.shape[1:]), column.dtype)])


def gate_of(place: int, first: int) -> int:
    """Return the gate of a condition by its place among all, whose bits lie in columns from the first on."""
    return (first + place // BITS) << 6 | place % BITS


def with_gates(x: FloatArray, open_at: Sequence[BoolArray | None]) -> FloatArray:
    """Return events with columns that say, bit by bit, which conditions they meet; None is a place without one.

    Examples
    --------
    >>> with_gates(np.zeros((2, 1)), [np.array([True, False]), None, np.array([True, True])]).tolist()
    [[0.0, 5.0], [0.0, 4.0]]
    """
    bits = np.zeros((len(x), -(-len(open_at) // BITS)), np.int64)
    for place, passed in enumerate(open_at):
        if passed is not None:
            bits[:, place // BITS] |= passed.astype(np.int64) << (place % BITS)
    return np.hstack([x, bits])
