"""One pass over arriving events: drop those that cannot be among the best K of their pane.

Each *slot pane* (a pane, or a pane of one partition) that the batch touches gets a buffer of a few K events.
Full buffers are cut back to their best K, which raises the pane's threshold; events below the threshold cost one
comparison, block by block. What is left at the end is a small superset of the best K of each pane: events
that tie with the K-th on merit and time are left in, since ids decide there.

A fresh pane begins with a *guess* for its threshold: what a few more than K events of the pane before it reached.
Guesses are verified: a pane that ends up with fewer than K events is passed over again without one.

Where scores rise, or are all alike, every event reaches the threshold. Then that is raised to what K later events of
the same pane have: they come, so it needs no verification.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.compiled import jit
from skyband.order import ALWAYS, NEVER

BLOCK = 256  # rows whose positions are looked at together
AHEAD = 1 << 16  # so far ahead a threshold is looked for where most events reach the one there is
STRIP = 64  # rows whose merits are compared with the threshold together
DONE, FULL, OUTSIDE = 0, 1, 2
NO_GUESS, FAILED = -1, -2
REJECTED, LATE, PARTLY, FIRST, LAST, IN_USE, TIED, NEWEST = 0, 1, 2, 3, 4, 5, 6, 7


@jit
def bounds(column: Any) -> Any:
    """Return the smallest and the largest value of a column that is not empty."""
    low = column[0]
    high = column[0]
    for value in column:
        low = min(low, value)
        high = max(high, value)
    return low, high


@jit
def count_from(merit: Any, threshold: Any) -> Any:
    """Count the merits that are not below a threshold; NaN counts too."""
    count = 0
    for value in merit:
        count += not (value < threshold)
    return count


@jit
def is_behind(merit: Any, time: Any, threshold: Any, threshold_time: Any) -> Any:
    """Tell whether no merit is above a threshold or NaN, and no time reaches its time: as where scores are alike."""
    above = later = 0
    for value in merit:
        above += not (value <= threshold)
    if above > 0:
        return False
    for value in time:
        later += value >= threshold_time
    return later == 0


@jit
def select_best(merit: Any, time: Any, row: Any, n: Any, k: Any) -> None:
    """Reorder the first n entries so that the best k by (merit, time) come first, in any order."""
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        pivot_merit, pivot_time = merit[middle], time[middle]
        i, j = low, high
        while i <= j:
            while merit[i] > pivot_merit or (merit[i] == pivot_merit and time[i] > pivot_time):
                i += 1
            while merit[j] < pivot_merit or (merit[j] == pivot_merit and time[j] < pivot_time):
                j -= 1
            if i <= j:
                merit[i], merit[j] = merit[j], merit[i]
                time[i], time[j] = time[j], time[i]
                row[i], row[j] = row[j], row[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            return


@jit
def keep_best(merit: Any, time: Any, row: Any, n: Any, k: Any) -> Any:
    """Cut n > k entries back to the best k and all that tie with the k-th on merit and time.

    Returns how many are left, and the merit and time of the k-th.
    """
    select_best(merit, time, row, n, k)
    threshold, threshold_time = merit[0], time[0]
    for i in range(1, k):
        if merit[i] < threshold or (merit[i] == threshold and time[i] < threshold_time):
            threshold, threshold_time = merit[i], time[i]
    left = k
    for i in range(k, n):
        if merit[i] == threshold and time[i] == threshold_time:
            merit[left], time[left], row[left] = merit[i], time[i], row[i]
            left += 1
    return left, threshold, threshold_time


@jit
def keep_best_ids(merit: Any, time: Any, row: Any, ident: Any, n: Any, k: Any) -> Any:
    """Do as `keep_best` for ids that count once: one entry an id, the best k ids and their ties."""
    ids = np.empty(n, np.int64)
    for i in range(n):
        ids[i] = ident[row[i]]
    order = np.argsort(ids)
    left = 0
    best = order[0]
    chosen = np.empty(n, np.int64)
    for place in range(1, n):
        i = order[place]
        if ids[i] != ids[best]:
            chosen[left] = best
            left += 1
            best = i
        elif merit[i] > merit[best] or (merit[i] == merit[best] and time[i] > time[best]):
            best = i
    chosen[left] = best
    left += 1
    kept = np.sort(chosen[:left])
    for place in range(left):
        i = kept[place]
        merit[place], time[place], row[place] = merit[i], time[i], row[i]
    if left <= k:
        return left, -np.inf, np.int64(-(2**63))
    return keep_best(merit, time, row, left, k)


@jit
def find_pane(cuts: Any, position: Any) -> Any:
    """Return the index of the pane that a position lies in (-1 or len(cuts) - 1: outside)."""
    low, high = 0, cuts.size
    while low < high:
        middle = (low + high) // 2
        if cuts[middle] <= position:
            low = middle + 1
        else:
            high = middle
    return low - 1


@jit
def scan(
    columns: Any, at: Any, stop: Any, panes: Any, thresholds: Any, pool: Any, guesses: Any, limits: Any, k: Any,
    seen: Any, late: Any,
) -> Any:  # fmt: skip
    """Pass over the rows from `at` to `stop`; fill the buffers with what may be kept.

    Parameters
    ----------
    columns
        merit, time, position, part (empty: one partition), ident (empty: ids may repeat).
    at, stop
        Which rows.
    panes
        cuts; per pane whether it begins without the threshold of the one before (empty: all do); the number of
        partitions.
    thresholds
        Per slot pane: merit and time of its K-th best so far, and its buffer's number (-1: none yet).
    pool
        merit, time and row of each buffer, how many entries each holds, and to which slot pane it belongs.
    guesses
        The guess for the next fresh pane (-inf: none); the buffer that was begun last and how many events a guess
        aims at (0: no guesses are made); per slot pane the row at which it began with a guess, or NO_GUESS, or
        FAILED minus that row.
    limits
        Positions before limits[0] missed all windows, those before limits[1] some.
    k
        How many events each pane keeps.
    seen
        Counts to add to: REJECTED, LATE, PARTLY, FIRST and LAST position of all rows, buffers
        IN_USE, and room for another one (see `heap_kernels`).
    late
        The rows that missed all windows, room for all of them.

    Returns
    -------
    DONE, or FULL (no room for a row) or OUTSIDE (a position beyond the cuts), and the row to go on from.
    """
    merit, time, position, part, ident = columns
    cuts, begins, partitions = panes
    threshold, threshold_time, buffer_of = thresholds
    pool_merit, pool_time, pool_row, filled, owner = pool
    guess, last, begun = guesses
    room = pool_merit.shape[1]
    found = np.empty(BLOCK, np.int64)  # the block's rows that are not below the threshold, and their slot panes
    found_slot = np.empty(BLOCK, np.int64)
    pane, pane_start, pane_end = -1, cuts[0], cuts[0]
    row = look_from = at
    while row < stop:
        end = min(row + BLOCK, stop)
        low, high = bounds(position[row:end])
        if low < cuts[0] or high >= cuts[-1]:
            return OUTSIDE, row
        seen[FIRST] = min(seen[FIRST], low)
        seen[LAST] = max(seen[LAST], high)
        if not pane_start <= low < pane_end:
            pane = find_pane(cuts, low)
            pane_start, pane_end = cuts[pane], cuts[pane + 1]
        count = 0
        if partitions == 1 and high < pane_end and low >= limits[1]:  # one pane, nothing late
            for begin in range(row, end, STRIP):
                until = min(begin + STRIP, end)
                strip, bar = merit[begin:until], threshold[pane]
                if count_from(strip, bar) > 0 and not is_behind(strip, time[begin:until], bar, threshold_time[pane]):
                    count = find_from(strip, threshold[pane], begin, found, count)
            found_slot[:count] = pane
        else:
            for i in range(row, end):
                where = position[i]
                if where < limits[0] and merit[i] == merit[i]:
                    continue
                if not pane_start <= where < pane_end:
                    pane = find_pane(cuts, where)
                    pane_start, pane_end = cuts[pane], cuts[pane + 1]
                slot = pane if partitions == 1 else pane * partitions + part[i]
                found[count], found_slot[count] = i, slot
                count += not merit[i] < threshold[slot]
        for c in range(count):
            i, slot = found[c], found_slot[c]
            value = merit[i]
            if value < threshold[slot] or (value == threshold[slot] and time[i] < threshold_time[slot]):
                continue
            if value != value:
                seen[REJECTED] += 1
                continue
            buffer = buffer_of[slot]
            if buffer < 0:
                full = seen[IN_USE] == filled.size
            else:
                full = filled[buffer] == room and not make_room(pool, thresholds, ident, buffer, slot, k)
            if full:
                count_late(merit, position, limits, row, i, seen, late)
                return FULL, i
            if buffer < 0:
                buffer = seen[IN_USE]
                buffer_of[slot], owner[buffer], filled[buffer] = buffer, slot, 0
                seen[IN_USE] += 1
                if begins.size and not begins[slot]:
                    if carry_on(pool, thresholds, begins, buffer, slot, k) and (
                        value < threshold[slot] or (value == threshold[slot] and time[i] < threshold_time[slot])
                    ):
                        continue
                elif last[1] > 0:
                    learn(pool, begun, guess, last, k)
                    last[0] = buffer
                    if threshold[slot] < guess[0] and begun[slot] == NO_GUESS:
                        threshold[slot], begun[slot] = guess[0], i
                        if value < guess[0]:  # must not count among the K that verify the guess
                            continue
            entry = filled[buffer]
            pool_merit[buffer, entry], pool_time[buffer, entry], pool_row[buffer, entry] = value, time[i], i
            filled[buffer] = entry + 1
        if low < limits[1]:
            count_late(merit, position, limits, row, end, seen, late)
        row = end
        if 2 * count > BLOCK and row >= look_from and partitions == 1 and ident.size == 0:
            look_from = look_ahead(
                merit, time, position, row, stop, pane_start, pane_end, limits[0], k, threshold, threshold_time, pane
            )
    return DONE, stop


@jit
def look_ahead(
    merit: Any, time: Any, position: Any, row: Any, stop: Any, pane_start: Any, pane_end: Any, late_before: Any, k: Any,
    threshold: Any, threshold_time: Any, pane: Any,
) -> Any:  # fmt: skip
    """Raise a pane's threshold to the worst of k events of it that come later; return the row to look from again."""
    ahead = AHEAD
    while ahead >= 8 * k and ahead >= 4 * BLOCK:
        at = row + ahead
        ahead //= 4
        if at > stop:
            continue
        left, worst, worst_time = k, np.inf, np.int64(2**63 - 1)
        for i in range(at - 1, at - 1 - 2 * k, -1):
            value = merit[i]
            if left > 0 and pane_start <= position[i] < pane_end and position[i] >= late_before and value == value:
                if value < worst or (value == worst and time[i] < worst_time):
                    worst, worst_time = value, time[i]
                left -= 1
        if left == 0:
            if worst > threshold[pane] or (worst == threshold[pane] and worst_time > threshold_time[pane]):
                threshold[pane], threshold_time[pane] = worst, worst_time
            return at - k
    return row + 4 * BLOCK


