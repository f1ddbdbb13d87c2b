"""The page of the benchmark `core`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import joined
from benchmarks.baselines import ONLY_READING
from benchmarks.core import LONG_SPAN
from benchmarks.core.groups import BY_EXPRESSION, SLOWLY
from benchmarks.core.targets import expected_kept, in_window, judge
from benchmarks.measure import Row
from benchmarks.plots import LIMIT, OTHERS, OURS, bars, figure, limit, log_log, per_event, speeds
from benchmarks.report import FIGURES, Page, Section, listing, only

METHOD = """\
## Method

- **The stream**: {events:,} events in memory as Arrow columns (`time`, `id`, `score`), in order of time, spread over
  2,000 seconds of event time; scores are uniform random numbers where nothing else is said, ids never repeat.
- **The query**: the best 100 of the last 600 seconds, every 10 seconds; every window that contains an event is
  answered. Times run from registering the queries to the last answer, with all ids, scores and times as columns.
- **Ratios within one run**: what is compared runs in turn (A B A B …), so that whatever disturbs the machine hits all
  alike. The figures are of the fastest round; the median is in the raw rows.
- **Warm-up is excluded**: each way runs once or twice before it is timed. Skyband compiles its kernels when they are
  first used (some seconds, once per installation; then they are loaded from a cache): not in these figures.
- **Same answers**: before anything is timed, all ways answer a hundredth of the stream; ids of every window must agree,
  else the benchmark stops. Peers get their data in their own form for free (DuckDB a native table, Polars a frame), are
  told that the stream is sorted, and owe no rule for ties.
- **The physical limit**: *only reading* takes the largest value of each column by NumPy, on all cores: no way to answer
  can be faster than memory gives the columns. Where it stands for a curve, reading does not depend on the parameter.
- **Windows of growing size** run over the same number of events spread over more event time (20,000 s; in falling
  order 10,000 s and a tenth of the events), so that the largest still fit; only windows that end within the stream are
  answered, so their number does not depend on their size.
"""

RUN_IT = """\
## Run it yourself

```
pip install -e . --group bench   # in a clone of the repository, with pip 25.1 or newer
python -m benchmarks core            # some minutes
python -m benchmarks core --smoke    # some seconds, only to see that it works
python -m benchmarks core --full     # larger, more repeats
```

Raw rows: `benchmarks/results/core.csv`, versions and machine in `core.json` beside it.
"""

CLOSING = """\
## Left out

