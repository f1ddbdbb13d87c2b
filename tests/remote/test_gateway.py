"""The gateway: limits hold, whatever a service does; what is not believed does not get through."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from skyband.errors import InputError
from skyband.remote.services import Gateway, Limits, ServiceError, ServiceTimeout
from skyband.remote.services.base import Id
from skyband.remote.services.gateway import CircuitBreaker
from tests.remote.servers import Clock

EPOCH = 1_700_000_000.0  # what the clock on the wall says when the process's own says 0


class Scripted:
    """A service that does one thing after another: raises errors, returns replies, calls functions."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.asked: list[list[Id]] = []

    def fetch(self, ids: Sequence[Id]) -> Mapping[Any, Any]:
        self.asked.append(list(ids))
        step = self.script.pop(0) if self.script else dict.fromkeys(ids, 1.0)
        if callable(step):
            step = step(ids)
        if isinstance(step, BaseException):
            raise step
        return step


def gateway(service: Any, clock: Clock | None = None, **limits: Any) -> Gateway:
    clock = clock or Clock()
    given = {"deadline": 1_000.0, "timeout": 500.0, "parallel": 1} | limits
    return Gateway(service, Limits(**given), clock=clock, sleep=clock.sleep, wall=lambda: EPOCH + clock.time)


def restarted(door: Gateway, clock: Clock, seconds: float = 0.0) -> Gateway:
    """Return what the next process, whose clock begins anew, makes of a gateway's state, so much later."""
    meta, tables = door.state()
    begun, clock.time = door._wall() + seconds, 5.0
    apart = begun - clock.time
    again = Gateway(door.service, door.limits, clock=clock, sleep=clock.sleep, wall=lambda: clock.time + apart)
    again.resume((json.loads(json.dumps(meta)), tables))
    return again


def test_values_come_in_batches() -> None:
    service = Scripted()
    fetched = gateway(service, batch=2).fetch([1, 2, 3, 2, 1])
    assert fetched.values == {1: 1.0, 2: 1.0, 3: 1.0}
    assert service.asked == [[1, 2], [3]]
    assert (fetched.traffic.requests, fetched.traffic.ids, fetched.failed) == (2, 3, ())


def test_nothing_is_asked_for_nothing() -> None:
    service = Scripted()
    assert gateway(service).fetch([]).values == {}
    assert service.asked == []


def test_a_service_that_tells_one_at_a_time_gets_one_at_a_time() -> None:
    service = Scripted()
    service.largest_batch = 1  # type: ignore[attr-defined]
    gateway(service).fetch([1, 2])
    assert service.asked == [[1], [2]]


def test_passing_failures_are_retried_with_growing_patience() -> None:
    clock = Clock()
    service = Scripted(ServiceError("no"), RuntimeError("no"), {1: 5})
    fetched = gateway(service, clock, retries=2, backoff=1.0, longest_backoff=60.0).fetch([1])
    assert fetched.values == {1: 5.0}
    assert (fetched.traffic.requests, fetched.traffic.retries, fetched.traffic.ids) == (3, 2, 3)
    first, second = clock.slept
    assert 0.5 <= first <= 1.0 <= second <= 2.0


def test_retries_end() -> None:
    service = Scripted(*[ServiceError("no")] * 9)
    fetched = gateway(service, retries=2).fetch([1, 2])
    assert (fetched.values, fetched.failed, len(service.asked)) == ({}, (1, 2), 3)


def test_failures_that_do_not_pass_are_not_retried() -> None:
    service = Scripted(ServiceError("gone", retry=False))
    assert gateway(service).fetch([1]).failed == (1,)
    assert len(service.asked) == 1


def test_one_batch_fails_the_others_do_not() -> None:
    service = Scripted(ServiceError("no", retry=False), {3: 3.0, 4: 4.0})
    fetched = gateway(service, batch=2).fetch([1, 2, 3, 4])
    assert (fetched.values, fetched.failed) == ({3: 3.0, 4: 4.0}, (1, 2))


def test_timeouts_are_counted_and_retried() -> None:
    service = Scripted(ServiceTimeout("slow"), TimeoutError("slow"))
    fetched = gateway(service).fetch([1])
    assert (fetched.values, fetched.traffic.timeouts) == ({1: 1.0}, 2)


def test_no_retry_starts_after_the_deadline() -> None:
    clock = Clock()

    def slow(_: Sequence[Id]) -> ServiceError:
        clock.time += 4.0
        return ServiceError("no")

    service = Scripted(*[slow] * 9)
    fetched = gateway(service, clock, deadline=10.0, retries=8, backoff=0.5, trip_after=99).fetch([1])
    assert fetched.failed == (1,)
    assert len(service.asked) <= 3
    assert clock.time <= 1_000.0 + 10.0 + 4.0


