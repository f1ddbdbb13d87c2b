"""The benchmark `spark`: what the Spark pipeline costs over only scanning, and what other ways cost.

Everything runs in one local session on two cores, over the same Parquet files, in micro-batches. Sizes are those of
the default run; `--smoke` takes few events and `--full` five times as many, in files of the same size.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks import BenchmarkError, baselines, machine
from benchmarks.measure import Patience, Row, Timing, side_by_side
from benchmarks.spark import groups, latency, micro_batches, spark_baselines
from benchmarks.spark.aggregates import aggregates
from benchmarks.spark.joins import joins
from benchmarks.spark.spark_baselines import Stream
from benchmarks.workloads import events, many_queries, one_query, write_parquet
from skyband.queries.query import Query
from skyband.spark import Control, Handle
from skyband.spark.session import check_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCORES = ("uniform", "trending", "rising", "falling")
SMALL_BATCH, SMALL_SPAN = 2_000, 10.5  # events, and seconds of event time, of a small micro-batch
UNSETTLED = 1  # the first micro-batch of a run: only then does the pipeline know what the next one will be like
SLICES = 10  # points of a curve over many micro-batches
GROUP_K = 10  # a thousand groups have a hundred events each in a pane: of these the best ten


@dataclass(frozen=True)
class Scale:
    """How much of everything.

    Events of the usual stream, its seconds of event time, and files; events for ways that take a thousand times as
    long; numbers of queries and of groups; small micro-batches; of joins, numbers of ids, events in a micro-batch, and
    micro-batches; runs whose phases are looked at; how often to repeat; where Parquet files go (None: a temporary
    folder); events for the largest micro-batches, micro-batches of the smallest; seconds of each look at latency;
    numbers of ids to sum up; numbers of groups in a column.
    """

    events: int = 20_000_000
    span: int = 2_015  # not 2,000, so that micro-batches cut panes
    files: int = 20
    slow: int = 1_000_000
    queries: tuple[int, ...] = (100, 1000)
    groups: tuple[int, ...] = (10, 1000)
    batches: int = 1000
    ids: tuple[int, ...] = (1_000, 100_000)
    joined: int = 1_000_000
    joined_batches: int = 6
    runs: int = 3
    patience: Patience = field(default=Patience(15.0, 1, 6))
    data: Path | None = None
    large: int = 60_000_000
    tiny: int = 60
    seconds: int = 60
    sums: tuple[int, ...] = (1_000, 100_000)
    grouped: tuple[int, ...] = (10, 1000, 100_000)

    @classmethod
    def of(cls, *, full: bool, smoke: bool, data: Path | None) -> Scale:
        """Return the scale that was asked for."""
        if smoke:
            return cls(
                300_000, 403, 4, 4_000, (2, 5), (2, 10), 12, (10, 100), 3_000, 2, 1, Patience(0.0, 0), data,
                large=600_000, tiny=6, seconds=20, sums=(10, 200), grouped=(2, 10),
            )  # fmt: skip
        most = cls(100_000_000, files=100, patience=Patience(60.0, 3, 10), data=data, large=100_000_000)
        return most if full else cls(data=data)


@dataclass(frozen=True)
class Setting:
    """Where the experiments run: a session, and a folder that is removed in the end."""

    scale: Scale
    spark: SparkSession
    folder: Path
    about: Mapping[str, Any]

    def stream(self, scores: str = "uniform", rows: int | None = None, files: int | None = None) -> Stream:
        """Return the usual stream, or its first `rows`."""
        rate = self.scale.events / self.scale.span
        return self._written(scores, rows or self.scale.events, rate, scores, files=files or self.scale.files)

    def sparse(self) -> Stream:
        """Return a hundredth of the events over as long a time: enough to compare answers."""
        rows = self.scale.events // 100
        return self._written("sparse", rows, rows / self.scale.span, files=4)

    def small_batches(self) -> Stream:
        """Return a stream of small files, to be read one by one."""
        batches = self.scale.batches
        made = self._written("small", batches * SMALL_BATCH, SMALL_BATCH / SMALL_SPAN, files=batches)
        return replace(made, per_batch=1)

    def tiny_batches(self, events: int, span: float) -> Stream:
        """Return a stream of the smallest files, to be read one by one."""
        batches = self.scale.tiny
        made = self._written("tiny", batches * events, events / span, files=batches)
        return replace(made, per_batch=1)

    def _written(self, name: str, rows: int, rate: float, scores: str = "uniform", *, files: int) -> Stream:
        folder = (self.scale.data or self.folder) / f"{name}-{rows}-in-{rows / rate:.0f}s-{files}"
        if len(list(folder.glob("*.parquet"))) < files:
            table = events(rows, rate, scores)
            table = table.set_column(0, "time", table["time"].cast(pa.timestamp("us", "UTC")))
            for number, path in enumerate(write_parquet(table, folder, files)):
                os.utime(path, (10**9 + number, 10**9 + number))  # a stream reads its files in this order
        return Stream(self.spark, folder, rows, self.folder)


@contextmanager
def setting(scale: Scale) -> Iterator[Setting]:
    """Give a local session to run in, with two cores and little else changed."""
    from pyspark.sql import SparkSession

    from tests.spark.kafka import connector_jars

    check_java()
    if SparkSession.getActiveSession() is not None:
        msg = "there is a Spark session in this process already; run the benchmark in a process of its own"
        raise BenchmarkError(msg)
    with tempfile.TemporaryDirectory(prefix="skyband-bench-", ignore_cleanup_errors=True) as folder:
        options = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
            "spark.driver.memory": "4g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.jars": ",".join(map(str, connector_jars())),
        }
        spark = SparkSession.builder.master("local[2]").appName("skyband-bench").config(map=options).getOrCreate()
        try:
            java = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.version')").first()[0]
            about = {"events": scale.events, "span": scale.span, "files": scale.files, "slow": scale.slow, "java": java}
            yield Setting(scale, spark, Path(folder), about)
        finally:
            spark.stop()


def memory(setting: Setting) -> Iterator[Row]:
    """Many small micro-batches: the memory of the driver's Python, and the size of the state."""
    stream, folder, batches = setting.small_batches(), tempfile.mkdtemp(dir=setting.folder), setting.scale.batches
    slices = min(SLICES, batches // 3)
    samples: dict[int, list[tuple[float, int | None, int]]] = defaultdict(list)

    def look(_answers: Any, batch: int) -> None:
        before = Control(folder).progress[-1]
        samples[batch * slices // batches].append(
            (before["durationMs"]["total"] / 1_000, machine.resident(), before["stateBytes"])
        )

    spark_baselines.answer(stream, one_query(), look, folder)
    for number, taken in samples.items():
        seconds, *amounts = zip(*taken, strict=True)
        for way, amount in zip(("driver", "state"), amounts, strict=True):
            if None not in amount:
                last = (number + 1) * batches // slices
                row = Timing(seconds).row("memory", "micro-batches", last, way, SMALL_BATCH)
                yield replace(row, amount=max(amount))


def scan(setting: Setting) -> Iterator[Row]:
    """One query: every way against only scanning."""
    sparse, query = setting.sparse(), one_query()
    answering: dict[str, baselines.Way] = {
        "skyband": spark_baselines.skyband_kept,
        "panes by hand": spark_baselines.panes,
        "spark panes, then windows": spark_baselines.kept(spark_baselines.cascade),
        "spark window()": spark_baselines.kept(spark_baselines.window),
    }
    yield from baselines.check("stream", answering, sparse, query, sparse.rows)
    whole, part = setting.stream(), setting.stream(rows=setting.scale.slow, files=4)
    named: dict[str, tuple[baselines.Way, Stream]] = {
        "noop": (spark_baselines.to_nowhere(spark_baselines.scan), whole),
        "skyband": (spark_baselines.skyband, whole),
        "panes by hand": (spark_baselines.panes, whole),
        "spark panes, then windows": (spark_baselines.to_nowhere(spark_baselines.cascade), whole),
        "spark window()": (spark_baselines.to_nowhere(spark_baselines.window), part),
    }
    yield from _compare("scan", "scores", "uniform", named, setting)


def scores(setting: Setting) -> Iterator[Row]:
    """Scores of different kinds, each against only scanning it."""
    for kind in SCORES:
        stream = setting.stream(kind)
        named: dict[str, tuple[baselines.Way, Stream]] = {
            "noop": (spark_baselines.to_nowhere(spark_baselines.scan), stream),
            "skyband": (spark_baselines.skyband, stream),
        }
        yield from _compare("scores", "scores", kind, named, setting)


def queries(setting: Setting) -> Iterator[Row]:
    """From one query to a thousand, over one stream."""
    lists = {1: one_query()} | {count: many_queries(count, (10, 100)) for count in setting.scale.queries}
    yield from _sweep("queries", "queries", lists, "one query", setting)


def partitions(setting: Setting) -> Iterator[Row]:
    """One query, for no groups, ten, and a thousand."""
    (query,) = one_query(k=GROUP_K)
    grouped = {count: [replace(query, partition_by=f"id % {count}")] for count in setting.scale.groups}
    yield from _sweep("partitions", "groups", {"none": [query]} | grouped, "no groups", setting)


def phases(setting: Setting) -> Iterator[Row]:
    """Where the time of a micro-batch goes, for one query and for many."""
    stream, most = setting.stream(), setting.scale.queries[-1]
    rows = setting.scale.events * stream.per_batch // setting.scale.files
    noop = spark_baselines.to_nowhere(spark_baselines.scan)(stream, one_query())
    for count, group in ((1, one_query()), (most, many_queries(most, (10, 100)))):
        spent: dict[str, list[float]] = defaultdict(list)
        for turn in range(setting.scale.runs + 1):
            handle: Handle = spark_baselines.skyband(stream, group)()
            for entry in handle.recentProgress[UNSETTLED:] if turn else ():
                ours = entry["skyband"]["durationMs"]
                for phase, milliseconds in (ours | {"own": ours["total"] - ours["scan"]}).items():
                    spent[f"skyband: {phase}"].append(milliseconds / 1000)
                for phase, milliseconds in entry["durationMs"].items():
                    spent[f"spark: {phase}"].append(milliseconds / 1000)
            for progress in noop().recentProgress[UNSETTLED:] if turn else ():
                milliseconds = json.loads(progress.json)["durationMs"]["triggerExecution"]
                spent["noop: triggerExecution"].append(milliseconds / 1000)
        for phase, found in spent.items():
            yield Timing(found).row("phases", "queries", count, phase, rows)


def re_reads(setting: Setting) -> Iterator[Row]:
    """How often a guessed threshold was too high, so that a pane had to be read again."""
    for kind in ("uniform", "trending", "falling"):
        stream = setting.stream(kind)
        timing = side_by_side({kind: spark_baselines.skyband(stream, one_query())}, Patience(0.0, 0))[kind]
        progress = timing.result.progress[UNSETTLED:]
        guessed, again = (sum(entry[name] for entry in progress) for name in ("guessedThresholds", "rereads"))
        for way, found in (("guessed", guessed), ("read again", again)):
            row = timing.row("re-reads", "scores", kind, way, stream.rows, amount=found)
            yield row if way == "guessed" else replace(row, ratio=again / max(guessed, 1), baseline="guessed")


def topk(setting: Setting) -> Iterator[Row]:
    """One query over a batch of all events, and many that rank alike, against only reading them."""
    sparse, query, count = setting.sparse(), one_query(), setting.scale.queries[0]
    plans = {"skyband topk": spark_baselines.topk, "spark row_number": spark_baselines.row_number}
    kept = {name: spark_baselines.batch_kept(plan) for name, plan in plans.items()}
    yield from baselines.check("batch", kept, sparse, query, sparse.rows)
    several = many_queries(count, (10, 100))
    together = {"skyband topk": spark_baselines.topk_kept, "skyband run": spark_baselines.core_kept}
    yield from baselines.check("batch of many queries", together, sparse, several, sparse.rows)
    whole, part = setting.stream(), setting.stream(rows=setting.scale.slow, files=4)
    named: dict[str, tuple[baselines.Way, Stream]] = {
        "noop": (spark_baselines.batch_to_nowhere(spark_baselines.scan), whole),
        "skyband topk": (spark_baselines.batch_to_nowhere(spark_baselines.topk), whole),
        f"skyband topk, {count:,} queries": (spark_baselines.topk_of(several), whole),
        "spark row_number": (spark_baselines.batch_to_nowhere(spark_baselines.row_number), part),
    }
    yield from _compare("topk", "scores", "uniform", named, setting)


EXPERIMENTS: dict[str, Callable[[Setting], Iterator[Row]]] = {
    "memory": memory,  # first: what the others leave behind in memory would hide a growth
    "scan": scan,
    "micro-batches": micro_batches.sizes,
    "latency": latency.latency,
    "scores": scores,
    "queries": queries,
    "partitions": partitions,
    "groups": groups.groups,
    "phases": phases,
    "re-reads": re_reads,
    "topk": topk,
    "joins": joins,
    "aggregates": aggregates,
}


def _compare(
    experiment: str, parameter: str, value: str, named: Mapping[str, tuple[baselines.Way, Stream]], setting: Setting
) -> Iterator[Row]:
    """Time one query in several ways, over streams that may differ in size: ratios are of the time per event."""
    jobs = {name: way(stream, one_query()) for name, (way, stream) in named.items()}
    made = [
        spark_baselines.row(timing, experiment, parameter, value, name, named[name][1].rows)
        for name, timing in side_by_side(jobs, setting.scale.patience).items()
    ]
    ours = next(row for row in made if row.way.startswith("skyband"))
    for row in made:
        yield replace(row, ratio=ours.events_per_s / row.events_per_s, baseline=ours.way)


def _sweep(
    experiment: str, parameter: str, groups: Mapping[Any, list[Query]], baseline: str, setting: Setting
) -> Iterator[Row]:
    """Time several lists of queries over the usual stream, against the first of them."""
    stream = setting.stream()
    jobs = {str(value): spark_baselines.skyband(stream, group) for value, group in groups.items()}
    timings = side_by_side(jobs, setting.scale.patience)
    first = next(iter(timings.values()))
    for value, timing in timings.items():
        row = spark_baselines.row(timing, experiment, parameter, value, "skyband", stream.rows)
        yield replace(row, ratio=timing.best / first.best, baseline=baseline)
