"""Rows as sinks need them: as DataFrames, and with what identifies them where they are replaced one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.errors import InputError
from skyband.order import rank_in_runs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNPACKED = "spark.sql.execution.arrow.localRelationThreshold"
BATCH, NUMBER = "batch_id", "row_number"
_ALWAYS = {"query", "window_start", "window_end", "rank", "id", "score", "time", "exact", "why", "provisional"}


def as_frame(rows: pa.Table, session: SparkSession) -> DataFrame:
    """Return rows as a DataFrame that has all of them, with times as they are.

    Left to itself, Spark 4.3 loses the rows behind an empty chunk of a small table, takes times without a zone for
    those of the session's zone, and unpacks tables of up to 48 MiB row by row before anyone has asked for a row. The
    session is a stream's own, so what is set there is seen nowhere else.
    """
    if session.conf.get(UNPACKED, None) != "0":
        session.conf.set(UNPACKED, "0")
    whole = rows.combine_chunks()
    unzoned = {field.name for field in whole.schema if pa.types.is_timestamp(field.type) and field.type.tz is None}
    if not unzoned:
        return session.createDataFrame(whole)
    from pyspark.sql.types import StructField, StructType, TimestampNTZType

    found = session.createDataFrame(whole.slice(0, 0)).schema
    fields = [StructField(field.name, TimestampNTZType()) if field.name in unzoned else field for field in found]
    return session.createDataFrame(whole, StructType(fields))


def holds_answers(columns: Iterable[str]) -> bool:
    """Return whether rows are answers, by their columns; late and rejected rows have those of the stream."""
    return set(columns) >= _ALWAYS


def keyed(rows: pa.Table, batch_id: int) -> tuple[pa.Table, tuple[str, ...]]:
    """Add what identifies rows, and return the columns by which they are replaced together.

    Answers are replaced window by window, and numbered within each; other rows batch by batch.

    Examples
    --------
    >>> rows, key = keyed(pa.table({"symbol": ["A", "B"]}), batch_id=7)
    >>> key, rows.to_pylist()
    (('batch_id',), [{'batch_id': 7, 'row_number': 1, 'symbol': 'A'}, {'batch_id': 7, 'row_number': 2, 'symbol': 'B'}])
    """
    key: tuple[str, ...] = (BATCH,)
    added = {BATCH: np.full(len(rows), batch_id), NUMBER: np.arange(1, len(rows) + 1)}
    if holds_answers(rows.column_names):
        key = ("query", "window_end")
        query = rows["query"].combine_chunks().dictionary_encode().indices.to_numpy()
        end = rows["window_end"].cast(pa.int64()).to_numpy()
        order = np.lexsort((end, query))  # executors answer groups apart, so a window's rows may be anywhere
        number = np.empty(len(rows), np.int64)
        number[order] = rank_in_runs(query[order], end[order]) + 1
        added = {NUMBER: number}
    if taken := [name for name in added if name in rows.column_names]:
        msg = f"the rows have a column {taken[0]!r}, which this sink needs for itself; rename it in the stream"
        raise InputError(msg)
    return pa.table({**added, **dict(zip(rows.column_names, rows.columns, strict=True))}), key
