"""One pass over arriving events that leaves, of each id in each pane, only its latest."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.kernels.compiled import jit

EMPTY = -1


@jit
def slot_of(ident: Any, pane: Any, part: Any) -> Any:
    """Mix three numbers into one that looks random (multiplicative hashing with odd constants)."""
    mixed = np.uint64(ident) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.uint64(pane) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= np.uint64(part) * np.uint64(0x165667B19E3779F9)
    return mixed ^ (mixed >> np.uint64(29))


@jit
def keep_latest(ident: Any, pane: Any, part: Any, position: Any, merit: Any, time: Any) -> Any:
    """Return, in order, the rows that are the latest of their id in their pane and partition.

    Of several at the same position the best stays; of equal ones the first.
    """
    n = ident.size
    size = 16
    while size < 2 * n:
        size *= 2
    mask = np.uint64(size - 1)
    table = np.full(size, EMPTY, np.int64)  # open addressing: a row, or EMPTY
    for i in range(n):
        place = slot_of(ident[i], pane[i], part[i]) & mask
        while True:
            j = table[place]
            if j == EMPTY:
                table[place] = i
                break
            if ident[j] == ident[i] and pane[j] == pane[i] and part[j] == part[i]:
                if position[i] != position[j]:
                    later = position[i] > position[j]
                elif merit[i] != merit[j]:
                    later = merit[i] > merit[j]
                else:
                    later = time[i] > time[j]
                if later:
                    table[place] = i
                break
            place = (place + np.uint64(1)) & mask
    return np.sort(table[table != EMPTY])
