"""Strict candidate pruning behind a strict filter over the most recent events.

Choose it to compare with the paper: the two k-skybands of Böhm et al. [2007].

Guarantees: exact; `skyband.algorithms.sliding` says what bands behind filters keep, and why nothing is missed.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="sasf")]
[[0], [0], [0], [2], [2], [4]]

Notes
-----
Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 5. A
strict filter is the approximate k-skyband of Böhm et al. [2007].
"""

from __future__ import annotations

from skyband.algorithms.sliding import Sliding
from skyband.skybands import STRICT, Method


class SASF(Sliding):
    """Strict bands, strict filters."""

    name = "sasf"
    summary = "strict bands behind a strict filter over recent events"
    method = Method(STRICT, STRICT)
