"""Panes: where they are cut, and what they remember of what they lost."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms import panes as panes_module
from skyband.algorithms.panes import UNTOUCHED, Panes, pane_widths
from skyband.algorithms.staircase.staircase import Staircase
from skyband.errors import TooManyWindows
from skyband.windows import Schedule
from tests.groups import rankings


def schedules(*windows: sb.Window) -> list[Schedule]:
    return [Schedule.of(f"q{i}", 1, window) for i, window in enumerate(windows)]


def test_both_halves_of_a_pane_have_lost_what_it_lost_and_the_cut_is_torn() -> None:
    panes = Panes(schedules(sb.Window(10)))
    panes.cover(0, 29)
    panes.record_loss(np.array([1]), 3, 7.0)
    assert panes.refine(schedules(sb.Window(10), sb.Window(5)))
    assert panes.cuts.tolist() == [0, 5, 10, 15, 20, 25, 30]
    assert panes.depth[:-1].tolist() == [UNTOUCHED, UNTOUCHED, 3, 3, UNTOUCHED, UNTOUCHED]
    assert panes.best_dropped[2:4].tolist() == [7.0, 7.0]
    assert panes.cut_after_loss.tolist() == [False, False, False, True, False, False, False]


def test_what_lies_before_forgotten_panes_is_lost() -> None:
    for forgotten in (False, True):
        panes = Panes(schedules(sb.Window(10)))
        panes.cover(20, 49)
        panes.forget(2 if forgotten else 0)
        numbers = panes.number(np.array([45]))
        panes.cover(0, 59)
        assert panes.number(np.array([45])) == numbers, "panes keep their numbers"
        before, after = panes.depth[: 4 if forgotten else 2], panes.depth[-3:-1]
        assert set(before.tolist()) == {0 if forgotten else UNTOUCHED}
        assert set(after.tolist()) == {UNTOUCHED}
        assert panes.worst_losses(np.array([0]), np.array([20]))[0] == np.inf or not forgotten


def test_widths_are_found_on_a_short_stretch_of_very_many_panes() -> None:
    assert pane_widths(schedules(sb.Window(1), sb.Window("1 day"))) == [1]
    assert pane_widths(schedules(sb.Window(10), sb.Window(15))) == [5, 10]
    assert pane_widths(schedules(sb.Window(10), sb.Window(4))) == [2, 4]
    assert pane_widths(schedules(sb.Window(10), sb.Window(1_000, offset=505))) == [5, 10]


def test_panes_are_no_narrower_than_where_windows_start_and_end() -> None:
    often = [(3, 1), (6, 1), (6, 4), (9, 1), (9, 4), (9, 7)]  # every third place, three times over
    assert pane_widths(schedules(*(sb.Window(size, offset=offset) for size, offset in often))) == [3]


@pytest.mark.parametrize("low", [-2_000, -50, 0, 2_000])
def test_cuts_are_where_windows_start_or_end_before_1970_too(low: int) -> None:
    panes = Panes(schedules(sb.Window(10), sb.Window(7)))
    panes.cover(low, low + 99)
    expected = [at for at in range(low - 9, low + 110) if at % 10 == 0 or at % 7 == 0]
    assert set(panes.cuts.tolist()) <= set(expected)
    assert set(expected) - set(panes.cuts.tolist()) <= {*range(low - 9, low), *range(low + 100, low + 110)}


def test_new_cuts_lie_between_the_known_ones() -> None:
    for offset, cuts in ((9, [30, 39, 40, 49, 50]), (1, [30, 31, 40, 41, 50])):
        panes = Panes(schedules(sb.Window(10)))
        panes.cover(20, 49)
        panes.forget(1)
        panes.refine(schedules(sb.Window(10), sb.Window(10, offset=offset)))
        assert panes.cuts.tolist() == cuts


def test_so_many_edges_and_windows_are_allowed_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panes_module, "MOST_EDGES", 11)
    panes, (schedule,) = Panes(schedules(sb.Window(10))), schedules(sb.Window(10))
    with pytest.raises(TooManyWindows, match=r"from 0 to 110 \(microseconds\), 12 window edges"):
        panes.cover(0, 100)
    panes.cover(0, 99)
    assert len(panes.cuts) == 11
    with pytest.raises(TooManyWindows, match=r"has 12 windows among .* \(from 0 to 99\); at most 11 can be served"):
        panes.exact_from(schedule, 99)
    panes.exact_from(schedule, 89)


def staircase(k: int) -> Staircase:
    """Return a staircase over tumbling windows of 10, with two events in each of the first three."""
    monitor = sb.Monitor([sb.Query("q", k=k, score="x", window=sb.Window(10))], time="t", id="t")
    monitor.push([{"t": t, "x": float(t % 10)} for t in (0, 9, 10, 19, 20, 29)])
    algorithm = rankings(monitor)[0].algorithm
    assert isinstance(algorithm, Staircase)
    return algorithm


def test_what_never_came_is_lost_in_every_pane_between_two_cuts() -> None:
    for low, high, depths in ((0, 10, [1, 2, 2]), (10, 30, [2, 1, 1]), (0, 30, [1, 1, 1])):
        algorithm = staircase(k=2)
        algorithm.record_filtered(low, high, 1, 5.0)
        assert algorithm.panes.depth[:-1].tolist() == depths
        assert (algorithm.panes.best_dropped[:3] == 5.0).tolist() == [depth == 1 for depth in depths]


def test_the_kth_best_of_every_pane_between_cuts_counts() -> None:
    algorithm = staircase(k=2)
    for cuts, places, merits in (
        ([0, 10, 20, 30], [0, 1, 2], [0.0, 0.0, 0.0]),
        ([10, 20], [0], [0.0]),
        ([0, 20, 30], [0, 1], [9.0, 0.0]),
    ):
        place, part, merit = algorithm.kth_best(np.array(cuts))
        assert (place.tolist(), merit.tolist()) == (places, merits)
        assert set(part.tolist()) == {0}


def test_a_window_is_exact_where_neither_its_start_nor_its_end_cuts_through_what_was_lost() -> None:
    def exact_from(lossy: int, window: sb.Window) -> int:
        panes = Panes(schedules(sb.Window(10)))
        panes.cover(0, 49)
        panes.record_loss(np.array([lossy]), 3, 7.0)
        return panes.exact_from(schedules(window)[0], 49)

    assert exact_from(2, sb.Window(10)) < 0, "it lost what is not asked for"
    assert exact_from(2, sb.Window(5)) == 30
    assert exact_from(2, sb.Window(15, slide=10)) == 20, "the end of the one that starts at 10 cuts through"
    assert exact_from(2, sb.Window(15, slide=10, offset=5)) == 35, "the start of the one that ends at 40 cuts through"


def test_a_torn_cut_is_torn_when_all_before_it_is_forgotten() -> None:
    panes = Panes(schedules(sb.Window(10)))
    panes.cover(0, 49)
    panes.record_loss(np.array([1]), 3, 7.0)
    panes.refine(schedules(sb.Window(10), sb.Window(5)))
    panes.forget(3)
    assert panes.cuts[0] == 15
    assert panes.exact_from(schedules(sb.Window(5))[0], 49) == 20


def test_what_is_given_again_heals_the_panes_that_lost() -> None:
    for low, high, depths in ((10, 30, [3, None, None, 3]), (10, 25, [3, None, 2, 3])):
        panes = Panes(schedules(sb.Window(10)))
        panes.cover(0, 39)
        panes.record_loss(np.arange(4), 3, 7.0)
        panes.restore(low, high, 2)
        assert panes.depth[:-1].tolist() == [UNTOUCHED if depth is None else depth for depth in depths]
        assert (panes.best_dropped[:-1] == -np.inf).tolist() == [depth is None for depth in depths]
    panes = Panes(schedules(sb.Window(10)))
    panes.restore(10, 25, 2)
    assert set(panes.depth.tolist()) == {UNTOUCHED}, "a part of what lost nothing is given again"


def test_what_is_given_again_heals_the_cuts_within_it() -> None:
    """Not the one where it ends: the pane behind lacks what others were dropped for that lie before."""

    def exact_from(lossy: list[int], low: int, high: int) -> int:
        panes = Panes(schedules(sb.Window(10)))
        panes.cover(0, 39)
        panes.record_loss(np.array(lossy), 3, 7.0)
        panes.refine(schedules(sb.Window(10), sb.Window(5)))
        panes.restore(low, high, 3)
        return panes.exact_from(schedules(sb.Window(5))[0], 39)

    assert exact_from([0, 1, 2, 3], 15, 40) <= 15
    assert exact_from([2], 10, 25) == 30


def test_cuts_that_are_too_many_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = schedules(sb.Window(10)), schedules(sb.Window(10), sb.Window(10, slide=1))
    panes = Panes(few)
    panes.cover(0, 95)
    before = panes.cuts.copy()
    monkeypatch.setattr(panes_module, "MOST_EDGES", 50)
    for _ in range(2):  # the second time they are still not known
        with pytest.raises(TooManyWindows, match="window edges"):
            panes.refine(many)
    assert np.array_equal(panes.cuts, before)
    monkeypatch.undo()
    assert panes.refine(many)
    assert np.array_equal(panes.cuts, np.arange(101))
