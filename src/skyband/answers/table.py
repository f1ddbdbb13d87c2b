"""Answers as one Arrow table, for files, sinks and data frames."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from skyband.answers.row_kernels import over_rows
from skyband.compiled import PARALLEL_ROWS, THREADS, in_threads, split
from skyband.errors import InputError
from skyband.order import NEVER, IntArray

if TYPE_CHECKING:
    from skyband.answers.answer import AnswerBlock, Answers

TIME = pa.timestamp("us", "UTC")


@runtime_checkable
class Columnar(Protocol):
    """Changes of several answers that are columns already."""

    def columns(self) -> tuple[dict[str, Any], IntArray]:
        """Return the columns, and where the changes of each answer begin."""


def as_table(answers: Answers, quality: bool) -> pa.Table:
    """Return the rows of all answers, in the order of the answers; of changes, one row each."""
    blocks = answers.blocks
    if len({block.counts for block in blocks}) > 1:
        msg = (
            "some of the queries have time windows and some count windows, whose starts and ends do not go into one "
            "column; run them apart, or take the answers one by one"
        )
        raise InputError(msg)
    parts = [(_change_rows if block.changes is not None else _rows)(block, quality) for block in blocks]
    if not parts:
        return pa.table({"query": pa.array([], pa.string())})
    table = joined([table for table, _ in parts])
    if len(blocks) == 1 and np.all(np.diff(answers.order[1]) > 0):  # windows closed on different sides are due apart
        return table
    return table.take(pa.array(_row_order(answers, [np.diff(offsets) for _, offsets in parts])))


def _rows(block: AnswerBlock, quality: bool) -> tuple[pa.Table, IntArray]:
    ids = block.id if isinstance(block.id, pa.Array) else pa.array(block.id)
    columns: dict[str, Any] = {
        "rank": pa.nulls(len(ids), pa.int32()) if block.rank is None else pa.array(block.rank),
        "id": ids,
        "score": pa.array(block.score),
        "time": pa.array(block.time).cast(TIME),
    }
    if block.unique_rank is not None:
        columns["unique_rank"] = pa.array(block.unique_rank)
    if block.partition is not None:
        columns["partition"] = block.partition
    if block.payload is not None:
        columns |= {name: block.payload[name] for name in _selected(block, range(len(block.names)))}
    if block.spent is not None and block.age is not None:
        columns[block.spent.service] = pa.array(block.remote, from_pandas=True)
        columns["age"] = pa.array(block.age, mask=np.less(block.age, 0))
    return _with_windows(block, block.offsets, columns, quality), block.offsets


def _change_rows(block: AnswerBlock, quality: bool) -> tuple[pa.Table, IntArray]:
    changes = block.changes or ()
    if isinstance(changes, Columnar):
        columns, offsets = changes.columns()
        return _with_windows(block, offsets, columns, quality), offsets
    offsets = np.cumsum([0, *(len(part) for part in changes)])
    flat = [change for part in changes for change in part]
    ids = block.id.type if isinstance(block.id, pa.Array) else pa.int64()
    moments = [change.row.time for change in flat]
    columns = {
        "rank": pa.array([change.rank for change in flat], pa.int32()),
        "id": pa.array([change.row.id for change in flat], ids),
        "score": pa.array([change.row.score for change in flat], pa.float64()),
        "time": pa.array(moments, pa.int64() if moments and isinstance(moments[0], int) else TIME).cast(TIME),
    }
    if block.ties is not None:
        columns["unique_rank"] = pa.array([change.row.unique_rank for change in flat], pa.int32())
    if block.partition is not None:
        columns["partition"] = pa.array([change.row.partition for change in flat], block.partition.type)
    columns["change"] = pa.array([change.kind for change in flat], pa.string())
    columns["previous_rank"] = pa.array([change.previous_rank for change in flat], pa.int32())
    if block.payload is not None:
        for name in _selected(block, range(len(block.names))):
            kind = block.payload.schema.field(name).type
            columns[name] = pa.array([change.row.values.get(name) for change in flat], kind)
    if block.spent is not None:
        service = block.spent.service
        columns[service] = pa.array([change.row.values.get(service) for change in flat], pa.float64())
        columns["age"] = pa.array([change.row.age for change in flat], pa.int64())
    return _with_windows(block, offsets, columns, quality), offsets


def _selected(block: AnswerBlock, queries: Sequence[int]) -> list[str]:
    return list(dict.fromkeys(name for q in queries for name in block.selects[q]))


def _with_windows(block: AnswerBlock, offsets: IntArray, columns: dict[str, Any], quality: bool) -> pa.Table:
    kind = pa.int64() if block.counts else TIME
    start = pa.array(
        over_rows(block.start, offsets), mask=over_rows(block.start == NEVER, offsets) if NEVER in block.start else None
    )
    windows = {
        "query": _names(block, offsets),
        "window_start": start.cast(kind),
        "window_end": pa.array(over_rows(block.end, offsets)).cast(kind),
    }
    if block.spent is not None:
        spent = block.spent
        taken = {"refreshes": spent.refreshes, "failures": spent.failures, "stale": spent.stale}
        columns |= {name: pa.array(over_rows(values, offsets)) for name, values in taken.items()}
    if quality:
        exact, rows = over_rows(block.exact, offsets), int(offsets[-1])
        why = pa.nulls(rows, pa.string())
        if not block.exact.all():
            reasons = pa.array(block.reasons, pa.string(), mask=block.exact)
            why = reasons.take(pa.array(over_rows(np.arange(len(reasons)), offsets)))
        columns |= {"exact": pa.array(exact), "why": why, "provisional": pa.array(np.full(rows, block.provisional))}
    return pa.table(windows | columns)


def _names(block: AnswerBlock, offsets: IntArray) -> pa.ChunkedArray:
    """Return the query of each row, by several threads."""
    names = pa.array(list(block.names), pa.string())
    code = over_rows(block.query.astype(np.int32), offsets)
    edges = split(len(code), THREADS if len(code) >= PARALLEL_ROWS else 1)
    parts: list[Any] = [None] * (len(edges) - 1)

    def write(part: int) -> None:
        codes = pa.array(code[edges[part] : edges[part + 1]])
        parts[part] = pa.DictionaryArray.from_arrays(codes, names).cast(pa.string())

    in_threads(write, [(part,) for part in range(len(parts))])
    return pa.chunked_array(parts, pa.string())


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables of answers as one; columns that do not have one type in all become text.

    Examples
    --------
    >>> joined([pa.table({"partition": [1]}), pa.table({"partition": ["a"]})])["partition"].to_pylist()
    ['1', 'a']
    """
    for name in dict.fromkeys(name for table in tables for name in table.column_names):
        kinds = {table.schema.field(name).type for table in tables if name in table.column_names} - {pa.null()}
        if len(kinds) > 1 and common_type(kinds) == pa.string():
            tables = [column_as_text(table, name) for table in tables]
    return pa.concat_tables(tables, promote_options="permissive")


