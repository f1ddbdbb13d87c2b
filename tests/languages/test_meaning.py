"""What a pattern means: rdflib evaluates the SPARQL inside a query over the events' graph, and agrees."""

from __future__ import annotations

import random
from typing import Any

import pytest
from rdflib import Dataset, Literal, URIRef

import skyband as sb
from skyband.languages import read_rspql
from skyband.languages.rdf import Event, Pattern, rows
from skyband.languages.rspql.clauses import PART_NAMESPACE, statements

NAMESPACE = "urn:skyband:"
PATTERNS = {
    "plain": "?it :a ?a ; :b ?b",
    "constants": "?it :a ?a ; :c 'x' ; :flag true . BIND (1 AS ?b)",
    "filter": "?it :a ?a ; :b ?b FILTER (?a > 2 && ?b < 5 || ?a = ?b)",
    "not": "?it :a ?a ; :b ?b FILTER (!(?a > 2) && ?a NOT IN (0e0, 1e0) && ?b != -2)",
    "or, of what must be there": "?it :a ?a ; :b ?x FILTER (?a > 2 || ?x > 1) BIND (1 AS ?b)",
    "coalesce, of what must be there": "?it :a ?a ; :b ?x FILTER (COALESCE(?x, 5) > 1) BIND (1 AS ?b)",
    "if, of what must be there": "?it :a ?a ; :b ?x FILTER (IF(?a > 2, 1, ?x) > 0) BIND (1 AS ?b)",
    "in, of what must be there": "?it :a ?a ; :b ?x FILTER (?a IN (?x, 2e0)) BIND (1 AS ?b)",
    "optional": "?it :a ?a OPTIONAL { ?it :b ?b }",
    "optional, bound or not": "?it :a ?a OPTIONAL { ?it :b ?x } BIND (IF(BOUND(?x), ?x, 100) AS ?b)",
    "optional, filtered inside": "?it :a ?a OPTIONAL { ?it :b ?x FILTER (?x > ?a) } BIND (COALESCE(?x, -1) AS ?b)",
    "optional, all or nothing": "?it :a ?a OPTIONAL { ?it :b ?x ; :c ?c } BIND (COALESCE(?x, 7) AS ?b)",
    "optional, filtered outside": "?it :a ?a OPTIONAL { ?it :b ?b } FILTER (!BOUND(?b) || ?b > 0)",
    "optional in optional": "?it :a ?a OPTIONAL { ?it :b ?b OPTIONAL { ?it :c ?c } } FILTER (?a + STRLEN(?c) > 1)",
    "union": "{ ?it :a ?a ; :c 'x' } UNION { ?it :b ?a ; :c 'y' } BIND (2 AS ?b)",
    "union of filters": "{ ?it :a ?a FILTER (?a > 1) } UNION { ?it :b ?a ; :a ?n FILTER (?n < 2) } BIND (3 AS ?b)",
    "union within optional": "?it :a ?a OPTIONAL { { ?it :b ?b ; :c 'x' } UNION { ?it :a ?b ; :c 'y' } }",
    "the same twice": "?it :a ?a ; :b ?a . BIND (?a AS ?b)",
    "further down": "?it :a ?a ; :deep [ :d ?b ]",
    "further down, named": "?it :a ?a ; :deep ?n . ?n :d ?b ; :e ?c FILTER (STRSTARTS(?c, 'x'))",
    "further down, perhaps": "?it :a ?a OPTIONAL { ?it :deep ?n . ?n :d ?b FILTER (?b > 1) }",
    "further down, anything": "?it :a ?a ; :b ?b ; :deep []",
    "texts": "?it :a ?a ; :c ?c FILTER (CONTAINS(?c, 'x') || UCASE(CONCAT(?c, 'z')) = 'YZ') BIND (STRLEN(?c) AS ?b)",
    "arithmetic": "?it :a ?a ; :b ?x FILTER (-?a * 2 - ?x / 2 < ?x + 1) BIND (ABS(?x) - CEIL(?a / 2) AS ?b)",
    "casts": "?it :a ?a ; :b ?x BIND (<http://www.w3.org/2001/XMLSchema#double>(?x) AS ?b)",
    "filter on a filter": "?it :a ?a ; :b ?b ; :flag ?f FILTER (?f) FILTER (?a >= ?b)",
    "the subject": "?it :a ?a ; :b ?b FILTER (?it != <urn:e:3>)",
}


