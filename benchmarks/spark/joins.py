"""Joins on Spark: a stream joined with a service, and the same written by hand in `foreachBatch`."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import baselines, joined
from benchmarks.measure import Job, Row, Timing, side_by_side
from benchmarks.spark import spark_baselines
from benchmarks.spark.spark_baselines import DELAY, NOW, Stream
from skyband.queries.query import Query
from skyband.spark import Handle, start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from benchmarks.spark import Setting


def joins(setting: Setting) -> Iterator[Row]:
    """One joined query, for few ids and for many, beside the same by hand; and the phases of a warm micro-batch."""
    queries = [joined.query()]
    for ids in setting.scale.ids:
        service = joined.Service(ids)
        stream = _written(setting, ids)
        ways: dict[str, _Way] = {"skyband": _Ours(service), "by hand": _ByHand(service)}
        yield from baselines.check(f"join, {ids:,} ids", ways, stream, queries, stream.rows)
        jobs = {name: way(stream, queries) for name, way in ways.items()}
        timings = side_by_side(jobs, setting.scale.patience)
        for name, timing in timings.items():
            row = timing.row("joins", "ids", ids, name, stream.rows)
            (found,) = timing.result.values()
            windows = len(found["window"].unique())
            row = replace(row, answers=windows, answer_rows=found.num_rows)
            yield replace(row, ratio=timing.best / timings["by hand"].best, baseline="by hand")
        for name, way in ways.items():
            yield from way.phases(ids, name, stream.rows // setting.scale.joined_batches)


def _written(setting: Setting, ids: int) -> Stream:
    """Return a stream of one file for each micro-batch."""
    rows, batches = setting.scale.joined, setting.scale.joined_batches
    folder = (setting.scale.data or setting.folder) / f"joined-{rows}-of-{ids}-{batches}"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(batches):
        path = folder / f"{number:03}.parquet"
        if not path.exists():
            table = joined.events(rows, ids, number)
            table = table.set_column(0, "time", table["time"].cast(pa.timestamp("us", "UTC")))
            pq.write_table(table, path, row_group_size=max(rows // 4, 1))
            os.utime(path, (10**9 + number, 10**9 + number))
    return Stream(setting.spark, folder, rows * batches, setting.folder, per_batch=1)


class _Way(ABC):
    """A way to answer; it notes how long the phases of warm micro-batches take."""

    def __init__(self, service: joined.Service) -> None:
        self.service = service
        self.spent: dict[str, list[float]] = defaultdict(list)

    @abstractmethod
    def __call__(self, stream: Stream, queries: Sequence[Query]) -> Job:
        """Return a job that answers."""

    def phases(self, ids: int, name: str, rows: int) -> Iterator[Row]:
        """Return a row for each phase."""
        for phase, seconds in self.spent.items():
            yield Timing(seconds).row("joins", "ids", ids, f"{name}: {phase}", rows)


class _Ours(_Way):
    def __call__(self, stream: Stream, queries: Sequence[Query]) -> Job:
        def job() -> spark_baselines.Tables:
            kept = spark_baselines.Kept()
            handle: Handle = start(
                stream.read(), queries, time="time", id="id", watermark=DELAY, sink=kept,
                checkpoint=stream.checkpoint(), trigger=NOW, max_ahead=None,
                services={joined.SERVICE: self.service.remote()},
            )  # fmt: skip
            handle.awaitTermination()
            for entry in handle.recentProgress[1:]:
                self.spent["micro-batch"].append(entry["durationMs"]["triggerExecution"] / 1000)
                for phase, milliseconds in entry["skyband"]["durationMs"].items():
                    self.spent[phase].append(milliseconds / 1000)
            return {query.name: spark_baselines.numbered(kept.of(query), query) for query in queries}

        return job


class _ByHand(_Way):
    def __call__(self, stream: Stream, queries: Sequence[Query]) -> Job:
        (query,) = queries

        def job() -> spark_baselines.Tables:
            merge = joined.ByHand(query, self.service)

            def take(batch: DataFrame, _: int) -> None:
                from pyspark.sql import functions as F  # noqa: N812 - as everywhere

                time = F.unix_micros("time")
                pane = F.floor(time / F.lit(query.window.slide)).alias("pane")
                latest = F.max(time).alias("time"), F.max_by("score", time).alias("score")
                found = batch.groupBy(pane, "id").agg(*latest).toArrow()
                columns = [found[name].to_numpy() for name in ("pane", "id", "time", "score")]
                merge.take(*columns)
                merge.answer(int(columns[2].max()) - DELAY)

            done = stream.drain(stream.read().writeStream.foreachBatch(take))
            for entry in done.recentProgress[1:]:
                milliseconds = json.loads(entry.json)["durationMs"]["triggerExecution"]
                self.spent["micro-batch"].append(milliseconds / 1000)
            return {query.name: merge.table()}

        return job
