"""Every algorithm of the registry equals the oracle: every window, every cut into batches, every kind of query."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import skyband as sb
from skyband.order import best_first
from tests.conformance.registry import DISTINCTS, algorithms, fits, ranks
from tests.groups import rankings
from tests.oracle import Oracle
from tests.streams import Workload, assert_same, random_workload, replies_of, run_through, table_of

SEEDS = 12
KINDS: dict[str, dict[str, Any]] = {
    "any": {},
    "events": {"distinct": None, "partitioned": False, "counts": False},
    "best": {"distinct": "best", "counts": False},
    "latest": {"distinct": "latest", "counts": False},
    "partitions": {"partitioned": True},
    "counts": {"counts": True},
    "counts and partitions": {"counts": True, "partitioned": True, "distinct": "best"},
    "late": {"delay": 0, "counts": False},
    "in time": {"delay": 40, "counts": False},
    "wait for the end": {"delay": None},
    "many queries": {"many": 50, "n": 60},
    "one event": {"n": 1},
    "no event": {"n": 0},
    "long": {"n": 400, "many": 2},
    "tied": {"tied": True, "select": ("note", "size"), "counts": False},
    "tied, one column": {"tied": True, "select": ("size",), "delay": 3},
    "tied, best": {"tied": True, "select": ("note",), "distinct": "best"},
    "tied, latest": {"tied": True, "select": ("note", "size"), "distinct": "latest"},
    "tied, counts": {"tied": True, "select": ("size", "note"), "counts": True},
    "earliest": {"prefer": "earliest"},
    "earliest, tied": {"prefer": "earliest", "tied": True, "select": ("note",), "counts": False},
    "earliest, best": {"prefer": "earliest", "tied": True, "distinct": "best"},
    "earliest, latest": {"prefer": "earliest", "distinct": "latest"},
    "earliest, counts": {"prefer": "earliest", "counts": True},
    "with ties": {"ties": "with"},
    "with ties, many": {"ties": "with", "tied": True, "select": ("note",), "counts": False},
    "with ties, cut": {"ties": "with", "tied": True, "max_ties": 7, "select": ("size",)},
    "with ties, best": {"ties": "with", "distinct": "best", "tied": True, "select": ("note",)},
    "with ties, latest": {"ties": "with", "distinct": "latest"},
    "with ties, counts": {"ties": "with", "counts": True, "max_ties": 7},
    "with ties, earliest": {"ties": "with", "prefer": "earliest", "tied": True, "max_ties": 3},
    "with ties, partitions": {"ties": "with", "partitioned": True, "max_ties": 7, "n": 200, "counts": False},
    "dense": {"ties": "dense"},
    "dense, many": {"ties": "dense", "tied": True, "select": ("note",), "counts": False},
    "dense, cut": {"ties": "dense", "max_ties": 7, "distinct": None},
    "dense, best": {"ties": "dense", "distinct": "best", "max_ties": 7},
    "dense, latest": {"ties": "dense", "distinct": "latest"},
    "dense, earliest": {"ties": "dense", "prefer": "earliest", "counts": True},
    "dense, partitions": {"ties": "dense", "partitioned": True, "max_ties": 7, "n": 200, "distinct": None},
}


def check(algorithm: str, workload: Workload) -> None:
    """Compare answers and counts with the oracle."""
    truth = workload.truth()
    monitor = sb.Monitor(workload.queries(), algorithm=algorithm, time="t", id="id")
    answers = run_through(monitor, workload)
    what = f"{algorithm}, seed {workload.seed}"
    assert_same(replies_of(answers), truth.replies, what)
    cut = {(reply.query, int(reply.end)): reply.cut for reply in truth.replies}
    found = [(answer.exact, cut[answer.query, int(answer.end)]) for answer in answers]  # type: ignore[arg-type]
    assert all(exact is not longer for exact, longer in found), what
    assert all("rows, as max_ties says" in answer.why for answer in answers if answer.why), what
    stats = monitor.stats()
    assert (stats.rejected, stats.late, stats.partly_late) == (
        truth.rejected,
        truth.late,
        truth.partly_late,
    ), what
    assert stats.rows == len(workload.events), what
    assert stats.answers == len(truth.replies), what


@pytest.mark.parametrize(("algorithm", "kind"), [(a, k) for a in algorithms() for k in KINDS if fits(a, KINDS[k])])
def test_equals_the_oracle(algorithm: str, kind: str) -> None:
    for seed in range(SEEDS):
        workload = random_workload(1000 * list(KINDS).index(kind) + seed, **ranks(algorithm) | KINDS[kind])
        check(algorithm, workload)


@pytest.mark.parametrize("algorithm", algorithms())
def test_answers_do_not_depend_on_how_the_input_is_cut(algorithm: str) -> None:
    for seed in range(SEEDS):
        whole = random_workload(seed, delay=None, **ranks(algorithm))
        for cuts in ((), tuple(range(len(whole.events))), whole.cuts):
            check(algorithm, Workload(seed, whole.asks, whole.events, cuts, None, whole.text))


@pytest.mark.parametrize("algorithm", algorithms())
def test_disorder_within_the_delay_changes_nothing(algorithm: str) -> None:
    for seed in range(SEEDS):
        given = random_workload(seed, counts=False, **ranks(algorithm))
        timed = tuple(e for e in given.events if e.time is not None)
        width = max((e.time or 0 for e in timed), default=0) - min((e.time or 0 for e in timed), default=0)
        found = []
        for cuts in ((), tuple(range(len(timed)))):
            workload = Workload(seed, given.asks, timed, cuts, width, given.text)
            monitor = sb.Monitor(workload.queries(), algorithm=algorithm, time="t", id="id")
            found.append(replies_of(run_through(monitor, workload)))
            assert monitor.stats().late == monitor.stats().partly_late == 0
        assert_same(found[0], found[1], f"{algorithm}, seed {seed}")


@pytest.mark.parametrize("algorithm", algorithms())
def test_batches_that_go_back_in_time(algorithm: str) -> None:
    """Each batch is older than those before it, and some have no event: all their scores are NaN, or all are late."""
    for seed in range(3 * SEEDS):
        rng = np.random.default_rng(seed)
        given = random_workload(seed, n=60, counts=False, delay=None, **ranks(algorithm))
        timed = sorted((e for e in given.events if e.time is not None), key=lambda e: -(e.time or 0))
        cuts = tuple(sorted(rng.integers(0, len(timed), 8).tolist()))
        workload = replace(given, events=tuple(timed), cuts=cuts)
        batches = [
            [replace(e, score=float("nan")) for e in batch] if rng.integers(3) == 0 else batch
            for batch in workload.batches()
        ]
        advances = int(rng.integers(0, len(batches)))
        watermark = (timed[-1].time or 0) + int(rng.integers(0, 60))  # before it all rows are late for some query
        truth = Oracle(workload.asks)
        answers: list[sb.Answer] = []
        monitor = sb.Monitor(workload.queries(), algorithm=algorithm, time="t", id="id")
        for number, batch in enumerate(batches):
            if number == advances:
                truth.answer_until(watermark)
                answers += monitor.advance(watermark)
            truth.batch(batch)
            answers += monitor.push(table_of(batch, workload.text))
            for group in rankings(monitor):
                group.algorithm.check()
        truth.end()
        answers += monitor.finish()
        assert_same(replies_of(answers), truth.replies, f"{algorithm}, seed {seed}")
        assert all(answer.exact for answer in answers)
        stats = monitor.stats()
        assert (stats.rejected, stats.late, stats.partly_late) == (truth.rejected, truth.late, truth.partly_late)


@pytest.mark.parametrize("nothing", ["nan", "late"])
@pytest.mark.parametrize("algorithm", algorithms())
def test_a_batch_without_an_event_before_all_others_seals_nothing(algorithm: str, nothing: str) -> None:
    query = sb.Query("q", k=1, score="x", window=sb.Window(10, slide=5))
    monitor = sb.Monitor([query], algorithm=algorithm, time="t", id="id")
    if nothing == "late":
        monitor.advance(9)
    monitor.push([{"t": 25, "id": "a", "x": 1.0}])
    monitor.push([{"t": 3 if nothing == "nan" else -3, "id": "bad", "x": float("nan") if nothing == "nan" else 9.0}])
    monitor.push([{"t": 14, "id": "c", "x": 9.0}, {"t": 6, "id": "d", "x": 4.0}])
    answers = [(a.start, a.end, [row.id for row in a.rows], a.exact) for a in monitor.finish()]
    assert answers == [
        (0, 10, ["d"], True), (5, 15, ["c"], True), (10, 20, ["c"], True), (15, 25, [], True), (20, 30, ["a"], True),
        (25, 35, ["a"], True),
    ]  # fmt: skip


@pytest.mark.parametrize("shape", ["random", "rising", "falling", "jumping", "tied"])
@pytest.mark.parametrize("algorithm", algorithms())
def test_full_panes_equal_a_plain_sort(algorithm: str, shape: str) -> None:
    """Panes with far more events than k, where bars and guesses for bars do their work."""
    for seed, k in itertools.product(range(3), (1, 3, 30)):
        rng = np.random.default_rng(seed)
        n = 6000
        score = {
            "random": rng.normal(size=n),
            "rising": np.arange(n) * 1.0,
            "falling": np.arange(n) * -1.0,
            "jumping": rng.normal(size=n) + rng.choice([0, 1, 3, 100, -100], 60)[np.arange(n) // 100],
            "tied": rng.integers(0, 3, n).astype(float),
        }[shape]
        time = np.sort(rng.integers(0, 4000, n)) + rng.integers(-20, 20, n)
        data = {"t": time, "id": rng.integers(0, 500, n), "x": score}
        query = sb.Query("q", k=k, score="x", window=sb.Window(1000, slide=100))
        found = {}
        for rows in (n, 1700):
            run = sb.run(query, data, time="t", id="id", algorithm=algorithm, batch_rows=rows)
            found[rows] = [(answer.end, answer.rows) for answer in run]
        assert found[n] == found[1700]
        for at, got in found[n]:
            end = int(at)  # type: ignore[arg-type]
            inside = np.flatnonzero((time >= end - 1000) & (time < end))
            best = inside[best_first(score[inside], time[inside], data["id"][inside])][:k]
            assert [(row.id, row.score, row.time) for row in got] == [
                (data["id"][i], score[i], time[i]) for i in best
            ], f"{algorithm}, {shape}, seed {seed}, window that ends at {end}"


@pytest.mark.parametrize(("by", "best"), [(None, [599]), ("g", [598, 599])])
def test_one_event_amid_a_batch_may_lie_far_before_all_others(by: str | None, best: list[int]) -> None:
    time = np.full(600, 1_000)
    time[400] = 5
    data = {"t": time, "id": np.arange(600), "x": np.arange(600) * 1.0, "g": np.arange(600) % 2}
    query = sb.Query("q", k=1, score="x", window=sb.Window(500), partition_by=by)
    answers = sb.run(query, data, time="t", id="id")
    assert [(a.start, [row.id for row in a.rows]) for a in answers] == [(0, [400]), (500, []), (1_000, best)]


def test_one_id_that_is_far_better_than_in_the_pane_before_does_not_push_others_out() -> None:
    """What many ids reached in one pane, one reaches in the next as often, where it counts once."""
    n = 500
    score = np.concatenate([np.arange(n) % 100, np.where(np.arange(n) < 40, 200, np.arange(n) % 50)]) * 1.0
    ids = np.concatenate([np.arange(n), np.where(np.arange(n) < 40, 0, np.arange(n))])
    query = sb.Query("q", k=3, score="x", window=sb.Window(n), distinct="best")
    answers = sb.run(query, {"t": np.arange(2 * n), "id": ids, "x": score}, time="t", id="id")
    assert [[row.score for row in answer.rows] for answer in answers] == [[99.0] * 3, [200.0, 49.0, 49.0]]


@pytest.mark.parametrize("algorithm", algorithms())
def test_a_ranking_that_an_algorithm_does_not_know_is_refused(algorithm: str) -> None:
    for distinct in {*DISTINCTS} - {*sb.ALGORITHMS[algorithm].distincts}:
        plain = sb.Query("q", k=1, score="x", window=sb.Window(10))
        odd = replace(plain, distinct=distinct)  # type: ignore[arg-type]
        monitor = sb.Monitor([plain], algorithm=algorithm, time="t", id="id")
        refused = rf"'{algorithm}' ranks events.* no distinct='{distinct}'; .*one of .*staircase"
        with pytest.raises(sb.QueryError, match=refused):
            monitor.register(replace(odd, name="another"))
        with pytest.raises(sb.QueryError, match=refused):
            monitor.change(odd)
        assert [query.distinct for query in monitor.queries] == [None]
