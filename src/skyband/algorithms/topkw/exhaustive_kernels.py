"""One pass over events for many queries that can always start from scratch: a grid has every event of the windows.

CPM/w keeps for each query just its best k. SNN keeps the k-skyband of what costs no more than its threshold, and so has
to start from scratch less often.

Paper → code (Top-k/w):

- section 2, an object is expelled from the query window → `expire_windows`
- section 2, an object comes in if its score is within the threshold → `offer_near`
- section 2, CPM/w, it replaces the k-th object → `add_best_of`
- section 2, SNN, it prunes what it dominates → `add_strict`
- section 2, the top k is recomputed from scratch → `from_scratch`
- section 2, lazy re-indexing → `watch`

From scratch, SNN takes also what costs the same as the k-th: it may rank before what comes in later.

Events are addressed by their row here, in order of arrival: `BandRows.slot` has rows, `reported` a bit per row and
query. `BandRows.limit` says whether a list has all events of its window, as it does while there are fewer than k.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.topkw.band_kernels import (
    LEFT,
    NOBODY,
    REPORT,
    SNN,
    add_strict,
    expiry_of,
    find_place,
    is_there,
    push,
    put,
    report,
    report_entries,
    touch,
    with_room_for,
)
from skyband.algorithms.topkw.event_kernels import cell_of, expire_windows, find_costs_of, watch, who_watches, with_room
from skyband.compiled import jit


@jit
def add_best_of(
    cost: Any, position: Any, slot: Any, mark: Any, q: Any, size: Any, k: Any, c: Any, p: Any, r: Any, m: Any,
    time: Any, key: Any,
) -> Any:  # fmt: skip
    """Let an event in if it is one of the best k; return its place (-1: it is not), and how many there are."""
    at = find_place(cost, slot, q, size, c, r, time, key)
    if at >= k:
        return -1, size
    put(cost, position, slot, mark, q, min(size, k - 1), at, c, p, r, m)
    return at, min(size + 1, k)


@jit
def offer_near(
    events: Any, e: Any, who: Any, count: Any, costs: Any, queries: Any, method: Any, index: Any, band: Any, now: Any,
    at_event: Any, step: Any, touched: Any, reports: Any,
) -> Any:  # fmt: skip
    """Offer the event that comes to those who watch its cell; return how many events the fullest row has that changed.

    There is room for it, as for `offer`.
    """
    _, k_of, span_of, since = queries
    cost, position, slot, mark, size, limit, threshold, _, _ = band
    p, time, key = events.position[e], events.time, events.key
    fullest = np.int64(0)
    for turn in range(count):
        q, c = who[turn], costs[turn]
        k = k_of[q]
        if events.number[e] < since[q] or p <= now - span_of[q] or c != c or c > threshold[q]:
            continue
        if size[q] < k and not limit[q]:
            continue  # it is found from scratch
        kth, known, worst = np.int64(-1), np.int64(0), 0.0
        if size[q] >= k:
            kth, known, worst = slot[q, k - 1], mark[q, k - 1] & 2, cost[q, k - 1]
        if method.kind == SNN:
            at, size[q] = add_strict(cost, position, slot, mark, q, size[q], k, c, p, e, time, key)
        else:
            at, size[q] = add_best_of(cost, position, slot, mark, q, size[q], k, c, p, e, 0, time, key)
        if at < 0:
            continue
        fullest = max(fullest, size[q])
        if limit[q] and size[q] >= k:
            limit[q], threshold[q] = 0, cost[q, k - 1]
            watch(q, threshold[q], index.bound, index.cell, index.reach, index.watching)
        touch(touched, step, q)
        if at < k and known and method.changes:
            report(reports, q, kth, LEFT, at_event, now, worst)
            if size[q] > k and slot[q, k] == kth:
                mark[q, k] &= ~2
    return fullest


@jit
def from_scratch(
    events: Any, q: Any, gone: Any, functions: Any, queries: Any, kind: Any, index: Any, band: Any, first: Any,
    before: Any, reported: Any,
) -> Any:  # fmt: skip
    """Look in the grid for the best k of a query, and, for SNN, for what costs the same; return the band, with room.

    `first` has the latest event of each cell, `before` the one before each event in its cell.
    """
    one, priced = np.full(1, q), np.empty(1)
    x, time, key = events.x, events.time, events.key
    bound, cell = index.bound, index.cell
    k, n = queries.k[q], band.size[q]
    word, bit = q >> 6, np.uint64(1) << np.uint64(q & 63)
    for ties in range(2 if kind == SNN else 1):
        worst = band.cost[q, k - 1] if n >= k else np.inf
        if ties and n < k:
            break
        for i in range(bound.shape[1]):
            if n >= k and bound[q, i] > (worst if ties else band.cost[q, k - 1]):
                break
            o = first[cell[q, i]]
            while o >= 0:
                if events.position[o] > gone and events.number[o] >= queries.since[q]:
                    find_costs_of(functions, one, 1, x, o, priced)
                    c = priced[0]
                    at = find_place(band.cost, band.slot, q, n, c, o, time, key)
                    if (c == worst if ties else c == c) and not is_there(band.cost, band.slot, q, at, c, o):
                        band = with_room(band, n, 0)
                        cost, position, slot, mark = band.cost, band.position, band.slot, band.mark
                        p, m = events.position[o], 1 if reported[o, word] & bit else 0
                        if ties:
                            at, n = add_strict(cost, position, slot, mark, q, n, k, c, p, o, time, key)
                            if at >= 0:
                                mark[q, at] |= m
                        else:
                            at, n = add_best_of(cost, position, slot, mark, q, n, k, c, p, o, m, time, key)
                o = before[o]
    band.size[q], band.limit[q], band.threshold[q] = n, n < k, band.cost[q, k - 1] if n >= k else np.inf
    watch(q, band.threshold[q], bound, cell, index.reach, index.watching)
    return band


@jit
def pass_all(
    events: Any, begin: Any, moments: Any, functions: Any, queries: Any, method: Any, band: Any, index: Any,
    reported: Any,
) -> Any:  # fmt: skip
    """Take in events, in order, and report as `pass_events` does; rows before `begin` are there already."""
    used, k_of, span_of, _ = queries
    first = np.full(index.watching.shape[0], -1)  # of each cell, the latest event
    before = np.empty(events.position.size, np.int64)
    who, costs, touched = used.copy(), np.empty(used.size), np.full((k_of.size + 1, 2), -1)
    reports = np.zeros(1024, REPORT)
    fullest, last = band.size.max(), events.position.size
    for e in range(begin):
        home = cell_of(events.x, e, index.low, index.step, index.cells)
        before[e], first[home] = first[home], e
    e, step = begin, 0
    while e <= last:
        now = moments[e - begin]
        heap = band.heap
        alone = method.timed and heap[0, 0] > 0 and heap[0, 1] <= now  # something leaves first, at its own moment
        now = heap[0, 1] if alone else now
        at_event = e - begin if e < last and not alone else -1
        step += 1
        touched[0, 0] = 0
        if heap[0, 0] > 0 and heap[0, 1] <= now:
            reports = expire_windows(band, queries, method, index, now, at_event, step, touched, reports)
        if at_event >= 0:
            band = with_room(band, fullest, used.size)
            reports = with_room_for(reports, used.size)
            home = cell_of(events.x, e, index.low, index.step, index.cells)
            before[e], first[home] = first[home], e
            count = who_watches(index.watching, home, who)
            find_costs_of(functions, who, count, events.x, e, costs)
            full = offer_near(
                events, e, who, count, costs, queries, method, index, band, now, at_event, step, touched, reports,
            )  # fmt: skip
            fullest = max(fullest, full)
        for turn in range(1, touched[0, 0] + 1):
            q = touched[turn, 0]
            k, gone = k_of[q], now - span_of[q]
            if band.size[q] < k and not band.limit[q]:
                band = from_scratch(
                    events, q, gone, functions, queries, method.kind, index, band, first, before, reported
                )
                fullest = max(fullest, band.size[q])
            reports = with_room_for(reports, k)
            n = min(k, band.size[q])
            report_entries(band.cost, band.slot, band.mark, q, n, method.changes, reports, at_event, now)
            for i in range(n):
                reported[band.slot[q, i], q >> 6] |= np.uint64(1) << np.uint64(q & 63)
            leaves = expiry_of(band.position, q, band.size[q], span_of[q])
            if leaves not in (NOBODY, band.next_expiry[q]):
                band.next_expiry[q] = leaves
                band = with_room(band, 0, 1)
                push(band.heap, leaves, q)
        e += not alone
    return band, reports[1 : reports[0]["row"] + 1]
