"""Every part of a parsed SQL statement is used or refused: none is ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlglot import exp

import skyband as sb
from skyband.errors import LanguageError
from skyband.languages.sql import Selected, read_sql
from skyband.languages.sql.text import SqlText

PLAIN = """SELECT symbol, price * 2 AS score, window_end
FROM HOP(trades, ts, INTERVAL 10 MINUTES, INTERVAL 1 HOUR) AS w
WHERE price > 1
ORDER BY score DESC
LIMIT 10"""
GROUPED = """CREATE VIEW sums AS SELECT symbol, SUM(price) AS total
FROM TABLE(TUMBLE(DATA => TABLE trades, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' HOUR))
GROUP BY symbol, window_end
ORDER BY total DESC
FETCH FIRST 3 ROWS ONLY"""
TOP_N = """SELECT window_start, symbol, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end, venue ORDER BY price DESC) AS n
  FROM TUMBLE(trades, ts, INTERVAL 1 HOUR)
  WHERE price > 1
) AS ranked
WHERE n <= 3"""
NESTED = """WITH sums AS (
  SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) AS begin, symbol, SUM(price) FILTER (WHERE price > 0) AS total
  FROM a.b.trades AS t WHERE t.venue = 'X' GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), 2 HAVING COUNT(*) > 1
)
SELECT s.symbol, s.total / 2 AS half FROM sums AS s
QUALIFY RANK() OVER w <= 3 WINDOW w AS (PARTITION BY s.begin ORDER BY s.total DESC)"""
HOT = """SELECT a.symbol, a.n FROM
  (SELECT symbol, COUNT(*) AS n, window_end AS e FROM TUMBLE(trades, ts, INTERVAL 1 HOUR) GROUP BY symbol, window_end) a
JOIN (SELECT MAX(b.n) AS most, b.e FROM
  (SELECT COUNT(*) AS n, window_end AS e FROM TUMBLE(trades, ts, INTERVAL 1 HOUR) GROUP BY symbol, window_end) b
  GROUP BY b.e) m
