"""What the experiments of the papers have in common: streams, and how a cell of a grid is measured.

Windows and slides are counted in *ticks*. At full size there is an event every tick, so that a window of n ticks is
the last n events, as in the papers. Smaller sizes have an event every `step` ticks and answers that are as much
smaller: windows are to each other as they are in the papers, with fewer events in them.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import BenchmarkError, baselines
from benchmarks.measure import Cell, Patience, little_garbage
from benchmarks.workloads import SCORES, SEED
from skyband.algorithms.in_order import CandidateKeeper, InOrder, PerQuery
from skyband.algorithms.mtops.mtopband import Band
from skyband.algorithms.stkqf.stkqf import STKQF
from skyband.answers.answer import Answers
from skyband.engine.monitor import Monitor
from skyband.engine.ranking import RankingGroup
from skyband.expressions import parse
from skyband.order import FloatArray
from skyband.queries.query import Query
from skyband.windows import Window

BATCH = 100_000  # ticks
CHECKED = 10  # queries on which all have to agree before they are timed
USUAL = Patience(0.3, 1, 3)  # with short runs
USUAL_FOLDER = Path("../shared/data")
DRAWN = ("uniform", "normal")

Between = Callable[[Monitor], object]


@dataclass(frozen=True)
class Recorded:
    """A recorded data set: its file, the score, and for each column of that the stored one and its unit."""

    file: str
    score: str
    columns: Mapping[str, tuple[str, float]]


RECORDED = {
    "stock": Recorded(
        "stock_trades/trades.parquet", "volume * price", {"volume": ("volume", 1.0), "price": ("price_e4", 1e-4)}
    ),
    "taxi": Recorded(
        "nyc_taxi/trips.parquet",
        "distance - duration",
        {"distance": ("distance_mi", 1.609344), "duration": ("duration_s", 1 / 60)},  # kilometres, minutes
    ),
}


def recorded_data(given: Path | None) -> Path | None:
    """Return the folder of the recorded data sets; None where there is none.

    Raises
    ------
    BenchmarkError
        When the folder was given, here or in the environment, and lacks one of them.
    """
    named = given or os.environ.get("SKYBAND_DATA")
    folder = Path(named or USUAL_FOLDER)
    missing = [data.file for data in RECORDED.values() if not (folder / data.file).exists()]
    if missing and named:
        msg = f"there is no {missing[0]} in {folder}; name the folder of the recorded data sets, or none at all"
        raise BenchmarkError(msg)
    return None if missing else folder


@dataclass(frozen=True)
class Stream:
    """Events in order, the first at tick 0, then one every `step` ticks; numbered by arrival."""

    name: str
    score: str
    table: pa.Table
    step: int

    def first(self, rows: int) -> Stream:
        """Return the first events only."""
        return replace(self, table=self.table.slice(0, rows))

    def scores(self) -> FloatArray:
        """Return the scores of all events."""
        batch = self.table.combine_chunks().to_batches()[0]
        return parse(self.score).bind(batch.schema).scores(batch)[0]


@dataclass(frozen=True)
class Setting:
    """Where experiments run: how much of everything, the folder of recorded data, and what the page says of both."""

    scale: Any
    folder: Path | None
    about: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The data sets, the most important first."""
        return (*RECORDED, *DRAWN) if self.folder else DRAWN

    def stream(self, rows: int, step: int, name: str | None = None, dimensions: int = 1) -> Stream:
        """Return a stream of so many events; a recorded one begins anew when it ends."""
        name = name or self.names[0]
        if name in DRAWN:
            columns, score = drawn(name, rows, dimensions)
        else:
            assert self.folder is not None
            columns, score = replayed(self.folder, RECORDED[name], rows)
        row = np.arange(rows, dtype=np.int64)
        return Stream(name, score, pa.table({"time": row * step, "id": row, **columns}), step)


