"""The pattern of a window as columns: which one each variable is, and which rows match.

A pattern is about one thing, its subject, and what hangs on it: ``?trade :price ?p ; :venue ?v``, also further down,
``?reading :result [ :value ?v ]``. A row is such a thing with its columns; it matches where the columns that the
pattern demands are there. OPTIONAL gives columns that may be missing. Of the sides of a UNION, a row takes the first
that it matches: where it matches several, SPARQL would count it several times, and a ranking of rows counts it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rdflib import BNode, URIRef, Variable

from skyband.expressions.parse import AGGREGATES
from skyband.expressions.tree import NULL, Call, Column, Node
from skyband.languages.rspql.matches import Match, both, present
from skyband.languages.rspql.statement import Part
from skyband.languages.rspql.terms import Terms

Path = tuple[str, ...]
_PATH_SIGNS = ("+", "/", "|", "^", "*", "?", "!")


@dataclass(frozen=True)
class Remote:
    """A service that is joined: its value as a column, the variable by which, and where it stands."""

    column: Column
    on: str
    part: Part


class Patterns:
    """Reads the algebra of one query's pattern.

    Parameters
    ----------
    terms
        For expressions, and for errors.
    parts
        The windows and services of the query, by the IRIs that stand for them.
    column
        Returns the column of a path of predicates.
    id
        The column of the subject; None: it is called as its variable is.
    service
        Returns the name of a service, which its value is called by.

    Attributes
    ----------
    subject
        The variable that the window's pattern is about.
    paths
        The columns, by the paths of predicates that lead to them.
    variables
        The variables that triples of the window give values to.
    remote
        The service that is joined, as a column; and the variable by which.
    """

    def __init__(
        self,
        terms: Terms,
        parts: Mapping[str, Part],
        column: Callable[[Path], str],
        service: Callable[[str], str],
        id: str | None,  # noqa: A002 - as everywhere
    ) -> None:
        self.terms, self.parts, self._column, self._service, self.id = terms, parts, column, service, id
        self.subject: Variable | None = None
        self.paths: dict[Path, str] = {}
        self.remote: Remote | None = None
        self.grouped: str | None = None
        self.variables: set[str] = set()
        self._nodes: dict[Any, Path] = {}
        self._called = False  # whether ids are called as the subject's variable is
        self._inside: Part | None = None
        self._aliases: dict[str, str] = {}

    def read(self, pattern: Any) -> Match:
        """Return what a whole pattern gives."""
        triples = list(self._window_triples(pattern))
        self.variables = {str(triple[2]) for triple in triples if isinstance(triple[2], Variable)}
        self._find_subject(triples)
        self._find_paths(triples)
        return self.match(pattern)

    def _window_triples(self, pattern: Any) -> Iterator[tuple[Any, Any, Any]]:
        if pattern.name == "Graph" and self.parts[str(pattern.term)].kind == "service":
            return
        if pattern.name == "BGP":
            yield from pattern.triples
        for key in ("p", "p1", "p2"):
            if key in pattern:
                yield from self._window_triples(pattern[key])

    def _find_subject(self, triples: list[tuple[Any, Any, Any]]) -> None:
        objects = {triple[2] for triple in triples}
        roots = list(dict.fromkeys(triple[0] for triple in triples if triple[0] not in objects))
        if not roots:
            self.terms.fail("the window's pattern has no subject; write for example {?trade :price ?price}", "WINDOW")
        for root in roots:
            if not isinstance(root, Variable | BNode):
                self.terms.fail(f"the subject <{root}> is not supported; it must be a variable", iri=str(root))
        if len(roots) > 1:
            shown = " and ".join(f"?{root}" if isinstance(root, Variable) else "[ ]" for root in roots)
            self.terms.fail(
                f"the window's pattern is about {shown}; it can be about one thing, and what hangs on it",
                *(f"?{root}" for root in roots[1:]),
            )
        self.subject = roots[0] if isinstance(roots[0], Variable) else None
        if self.id is None and self.subject is None:
            self.terms.fail("[ ] as the subject gives events no id; write a variable", "WINDOW")
        self._called = self.id is None
        self.id = self.id or str(self.subject)
        self._nodes[roots[0]] = ()

    def _find_paths(self, triples: list[tuple[Any, Any, Any]]) -> None:
        """Find the path from the subject to each thing that has properties of its own."""
        inner = {subject for subject, _, _ in triples}
        todo = list(triples)
        while todo:
            known = [triple for triple in todo if triple[0] in self._nodes]
            if not known:
                self.terms.fail("the window's pattern goes round in a circle", "WINDOW")
            todo = [triple for triple in todo if triple not in known]
            for subject, predicate, thing in known:
                if not isinstance(predicate, URIRef):
                    what = f"?{predicate}" if isinstance(predicate, Variable) else "a property path"
                    self.terms.fail(
                        f"{what} as a predicate is not supported; write an IRI", f"?{predicate}", *_PATH_SIGNS
                    )
                path = (*self._nodes[subject], str(predicate))
                if thing in inner and self._nodes.setdefault(thing, path) != path:
                    self.terms.fail(
                        "the window's pattern has two ways to one thing, which is not supported", f"?{thing}"
                    )

    def match(self, pattern: Any) -> Match:
        """Return what a part of the pattern gives."""
        handler = _HANDLERS.get(pattern.name)
        if handler is None:
            self.terms.fail(f"{pattern.name} is not supported in the pattern of a window", pattern.name)
        return handler(self, pattern)

    def _triples(self, pattern: Any) -> Match:
        if self._inside is None and pattern.triples:
            self.terms.fail("this pattern stands in no WINDOW and in no SERVICE; put it into WINDOW :W {…}", "WHERE")
        found = Match()
        described = {subject for subject, _, _ in pattern.triples}  # is there if what is said of it is
        for subject, predicate, thing in pattern.triples:
            path = (*self._nodes[subject], str(predicate))
            column: Node = Column(self._name(path))
            if isinstance(thing, Variable | BNode):
                own = {str(thing): column} if isinstance(thing, Variable) else {}
                found = self._joined(found, Match(own, () if thing in described else (column,)))
            else:
                found = replace(found, where=(*found.where, Call("=", (column, self.terms.convert(thing, {})))))
        return found

    def _name(self, path: Path) -> str:
        name = self._column(path)
        taken = next((other for other, known in self.paths.items() if known == name and other != path), None)
        if taken:
            self.terms.fail(
                f"<{'/'.join(taken)}> and <{'/'.join(path)}> are both the column {name!r}; say in the mapping, under "
                "[columns], which column each is",
                iri=path[-1],
            )
        if self._called and name == self.id:
            self.terms.fail(
                f"?{self.subject} and <{'/'.join(path)}> are both the column {name!r}; call the variable otherwise, "
                "or say in the mapping what is the id",
                f"?{self.subject}",
            )
        if not name:
            self.terms.fail(
                f"<{'/'.join(path)}> has no name to call a column by; say in the mapping which column it is"
            )
        self.paths[path] = name
        return name

    def _joined(self, left: Match, right: Match) -> Match:
        equal = [
            Call("=", (left.values[name], value))
            for name, value in right.values.items()
            if name in left.values and left.values[name] != value
        ]
        values = {**right.values, **left.values}
        return Match(values, (*left.needs, *right.needs), (*left.where, *right.where, *equal))

    def _join(self, pattern: Any) -> Match:
        left, right = self.match(pattern.p1), self.match(pattern.p2)
        for name in left.values.keys() & right.values.keys():
            one, other = left.values[name], right.values[name]
            if one != other and not (one in left.needs and other in right.needs):
                self.terms.fail(f"?{name} comes from two parts, one of which need not be there", f"?{name}")
        return self._joined(left, right)

    def _optional(self, pattern: Any) -> Match:
        self._without_service(pattern, "OPTIONAL")
        left, right = self.match(pattern.p1), self.match(pattern.p2)
        scope = {**right.values, **left.values}
        given = right.condition
        if pattern.expr.name != "TrueFilter":
            given = (*given, self._converted(pattern.expr, scope))
        for name in right.values.keys() & left.values.keys():
            if right.values[name] != left.values[name]:
                self.terms.fail(f"?{name} is in OPTIONAL and has a value before it, which is not supported", f"?{name}")
        condition = both(given)
        values = dict(left.values)
        for name, value in right.values.items():
            if name not in values:
                plain = condition is None or condition == present(value)
                values[name] = value if plain else Call("case", (condition, value, NULL))  # type: ignore[arg-type]
        return replace(left, values=values)

    def _union(self, pattern: Any) -> Match:
        self._without_service(pattern, "UNION")
        sides = [self.match(pattern.p1), self.match(pattern.p2)]
        conditions = [both(side.condition) for side in sides]
        if None in conditions:
            self.terms.fail("a side of UNION that demands nothing is not supported", "UNION")
        values: dict[str, Node] = {}
        for name in dict.fromkeys([*sides[0].values, *sides[1].values]):
            first, second = (side.values.get(name, NULL) for side in sides)
            case = (conditions[0], first, conditions[1], second, NULL)
            values[name] = first if first == second else Call("case", case)  # type: ignore[arg-type]
        either = Call("or", tuple(conditions))  # type: ignore[arg-type]
        return Match(values, (), (either,))

    def _filter(self, pattern: Any) -> Match:
        inner = self.match(pattern.p)
        return replace(inner, where=(*inner.where, self._converted(pattern.expr, inner.values)))

    def _extend(self, pattern: Any) -> Match:
        inner = self.match(pattern.p)
        known = inner.values | {one: inner.values[of] for one, of in self._aliases.items() if of in inner.values}
        value = self._converted(pattern.expr, known)
        name = str(pattern.var)
        if name in inner.values and inner.values[name] != value:
            self.terms.fail(f"?{name} has a value already", f"?{name}")
        return replace(inner, values={**inner.values, name: value})

    def _converted(self, term: Any, values: Mapping[str, Node]) -> Node:
        inside = {} if self._inside is None or self.subject is None else {str(self.subject): self._subject_column}
        return self.terms.convert(term, {**values, **inside})

    @property
    def _subject_column(self) -> Column:
        return Column(str(self.id))

    # Windows, services, groups.

    def _part(self, pattern: Any) -> Match:
        part, around = self.parts[str(pattern.term)], self._inside
        if around is not None:
            self.terms.statement.text.fail(
                f"a {part.kind.upper()} within a {around.kind.upper()} is not supported", part.token
            )
        self._inside = part
        found = self.match(pattern.p) if part.kind == "window" else self._remote_value(part, pattern.p)
        self._inside = None
        if part.kind == "window" and self.subject is not None:  # every row has it, whatever else is there
            found.values[str(self.subject)] = self._subject_column
        return found

    def _remote_value(self, part: Part, pattern: Any) -> Match:
        """Read ``SERVICE :BKG {?user :hasFollowers ?count}``."""
        fail = self.terms.statement.text.fail
        triples = pattern.triples if pattern.name == "BGP" else []
        if len(triples) != 1 or not all(isinstance(triples[0][place], Variable) for place in (0, 2)):
            fail("a SERVICE gives one value of one thing: SERVICE :BKG {?user :hasFollowers ?count}", part.token)
        if self.remote is not None:
            fail("a second SERVICE is not supported; a query joins one", part.token)
        of, _, value = triples[0]
        self.remote = Remote(Column(self._service(part.iri)), str(of), part)
        return Match({str(value): self.remote.column})

    def _without_service(self, pattern: Any, where: str) -> None:
        if any(self.parts[str(graph.term)].kind == "service" for graph in _graphs(pattern)):
            self.terms.fail(f"a SERVICE within {where} is not supported", where)

    def _group(self, pattern: Any) -> Match:
        """Read GROUP BY and its aggregates, which stand for what the whole group gives."""
        group = pattern.p
        inner = self.match(group.p)
        keys = group.expr or []
        if len(keys) != 1 or not isinstance(keys[0], Variable):
            self.terms.fail("GROUP BY wants the one variable that is ranked: GROUP BY ?user", "GROUP", "COUNT", "SUM")
        self.grouped = str(keys[0])
        values = dict(inner.values)
        for one in pattern.A:
            name = one.name.removeprefix("Aggregate_").lower()
            if name == "sample" and str(one.vars) in inner.values:
                values[str(one.res)] = inner.values[str(one.vars)]
            elif name == "sample":  # of something that SELECT gives a name to later
                self._aliases[str(one.res)] = str(one.vars)
            else:
                values[str(one.res)] = self._aggregate(name, one, inner)
        return replace(inner, values=values)

    def _aggregate(self, name: str, one: Any, inner: Match) -> Node:
        if name not in AGGREGATES or one.distinct:
            what = f"{name.upper()}(DISTINCT …)" if name in AGGREGATES else name.upper()
            self.terms.fail(f"the aggregate {what} is not supported; there are {', '.join(AGGREGATES)}", name)
        if one.vars == "*" or (name == "count" and one.vars == self.subject):
            return Call(name, ())
        return Call(name, (self.terms.convert(one.vars, inner.values),))


def _graphs(pattern: Any) -> Iterator[Any]:
    if pattern.name == "Graph":
        yield pattern
    for key in ("p", "p1", "p2"):
        if key in pattern:
            yield from _graphs(pattern[key])


_HANDLERS: dict[str, Callable[[Patterns, Any], Match]] = {
    "BGP": Patterns._triples,
    "Join": Patterns._join,
    "LeftJoin": Patterns._optional,
    "Union": Patterns._union,
    "Filter": Patterns._filter,
    "Extend": Patterns._extend,
    "Graph": Patterns._part,
    "AggregateJoin": Patterns._group,
}
