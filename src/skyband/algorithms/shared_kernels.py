"""Where a walk over events, due windows and views has come to: places in the `at` of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.compiled import jit
from skyband.order import is_better

EVENT, DUE, OPENED, CLOSED, PICKED = 0, 1, 2, 3, 4
WALK = 5
STEP = 0


SHORT = 8  # events that are sorted by insertion


@jit
def precedes(
    part_a: Any, merit_a: Any, time_a: Any, key_a: Any, part_b: Any, merit_b: Any, time_b: Any, key_b: Any
) -> Any:
    """Tell whether event a is sorted before event b: by partition, then best first."""
    if part_a != part_b:
        return part_a < part_b
    if merit_a != merit_b:
        return merit_a > merit_b
    return is_better(merit_a, time_a, key_a, merit_b, time_b, key_b)


@jit
def sort_runs(slots: Any, ends: Any, merit: Any, time: Any, key: Any, part: Any) -> None:
    """Sort each run of slots, in place and stably; run r ends before `ends[r]`."""
    parts, merits, times, keys = part[slots], merit[slots], time[slots], key[slots]
    order, spare = np.arange(slots.size), np.empty(slots.size, np.int64)
    start = 0
    for r in range(ends.size):
        end = ends[r]
        for left in range(start, end, SHORT):  # short stretches by insertion, then by merging
            for i in range(left + 1, min(left + SHORT, end)):
                a = order[i]
                j = i
                while j > left:
                    b = order[j - 1]
                    if not precedes(parts[a], merits[a], times[a], keys[a], parts[b], merits[b], times[b], keys[b]):
                        break
                    order[j] = b
                    j -= 1
                order[j] = a
        width = SHORT
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
