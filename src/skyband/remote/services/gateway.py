"""The gateway: the one place that decides how a service is asked, and which of its replies count.

Requests run in threads, so that a service that hangs cannot hold up an answer: at the deadline the answer goes out
with what is there, and what comes later is used the next time. There are never more threads than parallel requests.

Examples
--------
>>> followers = {"ann": 120, "bob": 80}
>>> gateway = Gateway(lambda ids: {name: followers.get(name) for name in ids}, Limits(batch=2))
>>> fetched = gateway.fetch(["ann", "bob", "eve"])
>>> fetched.values, fetched.traffic.requests, fetched.traffic.missing
({'ann': 120.0, 'bob': 80.0, 'eve': nan}, 2, 1)
"""

from __future__ import annotations

import inspect
import math
import random
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from numbers import Real
from typing import Any

import pyarrow as pa

from skyband.errors import InputError
from skyband.remote.services.base import Function, Id, Limits, Service, ServiceError, State, id_columns, ids_in

_GRACE = 1.1  # a service that keeps to its timeout itself ends before it is given up


@dataclass
class Traffic:
    """What was asked, and what came of it."""

    requests: int = 0  # that were made, also those that repeat others
    retries: int = 0  # requests that repeat others
    ids: int = 0  # that were asked for in them, each time
    failed: int = 0  # ids for which no usable value came
    timeouts: int = 0  # requests that took too long
    missing: int = 0  # ids that do not exist
    remembered: int = 0  # ids that were known not to exist, and not asked for
    bad: int = 0  # values that are no number
    unexpected: int = 0  # values of ids that nobody asked for
    late: int = 0  # values that came after the answer had gone out

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Fetched:
    """What came of one evaluation's requests.

    `values` has NaN for ids that do not exist. `late` are values of earlier evaluations that came after their
    deadline, with the `at` that they were asked with.
    """

    values: dict[Id, float]
    failed: tuple[Id, ...]
    traffic: Traffic
    late: dict[Id, tuple[float, int]]


@dataclass(eq=False)
class _Ticket:
    """One batch on its way. `given_up` is set by the evaluation that waits, all else by the thread that asks."""

    ids: list[Id]
    round: _Round
    values: dict[Id, float] = field(default_factory=dict)
    ends_by: float = math.inf
    started: bool = False
    done: bool = False
    given_up: bool = False


@dataclass(eq=False)
class _Round:
    """One evaluation: its deadline, its requests so far."""

    deadline: float
    at: int
    traffic: Traffic
    requests: int = 0


