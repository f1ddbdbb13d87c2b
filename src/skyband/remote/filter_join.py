"""Filters over remote values: the ids of the window whose remote value is above or below a threshold, as a set.

Paper → code (FILTER):

- section 3.1, the join and its filter → `filter_join`, with `RemoteJoin`
- algorithms 1 and 2, the policies → `skyband.remote.policies.rankers.filter_update`,
  `skyband.remote.policies.base.near`
- algorithm 1, lines 6-9, the refresh → `Remote.refresh`

Guarantees: as `skyband.remote.acquatop`; all objects of the window are kept, whatever the policy.

Examples
--------
>>> followers = {"ann": 99_900.0, "bob": 150_000.0, "eve": 10.0}
>>> remote = Remote(lambda ids: {name: followers[name] for name in ids}, known=followers)
>>> influencers = filter_join(
...     remote, windows=WindowGrid(60, 30), condition=">", threshold=100_000, budget=1, policy="Filter Update"
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

from skyband.errors import InputError, QueryError
from skyband.order import FloatArray
from skyband.remote.election import Election, JoinSpec
from skyband.remote.join import RemoteJoin
from skyband.remote.objects import FullWindow, Score
from skyband.remote.policies import Policy
from skyband.remote.remote import Remote
from skyband.windows import WindowGrid

_CONDITIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def filter_join(
    remote: Remote,
    *,
    windows: WindowGrid,
    condition: str,
    threshold: float,
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
) -> RemoteJoin:
    """Return a join that answers each window with the ids that a filter over the remote value lets through.

    Parameters
    ----------
    remote
        The service and its replica.
    windows
        Which windows are answered, in microseconds.
    condition
        ``">"``, ``">="``, ``"<"`` or ``"<="``.
    threshold
        What remote values are compared with.
    policy, budget, distance, default, seed, only_candidates
        As for `skyband.Join`; policies that look at the list of a ranking are refused. `distance` is the paper's FDT.
    one_event
        As for `skyband.remote.acquatop.acquatop`.
    k, score, order
        For an answer that is not a set but ranks the best `k` of those that pass: how many, by which joined score (the
        remote value where it is left out), and whether larger ones are better (``"desc"``) or smaller ones
        (``"asc"``).
    max_rows
        How many rows the answer of a set has at most; a larger one is cut. None for no bound.
    """
    if condition not in _CONDITIONS or math.isnan(threshold):
        msg = f"the filter is ?x {condition} {threshold}; compare with a number, by '<', '<=', '>' or '>='"
        raise QueryError(msg)
    spec = JoinSpec(windows, _value, order, threshold=threshold, distance=distance)
    election = Election(remote.replica, spec, policy, budget, seed=seed, only_candidates=only_candidates)
    if not election.policy.whole_window:
        msg = f"the policy {election.policy.name!r} is for rankings, which have a list; choose another one"
        raise InputError(msg)
    objects = FullWindow(windows=windows, score=score or _value, order=order, one_event=one_event)
    compare = _CONDITIONS[condition]
    return RemoteJoin(
        remote, objects, election, k=k, condition=lambda value: compare(value, threshold), default=default,
        max_rows=max_rows,
    )  # fmt: skip


def _value(stream: FloatArray, value: FloatArray) -> FloatArray:  # noqa: ARG001 - a set has no score but the value
    return value
