"""One pass over events for many queries, each with a scoring function and a k-skyband of its own.

At each event, in this order: what leaves the recent buffer leaves the filters and makes its second attempt; what leaves
the windows is dropped, and candidates move up; then the event itself is offered to the queries that the index names for
its cell, or to all. Only then is it told who is among the best: a candidate whose place the event takes never was.

Windows of time are *timed*: what leaves them does so at a moment of its own, before the next event comes, and whoever
moves up is told then. So what is reported does not depend on events that are nobody's best.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.topkw.band_kernels import (
    ENTERED,
    LEFT,
    NOBODY,
    PROBABLE,
    RELAXED,
    RETURNED,
    STRICT,
    add_probable,
    add_relaxed,
    add_strict,
    drop_any,
    drop_top,
    find_place,
    oldest_of,
)
from skyband.compiled import inlined, jit

SUM, EUCLID, ATTRIBUTE, COLUMN = 0, 1, 2, 3
NONE = -1  # no filter
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)  # every six bits in a row are different: tells a lone bit's place
PLACES = np.zeros(64, np.int64)
PLACES[[(((1 << i) * 0x03F79D71B4CB0A89) & (2**64 - 1)) >> 58 for i in range(64)]] = np.arange(64)


@inlined
def larger(a: Any, b: Any) -> Any:
    """Return the larger of two costs, NaN where one of them is: what is not known is nobody's best."""
    return b if b > a or b != b else a


@inlined
def is_shut(x: Any, e: Any, gate: Any) -> Any:
    """Tell whether an event fails a condition: its gate says in which column and bit that lies; -1 is no condition."""
    return gate >= 0 and (np.int64(x[e, gate >> 6]) >> (gate & 63)) & 1 == 0


@jit
def find_costs(
    family: Any, sign: Any, point: Any, weight: Any, column: Any, boxed: Any, floor: Any, ceiling: Any, gate: Any,
    who: Any, count: Any, x: Any, e: Any, costs: Any,
) -> None:  # fmt: skip
    """Find the costs of an event for the first of some queries: scores, turned so that smaller is better.

    NaN where the event lies outside of the box that a query is about, or does not meet its condition. An attribute
    without weight does not matter, even where it is infinite.
    """
    for turn in range(count):
        costs[turn] = 0.0
    for i in range(weight.shape[1]):
        at = x[e, i]
        for turn in range(count):
            q = who[turn]
            w, away = weight[q, i], at - point[q, i]
            if w == 0.0:
                continue
            if family[q] == EUCLID:
                costs[turn] += w * away * away
            elif family[q] == SUM:
                costs[turn] += w * at
            elif family[q] == ATTRIBUTE:
                costs[turn] = larger(costs[turn], w * abs(away))
    for turn in range(count):
        q = who[turn]
        if family[q] == EUCLID:
            costs[turn] = np.sqrt(costs[turn])
        elif family[q] == COLUMN:
            costs[turn] = x[e, column[q]]
        costs[turn] *= sign[q]
        if boxed[q]:
            for i in range(weight.shape[1]):
                if not floor[q, i] <= x[e, i] <= ceiling[q, i]:
                    costs[turn] = np.nan
        if is_shut(x, e, gate[q]):
            costs[turn] = np.nan


@jit
def find_all_costs(functions: Any, who: Any, x: Any) -> Any:
    """Return the costs of events, a row each, for some queries, a column each; see `find_costs`."""
    family, sign, point, weight, column, boxed, floor, ceiling, gate = functions
    costs = np.empty((x.shape[0], who.size))
    for e in range(x.shape[0]):
        find_costs(family, sign, point, weight, column, boxed, floor, ceiling, gate, who, who.size, x, e, costs[e])
    return costs


