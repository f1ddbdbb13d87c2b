"""What the core promises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import log

from benchmarks.core import LONG_SPAN, ORDER_SPAN
from benchmarks.core.groups import BY_EXPRESSION
from benchmarks.measure import Row
from benchmarks.targets import Target, of

K = 100


def judge(rows: Sequence[Row]) -> list[Target]:
    """Return all targets that the rows tell about."""
    parts: tuple[Callable[[Sequence[Row]], Iterable[Target]], ...] = (
        _pass, _window, _order, _queries, _parquet, _many, _groups, _aggregates, _live,
    )  # fmt: skip
    return [target for part in parts for target in part(rows)]


def _pass(rows: Sequence[Row]) -> Iterable[Target]:
    for kind, name in (("uniform", "random order"), ("rising", "rising scores"), ("constant", "equal scores")):
        for row in of(rows, "pass", "skyband", kind):
            yield Target(f"one query, {name}: time of NumPy passes over the scores", row.ratio or 0.0, 4.0)


def expected_kept(events: float, k: int = K) -> float:
    """Return how many candidates theory expects for so many events in a window: k ln(n/k) + k.

    Examples
    --------
    >>> round(expected_kept(6_000_000))
    1200
    """
    return k * log(events / k) + k


def in_window(row: Row, span: int) -> float:
    """Return how many events a window of this row holds, the stream being `span` seconds long."""
    return row.rows * int(row.value) / span


def _window(rows: Sequence[Row]) -> Iterable[Target]:
    found = of(rows, "window", "skyband")
    growth = [row.ratio for row in found if row.ratio]
    kept = [row.kept / expected_kept(in_window(row, LONG_SPAN)) for row in found if row.kept]
    if growth:
        yield Target("doubling the window: time against half the window, the worst of all steps", max(growth), 1.15)
    if kept:
        yield Target("kept candidates over k ln(n/k) + k, the most of all windows", max(kept), 1.2)


def _order(rows: Sequence[Row]) -> Iterable[Target]:
    falling = of(rows, "order", "skyband, falling")
    if falling:
        worst = max(row.ratio or 0.0 for row in falling)
        yield Target("falling scores: cost of an event against random order, the worst of all windows", worst, 50.0)
    for kind in ("uniform", "falling"):
        found = of(rows, "order", f"skyband, {kind}")
        if len(found) > 1:
            first, last = found[0], found[-1]
            allowed = log(in_window(last, ORDER_SPAN) / K) / log(in_window(first, ORDER_SPAN) / K)
            grown = last.seconds_min / first.seconds_min
            order = "random order" if kind == "uniform" else "falling scores"
            text = f"{order}: growth from windows of {first.value} s to {last.value} s, against that of ln(n/k)"
            yield Target(text, grown, allowed)


def _queries(rows: Sequence[Row]) -> Iterable[Target]:
    for row in [row for row in rows if row.way == "skyband, k up to 100"][-1:]:
        yield Target(f"{int(row.value):,} queries against one (hoped for: 3)", row.ratio or 0.0, 4.0)


def _parquet(rows: Sequence[Row]) -> Iterable[Target]:
    speeds = (("pyarrow", "only reading with PyArrow", 0.9), ("polars", "Polars", 1.0), ("duckdb", "DuckDB", 1.0))
    for way, name, least in speeds:
        if found := of(rows, "parquet", way):
            text = f"Parquet, one query: speed over that of {name}"
            yield Target(text, min(row.ratio or 0.0 for row in found), least, at_least=True)


def _many(rows: Sequence[Row]) -> Iterable[Target]:
    if found := of(rows, "peers", "polars", "many queries"):
        text = "many queries at once: speed over that of Polars with shared panes"
        yield Target(text, min(row.ratio or 0.0 for row in found), 4.0, at_least=True)


def _groups(rows: Sequence[Row]) -> Iterable[Target]:
    for row in of(rows, "groups", "duckdb"):
        text = f"best of each of {int(row.value):,} groups: speed over that of DuckDB's panes"
        yield Target(text, row.ratio or 0.0, 2.0, at_least=True)
    if found := of(rows, "groups", BY_EXPRESSION):
        text = "grouped by an expression: time against a column, the worst of all numbers of groups"
        yield Target(text, max(row.ratio or 0.0 for row in found), 1.3)


def _aggregates(rows: Sequence[Row]) -> Iterable[Target]:
    for row in [row for row in of(rows, "aggregates", "skyband") if row.ratio is not None]:
        yield Target(f"sums of {int(row.value):,} ids: time against DuckDB's best form", row.ratio or 0.0, 1.0)


def _live(rows: Sequence[Row]) -> Iterable[Target]:
    for row in [row for row in rows if row.experiment == "live" and row.amount is not None]:
        yield Target(f"{row.value} rows: milliseconds of a push and an advance", row.amount or 0.0, 0.2)
    for row in [row for row in of(rows, "live", "skyband") if row.value == "after every event"]:
        yield Target("count windows with slide 1: million events a second", row.events_per_s / 1e6, 2.0, at_least=True)
    for row in [row for row in of(rows, "live", "skyband") if row.baseline == "alone"]:
        text = f"{row.value} beside a stream: million events a second"
        yield Target(text, row.events_per_s / 1e6, 1.0, at_least=True)
