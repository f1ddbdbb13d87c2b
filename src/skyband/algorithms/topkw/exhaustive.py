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

from skyband.algorithms.topkw.band_kernels import NOBODY
from skyband.algorithms.topkw.bands import Bands, Method, TopKReports
from skyband.algorithms.topkw.event_kernels import KernelEvents
from skyband.algorithms.topkw.exhaustive_kernels import CPM, SNN, pass_all
from skyband.algorithms.topkw.query_grid import QueryGrid
from skyband.order import FloatArray, IntArray, SlotArray

__all__ = ["CPM", "SNN", "ExhaustiveBands"]

CELLS = 10  # in each dimension, where no grid is given


class ExhaustiveBands(Bands):
    """Rows of the best k (CPM), or of k-skybands within a threshold (SNN), over a grid of all events.

    Parameters
    ----------
    method
        Which of the two.
    dimensions
        How many attributes the grid, and distances and sums, are about; further columns are scores by themselves.
    grid
        Where events lie, and which queries watch them; None makes one over the range of the first events.
    changes
        Whether reports say also who leaves and who returns.
    timed
        As for `Bands`.
    """

    def __init__(
        self, method: Method, dimensions: int, grid: QueryGrid | None = None, changes: bool = False,
        timed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(method, dimensions, grid, changes, timed)
        self.reported = np.zeros((0, 1), np.uint64)  # per held event, a bit for each query that it was reported to

    def process(
        self, x: FloatArray, position: IntArray, slots: SlotArray | IntArray, time: IntArray, key: IntArray,
        passed: int = -NOBODY, moments: IntArray | None = None,
    ) -> TopKReports:  # fmt: skip
        """Take in events, in order of arrival, then let time pass; return what became of the top k of each query."""
        if self.grid is None:
            known = (self.held[0], x) if len(self.held[1]) else (x,)
            seen = np.concatenate([some[:, : self.dimensions] for some in known])
            self._lay_grid(QueryGrid.over(seen, CELLS))
        moments = self._moments(position if moments is None else moments, passed)
        kept, rows = self._behind_held(x, position, slots)
        reported = np.zeros((len(rows[1]), self.watching.shape[1]), np.uint64)
        reported[:kept, : self.reported.shape[1]] = self.reported
        slot = rows[2]
        self.band, reports = pass_all(
            KernelEvents._make([*rows, time[slot], key[slot]]), kept, moments, self.functions(), self.queries(),
            self.method.kind, self.band, self._index(), self.changes, self.timed, reported,
        )  # fmt: skip
        self.passed = int(moments[-1])
        inside = rows[1] > self.passed - int(self.size[self.used].max(initial=0))
        head = int(inside.argmax()) if inside.any() else len(inside)
        self.held, self.reported = tuple(column[head:].copy() for column in rows), reported[head:].copy()
        self.band.slot[:] -= head
        return self._reports(reports, slot[reports["slot"]])

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
        return np.asarray(self.held[2][super().top(row)])

    def kept(self) -> SlotArray:
        """Return the slots of all events of the windows."""
        return np.unique(self.held[2]).astype(np.int32)

    def references(self) -> int:
        """Return how many places in rows are in use."""
        return int(self.band.size.sum())

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        x, position, slot, number = self.held
        self.held = (x, position, moved[slot].astype(np.int64), number)

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
