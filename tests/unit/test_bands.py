"""Many queries with functions of their own: every step of every query as defined, with and without an index."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from skyband.algorithms.topkw import random_order
from skyband.algorithms.topkw.adaptive import AdaptiveBands
from skyband.algorithms.topkw.band_kernels import ENTERED, LEFT, RETURNED
from skyband.algorithms.topkw.bands import CPM, NONE, PROBABLE, RELAXED, SNN, STRICT, Bands, BandSpec, Method
from skyband.algorithms.topkw.blocks import BlockBands
from skyband.algorithms.topkw.event_kernels import ATTRIBUTE, COLUMN, EUCLID, SUM
from skyband.algorithms.topkw.exhaustive import ExhaustiveBands
from skyband.algorithms.topkw.query_grid import QueryGrid

METHODS = {
    "sa": Method(STRICT),
    "ra": Method(RELAXED),
    "sasf": Method(STRICT, STRICT, buffer=20),
    "sarf": Method(STRICT, RELAXED, buffer=20),
    "sapf": Method(STRICT, PROBABLE, buffer=20),
    "rasf": Method(RELAXED, STRICT, buffer=20),
    "rarf": Method(RELAXED, RELAXED, buffer=20),
    "rapf": Method(RELAXED, PROBABLE, buffer=20),
    "cpm": Method(CPM),
    "snn": Method(SNN),
    "blocks": Method(RELAXED),
    "restless": Method(RELAXED, PROBABLE, buffer=20, limit=1000),  # so probabilistic bands lose nothing
}
Step = tuple[int, int, int, int]  # at which event, which query, what happened, to which event


class Fickle(random_order.Watch):
    """Changes its mind at once, whatever comes."""

    def judge(self, now: int, longest: int) -> random_order.Order:
        """Say one thing or the other."""
        self.seen, self.room = [], random_order.BLOCK
        return random_order.Order.RANDOM if (now + longest) % 5 < 3 else random_order.Order.CORRELATED


class Restless(AdaptiveBands):
    """Changes its method every few events."""

    def __init__(self, method: Method, dimensions: int, grid: QueryGrid | None = None, changes: bool = False) -> None:
        super().__init__(method, dimensions, grid, changes)
        self.watch = Fickle()


ENGINES: dict[str, type[Bands]] = {
    "cpm": ExhaustiveBands, "snn": ExhaustiveBands, "blocks": BlockBands, "restless": Restless,
}  # fmt: skip


def cost(spec: BandSpec, x: np.ndarray) -> np.ndarray:
    """Return what the scoring function of a query says, the plain way."""
    point, weight = np.array(spec.point), np.array(spec.weight)
    value: np.ndarray
    if spec.family == COLUMN:
        value = x[:, spec.column]
    elif spec.family == SUM:
        value = x[:, : len(weight)] @ weight
    elif spec.family == EUCLID:
        value = np.sqrt((weight * (x[:, : len(weight)] - point) ** 2).sum(axis=1))
    else:
        value = (weight * np.abs(x[:, : len(weight)] - point)).max(axis=1)
    d = len(spec.floor)
    inside = ((x[:, :d] >= spec.floor) & (x[:, :d] <= spec.ceiling)).all(axis=1)
    return np.where(inside, spec.sign * value, np.nan)


def truth(specs: list[BandSpec], x: np.ndarray, position: np.ndarray, since: list[int], until: list[int]) -> set[Step]:
    """Return, from the definition, who is among the best at every step that was not so before, and who no longer is."""
    steps: set[Step] = set()
    for q, spec in enumerate(specs):
        costs, told, before = cost(spec, x), set[int](), set[int]()
        for e in range(since[q], until[q]):
            now = position[: e + 1].max()
            inside = [i for i in range(since[q], e + 1) if position[i] > now - spec.size and costs[i] == costs[i]]
            best = set(sorted(inside, key=lambda i: (costs[i], -i))[: spec.k])
            for i in best - before:
                steps.add((e, q, RETURNED if i in told else ENTERED, i))
            steps |= {(e, q, LEFT, i) for i in before - best}
            told |= best
            before = best
    return steps


def spec_of(rng: np.random.Generator, x: np.ndarray, longest: int) -> BandSpec:
    d = x.shape[1] - 1
    family = int(rng.choice([SUM, EUCLID, ATTRIBUTE, COLUMN]))
    size = int(rng.integers(4, longest))
    box = np.sort(x[rng.integers(len(x), size=2), :d], axis=0) if rng.random() < 0.3 else np.empty((2, 0))
    return BandSpec(
        k=int(rng.integers(1, 6)), size=size, population=size, family=family, sign=float(rng.choice([1.0, -1.0])),
        point=tuple(x[rng.integers(len(x)), :d].tolist()), column=d,
        weight=tuple((np.ones(d) if family == EUCLID else rng.normal(size=d).round(2) if family == SUM
                      else rng.random(d).round(2)).tolist()),
        floor=tuple(box[0].tolist()), ceiling=tuple(box[1].tolist()),
    )  # fmt: skip


def stream(seed: int, n: int = 240, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return events with d attributes and a score: in random order, drifting, or with many ties; some come late."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, d + 1)) if seed % 3 else np.cumsum(rng.normal(size=(n, d + 1)), axis=0) / 10
    if seed % 4 == 1:
        x = x.round(1)
    position = np.arange(n) if seed % 2 else np.maximum(np.cumsum(rng.integers(0, 4, n)) - rng.integers(0, 9, n), 0)
    return x, position


@pytest.mark.parametrize("indexed", [False, True], ids=["all", "index"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(6))
def test_every_step_is_as_defined(seed: int, method: str, indexed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries come and go, the store is compacted and the state restored on the way."""
    monkeypatch.setattr("skyband.algorithms.topkw.blocks.LEAST", 5 + 10 * indexed)  # so that there are several blocks
    monkeypatch.setattr("skyband.algorithms.topkw.blocks.REPORTS", 10)
    monkeypatch.setattr("skyband.algorithms.topkw.random_order.BLOCK", 7)
    rng = np.random.default_rng(seed)
    x, position = stream(seed)
    grid = QueryGrid.over(x[:30, :-1], cells=5) if indexed else None  # later events leave the known range
    specs = [spec_of(rng, x, 60) for _ in range(6)]
    since, until = [0, 0, 0, 60, 60, 150], [len(x), 100, len(x), len(x), 150, len(x)]
    bands = ENGINES.get(method, Bands)(METHODS[method], 2, grid, changes=True)
    rows: dict[int, int] = {}  # which query a row serves
    found: set[Step] = set()
    number = np.arange(len(x))
    time, slot_of, event_of = -number[:0], number.copy(), number.copy()
    edges = sorted({0, 60, 100, 150, len(x), *rng.integers(1, len(x), 6).tolist()})
    for begin, end in pairwise(edges):
        gone = [row for row, q in rows.items() if until[q] == begin]
        bands.remove(gone)
        rows = {row: q for row, q in rows.items() if row not in gone}
        fresh = [q for q in range(len(specs)) if since[q] == begin]
        rows |= dict(zip(bands.add([specs[q] for q in fresh]), fresh, strict=True))
        slots = slot_of[begin:end]
        time = number[event_of[: slots[-1] + 1]]
        reports = bands.process(x[begin:end], position[begin:end], slots, time, np.zeros_like(time))
        found |= {
            (begin + at, rows[row], kind, int(event_of[slot]))
            for row, slot, kind, at in zip(*(column.tolist() for column in reports[:4]), strict=True)
        }
        bands.check()
        slot_of, event_of = compacted(bands, slot_of, event_of, slots[-1] + 1)
        bands = restored(bands, [specs[rows[row]] for row in sorted(rows)], grid)
        rows = dict(enumerate(rows[row] for row in sorted(rows)))
    assert found == truth(specs, x, position, since, until), f"seed {seed}"
    assert not isinstance(bands, Restless) or bands.switches > 8


