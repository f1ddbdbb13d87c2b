"""Streams of files for the Spark tests, and what the core says to the same batches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from skyband.windows import NEVER

KEY = [
    ("query", "ascending"),
    ("window_end", "ascending"),
    ("partition", "ascending"),
    ("rank", "ascending"),
    ("id", "ascending"),
]


def events(rng: np.random.Generator, n: int, start: int, kind: str = "random", disorder: int = 50) -> pa.Table:
    """Some events, ten microseconds apart on average, a few of them incomplete."""
    time = np.sort(rng.integers(start, start + n * 10, n)) + rng.integers(-disorder, disorder + 1, n)
    scores = {
        "random": rng.normal(size=n),
        "rising": time * 0.01 + rng.normal(size=n),
        "falling": time * -0.01 + rng.normal(size=n),
        "ties": rng.integers(0, 5, n).astype(float),
    }
    return pa.table(
        {
            "t": pa.array(time, mask=rng.random(n) < 0.002),
            "id": pa.array(rng.integers(0, max(n // 4, 2), n), mask=rng.random(n) < 0.002),
            "x": pa.array(scores[kind], mask=rng.random(n) < 0.002),
            "g": pa.array([["a", "b", "ç'`${x}", None][i] for i in rng.integers(0, 4, n)], pa.string()),
            "y": pa.array(rng.integers(0, 10, n)),
        }
    )


def write(folder: Path, tables: Sequence[pa.Table], first: int = 0) -> None:
    """Write one file per batch; Spark reads them in the order of their times of change."""
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables, first):
        file = folder / f"{number:04}.parquet"
        pq.write_table(table, file)
        os.utime(file, (10**9 + number, 10**9 + number))


def stream(spark: Any, folder: Path, files: int = 1) -> Any:
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def core(queries: Sequence[sb.Query], tables: Sequence[pa.Table], delay: int | None, **source: str) -> pa.Table:
    """What the core answers to the same batches, without the windows that are still open."""
    monitor = sb.Monitor(queries, **source)  # type: ignore[arg-type]
    parts = []
    for table in tables:
        parts.append(monitor.push(table))
        open_ = delay is None or monitor.newest == NEVER
        parts.append(monitor.advance(None if open_ else monitor.newest - delay))  # type: ignore[operator]
    return sorted_table([part.table(quality=True) for part in parts if len(part)])


def sorted_table(tables: Sequence[pa.Table]) -> pa.Table:
    if not tables:
        return pa.table({})
    table = pa.concat_tables(tables, promote_options="permissive")
    return table.sort_by([(name, order) for name, order in KEY if name in table.column_names])


def rows(table: pa.Table, columns: Sequence[str]) -> list[dict[str, Any]]:
    return table.select(columns).to_pylist() if table.num_rows else []


def assert_same_answers(ours: pa.Table, truth: pa.Table) -> None:
    assert ours.num_rows == truth.num_rows
    assert rows(ours, truth.column_names) == rows(truth, truth.column_names)