@jit
def carry_on(pool: Any, thresholds: Any, begins: Any, buffer: Any, slot: Any, k: Any) -> Any:
    """Let a new buffer begin with the best of the panes before, which count here too, and are no rows here.

    Returns whether that may have raised the pane's threshold.
    """
    merit, time, row, filled, _owner = pool
    threshold, threshold_time, buffer_of = thresholds
    before = slot - 1
    while buffer_of[before] < 0 and not begins[before]:
        before -= 1
    other = buffer_of[before]
    if other < 0:
        return False
    if filled[other] > k:
        filled[other], _, _ = keep_best(merit[other], time[other], row[other], filled[other], k)
    count = min(filled[other], k)
    merit[buffer, :count], time[buffer, :count], row[buffer, :count] = merit[other, :count], time[other, :count], -1
    filled[buffer] = count
    if count == k:
        low, low_time = merit[buffer, :count].min(), np.int64(2**63 - 1)
        for entry in range(count):
            if merit[buffer, entry] == low:
                low_time = min(low_time, time[buffer, entry])
        if low > threshold[slot] or (low == threshold[slot] and low_time > threshold_time[slot]):
            threshold[slot], threshold_time[slot] = low, low_time
    return count == k


@jit
def find_from(merit: Any, threshold: Any, begin: Any, found: Any, count: Any) -> Any:
    """Append the rows whose merits are not below a threshold, counted from `begin`; return the new count."""
    for i in range(merit.size):
        found[count] = begin + i
        count += not merit[i] < threshold
    return count


