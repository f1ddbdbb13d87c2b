"""The methods of the paper as one table: which band, which filter in front of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from skyband.algorithms.topkw.adaptive import AdaptiveBands
from skyband.algorithms.topkw.bands import PROBABLE, RELAXED, STRICT, Method
from skyband.algorithms.topkw.blocks import BlockBands
from skyband.algorithms.topkw.exhaustive import CPM as CPM_KIND
from skyband.algorithms.topkw.exhaustive import SNN as SNN_KIND
from skyband.algorithms.topkw.exhaustive import ExhaustiveBands
from skyband.algorithms.topkw.sliding import Sliding


class SA(Sliding):
    """Strict bands.

    Strict candidate pruning: a query keeps exactly its k-skyband, event by event.

    Choose it to compare with the paper; for one query with a short answer.

    Guarantees: exact; keeps about k ln(n/k) events per query of a stream in random order, and no more than the
    k-skyband ever. Every event enters the band of every query, since nothing younger beats it yet, and each step walks
    along the worse part of it.

    Invariant: an event is in a query's band if and only if it lies in the window and fewer than k better ones leave it
    no earlier.

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

    name = "sa"
    summary = "keeps exactly the k-skyband of each query, event by event (strict)"
    method = Method(STRICT)


class RA(Sliding):
    """Relaxed bands.

    Relaxed candidate pruning: a query's band is pruned to the k-skyband only now and then.

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

    name = "ra"
    summary = "prunes to the k-skyband when a band has grown by a fifth (relaxed)"
    method = Method(RELAXED)


class PA(Sliding):
    """Probabilistic bands.

    Probabilistic candidate pruning: a query keeps its best k and a fixed number of candidates.

    Choose it for streams in random order, where a missed event in a thousand windows does not matter and speed does.

    Guarantees: less than an error of σ = 0.001 events missed per window and query, for a stream in random order; none
    for one that is correlated in time. Keeps k and some dozens of candidates: `skyband.algorithms.topkw.probability`
    says how many. Most events cost one comparison per query.

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
    algorithms 1 and 2. Of time windows the number of events is estimated. There is one query per band here, so
    additional candidates, which make an index move less, are of no use.
    """

    name = "pa"
    summary = "keeps the best k and the few that are likely to be needed (probabilistic)"
    exact = False
    method = Method(PROBABLE, additional=0)


class SASF(Sliding):
    """Strict bands, strict filters.

    Strict candidate pruning behind a strict filter over the most recent events.

    Choose it to compare with the paper: the two k-skybands of Böhm et al. [2007].

    Guarantees: exact; `skyband.algorithms.topkw.sliding` says what bands behind filters keep, and why nothing is
    missed.

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

    name = "sasf"
    summary = "strict bands behind a strict filter over recent events"
    method = Method(STRICT, STRICT)


class SARF(Sliding):
    """Strict bands, relaxed filters.

    Strict candidate pruning behind a relaxed filter over the most recent events.

    Choose it to compare with the paper; `rapf` is the best of this kind.

    Guarantees: exact; `skyband.algorithms.topkw.sliding` says what bands behind filters keep, and why nothing is
    missed.

    Examples
    --------
    >>> import skyband as sb
    >>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
    >>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
    >>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="sarf")]
    [[0], [0], [0], [2], [2], [4]]

    Notes
    -----
    Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 5. A
    relaxed filter is pruned when it has grown by a fifth.
    """

    name = "sarf"
    summary = "strict bands behind a relaxed filter over recent events"
    method = Method(STRICT, RELAXED)


class SAPF(Sliding):
    """Strict bands, probabilistic filters.

    Strict candidate pruning behind a probabilistic filter over the most recent events.

    Choose it to compare with the paper; `rapf` is the best of this kind.

    Guarantees: exact; `skyband.algorithms.topkw.sliding` says what bands behind filters keep, and why nothing is
    missed.

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

    name = "sapf"
    summary = "strict bands behind a probabilistic filter over recent events"
    method = Method(STRICT, PROBABLE)


class RASF(Sliding):
    """Relaxed bands, strict filters.

    Relaxed candidate pruning behind a strict filter over the most recent events.

    Choose it to compare with the paper; `rapf` is the best of this kind.

    Guarantees: exact; `skyband.algorithms.topkw.sliding` says what bands behind filters keep, and why nothing is
    missed.

    Examples
    --------
    >>> import skyband as sb
    >>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
    >>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
    >>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="rasf")]
    [[0], [0], [0], [2], [2], [4]]

    Notes
    -----
    Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 5. A
    strict filter is the approximate k-skyband of Böhm et al. [2007].
    """

    name = "rasf"
    summary = "relaxed bands behind a strict filter over recent events"
    method = Method(RELAXED, STRICT)


class RARF(Sliding):
    """Relaxed bands, relaxed filters.

    Relaxed candidate pruning behind a relaxed filter over the most recent events.

    Choose it to compare with the paper; `rapf` is the best of this kind.

    Guarantees: exact; `skyband.algorithms.topkw.sliding` says what bands behind filters keep, and why nothing is
    missed.

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

    name = "rarf"
    summary = "relaxed bands behind a relaxed filter over recent events"
    method = Method(RELAXED, RELAXED)


