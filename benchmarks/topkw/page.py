"""The page of the benchmark `topkw`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.page import short
from benchmarks.plots import OURS as OUR_COLOUR
from benchmarks.plots import figure
from benchmarks.report import Page, Plot, Section, Table, everything, only
from benchmarks.topkw import OURS
from benchmarks.topkw.claims import findings
from benchmarks.topkw.runs import FILLING, Trial
from benchmarks.topkw.targets import judge

METHOD = """\
The experiments of section 8 of K. Pripužić, I. Podnar Žarko and K. Aberer, *Time- and Space-Efficient Sliding Window
Top-k Query Processing*, with our `blocks` beside its algorithms. Each query is a point, and is told of an event the
moment that it is one of the k nearest among the last n.

## Method

- **Data**: {sources}.
- **Queries** are events, drawn at random. Where nothing else is said, the parameters are those of the paper's table IX:
  k = 9, n = 40,000, a buffer of b = 2,000, d = 2 dimensions, a grid of ρ = 10 cells in each, σ = 0.001, γ = 0.2, and
  10 additional candidates for PA with the grid. Figures 10 and 11 have d = 4, as in the paper. `rapf2` is RAPF with
  the longest buffer that is allowed, n / 2.
- **Sizes**: in this run figures 9 to 12 have {queries} queries (paper: 400), n = {n:,} and b = {b:,}. The cost is per
  event. So windows are filled first; then the clock runs over {least:,} to {most:,} events, fewer for the slow ones
  (the paper has a million events from the start). A run that takes more than {limit:g} s ends where it is; where its
  windows were not full by then, the time is that of its last batch, and marked with a star. *Promises* has the 400
  queries of table IX, and {events:,} events from the first one on.
- **A run**: events come in batches of {batch:,}. The clock runs while they pass and reports are made, for nothing else.
- **Same care for all**: every algorithm is compiled with numba, and uses one core. So does `blocks` here; only the last
  promise gives it all cores. Trees of the paper are sorted arrays. `cpm` and `snn` always have their grid, `blocks`
  has k-d trees over recent events, and no grid.
- **Same reports**: before a clock runs, all exact algorithms report on a few queries over each data set, with and
  without the grid. Query, event and moment of every report must agree, else the benchmark stops. This also compiles
  everything.
- **Errors** are counted over {tried_events:,} events with {tried_queries} queries and n = {tried_n:,}: an event is
  *missed* if PA never reports it to a query and an exact algorithm does, and *wrong* the other way round.
"""

RUN_IT = """\
## Run it yourself

```
pip install -e . --group bench   # in a clone of the repository, with pip 25.1 or newer
python -m benchmarks topkw --data FOLDER    # some minutes
python -m benchmarks topkw --smoke          # some seconds, only to see that it works
python -m benchmarks topkw --full           # the sizes of the paper everywhere: many hours
```

`FOLDER` has the recorded data sets. Without it the environment variable `SKYBAND_DATA` is asked, then `../shared/data`.
Where there is none, only uniform and clustered data are used.

Raw rows: `benchmarks/results/topkw.csv`, versions and machine in `topkw.json` beside it.
"""

CLOSING = """\
## Left out

