"""Approximate algorithms say so, and err no more than their paper promises."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms.topkw.adaptive import AdaptiveBands
from skyband.algorithms.topkw.band_kernels import PROBABLE, STRICT
from skyband.algorithms.topkw.bands import Bands, BandSpec, Method
from tests.conformance.registry import algorithms
from tests.groups import rankings
from tests.streams import random_workload, run_through

N, WINDOW, K, QUERIES, ERROR = 6_000, 300, 4, 25, 0.2


def reported(method: Method, x: np.ndarray, engine: type[Bands] = Bands) -> set[tuple[int, int]]:
    """Return which events were reported to which queries: each query ranks by a column of its own."""
    bands = engine(method, dimensions=QUERIES)
    unit = np.eye(QUERIES)
    bands.add([BandSpec(K, WINDOW, WINDOW, weight=tuple(row), point=(0.0,) * QUERIES) for row in unit.tolist()])
    number = np.arange(len(x))
    reports = bands.process(x, number, number, number, np.zeros_like(number))
    assert not isinstance(bands, AdaptiveBands) or bands.using == "pa"
    return set(zip(reports.row.tolist(), reports.slot.tolist(), strict=True))


def errors(method: Method, seed: int, engine: type[Bands] = Bands) -> tuple[float, float]:
    """Return the missed and the wrong events per query."""
    x = np.random.default_rng(seed).random((N, QUERIES))
    truth, found = reported(Method(STRICT), x), reported(method, x, engine)
    return len(truth - found) / QUERIES, len(found - truth) / QUERIES


@pytest.mark.parametrize("engine", [Bands, AdaptiveBands])
def test_lemma_4_6_errors_stay_within_the_bound(engine: type[Bands]) -> None:
    """Per query less than σ N/n events are missed, and less than 3/2 σ N/n are wrong, on streams in random order."""
    method = Method(PROBABLE, error=ERROR, additional=0)
    missed, wrong = np.mean([errors(method, seed, engine) for seed in range(20)], axis=0)
    bound = ERROR * N / WINDOW
    assert 0 < missed < bound, "an error this large must show, or the test says nothing"
    assert wrong < 1.5 * bound
    careless, _ = np.mean([errors(Method(PROBABLE, limit=0, additional=0), seed) for seed in range(3)], axis=0)
    assert careless > bound, "with no candidates the bound is broken"


def test_a_stream_that_falls_is_what_it_is_not_made_for() -> None:
    x = np.repeat(np.arange(N, dtype=float)[:, None], QUERIES, axis=1)
    truth, found = reported(Method(STRICT), x), reported(Method(PROBABLE), x)
    assert len(truth) == N * QUERIES - QUERIES * (WINDOW - K), "every event is among the best just before it leaves"
    assert len(found & truth) < len(truth) / 2


@pytest.mark.parametrize("algorithm", algorithms(exact=False))
def test_no_answer_is_called_exact(algorithm: str) -> None:
    for seed in range(20):
        workload = random_workload(seed, distinct=None)
        monitor = sb.Monitor(workload.queries(), algorithm=algorithm, time="t", id="id")
        assert not any(answer.exact for answer in run_through(monitor, workload))
        for group in rankings(monitor):
            group.algorithm.check()


def test_an_answer_says_that_it_is_approximate_once_its_query_has_seen_a_whole_window() -> None:
    window = sb.Window(10)
    monitor = sb.Monitor([sb.Query("old", k=2, score="x", window=window)], algorithm="pa", time="t", id="t")
    monitor.push([{"t": t, "x": float(t % 7)} for t in range(15)])
    monitor.register(sb.Query("new", k=2, score="-x", window=window))
    monitor.push([{"t": t, "x": float(t % 7)} for t in range(15, 30)])
    said = [(a.query, a.end, a.why) for a in monitor.finish()]
    assert [(end, why) for name, end, why in said if name == "old"] == [(end, "approximate") for end in (10, 20, 30)]
    assert [(end, why) for name, end, why in said if name == "new"] == [(20, "warming up"), (30, "approximate")]
