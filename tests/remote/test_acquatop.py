"""AcquaTop and filters against brute force; what answers say of themselves; snapshots; replicas that begin empty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import skyband.remote
from skyband.engine import snapshot
from skyband.errors import InputError, QueryError
from skyband.remote.acquatop import acquatop
from skyband.remote.filter_join import filter_join
from skyband.remote.join import STALE, JoinedAnswer, RemoteJoin
from skyband.remote.policies import POLICIES
from skyband.remote.replica import Replica
from skyband.remote.services import Limits, ServiceError
from skyband.remote.services.base import Id
from skyband.windows import WindowGrid

SIZE, SLIDE, IDS = 30, 10, 25
RANKING = [name for name in POLICIES if not POLICIES[name].needs_filter]
FILTERING = [name for name in POLICIES if POLICIES[name].whole_window]
Stream = list[tuple[list[int], list[float], list[int]]]


class Remote:
    """A remote side that changes; it can be told to fail."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        self.truth: dict[Id, float] = {name: float(v) for name, v in enumerate(self.chance.integers(0, 40, IDS))}
        self.down = False

    def fetch(self, ids: Sequence[Id]) -> dict[Id, float | None]:
        if self.down:
            msg = "down"
            raise ServiceError(msg, retry=False)
        return {name: self.truth.get(name) for name in ids}

    def change(self, count: int = 6) -> None:
        for name in self.chance.choice(IDS, count, replace=False).tolist():
            self.truth[name] = float(self.chance.integers(0, 40))

    def replica(self) -> Replica:
        made = Replica()
        made.put(list(self.truth), list(self.truth.values()), at=0)
        return made


def stream(seed: int, windows: int = 15) -> Stream:
    """Return what arrives before each window's end, in order of time."""
    chance = np.random.default_rng(seed)
    batches = []
    for window in range(windows):
        low = 0 if window == 0 else SIZE + SLIDE * (window - 1)
        count = int(chance.integers(0, 14))
        names, scores = chance.integers(0, IDS, count).tolist(), chance.integers(0, 30, count).astype(float).tolist()
        batches.append((names, scores, np.sort(chance.integers(low, SIZE + SLIDE * window, count)).tolist()))
    return batches


def ends(batches: Stream) -> list[int]:
    return [SIZE + SLIDE * window for window in range(len(batches))]


def inside(batches: Stream, end: int) -> dict[int, tuple[float, int]]:
    """Return the latest event of each id in a window: score and time."""
    latest: dict[int, tuple[float, int]] = {}
    for names, scores, times in batches:
        for name, score, time in zip(names, scores, times, strict=True):
            if end - SIZE <= time < end:
                latest[name] = score, time
    return latest


def ranked(batches: Stream, end: int, values: dict[Any, float]) -> list[int]:
    objects = {name: both for name, both in inside(batches, end).items() if not math.isnan(values.get(name, math.nan))}
    return sorted(objects, key=lambda name: (-(objects[name][0] + values[name]), -objects[name][1], name))


def top(remote: Any, replica: Replica | None, policy: str, budget: int | None, **options: Any) -> RemoteJoin:
    given: dict[str, Any] = {"k": 3, "n": 4, "score": np.add, "limits": Limits(backoff=0.0)} | options
    service = skyband.remote.Remote(remote, limits=given.pop("limits"), known=replica)
    return acquatop(service, windows=WindowGrid(SIZE, SLIDE), policy=policy, budget=budget, **given)


def drive(join: RemoteJoin, remote: Remote, batches: Stream) -> list[JoinedAnswer]:
    answers = []
    for batch, end in zip(batches, ends(batches), strict=True):
        join.arrive(*batch)
        remote.change()
        answers.append(join.evaluate(end))
    return answers


