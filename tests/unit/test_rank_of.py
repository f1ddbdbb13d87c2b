"""Where an id stands now: its row, those beside it, and what is said of ids that are not ranked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

import skyband as sb
from skyband.answers.place import Place

EVENTS: list[dict[str, Any]] = [
    {"t": t, "id": i, "x": x, "g": g}
    for t, i, x, g in [(1, 7, 5.0, "a"), (2, 8, 9.0, "b"), (3, 9, 7.0, "a"), (4, 7, 6.0, "b"), (12, 8, 1.0, "a")]
]


def monitor(**query: Any) -> sb.Monitor:
    asked: dict[str, Any] = {"k": 2, "score": "x", "window": sb.Window(10)}
    return sb.Monitor([sb.Query("q", **asked | query)], time="t", id="id")


def seen(found: Place) -> tuple[Any, ...]:
    return (
        found.stands, found.rank, found.score, found.above and found.above.id, found.below and found.below.id,
        found.start, found.end,
    )  # fmt: skip


def test_within_k_the_rank_is_known_and_below_it_is_not() -> None:
    one = monitor()
    assert seen(one.rank_of("q", 8)) == ("absent", None, None, None, None, None, None)
    one.push(EVENTS[:4])
    assert seen(one.rank_of("q", 8)) == ("ranked", 1, 9.0, None, 9, 0, 10)
    assert seen(one.rank_of("q", 9)) == ("ranked", 2, 7.0, 8, None, 0, 10)
    assert seen(one.rank_of("q", 7)) == ("below k", None, None, 9, None, 0, 10)
    assert seen(one.rank_of("q", "9"))[:2] == ("ranked", 2), "a text names an integer too"
    assert one.rank_of("q", 8).provisional
    one.push(EVENTS[4:])
    assert seen(one.rank_of("q", 8)) == ("ranked", 1, 1.0, None, None, 10, 20), "the window moves on with the events"
    one.advance(20)
    assert seen(one.rank_of("q", 8)) == ("below k", None, None, None, None, 20, 30)


def test_of_aggregates_all_ids_are_known_and_looking_changes_nothing() -> None:
    one, undisturbed = (monitor(score="sum(x)", k=1, select=("g",)) for _ in range(2))
    for each in (one, undisturbed):
        each.push(EVENTS[:4])
    assert seen(one.rank_of("q", 7)) == ("ranked", 1, 11.0, None, 8, 0, 10)
    assert seen(one.rank_of("q", 9)) == ("ranked", 3, 7.0, 8, None, 0, 10)
    assert seen(one.rank_of("q", 1)) == ("absent", None, None, 9, None, 0, 10)
    for each in (one, undisturbed):
        each.push(EVENTS[4:])
    assert one.rank_of("q", 8).score == 1.0
    assert [a.rows for a in one.finish()] == [a.rows for a in undisturbed.finish()]


@pytest.mark.parametrize("emit", ["final", "changes", "early"])
def test_looking_leaves_answers_and_changes_as_they_are(emit: Any) -> None:
    found = []
    for look in (False, True):
        one = monitor(emit=emit, window=sb.Window(10, slide=5))
        one.pause("q")
        one.resume("q")
        said: list[Any] = []
        for event in EVENTS:
            one.push([event])
            if look:
                one.rank_of("q", 8)
            said += [(a.end, a.rows, a.changes, a.provisional) for a in one.advance(event["t"] - 2)]
        found.append(said + [(a.end, a.rows, a.changes, a.provisional) for a in one.finish()])
    assert found[0] == found[1]


def test_in_partitions_an_id_stands_where_it_ranks_best_or_where_one_asks() -> None:
    one = monitor(partition_by="g")
    one.push(EVENTS[:4])
    assert one.rank_of("q", 7).row == one.rank_of("q", 7, partition="a").row
    assert seen(one.rank_of("q", 7, partition="a"))[:4] == ("ranked", 2, 5.0, 9)
    assert seen(one.rank_of("q", 7, partition="b"))[:4] == ("ranked", 2, 6.0, 8)
    assert seen(one.rank_of("q", 9, partition="b"))[:4] == ("below k", None, None, 7)
    assert one.rank_of("q", 9).below is not None
    assert one.rank_of("q", 9).below.partition == "a"  # type: ignore[union-attr]
    assert one.rank_of("q", 1).above is None, "there is no one row to pass"


def test_equal_scores_share_their_rank_and_keep_their_neighbours() -> None:
    one = monitor(ties="with", k=1)
    one.push([{"t": t, "id": t, "x": 4.0, "g": "a"} for t in (1, 2, 3)])
    assert [seen(one.rank_of("q", i))[1:5] for i in (1, 2, 3)] == [
        (1, 4.0, 2, None), (1, 4.0, 3, 1), (1, 4.0, None, 2),
    ]  # fmt: skip
    assert one.rank_of("q", 1).exact
    cut = monitor(ties="with", k=1, max_ties=1)
    cut.push([{"t": t, "id": t, "x": 4.0, "g": "a"} for t in (1, 2)])
    assert (cut.rank_of("q", 1).stands, cut.rank_of("q", 2).exact) == ("below k", False)
    assert cut.rank_of("q", 2).why == "cut to 1 rows, as max_ties says"


def test_a_query_that_came_later_says_so() -> None:
    one = monitor()
    one.push(EVENTS[:3])
    one.register(sb.Query("sum", k=1, score="sum(x)", window=sb.Window(10)))
    one.push(EVENTS[3:4])
    found = one.rank_of("sum", 7)
    assert (found.rank, found.score, found.exact, found.why) == (1, 6.0, False, "warming up")


def test_times_are_times_where_the_stream_has_some() -> None:
    one = sb.Monitor([sb.Query("q", k=1, score="x", window=sb.Window("1 minute"))], time="t", id="id")
    one.push([{"t": datetime(2026, 3, 2, 9, 30, 5, tzinfo=UTC), "id": "a", "x": 1.0}])
    assert one.rank_of("q", "a").end == datetime(2026, 3, 2, 9, 31, tzinfo=UTC)


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(sb.QueryError, match="there is no query 'p'; there are 'q'"):
        monitor().rank_of("p", 7)
    likes = sb.Query("likes", k=1, score="x + likes", window=sb.Window(10), join=sb.Join("likes", budget=0))
    one = sb.Monitor([likes], time="t", id="id", services={"likes": lambda _: {}})
    with pytest.raises(sb.QueryError, match="'likes': what it joins with is asked for when a window closes"):
        one.rank_of("likes", 7)


@pytest.mark.parametrize("score", ["x", "sum(x)"])
def test_equals_a_plain_sort_of_the_window(score: str) -> None:
    rng = np.random.default_rng(2)
    rows: list[dict[str, Any]] = [
        {"t": t, "id": int(i), "x": float(x), "g": "a"}
        for t, (i, x) in enumerate(zip(rng.integers(0, 9, 60), rng.integers(0, 30, 60), strict=True))
    ]
    one = monitor(score=score, k=4, window=sb.Window(20, slide=5), distinct=None if score != "x" else "best")
    for number, row in enumerate(rows):
        one.push([row])
        one.advance(row["t"])
        end = (row["t"] // 5 + 1) * 5
        totals: dict[Any, tuple[float, int]] = {}
        for each in (each for each in rows[: number + 1] if end - 20 <= each["t"] < end):
            before = totals.get(each["id"])
            value = each["x"] if before is None or score == "x" else before[0] + each["x"]
            better = before is None or score != "x" or value >= before[0]
            totals[each["id"]] = (value, each["t"]) if better else before  # type: ignore[assignment]
        listed = sorted(totals, key=lambda i: (-totals[i][0], -totals[i][1], i))
        for i in range(9):
            found = one.rank_of("q", i)
            place = listed.index(i) if i in listed else None
            known = place is not None and (place < 4 or score != "x")
            assert found.end == end
            assert found.rank == (place + 1 if known else None)  # type: ignore[operator]
            assert found.stands == ("ranked" if known else "below k" if score == "x" else "absent")
            if known:
                assert found.score == totals[i][0]
                assert found.above is None if place == 0 else found.above.id == listed[place - 1]  # type: ignore
