"""AcquaTop: the best k of a stream joined with remote data that changes, with so many refreshes per answer.

Paper → code (AcquaTop):

- figure 8, the framework → `acquatop`, with `RemoteJoin`, `Election`, `Remote` and `TopkN`
- algorithm 5, lines 3-13 → `RemoteJoin.arrive`, `RemoteJoin.evaluate`
- algorithm 5, UpdateReplica, line 19, the elected set → `Election.elect`
- algorithm 5, UpdateReplica, lines 20-26 → `Remote.refresh`

Choose it where the remote side must be asked and may not be asked for everything; where it pushes its changes, use
`push_changes`, or `skyband.remote.topkn` alone.

Guarantees: no evaluation refreshes more ids than the budget (and `carry`). No service delays an answer beyond the
gateway's deadline, or stops it. Without a budget, and with a service that answers in time, answers are exact. The
whole window is kept, as ACQUA does, since what a policy leaves of the budget goes to any of its objects. With
``only_candidates`` and an AT policy the state is the Super-MTK+N list, about 2 (k + n) objects, and the ids of the
window, so that a pushed change of any of them counts. Answers are exact as far as the replica is; each row says how
old its remote value is.

Examples
--------
>>> followers = {"ann": 10.0, "bob": 50.0, "eve": 30.0}
>>> remote = Remote(lambda ids: {name: followers[name] for name in ids}, known=followers)
>>> influencers = acquatop(
...     remote, k=1, n=1, windows=WindowGrid(60, 30), score=lambda mentions, followers: mentions + followers, budget=1,
...     policy="AT-BSM",
... )
>>> influencers.arrive(["ann", "bob", "eve"], [3, 1, 2], [5, 20, 25])
>>> followers["eve"] = 70.0                                      # the remote side changes, and pushes nothing
>>> answer = influencers.evaluate(30)
>>> [(row.id, row.score, row.age) for row in answer.rows], answer.refreshes
([('eve', 72.0, 0)], 1)

Notes
-----
Zahmatkesh and Della Valle, AcquaTop, section 5, Figure 8 and algorithm 5. Open there, and decided here: ids of which
the replica knows nothing get a share of the budget, `discover`, the best on the stream's side first, and are left out
of answers until their value is known (or take part with a `default`). What the policy leaves of the budget goes to the
rest of the window, unless there are to be ``only_candidates``.
"""

from __future__ import annotations

from typing import Any

from skyband.errors import InputError, QueryError
from skyband.remote.election import Election, JoinSpec
from skyband.remote.join import RemoteJoin
from skyband.remote.objects import FullWindow, ObjectStore, Score
from skyband.remote.policies import Policy
from skyband.remote.remote import Remote
from skyband.remote.topkn import Outside, TopkN
from skyband.windows import WindowGrid


def acquatop(
    remote: Remote,
    *,
    k: int,
    n: int = 0,
    windows: WindowGrid,
    score: Score,
    policy: str | Policy = "AT-GAIN",
    budget: int | None,
    order: str = "desc",
    outside: Outside = "bound",
    default: float | None = None,
    discover: float = 0.5,
    seed: int = 0,
    carry: int = 0,
    only_candidates: bool = False,
    one_event: bool = False,
) -> RemoteJoin:
    """Return a join that answers each window with its best k.

    Parameters
    ----------
    remote
        The service and its replica.
    k
        How many rows an answer has.
    windows
        Which windows are answered, in microseconds.
    score
        The joined score of the stream's score and the remote value, as columns; monotone in both.
    order
        ``"desc"``: larger scores are better; ``"asc"``: smaller ones.
    outside
        What to do with pushed changes of objects that are not in the list; see `skyband.remote.topkn`.
    n, policy, budget, default, discover, seed, carry, only_candidates
        As for `skyband.Join`. With a `carry`, one evaluation refreshes up to ``budget + carry`` ids, all of them
        together no more than their budgets.
    one_event
        Whether each object is one event of its id, so that of two events at the same time the better one counts.
        Otherwise an object is what an id has come to by now, and the one that came last counts.
    """
    if order not in ("desc", "asc"):
        msg = f"order is {order!r}; use 'desc' where larger scores are better, 'asc' where smaller ones are"
        raise QueryError(msg)
    election = Election(
        remote.replica, JoinSpec(windows, score, order, k), policy, budget, discover=discover, seed=seed, carry=carry,
        only_candidates=only_candidates,
    )  # fmt: skip
    if election.policy.needs_filter:
        msg = f"the policy {election.policy.name!r} is for filters; choose another one for a ranking"
        raise InputError(msg)
    common: dict[str, Any] = {"windows": windows, "score": score, "order": order, "one_event": one_event}
    listed = TopkN(k=k, n=n, outside=outside, **common)  # in any case: it checks k and n
    keeps_all = election.policy.whole_window or not election.only_candidates
    objects: ObjectStore = FullWindow(**common) if keeps_all else listed
    return RemoteJoin(remote, objects, election, k=k, default=default, depth=k + n)
