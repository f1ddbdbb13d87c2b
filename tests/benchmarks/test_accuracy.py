"""Metrics: what they are for right, wrong and half-right answers; equal scores may stand in for each other."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.remote.accuracy import cumulative, jaccard, jaccard_distance, ndcg, ndcg_compat, precision
from skyband.errors import InputError

RANKED = [ndcg, ndcg_compat, precision]


@pytest.mark.parametrize("metric", RANKED)
def test_the_right_answer_is_1_and_a_wrong_one_0(metric: object) -> None:
    assert metric("ABC", "ABCDE", 3) == 1.0  # type: ignore[operator]
    assert metric("XYZ", "ABCDE", 3) == 0.0  # type: ignore[operator]


def test_order_costs_ndcg_only() -> None:
    assert ndcg("CBA", "ABC", 3) < 1.0
    assert ndcg_compat("CBA", "ABC", 3) == precision("CBA", "ABC", 3) == 1.0


def test_the_next_after_the_best_k_is_no_hit() -> None:
    assert precision("ABD", "ABCDE", 3) == pytest.approx(2 / 3)
    assert ndcg_compat("ABD", "ABCDE", 3) < 1.0


def test_compat_is_as_the_figures_count() -> None:
    """Of five, ranks 1, 2 and 4 are hits, wherever the oracle has them: 2^5 - 1, 2^4 - 1 and 2^2 - 1."""
    ideal = sum((2**rel - 1) / math.log2(place + 1) for place, rel in enumerate((5, 4, 3, 2, 1), 1))
    got = 31 / math.log2(2) + 15 / math.log2(3) + 3 / math.log2(5)
    assert ndcg_compat("EDXCY", "ABCDE", 5) == pytest.approx(got / ideal)


def test_ndcg_is_as_printed() -> None:
    ideal = 63 / 1 + 31 / math.log2(3) + 15 / 2
    assert ndcg("FCB", "ABCDEF", 3) == pytest.approx((1 + 15 / math.log2(3) + 31 / 2) / ideal)


def test_long_rankings_do_not_overflow() -> None:
    ids = list(range(5_000))
    assert ndcg(ids[:10], ids, 10) == pytest.approx(1.0)
    assert 0.0 < ndcg(ids[1:11], ids, 10) < 1.0


def test_fewer_ids_than_ranks() -> None:
    assert ndcg("AB", "AB", 5) == ndcg_compat("AB", "AB", 5) == 1.0
    assert precision("AB", "AB", 5) == 0.4  # as the paper divides
    assert ndcg("ABXYZ", "AB", 5) == 1.0
    assert ndcg_compat("XYAB", "AB", 4) == 0.0  # the ranks that count are taken


def test_nothing_to_find() -> None:
    assert ndcg("", "", 3) == ndcg_compat("", "", 3) == 1.0
    assert ndcg("", "ABC", 3) == ndcg_compat("", "ABC", 3) == precision("", "ABC", 3) == 0.0


@pytest.mark.parametrize("metric", RANKED)
def test_equal_scores_may_stand_in_for_each_other(metric: object) -> None:
    scores = [9.0, 5.0, 5.0, 5.0, 1.0]
    for middle in itertools.permutations("BCD", 2):
        assert metric(["A", *middle], "ABCDE", 3, scores) == 1.0  # type: ignore[operator]
    assert metric("ABE", "ABCDE", 3, scores) < 1.0  # type: ignore[operator]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(1, 9), st.randoms(use_true_random=False))
def test_any_order_of_equal_scores_is_right(values: list[int], k: int, random: object) -> None:
    ids = list(range(len(values)))
    truth = sorted(ids, key=lambda name: (-values[name], name))
    shuffled = sorted(ids, key=lambda name: (-values[name], random.random()))  # type: ignore[attr-defined]
    scores = [float(values[name]) for name in truth]
    for metric in RANKED:
        wanted = 1.0 if metric is not precision else min(k, len(ids)) / k
        assert metric(shuffled[:k], truth, k, scores) == pytest.approx(wanted)


@given(st.permutations("ABCDEFG"), st.permutations("ABCDEFG"), st.integers(1, 7))
def test_they_lie_between_0_and_1(answer: list[str], ideal: list[str], k: int) -> None:
    for metric in RANKED:
        assert 0.0 <= metric(answer, ideal, k) <= 1.0 + 1e-12


def test_mistakes() -> None:
    with pytest.raises(InputError, match="k is 0"):
        precision("A", "A", 0)
    with pytest.raises(InputError, match="the answer names 'A' twice"):
        ndcg("ABA", "ABC", 3)
    with pytest.raises(InputError, match="there are 1 scores for 3 ids"):
        ndcg("ABC", "ABC", 3, [1.0])


def test_sets() -> None:
    assert jaccard("AB", "BC") == pytest.approx(1 / 3)
    assert jaccard([], []) == 1.0
    assert jaccard([], "A") == 0.0
    assert jaccard_distance("AB", "BC") == pytest.approx(2 / 3)


def test_cumulative() -> None:
    assert cumulative(ndcg(answer, "AB", 2) for answer in ("AB", "XY", "AB")).tolist() == [1.0, 1.0, 2.0]
    assert cumulative([]).tolist() == []
