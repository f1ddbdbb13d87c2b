"""The benchmark `core`: what the engine-free core costs, and what others need for the same answers.

Every experiment yields rows; ratios compare ways, or values of a parameter, within one run. Sizes are those of the
default run; `--smoke` takes a hundredth of the events and `--full` more of them, over the same span of event time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import baselines, joined
from benchmarks.baselines import ONLY_READING
from benchmarks.core import duckdb_baseline, groups, polars_baseline
from benchmarks.core.aggregates import aggregates
from benchmarks.core.live import live
from benchmarks.measure import Patience, Row, Timing, side_by_side
from benchmarks.workloads import SCORES, events, many_queries, one_query, write_parquet
from skyband.engine.monitor import Monitor
from skyband.queries.query import Query

SPAN = 2_000  # seconds of event time of the usual stream
LONG_SPAN = 20_000  # of the one for windows of up to 10,240 s
ORDER_SPAN = 10_000  # of the one for windows of up to 5,120 s in random and in falling order
USUAL = Patience()
MOST_BATCHES = 5_000  # of a stream that is cut into small batches
WINDOWS = [80 * 2**i for i in range(8)]  # multiples of the slide, so that all have the same panes


@dataclass(frozen=True)
class Scale:
    """How much of everything.

    Events of the usual stream; numbers of queries to share it; how many of them the peers get; how often to
    count the kept candidates during a run; how often to repeat; where Parquet files go (None: a temporary folder);
    numbers of ids to sum up, beside peers and alone.
    """

    events: int = 20_000_000
    queries: tuple[int, ...] = (10, 100, 1000)
    many: int = 100
    samples: int = 200
    patience: Patience = USUAL
    data: Path | None = None
    ids: tuple[int, ...] = (1_000, 100_000)
    more_ids: tuple[int, ...] = (10_000, 1_000_000)

    @classmethod
    def of(cls, *, full: bool, smoke: bool, data: Path | None) -> Scale:
        """Return the scale that was asked for."""
        if smoke:
            return cls(200_000, (2, 5, 10), 3, 20, Patience(0.0), data, (50, 500), (5_000,))
        return cls(100_000_000, patience=Patience(6.0, 3, 30), data=data) if full else cls(data=data)

    @property
    def about(self) -> dict[str, Any]:
        """What the page says about the size."""
        return {"events": self.events}

    def stream(self, scores: str = "uniform", span: int = SPAN, share: int = 1) -> pa.Table:
        """Return a stream of `1 / share` of the events over `span` seconds."""
        rows = self.events // share
        return events(rows, rows / span, scores)


def scores(scale: Scale) -> Iterator[Row]:
    """One query against one NumPy pass over the scores, for scores of different kinds."""
    for kind in SCORES:
        source = scale.stream(kind)
        named = {"numpy-pass": baselines.numpy_pass, "skyband": baselines.skyband, ONLY_READING: baselines.only_reading}
        yield from _compare("pass", "scores", kind, named, source, one_query(), scale, "numpy-pass")


def window(scale: Scale) -> Iterator[Row]:
    """Windows of doubling size: the time, and the most candidates kept."""
    source = scale.stream(span=LONG_SPAN)
    timings = _sweep({size: baselines.closed_windows(source, one_query(size)) for size in WINDOWS}, scale)
    yield from _only_reading(source, "window", "window_s", WINDOWS, scale)
    for size, timing in timings.items():
        half = timings.get(size // 2) if size > WINDOWS[0] else None
        row = baselines.row(timing, "window", "window_s", size, "skyband", source.num_rows)
        row = replace(row, kept=most_kept(source, one_query(size), scale.samples))
        yield row if half is None else replace(row, ratio=timing.best / half.best, baseline="half the window")


def order(scale: Scale) -> Iterator[Row]:
    """Windows of doubling size over scores in random and in falling order, the worst case."""
    sources = {kind: scale.stream(kind, ORDER_SPAN, share=10) for kind in ("uniform", "falling")}
    sizes = WINDOWS[:-1]
    timings = _sweep(
        {(k, size): baselines.closed_windows(sources[k], one_query(size)) for size in sizes for k in sources}, scale
    )
    for (kind, size), timing in timings.items():
        row = baselines.row(timing, "order", "window_s", size, f"skyband, {kind}", sources[kind].num_rows)
        ratio = timing.best / timings["uniform", size].best
        yield replace(row, ratio=ratio, baseline="skyband, uniform")


def batch_sizes(scale: Scale) -> Iterator[Row]:
    """One query, pushed and advanced in batches of ten events to a million."""
    source = scale.stream()
    jobs, parts = {}, {}
    for rows in [10**i for i in range(1, 7) if 10**i <= scale.events]:
        parts[rows] = source.slice(0, min(source.num_rows, MOST_BATCHES * rows))
        jobs[rows] = baselines.in_batches(parts[rows], one_query(), rows)
    for rows, timing in _sweep(jobs, scale).items():
        yield baselines.row(timing, "batch-size", "events of a batch", rows, "skyband", parts[rows].num_rows)
    yield from _only_reading(source, "batch-size", "events of a batch", list(jobs), scale)


WAYS = {"skyband": baselines.skyband, "by reference": baselines.by_reference, "as a table": baselines.as_table}


def queries(scale: Scale) -> Iterator[Row]:
    """From one query to a thousand, over one stream."""
    source = scale.stream()
    for top in (100, 1000):
        groups = {count: many_queries(count, (10, top)) for count in scale.queries}
        jobs = {
            (name, n): way(source, group)
            for n, group in ({1: one_query()} | groups).items()
            for name, way in WAYS.items()
        }
        timings = _sweep(jobs, scale)
        for (name, count), timing in timings.items():
            row = baselines.row(timing, "queries", "queries", count, f"{name}, k up to {top:,}", source.num_rows)
            yield replace(row, ratio=timing.best / timings[name, 1].best, baseline="one query")
    yield from _only_reading(source, "queries", "queries", (1, *scale.queries), scale)


def ks(scale: Scale) -> Iterator[Row]:
    """One query with k from 1 to 10,000."""
    source = scale.stream()
    sizes = [10**i for i in range(5)]
    timings = _sweep({k: baselines.skyband(source, one_query(k=k)) for k in sizes}, scale)
    for k, timing in timings.items():
        row = baselines.row(timing, "k", "k", k, "skyband", source.num_rows)
        yield replace(row, ratio=timing.best / timings[100].best, baseline="k = 100")
    yield from _only_reading(source, "k", "k", sizes, scale)


def parquet(scale: Scale) -> Iterator[Row]:
    """One query over 20 Parquet files (Snappy), against only reading them and against the peers."""
    named = {
        "pyarrow-files": baselines.pyarrow_files,
        "pyarrow-dataset": baselines.pyarrow_dataset,
        "skyband": baselines.skyband,
        "polars panes": polars_baseline.panes,
        "polars panes, from memory": polars_baseline.panes_from_memory,
        "polars panes, one pass": polars_baseline.panes_in_one,
        "duckdb panes": duckdb_baseline.panes,
    }
    with tempfile.TemporaryDirectory() as temporary:
        paths = write_parquet(scale.stream(), scale.data or Path(temporary))
        answering = {name: way for name, way in named.items() if not name.startswith("pyarrow")}
        small = scale.stream(share=100)
        few = write_parquet(small, Path(temporary) / "small")
        yield from baselines.check("parquet", answering, few, one_query(), small.num_rows)
        yield from _compare("parquet", "queries", 1, named, paths, one_query(), scale, "skyband", scale.events)


SMART: dict[str, baselines.Way] = {
    "skyband": baselines.skyband,
    "polars panes": polars_baseline.panes,
    "polars panes, one pass": polars_baseline.panes_in_one,
    "duckdb panes": duckdb_baseline.panes,
}
LIMITED = SMART | {ONLY_READING: baselines.only_reading}
LOOPS: dict[str, baselines.Way] = {
    "skyband": baselines.skyband,
    "numpy loop": baselines.numpy_loop,
    "polars loop": polars_baseline.loop,
    "duckdb loop": duckdb_baseline.loop,
}
MANY = {name: SMART[name] for name in ("skyband", "polars panes", "duckdb panes")}


def peers(scale: Scale) -> Iterator[Row]:
    """One query: the smartest peers; loops over windows with a tenth of the events; our baseline with a hundredth."""
    small = scale.stream(share=100)
    yield from baselines.check(
        "one query", SMART | LOOPS | {"naive": baselines.naive}, small, one_query(), small.num_rows
    )
    plan = (("one query", LIMITED, 1), ("one query, loops", LOOPS, 10))
    baseline: dict[str, baselines.Way] = {"skyband": baselines.skyband, "naive": baselines.naive}
    for value, named, share in (*plan, ("one query, naive", baseline, 100)):
        source = scale.stream(share=share)
        yield from _compare("peers", "task", value, named, source, one_query(), scale, "skyband")


def many(scale: Scale) -> Iterator[Row]:
    """Many queries at once, k up to 1,000; the peers share panes of 10 s."""
    group = many_queries(scale.many, (10, 1000), grain=10)
    small = scale.stream(share=100)
    yield from baselines.check("many queries", MANY, small, group[:10], small.num_rows)
    yield from _compare("peers", "task", "many queries", MANY, scale.stream(), group, scale, "skyband")


def by_group(scale: Scale) -> Iterator[Row]:
    """The best 10 of each of 10, 1,000 and 100,000 groups, against the peers; grouped by an expression too."""
    yield from groups.experiment(scale.events // 2, scale.events // 100, scale.patience)


def joins(scale: Scale) -> Iterator[Row]:
    """A stream joined with a service, for few ids and for many, against the same by hand."""
    rows, asked = scale.events // 20, [joined.query()]
    for ids in (1_000, 100_000):
        batches, service = [joined.events(rows, ids, number) for number in range(4)], joined.Service(ids)
        named: dict[str, baselines.Way] = {
            "skyband": partial(joined.skyband_here, service),
            "by hand": partial(joined.by_hand_here, service),
        }
        yield from baselines.check(f"join, {ids:,} ids", named, batches, asked, 4 * rows)
        yield from _compare("joins", "ids", ids, named, batches, asked, scale, "by hand", 4 * rows)


setting = nullcontext  # it runs anywhere
EXPERIMENTS: dict[str, Callable[[Scale], Iterator[Row]]] = {
    "pass": scores,
    "window": window,
    "order": order,
    "queries": queries,
    "k": ks,
    "batch-size": batch_sizes,
    "parquet": parquet,
    "peers": peers,
    "many": many,
    "groups": by_group,
    "joins": joins,
    "aggregates": aggregates,
    "live": live,
}


def most_kept(source: pa.Table, queries: Sequence[Query], samples: int) -> int:
    """Return the most candidates kept when windows are answered as they close, counted `samples` times.

    It is counted just before a pane closes, so that the best of the open pane count too.
    """
    monitor = Monitor(queries, time="time", id="id")
    rows = -(-source.num_rows // samples)
    most = 0
    for low in range(0, source.num_rows, rows):
        part = source.slice(low, rows)
        monitor.push(part)
        monitor.advance(part["time"][-1].as_py() + 1)
        most = max(most, monitor.stats().kept)
    return most


def _only_reading(
    source: pa.Table, experiment: str, parameter: str, values: Sequence[int], scale: Scale
) -> Iterator[Row]:
    """The limit of a curve: reading the columns takes as long for the least value as for the greatest."""
    timings = side_by_side({ONLY_READING: baselines.only_reading(source)}, scale.patience)
    for value in (values[0], values[-1]):
        yield baselines.row(timings[ONLY_READING], experiment, parameter, value, ONLY_READING, source.num_rows)


def _sweep(jobs: Mapping[Any, Callable[[], Any]], scale: Scale) -> dict[Any, Timing]:
    named = dict(zip(map(repr, jobs), jobs.values(), strict=True))
    return dict(zip(jobs, side_by_side(named, scale.patience).values(), strict=True))


def _compare(
    experiment: str, parameter: str, value: object, named: Mapping[str, baselines.Way], source: Any,
    queries: Sequence[Query], scale: Scale, baseline: str, rows: int | None = None,
) -> Iterator[Row]:  # fmt: skip
    timings = side_by_side({name: way(source, queries) for name, way in named.items()}, scale.patience)
    for name, timing in timings.items():
        row = baselines.row(timing, experiment, parameter, value, name, rows or source.num_rows)
        yield replace(row, ratio=timing.best / timings[baseline].best, baseline=baseline)
