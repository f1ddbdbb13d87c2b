"""The page of the benchmark `spark`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks import joined
from benchmarks.measure import Row
from benchmarks.plots import LIMIT, OTHERS, OURS, bars, figure, limit, speeds
from benchmarks.report import Page, Section, listing, only
from benchmarks.spark.targets import GROWTH, QUERIES, RE_READS, TREND, judge

METHOD = """\
How fast the Spark pipeline (`skyband.spark.start`) answers, against only scanning the data, and against other ways to
get the same answers from Spark.

## Method

- **The session**: one local session on two cores, 4 GB for the driver, two shuffle partitions (as many as cores), no
  user interface, no logs; everything else as Spark has it. Java {java}.
- **The stream**: {events:,} events (`time`, `id`, `score`), in order of time, spread over {span:,} seconds of event
  time (so that micro-batches cut panes), in {files} Parquet files (Snappy); scores are uniform random numbers where
  nothing else is said, ids never repeat. A micro-batch reads two files; the trigger is `availableNow`; every run has a
  fresh checkpoint.
- **The query**: the best 100 of the last 600 seconds, every 10 seconds; the watermark is 10 seconds.
- **Times** run from `start` until the stream has ended, with everything that is written into the checkpoint.
- **Where answers go**: *skyband* hands the answers of each micro-batch to a function, as a DataFrame; the function
  only notes the number of the batch. The answers of Spark's own ways go to the `noop` sink; those of the panes by hand
  stay in memory.
- **Ratios within one run**: what is compared runs in turn (A B A B …), so that whatever disturbs the machine hits all
  alike. The figures are of the fastest round; the median is in the raw rows. Ways that are slow by orders of magnitude
  get the first {slow:,} events of the stream, in two micro-batches; ratios are of the time per event, in which the
  fixed costs of a run weigh a little more then.
- **Warm-up is excluded**: each way runs once or twice before it is timed.
- **Same answers**: before anything is timed, all ways answer a hundredth of the events, spread over the same time; ids
  of every window must agree, else the benchmark stops. Peers owe no rule for ties.
"""

RUN_IT = """\
## Run it yourself

```
pip install -e '.[spark]' --group bench   # in a clone of the repository, with pip 25.1 or newer
python -m benchmarks spark            # less than half an hour
python -m benchmarks spark --smoke    # about a minute, only to see that it works
python -m benchmarks spark --full     # larger, more repeats
```

Raw rows: `benchmarks/results/spark.csv`, versions and machine in `spark.json` beside it.
"""

CLOSING = """\
## Left out

