"""The worked example of the paper on sliding-window skybands: eleven objects, a top-1 query over the last six.

The paper gives no scores. These fit every order that its text and tables imply (smaller is better): o2 < o3 < o1 < o7 <
o5 < o9 < o4 < o8 < o6 < o11 < o10 (only which of o6 and o11 comes first is free), the threshold of step
10, which o10 exceeds, and which objects lie in the cells that the query of Table III monitors: with cells of width 3 it
monitors what is nearer than 6, where o5 and o9 are and o4, o6, o8, o10 and o11 are not.
"""

from __future__ import annotations

import numpy as np
import pytest

from skyband.algorithms.topkw.bands import CPM, NONE, PROBABLE, RELAXED, SNN, STRICT, Bands, BandSpec, Method
from skyband.algorithms.topkw.event_kernels import EUCLID
from skyband.algorithms.topkw.exhaustive import ExhaustiveBands
from skyband.algorithms.topkw.query_grid import QueryGrid

SCORES = {2: 1.0, 3: 2.0, 1: 3.0, 7: 4.0, 5: 5.0, 9: 5.5, 4: 7.0, 8: 7.5, 6: 9.0, 11: 10.0, 10: 11.0}
S = [np.nan, *(SCORES[i] for i in range(1, 12))]


def steps(
    method: Method, grid: QueryGrid | None = None, engine: type[Bands] = Bands
) -> tuple[Bands, list[list[list[int]]], list[float], list[int]]:
    """Run the example; return, per step, what band and filter hold, the threshold, and all that was reported."""
    bands = engine(method, dimensions=1, grid=grid)
    bands.add([BandSpec(k=1, size=6, population=6, family=EUCLID, point=(0.0,), weight=(1.0,))])
    number = np.arange(12)
    rows, thresholds, told = [], [], []
    for i in range(1, 12):
        at = number[i : i + 1]
        told += bands.process(np.array([[S[i]]]), at, at, number, number).slot.tolist()
        held = bands.held.slot if engine is ExhaustiveBands else number
        rows.append([held[band.slot[0, : band.size[0]]].tolist() for band in (bands.band, bands.filters)])
        thresholds.append(float(bands.band.threshold[0]))
        bands.check()
    return bands, rows, thresholds, told


def test_table_vi_probabilistic() -> None:
    _, rows, thresholds, told = steps(Method(PROBABLE, limit=3, additional=1))
    assert [band for band, _ in rows] == [
        [1],
        [2, 1],
        [2, 3, 1],
        [2, 3, 1, 4],
        [2, 3, 1, 5, 4],
        [2, 3, 1, 5, 4],
        [2, 3, 7, 5, 4],
        [3, 7, 5, 4, 8],
        [7, 5, 9, 4, 8],
        [7, 5, 9, 8],
        [7, 9, 8, 11],
    ]
    inf = np.inf
    raised = S[8] + (S[8] - S[9]) / 2
    assert thresholds == [inf, inf, inf, inf, S[4], S[4], S[4], S[8], S[8], raised, inf]
    assert told == [1, 2, 3, 7]


def test_table_vii_relaxed() -> None:
    """The first limit is 4k = 4 candidates and γ is a half.

    The table still has o10 in step 11. But three candidates have reached the limit, as they did in step 6, so they are
    pruned (algorithm 3, line 15), and o11 beats o10.
    """
    bands, rows, _, told = steps(Method(RELAXED, pruning=0.5))
    assert [band for band, _ in rows] == [
        [1],
        [2, 1],
        [2, 3, 1],
        [2, 3, 1, 4],
        [2, 3, 5],  # o1 and o4 are pruned
        [2, 3, 5, 6],
        [2, 3, 7, 5, 6],
        [3, 7, 5, 8, 6],
        [7, 5, 9, 8, 6],
        [7, 9, 10],  # o5, o8 and o6 are pruned
        [7, 9, 11],
    ]
    assert int(bands.band.limit[0]) == 3, "the limit after the last pruning"
    assert told == [1, 2, 3, 7]


def test_table_iii_strict_with_a_strict_filter() -> None:
    """The buffer has three objects; what lies outside of the monitored cells reaches neither band nor filter."""
    grid = QueryGrid(np.zeros(1), np.full(1, 30.0), cells=10)
    bands, rows, _, told = steps(Method(STRICT, STRICT, buffer=3), grid)
    assert rows == [
        [[1], [1]],
        [[2], [2]],
        [[2], [2, 3]],
        [[2], [2, 3]],
        [[2], [3, 5]],
        [[2, 3], [5]],
        [[2, 3, 7], [7]],
        [[3, 7], [7]],
        [[7], [7, 9]],
        [[7], [9]],
        [[7], [9]],
    ]
    assert bands.held.slot.tolist() == [9, 10, 11], "the buffer"
    assert told == [1, 2, 3, 7]


@pytest.mark.parametrize(
    ("kind", "kept", "thresholds"),
    [
        (CPM, [[1], [2], [2], [2], [2], [2], [2], [3], [7], [7], [7]], [1, 1, 1, 1, 1, 1, 1, 3, 7, 7, 7]),
        (SNN, [[1], [2], *[[2, 3]] * 5, [3], [7], [7], [7]], [1, 1, 1, 1, 1, 1, 1, 1, 7, 7, 7]),
    ],
)
def test_table_ii_from_scratch(kind: int, kept: list[list[int]], thresholds: list[int]) -> None:
    """What each keeps, and its threshold: the score of the worst of the best k when it last looked from scratch."""
    bands, rows, found, told = steps(Method(kind), engine=ExhaustiveBands)
    assert [band for band, _ in rows] == kept
    assert found == [S[i] for i in thresholds]
    assert told == [1, 2, 3, 7]
    assert len(bands.kept()) == 6, "the whole window"


@pytest.mark.parametrize("kind", [STRICT, RELAXED])
@pytest.mark.parametrize("front", [NONE, STRICT, RELAXED, PROBABLE])
def test_all_report_the_same(kind: int, front: int) -> None:
    assert steps(Method(kind, front, buffer=3))[-1] == [1, 2, 3, 7]
