"""Queries as RSP-QL, which `skyband.parse` reads back as the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

from skyband.errors import QueryError
from skyband.expressions.parse import PLAIN_AGGREGATES
from skyband.expressions.tree import Call, Column, Literal, Node, Type, columns
from skyband.languages.mapping import DEFAULT_NAMESPACE
from skyband.languages.rspql.extents import write_window
from skyband.languages.rspql.matches import needed
from skyband.queries.decomposition import holds_aggregates
from skyband.queries.query import MAX_ROWS, Query

_KINDS = {"final": "STREAM", "entered": "ISTREAM", "left": "DSTREAM", "changes": "IDSTREAM"}
_INFIX = {"=": "=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "&&", "or": "||", "+": "+", "-": "-",
          "*": "*", "/": "/"}  # fmt: skip
_FUNCTIONS = {
    "abs": "ABS", "ceil": "CEIL", "floor": "FLOOR", "round": "ROUND", "length": "STRLEN", "upper": "UCASE",
    "lower": "LCASE", "concat": "CONCAT", "coalesce": "COALESCE", "%": "mod", "is null": "isnull", "<=>": "same",
    "cast double": "xsd:double", "cast bigint": "xsd:integer", "cast int": "xsd:int", "cast string": "xsd:string",
}  # fmt: skip
_XSD = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def write(query: Query, id: str, stream: str) -> str:  # noqa: A002 - as everywhere
    """Write a query in RSP-QL; see `skyband.to_rspql`."""
    if query.emit not in _KINDS:
        msg = f"RSP-QL has no words for emit={query.emit!r}; use {', '.join(map(repr, _KINDS))}"
        raise QueryError(msg, query.name)
    if query.window.kind != "sliding":
        msg = f"RSP-QL has no words for {query.window!r}; it has windows that slide, by size and slide"
        raise QueryError(msg, query.name)
    if query.is_set and query.max_rows != MAX_ROWS:
        msg = f"RSP-QL has no words for max_rows={query.max_rows}; leave it out"
        raise QueryError(msg, query.name)
    if not _PLAIN.fullmatch(id):
        msg = f"the id is called {id!r}, which is no name of a variable; use letters, digits and _"
        raise QueryError(msg, query.name)
    if isinstance(query.where_expression and query.where_expression.tree, Literal):
        msg = f"the condition {query.where!r} is a constant, which RSP-QL does not filter by; leave it out"
        raise QueryError(msg, query.name)
    if beyond := _beyond(query):
        msg = f"RSP-QL has no {', no '.join(beyond)}; leave it out to write the query"
        raise QueryError(msg, query.name)
    return _Writing(query, id).text(stream)


def _beyond(query: Query) -> list[str]:
    """List what a query has that RSP-QL has no words for."""
    given = {
        "partition_by with several keys or a name": bool(query.key_columns) and query.partition_by is not None,
        "group_by with several keys or an expression": any(key.column is None for key in query.group_keys)
        or len(query.group_keys) > 1,
        "select with expressions": any(output.column is None for output in query.outputs),
        "approx_count_distinct": "approx_count_distinct(" in str(query.score_expression),
        "having": query.having is not None,
        "ties": query.ties is not None,
        "prefer": query.prefer != "latest",
    }
    return [what for what, there in given.items() if there]


class _Writing:
    """Writes one query."""

    def __init__(self, query: Query, id_: str) -> None:
        self.query, self.id = query, id_
        trees = [query.score_expression, query.where_expression, query.partition_expression]
        self.score, self.where, self.partition = (None if one is None else one.tree for one in trees)
        used = [name for one in (self.score, self.where, self.partition) if one is not None for name in columns(one)]
        self.remote = None if query.join is None else query.join.service
        self.key = query.group_keys[0].name if query.group_keys else id_
        on = self.key if query.join is None else query.join.on or self.key
        names = dict.fromkeys([*sorted(set(used)), *query.select, on, self.key])
        self.columns = [name for name in names if name not in (id_, self.remote)]
        self.variables = {id_: id_}
        for name in self.columns if self.remote is None else [*self.columns, self.remote]:
            self.variables[name] = self._fresh(name)

    def _fresh(self, name: str) -> str:
        taken = {*self.variables.values(), "score", "partition"}
        if _PLAIN.fullmatch(name) and name not in taken:
            return name
        return next(name for number in range(1, len(taken) + 2) if (name := f"v{number}") not in taken)

    def text(self, stream: str) -> str:
        query = self.query
        assert self.score is not None
        distinct = "" if query.distinct is None else f"DISTINCT {query.distinct.upper()} "
        key = self.variables[self.key]
        selected = "".join(f"?{self.variables[name]} " for name in query.select if name != self.key)
        lines = [
            f"REGISTER {_KINDS[query.emit]} {_name(query.name)} AS",
            f"SELECT {distinct}?{key} {selected}({self._write(self.score)} AS ?score)",
            f"FROM NAMED WINDOW :W ON {_name(stream)} {write_window(query.window)}",
            "WHERE {",
            *(f"  {line}" for line in self._pattern()),
            "}",
        ]
        if holds_aggregates(self.score):
            lines.append(f"GROUP BY ?{key}")
        if self.partition is not None:
            lines.append(f"PARTITION BY ?{self._partition_variable()}")
        if not query.is_set:
            lines += [f"ORDER BY {'DESC' if query.order == 'desc' else 'ASC'}(?score)", f"LIMIT {query.k}"]
        text = "\n".join(lines)
        return (_XSD if "xsd:" in text else "") + text

    def _partition_variable(self) -> str:
        return self.variables[self.partition.name] if isinstance(self.partition, Column) else "partition"

    def _pattern(self) -> Iterator[str]:
        needs = {column.name for column in needed(self.score) | needed(self.where) if isinstance(column, Column)}
        triples = {name: f"?{self.id} {_name(name)} ?{self.variables[name]}" for name in self.columns}
        yield "WINDOW :W {"
        yield from (f"  {triple} ." for name, triple in triples.items() if name in needs)
        yield from (f"  OPTIONAL {{ {triple} }}" for name, triple in triples.items() if name not in needs)
        if not triples:
            yield f"  OPTIONAL {{ ?{self.id} :any ?any }}"
        yield "}"
        if self.query.join is not None and self.remote is not None:
            on = self.variables[self.query.join.on or self.id]
            yield f"SERVICE {_name(self.remote)} {{ ?{on} :value ?{self.variables[self.remote]} }}"
        if self.where is not None:
            yield f"FILTER ({self._write(self.where)})"
        if self.partition is not None and not isinstance(self.partition, Column):
            yield f"BIND ({self._write(self.partition)} AS ?partition)"

    # Expressions.

    def _write(self, node: Node) -> str:
        if isinstance(node, Column):
            return f"?{self.variables[node.name]}"
        if isinstance(node, Literal):
            return _constant(node)
        args = [self._write(arg) for arg in node.args]
        if node.name in PLAIN_AGGREGATES:
            return f"{node.name.upper()}({args[0] if args else '*'})"
        if node.name == "count distinct":
            return f"COUNT(DISTINCT {args[0]})"
        if node.name == "case" and len(args) == 3:
            return f"IF({', '.join(args)})"
        nested = [self._nested(arg, text) for arg, text in zip(node.args, args, strict=True)]
        if node.name in _INFIX:
            return f" {_INFIX[node.name]} ".join(nested)
        match node:
            case Call("not", (Call("is null", (Column(name),)),)):
                return f"BOUND(?{self.variables[name]})"
            case Call("is null", (Column(name),)):
                return f"!BOUND(?{self.variables[name]})"
            case Call("not"):
                return f"!{nested[0]}"
            case Call("neg"):
                return f"-{nested[0]}"
            case Call("in"):
                return f"{nested[0]} IN ({', '.join(args[1:])})"
        return f"{_FUNCTIONS.get(node.name, node.name)}({', '.join(args)})"

    def _nested(self, node: Node, text: str) -> str:
        """Put an operand in brackets unless it cannot be misread."""
        infix = isinstance(node, Call) and node.name in (*_INFIX, "in")
        return f"({text})" if infix or text[0] in "!-" else text


def _constant(node: Literal) -> str:
    if node.type is Type.TEXT:
        return '"' + "".join(_ESCAPES.get(character, character) for character in node.text) + '"'
    return {"TRUE": "true", "FALSE": "false", "NULL": "null()"}.get(node.text, node.text)


def _name(name: str) -> str:
    """Write a name so that the last part of its IRI is the name."""
    if _PLAIN.fullmatch(name):
        return f":{name}"
    return f"<{DEFAULT_NAMESPACE}{quote(name, safe='')}>"
