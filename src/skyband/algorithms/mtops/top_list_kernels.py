"""One list of all events that some view holds, best first: the super-top-k list, and MTopList.

Paper → code (Shastri 2011):

- figure 6.3, MTopList, lines 1-6, and AddNewWindow → `process`
- figure 6.3, OutputTopK → `pick`
- figure 6.3, PurgeExpiredWindow → `lower`, `leave`
- lemma 6.1.3, marks and FP_min → `holds`
- figure 6.4, UpdateMTopList, lines 01-03, 06 and 10 → `enter`
- figure 6.4, lines 05 and 09, the place of O_new → `link`
- figure 6.4, lines 07 and 11, FP_min → `raise_pointer`

A *view* holds the best k of the events from its start on. Per view there is a pointer to the worst event it holds;
per event the first and the last view that hold it. An event in between is held by a view if it lies after the view's
start and is no worse than the event that the view points to.

The list is a skip list of *nodes*, doubly linked on every level; node 0 stands before the best one and node 1 behind
the worst one. All of a node's numbers lie side by side in `nodes`, those of a view in `views`; only `merit`, the views'
`threshold` and the `least` threshold of a block of views are arrays of their own. Arrays are passed one by one: numba
counts references to all arrays of a tuple wherever it is taken apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.compiled import jit
from skyband.order import is_better

LEVELS = 9
BLOCK = 64  # views that share a minimum of their thresholds
SLOT, TIME, KEY, POSITION, FIRST, LAST, TURN, HEIGHT = range(8)  # of a node
NODE = 8
START, DEPTH, COUNT, LOW = range(4)  # of a view
VIEW = 4
USED, FREE, VIEWS, CHANCE, TURNS = range(5)  # of `numbers`
NUMBERS = 5
BETTER, WORSE = 0, 1  # of `links`, by node and level
EVENT, DUE, OPENED, CLOSED, PICKED = range(5)  # of `at`: how far `process` has come
PLACES = 5
DONE, FULL = 0, 1


@jit
def listed(links: Any, numbers: Any) -> Any:
    """Return the nodes of the list, best first."""
    found = np.empty(numbers[USED] - 2 - numbers[FREE], np.int64)
    at = links[0, 0, WORSE]
    for i in range(found.size):
        found[i] = at
        at = links[at, 0, WORSE]
    return found


@jit
def link(nodes: Any, merit: Any, links: Any, free: Any, numbers: Any, m: Any, t: Any, i: Any) -> Any:
    """Put a node, taken from the free ones, where an event belongs; of equal ones the earlier is the better."""
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
    height = 1
    while height < LEVELS and chance & 3 == 0:
        chance >>= 2
        height += 1
    nodes[node, HEIGHT] = height
    at = np.int64(0)
    for level in range(LEVELS - 1, -1, -1):
        behind = links[at, level, WORSE]
        while behind != 1 and not is_better(m, t, i, merit[behind], nodes[behind, TIME], nodes[behind, KEY]):
            at = behind
            behind = links[at, level, WORSE]
        if level < height:
            links[node, level, BETTER], links[node, level, WORSE] = at, behind
            links[at, level, WORSE] = links[behind, level, BETTER] = node
    return node


@jit
def unlink(nodes: Any, links: Any, free: Any, numbers: Any, node: Any) -> None:
    """Take a node out of the list."""
    for level in range(nodes[node, HEIGHT]):
        before, behind = links[node, level, BETTER], links[node, level, WORSE]
        links[before, level, WORSE] = behind
        links[behind, level, BETTER] = before
    free[numbers[FREE]] = node
    numbers[FREE] += 1


@jit
def holds(nodes: Any, merit: Any, views: Any, view: Any, node: Any) -> Any:
    """Tell whether a view holds an event of the list."""
    if views[view, COUNT] == 0 or nodes[node, POSITION] < views[view, START]:
        return False
    w = views[view, LOW]
    if merit[w] != merit[node]:
        return merit[node] > merit[w]
    if nodes[w, TIME] == nodes[node, TIME] and nodes[w, KEY] == nodes[node, KEY]:
        return nodes[node, TURN] <= nodes[w, TURN]
    return is_better(merit[node], nodes[node, TIME], nodes[node, KEY], merit[w], nodes[w, TIME], nodes[w, KEY])


@jit
def leave(nodes: Any, merit: Any, links: Any, free: Any, numbers: Any, views: Any, view: Any, node: Any) -> None:
    """Let a view drop an event; its marks move on, and where they meet, it leaves the list.

    The view must not hold the event any more. It may have been missing from views in between: only the
    pointers tell.
    """
    if nodes[node, FIRST] == view:
        at = view + 1
        while at <= nodes[node, LAST] and not holds(nodes, merit, views, at, node):
            at += 1
        nodes[node, FIRST] = at
    elif nodes[node, LAST] == view:
        at = view - 1
        while at >= nodes[node, FIRST] and not holds(nodes, merit, views, at, node):
            at -= 1
        nodes[node, LAST] = at
    if nodes[node, FIRST] > nodes[node, LAST]:
        unlink(nodes, links, free, numbers, node)


@jit
def raise_pointer(nodes: Any, links: Any, views: Any, view: Any) -> Any:
    """Let a view point to the next better event that it holds; return the one it pointed to."""
    dropped, start = views[view, LOW], views[view, START]
    at = links[dropped, 0, BETTER]
    while at != 0 and nodes[at, POSITION] < start:
        at = links[at, 0, BETTER]
    views[view, LOW] = at
    return dropped


@jit
def set_threshold(merit: Any, views: Any, threshold: Any, view: Any) -> None:
    """Note what an event must reach to enter a view."""
    if views[view, DEPTH] == 0:
        threshold[view] = np.inf
    elif views[view, COUNT] == views[view, DEPTH]:
        threshold[view] = merit[views[view, LOW]]
    else:
        threshold[view] = -np.inf


@jit
def set_least(threshold: Any, least: Any, block: Any) -> None:
    """Note what an event must reach to enter any view of a block."""
    lowest = np.inf
    for v in range(block * BLOCK, (block + 1) * BLOCK):
        lowest = min(lowest, threshold[v])
    least[block] = lowest


@jit
def enter(
    nodes: Any, merit: Any, links: Any, free: Any, numbers: Any, views: Any, threshold: Any, least: Any, entered: Any,
    slot: Any, m: Any, t: Any, i: Any, p: Any,
) -> None:  # fmt: skip
    """Let an event into all views that it belongs to and is good enough for."""
    n = 0
    for block in range((numbers[VIEWS] + BLOCK - 1) // BLOCK):
        if m < least[block]:
            continue
        for v in range(block * BLOCK, min((block + 1) * BLOCK, numbers[VIEWS])):
            if m < threshold[v] or p < views[v, START] or views[v, DEPTH] == 0:
                continue
            if views[v, COUNT] == views[v, DEPTH]:
                w = views[v, LOW]
                if not is_better(m, t, i, merit[w], nodes[w, TIME], nodes[w, KEY]):
                    continue
            entered[n] = v
            n += 1
    if n == 0:
        return
    node = link(nodes, merit, links, free, numbers, m, t, i)
    merit[node] = m
    nodes[node, SLOT], nodes[node, TIME], nodes[node, KEY], nodes[node, POSITION] = slot, t, i, p
    nodes[node, FIRST], nodes[node, LAST], nodes[node, TURN] = entered[0], entered[n - 1], numbers[TURNS]
    numbers[TURNS] += 1
    for j in range(n):
        v = entered[j]
        if views[v, COUNT] < views[v, DEPTH]:
            w = views[v, LOW]
            if views[v, COUNT] == 0 or not is_better(m, t, i, merit[w], nodes[w, TIME], nodes[w, KEY]):
                views[v, LOW] = node
            views[v, COUNT] += 1
        else:
            dropped = raise_pointer(nodes, links, views, v)
            leave(nodes, merit, links, free, numbers, views, v, dropped)
        set_threshold(merit, views, threshold, v)
        if j + 1 == n or entered[j + 1] // BLOCK != v // BLOCK:
            set_least(threshold, least, v // BLOCK)


@jit
def lower(
    nodes: Any, merit: Any, links: Any, free: Any, numbers: Any, views: Any, threshold: Any, least: Any, view: Any,
    depth: Any,
) -> None:  # fmt: skip
    """Let a view hold fewer events; none closes it."""
    views[view, DEPTH] = depth
    while views[view, COUNT] > depth:
        dropped = raise_pointer(nodes, links, views, view)
        views[view, COUNT] -= 1
        leave(nodes, merit, links, free, numbers, views, view, dropped)
    set_threshold(merit, views, threshold, view)
    set_least(threshold, least, view // BLOCK)


@jit
def pick(nodes: Any, links: Any, start: Any, k: Any, picks: Any, n: Any) -> Any:
    """Take the best k events from a start on; return the new n."""
    at, full = links[0, 0, WORSE], n + k
    while at != 1 and n < full:
        if nodes[at, POSITION] >= start:
            picks[n] = nodes[at, SLOT]
            n += 1
        at = links[at, 0, WORSE]
    return n


@jit
def process(
    events: Any, fresh: Any, nodes: Any, merit: Any, links: Any, free: Any, numbers: Any, views: Any, threshold: Any,
    least: Any, opened: Any, steps: Any, due: Any, passed: Any, at: Any, picks: Any, offsets: Any,
) -> Any:  # fmt: skip
    """Take in `fresh` events in order, up to the moment `passed`, and do on the way what a scheduler says.

    Views open (`opened`: start, k) and step down (`steps`: when, start, k); windows are answered (`due`: start, end, k)
    by slots in `picks`, which begin at `offsets`. There must be room for all views. `at` is moved forward. Returns
    DONE; or FULL where there is no node left: to be called again with more.
    """
    merits, times, keys, _parts, positions = events
    starts, ends, ks = due
    when, of, depth = steps[0], steps[1], steps[2]
    entered = np.empty(len(views), np.int64)
    room = merit.size
    while True:
        more = at[EVENT] < fresh.size
        now = positions[fresh[at[EVENT]]] if more else passed
        while at[DUE] < ends.size and ends[at[DUE]] <= now:
            d = at[DUE]
            at[PICKED] = pick(nodes, links, starts[d], ks[d], picks, at[PICKED])
            at[DUE] += 1
            offsets[at[DUE]] = at[PICKED]
        # Views open before any closes: where no event comes for long, one may open and close at once.
        while at[OPENED] < opened.shape[1] and opened[0, at[OPENED]] <= now:
            v = numbers[VIEWS]
            views[v, START], views[v, DEPTH] = opened[0, at[OPENED]], opened[1, at[OPENED]]
            views[v, COUNT] = views[v, LOW] = 0
            numbers[VIEWS] += 1
            threshold[v] = least[v // BLOCK] = -np.inf
            at[OPENED] += 1
        while at[CLOSED] < when.size and when[at[CLOSED]] <= now:
            view = np.searchsorted(views[: numbers[VIEWS], START], of[at[CLOSED]])
            lower(nodes, merit, links, free, numbers, views, threshold, least, view, depth[at[CLOSED]])
            at[CLOSED] += 1
        if not more:
            return DONE
        if numbers[FREE] == 0 and numbers[USED] == room:
            return FULL
        slot = fresh[at[EVENT]]
        at[EVENT] += 1
        m, hopeless = merits[slot], True
        for block in range((numbers[VIEWS] + BLOCK - 1) // BLOCK):
            hopeless &= m < least[block]
        if not hopeless:
            t, i = times[slot], keys[slot]
            enter(nodes, merit, links, free, numbers, views, threshold, least, entered, slot, m, t, i, now)
