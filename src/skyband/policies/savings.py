"""Savings: refreshes that are not spent now because they will be worth more later.

A refresh is worth its price if its gain is at least what the last refresh of a usual budget has gained lately. What is
not spent is kept, up to `carry` refreshes; what could not be kept is spent in any case. So over any number of
evaluations no more is spent than their budgets and what was kept before; one evaluation never spends more than the
budget and `carry`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.order import FloatArray

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
