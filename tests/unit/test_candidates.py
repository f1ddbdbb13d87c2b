"""What tasks leave out of a batch, where the core runs in them, is missed by nobody."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.spark.reducers import candidates
from skyband.spark.reducers.candidates import RankingPrefilter
from tests.groups import rankings
from tests.spark.streams import events

DELAY = 60


def sent(monitor: sb.Monitor, table: pa.Table, parts: int, not_after: int | None = None) -> pa.Table:
    """What so many tasks send of a batch, each of which got the prefilter on its own."""
    packed = pickle.dumps(RankingPrefilter(monitor, not_after))
    edges = np.linspace(0, table.num_rows, parts + 1).astype(int).tolist()
    found = []
    for begin, end in pairwise(edges):
        batches = table.slice(begin, end - begin).to_batches(max_chunksize=150)
        found += list(pickle.loads(packed)(iter(batches)))
    return pa.Table.from_batches(found, table.schema)


def shown(answers: Any) -> list[Any]:
    return [
        (
            a.query, a.start, a.end, a.exact, a.why,
            [(r.rank, r.id, r.score, r.time, r.partition, str(r.values)) for r in a.rows],
        )
        for a in answers
    ]  # fmt: skip


def both(
    queries: list[sb.Query], tables: list[pa.Table], later: tuple[sb.Query, ...] = (), not_after: int | None = None,
    leaving: tuple[str, ...] = (),
) -> list[int]:  # fmt: skip
    """Push tables into one monitor as they are, into another what tasks send of them; compare all they say."""
    plain, reduced = (sb.Monitor(queries, time="t", id="id") for _ in range(2))
    counts = []
    for number, table in enumerate(tables):
        for name in leaving if number == 1 else ():
            plain.unregister(name)
            reduced.unregister(name)
        if number == 2:
            plain.register(*later)
            reduced.register(*later)
        part = sent(reduced, table, 3, not_after)
        counts.append(part.num_rows)
        answers = list(reduced.push(part, not_after=not_after))
        truth = list(plain.push(table, not_after=not_after))
        assert reduced.newest == plain.newest
        answers += reduced.advance(reduced.newest - DELAY)
        truth += plain.advance(plain.newest - DELAY)
        assert shown(answers) == shown(truth)
        for name in ("late", "partly_late", "rejected", "ahead"):
            assert getattr(reduced.stats(), name) == getattr(plain.stats(), name), name
        for group in rankings(reduced):
            group.algorithm.check()
    assert shown(reduced.finish()) == shown(plain.finish())
    return counts


def alike(rng: np.random.Generator, n: int, start: int) -> pa.Table:
    """Events of which many are equal in score, time and id, some late, some with a score that is no number."""
    table = events(rng, n, start, "ties")
    time = table["t"].fill_null(0).to_numpy() // 40 * 40 - 9_000 * (rng.random(n) < 0.02)
    x = np.where(rng.random(n) < 0.01, np.nan, table["x"].fill_null(0).to_numpy())
    return (
        table.set_column(0, "t", pa.array(time, mask=rng.random(n) < 0.005))
        .set_column(1, "id", pa.array(rng.integers(0, 6, n), mask=rng.random(n) < 0.005))
        .set_column(2, "x", pa.array(x, mask=rng.random(n) < 0.005))
    )


@pytest.fixture(autouse=True)
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a task see its rows in several pieces."""
    monkeypatch.setattr(candidates, "ROWS_AT_ONCE", 300)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [1, 30])
def test_nothing_that_matters_is_left_out(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries = []
    for number in range(count):
        size = int(rng.integers(500, 9_000))
        asked: dict[str, Any] = {
            "k": int(rng.choice([1, 3, 10])),
            "score": ["x", "x * 2 + y", "-x"][rng.integers(3)],
            "order": ["desc", "asc"][rng.integers(2)],
            "distinct": [None, None, "best", "latest"][rng.integers(4)],
            "partition_by": [None, "g", "y % 2"][rng.integers(3)],
            "where": [None, f"y > {number % 9}"][rng.integers(2)],
            "select": [(), ("y",), ("g", "y")][rng.integers(3)],
        }
        closed: Any = ["left", "right"][rng.integers(2)]
        window = sb.Window(size, slide=int(rng.integers(100, size)), closed=closed)
        queries.append(sb.Query(f"q{number}", window=window, **asked))
    both(queries, [alike(rng, 2_000, 20_000 * b) for b in range(4)])


def test_only_the_best_of_each_pane_come() -> None:
    rng = np.random.default_rng(7)
    query = sb.Query("q", k=2, score="x", window=sb.Window(8_000, slide=4_000))
    tables = [events(rng, 4_000, 40_000 * b, "ties", disorder=0).drop_columns(["g"]) for b in range(2)]
    broken, pieces, panes = 0.03 * 4_000, 3 * 5, 11
    assert all(count <= 3 * panes * 2 + pieces + broken for count in both([query], tables))


@pytest.mark.parametrize("window", ["50 events", 2_000])
@pytest.mark.parametrize("algorithm", ["staircase", "naive"])
def test_where_every_event_matters_all_that_pass_the_filter_come(algorithm: str, window: Any) -> None:
    rng = np.random.default_rng(8)
    query = sb.Query("q", k=2, score="x", where="y > 2", window=sb.Window(window))
    table = events(rng, 1_000, 0)
    count = sent(sb.Monitor([query], algorithm=algorithm, time="t", id="id"), table, 2).num_rows
    passing = sum(y > 2 for y in table["y"].to_pylist())
    assert (count >= passing) == (algorithm == "naive" or window == "50 events")
    assert count < 1_000


def test_rows_ahead_come_to_be_counted_and_move_no_time() -> None:
    rng = np.random.default_rng(9)
    tables = [alike(rng, 1_000, 10_000 * b) for b in range(3)]
    time = tables[1]["t"].fill_null(0).to_numpy().copy()
    time[::50] += 10**9
    tables[1] = tables[1].set_column(0, "t", pa.array(time))
    both([sb.Query("q", k=3, score="x", window=sb.Window(3_000, slide=1_000))], tables, not_after=10**8)


def test_queries_that_come_later_know_what_was_left_out() -> None:
    rng = np.random.default_rng(10)
    first = [
        sb.Query("first", k=3, score="x", window=sb.Window(6_000, slide=2_000)),
        sb.Query("finer before", k=1, score="x", window=sb.Window(6_000, slide=1_000)),
    ]
    later = (
        sb.Query("deeper", k=5, score="x", window=sb.Window(6_000, slide=2_000)),
        sb.Query("finer", k=2, score="x", window=sb.Window(5_000, slide=500)),
        sb.Query("as before", k=3, score="x", window=sb.Window(5_000, slide=1_000)),
    )
    both(first, [events(rng, 3_000, 30_000 * b, "ties") for b in range(4)], later)


def test_tasks_know_the_panes_that_queries_left_which_went() -> None:
    """One that comes back finds the best of each, not of the wider panes of those that stayed."""

    def table(*rows: tuple[int, float]) -> pa.Table:
        time, score = zip(*rows, strict=True)
        return pa.table({"t": time, "id": range(len(time)), "x": score})

    coarse, fine = (sb.Query(f"{size}", k=1, score="x", window=sb.Window(size)) for size in (4_000, 1_000))
    again = sb.Query("again", k=1, score="x", window=sb.Window(1_000))
    parts = [(20_500, 1.0), (21_050, 9.0)] * 3  # two rows for each task
    both([coarse, fine], [table((20_050, 0.5)), table(*parts), table((29_000, 1.0))], (again,), leaving=("1000",))
