"""A stream's columns in Spark: event times in microseconds, ids, and every expression of a query, worked out once.

Spark evaluates filters, scores and partitions; the core finds their values in columns that are named as the
expressions are. So a row is evaluated once, and a threshold is compared with the very number that the core
ranks by.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.engine.intake import Ranking
from skyband.errors import InputError
from skyband.events.batch import StreamColumns
from skyband.events.keys import is_text
from skyband.expressions import Expression
from skyband.expressions.bind import find_column
from skyband.expressions.sparksql import micros
from skyband.queries.outputs import Output
from skyband.times import FARTHEST

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


def collected(df: DataFrame) -> pa.Table:
    """Run a DataFrame and return its rows, with moments in UTC."""
    table = df.toArrow()
    return table.cast(in_utc(table.schema))


def arrow_schema(df: DataFrame) -> pa.Schema:
    """Return the columns of a DataFrame, streaming or not, as Arrow sees them; reads nothing.

    Spark knows before it runs anything that a filter which is false leaves no rows, so no task is started.
    """
    return collected(df.sparkSession.createDataFrame([], df.schema).where("false")).schema


def in_utc(schema: pa.Schema) -> pa.Schema:
    """Return columns whose moments are in UTC: Spark gives them in the session's time zone, which may change."""

    def zoned(kind: pa.DataType) -> pa.DataType:
        return pa.timestamp(kind.unit, "UTC") if pa.types.is_timestamp(kind) and kind.tz else kind

    return pa.schema([(field.name, zoned(field.type)) for field in schema])


def comparable(name: str, kind: DataType) -> Column:
    """Return a column, such as an id or what breaks ties, that compares as `skyband.order.value_ranks` has it."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere
    from pyspark.sql.types import MapType, StringType

    column = F.col(quoted(name))
    if isinstance(kind, StringType):
        column = column.cast("string")  # by its bytes: this takes away a collation
    elif isinstance(kind, MapType):
        column = F.array_sort(F.map_entries(column))
    elif "map<" in kind.simpleString():
        column = column.cast("string")  # Spark cannot compare what has maps inside
    return column


def check(schema: pa.Schema, source: StreamColumns) -> None:
    """Refuse a stream whose time or id column cannot serve."""
    check_names((source.time, source.id), schema.names)
    source.check(schema)
    if is_text(schema.field(source.time).type):
        msg = (
            f"the time column {source.time!r} is text; turn it into a time first: "
            f"df.withColumn({source.time!r}, F.to_timestamp({source.time!r}))"
        )
        raise InputError(msg)


def check_names(names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names that Spark would find more than once among the known ones."""
    known = list(known)
    for name in names:
        if len(alike := [other for other in known if other.lower() == name.lower()]) > 1:
            msg = f"Spark cannot tell the columns {', '.join(map(repr, alike))} apart; rename one"
            raise InputError(msg)


def quoted(name: str) -> str:
    """Return a column's name as Spark wants it where it may hold dots, spaces or operators.

    Examples
    --------
    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def event_time_sql(source: StreamColumns, schema: pa.Schema) -> str:
    """Return the event time as SQL: whole microseconds since the epoch, whatever the session's time zone.

    Numbers that lie too far from the epoch give NULL, as they do in the core.

    Examples
    --------
    >>> event_time_sql(StreamColumns("ts", "id", "s"), pa.schema([("ts", pa.int32())]))
    'if(cast(`ts` AS BIGINT) BETWEEN -2305843009213L AND 2305843009213L, cast(`ts` AS BIGINT) * 1000000L, NULL)'
    """
    kind, name = schema.field(source.time).type, quoted(source.time)
    if not pa.types.is_integer(kind):
        return micros(name, kind)
    number = f"cast({name} AS BIGINT)"
    if source.time_unit == "ns":
        return f"(({number} - pmod({number}, 1000L)) div 1000L)"
    unit = {"s": 1_000_000, "ms": 1_000}.get(source.time_unit or "us", 1)
    most, times = FARTHEST // unit - (FARTHEST % unit == 0), f" * {unit}L" if unit > 1 else ""
    return f"if({number} BETWEEN -{most}L AND {most}L, {number}{times}, NULL)"


def mixed(time: str, id_: str, *, whole: bool) -> str:
    """Mix times and ids, as SQL, into numbers whose last bits look random: cheaper than a hash, and no overflow.

    Ids that are no `whole` numbers are hashed first.
    """
    number = f"cast({id_} AS BIGINT)" if whole else f"cast(hash({id_}) AS BIGINT)"
    return f"({time} ^ shiftright({time}, 10) ^ shiftright({time}, 20) ^ {number} ^ shiftright({number}, 9))"


def descending(name: str, *, text: bool) -> str:
    """Return, as SQL, what sorts ids of a column the other way round; of texts, their bytes."""
    if not text:
        return f"~{name}"
    return f"concat(translate(hex({name}), '0123456789ABCDEF', 'FEDCBA9876543210'), 'G')"  # a prefix comes last


def value(expression: Expression, schema: pa.Schema) -> Column:
    """Return an expression as a column, named as the core looks for it.

    The name is no part of SQL: Spark would substitute ``${env:…}`` of a user's text there, even inside backquotes.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    return F.expr(expression.spark_sql(schema)).alias(str(expression))


def carried(output: Output, schema: pa.Schema) -> Column:
    """Return what rows carry along, as a column; a bare one as it is, whatever its type."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    if output.expression.is_column:
        return F.col(quoted(output.worked_out(schema)))
    return F.expr(output.expression.spark_sql(schema))


def expressions_of(rankings: Iterable[Ranking], outputs: Iterable[Output] = ()) -> list[Expression]:
    """Return every expression of some rankings, and of what comes along, each once."""
    found = [e for r in rankings for e in (r.score, r.where, r.partition_by) if e is not None]
    return list({str(e): e for e in (*(output.expression for output in outputs), *found)}.values())


def declared(schema: pa.Schema, rankings: Iterable[Ranking], outputs: Iterable[Output] = ()) -> pa.Schema:
    """Return a stream's columns together with those that Spark works out for some rankings.

    Examples
    --------
    >>> from skyband import Query, Window
    >>> query = Query("top", k=1, score="x * 2", window=Window(10))
    >>> declared(pa.schema([("x", pa.int32())]), [Ranking.of(query)]).names
    ['x', 'x * 2']
    """
    worked_out = [
        pa.field(str(e), e.bind(schema).arrow)
        for e in expressions_of(rankings, outputs)
        if not e.is_column and str(e) not in schema.names
    ]
    return pa.schema([*schema, *worked_out])


def needed(
    source: StreamColumns, schema: pa.Schema, rankings: Iterable[Ranking], outputs: Iterable[Output],
    more: Iterable[str] = (),
) -> tuple[list[str], list[Column]]:  # fmt: skip
    """Return what the core needs of a stream: names of columns as they are, `more` too, and expressions worked out."""
    expressions = expressions_of(rankings, outputs)
    plain = [find_column(str(*e.columns), schema).name for e in expressions if e.is_column]
    worked_out = [value(e, schema) for e in expressions if not e.is_column]
    return list(dict.fromkeys([source.time, source.id, *more, *plain])), worked_out
