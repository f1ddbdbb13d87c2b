"""GAIN: the refreshes that are expected to improve the answers most come first.

An object gains by a refresh if its value has changed (likelier the older it is, by the change rate learnt from earlier
refreshes), and if the new value (as earlier changes suggest: `Candidates.possible_scores`) puts it elsewhere in the
answer. How much depends on the ranks that it could cross, and counts for every coming answer that holds the object
while its value probably lasts.

Two things are counted. *Order*: a rank is worth half of the one above it, as in nDCG; an object shown at another rank
than its own is worth the difference less. *Set*: an object that leaves makes room for the next one, and one that
enters pushes the last one out; what that is worth depends on how likely each of them belongs there. Where budget is
scarce one refresh serves the one or the other, so a weight says how much of each is wanted. For a filter, only the
side of the threshold counts.

Notes
-----
Not from a paper. With ``P(changed) = 1 - exp(-age / interval)``, and values that are kept from answer to answer with
``q = exp(-slide / interval)``, the gain of a refresh is ``P(changed) * (O + members / k * S) * (1 + q + q² +
...)``, a term for each answer that holds the object. With `r` better ones expected, a rank is worth ``w = 2^-r``;
``O = E|w(new) - w(known)|``; ``S`` is how much likelier it is, by E over new values, that the object shown
after the refresh belongs to the best k than the one shown before. All ranks are expected ones: the score of every other
object is as uncertain as its own age and rate say. Each refresh is judged as if it were the only one. Cost: sorting 17
numbers per object.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from skyband.order import FloatArray, IntArray
from skyband.remote.policies.base import Candidates, Policy, wsj

_STEEP = 1.702  # the logistic curve that is nearest to the normal distribution
_BLUR = 0.05  # of a border, in ranks squared, where every score is known


def gaining(name: str, members: float) -> Policy:
    """Return a policy that refreshes first what is expected to gain most.

    The first rank is worth 1, the whole set is worth `members`: more of it serves precision, less serves nDCG.
    """
    gain = partial(expected_gain, members)
    return Policy(name, wsj, lambda candidates, *_: np.argsort(-gain(candidates), kind="stable"), gain)


def expected_gain(members: float, candidates: Candidates) -> FloatArray:
    """Return what a refresh of each would improve, over all coming answers that it serves."""
    if not len(candidates):
        return np.empty(0)
    stale = 1.0 - _lasting(candidates, np.maximum(candidates.now - candidates.refreshed.astype(np.float64), 0.0))
    if candidates.threshold is None:
        ranking = _Ranking(candidates, stale)
        once = ranking.order() + members / candidates.k * ranking.members()
    else:
        above = candidates.possible_scores > candidates.threshold
        once = np.where(candidates.value > candidates.threshold, ~above.T, above.T).mean(axis=0)
    gain: FloatArray = stale * once * _served(candidates)
    return gain


def _lasting(candidates: Candidates, time: FloatArray | float) -> FloatArray:
    """Return how likely each value lasts for a time."""
    interval = np.maximum(candidates.interval, 1).astype(np.float64)  # 0: nothing is known of it
    return np.where(np.isnan(candidates.value), 0.0, np.exp(-time / interval))


def _served(candidates: Candidates) -> FloatArray:
    """Return how many answers a refresh serves: this one, and those that follow while object and value last."""
    more = np.maximum(-(-(candidates.time + candidates.size - candidates.now) // candidates.slide) - 1, 0)
    kept = np.exp(-candidates.slide / np.maximum(candidates.interval, 1).astype(np.float64))
    endless = kept > 1.0 - 1e-9
    series = (1.0 - kept ** (more + 1.0)) / np.where(endless, 1.0, 1.0 - kept)
    return np.where(endless, more + 1.0, series)


def _rising(scores: FloatArray) -> IntArray:
    """Return the places of scores in rising order, equal ones in theirs: faster than a stable sort."""
    order = np.argsort(scores)
    equal = scores[order][1:] == scores[order][:-1]
    if equal.any():
        tied = np.append(False, equal) | np.append(equal, False)
        run = np.cumsum(np.append(True, ~equal))[tied]
        order[tied] = order[tied][np.lexsort((order[tied], run))]
    return order


def _runs(rising: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return which sorted scores equal a neighbour, and of each of them where its run begins and ends."""
    begins = np.append(True, rising[1:] != rising[:-1])
    tied = np.flatnonzero(~begins | ~np.append(begins[1:], True))
    borders = np.append(np.flatnonzero(begins), len(rising))
    run = np.searchsorted(borders, tied, "right")
    return tied, borders[run - 1], borders[run]


