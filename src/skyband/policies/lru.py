"""LRU: whoever was refreshed least recently comes first."""

from __future__ import annotations

import numpy as np

from skyband.order import IntArray
from skyband.policies.base import Candidates, Random


class LRU:
    """Ranks by the last refresh, the oldest first; ids that never were come before all. Ties keep their order."""

    def rank(self, candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG002
        """Return the rows, the oldest refresh first."""
        return np.argsort(candidates.refreshed, kind="stable")
