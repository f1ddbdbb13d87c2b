"""Queries in SQL over streaming DataFrames: the text says what is ranked, and which columns hold times and ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skyband.errors import InputError, QueryError
from skyband.languages.sql import common_id, only_time, read_sql
from skyband.spark import columns
from skyband.spark.handle import Handle
from skyband.spark.start import start
from skyband.times import Duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sql(
    text: str,
    sources: Mapping[str, DataFrame],
    *,
    dialect: str = "flink",
    time: str | None = None,
    id: str | None = None,  # noqa: A002 - the word for it
    every: Duration | None = None,
    **options: Any,
) -> Handle:
    """Answer the queries of a text in SQL over a streaming DataFrame, until someone stops it.

    Parameters
    ----------
    text
        One query or several, all over one table; see the page SQL.
    sources
        The streaming DataFrames that the text calls by these names.
    dialect
        ``"flink"``, ``"spark"``, ``"postgres"`` or ``"ksqldb"``.
    time, id
        The columns of event times and ids, where the text does not say them, or others shall be taken.
    every
        How often rankings of all time are answered; every second when left out.
    options
        As for `start`: `sink`, `checkpoint`, `watermark` and so on. A watermark that the text declares is used unless
        another one is given here.

    Raises
    ------
    LanguageError
        When the text cannot be read; it says where.
    InputError
        When its table is not among the sources, or the columns of times and ids are not known.

    Examples
    --------
    >>> handle = sb.spark.sql("SELECT symbol, price FROM trades ORDER BY price DESC LIMIT 3",
    ...                       sources={"trades": trades}, sink="console")  # doctest: +SKIP
    """
    schemas = {name: columns.arrow_schema(df) for name, df in sources.items()}
    alone = next(iter(schemas.values())) if len(schemas) == 1 else None
    found = read_sql(text, dialect=dialect, columns=schemas, time=time or only_time(alone), every=every)
    tables = dict.fromkeys(one.table.split(".")[-1] for one in found)
    if len(tables) > 1:
        msg = f"the queries read different tables: {', '.join(tables)}; start a stream for each"
        raise QueryError(msg)
    (table,) = tables
    if table not in sources:
        msg = f"the text reads {table!r}, which is not among the sources: {', '.join(map(repr, sources)) or 'none'}"
        raise InputError(msg)
    schema, said = schemas[table], found[0]
    named = {
        "time": time or next((one.time for one in found if one.time), None) or only_time(schema),
        "id": id or common_id(found, schema),
    }
    if unknown := [what for what, column in named.items() if column is None]:
        msg = f"the column of the {unknown[0]} is not known; give {unknown[0]}='…', one of {', '.join(schema.names)}"
        raise InputError(msg)
    declared = {"watermark": said.watermark, "time_unit": said.time_unit, **named}
    given = {key: value for key, value in declared.items() if value is not None} | options
    return start(sources[table], [one.query for one in found], **given)
