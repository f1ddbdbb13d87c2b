"""What queries that come later find: what they miss of the past, what filling it brings, and what is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import skyband as sb
from tests.groups import rankings

OLD = sb.Query("old", k=3, score="x", window=sb.Window(100), select=("n",))
FAR = replace(OLD, name="far", window=sb.Window(500))
SOURCE: dict[str, Any] = {"time": "t", "id": "id"}


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [{"t": t, "id": t % 17, "x": float(t * 37 % 101), "n": t % 3} for t in range(first, last)]


def begun(first: int, *queries: sb.Query, n: int = 1_050) -> sb.Monitor:
    """A monitor that has seen some events, and answered all but the last windows."""
    monitor = sb.Monitor(queries, **SOURCE)
    monitor.push(rows(first, first + n))
    monitor.advance(first + n - 1)
    return monitor


@pytest.mark.parametrize("first", [0, -2_000], ids=["after 1970", "before"])
def test_only_what_lies_before_the_others_is_missed(first: int) -> None:
    """The windows of the old query that are open begin at 1000, and the new one's at 600."""
    missed = begun(first, OLD).backfill_for(replace(FAR, window=sb.Window(500, offset=100)))
    assert missed is not None
    assert (missed.low - first, missed.high - first) == (600, 1_000)


def test_queries_that_warm_up_do_not_help_others() -> None:
    monitor = begun(0, OLD)
    monitor.register(FAR)
    missed = monitor.backfill_for(replace(FAR, name="further"))
    assert missed is None or (missed.low, missed.high) == (1_000, 1_050)
    monitor = begun(0, OLD)
    window = sb.Window(500, offset=100)
    monitor.register(replace(FAR, window=window))
    missed = monitor.backfill_for(replace(FAR, name="further", window=window))
    assert missed is not None
    assert (missed.low, missed.high) == (600, 1_000)


def test_what_others_keep_is_not_missed_where_windows_begin_within_panes() -> None:
    monitor = begun(0, OLD)
    between = replace(OLD, name="between", k=2, window=sb.Window(50, offset=25))
    assert monitor.backfill_for(between) is None
    assert monitor.register(between) == [None]
    assert "came later" not in monitor.explain()


def test_where_ids_count_once_no_more_is_missed_than_lies_before_the_first_exact_window() -> None:
    once = replace(OLD, distinct="best")
    missed = begun(0, once).backfill_for(replace(once, name="far", window=sb.Window(500, slide=100)))
    assert missed is not None
    assert (missed.low, missed.high) == (600, 1_000)


def test_a_deeper_query_misses_nothing_where_nothing_was_dropped() -> None:
    monitor = begun(0, OLD, n=1_002)  # two events from 1000 on, where the next window starts
    assert monitor.backfill_for(replace(OLD, name="deeper", k=9)) is None


def filled(*, late: bool) -> sb.Monitor:
    """A monitor that was given the past of a query that came later."""
    monitor, window = begun(0, OLD), sb.Window(500, offset=100)
    if late:
        monitor.push(rows(980, 990))
    (missed,) = monitor.register(replace(FAR, window=window), history=True)
    assert missed is not None
    assert missed.low == 600
    monitor.fill("far", rows(600, 1_049))
    return monitor


@pytest.mark.parametrize("late", [False, True])
def test_what_was_filled_serves_later_queries_too(late: bool) -> None:
    monitor = filled(late=late)
    same = sb.Query("same", k=3, score="x", window=sb.Window(500, offset=100), select=("n",))
    assert monitor.backfill_for(same) is None
    assert monitor.backfill_for(replace(same, window=sb.Window(1_000, offset=500))) is not None
    monitor.register(same)
    whole = sb.Monitor([same], **SOURCE)
    whole.push(rows(0, 1_050))
    for one in (monitor, whole):
        one.push(rows(1_050, 1_300))
    ours, truth = ([a for a in one.advance(1_100) if a.query == "same"][-1] for one in (monitor, whole))
    assert (ours.rows, ours.exact) == (truth.rows, True)


def test_what_is_given_again_does_not_tie_with_itself() -> None:
    """Two events are equal but for what they carry: both are shown, each once."""
    equal = [{"t": 70, "id": 1, "x": 5.0, "n": n} for n in (1, 2)]
    monitor = sb.Monitor([replace(OLD, k=2)], **SOURCE)
    monitor.push([*equal, {"t": 120, "id": 2, "x": 0.0, "n": 0}])
    monitor.advance(90)
    (missed,) = monitor.register(replace(FAR, k=4), history=True)
    assert missed is not None
    monitor.push([{"t": 130, "id": 3, "x": 0.0, "n": 0}])
    monitor.advance(99)
    monitor.fill("far", equal)
    monitor.push([{"t": 800, "id": 3, "x": 0.0, "n": 0}])
    answers = {a.query: [(r.id, r.values["n"]) for r in a.rows][:2] for a in monitor.advance(500) if a.start == 0}
    assert answers == {"old": [(1, 1), (1, 2)], "far": [(1, 1), (1, 2)]}


