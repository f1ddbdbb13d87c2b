"""Numbers to watch: what came in, what was kept, what went out, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class GroupStats:
    """One group of queries that rank alike: what its filter let in, and what it keeps.

    `kept` is the number of candidate events, `bound` how many it can be at most as things stand.
    `method_in_use` is what an algorithm that chooses by what it sees uses now, and why.
    """

    ranking: str
    queries: tuple[str, ...]
    events: int
    late: int
    partly_late: int
    rejected: int
    kept: int
    bound: int
    method_in_use: str = ""


@dataclass
class Work:
    """What a monitor did so far, counted as it goes."""

    batches: int = 0
    answers: int = 0
    answer_rows: int = 0
    push_seconds: float = 0.0
    answer_seconds: float = 0.0


@dataclass(frozen=True)
class Stats:
    """A monitor's life so far.

    `rows` came in. Of these, `late` had missed all windows of every query that they concern, `partly_late`
    some; `rejected` had no score, time or id, or were `ahead`: later than they may be. An id whose integer sum does not
    fit 64 bits counts as rejected too, once for each window. `answers` went out with `answer_rows`. `push_seconds` and
    `answer_seconds` were spent on taking in and on answering.
    """

    batches: int = 0
    rows: int = 0
    late: int = 0
    partly_late: int = 0
    rejected: int = 0
    ahead: int = 0
    answers: int = 0
    answer_rows: int = 0
    push_seconds: float = 0.0
    answer_seconds: float = 0.0
    groups: tuple[GroupStats, ...] = field(default=())

    @property
    def kept(self) -> int:
        """How many candidate events are kept in all groups."""
        return sum(group.kept for group in self.groups)

    @property
    def bound(self) -> int:
        """How many can be kept at most as things stand."""
        return sum(group.bound for group in self.groups)
