"""Bands that change their method with the order of the stream: when they do, what is exact then, what is reported."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms.topkw import random_order
from skyband.algorithms.topkw.adaptive import AdaptiveBands
from skyband.algorithms.topkw.band_kernels import ENTERED, LEFT
from skyband.algorithms.topkw.bands import PROBABLE, RELAXED, Bands, BandSpec, Method
from skyband.algorithms.topkw.random_order import BLOCK
from tests.unit.test_bands import Restless, cost, spec_of, stream
from tests.unit.test_random_order import STREAMS, noise

WINDOW, K = 3 * BLOCK, 4
RAPF = Method(RELAXED, PROBABLE)
CALM = 10 * BLOCK  # events in random order before anything changes
Reported = tuple[int, int, int]


def specs() -> list[BandSpec]:
    """Return queries for the best by either end, and for the nearest to the middle."""
    ends = [BandSpec(K, WINDOW, WINDOW, sign=sign, point=(0.0,), weight=(1.0,)) for sign in (1.0, -1.0)]
    return [*ends, BandSpec(K, WINDOW // 2, WINDOW // 2, family=1, point=(0.0,), weight=(1.0,))]


def passed(bands: Bands, x: np.ndarray, step: int = 250) -> Iterator[set[Reported]]:
    """Yield what is reported, step by step: query, what happened, event."""
    number = np.arange(len(x))
    for begin in range(0, len(x), step):
        piece = number[begin : begin + step]
        reports = bands.process(x[piece], piece, piece, number, np.zeros_like(number))
        assert np.all(np.diff(reports.at) >= 0)
        assert np.all((reports.at >= 0) & (reports.at < step))
        yield set(zip(reports.row.tolist(), reports.kind.tolist(), reports.slot.tolist(), strict=True))


def best(spec: BandSpec, x: np.ndarray, until: int) -> list[int]:
    """Return the top k by the definition, where events lie at their numbers."""
    inside = range(max(until - spec.size, 0), until)
    costs = cost(spec, x[inside.start : until])
    return sorted(inside, key=lambda i: (costs[i - inside.start], -i))[: spec.k]


def is_exact(bands: Bands, row: int) -> bool:
    """Tell whether the top k of a query is sure to be exact now."""
    return bool(bands.exactness(np.array([row]), np.array([bands.passed]))[0])


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_becomes_correlated_is_found_out_and_nothing_of_it_is_lost(name: str) -> None:
    x = np.concatenate([noise(CALM, 1), 3 * STREAMS[name](6 * BLOCK)])
    bands, plain, exact = AdaptiveBands(RAPF, 1), Bands(Method(PROBABLE), 1), Bands(RAPF, 1)
    asked = specs()
    for one in (bands, plain, exact):
        one.add(asked)
    missed = {"adaptive": 0, "pa": 0}
    after = 0
    for found, by_pa, truth in zip(passed(bands, x), passed(plain, x), passed(exact, x), strict=True):
        after += 250
        missed["adaptive"] += len(truth - found)
        missed["pa"] += len(truth - by_pa)
        if WINDOW + BLOCK <= after < CALM:
            assert bands.using == "pa"
        if after >= CALM + 2 * BLOCK:
            assert bands.using == "rapf"
            assert CALM < bands.switched <= CALM + 2 * BLOCK
        for row, spec in enumerate(asked):
            if after <= WINDOW or after >= CALM + WINDOW:
                assert is_exact(bands, row)
            if is_exact(bands, row):
                assert bands.top(row).tolist() == best(spec, x, after)
    assert bands.switches == 2
    assert missed["adaptive"] == 0
    assert missed["pa"] > 0 or name not in ("sorted", "random walk"), "or the test says nothing"


def test_when_order_returns_so_does_pa_after_a_window() -> None:
    x = np.concatenate([np.cumsum(noise(4 * BLOCK), axis=0), noise(10 * BLOCK, 1)])
    bands = AdaptiveBands(RAPF, 1)
    bands.add(specs())
    assert bands.why == "fewer than 1,000 events came, too few to judge their order"
    used = []
    for _ in passed(bands, x, BLOCK):
        used.append(bands.using)
        if bands.using == "rapf" and len(used) <= 4:
            assert bands.why.startswith("the order of the last 1,000 events is not random: neighbours are alike")
    assert used == ["rapf"] * 7 + ["pa"] * 7, "a yardstick, then a window"
    assert bands.why.startswith("4 blocks of 1,000 events were compared, nothing is alarming")


def test_a_query_that_comes_with_rapf_is_exact_at_once_and_one_that_comes_with_pa_is_not() -> None:
    x = np.concatenate([noise(CALM), np.cumsum(noise(2 * BLOCK), axis=0)])
    bands = AdaptiveBands(RAPF, 1)
    bands.add(specs())
    number, zero = np.arange(len(x)), np.zeros(len(x), np.int64)
    bands.process(x[:CALM], number[:CALM], number[:CALM], number, zero)
    (early,) = bands.add(specs()[:1])
    assert bands.using == "pa"
    assert not is_exact(bands, early)
    rest = slice(CALM, CALM + BLOCK)
    bands.process(x[rest], number[rest], number[rest], number, zero)
    (late,) = bands.add(specs()[:1])
    assert bands.using == "rapf"
    assert is_exact(bands, early), "nothing that it saw is lost"
    assert is_exact(bands, late)
    assert not is_exact(bands, 0)
    bands.remove([early])
    bands.check()


@pytest.mark.parametrize("seed", range(8))
def test_reports_fit_together_even_where_pa_errs_all_the_time(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no candidates and a method that changes every few events; exact where it says so."""
    monkeypatch.setattr(random_order, "BLOCK", 7)
    rng = np.random.default_rng(seed)
    x, _ = stream(3 * seed, n=600)  # a random walk
    asked = [spec_of(rng, x, 40) for _ in range(5)]
    bands = Restless(Method(RELAXED, PROBABLE, buffer=10, limit=0, additional=0), 2, changes=True)
    bands.add(asked)
    heard: list[set[int]] = [set() for _ in asked]
    now: list[set[int]] = [set() for _ in asked]
    number, exact = np.arange(len(x)), 0
    for e in range(len(x)):
        reports = bands.process(x[e : e + 1], number[e : e + 1], number[e : e + 1], number, np.zeros_like(number))
        for row, slot, kind in zip(reports.row.tolist(), reports.slot.tolist(), reports.kind.tolist(), strict=True):
            if kind == LEFT:
                now[row].remove(slot)
            else:
                assert slot not in now[row]
                assert (slot in heard[row]) == (kind != ENTERED), "entered once, returned after that"
                heard[row].add(slot)
                now[row].add(slot)
        for row, spec in enumerate(asked):
            assert now[row] == set(bands.top(row).tolist())
            if is_exact(bands, row):
                exact += 1
                costs = cost(spec, x[: e + 1])
                inside = [i for i in range(max(e + 1 - spec.size, 0), e + 1) if costs[i] == costs[i]]
                assert bands.top(row).tolist() == sorted(inside, key=lambda i: (costs[i], -i))[: spec.k]
    assert bands.switches > 10
    assert exact > 20