def test_late_rows_are_no_events_of_a_group() -> None:
    monitor = begun(0, OLD, n=250)
    monitor.push(rows(100, 130) + rows(250, 260))
    (group,) = monitor.stats().groups
    assert (group.events, group.late, group.rejected) == (260, 30, 0)
    monitor.push([{"t": 270, "id": 1, "x": float("nan"), "n": 1}, *rows(271, 273)])
    (group,) = monitor.stats().groups
    assert (group.events, group.late, group.rejected) == (262, 30, 1)


def test_a_group_counts_its_partly_late_rows() -> None:
    monitor = sb.Monitor([replace(OLD, window=sb.Window(20, slide=10))], **SOURCE)
    monitor.push(rows(0, 25))
    monitor.advance(20)
    monitor.push(rows(5, 12))
    (group,) = monitor.stats().groups
    assert (group.events, group.late, group.partly_late) == (27, 5, 2)


def test_the_newest_event_of_count_windows_is_a_time() -> None:
    monitor = sb.Monitor([replace(OLD, window=sb.Window("5 events"))], **SOURCE)
    monitor.push(rows(1_000, 1_003))
    assert monitor.newest == 1_002


def test_a_paused_query_shows_nothing_early() -> None:
    monitor = sb.Monitor([replace(OLD, emit="early")], **SOURCE)
    assert len(monitor.advance()) == 0
    monitor.push(rows(0, 20))
    monitor.pause("old")
    assert len(monitor.advance()) == 0
    monitor.resume("old")
    monitor.push(rows(20, 30))
    assert len(monitor.advance()) == 1


def test_a_query_that_goes_on_shows_early_what_changed_in_between() -> None:
    monitor = sb.Monitor([replace(OLD, emit="early")], **SOURCE)
    monitor.push(rows(0, 20))
    assert len(monitor.advance()) == 1
    monitor.pause("old")
    monitor.push(rows(20, 30))
    assert len(monitor.advance()) == 0
    monitor.resume("old")
    assert len(monitor.advance()) == 1


def test_a_query_that_comes_back_is_shown_early_again_and_no_other() -> None:
    early = replace(OLD, emit="early")
    monitor = sb.Monitor([early, replace(early, name="other")], **SOURCE)
    monitor.push(rows(0, 20))
    assert [a.query for a in monitor.advance()] == ["old", "other"]
    monitor.unregister("old")
    assert len(monitor.advance()) == 0
    monitor.register(early)
    assert [a.query for a in monitor.advance()] == ["old"]


def test_of_count_windows_the_next_one_is_shown_early() -> None:
    monitor = sb.Monitor([replace(OLD, emit="early", window=sb.Window("4 events", slide="2 events"))], **SOURCE)
    monitor.push(rows(0, 3))
    assert [(a.start, a.end) for a in monitor.advance()] == [(0, 4)]


def test_explain_counts_what_open_and_sealed_panes_keep() -> None:
    def said(monitor: sb.Monitor) -> list[str]:
        return [line.strip() for line in monitor.explain().splitlines() if " panes keep " in line]

    sliding = replace(OLD, window=sb.Window(100, slide=50))
    monitor = sb.Monitor([sliding], **SOURCE)
    assert [line.count("events") for line in said(monitor)] == [0, 0]
    monitor.push(rows(0, 120))
    assert "open panes keep their best 3: 9 events" in said(monitor)[0]
    monitor.advance(100)
    assert ": 3 events" in said(monitor)[0]
    assert ": 3 events" in said(monitor)[1]
    counting = sb.Monitor([replace(OLD, window=sb.Window("10 events"))], **SOURCE)
    assert "panes of 10 events" in counting.explain()


@pytest.mark.parametrize("window", [sb.Window(100), sb.Window("100 events")], ids=["time", "events"])
def test_what_is_over_is_forgotten(window: sb.Window) -> None:
    """However many ids and events there were, a few are kept."""
    monitor = sb.Monitor([replace(OLD, window=window)], **SOURCE)
    sizes = []
    for first in range(0, 120_000, 3_000):
        monitor.push([{"t": t, "id": f"id {t}", "x": float(t % 7), "n": 1} for t in range(first, first + 3_000)])
        monitor.advance(first + 2_900)
        if first == 60_000:
            held = sum(len(group.store.payload() or ()) for group in rankings(monitor))
        if first >= 60_000:  # a snapshot makes room, so there is none before
            sizes.append(len(monitor.snapshot()))
    assert held < 20_000
    assert max(sizes) < 50_000, "as many bytes as some batches of ids have"


