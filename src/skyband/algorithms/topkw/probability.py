"""How likely an event is to become one of the best: what the probabilistic k-skyband keeps, and why that is enough.

Paper → code (Top-k/w):

- equation (8) → `p_last`
- equation (9), theorem 4.4 → `p_practice`
- equation (13), lemma A.2, L → `convex_from`
- section 4.1.1, limit of candidates, table V → `candidates`

In a stream in random order (every permutation as likely as any other), an event that comes in at rank l of a window of
n events will, with some probability, be among the k best before it leaves. Below a small probability of error one need
not keep it at all. All numbers are computed by logarithms, so no window is too large.

Equations (5) to (7), the sum over all steps that equation (9) bounds, are in the tests' reference of the paper.

Notes
-----
Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 4.1.1 and
the appendix. The last binomial of equations (8) and (9) is printed as C(2n-2, l+l'); it must be C(2n-2, l+l'-2), as
follows from (6), and as their Table V needs.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, log, sqrt


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
    """Return a quick upper bound for the chance to become one of the k best, for ranks above `convex_from`; eq. (9).

    Examples
    --------
    >>> p_practice(12, 30, 2) < 0.05
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
