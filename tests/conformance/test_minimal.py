"""Theorem 5.1.1 of MTopS: there is a minimal set of events to keep. Who keeps exactly that, and nobody less."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.order import best_first
from tests.conformance.registry import algorithms
from tests.groups import rankings

MINIMAL = ("mintopk", "mtopband", "mtoplist")


def needed(time: np.ndarray, score: np.ndarray, queries: list[sb.Query], now: int) -> set[int]:
    """Return the events that would be in an answer if no more came, window by window."""
    found: set[int] = set()
    seen = np.flatnonzero(time < now)
    for query in queries:
        size, slide, offset = query.window.size, query.window.slide, query.window.offset
        start = (now - size - offset) // slide * slide + slide + offset  # the first window that ends after now
        while start < now:
            inside = seen[time[seen] >= start]
            found |= set(inside[best_first(score[inside], time[inside], inside)][: query.k].tolist())
            start += slide
    return found


def workload(seed: int) -> tuple[np.ndarray, np.ndarray, list[sb.Query]]:
    rng = np.random.default_rng(seed)
    n = 400
    time = np.sort(rng.integers(0, 300, n))
    score = [rng.normal(size=n), rng.integers(0, 5, n).astype(float), -np.arange(n) * 1.0, np.arange(n) * 1.0][seed % 4]
    queries = []
    for i in range(int(rng.integers(1, 6))):
        size = int(rng.integers(2, 80))
        window = sb.Window(size, slide=int(rng.integers(1, size + 1)), offset=int(rng.integers(0, 9)))
        queries.append(sb.Query(f"q{i}", k=int(rng.choice([1, 2, 5, 20])), score="x", window=window))
    return time, score, queries


@pytest.mark.parametrize("algorithm", algorithms())
def test_nobody_keeps_less_and_some_keep_no_more(algorithm: str) -> None:
    more = 0
    for seed in range(24):
        time, score, queries = workload(seed)
        monitor = sb.Monitor(queries, algorithm=algorithm, time="t", id="id")
        for start in range(0, len(time), 40):
            rows = slice(start, start + 40)
            monitor.push({"t": time[rows], "id": np.arange(len(time))[rows], "x": score[rows]})
            now = int(time[rows][-1]) + 1
            monitor.advance(now)
            (group,) = rankings(monitor)
            kept = set(group.store.key[group.algorithm.kept()].tolist())
            least = needed(time[: start + 40], score[: start + 40], queries, now)
            assert least <= kept, f"{algorithm}, seed {seed}, at {now}: an event that is needed is not kept"
            more += len(kept) - len(least)
    assert (more == 0) == (algorithm in MINIMAL), f"{algorithm} keeps {more} events more than it must"
