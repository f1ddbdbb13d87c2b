"""MinTopK, MTopBand and MTopList equal their references: answers, kept objects, result sets, marks and pointers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms.in_order import PerQuery
from skyband.algorithms.mtops.mtopband import Band
from skyband.algorithms.mtops.top_list import TopList
from tests.groups import rankings
from tests.references import mtops
from tests.references.objects import Object

SEEDS = range(40)
Answers = dict[tuple[str, int], list[int]]


def workload(seed: int) -> tuple[list[mtops.Query], list[Object]]:
    """Draw queries and a stream: scores with ties, rising, falling or any; gaps; several objects at one moment."""
    random = np.random.default_rng(seed)
    queries = []
    for i in range(random.integers(1, 6)):
        win = int(random.integers(1, 25))
        slide, k = int(random.integers(1, win + 1)), int(random.choice([1, 2, 3, 5, 9]))
        queries.append(mtops.Query(f"Q{i}", win, slide, k, int(random.integers(0, slide))))
    n = int(random.integers(20, 90))
    times = np.cumsum(random.integers(0, random.integers(2, 4), n)) + np.where(np.arange(n) > n // 2, 30, 0)
    scores = [random.normal(size=n), random.integers(0, 4, n), np.arange(n), -np.arange(n)][random.integers(4)]
    ids = random.permutation(n)
    return queries, [
        Object(float(s), int(t), int(i)) for s, t, i in zip(scores.tolist(), times.tolist(), ids.tolist(), strict=True)
    ]


def query_of(Q: mtops.Query) -> sb.Query:
    return sb.Query(Q.name, k=Q.k, score="F", window=sb.Window(Q.win, slide=Q.slide, offset=Q.offset))


class Reference:
    """Collects what references answer."""

    def __init__(self) -> None:
        self.answers: Answers = {}

    def output(self, query: mtops.Query, end: int, result: list[Object]) -> None:
        self.answers[query.name, end] = [o.id for o in result]


class Fast:
    """A monitor that is told of the stream step by step."""

    def __init__(self, queries: list[mtops.Query], algorithm: str) -> None:
        self.monitor = sb.Monitor([query_of(Q) for Q in queries], algorithm=algorithm, time="time", id="id")
        self.answers: Answers = {}

    def push(self, objects: list[Object], now: int) -> None:
        self.monitor.push([{"time": o.time, "id": o.id, "F": o.F} for o in objects])
        for answer in self.monitor.advance(now):
            self.answers[answer.query, int(answer.end)] = [row.id for row in answer.rows]  # type: ignore[misc, arg-type]

    @property
    def algorithm(self) -> Any:
        (group,) = rankings(self.monitor)
        return group.algorithm

    def keeper(self) -> Any:
        """Return the structure of the only partition; None before it has anything."""
        return next(iter(self.algorithm.keepers.values()), None)

    def id_of(self, slot: int) -> Any:
        return self.algorithm.store.key[slot]


def steps(objects: list[Object]) -> Iterator[tuple[list[Object], int]]:
    """Yield the objects of a few moments at once, and the moment that follows them."""
    while objects:
        now = objects[0].time + 4
        yield [o for o in objects if o.time < now], now
        objects = [o for o in objects if o.time >= now]


def ids_of(fast: Fast) -> dict[int, int]:
    """Return the ids of all events, by slot: ids are whole numbers, which the store keeps as they are."""
    slots = fast.algorithm.kept().tolist()
    return {slot: int(fast.id_of(slot)) for slot in slots}


@pytest.mark.parametrize("seed", SEEDS)
def test_mtoplist(seed: int) -> None:
    queries, objects = workload(seed)
    reference, fast = Reference(), Fast(queries, "mtoplist")
    executor = mtops.MTopList(queries, reference.output)
    for part, now in steps(objects):
        fast.push(part, now)
        executor.run(part)
        executor.advance(now)
        assert fast.answers == reference.answers, f"seed {seed}, at {now}"
        keeper, ids = fast.keeper(), ids_of(fast)
        assert set(ids.values()) == {o.id for o in executor.kept()}, f"seed {seed}, at {now}"
        if ids:
            assert isinstance(keeper, TopList)
            marks = [(ids[slot], first, last) for slot, first, last in keeper.marks()]
            assert marks == [(o.id, first, last) for o, first, last in executor.marks()], f"seed {seed}, at {now}"
            pointers = {start: ids[slot] for start, slot in keeper.pointers().items()}
            assert pointers == {start: o.id for start, o in executor.pointers().items()}, f"seed {seed}, at {now}"
    assert fast.answers, f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_mtopband(seed: int) -> None:
    queries, objects = workload(seed)
    reference, fast = Reference(), Fast(queries, "mtopband")
    executor = mtops.MTopBand(queries, reference.output)
    for part, now in steps(objects):
        fast.push(part, now)
        executor.run(part)
        executor.advance(now)
        assert fast.answers == reference.answers, f"seed {seed}, at {now}"
        keeper, ids = fast.keeper(), ids_of(fast)
        assert set(ids.values()) == {o.id for o in executor.kept()}, f"seed {seed}, at {now}"
        if ids:
            assert isinstance(keeper, Band)
            band = {start: [ids[slot] for slot in held] for start, held in keeper.lists().items() if held}
            expected = {start: [o.id for o in result] for start, result in executor.band.items() if result}
            assert band == expected, f"seed {seed}, at {now}"


@pytest.mark.parametrize("seed", SEEDS)
def test_mintopk(seed: int) -> None:
    """Of queries with the same windows, the fast one keeps one list, that of the deepest: the same objects."""
    queries, objects = workload(seed)
    reference, fast = Reference(), Fast(queries, "mintopk")
    each = [mtops.MinTopK(Q, reference.output) for Q in queries]
    for part, now in steps(objects):
        fast.push(part, now)
        for one in each:
            one.run(part)
            one.advance(now)
        assert fast.answers == reference.answers, f"seed {seed}, at {now}"
        keeper, ids = fast.keeper(), ids_of(fast)
        assert set(ids.values()) == {o.id for one in each for o in one.kept()}, f"seed {seed}, at {now}"
        if ids:
            assert isinstance(keeper, PerQuery)
            found = {(s.size, s.slide, s.phase, s.k): top.marks() for s, top in keeper.keepers}  # type: ignore[attr-defined]
            for one in each:
                if marks := found.get((one.Q.win, one.Q.slide, one.Q.offset % one.Q.slide, one.Q.k)):
                    expected = [(o.id, first, last) for o, first, last in one.marks()]
                    assert [(ids[slot], first, last) for slot, first, last in marks] == expected, f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_three_keep_the_same(seed: int) -> None:
    """Theorem 5.1.1: what MTopBand keeps is minimal; MTopList keeps the same, each object once."""
    queries, objects = workload(seed)
    reference = Reference()
    band, one_list = mtops.MTopBand(queries, reference.output), mtops.MTopList(queries, reference.output)
    for o in objects:
        band.run([o])
        one_list.run([o])
        assert band.kept() == one_list.kept(), f"seed {seed}, at {o.time}"


@pytest.mark.parametrize("algorithm", ["mintopk", "mtopband", "mtoplist"])
def test_a_view_without_events_closes(algorithm: str) -> None:
    """Windows that begin and end between two events hold nothing afterwards."""
    fast = Fast([mtops.Query("Q", 4, 2, 1)], algorithm)
    fast.push([Object(1.0, 0, 0)], 1)
    fast.push([Object(9.0, 100, 1)], 101)
    fast.push([Object(1.0, 200, 2)], 201)
    assert set(ids_of(fast).values()) == {2}
