"""Sealing panes: merge each into the staircase skyband, drop what is dominated too often, answer due windows.

Throughout: `events` are the store's columns (merit, time, key, part, position) addressed by slot. A *band* is
the kept events of sealed panes as columns (slot, pane, dominated, merit, position), sorted by partition and then
best first; `dominated` counts the better events of the same partition in the same pane or later ones.
K(p) is how many of the best from pane p on some unanswered window may still ask for. It never falls from pane to
pane, so it is kept the other way round: `since[b]` is the first pane where an event dominated b times is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.panes import ANY_K
from skyband.compiled import jit
from skyband.order import is_better, precedes

NEEDS_EVERY = 8  # panes after which K(p) is found anew
FEW = 16  # recent events at least, before they are merged
NOWHERE = 2**60  # a pane that never comes
ALL, BEST, LATEST = 0, 1, 2  # which events of one id count in a window


@jit
def run_ends(slots: Any, pane: Any, part: Any, out: Any) -> Any:
    """Write where the runs of slots of one pane and partition end; return how many there are."""
    count = 0
    for i in range(1, slots.size):
        out[count] = i
        count += pane[i] != pane[i - 1] or part[slots[i]] != part[slots[i - 1]]
    out[count] = slots.size
    return count + (slots.size > 0)


@jit
def trim(slots: Any, pane: Any, ends: Any, k: Any, last: Any) -> Any:
    """Leave each run of slots its first `k`, in place.

    Returns how many slots are left, and how many runs have so many; `last` gets the places of their k-th.
    """
    size, full, begin = 0, 0, 0
    for r in range(ends.size):
        end = ends[r]
        for i in range(begin, min(end, begin + k)):
            slots[size], pane[size] = slots[i], pane[i]
            size += 1
        if end - begin >= k:
            last[full] = size - 1
            full += 1
        begin = end
    return size, full


@jit
def find_needs(cuts: Any, starts: Any, ks: Any, at: Any, last: Any) -> Any:
    """Return `since`, from K(p) as a staircase: from which pane on which k is needed, each more than the one before.

    Only queries count that none dominates: none whose next window starts as early or earlier asks for as many. What
    comes after pane `last` may be needed by all. `starts` are the queries' next windows' starts, `at` the panes they
    lie in, moved forward here.
    """
    panes, depths = np.empty(starts.size + 1, np.int64), np.empty(starts.size + 1, np.int64)
    count, most = 0, np.int64(0)
    for q in range(starts.size):
        if at[q] <= last and cuts[at[q] + 1] <= starts[q]:
            at[q] = min(np.searchsorted(cuts, starts[q], side="right") - 1, last + 1)
        k = ks[q]
        most = max(most, k)
        if at[q] > last:
            continue
        place = count
        while place > 0 and panes[place - 1] > at[q]:
            place -= 1
        if place > 0 and depths[place - 1] >= k:
            continue
        if place > 0 and panes[place - 1] == at[q]:
            place -= 1
        upper = place
        while upper < count and depths[upper] <= k:
            upper += 1
        if upper == place:
            for i in range(count, place, -1):
                panes[i], depths[i] = panes[i - 1], depths[i - 1]
        else:
            for i in range(upper, count):
                panes[place + 1 + i - upper], depths[place + 1 + i - upper] = panes[i], depths[i]
        count += 1 - (upper - place)
        panes[place], depths[place] = at[q], k
    if count == 0 or depths[count - 1] < most:
        panes[count], depths[count] = last + 1, most
        count += 1
    since = np.empty(most + 1, np.int64)
    step = 0
    for dominated in range(most):
        while depths[step] <= dominated:
            step += 1
        since[dominated] = panes[step]
    since[most] = NOWHERE
    return since


@jit
def need(since: Any, pane: Any) -> Any:
    """Return K(p)."""
    return np.searchsorted(since, pane, side="right")


@jit
def merge(
    mode: Any, events: Any, band: Any, at: Any, m: Any, fresh: Any, fresh_pane: Any, fresh_dominated: Any, codes: Any,
    since: Any, depth: Any, worst: Any, out: Any,
) -> Any:  # fmt: skip
    """Merge events of newer panes into the band from place `at` on, where ids count once.

    BEST: nothing goes here, `sweep` does that. LATEST: a fresh event replaces the id's earlier one, and what no window
    needs any more goes. `fresh_dominated` is how often each fresh event is dominated by others of them. Returns the new
    length.
    """
    merit, time, key, part, position = events
    code, fresh_code = codes
    b_slot, b_pane, b_dominated, b_merit, _b_position = band
    o_slot, o_pane, o_dominated, o_merit, o_position = out
    if mode == LATEST:
        for j in range(fresh.size):
            fresh_code[code[fresh[j]]] = fresh_pane[j]
    i = size = at
    j = better = 0
    current = np.int64(-(2**62))
    while i < m or j < fresh.size:
        take_fresh = i == m
        if i < m and j < fresh.size:
            a, b = fresh[j], b_slot[i]
            if part[a] != part[b]:
                take_fresh = part[a] < part[b]
            elif merit[a] != b_merit[i]:
                take_fresh = merit[a] > b_merit[i]
            else:
                take_fresh = is_better(merit[a], time[a], key[a], merit[b], time[b], key[b])
        slot = fresh[j] if take_fresh else b_slot[i]
        if part[slot] != current:
            current, better = part[slot], 0
        if take_fresh:
            where, dominated = fresh_pane[j], fresh_dominated[j]
            better += 1
            j += 1
        else:
            where, dominated = b_pane[i], b_dominated[i] + better
            i += 1
        lost = mode == LATEST and where < since[0]
        replaced = mode == LATEST and not lost and not take_fresh and fresh_code[code[slot]] >= 0
        if lost or replaced:
            depth[where] = min(depth[where], ANY_K if replaced else need(since, where))
            worst[where] = max(worst[where], merit[slot])
        o_slot[size], o_pane[size], o_dominated[size] = slot, where, dominated
        o_merit[size], o_position[size] = merit[slot], position[slot]
        size += not (lost or replaced)
    if mode == LATEST:
        for j in range(fresh.size):
            fresh_code[code[fresh[j]]] = -1
    return size


@jit
def merge_alone(
    merit: Any, time: Any, key: Any, b_slot: Any, b_pane: Any, b_dominated: Any, b_merit: Any, b_position: Any, at: Any,
    m: Any, r_slot: Any, r_pane: Any, r_dominated: Any, r_merit: Any, r_position: Any, size: Any, since: Any,
    depth: Any, worst: Any, o_slot: Any, o_pane: Any, o_dominated: Any, o_merit: Any, o_position: Any,
) -> Any:  # fmt: skip
    """Merge as `merge` does where all events count and there is but one partition: what most streams spend time on."""
    i = n = at
    for j in range(size + 1):
        threshold = r_merit[j] if j < size else -np.inf
        a = r_slot[j] if j < size else np.int32(-1)
        while i < m and b_merit[i] >= threshold:
            b = b_slot[i]
            if b_merit[i] == threshold and a >= 0 and is_better(merit[a], time[a], key[a], merit[b], time[b], key[b]):
                break
            pane, dominated = b_pane[i], b_dominated[i] + j
            o_slot[n], o_pane[n], o_dominated[n] = b, pane, dominated
            o_merit[n], o_position[n] = b_merit[i], b_position[i]
            if pane < since[min(dominated, since.size - 1)]:
                depth[pane], worst[pane] = min(depth[pane], need(since, pane)), max(worst[pane], b_merit[i])
            else:
                n += 1
            i += 1
        if a >= 0:
            pane, dominated = r_pane[j], r_dominated[j]
            o_slot[n], o_pane[n], o_dominated[n] = a, pane, dominated
            o_merit[n], o_position[n] = threshold, r_position[j]
            if pane < since[min(dominated, since.size - 1)]:
                depth[pane], worst[pane] = min(depth[pane], need(since, pane)), max(worst[pane], threshold)
            else:
                n += 1
    return n


@jit
def find_place(events: Any, band: Any, m: Any, fresh: Any) -> Any:
    """Return where in a band the best fresh event goes; what comes before is dominated by none of them."""
    merit, time, key, part, _ = events
    slots, a = band[0], fresh[0]
    low, high = 0, m
    while low < high:
        middle = (low + high) // 2
        b = slots[middle]
        if precedes(part[a], merit[a], time[a], key[a], part[b], merit[b], time[b], key[b]):
            high = middle
        else:
            low = middle + 1
    return low


@jit
def copy(source: Any, band: Any, begin: Any, end: Any) -> None:
    """Copy a stretch of one band into another."""
    band[0][begin:end] = source[0][begin:end]
    band[1][begin:end] = source[1][begin:end]
    band[2][begin:end] = source[2][begin:end]
    band[3][begin:end] = source[3][begin:end]
    band[4][begin:end] = source[4][begin:end]


@jit
def sweep(events: Any, band: Any, m: Any, codes: Any, last: Any, since: Any, depth: Any, worst: Any, out: Any) -> Any:
    """Count anew, from best to worst, and drop what is dominated; the general rule behind `merge`.

    An event of pane p goes when the same id (`code`) has a better event in panes >= p, or when K(p) other
    ids have one. With a code per event this is the rule for ids that may repeat. A Fenwick tree over the
    panes counts ids by the latest pane in which they have been met; `codes` is the code per slot and, per
    code, that pane (all -1 before and after). Returns the new length.
    """
    code, latest = codes
    part = events[3]
    b_slot, b_pane, _, b_merit, b_position = band
    o_slot, o_pane, o_dominated, o_merit, o_position = out
    oldest = min(since[0], last + 1)
    width = last - oldest + 2
    tree = np.zeros(width + 1, np.int64)
    current = np.int64(-(2**62))
    size = 0
    for i in range(m):
        slot, pane = b_slot[i], b_pane[i]
        needed = pane >= since[0]
        if part[slot] != current:
            current = part[slot]
            tree[:] = 0
        seen = latest[code[slot]]
        dominated = np.int64(0)
        if needed and seen < pane:
            at = last - pane + 1  # panes are counted from the last one back, so a prefix is "panes >= p"
            while at > 0:
                dominated += tree[at]
                at -= at & -at
        if not needed or seen >= pane or pane < since[min(dominated, since.size - 1)]:
            depth[pane] = min(depth[pane], ANY_K if needed and seen >= pane else need(since, pane))
            worst[pane] = max(worst[pane], b_merit[i])
            continue
        latest[code[slot]] = pane
        for where, change in ((pane, 1), (seen, -1)):
            if where >= 0:
                at = last - where + 1
                while at <= width:
                    tree[at] += change
                    at += at & -at
        o_slot[size], o_pane[size], o_dominated[size] = slot, pane, dominated
        o_merit[size], o_position[size] = b_merit[i], b_position[i]
        size += 1
    for i in range(size):
        latest[code[o_slot[i]]] = -1
    return size


@jit
def pick(
    events: Any, band: Any, m: Any, start: Any, k: Any, code: Any, stamp: Any, mark: Any, picks: Any, n: Any
) -> Any:
    """Take the first k events of each partition from `start` on, an id once if it has a code; return the new n."""
    slots, positions, part = band[0], band[4], events[3]
    current, left = np.int64(-(2**62)), 0
    for i in range(m):
        slot = slots[i]
        if part[slot] != current:
            current, left = part[slot], k
        if left > 0 and positions[i] >= start:
            if stamp.size > 0:
                if stamp[code[slot]] == mark:
                    continue
                stamp[code[slot]] = mark
            picks[n] = slot
            n += 1
            left -= 1
    return n


@jit
def add_recent(
    merit: Any, time: Any, key: Any, position: Any, r_slot: Any, r_pane: Any, r_dominated: Any, r_merit: Any,
    r_position: Any, size: Any, run: Any, pane: Any,
) -> Any:  # fmt: skip
    """Put a pane's events among the recent ones, from the worst up; return how many these are now."""
    i, j = size - 1, run.size - 1
    while j >= 0:
        new = run[j]
        place = i + j + 1
        if i >= 0 and not is_better(merit[r_slot[i]], time[r_slot[i]], key[r_slot[i]], merit[new], time[new], key[new]):
            r_slot[place], r_pane[place], r_dominated[place] = r_slot[i], r_pane[i], r_dominated[i] + j + 1
            r_merit[place], r_position[place] = r_merit[i], r_position[i]
            i -= 1
        else:
            r_slot[place], r_pane[place], r_dominated[place] = new, pane, j
            r_merit[place], r_position[place] = merit[new], position[new]
            j -= 1
    return size + run.size


