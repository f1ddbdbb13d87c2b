"""64-bit integers in queries: partitions and filters are exact, and what does not fit is rejected and counted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import skyband as sb

IDS = [1811111111111111111 + n for n in range(5)]
MOST = 2**63 - 1


def query(name: str = "q", **given: Any) -> sb.Query:
    usual: dict[str, Any] = {"k": 3, "score": "x", "window": sb.Window(10)}
    return sb.Query(name, **(usual | given))


def stream(ids: list[int], xs: list[Any]) -> pa.Table:
    return pa.table({"t": pa.array([1] * len(ids)), "id": pa.array(ids, pa.int64()), "x": pa.array(xs)})


@pytest.mark.parametrize("algorithm", ["staircase", "naive"])
def test_partitions_by_large_integers(algorithm: str) -> None:
    table = sb.run(
        query(partition_by="id % 10"), stream(IDS, [1.0] * 5), time="t", id="id", algorithm=algorithm
    ).table()
    assert table.schema.field("partition").type == pa.int64()
    found = zip(table["partition"].to_pylist(), table["id"].to_pylist(), table["rank"].to_pylist(), strict=True)
    assert sorted(found) == [(n + 1, one, 1) for n, one in enumerate(IDS)]


def test_partitions_of_integers_are_integers() -> None:
    events = pa.table({"t": [1] * 6, "id": list(range(6)), "g": list(range(6)), "x": [1.0] * 6})
    table = sb.run(query(partition_by="g % 3", k=1), events, time="t", id="id").table()
    assert [(type(one), one) for one in table["partition"].to_pylist()] == [(int, 0), (int, 1), (int, 2)]


def test_filters_of_large_integers() -> None:
    found = sb.run(query(where="id % 10 = 2"), stream(IDS, [1.0] * 5), time="t", id="id").table()
    assert found["id"].to_pylist() == [IDS[1]]


def test_what_does_not_fit_is_rejected_and_counted() -> None:
    rejected: list[pa.RecordBatch] = []
    monitor = sb.Monitor([query(score="x * 2 + 1", k=5)], time="t", id="id", on_rejected=rejected.append)
    monitor.push(stream([1, 2, 3, 4], [1, MOST, -MOST - 1, -5]))
    answers = monitor.finish()
    assert [(row.id, row.score) for answer in answers for row in answer.rows] == [(1, 3.0), (4, -9.0)]
    assert monitor.stats().rejected == 2
    assert pa.Table.from_batches(rejected)["id"].to_pylist() == [2, 3]


def test_finished_scores_are_floats_and_tie_beyond_their_precision() -> None:
    answers = sb.run(query(score="x + 0"), stream([1, 2, 3], [2**53, 2**53 + 1, 7]), time="t", id="id")
    assert [(row.id, row.score) for answer in answers for row in answer.rows] == [(1, 2.0**53), (2, 2.0**53), (3, 7.0)]


def test_a_snapshot_goes_on_with_integer_partitions() -> None:
    whole = sb.Monitor([query(partition_by="id % 10")], time="t", id="id")
    whole.push(stream(IDS[:3], [1.0] * 3))
    again = sb.Monitor.restore(whole.snapshot())
    for monitor in (whole, again):
        monitor.push(stream(IDS, [2.0] * 5))
    tables = [monitor.finish().table() for monitor in (whole, again)]
    assert tables[0].equals(tables[1])
    assert sorted(tables[0]["partition"].to_pylist()) == [1, 1, 2, 2, 3, 3, 4, 5]


# Aggregates.


def ranked(monitor: sb.Monitor) -> list[tuple[Any, float]]:
    return [(row.id, row.score) for answer in monitor.finish() for row in answer.rows]


@pytest.mark.parametrize("order", [1, -1])
def test_sums_of_integers_are_exact_whatever_their_order(order: int) -> None:
    monitor = sb.Monitor([query(score="sum(x) % 10", k=9), query("r", score="sum(x)", k=9)], time="t", id="id")
    values = [(1, MOST), (1, MOST), (1, -MOST), (1, -MOST + 4), (2, 2**60 + 1), (2, 2**60 + 2), (3, None)]
    for one, value in values[::order]:
        monitor.push(pa.table({"t": [1], "id": [one], "x": pa.array([value], pa.int64())}))
    assert ranked(monitor) == [(2, float((2**61 + 3) % 10)), (1, 4.0), (2, 2.0**61), (1, 4.0)]
    assert monitor.stats().rejected == 0


@pytest.mark.parametrize("order", [1, -1])
def test_a_sum_that_does_not_fit_is_null_and_counted(order: int) -> None:
    monitor = sb.Monitor([query(score="sum(x)", k=9)], time="t", id="id")
    values = [(1, MOST), (1, 1), (2, -MOST - 1), (2, 0), (3, -MOST - 1), (3, -1), (4, MOST), (4, 0), (5, 7)]
    for one, value in values[::order]:
        monitor.push(pa.table({"t": [1], "id": [one], "x": pa.array([value], pa.int64())}))
    assert ranked(monitor) == [(4, float(MOST)), (5, 7.0), (2, float(-MOST - 1))]
    assert monitor.stats().rejected == monitor.stats().groups[0].rejected == 2


@pytest.mark.parametrize("select", [(), ("count(DISTINCT x) AS d",)], ids=["as arrays", "as tables"])
def test_a_sum_that_does_not_fit_is_ranked_and_not_counted_where_the_score_is_no_null(select: tuple[str, ...]) -> None:
    monitor = sb.Monitor([query(score="coalesce(sum(x), 6)", k=9, select=select)], time="t", id="id")
    monitor.push(stream([1, 1, 2, 2, 3, 4], [MOST, 1, 7, -2, None, -1]))
    assert ranked(monitor) == [(1, 6.0), (3, 6.0), (2, 5.0), (4, -1.0)]
    assert monitor.stats().rejected == monitor.stats().groups[0].rejected == 0


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        ("max(x) - min(x)", [(2, 3.0), (1, 0.0)]),
        ("max(x) % 1000", [(2, float((2**53 + 5) % 1000)), (1, -1.0)]),
        ("avg(x)", [(2, 2.0**53 + 4), (1, -1.0)]),
        ("count(x) * 1000 + count(*)", [(2, 2003.0), (1, 1001.0), (3, 1.0)]),
    ],
)
def test_aggregates_of_integers(score: str, expected: list[tuple[int, float]]) -> None:
    events = stream([1, 2, 2, 2, 3], [-1, 2**53 + 2, None, 2**53 + 5, None])
    monitor = sb.Monitor([query(score=score, k=9)], time="t", id="id")
    monitor.push(events)
    again = sb.Monitor.restore(monitor.snapshot())
    assert ranked(monitor) == ranked(again) == expected
