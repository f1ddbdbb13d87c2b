"""Top-k queries over a batch DataFrame, as one lazy DataFrame: all the work is Spark SQL, nothing comes to the driver.

Sliding windows overlap, and a row must not be copied into each of them only to be thrown away. So the events are
cut first to what each *pane* can contribute: a pane holds the events that lie in the very same windows, and no
window needs more than the best `k` of it. Spark does that cut before it moves a row (``WindowGroupLimit`` in the
plan, for `k` below ``spark.sql.optimizer.windowGroupLimitThreshold``). Only the candidates left are copied into
their windows and ranked again. Where only the latest event of an id counts, it lies in a window only as long as
the id has no later event there; the panes follow from these windows. Aggregates are worked out per pane and id first,
and those of panes put together for each window.

`skyband.spark.topk_windows` says which windows a row lies in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.engine.intake import too_many_ties
from skyband.engine.measures import final_types, measures, spark_final
from skyband.engine.run import run
from skyband.engine.schema import answer_schema, used_columns
from skyband.errors import InputError, QueryError
from skyband.events.batch import StreamColumns, TimeUnit
from skyband.expressions import Expression
from skyband.expressions.tree import renamed
from skyband.queries.outputs import Output, plain
from skyband.queries.query import ANSWER_COLUMNS, UNIQUE_RANK, Query
from skyband.spark import columns
from skyband.spark.topk_windows import ends_of, in_periods, so_far, start_of, up_to_the_last
from skyband.windows import Schedule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
    columns; where a query has ties, also ``unique_rank``, which numbers the rows, whose ranks repeat, and ``exact`` and
    ``why``, since more rows may tie than it shows. Windows without events have no rows.

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
    selected = list(dict.fromkeys(output.name for query in queries for output in query.columns))
    columns.check_names(selected, [*ANSWER_COLUMNS, *selected])

    answers = [_answers(df, query, source, schema) for query in queries]
    wanted = answer_schema(queries, source, asked.stream.algorithm, schema)
    for name in ("id", "partition", *selected):  # as in the core: values of several types go into one column as text
        kinds = {found.schema[name].dataType for found in answers if name in found.columns}
        if len(kinds) > 1 and wanted.field(name).type == pa.string():
            as_text = F.col(columns.quoted(name)).cast("string")
            answers = [f.withColumn(name, as_text) if name in f.columns else f for f in answers]
    together = reduce(lambda some, more: some.unionByName(more, allowMissingColumns=True), answers)
    parts = ["partition"] if any(query.partition_by is not None for query in queries) else []
    tied = any(query.ties is not None for query in queries)
    if tied:
        together = together.fillna(True, "exact")
    number, quality = ([UNIQUE_RANK], ["exact", "why"]) if tied else ([], [])
    return together.select(*map(columns.quoted, [*ANSWER_COLUMNS[:7], *number, *parts, *selected, *quality]))


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
    carried = {output.name: _carried(i) for i, output in enumerate(query.columns)}
    windows = Schedule.of(query.name, query.most_rows, query.window)
    try:
        if query.aggregates:
            ranked = _best(_objects(df, query, source, schema, windows), query, "end")
        else:
            events = _events(df, query, source, schema)
            running = windows.endless and query.ties is None  # else as many rows as tie may be in an answer
            ranked = _running(events, query, windows) if running else _best(
                _in_windows(events, query, windows), query, "end"
            )  # fmt: skip
    except InputError as error:
        raise QueryError(str(error), query.name) from None
    answers = ranked.select(
        F.lit(query.name).alias("query"),
        F.timestamp_micros(start_of(query, windows) - windows.shift).alias("window_start"),
        F.timestamp_micros(F.col("end") - windows.shift).alias("window_end"),
        "rank", "id", "score",
        F.timestamp_micros("time").alias("time"),
        *_parts(query),
        *(F.col(own).alias(name) for name, own in carried.items()),
        *_quality(query),
    )  # fmt: skip
    return answers if query.ties is None else answers.where(F.col(UNIQUE_RANK) <= query.max_ties)


def _quality(query: Query) -> list[Column]:
    """Return, of answers with ties, the columns that number the rows, and say whether some were cut."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    if query.ties is None:
        return []
    cut = F.max(UNIQUE_RANK).over(Window.partitionBy("end")) > query.max_ties
    why = F.when(cut, F.lit(too_many_ties(query.max_ties)))
    return [F.col(UNIQUE_RANK), (~cut).alias("exact"), why.alias("why")]


