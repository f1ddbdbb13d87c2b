"""One run of the benchmark `topkw`: an algorithm, a scenario, a clock; and the row that it leaves."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

import skyband.algorithms.topkw.blocks
from benchmarks.workloads import SEED
from skyband.algorithms import ALGORITHMS, find
from skyband.algorithms.options import write
from skyband.algorithms.topkw.bands import Bands, BandSpec, TopKReports
from skyband.algorithms.topkw.event_kernels import EUCLID
from skyband.algorithms.topkw.query_grid import QueryGrid
from skyband.algorithms.topkw.sliding import Sliding
from skyband.order import FloatArray, IntArray

FULL, FILLING, WHOLE = "full", "filling", "from the start"


@dataclass(frozen=True)
class Scenario:
    """Table IX of the paper: the data, how many queries, and the parameters of queries and algorithms.

    Examples
    --------
    >>> Scenario(k=27, indexed=False).engine("pa").grid is None
    True
    """

    data: str = "uniform"
    queries: int = 400
    k: int = 9
    n: int = 40_000
    b: int = 2_000
    d: int = 2
    rho: int = 10
    sigma: float = 0.001
    additional: int = 10
    gamma: float = 0.2
    indexed: bool = True

    def engine(self, algorithm: str) -> Bands:
        """Return what keeps the queries; `rapf2` is RAPF with the longest buffer that is allowed."""
        kind = find(self.notation(algorithm))
        assert issubclass(kind, Sliding)
        grid = QueryGrid(np.zeros(self.d), np.ones(self.d), self.rho) if self.indexed else None
        return kind.engine(kind.method_with_options(indexed=self.indexed), self.d, grid)

    def notation(self, algorithm: str) -> str:
        """Return an algorithm with the options of this scenario, those that it has.

        Examples
        --------
        >>> Scenario(b=500).notation("rapf")
        'rapf(buffer=500, error=0.001, pruning=0.2, cells=10)'
        """
        name, longest = ("rapf", True) if algorithm == "rapf2" else (algorithm, False)
        values: dict[str, float] = {
            "buffer": self.n // 2 if longest else self.b, "pruning": self.gamma, "error": self.sigma,
            "additional": self.additional, "cells": self.rho,
        }  # fmt: skip
        return write(name, {one.name: values[one.name] for one in ALGORITHMS[name].options if one.name in values})

    def specs(self, points: FloatArray) -> list[BandSpec]:
        """Return the queries: some of the events, drawn at random, whose nearest neighbours are wanted."""
        chosen = np.random.default_rng(SEED + 1).integers(len(points), size=self.queries)
        each = (tuple(points[at].tolist()) for at in chosen)
        return [BandSpec(self.k, self.n, self.n, EUCLID, 1.0, point, (1.0,) * self.d) for point in each]


@dataclass(frozen=True)
class Effort:
    """How long a run is, in events after the windows are full: from `least` until `seconds` are spent, or `most`.

    A run that takes longer than `limit` seconds in all ends at once. `whole`: the clock runs from the first event.
    """

    least: int
    most: int
    seconds: float
    limit: float
    batch: int = 10_000
    whole: bool = False


ALL_OF_IT = Effort(0, 0, math.inf, math.inf, whole=True)


@dataclass(frozen=True)
class Trial:
    """One figure: an algorithm in a scenario.

    `window` is its length. `seconds` are those of `events`, while windows were `full`, still `filling` (the run took
    too long), or of all, `from the start`. Per query, at the end of the run: `references` in bands and filters, and
    `objects` in memory; `reports` are all that were made. Where errors were counted: `missed` and `wrong` events per
    query.
    """

    experiment: str
    data_set: str
    parameter: str
    value: str
    algorithm: str
    indexed: str
    queries: int
    window: int
    windows: str
    events: int
    seconds: float
    events_per_s: float
    references: float
    objects: float
    reports: int
    missed: float | None = None
    wrong: float | None = None

    @property
    def per_event(self) -> float:
        """The microseconds of an event."""
        return 1e6 / self.events_per_s


@dataclass(frozen=True)
class Run:
    """What was measured."""

    windows: str
    events: int
    seconds: float
    references: int
    objects: int
    reports: int

    def trial(self, experiment: str, parameter: str, value: object, algorithm: str, scenario: Scenario) -> Trial:
        """Return the row of this run."""
        indexed = "own" if algorithm == "blocks" else "yes" if scenario.indexed else "no"
        u = scenario.queries
        return Trial(
            experiment, scenario.data, parameter, str(value), algorithm, indexed, u, scenario.n, self.windows,
            self.events, self.seconds, self.events / self.seconds, self.references / u, self.objects / u, self.reports,
        )  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """Some events that were passed, in so many seconds, and what was reported of them."""

    events: int
    seconds: float
    reports: TopKReports


def feed(bands: Bands, points: FloatArray, size: int) -> Iterator[Batch]:
    """Pass events in order, a batch at a time; the clock runs for nothing else."""
    arrival = np.arange(len(points))
    for low in range(0, len(points), size):
        new = arrival[low : low + size]
        began = time.perf_counter()
        reports = bands.process(points[low : low + size], new, new, arrival, arrival)
        yield Batch(len(new), time.perf_counter() - began, reports._replace(at=reports.at + low))


@cache
def compiled(algorithm: str, indexed: bool) -> None:
    """Let an engine of its own see a few events, once: what it needs is compiled before a clock runs."""
    few = Scenario(queries=2, k=2, n=100, b=10, indexed=indexed)
    reports_of(algorithm, few, np.random.default_rng(SEED).random((300, few.d)))


def run(algorithm: str, scenario: Scenario, points: FloatArray, effort: Effort) -> Run:
    """Let queries see events until it is known how long an event takes."""
    compiled(algorithm, scenario.indexed)
    bands = scenario.engine(algorithm)
    bands.add(scenario.specs(points))
    filling: list[Batch] = []
    counted: list[Batch] = []
    for batch in feed(bands, points, effort.batch):
        full = effort.whole or _events(filling) >= scenario.n
        (counted if full else filling).append(batch)
        enough = _events(counted) >= effort.least and _seconds(counted) >= effort.seconds
        if enough or _seconds(filling) + _seconds(counted) > effort.limit:
            break
    measured, windows = (counted, WHOLE if effort.whole else FULL) if counted else (filling[-1:], FILLING)
    told = sum(len(batch.reports.row) for batch in filling + counted)
    return Run(windows, _events(measured), _seconds(measured), bands.references(), len(bands.kept()), told)


def _events(batches: list[Batch]) -> int:
    return sum(batch.events for batch in batches)


def _seconds(batches: list[Batch]) -> float:
    return sum(batch.seconds for batch in batches)


def reports_of(algorithm: str, scenario: Scenario, points: FloatArray, batch: int = 10_000) -> tuple[IntArray, Run]:
    """Return all reports as rows of query, event and when it was reported, in order; and what the run took."""
    bands = scenario.engine(algorithm)
    bands.add(scenario.specs(points))
    batches = list(feed(bands, points, batch))
    row, slot, at = (np.concatenate([getattr(one.reports, name) for one in batches]) for name in ("row", "slot", "at"))
    found = np.column_stack([row, slot, at])[np.lexsort((at, slot, row))]
    done = Run(WHOLE, _events(batches), _seconds(batches), bands.references(), len(bands.kept()), len(found))
    return found, done


def error(trial: Trial, found: IntArray, expected: IntArray) -> Trial:
    """Count in a row the events that were never reported, and those that should not have been; per query.

    Examples
    --------
    >>> row = Run(WHOLE, 10, 1.0, 0, 0, 2).trial("error", "k", 1, "pa", Scenario(queries=2))
    >>> counted = error(row, np.array([[0, 5, 5], [1, 6, 7]]), np.array([[0, 5, 6], [1, 7, 7]]))
    >>> counted.missed, counted.wrong
    (0.5, 0.5)
    """
    ours, theirs = (np.unique((reports[:, 0] << 40) + reports[:, 1]) for reports in (found, expected))
    missed, wrong = np.setdiff1d(theirs, ours), np.setdiff1d(ours, theirs)
    return replace(trial, missed=len(missed) / trial.queries, wrong=len(wrong) / trial.queries)


@contextmanager
def on_one_core() -> Iterator[None]:
    """Let the product's own way use one thread, as all published algorithms do."""
    before, skyband.algorithms.topkw.blocks.THREADS = skyband.algorithms.topkw.blocks.THREADS, 1
    try:
        yield
    finally:
        skyband.algorithms.topkw.blocks.THREADS = before
