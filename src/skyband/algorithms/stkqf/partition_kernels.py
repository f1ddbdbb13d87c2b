"""Partitions of a window: candidates of each, best first, and how the best of a stretch of them are found.

Paper → code (STKQF):

- observation 1, meaningful objects → `skyband`
- section 2.3, leaves and inner nodes of the PH-Tree → `plant`, `winner`
- section 2.3, the search on the PH-Tree → `best_leaf`, `pick`
- section 3.3, arrivals → `enter`

`cand` has the slots of all candidates, partition by partition, each run best first; `begin` and `end` say where a
partition's are. The last one is the *back* partition, into which events still arrive: its run are its best K so far,
while `buffer` has all of its events that may matter later, in order of time.

The *tree* is that of the PH-Tree: a leaf per partition, and in each node above the leaf whose best candidate is the
best of all below. A node without candidates has -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.compiled import jit
from skyband.order import is_better

EVENT, DUE, PICKED = range(3)  # of `at`: how far `process` has come
PLACES = 3
DONE, COMPLETE, CROWDED = 0, 1, 2


@jit
def ahead(merit: Any, time: Any, key: Any, a: Any, b: Any) -> Any:
    """Tell whether the event in slot a is better than the one in slot b."""
    return is_better(merit[a], time[a], key[a], merit[b], time[b], key[b])


@jit
def sift_down(merit: Any, time: Any, key: Any, heap: Any, size: Any, slot: Any) -> None:
    """Put a slot in place of the worst one, which is on top."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and ahead(merit, time, key, heap[child], heap[child + 1]):
            child += 1
        if not ahead(merit, time, key, slot, heap[child]):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = slot


