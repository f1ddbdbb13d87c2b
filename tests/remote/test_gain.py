"""AT-GAIN: looks where something can change, learns how, spends where it helps, and saves within its bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.remote.accuracy import ndcg, precision
from skyband.errors import InputError
from skyband.order import FloatArray
from skyband.remote import Remote
from skyband.remote.acquatop import acquatop
from skyband.remote.election import CarryOver
from skyband.remote.policies import GAINING, POLICIES, Candidates
from skyband.remote.replica import Replica
from skyband.remote.services import Limits
from skyband.remote.services.base import Id
from skyband.times import SECOND
from skyband.windows import WindowGrid


def objects(scores: Sequence[float], **columns: Any) -> Candidates:
    """Return objects that were refreshed 60 ago and change every 60; once changed, a score goes up or down by 1."""
    rows, score = len(scores), np.array(scores, np.float64)
    given_columns: dict[str, Any] = {
        "now": 100, "size": 50, "slide": 50, "k": 2, "place": np.arange(rows), "time": np.full(rows, 90),
        "score": score, "value": score, "refreshed": np.full(rows, 40),
        "best_before": np.full(rows, 100), "interval": np.full(rows, 60),
        "possible_scores": score[:, None] + np.array([-1.0, 1.0]),
    }  # fmt: skip
    return Candidates(**(given_columns | columns))


def gains(candidates: Candidates) -> list[float]:
    gain = POLICIES["AT-GAIN"].gain
    assert gain is not None
    return [float(each) for each in gain(candidates)]


def test_who_can_cross_no_rank_gains_nothing() -> None:
    found = gains(objects([30.0, 20.0, 10.0, 9.5, 0.0]))
    assert found[4] == pytest.approx(0.0, abs=1e-6)  # far below
    assert min(found[2:4]) > 100 * found[4]  # these two may change places


def test_the_older_and_the_faster_gain_more() -> None:
    even = [10.0, 10.5, 9.5, 9.8]
    young = gains(objects(even, refreshed=np.array([40, 40, 95, 40])))
    slow = gains(objects(even, interval=np.array([60, 60, 6_000, 60])))
    assert young[2] < gains(objects(even))[2] > slow[2]
    assert gains(objects(even, refreshed=np.array([40, 40, 100, 40])))[2] == 0.0  # it is true now


def test_who_stays_longer_gains_more() -> None:
    even = [10.0, 10.5, 9.5, 9.8]
    slides = {"size": 200, "slide": 50, "interval": np.full(4, 1_000)}
    short, long = (gains(objects(even, time=np.array([90, 90, time, 90]), **slides))[2] for time in (-90, 90))
    assert 2 * short < long < 4 * short  # four answers, less what may have changed by then


def test_a_value_that_is_not_known_is_worth_asking_for() -> None:
    score = np.array([10.0, 9.0, np.nan])
    found = gains(objects(score.tolist(), possible_scores=np.array([[9.9, 10.1], [8.9, 9.1], [5.0, 15.0]])))
    assert np.argmax(found) == 2


def test_smaller_may_be_better() -> None:
    up = objects([10.0, 9.0, 8.8, 1.0])
    down = objects([-10.0, -9.0, -8.8, -1.0], possible_scores=-up.possible_scores, ascending=True)
    assert gains(down) == pytest.approx(gains(up))


def test_an_aim_is_followed() -> None:
    lively = objects([10.5, 10.0, 5.0, 4.9, 4.8, 4.7], k=4)  # who is first, and who is the fourth?
    first = {name: set(POLICIES[name].elect(lively, 2, np.random.default_rng(0)).tolist()) for name in GAINING}
    assert first["AT-GAIN.order"] == {0, 1}
    assert first["AT-GAIN.set"] <= {2, 3, 4, 5}


def test_for_a_filter_the_side_of_the_threshold_counts() -> None:
    found = gains(objects([10.0, 5.5, 4.8, 1.0], threshold=5.0, k=0))
    assert found[0] == found[3] == 0.0
    assert found[1] == found[2] > 0.0  # one of two equally likely changes crosses


# What is learnt.


def test_the_replica_learns_where_values_go() -> None:
    wander, settle = Replica(), Replica()
    chance = np.random.default_rng(1)
    assert np.isnan(wander.drift(["x"], 0)[0]).all()
    value = 10.0
    for at in range(400):  # each changes once between two looks
        wander.put(["x"], [value], at=at * SECOND)
        settle.put(["x"], [chance.normal(50, 2)], at=at * SECOND)
        value += 3 + chance.normal()
    wander = Replica.load(wander.state(), None)
    assert [float(x[0]) for x in settle.drift(["x"], 500 * SECOND)] == pytest.approx([50, 2], abs=0.5)
    expected, spread = wander.drift(["x"], 400 * SECOND)
    assert expected - wander.view(["x"]).value == pytest.approx(3, abs=0.5)
    assert spread == pytest.approx(1, abs=0.3)
    later, wider = wander.drift(["x"], (399 + 16) * SECOND)
    assert later - wander.view(["x"]).value == pytest.approx(3 * 16, rel=0.3)
    assert wider == pytest.approx(4, rel=0.3)  # the square root of 16 steps


@pytest.mark.parametrize("apart", [0.5, 4.0])
def test_the_rate_of_all_is_right_however_seldom_one_looks(apart: float) -> None:
    chance, replica, names = np.random.default_rng(2), Replica(), list(range(200))
    now, value = 0.0, np.zeros(200)
    replica.put(names, value, at=0)
    for _ in range(6):
        wait = apart * chance.uniform(0.2, 1.8)
        now += wait
        value = np.where(chance.random(200) < 1 - np.exp(-wait), value + 1, value)  # a change per second
        replica.put(names, value, at=int(now * SECOND))
    assert replica.rates([-1])[0] == pytest.approx(1.0, rel=0.3)  # of an id that nothing is known of


# In whole worlds, where AT-GAIN knows nothing but what it paid for.

Step = Callable[[np.random.Generator, FloatArray], FloatArray]
WORLDS: dict[str, Step] = {
    "values are drawn anew": lambda chance, old: chance.normal(50, 10, len(old)),
    "values wander": lambda chance, old: old + chance.normal(0, 10, len(old)),
}


def quality(policy: str, step: Step, budget: int) -> FloatArray:
    """Return nDCG and precision, summed over 80 windows of 20 among 40 users, of whom one in five changes each time."""
    chance = np.random.default_rng(3)
    truth = chance.normal(50, 10, 40)
    replica = Replica()
    replica.put(list(range(40)), truth, at=0)
    service, limits = lambda ids: {name: float(truth[int(name)]) for name in ids}, Limits(parallel=1)
    remote = Remote(service, limits=limits, known=replica)
    join = acquatop(remote, k=5, n=5, windows=WindowGrid(10, 10), score=np.add, policy=policy, budget=budget)
    total = np.zeros(2)
    for end in range(10, 810, 10):
        truth = np.where(chance.random(40) < 0.2, step(chance, truth), truth)
        users, stream = chance.choice(40, 20, replace=False), chance.normal(0, 3, 20)
        join.arrive(users, stream, np.full(20, end - 1))
        answer, scores = join.evaluate(end), stream + truth[users]
        assert answer.refreshes <= budget
        order = np.argsort(-scores)
        ideal, best = users[order].tolist(), scores[order].tolist()
        total += [ndcg(answer.ids, ideal, 5, best), precision(answer.ids, ideal, 5, best)]
    return total


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("budget", [1, 3])
def test_where_budget_is_scarce_no_other_policy_is_better(world: str, budget: int) -> None:
    """In these draws of the worlds; the page of the experiments tells of more."""
    others = [name for name, policy in POLICIES.items() if not policy.needs_filter and name not in ("AT-ASM", *GAINING)]
    best = np.max([quality(name, WORLDS[world], budget) for name in others], axis=0)
    both, order, members = (quality(name, WORLDS[world], budget) for name in GAINING)
    assert both[0] >= best[0]
    assert members[1] >= best[1]
    if world == "values are drawn anew":  # where they wander, who looks at the first ranks only misses who comes up
        assert both[1] >= best[1]
        assert order[0] >= best[0]


# Savings.


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.integers(0, 20), st.lists(st.lists(st.floats(-1, 9), max_size=30), max_size=20))
def test_no_more_is_spent_than_was_given(budget: int, carry: int, gains_of: list[list[float]]) -> None:
    savings, spent = CarryOver(carry), []
    for gains_now in gains_of:
        before = savings.saved
        spent.append(savings.spend(np.sort(np.array(gains_now))[::-1], budget))
        assert 0 <= savings.saved <= carry
        assert spent[-1] + savings.saved <= budget + before
        assert spent[-1] <= min(budget + carry, len(gains_now))
    for first in range(len(spent)):
        for last in range(first, len(spent)):
            given_then = budget * (last + 1 - first) + (carry if first else 0)
            assert sum(spent[first : last + 1]) <= given_then


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1_000), st.integers(1, 5), st.integers(1, 8))
def test_the_service_is_asked_within_budget_and_savings(seed: int, budget: int, carry: int) -> None:
    chance, replica, asked = np.random.default_rng(seed), Replica(), [0]
    replica.put(list(range(30)), chance.normal(0, 1, 30), at=0)

    def fetch(ids: Sequence[Id]) -> dict[Id, float]:
        asked[0] += len(ids)
        return {name: float(chance.normal()) for name in ids}

    join = acquatop(
        Remote(fetch, limits=Limits(parallel=1), known=replica), k=3, windows=WindowGrid(20, 10), score=np.add,
        policy="AT-GAIN", budget=budget, carry=carry,
    )  # fmt: skip
    for window in range(1, 8):
        count = int(chance.integers(0, 30))
        join.arrive(chance.integers(0, 30, count), chance.normal(0, 1, count), np.full(count, 10 * window + 5))
        before = asked[0]
        join.evaluate(10 * window + 10)
        assert asked[0] - before <= budget + carry
        assert asked[0] <= budget * window


def test_savings_are_part_of_the_state() -> None:
    savings = CarryOver(3)
    savings.spend(np.array([5.0, 4.0]), 2)
    savings.spend(np.array([1.0, 0.5]), 2)
    again = CarryOver(3)
    again.load(savings.state())
    assert again.saved == savings.saved == 2
    assert again.spend(np.array([9.0, 8.0, 7.0]), 2) == savings.spend(np.array([9.0, 8.0, 7.0]), 2) == 3


@pytest.mark.parametrize(
    ("policy", "carry", "message"),
    [("AT-TSM", 3, "'AT-TSM' does not say what a refresh gains"), ("AT-GAIN", -1, "carry is -1; give how many")],
)
def test_savings_need_a_policy_that_can_tell(policy: str, carry: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        acquatop(
            Remote(lambda _: {}), k=1, windows=WindowGrid(10, 10), score=np.add, policy=policy, budget=1, carry=carry
        )
