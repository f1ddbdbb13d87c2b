"""One block of events for many queries at once, query by query instead of event by event.

The events of the last two blocks lie in k-d trees, one per *segment*: columns in which the events of a node are
neighbours, and boxes around the nodes. For each query a threshold is found that holds for the whole block: the k-th
best of what it has now and will still have at the end. Only events within it can be among the best before the block
ends, and few are. These are replayed in order, so each event is reported when it enters, as if it had come alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.topkw.band_kernels import (
    LEFT,
    NOBODY,
    drop_top,
    expiry_of,
    find_place,
    keep,
    prune,
    push,
    put,
    replace_top,
    report,
    report_entries,
    report_exits,
)
from skyband.algorithms.topkw.event_kernels import find_costs
from skyband.algorithms.topkw.tree_kernels import DEEP, MANY, search
from skyband.compiled import jit

FEW = 24  # so many new events are looked at one by one
CROWD = 512  # where more recent events would come into a row at once, time passes in smaller steps
DONE, REPORTS, ROOM = 0, 1, 2


# Events.


@jit
def lasting(cost: Any, pos: Any, q: Any, size: Any, k: Any, gone: Any) -> Any:
    """Return the cost of the k-th in a row that lies behind a position; infinite where there are fewer."""
    left, tau = k, np.inf
    for i in range(size):
        left -= pos[q, i] > gone
        if left == 0:
            tau = cost[q, i]
            break
    return tau


@jit
def scan(
    family: Any, sign: Any, point: Any, weight: Any, column: Any, boxed: Any, floor: Any, ceiling: Any, gate: Any,
    q: Any, k: Any, x: Any, begin: Any, position: Any, gone: Any, best: Any, held: Any, found: Any, costs: Any,
    leaf: Any,
) -> Any:  # fmt: skip
    """Find the events, in order, that may be among the best while they are the last; return how many there are.

    k that came before and lie behind a position do not dominate these. `best` has the costs of those known so far.
    """
    n = np.int64(0)
    while begin < position.size:
        some = min(leaf.size, position.size - begin)
        find_costs(family, sign, point, weight, column, boxed, floor, ceiling, gate, q, x, begin, begin + some, leaf)
        for j in range(some):
            c = leaf[j]
            if (held == k and c > best[k - 1]) or c != c:
                continue
            found[n], costs[n] = begin + j, c
            n += 1
            if position[begin + j] > gone:
                i = held if held < k else k - 1
                while i > 0 and best[i - 1] > c:
                    best[i] = best[i - 1]
                    i -= 1
                best[i] = c
                held = min(held + 1, k)
        begin += some
    return n


@jit
def come_in(
    cost: Any, pos: Any, ref: Any, mark: Any, q: Any, size: Any, c: Any, p: Any, r: Any, time: Any, key: Any
) -> Any:  # fmt: skip
    """Put an event into a row if it is not in it; return its place (-1: it was there), and the new size."""
    place = find_place(cost, ref, q, size, c, r, time, key)
    i = place
    while i > 0 and cost[q, i - 1] == c:
        i -= 1
        if ref[q, i] == r:
            return np.int64(-1), size
    put(cost, pos, ref, mark, q, size, place, c, p, r, 0)
    return place, size + 1


@jit
def sort_events(events: Any, costs: Any, n: Any) -> None:
    """Sort the first n events, and what they cost, by number."""
    gap = n // 2 if n > FEW else 1
    while gap > 0:
        for i in range(gap, n):
            e, c = events[i], costs[i]
            at = i
            while at >= gap and events[at - gap] > e:
                events[at], costs[at] = events[at - gap], costs[at - gap]
                at -= gap
            events[at], costs[at] = e, c
        gap = gap * 4 // 9 if gap > 2 else gap - 1


@jit
def halfway(ages: Any, gone: Any, leaving: Any) -> Any:
    """Return up to which position half of the recent events leave that lie between two positions."""
    begin, end = np.searchsorted(ages, gone, side="right"), np.searchsorted(ages, leaving, side="right")
    return leaving if end - begin <= CROWD else ages[(begin + end) // 2]


@jit
def within(costs: Any, n: Any, tau: Any) -> Any:
    """Return how many of the first n costs are within a threshold."""
    count = 0
    for i in range(n):
        count += costs[i] <= tau
    return count


@jit
def pass_block(
    events: Any, moments: Any, timed: Any, now: Any, first: Any, functions: Any, queries: Any, band: Any, recent: Any,
    trees: Any, turn: Any, until: Any, done: Any, passed: Any, changes: Any, reports: Any,
) -> Any:  # fmt: skip
    """Take in events that lie in the last segment, for some of the queries.

    Parameters
    ----------
    events
        The new ones, in order of arrival.
    moments, timed
        Up to where time has passed when each of them comes, and at the end; as for `pass_events`.
    now, first
        Up to where time had passed before; the number of the first event.
    functions, queries, band
        As for `pass_events`.
    recent, trees
        All events of the last blocks, in the order of their trees; boxes of the nodes, and the segments, of which the
        last has the new events.
    turn, until, done, passed
        Which queries, as places in the list of rows in use; how many events the first of them has seen already, and up
        to where time has passed for it.
    changes, reports
        Whether to report also who leaves and who returns; the list of reports.

    Returns
    -------
    Why it stopped; the query to go on with, how many events it has seen, up to where time has passed for it.
    """
    family, sign, point, weight, column, boxed, floor, ceiling, gate = functions
    used, k_of, span_of, since = queries
    cost, pos, ref, mark, sizes, _, _, due, _ = band
    x, position, slot, _, _, _ = events
    raw_x, raw_position, raw_slot, raw_number, time, key = recent
    low, high, segments = trees
    last, end, room, fresh = moments.size - 1, moments[moments.size - 1], cost.shape[1], segments.shape[0]
    stack, bounds, leaf = np.empty((DEEP, 3), np.int64), np.empty(DEEP), np.empty(MANY)
    found, costs = np.empty(raw_position.size, np.int64), np.empty(raw_position.size)
    top = np.int64(1)
    for i in range(used.size):
        top = max(top, k_of[used[i]])
    best, places, dominators = np.empty(top), np.empty(top, np.int64), np.empty((2, top + 1), np.int64)
    border = NOBODY  # events with slots from here on lie in the segments
    for i in range(raw_slot.size):
        border = min(border, raw_slot[i])
    ages = np.sort(raw_position)
    while turn < until:
        q = used[turn]
        k, span, size, stop = k_of[q], span_of[q], sizes[q], end
        # The threshold of the block; where something leaves, what may take its place comes into the row first.
        if due[q] > end:
            tau = cost[q, k - 1] if size >= k else np.inf
        else:
            n, crowded = np.int64(0), True
            while crowded:
                held = np.int64(0)
                for i in range(size):
                    if held < k and pos[q, i] > stop - span and ref[q, i] < border:
                        best[held] = cost[q, i]
                        held += 1
                tau, n = best[k - 1] if held == k else np.inf, np.int64(0)
                for s in range(fresh - 1):
                    tau, held, n = search(
                        family, sign, point, weight, column, boxed, floor, ceiling, gate, q, k, tau, raw_x,
                        raw_position, raw_number, low, high, segments[s], since[q], passed - span, stop - span, best,
                        places, held, found, costs, n, stack, bounds, leaf,
                    )  # fmt: skip
                sooner = halfway(ages, passed - span, stop - span) + span
                crowded = timed and sooner < stop and within(costs, n, tau) > CROWD
                if crowded:
                    stop = sooner
            if size + n >= room:
                size = sizes[q] = prune(cost, pos, ref, mark, q, size, k, dominators)
                if size + n >= room:
                    return ROOM, turn, done, passed
            for i in range(n):
                if costs[i] <= tau:
                    p, r = raw_position[found[i]], raw_slot[found[i]]
                    _, size = come_in(cost, pos, ref, mark, q, size, costs[i], p, r, time, key)
            sizes[q] = size
            tau = lasting(cost, pos, q, size, k, stop - span)
        # The new events within it, in order of arrival.
        begin, behind = max(done, since[q] - first), position.size
        if stop < end:
            behind = np.searchsorted(moments[:last], stop, side="right")
        if (tau == np.inf and not boxed[q]) or position.size <= FEW:
            held = np.int64(0)
            for i in range(size):
                if held < k and pos[q, i] > stop - span:
                    best[held] = cost[q, i]
                    held += 1
            n = scan(
                family, sign, point, weight, column, boxed, floor, ceiling, gate, q, k, x, begin, position[:behind],
                stop - span, best, held, found, costs, leaf,
            )  # fmt: skip
        else:
            _, _, n = search(
                family, sign, point, weight, column, boxed, floor, ceiling, gate, q, np.int64(0), tau, raw_x,
                raw_position, raw_number, low, high, segments[fresh - 1], first + begin, -NOBODY, NOBODY, best,
                places, np.int64(0), found, costs, np.int64(0), stack, bounds, leaf,
            )  # fmt: skip
            come = np.int64(0)
            for i in range(n):
                e = raw_number[found[i]] - first
                if e < behind:
                    found[come], costs[come] = e, costs[i]
                    come += 1
            n = come
            sort_events(found, costs, n)
        # The replay: what leaves, leaves first, and who takes a place for a moment only is not reported.
        at_event = 0
        while at_event < n or due[q] <= stop:
            e = found[at_event] if at_event < n else last
            leaves = due[q] <= moments[e]
            if leaves:
                e = np.searchsorted(moments, due[q])
            if reports[0]["row"] + 2 * k + 1 >= reports.size:
                return REPORTS, turn, e, passed
            if size + 1 >= room:
                size = sizes[q] = prune(cost, pos, ref, mark, q, size, k, dominators)
                if size + 1 >= room:
                    return ROOM, turn, e, passed
            alone = leaves and timed  # at its own moment
            passed = due[q] if alone else moments[e]
            gone, at = passed - span, -1 if alone or e == last else e
            if leaves:
                if changes:
                    report_exits(cost, pos, ref, mark, q, min(k, size), gone, reports, at, passed)
                size = drop_top(cost, pos, ref, mark, q, size, k, gone)
            if not alone and at_event < n and found[at_event] == e:
                c, p, r = costs[at_event], position[found[at_event]], slot[found[at_event]]
                at_event += 1
                if p > gone:
                    kth = np.int64(-1)
                    if size >= k and mark[q, k - 1] & 2:
                        kth = ref[q, k - 1]
                    place, size = come_in(cost, pos, ref, mark, q, size, c, p, r, time, key)
                    if place < k and kth >= 0 and changes:
                        report(reports, q, kth, LEFT, at, passed, cost[q, k])
                        mark[q, k] &= ~2
            due[q] = expiry_of(pos, q, min(k, size), span)
            report_entries(cost, ref, mark, q, min(k, size), changes, reports, at, passed)
            sizes[q] = size
        if stop < end:  # the same query goes on from there
            done, passed = behind, stop
            continue
        turn += 1
        done, passed = 0, now
    return DONE, turn, done, passed


# Blocks.


@jit
def prune_among(
    cost: Any, pos: Any, ref: Any, mark: Any, q: Any, size: Any, k: Any, costs: Any, places: Any, n: Any, border: Any,
    dominators: Any,
) -> Any:  # fmt: skip
    """Drop from a row what is dominated k times, by others in it or by the n best of a block; return the new size.

    Events of the block itself, whose slots lie at or behind the border, do not count a second time.
    """
    kept, at = np.int64(0), np.int64(0)
    dominators[0, 0] = 0
    for i in range(size):
        while at < n and costs[at] < cost[q, i]:
            dominate(dominators, k, places[at])
            at += 1
        if dominators[0, 0] == k and pos[q, i] <= dominators[0, 1]:
            continue
        if ref[q, i] < border:
            dominate(dominators, k, pos[q, i])
        keep(cost, pos, ref, mark, q, i, kept)
        kept += 1
    return kept


@jit
def dominate(dominators: Any, k: Any, position: Any) -> None:
    """Put a position among the k latest."""
    if dominators[0, 0] < k:
        push(dominators, position, 0)
    elif position > dominators[0, 1]:
        replace_top(dominators, position, 0)


@jit
def fold(
    functions: Any, queries: Any, band: Any, recent: Any, trees: Any, before: Any, now: Any, turn: Any, until: Any
) -> Any:  # fmt: skip
    """Let events of the block before the last, of so many segments, come into rows where they may still matter.

    What k events of the last block dominate has no future. Returns why it stopped, and the query to go on with.
    """
    family, sign, point, weight, column, boxed, floor, ceiling, gate = functions
    used, k_of, span_of, since = queries
    cost, pos, ref, mark, sizes, _, _, _, _ = band
    raw_x, raw_position, raw_slot, raw_number, time, key = recent
    low, high, segments = trees
    room = cost.shape[1]
    stack, bounds, leaf = np.empty((DEEP, 3), np.int64), np.empty(DEEP), np.empty(MANY)
    found, costs = np.empty(raw_position.size, np.int64), np.empty(raw_position.size)
    top = np.int64(1)
    for i in range(used.size):
        top = max(top, k_of[used[i]])
    best, places, dominators = np.empty(top), np.empty(top, np.int64), np.empty((2, top + 1), np.int64)
    latest, border = -NOBODY, NOBODY
    if before > 0:
        latest = raw_position[: segments[before - 1, 2]].max()
    if segments.shape[0] > before:
        border = raw_slot[segments[before, 0] : segments[segments.shape[0] - 1, 2]].min()
    while turn < until:
        q = used[turn]
        k, span, size = k_of[q], span_of[q], sizes[q]
        kept = np.int64(0)
        for i in range(size):
            if pos[q, i] > now - span:
                keep(cost, pos, ref, mark, q, i, kept)
                kept += 1
        size = kept
        after = max(latest - 1, now - span)
        dominated = np.int64(0)
        tau, n = np.inf, np.int64(0)
        for s in range(before, segments.shape[0]):
            tau, dominated, n = search(
                family, sign, point, weight, column, boxed, floor, ceiling, gate, q, k, tau, raw_x, raw_position,
                raw_number, low, high, segments[s], since[q], after, after, best, places, dominated, found, costs, n,
                stack, bounds, leaf,
            )  # fmt: skip
        n = np.int64(0)
        for s in range(before):
            _, _, n = search(
                family, sign, point, weight, column, boxed, floor, ceiling, gate, q, np.int64(0), tau, raw_x,
                raw_position, raw_number, low, high, segments[s], since[q], now - span, NOBODY, best, places, dominated,
                found, costs, n, stack, bounds, leaf,
            )  # fmt: skip
        if size + n >= room:
            size = prune_among(cost, pos, ref, mark, q, size, k, best, places, dominated, border, dominators)
            if size + n >= room:
                sizes[q] = size
                return ROOM, turn
        for i in range(n):
            p, r = raw_position[found[i]], raw_slot[found[i]]
            _, size = come_in(cost, pos, ref, mark, q, size, costs[i], p, r, time, key)
        sizes[q] = prune_among(cost, pos, ref, mark, q, size, k, best, places, dominated, border, dominators)
        turn += 1
    return DONE, turn
