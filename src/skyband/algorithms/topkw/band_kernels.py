"""k-skybands of many queries, kept as rows of sorted arrays: strict, relaxed and probabilistic.

A *band* has one row per query, best first. The first k of a row are the top-k tree of the paper, the others its
candidate tree. Events of equal cost are ranked by the one order rule: the later first, then the smaller id; of
identical events the earlier is the better. An event is *dominated* by better ones that leave the window no earlier.

Paper → code (Top-k/w):

- definition 3.8, k-skyband → `add_strict`
- section 4.1.2, top-k tree and candidate tree → a row of `BandRows`
- section 4.1.2, time tree, shared as section 6 (3) says → `BandRows.heap`, `push`, `pop`
- algorithm 1, lines 2-3 and 19-25 → `add_probable`, whose room is limit + additional
- algorithm 1, lines 5-18 → `find_place`, `put`
- algorithm 2 → `drop_any`; the threshold rises by a half of the gap, for filters by all of it (section 6.1)
- algorithm 3 → `add_relaxed`
- algorithm 4 → `prune`
- algorithm 5 → `drop_top`
- "report", in all algorithms → `report_entries`, at the end of a step

A *list* of these kernels is an array whose place 0 says how many it has: the heap, the reports, the rows to report.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.compiled import inlined, jit
from skyband.order import is_better

STRICT, RELAXED, PROBABLE, CPM, SNN = range(5)  # what a row keeps
LEFT, ENTERED, RETURNED = 0, 1, 2
NOBODY = 2**62  # the oldest event of an empty row
REPORT = np.dtype(
    [("row", "i8"), ("slot", "i8"), ("kind", "i8"), ("at", "i8"), ("moment", "i8"), ("cost", "f8")]
)  # fmt: skip


class BandRows(NamedTuple):
    """The rows of a band.

    `cost` (smaller is better), `position` (on the windows' axis), `slot` (in the event store) and `mark` have a column
    per event; the others one number per row. `mark` is 4 * (how often the event is dominated, in strict bands) + 2 if
    it is known to be in the top k + 1 if it ever was. `limit` and `threshold` are those of algorithms 3 and 1.

    `next_expiry` is when something that the row must remove leaves. Strict and relaxed bands have to remove only events
    of their top k: others are dominated k times by then (lemma 4.8). `heap` is a list of expiries, the next on top, and
    their rows; an expiry that is not the `next_expiry` of its row counts for nothing.
    """

    cost: Any
    position: Any
    slot: Any
    mark: Any
    size: Any
    limit: Any
    threshold: Any
    next_expiry: Any
    heap: Any


class KernelQueries(NamedTuple):
    """Which rows are in use; per row: k, length of the window, number of the first event that the query sees."""

    used: Any
    k: Any
    span: Any
    since: Any


@jit
def deepest(used: Any, k_of: Any) -> Any:
    """Return the largest k of the queries in use, at least 1."""
    top = np.int64(1)
    for i in range(used.size):
        top = max(top, k_of[used[i]])
    return top


# Lists.


@jit
def with_room_for(reports: Any, more: Any) -> Any:
    """Return a list of reports that has room for so many more."""
    if reports[0]["row"] + more < reports.size:
        return reports
    new = np.zeros(2 * (reports.size + more), REPORT)
    for i in range(reports[0]["row"] + 1):
        new[i] = reports[i]
    return new


@jit
def wider(rows: Any) -> Any:
    """Return rows with twice the room each."""
    new = np.empty((rows.shape[0], 2 * rows.shape[1]), rows.dtype)
    for q in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            new[q, i] = rows[q, i]
    return new


@jit
def push(heap: Any, key: Any, row: Any) -> None:
    """Put a key, and the row that it is about, into a heap whose top is the least."""
    heap[0, 0] += 1
    i = heap[0, 0]
    while i > 1 and heap[0, i // 2] > key:
        heap[0, i], heap[1, i] = heap[0, i // 2], heap[1, i // 2]
        i //= 2
    heap[0, i], heap[1, i] = key, row


@jit
def replace_top(heap: Any, key: Any, row: Any) -> None:
    """Put a key in the place of the least, and let it sink to where it belongs."""
    n, i = heap[0, 0], 1
    while 2 * i <= n:
        child = 2 * i
        if child < n and heap[0, child + 1] < heap[0, child]:
            child += 1
        if heap[0, child] >= key:
            break
        heap[0, i], heap[1, i] = heap[0, child], heap[1, child]
        i = child
    heap[0, i], heap[1, i] = key, row


@jit
def pop(heap: Any) -> None:
    """Take the top off a heap."""
    n = heap[0, 0]
    heap[0, 0] = n - 1
    replace_top(heap, heap[0, n], heap[1, n])


@inlined
def touch(touched: Any, step: Any, q: Any) -> None:
    """List a row, once per step: its top k may have changed. `touched` has rows, and the step of each at last."""
    if touched[q + 1, 1] != step:
        touched[q + 1, 1] = step
        touched[0, 0] += 1
        touched[touched[0, 0], 0] = q


# Rows.


@inlined
def find_place(cost: Any, slot: Any, q: Any, size: Any, c: Any, r: Any, time: Any, key: Any) -> Any:
    """Return where in a row an event goes: behind all that are better."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        before = c < cost[q, middle]
        if c == cost[q, middle]:
            b = slot[q, middle]
            before = is_better(-c, time[r], key[r], -c, time[b], key[b])
            if not before and time[r] == time[b] and key[r] == key[b]:
                before = r < b  # slots are given in order of arrival
        if before:
            high = middle
        else:
            low = middle + 1
    return low


@inlined
def is_there(cost: Any, slot: Any, q: Any, at: Any, c: Any, r: Any) -> Any:
    """Tell whether an event that goes to a place of a row is in it already: then it is right before that place."""
    found = False
    while at > 0 and cost[q, at - 1] == c:
        at -= 1
        found = found or slot[q, at] == r
    return found


@inlined
def put(
    cost: Any, position: Any, slot: Any, mark: Any, q: Any, size: Any, at: Any, c: Any, p: Any, r: Any, m: Any
) -> None:  # fmt: skip
    """Make room in a row, and put an event there."""
    for i in range(size, at, -1):  # one column after the other: each is a single move of memory
        cost[q, i] = cost[q, i - 1]
    for i in range(size, at, -1):
        position[q, i] = position[q, i - 1]
    for i in range(size, at, -1):
        slot[q, i] = slot[q, i - 1]
    for i in range(size, at, -1):
        mark[q, i] = mark[q, i - 1]
    cost[q, at], position[q, at], slot[q, at], mark[q, at] = c, p, r, m


@inlined
def keep(cost: Any, position: Any, slot: Any, mark: Any, q: Any, i: Any, n: Any) -> None:
    """Let an event of a row have an earlier place."""
    cost[q, n], position[q, n], slot[q, n], mark[q, n] = cost[q, i], position[q, i], slot[q, i], mark[q, i]


@jit
def take(cost: Any, position: Any, slot: Any, mark: Any, q: Any, size: Any, at: Any) -> None:
    """Take an event out of a row."""
    for i in range(at, size - 1):
        keep(cost, position, slot, mark, q, i + 1, i)


@inlined
def add_strict(
    cost: Any, position: Any, slot: Any, mark: Any, q: Any, size: Any, k: Any, c: Any, p: Any, r: Any, time: Any,
    key: Any,
) -> Any:  # fmt: skip
    """Add an event to a strict row and drop what it is the k-th to dominate; return its place (-1: none), and size."""
    at = find_place(cost, slot, q, size, c, r, time, key)
    dominated = 0
    for i in range(at):
        dominated += position[q, i] >= p
    if dominated >= k:
        return -1, size
    put(cost, position, slot, mark, q, size, at, c, p, r, 4 * dominated)
    n = at + 1
    for i in range(at + 1, size + 1):
        m = mark[q, i] + (4 if position[q, i] <= p else 0)
        cost[q, n], position[q, n], slot[q, n], mark[q, n] = cost[q, i], position[q, i], slot[q, i], m
        n += m < 4 * k
    return at, n


@jit
def prune(cost: Any, position: Any, slot: Any, mark: Any, q: Any, size: Any, k: Any, dominators: Any) -> Any:
    """Drop from a row what is dominated k times; return its new size (the paper's algorithm 4).

    From best to worst, the k latest events met so far are the *dominators*, a heap with the oldest on top.
    """
    n = min(k, size)
    dominators[0, 0] = 0
    for i in range(n):
        push(dominators, position[q, i], 0)
    for i in range(n, size):
        if position[q, i] > dominators[0, 1]:
            replace_top(dominators, position[q, i], 0)
            keep(cost, position, slot, mark, q, i, n)
            n += 1
    return n


@inlined
def add_relaxed(
    cost: Any, position: Any, slot: Any, mark: Any, q: Any, size: Any, k: Any, c: Any, p: Any, r: Any, time: Any,
    key: Any, limit: Any, share: Any, dominators: Any,
) -> Any:  # fmt: skip
    """Add an event to a relaxed row (algorithm 3); prune it where it has become long. Return its place, size, limit."""
    at = find_place(cost, slot, q, size, c, r, time, key)
    put(cost, position, slot, mark, q, size, at, c, p, r, 0)
    size += 1
    if size - k >= limit:
        size = prune(cost, position, slot, mark, q, size, k, dominators)
        rest = max(size - k, 0)
        limit = max(np.int64(np.ceil((1.0 + share) * rest)), rest + 1)
    return at, size, limit


@inlined
def add_probable(
    cost: Any, position: Any, slot: Any, mark: Any, q: Any, size: Any, k: Any, c: Any, p: Any, r: Any, time: Any,
    key: Any, room: Any, threshold: Any,
) -> Any:  # fmt: skip
    """Add an event to a probabilistic row (algorithm 1), which has `room` candidates; return place, size, threshold.

    The place is -1 where the event's rank is poor.
    """
    if c > threshold:
        return -1, size, threshold
    at = find_place(cost, slot, q, size, c, r, time, key)
    put(cost, position, slot, mark, q, size, at, c, p, r, 0)
    size += 1
    if size - k >= room:
        if size - k > room:
            size -= 1
        threshold = cost[q, size - 1]
    return at, size, threshold


@jit
def drop_gone(cost: Any, position: Any, slot: Any, mark: Any, q: Any, size: Any, gone: Any) -> Any:
    """Remove everything that has left the window at or before `gone` from a row; return the new size."""
    n = np.int64(0)
    for i in range(size):
        if position[q, i] > gone:
            keep(cost, position, slot, mark, q, i, n)
            n += 1
    return n


@jit
def drop_top(cost: Any, position: Any, slot: Any, mark: Any, q: Any, size: Any, k: Any, passed: Any) -> Any:
    """Remove what has left the window at or before `passed` from the top k; return the new size (algorithm 5).

    A candidate that takes an empty place may have left as well.
    """
    i = 0
    while i < min(k, size):
        if position[q, i] <= passed:
            take(cost, position, slot, mark, q, size, i)
            size -= 1
        else:
            i += 1
    return size


@jit
def drop_any(
    cost: Any, position: Any, slot: Any, mark: Any, q: Any, size: Any, k: Any, passed: Any, limit: Any, step: Any,
    threshold: Any,
) -> Any:  # fmt: skip
    """Remove what has left the window from a probabilistic row (algorithm 2); return the new size and threshold.

    After each removal the threshold is raised by a `step` of the difference between the two worst candidates; where
    fewer than `limit` candidates are left, anything may come in.
    """
    i = 0
    while i < size:
        if position[q, i] > passed:
            i += 1
            continue
        take(cost, position, slot, mark, q, size, i)
        size -= 1
        if size - k < limit or size < 2:
            threshold = np.inf
        else:
            gap = cost[q, size - 1] - cost[q, size - 2]
            threshold = threshold + step * gap if gap < np.inf else np.inf
    return size, threshold


@jit
def expiry_of(position: Any, q: Any, n: Any, span: Any) -> Any:
    """Return when the oldest of the first n of a row leaves a window of this length."""
    oldest = NOBODY
    for i in range(n):
        oldest = min(oldest, position[q, i])
    return NOBODY if oldest == NOBODY else oldest + span


# Reports.


@jit
def report(reports: Any, q: Any, r: Any, kind: Any, at: Any, now: Any, cost: Any) -> None:
    """Add to the list of reports what happened to an event of a row: at which new event, when, and what it costs."""
    n = reports[0]["row"] + 1
    reports[0]["row"] = n
    reports[n]["row"], reports[n]["slot"], reports[n]["kind"] = q, r, kind
    reports[n]["at"], reports[n]["moment"], reports[n]["cost"] = at, now, cost


@jit
def report_exits(
    cost: Any, position: Any, slot: Any, mark: Any, q: Any, n: Any, gone: Any, reports: Any, at: Any, now: Any
) -> None:  # fmt: skip
    """Report those of the first n of a row that are known to be in the top k and have left the window."""
    for i in range(n):
        if position[q, i] <= gone and mark[q, i] & 2:
            report(reports, q, slot[q, i], LEFT, at, now, cost[q, i])


@jit
def report_entries(
    cost: Any, slot: Any, mark: Any, q: Any, n: Any, changes: Any, reports: Any, at: Any, now: Any
) -> None:  # fmt: skip
    """Report those of the first n of a row that are not known to be there yet."""
    for i in range(n):
        if mark[q, i] & 2 == 0:
            if changes or mark[q, i] & 1 == 0:
                report(reports, q, slot[q, i], RETURNED if mark[q, i] & 1 else ENTERED, at, now, cost[q, i])
            mark[q, i] |= 3
