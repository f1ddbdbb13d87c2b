"""The work that any algorithm has which keeps a list for each predicted view: how many there are, and who enters.

A *view* is all events from the start of a window on; it holds the best k until the window is answered. It is counted
here from the queries and the scores alone, so that the figures say nothing about how an algorithm was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Self

import numpy as np

from skyband.order import FloatArray, IntArray
from skyband.queries.query import Query


@dataclass(frozen=True)
class Views:
    """Views by where they start and end, and how many events they hold."""

    start: IntArray
    end: IntArray
    k: IntArray

    @classmethod
    def of(cls, queries: Sequence[Query], until: int, *, shared: bool) -> Self:
        """Return the views of all windows that hold events from 0 on and before `until`.

        Parameters
        ----------
        queries
            Whose windows; queries with the same windows count as one, with the largest k.
        until
            Where the stream ends.
        shared
            Whether windows of several queries that start together have one view, which is open until the last of
            them is answered.

        Examples
        --------
        >>> from skyband.queries.query import Window
        >>> deep, short = Window(8, slide=4), Window(4)
        >>> queries = [Query("a", k=3, score="x", window=deep), Query("b", k=1, score="x", window=short)]
        >>> [Views.of(queries, 8, shared=shared).start.tolist() for shared in (False, True)]
        [[-4, 0, 4, 0, 4], [-4, 0, 4]]
        """
        depth: dict[tuple[int, int, int], int] = {}
        for query in queries:
            same = query.window.size, query.window.slide, query.window.offset
            depth[same] = max(query.most_rows, depth.get(same, 0))
        parts = []
        for (size, slide, offset), k in depth.items():
            first = (offset - size) // slide + 1  # of the windows that end after 0
            start = np.arange(first, -(-(until - offset) // slide)) * slide + offset
            parts.append((start, start + size, np.full(len(start), k)))
        start, end, ks = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(start, end, ks) if not shared else cls(*_merged(start, end, ks))

    def mean_open(self, until: int) -> float:
        """Return how many views are open on average."""
        inside = np.minimum(self.end, until) - np.maximum(self.start, 0)
        return float(inside.sum() / until)

    def entered(self, scores: FloatArray, step: int, sample: int = 500) -> float:
        """Return how many views an event enters on average, from about `sample` of the views."""
        every = max(1, len(self.start) // sample)
        chosen = slice(None, None, every)
        low = -(-np.maximum(self.start[chosen], 0) // step)
        high = -(-self.end[chosen] // step)
        found = sum(entries(scores[a:b], k) for a, b, k in zip(low, high, self.k[chosen].tolist(), strict=True))
        return found * every / len(scores)


def _merged(start: IntArray, end: IntArray, k: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    order = np.argsort(start, kind="stable")
    first = np.flatnonzero(np.diff(start[order], prepend=start.min() - 1))
    return start[order][first], np.maximum.reduceat(end[order], first), np.maximum.reduceat(k[order], first)


def entries(scores: FloatArray, k: int) -> int:
    """Return how many events are among the best k so far when they arrive; of equal ones the later is the better.

    Examples
    --------
    >>> entries(np.array([5.0, 1.0, 4.0, 4.0, 3.0]), 2)
    4
    """
    best = scores[:k].tolist()
    heapify(best)
    count = at = len(best)
    while at < len(scores):
        block = scores[at : 2 * at]  # what cannot enter now cannot later either
        for score in block[block >= best[0]].tolist():
            if score >= best[0]:
                heapreplace(best, score)
                count += 1
        at *= 2
    return count
