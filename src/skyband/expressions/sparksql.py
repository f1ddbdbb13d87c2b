"""Spark SQL text of a typed tree, made of nothing but our own templates, names and constants.

Nothing that a person wrote is pasted through; texts are written by `skyband.expressions.sparktext`.
"""

from __future__ import annotations

import pyarrow as pa

from skyband.errors import InputError
from skyband.expressions.bind import Typed
from skyband.expressions.sparktext import spark_text
from skyband.expressions.tree import Column, Literal, Type

MAX_SPARK_LENGTH = 100_000

_TYPES = {Type.NUMBER: "DOUBLE", Type.INTEGER: "BIGINT", Type.TEXT: "STRING", Type.BOOLEAN: "BOOLEAN"}


def render(typed: Typed, schema: pa.Schema) -> str:
    """Write a typed tree for Spark; a bare column of times stays a timestamp or date."""
    if isinstance(typed.node, Column) and typed.type is Type.TIME:
        return _name(typed.node.name, schema)
    return _render(typed, schema)


def _render(typed: Typed, schema: pa.Schema) -> str:
    if typed.function is not None:
        args = [_render(arg, schema) for arg in typed.args]
        if typed.function.pattern and isinstance(pattern := typed.args[-1].node, Literal):
            args[-1] = pattern.text
        # Templates repeat an argument up to once per other one: look before building something huge.
        huge = max(map(len, args)) * (len(args) + 2) > 10 * MAX_SPARK_LENGTH
        text = "" if huge else typed.function.spark(*args)
        if huge or len(text) > MAX_SPARK_LENGTH:
            message = (
                f"the expression is too large for Spark: over {MAX_SPARK_LENGTH:,} characters, because some "
                "functions repeat their argument; nest fewer CASE, BETWEEN, NULLIF, FLOOR and CEIL"
            )
            raise InputError(message)
        return text
    if isinstance(typed.node, Literal):
        return _literal(typed.node, typed.type)
    assert isinstance(typed.node, Column)
    return _column(_name(typed.node.name, schema), typed)


def _literal(literal: Literal, wanted: Type) -> str:
    if literal.type is Type.NULL:
        return f"cast(NULL AS {_TYPES.get(wanted, 'BIGINT')})"
    if literal.type is Type.TEXT:
        return spark_text(literal.text)
    suffix = {Type.NUMBER: "D", Type.INTEGER: "L", Type.TIME: "L"}.get(literal.type, "")
    text = literal.text + suffix
    return f"({text})" if text.startswith("-") else text


def _name(name: str, schema: pa.Schema) -> str:
    """Back-quote a column's name, if Spark can tell the column by it."""
    alike = [other for other in schema.names if other.lower() == name.lower()]
    if len(alike) > 1:
        message = f"Spark cannot tell the columns {', '.join(map(repr, alike))} apart; rename one"
        raise InputError(message)
    if "${" in name:
        message = f"Spark would replace '${{…}}' inside the column name {name!r}; rename it"
        raise InputError(message)
    return "`" + name.replace("`", "``") + "`"


def _column(name: str, typed: Typed) -> str:
    arrow = typed.arrow
    if typed.type is Type.TIME:
        return micros(name, arrow)
    if typed.type in (Type.TEXT, Type.BOOLEAN) or arrow in (pa.int64(), pa.float64()):
        return name
    return f"cast({name} AS {_TYPES[typed.type]})"


def micros(name: str, arrow: pa.DataType) -> str:
    """Microseconds since 1970 in UTC, whatever the session's time zone."""
    if pa.types.is_date(arrow):
        return f"(unix_date({name}) * 86400000000L)"
    if arrow.tz is not None:
        return f"unix_micros({name})"
    # unix_micros refuses a TIMESTAMP_NTZ before SPARK-57814 (4.3 has it), and a cast to TIMESTAMP would
    # read it in the session's time zone.
    seconds = f"(hour({name}) * 3600L + minute({name}) * 60L)"
    fraction = f"cast(extract(SECOND FROM {name}) * 1000000 AS BIGINT)"
    return f"(unix_date(cast({name} AS DATE)) * 86400000000L + {seconds} * 1000000L + {fraction})"
