"""Relaxed candidate pruning behind a relaxed filter over the most recent events.

Choose it to compare with the paper; `rapf` is the best of this kind.

Guarantees: exact; `skyband.algorithms.sliding` says what bands behind filters keep, and why nothing is missed.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="rarf")]
[[0], [0], [0], [2], [2], [4]]

Notes
-----
Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 5. A
relaxed filter is pruned when it has grown by a fifth.
"""

from __future__ import annotations

from skyband.algorithms.sliding import Sliding
from skyband.skybands import RELAXED, Method


class RARF(Sliding):
    """Relaxed bands, relaxed filters."""

    name = "rarf"
    summary = "relaxed bands behind a relaxed filter over recent events"
    method = Method(RELAXED, RELAXED)