def test_open_windows_take_no_more_room_the_longer_they_are_open() -> None:
    """Each batch is better than all before it, and no time passes."""
    monitor = sb.Monitor([replace(OLD, window=sb.Window(10), select=())], **SOURCE)
    for batch in range(40):
        monitor.push({"t": np.arange(1_000), "id": np.arange(1_000), "x": np.arange(1_000) + 1_000.0 * batch})
    assert monitor.stats().kept == 300
    assert rankings(monitor)[0].store.size < 6_000


def test_count_windows_leave_nothing_behind_when_they_are_full() -> None:
    monitor = sb.Monitor([replace(OLD, window=sb.Window("3 events"), select=())], **SOURCE)
    for batch in range(20):
        time = np.arange(1_000 * batch, 1_000 * (batch + 1))
        assert len(monitor.push({"t": time, "id": time, "x": time * 1.0})) > 300
    assert rankings(monitor)[0].store.size < 6_000


def test_what_only_a_query_that_went_needed_is_dropped_from_open_panes() -> None:
    monitor = sb.Monitor([OLD, replace(OLD, name="deep", k=20)], **SOURCE)
    monitor.push(rows(0, 50))
    assert monitor.stats().kept == 20
    monitor.unregister("deep")
    assert (monitor.stats().kept, monitor.stats().bound) == (3, 3)
    assert "open panes keep their best 3: 3 events" in monitor.explain()


def test_panes_are_known_as_long_as_something_in_them_is_kept() -> None:
    """The longer query goes, and time passes before the next pane is sealed."""
    falling = [{"t": t, "id": t, "x": -float(t), "n": 0} for t in range(260)]
    monitor = sb.Monitor([replace(OLD, window=sb.Window(20)), replace(FAR, window=sb.Window(100, slide=20))], **SOURCE)
    monitor.push(falling[:215])
    monitor.advance(200)
    monitor.unregister("far")
    monitor.advance(201)
    rankings(monitor)[0].algorithm.check()
    monitor.push(falling[215:])
    assert [[row.id for row in a.rows] for a in monitor.advance(240)] == [[200, 201, 202], [220, 221, 222]]
    assert monitor.stats().kept <= 3


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        OLD,
        replace(OLD, window=sb.Window("10 events")),
        sb.Query("old", k=1, score="sum(x)", window=sb.Window(100)),
        sb.Query("old", k=1, score="x + fans", window=sb.Window(100), join=sb.Join("fans")),
    ],
    ids=["events", "counted", "aggregated", "joined"],
)
@pytest.mark.parametrize("history", [[], rows(0, 20)], ids=["none", "some"])
def test_what_misses_nothing_cannot_be_filled(query: sb.Query, history: list[dict[str, Any]], seen: bool) -> None:
    monitor = sb.Monitor([query], **SOURCE, services={"fans": lambda ids: dict.fromkeys(ids, 1.0)})
    if seen:
        monitor.push(rows(20, 40))
    before = monitor.stats()
    with pytest.raises(sb.QueryError, match="query 'old': it misses nothing of the past that can be filled in"):
        monitor.fill("old", history)
    assert monitor.stats() == before


def test_queries_that_rank_alike_are_refused_for_what_they_ask_beside_it() -> None:
    """Of queries that rank alike one is checked: but not where they differ in what they carry, or in their windows."""
    monitor = begun(0, OLD)
    with pytest.raises(sb.errors.QueryError, match="nowhere"):
        monitor.register(replace(OLD, name="one"), replace(OLD, name="two", select=("nowhere",)))
    assert list(monitor.statuses()) == [OLD.name]
    sliding = sb.Monitor([replace(OLD, window=sb.Window(10, slide=5))], algorithm="sap", time="t", id="id")
    with pytest.raises(sb.errors.QueryError, match="windows that slide"):
        sliding.register(replace(OLD, name="grows", window=sb.Window.cumulative(10, step=5)))


def test_a_window_that_closes_empty_takes_in_no_event_that_comes_later() -> None:
    """A watermark between two window ends closes nothing; one behind an end does, though no event has come."""
    query = sb.Query("q", k=1, score="x", window=sb.Window(10))
    monitor = sb.Monitor([query], time="t", id="id")
    for mark in (3, 7, 12, 13):
        monitor.advance(mark)
    monitor.push({"t": [4, 14], "id": [1, 2], "x": [9.0, 1.0]})
    assert monitor.stats().late == 1
    assert [(answer.start, [row.id for row in answer.rows]) for answer in monitor.advance(20)] == [(10, [2])]
