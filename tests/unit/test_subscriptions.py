"""Subscriptions: who hears of what, as defined, whatever the algorithm, the cut and what happens in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.algorithms.topkw import band_kernels
from skyband.answers.notices import WORDS
from skyband.engine.subscriptions import find
from skyband.spark.reducers.subscriptions import SubscriptionPrefilter, in_order
from tests.simulation.plain_subscriptions import Plain, Told

EXACT = ["blocks", "sa", "ra", "rapf", "cpm", "snn"]


def events(seed: int, n: int = 300, text: bool = False, timed: bool = True) -> pa.Table:
    """Return events that come almost in order, some without a value."""
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.integers(0, 3, n)) - (rng.integers(0, 8, n) if timed else 0)
    x, y = rng.random(n).round(2), rng.random(n).round(2)
    ids = rng.permutation(n)
    return pa.table({
        "t": np.maximum(time, 0), "id": pa.array([f"e{i:03}" for i in ids]) if text else pa.array(ids),
        "x": pa.array(x, mask=rng.random(n) < 0.05), "y": y, "kind": pa.array(rng.choice(["a", "b"], n)),
    })  # fmt: skip


def subscriptions(seed: int, timed: bool) -> list[sb.Subscription]:
    rng = np.random.default_rng(seed)

    def last() -> Any:
        return int(rng.integers(5, 120)) if timed else f"{rng.integers(3, 90)} events"

    def point() -> dict[str, float]:
        return {"x": float(rng.random()), "y": float(rng.random())}

    weights = {"x": 2.0, "y": 0.5}
    box = {"x": (0.2, 0.8)}
    make = sb.Subscription
    return [
        make("near", k=3, score=sb.Distance(point()), last=last(), emit="changes"),
        make("nearer", k=2, score=sb.Distance(point()), last=last()),
        make("far", k=2, score=sb.Distance(point()), last=last(), order="desc", emit="changes"),
        make("one", k=4, score=sb.Distance({"y": 0.5}), last=last(), within=box, emit="changes"),
        make("boxed", k=3, score=sb.AttributeDistance(point(), weights), last=last(), within=box, emit="changes"),
        make("most", k=2, score=sb.WeightedSum({"x": 1.0, "y": -2.0}), last=last(), where="kind = 'a'", emit="changes"),
        make("least", k=5, score="x * y", order="asc", last=last(), emit="changes"),
        make("again", k=1, score="x * y", order="asc", last=last(), within={"y": (0.1, 0.9)}),
        make("odd", k=3, score="case when kind = 'b' then y end", last=last(), emit="changes"),
        make("some", k=2, score=sb.Distance(point()), last=last(), since=60, until=200, emit="changes"),
    ]


@pytest.mark.parametrize("timed", [True, False], ids=["time", "count"])
@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("seed", range(3))
def test_everyone_is_told_what_the_definition_says(
    seed: int, algorithm: str, timed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any cut, with a snapshot after each push; names, scores, times and the best at the end as well."""
    monkeypatch.setattr("skyband.algorithms.topkw.blocks.LEAST", 8)
    monkeypatch.setattr("skyband.engine.subscription_group.SPARE", 20)
    table = events(seed, text=seed % 2 == 0, timed=timed)
    everyone = subscriptions(seed, timed)
    following = sb.Subscriptions(everyone, algorithm=algorithm, time="t", id="id", select=["kind"])
    rng = np.random.default_rng(seed)
    found: list[Told] = []
    rows = table.to_pylist()
    at = {row["id"]: row for row in rows}
    for begin, end in pairwise([0, *sorted(rng.choice(np.arange(1, 300), 6, replace=False).tolist()), 300]):
        notices = following.push(table.slice(begin, end - begin))
        table_ = notices.table()
        assert table_.num_rows == len(notices)
        for notice in notices:
            row = at[notice.id]
            assert (notice.time, notice.values, notice.exact) == (row["t"], {"kind": row["kind"]}, True)
            found.append((int(notice.at), notice.subscription, notice.change, notice.id, notice.score))  # type: ignore[arg-type]
        following = sb.Subscriptions.restore(following.snapshot())
    expected: list[Told] = []
    for one in everyone:
        plain = Plain(one)
        for row in rows:
            plain.come(row)
        expected += plain.told
        if one.ends is None:
            assert [row.id for row in following.top(one.name)] == plain.best, one.name
    found_, expected = (sorted(told, key=lambda each: str(each[:4])) for told in (found, expected))
    assert [each[:4] for each in found_] == [each[:4] for each in expected], f"seed {seed}"
    assert [each[4] for each in found_] == pytest.approx([each[4] for each in expected])
    assert [each[0] for each in found] == sorted(each[0] for each in found), "in order of what happened"


