"""The algorithms of the paper as one table: which band a query has, and which filter stands in front of it.

Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*:

=====================  =================================================================  ============================
paper                  code                                                               what a query keeps
=====================  =================================================================  ============================
§3, strict k-skyband   ``sa``: `STRICT` bands                                             exactly its k-skyband, about
                                                                                          k ln(n/k) events
§4.1, algorithms 1-2   ``pa``: `PROBABLE` bands, as large as `probability` says           its best k, some dozen more
§4.2, algorithms 3-5   ``ra``: `RELAXED` bands, pruned when they have grown by γ = 0.2    at most 1 + γ times ``sa``
§5, theorem 5.1        ``sasf sarf sapf rasf rarf rapf``: one of these bands behind a     about k (1 + ln(n/b)), and
                       strict, relaxed or probabilistic filter over the b latest events   the b latest events, shared
§2, CPM/w              ``cpm``: `ExhaustiveBands`                                         its best k; all events lie
                                                                                          in a grid, to start anew
§2, SNN                ``snn``: `ExhaustiveBands`                                         a k-skyband of what is near;
                                                                                          all events lie in a grid
§4.1, future work      ``adaptive``: ``pa`` while events come in random order, else       as they do
                       ``rapf``; see `random_order`
beyond the paper       ``blocks``: relaxed bands behind two blocks of recent events,      about k (1 + ln(n/b)), and
                       updated query by query                                             the two blocks, shared
=====================  =================================================================  ============================

All are exact but ``pa`` (less than σ = 0.001 events missed per window and query while events come in random order; no
promise else) and ``adaptive`` (as ``pa`` while it uses it). Strict filters are the approximate k-skybands of Böhm et
al. [2007]; CPM/w and SNN are those of Mouratidis and Papadias, as in the paper. Choose ``rapf`` where answers
must be exact, ``pa`` where speed matters more, ``blocks`` for thousands of queries with scores of their own
(`skyband.Subscriptions` does), the others to compare. With the one score that the queries of a monitor share,
``staircase`` is faster than all of them.

Left open there: sorted arrays take the place of the trees; a relaxed band may have 4k candidates at first; the number
of events of a time window is estimated. A monitor has no index of queries, so ``pa`` keeps additional candidates, which
make an index move less, only in `skyband.Subscriptions`, whose queries lie in a grid (as in the paper's experiments).

Examples
--------
>>> import skyband as sb
>>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> for method in METHODS:
...     answers = sb.run([q], events, time="t", id="id", algorithm=method.name)
...     assert [[row.id for row in a.rows] for a in answers] == [[0], [0], [0], [2], [2], [4]], method.name
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from skyband.algorithms.topkw.adaptive import AdaptiveBands
from skyband.algorithms.topkw.bands import CPM, PROBABLE, RELAXED, SNN, STRICT, Bands, Method
from skyband.algorithms.topkw.blocks import BlockBands
from skyband.algorithms.topkw.exhaustive import ExhaustiveBands
from skyband.algorithms.topkw.sliding import OPTIONS, Sliding

KINDS = {"strict": STRICT, "relaxed": RELAXED, "probabilistic": PROBABLE}


def sliding(
    name: str, method: Method, summary: str, options: Sequence[str] = (), engine: type[Bands] = Bands
) -> type[Sliding]:
    """Return the algorithm that keeps bands of a method, of which these options can be chosen."""
    exact, known = method.kind != PROBABLE, tuple(OPTIONS[option] for option in options)
    members = {
        "name": name, "summary": summary, "method": method, "engine": engine, "exact": exact, "options": known,
    }  # fmt: skip
    return type(name.upper(), (Sliding,), members | {"__doc__": f"{summary.capitalize()}.", "__module__": __name__})


def behind_filter(band: str, filter_: str) -> type[Sliding]:
    """Return the algorithm of section 5 with these two kinds of k-skybands."""
    summary = f"{band} bands behind a {filter_} filter over recent events"
    kinds = {"relaxed": "pruning", "probabilistic": "error"}
    options = sorted({kinds[kind] for kind in (band, filter_) if kind in kinds})
    name = f"{band[0]}a{filter_[0]}f"
    return sliding(name, Method(KINDS[band], KINDS[filter_]), summary, ["buffer", "recent", *options, "cells"])


class Adaptive(Sliding):
    """PA while the stream comes in random order, RAPF while it does not.

    It begins with RAPF, and uses PA when the order was random for a whole window, and for two blocks of 1,000 events at
    least. A stream in random order raises an alarm in less than one block of 10,000. With RAPF answers are exact as
    soon as windows begin after PA's last two blocks, but they are not flagged so. Each query and partition is judged by
    itself, by its scores. When queries change, all begin anew.

    Invariant: that of PA or RAPF; with PA, no event since the block before the last is forgotten.

    Examples
    --------
    >>> import skyband as sb
    >>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
    >>> monitor = sb.Monitor([q], time="t", id="id", algorithm="adaptive")
    >>> answers = monitor.push([{"t": 0, "id": 0, "x": 5.0}])
    >>> monitor.stats().groups[0].method_in_use
    'rapf from the start: fewer than 1,000 events came, too few to judge their order'
    """

    name = "adaptive"
    summary = "pa while the stream comes in random order, rapf while it does not"
    exact = False
    method = Method(RELAXED, PROBABLE)
    engine = AdaptiveBands
    options = tuple(OPTIONS.values())

    def method_in_use(self) -> str:
        """Say how many bands use what; and of the one that changed last, or the only one, since when and why."""
        bands = [keeper.bands for _, _, keeper in self._bands() if isinstance(keeper.bands, AdaptiveBands)]
        if not bands:
            return ""
        last = max(bands, key=lambda band: band.switched)
        sentence = last.method_in_use()
        if len(bands) == 1:
            return sentence
        counts = Counter(band.using for band in bands)
        return ", ".join(f"{name} in {counts[name]:,} bands" for name in sorted(counts)) + f"; the last: {sentence}"

    def explain(self, moment: Callable[[int], str]) -> list[str]:  # noqa: ARG002 - events are counted
        """Say what is used, and why."""
        return [f"uses {self.method_in_use()}"] if self.keepers else []


METHODS: tuple[type[Sliding], ...] = (
    sliding("sa", Method(STRICT), "keeps exactly the k-skyband of each query, event by event (strict)", ["cells"]),
    sliding(
        "ra", Method(RELAXED), "prunes to the k-skyband when a band has grown by a fifth (relaxed)",
        ["pruning", "cells"],
    ),
    sliding(
        "pa", Method(PROBABLE), "keeps the best k and the few that are likely to be needed (probabilistic)",
        ["error", "additional", "cells"],
    ),
    *(behind_filter(band, filter_) for band in ("strict", "relaxed") for filter_ in KINDS),
    sliding(
        "cpm", Method(CPM),
        "keeps the best k of each query, and every event in a grid to start from scratch (CPM/w)", ["cells"],
        ExhaustiveBands,
    ),
    sliding(
        "snn", Method(SNN),
        "keeps the k-skyband within a threshold, and every event in a grid to start from scratch (SNN)", ["cells"],
        ExhaustiveBands,
    ),
    sliding(
        "blocks", Method(RELAXED),
        "a relaxed skyband per query behind two shared blocks of recent events, updated query by query",
        engine=BlockBands,
    ),
    Adaptive,
)  # fmt: skip
