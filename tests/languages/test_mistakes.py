"""Mistakes in texts: what is said, and what the caret points to."""

from __future__ import annotations

import subprocess
import sys

import pytest

import skyband as sb
from skyband.languages import read_rspql, read_sql

RSPQL = """\
REGISTER STREAM :top AS
SELECT ?t (?p * ?v AS ?score)
FROM NAMED WINDOW :W ON :S [RANGE 1h STEP 10m]
WHERE {
  WINDOW :W { ?t :price ?p ; :volume ?v }
  FILTER (?p > 1)
}
ORDER BY DESC(?score) LIMIT 3
"""

SQL = """\
SELECT symbol, price * volume AS score
FROM HOP(trades, ts, INTERVAL 10 MINUTES, INTERVAL 1 HOUR)
WHERE price > 1
ORDER BY score DESC
LIMIT 10
"""

TOP_N = """\
SELECT symbol FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY venue ORDER BY price DESC) AS n
  FROM TUMBLE(trades, ts, INTERVAL 1 HOUR)
) WHERE n <= 3
"""


TEMPLATE = """\
REGISTER STREAM :top AS CONSTRUCT { ?t :twice ?d } FROM NAMED WINDOW :W ON :S [RANGE 1h]
WHERE { WINDOW :W { ?t :price ?p } BIND (?p * 2 AS ?d) } ORDER BY DESC(?d + ?p) LIMIT 3
"""


def pointed(error: sb.LanguageError) -> str:
    """Return the text from the caret on."""
    assert error.line is not None
    assert error.column is not None
    return error.text.split("\n")[error.line - 1][error.column - 1 :]


def refused(text: str, old: str, new: str) -> sb.LanguageError:
    assert text.count(old) >= 1
    changed = text.replace(old, new, 1)
    with pytest.raises(sb.LanguageError) as caught:
        sb.parse(changed) if text is RSPQL else sb.parse_sql(changed)
    assert caught.value.text == changed
    return caught.value


