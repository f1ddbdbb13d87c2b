"""Rankers: which candidates are refreshed first.

Paper → code (AcquaTop and FILTER):

- AcquaTop, sections 5.2.1 to 5.2.3 → `TSM`, `BSM`, `ASM`
- AcquaTop, sections 3.2 and 5.2.4 → `LRU`, `WBM`, `wbm_score`
- FILTER, algorithm 1, lines 1-5 → `FilterUpdate`
"""

from __future__ import annotations

import numpy as np

from skyband.order import NEVER, IntArray
from skyband.remote.policies.base import Candidates, Random, Ranker


class RND(Ranker):
    """RND: any candidate, by chance, none twice (the authors' program could draw an id twice, and so waste budget)."""

    def rank(self, candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG002
        """Return the rows in random order."""
        return random.permutation(len(candidates))


class LRU(Ranker):
    """LRU: whoever was refreshed least recently comes first; before all, whoever never was. Ties keep their order."""

    def rank(self, candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG002
        """Return the rows, the oldest refresh first."""
        return np.argsort(candidates.refreshed, kind="stable")


class WBM(Ranker):
    """WBM: whoever is probably stale, and whose refresh will serve the most coming answers, comes first.

    Notes
    -----
    ACQUA (Dehghanzadeh et al.) as told in AcquaTop, section 3.2, and in the FILTER paper, section 2. The formulas are
    as printed: ``L = ceil((time + size - now) / slide)`` coming answers hold the object, its value will last for ``V =
    ceil((best before + I(now) - now) / slide)`` of them, and the score is the smaller of the two. ``I(now)`` leads to
    the *next* expiration, so it is as many mean times between changes as have passed since the best-before time, and
    one: a single one would make V fall the longer an id has been stale, and the ids that change most would never be
    refreshed again. The papers rank only what has expired; budget that is left then goes to the others, by best-before.
    """

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


class FilterUpdate(Ranker):
    """Filter Update: whoever's value is nearest to the threshold of the filter comes first; unknown ones before all.

    A value that changes smoothly crosses the threshold soon if it is near. The FILTER paper, algorithm 1.
    """

    def rank(self, candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG002
        """Return the rows, the nearest first."""
        return np.argsort(candidates.off_threshold(), kind="stable")


class TSM(Ranker):
    """TSM, top selection maintenance: the first of the list come first.

    For answers whose order matters: the highest ranks are right. AcquaTop, section 5.2.1.
    """

    def rank(self, candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG002
        """Return the rows as they come."""
        return np.arange(len(candidates))


class ASM(TSM):
    """ASM, all selection maintenance: the whole list. The best case in every chart.

    Give it no budget: then all of the list is refreshed, which no live system can promise. A budget binds it like every
    other policy, and makes it TSM. AcquaTop, section 5.2.3.
    """


class BSM(Ranker):
    """BSM, border selection maintenance: those around the border between the K-list and the N-list come first.

    For answers of which the set matters: whoever may enter or leave it is looked at. AcquaTop, section 5.2.2. They are
    `budget` neighbours of the list, from place ``k + 1 - budget // 2`` on, counted from 1. They are moved up where the
    list ends before them, and begin with its first where they would begin before it.
    """

    def rank(self, candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG002
        """Return the rows around the border."""
        first = min(candidates.k - budget // 2, len(candidates) - budget)  # from 0
        return np.arange(len(candidates))[max(first, 0) :][:budget]
