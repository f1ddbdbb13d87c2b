"""PH-Base: one window for all queries, cut into small partitions that keep candidates.

Choose it to compare with the papers; `phtree` is the better half.

Guarantees: exact; every partition keeps its meaningful events for the largest k of all queries, until it leaves the
longest window. An event that arrives costs one comparison with the K-th best of its partition, however many
queries there are; an answer a search among all partitions of its window.

Invariant: an event that a coming window can answer with is a candidate of its partition.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=2, score="x", window=sb.Window(4, slide=2))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="phbase")]
[[0, 1], [0, 2], [2, 4], [4, 5]]

Notes
-----
Zhu et al., *Multiple Continuous Top-k Queries over Data Stream*, named as a competitor in the experiments of STKQF,
with a remark: smaller partitions, and more candidates. What was reconstructed is said in
`skyband.algorithms.stkqf.partitions`; here also: partitions are an eighth of the shortest window wide.
"""

from __future__ import annotations

from skyband.algorithms.in_order import Keeper, MetaQuery
from skyband.algorithms.stkqf.partitions import Partitioned, Partitions, needs_of


class PHBase(Partitioned):
    """Small partitions for all queries."""

    name = "phbase"
    summary = "small partitions for all queries keep candidates (PH-Base)"

    def keeper(self, first: int) -> Keeper:
        """Make partitions for all queries."""
        members = MetaQuery.of(self.schedules).members
        sizes = [member.size for member in members]
        return Partitions(self.arena, needs_of(members), first, max(min(sizes) // 8, 1), max(sizes), tree=False)
