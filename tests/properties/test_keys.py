"""Keys of several columns, further values, conditions over aggregates: as plain Python says, whatever the batches."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.answers.changes import fold
from skyband.engine import partial_tables
from tests import keyed
from tests.keyed import AGGREGATES, CITIES, CONDITIONS, GROUPS, LARGE, PARTITIONS, VALUES, VENUES, Row, answers, told

ROWS = st.fixed_dictionaries(
    {
        "t": st.one_of(st.integers(0, 40), st.integers(0, 40), st.none()),
        "id": st.one_of(st.integers(0, 4), st.integers(0, 4), st.none()),
        "venue": st.sampled_from(VENUES),
        "city": st.sampled_from(CITIES),
        "flag": st.sampled_from([True, False, None]),
        "n": st.one_of(st.integers(0, 3), st.sampled_from([LARGE, LARGE + 1, -LARGE - 1]), st.none()),
        "x": st.one_of(st.integers(-6, 6).map(lambda n: n / 2), st.none(), st.just(math.nan)),
    }
)
TYPED = [{"t": None, "id": 0, "venue": "v", "city": "c", "flag": True, "n": 0, "x": 0.0}]
"""A row that is rejected, and says of which types columns are."""
WINDOWS = [sb.Window(12, slide=4), sb.Window(10, slide=4), sb.Window(7)]
FURTHER = [f"{text} AS v{number}" for number, text in enumerate(AGGREGATES)]
STREAM: list[Row] = [
    {
        "t": t, "id": t % 5, "venue": VENUES[t * 7 % 9], "city": CITIES[t * 5 % 6], "flag": [True, False, None][t % 3],
        "n": None if t % 11 == 0 else t % 4, "x": float(t * 3 % 7),
    }
    for t in range(60)
]  # fmt: skip


def played(query: sb.Query, rows: list[Row], size: int, kept: int) -> list[Any]:
    """Push rows batch by batch, restore a snapshot in between, and let time pass only in the end."""
    monitor = sb.Monitor([query], time="t", id="id")
    for number, at in enumerate(range(0, len(rows), size)):
        monitor.push([*TYPED, *rows[at : at + size]])
        if number == kept:
            monitor = sb.Monitor.restore(monitor.snapshot())
    return list(monitor.finish())


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=40),
    score=st.sampled_from(list(AGGREGATES)),
    window=st.sampled_from(WINDOWS),
    k=st.sampled_from([1, 2, 9]),
    partition_by=st.sampled_from(PARTITIONS),
    group_by=st.sampled_from(GROUPS),
    having=st.sampled_from(list(CONDITIONS)),
    select=st.lists(st.sampled_from(FURTHER), max_size=3, unique=True).map(tuple),
    size=st.integers(1, 15),
    kept=st.integers(0, 3),
)
def test_aggregates_of_keys(
    rows: list[Row], score: str, window: sb.Window, k: int, partition_by: Any, group_by: Any, having: str | None,
    select: tuple[str, ...], size: int, kept: int,
) -> None:  # fmt: skip
    query = sb.Query(
        "q", k=k, score=score, window=window, partition_by=partition_by, group_by=group_by, having=having, select=select
    )
    found = played(query, rows, size, kept)
    wanted = answers(query, rows)
    assert told(found) == wanted
    kinds = [[[type(value) for value in row[5].values()] for row in ranked] for _, _, ranked in wanted]
    assert [[[type(value) for value in row.values.values()] for row in answer.rows] for answer in found] == kinds
    assert {answer.exact for answer in found} <= {"approx" not in "".join([score, *select, having or ""])}


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=40),
    window=st.sampled_from(WINDOWS),
    k=st.sampled_from([1, 2, 9]),
    partition_by=st.sampled_from(PARTITIONS),
    select=st.lists(st.sampled_from([one for one in VALUES if one != "n % 2"]), max_size=3, unique=True).map(tuple),
    size=st.integers(1, 15),
    kept=st.integers(0, 3),
)
def test_events_of_keys(
    rows: list[Row], window: sb.Window, k: int, partition_by: Any, select: tuple[str, ...], size: int, kept: int
) -> None:
    query = sb.Query("q", k=k, score="x", window=window, partition_by=partition_by, select=select)
    assert told(played(query, rows, size, kept)) == answers(query, rows)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=40),
    score=st.sampled_from(list(AGGREGATES)),
    window=st.sampled_from(
        [sb.Window.cumulative(12, step=4), sb.Window.all_time(every=7), sb.Window.calendar("day", zone="Europe/Berlin")]
    ),
    partition_by=st.sampled_from(PARTITIONS),
    group_by=st.sampled_from(GROUPS),
    having=st.sampled_from(list(CONDITIONS)),
    size=st.integers(1, 15),
    kept=st.integers(0, 3),
)
def test_aggregates_of_keys_over_other_windows(
    rows: list[Row], score: str, window: sb.Window, partition_by: Any, group_by: Any, having: str | None, size: int,
    kept: int,
) -> None:  # fmt: skip
    query = sb.Query(
        "q", k=2, score=score, window=window, partition_by=partition_by, group_by=group_by, having=having,
        select=tuple(FURTHER[5:8]),
    )  # fmt: skip
    valid = [row for row in rows if row["t"] is not None and (group_by is not None or row["id"] is not None)]
    found = played(query, rows, size, kept)
    assert bool(found) == bool(valid)
    for answer in found:
        inside = [row for row in valid if (answer.start is None or answer.start <= row["t"]) and row["t"] < answer.end]
        assert told([answer])[0][2] == keyed.aggregated(query, inside)


def test_early_answers_of_aggregates_come_when_they_look_different() -> None:
    query = sb.Query(
        "q", k=2, score="sum(x)", window=sb.Window(20, slide=10), partition_by=("venue",), group_by=("city", "flag"),
        emit="early", select=("count(*) AS c",),
    )  # fmt: skip
    monitor = sb.Monitor([query], time="t", id="id")
    shown: dict[Any, Any] = {}
    for at in range(0, 60, 5):
        monitor.push(STREAM[at : at + 5])
        fresh = {answer.end: told([answer]) for answer in monitor.advance() if answer.provisional}
        truth = {one[1]: [one] for one in answers(query, STREAM[: at + 5])}
        assert fresh == {end: one for end, one in truth.items() if shown.get(end) != one}
        shown |= fresh
        assert not len(monitor.advance()), "nothing looks different"
        monitor = sb.Monitor.restore(monitor.snapshot())
        assert not len(monitor.advance()), "what was shown is remembered"
    final = monitor.finish()
    assert told(final) == answers(query, STREAM)
    assert not any(answer.provisional for answer in final)


def test_changes_go_by_partition_and_id_and_null_is_one() -> None:
    query = sb.Query(
        "q", k=2, score="count(*)", window=sb.Window(10), partition_by="flag", group_by="venue", emit="changes"
    )
    rows: list[sb.Row] = []
    for answer, wanted in zip(sb.run(query, STREAM, time="t", id="id"), answers(query, STREAM), strict=True):
        rows = fold(rows, answer.changes)
        assert [(row.partition, row.id) for row in rows] == [(part, name) for _, name, _, _, part, _ in wanted[2]]


def test_more_distinct_values_than_are_kept_are_not_called_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_tables, "MOST_VALUES", 30)
    query = sb.Query("q", k=3, score="count(distinct n)", window=sb.Window(20, slide=10), group_by="venue")
    rows = [{"t": t, "id": 0, "venue": "ab"[t % 2], "n": t if t < 60 else 0} for t in range(100)]
    monitor = sb.Monitor([query], time="t", id="id")
    monitor.push(rows[:35])
    monitor = sb.Monitor.restore(monitor.snapshot())
    monitor.push(rows[35:])
    found = {answer.end: answer for answer in monitor.finish()}
    truth = {end: [(name, score) for _, name, score, *_ in ranked] for _, end, ranked in _truth(query, rows)}
    inexact = {end for end, answer in found.items() if not answer.exact}
    assert inexact, "more than 30 distinct values in the panes of one batch"
    assert {found[end].why for end in inexact} == {partial_tables.MANY_VALUES}
    for end in truth.keys() - inexact:
        assert [(row.id, row.score) for row in found[end].rows] == truth[end]
    assert truth.keys() - inexact, "panes before and after are whole"


def _truth(query: sb.Query, rows: list[Row]) -> list[Any]:
    return keyed.answers(query, [row | {"x": 0.0, "city": None, "flag": None} for row in rows])


def test_the_first_and_the_last_time_of_a_group() -> None:
    stamps = pa.array([datetime(2026, 1, day, tzinfo=UTC) for day in (3, 1, 2)] + [None], pa.timestamp("s", "UTC"))
    query = sb.Query(
        "q", k=3, score="count(*)", window=sb.Window(10), group_by="g",
        select=("min(seen) AS first", "max(seen) AS last", "count(DISTINCT seen) AS times", "count(seen) AS c"),
    )  # fmt: skip
    rows = {"t": [1, 2, 3, 4], "id": [1] * 4, "g": ["a", "a", "a", "b"], "seen": stamps}
    (answer,) = sb.run(query, rows, time="t", id="id")
    third, first = datetime(2026, 1, 3, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    assert [tuple(row.values.values()) for row in answer.rows] == [(first, third, 3, 3), (None, None, 0, 0)]
    with pytest.raises(sb.QueryError, match="a score must be number or integer, and seen is time"):
        list(sb.run(sb.Query("q", k=1, score="sum(seen)", window=sb.Window(1)), rows, time="t", id="id"))


def test_sketches_are_as_good_as_they_say() -> None:
    count = 50_000
    query = sb.Query("q", k=1, score="approx_count_distinct(n)", window=sb.Window(10))
    (answer,) = sb.run(query, {"t": [1] * count, "id": [1] * count, "n": list(range(count))}, time="t", id="id")
    assert abs(answer.rows[0].score / count - 1) < 3 * 0.0163
    assert (answer.exact, answer.why) == (False, "approximate")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"having": "count(*) > 1"}, "having is 'count(*) > 1', and the score 'x' has no aggregate"),
        ({"select": ("sum(x) AS s",)}, "select is 'sum(x)', and the score 'x' has no aggregate"),
        ({"score": "sum(x)", "having": "x > 1"}, "having: 'x' stands outside of an aggregate"),
        ({"score": "sum(x)", "having": "sum(x)"}, "having: a filter must be boolean"),
        ({"score": "sum(x)", "select": ("sum(x) + y AS s",)}, "select: s: 'y' stands outside of an aggregate"),
        ({"partition_by": ("venue", "time")}, "the keys name 'time', which every answer has a column of its own for"),
        ({"partition_by": ("venue", "n % 2 AS x"), "select": ("x",)}, "'x' is the name of different values"),
        ({"partition_by": ("venue", "venue")}, "partition_by names 'venue' twice"),
        ({"score": "sum(distinct x)"}, "sum(DISTINCT …) is not allowed; there is count(DISTINCT …)"),
    ],
)
def test_what_cannot_be_is_refused_when_the_query_is_made(given: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"k": 1, "score": "x", "window": sb.Window(1)}
    with pytest.raises(sb.QueryError) as caught:
        sb.Query("q", **(usual | given))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partition_by": ("venue", "x")}, "partition_by: x is a number, and several keys are text, whole numbers"),
        ({"score": "sum(x)", "group_by": ("venue", "x")}, "group_by: x is a number, and several keys are text"),
        ({"score": "sum(x)", "group_by": "flag"}, "group_by names 'flag', which is bool; ids are text or whole"),
        ({"select": ("venue * 2 AS v",)}, "'*' needs a number, and 'venue' is string"),
        ({"score": "sum(x)", "select": ("max(venue) AS v",)}, "a score must be number or integer, and venue is text"),
        ({"score": "approx_count_distinct(x)"}, "CAST to STRING takes integer or boolean or text: 'x' is double"),
    ],
)
def test_columns_that_do_not_fit_are_named(given: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"k": 1, "score": "x", "window": sb.Window(1)}
    with pytest.raises(sb.QueryError) as caught:
        list(sb.run(sb.Query("q", **(usual | given)), STREAM, time="t", id="id"))
    assert message in str(caught.value)


@pytest.mark.parametrize("by", ["day", "moment", "share", "flag", "coded"])
def test_partitions_of_every_type_are_the_same_for_events_and_aggregates(by: str) -> None:
    columns = {
        "t": [1, 2, 3, 35], "id": [1, 2, 3, 4], "x": [1.0, 2.0, 3.0, 4.0],
        "day": pa.array([1, 2, 1, None], pa.date32()), "moment": pa.array([1, 2, None, 2], pa.timestamp("s")),
        "share": [0.5, 0.25, None, 0.0], "flag": [True, None, False, None],
        "coded": pa.array(["b", "a", None, "b"]).dictionary_encode(),
    }  # fmt: skip
    events, sums = (
        [
            (a.end, [(row.partition, row.id, row.score) for row in a.rows])
            for a in sb.run(
                sb.Query("q", k=1, score=score, window=sb.Window(10), partition_by=by), columns, time="t", id="id"
            )
        ]
        for score in ("x", "sum(x)")
    )
    assert events == sums
    assert len(sums) == 4, "empty windows are answered, too"


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_keys_that_hold_nothing_at_first(batch_rows: int) -> None:
    rows = [{"t": t, "id": t, "venue": "v" if t > 3 else None, "city": None, "x": float(t)} for t in range(6)]
    window = sb.Window(10)
    queries = [
        sb.Query("events", k=1, score="x", window=window, partition_by=("venue", "city"), select=("venue AS v",)),
        sb.Query("parts", k=1, score="sum(x)", window=window, partition_by=("venue", "city")),
        sb.Query("part", k=1, score="sum(x)", window=window, partition_by="venue"),
        sb.Query("groups", k=2, score="sum(x)", window=window, group_by=("venue", "city"), select=("city AS c",)),
    ]
    found = sb.run(queries, rows, time="t", id="id", watermark=0, batch_rows=batch_rows)
    shown = {answer.query: [(row.partition, row.id, row.score) for row in answer.rows] for answer in found}
    assert shown == {
        "events": [("\\N|\\N", 3, 3.0), ("v|\\N", 5, 5.0)],
        "parts": [("\\N|\\N", 3, 3.0), ("v|\\N", 5, 5.0)],
        "part": [(None, 3, 3.0), ("v", 5, 5.0)],
        "groups": [(None, "v|\\N", 9.0), (None, "\\N|\\N", 6.0)],
    }


def test_such_a_query_is_plain_data() -> None:
    query = sb.Query(
        "q", k=1, score="sum(x)", window=sb.Window(1), partition_by=("venue", "n % 2 AS odd"), group_by=("city", "n"),
        having="count(*) > 1", select=("count(distinct n) AS d",),
    )  # fmt: skip
    assert sb.Query.from_dict(query.as_dict()) == query