One machine says nothing about networks, and two cores nothing about hundreds: what is compared here is the work that
an event costs. Sinks other than a function are not measured.
"""


def plot_scan(rows: Sequence[Row], path: Path) -> None:
    """Speed of every way, one query."""
    speeds(rows, path)


def plot_scores(rows: Sequence[Row], path: Path) -> None:
    """Speed against only scanning, by the kind of scores."""
    found = [row for row in rows if row.way == "noop"]
    with figure(path, 7.0, 0.9 + 0.36 * len(found)) as axes:
        shares = [row.ratio or 0.0 for row in found]
        bars(axes, [row.value for row in found], shares, [f"{share:.2f}" for share in shares], ours=True)
        limit(axes, TREND, "target for trending and falling")
        axes.set_xlabel("speed / speed of only scanning the same events")


def plot_queries(rows: Sequence[Row], path: Path) -> None:
    """Time by the number of queries, against one query."""
    with figure(path, 6.0) as axes:
        counts, ratios = [int(row.value) for row in rows], [row.ratio or 0.0 for row in rows]
        axes.plot(counts, ratios, "o-", color=OURS)
        axes.plot(counts[1:], QUERIES, "_", color=LIMIT, markersize=18, markeredgewidth=2, label="target: at most")
        axes.set(xscale="log", xlabel="queries", ylabel="time / time of one query", ylim=(0, None))
        axes.set_xticks(counts, [f"{count:,}" for count in counts])
        axes.minorticks_off()
        axes.legend()


def plot_partitions(rows: Sequence[Row], path: Path) -> None:
    """Time by the number of groups, against none."""
    with figure(path, 7.0, 0.9 + 0.36 * len(rows)) as axes:
        ratios = [row.ratio or 0.0 for row in rows]
        bars(axes, [f"{row.value} groups" for row in rows], ratios, [f"{ratio:.2f}" for ratio in ratios], ours=True)
        axes.set_xlabel("time / time without groups")


def plot_sizes(rows: Sequence[Row], path: Path) -> None:
    """Speed of ours over that of other ways, by the size of a micro-batch."""
    found = [row for row in rows if row.ratio is not None and row.way != "skyband"]
    with figure(path, 7.0, 0.9 + 0.36 * len(found)) as axes:
        names = [f"{int(row.value):,} events, over {row.way}" for row in found]
        ratios = [row.ratio or 0.0 for row in found]
        bars(axes, names, ratios, [f"{ratio:.2f}" for ratio in ratios], ours=True)
        axes.set_xlabel("speed / speed of the other way")


def plot_hundredths(rows: Sequence[Row], path: Path) -> None:
    """Phases of a warm micro-batch, as shares of one that is only scanned, by size."""
    sizes = list(dict.fromkeys(row.value for row in rows))
    with figure(path, 13.0, 5.0, len(sizes)) as panels:
        for axes, size in zip(panels, sizes, strict=True):
            found = [row for row in rows if row.value == size]
            shares = [row.ratio or 0.0 for row in found]
            bars(axes, [row.way for row in found], shares, [f"{share:.3f}" for share in shares])
            axes.set(title=f"{int(size):,} events", xlabel="share of a scanned micro-batch")


def plot_latency(rows: Sequence[Row], path: Path) -> None:
    """Seconds until an answer is there, by percentile."""
    with figure(path, 7.0, 0.9 + 0.36 * len(rows)) as axes:
        seconds = [row.seconds_median for row in rows]
        bars(axes, [f"{row.way}, p{row.value}" for row in rows], seconds, [f"{value:.3f}" for value in seconds])
        axes.set_xlabel("seconds")


def plot_phases(rows: Sequence[Row], path: Path) -> None:
    """Seconds of each phase of a micro-batch, for few and for many queries."""
    counts = list(dict.fromkeys(row.value for row in rows))
    with figure(path, 10.0, 5.0, len(counts)) as panels:
        for axes, count in zip(panels, counts, strict=True):
            found = [row for row in rows if row.value == count]
            seconds = [row.seconds_median for row in found]
            bars(axes, [row.way for row in found], seconds, [f"{value:.3f}" for value in seconds])
            axes.set(title=f"queries: {int(count):,}", xlabel="seconds of a micro-batch")


def plot_re_reads(rows: Sequence[Row], path: Path) -> None:
    """Share of guessed panes that were read again, by the kind of scores."""
    found = [row for row in rows if row.ratio is not None]
    with figure(path, 7.0, 0.9 + 0.36 * len(found)) as axes:
        shares = [100 * (row.ratio or 0.0) for row in found]
        bars(axes, [row.value for row in found], shares, [f"{share:.2f}" for share in shares], ours=True)
        limit(axes, RE_READS, "target for uniform")
        axes.set_xlabel("per cent of guessed panes")


def plot_memory(rows: Sequence[Row], path: Path) -> None:
    """Memory of the driver and size of the state, micro-batch by micro-batch."""
    ways = list(dict.fromkeys(row.way for row in rows))
    with figure(path, 9.0, 3.4, 2) as panels:
        for axes, way in zip(panels, ways, strict=False):
            found = [row for row in rows if row.way == way]
            batches, amounts = [int(row.value) for row in found], [(row.amount or 0.0) / 1e6 for row in found]
            axes.plot(batches, amounts, "o-", color=OURS, markersize=3)
            half = len(found) // 2
            most = amounts[half] * (1 + GROWTH / 100)
            axes.plot([batches[half], batches[-1]], [most, most], "--", color=LIMIT, label="target: at most")
            axes.plot([batches[0], batches[-1]], [0, 0], color=OTHERS, linewidth=0.5)
            axes.set(title=way, xlabel="micro-batches", ylabel="MB", ylim=(0, None))
            axes.legend(loc="lower right")


SECTIONS = {
    "spark-scan": Section(
        "One query, every way",
        """\
*noop*: the same files into Spark's `noop` sink, without any query. *panes by hand*: `foreachBatch` with
`groupBy(pane).agg(max_by(struct(score, id), score, 100))`, merged on the driver in NumPy. *spark panes, then windows*:
two chained streaming aggregations in append mode, of panes and of sliding windows over the panes' best; Spark keeps
the state. *spark window()*: the direct way, a sliding `window()` with `max_by(…, 100)` in append mode.

A run has ten micro-batches only. So the checks of `start`, and the look that the first batch gets before it is read,
weigh as much as one or two of them, and the fastest of all rounds is shown, in which *noop* is at its luckiest. How a
warm micro-batch compares is below, under *Where the time goes*.""",
        plot_scan,
        only("scan"),
    ),
    "spark-sizes": Section(
        "Micro-batches of different sizes",
        """\
The same query over micro-batches of 1,000 events (a file each), of two files, and of ten. The ratio is the speed of
*skyband* over that of the other way, for whole runs: with what `start` checks, and the look that the first batch gets
before it is read.""",
        plot_sizes,
        only("micro-batches"),
        listing("way", "seconds", "M events/s", "micro-batches/s", "ratio", "against"),
    ),
    "spark-hundredths": Section(
        "Where each hundredth goes",
        """\
