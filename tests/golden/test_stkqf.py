"""The worked examples of STKQF."""

from __future__ import annotations

from typing import Any

import pytest

import skyband as sb
from skyband.algorithms.stkqf.skyline import Case, Need, Scan, SQGrid, scan_for, skyline


def test_figure_2a_dominance_and_skyline() -> None:
    q1, q2, q3, q4 = Need(3, 5), Need(6, 4), Need(8, 2), Need(4, 3)
    assert skyline([q2, q4]) == [q2], "q2 dominates q4"
    assert all(q2 in skyline([q2, other]) for other in (q1, q3, q4)), "none dominates q2"
    assert skyline([q1, q2, q3, q4]) == [q1, q2, q3]


def test_observation_2_the_further_the_less_deep() -> None:
    found = skyline([Need(8, 2), Need(3, 5), Need(6, 4)])
    assert [need.n for need in found] == sorted(need.n for need in found)
    assert [need.k for need in found] == sorted((need.k for need in found), reverse=True)


@pytest.mark.parametrize(
    ("new", "expected"),
    [  # the figure has k = 1.5 and 3.5: all k are doubled here
        (Need(4, 4), Scan(Case.DOMINATED, 4, 4)),
        (Need(5, 7), Scan(Case.DEEPER_THAN_FURTHER_ONES, 3, 5)),
        (Need(2, 10), Scan(Case.DEEPEST, 0, 2)),
        (Need(9, 2), Scan(Case.FURTHEST, 7, 9)),
    ],
)
def test_figure_2c_the_four_cases(new: Need, expected: Scan) -> None:
    assert scan_for(new, [Need(3, 8), Need(6, 6), Need(7, 3)]) == expected


def test_figure_3_virtual_queries_and_lazy_removal() -> None:
    """Six cells in use, of which two are dominated; a cell stays for a while after its last query has gone."""
    grid = SQGrid(n=4, k=4, cells=4)
    cells = {"c1": (1, 4), "c2": (2, 3), "c3": (1, 3), "c4": (3, 2), "c5": (2, 2), "c6": (4, 1)}
    corner = {name: grid.corner(cell) for name, cell in cells.items()}
    assert grid.cell(corner["c2"]) == cells["c2"], "a query on the upper right corner is in the cell"
    grid.fill([corner["c1"], *corner.values()], now=0)
    assert grid.virtual() == [corner["c1"], corner["c2"], corner["c4"], corner["c6"]]
    grid.fill([need for name, need in corner.items() if name != "c2"], now=1)
    assert corner["c2"] in grid.virtual(), "not at once"
    assert not grid.forget(now=4)
    assert grid.forget(now=5)
    assert grid.virtual() == [corner["c1"], corner["c4"], corner["c6"]]


def events() -> list[dict[str, Any]]:
    """Return a stream with the scores of Figure 1: what it says of three moments fixes where they lie."""
    best = {0: 99.0, 2: 98.0, 4: 95.0, 6: 93.0, 8: 88.0, 10: 78.0, 14: 90.0}
    return [{"t": t, "id": t, "x": best.get(t, float(t))} for t in range(16)]


def scores(answers: sb.Answers) -> dict[tuple[str, Any], list[float]]:
    return {(answer.query, answer.end): [row.score for row in answer.rows] for answer in answers}


@pytest.mark.parametrize("algorithm", ["stkqf", "staircase", "mtoplist", "phtree"])
def test_the_running_example(algorithm: str) -> None:
    """q1(12, 2, 4) and q2(6, 2, 2) run; q3(8, 2, 1) comes between two answers, and is exact at once."""
    needs = (("q1", 12, 4), ("q2", 6, 2), ("q3", 8, 1))
    q1, q2, q3 = (sb.Query(name, k=k, score="x", window=sb.Window(n, slide=2)) for name, n, k in needs)
    monitor = sb.Monitor([q1, q2], algorithm=algorithm, time="t", id="id")
    monitor.push(events()[:12])
    at_t0 = scores(monitor.advance(12))
    assert (at_t0["q1", 12], at_t0["q2", 12]) == ([99, 98, 95, 93], [93, 88])
    monitor.push(events()[12:14])
    at_t2 = scores(monitor.advance(14))
    assert (at_t2["q1", 14], at_t2["q2", 14]) == ([98, 95, 93, 88], [88, 78])
    monitor.push(events()[14:15])
    monitor.register(q3)
    monitor.push(events()[15:])
    answers = monitor.advance(16)
    at_t4 = scores(answers)
    assert (at_t4["q1", 16], at_t4["q2", 16], at_t4["q3", 16]) == ([95, 93, 90, 88], [90, 78], [90])
    assert all(answer.exact for answer in answers)
