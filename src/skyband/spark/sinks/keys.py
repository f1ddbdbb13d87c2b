"""What tells rows apart in sinks that replace them one by one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from skyband.errors import InputError
from skyband.order import rank_in_runs

BATCH, NUMBER = "batch_id", "row_number"
_ALWAYS = {"query", "window_start", "window_end", "rank", "id", "score", "time", "exact", "why", "provisional"}


def holds_answers(columns: Iterable[str]) -> bool:
    """Tell answers by their columns from late and rejected rows, which have those of the stream."""
    return set(columns) >= _ALWAYS


def keyed(rows: pa.Table, batch_id: int) -> tuple[pa.Table, tuple[str, ...]]:
    """Add what tells rows apart, and return the columns by which they are replaced together.

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
        order = np.lexsort((end, query))  # executors answer groups apart, so a window's rows may lie anywhere
        number = np.empty(len(rows), np.int64)
        number[order] = rank_in_runs(query[order], end[order]) + 1
        added = {NUMBER: number}
    if taken := [name for name in added if name in rows.column_names]:
        msg = f"the rows have a column {taken[0]!r}, which this sink needs for itself; rename it in the stream"
        raise InputError(msg)
    return pa.table({**added, **dict(zip(rows.column_names, rows.columns, strict=True))}), key
