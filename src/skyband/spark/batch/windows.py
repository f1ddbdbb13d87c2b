"""Which windows the rows of a batch DataFrame lie in, by their event time: the column `time`, in microseconds.

Windows of all time hold all panes before their end: there the candidates of the panes are merged one after another
(`so_far`), in one task for each partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.calendars import Calendar
from skyband.order import IntArray
from skyband.queries.query import Query
from skyband.spark import columns
from skyband.times import microseconds_of
from skyband.windows import Schedule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

YEARS = 1900, 2100
"""From when to when the calendars of a batch reach: its times are not known before it is read."""


def ends_of(windows: Schedule) -> tuple[Column, Column]:
    """Return the ends of the first and of the last window that hold a row."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    time, slide, period = F.col("time"), *(F.lit(n).cast("bigint") for n in (windows.slide, windows.period))
    first = time + slide - F.pmod(time - (windows.phase + windows.size), slide)
    return first, time + windows.size - F.pmod(time - windows.phase, period)


def up_to_the_last(panes: DataFrame, windows: Schedule) -> DataFrame:
    """Return panes whose `last` window of all time is the first one after all events; others as they are."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    if not windows.endless:
        return panes
    return panes.drop("last").crossJoin(F.broadcast(panes.agg(F.max("first").alias("last"))))


def start_of(query: Query, windows: Schedule) -> Column:
    """Return the start of a window, from its `end`; NULL for windows of all time."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    if windows.endless:
        return F.lit(None).cast("bigint")
    if query.window.periods is not None:
        return F.col("start")
    since = F.col("end") - windows.size
    return since + F.pmod(windows.phase - since, F.lit(windows.period).cast("bigint"))


def in_periods(events: DataFrame, periods: Calendar) -> DataFrame:
    """Return the events with `start` and `end` of their period: from a table that is joined, bucket by bucket."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    low, high = (periods.about(microseconds_of(datetime(year, 1, 1))) for year in YEARS)
    origin, width, edge, before, after = periods.buckets(low, high)
    starts = periods.starts(low, high + 2)
    bounds = {"start": starts[before - low], "edge": edge, "end": starts[after - low + 1]}
    table = pa.table({"bucket": pa.array(range(len(edge)), pa.int64()), **bounds})
    known = F.broadcast(events.sparkSession.createDataFrame(table))
    since = F.col("time") - origin
    bucket = F.floor((since - F.pmod(since, F.lit(width).cast("bigint"))) / width).cast("bigint")
    beyond = f"an event time is not from {YEARS[0]} to {YEARS[1]}, the years of the calendar; filter such rows out"
    later = F.col("time") >= F.col("edge")
    return (
        events.withColumn("bucket", bucket)
        .join(known, "bucket", "left")
        .withColumn("edge", F.coalesce("edge", F.raise_error(F.lit(beyond)).cast("bigint")))
        .withColumns({"start": F.when(later, F.col("edge")).otherwise(F.col("start")),
                      "end": F.when(later, F.col("end")).otherwise(F.col("edge"))})
        .drop("bucket", "edge")
    )  # fmt: skip


def so_far(placed: DataFrame, parts: Sequence[str], k: int, windows: Schedule, *, distinct: bool) -> DataFrame:
    """Return the answers of windows of all time, of candidates that have a `place`, in panes with an `end`."""
    slide = windows.slide

    def running(panes: pa.Table) -> pa.Table:
        return _running(panes.cast(columns.in_utc(panes.schema)), k, slide, distinct)  # as Spark wants moments back

    return placed.groupBy(*parts).applyInArrow(running, placed.schema)


def _running(panes: pa.Table, k: int, slide: int, distinct: bool) -> pa.Table:
    """Return, for each window end, the best `k` of all panes up to there, each id once where ids are `distinct`."""
    panes = panes.sort_by([("end", "ascending"), ("place", "ascending")])
    end, place = (panes[name].to_numpy() for name in ("end", "place"))
    code = panes["id"].combine_chunks().dictionary_encode().indices.to_numpy() if distinct else np.arange(len(end))
    begins = np.append(np.flatnonzero(np.diff(end, prepend=end[0] - 1)), len(end))
    until = np.append(end[begins[1:-1]], panes["last"][0].as_py() + slide)  # the answer stays the same up to there
    best = np.empty(0, np.int64)
    found: list[tuple[IntArray, IntArray, IntArray]] = []
    for low, high, behind in zip(begins[:-1], begins[1:], until, strict=True):
        rows = np.append(best, np.arange(low, high))
        rows = rows[np.argsort(place[rows])]
        best = rows[np.sort(np.unique(code[rows], return_index=True)[1])][:k]
        ends = np.arange(end[low], behind, slide)
        found.append((np.tile(best, len(ends)), np.repeat(ends, len(best)), np.tile(np.arange(len(best)), len(ends))))
    rows, ends, rank = (np.concatenate(column) for column in zip(*found, strict=True))
    answers = panes.take(pa.array(rows))
    for name, values in (("end", ends), ("rank", rank + 1)):
        number = answers.schema.get_field_index(name)
        answers = answers.set_column(number, name, pa.array(values, answers.schema.field(name).type))
    return answers
