"""Rows that are late for every query, or rejected: counted and shown, and otherwise as if they had never come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.algorithms.staircase import prefilter
from tests.conformance.registry import algorithms

Row = dict[str, Any]
SCHEMA = pa.schema([("t", pa.int64()), ("id", pa.int64()), ("x", pa.float64()), ("g", pa.int64())])
WINDOWS = {"a": (10, 5), "b": (20, 20), "c": (40, 10)}  # by query: size and slide


def made(name: str, partitioned: bool, k: int) -> sb.Query:
    size, slide = WINDOWS[name]
    by = "g" if partitioned else None
    return sb.Query(name, k=k, score="x", window=sb.Window(size, slide=slide), partition_by=by)


def is_late(row: Row, queries: list[str], watermark: int) -> bool:
    ends = (row["t"] // slide * slide + size for size, slide in (WINDOWS[name] for name in queries))
    return all(end <= watermark for end in ends)


def drawn(rng: np.random.Generator, watermark: int) -> list[Row]:
    """Draw the rows of a batch; of some batches all are late or rejected."""
    high, count = (20 if rng.integers(2) else -30), int(rng.choice([1, 4, 30]))
    score = np.array([1, 2, 3, 4, 5, np.nan])
    return [
        {"t": t, "id": int(rng.integers(9)), "x": float(rng.choice(score)), "g": t % 2}
        for t in (watermark + rng.integers(-70, high, count)).tolist()
    ]


@pytest.mark.parametrize("algorithm", algorithms())
def test_they_change_nothing_but_counts(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefilter, "PARTITIONED_ROWS", 7)  # so that a batch has several parts
    ignored = 0
    for seed in range(20 if algorithm == "staircase" else 4):
        monkeypatch.setattr(prefilter, "FEW_ROWS", (0, 1 << 10)[seed // 2 % 2])
        rng = np.random.default_rng(seed)
        partitioned, k, names = bool(rng.integers(2)), int(rng.integers(1, 4)), ["a"]
        told: dict[str, list[pa.RecordBatch]] = {"late": [], "rejected": []}
        full, clean = (sb.Monitor([made("a", partitioned, k)], algorithm=algorithm, time="t", id="id") for _ in "ab")
        full.intake.on_late, full.intake.on_rejected = told["late"].append, told["rejected"].append
        expected: dict[str, list[Row]] = {"late": [], "rejected": []}
        before = -(2**61)
        for turn, watermark in enumerate((-60, 30, 70, 80, 160, 200)):
            if turn in (2, 4):
                names.append("b" if turn == 2 else "c")
                for monitor in (full, clean):
                    monitor.register(made(names[-1], partitioned, k))
            rows = drawn(rng, watermark)
            kinds = ["rejected" if np.isnan(r["x"]) else "late" if is_late(r, names, before) else "good" for r in rows]
            for kind, found in expected.items():
                found += [row for row, its in zip(rows, kinds, strict=True) if its == kind]
            good = [row for row, its in zip(rows, kinds, strict=True) if its == "good"]
            shown = []
            for monitor, given in ((full, rows), (clean, good)):
                answers = [*monitor.push(pa.Table.from_pylist(given, SCHEMA)), *monitor.advance(watermark)]
                shown.append(answers + (list(monitor.finish()) if turn == 5 else []))
            check(shown[0], shown[1], f"{algorithm}, seed {seed}, turn {turn}")
            before = watermark
        stats = full.stats()
        assert {"late": stats.late, "rejected": stats.rejected} == {name: len(rows) for name, rows in expected.items()}
        for kind, batches in told.items():
            table = pa.Table.from_batches(batches, SCHEMA)
            assert repr(table.to_pylist()) == repr(expected[kind]), f"{algorithm}, seed {seed}, {kind}"
        ignored += stats.late
    assert ignored > 10


def check(full: list[sb.Answer], clean: list[sb.Answer], what: str) -> None:
    assert [(a.query, a.start, a.end, a.rows) for a in full] == [(a.query, a.start, a.end, a.rows) for a in clean], what
    for one, other in zip(full, clean, strict=True):
        if one.query == "a":
            assert one.exact, what
        else:  # a query that comes later may miss what was late for the others
            assert not one.exact or other.exact, what


@pytest.mark.parametrize("algorithm", algorithms())
def test_they_begin_and_end_nothing(algorithm: str) -> None:
    monitor = sb.Monitor([made("a", False, 1)], algorithm=algorithm, time="t", id="id")
    monitor.advance(50)
    times = [20, 500, 44, 45, 20, 44]  # one of them is an event
    monitor.push([{"t": t, "id": t, "x": np.nan if t == 500 else 1.0} for t in times])
    assert [(a.start, a.end, [row.id for row in a.rows]) for a in monitor.finish()] == [(45, 55, [45])]


@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("algorithm", algorithms())
def test_they_begin_nothing_for_a_query_that_comes_later(algorithm: str, count: int) -> None:
    monitor = sb.Monitor([made("a", False, 1)], algorithm=algorithm, time="t", id="id")
    monitor.advance(50)
    monitor.push([{"t": 20, "id": i, "x": 1.0} for i in range(count)])
    assert monitor.stats().late == count
    monitor.register(sb.Query("long", k=1, score="x", window=sb.Window(100)))
    monitor.push([{"t": 250, "id": 9, "x": 1.0}])
    assert [a.end for a in monitor.finish() if a.query == "long"] == [300]
