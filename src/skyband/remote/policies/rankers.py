"""Rankers: which candidates are refreshed first.

Paper → code (AcquaTop and FILTER):

- AcquaTop, sections 5.2.1 to 5.2.3 → `tsm`, `bsm`, `asm`
- AcquaTop, sections 3.2 and 5.2.4 → `lru`, `wbm`, `wbm_score`
- FILTER, algorithm 1, lines 1-5 → `filter_update`
"""

from __future__ import annotations

import numpy as np

from skyband.order import NEVER, IntArray
from skyband.remote.policies.base import Candidates, Random


def rnd(candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG001
    """RND: any candidate, by chance, none twice (the authors' program could draw an id twice, and so waste budget)."""
    return random.permutation(len(candidates))


def lru(candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG001
    """LRU: the least recently refreshed first; before all, those that never were. Ties keep their order."""
    return np.argsort(candidates.refreshed, kind="stable")


def wbm(candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG001
    """WBM: first those that are probably stale, and whose refresh will serve the most coming answers.

    Notes
    -----
    ACQUA (Dehghanzadeh et al.) as described in AcquaTop, section 3.2, and in the FILTER paper, section 2. The formulas
    are as printed: ``L = ceil((time + size - now) / slide)`` coming answers hold the object, its value will last for
    ``V = ceil((best before + I(now) - now) / slide)`` of them, and the score is the smaller of the two. ``I(now)``
    leads to the *next* expiration, so it is as many mean times between changes as have passed since the best-before
    time, and one: a single one would make V fall the longer an id has been stale, and the ids that change most would
    never be refreshed again. The papers rank only what has expired; budget that is left then goes to the others, by
    best-before.
    """
    expired = candidates.best_before <= candidates.now
    served = np.where(expired, wbm_score(candidates), 0)
    return np.lexsort((candidates.best_before, np.negative(served), ~expired))


def wbm_score(candidates: Candidates) -> IntArray:
    """Return how many coming answers a refresh would serve: min(L, V).

    What was never fetched has no best-before time yet: its value would be good from now on.
    """
    slide, now = candidates.slide, candidates.now
    renewed = np.where(candidates.best_before == NEVER, now, candidates.best_before)
    life = -((now - candidates.time - candidates.size) // slide)  # rounded up
    interval = np.maximum(candidates.interval, 1)
    missed = np.maximum(now - renewed, 0) // interval
    fresh = -((now - renewed - (missed + 1) * interval) // slide)
    return np.asarray(np.minimum(life, fresh))


def filter_update(candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG001
    """Filter Update: the values nearest to the threshold of the filter first; before all, unknown ones.

    A value that changes smoothly crosses the threshold soon if it is near. The FILTER paper, algorithm 1.
    """
    return np.argsort(candidates.off_threshold(), kind="stable")


def tsm(candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG001
    """TSM, top selection maintenance: the list from its top, for answers whose order matters.

    AcquaTop, section 5.2.1.
    """
    return np.arange(len(candidates))


asm = tsm
"""ASM, all selection maintenance: the whole list. The best case in every chart.

Give it no budget: then all of the list is refreshed, which no live system can promise. A budget binds it like every
other policy, and makes it TSM. AcquaTop, section 5.2.3.
"""


def bsm(candidates: Candidates, budget: int, random: Random) -> IntArray:  # noqa: ARG001
    """BSM, border selection maintenance: the list around the border between the K-list and the N-list.

    For answers whose set matters: the objects that may enter or leave it are refreshed. AcquaTop, section 5.2.2. They
    are `budget` neighbours in the list, from place ``k + 1 - budget // 2`` on, counted from 1. They move up where the
    list ends before them, and begin with its first where they would begin before it.
    """
    first = min(candidates.k - budget // 2, len(candidates) - budget)  # from 0
    return np.arange(len(candidates))[max(first, 0) :][:budget]
