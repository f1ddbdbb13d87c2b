"""One pass over events for many queries, each with a scoring function and a k-skyband of its own.

Paper → code (Top-k/w):

- section 5, an object leaves the recent buffer and its filters → `expire_filters`
- section 5, its second attempt → `offer` with leaving
- algorithms 2 and 5, an object is dropped → `expire_windows`
- section 5, first attempt; algorithms 1 and 3 → `offer`
- section 6.1, query index, lazily kept → `KernelIndex`, `cell_of`, `who_watches`, `watch`
- section 6.1, scoring functions → `find_costs`, `find_costs_of`

At each event the steps come in this order. Only at their end is it reported who is among the best: a candidate whose
place the event takes never was.

Windows of time are *timed*: what leaves them does so at a moment of its own, before the next event comes, and who moves
up is reported then. So what is reported does not depend on events that are nobody's best.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.algorithms.topkw.band_kernels import (
    CPM,
    LEFT,
    NOBODY,
    PROBABLE,
    RELAXED,
    REPORT,
    SNN,
    STRICT,
    BandRows,
    add_probable,
    add_relaxed,
    add_strict,
    deepest,
    drop_any,
    drop_gone,
    drop_top,
    expiry_of,
    find_place,
    is_there,
    pop,
    push,
    report,
    report_entries,
    report_exits,
    touch,
    wider,
    with_room_for,
)
from skyband.compiled import inlined, jit

SUM, EUCLID, ATTRIBUTE, COLUMN = 0, 1, 2, 3
NONE = -1  # no filter
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)  # every six bits in a row are different: tells a lone bit's place
PLACES = np.zeros(64, np.int64)
PLACES[[(((1 << i) * 0x03F79D71B4CB0A89) & (2**64 - 1)) >> 58 for i in range(64)]] = np.arange(64)


class KernelFunctions(NamedTuple):
    """Per query: family, sign, point, weights, column; whether it has a box, and the box; the gate of its condition."""

    family: Any
    sign: Any
    point: Any
    weight: Any
    column: Any
    boxed: Any
    floor: Any
    ceiling: Any
    gate: Any


class KernelEvents(NamedTuple):
    """Events, one row each: attributes, place on the windows' axis, slot in the store, number of arrival.

    `time` and `key` are columns of the store, for ties.
    """

    x: Any
    position: Any
    slot: Any
    number: Any
    time: Any
    key: Any


class KernelIndex(NamedTuple):
    """The grid of queries; without cells every event goes to all queries.

    Low edges, widths, cells per dimension; per query the best possible cost of its cells, sorted, the cells, and how
    many of them it watches; per cell the queries that watch it, as bits.
    """

    low: Any
    step: Any
    cells: Any
    bound: Any
    cell: Any
    reach: Any
    watching: Any


class KernelMethod(NamedTuple):
    """What is kept.

    The kinds of bands and filters (or NONE); the buffer's length on the axis; the pruning coefficient; per query how
    many candidates a probabilistic band has at least, and a probabilistic band or filter at most; whether to report
    also who leaves, and who returns; whether what leaves does so at a moment of its own.
    """

    kind: Any
    filter_kind: Any
    buffer: Any
    share: Any
    least: Any
    most: Any
    changes: Any
    timed: Any


@inlined
def larger(a: Any, b: Any) -> Any:
    """Return the larger of two costs, NaN where one of them is: what is not known is nobody's best."""
    return b if b > a or b != b else a


@inlined
def is_shut(x: Any, e: Any, gate: Any) -> Any:
    """Tell whether an event fails a condition: its gate says in which column and bit that lies; -1 is no condition."""
    return gate >= 0 and (np.int64(x[e, gate >> 6]) >> (gate & 63)) & 1 == 0


