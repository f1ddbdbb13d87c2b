"""A real HTTP service that misbehaves: answers keep coming, in time, within the budget, and say how stale they are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from skyband.remote import Remote
from skyband.remote.acquatop import acquatop
from skyband.remote.filter_join import filter_join
from skyband.remote.join import JoinedAnswer, RemoteJoin
from skyband.remote.replica import Replica
from skyband.remote.services import HttpJson, Limits
from skyband.windows import WindowGrid
from tests.remote.servers import Loopback, Reply, Request

BUDGET, DEADLINE, SECOND = 4, 0.15, 1_000_000
LIMITS = Limits(
    batch=2, parallel=2, timeout=0.1, deadline=DEADLINE, retries=1, backoff=0.01, trip_after=4, cooldown=0.2,
    remember_missing=0.0,
)  # fmt: skip
PATIENT = replace(LIMITS, timeout=5.0, deadline=5.0)
Behaviour = Callable[[Request, int], Reply]


def right(request: Request, _: int) -> Reply:
    return Reply({name: {"n": 1_000.0 + int(name)} for name in request.query["ids"][0].split(",")})


def half(request: Request, number: int) -> Reply:
    body = right(request, number).body
    return Reply(dict(list(body.items())[::2]))


FAULTS: dict[str, Behaviour] = {
    "slow": lambda request, number: Reply(right(request, number).body, delay=20.0),
    "trickling": lambda *_: Reply(b"{", trickle=True),
    "failing": lambda *_: Reply(status=500),
    "busy": lambda *_: Reply(status=429, headers={"retry-after": "60"}),
    "garbage": lambda *_: Reply(b"\x00 no JSON"),
    "wrong shape": lambda *_: Reply([1, 2, 3]),
    "wrong kind": lambda request, _: Reply({name: {"n": "many"} for name in request.query["ids"][0].split(",")}),
    "strangers": lambda *_: Reply({str(name): {"n": 1.0} for name in range(5_000, 6_000)}),
    "not a number": lambda *_: Reply(b'{"0": {"n": NaN}, "1": {"n": NaN}, "2": {"n": NaN}}'),
    "moved": lambda *_: Reply(status=301, headers={"location": "http://127.0.0.1:9/"}),
}


def ranking(service: Any, replica: Replica, limits: Limits = LIMITS) -> RemoteJoin:
    return acquatop(
        Remote(service, limits=limits, known=replica), k=3, n=3, windows=WindowGrid(3 * SECOND, SECOND), score=np.add,
        policy="AT-BSM", budget=BUDGET,
    )  # fmt: skip


def filtering(service: Any, replica: Replica, limits: Limits = LIMITS) -> RemoteJoin:
    return filter_join(
        Remote(service, limits=limits, known=replica), windows=WindowGrid(3 * SECOND, SECOND), condition=">",
        threshold=10.0,
        policy="Filter Update", budget=BUDGET,
    )  # fmt: skip


def known() -> Replica:
    replica = Replica()
    replica.put(list(range(20)), np.arange(20.0), at=0)
    return replica


def window(join: RemoteJoin, number: int) -> tuple[JoinedAnswer, float]:
    """Answer a window; return the answer and how long it took."""
    join.arrive(list(range(20)), np.zeros(20), np.full(20, number * SECOND + SECOND // 2))
    start = time.monotonic()
    answer = join.evaluate((number + 1) * SECOND)
    return answer, time.monotonic() - start


@pytest.mark.parametrize("make", [ranking, filtering])
@pytest.mark.parametrize("fault", FAULTS)
def test_answers_keep_coming_stale_and_in_time(fault: str, make: Callable[..., RemoteJoin]) -> None:
    with Loopback(FAULTS[fault]) as server:
        join = make(HttpJson(f"{server.url}/?ids={{ids}}", "{id}.n"), known())
        for number in range(2, 8):
            answer, took = window(join, number)
            assert took < 5.0  # a slow one would take 20 seconds
            assert answer.ids == ([19, 18, 17] if make is ranking else list(range(11, 20)))
            assert (answer.refreshes, answer.failures) == (0, BUDGET)
            assert answer.stale == len(answer.rows)
            assert max(row.age for row in answer.rows) == (number + 1) * SECOND
            assert not answer.exact
        assert sum(len(r.query["ids"][0].split(",")) for r in server.requests) <= BUDGET * 6 * (1 + LIMITS.retries)


def test_nobody_there_and_then_somebody() -> None:
    """Down, then up: the breaker rests, tries again, and values are fresh once more."""
    with Loopback(lambda *_: Reply(status=503)) as server:
        join = ranking(HttpJson(f"{server.url}/?ids={{ids}}", "{id}.n"), known(), PATIENT)
        for number in range(2, 6):
            assert window(join, number)[0].refreshes == 0
        server.answer = right
        until, number, answer = time.monotonic() + 10.0, 6, window(join, 6)[0]
        while answer.refreshes < BUDGET and time.monotonic() < until:
            time.sleep(0.05)
            number += 1
            answer, _ = window(join, number)
        assert answer.refreshes == BUDGET
        assert answer.rows[0].value >= 1_000.0


def test_half_an_answer_is_half_a_refresh() -> None:
    with Loopback(half) as server:
        join = ranking(HttpJson(f"{server.url}/?ids={{ids}}", "{id}.n"), known(), PATIENT)
        answer, _ = window(join, 2)
        assert (answer.refreshes, answer.failures) == (2, 2)
        assert sum(row.age == 0 for row in answer.rows) == 2
        assert answer.stale == 1


def test_a_busy_service_is_not_asked_until_it_wants_to_be() -> None:
    with Loopback(lambda *_: Reply(status=429, headers={"retry-after": "60"})) as server:
        join = ranking(HttpJson(f"{server.url}/?ids={{ids}}", "{id}.n"), known())
        for number in range(2, 10):
            assert window(join, number)[0].failures == BUDGET
        assert len(server.requests) <= LIMITS.parallel  # those that were under way when it said so


def test_a_service_slower_than_the_window_is_used_for_the_next_answer() -> None:
    """Its values arrive too late for the answer that wanted them, but are older news for the next."""
    event, calls = threading.Event(), iter([True])

    def slow(ids: Any) -> dict[Any, float]:
        next(calls)  # it answers only once
        event.wait(20.0)
        return {name: 1_000.0 + name for name in ids}

    join = ranking(slow, known(), Limits(batch=100, timeout=5.0, deadline=0.05))
    first, took = window(join, 2)
    assert took < 5.0
    assert (first.refreshes, first.stale) == (0, 3)
    event.set()
    until = time.monotonic() + 10.0
    while not join.remote.gateway._late and time.monotonic() < until:
        time.sleep(0.01)
    second, _ = window(join, 3)
    assert second.rows[0].value > 1_000.0
    assert second.rows[0].age == SECOND  # as old as the question


def test_memory_and_threads_stay_flat() -> None:
    """Services that hang for ever, over many windows of ever new ids."""
    event = threading.Event()

    def hang(ids: Any) -> dict[Any, float]:
        event.wait(30.0)
        return dict.fromkeys(ids, 0.0)

    before = threading.active_count()
    limits = Limits(batch=1, parallel=3, timeout=0.01, deadline=0.02, trip_after=3, cooldown=0.01)
    replica = Replica(capacity=50)
    join = ranking(hang, replica, limits)
    for number in range(2, 60):
        names = list(range(number * 30, number * 30 + 30))
        join.arrive(names, np.zeros(30), np.full(30, number * SECOND))
        join.evaluate((number + 1) * SECOND)
        assert threading.active_count() - before <= limits.parallel
    gateway = join.remote.gateway
    assert (len(gateway._queue), len(gateway._late)) == (0, 0)
    assert len(join._waiting) <= 3 * 30
    assert len(replica) <= 50
    event.set()
