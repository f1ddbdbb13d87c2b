"""SNN: a query keeps the k-skyband of what is near, and starts from scratch when that runs out.

Choose it to compare with the papers, for short answers.

Guarantees: exact; keeps every event of the longest window, in a grid, and per query the k-skyband of what came in
within its threshold. It starts from scratch when fewer than k are left of that.

Invariant: of the events of a query's window that are as good as its threshold, all that fewer than k better ones
outlive are in its list.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="snn")]
[[0], [0], [0], [2], [2], [4]]

Notes
-----
Mouratidis and Papadias, *Continuous Nearest Neighbor Queries over Sliding Windows*, as told in Pripužić, Podnar Žarko
and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 2.
"""

from __future__ import annotations

from skyband.algorithms.sliding import Sliding
from skyband.exhaustive import SNN as KIND
from skyband.exhaustive import Exhaustive
from skyband.skybands import Method


class SNN(Sliding):
    """Skybands within a threshold, over a grid of all events."""

    name = "snn"
    summary = "keeps the k-skyband within a threshold, and every event in a grid to start from scratch (SNN)"
    method = Method(KIND)
    engine = Exhaustive
