"""The methods of Top-k/w equal their references, step by step: top k, bands, filters, thresholds and reports."""

from __future__ import annotations

import numpy as np
import pytest

from skyband.algorithms.topkw.adaptive import AdaptiveBands
from skyband.algorithms.topkw.bands import CPM, NONE, PROBABLE, RELAXED, SNN, STRICT, Bands, BandSpec, Method
from skyband.algorithms.topkw.blocks import BlockBands
from skyband.algorithms.topkw.exhaustive import ExhaustiveBands
from tests.references.objects import Object
from tests.references.topkw import PA, PF, RA, SA, TopKW

SEEDS = range(12)
GAMMA, LIMIT, ADDITIONAL = 0.5, 3, 2
KINDS = {"s": STRICT, "r": RELAXED, "p": PROBABLE}
PUBLISHED = {
    "sa": (STRICT, NONE), "ra": (RELAXED, NONE), "pa": (PROBABLE, NONE),
    **{f"{band}a{front}f": (KINDS[band], KINDS[front]) for band in "sr" for front in "srp"},
}  # fmt: skip
OTHERS: dict[str, tuple[type[Bands], Method]] = {
    "cpm": (ExhaustiveBands, Method(CPM)),
    "snn": (ExhaustiveBands, Method(SNN)),
    "blocks": (BlockBands, Method(RELAXED)),
    "adaptive": (AdaptiveBands, Method(RELAXED, PROBABLE)),
}


def draw(seed: int) -> tuple[int, int, int, list[Object]]:
    """Draw k, n, b and a stream: scores with ties, rising, falling, a random walk or any."""
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 40))
    k, b = int(random.integers(1, 6)), int(random.integers(1, (n + 1) // 2 + 1))
    m = 160
    scores = [
        random.normal(size=m), random.integers(0, 4, m), np.arange(m), -np.arange(m), np.cumsum(random.normal(size=m)),
    ][seed % 5]  # fmt: skip
    return k, n, b, [Object(float(s), i, i) for i, s in enumerate(scores.tolist())]


def skyband(kind: int, k: int) -> SA:
    return {STRICT: SA(k), RELAXED: RA(k, GAMMA), PROBABLE: PA(k, LIMIT, ADDITIONAL)}[kind]


class Fast:
    """One query, told of the stream object by object."""

    def __init__(self, engine: type[Bands], method: Method, k: int, n: int, objects: list[Object]) -> None:
        self.bands = engine(method, dimensions=1)
        self.bands.add([BandSpec(k, n, n, sign=-1.0, point=(0.0,), weight=(1.0,))])
        self.x = np.array([[o.F] for o in objects])
        self.number = np.arange(len(objects))

    def process(self, i: int) -> list[int]:
        """Take in an object; return those that are reported."""
        one = self.number[i : i + 1]
        reports = self.bands.process(self.x[one], one, one, self.number, np.zeros_like(self.number))
        return [int(slot) for slot in reports.slot]


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_step_of_the_published_methods(seed: int, name: str) -> None:
    k, n, b, objects = draw(seed)
    kind, front = PUBLISHED[name]
    method = Method(kind, front, buffer=b, pruning=GAMMA, limit=LIMIT, additional=ADDITIONAL)
    fast = Fast(Bands, method, k, n, objects)
    query_filter: SA | None = None if front == NONE else PF(k, int(fast.bands.filter_most[0]))
    if front in (STRICT, RELAXED):
        query_filter = skyband(front, k)
    plain = TopKW(n, skyband(kind, k), query_filter, b)
    reported: list[int] = []
    for o in objects:
        plain.process(o)
        reported += fast.process(o.time)
        fast.bands.check()
        where = f"seed {seed}, {name}, k = {k}, n = {n}, b = {b}, step {o.time}"
        bands, filters = fast.bands.band, fast.bands.filters
        assert fast.bands.top(0).tolist() == [x.id for x in plain.top_k], where
        assert reported == [x.id for x in plain.reported], where
        if front == PROBABLE:  # any subset of the buffer is a filter: ours drops candidates when one is needed
            continue
        assert bands.slot[0, : bands.size[0]].tolist() == [x.id for x in plain.skyband.objects], where
        if isinstance(plain.skyband, PA):
            assert float(bands.threshold[0]) == pytest.approx(plain.skyband.threshold), where
        if plain.filter is not None:
            assert filters.slot[0, : filters.size[0]].tolist() == [x.id for x in plain.filter.objects], where


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_of_the_others(seed: int, name: str) -> None:
    k, n, _, objects = draw(seed)
    fast, plain = Fast(*OTHERS[name], k, n, objects), TopKW(n, SA(k))
    reported: list[int] = []
    for o in objects:
        plain.process(o)
        reported += fast.process(o.time)
        where = f"seed {seed}, {name}, k = {k}, n = {n}, step {o.time}"
        assert fast.bands.top(0).tolist() == [x.id for x in plain.top_k], where
        assert reported == [x.id for x in plain.reported], where
