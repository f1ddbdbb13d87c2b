"""The texts: form, dialect, query, and the same question to DuckDB.

DuckDB's answer names the columns to compare: those of the text, and Skyband's own (rank, id, score, window_end). A case
without a window is about all time: what stands at the end is compared.
"""

from __future__ import annotations

from dataclasses import dataclass

TUMBLE = "TABLE(TUMBLE(TABLE sales, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"
HOP = "TABLE(HOP(TABLE sales, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '20' MINUTES))"
CUMULATE = "TABLE(CUMULATE(TABLE sales, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '30' MINUTES))"
DDL = """CREATE TABLE sales (
  id STRING, shop STRING, product STRING, country STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
  PRIMARY KEY (id) NOT ENFORCED
) WITH ('connector' = 'kafka', 'topic' = 'sales', 'format' = 'json');
"""
TOTALS = f"""SELECT window_start, window_end, shop, SUM(price) AS total, COUNT(*) AS items
FROM {TUMBLE} GROUP BY window_start, window_end, shop"""


@dataclass(frozen=True)
class Case:
    """One text, and what DuckDB is asked instead."""

    name: str
    text: str
    truth: str
    dialect: str = "flink"


def _events(view: str, order: str, k: int, columns: str, where: str = "TRUE", part: str = "") -> str:
    """Ask for the best events of each window; equal ones by time and id."""
    parts = ", ".join(one for one in ("window_end", part) if one)
    return f"""
        SELECT window_end, {columns}, row_number() OVER (PARTITION BY {parts} ORDER BY {order}, ts DESC, id) AS rank
        FROM {view} WHERE {where} QUALIFY rank <= {k}"""


def _groups(
    view: str, key: str, score: str, k: int, columns: str, *, where: str = "TRUE", having: str = "TRUE",
    part: str = "", function: str = "row_number", window: str = "window_end",
) -> str:  # fmt: skip
    """Ask for the best groups of each window; equal ones by their latest row and the key."""
    parts = ", ".join(one for one in (window, part) if one)
    ties = "" if function != "row_number" else f", max(ts) DESC, {key}"
    return f"""
        SELECT {window}{"," if window else ""} {columns},
               {function}() OVER ({"PARTITION BY" if parts else ""} {parts} ORDER BY {score} DESC{ties}) AS rank
        FROM {view} WHERE {where} GROUP BY {", ".join(one for one in (window, key) if one)} HAVING {having}
        QUALIFY rank <= {k}"""


_TOTALS = _groups("tumble", "shop", "sum(price)", 3, "shop, shop AS id, sum(price) AS score, sum(price) AS total, "
                  "count(*) AS items")  # fmt: skip
_BEST = _events("tumble", "price DESC", 3, "id, price AS score, shop, price")