@jit
def push(keys: Any, rows: Any, n: Any, key: Any, row: Any) -> Any:
    """Put a row into the heap of those that something leaves, the next on top; return the heap's new size."""
    i = n
    while i > 0 and keys[(i - 1) // 2] > key:
        keys[i], rows[i] = keys[(i - 1) // 2], rows[(i - 1) // 2]
        i = (i - 1) // 2
    keys[i], rows[i] = key, row
    return n + 1


@jit
def pop(keys: Any, rows: Any, n: Any) -> Any:
    """Take the top off the heap; return its new size."""
    n -= 1
    key, row = keys[n], rows[n]
    i = 0
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[i], rows[i] = keys[child], rows[child]
        i = child
    keys[i], rows[i] = key, row
    return n


@jit
def longer(column: Any, size: Any) -> Any:
    """Return a column with more room: twice what is needed."""
    new = np.empty(2 * size, column.dtype)
    new[: column.size] = column
    return new


@jit
def wider(rows: Any) -> Any:
    """Return rows with twice the room each."""
    new = np.empty((rows.shape[0], 2 * rows.shape[1]), rows.dtype)
    new[:, : rows.shape[1]] = rows
    return new


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


@jit
def announce(
    cost: Any, ref: Any, mark: Any, q: Any, n: Any, changes: Any, out_query: Any, out_ref: Any, out_kind: Any,
    out_at: Any, out_now: Any, out_cost: Any, told: Any, e: Any, now: Any,
) -> Any:  # fmt: skip
    """Report those of the first n of a row that are not known to be there yet; return how many reports there are."""
    for i in range(n):
        if mark[q, i] & 2 == 0:
            if changes or mark[q, i] & 1 == 0:
                out_kind[told] = RETURNED if mark[q, i] & 1 else ENTERED
                out_query[told], out_ref[told], out_at[told], out_now[told] = q, ref[q, i], e, now
                out_cost[told] = cost[q, i]
                told += 1
            mark[q, i] |= 3
    return told


@jit
def pass_events(
    x: Any, position: Any, slot: Any, number: Any, head: Any, begin: Any, moments: Any, timed: Any, time: Any, key: Any,
    functions: Any, queries: Any, kinds: Any, settings: Any, band: Any, strainer: Any, grid: Any, changes: Any,
) -> Any:  # fmt: skip
    """Take in events, in order, and report what enters (and, with `changes`, leaves) the top k of each query.

    Parameters
    ----------
    x, position, slot, number
        Events, one row each: attributes, place on the windows' axis, slot in the arena, number of arrival. First those
        in the recent buffer, then the new ones.
    head, begin, moments, timed
        Where the buffer begins, and the new events; up to where time has passed when each of these comes, and at the
        end; whether what leaves does so at a moment of its own.
    time, key
        Columns of the arena.
    functions
        Per query: family, sign, point, weights, column; whether it has a box, and the box; the gate of its condition.
    queries
        Which rows are in use; per row: k, size of the window, number of the first event that it sees.
    kinds
        The kind of the query bands, and of the filters (or NONE).
    settings
        Length of the buffer on the axis; pruning coefficient; per query how many candidates a probabilistic band, or
        filter, has at least and at most.
    band, strainer
        Bands of the queries and the filters: cost, pos, ref, mark, size, limit, threshold, when something leaves next;
        the heap of that, as keys, rows and how many there are.
    grid
        Low edges, widths, cells per dimension; per query the best possible cost of its cells, sorted, the cells, how
        many it watches; per cell the queries that watch it, as bits. No cells: every event goes to all queries.
    changes
        Whether to report also who leaves, and who returns.

    Reports have the new event with which something happened, -1 where time alone passed, and the moment.
    """
    family, sign, point, weight, column, boxed, floor, ceiling, gate = functions
    used, k_of, span_of, since = queries
    kind, filter_kind = kinds
    buffered, share, least, most = settings
    cost, pos, ref, mark, size, limit, threshold, due, heap_key, heap_row, heap = band
    f_cost, f_pos, f_ref, f_mark, f_size, f_limit, f_threshold, f_due, f_heap_key, f_heap_row, f_heap = strainer
    low, step, cells, bound, cell, reach, watching = grid
    indexed = cells > 0
    top = np.int64(1)
    for i in range(used.size):
        top = max(top, k_of[used[i]])
    dominators = np.empty(top, np.int64)
    who, costs = used.copy(), np.empty(used.size)
    touched, touched_at = np.empty(k_of.size, np.int64), np.full(k_of.size, -1)
    fullest, f_fullest = size.max(), f_size.max()
    told = 0
    out_query, out_slot, out_kind = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024, np.int64)
    out_at, out_now, out_cost = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024)
    last = position.size
    e, steps = begin, 0
    while e <= last:
        now = moments[e - begin]
        alone = timed and heap > 0 and heap_key[0] <= now  # something leaves first, at its own moment
        now = heap_key[0] if alone else now
        at_event = e - begin if e < last and not alone else -1
        steps += 1
        moved = 0
        # What leaves the buffer leaves the filters,
        while f_heap > 0 and f_heap_key[0] <= now:
            q, at = f_heap_row[0], f_heap_key[0]
            f_heap = pop(f_heap_key, f_heap_row, f_heap)
            if at != f_due[q]:
                continue
            k = k_of[q]
            gone = now - buffered
            if filter_kind == PROBABLE:
                f_size[q], f_threshold[q] = drop_any(
                    f_cost, f_pos, f_ref, f_mark, q, f_size[q], k, gone, 2, 1.0, f_threshold[q]
                )
            else:
                f_size[q] = drop_top(f_cost, f_pos, f_ref, f_mark, q, f_size[q], k, gone)
            oldest = oldest_of(f_pos, q, min(k, f_size[q]))  # a filter's candidates may stay until one is needed
            f_due[q] = NOBODY if oldest == NOBODY else oldest + buffered
            if oldest != NOBODY:
                f_heap = push(f_heap_key, f_heap_row, f_heap, f_due[q], q)
            if indexed:
                watch(q, f_cost[q, k - 1] if f_size[q] >= k else np.inf, bound, cell, reach, watching)
        while True:
            # and makes its second attempt: what k others in the filter beat has no future.
            leaving = filter_kind != NONE and head < min(e, last) and position[head] <= now - buffered
            if leaving:
                o = head
                head += 1
            else:
                o = e
                # What leaves the windows is dropped, and candidates move up.
                while heap > 0 and heap_key[0] <= now:
                    q, at = heap_row[0], heap_key[0]
                    heap = pop(heap_key, heap_row, heap)
                    if at != due[q]:
                        continue
                    k, gone = k_of[q], now - span_of[q]
                    if changes:
                        if told + k > out_query.size:
                            out_query, out_slot = longer(out_query, told + k), longer(out_slot, told + k)
                            out_kind, out_at = longer(out_kind, told + k), longer(out_at, told + k)
                            out_now, out_cost = longer(out_now, told + k), longer(out_cost, told + k)
                        for i in range(min(k, size[q])):
                            if pos[q, i] <= gone:
                                out_query[told], out_slot[told], out_kind[told] = q, ref[q, i], LEFT
                                out_at[told], out_now[told], out_cost[told] = at_event, now, cost[q, i]
                                told += 1
                    if kind == PROBABLE:
                        size[q], threshold[q] = drop_any(
                            cost, pos, ref, mark, q, size[q], k, gone, least[q], 0.5, threshold[q]
                        )
                        oldest = oldest_of(pos, q, size[q])
                    else:
                        size[q] = drop_top(cost, pos, ref, mark, q, size[q], k, gone)
                        oldest = oldest_of(pos, q, min(k, size[q]))
                    if touched_at[q] != steps:
                        touched_at[q] = steps
                        touched[moved] = q
                        moved += 1
                    due[q] = NOBODY if oldest == NOBODY else oldest + span_of[q]
                    if oldest != NOBODY:
                        heap = push(heap_key, heap_row, heap, due[q], q)
                    if indexed and filter_kind == NONE and kind == PROBABLE:
                        watch(q, threshold[q], bound, cell, reach, watching)
            if o == last or (alone and not leaving):
                break
            # The event in hand (one that leaves the buffer, or the new one) goes to those who may want it. Room is made
            # before: arrays that may change within the loop below would slow it down many times.
            if fullest + 2 > cost.shape[1]:
                cost, pos, ref, mark = wider(cost), wider(pos), wider(ref), wider(mark)
            if f_fullest + 2 > f_cost.shape[1]:
                f_cost, f_pos, f_ref, f_mark = wider(f_cost), wider(f_pos), wider(f_ref), wider(f_mark)
            if heap + used.size > heap_key.size:
                heap_key, heap_row = longer(heap_key, heap + used.size), longer(heap_row, heap + used.size)
            if f_heap + used.size > f_heap_key.size:
                f_heap_key = longer(f_heap_key, f_heap + used.size)
                f_heap_row = longer(f_heap_row, f_heap + used.size)
            if told + used.size > out_query.size:
                out_query, out_slot = longer(out_query, told + used.size), longer(out_slot, told + used.size)
                out_kind, out_at = longer(out_kind, told + used.size), longer(out_at, told + used.size)
                out_now, out_cost = longer(out_now, told + used.size), longer(out_cost, told + used.size)
            count = used.size
            if indexed:
                count = who_watches(watching, cell_of(x, o, low, step, cells), who)
            find_costs(family, sign, point, weight, column, boxed, floor, ceiling, gate, who, count, x, o, costs)
            p, r, came = position[o], slot[o], number[o]
            for turn in range(count):
                q, c = who[turn], costs[turn]
                k = k_of[q]
                if came < since[q] or p <= now - span_of[q] or c != c:
                    continue
                if filter_kind == NONE and kind == PROBABLE and c > threshold[q]:
                    continue
                if filter_kind != NONE:
                    n = f_size[q]
                    wanted = n < k or c < f_cost[q, k - 1]
                    if n >= k and c == f_cost[q, k - 1]:
                        wanted = find_place(f_cost, f_ref, q, n, c, r, time, key) < k
                    if not leaving and (filter_kind != PROBABLE or c <= f_threshold[q]):
                        if filter_kind == STRICT:
                            at, f_size[q] = add_strict(f_cost, f_pos, f_ref, f_mark, q, n, k, c, p, r, time, key)
                        elif filter_kind == RELAXED:
                            at, f_size[q], f_limit[q] = add_relaxed(
                                f_cost, f_pos, f_ref, f_mark, q, n, k, c, p, r, time, key, f_limit[q], share,
                                dominators,
                            )  # fmt: skip
                        else:
                            at, f_size[q], f_threshold[q] = add_probable(
                                f_cost, f_pos, f_ref, f_mark, q, n, k, c, p, r, time, key, most[q], f_threshold[q]
                            )
                        f_fullest = max(f_fullest, f_size[q])
                        if at >= 0 and at < k and p + buffered < f_due[q]:
                            f_due[q] = p + buffered
                            f_heap = push(f_heap_key, f_heap_row, f_heap, f_due[q], q)
                        if indexed and at >= 0 and at < k and f_size[q] >= k:
                            watch(q, f_cost[q, k - 1], bound, cell, reach, watching)
                    elif leaving and wanted:
                        at = find_place(cost, ref, q, size[q], c, r, time, key)
                        while at > 0 and cost[q, at - 1] == c:
                            wanted = wanted and ref[q, at - 1] != r  # it came in at the first attempt
                            at -= 1
                    if not wanted:
                        continue
                n = size[q]
                kth, known, worst = np.int64(-1), np.int64(0), 0.0
                if n >= k:
                    kth, known, worst = ref[q, k - 1], mark[q, k - 1] & 2, cost[q, k - 1]
                if kind == STRICT:
                    at, size[q] = add_strict(cost, pos, ref, mark, q, n, k, c, p, r, time, key)
                elif kind == RELAXED:
                    at, size[q], limit[q] = add_relaxed(
                        cost, pos, ref, mark, q, n, k, c, p, r, time, key, limit[q], share, dominators
                    )
                else:
                    at, size[q], threshold[q] = add_probable(
                        cost, pos, ref, mark, q, n, k, c, p, r, time, key, most[q], threshold[q]
                    )
                    if indexed and at >= 0 and size[q] - k >= most[q]:
                        watch(q, threshold[q], bound, cell, reach, watching)
                if at < 0:
                    continue
                fullest = max(fullest, size[q])
                if at < k:
                    if touched_at[q] != steps:
                        touched_at[q] = steps
                        touched[moved] = q
                        moved += 1
                    if known and changes:
                        out_query[told], out_slot[told], out_kind[told] = q, kth, LEFT
                        out_at[told], out_now[told], out_cost[told] = at_event, now, worst
                        told += 1
                        if size[q] > k and ref[q, k] == kth:
                            mark[q, k] &= ~2
                if (at < k or kind == PROBABLE) and p + span_of[q] < due[q]:
                    due[q] = p + span_of[q]
                    heap = push(heap_key, heap_row, heap, due[q], q)
            if not leaving:
                break
        for turn in range(moved):
            q = touched[turn]
            k = k_of[q]
            if told + k > out_query.size:
                out_query, out_slot = longer(out_query, told + k), longer(out_slot, told + k)
                out_kind, out_at = longer(out_kind, told + k), longer(out_at, told + k)
                out_now, out_cost = longer(out_now, told + k), longer(out_cost, told + k)
            told = announce(
                cost, ref, mark, q, min(k, size[q]), changes, out_query, out_slot, out_kind, out_at, out_now, out_cost,
                told, at_event, now,
            )  # fmt: skip
        e += not alone
    return (
        head, (cost, pos, ref, mark, size, limit, threshold, due, heap_key, heap_row, heap),
        (f_cost, f_pos, f_ref, f_mark, f_size, f_limit, f_threshold, f_due, f_heap_key, f_heap_row, f_heap),
        (out_query[:told], out_slot[:told], out_kind[:told], out_at[:told], out_now[:told], out_cost[:told]),
    )  # fmt: skip
