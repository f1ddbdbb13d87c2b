"""k-d trees over neighbouring events, and the search for those that cost a query little.

A *segment* is a stretch of columns in which the events of each node of a tree are neighbours; boxes around the nodes
say what anything in them can cost at least.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.topkw.event_kernels import COLUMN, EUCLID, SUM, find_costs
from skyband.compiled import inlined, jit

LEAF = 16  # events in the leaves of a tree, at most
MANY = 256  # costs that are found at once, at most
DEEP = 64


@jit
def select(order: Any, x: Any, dimension: Any, low: Any, high: Any, middle: Any) -> None:
    """Let the places low..high of an order be such that what lies before the middle is no larger than what follows."""
    high -= 1
    while low < high:
        pivot = x[order[(low + high) // 2], dimension]
        i, j = low, high
        while i <= j:
            while x[order[i], dimension] < pivot:
                i += 1
            while x[order[j], dimension] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@jit
def grow_tree(x: Any, low: Any, high: Any) -> Any:
    """Return events in the order of a k-d tree, and write the boxes of its nodes: the children of i are 2i + 1, 2i + 2.

    A node has a range of the order; its children have the halves. `low` and `high` have a row per node.
    """
    order = np.arange(x.shape[0])
    begins, ends, nodes = np.empty(DEEP, np.int64), np.empty(DEEP, np.int64), np.empty(DEEP, np.int64)
    begins[0], ends[0], nodes[0] = 0, x.shape[0], 0
    n = 1
    while n > 0:
        n -= 1
        begin, end, node = begins[n], ends[n], nodes[n]
        widest, width = 0, -1.0
        for i in range(x.shape[1]):
            least, most = np.inf, -np.inf
            for at in range(begin, end):
                least, most = min(least, x[order[at], i]), max(most, x[order[at], i])
            low[node, i], high[node, i] = least, most
            if most - least > width:
                widest, width = i, most - least
        if end - begin > LEAF:
            middle = (begin + end) // 2
            select(order, x, np.int64(widest), begin, end, middle)
            begins[n], ends[n], nodes[n] = begin, middle, 2 * node + 1
            begins[n + 1], ends[n + 1], nodes[n + 1] = middle, end, 2 * node + 2
            n += 2
    return order


@inlined
def put_best(best: Any, places: Any, held: Any, k: Any, cost: Any, position: Any) -> Any:
    """Put a cost, and where its event lies, among the k least, of which so many are held; return how many are then."""
    i = held if held < k else k - 1
    while i > 0 and best[i - 1] > cost:
        best[i], places[i] = best[i - 1], places[i - 1]
        i -= 1
    best[i], places[i] = cost, position
    return min(held + 1, k)


@jit
def search(
    family: Any, sign: Any, point: Any, weight: Any, column: Any, boxed: Any, floor: Any, ceiling: Any, gate: Any,
    q: Any, k: Any, tau: Any, x: Any, position: Any, number: Any, low: Any, high: Any, segment: Any, since: Any,
    alive: Any, after: Any, best: Any, places: Any, held: Any, found: Any, costs: Any, n: Any, stack: Any, bounds: Any,
    leaf: Any,
) -> Any:  # fmt: skip
    """Find events of a segment that cost a query no more than tau; return tau, how many are best, and are found.

    With k, tau shrinks on the way to the k-th least cost; then some are found that cost more. `best` and `places` have
    the costs and positions of the k best, `found` and `costs` the places and costs of what is found. Only events from
    number `since` on, behind position `alive`, are found; only those behind `after` are among the best.

    A segment says where its tree begins and ends, where what has no place in a tree ends, and its first node. `low` and
    `high` are boxes around the nodes. The least that anything in one can cost is found by the same steps as for an
    event, each of them monotonic: rounding does no harm.
    """
    begin, middle, end, root = segment[0], segment[1], segment[2], segment[3]
    kind, turn = family[q], sign[q]
    if kind == COLUMN:
        middle = begin
    # What has no place in the tree is looked at one by one, as its leaves are.
    stack[0, 0], stack[0, 1], stack[0, 2], bounds[0] = middle, end, -1, -np.inf
    stack[1, 0], stack[1, 1], stack[1, 2], bounds[1] = begin, middle, 0, -np.inf
    depth = 2
    while depth > 0:
        depth -= 1
        if bounds[depth] > tau:
            continue
        begin, end, node = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if node >= 0 and end - begin > LEAF:
            half, before = (begin + end) // 2, depth
            for side in range(2):
                child, value, outside = root + 2 * node + 1 + side, 0.0, False
                for i in range(weight.shape[1]):
                    p, w, least, most = point[q, i], weight[q, i], low[child, i], high[child, i]
                    outside = outside or (boxed[q] and (most < floor[q, i] or least > ceiling[q, i]))
                    if kind == SUM:
                        value += w * (least if turn * w > 0 else most)
                        continue
                    if turn > 0:
                        away = least - p if p < least else (p - most if p > most else 0.0)
                    else:
                        away = max(abs(least - p), abs(most - p))
                    if kind == EUCLID:
                        value += w * away * away
                    else:
                        value = max(value, w * away)
                value = turn * (np.sqrt(value) if kind == EUCLID else value)
                if outside:
                    continue
                at = depth
                if depth > before and bounds[before] < value:  # the nearer goes on top
                    at = before
                    bounds[depth] = bounds[before]
                    for part in range(3):
                        stack[depth, part] = stack[before, part]
                stack[at, 0], stack[at, 1] = (begin, half) if side == 0 else (half, end)
                stack[at, 2], bounds[at] = 2 * node + 1 + side, value
                depth += 1
            continue
        while begin < end:
            some = min(leaf.size, end - begin)
            find_costs(
                family, sign, point, weight, column, boxed, floor, ceiling, gate, q, x, begin, begin + some, leaf
            )
            for j in range(some):
                at, cost = begin + j, leaf[j]
                if not cost <= tau or number[at] < since or position[at] <= alive:
                    continue
                found[n], costs[n] = at, cost
                n += 1
                if k > 0 and position[at] > after:
                    held = put_best(best, places, held, k, cost, position[at])
                    if held == k:
                        tau = best[k - 1]
            begin += some
    return tau, held, n
