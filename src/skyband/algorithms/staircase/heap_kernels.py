"""One pass over arriving events of many partitions: a heap of K for each pane and partition, with its bar beside it.

A *slot pane* is a pane of one partition. Its bar is the K-th best event known of it; an event that is worse costs one
look-up. The others go into the slot pane's heap, which is allocated at its first event. Events that tie with the K-th
on merit and time are left in, since ids decide there. Where the heaps run out, they are emptied and used again; the
bars stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.staircase.scan_kernels import (
    BLOCK,
    DONE,
    FIRST,
    FULL,
    IN_USE,
    LAST,
    OUTSIDE,
    REJECTED,
    TIED,
    bounds,
    count_late,
    find_pane,
)
from skyband.compiled import jit


@jit
def sift_down(merits: Any, rows: Any, n: Any, merit: Any, row: Any, time: Any, at: Any) -> None:
    """Put an event at place `at` of a heap whose worst event is on top, or below, where it belongs."""
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        other = child + 1
        if other < n and (
            merits[other] < merits[child] or (merits[other] == merits[child] and time[rows[other]] < time[rows[child]])
        ):
            child = other
        if merits[child] > merit or (merits[child] == merit and time[rows[child]] >= time[row]):
            break
        merits[at], rows[at] = merits[child], rows[child]
        at = child
    merits[at], rows[at] = merit, row


@jit
def scan(
    columns: Any, at: Any, stop: Any, panes: Any, bars: Any, heaps: Any, tied: Any, limits: Any, k: Any, seen: Any,
    late: Any,
) -> Any:  # fmt: skip
    """Pass over the rows from `at` to `stop`; fill the heaps with what may be kept.

    Parameters
    ----------
    columns
        merit, time, position, part.
    at, stop
        Which rows.
    panes
        cuts, and the number of partitions.
    bars
        Per slot pane: merit and time of its K-th best so far, and its heap's number (-1: none yet).
    heaps
        merit and row of each heap's events, how many it holds, and to which slot pane it belongs.
    tied
        Room for rows that tie with the worst of a heap, and for their slot panes.
    limits, k, seen, late
        As for `scan_kernels.scan`; of `seen`, TIED too.

    Returns
    -------
    DONE, or FULL (no room for a row) or OUTSIDE (a position beyond the cuts), and the row to go on from.
    """
    merit, time, position, part = columns
    cuts, partitions = panes
    bar, bar_time, heap_of = bars
    heap_merit, heap_row, filled, owner = heaps
    tied_row, tied_slot = tied
    pane, pane_start, pane_end = -1, cuts[0], cuts[0]
    row = at
    while row < stop:
        end = min(row + BLOCK, stop)
        low, high = bounds(position[row:end])
        if low < cuts[0] or high >= cuts[-1]:
            return OUTSIDE, row
        seen[FIRST] = min(seen[FIRST], low)
        seen[LAST] = max(seen[LAST], high)
        for i in range(row, end):
            where = position[i]
            if not pane_start <= where < pane_end:
                pane = find_pane(cuts, where)
                pane_start, pane_end = cuts[pane], cuts[pane + 1]
            slot, value = pane * partitions + part[i], merit[i]
            if value < bar[slot]:
                continue
            if value != value:
                seen[REJECTED] += 1
                continue
            if where < limits[0] or (value == bar[slot] and time[i] < bar_time[slot]):
                continue
            heap = heap_of[slot]
            if (heap < 0 and seen[IN_USE] == filled.size) or seen[TIED] == tied_row.size:
                count_late(merit, position, limits, row, i, seen, late)
                return FULL, i
            if heap < 0:
                heap = seen[IN_USE]
                heap_of[slot], owner[heap], filled[heap] = heap, slot, 0
                seen[IN_USE] += 1
            merits, rows, n = heap_merit[heap], heap_row[heap], filled[heap]
            if n < k:
                merits[n], rows[n] = value, i
                filled[heap] = n + 1
                if n + 1 < k:
                    continue
                for parent in range(k // 2 - 1, -1, -1):
                    sift_down(merits, rows, k, merits[parent], rows[parent], time, parent)
            elif value == merits[0] and time[i] == time[rows[0]]:
                tied_row[seen[TIED]], tied_slot[seen[TIED]] = i, slot
                seen[TIED] += 1
            else:
                gone, gone_row = merits[0], rows[0]
                sift_down(merits, rows, k, value, i, time, 0)
                if merits[0] == gone and time[rows[0]] == time[gone_row]:
                    tied_row[seen[TIED]], tied_slot[seen[TIED]] = gone_row, slot
                    seen[TIED] += 1
            worst, worst_time = merits[0], time[rows[0]]
            if worst > bar[slot] or (worst == bar[slot] and worst_time > bar_time[slot]):
                bar[slot], bar_time[slot] = worst, worst_time
        if low < limits[1]:
            count_late(merit, position, limits, row, end, seen, late)
        row = end
    return DONE, stop


@jit
def drain(merit: Any, time: Any, bars: Any, heaps: Any, tied: Any, seen: Any) -> Any:
    """Empty the heaps; return the rows they hold, and those that tie with the worst of them."""
    bar, bar_time, heap_of = bars
    _, heap_row, filled, owner = heaps
    tied_row, tied_slot = tied
    used = seen[IN_USE]
    rows = np.empty(filled[:used].sum() + seen[TIED], np.int64)
    total = 0
    for heap in range(used):
        slot = owner[heap]
        for entry in range(filled[heap]):
            rows[total] = heap_row[heap, entry]
            total += 1
        heap_of[slot] = -1
    for entry in range(seen[TIED]):
        row, slot = tied_row[entry], tied_slot[entry]
        if merit[row] == bar[slot] and time[row] == bar_time[slot]:
            rows[total] = row
            total += 1
    seen[IN_USE] = seen[TIED] = 0
    return rows[:total]
