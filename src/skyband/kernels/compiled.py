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
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import IndexDataCacheFile

_HERE = Path(__file__).parent
SOURCES = (*sorted(_HERE.glob("*.py")), _HERE.parent / "order.py", _HERE.parent / "panes.py")
"""All code that may be in a kernel: it takes in that of those it calls, wherever they are written."""
_CODE = sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()


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
