"""Sets: all ids whose remote value passes, unranked and by id; from every entrance, to every place that shows them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.answers.changes import fold
from skyband.cli.board import Board
from skyband.files.queries import load
from skyband.remote import Remote
from skyband.remote.filter_join import filter_join
from skyband.remote.replica import Replica
from skyband.remote.services import Limits
from skyband.spark.notebook import Board as Notebook
from skyband.windows import WindowGrid
from tests.joined import oracle
from tests.joined.test_monitor import WINDOWS, ask, fine, harsh

ROWS = [{"t": 1 + i, "id": name, "x": float(i)} for i, name in enumerate(["dan", "ann", "eve", "bob", "cyd"])]
VALUES = {"dan": 9.0, "ann": 8.0, "eve": 3.0, "bob": 7.0, "cyd": 6.0}


def passing(name: str = "q", **given: Any) -> sb.Query:
    usual: dict[str, Any] = {
        "k": "all", "score": "value", "where": "value > 5", "window": sb.Window(10), "join": sb.Join("value"),
    }  # fmt: skip
    return sb.Query(name, **(usual | given))


def members(query: sb.Query, stream: list[oracle.Event], truth: dict[Any, float], end: int) -> list[Any]:
    """The ids of a window that pass, as the oracle of rankings would find them, sorted."""
    ranked = sb.Query("r", k=1_000, score="x + value", where="value > 5", window=query.window, join=query.join)
    found = oracle.answers(
        ranked, stream, lambda mine, v: mine[-1]["x"] + v, truth, keep=lambda e: fine(e["x"]), passes=lambda v: v > 5
    )
    return sorted(name for _, until, rows in found if until == end for name, _ in rows)


@pytest.mark.parametrize("policy", [None, "Filter Update", "WSJ-RND", "AT-GAIN"])
@pytest.mark.parametrize("window", WINDOWS)
def test_sets_are_exact_whatever_changes(policy: str | None, window: sb.Window) -> None:
    query = passing(score="x + value", window=window, join=sb.Join("value", policy=policy))
    rng, truth, stream = random.Random(1), dict[Any, float](), oracle.events(1)
    remote = sb.Remote(lambda ids: {name: truth.get(name) for name in ids}, limits=Limits(remember_missing=0))
    monitor = sb.Monitor([query], time="t", id="id", services={"value": remote})
    monitor.push(stream)
    sizes = set()
    for end in range((window.offset + window.size) % window.slide, 400, window.slide):
        harsh(rng, truth)
        for answer in monitor.advance(end + 1):
            assert answer.end == end
            assert [row.id for row in answer.rows] == members(query, stream, truth, end)
            assert all(row.rank is None and row.value == truth[row.id] for row in answer.rows)
            assert (answer.exact, answer.why) == (True, None)
            sizes.add(len(answer))
    assert len(sizes) > 2


def test_ranks_are_null_in_tables_and_rows_come_by_id() -> None:
    services = {"value": ask(VALUES)}
    queries = [passing(select=("x",)), sb.Query("plain", k=2, score="x", window=sb.Window(10))]
    table = sb.run(queries, ROWS, time="t", id="id", services=services).table()
    assert table.schema.field("rank").type == pa.int32()
    rows = table.select(["query", "rank", "id", "score", "x"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("q", None, "ann", 8.0, 1.0), ("q", None, "bob", 7.0, 3.0), ("q", None, "cyd", 6.0, 4.0),
        ("q", None, "dan", 9.0, 0.0), ("plain", 1, "cyd", 4.0, None), ("plain", 2, "bob", 3.0, None),
    ]  # fmt: skip


def test_what_is_too_much_is_cut_and_flagged() -> None:
    answers = []
    for most in (3, 4):
        (answer,) = sb.run(passing(max_rows=most), ROWS, time="t", id="id", services={"value": ask(VALUES)})
        answers.append(([row.id for row in answer.rows], answer.exact, answer.why))
    assert answers == [
        (["ann", "bob", "cyd"], False, "cut at 3 rows"),
        (["ann", "bob", "cyd", "dan"], True, None),
    ]
    many = [{"t": 1, "id": i, "x": 0.0} for i in range(10_001)]
    services = {"value": sb.Remote(lambda ids: dict.fromkeys(ids, 9.0), limits=Limits(batch=20_000))}
    (answer,) = sb.run(passing(), many, time="t", id="id", services=services)
    assert (len(answer), answer.rows[-1].id, answer.why) == (10_000, 9_999, "cut at 10,000 rows")


def test_a_filter_alone_cuts_as_well() -> None:
    replica = Replica()
    replica.put([3, 1, 2], [9.0, 8.0, 7.0], at=0)
    join = filter_join(
        Remote(lambda _: {}, known=replica),
        windows=WindowGrid(10, 10),
        condition=">",
        threshold=5.0,
        budget=0,
        max_rows=2,
    )
    join.arrive([3, 1, 2], [0.0] * 3, [1, 2, 3])
    answer = join.evaluate(10)
    assert ([(row.rank, row.id) for row in answer.rows], answer.cut) == ([(None, 1), (None, 2)], 1)
    assert (answer.exact, answer.why) == (False, "cut at 2 rows")


@pytest.mark.parametrize("emit", ["changes", "entered", "left"])
def test_changes_of_a_set(emit: str) -> None:
    """Members enter, leave or are updated; they never move. Folded, changes give the sets; a snapshot goes on."""
    truth: dict[Any, float] = {}
    rng, stream = random.Random(3), oracle.events(3)
    whole = passing("whole", score="x + value", window=WINDOWS[0])
    queries = [replace(whole, name="q", emit=emit), whole]  # type: ignore[arg-type]
    services = {"value": sb.Remote(lambda ids: {name: truth.get(name) for name in ids})}
    monitor = sb.Monitor(queries, time="t", id="id", services=services)
    monitor.push(stream)
    rows: list[sb.Row] = []
    before: dict[Any, sb.Row] = {}
    for end in range(20, 400, 20):
        harsh(rng, truth)
        if end == 200:
            monitor = sb.Monitor.restore(monitor.snapshot(), services=services)
        changed, answer = monitor.advance(end)
        now = {row.id: row for row in answer.rows}
        assert all(change.rank is None and change.previous_rank is None for change in changed.changes)
        if emit == "changes":
            rows = fold(rows, changed.changes)
            assert rows == answer.rows
            kinds = {change.row.id: change.kind for change in changed.changes}
            assert {name for name, kind in kinds.items() if kind == "entered"} == now.keys() - before.keys()
            assert {name for name, kind in kinds.items() if kind == "left"} == before.keys() - now.keys()
            assert "moved" not in kinds.values()
        else:
            assert {change.kind for change in changed.changes} <= {emit}
        before = now


def test_a_set_is_plain_data_and_stands_in_files(tmp_path: Path) -> None:
    query = passing(max_rows=500)
    given = query.as_dict()
    assert (given["k"], given["max_rows"]) == ("all", 500)
    assert sb.Query.from_dict(given) == query
    assert "max_rows" not in passing().as_dict()
    file = tmp_path / "q.toml"
    file.write_text(
        'time = "t"\nid = "id"\n[[query]]\nname = "q"\nk = "all"\nsize = "10 microseconds"\nscore = "value"\n'
        'where = "value > 5"\nmax_rows = 500\njoin = {service = "value"}\n'
        '[service.value]\nkind = "http"\nurl = "http://localhost/{ids}"\nvalue = "{id}"\n'
    )
    assert load(file).queries == (query,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"join": None, "score": "x", "where": None}, "k is 'all', and the condition compares no remote value"),
        ({"where": "x > 5"}, "k is 'all', and the condition compares no remote value"),
        ({"order": "asc"}, "a set has no order; leave order='asc' out"),
        ({"k": "some"}, "k is 'some'; give a whole number from 1 to 1,000,000, or 'all' for a set"),
        ({"k": 3, "max_rows": 5}, "max_rows is 5, which bounds sets, and k is 3; give k='all', or leave it out"),
        ({"max_rows": 0}, "max_rows is 0; give a whole number from 1 to 1,000,000"),
        ({"max_rows": True}, "max_rows is True; give a whole number"),
    ],
)
def test_what_is_no_set_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(sb.QueryError) as caught:
        passing(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize("score", ["value", "x", "x + value", "count(*)", "max(x) + value"])
@pytest.mark.parametrize("emit", ["final", "changes"])
def test_a_set_is_written_in_rspql_and_read_back(score: str, emit: str) -> None:
    query = passing(score=score, emit=emit, window=sb.Window("2 minutes", slide="1 minute", closed="right"))
    text = sb.to_rspql(query, id="id")
    assert "ORDER BY" not in text
    assert "LIMIT" not in text
    assert sb.parse(text) == query
    with pytest.raises(sb.QueryError, match="RSP-QL has no words for max_rows=7; leave it out"):
        sb.to_rspql(passing(max_rows=7), id="id")


def test_explain_says_what_it_is() -> None:
    monitor = sb.Monitor([passing()], time="t", id="id", services={"value": ask(VALUES)})
    assert "q: all that pass over Window(" in monitor.explain()


def test_boards_show_members_without_ranks() -> None:
    from rich.console import Console

    truth = dict(VALUES)
    monitor = sb.Monitor([passing(window=sb.Window(20, slide=10))], time="t", id="id", services={"value": ask(truth)})
    board, console = Board(monitor.queries), Console(width=60, record=True, force_terminal=False)
    console.print(board.render(60))
    monitor.push(ROWS)
    board.update(monitor.advance(10))
    truth |= {"eve": 50.0, "dan": 0.0, "ann": 8.5}
    board.update(monitor.advance(20))
    assert board.standings["q"].moves == {(None, "eve"): None}
    console.print(board.render(60))
    shown = console.export_text()
    assert shown.index("ann") < shown.index("bob") < shown.index("cyd") < shown.index("eve")
    assert "None" not in shown


def test_a_notebook_shows_members_without_ranks() -> None:
    queries = [passing(window=sb.Window(20, slide=10))]
    truth = dict(VALUES)
    monitor = sb.Monitor(queries, time="t", id="id", services={"value": ask(truth)})
    monitor.push(ROWS)

    class Control:
        queries: list[dict[str, Any]]

        def __init__(self, end: int) -> None:
            self.answered = monitor.advance(end)
            latest = {"window_end": str(end), "rows": len(self.answered[0]), "exact": True, "why": None}
            self.queries = [{"name": "q", "state": "active", "query": queries[0].as_dict(), "latest": latest}]

        def answers(self) -> pa.Table:
            return self.answered.table(quality=True)

    board = Notebook(Control(10))  # type: ignore[arg-type]
    assert board.text().split()[3:6] == ["new", "ann", "8"]
    truth |= {"eve": 50.0, "dan": 0.0}
    board.control = Control(20)  # type: ignore[assignment]
    assert board.text().split()[3:] == ["ann", "8", "bob", "7", "cyd", "6", "new", "eve", "50"]
    assert "None" not in board.html()
