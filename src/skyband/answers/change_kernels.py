"""Comparing answers as columns: equal rows get one number, and by these it is found what left, entered or moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.compiled import jit

LEFT, ENTERED, MOVED, UPDATED = 0, 1, 2, 3
KINDS = ("left", "entered", "moved", "updated")


@jit
def number_alike(a: Any, b: Any, c: Any, d: Any, out: Any) -> None:
    """Give each row a number that it shares with the rows that are equal in all four columns: that of the first."""
    size = 16
    while size < 2 * a.size:
        size *= 2
    mask = np.uint64(size - 1)
    table = np.full(size, -1, np.int32)  # open addressing: a row
    odd = np.uint64(0x9E3779B97F4A7C15)
    for i in range(a.size):
        mixed = np.uint64(a[i]) * odd
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ np.uint64(b[i])) * odd
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ np.uint64(c[i])) * odd
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ np.uint64(d[i])) * odd
        place = (mixed ^ (mixed >> np.uint64(32))) & mask
        while True:
            j = table[place]
            if j < 0:
                table[place] = out[i] = i
                break
            if a[i] == a[j] and b[i] == b[j] and c[i] == c[j] and d[i] == d[j]:
                out[i] = out[j]
                break
            place = (place + np.uint64(1)) & mask


@jit
def compare(
    number: Any, rank: Any, score: Any, time: Any, pairs: Any, first: Any, offsets: Any, kinds: Any, rows: Any,
    previous: Any,
) -> Any:  # fmt: skip
    """Write what changed from answer to answer: what left, then what entered, moved or was updated, in order.

    Parameters
    ----------
    number, rank, score, time
        Of each row. Rows of one answer that are equal in all have one number, and follow one another.
    pairs
        Which rows each answer and the one before it have: begin and end of both.
    first
        A place for each number, -1 before and after.
    offsets, kinds, rows, previous
        Out: where the changes of each answer begin; of each change, what happened, to which row, and its rank before.

    Returns
    -------
    How many changes there are.
    """
    b_begin, b_end, a_begin, a_end = pairs
    n = 0
    offsets[0] = 0
    for answer in range(b_begin.size):
        begin, end = b_begin[answer], b_end[answer]
        stays = np.zeros(end - begin, np.bool_)
        for row in range(end - 1, begin - 1, -1):
            first[number[row]] = row
        start = n
        n += end - begin  # what left comes first: its room is closed up when it is known
        turn = 0
        for row in range(a_begin[answer], a_end[answer]):
            own = number[row]
            turn = turn + 1 if row > a_begin[answer] and number[row - 1] == own else 0
            old = first[own] + turn
            if first[own] < 0 or old >= end or number[old] != own:
                kinds[n], rows[n], previous[n] = ENTERED, row, 0
                n += 1
                continue
            stays[old - begin] = True
            if rank[row] != rank[old]:
                kinds[n], rows[n], previous[n] = MOVED, row, rank[old]
                n += 1
            elif score[row] != score[old] or time[row] != time[old]:
                kinds[n], rows[n], previous[n] = UPDATED, row, rank[old]
                n += 1
        found, place = n, start
        for row in range(begin, end):
            first[number[row]] = -1
            if not stays[row - begin]:
                kinds[place], rows[place], previous[place] = LEFT, row, rank[row]
                place += 1
        for i in range(start + end - begin, found):
            kinds[place], rows[place], previous[place] = kinds[i], rows[i], previous[i]
            place += 1
        n = place
        offsets[answer + 1] = n
    return n
