"""The one total order: better score first, then the later event, then the smaller id, then what is selected.

Events that are equal in score, time and id are ordered by the columns that the query selects, in the order in which
it names them, each ascending, as Spark sorts: NULL first, NaN after all numbers. Where the earlier of several events
with equal scores is preferred, their times are turned; where equal scores share a rank, only the score decides on it.

Everything that ranks events - every algorithm, the Spark pipeline, the tests' oracle - takes its order from here,
so the same input always gives the same answer. Inside, a *merit* is a score turned so that larger is better: the
score itself for ``desc``, its negative for ``asc``; a *recency* is a time turned in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.compiled import inlined, jit

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
SlotArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
Ties = Literal["with", "dense"]
Prefer = Literal["latest", "earliest", "id"]

NEVER = -(2**62)
"""A position before every event."""
ALWAYS = 2**62
"""A position after every event."""
_SHORT = 8  # so many events are sorted by insertion


def merit_of(score: FloatArray, order: str) -> FloatArray:
    """Turn scores so that larger is better (and back: the function is its own inverse).

    Examples
    --------
    >>> merit_of(np.array([1.0, -2.0]), "asc").tolist()
    [-1.0, 2.0]
    """
    return score if order == "desc" else -score


def recency_of(time: IntArray, prefer: Prefer) -> IntArray:
    """Turn times so that larger is better, and back: but for ``"id"``, to which all times are alike.

    Examples
    --------
    >>> [recency_of(np.array([3, 5]), prefer).tolist() for prefer in ("latest", "earliest", "id")]
    [[3, 5], [-3, -5], [0, 0]]
    """
    if prefer == "id":
        return np.zeros_like(time)
    return time if prefer == "latest" else -time


def best_first(
    merit: FloatArray, time: IntArray, key: IntArray, *major: npt.NDArray[Any], ties: Sequence[IntArray] = ()
) -> IntArray:
    """Return the positions of the events from best to worst, within the groups of the major columns.

    `key` sorts as the ids do. `ties`, the `value_ranks` of the selected columns, order events that are equal otherwise.
    The most significant column comes first in `major` and in `ties`.

    Examples
    --------
    >>> best_first(np.array([2.0, 3.0, 3.0, 3.0]), np.array([9, 4, 5, 5]), np.array([1, 1, 8, 7])).tolist()
    [3, 2, 1, 0]
    """
    return np.lexsort((*reversed(ties), key, np.negative(time), np.negative(merit), *reversed(major)))


def value_ranks(column: pa.Array | pa.ChunkedArray) -> IntArray:
    """Return numbers that sort as the values of a column do: NULL first, then ascending, NaN last.

    Texts are compared by their bytes, lists and structs place by place, maps by their sorted entries.

    Examples
    --------
    >>> value_ranks(pa.array([2.5, None, float("nan"), -1.0, 2.5])).tolist()
    [2, 0, 3, 1, 2]
    >>> value_ranks(pa.array([["b"], ["a", None], ["a"], None])).tolist()
    [3, 2, 1, 0]
    """
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    known = column.is_valid().to_numpy(zero_copy_only=False)
    ranks = np.zeros(len(column), np.int64)
    if pa.types.is_floating(column.type):  # Arrow would sort NaN as it sorts NULL
        values = column.cast(pa.float64()).drop_null().to_numpy(zero_copy_only=False)
        ranks[known] = np.unique(values, return_inverse=True)[1] + 1
        return ranks
    try:
        ranks[known] = pc.rank(column.drop_null(), tiebreaker="dense").to_numpy()
    except pa.ArrowNotImplementedError:  # lists, structs and maps
        keys = [_sortable(value) for value in column.to_pylist()]
        places = {key: place for place, key in enumerate(sorted({*keys}))}
        ranks = np.array([places[key] for key in keys], np.int64)
    return ranks


def _sortable(value: Any) -> tuple[Any, ...]:
    """Return what sorts as a value of a nested column does."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, *(_sortable(each) for each in value.values()))
    if isinstance(value, list):
        places = [_sortable(each) for each in value]
        return (1, *(sorted(places) if value and isinstance(value[0], tuple) else places))  # tuples: a map's entries
    if isinstance(value, tuple):
        return (1, *(_sortable(each) for each in value))
    return (2,) if value != value else (1, value)


def fingerprints(merit: FloatArray, *columns: IntArray) -> npt.NDArray[np.uint64]:
    """Return a number for each event that equal events share, and others hardly ever (multiplicative hashing)."""
    mixed = (merit + 0.0).view(np.uint64)  # -0.0 equals 0.0
    for column in columns:
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= column.view(np.uint64)
    return (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xC2B2AE3D27D4EB4F)