@jit
def count_late(merit: Any, position: Any, limits: Any, begin: Any, end: Any, seen: Any, late: Any) -> None:
    """Count the late and the partly late events among some rows."""
    for i in range(begin, end):
        if merit[i] == merit[i]:
            if position[i] < limits[0]:
                late[seen[LATE]] = i
                seen[LATE] += 1
            elif position[i] < limits[1]:
                seen[PARTLY] += 1


@jit
def learn(pool: Any, begun: Any, guess: Any, last: Any, k: Any) -> None:
    """Take the next guess from the pane that was begun last, unless its own was good enough.

    Where that one was too high, guessing is given up: scores fall, and every guess would be.
    """
    merit, time, row, filled, owner = pool
    buffer, target = last[0], last[1]
    if buffer < 0:
        return
    entries, guessed = filled[buffer], begun[owner[buffer]] >= 0
    if entries >= target and (not guessed or entries > 2 * target - k):
        filled[buffer], guess[0], _ = keep_best(merit[buffer], time[buffer], row[buffer], entries, target)
    elif entries < k and guessed:
        guess[0], last[1] = -np.inf, 0
    elif 2 * entries < k + target:
        guess[0] = -np.inf


@jit
def make_room(pool: Any, thresholds: Any, ident: Any, buffer: Any, slot: Any, k: Any) -> Any:
    """Cut a full buffer back and raise its threshold; False when ties leave it more than half full."""
    merit, time, row, filled, _owner = pool
    threshold, threshold_time, _buffer_of = thresholds
    entries = filled[buffer]
    if entries <= k:
        return False
    if ident.size:
        left, m, t = keep_best_ids(merit[buffer], time[buffer], row[buffer], ident, entries, k)
    else:
        left, m, t = keep_best(merit[buffer], time[buffer], row[buffer], entries, k)
    filled[buffer] = left
    if m > threshold[slot] or (m == threshold[slot] and t > threshold_time[slot]):
        threshold[slot], threshold_time[slot] = m, t
    return 2 * left <= merit.shape[1]


