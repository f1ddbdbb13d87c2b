"""How finely windows may cut time: cuts are counted as a list of them would be, and only what a query adds counts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import lcm

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.engine import limits
from skyband.engine.limits import WindowLimits, cuts_per_second
from skyband.errors import InputError, QueryError
from skyband.events.batch import StreamColumns
from tests.groups import rankings

SERIES = st.lists(  # four of them repeat within LONGEST_PERIOD
    st.integers(1, 32).flatmap(lambda slide: st.tuples(st.integers(0, slide - 1), st.just(slide))), min_size=1
)


def listed(series: list[tuple[int, int]]) -> Fraction:
    """Count the cuts of a whole period one by one."""
    period = lcm(*(slide for _, slide in series))
    cuts = {at for rest, slide in series for at in range(rest, period, slide)}
    return Fraction(1_000_000 * len(cuts), period)


@given(SERIES.map(lambda series: series[:4]))
def test_cuts_are_counted_as_a_list_of_them_would_be(series: list[tuple[int, int]]) -> None:
    assert cuts_per_second(series) == listed(series)


@given(SERIES.map(lambda series: series[:4]))
def test_series_with_a_long_period_are_never_counted_too_low(series: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "LONGEST_PERIOD", 0)
        assert cuts_per_second(series) >= listed(series)


def query(name: str, window: sb.Window, **more: object) -> sb.Query:
    return sb.Query(name, k=1, score="x", window=window, **more)  # type: ignore[arg-type]


def test_a_query_may_have_so_many_window_ends() -> None:
    held = WindowLimits()
    held.check([query("fine", sb.Window("1 s", slide="1 ms"))])
    with pytest.raises(QueryError, match=r"its windows end 1,002 times per second of event time \(its slide is 999 mi"):
        held.check([query("fast", sb.Window("1 s", slide="999 us"))])
    held.check([query("counting", sb.Window("1 event"))])
    WindowLimits(ends=None, cuts=None).check([query("any", sb.Window(1))])
    WindowLimits(ends=1_000_000, cuts=None).check([query("any", sb.Window(1))])


def test_a_query_counts_with_the_cuts_that_it_adds() -> None:
    held = WindowLimits(cuts=1_000)
    there = [query("there", sb.Window("1 s", slide="2 ms"))]
    held.check([query("same cuts", sb.Window("3 s", slide="4 ms"))], there)
    held.check([query("more", sb.Window("1 s", slide="2 ms", offset="1 ms"))], there)
    with pytest.raises(QueryError, match="its windows add 334 cuts per second of event time to the 500"):
        replace(held, cuts=800).check([query("too many", sb.Window("3001 ms", slide="3 ms"))], there)
    other = query("other panes", sb.Window("1 s", slide="2 ms"), where="x > 1")
    held.check([other], there)
    with pytest.raises(QueryError, match="its windows add 500 cuts per second of event time to the 1,000"):
        held.check([query("third", sb.Window("1 s", slide="2 ms"), order="asc")], [*there, other])
    with pytest.raises(QueryError, match="query 'third'"):
        held.check([*there, other, query("third", sb.Window("1 s", slide="2 ms"), order="asc")])


def test_queries_that_select_otherwise_have_panes_of_their_own() -> None:
    """What is selected settles ties; who selects the beginning of what another does shares its panes."""
    held, window = WindowLimits(cuts=1_000), sb.Window("1 s", slide="2 ms")
    selects: list[tuple[str, ...]] = [("a", "b"), ("a",), ("b",), ()]
    both, one, other, none = (query("".join(of) or "none", window, select=of) for of in selects)
    held.check([none, other, both, one])
    monitor = sb.Monitor([none, other, both, one], time="t", id="id")
    assert len(rankings(monitor)) == 2
    with pytest.raises(QueryError, match="query 'c': its windows add 500 cuts per second of event time to the 1,000"):
        held.check([query("c", window, select=("c",))], [both, one, other, none])


def test_a_query_that_adds_no_cut_is_served_by_a_stream_above_its_limit() -> None:
    there = [query("there", sb.Window("1 s", slide="1 ms"))]
    WindowLimits(cuts=10).check([query("same", sb.Window("2 s", slide="1 ms"))], there)


def test_queries_that_join_or_aggregate_have_panes_of_their_own() -> None:
    held = WindowLimits(cuts=1_000)
    summed = [sb.Query(name, k=1, score="sum(x)", window=sb.Window("1 s", slide="2 ms")) for name in "abc"]
    held.check(summed[:2])
    with pytest.raises(QueryError, match="query 'c': its windows add 500 cuts"):
        held.check(summed)


def test_plain_numbers_have_no_seconds() -> None:
    held, moments = WindowLimits(), pa.schema([("t", pa.timestamp("us"))])
    assert held.over(StreamColumns("t", "id"), pa.schema([("t", pa.int64())])) == WindowLimits(None, None)
    assert held.over(StreamColumns("t", "id", "us"), pa.schema([("t", pa.int64())])) == held
    assert held.over(StreamColumns("t", "id"), moments) == held


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "5"])
def test_a_limit_is_a_whole_number(wrong: object) -> None:
    with pytest.raises(InputError, match=r"max_cuts is .*; give a whole number per second of event time, or None"):
        WindowLimits(cuts=wrong)  # type: ignore[arg-type]
