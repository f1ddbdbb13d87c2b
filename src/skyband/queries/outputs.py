"""Values with names: what `select`, `partition_by` and `group_by` list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from skyband.errors import InputError
from skyband.expressions import Expression, parse
from skyband.expressions.bind import find_column
from skyband.expressions.tree import Call, Column, to_sql
from skyband.order import IntArray

_NAMED = re.compile(r"(?P<value>.*\S)\s+as\s+(?P<quote>[`\"]?)(?P<name>\w+)(?P=quote)\s*", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Output:
    """A value and its name in answers, as ``sum(volume) AS volume``.

    Examples
    --------
    >>> one = named("price * volume AS turnover")
    >>> one.name, str(one.expression), one.column
    ('turnover', 'price * volume', None)
    >>> named("venue").column
    'venue'
    """

    name: str
    expression: Expression

    @property
    def column(self) -> str | None:
        """The column of the stream that this is, under its own name; None where it is computed or renamed."""
        tree = self.expression.tree
        return self.name if isinstance(tree, Column) and tree.name == self.name else None

    def type(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of the values; a bare column, whatever its name here, has its own.

        Raises
        ------
        InputError
            Where a column is missing, or of a type that the expression does not take.
        """
        if isinstance(node := self.expression.tree, Column):
            return find_column(node.name, schema).type
        return self.expression.bind(schema).arrow

    def worked_out(self, schema: pa.Schema) -> str:
        """Return which column holds the values where expressions are worked out before, each under its own text."""
        node = self.expression.tree
        return find_column(node.name, schema).name if isinstance(node, Column) else str(self.expression)

    def needs(self, schema: pa.Schema) -> list[str]:
        """Return the columns that the values are made of; one that is named as the expression is has them already."""
        if str(self.expression) in schema.names:
            return [str(self.expression)]
        return [find_column(name, schema).name for name in self.expression.columns]

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values over a batch."""
        if isinstance(node := self.expression.tree, Column):
            return batch.column(find_column(node.name, batch.schema).name)
        return self.expression.bind(batch.schema).values(batch)


@lru_cache(4096)
def named(text: str, *, aggregates: bool = False, expressions: bool = False) -> Output:
    """Read a value with a name.

    Parameters
    ----------
    text
        ``expression AS name``; without ``AS``, the name of a column.
    aggregates
        Whether the expression may hold aggregates.
    expressions
        Whether a text without ``AS`` is an expression too, which is called by its own text.

    Raises
    ------
    QueryError
        Where the expression cannot be read.
    """
    if match := _NAMED.fullmatch(text):
        return Output(match["name"], parse(match["value"], aggregates=aggregates))
    if not expressions:
        return plain(text)
    value = parse(text, aggregates=aggregates)
    return Output(value.tree.name if isinstance(value.tree, Column) else str(value), value)


def plain(column: str) -> Output:
    """Return a column of the stream under its own name."""
    node = Column(column)
    return Output(column, Expression(to_sql(node), node))


def carried(outputs: Sequence[Output], batch: pa.RecordBatch, rows: IntArray) -> pa.Table | None:
    """Return what some rows of a batch carry along, by name; None where that is nothing."""
    if not outputs:
        return None
    needed = {name: None for output in outputs for name in output.needs(batch.schema)}
    some = (batch.select(list(needed)) if needed else batch).take(pa.array(rows))
    return pa.table({output.name: output.values(some) for output in outputs})


def key_of(keys: Sequence[Output]) -> Expression | None:
    """Return what tells the values of some keys apart: the key itself, or of several, one text; None: there is none.

    Examples
    --------
    >>> str(key_of([named("venue")])), str(key_of([named("venue"), named("length(note) AS n")]))
    ('venue', 'key(CAST(venue AS STRING), CAST(length(note) AS STRING))')
    """
    if len(keys) < 2:
        return keys[0].expression if keys else None
    node = Call("key", tuple(Call("cast string", (key.expression.tree,)) for key in keys))
    return Expression(to_sql(node), node)


def check_keys(what: str, keys: Sequence[Output], schema: pa.Schema) -> None:
    """Refuse keys that have no one way to be written as text, where several make one."""
    for key in keys if len(keys) > 1 else ():
        kind = key.expression.bind(schema).type
        if kind in ("number", "time"):
            msg = (
                f"{what}: {key.expression} is a {kind}, and several keys are text, whole numbers or true and false: "
                f"write CAST({key.expression} AS BIGINT) AS {key.name if key.name.isidentifier() else 'name'}, or "
                "give it alone"
            )
            raise InputError(msg)
