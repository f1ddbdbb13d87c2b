"""The replica: what it remembers, what it estimates, what it forgets; and that it survives a snapshot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.engine import snapshot
from skyband.errors import InputError
from skyband.remote.replica import Replica
from skyband.windows import ALWAYS, NEVER

SECOND = 1_000_000


def held(replica: Replica) -> list[int | str]:
    return replica.columns()[0]


def test_values_are_kept_with_their_times() -> None:
    replica = Replica()
    assert replica.put(["a", "b"], [1.0, 2.0], at=5).tolist() == [True, True]
    assert replica.put(["b", "c"], [2.0, np.nan], at=9).tolist() == [False, True]
    seen = replica.view(["a", "b", "c", "d"])
    np.testing.assert_array_equal(seen.value, [1.0, 2.0, np.nan, np.nan])
    assert seen.refreshed.tolist() == [5, 9, 9, NEVER]
    assert seen.age(10).tolist() == [5, 1, 1, -1]
    assert seen.known.tolist() == [True, True, False, False]
    assert seen.never.tolist() == [False, False, False, True]


def test_a_value_that_vanishes_and_comes_back_has_changed() -> None:
    replica = Replica()
    replica.put([1], [5.0], at=0)
    assert replica.put([1], [np.nan], at=1).tolist() == [True]
    assert replica.put([1], [np.nan], at=2).tolist() == [False]
    assert replica.put([1], [5.0], at=3).tolist() == [True]


def test_older_news_changes_nothing() -> None:
    replica = Replica()
    replica.put([1], [5.0], at=10)
    assert replica.put([1], [4.0], at=9).tolist() == [False]
    assert (replica.view([1]).value[0], replica.view([1]).refreshed[0]) == (5.0, 10)


def test_a_view_is_a_copy() -> None:
    replica = Replica()
    replica.put([1], [5.0], at=0)
    seen = replica.view([1])
    seen.value[0] = 99.0
    assert replica.view([1]).value[0] == 5.0


@pytest.mark.parametrize(("ids", "values"), [([1, 1], [1.0, 2.0]), ([1], [1.0, 2.0]), ([1, 2], [1.0])])
def test_columns_that_do_not_fit_are_refused(ids: list[int], values: list[float]) -> None:
    with pytest.raises(InputError, match="give each id once, with one value"):
        Replica().put(ids, values, at=0)


def test_rates_are_learnt() -> None:
    """Changes that come at random, looked at every 10 seconds: two in one interval look like one."""
    random = np.random.default_rng(7)
    replica = Replica()
    rates = [0.0, 0.01, 0.05, 0.15]
    values = np.zeros(len(rates))
    for step in range(3_000):
        values = values + random.poisson([rate * 10 for rate in rates])
        replica.put(list(range(len(rates))), values, at=step * 10 * SECOND)
    learnt = replica.rates(list(range(len(rates))))
    assert learnt[0] < 0.001
    np.testing.assert_allclose(learnt[1:], rates[1:], rtol=0.15)
    naive = 1 - np.exp(-1.5)  # the share of looks that find a change, per 10 s: far too low
    assert learnt[3] > naive / 10 * 1.5


def test_best_before_follows_from_the_rate() -> None:
    replica = Replica()
    replica.put([1, 2, 3], [1.0, 1.0, 1.0], at=100 * SECOND)
    replica.set_rates([1, 2], [0.5, 0.0])
    seen = replica.view([1, 2, 3])
    assert (seen.interval[0], seen.best_before[0]) == (2 * SECOND, 102 * SECOND)
    assert seen.best_before[1] > ALWAYS // 4  # it never changes
    assert seen.best_before[2] == 100 * SECOND  # nothing at all is known: it may have changed at once
    assert replica.view([9]).best_before[0] == NEVER


def test_one_look_without_a_change_proves_little() -> None:
    replica = Replica()
    for at, value in enumerate([1.0, 2.0, 3.0, 4.0]):
        replica.put(["busy"], [value], at=at * SECOND)
    for at in (0, 1):
        replica.put(["quiet"], [1.0], at=at * SECOND)
    busy, quiet, new = replica.rates(["busy", "quiet", "new"])
    assert 0 < quiet < new < busy


def test_rates_are_not_negative() -> None:
    with pytest.raises(InputError, match=r"a change rate is -1\.0"):
        Replica().set_rates([1], [-1.0])


def test_the_least_recently_used_make_room() -> None:
    replica = Replica(capacity=32)
    replica.put(list(range(32)), np.arange(32.0), at=0)
    replica.view(list(range(16)))
    replica.put([100, 101], [1.0, 1.0], at=1)
    assert len(replica) <= 32
    assert {*range(16), 100, 101} <= set(held(replica))
    assert {16, 17}.isdisjoint(held(replica))  # the two that had not been used for longest
    assert 31 in held(replica)
    assert replica.evicted == 2


def test_a_slot_that_is_used_again_remembers_nothing() -> None:
    replica = Replica(capacity=1)
    replica.put([1], [5.0], at=0)
    replica.set_rates([1], [9.0])
    replica.put([1], [6.0], at=SECOND)
    replica.put([2], [7.0], at=0)
    assert held(replica) == [2]
    replica.put([2], [7.0], at=SECOND)
    assert replica.rates([2])[0] < 9.0
    assert replica.view([1]).never.tolist() == [True]


def test_more_than_fit_at_once() -> None:
    replica = Replica(capacity=3)
    assert replica.put(list(range(10)), np.arange(10.0), at=0).all()
    assert len(replica) == 3


def test_capacity_is_at_least_one() -> None:
    with pytest.raises(InputError, match="capacity is 0"):
        Replica(capacity=0)


steps = st.lists(
    st.tuples(
        st.lists(st.integers(0, 30), unique=True, max_size=8),
        st.floats(allow_nan=True, allow_infinity=True),
        st.integers(0, 10),
        st.booleans(),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(steps, st.sampled_from([None, 1, 5, 20]))
def test_it_agrees_with_a_dict_and_keeps_its_bound(
    given_steps: list[tuple[list[int], float, int, bool]], capacity: int | None
) -> None:
    replica, now = Replica(capacity), 0
    plain: dict[int | str, tuple[float, int]] = {}
    for ids, value, pause, look in given_steps:
        now += pause
        if look:
            replica.view(ids)
            continue
        replica.put(ids, [value] * len(ids), at=now)
        plain |= dict.fromkeys(ids, (value, now))
        assert len(replica) <= (capacity or 31)
    names = held(replica)
    assert capacity is not None or set(names) == set(plain)
    seen = replica.view(names)
    np.testing.assert_array_equal(seen.value, [plain[name][0] for name in names])
    assert seen.refreshed.tolist() == [plain[name][1] for name in names]
    restored = Replica.load(replica.state(), capacity)
    for name in ("value", "refreshed", "best_before", "interval"):
        np.testing.assert_array_equal(getattr(restored.view(names), name), getattr(replica.view(names), name))


@pytest.mark.parametrize("names", [[1, 2, 3], ["a", "ü", "b"], []])
def test_snapshots_go_through_bytes(names: list[int | str]) -> None:
    replica = Replica(capacity=7)
    replica.put(names, np.arange(len(names)), at=3)
    replica.put(names, np.arange(len(names)) + 1, at=SECOND)
    replica.set_rates(names[:1], [0.25] * len(names[:1]))
    blob = snapshot.encode(*replica.state(), [])
    replica.put(names, np.full(len(names), 99.0), at=2 * SECOND)  # the snapshot is detached
    meta, tables, _ = snapshot.decode(blob)
    restored = Replica.load((meta, tables), 7)
    assert held(restored) == names
    assert restored.view(names).value.tolist() == [place + 1.0 for place in range(len(names))]
    assert restored.rates(names)[:1].tolist() == [0.25] * len(names[:1])
    assert restored.capacity == 7


def test_a_snapshot_keeps_the_order_of_use() -> None:
    replica = Replica(capacity=20)
    replica.put(list(range(20)), np.zeros(20), at=0)
    replica.view([0])
    restored = Replica.load(replica.state(), 20)
    restored.put([50], [1.0], at=1)
    assert 0 in held(restored)
    assert 1 not in held(restored)
