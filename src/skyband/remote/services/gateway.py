"""The gateway: the one place that decides how a service is asked, and what of its answers is believed.

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
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any

import pyarrow as pa

from skyband.errors import InputError
from skyband.remote.services.base import Id, Service, ServiceError, id_columns, ids_in
from skyband.remote.services.function import Function
from skyband.remote.services.limits import CircuitBreaker, Limits, MissingIds, RateLimiter, Traffic

State = tuple[dict[str, Any], dict[str, pa.Table]]
_GRACE = 1.1  # a service that keeps to its timeout itself ends before it is given up


@dataclass(frozen=True)
class Fetched:
    """What came of one evaluation's requests.

    `values` has NaN for ids that do not exist. `late` are values of earlier evaluations that came after their
    deadline, with the `at` that they were asked with.
    """

    values: dict[Id, float]
    failed: tuple[Id, ...]
    traffic: Traffic
    late: dict[Id, tuple[float, int]] = field(default_factory=dict)


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
    """Asks a service within limits.

    Parameters
    ----------
    service
        Anything with a `fetch`, or a function from ids to values.
    limits
        How it may be asked.
    clock, sleep, wall
        Seconds that only grow, a way to wait, and seconds that other processes know as well; for tests.
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
        self._pace = RateLimiter(self.limits.per_second)
        self._breaker = CircuitBreaker(self.limits.trip_after, self.limits.cooldown)
        self._missing = MissingIds(self.limits.remember_missing, self.limits.most_remembered)
        self._late: dict[Id, tuple[float, int]] = {}
        self._changed = threading.Condition()  # guards all that is above and below
        self._queue: deque[_Ticket] = deque()
        self._threads = 0

    def fetch(self, ids: Sequence[Id], at: int = 0) -> Fetched:
        """Return what can be learnt of ids before the deadline; never raises for what a service does.

        Parameters
        ----------
        ids
            Of which one wants values.
        at
            The time of the evaluation; comes back with values that are late.
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

    def known_missing(self, ids: Iterable[Id]) -> set[Id]:
        """Return the ids that are remembered not to exist: asking for them would be of no use yet."""
        with self._changed:
            return set(self._missing.known(ids, self._clock()))

    def close(self) -> None:
        """Let go of the service's connections, if it has any to let go of."""
        close = getattr(self.service, "close", None)
        if close is not None:
            close()

    def _tickets(self, ids: list[Id], asking: _Round, now: float) -> list[_Ticket]:
        """Put batches into the queue, and see to it that somebody works on them."""
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
        traffic.missing = sum(math.isnan(value) for value in values.values())
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
            pace, breaker, missing = self._pace.left(now), self._breaker.left(now), self._missing.left(now)
            at = self._wall() if pace or breaker[1] or missing else 0.0  # where nothing waits, states do not differ
        return {"at": at, "pace": pace, "breaker": breaker}, {
            "missing": pa.table({**id_columns(missing), "left": pa.array(missing.values(), pa.float64())})
        }

    def resume(self, state: State | None = None) -> None:
        """Go on after a restart, so that no series of them asks more often than is allowed.

        The first request waits as if one had been made just before. A gateway that has made requests of its own knows
        better than any state, and ignores it.

        Parameters
        ----------
        state
            What `state` returned before the restart, if that is known.
        """
        with self._changed:
            if self.traffic.requests:
                return
            now = self._clock()
            meta, tables = state or ({"at": 0.0, "pace": 0.0, "breaker": (0, 0.0)}, {})
            passed = max(self._wall() - meta["at"], 0.0)  # 0: the clock was set back
            self._pace.resume(meta["pace"] - passed, now)
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
        """Wait for a place in time; tell whether there is one before the deadline, within all limits."""
        asking, limits = ticket.round, self.limits
        with self._changed:
            now = self._clock()
            if ticket.given_up or (limits.per_evaluation is not None and asking.requests >= limits.per_evaluation):
                return False
            if not self._breaker.lets_through(now):
                return False
            start = self._pace.reserve(now, asking.deadline)
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
        """Believe of a reply what was asked for and is a number."""
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
        """Note a failure; return how long to wait before the next attempt, None where it is of no use."""
        retry, after = getattr(error, "retry", True), getattr(error, "after", None)
        wait = min(self.limits.backoff * 2.0**attempt, self.limits.longest_backoff) * random.uniform(0.5, 1.0)
        with self._changed:
            now = self._clock()
            ticket.ends_by = math.inf
            if after is not None:  # also where it says so late
                self._pace.wait_until(now + after)
            if ticket.given_up:  # counted when it was
                return None
            ticket.round.traffic.timeouts += isinstance(error, TimeoutError)
            if after is None:
                self._breaker.failed(now)
            else:  # it works, and has said when to ask again
                self._breaker.inconclusive()
        return wait if retry and now + wait < ticket.round.deadline else None


def _number(value: Any) -> float | None:
    """Return a value as a number, NaN for one that is missing; None where it is none."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return None if math.isnan(number) else number
