"""Probabilistic candidate pruning: a query keeps its best k and a fixed number of candidates.

Choose it for streams in random order, where a missed event in a thousand windows does not matter and speed does.

Guarantees: less than an error of σ = 0.001 events missed per window and query, for a stream in random order; none for
one that is correlated in time. Keeps k and some dozens of candidates: `skyband.probability` says how many. Most
events cost one comparison per query.

Invariant: nothing outside of a full band was better, when it came, than the threshold at that time.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="pa")]
[[0], [0], [0], [2], [2], [4]]

Notes
-----
Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 4.1,
algorithms 1 and 2. Of time windows the number of events is estimated. There is one query per band here, so additional
candidates, which make an index move less, are of no use.
"""

from __future__ import annotations

from skyband.algorithms.sliding import Sliding
from skyband.skybands import PROBABLE, Method


class PA(Sliding):
    """Probabilistic bands."""

    name = "pa"
    summary = "keeps the best k and the few that are likely to be needed (probabilistic)"
    exact = False
    method = Method(PROBABLE, additional=0)
