"""CONSTRUCT: from the rows of an answer to the triples of a template."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from rdflib import BNode, Graph, Literal, URIRef, Variable

from skyband.answers.answer import Row

_IRI = re.compile(r"(?:[a-z][a-z0-9+.-]*://|urn:)[^\s<>\"{}|\\^`]+", re.IGNORECASE)


@dataclass(frozen=True)
class Template:
    """The triples, of rdflib's terms, that a query makes of each row.

    `ids` and `scores` are the variables that stand for the row's id and its score; `columns` gives the answer's column
    of each other one. An id that is no IRI becomes one in `namespace`.

    Examples
    --------
    >>> worth = (Variable("trade"), URIRef("http://example.org/worth"), Variable("score"))
    >>> template = Template((worth,), ids={"trade"}, scores={"score"}, columns={}, namespace="http://example.org/")
    >>> print(template.fill([Row(1, "t 7", 9.5, 3)]).serialize(format="nt").strip())
    <http://example.org/t%207> <http://example.org/worth> "9.5"^^<http://www.w3.org/2001/XMLSchema#double> .
    """

    triples: tuple[tuple[Any, Any, Any], ...]
    ids: set[str]
    scores: set[str]
    columns: dict[str, str]
    namespace: str

    def fill(self, rows: Iterable[Row]) -> Graph:
        """Return the triples of rows; as in SPARQL, those without a value, or with text as subject, are left out."""
        graph = Graph()
        for row in rows:
            blank: dict[Any, Any] = {}
            for triple in self.triples:
                subject, predicate, value = (self._term(term, row, blank) for term in triple)
                if isinstance(subject, URIRef | BNode) and isinstance(predicate, URIRef) and value is not None:
                    graph.add((subject, predicate, value))
        return graph

    def _term(self, term: Any, row: Row, blank: dict[Any, Any]) -> Any:
        if isinstance(term, BNode):  # another one for each row
            return blank.setdefault(term, BNode())
        if not isinstance(term, Variable):
            return term
        if str(term) in self.ids:
            return _iri(str(row.id)) or URIRef(self.namespace + quote(str(row.id), safe=""))
        value = row.score if str(term) in self.scores else row.values[self.columns[str(term)]]
        return None if value is None else (isinstance(value, str) and _iri(value)) or Literal(value)


def _iri(text: str) -> URIRef | None:
    return URIRef(text) if _IRI.fullmatch(text) else None
