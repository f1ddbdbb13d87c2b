"""A service that queries join with, its replica, and the refresh budget that the queries share.

Paper → code (AcquaTop):

- section 3.2, the maintainer; algorithm 5, UpdateReplica, lines 20-26 → `Remote.refresh`

`Remote.refresh` is the papers' *maintainer*: it splits the budget, fetches the elected ids and updates the replica.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np

from skyband.errors import InputError
from skyband.remote.replica import Replica
from skyband.remote.services import Gateway, Limits, Service, Traffic
from skyband.remote.services.base import Id, State
from skyband.times import microseconds_of


@dataclass(frozen=True)
class Refreshed:
    """The outcome of the refreshes of one moment.

    `changed` holds new values by remote id, NaN where there is none any more. The ids of `answered` were refreshed,
    changed or not; those that `failed` were not.
    """

    changed: dict[Id, float]
    answered: Collection[Id]
    failed: Collection[Id]

    def of(self, elected: Collection[Id]) -> Refreshed:
        """Return the part that belongs to one query, which had elected some of the ids."""
        mine = set(elected)
        return Refreshed(self.changed, mine.intersection(self.answered), mine.intersection(self.failed))


class Remote:
    """A service and its replica, shared by all queries that join with it.

    Parameters
    ----------
    service
        Anything of `skyband.remote.services`, anything with a ``fetch(ids)``, or a function from ids to values.
    limits
        How it may be asked.
    known
        What is known of it beforehand: values by id, or a `skyband.remote.replica.Replica`. The replica is filled as
        ids are fetched.
    as_of
        When these values were true.
    capacity
        How many ids the replica holds at most; then it evicts those that were used least recently. None for all.
    budget
        How many ids may be refreshed at one moment for all queries together; None leaves it to the queries' own
        budgets. Where they want more, `SharedBudget` splits it by need.

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
        known: Mapping[Any, float] | Replica | None = None,
        as_of: int | datetime = 0,
        capacity: int | None = None,
        budget: int | None = None,
    ) -> None:
        if budget is not None and (not isinstance(budget, int) or budget < 0):
            msg = f"the budget is {budget!r}; give how many ids may be refreshed at one moment, or None for no bound"
            raise InputError(msg)
        self.gateway: Gateway = Gateway(service, limits)
        self.replica: Replica = known if isinstance(known, Replica) else Replica(capacity)
        self.shared_budget: SharedBudget = SharedBudget(budget)
        if known and not isinstance(known, Replica):
            self.replica.put(list(known), np.array(list(known.values()), np.float64), microseconds_of(as_of))

    def __repr__(self) -> str:
        return f"<remote data, {len(self.replica)} ids known>"

    def __reduce__(self) -> Any:
        """Pickle everything but the threads and the state of the gateway."""
        again = partial(Remote, limits=self.gateway.limits, known=self.replica, budget=self.shared_budget.budget)
        return again, (self.gateway.service,)

    @property
    def traffic(self) -> Traffic:
        """The requests since the start."""
        return self.gateway.traffic

    @property
    def pushes(self) -> bool:
        """Whether the service pushes its changes."""
        return bool(getattr(self.gateway.service, "pushes", False))

    def refresh(self, elected: Mapping[str, Sequence[Id]], now: int) -> Refreshed:
        """Fetch ids that queries have elected, each once and within the shared budget, and update the replica.

        `elected` has the ids of each query, the most urgent first. A query needs those past their best-before time.
        """
        need = dict.fromkeys(elected, 0)
        if len(elected) > 1 or self.shared_budget.budget is not None:  # else there is nothing to split
            need = {query: int((self.replica.view(ids).best_before <= now).sum()) for query, ids in elected.items()}
        fetched = self.gateway.fetch(self.shared_budget.split(elected, need), at=now)
        changed: dict[Id, float] = {}
        for name, (value, at) in fetched.late.items():
            changed |= self.push_changes({name: value}, at)
        changed |= self.push_changes(fetched.values, now)
        return Refreshed(changed, fetched.values.keys(), fetched.failed)

    def push_changes(self, values: Mapping[Id, float | None], at: int) -> dict[Id, float]:
        """Put values into the replica, fetched or pushed by the remote side; return those that have changed.

        Parameters
        ----------
        values
            By remote id; None or NaN where there is no such id any more.
        at
            Since when they are true: a value that is known from later on stays.
        """
        ids, fresh = list(values), [math.nan if value is None else float(value) for value in values.values()]
        changed = self.replica.put(ids, fresh, at)
        return {ids[place]: fresh[place] for place in np.flatnonzero(changed).tolist()}

    # Snapshots.

    def state(self) -> State:
        """Return the states of the replica and the gateway, and the credit of queries in the shared budget."""
        replica, tables = self.replica.state()
        gateway, more = self.gateway.state()
        return {"replica": replica, "gateway": gateway, "credit": self.shared_budget.credit}, tables | more

    def restored(self, state: State) -> Remote:
        """Return the same service, with the replica and the credit of `state`."""
        meta, tables = state
        other = object.__new__(Remote)
        other.gateway, other.shared_budget = self.gateway, SharedBudget(self.shared_budget.budget)
        other.gateway.resume((meta["gateway"], tables))
        other.replica = Replica.load((meta["replica"], tables), self.replica.capacity)
        other.shared_budget.credit |= meta["credit"]
        return other


