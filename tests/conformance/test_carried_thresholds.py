"""Thresholds that are carried on over cuts at which windows only end: many lengths of windows with one slide.

What is dropped so must be missed by no query that is there, and every query that comes later must know what it misses.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms.staircase import prefilter
from skyband.algorithms.staircase.staircase import Staircase
from tests.groups import rankings
from tests.oracle import Ask
from tests.streams import Workload, assert_same, query_of, random_workload, replies_of, run_through, table_of


def dashboard(seed: int, n: int, **fixed: Any) -> Workload:
    """Draw a stream, and queries whose windows have one slide and many lengths."""
    rng = np.random.default_rng(seed)
    slide = int(rng.choice([5, 10, 20]))
    drawn = random_workload(seed, n=n, many=4, kind="sliding", ties=None, **{"distinct": None, "counts": False} | fixed)
    asks = [
        replace(ask, size=slide + int(rng.integers(0, 40)), slide=slide, offset=0, k=int(rng.choice([1, 2, 5, 20])))
        for ask in drawn.asks
    ]
    return replace(drawn, asks=tuple(asks))


def algorithm_of(monitor: sb.Monitor) -> Staircase:
    (group,) = rankings(monitor)
    assert isinstance(group.algorithm, Staircase)
    return group.algorithm


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_many_lengths_with_one_slide(dense: bool, counts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if dense:  # let the scan kernel see every batch, in several threads
        monkeypatch.setattr(prefilter, "is_sparse", lambda columns, panes, *_: panes.cover(*prefilter._look(columns)))
        monkeypatch.setattr(prefilter, "PARALLEL_ROWS", 64)
    for seed in range(40):
        workload = dashboard(seed, 300, counts=counts)
        monitor = sb.Monitor([query_of(ask) for ask in workload.asks], time="t", id="id")
        answers = run_through(monitor, workload, saved=seed % 3 == 0)
        assert_same(replies_of(answers), workload.truth().replies, f"seed {seed}")


def test_queries_that_begin_where_others_end() -> None:
    """Exact answers are right, whatever was dropped for events from before the start of a query that came later."""
    flags: Counter[bool] = Counter()
    for seed in range(120):
        rng = np.random.default_rng(seed)
        workload = dashboard(seed, 200, delay=int(rng.choice([3, 15])), order="desc", closed="left")
        batches = workload.batches()
        slide = workload.asks[0].slide
        late = [
            Ask(f"later{i}", int(rng.choice([1, 2, 5])), slide, slide, offset=ask.size % slide)
            for i, ask in enumerate(workload.asks)
        ]
        asks = [*workload.asks, *(replace(ask, partitioned=workload.asks[0].partitioned) for ask in late)]
        joins = {ask.name: int(rng.integers(0, len(batches))) if "later" in ask.name else 0 for ask in asks}
        monitor = sb.Monitor(time="t", id="id")
        answers: list[sb.Answer] = []
        delay = workload.delay
        assert delay is not None
        for turn, batch in enumerate(batches):
            for ask in asks:
                if joins[ask.name] == turn:
                    monitor.register(query_of(ask))
            answers += monitor.push(table_of(batch, workload.text))
            if monitor.newest > -(2**61):
                answers += monitor.advance(monitor.newest - delay)
            for group in rankings(monitor):
                group.algorithm.check()
        answers += monitor.finish()
        truth = {(r.query, r.start): r.rows for r in replace(workload, asks=tuple(asks)).truth().replies}
        for answer, reply in zip(answers, replies_of(answers), strict=True):
            flags[answer.exact] += 1
            if answer.exact:
                assert reply.rows == truth.get((reply.query, reply.start), []), f"seed {seed}, {reply}"
    assert flags[True] > 500
    assert flags[False] > 5


def test_little_more_is_kept_than_for_one_length() -> None:
    rng = np.random.default_rng(5)
    n, k = 20_000, 10
    rows = {"t": np.sort(rng.integers(0, 1_000, n)), "id": np.arange(n), "x": rng.random(n)}

    def kept(sizes: list[int]) -> int:
        queries = [sb.Query(f"q{size}", k=k, score="x", window=sb.Window(size, slide=100)) for size in sizes]
        monitor = sb.Monitor(queries, time="t", id="id")
        monitor.push(rows)
        return len(algorithm_of(monitor).kept())

    one, many = kept([500]), kept([500 + 3 * i for i in range(33)])
    assert one == 10 * k
    assert many < 5 * one, "each of the 330 panes would keep ten by itself"


def test_a_threshold_lasts_when_the_panes_before_are_sealed() -> None:
    queries = [sb.Query(f"q{size}", k=1, score="x", window=sb.Window(size, slide=10)) for size in (10, 15)]
    monitor = sb.Monitor(queries, time="t", id="id")
    monitor.push([{"t": 22, "id": "best", "x": 9.0}])
    monitor.advance(25)  # which seals [20, 25)
    blob = monitor.snapshot()
    for one in (monitor, sb.Monitor.restore(blob)):
        one.push([{"t": 26, "id": "worse", "x": 1.0}, {"t": 31, "id": "other", "x": 1.0}])
        algorithm = algorithm_of(one)
        assert [int(algorithm.store.time[slot]) for slot in algorithm.open] == [31]
        one.register(sb.Query("new", k=1, score="x", window=sb.Window(5)))
        found = {(answer.query, answer.start): answer for answer in one.finish()}
        assert [row.id for row in found["q10", 20].rows] == ["best"]
        assert not found["new", 25].exact, "it lacks one that was dropped for an event from before"
        assert found["new", 30].exact
        assert [row.id for row in found["new", 30].rows] == ["other"]


def test_a_deeper_query_takes_no_threshold_of_shallower_ones() -> None:
    window = sb.Window(15, slide=10)
    monitor = sb.Monitor([sb.Query("one", k=1, score="x", window=window)], time="t", id="id")
    monitor.push([{"t": 22, "id": "best", "x": 9.0}])
    monitor.advance(25)
    monitor.register(sb.Query("two", k=2, score="x", window=window))
    monitor.push([{"t": 26, "id": "second", "x": 1.0}])
    assert {(a.query, a.start): [row.id for row in a.rows] for a in monitor.finish()}["two", 20] == ["best", "second"]