def text_of(pattern: str) -> str:
    return f"""\
        REGISTER STREAM :q AS SELECT ?it (?a * 10 + ?b AS ?score) FROM NAMED WINDOW :W ON :S [RANGE 1h STEP 1h]
        WHERE {{ WINDOW :W {{ {pattern} }} }} ORDER BY DESC(?score) LIMIT 1000"""


def an_event(number: int, chance: random.Random) -> Event:
    """Make an event that lacks this and that; whole numbers as doubles, for which SPARQL reckons as we do."""
    event, subject = Event({}, {}), URIRef(f"urn:e:{number}")
    deep = URIRef(f"urn:n:{number}")

    def say(thing: URIRef, name: str, value: Any) -> None:
        if chance.random() < 0.7:
            event.add(thing, URIRef(NAMESPACE + name), value)

    say(subject, "a", Literal(float(chance.randint(-3, 6))))
    say(subject, "b", Literal(float(chance.randint(-3, 6))))
    say(subject, "c", Literal(chance.choice(["x", "y", "xy", ""])))
    say(subject, "flag", Literal(chance.choice([True, False])))
    say(subject, "deep", deep)
    say(deep, "d", Literal(float(chance.randint(-3, 6))))
    say(deep, "e", Literal(chance.choice(["x", "y", "xy"])))
    return event


def truth(text: str, events: list[Event], key: str = "it") -> set[tuple[str, float]]:
    """Ask rdflib, without the ranking."""
    (statement,) = statements(text, {})
    data = Dataset()
    graph = data.graph(URIRef(f"{PART_NAMESPACE}0"))
    for event in events:
        for subject, held in event.held.items():
            for predicate, values in held.items():
                for value in values:
                    graph.add((subject, URIRef(predicate), value))
    found = data.query(statement.sparql)
    return {(str(row[key]), float(row.score)) for row in found if row.score is not None}


def answered(text: str, events: list[Event]) -> set[tuple[str, float]]:
    (one,) = read_rspql(text)
    table = list(rows(events, Pattern(one.paths, one.id, "time")))
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in table] for name in (*one.paths.values(), one.id)}
    run = sb.run(one.query, columns | {"time": [5] * len(table)}, time="time", id=one.id)
    found = {(str(row.id), row.score) for answer in run for row in answer.rows}
    assert all(len(answer.rows) == len({row.id for row in answer.rows}) for answer in run)
    return found


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_mean_what_sparql_means(name: str) -> None:
    chance = random.Random(name)
    for _ in range(3):
        events = [an_event(number, chance) for number in range(60)]
        text = text_of(PATTERNS[name])
        right = truth(text, events)
        assert right, "a test that finds nothing tests nothing"
        assert answered(text, events) == right


def test_a_row_that_matches_both_sides_of_a_union_counts_once() -> None:
    text = text_of("{ ?it :a ?a } UNION { ?it :b ?a } BIND (0 AS ?b)")
    events = [an_event(number, random.Random(number)) for number in range(60)]
    found, right = answered(text, events), truth(text, events)
    assert found < right
    assert {id_ for id_, _ in found} == {id_ for id_, _ in right}


AGGREGATES = {
    "count": ("COUNT(*)", "?it :a ?a ; :c ?c"),
    "count of what need not be there": ("COUNT(?b)", "?it :a ?a ; :c ?c OPTIONAL { ?it :b ?b }"),
    "sum": ("SUM(?a * ?b)", "?it :a ?a ; :b ?b ; :c ?c"),
    "extremes": ("MAX(?a) - MIN(?a)", "?it :a ?a ; :c ?c FILTER (?a > -2)"),
    "several": ("SUM(?a) / COUNT(*) + AVG(?b)", "?it :a ?a ; :b ?b ; :c ?c"),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_mean_what_sparql_means(name: str) -> None:
    score, pattern = AGGREGATES[name]
    text = f"""\
        REGISTER STREAM :q AS SELECT ?c ({score} AS ?score) FROM NAMED WINDOW :W ON :S [RANGE 1h STEP 1h]
        WHERE {{ WINDOW :W {{ {pattern} }} }} GROUP BY ?c ORDER BY DESC(?score) LIMIT 1000"""
    events = [an_event(number, random.Random(f"{name} {number}")) for number in range(60)]
    right = {(key, round(found, 9)) for key, found in truth(text, events, "c")}
    assert len(right) == 4
    assert {(key, round(found, 9)) for key, found in answered(text, events)} == right