One process over columns in memory says little about engines for many machines. What Spark does over files is measured
on [a page of its own](benchmarks-spark.md). Flink is left for later, and so are systems that keep views fresh
(RisingWave, Materialize, Feldera): they need the data inside a server, and a fair comparison takes one.
"""


def plot_pass(rows: Sequence[Row], path: Path) -> None:
    """How many NumPy passes one query costs, by the kind of scores."""
    found = [row for row in rows if row.way == "skyband"]
    with figure(path) as axes:
        ratios = [row.ratio or 0.0 for row in found]
        bars(axes, [row.value for row in found], ratios, [f"{ratio:.1f}" for ratio in ratios], ours=True)
        limit(axes, 4.0, "target for uniform")
        axes.set_xlabel("time of one query / time of one NumPy compare-and-compress pass")


def _limit(axes: Any, rows: Sequence[Row]) -> None:
    """Draw what only reading the columns from memory takes."""
    if found := [row for row in rows if row.way == ONLY_READING]:
        axes.plot([float(row.value) for row in found], per_event(found), "--", color=LIMIT, label=ONLY_READING)


def _ours(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.way == "skyband"]


def plot_window(rows: Sequence[Row], path: Path) -> None:
    """Time and kept candidates by the size of the window."""
    limits, rows = rows, _ours(rows)
    sizes = [int(row.value) for row in rows]
    with figure(path, 9.0, 3.4, 2) as (left, right):
        left.plot(sizes, per_event(rows), "o-", color=OURS)
        _limit(left, limits)
        left.set(title="Time per event", ylabel="ns", ylim=(0, None))
        left.legend()
        right.plot(sizes, [row.kept or 0 for row in rows], "o-", color=OURS, label="kept at most")
        theory = [expected_kept(in_window(row, LONG_SPAN)) for row in rows]
        right.plot(sizes, theory, "--", color=OTHERS, label="k ln(n/k) + k")
        right.plot(sizes, [1.2 * value for value in theory], ":", color=LIMIT, label="target: 1.2 times that")
        right.set(title="Kept candidates", ylim=(0, None))
        right.legend()
        for axes in (left, right):
            _seconds(axes, sizes)


def _seconds(axes: Any, sizes: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes[::2], [f"{size:,}" for size in sizes[::2]])
    axes.set_xlabel("window in seconds")


def plot_order(rows: Sequence[Row], path: Path) -> None:
    """Time per event by the size of the window, in random and in falling order."""
    with figure(path, 6.0) as axes:
        sizes: list[int] = []
        for way, colour in (("skyband, uniform", OURS), ("skyband, falling", LIMIT)):
            found = [row for row in rows if row.way == way]
            sizes = [int(row.value) for row in found]
            name = way.removeprefix("skyband, ").replace("uniform", "random") + " order"
            axes.plot(sizes, per_event(found), "o-", color=colour, label=name)
        axes.set(ylabel="ns per event", yscale="log")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.legend()
        _seconds(axes, sizes)


def plot_queries(rows: Sequence[Row], path: Path) -> None:
    """Time by the number of queries, against one query."""
    with figure(path, 6.0) as axes:
        for way, colour in (("skyband, k up to 100", OURS), ("skyband, k up to 1,000", OTHERS)):
            found = [row for row in rows if row.way == way]
            counts, ratios = [int(row.value) for row in found], [row.ratio or 0.0 for row in found]
            axes.plot(counts, ratios, "o-", color=colour, label=way.removeprefix("skyband, "))
        axes.axhline(4.0, color=LIMIT, linestyle="--", linewidth=1.2, label="target for 1,000 queries, k up to 100")
        log_log(axes, "queries", "time / time of one query")
        axes.legend()


def plot_k(rows: Sequence[Row], path: Path) -> None:
    """Time per event by k."""
    _curve(rows, path, "k")


def plot_batch_size(rows: Sequence[Row], path: Path) -> None:
    """Time per event by the events of a batch."""
    _curve(rows, path, "events of a batch")


def _curve(rows: Sequence[Row], path: Path, parameter: str) -> None:
    with figure(path, 6.0) as axes:
        found = _ours(rows)
        axes.plot([int(row.value) for row in found], per_event(found), "o-", color=OURS, label="skyband")
        _limit(axes, rows)
        log_log(axes, parameter, "ns per event")
        axes.legend()


def plot_peers(rows: Sequence[Row], path: Path) -> None:
    """Speed of every way, one query."""
    speeds([row for row in rows if row.way != "skyband" or row.value == "one query"], path)


def plot_many(rows: Sequence[Row], path: Path) -> None:
    """Seconds of every way, a hundred queries."""
    found = sorted(rows, key=lambda row: row.seconds_min)
    with figure(path, 7.0, 0.9 + 0.36 * len(found)) as axes:
        seconds = [row.seconds_min for row in found]
        bars(axes, [row.way for row in found], seconds, [f"{value:.2f} s" for value in seconds])
        axes.set_xlabel("seconds")


def plot_groups(rows: Sequence[Row], path: Path) -> None:
    """Time per event of every way, by the number of groups."""
    with figure(path, 6.0) as axes:
        for way in dict.fromkeys(row.way for row in rows):
            found = [row for row in rows if row.way == way]
            line = LINES.get(way, "o-")
            colour = {"color": OURS} if way.startswith("skyband") else {"color": LIMIT} if way == ONLY_READING else {}
            axes.plot([int(row.value) for row in found], per_event(found), line, label=way, **colour)
        log_log(axes, "groups", "ns per event")
        axes.legend()


def plot_parquet(rows: Sequence[Row], path: Path) -> None:
    """Speed of every way over Parquet files."""
    speeds(rows, path, log=False)


def plot_aggregates(rows: Sequence[Row], path: Path) -> None:
    """Time per event of every way, by the number of ids."""
    with figure(path, 6.0) as axes:
        for way in dict.fromkeys(row.way for row in rows):
            found = [row for row in rows if row.way == way]
            colour = {"skyband": {"color": OURS}, ONLY_READING: {"color": LIMIT}}.get(way, {})
            axes.plot([int(row.value) for row in found], per_event(found), LINES.get(way, "o-"), label=way, **colour)
        log_log(axes, "ids", "ns per event")
        axes.legend()


def plot_live(rows: Sequence[Row], path: Path) -> None:
    """Speed of every way over a stream that is running."""
    speeds([replace(row, way=f"{row.way}, {row.value}") for row in rows], path)


LINES = {BY_EXPRESSION: "o--", SLOWLY: "o:", ONLY_READING: "--"}


def _many(row: Row) -> bool:
    return row.experiment == "peers" and row.value == "many queries"


SECTIONS = {
    "pass": Section(
        "One query against one pass over the scores",
        """\
