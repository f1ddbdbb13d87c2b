"""Whether a stream comes in random order: what the probabilistic k-skyband takes for granted, judged block by block.

Paper → code (Top-k/w):

- section 4.1.3, future work: the time distribution is watched → `Watch.judge`

Every statistic is about ranks, so no distribution is assumed, and about both how large values are and how far from the
middle. Within a block of events: are neighbours alike, do stretches of 50 events differ? Between the blocks of a
window, by the ranks that their values would have in a block before them: do they differ, is there a trend, does the
last one stand out? In random order each is about a standard normal variable (the sum of squares by Wilson and
Hilferty's cube root), so the largest of m of them passes z with a probability of less than 2 m (1 - Φ(z)).

Each column is judged by itself: a change only of how columns go together is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.order import ALWAYS, FloatArray

BLOCK = 1_000  # events that are judged together
STRETCH = 50
FEWEST = 4  # blocks that are compared, where a window has no more
FALSE_ALARM = 1e-4  # how likely an alarm is, per block of a stream in random order
DOUBT = 1e-2  # what must not be in doubt before an order is called random
LEAST = float(np.finfo(np.float64).eps)  # variance: a column that does not vary deviates by nothing until it moves


class Order(Enum):
    """What is known of the order of a stream."""

    RANDOM = "random"
    CORRELATED = "correlated"
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """The statistic that deviates most: which, of which column and of what of it, and how far; how many there were."""

    test: int = 0
    column: int = 0
    spread: int = 0
    z: float = 0.0
    tests: int = 0

    def __str__(self) -> str:
        what = f"column {self.column}" + (", by distance from the middle" if self.spread else "")
        far, limit = f"z = {abs(self.z):.1f}", limit_for(FALSE_ALARM, max(self.tests, 1))
        return f"{_TESTS[self.test]} ({what}): {far}, alarm at {limit:.1f}"


_TESTS = (
    "neighbours are alike", "stretches differ within a block", "blocks differ", "there is a trend over blocks",
    "the last block stands out",
)  # fmt: skip


@lru_cache(maxsize=256)
def limit_for(chance: float, tests: int) -> float:
    """Return how far the largest of so many standard normal variables goes with a chance of less than this.

    Examples
    --------
    >>> round(limit_for(0.05, 1), 2), round(limit_for(1e-4, 10), 2)
    (1.96, 4.42)
    """
    return NormalDist().inv_cdf(1.0 - chance / (2 * tests))


class Watch:
    """Sees all events, and judges their order once per block.

    The stream is *calm* since the block after the first that raised no alarm, its yardstick: by the values of that one
    the later ones are compared, those of the longest window and at least four.
    """

    def __init__(self) -> None:
        self.seen: list[FloatArray] = []
        self.room = BLOCK
        self.finding = Finding()
        self._start_anew()

    def _start_anew(self) -> None:
        self.yardstick: FloatArray | None = None
        self.calm_since = ALWAYS  # on the windows' axis
        self.ends = np.empty(0, np.int64)  # of the blocks since then, and their means and variances
        self.means, self.variances = np.empty((0, 0)), np.empty((0, 0))

    @property
    def blocks(self) -> int:
        """How many blocks are compared."""
        return len(self.ends)

    def see(self, x: FloatArray) -> None:
        """Note events, a row each, no more than there is room for in the block."""
        self.seen.append(np.array(x, np.float64))
        self.room -= len(x)

    def judge(self, now: int, longest: int) -> Order:
        """Judge the block, which is full, at a position on the axis of windows that are so long at most; begin another.

        Random is an order that was calm for the longest window, and shows nothing doubtful now; correlated is one that
        raises an alarm. Anything else is not known yet.
        """
        x = np.concatenate(self.seen)
        self.seen, self.room = [], BLOCK
        by_size = np.argsort(x, axis=0)
        own = np.take_along_axis(x, by_size, axis=0)
        scores = np.empty((len(x), 2 * x.shape[1]))
        np.put_along_axis(scores, np.tile(by_size, 2), _scores(own, own), axis=0)
        stretches = scores.reshape(-1, STRETCH, scores.shape[1]).mean(axis=1)
        found = [_neighbours(scores), _differences(stretches, scores.var(axis=0, ddof=1) / STRETCH)]
        if self.yardstick is not None:
            self._compare(_scores(own, self.yardstick), now, longest)
            if self.blocks > 1:
                found += self._between()
        z = np.stack(found)
        test, place = np.unravel_index(int(np.abs(z).argmax()), z.shape)
        spread, column = divmod(int(place), x.shape[1])
        self.finding = Finding(int(test), column, spread, float(z[test, place]), z.size)
        far = abs(self.finding.z)
        if far > limit_for(FALSE_ALARM, z.size):
            self._start_anew()
            return Order.CORRELATED
        if self.yardstick is None:
            self.yardstick, self.calm_since = own, now
            return Order.UNKNOWN
        calm = now - self.calm_since >= longest and self.blocks > 1
        return Order.RANDOM if calm and far < limit_for(DOUBT, z.size) else Order.UNKNOWN

    def _compare(self, scores: FloatArray, now: int, longest: int) -> None:
        """Add a block, and forget those that no window reaches any more."""
        width = scores.shape[1]
        self.ends = np.append(self.ends, now)
        self.means = np.vstack([self.means.reshape(-1, width), scores.mean(axis=0)])
        self.variances = np.vstack([self.variances.reshape(-1, width), scores.var(axis=0, ddof=1)])
        first = min(int(np.searchsorted(self.ends, now - longest, side="right")), max(self.blocks - FEWEST, 0))
        self.ends, self.means, self.variances = self.ends[first:], self.means[first:], self.variances[first:]

    def _between(self) -> Iterator[FloatArray]:
        """Yield how far the means of the blocks differ, how far they have a trend, and how far the last stands out."""
        means, variance = self.means, self.variances.mean(axis=0) / BLOCK
        yield _differences(means, variance)
        at = np.arange(len(means)) - (len(means) - 1) / 2
        yield _standardised(at @ means, variance * (at @ at))
        yield _standardised(means[-1] - means[:-1].mean(axis=0), variance * len(means) / (len(means) - 1))

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as flat arrays."""
        seen = np.concatenate(self.seen) if self.seen else np.empty((0, 0))
        yardstick = np.empty((0, 0)) if self.yardstick is None else self.yardstick
        numbers = np.array([seen.shape[1], yardstick.shape[1], self.calm_since], np.int64)
        return {
            "watch_seen": seen.ravel(), "watch_yardstick": yardstick.ravel(), "watch_ends": self.ends,
            "watch_means": self.means.ravel(), "watch_variances": self.variances.ravel(), "watch_numbers": numbers,
            "watch_finding": np.array(self.finding, np.float64),
        }  # fmt: skip

    def load(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Take over what `state` returned."""
        width, columns, self.calm_since = state["watch_numbers"].tolist()
        self.seen = [state["watch_seen"].reshape(-1, width)] if width else []
        self.room = BLOCK - sum(map(len, self.seen))
        self.yardstick = state["watch_yardstick"].reshape(-1, columns) if columns else None
        self.ends = state["watch_ends"]
        both = (len(self.ends), 2 * columns)
        self.means, self.variances = (state[f"watch_{name}"].reshape(both) for name in ("means", "variances"))
        test, column, spread, z, tests = state["watch_finding"].tolist()
        self.finding = Finding(int(test), int(column), int(spread), z, int(tests))


def _scores(x: FloatArray, among: FloatArray) -> FloatArray:
    """Return the ranks of sorted values among others, from -1/2 to 1/2, then how far they are from the middle."""
    ranks = np.empty(x.shape)
    for i, column in enumerate(x.T):
        others = np.ascontiguousarray(among[:, i])
        ranks[:, i] = np.searchsorted(others, column) + np.searchsorted(others, column, side="right")
    ranks = ranks / (2 * len(among)) - 0.5
    return np.hstack([ranks, np.abs(ranks)])


def _neighbours(scores: FloatArray) -> FloatArray:
    """Return how far neighbours are alike: Wald and Wolfowitz' serial correlation, by its moments over all orders."""
    n = len(scores)
    u = scores - scores.mean(axis=0)
    two, four = np.einsum("ij,ij->j", u, u), np.einsum("ij,ij->j", u * u, u * u)
    product = np.einsum("ij,ij->j", u[1:], u[:-1]) + u[0] * u[-1]
    variance = (two**2 - four) / (n - 1) + (two**2 - 2 * four) / ((n - 1) * (n - 2)) - (two / (n - 1)) ** 2
    return _standardised(product + two / (n - 1), variance)


def _differences(means: FloatArray, variance: FloatArray) -> FloatArray:
    """Return how far means differ: as Kruskal and Wallis' sum of squares, made normal by a cube root.

    The variance is about that of the means in random order. That they differ too little does no harm.
    """
    freedom = len(means) - 1
    squares = ((means - means.mean(axis=0)) ** 2).sum(axis=0)
    cube, width = np.cbrt(squares / np.maximum(variance, LEAST) / freedom), 2 / (9 * freedom)
    return np.asarray(np.maximum((cube - (1 - width)) / np.sqrt(width), 0.0))


def _standardised(value: FloatArray, variance: FloatArray) -> FloatArray:
    """Divide by the standard deviation."""
    return np.asarray(value / np.sqrt(np.maximum(variance, LEAST)))
