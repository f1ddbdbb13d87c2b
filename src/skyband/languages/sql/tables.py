"""CREATE TABLE: what it says of the stream. Times, watermarks, keys and columns are used, connectors are not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from skyband.errors import LanguageError
from skyband.expressions.tree import Column, Node
from skyband.languages.sql.relations import Relation, Scan
from skyband.languages.sql.scopes import Scope
from skyband.languages.sql.statements import Item, Statement
from skyband.languages.sql.windows import Windows
from skyband.times import format_duration

_EPOCHS = {"0": "s", "3": "ms", "6": "us"}


@dataclass
class Table:
    """A table that a text describes."""

    scan: Scan
    computed: dict[str, Node]
    watermark: str | None = None
    key: str | None = None
    time_unit: str | None = None


def table_of(reader: Windows, statement: Statement) -> Table:
    """Read a CREATE TABLE."""
    name, items = statement.name or "", statement.items
    plain = None if items is None else tuple(one.names[0] for one in items if one.kind == "column")
    moments = tuple(one.names[0] for one in items or [] if one.kind == "column" and one.is_moment)
    # ksqlDB names the time among the options of a stream.
    found = Table(Scan(name, statement.options.get("timestamp"), columns=plain, moments=moments), {})
    for item in items or []:
        if item.kind == "computed":
            _computed(reader, found, item)
    for item in items or []:
        if item.kind == "key" and len(item.names) == 1:
            found.key = item.names[0]
        if item.kind == "watermark":
            _watermark(reader, found, item)
    return found


def _watermark(reader: Windows, table: Table, item: Item) -> None:
    """Read ``WATERMARK FOR ts AS ts - INTERVAL '5' SECOND``."""
    node = reader.text.parsed(item.expression)
    place = item.expression[0].start
    column, delay = node, 0
    if isinstance(node, exp.Sub):
        column, delay = node.this, reader.interval(node.expression, place)
    (name,) = item.names
    if not isinstance(column, exp.Column) or column.name != name:
        reader.text.fail(f"a watermark is {name}, or {name} - INTERVAL '5' SECOND", place)
    time = table.computed.get(name, Column(name))
    if not isinstance(time, Column):
        reader.text.fail(f"the column of time, {name!r}, is computed; event times are a column of the stream", place)
    table.scan = replace(table.scan, time=time.name)
    table.watermark = format_duration(delay)


def _computed(reader: Windows, table: Table, item: Item) -> None:
    """Read a computed column, ``total AS price * volume``; times that are made of another column are that column."""
    node, (name,) = reader.text.parsed(item.expression), item.names
    if isinstance(node, exp.Anonymous):
        function, args = str(node.this).upper(), node.expressions
        if function == "PROCTIME":
            reader.absent.add(name)
            return
        if function in ("TO_TIMESTAMP_LTZ", "TO_TIMESTAMP") and args and isinstance(args[0], exp.Column):
            unit = args[1].this if len(args) > 1 and isinstance(args[1], exp.Literal) else "0"
            if function == "TO_TIMESTAMP_LTZ":
                table.time_unit = _EPOCHS.get(unit)
            elif len(args) > 1:
                reader.text.fail(
                    "TO_TIMESTAMP with a format is not supported; give ISO 8601 texts", item.expression[0].start
                )
            table.computed[name] = Column(args[0].name)
            return
    if isinstance(node, exp.Cast | exp.TryCast) and isinstance(node.this, exp.Column) and "TIMESTAMP" in str(node.to):
        table.computed[name] = Column(node.this.name)
        return
    relation = Relation(table.scan, table.computed, whole=True)
    try:
        table.computed[name] = reader.convert(node, Scope({"": relation}), aggregates=False)
    except LanguageError as error:
        reader.text.fail(f"the column {name!r} cannot be computed: {error.message}", item.expression[0].start)