def test_the_rate_per_second_holds() -> None:
    clock = Clock()
    started: list[float] = []

    def note(ids: Sequence[Id]) -> dict[Id, float]:
        started.append(clock())
        return dict.fromkeys(ids, 1.0)

    door = gateway(Scripted(*[note] * 20), clock, batch=1, per_second=4.0)
    door.fetch(range(6))
    door.fetch(range(6, 10))
    assert len(started) == 10
    assert min(np.diff(started)) >= 0.25 - 1e-9


def test_what_does_not_fit_the_rate_before_the_deadline_is_not_asked() -> None:
    service = Scripted()
    fetched = gateway(service, batch=1, per_second=1.0, deadline=3.0).fetch(list(range(10)))
    assert len(service.asked) == len(fetched.values) == 3
    assert len(fetched.failed) == 7


def test_requests_per_evaluation_hold_with_retries() -> None:
    service = Scripted(ServiceError("no"), ServiceError("no"))
    door = gateway(service, batch=1, per_evaluation=4, backoff=0.0)
    assert door.fetch([1, 2, 3, 4]).traffic.requests == 4
    assert door.fetch([1]).traffic.requests == 1  # the next evaluation has its own


def test_a_busy_service_is_left_alone_as_long_as_it_says() -> None:
    clock = Clock()
    service = Scripted(ServiceError("busy", after=60.0))
    door = gateway(service, clock, deadline=10.0)
    assert door.fetch([1]).failed == (1,)
    assert door.fetch([2]).failed == (2,)
    assert len(service.asked) == 1
    clock.time += 60.0
    assert door.fetch([1]).values == {1: 1.0}


def test_a_busy_service_is_waited_for_where_there_is_time() -> None:
    clock = Clock()
    service = Scripted(ServiceError("busy", after=3.0))
    assert gateway(service, clock, deadline=10.0).fetch([1]).values == {1: 1.0}
    assert clock.time >= 1_003.0


def test_the_breaker_opens_rests_tries_and_closes() -> None:
    clock = Clock()
    service = Scripted(*[ServiceError("down")] * 4)
    door = gateway(service, clock, retries=0, trip_after=3, cooldown=30.0, batch=1, deadline=20.0)
    assert door.fetch([1, 2, 3, 4, 5]).failed == (1, 2, 3, 4, 5)
    assert len(service.asked) == 3  # then it is open
    assert door.fetch([1]).traffic.requests == 0
    clock.time += 31.0
    assert door.fetch([1, 2]).traffic.requests == 1  # one tries it, in vain
    assert door.fetch([1]).traffic.requests == 0
    clock.time += 31.0
    assert door.fetch([1, 2]).values.keys() >= {1}
    assert door.fetch([1, 2]).traffic.requests == 2


def test_a_service_that_only_lies_is_left_alone_as_well() -> None:
    service = Scripted(*[{"other": 1.0}] * 9)
    door = gateway(service, trip_after=3, batch=1, deadline=5.0)
    assert door.fetch([1, 2, 3, 4, 5]).failed == (1, 2, 3, 4, 5)
    assert len(service.asked) == 3


def test_after_a_rest_one_request_alone_tries() -> None:
    breaker = CircuitBreaker(trip_after=1, cooldown=10.0)
    breaker.failed(0.0)
    assert not breaker.lets_through(9.0)
    assert breaker.lets_through(10.0)
    assert not breaker.lets_through(10.0)  # until it is known how the first ends
    breaker.inconclusive()
    assert breaker.lets_through(11.0)
    breaker.succeeded()
    assert all(breaker.lets_through(12.0) for _ in range(3))


def test_missing_ids_are_remembered_for_a_while() -> None:
    clock = Clock()
    service = Scripted({1: None}, {1: 7.0})
    door = gateway(service, clock, remember_missing=60.0)
    first, again = door.fetch([1]), door.fetch([1])
    assert math.isnan(first.values[1])
    assert math.isnan(again.values[1])
    assert (first.traffic.missing, again.traffic.remembered, again.traffic.requests) == (1, 1, 0)
    clock.time += 61.0
    assert door.fetch([1]).values == {1: 7.0}


def test_what_is_known_not_to_exist_can_be_asked_of_the_gateway() -> None:
    clock = Clock()
    door = gateway(Scripted({1: None, 2: 5.0}), clock, remember_missing=60.0)
    door.fetch([1, 2])
    assert door.known_missing() == [1]
    clock.time += 60.0
    assert door.known_missing() == []


