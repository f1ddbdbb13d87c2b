"""The probability behind the probabilistic k-skyband: the paper's tables, and what they rest on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from skyband.algorithms.topkw.probability import candidates, convex_from, p_last, p_practice
from tests.references.topkw import p_arrival, p_drop, p_theory

KS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
TABLE_V = {
    10**3: (18, 21, 26, 32, 40, 56, 72, 91, 106),
    10**4: (22, 25, 30, 37, 46, 65, 86, 116, 172),
    10**5: (25, 28, 34, 41, 51, 72, 95, 128, 192),
    10**6: (28, 32, 38, 46, 56, 78, 103, 138, 207),
}
TABLE_X = {
    10**3: (4, 7, 12, 19, 33, 69, 125, 232, 539),
    10**4: (4, 7, 12, 19, 33, 69, 126, 236, 555),
    10**5: (4, 7, 12, 19, 33, 69, 126, 237, 557),
    10**6: (4, 7, 12, 19, 33, 69, 126, 237, 557),
}


@pytest.mark.parametrize("n", TABLE_V)
def test_table_v_candidates_for_an_error_of_a_thousandth(n: int) -> None:
    assert tuple(candidates(n, k, 0.001) for k in KS) == TABLE_V[n]


@pytest.mark.parametrize("n", TABLE_X)
def test_table_x_ranks_from_which_chances_grow_ever_faster(n: int) -> None:
    assert tuple(int(convex_from(n, k)) + 1 for k in KS) == TABLE_X[n]


def test_a_smaller_error_takes_more_candidates() -> None:
    for n, k in ((200, 1), (10_000, 10), (10**6, 100)):
        found = [candidates(n, k, error) for error in (0.1, 0.01, 0.001, 1e-6, 1e-9)]
        assert all(a < b for a, b in pairwise(found)), (n, k, found)


def test_large_windows_do_not_overflow() -> None:
    found = [candidates(n, 10, 0.001) for n in (10**6, 10**8, 10**10, 10**12)]
    assert found[0] == 46
    assert all(0 < b - a < 15 for a, b in pairwise(found)), found


def test_never_more_candidates_than_the_window_has() -> None:
    for n in range(1, 30):
        for k in range(1, 35):
            assert 0 <= candidates(n, k, 0.001) <= max(n - k, 0)


@pytest.mark.parametrize(("n", "rank", "k"), [(12, 6, 2), (30, 14, 3), (40, 12, 1)])
def test_each_bound_is_above_the_next(n: int, rank: int, k: int) -> None:
    """Above L, what is computed in practice bounds the sum over all steps, and that what really happens."""
    assert rank > convex_from(n, k)
    rng = np.random.default_rng(n)
    draws, hits = 4000, 0
    for _ in range(draws):
        old = rng.permutation(n - 1)
        scores = np.concatenate([np.where(old < rank - 1, old, old + 1), [rank - 1]]).astype(float)
        scores = np.concatenate([scores, _later(rng, n)])
        ranks = [1 + np.count_nonzero(scores[step : step + n] < rank - 1) for step in range(1, n)]
        hits += int(min(ranks) <= k)
    assert hits / draws <= p_theory(rank, n, k) + 4 * (p_theory(rank, n, k) / draws) ** 0.5
    assert p_theory(rank, n, k) < p_practice(rank, n, k)


def _later(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw n - 1 more events of a stream in random order, among the n of a window: each gap is as likely as it grew."""
    ladder = [float(i) for i in range(n)]
    for _ in range(n - 1):
        at = int(rng.integers(0, len(ladder) + 1))
        below = ladder[at - 1] if at else -1.0
        above = ladder[at] if at < len(ladder) else float(n)
        ladder.insert(at, (below + above) / 2)
    known = set(range(n))
    added = np.array([value for value in ladder if value not in known])
    return rng.permutation(added)


def test_probabilities_add_up() -> None:
    n, rank = 9, 4
    for step in range(1, n):
        assert sum(p_drop(rank, n, step, better) for better in range(min(step, rank - 1) + 1)) == pytest.approx(1)
        assert sum(p_arrival(rank, n, step, better) for better in range(step + 1)) == pytest.approx(1)
    for new in range(1, n + 1):
        assert p_last(new, rank, n) == pytest.approx(p_arrival(rank, n, n - 1, new - 1))
