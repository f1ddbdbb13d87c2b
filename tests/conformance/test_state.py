"""Every algorithm: snapshots, detachment, untouched input, bounded state, compaction."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from tests.conformance.registry import algorithms, ranks
from tests.groups import rankings
from tests.streams import assert_same, random_workload, replies_of, run_through, table_of

SEEDS = range(100, 125)


@pytest.mark.parametrize("algorithm", algorithms())
def test_restored_goes_on_as_if_nothing_had_happened(algorithm: str) -> None:
    for seed in SEEDS:
        workload = random_workload(seed, **ranks(algorithm))
        truth = sb.Monitor(workload.queries(), algorithm=algorithm, time="t", id="id")
        expected = replies_of(run_through(truth, workload))
        monitor = sb.Monitor(workload.queries(), algorithm=algorithm, time="t", id="id")
        answers: list[sb.Answer] = []
        for batch in workload.batches():
            monitor = sb.Monitor.restore(monitor.snapshot())
            answers += monitor.push(table_of(batch, workload.text))
            monitor = sb.Monitor.restore(monitor.snapshot())
            if workload.delay is not None and monitor.newest > -(2**61):
                answers += monitor.advance(monitor.newest - workload.delay)
        answers += monitor.finish()
        assert_same(replies_of(answers), expected, f"{algorithm}, seed {seed}")
        left, right = monitor.stats(), truth.stats()
        assert (left.rows, left.late, left.rejected, left.answers) == (
            right.rows, right.late, right.rejected, right.answers,
        )  # fmt: skip


@pytest.mark.parametrize("algorithm", algorithms())
def test_a_snapshot_is_detached_from_the_live_state(algorithm: str) -> None:
    for seed in SEEDS:
        workload = random_workload(seed, n=80, **ranks(algorithm))
        batches = workload.batches()
        monitor = sb.Monitor(workload.queries(), algorithm=algorithm, time="t", id="id")
        monitor.push(table_of(batches[0], workload.text))
        blob = monitor.snapshot()
        first = replies_of(sb.Monitor.restore(blob).finish())
        for batch in batches[1:]:
            monitor.push(table_of(batch, workload.text))
        monitor.finish()
        assert_same(replies_of(sb.Monitor.restore(blob).finish()), first, f"{algorithm}, seed {seed}")
        assert sb.Monitor.restore(blob).snapshot() == blob


@pytest.mark.parametrize("algorithm", algorithms())
def test_input_is_not_altered(algorithm: str) -> None:
    for seed in SEEDS:
        workload = random_workload(seed, n=60, **ranks(algorithm))
        table = table_of(workload.batches()[0], workload.text)
        copy = table.slice(0)
        before = table.to_pydict()
        monitor = sb.Monitor(workload.queries(), algorithm=algorithm, time="t", id="id")
        monitor.push(table)
        monitor.finish()
        assert repr(copy.to_pydict()) == repr(before)


@pytest.mark.parametrize("algorithm", algorithms())
def test_state_stays_under_the_bound_over_a_long_stream(algorithm: str) -> None:
    rng = np.random.default_rng(7)
    query = sb.Query("q", k=5, score="x", window=sb.Window(1000, slide=100))
    monitor = sb.Monitor([query], algorithm=algorithm, time="t", id="id")
    kept = []
    for batch in range(300):
        time = batch * 100 + np.sort(rng.integers(0, 100, 200))
        monitor.push({"t": time, "id": rng.integers(0, 50, 200), "x": rng.normal(size=200)})
        monitor.advance(monitor.newest)
        stats = monitor.stats()
        assert stats.kept <= stats.bound
        kept.append(stats.kept)
        assert rankings(monitor)[0].store.size <= 2 * max(kept) + 4096 + 400
    assert max(kept[150:]) <= 1.3 * max(kept[:150]), "state grows with the stream"


def test_the_fallback_for_very_many_panes_takes_each_row_once() -> None:
    n = 1 << 18  # enough rows for several threads, and a leap that makes more panes than bars are kept for
    time = np.full(n, 10)
    time[1000] = 6_000_000
    score = np.arange(n) * 1.0
    score[5] = np.nan
    monitor = sb.Monitor([sb.Query("a", k=3, score="x", window=sb.Window(1))], time="t", id="id")
    monitor.push({"t": time, "id": np.arange(n), "x": score})
    (answer,) = monitor.advance(11)
    assert [row.id for row in answer.rows] == [n - 1, n - 2, n - 3]
    assert monitor.stats().rejected == 1
