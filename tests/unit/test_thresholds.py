"""Thresholds without Spark: rows that do not reach them stay away, and no answer may change, now or later."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.algorithms import ALGORITHMS
from skyband.algorithms.in_order import InOrder
from skyband.engine.ranking import RankingGroup
from skyband.spark.reducers.groups import GroupScores
from skyband.spark.reducers.guesses import ScoreDistribution
from skyband.spark.reducers.thresholds import NOTHING, Thresholds, _merge
from tests.groups import rankings

DELAY = 300


class Sieve:
    """Stands in for Spark: pushes into a monitor only what reaches its thresholds, or is late, or at the end."""

    def __init__(self, queries: list[sb.Query], share: float, algorithm: str = "staircase", delay: int = DELAY) -> None:
        self.monitor, self.share = sb.Monitor(queries, time="t", id="id", algorithm=algorithm), share
        self.delay = delay
        self.shipped = self.wide = self.failed = 0

    def read(self, table: pa.Table, tail: int, guess: float) -> None:
        before = self.monitor.newest
        self.monitor.declare(table.schema)
        (group,) = rankings(self.monitor)
        time, merit = table["t"].to_numpy(), table["x"].to_numpy()
        spread = ScoreDistribution(
            np.sort(np.random.default_rng(0).choice(merit, 200)) + guess, 0.0, 0, len(time) / np.ptp(time)
        )
        thresholds = Thresholds.of(group, max(before, int(time.min())), tail, tail - self.delay, spread, self.share)
        first, newest = thresholds, int(time.max())
        assert thresholds is not None
        late = time < group.answered_to
        seen = self._reach(thresholds, table) | late | (time >= tail)
        self._push(table, seen)
        rest = ~seen & (time > self.monitor.newest)  # none, if the batch reached as far as was thought
        self._push(table, rest)
        seen |= rest
        for turn in range(3):
            missed = thresholds.missed(group, newest)
            if not missed.any():
                break
            self.failed += int(np.count_nonzero(missed))
            low, high = thresholds.extent(missed)
            thresholds = thresholds.lowered(group, missed, spread if turn == 0 else None, newest)
            again = self._reach(thresholds, table) & (time >= low) & (time < high) & ~seen
            self._push(table, again)
            seen |= again
        assert not thresholds.missed(group, newest).any()
        assert first is not None
        first.note(group, newest, newest - self.delay)
        self.wide += int(np.count_nonzero(first.merged))
        group.algorithm.check()

    def _push(self, table: pa.Table, rows: np.ndarray) -> None:
        self.shipped += int(np.count_nonzero(rows))
        self.monitor.push(table.filter(pa.array(rows)))

    @staticmethod
    def _reach(thresholds: Thresholds, table: pa.Table) -> np.ndarray:
        """Look every row's threshold up."""
        interval = np.searchsorted(thresholds.cuts, table["t"].to_numpy(), side="right") - 1
        inside = (interval >= 0) & (interval < len(thresholds.cuts) - 1)
        bar = np.where(inside, thresholds._limits()[0, np.where(inside, interval, 0)], -np.inf)
        outside = ~inside & bool((thresholds.values < NOTHING).any())
        reached: np.ndarray = ((table["x"].to_numpy() >= bar) & inside) | outside
        return reached


def batches(rng: np.random.Generator) -> list[pa.Table]:
    ties, gap, start, found = bool(rng.integers(2)), int(rng.choice([10, 10, 80])), 0, []
    for _ in range(5):
        n = int(rng.choice([300, 1500, 4000]))
        time = start + np.sort(rng.integers(0, gap * n, n)) - rng.integers(0, 250, n)
        x = rng.integers(0, 30, n).astype(float) if ties else rng.normal(size=n)
        if rng.integers(2):  # a dip, where guesses fail that hold next to it
            x[slice(*np.sort(rng.integers(0, n, 2)))] -= 3.0
        ids = rng.integers(0, 100, n)
        found.append(pa.table({"t": np.maximum(time, 0), "id": ids, "x": x, "g": rng.integers(0, 3, n)}))
        start += gap * n
    return found


