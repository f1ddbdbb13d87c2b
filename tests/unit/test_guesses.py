"""Guesses about the next batch: about as many events reach them as they aim at."""

from __future__ import annotations

import numpy as np
import pytest

from skyband.spark.reducers.guesses import EVERY, BatchForecast, ScoreDistribution, wanted
from skyband.windows import NEVER

SPAN = 2_000_000


def sample(n: int, slope: float = 0.0, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, SPAN, n))
    return time, rng.normal(size=n) + slope * time


@pytest.mark.parametrize("slope", [0.0, 1e-6, -1e-6])
def test_a_guess_lets_about_as_many_through_as_it_aims_at(slope: float) -> None:
    time, merit = sample(4_000, slope)
    scores = ScoreDistribution.fit(time, merit, SPAN, EVERY)
    starts = np.arange(SPAN, 2 * SPAN, 100_000)
    bars = scores.guess(starts, starts + 100_000, wanted(100))
    events = 4_000 * EVERY // 20
    rng = np.random.default_rng(2)
    for start, bar in zip(starts, bars, strict=True):
        times = rng.integers(start, start + 100_000, events)
        reached = np.count_nonzero(rng.normal(size=events) + slope * times >= bar)
        assert 100 < reached < 600


@pytest.mark.parametrize("slope", [0.0, 1e-6, -1e-6])
def test_as_many_events_reach_a_merit_as_are_expected(slope: float) -> None:
    time, merit = sample(4_000, slope)
    scores = ScoreDistribution.fit(time, merit, SPAN, EVERY)
    starts = np.arange(SPAN, 2 * SPAN, 100_000)
    bars = np.array([-np.inf, -1.0, 0.0, 1.0, np.inf] * 4) + slope * (starts + 50_000)
    shares = np.array([1.0, 0.841, 0.5, 0.159, 0.0] * 4)
    expected = scores.reaching(starts, starts + 100_000, bars)
    assert expected == pytest.approx(shares * 4_000 * EVERY / 20, abs=4_000 * EVERY / 20 / 20)
    nobody = ScoreDistribution.fit(np.empty(0, np.int64), np.empty(0), 1, EVERY)
    assert nobody.reaching(starts, starts + 9, bars).tolist() == [0.0] * 20


def test_a_stretch_with_few_events_gets_no_guess() -> None:
    time, merit = sample(4_000)
    scores = ScoreDistribution.fit(time, merit, SPAN, EVERY)
    narrow = scores.guess(np.array([0]), np.array([100]), wanted(100))
    assert narrow.tolist() == [-np.inf]
    assert ScoreDistribution.fit(np.empty(0, np.int64), np.empty(0), 1, EVERY).guess(
        np.array([0]), np.array([9]), 1.0
    ) == [-np.inf]


def test_infinite_and_constant_scores_do_not_confuse_the_trend() -> None:
    time, merit = sample(1_000)
    merit[::7] = np.inf
    scores = ScoreDistribution.fit(time, merit, SPAN, EVERY)
    assert scores.slope == 0.0
    assert ScoreDistribution.fit(np.zeros(1_000, np.int64), merit, SPAN, EVERY).slope == 0.0


def test_the_end_of_the_next_batch_is_foretold_from_the_last_ones() -> None:
    outlook = BatchForecast()
    assert outlook.read_all_from(0) is None
    for batch in range(1, 5):
        outlook.learn((batch - 1) * SPAN, batch * SPAN, 2_000_000, right=True)
    tail = outlook.read_all_from(4 * SPAN)
    assert tail is not None
    assert 4.9 * SPAN < tail < 5 * SPAN


def test_small_batches_are_taken_whole_and_irregular_ones_looked_at_first() -> None:
    outlook = BatchForecast()
    outlook.learn(0, SPAN, 1_000, right=True)
    assert outlook.read_all_from(SPAN) == NEVER
    outlook.learn(SPAN, 5 * SPAN, 2_000_000, right=True)
    assert outlook.read_all_from(5 * SPAN) is None
    outlook.learn(5 * SPAN, 6 * SPAN, 2_000_000, right=False)
    assert outlook.read_all_from(6 * SPAN) is None