def compacted(bands: Bands, slot_of: Any, event_of: Any, used: int) -> tuple[np.ndarray, np.ndarray]:
    """Let only kept events keep a slot, as an store does."""
    kept = bands.kept()
    moved = np.full(used, -1, np.int32)
    moved[kept] = np.arange(len(kept))
    bands.compact(moved)
    events = np.concatenate([event_of[kept], event_of[used:]])
    slots = np.full(len(slot_of), -1)
    slots[events] = np.arange(len(events))
    return slots, np.concatenate([events, np.zeros(len(slot_of), np.int64)])[: len(slot_of)]


def restored(bands: Bands, specs: list[BandSpec], grid: QueryGrid | None) -> Bands:
    again = type(bands)(bands.method, bands.dimensions, grid, bands.changes)
    again.add(specs)
    again.load(bands.state())
    return again


def test_a_probabilistic_band_needs_no_index_and_no_more_than_its_limit() -> None:
    x, position = stream(1, n=4000)
    specs = [BandSpec(5, 500, 500, EUCLID, 1.0, tuple(x[i, :2].tolist()), (1.0, 1.0)) for i in range(8)]
    found = []
    for grid in (None, QueryGrid.over(x[:, :2], 10)):
        bands = Bands(Method(PROBABLE), 2, grid)
        bands.add(specs)
        number = np.arange(len(x))
        reports = bands.process(x, position, number, number, np.zeros_like(number))
        found.append(sorted(zip(reports.row.tolist(), reports.slot.tolist(), strict=True)))
        bands.check()
        assert bands.references() <= 8 * (5 + int(bands.most[0]))
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9, 10])
def test_the_buffer_is_never_longer_than_half_a_window(size: int) -> None:
    assert 2 * Method(STRICT, STRICT, buffer=10**6).buffer_for(size) <= size + 1
    bands = Bands(Method(STRICT, STRICT, buffer=100), 1)
    bands.add([BandSpec(1, 50, 50, weight=(1.0,), point=(0.0,)), BandSpec(1, size, size, weight=(1.0,), point=(0.0,))])
    assert bands.buffer == (size + 1) // 2, "the shortest window decides"
    assert Method(STRICT, NONE).filter == NONE
