"""The join of a query: with which service, by which column, and who is refreshed; checked when it is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from skyband.errors import InputError, QueryError
from skyband.remote.policies import GAINING, Policy, find_policy


@dataclass(frozen=True)
class Join:
    """Remote data that a query needs: the service that knows it, and how much of it may be refreshed per answer.

    The service's name is a column in the query's score and condition: the remote value, as far as it is known here.
    Services themselves are given where queries run: ``run(..., services={"followers": ...})``.

    Parameters
    ----------
    service
        The service's name.
    on
        The column of the stream that holds the remote id; the stream's id where it is left out. Many ids may share
        one remote row.
    policy
        Who is refreshed first: a name of `skyband.remote.policies.POLICIES`. Where it is left out, ``"AT-GAIN"`` for a
        ranking, and ``"WSJ-LRU.F"`` where the condition compares the remote value: the best of our experiments.
    budget
        How many remote ids may be refreshed for one answer. None for everything that matters: all ids of the window
        whose value is not known as of the answer, so that it is exact if the service says the truth in time.
    n
        With AT policies: how many more objects than `k` are kept per window, for changes.
    default
        The remote value of ids of which nothing is known yet; None leaves them out until it is.
    discover
        With AT policies: the share of the budget for such ids.
    distance
        For the ``.F`` policies: how near to the threshold of the condition a value must be to come first.
    seed
        For policies that draw.
    carry
        With ``"AT-GAIN"``, whatever its aim: how many unspent refreshes may be kept for a later answer, where they
        will gain more.
    only_candidates
        Whether only the policy's candidates are refreshed, as in the papers. Otherwise what the policy leaves
        unspent goes to the rest of the window. With AT policies only their list is kept then, and not the window.

    Examples
    --------
    >>> Join("followers", on="user", budget=7)
    Join('followers', on='user', budget=7)
    >>> Join("followers", policy="AT-BEST", budget=-1)
    Traceback (most recent call last):
    skyband.errors.QueryError: 2 problems:
    ...
    """

    service: str
    on: str | None = field(kw_only=True, default=None)
    policy: str | None = field(kw_only=True, default=None)
    budget: int | None = field(kw_only=True, default=None)
    n: int = field(kw_only=True, default=10)
    default: float | None = field(kw_only=True, default=None)
    discover: float = field(kw_only=True, default=0.5)
    distance: float = field(kw_only=True, default=1_000.0)
    seed: int = field(kw_only=True, default=0)
    carry: int = field(kw_only=True, default=0)
    only_candidates: bool = field(kw_only=True, default=False)

    def __post_init__(self) -> None:
        if problems := _problems(self):
            raise QueryError(problems)

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.as_dict().items() if name != "service")
        return f"Join({self.service!r}{given})"

    def policy_for(self, filtered: bool) -> Policy:
        """Return the policy of a ranking, or of a query whose condition compares the remote value."""
        return find_policy(self.policy or ("WSJ-LRU.F" if filtered else "AT-GAIN"))

    def as_dict(self) -> dict[str, Any]:
        """Return the join as plain values, without what is left at its default.

        Examples
        --------
        >>> Join("followers", budget=7).as_dict()
        {'service': 'followers', 'budget': 7}
        """
        usual = {f.name: f.default for f in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    @classmethod
    def from_dict(cls, given: Any) -> Join:
        """Make a join from plain values.

        Examples
        --------
        >>> Join.from_dict({"service": "followers", "budget": 7})
        Join('followers', budget=7)
        """
        if not isinstance(given, Mapping):
            msg = f"join is {given!r}; give a Join, or a table such as {{service = 'followers', budget = 10}}"
            raise QueryError(msg)
        names = [f.name for f in fields(cls)]
        if unknown := sorted(set(map(str, given)) - set(names)):
            msg = f"join has the unknown key {', '.join(map(repr, unknown))}; allowed are {', '.join(names)}"
            raise QueryError(msg)
        if "service" not in given:
            msg = "join names no service; give its name, as service = 'followers'"
            raise QueryError(msg)
        return cls(**given)


def _problems(join: Join) -> list[str]:
    """List what is wrong with the values of a join."""
    column = "give the name of a column, or leave it out for the stream's id"
    whole = "give a whole number, 0 or more"
    most = "give how many ids may be refreshed per answer, 0 or more, or leave it out for no bound"
    checks = (
        ("service", isinstance(join.service, str) and join.service.strip(), "give its name, such as 'followers'"),
        ("on", join.on is None or (isinstance(join.on, str) and join.on), column),
        ("budget", join.budget is None or _is_whole(join.budget), most),
        ("n", _is_whole(join.n), whole),
        ("seed", _is_whole(join.seed), whole),
        ("carry", _is_whole(join.carry), whole),
        ("discover", _is_number(join.discover, most=1), "it is a share of the budget: give 0 to 1"),
        ("distance", _is_number(join.distance), "give a number, 0 or more"),
        ("default", join.default is None or _is_number(join.default, -math.inf), "give a number, or leave it out"),
        ("only_candidates", isinstance(join.only_candidates, bool), "give True or False"),
    )
    problems = [f"the join's {name} is {getattr(join, name)!r}; {advice}" for name, good, advice in checks if not good]
    if join.policy is not None:
        try:
            find_policy(join.policy)
        except (InputError, TypeError) as error:
            problems.append(str(error))
    if join.carry and join.policy not in (None, *GAINING):
        problems.append(
            f"the join's carry is {join.carry!r}, which only the policies {', '.join(GAINING)} know; leave one out"
        )
    return problems


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object, least: float = 0, most: float = math.inf) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return least <= float(value) <= most
    except OverflowError:  # an integer that no float holds
        return False
