"""How a service may be asked."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from skyband.errors import InputError


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
