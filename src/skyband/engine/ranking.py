"""Queries that rank alike, over one stream: one store, one algorithm, one schedule a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import pyarrow as pa

from skyband import algorithms
from skyband.algorithms.base import Algorithm, BatchCounts, Columns, Selection, Thresholded
from skyband.algorithms.staircase.staircase import Staircase
from skyband.algorithms.staircase.tied import TiedPanes
from skyband.algorithms.stkqf.skyline import Need, scan_for
from skyband.answers.answer import AnswerBlock, Events, Row
from skyband.calendars import Calendar
from skyband.engine.explain import backfill_text, clock_time, query_line
from skyband.engine.groups import QueryGroup, Stream
from skyband.engine.intake import (
    APPROXIMATE,
    BatchOutcome,
    Counts,
    Evaluator,
    Ranking,
    bind_outputs,
    too_many_ties,
)
from skyband.engine.plans import RankingPlan
from skyband.engine.snapshot import State, under
from skyband.engine.stats import GroupStats
from skyband.errors import QueryError
from skyband.events.batch import EventBatch, StreamColumns
from skyband.events.keys import is_text
from skyband.events.store import EventStore, taken
from skyband.expressions import Bound, parse
from skyband.order import BoolArray, FloatArray, IntArray, SlotArray, merit_of, rank_in_runs, recency_of
from skyband.queries.outputs import Output, carried, check_keys
from skyband.queries.query import Query
from skyband.windows import ALWAYS, NEVER, Backfill, DueWindows, Schedule, layout

_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class _Arriving:
    """Events of one batch; lists the rows that go into the store, in their order."""

    store: EventStore
    columns: Columns
    rows: EventBatch
    outputs: Sequence[Output]
    index: IntArray | None
    stored: list[IntArray] | None

    def keep(self, rows: IntArray) -> SlotArray:
        """Store these rows and return their slots."""
        if self.stored is not None:
            self.stored.append(rows)
        columns, placed = self.columns, self.store.placed
        part = 0 if columns.part is None else taken(columns.part, rows)
        position = taken(columns.position, rows) if placed else _NO_ROWS
        chosen = rows if self.index is None else self.index[rows]
        payload = carried(self.outputs, self.rows.batch, chosen) if self.outputs else None
        return self.store.add(self.rows, chosen, taken(columns.merit, rows), position, part, payload)


@dataclass(frozen=True)
class _ByMoments:
    """The interface for dropping events before they get here, by moments; inside they lie on a calendar's axis."""

    inner: Thresholded
    periods: Calendar

    def pane_edges(self, low: int, high: int) -> IntArray:
        """Return the edges of the open panes, from `low` to `high` at least."""
        edges = self.inner.pane_edges(self.periods.position(low), self.periods.position(high))
        return np.unique(self.periods.moments(edges))

    def kth_best(self, edges: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the K-th best open events between neighbouring edges: place among the edges, partition, merit."""
        return self.inner.kth_best(self.periods.positions(edges))

    def record_filtered(self, low: int, high: int, depth: int, best: float) -> None:
        """Record events between two edges that were dropped before `push`."""
        self.inner.record_filtered(self.periods.position(low), self.periods.position(high - 1) + 1, depth, best)


class RankingGroup(QueryGroup):
    """Events in, answers out, for queries that rank alike.

    Parameters
    ----------
    ranking
        What the queries have in common.
    algorithm
        What keeps the candidates.
    outputs
        What events carry along.
    unseen_to
        The last position of an event that this group did not take in, because it was not there yet or because
        the event was late for all its queries: a new query whose window reaches back to it cannot be exact.
    """

    kind = "ranking"
    checks_each = False

    def __init__(
        self, ranking: Ranking, algorithm: type[Algorithm], outputs: Sequence[Output], unseen_to: int = NEVER
    ) -> None:
        super().__init__(counts=ranking.counts, by_id=ranking.distinct is not None)
        self.ranking = ranking
        self.unseen_to = unseen_to
        self.outputs = tuple(outputs)
        self.answers.periods = ranking.periods
        names = [output.name for output in outputs]
        self.store = EventStore(ranking.counts, names, ranking.prefer, placed=ranking.periods is not None)
        self.evaluator = Evaluator(ranking.where, [ranking.score])
        self.partition_by: Bound | None = None
        self._bound_to: pa.Schema | None = None
        self._progressed: tuple[int, int, int] | None = None
        self.store.partitioned = ranking.partition_by is not None
        self.arrived = 0
        self._algorithm, self._planned = _keeping(ranking, algorithm, self.store), True
        self.counts = Counts()
        self.first, self.last = ALWAYS, NEVER
        self.early_digests: dict[tuple[str, int], str] = {}

    @classmethod
    def handles(cls, query: Query) -> bool:
        """Tell whether a query ranks events."""
        return query.ranks_events

    @classmethod
    def key(cls, query: Query) -> tuple[Any, ...]:
        """Return how a query ranks."""
        return cls.kind, Ranking.of(query)

    @classmethod
    def of(cls, query: Query, stream: Stream, newest: int = NEVER) -> Self:
        """Make a group for queries that rank and select as one does; QueryError where the algorithm does not."""
        algorithm = stream.algorithm
        if query.distinct not in algorithm.distincts:
            able = [a.name for a in algorithms.ALGORITHMS.values() if query.distinct in a.distincts]
            msg = (
                f"algorithm {algorithm.name!r} ranks events, as its paper does: it has no "
                f"distinct={query.distinct!r}; leave that out, or take one of {', '.join(able)}"
            )
            raise QueryError(msg, query.name)
        if query.ties is not None and algorithm is not Staircase:
            msg = (
                f"algorithm {algorithm.name!r} keeps k events, as its paper does: it has no ties={query.ties!r}; leave "
                f"that out, or take {Staircase.name!r}"
            )
            raise QueryError(msg, query.name)
        if query.window.kind not in algorithm.kinds:
            able = [a.name for a in algorithms.ALGORITHMS.values() if query.window.kind in a.kinds]
            msg = (
                f"algorithm {algorithm.name!r} is for windows that slide, as its paper, and the window is "
                f"{query.window!r}; give a size and a slide, or take one of {', '.join(able)}"
            )
            raise QueryError(msg, query.name)
        group = cls(Ranking.of(query), algorithm, query.carried)
        group.unseen_to = group.position(newest)
        return group

    def serves(self, query: Query) -> bool:
        """Tell whether a query can be served: it ranks alike, and by the columns that settle ties here.

        Ties are settled by the selected columns, so these must be the first of those that are carried.
        """
        able = query.window.kind in type(self._algorithm).kinds and self.outputs[: len(query.carried)] == query.carried
        return able and self.ranking == Ranking.of(query)

    @property
    def k(self) -> int:
        """How many events the deepest query asks for."""
        return max(schedule.k for schedule in self.schedules)

    @property
    def shortest(self) -> int:
        """How long the shortest window is."""
        return min(s.slide if s.grows and not s.endless else s.size for s in self.schedules)

    @property
    def answered_to(self) -> int:
        """Where the last answered window ends: an event before it is late for some query at least."""
        return self.moment(self._batch_counts().partly_before)

    # For those who leave out events elsewhere: `skyband.engine.plans.RankingPlan`.

    def ranking_plans(self) -> list[RankingPlan]:
        """Return itself: it knows which events the queries need."""
        return [self]

    @property
    def partition_type(self) -> str | None:
        """The type of what events are partitioned by, if they are."""
        return None if self.partition_by is None else self.partition_by.type

    @property
    def thresholded(self) -> Thresholded | None:
        """The interface for dropping events before they get here; None where every event matters."""
        found = self.algorithm.thresholded
        return found if found is None or self.periods is None else _ByMoments(found, self.periods)

    def merits(self, batch: pa.RecordBatch) -> tuple[FloatArray, BoolArray, pa.Array | None]:
        """Return the merits of some rows, which of them are events, and their partitions."""
        seen = self.evaluator.evaluate(batch, None)
        taken = np.ones(batch.num_rows, bool)
        for mask in (seen.passed, seen.complete):
            taken = taken if mask is None else taken & mask
        part = None if self.partition_by is None else self.partition_by.values(batch)
        return merit_of(seen.values[0], self.ranking.order), taken, part

    # Queries that come and go.

    @property
    def algorithm(self) -> Algorithm:
        """What keeps the candidates, prepared for the queries that there are: for many that came and went, once."""
        if not self._planned:
            self._algorithm.plan(self.schedules)
            self._planned = True
        return self._algorithm

    def add(self, queries: Sequence[Query], watermark: int, newest: int = NEVER) -> None:
        """Serve more queries, which rank as this group does; windows that end by the watermark are past."""
        schedules = [Schedule.of(query.name, query.most_rows, query.window) for query in queries]
        for schedule in schedules:
            schedule.closed_to = (self.arrived or NEVER) if self.ranking.counts else self.position(watermark)
            schedule.since = newest
            schedule.exact_from = self.exact_from(schedule)  # may refuse it: nothing has changed yet
            schedule.first = self.first if self.last >= schedule.next_start else ALWAYS
        self.queries += queries
        self.schedules += schedules
        self._planned, self._progressed = False, None

    def exact_from(self, schedule: Schedule) -> int:
        """Return the start of the first window from which on a new query would be exact."""
        # Not `algorithm`: what only a query needed that has just gone may serve this one.
        exact_from = self._algorithm.exact_from(schedule, self.last)
        if self.unseen_to == NEVER:
            return exact_from
        seen_from = 0 if self.ranking.counts else self.unseen_to + 1
        return max(exact_from, schedule.first_start_from(seen_from))

    def backfill_for(self, schedule: Schedule, newest: int) -> Backfill | None:
        """Return what a new query would miss of the past, up to `newest`; None where it is exact at once.

        Of what it needs, only that can be missing which reaches further back than the exact queries as deep as it;
        where windows grow, panes are joined, and what others need says less.
        """
        low, now = schedule.next_start, self.position(newest) + 1
        if low >= now or low == NEVER or (exact_from := self.exact_from(schedule)) <= low:
            return None
        starts, grow = layout(self.schedules).start.tolist(), any(s.grows for s in (schedule, *self.schedules))
        served = [
            Need(now - start, s.k)
            for s, start in zip(self.schedules, starts, strict=True)
            if self.unseen_to < start < now and s.is_exact(start) and not grow
        ]
        scan = scan_for(Need(now - low, schedule.k), served)
        high = now - scan.newer
        if not self._algorithm.proves and exact_from > high:  # windows that start behind it would not be known exact
            return Backfill(scan.case, low, now)
        return Backfill(scan.case, low, high) if low < high else None

    def remove(self, name: str) -> None:
        """Stop serving a query."""
        super().remove(name)
        self.early_digests = {key: seen for key, seen in self.early_digests.items() if key[0] != name}
        self._planned, self._progressed = not self.schedules, None

    def comparable(self, query: Query) -> Sequence[Row] | None:
        """Return the last answer of a query that will rank as before."""
        return self.answers.previous.get(query.name) if self.serves(query) else None

    # Events in.

    def fill(self, rows: EventBatch | None, schedule: Schedule) -> None:
        """Take in, of the past that a query misses, all events from its next window on; None: there were none.

        They replace what is kept of that interval, so that nothing is counted twice.
        """
        low, high = schedule.still_missing()
        self.algorithm.forget_between(low, high)
        self._compact(0.0, 0)  # what is given again must not tie with itself
        if rows is not None:
            self._take(rows, BatchCounts())
        if high > self.unseen_to:
            self.unseen_to = min(self.unseen_to, low - 1)
        assert schedule.backfill is not None
        schedule.backfill = replace(schedule.backfill, low=low, state="done")

    def emptied(self) -> RankingGroup | None:
        """Return a group for `candidates` of a part of a batch; None where every row that passes the filter matters."""
        group = RankingGroup(self.ranking, type(self._algorithm), self.outputs)
        algorithm = self.algorithm.emptied(group.store)
        if algorithm is None:
            return None
        group.queries, group.schedules, group._algorithm = self.queries, self.schedules, algorithm
        return group

    def candidates(self, rows: EventBatch) -> IntArray:
        """Take in one more piece of a part of a batch; return the rows that may matter, or are counted one by one.

        A row that is left out is worse than K others of its pane and partition.
        """
        self.bind(rows.batch.schema, rows.source)
        counts, before, stored = self._batch_counts(), self.store.size, [_NO_ROWS]
        columns, index, seen = self._take(rows, counts, stored)
        self._count(counts, seen, columns, index)
        moved = self._make_room()
        kept = np.concatenate(stored)[moved[before:] >= 0]
        return np.concatenate([kept if index is None else index[kept], seen.late, seen.partly, seen.rejected])

    def _take(
        self, rows: EventBatch, counts: BatchCounts, stored: list[IntArray] | None = None
    ) -> tuple[Columns, IntArray | None, BatchOutcome]:
        """Let the algorithm have the rows of a batch; list the rows that go into the store, in their order."""
        columns, index, seen = self._columns(rows)
        self.algorithm.push(_Arriving(self.store, columns, rows, self.outputs, index, stored), counts)
        self.first, self.last = min(self.first, counts.first), max(self.last, counts.last)
        self._begin(columns, counts.first)
        return columns, index, seen

    def _columns(self, rows: EventBatch) -> tuple[Columns, IntArray | None, BatchOutcome]:
        """Return the events of a batch as columns, and their rows; None: all are events."""
        counts = self.ranking.counts
        # Only events have arrival numbers; else the algorithm leaves NaN out on its way.
        seen = self.evaluator.evaluate(rows.batch, rows.valid, keep_nan=not counts)
        index, merit, time = seen.taken, merit_of(seen.values[0], self.ranking.order), rows.time
        if index is not None:
            merit, time = merit[index], time[index]
        recency = recency_of(time, self.ranking.prefer)
        position = np.arange(self.arrived, self.arrived + len(merit)) if counts else time
        if self.periods is not None:
            position = self.periods.positions(time)
        self.arrived += len(merit) if counts else 0
        part = None
        if self.partition_by is not None:
            part = self.store.parts(_chosen(self.partition_by.values(rows.batch), index))
        partitions = 1 if part is None else len(self.store.partitions.values) + 1
        ident = None if self.ranking.distinct is None else _numbers(_chosen(rows.ids, index))
        columns = Columns(merit, recency, position, part, partitions, ident, bool(self.store.select))
        return columns, index, BatchOutcome(seen.passed, seen.rejected)

    def _begin(self, columns: Columns, first: int) -> None:
        """Note the first event of each query: one that missed all windows of a query is none of its."""
        waiting = [schedule for schedule in self.schedules if first < schedule.first > schedule.closed_to]
        if not waiting or first == ALWAYS:
            return
        events = None
        for schedule in waiting:
            if first >= schedule.next_start:
                schedule.first = first
                continue
            events = columns.position[~np.isnan(columns.merit)] if events is None else events
            schedule.first = min(schedule.first, int(events[events >= schedule.next_start].min(initial=ALWAYS)))

    @property
    def carried(self) -> set[str]:
        """The columns that are carried into answers."""
        return {output.column for output in self.outputs if output.column is not None}

    def bind(self, schema: pa.Schema, source: StreamColumns) -> None:
        """Look up the columns of the ranking."""
        if self._bound_to is not None and schema.equals(self._bound_to):
            return
        self._bound_to = None
        bind_outputs(self.outputs, schema)
        check_keys("partition_by", self.ranking.partition_keys, schema)
        self.evaluator.bind(schema)
        by = self.ranking.partition_by
        self.partition_by = None if by is None else by.bind(schema)
        self.store.text_ids = is_text(schema.field(source.id).type)
        self.store.retype({output.name: output.type(schema) for output in self.outputs})
        self.answers.plain = source.is_plain(schema)
        self._bound_to = schema

    def push(self, rows: EventBatch) -> list[BatchOutcome]:
        """Take in one batch."""
        counts = self._batch_counts()
        columns, index, seen = self._take(rows, counts)
        self._count(counts, seen, columns, index)
        if not self.ranking.counts:  # count windows that are full by now come first: some end amid the batch
            self._compact()
        return [seen]

    def _batch_counts(self) -> BatchCounts:
        if self.ranking.counts or not self.schedules:
            return BatchCounts()
        late_before, partly_before, _ = self._progress()
        return BatchCounts(late_before, partly_before)

    def _progress(self) -> tuple[int, int, int]:
        """Return where the first coming window starts, where the last answered one ends, and where the next one ends.

        They stay the same until a window closes, or a query comes or goes.
        """
        if self._progressed is None:
            columns = layout(self.schedules)
            ends = np.where(columns.closed == NEVER, NEVER, columns.first_end_after(columns.closed))
            self._progressed = int(columns.start.min()), int(columns.answered.max()), int(ends.min())
        return self._progressed

    def close(self, limits: Sequence[int]) -> None:
        """Note that windows are past."""
        super().close(limits)
        self._progressed = None

    def _count(self, counts: BatchCounts, seen: BatchOutcome, columns: Columns, index: IntArray | None) -> None:
        if index is None and not self.store.placed:
            seen.newest = counts.newest
        late = np.concatenate([*counts.late_rows, _NO_ROWS])
        if len(late):
            self.unseen_to = max(self.unseen_to, int(columns.position[late].max()))
        seen.late = late if index is None else index[late]
        if counts.rejected:  # NaN scores, which the algorithm met on its way
            nan = np.flatnonzero(np.isnan(columns.merit))
            seen.rejected = np.sort(np.concatenate([seen.rejected, nan if index is None else index[nan]]))
        if counts.partly_late:
            position = columns.position
            partly = np.flatnonzero(
                (position >= counts.late_before) & (position < counts.partly_before) & ~np.isnan(columns.merit)
            )
            seen.partly = partly if index is None else index[partly]
        self.counts.events += len(columns.merit) - counts.rejected - len(late)
        self.counts.rejected += len(seen.rejected)
        self.counts.late += len(late)
        self.counts.partly_late += counts.partly_late

    def _compact(self, share: float = 2.0, spare: int = 4096) -> None:
        """Make room in the store once much of it is not kept any more."""
        if self.store.size > spare and self.store.size > share * len(self.algorithm.kept()) + spare:
            self._make_room()

    def _make_room(self) -> SlotArray:
        """Drop what is not kept any more; return the new slot of each event, -1 where it is gone."""
        moved = self.store.compact(self.algorithm.kept())
        self.algorithm.compact(moved)
        return moved

    # Answers out.

    def limits(self, watermark: int | None) -> list[int] | None:
        """Return up to where windows close: those that count events as far as these have come, others in time."""
        counts = self.ranking.counts
        if watermark == ALWAYS:
            if self.last == NEVER:
                return None
            return [s.first_end_after(self.last) if counts else s.last_due(self.last) for s in self.schedules]
        if counts != (watermark is None):
            return None
        limit = self.arrived if watermark is None else self.position(watermark)
        if not self._algorithm.every_watermark and limit < self._progress()[2]:
            return None  # no window ends
        return [limit] * len(self.schedules)

    def answer(self, due: DueWindows, limits: Sequence[int]) -> list[AnswerBlock]:
        """Answer windows, and close those of each query up to its limit."""
        if self.first == ALWAYS:
            self.close(limits)
            return []
        picks = self._in_order(due, self.algorithm.answer(due, max(limits)))
        self.close(limits)
        if self.early_digests:
            closed = {schedule.name: schedule.closed_to for schedule in self.schedules}
            digests = self.early_digests.items()
            self.early_digests = {key: seen for key, seen in digests if key[1] > closed.get(key[0], ALWAYS)}
        blocks = self._blocks(due, picks)
        self._compact()
        return blocks

    def early(self) -> list[AnswerBlock]:
        """Answer the windows that are still open and look different from when they were last shown."""
        starts: list[tuple[int, int, int]] = []
        parts: list[SlotArray] = []
        for q in [q for q, query in enumerate(self.queries) if query.emit == "early"]:
            query, schedule = self.queries[q], self.schedules[q]
            if schedule.paused or self.last == NEVER:
                continue
            limit = schedule.first_end_after(self.last) if self.ranking.counts else schedule.last_open(self.last)
            for end in schedule.ends_by(limit).tolist():
                slots = self._peek(q, end)
                look = self._look(slots[self._shown(slots)], [output.name for output in query.columns])
                if self.early_digests.get((query.name, end)) != look:
                    self.early_digests[query.name, end] = look
                    starts.append((q, schedule.start_of(end), end))
                    parts.append(slots)
        if not starts:
            return []
        query_, start, end_ = (np.array(column, np.int64) for column in zip(*starts, strict=True))
        offsets = np.cumsum([0, *(len(part) for part in parts)])
        picks = Selection(np.concatenate(parts), offsets)
        return self._blocks(DueWindows(query_, start, end_), picks, provisional=True)

    def current(self, name: str) -> AnswerBlock | None:
        """Return the answer of a query's current window as things stand."""
        if self.last == NEVER:
            return None
        number = [query.name for query in self.queries].index(name)
        schedule = self.schedules[number]
        end = schedule.first_end_after(max(self.last, schedule.closed_to))
        slots = self._peek(number, end)
        window = DueWindows(*(np.array([one], np.int64) for one in (number, schedule.start_of(end), end)))
        (block,) = self._blocks(window, Selection(slots, np.array([0, len(slots)])), provisional=True, whole=True)
        return block

    def _peek(self, query: int, end: int) -> SlotArray:
        """Answer a window that is still open with what there is."""
        schedule = self.schedules[query]
        start = schedule.start_of(end)
        slots = self.algorithm.peek(start, end, schedule.k)
        window = DueWindows(*(np.array([number], np.int64) for number in (query, start, end)))
        return self._in_order(window, Selection(slots, np.array([0, len(slots)]))).slots

    def _in_order(self, due: DueWindows, picks: Selection) -> Selection:
        """Let answers show, of events that tie, the first by what they carry: algorithms take any of them."""
        tied = self.store.tied() if len(picks.slots) else None
        if tied is None or (self.ranking.counts and self.ranking.distinct == "latest"):  # which arrived last is known
            return picks
        of = tied.of[picks.slots]
        places = np.flatnonzero(of >= 0)
        if len(places) == 0:
            return picks
        window = np.repeat(np.arange(len(due)), np.diff(picks.offsets))[places]
        of, rank = of[places], rank_in_runs(window, of[places])
        slots = picks.slots.copy()
        slots[places] = tied.slots[tied.starts[of] + rank]
        if self.ranking.counts:  # tied events may lie in different windows
            begins = np.flatnonzero(rank == 0)
            for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(rank)], strict=True):
                members = tied.slots[tied.starts[of[begin]] : tied.starts[of[begin] + 1]]
                position = self.store.position[members]
                inside = (position >= due.start[window[begin]]) & (position < due.end[window[begin]])
                slots[places[begin:end]] = members[inside][: end - begin]
        return replace(picks, slots=slots)

    def _look(self, slots: SlotArray, select: Sequence[str]) -> str:
        """Return a digest of what a provisional answer shows."""
        store, payload = self.store, self.store.payload()
        ids = store.ids(slots)
        shown = repr((ids.tolist(), store.merit[slots].tolist(), store.moments(slots).tolist()))
        if select and payload is not None:
            shown += repr(payload.select(list(select)).take(pa.array(slots)).to_pylist())
        return blake2b(shown.encode(), digest_size=12).hexdigest()

    def _blocks(
        self, due: DueWindows, picks: Selection, provisional: bool = False, whole: bool = False
    ) -> list[AnswerBlock]:
        """Make the answers of windows; `whole` ones also of queries that emit changes or are paused."""
        full, exact, why = self._exact(due, picks), self.algorithm.exact, self.incomplete(due)
        why = why if exact else np.where(full, APPROXIMATE, why)
        picks, cut = self._without_excess(picks)
        if cut.any():
            why, full = np.where(full & cut, too_many_ties(self.ranking.max_ties), why), full & ~cut
        # Events are in many answers: with more rows than slots, the slots are stored once and rows refer to them.
        shared = len(picks.slots) > self.store.size
        events = self._events(np.arange(self.store.size) if shared else picks.slots)
        place = picks.slots if shared else None
        if whole:
            return [self.answers.block(due, picks.offsets, events, full & exact, why, place=place, provisional=True)]
        return self.answers.blocks(
            due, picks.offsets, events, full & exact, why, place=place, provisional=provisional
        )  # fmt: skip

    def _without_excess(self, picks: Selection) -> tuple[Selection, BoolArray]:
        """Cut answers to as many rows as may tie; tell which were longer."""
        sizes = np.diff(picks.offsets)
        if self.ranking.ties is None:
            return picks, np.zeros(len(sizes), bool)
        window = np.repeat(np.arange(len(sizes)), sizes)
        shown = self._shown(picks.slots, window)
        left = np.bincount(window[shown], minlength=len(sizes))
        return Selection(picks.slots[shown], np.append(0, np.cumsum(left)), picks.proven), left < sizes

    def _shown(self, slots: SlotArray, *major: IntArray) -> BoolArray:
        """Tell which rows an answer shows: algorithms return one more than may tie, where there are more."""
        if self.ranking.ties is None:
            return np.ones(len(slots), bool)
        return rank_in_runs(*major, self.store.part[slots]) < self.ranking.max_ties

    def _exact(self, due: DueWindows, picks: Selection) -> BoolArray:
        """Tell which answers miss nothing: by their start, or proven though their windows had begun before."""
        exact_from = np.array([s.exact_from for s in self.schedules], np.int64)[due.query]
        exact = due.start >= exact_from
        for window in np.flatnonzero(~exact).tolist():
            exact[window] = self.schedules[due.query[window]].is_exact(int(due.start[window]))
        if picks.proven is not None:
            exact |= picks.proven & (due.start > self.unseen_to)
        return exact

    def _events(self, slots: SlotArray | IntArray) -> Events:
        """Return the events in slots, detached from the store."""
        store = self.store
        payload = store.payload()
        carried = None if payload is None else payload.take(pa.array(slots)).combine_chunks()
        part = store.part[slots] if self.ranking.partition_by is not None else None
        return Events(
            id=store.ids(slots),
            score=merit_of(store.merit[slots], self.ranking.order),
            time=store.moments(slots),
            part=part,
            partition=None if part is None else store.partitions.decode(part),
            payload=carried,
        )

    # Looking inside, and snapshots.

    def stats(self) -> list[GroupStats]:
        """Return the numbers so far."""
        return [GroupStats(
            str(self.ranking), tuple(query.name for query in self.queries), **asdict(self.counts),
            kept=len(self.algorithm.kept()), bound=self.algorithm.bound(), method_in_use=self.algorithm.method_in_use(),
        )]  # fmt: skip

    def explain(self, number: int) -> list[str]:
        """Say which queries share the ranking, and what is kept."""
        in_words = str if self.ranking.counts or self.answers.plain else clock_time
        moment = lambda position: in_words(self.moment(position))  # noqa: E731 - two functions, one after the other
        lines = [
            query_line(query) + backfill_text(schedule, moment)
            for query, schedule in zip(self.queries, self.schedules, strict=True)
        ]
        lines += self.algorithm.explain(moment)
        (stats,) = self.stats()
        if stats.events:  # before the first event there is nothing to count
            limit = f"; at most {stats.bound:,}" if stats.kept else ""
            lines.append(f"keeps {stats.kept:,} of {stats.events:,} events now{limit}")
        return [f"group {number}: {self.ranking}", *(f"  {line}" for line in lines)]

    def state(self) -> State:
        """Return everything as plain values and tables, detached from the live state."""
        self._compact(1.25, 256)  # what is not kept any more need not be written either
        algorithm = self.algorithm.snapshot()
        arrays = {name: value for name, value in algorithm.items() if isinstance(value, np.ndarray)}
        meta = {
            "queries": [query.as_dict() for query in self.queries],
            "outputs": [[output.name, str(output.expression)] for output in self.outputs],
            "schedules": [asdict(schedule) for schedule in self.schedules],
            "counts": asdict(self.counts),
            "extent": [self.first, self.last, self.arrived, self.unseen_to],
            "early_digests": [[name, end, look] for (name, end), look in self.early_digests.items()],
            "algorithm": {name: value for name, value in algorithm.items() if name not in arrays},
        }
        tables = {f"store/{name}": table for name, table in self.store.state().items()}
        tables |= {f"algorithm/{name}": pa.table({"": pa.array(value)}) for name, value in arrays.items()}
        tables |= self.answers.state()
        return meta, tables

    @classmethod
    def load(cls, state: State, stream: Stream) -> Self:
        """Make a group again from what `state` returned."""
        meta, tables = state
        queries = [Query.from_dict(given) for given in meta["queries"]]
        outputs = [Output(name, parse(text)) for name, text in meta["outputs"]]
        group = cls(Ranking.of(queries[0]), stream.algorithm, outputs)
        group.queries += queries
        group.schedules += [Schedule.load(given) for given in meta["schedules"]]
        group.counts = Counts(**meta["counts"])
        group.first, group.last, group.arrived, group.unseen_to = meta["extent"]
        group.early_digests = {(name, end): look for name, end, look in meta["early_digests"]}
        group.store.load(under("store/", tables))
        group.algorithm.plan(group.schedules)
        arrays = {name: table[""].to_numpy().copy() for name, table in under("algorithm/", tables).items()}
        group.algorithm.restore(meta["algorithm"] | arrays)
        group.answers.load(tables)
        return group


def _keeping(ranking: Ranking, algorithm: type[Algorithm], store: EventStore) -> Algorithm:
    """Return what keeps the candidates of a ranking."""
    if ranking.ties is None:
        return algorithm(store, ranking.distinct)
    return TiedPanes(store, ranking.distinct, ranking.ties, ranking.max_ties)


def _chosen(values: pa.Array, index: IntArray | None) -> pa.Array:
    return values if index is None else values.take(pa.array(index))


def _numbers(ids: pa.Array) -> IntArray:
    """Return numbers that tell the ids of a batch apart."""
    if not pa.types.is_integer(ids.type):
        ids = (ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()).indices
    return ids.cast(pa.int64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