def query(rng: np.random.Generator, name: str, alike: dict[str, Any], least: int = 10, most: int = 120) -> sb.Query:
    size = int(rng.integers(least, most)) * 100
    slide = int(rng.integers(1, max(2, size // 100))) * 100
    return sb.Query(name, k=int(rng.choice([1, 3, 8])), score="x", window=sb.Window(size, slide=slide), **alike)


def compare(ours: sb.Answers, truth: sb.Answers, what: str) -> int:
    """Compare answers; a query that came later may know less of the past, but must know that. Returns how many do."""
    assert [(a.query, a.end) for a in ours] == [(a.query, a.end) for a in truth], what
    for mine, right in zip(ours, truth, strict=True):
        assert mine.exact <= right.exact, what
        assert mine.exact or mine.query.startswith("new"), what
        assert not mine.exact or mine.rows == right.rows or repr(mine.rows) == repr(right.rows), what  # NaN
    return sum(right.exact and not mine.exact for mine, right in zip(ours, truth, strict=True))


def test_a_threshold_never_changes_an_answer() -> None:
    wide = failed = shipped = rows = answers = unsure = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        alike: dict[str, Any] = {
            "distinct": rng.choice(np.array([None, "best"], object)),
        }
        queries = [query(rng, f"q{i}", alike) for i in range(int(rng.integers(1, 4)))]
        sieve, plain = Sieve(queries, float(rng.choice([0.3, 1.0]))), sb.Monitor(queries, time="t", id="id")
        for number, table in enumerate(batches(rng)):
            wobble = int(rng.choice([-400, 0, 400, 5_000]))  # how far off the end of the batch is thought
            sieve.read(table, int(table["t"].to_numpy().max()) + wobble, float(rng.choice([0.0, 0.0, 0.5])))
            plain.push(table)
            mark = plain.newest - DELAY
            assert sieve.monitor.newest == plain.newest, f"seed {seed}"
            truth = plain.advance(mark)
            unsure += compare(sieve.monitor.advance(mark), truth, f"seed {seed}, batch {number}")
            answers += len(truth)
            if rng.integers(2):
                late_comer = query(rng, f"new{number}", alike, 2, int(rng.choice([10, 120])))
                for monitor in (sieve.monitor, plain):
                    monitor.register(late_comer)
            rows += len(table)
        unsure += compare(sieve.monitor.finish(), plain.finish(), f"seed {seed}")
        wide, failed, shipped = wide + sieve.wide, failed + sieve.failed, shipped + sieve.shipped
    assert wide > 1_000
    assert failed > 1_000
    assert shipped < 0.8 * rows
    assert unsure < answers / 10


@pytest.mark.parametrize("algorithm", [a.name for a in ALGORITHMS.values() if issubclass(a, InOrder) and a.by_panes])
def test_a_threshold_changes_no_answer_of_the_published_algorithms(algorithm: str) -> None:
    """Whatever their queries, also after a restart; a query that comes later is exact, or says that it is not."""
    shipped = rows = unsure = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        queries, delay = (
            [query(rng, f"q{i}", {}) for i in range(int(rng.integers(1, 4)))],
            int(rng.choice([300, 5_000])),
        )
        sieve = Sieve(queries, float(rng.choice([0.3, 1.0])), algorithm, delay)
        plain = sb.Monitor(queries, time="t", id="id", algorithm=algorithm)
        for number, table in enumerate(batches(rng)):
            wobble = int(rng.choice([-400, 0, 400, 5_000]))
            sieve.read(table, int(table["t"].to_numpy().max()) + wobble, float(rng.choice([0.0, 0.0, 0.5])))
            plain.push(table)
            mark, what = plain.newest - delay, f"{algorithm}, seed {seed}, batch {number}"
            unsure += compare(sieve.monitor.advance(mark), plain.advance(mark), what)
            if rng.integers(2):
                late_comer = query(rng, f"new{number}", {}, 2, int(rng.choice([10, 120])))
                for monitor in (sieve.monitor, plain):
                    monitor.register(late_comer)
            if rng.integers(3) == 0:
                sieve.monitor = sb.Monitor.restore(sieve.monitor.snapshot())
            rows += len(table)
        unsure += compare(sieve.monitor.finish(), plain.finish(), f"{algorithm}, seed {seed}")
        shipped += sieve.shipped
    assert shipped < 0.8 * rows
    assert unsure > 0, "no later query missed what was filtered"


@pytest.mark.parametrize("algorithm", ["mtoplist", "phtree"])
def test_the_past_brings_back_what_was_filtered(algorithm: str) -> None:
    rng = np.random.default_rng(3)
    first = sb.Query("first", k=2, score="x", window=sb.Window(8_000, slide=2_000))
    deep = sb.Query("deep", k=9, score="x", window=sb.Window(8_000, slide=2_000))
    sieve, truth = Sieve([first], 1.0, algorithm, 4_000), sb.Monitor([first, deep], time="t", id="id")
    tables = [
        pa.table({"t": np.arange(n, n + 20_000, 5), "id": np.arange(4_000), "x": rng.normal(size=4_000)})
        for n in range(0, 80_000, 20_000)
    ]
    found: list[sb.Answer] = []
    right: list[sb.Answer] = []
    for number, table in enumerate(tables):
        if number == 2:
            (missing,) = sieve.monitor.register(deep, history=True)
            assert missing is not None
            sieve.monitor.fill("deep", pa.concat_tables(tables[:2]))
        sieve.read(table, int(table["t"][-1].as_py()), 0.0)
        truth.push(table)
        found += sieve.monitor.advance(sieve.monitor.newest - 4_000)
        right += truth.advance(truth.newest - 4_000)
    assert sieve.shipped < 16_000 / 2
    rows = {(a.query, a.end): a.rows for a in right}
    deep_ones = [a for a in found if a.query == "deep"]
    assert len(deep_ones) > 10
    assert all(a.exact and a.rows == rows[a.query, a.end] for a in found)


def test_a_group_remembers_where_events_stayed_away() -> None:
    monitor = sb.Monitor([sb.Query("q", k=3, score="x", window=sb.Window(12_000, slide=100))], time="t", id="id")
    n = 4_000
    table = pa.table({"t": np.arange(n) * 50, "id": np.arange(n), "x": np.random.default_rng(4).normal(size=n)})
    monitor.declare(table.schema)
    (group,) = rankings(monitor)
    scores = ScoreDistribution(np.sort(table["x"].to_numpy()), 0.0, 0, 1 / 50)
    thresholds = Thresholds.of(group, 0, 50 * n, 50 * n, scores, 1.0)
    assert thresholds is not None
    settled = 150_000
    thresholds.note(group, 50 * n, settled)
    panes = group.algorithm.panes  # type: ignore[attr-defined]
    behind, bars = np.append(thresholds.cuts[2:], 2**62), thresholds._limits()[0]
    for place in np.flatnonzero(thresholds.merged).tolist():
        low, high = panes.number(thresholds.cuts[place : place + 2]) - panes.base
        expected = {3 if behind[place] <= settled else 0} if bars[place] > -np.inf else set()  # not even covered
        assert set(panes.depth[max(low, 0) : max(high, 0)].tolist()) == expected
    assert {0, 3} < set(panes.depth.tolist())


@pytest.mark.parametrize("most", [10, 60, 95, 100_000])
def test_wide_stretches_are_no_longer_than_allowed_nor_than_what_lies_before_them(most: int) -> None:
    cuts = np.unique(np.concatenate([np.arange(0, 2000, 7), np.arange(0, 2000, 10)]))
    wider, wide = _merge(cuts, 100, 1500, most)
    assert set(wider.tolist()) <= set(cuts.tolist())
    assert set(cuts[(cuts < 100) | (cuts > 1500)].tolist()) <= set(wider.tolist())
    length = np.diff(wider)
    assert length.max() <= max(most, 7)
    for place in np.flatnonzero(wide).tolist():
        assert length[place] <= wider[place] - wider[wider >= 100][0]
        assert wider[place + 2] <= 1500


def plan_of(*queries: sb.Query, table: pa.Table | None = None) -> RankingGroup:
    monitor = sb.Monitor(queries, time="t", id="id")
    monitor.declare((batches(np.random.default_rng(1))[0] if table is None else table).schema)
    (group,) = rankings(monitor)
    return group


def test_a_plan_is_as_deep_as_its_deepest_query_and_as_short_as_its_shortest_window() -> None:
    plan = plan_of(
        sb.Query("deep", k=5, score="x", window=sb.Window(100)), sb.Query("short", k=2, score="x", window=sb.Window(30))
    )
    assert (plan.k, plan.shortest) == (5, 30)


@pytest.mark.parametrize(
    ("window", "more"),
    [(sb.Window("9 events"), {"partition_by": "g"}), (sb.Window(100), {"distinct": "latest", "partition_by": "g"})],
    ids=["events", "latest"],
)
def test_where_no_event_can_be_left_out_there_are_no_thresholds(window: sb.Window, more: dict[str, Any]) -> None:
    plan = plan_of(sb.Query("q", k=1, score="x", window=window, **more))
    assert Thresholds.of(plan, 0, 10_000, 9_000, None, 1.0) is None
    assert not GroupScores.can_learn(plan)


def test_moments_as_partitions_have_no_thresholds() -> None:
    """They have other forms in other zones."""
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    table = pa.table({"t": [1], "id": [1], "x": [1.0], "at": pa.array([moment], pa.timestamp("us", "UTC"))})
    plan = plan_of(sb.Query("q", k=1, score="x", window=sb.Window(100), partition_by="at"), table=table)
    assert plan.partition_type == "time"
    assert not GroupScores.can_learn(plan)


def test_the_first_open_pane_has_a_threshold() -> None:
    monitor = sb.Monitor([sb.Query("q", k=1, score="x", window=sb.Window(100))], time="t", id="id")
    monitor.push([{"t": t, "id": t, "x": 1.0} for t in (50, 150, 250)])
    monitor.advance(200)
    thresholded = rankings(monitor)[0].thresholded
    assert thresholded is not None
    assert thresholded.pane_edges(240, 390).tolist() == [200, 300, 400]


def test_only_events_have_merits() -> None:
    columns = {"t": [1, 2, 3, 4], "id": [1, 2, 3, 4], "x": [1.0, None, float("nan"), 4.0], "g": [0, 1, 1, 1]}
    table = pa.table(columns)
    (batch,) = table.to_batches()
    window = sb.Window(100)
    for query, events, parts in (
        (sb.Query("all", k=1, score="x", window=window, order="asc"), [True, False, False, True], None),
        (sb.Query("some", k=1, score="-x", window=window, where="g > 0"), [False, False, False, True], None),
        (sb.Query("parts", k=1, score="-x", window=window, partition_by="g"), [True, False, False, True], [0, 1, 1, 1]),
    ):
        merit, taken, part = plan_of(query, table=table).merits(batch)
        assert taken.tolist() == events
        assert set(merit[taken].tolist()) <= {-1.0, -4.0}
        assert (None if part is None else part.to_pylist()) == parts