The paper repeats the count of errors 200 times; here it is done once, over as many queries as events allow. Its figures
are pictures without numbers, so that only what its text says can be compared.
"""

STYLES = {
    "pa": ("#d1603d", "^"), "sa": ("#8a63d2", "s"), "ra": ("#b08d57", "s"), "sasf": ("#c2559d", "v"),
    "rasf": ("#c2559d", "<"), "sarf": ("#57a773", "v"), "rarf": ("#57a773", "<"), "sapf": ("#e0a458", "v"),
    "rapf": ("#e0a458", "<"), "rapf2": ("#3fa7a0", "P"), "cpm": ("#9aa4af", "D"), "snn": ("#7d8590", "X"),
    OURS: (OUR_COLOUR, "o"),
}  # fmt: skip
INDEX = {"no": "no grid", "yes": "grid", "own": "grid"}
MICROSECONDS = "µs per event"

Shown = Callable[[Trial], float]


def per_event(row: Trial) -> float:
    """Return the microseconds of an event."""
    return row.per_event


def references(row: Trial) -> float:
    """Return the references of a query."""
    return row.references


def objects(row: Trial) -> float:
    """Return the events in memory, per query."""
    return row.objects


def _panels(rows: Sequence[Trial]) -> dict[str, list[Trial]]:
    """Return the rows by data set, and by index where there are both."""
    both = {row.indexed for row in rows} >= {"no", "yes"}
    found: dict[str, list[Trial]] = {}
    for row in rows:
        found.setdefault(f"{row.data_set}, {INDEX[row.indexed]}" if both else row.data_set, []).append(row)
    return found


def lines(x: str, y: str = MICROSECONDS, *shown: Shown) -> Plot:
    """Return what draws a line for each algorithm, in a panel for each data set; both axes are logarithmic."""

    def plot(rows: Sequence[Trial], path: Path) -> None:
        panels = [(name, part, each) for each in shown or (per_event,) for name, part in _panels(rows).items()]
        across = min(len(panels), 2)
        down = -(-len(panels) // across)
        with figure(path, 1.6 + 3.6 * across, 0.6 + 2.7 * down, across, down) as axes:
            for at, (name, part, each) in zip(np.ravel(axes), panels, strict=False):
                _lines(at, part, each)
                at.set(title=name, xlabel=x, ylabel=y if len(shown) < 2 else each.__name__)
            for spare in np.ravel(axes)[len(panels) :]:
                spare.set_visible(False)
            np.ravel(axes)[across - 1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))

    return plot


def _lines(axes: Any, rows: Sequence[Trial], shown: Shown) -> None:
    for name in dict.fromkeys(row.algorithm for row in rows):
        found = [row for row in rows if row.algorithm == name]
        colour, marker = STYLES[name]
        width, size = (2.2, 6) if name == OURS else (1.2, 4)
        axes.plot(
            [float(row.value) for row in found], [shown(row) for row in found], color=colour, marker=marker, label=name,
            linewidth=width, markersize=size,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    values = sorted({float(row.value) for row in rows})
    axes.set_xticks(values, [short(value) for value in values])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:,.4g}")


def grid(parameter: str, shown: Shown = per_event) -> Callable[[Sequence[Trial]], Table]:
    """Return what lists a line for each data set and value, with a figure for each algorithm."""

    def table(rows: Sequence[Trial]) -> Table:
        algorithms = list(dict.fromkeys(row.algorithm for row in rows))
        cells: dict[tuple[str, str], dict[str, str]] = {}
        for name, part in _panels(rows).items():
            for row in part:
                star = "*" if row.windows == FILLING else ""
                cells.setdefault((name, row.value), {})[row.algorithm] = f"{shown(row):,.2f}{star}"
        lines = ([name, value, *(cell.get(a, "") for a in algorithms)] for (name, value), cell in cells.items())
        return ("data set", parameter, *algorithms), lines

    return table


def findings_table(rows: Sequence[Trial]) -> Table:
    """List what the paper finds."""
    head = ("figure", "the paper finds", "here", "holds", "why not")
    return head, [finding.cells for finding in findings(rows)]


def promises_table(rows: Sequence[Trial]) -> Table:
    """List the runs that promises are about."""
    head = ("run", "k", "algorithm", "queries", "events", "seconds", MICROSECONDS, "references per query")
    return head, [
        (
            row.experiment, "10" if row.experiment == "subscriptions" else row.value, row.algorithm, f"{row.queries:,}",
            f"{row.events:,}", f"{row.seconds:.2f}", f"{row.per_event:.2f}", f"{row.references:.1f}",
        )
        for row in rows
    ]  # fmt: skip


def bars(rows: Sequence[Trial], path: Path) -> None:
    """Draw the time of an event for each algorithm and k."""
    rows = [row for row in rows if row.experiment != "subscriptions"]
    names = [f"{row.algorithm}, k = {row.value}" for row in rows]
    with figure(path, 7.0, 0.9 + 0.3 * len(rows)) as axes:
        axes.barh(names, [row.per_event for row in rows], color=[STYLES[row.algorithm][0] for row in rows], height=0.65)
        axes.set(xscale="log", xlabel=MICROSECONDS)
        axes.xaxis.set_major_formatter("{x:,.4g}")
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)


def errors_table(rows: Sequence[Trial]) -> Table:
    """List the errors of PA."""
    head = ("data set", "parameter", "value", "missed per query", "wrong per query", "reports per query")
    return head, [
        (
            row.data_set, row.parameter, row.value, f"{row.missed:.4g}", f"{row.wrong:.4g}",
            f"{row.reports / row.queries:,.0f}",
        )
        for row in rows
    ]  # fmt: skip


def plot_errors(rows: Sequence[Trial], path: Path) -> None:
    """Draw missed and wrong events by k, a line for each data set."""
    by_k = [row for row in rows if row.parameter == "k"]
    with figure(path, 8.8, 3.3, 2) as panels:
        for axes, what in zip(panels, ("missed", "wrong"), strict=True):
            for name, marker in zip(dict.fromkeys(row.data_set for row in by_k), "o^sD", strict=False):
                found = [row for row in by_k if row.data_set == name]
                axes.plot(
                    [int(row.value) for row in found], [getattr(row, what) for row in found], marker, ls="-", label=name
                )
            axes.set(xscale="log", xlabel="k", ylabel=f"{what} per query")
            axes.set_yscale("symlog", linthresh=0.001)
            axes.set_xticks(sorted({int(row.value) for row in by_k}), sorted({int(row.value) for row in by_k}))
            axes.minorticks_off()
        panels[1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def of_space(row: Trial) -> bool:
    """Pick the rows of figure 12: uniform data, without the grid but for those that always have one."""
    alone = row.experiment == "index" and row.indexed == "no"
    return row.data_set == "uniform" and (alone or (row.experiment == "k" and row.algorithm in ("cpm", "snn", OURS)))


def space_table(rows: Sequence[Trial]) -> Table:
    """List references and events in memory, per query."""
    algorithms = list(dict.fromkeys(row.algorithm for row in rows))
    values = [
        v for v in dict.fromkeys(row.value for row in rows) if sum(row.value == v for row in rows) == len(algorithms)
    ]
    lines = []
    for what, shown in (("references", references), ("events in memory", objects)):
        for value in values:
            found = {row.algorithm: shown(row) for row in rows if row.value == value}
            lines.append([what, value, *(f"{found[name]:,.1f}" for name in algorithms)])
    return ("per query", "k", *algorithms), lines


def _vary(title: str, text: str, experiment: str, parameter: str) -> Section:
    return Section(title, text, lines(parameter), only(experiment), grid(parameter))


SECTIONS = {
    "findings": Section(
        "What the paper finds, and what is found here",
        "Every verdict is computed from the rows of this run.",
        None,
        everything,
        findings_table,
    ),
    "promises": Section(
        "Promises",
        """\