ON a.e = m.e AND a.n = m.most"""
LATERAL = """SELECT venue, symbol FROM (SELECT DISTINCT venue FROM trades) AS v,
LATERAL (SELECT symbol, price FROM trades WHERE trades.venue = v.venue ORDER BY price DESC LIMIT 3) AS l(symbol, p)
ORDER BY venue"""
FIRST = "SELECT DISTINCT ON (venue) venue, symbol FROM trades ORDER BY price DESC"
TEXTS = [PLAIN, GROUPED, TOP_N, NESTED, HOT, LATERAL, FIRST]


@pytest.mark.parametrize(
    ("text", "old", "new", "said", "at"),
    [
        (GROUPED, "3 ROWS", "3 PERCENT ROWS", "PERCENT is not supported; say how many rows", "PERCENT"),
        (PLAIN, "LIMIT 10", "LIMIT 10 PERCENT", "PERCENT is not supported", "PERCENT"),
        (PLAIN, "LIMIT 10", "LIMIT 10 BY symbol", "LIMIT … BY is not supported; for the best of each group", "symbol"),
        (PLAIN, "LIMIT 10", "LIMIT 10 OFFSET 5", "OFFSET is not supported", "5"),
        (PLAIN, "LIMIT 10", "LIMIT 5, 10", "OFFSET is not supported", "5"),
        (PLAIN, "DESC", "DESC NULLS FIRST", "NULLS FIRST is not supported; rows without a score", "FIRST"),
        (PLAIN, "DESC", "NULLS FIRST", "NULLS FIRST is not supported", "FIRST"),
        (TOP_N, "DESC", "DESC NULLS FIRST", "NULLS FIRST is not supported", "FIRST"),
        (PLAIN, "DESC", "DESC WITH FILL", "WITH FILL is not supported", "FILL"),
        (PLAIN, "AS w", "TABLESAMPLE (10 PERCENT)", "TABLESAMPLE is not supported", "10 PERCENT"),
        (PLAIN, "AS w", "AS w(a, b, c)", "new names for columns need a CREATE TABLE that lists", "w("),
        (TOP_N, "AS ranked", "AS ranked(a, b)", "new names for columns need a CREATE TABLE", "ranked("),
        (PLAIN, "SELECT", "SELECT DISTINCT", "DISTINCT is not supported", "DISTINCT"),
        (PLAIN, "SELECT", "SELECT /*+ BROADCAST(w) */", "a hint is not supported", ""),
        (PLAIN, "SELECT", "WITH x AS (SELECT 1) SELECT", "nothing uses the query 'x' of WITH; leave it out", "x"),
        (PLAIN, "ORDER BY", "HAVING price > 1 ORDER BY", "HAVING is for groups, and there is", "price > 1 ORDER"),
        (PLAIN, "ORDER BY", "QUALIFY price > 1 ORDER BY", "QUALIFY wants a ranking: QUALIFY", "price > 1 ORDER"),
        (PLAIN, "ORDER BY", "WINDOW x AS (ORDER BY price) ORDER BY", "nothing uses the WINDOW 'x'; leave it out", "x"),
        (PLAIN, "ORDER BY score", "CLUSTER BY price ORDER BY score", "CLUSTER BY is not supported", "price"),
        (PLAIN, "ORDER BY score", "SORT BY price ORDER BY score", "SORT BY is not supported", "price"),
        (PLAIN, "ORDER BY score", "DISTRIBUTE BY price ORDER BY score", "DISTRIBUTE BY is not supported", "price"),
        (PLAIN, "AS w", "AS w JOIN other ON a = b", "this JOIN is not supported; supported are", "JOIN"),
        (PLAIN, "AS w", "AS w, other", "this JOIN is not supported", ", other"),
        (PLAIN, "AS w", "LATERAL VIEW explode(a) x AS y", "LATERAL VIEW is not supported", ""),
        (PLAIN, "AS w", "PIVOT (SUM(price) FOR venue IN ('A'))", "PIVOT is not supported", "SUM"),
        (TOP_N, "WHERE n <= 3", "WHERE n <= 3 ORDER BY n LIMIT 2", "the rows are ranked already", "ORDER BY n"),
        (TOP_N, ") AS ranked", "LIMIT 5) AS ranked", "LIMIT is not supported here: OVER ranks the rows", "LIMIT 5"),
        (TOP_N, "price DESC)", "price DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", "a frame of rows is not", "1"),
        (TOP_N, "ROW_NUMBER()", "ROW_NUMBER() IGNORE NULLS", "is not supported", ""),
        (TOP_N, "SELECT *,", "SELECT * EXCEPT (price),", "EXCEPT needs a CREATE TABLE that lists", ""),
        (TOP_N, "SELECT *,", "SELECT symbol, rand() AS r,", "the function rand() is not allowed", "rand"),
        (PLAIN, "score DESC", "score + 1 DESC", "'score' is an alias, and there may be a column", "score + 1"),
        (PLAIN, "window_end", "price AS score", "two values are called 'score'", "price AS"),
    ],
)  # fmt: skip
def test_refused(text: str, old: str, new: str, said: str, at: str) -> None:
    changed = text.replace(old, new, 1)
    assert changed != text
    with pytest.raises(LanguageError) as caught:
        sb.parse_sql(changed)
    assert said in caught.value.message
    shown, caret = str(caught.value).split("\n")[-2:]
    if at:
        assert shown[caret.index("^") :].startswith(at)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (PLAIN, "DESC", "DESC NULLS LAST"), (PLAIN, "AS w", ""), (GROUPED, "FIRST", "NEXT"),
        (GROUPED, "CREATE VIEW", "CREATE OR REPLACE TEMPORARY VIEW"), (PLAIN, "SELECT", "SELECT ALL"),
        (PLAIN, "window_end", "window_end AS window_end"), (TOP_N, "SELECT *,", "SELECT *, price AS price,"),
    ],
)  # fmt: skip
def test_what_says_the_same_is_allowed(text: str, old: str, new: str) -> None:
    assert sb.parse_sql(text.replace(old, new, 1)) == sb.parse_sql(text)


def parsed(text: str) -> exp.Expression:
    """Parse the query of a text."""
    found: list[exp.Expression] = []
    with changed(found.append):
        read_sql(text, name="query")
    return found[-1]


@contextmanager
def changed(change: Callable[[exp.Expression], None]) -> Iterator[None]:
    """Change trees between sqlglot and the rules."""
    parse = SqlText.parsed

    def parse_and_change(self: SqlText, tokens: Any) -> exp.Expression:
        tree = parse(self, tokens)
        if isinstance(tree, exp.Select):
            change(tree)
        return tree

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlText, "parsed", parse_and_change)
        yield


def read(text: str, path: tuple[Any, ...], key: str, value: Any) -> list[Selected]:
    """Read a text whose tree has one more part, at a path of keys and indices."""

    def change(tree: exp.Expression) -> None:
        node: Any = tree
        for step in path:
            node = node[step] if isinstance(step, int) else node.args[step]
        node.set(key, value)

    with changed(change):
        return read_sql(text, name="query")


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], exp.Expression]]:
    if isinstance(node, exp.Expression):
        yield path, node
        for key, value in node.args.items():
            yield from places(value, (*path, key))
    elif isinstance(node, list):
        for n, one in enumerate(node):
            yield from places(one, (*path, n))


# What changes nothing: quotes around a name, FIRST or NEXT, ROW or ROWS, and sqlglot's own notes about division.
HARMLESS = {
    (exp.Identifier, "quoted"), (exp.Fetch, "direction"), (exp.LimitOptions, "rows"),
    (exp.Div, "typed"), (exp.Div, "safe"),
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=["plain", "grouped", "top n", "nested", "hot", "lateral", "first"])
def test_no_argument_of_the_grammar_is_ignored(text: str) -> None:
    statement, before, tried = parsed(text), read_sql(text, name="query"), 0
    for path, node in list(places(statement)):
        for key in set(node.arg_types) - {"comments"}:
            if node.args.get(key) or (type(node), key) in HARMLESS:
                continue
            for value in (True, exp.Var(this="x"), [exp.Var(this="x")]):
                tried += 1
                try:
                    after = read(text, path, key, value)
                except LanguageError:
                    continue
                except (AttributeError, TypeError):
                    continue  # a value that the grammar would not put there
                assert after != before, f"{type(node).__name__}.{key} is ignored at {path}"
    assert tried > 200