Phases of the warm micro-batches of these runs, the median, as a share of a warm micro-batch that is only scanned.
*skyband*: what happens in the handler; *callback*: what lies between Spark's `addBatch` and it; *spark*: the streaming
engine's `durationMs` while we answer, and *noop* while it only scans.""",
        plot_hundredths,
        only("hundredths"),
        listing("phase", "median seconds", "share", "repeats"),
    ),
    "spark-latency": Section(
        "Latency from Kafka",
        """\
Events are written to a broker on this machine, 200 a second, each with the time of writing; the best 10 of the last 10
seconds are answered every second, with a watermark of one second, as fast as micro-batches follow each other. A window
may be answered one second after its end; the latency is how much later its answer is in the sink. *spark window()* is
Spark's own sliding window in append mode. Not measured where Kafka's jars are missing.""",
        plot_latency,
        only("latency"),
        listing("way", "median seconds"),
    ),
    "spark-scores": Section(
        "Scores of different kinds",
        """\
Rising scores are the worst case for thresholds: each event is better than all before it. Falling scores are the worst
case for memory: none ever beats another. *trending* adds three standard deviations of a normal distribution over the
length of the stream.""",
        plot_scores,
        only("scores"),
    ),
    "spark-queries": Section(
        "Many queries",
        """\
Random queries (size 100–1,000 s, slide 10–100 s in whole seconds, k from 10 to 100) over one stream, all answers as
DataFrames.""",
        plot_queries,
        only("queries"),
    ),
    "spark-partitions": Section(
        "Groups",
        """\
The best 10 of each group (`partition_by="id % 10"`) in the same windows. Where the sample has too few events of a group
to guess from, all its events come back.""",
        plot_partitions,
        only("partitions"),
    ),
    "spark-phases": Section(
        "Where the time goes",
        """\
Seconds of a micro-batch, the median over all but the first one of each run. *skyband*: what happens in the handler, as
`progress` shows it: `scan` is Spark's job that reads the batch and brings back what reaches the thresholds, `plan`
makes it, `push` and `answer` are the core, `sink` makes the DataFrame and calls the function, `state` writes the
checkpoint; `own` is `all` without `scan`. *spark*: the streaming engine's `durationMs`; `addBatch` holds all of the
handler, `triggerExecution` is the whole micro-batch. *noop*: the same for only scanning.""",
        plot_phases,
        only("phases"),
        listing("phase", "median seconds", "repeats"),
    ),
    "spark-re-reads": Section(
        "Guesses",
        """\
The threshold of a pane that has no events yet is guessed; where a guess lets too few events through, this part of the
batch is read again. Counted over all micro-batches but the first.""",
        plot_re_reads,
        only("re-reads"),
        listing("way", "number", "share"),
    ),
    "spark-memory": Section(
        "Many small micro-batches",
        """\
Files of 2,000 events over 10.5 seconds of event time, one with each micro-batch, for a long time. *driver*: the
resident memory of the driver's Python process (the memory of the JVM is not in it, its heap is bounded); *state*: the
size of the state in the checkpoint. Each point is the most of all micro-batches since the point before; growth is from
the first point of the second half to the last. This runs before everything else, in a fresh process.""",
        plot_memory,
        only("memory"),
        listing("way", "MB", "median seconds"),
    ),
    "spark-topk": Section(
        "A batch",
        """\
`skyband.spark.topk` on the events as one batch, for the one query and, where shown, for many random ones, against
only reading them, and against copying each event into its 60 windows with `row_number()` over each. Here all windows
with events are answered. Two scans are the least that exact thresholds need.""",
        plot_scan,
        only("topk"),
    ),
    "spark-joins": Section(
        "Joins",
        """\
The best 100 ids of the last 600 seconds, every 60 seconds, by `score + followers`: the latest event of each id, joined
with a service that knows the followers and answers at once. There is no budget: all ids of a window are asked for.
A micro-batch has 1,000,000 events over 100 seconds of event time. *by hand*: `foreachBatch` with
`groupBy(pane, id).agg(max(time), max_by(score, time))`, merged on the driver in NumPy, all values from the same
service, one sort; nothing is kept for a restart. Phases are those of all micro-batches but the first.""",
        joined.plot,
        only("joins"),
        listing("way", "median seconds", "repeats", "ratio"),
    ),
    "spark-aggregates": Section(
        "Sums of ids",
        """\
The best 10 ids by the sum of their scores, in the same windows, against `groupBy(pane, id)` with sum and latest
time of each micro-batch by hand, as an Arrow table: windows and answers are ours alone. Ratios are of speeds.""",
        plot_scan,
        only("aggregates"),
    ),
}
PAGE = Page("benchmarks-spark.md", "Benchmarks: Spark", METHOD, RUN_IT, SECTIONS, CLOSING, judge)
