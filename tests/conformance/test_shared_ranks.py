"""Equal scores that share a rank, and the earliest of them first: while queries, snapshots and changes come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms.staircase import tied
from skyband.answers.changes import fold, seat
from tests.groups import rankings
from tests.oracle import Oracle, contains, is_cut, rank
from tests.streams import assert_same, query_of, random_workload, replies_of, run_through, table_of

KINDS: dict[str, dict[str, Any]] = {
    "with": {"ties": "with"},
    "with, cut": {"ties": "with", "max_ties": 3, "tied": True, "select": ("note",)},
    "with, best": {"ties": "with", "distinct": "best"},
    "dense": {"ties": "dense", "prefer": "earliest"},
    "dense, cut": {"ties": "dense", "max_ties": 7, "distinct": None},
    "dense, best": {"ties": "dense", "distinct": "best"},
    "earliest": {"prefer": "earliest", "distinct": None, "tied": True, "select": ("note", "size")},
}
CUT = "rows, as max_ties says"


@pytest.fixture(autouse=True, params=[0, 1024], ids=["looked through often", "as usual"])
def spare(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let events of sealed panes be looked through after few of them, too."""
    monkeypatch.setattr(tied, "SPARE", request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_called_exact_is(kind: str) -> None:
    flags = {True: 0, False: 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        workload = random_workload(seed, many=5, counts=False, **KINDS[kind])
        batches = workload.batches()
        joins = {ask.name: int(rng.integers(0, len(batches))) for ask in workload.asks}
        leaves = {ask.name: int(rng.integers(0, 2 * len(batches))) for ask in workload.asks}
        monitor = sb.Monitor(time="t", id="id")
        answers: list[sb.Answer] = []
        for turn, batch in enumerate(batches):
            for ask in workload.asks:
                if joins[ask.name] == turn:
                    monitor.register(query_of(ask))
                elif leaves[ask.name] == turn > joins[ask.name]:
                    monitor.unregister(ask.name)
            answers += monitor.push(table_of(batch, workload.text))
            if workload.delay is not None and monitor.newest > -(2**61):
                answers += monitor.advance(monitor.newest - workload.delay)
            for group in rankings(monitor):
                group.algorithm.check()
        answers += monitor.finish()
        for ask in workload.asks:
            oracle = Oracle([ask], workload.delay)
            for batch in workload.batches():
                oracle.batch(batch)
            oracle.end()
            truth = {(reply.start, reply.end): reply for reply in oracle.replies}
            for answer in (a for a in answers if a.query == ask.name):
                flags[answer.exact] += 1
                (reply,) = replies_of([answer])
                right = truth.get((reply.start, reply.end))
                if answer.exact:
                    assert reply.rows == ([] if right is None else right.rows), f"seed {seed}, {ask}"
                    assert right is None or not right.cut
                else:
                    assert answer.why is not None
                    assert answer.why == "warming up" or CUT in answer.why
    assert flags[True] > flags[False] > 0, f"both must occur: {flags}"


@pytest.mark.parametrize("kind", KINDS)
def test_restored_goes_on_as_if_nothing_had_happened(kind: str) -> None:
    for seed in range(20):
        workload = random_workload(seed, **KINDS[kind])
        expected = run_through(sb.Monitor(workload.queries(), time="t", id="id"), workload)
        answers = run_through(sb.Monitor(workload.queries(), time="t", id="id"), workload, saved=True)
        assert_same(replies_of(answers), replies_of(expected), f"seed {seed}")
        assert [(a.exact, a.why) for a in answers] == [(a.exact, a.why) for a in expected]


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_that_is_filled_from_the_past_misses_nothing(kind: str) -> None:
    filled = 0
    for seed in range(12):
        workload = random_workload(seed, n=120, many=2, delay=15, counts=False, text=False, **KINDS[kind])
        first, second = (replace(ask, k=k) for ask, k in zip(workload.asks, (1, 3), strict=True))
        batches, truth = workload.batches(), Oracle([second], workload.delay)
        monitor = sb.Monitor([query_of(first)], time="t", id="id")
        answers: list[sb.Answer] = []
        for turn, batch in enumerate(batches):
            if turn == len(batches) // 2 and monitor.watermark is not None:
                (missed,) = monitor.register(query_of(second), history=True)
                if missed is not None:
                    timed = [e for part in batches[:turn] for e in part]
                    monitor.fill(second.name, table_of(timed, workload.text))
                    filled += 1
            truth.batch(batch)
            answers += monitor.push(table_of(batch, workload.text))
            if monitor.newest > -(2**61):
                answers += monitor.advance(monitor.newest - 15)
        truth.end()
        answers += monitor.finish()
        right = {(reply.start, reply.end): reply.rows for reply in truth.replies}
        for answer in (a for a in answers if a.query == second.name and a.exact):
            (reply,) = replies_of([answer])
            assert reply.rows == right.get((reply.start, reply.end), []), f"seed {seed}"
    assert filled > 3


@pytest.mark.parametrize("kind", KINDS)
def test_open_windows_show_what_there_is(kind: str) -> None:
    for seed in range(12):
        workload = random_workload(seed, n=40, many=1, delay=None, counts=False, text=False, **KINDS[kind])
        (ask,) = workload.asks
        oracle = Oracle([ask])
        monitor = sb.Monitor([query_of(ask, emit="early")], time="t", id="id")
        shown: dict[Any, Any] = {}
        for batch in workload.batches():
            oracle.batch(batch)
            monitor.push(table_of(batch, workload.text))
            for answer in monitor.advance():
                assert answer.provisional
                (reply,) = replies_of([answer])
                inside = [e for e in oracle.events if e.time is not None and contains(ask, reply.end, e.time)]
                assert reply.rows == rank(ask, inside), f"seed {seed}"
                assert answer.exact is not is_cut(ask, inside, reply.rows)
                looks = (reply.rows, answer.exact)
                assert shown.get(reply.end) != looks, "it was shown before"
                shown[reply.end] = looks


@pytest.mark.parametrize("kind", KINDS)
def test_folded_changes_give_the_answers(kind: str) -> None:
    for seed in range(12):
        workload = random_workload(seed, many=2, counts=False, **KINDS[kind])
        plain = run_through(sb.Monitor(workload.queries(), time="t", id="id"), workload)
        told = [query_of(ask, emit="changes") for ask in workload.asks]
        held: dict[str, list[sb.Row]] = {}
        changed = run_through(sb.Monitor(told, time="t", id="id"), workload, saved=True)
        for answer, whole in zip(changed, plain, strict=True):
            held[answer.query] = fold(held.get(answer.query, []), answer.changes, workload.asks[0].prefer)  # type: ignore[arg-type]
            assert replies_rows(held[answer.query]) == replies_rows(whole.rows), f"seed {seed}"
            assert [row.unique_rank for row in held[answer.query]] == [row.unique_rank for row in whole.rows]


def replies_rows(rows: list[sb.Row]) -> list[Any]:
    return [repr((r.partition, r.rank, r.id, r.score, r.time, dict(r.values))) for r in rows]


@pytest.mark.parametrize("shape", ["equal", "random", "few"])
@pytest.mark.parametrize("ties", ["with", "dense"])
def test_what_is_kept_does_not_grow_with_the_window(ties: Any, shape: str) -> None:
    rng = np.random.default_rng(4)
    query = sb.Query("q", k=3, score="x", window=sb.Window(100_000, slide=10), ties=ties, max_ties=20)
    monitor = sb.Monitor([query], time="t", id="id")
    kept = []
    for batch in range(60):
        time = batch * 100 + np.arange(100)
        score = {"equal": np.ones(100), "random": rng.normal(size=100), "few": rng.integers(0, 9, 100) * 1.0}[shape]
        monitor.push({"t": time, "id": time, "x": score})
        answers = list(monitor.advance(int(time[-1])))
        kept.append(monitor.stats().kept)
    assert max(kept) < 2 * 120 + 2 * tied.SPARE + 21 * 11
    assert len(answers[-1].rows) >= 3


def test_each_row_has_a_seat_of_its_own() -> None:
    workload = random_workload(3, n=100, tied=True, ties="with", partitioned=True, distinct=None, counts=False)
    run = run_through(sb.Monitor(workload.queries(), time="t", id="id"), workload)
    assert any(len({row.rank for row in answer.rows}) < len(answer.rows) for answer in run)
    for answer in run:
        assert len({seat(row) for row in answer.rows}) == len(answer.rows)


def test_the_table_has_ranks_that_repeat_and_numbers_that_do_not() -> None:
    rows = [{"t": 1, "id": i, "x": x} for i, x in enumerate([5.0, 7.0, 5.0, 7.0, 1.0])]
    for ties, ranks in (("with", [1, 1, 3, 3]), ("dense", [1, 1, 2, 2])):
        asked = sb.Query("q", k=3 if ties == "with" else 2, score="x", window=sb.Window(10), ties=ties)  # type: ignore[arg-type]
        table = sb.run(asked, rows, time="t", id="id").table()
        assert table["rank"].to_pylist() == ranks
        assert table["unique_rank"].to_pylist() == [1, 2, 3, 4]
        assert table["id"].to_pylist() == [1, 3, 0, 2]
    plain = sb.run(replace(asked, ties=None), rows, time="t", id="id").table()
    assert "unique_rank" not in plain.column_names


def test_where_more_rows_tie_than_may_the_first_are_shown_and_it_is_said() -> None:
    rows = [{"t": t, "id": i, "x": 1.0} for i, t in enumerate([3, 1, 2, 2])]
    asked = sb.Query("q", k=1, score="x", window=sb.Window(10), ties="with", max_ties=3)
    (answer,) = sb.run(asked, rows, time="t", id="id")
    assert [(row.rank, row.id) for row in answer.rows] == [(1, 0), (1, 2), (1, 3)]
    assert not answer.exact
    assert answer.why == "cut to 3 rows, as max_ties says"
    (answer,) = sb.run(asked, rows[:3], time="t", id="id")
    assert answer.exact


def test_queries_share_a_group_where_they_treat_ties_alike() -> None:
    given: list[dict[str, Any]] = [
        {}, {"ties": "with"}, {"ties": "dense"}, {"ties": "with", "k": 3}, {"ties": "with", "max_ties": 9},
        {"prefer": "earliest"}, {"prefer": "earliest", "k": 5},
    ]  # fmt: skip
    plain: dict[str, Any] = {"k": 2, "score": "x", "window": sb.Window(10)}
    queries = [sb.Query(f"q{n}", **plain | more) for n, more in enumerate(given)]
    monitor = sb.Monitor(queries, time="t", id="id")
    found = [[query.name for query in group.queries] for group in rankings(monitor)]
    assert found == [["q0"], ["q1", "q3"], ["q2"], ["q4"], ["q5", "q6"]]
    said = monitor.explain()
    assert "ties with, at most 10,000" in said
    assert "equal scores share a rank, so panes keep their best 3, and all that tie with the last of them" in said
    assert "prefer earliest" in said


def test_what_cannot_be_asked_for_is_refused() -> None:
    plain: dict[str, Any] = {"k": 2, "score": "x", "window": sb.Window(10)}
    for more, said in (
        ({"max_ties": 5}, "max_ties is 5, which bounds answers with ties"),
        ({"prefer": "id"}, "prefer is 'id', which is for rankings of aggregates"),
        ({"ties": "with", "max_ties": 1}, "max_ties is 1, fewer rows than k, 2"),
        ({"ties": "with", "max_ties": 0}, "max_ties is 0; give a whole number"),
        ({"ties": "rank"}, "ties is 'rank'; use None, 'with' or 'dense'"),
        ({"select": ("unique_rank",)}, "select names 'unique_rank', which every answer has a column of its own for"),
        ({"prefer": "oldest"}, "prefer is 'oldest'; use 'latest', 'earliest' or 'id'"),
        ({"join": sb.Join("likes"), "score": "x + likes", "ties": "with"}, "leave ties='with' out"),
        ({"join": sb.Join("likes"), "score": "x + likes", "prefer": "earliest"}, "leave prefer='earliest' out"),
    ):
        with pytest.raises(sb.QueryError, match=said):
            sb.Query("q", **plain | more)
    tied = sb.Query("q", **plain, ties="with")
    with pytest.raises(sb.QueryError, match=r"'naive' keeps k events.* no ties='with'; leave that out, or take"):
        sb.Monitor([tied], algorithm="naive")


@pytest.mark.parametrize("ties", [None, "with", "dense"])
@pytest.mark.parametrize("prefer", ["latest", "earliest"])
def test_full_panes_equal_a_plain_sort(ties: Any, prefer: Any) -> None:
    """Panes with far more events than are kept, in several pieces."""
    for seed, k in ((0, 1), (1, 3), (2, 30)):
        rng = np.random.default_rng(seed)
        n = 150_000
        time, score = np.sort(rng.integers(0, 400, n)), rng.integers(0, 2_000, n) * 1.0
        data = {"t": time, "id": rng.permutation(n), "x": score}
        query = sb.Query("q", k=k, score="x", window=sb.Window(100, slide=50), ties=ties, prefer=prefer)
        for size in (n, 7_000):
            for answer in sb.run(query, data, time="t", id="id", batch_rows=size):
                end = int(answer.end)  # type: ignore[arg-type]
                inside = np.flatnonzero((time >= end - 100) & (time < end))
                turned = -time[inside] if prefer == "latest" else time[inside]
                order = inside[np.lexsort((data["id"][inside], turned, -score[inside]))]
                limit = np.unique(score[inside])[::-1][k - 1] if ties == "dense" else score[order][k - 1]
                best = order[:k] if ties is None else order[score[order] >= limit]
                assert [row.id for row in answer.rows] == data["id"][best].tolist()
                assert answer.exact


@pytest.mark.parametrize("ties", [None, "with", "dense"])
@pytest.mark.parametrize("prefer", ["latest", "earliest", "id"])
def test_aggregates(ties: Any, prefer: Any) -> None:
    cut = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        times, ids, values = np.sort(rng.integers(0, 40, 60)), rng.integers(0, 9, 60), rng.integers(0, 2, 60)
        drawn = zip(times.tolist(), ids.tolist(), values.tolist(), strict=True)
        rows = [{"t": t, "id": i, "x": float(x)} for t, i, x in drawn]
        k, most = int(rng.integers(1, 4)), 4
        more: dict[str, Any] = {} if ties is None else {"ties": ties, "max_ties": most}
        order: Any = ["desc", "asc"][seed % 2]
        query = sb.Query("q", k=k, score="sum(x)", window=sb.Window(20, slide=10), prefer=prefer, order=order, **more)
        for answer in sb.run(query, rows, time="t", id="id", watermark=0, batch_rows=int(rng.integers(1, 60))):
            inside = [row for row in rows if answer.start <= row["t"] < answer.end]
            sums: dict[Any, float] = {}
            last: dict[Any, Any] = {}
            for row in inside:
                sums[row["id"]] = sums.get(row["id"], 0.0) + row["x"]
                last[row["id"]] = row["t"]
            merit = {i: value if order == "desc" else -value for i, value in sums.items()}
            turned = {i: {"latest": -t, "earliest": t, "id": 0}[prefer] for i, t in last.items()}
            listed = sorted(sums, key=lambda i: (-merit[i], turned[i], i))
            better = {i: [merit[j] for j in sums if merit[j] > merit[i]] for i in sums}
            ranks = {
                i: {None: place, "with": len(better[i]) + 1, "dense": len(set(better[i])) + 1}[ties]
                for place, i in enumerate(listed, 1)
            }
            right = [(ranks[i], i, sums[i], last[i]) for i in listed if ranks[i] <= k]
            found = [(row.rank, row.id, row.score, row.time) for row in answer.rows]
            assert found == (right if ties is None else right[:most]), f"seed {seed}"
            assert answer.exact is (ties is None or len(right) <= most)
            cut += not answer.exact
    assert (cut > 0) is (ties is not None)
