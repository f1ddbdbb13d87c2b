"""The maintainer: has a policy elect ids, fetches them, and brings the replica up to date; never beyond the budget.

What the policy leaves unspent goes to the rest of the window, the oldest values first. So without a budget all values
of the window are refreshed that are not known as of now, and the policy only says which come first, should the
service's limits not let all of them through.

Policies see copies of what the stream said and of what the replica remembers. Only this module holds both a policy
and a gateway, and it shows the one nothing of the other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from skyband.errors import InputError
from skyband.order import BoolArray, FloatArray
from skyband.remote.budget import Savings
from skyband.remote.objects import JoinedObject, Score, score_of
from skyband.remote.policies import Candidates, Policy, find_policy
from skyband.remote.policies.gain import Gain
from skyband.remote.replica import Replica, View
from skyband.remote.services import Gateway, Traffic
from skyband.remote.services.base import Id
from skyband.windows import WindowGrid

QUANTILES = np.array([NormalDist().inv_cdf((place + 0.5) / 16) for place in range(16)])


@dataclass(frozen=True)
class Refreshed:
    """What one evaluation's refreshes brought.

    `changed` holds new values by remote id, NaN where there is none any more. The ids of `answered` were refreshed,
    changed or not; those that `failed` were not.
    """

    changed: dict[Id, float] = field(default_factory=dict)
    answered: Collection[Id] = ()
    failed: Collection[Id] = ()
    traffic: Traffic = field(default_factory=Traffic)

    def of(self, elected: Collection[Id]) -> Refreshed:
        """Return what this is to one of several queries, which had elected some of the ids."""
        mine = set(elected)
        return Refreshed(self.changed, mine.intersection(self.answered), mine.intersection(self.failed), self.traffic)


@dataclass(frozen=True)
class Evaluation:
    """An evaluation: its time, its windows, and what the query compares remote values with."""

    now: int
    windows: WindowGrid
    score: Score
    order: str = "desc"
    k: int = 0
    threshold: float | None = None
    distance: float = 1_000.0


class Maintainer:
    """Spends a budget of refreshes.

    Parameters
    ----------
    gateway
        Asks the service.
    replica
        Is kept up to date; may be shared with other queries.
    policy
        By name.
    budget
        How many ids may be refreshed per evaluation; None for all of the window.
    discover
        The share of the budget for ids of which nothing is known yet, where the policy looks only at ids that are in
        the list already. What the policy leaves over goes to them as well, before the rest of the window.
    seed
        For policies that draw.
    carry
        How many refreshes may be kept for later evaluations, with a policy that says what a refresh gains.
    only_candidates
        Whether nobody but the policy's candidates is refreshed, as in the papers.
    """

    def __init__(
        self, gateway: Gateway, replica: Replica, policy: str | Policy, budget: int | None, discover: float, seed: int,
        carry: int = 0, only_candidates: bool = False,
    ) -> None:  # fmt: skip
        self.gateway, self.replica = gateway, replica
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
        if carry and not isinstance(self.policy.ranker, Gain):
            msg = (
                f"the policy {self.policy.name!r} does not say what a refresh gains, so it keeps none for later: "
                f"give carry=0, or policy='AT-GAIN'"
            )
            raise InputError(msg)
        self.budget, self.discover = budget, discover
        self.only_candidates = only_candidates or self.policy.only_candidates
        self._savings = Savings(carry)
        self._credit = 0.0
        self._random = np.random.default_rng(seed)

    def refresh(self, elected: Sequence[Id], now: int) -> Refreshed:
        """Fetch remote ids, and bring the replica up to date."""
        fetched = self.gateway.fetch(elected, at=now)
        changed: dict[Id, float] = {}
        for name, (value, at) in fetched.late.items():
            changed |= self.take([name], [value], at)
        changed |= self.take(list(fetched.values), list(fetched.values.values()), now)
        return Refreshed(changed, fetched.values.keys(), fetched.failed, fetched.traffic)

    def take(self, ids: list[Id], values: list[float], at: int) -> dict[Id, float]:
        """Put values into the replica; return those that were not there before."""
        news = self.replica.put(ids, values, at)
        return {name: value for name, value, new in zip(ids, values, news.tolist(), strict=True) if new}

    def elect(
        self, objects: Sequence[JoinedObject], unknown: Sequence[Id], window: Sequence[JoinedObject], moment: Evaluation
    ) -> list[Id]:
        """Return the remote ids to fetch: within the budget, each once, and none whose value is known as of now.

        Those that are known not to exist are left out as well, while the gateway remembers them.

        Parameters
        ----------
        objects
            What the policy chooses from, the best first.
        unknown
            Remote ids of which nothing is known yet, the most promising first.
        window
            Everything that is kept of the window.
        moment
            The evaluation.
        """
        rest = [] if self.only_candidates else self._oldest_first(window)
        gone = self.gateway.known_missing([*(one.remote for one in objects), *unknown, *rest])
        objects = [one for one in objects if one.remote not in gone]
        unknown = [name for name in unknown if name not in gone]
        remotes, candidates = self._candidates(objects, moment)
        budget = self._purse(candidates)
        kept = 0 if budget is None else self._kept_for(len(unknown), budget)
        rows = self.policy.elect(candidates, None if budget is None else budget - kept, self._random)
        elected = dict.fromkeys(remotes[row] for row in rows.tolist())
        elected |= dict.fromkeys(unknown) | dict.fromkeys(name for name in rest if name not in gone)
        wanted = list(elected)
        current = self.replica.view(wanted).refreshed >= moment.now
        return [name for name, known in zip(wanted, current.tolist(), strict=True) if not known][:budget]

    def _oldest_first(self, window: Sequence[JoinedObject]) -> list[Id]:
        """Return the remote ids of objects; what was refreshed least recently comes first."""
        remotes = list(dict.fromkeys(one.remote for one in window))
        return [remotes[place] for place in np.argsort(self.replica.view(remotes).refreshed, kind="stable").tolist()]

    def may_elect(self, value: FloatArray, moment: Evaluation) -> BoolArray:
        """Tell of remote values whether an id that has one can be elected at all, in whatever company."""
        able = np.full(len(value), self.budget != 0 and not self.only_candidates)
        if self.budget != 0 and self.only_candidates:
            zero, nothing = np.zeros(len(value), np.int64), np.full(len(value), np.nan)
            candidates = Candidates(
                now=moment.now, size=moment.windows.size, slide=moment.windows.slide, k=moment.k,
                place=np.arange(len(value)), time=zero, stream=nothing, score=nothing, value=value, refreshed=zero,
                best_before=zero, interval=zero, threshold=moment.threshold, distance=moment.distance,
            )  # fmt: skip
            able[self.policy.proposer.propose(candidates)] = True
        return able

    def _purse(self, candidates: Candidates) -> int | None:
        """Return how many refreshes to make: as many as the budget allows, or more or less where some are kept."""
        ranker = self.policy.ranker
        if self.budget is None or not self._savings.carry or not isinstance(ranker, Gain):
            return self.budget
        return self._savings.spend(np.sort(ranker.gain(candidates))[::-1], self.budget)

    def _kept_for(self, unknown: int, budget: int) -> int:
        """Return how much of the budget goes to unknown ids; parts of a refresh are carried over."""
        self._credit = min(self._credit + budget * self.discover, budget)
        kept = min(int(self._credit), unknown)
        self._credit -= kept
        return kept

    def _candidates(self, objects: Sequence[JoinedObject], moment: Evaluation) -> tuple[list[Id], Candidates]:
        """Return each remote id once, at the place of its best object, and what is known of it."""
        first: dict[Id, JoinedObject] = {}
        latest: dict[Id, int] = {}
        for one in objects:
            first.setdefault(one.remote, one)
            latest[one.remote] = max(one.time, latest.get(one.remote, one.time))
        seen = self.replica.view(list(first))
        stream = np.array([one.stream for one in first.values()], np.float64)
        return list(first), Candidates(
            now=moment.now, size=moment.windows.size, slide=moment.windows.slide, k=moment.k,
            place=np.arange(len(first)),
            time=np.fromiter(latest.values(), np.int64, len(latest)),
            stream=stream,
            score=np.array([score_of(one.merit, moment.order) for one in first.values()], np.float64),
            value=seen.value, refreshed=seen.refreshed, best_before=seen.best_before, interval=seen.interval,
            outlook=self._outlook(moment, list(first), stream, seen),
            ascending=moment.order == "asc", threshold=moment.threshold, distance=moment.distance,
        )  # fmt: skip

    def _outlook(self, moment: Evaluation, remotes: list[Id], stream: FloatArray, seen: View) -> FloatArray:
        """Return scores that are equally likely if values have changed, a row for each; none if no one looks at them.

        While nothing is known of changes, a value may become like any of the others; so may one that is not known.
        """
        if not isinstance(self.policy.ranker, Gain):
            return np.empty((0, 1))
        usual, width = (np.nanmean(seen.value), np.nanstd(seen.value)) if seen.known.any() else (0.0, 0.0)
        expected, spread = self.replica.drift(remotes, moment.now)
        centre = np.where(np.isnan(expected), np.where(seen.known, seen.value, usual), expected)
        values = centre[:, None] + np.where(np.isnan(spread), width, spread)[:, None] * QUANTILES
        scores = np.asarray(moment.score(np.repeat(stream, len(QUANTILES)), values.ravel()), np.float64)
        return scores.reshape(values.shape)

    def state(self) -> dict[str, Any]:
        """Return what decides the next election."""
        random = self._random.bit_generator.state
        return {"random": random, "credit": self._credit, "savings": self._savings.state()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self._random.bit_generator.state, self._credit = state["random"], state["credit"]
        self._savings.load(state["savings"])
