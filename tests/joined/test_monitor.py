"""Joined queries in a monitor: right where everything may be asked, the same however the input comes, never beyond
their budgets, and as good as new from a snapshot."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import skyband as sb
from skyband.answers.changes import difference
from skyband.remote.services import Limits, ServiceError
from tests.groups import joins
from tests.joined import oracle
from tests.joined.oracle import Event

BY_ID = {name: float(name * 7 % 11) for name in range(8)}  # the ninth has none
BY_HOME = {"h0": 3.0, "h1": 8.0, "h2": 5.5}


def fine(x: float | None) -> bool:
    return x is not None and not math.isnan(x)


def numbers(mine: list[Event]) -> list[float]:
    return [e["x"] for e in mine if fine(e["x"])]


CASES: dict[str, tuple[str, oracle.Score, Callable[[Event], bool]]] = {
    "latest": ("2 * x + value", lambda mine, v: 2 * mine[-1]["x"] + v, lambda e: fine(e["x"])),
    "remote alone": ("value", lambda _, v: v, lambda _: True),
    "product": ("(x + 1) * value", lambda mine, v: (mine[-1]["x"] + 1) * v, lambda e: fine(e["x"])),
    "count": ("count(*) + value", lambda mine, v: len(mine) + v, lambda _: True),
    "some": ("count(x) - value", lambda mine, v: len(numbers(mine)) - v, lambda _: True),
    "sum": ("sum(x) + 0.5 * value", lambda mine, v: sum(numbers(mine)) + 0.5 * v if numbers(mine) else None,
            lambda _: True),
    "extremes": ("max(x) - min(x) + value",
                 lambda mine, v: max(numbers(mine)) - min(numbers(mine)) + v if numbers(mine) else None,
                 lambda _: True),
    "mean": ("avg(x) + value",
             lambda mine, v: sum(numbers(mine)) / len(numbers(mine)) + v if numbers(mine) else None, lambda _: True),
}  # fmt: skip
WINDOWS = [
    sb.Window(60, slide=20),
    sb.Window(50, slide=20, offset=3),
    sb.Window(45, slide=45, closed="right"),
    sb.Window(70, slide=30, closed="right", offset=7),
]


def ask(values: Mapping[Any, float]) -> Callable[[Any], dict[Any, float | None]]:
    return lambda ids: {name: values.get(name) for name in ids}


def open_to_all(values: Mapping[Any, float]) -> sb.Remote:
    """A service that is asked again for what does not exist: so answers know that it still does not."""
    return sb.Remote(ask(values), limits=Limits(remember_missing=0))


def shown(answers: Any) -> list[tuple[int, int, list[tuple[Any, float]]]]:
    return [(a.start, a.end, [(row.id, row.score) for row in a.rows]) for a in answers]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("policy", ["WSJ-LRU", "AT-ASM"])
def test_with_no_bound_answers_are_those_of_the_oracle(case: str, policy: str) -> None:
    score, meaning, keep = CASES[case]
    for seed in range(4):
        rng = random.Random(seed)
        on = rng.choice([None, "home"])
        values: Mapping[Any, float] = BY_ID if on is None else BY_HOME
        query = sb.Query(
            "q", k=rng.randint(1, 4), score=score, window=rng.choice(WINDOWS), order=rng.choice(["desc", "asc"]),
            where="ok", join=sb.Join("value", on=on, policy=policy, n=20),
        )  # fmt: skip
        stream = oracle.events(seed, jitter=15)
        found = list(
            sb.run(query, stream, time="t", id="id", watermark=rng.choice([None, 30]), batch_rows=rng.randint(5, 60),
                   services={"value": open_to_all(values)})
        )  # fmt: skip
        wanted = oracle.answers(
            query, stream, meaning, values, on=on or "id", keep=lambda e: bool(e["ok"]) and keep(e)
        )  # fmt: skip
        assert shown(found) == wanted, seed
        assert all(a.stale == 0 and a.failures == 0 and a.exact for a in found)


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
def test_conditions_on_the_remote_value(sign: str) -> None:
    compare = {
        "<": lambda v: v < 7, "<=": lambda v: v <= 7, ">": lambda v: v > 7, ">=": lambda v: v >= 7,
    }[sign]  # fmt: skip
    for seed in range(8):
        query = sb.Query(
            "q", k=3, score="x + value", window=WINDOWS[seed % 4], where=f"ok AND value {sign} 7",
            join=sb.Join("value", policy=["Filter Update", "WSJ-RND", "WSJ-WBM"][seed % 3]),
        )  # fmt: skip
        stream = oracle.events(seed)
        found = list(sb.run(query, stream, time="t", id="id", services={"value": open_to_all(BY_ID)}))
        wanted = oracle.answers(
            query, stream, lambda mine, v: mine[-1]["x"] + v, BY_ID, keep=lambda e: e["ok"] and fine(e["x"]),
            passes=compare,
        )  # fmt: skip
        assert shown(found) == wanted
        assert all(a.exact for a in found)


def harsh(rng: random.Random, truth: dict[Any, float]) -> None:
    """Half of the values change, by far; ids come and go."""
    for name in list(range(9)) + [f"h{i}" for i in range(4)]:
        if rng.random() < 0.5:
            truth.pop(name, None)
        if rng.random() < 0.5:
            truth[name] = float(rng.choice([rng.randint(-5, 15), 1_000, -1_000]))


def follow(query: sb.Query, stream: list[Event], seed: int, meaning: oracle.Score, **of: Any) -> list[sb.Answer]:
    """Answer window by window while the world changes from one to the next; every answer must be the oracle's."""
    rng, truth = random.Random(seed), dict[Any, float]()
    remote = sb.Remote(lambda ids: {name: truth.get(name) for name in ids}, limits=Limits(remember_missing=0, batch=3))
    monitor = sb.Monitor([query], time="t", id="id", services={"value": remote})
    monitor.push(stream)
    found = []
    for _, end, _ in oracle.answers(query, stream, meaning, truth, **of):
        harsh(rng, truth)
        answers = list(monitor.advance(end + 1))
        wanted = [one for one in oracle.answers(query, stream, meaning, truth, **of) if one[1] == end]
        assert shown(answers) == wanted, (seed, end)
        found += answers
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("policy", [None, "AT-BSM", "AT-TSM", "AT-WBM", "WSJ-RND", "AT-GAIN.set"])
def test_without_a_budget_answers_are_exact_whatever_changes(case: str, policy: str | None) -> None:
    score, meaning, keep = CASES[case]
    for seed in range(3):
        rng = random.Random(seed)
        on = rng.choice([None, "home"])
        query = sb.Query(
            "q", k=rng.randint(1, 3), score=score, window=rng.choice(WINDOWS), order=rng.choice(["desc", "asc"]),
            where="ok", join=sb.Join("value", on=on, policy=policy, n=rng.randint(0, 3)),
        )  # fmt: skip
        found = follow(
            query, oracle.events(seed), seed, meaning, on=on or "id", keep=lambda e: bool(e["ok"]) and keep(e)
        )
        assert len(found) > 8
        assert all(a.exact and a.why is None and a.stale == a.failures == a.unknown == 0 for a in found)


