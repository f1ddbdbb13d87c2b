"""Kinds of windows: how they are made, written down and refused, and the calendars behind some of them."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.calendars import MOST_PERIODS, Calendar
from skyband.engine.limits import WindowLimits
from skyband.errors import QueryError, TooManyWindows
from skyband.files.queries import load
from skyband.times import FARTHEST
from skyband.windows import WindowGrid

WINDOWS = [
    sb.Window.cumulative("1 day", step="10 minutes"),
    sb.Window.cumulative("1 day", step="1 hour", offset="6 hours"),
    sb.Window.all_time(every="10 seconds"),
    sb.Window.all_time(every="1 hour", offset="-5 minutes"),
    sb.Window.calendar("day"),
    sb.Window.calendar("month", zone="Europe/Berlin"),
]


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_a_window_says_and_stores_what_makes_it_again(window: sb.Window) -> None:
    query = sb.Query("q", k=1, score="x", window=window)
    assert eval(repr(window), {"Window": sb.Window}) == window
    assert sb.Query.from_dict(json.loads(json.dumps(query.as_dict()))) == query
    assert len({*WINDOWS, window}) == len(WINDOWS)
    assert repr(window) in sb.Monitor([query]).explain()


@given(st.integers(1, 8), st.integers(1, 6), st.integers(-20, 20), st.integers(-200, 200))
def test_windows_that_grow_are_those_that_contain_a_position(step: int, steps: int, offset: int, at: int) -> None:
    grid = sb.Window.cumulative(step * steps, step=step, offset=offset).grid
    ends = [end for end in range(at + 1, at + 2 * step * steps) if (end - offset) % step == 0]
    period = max(start for start in range(at - step * steps, at + 1) if (start - offset) % (step * steps) == 0)
    holding = [end for end in ends if end <= period + step * steps]
    found = range(grid.first_of(at), grid.last_of(at) + 1)
    assert [grid.end(window) for window in found] == holding
    assert {grid.start(window) for window in found} == {grid.start_of(end) for end in holding} == {period}
    assert grid.first_start_from(at) == (period if period == at else period + step * steps)
    numbers = np.arange(-30, 30)
    assert [grid.start(int(number)) for number in numbers] == grid.start(numbers).tolist()


@pytest.mark.parametrize("at", [0, 10**15, -(10**15), FARTHEST - 1, 1 - FARTHEST])
def test_all_time_holds_every_time(at: int) -> None:
    for every in (1, 7, 10_000_000, 365 * 86_400_000_000):
        grid = sb.Window.all_time(every=every, offset=3).grid
        assert grid.endless
        assert grid.start(grid.first_of(at)) == grid.start(grid.last_of(at)) <= -FARTHEST
        assert at < grid.first_end_after(at) <= at + every
        assert (grid.first_end_after(at) - 3) % every == 0
        assert grid.last_end_of(at) > FARTHEST


def test_windows_that_slide_are_as_before() -> None:
    assert not WindowGrid(9, 3).grows
    assert not sb.Window("1 day").grid.endless


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"session": "1 hour"}, "session windows are not supported"),
        ({"cumulative": "1 day"}, "cumulative without 'step'"),
        ({"all_time": True}, "all_time without 'every'"),
        ({"all_time": False, "every": "1 s"}, "all_time is False; write all_time = true"),
        ({"cumulative": "1 day", "step": "7 hours"}, r"step \(7 hours\) does not divide the length \(1 day\)"),
        ({"cumulative": "1 day", "step": "0 s"}, "step is 0 microseconds; it must be more than 0"),
        ({"cumulative": "10 events", "step": "1 event"}, "cumulative windows are of time"),
        ({"cumulative": "1 day", "step": "1 hour", "closed": "right"}, "unknown key 'closed'"),
        ({"all_time": True, "every": "1 event"}, "every counts events"),
        ({"all_time": True, "every": "0 s"}, "every is 0 microseconds; it must be more than 0"),
        ({"all_time": True, "every": "20000 weeks", "slide": "1 s"}, "unknown key 'slide'"),
        ({"all_time": True, "every": "900000 days"}, "at most 1000 years"),
        ({"calendar": "year"}, "calendar is 'year'; use 'day', 'week' or 'month'"),
        ({"calendar": "day", "zone": "Europe/Nowhere"}, "zone is 'Europe/Nowhere'; give the name of a time zone"),
        ({"calendar": "day", "zone": ["UTC"]}, r"zone is \['UTC'\]"),
        ({}, "window has keys none"),
        ("1 hour", "window is '1 hour'; give a table"),
    ],
)
def test_what_is_no_window_is_refused(table: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        sb.Query.from_dict({"name": "q", "k": 1, "score": "x", "window": table})


def test_a_window_is_given_once() -> None:
    given = {"name": "q", "k": 1, "score": "x", "size": "1 hour", "window": {"calendar": "day"}}
    with pytest.raises(QueryError, match="there is a window and size beside it"):
        sb.Query.from_dict(given)
    with pytest.raises(QueryError, match="missing key 'size'"):
        sb.Query.from_dict({"name": "q", "k": 1, "score": "x"})


def test_what_kinds_of_windows_cannot_have_is_refused() -> None:
    with pytest.raises(QueryError, match="the latest event of every id would be kept for good"):
        sb.Query("q", k=1, score="x", window=WINDOWS[2], distinct="latest")
    for window in WINDOWS:
        with pytest.raises(QueryError, match="a joined query has windows that slide"):
            sb.Query("q", k=1, score="x + fans", window=window, join=sb.Join("fans", budget=1))
        with pytest.raises(QueryError, match="RSP-QL has no words for Window"):
            sb.to_rspql(sb.Query("q", k=1, score="x", window=window))


def test_a_query_file_holds_all_kinds(tmp_path: Path) -> None:
    tables = [
        '{ cumulative = "1 day", step = "10 minutes" }', '{ all_time = true, every = "10 seconds" }',
        '{ calendar = "month", zone = "Europe/Berlin" }', '{ size = "1 hour", slide = "5 minutes" }',
    ]  # fmt: skip
    text = [f'[[query]]\nname = "q{i}"\nk = 1\nscore = "x"\nwindow = {table}\n' for i, table in enumerate(tables)]
    file = tmp_path / "queries.toml"
    file.write_text("\n".join(text))
    assert [query.window for query in load(file).queries] == [
        WINDOWS[0], WINDOWS[2], WINDOWS[5], sb.Window("1 hour", slide="5 minutes")
    ]  # fmt: skip
    file.write_text(text[0].replace('"10 minutes"', "10") + text[1].replace('"10 seconds"', "5"))
    with pytest.raises(QueryError) as caught:
        load(file)
    assert "query 'q0': step is 10, without a unit; write for example '10 seconds'" in str(caught.value)
    assert "query 'q1': every is 5, without a unit; write for example '5 seconds'" in str(caught.value)


def test_limits_count_the_ends_and_cuts_of_all_kinds() -> None:
    def made(window: sb.Window, name: str = "q") -> sb.Query:
        return sb.Query(name, k=1, score="x", window=window)

    WindowLimits().check([made(window, repr(window)) for window in WINDOWS])
    for window in (sb.Window.cumulative("1 day", step="100 us"), sb.Window.all_time(every="100 us")):
        with pytest.raises(QueryError, match="its windows end 10,000 times per second"):
            WindowLimits().check([made(window)])
    held = WindowLimits(cuts=10)
    held.check([made(sb.Window.cumulative("1 day", step="100 ms")), made(sb.Window.all_time(every="100 ms"), "r")])
    with pytest.raises(QueryError, match="its windows add 10 cuts per second of event time to the 10"):
        held.check([made(sb.Window.all_time(every="100 ms", offset="1 ms"))], [made(sb.Window("1 s", slide="100 ms"))])


def hours(zone: str, unit: Any, first: date) -> float:
    """Return how long a period is."""
    calendar = Calendar(unit, zone)
    noon = datetime(first.year, first.month, first.day, 12, tzinfo=ZoneInfo(zone))
    at = calendar.position((noon - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))
    number = at // calendar.room
    starts = calendar.starts(number, number + 1)
    return float(starts[1] - starts[0]) / 3_600_000_000


@pytest.mark.parametrize(
    ("zone", "unit", "first", "expected"),
    [
        ("Europe/Berlin", "day", date(2025, 3, 30), 23),
        ("Europe/Berlin", "day", date(2025, 10, 26), 25),
        ("Europe/Berlin", "day", date(2025, 10, 27), 24),
        ("Australia/Lord_Howe", "day", date(2024, 4, 7), 24.5),
        ("America/Sao_Paulo", "day", date(2017, 10, 15), 23),  # it began at one
        ("America/Toronto", "day", date(1919, 3, 31), 23.5),  # it began at half past midnight
        ("America/Juneau", "day", date(1867, 10, 19), 48),
        ("Europe/Berlin", "week", date(2025, 3, 24), 7 * 24 - 1),
        ("UTC", "week", date(2026, 1, 1), 7 * 24),
        ("Europe/Berlin", "month", date(2025, 3, 1), 31 * 24 - 1),
        ("Europe/Berlin", "month", date(2024, 2, 1), 29 * 24),
        ("Europe/Berlin", "month", date(2023, 2, 1), 28 * 24),
        ("UTC", "month", date(1900, 2, 1), 28 * 24),
        ("UTC", "month", date(2000, 2, 1), 29 * 24),
    ],
)
def test_periods_are_as_long_as_the_clocks_of_their_zone_say(zone: str, unit: Any, first: date, expected: int) -> None:
    assert hours(zone, unit, first) == expected


@given(
    st.sampled_from(["day", "week", "month"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu", "America/Juneau"]),
    st.lists(st.integers(-(2**50), 2**50), min_size=2, max_size=5),
)
def test_an_axis_keeps_the_order_of_moments_and_leads_back(unit: Any, zone: str, given_: list[int]) -> None:
    calendar = Calendar(unit, zone)
    moments = np.sort(np.array(given_, np.int64))
    for part in (moments[:1], moments[1:2]):
        position = calendar.positions(part)
        assert calendar.moments(position).tolist() == part.tolist()
    places = [calendar.position(moment) for moment in moments.tolist()]
    assert all((a < b) == (x < y) for a, b, x, y in zip(places, places[1:], moments, moments[1:], strict=False))


def test_beyond_the_years_of_datetime_calendars_repeat() -> None:
    calendar = Calendar("month", "Europe/Berlin")
    cycle = 146_097 * 86_400_000_000
    near, far = (calendar.starts(4_800 * cycles, 4_800 * cycles + 12) for cycles in (19, 23))  # of 9570 and 11170
    assert (far - near).tolist() == [4 * cycle] * 13
    assert {31 * 24 - 1, 31 * 24 + 1} < set((np.diff(far) // 3_600_000_000).tolist()), "clocks change there too"
    first, ancient = (Calendar("day", "UTC").starts(day, day)[0] for day in (-719_000, -719_000 - 146_097))
    assert first - ancient == cycle


def test_a_calendar_takes_what_it_knows_along() -> None:
    calendar = Calendar("week", "Asia/Kathmandu")
    starts = calendar.starts(2_000, 2_010)
    assert pickle.loads(pickle.dumps(calendar)) == calendar
    assert pickle.loads(pickle.dumps(calendar)).starts(2_000, 2_010).tolist() == starts.tolist()
    assert hash(calendar) == hash(Calendar("week", "Asia/Kathmandu"))


def test_too_many_periods_are_a_mistake_in_the_unit_of_time() -> None:
    monitor = sb.Monitor([sb.Query("q", k=1, score="x", window=sb.Window.calendar("day"))], time="t", id="id")
    with pytest.raises(TooManyWindows, match=rf"at most {MOST_PERIODS:,} are served: check the unit"):
        monitor.push({"t": [0, 2**60], "id": [1, 2], "x": [1.0, 2.0]})


def test_what_is_said_of_windows_without_start() -> None:
    monitor = sb.Monitor([sb.Query("q", k=1, score="x", window=WINDOWS[2])], id="id")
    monitor.push({"time": [datetime(2026, 1, 1, tzinfo=UTC)], "id": [1], "x": [1.0]})
    answers = monitor.finish()
    assert repr(answers[0]) == "<answer of 'q', to 2026-01-01 00:00:10+00:00, 1 rows>"
    assert answers.table()["window_start"].to_pylist() == [None]
    assert "from the beginning on" in monitor.explain()
    later = sb.Query("later", k=2, score="x", window=WINDOWS[2])
    monitor.register(later)
    monitor.push({"time": [datetime(2026, 1, 1, 0, 1, tzinfo=UTC)], "id": [1], "x": [1.0]})
    flags = {(a.query, a.exact, a.why) for a in monitor.finish()}
    assert flags == {("q", True, None), ("later", False, "since 2026-01-01 00:00:00")}