*default* is the scenario of table IX, all events from the first one on. *order* has larger k, once windows are full.
*subscriptions* is `blocks` on all cores with very many queries.""",
        bars,
        only("default", "order", "subscriptions"),
        promises_table,
    ),
    "error": Section(
        "Errors of PA (figure 8)",
        """\
The last lines have a larger σ, for which PA keeps fewer candidates, and no grid, hence no additional ones. That errors
are counted where there are some, *real* shows.""",
        plot_errors,
        only("error"),
        errors_table,
    ),
    "k": _vary("The size of the answer (figure 9)", "With the grid, on all data sets.", "k", "k"),
    "index": _vary("Bands, filters, and the grid (figure 10)", "In four dimensions; SA and RA define no threshold "
                   "that a grid could use, so they run without.", "index", "k"),
    "d": _vary("Dimensions (figure 11 a)", "Uniform data, ρ = 2.", "d", "d"),
    "rho": _vary("Resolution of the grid (figure 11 b)", "Uniform data, d = 4.", "rho", "ρ"),
    "u": _vary("The number of queries (figure 11 c)", "Uniform data, d = 4.", "u", "queries"),
    "b": _vary("The recent buffer (figure 11 d)", "Uniform data, d = 4.", "b", "b"),
    "gamma": _vary("Pruning (figure 11 e)", "Uniform data, d = 4.", "gamma", "γ"),
    "n": _vary("The window (figure 11 f)", "Uniform data, d = 4.", "n", "n"),
    "space": Section(
        "Space (figure 12)",
        """\
Uniform data, without the grid, when the run ended: references in bands and filters, and distinct events in memory, the
recent buffer among them. `blocks` shares half a window of recent events between all queries.""",
        lines("k", "", references, objects),
        of_space,
        space_table,
    ),
}  # fmt: skip
PAGE = Page("experiments/topkw.md", "Experiments: top-k/w", METHOD, RUN_IT, SECTIONS, CLOSING, judge, "topkw", Trial)
