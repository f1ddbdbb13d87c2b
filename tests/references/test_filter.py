"""FILTER's policies equal their references: who is elected, and which ids pass."""

from __future__ import annotations

import numpy as np
import pytest

from skyband.remote.filter_join import filter_join
from skyband.remote.policies import POLICIES
from skyband.remote.remote import Remote
from skyband.windows import WindowGrid
from tests.references import acquatop
from tests.references import filter as paper
from tests.references.test_acquatop import SIZE, SLIDE, Service, arrivals, drawn

FT, FDT = 20.0, 8.0


@pytest.mark.parametrize("seed", range(60))
def test_policies_elect_the_same(seed: int) -> None:
    candidates, mappings, budget = drawn(seed)
    assert candidates.threshold is not None
    by_use = acquatop.WBM(candidates.now, candidates.size, candidates.slide)
    policies = {
        "Filter Update": paper.filter_update(candidates.threshold),
        "WSJ-LRU.F": paper.with_filter(acquatop.LRU, candidates.threshold, candidates.distance),
        "WSJ-WBM.F": paper.with_filter(by_use, candidates.threshold, candidates.distance),
    }
    for name, policy in policies.items():
        elected = POLICIES[name].elect(candidates, budget, np.random.default_rng(0)).tolist()
        expected = [mapping.id for mapping in policy(mappings, budget)]
        assert elected == expected, f"seed {seed}, {name} with a budget of {budget}"
    # RND.F draws among the same candidates; the package draws none twice, the authors' program may.
    near = paper.with_filter(acquatop.ASM, candidates.threshold, candidates.distance)(mappings, 0)
    drawn_ones = POLICIES["WSJ-RND.F"].elect(candidates, budget, np.random.default_rng(seed)).tolist()
    assert len(set(drawn_ones)) == len(drawn_ones) == min(budget, len(near)), f"seed {seed}"
    assert set(drawn_ones) <= {mapping.id for mapping in near}, f"seed {seed}"


@pytest.mark.parametrize("policy", ["Filter Update", "WSJ-LRU", "WSJ-LRU.F"])
@pytest.mark.parametrize("seed", range(8))
def test_the_join(policy: str, seed: int) -> None:
    """The same elected sets, in any order of asking, and so the same answers, window by window."""
    random = np.random.default_rng(seed)
    budget, service = int(random.integers(1, 7)), Service(random)
    remote = Remote(service.fetch, known=dict(service.values))
    fast = filter_join(
        remote,
        windows=WindowGrid(SIZE, SLIDE), condition=">", threshold=FT, policy=policy, budget=budget, distance=FDT,
        only_candidates=True,
    )  # fmt: skip
    elect = {
        "Filter Update": paper.filter_update(FT),
        "WSJ-LRU": acquatop.LRU,
        "WSJ-LRU.F": paper.with_filter(acquatop.LRU, FT, FDT),
    }[policy]
    R = {name: acquatop.Mapping(name, value) for name, value in service.values.items()}
    slow = paper.FilterJoin(SIZE, SLIDE, lambda x: x > FT, R, lambda name: service.values[name], elect, budget)
    for window in range(15):
        service.change(random)
        for name, _, time in arrivals(random, window):
            fast.arrive([name], [0.0], [time])
            slow.arrive(name, time)
        service.asked.clear()
        answer = fast.evaluate(SIZE + SLIDE * window)
        expected, elected = slow.evaluate()
        assert answer.ids == expected, f"seed {seed}, window {window}"
        assert sorted(service.asked) == sorted(elected), f"seed {seed}, window {window}"