def test_a_crash_loop_does_not_ask_more_often_than_is_allowed() -> None:
    """A process that dies after its first request, again and again: with the last state, an old one or none at all."""
    for kept in ("last", "old", "none"):
        clock = Clock()
        started: list[float] = []

        def note(ids: Sequence[Id], clock: Clock = clock, started: list[float] = started) -> dict[Id, float]:
            started.append(clock())
            return dict.fromkeys(ids, 1.0)

        state = gateway(note, clock, per_second=0.5).state()
        for number in range(6):
            door = gateway(note, clock, per_second=0.5)
            door.resume(None if kept == "none" else state)
            door.fetch([number])
            state = door.state() if kept == "last" else state
        assert len(started) == 6
        assert min(np.diff(started)) >= 2.0 - 1e-9


def test_after_a_restart_a_busy_service_is_still_left_alone() -> None:
    clock, service = Clock(), Scripted(ServiceError("busy", after=60.0))
    door = gateway(service, clock, deadline=10.0)
    door.fetch([1])
    again = restarted(door, clock, seconds=20.0)
    assert again.fetch([1]).traffic.requests == 0
    clock.time += 29.0  # until the deadline of the next, 59 of 60 seconds have passed
    assert again.fetch([1]).traffic.requests == 0
    clock.time += 11.0
    assert again.fetch([1]).values == {1: 1.0}


def test_after_a_restart_the_breaker_is_still_open() -> None:
    clock, service = Clock(), Scripted(*[ServiceError("down")] * 4)
    door = gateway(service, clock, retries=0, trip_after=3, cooldown=30.0, batch=1, deadline=5.0)
    door.fetch([1, 2, 3])
    again = restarted(door, clock, seconds=20.0)
    assert again.fetch([1]).traffic.requests == 0
    clock.time += 10.0
    assert again.fetch([1, 2]).traffic.requests == 1, "one tries it, in vain"
    assert restarted(again, clock, seconds=31.0).fetch([1, 2]).values == {1: 1.0, 2: 1.0}


def test_after_a_restart_it_is_still_known_what_does_not_exist() -> None:
    clock = Clock()
    door = gateway(Scripted({1: None}), clock, remember_missing=60.0)
    door.fetch([1])
    again = restarted(door, clock, seconds=40.0)
    assert again.known_missing() == [1]
    clock.time += 20.0
    assert again.known_missing() == []
    assert restarted(door, clock, seconds=-3_000.0).known_missing() == [1], "the clock was set back"


def test_who_has_asked_knows_better_than_a_state() -> None:
    """A stream that goes back to an earlier state within one process has a gateway that remembers more."""
    clock, service = Clock(), Scripted(ServiceError("busy", after=60.0))
    door = gateway(service, clock, deadline=10.0)
    before = door.state()
    door.fetch([1])
    door.resume(before)
    assert door.fetch([1]).traffic.requests == 0


def test_memory_for_missing_ids_is_bounded() -> None:
    door = gateway(lambda ids: dict.fromkeys(ids), most_remembered=10)
    door.fetch(list(range(1_000)))
    assert door.fetch(list(range(1_000))).traffic.remembered == 10


@pytest.mark.parametrize(
    "reply",
    [None, 5, "text", [1, 2], [(1, 2.0)], {}, {"other": 1.0}, {1: "12"}, {1: math.nan}, {1: True}, {1: [1.0]},
     {1: 10**400}, {1: {"value": 1}}, {1: 1 + 2j}],
)  # fmt: skip
def test_lies_are_failures(reply: Any) -> None:
    fetched = gateway(Scripted(*[reply] * 9)).fetch([1])
    assert (fetched.values, fetched.failed, fetched.traffic.failed) == ({}, (1,), 1)


class Trap(dict[Any, Any]):
    def __len__(self) -> int:
        msg = "trap"
        raise KeyError(msg)


@pytest.mark.parametrize("reply", [Trap({1: 1.0}), SystemExit("no"), KeyboardInterrupt()])
def test_traps_are_failures(reply: Any) -> None:
    door = gateway(Scripted(reply), retries=0)
    assert door.fetch([1]).failed == (1,)
    assert door.fetch([1]).values == {1: 1.0}  # the next one is served


@pytest.mark.parametrize("value", [3, 3.0, Decimal(3), np.float32(3), np.int64(3)])
def test_numbers_of_any_kind_are_values(value: Any) -> None:
    assert gateway(Scripted({1: value})).fetch([1]).values == {1: 3.0}


