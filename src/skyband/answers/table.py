"""Answers as one Arrow table, for files, sinks and data frames."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.errors import InputError
from skyband.order import NEVER, IntArray

if TYPE_CHECKING:
    from skyband.answers.answer import AnswerBlock, Answers

TIME = pa.timestamp("us", "UTC")


def as_table(answers: Answers, quality: bool) -> pa.Table:
    """Return the rows of all answers, in the order of the answers; of changes, one row each."""
    blocks = answers.blocks
    if len({block.counts for block in blocks}) > 1:
        msg = (
            "some of the queries have time windows and some count windows, whose starts and ends do not go into one "
            "column; run them apart, or take the answers one by one"
        )
        raise InputError(msg)
    parts = [_change_rows(block) if block.changes is not None else _rows(block) for block in blocks]
    if not parts:
        return pa.table({"query": pa.array([], pa.string())})
    drop = [] if quality else ["exact", "why", "provisional"]
    table = joined([table.drop_columns(drop) for table, _ in parts])
    if len(blocks) == 1:
        return table
    return table.take(pa.array(_row_order(answers, [sizes for _, sizes in parts])))


def _rows(block: AnswerBlock) -> tuple[pa.Table, IntArray]:
    sizes = np.diff(block.offsets)
    answer = np.repeat(np.arange(len(sizes)), sizes)
    ids = block.id if isinstance(block.id, pa.Array) else pa.array(block.id)
    columns: dict[str, Any] = {
        "rank": pa.nulls(len(answer), pa.int32()) if block.rank is None else pa.array(block.rank.astype(np.int32)),
        "id": ids,
        "score": pa.array(block.score),
        "time": pa.array(block.time).cast(TIME),
    }
    if block.unique_rank is not None:
        columns["unique_rank"] = pa.array(block.unique_rank.astype(np.int32))
    if block.partition is not None:
        columns["partition"] = block.partition
    if block.payload is not None:
        columns |= {name: block.payload[name] for name in _selected(block, range(len(block.names)))}
    if block.spent is not None and block.age is not None:
        columns[block.spent.service] = pa.array(block.remote, from_pandas=True)
        columns["age"] = pa.array(block.age, mask=np.less(block.age, 0))
    return _with_windows(block, answer, columns), sizes


def _change_rows(block: AnswerBlock) -> tuple[pa.Table, IntArray]:
    changes = block.changes or ()
    sizes = np.array([len(part) for part in changes], np.int64)
    flat = [change for part in changes for change in part]
    ids = block.id.type if isinstance(block.id, pa.Array) else pa.int64()
    moments = [change.row.time for change in flat]
    columns: dict[str, Any] = {
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
    return _with_windows(block, np.repeat(np.arange(len(sizes)), sizes), columns), sizes


def _selected(block: AnswerBlock, queries: Sequence[int]) -> list[str]:
    return list(dict.fromkeys(name for q in queries for name in block.selects[q]))


def _with_windows(block: AnswerBlock, answer: IntArray, columns: dict[str, Any]) -> pa.Table:
    kind = pa.int64() if block.counts else TIME
    names = pa.array(list(block.names), pa.string())
    query = pa.DictionaryArray.from_arrays(pa.array(block.query[answer].astype(np.int32)), names)
    exact, start = block.exact[answer], block.start[answer]
    if block.spent is not None:
        spent = block.spent
        taken = {"refreshes": spent.refreshes, "failures": spent.failures, "stale": spent.stale}
        columns |= {name: pa.array(values[answer]) for name, values in taken.items()}
    return pa.table(
        {
            "query": query.cast(pa.string()),
            "window_start": pa.array(start, mask=start == NEVER).cast(kind),
            "window_end": pa.array(block.end[answer]).cast(kind),
            **columns,
            "exact": pa.array(exact),
            "why": pa.array(block.reasons[answer], pa.string(), mask=exact),
            "provisional": pa.array(np.full(len(answer), block.provisional)),
        }
    )


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
