"""Whatever the text: a query, or an error that says where; never anything else, and soon."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import skyband as sb
from tests.languages.texts import RSPQL, SQL, mutated

MAPPING = sb.Mapping(functions={"F(a, b)": "a + b"}, services={":BKG": {"service": "followers", "budget": 3}})
SLOWEST = 30.0  # seconds of this thread: what a text of this length takes only when its cost is exponential


def read_rspql(text: str) -> sb.Query:
    return sb.parse(text, MAPPING)


READERS: list[tuple[Callable[[str], sb.Query], tuple[str, ...]]] = [(read_rspql, RSPQL), (sb.parse_sql, SQL)]


def check_error(error: sb.LanguageError) -> None:
    assert error.message
    assert (error.line is None) == (error.column is None) == (error.position is None)
    if error.position is not None:
        assert error.column is not None
        assert 0 <= error.position <= len(error.text)
        *_, line, caret = str(error).split("\n")
        assert caret == " " * (4 + error.column - 1) + "^"
        assert len(line) >= len(caret) - 1


def check(read: Callable[[str], sb.Query], text: str) -> bool:
    """Read a text; return whether it was a query."""
    began = time.thread_time()
    try:
        query = read(text)
    except sb.LanguageError as error:
        check_error(error)
        return False
    finally:
        assert time.thread_time() - began < SLOWEST
    assert isinstance(query, sb.Query)
    return True


@pytest.mark.parametrize(("read", "texts"), READERS, ids=["rspql", "sql"])
def test_a_thousand_broken_queries(read: Callable[[str], sb.Query], texts: tuple[str, ...]) -> None:
    chance = random.Random(7)
    outcomes = [check(read, mutated(chance.choice(texts), chance)) for _ in range(500)]
    assert 0 < sum(outcomes) < 500  # some changes do no harm, most do


@pytest.mark.parametrize("read", [read for read, _ in READERS], ids=["rspql", "sql"])
@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text(read: Callable[[str], sb.Query], text: str) -> None:
    assert not check(read, text)


@pytest.mark.parametrize(("read", "texts"), READERS, ids=["rspql", "sql"])
def test_every_beginning_of_a_query(read: Callable[[str], sb.Query], texts: tuple[str, ...]) -> None:
    text = texts[0]
    for end in range(0, len(text), 3):
        check(read, text[:end])


DEEP = 10_000


@pytest.mark.parametrize(
    "text",
    [
        "REGISTER STREAM :a AS SELECT ?a WHERE " + "{" * DEEP,
        "REGISTER STREAM :a AS SELECT ?a WHERE " + "{" * 14 + "}" * 14,
        RSPQL[0].replace("F(?mentionCount", "F(" + "(" * 12 + "?mentionCount" + ")" * 12),
        RSPQL[0].replace("F(?mentionCount", "F(" + "-" * 1000 + "?mentionCount"),
        RSPQL[0].replace("F(?mentionCount", "F(?mentionCount" + " + 1" * 600),
        RSPQL[0].replace("F(?mentionCount", "F(?mentionCount" + " + 1" * 6000),
        RSPQL[0] * 40,
        RSPQL[2].replace("ex:venue ?venue", "; ".join(f"ex:p{n} ?v{n}" for n in range(200))),
    ],
    ids=range(8),
)
def test_deep_and_long_rspql(text: str) -> None:
    check(read_rspql, text)


@pytest.mark.parametrize(
    "text",
    ["SELECT " + "(" * DEEP, "SELECT " * 1000, SQL[0].replace("price", "(" * 25 + "price" + ")" * 25),
     SQL[0].replace("price", "price" + " + 1" * 4000), SQL[0].replace("price", "-" * 400 + "price"),
     "SELECT * FROM (" * 200, "CREATE VIEW a AS " * 300],
    ids=range(7),
)  # fmt: skip
def test_deep_and_long_sql(text: str) -> None:
    check(sb.parse_sql, text)
