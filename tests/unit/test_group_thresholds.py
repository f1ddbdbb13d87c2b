"""Thresholds by group without Spark: guessed from what came back, right or wrong, they change no answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.algorithms.panes import UNTOUCHED
from skyband.events.batch import EventBatch
from skyband.order import BoolArray
from skyband.spark.reducers import groups
from skyband.spark.reducers.groups import Cells, GroupRows, GroupScores, GroupThresholds, Levels, _reached
from skyband.spark.reducers.guesses import wanted
from skyband.windows import NEVER, watermark_of
from tests.groups import rankings
from tests.unit.test_thresholds import compare

DELAY = 50


@dataclass
class Filtered:
    """A monitor that gets what reaches the thresholds, as Spark's filter would let it through."""

    monitor: sb.Monitor
    scores: GroupScores | None = None
    wobble: int = 0  # how far off the end of a batch is thought
    came: int = 0
    again: int = 0

    def push(self, table: pa.Table) -> None:
        batch = table.combine_chunks().to_batches()[0]
        self.monitor.declare(batch.schema)
        (plan,) = self.monitor.ranking_plans()
        rows = EventBatch(batch, self.monitor.source)
        before, newest = self.monitor.newest, rows.newest
        closed_to = watermark_of(newest, DELAY)
        assert closed_to is not None
        if self.scores is None or self.scores.plan is not plan:  # as a batch that nothing is known of
            self.scores = GroupScores(plan)
            some = np.random.default_rng(0).random(len(batch)) < 1 / 4
            sample = EventBatch(batch.filter(pa.array(some)), self.monitor.source)
            self.scores.sampled(sample, 4, int(np.ptp(rows.time)))
        low = int(rows.time.min()) if before == NEVER else before
        found = self.scores.thresholds(low, newest + self.wobble, closed_to + self.wobble, 1.0)
        merit, _, part = plan.merits(batch)
        assert part is not None
        reached = np.ones(len(batch), bool)
        if found is not None and not found.empty:
            reached = reaches(found, rows, merit, part, plan.answered_to)
        reached |= rows.time >= newest + min(self.wobble, 0) - 2  # what lies behind the forecast comes whole
        self.take(batch, reached)
        if found is not None:
            missed = found.missed(plan, self.monitor.newest)
            if missed.any():
                self.again += 1
                lower = found.lowered(plan, missed, None, self.monitor.newest)
                self.take(batch, ~reached & reaches(lower, rows, merit, part, NEVER))
                assert not lower.missed(plan, self.monitor.newest).any()
            found.note(plan, self.monitor.newest, closed_to)
        self.scores.learn(low if before == NEVER else before, self.monitor.newest, closed_to)

    def take(self, batch: pa.RecordBatch, reached: BoolArray) -> None:
        assert self.scores is not None
        chosen = batch.filter(pa.array(reached))
        self.came += len(chosen)
        self.monitor.merge(pa.Table.from_batches([chosen]))
        self.scores.take(EventBatch(chosen, self.monitor.source))


def reaches(found: GroupThresholds, rows: EventBatch, merit: Any, part: pa.Array, low: int) -> BoolArray:
    """Tell which rows reach their thresholds; those before `low` have none."""
    known = found.partitions
    place = {repr(value): number for number, value in enumerate(known.to_pylist())}
    row = np.array([place.get(repr(value), -1) for value in part.to_pylist()])
    interval = np.searchsorted(found.cuts, rows.time, side="right") - 1
    inside = (row >= 0) & (interval >= 0) & (interval < len(found.cuts) - 1) & (rows.time >= low)
    bar = np.full(len(row), -np.inf)
    bar[inside] = found.values[row[inside], interval[inside]]
    bad = np.isnan(merit) if rows.valid is None else np.isnan(merit) | ~rows.valid
    reached: BoolArray = bad | ~(merit < bar)
    return reached


GROUPS: dict[str, Any] = {
    "integers": lambda codes: pa.array(codes),
    "texts": lambda codes: pa.array([None if c == 3 else f"é{c}" for c in codes.tolist()]),
    "floats": lambda codes: pa.array(np.array([np.nan, 0.0, -1.0, np.inf, *np.arange(1, 97) / 2])[codes]),
}


