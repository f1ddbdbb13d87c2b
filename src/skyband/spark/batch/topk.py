"""`skyband.spark.topk`: queries over a batch DataFrame; what is refused, what goes together, and the columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.engine.intake import Ranking
from skyband.engine.run import run
from skyband.engine.schema import answer_schema, used_columns
from skyband.errors import InputError, QueryError
from skyband.events.batch import StreamColumns, TimeUnit
from skyband.queries.query import ANSWER_COLUMNS, UNIQUE_RANK, Query
from skyband.spark import columns
from skyband.spark.batch.objects import VALUE, answers_of_ids
from skyband.spark.batch.rankings import answers_alone, answers_together, shares_panes
from skyband.spark.batch.rows import NUMBER, carried_name, events_of, partition_columns
from skyband.spark.services import Frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def topk(
    df: DataFrame,
    queries: Query | Sequence[Query],
    *,
    time: str,
    id: str,  # noqa: A002 - the word for it
    time_unit: TimeUnit | None = None,
    services: Mapping[str, Frame] | None = None,
) -> DataFrame:
    """Answer queries over a batch DataFrame, as `skyband.run` does without a watermark.

    Parameters
    ----------
    df
        The events, in any order.
    queries
        One or several, over time windows. Those that rank alike read the events together, in two scans; cache
        a `df` that is costly to make, or that has other rows each time. More than four that rank alike need Skyband
        where Spark runs Python.
    time, id
        The columns of event times (timestamps, dates or whole numbers) and of ids (whole numbers or text).
    time_unit
        The unit of times that are whole numbers; microseconds when left out.
    services
        What joined queries join with, by name: batch DataFrames in `skyband.spark.Frame`. All that they have is
        known, so there is nothing to refresh: `budget`, `policy` and `default` of a join make no difference.

    Returns
    -------
    A lazy DataFrame, one row for each place in each answer, in no order: ``query``, ``window_start``,
    ``window_end``, ``rank``, ``id``, ``score``, ``time``, ``partition`` where a query has one, the selected
    columns, and the remote value by its service's name; where a query has ties, also ``unique_rank``, which numbers the
    rows, whose ranks repeat; of ties and of sets also ``exact`` and ``why``, since there may be more rows than an
    answer shows. Windows without events have no rows.

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
    services = _checked_services(services)
    _check_queries([queries] if isinstance(queries, Query) else queries)
    # Refuses what the core would refuse.
    asked = run(queries, (), time=time, id=id, time_unit=time_unit, services=services).monitor
    source, queries = asked.source, asked.queries
    schema = columns.arrow_schema(df)
    columns.check(schema, source)
    used_columns(queries, source, schema)
    selected = list(dict.fromkeys(output.name for query in queries for output in query.columns))
    remote = list(dict.fromkeys(query.join.service for query in queries if query.join is not None))
    columns.check_names([*selected, *remote], [*ANSWER_COLUMNS, *selected, *remote])

    answers = [_answers(df, alike, source, schema, services) for alike in _alike(queries)]
    wanted = answer_schema(queries, source, asked.stream.algorithm, schema)
    for name in ("id", "partition", *selected):  # as in the core: values of several types go into one column as text
        kinds = {found.schema[name].dataType for found in answers if name in found.columns}
        if len(kinds) > 1 and wanted.field(name).type == pa.string():
            as_text = F.col(columns.quoted(name)).cast("string")
            answers = [f.withColumn(name, as_text) if name in f.columns else f for f in answers]
    together = reduce(lambda some, more: some.unionByName(more, allowMissingColumns=True), answers)
    parts = ["partition"] if any(query.partition_by is not None for query in queries) else []
    tied = any(query.ties is not None for query in queries)
    flagged = tied or any(query.is_set for query in queries)
    if flagged:
        together = together.fillna(True, "exact")
    number, quality = [UNIQUE_RANK] if tied else [], ["exact", "why"] if flagged else []
    wanted_names = [*ANSWER_COLUMNS[:7], *number, *parts, *selected, *remote, *quality]
    return together.select(*map(columns.quoted, wanted_names))


def _checked_services(services: Mapping[str, Any] | None) -> dict[str, Frame]:
    if services is not None and not isinstance(services, Mapping):
        msg = f"services is a {type(services).__name__}; give them by name, such as {{'followers': Frame(…)}}"
        raise InputError(msg)
    for name, service in (services or {}).items():
        if not isinstance(service, Frame):
            msg = (
                f"service {name!r} is a {type(service).__name__}, and a batch joins with data that do not change "
                "meanwhile; give a batch DataFrame in skyband.spark.Frame, or use sb.spark.start or sb.run"
            )
            raise InputError(msg)
    return dict(services or {})


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


def _alike(queries: Sequence[Query]) -> list[list[Query]]:
    """Put queries together that can share panes: they rank alike, and show the same columns."""
    groups: dict[object, list[Query]] = {}
    for query in queries:
        shared = query.ranks_events and shares_panes(query)
        key = (Ranking.of(query), query.columns, query.window.closed) if shared else query.name
        groups.setdefault(key, []).append(query)
    return list(groups.values())


def _answers(
    df: DataFrame, alike: Sequence[Query], source: StreamColumns, schema: pa.Schema, services: Mapping[str, Frame]
) -> DataFrame:
    """Return the answers of queries that share what they can, or of one."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    query = alike[0]
    try:
        if not query.ranks_events:
            found = answers_of_ids(df, query, source, schema, services)
        elif shares_panes(query):
            found = answers_together(events_of(df, query, source, schema), alike)
        else:
            found = answers_alone(events_of(df, query, source, schema), query)
    except InputError as error:
        raise QueryError(str(error), query.name) from None
    names = F.array(*(F.lit(one.name) for one in alike))
    return found.select(
        F.get(names, F.col(NUMBER)).alias("query"),
        F.timestamp_micros("start").alias("window_start"),
        F.timestamp_micros("end").alias("window_end"),
        "rank", "id", "score",
        F.timestamp_micros("time").alias("time"),
        *partition_columns(query),
        *(F.col(carried_name(place)).alias(output.name) for place, output in enumerate(query.columns)),
        *([] if query.join is None else [F.col(VALUE).alias(query.join.service)]),
        *([UNIQUE_RANK] if query.ties is not None else []),
        *(["exact", "why"] if query.ties is not None or query.is_set else []),
    )  # fmt: skip
