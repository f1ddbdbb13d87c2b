"""The registry: every refresh policy, by the name its paper gives it. A new one is a class here and a line below.

Paper → code (AcquaTop and FILTER):

- AcquaTop, sections 3.2 and 5.2; FILTER, section 3 → `POLICIES`
"""

from __future__ import annotations

from skyband.errors import InputError
from skyband.remote.policies.base import AT, WSJ, WST, Candidates, Near, Policy
from skyband.remote.policies.gain import Gain
from skyband.remote.policies.rankers import ASM, BSM, LRU, RND, TSM, WBM, FilterUpdate

__all__ = ["GAINING", "POLICIES", "Candidates", "Policy", "find_policy"]

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("WST", WST(), RND(), only_candidates=True),
        Policy("WSJ-RND", WSJ(), RND()),
        Policy("WSJ-LRU", WSJ(), LRU()),
        Policy("WSJ-WBM", WSJ(), WBM()),
        Policy("Filter Update", WSJ(), FilterUpdate(), needs_filter=True),
        Policy("WSJ-RND.F", Near(), RND(), needs_filter=True),
        Policy("WSJ-LRU.F", Near(), LRU(), needs_filter=True),
        Policy("WSJ-WBM.F", Near(), WBM(), needs_filter=True),
        Policy("AT-TSM", AT(), TSM()),
        Policy("AT-BSM", AT(), BSM()),
        Policy("AT-ASM", AT(), ASM()),
        Policy("AT-LRU", AT(), LRU()),
        Policy("AT-WBM", AT(), WBM()),
        Policy("AT-GAIN", WSJ(), Gain()),
        Policy("AT-GAIN.order", WSJ(), Gain(members=1.0)),
        Policy("AT-GAIN.set", WSJ(), Gain(members=1_000.0)),  # the order only where the set gains nothing
    )
}
GAINING = tuple(name for name, policy in POLICIES.items() if policy.gains)
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
