"""Aggregated queries: every window of every cut into batches says what adding up its events says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.order import NEVER
from skyband.queries.query import LARGEST_K
from tests.groups import rankings
from tests.oracle import Ask, Event, Oracle

Row = dict[str, Any]
NOBODY = ""
"""The group of those that have none, which is a group like others and comes before them."""


def numbers(rows: Sequence[Row]) -> list[float]:
    return [row["x"] for row in rows if row["x"] is not None and not math.isnan(row["x"])]


def some(rows: Sequence[Row], of: Callable[[list[float]], float]) -> float | None:
    return of(numbers(rows)) if numbers(rows) else None


SCORES: dict[str, Callable[[Sequence[Row]], float | None]] = {
    "count(*)": len,
    "count(x)": lambda rows: len(numbers(rows)),
    "count(venue)": lambda rows: sum(row["venue"] is not None for row in rows),
    "sum(x)": lambda rows: some(rows, sum),
    "max(x) - min(x)": lambda rows: some(rows, lambda xs: max(xs) - min(xs)),
    "avg(x)": lambda rows: some(rows, lambda xs: sum(xs) / len(xs)),
    "sum(2 * x) / count(*) + 1": lambda rows: some(rows, lambda xs: 2 * sum(xs) / len(rows) + 1),
    "coalesce(sum(x), -1)": lambda rows: some(rows, sum) if numbers(rows) else -1.0,
}
WINDOWS = [
    sb.Window(12, slide=4),
    sb.Window(10, slide=4, offset=3),
    sb.Window(7),
    sb.Window(9, slide=6, closed="right"),
    sb.Window.cumulative(12, step=4, offset=3),
    sb.Window.cumulative(20, step=2),
    sb.Window.all_time(every=7, offset=2),
]
ROWS = st.fixed_dictionaries(
    {
        "t": st.one_of(st.integers(0, 60), st.integers(0, 60), st.none()),
        "id": st.one_of(st.integers(0, 5), st.none()),
        "venue": st.sampled_from(["a", "b", "c", None]),
        "x": st.one_of(st.integers(-6, 6).map(lambda n: n / 2), st.none(), st.just(math.nan)),
        "ok": st.booleans(),
    }
)


def truth(query: sb.Query, batches: Sequence[Sequence[Row]], delay: int | None) -> tuple[list[Any], Oracle]:
    """Answer slowly: the oracle says which events are in which window, the rest is adding up."""
    window, key = query.window, query.group_keys[0].name if query.group_keys else "id"
    ask = Ask("q", LARGEST_K, window.size, window.slide, window.offset, window.closed, kind=window.kind)
    oracle, known = Oracle([ask], delay), []
    for batch in batches:
        events = []
        for row in batch:
            if query.where is None or row["ok"]:
                known.append(row)
                name = NOBODY if row[key] is None and key != "id" else row[key]
                events.append(Event(row["t"], name, float(len(known) - 1)))
            elif row["t"] is not None:  # time passes all the same
                oracle.newest = row["t"] if oracle.newest is None else max(oracle.newest, row["t"])
        oracle.batch(events)
    oracle.end()
    sign = -1 if query.order == "desc" else 1
    answers = []
    for reply in oracle.replies:
        groups: dict[Any, list[Row]] = {}
        for _, _, name, place, _ in reply.rows:
            groups.setdefault(name, []).append(known[int(place)])
        scored = {name: SCORES[query.score](rows) for name, rows in groups.items()}
        ranked = sorted(
            (sign * score, -max(row["t"] for row in groups[name]), name, float(score))
            for name, score in scored.items()
            if score is not None
        )
        best = [(None if n == NOBODY else n, s, -t) for _, t, n, s in ranked[: query.most_rows]]
        answers.append((reply.start, reply.end, best))
    return answers, oracle


def shown(answers: Any) -> list[Any]:
    return [(a.start, a.end, [(row.id, row.score, row.time) for row in a.rows]) for a in answers]


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(ROWS, max_size=40),
    score=st.sampled_from(list(SCORES)),
    window=st.sampled_from(WINDOWS),
    k=st.sampled_from([1, 2, 9]),
    order=st.sampled_from(["desc", "asc"]),
    where=st.sampled_from([None, "ok"]),
    group_by=st.sampled_from([None, "venue"]),
    delay=st.sampled_from([0, 5, 60]),
    size=st.integers(1, 15),
    kept=st.integers(0, 5),
)
def test_each_window_says_what_adding_up_its_events_says(
    rows: list[Row], score: str, window: sb.Window, k: int, order: Any, where: str | None, group_by: str | None,
    delay: int, size: int, kept: int,
) -> None:  # fmt: skip
    query = sb.Query("q", k=k, score=score, window=window, order=order, where=where, group_by=group_by)
    batches = [rows[at : at + size] for at in range(0, len(rows), size)]
    monitor = sb.Monitor([query], time="t", id="id")
    answers: list[sb.Answer] = []
    for number, batch in enumerate(batches):
        monitor.push(batch)
        if monitor.newest > NEVER:
            answers += monitor.advance(monitor.newest - delay)
        if number == kept:
            monitor = sb.Monitor.restore(monitor.snapshot())
    answers += monitor.finish()
    wanted, oracle = truth(query, batches, delay)
    assert shown(answers) == wanted
    assert all(answer.exact for answer in answers)
    (stats,) = monitor.stats().groups
    assert (stats.late, stats.partly_late, stats.rejected) == (oracle.late, oracle.partly_late, oracle.rejected)


STREAM = [
    {"t": t, "id": t % 4, "venue": "abc"[t % 3], "x": float(t % 5), "ok": True, "note": f"n{t}"} for t in range(40)
]


def test_a_run_in_one_piece_says_the_same_as_one_batch_by_batch() -> None:
    query = sb.Query("q", k=3, score="sum(x)", window=WINDOWS[0], group_by="venue")
    whole = list(sb.run(query, STREAM, time="t", id="id"))
    assert shown(whole) == truth(query, [STREAM], None)[0]
    assert shown(sb.run(query, STREAM, time="t", id="id", watermark=0, batch_rows=3)) == shown(whole)


def test_beside_queries_that_rank_events_ids_of_two_types_become_text() -> None:
    venues = sb.Query("venues", k=1, score="count(*)", window=sb.Window(40), group_by="venue", select=("note",))
    events = sb.Query("events", k=1, score="x", window=sb.Window(40))
    table = sb.run([venues, events], STREAM, time="t", id="id").table()
    assert table.select(["query", "id", "score", "note"]).to_pylist() == [
        {"query": "venues", "id": "a", "score": 14.0, "note": "n39"},
        {"query": "events", "id": "3", "score": 4.0, "note": None},
    ]


def test_changes_come_and_go_by_id() -> None:
    query = sb.Query("q", k=1, score="sum(x)", window=sb.Window(10), emit="changes", group_by="venue")
    found = [[(c.kind, c.row.id) for c in answer.changes] for answer in sb.run(query, STREAM, time="t", id="id")]
    wanted = [rows[0][0] for _, _, rows in truth(query, [STREAM], None)[0]]
    assert found[0] == [("entered", wanted[0])]
    for (before, after), changes in zip(pairwise(wanted), found[1:], strict=True):
        kinds = [("updated", after)] if before == after else [("left", before), ("entered", after)]
        assert changes in (kinds, [] if before == after else kinds)


def test_a_query_that_comes_later_warms_up_and_one_that_pauses_goes_on() -> None:
    first = sb.Query("first", k=2, score="count(*)", window=WINDOWS[0])
    monitor = sb.Monitor([first], time="t", id="id")
    monitor.push(STREAM[:20])
    monitor.advance(20)
    monitor.register(sb.Query("later", k=2, score="count(*)", window=WINDOWS[0]))
    monitor.pause("first")
    monitor.push(STREAM[20:30])
    assert {(a.query, a.exact, a.why) for a in monitor.advance(26)} == {("later", False, "warming up")}
    monitor.resume("first")
    monitor.push(STREAM[30:])
    rest = monitor.finish()
    assert {a.exact for a in rest} == {False, True}
    assert [(a.query, a.end) for a in rest.latest()] == [("first", 48), ("later", 48)], "of both kinds, one is the last"
    late: list[Any] = [answer for answer in rest if shown([answer])[0][0] >= 20]
    assert {answer.query for answer in late if answer.exact} == {"first", "later"}
    told = {name: shown(a for a in late if a.query == name) for name in ("first", "later")}
    assert told["first"] == told["later"] == [a for a in truth(first, [STREAM], None)[0] if a[0] >= 20]
    monitor.change(sb.Query("first", k=1, score="x", window=WINDOWS[0]))
    assert len(rankings(monitor)) == 1
    monitor.unregister("later")
    assert [query.name for query in monitor.queries] == ["first"]


def test_a_batch_without_groups_is_a_group_and_their_type_stays() -> None:
    query = sb.Query("q", k=1, score="count(*)", window=sb.Window(10), group_by="venue")
    monitor = sb.Monitor([query], time="t", id="id")
    monitor.push([{"t": 1, "id": 1, "venue": None}])
    monitor.push([{"t": 2, "id": 1, "venue": "a"}])
    assert monitor.stats().rejected == 0
    with pytest.raises(sb.InputError, match="column 'venue' was string so far and is int64"):
        monitor.push([{"t": 3, "id": 1, "venue": 7}])
    assert "aggregated: score count(*) desc, group by venue" in monitor.explain()
    assert [(row.id, row.score) for row in monitor.finish()[0].rows] == [("a", 1.0)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"window": sb.Window("9 events")}, "aggregates are of windows of time, and the window counts events"),
        ({"distinct": "latest"}, "aggregates rank ids, each once; leave distinct='latest' out"),
        ({"score": "sum(x) + y"}, "'y' stands outside of an aggregate; with sum(x) in it"),
        ({"score": "max(sum(x))"}, "max(sum(x)) has an aggregate inside an aggregate; write one"),
        ({"score": "sum(x) > 3"}, "a score must be number or integer"),
        ({"score": "x", "group_by": "venue"}, "group_by is 'venue', and the score 'x' has no aggregate; write count"),
        ({"group_by": ""}, "group_by is ''; give an SQL expression as text"),
        ({"where": "count(*) > 1"}, "aggregates are for the score of a query"),
    ],
)
def test_what_aggregates_cannot_have_is_refused_when_the_query_is_made(given: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"k": 1, "score": "sum(x)", "window": sb.Window(1)}
    with pytest.raises(sb.QueryError) as caught:
        sb.Query("q", **(usual | given))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group_by": "place"}, "group_by names 'place'; the stream's columns are t, id"),
        ({"group_by": "x"}, "group_by names 'x', which is double; ids are text or whole numbers"),
        ({"score": "sum(venue)"}, "a score must be number or integer, and venue is text"),
    ],
)
def test_columns_that_do_not_fit_are_named(given: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"k": 1, "score": "sum(x)", "window": sb.Window(1)}
    with pytest.raises(sb.QueryError) as caught:
        list(sb.run(sb.Query("q", **(usual | given)), STREAM, time="t", id="id"))
    assert message in str(caught.value)


def test_an_aggregated_query_is_plain_data() -> None:
    query = sb.Query("q", k=1, score="sum(x) / count(*)", window=sb.Window(1), group_by="venue")
    assert query.as_dict()["group_by"] == "venue"
    assert sb.Query.from_dict(query.as_dict()) == query
