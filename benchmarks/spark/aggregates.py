"""The experiment `aggregates`: the best ids by the sum of their scores, against sums per pane and id by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks import BenchmarkError
from benchmarks.measure import Job, Row, side_by_side
from benchmarks.spark import spark_baselines
from benchmarks.spark.spark_baselines import DELAY, NOW, Stream
from benchmarks.workloads import one_query
from skyband.queries.query import Query
from skyband.spark import Handle, start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from benchmarks.spark import Setting

K = 10


def read(stream: Stream, ids: int) -> DataFrame:
    """Return the events, of so many ids in no order."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    return stream.read().withColumn("id", F.expr(f"pmod(id * 2654435761L, 4294967296L) % {ids}L"))


def skyband(stream: Stream, query: Query, ids: int, sink: Callable[[Any, int], object]) -> Handle:
    """Answer with `skyband.spark.start`."""
    handle = start(
        read(stream, ids), [query], time="time", id="id", watermark=DELAY, sink=sink,
        checkpoint=stream.checkpoint(), trigger=NOW, max_ahead=None,
    )  # fmt: skip
    handle.awaitTermination()
    return handle


def by_hand(stream: Stream, query: Query, ids: int, take: Callable[[pa.Table], object]) -> None:
    """Sum up each pane and id of a micro-batch, and collect that; nothing makes windows or answers of it."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    slide = query.window.slide

    def each(batch: DataFrame, _: int) -> None:
        pane = F.expr(f"unix_micros(time) div {slide}L").alias("pane")
        take(batch.groupBy(pane, "id").agg(F.sum("score").alias("sum"), F.max("time").alias("latest")).toArrow())

    stream.drain(read(stream, ids).writeStream.foreachBatch(each))


def check(stream: Stream, query: Query, ids: int) -> None:
    """Refuse to go on where our answers are not what the sums by hand say."""
    ours: list[pa.Table] = []
    skyband(stream, query, ids, lambda answers, _: ours.append(answers.toArrow()))
    hand: list[pa.Table] = []
    by_hand(stream, query, ids, hand.append)
    sums = pa.concat_tables(hand)
    pane, one, value = (sums[name].to_numpy() for name in ("pane", "id", "sum"))
    found = pa.concat_tables(ours)
    ends = found["window_end"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    for end in np.unique(ends).tolist():
        inside = (pane * query.window.slide >= end - query.window.size) & (pane * query.window.slide < end)
        total = np.bincount(one[inside], value[inside], minlength=ids)
        best = np.sort(total[np.unique(one[inside])])[::-1][: query.k]
        scores = found.filter(pa.array(ends == end)).sort_by("rank")["score"].to_numpy()
        if len(scores) != len(best) or not np.allclose(scores, best, rtol=1e-9, atol=0):
            msg = f"sums of {ids:,} ids: the answer at {end} and the sums by hand differ; correct the one that is wrong"
            raise BenchmarkError(msg)


def aggregates(setting: Setting) -> Iterator[Row]:
    """The best 10 ids by the sum of their scores, answers included, against only the sums of panes by hand."""
    query = replace(one_query(k=K)[0], score="sum(score)")
    for ids in setting.scale.sums:
        check(setting.sparse(), query, ids)
    stream = setting.stream()
    for ids in setting.scale.sums:
        named: dict[str, Job] = {
            "noop": spark_baselines.to_nowhere(spark_baselines.scan)(stream, [query]),
            "skyband": _ours(stream, query, ids),
            "sums by hand": _hand(stream, query, ids),
        }
        timings = side_by_side(named, setting.scale.patience)
        for name, timing in timings.items():
            row = spark_baselines.row(timing, "aggregates", "ids", ids, name, stream.rows)
            yield replace(row, ratio=timings["sums by hand"].best / timing.best, baseline="sums by hand")


def _ours(stream: Stream, query: Query, ids: int) -> Job:
    batches: list[int] = []
    return lambda: skyband(stream, query, ids, lambda _, batch: batches.append(batch))


def _hand(stream: Stream, query: Query, ids: int) -> Job:
    rows: list[int] = []
    return lambda: by_hand(stream, query, ids, lambda sums: rows.append(sums.num_rows))
