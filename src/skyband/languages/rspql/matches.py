"""What a part of a pattern gives, and the conditions under which a row matches it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from skyband.expressions.functions import FUNCTIONS, OPERATORS
from skyband.expressions.tree import Call, Column, Node

_LENIENT = {
    "<=>", "and", "or", "is null", "in", "between", "case", "switch", "isnan", "nanvl", "least", "greatest", "coalesce",
    "nullif",
}  # fmt: skip
_STRICT = (set(OPERATORS) | set(FUNCTIONS)) - _LENIENT


@dataclass(frozen=True)
class Match:
    """What a pattern gives: values of its variables, columns that must be there, and conditions."""

    values: dict[str, Node] = field(default_factory=dict)
    needs: tuple[Node, ...] = ()
    where: tuple[Node, ...] = ()

    @property
    def condition(self) -> tuple[Node, ...]:
        """All that must be true of a row that matches."""
        return (*(present(column) for column in dict.fromkeys(self.needs)), *self.where)

    def joined(self, other: Match) -> Match:
        """Return what both patterns give together; a variable of both has the same value in both."""
        equal = [
            Call("=", (self.values[name], value))
            for name, value in other.values.items()
            if name in self.values and self.values[name] != value
        ]
        values = {**other.values, **self.values}
        return Match(values, (*self.needs, *other.needs), (*self.where, *other.where, *equal))


def present(column: Node) -> Node:
    """Say that a column is there."""
    return Call("not", (Call("is null", (column,)),))


def both(conditions: Iterable[Node]) -> Node | None:
    """Join conditions by AND; None where there is none."""
    flat: list[Node] = []
    for one in conditions:
        flat += one.args if isinstance(one, Call) and one.name == "and" else [one]
    return None if not flat else flat[0] if len(flat) == 1 else Call("and", tuple(flat))


def needed(node: Node | None) -> frozenset[Node]:
    """Return the columns without which an expression is NULL, or a condition not true.

    Examples
    --------
    >>> from skyband.expressions import parse
    >>> sorted(column.name for column in needed(parse("a + b > 1 AND coalesce(c, 1) = d").tree))
    ['a', 'b', 'd']
    """
    if isinstance(node, Column):
        return frozenset((node,))
    if not isinstance(node, Call):
        return frozenset()
    if node.name == "not" and isinstance(node.args[0], Call):
        inner = node.args[0]
        if inner.name == "is null":
            return needed(inner.args[0])
        return needed(inner) if inner.name in _STRICT else frozenset()
    if node.name in _STRICT or node.name.startswith("cast ") or node.name == "and":
        return frozenset().union(*map(needed, node.args))
    return frozenset()
