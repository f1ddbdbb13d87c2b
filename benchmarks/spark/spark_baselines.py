"""Ways to answer a top-k query on Spark: ours, Spark's own, and what one writes by hand.

A way takes a stream of Parquet files and queries, and returns a job that reads all of it once, with a checkpoint of
its own. Spark's own ways are *plans*: from events and a query to rows of `start` (of the window), `id` and `score`.
A plan's rows go nowhere when it is timed, and are kept when answers are compared. As for the other peers, no rule for
ties is asked for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks import baselines
from benchmarks.baselines import Way, window_numbers
from benchmarks.measure import Job, Row, Timing
from benchmarks.workloads import SECOND
from skyband.engine.run import run
from skyband.order import FloatArray, IntArray
from skyband.queries.query import Query
from skyband.spark import Handle, start
from skyband.spark import topk as skyband_topk

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

DELAY = 10 * SECOND
NOW = {"availableNow": True}
Plan = Callable[["DataFrame", Query], "DataFrame"]
Tables = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Stream:
    """Events in Parquet files, to be read as a stream: so many files with each micro-batch.

    Parameters
    ----------
    spark
        The session that reads them.
    folder
        Where the files are.
    rows
        How many events they hold.
    checkpoints
        Where every run gets a checkpoint folder of its own.
    per_batch
        How many files are read at a time.
    """

    spark: SparkSession
    folder: Path
    rows: int
    checkpoints: Path
    per_batch: int = 2

    def read(self) -> DataFrame:
        """Return the events as a streaming DataFrame."""
        reader = self.spark.readStream.schema("time timestamp, id bigint, score double")
        return reader.option("maxFilesPerTrigger", self.per_batch).parquet(str(self.folder))

    def whole(self) -> DataFrame:
        """Return the events as a batch DataFrame."""
        return self.spark.read.parquet(str(self.folder))

    def checkpoint(self) -> str:
        """Return a fresh folder."""
        return tempfile.mkdtemp(dir=self.checkpoints)

    def drain(self, writer: DataStreamWriter) -> StreamingQuery:
        """Read everything that is there, and stop."""
        query = writer.option("checkpointLocation", self.checkpoint()).trigger(**NOW).start()
        query.awaitTermination()
        return query


# Ours.


def skyband(stream: Stream, queries: Sequence[Query]) -> Job:
    """Answer with `skyband.spark.start`; the answers of each micro-batch go to a function, as a DataFrame.

    The function only notes that they came: what it would do with them is not ours to measure.
    """
    batches: list[int] = []
    return lambda: answer(stream, queries, lambda _answers, batch: batches.append(batch))


def skyband_kept(stream: Stream, queries: Sequence[Query]) -> Job:
    """Do the same, and return the answers."""

    def job() -> Tables:
        kept = Kept()
        answer(stream, queries, kept)
        return {query.name: numbered(kept.of(query), query) for query in queries}

    return job


def answer(stream: Stream, queries: Sequence[Query], sink: object, checkpoint: str | None = None) -> Handle:
    """Answer queries over all that is there, and stop."""
    handle = start(
        stream.read(), queries, time="time", id="id", watermark=DELAY, sink=sink,
        checkpoint=checkpoint or stream.checkpoint(), trigger=NOW,
    )  # fmt: skip
    handle.awaitTermination()
    return handle


@dataclass
class Kept:
    """A sink that keeps the answers of all batches."""

    tables: dict[int, pa.Table] = field(default_factory=dict)

    def write(self, answers: pa.Table, batch_id: int, session: SparkSession) -> None:  # noqa: ARG002 - as sinks do
        self.tables[batch_id] = answers.select(["query", "window_start", "id", "score"])

    def of(self, query: Query) -> pa.Table:
        table = pa.concat_tables(self.tables.values())
        mine = table.filter(np.asarray(table["query"]) == query.name)
        return mine.select(["window_start", "id", "score"]).rename_columns(["start", "id", "score"])


# Plans, and where their rows go.


def to_nowhere(plan: Plan) -> Way:
    """Run a plan over the stream, into Spark's `noop` sink."""

    def way(stream: Stream, queries: Sequence[Query]) -> Job:
        (query,) = queries
        return lambda: stream.drain(plan(stream.read(), query).writeStream.format("noop"))

    return way


