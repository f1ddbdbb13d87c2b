"""One list of all events that some view holds, best first: the super-top-k list, and MTopList.

A *view* holds the best k of the events from its start on. Per view there is a pointer to the worst event it holds;
per event the first and the last view that hold it. An event in between is held by a view if it lies after the view's
start and is no worse than the event that the view points to.

The list is a skip list of *nodes*, doubly linked on every level; node 0 stands before the best one and node 1 behind
the worst one.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from skyband.kernels.walk import CLOSED, DUE, EVENT, OPENED, PICKED, STEP
from skyband.order import is_better

LEVELS = 9
BLOCK = 64  # views that share a minimum of their bars
USED, FREE, VIEWS, CHANCE, TURN = 0, 1, 2, 3, 4  # of `numbers`
DONE, FULL = 0, 1

jit: Any = numba.njit(cache=True, nogil=True)


@jit
def reset(nodes: Any, numbers: Any) -> None:
    """Make the list empty."""
    _slot, _merit, _time, _key, _position, _first, _last, _height, _turn, better, worse, _free = nodes
    worse[:, 0] = 1
    better[:, 1] = 0
    numbers[USED], numbers[FREE], numbers[CHANCE] = 2, 0, 88_172_645_463_325_252


@jit
def listed(nodes: Any, numbers: Any) -> Any:
    """Return the nodes of the list, best first."""
    worse = nodes[10]
    found = np.empty(numbers[USED] - 2 - numbers[FREE], np.int64)
    at = worse[0, 0]
    for i in range(found.size):
        found[i] = at
        at = worse[0, at]
    return found


@jit
def find(nodes: Any, merit: Any, time: Any, key: Any, path: Any) -> None:
    """Find on each level the last node that an event comes behind; of equal ones the earlier is the better."""
    _slot, n_merit, n_time, n_key, _position, _first, _last, _height, _turn, _better, worse, _free = nodes
    at = 0
    for level in range(LEVELS - 1, -1, -1):
        following = worse[level, at]
        while following != 1 and not is_better(
            merit, time, key, n_merit[following], n_time[following], n_key[following]
        ):
            at = following
            following = worse[level, at]
        path[level] = at


@jit
def link(nodes: Any, numbers: Any, path: Any) -> Any:
    """Put a node, taken from the free ones, behind the path; return it."""
    _slot, _merit, _time, _key, _position, _first, _last, height, _turn, better, worse, free = nodes
    if numbers[FREE] > 0:
        numbers[FREE] -= 1
        node = free[numbers[FREE]]
    else:
        node = numbers[USED]
        numbers[USED] += 1
    chance = numbers[CHANCE]
    chance ^= chance << 13
    chance ^= (chance >> 7) & 0x01FFFFFFFFFFFFFF
    chance ^= chance << 17
    numbers[CHANCE] = chance
    levels = 1
    while levels < LEVELS and chance & 3 == 0:
        chance >>= 2
        levels += 1
    height[node] = levels
    for level in range(levels):
        before = path[level]
        behind = worse[level, before]
        worse[level, before] = better[level, behind] = node
        better[level, node], worse[level, node] = before, behind
    return node


@jit
def unlink(nodes: Any, numbers: Any, node: Any) -> None:
    """Take a node out of the list."""
    _slot, _merit, _time, _key, _position, _first, _last, height, _turn, better, worse, free = nodes
    for level in range(height[node]):
        before, behind = better[level, node], worse[level, node]
        worse[level, before] = behind
        better[level, behind] = before
    free[numbers[FREE]] = node
    numbers[FREE] += 1


@jit
def holds(nodes: Any, views: Any, view: Any, node: Any) -> Any:
    """Tell whether a view holds an event of the list."""
    _slot, merit, time, key, position, _first, _last, _height, turn, _better, _worse, _free = nodes
    start, _k, count, low, _bar, _least = views
    if count[view] == 0 or position[node] < start[view]:
        return False
    w = low[view]
    if merit[w] == merit[node] and time[w] == time[node] and key[w] == key[node]:
        return turn[node] <= turn[w]
    return is_better(merit[node], time[node], key[node], merit[w], time[w], key[w])


@jit
def leave(nodes: Any, numbers: Any, views: Any, view: Any, node: Any) -> None:
    """Let a view drop an event; its marks move on, and where they meet, it leaves the list.

    The view must not hold the event any more. It may have been missing from views in between: only the
    pointers tell.
    """
    _slot, _merit, _time, _key, _position, first, last, _height, _turn, _better, _worse, _free = nodes
    if first[node] == view:
        at = view + 1
        while at <= last[node] and not holds(nodes, views, at, node):
            at += 1
        first[node] = at
    elif last[node] == view:
        at = view - 1
        while at >= first[node] and not holds(nodes, views, at, node):
            at -= 1
        last[node] = at
    if first[node] > last[node]:
        unlink(nodes, numbers, node)


@jit
def raise_pointer(nodes: Any, views: Any, view: Any) -> Any:
    """Let a view point to the next better event that it holds; return the one it pointed to."""
    _slot, _merit, _time, _key, position, _first, _last, _height, _turn, better, _worse, _free = nodes
    start, _k, _count, low, _bar, _least = views
    dropped = low[view]
    at = better[0, dropped]
    while at != 0 and position[at] < start[view]:
        at = better[0, at]
    low[view] = at
    return dropped


@jit
def set_bar(nodes: Any, views: Any, view: Any) -> None:
    """Note what an event must reach to enter a view, and what is least of the views of its block."""
    merit = nodes[1]
    _start, k, count, low, bar, least = views
    if k[view] == 0:
        bar[view] = np.inf
    else:
        bar[view] = merit[low[view]] if count[view] == k[view] else -np.inf
    block = view // BLOCK
    lowest = np.inf
    for v in range(block * BLOCK, (block + 1) * BLOCK):
        lowest = min(lowest, bar[v])
    least[block] = lowest


@jit
def insert(events: Any, slot: Any, nodes: Any, numbers: Any, views: Any, path: Any, entered: Any) -> None:
    """Let an event into all views that it belongs to and is good enough for."""
    merit, time, key, _part, position = events
    n_slot, n_merit, n_time, n_key, n_position, first, last, _height, turn, _better, _worse, _free = nodes
    start, k, count, low, bar, least = views
    m, t, i, p = merit[slot], time[slot], key[slot], position[slot]
    n = 0
    for block in range((numbers[VIEWS] + BLOCK - 1) // BLOCK):
        if m < least[block]:
            continue
        for v in range(block * BLOCK, min((block + 1) * BLOCK, numbers[VIEWS])):
            if m < bar[v] or p < start[v] or k[v] == 0:
                continue
            if count[v] == k[v]:
                w = low[v]
                if not is_better(m, t, i, n_merit[w], n_time[w], n_key[w]):
                    continue
            entered[n] = v
            n += 1
    if n == 0:
        return
    find(nodes, m, t, i, path)
    node = link(nodes, numbers, path)
    n_slot[node], n_merit[node], n_time[node], n_key[node], n_position[node] = slot, m, t, i, p
    first[node], last[node], turn[node] = entered[0], entered[n - 1], numbers[TURN]
    numbers[TURN] += 1
    for j in range(n):
        v = entered[j]
        if count[v] < k[v]:
            w = low[v]
            if count[v] == 0 or not is_better(m, t, i, n_merit[w], n_time[w], n_key[w]):
                low[v] = node
            count[v] += 1
        else:
            leave(nodes, numbers, views, v, raise_pointer(nodes, views, v))
        if j + 1 == n or entered[j + 1] // BLOCK != v // BLOCK:
            set_bar(nodes, views, v)
        elif count[v] == k[v]:
            bar[v] = n_merit[low[v]]


@jit
def lower(nodes: Any, numbers: Any, views: Any, view: Any, k_now: Any) -> None:
    """Let a view hold fewer events; none closes it."""
    _start, k, count, low, _bar, _least = views
    k[view] = k_now
    while count[view] > k_now:
        dropped = raise_pointer(nodes, views, view)
        count[view] -= 1
        if count[view] == 0:
            low[view] = 0
        leave(nodes, numbers, views, view, dropped)
    set_bar(nodes, views, view)


@jit
def pick(nodes: Any, start: Any, k: Any, picks: Any, n: Any) -> Any:
    """Take the best k events from a start on; return the new n."""
    slot, _merit, _time, _key, position, _first, _last, _height, _turn, _better, worse, _free = nodes
    at, full = worse[0, 0], n + k
    while at != 1 and n < full:
        if position[at] >= start:
            picks[n] = slot[at]
            n += 1
        at = worse[0, at]
    return n


@jit
def pass_over(
    events: Any, fresh: Any, nodes: Any, numbers: Any, views: Any, opened: Any, steps: Any, due: Any, passed: Any,
    at: Any, picks: Any, offsets: Any,
) -> Any:  # fmt: skip
    """Take in events in order, and do on the way what a scheduler says.

    Parameters
    ----------
    events, fresh
        The arena's columns, and the slots of the events to take in.
    nodes, numbers, views
        The list; `views` has room for all that open.
    opened, steps
        Views that open (start, k), and steps down (when, start, k).
    due, passed
        Windows to answer (start, end, k); up to where time has come.
    at
        How far it has come with each of these; moved forward.
    picks, offsets
        Out: slots of the answers, and where each window's begin (one more than windows).

    Returns
    -------
    DONE; or FULL where there is no node left: to be called again with more.
    """
    position = events[4]
    start, k, count, low, bar, _least = views
    path = np.zeros(LEVELS, np.int64)
    entered = np.empty(start.size, np.int64)
    room = nodes[0].size
    while True:
        more = at[EVENT] < fresh.size
        now = position[fresh[at[EVENT]]] if more else passed
        while at[DUE] < due[0].size and due[1][at[DUE]] <= now:
            d = at[DUE]
            at[PICKED] = pick(nodes, due[0][d], due[2][d], picks, at[PICKED])
            at[DUE] += 1
            offsets[at[DUE]] = at[PICKED]
        while at[CLOSED] < steps.shape[1] and steps[STEP, at[CLOSED]] <= now:
            view = np.searchsorted(start[: numbers[VIEWS]], steps[1, at[CLOSED]])
            lower(nodes, numbers, views, view, steps[2, at[CLOSED]])
            at[CLOSED] += 1
        while at[OPENED] < opened.shape[1] and opened[0, at[OPENED]] <= now:
            v = numbers[VIEWS]
            start[v], k[v], count[v], low[v], bar[v] = opened[0, at[OPENED]], opened[1, at[OPENED]], 0, 0, -np.inf
            numbers[VIEWS] += 1
            set_bar(nodes, views, v)
            at[OPENED] += 1
        if not more:
            return DONE
        if numbers[FREE] == 0 and numbers[USED] == room:
            return FULL
        insert(events, fresh[at[EVENT]], nodes, numbers, views, path, entered)
        at[EVENT] += 1
