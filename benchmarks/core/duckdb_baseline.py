"""What a user of DuckDB would write: the loop, and pane tops by `max_by(…, k)` with windows over them.

Events are a table of DuckDB's own (filled before the clock starts), or Parquet files. As for Polars, no rule for ties
is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.baselines import Source, window_rows
from benchmarks.measure import Job
from skyband.queries.query import Query

Tables = Mapping[str, pa.Table]


def loop(source: pa.Table, queries: Sequence[Query]) -> Job:
    """One query per window: `where` on the time, `order by score desc limit k`."""
    connection, name = _connect(source)
    time = source["time"].to_numpy()

    def one(query: Query) -> pa.Table:
        windows = window_rows(query, time)[0]
        parts = []
        for w in windows.tolist():
            start = w * query.window.slide
            sql = (
                f'select {w}::bigint as "window", id, score from {name} '
                f"where time >= {start} and time < {start + query.window.size} order by score desc limit {query.k}"
            )
            parts.append(connection.sql(sql).to_arrow_table())
        return pa.concat_tables(parts)

    return lambda: {query.name: one(query) for query in queries}


def panes(source: Source, queries: Sequence[Query]) -> Job:
    """Top k of each pane first, by `max_by(…, k)`; then, for each query, windows over what is left."""
    connection, name = _connect(source)
    grain = gcd(*(extent for query in queries for extent in (query.window.size, query.window.slide)))
    k = max(query.k for query in queries)

    def job() -> Tables:
        connection.execute(
            f"create or replace temp table tops as "
            f"select pane, unnest(ids) as id, unnest(scores) as score, unnest(range({k})[:len(ids)]) as place from ("
            f"select time // {grain} as pane, max_by(id, score, {k}) as ids, max(score, {k}) as scores "
            f"from {name} group by pane)"
        )
        return {query.name: _windows(connection, query, grain) for query in queries}

    return job


def _connect(source: Source) -> tuple[Any, str]:
    connection = duckdb.connect()
    if not isinstance(source, pa.Table):
        return connection, f"read_parquet({[str(path) for path in source]!r})"
    connection.register("arrow_events", source)
    connection.execute("create table events as from arrow_events")
    return connection, "events"


def _windows(connection: Any, query: Query, grain: int) -> pa.Table:
    size, slide = query.window.size // grain, query.window.slide // grain
    return connection.sql(
        f'select w as "window", unnest(max_by(id, score, {query.k})) as id, '
        f"unnest(max(score, {query.k})) as score from ("
        f"select id, score, unnest(range(floor((pane - {size}) / {slide})::bigint + 1, pane // {slide} + 1)) as w "
        f"from tops where place < {query.k}) group by w"
    ).to_arrow_table()
