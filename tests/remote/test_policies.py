"""Policies: within the budget, each id once, blind to what was not paid for; and each as its paper says."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.errors import InputError
from skyband.remote import Remote, policies
from skyband.remote.acquatop import acquatop
from skyband.remote.filter_join import filter_join
from skyband.remote.join import JoinedAnswer, RemoteJoin
from skyband.remote.policies import POLICIES, Candidates, find_policy
from skyband.remote.replica import Replica
from skyband.remote.services import Limits
from skyband.remote.services.base import Id
from skyband.windows import WindowGrid

NAMES = list(POLICIES)
RANKING = [name for name in NAMES if not POLICIES[name].needs_filter]
FILTERING = [name for name in NAMES if POLICIES[name].whole_window]


def objects(rows: int, **columns: Any) -> Candidates:
    zeros = np.zeros(rows, np.int64)
    given_columns: dict[str, Any] = {
        "now": 100, "size": 50, "slide": 10, "k": 2, "place": np.arange(rows), "time": zeros + 90,
        "score": np.zeros(rows), "value": np.zeros(rows), "refreshed": zeros,
        "best_before": zeros, "interval": zeros, "threshold": 0.0,
    }  # fmt: skip
    return Candidates(**(given_columns | columns))


def picks(name: str, candidates: Candidates, budget: int | None, seed: int = 0) -> list[int]:
    return [int(row) for row in POLICIES[name].elect(candidates, budget, np.random.default_rng(seed))]


def test_the_registry_has_the_names_of_the_papers() -> None:
    assert NAMES == [
        "WST", "WSJ-RND", "WSJ-LRU", "WSJ-WBM", "Filter Update", "WSJ-RND.F", "WSJ-LRU.F", "WSJ-WBM.F",
        "AT-TSM", "AT-BSM", "AT-ASM", "AT-LRU", "AT-WBM", "AT-GAIN", "AT-GAIN.order", "AT-GAIN.set",
    ]  # fmt: skip
    with pytest.raises(InputError, match="there is no refresh policy 'LRU'; choose one of WST, WSJ-RND"):
        find_policy("LRU")


columns = st.integers(0, 20).flatmap(
    lambda rows: st.fixed_dictionaries(
        {
            "rows": st.just(rows),
            "k": st.integers(1, 8),
            "place": st.permutations(list(range(rows))).map(
                lambda p: np.array([x if x % 3 else -1 for x in p], np.int64)
            ),
            "value": st.lists(st.floats(-2_000, 2_000) | st.just(np.nan), min_size=rows, max_size=rows).map(np.array),
            "refreshed": st.lists(st.integers(-(2**62), 100), min_size=rows, max_size=rows).map(np.array),
            "best_before": st.lists(st.integers(-(2**62), 2**62), min_size=rows, max_size=rows).map(np.array),
            "interval": st.lists(st.integers(0, 2**61), min_size=rows, max_size=rows).map(np.array),
            "possible_scores": st.lists(
                st.lists(st.floats(-2_000, 2_000) | st.just(np.nan), min_size=3, max_size=3),
                min_size=rows,
                max_size=rows,
            ).map(lambda lines: np.reshape(np.array(lines, np.float64), (rows, 3))),
        }
    )
)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None)
@given(columns, st.integers(0, 25) | st.none())
def test_never_more_than_the_budget_and_none_twice(
    name: str, given_columns: dict[str, Any], budget: int | None
) -> None:
    given_columns = dict(given_columns)
    candidates = objects(given_columns.pop("rows"), **given_columns)
    chosen = picks(name, candidates, budget)
    assert len(chosen) <= (len(candidates) if budget is None else budget)
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(range(len(candidates)))


def test_wst_refreshes_nothing() -> None:
    assert picks("WST", objects(9), 5) == []


def test_rnd_draws_anyone_without_replacement() -> None:
    drawn = [picks("WSJ-RND", objects(9), 3, seed) for seed in range(40)]
    assert all(len(set(draw)) == 3 for draw in drawn)
    assert {row for draw in drawn for row in draw} == set(range(9))


def test_lru_takes_the_oldest_and_the_first_among_equals() -> None:
    refreshed = np.array([5, 3, 9, 3, -(2**62)])
    assert picks("WSJ-LRU", objects(5, refreshed=refreshed), 4) == [4, 1, 3, 0]
    assert picks("AT-LRU", objects(5, refreshed=refreshed, place=np.array([0, 3, 2, 1, -1])), 2) == [3, 1]


def test_wbm_takes_the_expired_that_serve_longest_then_the_next_to_expire() -> None:
    candidates = objects(
        5,
        time=np.array(
            [60, 95, 95, 95, 95]
        ),  # of the answers to come, at 110, 120, ...: the first lives for 1, the others for 5
        best_before=np.array([90, 95, 90, 130, 120]),
        interval=np.array([50, 20, 50, 9, 9]),  # renewed until 140, 115, 140
    )
    assert picks("WSJ-WBM", candidates, 5) == [2, 1, 0, 4, 3]


def test_wbm_the_longest_stale_do_not_wait_for_ever() -> None:
    """Renewed, an id that changes every 20 is good until its next change, however long ago it was refreshed."""
    candidates = objects(2, best_before=np.array([95, 15]), interval=np.array([10, 20]))  # until 105 and 115
    assert picks("WSJ-WBM", candidates, 1) == [1]


def test_wbm_ties_go_to_the_earliest_best_before() -> None:
    candidates = objects(3, best_before=np.array([80, 70, 75]), interval=np.array([100, 110, 105]))
    assert picks("WSJ-WBM", candidates, 3) == [1, 2, 0]


def test_wbm_what_was_never_fetched_counts_as_expired() -> None:
    candidates = objects(2, best_before=np.array([200, -(2**62)]), interval=np.array([50, 50]))
    assert picks("WSJ-WBM", candidates, 1) == [1]


def test_filter_update_takes_the_nearest() -> None:
    candidates = objects(4, value=np.array([900.0, -20.0, 30.0, np.nan]), threshold=10.0)
    assert picks("Filter Update", candidates, 3) == [3, 2, 1]


def test_the_f_policies_look_only_at_the_near() -> None:
    value = np.array([900.0, -1_500.0, 30.0, 1_000.0])
    candidates = objects(4, value=value, refreshed=np.array([9, 1, 8, 2]))
    assert picks("WSJ-LRU.F", candidates, 9) == [2, 0]  # |value| < 1,000
    assert picks("WSJ-LRU.F", objects(4, value=value, distance=2_000.0), 9) == [0, 1, 2, 3]
    assert sorted(picks("WSJ-RND.F", candidates, 9)) == [0, 2]
    assert sorted(picks("WSJ-WBM.F", candidates, 9)) == [0, 2]


@pytest.mark.parametrize("name", [name for name in NAMES if POLICIES[name].needs_filter])
def test_filter_policies_need_a_filter(name: str) -> None:
    with pytest.raises(InputError, match="needs a query with a filter"):
        picks(name, objects(3, threshold=None), 1)


def test_at_policies_take_the_list_in_its_order() -> None:
    place = np.array([2, -1, 0, 1])
    assert picks("AT-TSM", objects(4, place=place), 9) == [2, 3, 0]
    assert picks("AT-ASM", objects(4, place=place), None) == [2, 3, 0]
    assert picks("AT-ASM", objects(4, place=place), 2) == [2, 3]  # a budget binds it, too


# Through the whole framework: what is asked of the service.


class Counting:
    """A service that knows everything, and notes what it is asked."""

    def __init__(self, truth: dict[Id, float]) -> None:
        self.truth = truth
        self.asked: list[Id] = []

    def fetch(self, ids: Sequence[Id]) -> dict[Id, float]:
        self.asked += ids
        return {name: self.truth[name] for name in ids}


def joined(name: str, service: Any, replica: Replica, budget: int | None, seed: int = 1, **options: Any) -> RemoteJoin:
    common: dict[str, Any] = {
        "windows": WindowGrid(30, 10), "policy": name, "budget": budget, "seed": seed,
        "remote": Remote(service, limits=Limits(parallel=1), known=replica),
    }  # fmt: skip
    if POLICIES[name].needs_filter:
        return filter_join(condition=">", threshold=50.0, distance=30.0, **common)
    return acquatop(k=3, n=3, score=np.add, **common, **options)


def world(seed: int, lazy: bool) -> tuple[np.random.Generator, dict[Id, float], Replica]:
    chance = np.random.default_rng(seed)
    truth: dict[Id, float] = {name: float(value) for name, value in enumerate(chance.integers(0, 100, 40))}
    replica = Replica()
    known = list(truth)[::2] if lazy else list(truth)
    replica.put(known, [truth[name] for name in known], at=0)
    return chance, truth, replica


def drive(
    join: RemoteJoin, chance: np.random.Generator, truth: dict[Id, float], windows: int = 12
) -> list[JoinedAnswer]:
    answers = []
    for window in range(windows):
        end = 30 + 10 * window
        count = int(chance.integers(0, 15))
        low = 0 if window == 0 else end - 10
        join.arrive(
            chance.integers(0, 40, count), chance.integers(0, 20, count), np.sort(chance.integers(low, end, count))
        )
        for name in chance.choice(40, 10, replace=False).tolist():
            truth[name] = float(chance.integers(0, 100))
        answers.append(join.evaluate(end))
    return answers


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1_000), st.integers(0, 9), st.booleans(), st.floats(0, 1))
def test_the_service_is_never_asked_for_more_than_the_budget(
    name: str, seed: int, budget: int, lazy: bool, discover: float
) -> None:
    chance, truth, replica = world(seed, lazy)
    service = Counting(truth)
    options: dict[str, Any] = {} if POLICIES[name].needs_filter else {"discover": discover}
    join = joined(name, service, replica, budget, **options)
    asked = 0
    for window in range(8):
        end = 30 + 10 * window
        count = int(chance.integers(0, 15))
        low = 0 if window == 0 else end - 10
        join.arrive(
            chance.integers(0, 40, count), chance.integers(0, 20, count), np.sort(chance.integers(low, end, count))
        )
        answer = join.evaluate(end)
        fresh = service.asked[asked:]
        asked = len(service.asked)
        assert len(fresh) == len(set(fresh)) == answer.refreshes + answer.failures <= budget


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lazy", [False, True])
def test_nothing_that_was_not_paid_for_is_seen(name: str, lazy: bool) -> None:
    """In a second world everything that nobody fetched is different; the same ids are elected all the same."""
    chance, truth, replica = world(5, lazy)
    told: list[dict[Id, float]] = []

    def fetch(ids: Sequence[Id]) -> dict[Id, float]:
        told.append({one: truth[one] for one in ids})
        return told[-1]

    answers = drive(joined(name, fetch, replica, 4), chance, truth)
    chance, other, replica = world(5, lazy)
    replies = iter(told)
    asked: list[list[Id]] = []

    def echo(ids: Sequence[Id]) -> dict[Id, float]:
        asked.append(list(ids))
        return next(replies)

    twin = joined(name, echo, replica, 4)
    other |= {one: 10_000.0 - one for one in other if isinstance(one, int)}
    assert [answer.rows for answer in drive(twin, chance, other)] == [answer.rows for answer in answers]
    assert asked == [list(reply) for reply in told]
    assert bool(told) == (name != "WST")


def test_what_a_policy_sees_is_a_copy_that_cannot_be_written() -> None:
    value = np.array([1.0, 2.0])
    candidates = objects(2, value=value)
    assert not np.shares_memory(candidates.value, value)
    with pytest.raises(ValueError, match="read-only"):
        candidates.value[0] = 5.0
    with pytest.raises(ValueError, match="read-only"):
        candidates[np.array([0])].value[0] = 5.0


def test_policies_do_not_even_import_services_or_the_replica() -> None:
    folder = Path(policies.__file__).parent
    allowed = {"skyband.errors", "skyband.order", "skyband.windows"}
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            named += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            ours = {
                name for name in named if name.startswith("skyband") and not name.startswith("skyband.remote.policies")
            }
            assert ours <= allowed, f"{file.name} imports {ours - allowed}"
