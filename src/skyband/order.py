"""The one total order: better score first, then the later event, then the smaller id.

Everything that ranks events - every algorithm, the Spark pipeline, the tests' oracle - takes its order from
here, so the same input always gives the same answer. Inside, a *merit* is a score turned so that larger is
better: the score itself for ``desc``, its negative for ``asc``.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
SlotArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]

NEVER = -(2**62)
"""A position before every event."""
ALWAYS = 2**62
"""A position after every event."""


def merit_of(score: FloatArray, order: str) -> FloatArray:
    """Turn scores so that larger is better (and back: the function is its own inverse).

    Examples
    --------
    >>> merit_of(np.array([1.0, -2.0]), "asc").tolist()
    [-1.0, 2.0]
    """
    return score if order == "desc" else -score


def best_first(merit: FloatArray, time: IntArray, key: IntArray, *major: npt.NDArray[Any]) -> IntArray:
    """Return the positions of the events from best to worst, within the groups of the major columns.

    Parameters
    ----------
    merit, time, key
        The columns of the events; `key` sorts as the ids do.
    major
        Columns to sort by first, the most significant one first.

    Examples
    --------
    >>> best_first(np.array([2.0, 3.0, 3.0, 3.0]), np.array([9, 4, 5, 5]), np.array([1, 1, 8, 7])).tolist()
    [3, 2, 1, 0]
    """
    return np.lexsort((key, np.negative(time), np.negative(merit), *reversed(major)))


def rank_in_runs(*columns: IntArray) -> IntArray:
    """Return the rows' numbers, from 0, within each run of equal values.

    Examples
    --------
    >>> rank_in_runs(np.array([5, 5, 5, 2, 2, 9])).tolist()
    [0, 1, 2, 0, 1, 0]
    """
    n = len(columns[0])
    starts = np.zeros(n, np.int64)
    change = np.zeros(max(n - 1, 0), bool)
    for column in columns:
        change |= column[1:] != column[:-1]
    starts[1:] = np.where(change, np.arange(1, n), 0)
    return np.arange(n) - np.maximum.accumulate(starts)


@numba.njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def is_better(
    merit_a: float, time_a: int, key_a: int, merit_b: float, time_b: int, key_b: int
) -> bool:  # pragma: no cover - compiled; tested through its py_func
    """Tell whether event a comes before event b."""
    if merit_a != merit_b:
        return merit_a > merit_b
    if time_a != time_b:
        return time_a > time_b
    return key_a < key_b
