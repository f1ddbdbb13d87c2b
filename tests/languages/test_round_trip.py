"""What is written reads back as the same."""

from __future__ import annotations

from hypothesis import given, note, settings

import skyband as sb
from skyband.languages import parse, to_rspql
from tests.languages.queries import queries


def same(one: sb.Query, other: sb.Query) -> bool:
    """Compare what queries mean: expressions by their trees, not by their spaces."""
    names = ("score_expression", "where_expression", "partition_expression")
    plain = ("name", "k", "window", "distinct", "order", "emit", "select", "join")
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
