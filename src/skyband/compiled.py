"""How kernels are compiled: by numba, kept on disk, and safe to be compiled by several processes at once.

Numba numbers the files that it keeps compiled code in, and an index says which has which types. Two processes that
compile at the same time, as Spark's workers do, may choose the same number, and one of them then finds the code of
other types: wrong answers, or a crash. A process that is killed between the two writes can leave the same behind.
Here the name of a file says all that its content depends on; there is nothing to agree on.

Inside the files, numba tells functions of one name and types apart, as those that sort and those that argsort, by
numbers that every process counts from 1. Code of two processes may so have one name for two things, and who loads both
files gets one in the place of the other. Here every process counts from a number of its own.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import IndexDataCacheFile


def _code(package: Path) -> str:
    """Return a hash of all code that may be in a kernel, which takes in that of those it calls.

    So compiled code lives in files that are named here, and a change of any of them compiles all kernels anew.
    """
    named = [package / name for name in ("compiled.py", "order.py", "algorithms/panes.py")]
    kernels = sorted(package.rglob("*_kernels.py"))
    return sha256(b"".join(path.read_bytes() for path in [*named, *kernels])).hexdigest()


_CODE = _code(Path(__file__).parent)


def _count_anew() -> None:
    """Let this process number functions as no other does."""
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(48))


_count_anew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_anew)


class _Files(IndexDataCacheFile):  # type: ignore[misc]
    """A file for each function, its types and the machine; no index."""

    def save(self, key: Any, data: Any) -> None:
        """Keep compiled code."""
        self._save_data(self._name(key), data)

    def load(self, key: Any) -> Any:
        """Return compiled code, or None."""
        try:
            return self._load_data(self._name(key))
        except OSError:
            return None

    def _name(self, key: Any) -> str:
        what = sha256(repr((key, self._version, _CODE)).encode()).hexdigest()[:32]
        return f"{self._index_name.removesuffix('.nbi')}.{what}.nbc"


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, once for all processes."""
    if numba.config.DISABLE_JIT:  # to step through kernels
        return function
    compiled = numba.njit(cache=True, nogil=True)(function)
    numbas = compiled._cache._cache_file
    compiled._cache._cache_file = _Files(numbas._cache_path, numbas._index_name.removesuffix(".nbi"), None)
    return compiled


def inlined(function: Callable[..., Any]) -> Any:
    """Make a function a part of each kernel that calls it: no counting of references to arrays for every call."""
    return numba.njit(inline="always")(function)


THREADS = min(os.cpu_count() or 1, 4)
PARALLEL_ROWS = 1 << 18


@lru_cache
def workers() -> ThreadPoolExecutor:
    """Return the threads that kernels share."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="skyband")


def in_threads(function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call a function with each job's arguments, each in a thread of its own where there are several."""
    if len(jobs) == 1:
        return [function(*jobs[0])]
    return list(workers().map(lambda job: function(*job), jobs))


def split(count: int, threads: int) -> list[int]:
    """Return the edges of as many equal parts as there are threads.

    Examples
    --------
    >>> split(10, 3)
    [0, 3, 6, 10]
    """
    edges: list[int] = np.linspace(0, count, threads + 1).astype(np.int64).tolist()
    return edges


@jit
def copy_at(values: Any, places: Any, out: Any) -> None:
    """Write the values at some places, one after the other."""
    for i in range(places.size):
        out[i] = values[places[i]]


def gather(values: npt.NDArray[Any], places: npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
    """Return the values at some places.

    Examples
    --------
    >>> gather(np.array([5.0, 6.0, 7.0]), np.array([2, 0], np.int32)).tolist()
    [7.0, 5.0]
    """
    out = np.empty(len(places), values.dtype)
    edges = split(len(places), THREADS if len(places) >= PARALLEL_ROWS else 1)
    in_threads(copy_at, [(values, places[a:b], out[a:b]) for a, b in itertools.pairwise(edges)])
    return out
