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


def sums_by_frame(source: Source, queries: Sequence[Query]) -> Job:
    """Sum up each pane and id; then a window frame over a grid of all panes and ids, and the top k of each window."""
    return _sums(
        source, queries,
        'select w, id, sum(s) over (partition by id order by w range between current row and {behind} following) as s '
        'from (select g.w, g.id, sums.s from (select w, id from windows, (select distinct id from sums)) g '
        'left join sums on sums.pane = g.w and sums.id = g.id)',
    )  # fmt: skip


def sums_by_copies(source: Source, queries: Sequence[Query]) -> Job:
    """Sum up each pane and id; then copy each sum into all its windows and sum up again, and the top k of each."""
    return _sums(
        source, queries,
        'select w, id, sum(s) as s from (select id, s, unnest(range(pane - {behind}, pane + 1)) as w from sums) '
        'group by w, id',
    )  # fmt: skip


def sums_by_join(source: Source, queries: Sequence[Query]) -> Job:
    """Sum up each pane and id; then join windows with their panes and sum up again, and the top k of each."""
    return _sums(
        source, queries,
        'select windows.w, id, sum(s) as s from windows join sums on pane between windows.w and windows.w + {behind} '
        'group by windows.w, id',
    )  # fmt: skip


def _sums(source: Source, queries: Sequence[Query], windows: str) -> Job:
    """Answer one query of a sum per id, whose slide divides its size, by SQL that sums up windows of panes."""
    connection, name = _connect(source)
    (query,) = queries
    slide, behind = query.window.slide, query.window.size // query.window.slide - 1

    def job() -> Tables:
        connection.execute(
            f"create or replace temp table sums as select time // {slide} as pane, id, sum(score) as s, "
            f"max(time) as latest from {name} group by pane, id"
        )
        connection.execute(
            f"create or replace temp table windows as "
            f"select unnest(range(min(pane) - {behind}, max(pane) + 1)) as w from sums"
        )
        found = connection.sql(
            f'select w as "window", unnest(max_by(id, s, {query.k})) as id, unnest(max(s, {query.k})) as score '
            f"from ({windows.format(behind=behind)}) where s is not null group by w"
        )
        return {query.name: found.to_arrow_table()}

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
