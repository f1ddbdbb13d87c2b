"""Forms of SQL: what they say of the query and of the stream, and where mistakes in them are pointed to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import skyband as sb
from skyband.cli.commands import app
from skyband.languages import read_sql
from skyband.languages.sql import common_id, only_time

WINDOWS = "TUMBLE(sales, ts, INTERVAL '1' HOUR)"
KEYS = "window_start, window_end, shop"
TOTALS = f"SELECT {KEYS}, SUM(price) AS total FROM {WINDOWS} GROUP BY {KEYS}"
RANKED = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY total DESC) AS n FROM ({TOTALS})"
DDL = """CREATE TABLE sales (
  id BIGINT, shop STRING, price DECIMAL(10, 2), tags MAP<STRING, STRING>, at BIGINT,
  ts AS TO_TIMESTAMP_LTZ(at, 3), cents AS price * 100, now AS PROCTIME(),
  CONSTRAINT one PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka');
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT id, time, score FROM t ORDER BY score DESC LIMIT 2",
         {"score": "score", "select": ("`time` AS `time_`",)}),
        (f"SELECT id, rank FROM (SELECT *, RANK() OVER (ORDER BY price) AS rank FROM {WINDOWS}) WHERE rank <= 2",
         {"ties": "with", "order": "asc", "select": ()}),
        (f"SELECT id FROM {WINDOWS} ORDER BY price DESC FETCH FIRST ROW ONLY", {"k": 1}),
        (f"SELECT id FROM {WINDOWS} ORDER BY ts DESC LIMIT 1", {"score": "unix_micros(ts)"}),
        (f"SELECT id FROM {WINDOWS} ORDER BY price DESC, ts LIMIT 1", {"prefer": "earliest"}),
        (f"SELECT id FROM {WINDOWS} ORDER BY price DESC LIMIT 1 EMIT CHANGES", {"emit": "early"}),
        ("SELECT id FROM sales ORDER BY price DESC LIMIT 1 EMIT FINAL", {"emit": "final"}),
        (f"SELECT shop FROM ({RANKED}) WHERE n = 1 AND shop > 'b' AND total > 3", None),
        (f"SELECT n, shop FROM ({RANKED}) WHERE n <= 3 AND total > 3", {"having": "sum(price) > 3", "k": 3}),
        (f"SELECT shop FROM {WINDOWS} GROUP BY shop ORDER BY COUNT(*) DESC LIMIT 1", {"score": "count(*)"}),
        (f"SELECT 1 FROM {WINDOWS} GROUP BY shop ORDER BY COUNT(*) DESC LIMIT 1", {"group_by": "shop"}),
        ("SELECT shop, SUM(price) FROM sales GROUP BY DATE_TRUNC('month', ts), shop ORDER BY 2 DESC LIMIT 1",
         {"window": sb.Window.calendar("month", zone="UTC"), "select": ()}),
        ("SELECT DATE_TRUNC('hour', ts) AS h, shop, COUNT(*) AS c FROM sales GROUP BY 1, 2 ORDER BY c DESC LIMIT 1",
         {"window": sb.Window("1 hour"), "group_by": ("shop",), "select": ("count(*) AS `c`",)}),
        ("SELECT window(ts, '1 hour') AS w, shop FROM sales GROUP BY window(ts, '1 hour'), shop"
         " ORDER BY COUNT(*) DESC LIMIT 1", {"window": sb.Window("1 hour"), "score": "count(*)"}),
        (f"SELECT shop FROM ({RANKED}) WHERE n IN (2, 1)", {"k": 2}),
        (f"SELECT shop FROM {WINDOWS} GROUP BY shop ORDER BY COUNT(*) DESC, shop LIMIT 1", {"prefer": "id"}),
        ("SELECT id FROM TUMBLE(sales, $rowtime, INTERVAL '1' HOUR) ORDER BY $rowtime DESC LIMIT 1",
         {"score": "unix_micros(`$rowtime`)"}),
        ("SELECT shop, price FROM sales WHERE ts > TIMESTAMP '2024-05-01 09:00:00' ORDER BY price LIMIT 1",
         {"where": "ts > '2024-05-01 09:00:00'"}),
    ],
)  # fmt: skip
def test_what_texts_mean(text: str, wanted: dict[str, Any] | None) -> None:
    if wanted is None:
        with pytest.raises(sb.LanguageError, match="shop > 'b' is a condition behind the ranking"):
            sb.parse_sql(text)
        return
    found = sb.parse_sql(text)
    assert {key: getattr(found, key) for key in wanted} == wanted


