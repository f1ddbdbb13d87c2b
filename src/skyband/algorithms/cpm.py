"""CPM/w: a query keeps its best k, and starts from scratch when one of them leaves.

Choose it to compare with the papers, for short answers.

Guarantees: exact; keeps every event of the longest window, in a grid, and k references per query. An event that is
not as good as the worst of the best k costs one comparison per query that watches its cell. When one of the best
leaves, the best k are looked for in the grid, from the best cell on.

Invariant: a query's list is the best k of its window, or all of it where there are fewer.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="cpm")]
[[0], [0], [0], [2], [2], [4]]

Notes
-----
Mouratidis and Papadias, *Continuous Nearest Neighbor Queries over Sliding Windows*, as told in Pripužić, Podnar Žarko
and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 2.
"""

from __future__ import annotations

from skyband.algorithms.sliding import Sliding
from skyband.exhaustive import CPM as KIND
from skyband.exhaustive import Exhaustive
from skyband.skybands import Method


class CPM(Sliding):
    """The best k, over a grid of all events."""

    name = "cpm"
    summary = "keeps the best k of each query, and every event in a grid to start from scratch (CPM/w)"
    method = Method(KIND)
    engine = Exhaustive
