"""PA while the stream comes in random order, RAPF while it does not.

Choose it, of the algorithms of this paper, for a stream that is mostly in random order, but may change.

Guarantees: with RAPF exact, as soon as windows begin after PA's last two blocks of 1,000 events; with PA less than an
error of σ = 0.001 events missed per window and query, for a stream in random order. It is not exact by what it says of
answers. It begins with RAPF, and uses PA when the order was random for a whole window, and for two blocks at least.
A stream in random order raises an alarm in less than one block of 10,000. Keeps what PA or RAPF keep, and with PA two
blocks of events.

Invariant: that of PA or RAPF; with PA, no event since the block before the last is forgotten.

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> monitor = sb.Monitor([q], time="t", id="id", algorithm="adaptive")
>>> [[row.id for row in a.rows] for a in monitor.push(events)]
[[0], [0], [0], [2], [2], [4]]
>>> monitor.stats().groups[0].uses
'rapf from the start: fewer than 1,000 events came, too few to judge their order'

Notes
-----
Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, name such an
algorithm as future work at the end of section 4.1. How the order is judged is in `skyband.random_order`, what a change
of methods does in `skyband.adaptive`. Each query and partition is judged by itself, by its scores. When queries
change, all begin anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from skyband.adaptive import Adaptive as Engine
from skyband.algorithms.sliding import Sliding
from skyband.skybands import PROBABLE, RELAXED, Method


class Adaptive(Sliding):
    """Bands of the kind that the order of the stream allows."""

    name = "adaptive"
    summary = "pa while the stream comes in random order, rapf while it does not"
    exact = False
    method = Method(RELAXED, PROBABLE, additional=0)
    engine = Engine

    def uses(self) -> str:
        """Say how many bands use what; and of the one that changed last, or the only one, since when and why."""
        bands = [keeper.bands for _, _, keeper in self._bands() if isinstance(keeper.bands, Engine)]
        if not bands:
            return ""
        last = max(bands, key=lambda band: band.switched)
        sentence = last.uses()
        if len(bands) == 1:
            return sentence
        counts = Counter(band.using for band in bands)
        return ", ".join(f"{name} in {counts[name]:,} bands" for name in sorted(counts)) + f"; the last: {sentence}"

    def explain(self, moment: Callable[[int], str]) -> list[str]:  # noqa: ARG002 - events are counted
        """Say what is used, and why."""
        return [f"uses {self.uses()}"] if self.keepers else []
