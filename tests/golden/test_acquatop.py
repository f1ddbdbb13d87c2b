"""The worked examples of AcquaTop (Zahmatkesh and Della Valle): lists, marks, pointers, picks and metrics."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.remote.accuracy import ndcg, precision
from skyband.remote.objects import Arrivals
from skyband.remote.policies import POLICIES
from skyband.remote.policies.base import Candidates
from skyband.remote.policies.rankers import wbm_score
from skyband.remote.topkn import TopkN
from skyband.windows import WindowGrid

# Figure 1: windows of 9 that slide by 3; W0 is (1, 10], which is [2, 11) in whole numbers. The marks of Figure 6 fix
# the times: B is in W0 only, C in W0 and W1, E and F in W0 to W2. A and D come early, too low to be in any list.
SIZE, SLIDE, OFFSET = 9, 3, 2


def paper(k: int = 3, n: int = 0) -> TopkN:
    """Return the list at time 9: remote values are 0, so the stream's score is the score."""
    top = TopkN(k=k, n=n, windows=WindowGrid(SIZE, SLIDE, OFFSET), score=np.add)
    top.go_to(0)
    arrive(top, A=(1.0, 2), B=(5.0, 3), C=(6.0, 5), D=(0.5, 6), E=(7.0, 8), F=(3.0, 9))
    return top


def arrive(top: TopkN, **events: tuple[float, int]) -> None:
    scores, times = zip(*events.values(), strict=True)
    top.arrive(Arrivals.of(list(events), scores, times, np.zeros(len(events))))
    top.check()


def listed(top: TopkN) -> list[tuple[object, float, int, int]]:
    return [(one.id, one.merit, one.start, one.end) for one in top.list]


def names(top: TopkN, window: int) -> list[object]:
    k_list, n_list = top.lists(window)
    return [one.id for one in k_list + n_list]


def figure_6d(k: int = 3, n: int = 0) -> TopkN:
    """Return the list at time 12.

    F has 3 in Figures 6(a) and (b), and 5 in (c) and (d), with the same marks: it did not arrive again, so its remote
    value has changed.
    """
    top = paper(k, n)
    top.go_to(1)
    top.change({"F": 2.0})
    arrive(top, A=(2.0, 11))
    arrive(top, G=(8.0, 12))
    return top


def test_figure_6_the_super_mtkn_list() -> None:
    top = paper()
    assert listed(top) == [("E", 7, 0, 2), ("C", 6, 0, 1), ("B", 5, 0, 0), ("F", 3, 1, 2)]
    assert top.pointers() == {0: "B", 1: "F"}
    assert [one.id for one in top.best()] == ["E", "C", "B"]
    top.go_to(1)
    assert listed(top) == [("E", 7, 1, 2), ("C", 6, 1, 1), ("F", 3, 1, 2)]
    assert top.pointers() == {1: "F"}
    top.change({"F": 2.0})
    arrive(top, A=(2.0, 11))
    assert listed(top) == [("E", 7, 1, 2), ("C", 6, 1, 1), ("F", 5, 1, 2), ("A", 2, 2, 3)]
    assert top.pointers() == {1: "F", 2: "A"}
    arrive(top, G=(8.0, 12))
    assert listed(top) == [("G", 8, 1, 3), ("E", 7, 1, 2), ("C", 6, 1, 1), ("F", 5, 2, 2), ("A", 2, 3, 3)]
    assert top.pointers() == {1: "C", 2: "F"}


def test_figure_3_each_window_on_its_own() -> None:
    top = figure_6d()
    assert [names(top, window) for window in (1, 2, 3)] == [["G", "E", "C"], ["G", "E", "F"], ["G", "A"]]


def test_section_4_2_the_areas_of_figure_3() -> None:
    k_list, n_list = figure_6d(k=2, n=1).lists(1)
    assert ([one.id for one in k_list], [one.id for one in n_list]) == (["G", "E"], ["C"])


