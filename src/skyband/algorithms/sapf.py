"""Strict candidate pruning behind a probabilistic filter over the most recent events.

Choose it to compare with the paper; `rapf` is the best of this kind.

Guarantees: exact; `skyband.algorithms.sliding` says what bands behind filters keep, and why nothing is missed.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="sapf")]
[[0], [0], [0], [2], [2], [4]]

Notes
-----
Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 5.
Candidates of the filter that have left the buffer stay until one of its best leaves it.
"""

from __future__ import annotations

from skyband.algorithms.sliding import Sliding
from skyband.skybands import PROBABLE, STRICT, Method


class SAPF(Sliding):
    """Strict bands, probabilistic filters."""

    name = "sapf"
    summary = "strict bands behind a probabilistic filter over recent events"
    method = Method(STRICT, PROBABLE)