def common_type(kinds: Collection[pa.DataType]) -> pa.DataType:
    """Return the one type that values of some types go into without loss.

    Examples
    --------
    >>> common_type([pa.int32(), pa.int64()]), common_type([pa.int64(), pa.float64()])
    (DataType(int64), DataType(string))
    """
    if len({*kinds}) == 1:
        return next(iter(kinds))
    families = {pa.int64(): pa.types.is_signed_integer, pa.float64(): pa.types.is_floating}
    return next((kind for kind, holds in families.items() if all(map(holds, kinds))), pa.string())


def column_as_text(table: pa.Table, name: str) -> pa.Table:
    """Return the table with a column, if it has that, as text: the one type that all values go into."""
    if name not in table.column_names:
        return table
    return table.set_column(table.column_names.index(name), name, table[name].cast(pa.string()))


def _row_order(answers: Answers, sizes: Sequence[IntArray]) -> IntArray:
    """Return which row of the concatenated blocks comes when."""
    begins, total = [], 0
    for part in sizes:
        begins.append(total + np.concatenate([[0], np.cumsum(part)[:-1]]) if len(part) else np.empty(0, np.int64))
        total += int(part.sum())
    block, place = answers.order
    begin = np.array([begins[b][p] for b, p in zip(block, place, strict=True)], np.int64)
    size = np.array([sizes[b][p] for b, p in zip(block, place, strict=True)], np.int64)
    shift = np.repeat(begin - np.concatenate([[0], np.cumsum(size)[:-1]]), size) if len(size) else size
    return np.arange(total) + shift
