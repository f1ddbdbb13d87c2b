"""How services may be asked, and what was asked: the limits of a gateway, its traffic, and what it remembers.

`RateLimiter`, `CircuitBreaker` and `MissingIds` know no clock: they are told the time. They are not safe for threads;
the gateway holds a lock. What must outlive a restart they report as seconds that are left, since clocks differ.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

from skyband.errors import InputError
from skyband.remote.services.base import Id


@dataclass(frozen=True)
class Limits:
    """How a service may be asked. Times are in seconds.

    Parameters
    ----------
    batch
        Ids per request.
    parallel
        Requests at the same time; one that never ends keeps its place.
    per_second
        Requests per second, evenly spaced; None for no bound.
    per_evaluation
        Requests per evaluation, with those that are repeated; None for no bound.
    timeout
        For one request.
    deadline
        For all requests of one evaluation together: then the answer goes out with what is there.
    retries
        How often a request is repeated after a failure that may pass.
    backoff, longest_backoff
        How long to wait before that: the first time, and at most; the time doubles, and is shortened by chance.
    trip_after
        After so many failures in a row, the circuit opens: the service gets no requests.
    cooldown
        For how long. Then one request tries it again.
    remember_missing
        How long it is remembered that an id does not exist.
    most_remembered
        How many such ids at most.

    Examples
    --------
    >>> Limits(batch=100, per_second=5, deadline=2).timeout
    10.0
    >>> Limits(batch=0)
    Traceback (most recent call last):
    skyband.errors.InputError: the limit batch is 0; it must be at least 1
    """

    batch: int = 100
    parallel: int = 4
    per_second: float | None = None
    per_evaluation: int | None = None
    timeout: float = 10.0
    deadline: float = 10.0
    retries: int = 2
    backoff: float = 0.1
    longest_backoff: float = 5.0
    trip_after: int = 5
    cooldown: float = 30.0
    remember_missing: float = 60.0
    most_remembered: int = 100_000

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least = 1 if name in ("batch", "parallel", "trip_after") else 0
            if value is not None and not value >= least:
                msg = f"the limit {name} is {value}; it must be at least {least}"
                raise InputError(msg)
        if self.per_second == 0:
            msg = "the limit per_second is 0, so nothing could ever be asked; give more than 0, or None for no bound"
            raise InputError(msg)


@dataclass
class Traffic:
    """What was asked, and what came of it.

    Parameters
    ----------
    requests
        That were made, with `retries`, those that were repeated.
    ids
        That were asked for in them, each time.
    failed
        Ids for which no usable value came.
    timeouts
        Requests that took too long.
    missing
        Ids that do not exist; `remembered` are those that were known not to, and not asked for.
    bad
        Values that are no number; `unexpected` are those of ids that nobody asked for.
    late
        Values that came after the answer had gone out.
    """

    requests: int = 0
    retries: int = 0
    ids: int = 0
    failed: int = 0
    timeouts: int = 0
    missing: int = 0
    remembered: int = 0
    bad: int = 0
    unexpected: int = 0
    late: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


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
        """Go on after a restart: as if a request had been made just before it, since nobody knows whether one was."""
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
    """Ids that do not exist, remembered for a while.

    Parameters
    ----------
    lasting
        For how long.
    most
        How many at most; those that were found missing first are forgotten first.
    """

    def __init__(self, lasting: float, most: int) -> None:
        self._lasting, self._most = lasting, most
        self._until: OrderedDict[Id, float] = OrderedDict()

    def known(self, ids: Iterable[Id], now: float) -> list[Id]:
        """Return those of some ids that are remembered not to exist."""
        found = []
        for name in ids:
            until = self._until.get(name)
            if until is not None and now < until:
                found.append(name)
            elif until is not None:
                del self._until[name]
        return found

    def remember(self, ids: Iterable[Id], now: float) -> None:
        """Note ids that do not exist."""
        self._put(dict.fromkeys(ids, self._lasting), now)

    def _put(self, left: Mapping[Id, float], now: float) -> None:
        for name, seconds in left.items():
            self._until[name] = now + seconds
            self._until.move_to_end(name)
        while len(self._until) > self._most:
            self._until.popitem(last=False)

    def left(self, now: float) -> dict[Id, float]:
        """Return for how long each is still remembered."""
        return {name: until - now for name, until in self._until.items() if until > now}

    def resume(self, left: Mapping[Id, float], now: float) -> None:
        """Go on after a restart."""
        self._put({name: min(seconds, self._lasting) for name, seconds in left.items() if seconds > 0}, now)
