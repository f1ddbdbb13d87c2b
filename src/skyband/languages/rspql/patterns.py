"""The pattern of a window as columns: which one each variable is, and which rows match.

A pattern is about one thing, its subject, and what hangs on it: ``?trade :price ?p ; :venue ?v``, also further down,
``?reading :result [ :value ?v ]``. A row is such a thing with its columns; it matches where the columns that the
pattern demands are there. OPTIONAL gives columns that may be missing. Of the sides of a UNION, a row takes the first
that it matches: where it matches several, SPARQL would count it several times, and a ranking of rows counts it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rdflib import BNode, URIRef, Variable

from skyband.expressions.parse import PLAIN_AGGREGATES
from skyband.expressions.tree import NULL, Call, Column, Node
from skyband.languages.mapping import Mapping
from skyband.languages.rspql.clauses import PART_NAMESPACE, Part
from skyband.languages.rspql.matches import Match, both, present
from skyband.languages.rspql.terms import Terms

Path = tuple[str, ...]


@dataclass(frozen=True)
class Remote:
    """A service that is joined: its value as a column, the variable by which, and where it stands."""

    column: Column
    on: str
    part: Part


class Patterns:
    """Reads the algebra of one query's pattern."""

    def __init__(self, terms: Terms, mapping: Mapping) -> None:
        self.terms, self._mapping = terms, mapping
        self.subject: Variable | None = None  # what the window's pattern is about; None for [ ]
        self.id = mapping.id  # the column of the subject; without a mapping, named as its variable
        self.paths: dict[Path, str] = {}  # the columns, by the predicates that lead to them
        self.variables: set[str] = set()  # those that triples of the window give values to
        self.remote: Remote | None = None
        self.grouped: str | None = None  # the variable of GROUP BY
        self._nodes: dict[Any, Path] = {}  # the paths to the things that have properties
        self._inside: Part | None = None  # the window or service that is being read
        self._aliases: dict[str, str] = {}  # variables of GROUP BY that SELECT defines, by rdflib's names for them

    def _part_of(self, graph: Any) -> Part:
        """Return the window or service that a GRAPH stands for."""
        return self.terms.statement.parts[int(graph.term.removeprefix(PART_NAMESPACE))]

    def read(self, pattern: Any) -> Match:
        """Return what a whole pattern gives."""
        triples = list(self._window_triples(pattern))
        self.variables = {str(triple[2]) for triple in triples if isinstance(triple[2], Variable)}
        self._find_subject(triples)
        self._find_paths(triples)
        return self.match(pattern)

    def _window_triples(self, pattern: Any) -> Iterator[tuple[Any, Any, Any]]:
        if pattern.name == "Graph" and self._part_of(pattern).kind == "service":
            return
        if pattern.name == "BGP":
            yield from pattern.triples
        for inner in _inner(pattern):
            yield from self._window_triples(inner)

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
            message = f"the window's pattern is about {shown}; it can be about one thing, and what hangs on it"
            self.terms.fail(message, *(f"?{root}" for root in roots[1:]))
        self.subject = roots[0] if isinstance(roots[0], Variable) else None
        if self.id is None and self.subject is None:
            self.terms.fail("[ ] as the subject gives events no id; write a variable", "WINDOW")
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
                    message = f"{what} as a predicate is not supported; write an IRI"
                    self.terms.fail(message, f"?{predicate}", *"+/|^*?!")
                path = (*self._nodes[subject], str(predicate))
                if thing in inner and self._nodes.setdefault(thing, path) != path:
                    message = "the window's pattern has two ways to one thing, which is not supported"
                    self.terms.fail(message, f"?{thing}")

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
                found = found.joined(Match(own, () if thing in described else (column,)))
            else:
                found = replace(found, where=(*found.where, Call("=", (column, self.terms.convert(thing, {})))))
        return found

    def _name(self, path: Path) -> str:
        name, shown = self._mapping.column(path, self.terms.statement.prefixes), f"<{'/'.join(path)}>"
        taken = next((other for other, known in self.paths.items() if known == name and other != path), None)
        if taken:
            message = f"<{'/'.join(taken)}> and {shown} are both the column {name!r}"
            self.terms.fail(f"{message}; say in the mapping, under [columns], which column each is", iri=path[-1])
        if self._mapping.id is None and name == self.id:
            message = f"?{self.subject} and {shown} are both the column {name!r}; call the variable otherwise"
            self.terms.fail(f"{message}, or say in the mapping what is the id", f"?{self.subject}")
        if not name:
            self.terms.fail(f"{shown} has no name to call a column by; say in the mapping which column it is")
        self.paths[path] = name
        return name

    def _join(self, pattern: Any) -> Match:
        left, right = self.match(pattern.p1), self.match(pattern.p2)
        for name in left.values.keys() & right.values.keys():
            one, other = left.values[name], right.values[name]
            if one != other and not (one in left.needs and other in right.needs):
                self.terms.fail(f"?{name} comes from two parts, one of which need not be there", f"?{name}")
        return left.joined(right)

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

    def _converted(self, term: Any, values: dict[str, Node]) -> Node:
        inside = {} if self._inside is None or self.subject is None else {str(self.subject): Column(str(self.id))}
        return self.terms.convert(term, {**values, **inside})

    # Windows, services, groups.

    def _part(self, pattern: Any) -> Match:
        part, around = self._part_of(pattern), self._inside
        if around is not None:
            message = f"a {part.kind.upper()} within a {around.kind.upper()} is not supported"
            self.terms.statement.text.fail(message, part.token)
        self._inside = part
        found = self.match(pattern.p) if part.kind == "window" else self._remote_value(part, pattern.p)
        self._inside = None
        if part.kind == "window" and self.subject is not None:  # every row has it, whatever else is there
            found.values[str(self.subject)] = Column(str(self.id))
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
        service = str(self._mapping.join(part.iri, self.terms.statement.prefixes)["service"])
        self.remote = Remote(Column(service), str(of), part)
        return Match({str(value): self.remote.column})

    def _without_service(self, pattern: Any, where: str) -> None:
        if pattern.name == "Graph" and self._part_of(pattern).kind == "service":
            self.terms.fail(f"a SERVICE within {where} is not supported", where)
        for inner in _inner(pattern):
            self._without_service(inner, where)

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
        if name == "count" and one.distinct and one.vars != "*":
            return Call("count distinct", (self.terms.convert(one.vars, inner.values),))
        if name not in PLAIN_AGGREGATES or one.distinct:
            what = f"{name.upper()}(DISTINCT …)" if name in PLAIN_AGGREGATES else name.upper()
            self.terms.fail(f"the aggregate {what} is not supported; there are {', '.join(PLAIN_AGGREGATES)}", name)
        if one.vars == "*" or (name == "count" and one.vars == self.subject):
            return Call(name, ())
        return Call(name, (self.terms.convert(one.vars, inner.values),))


def _inner(pattern: Any) -> list[Any]:
    """Return the patterns that a pattern is made of."""
    return [pattern[key] for key in ("p", "p1", "p2") if key in pattern]


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
