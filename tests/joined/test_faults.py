"""A monitor whose service misbehaves, over real HTTP: the stream keeps its pace, answers keep coming and say how stale
they are, budgets hold, memory stays flat; and when the service is well again, so are the answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import skyband as sb
from skyband.remote.services import HttpJson, Limits
from tests.remote.servers import Loopback, Reply, Request

SECOND = 1_000_000
BUDGET = 4
LIMITS = Limits(
    batch=2, parallel=2, timeout=0.1, deadline=0.15, retries=1, backoff=0.01, trip_after=4, cooldown=0.3,
    remember_missing=0.0,
)  # fmt: skip
Behaviour = Callable[[Request, int], Reply]
TOP = sb.Query("top", k=3, score="count(*) + followers", window=sb.Window("3 seconds", slide="1 second"),
               join=sb.Join("followers", n=5, budget=BUDGET))  # fmt: skip
MANY = sb.Query("many", k=50, score="followers", where="followers > 10", window=TOP.window,
                join=sb.Join("followers", budget=BUDGET))  # fmt: skip
PLAIN = sb.Query("plain", k=1, score="x", window=TOP.window)
KNOWN = {name: float(name) for name in range(20)}


def right(request: Request, _: int) -> Reply:
    return Reply({name: {"n": 1_000.0 + int(name)} for name in request.query["ids"][0].split(",")})


def half(request: Request, number: int) -> Reply:
    return Reply(dict(list(right(request, number).body.items())[::2]))


FAULTS: dict[str, Behaviour] = {
    "slower than the window": lambda request, number: Reply(right(request, number).body, delay=20.0),
    "down": lambda *_: Reply(status=503),
    "busy": lambda *_: Reply(status=429, headers={"retry-after": "60"}),
    "garbage": lambda *_: Reply(b"\x00 no JSON"),
    "wrong answers": lambda request, _: Reply({name: {"n": "many"} for name in request.query["ids"][0].split(",")}),
    "strangers": lambda *_: Reply({str(name): {"n": 1.0} for name in range(5_000, 6_000)}),
    "cut short": lambda request, number: Reply(right(request, number).body, cut=5),
}


class Live:
    """A monitor over a stream of seconds, each with an event of every id."""

    def __init__(self, url: str, limits: Limits = LIMITS, **more: Any) -> None:
        self.remote = sb.Remote(HttpJson(f"{url}/?ids={{ids}}", "{id}.n"), limits=limits, known=KNOWN, **more)
        self.monitor = sb.Monitor([TOP, MANY, PLAIN], time="t", id="id", services={"followers": self.remote})
        self.second = 0

    def tick(self, ids: range = range(20)) -> tuple[dict[str, sb.Answer], float]:
        """Let a second pass; return the answers, and how long they took."""
        at, self.second = self.second * SECOND + SECOND // 2, self.second + 1
        self.monitor.push({"t": [at] * len(ids), "id": list(ids), "x": [float(self.second)] * len(ids)})
        began = time.monotonic()
        answers = self.monitor.advance(self.second * SECOND)
        return {answer.query: answer for answer in answers}, time.monotonic() - began


@pytest.mark.parametrize("fault", FAULTS)
def test_answers_keep_coming_stale_and_in_time(fault: str) -> None:
    with Loopback(FAULTS[fault]) as server:
        live = Live(server.url)
        for second in range(1, 7):
            answers, took = live.tick()
            assert took < 5.0  # waiting for a slow one would take 20 seconds
            assert [row.id for row in answers["top"].rows] == [19, 18, 17]
            assert [row.id for row in answers["many"].rows] == list(range(19, 10, -1))
            assert answers["plain"].exact
            for answer in (answers["top"], answers["many"]):
                assert (answer.refreshes, answer.stale) == (0, len(answer.rows))
                assert {row.age for row in answer.rows} == {second * SECOND}
                assert (answer.exact, answer.why) == (False, "remote values are stale or not known")
        # Two queries, whose elections may overlap, and one repetition of each request.
        asked = sum(len(request.query["ids"][0].split(",")) for request in server.requests)
        assert asked <= 2 * BUDGET * 6 * (1 + LIMITS.retries)


def test_nobody_there_at_all() -> None:
    live = Live("http://127.0.0.1:9")
    for _ in range(3):
        answers, took = live.tick()
        assert took < 5.0
        assert answers["top"].failures == BUDGET


def test_half_of_the_ids_missing_is_half_a_refresh() -> None:
    with Loopback(half) as server:
        answers, _ = Live(server.url, replace(LIMITS, timeout=10, deadline=10)).tick()
        spent = [(answers[name].refreshes or 0, answers[name].failures or 0) for name in ("top", "many")]
        assert [sum(both) for both in spent] == [BUDGET, BUDGET]
        assert sum(refreshes for refreshes, _ in spent) == sum(failures for _, failures in spent) == BUDGET
        assert sum(row.age == 0 for row in answers["top"].rows) + (answers["top"].stale or 0) == 3


@pytest.mark.parametrize("fault", ["down", "busy", "garbage"])
def test_when_the_service_is_well_again_so_are_the_answers(fault: str) -> None:
    busy: Behaviour = lambda *_: Reply(status=429, headers={"retry-after": "1"})  # noqa: E731 - as in the table above
    with Loopback(busy if fault == "busy" else FAULTS[fault]) as server:
        live = Live(server.url, replace(LIMITS, timeout=0.5, deadline=0.5))
        for _ in range(4):
            assert live.tick()[0]["top"].refreshes == 0
        server.answer = right
        until = time.monotonic() + 20
        while (answer := live.tick()[0]["top"]).refreshes != BUDGET and time.monotonic() < until:
            time.sleep(0.05)
        assert answer.refreshes == BUDGET
        assert answer.rows[0].followers >= 1_000


def test_a_busy_service_is_left_alone() -> None:
    with Loopback(FAULTS["busy"]) as server:
        live = Live(server.url, replace(LIMITS, timeout=5, deadline=5))
        for _ in range(20):
            assert live.tick()[0]["top"].refreshes == 0
        assert len(server.requests) <= LIMITS.parallel  # those that were under way when it said so


def test_memory_threads_and_snapshots_stay_flat() -> None:
    """A service that hangs, over many windows of ever new ids, with a bounded copy."""
    with Loopback(FAULTS["slower than the window"]) as server:
        live = Live(server.url, replace(LIMITS, timeout=0.02, deadline=0.03, cooldown=0.05), capacity=50)
        sizes = []
        for second in range(60):
            live.tick(range(second * 30, second * 30 + 30))
            sizes.append(len(live.monitor.snapshot()))
            assert len(live.remote.replica) <= 50
        ours = [thread for thread in threading.enumerate() if thread.name == "skyband-gateway"]
        assert len(ours) <= LIMITS.parallel
        assert max(sizes[30:]) < 1.1 * max(sizes[10:30])
        kept = [group.kept for group in live.monitor.stats().groups]
        assert max(kept) <= 30 * 6


def test_a_shared_budget_holds_under_fault() -> None:
    """Of two queries that fetch together, no moment asks for more ids than the service's budget."""
    asked: list[int] = []

    def count(request: Request, number: int) -> Reply:
        asked.append(len(request.query["ids"][0].split(",")))
        return half(request, number)

    with Loopback(count) as server:
        live = Live(server.url, replace(LIMITS, batch=100, retries=0, timeout=10, deadline=10), budget=5)
        for _ in range(6):
            answers, _ = live.tick()
            assert (answers["top"].refreshes or 0) <= BUDGET
        assert len(asked) == 6
        assert max(asked) == 5
