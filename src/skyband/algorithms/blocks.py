"""Blocks: relaxed k-skybands behind two blocks of recent events, brought up to date query by query.

Choose it for thousands of queries with scoring functions of their own (`skyband.Subscriptions` does); with the one
score that queries of a monitor share, `staircase` is faster.

Guarantees: exact; keeps the events of two blocks, each a quarter of the shortest window, once for all queries, and
about k (1 + ln(n/b)) references per query, for windows of n events and blocks of b. A query looks, through trees of
the blocks, only at events that its threshold lets through.

Invariant: an event of the window that is neither recent nor in a query's row is beaten k times by events that leave the
window no earlier; the first k of a row are the best k of its window.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="blocks")]
[[0], [0], [0], [2], [2], [4]]

Notes
-----
Beyond the papers. It takes from Pripužić, Podnar Žarko and Aberer the relaxed skyband and the recent buffer, of which
only what is not beaten by later events enters a band, and does for a whole block what they do for each event.
"""

from __future__ import annotations

from skyband.algorithms.sliding import Sliding
from skyband.blocks import Blocks as Engine
from skyband.skybands import RELAXED, Method


class Blocks(Sliding):
    """Relaxed bands, behind blocks."""

    name = "blocks"
    summary = "a relaxed skyband per query behind two shared blocks of recent events, updated query by query"
    method = Method(RELAXED)
    engine = Engine