def test_a_monitor_says_what_is_used_and_why_and_goes_on_after_a_restart() -> None:
    x = np.concatenate([noise(CALM), np.cumsum(noise(4 * BLOCK), axis=0)])[:, 0]
    query = sb.Query("q", k=3, score="x", window=sb.Window("2000 events", slide="500 events"))
    monitor = sb.Monitor([query], algorithm="adaptive", time="t", id="t")
    truth = {
        a.end: [row.time for row in a.rows] for a in sb.run(query, {"t": np.arange(len(x)), "x": x}, time="t", id="t")
    }
    said, wrong = [], 0
    for begin in range(0, len(x), 500):
        for answer in monitor.push({"t": np.arange(begin, begin + 500), "x": x[begin : begin + 500]}):
            wrong += [row.time for row in answer.rows] != truth[answer.end]
        monitor = sb.Monitor.restore(monitor.snapshot())
        (group,) = monitor.stats().groups
        said.append(group.method_in_use)
        assert group.kept <= group.bound
        assert f"uses {group.method_in_use}" in monitor.explain()
    assert wrong == 0
    assert said[0] == "rapf from the start: fewer than 1,000 events came, too few to judge their order"
    assert said[CALM // 500 - 1].startswith("pa since event 3,000 (change 1): ")
    assert said[-1].startswith("rapf since event 11,000 (change 2): the order of the last 1,000 events is not random")


def test_partitions_are_judged_by_themselves() -> None:
    n = 5 * BLOCK
    table = {
        "t": np.arange(2 * n),
        "p": np.arange(2 * n) % 2,
        "x": np.column_stack([noise(n), np.cumsum(noise(n))]).ravel(),
    }
    query = sb.Query("q", k=3, score="x", window=sb.Window(2000, slide=500), partition_by="p")
    monitor = sb.Monitor([query], algorithm="adaptive", time="t", id="t")
    monitor.push(table)
    monitor.advance(2 * n)
    assert (
        monitor.stats()
        .groups[0]
        .method_in_use.startswith("pa in 1 bands, rapf in 1 bands; the last: pa since event 3,000")
    )


@pytest.mark.parametrize("algorithm", ["pa", "adaptive"])
def test_answers_say_that_they_are_approximate_and_not_that_they_warm_up_for_ever(algorithm: str) -> None:
    def query(name: str) -> sb.Query:
        return sb.Query(name, k=1, score="x", window=sb.Window("4 events", slide="2 events"))

    monitor = sb.Monitor([query("q")], algorithm=algorithm, time="t", id="t")
    first = monitor.push({"t": [1, 2, 3, 4, 5], "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
    assert first.table(quality=True)["why"].to_pylist() == ["approximate"] * 2
    found = list(first)
    monitor.register(query("late"))
    found += monitor.push({"t": [6, 7, 8, 9, 10], "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
    said = {name: [a.why for a in found if a.query == name and not a.exact] for name in ("q", "late")}
    assert said == {"q": ["approximate"] * 5, "late": ["warming up", "warming up", "approximate"]}
