"""PH-Tree: one window for all queries, cut into partitions under a tree.

Choose it to compare with the papers.

Guarantees: exact; every partition keeps its meaningful events, and drops those that enough better ones of later
partitions outlive: enough for the largest k of the queries that still have a window over it. An event that arrives
costs one comparison with the K-th best of its partition, however many queries there are; an answer visits only those
partitions which it takes an event from, and their neighbours in the tree.

Invariant: an event that a coming window can answer with is a candidate of its partition.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=2, score="x", window=sb.Window(4, slide=2))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="phtree")]
[[0, 1], [0, 2], [2, 4], [4, 5]]

Notes
-----
Zhu et al., *Multiple Continuous Top-k Queries over Data Stream*, reviewed in section 2.3 of STKQF: a binary tree, each
leaf a partition, each inner node a stretch of them, the candidates organised as a max-heap; new candidates enter when
their partition is full. What was reconstructed is said in `skyband.algorithms.stkqf.partitions`; here also: partitions
are half as wide as the shortest window; beaten candidates are dropped when they have doubled.
"""

from __future__ import annotations

from skyband.algorithms.in_order import Keeper, MetaQuery
from skyband.algorithms.stkqf.partitions import Partitioned, Partitions, needs_of


class PHTree(Partitioned):
    """Partitions under a tree, for all queries."""

    name = "phtree"
    summary = "partitions under a tree for all queries keep candidates (PH-Tree)"

    def keeper(self, first: int) -> Keeper:
        """Make partitions for all queries."""
        members = MetaQuery.of(self.schedules).members
        sizes = [member.size for member in members]
        return Partitions(self.arena, needs_of(members), first, max(min(sizes) // 2, 1), max(sizes), tree=True)
