"""Numbers of thousands of digits, and keys of thousands of parts: an error that says so, in every language."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import skyband as sb
from skyband.errors import ExpressionError, InputError, SkybandError
from skyband.events.batch import StreamColumns
from skyband.expressions import parse
from skyband.files.queries import load
from skyband.languages.mapping import load_mapping
from skyband.languages.toml import MAX_PARTS, read_toml
from skyband.serve.texts import Reading

NUMBERS = ["9" * 5_000, "9" * 4_299, "9" * 400, "1" + "0" * 5_000]
SCORES = [
    "{}", "-{}", "- -{}", "price * {}", "{}L", "{}.5", "1e{}", "CAST({} AS STRING)", "x IN (1, {})", "abs(-{}) % 3",
    "CASE WHEN x = {} THEN 1 END",
]  # fmt: skip
QUERY = {"name": "top", "k": 3, "size": "1 hour", "score": "price"}
SQL = "SELECT a FROM TUMBLE(s, ts, INTERVAL {} HOUR) ORDER BY a + {} LIMIT {}"
TOP_N = (
    "SELECT a FROM (SELECT a, ROW_NUMBER() OVER (ORDER BY a) AS n FROM TUMBLE(s, ts, INTERVAL 1 HOUR)) WHERE n <= {}"
)
RSPQL = """REGISTER STREAM :top AS SELECT ?t (?p * {} AS ?score)
FROM NAMED WINDOW :W ON :S [RANGE {} STEP {}]
WHERE {{ WINDOW :W {{ ?t :price ?p }} FILTER (?p > {}) }} ORDER BY DESC(?score) LIMIT {}"""


def refused(text: str, language: str) -> str:
    with pytest.raises(SkybandError) as caught:
        Reading(StreamColumns("ts", "id")).read(text, language)
    return str(caught.value)


@pytest.mark.parametrize("number", NUMBERS, ids=map(str, map(len, NUMBERS)))
@pytest.mark.parametrize("score", SCORES)
def test_in_expressions(score: str, number: str) -> None:
    with pytest.raises(ExpressionError):
        parse(score.format(number))


def test_the_error_is_short_and_points_to_the_number() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("price + " + "9" * 5_000)
    assert caught.value.position == 8
    assert "an integer of 5,000 digits does not fit 64 bits" in str(caught.value)
    assert parse("000" * 1_000 + "7") == parse("7")


@pytest.mark.parametrize("number", NUMBERS, ids=map(str, map(len, NUMBERS)))
def test_over_http(number: str) -> None:
    for key in ("k", "size", "slide", "offset"):
        text = json.dumps(QUERY | {key: 0}).replace(f'"{key}": 0', f'"{key}": {number}')
        refused(text, "json")
        lines = [f"{name} = {json.dumps(value)}" for name, value in QUERY.items() if name != key]
        refused("\n".join(["[[query]]", *lines, f"{key} = {number}"]), "toml")
    for key in ("size", "slide", "offset"):
        refused(json.dumps(QUERY | {key: f"{number} hours"}), "json")
        refused(json.dumps(QUERY | {"size": "5 events", key: f"{number} events"}), "json")
    refused(json.dumps(QUERY | {"score": f"price + {number}"}), "json")
    for n in range(3):
        refused(SQL.format(*(number if n == at else 1 for at in range(3))), "sql")
    refused(TOP_N.format(number), "sql")


@pytest.mark.parametrize("number", NUMBERS, ids=map(str, map(len, NUMBERS)))
@pytest.mark.parametrize("at", range(5))
def test_in_rspql(number: str, at: int) -> None:
    usual = ["1", "1h", "10m", "1", "3"]
    assert sb.parse(RSPQL.format(*usual)).k == 3
    unit = {1: "h", 2: "m"}.get(at, "")
    refused(RSPQL.format(*(f"{number}{unit}" if n == at else one for n, one in enumerate(usual))), "rspql")
    typed = f'"{number}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    if at in (0, 3):
        refused(RSPQL.format(*(typed if n == at else one for n, one in enumerate(usual))), "rspql")
    if at in (1, 2):
        refused(RSPQL.format(*(f"PT{number}S" if n == at else one for n, one in enumerate(usual))), "rspql")
        refused(RSPQL.format(*(f"{number} EVENTS" if n == at else one for n, one in enumerate(usual))), "rspql")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (".".join("a" * 8_000) + " = 1", "a key has 8,000 parts; at most 20 are allowed"),
        (" . ".join(['"a"'] * 3_000) + " = 1", "a key has 3,000 parts"),
        ("[" + ".".join("a" * 8_000) + "]", "a key has 8,000 parts"),
        ("[[" + ".".join("a" * 8_000) + "]]", "a key has 8,000 parts"),
        ("x = {" + ".".join("a" * 8_000) + " = 1}", "a key has 8,000 parts"),
        ("x = [1, " + "9" * 5_000 + "]", "a number has 5,000 digits; at most 400 are allowed"),
        ("x = " + "[" * 8_000, "the text is nested too deeply"),
        ("x = " + "{a=" * 4_000, "the text is nested too deeply"),
        ("x = = 1", "the text is no TOML: "),
    ],
)
def test_toml_has_limits(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_toml(text)
    assert said in str(caught.value)
    assert said in refused(text, "toml")
    file = tmp_path / "queries.toml"
    file.write_text(text)
    for read in (load, load_mapping):
        with pytest.raises(InputError) as caught:
            read(file)
        assert said in str(caught.value)
        assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "'" + "a." * 900 + "b'", '"' + "a." * 900 + '\\" b" # ' + "c." * 900, "'''\n" + "a.b = " * 900 + "'''",
        '"""' + "x." * 900 + '\\""""', "1.5", "[1.5, 2.5" + ", 0.5" * 900 + "]", "'" + "9" * 5_000 + "'",
    ],
)  # fmt: skip
def test_dots_and_digits_in_values_are_no_keys(value: str) -> None:
    assert list(read_toml(f"a.b = {value}\n" + ".".join("k" * MAX_PARTS) + " = 1\n")) == ["a", "k"]
