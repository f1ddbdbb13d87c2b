"""The page of the benchmark `mtops`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Cell
from benchmarks.mtops.claims import claims
from benchmarks.papers.page import STYLES, Found, beside, beside_plot, grid, kept, lines, short
from benchmarks.papers.targets import general_case, worst_lead
from benchmarks.papers.work import ALONE, LISTS, PLACES, VIEWS_ENTERED, VIEWS_OPEN
from benchmarks.plots import figure, log_log
from benchmarks.report import Page, Section, Table, everything, only
from benchmarks.targets import Target

METHOD = """\
The experiments of chapter 9 of A. Shastri's thesis *MTopS: Multi-Query Optimization for Continuous Top-K Query
Workloads* (2011), which compares MinTopK, MTopBand and MTopList, with our `staircase` beside them.

## Method

- **Data**: {sources}. The thesis has a million trades of one day.
- **Sizes**: windows of 100,000 to 1,000,000, slides of 10,000 to 100,000 and k from 10 to 1,000, as in the thesis,
  drawn uniformly. Time is counted in ticks. This run has an event every {step} ticks: {events:,} events, and k is
  divided by {step}. With an event every tick (`--full`) a window of n ticks is the last n events. The general case also
  runs at its real size, over {real_events:,} events, with every algorithm that can do it in minutes.
- **A run**: events come in batches of 100,000 ticks. Each is pushed, then time advances to the next event. The clock
  runs for these two calls only. Answers are left as references to events, no columns are made of them.
- **The figure** is microseconds per event, of the fastest run; short runs are repeated, in turn with the others. *kept*
  is the most events kept after any batch.
- **Same care for all**: every algorithm is compiled with numba, takes the same columns through the same monitor, and
  uses one core.
- **Same answers**: before a clock runs, all algorithms answer ten of the queries. The ids of every window must agree,
  else the benchmark stops. This also compiles everything.
- **Work**: what a list per view has to do is counted from the queries and the scores: how many views are open, and
  how many an event enters. *Monitor alone* is a run with an algorithm that keeps and answers nothing.
"""

RUN_IT = """\
## Run it yourself

```
pip install -e . --group bench   # in a clone of the repository, with pip 25.1 or newer
python -m benchmarks mtops --data FOLDER    # some minutes
python -m benchmarks mtops --smoke          # some seconds, only to see that it works
python -m benchmarks mtops --full           # the sizes of the thesis everywhere: hours
```

`FOLDER` has the recorded data sets. Without it the environment variable `SKYBAND_DATA` is asked, then `../shared/data`.
Where there is none, only uniform and normal data are used.

Raw rows: `benchmarks/results/mtops.csv`, versions and machine in `mtops.json` beside it.
"""

CLOSING = """\
## Where staircase is behind

With one slide, a hundred windows and short answers (*Arbitrary windows*), the windows end at a hundred different
moments of each slide. They cut it into as many panes, each with about k events: all of these are kept until the pane is
sealed, and sorted. MTopBand and MTopList have ten shared views there, and nine of ten events enter none of them.

## Left out

The thesis also has GMTI data, moving objects recorded from aircraft; they were not to be had. Its memory is in bytes;
here it is in events and in places of lists. The experiments of a later paper are on [the page of STKQF](stkqf.md).
"""

QUERIES, MICROSECONDS = "queries", "µs per event"


def judge(rows: Sequence[Cell]) -> list[Target]:
    """Return all targets that the rows tell about."""
    return [*general_case(rows), *worst_lead(rows)]


def work_table(rows: Sequence[Cell]) -> Table:
    """List what there was to do in each cell, with MinTopK's lists and with those of MTopBand and MTopList."""
    found = Found(rows)
    head = (
        "experiment", QUERIES, "views open: MinTopK", "shared", "views entered by an event: MinTopK", "shared",
        "places held: MinTopK", "MTopBand", "MTopList", "monitor alone, µs per event",
    )  # fmt: skip
    lines = []
    for cell in dict.fromkeys(row.parameter.partition(":")[0] for row in rows):
        experiment, value = cell.split(" ")
        if experiment == "real":
            continue
        wanted = [(what, name) for what in (VIEWS_OPEN, VIEWS_ENTERED) for name in ("mintopk", "mtoplist")]
        wanted += [(PLACES, name) for name in ("mintopk", "mtopband", "mtoplist")] + [(ALONE, "idle")]
        figures = [short(found.work(experiment, value, what, name)) for what, name in wanted]
        lines.append([experiment, f"{int(value):,}", *figures])
    return head, lines


def plot_work(rows: Sequence[Cell], path: Path) -> None:
    """Time by the number of views that an event enters, a point for each cell."""
    with figure(path, 6.5) as axes:
        for name in LISTS:
            found = [row for row in rows if row.algorithm == name and row.parameter.endswith(VIEWS_ENTERED)]
            colour, marker = STYLES[name]
            x, y = [float(row.value) for row in found], [row.per_event for row in found]
            axes.plot(x, y, marker, color=colour, label=name)
        log_log(axes, "views entered by an event", MICROSECONDS)
        axes.xaxis.set_major_formatter("{x:,.4g}")
        axes.legend()


def _section(title: str, text: str, experiment: str) -> Section:
    return Section(title, text, lines(QUERIES, MICROSECONDS), only(experiment), grid(QUERIES))


SECTIONS = {
    "beside": Section(
        "Next to the thesis",
        """\
What chapter 9 of the thesis reports in numbers, as ratios of times (or of memory), and the same from our rows. All
are of the first data set. Where they differ, the last column says why, with figures that this run measured.""",
        beside_plot(claims),
        everything,
        beside(claims),
    ),
    "real": _section(
        "The general case at its real size",
        """\
Everything is arbitrary: window, slide and k. The sizes are those of the thesis. Of all published algorithms, those
run that can do it in minutes; `mtopband` with the fewer queries only.""",
        "real",
    ),
    "general": _section(
        "The general case",
        "Window, slide and k are arbitrary, on every data set.",
        "general",
    ),
    "k": _section(
        "Arbitrary k", "Window 1,000,000, slide 100,000, k from 10 to 1,000. All queries share their views.", "k"
    ),
    "slide": _section("Arbitrary slides", "Window 1,000,000, k = 1,000, slides from 100,000 to 1,000,000.", "slide"),
    "win": _section("Arbitrary windows", "Slide 100,000, k = 1,000, windows from 100,000 to 1,000,000.", "win"),
    "win-slide": _section(
        "Arbitrary windows and slides",
        "k = 100, windows from 100,000 to 1,000,000, slides from 10,000 to 100,000.",
        "win-slide",
    ),
    "overhead": _section(
        "Few queries",
        "One, two and five queries of the general case: what sharing costs where there is little to share.",
        "overhead",
    ),
    "kept": Section(
        "What is kept",
        """\
Distinct events, in the general case. The three published algorithms keep the same ones: those that would be in
an answer if no more came, and nobody can keep fewer. `staircase` also keeps the best of panes that are still open.""",
        lines(QUERIES, "events kept", kept),
        only("general"),
        grid(QUERIES, kept, 0),
    ),
    "effort": Section(
        "What there is to do",
        """\
Counted for each cell of the first data set. *MinTopK* has views of each query, *shared* views are those of MTopBand and
MTopList, where windows that start together are one. *Places* are those of lists in use: an event may be in several.""",
        plot_work,
        only("work"),
        work_table,
    ),
}
PAGE = Page("experiments/mtops.md", "Experiments: MTopS", METHOD, RUN_IT, SECTIONS, CLOSING, judge, "mtops", Cell)