class _Ranking:
    """What is expected of the ranks: columns are the score that is known, then the possible ones, rising."""

    def __init__(self, candidates: Candidates, stale: FloatArray) -> None:
        sign = -1.0 if candidates.ascending else 1.0
        known = np.where(np.isnan(candidates.score), -np.inf, sign * candidates.score)
        self.k, self.stale = candidates.k, stale
        self.known, self.possible = known[:, None], np.sort(np.nan_to_num(sign * candidates.possible_scores), axis=1)
        self.scores = np.column_stack([self.known, self.possible])
        flat = self.scores.ravel()
        self._rising = _rising(flat)
        self._tied, self._from, self._to = _runs(flat[self._rising])
        fresh = 1.0 - stale[:, None]
        weight = np.repeat(stale[:, None] / self.possible.shape[1], self.possible.shape[1], axis=1)
        nothing = np.zeros_like(fresh), np.zeros_like(weight)
        # How many others are better, of those that have not changed, and of those that have.
        self.sure = self._above(np.hstack([fresh, nothing[1]])) - self._own(self.known, fresh)
        self.unsure = self._above(np.hstack([nothing[0], weight])) - self._own(self.possible, weight)

    def _above(self, weight: FloatArray) -> FloatArray:
        """Return the weight of all scores above each score; equal ones count half."""
        sums = np.append(0.0, np.cumsum(weight.ravel()[self._rising]))
        up_to = (sums[1:] + sums[:-1]) / 2
        up_to[self._tied] = (sums[self._to] + sums[self._from]) / 2
        above = np.empty(len(up_to))
        above[self._rising] = sums[-1] - up_to
        return above.reshape(self.scores.shape)

    def _known_above(self) -> IntArray:
        """Return how many known scores are above each possible one."""
        step = self.scores.shape[1]
        counts = np.cumsum(self._rising % step == 0)
        counts[self._tied] = counts[self._to - 1]
        up_to = np.empty_like(counts)
        up_to[self._rising] = counts
        return len(self.known) - up_to.reshape(self.scores.shape)[:, 1:]

    def _own(self, of: FloatArray, weight: FloatArray) -> FloatArray:
        """Return what `_above` counts of the object's own scores."""
        over_known = ((of > self.known) + 0.5 * (of == self.known)) * weight
        if of is self.known:
            beside = ((of > self.possible) + 0.5 * (of == self.possible)) * weight
        else:
            beside = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1] - weight / 2  # it is sorted
        return np.column_stack([over_known.sum(axis=1), beside])

    def order(self) -> FloatArray:
        """Return how far the worth of each rank is off in the next answer, if the value has changed."""
        worth = np.exp(-np.log(2.0) * self.sure - 0.5 * self.unsure)  # half for each that is better; half of those
        difference: FloatArray = np.abs(worth[:, 1:] - worth[:, :1]).mean(axis=1)
        return difference

    def members(self) -> FloatArray:
        """Return how many more of the next answer belong there after a refresh, if the value has changed."""
        spread = self.unsure * (1.0 - np.minimum(self.unsure / max(self.stale.sum(), 1e-9), 1.0))
        border = (self.k - 0.5 - self.sure - self.unsure) / np.sqrt(np.maximum(spread, 0.0) + _BLUR)
        belongs = 1.0 / (1.0 + np.exp(np.clip(-_STEEP * border, -50.0, 50.0)))
        likely = (1.0 - self.stale) * belongs[:, 0] + self.stale * belongs[:, 1:].mean(axis=1)
        next_one = likely[self.k] if len(likely) > self.k else 0.0
        last_one = likely[self.k - 1] if len(likely) >= self.k else 0.0
        rank = np.arange(len(likely))[:, None]  # rows come as the answer has them
        better = self._known_above()
        enters = better - (rank < better) < self.k  # by what is known of the others
        new = belongs[:, 1:]
        change = np.where(rank < self.k, np.where(enters, 0.0, next_one - new), np.where(enters, new - last_one, 0.0))
        gained: FloatArray = change.mean(axis=1)
        return gained
