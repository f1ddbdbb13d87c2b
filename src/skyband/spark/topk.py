"""Top-k queries over a batch DataFrame, as one lazy DataFrame: all the work is Spark SQL, nothing comes to the driver.

Sliding windows overlap, and a row must not be copied into each of them only to be thrown away. So the events are
cut first to what each *pane* can contribute: a pane holds the events that lie in the very same windows, and no
window needs more than the best `k` of it. Spark does that cut before it moves a row (``WindowGroupLimit`` in the
plan, for `k` below ``spark.sql.optimizer.windowGroupLimitThreshold``). Only the candidates left are copied into
their windows and ranked again. Where only the latest event of an id counts, it lies in a window only as long as
the id has no later event there; the panes follow from these windows.

Windows of all time hold all panes before their end: there the candidates of the panes are merged one after another
(`_running`), in one task for each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.calendars import Calendar
from skyband.engine.run import run
from skyband.engine.schema import used_columns
from skyband.errors import InputError, QueryError
from skyband.events.batch import StreamColumns, TimeUnit
from skyband.events.keys import is_text
from skyband.order import IntArray
from skyband.queries.query import ANSWER_COLUMNS, Query
from skyband.spark import columns
from skyband.times import microseconds_of
from skyband.windows import Schedule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

YEARS = 1900, 2100
"""From when to when the calendars of a batch reach: its times are not known before it is read."""


def topk(
    df: DataFrame,
    queries: Query | Sequence[Query],
    *,
    time: str,
    id: str,  # noqa: A002 - the word for it
    time_unit: TimeUnit | None = None,
) -> DataFrame:
    """Answer queries over a batch DataFrame, as `skyband.run` does without a watermark.

    Parameters
    ----------
    df
        The events, in any order.
    queries
        One or several, over time windows. Each reads the events once; cache a `df` that is costly to make.
    time, id
        The columns of event times (timestamps, dates or whole numbers) and of ids (whole numbers or text).
    time_unit
        The unit of times that are whole numbers; microseconds when left out.

    Returns
    -------
    A lazy DataFrame, one row for each place in each answer, in no order: ``query``, ``window_start``,
    ``window_end``, ``rank``, ``id``, ``score``, ``time``, ``partition`` where a query has one, and the selected
    columns. Windows without events have no rows.

    Raises
    ------
    QueryError, InputError
        At once, before anything is read.

    Examples
    --------
    >>> import skyband as sb
    >>> q = sb.Query("dearest", k=3, score="price * volume", window=sb.Window("1 hour", slide="10 minutes"))
    >>> topk(spark.read.parquet("trades"), q, time="ts", id="symbol").show()  # doctest: +SKIP
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    _check_frame(df)
    _check_queries([queries] if isinstance(queries, Query) else queries)
    asked = run(queries, (), time=time, id=id, time_unit=time_unit).monitor  # refuses what the core would refuse
    source, queries = asked.source, asked.queries
    schema = columns.arrow_schema(df)
    columns.check(schema, source)
    used_columns(queries, source, schema)
    selected = list(dict.fromkeys(name for query in queries for name in query.select))
    columns.check_names(selected, [*ANSWER_COLUMNS, *schema.names])

    answers = [_answers(df, query, source, schema) for query in queries]
    kinds = {found.schema["partition"].dataType for found in answers if "partition" in found.columns}
    if len(kinds) > 1:  # as in the core: values of several types go into one column as text
        as_text = F.col("partition").cast("string")
        answers = [f.withColumn("partition", as_text) if "partition" in f.columns else f for f in answers]
    together = reduce(lambda some, more: some.unionByName(more, allowMissingColumns=True), answers)
    shown = [*ANSWER_COLUMNS[:7], *(["partition"] if kinds else []), *selected]
    return together.select(*map(columns.quoted, shown))


def _check_frame(df: DataFrame) -> None:
    from pyspark.sql import DataFrame

    if not isinstance(df, DataFrame):
        msg = f"cannot read events from a {type(df).__name__}; give a Spark DataFrame, or use sb.run without Spark"
        raise InputError(msg)
    if df.isStreaming:
        msg = "the DataFrame is a stream, whose windows close one by one; use sb.spark.start, or read it as a batch"
        raise InputError(msg)


def _check_queries(queries: Iterable[Query]) -> None:
    for query in queries:
        if not isinstance(query, Query):
            continue  # the core refuses it
        problems = []
        if query.join is not None:
            problems.append(
                f"it joins with the service {query.join.service!r}, which is asked window by window; use "
                "sb.spark.start or sb.run, or join a DataFrame of the remote data before"
            )
        elif not query.ranks_events:
            problems.append(
                f"its score {query.score!r} has aggregates, which a batch DataFrame has groupBy and agg for; use "
                "sb.spark.start or sb.run"
            )
        if query.window.counts:
            problems.append(
                f"the window is {query.window.size} events, and the rows of a DataFrame have no order of arrival; "
                "use a window of time, or sb.run"
            )
        if query.emit != "final":
            problems.append(
                f"emit is {query.emit!r}, and a batch has one final answer for each window; use 'final', or sb.run"
            )
        if problems:
            raise QueryError(problems, query.name)


