"""One pass over events for many queries that can always start from scratch: a grid has every event of the windows.

CPM/w keeps for each query just its best k. SNN keeps the k-skyband of what costs no more than its threshold, and so
has to start from scratch less often. Both let an event in only where it is as good as the threshold; when fewer than k
are left, the best k are looked for in the grid, from the best cell on; SNN takes also those that cost the same as the
last of them: they may rank before what comes in later.

Events are addressed by their row here, in order of arrival: `ref` has rows, `told` a bit per row and query. `limit`
says whether a list has all events of its window, as it does while there are fewer than k.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.topkw.band_kernels import LEFT, NOBODY, add_strict, find_place, oldest_of, put, take
from skyband.algorithms.topkw.event_kernels import (
    announce,
    cell_of,
    find_costs,
    longer,
    pop,
    push,
    watch,
    who_watches,
    wider,
)
from skyband.compiled import jit

CPM, SNN = 3, 4


@jit
def add_best(
    cost: Any, pos: Any, ref: Any, mark: Any, q: Any, size: Any, k: Any, c: Any, p: Any, r: Any, m: Any, time: Any,
    key: Any,
) -> Any:  # fmt: skip
    """Let an event in if it is one of the best k; return its place (-1: it is not), and how many there are."""
    at = find_place(cost, ref, q, size, c, r, time, key)
    if at >= k:
        return -1, size
    put(cost, pos, ref, mark, q, min(size, k - 1), at, c, p, r, m)
    return at, min(size + 1, k)


@jit
def pass_all(
    x: Any, position: Any, number: Any, time: Any, key: Any, told: Any, begin: Any, moments: Any, timed: Any,
    functions: Any, queries: Any, kind: Any, band: Any, grid: Any, changes: Any,
) -> Any:  # fmt: skip
    """Take in events, in order, and report as `topkw.pass_events` does; rows before `begin` are there already."""
    family, sign, point, weight, column, boxed, floor, ceiling, gate = functions
    used, k_of, span_of, since = queries
    cost, pos, ref, mark, size, limit, threshold, due, heap_key, heap_row, heap = band
    low, step, cells, bound, cell, reach, watching = grid
    first = np.full(watching.shape[0], -1)  # of each cell, the latest event; then, from event to event, the one before
    before = np.empty(position.size, np.int64)
    who, costs, one, priced = used.copy(), np.empty(used.size), np.empty(1, np.int64), np.empty(1)
    touched, touched_at = np.empty(k_of.size, np.int64), np.full(k_of.size, -1)
    fullest = size.max()
    count = 0
    out_query, out_row, out_kind = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024, np.int64)
    out_at, out_now, out_cost = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024)
    last = position.size
    for e in range(begin):
        home = cell_of(x, e, low, step, cells)
        before[e], first[home] = first[home], e
    e, steps = begin, 0
    while e <= last:
        now = moments[e - begin]
        alone = timed and heap > 0 and heap_key[0] <= now  # something leaves first, at its own moment
        now = heap_key[0] if alone else now
        at_event = e - begin if e < last and not alone else -1
        steps += 1
        moved = 0
        # What leaves the windows is dropped.
        while heap > 0 and heap_key[0] <= now:
            q, at = heap_row[0], heap_key[0]
            heap = pop(heap_key, heap_row, heap)
            if at != due[q]:
                continue
            k, gone = k_of[q], now - span_of[q]
            if count + size[q] > out_query.size:
                out_query, out_row = longer(out_query, count + size[q]), longer(out_row, count + size[q])
                out_kind, out_at = longer(out_kind, count + size[q]), longer(out_at, count + size[q])
                out_now, out_cost = longer(out_now, count + size[q]), longer(out_cost, count + size[q])
            i = 0
            while i < size[q]:
                if pos[q, i] > gone:
                    i += 1
                    continue
                if changes and mark[q, i] & 2:
                    out_query[count], out_row[count], out_kind[count] = q, ref[q, i], LEFT
                    out_at[count], out_now[count], out_cost[count] = at_event, now, cost[q, i]
                    count += 1
                take(cost, pos, ref, mark, q, size[q], i)
                size[q] -= 1
            due[q] = NOBODY
            if touched_at[q] != steps:
                touched_at[q] = steps
                touched[moved] = q
                moved += 1
        if fullest + 2 > cost.shape[1]:
            cost, pos, ref, mark = wider(cost), wider(pos), wider(ref), wider(mark)
        if heap + used.size > heap_key.size:
            heap_key, heap_row = longer(heap_key, heap + used.size), longer(heap_row, heap + used.size)
        if count + used.size > out_query.size:
            out_query, out_row = longer(out_query, count + used.size), longer(out_row, count + used.size)
            out_kind, out_at = longer(out_kind, count + used.size), longer(out_at, count + used.size)
            out_now, out_cost = longer(out_now, count + used.size), longer(out_cost, count + used.size)
        # The event goes to those who watch its cell.
        interested = 0
        if at_event >= 0:
            home = cell_of(x, e, low, step, cells)
            before[e], first[home] = first[home], e
            interested = who_watches(watching, home, who)
            find_costs(family, sign, point, weight, column, boxed, floor, ceiling, gate, who, interested, x, e, costs)
        for turn in range(interested):
            q, c, p = who[turn], costs[turn], position[e]
            k, n = k_of[q], size[q]
            if number[e] < since[q] or p <= now - span_of[q] or c != c or c > threshold[q]:
                continue
            if n < k and not limit[q]:
                continue  # it is found from scratch, below
            kth, known, worst = np.int64(-1), np.int64(0), 0.0
            if n >= k:
                kth, known, worst = ref[q, k - 1], mark[q, k - 1] & 2, cost[q, k - 1]
            if kind == SNN:
                at, size[q] = add_strict(cost, pos, ref, mark, q, n, k, c, p, e, time, key)
            else:
                at, size[q] = add_best(cost, pos, ref, mark, q, n, k, c, p, e, 0, time, key)
            fullest = max(fullest, size[q])
            if at < 0:
                continue
            if limit[q] and size[q] >= k:
                limit[q], threshold[q] = 0, cost[q, k - 1]
                watch(q, threshold[q], bound, cell, reach, watching)
            if touched_at[q] != steps:
                touched_at[q] = steps
                touched[moved] = q
                moved += 1
            if at < k and known and changes:
                out_query[count], out_row[count], out_kind[count] = q, kth, LEFT
                out_at[count], out_now[count], out_cost[count] = at_event, now, worst
                count += 1
                if size[q] > k and ref[q, k] == kth:
                    mark[q, k] &= ~2
        for turn in range(moved):
            q = touched[turn]
            k, gone = k_of[q], now - span_of[q]
            word, bit = q >> 6, np.uint64(1) << np.uint64(q & 63)
            if size[q] < k and not limit[q]:
                # From scratch: cells in order of what is possible in them, until none can have anything better.
                one[0], n = q, size[q]
                for place in range(bound.shape[1]):
                    if n == k and bound[q, place] > cost[q, k - 1]:
                        break
                    o = first[cell[q, place]]
                    while o >= 0:
                        if position[o] > gone and number[o] >= since[q]:
                            find_costs(
                                family, sign, point, weight, column, boxed, floor, ceiling, gate, one, 1, x, o, priced
                            )
                            kept = False
                            for i in range(n):
                                kept = kept or ref[q, i] == o
                            if priced[0] == priced[0] and not kept:
                                m = 1 if told[o, word] & bit else 0
                                _, n = add_best(cost, pos, ref, mark, q, n, k, priced[0], position[o], o, m, time, key)
                        o = before[o]
                limit[q], threshold[q] = n < k, cost[q, k - 1] if n == k else np.inf
                for place in range(bound.shape[1] if kind == SNN and n == k else 0):
                    if bound[q, place] > threshold[q]:
                        break
                    o = first[cell[q, place]]
                    while o >= 0:
                        if position[o] > gone and number[o] >= since[q]:
                            find_costs(
                                family, sign, point, weight, column, boxed, floor, ceiling, gate, one, 1, x, o, priced
                            )
                            kept = priced[0] != threshold[q]
                            for i in range(n):
                                kept = kept or ref[q, i] == o
                            if not kept:
                                if n + 2 > cost.shape[1]:
                                    cost, pos, ref, mark = wider(cost), wider(pos), wider(ref), wider(mark)
                                at, n = add_strict(cost, pos, ref, mark, q, n, k, priced[0], position[o], o, time, key)
                                if at >= 0 and told[o, word] & bit:
                                    mark[q, at] |= 1
                        o = before[o]
                size[q] = n
                fullest = max(fullest, n)
                watch(q, threshold[q], bound, cell, reach, watching)
            if count + k > out_query.size:
                out_query, out_row = longer(out_query, count + k), longer(out_row, count + k)
                out_kind, out_at = longer(out_kind, count + k), longer(out_at, count + k)
                out_now, out_cost = longer(out_now, count + k), longer(out_cost, count + k)
            count = announce(
                cost, ref, mark, q, min(k, size[q]), changes, out_query, out_row, out_kind, out_at, out_now, out_cost,
                count, at_event, now,
            )  # fmt: skip
            for i in range(min(k, size[q])):
                told[ref[q, i], word] |= bit
            oldest = oldest_of(pos, q, size[q])
            if oldest != NOBODY and oldest + span_of[q] != due[q]:
                due[q] = oldest + span_of[q]
                if heap == heap_key.size:
                    heap_key, heap_row = longer(heap_key, heap + 1), longer(heap_row, heap + 1)
                heap = push(heap_key, heap_row, heap, due[q], q)
        e += not alone
    return (
        (cost, pos, ref, mark, size, limit, threshold, due, heap_key, heap_row, heap),
        (out_query[:count], out_row[:count], out_kind[:count], out_at[:count], out_now[:count], out_cost[:count]),
    )  # fmt: skip
