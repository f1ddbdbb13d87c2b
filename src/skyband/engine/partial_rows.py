"""Partials as rows of tables: how several of one pane and id become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.engine.measures import ROWS, Measure
from skyband.order import IntArray, merit_of, value_ranks

PANE, PART, ID, REMOTE, TIME, STREAM = "pane", "part", "id", "remote", "time", "stream"
FIRST, REFRESHED = "first", "refreshed"
CARRIED = "carried "
"""Columns of the stream that are carried along have this before their names."""


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables one after another, as one."""
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def reduced(table: pa.Table, by: Sequence[str], measures: Mapping[str, Measure], order: str) -> pa.Table:
    """Return one row per id and partition, and per value of the columns `by`: its latest, with the measures of all.

    Of equal times, the better stream part of the score counts, then the larger remote id, then what comes first by the
    carried columns: so the order of arrival does not matter.
    """
    if not table.num_rows:
        return table
    table = table.combine_chunks()
    if not measures:
        return _latest(table, by, order)
    sort, starts = _sorted(table, by, order)
    latest = table.take(pa.array(_last(sort, starts)))
    merged = {name: one.merged(table[name], sort, starts) for name, one in measures.items()}
    if ROWS in table.column_names:
        merged[ROWS] = pa.array(np.add.reduceat(table[ROWS].to_numpy()[sort], starts))
    return _with(latest, merged)


def _with(table: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, values)
    return table


def _latest(table: pa.Table, by: Sequence[str], order: str) -> pa.Table:
    """Return the latest row of each key; only rows whose times are equal are sorted."""
    group = _codes(_keys(table, by))
    time, count = table[TIME].to_numpy(), int(group.max()) + 1
    newest = np.full(count, time.min())
    np.maximum.at(newest, group, time)
    rows = np.flatnonzero(time == newest[group])
    if len(rows) > count:
        tied = (np.bincount(group[rows]) > 1)[group[rows]]
        several = rows[tied]
        last = several[_last(*_sorted(table.take(pa.array(several)), by, order))]
        rows = np.sort(np.append(rows[~tied], last))
    latest = table.take(pa.array(rows))
    if ROWS not in table.column_names:
        return latest
    sums = np.zeros(count, np.int64)
    np.add.at(sums, group, table[ROWS].to_numpy())
    return _with(latest, {ROWS: pa.array(sums[group[rows]])})


def _keys(table: pa.Table, by: Sequence[str]) -> list[IntArray]:
    """Return numbers that tell the ids of rows apart, their partitions, and the values of the columns `by`."""
    code = table[ID].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    parts = [value_ranks(table[PART])] if PART in table.column_names else []
    return [code, *(table[name].to_numpy() for name in by), *parts]


def _codes(keys: Sequence[IntArray]) -> IntArray:
    """Return a number for each combination of keys; the first key has few numbers, from 0 on."""
    group, *others = keys
    for key in others:
        low, high = int(key.min()), int(key.max())
        if high == low:
            continue
        fits = (int(group.max()) + 1) * (high - low + 1) < 2**62
        key = key - low if fits else np.unique(key, return_inverse=True)[1]
        group = group.astype(np.int64) * (int(key.max()) + 1) + key
        group = pa.array(group).dictionary_encode().indices.to_numpy()
    return group


def _sorted(table: pa.Table, by: Sequence[str], order: str) -> tuple[IntArray, IntArray]:
    """Return the rows key by key, the one that counts last, and where each key begins."""
    keys = _keys(table, by)
    places = [table[TIME].to_numpy()]  # the most significant first
    if STREAM in table.column_names:
        places.append(merit_of(table[STREAM].to_numpy(), order))
    if REMOTE in table.column_names:
        places.append(np.asarray(pc.rank(table[REMOTE], tiebreaker="dense")))
    sort = _by_carried(table, np.lexsort((*reversed(places), *keys)), [*keys, *places])
    begins = np.ones(len(sort), bool)
    begins[1:] = np.logical_or.reduce([key[sort][1:] != key[sort][:-1] for key in keys])
    return sort, np.flatnonzero(begins)


def _last(sort: IntArray, starts: IntArray) -> IntArray:
    """Return the last row of each key."""
    found: IntArray = sort[np.append(starts[1:], len(sort)) - 1]
    return found


def _by_carried(table: pa.Table, sort: IntArray, columns: Sequence[Any]) -> IntArray:
    """Return an order in which rows that are equal in some columns come by what they carry, the first of it last."""
    carried = [table[name] for name in table.column_names if name.startswith(CARRIED)]
    equal = np.logical_and.reduce([column[sort][1:] == column[sort][:-1] for column in columns])
    if not carried or not equal.any():
        return sort
    tied = np.append(False, equal) | np.append(equal, False)
    rows, run = sort[tied], np.cumsum(np.append(True, ~equal))[tied]  # only these are compared by what they carry
    ranks = [value_ranks(column.take(pa.array(rows))) for column in carried]
    sort = sort.copy()
    sort[tied] = rows[np.lexsort((*(-rank for rank in reversed(ranks)), run))]
    return sort