def test_tables_say_what_the_stream_is_like() -> None:
    (one,) = read_sql(DDL + "INSERT INTO best (number, c) SELECT id, cents FROM sales ORDER BY cents DESC LIMIT 2;")
    assert (one.table, one.time, one.time_unit, one.watermark) == ("sales", "at", "ms", "5 seconds")
    assert (one.query.name, one.id, one.query.score) == ("best", "id", "price * 100")
    assert one.query.select == ("id AS `number`", "price * 100 AS `c`")
    assert one.noted == ("sales: WITH ('connector' = 'kafka')",)
    (star,) = read_sql(DDL + "SELECT * FROM sales ORDER BY price DESC LIMIT 2")
    assert star.query.select == ("shop", "price", "tags", "at", "at AS `ts`", "price * 100 AS `cents`")
    (stream,) = read_sql(
        "CREATE STREAM s (k VARCHAR, v INT) WITH (timestamp='at', kafka_topic='s');"
        "SELECT k, v FROM s WINDOW TUMBLING (SIZE 1 HOUR) ORDER BY v DESC LIMIT 1 EMIT FINAL;", dialect="ksqldb",
    )  # fmt: skip
    assert (stream.time, stream.query.window) == ("at", sb.Window("1 hour"))


def test_views_are_parts_or_queries() -> None:
    text = f"""CREATE VIEW totals (a, b, place, sum) AS {TOTALS};
        CREATE VIEW best AS SELECT * FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY sum DESC) AS n FROM totals) WHERE n <= 3;
        CREATE SINK out FROM best WITH (connector = 'print');
        CREATE MATERIALIZED VIEW worst AS SELECT id FROM {WINDOWS} ORDER BY price LIMIT 3;"""
    found = read_sql(text)
    assert [one.query.name for one in found] == ["out", "worst"]
    assert (found[0].query.group_by, found[0].query.select) == (("shop AS `place`",), ("sum(price) AS `sum`",))


def test_times_and_ids_by_their_types() -> None:
    schema = pa.schema([("seen", pa.timestamp("us")), ("price", pa.float64()), ("shop", pa.string())])
    (one,) = read_sql("SELECT price, shop FROM s ORDER BY seen DESC LIMIT 1", columns=schema, time=only_time(schema))
    assert (one.query.score, one.time, common_id([one], schema)) == ("unix_micros(seen)", "seen", "shop")
    assert common_id([one], schema.remove(2)) is None
    more = schema.append(pa.field("volume", pa.int64()))
    (one,) = read_sql("SELECT shop FROM s ORDER BY price LIMIT 1", columns=more)
    assert (common_id([one], more), common_id([one], more, {"shop"})) == ("shop", "volume")
    assert only_time(schema.append(pa.field("other", pa.timestamp("s")))) is None


def test_dialects() -> None:
    text = f"SELECT id, volume / 2 AS half FROM {WINDOWS} WHERE \"shop\" <> 'x' ORDER BY price LIMIT 1"
    assert sb.parse_sql(text).where == "shop <> 'x'"
    assert sb.parse_sql(text).select == ("div(volume, 2) AS `half`",)
    spark = sb.parse_sql(text.replace('"shop"', "shop").replace("'x'", '"x"'), dialect="spark")
    assert (spark.where, spark.select) == ("shop <> 'x'", ("volume / 2 AS `half`",))
    with pytest.raises(sb.QueryError, match="there is no dialect 'mysql' of SQL; use 'flink', 'spark'"):
        sb.parse_sql(text, dialect="mysql")