What one query costs, in passes of `np.flatnonzero(score > t)` over the same column; `t` lets through as many events as
the panes' best 100 together.""",
        plot_pass,
        only("pass"),
    ),
    "window": Section(
        "The size of the window",
        "Doubling the window should cost next to nothing: what is kept grows with the logarithm of the window.",
        plot_window,
        only("window"),
        listing(*FIGURES, "kept"),
        curves=("skyband",),
    ),
    "order": Section(
        "Falling scores, the worst case",
        """\
When every event is worse than all before it, none ever beats another: the best 100 of every pane must be kept until
they expire.""",
        plot_order,
        only("order"),
        curves=("skyband, uniform", "skyband, falling"),
    ),
    "queries": Section(
        "Many queries",
        """\
Random queries (size 100–1,000 s, slide 10–100 s in whole seconds, k from 10) over one stream. With whole seconds the
panes are one second long. Rows of answers are references to events, which several answers share; *skyband* makes
all columns from them, as everywhere on this page, *by reference* leaves that to whoever needs them, *as a table* makes
one Arrow table, with query, window and rank too.""",
        plot_queries,
        only("queries"),
        curves=("skyband, k up to 100", "skyband, k up to 1,000"),
    ),
    "k": Section("The size of the answer", "One query, k from 1 to 10,000.", plot_k, only("k"), curves=("skyband",)),
    "batch-size": Section(
        "The size of a batch",
        "One query; a push and an advance for each batch, at most 5,000 batches.",
        plot_batch_size,
        only("batch-size"),
        curves=("skyband",),
    ),
    "parquet": Section(
        "Parquet files",
        """\
The same stream in 20 files (Snappy): one query over them, against only reading the three columns with PyArrow, and
against the peers. *panes* reads twice (each pane's k-th score, then the events that reach it), *one pass* aggregates
structs, *from memory* reads everything first.""",
        plot_parquet,
        only("parquet"),
    ),
    "peers": Section(
        "One query, other ways",
        """\
*panes*: each pane's best first, then windows over these. *loop*: one query per window, with a tenth of the events.
*naive*: Skyband's own baseline, which sorts every window, with a hundredth of the events.""",
        plot_peers,
        lambda row: row.experiment == "peers" and not _many(row),
    ),
    "many": Section(
        "A hundred queries, other ways",
        """\
Sizes 100–1,000 s and slides 10–100 s in tens of seconds, k from 10 to 1,000. The peers compute the best 1,000 of each
10 s once and share them among all queries.""",
        plot_many,
        _many,
    ),
    "groups": Section(
        "The best of each group",
        """\
The best 10 of each group in the last 600 seconds, half of the events, spread over 1,000 seconds; every 10 seconds, and
every 60 where there are 100,000 groups, which have 160 million rows of answers otherwise. The peers take the best of
each pane and group first. *by an expression* groups by `g % n` instead of the column `g`, with the same groups.
*every 60 s* has this slide for all numbers of groups.""",
        plot_groups,
        only("groups"),
        curves=(SLOWLY,),
    ),
    "joins": Section(
        "Joins",
        """\
The best 100 ids of the last 600 seconds, every 60 seconds, by `score + followers`: the latest event of each id, joined
with a service that knows the followers and answers at once; all ids of a window are asked for. Four batches with a
twentieth of the events each. *by hand*: the latest event per pane and id in NumPy, all values from the same service,
one sort.""",
        joined.plot,
        only("joins"),
        listing("way", "median seconds", "repeats", "ratio"),
    ),
    "aggregates": Section(
        "Sums of ids",
        """\
The best 10 ids by the sum of their scores in the same windows, with half the events. DuckDB sums up each pane and id
first. Then it lays a window *frame* over a grid of all panes and ids, *copies* each sum into all its windows, or
*joins* windows with their panes. The ratio is that of the times to DuckDB's best; where it has no figure, only ours was
timed.""",
        plot_aggregates,
        only("aggregates"),
        curves=("skyband",),
    ),
    "live": Section(
        "A running stream",
        """\
*Batches of*: push and advance after every few rows, five times for each second of event time (size 60 s, slide 1 s,
k = 10). *After every event*: the best 10 of the last 1,000 events, again after every event, against a sorted list kept
by hand. *Come and go*: batches of 10,000 rows beside 1,000 random queries (k up to 100), *alone* and with as many
registrations and removals, spread over the batches.""",
        plot_live,
        only("live"),
    ),
}
PAGE = Page("benchmarks.md", "Benchmarks", METHOD, RUN_IT, SECTIONS, CLOSING, judge)
