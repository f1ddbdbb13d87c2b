"""The page of the benchmark `stkqf`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measure import Cell
from benchmarks.papers.page import bars_by_algorithm, beside, beside_plot, grid, kept, lines, per_answer
from benchmarks.papers.targets import worst_lead
from benchmarks.report import Page, Section, Table, everything, only
from benchmarks.stkqf.claims import claims
from benchmarks.targets import Target

METHOD = """\
The experiments of section 4 of Jing et al., *Dynamic Multiple Continuous Top-k Queries Over Streaming Data*, which
compares PH-Tree (in its framework STKQF) with PH-Base, MTopList, M-SAP and MTopBand. Here `phtree` is the tree for
queries that stay, `stkqf` the framework for queries that come and go, `sap` with many queries is M-SAP, and our
`staircase` is beside them.

## Method

- **Data**: {sources}. The paper has two years of trades in Shanghai and Shenzhen and six of taxi trips in New York.
- **Queries**: 100, whose windows n, slides s and k are normally distributed with a standard deviation of 100, around
  means of 1,000,000, 1 % of n, and 100. One mean at a time is varied. The paper's table with the means is missing in
  the copy at hand: seven values were chosen in each range that its text names. What would be below 1 is 1.
- **Sizes**: time is counted in ticks. This run has an event every {step} ticks: {events:,} events (for larger windows
  a quarter more than they hold), and k is divided by {step}. With an event every tick (`--full`) a window of n ticks is
  the last n events.
- **A run**: events come in batches of 100,000 ticks. Each is pushed, then time advances to the next event. The clock
  runs for these two calls only. Answers are left as references to events, no columns are made of them.
- **The figure** is microseconds per event, of the fastest run; short runs are repeated, in turn with the others. `sap`
  works for each query apart and takes the first quarter of the events. The data sets other than the first get every
  third value only (with `--full` all).
- **Queries that come and go**: `f` queries are replaced per slide, the oldest by new ones, over {f_events:,} events in
  batches of a slide; the clock runs for this too. STKQF is made for it, and its answers are exact at once. All others
  are asked to do more than their papers promise: they make their lists anew from what they keep, and a new query warms
  up where that is not enough.
- **Query time**: all windows end at the same moments. Just before, everything but the last event is taken in, so that
  the last step is the answers and little else. A step that ends no window is subtracted, and the median is taken.
- **Space** is the most events kept after any batch. `stkqf` also keeps the whole window, to look things up in; only its
  candidates are counted.
- **Same care for all**: every algorithm is compiled with numba, takes the same columns through the same monitor, and
  uses one core.
- **Same answers**: before a clock runs, all algorithms answer ten of the queries. The ids of every window must agree,
  else the benchmark stops. This also compiles everything.
- **What is reconstructed**: the papers of SAP and PH-Tree are not at hand. Their code here follows the outlines in the
  paper on STKQF; [Algorithms](../algorithms.md) says more.
"""

RUN_IT = """\
## Run it yourself

```
pip install -e . --group bench   # in a clone of the repository, with pip 25.1 or newer
python -m benchmarks stkqf --data FOLDER    # about ten minutes
python -m benchmarks stkqf --smoke          # some seconds, only to see that it works
python -m benchmarks stkqf --full           # the sizes of the paper everywhere: hours
```

`FOLDER` has the recorded data sets. Without it the environment variable `SKYBAND_DATA` is asked, then `../shared/data`.
Where there is none, only uniform and normal data are used.

Raw rows: `benchmarks/results/stkqf.csv`, versions and machine in `stkqf.json` beside it.
"""

CLOSING = """\
## Where staircase is behind

- Where queries are replaced at every slide, STKQF is ahead: it is made for that. A new query of the staircase is
  analysed against all others, and cuts the panes that there are: about a millisecond for a query.
- Where only answers are timed, MTopBand finds its lists ready; the staircase walks along all that is kept.
- In some cells with few events per answer it is about as fast as PH-Tree: what is left there is the monitor.

## Left out

The paper's figures have no numbers on their axes in the copy at hand; only what its text and its table say could be
compared. The experiments of an earlier thesis are on [the page of MTopS](mtops.md).
"""

MICROSECONDS = "µs per event"


def judge(rows: Sequence[Cell]) -> list[Target]:
    """Return all targets that the rows tell about."""
    return worst_lead(rows)


def exact_table(rows: Sequence[Cell]) -> Table:
    """List times as everywhere, and below them which share of the answers was exact."""
    head, times = grid("f")([row for row in rows if row.experiment == "f"])
    answers = {(row.data_set, row.value, row.algorithm): row.answers for row in rows if row.experiment == "f"}
    shares = []
    for data_set, value in dict.fromkeys((row.data_set, row.value) for row in rows):
        found = [row for row in rows if (row.experiment, row.data_set, row.value) == ("exact", data_set, value)]
        figures = [f"{row.answers / answers[data_set, value, row.algorithm]:.0%}" for row in found]
        shares.append([f"{data_set}: exact answers", value, *figures, ""])
    return head, [*times, *shares]


def _section(title: str, text: str, experiment: str, x: str) -> Section:
    return Section(title, text, lines(x, MICROSECONDS), only(experiment), grid(x))


SECTIONS = {
    "beside": Section(
        "Next to the paper",
        """\
What section 4 of the paper reports in numbers or in words, and the same from our rows, all of the first data set where
nothing else is said. Where they differ, the last column says why, with figures that this run measured.""",
        beside_plot(claims),
        everything,
        beside(claims),
    ),
    "n": _section("The window", "The mean of n; slides are 1 % of it.", "n", "n in ticks"),
    "s": _section("The slide", "The mean of s, as a share of n.", "s", "s / n"),
    "k": _section("The size of the answer", "The mean of k, before it is divided.", "k", "k"),
    "queries": _section("The number of queries", "All other parameters as usual.", "queries", "queries"),
    "f": Section(
        "Queries that come and go",
        """\
`f` queries are replaced per slide. The lower part of the table says which share of the answers was exact: a new query
may ask for more than is kept.""",
        lambda rows, path: lines("f", MICROSECONDS)([row for row in rows if row.experiment == "f"], path),
        only("f", "exact"),
        exact_table,
    ),
    "space": Section(
        "Space",
        "The most events kept as candidates, for windows of growing size.",
        lines("n in ticks", "events kept", kept),
        only("n"),
        grid("n in ticks", kept, 0),
    ),
    "query-time": Section(
        "Query time",
        "Microseconds per answer. What the monitor does for an answer is in it, and is the same for all.",
        bars_by_algorithm("µs per answer", per_answer),
        only("query-time"),
        grid("queries", per_answer),
    ),
    "dimensions": _section("Columns of the score", "The score is the sum of d columns.", "dimensions", "d"),
}
PAGE = Page("experiments/stkqf.md", "Experiments: STKQF", METHOD, RUN_IT, SECTIONS, CLOSING, judge, "stkqf", Cell)
