"""The experiment `aggregates`: the best ids by the sum of their scores, against DuckDB's forms of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks import baselines
from benchmarks.baselines import ONLY_READING
from benchmarks.core import duckdb_baseline
from benchmarks.measure import Row, side_by_side
from benchmarks.workloads import one_query

if TYPE_CHECKING:
    from benchmarks.core import Scale

K = 10
WAYS: dict[str, baselines.Way] = {
    "skyband": baselines.skyband,
    "duckdb frame": duckdb_baseline.sums_by_frame,
    "duckdb copies": duckdb_baseline.sums_by_copies,
    "duckdb join": duckdb_baseline.sums_by_join,
}


def with_ids(source: pa.Table, ids: int) -> pa.Table:
    """Return events of so many ids, in no order."""
    column = source["id"].to_numpy() * 2_654_435_761 % 4_294_967_296 % ids
    return source.set_column(source.column_names.index("id"), "id", pa.array(column))


def aggregates(scale: Scale) -> Iterator[Row]:
    """The best 10 ids by the sum of their scores, of a thousand and of many; the time over that of DuckDB's best.

    For `more_ids` only ours is timed: DuckDB's forms take minutes there.
    """
    (query,) = one_query(k=K)
    queries = [replace(query, score="sum(score)")]
    small = scale.stream(share=100)
    for ids in scale.ids:
        few = with_ids(small, ids)
        yield from baselines.check(f"sums of {ids:,} ids", WAYS, few, queries, few.num_rows)
    whole = scale.stream(share=2)
    for ids in sorted({*scale.ids, *scale.more_ids}):
        source, peers = with_ids(whole, ids), WAYS if ids in scale.ids else {"skyband": baselines.skyband}
        ways = peers | {ONLY_READING: baselines.only_reading}
        timings = side_by_side({name: way(source, queries) for name, way in ways.items()}, scale.patience)
        best = min((timing.best for name, timing in timings.items() if name.startswith("duckdb")), default=None)
        for name, timing in timings.items():
            row = baselines.row(timing, "aggregates", "ids", ids, name, source.num_rows)
            yield row if best is None else replace(row, ratio=timing.best / best, baseline="duckdb, its best")
