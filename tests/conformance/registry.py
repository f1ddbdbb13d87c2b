"""What the conformance suite runs over: every algorithm there is, by itself."""

from __future__ import annotations

from skyband.algorithms import ALGORITHMS


def algorithms(*, exact: bool = True) -> list[str]:
    """Return the names of the exact (or of the approximate) algorithms."""
    return sorted(name for name, algorithm in ALGORITHMS.items() if algorithm.exact is exact)