def _events(df: DataFrame, query: Query, source: StreamColumns, schema: pa.Schema) -> DataFrame:
    """Return the rows that pass the filter and have a time, an id and a score."""
    score = columns.value(query.score_expression, schema).cast("double").alias("score")
    return _rows(df, query, source, schema, [score]).dropna(subset=["time", "id", "score"])  # NaN too


def _rows(df: DataFrame, query: Query, source: StreamColumns, schema: pa.Schema, more: Sequence[Column]) -> DataFrame:
    """Return the rows that pass the filter: times, ids, partitions, what they carry, and more."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    if query.where_expression is not None:
        df = df.where(columns.value(query.where_expression, schema))
    key = query.group_expression or plain(source.id).expression
    # A cast to text also takes away a collation: ids are identified, and compared, by their bytes.
    ids = columns.carried(Output("id", key), schema).cast("string" if key.bind(schema).type == "text" else "bigint")
    return df.select(
        F.expr(columns.event_time_sql(source, schema)).alias("time"),
        ids.alias("id"),
        *(columns.value(e, schema).alias("partition") for e in [query.partition_expression] if e is not None),
        *(
            columns.carried(output, schema).alias(_carried(place))
            for place, output in enumerate(query.columns)
            if output in query.carried
        ),
        *more,
    )


# Aggregates.

_LATEST, _PLACE, _ROWS = "latest", "place", "rows"


def _objects(df: DataFrame, query: Query, source: StreamColumns, schema: pa.Schema, windows: Schedule) -> DataFrame:
    """Return the ids of each window with their scores, worked out of aggregates; only those that meet `having`."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    parts = query.decomposition
    assert parts is not None
    kept = measures(parts.aggregates, schema)
    own = {name: f"measure_{place}" for place, name in enumerate(kept)}
    arguments = [F.expr(one.spark_argument(schema)).alias(own[name]) for name, one in kept.items()]
    needed = ["time"] if query.group_keys else ["time", "id"]  # NULL is a group
    rows = _rows(df, query, source, schema, arguments).dropna(subset=needed)
    sums = {_ROWS: "count(1)"} | {own[name]: one.spark(own[name]) for name, one in kept.items()}
    if query.window.periods is not None:
        frame = ["start", "end"]
        objects = _grouped(in_periods(rows, query.window.periods), query, frame, sums)
    else:
        frame, (first, last) = ["end"], ends_of(windows)
        panes = _grouped(rows.withColumns({"first": first, "last": last}), query, ["first", "last"], sums)
        slide = F.lit(windows.slide).cast("bigint")
        copies = up_to_the_last(panes, windows).withColumn("end", F.explode(F.sequence("first", "last", slide)))
        merged = {_ROWS: f"sum({_ROWS})"} | {own[name]: one.spark_merged(own[name]) for name, one in kept.items()}
        objects = copies if windows.size == windows.slide else _grouped(copies, query, frame, merged)
    finals = {str(one): f"aggregate_{place}" for place, one in enumerate(parts.aggregates)}
    known = objects.withColumns(
        {finals[str(one)]: F.expr(spark_final(one, _ROWS, own, kept)) for one in parts.aggregates}
    )
    kinds = final_types(parts.aggregates, schema)
    over = pa.schema([(finals[field.name], field.type) for field in kinds])

    def value(expression: Expression) -> Column:
        return F.expr(Expression("", renamed(expression.tree, finals)).spark_sql(over))

    further = {output.name: value(output.expression) for output in parts.outputs}
    known = known if parts.having is None else known.where(value(parts.having))
    found = known.select(
        *frame, *_parts(query), "id", "time", value(parts.part).cast("double").alias("score"),
        *((further[output.name] if output.name in further else F.col(f"{_LATEST}.{_carried(place)}"))
          .alias(_carried(place)) for place, output in enumerate(query.columns)),
    )  # fmt: skip
    return found.dropna(subset=["score"])


