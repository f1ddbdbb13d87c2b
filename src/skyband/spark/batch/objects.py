"""Queries over a batch that rank ids: by aggregates of their events, by remote data, or by both.

Of each pane and id one row is made first, and those of panes are put together for each window: sums of sums, or the
latest of the latest events. Remote data are a DataFrame here, so all of them are known, and joined where objects are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.engine.measures import final_types, measures, spark_final
from skyband.events.batch import StreamColumns
from skyband.expressions import Expression
from skyband.expressions.tree import renamed
from skyband.queries.decomposition import STREAM, Decomposition
from skyband.queries.outputs import plain
from skyband.queries.query import Query
from skyband.remote.join import CUT
from skyband.spark import columns
from skyband.spark.batch.rankings import until_the_next
from skyband.spark.batch.rows import (
    best,
    carried_name,
    cut_ties,
    first,
    id_column,
    numbered,
    partition_columns,
    rows_of,
)
from skyband.spark.batch.windows import ends_of, in_periods, up_to_the_last
from skyband.spark.services import Frame
from skyband.windows import Schedule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VALUE = "value"
"""The remote value."""
_LATEST, _PLACE, _ROWS, _PART, _REMOTE = "latest", "place", "rows", "part", "remote"


def answers_of_ids(
    df: DataFrame, query: Query, source: StreamColumns, schema: pa.Schema, services: Mapping[str, Frame]
) -> DataFrame:
    """Return the answers of a query that ranks ids; of joined ones with the remote `VALUE`."""
    windows = Schedule.of(query.name, query.most_rows, query.window)
    parts = query.decomposition
    assert parts is not None
    objects = (_aggregated if parts.aggregates else _latest)(df, query, parts, source, schema, windows)
    if parts.service is None:
        objects = objects.withColumnRenamed(_PART, "score")
    else:
        objects = _joined(objects, parts, services[parts.service])
    found = objects.dropna(subset=["score"])  # NaN too
    ranked = _set_of(found, query) if query.is_set else best(found, query, "end")
    return cut_ties(numbered(ranked, query, windows), query)


# The stream's part.


def _rows(df: DataFrame, query: Query, source: StreamColumns, schema: pa.Schema, more: Sequence[Column]) -> DataFrame:
    """Return the rows of a query with all that must not be NULL."""
    parts = query.decomposition
    assert parts is not None
    needed = ["time"] if query.group_keys and parts.service is None else ["time", "id"]  # NULL is a group
    if parts.service is not None:
        assert query.join is not None
        on = query.join.on
        key = query.group_expression or plain(source.id).expression if on is None else plain(on).expression
        more, needed = [*more, id_column(key, schema).alias(_REMOTE)], [*needed, _REMOTE]
    return rows_of(df, query, parts.where, source, schema, more).dropna(subset=needed)


def _latest(
    df: DataFrame, query: Query, parts: Decomposition, source: StreamColumns, schema: pa.Schema, windows: Schedule
) -> DataFrame:
    """Return the latest event of each id in each window."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    part = columns.value(parts.part, schema).cast("double").alias(_PART)
    rows = _rows(df, query, source, schema, [part]).dropna(subset=[_PART])  # NaN too
    begin, last = ends_of(windows)
    better = F.desc(_PART) if query.order == "desc" else F.asc(_PART)
    ties = [columns.comparable(name, rows.schema[name].dataType) for name in _carried(query)]
    order = [F.desc("time"), better, F.desc(_REMOTE), *ties]
    panes = first(rows.withColumns({"first": begin, "last": last}), ["first", "last", "id"], order, 1)
    panes = until_the_next(panes, windows, "id")
    slide = F.lit(windows.slide).cast("bigint")
    return panes.withColumn("end", F.explode(F.sequence("first", "last", slide)))


