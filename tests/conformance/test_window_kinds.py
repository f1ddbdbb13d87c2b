"""Windows that grow and those of a calendar equal the oracle, whatever stands beside them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import skyband as sb
from tests.conformance.registry import algorithms
from tests.groups import rankings
from tests.oracle import Oracle
from tests.streams import Workload, assert_same, query_of, random_workload, replies_of, run_through, table_of

SEEDS = 25
GROWING = [name for name in algorithms() if "cumulative" in sb.ALGORITHMS[name].kinds]
STEP = 900_000_000
"""Edges of days are looked for so many microseconds apart: no zone of our days changes its clocks in between."""
ZONES = {
    "Europe/Berlin": datetime(2025, 3, 27, tzinfo=UTC),
    "America/New_York": datetime(2025, 10, 30, tzinfo=UTC),
    "America/Sao_Paulo": datetime(2017, 10, 12, tzinfo=UTC),  # where a day began at one
    "Australia/Lord_Howe": datetime(2024, 2, 27, tzinfo=UTC),
    "Pacific/Apia": datetime(2011, 12, 27, tzinfo=UTC),  # where a day was left out
    "UTC": datetime(1999, 12, 29, tzinfo=UTC),
}
KINDS: dict[str, dict[str, Any]] = {
    "any": {},
    "events": {"distinct": None, "partitioned": False},
    "best": {"distinct": "best"},
    "partitions": {"partitioned": True},
    "late": {"delay": 0},
    "wait for the end": {"delay": None},
    "many queries": {"many": 12, "n": 60},
    "long": {"n": 300, "many": 3, "delay": 5},
    "tied": {"tied": True, "select": ("note", "size")},
}


def microseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def growing(seed: int, **fixed: Any) -> Workload:
    """Draw a stream, and queries with windows of each kind over event time, which share one ranking."""
    rng = np.random.default_rng(seed)
    given = random_workload(seed, counts=False, **fixed)
    asks = []
    for ask in given.asks:
        kind = str(rng.choice(["sliding", "cumulative", "all_time"]))
        if kind == "all_time" and ask.distinct == "latest":
            kind = "cumulative"
        slide = int(rng.integers(1, 9)) if kind != "sliding" else ask.slide
        size = slide * int(rng.integers(1, 6)) if kind == "cumulative" else ask.size
        closed = ask.closed if kind == "sliding" else "left"
        asks.append(replace(ask, kind=kind, slide=slide, size=size, closed=closed))
    return replace(given, asks=tuple(asks))


@cache
def edges_of(zone: str, unit: str) -> tuple[int, ...]:
    """Return where the calendar of a zone turns to another day, week or month, by looking at its clock."""

    def shown(moment: int) -> Any:
        there = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)).astimezone(ZoneInfo(zone)).date()
        return {"day": there, "week": there.isocalendar()[:2], "month": (there.year, there.month)}[unit]

    around = microseconds(ZONES[zone])
    moments = range(around - 300 * 86_400_000_000, around + 900 * 86_400_000_000, STEP)
    return tuple(at for at in moments if shown(at) != shown(at - STEP))


def calendar(seed: int, **fixed: Any) -> Workload:
    """Draw a stream of some days, or of months, and queries over the calendar of one zone."""
    rng = np.random.default_rng(seed)
    zone = str(rng.choice(list(ZONES)))
    unit = str(rng.choice(["day", "day", "week", "month"]))
    given = random_workload(seed, counts=False, **fixed)
    base = microseconds(ZONES[zone])
    hours = {"day": 1, "week": 11, "month": 35}[unit]
    scale = int(rng.integers(1, hours + 1)) * 3_600_000_000
    jitter = rng.integers(0, 2, len(given.events)) * int(rng.integers(0, scale))
    events = tuple(
        e if e.time is None else replace(e, time=base + e.time * scale + int(more))
        for e, more in zip(given.events, jitter, strict=True)
    )
    edges = edges_of(zone, unit)
    asks = [replace(a, kind="calendar", edges=edges, unit=unit, zone=zone, closed="left", offset=0) for a in given.asks]
    delay = None if given.delay is None else given.delay * scale
    return replace(given, asks=tuple(asks), events=events, delay=delay)


def check(algorithm: str, workload: Workload, saved: bool = False) -> None:
    truth = workload.truth()
    monitor = sb.Monitor(workload.queries(), algorithm=algorithm, time="t", id="id")
    answers = run_through(monitor, workload, saved)
    what = f"{algorithm}, seed {workload.seed}, {[(a.kind, a.size, a.slide, a.zone) for a in workload.asks]}"
    assert_same(replies_of(answers), truth.replies, what)
    assert all(answer.exact for answer in answers), what
    if not saved:
        stats = monitor.stats()
        assert (stats.rejected, stats.late, stats.partly_late) == (truth.rejected, truth.late, truth.partly_late), what


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", GROWING)
def test_windows_that_grow_equal_the_oracle(algorithm: str, kind: str) -> None:
    for seed in range(SEEDS):
        workload = growing(1000 * list(KINDS).index(kind) + seed, **KINDS[kind])
        check(algorithm, workload)
        check(algorithm, workload, saved=True)


@pytest.mark.parametrize("algorithm", algorithms())
def test_calendars_equal_the_oracle(algorithm: str) -> None:
    distincts = sb.ALGORITHMS[algorithm].distincts
    fixed = {} if len(distincts) > 1 else {"distinct": distincts[0]}
    for seed in range(SEEDS):
        workload = calendar(seed, **fixed)
        check(algorithm, workload)
        check(algorithm, workload, saved=True)


@pytest.mark.parametrize("algorithm", GROWING)
def test_answers_do_not_depend_on_how_the_input_is_cut(algorithm: str) -> None:
    for seed in range(SEEDS):
        for whole in (growing(seed, delay=None), calendar(seed, delay=None)):
            for cuts in ((), tuple(range(len(whole.events)))):
                check(algorithm, replace(whole, cuts=cuts))


@pytest.mark.parametrize("algorithm", sorted({*algorithms()} - {*GROWING}))
def test_an_algorithm_for_windows_that_slide_says_so(algorithm: str) -> None:
    monitor = sb.Monitor(algorithm=algorithm, time="t", id="id")
    for window in (sb.Window.cumulative(10, step=5), sb.Window.all_time(every=5)):
        with pytest.raises(sb.QueryError, match=rf"'{algorithm}' is for windows that slide.*one of .*staircase"):
            monitor.register(sb.Query("q", k=1, score="x", window=window))


@pytest.mark.parametrize("algorithm", GROWING)
def test_a_query_that_comes_later_is_flagged_exact_only_where_it_is(algorithm: str) -> None:
    exact = inexact = 0
    for seed in range(2 * SEEDS):
        rng = np.random.default_rng(seed)
        workload = growing(seed, n=100, many=4, delay=int(rng.choice([0, 3, 15]))) if seed % 3 else calendar(
            seed, n=100, many=3, delay=3
        )  # fmt: skip
        truth = Oracle(workload.asks, workload.delay)
        monitor = sb.Monitor(workload.queries()[:1], algorithm=algorithm, time="t", id="id")
        answers: list[sb.Answer] = []
        newest: dict[str, int | None] = {workload.asks[0].name: None}
        batches = workload.batches()
        for number, batch in enumerate(batches):
            if number:
                for ask in workload.asks[1:]:
                    if ask.name not in newest and rng.integers(2):
                        newest[ask.name] = truth.newest
                        monitor.register(query_of(ask))
            truth.batch(batch)
            answers += monitor.push(table_of(batch, workload.text))
            if truth.newest is not None and workload.delay is not None:
                answers += monitor.advance(truth.newest - workload.delay)
            for group in rankings(monitor):
                group.algorithm.check()
        truth.end()
        answers += monitor.finish()
        right = {(reply.query, reply.end): reply for reply in truth.replies}
        kinds = {ask.name: ask for ask in workload.asks}
        for answer, reply in zip(answers, replies_of(answers), strict=True):
            seen, ask = newest[answer.query], kinds[answer.query]
            what = f"{algorithm}, seed {seed}, {answer}, {ask}"
            if answer.exact and (reply.query, reply.end) in right:
                assert reply == right[reply.query, reply.end], what
            if seen is None or (reply.start is not None and reply.start > seen):
                assert answer.exact, what
            elif ask.kind == "all_time" and not answer.exact:
                assert answer.why == f"since {seen}", what
            exact += answer.exact
            inexact += not answer.exact
    assert exact > 100
    assert inexact > 100


def test_all_time_keeps_k_and_the_panes_of_a_growing_window_become_one() -> None:
    rng = np.random.default_rng(0)
    for window in (sb.Window.all_time(every=10), sb.Window.cumulative(10_000, step=10)):
        monitor = sb.Monitor([sb.Query("q", k=5, score="x", window=window)], time="t", id="id")
        for start in range(0, 9_000, 30):
            monitor.push({"t": start + np.arange(30), "id": np.arange(30), "x": rng.normal(size=30)})
            monitor.advance(start + 30)
        stats = monitor.stats()
        assert stats.kept == 5
        (group,) = rankings(monitor)
        assert len(group.algorithm.panes) <= 3  # type: ignore[attr-defined]


def test_a_row_from_long_ago_is_no_trouble_for_all_time() -> None:
    monitor = sb.Monitor([sb.Query("q", k=2, score="x", window=sb.Window.all_time(every="1 second"))], id="id")
    now = microseconds(datetime(2026, 1, 1, tzinfo=UTC))
    monitor.push({"time": [now], "id": [1], "x": [1.0]})
    monitor.advance(now + 10_000_000)
    monitor.push({"time": [0, -(2**60)], "id": [2, 3], "x": [2.0, 0.5]})
    (answer,) = monitor.advance(now + 11_000_000)
    assert [row.id for row in answer.rows] == [2, 1]
    assert answer.exact
    assert answer.start is None
    assert monitor.stats().partly_late == 2


@pytest.mark.parametrize("algorithm", GROWING)
def test_provisional_answers_of_growing_windows_show_the_next_end(algorithm: str) -> None:
    queries = [
        sb.Query("day", k=1, score="x", window=sb.Window.cumulative(100, step=10), emit="early"),
        sb.Query("ever", k=1, score="x", window=sb.Window.all_time(every=10), emit="early"),
    ]
    monitor = sb.Monitor(queries, algorithm=algorithm, time="t", id="id")
    monitor.push({"t": [3, 14], "id": [1, 2], "x": [1.0, 2.0]})
    shown = [(a.query, a.start, a.end, a.provisional, [row.id for row in a.rows]) for a in monitor.advance(10)]
    assert shown == [
        ("day", 0, 10, False, [1]), ("ever", None, 10, False, [1]),
        ("day", 0, 20, True, [2]), ("ever", None, 20, True, [2]),
    ]  # fmt: skip


def test_provisional_sums_of_growing_windows_show_the_next_end() -> None:
    windows = {"day": sb.Window.cumulative(100, step=10), "ever": sb.Window.all_time(every=10)}
    queries = [sb.Query(name, k=1, score="sum(x)", window=w, emit="early") for name, w in windows.items()]
    monitor = sb.Monitor(queries, time="t", id="id")
    monitor.push({"t": [3, 14, 15], "id": [1, 2, 1], "x": [1.0, 2.0, 3.0]})
    shown = [(a.query, a.start, a.end, a.provisional, [row.score for row in a.rows]) for a in monitor.advance(10)]
    assert shown == [
        ("day", 0, 10, False, [1.0]), ("ever", None, 10, False, [1.0]),
        ("day", 0, 20, True, [4.0]), ("ever", None, 20, True, [4.0]),
    ]  # fmt: skip


def test_no_event_is_late_for_all_time_and_one_of_the_day_before_is_for_a_day() -> None:
    late: list[Any] = []
    day = sb.Query("day", k=1, score="x", window=sb.Window.cumulative(100, step=10))
    monitor = sb.Monitor([day], time="t", id="id", on_late=late.append)
    monitor.push({"t": [205], "id": [1], "x": [1.0]})
    monitor.advance(201)
    monitor.push({"t": [199], "id": [2], "x": [1.0]})
    assert [batch["id"].to_pylist() for batch in late] == [[2]]


@pytest.mark.parametrize("algorithm", ["staircase", "mtoplist"])
def test_a_calendar_is_filled_from_the_past(algorithm: str) -> None:
    hour, base = 3_600_000_000, microseconds(datetime(2025, 3, 28, tzinfo=UTC))
    rows: list[Any] = [{"t": base + n * hour, "id": n % 5, "x": float(n * 37 % 101)} for n in range(96)]
    old = sb.Query("old", k=1, score="x", window=sb.Window.calendar("day", zone="Europe/Berlin"))
    new = sb.Query("new", k=4, score="x", window=old.window)
    truth, ours = (sb.Monitor(queries, algorithm=algorithm, time="t", id="id") for queries in ([old, new], [old]))
    for monitor in (truth, ours):
        monitor.push(rows[:62])
        monitor.advance(rows[61]["t"])  # on the day of 23 hours, which began at 23:00
    (missed,) = ours.register(new, history=True)
    assert missed is not None
    assert (missed.low, missed.high) == (base + 47 * hour, rows[61]["t"] + 1)
    assert f"missed events from {missed.low} to {missed.high}: they will be read" in ours.explain()
    for monitor in (truth, ours):
        monitor.push(rows[62:70])
        monitor.advance(rows[63]["t"])
    (past,) = ours.backfills()
    assert (past.low, past.high) == (missed.low, missed.high)
    ours.fill("new", rows)
    answers = []
    for monitor in (truth, ours):
        monitor.push(rows[70:])
        answers.append([(a.query, a.start, a.end, a.exact, a.rows) for a in monitor.finish()])
    assert answers[0] == answers[1]
    assert answers[0][0][2] == base + 70 * hour
