"""The experiment `groups`: the best k of each group, ours and what users of DuckDB and Polars would write.

All peers take the best k of each pane and group first, and then windows over these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks import baselines
from benchmarks.baselines import ONLY_READING
from benchmarks.measure import Job, Patience, Row, side_by_side
from benchmarks.workloads import SECOND, SEED, events
from skyband.queries.query import Query
from skyband.windows import Window

SPAN = 1_000  # seconds of event time
SLIDES = {10: 10, 1_000: 10, 100_000: 60}  # with a slide of 10 s, 100,000 groups have 160 million rows of answers
K, SIZE = 10, 600
BY_EXPRESSION = "skyband, by an expression"
SLOWLY = "skyband, every 60 s"  # the same for all numbers of groups: a curve


def queries(slide: int, by: str = "g") -> list[Query]:
    """Return the query: the best 10 of each group in the last 600 seconds."""
    window = Window(SIZE * SECOND, slide=slide * SECOND)
    return [Query("groups", k=K, score="score", partition_by=by, window=window)]


def stream(rows: int, groups: int) -> pa.Table:
    """Return a stream whose events fall into random groups, in the column `g`."""
    table = events(rows, rows / SPAN)
    return table.append_column("g", pa.array(np.random.default_rng(SEED).integers(0, groups, rows)))


def experiment(rows: int, small: int, patience: Patience) -> Iterator[Row]:
    """Compare answers over a `small` stream, then measure: 10, 1,000 and 100,000 groups, a column and an expression."""
    for groups, slide in SLIDES.items():
        asked, few = queries(slide), stream(small, groups)
        named: dict[str, baselines.Way] = {
            "skyband": baselines.skyband,
            BY_EXPRESSION: partial(_other, queries(slide, f"g % {groups}")),
            "duckdb panes": duckdb_panes,
            "polars panes": polars_panes,
        }
        yield from baselines.check(f"{groups:,} groups", named, few, asked, small)
        source = stream(rows, groups)
        named |= {ONLY_READING: baselines.only_reading, SLOWLY: partial(_other, queries(SLIDES[100_000]))}
        timings = side_by_side({name: way(source, asked) for name, way in named.items()}, patience)
        for name, timing in timings.items():
            row = baselines.row(timing, "groups", "groups", groups, name, rows)
            yield replace(row, ratio=timing.best / timings["skyband"].best, baseline="skyband")


def _other(others: Sequence[Query], source: pa.Table, queries: Sequence[Query]) -> Job:  # noqa: ARG001
    """Answer other queries with the same groups."""
    return baselines.skyband(source, others)


def duckdb_panes(source: pa.Table, queries: Sequence[Query]) -> Job:
    """Take the best of each pane and group by `max_by(…, k)`, then those of each window and group."""
    connection = duckdb.connect()
    connection.register("arrow_events", source)
    connection.execute("create table events as from arrow_events")
    (query,) = queries
    slide, panes = query.window.slide, query.window.size // query.window.slide

    def job() -> Mapping[str, pa.Table]:
        connection.execute(
            "create or replace temp table tops as select pane, g, unnest(ids) as id, unnest(scores) as score from ("
            f"select time // {slide} as pane, g, max_by(id, score, {query.k}) as ids, max(score, {query.k}) as scores "
            "from events group by all)"
        )
        found = connection.sql(
            f'select w as "window", g, unnest(max_by(id, score, {query.k})) as id, '
            f"unnest(max(score, {query.k})) as score from ("
            f"select g, id, score, unnest(range(pane - {panes} + 1, pane + 1)) as w from tops) group by w, g"
        )
        return {query.name: found.to_arrow_table()}

    return job


def polars_panes(source: pa.Table, queries: Sequence[Query]) -> Job:
    """Take the best of each pane and group by `top_k_by`, then, sorted once, the head of each window and group."""
    frame: Any = pl.from_arrow(source)
    (query,) = queries
    slide, panes = query.window.slide, query.window.size // query.window.slide
    best = pl.col("id", "score").top_k_by("score", query.k)

    def job() -> Mapping[str, pl.DataFrame]:
        pane = (pl.col("time") // slide).alias("pane")
        tops = frame.lazy().group_by(pane, "g").agg(best).explode("id", "score").collect(engine="streaming")
        windows = pl.int_ranges(pl.col("pane") - panes + 1, pl.col("pane") + 1)
        copies = tops.lazy().sort("score", descending=True).select("g", "id", "score", window=windows)
        heads = copies.explode("window").group_by("window", "g").agg(pl.col("id", "score").head(query.k))
        return {query.name: heads.explode("id", "score").collect()}

    return job
