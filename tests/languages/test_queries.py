"""Texts and the queries that they are."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

import skyband as sb
from skyband.languages import read_rspql, read_sql
from tests.languages.test_mistakes import RSPQL, SQL, TOP_N
from tests.languages.texts import COUNTED, SUMMED

HOURLY = sb.Window("1 hour", slide="10 minutes", closed="right")
PLAIN: dict[str, Any] = {"k": 3, "score": "price * volume", "window": HOURLY, "where": "price > 1"}


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("", "", {}),
        ("STREAM", "rstream", {}),
        ("STREAM", "ISTREAM", {"emit": "entered"}),
        ("STREAM", "DSTREAM", {"emit": "left"}),
        ("STREAM", "IDSTREAM", {"emit": "changes"}),
        ("[RANGE 1h STEP 10m]", "[RANGE PT1H STEP PT10M]", {}),
        ("[RANGE 1h STEP 10m]", '[RANGE "PT60M"^^xsd:duration STEP PT0H10M0.0S]', {}),
        ("[RANGE 1h STEP 10m]", "[range 3600 s slide 600 seconds]", {}),
        ("[RANGE 1h STEP 10m]", "[RANGE 1h]", {"window": sb.Window("1 hour", closed="right")}),
        ("[RANGE 1h STEP 10m]", "[RANGE P1DT1H TUMBLING]", {"window": sb.Window("25 hours", closed="right")}),
        ("[RANGE 1h STEP 10m]", "[RANGE 1h STEP 10m OFFSET 5m CLOSED LEFT]",
         {"window": sb.Window("1 hour", slide="10 minutes", offset="5 minutes")}),
        ("[RANGE 1h STEP 10m]", "[RANGE 99 EVENTS STEP 1 EVENT]", {"window": sb.Window("99 events", slide="1 event")}),
        ("[RANGE 1h STEP 10m]", "[ROWS 100 STEP 10]", {"window": sb.Window("100 events", slide="10 events")}),
        ("SELECT ?t", "SELECT DISTINCT LATEST ?t ?v", {"distinct": "latest", "select": ("volume",)}),
        ("SELECT ?t", "SELECT ?t ?v ?p", {"select": ("volume", "price")}),
        ("SELECT ?t (?p * ?v AS ?score)", "CONSTRUCT { ?t :worth ?score ; :costs ?p }", None),
        ("FILTER (?p > 1)", "", {"where": None}),
        ("FILTER (?p > 1)", "FILTER ?p > 1", None),
        ("(?p > 1)", "(?p > 1) FILTER (-?v < 2e0)", {"where": "price > 1 AND -volume < 2.0"}),
        ("(?p > 1)", "(IF(?p > 1, ?p, ?v) != 'x' && BOUND(?v))",
         {"where": "CASE WHEN price > 1 THEN price ELSE volume END <> 'x' AND volume IS NOT NULL"}),
        ("(?p > 1)", "(power(?p, 2) + mod(?p, 3) > 1 || like(?p, 'A%'))",
         {"where": "power(price, 2) + price % 3 > 1 OR price LIKE 'A%'"}),
        ("(?p > 1)", '(?p > "2024-05-01"^^<http://www.w3.org/2001/XMLSchema#date>)', {"where": "price > '2024-05-01'"}),
        ("(?p > 1)", "(?p = :XPAR)", {"where": "price = 'urn:skyband:XPAR'"}),
        ("DESC(?score)", "ASC(?score)", {"order": "asc"}),
        ("DESC(?score)", "?score", {"order": "asc"}),
        ("DESC(?score)", "DESC(?p + 0.5)", None),
        ("ORDER", "PARTITION BY ?p ORDER", {"partition_by": "price"}),
        ("LIMIT 3", "LIMIT 1000000", {"k": 1_000_000}),
        (":volume ?v", ":volume ?v ; a :Trade", {"where": "type = 'urn:skyband:Trade' AND price > 1"}),
    ],
)  # fmt: skip
def test_rspql(old: str, new: str, changes: dict[str, Any] | None) -> None:
    assert old in RSPQL
    text = RSPQL.replace(old, new, 1)
    if changes is not None:
        wanted = sb.Query("top", **(PLAIN | changes))
        found = sb.parse(text)
        assert (found.score_expression, found.where_expression) == (wanted.score_expression, wanted.where_expression)
        assert {**found.as_dict(), "score": "", "where": ""} == {**wanted.as_dict(), "score": "", "where": ""}
    elif "CONSTRUCT" in new:  # the template's variables must have values
        with pytest.raises(sb.LanguageError, match=r"\?score has no value"):
            sb.parse(text)
    elif "0.5" in new:
        with pytest.raises(sb.LanguageError, match=r"\?score is computed, and no other expression uses it"):
            sb.parse(text)
    else:
        with pytest.raises(sb.LanguageError, match="not expected here"):
            sb.parse(text)


def test_prefixes_and_windows_in_the_pattern() -> None:
    (one,) = read_rspql("""
        PREFIX a: <http://example.org/a#> PREFIX b: <http://example.org/b/>
        REGISTER STREAM a:top AS PREFIX c: <urn:c/>
        SELECT ?t WHERE { WINDOW a:W(PT1H, 10m) ON b:S { ?t a:x ?x ; b:y ?y ; c:z ?z } } ORDER BY ?x LIMIT 1
    """)
    assert (one.query.name, one.stream, one.id) == ("top", "http://example.org/b/S", "t")
    assert one.query.window == HOURLY
    assert one.query.where == "(NOT (y IS NULL)) AND (NOT (z IS NULL))"
    assert one.paths == {
        ("http://example.org/a#x",): "x", ("http://example.org/b/y",): "y", ("urn:c/z",): "z",
    }  # fmt: skip


def test_aggregates_join_by_what_is_grouped() -> None:
    (one,) = read_rspql(COUNTED, sb.Mapping(services={":BKG": "fans"}))
    assert (one.id, one.query.group_by) == ("by", "by")
    assert one.query.score_expression.tree == sb.Query(
        "x", k=1, score="sum(length) / count(*) + fans", window=sb.Window("1 hour"), join=sb.Join("fans")
    ).score_expression.tree  # fmt: skip
    assert one.query.join == sb.Join("fans")
    assert one.query.where == "(NOT (by IS NULL)) AND (NOT (length IS NULL))"


def test_aggregates_need_no_service() -> None:
    (one,) = read_rspql(SUMMED)
    window = sb.Window("100 seconds", slide="1 minute", closed="right")
    wanted = sb.Query(
        "counted", k=5, score="sum(length) / count(*)", window=window,
        where="(NOT (by IS NULL)) AND (NOT (length IS NULL))", order="asc", emit="left", group_by="by",
    )  # fmt: skip
    assert (one.id, one.query.as_dict()) == ("by", wanted.as_dict() | {"score": one.query.score})


@pytest.mark.parametrize(
    ("select", "order"),
    [
        ("symbol, SUM(volume) AS score", "score"),
        ("SUM(volume) AS v, window_start, symbol", "v"),
        ("symbol", "SUM(volume)"),
        ("symbol, SUM(volume)", "SUM(volume)"),
    ],
)
def test_sql_groups(select: str, order: str) -> None:
    text = f"""SELECT {select} FROM TUMBLE(trades, ts, INTERVAL 1 HOUR) WHERE price > 1
               GROUP BY window_start, window_end, symbol ORDER BY {order} DESC LIMIT 10"""
    (one,) = read_sql(text)
    wanted = sb.Query("query", k=10, score="sum(volume)", window=sb.Window("1 hour"), where="price > 1",
                      group_by=("symbol",), select=("sum(volume) AS `v`",) if order == "v" else ())  # fmt: skip
    assert (one.query, one.id) == (wanted, "symbol")
    ranked = """SELECT * FROM (SELECT symbol, ROW_NUMBER() OVER (ORDER BY SUM(volume) DESC) AS n
                 FROM TUMBLE(trades, ts, INTERVAL 1 HOUR) WHERE price > 1 GROUP BY symbol) WHERE n <= 10"""
    assert read_sql(ranked)[0].query == replace(wanted, select=())


SQL_PLAIN: dict[str, Any] = {
    "k": 10, "score": "price * volume", "window": sb.Window("1 hour", slide="10 minutes"), "where": "price > 1",
    "select": ("symbol",),
}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("", "", {}),
        ("HOP(trades, ts,", "TABLE(HOP(TABLE trades, DESCRIPTOR(ts),", None),
        ("INTERVAL 10 MINUTES", "INTERVAL '10' MINUTE", {}),
        ("INTERVAL 1 HOUR)", "INTERVAL 1 HOUR, INTERVAL '5' MINUTES)",
         {"window": sb.Window("1 hour", slide="10 minutes", offset="5 minutes")}),
        ("HOP(trades, ts, INTERVAL 10 MINUTES, INTERVAL 1 HOUR)",
         "HOP(DATA => TABLE trades, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL 1 HOUR, SLIDE => INTERVAL '10' MINUTE)",
         {}),
        ("HOP(trades, ts, INTERVAL 10 MINUTES,", "TUMBLE(trades, ts,", {"window": sb.Window("1 hour")}),
        ("WHERE price > 1\n", "", {"where": None}),
        ("price > 1", "venue IN ('a', 'it''s') AND NOT price <=> 2",
         {"where": "venue IN ('a', 'it\\'s') AND NOT price <=> 2"}),
        ("symbol,", "window_start, `symbol`, venue, window_end,", {"select": ("symbol", "venue")}),
        ("symbol, price * volume AS score", "symbol", None),
        ("score DESC", "price * volume DESC", {}),
        ("score DESC", "score", {"order": "asc"}),
        ("LIMIT 10", "FETCH FIRST 10 ROWS ONLY", {}),
        ("LIMIT 10", "LIMIT 10;", {}),
        ("SELECT", "-- why\nCREATE OR REPLACE TEMPORARY VIEW query AS /* not */ SELECT", {}),
    ],
)  # fmt: skip
def test_sql(old: str, new: str, changes: dict[str, Any] | None) -> None:
    text = SQL.replace(old, new, 1)
    if "TABLE(HOP" in new:
        text, changes = text.replace("HOUR)", "HOUR))"), {}
    if changes is None:
        assert sb.parse_sql(text.replace("ORDER BY score", "ORDER BY price")).score == "price"
        return
    wanted = sb.Query("query", **(SQL_PLAIN | changes))
    found = sb.parse_sql(text)
    assert (found.score_expression, found.where_expression) == (wanted.score_expression, wanted.where_expression)
    assert {**found.as_dict(), "score": "", "where": ""} == {**wanted.as_dict(), "score": "", "where": ""}


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("", "", {}),
        ("n <= 3", "n < 4", {}),
        ("n <= 3", "n = 1", {"k": 1}),
        ("PARTITION BY venue ", "", {"partition_by": None}),
        ("PARTITION BY venue", "PARTITION BY window_start, lower(venue), window_end", {"partition_by": "lower(venue)"}),
        ("SELECT symbol", "SELECT symbol, price, n", {"select": ("symbol", "price")}),
        ("HOUR)\n", "HOUR)\n  WHERE price > 2\n", {"where": "price > 2"}),
        ("SELECT *,", "SELECT symbol, price * 2 AS twice,", {}),
    ],
)
def test_top_n(old: str, new: str, changes: dict[str, Any]) -> None:
    window = sb.Window("1 hour")
    wanted: dict[str, Any] = {"k": 3, "score": "price", "partition_by": "venue", "select": ("symbol",)}
    text = TOP_N.replace(old, new, 1)
    assert sb.parse_sql(text) == sb.Query("query", window=window, **(wanted | changes))
    if "twice" in new:
        assert sb.parse_sql(text.replace("ORDER BY price", "ORDER BY price * 2")).score == "price * 2"


def test_the_core_needs_no_rdflib() -> None:
    code = (
        "import sys, skyband as sb\n"
        "assert 'rdflib' not in sys.modules and 'pyparsing' not in sys.modules\n"
        "sys.modules['rdflib'] = None\n"
        "sb.parse_sql('SELECT a FROM TUMBLE(t, ts, INTERVAL 1 HOUR) ORDER BY a LIMIT 1')\n"
        "try: sb.parse('')\n"
        "except sb.InputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "RSP-QL needs the package 'rdflib'; install it with: pip install 'skyband[rdf]'\n", (
        done.stderr
    )


def test_many_at_once_find_their_own_mistakes() -> None:
    texts = [RSPQL.replace(":price", "\n" * n + ":price ?? ") for n in range(24)]

    def line(text: str) -> int | None:
        with pytest.raises(sb.LanguageError) as caught:
            sb.parse(text)
        return caught.value.line

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(line, texts)) == [5 + n for n in range(24)]
