"""Whole histories against the truth: every engine, every algorithm; what once failed is played again each time."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from skyband.algorithms import ALGORITHMS
from skyband.engine import pane_sums
from skyband.spark.reducers import groups, guesses, ranking
from tests.conformance.test_staircase import SMALL
from tests.simulation import joins, runs, subscriptions
from tests.simulation.engines import Outcome, shown
from tests.simulation.histories import Ask, Can, History, Step, draw
from tests.simulation.judge import judge
from tests.simulation.shrink import candidates, is_sound, shrink
from tests.simulation.truth import Truth

SEEDS = 40


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_monitor(algorithm: str) -> None:
    can, play = runs.monitor(algorithm)
    for seed in range(5 * SEEDS if algorithm == "staircase" else SEEDS):
        runs.check(seed, can, play, f"monitor-{algorithm}")


def test_monitor_in_pieces_and_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """With small limits, small histories take all the ways that are made for large ones."""
    for module, limits in SMALL:
        for name, value in limits.items():
            monkeypatch.setattr(module, name, value)
    can, play = runs.monitor("staircase")
    for seed in range(10_000, 10_000 + 3 * SEEDS):
        runs.check(seed, can, play, "monitor-staircase-small")


@pytest.mark.parametrize("algorithm", ["staircase", "naive", "mtoplist", "stkqf"])
def test_local_runs(algorithm: str) -> None:
    can, play = runs.local(algorithm)
    for seed in range(SEEDS):
        runs.check(seed, can, play, f"local-{algorithm}")


def test_restored_by_a_new_process() -> None:
    can, play = runs.monitor("staircase", new_process=True)
    restarted = [seed for seed in range(200) if any(step.do == "restart" for step in draw(seed, can).steps)]
    for seed in restarted[:4]:
        runs.check(seed, can, play, "process-staircase")


@pytest.mark.spark
def test_streams_on_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (guesses, ranking):  # guesses are made in small batches too, and fail
        monkeypatch.setattr(module, "EVERY", 2)
        monkeypatch.setattr(module, "SMALL", 4)
    monkeypatch.setattr(groups, "wanted", lambda k: k + 1.0)
    can, play = runs.spark(spark)
    for seed in range(6):
        runs.check(seed, can, play, "spark", rounds=30)


@pytest.mark.spark
def test_batches_on_spark(spark: Any) -> None:
    can, play = runs.batch(spark)
    for seed in range(8):
        runs.check(seed, can, play, "batch", rounds=30)


@pytest.mark.parametrize("method", subscriptions.METHODS)
def test_subscriptions(method: str) -> None:
    play = partial(subscriptions.judge, method=method)
    for seed in range(3 * SEEDS if method == "blocks" else SEEDS // 2):
        history = subscriptions.draw(seed)
        runs.examine(history, play, f"subscriptions-{method}", seed, folder=subscriptions.STORED)


@pytest.mark.spark
def test_subscriptions_on_spark(spark: Any) -> None:
    play = partial(subscriptions.on_spark, session=spark)
    for seed in range(4):
        history = subscriptions.draw(seed, on_spark=True)
        runs.examine(history, play, "subscriptions-spark", seed, rounds=10, folder=subscriptions.STORED)


def test_joins_and_aggregates() -> None:
    for seed in range(2 * SEEDS):
        runs.examine(joins.draw(seed), joins.judge, "joins", seed, rounds=400, folder=joins.STORED)


def test_aggregates_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, small in {"JOB": 2, "SCORED": 3, "MOST_PARTS": 2, "FEW_OBJECTS": 2, "_RUN": 1 << 30}.items():
        monkeypatch.setattr(pane_sums, name, small)
    for seed in range(SEEDS):
        history = joins.draw(seed, joins=False)
        runs.examine(history, joins.judge, "aggregates", seed, rounds=400, folder=joins.STORED)


@pytest.mark.spark
def test_aggregates_on_spark(spark: Any) -> None:
    play = partial(joins.on_spark, session=spark)
    for seed in range(4):
        history = joins.draw(seed, joins=False, on_spark=True)
        runs.examine(history, play, "aggregates-spark", seed, rounds=10, folder=joins.STORED)


@pytest.mark.spark
def test_groups_on_executors(spark: Any) -> None:
    pytest.importorskip("google.protobuf")
    can, play = runs.executors(spark)
    for seed in range(2, 5):
        runs.check(seed, can, play, "executors", rounds=10)


def test_what_once_failed() -> None:
    for file in sorted(runs.FOUND.glob("*.json")):
        history = History.from_json(file.read_text())
        for algorithm in ALGORITHMS:
            can, play = runs.monitor(algorithm)
            asks = [step.ask for step in history.steps if step.ask is not None]
            if all(ask.distinct in can.distincts and (can.grows or ask.kind == "sliding") for ask in asks):
                play(history)
    for file in sorted(subscriptions.STORED.glob("*.json")):
        for method in subscriptions.METHODS:
            subscriptions.judge(subscriptions.History.from_json(file.read_text()), method)
    for file in sorted(joins.STORED.glob("*.json")):
        joins.judge(joins.History.from_json(file.read_text()))


# The simulation itself.


def test_a_history_is_plain_data() -> None:
    for seed in range(20):
        history = draw(seed, Can())
        again = History.from_json(history.to_json())
        assert repr(again.steps) == repr(history.steps)
        assert draw(seed, Can()).to_json() == history.to_json()


def test_histories_of_the_other_kinds_are_plain_data() -> None:
    for seed in range(20):
        one, other = subscriptions.draw(seed), joins.draw(seed)
        assert repr(subscriptions.History.from_json(one.to_json()).steps) == repr(one.steps)
        assert repr(joins.History.from_json(other.to_json()).steps) == repr(other.steps)


def test_histories_of_subscriptions_have_everything_in_them() -> None:
    histories = [subscriptions.draw(seed) for seed in range(200)]
    steps = [step for history in histories for step in history.steps]
    assert {step.do for step in steps} == {"add", "remove", "advance", "restart", "push"}
    asks = [step.ask for step in steps if step.ask is not None]
    for name in ("counts", "family", "order", "where", "emit"):
        assert len({getattr(ask, name) for ask in asks}) > 1, name
    for name in ("within", "since", "until"):
        assert len([ask for ask in asks if getattr(ask, name)]) > 50, name
    truths = [subscriptions.Truth.of(history) for history in histories[:60]]
    heard = [h for truth in truths for piece in truth.steps for h in piece]
    assert {h.change for h in heard} == {"entered", "left", "returned"}
    assert sum(h.row == -1 for h in heard) > 100, "time alone does much"
    assert sum(truth.late or 0 for truth in truths) > 0
    assert sum(truth.counts["rejected"] > 0 for truth in truths) > 20


def test_histories_of_joins_have_everything_in_them() -> None:
    histories = [joins.draw(seed) for seed in range(200)]
    steps = [step for history in histories for step in history.steps]
    assert {step.do for step in steps} == {
        "register", "change", "pause", "resume", "remove", "restart", "push", "world", "tell",
    }  # fmt: skip
    asks = [step.ask for step in steps if isinstance(step.ask, joins.IdAsk)]
    names = ("order", "emit", "closed", "score", "where", "select", "group_by", "joined", "on", "condition", "whole",
             "budget", "policy", "only", "default")  # fmt: skip
    for name in names:
        assert len({getattr(ask, name) for ask in asks}) > 1, name
    assert {history.service for history in histories} == {"truthful", "fails", "gaps", "garbage"}


def test_histories_have_everything_in_them() -> None:
    histories = [draw(seed, Can(grows=True)) for seed in range(200)]
    steps = [step for history in histories for step in history.steps]
    assert {step.do for step in steps} == {"register", "change", "pause", "resume", "remove", "restart", "push"}
    asks = [step.ask for step in steps if step.ask is not None]
    for name in ("distinct", "order", "emit", "closed", "counts", "partition_by", "score", "where", "select", "kind"):
        assert len({getattr(ask, name) for ask in asks}) > 1, name
    truths = [Truth.of(history) for history in histories[:60]]
    assert sum(truth.late > 0 for truth in truths) > 5
    assert sum(truth.rejected > 0 for truth in truths) > 20
    assert sum(reply.is_covered for truth in truths for piece in truth.replies for reply in piece) > 20
    flags = {reply.must_be_exact for truth in truths for piece in truth.replies for reply in piece}
    assert flags == {True, False}


def test_a_window_that_a_query_came_too_late_for_need_not_show_in_a_table() -> None:
    row = dict.fromkeys(("x", "y", "i", "g", "n", "m"), None) | {"id": "a", "x": 1.0}
    first, later = Ask("first", 1, 1, 1, where="y > 0"), Ask("later", 1, 1, 1)
    times = (Step("push", (row | {"t": 20},)), Step("register", ask=later), Step("push", (row | {"t": 19},)))
    truth = Truth.of(History(0, 5, True, (Step("register", ask=first), *times, Step("push", (row | {"t": 40},)))))
    whole = [(reply.query, reply.end, reply.fresh) for reply in truth.replies[2] if reply.rows]
    assert whole == [("later", 20, [None]), ("later", 21, [])]
    table = {"query": ["later"], "window_start": [19], "window_end": [20], "rank": [1], "id": ["a"], "score": [1.0],
             "time": [19], "exact": [False], "why": ["warming up"]}  # fmt: skip
    seen = shown(pa.table(table), {"later": later})
    judge(Outcome([[], [], seen]), truth, ends=False, tables=True)
    with pytest.raises(AssertionError, match="not answered"):
        judge(Outcome([[], [], seen]), truth, ends=False)
    with pytest.raises(AssertionError, match="not answered"):
        judge(Outcome([[], [], []]), truth, ends=False, tables=True)


def test_partitions_that_are_shown_as_text_are_in_the_order_of_their_values() -> None:
    ask = Ask("q", 1, 1, 1, partition_by="i % 3", ties="with")
    row = {"query": "q", "window_start": 0, "window_end": 1, "rank": 1, "previous_rank": None, "unique_rank": 1}
    row |= {"id": "a", "score": 1.0, "time": 0}
    rows = [row | {"partition": part} for part in ("1", "-1", "-2", None, "0")]
    (answer,) = shown(pa.Table.from_pylist(rows), {"q": ask})
    assert answer.rows is not None
    assert [row[0] for row in answer.rows] == [None, -2, -1, 0, 1]


@pytest.mark.parametrize(("times", "covered"), [((4,), True), ((4, 6), False), ((4, 8), True)])
def test_a_query_that_begins_where_others_end_must_be_exact_unless_a_threshold_was_carried_on(
    times: tuple[int, ...], covered: bool
) -> None:
    row = dict.fromkeys(("y", "i", "g", "n", "m"), None) | {"id": "a", "x": 1.0}
    first, later = Ask("first", 2, 5, 4), Ask("later", 2, 4, 4, offset=1)  # from 0, 4, 8 to 5, 9, 13; from 1, 5, 9
    rows = tuple(row | {"t": t} for t in times)
    steps = (Step("register", ask=first), Step("push", rows), Step("register", ask=later))
    history = History(0, None, True, (*steps, Step("push", (row | {"t": 7},))))
    found = {r.end: r.is_covered for r in Truth.of(history).replies[-1] if r.query == "later"}
    assert found[9] is covered
    _, play = runs.monitor("staircase")
    play(history)


def test_what_fails_is_cut_down() -> None:
    def fails(history: History) -> bool:  # where a row of group ü comes to a query that is paused
        return any(step.do == "pause" for step in history.steps) and any(
            row["g"] == "ü" for rows in history.pushes() for row in rows
        )

    history = next(h for h in (draw(seed, Can()) for seed in range(2_000)) if fails(h))
    small = shrink(history, fails)
    assert is_sound(small)
    assert fails(small)
    assert sorted(step.do for step in small.steps) == ["pause", "push", "register"]
    assert [len(rows) for rows in small.pushes()] == [1]
    assert not any(fails(other) for other in candidates(small) if is_sound(other))
