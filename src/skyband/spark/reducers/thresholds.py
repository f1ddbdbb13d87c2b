"""Thresholds as data: what an event must reach in its interval of time, in a form that Spark looks up inside the scan.

Intervals become buckets of equal width, so that a row finds its threshold by one division. All numbers that change
from batch to batch sit in array constants: Spark hands those to its generated code by reference and compiles
nothing anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.algorithms.base import Thresholded
from skyband.engine.plans import RankingPlan
from skyband.order import BoolArray, FloatArray, IntArray
from skyband.spark.reducers.guesses import ScoreDistribution, wanted
from skyband.windows import ALWAYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_BUCKETS = 1 << 14
MOST_NUMBERS = 1 << 22
MOST_EVEN = 1 << 11
"""Up to so many buckets are laid out so that none has events of two intervals."""
NOTHING = np.inf
"""A threshold that only infinite merits reach, which no other threshold keeps out."""


@dataclass
class Thresholds:
    """What events must reach, by *interval* between neighbouring cuts; `GroupThresholds` has those of partitions.

    An interval is a pane, or, where it is `merged`, several. Within a pane an event cannot matter that K others of the
    same pane dominate. A merged interval is at most half as long as the shortest window: every window that holds a part
    of it holds it all, or all of the interval before, or all of the one behind: an event cannot matter that K others
    dominate in each of these three. That lets far fewer through than pane after pane would.

    `values` has, in one row, the merit that K events of each interval reach; `guessed` where that is not known but
    guessed.
    """

    cuts: IntArray
    merged: BoolArray
    values: FloatArray
    guessed: BoolArray

    @classmethod
    def of(
        cls,
        plan: RankingPlan,
        low: int,
        all_from: int,
        closed_to: int,
        scores: ScoreDistribution | None,
        slack: float,
    ) -> Thresholds | None:
        """Lay out the thresholds of a group's open panes before a batch; None where every event matters.

        The batch will reach from `low` to `all_from`; after it, all windows up to `closed_to` will be answered. Merged
        intervals end before: a query that comes later finds what it would have found without them. Guesses are made of
        `scores` and `slack`.
        """
        if plan.thresholded is None:
            return None
        cuts = plan.thresholded.pane_edges(low, all_from)
        cuts = cuts[: np.searchsorted(cuts, all_from) + 1]
        merged = np.zeros(max(len(cuts) - 1, 0), bool)
        if scores is None or scores.slope == 0.0:  # else merged intervals would be guessed too low
            cuts, merged = _merge(cuts, low, closed_to, plan.shortest // 2)
        starts, ends = cuts[:-1], np.minimum(cuts[1:], all_from)
        values = np.full((1, len(starts)), -np.inf)
        if scores is not None:
            values[0] = scores.guess(starts, ends, slack * wanted(plan.k))
        guessed = values > -np.inf
        place, _, merit = thresholded(plan).kth_best(cuts)
        values[0, place], guessed[0, place] = merit, False
        return cls(cuts, merged, values, guessed)

    @property
    def guesses(self) -> int:
        """In how many intervals, group by group, the threshold is a guess."""
        return int(np.count_nonzero(self.guessed))

    @property
    def empty(self) -> bool:
        """Whether every event reaches these thresholds."""
        return not bool((self.values > -np.inf).any())

    @property
    def known(self) -> int:
        """How many groups there are, as far as is known."""
        return 1

    def missed(self, plan: RankingPlan, newest: int) -> BoolArray:
        """Return where events may be missing: fewer than K have reached a guess, here or, if merged, next to here.

        The plan has taken in what was read, and the batch has no events after `newest`.
        """
        if not self.guesses:
            return self.guessed
        failed = self.guessed & ~(self._held(plan) >= self.values)
        missed: BoolArray = failed | (self.merged & _beside(failed, np.logical_or, False))
        return missed & (self.cuts[:-1] <= newest)

    def _held(self, plan: RankingPlan) -> FloatArray:
        """Return the merit of the K-th best event that each interval now holds, minus infinity where it holds fewer."""
        place, _, merit = thresholded(plan).kth_best(self.cuts)
        held = np.full(self.values.shape, -np.inf)
        held[0, place] = merit
        return held

    def expected(self, scores: ScoreDistribution | None, low: int, high: int) -> float:
        """Return about how many events reach these thresholds from `low` to `high`, as their scores are spread."""
        start, end = np.clip(self.cuts[:-1], low, high), np.clip(self.cuts[1:], low, high)
        return 0.0 if scores is None else float(scores.reaching(start, end, self._limits()[0]).sum())

    def extent(self, intervals: BoolArray) -> tuple[int, int]:
        """Return where the first of some intervals begins and the last one ends."""
        places = np.flatnonzero(intervals.any(axis=0))
        return int(self.cuts[places[0]]), int(self.cuts[places[-1] + 1])

    def lie_in(self, intervals: BoolArray, time: IntArray) -> BoolArray:
        """Return which times lie in some intervals, of whatever group."""
        chosen = np.concatenate([[False], intervals.any(axis=0), [False]])
        return chosen[np.searchsorted(self.cuts, time, side="right")]

    def lowered(
        self, plan: RankingPlan, intervals: BoolArray, scores: ScoreDistribution | None, newest: int
    ) -> Thresholds:
        """Return lower thresholds for the intervals that missed events; the others let nothing more through.

        What begins after `newest` got nothing from the batch: no interval before it can rely on it.
        """
        values = np.full(self.values.shape, NOTHING)
        values[intervals] = -np.inf
        if scores is not None:
            guess = scores.guess(self.cuts[:-1], self.cuts[1:], 2 * wanted(plan.k))
            values[0] = np.where(intervals[0] & (guess < self.values[0]), guess, values[0])
        held = self._held(plan)
        values[intervals] = np.maximum(values[intervals], held[intervals])
        values[:, self.cuts[:-1] > newest] = held[:, self.cuts[:-1] > newest]
        return Thresholds(self.cuts, self.merged, values, intervals & (values > held))

    def note(self, plan: RankingPlan, newest: int, closed_to: int) -> None:
        """Record in a group which events were filtered; all windows up to `closed_to` are answered after the batch."""
        behind, limits = np.append(self.cuts[2:], ALWAYS), self._limits().max(axis=0)
        filtered = limits > -np.inf  # where nothing lies below the threshold, nothing was held back
        for place in np.flatnonzero(self.merged & filtered & (self.cuts[:-1] <= newest)).tolist():
            low, high = int(self.cuts[place]), min(int(self.cuts[place + 1]), newest + 1)
            depth = plan.k if behind[place] <= closed_to else 0
            thresholded(plan).record_filtered(low, high, depth, float(limits[place]))

    def apply(
        self,
        df: DataFrame,
        time: str,
        partition: str | None,  # noqa: ARG002 - of those that have some
        name: str,  # noqa: ARG002
        low: int,
    ) -> tuple[DataFrame, str]:
        """Return the DataFrame, joined where needed, and the SQL text of an event's threshold.

        Before `low` and after the last pane there is no threshold: the text gives minus infinity there.
        """
        place, ladders = self._ladders(time, low)
        return df, f"element_at({numbers(ladders[0].tolist(), 'double')}, {place})"

    def _limits(self) -> FloatArray:
        """Return what an event must reach in each interval: if that is merged, the least of it and its neighbours."""
        limits: FloatArray = np.minimum(self.values, _beside(self.values, np.minimum, np.inf))
        return np.where(self.merged, limits, self.values)

    def _ladders(self, time: str, low: int) -> tuple[str, FloatArray]:
        """Return, as SQL, which bucket an event is in, counted from 1, and the thresholds of all buckets.

        The first and the last bucket of each row stand for all times before and after the panes.
        """
        cuts = self.cuts
        if len(cuts) < 2:
            return "1", np.full((len(self.values), 2), -np.inf)
        begin, span = int(cuts[0]), int(cuts[-1] - cuts[0])
        most = max(1, min(MOST_BUCKETS, MOST_NUMBERS // len(self.values)))
        even = int(np.gcd.reduce(np.diff(cuts)))  # as the hours of days that are not equally long
        width = max(even if span // even <= MOST_EVEN else int(np.diff(cuts).min()), -(-span // most))
        buckets = -(-span // width)
        edges = begin + width * np.arange(buckets + 1)
        first = np.searchsorted(cuts, edges[:-1], side="right") - 1
        last = np.searchsorted(cuts, np.minimum(edges[1:], cuts[-1]) - 1, side="right") - 1
        limits = self._limits()  # a bucket must let through what any of its intervals lets through
        ladder = np.minimum(np.minimum.reduceat(limits, first, axis=1), limits[:, last])
        ladder[:, edges[:-1] < low] = -np.inf
        # Lengths in steps of powers of two keep the generated code the same while the number of panes varies.
        room = 1 << max(6, (buckets + 2).bit_length())
        ladders = np.full((len(ladder), room), -np.inf)
        ladders[:, 1 : buckets + 1] = ladder
        bucket = f"({time} - {constant(begin - width, time)}) div {width}L"
        return f"cast(least(greatest({bucket}, 0L), {room - 1}L) AS INT) + 1", ladders


def thresholded(plan: RankingPlan) -> Thresholded:
    """Return the interface of a ranking that has thresholds."""
    found = plan.thresholded
    assert found is not None, "a ranking without thresholds has some"
    return found


def _beside(values: Any, either: np.ufunc, none: float) -> Any:
    """Return, place by place, what either neighbour has; `none` stands beside the first and the last."""
    column = np.full((len(values), 1), none, values.dtype)
    return either(np.hstack([column, values[:, :-1]]), np.hstack([values[:, 1:], column]))


def _merge(cuts: IntArray, low: int, high: int, most: int) -> tuple[IntArray, BoolArray]:
    """Leave out cuts between `low` and `high`, so that intervals become up to `most` long; return which are merged.

    Towards either end they get shorter and shorter, since a merged interval shares the threshold of its neighbours.

    Examples
    --------
    >>> cuts, merged = _merge(np.arange(0, 301, 10), 20, 260, 60)
    >>> cuts.tolist()
    [0, 10, 20, 30, 40, 60, 100, 160, 210, 230, 240, 250, 260, 270, 280, 290, 300]
    >>> np.diff(cuts)[merged].tolist()
    [20, 40, 60, 50, 20]
    """
    first, last = np.searchsorted(cuts, low), np.searchsorted(cuts, high, side="right") - 1
    if last - first < 4 or np.diff(cuts[max(first - 1, 0) : last + 2]).max() > most:
        return cuts, np.zeros(max(len(cuts) - 1, 0), bool)
    begin, end = cuts[first], cuts[last]
    kept = [*range(first), first]
    while kept[-1] < last:
        here = cuts[kept[-1]]
        length = min(most, here - begin, (end - here) // 2)
        kept.append(max(int(np.searchsorted(cuts, here + length, side="right")) - 1, kept[-1] + 1))
    kept += range(last + 1, len(cuts))
    return cuts[kept], np.diff(kept) > 1


def constant(number: int, time: str) -> str:
    """Return a whole number as SQL that Spark does not write into its generated code, which would change with it.

    The place in the array looks as if it depended on the time, so that Spark does not look the number up too early.
    """
    return f"element_at({numbers([number], 'bigint')}, 1 + cast(pmod({time}, 1L) AS INT))"


def numbers(numbers: Sequence[float], kind: str) -> str:
    """Return an array constant; a text that Spark splits once is far cheaper than a literal for each number."""
    text = ",".join(map(repr, numbers)).replace("inf", "Infinity")
    return f"cast(split('{text}', ',') AS array<{kind}>)"
