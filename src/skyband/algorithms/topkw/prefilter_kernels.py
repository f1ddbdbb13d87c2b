"""Which events of a batch any query may still want, for those who see only a part of the stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.topkw.event_kernels import find_costs
from skyband.compiled import jit


@jit
def mark_candidates(
    functions: Any, queries: Any, costs: Any, places: Any, sizes: Any, newest: Any, x: Any, position: Any, kept: Any
) -> None:  # fmt: skip
    """Mark the events, given in the order in which they will come, that a query may still want.

    An event is wanted unless k dominate it at any moment: first those that are there when it comes and stay until all
    of these events have come, then those that come after it.

    Parameters
    ----------
    functions, queries
        As for `pass_block`.
    costs, places, sizes
        Per query in use, the first of its row: costs and positions, sorted, and how many there are.
    newest
        Up to where time has passed.
    x, position, kept
        Attributes and positions of the events; what is marked.
    """
    family, sign, point, weight, column, boxed, floor, ceiling, gate = functions
    used, k_of, span_of, _ = queries
    n = position.size
    top = np.int64(1)
    for i in range(used.size):
        top = max(top, k_of[used[i]])
    best, all_costs = np.empty(top), np.empty(n)
    for turn in range(used.size):
        q = used[turn]
        k, gone = k_of[q], max(position[n - 1], newest) - span_of[q]
        find_costs(family, sign, point, weight, column, boxed, floor, ceiling, gate, q, x, np.int64(0), n, all_costs)
        held = np.int64(0)
        for i in range(sizes[turn]):
            if held < k and places[turn, i] > gone:
                best[held] = costs[turn, i]
                held += 1
        for e in range(n):
            held = note(all_costs, e, position[e] > gone, k, best, held, kept)
        held = np.int64(0)
        for e in range(n - 1, -1, -1):
            held = note(all_costs, e, True, k, best, held, kept)


@jit
def note(costs: Any, e: Any, lasts: Any, k: Any, best: Any, held: Any, kept: Any) -> Any:
    """Mark an event unless k are better, and put it among these if it lasts; return how many they are."""
    c = costs[e]
    if c != c or (held == k and c > best[k - 1]):
        return held
    kept[e] = True
    if not lasts:
        return held
    i = held if held < k else k - 1
    while i > 0 and best[i - 1] > c:
        best[i] = best[i - 1]
        i -= 1
    best[i] = c
    return min(held + 1, k)
