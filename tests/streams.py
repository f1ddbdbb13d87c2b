"""Seeded random streams and queries for the conformance suite, nasty on purpose."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from tests.groups import rankings
from tests.oracle import COLUMNS, Ask, Event, Oracle, Reply, shown


@dataclass(frozen=True)
class Workload:
    """A stream cut into batches, and the queries over it."""

    seed: int
    asks: tuple[Ask, ...]
    events: tuple[Event, ...]
    cuts: tuple[int, ...]
    delay: int | None
    text: bool = False

    def batches(self) -> list[list[Event]]:
        edges = [0, *self.cuts, len(self.events)]
        return [[replace(e) for e in self.events[a:b]] for a, b in itertools.pairwise(edges)]

    def queries(self) -> list[sb.Query]:
        return [query_of(ask) for ask in self.asks]

    def truth(self) -> Oracle:
        oracle = Oracle(self.asks, self.delay)
        for batch in self.batches():
            oracle.batch(batch)
        oracle.end()
        return oracle


def query_of(ask: Ask, **more: Any) -> sb.Query:
    if ask.kind == "cumulative":
        window = sb.Window.cumulative(ask.size, step=ask.slide, offset=ask.offset)
    elif ask.kind == "all_time":
        window = sb.Window.all_time(every=ask.slide, offset=ask.offset)
    elif ask.kind == "calendar":
        window = sb.Window.calendar(ask.unit, zone=ask.zone)  # type: ignore[arg-type]
    elif ask.counts:
        window = sb.Window(f"{ask.size} events", slide=f"{ask.slide} events")
    else:
        window = sb.Window(ask.size, slide=ask.slide, offset=ask.offset, closed=ask.closed)  # type: ignore[arg-type]
    return sb.Query(
        ask.name, k=ask.k, score="x", window=window, order=ask.order,  # type: ignore[arg-type]
        distinct=ask.distinct, partition_by="g" if ask.partitioned else None,  # type: ignore[arg-type]
        select=ask.select, ties=ask.ties, max_ties=ask.max_ties if ask.ties else 10_000,  # type: ignore[arg-type]
        prefer=ask.prefer, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def table_of(events: Sequence[Event], text: bool) -> pa.Table:
    return pa.table(
        {
            "t": pa.array([e.time for e in events], pa.int64()),
            "id": pa.array([e.id for e in events], pa.string() if text else pa.int64()),
            "x": pa.array([e.score for e in events], pa.float64(), from_pandas=False),
            "g": pa.array([e.part for e in events], pa.string()),
            **{
                name: pa.array([getattr(e, name) for e in events], kind, from_pandas=False)
                for name, kind in COLUMNS.items()
            },
        }
    )


def random_workload(seed: int, **fixed: Any) -> Workload:
    """Draw a stream and queries; `fixed` settles fields of every query, or `delay`, `text`, `n`, `many`, `tied`."""
    rng = np.random.default_rng(seed)
    n = fixed.pop("n", int(rng.integers(0, 120)))
    text = fixed.pop("text", bool(rng.integers(2)))
    delay = fixed.pop("delay", [None, 0, 3, 15][rng.integers(4)])
    many = fixed.pop("many", int(rng.integers(1, 5)))
    tied = fixed.pop("tied", False)
    asks = random_asks(rng, many, fixed)
    step = rng.choice([0, 1, 3])
    time = np.cumsum(rng.integers(0, step + 1, n)) + rng.integers(-50, 50)
    if n and rng.integers(3) == 0:
        time[n // 2 :] += 60  # a gap with empty windows
    if rng.integers(2):
        time = time - rng.integers(0, int(rng.choice([2, 10, 40])), n)
    scores = rng.choice(
        [rng.integers(0, 4, n).astype(float), rng.normal(size=n), np.arange(n) * -1.0, np.arange(n) * 1.0]
    )
    ids = [f"é{i}" if text else int(i) for i in rng.integers(0, 2 if tied else int(rng.choice([3, 1000])), n)]
    parts = [[None, "p", "q", "r"][i] for i in rng.integers(0, 4, n)]
    events = [Event(int(t), i, float(s), p) for t, i, s, p in zip(time, ids, scores, parts, strict=True)]
    for event in events:
        spoil(event, rng)
    if tied:  # few times, ids and scores, so that most events differ only in what they carry
        pick = [(int(t) // 8 * 8, i, float(round(s) % 2)) for t, i, s in zip(time, ids, scores, strict=True)]
        events = [replace(e, time=t, id=i, score=s) for e, (t, i, s) in zip(events, pick, strict=True)]
    cuts = sorted(rng.integers(0, n + 1, int(rng.integers(0, 8))).tolist())
    for event in events:
        event.note = [None, "a", "b", "é", ""][rng.integers(5)]
        event.size = [None, 1.0, -2.0, float("nan"), float("inf")][rng.integers(5)]
    return Workload(seed, tuple(asks), tuple(events), tuple(cuts), delay, text)


def random_asks(rng: np.random.Generator, many: int, fixed: dict[str, Any]) -> list[Ask]:
    """Draw queries that rank alike."""
    counts = bool(rng.integers(4) == 0)
    common: dict[str, Any] = {
        "distinct": [None, "best", "latest"][rng.integers(3)],
        "order": ["desc", "asc"][rng.integers(2)],
        "partitioned": bool(rng.integers(3) == 0),
        "counts": counts,
    } | fixed
    asks = []
    for i in range(many):
        size = int(rng.integers(1, 30))
        slide = int(rng.integers(1, size + 1))
        most = common.get("max_ties", 200)
        ask = Ask(f"q{i}", int(rng.choice([k for k in (1, 2, 3, 7, 200) if k <= most])), size, slide)
        if not common["counts"]:
            ask = replace(ask, offset=int(rng.integers(-9, 9)), closed=str(rng.choice(["left", "right"])))
        asks.append(replace(ask, **common))
    return asks


def spoil(event: Event, rng: np.random.Generator) -> None:
    """Make some events extreme, incomplete or rejected."""
    draw = rng.integers(60)
    if draw == 0:
        event.score = float("inf")
    elif draw == 1:
        event.score = float("-inf")
    elif draw == 2:
        event.score = float("nan")
    elif draw == 3:
        event.score = None
    elif draw == 4:
        event.time = None
    elif draw == 5:
        event.id = None
    elif draw == 6:
        event.score = -0.0


def replies_of(answers: Sequence[sb.Answer]) -> list[Reply]:
    return [
        Reply(a.query, None if a.start is None else int(a.start), int(a.end), [_row(row) for row in a.rows])  # type: ignore[arg-type]
        for a in answers
    ]


def _row(row: sb.Row) -> tuple[Any, ...]:
    return (row.partition, row.rank, row.id, row.score, row.time, *map(shown, row.values.values()))


def in_order_of(replies: Sequence[Reply]) -> dict[str, list[Reply]]:
    """Return each query's replies in the order given."""
    found: dict[str, list[Reply]] = {}
    for reply in replies:
        found.setdefault(reply.query, []).append(reply)
    return found


