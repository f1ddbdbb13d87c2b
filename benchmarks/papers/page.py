"""What the pages of the papers' experiments have in common: pictures, tables, and what the papers say beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator

from benchmarks.measure import Cell
from benchmarks.papers.targets import OURS, leads
from benchmarks.plots import OTHERS, figure
from benchmarks.plots import OURS as OUR_COLOUR
from benchmarks.report import Plot, Table

STYLES = {
    "mintopk": ("#57a773", "^"), "mtopband": ("#c2559d", "v"), "mtoplist": ("#8a63d2", "s"), "sap": ("#b08d57", "P"),
    "phbase": ("#e0a458", "<"), "phtree": ("#d1603d", ">"), "stkqf": ("#3fa7a0", "D"), OURS: (OUR_COLOUR, "o"),
}  # fmt: skip

Figure = Callable[[Cell], float]


def per_event(row: Cell) -> float:
    """Return the microseconds of an event."""
    return row.per_event


def kept(row: Cell) -> float:
    """Return the most candidates kept."""
    return row.kept_candidates


def per_answer(row: Cell) -> float:
    """Return the microseconds of an answer."""
    return 1e6 * row.seconds / row.answers


def lines(x: str, y: str, shown: Figure = per_event) -> Plot:
    """Return what draws a line for each algorithm, in a panel for each data set; both axes are logarithmic."""

    def plot(rows: Sequence[Cell], path: Path) -> None:
        names = _each(row.data_set for row in rows)
        across = min(len(names), 2)
        down = -(-len(names) // across)
        with figure(path, 1.6 + 3.6 * across, 0.6 + 2.7 * down, across, down) as panels:
            for axes, name in zip(np.ravel(panels), names, strict=True):
                _lines(axes, [row for row in rows if row.data_set == name], shown)
                axes.set(title=name, xlabel=x, ylabel=y)
            last = np.ravel(panels)[across - 1]
            last.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))

    return plot


def _lines(axes: Any, rows: Sequence[Cell], shown: Figure) -> None:
    axes.set(xscale="log", yscale="log")
    for name in _each(row.algorithm for row in rows):
        found = [row for row in rows if row.algorithm == name]
        colour, marker = STYLES[name]
        width, size = (2.2, 6) if name == OURS else (1.2, 4)
        values = [float(row.value) for row in found]
        axes.plot(
            values, [shown(row) for row in found], color=colour, marker=marker, label=name, linewidth=width,
            markersize=size, zorder=3 if name == OURS else 2,
        )  # fmt: skip
    values = sorted({float(row.value) for row in rows})
    shown_values = values if len(values) < 5 else values[::3]
    axes.set_xticks(shown_values, [short(value) for value in shown_values])
    axes.minorticks_off()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:,.4g}")


def bars_by_algorithm(y: str, shown: Figure) -> Plot:
    """Return what draws a group of bars for each data set, with a bar for each algorithm."""

    def plot(rows: Sequence[Cell], path: Path) -> None:
        names, algorithms = _each(row.data_set for row in rows), _each(row.algorithm for row in rows)
        width = 0.8 / len(algorithms)
        with figure(path, 8.0) as axes:
            for place, algorithm in enumerate(algorithms):
                found = {row.data_set: shown(row) for row in rows if row.algorithm == algorithm}
                at = np.arange(len(names)) + (place - (len(algorithms) - 1) / 2) * width
                colour = STYLES[algorithm][0]
                axes.bar(at, [found[name] for name in names], width * 0.9, color=colour, label=algorithm)
            axes.set_xticks(range(len(names)), names)
            axes.set(yscale="log", ylabel=y)
            axes.yaxis.set_major_formatter("{x:,.4g}")
            axes.grid(axis="x", visible=False)
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))

    return plot


def grid(parameter: str, shown: Figure = per_event, digits: int = 3) -> Callable[[Sequence[Cell]], Table]:
    """Return what lists a line for each data set and value, with a figure for each algorithm and our lead."""

    def table(rows: Sequence[Cell]) -> Table:
        algorithms = _each(row.algorithm for row in rows)
        head = ("data set", parameter, *algorithms, "best published / staircase")
        return head, [_line(cell, algorithms, shown, digits) for _, cell in leads(rows)]

    return table


def _line(cell: Sequence[Cell], algorithms: Sequence[str], shown: Figure, digits: int) -> list[str]:
    found = {row.algorithm: shown(row) for row in cell}
    best = min(value for name, value in found.items() if name != OURS)
    figures = [f"{found[name]:,.{digits}f}" if name in found else "" for name in algorithms]
    return [cell[0].data_set, short(float(cell[0].value)), *figures, f"{best / found[OURS]:.2f}"]


def short(value: float) -> str:
    """Return a figure with four digits, or more where it is large.

    Examples
    --------
    >>> [short(value) for value in (0.31416, 27.0, 123456.7)]
    ['0.3142', '27', '123,457']
    """
    return f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


def _each(names: Any) -> list[str]:
    return list(dict.fromkeys(names))


# What the papers say, beside ours.


class Found:
    """Looks figures up among the rows; where nothing else is said, on the first data set."""

    def __init__(self, rows: Sequence[Cell]) -> None:
        self.rows = rows
        self.main = rows[0].data_set

    def values(self, experiment: str) -> list[str]:
        """Return the values of an experiment, in order."""
        return _each(row.value for row in self.rows if row.experiment == experiment)

    def row(self, experiment: str, value: str, algorithm: str, data_set: str | None = None) -> Cell:
        """Return one row."""
        wanted = (experiment, data_set or self.main, value, algorithm)
        return next(row for row in self.rows if (row.experiment, row.data_set, row.value, row.algorithm) == wanted)

    def ratio(self, experiment: str, value: str, slow: str, fast: str, data_set: str | None = None) -> float:
        """Return how many times as long one algorithm takes as another, per event."""
        rows = (self.row(experiment, value, name, data_set) for name in (slow, fast))
        return next(rows).per_event / next(rows).per_event

    def growth(self, experiment: str, algorithm: str, low: str, high: str) -> float:
        """Return how many times as long an event takes with one value as with another."""
        return self.row(experiment, high, algorithm).per_event / self.row(experiment, low, algorithm).per_event

    def work(self, experiment: str, value: str, what: str, algorithm: str) -> float:
        """Return a figure of the work in a cell."""
        wanted = ("work", f"{experiment} {value}: {what}", algorithm)
        return next(float(row.value) for row in self.rows if (row.experiment, row.parameter, row.algorithm) == wanted)


@dataclass(frozen=True)
class Claim:
    """Something that a paper reports: what, its figure, ours, and why they differ.

    `reported` is how the paper puts it where it is no single figure; None: it has none.
    """

    text: str
    paper: float | None
    ours: float
    why: str
    reported: str = ""

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The claim as a line of a table."""
        return self.text, self.reported or f"{self.paper:,.3g}", f"{self.ours:,.3g}", self.why


def beside(claims: Callable[[Found], Sequence[Claim]]) -> Callable[[Sequence[Cell]], Table]:
    """Return what lists claims."""

    def table(rows: Sequence[Cell]) -> Table:
        return ("what", "paper", "here", "why"), [claim.cells for claim in claims(Found(rows))]

    return table


def beside_plot(claims: Callable[[Found], Sequence[Claim]]) -> Plot:
    """Return what draws the papers' figures and ours beside each other."""

    def plot(rows: Sequence[Cell], path: Path) -> None:
        found = [(c.text, c.paper, c.ours) for c in claims(Found(rows)) if c.paper is not None]
        texts, papers, ours = zip(*found, strict=True)
        places = range(len(found))
        with figure(path, 9.0, 1.0 + 0.3 * len(found)) as axes:
            axes.hlines(places, papers, ours, color=OTHERS, linewidth=1)
            axes.plot(papers, places, "D", color=OTHERS, label="paper")
            axes.plot(ours, places, "o", color=OUR_COLOUR, label="here")
            axes.set(xscale="log", xlabel="ratio")
            axes.xaxis.set_major_formatter("{x:,.4g}")
            axes.set_yticks(places, texts)
            axes.invert_yaxis()
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))

    return plot