@jit
def drain(pool: Any, thresholds: Any, begun: Any, ident: Any, used: Any, k: Any) -> Any:
    """Empty the buffers; return the rows they hold, buffer by buffer, each cut back to its best.

    Buffers whose pane began with a guess and has fewer than k events give nothing: that guess was too high,
    and `begun` becomes FAILED minus the row to look again from. Other panes' guesses hold, and are forgotten.
    """
    merit, time, row, filled, owner = pool
    threshold, threshold_time, buffer_of = thresholds
    for buffer in range(used):
        slot = owner[buffer]
        if filled[buffer] < k and begun[slot] >= 0:
            begun[slot] = FAILED - begun[slot]
        if begun[slot] <= FAILED:
            filled[buffer] = 0
        else:
            begun[slot] = NO_GUESS
        if filled[buffer] > k:
            make_room(pool, thresholds, ident, buffer, slot, k)
    rows = np.empty(filled[:used].sum(), np.int64)
    total = 0
    for buffer in range(used):
        slot = owner[buffer]
        for entry in range(filled[buffer]):
            m, t = merit[buffer, entry], time[buffer, entry]
            worse = m < threshold[slot] or (m == threshold[slot] and t < threshold_time[slot])
            if row[buffer, entry] >= 0 and not worse:
                rows[total] = row[buffer, entry]
                total += 1
        buffer_of[slot] = -1
        filled[buffer] = 0
    return rows[:total]


