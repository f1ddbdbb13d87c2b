"""TSM, top selection maintenance: the first of the list come first.

For answers whose order matters: the highest ranks are right. AcquaTop, section 5.2.1.
"""

from __future__ import annotations

import numpy as np

from skyband.order import IntArray
from skyband.policies.base import Candidates, Random


class TSM:
    """Ranks as the list does."""

    def rank(self, candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG002
        """Return the rows as they come."""
        return np.arange(len(candidates))
