"""Columns of answers: events by their places, on as many cores as there are."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.kernels.compiled import jit

THREADS = min(os.cpu_count() or 1, 4)
PARALLEL_ROWS = 1 << 18


@lru_cache
def workers() -> ThreadPoolExecutor:
    """Return the threads that kernels share."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="skyband")


@jit
def copy_at(values: Any, places: Any, out: Any) -> None:
    """Write the values at some places, one after the other."""
    for i in range(places.size):
        out[i] = values[places[i]]


def gather(values: npt.NDArray[Any], places: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
    """Return the values at some places.

    Examples
    --------
    >>> gather(np.array([5.0, 6.0, 7.0]), np.array([2, 0], np.int32)).tolist()
    [7.0, 5.0]
    """
    out = np.empty(len(places), values.dtype)
    threads = THREADS if len(places) >= PARALLEL_ROWS else 1
    edges = np.linspace(0, len(places), threads + 1).astype(np.int64).tolist()
    parts = [(values, places[a:b], out[a:b]) for a, b in itertools.pairwise(edges)]
    if threads == 1:
        copy_at(*parts[0])
    else:
        list(workers().map(lambda part: copy_at(*part), parts))
    return out