@pytest.mark.parametrize(
    ("old", "new", "said", "at"),
    [
        ("REGISTER STREAM :top AS", "", "a query begins with REGISTER STREAM", "SELECT"),
        ("STREAM :top", "TABLE :top", "REGISTER wants one of STREAM, RSTREAM, ISTREAM, DSTREAM", "AS"),
        (":top AS", "AS :top", "come a name and AS", "AS"),
        ("AS\nSELECT", "AS DESCRIBE", "DESCRIBE is not supported; write SELECT or CONSTRUCT", "DESCRIBE"),
        ("RANGE 1h ", "", "a window has a RANGE", "["),
        ("10m", "2h", "slide (2 hours) is larger than size (1 hour)", "["),
        ("1h", "1 fortnight", "'fortnight' is no unit", "1 fortnight"),
        ("1h", "P1M", "months or years, which have no fixed length", "P1M"),
        ("1h STEP 10m", "TRIPLES 10", "windows of TRIPLES are not supported", "TRIPLES"),
        ("1h STEP 10m", "10 TRIPLES STEP 1", "windows of TRIPLES are not supported", "TRIPLES"),
        ("1h STEP 10m", "PT1H STEP P99999999999W", "longer than the 73,000 years", "P99999999999W"),
        ("?t (?p * ?v AS ?score)", "? F(?p) AS ?score", "'F' is not expected here", "F(?p)"),
        ("RANGE 1h", "RANGE 1h RANGE 2h", "RANGE is given twice", "RANGE 2h"),
        ("10m]", "10m CLOSED BOTH]", "CLOSED is LEFT for [open, close) or RIGHT", "BOTH"),
        ("[RANGE 1h STEP 10m]", "", "after the stream's name comes '['", "WHERE"),
        (":W ON", ":V ON", "this window is not declared", "WINDOW :W"),
        ("FROM", "FROM NAMED WINDOW :V ON :S [RANGE 1h] FROM", "declared and not used", "FROM NAMED WINDOW :V"),
        ("FROM NAMED WINDOW :W ON :S", "FROM <urn:g>", "FROM names windows here", "FROM"),
        ("WINDOW :W {", "GRAPH :W {", "GRAPH is not supported", "GRAPH"),
        (":W {", "?w {", "a variable as the name of a window is not supported", "?w"),
        (":volume ?v", ":volume", "'}' is not expected here; a value or a variable is missing", "}"),
        ("(?p > 1)", "(?p > )", "')' is not expected here", ")"),
        ("FILTER", "FILTR", "'FILTR' is not expected here; did you mean FILTER?", "FILTR"),
        ("FILTER (?p > 1)", "MINUS { ?t :a 1 }", "MINUS is not supported", "MINUS"),
        ("FILTER (?p > 1)", "FILTER NOT EXISTS { ?t :a 1 }", "EXISTS is not supported", "EXISTS"),
        ("FILTER (?p > 1)", "VALUES ?p { 1 2 }", "VALUES is not supported; write FILTER (?x IN (…))", "VALUES"),
        ("FILTER (?p > 1)", "{ SELECT ?t WHERE { } }", "a query within a query is not supported", "SELECT"),
        ("(?p > 1)", "REGEX(?p, 'a')", "the function REGEX() is not supported", "REGEX"),
        ("(?p > 1)", "(?q > 1)", "?q has no value", "?q"),
        ("(?p > 1)", "(foo(?p) > 1)", 'define it in the mapping, under [functions]: "foo(a, b)"', "foo"),
        ("(?p > 1)", "(power(?p) > 1)", "power() takes 2 arguments and got 1", "power"),
        ("(?p > 1)", "(ex:foo(?p) > 1)", "the prefix 'ex:' is not declared", "ex:foo"),
        ("(?p > 1)", "(?p > 'a'@en)", "the language of a text is not supported", "@en"),
        ("(?p > 1)", "(false)", "a constant as a FILTER is not supported", "(false)"),
        ("(?p > 1)", "(?p > 9223372036854775808)", "does not fit 64 bits", "9223372036854775808"),
        ("(?p > 1)", "(?p > '1)", "this quote is never closed", "'1)"),
        ("(?p > 1)", "(?p > '\\u0031')", r"escapes such as \u00e9 are not supported", "'"),
        ("ORDER BY DESC(?score) ", "", "there is no ORDER BY, so nothing to rank by", "REGISTER"),
        ("DESC(?score)", "DESC(?score) ?t", "more than one ORDER BY condition", "ORDER"),
        ("LIMIT 3", "", "there is no LIMIT", "ORDER"),
        ("LIMIT 3", "LIMIT 0", "k is 0; it must be from 1 to 1,000,000", "LIMIT 0"),
        ("LIMIT 3", "LIMIT 3 OFFSET 2", "OFFSET is not supported", "OFFSET"),
        ("LIMIT 3", "LIMIT three", "'three' is not expected here", "three"),
        ("SELECT ?t", "SELECT DISTINCT ?t", "DISTINCT BEST counts each id once", "DISTINCT"),
        ("SELECT ?t", "SELECT ?t (?p + 1 AS ?q)", "?q is computed, and no other expression uses it", "?q"),
        ("?v AS ?score", "?v AS ?p", "?p has a value already", "?p"),
        ("?t :price", "<urn:x> :price", "the subject <urn:x> is not supported", "<urn:x>"),
        ("; :volume", ". ?u :volume", "the window's pattern is about ?t and ?u", "?u"),
        (":price ?p", "?x ?p", "?x as a predicate is not supported", "?x"),
        (":price ?p", ":price+ ?p", "a property path as a predicate is not supported", "+"),
        (":volume ?v", "<urn:a/price> ?v", "are both the column 'price'; say in the mapping", ":price"),
        (":volume", ":vol\\-ume", "escapes in names are not supported", ":vol"),
        (":volume ?v", ":t ?v", "are both the column 't'; call the variable otherwise", "?t"),
        ("WHERE {", "WHERE", "'}' closes nothing", "}"),
        ("10m]", "10m)", "')' closes nothing; ']' is missing before it", ")"),
        ("WHERE {", "WHERE {{", "'{' is never closed", "{{"),
        ("FILTER (?p > 1)", "SERVICE :X { ?x :y ?z }", "?x is in the SERVICE and in no WINDOW", "SERVICE"),
        ("FILTER (?p > 1)", "SERVICE :X { ?t :y 3 }", "a SERVICE gives one value of one thing", "SERVICE"),
        ("FILTER (?p > 1)", "SERVICE :price { ?t :y ?z }", "as a column of the stream is", "SERVICE"),
        ("FILTER (?p > 1)", "OPTIONAL { SERVICE :X { ?t :y ?z } }", "a SERVICE within OPTIONAL is not", "OPTIONAL"),
        ("FILTER (?p > 1)", "SERVICE :X { ?t :y ?z }", "neither the score nor the condition uses 'X'", "REGISTER"),
        ("FILTER (?p > 1)", "?t :more ?m", "this pattern stands in no WINDOW and in no SERVICE", "WHERE"),
        ("ORDER BY", "GROUP BY ?t ORDER BY", "GROUP BY is for scores of aggregates", "GROUP"),
        ("?p * ?v", "COUNT(*)", "GROUP BY wants the one variable that is ranked", "COUNT"),
        ("ORDER BY", "HAVING (?p > 1) ORDER BY", "HAVING is not supported", "HAVING"),
        ("ORDER BY", "PARTITION BY ORDER BY", "PARTITION BY wants a variable", "PARTITION"),
        ("ORDER BY", "PARTITION BY ?x ORDER BY", "?x has no value", "?x ORDER"),
        ("REGISTER", "PREFIX ex <urn:x> REGISTER", "PREFIX wants a name and an IRI", "PREFIX"),
        ("REGISTER", "BASE <urn:x> REGISTER", "BASE is not supported", "BASE"),
    ],
)  # fmt: skip
def test_rspql(old: str, new: str, said: str, at: str) -> None:
    error = refused(RSPQL, old, new)
    assert said in error.message
    assert pointed(error).startswith(at)


