"""One sorted list per view: MTopBand.

Paper → code (Shastri 2011):

- figure 6.3, lines 1-6; section 5.2, step 2, a new view → `process`
- section 5.2, step 1, an expired view → `lower`
- section 5.2, O_new and O_min → `insert`
- chapter 7, the result of a view → `pick`

A *view* holds the best k of the events from its start on, as a stretch of a common pool, best first. An event that is
in several views is stored once, in the store, and referred to by each; `refs` counts that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.shared_kernels import CLOSED, DUE, EVENT, OPENED, PICKED, STEP
from skyband.compiled import jit
from skyband.order import is_better


@jit
def insert(events: Any, slot: Any, views: Any, count_views: Any, pool: Any, refs: Any) -> None:
    """Let an event into each view that it belongs to and is good enough for."""
    merit, time, key, _part, position = events
    start, k, count, begin, threshold = views
    slots, merits = pool
    m, t, i, p = merit[slot], time[slot], key[slot], position[slot]
    for v in range(count_views):
        if m < threshold[v] or p < start[v] or k[v] == 0:
            continue
        first, held = begin[v], count[v]
        if held == k[v]:
            w = slots[first + held - 1]
            if not is_better(m, t, i, merit[w], time[w], key[w]):
                continue
            refs[w] -= 1
            held -= 1
        low, high = first, first + held
        while low < high:
            middle = (low + high) // 2
            w = slots[middle]
            if merits[middle] > m or (merits[middle] == m and not is_better(m, t, i, merit[w], time[w], key[w])):
                low = middle + 1
            else:
                high = middle
        for place in range(first + held, low, -1):
            slots[place], merits[place] = slots[place - 1], merits[place - 1]
        slots[low], merits[low] = slot, m
        refs[slot] += 1
        count[v] = held + 1
        if count[v] == k[v]:
            threshold[v] = merits[first + held]


@jit
def lower(views: Any, view: Any, k_now: Any, pool: Any, refs: Any) -> None:
    """Let a view hold fewer events; none closes it."""
    _start, k, count, begin, threshold = views
    slots, merits = pool
    k[view] = k_now
    while count[view] > k_now:
        count[view] -= 1
        refs[slots[begin[view] + count[view]]] -= 1
    if k_now == 0:
        threshold[view] = np.inf
    elif count[view] == k_now:
        threshold[view] = merits[begin[view] + k_now - 1]


@jit
def pick(views: Any, view: Any, k: Any, pool: Any, picks: Any, n: Any) -> Any:
    """Take the best k events of a view; return the new n."""
    _start, _k, count, begin, _threshold = views
    for place in range(begin[view], begin[view] + min(k, count[view])):
        picks[n] = pool[0][place]
        n += 1
    return n


@jit
def process(
    events: Any, fresh: Any, views: Any, numbers: Any, pool: Any, refs: Any, opened: Any, steps: Any, due: Any,
    passed: Any, picks: Any, offsets: Any,
) -> Any:  # fmt: skip
    """Take in events in order, and do on the way what a scheduler says.

    As `toplist.process`; `numbers` has how many views there are, and how much of the pool is used. Returns how
    many events were picked.
    """
    position = events[4]
    start, k, count, begin, threshold = views
    at = np.zeros(5, np.int64)
    while True:
        more = at[EVENT] < fresh.size
        now = position[fresh[at[EVENT]]] if more else passed
        while at[DUE] < due[0].size and due[1][at[DUE]] <= now:
            d = at[DUE]
            view = np.searchsorted(start[: numbers[0]], due[0][d])
            if view < numbers[0] and start[view] == due[0][d]:
                at[PICKED] = pick(views, view, due[2][d], pool, picks, at[PICKED])
            at[DUE] += 1
            offsets[at[DUE]] = at[PICKED]
        # Views open before any closes: where no event comes for long, one may open and close at once.
        while at[OPENED] < opened.shape[1] and opened[0, at[OPENED]] <= now:
            v = numbers[0]
            start[v], k[v], count[v], begin[v] = opened[0, at[OPENED]], opened[1, at[OPENED]], 0, numbers[1]
            threshold[v] = -np.inf
            numbers[0] += 1
            numbers[1] += k[v]
            at[OPENED] += 1
        while at[CLOSED] < steps.shape[1] and steps[STEP, at[CLOSED]] <= now:
            lower(views, np.searchsorted(start[: numbers[0]], steps[1, at[CLOSED]]), steps[2, at[CLOSED]], pool, refs)
            at[CLOSED] += 1
        if not more:
            return at[PICKED]
        insert(events, fresh[at[EVENT]], views, numbers[0], pool, refs)
        at[EVENT] += 1
