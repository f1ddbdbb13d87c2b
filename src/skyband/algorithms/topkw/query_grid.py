"""An index of queries: a regular grid over the attributes, in which each query watches the cells that interest it.

Paper → code (Top-k/w):

- section 6.1, regular grid → `QueryGrid`
- section 6.1, cells of interest → `QueryGrid.cells_of`

For each query all cells are sorted by the best cost that anything in them can have. With a threshold, the query
watches the first of them; as the threshold moves, so does the end of what it watches. Cells at the edges reach to
infinity: where the data leave the known range, the index only gets slower.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skyband.algorithms.topkw.event_kernels import ATTRIBUTE, EUCLID, SUM
from skyband.order import FloatArray, IntArray

MOST_CELLS = 20_000
MOST = 1e150


@dataclass(frozen=True)
class QueryGrid:
    """Equal cells between the low and the high edge of each attribute.

    Examples
    --------
    >>> grid = QueryGrid(np.zeros(2), np.ones(2), cells=10)
    >>> len(grid), grid.boxes()[0][:, 0].tolist()
    (100, [-inf, -inf])
    """

    low: FloatArray
    high: FloatArray
    cells: int

    @classmethod
    def over(cls, values: npt.NDArray[np.float64], cells: int) -> QueryGrid:
        """Return a grid over the range of values, one column per attribute; never with too many cells."""
        finite = np.where(np.isfinite(values), values, np.nan)
        with np.errstate(all="ignore"):
            low = np.nanmin(finite, axis=0, initial=np.inf)
            high = np.nanmax(finite, axis=0, initial=-np.inf)
        low, high = np.where(low <= high, low, 0.0), np.where(low <= high, high, 1.0)
        low, high = np.clip(low, -MOST, MOST), np.clip(high, -MOST, MOST)  # so that widths are finite
        while cells > 1 and cells ** values.shape[1] > MOST_CELLS:
            cells -= 1
        wide = (high - low) / cells > np.spacing(np.abs(low)) + np.spacing(np.abs(high))
        return cls(low, np.where(wide, high, low + np.maximum(np.abs(low), 1.0)), cells)

    def __len__(self) -> int:
        return int(self.cells ** len(self.low))

    @property
    def step(self) -> FloatArray:
        """The width of a cell in each dimension."""
        return (self.high - self.low) / self.cells

    def boxes(self) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper corner of each cell, one column per cell.

        They overlap a little: which cell an event at an edge is put into depends on rounding.
        """
        edges = self.low[:, None] + np.arange(self.cells + 1) * self.step[:, None]
        edges[:, 0], edges[:, -1] = -np.inf, np.inf
        at = np.indices((self.cells,) * len(self.low)).reshape(len(self.low), len(self))
        each = np.arange(len(self.low))[:, None]
        spare = 1e-9 * self.step[:, None]
        return edges[each, at] - spare, edges[each, at + 1] + spare

    def cells_of(self, family: int, sign: float, point: FloatArray, weight: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return the cells, those with the best possible cost first, and that cost.

        Examples
        --------
        >>> grid = QueryGrid(np.zeros(1), np.ones(1), cells=4)
        >>> best, cells = grid.cells_of(EUCLID, 1.0, np.array([0.6]), np.ones(1))
        >>> cells.tolist(), best.round(3).tolist()
        ([2, 1, 3, 0], [0.0, 0.1, 0.15, 0.35])
        """
        low, high = self.boxes()
        if family not in (SUM, EUCLID, ATTRIBUTE):  # nothing is known of its cells
            cost = np.full(len(self), -np.inf)
        elif family == SUM:
            turned = sign * weight[:, None]
            with np.errstate(invalid="ignore"):  # a weight of 0 makes nothing of an infinite edge
                best = np.nan_to_num(np.minimum(turned * low, turned * high), nan=0.0, posinf=np.inf, neginf=-np.inf)
            cost = best.sum(axis=0)
        else:
            near = np.maximum(np.maximum(low - point[:, None], point[:, None] - high), 0.0)
            far = np.maximum(np.abs(low - point[:, None]), np.abs(high - point[:, None]))
            away = near if sign > 0 else far
            with np.errstate(invalid="ignore"):
                shares = weight[:, None] * (away**2 if family == EUCLID else away)
            shares = np.where(weight[:, None] == 0, 0.0, shares)
            cost = sign * (np.sqrt(shares.sum(axis=0)) if family == EUCLID else shares.max(axis=0))
        order = np.argsort(cost, kind="stable")
        return cost[order], order.astype(np.int64)