@inlined
def with_attribute(kind: Any, cost: Any, w: Any, value: Any, p: Any) -> Any:
    """Return what an event costs with one attribute more, whose weight is not 0."""
    away = value - p
    if kind == EUCLID:
        cost += w * away * away
    elif kind == SUM:
        cost += w * value
    elif kind == ATTRIBUTE:
        cost = larger(cost, w * abs(away))
    return cost


@jit
def find_costs(
    family: Any, sign: Any, point: Any, weight: Any, column: Any, boxed: Any, floor: Any, ceiling: Any, gate: Any,
    q: Any, x: Any, begin: Any, end: Any, costs: Any,
) -> None:  # fmt: skip
    """Find what neighbouring events cost a query: scores, turned so that smaller is better.

    NaN where an event lies outside of the box that the query is about, or does not meet its condition. An attribute
    without weight does not matter, even where it is infinite. `find_costs_of` takes the same steps in the same order,
    with the loops turned: results are equal to the last bit.
    """
    kind, n = family[q], end - begin
    for j in range(n):
        costs[j] = x[begin + j, column[q]] if kind == COLUMN else 0.0
    for i in range(weight.shape[1]):
        w, p = weight[q, i], point[q, i]
        for j in range(n if w != 0.0 else 0):
            costs[j] = with_attribute(kind, costs[j], w, x[begin + j, i], p)
    for j in range(n):
        costs[j] = sign[q] * (np.sqrt(costs[j]) if kind == EUCLID else costs[j])
    for i in range(weight.shape[1] if boxed[q] else 0):
        for j in range(n):
            if not floor[q, i] <= x[begin + j, i] <= ceiling[q, i]:
                costs[j] = np.nan
    for j in range(n if gate[q] >= 0 else 0):
        if is_shut(x, begin + j, gate[q]):
            costs[j] = np.nan


@jit
def find_costs_of(functions: Any, who: Any, count: Any, x: Any, e: Any, costs: Any) -> None:
    """Find what an event costs the first of some queries; see `find_costs`."""
    family, sign, point, weight, column, boxed, floor, ceiling, gate = functions
    for turn in range(count):
        costs[turn] = x[e, column[who[turn]]] if family[who[turn]] == COLUMN else 0.0
    for i in range(weight.shape[1]):
        value = x[e, i]
        for turn in range(count):
            q = who[turn]
            if weight[q, i] != 0.0:
                costs[turn] = with_attribute(family[q], costs[turn], weight[q, i], value, point[q, i])
    for turn in range(count):
        q = who[turn]
        costs[turn] = sign[q] * (np.sqrt(costs[turn]) if family[q] == EUCLID else costs[turn])
        if boxed[q]:
            for i in range(weight.shape[1]):
                if not floor[q, i] <= x[e, i] <= ceiling[q, i]:
                    costs[turn] = np.nan
        if is_shut(x, e, gate[q]):
            costs[turn] = np.nan


@jit
def cell_of(x: Any, e: Any, low: Any, step: Any, cells: Any) -> Any:
    """Return the cell of the grid that an event lies in; those at the edges reach to infinity."""
    cell = 0
    for i in range(low.size):
        place = (x[e, i] - low[i]) / step[i]
        at = 0 if not place > 0.0 else cells - 1 if place >= cells else int(place)
        cell = cell * cells + at
    return cell


@jit
def who_watches(watching: Any, cell: Any, who: Any) -> Any:
    """List the queries that watch a cell; return how many there are."""
    count = 0
    for w in range(watching.shape[1]):
        bits = watching[cell, w]
        while bits != 0:
            lowest = bits & (~bits + np.uint64(1))
            who[count] = 64 * w + PLACES[(lowest * DE_BRUIJN) >> np.uint64(58)]
            count += 1
            bits ^= lowest
    return count


