"""How many different rankings one stream on Spark serves."""

from __future__ import annotations

from dataclasses import replace

import pytest

import skyband as sb
from skyband.spark.control import MOST_RANKINGS, check_rankings

QUERY = sb.Query("q", k=1, score="x", window=sb.Window("1 hour"))


def test_too_many_rankings_are_refused_by_the_query_that_is_one_too_many() -> None:
    queries = [replace(QUERY, name=f"q{i}", where=f"y = {i}") for i in range(MOST_RANKINGS)]
    check_rankings(queries)
    said = rf"query 'more': .* rank in {MOST_RANKINGS + 1} ways, .* at most {MOST_RANKINGS}; .*partition_by"
    with pytest.raises(sb.QueryError, match=said):
        check_rankings([*queries, replace(QUERY, name="more", where="y = -1")])


def test_queries_that_rank_alike_count_once_and_aggregates_not_at_all() -> None:
    alike = [replace(QUERY, name=f"q{i}", k=i + 1, select=("y",) * (i % 2)) for i in range(500)]
    sums = [replace(QUERY, name=f"s{i}", score=f"sum(x + {i})") for i in range(MOST_RANKINGS + 1)]
    check_rankings([*alike, *sums])
