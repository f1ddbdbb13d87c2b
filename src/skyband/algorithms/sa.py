"""Strict candidate pruning: a query keeps exactly its k-skyband, event by event.

Choose it to compare with the paper; for one query with a short answer.

Guarantees: exact; keeps about k ln(n/k) events per query of a stream in random order, and no more than the k-skyband
ever. Every event enters the band of every query, since nothing younger beats it yet, and each step walks along the
worse part of it.

Invariant: an event is in a query's band if and only if it lies in the window and fewer than k better ones leave it no
earlier.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="sa")]
[[0], [0], [0], [2], [2], [4]]

Notes
-----
Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, sections 3 and
4; the strict k-skyband is that of Böhm et al. [2007]. Sorted arrays take the place of the trees. How often an event
is beaten is counted as better ones come, so nothing is counted twice.
"""

from __future__ import annotations

from skyband.algorithms.sliding import Sliding
from skyband.skybands import STRICT, Method


class SA(Sliding):
    """Strict bands."""

    name = "sa"
    summary = "keeps exactly the k-skyband of each query, event by event (strict)"
    method = Method(STRICT)
