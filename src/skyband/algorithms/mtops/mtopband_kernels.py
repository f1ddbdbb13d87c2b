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

    As `top_list_kernels.process`; `numbers` has how many views there are, and how much of the pool is used. Returns how
    many events were picked.
    """
    position = events[4]
    start, k, count, begin, threshold = views
    first, depth = opened[0], opened[1]
    when, of, k_now = steps[0], steps[1], steps[2]
    due_start, due_end, due_k = due
    e = d = o = c = n = 0  # how many events came, windows were answered, views opened and stepped down, events picked
    while True:
        more = e < fresh.size
        now = position[fresh[e]] if more else passed
        while d < due_end.size and due_end[d] <= now:
            view = np.searchsorted(start[: numbers[0]], due_start[d])
            if view < numbers[0] and start[view] == due_start[d]:
                n = pick(views, view, due_k[d], pool, picks, n)
            d += 1
            offsets[d] = n
        # Views open before any closes: where no event comes for long, one may open and close at once.
        while o < first.size and first[o] <= now:
            v = numbers[0]
            start[v], k[v], count[v], begin[v], threshold[v] = first[o], depth[o], 0, numbers[1], -np.inf
            numbers[0] += 1
            numbers[1] += k[v]
            o += 1
        while c < when.size and when[c] <= now:
            lower(views, np.searchsorted(start[: numbers[0]], of[c]), k_now[c], pool, refs)
            c += 1
        if not more:
            return n
        insert(events, fresh[e], views, numbers[0], pool, refs)
        e += 1