def _aggregated(
    df: DataFrame, query: Query, parts: Decomposition, source: StreamColumns, schema: pa.Schema, windows: Schedule
) -> DataFrame:
    """Return the ids of each window with what is worked out of their aggregates; only those that meet `having`."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    kept = measures(parts.aggregates, schema)
    own = {name: f"measure_{place}" for place, name in enumerate(kept)}
    arguments = [F.expr(one.spark_argument(schema)).alias(own[name]) for name, one in kept.items()]
    rows = _rows(df, query, source, schema, arguments)
    sums = {_ROWS: "count(1)"} | {own[name]: one.spark(own[name]) for name, one in kept.items()}
    if query.window.periods is not None:
        frame = ["start", "end"]
        objects = _grouped(in_periods(rows, query.window.periods), query, frame, sums)
    else:
        frame, (begin, last) = ["end"], ends_of(windows)
        panes = _grouped(rows.withColumns({"first": begin, "last": last}), query, ["first", "last"], sums)
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
    return known.select(
        *frame, *partition_columns(query), "id", "time", value(parts.part).cast("double").alias(_PART),
        *([] if parts.service is None else [F.col(f"{_LATEST}.{_REMOTE}").alias(_REMOTE)]),
        *((further[output.name] if output.name in further else F.col(f"{_LATEST}.{carried_name(place)}"))
          .alias(carried_name(place)) for place, output in enumerate(query.columns)),
    )  # fmt: skip


def _grouped(rows: DataFrame, query: Query, frame: Sequence[str], sums: dict[str, str]) -> DataFrame:
    """Return one row per id and partition within a frame: its latest time, what the latest event has, and sums."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    carried, latest = _carried(query), []
    joined = [] if query.join is None else [_REMOTE]
    if joined or carried:
        if _PLACE not in rows.columns:
            ties = [_descending(rows, name) for name in joined]
            ties += [columns.comparable(name, rows.schema[name].dataType) for name in carried]
            place = F.struct(F.expr("-time").alias("p"), *(tie.alias(f"p{i}") for i, tie in enumerate(ties)))
            rows = rows.withColumns({_PLACE: place, _LATEST: F.struct(*joined, *carried)})
        latest = [F.min_by(_LATEST, _PLACE).alias(_LATEST), F.min(_PLACE).alias(_PLACE)]
    return rows.groupBy(*frame, *partition_columns(query), "id").agg(
        F.max("time").alias("time"), *latest, *(F.expr(text).alias(name) for name, text in sums.items())
    )


def _carried(query: Query) -> list[str]:
    """Return the columns that events carry along."""
    return [carried_name(place) for place, output in enumerate(query.columns) if output in query.carried]


def _descending(rows: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    return F.expr(columns.descending(name, text=rows.schema[name].dataType.typeName() == "string"))


# The remote part.


def _joined(objects: DataFrame, parts: Decomposition, service: Frame) -> DataFrame:
    """Return the objects that have a remote value which passes, with the score that both make."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    assert parts.service is not None
    known = service.values(parts.service, "remote id", VALUE)
    found = objects.join(known, F.col(_REMOTE).cast("string") == F.col("remote id")).drop("remote id")
    if parts.condition is not None:
        sign, threshold = parts.condition.sign, F.lit(parts.condition.threshold)
        value = F.col(VALUE)
        passes = {">": value > threshold, ">=": value >= threshold, "<": value < threshold, "<=": value <= threshold}
        found = found.where(passes[sign])
    names, kinds = {STREAM: _PART, parts.service: VALUE}, pa.schema([(_PART, pa.float64()), (VALUE, pa.float64())])
    score = Expression("", renamed(parts.combine.tree, names)).spark_sql(kinds)
    return found.withColumn("score", F.expr(score).cast("double"))


def _set_of(objects: DataFrame, query: Query) -> DataFrame:
    """Return the sets of windows: without ranks, in order of ids, cut at `max_rows`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    found = first(objects, ["end"], [F.asc("id")], query.max_rows + 1)
    cut = F.max("rank").over(Window.partitionBy("end")) > query.max_rows
    why = F.when(cut, F.lit(CUT.format(query.max_rows)))
    kept = found.withColumns({"exact": ~cut, "why": why}).where(F.col("rank") <= query.max_rows)
    return kept.withColumn("rank", F.lit(None).cast("int"))
