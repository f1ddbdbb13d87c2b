"""Sealing panes: merge each into the staircase skyband, drop what is beaten too often, answer due windows.

Throughout: `events` are the arena's columns (merit, time, key, part, position) addressed by slot. A *band* is
the kept events of sealed panes as columns (slot, pane, beaten, merit, position), sorted by partition and then
best first; `beaten` counts the better events of the same partition in the same pane or later ones.
`need[p]` is K(p): how many of the best from pane p on some unanswered window may still ask for.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from skyband.order import is_better

ALL, BEST, LATEST = 0, 1, 2  # which events of one id count in a window
UNTOUCHED = 2**62  # depth of a pane of which nothing was ever dropped
ANY_K = 2**61  # depth of a pane of which only events that the same id outdoes were dropped

jit: Any = numba.njit(cache=True, nogil=True)


@jit
def before(events: Any, a: Any, b: Any) -> Any:
    """Tell whether the event in slot a is sorted before the one in slot b."""
    merit, time, key, part, _ = events
    if part[a] != part[b]:
        return part[a] < part[b]
    return is_better(merit[a], time[a], key[a], merit[b], time[b], key[b])


@jit
def sort_runs(slots: Any, ends: Any, events: Any) -> None:
    """Sort each run of slots, in place and stably; run r ends before `ends[r]`."""
    spare = np.empty_like(slots)
    start = 0
    for r in range(ends.size):
        end = ends[r]
        width = 1
        while width < end - start:
            left = start
            while left + width < end:
                middle, right = left + width, min(left + 2 * width, end)
                if before(events, slots[middle], slots[middle - 1]):  # else the two halves are in order
                    i, j = left, middle
                    for place in range(left, right):
                        if i < middle and (j >= right or not before(events, slots[j], slots[i])):
                            spare[place] = slots[i]
                            i += 1
                        else:
                            spare[place] = slots[j]
                            j += 1
                    slots[left:right] = spare[left:right]
                left += 2 * width
            width *= 2
        start = end


@jit
def find_needs(cuts: Any, starts: Any, ks: Any, at: Any, last: Any, need: Any) -> Any:
    """Set need[p] = K(p) from the oldest pane that any query still needs up to `last`; return that pane.

    `starts` are the queries' next windows' starts, `at` the panes they lie in, moved forward here.
    """
    oldest = last + 1
    for q in range(starts.size):
        while at[q] <= last and cuts[at[q] + 1] <= starts[q]:
            at[q] += 1
        oldest = min(oldest, at[q])
    need[oldest : last + 1] = 0
    for q in range(starts.size):
        if at[q] <= last and need[at[q]] < ks[q]:
            need[at[q]] = ks[q]
    for p in range(oldest + 1, last + 1):
        need[p] = max(need[p], need[p - 1])
    return oldest


@jit
def put(band: Any, place: Any, slot: Any, pane: Any, beaten: Any, events: Any) -> None:
    """Write one event into a band."""
    band[0][place] = slot
    band[1][place] = pane
    band[2][place] = beaten
    band[3][place] = events[0][slot]
    band[4][place] = events[4][slot]


@jit
def copy(source: Any, i: Any, band: Any, place: Any, beaten: Any) -> None:
    """Copy one event from band to band."""
    band[0][place] = source[0][i]
    band[1][place] = source[1][i]
    band[2][place] = beaten
    band[3][place] = source[3][i]
    band[4][place] = source[4][i]


@jit
def fresh_first(events: Any, fresh: Any, band: Any, i: Any) -> Any:
    """Tell whether a fresh slot comes before entry i of a band (merit decides nearly always)."""
    slot = band[0][i]
    if events[3][fresh] == events[3][slot] and events[0][fresh] != band[3][i]:
        return events[0][fresh] > band[3][i]
    return before(events, fresh, slot)


@jit
def merge_all(events: Any, band: Any, m: Any, fresh: Any, pane: Any, oldest: Any, need: Any, depth: Any, out: Any) -> Any:
    """Merge a newer pane into the band; events beaten K(p) times go. Returns the new length.

    Every fresh event lies in a later pane than every kept one, so each raises `beaten` of all that come
    after it: a running number in one linear pass.
    """
    part = events[3]
    i = j = size = better = 0
    current = np.int64(-(2**62))
    while i < m or j < fresh.size:
        if j < fresh.size and (i == m or fresh_first(events, fresh[j], band, i)):
            slot = fresh[j]
            if part[slot] != current:
                current, better = part[slot], 0
            if better < need[pane]:
                put(out, size, slot, pane, better, events)
                size += 1
            else:
                depth[pane] = min(depth[pane], need[pane])
            better += 1
            j += 1
        else:
            slot = band[0][i]
            if part[slot] != current:
                current, better = part[slot], 0
            beaten, where = band[2][i] + better, band[1][i]
            limit = need[where] if where >= oldest else 0
            if beaten < limit:
                copy(band, i, out, size, beaten)
                size += 1
            else:
                depth[where] = min(depth[where], limit)
            i += 1
    return size


@jit
def merge_plain(events: Any, band: Any, m: Any, fresh: Any, pane: Any, out: Any) -> Any:
    """Merge a newer pane into the band and keep everything. Returns the new length."""
    i = j = size = 0
    while i < m or j < fresh.size:
        if j < fresh.size and (i == m or fresh_first(events, fresh[j], band, i)):
            put(out, size, fresh[j], pane, 0, events)
            j += 1
        else:
            copy(band, i, out, size, 0)
            i += 1
        size += 1
    return size


@jit
def sweep(
    events: Any, band: Any, m: Any, codes: Any, oldest: Any, last: Any, need: Any, depth: Any, out: Any
) -> Any:
    """Count anew, from best to worst, and drop what is beaten; the general rule behind `merge_all`.

    An event of pane p goes when the same id (`code`) has a better event in panes >= p, or when K(p) other
    ids have one. With a code per event this is the rule for ids that may repeat. A Fenwick tree over the
    panes counts ids by the latest pane in which they have been met; `codes` is the code per slot and, per
    code, that pane (all -1 before and after). Returns the new length.
    """
    code, latest = codes
    width = last - oldest + 2
    tree = np.zeros(width + 1, np.int64)
    part = events[3]
    current = np.int64(-(2**62))
    size = 0
    for i in range(m):
        slot, pane = band[0][i], band[1][i]
        limit = need[pane] if pane >= oldest else 0
        if part[slot] != current:
            current = part[slot]
            tree[:] = 0
        seen = latest[code[slot]]
        beaten = np.int64(0)
        if limit > 0 and seen < pane:
            at = last - pane + 1  # panes are counted from the last one back, so a prefix is "panes >= p"
            while at > 0:
                beaten += tree[at]
                at -= at & -at
        if limit == 0 or seen >= pane or beaten >= limit:
            depth[pane] = min(depth[pane], ANY_K if seen >= pane and limit > 0 else limit)
            continue
        latest[code[slot]] = pane
        for where, change in ((pane, 1), (seen, -1)):
            if where >= 0:
                at = last - where + 1
                while at <= width:
                    tree[at] += change
                    at += at & -at
        copy(band, i, out, size, beaten)
        size += 1
    for i in range(size):
        latest[code[out[0][i]]] = -1
    return size


@jit
def merge_latest(
    events: Any, band: Any, m: Any, fresh: Any, pane: Any, codes: Any, oldest: Any, depth: Any, out: Any
) -> Any:
    """Merge a newer pane of ids' latest events: each replaces the id's earlier one. Returns the new length."""
    code, newest = codes
    for j in range(fresh.size):
        newest[code[fresh[j]]] = pane
    i = j = size = 0
    while i < m or j < fresh.size:
        if j < fresh.size and (i == m or fresh_first(events, fresh[j], band, i)):
            put(out, size, fresh[j], pane, 0, events)
            j += 1
            size += 1
        else:
            if band[1][i] < oldest:
                depth[band[1][i]] = 0
            elif newest[code[band[0][i]]] < 0:
                copy(band, i, out, size, 0)
                size += 1
            else:
                depth[band[1][i]] = min(depth[band[1][i]], ANY_K)
            i += 1
    for j in range(fresh.size):
        newest[code[fresh[j]]] = -1
    return size


@jit
def pick(events: Any, band: Any, m: Any, start: Any, k: Any, code: Any, stamp: Any, mark: Any, picks: Any, n: Any) -> Any:
    """Take the first k events of each partition from `start` on, an id once if it has a code; return the new n."""
    part = events[3]
    once = stamp.size > 0
    current, left = np.int64(-(2**62)), 0
    many = m > 0 and part[band[0][0]] != part[band[0][m - 1]]
    if not many:
        left = k
    for i in range(m):
        if many:
            if part[band[0][i]] != current:
                current, left = part[band[0][i]], k
        elif left == 0:
            break
        if left > 0 and band[4][i] >= start:
            slot = band[0][i]
            if once:
                if stamp[code[slot]] == mark:
                    continue
                stamp[code[slot]] = mark
            picks[n] = slot
            n += 1
            left -= 1
    return n


@jit
def seal(
    events: Any, codes: Any, mode: Any, bands: Any, m: Any, fresh: Any, cuts: Any, first: Any, queries: Any,
    due: Any, depth: Any, picks: Any, offsets: Any,
) -> Any:  # fmt: skip
    """Seal panes in order and answer the windows that end with them.

    Parameters
    ----------
    events, codes, mode
        The arena's columns; per slot a code of its id (not for ALL) and how many codes there are; which events
        of an id count.
    bands, m
        The band and a second one of the same size to merge into; the band's length.
    fresh
        Slots of the panes to seal, pane by pane and sorted, and where each pane's end.
    cuts, first
        All cuts, and the first pane to seal.
    queries
        Per query: start of the next unanswered window (moved forward), k, slide.
    due
        Windows to answer in order of their ends: query, start, end.
    depth
        Per pane: the least K that anything was dropped by.
    picks, offsets
        Out: slots of the answers, and where each window's begin (one more than windows).

    Returns
    -------
    The band's new length, and which of the two bands it is in.
    """
    starts, ks, slides = queries
    slots, ends = fresh
    at = np.zeros(starts.size, np.int64)
    need = np.zeros(cuts.size, np.int64)
    code = codes[0]
    scratch = (code, np.full(codes[1], -1, np.int64))
    marks = np.full(codes[1] if mode == BEST else 0, -1, np.int64)
    side, n, d, begin = 0, 0, 0, 0
    offsets[0] = 0
    for r in range(ends.size + 1):
        # One more round than panes: with nothing fresh, it drops what the last answers made useless.
        pane = min(first + r, first + ends.size - 1)
        end = ends[min(r, ends.size - 1)]
        if end > begin or r == ends.size:
            band, out = bands[side], bands[1 - side]
            oldest = find_needs(cuts, starts, ks, at, pane, need)
            new = slots[begin:end]
            if mode == ALL:
                m = merge_all(events, band, m, new, pane, oldest, need, depth, out)
            elif mode == BEST:
                m = merge_plain(events, band, m, new, pane, out)
                m = sweep(events, out, m, scratch, oldest, pane, need, depth, band)
                side = 1 - side
            else:
                m = merge_latest(events, band, m, new, pane, scratch, oldest, depth, out)
            side = 1 - side
            begin = end
        if r == ends.size:
            break
        while d < due[0].size and due[2][d] <= cuts[pane + 1]:
            q = due[0][d]
            n = pick(events, bands[side], m, due[1][d], ks[q], code, marks, d, picks, n)
            d += 1
            offsets[d] = n
            starts[q] = due[1][d - 1] + slides[q]
    return m, side
