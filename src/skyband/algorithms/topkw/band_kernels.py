"""k-skybands of many queries, kept as rows of sorted arrays: strict, relaxed and probabilistic.

A *band* has one row per query: `cost` (smaller is better), `pos` (where the event lies on the axis of the window),
`ref` (its slot in the arena) and `mark` (see below), best first, `size` of them in use. The first k of a row are the
top-k tree of the paper, the others its candidate tree. Events of equal cost are ranked by the one order rule: the
later first, then the smaller id; of identical events the earlier is the better.

`mark` is 4 * (how often the event is beaten, in strict bands) + 2 if it is known to be in the top k + 1 if it ever was.

The *time tree* is one number per row: nothing that it must remove lies at or before `oldest`. Strict and relaxed bands
have to remove only events of their top k as they leave the window: others are beaten k times by then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.compiled import inlined, jit
from skyband.order import is_better

STRICT, RELAXED, PROBABLE = 0, 1, 2
LEFT, ENTERED, RETURNED = 0, 1, 2
NOBODY = 2**62  # the oldest event of an empty row


@inlined
def find_place(cost: Any, ref: Any, q: Any, size: Any, c: Any, r: Any, time: Any, key: Any) -> Any:
    """Return where in a row an event goes: behind all that are better."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        before = c < cost[q, middle]
        if c == cost[q, middle]:
            b = ref[q, middle]
            before = is_better(-c, time[r], key[r], -c, time[b], key[b])
            if not before and time[r] == time[b] and key[r] == key[b]:
                before = r < b  # slots are given in order of arrival
        if before:
            high = middle
        else:
            low = middle + 1
    return low


@inlined
def put(cost: Any, pos: Any, ref: Any, mark: Any, q: Any, size: Any, at: Any, c: Any, p: Any, r: Any, m: Any) -> None:
    """Make room in a row, and put an event there."""
    for i in range(size, at, -1):  # one column after the other: each is a single move of memory
        cost[q, i] = cost[q, i - 1]
    for i in range(size, at, -1):
        pos[q, i] = pos[q, i - 1]
    for i in range(size, at, -1):
        ref[q, i] = ref[q, i - 1]
    for i in range(size, at, -1):
        mark[q, i] = mark[q, i - 1]
    cost[q, at], pos[q, at], ref[q, at], mark[q, at] = c, p, r, m


@jit
def take(cost: Any, pos: Any, ref: Any, mark: Any, q: Any, size: Any, at: Any) -> None:
    """Take an event out of a row."""
    for i in range(at, size - 1):
        cost[q, i], pos[q, i], ref[q, i], mark[q, i] = cost[q, i + 1], pos[q, i + 1], ref[q, i + 1], mark[q, i + 1]


@inlined
def add_strict(
    cost: Any, pos: Any, ref: Any, mark: Any, q: Any, size: Any, k: Any, c: Any, p: Any, r: Any, time: Any, key: Any
) -> Any:  # fmt: skip
    """Add an event to a strict row and drop whom it is the k-th to beat; return its place (-1: beaten itself), size.

    An event is beaten by better ones that leave the window no earlier.
    """
    at = find_place(cost, ref, q, size, c, r, time, key)
    beaten = 0
    for i in range(at):
        beaten += pos[q, i] >= p
    if beaten >= k:
        return -1, size
    put(cost, pos, ref, mark, q, size, at, c, p, r, 4 * beaten)
    n = at + 1
    for i in range(at + 1, size + 1):
        m = mark[q, i] + (4 if pos[q, i] <= p else 0)
        cost[q, n], pos[q, n], ref[q, n], mark[q, n] = cost[q, i], pos[q, i], ref[q, i], m
        n += m < 4 * k
    return at, n


