"""Topk+N against brute force: Table 1 of AcquaTop cell by cell, what it proves, and what it must remember."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.engine import snapshot
from skyband.errors import QueryError
from skyband.remote.objects import Arrivals
from skyband.remote.topkn import TopkN
from skyband.windows import WindowGrid

SIZE, SLIDE = 12, 4
WINDOWS = WindowGrid(SIZE, SLIDE)


class World:
    """Everything that ever came, and every remote value: slow and obvious."""

    def __init__(self, order: str = "desc") -> None:
        self.events: list[tuple[int, float, int]] = []  # id, stream, time
        self.remote: dict[int, float] = {}
        self.sign = 1 if order == "desc" else -1

    def ranking(self, window: int, current: int) -> list[int]:
        """Return the ids of a window, the best first, if no more came than what the current window knows."""
        latest: dict[int, tuple[float, int]] = {}
        for name, stream, time in self.events:
            if WINDOWS.start(current) + SIZE > time and time >= latest.get(name, (0.0, time))[1]:
                latest[name] = stream, time
        alive = {name: both for name, both in latest.items() if both[1] >= WINDOWS.start(window)}
        alive = {name: both for name, both in alive.items() if not np.isnan(self.remote[name])}
        return sorted(
            alive, key=lambda name: (-self.sign * (alive[name][0] + self.remote[name]), -alive[name][1], name)
        )


def arrive(top: TopkN, world: World, events: list[tuple[int, float, int]]) -> None:
    world.events += events
    for name, *_ in events:
        world.remote.setdefault(name, 0.0)
    if events:
        names, stream, time = (list(column) for column in zip(*events, strict=True))
        top.arrive(Arrivals.of(names, stream, time, [world.remote[name] for name in names]))


def change(top: TopkN, world: World, values: dict[int, float]) -> None:
    world.remote |= values
    top.change(dict(values.items()))


def made(k: int, n: int, **options: Any) -> TopkN:
    top = TopkN(k=k, n=n, windows=WindowGrid(SIZE, SLIDE), score=np.add, **options)
    top.go_to(0)
    return top


def ids(objects: list[Any]) -> list[int]:
    return [one.id for one in objects]


def filled(seed: int, k: int, n: int, **options: Any) -> tuple[TopkN, World, random.Random]:
    """Return a list and its world after some windows of distinct objects, in which nothing has changed."""
    chance = random.Random(seed)
    top, world = made(k, n, **options), World(options.get("order", "desc"))
    current = chance.randrange(3)
    names = iter(chance.sample(range(1_000), 1_000))
    for window in range(current + 1):
        top.go_to(window)
        count = chance.randrange(4, 25)
        low = max(WINDOWS.end(window) - (SIZE if window == 0 else SLIDE), 0)
        events = [
            (next(names), float(chance.randrange(12)), chance.randrange(low, WINDOWS.end(window))) for _ in range(count)
        ]
        arrive(top, world, events)
    return top, world, chance


def area(ranking: list[int], name: int, k: int, n: int) -> str:
    if name not in ranking:
        return "gone"
    place = ranking.index(name)
    return "K" if place < k else "N" if place < k + n else "outside"


def in_list(top: TopkN, window: int, name: int) -> str:
    k_list, n_list = top.lists(window)
    return "K" if name in ids(k_list) else "N" if name in ids(n_list) else "outside"


def one_change(seed: int, cells: dict[tuple[str, str], int]) -> None:
    """Every window that was exact stays so, as Table 1 says for the areas that the changed object leaves and enters."""
    k, n = 1 + seed % 4, 1 + seed // 4 % 3
    top, world, chance = filled(seed, k, n)
    current = top.current
    assert current is not None
    name = chance.choice([event[0] for event in world.events])
    horizon = range(current, max((one.end for one in top.list), default=current) + 1)
    before = {window: world.ranking(window, current) for window in horizon}
    for window in horizon:  # nothing has changed so far: exact
        assert ids(top.lists(window)[0]) == before[window][:k]
    change(top, world, {name: float(chance.randrange(-12, 13))})
    top.check()
    for window in horizon:
        start, truth = area(before[window], name, k, n), world.ranking(window, current)
        goal = in_list(top, window, name) if start == "outside" else area(truth, name, k, n)
        cells[start, goal] = cells.get((start, goal), 0) + 1
        got, wanted = ids(top.lists(window)[0]), truth[:k]
        if start in ("K", "N"):
            assert got == wanted, f"seed {seed}: {start} to {goal} in window {window}"
        elif start == "outside" and goal == "K":
            assert set(got) == set(wanted), f"seed {seed}"  # precision is exact, the order need not be
        elif start == "outside" and area(truth, name, k, n) == "outside":
            assert got == wanted, f"seed {seed}"


def test_table_1_cell_by_cell() -> None:
    met: dict[tuple[str, str], int] = {}
    for seed in range(400):
        one_change(seed, met)
    cells = [(start, goal) for start in ("K", "N", "outside") for goal in ("K", "N", "outside")]
    assert all(met.get(cell, 0) >= 10 for cell in cells), met


@pytest.mark.parametrize("seed", range(20))
def test_up_to_n_changes_of_listed_objects_leave_the_answer_exact(seed: int) -> None:
    k, n = 2, 3
    top, world, chance = filled(seed, k, n)
    assert top.current is not None
    listed = ids([one for area in top.lists(top.current) for one in area])
    chosen = chance.sample(listed, min(n, len(listed)))
    change(top, world, {name: float(chance.randrange(-20, 5)) for name in chosen})
    top.check()
    assert ids(top.best()) == world.ranking(top.current, top.current)[:k]


def test_more_than_n_changes_can_break_it_and_then_it_says_so() -> None:
    top, world = made(1, 1), World()
    arrive(top, world, [(1, 9.0, 0), (2, 8.0, 0), (3, 7.0, 0)])
    assert top.exact
    change(top, world, {1: -9.0, 2: -8.0})  # both fall below 3, which was not kept
    assert world.ranking(0, 0) == [3, 1, 2]
    assert ids(top.best()) != [3]
    assert not top.exact


def test_what_was_pushed_out_is_not_forgotten_as_a_doubt() -> None:
    top, world = made(1, 0), World()
    arrive(top, world, [(1, 5.0, 0)])
    arrive(top, world, [(2, 9.0, 0)])
    assert top.exact
    change(top, world, {2: -8.0})
    assert (ids(top.best()), world.ranking(0, 0)) == ([2], [1, 2])
    assert not top.exact


def test_an_object_from_outside_may_be_better_than_its_bound() -> None:
    top, world = made(1, 1), World()
    arrive(top, world, [(1, 9.0, 0), (2, 8.0, 1), (3, 5.0, 2), (4, 2.0, 3)])
    change(top, world, {3: 5.5})  # 10.5 in truth, at least 7.5
    assert (ids(top.best()), world.ranking(0, 0)[:1]) == ([1], [3])
    assert not top.exact
    top.go_to(1)
    assert top.exact  # it has left


def test_an_object_from_outside_has_the_least_score_it_can_have() -> None:
    top, world = made(1, 1), World()
    arrive(top, world, [(1, 9.0, 0), (2, 8.0, 1), (3, 5.0, 2), (4, 2.0, 3)])
    change(top, world, {3: 10.0})
    assert [(one.id, one.merit, one.bound) for one in top.best()] == [(3, 12.0, True)]  # 2 is the least of its peers
    assert not top.exact
    arrive(top, world, [(3, 5.0, 2)])  # seen again, it has its own score
    assert [(one.id, one.merit, one.bound) for one in top.best()] == [(3, 15.0, False)]


def test_the_least_score_is_that_of_peers_not_of_the_last_window() -> None:
    """A minimum that is forgotten with each window would give object 2 more than it has."""
    top, world = made(1, 0), World()
    arrive(top, world, [(1, 9.0, 9), (2, 1.0, 9)])
    top.go_to(1)
    arrive(top, world, [(3, 8.0, 13), (4, 7.0, 13)])
    change(top, world, {2: 7.5})
    assert ids(top.best()) == world.ranking(1, 1)[:1] == [1]


def test_changes_from_outside_can_be_ignored() -> None:
    top, world = made(1, 1, outside="ignore"), World()
    arrive(top, world, [(1, 9.0, 0), (2, 8.0, 1), (3, 5.0, 2)])
    change(top, world, {3: 10.0})
    assert (ids(top.best()), top.ignored, top.exact) == ([1], 1, False)
    assert len(top._seen) == 0


def test_small_scores_can_be_better() -> None:
    top, world = made(1, 1, order="asc"), World("asc")
    arrive(top, world, [(1, 1.0, 0), (2, 2.0, 1), (3, 5.0, 2), (4, 9.0, 3)])
    assert ids(top.list) == [1, 2]
    change(top, world, {3: -20.0})
    assert [(one.id, one.merit) for one in top.best()] == [(3, 11.0)]  # 9 - 20 at worst
    assert ids(top.best()) == world.ranking(0, 0)[:1]


def test_an_object_without_a_partner_leaves() -> None:
    top, world = made(1, 1), World()
    arrive(top, world, [(1, 9.0, 0), (2, 8.0, 1)])
    change(top, world, {1: float("nan")})
    assert ids(top.list) == [2]
    change(top, world, {1: 5.0})
    assert [(one.id, one.merit, one.bound) for one in top.best()] == [(1, 13.0, True)]


def test_many_objects_may_share_a_remote_row() -> None:
    top = made(3, 0)
    top.arrive(Arrivals.of([1, 2, 3], [5.0, 4.0, 3.0], [0, 0, 0], [0.0, 1.0, 1.0], ["x", "y", "y"]))
    top.change({"y": 10.0})
    assert [(one.id, one.merit) for one in top.list] == [(2, 14.0), (3, 13.0), (1, 5.0)]


def test_the_latest_event_of_an_id_counts() -> None:
    top, world = made(2, 0), World()
    arrive(top, world, [(1, 9.0, 3), (2, 5.0, 3)])
    arrive(top, world, [(1, 1.0, 5)])
    assert [(one.id, one.merit) for one in top.best()] == [(2, 5.0), (1, 1.0)]
    arrive(top, world, [(1, 99.0, 4)])  # older than what is there
    assert [(one.id, one.merit) for one in top.best()] == [(2, 5.0), (1, 1.0)]


def test_late_and_unusable_events_are_counted_and_later_ones_wait() -> None:
    top = made(1, 0)
    top.go_to(2)  # [8, 20)
    top.arrive(Arrivals.of([1, 2, 3, 4], [9.0, 1.0, 8.0, np.nan], [3, 10, 21, 10], np.zeros(4)))
    assert (ids(top.best()), top.late, top.rejected) == ([2], 1, 1)
    top.go_to(3)
    assert ids(top.best()) == [3]


def test_windows_are_answered_in_order() -> None:
    top = made(1, 0)
    top.go_to(3)
    with pytest.raises(QueryError, match="window 2 has passed"):
        top.go_to(2)


@pytest.mark.parametrize(
    "options", [{"k": 0, "n": 1, "slide": 2}, {"k": 1, "n": -1, "slide": 2}, {"k": 1, "n": 1, "slide": 5}]
)
def test_mistakes(options: dict[str, Any]) -> None:
    with pytest.raises(QueryError):
        TopkN(score=np.add, windows=WindowGrid(4, options.pop("slide")), **options)


def test_no_window_ends_there() -> None:
    with pytest.raises(QueryError, match="one ends at 12, the next at 16"):
        WINDOWS.ending(14)


# Anything at all: what it claims is true, its marks are right, and a snapshot goes on as if nothing had happened.

events = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5).map(float), st.integers(0, 6)), max_size=8)
step = st.one_of(
    st.tuples(st.just("arrive"), events),
    st.tuples(st.just("change"), st.dictionaries(st.integers(0, 12), st.integers(-6, 6).map(float), max_size=4)),
    st.tuples(st.just("next"), st.integers(1, 2)),
)


def run(top: TopkN, world: World, kind: str, what: Any, clock: int) -> int:
    """Do one step; return the clock. Times are non-decreasing, and may be ahead of the current window."""
    if kind == "arrive":
        stamped = []
        for name, score, pause in what:
            clock += pause
            stamped.append((name, score, clock))
        arrive(top, world, stamped)
    elif kind == "change":
        change(top, world, {name: value for name, value in what.items() if name in world.remote})
    else:
        assert top.current is not None
        top.go_to(top.current + what)
        clock = max(clock, WINDOWS.start(top.current))
    return clock


@settings(max_examples=300, deadline=None)
@given(st.lists(step, max_size=25), st.integers(1, 3), st.integers(0, 2), st.sampled_from(["bound", "ignore"]))
def test_what_it_proves_is_true(steps: list[Any], k: int, n: int, outside: Any) -> None:
    top, world, clock = made(k, n, outside=outside), World(), 0
    for kind, what in steps:
        clock = run(top, world, kind, what, clock)
        top.check()
        assert top.current is not None
        if top.exact:
            assert ids(top.best()) == world.ranking(top.current, top.current)[:k]


@settings(max_examples=200, deadline=None)
@given(st.lists(events, max_size=8), st.integers(1, 3), st.integers(0, 2))
def test_without_changes_it_is_exact_and_knows_it(batches: list[Any], k: int, n: int) -> None:
    top, world, clock, name = made(k, n), World(), 0, 0
    for batch in batches:
        stamped = []
        for _, score, pause in batch:
            clock, name = clock + pause, name + 1
            stamped.append((name, score, clock))
        while top.current is not None and stamped and clock >= WINDOWS.end(top.current):
            assert top.exact
            assert ids(top.best()) == world.ranking(top.current, top.current)[:k]
            top.go_to(top.current + 1)
        arrive(top, world, stamped)
        top.check()


@settings(max_examples=100, deadline=None)
@given(st.lists(step, max_size=10), st.lists(step, max_size=10), st.integers(1, 2), st.integers(0, 2))
def test_a_snapshot_goes_on_as_if_nothing_had_happened(before: list[Any], after: list[Any], k: int, n: int) -> None:
    top, world, clock = made(k, n), World(), 0
    for kind, what in before:
        clock = run(top, world, kind, what, clock)
    meta, tables, _ = snapshot.decode(snapshot.encode(*top.state(), []))
    restored = TopkN(k=k, n=n, windows=WindowGrid(SIZE, SLIDE), score=np.add)
    restored.load((meta, tables))
    twin = World()
    twin.events, twin.remote = list(world.events), dict(world.remote)
    for kind, what in [("change", {}), *after]:
        run(restored, twin, kind, what, clock)
        clock = run(top, world, kind, what, clock)
        assert restored.list == top.list
        assert (restored.pointers(), restored.exact) == (top.pointers(), top.exact)


def test_an_object_outside_the_list_follows_the_remote_row_that_it_came_with_last() -> None:
    top = made(1, 0)
    top.arrive(Arrivals.of([1, 2], [9.0, 1.0], [8, 8], [0.0, 0.0], [10, 20]))
    top.arrive(Arrivals.of([2], [1.0], [9], [0.0], [30]))  # the row 20 is that of nobody any more
    top.change({20: 50.0})
    assert (ids(top.best()), top.exact) == ([1], True)
    restored = TopkN(k=1, n=0, windows=WindowGrid(SIZE, SLIDE), score=np.add)
    restored.load(top.state())
    for one in (top, restored):
        one.change({30: 50.0})
        assert (ids(one.best()), one.exact) == ([2], False)


def test_an_object_that_leaves_the_list_by_a_change_leaves_no_doubt() -> None:
    top = made(1, 1)
    arrive(top, World(), [(1, 9.0, 8), (2, 8.0, 9), (3, 7.0, 10)])
    top.change({1: -9.0})
    assert (ids(top.best()), top.exact) == ([2], True)


def test_it_stays_small_whatever_comes() -> None:
    chance = np.random.default_rng(3)
    top = TopkN(k=10, n=10, windows=WindowGrid(100, 10), score=np.add, outside="ignore")
    for window in range(30):
        top.go_to(window)
        time = chance.integers(top.windows.end(window) - 10, top.windows.end(window), 20_000)
        names = np.arange(window * 20_000, (window + 1) * 20_000)
        top.arrive(Arrivals.of(names, chance.random(20_000), time, np.zeros(20_000)))
        assert len(top.list) <= 20 * 10
    assert len(top.list) < 120  # about (k + n) ln(windows) and some
    assert not top._seen
    assert len(top._lost) <= 10
