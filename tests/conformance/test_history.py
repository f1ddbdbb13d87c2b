"""A query that is filled from the past is exact at once, and nobody else notices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.algorithms.stkqf.skyline import Case
from skyband.windows import NEVER
from tests.conformance.registry import algorithms
from tests.groups import rankings

DELAY = 40


def events(seed: int, n: int = 900) -> pa.Table:
    rng = np.random.default_rng(seed)
    time = np.arange(n) * 3 + rng.integers(-15, 15, n)
    kinds = {"t": time, "id": rng.integers(0, 40, n), "x": rng.integers(0, 50, n).astype(float)}
    return pa.table(kinds | {"g": rng.choice(["a", "b"], n)})


def shown(answers: list[sb.Answer], name: str, exact: bool = True) -> dict[Any, list[Any]]:
    return {
        a.end: [(r.partition, r.rank, r.id, r.score, r.time) for r in a.rows]
        for a in answers
        if a.query == name and (a.exact or not exact)
    }


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("algorithm", algorithms())
def test_filled_from_the_past(seed: int, algorithm: str) -> None:
    rng = np.random.default_rng(seed)
    table = events(seed)
    size = int(rng.integers(50, 900))
    window = sb.Window(size, slide=int(rng.integers(10, size)), closed=str(rng.choice(["left", "right"])))  # type: ignore[arg-type]
    distinct = rng.choice(np.array(sb.ALGORITHMS[algorithm].distincts, object))
    old = sb.Query("old", k=2, score="x", window=sb.Window(100, slide=30))
    new = sb.Query(
        "new", k=int(rng.integers(1, 9)), score=["x", "-x"][rng.integers(2)], window=window, distinct=distinct,
        partition_by=[None, "g"][rng.integers(2)],
    )  # fmt: skip
    check(old, new, algorithm, table, int(rng.integers(2, 6)))


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("algorithm", [name for name in algorithms() if "all_time" in sb.ALGORITHMS[name].kinds])
def test_windows_that_grow_are_filled_from_the_past(seed: int, algorithm: str) -> None:
    rng = np.random.default_rng(seed)
    step = int(rng.integers(10, 60))
    windows = [
        sb.Window.all_time(every=step), sb.Window.cumulative(step * int(rng.integers(1, 20)), step=step),
        sb.Window(7 * step, slide=step),
    ]  # fmt: skip
    first, second = rng.choice(3, 2, replace=True)
    distinct = [None, "best"][rng.integers(2)]
    alike: dict[str, Any] = {"score": "x", "distinct": distinct, "partition_by": [None, "g"][rng.integers(2)]}
    old = sb.Query("old", k=2, window=windows[first], **alike)
    new = sb.Query("new", k=int(rng.integers(1, 9)), window=windows[second], **alike)
    check(old, new, algorithm, events(seed), int(rng.integers(2, 6)))


def check(old: sb.Query, new: sb.Query, algorithm: str, table: pa.Table, joined: int) -> None:
    """Let a query come later and be filled from the past; compare with a stream that had it from the start."""
    truth = sb.Monitor([old, new], algorithm=algorithm, time="t", id="id")
    ours = sb.Monitor([old], algorithm=algorithm, time="t", id="id")
    said: dict[str, list[sb.Answer]] = {"truth": [], "ours": []}
    waits = False
    missed = None
    for number, start in enumerate(range(0, 900, 100)):
        batch = table.slice(start, 100)
        if number == joined:
            foreseen = ours.backfill_for(new)
            (missed,) = ours.register(new, history=True)
            assert missed == foreseen
            waits = missed is not None
        for name, monitor in (("truth", truth), ("ours", ours)):
            said[name] += monitor.push(batch)
            if (
                name == "ours"
                and missed
                and waits
                and monitor.watermark is not None
                and monitor.watermark >= missed.high
            ):
                monitor.fill("new", table.slice(0, start + 100))  # more than is missed: it takes what it needs
                waits = False
                monitor = ours = sb.Monitor.restore(monitor.snapshot())
            said[name] += monitor.advance(monitor.newest - DELAY)
    assert not waits
    for name, monitor in (("truth", truth), ("ours", ours)):
        said[name] += monitor.finish()
        for group in rankings(monitor):
            group.algorithm.check()
    assert shown(said["ours"], "old", exact=False) == shown(said["truth"], "old", exact=False)
    right, found = shown(said["truth"], "new"), shown(said["ours"], "new")
    assert found
    for end, rows in found.items():
        assert rows == right[end]
    if missed is not None:
        assert all(end in found for end in right if end > min(found)), "exact from then on"


def test_what_is_kept_already_needs_no_past() -> None:
    monitor = sb.Monitor([sb.Query("q", k=5, score="x", window=sb.Window(100, slide=10))], time="t", id="id")
    shallow = sb.Query("less", k=2, score="x", window=sb.Window(50, slide=10))
    assert monitor.backfill_for(shallow) is None, "before the first event there is no past"
    monitor.push(events(1).slice(0, 200))
    monitor.advance(monitor.newest - DELAY)
    assert monitor.backfill_for(shallow) is None
    assert monitor.watermark is not None
    deep = sb.Query("more", k=9, score="x", window=sb.Window(50, slide=10))
    missed = monitor.backfill_for(deep)
    assert missed is not None
    assert missed.case is Case.DEEPEST
    assert monitor.watermark - 50 <= missed.low < missed.high == monitor.newest + 1
    long = monitor.backfill_for(sb.Query("further", k=5, score="x", window=sb.Window(300, slide=10)))
    assert long is not None
    assert long.case is Case.FURTHEST
    assert monitor.watermark - 300 <= long.low < long.high <= monitor.watermark - 90, "only what lies before the others"
    assert monitor.backfill_for(sb.Query("n", k=9, score="x", window=sb.Window("5 events"))) is None
    assert monitor.newest > NEVER


def test_explain_names_the_case_and_what_becomes_of_it() -> None:
    monitor = sb.Monitor([sb.Query("q", k=5, score="x", window=sb.Window(100, slide=10))], time="t", id="id")
    monitor.push(events(1).slice(0, 200))
    monitor.advance(monitor.newest - DELAY)
    further = sb.Query("further", k=5, score="x", window=sb.Window(300, slide=10))
    deeper = sb.Query("deeper", k=9, score="x", window=sb.Window(50, slide=10))
    within = sb.Query("within", k=2, score="x", window=sb.Window(50, slide=10))
    assert [missed and missed.case for missed in monitor.register(further, history=True)] == ["IV"]
    assert [missed and missed.case for missed in monitor.register(deeper, within)] == ["III", None]
    said = {line.split(":")[0].strip(): line for line in monitor.explain().splitlines()}
    assert "case IV: no other query reaches back as far" in said["further"]
    assert said["further"].endswith("they will be read")
    assert said["deeper"].endswith("it warms up")
    assert "came later" not in said["within"] + said["q"]
    monitor.fill("further", events(1).slice(0, 200))
    assert "they were read" in monitor.explain()
    monitor.register(sb.Query("as far", k=4, score="x", window=sb.Window(290, slide=10)))
    (group,) = rankings(monitor)
    assert group.schedules[-1].is_exact(group.schedules[-1].next_start), "what was filled serves others too"