def rank_in_runs(*columns: IntArray) -> IntArray:
    """Return the rows' numbers, from 0, within each run of equal values.

    Examples
    --------
    >>> rank_in_runs(np.array([5, 5, 5, 2, 2, 9])).tolist()
    [0, 1, 2, 0, 1, 0]
    """
    return np.arange(len(columns[0])) - _run_starts(*columns)


def ranks_in_runs(ties: Ties | None, merit: FloatArray, *columns: IntArray) -> IntArray:
    """Return the rows' ranks, from 0, within each run of equal values, if any; with `ties`, equal merits share theirs.

    Rows are best first within each run. ``"with"`` leaves ranks out behind those that are shared, ``"dense"`` does not.

    Examples
    --------
    >>> merit, run = np.array([9.0, 9.0, 7.0, 9.0, 7.0, 7.0]), np.array([0, 0, 0, 1, 1, 1])
    >>> [ranks_in_runs(ties, merit, run).tolist() for ties in (None, "with", "dense")]
    [[0, 1, 2, 0, 1, 2], [0, 0, 2, 0, 1, 1], [0, 0, 1, 0, 1, 1]]
    """
    starts = _run_starts(*columns) if columns else np.zeros(len(merit), np.int64)
    level = _run_starts(merit, *columns)
    if ties == "with":
        return level - starts
    if ties == "dense":
        steps: IntArray = np.cumsum(level == np.arange(len(level)))
        return steps - steps[starts]
    return np.arange(len(starts)) - starts


def _run_starts(*columns: npt.NDArray[Any]) -> IntArray:
    """Return where the run of equal values begins that each row is in."""
    n = len(columns[0])
    starts = np.zeros(n, np.int64)
    change = np.zeros(max(n - 1, 0), bool)
    for column in columns:
        change |= column[1:] != column[:-1]
    starts[1:] = np.where(change, np.arange(1, n), 0)
    return np.maximum.accumulate(starts)


@inlined
def is_better(
    merit_a: float, time_a: int, key_a: int, merit_b: float, time_b: int, key_b: int
) -> bool:  # pragma: no cover - compiled; tested through its py_func
    """Tell whether event a comes before event b."""
    if merit_a != merit_b:
        return merit_a > merit_b
    if time_a != time_b:
        return time_a > time_b
    return key_a < key_b


@jit
def precedes(
    part_a: Any, merit_a: Any, time_a: Any, key_a: Any, part_b: Any, merit_b: Any, time_b: Any, key_b: Any
) -> Any:
    """Tell whether event a is sorted before event b: by partition, then best first."""
    if part_a != part_b:
        return part_a < part_b
    return is_better(merit_a, time_a, key_a, merit_b, time_b, key_b)


@jit
def sort_runs(slots: Any, ends: Any, merit: Any, time: Any, key: Any, part: Any) -> None:
    """Sort each run of slots, in place and stably; run r ends before `ends[r]`."""
    parts, merits, times, keys = part[slots], merit[slots], time[slots], key[slots]
    order, spare = np.arange(slots.size), np.empty(slots.size, np.int64)
    start = 0
    for r in range(ends.size):
        end = ends[r]
        for left in range(start, end, _SHORT):  # short stretches by insertion, then by merging
            for i in range(left + 1, min(left + _SHORT, end)):
                a = order[i]
                j = i
                while j > left:
                    b = order[j - 1]
                    if not precedes(parts[a], merits[a], times[a], keys[a], parts[b], merits[b], times[b], keys[b]):
                        break
                    order[j] = b
                    j -= 1
                order[j] = a
        width = _SHORT
        while width < end - start:
            for left in range(start, end - width, 2 * width):
                middle, right = left + width, min(left + 2 * width, end)
                i, j = left, middle
                for place in range(left, right):
                    a, b = order[min(j, right - 1)], order[min(i, middle - 1)]
                    later = j < right and (
                        i == middle
                        or precedes(parts[a], merits[a], times[a], keys[a], parts[b], merits[b], times[b], keys[b])
                    )
                    spare[place] = a if later else b
                    j += later
                    i += not later
                for place in range(left, right):
                    order[place] = spare[place]
            width *= 2
        start = end
    for i in range(slots.size):
        spare[i] = slots[order[i]]
    for i in range(slots.size):
        slots[i] = spare[i]
