"""What others may know of a monitor's queries who reduce its batches elsewhere, or look at how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa

from skyband.algorithms.base import Thresholded
from skyband.calendars import Calendar
from skyband.engine.intake import Ranking
from skyband.engine.measures import Measure
from skyband.events.batch import EventBatch
from skyband.expressions import Expression
from skyband.order import BoolArray, FloatArray, IntArray
from skyband.queries.decomposition import Decomposition
from skyband.queries.outputs import Output
from skyband.queries.query import Query
from skyband.windows import PaneGrid, WindowGrid

QueryState = Literal["active", "paused", "waiting"]
"""How a query is served; "waiting" for events of the past."""


class RankingPlan(Protocol):
    """Queries that rank alike: which of their events can be left out elsewhere, as things stand."""

    @property
    def ranking(self) -> Ranking:
        """What they have in common."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        """What comes along with an event, in the order in which it settles ties."""

    @property
    def k(self) -> int:
        """How many events the deepest query asks for."""

    @property
    def shortest(self) -> int:
        """How long the shortest window is."""

    @property
    def answered_to(self) -> int:
        """Where the last answered window ends: an event before it is late for some query at least."""

    @property
    def partition_type(self) -> str | None:
        """The type of what events are partitioned by, if they are."""

    @property
    def thresholded(self) -> Thresholded | None:
        """The interface for dropping events before they get here; None where every event matters."""

    def merits(self, batch: pa.RecordBatch) -> tuple[FloatArray, BoolArray, pa.Array | None]:
        """Return the merits of some rows, which of them are events, and their partitions."""

    def emptied(self) -> Candidates | None:
        """Return what finds candidates in a part of a batch; None where every row that passes the filter matters."""


class Candidates(Protocol):
    """Finds the candidates in a part of a batch; can be sent to a task."""

    def candidates(self, rows: EventBatch) -> IntArray:
        """Take in one more piece; return the rows that may matter, or are counted one by one."""


@dataclass(frozen=True)
class PartialsPlan:
    """Queries that take the same partials of a batch.

    Parameters
    ----------
    queries
        Their names.
    decomposition, windows, panes, order, on, key, partition, outputs
        How their events become partials.
    measures
        What is worked out of the events of a pane and id.
    late_before
        An event before this position has missed all its windows.
    partly_before
        A pane before this one has missed some.
    periods
        The calendar whose axis the windows lie on, if they do.
    settled
        The ids that are out of every answer for good, and when their values were refreshed: of their events only the
        number matters.
    """

    queries: list[str]
    decomposition: Decomposition
    windows: WindowGrid
    panes: PaneGrid
    order: str
    on: str | None
    key: Expression | None
    partition: Expression | None
    outputs: tuple[Output, ...]
    measures: dict[str, Measure]
    late_before: int
    partly_before: int
    settled: pa.Table
    periods: Calendar | None = None


@dataclass(frozen=True)
class PendingBackfill:
    """The events of the past, from `low` on and before `high`, that a query waits for; for all queries of its group."""

    name: str
    queries: Sequence[Query]
    low: int
    high: int
