"""Every way to follow subscriptions, and the plain definition: random histories, compared notice by notice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.queries.scoring import Scoring
from tests.simulation.plain_subscriptions import Plain, Told

METHODS = ["blocks", "sa", "ra", "sasf", "sarf", "sapf", "rasf", "rarf", "rapf", "cpm", "snn", "adaptive"]
N = 160


def history(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return rows with many ties, some late, some with NULL, NaN or infinite values."""
    time = np.cumsum(rng.integers(0, 3, N)) + 3
    time -= rng.integers(0, 12, N) * (rng.random(N) < 0.2)
    rows = [
        {"t": max(int(t), 0), "id": int(i), "x": float(x), "y": float(y), "kind": str(kind)}
        for t, i, x, y, kind in zip(
            time, rng.permutation(N), rng.integers(0, 5, N) / 4, rng.integers(0, 5, N) / 4, rng.choice(["a", "b"], N),
            strict=True,
        )
    ]  # fmt: skip
    odd = [None, float("nan"), float("inf"), -float("inf")]
    for place in rng.choice(N, 16, replace=False).tolist():
        rows[place][str(rng.choice(["x", "y"]))] = odd[int(rng.integers(4))]
    for place in rng.choice(N, 3, replace=False).tolist():
        rows[place][str(rng.choice(["t", "id"]))] = None
    return rows


def subscription(rng: np.random.Generator, name: str, timed: bool) -> sb.Subscription:
    def value() -> float:
        return float(rng.integers(-1, 6) / 4)

    point = {"x": value(), "y": value()}
    scores: list[Scoring | str] = [
        sb.Distance(point), sb.Distance({"y": value()}), sb.WeightedSum({"x": value(), "y": -1.0}),
        sb.AttributeDistance(point, {"x": 2.0, "y": float(rng.choice([0.0, 0.5]))}), "x * y",
        "case when kind = 'b' then y end",
    ]  # fmt: skip
    size = int(rng.integers(2, 60))
    since, until = sorted(rng.integers(5, 200, 2).tolist())
    return sb.Subscription(
        name, k=int(rng.integers(1, 5)), score=scores[int(rng.integers(6))], last=size if timed else f"{size} events",
        order=[None, "asc", "desc"][int(rng.integers(3))],  # type: ignore[arg-type]
        within={"x": (0.25, float(rng.choice([0.75, np.inf])))} if rng.random() < 0.3 else {},
        where=[None, None, "kind = 'a'", "y > 0.5", f"y <> {rng.integers(3)}"][int(rng.integers(5))],
        emit="changes" if rng.random() < 0.7 else "entries",
        since=since if rng.random() < 0.2 else None, until=until + 1 if rng.random() < 0.2 else None,
    )  # fmt: skip


