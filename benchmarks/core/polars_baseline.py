"""What a user of Polars would write, from the plain loop to the smartest query we found.

Events come as Polars frames (made before the clock starts); the answers are one frame per query. The stream is known
to be in order of time, and no rule for ties is asked for: both make it easier for Polars than for us.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.baselines import Source, window_numbers, window_rows
from benchmarks.measure import Job
from skyband.queries.query import Query

Frames = Mapping[str, Any]


def loop(source: pa.Table, queries: Sequence[Query]) -> Job:
    """One query per window: cut it out of the sorted stream by binary search, take its top k."""
    frame: Any = pl.from_arrow(source).select("time", "id", "score")

    def one(query: Query) -> pl.DataFrame:
        windows, low, high = window_rows(query, frame["time"].to_numpy())
        parts = [frame.slice(a, b - a).top_k(query.most_rows, by="score") for a, b in zip(low, high, strict=True)]
        window = pl.Series(np.repeat(windows, [part.height for part in parts]))
        return pl.concat(parts).select("id", "score", window=window)

    return lambda: {query.name: one(query) for query in queries}


def panes(source: Source, queries: Sequence[Query]) -> Job:
    """Top k of each pane first, the least of them as a filter; then windows over what is left. The fastest we found."""
    scan = _scan(source)
    grain = _grain(queries)
    k = max(query.most_rows for query in queries)
    return lambda: _windows(_pane_tops(scan, grain, k), queries, grain)


def panes_from_memory(source: Sequence[Path], queries: Sequence[Query]) -> Job:
    """Read all files into memory first, then go on as `panes`: they are read once, not twice."""
    grain = _grain(queries)
    k = max(query.most_rows for query in queries)

    def job() -> Frames:
        frame = pl.read_parquet(source, columns=["time", "id", "score"])
        return _windows(_pane_tops(frame.lazy(), grain, k), queries, grain)

    return job


def panes_in_one(source: Source, queries: Sequence[Query]) -> Job:
    """Top k of each pane as structs in one streaming aggregation, then windows over what is left."""
    scan = _scan(source)
    grain = _grain(queries)
    k = max(query.most_rows for query in queries)

    def job() -> Frames:
        pane = (pl.col("time") // grain).set_sorted().alias("pane")
        best = pl.struct("score", "id").top_k(k).alias("best")
        tops = scan.group_by(pane).agg(best).explode("best").unnest("best").collect(engine="streaming")
        return _windows(tops, queries, grain)

    return job


def _scan(source: Source) -> pl.LazyFrame:
    if isinstance(source, pa.Table):
        frame: Any = pl.from_arrow(source)
        return frame.lazy()
    return pl.scan_parquet(source)


def _grain(queries: Sequence[Query]) -> int:
    """Return the longest pane that no window of any query cuts."""
    return gcd(*(extent for query in queries for extent in (query.window.size, query.window.slide)))


def _pane_tops(scan: pl.LazyFrame, grain: int, k: int) -> pl.DataFrame:
    """Return the best k of each pane: a first pass finds each pane's k-th score, a second one picks."""
    events = scan.with_columns(pane=(pl.col("time") // grain).set_sorted())
    bars = events.group_by("pane").agg(bar=pl.col("score").top_k(k).min()).collect(engine="streaming")
    # One number first: it drops nearly everything before a join looks at panes.
    likely = events.filter(pl.col("score") >= bars["bar"].min())
    best = likely.join(bars.lazy(), on="pane").filter(pl.col("score") >= pl.col("bar"))
    return best.select("pane", "id", "score").collect(engine="streaming")


def _windows(tops: pl.DataFrame, queries: Sequence[Query], grain: int) -> Frames:
    tops = tops.sort("score", descending=True)
    if len(queries) == 1:
        return {queries[0].name: _exploded(tops, queries[0], grain)}
    tops = tops.with_columns(rank=pl.int_range(pl.len(), dtype=pl.Int32).over("pane"))
    return {query.name: _filtered(tops.filter(pl.col("rank") < query.most_rows), query, grain) for query in queries}


def _exploded(tops: pl.DataFrame, query: Query, grain: int) -> pl.DataFrame:
    """Copy each event into all its windows, best first, and take the head of each window."""
    start = pl.col("pane") * grain
    first = (start - query.window.size) // query.window.slide + 1
    windows = pl.int_ranges(first, start // query.window.slide + 1)
    copies = tops.lazy().select("id", "score", window=windows).explode("window")
    heads = copies.group_by("window", maintain_order=True).agg(pl.col("id", "score").head(query.most_rows))
    return heads.explode("id", "score").collect()


def _filtered(tops: pl.DataFrame, query: Query, grain: int) -> pl.DataFrame:
    """Filter each window's panes out of events that are sorted best first, and take the head; best for many queries.

    A window is usually full after a few times k events, so these are tried before all.
    """
    first, last = cast(int, tops["pane"].min()), cast(int, tops["pane"].max())
    size, slide = query.window.size // grain, query.window.slide // grain
    windows = window_numbers(query, first * grain, last * grain)
    near = tops.head(2 * query.most_rows * (last - first + 1) // size)
    parts = []
    for start in (windows * slide).tolist():
        inside = pl.col("pane").is_between(start, start + size - 1)
        part = near.filter(inside)
        parts.append((part if part.height >= query.most_rows else tops.filter(inside)).head(query.most_rows))
    window = pl.Series(np.repeat(windows, [part.height for part in parts]))
    return pl.concat(parts).select("id", "score", window=window)
