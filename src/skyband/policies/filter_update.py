"""Filter Update: whoever's value is nearest to the threshold of the filter comes first.

A value that changes smoothly crosses the threshold soon if it is near. The FILTER paper, algorithm 1.
"""

from __future__ import annotations

import numpy as np

from skyband.order import IntArray
from skyband.policies.base import Candidates, Random


class FilterUpdate:
    """Ranks by the distance to the threshold; values that are not known come before all."""

    def rank(self, candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG002
        """Return the rows, the nearest first."""
        return np.argsort(candidates.off_threshold(), kind="stable")
