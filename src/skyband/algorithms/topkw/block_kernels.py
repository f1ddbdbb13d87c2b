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
    deepest,
    drop_gone,
    drop_top,
    expiry_of,
    find_place,
    is_there,
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
from skyband.algorithms.topkw.tree_kernels import DEEP, MANY, put_best, search
from skyband.compiled import inlined, jit

FEW = 24  # so many new events are looked at one by one
CROWD = 512  # where more recent events would come into a row at once, time passes in smaller steps
DONE, REPORTS, ROOM = 0, 1, 2


# Events.


@inlined
def list_lasting(cost: Any, pos: Any, q: Any, size: Any, k: Any, gone: Any, best: Any) -> Any:
    """List the costs of the k best in a row that lie behind a position; return how many there are."""
    held = np.int64(0)
    for i in range(size):
        if held < k and pos[q, i] > gone:
            best[held] = cost[q, i]
            held += 1
    return held


@jit
def scan(
    family: Any, sign: Any, point: Any, weight: Any, column: Any, boxed: Any, floor: Any, ceiling: Any, gate: Any,
    q: Any, k: Any, x: Any, begin: Any, position: Any, gone: Any, best: Any, places: Any, held: Any, found: Any,
    costs: Any, leaf: Any,
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
                held = put_best(best, places, held, k, c, position[begin + j])
        begin += some
    return n


@jit
def come_in(
    cost: Any, pos: Any, ref: Any, mark: Any, q: Any, size: Any, c: Any, p: Any, r: Any, time: Any, key: Any
) -> Any:  # fmt: skip
    """Put an event into a row if it is not in it; return its place (-1: it was there), and the new size."""
    place = find_place(cost, ref, q, size, c, r, time, key)
    if is_there(cost, ref, q, place, c, r):
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
def pass_block(
    events: Any, moments: Any, timed: Any, now: Any, first: Any, functions: Any, queries: Any, band: Any, recent: Any,
    trees: Any, turn: Any, until: Any, done: Any, passed: Any, changes: Any, reports: Any,
) -> Any:  # fmt: skip
    """Take in events that lie in the last segment, for some of the queries.

    `moments` are as for `pass_events`. Time had passed up to `now` before; `first` is the number of the first event.
    `recent` has all events of the last blocks, in the order of their `trees`: boxes of the nodes, and the segments.

    The queries from `turn` to `until`, as places in the list of rows in use, see the events. Of the first of them it is
    said how many events it has seen already (`done`), and up to where time has passed for it.

    Return why it stopped; the query to go on with, how many events it has seen, up to where time has passed for it.
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
    top = deepest(used, k_of)
    best, places, dominators = np.empty(top), np.empty(top, np.int64), np.empty((2, top + 1), np.int64)
    border = raw_slot.min() if raw_slot.size else NOBODY  # events with slots from here on lie in the segments
    ages = np.sort(raw_position)
    while turn < until:
        q = used[turn]
        k, span, size, stop = k_of[q], span_of[q], sizes[q], end
        # The threshold of the block; where something leaves, what may take its place comes into the row first.
        if due[q] > end:
            tau = cost[q, k - 1] if size >= k else np.inf
        else:
            n = np.int64(0)
            crowded: Any = True
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
                crowded = timed and sooner < stop and np.count_nonzero(costs[:n] <= tau) > CROWD
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
            held = list_lasting(cost, pos, q, size, k, stop - span, best)
            tau = best[k - 1] if held == k else np.inf
        # The new events within it, in order of arrival.
        begin, behind = max(done, since[q] - first), position.size
        if stop < end:
            behind = np.searchsorted(moments[:last], stop, side="right")
        if (tau == np.inf and not boxed[q]) or position.size <= FEW:
            held = list_lasting(cost, pos, q, size, k, stop - span, best)
            n = scan(
                family, sign, point, weight, column, boxed, floor, ceiling, gate, q, k, x, begin, position[:behind],
                stop - span, best, places, held, found, costs, leaf,
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
    top = deepest(used, k_of)
    best, places, dominators = np.empty(top), np.empty(top, np.int64), np.empty((2, top + 1), np.int64)
    latest, border = -NOBODY, NOBODY
    if before > 0:
        latest = raw_position[: segments[before - 1, 2]].max()
    if segments.shape[0] > before:
        border = raw_slot[segments[before, 0] : segments[segments.shape[0] - 1, 2]].min()
    while turn < until:
        q = used[turn]
        k, span = k_of[q], span_of[q]
        size = drop_gone(cost, pos, ref, mark, q, sizes[q], now - span)
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


# Prefilters: which events of a batch any query may still want, for those who see only a part of the stream.


@jit
def mark_candidates(
    functions: Any, queries: Any, costs: Any, places: Any, sizes: Any, newest: Any, x: Any, position: Any, kept: Any
) -> None:  # fmt: skip
    """Mark the events, given in the order in which they will come, that a query may still want.

    An event is wanted unless k dominate it at any moment: first those that are there when it comes and stay until all
    of these events have come, then those that come after it.

    Per query in use, `costs` and `places` have the first of its row, and `sizes` how many these are. Time has passed up
    to `newest`. `kept` gets the marks.
    """
    family, sign, point, weight, column, boxed, floor, ceiling, gate = functions
    used, k_of, span_of, _ = queries
    n = position.size
    top = deepest(used, k_of)
    best, events, all_costs = np.empty(top), np.empty(top, np.int64), np.empty(n)
    for turn in range(used.size):
        q = used[turn]
        k, gone = k_of[q], max(position[n - 1], newest) - span_of[q]
        find_costs(family, sign, point, weight, column, boxed, floor, ceiling, gate, q, x, np.int64(0), n, all_costs)
        held = list_lasting(costs, places, turn, sizes[turn], k, gone, best)
        for e in range(n):
            held = note(all_costs, e, position[e] > gone, k, best, events, held, kept)
        held = np.int64(0)
        for e in range(n - 1, -1, -1):
            held = note(all_costs, e, True, k, best, events, held, kept)


@jit
def note(costs: Any, e: Any, lasts: Any, k: Any, best: Any, events: Any, held: Any, kept: Any) -> Any:
    """Mark an event unless k are better, and put it among these if it lasts; return how many they are."""
    c = costs[e]
    if c != c or (held == k and c > best[k - 1]):
        return held
    kept[e] = True
    return put_best(best, events, held, k, c, e) if lasts else held