def test_infinite_values_are_legal() -> None:
    assert gateway(Scripted({1: math.inf})).fetch([1]).values == {1: math.inf}


def test_strays_and_halves_are_counted() -> None:
    fetched = gateway(Scripted({1: 1.0, 2: math.nan, 98: 5.0, 99: 5.0})).fetch([1, 2, 3])
    assert (fetched.values, fetched.failed) == ({1: 1.0}, (2, 3))
    assert (fetched.traffic.unexpected, fetched.traffic.bad) == (2, 1)


def test_a_timeout_is_handed_on_and_never_beyond_the_deadline() -> None:
    told: list[float] = []

    class Polite:
        def fetch(self, ids: Sequence[Id], timeout: float) -> Mapping[Any, Any]:
            told.append(timeout)
            return dict.fromkeys(ids, 1.0)

    gateway(Polite(), timeout=5.0).fetch([1])
    gateway(Polite(), timeout=5.0, deadline=2.0).fetch([1])
    assert told == [5.0, 2.0]


# From here on with real time: services that hang. Each waits for a fraction of a second.


def hanging(event: threading.Event, hangs: Sequence[Id]) -> Any:
    def fetch(ids: Sequence[Id]) -> dict[Id, float]:
        if set(ids) & set(hangs):
            event.wait(20.0)
        return dict.fromkeys(ids, 2.0)

    return fetch


def test_a_hanging_service_delays_nothing_beyond_the_deadline() -> None:
    event = threading.Event()
    door = Gateway(hanging(event, [3]), Limits(batch=1, parallel=2, deadline=0.3))
    start = time.monotonic()
    fetched = door.fetch([1, 2, 3, 4])
    assert 0.2 < time.monotonic() - start < 10.0  # it would hang for 20 seconds
    assert (fetched.values, fetched.failed) == ({1: 2.0, 2: 2.0, 4: 2.0}, (3,))
    assert fetched.traffic.timeouts == 1
    event.set()


def test_a_hanging_request_is_given_up_at_its_timeout() -> None:
    event = threading.Event()
    door = Gateway(hanging(event, [1]), Limits(batch=1, parallel=2, timeout=0.2, deadline=15.0))
    start = time.monotonic()
    assert door.fetch([1, 2]).failed == (1,)
    assert time.monotonic() - start < 10.0
    event.set()


def test_hanging_requests_keep_their_places_and_threads_stay_few() -> None:
    event = threading.Event()
    before = threading.active_count()
    door = Gateway(hanging(event, range(99)), Limits(batch=1, parallel=3, deadline=0.05, trip_after=1_000))
    for start in range(0, 60, 10):
        assert door.fetch(list(range(start, start + 10))).values == {}
    assert threading.active_count() - before <= 3
    assert len(door._queue) == 0
    assert door.traffic.requests == 3
    event.set()


def test_what_comes_late_is_used_the_next_time() -> None:
    event = threading.Event()
    door = Gateway(hanging(event, [1]), Limits(deadline=0.1))
    assert door.fetch([1], at=77).failed == (1,)
    event.set()
    until = time.monotonic() + 10.0
    late: dict[Id, tuple[float, int]] = {}
    while not late and time.monotonic() < until:
        late = door.fetch([], at=78).late
        time.sleep(0.01)
    assert late == {1: (2.0, 77)}
    assert door.fetch([]).late == {}


def test_requests_run_at_the_same_time_but_not_too_many() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def fetch(ids: Sequence[Id]) -> dict[Id, float]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.03)
        with lock:
            running -= 1
        return dict.fromkeys(ids, 1.0)

    assert len(Gateway(fetch, Limits(batch=1, parallel=3)).fetch(list(range(9))).values) == 9
    assert most == 3


def test_counts_add_up_over_evaluations() -> None:
    door = gateway(Scripted({1: 1.0}, ServiceError("no", retry=False), {1: 1.0, 5: 1.0}))
    for _ in range(3):
        door.fetch([1])
    assert (door.traffic.requests, door.traffic.failed, door.traffic.unexpected) == (3, 1, 1)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"batch": 0}, "the limit batch is 0; it must be at least 1"),
        ({"timeout": -1.0}, "the limit timeout is -1.0; it must be at least 0"),
        ({"deadline": math.nan}, "the limit deadline is nan"),
        ({"per_second": 0}, "so nothing could ever be asked"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Limits(**limits)


def test_what_is_no_service_is_refused() -> None:
    with pytest.raises(InputError, match="a service is something with fetch"):
        Gateway(5)  # type: ignore[arg-type]
