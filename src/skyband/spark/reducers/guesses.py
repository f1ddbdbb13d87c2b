"""What the next batch will be like: how far it reaches, how many events a pane gets, how high their scores go.

Learned from a thin sample of every batch. It only decides how much is read from Spark at first: whatever it
says is verified afterwards, so the answers never depend on it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import ceil, sqrt

import numpy as np

from skyband.order import FloatArray, IntArray
from skyband.windows import NEVER

EVERY = 512
"""One row in so many is in the sample."""
THIN = 8
"""By how much thinner the sample is where Spark chooses the best of each pane: it would be most of what comes."""
SMALL = 65_536
"""A batch of so many rows is taken as a whole: choosing among them would cost more."""
FEW = 16
"""So many rows of a sample must lie above a guess, or it is mere luck."""
MOST_SHARE = 0.5
"""A guess that lets more than this share of the events through is not worth it."""


def wanted(k: int) -> float:
    """Return how many events a guess aims at so that it rarely lets fewer than `k` through."""
    return k + 6 * sqrt(k) + 16


@dataclass(frozen=True)
class ScoreDistribution:
    """How the scores of events were spread, apart from their trend, and how many events there were."""

    residual: FloatArray  # merits of a sample, less the trend, ascending
    slope: float  # the trend, in merit per microsecond
    origin: int  # the time at which the trend is zero
    density: float  # events per microsecond

    @classmethod
    def fit(cls, time: IntArray, merit: FloatArray, span: int, every: int) -> ScoreDistribution:
        """Learn from a sample of the events of a span of time: of one in so many."""
        origin = int(time[0]) if len(time) else 0
        slope = _trend((time - origin).astype(np.float64), merit)
        with np.errstate(invalid="ignore"):
            residual = np.sort(merit - slope * (time - origin))
        return cls(residual, slope, origin, len(time) * every / max(span, 1))

    def guess(self, start: IntArray, end: IntArray, events: float) -> FloatArray:
        """Return, for intervals of time, the merit that about so many of their events reach."""
        known = len(self.residual)
        if known == 0:
            return np.full(len(start), -np.inf)
        expected = np.maximum(self.density * (end - start), 1e-9)
        share = np.maximum(events / expected, FEW / known)
        guess = np.full(len(start), -np.inf)
        for length in np.unique(end - start).tolist():
            chosen = (end - start == length) & (share < MOST_SHARE)
            merit = self._spread(length)
            place = np.minimum(np.ceil(share[chosen] * len(merit)).astype(np.int64), len(merit))
            guess[chosen] = merit[len(merit) - place] + self.slope * (start[chosen] - self.origin)
        return guess

    def reaching(self, start: IntArray, end: IntArray, merit: FloatArray) -> FloatArray:
        """Return, for intervals of time, about how many of their events reach a merit."""
        trend = self.slope * ((start + end) / 2 - self.origin)
        below = np.searchsorted(self.residual, merit - trend) / max(len(self.residual), 1)
        return self.density * (end - start) * (1 - below)

    def _spread(self, length: int) -> FloatArray:
        """Return how merits are spread over an interval of some length, less the trend up to its start, ascending."""
        if self.slope == 0.0:
            return self.residual
        thinned = self.residual[-1 :: -max(len(self.residual) // 256, 1)]
        moments = (np.arange(256) + 0.5) / 256
        return np.sort((thinned[:, None] + self.slope * length * moments).ravel())


def _trend(time: FloatArray, merit: FloatArray) -> float:
    """Return the slope of merits over time if there plainly is one, else 0."""
    finite = np.isfinite(merit)
    time, merit = time[finite], merit[finite]
    n = len(time)
    if n < 4 * FEW:
        return 0.0
    time = time - time.mean()
    merit = merit - merit.mean()
    spread = float(time @ time)
    if spread == 0.0:
        return 0.0
    slope = float(time @ merit) / spread
    rest = merit - slope * time
    error = sqrt(float(rest @ rest) / (n - 2) / spread)
    return slope if abs(slope) > 6 * error else 0.0


@dataclass
class BatchForecast:
    """How far batches reach beyond the one before; forgotten, and learned anew, when it proves wrong."""

    advances: deque[int] = field(default_factory=lambda: deque(maxlen=4))
    density: float = 0.0
    sure: bool = False

    def learn(self, before: int, newest: int, rows: int, right: bool) -> None:
        """Note how far a batch of about so many new rows reached, and whether the forecast was right."""
        if newest > before > NEVER:
            self.advances.append(newest - before)
            self.density = rows / (newest - before)
        self.sure = right and len(self.advances) > 0

    @property
    def rows(self) -> float:
        """About how many events the next batch will bring, as far as is known."""
        return float(np.median(self.advances)) * self.density if self.advances else 0.0

    def read_all_from(self, newest: int) -> int | None:
        """Return a time that the next batch will just pass, NEVER if it will be small; None if nothing is known."""
        if not self.sure:
            return None
        typical = int(np.median(self.advances))
        if self.rows <= SMALL:
            return NEVER
        wobble = max(abs(advance - typical) for advance in self.advances)
        slack = 2 * wobble + ceil(typical / 400)
        return newest + typical - slack if 2 * slack < typical else None
