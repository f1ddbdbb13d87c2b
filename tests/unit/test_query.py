"""Queries and windows are checked when they are made; messages say what was received and what is allowed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import skyband as sb
from skyband.times import format_duration, parse_duration

HOUR = sb.Window("1 hour")


def query(**changes: Any) -> sb.Query:
    given: dict[str, Any] = {"name": "q", "k": 1, "score": "x", "window": HOUR} | changes
    return sb.Query(given.pop("name"), **given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("10 minutes", 600_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("500ms", 500_000),
        ("1.5 seconds", 1_500_000),
        (" 2  Days ", 172_800_000_000),
        ("interval 3 hours", 10_800_000_000),
        ("-1 hour", -3_600_000_000),
        (timedelta(seconds=1, microseconds=5), 1_000_005),
        (17, 17),
    ],
)
def test_durations(given: Any, expected: int) -> None:
    assert parse_duration(given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("10 parsecs", "size is '10 parsecs': 'parsecs' is no unit; use microseconds to weeks"),
        ("1 month", "months and years have no fixed length"),
        ("soon", "size is 'soon', which is no length of time; write for example '10 minutes'"),
        ("", "size is '', which is no length of time"),
        (1.5, "size is 1.5, a float; give text such as '10 minutes', a timedelta, or whole microseconds"),
        (True, "size is True, a bool"),
        (2**62, "longer than the 73,000 years"),
    ],
)
def test_what_is_no_duration_is_refused(given: Any, message: str) -> None:
    with pytest.raises(sb.QueryError, match=message):
        sb.Window(given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "size is 0 microseconds; it must be more than 0"),
        ({"size": "-1 hour"}, "size is -1 hour; it must be more than 0"),
        ({"size": 10, "slide": 0}, "slide is 0 microseconds; it must be more than 0"),
        ({"size": "1 minute", "slide": "2 minutes"}, r"slide \(2 minutes\) is larger than size \(1 minute\)"),
        ({"size": "5 events", "slide": "9 events"}, r"slide \(9 events\) is larger than size \(5 events\)"),
        ({"size": "5 events", "slide": "1 second"}, "give both in time or both in events"),
        ({"size": 10, "closed": "both"}, "closed is 'both'; use 'left' for"),
        ({"size": "5 events", "offset": 3}, "offset and closed are for time windows"),
        ({"size": "5 events", "closed": "right"}, "offset and closed are for time windows"),
    ],
)
def test_windows_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(sb.QueryError, match=message):
        sb.Window(**arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "name is ''; give the query a name"),
        ({"name": 3}, "name is 3; give the query a name"),
        ({"k": 0}, "k is 0; it must be from 1 to 1,000,000"),
        ({"k": 2.0}, "k is 2.0; give a whole number"),
        ({"k": True}, "k is True; give a whole number"),
        ({"k": 10**9}, "k is 1000000000; it must be"),
        ({"window": "1 hour"}, r"window is '1 hour'; give a Window, such as Window\('1 hour', slide='10 minutes'\)"),
        ({"distinct": "yes"}, "distinct is 'yes'; use None, 'best' or 'latest'"),
        ({"order": "down"}, "order is 'down'; use 'desc' or 'asc'"),
        ({"emit": "all"}, "emit is 'all'; use 'final', 'changes', 'entered', 'left' or 'early'"),
        ({"select": "price"}, r"select is 'price'; give the names of columns, such as \('price', 'venue'\)"),
        ({"select": ("a", "a")}, "select names 'a' twice"),
        ({"select": ("rank",)}, "select names 'rank', which every answer has a column of its own for"),
        ({"score": None}, "score is None; give an SQL expression as text"),
        ({"score": "price *"}, "score: "),
        ({"where": "rand() > 1"}, r"where: the function rand\(\) is not allowed"),
        ({"partition_by": 5}, "partition_by is 5; give an SQL expression as text"),
    ],
)
def test_queries_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(sb.QueryError, match=message):
        query(**changes)


def test_several_mistakes_are_reported_together() -> None:
    with pytest.raises(sb.QueryError, match="query 'bad': 4 problems:") as caught:
        query(name="bad", k=-1, order="up", emit="never", score="1 +")
    assert len(caught.value.problems) == 4


def test_a_query_from_plain_values_reports_all_mistakes_together() -> None:
    with pytest.raises(sb.QueryError) as caught:
        sb.Query.from_dict({"name": "bad", "k": 0, "size": "soon", "color": "red"})
    text = str(caught.value)
    assert "query 'bad': 4 problems:" in text
    for part in ("unknown key 'color'; allowed are name, k, size", "missing key 'score'", "size is 'soon'", "k is 0"):
        assert part in text


def test_plain_values_and_back() -> None:
    asked = query(
        k=5, where="x > 1", partition_by="g", distinct="best", order="asc", emit="changes", select=("a", "b"),
        window=sb.Window("1 hour", slide="7 minutes", offset="1 minute", closed="right"),
    )  # fmt: skip
    assert sb.Query.from_dict(asked.as_dict()) == asked
    counted = query(window=sb.Window("10 events", slide="1 event"))
    assert sb.Query.from_dict(counted.as_dict()) == counted


def test_a_query_and_a_window_are_values() -> None:
    assert query() == query()
    assert hash(query()) == hash(query())
    assert query(k=2) != query()
    assert query(select=["a"]).select == ("a",)
    with pytest.raises(AttributeError):
        query().k = 5  # type: ignore[misc]


def test_windows_are_shown_in_words() -> None:
    assert repr(sb.Window("90 minutes", slide="30 minutes")) == "Window('90 minutes', slide='30 minutes')"
    window = sb.Window("1 hour", offset="5 minutes", closed="right")
    assert repr(window) == "Window('1 hour', slide='1 hour', offset='5 minutes', closed='right')"
    assert repr(sb.Window("1 event")) == "Window('1 event', slide='1 event')"
    assert format_duration(-60_000_000) == "-1 minute"
    assert format_duration(0) == "0 microseconds"


def test_keys_are_columns_where_they_are_listed_or_named() -> None:
    def shown(by: Any) -> list[str]:
        query = sb.Query("q", k=1, score="x", window=sb.Window(5), partition_by=by)
        return [key.name for key in query.key_columns]

    assert [shown(by) for by in ("a", "`a b`", "a % 2")] == [[], [], []]
    assert [shown(by) for by in ("a AS b", ("a",), ("a", "b % 2 AS odd"))] == [["b"], ["a"], ["a", "odd"]]
