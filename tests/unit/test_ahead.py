"""Rows from the future: rejected, counted and handed on; nothing else is as if they had come."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.events.ahead import doubt, likely_unit
from skyband.events.batch import StreamColumns, TimeUnit

LIMIT = 10_000
SOURCE: dict[str, Any] = {"time": "t", "id": "id"}
QUERIES = [
    sb.Query("best", k=3, score="x", window=sb.Window(500, slide=100), where="x > 1"),
    sb.Query("by id", k=3, score="x", window=sb.Window(500), distinct="latest"),
    sb.Query("soon", k=1, score="x", window=sb.Window(500), emit="early"),
    sb.Query("sums", k=2, score="sum(x)", window=sb.Window(500)),
]
COUNTED = [sb.Query("last", k=3, score="x", window=sb.Window("20 events", slide="5 events"))]


def tables(seed: int) -> tuple[list[pa.Table], list[pa.Table], list[pa.Table]]:
    """Draw batches with rows from the future, the same without them, and these alone."""
    rng = np.random.default_rng(seed)
    whole = []
    for number in range(5):
        time = np.sort(rng.integers(number * 1000, (number + 1) * 1000, 60))
        far = rng.random(60) < (0.2 if number else 0.0)
        time[far] = rng.integers(LIMIT + 1, 2**61, int(far.sum()))
        ids = pa.array(rng.integers(0, 9, 60), mask=rng.random(60) < 0.05)
        whole.append(pa.table({"t": pa.array(time, mask=rng.random(60) < 0.05), "id": ids, "x": rng.random(60) * 3}))
    ahead = [pa.compute.greater(table["t"], LIMIT).fill_null(False) for table in whole]
    near = [table.filter(pa.compute.invert(mask)) for table, mask in zip(whole, ahead, strict=True)]
    return whole, near, [table.filter(mask) for table, mask in zip(whole, ahead, strict=True)]


def shown(answers: Any) -> list[Any]:
    return [(a.query, a.start, a.end, a.exact, a.why, a.rows, a.changes) for a in answers]


@pytest.mark.parametrize("queries", [QUERIES, COUNTED], ids=["time", "count"])
def test_answers_are_as_if_rows_from_the_future_had_not_come(queries: list[sb.Query]) -> None:
    whole, near, far = tables(1)
    rejected: list[pa.RecordBatch] = []
    without: list[pa.RecordBatch] = []
    ours = sb.Monitor(queries, **SOURCE, on_rejected=rejected.append)
    truth = sb.Monitor(queries, **SOURCE, on_rejected=without.append)
    for batch, rest in zip(whole, near, strict=True):
        assert shown(ours.push(batch, not_after=LIMIT)) == shown(truth.push(rest))
        assert ours.newest == truth.newest
        assert shown(ours.advance(ours.newest - 60)) == shown(truth.advance(truth.newest - 60))
    assert shown(ours.finish()) == shown(truth.finish())
    ahead = pa.concat_tables(far)
    assert ours.stats().ahead == ahead.num_rows > 20
    assert ours.stats().rejected == truth.stats().rejected + ahead.num_rows
    assert (ours.stats().late, ours.stats().partly_late) == (truth.stats().late, truth.stats().partly_late)
    given, rest = (pa.Table.from_batches(parts).to_pylist() for parts in (rejected, without))
    assert sorted(map(repr, given)) == sorted(map(repr, rest + ahead.to_pylist()))


def test_a_row_from_the_future_is_rejected_whether_or_not_a_query_wants_it() -> None:
    monitor = sb.Monitor([sb.Query("none", k=1, score="x", window=sb.Window(10), where="x > 9")], **SOURCE)
    monitor.push({"t": [1, 99], "id": [1, 2], "x": [1.0, 1.0]}, not_after=datetime.fromtimestamp(50e-6, UTC))
    assert (monitor.stats().rejected, monitor.stats().ahead, monitor.newest) == (1, 1, 1)
    assert sb.Monitor.restore(monitor.snapshot()).stats().ahead == 1


def test_a_run_takes_a_limit() -> None:
    whole, near, _ = tables(2)
    ours = sb.run(QUERIES[0], pa.concat_tables(whole), **SOURCE, watermark=60, batch_rows=60, not_after=LIMIT)
    truth = sb.run(QUERIES[0], near, **SOURCE, watermark=60)
    assert shown(ours) == shown(truth)


def test_subscriptions_do_not_see_rows_from_the_future() -> None:
    near_zero = sb.Subscription("near", k=2, score=sb.Distance({"x": 0.0}), last=700, emit="changes")
    low = sb.Subscription("low", k=1, score="x", last=300, emit="changes")
    whole, near, far = tables(3)
    rejected: list[pa.RecordBatch] = []
    ours = sb.Subscriptions([near_zero, low], **SOURCE, on_rejected=rejected.append)
    truth = sb.Subscriptions([near_zero, low], **SOURCE)
    told, expected = [], []
    for batch, rest in zip(whole, near, strict=True):
        told += [(n.subscription, n.at, n.change, n.id, n.score, n.time) for n in ours.push(batch, not_after=LIMIT)]
        expected += [(n.subscription, n.at, n.change, n.id, n.score, n.time) for n in truth.push(rest)]
    assert told == expected
    assert len(told) > 20
    ahead = sum(table.num_rows for table in far)
    assert ours.newest == truth.newest
    assert (ours.stats().ahead, ours.stats().rejected) == (ahead, truth.stats().rejected + ahead)
    assert sum(batch.num_rows for batch in rejected) == ours.stats().rejected


NOW = 1_800_000_000_000_000
NUMBERS, MOMENTS = pa.schema([("t", pa.int64())]), pa.schema([("t", pa.timestamp("us"))])


@pytest.mark.parametrize(
    ("number", "unit", "likely"),
    [
        (NOW // 1_000, "s", "ms"), (NOW, "ms", "us"), (NOW * 1_000, None, "ns"), (NOW, "s", "us"),
        (NOW + 10**14, None, None), (NOW // 10**6, "s", None),
    ],
)  # fmt: skip
def test_the_likely_unit(number: int, unit: TimeUnit | None, likely: str | None) -> None:
    time = number * {"s": 10**6, "ms": 10**3}.get(unit or "us", 1)
    assert likely_unit(StreamColumns("t", "id", unit), NUMBERS, time, NOW) == likely
    assert likely_unit(StreamColumns("t", "id"), MOMENTS, time, NOW) is None


def test_what_is_said_where_more_than_half_of_a_batch_is_ahead() -> None:
    def said(rows: int, ahead: int, unit: TimeUnit | None = "s") -> str | None:
        return doubt(rows, ahead, NOW * 1_000, NOW, StreamColumns("t", "id", unit), NUMBERS)

    assert said(10, 5) is None
    text = said(10, 6) or ""
    assert "6 of the 10 rows of the last batch were rejected" in text
    assert "later than 2027-01-15 08:00:00+00:00" in text
    assert "they look like time_unit='ms'" in text
    assert "check how they are made" in (doubt(1, 1, NOW * 2, NOW, StreamColumns("t", "id"), MOMENTS) or "")
