"""What the Spark pipeline promises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from benchmarks.measure import Row
from benchmarks.targets import Target, of

SCAN, WINDOW, HAND, TREND = 0.9, 50.0, 2.0, 0.3
SIZES = (0.7, 0.8, 0.95)  # of the speed of only scanning, by the size of a micro-batch
QUERIES = (1.3, 2.0)
RE_READS, GROWTH = 1.0, 5.0  # per cent
OWN, JOIN = 0.4, 3.0  # seconds
SUMS = (0.8, 0.5)
BATCH, TOGETHER = 0.4, 1.5


def judge(rows: Sequence[Row]) -> list[Target]:
    """Return all targets that the rows tell about."""
    parts: tuple[Callable[[Sequence[Row]], Iterable[Target]], ...] = (
        _scan, _sizes, _warm, _scores, _queries, _own, _re_reads, _memory, _joins, _aggregates, _batch,
    )  # fmt: skip
    return [target for part in parts for target in part(rows)]


def _scan(rows: Sequence[Row]) -> Iterable[Target]:
    peers = (
        ("noop", "only scanning (the noop sink)", SCAN),
        ("spark window()", "Spark's own window()", WINDOW),
        ("panes by hand", "hand-written panes", HAND),
    )
    for way, name, least in peers:
        for row in of(rows, "scan", way):
            yield Target(f"one query, a whole run: speed over that of {name}", row.ratio or 0.0, least, at_least=True)


def _sizes(rows: Sequence[Row]) -> Iterable[Target]:
    for row, least in zip(of(rows, "micro-batches", "noop"), SIZES, strict=False):
        text = f"micro-batches of {int(row.value):,} events: speed over that of only scanning"
        yield Target(text, row.ratio or 0.0, least, at_least=True)
    for row in of(rows, "micro-batches", "panes by hand"):
        text = f"micro-batches of {int(row.value):,} events: speed over that of hand-written panes"
        yield Target(text, row.ratio or 0.0, HAND, at_least=True)


def _scores(rows: Sequence[Row]) -> Iterable[Target]:
    for kind in ("trending", "falling"):
        for row in of(rows, "scores", "noop", kind):
            yield Target(f"{kind} scores: speed over that of only scanning", row.ratio or 0.0, TREND, at_least=True)


def _queries(rows: Sequence[Row]) -> Iterable[Target]:
    for row, most in zip(of(rows, "queries")[1:], QUERIES, strict=False):
        yield Target(f"{int(row.value):,} queries: time against one", row.ratio or 0.0, most)


def _warm(rows: Sequence[Row]) -> Iterable[Target]:
    for ours, noop in zip(
        of(rows, "phases", "spark: triggerExecution", "1"),
        of(rows, "phases", "noop: triggerExecution", "1"),
        strict=True,
    ):
        share = noop.seconds_median / ours.seconds_median
        yield Target("one query: speed of a warm micro-batch over that of only scanning", share, SCAN, at_least=True)


def _own(rows: Sequence[Row]) -> Iterable[Target]:
    for row in of(rows, "phases", "skyband: own", "1"):
        yield Target("one query: seconds of a micro-batch spent on anything but its scan", row.seconds_median, OWN)


def _re_reads(rows: Sequence[Row]) -> Iterable[Target]:
    for row in of(rows, "re-reads", "read again", "uniform"):
        share = 100 * (row.ratio or 0.0)
        yield Target("random order: per cent of guessed panes that had to be read again", share, RE_READS)


def _joins(rows: Sequence[Row]) -> Iterable[Target]:
    for row in of(rows, "joins", "skyband: micro-batch"):
        text = f"joined with a service, {int(row.value):,} ids: seconds of a micro-batch of {row.rows:,} events"
        yield Target(text, row.seconds_median, JOIN)


def growth(rows: Sequence[Row]) -> float:
    """Return by how many per cent the amounts grew over the second half of a curve."""
    half, last = rows[len(rows) // 2].amount or 1.0, rows[-1].amount or 0.0
    return 100 * (last / half - 1)


def _memory(rows: Sequence[Row]) -> Iterable[Target]:
    for way, name in (("driver", "memory of the driver's Python"), ("state", "size of the state")):
        if found := of(rows, "memory", way):
            text = f"{name}: growth over the second half of {int(found[-1].value):,} micro-batches, in per cent"
            yield Target(text, growth(found), GROWTH)


def _aggregates(rows: Sequence[Row]) -> Iterable[Target]:
    for row, least in zip(of(rows, "aggregates", "skyband"), SUMS, strict=False):
        text = f"sums of {int(row.value):,} ids: speed over that of sums per pane by hand"
        yield Target(text, row.ratio or 0.0, least, at_least=True)


def _batch(rows: Sequence[Row]) -> Iterable[Target]:
    for row in of(rows, "topk", "noop"):
        yield Target("a batch, one query: speed over that of only scanning", row.ratio or 0.0, BATCH, at_least=True)
    for row in of(rows, "topk", "skyband topk, "):
        text = f"a batch, {row.way.removeprefix('skyband topk, ')} that rank alike: time against one"
        yield Target(text, row.ratio or 0.0, TOGETHER)
