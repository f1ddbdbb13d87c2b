"""Spellings of SQL: sqlglot's grammar, with quotes and division as each family of engines has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot.tokens import TokenType

from skyband.errors import QueryError
from skyband.expressions.parse import Dialect

DEFAULT = "flink"


class SparkSql(Dialect):
    """Spark's: a name stands in back-quotes, a text in either quotes."""

    NULL_ORDERING = "nulls_are_last"  # so that NULLS FIRST is in the tree where it was written, and only there


class FlinkSql(SparkSql):
    """Standard SQL's quotes, and back-quotes too; a backslash is a character like others."""

    class Tokenizer(Dialect.Tokenizer):
        """Words."""

        QUOTES: ClassVar[list[str]] = ["'"]
        IDENTIFIERS: ClassVar[list[str]] = ["`", '"']
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]
        VAR_SINGLE_TOKENS: ClassVar[set[str]] = {"$"}  # $rowtime is a name
        SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
            sign: kind for sign, kind in Dialect.Tokenizer.SINGLE_TOKENS.items() if sign != "$"
        }


@dataclass(frozen=True)
class Spelling:
    """How a family of engines writes SQL.

    Parameters
    ----------
    grammar
        What sqlglot reads it by.
    truncates
        Whether ``/`` of two integers is an integer.
    """

    grammar: type[Dialect]
    truncates: bool


DIALECTS = {
    "flink": Spelling(FlinkSql, truncates=True),
    "spark": Spelling(SparkSql, truncates=False),
    "postgres": Spelling(FlinkSql, truncates=True),
    "ksqldb": Spelling(FlinkSql, truncates=True),
}


def find(name: str) -> Spelling:
    """Return a dialect by its name.

    Examples
    --------
    >>> find("spark").truncates
    False
    """
    if name not in DIALECTS:
        msg = f"there is no dialect {name!r} of SQL; use {', '.join(map(repr, DIALECTS))}"
        raise QueryError(msg)
    return DIALECTS[name]
