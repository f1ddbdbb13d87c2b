"""Expressions in the scope of a SELECT: each name becomes what it stands for, over the stream's columns."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import exp

from skyband.expressions.parse import position
from skyband.expressions.tree import NULL, Call, Literal, Node, Type
from skyband.languages.sql.relations import END, START, WINDOW, Relation
from skyband.languages.sql.text import SqlText, Used
from skyband.queries.decomposition import holds_aggregates

# What may stand in nodes that are read here, and not by the table of expressions.
_KEYS: dict[type, set[str]] = {
    exp.Column: {"this", "table", "db", "catalog"},
    exp.Div: {"this", "expression", "typed", "safe"},
    exp.Filter: {"this", "expression"},
    exp.Cast: {"this", "to", "safe", "_type"},
    exp.TryCast: {"this", "to", "safe", "_type"},
    exp.Anonymous: {"this", "expressions"},
}
_EDGES = {"start": START, "end": END, "window_start": START, "window_end": END}


@dataclass
class Scope:
    """The names that an expression may use.

    Parameters
    ----------
    sources
        What FROM lists, by alias.
    aliases
        What SELECT calls values, where they may be used.
    first
        Whether a bare name is an alias rather than a column, as in ORDER BY.
    outer
        The scope around a LATERAL query.
    """

    sources: Mapping[str, Relation]
    aliases: Mapping[str, Node] = field(default_factory=dict)
    first: bool = False
    outer: Scope | None = None


class Expressions(Used):
    """Converts expressions."""

    def __init__(self, text: SqlText) -> None:
        super().__init__(text)
        self.scope = Scope({})
        self.absent: set[str] = set()  # columns of processing time
        text.rule = self._rule

    def convert(self, node: exp.Expression, scope: Scope, *, aggregates: bool = True) -> Node:
        """Return an expression; the table of expressions refuses what it does not use."""
        before = self.scope, self.text.aggregates
        self.scope, self.text.aggregates = scope, aggregates
        try:
            return self.text.convert(self.whole(node))
        finally:
            self.scope, self.text.aggregates = before

    def special(self, node: exp.Expression, depth: int) -> Node | None:  # noqa: ARG002 - for those that know more
        """Return what a function of windows or a ranking means; None where it is neither."""
        return None

    def _rule(self, node: exp.Expression, depth: int) -> Node | None:
        """Return what an expression means that SQL reads otherwise than the table of expressions."""
        used = {key for key, value in node.args.items() if value not in (None, False, [])}
        if not used <= _KEYS.get(type(node), used):
            self.text.refuse(node)
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            return self._column(node)
        if isinstance(node, exp.Div):
            name = "div" if self.text.spelling.truncates else "/"
            return Call(name, (self.text.convert(node.this, depth + 1), self.text.convert(node.expression, depth + 1)))
        if isinstance(node, exp.Anonymous):
            for arg in node.expressions:
                if isinstance(arg, exp.Star) and any(arg.args.values()):
                    self.text.refuse(arg)  # COUNT(* EXCEPT (a))
        if isinstance(node, exp.Filter):
            return self._filtered(node, depth)
        if isinstance(node, exp.In) and node.args.get("query"):
            self.fail("IN (SELECT …) is not supported; list the values, as IN ('a', 'b')", node)
        if isinstance(node, exp.Cast | exp.TryCast) and (moment := _moment(node)) is not None:
            return moment
        return self.special(node, depth)

    def _filtered(self, node: exp.Filter, depth: int) -> Node:
        """Read ``SUM(x) FILTER (WHERE y)``: the sum of x where y, and of NULL elsewhere."""
        inner, condition = self.text.convert(node.this, depth + 1), self.text.convert(node.expression.this, depth + 1)
        if not isinstance(inner, Call) or not holds_aggregates(inner) or any(map(holds_aggregates, inner.args)):
            self.fail("FILTER stands behind one aggregate", node)
        value = inner.args[0] if inner.args else Literal(Type.INTEGER, "1")
        return Call(inner.name, (Call("case", (condition, value, NULL)),))

    # Names.

    def _column(self, node: exp.Column) -> Node:
        parts = node.parts
        for part in parts:
            if not isinstance(part, exp.Identifier) or set(part.args) - {"this", "quoted"}:
                self.text.refuse(part)
        *path, name = (part.name for part in parts)
        if not path:
            return self._bare(node, name)
        found = self._qualified(path, name)
        if found is None and len(path) == 1 and name.lower() in _EDGES and self._is_window(path[0]):
            return _EDGES[name.lower()]
        if found is None:
            self._unknown_qualifier(node, path, name)
        return found

    def _qualified(self, path: list[str], name: str) -> Node | None:
        scope: Scope | None = self.scope
        while scope is not None:
            for alias, relation in scope.sources.items():
                known = relation.scan.table.split(".")
                if path == [alias] or [one.lower() for one in path] == [alias.lower()]:
                    return self._in(relation, name)
                if not alias and [one.lower() for one in path] == [one.lower() for one in known[-len(path) :]]:
                    return self._in(relation, name)
            scope = scope.outer
        return None

    def _is_window(self, name: str) -> bool:
        found = self.scope.aliases.get(name)
        sources = self.scope.sources.values()
        return WINDOW in (found, *(one.columns.get(name) for one in sources if name in one.columns)) or (
            name.lower() == "window" and any(one.windowed for one in sources)
        )

    def _bare(self, node: exp.Column, name: str) -> Node:
        scope: Scope | None = self.scope
        if self.scope.first and name in self.scope.aliases:
            return self.scope.aliases[name]
        while scope is not None:
            found = [(one, value) for one in scope.sources.values() if (value := one.find(name)) is not None]
            sure = [value for one, value in found if one.knows(name)]
            values = list(dict.fromkeys(sure or [value for _, value in found]))
            if name.lower() == "window" and not sure and name not in scope.aliases and self._is_window(name):
                return WINDOW  # Spark's column of windows
            if name in scope.aliases and not sure:
                return scope.aliases[name]
            if len(values) > 1:
                self.fail(f"{name!r} is a column of more than one table; write which one's, as t.{name}", node)
            if values:
                return values[0]
            scope = scope.outer
        self._unknown(node, name)

    def _in(self, relation: Relation, name: str) -> Node:
        found = relation.find(name)
        if found is None:
            self._unknown(None, name, relation)
        return found

    def _unknown(self, node: exp.Column | None, name: str, relation: Relation | None = None) -> NoReturn:
        sources = [relation] if relation is not None else list(self.scope.sources.values())
        names = [one for source in sources for one in (*source.columns, *(source.scan.columns or ()))]
        if name in self.absent:
            message = f"{name!r} is processing time, which is not supported: windows and orders are of event time"
            self.text.fail(message, position(node) if node is not None else None)
        near = difflib.get_close_matches(name, names, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        place = position(node) if node is not None else self.text.word(name.upper(), None)
        self.text.fail(
            f"there is no column {name!r} here{hint}; there are {', '.join(map(repr, names)) or 'none'}", place
        )

    def _unknown_qualifier(self, node: exp.Column, path: list[str], name: str) -> NoReturn:
        known = [alias or one.scan.table for alias, one in self.scope.sources.items()]
        whole = ".".join((*path, name))
        self.fail(
            f"{'.'.join(path)!r} is no table here; FROM has {', '.join(map(repr, known))}. Fields inside a column are "
            f"not supported; if the column is called {whole!r}, quote it as one name",
            node,
        )


def renamed(relation: Relation, names: list[str]) -> Relation:
    """Give the columns of a relation other names, in order."""
    return replace(relation, columns=dict(zip(names, relation.columns.values(), strict=True)))


def _moment(node: exp.Expression) -> Node | None:
    """Return the text of ``TIMESTAMP '2024-05-01 09:00:00'``: times are compared with texts."""
    kind = node.args["to"].this
    names = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATE", "DATETIME")
    literal = node.this
    if getattr(kind, "value", "") in names and isinstance(literal, exp.Literal) and literal.is_string:
        return Literal(Type.TEXT, literal.this)
    return None