def kept(plan: Plan) -> Way:
    """Run a plan over the stream, and return its rows."""

    def way(stream: Stream, queries: Sequence[Query]) -> Job:
        (query,) = queries

        def job() -> Tables:
            parts: list[pa.Table] = []
            rows = plan(stream.read(), query)
            stream.drain(rows.writeStream.foreachBatch(lambda batch, _: parts.append(batch.toArrow())))
            return {query.name: numbered(pa.concat_tables(parts), query)}

        return job

    return way


def batch_to_nowhere(plan: Plan) -> Way:
    """Run a plan over all events as one batch, into Spark's `noop` sink."""

    def way(stream: Stream, queries: Sequence[Query]) -> Job:
        (query,) = queries
        return lambda: plan(stream.whole(), query).write.format("noop").mode("overwrite").save()

    return way


def batch_kept(plan: Plan) -> Way:
    """Run a plan over all events as one batch, and return its rows."""

    def way(stream: Stream, queries: Sequence[Query]) -> Job:
        (query,) = queries
        return lambda: {query.name: numbered(plan(stream.whole(), query).toArrow(), query)}

    return way


def numbered(rows: pa.Table, query: Query) -> pa.Table:
    """Return rows with the number of their window in place of its start."""
    start = rows["start"].combine_chunks().cast(pa.int64()).to_numpy()
    return pa.table({"window": start // query.window.slide, "id": rows["id"], "score": rows["score"]})


def scan(events: DataFrame, query: Query) -> DataFrame:  # noqa: ARG001 - it only reads
    """Return the events as they are."""
    return events


def window(events: DataFrame, query: Query, delay: int = DELAY) -> DataFrame:
    """Use Spark's own sliding `window()`, with the best of each kept by `max_by(…, k)`."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    late = events.withWatermark("time", _seconds(delay))
    sliding = F.window("time", _seconds(query.window.size), _seconds(query.window.slide))
    best = late.groupBy(sliding.alias("window")).agg(_best(F.struct("score", "id"), "score", query.most_rows))
    return best.select("window.start", F.inline("best"))


def cascade(events: DataFrame, query: Query) -> DataFrame:
    """Aggregate panes first, then sliding windows over the best of the panes: all state is kept by Spark."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    late = events.withWatermark("time", _seconds(DELAY))
    pane = F.window("time", _seconds(_grain(query)))
    panes = late.groupBy(pane.alias("pane")).agg(_best(F.struct("score", "id"), "score", query.most_rows))
    sliding = F.window(F.window_time("pane"), _seconds(query.window.size), _seconds(query.window.slide))
    copies = panes.select(sliding.alias("window"), F.explode("best").alias("one"))
    best = copies.groupBy("window").agg(_best(F.col("one"), "one.score", query.most_rows))
    return best.select("window.start", F.inline("best"))


def topk(events: DataFrame, query: Query) -> DataFrame:
    """Answer a batch with `skyband.spark.topk`."""
    answers = skyband_topk(events, query, time="time", id="id")
    return answers.withColumnRenamed("window_start", "start").select("start", "id", "score")


def topk_of(queries: Sequence[Query]) -> Way:
    """Answer a batch with `skyband.spark.topk`: these queries, whatever others are asked for."""

    def way(stream: Stream, _queries: Sequence[Query]) -> Job:
        return lambda: (
            skyband_topk(stream.whole(), queries, time="time", id="id").write.format("noop").mode("overwrite").save()
        )

    return way


def topk_kept(stream: Stream, queries: Sequence[Query]) -> Job:
    """Answer a batch with `skyband.spark.topk`, and return the rows of each query."""

    def job() -> Tables:
        found = skyband_topk(stream.whole(), queries, time="time", id="id").toArrow()
        found = found.rename_columns(["start" if name == "window_start" else name for name in found.column_names])
        name = np.asarray(found["query"])
        return {query.name: numbered(found.filter(name == query.name), query) for query in queries}

    return job


def core_kept(stream: Stream, queries: Sequence[Query]) -> Job:
    """Answer with `skyband.run` over the same rows."""
    return lambda: list(run(queries, stream.whole().toArrow(), time="time", id="id").parts())


def row_number(events: DataFrame, query: Query) -> DataFrame:
    """Copy each event into all its windows, number the rows of each window by score, keep the first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    sliding = F.window("time", _seconds(query.window.size), _seconds(query.window.slide))
    copies = events.withColumn("window", sliding)
    place = F.row_number().over(Window.partitionBy("window").orderBy(F.desc("score")))
    return (
        copies.withColumn("place", place).where(F.col("place") <= query.most_rows).select("window.start", "id", "score")
    )


def _best(row: Column, score: str, k: int) -> Column:
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    return F.max_by(row, score, k).alias("best")


def _seconds(microseconds: int) -> str:
    return f"{microseconds // SECOND} seconds"


def _grain(query: Query) -> int:
    """Return the longest pane that no window cuts."""
    return gcd(query.window.size, query.window.slide)


# By hand.


def panes(stream: Stream, queries: Sequence[Query]) -> Job:
    """Let Spark find the best of each pane of a micro-batch, and merge them on the driver, in NumPy."""
    (query,) = queries

    def job() -> Tables:
        merge = _Merge(query)
        stream.drain(stream.read().writeStream.foreachBatch(merge))
        return {query.name: merge.table()}

    return job


@dataclass
class _Merge:
    """The best k of each pane so far; windows are answered when the watermark passes their ends."""

    query: Query
    tops: dict[int, tuple[FloatArray, IntArray]] = field(default_factory=dict)
    following: int | None = None  # the number of the first window without an answer
    answers: list[tuple[int, FloatArray, IntArray]] = field(default_factory=list)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:  # noqa: ARG002 - as foreachBatch calls it
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        micros, k = F.unix_micros("time"), self.query.most_rows
        pane = F.floor(micros / F.lit(_grain(self.query))).alias("pane")
        best = _best(F.struct("score", "id"), "score", k)
        found = batch.groupBy(pane).agg(best, F.max(micros).alias("newest")).toArrow().combine_chunks()
        lists = found["best"].chunk(0)
        score, ids = (lists.flatten().field(name).to_numpy() for name in ("score", "id"))
        ends = np.cumsum(lists.value_lengths().to_numpy())
        for number, low, high in zip(found["pane"].to_pylist(), [0, *ends[:-1]], ends, strict=True):
            before = self.tops.get(number, (score[:0], ids[:0]))
            parts = [before, (score[low:high], ids[low:high])]
            self.tops[number] = _top(parts, k)
        self._answer(int(np.max(found["newest"].to_numpy())) - DELAY)

    def _answer(self, watermark: int) -> None:
        size, slide, grain = self.query.window.size, self.query.window.slide, _grain(self.query)
        if self.following is None:
            first = min(self.tops) * grain
            self.following = int(window_numbers(self.query, first, first)[0])
        while self.following * slide + size <= watermark:
            low = self.following * slide // grain
            inside = [self.tops[number] for number in range(low, low + size // grain) if number in self.tops]
            self.answers.append((self.following, *_top(inside, self.query.most_rows)))
            for number in range(low, low + slide // grain):
                self.tops.pop(number, None)
            self.following += 1

    def table(self) -> pa.Table:
        numbers, score, ids = zip(*self.answers, strict=True)
        window = np.repeat(numbers, [len(part) for part in ids])
        return pa.table({"window": window, "id": np.concatenate(ids), "score": np.concatenate(score)})


def _top(parts: Sequence[tuple[FloatArray, IntArray]], k: int) -> tuple[FloatArray, IntArray]:
    """Return the best k of several lists, best first."""
    score, ids = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows: Any = np.argpartition(score, len(score) - k)[len(score) - k :] if k < len(score) else np.arange(len(score))
    rows = rows[np.argsort(score[rows])[::-1]]
    return score[rows], ids[rows]


def row(timing: Timing, experiment: str, parameter: str, value: object, way: str, rows: int) -> Row:
    """Return the row of a timing, with the number of answers where it is ours."""
    made = baselines.row(timing, experiment, parameter, value, way, rows)
    if not isinstance(timing.result, Handle):
        return made
    progress = timing.result.progress
    answers, answer_rows = (sum(entry[name] for entry in progress) for name in ("answers", "answerRows"))
    return replace(made, answers=answers, answer_rows=answer_rows, kept=max(entry["kept"] for entry in progress))