def setting_for(scale: Any, **about: Any) -> Setting:
    """Return the setting of a benchmark."""
    folder = recorded_data(scale.data)
    return Setting(scale, folder, {**about, "sources": sources(folder)})


def sources(folder: Path | None) -> str:
    """Say in words which data there are."""
    made = "*uniform* and *normal*: random numbers."
    if folder is None:
        return f"{made} No folder of recorded data was found, so *stock* and *taxi* are left out"
    rows = {name: pq.read_metadata(folder / data.file).num_rows for name, data in RECORDED.items()}
    return (
        f"*stock*: {rows['stock']:,} trades of four US stocks, by `{RECORDED['stock'].score}`. *taxi*: "
        f"{rows['taxi']:,} taxi trips, by `{RECORDED['taxi'].score}` (kilometres, minutes). {made} A recorded stream "
        "begins anew where more events are needed than it has"
    )


def drawn(kind: str, rows: int, dimensions: int) -> tuple[dict[str, Any], str]:
    """Return columns of random numbers, and their sum as a score.

    Examples
    --------
    >>> columns, score = drawn("uniform", 3, 2)
    >>> list(columns), score
    (['x1', 'x2'], 'x1 + x2')
    """
    rng = np.random.default_rng(SEED)
    columns = {f"x{i}": SCORES[kind](rng, rows) for i in range(1, dimensions + 1)}
    return columns, " + ".join(columns)


def replayed(folder: Path, data: Recorded, rows: int) -> tuple[dict[str, Any], str]:
    """Return the columns of a recorded data set, as often as it takes, and its score."""
    table = pq.read_table(folder / data.file, columns=[stored for stored, _ in data.columns.values()])
    columns = {
        name: np.resize(table[stored].to_numpy().astype(np.float64) * unit, rows)
        for name, (stored, unit) in data.columns.items()
    }
    return columns, data.score


def queries_of(score: str, sizes: Any, slides: Any, ks: Any, prefix: str = "q") -> list[Query]:
    """Return a query for each size, slide and k."""
    each = zip(np.asarray(sizes).tolist(), np.asarray(slides).tolist(), np.asarray(ks).tolist(), strict=True)
    return [
        Query(f"{prefix}{i}", k=k, score=score, window=Window(size, slide=min(slide, size)))
        for i, (size, slide, k) in enumerate(each)
    ]


# How a cell is measured.


@dataclass(frozen=True)
class Run:
    """One run of an algorithm over a stream.

    The most candidates kept after any batch, and the most places of lists in use; the number of answers, and of those
    that were flagged as exact.
    """

    seconds: float
    events: int
    kept: int = 0
    places: int = 0
    answers: int = 0
    exact: int = 0

    def cell(self, experiment: str, data_set: str, parameter: str, value: object, algorithm: str) -> Cell:
        """Return the row of this run."""
        speed = self.events / self.seconds
        return Cell(
            experiment, data_set, parameter, str(value), algorithm, self.seconds, speed, self.kept, self.answers
        )


