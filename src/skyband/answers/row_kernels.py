"""Columns of rows from columns of answers: what is written once for each row, by several threads."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.compiled import PARALLEL_ROWS, THREADS, in_threads, jit, split
from skyband.order import IntArray, SlotArray


@jit
def repeat(values: Any, offsets: Any, out: Any) -> None:
    """Write the value of each answer for each of its rows."""
    for answer in range(values.size):
        value = values[answer]
        for row in range(offsets[answer], offsets[answer + 1]):
            out[row] = value


@jit
def number(part: Any, offsets: Any, out: Any) -> None:
    """Write the number of each row in its answer, from 1, or in its partition there."""
    for answer in range(offsets.size - 1):
        place = np.int32(0)
        for row in range(offsets[answer], offsets[answer + 1]):
            if part.size > 0 and row > offsets[answer] and part[row] != part[row - 1]:
                place = np.int32(0)
            place += np.int32(1)
            out[row] = place


def over_rows(values: npt.NDArray[Any], offsets: IntArray) -> npt.NDArray[Any]:
    """Return for each row the value of its answer, whose rows lie between its offset and the next one.

    Examples
    --------
    >>> over_rows(np.array([7, 9]), np.array([0, 2, 3])).tolist()
    [7, 7, 9]
    """
    out = np.empty(int(offsets[-1]), values.dtype)
    in_threads(repeat, [(values[a:b], offsets[a : b + 1], out) for a, b in _stretches(offsets)])
    return out


def ranks(part: IntArray | None, offsets: IntArray) -> SlotArray:
    """Return the rank of each row in its answer, or its partition there, from 1.

    Examples
    --------
    >>> ranks(None, np.array([0, 2, 3])).tolist(), ranks(np.array([4, 5, 5]), np.array([0, 3])).tolist()
    ([1, 2, 1], [1, 1, 2])
    """
    out = np.empty(int(offsets[-1]), np.int32)
    part = np.empty(0, np.int64) if part is None else part
    in_threads(number, [(part, offsets[a : b + 1], out) for a, b in _stretches(offsets)])
    return out


def _stretches(offsets: IntArray) -> list[tuple[int, int]]:
    """Return runs of answers, one for each thread, that have about as many rows."""
    threads = THREADS if offsets[-1] >= PARALLEL_ROWS else 1
    inner = np.searchsorted(offsets, split(int(offsets[-1]), threads)[1:-1]).tolist()
    return list(itertools.pairwise([0, *inner, len(offsets) - 1]))