def assert_same(ours: Sequence[Reply], truth: Sequence[Reply], what: str) -> None:
    """Fail with the first difference and what only one side has."""
    a, b = in_order_of(ours), in_order_of(truth)
    assert sorted(a) == sorted(b), f"{what}: answered {sorted(a)}, expected {sorted(b)}"
    for name in b:
        windows = [(r.start, r.end) for r in a[name]], [(r.start, r.end) for r in b[name]]
        assert windows[0] == windows[1], f"{what}, {name}: windows {windows[0]}\nexpected {windows[1]}"
        for mine, right in zip(a[name], b[name], strict=True):
            assert mine.rows == right.rows, (
                f"{what}, {name}, window [{right.start}, {right.end})\nours     {mine.rows}\nexpected {right.rows}"
            )


def run_through(monitor: sb.Monitor, workload: Workload, saved: bool = False) -> list[sb.Answer]:
    """Push a workload's batches and advance after each as `run` does; perhaps restored, and compacted, before each."""
    answers: list[sb.Answer] = []
    for batch in workload.batches():
        if saved:
            for group in rankings(monitor):
                group._compact(0.0, 0)
            monitor = sb.Monitor.restore(monitor.snapshot())
        answers += monitor.push(table_of(batch, workload.text))
        answers += monitor.advance(
            None if workload.delay is None or monitor.newest < -(2**61) else monitor.newest - workload.delay
        )
        for group in rankings(monitor):
            group.algorithm.check()
    answers += monitor.finish()
    return answers
