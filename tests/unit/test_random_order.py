"""Is the order of a stream random? Alarms are rare where it is, and come soon where it is not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from skyband.algorithms.topkw.random_order import BLOCK, FALSE_ALARM, Order, Watch, limit_for

WINDOW = 5 * BLOCK


def judged(x: np.ndarray, watch: Watch | None = None, longest: int = WINDOW) -> list[Order]:
    """Return what is said after each block."""
    watch = Watch() if watch is None else watch
    found = []
    for begin, end in pairwise(range(0, len(x) + 1, BLOCK)):
        watch.see(x[begin : begin + 300])  # events come in pieces
        watch.see(x[begin + 300 : end])
        found.append(watch.judge(end, longest))
    return found


def noise(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 1))


STREAMS: dict[str, Callable[[int], np.ndarray]] = {
    "random walk": lambda n: np.cumsum(noise(n), axis=0),
    "sorted": lambda n: np.sort(noise(n), axis=0),
    "sorted, worst first": lambda n: -np.sort(noise(n), axis=0),
    "trend and noise": lambda n: noise(n) + np.linspace(0, n / BLOCK, n)[:, None],
    "periodic and noise": lambda n: noise(n) + np.sin(np.arange(n) / 50)[:, None],
    "moving average": lambda n: noise(n) + 0.5 * np.roll(noise(n), 1, axis=0),
    "to and fro": lambda n: noise(n) + (np.arange(n) % 2)[:, None],
    "waves of unrest": lambda n: noise(n) * np.exp(np.sin(np.arange(n) / 50))[:, None],
}


@pytest.mark.parametrize("name", STREAMS)
def test_what_is_clearly_correlated_is_found_in_every_block(name: str) -> None:
    assert set(judged(STREAMS[name](20 * BLOCK))) == {Order.CORRELATED}


@pytest.mark.parametrize("change", [1.0, 0.5])
def test_a_step_and_a_slow_drift_are_found_by_comparing_blocks(change: float) -> None:
    n = 30 * BLOCK
    step = noise(n) + change * (np.arange(n) >= 15 * BLOCK)[:, None]
    assert judged(step)[:15].count(Order.CORRELATED) == 0
    assert judged(step)[15] is Order.CORRELATED
    drift = noise(n) + change * (np.arange(n) / WINDOW)[:, None]
    assert Order.RANDOM not in judged(drift), "over a window it shows, though not in a block"


def test_alarms_are_as_rare_as_they_say_in_random_order() -> None:
    rng = np.random.default_rng(1)
    n = 400 * BLOCK
    x = [rng.random((n, 2)), rng.integers(0, 3, (n, 1)) * 1.0, rng.standard_cauchy((n, 1))]
    found = [order for stream in x for order in judged(stream)]
    assert found.count(Order.CORRELATED) <= 2, f"{len(found) * FALSE_ALARM:.2f} are expected at most"
    assert found.count(Order.RANDOM) > 0.9 * len(found)


def test_random_is_said_only_after_a_whole_window_by_which_others_are_compared() -> None:
    found = judged(noise(20 * BLOCK))
    assert found[:5] == [Order.UNKNOWN] * 5, "a yardstick, then the blocks of a window"
    assert found[5] is Order.RANDOM
    again = judged(np.concatenate([noise(9 * BLOCK), np.cumsum(noise(2 * BLOCK), axis=0), noise(9 * BLOCK)]))
    assert again[9:11] == [Order.CORRELATED] * 2
    assert again[11:16] == [Order.UNKNOWN] * 5
    assert again[16] is Order.RANDOM


def test_values_that_do_not_vary_and_those_that_are_missing_are_in_any_order_until_they_change() -> None:
    n = 10 * BLOCK
    for x in (np.zeros((n, 1)), np.full((n, 1), np.nan)):
        assert judged(x)[-1] is Order.RANDOM
    assert judged(np.repeat([[0.0], [1.0]], 5 * BLOCK, axis=0), longest=BLOCK)[5] is Order.CORRELATED


@pytest.mark.parametrize("cut", [0, 1, 4, 9])
def test_a_watch_goes_on_where_it_was(cut: int) -> None:
    x = np.concatenate([noise(8 * BLOCK), np.cumsum(noise(4 * BLOCK), axis=0)])
    whole, parts, again = Watch(), Watch(), Watch()
    expected = judged(x, whole)
    found = judged(x[: cut * BLOCK], parts)
    again.load(parts.state())
    for block in x[cut * BLOCK :].reshape(-1, BLOCK, 1):
        again.see(block[:400])
        after = Watch()
        after.load(again.state())
        after.see(block[400:])
        assert after.room == 0
        found.append(after.judge(BLOCK * (len(found) + 1), WINDOW))
        again = after
    assert found == expected
    assert again.finding == whole.finding


def test_a_finding_says_what_and_how_far() -> None:
    watch = Watch()
    judged(np.column_stack([noise(BLOCK), np.sort(noise(BLOCK), axis=0)]), watch)
    assert str(watch.finding).startswith("neighbours are alike (column 1")
    assert str(watch.finding).endswith(f"alarm at {limit_for(FALSE_ALARM, 8):.1f}")