@pytest.mark.parametrize(
    ("text", "said", "at"),
    [
        # The caret is on what is the obstacle, not on an inner SELECT list.
        (f"SELECT shop, name FROM ({RANKED}) WHERE n <= 3", "there is no column 'name' here; there are", "name"),
        (f"SELECT shop FROM ({RANKED}) AS r WHERE q.n <= 3", "'q' is no table here; FROM has 'r'", "q.n"),
        # EMIT is the offender, not CREATE.
        (f"CREATE VIEW v AS SELECT id FROM {WINDOWS} ORDER BY id LIMIT 1 EMIT AFTER X", "EMIT AFTER is", "EMIT"),
        (f"SELECT id FROM (SELECT id FROM {WINDOWS} ORDER BY price LIMIT 1 EMIT FINAL)", "it stands at", "EMIT"),
        # An alias is no problem, a condition is.
        (f"SELECT r.shop FROM ({RANKED}) AS r WHERE r.n <= 3 AND r.shop = 'a'", "shop = 'a' is a", "r.n"),
        # ORDER BY is there, and is not the obstacle.
        (f"SELECT shop FROM ({RANKED} LIMIT 3) WHERE n <= 3", "OVER ranks the rows", "LIMIT 3"),
        (f"SELECT shop FROM ({TOTALS} ORDER BY total)", "there is no LIMIT; say how many to rank", "ORDER BY total"),
        (f"SELECT id FROM {WINDOWS} ORDER BY price, shop, ts LIMIT 1", "shop as a further key of ORDER BY", "shop, ts"),
        (f"SELECT shop FROM {WINDOWS} GROUP BY shop ORDER BY COUNT(*), shop DESC LIMIT 1", "only key", "shop DESC"),
        (f"SELECT shop FROM ({RANKED}) WHERE n IN (1, 3)", "does not say how many rows", "n IN"),
        # Others.
        (f"SELECT shop FROM ({TOTALS}) ORDER BY total LIMIT 1", "this ranks rows of different windows", "total LIMIT"),
        ("SELECT a FROM SESSION(s, ts, INTERVAL '1' HOUR) ORDER BY a LIMIT 1", "the window SESSION() is", "SESSION"),
        ("SELECT a FROM s WINDOW SESSION (1 HOUR) ORDER BY a LIMIT 1", "SESSION windows are not", "SESSION"),
        ("SELECT a FROM s WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 HOUR) ORDER BY a LIMIT 1", "GRACE", "GRACE"),
        ("SELECT a FROM s WINDOW HOPPING (SIZE 1 HOUR) ORDER BY a LIMIT 1", "wants SIZE and ADVANCE BY", "HOPPING"),
        ("SELECT a FROM s WINDOW TUMBLING SIZE 1 ORDER BY a LIMIT 1", "is written with brackets", "WINDOW"),
        (f"SELECT id FROM {WINDOWS} WHERE shop IN (SELECT a FROM b) ORDER BY id LIMIT 1", "IN (SELECT …) is", "shop"),
        (f"SELECT id, window_end - 1 AS e FROM {WINDOWS} ORDER BY price LIMIT 1", "the window end in an", "window_end"),
        (f"SELECT id FROM {WINDOWS} WHERE window_end > 'x' ORDER BY price LIMIT 1", "in a condition", "window_end"),
        (f"SELECT id FROM {WINDOWS} ORDER BY window_end, price LIMIT 1", "ORDER BY names the window", "ORDER"),
        (f"SELECT id FROM {WINDOWS} a JOIN {WINDOWS} b ON a.x = b.y ORDER BY a.x LIMIT 1", "this JOIN is", "JOIN"),
        ("SELECT id FROM a UNION SELECT id FROM b", "'UNION' is not supported", ""),
        (DDL + "SELECT id FROM sales ORDER BY now LIMIT 1", "'now' is processing time, which is not", "now"),
        (DDL + "SELECT id, nam FROM sales ORDER BY price LIMIT 1", "there is no column 'nam' here", "nam"),
        ("CREATE TABLE t (a INT, b AS rand());SELECT a FROM t ORDER BY a LIMIT 1", "the column 'b' cannot be", "rand"),
        ("CREATE TABLE t (a INT, WATERMARK FOR a AS b)", "a watermark is a, or a - INTERVAL '5' SECOND", "b"),
        ("CREATE TABLE t (a INT)", "there is no query", ""),
        ("CREATE VIEW v", "CREATE VIEW name wants a query: AS SELECT", "CREATE"),
        ("CREATE SINK s FROM v", "there is no view 'v' before this", "CREATE"),
        ("CREATE VIEW v SOON AS SELECT 1", "'SOON' is not expected here; write CREATE VIEW", "SOON"),
        ("INSERT INTO x VALUES (1)", "here comes a query, SELECT …, and not 'VALUES'", "VALUES"),
        ("INSERT INTO x (a, b) SELECT id FROM s ORDER BY id LIMIT 1", "there are 2 new names for 1 columns", ""),
        (f"SELECT id FROM {WINDOWS} /*+ OPTIONS('a'='b') */ ORDER BY price LIMIT 1", "a hint is not supported", "/*+"),
        ("SELECT DATE_TRUNC('hour', ts), RANK() OVER (PARTITION BY b ORDER BY a) n FROM s QUALIFY n < 2", "window", ""),
        ("SELECT DATE_TRUNC('hour', ts) AS h, a FROM s ORDER BY a LIMIT 1", "windows that are made by functions", ""),
        (f"SELECT a FROM {WINDOWS.replace('TUMBLE', 'CUMULATE').replace(')', ', INTERVAL 2 HOUR)')} "
         "GROUP BY window_start, a ORDER BY COUNT(*) LIMIT 1", "several windows of CUMULATE start", "window_st"),
        (f"SELECT shop FROM ({TOTALS}) t WHERE total > 1 OR shop = 'a'", "nothing is ranked", ""),
        ("SET 'a' = 'b'", "'SET' is not expected here", "SET"),
        (f"SELECT shop FROM ({RANKED}) WHERE n <= 3 GROUP BY shop", "GROUP BY behind a ranking", ""),
        (f"SELECT COUNT(*) FROM {WINDOWS} GROUP BY window_end ORDER BY 1 LIMIT 1", "nothing to rank", ""),
        (f"SELECT shop, AVG(total) FROM ({TOTALS}) GROUP BY {KEYS} ORDER BY 2 LIMIT 1", "AVG() of", "AVG"),
        (f"SELECT MAX(total) m FROM ({TOTALS}) GROUP BY window_end ORDER BY m LIMIT 1", "nothing to rank", ""),
        ("SELECT a FROM s GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), HOP(ts, INTERVAL '1' HOUR, INTERVAL '2' HOUR), a "
         "ORDER BY COUNT(*) LIMIT 1", "there are two different windows", "HOP"),
        (f"SELECT a FROM {WINDOWS} GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), a ORDER BY COUNT(*) LIMIT 1", "in one", ""),
        ("SELECT a, LAG(b) OVER (ORDER BY c) AS n FROM s ORDER BY n LIMIT 1", "'LAG()' OVER (…) is not supported", ""),
        ("SELECT a, RANK() OVER w AS n FROM s QUALIFY n <= 1", "there is no window 'w'; write WINDOW w AS", "RANK"),
        ("SELECT TOPK(a, 3), TOPK(b, 3) FROM s GROUP BY c", "TOPK is supported as SELECT a, TOPK(x, 3)", "TOPK"),
        ("SELECT TOPK(a, 3), d FROM s GROUP BY c", "beside TOPK stands what GROUP BY names", "d FROM"),
        ("SELECT DISTINCT ON (a) a FROM s ORDER BY a", "ORDER BY names only what DISTINCT ON does", "a"),
        ("SELECT DISTINCT ON (a) a FROM s", "DISTINCT ON has no ORDER BY", ""),
        ("SELECT a FROM (SELECT b FROM s) x, LATERAL (SELECT a FROM s ORDER BY a LIMIT 1)", "LATERAL is", ""),
    ],
)  # fmt: skip
def test_mistakes(text: str, said: str, at: str) -> None:
    with pytest.raises(sb.LanguageError) as caught:
        read_sql(text, columns=None, dialect="ksqldb" if "WINDOW " in text else "flink")
    assert said in caught.value.message
    if at:
        shown, caret = str(caught.value).split("\n")[-2:]
        assert shown[caret.index("^") :].startswith(at)