def _answers(df: DataFrame, query: Query, source: StreamColumns, schema: pa.Schema) -> DataFrame:
    """Return the answers of one query."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    # Names of our own from here on, so that no column of the stream is in the way.
    carried = {name: _carried(i) for i, name in enumerate(query.select)}
    try:
        events = _events(df, query, source, schema, carried)
    except InputError as error:
        raise QueryError(str(error), query.name) from None
    windows = Schedule.of(query.name, query.most_rows, query.window)
    if windows.endless:
        ranked, start = _so_far(events, query, windows), F.lit(None).cast("bigint")
    elif query.window.periods is not None:
        periods = _in_periods(events, query.window.periods)
        ranked, start = _best(_one_per_id(periods, query, "end"), query, "end"), F.col("start")
    else:
        ranked = _best(_in_windows(events, query, windows), query, "end")
        since = F.col("end") - windows.size
        start = since + F.pmod(windows.phase - since, F.lit(windows.period).cast("bigint"))
    return ranked.select(
        F.lit(query.name).alias("query"),
        F.timestamp_micros(start - windows.shift).alias("window_start"),
        F.timestamp_micros(F.col("end") - windows.shift).alias("window_end"),
        "rank", "id", "score",
        F.timestamp_micros("time").alias("time"),
        *_parts(query),
        *(F.col(own).alias(name) for name, own in carried.items()),
    )  # fmt: skip


def _events(
    df: DataFrame, query: Query, source: StreamColumns, schema: pa.Schema, carried: dict[str, str]
) -> DataFrame:
    """Return the rows that pass the filter and have a time, an id and a score."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    if query.where_expression is not None:
        df = df.where(columns.value(query.where_expression, schema))
    # A cast to text also takes away a collation: ids are identified, and compared, by their bytes.
    ids = F.col(columns.quoted(source.id)).cast("string" if is_text(schema.field(source.id).type) else "bigint")
    rows = df.select(
        F.expr(columns.event_time_sql(source, schema)).alias("time"),
        ids.alias("id"),
        columns.value(query.score_expression, schema).cast("double").alias("score"),
        *(columns.value(e, schema).alias("partition") for e in [query.partition_expression] if e is not None),
        *(F.col(columns.quoted(name)).alias(own) for name, own in carried.items()),
    )
    return rows.dropna(subset=["time", "id", "score"])  # NaN too


def _parts(query: Query) -> list[str]:
    return [] if query.partition_by is None else ["partition"]


def _in_windows(events: DataFrame, query: Query, windows: Schedule) -> DataFrame:
    """Return the events that may be in an answer, once for each of their windows, with its `end`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    slide, first = F.lit(windows.slide).cast("bigint"), _first_end(windows)
    if windows.size == windows.slide:
        return _one_per_id(events.withColumn("end", first), query, "end")
    last = F.col("time") + windows.size - F.pmod(F.col("time") - windows.phase, F.lit(windows.period).cast("bigint"))
    panes = _one_per_id(events.withColumns({"first": first, "last": last}), query, "first", "last")
    if query.distinct == "latest":  # an event counts up to the windows that also hold the next one of its id
        following = F.lead("first").over(Window.partitionBy(*_parts(query), "id").orderBy("time"))
        panes = panes.withColumn("last", F.least("last", following - slide)).where(F.col("first") <= F.col("last"))
    candidates = _best(panes, query, "first", "last")
    copies = candidates.withColumn("end", F.explode(F.sequence("first", "last", slide)))
    return _one_per_id(copies, query, "end") if query.distinct == "best" else copies


def _first_end(windows: Schedule) -> Column:
    """Return the end of the first window that holds an event."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    slide = F.lit(windows.slide).cast("bigint")
    return F.col("time") + slide - F.pmod(F.col("time") - (windows.phase + windows.size), slide)


def _in_periods(events: DataFrame, periods: Calendar) -> DataFrame:
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


def _so_far(events: DataFrame, query: Query, windows: Schedule) -> DataFrame:
    """Return the answers of windows of all time."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    panes = _best(_one_per_id(events.withColumn("end", _first_end(windows)), query, "end"), query, "end")
    panes, parts = panes.crossJoin(F.broadcast(panes.agg(F.max("end").alias("last")))), ["last", *_parts(query)]
    places = Window.partitionBy(*parts).orderBy(*_order(panes, query))
    placed = panes.withColumn("place", F.row_number().over(places))
    k, slide, distinct = query.most_rows, windows.slide, query.distinct is not None

    def running(panes: pa.Table) -> pa.Table:
        return _running(panes, k, slide, distinct)

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


def _one_per_id(events: DataFrame, query: Query, *frame: str) -> DataFrame:
    """Return the one event that counts for each id within a pane or window, if ids count once."""
    if query.distinct is None:
        return events
    better, later, _, *ties = _order(events, query)
    order = [later, better, *ties] if query.distinct == "latest" else [better, later, *ties]
    return _first(events, [*frame, *_parts(query), "id"], order, 1)


def _best(events: DataFrame, query: Query, *frame: str) -> DataFrame:
    """Return the best events within a pane or window, with their `rank`."""
    return _first(events, [*frame, *_parts(query)], _order(events, query), query.most_rows)


def _order(events: DataFrame, query: Query) -> list[Column]:
    """Return the one order (`skyband.order`): better score, later event, smaller id, then the selected columns.

    -0.0 equals 0.0 here too.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    score = F.desc("score") if query.order == "desc" else F.asc("score")
    ties = [columns.comparable(_carried(i), events.schema[_carried(i)].dataType) for i in range(len(query.select))]
    return [score, F.desc("time"), F.asc("id"), *ties]


def _carried(place: int) -> str:
    """Return our own name for a selected column."""
    return f"carried_{place}"


def _first(rows: DataFrame, groups: Sequence[str], order: Sequence[Column], most: int) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    place = F.row_number().over(Window.partitionBy(*groups).orderBy(*order))
    return rows.withColumn("rank", place).where(F.col("rank") <= most)
