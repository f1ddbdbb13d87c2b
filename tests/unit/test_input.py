"""What events may come as, and what is said of input that cannot be used."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import skyband as sb

QUERY = sb.Query("q", k=2, score="x", window=sb.Window("10 seconds"))
SECONDS = [1, 2, 3, 11, 12]
TIMES = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=s) for s in SECONDS]
SCORES = [1.0, 5.0, 3.0, 2.0, 4.0]
NAMES = ["a", "b", "c", "d", "e"]
TABLE = pa.table({"t": pa.array(TIMES, pa.timestamp("us", "UTC")), "id": NAMES, "x": SCORES})
EXPECTED = [["b", "c"], ["e", "d"]]


def ids(source: Any, **options: Any) -> list[list[Any]]:
    return [[row.id for row in answer.rows] for answer in sb.run(QUERY, source, time="t", id="id", **options)]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(lambda: TABLE, id="table"),
        pytest.param(lambda: TABLE.to_batches()[0], id="batch"),
        pytest.param(lambda: TABLE.to_reader(max_chunksize=2), id="reader"),
        pytest.param(lambda: TABLE.to_pandas(), id="pandas"),
        pytest.param(lambda: pl.from_arrow(TABLE), id="polars"),
        pytest.param(lambda: TABLE.to_pylist(), id="dicts"),
        pytest.param(lambda: (row for row in TABLE.to_pylist()), id="generator of dicts"),
        pytest.param(lambda: iter(TABLE.to_batches(max_chunksize=1)), id="generator of batches"),
        pytest.param(lambda: [TABLE.slice(0, 2).to_pandas(), TABLE.slice(2).to_pandas()], id="list of frames"),
        pytest.param(lambda: TABLE.to_pydict(), id="dict of columns"),
        pytest.param(
            lambda: [TABLE.slice(0, 4).to_pydict(), TABLE.slice(4).to_pydict()], id="list of dicts of columns"
        ),
    ],
)
def test_sources(source: Any) -> None:
    assert ids(source()) == EXPECTED


@pytest.mark.parametrize(
    "column",
    [
        pa.array(TIMES, pa.timestamp("s", "UTC")),
        pa.array(TIMES, pa.timestamp("ms", "UTC")),
        pa.array(TIMES, pa.timestamp("ns", "UTC")),
        pa.array(TIMES, pa.timestamp("us", "America/New_York")),
        pa.array([t.replace(tzinfo=None) for t in TIMES], pa.timestamp("us")),
        pa.array([t.isoformat() for t in TIMES]),
        pa.array([t.isoformat().replace("+00:00", "Z") for t in TIMES]),
        pa.array([t.replace(tzinfo=None).isoformat(" ") for t in TIMES]),
        pa.array([int(t.timestamp() * 1e6) for t in TIMES]),
    ],
    ids=lambda column: str(column.type),
)
def test_times_of_many_kinds(column: pa.Array) -> None:
    table = TABLE.set_column(0, "t", column)
    assert ids(table) == EXPECTED
    first = next(iter(sb.run(QUERY, table, time="t", id="id")))
    start = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    assert first.start == (start if pa.types.is_integer(column.type) else datetime(2024, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_whole_numbers_with_a_unit(unit: Any, factor: int) -> None:
    numbers = pa.array([int(t.timestamp()) * factor for t in TIMES])
    answers = list(sb.run(QUERY, TABLE.set_column(0, "t", numbers), time="t", id="id", time_unit=unit))
    assert [[row.id for row in answer.rows] for answer in answers] == EXPECTED
    assert answers[0].start == datetime(2024, 1, 1, tzinfo=UTC)


def test_dates() -> None:
    table = pa.table({"t": [date(2024, 1, 1), date(2024, 1, 3)], "id": [1, 2], "x": [1.0, 2.0]})
    days = sb.Query("q", k=2, score="x", window=sb.Window("2 days", slide="1 day"))
    assert [len(answer.rows) for answer in sb.run(days, table, time="t", id="id")] == [1, 1, 1, 1]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32()])
def test_ids_of_all_whole_numbers(kind: pa.DataType) -> None:
    table = TABLE.set_column(1, "id", pa.array([5, 4, 3, 2, 1], kind))
    assert ids(table) == [[4, 3], [1, 2]]


def test_ids_as_dictionary_and_large_text() -> None:
    for kind in (pa.dictionary(pa.int32(), pa.string()), pa.large_string()):
        assert ids(TABLE.set_column(1, "id", pa.array(NAMES).cast(kind))) == EXPECTED


@pytest.mark.parametrize("distinct", ["best", "latest"])
def test_a_dictionary_may_name_an_id_twice_and_hold_null(distinct: Any) -> None:
    """Arrow asks for neither one place a value, nor that NULL is told by the places."""
    place = np.arange(400, dtype=np.int32) % 2  # both are the same id
    place[[5, 6]] = 2, 3
    x = np.arange(400) * 1.0
    x[[5, 6]] = -1.0, 9_999.0
    column = pa.DictionaryArray.from_arrays(pa.array(place), pa.array(["a", "a", "b", None]))
    query = sb.Query("q", k=2, score="x", window=sb.Window(1_000), distinct=distinct)
    monitor = sb.Monitor([query], time="t", id="id")
    monitor.push(pa.table({"t": np.arange(400), "id": column, "x": x}))
    (answer,) = monitor.finish()
    assert [(row.id, row.score) for row in answer.rows] == [("a", 399.0), ("b", -1.0)]
    assert monitor.stats().rejected == 1


def test_null_in_a_dictionary_is_a_partition_and_passes_a_filter() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 0], pa.int8()), pa.array(["b", None, "a"]))
    table = pa.table({"t": range(5), "x": [1.0, 2.0, 3.0, 4.0, 5.0], "g": column})
    query = sb.Query("q", k=1, score="x", window=sb.Window(10), partition_by="g", select=("g",))
    (answer,) = sb.run(query, table, time="t", id="t")
    assert [(row.partition, row.score, row.g) for row in answer.rows] == [
        (None, 4.0, None), ("a", 3.0, "a"), ("b", 5.0, "b"),
    ]  # fmt: skip
    (answer,) = sb.run(sb.Query("q", k=5, score="x", window=sb.Window(10), where="g IS NULL"), table, time="t", id="t")
    assert [row.id for row in answer.rows] == [3, 1]


def test_nothing_at_all() -> None:
    assert ids([]) == []
    assert ids(TABLE.slice(0, 0)) == []
    assert sb.run(QUERY, TABLE.slice(0, 0), time="t", id="id").table().num_rows == 0


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (TABLE, {"time": "ts"}, "no column 'ts' for the time; it has t, id, x"),
        (TABLE, {"id": "ids"}, "no column 'ids' for the id; it has t, id, x; did you mean 'id'?"),
        (TABLE, {"time": "x"}, "the time column 'x' is double; it must hold timestamps"),
        (TABLE, {"id": "x"}, "the id column 'x' is double; ids are text or whole numbers"),
        (TABLE, {"time_unit": "ms"}, "time_unit is given but the time column 't' is timestamp"),
        (TABLE, {"time_unit": "m"}, "time_unit is 'm'; use 's', 'ms', 'us' or 'ns'"),
        (TABLE, {"watermark": "-1 second"}, "watermark is '-1 second'; it must not be negative"),
        (5, {}, "cannot read events from a int; give an Arrow table or reader, a pandas or Polars"),
        ("file.csv", {}, "cannot read events from a str"),
        (TABLE.set_column(0, "t", pa.array(["soon"] * 5)), {}, "holds text that is no ISO 8601 time, such as 'soon'"),
        (
            TABLE.set_column(0, "t", pa.array(["2024-01-01T00:00:00Z", "2024-01-01T00:00:00"] + [None] * 3)),
            {},
            "mixes times with and without a time zone",
        ),
        ([{"t": 1, "id": "a", "x": 1.0}, {"t": "2024", "id": "b", "x": 2.0}], {}, "do not have one type per column"),
        (
            [TABLE, TABLE.set_column(1, "id", pa.array([1, 2, 3, 4, 5]))],
            {},
            "column 'id' was string so far and is int64",
        ),
    ],
)
def test_input_that_cannot_be_used(source: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(sb.InputError) as caught:
        list(sb.run(QUERY, source, **({"time": "t", "id": "id"} | options)))
    assert message in str(caught.value)


def test_a_leap_in_time_is_refused_rather_than_filled_with_empty_windows() -> None:
    table = pa.table({"t": [0, 10**17], "id": [1, 2], "x": [1.0, 2.0]})
    with pytest.raises(sb.InputError, match="check the unit of the time column"):
        list(sb.run(QUERY, table, time="t", id="id"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": "y"}, "'y'"),
        ({"score": "id"}, "query 'q': a score must be number or integer, and id is text"),
        ({"where": "x + 1"}, "query 'q': a filter must be boolean, and x + 1 is number"),
        ({"select": ("venue",)}, "select names 'venue'; the stream's columns are t, id, x"),
    ],
)
def test_queries_over_columns_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"k": 1, "score": "x", "window": sb.Window(10)} | changes
    asked = sb.Query("q", **given)
    with pytest.raises(sb.SkybandError) as caught:
        list(sb.run(asked, TABLE, time="t", id="id"))
    assert message in str(caught.value)


def test_no_query_and_an_unknown_algorithm() -> None:
    with pytest.raises(sb.QueryError, match="no query was given"):
        sb.run([], TABLE, time="t", id="id")
    with pytest.raises(sb.QueryError, match=r"no algorithm 'fastest'; choose one of adaptive, .*, staircase, stkqf"):
        sb.run(QUERY, TABLE, time="t", id="id", algorithm="fastest")


def test_an_algorithm_that_ranks_only_events_names_those_that_can_do_more() -> None:
    query = sb.Query("q", k=1, score="x", window=sb.Window(10), distinct="best")
    with pytest.raises(sb.QueryError, match=r"'mintopk' ranks events, .* or take one of staircase, naive$"):
        sb.Monitor([query], algorithm="mintopk")


def test_late_and_rejected_rows_are_handed_on() -> None:
    late: list[pa.RecordBatch] = []
    rejected: list[pa.RecordBatch] = []
    rows = {
        "t": np.array([1, 25, 2, 26, 30]) * 1_000_000,
        "id": pa.array([1, 2, 3, None, 5]),
        "x": [1.0, 2.0, 3.0, 4.0, None],
    }
    batches = pa.table(rows).to_batches(max_chunksize=2)
    run = sb.run(
        QUERY, batches, time="t", id="id", watermark="1 second", on_late=late.append, on_rejected=rejected.append
    )
    assert [[row.id for row in answer.rows] for answer in run] == [[1], [], [2]]
    assert [batch["id"].to_pylist() for batch in late] == [[3]]
    assert [batch["t"].to_pylist() for batch in rejected] == [[26_000_000], [30_000_000]]
    stats = run.monitor.stats()
    assert (stats.rows, stats.late, stats.rejected) == (5, 1, 2)


def test_pandas_with_missing_values() -> None:
    frame = pd.DataFrame({"t": [1, 2, 3], "id": ["a", "b", None], "x": [1.0, np.nan, 3.0]})
    run = sb.run(QUERY, frame, time="t", id="id")
    assert [[row.id for row in answer.rows] for answer in run] == [["a"]]
    assert run.monitor.stats().rejected == 2


def test_columns_of_nothing_but_null_are_counted_and_stop_nothing() -> None:
    query = sb.Query("q", k=2, score="x", window=sb.Window(10), select=("note",))
    monitor = sb.Monitor([query], time="t", id="id")
    monitor.push([{"t": 1, "id": None, "x": None, "note": None}])
    monitor.push([{"t": 2, "id": "a", "x": None, "note": None}])
    monitor.push([{"t": None, "id": None, "x": 4.0, "note": None}])
    monitor.push([{"t": 3, "id": "b", "x": 5.0, "note": None}])
    monitor.push([{"t": 4, "id": "c", "x": 6.0, "note": "hello"}])
    (answer,) = monitor.finish()
    assert [(row.id, row.score, row.note) for row in answer.rows] == [("c", 6.0, "hello"), ("b", 5.0, None)]
    assert monitor.stats().rejected == 3


def test_a_failed_advance_changes_nothing() -> None:
    monitor = sb.Monitor([QUERY], time="t", id="id")
    monitor.push([{"t": 5, "id": 1, "x": 1.0}])
    with pytest.raises(sb.InputError, match="windows to answer at once"):
        monitor.advance(10**17)
    for wrong in ("2024-01-01", 1.5, True):
        with pytest.raises(sb.InputError, match="is no moment; give a datetime, or whole microseconds"):
            monitor.advance(wrong)  # type: ignore[arg-type]
    assert [len(answer.rows) for answer in monitor.advance(10_000_000)] == [1]


def test_what_is_no_query_is_refused() -> None:
    for wrong in (["q"], "q"):
        with pytest.raises(sb.QueryError, match="'q' is no Query; make one with"):
            sb.run(wrong, TABLE, time="t", id="id")  # type: ignore[arg-type]


def test_the_time_column_keeps_its_kind() -> None:
    monitor = sb.Monitor([QUERY], time="t", id="id")
    monitor.push(TABLE)
    with pytest.raises(sb.InputError, match=r"the time column 't' was timestamp.* so far and is int64 in this batch"):
        monitor.push(TABLE.set_column(0, "t", pa.array(SECONDS)))


def test_smaller_batches_give_earlier_answers() -> None:
    drawn = 0

    def live() -> Any:
        nonlocal drawn
        for second in range(100):
            drawn += 1
            yield {"t": second * 1_000_000, "id": second, "x": 1.0}

    answers = iter(sb.run(QUERY, live(), time="t", id="id", watermark=0, batch_rows=1))
    next(answers)
    assert drawn == 11
    with pytest.raises(sb.InputError, match="batch_rows is -1; it must be at least 1"):
        sb.run(QUERY, TABLE, time="t", id="id", batch_rows=-1)


@pytest.mark.parametrize(("factor", "unit"), [(1, "s"), (1000, "ms"), (10**6, None)])
def test_numbers_that_look_like_another_unit_are_doubted(
    factor: int, unit: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = pa.array([int(t.timestamp()) * factor for t in TIMES])
    monitor = sb.Monitor([QUERY], time="t", id="id")
    monitor.push(TABLE.set_column(0, "t", numbers))
    assert [f"say time_unit={unit!r}" in message for message in caplog.messages] == ([True] if unit else [])


@pytest.mark.parametrize("algorithm", ["staircase", "naive"])
@pytest.mark.parametrize("unit", [None, "ms", "s", "ns"])
def test_times_that_no_window_can_be_laid_over_are_rejected(unit: Any, algorithm: str) -> None:
    query = sb.Query("q", k=9, score="x", window=sb.Window(10, slide=5))
    per = {None: 1, "ms": 1_000, "s": 1_000_000, "ns": 1}[unit]
    most = -(-(2**61) // per)
    far = [most, -most, 2**62, -(2**62), 2**62 + 1, 2**63 - 1, -(2**63)] if unit != "ns" else []
    near = [most - 1, 1 - most] if unit is None else []
    rejected: list[int] = []
    for times in ([1, *far], [*far, 1], *([time] for time in far), *([time] for time in near), [1]):
        rows = pa.table({"t": pa.array(times, pa.int64()), "id": list(range(len(times))), "x": [1.0] * len(times)})
        run = sb.run(
            query, rows, time="t", id="id", time_unit=unit, algorithm=algorithm,
            on_rejected=lambda batch: rejected.extend(batch["t"].to_pylist()),
        )  # fmt: skip
        answers = list(run)
        out = [time for time in times if time in far]
        assert run.monitor.stats().rejected == len(out)
        assert rejected == out
        assert {row.id for answer in answers for row in answer.rows} == {times.index(t) for t in times if t not in far}
        rejected.clear()


@pytest.mark.parametrize(
    ("kind", "far"),
    [
        (pa.uint64(), [2**64 - 1, 2**63, 2**61]),
        (pa.timestamp("s"), [2**62, -(2**62)]),
        (pa.timestamp("ms", "UTC"), [2**60]),
        (pa.timestamp("us"), [2**61, -(2**61)]),
    ],
)
def test_times_of_any_type_that_are_too_far_away_are_rejected(kind: Any, far: list[int]) -> None:
    query = sb.Query("q", k=9, score="x", window=sb.Window("1 day"))
    rows = pa.table({"t": pa.array([1, *far, None], kind), "id": range(len(far) + 2), "x": [1.0] * (len(far) + 2)})
    run = sb.run(query, rows, time="t", id="id", watermark=0)
    assert [row.id for answer in run for row in answer.rows] == [0]
    assert run.monitor.stats().rejected == len(far) + 1


@pytest.mark.parametrize("column", ["t", "id", "x"])
@pytest.mark.parametrize("huge", [2**63, -(2**63) - 1, 10**30])
def test_integers_of_python_that_do_not_fit_are_rejected_rows(column: str, huge: int) -> None:
    rows = [{"t": 1, "id": 1, "x": 1}, {"t": 2, "id": 2, "x": 2} | {column: huge}, {"t": 3, "id": 3, "x": 3}]
    query = sb.Query("q", k=9, score="x", window=sb.Window(10))
    for data in (rows, {name: [row[name] for row in rows] for name in rows[0]}, [rows[:1], rows[1:2], rows[2:]]):
        run = sb.run(query, data, time="t", id="id")
        assert [row.id for answer in run for row in answer.rows] == [3, 1]
        assert run.monitor.stats().rejected == 1


def test_a_watermark_too_far_away_is_refused() -> None:
    monitor = sb.Monitor([sb.Query("q", k=1, score="x", window=sb.Window(10))], time="t", id="id")
    for watermark in (2**62, -(2**62), 2**63, 10**30):
        with pytest.raises(sb.InputError, match=rf"{watermark} is no moment; .*fewer than 2\^62"):
            monitor.advance(watermark)
    assert monitor.watermark is None


def test_a_row_that_only_one_query_can_rank_is_rejected_once_and_counts_for_that_one() -> None:
    queries = [sb.Query(name, k=3, score=name, window=sb.Window(10)) for name in ("x", "y")]
    queries.append(sb.Query("n", k=3, score="y", window=sb.Window("2 events")))
    rejected: list[Any] = []
    monitor = sb.Monitor(queries, time="t", id="id", on_rejected=lambda batch: rejected.extend(batch["id"].to_pylist()))
    rows = [("both", 1.0, 2.0), ("x", 2.0, None), ("y", float("nan"), 3.0), ("none", None, None)]
    answers = [*monitor.push([{"t": t, "id": i, "x": x, "y": y} for t, (i, x, y) in enumerate(rows)])]
    answers += monitor.finish()
    assert {a.query: [row.id for row in a.rows] for a in answers} == {
        "x": ["x", "both"], "y": ["y", "both"], "n": ["y", "both"],
    }  # fmt: skip
    assert rejected == ["x", "y", "none"]
    stats = monitor.stats()
    assert stats.rejected == 3
    assert {group.queries: group.rejected for group in stats.groups} == {("x",): 2, ("y",): 2, ("n",): 2}


PARTED = sb.Query("parted", k=1, score="x", partition_by="p", window=sb.Window(10))
PLAIN = sb.Query("plain", k=1, score="x * 2", window=sb.Window(10))
SUMMED = sb.Query("summed", k=1, score="sum(x)", where="p = 'a'", window=sb.Window(10))
JOINED = sb.Query("joined", k=1, score="x + likes", where="p = 'a'", window=sb.Window(10), join=sb.Join("likes"))


@pytest.mark.parametrize("queries", [[PARTED], [PLAIN, PARTED], [PLAIN, SUMMED], [PLAIN, SUMMED, JOINED]])
def test_a_batch_that_is_refused_changes_nothing(queries: list[sb.Query]) -> None:
    good = pa.table({"t": [1], "i": [1], "x": [1.0], "p": ["a"]})
    better = good.set_column(2, "x", pa.array([3.0]))

    def answered(*batches: pa.Table) -> list[Any]:
        monitor = sb.Monitor(queries, time="t", id="i", services={"likes": lambda ids: dict.fromkeys(ids, 7.0)})
        for batch in batches:
            if "p" in batch.column_names:
                monitor.push(batch)
            else:
                with pytest.raises(sb.QueryError, match="'p'"):
                    monitor.push(batch)
        return [(answer.query, answer.rows) for answer in monitor.finish()]

    assert answered(good, good.drop_columns("p").set_column(2, "x", pa.array([2])), better) == answered(good, better)


def test_subscriptions_refuse_a_batch_as_a_whole() -> None:
    subscriptions = sb.Subscriptions(
        [sb.Subscription(name, k=1, score=name, last="2 events", emit="changes") for name in ("x", "y")],
        time="t", id="i",
    )  # fmt: skip
    good = pa.table({"t": [1], "i": [1], "x": [1.0], "y": [1.0]})
    subscriptions.push(good)
    with pytest.raises(sb.QueryError, match="'y'"):
        subscriptions.push(pa.table({"t": [2], "i": [2], "x": [2]}))
    assert len(subscriptions.push(good.set_column(2, "x", pa.array([3.0])))) > 0


def test_a_history_that_is_refused_changes_nothing() -> None:
    monitor = sb.Monitor([PARTED], time="t", id="i")
    good = pa.table({"t": [15, 25], "i": [1, 2], "x": [1.0, 2.0], "p": ["a", "a"]})
    monitor.push(good)
    monitor.advance(20)
    later = sb.Query("later", k=2, score="x", partition_by="p", window=sb.Window(20))
    assert monitor.register(later, history=True) != [None]
    with pytest.raises(sb.InputError, match="'p'"):
        monitor.fill("later", pa.table({"t": [25], "i": [2], "x": [2]}))
    monitor.push({"t": [26], "i": [3], "x": [9.0], "p": ["a"]})
    monitor.fill("later", good)
    answers = {answer.query: [row.id for row in answer.rows] for answer in monitor.finish()}
    assert answers == {"parted": [3], "later": [3, 2]}
