"""The compiled kernels and the plain Python they are compiled from do the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from skyband import order
from skyband.algorithms.panes import UNTOUCHED
from skyband.algorithms.staircase import scan_kernels, seal_kernels
from skyband.algorithms.staircase import scan_kernels as scan
from skyband.answers import row_kernels
from skyband.order import sort_runs

SEEDS = range(30)


def both(kernel: Any) -> list[Any]:
    """Return a kernel compiled and as plain Python."""
    return [kernel, kernel.py_func]


def entries(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 6, n).astype(float), rng.integers(0, 4, n), np.arange(n)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_keep_best_keeps_the_best_and_their_ties(seed: int, compiled: bool) -> None:
    n = 20 + seed
    merit, time, row = entries(seed, n)
    expected = sorted(zip(-merit, -time, strict=True))
    k = 1 + seed % 10
    keep = both(scan.keep_best)[not compiled]
    m, t, r = merit.copy(), time.copy(), row.copy()
    left, bar, bar_time = keep(m, t, r, n, k)
    assert (-bar, -bar_time) == expected[k - 1]
    found = sorted(zip(-m[:left], -t[:left], strict=True))
    assert found == [pair for pair in expected if pair <= expected[k - 1]]
    assert all(merit[i] == v and time[i] == w for v, w, i in zip(m, t, r, strict=True)), "rows must move along"


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_keep_best_ids_keeps_each_id_once(seed: int, compiled: bool) -> None:
    n, k = 30, 1 + seed % 6
    merit, time, row = entries(seed, n)
    ident = np.random.default_rng(seed + 99).integers(0, 8, n)
    best: dict[int, tuple[float, int]] = {}
    for m, t, i in zip(merit, time, ident, strict=True):
        best[i] = max(best.get(i, (-np.inf, 0)), (m, t))
    expected = sorted(best.values(), reverse=True)
    keep = both(scan.keep_best_ids)[not compiled]
    m, t, r = merit.copy(), time.copy(), row.copy()
    left, bar, bar_time = keep(m, t, r, ident, n, k)
    found = sorted(zip(m[:left], t[:left], strict=True), reverse=True)
    if len(expected) <= k:
        assert found == expected
        assert bar == -np.inf
    else:
        assert (bar, bar_time) == expected[k - 1]
        assert found == [pair for pair in expected if pair >= expected[k - 1]]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_sort_runs_sorts_each_run_by_the_one_order(seed: int, compiled: bool) -> None:
    rng = np.random.default_rng(seed)
    n = 90
    merit, time, key, part = (rng.integers(0, 3, n) for _ in range(4))
    events = (merit.astype(float), time, key, part, time)
    ends = np.unique(np.append(rng.integers(0, n, 4), n))
    slots = rng.permutation(n).astype(np.int32)
    expected = slots.copy()
    start = 0
    for end in ends:
        run = expected[start:end]
        expected[start:end] = run[order.best_first(events[0][run], time[run], key[run], part[run])]
        start = end
    both(sort_runs)[not compiled](slots, ends, *events[:4])
    assert slots.tolist() == expected.tolist()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_scan_drops_only_what_cannot_be_among_the_best(seed: int, compiled: bool) -> None:
    rng = np.random.default_rng(seed)
    n, k, partitions = 300, 4, 1 + seed % 3
    merit = np.where(rng.random(n) < 0.05, np.nan, rng.integers(0, 40, n).astype(float))
    time = np.sort(rng.integers(0, 50, n)) - rng.integers(0, 10, n) + 10
    part = rng.integers(0, partitions, n)
    cuts = np.arange(0, 71, 10)
    rows, seen, late = run_scan(merit, time, part, partitions, cuts, k, compiled)
    events = ~np.isnan(merit) & (time >= 12)
    assert seen[scan.REJECTED] == np.isnan(merit).sum()
    assert sorted(late) == np.flatnonzero(~np.isnan(merit) & (time < 12)).tolist()
    assert seen[scan.PARTLY] == (events & (time < 20)).sum()
    for pane in range(len(cuts) - 1):
        for p in range(partitions):
            inside = np.flatnonzero(events & (time // 10 == pane) & (part == p))
            best = inside[order.best_first(merit[inside], time[inside], inside)][:k]
            assert set(best.tolist()) <= set(rows), f"seed {seed}: pane {pane} lost one of its best"


def no_guesses(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.array([-np.inf]), np.array([-1, 0]), np.full(size, -1)


def run_scan(
    merit: np.ndarray,
    time: np.ndarray,
    part: np.ndarray,
    partitions: int,
    cuts: np.ndarray,
    k: int,
    compiled: bool,
) -> tuple[list[int], np.ndarray, list[int]]:
    """Drive the scan as the algorithm does, with a pool that is too small on purpose."""
    size = (len(cuts) - 1) * partitions
    bars = (np.full(size, -np.inf), np.full(size, -(2**63), np.int64), np.full(size, -1, np.int64))
    pool = (
        np.empty((3, 9)),
        np.empty((3, 9), np.int64),
        np.empty((3, 9), np.int64),
        np.zeros(3, np.int64),
        np.zeros(3, np.int64),
    )
    seen = np.array([0, 0, 0, 2**62, -(2**62), 0])
    late = np.empty(len(merit), np.int64)
    none = np.empty(0, np.int64)
    columns = (merit, time, time, part if partitions > 1 else none, none)
    pass_, drain = (both(kernel)[not compiled] for kernel in (scan.scan, scan.drain))
    rows: list[int] = []
    status, row = scan.FULL, 0
    while status != scan.DONE:
        assert status == scan.FULL
        status, row = pass_(
            columns,
            row,
            len(merit),
            (cuts, np.empty(0, bool), partitions),
            bars,
            pool,
            no_guesses(size),
            np.array([12, 20]),
            k,
            seen,
            late,
        )
        rows += drain(pool, bars, np.full(size, -1), none, seen[scan.IN_USE], k).tolist()
        seen[scan.IN_USE] = 0
    return rows, seen, late[: seen[scan.LATE]].tolist()


@pytest.mark.parametrize("compiled", [True, False])
def test_scan_says_where_positions_leave_the_cuts(compiled: bool) -> None:
    time = np.arange(3000)
    merit = np.zeros(3000)
    size = 1
    bars = (np.full(size, -np.inf), np.full(size, -(2**63), np.int64), np.full(size, -1, np.int64))
    pool = (
        np.empty((1, 9)),
        np.empty((1, 9), np.int64),
        np.empty((1, 9), np.int64),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
    )
    none = np.empty(0, np.int64)
    seen = np.array([0, 0, 0, 2**62, -(2**62), 0])
    limits = np.array([-(2**62), -(2**62)])
    status, row = both(scan.scan)[not compiled](
        (merit, time, time, none, none),
        0,
        3000,
        (np.array([0, 2500]), np.empty(0, bool), 1),
        bars,
        pool,
        no_guesses(size),
        limits,
        4,
        seen,
        none,
    )
    assert status == scan.OUTSIDE
    assert row <= 2500


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("mode", "parts"),
    [(seal_kernels.ALL, 1), *((mode, parts) for mode in (seal_kernels.BEST, seal_kernels.LATEST) for parts in (1, 2))],
)
def test_seal_compiled_equals_seal_in_python(seed: int, mode: int, parts: int) -> None:
    results = [run_seal(kernel, seed, mode, parts) for kernel in both(seal_kernels.seal)]
    for left, right in zip(*results, strict=True):
        assert np.array_equal(left, right)


def run_seal(kernel: Any, seed: int, mode: int, parts: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    n, panes = 120, 12
    position = np.sort(rng.integers(0, 10 * panes, n))
    merit, key, part = rng.integers(0, 9, n).astype(float), rng.integers(0, 7, n), rng.integers(0, parts, n)
    if mode == seal_kernels.LATEST:  # one event of each id in each pane, as the algorithm sees to
        _, only = np.unique(np.stack([position // 10, part, key]), axis=1, return_index=True)
        position, merit, key, part = position[only], merit[only], key[only], part[only]
        by_pane = np.argsort(position // 10, kind="stable")
        position, merit, key, part = position[by_pane], merit[by_pane], key[by_pane], part[by_pane]
    n = len(position)
    events = (merit, position, key, part, position)
    slots = np.arange(n, dtype=np.int32)
    ends = np.searchsorted(position // 10, np.arange(panes), side="right")
    sort_runs(slots, ends, *events[:4])
    bands = tuple(
        tuple(np.empty(n, kind) for kind in (np.int32, np.int64, np.int64, np.float64, np.int64)) for _ in "ab"
    )
    ks, sizes, slides = np.array([2, 5]), np.array([40, 30]), np.array([10, 30])
    due = sorted((end, q) for q in (0, 1) for end in range(30 if q else 10, 10 * panes + 1, int(slides[q])))
    query, end = np.array([q for _, q in due]), np.array([e for e, _ in due])
    picks, offsets = np.zeros(5000, np.int32), np.zeros(len(due) + 1, np.int64)
    depth, worst = np.full(panes + 1, UNTOUCHED), np.full(panes + 1, -np.inf)
    starts = np.full(2, -(2**62))
    codes = (part * 100 + key, 200) if mode != seal_kernels.ALL else (np.empty(0, np.int64), 0)
    m, side = kernel(
        events, codes, mode, parts == 1, bands, 0, (slots, ends), np.arange(0, 10 * panes + 1, 10), 0,
        (starts, ks), (query, end - sizes[query], end, end - sizes[query] + slides[query]), depth, worst, picks,
        offsets,
    )  # fmt: skip
    return [
        np.array([m, side]),
        picks[: offsets[-1]],
        offsets,
        depth,
        worst,
        *(column[:m] for column in bands[side]),
    ]


def test_the_order_rule_in_python_and_compiled() -> None:
    cases = [(m, t, k) for m in (1.0, 2.0) for t in (1, 2) for k in (1, 2)]
    for a in cases:
        for b in cases:
            expected = (-a[0], -a[1], a[2]) < (-b[0], -b[1], b[2])
            for rule in both(order.is_better):
                assert rule(*a, *b) == expected


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_keep_latest_keeps_one_row_for_each_id_of_a_pane(seed: int, compiled: bool) -> None:
    rng = np.random.default_rng(seed)
    ident, pane, part, position, merit, time = (rng.integers(-3, 4, 200) for _ in range(6))
    expected: dict[tuple[int, ...], int] = {}
    for i in range(200):
        name = (ident[i], pane[i], part[i])
        j = expected.setdefault(name, i)
        if (position[i], merit[i], time[i]) > (position[j], merit[j], time[j]):
            expected[name] = i
    with np.errstate(over="ignore"):
        rows = both(scan_kernels.keep_latest)[not compiled](ident, pane, part, position, merit.astype(float), time)
    assert rows.tolist() == sorted(expected.values())


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_know_their_answer_and_their_number_there(seed: int, compiled: bool) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 5, 12)
    part = np.concatenate([np.sort(rng.integers(0, 3, size)) for size in sizes])
    offsets, values = np.cumsum([0, *sizes]), rng.random(12)
    repeated, numbers, in_parts = np.empty(len(part)), np.empty(len(part), np.int32), np.empty(len(part), np.int32)
    both(row_kernels.repeat)[not compiled](values, offsets, repeated)
    both(row_kernels.number)[not compiled](np.empty(0, np.int64), offsets, numbers)
    both(row_kernels.number)[not compiled](part, offsets, in_parts)
    answer = np.repeat(np.arange(12), sizes)
    assert repeated.tolist() == values[answer].tolist()
    assert numbers.tolist() == (np.arange(len(part)) - offsets[answer] + 1).tolist()
    assert in_parts.tolist() == (order.rank_in_runs(answer, part) + 1).tolist()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_look_at_a_small_batch_leaves_out_what_k_others_of_its_pane_beat(seed: int, compiled: bool) -> None:
    rng = np.random.default_rng(seed)
    n, cuts = 40, np.array([0, 10, 25, 40])
    merit, time = rng.choice([0.0, 1.0, 2.0, 3.0, np.nan], n), rng.integers(0, 3, n)
    position = rng.integers(-20, 60, n)
    bar, bar_time = np.array([1.0, -np.inf, 2.0]), np.array([1, -(2**62), 2])
    seen, late = np.empty(8, np.int64), np.empty(n, np.int64)
    rows = both(scan.look)[not compiled]((merit, time, position), cuts, (bar, bar_time), -5, 12, seen, late)
    known, missed = ~np.isnan(merit), position < -5
    pane = np.clip(np.searchsorted(cuts, position, side="right") - 1, 0, 2)
    beaten = (merit < bar[pane]) | ((merit == bar[pane]) & (time < bar_time[pane]))
    inside, events = (position >= 0) & (position < 40), known & ~missed
    assert rows.tolist() == np.flatnonzero(events & ~(inside & beaten)).tolist()
    assert late[: seen[scan.LATE]].tolist() == np.flatnonzero(known & missed).tolist()
    assert seen[scan.REJECTED] == (~known).sum()
    assert seen[scan.PARTLY] == (events & (position < 12)).sum()
    assert seen[[scan.FIRST, scan.LAST]].tolist() == [position[events].min(), position[events].max()]
    assert seen[scan.NEWEST] == position.max()