@pytest.mark.parametrize(
    ("old", "new", "said", "at"),
    [
        ("SELECT", "UPDATE", "'UPDATE' is not expected here; write SELECT", "UPDATE"),
        ("SELECT", "INSERT SELECT", "INSERT INTO name SELECT … is supported", "SELECT"),
        ("SELECT", "SELECT DISTINCT", "DISTINCT is not supported", "DISTINCT"),
        ("symbol,", "*,", "'*' stands for all columns, which are not known here; name those", "SELECT"),
        ("HOP(trades, ts, INTERVAL 10 MINUTES, INTERVAL 1 HOUR)", "generate(1, 2)", "the window GENERATE() is", "gen"),
        ("HOP(", "SESSION(", "the window SESSION() is not supported", "SESSION"),
        ("INTERVAL 10 MINUTES, ", "", "HOP() takes a table, its column of time, a slide, a size", "trades"),
        ("ts,", "1,", "here comes the name of a column of time", ""),
        ("INTERVAL 1 HOUR", "INTERVAL 1 MONTH", "months and years have no fixed length", "INTERVAL 1 MONTH"),
        ("INTERVAL 1 HOUR", "60", "a length of time is written as INTERVAL 10 MINUTES", ""),
        ("INTERVAL 1 HOUR", "INTERVAL 1 MINUTE", "slide (10 minutes) is larger than size (1 minute)", "HOP"),
        ("HOUR)", "HOUR) JOIN other ON a = b", "JOIN is not supported", ""),
        ("price > 1", "price > (SELECT 1)", "a subquery is not allowed", ""),
        ("price > 1", "rand() > 1", "the function rand() is not allowed", "rand"),
        ("price > 1", "price >", "something is missing at 'ORDER BY'", "ORDER"),
        ("price > 1", "price > 'x", "this quote is never closed", "'x"),
        ("ORDER BY score DESC", "", "there is no ORDER BY, so nothing to rank by", ""),
        ("score DESC", "score DESC, venue", "venue as a further key of ORDER BY is not supported", "venue"),
        ("ORDER BY", "GROUP BY symbol ORDER BY", "'price' is neither in GROUP BY nor in an aggregate", "price * v"),
        ("price * volume", "sum(volume)", "this is an aggregate, and there is no GROUP BY", "sum"),
        ("price > 1", "count(*) > 1", "count() is not allowed here: aggregates are for the score of a query", "count"),
        ("ORDER BY", "GROUP BY upper(symbol) ORDER BY", "'symbol' is neither in GROUP BY nor in an", "symbol,"),
        ("ORDER BY", "GROUP BY ALL ORDER BY", "'symbol' is neither in GROUP BY", ""),
        ("ORDER BY", "GROUP BY venue ORDER BY", "'symbol' is neither in GROUP BY nor in an aggregate", "symbol,"),
        ("score DESC", "3 DESC", "there is no value number 3 in SELECT", "ORDER BY 3"),
        ("HOP(trades, ts, INTERVAL", "HOP(DATA => trades, INTERVAL", "takes the names DATA, TIMECOL, SLIDE, SIZE", ""),
        ("LIMIT 10", "", "there is no LIMIT", "ORDER BY score"),
        ("LIMIT 10", "LIMIT 0", "k is 0; it must be from 1 to 1,000,000", "LIMIT 0"),
        ("LIMIT 10", "LIMIT x", "LIMIT wants a whole number", "x"),
        ("LIMIT 10", "LIMIT 10 OFFSET 5", "OFFSET is not supported", ""),
        ("LIMIT 10", "LIMIT 10; SELECT 1", "there is no FROM", ""),
        ("LIMIT 10", f"LIMIT 10; {SQL}", "this one has no name; write CREATE VIEW name AS", "SELECT"),
        ("SELECT", "CREATE FUNCTION x AS SELECT", "CREATE FUNCTION is not supported; CREATE makes a", "FUNCTION"),
    ],
)  # fmt: skip
def test_sql(old: str, new: str, said: str, at: str) -> None:
    error = refused(SQL, old, new)
    assert said in error.message
    if at:
        assert pointed(error).startswith(at)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ROW_NUMBER()", "NTILE(4)", "'NTILE()' OVER (…) is not supported; write ROW_NUMBER(), RANK() or DENSE_RANK()"),
        ("n <= 3", "n > 3", "n > 3 does not say how many rows to rank; write n <= 10"),
        ("n <= 3", "n <= 3 AND price < 1", "price < 1 is a condition behind the ranking"),
        ("n <= 3", "n = 2", "n = 2 does not say how many rows to rank"),
        ("n <= 3", "n < 1", "k is 0"),
        ("ORDER BY price DESC", "", "OVER has no ORDER BY"),
        ("SELECT symbol", "SELECT *", "'*' stands for all columns, which are not known here"),
        (", ROW_NUMBER() OVER (PARTITION BY venue ORDER BY price DESC) AS n", "", "nothing is ranked; write ORDER BY"),
        ("WHERE n <= 3", "", "the rows are numbered, but nothing says how many to take; write WHERE n <= 10"),
    ],
)
def test_top_n(old: str, new: str, said: str) -> None:
    assert said in refused(TOP_N, old, new).message


