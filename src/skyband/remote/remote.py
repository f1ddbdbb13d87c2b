"""Services where queries run: how each is asked, what is known of it here, and how queries share what may be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.errors import InputError
from skyband.remote.budget import SharedBudget
from skyband.remote.replica import Replica
from skyband.remote.services import Gateway, Limits, Service, Traffic
from skyband.remote.services.base import Id
from skyband.times import microseconds_of

State = tuple[dict[str, Any], dict[str, pa.Table]]


class Remote:
    """A service, and the local copy of what it said: shared by all queries that join with it.

    Parameters
    ----------
    service
        Anything of `skyband.remote.services`, anything with a ``fetch(ids)``, or a function from ids to values.
    limits
        How it may be asked.
    known
        What is known of it beforehand, by id; the copy is filled as ids are fetched.
    as_of
        When that was true.
    capacity
        How many ids the copy holds at most; then those that were used least recently are forgotten. None for all.
    budget
        How many ids may be refreshed at one moment for all queries together; None leaves it to the queries' own
        budgets. Where they want more, it is split by need, as `skyband.remote.budget` says.

    Examples
    --------
    >>> followers = {"ann": 900, "bob": 800}
    >>> remote = Remote(lambda ids: {name: followers.get(name) for name in ids}, known={"ann": 850.0}, budget=3)
    >>> remote
    <remote data, 1 ids known>
    """

    def __init__(
        self,
        service: Service | Callable[[Sequence[Id]], Mapping[Any, Any]],
        *,
        limits: Limits | None = None,
        known: Mapping[Any, float] | None = None,
        as_of: int | datetime = 0,
        capacity: int | None = None,
        budget: int | None = None,
    ) -> None:
        if budget is not None and (not isinstance(budget, int) or budget < 0):
            msg = f"the budget is {budget!r}; give how many ids may be refreshed at one moment, or None for no bound"
            raise InputError(msg)
        self.gateway: Gateway = Gateway(service, limits)
        self.replica: Replica = Replica(capacity)
        self.shares: SharedBudget = SharedBudget(budget)
        if known:
            self.replica.put(list(known), np.array(list(known.values()), np.float64), microseconds_of(as_of))

    def __repr__(self) -> str:
        return f"<remote data, {len(self.replica)} ids known>"

    def __reduce__(self) -> Any:
        """Carry a remote elsewhere: its threads and its pace stay here."""
        return _again, (self.gateway.service, self.gateway.limits, self.replica, self.shares.budget)

    @property
    def traffic(self) -> Traffic:
        """What was asked since the start."""
        return self.gateway.traffic

    def share(self, wanted: Mapping[str, Sequence[Id]], now: int) -> list[Id]:
        """Return the ids to fetch for several queries at one moment, each once, within the common budget.

        Parameters
        ----------
        wanted
            By query: the ids that it wants, the most urgent first.
        now
            The moment: values that are past their best-before have probably changed.
        """
        need = {query: int((self.replica.view(ids).best_before <= now).sum()) for query, ids in wanted.items()}
        return self.shares.split(wanted, need)

    # Snapshots.

    def state(self) -> State:
        """Return what is known of the service, when it may be asked again, and who is to be served first."""
        replica, tables = self.replica.state()
        gateway, more = self.gateway.state()
        return {"replica": replica, "gateway": gateway, "credit": self.shares.credit}, tables | more

    def restored(self, state: State) -> Remote:
        """Return the same service, with what was known of it when `state` was taken."""
        meta, tables = state
        other = object.__new__(Remote)
        other.gateway, other.shares = self.gateway, SharedBudget(self.shares.budget)
        other.gateway.resume((meta["gateway"], tables))
        other.replica = Replica.load((meta["replica"], tables), self.replica.capacity)
        other.shares.credit |= meta["credit"]
        return other


def _again(service: Any, limits: Limits, replica: Replica, budget: int | None) -> Remote:
    remote = Remote(service, limits=limits, budget=budget)
    remote.replica = replica
    return remote


def as_remotes(services: Mapping[str, Any] | None) -> dict[str, Remote]:
    """Return services by name, whatever they were given as.

    Examples
    --------
    >>> as_remotes({"followers": lambda ids: {}})
    {'followers': <remote data, 0 ids known>}
    """
    if services is not None and not isinstance(services, Mapping):
        msg = f"services is a {type(services).__name__}; give them by name, such as {{'followers': …}}"
        raise InputError(msg)
    found: dict[str, Remote] = {}
    for name, given in (services or {}).items():
        try:
            found[name] = given if isinstance(given, Remote) else Remote(given)
        except InputError as error:
            msg = f"service {name!r}: {error}"
            raise InputError(msg) from None
    return found
