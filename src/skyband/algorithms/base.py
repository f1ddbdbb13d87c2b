"""The interface of an algorithm: it keeps, of a group's events, those that may still be in an answer.

A *group* is the queries that rank alike (same score, filter, partition, distinct, order); one algorithm
object serves all of them. Events live in the group's `EventStore`; an algorithm holds slots of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import new_class
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np

from skyband.algorithms.options import Option, write
from skyband.events.store import EventStore
from skyband.order import BoolArray, FloatArray, IntArray, SlotArray, rank_in_runs
from skyband.queries.query import Distinct
from skyband.windows import ALWAYS, NEVER, DueWindows, Kind, Schedule

NO_SLOTS = np.empty(0, np.int32)


@dataclass(frozen=True)
class Columns:
    """Arriving events of one group: aligned columns, merit may be NaN.

    `time` has recencies: event times, or their negatives where the earliest of equals ranks first; windows are measured
    by `position`. `ident` identifies ids, in no order (None where a group ranks events, not ids); `part` numbers the
    partitions from 0 to `partitions - 1`. `carried` says whether events that tie in everything else may differ in the
    columns that they carry: then none of them may be dropped for another.
    """

    merit: FloatArray
    time: IntArray
    position: IntArray
    part: IntArray | None = None
    partitions: int = 1
    ident: IntArray | None = None
    carried: bool = False

    def __getitem__(self, rows: slice) -> Columns:
        part = None if self.part is None else self.part[rows]
        ident = None if self.ident is None else self.ident[rows]
        return Columns(
            self.merit[rows], self.time[rows], self.position[rows], part, self.partitions, ident, self.carried
        )


class Arriving(Protocol):
    """Events of one batch on their way into the event store."""

    @property
    def columns(self) -> Columns:
        """What an algorithm decides by."""

    def keep(self, rows: IntArray) -> SlotArray:
        """Store these rows and return their slots."""


@dataclass
class BatchCounts:
    """Counts of one batch in one group; `late_before` and `partly_before` are given, the rest is counted.

    `first` and `last` are positions of events; `newest` is the largest position of any row, rejected or late ones too.
    """

    late_before: int = NEVER
    partly_before: int = NEVER
    rejected: int = 0
    partly_late: int = 0
    late_rows: list[IntArray] = field(default_factory=list)
    first: int = ALWAYS
    last: int = NEVER
    newest: int = NEVER


@dataclass(frozen=True)
class Selection:
    """Answers as slots, best first within each partition; window w has slots[offsets[w]:offsets[w + 1]].

    `proven` marks the answers that miss nothing of what was dropped before their queries were added; None: not known.
    """

    slots: SlotArray
    offsets: IntArray
    proven: BoolArray | None = None

    @classmethod
    def of(cls, windows: Sequence[SlotArray]) -> Selection:
        """Return answers given window by window."""
        return cls(np.concatenate([*windows, NO_SLOTS]), np.cumsum([0, *(len(slots) for slots in windows)]))


class Thresholded(Protocol):
    """Optional interface of algorithms that allow others to drop events before `push`.

    An event cannot matter that is worse than the K-th best of its pane and partition.
    """

    def pane_edges(self, low: int, high: int) -> IntArray:
        """Return the edges of the open panes, from `low` to `high` at least."""

    def kth_best(self, edges: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the K-th best open events between neighbouring edges: place among the edges, partition, merit."""

    def record_filtered(self, low: int, high: int, depth: int, best: float) -> None:
        """Record events between two edges that were dropped before `push`.

        The best of them has merit `best`; each is dominated by `depth` events that arrived.
        """