class RAPF(Sliding):
    """Relaxed bands, probabilistic filters.

    Relaxed candidate pruning behind a probabilistic filter over the most recent events.

    Choose it, of the algorithms of this paper, where answers must be exact.

    Guarantees: exact; `skyband.algorithms.topkw.sliding` says what bands behind filters keep, and why nothing is
    missed.

    Examples
    --------
    >>> import skyband as sb
    >>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
    >>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
    >>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="rapf")]
    [[0], [0], [0], [2], [2], [4]]

    Notes
    -----
    Pripužić, Podnar Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 5.
    Candidates of the filter that have left the buffer stay until one of its best leaves it.
    """

    name = "rapf"
    summary = "relaxed bands behind a probabilistic filter over recent events"
    method = Method(RELAXED, PROBABLE)


class CPM(Sliding):
    """The best k, over a grid of all events.

    CPM/w: a query keeps its best k, and starts from scratch when one of them leaves.

    Choose it to compare with the papers, for short answers.

    Guarantees: exact; keeps every event of the longest window, in a grid, and k references per query. An event that is
    not as good as the worst of the best k costs one comparison per query that watches its cell. When one of the best
    leaves, the best k are looked for in the grid, from the best cell on.

    Invariant: a query's list is the best k of its window, or all of it where there are fewer.

    Examples
    --------
    >>> import skyband as sb
    >>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
    >>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
    >>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="cpm")]
    [[0], [0], [0], [2], [2], [4]]

    Notes
    -----
    Mouratidis and Papadias, *Continuous Nearest Neighbor Queries over Sliding Windows*, as told in Pripužić, Podnar
    Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 2.
    """

    name = "cpm"
    summary = "keeps the best k of each query, and every event in a grid to start from scratch (CPM/w)"
    method = Method(CPM_KIND)
    engine = ExhaustiveBands


class SNN(Sliding):
    """Skybands within a threshold, over a grid of all events.

    SNN: a query keeps the k-skyband of what is near, and starts from scratch when that runs out.

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
    Mouratidis and Papadias, *Continuous Nearest Neighbor Queries over Sliding Windows*, as told in Pripužić, Podnar
    Žarko and Aberer, *Time- and Space-Efficient Sliding Window Top-k Query Processing*, section 2.
    """

    name = "snn"
    summary = "keeps the k-skyband within a threshold, and every event in a grid to start from scratch (SNN)"
    method = Method(SNN_KIND)
    engine = ExhaustiveBands


class Blocks(Sliding):
    """Relaxed bands, behind blocks.

    Blocks: relaxed k-skybands behind two blocks of recent events, brought up to date query by query.

    Choose it for thousands of queries with scoring functions of their own (`skyband.Subscriptions` does); with the one
    score that queries of a monitor share, `staircase` is faster.

    Guarantees: exact; keeps the events of two blocks, each a quarter of the shortest window, once for all queries, and
    about k (1 + ln(n/b)) references per query, for windows of n events and blocks of b. A query looks, through trees of
    the blocks, only at events that its threshold lets through.

    Invariant: an event of the window that is neither recent nor in a query's row is beaten k times by events that leave
    the window no earlier; the first k of a row are the best k of its window.

    Examples
    --------
    >>> import skyband as sb
    >>> q = sb.Query("top", k=1, score="x", window=sb.Window("3 events", slide="1 event"))
    >>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
    >>> [[row.id for row in a.rows] for a in sb.run([q], events, time="t", id="id", algorithm="blocks")]
    [[0], [0], [0], [2], [2], [4]]

    Notes
    -----
    Beyond the papers. It takes from Pripužić, Podnar Žarko and Aberer the relaxed skyband and the recent buffer, of
    which only what is not beaten by later events enters a band, and does for a whole block what they do for each event.
    """

    name = "blocks"
    summary = "a relaxed skyband per query behind two shared blocks of recent events, updated query by query"
    method = Method(RELAXED)
    engine = BlockBands


class Adaptive(Sliding):
    """Bands of the kind that the order of the stream allows.

    PA while the stream comes in random order, RAPF while it does not.

    Choose it, of the algorithms of this paper, for a stream that is mostly in random order, but may change.

    Guarantees: with RAPF exact, as soon as windows begin after PA's last two blocks of 1,000 events; with PA less than
    an error of σ = 0.001 events missed per window and query, for a stream in random order. It is not exact by what it
    says of answers. It begins with RAPF, and uses PA when the order was random for a whole window, and for two blocks
    at least. A stream in random order raises an alarm in less than one block of 10,000. Keeps what PA or RAPF keep, and
    with PA two blocks of events.

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
    algorithm as future work at the end of section 4.1. How the order is judged is in
    `skyband.algorithms.topkw.random_order`, what a change of methods does in `skyband.algorithms.topkw.adaptive`. Each
    query and partition is judged by itself, by its scores. When queries change, all begin anew.
    """

    name = "adaptive"
    summary = "pa while the stream comes in random order, rapf while it does not"
    exact = False
    method = Method(RELAXED, PROBABLE, additional=0)
    engine = AdaptiveBands

    def uses(self) -> str:
        """Say how many bands use what; and of the one that changed last, or the only one, since when and why."""
        bands = [keeper.bands for _, _, keeper in self._bands() if isinstance(keeper.bands, AdaptiveBands)]
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
