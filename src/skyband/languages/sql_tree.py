"""A parsed statement, and which of its parts rules have used: what no rule used is refused, by its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from sqlglot import exp

_Node = TypeVar("_Node", bound=exp.Expression)


class Left(NamedTuple):
    """A part of a statement that no rule used."""

    node: exp.Expression
    key: str
    value: Any

    @property
    def name(self) -> str:
        """What it is called in SQL."""
        by_node = _NAMES_IN.get((type(self.node), self.key))
        return by_node or _NAMES.get(self.key) or self.key.strip("_").replace("_", " ").upper()

    @property
    def advice(self) -> str:
        """What to do instead, if there is something."""
        return _ADVICE.get(self.name, "")

    @property
    def inside(self) -> exp.Expression | None:
        """The part as a node, if it is one."""
        first = self.value[0] if isinstance(self.value, list) else self.value
        return first if isinstance(first, exp.Expression) else None


class Used:
    """The parts of one statement that rules have used."""

    def __init__(self) -> None:
        self._taken: set[tuple[int, str]] = set()
        self._whole: set[int] = set()

    def take(self, node: exp.Expression, key: str) -> Any:
        """Return one argument of a node, and note that it is used; what lies inside of it is not by that."""
        self._taken.add((id(node), key))
        return node.args.get(key)

    def whole(self, node: _Node) -> _Node:
        """Return a node, and note that all of it is used."""
        self._whole.add(id(node))
        return node

    def left(self, node: exp.Expression) -> Iterator[Left]:
        """Yield what is left of a node, from the outside."""
        if id(node) in self._whole:
            return
        for key, value in node.args.items():
            if value is None or value is False or value in ([], ""):
                continue
            if (id(node), key) not in self._taken:
                yield Left(node, key, value)
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, exp.Expression):
                    yield from self.left(part)


_NAMES = {
    "with_": "WITH", "joins": "JOIN", "group": "GROUP BY", "laterals": "LATERAL VIEW", "windows": "WINDOW",
    "hint": "a hint", "hints": "a hint", "sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY",
    "connect": "CONNECT BY", "locks": "FOR UPDATE", "sample": "TABLESAMPLE", "pivots": "PIVOT", "alias": "an alias",
    "kind": "SELECT AS", "match": "MATCH_RECOGNIZE", "order": "ORDER BY", "version": "a version of the table",
    "when": "a version of the table", "ordinality": "WITH ORDINALITY", "siblings": "ORDER SIBLINGS BY",
    "exists": "IF NOT EXISTS", "operation_modifiers": "a modifier of SELECT", "columns": "a list of new column names",
    "spec": "a frame of rows", "expressions": "a list", "except_": "EXCEPT",
    "db": "a name with a dot", "catalog": "a name with a dot",
}  # fmt: skip
_NAMES_IN = {
    (exp.Limit, "expressions"): "LIMIT … BY",
    (exp.Window, "alias"): "a named window",
}
_ADVICE = {
    "WITH TIES": "equal scores are ranked by time, then by id, and k rows are k rows",
    "PERCENT": "say how many rows: LIMIT 10",
    "LIMIT … BY": "for the best of each group write ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)",
    "NULLS FIRST": "rows without a score are not ranked at all",
    "a list of new column names": "answers carry columns under their own names",
    "OFFSET": "an answer begins with the best",
}
