"""The tiny table of the corpus, and what DuckDB says about it.

Windows are views there: each row stands once in every window that contains it, as window functions of stream engines
give them.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa

BEGIN = datetime(2024, 5, 1, 9, 0)
SHOPS, PRODUCTS, COUNTRIES = ("north", "south", "east", "west"), ("tea", "rum", "ale"), ("DE", "FR", None)
WINDOWS = {
    # name: size and slide in minutes, and whether windows grow until they begin anew
    "tumble": (10, 10, False),
    "hop": (20, 10, False),
    "cumulate": (30, 10, True),
}


def sales(rows: int = 60, seed: int = 5) -> pa.Table:
    """Return the table: times in order, ids that come once, prices that never tie, volumes that do."""
    chance = random.Random(seed)
    seconds = sorted(chance.sample(range(3600), rows))
    prices = chance.sample(range(100, 1000), rows)
    return pa.table({
        "ts": pa.array([BEGIN + timedelta(seconds=one) for one in seconds], pa.timestamp("us")),
        "id": [f"s{number:02}" for number in range(1, rows + 1)],
        "shop": [chance.choice(SHOPS) for _ in range(rows)],
        "product": [chance.choice(PRODUCTS) for _ in range(rows)],
        "country": [chance.choice(COUNTRIES) for _ in range(rows)],
        "price": [one / 4 for one in prices],
        "volume": pa.array([chance.randint(1, 5) for _ in range(rows)], pa.int64()),
    })  # fmt: skip


def database(table: pa.Table) -> duckdb.DuckDBPyConnection:
    """Return a database with the table as `sales`, and with its windows."""
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TABLE sales AS SELECT * FROM given")
    for name, (size, slide, grows) in WINDOWS.items():
        start = (
            f"time_bucket(INTERVAL {size} MINUTE, window_end - INTERVAL 1 MICROSECOND)" if grows
            else f"window_end - INTERVAL {size} MINUTE"
        )  # fmt: skip
        connection.execute(f"""
            CREATE VIEW {name} AS SELECT * FROM (
              SELECT sales.*, {start} AS window_start, window_end FROM sales, (
                SELECT DISTINCT time_bucket(INTERVAL {slide} MINUTE, ts) + INTERVAL {slide} MINUTE * n AS window_end
                FROM sales, range(1, {size // slide + 1}) AS ends(n)
              )
            ) WHERE window_start <= ts AND ts < window_end
        """)
    return connection


def rows_of(connection: duckdb.DuckDBPyConnection, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of the columns and the rows of a query."""
    done = connection.execute(text)
    names = [column[0] for column in done.description]
    return names, sorted(map(_plain, done.fetchall()), key=repr)


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(plain(value) for value in row)


def plain(value: Any) -> Any:
    """Return a value as both sides write it: numbers as floats, rounded a little, times without a zone."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return round(float(value), 6)
