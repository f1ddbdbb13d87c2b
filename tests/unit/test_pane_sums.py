"""Aggregates as arrays: exact to the last digits that are promised, the same however they are reached."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.engine import aggregates, objects, pane_sums
from skyband.engine.objects import Integers, Objects
from skyband.engine.pane_sums import PaneSums
from skyband.order import best_first
from skyband.windows import NEVER

WINDOWS = [
    sb.Window(120, slide=10),
    sb.Window(50, slide=20, offset=7),
    sb.Window(35, slide=35, closed="right"),
    sb.Window.cumulative(100, step=20),
    sb.Window.all_time(every=30),
]
SELECT = ("sum(n) AS whole", "count(x) AS numbers", "max(x) AS high", "min(n) AS low", "avg(x) AS mean")


def stream(seed: int, rows: int = 400, ids: int = 12, span: int = 300) -> list[dict[str, Any]]:
    """Return rows in nearly the order of their times, with numbers of very different sizes, NaN and NULL."""
    draw = np.random.default_rng(seed)
    time = np.sort(draw.integers(0, span, rows)) - draw.integers(0, 15, rows)
    size = 10.0 ** draw.integers(-8, 9, rows)
    found = []
    for t, x, at in zip(time.tolist(), (draw.normal(size=rows) * size).tolist(), range(rows), strict=True):
        odd = at % 17
        value = None if odd == 3 else math.nan if odd == 7 else x
        found.append({"t": t, "id": int(draw.integers(ids)), "x": value, "n": int(draw.integers(-(2**40), 2**40))})
    return found


def play(
    rows: list[dict[str, Any]], window: sb.Window, size: int, restart: int = -1, **more: Any
) -> list[tuple[Any, ...]]:  # fmt: skip
    query = sb.Query("q", k=4, score="sum(x)", window=window, select=SELECT, **more)
    monitor = sb.Monitor([query], time="t", id="id")
    answers: list[sb.Answer] = []
    for number, at in enumerate(range(0, len(rows), size)):
        monitor.push(rows[at : at + size])
        if monitor.newest > NEVER:
            answers += monitor.advance(monitor.newest - 10)
        if number == restart:
            monitor = sb.Monitor.restore(monitor.snapshot())
    answers += monitor.finish()
    return [
        (a.start, a.end, [(r.id, repr(r.score), r.time, repr(tuple(r.values.values()))) for r in a.rows])
        for a in answers
    ]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_sums_are_those_of_fsum_to_the_last_digits(window: sb.Window, seed: int) -> None:
    rows = stream(seed)
    query = sb.Query("q", k=100, score="sum(x)", window=window, select=("avg(x) AS mean",))
    for answer in sb.run(query, rows, time="t", id="id"):
        shift = window.shift
        start = NEVER if answer.start is None else int(str(answer.start))
        inside = [row for row in rows if start + shift <= row["t"] < int(str(answer.end)) + shift]
        known = {name: [r["x"] for r in inside if r["id"] == name and r["x"] == r["x"] and r["x"] is not None]
                 for name in {row["id"] for row in inside}}  # fmt: skip
        assert {row.id for row in answer.rows} == {name for name, values in known.items() if values}
        for row in answer.rows:
            values = known[row.id]
            assert abs(row.score - math.fsum(values)) <= 1e-12 * sum(map(abs, values))
            assert row.mean == row.score / len(values)


def test_a_sum_of_many_equal_numbers_does_not_drift() -> None:
    rows = 3_000_000
    table = pa.table({"t": np.zeros(rows, np.int64), "id": np.zeros(rows, np.int64), "x": np.full(rows, 0.1)})
    (answer,) = sb.run(sb.Query("q", k=1, score="sum(x)", window=sb.Window(10)), table, time="t", id="id")
    assert abs(answer.rows[0].score - rows * 0.1) <= 1e-12 * rows * 0.1


def test_infinities_leave_with_their_pane() -> None:
    rows = [(0, 1.0), (11, math.inf), (12, 2.0), (21, -math.inf), (31, 1e307), (32, 1e307), (41, 5.0)]
    events = [{"t": t, "id": "a", "x": x} for t, x in rows]
    events += [{"t": t, "id": "b", "x": 0.0} for t in range(0, 50, 10)]
    query = sb.Query("q", k=2, score="sum(x)", window=sb.Window(20, slide=10), select=("max(x) AS m", "min(x) AS l"))
    found = {a.end: {r.id: (r.score, r.m, r.l) for r in a.rows} for a in sb.run(query, events, time="t", id="id")}
    assert found[10]["a"] == (1.0, 1.0, 1.0)
    assert found[20]["a"] == (math.inf, math.inf, 1.0)
    assert "a" not in found[30], "infinity and its opposite are no number"
    assert found[40]["a"] == (-math.inf, 1e307, -math.inf)
    assert found[50]["a"] == (2e307, 1e307, 5.0)
    assert found[60]["a"] == (5.0, 5.0, 5.0)
    assert found[60]["b"] == (0.0, 0.0, 0.0)


SMALL: dict[str, tuple[Any, str, Any]] = {
    "many jobs": (pane_sums, "JOB", 3),
    "rows are sorted": (pane_sums, "_RUN", 1 << 30),
    "few windows at once": (pane_sums, "SCORED", 1),
    "panes of one part": (pane_sums, "MOST_PARTS", 1),
    "numbers are given anew": (pane_sums, "FEW_OBJECTS", 2),
    "first ids apart": (objects, "FIRST", 2),
    "tables": (PaneSums, "handles", lambda _: False),
}


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("how", SMALL)
@pytest.mark.parametrize("key", ["ids", "groups", "partitions"])
def test_every_way_gives_the_same_answers(
    window: sb.Window, how: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    rows = stream(7, ids=40)
    for at, row in enumerate(rows):
        row["x"] = None if row["x"] is None or math.isnan(row["x"]) else float(round(row["x"]) % 64)
        row["id"] += at // 40 * 30  # ids vanish, and others come
        row["g"] = None if row["id"] % 5 == 0 else f"g{row['id'] % 7}"
    more: dict[str, Any] = {"ids": {}, "groups": {"group_by": "g"}, "partitions": {"partition_by": "g"}}[key]
    wanted = play(rows, window, 30, **more)
    monkeypatch.setattr(*SMALL[how])
    assert play(rows, window, 30, **more) == wanted
    assert play(rows, window, 30, 5, **more) == wanted


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_restored_query_goes_on_to_the_last_digit(window: sb.Window) -> None:
    rows = stream(3)
    wanted = play(rows, window, 20)
    for restart in (2, 9, 13):
        assert play(rows, window, 20, restart) == wanted


def test_numbers_of_vanished_objects_are_given_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pane_sums, "FEW_OBJECTS", 64)
    monitor = sb.Monitor([sb.Query("q", k=2, score="count(*)", window=sb.Window(20, slide=10))], time="t", id="id")
    most = 0
    for t in range(0, 1_000, 10):
        monitor.push({"t": [t] * 50, "id": list(range(t, t + 50))})
        for answer in monitor.advance(t):
            assert [(row.id, row.score) for row in answer.rows] == [
                (t - 10, 2.0 if t > 10 else 1.0),
                (t - 9, 2.0 if t > 10 else 1.0),
            ]
        (one,) = monitor.groups[0].members  # type: ignore[attr-defined]
        most = max(most, len(one._objects))
    assert most < 250


def test_a_group_of_null_keeps_its_rows_when_others_vanish() -> None:
    query = sb.Query("q", k=1, score="sum(x)", window=sb.Window(20, slide=10), group_by="g")
    monitor = sb.Monitor([query], time="t", id="id")
    count = 3_000
    for t in range(0, 100, 10):
        groups = [None, *range(t * count, t * count + count)]
        columns = {"t": [t] * len(groups), "id": list(range(len(groups))), "x": [100.0] + [1.0] * count}
        monitor.push(pa.table(columns | {"g": pa.array(groups, pa.int64())}))
        for answer in monitor.advance(t):
            assert [(row.id, row.score) for row in answer.rows] == [(None, 200.0 if t > 10 else 100.0)]


def test_sums_of_all_time_with_the_shortest_slide_are_restored() -> None:
    """Their panes have numbers that are larger than any time."""
    query = sb.Query("q", k=1, score="sum(x)", window=sb.Window.all_time(every=1))
    monitor = sb.Monitor([query], time="t", id="id")
    monitor.push([{"t": 5, "id": "a", "x": 2.0}])
    monitor = sb.Monitor.restore(monitor.snapshot())
    monitor.push([{"t": 6, "id": "a", "x": 3.0}])
    assert [(answer.end, answer.rows[0].score) for answer in monitor.finish()] == [(6, 2.0), (7, 5.0)]


def test_numbers_stay_while_the_table_grows() -> None:
    known = Integers()
    keys = np.random.default_rng(1).permutation(10_000) - 5_000
    first = known.numbers(keys[:3_000])
    nothing = known.none()
    assert known.numbers(keys[3_000:]).min() > nothing == 3_000
    assert (known.numbers(keys[:3_000]) == first).all()
    assert (known.known[known.numbers(keys)] == keys).all()
    assert known.none() == nothing


def test_null_and_nan_are_values_of_their_own() -> None:
    ids = Objects(pa.int64(), pa.float64())
    numbers = ids.numbers(pa.array([None, 0, None]), pa.array([math.nan, 1.0, math.nan]))
    assert numbers.tolist() == [0, 1, 0]
    assert ids.ids(numbers[:2]).to_pylist() == [None, 0]
    assert ids.keep(np.array([1])).tolist() == [0]
    assert (len(ids), ids.partitions(np.array([0])).to_pylist()) == (1, [1.0])


def test_a_column_that_held_nothing_gets_its_type_later() -> None:
    query = sb.Query("q", k=2, score="coalesce(sum(n), 0) + count(*)", window=sb.Window(10), group_by="g")
    monitor = sb.Monitor([query], time="t", id="id")
    monitor.push([{"t": 1, "id": 1, "g": None, "n": None}])
    monitor.push([{"t": 2, "id": 1, "g": "a", "n": 2**53 + 1}, {"t": 3, "id": 1, "g": "a", "n": -(2**53)}])
    assert [(row.id, row.score) for row in monitor.finish()[0].rows] == [("a", 3.0), (None, 1.0)]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((None, 5, 7), (7, 5, 12, 6.0)),
        ((2.5, 5, None), (5.0, 2.5, 7.5, 3.75)),
        ((5, 2.5, 1), (5.0, 1.0, 8.5, 8.5 / 3)),
        ((2**40, 0, -0.5), (2.0**40, -0.5, 2**40 - 0.5, (2**40 - 0.5) / 3)),
        ((-3, None, 2.5), (2.5, -3.0, -0.5, -0.25)),
    ],
)
def test_whole_numbers_and_others_in_one_column(
    values: tuple[Any, ...], expected: tuple[float, ...], tables: bool, restart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows without a schema have in each batch the types that its values show."""
    if tables:
        monkeypatch.setattr(PaneSums, "handles", lambda _: False)
    names = ("max(n) AS high", "min(n) AS low", "sum(n) AS whole", "avg(n) AS mean")
    monitor = sb.Monitor([sb.Query("q", k=2, score="min(n)", window=sb.Window(10), select=names)], time="t", id="id")
    for t, value in enumerate(values):
        monitor.push([{"t": t, "id": "a", "n": value}, {"t": t, "id": "b", "n": None}])
        monitor = sb.Monitor.restore(monitor.snapshot()) if restart else monitor
    ((row,),) = (answer.rows for answer in monitor.finish())
    assert (row.id, row.score, *row.values.values()) == ("a", expected[1], *expected)


def test_only_candidates_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def counted(merit: Any, *more: Any) -> Any:
        sizes.append(len(merit))
        return best_first(merit, *more)

    monkeypatch.setattr(aggregates, "best_first", counted)
    table = {"t": [1] * 1_000, "id": list(range(1_000)), "x": [float(n % 500) for n in range(1_000)]}
    (answer,) = sb.run(sb.Query("q", k=3, score="sum(x)", window=sb.Window(10)), table, time="t", id="id")
    assert [row.id for row in answer.rows] == [499, 999, 498]
    assert sizes == [4], "both that tie for the third place"
