"""The benchmark `stkqf`: the experiments of section 4 of the paper on STKQF, on queries that come and go.

A hundred queries, whose windows, slides and k are normally distributed around means; one mean at a time is varied. The
table with the means is missing in the paper at hand: seven values were chosen in each of the ranges that its text
names. The default size has a tenth of the events (see `benchmarks.papers`); `--full` has all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import count as numbers
from math import floor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measure import Cell, Patience
from benchmarks.papers import (
    USUAL,
    Between,
    Run,
    Setting,
    Stream,
    agreement,
    compare,
    fastest,
    feed,
    queries_of,
    setting_for,
)
from benchmarks.papers.work import figures
from benchmarks.workloads import SEED
from skyband.engine.monitor import Monitor
from skyband.queries.query import Query
from skyband.windows import Window

ALGORITHMS = ("phtree", "phbase", "mtoplist", "sap", "mtopband", "stkqf", "staircase")
SHARES = {"sap": 4}  # it works for each query apart: a quarter of the events is enough to see how long it takes
DEVIATION = 100


@dataclass(frozen=True)
class Workload:
    """Queries: how many, and the means of their windows and slides (in ticks), and of k."""

    count: int
    n: int = 1_000_000
    share: float = 0.01  # the slide, as a share of the window
    k: int = 100

    @property
    def slide(self) -> int:
        """The mean slide in ticks."""
        return round(self.n * self.share)

    def queries(self, stream: Stream, seed: int = 0, prefix: str = "q") -> list[Query]:
        """Draw queries over a stream; the fewer events it has, the smaller is k."""
        rng = np.random.default_rng(SEED + seed)
        sizes, slides, ks = (
            np.maximum(np.rint(rng.normal(mean, DEVIATION, self.count)), 1).astype(np.int64)
            for mean in (self.n, self.slide, self.k)
        )
        return queries_of(stream.score, sizes, slides, np.maximum(ks // stream.step, 1), prefix)


@dataclass(frozen=True)
class Scale:
    """How much of everything.

    Ticks from event to event, and of the stream; how many queries there are, and the values of what is varied:
    windows, slides (as shares of windows), k, numbers of queries, queries replaced per slide, columns of a score; ticks
    of the stream for queries that change; of how many values the data sets other than the first get one; how often to
    repeat; the folder of recorded data (None: the usual one).
    """

    step: int = 10
    ticks: int = 1_250_000
    queries: int = 100
    n: tuple[int, ...] = (100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000)
    s: tuple[float, ...] = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
    k: tuple[int, ...] = (10, 20, 50, 100, 200, 500, 1000)
    counts: tuple[int, ...] = (10, 20, 50, 100, 200, 500, 1000)
    f: tuple[float, ...] = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
    dimensions: tuple[int, ...] = (2, 4, 6, 8)
    f_ticks: int = 300_000
    every: int = 3
    patience: Patience = USUAL
    data: Path | None = None

    @classmethod
    def of(cls, *, full: bool, smoke: bool, data: Path | None) -> Scale:
        """Return the scale that was asked for."""
        if smoke:
            return cls(
                1000, 1_250_000, 5, (500_000, 1_000_000), (0.01, 0.1), (100, 1000), (2, 5), (0.5, 2.0), (2, 8), 200_000,
                3, Patience(0.0), data,
            )  # fmt: skip
        return cls(1, every=1, patience=Patience(6.0, 1, 3), data=data) if full else cls(data=data)


def setting(scale: Scale) -> nullcontext[Setting]:
    """Give what experiments run in."""
    return nullcontext(
        setting_for(scale, step=scale.step, events=scale.ticks // scale.step, f_events=scale.f_ticks // scale.step)
    )


def _usual(setting: Setting, name: str, ticks: int | None = None) -> Stream:
    return setting.stream((ticks or setting.scale.ticks) // setting.scale.step, setting.scale.step, name)


def _values(setting: Setting, name: str, values: Sequence[Any]) -> Sequence[Any]:
    """Return the values for a data set: all for the first one, some for the others."""
    return values if name == setting.names[0] else values[:: setting.scale.every]


def _sweep(
    experiment: str, setting: Setting, workloads: Callable[[Any], Workload], values: Sequence[Any]
) -> Iterator[Cell]:
    """Time all algorithms with several values of a parameter, on every data set, after they agreed on few queries."""
    for name in setting.names:
        for value in _values(setting, name, values):
            workload = workloads(value)
            ticks = max(setting.scale.ticks, workload.n * 5 // 4)  # so that the windows fill up
            stream = _usual(setting, name, ticks)
            if value == values[0]:
                yield from agreement(experiment, ALGORITHMS, stream, workload.queries(stream))
            runs = compare(ALGORITHMS, stream, workload.queries(stream), setting.scale.patience, SHARES)
            for algorithm, run in runs.items():
                yield run.cell(experiment, name, experiment, value, algorithm)
            if name == setting.names[0]:
                yield from figures(experiment, stream, workload.queries(stream), runs, value)


def windows(setting: Setting) -> Iterator[Cell]:
    """Windows from a hundred thousand ticks to ten million; slides are a hundredth of them."""
    yield from _sweep("n", setting, lambda n: Workload(setting.scale.queries, n=n), setting.scale.n)


def slides(setting: Setting) -> Iterator[Cell]:
    """Slides from a thousandth of the window to a tenth."""
    yield from _sweep("s", setting, lambda s: Workload(setting.scale.queries, share=s), setting.scale.s)


def ks(setting: Setting) -> Iterator[Cell]:
    """Answers from the best 10 to the best 1,000."""
    yield from _sweep("k", setting, lambda k: Workload(setting.scale.queries, k=k), setting.scale.k)


def query_counts(setting: Setting) -> Iterator[Cell]:
    """From ten queries to a thousand."""
    yield from _sweep("queries", setting, Workload, setting.scale.counts)


# Queries that come and go.


def updates(setting: Setting) -> Iterator[Cell]:
    """Replace queries while the stream runs: from one in twenty slides to five in every slide."""
    workload = Workload(setting.scale.queries)
    for name in setting.names:
        stream = _usual(setting, name, setting.scale.f_ticks)
        queries = workload.queries(stream)
        batch = max(workload.slide // stream.step, 1)
        yield from agreement("f", ALGORITHMS, stream, queries)
        for f in _values(setting, name, setting.scale.f):
            changing = partial(replacing, workload, stream, [query.name for query in queries], f)
            patience = setting.scale.patience
            runs = compare(ALGORITHMS, stream, queries, patience, SHARES, batch=batch, changing=changing)
            for algorithm, run in runs.items():
                cell = run.cell("f", name, "f", f, algorithm)
                yield cell
                yield replace(cell, experiment="exact", answers=run.exact)


def replacing(workload: Workload, stream: Stream, names: Sequence[str], f: float) -> Between:
    """Return what replaces `f` queries between two batches: the oldest ones go, others like them come."""
    served, turn = list(names), numbers(1)

    def between(monitor: Monitor) -> None:
        now = next(turn)
        due = floor(now * f) - floor((now - 1) * f)
        if not due:
            return
        for name in served[:due]:
            monitor.unregister(name)
        new = replace(workload, count=due).queries(stream, now, f"slide {now}, ")
        monitor.register(*new)
        served[:due] = []
        served.extend(query.name for query in new)

    return between


# How long an answer takes.


def query_time(setting: Setting) -> Iterator[Cell]:
    """Answers alone: all windows end at the same moments; everything else is done before."""
    workload = Workload(setting.scale.queries)
    for name in setting.names:
        stream = _usual(setting, name)
        queries = [_ending_together(query, workload.slide) for query in workload.queries(stream)]
        jobs = {algorithm: partial(answering, algorithm, stream, queries) for algorithm in ALGORITHMS}
        for algorithm, run in fastest(jobs, Patience(0.0)).items():
            yield run.cell("query-time", name, "queries", len(queries), algorithm)


def _ending_together(query: Query, slide: int) -> Query:
    """Return a query with this slide whose windows end at multiples of it."""
    return replace(query, window=Window(query.window.size, slide=slide, offset=-query.window.size % slide))


def answering(algorithm: str, stream: Stream, queries: Sequence[Query]) -> Run:
    """Time only the answers, slide by slide once the windows are full.

    It is the time of a step that ends all windows, less that of one in the middle of the slide that ends none. Both
    take in one event; all others of the slide are taken in before the clock runs.
    """
    monitor = Monitor(queries, algorithm=algorithm, time="time", id="id")
    batch = max(queries[0].window.slide // stream.step, 4)
    full = max(query.window.size for query in queries) // stream.step // batch * batch
    for _ in feed(monitor, stream.first(full)):
        pass
    spent, answers = [], 0
    for low in range(full, stream.table.num_rows - batch + 1, batch):
        monitor.push(stream.table.slice(low, batch))
        idle, _ = _last_step(monitor, (low + batch // 2) * stream.step, stream.step)
        busy, found = _last_step(monitor, (low + batch) * stream.step, stream.step)
        spent.append(busy - idle)
        answers += found
    return Run(max(median(spent), 1e-9) * len(spent), len(spent) * batch, answers=answers)


def _last_step(monitor: Monitor, passed: int, step: int) -> tuple[float, int]:
    """Let time pass, and return the seconds and the number of answers of the last step."""
    monitor.advance(passed - step)
    began = time.perf_counter()
    answers = monitor.advance(passed)
    return time.perf_counter() - began, len(answers)


def dimensions(setting: Setting) -> Iterator[Cell]:
    """Scores that are the sum of two, four, six and eight columns."""
    workload = Workload(setting.scale.queries)
    rows = setting.scale.ticks // setting.scale.step
    for name in ("normal", "uniform"):
        for d in setting.scale.dimensions:
            stream = setting.stream(rows, setting.scale.step, name, d)
            queries = workload.queries(stream)
            yield from agreement("dimensions", ALGORITHMS, stream, queries)
            for algorithm, run in compare(ALGORITHMS, stream, queries, setting.scale.patience, SHARES).items():
                yield run.cell("dimensions", name, "d", d, algorithm)


EXPERIMENTS: dict[str, Callable[[Setting], Iterator[Cell]]] = {
    "n": windows,
    "s": slides,
    "k": ks,
    "queries": query_counts,
    "f": updates,
    "query-time": query_time,
    "dimensions": dimensions,
}