def test_figure_7_a_change_moves_an_object_up() -> None:
    top = figure_6d(k=1, n=2)
    assert [one.id for one in top.best()] == ["G"]
    pointers = top.pointers()
    top.change({"E": 3.0})  # from 7 to 10
    top.check()
    assert listed(top) == [("E", 10, 1, 2), ("G", 8, 1, 3), ("C", 6, 1, 1), ("F", 5, 2, 2), ("A", 2, 3, 3)]
    assert top.pointers() == pointers
    assert [one.id for one in top.best()] == ["E"]
    areas = [["G" in [one.id for one in area] for area in top.lists(window)] for window in (1, 2, 3)]
    assert areas == [[False, True], [False, True], [True, False]]  # in the N-list of W1 and W2, in the K-list of W3


def candidates(top: TopkN, k: int) -> Candidates:
    rows = len(top.list)
    zeros, none = np.zeros(rows, np.int64), np.full(rows, np.nan)
    times = np.array([one.time for one in top.list])
    return Candidates(
        now=13, size=SIZE, slide=SLIDE, k=k, place=np.arange(rows), time=times, score=none, value=none,
        refreshed=zeros, best_before=zeros, interval=zeros,
    )  # fmt: skip


@pytest.mark.parametrize(("policy", "picks"), [("AT-TSM", ["G", "E"]), ("AT-BSM", ["C", "F"])])
def test_section_5_2_what_is_picked_of_figure_6d(policy: str, picks: list[str]) -> None:
    top = figure_6d()
    rows = POLICIES[policy].elect(candidates(top, k=3), 2, np.random.default_rng(0))
    assert [top.list[row].id for row in rows] == picks


def test_section_5_2_3_all_of_figure_6d() -> None:
    top = figure_6d()
    rows = POLICIES["AT-ASM"].elect(candidates(top, k=3), None, np.random.default_rng(0))
    assert [top.list[row].id for row in rows] == ["G", "E", "C", "F", "A"]


@pytest.mark.parametrize(
    ("length", "k", "budget", "places"),
    [
        (20, 5, 7, [3, 4, 5, 6, 7, 8, 9]),  # the authors' example
        (7, 5, 4, [4, 5, 6, 7]),
        (6, 5, 4, [3, 4, 5, 6]),  # moved up: the list ends
        (20, 2, 8, [1, 2, 3, 4, 5, 6, 7, 8]),  # would begin before the first
        (3, 5, 7, [1, 2, 3]),
        (20, 5, 1, [6]),
    ],
)
def test_the_border_is_cut_as_the_authors_cut_it(length: int, k: int, budget: int, places: list[int]) -> None:
    top = TopkN(k=length, n=0, windows=WindowGrid(9, 9), score=np.add)
    top.arrive(Arrivals.of(list(range(length)), np.arange(length, 0, -1), np.zeros(length), np.zeros(length)))
    rows = POLICIES["AT-BSM"].elect(candidates(top, k), budget, np.random.default_rng(0))
    assert (rows + 1).tolist() == places


def test_figure_5_the_scores_of_wbm() -> None:
    """At time 5, windows of 5 that slide by 2: A, B and E are probably stale, C and D are not."""
    five = Candidates(
        now=5, size=5, slide=2, k=0, place=np.full(5, -1),
        time=np.array([2, 2, 3, 4, 5]),  # A, B, C, D, E: they live for 1, 1, -, -, 3 more answers
        score=np.zeros(5), value=np.zeros(5), refreshed=np.zeros(5, np.int64),
        best_before=np.array([5, 4, 7, 9, 5]),
        interval=np.array([6, 6, 9, 9, 7]),  # so that A, B and E are good until 11, 10 and 12
    )  # fmt: skip
    assert (five.best_before + five.interval)[[0, 1, 4]].tolist() == [11, 10, 12]
    assert wbm_score(five)[[0, 1, 4]].tolist() == [1, 1, 3]
    assert POLICIES["WSJ-WBM"].elect(five, 1, np.random.default_rng(0)).tolist() == [4]
    assert sorted(POLICIES["WSJ-WBM"].elect(five, 3, np.random.default_rng(0)).tolist()) == [0, 1, 4]


@pytest.mark.parametrize(("answer", "gain", "share"), [("ADF", 0.754, 0.333), ("FCB", 0.288, 0.667)])
def test_section_2_1_2_the_metrics(answer: str, gain: float, share: float) -> None:
    assert round(ndcg(answer, "ABCDEF", 3), 3) == gain
    assert round(precision(answer, "ABCDEF", 3), 3) == share