@pytest.mark.parametrize("policy", [name for name in RANKING if name != "WST"])
@pytest.mark.parametrize("seed", range(4))
def test_without_a_bound_answers_are_exact_and_say_so(policy: str, seed: int) -> None:
    remote, batches = Remote(seed), stream(seed)
    join = top(remote, remote.replica(), policy, None)
    for batch, end in zip(batches, ends(batches), strict=True):
        join.arrive(*batch)
        remote.change()
        answer = join.evaluate(end)
        assert answer.ids == ranked(batches, end, remote.truth)[:3]
        assert (answer.exact, answer.why, answer.stale) == (True, "", 0)
        assert not any(row.age for row in answer.rows)
        assert answer.refreshes == len(inside(batches, end))


@pytest.mark.parametrize("policy", RANKING)
@pytest.mark.parametrize("budget", [0, 2, 5])
def test_answers_follow_from_what_the_replica_knows(policy: str, budget: int) -> None:
    """With a list that has room for all ids, and with the whole window, the answer is that of a sort."""
    remote, batches = Remote(11), stream(11)
    replica = remote.replica()
    join = top(remote, replica, policy, budget, n=IDS)
    for batch, end in zip(batches, ends(batches), strict=True):
        join.arrive(*batch)
        remote.change()
        answer = join.evaluate(end)
        known = dict(zip(range(IDS), replica.view(list(range(IDS))).value.tolist(), strict=True))
        assert answer.ids == ranked(batches, end, known)[:3]
        latest = inside(batches, end)
        assert [(row.stream, row.time) for row in answer.rows] == [latest[row.id] for row in answer.rows]  # type: ignore[index]
        assert [row.value for row in answer.rows] == [known[row.id] for row in answer.rows]  # type: ignore[index]
        assert [row.rank for row in answer.rows] == list(range(1, len(answer.rows) + 1))
        assert [row.score for row in answer.rows] == [row.stream + row.value for row in answer.rows]


def test_ages_and_counts_are_told() -> None:
    remote = Remote(0)
    remote.truth |= {1: 30.0, 2: 20.0, 3: 10.0}
    join = top(remote, remote.replica(), "AT-TSM", 1, k=2)
    join.arrive([1, 2, 3], [0.0, 0.0, 0.0], [5, 6, 7])
    first = join.evaluate(30)
    assert [(row.id, row.age) for row in first.rows] == [(1, 0), (2, 30)]
    assert (first.refreshes, first.failures, first.stale) == (1, 0, 1)
    assert join.remote.traffic.requests == 1
    assert (first.exact, first.why) == (False, STALE)
    remote.down = True
    join.arrive([1, 2], [0.0, 0.0], [35, 36])
    second = join.evaluate(40, now=100)
    assert [(row.id, row.age) for row in second.rows] == [(1, 70), (2, 100)]
    assert (second.refreshes, second.failures, second.stale) == (0, 1, 2)
    assert join.remote.traffic.requests == 2


def test_a_refresh_counts_for_the_answer_of_the_same_window() -> None:
    remote = Remote(0)
    remote.truth |= {1: 30.0, 2: 20.0}
    join = top(remote, remote.replica(), "AT-TSM", 1, k=1, n=1)
    join.arrive([1, 2], [0.0, 0.0], [5, 6])
    remote.truth[1] = 0.0
    assert join.evaluate(30).ids == [2]


def test_at_asm_with_no_bound_refreshes_the_list() -> None:
    remote = Remote(0)
    for only, refreshes in ((True, 4), (False, 10)):
        join = top(remote, remote.replica(), "AT-ASM", None, k=2, n=2, only_candidates=only)
        join.arrive(list(range(10)), [0.0] * 10, [29] * 10)
        answer = join.evaluate(30)
        assert (answer.refreshes, answer.exact) == (refreshes, not only)


@pytest.mark.parametrize("policy", [name for name in RANKING if name != "WST"])
@pytest.mark.parametrize("budget", [1, 4, 9, 30])
def test_no_budget_is_left_while_something_is_old(policy: str, budget: int) -> None:
    remote, batches = Remote(13), stream(13)
    join = top(remote, remote.replica(), policy, budget, k=1, n=1)
    for batch, end in zip(batches, ends(batches), strict=True):
        join.arrive(*batch)
        remote.change()
        answer, there = join.evaluate(end), len(inside(batches, end))
        assert answer.refreshes == min(budget, there)
        assert answer.exact == (there <= budget)
        assert not answer.exact or answer.ids == ranked(batches, end, remote.truth)[:1]


