"""Columns in and out: which columns queries need of a stream, and which their answers have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import pyarrow as pa

from skyband.algorithms.base import Algorithm
from skyband.answers.answer import Answers
from skyband.answers.table import TIME, common_type
from skyband.engine.intake import bind_outputs
from skyband.engine.measures import DISTINCT, SKETCH, final_types
from skyband.engine.partial_tables import PartialTables
from skyband.errors import InputError, QueryError
from skyband.events.batch import StreamColumns
from skyband.events.keys import is_text
from skyband.expressions.bind import find_column
from skyband.queries.outputs import check_keys
from skyband.queries.query import JOINED_COLUMNS, UNIQUE_RANK, Query


def check_names(queries: Sequence[Query], known: Collection[str]) -> None:
    """Refuse what is no query, and names that there are already, or that come twice."""
    if odd := [query for query in queries if not isinstance(query, Query)]:
        msg = f"{odd[0]!r} is no Query; make one with Query(name, k=…, score=…, window=…)"
        raise QueryError(msg)
    counts = Counter(query.name for query in queries)
    if twice := sorted(name for name, count in counts.items() if count > 1 or name in known):
        msg = f"there is already a query named {', '.join(map(repr, twice))}; names are unique: choose another"
        raise QueryError(msg)


def used_columns(queries: Sequence[Query], source: StreamColumns, schema: pa.Schema) -> list[str]:
    """Return the columns that the queries need of a stream; all that does not fit is reported at once.

    Examples
    --------
    >>> from skyband import Window
    >>> q = Query("top", k=1, score="price * Volume", window=Window("1 hour"), select=("venue",))
    >>> schema = pa.schema([(name, pa.int64()) for name in ("ts", "symbol", "price", "volume", "venue", "note")])
    >>> used_columns([q], StreamColumns("ts", "symbol"), schema)
    ['ts', 'symbol', 'venue', 'volume', 'price']
    """
    source.check(schema)
    problems: list[str] = []
    names = [source.time, source.id]
    for query in queries:
        try:
            names += _used_by(query, schema) if query.ranks_events else _used_by_partials(query, source, schema)
        except InputError as error:
            problems.append(f"query {query.name!r}: {error}")
    if problems:
        raise QueryError(problems)
    return list(dict.fromkeys(names))


def _used_by(query: Query, schema: pa.Schema) -> list[str]:
    bind_outputs(query.carried, schema)
    check_keys("partition_by", query.partition_keys, schema)
    query.score_expression.bind(schema, "score")
    expressions = [query.score_expression]
    if query.where_expression is not None:
        query.where_expression.bind(schema, "filter")
        expressions.append(query.where_expression)
    if query.partition_expression is not None:
        expressions.append(query.partition_expression)
    used = [name for expression in expressions for name in expression.columns]
    return [*_carried(query, schema), *(find_column(name, schema).name for name in used)]


def _carried(query: Query, schema: pa.Schema) -> list[str]:
    return [name for output in query.carried for name in output.needs(schema)]


def _used_by_partials(query: Query, source: StreamColumns, schema: pa.Schema) -> list[str]:
    partials = PartialTables(query)
    partials.bind(schema, source.id)
    keys = [] if partials.on is None else [partials.on]
    by = [one for one in (partials.key, partials.partition) if one is not None]
    used = [name for expression in (*by, *partials.decomposition.expressions) for name in expression.columns]
    return [*_carried(query, schema), *keys, *(find_column(name, schema).name for name in used)]


def answer_schema(
    queries: Sequence[Query], source: StreamColumns, algorithm: type[Algorithm], schema: pa.Schema
) -> pa.Schema:
    """Return the columns of all answers to queries over a stream, whichever of them come first."""
    window = pa.int64() if queries[0].window.counts else TIME
    fields = {"query": pa.string(), "window_start": window, "window_end": window, "rank": pa.int32()}
    fields["id"] = pa.string() if text_ids(queries, source, schema) else pa.int64()
    fields |= {"score": pa.float64(), "time": TIME}
    if any(query.ties is not None for query in queries):
        fields[UNIQUE_RANK] = pa.int32()
    partitions = [_partition_type(query, schema) for query in queries if query.partition_by is not None]
    if partitions:
        fields["partition"] = common_type(partitions)
    if any(query.emits_changes for query in queries):
        fields |= {"change": pa.string(), "previous_rank": pa.int32()}
    types = [_output_types(query, schema) for query in queries]
    for name in dict.fromkeys(name for some in types for name in some):
        fields[name] = common_type([some[name] for some in types if name in some])
    joined = [query.join.service for query in queries if query.join is not None]
    if joined:
        fields |= dict.fromkeys(joined, pa.float64()) | dict.fromkeys(JOINED_COLUMNS, pa.int64())
    if any(query.emit == "early" for query in queries):
        fields["provisional"] = pa.bool_()
    counted = [one.function for query in queries if query.decomposition for one in query.decomposition.aggregates]
    tied = any(query.ties is not None for query in queries)
    if joined or tied or not algorithm.exact or DISTINCT in counted or SKETCH in counted:
        fields |= {"exact": pa.bool_(), "why": pa.string()}
    return pa.schema(list(fields.items()))


def text_ids(queries: Sequence[Query], source: StreamColumns, schema: pa.Schema) -> bool:
    """Tell whether the ids of some queries' answers are text, which all are where those of one are."""
    return any(is_text(_id_type(query, source, schema)) for query in queries)


def _partition_type(query: Query, schema: pa.Schema) -> pa.DataType:
    assert query.partition_expression is not None
    return query.partition_expression.bind(schema).arrow


def _id_type(query: Query, source: StreamColumns, schema: pa.Schema) -> pa.DataType:
    if query.group_expression is None:
        return schema.field(source.id).type
    return query.group_expression.bind(schema).arrow


def _output_types(query: Query, schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the types of what answers show besides their own columns."""
    further = {}
    if query.decomposition is not None:
        finals = final_types(query.decomposition.aggregates, schema)
        further = {output.name: output.type(finals) for output in query.decomposition.outputs}
    return {one.name: further.get(one.name) or _plain(one.type(schema)) for one in query.columns}


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def fit(answers: Answers, schema: pa.Schema) -> pa.Table:
    """Return answers as a table with the given columns, NULL where they have none."""
    return fit_table(answers.table(quality=not {"exact", "why", "provisional"}.isdisjoint(schema.names)), schema)


def fit_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the given columns, NULL where it has none."""
    columns = [
        table[column.name].cast(column.type)
        if column.name in table.column_names
        else pa.nulls(table.num_rows, column.type)
        for column in schema
    ]
    return pa.table(columns, schema=schema)
