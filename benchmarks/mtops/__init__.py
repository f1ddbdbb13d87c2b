"""The benchmark `mtops`: the experiments of chapter 9 of the thesis on MTopS, and the general case at its real size.

Queries have arbitrary windows, slides or k, drawn from the ranges of the thesis. The default size has a tenth of the
events (see `benchmarks.papers`); `--full` has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.measure import Cell, Patience
from benchmarks.papers import USUAL, Setting, Stream, agreement, compare, queries_of, setting_for
from benchmarks.papers.work import figures
from benchmarks.workloads import SEED
from skyband.queries.query import Query

ALGORITHMS = ("mintopk", "mtopband", "mtoplist", "staircase")
FAST = ("mtoplist", "phbase", "phtree", "stkqf", "staircase")  # of all algorithms, those that can do the real size
Range = tuple[int, int]


@dataclass(frozen=True)
class Workload:
    """From where queries are drawn: window and slide in ticks, and k; with both ends alike it is fixed."""

    window: Range = (100_000, 1_000_000)
    slide: Range = (10_000, 100_000)
    k: Range = (10, 1000)

    def queries(self, count: int, stream: Stream) -> list[Query]:
        """Draw queries over a stream; the fewer events it has, the smaller is k."""
        rng = np.random.default_rng(SEED)
        sizes, slides, ks = (rng.integers(*ends, count, endpoint=True) for ends in (self.window, self.slide, self.k))
        return queries_of(stream.score, sizes, slides, np.maximum(ks // stream.step, 1))


WORKLOADS = {
    "k": Workload(window=(1_000_000, 1_000_000), slide=(100_000, 100_000)),
    "slide": Workload(window=(1_000_000, 1_000_000), slide=(100_000, 1_000_000), k=(1000, 1000)),
    "win": Workload(slide=(100_000, 100_000), k=(1000, 1000)),
    "win-slide": Workload(k=(100, 100)),
    "general": Workload(),
}


@dataclass(frozen=True)
class Scale:
    """How much of everything.

    Ticks from event to event; ticks of the stream; numbers of queries, of few queries, and of queries for the general
    case at its real size; events of that one; how often to repeat; the folder of recorded data (None: the usual one).
    """

    step: int = 10
    ticks: int = 1_500_000
    queries: tuple[int, ...] = (10, 100, 1000)
    few: tuple[int, ...] = (1, 2, 5)
    real_queries: tuple[int, ...] = (100, 1000)
    real_events: int = 1_000_000
    patience: Patience = USUAL
    data: Path | None = None

    @classmethod
    def of(cls, *, full: bool, smoke: bool, data: Path | None) -> Scale:
        """Return the scale that was asked for."""
        if smoke:
            return cls(1000, 1_500_000, (2, 5), (1, 2), (2, 5), 20_000, Patience(0.0), data)
        return cls(1, patience=Patience(6.0, 1, 3), data=data) if full else cls(data=data)


def setting(scale: Scale) -> nullcontext[Setting]:
    """Give what experiments run in."""
    events = scale.ticks // scale.step
    return nullcontext(setting_for(scale, events=events, step=scale.step, real_events=scale.real_events))


def _usual(setting: Setting, name: str | None = None) -> Stream:
    return setting.stream(setting.scale.ticks // setting.scale.step, setting.scale.step, name)


def _grid(
    experiment: str, setting: Setting, stream: Stream, counts: Sequence[int], algorithms: Sequence[str] = ALGORITHMS
) -> Iterator[Cell]:
    """Time algorithms on one stream with several numbers of queries; before, they have to agree."""
    workload = WORKLOADS.get(experiment, WORKLOADS["general"])
    yield from agreement(experiment, algorithms, stream, workload.queries(counts[0], stream))
    for count in counts:
        queries = workload.queries(count, stream)
        runs = compare(algorithms, stream, queries, setting.scale.patience)
        for name, run in runs.items():
            yield run.cell(experiment, stream.name, "queries", count, name)
        if stream.name == setting.names[0]:
            yield from figures(experiment, stream, queries, runs, count)


def arbitrary_k(setting: Setting) -> Iterator[Cell]:
    """Arbitrary k; the same window and slide."""
    yield from _grid("k", setting, _usual(setting), setting.scale.queries)


def arbitrary_slide(setting: Setting) -> Iterator[Cell]:
    """Arbitrary slides; the same window and k."""
    yield from _grid("slide", setting, _usual(setting), setting.scale.queries)


def arbitrary_win(setting: Setting) -> Iterator[Cell]:
    """Arbitrary windows; the same slide and k."""
    yield from _grid("win", setting, _usual(setting), setting.scale.queries)


def arbitrary_win_and_slide(setting: Setting) -> Iterator[Cell]:
    """Arbitrary windows and slides; the same k."""
    yield from _grid("win-slide", setting, _usual(setting), setting.scale.queries)


def general(setting: Setting) -> Iterator[Cell]:
    """All arbitrary: window, slide and k; on every data set."""
    for name in setting.names:
        yield from _grid("general", setting, _usual(setting, name), setting.scale.queries)


def real(setting: Setting) -> Iterator[Cell]:
    """All arbitrary, at the real size, with all algorithms that can do it."""
    scale, stream = setting.scale, setting.stream(setting.scale.real_events, 1)
    few, many = scale.real_queries
    yield from _grid("real", setting, stream, [few], ("mtopband", *FAST))
    yield from _grid("real", setting, stream, [many], FAST)


def overhead(setting: Setting) -> Iterator[Cell]:
    """One, two and five queries: what sharing costs where there is little to share."""
    yield from _grid("overhead", setting, _usual(setting), setting.scale.few)


EXPERIMENTS: dict[str, Callable[[Setting], Iterator[Cell]]] = {
    "k": arbitrary_k,
    "slide": arbitrary_slide,
    "win": arbitrary_win,
    "win-slide": arbitrary_win_and_slide,
    "general": general,
    "overhead": overhead,
    "real": real,
}
