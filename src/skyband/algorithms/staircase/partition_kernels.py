"""Sealing panes partition by partition: what is kept of one partition fits the cache, and threads share none of it.

The rule is that of `seal_kernels`: a sealed event goes when K(p) better ones lie in its pane or later ones. Here one
partition after the other goes through all panes that are sealed together and answers all windows that end with them; a
pane costs only the partitions that it has events of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.staircase.seal_kernels import NEEDS_EVERY, find_needs, need
from skyband.compiled import jit
from skyband.order import is_better

ROOM = 32  # so many events that only time can drop are left among those of a partition before it looks for them


@jit
def needs_by_round(
    cuts: Any, first: Any, rounds: Any, starts: Any, ks: Any, query: Any, following: Any, due_at: Any
) -> Any:  # fmt: skip
    """Return K(p), as `find_needs` does, for every few rounds, and for when all windows are answered.

    Round r seals pane `first` + r and answers the windows from ``due_at[r]`` on; `starts` is moved forward.
    """
    rows = -(-rounds // NEEDS_EVERY) + 1
    found = np.empty((rows, ks.max() + 1), np.int64)
    at = np.zeros(starts.size, np.int64)
    for r in range(rounds):
        if r % NEEDS_EVERY == 0:
            found[r // NEEDS_EVERY] = find_needs(cuts, starts, ks, at, first + r)
        for d in range(due_at[r], due_at[r + 1]):
            starts[query[d]] = following[d]
    found[rows - 1] = find_needs(cuts, starts, ks, at, first + rounds - 1)
    return found


@jit
def spread(slots: Any, pane: Any, of: Any, at: Any, out: Any, out_pane: Any) -> None:
    """Sort slots, stably, by the numbers that `of` has for them; those of number p go from ``at[p]`` on, moved here."""
    for i in range(slots.size):
        place = at[of[i]]
        out[place], out_pane[place] = slots[i], pane[i]
        at[of[i]] = place + 1


@jit
def merge_run(
    merit: Any, time: Any, key: Any, position: Any, slots: Any, panes: Any, dominated: Any, merits: Any,
    positions: Any, m: Any, run: Any, begin: Any, end: Any, pane: Any, since: Any, depth: Any, worst: Any,
) -> Any:  # fmt: skip
    """Merge the events of a newer pane, ``run[begin:end]``, into those of a partition, from the worst up.

    What is better than all of them is not touched. Returns the new number of events.
    """
    i, j = m - 1, end - begin - 1
    place = i + j + 1
    while j >= 0:
        a = run[begin + j]
        if i >= 0:
            b = slots[i]
            if merit[a] > merits[i] or (
                merit[a] == merits[i] and is_better(merit[a], time[a], key[a], merit[b], time[b], key[b])
            ):
                slots[place], panes[place], dominated[place] = b, panes[i], dominated[i] + j + 1
                merits[place], positions[place] = merits[i], positions[i]
                i -= 1
                place -= 1
                continue
        slots[place], panes[place], dominated[place] = a, pane, j
        merits[place], positions[place] = merit[a], position[a]
        j -= 1
        place -= 1
    return drop(slots, panes, dominated, merits, positions, i + 1, m + end - begin, since, depth, worst)


@jit
def drop(
    slots: Any, panes: Any, dominated: Any, merits: Any, positions: Any, begin: Any, end: Any, since: Any,
    depth: Any, worst: Any,
) -> Any:  # fmt: skip
    """Drop, from place `begin` on, the events that are dominated K(p) times; return how many are left in all."""
    size = begin
    for i in range(begin, end):
        pane = panes[i]
        if pane < since[min(dominated[i], since.size - 1)]:
            depth[pane], worst[pane] = min(depth[pane], need(since, pane)), max(worst[pane], merits[i])
            continue
        slots[size], panes[size], dominated[size] = slots[i], pane, dominated[i]
        merits[size], positions[size] = merits[i], positions[i]
        size += 1
    return size


@jit
def seal(
    events: Any, band: Any, fresh: Any, at: Any, low: Any, high: Any, first: Any, sinces: Any, due: Any, due_at: Any,
    depth: Any, worst: Any, picks: Any, counts: Any, out: Any,
) -> Any:  # fmt: skip
    """Seal panes for the partitions from `low` to `high`, and answer the windows that end with them.

    Parameters
    ----------
    events
        The store's columns.
    band, fresh, at
        The sealed events by partition, best first: slot, pane, dominated. The events to seal by partition and pane,
        best first: slot, pane. Where the sealed and the fresh events of each partition begin.
    low, high
        Which partitions, counted from the first one.
    first, sinces
        The first pane to seal, and what `needs_by_round` returned.
    due, due_at
        Windows to answer, in order of their ends: start, k, and where their room in `picks` begins: k slots for each
        partition. Which of them come before each round.
    depth, worst
        Per pane: the least K that anything was dropped by, and the best merit of that.
    picks, counts
        Out: slots of the answers, and how many each window has of each partition.
    out
        Out: the band from then on, from where the sealed and the fresh events of partition `low` begin.

    Returns
    -------
    Where the band's part ends in `out`.
    """
    merit, time, key, _, position = events
    b_slot, b_pane, b_dominated = band
    f_slot, f_pane = fresh
    band_at, fresh_at = at
    starts, ks, begins = due
    o_slot, o_pane, o_dominated = out
    rounds, room = due_at.size - 1, np.int64(0)
    for p in range(low, high):
        room = max(room, band_at[p + 1] - band_at[p] + fresh_at[p + 1] - fresh_at[p])
    slots, merits = np.empty(room, np.int32), np.empty(room)
    panes, dominated, positions = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    written = band_at[low] + fresh_at[low]
    for p in range(low, high):
        begin, f, f_end = band_at[p], fresh_at[p], fresh_at[p + 1]
        m = band_at[p + 1] - begin
        for i in range(m):
            slot = b_slot[begin + i]
            slots[i], panes[i], dominated[i] = slot, b_pane[begin + i], b_dominated[begin + i]
            merits[i], positions[i] = merit[slot], position[slot]
        most = 2 * m + ROOM
        d = 0
        while True:
            pane = f_pane[f] if f < f_end else first + rounds
            for w in range(d, due_at[pane - first] if m > 0 else 0):
                n = begins[w] + p * ks[w]
                full, start, i = n + ks[w], starts[w], 0
                while n < full and i < m:
                    picks[n] = slots[i]
                    n += positions[i] >= start
                    i += 1
                counts[w, p] = n - begins[w] - p * ks[w]
            d = due_at[pane - first]
            if f == f_end:
                break
            end = f + 1
            while end < f_end and f_pane[end] == pane:
                end += 1
            since = sinces[(pane - first) // NEEDS_EVERY]
            m = merge_run(
                merit, time, key, position, slots, panes, dominated, merits, positions, m, f_slot, f, end, pane, since,
                depth, worst,
            )  # fmt: skip
            if m > most:
                m = drop(slots, panes, dominated, merits, positions, 0, m, since, depth, worst)
                most = 2 * m + ROOM
            f = end
        m = drop(slots, panes, dominated, merits, positions, 0, m, sinces[-1], depth, worst)
        for i in range(m):
            o_slot[written], o_pane[written], o_dominated[written] = slots[i], panes[i], dominated[i]
            written += 1
    return written


@jit
def close_up(picks: Any, ks: Any, begins: Any, counts: Any, offsets: Any, low: Any, high: Any, out: Any) -> None:
    """Write the answers of the windows from `low` to `high` without room between partitions."""
    for w in range(low, high):
        n = offsets[w]
        for p in range(counts.shape[1]):
            begin = begins[w] + p * ks[w]
            for i in range(begin, begin + counts[w, p]):
                out[n] = picks[i]
                n += 1