@pytest.mark.parametrize("policy", [name for name in RANKING if not POLICIES[name].whole_window])
def test_the_candidates_come_before_the_rest_and_are_those_of_the_list(policy: str) -> None:
    """With the whole window at hand a policy chooses as from the list, as long as answers do not differ."""
    asked: dict[bool, list[list[Id]]] = {True: [], False: []}
    for only in asked:
        remote, batches = Remote(17), stream(17)

        def fetch(ids: Sequence[Id], only: bool = only, remote: Remote = remote) -> dict[Id, float | None]:
            asked[only].append(list(ids))
            return remote.fetch(ids)

        join = top(fetch, remote.replica(), policy, 3, k=2, n=3, only_candidates=only)
        for batch, end in zip(batches, ends(batches), strict=True):
            join.arrive(*batch)
            join.evaluate(end)
    assert asked[True] == asked[False]
    assert len(asked[True]) > 8


def test_with_a_long_list_the_rest_follows_the_oldest_first() -> None:
    remote = Remote(0)
    replica = remote.replica()
    asked: list[Id] = []

    def fetch(ids: Sequence[Id]) -> dict[Id, float | None]:
        asked.extend(ids)
        return remote.fetch(ids)

    replica.put([3, 5], [remote.truth[3], remote.truth[5]], at=20)
    replica.put([4], [remote.truth[4]], at=30)  # as of now: there is nothing to ask
    join = top(fetch, replica, "AT-TSM", 5, k=1, n=0)
    join.arrive(list(range(1, 8)), [100.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [29] * 7)
    join.evaluate(30)
    assert asked[0] == 1
    assert set(asked[1:4]) == {2, 6, 7}
    assert asked[4] in (3, 5)


@pytest.mark.parametrize("only", [False, True])
def test_wst_asks_for_nobody(only: bool) -> None:
    remote = Remote(0)
    for budget in (3, None):
        join = top(remote, remote.replica(), "WST", budget, only_candidates=only)
        join.arrive([1, 2], [0.0, 0.0], [28, 29])
        assert join.evaluate(30).refreshes == 0


def test_scores_that_are_aggregates_are_given_anew_for_every_window() -> None:
    remote = Remote(0)
    remote.truth |= {1: 0.0, 2: 0.0}
    join = top(remote, remote.replica(), "AT-TSM", 0, k=1)
    join.arrive([1, 2], [5.0, 3.0], [9, 25])  # five mentions of 1 in [0, 30)
    assert join.evaluate(30).ids == [1]
    join.arrive([1, 2], [1.0, 3.0], [9, 25])  # of which one is left in [10, 40)
    assert [(row.id, row.score) for row in join.evaluate(40).rows] == [(2, 3.0)]


def test_many_objects_may_share_a_remote_row_and_cost_one_refresh() -> None:
    remote = Remote(0)
    for policy in ("AT-TSM", "WSJ-LRU"):
        remote.truth |= {7: 1.0, 8: 0.0}
        join = top(remote, remote.replica(), policy, 1, k=3)
        join.arrive(["e1", "e2", "e3"], [5.0, 4.0, 4.5], [25, 26, 27], remote=[7, 7, 8])
        remote.truth[7] = 10.0
        answer = join.evaluate(30)
        assert [(row.id, row.score) for row in answer.rows] == [("e1", 15.0), ("e2", 14.0), ("e3", 4.5)]
        assert answer.refreshes == 1


@pytest.mark.parametrize("policy", ["AT-TSM", "WSJ-LRU"])
def test_an_object_may_come_again_with_another_remote_row(policy: str) -> None:
    remote = Remote(0)
    remote.truth |= {7: 1.0, 8: 2.0}
    join = top(remote, remote.replica(), policy, 0)
    join.arrive(["e"], [5.0], [25], remote=[7])
    join.arrive(["e"], [5.0], [26], remote=[8])
    join.push_changes({7: 50.0}, at=27)
    assert [row.score for row in join.evaluate(30).rows] == [7.0]


@pytest.mark.parametrize("policy", ["AT-TSM", "WSJ-LRU"])
def test_an_older_event_does_not_take_the_place_of_a_newer_one(policy: str) -> None:
    remote = Remote(0)
    join = top(remote, remote.replica(), policy, 0)
    join.arrive([1], [5.0], [26])
    join.arrive([1], [9.0], [25])
    assert [(row.stream, row.time) for row in join.evaluate(30).rows] == [(5.0, 26)]


def test_small_scores_can_be_better() -> None:
    remote = Remote(0)
    remote.truth |= {1: 1.0, 2: 0.0}
    for policy in ("AT-TSM", "WSJ-LRU"):
        join = top(remote, remote.replica(), policy, 5, k=1, order="asc")
        join.arrive([1, 2], [1.0, 1.0], [25, 26])
        assert [(row.id, row.score) for row in join.evaluate(30).rows] == [(2, 1.0)]


# Replicas that begin empty.


def test_ids_of_which_nothing_is_known_are_discovered_within_the_budget() -> None:
    remote = Remote(3)
    join = top(remote, Replica(), "AT-BSM", 2)
    join.arrive(list(range(6)), [5.0, 4.0, 3.0, 2.0, 1.0, 0.0], [29] * 6)
    first = join.evaluate(30)
    assert sorted(first.ids) == [0, 1]  # the best on the stream's side
    assert (first.refreshes, first.unknown) == (2, 4)
    second = join.evaluate(40)
    assert second.refreshes == 2
    assert second.unknown == 3  # one for the list, one more discovered
    assert join.evaluate(50).unknown == 2


def test_a_budget_of_one_is_shared_in_turns() -> None:
    remote = Remote(3)
    replica = Replica()
    replica.put([0], [1.0], at=0)
    join = top(remote, replica, "AT-TSM", 1, k=1)
    known = []
    for window in range(4):
        join.arrive([0, *range(5, 25)], [99.0] + [1.0] * 20, [29 + 10 * window] * 21)
        join.evaluate(30 + 10 * window)
        known.append(len(replica))
    assert known == [1, 2, 2, 3]


def test_with_a_default_unknown_ids_take_part() -> None:
    remote = Remote(3)
    join = top(remote, Replica(), "AT-TSM", 0, k=1, default=100.0)
    join.arrive([1, 2], [1.0, 2.0], [28, 29])
    answer = join.evaluate(30)
    assert [(row.id, row.score, row.age) for row in answer.rows] == [(2, 102.0, -1)]
    assert answer.stale == 1


def test_ids_that_do_not_exist_are_left_out_and_found_when_they_do() -> None:
    remote = Remote(3)
    remote.truth[1] = 5.0
    for policy in ("WSJ-LRU", "AT-TSM"):
        remote.truth.pop(2, None)
        join = top(remote, Replica(), policy, None, k=2, limits=Limits(remember_missing=0.0))
        join.arrive([1, 2], [1.0, 9.0], [39, 39])
        answer = join.evaluate(30 + SLIDE)
        assert (answer.ids, answer.unknown) == ([1], 0)
        remote.truth[2] = 5.0
        assert join.evaluate(50).ids == [2, 1]
        del remote.truth[2]
        assert join.evaluate(60).ids == [1]


@pytest.mark.parametrize("policy", ["WSJ-LRU", "AT-TSM"])
def test_no_budget_is_spent_on_what_is_known_not_to_exist(policy: str) -> None:
    remote = Remote(3)
    remote.truth |= {1: 5.0, 2: 6.0}
    join = top(remote, Replica(), policy, 1, k=2, discover=1.0)
    answers = []
    for end in range(50, 120, SLIDE):
        join.arrive([1, 2, 99], [1.0, 2.0, 9.0], [end - 1] * 3)
        answers.append(join.evaluate(end))
    assert [answer.refreshes for answer in answers] == [1] * 7
    assert join.remote.traffic.missing == 1
    assert answers[-1].ids == [2, 1]
    assert not answers[-1].exact


def test_what_waits_is_bounded_and_the_best_is_kept() -> None:
    remote = Remote(3)
    join = top(remote, Replica(), "AT-TSM", 0, k=1, n=0, only_candidates=True)
    for window in range(5):
        names = list(range(window * 5_000, (window + 1) * 5_000))
        join.arrive(names, np.arange(5_000.0), np.full(5_000, 29 + 10 * window))
        join.evaluate(30 + 10 * window)
        assert len(join._waiting) <= 1_010 + 5_000
    join.evaluate(80)
    assert len(join._waiting) <= 1_010
    assert join._waiting.stream.min() > 4_000.0


def test_a_bounded_replica_keeps_to_its_bound() -> None:
    remote, batches = Remote(5), stream(5)
    replica = Replica(capacity=6)
    for answer in drive(top(remote, replica, "WSJ-LRU", 4), remote, batches):
        assert answer.refreshes <= 4
    assert len(replica) <= 6


# Changes that are pushed, and replicas that are shared.


@pytest.mark.parametrize("policy", ["AT-BSM", "WSJ-LRU"])
def test_pushed_changes_cost_no_budget(policy: str) -> None:
    remote = Remote(0)
    remote.truth |= {1: 30.0, 2: 20.0, 3: 10.0}
    join = top(remote, remote.replica(), policy, 0, k=1, n=1, only_candidates=True)
    join.arrive([1, 2, 3], [2.0, 0.0, 0.0], [25, 26, 27])
    join.push_changes({3: 50.0}, at=28)  # not in the list
    answer = join.evaluate(30)
    assert [(row.id, row.score, row.age) for row in answer.rows] == [(3, 50.0, 2)]
    join.push_changes({3: None}, at=31)
    assert join.evaluate(40).ids == [1]


def test_queries_that_share_a_replica_share_what_is_learnt() -> None:
    remote = Remote(0)
    remote.truth |= {1: 30.0, 2: 20.0}
    replica = remote.replica()
    payer, other = top(remote, replica, "WSJ-LRU", None, k=1), top(remote, replica, "AT-TSM", 0, k=1)
    for join in (payer, other):
        join.arrive([1, 2], [0.0, 0.0], [25, 26])
    remote.truth[2] = 40.0
    assert payer.evaluate(30).ids == [2]
    answer = other.evaluate(30)
    assert (answer.ids, answer.refreshes, answer.stale) == ([2], 0, 0)


# Filters.


def passed(batches: Stream, end: int, values: dict[Any, float], condition: str) -> list[int]:
    chosen = inside(batches, end)
    return sorted(name for name in chosen if (values[name] > 20 if condition == ">" else values[name] < 20))


@pytest.mark.parametrize("policy", FILTERING)
@pytest.mark.parametrize("condition", ["<", ">"])
@pytest.mark.parametrize("budget", [0, 3, None])
def test_filters_answer_as_the_replica_knows_and_exactly_without_a_bound(
    policy: str, condition: str, budget: int | None
) -> None:
    remote, batches = Remote(7), stream(7)
    replica = remote.replica()
    join = filter_join(
        skyband.remote.Remote(remote, known=replica),
        windows=WindowGrid(SIZE, SLIDE), condition=condition, threshold=20.0,
        policy=policy, budget=budget, distance=10.0,
    )  # fmt: skip
    for batch, end in zip(batches, ends(batches), strict=True):
        join.arrive(*batch)
        remote.change()
        answer = join.evaluate(end)
        known = dict(zip(range(IDS), replica.view(list(range(IDS))).value.tolist(), strict=True))
        assert answer.ids == passed(batches, end, known, condition)
        assert answer.stale == sum(row.age > 0 for row in answer.rows)
        if budget is None and policy != "WST":
            assert answer.ids == passed(batches, end, remote.truth, condition)
            assert answer.exact


def test_values_on_the_threshold_are_on_neither_side() -> None:
    for condition in ("<", ">"):
        replica = Replica()
        replica.put([1], [5.0], at=0)
        join = filter_join(
            skyband.remote.Remote(Remote(0), known=replica), windows=WindowGrid(30, 30), condition=condition,
            threshold=5.0,
            policy="WST", budget=0,
        )  # fmt: skip
        join.arrive([1], [1.0], [3])
        assert join.evaluate(30).ids == []


def test_a_filter_begins_with_an_empty_replica() -> None:
    remote = Remote(0)
    remote.truth |= {1: 30.0, 2: 10.0}
    join = filter_join(
        skyband.remote.Remote(remote), windows=WindowGrid(30, 30), condition=">", threshold=20.0, budget=5
    )
    join.arrive([1, 2], [1.0, 1.0], [3, 4])
    answer = join.evaluate(30)
    assert (answer.ids, answer.refreshes, answer.exact) == ([1], 2, True)


# Snapshots.


@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize("policy", [*RANKING, "Filter Update", "WSJ-RND.F"])
def test_a_snapshot_goes_on_as_if_nothing_had_happened(policy: str, only: bool) -> None:
    def make(remote: Remote, replica: Replica) -> RemoteJoin:
        if POLICIES[policy].needs_filter:
            return filter_join(
                skyband.remote.Remote(remote, known=replica), windows=WindowGrid(SIZE, SLIDE), condition=">",
                threshold=20.0,
                policy=policy, budget=3, seed=4, only_candidates=only,
            )  # fmt: skip
        return top(remote, replica, policy, 3, seed=4, only_candidates=only)

    batches, (remote, twin) = stream(9, 16), (Remote(9), Remote(9))
    half = Replica()
    half.put(list(range(0, IDS, 2)), [remote.truth[name] for name in range(0, IDS, 2)], at=0)
    join = make(remote, half)
    drive(join, remote, batches[:8])
    twin.truth, twin.chance = dict(remote.truth), np.random.default_rng(1)
    remote.chance = np.random.default_rng(1)
    join.arrive([3, 4], [7.0, 8.0], [SIZE + SLIDE * 9, SIZE + SLIDE * 9 + 1])  # ahead of the current window
    blob = snapshot.encode(*join.state(), [join.remote.replica.state()])
    meta, tables, (replica_state,) = snapshot.decode(blob)
    restored = make(twin, Replica.load(replica_state, None))
    restored.load((meta, tables))
    for window in range(8, 16):
        outcomes = []
        for one, side in ((join, remote), (restored, twin)):
            one.arrive(*batches[window])
            side.change()
            answer = one.evaluate(SIZE + SLIDE * window)
            outcomes.append((answer.rows, answer.refreshes, answer.unknown))
        assert outcomes[0] == outcomes[1]


# Mistakes.


def test_mistakes() -> None:
    remote = Remote(0)
    with pytest.raises(InputError, match="'Filter Update' is for filters"):
        top(remote, None, "Filter Update", 1)
    with pytest.raises(InputError, match="there is no refresh policy 'best'"):
        top(remote, None, "best", 1)
    with pytest.raises(InputError, match="the budget is -1"):
        top(remote, None, "WST", -1)
    with pytest.raises(InputError, match="discover is 2"):
        top(remote, None, "AT-TSM", 1, discover=2)
    with pytest.raises(QueryError, match="order is 'up'"):
        top(remote, None, "WST", 1, order="up")
    with pytest.raises(QueryError, match="k is 0"):
        top(remote, None, "WST", 1, k=0)
    with pytest.raises(QueryError, match=r"the filter is \?x = 5"):
        filter_join(skyband.remote.Remote(remote), windows=WindowGrid(1, 1), condition="=", threshold=5, budget=1)
    with pytest.raises(InputError, match="'AT-TSM' is for rankings"):
        filter_join(
            skyband.remote.Remote(remote),
            windows=WindowGrid(1, 1),
            condition="<",
            threshold=5,
            budget=1,
            policy="AT-TSM",
        )
    join = top(remote, None, "WST", 1)
    with pytest.raises(InputError, match="2 ids, 1 scores, 2 times and 2 remote ids"):
        join.arrive([1, 2], [1.0], [1, 2])
    with pytest.raises(QueryError, match="no window ends at 35"):
        join.evaluate(35)
    join.evaluate(50)
    with pytest.raises(QueryError, match="has passed"):
        join.evaluate(40)
