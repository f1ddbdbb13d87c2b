"""MTopList: one list of all events that are in a predicted view of any query.

Choose it to compare with the thesis, or where memory is all that counts: nobody can keep fewer events.

Guarantees: exact; keeps the minimal set, that is the events which would be in an answer if no more came (Theorem
5.1.1). An event that arrives is compared with a bar per 64 views, and with each view whose bar it may pass; each view
that it enters costs one step along the list. Count and time windows of any size, slide and k.

Invariant: an event is in the list if and only if a view of a window that is still to be answered holds it.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window(4, slide=2))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="mtoplist")]
[[0], [0], [2], [4]]

Notes
-----
Shastri, *MTopS: Multi-Query Optimization for Continuous Top-K Query Workloads*, chapter 6. The thesis marks each
event with the first and the last view that hold it, and points from each view to the worst event it holds. Both are
needed: where k differs from view to view, an event may leave and come back (its Observation 2).

Left open there: how the place of an event in the list is found (here by a skip list); how views whose bars do not
fall with their age are found that an event enters (here by the least bar of 64 neighbours); what happens when a view
serves windows that end at different times (here it holds fewer events once the deeper ones are answered, which the
minimal set demands); late events (they enter the views that reach back to them); queries that come later (their
views are made of what is kept, and are exact where another query has a view of that start and depth).
"""

from __future__ import annotations

from skyband.algorithms.in_order import MetaQuery
from skyband.algorithms.mtops.top_list import TopList
from skyband.algorithms.mtops.views import Predicting


class MTopList(Predicting):
    """The list of the meta query."""

    name = "mtoplist"
    summary = "one list with marks and pointers for all predicted views of all queries (MTopS)"

    def keeper(self, first: int) -> TopList:
        """Make one list for all queries."""
        return TopList(self.arena, MetaQuery.of(self.schedules).members, first)