@jit
def keep_best(merit: Any, time: Any, key: Any, heap: Any, size: Any, slot: Any) -> Any:
    """Put a slot among the best, the worst of them on top of a heap; return how many these are; -1: it is none."""
    if size == heap.size:
        if not ahead(merit, time, key, slot, heap[0]):
            return -1
        sift_down(merit, time, key, heap, size, slot)
        return size
    at = size
    while at > 0 and ahead(merit, time, key, heap[(at - 1) // 2], slot):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = slot
    return size + 1


@jit
def skyband(merit: Any, time: Any, key: Any, slots: Any, depth: Any, following: Any, out: Any) -> Any:
    """Find, of events in order of time, those that fewer than `depth` better ones follow: the meaningful ones.

    `following` are at most `depth` events that follow all of these. The slots that are left are written, in order of
    time, to the end of `out`. Returns how many they are.
    """
    heap = np.empty(depth, np.int32)
    size = 0
    for phase in range(2):
        given = following if phase == 0 else slots
        left = 0
        for i in range(given.size - 1, -1, -1):
            grown = keep_best(merit, time, key, heap, size, given[i])
            if grown >= 0:
                size = grown
                left += 1
                if phase == 1:
                    out[out.size - left] = given[i]
    return left


@jit
def plant(merit: Any, time: Any, key: Any, cand: Any, begin: Any, end: Any, tree: Any) -> None:
    """Fill the tree: leaf by leaf, then node by node upwards."""
    leaves = tree.size // 2
    for leaf in range(leaves):
        tree[leaves + leaf] = leaf if leaf < begin.size - 1 and begin[leaf] < end[leaf] else -1
    for node in range(leaves - 1, 0, -1):
        tree[node] = winner(merit, time, key, cand, begin, tree[2 * node], tree[2 * node + 1])


@jit
def winner(merit: Any, time: Any, key: Any, cand: Any, begin: Any, a: Any, b: Any) -> Any:
    """Return which of two leaves has the better best candidate; -1 is none."""
    if a < 0 or (b >= 0 and ahead(merit, time, key, cand[begin[b]], cand[begin[a]])):
        return b
    return a


@jit
def best_leaf(merit: Any, time: Any, key: Any, cand: Any, begin: Any, tree: Any, low: Any, high: Any) -> Any:
    """Return the leaf from `low` to `high` whose best candidate is the best; -1 if there is none."""
    leaves = tree.size // 2
    found = np.int64(-1)
    a, b = low + leaves, high + leaves + 1
    while a < b:
        if a & 1:
            found = winner(merit, time, key, cand, begin, found, tree[a])
            a += 1
        if b & 1:
            b -= 1
            found = winner(merit, time, key, cand, begin, found, tree[b])
        a //= 2
        b //= 2
    return found


@jit
def push(
    merit: Any, time: Any, key: Any, cand: Any, heap: Any, size: Any, leaf: Any, place: Any, low: Any, high: Any
) -> Any:
    """Add to a heap of places, the best on top, one of a leaf, with a stretch of leaves that stand behind it."""
    slot = cand[place]
    at = size
    while at > 0 and ahead(merit, time, key, slot, cand[heap[(at - 1) // 2, 1]]):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at, 0], heap[at, 1], heap[at, 2], heap[at, 3] = leaf, place, low, high
    return size + 1


@jit
def push_best(
    merit: Any, time: Any, key: Any, cand: Any, begin: Any, tree: Any, heap: Any, size: Any, low: Any, high: Any
) -> Any:
    """Add to the heap the best candidate of the leaves from `low` to `high`, if there is one; return the new size."""
    leaf = best_leaf(merit, time, key, cand, begin, tree, low, high)
    return size if leaf < 0 else push(merit, time, key, cand, heap, size, leaf, begin[leaf], low, high)


@jit
def pop(merit: Any, time: Any, key: Any, cand: Any, heap: Any, size: Any) -> Any:
    """Take the top off the heap; return the new size."""
    size -= 1
    leaf, place, low, high = heap[size, 0], heap[size, 1], heap[size, 2], heap[size, 3]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and ahead(merit, time, key, cand[heap[child + 1, 1]], cand[heap[child, 1]]):
            child += 1
        if not ahead(merit, time, key, cand[heap[child, 1]], cand[place]):
            break
        heap[at] = heap[child]
        at = child
    heap[at, 0], heap[at, 1], heap[at, 2], heap[at, 3] = leaf, place, low, high
    return size


@jit
def next_inside(position: Any, cand: Any, place: Any, end: Any, start: Any) -> Any:
    """Return the first place from `place` on whose event lies at or after a start."""
    while place < end and position[cand[place]] < start:
        place += 1
    return place


@jit
def pick(
    merit: Any, time: Any, key: Any, position: Any, cand: Any, begin: Any, end: Any, tree: Any, first: Any, start: Any,
    k: Any, heap: Any, picks: Any, n: Any,
) -> Any:  # fmt: skip
    """Take the best k candidates from a start on, which lies in leaf `first`; return the new n.

    With a tree only leaves that may be next are looked at; without one, all of them.
    """
    back, size = begin.size - 1, 0
    place = next_inside(position, cand, begin[first], end[first], start)  # the first leaf is cut by the start
    if place < end[first]:
        size = push(merit, time, key, cand, heap, size, first, place, 0, -1)
    others = first + 1
    if tree.size:  # between the first leaf and the back one, which is not in the tree
        size = push_best(merit, time, key, cand, begin, tree, heap, size, first + 1, back - 1)
        others = max(back, others)
    for leaf in range(others, back + 1):
        if begin[leaf] < end[leaf]:
            size = push(merit, time, key, cand, heap, size, leaf, begin[leaf], 0, -1)
    full = n + k
    while size > 0 and n < full:
        leaf, place, low, high = heap[0, 0], heap[0, 1], heap[0, 2], heap[0, 3]
        picks[n] = cand[place]
        n += 1
        size = pop(merit, time, key, cand, heap, size)
        place += 1
        if leaf == first:
            place = next_inside(position, cand, place, end[leaf], start)
        if place < end[leaf]:
            size = push(merit, time, key, cand, heap, size, leaf, place, 0, -1)
        if low <= high:
            size = push_best(merit, time, key, cand, begin, tree, heap, size, low, leaf - 1)
            size = push_best(merit, time, key, cand, begin, tree, heap, size, leaf + 1, high)
    return n


@jit
def pick_recent(
    merit: Any, time: Any, key: Any, position: Any, buffer: Any, used: Any, start: Any, k: Any, picks: Any, n: Any
) -> Any:
    """Take the best k from a start that lies in the back partition; return the new n."""
    worst = np.empty(k, np.int32)
    size = 0
    for i in range(used - 1, -1, -1):
        if position[buffer[i]] >= start:
            size = max(keep_best(merit, time, key, worst, size, buffer[i]), size)
    for i in range(size - 1, -1, -1):
        picks[n + i] = worst[0]
        sift_down(merit, time, key, worst, i, worst[i])
    return n + size


@jit
def enter(merit: Any, time: Any, key: Any, slot: Any, cand: Any, begin: Any, end: Any, depth: Any) -> None:
    """Put an event among the best `depth` of the back partition, if it is one of them."""
    back = begin.size - 1
    low, high = begin[back], end[back]
    if high - low == depth:
        if not ahead(merit, time, key, slot, cand[high - 1]):
            return
        high -= 1
    else:
        end[back] += 1
    last = high
    while low < high:
        middle = (low + high) // 2
        if ahead(merit, time, key, slot, cand[middle]):
            high = middle
        else:
            low = middle + 1
    for place in range(last, low, -1):
        cand[place] = cand[place - 1]
    cand[low] = slot


@jit
def process(
    events: Any, fresh: Any, cand: Any, begin: Any, end: Any, tree: Any, edges: Any, buffer: Any, used: Any, depth: Any,
    due: Any, passed: Any, at: Any, heap: Any, picks: Any, offsets: Any,
) -> Any:  # fmt: skip
    """Take in `fresh` events in order, up to the moment `passed`, and answer windows on the way.

    `edges` has where the first partition and the back one begin, and how wide partitions are. `used`, an array, has
    how many events the buffer holds. A partition may be asked for `depth` of its best events. Windows are answered
    (`due`: start, end, k) by slots in `picks`, which begin at `offsets`. `heap` is space for the search. `at` is moved
    forward. Returns DONE; COMPLETE where the next event is not of the back partition; CROWDED where the buffer is full.
    """
    merit, time, key, _part, position = events
    oldest, back, width = edges[0], edges[1], edges[2]
    while True:
        more = at[EVENT] < fresh.size
        now = position[fresh[at[EVENT]]] if more else passed
        while at[DUE] < due[0].size and due[1][at[DUE]] <= now:
            d = at[DUE]
            start, k, n = due[0][d], due[2][d], at[PICKED]
            if start > back:
                at[PICKED] = pick_recent(merit, time, key, position, buffer, used[0], start, k, picks, n)
            else:
                first = max((start - oldest) // width, 0)
                at[PICKED] = pick(merit, time, key, position, cand, begin, end, tree, first, start, k, heap, picks, n)
            at[DUE] += 1
            offsets[at[DUE]] = at[PICKED]
        if not more:
            return DONE
        if now >= back + width:
            return COMPLETE
        if used[0] == buffer.size:
            return CROWDED
        slot = fresh[at[EVENT]]
        buffer[used[0]] = slot
        used[0] += 1
        enter(merit, time, key, slot, cand, begin, end, depth)
        at[EVENT] += 1
