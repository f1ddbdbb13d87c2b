"""SAP, PH-Base and PH-Tree: candidates are kept partition by partition.

Choose them to compare with the papers; ``phtree`` is the best of them.

=================  ==============================  ============================================================
paper              code                            what is kept, and what an answer costs
=================  ==============================  ============================================================
SAP, M-SAP         `SAP`: partitions per query,    about ``k ln(n/k) + k`` events a query; a thousand queries
                   about the root of n/slide       cost a thousand times as much as one; an answer searches the
                                                   partitions of its window
PH-Base            `PHBase`: partitions for all    the same for the largest k, until it leaves the longest
                   queries, an eighth of the       window; an answer searches all partitions of its window
                   shortest window wide
PH-Tree            `PHTree`: partitions for all    the same, less what enough better events of later partitions
(STKQF, §2.3)      queries under a tree, half as   outlive; an answer visits the partitions it takes an event
                   wide as the shortest window     from, and their neighbours in the tree
=================  ==============================  ============================================================

Guarantees: exact; every partition keeps its meaningful events, which are all of them where scores fall. An event that
arrives costs one comparison with the K-th best of its partition (for SAP, per query).

Invariant: an event that a coming window can answer with is a candidate of its partition.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=2, score="x", window=sb.Window(4, slide=2))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> for algorithm in (SAP, PHBase, PHTree):
...     answers = sb.run([q], events, time="t", id="id", algorithm=algorithm.name)
...     assert [[row.id for row in a.rows] for a in answers] == [[0, 1], [0, 2], [2, 4], [4, 5]], algorithm.name

Notes
-----
Zhu et al., *SAP: Improving Continuous Top-k Queries over Streaming Data*, outlined in the related work of STKQF; Zhu et
al., *Multiple Continuous Top-k Queries over Data Stream* (PH-Base, PH-Tree), reviewed in its section 2.3 and named in
its experiments, with a remark: smaller partitions, and more candidates. What was reconstructed is said in
`skyband.algorithms.stkqf.partitions`; here also: how wide partitions are. The root balances how many there are
against how many events one has. Dominated candidates of a PH-Tree are dropped when they have doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import ClassVar

from skyband.algorithms.in_order import CandidateKeeper, InOrder, MetaQuery, PerQuery
from skyband.algorithms.stkqf.partitions import Needs, Partitions
from skyband.windows import NEVER, Schedule


class Partitioned(InOrder):
    """Algorithms that keep candidates partition by partition."""

    def exact_before(self, schedule: Schedule, start: int) -> bool:
        """Tell whether some exact query reaches back as far, and is as deep."""
        return any(
            s.k >= schedule.k and start >= s.exact_from and start >= s.next_start > NEVER for s in self.schedules
        )


class SAP(Partitioned):
    """Partitions per query."""

    name = "sap"
    summary = "partitions of each query's window keep candidates (SAP, for many queries M-SAP)"

    def keeper(self, first: int) -> CandidateKeeper:
        """Make partitions per query."""
        members = MetaQuery.of(self.schedules).members
        return PerQuery([(member, self._partitions(member, first)) for member in members])

    def _partitions(self, query: Schedule, first: int) -> Partitions:
        width = -(-query.size // isqrt(query.size // query.slide))
        return Partitions(self.store, needs_of([query]), first, width, query.size, tree=False)


class PHBase(Partitioned):
    """Small partitions for all queries."""

    name = "phbase"
    summary = "small partitions for all queries keep candidates (PH-Base)"
    share: ClassVar[int] = 8
    tree: ClassVar[bool] = False

    def keeper(self, first: int) -> CandidateKeeper:
        """Make partitions for all queries."""
        members = MetaQuery.of(self.schedules).members
        sizes = [member.size for member in members]
        width = max(min(sizes) // self.share, 1)
        return Partitions(self.store, needs_of(members), first, width, max(sizes), self.tree)


class PHTree(PHBase):
    """Partitions under a tree, for all queries."""

    name = "phtree"
    summary = "partitions under a tree for all queries keep candidates (PH-Tree)"
    share = 2
    tree = True


def needs_of(members: Sequence[Schedule]) -> Needs:
    """Return what queries need: the events from their next windows' starts on."""

    def needs(passed: int) -> list[tuple[int, int]]:
        return [(m.start(m.first_of(passed)), m.k) for m in members]

    return needs
