"""Relaxed candidate pruning: a query's band is pruned to the k-skyband only now and then.

Choose it over `sa` for long answers; over `rapf` only where no buffer is wanted.

Guarantees: exact; keeps at most (1 + γ) times the candidates of the k-skyband, γ = 0.2. An event is put into its
place, without a look at the others; the band is pruned when it has grown by γ.

Invariant: a query's band has every event of its k-skyband, and at most `limit` candidates.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="ra")]
[[0], [0], [0], [2], [2], [4]]

Notes
-----
Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 4.2,
algorithms 3 to 5. The first limit is 4k candidates. Candidates that have left the window stay until they are pruned
or come to the top, as there.
"""

from __future__ import annotations

from skyband.algorithms.sliding import Sliding
from skyband.skybands import RELAXED, Method


class RA(Sliding):
    """Relaxed bands."""

    name = "ra"
    summary = "prunes to the k-skyband when a band has grown by a fifth (relaxed)"
    method = Method(RELAXED)
