"""How good an answer is, measured against an oracle that may ask for every remote value.

Ranked answers have `ndcg` (is the right order there?), `ndcg_compat` and `precision` (are the right ids there?);
sets have `jaccard`. `cumulative` sums any of them over windows, as the papers' figures do.

No metric punishes another order among equal scores: give the oracle's scores, and ids with equal ones may stand in
for each other, also across the border of the best k.

Notes
-----
Zahmatkesh and Della Valle, AcquaTop, section 2.1.2 and 6.2; Zahmatkesh et al., the FILTER policy, section 4.1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence, Set

import numpy as np

from skyband.errors import InputError
from skyband.order import FloatArray, IntArray


def ndcg(answer: Sequence[Hashable], ideal: Sequence[Hashable], k: int, scores: Sequence[float] | None = None) -> float:
    """Return the normalised discounted cumulative gain at k.

    The first of the oracle's n ids is worth n, the last 1, all others nothing; equal scores are worth the same.

    Parameters
    ----------
    answer
        Ids, the best first.
    ideal
        The oracle's ids, the best first; more than k are allowed, and then near misses are worth something.
    k
        How many ranks count.
    scores
        The oracle's scores, aligned with `ideal`; needed only where scores can be equal.

    Examples
    --------
    >>> round(ndcg("ADF", "ABCDEF", 3), 3), round(ndcg("FCB", "ABCDEF", 3), 3)
    (0.754, 0.288)
    >>> ndcg("BA", "AB", 2, scores=[7.0, 7.0])
    1.0
    """
    rank = _ranks(ideal, scores)
    worth = {name: len(ideal) - int(place) for name, place in zip(ideal, rank, strict=True)}
    got = [worth.get(name, 0) for name in _once(answer, k)]
    best = sorted(worth.values(), reverse=True)[:k]
    return _share(_gain(got, len(ideal)), _gain(best, len(ideal)))


def ndcg_compat(
    answer: Sequence[Hashable], ideal: Sequence[Hashable], k: int, scores: Sequence[float] | None = None
) -> float:
    """Return the gain as the figures of the AcquaTop paper count it: order within the answer costs nothing.

    An id that is anywhere among the oracle's best k is worth `k - its rank in the answer + 1`. Where the oracle has
    fewer than k ids, their number takes the place of k.

    Examples
    --------
    >>> ndcg_compat("CBA", "ABCDEF", 3)
    1.0
    >>> round(ndcg_compat("AXY", "ABCDEF", 3), 3)
    0.745
    """
    right, depth = _right(ideal, k, scores), min(k, len(ideal))
    got = [depth - place if name in right else 0 for place, name in enumerate(_once(answer, k)[:depth])]
    return _share(_gain(got, depth), _gain(list(range(depth, 0, -1)), depth))


def precision(
    answer: Sequence[Hashable], ideal: Sequence[Hashable], k: int, scores: Sequence[float] | None = None
) -> float:
    """Return the share of the k ranks that hold an id of the oracle's best k.

    It is divided by k as in the paper, even where the oracle has fewer than k ids.

    Examples
    --------
    >>> round(precision("ADF", "ABCDEF", 3), 3), round(precision("FCB", "ABCDEF", 3), 3)
    (0.333, 0.667)
    """
    right = _right(ideal, k, scores)
    return sum(name in right for name in _once(answer, k)) / k


def jaccard(answer: Iterable[Hashable], truth: Iterable[Hashable]) -> float:
    """Return the Jaccard index of two sets: what they share, as part of what either holds; 1 where both are empty.

    Examples
    --------
    >>> jaccard("ABC", "BCD")
    0.5
    """
    a, b = set(answer), set(truth)
    return len(a & b) / len(a | b) if a or b else 1.0


def jaccard_distance(answer: Iterable[Hashable], truth: Iterable[Hashable]) -> float:
    """Return 1 less the Jaccard index: 0 for equal sets.

    Examples
    --------
    >>> jaccard_distance("AB", "AB")
    0.0
    """
    return 1.0 - jaccard(answer, truth)


def cumulative(values: Iterable[float]) -> FloatArray:
    """Return the sums of the first 1, 2, ... values: a metric over a run of windows.

    Examples
    --------
    >>> cumulative([1.0, 0.5, 0.75]).tolist()
    [1.0, 1.5, 2.25]
    """
    return np.cumsum(np.fromiter(values, np.float64))


def _once(answer: Sequence[Hashable], k: int) -> list[Hashable]:
    """Return the first k ids; an id that comes again must not count again."""
    if k < 1:
        msg = f"k is {k}; at least one rank must count: give 1 or more"
        raise InputError(msg)
    first = list(answer[:k])
    if len(set(first)) < len(first):
        twice = next(name for place, name in enumerate(first) if name in first[:place])
        msg = f"the answer names {twice!r} twice; an id has one rank: count each id once before you measure"
        raise InputError(msg)
    return first


def _ranks(ideal: Sequence[Hashable], scores: Sequence[float] | None) -> IntArray:
    """Return the oracle's ranks, from 0; equal scores share the best of theirs."""
    if scores is None:
        return np.arange(len(ideal))
    if len(scores) != len(ideal):
        msg = f"there are {len(scores)} scores for {len(ideal)} ids of the oracle; give one for each"
        raise InputError(msg)
    values = np.asarray(scores, np.float64)
    fresh = np.ones(len(values), bool)
    fresh[1:] = values[1:] != values[:-1]
    return np.maximum.accumulate(np.where(fresh, np.arange(len(values)), 0))


def _right(ideal: Sequence[Hashable], k: int, scores: Sequence[float] | None) -> Set[Hashable]:
    """Return the ids that may be among the best k, whichever order equal scores are given."""
    return {name for name, rank in zip(ideal, _ranks(ideal, scores), strict=True) if rank < k}


def _gain(worth: Sequence[int], most: int) -> float:
    """Return the discounted gain, divided by two to the power of `most` so that long lists do not overflow.

    As printed: sum of (2^worth - 1) / log2(place + 1), places from 1.
    """
    gains = np.exp2(np.asarray(worth, np.float64) - most) - np.exp2(-float(most))
    return float((gains / np.log2(np.arange(2, len(worth) + 2))).sum())


def _share(got: float, best: float) -> float:
    return got / best if best else 1.0  # nothing to find, nothing missed