@pytest.mark.parametrize("policy", [None, "Filter Update", "WSJ-WBM.F", "WSJ-RND.F", "AT-GAIN"])
def test_without_a_budget_conditions_are_exact_whatever_changes(policy: str | None) -> None:
    for seed in range(4):
        query = sb.Query(
            "q", k=3, score="x + value", window=WINDOWS[seed], where="ok AND value > 7",
            join=sb.Join("value", policy=policy, distance=3.0),
        )  # fmt: skip
        found = follow(
            query, oracle.events(seed), seed, lambda mine, v: mine[-1]["x"] + v,
            keep=lambda e: e["ok"] and fine(e["x"]), passes=lambda v: v > 7,
        )  # fmt: skip
        assert all(a.exact for a in found)


def test_the_limits_of_a_service_hold_without_a_budget_and_answers_say_so() -> None:
    asked: list[Any] = []

    def fetch(ids: Any) -> dict[Any, float]:
        asked.extend(ids)
        return dict.fromkeys(ids, 1.0)

    known = {name: float(name) for name in range(30)}
    remote = sb.Remote(fetch, limits=Limits(batch=2, parallel=1, per_evaluation=3, retries=0), known=known)
    query = sb.Query("q", k=2, score="x + value", window=sb.Window(10), join=sb.Join("value"))
    monitor = sb.Monitor([query], time="t", id="id", services={"value": remote})
    monitor.push([{"t": 1 + i // 5, "id": i, "x": 0.0} for i in range(30)])
    (answer,) = monitor.advance(10)
    assert len(asked) == answer.refreshes == 6
    assert answer.failures == 24
    assert {28, 29} <= set(asked), "whoever is expected to gain most comes first"
    assert (answer.exact, answer.why) in (
        (False, "remote values are stale or not known"), (False, "remote values of other objects may be stale"),
    )  # fmt: skip


def test_what_is_known_as_of_now_is_not_asked_for() -> None:
    service = Changing()
    monitor = sb.Monitor([joined(join={"budget": None})], time="t", id="id", services={"value": service})
    monitor.push([{"t": 1 + i, "id": i, "x": 0.0} for i in range(4)])
    monitor.push_changes("value", {1: 5.0, 2: 50.0}, at=20)
    (answer,) = monitor.advance(20)
    assert sorted(service.asked[0]) == [0, 3]
    assert answer.exact
    assert answer.refreshes == 2


class Changing:
    """A service whose values depend on how often it was asked: the same questions get the same answers."""

    def __init__(self, begun: int = 0) -> None:
        self.asked: list[list[Any]] = [[] for _ in range(begun)]

    def __call__(self, ids: Any) -> dict[Any, float]:
        self.asked.append(list(ids))
        turn = len(self.asked)
        return {name: float((name * 31 + turn // 3 * 17) % 23) for name in ids}


def joined(name: str = "q", **given: Any) -> sb.Query:
    join = sb.Join("value", **({"budget": 2, "n": 3} | given.pop("join", {})))
    usual: dict[str, Any] = {"k": 3, "score": "count(*) + value", "window": WINDOWS[0], "join": join}
    return sb.Query(name, **(usual | given))


POLICIES = ["WST", "WSJ-RND", "WSJ-LRU", "WSJ-WBM", "AT-TSM", "AT-BSM", "AT-LRU", "AT-WBM", "AT-GAIN"]
ALONE = [f"{policy} alone" for policy in POLICIES if policy.startswith("AT-")]


def refreshed_by(policy: str) -> dict[str, Any]:
    return {"policy": policy.removesuffix(" alone"), "only_candidates": policy in ALONE}


@pytest.mark.parametrize("policy", POLICIES + ALONE)
@pytest.mark.parametrize("score", ["count(*) + value", "x + value"])
def test_the_cut_into_batches_does_not_matter_and_budgets_hold(policy: str, score: str) -> None:
    query = joined(score=score, join=refreshed_by(policy))
    for seed in range(1):
        stream, tables, services = oracle.events(seed), [], []
        for rows in (7, 40, 1000):
            services.append(Changing())
            run = sb.run(
                query, stream, time="t", id="id", watermark=0, batch_rows=rows, services={"value": services[-1]}
            )
            tables.append(list(run))
        first = [(shown([a]), a.refreshes, a.stale, a.exact, a.why, [r.age for r in a.rows]) for a in tables[0]]
        for other in tables[1:]:
            assert [(shown([a]), a.refreshes, a.stale, a.exact, a.why, [r.age for r in a.rows]) for a in other] == first
        assert services[0].asked == services[1].asked == services[2].asked
        assert max(map(len, services[0].asked), default=0) <= 2
        assert {a.refreshes for a in tables[0]} <= {0, 1, 2}


@pytest.mark.parametrize("policy", POLICIES + ALONE)
@pytest.mark.parametrize("score", ["count(*) + value", "x + value"])
def test_from_a_snapshot_it_goes_on_as_if_nothing_had_happened(policy: str, score: str) -> None:
    query = joined(score=score, join=refreshed_by(policy), select=("home",), emit="changes")
    stream = oracle.events(5, n=200)
    whole, split = Changing(), 90
    one = sb.Monitor([query], time="t", id="id", services={"value": sb.Remote(whole, capacity=6)})
    assert one.push(stream[:split]) is not None
    before = list(one.advance(stream[split]["t"] - 5))
    assert before
    other_service = Changing(begun=len(whole.asked))
    other = sb.Monitor.restore(one.snapshot(), services={"value": sb.Remote(other_service, capacity=6)})
    assert len(other.remotes["value"].replica) == len(one.remotes["value"].replica) > 0 or policy == "WST"
    results = []
    for monitor in (one, other):
        assert monitor.push(stream[split:]) is not None
        results.append(monitor.finish().table(quality=True))
    assert results[0].num_rows > 0 or policy == "WST"
    assert results[0].equals(results[1])


def test_a_snapshot_wants_its_services_and_keeps_what_is_used_most() -> None:
    monitor = sb.Monitor([joined()], time="t", id="id", services={"value": ask(BY_ID)})
    monitor.push(oracle.events(1))
    monitor.advance(300)
    blob = monitor.snapshot()
    with pytest.raises(sb.QueryError, match="query 'q': the query joins with the service 'value', and none is given"):
        sb.Monitor.restore(blob)
    known = len(monitor.remotes["value"].replica)
    assert known > 3
    small = sb.Monitor.restore(blob, services={"value": sb.Remote(ask(BY_ID), capacity=3), "other": ask({})})
    assert len(small.remotes["value"].replica) == 3
    used = list(monitor.remotes["value"].replica.state()[1]["ids"]["id"].to_pylist())[-3:]
    assert small.remotes["value"].replica.columns()[0] == used


def test_unknown_services_and_columns_are_refused_at_once() -> None:
    with pytest.raises(
        sb.QueryError, match="joins with the service 'value', and given are 'others'; give it as services"
    ):
        sb.run(joined(), [], time="t", id="id", services={"others": ask({})})
    stream = [{"t": 1, "id": 1, "value": 3.0}]
    with pytest.raises(sb.QueryError, match="the stream has a column 'value', as the service is called"):
        list(sb.run(joined(), stream, time="t", id="id", services={"value": ask({})}))
    plain = [{"t": 1, "id": 1, "x": 3.0}]
    for query, message in (
        (joined(join={"on": "user"}), "the join's on names 'user'; the stream's columns are t, id, x"),
        (joined(join={"on": "x"}), "the join's on names 'x', which is double; ids are text or whole numbers"),
        (joined(select=("y",)), "select names 'y'; the stream's columns are t, id, x"),
        (joined(score="y + value"), "there is no column 'y'"),
    ):
        with pytest.raises(sb.QueryError) as caught:
            list(sb.run(query, plain, time="t", id="id", services={"value": ask({})}))
        assert message in str(caught.value)
    with pytest.raises(sb.InputError, match="service 'value': a service is something with fetch"):
        sb.run(joined(), [], time="t", id="id", services={"value": 7})
    with pytest.raises(sb.InputError, match="services is a list; give them by name"):
        sb.Monitor(services=[ask({})])  # type: ignore[arg-type]
    with pytest.raises(sb.InputError, match="the budget is -1; give how many ids"):
        sb.Remote(ask({}), budget=-1)
    with pytest.raises(sb.InputError, match="there is no service 'value'; there are none"):
        sb.Monitor().push_changes("value", {})


def test_queries_share_a_replica_and_a_budget_split_by_need() -> None:
    service = Changing()
    remote = sb.Remote(service, budget=3)
    queries = [
        joined("few", k=1, join={"budget": 1}),
        joined("many", k=5, join={"budget": None, "policy": "WSJ-LRU"}),
        joined("none", join={"budget": 0}),
    ]
    found = list(sb.run(queries, oracle.events(3), time="t", id="id", services={"value": remote}))
    assert max(map(len, service.asked)) == 3
    by_end: dict[Any, dict[str, sb.Answer]] = {}
    for answer in found:
        by_end.setdefault(answer.end, {})[answer.query] = answer
    spent = [[a[name].refreshes or 0 for name in ("few", "many", "none")] for a in by_end.values()][1:-2]
    assert all(few + many >= 3 and none == 0 for few, many, none in spent)
    assert 0 < sum(few for few, _, _ in spent) < sum(many for _, many, _ in spent) / 3
    last = [answers["none"] for answers in by_end.values()][5]
    assert last.rows, "what the others have paid for, all of them know"


def test_who_waits_for_a_share_still_does_after_a_restart() -> None:
    queries = [joined("few", k=1, join={"budget": 1}), joined("many", k=5, join={"budget": None, "policy": "WSJ-LRU"})]
    stream, asked = oracle.events(6, n=200), []
    for restart in (False, True):
        service = Changing()
        monitor = sb.Monitor(queries, time="t", id="id", services={"value": sb.Remote(service, budget=1)})
        for place in range(0, len(stream), 20):
            monitor.push(stream[place : place + 20])
            monitor.advance(stream[place]["t"] - 5)
            if restart:
                assert place < 100 or monitor.remotes["value"].shared_budget.credit
                monitor = sb.Monitor.restore(monitor.snapshot(), services={"value": sb.Remote(service, budget=1)})
        asked.append(service.asked)
    assert asked[0] == asked[1]
    monitor.unregister("few")
    assert set(monitor.remotes["value"].shared_budget.credit) <= {"many"}


def test_killed_and_restored_it_leaves_alone_who_wants_to_be() -> None:
    """What a service said of itself and of its ids holds in the next process as well."""
    asked: list[list[Any]] = []

    def busy(ids: Any) -> dict[Any, float | None]:
        asked.append(sorted(ids))
        if len(asked) == 2:
            raise ServiceError("busy", after=600.0)
        return dict.fromkeys(ids)

    limits = Limits(deadline=1.0, remember_missing=600.0)
    query, stream = joined(join={"budget": None, "policy": "WSJ-LRU"}), oracle.events(7)
    monitor = sb.Monitor([query], time="t", id="id", services={"value": sb.Remote(busy, limits=limits)})
    for place in range(0, 120, 20):
        monitor.push(stream[place : place + 20])
        monitor.advance(stream[place]["t"])
        services = {"value": sb.Remote(busy, limits=limits)}
        monitor = sb.Monitor.restore(monitor.snapshot(), services=services)
    assert len(asked) == 2
    gone = monitor.remotes["value"].gateway.known_missing()
    assert set(gone) == set(asked[0]) > set()


def test_queries_come_pause_and_go() -> None:
    service = Changing()
    stream = oracle.events(4, n=200)
    monitor = sb.Monitor([joined("first")], time="t", id="id", services={"value": service})
    monitor.push(stream[:80])
    monitor.advance(stream[80]["t"])
    monitor.register(joined("second"), sb.Query("plain", k=1, score="x", window=WINDOWS[0]))
    monitor.pause("first")
    asked = len(service.asked)
    monitor.unregister("second")
    monitor.push(stream[80:140])
    answers = monitor.advance(stream[140]["t"])
    assert {a.query for a in answers} == {"plain"}
    assert len(service.asked) == asked, "nobody asks for answers that nobody sees"
    monitor.resume("first")
    monitor.register(joined("second"))
    monitor.push(stream[140:])
    late = [a for a in monitor.finish() if a.query == "second"]
    assert [q.name for q in monitor.queries] == ["first", "plain", "second"]
    assert late[0].why == "warming up"
    assert late[-1].why != "warming up"
    monitor.change(joined("first", k=1))
    assert monitor.queries[0].k == 1
    assert "joined: score" in monitor.explain()
    assert "service 'value' by the id: AT-GAIN, at most 2 refreshes an answer" in monitor.explain()
    assert [one.queries for one in monitor.stats().groups] == [("plain",), ("second",), ("first",)]


def test_rows_say_how_old_their_values_are() -> None:
    stream = [{"t": t, "id": "a", "x": 1.0} for t in range(0, 100, 10)]
    query = joined(score="x + value", window=sb.Window(20), join={"policy": "AT-TSM"}, select=("x",))
    replies = iter([{"a": 5.0}, {}, {}, {"a": 7.0}, {}])
    remote = sb.Remote(lambda _: next(replies), limits=Limits(retries=0))
    found = list(sb.run(query, stream, time="t", id="id", services={"value": remote}))
    assert [(a.rows[0].value, a.rows[0].age, a.refreshes, a.failures, a.stale) for a in found] == [
        (5.0, 0, 1, 0, 0), (5.0, 20, 0, 1, 1), (5.0, 40, 0, 1, 1), (7.0, 0, 1, 0, 0), (7.0, 20, 0, 1, 1),
    ]  # fmt: skip
    assert (found[0].exact, found[0].why) == (True, None)
    assert found[1].why == "remote values are stale or not known"


def test_answers_as_a_table() -> None:
    stream = [{"t": t, "id": "a", "x": 1.0} for t in range(0, 40, 10)]
    queries = [
        joined(score="x + value", window=sb.Window(20), select=("x",), join={"default": 3.0, "budget": 0}),
        sb.Query("plain", k=1, score="x", window=sb.Window(20)),
    ]
    table = sb.run(queries, stream, time="t", id="id", services={"value": ask({})}).table()
    assert table.column_names[7:] == ["x", "value", "age", "refreshes", "failures", "stale"]
    rows = table.select(["query", "score", "value", "age", "refreshes", "failures", "stale"]).to_pylist()
    assert rows[0] == {"query": "q", "score": 4.0, "value": 3.0, "age": None, "refreshes": 0, "failures": 0, "stale": 1}
    assert rows[1]["query"] == "plain"
    assert rows[1]["refreshes"] is None
    answers = list(sb.run(queries, stream, time="t", id="id", services={"value": ask({})}))
    assert answers[0].unknown == 1
    assert answers[0].rows[0].age is None
    assert answers[1].refreshes is answers[1].failures is answers[1].stale is answers[1].unknown is None


def test_what_the_remote_side_tells_costs_nothing() -> None:
    asked = Changing()
    monitor = sb.Monitor([joined(join={"budget": 0})], time="t", id="id", services={"value": asked})
    monitor.push([{"t": 1, "id": 1, "x": 0.0}, {"t": 2, "id": 2, "x": 0.0}])
    monitor.push_changes("value", {1: 5.0, 2: None}, at=15)
    answer = monitor.advance(20)[0]
    assert [(row.id, row.value, row.age) for row in answer.rows] == [(1, 5.0, 5)]
    assert asked.asked == []


def test_late_and_rejected_rows_are_counted_and_handed_on() -> None:
    late: list[Any] = []
    rejected: list[Any] = []
    monitor = sb.Monitor([joined(join={"on": "home"}, where="ok")], time="t", id="id", services={"value": ask(BY_HOME)},
                         on_late=late.append, on_rejected=rejected.append)  # fmt: skip
    row = {"t": 1, "id": 1, "home": "h0", "ok": True}
    monitor.push([row, row | {"home": None}, row | {"id": None, "t": 500}, row | {"ok": False, "home": None}])
    monitor.advance(100)
    monitor.push([row, row | {"t": 70}, row | {"t": 101}])
    stats = monitor.stats()
    assert (stats.late, stats.partly_late, stats.rejected) == (1, 1, 2)
    assert [batch.num_rows for batch in late] == [1]
    assert [batch.num_rows for batch in rejected] == [2]
    assert stats.groups[0].events == 3


def crowd(policy: str) -> sb.Monitor:
    """Thirty users, all known, of whom the list of a ranking holds few; the first window is answered."""
    query = sb.Query(
        "q", k=3, score="x + value", window=sb.Window(100, slide=10),
        join=sb.Join("value", budget=0, n=2, **refreshed_by(policy)),
    )  # fmt: skip
    known = {f"u{i:03}": float(i) for i in range(30)}
    remote = sb.Remote(lambda _: {}, known=known)
    monitor = sb.Monitor([query], time="t", id="id", services={"value": remote})
    monitor.push([{"t": 80 + i // 4, "id": f"u{i:03}", "x": i % 7 / 10} for i in range(30)])
    (answer,) = monitor.advance(90)
    assert [row.id for row in answer.rows] == ["u029", "u028", "u027"]
    return monitor


@pytest.mark.parametrize("policy", ["AT-BSM alone", "AT-LRU alone", "AT-LRU", "WSJ-LRU", "AT-GAIN"])
def test_what_is_told_of_an_object_outside_the_list_takes_effect(policy: str) -> None:
    monitor = crowd(policy)
    objects = joins(monitor)[0].members[0].join.objects
    monitor.push_changes("value", {"u003": 1e6, "u029": 0.0, "nobody": 7.0})
    (answer,) = monitor.advance(100)
    assert [(row.id, row.value) for row in answer.rows] == [("u003", 1e6), ("u028", 28.0), ("u027", 27.0)]
    assert (answer.exact, answer.stale) == (False, 3)
    monitor.push_changes("value", {"u003": None, "u000": 5e5})
    restored = sb.Monitor.restore(monitor.snapshot(), services={"value": lambda _: {}})
    for one in (monitor, restored):
        assert [row.id for row in one.advance(110)[0].rows] == ["u000", "u028", "u027"]
    assert getattr(objects, "ignored", 0) == 0


def test_what_is_fetched_for_one_query_the_lists_of_all_learn() -> None:
    """Windows of the payer end while one of the other is open: what they brought counts outside its list, too."""
    truth = {f"u{i:03}": float(i) for i in range(30)}
    joins = {
        10: sb.Join("value", policy="WSJ-LRU"),
        50: sb.Join("value", budget=0, n=0, **refreshed_by("AT-TSM alone")),
    }
    queries = [
        sb.Query(name, k=1, score="x + value", window=sb.Window(100, slide=slide), join=joins[slide])
        for name, slide in (("payer", 10), ("list", 50))
    ]
    monitor = sb.Monitor(queries, time="t", id="id", services={"value": sb.Remote(ask(truth), known=truth)})
    monitor.push([{"t": 90 + i // 4, "id": f"u{i:03}", "x": 0.0} for i in range(30)])
    assert [a.rows[0].id for a in monitor.advance(100) if a.query == "list"] == ["u029"]
    truth["u003"] = 1e6
    assert [a.rows[0].id for a in monitor.advance(140)][-1] == "u003"
    monitor.unregister("payer")
    assert [(a.query, a.rows[0].id, a.rows[0].age) for a in monitor.advance(150)] == [("list", "u003", 10)]


def test_what_is_told_now_is_newer_than_what_was_known() -> None:
    remote = sb.Remote(lambda _: {}, known={"a": 1.0, "b": 2.0}, as_of=500)
    query = joined(score="x + value", window=sb.Window(20), join={"budget": 0})
    monitor = sb.Monitor([query], time="t", id="id", services={"value": remote})
    monitor.push_changes("value", {"a": 9.0})
    monitor.push_changes("value", {"b": 99.0}, at=499)
    monitor.push([{"t": 3, "id": "a", "x": 0.0}, {"t": 4, "id": "b", "x": 0.0}])
    assert [(row.id, row.value) for row in monitor.advance(20)[0].rows] == [("a", 9.0), ("b", 2.0)]


def test_changes_are_the_difference_from_the_answer_before_exact_or_not() -> None:
    """Where exact answers and others take turns within one call, too."""
    replies = itertools.cycle([{"a": 1.0, "b": 2.0}, {}, {"a": 2.0, "b": 1.0}, {"a": 3.0}])
    remote = sb.Remote(lambda ids: {n: v for n, v in next(replies).items() if n in ids}, limits=Limits(retries=0))
    query = joined(k=1, score="x + value", window=sb.Window(20), emit="changes", join={"budget": None})
    monitor = sb.Monitor([query], time="t", id="id", services={"value": remote})
    monitor.push([{"t": t, "id": name, "x": 0.0} for t in range(0, 160, 10) for name in "ab"])
    rows: list[sb.Row] = []
    flags = []
    for answer in monitor.finish():
        assert answer.changes == difference(rows, answer.rows, by_id=True), answer.end
        rows = answer.rows
        flags.append(answer.exact)
    assert flags == [True, False, True, False] * 2


def test_what_is_told_before_all_time_says_nothing_about_how_often_values_change() -> None:
    monitor = sb.Monitor([joined(join={"budget": None})], time="t", id="id", services={"value": Changing()})
    monitor.push_changes("value", {name: 100.0 + name for name in range(5)})
    monitor.push([{"t": 10 * i, "id": i % 5, "x": 0.0} for i in range(20)])
    assert all(answer.exact for answer in monitor.finish())
    rates = monitor.remotes["value"].replica.view(list(range(5))).interval
    assert (rates > 0).all()


def test_a_service_may_be_asked_for_numbers_and_for_text() -> None:
    """By queries that take its ids from different columns; a restart knows both."""

    def fans(ids: Sequence[int | str]) -> dict[int | str, float | None]:
        return {one: None if one in (2, "b") else float(len(str(one))) for one in ids}

    window = sb.Window(10)
    queries = [
        sb.Query("numbers", k=2, score="x + fans", window=window, join=sb.Join("fans")),
        sb.Query("text", k=2, score="x + fans", window=window, join=sb.Join("fans", on="name")),
    ]
    rows = [{"t": t, "id": t, "name": "abc"[t], "x": float(t)} for t in range(3)]
    monitor = sb.Monitor(queries, time="t", id="id", services={"fans": fans})
    monitor.push(rows)
    monitor.advance(10)
    again = sb.Monitor.restore(monitor.snapshot(), services={"fans": fans})
    again.push([{**row, "t": 10 + row["t"]} for row in rows])  # type: ignore[operator]
    found = {answer.query: [row.id for row in answer.rows] for answer in again.advance(20)}
    assert found == {"numbers": [1, 0], "text": [2, 0]}
    assert again.remotes["fans"].replica.view([0, "a"]).value.tolist() == [1.0, 1.0]


def test_queries_of_one_service_show_what_each_of_them_selects() -> None:
    """They share a group, and no carried columns."""
    first = sb.Query("first", k=1, score="x + value", window=sb.Window(10), join=sb.Join("value"), select=("x",))
    second = sb.Query("second", k=1, score="x + value", window=sb.Window(10), join=sb.Join("value"), select=("y",))
    monitor = sb.Monitor([first, second], time="t", id="id", services={"value": lambda ids: dict.fromkeys(ids, 1.0)})
    monitor.push([{"t": 1, "id": 7, "x": 2.0, "y": "b"}])
    found = monitor.advance(10).table()
    assert found.select(["query", "x", "y"]).to_pylist() == [
        {"query": "first", "x": 2.0, "y": None},
        {"query": "second", "x": None, "y": "b"},
    ]