def batches(rng: np.random.Generator, kind: str, of: str, many: int) -> list[pa.Table]:
    """Batches of events of groups that appear and vanish, some of them large; scores drift, tie, or fall suddenly."""
    tables, start = [], 0
    for number in range(6):
        n = int(rng.choice([600, 2_000, 3_000]))
        end = start + n
        time = np.sort(rng.integers(start, end, n)) - rng.integers(0, DELAY, n) - 3_000 * (rng.random(n) < 0.01)
        code = np.minimum(rng.zipf(1.3, n) - 1, many - 1) if rng.integers(2) else rng.integers(0, many, n)
        code = np.where((code % 5 == number % 5) & (rng.random(n) < 0.9), 1, code)  # some pause
        merit = {
            "random": rng.normal(size=n),
            "rising": time * 0.01 + rng.normal(size=n),
            "falling": time * -0.01 + rng.normal(size=n),
            "ties": rng.integers(0, 6, n).astype(float),
            "steps": rng.normal(size=n) - 50.0 * (number % 3),
            "infinite": rng.choice([np.inf, -np.inf, 0.0], n),
        }[kind]
        merit[rng.random(n) < 0.01] = np.nan
        ids = rng.integers(0, max(n // 20, 3), n)
        tables.append(
            pa.table({
                "t": pa.array(time, mask=rng.random(n) < 0.002), "id": pa.array(ids), "x": pa.array(merit),
                "g": GROUPS[of](code),
            })
        )  # fmt: skip
        start = end if rng.integers(4) else end + 4_000
    return tables


@pytest.mark.parametrize("seed", range(45))
def test_thresholds_never_change_an_answer(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    if seed % 2:
        monkeypatch.setattr(groups, "wanted", lambda k: k + 2.0)  # guesses fail often
    kind = str(rng.choice(["random", "random", "rising", "falling", "ties", "steps", "infinite"]))
    alike: dict[str, Any] = {
        "score": "x", "order": ["desc", "asc"][rng.integers(2)], "partition_by": "g",
        "distinct": [None, None, "best"][rng.integers(3)], "ties": [None, None, "with"][rng.integers(3)],
    }  # fmt: skip
    if alike["distinct"] is None and rng.integers(6) == 0:
        alike["ties"] = "dense"
    queries = []
    for number in range(int(rng.integers(1, 4))):
        size = int(rng.choice([400, 1_000, 3_000, 9_000]))
        window = sb.Window(size, slide=max(size // int(rng.choice([1, 4, 20, 90])), 40))
        queries.append(sb.Query(f"q{number}", k=int(rng.choice([1, 3, 10])), window=window, **alike))
    plain, read = (sb.Monitor(queries, time="t", id="id") for _ in range(2))
    filtered = Filtered(read, wobble=int(rng.choice([-200, 0, 0, 200])))
    monkeypatch.setattr(groups, "FINEST", int(rng.choice([1, 2, 8])))
    for number, table in enumerate(batches(rng, kind, list(GROUPS)[seed % 3], int(rng.choice([2, 9, 100])))):
        if number == 3 and seed % 7 == 0:
            filtered.scores = None  # as after a restart
        plain.push(table)
        filtered.push(table)
        assert read.newest == plain.newest
        compare(read.advance(plain.newest - DELAY), plain.advance(plain.newest - DELAY), f"seed {seed}, batch {number}")
        for group in rankings(read):
            group.algorithm.check()
        if number > 1 and seed % 3 == 0:
            size = int(rng.choice([300, 1_000, 4_000]))
            window = sb.Window(size, slide=size // int(rng.choice([1, 5])))
            later = sb.Query(f"new{number}", k=int(rng.choice([1, 3])), window=window, **alike)
            plain.register(later)
            read.register(later)
    compare(read.finish(), plain.finish(), f"seed {seed}")


def test_stretches_are_sought_in_what_came_back() -> None:
    """Of what reached a threshold, only that counts below it which lay in other intervals."""
    rng = np.random.default_rng(5)
    n, span = 40_000, 100_000
    merit, time = rng.random(n), np.sort(rng.integers(0, span, n))
    cuts = np.array([0, span // 2, span])
    rows = GroupRows(np.zeros(n, np.int64), time, merit)
    first = np.array([0], np.int64)
    cells = Cells.of(cuts, np.diff(cuts).astype(float), first, np.array([[0.999, 0.95]]), 1)
    levels = Levels.of(cells.reaching(rows), 3, cells)
    lengths = np.array([span / 2, span / 20])
    ((far, near),), rates = levels.bars(lengths)
    aim = wanted(3)
    for bar, length in ((far, span / 2), (near, span / 20)):
        come = np.count_nonzero(merit >= bar) * length / span
        assert aim / 2 < come < aim * 1.5
    assert near < 0.999, "what lies below the threshold of the first interval is known from the second"
    assert np.allclose(
        rates * lengths, [np.count_nonzero(merit >= bar) for bar in (far, near)] * (lengths / span), rtol=0.3
    )


def test_hardly_any_guess_is_too_high_and_few_rows_come() -> None:
    rng = np.random.default_rng(6)
    query = sb.Query("q", k=10, score="x", window=sb.Window(60_000, slide=1_000), partition_by="g")
    read = Filtered(sb.Monitor([query], time="t", id="id"))
    n, came = 20_000, []
    for batch in range(6):
        time = 20_000 * batch + np.arange(n)
        table = pa.table({"t": time, "id": time, "x": rng.normal(size=n), "g": rng.integers(0, 10, n)})
        before = read.came
        read.push(table)
        read.monitor.advance(read.monitor.newest - DELAY)
        came.append((read.came - before) / n)
    assert read.again == 0
    assert max(came[2:]) < 0.2


def test_groups_of_which_nothing_is_known_any_more_are_forgotten() -> None:
    query = sb.Query("q", k=1, score="x", window=sb.Window(400, slide=100), partition_by="g")
    read = Filtered(sb.Monitor([query], time="t", id="id"))
    for batch in range(8):
        time = 1_000 * batch + np.arange(1_000)
        group = pa.array([f"{batch} {number % 700}" for number in range(1_000)])
        read.push(pa.table({"t": time, "id": time, "x": np.ones(1_000), "g": group}))
    assert read.scores is not None
    assert read.scores.groups < 4_000


def test_zeros_are_one_group_and_so_are_nan_and_null() -> None:
    query = sb.Query("q", k=1, score="x", window=sb.Window(400), partition_by="g")
    monitor = sb.Monitor([query], time="t", id="id")
    monitor.declare(pa.schema([("t", pa.int64()), ("id", pa.int64()), ("x", pa.float64()), ("g", pa.float64())]))
    scores = GroupScores(monitor.ranking_plans()[0])
    for values, codes in (([0.0, -0.0, np.nan, None], [0, 0, 1, 2]), ([None, 7.0, np.nan, -0.0], [2, 3, 1, 0])):
        assert scores._codes(pa.array(values, pa.float64(), from_pandas=False)).tolist() == codes


def test_of_intervals_that_windows_cut_their_own_events_prove_nothing() -> None:
    cuts, place = np.array([0, 10, 20, 30]), np.array([0])
    rows = GroupRows(np.zeros(4, np.int64), np.array([-5, 5, 15, 25]), np.array([3.0, 2.0, 1.0, 3.0]))
    bars = np.array([[2.0, 1.0, 0.0]])
    for whole, behind, before in ((True, [2, 2, 1], [2, 3, 4]), (False, [1, 1, 0], [1, 2, 3])):
        given = np.array([whole] * 3)
        assert _reached(rows, place, cuts, bars, given, behind=True)[0].tolist() == behind
        assert _reached(rows, place, cuts, bars, given, behind=False)[0].tolist() == before


def test_a_ranking_remembers_where_events_of_groups_stayed_away() -> None:
    query = sb.Query("q", k=3, score="x", window=sb.Window(12_000, slide=100), partition_by="g")
    monitor = sb.Monitor([query], time="t", id="id")
    n = 4_000
    rng = np.random.default_rng(4)
    table = pa.table({"t": np.arange(n), "id": np.arange(n), "x": rng.normal(size=n), "g": rng.integers(0, 2, n)})
    monitor.declare(table.schema)
    (plan,) = monitor.ranking_plans()
    scores = GroupScores(plan)
    scores.sampled(EventBatch(table.combine_chunks().to_batches()[0], monitor.source), 1, n)
    found = scores.thresholds(0, n, 2_000, 1.0)
    assert found is not None
    found.note(plan, n, 1_900)  # less is answered than was thought
    panes = rankings(monitor)[0].algorithm.panes  # type: ignore[attr-defined]
    assert set(panes.depth.tolist()) == {0, UNTOUCHED}
    other = sb.Monitor([query], time="t", id="id")
    other.declare(table.schema)
    found.note(other.ranking_plans()[0], n, 2_000)
    panes = rankings(other)[0].algorithm.panes  # type: ignore[attr-defined]
    assert set(panes.depth.tolist()) == {3, UNTOUCHED}


def test_calendars_and_windows_that_grow_have_blocks_of_one_pane() -> None:
    rng, hour = np.random.default_rng(11), 3_600_000_000
    for window in (sb.Window.calendar("day", zone="Europe/Rome"), sb.Window.cumulative("1 day", step="1 hour")):
        query = sb.Query("q", k=2, score="x", window=window, partition_by="g")
        plain, read = (sb.Monitor([query], time="t", id="id") for _ in range(2))
        filtered = Filtered(read)
        for batch in range(5):
            n = 2_000
            time = np.sort(rng.integers(20 * hour * batch, 20 * hour * (batch + 1), n))
            table = pa.table({"t": time, "id": np.arange(n), "x": rng.normal(size=n), "g": rng.integers(0, 3, n)})
            filtered.push(table)
            plain.push(table)
            compare(read.advance(plain.newest - DELAY), plain.advance(plain.newest - DELAY), f"{window}, batch {batch}")
        compare(read.finish(), plain.finish(), f"{window}")
        assert filtered.came < 5 * 2_000


def test_of_a_batch_without_times_nothing_is_learned() -> None:
    query = sb.Query("q", k=1, score="x", window=sb.Window(400, slide=100), partition_by="g")
    monitor = sb.Monitor([query], time="t", id="id")
    table = pa.table({"t": np.arange(900), "id": np.arange(900), "x": np.ones(900), "g": np.arange(900) % 2})
    monitor.push(table)
    scores = GroupScores(monitor.ranking_plans()[0])
    (batch,) = table.to_batches()
    scores.take(EventBatch(batch, monitor.source))
    scores.learn(0, 899, 800)
    levels = scores.levels
    assert scores.thresholds(899, 1_800, 1_700, 1.0) is not None
    nothing = pa.record_batch({**{name: batch[name] for name in ("id", "x", "g")}, "t": pa.nulls(900, pa.int64())})
    scores.take(EventBatch(nothing.select(["t", "id", "x", "g"]), monitor.source))
    scores.learn(899, NEVER, NEVER)
    assert scores.levels is levels


@pytest.mark.parametrize("window", [sb.Window(100), sb.Window.cumulative(100, step=50), sb.Window.all_time(every=5)])
def test_groups_of_a_stream_without_a_watermark(window: sb.Window) -> None:
    """Nothing is ever closed: panes are not laid out from the beginning of time."""
    query = sb.Query("q", k=1, score="x", window=window, partition_by="g")
    monitor = sb.Monitor([query], time="t", id="id")
    rows = {"t": list(range(90)), "id": list(range(90)), "g": [1] * 90, "x": [1.0] * 90}
    monitor.push(rows)
    scores = GroupScores(monitor.ranking_plans()[0])
    scores.take(EventBatch(pa.RecordBatch.from_pydict(rows), monitor.source))
    scores.learn(NEVER, 89, NEVER)
    assert scores.groups == 1
    assert len(scores.past) == 0
