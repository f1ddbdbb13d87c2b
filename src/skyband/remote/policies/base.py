"""Refresh policies: of the candidates, elect the ids to refresh, at most as many as the budget allows.

Paper → code (AcquaTop and FILTER):

- AcquaTop, section 3.2, proposer, ranker and elected set → `Proposer`, `Ranker`, `Policy.elect`
- AcquaTop, section 5.1, the list as candidate set → `at`
- FILTER, algorithms 1 and 2, the filtering distance → `Candidates.off_threshold`
- FILTER, algorithm 2, lines 1-6 → `near`; line 7 → `Policy.elect`

A policy is a *proposer*, which names the candidates, and a *ranker*, which orders them. Both are functions that see
nothing but `Candidates`: columns copied from the stream and from the replica. They hold no service and get none, so a
remote value that was not paid for cannot reach them. The proposers are here; `rankers` and `gain` have the rankers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

import numpy as np

from skyband.errors import InputError
from skyband.order import BoolArray, FloatArray, IntArray

Random = np.random.Generator


@dataclass(frozen=True)
class Candidates:
    """Objects that could be refreshed, as columns: what the stream says of them and what the replica remembers.

    Rows come in the order of the answer, the best first, as far as the replica knows. Arrays cannot be written to.
    Times are in microseconds.
    """

    now: int  # the time of the evaluation
    size: int  # of the window
    slide: int
    k: int  # how many rows an answer has; 0 where the answer is a set
    place: IntArray  # rank in the Super-MTK+N list, from 0, or in the window where all of it is kept; -1: it has none
    time: IntArray  # of the latest event on the stream
    score: FloatArray  # the joined score, by the replica's value; NaN where it has none
    value: FloatArray  # the replica's; NaN where it has none
    refreshed: IntArray  # when that was fetched
    best_before: IntArray  # until when it is probably still true
    interval: IntArray  # the mean time between changes
    ascending: bool = False  # whether smaller scores are better
    threshold: float | None = None  # what the filter of the query compares values with, if it has one
    distance: float = 1_000.0  # how near to the threshold a value must be for the `.F` policies
    possible_scores: FloatArray = field(default_factory=lambda: np.empty((0, 1)))
    """Scores that are equally likely once the value has changed: a row for each object; left out, it is its score."""

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

        An unknown value may be on either side: its distance is 0.
        """
        if self.threshold is None:
            msg = "this policy needs a query with a filter (?x < or > a threshold); choose another one for a ranking"
            raise InputError(msg)
        return np.nan_to_num(np.abs(self.value - self.threshold), nan=0.0)


_COLUMNS = tuple(f.name for f in fields(Candidates) if f.type in ("IntArray", "FloatArray"))


Proposer = Callable[[Candidates], IntArray]
"""Returns the rows of the candidates, in the order that decides among equals; no row depends on the others."""
Ranker = Callable[[Candidates, int, Random], IntArray]
"""Returns rows of the candidates, the first to be refreshed first, for a budget; rows may be left out."""


def wst(objects: Candidates) -> IntArray:  # noqa: ARG001
    """WST: no object is a candidate. The replica stays as it was; the worst case in every chart."""
    return np.empty(0, np.int64)


def wsj(objects: Candidates) -> IntArray:
    """WSJ: all objects of the current window are candidates (ACQUA's window-service join)."""
    return np.arange(len(objects))


def at(objects: Candidates) -> IntArray:
    """AT: the objects of the Super-MTK+N list are candidates: what coming answers would hold if nothing changed."""
    rows = np.flatnonzero(objects.place >= 0)
    return rows[np.argsort(objects.place[rows], kind="stable")]


def near(objects: Candidates) -> IntArray:
    """.F: the objects of the current window whose values are near the threshold of the filter are candidates.

    The FILTER paper, algorithm 2. `Candidates.distance` is the paper's FDT, 1,000 by default as there.
    """
    return np.flatnonzero(objects.off_threshold() < objects.distance)


@dataclass(frozen=True)
class Policy:
    """A proposer and a ranker, under the name that the papers give them.

    `gain` returns what a refresh of each candidate is expected to gain, so that refreshes can be carried over; most
    policies have none. `needs_filter` says that the policy is for queries with a filter, and `only_candidates` that
    no other object is ever refreshed, whatever is left of the budget.
    """

    name: str
    propose: Proposer
    rank: Ranker
    gain: Callable[[Candidates], FloatArray] | None = None
    needs_filter: bool = False
    only_candidates: bool = False

    @property
    def whole_window(self) -> bool:
        """Whether objects matter that are in the window, but not in the Super-MTK+N list."""
        return self.propose is not at

    def elect(self, objects: Candidates, budget: int | None, random: Random) -> IntArray:
        """Return the rows to refresh: never more than the budget (None: no bound), each once, the most urgent first."""
        rows = self.propose(objects)
        candidates = objects[rows]
        limit = len(candidates) if budget is None else max(min(budget, len(candidates)), 0)
        return rows[self.rank(candidates, limit, random)[:limit]]