def as_remotes(services: Mapping[str, Any] | None) -> dict[str, Remote]:
    """Return services by name, each as a `Remote`.

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


class SharedBudget:
    """Splits one refresh budget among queries, by need. A budget of None is no bound.

    At every moment each query is credited with a part of the budget, in proportion to its need: how many of the ids
    that it wants have probably changed since they were refreshed, and one more. Each refresh goes to the query with
    the most credit, for its most urgent id that is not taken yet, and costs it one; other queries that want that id
    get it for nothing.

    The credit of a query that did not get everything, positive or negative, counts at the next moment, up to one
    refresh. So no query starves: one that is credited with a tenth of a refresh at a time gets one at the tenth.

    Examples
    --------
    >>> shared = SharedBudget(4)
    >>> shared.split({"top": ["a", "b", "c", "d", "e"], "low": ["a", "x"]}, {"top": 5, "low": 1})
    ['a', 'b', 'c', 'x']
    """

    def __init__(self, budget: int | None) -> None:
        self.budget = budget
        self.credit: dict[str, float] = {}

    def split(self, wanted: Mapping[str, Sequence[Id]], need: Mapping[str, int]) -> list[Id]:
        """Return the ids to refresh, each once, within the budget.

        `wanted` has the ids of each query, the most urgent first; `need` how many of them have probably changed.
        """
        wanted = {query: ids for query, ids in wanted.items() if ids}
        if len(wanted) == 1 and (self.budget is None or self.budget >= len(*wanted.values())):  # there is no choice
            self.forget(*wanted)
            return list(dict.fromkeys(*wanted.values()))
        union = {name for ids in wanted.values() for name in ids}
        budget = len(union) if self.budget is None else min(self.budget, len(union))
        whole = sum(1 + need[query] for query in wanted)
        credit = {query: self.credit.pop(query, 0.0) + budget * (1 + need[query]) / whole for query in wanted}
        left = {query: iter(ids) for query, ids in wanted.items()}
        queue = [(-credit[query], place, query) for place, query in enumerate(wanted)]
        heapq.heapify(queue)
        taken: dict[Id, None] = {}
        while len(taken) < budget:
            _, place, query = heapq.heappop(queue)
            name = next((name for name in left[query] if name not in taken), None)
            if name is not None:  # else it has all that it wants
                taken[name] = None
                credit[query] -= 1.0
                heapq.heappush(queue, (-credit[query], place, query))
        lacking = [query for query, ids in wanted.items() if not taken.keys() >= set(ids)]
        self.credit |= {query: min(max(credit[query], -1.0), 1.0) for query in lacking}
        return list(taken)

    def forget(self, query: str) -> None:
        """Remove a query."""
        self.credit.pop(query, None)
