"""Registering, removing, changing and pausing queries while the stream runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import skyband as sb
from skyband.errors import TooManyWindows
from tests.conformance.registry import algorithms, ranks
from tests.groups import rankings
from tests.oracle import Ask, Oracle, Reply
from tests.streams import Workload, query_of, random_workload, replies_of, table_of


def truth_of(ask: Ask, workload: Workload) -> dict[tuple[int | None, int], Reply]:
    """Answer one query over the whole stream, as if it had been there from the start."""
    oracle = Oracle([ask], workload.delay)
    for batch in workload.batches():
        oracle.batch(batch)
    oracle.end()
    return {(reply.start, reply.end): reply for reply in oracle.replies}


@pytest.mark.parametrize("algorithm", algorithms())
def test_whatever_is_called_exact_is(algorithm: str) -> None:
    flags = {True: 0, False: 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        workload = random_workload(seed, many=5, counts=False, **ranks(algorithm))
        batches = workload.batches()
        joins = {ask.name: int(rng.integers(0, len(batches))) for ask in workload.asks}
        leaves = {ask.name: int(rng.integers(0, 2 * len(batches))) for ask in workload.asks}
        monitor = sb.Monitor(algorithm=algorithm, time="t", id="id")
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
            truth = truth_of(ask, workload)
            for answer in (a for a in answers if a.query == ask.name):
                flags[answer.exact] += 1
                (reply,) = replies_of([answer])
                if answer.exact:
                    expected = truth[reply.start, reply.end].rows if (reply.start, reply.end) in truth else []
                    assert reply.rows == expected, f"{algorithm}, seed {seed}, {ask}, [{reply.start}, {reply.end})"
                else:
                    assert answer.why == "warming up"
    assert flags[True] > 5 * flags[False] > 0, f"both must occur: {flags}"


@pytest.mark.parametrize("algorithm", algorithms())
def test_other_queries_never_notice(algorithm: str) -> None:
    for seed in range(25):
        workload = random_workload(seed, many=2, delay=15, **ranks(algorithm))
        stays, guest = workload.asks
        found = []
        for with_guest in (False, True):
            monitor = sb.Monitor([query_of(stays)], algorithm=algorithm, time="t", id="id")
            answers: list[sb.Answer] = []
            for turn, batch in enumerate(workload.batches()):
                if with_guest and turn == 1:
                    monitor.register(query_of(replace(guest, k=50)))
                if with_guest and turn == 3:
                    monitor.unregister(guest.name)
                answers += monitor.push(table_of(batch, workload.text))
                if monitor.newest > -(2**61):
                    answers += monitor.advance(monitor.newest - 15)
            answers += monitor.finish()
            found.append([(r.start, r.end, r.rows) for r in replies_of(answers) if r.query == stays.name])
        # A guest with longer windows lets in events that are late for the one that stays: they change nothing for it.
        assert found[0] == found[1], f"{algorithm}, seed {seed}"


def market(rows: int = 4000, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"t": np.arange(rows), "id": rng.integers(0, 100, rows), "x": rng.normal(size=rows)}


def part(data: dict[str, np.ndarray], a: int, b: int) -> dict[str, np.ndarray]:
    return {name: column[a:b] for name, column in data.items()}


def test_a_query_that_fits_is_exact_at_once_and_one_that_does_not_warms_up() -> None:
    data = market()
    monitor = sb.Monitor([sb.Query("big", k=20, score="x", window=sb.Window(1000, slide=100))], time="t", id="id")
    monitor.push(part(data, 0, 2000))
    monitor.advance(2000)
    monitor.register(sb.Query("fits", k=10, score="x", window=sb.Window(500, slide=100)))
    monitor.register(sb.Query("too long", k=10, score="x", window=sb.Window(2000, slide=100)))
    monitor.register(sb.Query("too deep", k=30, score="x", window=sb.Window(500, slide=100)))
    monitor.register(sb.Query("other score", k=1, score="-x", window=sb.Window(500, slide=100)))
    monitor.register(sb.Query("other cuts", k=10, score="x", window=sb.Window(500, slide=70, offset=3)))
    monitor.push(part(data, 2000, 4000))
    answers = list(monitor.advance(4000))
    exact: dict[str, list[Any]] = {}
    for answer in answers:
        exact.setdefault(answer.query, []).extend([answer.end] if answer.exact else [])
    assert exact["fits"][0] == 2100
    assert exact["too long"][0] in (2900, 3000, 3100)  # once no window reaches what is gone
    assert exact["too deep"][0] == 2200, "at first what was dropped could matter, then it is seen that it does not"
    assert exact["other score"][0] == 2500
    assert exact["other cuts"][0] == 2043, "proven, though its windows begin in the middle of panes"
    truth = {(a.query, a.end): a.rows for a in sb.run(monitor.queries, data, time="t", id="id")}
    assert all(a.rows == truth[a.query, a.end] for a in answers if a.exact)


def test_pausing_hides_answers_and_keeps_what_they_need() -> None:
    data = market()
    queries = [sb.Query(n, k=3, score="x", window=sb.Window(100, slide=50)) for n in ("a", "b")]
    monitor = sb.Monitor(queries, time="t", id="id")
    truth = {(a.query, a.end): a.rows for a in sb.run(queries, data, time="t", id="id")}
    monitor.push(part(data, 0, 1000))
    monitor.advance(1000)
    monitor.pause("a")
    monitor.push(part(data, 1000, 2000))
    assert {a.query for a in monitor.advance(2000)} == {"b"}
    monitor.resume("a")
    monitor.push(part(data, 2000, 3000))
    answers = monitor.advance(3000)
    assert [a.end for a in answers if a.query == "a"] == list(range(2050, 3001, 50))
    assert all(a.exact and truth[a.query, a.end] == a.rows for a in answers)


def test_changing_a_query_keeps_what_is_kept() -> None:
    data = market()
    monitor = sb.Monitor([sb.Query("a", k=20, score="x", window=sb.Window(1000, slide=100))], time="t", id="id")
    monitor.push(part(data, 0, 2000))
    monitor.advance(2000)
    monitor.change(sb.Query("a", k=5, score="x", window=sb.Window(600, slide=100)))
    monitor.push(part(data, 2000, 3000))
    smaller = sb.Query("a", k=5, score="x", window=sb.Window(600, slide=100))
    truth = {a.end: a.rows for a in sb.run(smaller, data, time="t", id="id")}
    answers = monitor.advance(3000)
    assert len(answers) == 10
    assert all(a.exact and a.rows == truth[a.end] for a in answers)


@pytest.mark.parametrize("change", [True, False])
def test_what_a_query_needed_that_went_serves_the_one_in_its_place(change: bool) -> None:
    """Another query that needs less does not let it go in between."""
    data = market()
    deep, shallow = (
        sb.Query(f"best {k}", k=k, score="x", window=sb.Window(size, slide=100)) for k, size in ((20, 1000), (2, 100))
    )
    monitor = sb.Monitor([deep, shallow], time="t", id="id")
    monitor.push(part(data, 0, 2000))
    monitor.advance(2000)
    less = sb.Query("best 20" if change else "less", k=10, score="x", window=sb.Window(600, slide=100))
    assert monitor.backfill_for(less) is None
    if change:
        monitor.change(less)
    else:
        monitor.unregister("best 20")
        assert monitor.register(less) == [None]
    monitor.push(part(data, 2000, 3000))
    answers = [a for a in monitor.advance(3000) if a.query == less.name]
    truth = {a.end: a.rows for a in sb.run(less, data, time="t", id="id")}
    assert len(answers) == 10
    assert all(a.exact and a.rows == truth[a.end] for a in answers)


def test_what_a_query_left_serves_it_when_it_comes_back_before_a_pane_is_sealed() -> None:
    data = market()
    long, short = (sb.Query(f"{size}", k=5, score="x", window=sb.Window(size, slide=100)) for size in (1000, 100))
    monitor = sb.Monitor([long, short], time="t", id="id")
    monitor.push(part(data, 0, 2000))
    monitor.advance(2000)
    monitor.unregister("1000")
    monitor.push(part(data, 2000, 2050))
    assert monitor.register(long) == [None]
    monitor.push(part(data, 2050, 2100))
    (answer,) = [a for a in monitor.advance(2100) if a.query == "1000"]
    truth = {a.end: a.rows for a in sb.run(long, data, time="t", id="id")}
    assert (answer.exact, answer.rows) == (True, truth[2100])


def test_unknown_and_double_names_are_refused() -> None:
    query = sb.Query("a", k=1, score="x", window=sb.Window(10))
    monitor = sb.Monitor([query], time="t", id="id")
    with pytest.raises(sb.QueryError, match="already a query named 'a'"):
        monitor.register(query)
    with pytest.raises(sb.QueryError, match="no query 'b'; there are 'a'"):
        monitor.unregister("b")
    with pytest.raises(sb.QueryError, match="already a query named 'c'"):
        sb.Monitor([replace(query, name="c"), replace(query, name="c")])


def test_a_query_over_a_column_that_is_not_there_is_refused_and_changes_nothing() -> None:
    monitor = sb.Monitor([sb.Query("a", k=1, score="x", window=sb.Window(10))], time="t", id="id")
    monitor.push(part(market(), 0, 5))
    with pytest.raises(sb.QueryError, match=r"query 'b': .*'y'.*(x|columns)"):
        monitor.register(sb.Query("b", k=1, score="y", window=sb.Window(10)))
    assert [query.name for query in monitor.queries] == ["a"]


def test_a_query_with_too_many_windows_is_refused_and_changes_nothing() -> None:
    day = 86_400_000_000
    rows: dict[str, list[Any]] = {
        "t": [place * day // 100 for place in range(200)], "x": [float(place % 17) for place in range(200)],
    }  # fmt: skip
    often = sb.Query("a", k=2, score="x", window=sb.Window("1 day", slide="1 hour"))
    too_often = replace(often, name="b", window=sb.Window("1 day", slide=1000))
    answers = []
    for tried in (False, True):
        monitor = sb.Monitor([often], time="t", id="t")
        monitor.push({name: column[:150] for name, column in rows.items()})
        got = list(monitor.advance(3 * day // 2))
        if tried:
            with pytest.raises(TooManyWindows, match=r"a slide of 1000 has 168,336,002 windows .*longer slide"):
                monitor.register(too_often)
            with pytest.raises(TooManyWindows):
                monitor.change(replace(too_often, name="a"))
        monitor.push({name: column[150:] for name, column in rows.items()})
        answers.append(replies_of([*got, *monitor.finish()]))
    assert answers[0] == answers[1]


def test_changing_a_query_keeps_the_answer_that_changes_are_told_against() -> None:
    query = sb.Query("a", k=1, score="x", window=sb.Window(10), emit="changes")
    monitor = sb.Monitor([query], time="t", id="id")
    monitor.push([{"t": 1, "id": "a", "x": 1.0}, {"t": 12, "id": "b", "x": 1.0}])
    monitor.advance(10)
    monitor.change(replace(query, k=2))
    (answer,) = monitor.advance(20)
    assert [(change.kind, change.row.id) for change in answer.changes] == [("left", "a"), ("entered", "b")]


def test_a_query_that_ranks_otherwise_tells_its_changes_from_the_beginning() -> None:
    query = sb.Query("a", k=1, score="x", window=sb.Window(10), emit="changes")
    monitor = sb.Monitor([query], time="t", id="id")
    monitor.push([{"t": 1, "id": "a", "x": 1.0}])
    monitor.advance(10)
    monitor.change(replace(query, score="-x"))
    monitor.push([{"t": 12, "id": "b", "x": 1.0}])
    (answer,) = monitor.advance(20)
    assert [(change.kind, change.row.id) for change in answer.changes] == [("entered", "b")]


def test_a_count_query_that_joins_late_counts_from_then_on_and_warms_up() -> None:
    data = market()
    monitor = sb.Monitor([sb.Query("time", k=1, score="x", window=sb.Window(100))], time="t", id="id")
    monitor.push(part(data, 0, 1000))
    monitor.advance(1000)
    monitor.register(sb.Query("count", k=2, score="x", window=sb.Window("200 events", slide="100 events")))
    answers = [answer for answer in monitor.push(part(data, 1000, 1400)) if answer.query == "count"]
    assert [(answer.end, answer.exact) for answer in answers] == [(100, False), (200, True), (300, True), (400, True)]
    best = np.argsort(-data["x"][1000:1200])[:2] + 1000
    assert [row.time for row in answers[1].rows] == best.tolist()


@pytest.mark.parametrize("algorithm", algorithms())
def test_many_late_events_of_a_closed_pane_are_not_forgotten_as_lost(algorithm: str) -> None:
    """Of 300 late events only the best is kept; a deeper query that comes then must know that others are gone."""
    late = {"t": np.full(300, 60), "id": np.arange(300), "x": np.random.default_rng(5).normal(size=300)}
    shallow = sb.Query("one", k=1, score="x", window=sb.Window(100, slide=50))
    deep = sb.Query("three", k=3, score="x", window=sb.Window(100, slide=50))
    monitor = sb.Monitor([shallow], algorithm=algorithm, time="t", id="id")
    monitor.push([{"t": 0, "id": -1, "x": 0.0}])
    monitor.advance(100)
    monitor.push(late)
    monitor.register(deep)
    (answer,) = [a for a in monitor.advance(150) if a.query == "three"]
    assert not answer.exact or [row.score for row in answer.rows] == sorted(late["x"], reverse=True)[:3]


@pytest.mark.parametrize("order", ["desc", "asc"])
@pytest.mark.parametrize("algorithm", algorithms())
def test_lost_events_of_the_worst_score_are_lost_too(algorithm: str, order: str) -> None:
    worst = -np.inf if order == "desc" else np.inf
    shallow = sb.Query("one", k=1, score="x", window=sb.Window(10), order=order)  # type: ignore[arg-type]
    monitor = sb.Monitor([shallow], algorithm=algorithm, time="t", id="id")
    monitor.push([{"t": t, "id": t, "x": worst} for t in range(4)])
    monitor.register(replace(shallow, name="five", k=5), replace(shallow, name="some", k=3, window=sb.Window(5)))
    answers = {(a.query, a.end): a for a in monitor.finish()}
    assert [row.id for row in answers["one", 10].rows] == [3]
    for key, right in ((("five", 10), [3, 2, 1, 0]), (("some", 5), [3, 2, 1])):
        assert not answers[key].exact or [row.id for row in answers[key].rows] == right


@pytest.mark.parametrize("algorithm", algorithms())
def test_a_lost_event_that_would_win_a_tie_is_not_taken_for_beaten(algorithm: str) -> None:
    shallow = sb.Query("one", k=1, score="x", window=sb.Window(10))
    monitor = sb.Monitor([shallow], algorithm=algorithm, time="t", id="id")
    rows = ((5, "a", 5.0), (12, "z", 9.0), (15, "later", 5.0))
    monitor.push([{"t": t, "id": name, "x": score} for t, name, score in rows])
    monitor.register(sb.Query("two", k=2, score="x", window=sb.Window(20)))
    (answer,) = [a for a in monitor.finish() if a.query == "two"]
    assert not answer.exact or [row.id for row in answer.rows] == ["z", "later"]


@pytest.mark.parametrize("scores", [(9.0, 5.0), (5.0, 9.0)])
@pytest.mark.parametrize("algorithm", algorithms())
def test_a_window_that_starts_or_ends_with_the_newest_event_may_miss_one(
    algorithm: str, scores: tuple[float, float]
) -> None:
    """Of the two only the better is kept: they lie in one pane."""
    one = sb.Query("one", k=1, score="x", window=sb.Window(10))
    monitor = sb.Monitor([one], algorithm=algorithm, time="t", id="id")
    monitor.push([{"t": t, "id": t, "x": x} for t, x in zip((12, 15), scores, strict=True)])
    monitor.register(replace(one, name="half", window=sb.Window(5)))
    answers = {a.start: a for a in monitor.finish() if a.query == "half"}
    for start, right in ((10, [12]), (15, [15])):
        assert not answers[start].exact or [row.id for row in answers[start].rows] == right


@pytest.mark.parametrize("worst", [0.0, -np.inf])
def test_where_nothing_was_lost_a_deeper_query_is_exact(worst: float) -> None:
    """Windows cut through panes that hold fewer events than were asked for: all that came is there."""
    monitor = sb.Monitor([sb.Query("three", k=3, score="x", window=sb.Window(10))], time="t", id="id")
    monitor.push([{"t": 2, "id": "a", "x": worst}, {"t": 8, "id": "b", "x": 1.0}])
    monitor.advance(1)
    monitor.register(sb.Query("nine", k=9, score="x", window=sb.Window(7, slide=3)))
    answers = [a for a in monitor.finish() if a.query == "nine"]
    assert answers
    assert all(a.exact for a in answers)


@pytest.mark.parametrize("algorithm", ["staircase", "naive", "mintopk"])
def test_a_row_that_is_late_for_one_query_begins_only_the_other(algorithm: str) -> None:
    short = sb.Query("short", k=1, score="x", window=sb.Window(10))
    long = sb.Query("long", k=1, score="x", window=sb.Window(100, slide=50))
    shown = []
    for queries in ([short], [short, long], [long]):
        monitor = sb.Monitor(queries, algorithm=algorithm, time="t", id="id")
        answers = [*monitor.advance(50)]
        monitor.push([{"t": 20, "id": "late for one", "x": 9.0}, {"t": 22, "id": "nothing", "x": np.nan}])
        monitor = sb.Monitor.restore(monitor.snapshot())
        answers += monitor.advance(70)
        monitor.push([{"t": 95, "id": "a", "x": 1.0}])
        answers += [*monitor.advance(100), *monitor.finish()]
        shown.append([(a.query, a.start, a.end, [row.id for row in a.rows]) for a in answers])
    assert shown[0] == [("short", 90, 100, ["a"])]
    assert shown[2] == [("long", 0, 100, ["late for one"]), ("long", 50, 150, ["a"])]
    assert sorted(shown[1]) == sorted(shown[0] + shown[2])


def test_an_event_where_the_next_window_starts_is_the_first_of_it() -> None:
    short = sb.Query("short", k=1, score="x", window=sb.Window(10))
    long = sb.Query("long", k=1, score="x", window=sb.Window(100, slide=50))
    monitor = sb.Monitor([short, long], time="t", id="t")
    monitor.advance(50)
    monitor.push([{"t": 20, "x": 1.0}, {"t": 50, "x": 1.0}])  # the first is late for the short one
    assert [(a.start, [row.id for row in a.rows]) for a in monitor.advance(60)] == [(50, [50])]


def test_a_query_that_comes_after_the_last_event_waits_for_its_first() -> None:
    monitor = sb.Monitor([sb.Query("old", k=1, score="x", window=sb.Window(10))], time="t", id="id")
    monitor.push([{"t": 5, "id": "a", "x": 1.0}])
    monitor.advance(40)
    monitor.register(sb.Query("new", k=1, score="x", window=sb.Window(10)))
    monitor.push([{"t": 75, "id": "b", "x": 1.0}])
    assert [a.end for a in monitor.finish() if a.query == "new"] == [80]


def test_a_query_that_waits_for_its_first_event_may_wait_long() -> None:
    old, new = (sb.Query(name, k=1, score="x", window=sb.Window(10)) for name in ("old", "new"))
    monitor = sb.Monitor([old], time="t", id="t")
    monitor.push([{"t": 5, "x": 1.0}])
    monitor.advance(40)
    monitor.register(new)
    monitor.unregister("old")
    assert [len(monitor.advance(watermark)) for watermark in (100, 200, 245)] == [0, 0, 0]
    monitor.push([{"t": 255, "x": 1.0}])
    assert [(a.end, a.exact, [row.id for row in a.rows]) for a in monitor.advance(260)] == [(260, True, [255])]


def test_answers_come_in_order_of_their_ends_whichever_side_is_closed() -> None:
    stream = [{"t": t, "id": t, "x": float(t)} for t in range(40)]
    left, right, other = (
        sb.Query("left", k=1, score="x", window=sb.Window(5, slide=1)),
        sb.Query("right", k=1, score="x", window=sb.Window(6, slide=1, closed="right")),
        sb.Query("other", k=1, score="-x", window=sb.Window(5, slide=1)),
    )
    for queries in ([left, right], [right, left], [left, right, other]):
        names = [query.name for query in queries]
        monitor = sb.Monitor(queries, time="t", id="id")
        monitor.push(stream)
        answers = monitor.advance(30)
        order = [(answer.end, names.index(answer.query)) for answer in answers]
        assert order == sorted(order)
        assert len(answers) == 30 * len(queries)
    monitor.change(replace(left, k=2))
    order = [(answer.end, names.index(answer.query)) for answer in monitor.finish()]
    assert order == sorted(order), "a query that was changed keeps its turn"


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("algorithm", algorithms())
def test_a_late_event_that_nobody_took_in_is_missed_by_queries_that_come_later(algorithm: str, restored: bool) -> None:
    monitor = sb.Monitor(
        [sb.Query("short", k=1, score="x", window=sb.Window(10))], algorithm=algorithm, time="t", id="id"
    )
    monitor.advance(50)
    monitor.push([{"t": 20, "id": "late", "x": 9.0}])
    assert monitor.stats().late == 1
    if restored:
        monitor = sb.Monitor.restore(monitor.snapshot())
    monitor.register(sb.Query("long", k=1, score="x", window=sb.Window(100)))
    monitor.push([{"t": t, "id": f"at {t}", "x": 1.0} for t in (60, 105)])
    found = {a.start: a for a in monitor.finish() if a.query == "long"}
    assert not found[0].exact or [row.id for row in found[0].rows] == ["late"]
    assert found[100].exact


@pytest.mark.parametrize("algorithm", algorithms())
def test_what_is_forgotten_is_not_taken_for_empty_when_a_late_event_reaches_back(algorithm: str) -> None:
    monitor = sb.Monitor(
        [sb.Query("short", k=1, score="x", window=sb.Window(10))], algorithm=algorithm, time="t", id="id"
    )
    monitor.push([{"t": 25, "id": "gone", "x": 9.0}, {"t": 55, "id": "too", "x": 1.0}])
    monitor.advance(60)
    monitor.push([{"t": 65, "id": "new", "x": 1.0}, {"t": 5, "id": "late", "x": 0.0}])
    monitor.register(sb.Query("long", k=1, score="x", window=sb.Window(100, offset=20)))
    (answer,) = [a for a in monitor.finish() if (a.query, a.start) == ("long", 20)]
    assert not answer.exact or [row.id for row in answer.rows] == ["gone"]


@pytest.mark.parametrize("algorithm", algorithms())
def test_a_tie_with_what_was_lost_proves_nothing(algorithm: str) -> None:
    """The event that is gone is as good as those that are left, and later than one of them."""
    monitor = sb.Monitor(
        [sb.Query("one", k=1, score="x", window=sb.Window(10))], algorithm=algorithm, time="t", id="id"
    )
    monitor.push([{"t": t, "id": name, "x": 7.0} for t, name in ((5, "early"), (15, "a"), (15, "b"))])
    monitor.register(sb.Query("two", k=2, score="x", window=sb.Window(20)))
    (answer,) = [a for a in monitor.finish() if a.query == "two"]
    assert not answer.exact or [row.id for row in answer.rows] == ["a", "b"]


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("algorithm", algorithms())
def test_a_partition_of_which_nothing_is_left_is_not_taken_for_empty(algorithm: str, restored: bool) -> None:
    """What is left is better than all that is gone, but of another partition."""
    alike: dict[str, Any] = {"score": "x", "partition_by": "g"}
    long = sb.Query("long", k=5, window=sb.Window(100, slide=10), **alike)
    short = sb.Query("short", k=3, window=sb.Window(10), **alike)
    monitor = sb.Monitor([long, short], algorithm=algorithm, time="t", id="id")
    for i in range(300):  # so many that a snapshot leaves them out
        monitor.push([{"t": 45, "id": i, "x": i / 1_000, "g": "gone"}])
    monitor.advance(60)
    monitor.push([{"t": 65, "id": 0, "x": 9.0, "g": "here"}])
    monitor.unregister("long")
    if restored:
        monitor = sb.Monitor.restore(monitor.snapshot())
    monitor.register(sb.Query("again", k=1, window=sb.Window(100, slide=10), **alike))
    right = [("gone", 0.299), ("here", 9.0)]
    for answer in [a for a in monitor.advance(80) if a.query == "again"]:
        assert not answer.exact or [(row.partition, row.score) for row in answer.rows] == right


def test_a_window_that_begins_where_the_past_is_forgotten_can_be_proven_exact() -> None:
    monitor = sb.Monitor([sb.Query("one", k=1, score="x", window=sb.Window(10))], time="t", id="t")
    monitor.push([{"t": t, "x": x} for t, x in ((5, 1.0), (41, 9.0), (42, 8.0))])
    monitor.advance(40)
    monitor.register(sb.Query("two", k=2, score="x", window=sb.Window(40)))
    monitor.push([{"t": t, "x": x} for t, x in ((51, 10.0), (65, 11.0), (81, 98.0), (82, 99.0))])
    answer = next(a for a in monitor.finish() if a.query == "two")
    assert (answer.start, [row.id for row in answer.rows], answer.exact) == (40, [65, 51], True)


@pytest.mark.parametrize("algorithm", algorithms())
def test_a_query_that_comes_later_answers_no_count_window_of_before(algorithm: str) -> None:
    window = sb.Window("4 events", slide="2 events")
    first, later = (sb.Query(name, k=1, score="x", window=window) for name in ("first", "later"))
    monitor = sb.Monitor([first], algorithm=algorithm, time="t", id="t")
    monitor.push([{"t": t, "x": float(t)} for t in range(7)])
    monitor.register(later)
    answers = monitor.push([{"t": t, "x": float(t)} for t in range(7, 12)])
    found = [(a.query, a.start, a.end, [row.id for row in a.rows]) for a in answers]
    expected = [(start, start + 4, [start + 3]) for start in (4, 6, 8)]
    assert sorted(found) == [(name, *window) for name in ("first", "later") for window in expected]
    assert len(monitor.finish()) == 0


def test_what_only_a_query_that_went_needed_is_dropped() -> None:
    few, many = (
        sb.Query(f"best {k}", k=k, score="x", window=sb.Window(size, slide=10)) for k, size in ((1, 10), (50, 1_000))
    )
    monitor = sb.Monitor([few, many], time="t", id="t")
    monitor.push([{"t": t, "x": float(t * 37 % 101)} for t in range(200)])
    monitor.advance(200)
    assert monitor.stats().kept > 100
    monitor.unregister("best 50")
    monitor.push([{"t": t, "x": float(t * 37 % 101)} for t in range(200, 220)])
    monitor.advance(220)
    assert monitor.stats().kept <= 2
