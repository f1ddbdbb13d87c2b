"""WBM: whoever is probably stale, and whose refresh will serve the most coming answers, comes first.

Notes
-----
ACQUA (Dehghanzadeh et al.) as told in AcquaTop, section 3.2, and in the FILTER paper, section 2. The formulas are as
printed: ``L = ceil((time + size - now) / slide)`` coming answers hold the object, its value will last for
``V = ceil((best before + I(now) - now) / slide)`` of them, and the score is the smaller of the two. ``I(now)`` leads to
the *next* expiration, so it is as many mean times between changes as have passed since the best-before time, and one:
a single one would make V fall the longer an id has been stale, and the ids that change most would never be refreshed
again. The papers rank only what has expired; budget that is left then goes to the others, by best-before.
"""

from __future__ import annotations

import numpy as np

from skyband.order import NEVER, IntArray
from skyband.policies.base import Candidates, Random


class WBM:
    """Ranks expired ids first, by the answers that a refresh serves; then the earliest best-before."""

    def rank(self, candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG002
        """Return the rows, the most useful refresh first."""
        expired = candidates.best_before <= candidates.now
        served = np.where(expired, wbm_score(candidates), 0)
        return np.lexsort((candidates.best_before, np.negative(served), ~expired))


def wbm_score(candidates: Candidates) -> IntArray:
    """Return how many coming answers a refresh would serve: min(L, V).

    What was never fetched has no best-before time yet: its value would be good from now on.
    """
    slide, now = candidates.slide, candidates.now
    renewed = np.where(candidates.best_before == NEVER, now, candidates.best_before)
    life = _ceil(candidates.time + candidates.size - now, slide)
    interval = np.maximum(candidates.interval, 1)
    missed = np.maximum(now - renewed, 0) // interval
    fresh = _ceil(renewed - now + (missed + 1) * interval, slide)
    return np.minimum(life, fresh)


def _ceil(length: IntArray, slide: int) -> IntArray:
    return -(-length // slide)
