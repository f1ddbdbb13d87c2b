"""A budget that several queries share, split by need.

At every moment each query is credited with a part of the budget, in proportion to its need: how many of the ids that
it wants have probably changed since they were refreshed, and one more. Each refresh goes to the query with the most
credit, for its most urgent id that nobody has taken yet, and costs it one; whoever else wants that id gets it for
nothing.

What a query that did not get everything has left, or has drawn beyond its credit, counts at the next moment, up to one
refresh. So nobody starves: who is credited with a tenth of a refresh at a time gets one at the tenth.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from skyband.joined import Id


class Shares:
    """Splits one budget.

    Parameters
    ----------
    budget
        How many ids may be refreshed at one moment; None for no bound.

    Examples
    --------
    >>> shares = Shares(4)
    >>> shares.split({"top": ["a", "b", "c", "d", "e"], "low": ["a", "x"]}, {"top": 5, "low": 1})
    ['a', 'b', 'c', 'x']
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