@jit
def watch(q: Any, threshold: Any, bound: Any, cell: Any, reach: Any, watching: Any) -> None:
    """Let a query watch all cells in which something may be as good as the threshold, and not many more.

    Its cells are sorted by the best cost that is possible in them; it watches the first `reach`. Re-indexing is lazy:
    cells are added when they must be, and given up only when half of them are in vain.
    """
    n = reach[q]
    word, bit = q >> 6, np.uint64(1) << np.uint64(q & 63)
    while n < bound.shape[1] and bound[q, n] <= threshold:
        watching[cell[q, n], word] |= bit
        n += 1
    if n > 2 and bound[q, n // 2] > threshold:
        while n > 0 and bound[q, n - 1] > threshold:
            n -= 1
            watching[cell[q, n], word] &= ~bit
    reach[q] = n


@inlined
def is_full(band: Any, fullest: Any, rows: Any) -> Any:
    """Tell whether a band needs more room; see `with_room`."""
    return fullest + 2 > band.cost.shape[1] or band.heap[0, 0] + rows >= band.heap.shape[1]


@jit
def with_room(band: Any, fullest: Any, rows: Any) -> Any:
    """Return a band with room for two more events in its fullest row, and for so many rows more in its heap."""
    cost, position, slot, mark, size, limit, threshold, next_expiry, heap = band
    if fullest + 2 > cost.shape[1]:
        cost, position, slot, mark = wider(cost), wider(position), wider(slot), wider(mark)
    while heap[0, 0] + rows >= heap.shape[1]:
        heap = wider(heap)
    return BandRows(cost, position, slot, mark, size, limit, threshold, next_expiry, heap)


@jit
def expire_filters(filters: Any, queries: Any, method: Any, index: Any, now: Any) -> None:
    """Remove from the filters what has left the buffer: a filter's candidates may stay until one is needed."""
    cost, position, slot, mark, size, _, threshold, next_expiry, heap = filters
    while heap[0, 0] > 0 and heap[0, 1] <= now:
        due, q = heap[0, 1], heap[1, 1]
        pop(heap)
        if due != next_expiry[q]:
            continue
        k, gone = queries.k[q], now - method.buffer
        if method.filter_kind == PROBABLE:
            size[q], threshold[q] = drop_any(cost, position, slot, mark, q, size[q], k, gone, 2, 1.0, threshold[q])
        else:
            size[q] = drop_top(cost, position, slot, mark, q, size[q], k, gone)
        next_expiry[q] = expiry_of(position, q, min(k, size[q]), method.buffer)
        if next_expiry[q] != NOBODY:
            push(heap, next_expiry[q], q)
        if index.cells > 0:
            worst = cost[q, k - 1] if size[q] >= k else np.inf
            watch(q, worst, index.bound, index.cell, index.reach, index.watching)


@jit
def expire_windows(
    band: Any, queries: Any, method: Any, index: Any, now: Any, at_event: Any, step: Any, touched: Any, reports: Any
) -> Any:  # fmt: skip
    """Remove from the bands what has left the windows: candidates move up. Return the reports, with more room."""
    cost, position, slot, mark, size, _, threshold, next_expiry, heap = band
    while heap[0, 0] > 0 and heap[0, 1] <= now:
        due, q = heap[0, 1], heap[1, 1]
        pop(heap)
        if due != next_expiry[q]:
            continue
        k, gone = queries.k[q], now - queries.span[q]
        if method.changes:
            reports = with_room_for(reports, k)
            report_exits(cost, position, slot, mark, q, min(k, size[q]), gone, reports, at_event, now)
        if method.kind == PROBABLE:
            size[q], threshold[q] = drop_any(
                cost, position, slot, mark, q, size[q], k, gone, method.least[q], 0.5, threshold[q]
            )
            next_expiry[q] = expiry_of(position, q, size[q], queries.span[q])
            if index.cells > 0 and method.filter_kind == NONE:
                watch(q, threshold[q], index.bound, index.cell, index.reach, index.watching)
        elif method.kind == CPM or method.kind == SNN:
            size[q] = drop_gone(cost, position, slot, mark, q, size[q], gone)
            next_expiry[q] = expiry_of(position, q, size[q], queries.span[q])
        else:
            size[q] = drop_top(cost, position, slot, mark, q, size[q], k, gone)
            next_expiry[q] = expiry_of(position, q, min(k, size[q]), queries.span[q])
        if next_expiry[q] != NOBODY:
            push(heap, next_expiry[q], q)
        touch(touched, step, q)
    return reports


@jit
def offer(
    events: Any, o: Any, leaving: Any, who: Any, count: Any, costs: Any, queries: Any, method: Any, index: Any,
    band: Any, filters: Any, dominators: Any, now: Any, at_event: Any, step: Any, touched: Any, reports: Any,
) -> Any:  # fmt: skip
    """Offer an event, one that comes or one that is `leaving` the buffer, to some queries, whom it costs so much.

    There is room for it in all rows, in the heaps and the reports: arrays that may change within the loop would slow it
    down many times. Return how many events the fullest row has that changed, of bands and of filters.
    """
    _, k_of, span_of, since = queries
    kind, filter_kind, buffer, share, _, most, changes, _ = method
    _, _, cells, bound, cell, reach, watching = index
    cost, position, slot, mark, size, limit, threshold, next_expiry, heap = band
    f_cost, f_position, f_slot, f_mark, f_size, f_limit, f_threshold, f_next_expiry, f_heap = filters
    time, key = events.time, events.key
    p, r, came = events.position[o], events.slot[o], events.number[o]
    fullest, f_fullest = np.int64(0), np.int64(0)
    indexed, filtered = cells > 0, filter_kind != NONE
    for turn in range(count):
        q, c = who[turn], costs[turn]
        k = k_of[q]
        if came < since[q] or p <= now - span_of[q] or c != c:
            continue
        if not filtered and kind == PROBABLE and c > threshold[q]:
            continue
        if filtered:
            n = f_size[q]
            wanted = n < k or c < f_cost[q, k - 1]
            if n >= k and c == f_cost[q, k - 1]:
                wanted = find_place(f_cost, f_slot, q, n, c, r, time, key) < k
            if leaving:
                if not wanted:
                    continue
                at = find_place(cost, slot, q, size[q], c, r, time, key)
                if is_there(cost, slot, q, at, c, r):  # it came in at the first attempt
                    continue
            elif filter_kind != PROBABLE or c <= f_threshold[q]:
                if filter_kind == STRICT:
                    at, f_size[q] = add_strict(f_cost, f_position, f_slot, f_mark, q, n, k, c, p, r, time, key)
                elif filter_kind == RELAXED:
                    at, f_size[q], f_limit[q] = add_relaxed(
                        f_cost, f_position, f_slot, f_mark, q, n, k, c, p, r, time, key, f_limit[q], share, dominators
                    )
                else:
                    at, f_size[q], f_threshold[q] = add_probable(
                        f_cost, f_position, f_slot, f_mark, q, n, k, c, p, r, time, key, most[q], f_threshold[q]
                    )
                f_fullest = max(f_fullest, f_size[q])
                if at >= 0 and at < k:
                    if p + buffer < f_next_expiry[q]:
                        f_next_expiry[q] = p + buffer
                        push(f_heap, f_next_expiry[q], q)
                    if indexed and f_size[q] >= k:
                        watch(q, f_cost[q, k - 1], bound, cell, reach, watching)
            if not wanted:
                continue
        n = size[q]
        kth, known, worst = np.int64(-1), np.int64(0), 0.0
        if n >= k:
            kth, known, worst = slot[q, k - 1], mark[q, k - 1] & 2, cost[q, k - 1]
        if kind == STRICT:
            at, size[q] = add_strict(cost, position, slot, mark, q, n, k, c, p, r, time, key)
        elif kind == RELAXED:
            at, size[q], limit[q] = add_relaxed(
                cost, position, slot, mark, q, n, k, c, p, r, time, key, limit[q], share, dominators
            )
        else:
            at, size[q], threshold[q] = add_probable(
                cost, position, slot, mark, q, n, k, c, p, r, time, key, most[q], threshold[q]
            )
        if at < 0:
            continue
        fullest = max(fullest, size[q])
        if indexed and kind == PROBABLE and size[q] - k >= most[q]:
            watch(q, threshold[q], bound, cell, reach, watching)
        if at < k:
            touch(touched, step, q)
            if known and changes:
                report(reports, q, kth, LEFT, at_event, now, worst)
                if size[q] > k and slot[q, k] == kth:
                    mark[q, k] &= ~2
        if (at < k or kind == PROBABLE) and p + span_of[q] < next_expiry[q]:
            next_expiry[q] = p + span_of[q]
            push(heap, next_expiry[q], q)
    return fullest, f_fullest


@jit
def pass_events(
    events: Any, begin: Any, moments: Any, functions: Any, queries: Any, method: Any, band: Any, filters: Any,
    index: Any,
) -> Any:  # fmt: skip
    """Take in events, in order, and report what enters (and leaves) the top k of each query.

    First come the events of the recent buffer, then, from `begin` on, the new ones. `moments` say up to where time has
    passed when each of the new events comes, and at the end.

    Return where the buffer begins, bands and filters, and the reports. These have the new event with which something
    happened, -1 where time alone passed, and the moment.
    """
    used, k_of = queries.used, queries.k
    filtered, indexed = method.filter_kind != NONE, index.cells > 0
    dominators = np.empty((2, deepest(used, k_of) + 1), np.int64)
    touched = np.full((k_of.size + 1, 2), -1)
    who, costs, reports = used.copy(), np.empty(used.size), np.zeros(1024, REPORT)
    fullest, f_fullest = band.size.max(), filters.size.max()
    last = events.position.size
    head, e, step = 0, begin, 0
    while e <= last:
        now = moments[e - begin]
        heap = band.heap
        alone = method.timed and heap[0, 0] > 0 and heap[0, 1] <= now  # something leaves first, at its own moment
        now = heap[0, 1] if alone else now
        at_event = e - begin if e < last and not alone else -1
        step += 1
        touched[0, 0] = 0
        if filtered and filters.heap[0, 0] > 0 and filters.heap[0, 1] <= now:
            expire_filters(filters, queries, method, index, now)
        while True:
            leaving = filtered and head < min(e, last) and events.position[head] <= now - method.buffer
            if not leaving and heap[0, 0] > 0 and heap[0, 1] <= now:
                reports = expire_windows(band, queries, method, index, now, at_event, step, touched, reports)
            if not leaving and at_event < 0:
                break
            o = head if leaving else e
            if is_full(band, fullest, used.size):  # calls with whole bands take longer than these checks
                band = with_room(band, fullest, used.size)
                heap = band.heap
            if is_full(filters, f_fullest, used.size):
                filters = with_room(filters, f_fullest, used.size)
            reports = with_room_for(reports, used.size)
            count = used.size
            if indexed:
                count = who_watches(index.watching, cell_of(events.x, o, index.low, index.step, index.cells), who)
            find_costs_of(functions, who, count, events.x, o, costs)
            full, f_full = offer(
                events, o, leaving, who, count, costs, queries, method, index, band, filters, dominators, now,
                at_event, step, touched, reports,
            )  # fmt: skip
            fullest, f_fullest = max(fullest, full), max(f_fullest, f_full)
            if not leaving:
                break
            head += 1
        for turn in range(1, touched[0, 0] + 1):
            q = touched[turn, 0]
            reports = with_room_for(reports, k_of[q])
            n = min(k_of[q], band.size[q])
            report_entries(band.cost, band.slot, band.mark, q, n, method.changes, reports, at_event, now)
        e += not alone
    return head, band, filters, reports[1 : reports[0]["row"] + 1]
