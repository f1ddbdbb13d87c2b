"""What is written reads back as the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, note, settings

import skyband as sb
from skyband.languages import parse, to_rspql
from tests.languages.queries import queries


def same(one: sb.Query, other: sb.Query) -> bool:
    """Compare what queries mean: expressions by their trees, not by their spaces."""
    names = ("score_expression", "where_expression", "partition_expression")
    plain = ("name", "k", "window", "distinct", "order", "emit", "select", "join", "group_by")
    return all(getattr(one, name) == getattr(other, name) for name in (*names, *plain))


@settings(max_examples=60, deadline=None)
@given(query=queries())
def test_a_query_reads_back_as_it_was_written(query: sb.Query) -> None:
    text = to_rspql(query)
    note(text)
    again = parse(text)
    note(f"{query}\n{again}")
    assert same(again, query)
    assert to_rspql(again) == text


JOINED = [
    ("price * followers", None),
    ("0.7 * price + 0.3 * followers - volume", "volume > 2"),
    ("followers", "followers > 100000 AND venue = 'x'"),
    ("100 * count(*) + followers", "venue IS NOT NULL"),
    ("sum(price) / count(volume) + ln(followers)", "followers <= 10"),
    ("max(price * volume) - followers", None),
]


@pytest.mark.parametrize(("score", "where"), JOINED)
@pytest.mark.parametrize("on", [None, "user"])
def test_joined_queries_read_back_with_their_mapping(score: str, where: str | None, on: str | None) -> None:
    join = sb.Join("followers", on=on, budget=7, n=3)
    query = sb.Query("q", k=2, score=score, where=where, window=sb.Window("1 hour"), join=join, select=("note",))
    text = to_rspql(query, id="tweet")
    again = parse(text, sb.Mapping(services={":followers": {"service": "followers", "budget": 7, "n": 3}}))
    assert same(again, query), text


@pytest.mark.parametrize("group_by", [None, "venue", "a b"])
@pytest.mark.parametrize("score", ["count(*)", "sum(price * volume) / sum(volume)", "max(venue) - 1", "count(`a b`)"])
def test_aggregated_queries_read_back(score: str, group_by: str | None) -> None:
    query = sb.Query("q", k=2, score=score, where="price > 1", window=sb.Window("1 hour"), group_by=group_by)
    assert same(parse(to_rspql(query, id="trade")), query)


@pytest.mark.parametrize("partition_by", ["venue", "volume % 2"])
@pytest.mark.parametrize("score", ["count(DISTINCT symbol)", "sum(price) / count(DISTINCT volume)"])
def test_distinct_values_and_partitions_of_aggregates_read_back(score: str, partition_by: str) -> None:
    query = sb.Query("q", k=3, score=score, window=sb.Window("1 hour"), partition_by=partition_by, group_by="sector")
    assert same(parse(to_rspql(query)), query)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partition_by": ("a", "b")}, "RSP-QL has no partition_by with several keys or a name"),
        ({"score": "sum(x)", "group_by": ("a", "b")}, "RSP-QL has no group_by with several keys or an expression"),
        ({"score": "sum(x)", "group_by": "lower(a) AS b"}, "RSP-QL has no group_by with several keys or an expression"),
        ({"select": ("x * 2 AS twice",)}, "RSP-QL has no select with expressions"),
        ({"score": "sum(x)", "having": "count(*) > 1"}, "RSP-QL has no having"),
        ({"score": "approx_count_distinct(x)"}, "RSP-QL has no approx_count_distinct"),
        ({"ties": "with", "prefer": "earliest"}, "RSP-QL has no ties, no prefer"),
    ],
)
def test_what_it_has_no_words_for_is_not_left_out(given: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"k": 1, "score": "x", "window": sb.Window("1 hour")}
    with pytest.raises(sb.QueryError, match=message):
        to_rspql(sb.Query("q", **(usual | given)))
