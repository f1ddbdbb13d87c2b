"""Changes as columns are those that are found row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.answers import change_kernels as kernel
from skyband.engine import groups

SECOND = 1_000_000


def history(seed: int) -> tuple[list[sb.Query], pa.Table, list[int]]:
    """Return queries that emit changes, events, and where these are cut into batches."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 200))
    time, unit = np.sort(rng.integers(0, 100, n)), 1
    score = rng.integers(-4, 4, n) * rng.choice([1.0, 0.0, 0.5])
    group = rng.integers(0, 5, n).tolist()
    groups_ = [group, [None if g == 0 else g for g in group], [f"g{g}" if g else None for g in group],
               [g > 2 for g in group], [float(g) for g in group]][seed % 5]  # fmt: skip
    ids = rng.integers(0, 9, n)
    columns: dict[str, Any] = {"id": ids if seed % 2 else [f"i{i}" for i in ids], "x": score, "g": groups_}
    columns["v"] = rng.integers(0, 2, n)
    columns["t"] = time
    if seed % 3 == 0:
        unit, columns["t"] = SECOND, pa.array(time * SECOND).cast(pa.timestamp("us", "UTC"))
    emits: Any = rng.choice(["changes", "entered", "left"], 2)
    queries = [
        sb.Query(
            f"q{i}", k=int(rng.integers(1, 5)), score="x", partition_by="g" if seed % 4 else None,
            distinct=(None, None, "best")[seed % 3], emit=emits[i if seed % 7 == 0 else 0],
            window=sb.Window(12 * unit, slide=(4, 3)[i] * unit), select=("v",) if seed % 11 == 0 else (),
        )
        for i in range(2)
    ]  # fmt: skip
    return queries, pa.table(columns), np.unique(rng.integers(0, n + 1, 4)).tolist()


def changes(seed: int) -> tuple[list[Any], list[pa.Table]]:
    queries, table, cuts = history(seed)
    monitor = sb.Monitor(queries, time="t", id="id")
    found: list[Any] = []
    tables = []
    for low, high in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        monitor.push(table.slice(low, high - low))
        for answers in (monitor.advance(max(monitor.newest - 2, -9)) if high < table.num_rows else monitor.finish(),):
            found += [(a.query, a.start, a.end, [(c.kind, c.row, c.previous_rank) for c in a.changes]) for a in answers]
            tables.append(answers.table(quality=True))
        monitor = sb.Monitor.restore(monitor.snapshot()) if high % 2 else monitor
    return found, tables


@pytest.mark.parametrize("seed", range(60))
def test_as_columns_and_row_by_row(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found, tables = changes(seed)
    monkeypatch.setattr(groups.AnswerBuilder, "_as_columns", lambda self, block: None)  # noqa: ARG005
    expected, rows = changes(seed)
    assert found == expected, f"seed {seed}"
    assert tables == rows, f"seed {seed}"


def test_many_partitions_are_compared_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "difference", None)  # the other way is not taken
    found, _ = changes(1)
    assert sum(len(listed) for *_, listed in found) > 20


@pytest.mark.parametrize("compiled", [True, False])
def test_the_kernels_number_what_is_alike_and_find_what_left(compiled: bool) -> None:
    number, compare = (one if compiled else one.py_func for one in (kernel.number_alike, kernel.compare))
    same = np.array([7, 8, 7, 7, 9])
    zero, out = np.zeros(5, np.int64), np.empty(5, np.int32)
    with np.errstate(over="ignore"):
        number(same, zero, zero, zero, out)
    assert out.tolist() == [0, 1, 0, 0, 4]
    rank, score, offsets = np.array([1, 2, 1, 2, 3], np.int32), np.zeros(5), np.empty(2, np.int64)
    kinds, rows, previous = np.empty(5, np.int8), np.empty(5, np.int64), np.empty(5, np.int32)
    pairs = tuple(np.array([edge]) for edge in (0, 2, 2, 5))
    n = compare(out, rank, score, zero, pairs, np.full(5, -1), offsets, kinds, rows, previous)
    shown = [(kernel.KINDS[kind], row, rank) for kind, row, rank in zip(kinds[:n], rows[:n], previous[:n], strict=True)]
    assert shown == [("left", 1, 2), ("entered", 3, 0), ("entered", 4, 0)]
    assert offsets.tolist() == [0, n]


@pytest.mark.parametrize("groups", [[1, None, 1], [None, 1, None]])
def test_a_group_that_is_null_comes_and_goes_among_whole_numbers(groups: list[int | None]) -> None:
    window = sb.Window(10)
    query = sb.Query("sums", k=1, score="sum(x)", group_by="g", emit="changes", window=window)
    monitor = sb.Monitor([query], time="t", id="t")
    for turn, group in enumerate(groups):
        monitor.push([{"t": 10 * turn + 1, "g": group, "x": 1.0}, {"t": 10 * turn + 2, "g": 7, "x": 0.5}])
    found = [[(change.kind, change.row.id) for change in answer.changes] for answer in monitor.advance(20)]
    monitor.push([{"t": 31, "g": 7, "x": 1.0}])
    found += [[(change.kind, change.row.id) for change in answer.changes] for answer in monitor.advance(30)]
    entered, left = ([(kind, group) for group in groups] for kind in ("entered", "left"))
    assert found == [entered[:1], *([left[turn], entered[turn + 1]] for turn in range(2))]
