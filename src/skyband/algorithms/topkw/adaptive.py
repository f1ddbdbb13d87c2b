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
from skyband.algorithms.topkw.bands import FIRST_LIMIT, NONE, PROBABLE, RELAXED, Bands, Events, TopKReports
from skyband.algorithms.topkw.event_kernels import find_costs
from skyband.algorithms.topkw.random_order import BLOCK, Order, Watch
from skyband.order import BoolArray, IntArray, SlotArray

Columns = tuple[npt.NDArray[Any], ...]
NO_ROWS = np.empty(0, np.int64)


class Mark(NamedTuple):
    """A place in the stream: how many events came before it, and up to where time had passed."""

    number: int
    position: int


class AdaptiveBands(Bands):
    """Rows of k-skybands of the kind that the order of the stream allows.

    Of the method, the kinds of bands and filters are not used.
    """

    def __post_init__(self) -> None:
        self.method = replace(self.method, kind=RELAXED, filter=PROBABLE)
        super().__post_init__()
        self.watch = Watch()
        self.order = Order.UNKNOWN
        self.switches = self.switched = 0  # how often the method was changed, and at which event for the last time
        self.lost = Mark(0, -NOBODY)  # nothing since is lost, even with PA
        self.block = self.lost  # where the block that is being watched began
        self.recent: list[Events] = []  # with PA, the events since `lost`
        self.reported: list[tuple[IntArray, IntArray]] = []  # rows and slots that were reported as entered since then

    def method_in_use(self) -> str:
        """Say what is used, since when and why."""
        since = f"since event {self.switched:,} (change {self.switches:,})" if self.switches else "from the start"
        return f"{self.using} {since}: {self.why}"

    @property
    def using(self) -> str:
        """The method in use, "pa" or "rapf"."""
        return "pa" if self.method.kind == PROBABLE else "rapf"

    @property
    def why(self) -> str:
        """What was seen of the order of the stream when it was judged last, in words."""
        if self.watch.finding.tests == 0:
            return f"fewer than {BLOCK:,} events came, too few to judge their order"
        if self.order is Order.CORRELATED:
            return f"the order of the last {BLOCK:,} events is not random: {self.watch.finding}"
        calm = f"{self.watch.blocks:,} blocks of {BLOCK:,} events were compared, nothing is alarming"
        short = "" if self.using == "pa" else "; PA needs a whole window of them in random order"
        return f"{calm}, at most {self.watch.finding}{short}"

    def exactness(self, rows: IntArray, moments: IntArray) -> BoolArray:
        """Tell whether the top k of queries is sure to be exact at these moments, with what is used now."""
        seen = (self.since[rows] >= self.lost.number) | (moments - self.size[rows] >= self.lost.position)
        return np.asarray(seen & (self.using == "rapf"))

    # Events.

    def _take(self, new: Events, moments: IntArray, time: IntArray, key: IntArray) -> TopKReports:
        found, begin, n = [], 0, len(new.slot)
        while begin < n:
            end = min(begin + self.watch.room, n)
            until = np.append(moments[begin:end], moments[end - 1])
            found += [each.after(begin) for each in self._take_piece(new.at(slice(begin, end)), until, time, key)]
            begin = end
        if moments[-1] > self.passed or not found:
            found.append(super()._take(new.at(slice(n, n)), moments[-1:], time, key))
        return TopKReports.joined(found)

    def _take_piece(self, new: Events, moments: IntArray, time: IntArray, key: IntArray) -> Iterator[TopKReports]:
        """Take in events that the block has room for; judge their order, and act on it, when it is full."""
        reports = super()._take(new, moments, time, key)
        yield reports
        if self.using == "pa":
            self.recent.append(Events.joined([new]))
            entered = reports.kind == ENTERED
            self.reported.append((reports.row[entered], reports.slot[entered]))
        self.watch.see(new.x[:, : max(self.dimensions, int(self.column[self.used].max(initial=0)) + 1)])  # no gates
        if self.watch.room:
            return
        self.order = self.watch.judge(self.passed, int(self.size[self.used].max(initial=0)))
        if self.using == "rapf" and self.order is Order.RANDOM:
            yield self._switch(PROBABLE, NONE, self.held, time, key, len(new.slot) - 1)
            self.lost = Mark(self.numbers, self.passed)
        elif self.using == "pa" and self.order is Order.CORRELATED:
            yield self._switch(RELAXED, PROBABLE, self._events(), time, key, len(new.slot) - 1)
            self.recent, self.reported = [], []
        elif self.using == "pa":
            self.lost = self.block
            self._forget_before(self.lost.number)
        self.block = Mark(self.numbers, self.passed)

    # The change of methods.

    def _switch(
        self, kind: int, filter_kind: int, events: Events, time: IntArray, key: IntArray, at: int
    ) -> TopKReports:
        """Change the method: rows take in the events that they do not have, and lose what has no future."""
        self.method = replace(self.method, kind=kind, filter=filter_kind)
        self.switches, self.switched = self.switches + 1, self.numbers
        reported_row, reported_slot = self._known()
        bands: list[Columns] = []
        found: list[Columns] = [(NO_ROWS, NO_ROWS, NO_ROWS, np.empty(0))]
        for row in self.used.tolist():
            band = self._merged(row, events, reported_slot[reported_row == row], time, key)
            found.append(self._announced(row, band))
            bands.append(self._fitting(row, band))
        self._load_rows(bands)
        rows, slots, happened, costs = map(np.concatenate, zip(*found, strict=True))
        moment = np.full(len(rows), self.passed)
        exact = self.exactness(rows, moment)
        return TopKReports(rows, slots, happened, np.full(len(rows), at), moment, self.sign[rows] * costs, exact)

    def _merged(self, row: int, events: Events, reported: IntArray, time: IntArray, key: IntArray) -> Columns:
        """Return a row, best first, with the events of its window that it does not have, without those that left."""
        x, position, slot, number = events
        cost = np.empty(len(slot))
        find_costs(*self.functions(), row, x, 0, len(slot), cost)
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
        rows, k = self.used, self.k[self.used]
        size = np.array([len(cost) for cost, *_ in bands], np.int64)
        nothing = (np.empty(0), NO_ROWS, NO_ROWS, NO_ROWS)
        band = self._band_of([np.concatenate(column) for column in zip(nothing, *bands, strict=True)], size)
        probable = self.using == "pa"
        for row, (cost, position, *_) in zip(rows.tolist(), bands, strict=True):
            leaves = position if probable else position[: self.k[row]]
            if len(leaves):
                band.next_expiry[row] = leaves.min() + self.size[row]
            if probable and len(cost) >= self.k[row] + self.most[row]:
                band.threshold[row] = cost[-1]
            self._watch_all(row)  # until its threshold moves
        rest = np.ceil((1 + self.method.pruning) * np.maximum(size - k, 0)).astype(np.int64)
        band.limit[rows] = np.maximum(rest, FIRST_LIMIT * k)
        self.band = band._replace(heap=self._heap(band.next_expiry))
        self.filters, self.held = self._new_band(len(self.k)), Events.none()
        self.filters.limit[rows] = FIRST_LIMIT * k

    # What is kept.

    def _events(self) -> Events:
        """Return the events that PA may have turned away and that can be taken back."""
        return Events.joined([Events.none(), *self.recent])

    def _known(self) -> tuple[IntArray, IntArray]:
        """Return the rows and the slots of events that were reported since there is something to take back."""
        row, slot = map(np.concatenate, zip(*self.reported, (NO_ROWS, NO_ROWS), strict=True))
        there = np.isin(row, self.used)
        return row[there], slot[there]

    def _forget_before(self, number: int) -> None:
        """Give up taking back the events before a number."""
        events = self._events()
        self.recent = [events.at(events.number >= number)]
        row, slot = self._known()
        there = np.isin(slot, self.recent[0].slot)
        self.reported = [(row[there], slot[there])]

    def kept(self) -> SlotArray:
        """Return the slots that any query, filter or buffer refers to."""
        return np.union1d(super().kept(), self._events().slot).astype(np.int32)

    def references(self) -> int:
        """Return how many places in bands and filters, and of events that can be taken back, are in use."""
        return super().references() + sum(len(events.slot) for events in self.recent)

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        super().compact(moved)
        self.recent = [events.moved(moved) for events in self.recent]
        self.reported = [(row, moved[slot].astype(np.int64)) for row, slot in self.reported]
        self.reported = [(row[slot >= 0], slot[slot >= 0]) for row, slot in self.reported]

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything but the queries as flat arrays, detached from the live ones."""
        events = self._events()
        reported_row, reported_slot = self._known()
        order, marks = list(Order).index(self.order), (*self.lost, *self.block)
        mine = (self.method.kind, self.method.filter, order, self.switches, self.switched, *marks, events.x.shape[1])
        return {
            **super().state(), **self.watch.state(), **events.state("recent"), "adaptive": np.array(mine, np.int64),
            "told_row": np.searchsorted(self.used, reported_row), "told_slot": reported_slot,
        }  # fmt: skip

    def load(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Take over what `state` returned, for the same queries, added in the order of their rows."""
        kind, filter_kind, order, self.switches, self.switched, *marks, _ = state["adaptive"].tolist()
        self.method, self.order = replace(self.method, kind=kind, filter=filter_kind), list(Order)[order]
        self.lost, self.block = Mark(*marks[:2]), Mark(*marks[2:])
        self.recent = [Events.load(state, "recent")]
        self.reported = [(self.used[state["told_row"]], state["told_slot"])]
        self.watch.load(state)
        super().load(state)