def feed(
    monitor: Monitor, stream: Stream, batch: int | None = None, between: Between | None = None
) -> Iterator[tuple[float, Answers]]:
    """Let a monitor take in a stream, batch by batch; yield the seconds of each and its answers.

    A batch is pushed, and time advances to the next event. The clock runs for these two, and for what is done
    `between` batches; the rows of answers are left as references to events.
    """
    batch = batch or max(BATCH // stream.step, 1)
    for low in range(0, stream.table.num_rows, batch):
        part = stream.table.slice(low, batch)
        began = time.perf_counter()
        if low and between is not None:
            between(monitor)
        monitor.push(part)
        answers = monitor.advance((low + part.num_rows) * stream.step)
        yield time.perf_counter() - began, answers


def run(
    algorithm: str, stream: Stream, queries: Sequence[Query], batch: int | None = None,
    changing: Callable[[], Between] | None = None,
) -> Run:  # fmt: skip
    """Run an algorithm over a stream; what it keeps is counted after each batch, while the clock stands."""
    monitor = Monitor(queries, algorithm=algorithm, time="time", id="id")
    seconds, kept, places, answers, exact = 0.0, 0, 0, 0, 0
    for spent, found in feed(monitor, stream, batch, changing and changing()):
        seconds += spent
        kept, places = max(kept, candidates(monitor)), max(places, places_held(monitor))
        answers += len(found)
        exact += sum(int(np.count_nonzero(block.exact)) for block in found.blocks)
    return Run(seconds, stream.table.num_rows, kept, places, answers, exact)


def _rankings(monitor: Monitor) -> list[RankingGroup]:
    return [group for group in monitor.groups if isinstance(group, RankingGroup)]


def candidates(monitor: Monitor) -> int:
    """Return how many events are kept as candidates: STKQF also keeps the window, to look things up in it."""
    kept = (
        group.algorithm.candidates() if isinstance(group.algorithm, STKQF) else len(group.algorithm.kept())
        for group in _rankings(monitor)
    )
    return sum(kept)


def places_held(monitor: Monitor) -> int:
    """Return how many places the lists of keepers have in use: an event may be in several."""
    return sum(
        _places(keeper)
        for group in _rankings(monitor)
        if isinstance(group.algorithm, InOrder)
        for keeper in group.algorithm.keepers.values()
    )


def _places(keeper: CandidateKeeper) -> int:
    if isinstance(keeper, PerQuery):
        return sum(_places(part) for _, part in keeper.keepers)
    return int(keeper.refs.sum()) if isinstance(keeper, Band) else len(keeper.kept())


def fastest(jobs: Mapping[str, Callable[[], Run]], patience: Patience) -> dict[str, Run]:
    """Run jobs in turn (A B A B ...), each until enough time is spent on it; return the fastest run of each.

    Examples
    --------
    >>> best = fastest({"a": lambda: Run(seconds=2.0, events=100)}, Patience(1.0))
    >>> best["a"].seconds
    2.0
    """
    runs: dict[str, list[Run]] = {name: [] for name in jobs}
    waiting = list(jobs)
    with little_garbage():
        while waiting:
            for name in waiting:
                gc.collect()
                runs[name].append(jobs[name]())
            waiting = [name for name in waiting if patience.wants_more([done.seconds for done in runs[name]])]
    return {name: min(done, key=lambda one: one.seconds) for name, done in runs.items()}


def compare(
    algorithms: Sequence[str], stream: Stream, queries: Sequence[Query], patience: Patience,
    shares: Mapping[str, int] | None = None, **how: Any,
) -> dict[str, Run]:  # fmt: skip
    """Run algorithms over a stream; those with a share take only so small a part of it: 3 is a third."""
    rows = stream.table.num_rows
    parts = {name: stream.first(rows // (shares or {}).get(name, 1)) for name in algorithms}
    return fastest({name: partial(run, name, parts[name], queries, **how) for name in algorithms}, patience)


def agreement(experiment: str, algorithms: Sequence[str], stream: Stream, queries: Sequence[Query]) -> Iterator[Cell]:
    """Let every algorithm answer a few queries, and refuse any that disagrees; it also gets all kernels compiled."""
    queries = queries[:CHECKED]
    named = {name: partial(_answering, name) for name in algorithms}
    for name, timing in baselines.agreed(experiment, named, stream, queries):
        answers = sum(map(len, timing.result))
        made = Run(timing.best, stream.table.num_rows, answers=answers)
        yield made.cell("agreement", stream.name, "experiment", experiment, name)


def _answering(algorithm: str, stream: Stream, queries: Sequence[Query]) -> Callable[[], list[Answers]]:
    def job() -> list[Answers]:
        monitor = Monitor(queries, algorithm=algorithm, time="time", id="id")
        return [answers for _, answers in feed(monitor, stream)]

    return job
