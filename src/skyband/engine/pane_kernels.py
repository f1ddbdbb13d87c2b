"""What is done to every row of aggregated queries: find its object and its pane, and add it to what is kept of both.

An *entry* is what is kept of one object and pane. Folding takes values one by one: `at` says which entry, or object,
each belongs to. Sums of floating-point numbers are pairs: the sum as it was rounded, and what rounding has lost so far
(Neumaier). Nothing is the sum -0.0, which no addition of numbers gives here, NaN for maxima and minima.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.compiled import inlined, jit

_MIX = 0x9E3779B97F4A7C15 - 2**64  # odd, with bits in all places: multiplicative hashing


@inlined
def _place(key: Any, slots: Any) -> Any:  # pragma: no cover - compiled
    mixed = key * _MIX
    return (mixed ^ (mixed >> 32)) & (slots.size - 1)


@jit
def find(keys: Any, slots: Any, known: Any, numbers: Any) -> int:
    """Write the number of each key, -1 for those without one; return how many these are."""
    missing = 0
    for i in range(keys.size):
        key = keys[i]
        place = _place(key, slots)
        number = slots[place]
        while number >= 0 and known[number] != key:
            place = (place + 1) & (slots.size - 1)
            number = slots[place]
        numbers[i] = number
        missing += number < 0
    return missing


@jit
def enter(keys: Any, slots: Any, known: Any, count: int, numbers: Any) -> int:
    """Give the keys without a number one each; return how many there are then. At most half of `slots` may fill."""
    for i in range(keys.size):
        if numbers[i] >= 0:
            continue
        key = keys[i]
        place = _place(key, slots)
        while slots[place] >= 0 and known[slots[place]] != key:
            place = (place + 1) & (slots.size - 1)
        if slots[place] < 0:
            if count == known.size or 2 * count >= slots.size:
                return -count - 1  # there is no room: some are left without
            slots[place] = count
            known[count] = key
            count += 1
        numbers[i] = slots[place]
    return count


@jit
def pane_runs(position: Any, phase: int, slide: int, rest: int, starts: Any, panes: Any) -> int:
    """Write where runs of positions in one pane begin, and which pane that is; return how many, or -1: too many."""
    count, low, high = 0, 0, 0
    for i in range(position.size):
        at = position[i]
        if low <= at < high:
            continue
        if count == starts.size:
            return -1
        slides = (at - phase) // slide
        low = phase + slides * slide
        high = low + slide
        second = rest > 0 and at - low >= rest
        if second:
            low += rest
        elif rest > 0:
            high = low + rest
        starts[count], panes[count] = i, 2 * slides + second
        count += 1
    return count


@jit
def entries(
    code: Any, starts: Any, time: Any, last: Any, base: int, at: Any, objects: Any, rows: Any, latest: Any, ends: Any,
) -> int:  # fmt: skip
    """Write which entry each row belongs to, and of each entry its object, its number of rows and its latest time.

    Run r of rows begins at ``starts[r]``, its entries end before ``ends[r]``. `last` has the number of each object's
    last entry, counted from `base` on in this call, so that it needs no clearing: numbers below are of calls before.
    Return how many entries there are.
    """
    count = 0
    for run in range(starts.size - 1):
        first = base + count
        for row in range(starts[run], starts[run + 1]):
            one = code[row]
            entry = last[one] - base
            if last[one] < first:
                entry = count
                count += 1
                last[one] = base + entry
                objects[entry], rows[entry], latest[entry] = one, 0, time[row]
            at[row] = entry
            rows[entry] += 1
            if time[row] > latest[entry]:
                latest[entry] = time[row]
        ends[run] = count
    return count


# Folding.


@jit
def add(at: Any, values: Any, total: Any) -> None:
    """Add integers."""
    for i in range(at.size):
        total[at[i]] += values[i]


@jit
def take_off(at: Any, values: Any, total: Any) -> None:
    """Subtract integers."""
    for i in range(at.size):
        total[at[i]] -= values[i]


@inlined
def _add_pair(high: Any, low: Any, place: Any, value: Any, rest: Any) -> None:  # pragma: no cover - compiled
    """Add a number and what it lacks to a pair."""
    before = high[place]
    total = before + value
    part = total - before
    lost = (before - (total - part)) + (value - part)
    high[place] = total
    if abs(total) < np.inf and abs(lost) < np.inf:  # infinities lose nothing
        low[place] += lost + rest


@jit
def add_floats(at: Any, values: Any, high: Any, low: Any) -> None:
    """Add numbers to pairs; NaN is none."""
    for i in range(at.size):
        value = values[i]
        if value == value:
            _add_pair(high, low, at[i], value + 0.0, 0.0)


@jit
def add_pairs(at: Any, more: Any, rest: Any, high: Any, low: Any) -> None:
    """Add pairs to pairs."""
    for i in range(at.size):
        if more[i] != 0.0 or not np.signbit(more[i]):
            _add_pair(high, low, at[i], more[i], rest[i])


@jit
def keep_largest(at: Any, values: Any, best: Any) -> None:
    """Keep the largest value; NaN is none."""
    for i in range(at.size):
        value, place = values[i], at[i]
        if value > best[place] or (best[place] != best[place]):
            best[place] = value


@jit
def keep_smallest(at: Any, values: Any, best: Any) -> None:
    """Keep the smallest value; NaN is none."""
    for i in range(at.size):
        value, place = values[i], at[i]
        if value < best[place] or (best[place] != best[place]):
            best[place] = value


# The best.


@jit
def reach(merit: Any, edges: Any, most: int, heap: Any, chosen: Any) -> int:
    """Write the rows that are no worse than the `most`-th best of their segment; return how many. NaN is in none.

    Segment s is from ``edges[s]`` to ``edges[s + 1]``. `heap` has room for `most` numbers.
    """
    found = 0
    for segment in range(edges.size - 1):
        size = 0
        for row in range(edges[segment], edges[segment + 1]):
            value = merit[row]
            if value != value:
                continue
            if size < most:  # rises from the last place
                place = size
                size += 1
                while place > 0 and heap[(place - 1) // 2] > value:
                    heap[place] = heap[(place - 1) // 2]
                    place = (place - 1) // 2
                heap[place] = value
            elif value > heap[0]:  # sinks from the first
                place = 0
                while 2 * place + 1 < size:
                    child = 2 * place + 1
                    if child + 1 < size and heap[child + 1] < heap[child]:
                        child += 1
                    if heap[child] >= value:
                        break
                    heap[place] = heap[child]
                    place = child
                heap[place] = value
        bar = heap[0] if size == most else -np.inf
        for row in range(edges[segment], edges[segment + 1]):
            if merit[row] >= bar:
                chosen[found] = row
                found += 1
    return found