def test_the_command_line_takes_dialects(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("ts,shop,price\n2024-05-01T09:10:00Z,a,7\n2024-05-01T09:20:00Z,b,8\n")
    (tmp_path / "best.sql").write_text(
        "CREATE TABLE sales (ts TIMESTAMP, shop STRING, price INT) WITH ('connector' = 'x');"
        'CREATE VIEW best AS SELECT *, price / 2 AS half FROM sales WHERE shop <> "x" '
        "ORDER BY price DESC LIMIT 1 EMIT FINAL;"
    )
    base = ["run", str(tmp_path / "best.sql"), "--input", str(tmp_path / "sales.csv"), "--engine", "local", "--output"]
    done = CliRunner().invoke(app, [*base, str(tmp_path / "out.jsonl"), "--dialect", "spark", "--every", "1 hour"])
    assert done.exit_code == 0, done.output
    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    assert '"half": 4.0' in line
    assert '"shop": "b"' in line
    assert "not used: sales: WITH ('connector' = 'x')" in done.output
    (tmp_path / "two.sql").write_text(
        "CREATE VIEW a AS SELECT shop FROM s ORDER BY price LIMIT 1;"
        "CREATE VIEW b AS SELECT shop FROM t ORDER BY price LIMIT 1"
    )
    done = CliRunner().invoke(app, [*base[:1], str(tmp_path / "two.sql"), *base[2:], "-"])
    assert done.exit_code == 2
    assert "the queries have different tables: s, t; put them into files of their own" in " ".join(done.output.split())
