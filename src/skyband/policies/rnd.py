"""RND: any candidate, by chance, none twice."""

from __future__ import annotations

from skyband.order import IntArray
from skyband.policies.base import Candidates, Random


class RND:
    """Ranks by chance, without replacement (the authors' program could draw an id twice, and so waste budget)."""

    def rank(self, candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG002
        """Return the rows in random order."""
        return random.permutation(len(candidates))
