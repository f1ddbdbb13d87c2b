"""Thresholds that are carried on over cuts at which windows only end.

Between two neighbouring starts of windows, every window that holds an event of a pane holds all panes before it. So K
better events in these panes, taken together, are enough to drop an event, and a pane begins with the threshold that the
panes before it have reached.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.compiled import jit
from skyband.order import BoolArray, FloatArray, IntArray


class Carried(NamedTuple):
    """The K-th best of the events so far, interval by interval.

    Attributes
    ----------
    reaches
        Per event: whether it is no worse than that of its interval.
    known
        Per interval: whether there are K events so far.
    merit, time
        Per interval: those of the K-th best.
    relies
        Per interval: whether some of the K best come from before.
    """

    reaches: BoolArray
    known: BoolArray
    merit: FloatArray
    time: IntArray
    relies: BoolArray


@jit
def carry(merit: Any, time: Any, ends: Any, follows: Any, floored: Any, floor: Any, k: Any) -> Any:
    """Go through events interval by interval, those of each best first; return what `Carried` has.

    Parameters
    ----------
    merit, time
        The events.
    ends
        Where those of each interval end.
    follows
        Per interval: whether the events of the one before count here too.
    floored
        Per interval: whether K events from before all of these reach the floor, and count here.
    floor
        Merit and time of the floor.
    k
        How many events are enough.
    """
    count = ends.size
    room = min(k, merit.size)
    best_merit, best_time = np.empty((2, room)), np.empty((2, room), np.int64)
    old = np.empty((2, room), np.bool_)
    reaches = np.ones(merit.size, np.bool_)
    known, relies = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    last_merit, last_time = np.full(count, -np.inf), np.full(count, -(2**63), np.int64)
    side, size, start = 0, 0, 0
    for interval in range(count):
        end, before = ends[interval], size if follows[interval] else 0
        i, j, size, into = 0, start, 0, 1 - side
        while size < room and (i < before or j < end):
            take_old = j >= end or (
                i < before
                and (
                    best_merit[side, i] > merit[j]
                    or (best_merit[side, i] == merit[j] and best_time[side, i] >= time[j])
                )
            )
            if take_old:
                best_merit[into, size], best_time[into, size] = best_merit[side, i], best_time[side, i]
                old[into, size] = True
                i += 1
            else:
                best_merit[into, size], best_time[into, size], old[into, size] = merit[j], time[j], False
                j += 1
            size += 1
        side = into
        if size == k:
            known[interval] = True
            last_merit[interval], last_time[interval] = best_merit[side, k - 1], best_time[side, k - 1]
            relies[interval] = old[side, :size].any()
        if floored[interval] and (
            floor[0] > last_merit[interval] or (floor[0] == last_merit[interval] and floor[1] > last_time[interval])
        ):
            known[interval] = relies[interval] = True
            last_merit[interval], last_time[interval] = floor
        for event in range(start, end):
            worse = merit[event] < last_merit[interval]
            reaches[event] = not (worse or (merit[event] == last_merit[interval] and time[event] < last_time[interval]))
        start = end
    return reaches, known, last_merit, last_time, relies


@jit
def carry_thresholds(threshold: Any, threshold_time: Any, begins: Any) -> None:
    """Raise the threshold of each pane to that of the one before, unless windows start in between."""
    for pane in range(1, begins.size):
        before, now = threshold[pane - 1], threshold[pane]
        if not begins[pane] and (before > now or (before == now and threshold_time[pane - 1] > threshold_time[pane])):
            threshold[pane], threshold_time[pane] = before, threshold_time[pane - 1]
