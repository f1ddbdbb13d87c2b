"""Values with names: what `select`, `partition_by` and `group_by` list."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from skyband.expressions import Expression, parse
from skyband.expressions.tree import Column, to_sql

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
        column = Column(text)
        return Output(text, Expression(to_sql(column), column))
    value = parse(text, aggregates=aggregates)
    return Output(value.tree.name if isinstance(value.tree, Column) else str(value), value)