def test_texts_of_several_queries() -> None:
    assert [one.query.name for one in read_rspql(RSPQL + RSPQL.replace(":top", ":two"))] == ["top", "two"]
    assert [one.query.name for one in read_sql(f"CREATE VIEW a AS {SQL}; CREATE VIEW b AS {TOP_N};")] == ["a", "b"]
    with pytest.raises(sb.LanguageError, match="the text registers 2 queries"):
        sb.parse(RSPQL * 2)
    with pytest.raises(sb.LanguageError, match="the text holds 2 queries"):
        sb.parse_sql(f"CREATE VIEW a AS {SQL}; CREATE VIEW b AS {TOP_N};")


def test_what_rspql_has_no_words_for() -> None:
    query = sb.parse(RSPQL)
    for changes, said in (
        ({"emit": "early"}, "RSP-QL has no words for emit='early'"),
        ({"where": "TRUE"}, "the condition 'TRUE' is a constant"),
        ({"ties": "with"}, "RSP-QL has no ties"),
        ({"prefer": "earliest"}, "RSP-QL has no prefer"),
    ):
        with pytest.raises(sb.QueryError, match=said):
            sb.to_rspql(sb.Query.from_dict(query.as_dict() | changes))
    with pytest.raises(sb.QueryError, match="which is no name of a variable"):
        sb.to_rspql(query, id="the id")


def test_a_template_takes_only_what_answers_carry() -> None:
    with pytest.raises(sb.LanguageError, match=r"\?d is computed; answers carry the id, the score and col") as caught:
        sb.parse(TEMPLATE)
    assert pointed(caught.value).startswith("?d }")
    assert sb.parse(TEMPLATE.replace("?d + ?p", "?d")).score == "price * 2"


def test_threads_may_read_at_once() -> None:
    """In a process of its own: the first texts that a process reads are those that went wrong."""
    code = (
        "import sys, threading\n"
        "from tests.languages.test_mistakes import RSPQL, read_rspql\n"
        "sys.setswitchinterval(1e-6)\n"
        "together, found = threading.Barrier(8), []\n"
        "def read():\n"
        "    together.wait()\n"
        "    try: found.append(len(read_rspql(RSPQL)))\n"
        "    except Exception as error: found.append(repr(error))\n"
        "threads = [threading.Thread(target=read) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(found)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str([1] * 8), done.stdout + done.stderr
