"""SPARQL by rdflib: from text to algebra; what cannot be read is shown where reading stopped."""

from __future__ import annotations

import copy
import difflib
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import Any, NoReturn

from pyparsing import ParseBaseException, ParserElement
from rdflib.plugins.sparql.algebra import translateQuery
from rdflib.plugins.sparql.parser import QueryUnit

from skyband.languages.rspql.clauses import KEYWORDS, Statement

_reached: list[tuple[int, str]] = []  # what the watched grammar did not find, and where
_parsing = Lock()  # the grammar is one for all threads, and learns how to call its actions while it parses


def algebra(statement: Statement) -> Any:
    """Return the algebra of a statement's SPARQL, as rdflib has it."""
    try:
        with _parsing:
            parsed = QueryUnit.parse_string(statement.sparql, parse_all=True)
        return translateQuery(parsed).algebra
    except ParseBaseException:
        _explain(statement)
    except RecursionError:
        statement.text.fail("the query is nested too deeply", statement.head)
    except Exception as error:  # rdflib has no type of its own for what it cannot translate
        statement.text.fail(f"this is no query that SPARQL allows: {error}", statement.head)


def _explain(statement: Statement) -> NoReturn:
    """Point to the place that the parser came to, and say what it would have taken there."""
    with _parsing:
        _reached.clear()
        with suppress(ParseBaseException, RecursionError):
            _watched().parse_string(statement.sparql, parse_all=True)
        furthest = max((place for place, _ in _reached), default=0)
        expected = {name for place, name in _reached if place == furthest}
        _reached.clear()
    sparql = statement.sparql
    while furthest < len(sparql) and sparql[furthest].isspace():
        furthest += 1
    if expected == {"':'"}:  # a word that could only have been a prefix: the word itself is out of place
        furthest = next(place for place in range(furthest, -1, -1) if place == 0 or sparql[place - 1].isspace())
    at = statement.origin(furthest)
    words = sorted(name.strip("'") for name in expected if name.startswith("'") and name != "':'")
    hint = f"; here may stand {', '.join(words)}" if 0 < len(words) <= 14 else ""
    if "true" in words:
        hint = "; a value or a variable is missing"
    for place in (at, max(at - 1, 0), max(at - 2, 0)):  # what looks like a name may be a keyword with a slip
        token = statement.tokens[place]
        near = difflib.get_close_matches(token.text.upper(), KEYWORDS, n=1) if token.kind == "word" else []
        if near and token.text.upper() not in KEYWORDS:
            statement.text.fail(f"{token.text!r} is not expected here; did you mean {near[0]}?", token)
    statement.text.fail(f"{statement.tokens[at].text!r} is not expected here{hint}", statement.tokens[at])


@cache
def _watched() -> ParserElement:
    """Return a copy of rdflib's grammar whose words note where they were not found."""
    grammar = copy.deepcopy(QueryUnit)
    for element in grammar.visit_all():
        if not element.recurse():
            element.set_fail_action(_note)
    return grammar


def _note(_: str, place: int, element: ParserElement, __: Exception) -> None:
    _reached.append((place, str(element)))