@pytest.mark.parametrize("timed", [True, False], ids=["time", "count"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(6))
def test_every_notice_is_as_defined(seed: int, method: str, timed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscriptions come and go, time passes alone, and the state is restored on the way."""
    monkeypatch.setattr("skyband.algorithms.topkw.blocks.LEAST", 4)
    monkeypatch.setattr("skyband.engine.subscription_group.SPARE", 20)
    monkeypatch.setattr("skyband.engine.subscriptions.APART", seed % 3)  # conditions that have a group of their own
    rng = np.random.default_rng(seed)
    rows = history(rng)
    schema = pa.schema({"t": pa.int64(), "id": pa.int64(), "x": pa.float64(), "y": pa.float64(), "kind": pa.string()})
    begun = [subscription(rng, f"s{i}", timed) for i in range(6)]
    following = sb.Subscriptions(begun, algorithm=method, time="t", id="id", select=["kind"])
    plain = {one.name: Plain(one) for one in begun}
    gone: list[Plain] = []
    found: list[Told] = []
    begin, now = 0, -1
    while begin < N:
        end = min(begin + int(rng.integers(1, 40)), N)
        table = pa.Table.from_pylist(rows[begin:end], schema=schema)
        told = list(following.push(table))
        for row in rows[begin:end]:
            now = max(now, row["t"]) if row["t"] is not None and row["id"] is not None else now
            for each in plain.values():
                each.come(row)
        if rng.random() < 0.3:
            now += int(rng.integers(0, 30))
            told += following.advance(now)
            for each in plain.values():
                each.pass_time(now)
        assert all(notice.exact for notice in told)
        found += [(int(n.at), n.subscription, n.change, n.id, n.score) for n in told]  # type: ignore[arg-type]
        following = sb.Subscriptions.restore(following.snapshot())
        for name, each in list(plain.items()):
            if each.ended:
                assert name not in following.subscriptions
                gone.append(plain.pop(name))
                continue
            assert [row.id for row in following.top(name)] == each.best, (name, each.one)
        if rng.random() < 0.5 and plain:
            name = str(rng.choice(list(plain)))
            following.remove(name)
            gone.append(plain.pop(name))
        if rng.random() < 0.7:
            one = subscription(rng, f"s{len(plain) + len(gone)}", timed)
            following.add(one)
            plain[one.name] = Plain(one, now)
        begin = end
    expected = [each for one in [*gone, *plain.values()] for each in one.told]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert [each[0] for each in found] == sorted(each[0] for each in found), "in order of what happened"


@pytest.mark.parametrize("method", [*METHODS, "pa"])
def test_what_does_not_count_never_ranks(method: str) -> None:
    """Neither a row that the condition leaves out, nor one that lacks something, nor one of infinite, equal parts."""
    score = sb.AttributeDistance({"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 1.0})
    near = sb.Subscription("near", k=1, score=score, last=10, where="kind = 'a'")
    most = sb.Subscription("most", k=1, score=sb.WeightedSum({"x": 1.0, "y": -1.0}), last=10)
    following = sb.Subscriptions([near, most], algorithm=method, time="t", id="t")
    inf = float("inf")
    told = following.push({
        "t": [1, 2, 3, 4, 5], "x": [3.0, 1.0, None, float("nan"), inf], "y": [3.0, 1.0, 1.0, 1.0, inf],
        "kind": ["a", "b", "a", "a", "b"],
    })  # fmt: skip
    assert [(n.subscription, n.id) for n in told] == [("near", 1), ("most", 1), ("most", 2)]
    assert [row.id for row in following.top("near")] == [1]


@pytest.mark.parametrize("method", [*METHODS, "pa"])
def test_a_box_about_a_column_without_weight_lets_infinite_values_count(method: str) -> None:
    near = sb.Subscription("near", k=1, score=sb.Distance({"y": 0.0}), last=10, within={"x": (0.0, float("inf"))})
    following = sb.Subscriptions([near], algorithm=method, time="t", id="t")
    assert [n.id for n in following.push({"t": [1, 2], "x": [1.0, float("inf")], "y": [2.0, 1.0]})] == [1, 2]


@pytest.mark.parametrize("method", [*METHODS, "pa"])
def test_who_comes_to_a_running_stream_knows_its_time(method: str) -> None:
    following = sb.Subscriptions(algorithm=method, time="t", id="t")
    following.push({"t": [100], "x": [0.0]})
    following.add(sb.Subscription("near", k=1, score=sb.Distance({"x": 0.0}), last=10, emit="changes"))
    assert len(following.push({"t": [5], "x": [0.0]})) == 0, "it is late"
    assert following.stats().late == 1
    assert [(n.id, n.at) for n in following.push({"t": [95], "x": [0.0]})] == [(95, 100)]
    assert [(n.change, n.at) for n in following.advance(200)] == [("left", 105)]


@pytest.mark.parametrize("method", METHODS)
def test_ties_that_rank_higher_later_are_kept(method: str) -> None:
    near = sb.Subscription("near", k=1, score="x", order="asc", last="5 events")
    following = sb.Subscriptions([near], algorithm=method, time="t", id="id")
    ids, x = [1, 2, 4, 6, 3, 5, 9, 7], [0.0, 2.0, 1.0, 1.0, 2.0, 2.0, 1.0, 2.0]
    for key, value in zip(ids, x, strict=True):
        following.push({"t": [0], "id": [key], "x": [value]})
    assert [row.id for row in following.top("near")] == [6]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("method", METHODS)
def test_equal_events_rank_by_their_ids_whatever_leaves_first(seed: int, method: str) -> None:
    rng = np.random.default_rng(seed)
    one = sb.Subscription("one", k=int(rng.integers(1, 4)), score="x * y", order="asc", last="6 events", emit="changes")
    following, plain = sb.Subscriptions([one], algorithm=method, time="t", id="id"), Plain(one)
    for key in rng.permutation(80).tolist():
        row = {"t": 0, "id": key, "x": float(rng.integers(3)), "y": 1.0, "kind": "a"}
        told = [(n.at, n.subscription, n.change, n.id, n.score) for n in following.push([row])]
        before = len(plain.told)
        plain.come(row)
        assert sorted(told) == sorted(plain.told[before:])


@pytest.mark.parametrize("method", METHODS)
def test_what_ends_is_told_at_its_end(method: str) -> None:
    """Expiries before it at their own moments, the rest then, and nothing after it, with rows or without."""
    score = sb.Distance({"x": 0.0})
    make = sb.Subscription
    everyone = [
        make("ends", k=1, score=score, last=10, until=105, emit="changes"),
        make("later", k=1, score=score, last=10, until=300, emit="changes"),
        make("silent", k=1, score=score, last=10, until=105),
    ]
    for row in (None, {"t": [500], "x": [9.0]}):
        following = sb.Subscriptions(everyone, algorithm=method, time="t", id="t")
        following.push({"t": [92, 97], "x": [0.0, 1.0]})
        told = following.advance(500) if row is None else following.push(row)
        in_turn = sorted(told, key=lambda n: (n.at, n.subscription))  # at one moment, anyone may be first
        assert [n.at for n in told] == [n.at for n in in_turn]
        assert [(n.at, n.subscription, n.change, n.id) for n in in_turn] == [
            (102, "ends", "left", 92), (102, "ends", "entered", 97),
            (102, "later", "left", 92), (102, "later", "entered", 97), (102, "silent", "entered", 97),
            (105, "ends", "left", 97), (107, "later", "left", 97),
        ]  # fmt: skip
        assert following.subscriptions == {}


@pytest.mark.parametrize("method", ["pa", "adaptive", "blocks", "cpm"])
def test_notices_say_whether_they_are_exact(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.algorithms.topkw.random_order.BLOCK", 250)
    rng = np.random.default_rng(1)
    near = sb.Subscription("near", k=2, score="x", last="300 events")
    following = sb.Subscriptions([near], algorithm=method, time="t", id="t")
    said = []
    for begin in range(0, 2000, 100):
        told = following.push({"t": np.arange(begin, begin + 100), "x": rng.random(100)})
        assert told.table()["exact"].to_pylist() == [n.exact for n in told]
        said += [n.exact for n in told]
    assert set(said) == {"pa": {False}, "adaptive": {True, False}}.get(method, {True})
    assert said[0] == (method != "pa"), "adaptive begins with bands that are exact"


@pytest.mark.parametrize("method", ["blocks", "rapf", "snn"])
@pytest.mark.parametrize("timed", [True, False], ids=["time", "count"])
def test_hundreds_of_conditions_and_ends_share_what_they_can(method: str, timed: bool) -> None:
    rng = np.random.default_rng(3)
    rows = history(rng)
    last: Any = 40 if timed else "40 events"
    everyone = [
        sb.Subscription(
            f"s{i}", k=2, score=sb.Distance({"y": i / 200}), last=last, where=f"y <> {i}", until=40 + i, emit="changes"
        )
        for i in range(130)
    ]
    following = sb.Subscriptions(everyone, algorithm=method, time="t", id="id")
    schema = pa.schema({"t": pa.int64(), "id": pa.int64(), "x": pa.float64(), "y": pa.float64(), "kind": pa.string()})
    found, groups = [], []
    for begin in range(0, N, 80):
        groups.append(len(following.groups))
        told = following.push(pa.Table.from_pylist(rows[begin : begin + 80], schema=schema))
        found += [(n.at, n.subscription, n.change, n.id, n.score) for n in told]
        following = sb.Subscriptions.restore(following.snapshot())
    assert groups[0] == (17 if timed else 130), "sixteen of their own, and one for the rest"
    expected = []
    for one in everyone:
        plain = Plain(one)
        for row in rows:
            plain.come(row)
        expected += plain.told
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_condition_takes_the_place_of_one_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.engine.subscriptions.APART", 0)

    def one(name: str, where: str) -> sb.Subscription:
        return sb.Subscription(name, k=1, score="x", last=100, where=where)

    following = sb.Subscriptions([one("a", "x > 1"), one("b", "x > 2")], time="t", id="t")
    assert [n.subscription for n in following.push({"t": [1], "x": [1.5]})] == ["a"]
    following.remove("a")
    following.add(one("c", "x < 1"))
    assert [n.subscription for n in following.push({"t": [2], "x": [0.5]})] == ["c"]
    assert [row.id for row in following.top("c")] == [2], "it has not seen what met the condition before"
    with pytest.raises(sb.QueryError, match=r"query 'd': .*'z'"):
        following.add(one("d", "z > 1"))
    assert following.stats().groups[0].looks_at == "score x, where each says, time windows"


@pytest.mark.parametrize("order", ["random", "the older the better", "the younger the better", "ties"])
def test_a_gap_in_the_stream_is_passed_in_steps(order: str) -> None:
    """When time jumps, thousands of recent events leave one after the other, with each a notice or two at most."""
    n, rng = 4_000, np.random.default_rng(5)
    x = {
        "random": rng.random(n),
        "the older the better": np.arange(n) / n,
        "the younger the better": 1 - np.arange(n) / n,
        "ties": rng.integers(0, 3, n) / 2,
    }[order]
    near = [
        sb.Subscription(f"s{i}", k=1 + i, score=sb.Distance({"x": 0.1 * i}), last=last, emit="changes")
        for i, last in enumerate((3_000, 3_999, 9_000))
    ]
    found = []
    for method in ("blocks", "sa"):
        following = sb.Subscriptions(near, algorithm=method, time="t", id="t")
        notices = list(following.push({"t": np.arange(n), "x": x}))
        late = sb.Subscription("late", k=2, score=sb.Distance({"x": 0.3}), last=5_000)
        following.add(late)
        notices += following.push({"t": n + np.arange(700), "x": x[:700]})
        notices += following.push({"t": [12_000, 12_001, 40_000], "x": [0.5, 0.1, 0.2]})
        found.append(sorted(notices, key=lambda notice: notice.subscription))  # at one moment they have no order
    assert found[0] == found[1]
    assert len(found[0]) > 100
