"""SAP: each query's window is cut into partitions, which keep candidates.

Choose it to compare with the papers, for one query at a time.

Guarantees: exact; keeps the meaningful events of each partition: about ``k ln(n/k) + k`` of n in random order, all of
them where scores fall. An event that arrives costs one comparison with the K-th best of its partition per query; an
answer a search among the partitions. A thousand queries cost a thousand times as much as one (M-SAP).

Invariant: an event that a coming window can answer with is a candidate of its partition.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=2, score="x", window=sb.Window(4, slide=2))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="sap")]
[[0, 1], [0, 2], [2, 4], [4, 5]]

Notes
-----
Zhu et al., *SAP: Improving Continuous Top-k Queries over Streaming Data*, outlined in the related work of STKQF. What
was reconstructed is said in `skyband.algorithms.stkqf.partitions`; here also: a window of n with slide s has about the
root of n/s partitions, which balances how many there are against how many events a partition has.
"""

from __future__ import annotations

from math import isqrt

from skyband.algorithms.in_order import Keeper, MetaQuery, PerQuery
from skyband.algorithms.stkqf.partitions import Partitioned, Partitions, needs_of
from skyband.windows import Schedule


class SAP(Partitioned):
    """Partitions per query."""

    name = "sap"
    summary = "partitions of each query's window keep candidates (SAP, for many queries M-SAP)"

    def keeper(self, first: int) -> Keeper:
        """Make partitions per query."""
        members = MetaQuery.of(self.schedules).members
        return PerQuery([(member, self._partitions(member, first)) for member in members])

    def _partitions(self, query: Schedule, first: int) -> Partitions:
        width = -(-query.size // isqrt(query.size // query.slide))
        return Partitions(self.arena, needs_of([query]), first, width, query.size, tree=False)
