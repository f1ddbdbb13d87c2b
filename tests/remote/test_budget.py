"""A budget that queries share: never exceeded, split by need, and nobody starves."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.remote.remote import Remote, SharedBudget
from skyband.remote.services import Limits

wishes = st.dictionaries(
    st.sampled_from("pqrst"), st.lists(st.integers(0, 15), max_size=12, unique=True), max_size=5
)  # many ids in common


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 12) | st.none(), st.lists(wishes, max_size=8))
def test_the_budget_is_spent_and_never_exceeded(budget: int | None, moments: list[dict[str, list[int]]]) -> None:
    shares, again = SharedBudget(budget), SharedBudget(budget)
    for wanted in moments:
        need = {query: sum(ids) % (len(ids) + 1) for query, ids in wanted.items()}
        found = shares.split(wanted, need)
        union = {name for ids in wanted.values() for name in ids}
        assert len(found) == len(set(found)) == (len(union) if budget is None else min(budget, len(union)))
        assert set(found) <= union
        assert again.split(wanted, need) == found
        for ids in wanted.values():  # nobody gets what is less urgent before what is more, but for what others want
            gaps = [name for name in ids if name not in found]
            mine = ids[: ids.index(gaps[0])] if gaps else ids
            others = {name for other in wanted.values() if other is not ids for name in other}
            assert set(found) & set(ids) - set(mine) <= others
        assert all(-1 <= credit <= 1 for credit in shares.credit.values())


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12), st.booleans()), min_size=1, max_size=5),
)
def test_nobody_starves(budget: int, queries: list[tuple[int, int, bool]]) -> None:
    """However little a query needs, and whatever others have in common, it is served before long, again and again."""
    wanted = {
        f"q{number}": [f"common {i}" if together else f"{number}: {i}" for i in range(count)]
        for number, (count, _, together) in enumerate(queries)
    }
    need = {f"q{number}": min(stale, count) for number, (count, stale, _) in enumerate(queries)}
    shares = SharedBudget(budget)
    longest = 2 * len(queries) * sum(1 + stale for stale in need.values()) // budget + 2
    waits = Counter[str]()
    for _ in range(4 * longest):
        found = set(shares.split(wanted, need))
        for query, ids in wanted.items():
            waits[query] = 0 if found & set(ids) else waits[query] + 1
            assert waits[query] <= longest


def test_refreshes_go_where_values_have_probably_changed() -> None:
    """Of two queries that want as much, the one with expired values gets most; the other is not forgotten."""
    remote = Remote(lambda _: {}, budget=4)
    ids = [f"{kind}{i}" for kind in ("fast", "slow") for i in range(9)]
    remote.replica.put(ids, np.zeros(18), at=0)
    remote.replica.set_rates(ids, [1.0] * 9 + [1e-6] * 9)
    got = Counter[str]()
    for moment in range(1, 51):
        found = remote.refresh({"slow": ids[9:], "fast": ids[:9]}, now=moment * 10_000_000).failed  # it never answers
        assert len(found) == 4
        got += Counter(str(name)[:4] for name in found)
    assert got == {"fast": 182, "slow": 18}  # ten parts to one


def test_what_several_want_is_paid_for_once() -> None:
    shares = SharedBudget(2)
    assert shares.split({"p": ["a", "b"], "q": ["a", "c"]}, {"p": 2, "q": 2}) == ["a", "c"]
    assert shares.credit == {"p": 0.0}, "q has all that it wants"


@pytest.mark.parametrize("budget", [0, None])
def test_no_budget_and_no_bound(budget: int | None) -> None:
    remote = Remote(lambda _: {}, limits=Limits(), budget=budget)
    found = remote.refresh({"p": [1, 2], "q": [2, 3], "idle": []}, now=0).failed  # it never answers
    assert list(found) == ([] if budget == 0 else [1, 2, 3])


def test_who_was_served_long_does_not_pay_for_it_when_another_comes() -> None:
    """What others leave over costs nobody anything: what one has drawn beyond one's credit is soon forgotten."""
    shares, many = SharedBudget(3), [f"p{i}" for i in range(20)]
    for _ in range(100):
        assert shares.split({"p": many, "q": ["x"]}, {"p": 0, "q": 1}) == ["x", "p0", "p1"]
    wanted = {"p": many, "q": ["x"], "new": [f"n{i}" for i in range(20)]}
    need = {"p": 0, "q": 1, "new": 0}
    assert "p0" in shares.split(wanted, need) + shares.split(wanted, need)
