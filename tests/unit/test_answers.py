"""Answers as rows and as tables; stats and explain."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.answers import row_kernels
from skyband.answers import table as answer_table

ROWS = [
    {"t": datetime(2024, 1, 1, 0, 0, s, tzinfo=UTC), "id": f"i{s % 3}", "x": float(s * 7 % 10), "venue": "NB"[s % 2]}
    for s in range(20)
]
TEN = sb.Window("10 seconds", slide="5 seconds")


def test_rows_have_rank_id_score_time_and_selected_columns() -> None:
    query = sb.Query("q", k=2, score="x", window=TEN, select=("venue",))
    row = next(iter(sb.run(query, ROWS, time="t", id="id"))).rows[0]
    assert (row.rank, row.id, row.score, row.venue) == (1, "i1", 8.0, "N")
    assert row.time == datetime(2024, 1, 1, 0, 0, 4, tzinfo=UTC)
    with pytest.raises(AttributeError, match="no column 'price'; it has rank, id, score, time, partition, venue"):
        _ = row.price


def test_an_answer_says_from_which_prefix_it_is() -> None:
    query = sb.Query("q", k=1, score="x", window=TEN)
    monitor = sb.Monitor([query], time="t", id="id")
    monitor.push(ROWS[:15])
    (answer, *_) = monitor.advance(datetime(2024, 1, 1, 0, 0, 10, tzinfo=UTC))
    assert answer.watermark == datetime(2024, 1, 1, 0, 0, 10, tzinfo=UTC)
    assert answer.batch == 1
    assert answer.exact
    assert answer.why is None
    assert not answer.provisional


@pytest.mark.parametrize("threads", [1, 3], ids="threads={}".format)
def test_the_table_has_the_same_rows_as_the_answers(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (row_kernels, answer_table):
        monkeypatch.setattr(module, "PARALLEL_ROWS", 1 << 18 if threads == 1 else 1)
        monkeypatch.setattr(module, "THREADS", threads)
    queries = [
        sb.Query("a", k=2, score="x", window=TEN, select=("venue",)),
        sb.Query("b", k=3, score="-x", window=TEN, partition_by="venue"),
        sb.Query("c", k=1, score="x", window=sb.Window("4 seconds"), order="asc"),
    ]
    expected = [
        (a.query, a.start, a.end, r.rank, r.id, r.score, r.time, r.partition, r.values.get("venue"))
        for a in sb.run(queries, ROWS, time="t", id="id")
        for r in a.rows
    ]
    table = sb.run(queries, ROWS, time="t", id="id").table()
    names = ["query", "window_start", "window_end", "rank", "id", "score", "time", "partition", "venue"]
    assert set(names) == set(table.column_names)
    assert [tuple(row[name] for name in names) for row in table.to_pylist()] == expected
    assert table.schema.field("window_end").type == pa.timestamp("us", "UTC")
    assert table.column_names[:7] == names[:7]


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_the_table_is_in_order_of_window_ends_where_some_windows_are_closed_on_the_other_side(emit: str) -> None:
    queries = [
        sb.Query("left", k=1, score="x", window=sb.Window(2, slide=1), emit=emit),  # type: ignore[arg-type]
        sb.Query("right", k=1, score="x", window=sb.Window(2, slide=1, closed="right"), emit=emit),  # type: ignore[arg-type]
    ]
    monitor = sb.Monitor(queries, time="t", id="id")
    monitor.push([{"t": t, "id": t, "x": float(t % 3)} for t in range(9)])
    answers = monitor.advance(7)
    assert len(answers.blocks) == 1, "they rank alike"
    expected = [(a.query, a.end) for a in answers for _ in (a.changes if emit == "changes" else a.rows)]
    table = answers.table()
    ends = table["window_end"].cast(pa.int64()).to_pylist()
    assert list(zip(table["query"].to_pylist(), ends, strict=True)) == expected
    assert ends == sorted(ends)


def test_the_table_has_no_column_that_no_query_asked_for() -> None:
    table = sb.run(sb.Query("a", k=2, score="x", window=TEN), ROWS, time="t", id="id").table()
    assert table.column_names == ["query", "window_start", "window_end", "rank", "id", "score", "time"]


def test_the_table_of_changes() -> None:
    query = sb.Query("a", k=2, score="x", window=TEN, emit="changes")
    table = sb.run(query, ROWS, time="t", id="id").table()
    assert {"change", "previous_rank"} <= set(table.column_names)
    left = [row for row in table.to_pylist() if row["change"] == "left"]
    assert left
    assert all(row["rank"] is None and row["previous_rank"] for row in left)
    assert {row["change"] for row in table.to_pylist()} == {"entered", "left", "moved"}


def test_the_table_with_quality() -> None:
    query = sb.Query("a", k=2, score="x", window=TEN)
    (part,) = sb.run(query, ROWS, time="t", id="id").parts()
    table = part.table(quality=True)
    assert table["exact"].to_pylist() == [True] * table.num_rows
    assert table["why"].null_count == table.num_rows
    assert not any(table["provisional"].to_pylist())


def test_time_and_count_windows_do_not_go_into_one_table() -> None:
    queries = [sb.Query("a", k=1, score="x", window=TEN), sb.Query("b", k=1, score="x", window=sb.Window("5 events"))]
    monitor = sb.Monitor(queries, time="t", id="id")
    parts = [monitor.push(ROWS), monitor.finish()]
    assert [a.query for part in parts for a in part].count("b") == 4
    monitor = sb.Monitor(queries, time="t", id="id")
    monitor.push(ROWS[:3])
    with pytest.raises(sb.InputError, match="run them apart"):
        monitor.finish().table()


def test_answers_are_a_sequence_in_order_of_window_ends() -> None:
    queries = [sb.Query("b", k=1, score="x", window=TEN), sb.Query("a", k=1, score="-x", window=sb.Window("5 seconds"))]
    monitor = sb.Monitor(queries, time="t", id="id")
    monitor.push(ROWS)
    answers = monitor.finish()
    assert [(a.end.second, a.query) for a in answers] == sorted(  # type: ignore[union-attr]
        ((a.end.second, a.query) for a in answers),  # type: ignore[union-attr]
        key=lambda pair: (pair[0], ["b", "a"].index(pair[1])),
    )
    assert answers[0] == answers[:1][0]
    assert answers[-1].end == max(a.end for a in answers)
    assert repr(answers) == f"<{len(answers)} answers, {answers.rows} rows>"


def test_rows_that_refer_to_shared_events_equal_plain_ones() -> None:
    rng = np.random.default_rng(1)
    data = {"t": np.arange(2000), "id": rng.integers(0, 9, 2000), "x": rng.normal(size=2000)}
    query = sb.Query("a", k=30, score="x", window=sb.Window(500, slide=1))
    whole = sb.run(query, data, time="t", id="id")
    (part,) = whole.parts()
    assert part.blocks[0].place is not None, "with so many rows, events are stored once"
    bits = sb.run(query, data, time="t", id="id", watermark=0)
    bits._batches = iter(pa.table(data).to_batches(max_chunksize=10))
    parts = list(bits.parts())
    assert parts[100].blocks[0].place is None
    assert pa.concat_tables([p.table() for p in parts]).equals(part.table())


def test_stats_and_explain() -> None:
    queries = [
        sb.Query("a", k=2, score="x", window=TEN),
        sb.Query("b", k=9, score="x", window=sb.Window("5 seconds")),
        sb.Query("c", k=1, score="x * 2", window=TEN, where="venue = 'N'"),
    ]
    monitor = sb.Monitor(queries, time="t", id="id")
    monitor.push(ROWS)
    monitor.advance(datetime(2024, 1, 1, 0, 0, 12, tzinfo=UTC))
    stats = monitor.stats()
    assert (stats.rows, stats.batches, len(stats.groups)) == (20, 1, 2)
    assert stats.groups[0].queries == ("a", "b")
    assert stats.groups[1].events == 10
    assert 0 < stats.kept <= stats.bound
    assert stats.push_seconds > 0
    assert stats.answer_seconds > 0
    assert stats.answers == 2 * 2 + 2
    text = monitor.explain()
    for part in (
        "3 queries in 2 groups, algorithm 'staircase'",
        "group 2: score",
        "where",
        "because of 'b'",
        "panes of 5",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("more", "bound"),
    [({}, 2 * 3), ({"partition_by": "g"}, 2 * 3 * 2), ({"distinct": "best"}, 2 * 3), ({"distinct": "latest"}, 4)],
)
def test_the_bound_is_k_for_every_pane_and_partition(more: dict[str, Any], bound: int) -> None:
    monitor = sb.Monitor([sb.Query("q", k=2, score="x", window=sb.Window(10), **more)], time="t", id="t")
    monitor.push([{"t": t, "x": float(t), "g": "ab"[t % 2]} for t in (3, 12, 13, 24)])
    assert (monitor.stats().kept, monitor.stats().bound) == (4, bound)
    monitor.advance(100)
    assert monitor.explain().endswith("keeps 0 of 4 events now")


def test_explain_says_moments_as_the_stream_does() -> None:
    def steps(window: sb.Window, times: list[Any], watermark: Any) -> list[str]:
        monitor = sb.Monitor([sb.Query("q", k=1, score="1", window=window)], time="t", id="id")
        found = [monitor.explain()]
        monitor.push([{"t": t, "id": 1} for t in times])
        monitor.advance(watermark)
        return re.findall("1 deep from (.*) on", "".join([*found, monitor.explain()]))

    moments = [datetime(2024, 1, 1, 0, minute, tzinfo=UTC) for minute in (1, 3, 25)]
    assert steps(sb.Window("10 minutes"), moments, moments[-1]) == ["the beginning", "2024-01-01 00:20:00"]
    assert steps(sb.Window(10), [1, 3, 25], 25) == ["the beginning", "20"]
    assert steps(sb.Window("2 events"), moments, moments[-1]) == ["the beginning", "2"]


def test_explain_names_of_queries_that_are_equally_deep_the_one_that_reaches_back_furthest() -> None:
    windows = {"short": sb.Window(10), "long": sb.Window(50, slide=10), "alike": sb.Window(50, slide=10)}
    queries = [sb.Query(name, k=2, score="x", window=window) for name, window in windows.items()]
    monitor = sb.Monitor(queries, time="t", id="id")
    monitor.push([{"t": 95, "id": 1, "x": 1.0}])
    monitor.advance(100)
    assert re.findall("skyband, (.*):", monitor.explain()) == ["2 deep from 60 on (because of 'alike')"]


def test_time_that_passes_means_nothing_to_count_windows() -> None:
    monitor = sb.Monitor([sb.Query("q", k=1, score="x", window=sb.Window("2 events"))], time="t", id="id")
    assert len(monitor.advance(100)) == 0
    assert "1 deep from the beginning on" in monitor.explain()
    monitor.push([{"t": 1, "id": 1, "x": 1.0}])
    assert len(monitor.advance(200)) == 0


@pytest.mark.parametrize("algorithm", sb.ALGORITHMS)
def test_explain_says_only_what_there_is(algorithm: str) -> None:
    monitor = sb.Monitor([sb.Query("a", k=2, score="x", window=TEN)], algorithm=algorithm, time="t", id="id")
    before = monitor.explain()
    assert not re.search(r"\b0\b", before)
    monitor.push(ROWS)
    after = monitor.explain()
    kept, bound = monitor.stats().kept, monitor.stats().bound
    assert f"keeps {kept} of 20 events now; at most {bound}" in after
    assert ("panes" in before, "panes" in after) == (algorithm == "staircase",) * 2


@pytest.mark.parametrize("size", ["1 minute", "10 events"])
def test_explain_says_ages_in_the_words_of_the_window(size: str) -> None:
    query = sb.Query("q", k=2, score="x", window=sb.Window(size))
    monitor = sb.Monitor([query], time="t", id="id", algorithm="stkqf")
    assert f"virtual queries: the best 2 of the last {size}" in monitor.explain()


def test_explain_of_queries_per_id_says_only_what_there_is() -> None:
    joined = sb.Query("j", k=1, score="x + value", window=TEN, join=sb.Join("value", budget=1))
    summed = sb.Query("s", k=1, score="sum(x)", window=TEN)
    services = {"value": sb.Remote(lambda ids: dict.fromkeys(ids, 1.0))}
    monitor = sb.Monitor([joined, summed], time="t", id="id", services=services)
    assert not re.search(r"\b0\b", monitor.explain())
    monitor.push(ROWS)
    monitor.advance(datetime(2024, 1, 1, 0, 0, 12, tzinfo=UTC))
    after = monitor.explain()
    assert len(re.findall(r"is kept: [1-9]\d*( objects)? of 20 events now", after)) == 2
    assert re.search("[1-9] remote values are known, [1-9] requests were made", after)


def test_explain_of_latest_events_names_what_open_panes_keep() -> None:
    query = sb.Query("a", k=2, score="x", window=TEN, distinct="latest")
    assert "open panes keep the latest event of each id" in sb.Monitor([query], time="t", id="id").explain()
