"""What the conformance suite runs over: every algorithm there is, by itself."""

from __future__ import annotations

from typing import Any

from skyband.algorithms import ALGORITHMS

DISTINCTS = (None, "best", "latest")


def algorithms(*, exact: bool = True) -> list[str]:
    """Return the names of the exact (or of the approximate) algorithms."""
    return sorted(name for name, algorithm in ALGORITHMS.items() if algorithm.exact is exact)


def ranks(algorithm: str) -> dict[str, Any]:
    """Return what to ask of random workloads, so that an algorithm knows how to rank them."""
    return {} if ALGORITHMS[algorithm].distincts == DISTINCTS else {"distinct": None}


def fits(algorithm: str, kind: dict[str, Any]) -> bool:
    """Tell whether an algorithm can rank a kind of workload."""
    return kind.get("distinct") in ALGORITHMS[algorithm].distincts and (algorithm == "staircase" or "ties" not in kind)