CASES = [
    # Rankings of aggregates: nested, in WITH, in views, with filters at each level.
    Case("aggregate in a subquery", f"""
        SELECT * FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS n
          FROM ({TOTALS})
        ) WHERE n <= 3""", _TOTALS),
    Case("aggregate in WITH", f"""
        WITH totals AS ({TOTALS}),
             ranked AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS n
                        FROM totals)
        SELECT window_start, window_end, shop, total, items, n FROM ranked WHERE n <= 3""", _TOTALS),
    Case("aggregate in a view", f"""
        CREATE TEMPORARY VIEW totals AS {TOTALS};
        CREATE VIEW ranked AS
        SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY total DESC) AS n FROM totals;
        SELECT shop, total, items FROM ranked WHERE n <= 3;""", _TOTALS),
    Case("filters at each level", f"""
        SELECT shop, total FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS n FROM (
            SELECT window_start, window_end, shop, SUM(price) AS total FROM {TUMBLE}
            WHERE product <> 'ale' GROUP BY window_start, window_end, shop HAVING COUNT(*) > 1
          ) WHERE total > 100 AND shop <> 'west'
        ) WHERE n <= 2""",
         _groups("tumble", "shop", "sum(price)", 2, "shop, sum(price) AS total",
                 where="product <> 'ale' AND shop <> 'west'", having="count(*) > 1 AND sum(price) > 100")),
    Case("aggregate and ranking in one SELECT", f"""
        SELECT shop, total, n FROM (
          SELECT window_start, window_end, shop, SUM(price) AS total,
                 ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY SUM(price) DESC) AS n
          FROM {TUMBLE} GROUP BY window_start, window_end, shop
        ) WHERE n <= 3""",
         _groups("tumble", "shop", "sum(price)", 3, "shop, sum(price) AS total")),
    Case("short form", f"""
        SELECT shop, SUM(price * volume) AS turnover FROM {TUMBLE}
        GROUP BY window_start, window_end, shop ORDER BY turnover DESC LIMIT 2""",
         _groups("tumble", "shop", "sum(price * volume)", 2, "shop, sum(price * volume) AS turnover")),
    Case("sliding windows", f"""
        SELECT * FROM (
          SELECT shop, cnt, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY cnt DESC) AS n
          FROM (SELECT shop, SUM(volume) AS cnt, window_start, window_end FROM {HOP}
                GROUP BY shop, window_start, window_end)
        ) WHERE n <= 2""",
         _groups("hop", "shop", "sum(volume)", 2, "shop, sum(volume) AS cnt")),
    Case("growing windows", f"""
        SELECT shop, total FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS n
          FROM (SELECT window_start, window_end, shop, SUM(price) AS total FROM {CUMULATE}
                GROUP BY window_start, window_end, shop)
        ) WHERE n <= 2""",
         _groups("cumulate", "shop", "sum(price)", 2, "shop, sum(price) AS total")),
    Case("averages, least and largest", f"""
        SELECT shop, AVG(price) AS mean, MIN(price) AS least, MAX(price) AS most, COUNT(*) AS n FROM {TUMBLE}
        GROUP BY window_start, window_end, shop ORDER BY mean ASC LIMIT 2""",
         _groups("tumble", "shop", "-avg(price)", 2, "shop, avg(price) AS mean, min(price) AS least, "
                 "max(price) AS most, count(*) AS n")),
    Case("an expression of aggregates", f"""
        SELECT shop, SUM(price * volume) / SUM(volume) AS vwap FROM {TUMBLE}
        GROUP BY window_start, window_end, shop ORDER BY vwap DESC LIMIT 2""",
         _groups("tumble", "shop", "sum(price * volume) / sum(volume)", 2,
                 "shop, sum(price * volume) / sum(volume) AS vwap")),
    Case("integers of aggregates divide to integers", f"""
        SELECT shop, SUM(volume) / COUNT(*) AS whole, SUM(price) AS total FROM {TUMBLE}
        GROUP BY window_start, window_end, shop ORDER BY total DESC LIMIT 2""",
         _groups("tumble", "shop", "sum(price)", 2, "shop, sum(volume) // count(*) AS whole, sum(price) AS total")),
    Case("distinct values", f"""
        SELECT shop, COUNT(DISTINCT product) AS kinds, SUM(price) AS total FROM {TUMBLE}
        GROUP BY window_start, window_end, shop HAVING COUNT(DISTINCT product) > 1 ORDER BY total DESC LIMIT 2""",
         _groups("tumble", "shop", "sum(price)", 2, "shop, count(DISTINCT product) AS kinds, sum(price) AS total",
                 having="count(DISTINCT product) > 1")),
    Case("a condition inside an aggregate", f"""
        SELECT shop, SUM(CASE WHEN product = 'tea' THEN price ELSE 0 END) AS tea, SUM(price) AS total FROM {TUMBLE}
        GROUP BY window_start, window_end, shop ORDER BY total DESC LIMIT 2""",
         _groups("tumble", "shop", "sum(price)", 2,
                 "shop, sum(CASE WHEN product = 'tea' THEN price ELSE 0 END) AS tea, sum(price) AS total")),
    Case("FILTER", f"""
        SELECT shop, COUNT(*) FILTER (WHERE product = 'tea') AS teas, SUM(price) AS total FROM {TUMBLE}
        GROUP BY window_start, window_end, shop ORDER BY total DESC LIMIT 2""",
         _groups("tumble", "shop", "sum(price)", 2, "shop, count(*) FILTER (WHERE product = 'tea') AS teas, "
                 "sum(price) AS total")),
    Case("groups of groups", f"""
        SELECT shop, SUM(total) AS total FROM (
          SELECT window_start, window_end, shop, product, SUM(price) AS total FROM {TUMBLE}
          GROUP BY window_start, window_end, shop, product
        ) GROUP BY window_start, window_end, shop ORDER BY total DESC LIMIT 2""",
         _groups("tumble", "shop", "sum(price)", 2, "shop, sum(price) AS total")),
    # Events.
    Case("events, Top-N", f"""
        SELECT id, shop, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS n FROM {TUMBLE}
        ) WHERE n <= 3""", _BEST),
    Case("events, all columns", f"""
        SELECT * FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS n FROM {TUMBLE}
        ) WHERE n <= 3""",
         _events("tumble", "price DESC", 3, "id, price AS score, shop, product, country, price, volume, ts")),
    Case("events, short form", f"SELECT id, shop, price FROM {TUMBLE} ORDER BY price DESC LIMIT 3", _BEST),
    Case("events, FETCH", f"SELECT id, shop, price FROM {TUMBLE} ORDER BY price DESC FETCH FIRST 3 ROWS ONLY", _BEST),
    Case("events, named arguments", """
        SELECT id, shop, price FROM TABLE(
          TUMBLE(DATA => TABLE sales, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' MINUTES)
        ) ORDER BY price DESC LIMIT 3""", _BEST),
    Case("events, the smallest first", f"""
        SELECT id, price FROM (
          SELECT id, price, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price) AS n FROM {HOP}
        ) WHERE n <= 2""", _events("hop", "price", 2, "id, price")),
    Case("events, n < 4", f"""
        SELECT id, shop, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS n FROM {TUMBLE}
        ) AS t WHERE t.n < 4""", _BEST),
    Case("events, BETWEEN", f"""
        SELECT id, shop, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS n FROM {TUMBLE}
        ) AS t WHERE t.n BETWEEN 1 AND 3""", _BEST),
    Case("events, QUALIFY", f"""
        SELECT id, shop, price FROM {TUMBLE}
        QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) <= 3""", _BEST),
    Case("events, QUALIFY of a name", f"""
        SELECT id, shop, price, ROW_NUMBER() OVER w AS n FROM {TUMBLE}
        QUALIFY n <= 3 WINDOW w AS (PARTITION BY window_start, window_end ORDER BY price DESC)""", _BEST),
    Case("events, outer ORDER BY", f"""
        SELECT id, shop, price, n FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS n FROM {TUMBLE}
        ) WHERE n <= 3 ORDER BY window_start, n""", _BEST),
    Case("a computed score", f"""
        SELECT id, price * volume AS turnover FROM {TUMBLE} WHERE shop IN ('north', 'south')
        ORDER BY turnover DESC LIMIT 3""",
         _events("tumble", "price * volume DESC", 3, "id, price * volume AS turnover, price * volume AS score",
                 "shop IN ('north', 'south')")),
    Case("a computed column inside", f"""
        SELECT id, turnover FROM (
          SELECT id, turnover, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY turnover DESC) AS n
          FROM (SELECT *, price * volume AS turnover FROM {TUMBLE} WHERE price > 30) WHERE turnover < 900
        ) WHERE n <= 2""",
         _events("tumble", "price * volume DESC", 2, "id, price * volume AS turnover",
                 "price > 30 AND price * volume < 900")),
    Case("new names for columns", f"""
        SELECT number, shop AS place, price AS paid FROM (
          SELECT id AS number, shop, price,
                 ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS n FROM {TUMBLE}
        ) WHERE n <= 3""", _events("tumble", "price DESC", 3, "id AS number, shop AS place, price AS paid")),
    Case("an alias that hides a column", f"""
        SELECT id, price FROM (
          SELECT id, -price AS price,
                 ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS n FROM {TUMBLE}
        ) WHERE n <= 2""", _events("tumble", "price DESC", 2, "id, -price AS price")),
    Case("qualified names", f"""
        SELECT t.id, t.price FROM (
          SELECT s.id, s.price, ROW_NUMBER() OVER (PARTITION BY s.window_start, s.window_end ORDER BY s.price DESC) AS n
          FROM {TUMBLE} AS s
        ) AS t WHERE t.n <= 2""", _events("tumble", "price DESC", 2, "id, price")),
    Case("places in ORDER BY", f"SELECT id, price FROM {TUMBLE} ORDER BY 2 DESC LIMIT 2",
         _events("tumble", "price DESC", 2, "id, price")),
    Case("integers divide to integers", f"""
        SELECT id, volume / 2 AS half, price FROM {TUMBLE} WHERE volume / 2 > 0 ORDER BY price DESC LIMIT 3""",
         _events("tumble", "price DESC", 3, "id, volume // 2 AS half, price", "volume // 2 > 0")),
    Case("quoted names", f"""SELECT "id", `shop`, "price" FROM {TUMBLE} ORDER BY "price" DESC LIMIT 3""", _BEST),
    # Parts.
    Case("the best of each part", f"""
        SELECT shop, id, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, shop ORDER BY price DESC) AS n
          FROM {TUMBLE}
        ) WHERE n <= 2""", _events("tumble", "price DESC", 2, "shop, id, price", part="shop")),
    Case("several parts", f"""
        SELECT shop, country, id, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, shop, country ORDER BY price DESC) AS n
          FROM {TUMBLE}
        ) WHERE n = 1""", _events("tumble", "price DESC", 1, "shop, country, id, price", part="shop, country")),
    Case("a part without a value", f"""
        SELECT country, id, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, country ORDER BY price DESC) AS n
          FROM {TUMBLE}
        ) WHERE n <= 2""", _events("tumble", "price DESC", 2, "country, id, price", part="country")),
    Case("an expression as part", f"""
        SELECT id, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, upper(shop) ORDER BY price DESC) AS n
          FROM {TUMBLE}
        ) WHERE n <= 1""", _events("tumble", "price DESC", 1, "id, price", part="shop")),
    Case("some parts only", f"""
        SELECT shop, id, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, shop ORDER BY price DESC) AS n
          FROM {TUMBLE}
        ) WHERE n <= 2 AND shop <> 'north'""",
         _events("tumble", "price DESC", 2, "shop, id, price", "shop <> 'north'", part="shop")),
    Case("a bound of the score behind the ranking", f"""
        SELECT id, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS n FROM {TUMBLE}
        ) WHERE n <= 3 AND price > 150""", _events("tumble", "price DESC", 3, "id, price", "price > 150")),
    Case("groups in parts", f"""
        SELECT shop, product, total FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, shop ORDER BY total DESC) AS n FROM (
            SELECT window_start, window_end, shop, product, SUM(price) AS total FROM {TUMBLE}
            GROUP BY window_start, window_end, shop, product)
        ) WHERE n <= 1""",
         _groups("tumble", "shop, product", "sum(price)", 1, "shop, product, sum(price) AS total", part="shop")),
    Case("several keys", f"""
        SELECT shop, product, SUM(price) AS total FROM {TUMBLE}
        GROUP BY window_start, window_end, shop, product ORDER BY total DESC LIMIT 3""",
         _groups("tumble", "shop, product", "sum(price)", 3, "shop, product, sum(price) AS total")),
    Case("an expression as key", f"""
        SELECT upper(shop) AS place, SUM(price) AS total FROM {TUMBLE}
        GROUP BY window_start, window_end, upper(shop) ORDER BY total DESC LIMIT 2""",
         _groups("tumble", "upper(shop)", "sum(price)", 2, "upper(shop) AS place, sum(price) AS total")),
    Case("a key without a value", f"""
        SELECT country, SUM(price) AS total FROM {TUMBLE}
        GROUP BY window_start, window_end, country ORDER BY total DESC LIMIT 3""",
         _groups("tumble", "country", "sum(price)", 3, "country, sum(price) AS total")),
    Case("a key by its place", f"""
        SELECT shop, COUNT(*) AS n, SUM(price) AS total FROM {TUMBLE}
        GROUP BY 1, window_start, window_end ORDER BY 3 DESC LIMIT 2""",
         _groups("tumble", "shop", "sum(price)", 2, "shop, count(*) AS n, sum(price) AS total")),
    # Ties.
    Case("RANK", f"""
        SELECT id, volume FROM (
          SELECT *, RANK() OVER (PARTITION BY window_start, window_end ORDER BY volume DESC) AS r FROM {TUMBLE}
        ) WHERE r <= 2""",
         "SELECT window_end, id, volume, rank() OVER (PARTITION BY window_end ORDER BY volume DESC) AS rank "
         "FROM tumble QUALIFY rank <= 2"),
    Case("DENSE_RANK", f"""
        SELECT id, volume FROM (
          SELECT *, DENSE_RANK() OVER (PARTITION BY window_start, window_end ORDER BY volume DESC) AS r FROM {TUMBLE}
        ) WHERE r <= 2""",
         "SELECT window_end, id, volume, dense_rank() OVER (PARTITION BY window_end ORDER BY volume DESC) AS rank "
         "FROM tumble QUALIFY rank <= 2"),
    Case("WITH TIES", f"SELECT id, volume FROM {TUMBLE} ORDER BY volume DESC FETCH FIRST 2 ROWS WITH TIES",
         "SELECT window_end, id, volume, rank() OVER (PARTITION BY window_end ORDER BY volume DESC) AS rank "
         "FROM tumble QUALIFY rank <= 2"),
    Case("RANK of groups", f"""
        SELECT shop, items FROM (
          SELECT *, RANK() OVER (PARTITION BY window_start, window_end ORDER BY items DESC) AS r FROM ({TOTALS})
        ) WHERE r <= 1""",
         _groups("tumble", "shop", "count(*)", 1, "shop, count(*) AS items", function="rank")),
    Case("hot items", f"""
        SELECT hot.shop, hot.items FROM (
          SELECT shop, COUNT(*) AS items, window_start AS s, window_end AS e FROM {HOP}
          GROUP BY shop, window_start, window_end
        ) AS hot JOIN (
          SELECT MAX(counted.items) AS most, counted.s, counted.e FROM (
            SELECT COUNT(*) AS items, window_start AS s, window_end AS e FROM {HOP}
            GROUP BY shop, window_start, window_end
          ) AS counted GROUP BY counted.s, counted.e
        ) AS best ON hot.s = best.s AND hot.e = best.e AND hot.items >= best.most""",
         _groups("hop", "shop", "count(*)", 1, "shop, count(*) AS items", function="rank")),
    Case("the highest of each window", f"""
        SELECT s.id, s.price FROM {TUMBLE} AS s JOIN (
          SELECT MAX(price) AS most, window_start, window_end FROM {TUMBLE} GROUP BY window_start, window_end
        ) AS m ON s.window_start = m.window_start AND s.window_end = m.window_end AND s.price = m.most""",
         _events("tumble", "price DESC", 1, "id, price")),
    # Orders.
    Case("equal ones, the earliest first", f"""
        SELECT id, volume FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY volume DESC, ts ASC) AS n
          FROM {TUMBLE}
        ) WHERE n <= 3""",
         "SELECT window_end, id, volume, row_number() OVER (PARTITION BY window_end ORDER BY volume DESC, ts) AS rank "
         "FROM tumble QUALIFY rank <= 3"),
    Case("equal ones, the latest first", f"""
        SELECT id, volume FROM {TUMBLE} ORDER BY volume DESC, ts DESC, id LIMIT 3""",
         _events("tumble", "volume DESC", 3, "id, volume")),
    Case("the last row of each key", f"""
        SELECT shop, id, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, shop ORDER BY ts DESC) AS n FROM {TUMBLE}
        ) WHERE n = 1""", _events("tumble", "ts DESC", 1, "shop, id, price", part="shop")),
    Case("the first row of each key", f"""
        SELECT shop, id, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, shop ORDER BY ts ASC) AS n FROM {TUMBLE}
        ) WHERE n = 1""", _events("tumble", "ts", 1, "shop, id, price", part="shop")),
    # Group windows.
    Case("TUMBLE in GROUP BY", """
        SELECT shop, total, w FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY w ORDER BY total DESC) AS n FROM (
            SELECT TUMBLE_START(ts, INTERVAL '10' MINUTE) AS w, shop, SUM(price) AS total FROM sales
            GROUP BY TUMBLE(ts, INTERVAL '10' MINUTE), shop)
        ) WHERE n <= 3""", _groups("tumble", "shop", "sum(price)", 3, "shop, sum(price) AS total")),
    Case("HOP in GROUP BY", """
        SELECT shop, HOP_END(ts, INTERVAL '10' MINUTE, INTERVAL '20' MINUTE) AS e, COUNT(*) AS items,
               SUM(price) AS total FROM sales GROUP BY HOP(ts, INTERVAL '10' MINUTE, INTERVAL '20' MINUTE), shop
        ORDER BY total DESC LIMIT 2""",
         _groups("hop", "shop", "sum(price)", 2, "shop, count(*) AS items, sum(price) AS total")),
    Case("a window with a name", """
        SELECT shop, hop(INTERVAL '10 minutes', INTERVAL '20 minutes') AS window, SUM(price) AS total FROM sales
        GROUP BY shop, window ORDER BY total DESC LIMIT 2""",
         _groups("hop", "shop", "sum(price)", 2, "shop, sum(price) AS total")),
    Case("hours by DATE_TRUNC", """
        SELECT shop, SUM(price) AS total FROM sales GROUP BY DATE_TRUNC('hour', ts), shop
        ORDER BY total DESC LIMIT 2""",
         "SELECT date_trunc('hour', ts) + INTERVAL 1 HOUR AS window_end, shop, sum(price) AS total, row_number() "
         "OVER (PARTITION BY window_end ORDER BY total DESC) AS rank FROM sales GROUP BY window_end, shop "
         "QUALIFY rank <= 2"),
    Case("the best of each hour", """
        SELECT id, price, h FROM (
          SELECT *, DATE_TRUNC('hour', ts) AS h,
                 ROW_NUMBER() OVER (PARTITION BY DATE_TRUNC('hour', ts), shop ORDER BY price DESC) AS n FROM sales
        ) WHERE n <= 2""",
         "SELECT date_trunc('hour', ts) + INTERVAL 1 HOUR AS window_end, id, price, row_number() OVER (PARTITION BY "
         "window_end, shop ORDER BY price DESC) AS rank FROM sales QUALIFY rank <= 2"),
    # Wrappers.
    Case("INSERT INTO behind tables", DDL + f"""
        CREATE TABLE best (shop STRING, total DOUBLE, items BIGINT) WITH ('connector' = 'print');
        INSERT INTO best SELECT shop, total, items FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS n FROM ({TOTALS})
        ) WHERE n <= 3;""", _TOTALS),
    Case("a computed column of a table", """
        CREATE TABLE sales (id STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP(3), turnover AS price * volume,
                            WATERMARK FOR ts AS ts);
        SELECT id, turnover FROM TABLE(TUMBLE(TABLE sales, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
        ORDER BY turnover DESC LIMIT 2""",
         _events("tumble", "price * volume DESC", 2, "id, price * volume AS turnover")),
    Case("a view that filters", """
        CREATE VIEW dear AS SELECT * FROM sales WHERE price > 100;
        SELECT id, price FROM TABLE(TUMBLE(TABLE dear, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
        ORDER BY price LIMIT 2""", _events("tumble", "price", 2, "id, price", "price > 100")),
    Case("a name with dots", """
        SELECT id, shop, price FROM TABLE(TUMBLE(TABLE mine.shop.sales, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
        ORDER BY price DESC LIMIT 3""", _BEST),
    # All time.
    Case("all time", "SELECT id, shop, price FROM sales ORDER BY price DESC LIMIT 5",
         "SELECT id, shop, price, price AS score, row_number() OVER (ORDER BY price DESC) AS rank FROM sales "
         "QUALIFY rank <= 5"),
    Case("all time, Top-N by part", """
        SELECT shop, id, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY price DESC) AS n FROM sales
        ) WHERE n <= 2""",
         "SELECT shop, id, price, row_number() OVER (PARTITION BY shop ORDER BY price DESC) AS rank FROM sales "
         "QUALIFY rank <= 2"),
    Case("all time, groups", "SELECT shop, SUM(price) AS total FROM sales GROUP BY shop ORDER BY total DESC LIMIT 3",
         _groups("sales", "shop", "sum(price)", 3, "shop, sum(price) AS total", window="")),
    Case("all time, the last of each key", """
        SELECT shop, id, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY ts DESC) AS n FROM sales
        ) WHERE n = 1""",
         "SELECT shop, id, price, row_number() OVER (PARTITION BY shop ORDER BY ts DESC) AS rank FROM sales "
         "QUALIFY rank = 1"),
    Case("LATERAL", """
        SELECT shop, id, price FROM (SELECT DISTINCT shop FROM sales) AS shops,
        LATERAL (SELECT id, price FROM sales WHERE sales.shop = shops.shop ORDER BY price DESC LIMIT 2)""",
         "SELECT shop, id, price, row_number() OVER (PARTITION BY shop ORDER BY price DESC) AS rank FROM sales "
         "QUALIFY rank <= 2"),
    # Other dialects.
    Case("Postgres: TUMBLE of a table", """
        SELECT shop, sum(price) AS total FROM TUMBLE(sales, ts, INTERVAL '10 MINUTES')
        GROUP BY shop, window_start, window_end ORDER BY total DESC LIMIT 2""",
         _groups("tumble", "shop", "sum(price)", 2, "shop, sum(price) AS total"), "postgres"),
    Case("Postgres: materialized view", """
        CREATE MATERIALIZED VIEW best AS
        SELECT * FROM (
          SELECT *, row_number() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS rank FROM (
            SELECT window_start, window_end, shop, sum(price) AS total
            FROM HOP(sales, ts, INTERVAL '10 MINUTES', INTERVAL '20 MINUTES') GROUP BY window_start, window_end, shop)
        ) WHERE rank <= 2 EMIT ON WINDOW CLOSE;""",
         _groups("hop", "shop", "sum(price)", 2, "shop, sum(price) AS total"), "postgres"),
    Case("Postgres: sink", """
        CREATE SOURCE sales (id VARCHAR, shop VARCHAR, price DOUBLE PRECISION, ts TIMESTAMP,
                             WATERMARK FOR ts AS ts - INTERVAL '5 seconds') WITH (connector = 'kafka')
        FORMAT PLAIN ENCODE JSON;
        CREATE SINK dearest AS
        SELECT id, price FROM TUMBLE(sales, ts, INTERVAL '10 minutes') ORDER BY price DESC LIMIT 2
        WITH (connector = 'kafka', topic = 'dearest');""", _events("tumble", "price DESC", 2, "id, price"), "postgres"),
    Case("Postgres: DISTINCT ON", "SELECT DISTINCT ON (shop) shop, id, price FROM sales ORDER BY shop, price DESC",
         "SELECT shop, id, price, row_number() OVER (PARTITION BY shop ORDER BY price DESC) AS rank FROM sales "
         "QUALIFY rank = 1", "postgres"),
    Case("Spark: window()", """
        SELECT shop, sum(price) AS total FROM sales GROUP BY window(ts, '20 minutes', '10 minutes'), shop
        ORDER BY total DESC LIMIT 2""",
         _groups("hop", "shop", "sum(price)", 2, "shop, sum(price) AS total"), "spark"),
    Case("Spark: Top-N over window()", """
        SELECT shop, total FROM (
          SELECT *, row_number() OVER (PARTITION BY begins ORDER BY total DESC) AS n FROM (
            SELECT window.start AS begins, shop, sum(price) AS total FROM sales GROUP BY window(ts, '10 minutes'), shop)
        ) WHERE n <= 2""",
         _groups("tumble", "shop", "sum(price)", 2, "shop, sum(price) AS total"), "spark"),
    Case("Spark: the column of windows", """
        SELECT window.start, window.end, shop, items FROM (
          SELECT window, shop, count(1) AS items, sum(price) AS total,
                 row_number() OVER (PARTITION BY window ORDER BY sum(price) DESC) AS n
          FROM sales GROUP BY window(ts, '10 minutes'), shop
        ) WHERE n <= 2""", _groups("tumble", "shop", "sum(price)", 2, "shop, count(*) AS items"), "spark"),
    Case("Spark: quotes and division", """
        SELECT id, volume / 2 AS halves FROM TUMBLE(sales, ts, INTERVAL 10 MINUTES) WHERE shop = "north"
        ORDER BY price DESC LIMIT 2""",
         _events("tumble", "price DESC", 2, "id, volume / 2 AS halves", "shop = 'north'"), "spark"),
    Case("ksqlDB: tumbling", """
        CREATE TABLE best AS SELECT shop, SUM(price) AS total FROM sales WINDOW TUMBLING (SIZE 10 MINUTES)
        GROUP BY shop ORDER BY total DESC LIMIT 2 EMIT FINAL;""",
         _groups("tumble", "shop", "sum(price)", 2, "shop, sum(price) AS total"), "ksqldb"),
    Case("ksqlDB: TOPK", """
        SELECT shop, TOPK(price, 2) AS best FROM sales WINDOW TUMBLING (SIZE 10 MINUTES) GROUP BY shop EMIT FINAL;""",
         _events("tumble", "price DESC", 2, "shop, price AS best", part="shop"), "ksqldb"),
    Case("ksqlDB: hopping", """
        SELECT shop, COUNT(*) AS items, SUM(price) AS total
        FROM sales WINDOW HOPPING (SIZE 20 MINUTES, ADVANCE BY 10 MINUTES)
        WHERE product <> 'rum' GROUP BY shop HAVING COUNT(*) > 1 ORDER BY total DESC LIMIT 2 EMIT FINAL;""",
         _groups("hop", "shop", "sum(price)", 2, "shop, count(*) AS items, sum(price) AS total",
                 where="product <> 'rum'", having="count(*) > 1"), "ksqldb"),
]  # fmt: skip
