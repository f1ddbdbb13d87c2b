"""The small tree that every expression becomes: columns, literals and calls; nothing else exists.

Operators, CASE, IN, LIKE and casts are calls too, by the names in `skyband.expressions.functions`; that a
call is allowed, and what it means in NumPy and in Spark, is written there and only there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from sqlglot.dialects.spark import Spark


class Type(StrEnum):
    """What a value is; NULL is the type of a bare NULL until its neighbours say more."""

    NUMBER = "number"
    INTEGER = "integer"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIME = "time"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the stream, by the name that was written."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; kept as text because in Python ``1 == 1.0 == True`` and ``0.0 == -0.0``.

    Examples
    --------
    >>> Literal(Type.INTEGER, "1") == Literal(Type.NUMBER, "1.0")
    False
    """

    type: Type
    text: str

    @property
    def value(self) -> float | int | str | bool | None:
        """The constant as a Python value; a time is its microseconds since 1970 in UTC."""
        match self.type:
            case Type.NUMBER:
                return float(self.text)
            case Type.INTEGER | Type.TIME:
                return int(self.text)
            case Type.BOOLEAN:
                return self.text == "TRUE"
            case Type.NULL:
                return None
            case _:
                return self.text


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function with its arguments."""

    name: str
    args: tuple[Node, ...]


Node: TypeAlias = Column | Literal | Call

TRUE, FALSE = Literal(Type.BOOLEAN, "TRUE"), Literal(Type.BOOLEAN, "FALSE")
NULL = Literal(Type.NULL, "NULL")

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that sqlglot would read as something else than a column; IF and friends are no keywords to it.
_RESERVED = frozenset(Spark.Tokenizer.KEYWORDS) | {"IF", "ANY", "CASE", "TRANSFORM", "CONNECT_BY_ROOT"}
_INFIX = frozenset(("+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or", "like"))
_WRITTEN = {"not": "NOT {0}", "neg": "-{0}", "is null": "{0} IS NULL", "between": "{0} BETWEEN {1} AND {2}"}


def negated(node: Node) -> Node:
    """Return a number with the other sign; a constant stays one."""
    if isinstance(node, Literal) and node.type in (Type.INTEGER, Type.NUMBER):
        return Literal(node.type, str(-int(node.text)) if node.type is Type.INTEGER else repr(-float(node.text)))
    return Call("neg", (node,))


def columns(node: Node) -> Iterator[str]:
    """Yield the name of every column under `node`, as often as it stands there."""
    if isinstance(node, Column):
        yield node.name
    elif isinstance(node, Call):
        for arg in node.args:
            yield from columns(arg)


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """Return a tree over columns of other names.

    Examples
    --------
    >>> to_sql(renamed(Call("+", (Column("a"), Column("b"))), {"a": "x"}))
    'x + b'
    """
    if isinstance(node, Column):
        return Column(names.get(node.name, node.name))
    return Call(node.name, tuple(renamed(arg, names) for arg in node.args)) if isinstance(node, Call) else node


def to_sql(node: Node) -> str:
    """Write a tree as SQL that parses back to the same tree.

    Examples
    --------
    >>> to_sql(Call("*", (Column("price"), Call("ln", (Column("a b"),)))))
    'price * ln(`a b`)'
    """
    if isinstance(node, Column):
        if _BARE.fullmatch(node.name) and node.name.upper() not in _RESERVED:
            return node.name
        return "`" + node.name.replace("`", "``") + "`"
    if isinstance(node, Literal):
        if node.type is Type.TEXT:
            return "'" + node.text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return node.text
    plain = [to_sql(arg) for arg in node.args]
    return _call_to_sql(node.name, [_nested(arg, text) for arg, text in zip(node.args, plain, strict=True)], plain)


def _nested(node: Node, text: str) -> str:
    """Put the text of an operand in brackets unless it cannot be misread ("--" would begin a comment)."""
    if isinstance(node, Call):
        closed = node.name.startswith("cast ") or text.startswith(f"{node.name}(")
    else:
        closed = not text.startswith("-")
    return text if closed else f"({text})"


def case_sql(head: str, *args: str) -> str:
    """Write a CASE: condition, value, condition, value, …, and the value of ELSE."""
    pairs = zip(args[:-1:2], args[1:-1:2], strict=True)
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"{head} {whens} ELSE {args[-1]} END"


def _call_to_sql(name: str, nested: list[str], plain: list[str]) -> str:
    if name in _INFIX:
        return f" {name.upper()} ".join(nested)
    if name in _WRITTEN:
        return _WRITTEN[name].format(*nested)
    match name.split():
        case ["in"]:
            return f"{nested[0]} IN ({', '.join(plain[1:])})"
        case ["case"]:
            return case_sql("CASE", *plain)
        case ["switch"]:
            return case_sql(f"CASE {plain[0]}", *plain[1:])
        case ["count"] if not plain:
            return "count(*)"
        case ["count", "distinct"]:
            return f"count(DISTINCT {plain[0]})"
        case ["cast", target]:
            return f"CAST({plain[0]} AS {target.upper()})"
    return f"{name}({', '.join(plain)})"
