"""The numbers as Prometheus reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from skyband.serve.vitals import WELL, Health

if TYPE_CHECKING:
    from skyband.serve.edge import Edge

HEALTH = get_args(Health)
DURATIONS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
GAUGES = {
    "silence": ("silence_seconds", "For how long no event has come."),
    "rows_per_second": ("rows_per_second", "Rows read a second, lately."),
    "lag": ("watermark_lag_seconds", "How far the watermark is behind the clock."),
    "kept": ("kept_events", "Candidate events that are kept."),
    "bound": ("kept_events_bound", "How many can be kept at most as things stand."),
    "batch": ("batch", "Number of the last batch."),
    "watermark": ("watermark_seconds", "The watermark, in seconds since 1970."),
    "last_batch": ("last_batch_seconds", "When the last batch ended."),
}
COUNTERS = {
    "rows": ("rows", "Rows read."),
    "late": ("late_rows", "Rows that missed all their windows."),
    "partly_late": ("partly_late_rows", "Rows that missed some of their windows."),
    "rejected": ("rejected_rows", "Rows without a score, a time or an id, or ahead."),
    "ahead": ("ahead_rows", "Rows too far ahead of the clock."),
    "answers": ("answers", "Answers shown since the server was started."),
}


class Metrics(Collector):
    """All numbers of one server, in a registry of its own."""

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.registry = CollectorRegistry()
        self.batches = Histogram(
            "skyband_batch_duration_seconds", "How long batches took.", buckets=DURATIONS, registry=self.registry
        )
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the numbers as they are now."""
        numbers, boards, feed = self.edge.standings.numbers, self.edge.standings.boards, self.edge.feed
        for key, (name, what) in GAUGES.items():
            yield from _gauge(name, what, _number(numbers.get(key)))
        for key, (name, what) in COUNTERS.items():
            yield from _counter(name, what, numbers.get(key))
        health = numbers.get("health")
        yield from _gauge("stream_up", "Whether the stream runs, quiet or not.", health in WELL)
        which = {one: one == health for one in HEALTH}
        yield from _gauges("stream_health", "Which of these the stream is.", "health", which)
        yield from _gauge("degraded", "Whether most of the last batch was rejected.", bool(numbers.get("degraded")))
        for name, count in self.edge.standings.spent.items():
            yield from _counter(f"remote_{name}", f"Remote ids: {name}, since the server was started.", count)
        states = Counter(board.entry["state"] for board in boards.values())
        yield from _gauges("queries", "Queries by their state.", "state", states)
        last = {name: board.answers[-1] for name, board in boards.items() if board.answers}
        thresholds = {name: _number(answer["threshold"]) for name, answer in last.items()}
        yield from _gauges("threshold", "Score of the k-th row.", "query", thresholds)
        exact = {name: answer["exact"] for name, answer in last.items()}
        yield from _gauges("answer_exact", "Whether the last answer is exact.", "query", exact)
        yield from _gauge("feed_readers", "Who reads the feed.", len(feed.readers))
        yield from _counter("feed_missed_messages", "Messages that slow readers did not get.", feed.missed)
        yield from _counter("feed_cut_off_readers", "Readers who took nothing for too long.", feed.cut_off)


def _gauge(name: str, what: str, value: float | None) -> Iterator[Metric]:
    if value is not None:
        yield GaugeMetricFamily(f"skyband_{name}", what, value)


def _counter(name: str, what: str, value: float | None) -> Iterator[Metric]:
    if value is not None:
        yield CounterMetricFamily(f"skyband_{name}", what, value)


def _gauges(name: str, what: str, label: str, values: Mapping[str, float | None]) -> Iterator[Metric]:
    family = GaugeMetricFamily(f"skyband_{name}", what, labels=[label])
    for key, value in values.items():
        if value is not None:
            family.add_metric([key], value)
    yield family


def _number(value: Any) -> float | None:
    """Return a number of JSON as a float: infinite ones are words there, and moments are texts."""
    if isinstance(value, str) and value[:1].isdigit():
        return datetime.fromisoformat(value).timestamp() if "T" in value else float(value)
    return None if value is None else float(value)
