"""The MTopS framework: many queries become one *meta query*, whose windows are predicted views.

A *view* is where windows start: all events from there on. Windows of several queries may share it; it holds as many
events as the deepest of those that are still to be answered asks for.

Paper → code (Shastri 2011):

- chapter 3, the multi-query analyser (MQA), and sections 4.2 to 4.6 → `skyband.algorithms.in_order.meta_query`
- chapter 3, the run-time scheduler (RMQS); figure 6.3, lines 2, 4 and 5 → `Scheduler`
- section 4.6, the adaptive k of a view → `stairs`
- chapters 5 and 6, the executor and its infrastructure → `skyband.algorithms.mtops.mtopband`,
  `skyband.algorithms.mtops.top_list`
- chapter 7, the query result extractor (QRE) → `skyband.algorithms.in_order.extract`

References
----------
Shastri, *MTopS: Multi-Query Optimization for Continuous Top-K Query Workloads*, 2011, chapters 3, 4 and 7. Where
its examples contradict each other, the tests say which reading was taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyband.algorithms.in_order import InOrder
from skyband.order import IntArray, rank_in_runs
from skyband.windows import NEVER, Schedule, layout, progressions


class Scheduler:
    """Says when views open, when they need fewer events, and when they close.

    `members` are the queries' windows, each once. No window matters that ends before the `first` event.
    """

    def __init__(self, members: Sequence[Schedule], first: int) -> None:
        self.members = members
        nexts = (max(m.first_start_from(first - m.size + 1), m.next_start) for m in members)
        self.next_start = np.array(list(nexts), np.int64)
        self.steps = np.empty((3, 0), np.int64)

    def until(self, passed: int) -> tuple[IntArray, IntArray]:
        """Return what happens up to a moment, in order: the views that open (start, k), and steps (when, start, k).

        With a step, once the windows that end then are answered, the view of that start needs only k; 0 closes it.
        """
        sizes, slides, _, ks, *_ = layout(self.members)
        number = np.maximum(-((self.next_start - passed) // slides), 0)  # of windows that start before `passed`
        which, start = progressions(self.next_start, slides, number)
        self.next_start += number * slides
        opened, steps = stairs(start, start + sizes[which], ks[which])
        steps = np.concatenate([self.steps, steps], axis=1)
        steps = steps[:, np.lexsort(steps[:1])]
        due = int(np.searchsorted(steps[0], passed, side="right"))
        self.steps = steps[:, due:]
        return opened, np.ascontiguousarray(steps[:, :due])  # one kind of array: kernels are compiled for each


def stairs(start: IntArray, end: IntArray, k: IntArray) -> tuple[IntArray, IntArray]:
    """Turn windows into views: how deep each view is when it opens, and how that falls as its windows are answered.

    Examples
    --------
    A view that serves windows until 8 (k = 5), 10 (k = 1) and 12 (k = 3): 5 deep, from 8 on 3, after 12 not at all.

    >>> opened, steps = stairs(np.array([4, 4, 4]), np.array([8, 10, 12]), np.array([5, 1, 3]))
    >>> opened.tolist(), sorted(steps.T.tolist())
    ([[4], [5]], [[8, 4, 3], [12, 4, 0]])
    """
    order = np.lexsort((-k, -end, start))  # view by view, from the last end back
    start, end, k = start[order], end[order], k[order]
    first = rank_in_runs(start) == 0
    view = np.cumsum(first) - 1
    width = int(k.max(initial=0)) + 1
    deepest = np.maximum.accumulate(view * width + k) - view * width
    before = np.concatenate([[0], deepest[:-1]])
    before[first] = 0
    step = deepest > before
    last = np.flatnonzero(np.append(first[1:], True)) if len(order) else np.empty(0, np.int64)
    return np.stack([start[last], deepest[last]]), np.stack([end[step], start[step], before[step]])


class Predicting(InOrder):
    """Algorithms that keep what is in a predicted view of some query."""

    by_panes = True

    def exact_before(self, schedule: Schedule, start: int) -> bool:
        """Tell whether some exact query has a view there that is deep enough."""
        return any(
            s.k >= schedule.k
            and (start - s.phase) % s.slide == 0
            and start >= s.exact_from
            and start >= s.next_start > NEVER
            for s in self.schedules
        )
