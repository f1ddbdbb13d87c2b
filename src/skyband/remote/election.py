"""The election: which remote ids are refreshed for an answer, within the refresh budget.

Paper → code (AcquaTop):

- section 5.1, the candidate set → `Election._candidates`
- section 5.1, ranker and refresh budget; algorithm 5, line 19 → `Election.elect`, by `Policy.elect`

The policy proposes and ranks. What it leaves of the budget goes to the rest of the window, the oldest values first. So
without a budget all values of the window are refreshed that are not known as of now, and the policy only says which
come first, should the service's limits not let all of them through.

Policies see copies of stream and replica. The election holds no gateway: nothing here can fetch a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.errors import InputError
from skyband.order import BoolArray, FloatArray
from skyband.remote.objects import Objects, Score, scores_of
from skyband.remote.policies import Candidates, Policy, find_policy
from skyband.remote.replica import Replica, View
from skyband.remote.services.base import Id, id_list, joined_ids
from skyband.windows import WindowGrid

QUANTILES = np.array([NormalDist().inv_cdf((place + 0.5) / 16) for place in range(16)])
_MEMORY = 0.9  # of the price, from evaluation to evaluation


@dataclass(frozen=True)
class JoinSpec:
    """What a query asks of a join: windows, score, order and `k`, or what its filter compares remote values with."""

    windows: WindowGrid
    score: Score
    order: str = "desc"
    k: int = 0
    threshold: float | None = None
    distance: float = 1_000.0


class Election:
    """Elects ids to refresh for one query, which `spec` describes, by what the replica knows of the remote side.

    The parameters are those of `skyband.Join`. `discover` is the share of the budget for ids of which nothing is known
    yet, where the policy sees only ids that are in the list already. What the policy leaves of the budget goes to them
    as well, before the rest of the window.
    """

    def __init__(
        self, replica: Replica, spec: JoinSpec, policy: str | Policy, budget: int | None, *, discover: float = 0.0,
        seed: int = 0, carry: int = 0, only_candidates: bool = False,
    ) -> None:  # fmt: skip
        self.replica, self.spec = replica, spec
        self.policy = find_policy(policy) if isinstance(policy, str) else policy
        if budget is not None and budget < 0:
            msg = f"the budget is {budget}; give how many ids may be refreshed per evaluation, or None for no bound"
            raise InputError(msg)
        if not 0 <= discover <= 1:
            msg = f"discover is {discover}; it is a share of the budget: give a number from 0 to 1"
            raise InputError(msg)
        if carry < 0:
            msg = f"carry is {carry}; give how many unspent refreshes may be kept for later, 0 or more"
            raise InputError(msg)
        if carry and self.policy.gain is None:
            msg = (
                f"the policy {self.policy.name!r} does not say what a refresh gains, so it keeps none for later: "
                f"give carry=0, or policy='AT-GAIN'"
            )
            raise InputError(msg)
        self.budget, self.discover = budget, discover
        self.only_candidates = only_candidates or self.policy.only_candidates
        self._carry_over = CarryOver(carry)
        self._credit = 0.0
        self._random = np.random.default_rng(seed)

    def elect(self, objects: Objects, unknown: pa.Array, window: Objects, now: int) -> list[Id]:
        """Return the remote ids to fetch: within the budget, each once, and none whose value is known as of now.

        The policy chooses from `objects`, the best first. Of the `unknown` ids nothing is known yet; the most promising
        comes first. `window` is everything that is kept of the window.
        """
        remotes, candidates = self._candidates(objects, now)
        budget = self._allowance(candidates)
        kept = 0 if budget is None else self._kept_for(len(unknown), budget)
        rows = self.policy.elect(candidates, None if budget is None else budget - kept, self._random)
        parts = [remotes.take(pa.array(rows)), unknown]
        if not self.only_candidates and len(rows) < len(window):  # else all of them are elected
            parts.append(self._oldest_first(window))
        elected = joined_ids(parts).unique()  # in the order in which they are first named
        stale = np.flatnonzero(self.replica.known(elected).refreshed < now)
        return id_list(elected.take(pa.array(stale[:budget])))

    def _oldest_first(self, window: Objects) -> pa.Array:
        """Return the remote ids of objects; what was refreshed least recently comes first."""
        remotes = window.remote.unique()
        return remotes.take(pa.array(np.argsort(self.replica.known(remotes).refreshed, kind="stable")))

    def may_elect(self, value: FloatArray) -> BoolArray:
        """Return for each remote value whether an id that has it can be elected, whatever other objects there are."""
        able = np.full(len(value), self.budget != 0 and not self.only_candidates)
        if self.budget != 0 and self.only_candidates:
            zero = np.zeros(len(value), np.int64)
            seen = View(value, zero, zero, zero)
            candidates = self._as_candidates(0, seen, time=zero, score=np.full(len(value), np.nan))
            able[self.policy.propose(candidates)] = True
        return able

    def _as_candidates(self, now: int, seen: View, **columns: Any) -> Candidates:
        spec = self.spec
        return Candidates(
            now=now, size=spec.windows.size, slide=spec.windows.slide, k=spec.k, ascending=spec.order == "asc",
            threshold=spec.threshold, distance=spec.distance, place=np.arange(len(seen.value)), value=seen.value,
            refreshed=seen.refreshed, best_before=seen.best_before, interval=seen.interval, **columns,
        )  # fmt: skip

    def _allowance(self, candidates: Candidates) -> int | None:
        """Return how many refreshes to make: the budget, or more or less of it where some are carried over."""
        if self.budget is None or self.policy.gain is None or not self._carry_over.carry:
            return self.budget
        return self._carry_over.spend(np.sort(self.policy.gain(candidates))[::-1], self.budget)

    def _kept_for(self, unknown: int, budget: int) -> int:
        """Return how much of the budget goes to unknown ids; parts of a refresh are carried over."""
        self._credit = min(self._credit + budget * self.discover, budget)
        kept = min(int(self._credit), unknown)
        self._credit -= kept
        return kept

    def _candidates(self, objects: Objects, now: int) -> tuple[pa.Array, Candidates]:
        """Return each remote id once, at the place of its best object, and what is known of it."""
        names = objects.remote.dictionary_encode()  # numbered in the order in which they come
        first, latest = objects, objects.time
        if len(names.dictionary) < len(objects):
            number = names.indices.to_numpy()
            first = objects[np.unique(number, return_index=True)[1]]
            latest = first.time.copy()
            np.maximum.at(latest, number, objects.time)
        remotes = first.remote
        seen = self.replica.view(remotes)
        return remotes, self._as_candidates(
            now, seen, time=latest, score=scores_of(first.merit, self.spec.order),
            possible_scores=self._possible_scores(remotes, first.stream, seen, now),
        )  # fmt: skip

    def _possible_scores(self, remotes: pa.Array, stream: FloatArray, seen: View, now: int) -> FloatArray:
        """Return scores that are equally likely if values have changed, a row for each; none if the policy uses none.

        While nothing is known of changes, a value may become like any of the others; so may one that is not known.
        """
        if self.policy.gain is None:
            return np.empty((0, 1))
        usual, width = (np.nanmean(seen.value), np.nanstd(seen.value)) if seen.known.any() else (0.0, 0.0)
        expected, spread = self.replica.drift(remotes, now)
        centre = np.where(np.isnan(expected), np.where(seen.known, seen.value, usual), expected)
        values = centre[:, None] + np.where(np.isnan(spread), width, spread)[:, None] * QUANTILES
        scores = np.asarray(self.spec.score(np.repeat(stream, len(QUANTILES)), values.ravel()), np.float64)
        return scores.reshape(values.shape)

    def state(self) -> dict[str, Any]:
        """Return what decides the next election."""
        random = self._random.bit_generator.state
        return {"random": random, "credit": self._credit, "carry_over": self._carry_over.state()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self._random.bit_generator.state, self._credit = state["random"], state["credit"]
        self._carry_over.load(state["carry_over"])


class CarryOver:
    """Keeps refreshes for later evaluations, where they will gain more.

    A refresh is worth its price if its gain is at least what the last refresh of a usual budget has gained lately.
    What is not spent is carried over, up to `carry` refreshes; what could not be carried over is spent in any case. So
    over any number of evaluations no more is spent than their budgets and what was carried over before; one evaluation
    never spends more than the budget and `carry`.

    Examples
    --------
    >>> kept = CarryOver(carry=2)
    >>> kept.spend(np.array([5.0, 4.0, 1.0]), budget=2)      # as usual: 4.0 is the price from now on
    2
    >>> kept.spend(np.array([4.5, 0.5, 0.1]), budget=2)      # one refresh is not worth it, and is carried over
    1
    >>> kept.spend(np.array([9.0, 8.0, 7.0]), budget=2)      # now it is
    3
    """

    def __init__(self, carry: int) -> None:
        self.carry = carry
        self.saved = 0
        self._price: float | None = None

    def spend(self, gains: FloatArray, budget: int) -> int:
        """Return how many refreshes to make now.

        `gains` are those of the objects that could be refreshed, the largest first; `budget` is what this evaluation
        adds to what was carried over.
        """
        allowance = budget + self.saved
        if len(gains) and budget:
            last = float(gains[min(budget, len(gains)) - 1])
            price = last if self._price is None else self._price
            self._price = _MEMORY * price + (1 - _MEMORY) * last
            wanted = int(np.count_nonzero(gains >= price))
        else:
            wanted = 0
        spent = min(max(wanted, allowance - self.carry), allowance, len(gains))
        self.saved = min(allowance - spent, self.carry)
        return spent

    def state(self) -> dict[str, Any]:
        """Return what decides the next spending."""
        return {"saved": self.saved, "price": self._price}

    def load(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.saved, self._price = state["saved"], state["price"]
