"""Events that tie in score, time and id are ordered by what is selected, however the input is cut."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.answers.changes import fold
from skyband.order import value_ranks
from tests.conformance.registry import algorithms
from tests.groups import rankings

SIX = pa.table({"t": [1] * 6, "id": [7] * 6, "x": [2.0] * 6, "n": [4, 1, None, 6, 2, 5], "m": [1, 2, 3, 4, 5, 6]})


def query(name: str = "q", **more: Any) -> sb.Query:
    given: dict[str, Any] = {"k": 2, "score": "x", "window": sb.Window(10), "select": ("n",)} | more
    return sb.Query(name, **given)


@pytest.mark.parametrize("algorithm", algorithms(exact=True))
def test_the_first_by_what_is_selected_are_shown(algorithm: str) -> None:
    for size, order in itertools.product((1, 2, 6), ([0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0])):
        run = sb.run(query(), SIX.take(order), time="t", id="id", algorithm=algorithm, batch_rows=size)
        (answer,) = run
        assert [row.n for row in answer.rows] == [None, 1], f"{size} rows at once, {order}"


@pytest.mark.parametrize("distinct", ["best", "latest"])
def test_of_an_id_that_counts_once_the_first_is_shown(distinct: str) -> None:
    for size in (1, 2, 6):
        (answer,) = sb.run(query(distinct=distinct), SIX, time="t", id="id", batch_rows=size)
        assert [row.n for row in answer.rows] == [None]


@pytest.mark.parametrize("distinct", [None, "best", "latest"])
@pytest.mark.parametrize("rows", [3_000, 40_000])
def test_many_ties_among_many_events(rows: int, distinct: str | None) -> None:
    """Full panes, of which most events are dropped, and stores that are compacted."""
    rng = np.random.default_rng(3)
    n = 40_000
    data = {
        "t": np.arange(n) // 4_000 * 10, "id": rng.integers(0, 3, n), "x": rng.integers(0, 5, n) * 1.0,
        "n": rng.permutation(n), "g": rng.integers(0, 2, n),
    }  # fmt: skip
    asked = query(k=5, distinct=distinct, window=sb.Window(40, slide=10), partition_by="g")
    for answer in sb.run(asked, data, time="t", id="id", batch_rows=rows, watermark=0 if rows == 40_000 else None):
        end = int(answer.end)  # type: ignore[arg-type]
        inside = (data["t"] >= end - 40) & (data["t"] < end)
        for g in (0, 1):
            mine = np.flatnonzero(inside & (data["g"] == g))
            keys = (data["n"][mine], data["id"][mine], -data["t"][mine], -data["x"][mine])
            order = mine[np.lexsort(keys)]
            if distinct == "best":
                order = order[np.sort(np.unique(data["id"][order], return_index=True)[1])]
            if distinct == "latest":
                order = order[data["t"][order] == data["t"][order].max()]
                order = order[np.sort(np.unique(data["id"][order], return_index=True)[1])]
            assert [row.n for row in answer.rows if row.partition == g] == data["n"][order[:5]].tolist()


def test_a_sibling_that_selects_other_columns_changes_nothing() -> None:
    found = []
    for siblings in ((), ("m",), ("m", "n"), ("n", "m")):
        monitor = sb.Monitor([query()], time="t", id="id")
        monitor.push(SIX.slice(0, 2))
        if siblings:
            monitor.register(query("sibling", select=siblings, k=3))
        monitor.push(SIX.slice(2))
        found.append([row.n for answer in monitor.finish() for row in answer.rows if answer.query == "q"])
    assert found == [[None, 1]] * 4


def test_of_queries_that_select_more_the_one_that_kept_enough_serves_a_new_one() -> None:
    window = sb.Window(10)
    few = sb.Query("few", k=1, score="x", window=window)
    many = sb.Query("many", k=3, score="x", window=window, select=("n",))
    for change in (False, True):
        monitor = sb.Monitor([few], time="t", id="id")
        monitor.register(many)
        monitor.push([{"t": t, "id": t, "x": float(t), "n": t} for t in range(6)])
        new = sb.Query("few" if change else "new", k=3, score="x", window=window)
        monitor.change(new) if change else monitor.register(new)
        answer = next(answer for answer in monitor.finish() if answer.query == new.name)
        assert answer.exact
        assert [row.id for row in answer.rows] == [5, 4, 3]


def test_queries_share_what_begins_alike() -> None:
    queries = [query("n"), query("none", select=()), query("m", select=("m",)), query("both", select=("n", "m"))]
    monitor = sb.Monitor(queries, time="t", id="id")
    assert [[q.name for q in group.queries] for group in rankings(monitor)] == [["n", "none", "both"], ["m"]]
    monitor.push(SIX)
    shown = {a.query: [dict(row.values) for row in a.rows] for a in monitor.finish()}
    assert shown == {
        "n": [{"n": None}, {"n": 1}],
        "none": [{}, {}],
        "m": [{"m": 1}, {"m": 2}],
        "both": [{"n": None, "m": 3}, {"n": 1, "m": 2}],
    }


def test_an_early_answer_shows_that_another_event_comes_first() -> None:
    monitor = sb.Monitor([query(emit="early", k=1)], time="t", id="id")
    shown = []
    for row in range(6):
        monitor.push(SIX.slice(row, 1))
        shown.append([answer.rows[0].n for answer in monitor.advance()])
    assert shown == [[4], [1], [None], [], [], []]


def test_an_early_answer_of_a_count_window_shows_what_comes_first_in_it() -> None:
    stream = pa.table({"t": [1] * 5, "id": [1] * 5, "x": [2.0] * 5, "n": [1, 5, 3, 4, 2]})
    asked = query(emit="early", k=2, window=sb.Window("3 events", slide="2 events"))
    monitor = sb.Monitor([asked], time="t", id="id")
    shown = [(a.start, [row.n for row in a.rows]) for a in [*monitor.push(stream), *monitor.advance()]]
    assert shown == [(-1, [1, 5]), (1, [3, 4]), (3, [2, 4])]


def test_an_event_where_the_next_window_starts_is_not_late() -> None:
    monitor = sb.Monitor([query(distinct="best", k=1)], time="t", id="id")
    monitor.advance(10)
    monitor.push(pa.table({"t": [9, 10, 10], "id": [1] * 3, "x": [2.0] * 3, "n": [1, 3, 2]}))
    assert [(a.start, [row.n for row in a.rows]) for a in monitor.finish()] == [(10, [2])]
    assert monitor.stats().late == 1


@pytest.mark.parametrize("emit", ["changes", "entered", "left"])
def test_changes_tell_tied_events_apart(emit: str) -> None:
    stream = pa.table({"t": [1, 6, 6, 6], "id": [1] * 4, "x": [2.0] * 4, "n": [9, 5, 3, 3]})
    asked = query(emit=emit, window=sb.Window(10, slide=5))
    monitor = sb.Monitor([asked], time="t", id="id")
    monitor.push(stream.slice(0, 3))
    answers = [*monitor.advance(10)]
    monitor.push(stream.slice(3))
    answers += monitor.finish()
    told = [[(change.kind, change.row.n) for change in answer.changes] for answer in answers]
    expected = [[("entered", 9)], [("left", 9), ("entered", 3), ("entered", 5)], [("left", 5), ("entered", 3)]]
    kinds = {"changes": ("entered", "left"), "entered": ("entered",), "left": ("left",)}[emit]
    assert told[:3] == [[change for change in each if change[0] in kinds] for each in expected]
    if emit == "changes":
        held: list[sb.Row] = []
        for answer in answers:
            held = fold(held, answer.changes)
            assert held == answer.rows


def test_values_sort_as_spark_sorts_them() -> None:
    nan, inf = float("nan"), float("inf")
    assert value_ranks(pa.array([nan, 1.0, None, -inf, inf, -0.0, 0.0])).tolist() == [5, 3, 0, 1, 4, 2, 2]
    assert value_ranks(pa.chunked_array([["é", "z"], [None, "a"]])).tolist() == [3, 2, 0, 1]
    assert value_ranks(pa.array(["b", None, "a"]).dictionary_encode()).tolist() == [2, 0, 1]
    assert value_ranks(pa.array([True, None, False])).tolist() == [2, 0, 1]
    assert value_ranks(pa.nulls(2)).tolist() == [0, 0]
    structs = pa.array([{"a": 1, "b": nan}, {"a": 1, "b": 2.0}, {"a": None, "b": 9.0}, None])
    assert value_ranks(structs).tolist() == [3, 2, 1, 0]
    maps = pa.array([[("k", 2)], [("z", 0), ("k", 1)], None], pa.map_(pa.string(), pa.int64()))
    assert value_ranks(maps).tolist() == [2, 1, 0]