class Algorithm(ABC):
    """Keeps candidates and answers windows.

    The calls come in this order: `plan` whenever the queries change; `push` for every batch; `answer` with the
    windows that are due; `compact` now and then. `store` holds the group's events; `distinct` says which events of one
    id count.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    exact: ClassVar[bool] = True
    distincts: ClassVar[tuple[Distinct | None, ...]] = (None, "best", "latest")
    kinds: ClassVar[tuple[Kind, ...]] = ("sliding", "cumulative", "all_time", "calendar")
    every_watermark: ClassVar[bool] = True
    """Whether `answer` is called at every watermark, as the papers have it; else where a window ends."""
    options: ClassVar[tuple[Option, ...]] = ()
    """What can be chosen."""
    chosen: ClassVar[Mapping[str, float]] = {}
    """What was chosen, by `with_options`, other than by default."""

    def __init__(self, store: EventStore, distinct: Distinct | None) -> None:
        self.store = store
        self.distinct = distinct
        self.schedules: Sequence[Schedule] = ()

    @classmethod
    def with_options(cls, chosen: Mapping[str, float]) -> type[Self]:
        """Return this algorithm with other values of its options: a class like this one."""
        members = {"chosen": dict(chosen), "__doc__": cls.__doc__, "__module__": cls.__module__}
        return cast("type[Self]", new_class(cls.__name__, (cls,), exec_body=lambda space: space.update(members)))

    @classmethod
    def notation(cls) -> str:
        """Return the canonical text by which `skyband.algorithms.find` finds this algorithm with its options."""
        return write(cls.name, cls.chosen)

    @classmethod
    def option(cls, name: str) -> Any:
        """Return the value of an option: a number, or None where it follows from the queries."""
        (found,) = (option for option in cls.options if option.name == name)
        return cls.chosen.get(name, found.default)

    def plan(self, schedules: Sequence[Schedule]) -> None:
        """Serve these queries from now on."""
        self.schedules = schedules

    @abstractmethod
    def exact_from(self, schedule: Schedule, frontier: int) -> int:
        """Return the start of the first window from which on a new query's answers are exact.

        Called before `plan` with the query; `frontier` is the last position seen so far.
        """

    @property
    def proves(self) -> bool:
        """Whether `Selection.proven` is known for windows that began before their query was added."""
        return False

    @abstractmethod
    def forget_between(self, low: int, high: int) -> None:
        """Drop what is kept of ``[low, high)``: all events of that interval will be pushed again."""

    @abstractmethod
    def push(self, arriving: Arriving, counts: BatchCounts) -> None:
        """Take in a batch: store the rows that may matter, and count the others."""

    @property
    def thresholded(self) -> Thresholded | None:
        """The interface for dropping events before `push`; None where every event matters."""
        return None

    def emptied(self, store: EventStore) -> Algorithm | None:  # noqa: ARG002 - for those that can
        """Return an empty one which, given a part of a batch, keeps all that this one would keep of it.

        Its events go into `store`. None where every event matters.
        """
        return None

    @abstractmethod
    def answer(self, due: DueWindows, sealed_to: int) -> Selection:
        """Answer windows in order of their ends; no more events before `sealed_to` are expected."""

    def peek(self, start: int, end: int, k: int) -> SlotArray:
        """Answer a window that is still open from the events so far."""
        slots = self.kept()
        position = self.store.position[slots]
        return top(self.store, slots[(position >= start) & (position < end)], k, self.distinct)

    def _outside(self, slots: SlotArray, low: int, high: int) -> BoolArray:
        """Tell which events do not lie in ``[low, high)``."""
        position = self.store.position[slots]
        return (position < low) | (position >= high)

    @abstractmethod
    def kept(self) -> SlotArray:
        """Return the slots of all kept events."""

    @abstractmethod
    def bound(self) -> int:
        """Return how many events can be kept at most, as things stand."""

    @abstractmethod
    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """Return the state as numbers and arrays, detached from the live one."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `snapshot` returned; `plan` was called before."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold (for tests)."""

    def method_in_use(self) -> str:
        """Say what is used now, and why, where an algorithm chooses by what it sees; nothing where it does not."""
        return ""

    def explain(self, moment: Callable[[int], str]) -> list[str]:  # noqa: ARG002 - for those that have more to say
        """Describe in sentences what is kept and why; `moment` puts a position into words."""
        return []


def columns_of(store: EventStore) -> tuple[FloatArray, IntArray, IntArray, IntArray, IntArray]:
    """Return the columns of all stored events, as the kernels take them: merit, time, key, part, position."""
    return store.merit, store.time, store.key, store.part, store.position


def keep_all(arriving: Arriving, counts: BatchCounts) -> SlotArray:
    """Store all rows of a batch that are neither rejected nor late; return their slots."""
    rows = sift(arriving.columns, counts)
    return arriving.keep(rows) if len(rows) else NO_SLOTS


def sift(columns: Columns, counts: BatchCounts, offset: int = 0) -> IntArray:
    """Count the rejected and the late rows of a batch, whose rows are counted from `offset`; return the others."""
    merit, position = columns.merit, columns.position
    good = ~np.isnan(merit)
    late = good & (position < counts.late_before)
    rows = np.flatnonzero(good & ~late)
    counts.rejected += int(len(merit) - np.count_nonzero(good))
    counts.newest = max(counts.newest, int(position.max(initial=NEVER)))
    if late.any():
        counts.late_rows.append(np.flatnonzero(late) + offset)
    if len(rows):
        taken = position[rows]
        counts.partly_late += int(np.count_nonzero(taken < counts.partly_before))
        counts.first = min(counts.first, int(taken.min()))
        counts.last = max(counts.last, int(taken.max()))
    return rows


def one_per_id(store: EventStore, slots: SlotArray, distinct: Distinct | None, *major: IntArray) -> IntArray:
    """Return the places of the events that count: the best or the latest of each id.

    Ids count once in each partition, and for each value of the major columns.
    """
    if distinct is None:
        return np.arange(len(slots))
    groups = (*major, store.part[slots], store.key[slots])
    latest = () if distinct == "best" else (np.negative(store.position[slots]),)
    order = store.best_first(slots, *groups, *latest)
    return np.sort(order[rank_in_runs(*(column[order] for column in groups)) == 0])


def top(store: EventStore, slots: SlotArray, k: int, distinct: Distinct | None) -> SlotArray:
    """Return the best k of each partition by sorting, partition by partition."""
    slots = slots[one_per_id(store, slots, distinct)]
    part = store.part[slots]
    order = store.best_first(slots, part)
    return slots[order][rank_in_runs(part[order]) < k]
