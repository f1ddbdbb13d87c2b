"""FROM: tables, windows over them, queries in brackets, queries of WITH and views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from skyband.expressions.tree import Column, Node
from skyband.languages.sql.joins import Environment, Joins
from skyband.languages.sql.relations import WINDOW_COLUMNS, Relation, Scan
from skyband.languages.sql.scopes import Scope, renamed
from skyband.languages.sql.text import SqlText, words_of

_PATH = ("catalog", "db", "table", "this")  # the parts of a table's name


class Sources(Joins):
    """Reads what queries read from."""

    def __init__(self, text: SqlText, tables: Mapping[str, Scan]) -> None:
        super().__init__(text)
        self.tables = tables
        self.computed: dict[str, Mapping[str, Node]] = {}
        self.named: set[int] = set()  # queries of WITH that nothing has used yet

    def query(self, node: exp.Expression, known: Environment, outer: Scope | None = None) -> Relation:
        """Return what a query yields; `known` has the views and the queries of WITH around it."""
        while isinstance(node, exp.Subquery) and node.args.get("alias") is None:
            node = self.take(node, "this")
        if not isinstance(node, exp.Select):
            self.fail(f"{words_of(node)} is not supported; write SELECT … FROM HOP(…) … ORDER BY … LIMIT 10", node)
        known = self._with(node, known)
        self.grouped.append(None)
        try:
            found = self._select(node, known, outer)
        finally:
            self.grouped.pop()
        self._all_used(node)
        return found

    def _with(self, select: exp.Select, known: Environment) -> Environment:
        """Return what is known inside: the queries of WITH, each of which knows those before it."""
        found: dict[str, Callable[[], Relation]] = dict(known)
        if (given := self.take(select, "with_")) is None:
            return found
        for one in self.take(given, "expressions"):
            alias, before = self.take(one, "alias"), dict(found)
            name = self.name(alias, "this")
            names = self.names(alias, "columns")
            body = self.take(one, "this")

            def read(body: exp.Expression = body, before: Environment = before, names: list[str] = names) -> Relation:
                self.named.discard(id(body))
                return self.called(self.query(body, before), names, body)

            self.named.add(id(body))
            found[str(name)] = read
        return found

    def _all_used(self, select: exp.Select) -> None:
        """Refuse a query of WITH that none uses."""
        for one in select.args["with_"].expressions if select.args.get("with_") else []:
            if id(one.this) in self.named:
                self.fail(f"nothing uses the query {one.alias!r} of WITH; leave it out", one)

    # FROM.

    def _select(self, select: exp.Select, known: Environment, outer: Scope | None) -> Relation:
        source = self.take(select, "from_")
        if source is None:
            self.fail("there is no FROM; write FROM TUMBLE(trades, ts, INTERVAL 1 HOUR)", select)
        alias, relation = self.source(self.take(source, "this"), known, outer)
        joins = self.take(select, "joins") or []
        if joins:
            return self._joined(select, (alias, relation), joins, known, outer)
        return self._level(select, relation, Scope({alias: relation}, outer=outer))

    def source(self, node: exp.Expression, known: Environment, outer: Scope | None) -> tuple[str, Relation]:
        """Return what one item of FROM is called, and what it yields."""
        if isinstance(node, exp.Subquery):
            relation = self.query(self.take(node, "this"), known, outer)
            return self._aliased(node, "", relation)
        if not isinstance(node, exp.Table):
            self.fail(f"{words_of(node)} in FROM is not supported; name a table, or put a query in brackets", node)
        call = node.this
        if not isinstance(call, exp.Anonymous):
            return self._table(node, known)
        self.take(node, "this")
        args = self.arguments(call)
        data = args[0] if args else None
        if isinstance(data, exp.Column):
            inner = self._named([str(self.name(data, key)) for key in _PATH if data.args.get(key)], known)
        elif isinstance(data, exp.Subquery):
            _, inner = self.source(data, known, outer)
        else:
            self.fail("here comes the name of a table", data, call)
        return self._aliased(node, "", self.table_function(call, inner, args))

    def _table(self, node: exp.Table, known: Environment) -> tuple[str, Relation]:
        if not all(isinstance(part, exp.Identifier) for part in node.parts):
            self.fail("FROM names a table, a query in brackets, or windows over a table", node)
        path = [str(self.name(node, key)) for key in _PATH if node.args.get(key)]
        relation = self._named(path, known)
        if relation.whole and relation.keys is None:
            scan = self.clause(node, relation.scan)
            relation = replace(relation, scan=scan, direct=relation.direct or scan is not relation.scan)
        return self._aliased(node, path[-1], relation)

    def _named(self, path: list[str], known: Environment) -> Relation:
        alike = [one for one in known if [one.lower()] == [part.lower() for part in path]]
        if len(alike) == 1 or path[0] in alike:
            return known[path[0] if path[0] in alike else alike[0]]()
        name = ".".join(path)
        scan = self.tables.get(name) or self.tables.get(path[-1]) or self.tables.get("")
        found = Scan(name) if scan is None else replace(scan, table=name)
        return Relation(found, self.computed.get(path[-1], {}), whole=True)

    def _aliased(self, node: exp.Expression, name: str, relation: Relation) -> tuple[str, Relation]:
        alias = self.take(node, "alias")
        if alias is None:
            return name, relation
        names = self.names(alias, "columns")
        return self.name(alias, "this") or name, self.called(relation, names, alias)

    def called(self, relation: Relation, names: list[str], node: exp.Expression) -> Relation:
        """Give the columns other names."""
        if not names:
            return relation
        if relation.whole:
            if relation.scan.columns is None:
                self.fail("new names for columns need a CREATE TABLE that lists those of the table", node)
            known: dict[str, Node] = {name: Column(name) for name in relation.scan.columns}
            edges = WINDOW_COLUMNS if relation.windowed else {}
            relation = replace(relation, columns={**known, **relation.columns, **edges}, whole=False)
        if len(names) != len(relation.columns):
            self.fail(f"there are {len(names)} new names for {len(relation.columns)} columns", node)
        return renamed(relation, names)
