"""Groups: queries that share what is kept for them. One kind of query is one subclass of `QueryGroup`.

A `Monitor` knows nothing else of its queries: it lets batches in, hands them to its groups, and asks each for the
windows that are due. What a group found becomes answers in one place, its `AnswerBuilder`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.algorithms.base import Algorithm
from skyband.answers.answer import AnswerBlock, Answers, Events, Kind, RefreshCost, Row
from skyband.answers.changes import ChangeColumns, RowColumns, as_rows, as_table, compared, difference
from skyband.calendars import Calendar
from skyband.engine.explain import clock_time
from skyband.engine.intake import WARMING_UP, BatchOutcome
from skyband.engine.plans import PartialsPlan, RankingPlan
from skyband.engine.snapshot import State, under
from skyband.engine.stats import GroupStats
from skyband.errors import InputError, QueryError
from skyband.events.batch import EventBatch, StreamColumns
from skyband.order import BoolArray, IntArray, SlotArray
from skyband.queries.query import Query
from skyband.remote.remote import Remote
from skyband.remote.services.base import Id
from skyband.windows import NEVER, Backfill, DueWindows, Schedule


@dataclass(frozen=True)
class Stream:
    """What groups of one stream have in common: its columns, the algorithm of rankings, and the remote services."""

    source: StreamColumns
    algorithm: type[Algorithm]
    remotes: dict[str, Remote]


@dataclass(frozen=True)
class ReducedBatch:
    """Events of a batch as partials, and how many rows of the batch are none; `newest` is the latest time of all.

    Of the `rejected` rows, `ahead` were later than they may be; `newest` leaves these out.

    `settled` is about events that stay elsewhere since their ids are settled: of each pane, how many `rows` these are,
    the `first` and the last `time`, and when the oldest of their remote values was `refreshed`.
    """

    partials: pa.Table
    newest: int
    late: int = 0
    partly_late: int = 0
    rejected: int = 0
    settled: pa.Table | None = None
    ahead: int = 0


class AnswerBuilder:
    """Makes answers: leaves out paused queries, moves right-closed windows back, compares answers for changes.

    Parameters
    ----------
    queries, schedules
        The lists of a group, which change as queries come and go.
    counts
        Whether windows count events.
    by_id
        Whether an id is in an answer once, so that changes are those of ids, not of events.
    """

    def __init__(self, queries: list[Query], schedules: list[Schedule], *, counts: bool, by_id: bool) -> None:
        self.queries, self.schedules, self.counts, self.by_id = queries, schedules, counts, by_id
        self.previous: dict[str, Sequence[Row]] = {}  # the last answer of each query that emits changes
        self.plain = False
        self.periods: Calendar | None = None

    def blocks(
        self,
        due: DueWindows,
        offsets: IntArray,
        events: Events,
        exact: BoolArray,
        why: str | npt.NDArray[np.str_],
        *,
        place: SlotArray | None = None,
        spent: RefreshCost | None = None,
        ranked: bool = True,
        provisional: bool = False,
    ) -> list[AnswerBlock]:
        """Make the answers of windows; see `AnswerBlock`. Queries that emit changes get a block of their own."""
        if not len(due):
            return []
        block = self.block(
            due, offsets, events, exact, why, place=place, spent=spent, ranked=ranked, provisional=provisional
        )
        changing = np.array([query.emits_changes for query in self.queries])[due.query]
        hidden = np.array([schedule.paused for schedule in self.schedules])[due.query]
        hidden |= block.start == block.end  # a day that a zone left out
        if not (changing.any() or hidden.any()):
            return [block]
        final, changes = (np.flatnonzero((changing == wanted) & ~hidden) for wanted in (False, True))
        blocks = [block.take(final)] if len(final) else []
        return [*blocks, self._compared(block.take(changes))] if len(changes) else blocks

    def block(
        self,
        due: DueWindows,
        offsets: IntArray,
        events: Events,
        exact: BoolArray,
        why: str | npt.NDArray[np.str_],
        *,
        place: SlotArray | None = None,
        spent: RefreshCost | None = None,
        ranked: bool = True,
        provisional: bool = False,
    ) -> AnswerBlock:
        """Make the answers of windows, whole ones, also of queries that emit changes or are paused."""
        shift = np.array([schedule.shift for schedule in self.schedules], np.int64)[due.query]
        endless = np.array([schedule.endless for schedule in self.schedules])[due.query]
        start, end = due.start - shift, due.end - shift
        if self.periods is not None:
            start, end = self.periods.moments(start), self.periods.moments(end)
        return AnswerBlock(
            names=[query.name for query in self.queries], query=due.query,
            start=np.where(endless, NEVER, start), end=end,
            exact=exact, offsets=offsets, events=events, place=place,
            selects=[tuple(output.name for output in query.columns) for query in self.queries],
            counts=self.counts, provisional=provisional, why=why, spent=spent, ranked=ranked, ties=self.queries[0].ties,
        )  # fmt: skip

    def _compared(self, block: AnswerBlock) -> AnswerBlock:
        """Compare each answer with the one before it."""
        if (columns := self._as_columns(block)) is not None:
            return replace(block, changes=columns)
        changes, emits = [], {query.name: query.emit for query in self.queries}
        for answer in Answers([block], plain=self.plain):
            before, emit = self.previous.get(answer.query, []), emits[answer.query]
            # An id that comes with another event has moved or is updated; as a solution of RSP-QL it is a new one.
            found = difference(before, answer.rows, by_id=self.by_id and emit == "changes")
            changes.append([change for change in found if emit in ("changes", change.kind)])
            self.previous[answer.query] = answer.rows
        return replace(block, changes=changes)

    def _as_columns(self, block: AnswerBlock) -> ChangeColumns | None:
        """Compare answers as columns; None where they show, or showed, more than ranked events."""
        rows = RowColumns.of(block, self.plain)
        queries = [self.queries[number] for number in np.unique(block.query).tolist()]
        shown = {query.name: self.previous.get(query.name) or None for query in queries}
        emits = {query.emit for query in queries}
        if rows is None or len(emits) > 1 or not all(isinstance(one, RowColumns | None) for one in shown.values()):
            return None
        before: list[Any] = []
        last: dict[str, int] = {}
        for place, number in enumerate(block.query.tolist()):
            name = self.queries[number].name
            before.append(last.get(name, shown[name]))
            last[name] = place
        for name, place in last.items():
            self.previous[name] = rows.take(slice(int(block.offsets[place]), int(block.offsets[place + 1])))
        emit = emits.pop()
        kind = None if emit == "changes" else cast(Kind, emit)
        return compared(rows, block.offsets, before, by_id=self.by_id and emit == "changes", kind=kind)

    def state(self) -> dict[str, pa.Table]:
        """Return what the next answers are compared with."""
        return {f"previous/{name}": as_table(rows) for name, rows in self.previous.items()}

    def load(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over what `state` returned."""
        self.previous = {name: as_rows(table) for name, table in under("previous/", tables).items()}


