"""BSM, border selection maintenance: those around the border between the K-list and the N-list come first.

For answers of which the set matters: whoever may enter or leave it is looked at. AcquaTop, section 5.2.2.
"""

from __future__ import annotations

import numpy as np

from skyband.order import IntArray
from skyband.policies.base import Candidates, Random


class BSM:
    """Ranks `budget` neighbours of the list: from place ``k + 1 - budget // 2`` on, counted from 1.

    They are moved up where the list ends before them, and begin with its first where they would begin before it.
    """

    def rank(self, candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG002
        """Return the rows around the border."""
        first = min(candidates.k - budget // 2, len(candidates) - budget)  # from 0
        return np.arange(len(candidates))[max(first, 0) :][:budget]
