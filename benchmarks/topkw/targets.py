"""What is promised of queries with scoring functions of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from benchmarks.targets import Target
from benchmarks.topkw import OURS
from benchmarks.topkw.runs import Trial


def judge(rows: Sequence[Trial]) -> list[Target]:
    """Return all targets that the rows tell about."""
    return [*_default(rows), *_order(rows), *_many(rows)]


def _default(rows: Sequence[Trial]) -> Iterator[Target]:
    found = {row.algorithm: row for row in rows if row.experiment == "default"}
    if not found:
        return
    for name in ("pa", "rapf"):
        row = found[name]
        text = f"{name}, {row.events:,} events, {row.queries:,} queries, k = {row.value}, on one core: seconds"
        yield Target(text, row.seconds, 10.0)
    lead = found["rapf"].seconds / found[OURS].seconds
    yield Target(f"the same, {OURS}: speed over that of rapf, both on one core", lead, 2.0, at_least=True)


def _order(rows: Sequence[Trial]) -> Iterator[Target]:
    cost = {(row.value, row.algorithm): row.per_event for row in rows if row.experiment == "order"}
    values = list(dict.fromkeys(value for value, _ in cost))
    for value in values:
        for fast, slow in pairwise(("pa", "rapf", "ra", "sa")):
            yield Target(f"k = {value}: time of {fast} over that of {slow}", cost[value, fast] / cost[value, slow], 1.0)
    for value in values[-1:]:
        for slow in ("snn", "cpm"):
            lead = cost[value, slow] / cost[value, "pa"]
            yield Target(f"k = {value}: speed of pa over that of {slow}", lead, 5.0, at_least=True)


def _many(rows: Sequence[Trial]) -> Iterator[Target]:
    for row in rows:
        if row.experiment == "subscriptions":
            text = f"{OURS}, {row.queries:,} subscriptions, k = 10, on all cores: thousand events a second"
            yield Target(text, row.events_per_s / 1000, 100.0, at_least=True)
