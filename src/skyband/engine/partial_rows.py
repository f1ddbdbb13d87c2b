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
    code = table[ID].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    keys = [code, *(table[name].to_numpy() for name in by)]
    if PART in table.column_names:
        keys.append(value_ranks(table[PART]))
    places = [table[TIME].to_numpy()]  # the most significant first; the last row of a key counts
    if STREAM in table.column_names:
        places.append(merit_of(table[STREAM].to_numpy(), order))
    if REMOTE in table.column_names:
        places.append(np.asarray(pc.rank(table[REMOTE], tiebreaker="dense")))
    sort = _by_carried(table, np.lexsort((*reversed(places), *keys)), [*keys, *places])
    begins = np.ones(len(sort), bool)
    begins[1:] = np.logical_or.reduce([key[sort][1:] != key[sort][:-1] for key in keys])
    starts = np.flatnonzero(begins)
    latest = table.take(pa.array(sort[np.append(starts[1:], len(sort)) - 1]))
    merged = {name: one.merged(table[name], sort, starts) for name, one in measures.items()}
    if ROWS in table.column_names:
        merged[ROWS] = pa.array(np.add.reduceat(table[ROWS].to_numpy()[sort], starts))
    for name, values in merged.items():
        latest = latest.set_column(latest.column_names.index(name), name, values)
    return latest


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
