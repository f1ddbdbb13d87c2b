"""What the staircase keeps is what its rule says, no more and no less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms import panes
from skyband.algorithms.staircase import prefilter, staircase
from skyband.events import keys
from tests.conformance.test_exact import KINDS, check
from tests.groups import rankings
from tests.streams import random_workload

SMALL = (
    (
        prefilter,
        {
            "FEW_ROWS": 0,
            "PARTITIONED_ROWS": 7,
            "LATEST_ROWS": 5,
            "PARALLEL_ROWS": 9,
            "POOL_BYTES": 24 * 64 * 2,
            "THREADS": 3,
            "TIED_ROWS": 2,
        },
    ),
    (staircase, {"MOST_PICKS": 5, "PARALLEL_SLOTS": 4, "THREADS": 3}),
    (keys, {"SAMPLE": 3, "PARALLEL_ROWS": 9, "THREADS": 3}),
    (panes, {"AT_ONCE": 3}),
)


def rule(time: np.ndarray, score: np.ndarray, queries: list[sb.Query], now: int, pane: int) -> set[int]:
    """Return the sealed events that fewer than K(p) better ones outlive, by comparing all pairs."""
    kept = set()
    sealed = np.flatnonzero(time < now)
    for i in sealed:
        covering = [q.k for q in queries if time[i] // pane * pane >= now + q.window.slide - q.window.size]
        later = sealed[time[sealed] // pane >= time[i] // pane]
        better = (score[later] > score[i]) | ((score[later] == score[i]) & (time[later] > time[i]))
        if covering and better.sum() < max(covering):
            kept.add(int(i))
    return kept


@pytest.mark.parametrize("seed", range(12))
def test_sealed_panes_keep_exactly_what_may_still_be_answered(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, pane = 400, 10
    time = np.arange(n)  # one event at each time: no tie is left to the id
    score = [rng.normal(size=n), rng.integers(0, 5, n).astype(float), -np.arange(n) * 1.0, np.arange(n) * 1.0][seed % 4]
    queries = [
        sb.Query(f"q{i}", k=int(rng.integers(1, 8)), score="x", window=sb.Window(size, slide=10))
        for i, size in enumerate(rng.choice([10, 20, 50, 100, 200], 3, replace=False).tolist())
    ]
    monitor = sb.Monitor(queries, time="t", id="id")
    for start in range(0, n, 50):
        rows = slice(start, start + 50)
        monitor.push({"t": time[rows], "id": time[rows], "x": score[rows]})
        monitor.advance(start + 50)
        (group,) = rankings(monitor)
        kept = set(group.store.time[group.algorithm.kept()].tolist())
        assert kept == rule(time, score, queries, start + 50, pane), f"seed {seed}, after {start + 50}"


def test_the_size_is_logarithmic_in_random_order() -> None:
    rng = np.random.default_rng(3)
    n, k = 100_000, 50
    query = sb.Query("q", k=k, score="x", window=sb.Window(n, slide=1000))
    monitor = sb.Monitor([query], time="t", id="t")
    most = 0
    for start in range(0, 3 * n, 10_000):
        monitor.push({"t": np.arange(start, start + 10_000), "x": rng.random(10_000)})
        monitor.advance(start + 10_000)
        most = max(most, monitor.stats().kept)
    assert most <= 1.2 * (k * np.log(n / k) + k)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"k": 1}, "keeps more than K"),
        ({"sealed_to": 20}, "a sealed event lies in an open pane"),
        ({"sealed_to": 40}, "an open event lies in a sealed pane"),
        ({"open": np.array([0], np.int32), "open_pane": np.array([0])}, "an event is kept twice"),
        ({"open_pane": np.full(4, 9)}, "wrong pane"),
    ],
)
def test_check_notices_what_is_wrong(broken: dict[str, Any], message: str) -> None:
    monitor = sb.Monitor([sb.Query("q", k=2, score="x", window=sb.Window(40, slide=10))], time="t", id="t")
    monitor.push([{"t": t, "x": -float(t)} for t in range(50)])
    monitor.advance(30)
    (group,) = rankings(monitor)
    group.algorithm.check()
    for name, value in broken.items():
        setattr(group.algorithm, name, value)
    with pytest.raises(AssertionError, match=message):
        group.algorithm.check()
    group.algorithm.panes.cuts[:2] = 0  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match=r"cuts are not in order|kept twice"):
        group.algorithm.check()


def test_a_pool_that_has_no_room_holds_one_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefilter, "POOL_BYTES", 1)
    monkeypatch.setattr(prefilter, "FEW_ROWS", 0)
    time = np.arange(1_000)
    query = sb.Query("q", k=2, score="x", window=sb.Window(100))
    answers = sb.run(query, {"t": time, "x": time * 37.0 % 1_001}, time="t", id="t")
    assert [[row.score for row in answer.rows] for answer in answers] == [
        np.sort(time[start : start + 100] * 37.0 % 1_001)[:-3:-1].tolist() for start in range(0, 1_000, 100)
    ]


@pytest.mark.parametrize("most_bars", [prefilter.MOST_THRESHOLDS, 30])
@pytest.mark.parametrize("kind", ["any", "events", "best", "latest", "partitions", "late", "long", "tied, latest"])
def test_what_is_done_in_pieces_and_by_threads_is_the_same(
    kind: str, most_bars: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With small limits, small streams take all the ways that are made for large ones."""
    monkeypatch.setattr(prefilter, "MOST_THRESHOLDS", most_bars)
    for module, limits in SMALL:
        for name, value in limits.items():
            monkeypatch.setattr(module, name, value)
    for seed in range(12):
        check("staircase", random_workload(5_000 + seed, **KINDS[kind]))
