"""The rows of a batch that count for a query, and the best of each frame: a pane, a window, an id within one.

All columns have names of our own from here on, so that no column of the user's is in the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.engine.intake import too_many_ties
from skyband.events.batch import StreamColumns
from skyband.expressions import Expression
from skyband.queries.outputs import Output, plain
from skyband.queries.query import UNIQUE_RANK, Query
from skyband.spark import columns
from skyband.spark.batch.windows import start_of
from skyband.windows import Schedule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NUMBER = "number"
"""The column that says which of several queries an answer belongs to."""


def carried_name(place: int) -> str:
    """Return our own name for a selected column."""
    return f"carried_{place}"


def partition_columns(query: Query) -> list[str]:
    """Return the column of partitions, where there are any."""
    return [] if query.partition_by is None else ["partition"]


def id_column(key: Expression, schema: pa.Schema) -> Column:
    """Return ids as whole numbers or text.

    A cast to text also takes away a collation: ids are identified, and compared, by their bytes.
    """
    kind = "string" if key.bind(schema).type == "text" else "bigint"
    return columns.carried(Output("id", key), schema).cast(kind)


def events_of(df: DataFrame, query: Query, source: StreamColumns, schema: pa.Schema) -> DataFrame:
    """Return the rows that pass the filter and have a time, an id and a score."""
    score = columns.value(query.score_expression, schema).cast("double").alias("score")
    rows = rows_of(df, query, query.where_expression, source, schema, [score])
    return rows.dropna(subset=["time", "id", "score"])  # NaN too


def rows_of(
    df: DataFrame, query: Query, where: Expression | None, source: StreamColumns, schema: pa.Schema,
    more: Sequence[Column],
) -> DataFrame:  # fmt: skip
    """Return the rows that pass a filter: times, ids, partitions, what they carry, and more."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    if where is not None:
        df = df.where(columns.value(where, schema))
    return df.select(
        F.expr(columns.event_time_sql(source, schema)).alias("time"),
        id_column(query.group_expression or plain(source.id).expression, schema).alias("id"),
        *(columns.value(e, schema).alias("partition") for e in [query.partition_expression] if e is not None),
        *(
            columns.carried(output, schema).alias(carried_name(place))
            for place, output in enumerate(query.columns)
            if output in query.carried
        ),
        *more,
    )


def one_per_id(events: DataFrame, query: Query, *frame: str) -> DataFrame:
    """Return the one event that counts for each id within a pane or window, if ids count once."""
    if query.distinct is None:
        return events
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    better, later, _, *ties = order_of(events, query)
    order = [F.desc("time"), better, *ties] if query.distinct == "latest" else [better, later, *ties]
    return first(events, [*frame, *partition_columns(query), "id"], order, 1)


def best(events: DataFrame, query: Query, *frame: str, k: int | None = None) -> DataFrame:
    """Return the best events within a pane or window, with their `rank`; with ties, one more than may be shown."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    groups, order, k = [*frame, *partition_columns(query)], order_of(events, query), k or query.most_rows
    if query.ties is None:
        return first(events, groups, order, k)
    level = F.rank() if query.ties == "with" else F.dense_rank()
    rank = level.over(Window.partitionBy(*groups).orderBy(order[0]))
    place = F.row_number().over(Window.partitionBy(*groups).orderBy(*order))
    found = events.withColumns({"rank": rank, UNIQUE_RANK: place})
    return found.where((F.col("rank") <= k) & (F.col(UNIQUE_RANK) <= query.max_ties + 1))


def order_of(events: DataFrame, query: Query) -> list[Column]:
    """Return the one order (`skyband.order`): better score, preferred time, smaller id, then the selected columns.

    -0.0 equals 0.0 here too.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    score = F.desc("score") if query.order == "desc" else F.asc("score")
    own = [carried_name(place) for place in range(len(query.columns))] if query.ranks_events else []  # else ids differ
    ties = [columns.comparable(name, events.schema[name].dataType) for name in own]
    times = {"latest": F.desc("time"), "earliest": F.asc("time"), "id": F.lit(0).asc()}
    return [score, times[query.prefer], F.asc("id"), *ties]


def first(rows: DataFrame, groups: Sequence[str], order: Sequence[Column], most: int) -> DataFrame:
    """Return the first rows of each group, with their `rank`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    place = F.row_number().over(Window.partitionBy(*groups).orderBy(*order))
    return rows.withColumn("rank", place).where(F.col("rank") <= most)


def numbered(ranked: DataFrame, query: Query, windows: Schedule) -> DataFrame:
    """Return the answers of one query, of rows with a rank in the windows on their axis."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    bounds = {"start": start_of(query, windows) - windows.shift, "end": F.col("end") - windows.shift}
    return ranked.withColumns({NUMBER: F.lit(0), **bounds})


def cut_ties(ranked: DataFrame, query: Query) -> DataFrame:
    """Say of answers with ties whether some were cut, and leave out what is too many."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    if query.ties is None:
        return ranked
    cut = F.max(UNIQUE_RANK).over(Window.partitionBy(NUMBER, "end")) > query.max_ties
    why = F.when(cut, F.lit(too_many_ties(query.max_ties)))
    return ranked.withColumns({"exact": ~cut, "why": why}).where(F.col(UNIQUE_RANK) <= query.max_ties)
