"""The registry: every refresh policy, by the name its paper gives it. A new one is a function and a line below.

Paper → code (AcquaTop and FILTER):

- AcquaTop, sections 3.2 and 5.2; FILTER, section 3 → `POLICIES`
"""

from __future__ import annotations

from skyband.errors import InputError
from skyband.remote.policies.base import Candidates, Policy, at, near, wsj, wst
from skyband.remote.policies.gain import gaining
from skyband.remote.policies.rankers import asm, bsm, filter_update, lru, rnd, tsm, wbm

__all__ = ["GAINING", "POLICIES", "Candidates", "Policy", "find_policy"]

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("WST", wst, rnd, only_candidates=True),
        Policy("WSJ-RND", wsj, rnd),
        Policy("WSJ-LRU", wsj, lru),
        Policy("WSJ-WBM", wsj, wbm),
        Policy("Filter Update", wsj, filter_update, needs_filter=True),
        Policy("WSJ-RND.F", near, rnd, needs_filter=True),
        Policy("WSJ-LRU.F", near, lru, needs_filter=True),
        Policy("WSJ-WBM.F", near, wbm, needs_filter=True),
        Policy("AT-TSM", at, tsm),
        Policy("AT-BSM", at, bsm),
        Policy("AT-ASM", at, asm),
        Policy("AT-LRU", at, lru),
        Policy("AT-WBM", at, wbm),
        gaining("AT-GAIN", members=5.0),
        gaining("AT-GAIN.order", members=1.0),
        gaining("AT-GAIN.set", members=1_000.0),  # the order only where the set gains nothing
    )
}
GAINING = tuple(name for name, policy in POLICIES.items() if policy.gain)
"""Policies that say what a refresh gains, so that some can be carried over."""


def find_policy(name: str) -> Policy:
    """Return a policy by its name.

    Examples
    --------
    >>> find_policy("AT-BSM").whole_window
    False
    """
    try:
        return POLICIES[name]
    except KeyError:
        msg = f"there is no refresh policy {name!r}; choose one of {', '.join(POLICIES)}"
        raise InputError(msg) from None