class Gateway:
    """Asks a service, anything with a `fetch` or a function from ids to values, within limits.

    For tests: `clock` returns seconds that only grow, `wall` those that other processes know as well; `sleep` waits.
    """

    def __init__(
        self,
        service: Service | Callable[[Sequence[Id]], Mapping[Any, Any]],
        limits: Limits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        wall: Callable[[], float] = time.time,
    ) -> None:
        if not hasattr(service, "fetch") and not callable(service):
            msg = f"a service is something with fetch(ids), or a function; this is a {type(service).__name__}"
            raise InputError(msg)
        self.service: Service = service if hasattr(service, "fetch") else Function(service)
        self.limits = limits or Limits()
        self.traffic = Traffic()
        self._takes_timeout = "timeout" in inspect.signature(self.service.fetch).parameters
        self._clock, self._sleep, self._wall = clock, sleep, wall
        self._limiter = RateLimiter(self.limits.per_second)
        self._breaker = CircuitBreaker(self.limits.trip_after, self.limits.cooldown)
        self._missing = MissingIds(self.limits.remember_missing, self.limits.most_remembered)
        self._late: dict[Id, tuple[float, int]] = {}
        self._changed = threading.Condition()  # guards all that is above and below
        self._queue: deque[_Ticket] = deque()
        self._threads = 0

    def fetch(self, ids: Sequence[Id], at: int = 0) -> Fetched:
        """Return the values of ids that come before the deadline; never raises for what a service does.

        `at` is the time of the evaluation; it comes back with values that are late.
        """
        start = self._clock()
        asking = _Round(start + self.limits.deadline, at, Traffic())
        wanted = list(dict.fromkeys(ids))
        with self._changed:
            values = dict.fromkeys(self._missing.known(wanted, start), math.nan)
            tickets = self._tickets([name for name in wanted if name not in values], asking, start)
            asking.traffic.remembered = len(values)
            self._wait(tickets)
            for ticket in tickets:
                values |= ticket.values
            return self._report(wanted, values, asking.traffic)

    def known_missing(self) -> list[Id]:
        """Return the ids that are remembered not to exist; they need not be asked for yet."""
        with self._changed:
            return list(self._missing.left(self._clock()))

    def _tickets(self, ids: list[Id], asking: _Round, now: float) -> list[_Ticket]:
        """Put batches into the queue, and start threads for them."""
        if not ids or not self._breaker.closed(now):
            return []
        size = min(self.limits.batch, getattr(self.service, "largest_batch", None) or self.limits.batch)
        tickets = [_Ticket(ids[i : i + size], asking) for i in range(0, len(ids), size)]
        self._queue.extend(tickets)
        for _ in range(min(len(tickets), self.limits.parallel - self._threads)):
            self._threads += 1
            threading.Thread(target=self._work, name="skyband-gateway", daemon=True).start()
        return tickets

    def _wait(self, tickets: list[_Ticket]) -> None:
        """Wait until all batches are done or given up."""
        while pending := [ticket for ticket in tickets if not (ticket.done or ticket.given_up)]:
            now = self._clock()
            for ticket in pending:
                if now >= min(ticket.ends_by, ticket.round.deadline):
                    self._give_up(ticket, now)
            wake = min(min(ticket.ends_by, ticket.round.deadline) for ticket in pending)
            if wake > now:
                self._changed.wait(wake - now)

    def _give_up(self, ticket: _Ticket, now: float) -> None:
        ticket.given_up = True
        if ticket.started:
            ticket.round.traffic.timeouts += 1
            self._breaker.failed(now)
        else:
            self._queue.remove(ticket)

    def _report(self, wanted: list[Id], values: dict[Id, float], traffic: Traffic) -> Fetched:
        failed = tuple(name for name in wanted if name not in values)
        traffic.failed = len(failed)
        traffic.missing = sum(map(math.isnan, values.values()))
        late, self._late = self._late, {}
        traffic.late = len(late)
        self.traffic += traffic
        return Fetched(values, failed, Traffic() + traffic, late)

    # Snapshots.

    def state(self) -> State:
        """Return what must outlive a restart: when the service may be asked again, and which ids do not exist.

        Requests on their way, and values that came too late, are lost with the process.
        """
        with self._changed:
            now = self._clock()
            pace, breaker, missing = self._limiter.left(now), self._breaker.left(now), self._missing.left(now)
            at = self._wall() if pace or breaker[1] or missing else 0.0  # where nothing waits, states do not differ
        return {"at": at, "pace": pace, "breaker": breaker}, {
            "missing": pa.table({**id_columns(missing), "left": pa.array(missing.values(), pa.float64())})
        }

    def resume(self, state: State | None = None) -> None:
        """Go on after a restart, so that no series of them asks more often than is allowed.

        The first request waits as if one had been made just before. The `state` is that before the restart, if it is
        known; a gateway that has made requests of its own knows better than any state, and ignores it.
        """
        with self._changed:
            if self.traffic.requests:
                return
            now = self._clock()
            meta, tables = state or ({"at": 0.0, "pace": 0.0, "breaker": (0, 0.0)}, {})
            passed = max(self._wall() - meta["at"], 0.0)  # 0: the clock was set back
            self._limiter.resume(meta["pace"] - passed, now)
            failures, left = meta["breaker"]
            self._breaker.resume(failures, max(left - passed, 0.0), now)
            if "missing" in tables:
                ids, left = ids_in(tables["missing"]), tables["missing"]["left"].to_pylist()
                self._missing.resume({name: seconds - passed for name, seconds in zip(ids, left, strict=True)}, now)

    # What the threads do.

    def _work(self) -> None:
        """Ask for one batch after another, until none is left."""
        while True:
            with self._changed:
                if not self._queue:
                    self._threads -= 1
                    return
                ticket = self._queue.popleft()
                ticket.started = True
            values = self._ask(ticket)
            with self._changed:
                self._missing.remember((name for name, value in values.items() if math.isnan(value)), self._clock())
                if ticket.given_up:
                    self._late |= {name: (value, ticket.round.at) for name, value in values.items()}
                else:
                    ticket.values, ticket.done = values, True
                self._changed.notify_all()

    def _ask(self, ticket: _Ticket) -> dict[Id, float]:
        """Make a request, and repeat it as long as that may help; return what is usable."""
        for attempt in range(self.limits.retries + 1):
            if not self._may_start(ticket, again=attempt > 0):
                return {}
            try:
                return self._read(ticket, self._call(ticket))
            except BaseException as error:  # whatever a service does, the answer goes out and the thread goes on
                wait = self._failed(ticket, error, attempt)
            if wait is None:
                return {}
            self._sleep(wait)
        return {}

    def _may_start(self, ticket: _Ticket, again: bool) -> bool:
        """Wait until the request may start; return whether it may before the deadline, within all limits."""
        asking, limits = ticket.round, self.limits
        with self._changed:
            now = self._clock()
            if ticket.given_up or (limits.per_evaluation is not None and asking.requests >= limits.per_evaluation):
                return False
            if not self._breaker.lets_through(now):
                return False
            start = self._limiter.reserve(now, asking.deadline)
            if start is None:
                self._breaker.inconclusive()
                return False
            asking.requests += 1  # before the wait: others must not count on the same place
        if start > now:
            self._sleep(start - now)
        with self._changed:
            if ticket.given_up:
                self._breaker.inconclusive()
                return False
            asking.traffic.requests += 1
            asking.traffic.retries += again
            asking.traffic.ids += len(ticket.ids)
            ticket.ends_by = self._clock() + limits.timeout * _GRACE
            self._changed.notify_all()
        return True

    def _call(self, ticket: _Ticket) -> Any:
        if not self._takes_timeout:
            return self.service.fetch(ticket.ids)
        left = min(self.limits.timeout, ticket.round.deadline - self._clock())
        return self.service.fetch(ticket.ids, timeout=max(left, 0.001))  # type: ignore[call-arg]

    def _read(self, ticket: _Ticket, reply: Any) -> dict[Id, float]:
        """Return the values of a reply that were asked for and are numbers."""
        if not isinstance(reply, Mapping):
            msg = f"the service returned a {type(reply).__name__}; a mapping from ids to values is expected"
            raise ServiceError(msg, retry=False)
        values: dict[Id, float] = {}
        named = 0
        for name in ticket.ids:
            if name in reply:
                named += 1
                value = _number(reply[name])
                if value is not None:
                    values[name] = value
        unexpected = max(len(reply) - named, 0)
        with self._changed:
            ticket.round.traffic.bad += named - len(values)
            ticket.round.traffic.unexpected += unexpected
            if values:
                self._breaker.succeeded()
            else:
                self._breaker.failed(self._clock())
        return values

    def _failed(self, ticket: _Ticket, error: BaseException, attempt: int) -> float | None:
        """Note a failure; return how long to wait before the next attempt, None if there is none."""
        retry, after = getattr(error, "retry", True), getattr(error, "after", None)
        wait = min(self.limits.backoff * 2.0**attempt, self.limits.longest_backoff) * random.uniform(0.5, 1.0)
        with self._changed:
            now = self._clock()
            ticket.ends_by = math.inf
            if after is not None:  # also where it says so late
                self._limiter.wait_until(now + after)
            if ticket.given_up:  # counted when it was
                return None
            ticket.round.traffic.timeouts += isinstance(error, TimeoutError)
            if after is None:
                self._breaker.failed(now)
            else:  # it works, and has said when to ask again
                self._breaker.inconclusive()
        return wait if retry and now + wait < ticket.round.deadline else None


