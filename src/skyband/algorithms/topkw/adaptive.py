"""Skybands that watch the order of the stream: probabilistic while it is random, relaxed behind filters otherwise.

Paper → code (Top-k/w):

- section 4.1.3, future work: a hybrid of PA and RAPF → `AdaptiveBands`

They begin with relaxed bands behind probabilistic filters (RAPF), which are exact whatever comes, and change to
probabilistic ones (PA) when the order was random for the longest window. From then on the last two blocks of events are
kept once for all queries. An alarm changes back, and takes back into the rows what PA turned away or dropped of those
events: a stream that becomes correlated within them, and is found out at their end, has lost nothing.

What is guaranteed: the top k of a row is exact while RAPF is in use, for queries that have seen no event but those
since PA was, or its last two blocks, and for all others as soon as their windows begin there. While PA is in use, its
bound holds for streams in random order: less than an error of σ is missed per window and query. No event is reported as
entered twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.algorithms.topkw.band_kernels import ENTERED, LEFT, NOBODY, RETURNED, prune
from skyband.algorithms.topkw.bands import FIRST_LIMIT, NONE, PROBABLE, RELAXED, Bands, Method, TopKReports, as_wide
from skyband.algorithms.topkw.event_kernels import find_all_costs
from skyband.algorithms.topkw.query_grid import QueryGrid
from skyband.algorithms.topkw.random_order import BLOCK, Order, Watch
from skyband.order import BoolArray, FloatArray, IntArray, SlotArray

TOGETHER = 256  # queries whose costs are found at once
_EVENT = ("x", "position", "slot", "number")
Columns = tuple[npt.NDArray[Any], ...]
NO_ROWS = np.empty(0, np.int64)
NO_EVENTS: Columns = (np.empty((0, 0)), NO_ROWS, NO_ROWS, NO_ROWS)


class Mark(NamedTuple):
    """A place in the stream: how many events came before it, and up to where time had passed."""

    number: int
    position: int


class AdaptiveBands(Bands):
    """Rows of k-skybands of the kind that the order of the stream allows.

    Parameters
    ----------
    method
        The parameters; the kinds of bands and filters are not used.
    dimensions, grid, changes, timed
        As for `Bands`.

    Attributes
    ----------
    using
        "pa" or "rapf".
    why
        In words, what was seen of the order of the stream when it was judged last.
    switches, switched
        How often the method was changed, and after how many events for the last time.
    """

    def __init__(
        self, method: Method, dimensions: int, grid: QueryGrid | None = None, changes: bool = False,
        timed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(replace(method, kind=RELAXED, filter=PROBABLE), dimensions, grid, changes, timed)
        self.watch = Watch()
        self.order = Order.UNKNOWN
        self.switches = self.switched = 0
        self.lost = Mark(0, -NOBODY)  # nothing since is lost, even with PA
        self.block = self.lost  # where the block that is being watched began
        self.recent: list[Columns] = []  # with PA, the events since `lost`
        self.reported: list[tuple[IntArray, IntArray]] = []  # rows and slots that were reported as entered since then

    def method_in_use(self) -> str:
        """Say what is used, since when and why."""
        since = f"since event {self.switched:,} (change {self.switches:,})" if self.switches else "from the start"
        return f"{self.using} {since}: {self.why}"

    @property
    def using(self) -> str:
        """The method in use."""
        return "pa" if self.method.kind == PROBABLE else "rapf"

    @property
    def why(self) -> str:
        """What is known of the order of the stream."""
        if self.watch.finding.tests == 0:
            return f"fewer than {BLOCK:,} events came, too few to judge their order"
        if self.order is Order.CORRELATED:
            return f"the order of the last {BLOCK:,} events is not random: {self.watch.finding}"
        calm = f"{self.watch.blocks:,} blocks of {BLOCK:,} events were compared, nothing is alarming"
        short = "" if self.using == "pa" else "; PA needs a whole window of them in random order"
        return f"{calm}, at most {self.watch.finding}{short}"

    def is_exact(self, row: int) -> bool:
        """Tell whether the top k of a query is sure to be exact now; see the module."""
        return bool(self.exactness(np.array([row]), np.array([self.passed]))[0])

    def exactness(self, rows: IntArray, moments: IntArray) -> BoolArray:
        """Tell whether the top k of queries is sure to be exact at these moments, with what is used now."""
        seen = (self.since[rows] >= self.lost.number) | (moments - self.size[rows] >= self.lost.position)
        return np.asarray(seen & (self.using == "rapf"))

    # Events.

    def process(
        self, x: FloatArray, position: IntArray, slots: SlotArray | IntArray, time: IntArray, key: IntArray,
        passed: int = -NOBODY, moments: IntArray | None = None,
    ) -> TopKReports:  # fmt: skip
        """Take in events, in order of arrival, then let time pass; return what became of the top k of each query."""
        moments = position if moments is None else moments
        found, begin = [], 0
        while begin < len(position):
            end = min(begin + self.watch.room, len(position))
            piece = slice(begin, end)
            for reports in self._take(x[piece], position[piece], slots[piece], moments[piece], time, key):
                found.append(reports._replace(at=np.where(reports.at < 0, -1, reports.at + begin)))
            begin = end
        if passed > self.passed or not found:
            found.append(super().process(x[begin:], position[begin:], slots[begin:], time, key, passed))
        return TopKReports(*map(np.concatenate, zip(*found, strict=True)))

    def _take(
        self, x: FloatArray, position: IntArray, slots: SlotArray | IntArray, moments: IntArray, time: IntArray,
        key: IntArray,
    ) -> Iterator[TopKReports]:  # fmt: skip
        """Take in events that the block has room for; judge their order, and act on it, when it is full."""
        number = np.arange(self.numbers, self.numbers + len(position))
        reports = super().process(x, position, slots, time, key, moments=moments)
        yield reports
        if self.using == "pa":
            self.recent.append((np.array(x), position.copy(), slots.astype(np.int64), number))
            entered = reports.kind == ENTERED
            self.reported.append((reports.row[entered], reports.slot[entered]))
        self.watch.see(x[:, : max(self.dimensions, int(self.column[self.used].max(initial=0)) + 1)])  # no gates
        if self.watch.room:
            return
        self.order = self.watch.judge(self.passed, int(self.size[self.used].max(initial=0)))
        if self.using == "rapf" and self.order is Order.RANDOM:
            yield self._switch(PROBABLE, NONE, self.held, time, key, len(x) - 1)
            self.lost = Mark(self.numbers, self.passed)
        elif self.using == "pa" and self.order is Order.CORRELATED:
            yield self._switch(RELAXED, PROBABLE, self._events(), time, key, len(x) - 1)
            self.recent, self.reported = [], []
        elif self.using == "pa":
            self.lost = self.block
            self._forget_before(self.lost.number)
        self.block = Mark(self.numbers, self.passed)

    # The change of methods.

    def _switch(
        self, kind: int, filter_kind: int, events: Columns, time: IntArray, key: IntArray, at: int
    ) -> TopKReports:
        """Change the method: rows take in the events that they do not have, and lose what has no future."""
        self.method = replace(self.method, kind=kind, filter=filter_kind)
        self.switches, self.switched = self.switches + 1, self.numbers
        reported_row, reported_slot = self._known()
        bands: list[Columns] = []
        found: list[Columns] = [(NO_ROWS, NO_ROWS, NO_ROWS, np.empty(0))]
        for row, cost in self._costs(events[0]):
            band = self._merged(row, cost, events, reported_slot[reported_row == row], time, key)
            found.append(self._announced(row, band))
            bands.append(self._fitting(row, band))
        self._load_rows(bands)
        rows, slots, happened, costs = map(np.concatenate, zip(*found, strict=True))
        moment = np.full(len(rows), self.passed)
        exact = self.exactness(rows, moment)
        return TopKReports(rows, slots, happened, np.full(len(rows), at), moment, self.sign[rows] * costs, exact)

    def _costs(self, x: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """Yield what events cost for each query."""
        for begin in range(0, len(self.used), TOGETHER):
            who = self.used[begin : begin + TOGETHER]
            costs = find_all_costs(self.functions(), who, x) if len(x) else np.empty((0, len(who)))
            yield from zip(who.tolist(), costs.T, strict=True)

    def _merged(
        self, row: int, cost: FloatArray, events: Columns, reported: IntArray, time: IntArray, key: IntArray
    ) -> Columns:
        """Return a row, best first, with the events of its window that it does not have, without those that left."""
        _, position, slot, number = events
        gone, size = self.passed - self.size[row], self.band.size[row]
        old = tuple(column[row, :size] for column in self.band[:4])
        fits = (number >= self.since[row]) & (position > gone) & (cost == cost) & ~np.isin(slot, old[2])
        new = (cost[fits], position[fits], slot[fits], np.isin(slot[fits], reported).astype(np.int64))
        band = tuple(np.concatenate(both) for both in zip(old, new, strict=True))
        slots = band[2]
        order = np.lexsort((slots, key[slots], -time[slots], band[0]))
        order = order[band[1][order] > gone]
        return tuple(column[order] for column in band)

    def _announced(self, row: int, band: Columns) -> Columns:
        """Mark who is among the best; return who has come to be so, and who no longer is: row, slot, what, cost."""
        cost, _, slot, mark = band
        best = np.arange(len(mark)) < self.k[row]
        left, come = ~best & (mark & 2 > 0), best & (mark & 2 == 0)
        happened = np.where(left, LEFT, np.where(mark & 1 > 0, RETURNED, ENTERED))
        new = np.flatnonzero(left | come) if self.changes else np.flatnonzero(come & (mark & 1 == 0))
        mark[left] &= ~2
        mark[come] |= 3
        new = new[np.argsort(happened[new], kind="stable")]  # who leaves makes place
        return np.full(len(new), row), slot[new], happened[new], cost[new]

    def _fitting(self, row: int, band: Columns) -> Columns:
        """Return what a row keeps with the method now in use."""
        k, size = int(self.k[row]), len(band[0])
        wide = tuple(column[None].copy() for column in band)
        size = prune(*wide, 0, size, k, np.empty((2, k + 1), np.int64)) if size > k else size
        if self.using == "pa":
            size = min(size, k + int(self.most[row]))
        return tuple(column[0, :size] for column in wide)

    def _load_rows(self, bands: list[Columns]) -> None:
        """Begin anew with these rows; the filters and their buffer are empty."""
        state = super().state()
        k, most, size = self.k[self.used], self.most[self.used], np.array([len(band[0]) for band in bands], np.int64)
        for i, name in enumerate(("cost", "position", "slot", "mark")):
            column = state[f"band_{name}"][:0]
            state |= {f"filter_{name}": column, f"band_{name}": np.concatenate([column, *(band[i] for band in bands)])}
        probable = self.using == "pa"
        leaves = [position[: None if probable else k_] for (_, position, *_), k_ in zip(bands, k.tolist(), strict=True)]
        oldest = np.array([part.min(initial=NOBODY) for part in leaves], np.int64)
        worst = np.array([band[0][-1] if len(band[0]) else np.inf for band in bands])
        rest = np.maximum(size - k, 0)
        nobody, anything = np.full(len(k), NOBODY), np.full(len(k), np.inf)
        state |= {
            "band_size": size,
            "band_limit": np.maximum(np.ceil((1 + self.method.pruning) * rest).astype(np.int64), FIRST_LIMIT * k),
            "band_threshold": np.where(probable & (size >= k + most), worst, anything),
            "band_due": np.where(oldest == NOBODY, nobody, oldest + self.size[self.used]),
            "filter_size": np.zeros_like(k), "filter_limit": FIRST_LIMIT * k, "filter_threshold": anything,
            "filter_due": nobody, **{f"held_{name}": column for name, column in zip(_EVENT, NO_EVENTS, strict=True)},
        }  # fmt: skip
        super().load(state)

    # What is kept.

    def _events(self) -> Columns:
        """Return the events that PA may have turned away and that can be taken back, as columns."""
        if not self.recent:
            return NO_EVENTS
        width = max(x.shape[1] for x, *_ in self.recent)
        same = [(as_wide(x, width), *rest) for x, *rest in self.recent]
        return tuple(map(np.concatenate, zip(*same, strict=True)))

    def _known(self) -> tuple[IntArray, IntArray]:
        """Return the rows and the slots of events that were reported since there is something to take back."""
        row, slot = map(np.concatenate, zip(*self.reported, (NO_ROWS, NO_ROWS), strict=True))
        there = np.isin(row, self.used)
        return row[there], slot[there]

    def _forget_before(self, number: int) -> None:
        """Give up taking back the events before a number."""
        events = self._events()
        self.recent = [tuple(column[events[3] >= number] for column in events)]
        row, slot = self._known()
        there = np.isin(slot, self.recent[0][2])
        self.reported = [(row[there], slot[there])]

    def kept(self) -> SlotArray:
        """Return the slots that any query, filter or buffer refers to."""
        return np.union1d(super().kept(), self._events()[2]).astype(np.int32)

    def references(self) -> int:
        """Return how many places in bands and filters, and of events that can be taken back, are in use."""
        return super().references() + sum(len(position) for _, position, *_ in self.recent)

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        super().compact(moved)
        self.recent = [(x, position, moved[slot].astype(np.int64), n) for x, position, slot, n in self.recent]
        self.reported = [(row, moved[slot].astype(np.int64)) for row, slot in self.reported]
        self.reported = [(row[slot >= 0], slot[slot >= 0]) for row, slot in self.reported]

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything but the queries as flat arrays, detached from the live ones."""
        events = self._events()
        reported_row, reported_slot = self._known()
        mine = [
            list(Order).index(self.order),
            self.switches,
            self.switched,
            *self.lost,
            *self.block,
            events[0].shape[1],
        ]
        return {
            **super().state(), **self.watch.state(),
            **{f"recent_{name}": column.ravel() for name, column in zip(_EVENT, events, strict=True)},
            "told_row": np.searchsorted(self.used, reported_row), "told_slot": reported_slot,
            "adaptive": np.array([self.method.kind, self.method.filter, *mine], np.int64),
        }  # fmt: skip

    def load(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Take over what `state` returned, for the same queries, added in the order of their rows."""
        kind, filter_kind, order, self.switches, self.switched, *marks, width = state["adaptive"].tolist()
        self.method, self.order = replace(self.method, kind=kind, filter=filter_kind), list(Order)[order]
        self.lost, self.block = Mark(*marks[:2]), Mark(*marks[2:])
        x, *rest = (state[f"recent_{name}"] for name in _EVENT)
        self.recent = [(x.reshape(len(rest[0]), width), *rest)] if len(rest[0]) else []
        self.reported = [(self.used[state["told_row"]], state["told_slot"])]
        self.watch.load(state)
        super().load(state)