def _grouped(rows: DataFrame, query: Query, frame: Sequence[str], sums: dict[str, str]) -> DataFrame:
    """Return one row per id and partition within a frame: its latest time, what the latest event carries, and sums."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    carried = [_carried(place) for place, output in enumerate(query.columns) if output in query.carried]
    latest = []
    if carried:
        if _PLACE not in rows.columns:
            ties = [columns.comparable(name, rows.schema[name].dataType) for name in carried]
            place = F.struct(F.expr("-time").alias("p"), *(tie.alias(f"p{i}") for i, tie in enumerate(ties)))
            rows = rows.withColumns({_PLACE: place, _LATEST: F.struct(*carried)})
        latest = [F.min_by(_LATEST, _PLACE).alias(_LATEST), F.min(_PLACE).alias(_PLACE)]
    return rows.groupBy(*frame, *_parts(query), "id").agg(
        F.max("time").alias("time"), *latest, *(F.expr(text).alias(name) for name, text in sums.items())
    )


# Windows, and the best of each.


def _parts(query: Query) -> list[str]:
    return [] if query.partition_by is None else ["partition"]


def _in_windows(events: DataFrame, query: Query, windows: Schedule) -> DataFrame:
    """Return the events that may be in an answer, once for each of their windows, with its `end`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    if query.window.periods is not None:
        return _one_per_id(in_periods(events, query.window.periods), query, "end")
    slide, (first, last) = F.lit(windows.slide).cast("bigint"), ends_of(windows)
    if windows.size == windows.slide:
        return _one_per_id(events.withColumn("end", first), query, "end")
    panes = _one_per_id(events.withColumns({"first": first, "last": last}), query, "first", "last")
    if query.distinct == "latest":  # an event counts up to the windows that also hold the next one of its id
        following = F.lead("first").over(Window.partitionBy(*_parts(query), "id").orderBy("time"))
        panes = panes.withColumn("last", F.least("last", following - slide)).where(F.col("first") <= F.col("last"))
    # Whether a score keeps others out is not known before each id has its best one of the window.
    whole = query.ties == "dense" and query.distinct == "best"
    candidates = panes if whole else _best(panes, query, "first", "last")
    candidates = up_to_the_last(candidates, windows)
    copies = candidates.withColumn("end", F.explode(F.sequence("first", "last", slide)))
    return _one_per_id(copies, query, "end") if query.distinct == "best" else copies


def _running(events: DataFrame, query: Query, windows: Schedule) -> DataFrame:
    """Return the answers of windows of all time."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    first, _ = ends_of(windows)
    panes = _best(_one_per_id(events.withColumn("end", first), query, "end"), query, "end")
    panes, parts = panes.crossJoin(F.broadcast(panes.agg(F.max("end").alias("last")))), ["last", *_parts(query)]
    placed = panes.withColumn("place", F.row_number().over(Window.partitionBy(*parts).orderBy(*_order(panes, query))))
    return so_far(placed, parts, query.most_rows, windows, distinct=query.distinct is not None)


def _one_per_id(events: DataFrame, query: Query, *frame: str) -> DataFrame:
    """Return the one event that counts for each id within a pane or window, if ids count once."""
    if query.distinct is None:
        return events
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    better, later, _, *ties = _order(events, query)
    order = [F.desc("time"), better, *ties] if query.distinct == "latest" else [better, later, *ties]
    return _first(events, [*frame, *_parts(query), "id"], order, 1)


def _best(events: DataFrame, query: Query, *frame: str) -> DataFrame:
    """Return the best events within a pane or window, with their `rank`; with ties, one more than may be shown."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    groups, order = [*frame, *_parts(query)], _order(events, query)
    if query.ties is None:
        return _first(events, groups, order, query.most_rows)
    level = F.rank() if query.ties == "with" else F.dense_rank()
    rank = level.over(Window.partitionBy(*groups).orderBy(order[0]))
    place = F.row_number().over(Window.partitionBy(*groups).orderBy(*order))
    best = events.withColumns({"rank": rank, UNIQUE_RANK: place})
    return best.where((F.col("rank") <= query.most_rows) & (F.col(UNIQUE_RANK) <= query.max_ties + 1))


def _order(events: DataFrame, query: Query) -> list[Column]:
    """Return the one order (`skyband.order`): better score, preferred time, smaller id, then the selected columns.

    -0.0 equals 0.0 here too.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    score = F.desc("score") if query.order == "desc" else F.asc("score")
    own = [] if query.aggregates else [_carried(place) for place in range(len(query.columns))]  # ids count once
    ties = [columns.comparable(name, events.schema[name].dataType) for name in own]
    times = {"latest": F.desc("time"), "earliest": F.asc("time"), "id": F.lit(0).asc()}
    return [score, times[query.prefer], F.asc("id"), *ties]


def _carried(place: int) -> str:
    """Return our own name for a selected column."""
    return f"carried_{place}"


def _first(rows: DataFrame, groups: Sequence[str], order: Sequence[Column], most: int) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    place = F.row_number().over(Window.partitionBy(*groups).orderBy(*order))
    return rows.withColumn("rank", place).where(F.col("rank") <= most)
