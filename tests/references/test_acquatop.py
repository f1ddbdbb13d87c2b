"""Topk+N, AcquaTop and its policies equal their references: lists, marks, pointers, elected sets and answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from skyband.remote.acquatop import acquatop
from skyband.remote.objects import Arrivals
from skyband.remote.policies import POLICIES
from skyband.remote.policies.base import Candidates
from skyband.remote.remote import Remote
from skyband.remote.services.base import Id
from skyband.remote.topkn import TopkN
from skyband.windows import WindowGrid
from tests.references import acquatop as reference

SIZE, SLIDE, IDS = 30, 10, 20


def add(stream: float, remote: float) -> float:
    return stream + remote


def arrivals(random: np.random.Generator, window: int) -> list[tuple[int, float, int]]:
    """Draw what arrives between the ends of two windows, in order: ids, the stream's scores, times."""
    low = 0 if window == 0 else SIZE + SLIDE * (window - 1)
    number = int(random.integers(0, 14))
    times = np.sort(random.integers(low, SIZE + SLIDE * window, number)).tolist()
    ids, scores = random.integers(0, IDS, number).tolist(), random.integers(0, 30, number).astype(float).tolist()
    return list(zip(ids, scores, times, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_topkn(seed: int) -> None:
    """Objects come one by one, the same id again and again; remote values change inside and outside of the list."""
    random = np.random.default_rng(seed)
    k, n = int(random.integers(1, 4)), int(random.integers(0, 4))
    fast = TopkN(k=k, n=n, windows=WindowGrid(SIZE, SLIDE), score=np.add)
    slow = reference.TopkN(k, n, SIZE, SLIDE, add)
    values = {name: float(value) for name, value in enumerate(random.integers(0, 10, IDS).tolist())}
    fast.go_to(0)

    def compare(when: str) -> None:
        listed = [(one.id, one.merit, one.start, one.end) for one in fast.list]
        expected = [(each.o.id, each.o.F, each.w_start, each.w_end) for each in slow.super_MTKN]
        assert listed == expected, f"seed {seed}, window {slow.w}, {when}"
        pointers = {w: each.o.id for w, each in slow.lbp.items()}
        assert fast.pointers() == pointers, f"seed {seed}, window {slow.w}, {when}"

    for window in range(15):
        for name, stream, time in arrivals(random, window):
            fast.arrive(Arrivals.of([name], [stream], [time], [values[name]]))
            slow.UpdateMTKN(reference.Joined(name, time, stream, values[name]))
            compare(f"object {name} at {time}")
        changed = {int(name): float(random.integers(0, 30)) for name in random.choice(IDS, 4, replace=False)}
        values |= changed
        fast.change(changed)  # type: ignore[arg-type]
        best = [one.id for one in fast.best(k)]
        assert best == slow.evaluate(changed), f"seed {seed}, window {window}"
        fast.go_to(window + 1)
        compare("purged")


@pytest.mark.parametrize("seed", range(20))
def test_algorithm_1(seed: int) -> None:
    """The whole loop over a stream, with changes that are pushed at every evaluation."""
    random = np.random.default_rng(seed)
    stream = [event for window in range(12) for event in arrivals(random, window)]
    changes = {w: {int(random.integers(IDS)): float(random.integers(0, 30))} for w in range(12)}
    fast, slow = TopkN(k=2, n=3, windows=WindowGrid(SIZE, SLIDE), score=np.add), reference.TopkN(2, 3, SIZE, SLIDE, add)
    # The remote values that the stream is joined with stay what they were: changes are told, and no replica kept.
    expected = slow.run((reference.Joined(name, t, s, 0.0) for name, s, t in stream), changes.__getitem__, 12)
    found = []
    fast.go_to(0)
    for window in range(12):
        for name, s, t in stream:
            if t < SIZE + SLIDE * window and (window == 0 or t >= SIZE + SLIDE * (window - 1)):
                fast.arrive(Arrivals.of([name], [s], [t], [0.0]))
        fast.change(changes[window])  # type: ignore[arg-type]
        found.append([one.id for one in fast.best(2)])
        fast.go_to(window + 1)
    assert found == expected, f"seed {seed}"


class Service:
    """A remote side that changes and remembers who was asked for."""

    def __init__(self, random: np.random.Generator) -> None:
        self.values = {name: float(value) for name, value in enumerate(random.integers(0, 40, IDS).tolist())}
        self.asked: list[int] = []

    def fetch(self, ids: Sequence[Id]) -> dict[Id, float | None]:
        self.asked += [int(name) for name in ids]
        return {name: self.values[int(name)] for name in ids}

    def change(self, random: np.random.Generator) -> None:
        for name in random.choice(IDS, 6, replace=False).tolist():
            self.values[name] = float(random.integers(0, 40))


def policy_of(name: str, k: int) -> reference.Policy:
    return {"AT-TSM": reference.TSM, "AT-BSM": reference.BSM(k), "AT-ASM": reference.ASM, "AT-LRU": reference.LRU}[name]


@pytest.mark.parametrize("policy", ["AT-TSM", "AT-BSM", "AT-ASM", "AT-LRU"])
@pytest.mark.parametrize("seed", range(8))
def test_figure_8_the_framework(policy: str, seed: int) -> None:
    """The same elected sets, in any order of asking, and so the same answers, window by window."""
    random = np.random.default_rng(seed)
    k, n, budget = int(random.integers(1, 5)), int(random.integers(0, 5)), int(random.integers(1, 7))
    service = Service(random)
    remote = Remote(service.fetch, known=dict(service.values))
    gamma = None if policy == "AT-ASM" else budget
    fast = acquatop(
        remote,
        k=k,
        n=n,
        windows=WindowGrid(SIZE, SLIDE),
        score=np.add,
        policy=policy,
        budget=gamma,
        only_candidates=True,
    )
    R = {name: reference.Mapping(name, value) for name, value in service.values.items()}
    slow = reference.AcquaTop(
        reference.TopkN(k, n, SIZE, SLIDE, add), R, lambda name: service.values[name], policy_of(policy, k), budget
    )
    for window in range(15):
        service.change(random)
        for name, stream, time in arrivals(random, window):
            fast.arrive([name], [stream], [time])
            slow.arrive(name, stream, time)
        service.asked.clear()
        answer = fast.evaluate(SIZE + SLIDE * window)
        assert answer.ids == slow.evaluate(), f"seed {seed}, window {window}"
        assert sorted(service.asked) == sorted(slow.elected[-1]), f"seed {seed}, window {window}"
        assert answer.refreshes == len(slow.elected[-1]), f"seed {seed}, window {window}"


def drawn(seed: int) -> tuple[Candidates, list[reference.Mapping], int]:
    """Draw what a policy sees, in both forms, and a budget."""
    random = np.random.default_rng(seed)
    now, number = 1_000, int(random.integers(0, 20))
    refreshed, interval = random.integers(0, now, number), random.integers(1, 400, number)
    mappings = [
        reference.Mapping(i, float(value), t, at, at + every, every)
        for i, (value, t, at, every) in enumerate(
            zip(
                random.integers(0, 2_000, number).tolist(),
                random.integers(now - 100, now, number).tolist(),
                refreshed.tolist(),
                interval.tolist(),
                strict=True,
            )
        )
    ]
    value = np.array([mapping.value for mapping in mappings])
    candidates = Candidates(
        now=now, size=100, slide=7, k=int(random.integers(1, 8)), place=np.arange(number),
        time=np.array([mapping.t for mapping in mappings], np.int64),
        score=-np.arange(float(number)),
        value=value, refreshed=refreshed, best_before=refreshed + interval, interval=interval, threshold=1_000.0,
        distance=300.0,
    )  # fmt: skip
    return candidates, mappings, int(random.integers(0, 12))


@pytest.mark.parametrize("seed", range(60))
def test_policies_elect_the_same(seed: int) -> None:
    candidates, mappings, budget = drawn(seed)
    policies = {
        "AT-TSM": reference.TSM,
        "AT-BSM": reference.BSM(candidates.k),
        "AT-LRU": reference.LRU,
        "WSJ-LRU": reference.LRU,
        "AT-WBM": reference.WBM(candidates.now, candidates.size, candidates.slide),
        "WSJ-WBM": reference.WBM(candidates.now, candidates.size, candidates.slide),
    }
    for name, policy in policies.items():
        elected = POLICIES[name].elect(candidates, budget, np.random.default_rng(0)).tolist()
        expected = [mapping.id for mapping in policy(mappings, budget)]
        assert elected == expected, f"seed {seed}, {name} with a budget of {budget}"
    everyone = POLICIES["AT-ASM"].elect(candidates, None, np.random.default_rng(0)).tolist()
    assert everyone == [mapping.id for mapping in reference.ASM(mappings, 0)], f"seed {seed}"
