"""Events of settled ids may stay where they are: answers are the same without them, to the last flag."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.engine.groups import ReducedBatch
from skyband.engine.joins import JoinedQuery
from skyband.engine.measures import ROWS
from skyband.engine.partial_rows import FIRST, ID, PANE, REFRESHED, TIME
from skyband.remote.services import Limits
from tests.groups import joins
from tests.joined import oracle
from tests.joined.test_monitor import WINDOWS

DISTANT = {"where": "value > 9 AND ok", "join": {"policy": "WSJ-LRU.F", "distance": 4, "only_candidates": True}}
KINDS: dict[str, dict[str, Any]] = {
    "near, by age": DISTANT,
    "near, by chance": {
        "where": "value < 12",
        "join": {"policy": "WSJ-RND.F", "distance": 2, "only_candidates": True},
        "emit": "changes",
    },
    "near, by best-before": {
        "where": "value >= 9",
        "join": {"policy": "WSJ-WBM.F", "distance": 5, "only_candidates": True},
        "select": ("home",),
    },
    "near, latest event": DISTANT | {"score": "x + value"},
    "never": {"where": "value <= 11", "join": {"policy": "WST"}},
    "no budget": {"where": "value > 9", "join": {"budget": 0}},
    "no budget, a default": {"where": "value > 9", "join": {"budget": 0, "default": 10.0}},
    "no budget, a ranking": {"join": {"budget": 0}},
    "no budget, the whole window": {"score": "x + value", "join": {"budget": 0, "policy": "WSJ-LRU"}},
    "near, then the rest": {"where": "value > 9", "join": {"policy": "WSJ-LRU.F", "distance": 4}},
    "anyone": {"where": "value > 9", "join": {"policy": "WSJ-LRU"}},
    "the list": {"join": {"policy": "AT-LRU"}},
}


ANYONE = {"anyone", "the list", "near, then the rest"}


def query(kind: str, window: sb.Window) -> sb.Query:
    given = dict(KINDS[kind])
    join = sb.Join("value", **({"budget": 2, "n": 3} | given.pop("join")))
    usual: dict[str, Any] = {"k": 4, "score": "count(*) + value"}
    return sb.Query(kind, **(usual | given), window=window, join=join)


class Changing:
    """A service whose values depend on how often it was asked; some ids come and go."""

    def __init__(self) -> None:
        self.asked: list[list[Any]] = []

    def __call__(self, ids: Any) -> dict[Any, float | None]:
        self.asked.append(list(ids))
        value = {name: (name * 31 + len(self.asked) // 3 * 17) % 23 for name in ids}
        return {name: None if it == 5 else float(it) for name, it in value.items()}


def without_settled(monitor: sb.Monitor, stayed: Counter[str]) -> None:
    """Let events of settled ids stay behind, as they do on executors."""

    def shorten(one: JoinedQuery, reduced: ReducedBatch) -> ReducedBatch:
        settled = next(group for group in joins(monitor) if one in group.members).settled(one)
        here = pc.is_in(reduced.partials[ID], settled[ID])
        apart = reduced.partials.filter(here).join(settled, ID).group_by(PANE)
        stayed[one.name] += int(pc.sum(here).as_py() or 0)
        sums = apart.aggregate([(ROWS, "sum"), (TIME, "min"), (TIME, "max"), (REFRESHED, "min")])
        named = sums.rename_columns([PANE, ROWS, FIRST, TIME, REFRESHED])
        return replace(reduced, partials=reduced.partials.filter(pc.invert(here)), settled=named)

    for one in [one for group in joins(monitor) for one in group.members]:
        setattr(one, "merge", lambda reduced, one=one, merge=one.merge: merge(shorten(one, reduced)))  # noqa: B010


def answers(
    kinds: list[str], window: sb.Window, seed: int, shorten: bool, stayed: Counter[str], as_of: int, restart: bool
) -> tuple[list[pa.Table], list[list[Any]]]:
    service, stream = Changing(), oracle.events(seed, n=120, ids=14, jitter=12)
    known = {name: float((name * 7 + seed) % 23) for name in range(11)}  # of three nothing is known
    known[3] = math.nan  # there is no such id

    def remote() -> sb.Remote:
        limits = Limits(timeout=60, deadline=60, remember_missing=3_600)
        return sb.Remote(service, limits=limits, known=known, as_of=as_of)

    services = {"value": remote()}
    monitor = sb.Monitor([query(kind, window) for kind in kinds], time="t", id="id", services=services)
    tables = []
    for place in range(0, len(stream), 30):
        if shorten:
            monitor.declare(pa.Table.from_pylist(stream).schema)
            without_settled(monitor, stayed)
        monitor.push(stream[place : place + 30])
        tables.append(monitor.advance(max(event["t"] for event in stream[: place + 30]) - 15).table(quality=True))
        if restart:
            monitor = sb.Monitor.restore(monitor.snapshot(), services=services)
        elif shorten:
            for one in [one for group in joins(monitor) for one in group.members]:
                del one.merge
    tables.append(monitor.finish().table(quality=True))
    return tables, service.asked


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_the_same(kind: str) -> None:
    stayed: Counter[str] = Counter()
    for seed, (window, as_of) in enumerate(zip(WINDOWS, (0, 200, 10_000, 0), strict=True)):
        plain = answers([kind], window, seed, False, stayed, as_of, False)
        assert answers([kind], window, seed, True, stayed, as_of, restart=seed % 2 == 0) == plain
    assert (stayed[kind] > 0) == (kind not in ANYONE)


@settings(max_examples=5, deadline=None)
@given(st.lists(st.sampled_from(list(KINDS)), min_size=2, max_size=3, unique=True), st.integers(0, 99))
def test_answers_are_the_same_where_queries_share_a_service(kinds: list[str], seed: int) -> None:
    stayed: Counter[str] = Counter()
    plain = answers(kinds, WINDOWS[seed % 4], seed, False, stayed, 0, False)
    assert answers(kinds, WINDOWS[seed % 4], seed, True, stayed, 0, False) == plain
    if ANYONE & set(kinds):
        assert not stayed.total(), "somebody may ask for anyone"


def test_windows_with_settled_ids_alone_are_answered_and_counted() -> None:
    found = []
    for shorten in (False, True):
        known = dict.fromkeys(range(9), 0.0)
        monitor = sb.Monitor([query("no budget", WINDOWS[0])], time="t", id="id",
                             services={"value": sb.Remote(lambda _: {}, known=known)})  # fmt: skip
        stream = oracle.events(2)
        monitor.declare(pa.Table.from_pylist(stream).schema)
        if shorten:
            without_settled(monitor, Counter())
        monitor.push(stream)
        (group,) = monitor.stats().groups
        found.append(([(a.end, a.rows, a.exact, a.why) for a in monitor.finish()], group.events))
        assert (group.kept == 0) == shorten
    assert found[0] == found[1]
    assert len(found[0][0]) > 20


def test_only_ids_of_the_streams_kind_are_settled() -> None:
    remote = sb.Remote(lambda _: {}, known={"seven": 0.0, 7: 0.0})
    monitor = sb.Monitor([query("no budget", WINDOWS[0])], time="t", id="id", services={"value": remote})
    monitor.push(oracle.events(1))
    assert joins(monitor)[0].settled(joins(monitor)[0].members[0]).to_pydict() == {"id": [7], "refreshed": [0]}


@pytest.mark.parametrize("change", ["capacity", "on"])
def test_what_may_be_forgotten_or_replaced_is_not_settled(change: str) -> None:
    known = dict.fromkeys(range(9), 0.0)
    given = query("no budget", WINDOWS[0])
    if change == "on":
        given = sb.Query("q", k=1, score="value", where="value > 9", window=WINDOWS[0],
                         join=sb.Join("value", on="home", budget=0))  # fmt: skip
    remote = sb.Remote(lambda _: {}, known=known, capacity=20 if change == "capacity" else None)
    monitor = sb.Monitor([given], time="t", id="id", services={"value": remote})
    monitor.push(oracle.events(1))
    assert joins(monitor)[0].settled(joins(monitor)[0].members[0]).num_rows == 0
