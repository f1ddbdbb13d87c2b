"""Queries that keep little and can always start from scratch, for a grid has every event of the windows.

Paper → code (Top-k/w):

- section 2, CPM/w and SNN: exhaustive indexing of window objects → `ExhaustiveBands`

Where no grid is given, it has cells of equal width over the range of the first events; those at the edges reach to
infinity. With the one score that queries of a monitor share, it has one dimension.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.topkw.bands import Bands, Events, TopKReports
from skyband.algorithms.topkw.event_kernels import KernelEvents
from skyband.algorithms.topkw.exhaustive_kernels import pass_all
from skyband.algorithms.topkw.query_grid import QueryGrid
from skyband.order import IntArray, SlotArray


class ExhaustiveBands(Bands):
    """Rows of the best k (CPM), or of k-skybands within a threshold (SNN), over a grid of all events.

    The grid has the events, and which queries watch its cells.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reported = np.zeros((0, 1), np.uint64)  # per held event, a bit for each query that it was reported to

    def _take(self, new: Events, moments: IntArray, time: IntArray, key: IntArray) -> TopKReports:
        kept, events = self._behind_held(new)
        if self.grid is None:
            self._lay_grid(QueryGrid.over(events.x[:, : self.dimensions], self.method.cells))
        reported = np.zeros((len(events.slot), self.watching.shape[1]), np.uint64)
        reported[:kept, : self.reported.shape[1]] = self.reported
        self.band, reports = pass_all(
            KernelEvents(*events, time[events.slot], key[events.slot]), kept, moments, self.functions(), self.queries(),
            self._settings(), self.band, self._index(), reported,
        )  # fmt: skip
        self.passed = int(moments[-1])
        inside = events.position > self.passed - int(self.size[self.used].max(initial=0))
        head = int(inside.argmax()) if inside.any() else len(inside)
        self.held, self.reported = events.at(slice(head, None)), reported[head:]
        self.band.slot[:] -= head
        return self._reports(reports, events.slot[reports["slot"]])

    def _lay_grid(self, grid: QueryGrid) -> None:
        """Take a grid, and let every query watch all of it."""
        self.grid = grid
        rows = len(self.k)
        self.bound, self.cell = np.zeros((rows, len(grid))), np.zeros((rows, len(grid)), np.int64)
        self.watching = np.zeros((len(grid), rows // 64 + 1), np.uint64)
        for row in self.used.tolist():
            self._watch_all(row)

    def remove(self, rows: Any) -> None:
        """Forget queries."""
        super().remove(rows)
        for row in rows:
            if row >> 6 < self.reported.shape[1]:
                self.reported[:, row >> 6] &= ~(np.uint64(1) << np.uint64(row & 63))

    def top(self, row: int) -> IntArray:
        """Return the slots of the best events of a query, best first."""
        return np.asarray(self.held.slot[super().top(row)])

    def kept(self) -> SlotArray:
        """Return the slots of all events of the windows."""
        return np.unique(self.held.slot).astype(np.int32)

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        self.held = self.held.moved(moved)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything but the queries as flat arrays, detached from the live ones."""
        grid = self.grid
        edges = np.empty(0) if grid is None else np.concatenate([grid.low, grid.high, [grid.cells]])
        bits = [(self.reported[:, row >> 6] >> np.uint64(row & 63)) & np.uint64(1) for row in self.used.tolist()]
        return {**super().state(), "grid": edges, "told": np.stack(bits).astype(bool).ravel()}

    def load(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Take over what `state` returned, for the same queries, added in the order of their rows."""
        if len(state["grid"]):
            low, high = state["grid"][:-1].reshape(2, -1)
            self._lay_grid(QueryGrid(low, high, int(state["grid"][-1])))
        super().load(state)
        bits = state["told"].reshape(len(self.used), -1)
        self.reported = np.zeros((bits.shape[1], self.watching.shape[1]), np.uint64)
        for row, reported in zip(self.used.tolist(), bits, strict=True):
            self.reported[reported, row >> 6] |= np.uint64(1) << np.uint64(row & 63)
