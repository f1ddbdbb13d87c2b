"""How likely an event is to become one of the best: what the probabilistic k-skyband keeps, and why that is enough.

Paper → code (Top-k/w):

- equation (5) → `p_drop`
- equation (6) → `p_arrival`
- equation (7) → `p_theory`
- equation (8) → `p_last`
- equation (9), theorem 4.4 → `p_practice`
- equation (13), lemma A.2, L → `convex_from`
- section 4.1.1, limit of candidates, table V → `candidates`

In a stream in random order (every permutation as likely as any other), an event that comes in at rank l of a window of
n events will, with some probability, be among the k best before it leaves. Below a small probability of error one need
not keep it at all. All numbers are computed by logarithms, so no window is too large.

Notes
-----
Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 4.1.1 and
the appendix. The last binomial of equations (8) and (9) is printed as C(2n-2, l+l'); it must be C(2n-2, l+l'-2), as
follows from (6), and as their Table V needs.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb, exp, lgamma, log, sqrt


def p_drop(rank: int, n: int, dropped: int, better: int) -> float:
    """Return the probability that, of so many dropped events, so many were better than the one at a rank; eq. (5).

    Examples
    --------
    >>> p_drop(rank=3, n=4, dropped=1, better=1)  # two of the other three are better
    0.6666666666666666
    """
    if not 0 <= better <= dropped:
        return 0.0
    return comb(rank - 1, better) * comb(n - rank, dropped - better) / comb(n - 1, dropped)


def p_arrival(rank: int, n: int, arrived: int, better: int) -> float:
    """Return the probability that, of so many events that arrived, so many are better than the one at a rank; eq. (6).

    Examples
    --------
    >>> p_arrival(rank=1, n=1, arrived=1, better=1)  # one event, one more: either may be the better one
    0.5
    """
    if not 0 <= better <= arrived:
        return 0.0
    above, below = rank - 1 + better, n - rank + arrived - better
    ways = comb(above, better) * comb(below, arrived - better)
    return n / (n + arrived) * (ways / comb(n + arrived - 1, arrived))


def p_theory(rank: int, n: int, k: int) -> float:
    """Return an upper bound for the probability to become one of the k best; eq. (7), a sum over all steps.

    Slow, for comparison: `p_practice` is what one computes.
    """
    return sum(
        p_drop(rank, n, step, rank - new + better) * p_arrival(rank, n, step, better)
        for step in range(1, n)
        for new in range(1, k + 1)
        for better in range(new)
    )


def p_last(new: int, rank: int, n: int) -> float:
    """Return the probability that an event has a new rank just before it leaves the window; eq. (8).

    Examples
    --------
    >>> round(sum(p_last(new, rank=3, n=10) for new in range(1, 11)), 12)
    1.0
    """
    if new > n or rank > n:
        return 0.0
    chances = _log_comb(n - 1, new - 1) + _log_comb(n - 1, rank - 1) - _log_comb(2 * n - 2, rank + new - 2)
    return exp(log(n) - log(2 * n - 1) + chances)


def p_practice(rank: int, n: int, k: int) -> float:
    """Return an upper bound for `p_theory` that is quick to compute, for ranks above `convex_from`; eq. (9).

    Examples
    --------
    >>> p_theory(12, 30, 2) < p_practice(12, 30, 2) < 0.05
    True
    """
    return n / 2 * sum(p_last(new, rank, n) for new in range(1, k + 1))


def convex_from(n: int, k: int) -> float:
    """Return L: for ranks above it, the chance to be among the k best grows ever faster with time; eq. (13).

    Examples
    --------
    >>> int(convex_from(10_000, 10)) + 1
    19
    """
    inner = -8 * k * k * n + 4 * k * k + 8 * k * n * n + 4 * k * n - 4 * k - 5 * n * n - 2 * n + 3
    return (3 * n - 4 * k + 2 * k * n + 3 + sqrt(max(3 * inner, 0))) / (2 * n + 2)


@lru_cache(maxsize=4096)
def candidates(n: int, k: int, error: float) -> int:
    """Return how many candidates to keep beside the k best, so that less than an `error` is missed per window.

    The first rank above L whose bound is less than half the error ends them, as in Table V. The paper reasons that the
    bounds fall by more than a half from rank to rank there; for large k they fall more slowly, and add up to as much as
    twice the error. They are bounds, though: what is really missed is far less.

    Examples
    --------
    >>> candidates(10_000, 10, 0.001)
    37
    """
    rank = max(int(convex_from(n, k)) + 1, k + 1)
    while rank <= n and p_practice(rank, n, k) >= error / 2:
        rank += 1
    return max(min(rank - 1, n) - k, 0)


def _log_comb(n: int, r: int) -> float:
    return lgamma(n + 1) - lgamma(r + 1) - lgamma(n - r + 1)
