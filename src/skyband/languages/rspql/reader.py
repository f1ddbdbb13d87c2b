"""RSP-QL: from a text to the queries that it registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rdflib import Variable

from skyband.errors import LanguageError, QueryError
from skyband.expressions.tree import Column, Node, to_sql
from skyband.languages.mapping import Mapping
from skyband.languages.rspql.clauses import Part, Statement, statements
from skyband.languages.rspql.matches import Match, both, needed, present
from skyband.languages.rspql.patterns import Path, Patterns
from skyband.languages.rspql.sparql import algebra
from skyband.languages.rspql.templates import Template
from skyband.languages.rspql.terms import Terms
from skyband.queries.decomposition import holds_aggregates
from skyband.queries.join import Join
from skyband.queries.query import LARGEST_K, HowMany, Order, Query


@dataclass(frozen=True)
class Registered:
    """A query, and what its text says of the stream."""

    query: Query
    stream: str  # its IRI
    id: str  # the column of ids
    paths: dict[Path, str]  # the columns of the window's pattern, by the predicates that lead to them from the subject
    template: Template | None = None  # what CONSTRUCT makes of the rows of an answer; None for SELECT


def read(text: str, mapping: Mapping | None = None) -> list[Registered]:
    """Read all queries of a text; the first mistake raises a LanguageError that says where."""
    mapping = mapping or Mapping()
    try:
        return [_Reading(statement, mapping).read() for statement in statements(text, mapping.prefixes)]
    except RecursionError:
        msg = "the query is nested too deeply, or an expression is too long"
        raise LanguageError(msg, text) from None


class _Reading:
    """Reads one statement."""

    def __init__(self, statement: Statement, mapping: Mapping) -> None:
        self.statement, self.mapping, self.fail = statement, mapping, statement.text.fail
        self.terms = Terms(statement, mapping.defined)

    def read(self) -> Registered:
        statement = self.statement
        window = self._window()
        whole = algebra(statement)
        pattern, limit, order = _unwrapped(whole.p)
        patterns = Patterns(self.terms, self.mapping)
        match = patterns.read(pattern)
        id_ = self._id(patterns, match)
        score, direction, k = self._ranking(order, limit, match, patterns, list(map(str, whole.PV or ())))
        if patterns.grouped is not None and not holds_aggregates(score):
            self.terms.fail("GROUP BY is for scores of aggregates, such as COUNT(*) or SUM(?volume)", "GROUP")
        implied = needed(score) | needed(both(match.where))
        demanded = [present(column) for column in dict.fromkeys(match.needs) if column not in implied]
        where = both([*match.where, *demanded])
        template = self._template(whole, match, score, id_, patterns)
        remote = None if patterns.remote is None else patterns.remote.column.name
        query = self._query(
            k=k, score=to_sql(score), window=window.window, where=None if where is None else to_sql(where),
            order=direction, distinct=statement.distinct, emit=statement.emit,
            partition_by=self._partition(match),
            select=tuple(dict.fromkeys(column for column in template.columns.values() if column != remote)),
            group_by=None if id_ == patterns.id else id_, **self._join(patterns, match, id_),
        )  # fmt: skip
        return Registered(query, str(window.stream), id_, patterns.paths, template if template.triples else None)

    def _query(self, **given: Any) -> Query:
        try:
            return Query(self.statement.name, **given)
        except QueryError as error:
            self.fail("; ".join(problem.split("\n")[0] for problem in error.problems), self.statement.head)

    def _window(self) -> Part:
        """Return the one window that the query is about, wherever it is declared."""
        used = [part for part in self.statement.parts if part.kind == "window"]
        for part in used:
            if part.window is None:
                declared = self.statement.declared.get(part.iri)
                if declared is None:
                    message = "this window is not declared; write FROM NAMED WINDOW … ON … [RANGE 9m STEP 3m]"
                    self.fail(message, part.token)
                part.window, part.stream = declared.window, declared.stream
        names = {(part.iri, part.window, part.stream) for part in used}
        if len(names) > 1:
            self.fail("a second window is not supported; a query is about one", used[-1].token)
        if not used:
            self.fail("no pattern stands in a WINDOW; write WINDOW :W {?a :b ?c}", self.statement.head)
        unused = [part for name, part in self.statement.declared.items() if name != used[0].iri]
        if unused:
            self.fail("this window is declared and not used", unused[0].token)
        return used[0]

    def _id(self, patterns: Patterns, match: Match) -> str:
        """Return the column of ids: the subject's, or what the query groups by."""
        if patterns.grouped is None or patterns.grouped == str(patterns.subject):
            return str(patterns.id)
        key = match.values.get(patterns.grouped)
        if not isinstance(key, Column):
            self.terms.fail(f"GROUP BY ?{patterns.grouped}, which is no column of the stream", "GROUP")
        return key.name

    def _ranking(
        self, order: list[Any], limit: int | None, match: Match, patterns: Patterns, selected: list[str]
    ) -> tuple[Node, Order, HowMany]:
        """Return the score, the direction, and how many.

        Without an order, a condition on a remote value asks for a set. Its score is ?score or
        what SELECT computes, else the remote value.
        """
        remote = patterns.remote
        ranks = order or limit is not None
        if not ranks and remote is not None and any(remote.column in needed(one) for one in match.where):
            values = {name: self.terms.convert(Variable(name), match.values) for name in selected}
            computed: list[Node] = [value for value in values.values() if not isinstance(value, Column)]
            if "score" in values and "score" not in patterns.variables:
                computed = [values["score"]]
            return computed[0] if computed else remote.column, "desc", "all"
        if len(order) != 1:
            what = "no ORDER BY" if not order else "more than one ORDER BY condition"
            message = f"there is {what}, so nothing to rank by; write ORDER BY DESC(?score) LIMIT 10"
            self.fail(message, self.statement.find("ORDER") or self.statement.head)
        if limit is None:
            self.fail("there is no LIMIT; say how many to rank: LIMIT 10", self.statement.find("ORDER"))
        if not 1 <= limit <= LARGEST_K:
            self.fail(f"k is {limit}; it must be from 1 to {LARGEST_K:,}", self.statement.find("LIMIT"))
        direction: Order = "desc" if order[0].order == "DESC" else "asc"
        return self.terms.convert(order[0].expr, match.values), direction, limit

    def _partition(self, match: Match) -> str | None:
        token = self.statement.partition
        return None if token is None else to_sql(self.terms.convert(Variable(token.text[1:]), match.values))

    def _template(self, whole: Any, match: Match, score: Node, id_: str, patterns: Patterns) -> Template:
        """Return where in the rows of answers the wanted variables are, with the triples of CONSTRUCT."""
        triples = tuple(whole.template) if whole.name == "ConstructQuery" else ()
        names = [str(term) for triple in triples for term in triple if isinstance(term, Variable)]
        found = Template(triples, set(), set(), {}, self.statement.prefixes[""])
        for name in names if triples else map(str, whole.PV):
            value = self.terms.convert(Variable(name), match.values)
            if value == Column(id_):
                found.ids.add(name)
            elif value == score and name not in patterns.variables:
                found.scores.add(name)
            elif isinstance(value, Column):
                found.columns[name] = value.name
            elif triples or sum(t.text[1:] == name for t in self.statement.tokens if t.kind == "variable") < 2:
                unused = "" if triples else ", and no other expression uses it"
                message = f"?{name} is computed{unused}; answers carry the id, the score and columns of the stream"
                self.terms.fail(message, f"?{name}")
        return found

    def _join(self, patterns: Patterns, match: Match, id_: str) -> dict[str, Any]:
        remote = patterns.remote
        if remote is None:
            return {}
        on = match.values.get(remote.on)
        if not isinstance(on, Column) or on == remote.column:
            message = f"?{remote.on} is in the SERVICE and in no WINDOW, so there is nothing to join by"
            self.fail(message, remote.part.token)
        if any(remote.column.name.lower() == name.lower() for name in (*patterns.paths.values(), id_)):
            message = f"the service is called {remote.column.name!r}, as a column of the stream is"
            self.fail(f"{message}; say in the mapping, under [services], what it is called", remote.part.token)
        options = self.mapping.join(remote.part.iri, self.statement.prefixes)
        try:
            return {"join": Join.from_dict({**({} if on.name == id_ else {"on": on.name}), **options})}
        except QueryError as error:
            self.fail("; ".join(error.problems), remote.part.token)


def _unwrapped(pattern: Any) -> tuple[Any, int | None, list[Any]]:
    """Take LIMIT, the projection and ORDER BY off an algebra."""
    limit, order = None, []
    if pattern.name == "Slice":
        limit, pattern = pattern.length, pattern.p
    if pattern.name == "Project":
        pattern = pattern.p
    if pattern.name == "OrderBy":
        order, pattern = pattern.expr, pattern.p
    return pattern, limit, order
