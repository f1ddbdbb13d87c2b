"""MinTopK: each query has a list of its own of what is in one of its predicted views.

Choose it to compare with the papers, for one query at a time.

Guarantees: exact; keeps, query by query, the minimal set: about 2k events on average. An event that arrives costs
one comparison per query and 64 views, and one step along the list for each view that it enters: any ratio of
window to slide, no recomputation. A thousand queries cost a thousand times as much as one.

Invariant: an event is in a query's list if and only if a window of it that is still to be answered would have it,
if no more came.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=2, score="x", window=sb.Window(4, slide=2))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="mintopk")]
[[0, 1], [0, 2], [2, 4], [4, 5]]

Notes
-----
Yang et al., *An Optimal Strategy for Monitoring Top-k Queries in Streaming Windows*, as told in Zahmatkesh and
Della Valle, *Relevant Query Answering over Streaming and Distributed Data* (AcquaTop), section 3.1, and in Shastri's
thesis on MTopS. The super-top-k list has starting and ending window marks and a lower-bound pointer per window. It is
the list of `mtoplist` with one query in it: with one k, an event that has left a view does not come back.
Queries with the same windows share one list, which is as deep as the deepest of them.
"""

from __future__ import annotations

from skyband.algorithms.in_order import Keeper, MetaQuery, PerQuery
from skyband.algorithms.mtops.top_list import TopList
from skyband.algorithms.mtops.views import Predicting


class MinTopK(Predicting):
    """A super-top-k list per query."""

    name = "mintopk"
    summary = "a list with marks and pointers per query; what it keeps is minimal (MinTopK)"

    def keeper(self, first: int) -> Keeper:
        """Make a list per query."""
        members = MetaQuery.of(self.schedules).members
        return PerQuery([(member, TopList(self.arena, [member], first)) for member in members])