@jit
def set_recent(part: Any, run: Any, pane: Any, r_slot: Any, r_pane: Any, r_dominated: Any) -> Any:
    """Make a pane's events, sorted by partition and best first, the recent ones; return how many there are."""
    better = 0
    for j in range(run.size):
        better = better + 1 if j > 0 and part[run[j]] == part[run[j - 1]] else 0
        r_slot[j], r_pane[j], r_dominated[j] = run[j], pane, better
    return run.size


@jit
def pick_alone(
    merit: Any, time: Any, key: Any, b_slot: Any, b_merit: Any, b_position: Any, m: Any, r_slot: Any, r_merit: Any,
    r_position: Any, size: Any, start: Any, k: Any, picks: Any, n: Any,
) -> Any:  # fmt: skip
    """Take the first k events of the only partition from `start` on, of a band and of the recent events beside it.

    It does not branch on whether an event is in the window: that would be mispredicted half of the time. Returns the
    new n.
    """
    i = j = 0
    full = n + k
    while n < full and (i < m or j < size):
        while j < size and r_position[j] < start:
            j += 1
        threshold = r_merit[j] if j < size else -np.inf
        while i < m and n < full and (b_merit[i] > threshold or j == size):
            picks[n] = b_slot[i]
            n += b_position[i] >= start
            i += 1
        if n == full or j == size:
            continue
        a, b = r_slot[j], b_slot[i] if i < m else r_slot[j]
        if i < m and not is_better(merit[a], time[a], key[a], merit[b], time[b], key[b]):
            picks[n] = b
            n += b_position[i] >= start
            i += 1
        else:
            picks[n] = a
            n += 1
            j += 1
    return n