# What the gateway remembers. These know no clock: they are given the time. They are not safe for threads; the gateway
# holds a lock. What must outlive a restart they report as seconds that are left, since clocks differ.


class RateLimiter:
    """When the next request may start: evenly spaced, and not before the time that the service has asked for."""

    def __init__(self, per_second: float | None) -> None:
        self._apart = 0.0 if per_second is None else 1.0 / per_second
        self._next = 0.0

    def reserve(self, now: float, until: float) -> float | None:
        """Return when a request may start, and keep that moment for it; None where it is too late by then."""
        start = max(now, self._next)
        if start >= until:
            return None
        self._next = start + self._apart
        return start

    def wait_until(self, moment: float) -> None:
        """Let no request start before."""
        self._next = max(self._next, moment)

    def left(self, now: float) -> float:
        """Return for how long no request may start."""
        return max(self._next - now, 0.0)

    def resume(self, left: float, now: float) -> None:
        """Go on after a restart, as if a request had been made just before it: one may have been."""
        self.wait_until(now + max(left, self._apart))


class CircuitBreaker:
    """Stops requests to a service that fails again and again; after the cooldown one request tries it.

    It is our own since it must survive restarts: its state is part of every snapshot, so that a job that restarts in a
    loop does not ask a failing service each time. Libraries keep theirs in the process, or in a store of their own.
    """

    def __init__(self, trip_after: int, cooldown: float) -> None:
        self._trip_after, self._cooldown = trip_after, cooldown
        self._failures = 0
        self._open_until = 0.0
        self._trying = False

    def lets_through(self, now: float) -> bool:
        """Tell whether a request may be made; after the cooldown, one alone until it is known how it ends."""
        if self._failures < self._trip_after:
            return True
        if now < self._open_until or self._trying:
            return False
        self._trying = True
        return True

    def closed(self, now: float) -> bool:
        """Tell whether anything may be asked now, without asking."""
        return self._failures < self._trip_after or (now >= self._open_until and not self._trying)

    def succeeded(self) -> None:
        """Note an answer."""
        self._failures, self._trying = 0, False

    def failed(self, now: float) -> None:
        """Note a failure."""
        self._failures, self._trying = self._failures + 1, False
        if self._failures >= self._trip_after:
            self._open_until = now + self._cooldown

    def inconclusive(self) -> None:
        """Note a request that says nothing about whether the service works."""
        self._trying = False

    def left(self, now: float) -> tuple[int, float]:
        """Return the number of failures in a row, and how long the circuit stays open for them."""
        return self._failures, max(self._open_until - now, 0.0)

    def resume(self, failures: int, left: float, now: float) -> None:
        """Go on after a restart."""
        self._failures, self._open_until = failures, now + left


