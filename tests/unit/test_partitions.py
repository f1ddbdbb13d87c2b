"""Many partitions: keys by a table, heaps, sealing partition by partition; thresholds from events that come later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband import order
from skyband.algorithms.staircase import heap_kernels as heap
from skyband.algorithms.staircase import prefilter, scan_kernels
from skyband.events import keys
from skyband.events.keys import Keys
from skyband.expressions import integer_kernels, parse
from tests.groups import rankings

SEEDS = range(20)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_heaps_keep_the_best_of_each_pane_and_partition(seed: int, compiled: bool) -> None:
    rng = np.random.default_rng(seed)
    n, k, partitions, room = 300, 1 + seed % 5, 1 + seed % 4, (3, 100)[seed % 2]
    merit = np.where(rng.random(n) < 0.05, np.nan, rng.integers(0, 12, n).astype(float))
    time, part = np.sort(rng.integers(0, 50, n)) // (1 + seed % 7), rng.integers(0, partitions, n)
    cuts = np.arange(0, 61, 10)
    size = (len(cuts) - 1) * partitions
    bars = np.full(size, -np.inf), np.full(size, -(2**63), np.int64), np.full(size, -1, np.int64)
    heaps = np.empty((room, k)), np.empty((room, k), np.int32), np.zeros(room, np.int64), np.zeros(room, np.int64)
    tied = np.empty(2 if room == 3 else n, np.int64), np.empty(2 if room == 3 else n, np.int64)
    seen, late = np.array([0, 0, 0, 2**62, -(2**62), 0, 0]), np.empty(n, np.int64)
    scan, drain = (one if compiled else one.py_func for one in (heap.scan, heap.drain))
    rows: list[int] = []
    status, row = scan_kernels.FULL, 0
    while status == scan_kernels.FULL:
        status, row = scan(
            (merit, time, time, part), row, n, (cuts, partitions), bars, heaps, tied, np.array([2, 4]), k, seen, late
        )
        rows += drain(merit, time, bars, heaps, tied, seen).tolist()
    assert (status, row) == (scan_kernels.DONE, n)
    assert len(set(rows)) == len(rows), f"seed {seed}: a row is kept twice"
    assert seen[scan_kernels.REJECTED] == np.isnan(merit).sum()
    events = ~np.isnan(merit) & (time >= 2)
    assert sorted(late[: seen[scan_kernels.LATE]]) == np.flatnonzero(~np.isnan(merit) & (time < 2)).tolist()
    for slot in range(size):
        inside = np.flatnonzero(events & (time // 10 == slot // partitions) & (part == slot % partitions))
        best = inside[order.best_first(merit[inside], time[inside], inside)]
        tie = (merit[best] == merit[best[k - 1]]) & (time[best] == time[best[k - 1]]) if len(best) >= k else best < 0
        assert {*best[:k].tolist(), *best[tie].tolist()} <= set(rows), f"seed {seed}: one of the best is gone"
        if room == 100:
            assert len(set(rows) & set(inside.tolist())) <= k + tie.sum(), f"seed {seed}: more is kept than needed"


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_by_a_table_are_those_of_a_dictionary(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "SAMPLE", 4)
    monkeypatch.setattr(keys, "MOST_PLACES", (50, 10**9)[seed % 2])
    rng = np.random.default_rng(seed)
    by_table, known, column = Keys(), np.empty(0, np.int64), np.empty(0, np.int64)
    for _ in range(6):
        values = rng.integers(-20, 20, 30) * rng.choice([1, 7]) + rng.choice([0, 0, 100])
        nulls = rng.random(30) < 0.2 if rng.random() < 0.5 else None
        found, moved = by_table.encode(pa.array(values, mask=nulls))
        keys.move(column, moved)
        shown = values if nulls is None else np.where(nulls, 10**6, values)
        column, known = np.append(column, found), np.append(known, shown)
        kept = np.unique(known[known != 10**6])
        assert by_table.values.tolist() == kept.tolist()
        assert column.tolist() == np.where(known == 10**6, 0, np.searchsorted(kept, known) + 1).tolist()
        assert by_table.decode(column).fill_null(10**6).to_pylist() == known.tolist()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("divisor", [1, 2, 7, 10, 2**31 + 11, 2**52 - 1])
def test_remainders(divisor: int, compiled: bool) -> None:
    rng = np.random.default_rng(divisor)
    near = rng.integers(-(2**51) // divisor, 2**51 // divisor, 300, endpoint=True) * divisor
    edges = [-(2**63), -(2**63) + 1, 2**63 - 1, 2**52, 2**52 - 1, -(2**52), 1 - 2**52, 0, 1, -1]
    values = np.concatenate([near, near + 1, near - 1, rng.integers(-(2**62), 2**62, 300), edges])
    out = np.empty_like(values)
    remainders = integer_kernels.remainders if compiled else integer_kernels.remainders.py_func
    with np.errstate(over="ignore"):
        remainders(values, divisor, out)
    assert out.tolist() == [abs(value) % divisor * (1 if value >= 0 else -1) for value in values.tolist()]


@pytest.mark.parametrize(("text", "expected"), [("g % -3", [0, 1, 2, -1]), ("g % 0", [None] * 4), ("7 % g", [1] * 4)])
def test_remainders_in_expressions(text: str, expected: list[int | None]) -> None:
    batch = pa.record_batch({"g": pa.array([3, 4, 5, -4] if text[0] == "g" else [2, 3, 6, -2])})
    bound = parse(text).bind(batch.schema)
    assert bound.values(batch).to_pylist() == expected


@pytest.mark.parametrize("kind", ["rising", "constant", "steps", "disordered", "holes", "falling"])
@pytest.mark.parametrize("k", [1, 20, 500])
def test_thresholds_from_events_that_come_later(kind: str, k: int) -> None:
    rng = np.random.default_rng(k)
    n = 30_000
    time = np.arange(n)
    score = {
        "rising": time * 1.0, "constant": np.ones(n), "steps": time // 700 * 1.0, "falling": -time * 1.0,
        "disordered": time * 1.0, "holes": np.where(rng.random(n) < 0.5, np.nan, time),
    }[kind]  # fmt: skip
    if kind == "disordered":
        time = time + rng.integers(0, 4_000, n)
    query = sb.Query("q", k=k, score="x", window=sb.Window(9_000, slide=3_000))
    answers: Any = sb.run(query, {"t": time, "id": np.arange(n), "x": score}, time="t", id="id")
    known = ~np.isnan(score)
    for answer in answers:
        inside = np.flatnonzero(known & (time >= answer.start) & (time < answer.end))
        best = inside[order.best_first(score[inside], time[inside], inside)][:k]
        assert [row.id for row in answer.rows] == best.tolist(), f"{kind}, {answer}"


@pytest.mark.parametrize("distinct", [None, "best"])
def test_what_others_may_leave_out_is_the_same_for_one_pane_and_several(distinct: Any) -> None:
    rng = np.random.default_rng(3)
    query = sb.Query("q", k=3, score="x", partition_by="g", distinct=distinct, window=sb.Window(100, slide=10))
    monitor = sb.Monitor([query], time="t", id="id")
    n = 3_000
    rows = {"t": np.sort(rng.integers(0, 200, n)), "id": rng.integers(0, 40, n), "g": rng.integers(0, 7, n)}
    monitor.push(rows | {"x": rng.integers(0, 50, n).astype(float)})
    monitor.advance(50)
    (group,) = rankings(monitor)
    plan = group.thresholded
    assert plan is not None
    for step in (10, 50):
        edges = np.arange(50, 201, step)
        place, part, merit = plan.kth_best(edges)
        store, kept = group.store, group.algorithm.open  # type: ignore[attr-defined]
        expected = []
        for at, low in enumerate(edges[:-1].tolist()):
            for p in range(1, 8):
                inside = kept[(store.position[kept] >= low) & (store.position[kept] < low + step)]
                inside = inside[store.part[inside] == p]
                best = inside[store.best_first(inside)]
                if distinct:
                    best = best[np.sort(np.unique(store.key[best], return_index=True)[1])]
                expected += [(at, p, store.merit[best[2]])] if len(best) > 2 else []
        assert list(zip(place.tolist(), part.tolist(), merit.tolist(), strict=True)) == expected


def test_a_batch_that_reaches_further_than_it_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first, the middle and the last row say little of where a batch of partitions lies."""
    monkeypatch.setattr(prefilter, "PARALLEL_ROWS", 100)
    rng = np.random.default_rng(5)
    time = rng.permutation(1_000)
    time[[0, 500, 999]] = 500, 501, 502
    rows = {"t": time, "id": np.arange(1_000), "x": rng.random(1_000), "g": rng.integers(0, 3, 1_000)}
    query = sb.Query("q", k=2, score="x", partition_by="g", window=sb.Window(100))
    found, wanted = (
        [[row.id for row in answer.rows] for answer in sb.run(query, rows, time="t", id="id", algorithm=name)]
        for name in ("staircase", "naive")
    )
    assert found == wanted