@jit
def prune(cost: Any, pos: Any, ref: Any, mark: Any, q: Any, size: Any, k: Any, dominators: Any) -> Any:
    """Drop from a row what is beaten k times; return its new size (the paper's algorithm 4).

    From best to worst, the k latest events met so far are the *dominators*, a heap with the oldest on top.
    """
    n = min(k, size)
    for i in range(n):
        dominators[i] = pos[q, i]
    for i in range(n // 2 - 1, -1, -1):
        sink(dominators, i, n)
    for i in range(n, size):
        if pos[q, i] <= dominators[0]:
            continue
        dominators[0] = pos[q, i]
        sink(dominators, 0, k)
        cost[q, n], pos[q, n], ref[q, n], mark[q, n] = cost[q, i], pos[q, i], ref[q, i], mark[q, i]
        n += 1
    return n


@jit
def sink(heap: Any, i: Any, n: Any) -> None:
    """Let a place of a heap, whose top is the least, sink to where it belongs."""
    while True:
        child = 2 * i + 1
        if child >= n:
            return
        if child + 1 < n and heap[child + 1] < heap[child]:
            child += 1
        if heap[i] <= heap[child]:
            return
        heap[i], heap[child] = heap[child], heap[i]
        i = child


@inlined
def add_relaxed(
    cost: Any, pos: Any, ref: Any, mark: Any, q: Any, size: Any, k: Any, c: Any, p: Any, r: Any, time: Any, key: Any,
    limit: Any, share: Any, dominators: Any,
) -> Any:  # fmt: skip
    """Add an event to a relaxed row (algorithm 3); prune it where it has become long. Return its place, size, limit."""
    at = find_place(cost, ref, q, size, c, r, time, key)
    put(cost, pos, ref, mark, q, size, at, c, p, r, 0)
    size += 1
    if size - k >= limit:
        size = prune(cost, pos, ref, mark, q, size, k, dominators)
        rest = max(size - k, 0)
        limit = max(np.int64(np.ceil((1.0 + share) * rest)), rest + 1)
    return at, size, limit


@inlined
def add_probable(
    cost: Any, pos: Any, ref: Any, mark: Any, q: Any, size: Any, k: Any, c: Any, p: Any, r: Any, time: Any, key: Any,
    room: Any, threshold: Any,
) -> Any:  # fmt: skip
    """Add an event to a probabilistic row (algorithm 1), which has `room` candidates; return place, size, threshold.

    The place is -1 where the event's rank is poor.
    """
    if c > threshold:
        return -1, size, threshold
    at = find_place(cost, ref, q, size, c, r, time, key)
    put(cost, pos, ref, mark, q, size, at, c, p, r, 0)
    size += 1
    if size - k >= room:
        if size - k > room:
            size -= 1
        threshold = cost[q, size - 1]
    return at, size, threshold


@jit
def drop_top(cost: Any, pos: Any, ref: Any, mark: Any, q: Any, size: Any, k: Any, passed: Any) -> Any:
    """Remove what has left the window at or before `passed` from the top k; return the new size (algorithm 5).

    A candidate that takes an empty place may have left as well.
    """
    i = 0
    while i < min(k, size):
        if pos[q, i] <= passed:
            take(cost, pos, ref, mark, q, size, i)
            size -= 1
        else:
            i += 1
    return size


@jit
def drop_any(
    cost: Any, pos: Any, ref: Any, mark: Any, q: Any, size: Any, k: Any, passed: Any, limit: Any, step: Any,
    threshold: Any,
) -> Any:  # fmt: skip
    """Remove what has left the window from a probabilistic row (algorithm 2); return the new size and threshold.

    After each removal the threshold is raised by a `step` of the difference between the two worst candidates; where
    fewer than `limit` candidates are left, anything may come in.
    """
    i = 0
    while i < size:
        if pos[q, i] > passed:
            i += 1
            continue
        take(cost, pos, ref, mark, q, size, i)
        size -= 1
        if size - k < limit or size < 2:
            threshold = np.inf
        else:
            gap = cost[q, size - 1] - cost[q, size - 2]
            threshold = threshold + step * gap if gap < np.inf else np.inf
    return size, threshold


@jit
def oldest_of(pos: Any, q: Any, size: Any) -> Any:
    """Return the least position among the first of a row."""
    oldest = NOBODY
    for i in range(size):
        oldest = min(oldest, pos[q, i])
    return oldest
