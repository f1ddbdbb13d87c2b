"""Refresh policies: of the candidates, elect the ids to refresh, at most as many as the budget allows.

Paper → code (AcquaTop and FILTER):

- AcquaTop, section 3.2, proposer, ranker and elected set → `Proposer`, `Ranker`, `Policy.elect`
- AcquaTop, section 5.1, the list as candidate set → `AT`
- FILTER, algorithms 1 and 2, the filtering distance → `Candidates.off_threshold`
- FILTER, algorithm 2, lines 1-6 → `Near`; line 7 → `Policy.elect`

A policy is a *proposer*, which says who the candidates are, and a *ranker*, which says who comes first. Both see
nothing but `Candidates`: columns copied from the stream and from the replica. They hold no service and get none, so a
remote value that was not paid for cannot reach them. The proposers are here; `rankers` and `gain` have the rankers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from skyband.errors import InputError
from skyband.order import BoolArray, FloatArray, IntArray

Random = np.random.Generator


@dataclass(frozen=True)
class Candidates:
    """Objects that could be refreshed, as columns: what the stream says of them and what the replica remembers.

    Rows come in the order of the answer, the best first, as far as the replica knows. Arrays cannot be written to.

    Parameters
    ----------
    now
        The time of the evaluation, in microseconds like all times here.
    size, slide
        Of the window.
    k
        How many rows an answer has; 0 where the answer is a set.
    place
        Rank in the Super-MTK+N list, from 0, or in the window where all of it is kept; -1 for objects without one.
    time
        Of the latest event on the stream.
    stream
        The score of the stream's side.
    score
        The joined score, by the replica's value; NaN where it has none.
    value
        The replica's; NaN where it has none.
    refreshed
        When that was fetched.
    best_before
        Until when it is probably still true.
    interval
        The mean time between changes.
    ascending
        Whether smaller scores are better.
    threshold
        What the filter of the query compares values with, if it has one.
    distance
        The filtering distance threshold: how near to the threshold a value must be for the `.F` policies.
    possible_scores
        Scores that are equally likely once the value has changed, as far as changes have shown yet: a row for each
        object; where they are left out, its score.
    """

    now: int
    size: int
    slide: int
    k: int
    place: IntArray
    time: IntArray
    stream: FloatArray
    score: FloatArray
    value: FloatArray
    refreshed: IntArray
    best_before: IntArray
    interval: IntArray
    ascending: bool = False
    threshold: float | None = None
    distance: float = 1_000.0
    possible_scores: FloatArray = field(default_factory=lambda: np.empty((0, 1)))

    def __post_init__(self) -> None:
        if len(self.possible_scores) != len(self.score):
            object.__setattr__(self, "possible_scores", np.reshape(self.score, (-1, 1)))
        for name in _COLUMNS:
            column = np.array(getattr(self, name))  # a copy: nothing leads back to the replica
            column.flags.writeable = False
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.place)

    def __getitem__(self, rows: IntArray | BoolArray) -> Candidates:
        return replace(self, **{name: getattr(self, name)[rows] for name in _COLUMNS})

    def off_threshold(self) -> FloatArray:
        """Return the filtering distance of each value: how far it is from the threshold of the filter.

        An unknown value may lie on either side: its distance is 0.
        """
        if self.threshold is None:
            msg = "this policy needs a query with a filter (?x < or > a threshold); choose another one for a ranking"
            raise InputError(msg)
        return np.nan_to_num(np.abs(self.value - self.threshold), nan=0.0)


_COLUMNS = tuple(f.name for f in fields(Candidates) if f.type in ("IntArray", "FloatArray"))


class Proposer(ABC):
    """Says who the candidates are."""

    whole_window: ClassVar[bool] = True
    """Whether objects matter that are in the window, but not in the Super-MTK+N list."""

    @abstractmethod
    def propose(self, objects: Candidates) -> IntArray:
        """Return rows of the objects, in the order that decides among equals; who else is there does not matter."""


class WST(Proposer):
    """WST: nobody is a candidate. The replica stays as it was; the worst case in every chart."""

    def propose(self, objects: Candidates) -> IntArray:  # noqa: ARG002 - whoever they are
        """Return no row."""
        return np.empty(0, np.int64)


class WSJ(Proposer):
    """WSJ: whoever is in the current window is a candidate (ACQUA's window-service join)."""

    def propose(self, objects: Candidates) -> IntArray:
        """Return all rows."""
        return np.arange(len(objects))


class AT(Proposer):
    """AT: whoever is in the Super-MTK+N list is a candidate: what a coming answer would hold if nothing changed."""

    whole_window = False

    def propose(self, objects: Candidates) -> IntArray:
        """Return the rows that have a place, in its order."""
        rows = np.flatnonzero(objects.place >= 0)
        return rows[np.argsort(objects.place[rows], kind="stable")]


class Near(Proposer):
    """.F: whoever is in the current window and has a value near the threshold of the filter is a candidate.

    Notes
    -----
    Zahmatkesh et al., the FILTER policy, algorithm 2. `Candidates.distance` is the paper's FDT, 1,000 by default as
    there.
    """

    def propose(self, objects: Candidates) -> IntArray:
        """Return the rows nearer than the filtering distance threshold."""
        return np.flatnonzero(objects.off_threshold() < objects.distance)


class Ranker(ABC):
    """Says who comes first."""

    @abstractmethod
    def rank(self, candidates: Candidates, budget: int, random: Random) -> IntArray:
        """Return rows of the candidates, the first to be refreshed first; rows may be left out."""

    def gain(self, candidates: Candidates) -> FloatArray | None:  # noqa: ARG002 - most rankers do not know
        """Return what a refresh of each is expected to gain; None where the ranker does not say."""
        return None


@dataclass(frozen=True)
class Policy:
    """A proposer and a ranker, under the name that the papers give them.

    `only_candidates` says that nobody else is ever refreshed, whatever is left of the budget.
    """

    name: str
    proposer: Proposer
    ranker: Ranker
    needs_filter: bool = field(default=False)
    only_candidates: bool = field(default=False)

    @property
    def whole_window(self) -> bool:
        """Whether the whole window must be kept for it."""
        return self.proposer.whole_window

    @property
    def gains(self) -> bool:
        """Whether it says what a refresh gains, so that refreshes can be carried over."""
        return self.ranker.gain(_NOBODY) is not None

    def elect(self, objects: Candidates, budget: int | None, random: Random) -> IntArray:
        """Return the rows to refresh: never more than the budget, each once, the most urgent first.

        Parameters
        ----------
        objects
            Everything that could be refreshed.
        budget
            How many may be; None for as many as the policy likes.
        random
            Where chance comes from.
        """
        rows = self.proposer.propose(objects)
        candidates = objects[rows]
        limit = len(candidates) if budget is None else max(min(budget, len(candidates)), 0)
        ranked = self.ranker.rank(candidates, limit, random)[:limit]
        return rows[ranked]


_NOTHING: Any = np.empty(0)
_NOBODY = Candidates(0, 1, 1, 1, *[_NOTHING] * 8)
