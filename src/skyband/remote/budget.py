"""Refresh budgets: one that several queries share, and refreshes kept for later."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skyband.order import FloatArray
from skyband.remote.services.base import Id


class SharedBudget:
    """Splits one budget.

    Parameters
    ----------
    budget
        How many ids may be refreshed at one moment; None for no bound.

    Examples
    --------
    >>> shares = SharedBudget(4)
    >>> shares.split({"top": ["a", "b", "c", "d", "e"], "low": ["a", "x"]}, {"top": 5, "low": 1})
    ['a', 'b', 'c', 'x']

        A budget that several queries share, split by need.

        At every moment each query is credited with a part of the budget, in proportion to its need: how many of the ids
        that it wants have probably changed since they were refreshed, and one more. Each refresh goes to the query with
        the most credit, for its most urgent id that nobody has taken yet, and costs it one; whoever else wants that id
        gets it for nothing.

        What a query that did not get everything has left, or has drawn beyond its credit, counts at the next moment, up
        to one refresh. So nobody starves: who is credited with a tenth of a refresh at a time gets one at the tenth.
    """

    def __init__(self, budget: int | None) -> None:
        self.budget = budget
        self.credit: dict[str, float] = {}

    def split(self, wanted: Mapping[str, Sequence[Id]], need: Mapping[str, int]) -> list[Id]:
        """Return the ids to refresh, each once, within the budget.

        Parameters
        ----------
        wanted
            By query: the ids that it wants, the most urgent first.
        need
            By query: how many of them have probably changed.
        """
        wanted = {query: ids for query, ids in wanted.items() if ids}
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
        """Let a query go."""
        self.credit.pop(query, None)


_MEMORY = 0.9  # of the price, from evaluation to evaluation


class Savings:
    """Refreshes kept for later.

    Parameters
    ----------
    carry
        How many may be kept.

    Examples
    --------
    >>> savings = Savings(carry=2)
    >>> savings.spend(np.array([5.0, 4.0, 1.0]), budget=2)   # as usual: 4.0 is the price from now on
    2
    >>> savings.spend(np.array([4.5, 0.5, 0.1]), budget=2)   # one refresh is not worth it, and is kept
    1
    >>> savings.spend(np.array([9.0, 8.0, 7.0]), budget=2)   # now it is
    3

        Savings: refreshes that are not spent now because they will be worth more later.

        A refresh is worth its price if its gain is at least what the last refresh of a usual budget has gained lately.
        What is not spent is kept, up to `carry` refreshes; what could not be kept is spent in any case. So over any
        number of evaluations no more is spent than their budgets and what was kept before; one evaluation never spends
        more than the budget and `carry`.
    """

    def __init__(self, carry: int) -> None:
        self.carry = carry
        self.saved = 0
        self._price: float | None = None

    def spend(self, gains: FloatArray, budget: int) -> int:
        """Return how many refreshes to make now.

        Parameters
        ----------
        gains
            Of the objects that could be refreshed, the largest first.
        budget
            What is added to the savings for this evaluation.
        """
        purse = budget + self.saved
        if len(gains) and budget:
            last = float(gains[min(budget, len(gains)) - 1])
            price = last if self._price is None else self._price
            self._price = _MEMORY * price + (1 - _MEMORY) * last
            wanted = int(np.count_nonzero(gains >= price))
        else:
            wanted = 0
        spent = min(max(wanted, purse - self.carry), purse, len(gains))
        self.saved = min(purse - spent, self.carry)
        return spent

    def state(self) -> dict[str, Any]:
        """Return what decides the next spending."""
        return {"saved": self.saved, "price": self._price}

    def load(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.saved, self._price = state["saved"], state["price"]
