"""Streams of RDF as rows: each event a graph with its time, read by the pattern of RSP-QL queries.

N-Quads: an event is a run of quads with the same graph. Its time is what ``prov:generatedAtTime`` says of the graph, in
the default graph and right before or behind it; or a time stands in the place of the graph:
``<s> <p> <o> "2024-05-01T09:00:00Z"^^xsd:dateTime .``

JSON-LD lines: an event is a line. Its time is that of the graph in it, or of its subject.

Nothing is fetched: a line whose context is elsewhere is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import product
from typing import Any, NamedTuple

from rdflib import Dataset, Literal
from rdflib.exceptions import ParserError
from rdflib.plugins.parsers.nquads import NQuadsParser
from rdflib.plugins.parsers.ntriples import r_tail, r_wspace

from skyband.errors import InputError
from skyband.languages.rspql.patterns import Path

GENERATED = "http://www.w3.org/ns/prov#generatedAtTime"
MOST_CHOICES = 10_000  # rows of one subject: a pattern multiplies what has several values
Tree = dict[str, tuple[str | None, Any]]
"""By predicate: its column, and the tree of what hangs on it."""


class Pattern(NamedTuple):
    """What to make columns of: paths of predicates; and what the columns of the subject and of the time are called."""

    paths: Mapping[Path, str]
    id: str
    time: str


class Event(NamedTuple):
    """What a graph says: values by subject and predicate; and its times, by what they are said of."""

    held: dict[Any, dict[str, dict[Any, None]]]
    times: dict[Any, Any]
    graph: Any = None

    def add(self, subject: Any, predicate: Any, value: Any) -> None:
        """Take a triple."""
        if str(predicate) == GENERATED:
            self.times[subject] = value
        self.held.setdefault(subject, {}).setdefault(str(predicate), {})[value] = None


def rows(events: Iterable[Event], pattern: Pattern) -> Iterator[dict[str, Any]]:
    """Yield a row for every subject that has something of the pattern, and for each choice of its values.

    Examples
    --------
    >>> line = '<urn:t1> <urn:price> "3.5"^^<http://www.w3.org/2001/XMLSchema#double> "2024-05-01T09:00:00Z" .'
    >>> list(rows(from_quads([line]), Pattern({("urn:price",): "price"}, "trade", "ts")))
    [{'ts': '2024-05-01T09:00:00Z', 'trade': 'urn:t1', 'price': 3.5}]
    """
    tree, columns = _tree(pattern.paths), set(pattern.paths.values())
    deep = [predicate for predicate, (_, below) in tree.items() if below]
    for event in events:
        inner = {thing for held in event.held.values() for predicate in deep for thing in held.get(predicate, ())}
        for subject, held in event.held.items():
            if subject in inner or not any(predicate in held for predicate in tree):
                continue
            time = event.times.get(event.graph, event.times.get(subject))
            for choice in _choices(event, subject, tree):
                own = {pattern.time: _plain(time), pattern.id: str(subject)}
                yield {**{name: value for name, value in own.items() if name not in columns}, **choice}


def _tree(paths: Mapping[Path, str]) -> Tree:
    tree: Tree = {}
    for path, column in paths.items():
        at = tree
        for predicate in path[:-1]:
            at = at.setdefault(predicate, (None, {}))[1]
        at[path[-1]] = (column, at.get(path[-1], (None, {}))[1])
    return tree


def _choices(event: Event, subject: Any, tree: Tree) -> list[dict[str, Any]]:
    held = event.held.get(subject, {})
    sides: list[list[dict[str, Any]]] = []
    for predicate, (column, below) in tree.items():
        side: list[dict[str, Any]] = []
        for thing in held.get(predicate, ()):
            own = {} if column is None else {column: _plain(thing)}
            side += [{**own, **more} for more in _choices(event, thing, below)]
        sides.append(side or [{}])
    if (count := math.prod(map(len, sides))) > MOST_CHOICES:
        msg = f"what is said about {subject} matches in {count:,} ways; at most {MOST_CHOICES:,} are read"
        raise InputError(msg)
    return [dict(item for part in choice for item in part.items()) for choice in product(*sides)]


def _plain(term: Any) -> Any:
    """Return a term as a plain value; None for a number that is none."""
    if term is None or not isinstance(term, Literal):
        return None if term is None else str(term)
    value = term.value
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Decimal):
        return float(value)
    return None if term.ill_typed else str(term)


# N-Quads.


def from_quads(lines: Iterable[str]) -> Iterator[Event]:
    """Read events from lines of N-Quads."""
    reader, event = _Quads(), None
    times: dict[Any, Any] = {}
    for number, line in enumerate(lines, 1):
        quad = reader.quad(line, number)
        if quad is None:
            continue
        subject, predicate, value, graph = quad
        if graph is None:
            if str(predicate) != GENERATED:
                msg = f"line {number:,} is in no graph; an event is a graph: {line.strip()[:80]!r}"
                raise InputError(msg)
            times[subject] = value
            continue
        if event is None or event.graph != graph:
            if event is not None:
                yield _timed(event, times)
                reader.forget(subject, value, graph)
            event = Event({}, {graph: graph} if isinstance(graph, Literal) else {}, graph)
        event.add(subject, predicate, value)
    if event is not None:
        yield _timed(event, times)


def _timed(event: Event, times: dict[Any, Any]) -> Event:
    """Give an event the time that was said of its graph, which need not be remembered any longer."""
    if event.graph in times:
        event.times[event.graph] = times.pop(event.graph)
    return event


class _Quads(NQuadsParser):  # type: ignore[misc]
    """Reads line by line; also takes a time in the place of the graph."""

    _bnode_ids: dict[str, Any]  # rdflib's blank nodes, by their labels

    def quad(self, line: str, number: int) -> tuple[Any, Any, Any, Any] | None:
        """Return subject, predicate, value and graph of a line; None where there is nothing."""
        self.line = line.strip()
        if not self.line or self.line.startswith("#"):
            return None
        try:
            subject, predicate, value = map(self._read, (self.subject, self.predicate, self.object))
            graph = None if self.line.startswith(".") else self._read(self.object)
            if isinstance(graph, Literal) and graph.language is not None:
                msg = "a text is no graph"
                raise ParserError(msg)
            self.eat(r_tail)
            if self.line:
                msg = f"{self.line[:20]!r} is left over"
                raise ParserError(msg)
        except (ParserError, ValueError, AttributeError, TypeError) as error:
            said = str(error).splitlines()[0] if str(error) else "it ends too early"
            msg = f"line {number:,} is no N-Quad ({said}): {line.strip()[:80]!r}"
            raise InputError(msg) from None
        return subject, predicate, value, graph

    def forget(self, *but: Any) -> None:
        """Forget the blank nodes of the last event, so that memory does not grow with the stream."""
        self._bnode_ids = {label: node for label, node in self._bnode_ids.items() if node in but}

    def _read(self, part: Callable[[], Any]) -> Any:
        found = part()
        self.eat(r_wspace)
        return found


# JSON-LD lines.


def from_json(lines: Iterable[str]) -> Iterator[Event]:
    """Read events from lines of JSON-LD."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
        except (ValueError, RecursionError):
            msg = f"line {number:,} is no JSON: {line.strip()[:80]!r}"
            raise InputError(msg) from None
        _check_contexts(given, number)
        yield _event(line, number)


def _check_contexts(given: Any, number: int) -> None:
    """Refuse a context that would have to be fetched."""
    todo = [(None, given)]
    while todo:
        key, one = todo.pop()
        if key == "@import" or (key == "@context" and isinstance(one, str)):
            msg = f"line {number:,} has its context elsewhere, at {one!r}, which is not fetched; write it into the line"
            raise InputError(msg)
        if isinstance(one, dict):
            todo += list(one.items())
        elif isinstance(one, list):
            todo += [(key, item) for item in one]


def _event(line: str, number: int) -> Event:
    event, graphs = Event({}, {}), Dataset()
    try:
        graphs.parse(data=line, format="json-ld")
    except Exception as error:  # rdflib raises whatever comes up
        msg = f"line {number:,} is no JSON-LD: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        raise InputError(msg) from None
    quads = list(graphs.quads())
    for subject, predicate, value, _ in quads:
        event.add(subject, predicate, value)
    # A line is about one graph; what it says without a name has the time of its subject.
    return event._replace(graph=next((graph for *_, graph in quads if graph in event.times), None))