@jit
def seal(
    events: Any, codes: Any, mode: Any, alone: Any, bands: Any, m: Any, fresh: Any, cuts: Any, first: Any, queries: Any,
    due: Any, depth: Any, worst: Any, picks: Any, offsets: Any,
) -> Any:  # fmt: skip
    """Seal panes in order and answer the windows that end with them.

    Parameters
    ----------
    events, codes, mode, alone
        The store's columns; per slot a code of its id (not for ALL) and how many codes there are; which events
        of an id count; whether there is but one partition, as for ALL (`partition_kernels` has several).
    bands, m
        The band and a second one of the same size to merge into; the band's length.
    fresh
        Slots of the panes to seal, pane by pane and sorted, and where each pane's end.
    cuts, first
        All cuts, and the first pane to seal.
    queries
        Per query: start of the next unanswered window (moved forward), k.
    due
        Windows to answer in order of their ends: query, start, end, and where the query's next one starts.
    depth, worst
        Per pane: the least K that anything was dropped by, and the best merit of that.
    picks, offsets
        Out: slots of the answers, and where each window's begin (one more than windows).

    Returns
    -------
    The band's new length, and which of the two bands it is in.
    """
    merit, time, key, part, position = events
    starts, ks = queries
    slots, ends = fresh
    at = np.zeros(starts.size, np.int64)
    since = find_needs(cuts, starts, ks, at, first - 1)
    code = codes[0]
    scratch = (code, np.full(codes[1], -1, np.int64))
    marks = np.full(codes[1] if mode == BEST else 0, -1, np.int64)
    side, n, d, begin, size, whole_at, needs_at = 0, 0, 0, 0, 0, first, first - NEEDS_EVERY
    room = np.int64(0)
    for r in range(ends.size):
        room = max(room, ends[r] - (ends[r - 1] if r > 0 else 0))
    # Where ids count, or panes are large, each pane is merged as it comes; many small ones together.
    # They wait until putting one more among them costs as much as its share of a merge.
    limit = FEW + 2 * np.int64(np.sqrt(m * (slots.size / ends.size))) if mode == ALL else 1
    r_slot, r_pane = np.empty(room + limit, np.int32), np.empty(room + limit, np.int64)
    r_dominated, r_merit, r_position = np.empty_like(r_pane), np.empty(room + limit), np.empty_like(r_pane)
    offsets[0] = 0
    for r in range(ends.size + 1):
        # One more round than panes: with nothing fresh, it drops what the last answers made useless.
        pane = min(first + r, first + ends.size - 1)
        end = ends[min(r, ends.size - 1)]
        if end > begin:
            if alone:
                size = add_recent(
                    merit, time, key, position, r_slot, r_pane, r_dominated, r_merit, r_position, size,
                    slots[begin:end], pane,
                )  # fmt: skip
            else:
                size = set_recent(part, slots[begin:end], pane, r_slot, r_pane, r_dominated)
            begin = end
        # What is better than a whole pane can only have expired. To look at it now and then is enough, and keeps
        # a stream of falling scores from costing a pass over the whole band for every pane.
        stale = r == ends.size or (pane - whole_at) ** 2 > 6 * (pane - since[0])
        if size >= limit or (stale and (m > 0 or size > 0)):
            band, out = bands[side], bands[1 - side]
            # K(p) only falls as windows are answered: what it was a few panes ago is safe, and a thousand queries
            # need not be looked at for every pane.
            if stale or pane - needs_at >= NEEDS_EVERY:
                since = find_needs(cuts, starts, ks, at, pane)
                needs_at = pane
            new = r_slot[:size]
            place = find_place(events, band, m, new) if mode == ALL and not stale else 0
            whole_at = pane if place == 0 else whole_at
            if 2 * place > m:
                copy(band, out, place, m)
                band, out = out, band
            else:
                copy(band, out, 0, place)
                side = 1 - side
            if mode == ALL:
                m = merge_alone(
                    merit, time, key, band[0], band[1], band[2], band[3], band[4], place, m, r_slot, r_pane,
                    r_dominated, r_merit, r_position, size, since, depth, worst, out[0], out[1], out[2], out[3], out[4],
                )  # fmt: skip
            else:
                m = merge(mode, events, band, place, m, new, r_pane, r_dominated, scratch, since, depth, worst, out)
            if mode == BEST:
                m = sweep(events, out, m, scratch, pane, since, depth, worst, band)
                side = 1 - side
            size = 0
        if r == ends.size:
            break
        while d < due[0].size and due[2][d] <= cuts[pane + 1]:
            q = due[0][d]
            band = bands[side]
            if alone and mode != BEST:
                n = pick_alone(
                    merit, time, key, band[0], band[3], band[4], m, r_slot, r_merit, r_position, size, due[1][d], ks[q],
                    picks, n,
                )  # fmt: skip
            else:
                n = pick(events, band, m, due[1][d], ks[q], code, marks, d, picks, n)
            d += 1
            offsets[d] = n
            starts[q] = due[3][d - 1]
    return m, side