def test_published_and_own_ways_agree_on_a_longer_stream() -> None:
    rng = np.random.default_rng(5)
    n = 6_000
    table = pa.table({"t": np.arange(n), "id": np.arange(n), "x": rng.random(n), "y": rng.random(n)})
    everyone = [
        sb.Subscription(f"s{i}", k=5, score=sb.Distance({"x": x, "y": y}), last="1000 events")
        for i, (x, y) in enumerate(rng.random((20, 2)).tolist())
    ]
    told = []
    for algorithm in ("blocks", "rapf"):
        following = sb.Subscriptions(everyone, algorithm=algorithm, time="t", id="id")
        told.append([(each.at, each.subscription, each.id) for each in following.push(table)])
    assert sorted(told[0]) == sorted(told[1])
    assert len(told[0]) > 500


@pytest.mark.parametrize(("lasts", "least"), [((150, 300, 450), 50), ((15, 150, 50, 450), 0)], ids=["long", "short"])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_left_out_elsewhere_nobody_misses(
    seed: int, lasts: tuple[int, ...], least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From survivors alone, everyone is told the same, in the same order, and has the same best.

    In short windows events expire while others of their batch still come.
    """
    monkeypatch.setattr("skyband.engine.subscriptions.APART", seed % 2)
    given = [one for one in subscriptions(seed, timed=True) if one.since is None and one.name != "odd"]
    everyone = [replace(one, last=lasts[i % len(lasts)]) for i, one in enumerate(given)]
    everyone[0] = replace(everyone[0], until=500)
    whole, part = (sb.Subscriptions(everyone, time="t", id="id", select=["kind"]) for _ in range(2))
    rng = np.random.default_rng(seed)
    table = events(seed, n=900)
    left_out = 0
    for begin in range(0, 900, 100):
        rows = table.slice(begin, 100).sort_by([("t", "ascending"), ("id", "ascending")])
        survivors = []  # of parts, in which the rows come in any order
        for piece in np.array_split(rng.permutation(100), 3):
            batch = rows.take(pa.array(piece)).combine_chunks().to_batches()[0]
            survivors.append(batch.filter(pa.array(SubscriptionPrefilter(part).mask(batch))))
        few = pa.Table.from_batches(survivors)
        left_out += 100 - few.num_rows
        told = [following.push(some).table().to_pylist() for following, some in (
            (whole, rows), (part, few.take(in_order(few, part.source))),
        )]  # fmt: skip
        assert told[0] == told[1], f"seed {seed}, from row {begin} on"
        assert whole.subscriptions == part.subscriptions
        for name in whole.subscriptions:
            assert whole.top(name) == part.top(name), name
    assert left_out > least


def test_who_is_among_the_best_between_two_rows_is_told() -> None:
    """On Spark, where the rows of t = 11 to 13 do not get to the driver, and here."""
    near = sb.Subscription("near", k=1, score=sb.Distance({"x": 0.0}), last=10, emit="changes")
    table = pa.table({"t": [0, 7, 11, 12, 13, 14], "id": list(range(6)), "x": [1.0, 3.0, 100.0, 100.0, 100.0, 0.5]})
    following = sb.Subscriptions([near], time="t", id="id")
    told = [(n.at, n.change, n.id) for rows in (table[:1], table[1:]) for n in following.push(rows)]
    assert told == [(0, "entered", 0), (10, "left", 0), (10, "entered", 1), (14, "left", 1), (14, "entered", 5)]
    part = sb.Subscriptions([near], time="t", id="id")
    found = list(part.push(table[:1]))
    batch = table[1:].combine_chunks().to_batches()[0]
    mask = SubscriptionPrefilter(part).mask(batch)
    assert mask.tolist() == [True, False, False, False, True]
    found += part.push(batch.filter(pa.array(mask)))
    assert [(n.at, n.change, n.id) for n in found] == told


def test_time_passes_with_rows_that_nobody_wants() -> None:
    near = sb.Subscription("near", k=1, score=sb.Distance({"x": 0.0}), last=10, where="kind = 'a'", emit="changes")
    following = sb.Subscriptions([near], time="t", id="id")
    following.push({"t": [0], "id": [0], "x": [1.0], "kind": ["a"]})
    batch = pa.record_batch({"t": [7, 8, 13], "id": [1, 2, 3], "x": [3.0, 0.0, 0.0], "kind": ["a", "b", "b"]})
    mask = SubscriptionPrefilter(following).mask(batch)
    assert mask.tolist() == [True, False, True]
    told = [(n.at, n.change, n.id) for n in following.push(batch.filter(pa.array(mask)))]
    assert told == [(10, "left", 0), (10, "entered", 1)]


def test_subscriptions_come_and_go() -> None:
    following = sb.Subscriptions(time="t", id="id")
    near = sb.Subscription("near", k=1, score=sb.Distance({"x": 0.0}), last=100)
    assert len(following.push({"t": [1], "id": [1], "x": [0.1]})) == 0
    following.add(near)
    assert following.top("near") == []
    assert [each.id for each in following.push({"t": [2], "id": [2], "x": [0.5]})] == [2], "it sees only what comes"
    following.add(sb.Subscription("too", k=1, score=sb.Distance({"x": 1.0}), last=100, emit="changes"))
    assert [(each.subscription, each.id) for each in following.push({"t": [3], "id": [3], "x": [0.9]})] == [("too", 3)]
    following.remove("near")
    assert [each.subscription for each in following.push({"t": [4], "id": [4], "x": [0.95]})] == ["too", "too"]
    assert list(following.subscriptions) == ["too"]
    left = following.advance(200)
    assert [(each.change, each.id, each.at) for each in left] == [("left", 4, 104)], "at the moment at which it left"


def test_times_are_times_where_they_were_given_as_such() -> None:
    following = sb.Subscriptions(
        [sb.Subscription("near", k=1, score=sb.Distance({"x": 0.0}), last="1 day", since=datetime(2024, 5, 1))],
        time="ts", id="id",
    )  # fmt: skip
    ts = ["2024-04-30T23:59:59Z", "2024-05-01T00:00:00Z"]
    (notice,) = following.push({"ts": ts, "id": ["a", "b"], "x": [0.0, 1.0]})
    assert (notice.id, notice.at) == ("b", datetime(2024, 5, 1, tzinfo=UTC))
    assert following.top("near")[0].time == datetime(2024, 5, 1, tzinfo=UTC)
    assert following.push({"ts": [], "id": [], "x": []}).table().num_rows == 0


def test_what_is_missing_late_or_rejected_is_counted() -> None:
    bad: list[Any] = []
    following = sb.Subscriptions(
        [sb.Subscription("near", k=1, score=sb.Distance({"x": 0.0}), last=10)], time="t", id="id",
        on_rejected=lambda batch: bad.extend(batch["t"].to_pylist()),
    )  # fmt: skip
    following.push([{"t": 100, "id": 1, "x": 0.5}, {"t": 101, "id": 2, "x": None}, {"t": None, "id": 3, "x": 0.1}])
    following.push([{"t": 5, "id": 4, "x": 0.0}, {"t": 102, "id": None, "x": 0.0}])
    stats = following.stats()
    assert (stats.rows, stats.rejected, stats.late, stats.notices) == (5, 3, 1, 1)
    assert bad == [101, None, 102]
    assert stats.groups[0].looks_at == "over x, time windows"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb.Subscription("a", k=0, score="x", last=1), "k is 0; it must be from 1 to"),
        (lambda: sb.Subscription("a", k=1, score="x", last="0 events"), "last is '0 events'; it must be more than 0"),
        (lambda: sb.Subscription("a", k=1, score=3, last=1), "score is 3; give a Distance, WeightedSum"),  # type: ignore[arg-type]
        (lambda: sb.Subscription("a", k=1, score="x", last=1, emit="all"), "emit is 'all'; use 'entries' or"),  # type: ignore[arg-type]
        (lambda: sb.Subscription("a", k=1, score="x", last=1, within={"x": (2, 1)}), r"within says \(2, 1\) for 'x'"),
        (lambda: sb.Subscription("a", k=1, score="x", last=1, since=5, until=5), r"until \(5\) is not after since"),
        (lambda: sb.Distance({}), "point is {}; give a finite number for at least one column"),
        (lambda: sb.WeightedSum(None), "weights is None; give a finite number for at least one column"),  # type: ignore[arg-type]
        (lambda: sb.AttributeDistance({"x": 1.0}, {"y": 1.0}), "give both for each column"),
        (lambda: sb.Subscriptions(select=["score"]), "select names 'score', which notices have already"),
        (lambda: sb.Subscriptions(algorithm="staircase"), "'staircase' cannot follow windows that slide with every"),
    ],
)
def test_mistakes_are_told_when_they_are_made(make: Any, message: str) -> None:
    with pytest.raises(sb.QueryError, match=message):
        make()


def test_mistakes_about_the_stream() -> None:
    near = sb.Subscription("near", k=1, score=sb.Distance({"x": 0.0}), last=10)
    following = sb.Subscriptions([near], time="t", id="id")
    with pytest.raises(sb.QueryError, match="there is a subscription 'near' already"):
        following.add(near)
    with pytest.raises(sb.QueryError, match="some windows count events and some are in time"):
        following.add(sb.Subscription("b", k=1, score="x", last="3 events"))
    with pytest.raises(sb.QueryError, match="there is no subscription 'nobody'; there are 1"):
        following.remove("nobody")
    with pytest.raises(sb.QueryError, match="there is no subscription 'nobody'"):
        following.top("nobody")
    following.push({"t": [1], "id": [1], "x": [0.1]})
    with pytest.raises(sb.QueryError, match=r"query 'c': .*'y'"):
        following.add(sb.Subscription("c", k=1, score="y + 1", last=10))
    with pytest.raises(sb.QueryError, match=r"query 'near': .*'x'"):
        following.push({"t": [2], "id": [2], "z": [0.1]})
    with pytest.raises(sb.InputError, match="column 'id' was int64 so far and is string"):
        following.push({"t": [2], "id": ["b"], "x": [0.1]})
    with pytest.raises(sb.SnapshotError, match=r"snapshot of a Monitor; restore it with Monitor\.restore"):
        sb.Subscriptions.restore(sb.Monitor().snapshot())
    with pytest.raises(sb.SnapshotError, match=r"snapshot of subscriptions; restore it with Subscriptions\.restore"):
        sb.Monitor.restore(following.snapshot())


def test_every_published_algorithm_can_follow_them() -> None:
    able = [name for name, one in sb.ALGORITHMS.items() if hasattr(one, "engine")]
    assert {find(name).name for name in able} >= {*EXACT, "pa", "snn", "sasf", "sarf", "sapf", "rasf", "rarf"}
    following = sb.Subscriptions(
        [sb.Subscription("near", k=1, score=sb.Distance({"x": 0.0}), last="9 events")],
        algorithm="adaptive",
        time="t",
        id="t",
    )
    following.push({"t": [1, 2], "x": [0.5, 0.1]})
    assert following.stats().groups[0].method_in_use.startswith("rapf from the start: ")


def test_the_words_of_notices_are_the_numbers_of_kernels() -> None:
    found = {number: WORDS[number] for number in (band_kernels.LEFT, band_kernels.ENTERED, band_kernels.RETURNED)}
    assert list(found.items()) == [(0, "left"), (1, "entered"), (2, "returned")]


def test_time_passes_for_nobody_when_all_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = [sb.Subscription(f"s{i}", k=1, score=sb.Distance({"x": 0.0}), last=100, until=50 + i) for i in range(3)]
    following = sb.Subscriptions(ended, time="t", id="t")
    following.push({"t": list(range(50)), "x": [float(t) for t in range(50)]})
    engine = next(iter(following.groups.values())).engine
    assert engine is not None
    seen, process = [], engine.process

    def spy(*given: Any, **named: Any) -> Any:
        seen.append(named["passed"])
        return process(*given, **named)

    monkeypatch.setattr(engine, "process", spy)
    notices = following.push({"t": [1_000], "x": [0.0]})
    assert seen == [52], "what would be promoted after that, one by one, nobody would hear of"
    assert len(notices) == 0
