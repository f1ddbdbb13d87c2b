"""The best of each of many groups on Spark: ours beside panes that are written by hand, and beside no groups at all.

By hand: `groupBy(pane, group).agg(max_by(struct, score, k))` for a micro-batch, and on the driver one array of
scores a pane, with a row for each group, from which windows are merged without a loop over groups.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks import baselines
from benchmarks.baselines import window_numbers
from benchmarks.measure import Job, Row, Timing, side_by_side
from benchmarks.spark import spark_baselines
from benchmarks.spark.spark_baselines import DELAY, Stream, Tables
from benchmarks.workloads import SECOND, SEED, events, write_parquet
from skyband.order import FloatArray, IntArray
from skyband.queries.query import Query
from skyband.spark import Handle
from skyband.windows import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from benchmarks.spark import Setting

MANY = 50_000
"""From so many groups on there are three places in each, and a window every minute."""


@dataclass(frozen=True)
class GroupedStream(Stream):
    """Events with a group each, drawn at random."""

    def read(self) -> DataFrame:
        """Return the events as a streaming DataFrame."""
        reader = self.spark.readStream.schema("time timestamp, id bigint, score double, group bigint")
        return reader.option("maxFilesPerTrigger", self.per_batch).parquet(str(self.folder))


def stream_of(setting: Setting, rows: int, groups: int, files: int) -> GroupedStream:
    """Return events of so many groups, over as long a time as the usual stream."""
    folder = (setting.scale.data or setting.folder) / f"groups-{groups}-{rows}-{files}"
    if len(list(folder.glob("*.parquet"))) < files:
        table = events(rows, rows / setting.scale.span)
        table = table.set_column(0, "time", table["time"].cast(pa.timestamp("us", "UTC")))
        table = table.append_column("group", pa.array(np.random.default_rng(SEED).integers(0, groups, rows)))
        for number, path in enumerate(write_parquet(table, folder, files)):
            os.utime(path, (10**9 + number, 10**9 + number))  # a stream reads its files in this order
    return GroupedStream(setting.spark, folder, rows, setting.folder)


def query_of(groups: int) -> Query:
    """Return what is asked of so many groups."""
    k, slide = (3, 60) if groups >= MANY else (10, 10)
    return Query("one", k=k, score="score", window=Window(600 * SECOND, slide=slide * SECOND), partition_by="group")


def panes(stream: Stream, queries: Sequence[Query]) -> Job:
    """Let Spark find the best of each pane and group of a micro-batch, and merge them on the driver, in NumPy."""
    (query,) = queries

    def job() -> Tables:
        merge = _Merge(query)
        stream.drain(stream.read().writeStream.foreachBatch(merge))
        return {query.name: merge.table()}

    return job


@dataclass
class _Merge:
    """The best k of each pane and group so far, as arrays of groups times k; windows close with the watermark."""

    query: Query
    tops: dict[int, tuple[FloatArray, IntArray]] = field(default_factory=dict)
    following: int | None = None  # the number of the first window without an answer
    answers: list[tuple[int, FloatArray, IntArray]] = field(default_factory=list)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:  # noqa: ARG002 - as foreachBatch calls it
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        micros, k = F.unix_micros("time"), self.query.most_rows
        pane = F.floor(micros / F.lit(self.query.window.slide)).alias("pane")
        best = F.max_by(F.struct("score", "id"), "score", k).alias("best")
        found = batch.groupBy(pane, "group").agg(best, F.max(micros).alias("newest")).toArrow().combine_chunks()
        lists = found["best"].chunk(0)
        score, ids = (lists.flatten().field(name).to_numpy() for name in ("score", "id"))
        sizes = lists.value_lengths().to_numpy()
        row, place = (
            np.repeat(np.arange(len(sizes)), sizes),
            np.arange(len(score)) - np.repeat(np.cumsum(sizes) - sizes, sizes),
        )
        numbers, group = found["pane"].to_numpy()[row], found["group"].to_numpy()[row]
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            top = self._empty(int(group.max()) + 1)
            top[0][group[mine], place[mine]], top[1][group[mine], place[mine]] = score[mine], ids[mine]
            self.tops[number] = self._best([self.tops[number], top]) if number in self.tops else top
        self._answer(int(np.max(found["newest"].to_numpy())) - DELAY)

    def _empty(self, groups: int) -> tuple[FloatArray, IntArray]:
        shape = (groups, self.query.most_rows)
        return np.full(shape, -np.inf), np.zeros(shape, np.int64)

    def _best(self, parts: Sequence[tuple[FloatArray, IntArray]]) -> tuple[FloatArray, IntArray]:
        """Return the best k of each group, best first."""
        groups, k = max(len(score) for score, _ in parts), self.query.most_rows
        padded = [[np.pad(column, ((0, groups - len(column)), (0, 0)), constant_values=value)
                   for column, value in zip(part, (-np.inf, 0), strict=True)] for part in parts]  # fmt: skip
        score, ids = (np.hstack(column) for column in zip(*padded, strict=True))
        best = np.argpartition(score, score.shape[1] - k, axis=1)[:, -k:]
        order = np.take_along_axis(best, np.argsort(-np.take_along_axis(score, best, 1), axis=1), 1)
        return np.take_along_axis(score, order, 1), np.take_along_axis(ids, order, 1)

    def _answer(self, watermark: int) -> None:
        size, slide = self.query.window.size, self.query.window.slide
        if self.following is None:
            first = min(self.tops) * slide
            self.following = int(window_numbers(self.query, first, first)[0])
        while self.following * slide + size <= watermark:
            numbers = range(self.following, self.following + size // slide)
            inside = [self.tops[number] for number in numbers if number in self.tops]
            if inside:
                self.answers.append((self.following, *self._best(inside)))
            self.tops.pop(self.following, None)
            self.following += 1

    def table(self) -> pa.Table:
        parts = [(number, score[kept], ids[kept]) for number, score, ids in self.answers for kept in [score > -np.inf]]
        window = np.repeat([number for number, _, _ in parts], [len(ids) for _, _, ids in parts])
        score, ids = (np.concatenate([part[place] for part in parts]) for place in (1, 2))
        return pa.table({"window": window, "id": ids, "score": score})


def groups(setting: Setting) -> Iterator[Row]:
    """Ten groups, a thousand, and a hundred thousand: what it takes, what came back, and what was read again."""
    scale = setting.scale
    for count in scale.grouped:
        query = query_of(count)
        some = stream_of(setting, min(scale.slow, scale.events // 10), count, 4)
        ways: dict[str, Any] = {"skyband": spark_baselines.skyband_kept, "panes by hand": panes}
        yield from baselines.check(f"{count} groups", ways, some, [query], some.rows)
        stream = stream_of(setting, scale.events, count, scale.files)
        jobs: dict[str, Callable[[], Any]] = {
            "skyband": spark_baselines.skyband(stream, [query]),
            "panes by hand": panes(stream, [query]),
            "no groups": spark_baselines.skyband(stream, [replace(query, partition_by=None)]),
            "noop": spark_baselines.to_nowhere(spark_baselines.scan)(stream, [query]),
        }
        if count >= MANY:
            jobs["skyband, changes"] = spark_baselines.skyband(stream, [replace(query, emit="changes")])
        timings = side_by_side(jobs, scale.patience)
        yield from _rows(timings, count, stream.rows)


def _rows(timings: dict[str, Timing], count: int, rows: int) -> Iterator[Row]:
    ours = timings["skyband"]
    for way, timing in timings.items():
        row = baselines.row(timing, "groups", "groups", count, way, rows)
        if isinstance(timing.result, Handle):
            entries = timing.result.progress
            answers, answer_rows = (sum(entry[name] for entry in entries) for name in ("answers", "answerRows"))
            row = replace(row, answers=answers, answer_rows=answer_rows)
        yield replace(row, ratio=timing.best / ours.best, baseline="skyband")
    progress = ours.result.progress
    for way, name in (("rows that came back", "candidateRows"), ("intervals read again", "rereads")):
        yield ours.row("groups", "groups", count, way, rows, amount=sum(entry[name] for entry in progress))