class QueryGroup(ABC):
    """Queries of one kind that share what is kept for them.

    Parameters
    ----------
    counts
        Whether their windows count events.
    by_id
        Whether an id is in an answer once.
    """

    kind: ClassVar[str]
    """The kind's name in snapshots."""
    takes: ClassVar[Literal["rows", "partials"]] = "rows"
    """What is left of a batch for `merge`, where it is reduced elsewhere: rows that may matter, or partials."""
    checks_each: ClassVar[bool] = True
    """Whether each query is checked; else only the first of those that are alike and carry the same."""

    def __init__(self, *, counts: bool = False, by_id: bool = True) -> None:
        self.queries: list[Query] = []
        self.schedules: list[Schedule] = []
        self.answers = AnswerBuilder(self.queries, self.schedules, counts=counts, by_id=by_id)

    # Which queries belong here.

    @classmethod
    @abstractmethod
    def handles(cls, query: Query) -> bool:
        """Tell whether a query is of this kind."""

    @classmethod
    def key(cls, query: Query) -> tuple[Any, ...]:
        """Return what queries of this kind that may share a group have in common."""
        return cls.kind, query.name

    @classmethod
    @abstractmethod
    def of(cls, query: Query, stream: Stream, newest: int = NEVER) -> Self:
        """Make a group for queries like one, without any yet; events up to `newest` came before it."""

    @classmethod
    def check(cls, query: Query, stream: Stream, schema: pa.Schema | None) -> None:
        """Raise QueryError where a query cannot be served, or needs columns that a known stream does not have."""
        group = cls.of(query, stream)
        if schema is not None:
            try:
                group.bind(schema, stream.source)
            except InputError as error:
                raise QueryError(str(error), query.name) from None

    @abstractmethod
    def serves(self, query: Query) -> bool:
        """Tell whether a query can be added."""

    def exact_from(self, schedule: Schedule) -> int:  # noqa: ARG002 - for those that can tell
        """Return the start of the first window from which on a new query would be exact."""
        return NEVER

    @abstractmethod
    def add(self, queries: Sequence[Query], watermark: int, newest: int) -> None:
        """Serve more queries; windows that end by the watermark are past, events up to `newest` have come."""

    def remove(self, name: str) -> None:
        """Stop serving a query."""
        place = [query.name for query in self.queries].index(name)
        del self.queries[place], self.schedules[place]
        self.answers.previous.pop(name, None)

    @property
    def name(self) -> str:
        """The name of the first query."""
        return self.queries[0].name

    @property
    def periods(self) -> Calendar | None:
        """The calendar whose axis the windows lie on, if they do."""
        return self.answers.periods

    def position(self, moment: int) -> int:
        """Return where a moment lies on the axis of the windows."""
        return moment if self.periods is None else self.periods.position(moment)

    def moment(self, position: int) -> int:
        """Return the moment of a position on the axis of the windows."""
        return position if self.periods is None else self.periods.moment(position)

    def incomplete(self, due: DueWindows) -> str | npt.NDArray[np.str_]:
        """Say why answers that have not seen all of their windows are not exact."""
        if not any(schedule.endless for schedule in self.schedules):
            return WARMING_UP
        said = [
            f"since {schedule.since if self.answers.plain else clock_time(schedule.since)}"
            if schedule.endless
            else WARMING_UP
            for schedule in self.schedules
        ]
        return np.array(said)[due.query]

    def schedule(self, name: str) -> Schedule:
        """Return the windows of a query."""
        return next(schedule for schedule in self.schedules if schedule.name == name)

    def comparable(self, query: Query) -> Sequence[Row] | None:  # noqa: ARG002 - for those that have any
        """Return the last answer of a query that is about to change, where the next one can be compared with it."""
        return None

    def backfill_for(self, schedule: Schedule, newest: int) -> Backfill | None:  # noqa: ARG002 - for those that can
        """Return what a new query would miss of the past, up to `newest`; None where that is nothing, or for good."""
        return None

    def fill(self, rows: EventBatch | None, schedule: Schedule) -> None:
        """Take in, of the past that a query misses, all events from its next window on; None: there were none."""
        raise NotImplementedError  # only groups whose `backfill_for` returns something are asked

    # Events in.

    @property
    @abstractmethod
    def carried(self) -> set[str]:
        """The columns that are carried into answers."""

    @property
    def id_columns(self) -> set[str]:
        """The columns that queries take ids from, besides the stream's own."""
        return set()

    @property
    def key_columns(self) -> set[str]:
        """The columns that are keys as they are; where they hold nothing yet, they may well be whole numbers."""
        keys = [key.expression for query in self.queries for key in (*query.partition_keys, *query.group_keys)]
        return {name for key in keys if key.is_column for name in key.columns}

    def sources(self, schema: pa.Schema) -> set[str]:
        """Return the columns that keys, and what is carried along, are computed from."""
        parts = [one for query in self.queries for one in (*query.partition_keys, *query.group_keys, *query.carried)]
        return {name for one in parts for name in one.needs(schema)}

    @abstractmethod
    def bind(self, schema: pa.Schema, source: StreamColumns) -> None:
        """Look up the columns of the queries; InputError or QueryError where one is missing or of a wrong type."""

    @abstractmethod
    def push(self, rows: EventBatch) -> list[BatchOutcome]:
        """Take in one batch; tell what became of its rows."""

    def merge(self, reduced: Mapping[str, ReducedBatch]) -> None:  # noqa: ARG002 - for those that can
        """Take in a batch that is reduced to partials elsewhere, by the names of the queries; rankings take none."""
        return

    def ranking_plans(self) -> list[RankingPlan]:
        """Return which events the queries need, where batches are reduced elsewhere."""
        return []

    def partials_plans(self) -> list[tuple[Hashable, PartialsPlan]]:
        """Return which partials each query needs, where batches are reduced elsewhere; equal keys need the same."""
        return []

    def learn(self, remote: Remote, changed: dict[Id, float]) -> None:  # noqa: ARG002 - for those that can
        """Take in values of a service that have changed; only joins have any."""
        return

    # Answers out.

    @abstractmethod
    def limits(self, watermark: int | None) -> list[int] | None:
        """Return up to where a watermark closes the windows of each query; None where it closes none.

        The watermark None stands for what closes without one, count windows; ALWAYS for the end of the input.
        """

    def due(self, limits: Sequence[int]) -> DueWindows:
        """List the windows that end by the limit of their query; TooManyWindows where they are absurdly many."""
        return DueWindows.by(self.schedules, limits)

    @abstractmethod
    def answer(self, due: DueWindows, limits: Sequence[int]) -> list[AnswerBlock]:
        """Answer windows, and close those of each query up to its limit."""

    def close(self, limits: Sequence[int]) -> None:
        """Note that windows are past."""
        for schedule, limit in zip(self.schedules, limits, strict=True):
            if limit > schedule.closed_to:
                schedule.closed_to = limit

    def early(self) -> list[AnswerBlock]:
        """Answer the windows that are still open and look different from when they were last shown."""
        return []

    def current(self, name: str) -> AnswerBlock | None:
        """Return the answer of a query's current window as things stand, with all ids where all are kept.

        That is the first window to end of those that hold the newest event. None before the first event.
        """
        msg = (
            "what it joins with is asked for when a window closes, so it has no ranks before; look at its latest answer"
        )
        raise QueryError(msg, name)

    def take_unfit(self) -> int:
        """Return how many objects were rejected while answering since this was asked last."""
        return 0

    # Looking inside, and snapshots.

    @abstractmethod
    def stats(self) -> list[GroupStats]:
        """Return the numbers so far."""

    @abstractmethod
    def explain(self, number: int) -> list[str]:
        """Say in lines what is shared and kept, and why; groups are numbered."""

    @abstractmethod
    def state(self) -> State:
        """Return everything as plain values and tables, detached from the live state."""

    @classmethod
    @abstractmethod
    def load(cls, state: State, stream: Stream) -> Self:
        """Make a group again from what `state` returned."""