EMPTY = -1


@jit
def slot_of(ident: Any, pane: Any, part: Any) -> Any:
    """Mix three numbers into one that looks random (multiplicative hashing with odd constants)."""
    mixed = np.uint64(ident) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.uint64(pane) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= np.uint64(part) * np.uint64(0x165667B19E3779F9)
    return mixed ^ (mixed >> np.uint64(29))


@jit
def keep_latest(ident: Any, pane: Any, part: Any, position: Any, merit: Any, time: Any) -> Any:
    """Return, in order, the rows that are the latest of their id in their pane and partition.

    Of several at the same position the best stays; of equal ones the first.
    """
    n = ident.size
    size = 16
    while size < 2 * n:
        size *= 2
    mask = np.uint64(size - 1)
    table = np.full(size, EMPTY, np.int64)  # open addressing: a row, or EMPTY
    for i in range(n):
        place = slot_of(ident[i], pane[i], part[i]) & mask
        while True:
            j = table[place]
            if j == EMPTY:
                table[place] = i
                break
            if ident[j] == ident[i] and pane[j] == pane[i] and part[j] == part[i]:
                if position[i] != position[j]:
                    later = position[i] > position[j]
                elif merit[i] != merit[j]:
                    later = merit[i] > merit[j]
                else:
                    later = time[i] > time[j]
                if later:
                    table[place] = i
                break
            place = (place + np.uint64(1)) & mask
    return np.sort(table[table != EMPTY])


@jit
def look(columns: Any, cuts: Any, bars: Any, late_before: Any, partly_before: Any, seen: Any, late: Any) -> Any:
    """Return the rows of a small batch that may be among the best K of their pane: buffers would cost more.

    Parameters
    ----------
    columns
        merit, time, position.
    cuts, bars
        The known cuts, and, pane by pane, merit and time of the K-th best event so far. A row outside of all panes is
        left in.
    late_before, partly_before
        Events before the one missed all windows, those before the other some.
    seen
        Out: how many rows are REJECTED, LATE and PARTLY late, FIRST and LAST position of the events, of all rows the
        NEWEST.
    late
        Out: the rows that missed all windows.
    """
    merit, time, position = columns
    bar, bar_time = bars
    rows = np.empty(merit.size, np.int64)
    count, pane = 0, 0
    seen[:3] = 0
    seen[FIRST], seen[LAST], seen[NEWEST] = ALWAYS, NEVER, NEVER
    for row in range(merit.size):
        where = position[row]
        seen[NEWEST] = max(seen[NEWEST], where)
        if merit[row] != merit[row]:
            seen[REJECTED] += 1
            continue
        if where < late_before:
            late[seen[LATE]] = row
            seen[LATE] += 1
            continue
        seen[PARTLY] += where < partly_before
        seen[FIRST], seen[LAST] = min(seen[FIRST], where), max(seen[LAST], where)
        if not (pane + 1 < cuts.size and cuts[pane] <= where < cuts[pane + 1]):
            pane = max(find_pane(cuts, where), 0)
        inside = pane + 1 < cuts.size and cuts[pane] <= where < cuts[pane + 1]
        if inside and (merit[row] < bar[pane] or (merit[row] == bar[pane] and time[row] < bar_time[pane])):
            continue
        rows[count] = row
        count += 1
    return rows[:count]
