"""Filters over remote values: the ids of the window whose remote value is above or below a threshold, as a set.

Guarantees: as `skyband.remote.acquatop`; all objects of the window are kept, whatever the policy.

Examples
--------
>>> followers = {"ann": 99_900.0, "bob": 150_000.0, "eve": 10.0}
>>> from skyband.remote.replica import Replica
>>> from skyband.remote.services import Gateway
>>> replica = Replica()
>>> _ = replica.put(list(followers), list(followers.values()), at=0)
>>> influencers = FilterJoin(
...     size=60, slide=30, condition=">", threshold=100_000, budget=1, policy="Filter Update",
...     gateway=Gateway(lambda ids: {name: followers[name] for name in ids}), replica=replica,
... )
>>> influencers.arrive(["ann", "bob", "eve"], [1, 1, 1], [5, 20, 25])
>>> followers["ann"] = 100_001.0
>>> answer = influencers.evaluate(30)
>>> answer.ids, answer.stale
(['ann', 'bob'], 1)

Notes
-----
Zahmatkesh et al., *When a FILTER Makes the Difference in Continuously Answering SPARQL Queries on Streaming and
Quasi-Static Linked Data*, section 3. With ``<`` and ``>``, values that equal the threshold are on neither side, as
printed.
"""

from __future__ import annotations

import math
import operator

import numpy as np

from skyband.errors import InputError, QueryError
from skyband.order import BoolArray, FloatArray
from skyband.remote.full_window import FullWindow
from skyband.remote.join import RemoteJoin
from skyband.remote.maintainer import Evaluation, Maintainer
from skyband.remote.objects import JoinedObject, Score, is_number
from skyband.remote.policies import Policy
from skyband.remote.replica import Replica
from skyband.remote.services import Gateway

_CONDITIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class FilterJoin(RemoteJoin):
    """The ids of each window that a filter over the remote value lets through.

    Parameters
    ----------
    size, slide, offset
        Of the windows, in microseconds.
    condition
        ``">"``, ``">="``, ``"<"`` or ``"<="``.
    threshold
        What remote values are compared with.
    gateway, replica, budget, default, seed, only_candidates, one_event
        As for `skyband.remote.acquatop.AcquaTop`.
    policy
        A name of `skyband.remote.policies.POLICIES`; those that look at the list of a ranking are refused.
    distance
        How near to the threshold a value must be for the `.F` policies (the paper's FDT).
    k, score, order
        For an answer that is not a set but ranks the best `k` of those that pass: how many, by which joined score (the
        remote value where it is left out), and whether larger ones are better (``"desc"``) or smaller ones
        (``"asc"``).
    max_rows
        How many rows the answer of a set has at most; a larger one is cut. None for no bound.
    """

    def __init__(
        self,
        *,
        size: int,
        slide: int,
        offset: int = 0,
        condition: str,
        threshold: float,
        gateway: Gateway,
        replica: Replica | None = None,
        policy: str | Policy = "WSJ-LRU.F",
        budget: int | None,
        distance: float = 1_000.0,
        default: float | None = None,
        seed: int = 0,
        k: int | None = None,
        score: Score | None = None,
        order: str = "desc",
        only_candidates: bool = False,
        max_rows: int | None = None,
        one_event: bool = False,
    ) -> None:
        if condition not in _CONDITIONS or math.isnan(threshold):
            msg = f"the filter is ?x {condition} {threshold}; compare with a number, by '<', '<=', '>' or '>='"
            raise QueryError(msg)
        replica = Replica() if replica is None else replica
        maintainer = Maintainer(gateway, replica, policy, budget, 0.0, seed, only_candidates=only_candidates)
        if not maintainer.policy.whole_window:
            msg = f"the policy {maintainer.policy.name!r} is for rankings, which have a list; choose another one"
            raise InputError(msg)
        objects = FullWindow(
            size=size, slide=slide, offset=offset, score=score or _value, order=order, one_event=one_event
        )
        moment = Evaluation(0, objects.windows, _value, order, threshold=threshold, distance=distance)
        super().__init__(objects, maintainer, moment, math.nan if default is None else default)
        self.condition, self.threshold, self.k = condition, threshold, k
        self.ranked, self.max_rows = k is not None, max_rows

    def admits(self, value: FloatArray) -> BoolArray:
        """Tell of remote values whether the filter lets them through."""
        return np.asarray(_CONDITIONS[self.condition](value, self.threshold), bool)

    def _chosen(self, held: list[JoinedObject]) -> list[JoinedObject]:
        passes = _CONDITIONS[self.condition]
        through = [one for one in held if passes(one.value, self.threshold) and is_number(one.merit)]
        return sorted(through, key=lambda one: one.id) if self.k is None else through[: self.k]


def _value(stream: FloatArray, value: FloatArray) -> FloatArray:  # noqa: ARG001 - a set has no score but the value
    return value