class MissingIds:
    """Ids that do not exist, remembered for a while; of more than `most`, those found missing first are forgotten."""

    def __init__(self, lasting: float, most: int) -> None:
        self._lasting, self._most = lasting, most
        self._until: OrderedDict[Id, float] = OrderedDict()

    def known(self, ids: Iterable[Id], now: float) -> list[Id]:
        """Return those of some ids that are remembered not to exist."""
        return [name for name in ids if self._until.get(name, -math.inf) > now] if self._until else []

    def remember(self, ids: Iterable[Id], now: float) -> None:
        """Note ids that do not exist."""
        self.resume(dict.fromkeys(ids, self._lasting), now)

    def left(self, now: float) -> dict[Id, float]:
        """Return for how long each is still remembered."""
        return {name: until - now for name, until in self._until.items() if until > now}

    def resume(self, left: Mapping[Id, float], now: float) -> None:
        """Go on after a restart, with ids that are remembered for some more seconds."""
        for name, seconds in left.items():
            if seconds > 0:
                self._until[name] = now + min(seconds, self._lasting)
                self._until.move_to_end(name)
        while len(self._until) > self._most:
            self._until.popitem(last=False)


def _number(value: Any) -> float | None:
    """Return a value as a number, NaN for one that is missing; None where it is none."""
    if type(value) is float:  # mostly
        return None if math.isnan(value) else value
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return None if math.isnan(number) else number
