"""What there is to do in a cell: figures beside the times, which explain them.

They are rows of the experiment `work`: the parameter names the experiment and the figure, the value is the figure, and
the rest is the run that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from benchmarks.measure import Cell
from benchmarks.papers import USUAL, Run, Stream, fastest, run
from benchmarks.papers.views import Views
from skyband import algorithms
from skyband.algorithms.base import Algorithm, Arriving, BatchCounts, Selection, sift
from skyband.algorithms.naive import Naive
from skyband.queries.query import Query
from skyband.windows import DueWindows

VIEWS_OPEN, VIEWS_ENTERED, PLACES, ALONE = "views open", "views entered", "places held", "monitor alone"
LISTS = ("mintopk", "mtopband", "mtoplist")


class Idle(Naive):
    """Keeps nothing and answers nothing: what is left is what the monitor does for every algorithm."""

    name = "idle"

    def push(self, arriving: Arriving, counts: BatchCounts) -> None:
        """Keep no event."""
        sift(arriving.columns, counts)

    def answer(self, due: DueWindows, sealed_to: int) -> Selection:  # noqa: ARG002 - no event is there to be answered with
        """Answer with nothing."""
        return Selection(np.empty(0, np.int32), np.zeros(len(due) + 1, np.int64))


@contextmanager
def _registered(algorithm: type[Algorithm]) -> Iterator[str]:
    algorithms.ALGORITHMS[algorithm.name] = algorithm
    try:
        yield algorithm.name
    finally:
        del algorithms.ALGORITHMS[algorithm.name]


def alone(stream: Stream, queries: Sequence[Query]) -> Run:
    """Return the run of a monitor whose algorithm does nothing."""
    with _registered(Idle) as name:
        return run(name, stream, queries)


def _views(stream: Stream, queries: Sequence[Query], shared: bool) -> dict[str, float]:
    until = stream.table.num_rows * stream.step
    views = Views.of(queries, until, shared=shared)
    entered = views.entered(stream.scores(), stream.step)
    return {VIEWS_OPEN: round(views.mean_open(until), 1), VIEWS_ENTERED: round(entered, 2)}


def figures(
    experiment: str, stream: Stream, queries: Sequence[Query], runs: Mapping[str, Run], value: object
) -> Iterator[Cell]:
    """Yield what explains the runs of a cell, whose parameter had a value."""

    def row(run: Run, what: str, found: object, name: str) -> Cell:
        return run.cell("work", stream.name, f"{experiment} {value}: {what}", found, name)

    lists = [name for name in LISTS if name in runs]
    views = {shared: _views(stream, queries, shared) for shared in {name != "mintopk" for name in lists}}
    for name in lists:
        for what, found in (*views[name != "mintopk"].items(), (PLACES, runs[name].places)):
            yield row(runs[name], what, found, name)
    idle = fastest({"idle": partial(alone, stream, queries)}, USUAL)["idle"]
    yield row(idle, ALONE, round(1e6 * idle.seconds / idle.events, 3), "idle")
