"""Partials of aggregates as arrays: of each pane the objects that it has, and what is kept of them.

This is how aggregates are kept where counts, sums, maxima and minima are all that a query asks for. Distinct values,
and columns of an object's latest event, are kept as tables: `skyband.engine.partial_tables`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.compiled import workers
from skyband.engine.folds import Arrays, Fold, folds_of
from skyband.engine.intake import BatchOutcome
from skyband.engine.measures import DISTINCT, ROWS, SKETCH, adapted, final, final_types
from skyband.engine.objects import Objects
from skyband.engine.pane_kernels import add, entries, pane_runs
from skyband.engine.partial_rows import ID, PANE, PART, TIME
from skyband.engine.partials import Partials, Scored, numbers_of
from skyband.engine.sliding import Partial, SlidingWindow
from skyband.engine.snapshot import State
from skyband.events.batch import EventBatch
from skyband.events.store import retyped
from skyband.order import IntArray, SlotArray
from skyband.queries.query import Query
from skyband.windows import NEVER

FEW_OBJECTS = 1 << 12  # below, those that have vanished may keep their numbers
JOB = 1 << 17  # rows that are folded at once: they and their entries fit the processor's caches
SCORED = 1 << 16  # objects whose scores are computed at once
MOST_PARTS = 64
_RUN = 64  # rows that a run of one pane has at least, on average: else rows are sorted by pane


class PaneSums(Partials):
    """The counts, sums, maxima and minima of one query, pane by pane.

    Parameters
    ----------
    query
        A query that ranks ids by aggregates, and carries nothing else.
    """

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        self._held: dict[int, list[Partial]] = {}
        self._order: list[int] | None = None  # of the panes
        self._folds: list[Fold] = []
        self._last: list[tuple[IntArray, int]] = []  # see `entries`; one for each thread
        self._loaded: pa.Table | None = None  # what a snapshot holds, until the types of columns are known
        self._checked = 0  # how many objects there were when it was last looked for those that have vanished

    @classmethod
    def handles(cls, query: Query) -> bool:
        """Tell whether this is all that a query needs."""
        assert query.decomposition is not None
        sets = {DISTINCT, SKETCH}.intersection(one.function for one in query.decomposition.aggregates)
        return query.join is None and not query.carried and not sets

    def __len__(self) -> int:
        return sum(len(part.objects) for parts in self._held.values() for part in parts)

    # Rows in.

    def bind(self, schema: pa.Schema, id_column: str) -> None:
        """Look up the columns of the query; InputError where one is missing or of a wrong type."""
        before, folds = self.bounds, self._folds
        kept = self._table() if self._held else self._loaded
        super().bind(schema, id_column)
        assert self.bounds is not None
        self._folds = folds_of(self.measures)
        self._finals = final_types(self.decomposition.aggregates, schema)
        self._score = self.decomposition.part.bind(self._finals, "score")
        having = self.decomposition.having
        self._having = None if having is None else having.bind(self._finals, "filter")
        if before is None or (before.ids, before.parts, folds) != (self.bounds.ids, self.bounds.parts, self._folds):
            self._empty()
            if kept is not None:
                self._keep(self._retyped(kept))
                self._loaded = None

    def _retyped(self, kept: pa.Table) -> pa.Table:
        """Return partials with the types that columns have by now: they had none as long as they held nothing."""
        assert self.bounds is not None
        kept = retyped(kept, {ID: self.bounds.ids} | ({} if self.partition is None else {PART: self.bounds.parts}))
        return adapted(kept, self.measures)

    def _empty(self) -> None:
        """Begin anew, with nothing."""
        assert self.bounds is not None
        self._held, self._order, self._last, self._checked = {}, None, [], 0
        self._objects = Objects(self.bounds.ids, None if self.partition is None else self.bounds.parts)
        self._sliding = self._window()

    def _window(self) -> SlidingWindow:
        length = 0 if self.windows.grows else self.panes.behind(0) - self.panes.first(0)
        return SlidingWindow(self._folds, length, self._between, self._pane)

    def push(self, rows: EventBatch) -> BatchOutcome:
        """Take in one batch."""
        assert self.bounds is not None
        if self.bounds.key is not None:
            rows = rows.by(self.bounds.key.values(rows.batch).cast(self.bounds.ids), nulls=True)
        seen = self.evaluator.evaluate(rows.batch, rows.valid)
        chosen = seen.taken
        time = rows.time if chosen is None else rows.time[chosen]
        runs = self._runs(self.positions(time))
        late = partly = np.empty(0, np.int64)
        if len(runs.panes) and runs.panes.min() < self.partly_before:
            pane = runs.pane_of_rows()
            missed, some = pane < self._late_pane, pane < self.partly_before
            chosen = np.arange(rows.batch.num_rows) if chosen is None else chosen
            late, partly, chosen = chosen[missed], chosen[some & ~missed], chosen[~missed]
            time = rows.time[chosen]
            runs = self._runs(self.positions(time))
        self.counts.late += len(late)
        self.counts.partly_late += len(partly)
        self.counts.rejected += len(seen.rejected)
        if len(time):
            self._take(rows, chosen, time, runs)
        return BatchOutcome(seen.passed, seen.rejected, late, partly)

    @property
    def _late_pane(self) -> int:
        return int(self.panes.of(np.array([self.late_before]))[0])

    def _runs(self, position: IntArray) -> _Runs:
        """Return where the rows of each pane are."""
        grid = self.windows
        most = max(len(position) // _RUN, 1 << 10)
        starts, panes = np.empty(most, np.int64), np.empty(most, np.int64)
        count = pane_runs(position, grid.phase, grid.slide, self.panes.rest, starts, panes)
        if count >= 0:
            return _Runs(np.append(starts[:count], len(position)), panes[:count])
        return _Runs.by(self.panes.of(position))

    def _take(self, rows: EventBatch, chosen: IntArray | None, time: IntArray, runs: _Runs) -> None:
        """Fold rows."""
        assert self.bounds is not None
        batch, ids = rows.batch, rows.ids
        if chosen is not None:
            places = pa.array(chosen)
            batch, ids = batch.take(places), ids.take(places)
        partitions = None if self.bounds.partition is None else self.bounds.partition.values(batch)
        numbers = self._numbers(ids, partitions)
        arguments = [self.bounds.arguments[fold.measures[0].name] for fold in self._folds]
        values = [fold.measures[0].numbers(bound, batch) for fold, bound in zip(self._folds, arguments, strict=True)]
        extremes = [runs.row(int(run)) for run in (runs.panes.argmin(), runs.panes.argmax())]
        low, high = self.positions(time[extremes]).tolist()  # all times of a pane are in the same windows
        self._note(low, high, len(time))

        def job(part: _Runs) -> tuple[Partial, IntArray]:
            def take(at: SlotArray, into: Sequence[Arrays]) -> None:
                for fold, array, arrays in zip(self._folds, values, into, strict=True):
                    fold.take(at, array[part.rows], arrays)

            return self._folded(numbers[part.rows], time[part.rows], part, take)

        parts = runs.split(JOB)
        made = map(job, parts) if len(parts) == 1 else workers().map(job, parts)
        for part, (partial, ends) in zip(parts, made, strict=True):
            for pane, (low, high) in zip(part.panes.tolist(), pairwise([0, *ends.tolist()]), strict=True):
                self._hold(pane, partial.part(low, high))

    def _numbers(self, ids: pa.Array, partitions: pa.Array | None) -> SlotArray:
        """Return the numbers of the objects of rows."""
        assert self.bounds is not None
        self._forget_objects()
        parts = None if partitions is None else partitions.cast(self.bounds.parts)
        return self._objects.numbers(ids.cast(self.bounds.ids), parts)

    def _folded(
        self, numbers: SlotArray, time: IntArray, runs: _Runs, take: Callable[[SlotArray, Sequence[Arrays]], None]
    ) -> tuple[Partial, IntArray]:  # fmt: skip
        """Return the entries of rows, run by run, and where those of each run end; `take` folds the values."""
        try:
            last, base = self._last.pop()
        except IndexError:
            last, base = np.empty(0, np.int64), 0
        if len(last) < len(self._objects):
            last = np.concatenate([last, np.full(2 * len(self._objects) - len(last), -1, np.int64)])
        count = len(numbers)
        at, objects = np.empty(count, np.int32), np.empty(count, np.int32)
        kept, latest, ends = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(len(runs.panes), np.int64)
        found = entries(numbers, runs.starts, time, last, base, at, objects, kept, latest, ends)
        self._last.append((last, base + found))
        into = [fold.nothing(found) for fold in self._folds]
        take(at, into)
        fit = slice(found) if 2 * found > count else np.arange(found)  # a slice would hold on to the rest
        return Partial(objects[fit], kept[fit], latest[fit], into), ends

    def _keep(self, partials: pa.Table) -> None:
        numbers = self._numbers(
            partials[ID].combine_chunks(), partials[PART].combine_chunks() if PART in partials.column_names else None
        )
        runs = _Runs.by(partials[PANE].to_numpy())
        order = runs.rows
        folds = [tuple(partials[name].to_numpy()[order] for name in fold.names) for fold in self._folds]
        whole = Partial(numbers[order], partials[ROWS].to_numpy()[order], partials[TIME].to_numpy()[order], folds)
        for pane, (low, high) in zip(runs.panes.tolist(), pairwise(runs.starts.tolist()), strict=True):
            self._hold(pane, whole.part(low, high))

    def _hold(self, pane: int, partial: Partial) -> None:
        parts = self._held.setdefault(pane, [])
        if not parts:
            self._order = None
        parts.append(partial)
        self._sliding.touch(pane)
        if len(parts) > MOST_PARTS:
            self._pane(pane)

    # Panes.

    def _between(self, first: int, behind: int) -> list[int]:
        """Return the panes that there are from one to another."""
        if self._order is None:
            self._order = sorted(self._held)
        return self._order[bisect_left(self._order, first) : bisect_left(self._order, behind)]

    def _pane(self, pane: int) -> Partial:
        """Return a pane, each of its objects once."""
        parts = self._held[pane]
        if len(parts) > 1:
            self._held[pane] = [self._together(parts)]
        return self._held[pane][0]

    def _together(self, parts: Sequence[Partial]) -> Partial:
        """Return partials of several parts as one; they are folded in their order."""
        numbers, latest = (np.concatenate([part[column] for part in parts]) for column in (0, 2))
        kept = [part.folds for part in parts]
        arrays = [tuple(map(np.concatenate, zip(*one, strict=True))) for one in zip(*kept, strict=True)]
        rows = np.concatenate([part.rows for part in parts])
        total: list[IntArray] = []

        def take(at: SlotArray, into: Sequence[Arrays]) -> None:
            for fold, more, one in zip(self._folds, arrays, into, strict=True):
                fold.merge(at, more, one)
            total.append(np.zeros(len(rows), np.int64))
            add(at, rows, total[0])

        found, _ = self._folded(numbers, latest, _Runs.one(len(numbers)), take)
        return found._replace(rows=total[0][: len(found.objects)])

    def _forget(self, window: int) -> None:
        """Forget what windows after this one do not need."""
        first, behind = self.panes.first(window), self.panes.behind(window)
        following = self.panes.first(window + 1)
        if self.windows.grows and following == first and len(grown := self._between(first, behind)) > 1:
            # All of them are in all windows that this one grows to.
            self._held[first] = [self._together([part for pane in grown for part in self._held[pane]])]
            self._drop([pane for pane in grown if pane != first])
            return
        self._sliding.leave(following)
        self._drop(self._between(NEVER, following))

    def _drop(self, panes: Sequence[int]) -> None:
        for pane in panes:
            del self._held[pane]
        self._order = None

    # Objects out.

    def scored(self, ends: Sequence[int]) -> Iterator[Scored]:
        """Yield the objects of windows that end there, in this order, and forget what no later window needs."""
        for found, unfit in self._scored(ends, self._sliding, closing=True) if ends else ():
            self.counts.rejected += unfit
            self._unfit += unfit
            yield found

    def peek(self, ends: Sequence[int]) -> Iterator[Scored]:
        """Yield the objects so far of windows that are still open."""
        return (found for found, _ in self._scored(ends, self._window(), closing=False))

    def _scored(
        self, ends: Sequence[int], sliding: SlidingWindow, *, closing: bool
    ) -> Iterator[tuple[Scored, int]]:  # fmt: skip
        """Yield the objects of windows, of so many at once that computing their scores is worth while."""
        seen: list[_Seen] = []
        for place, end in enumerate(ends, 1):
            window = self.windows.ending(end)
            sliding.move(self.panes.first(window), self.panes.behind(window), len(self._objects))
            objects = np.flatnonzero(sliding.rows)
            kept = {ROWS: sliding.rows[objects]} | sliding.kept(objects)
            seen.append(_Seen(objects, sliding.latest[objects], kept))
            if closing:
                self._forget(window)
            if place == len(ends) or sum(len(one.objects) for one in seen) >= SCORED:
                yield self._with_scores(seen)
                seen = []

    def _with_scores(self, seen: Sequence[_Seen]) -> tuple[Scored, int]:
        """Return objects with their scores, and how many have none for an integer sum that does not fit 64 bits."""
        edges = np.cumsum([0, *(len(one.objects) for one in seen)])
        objects, latest = (np.concatenate([one[column] for one in seen]) for column in (0, 1))
        kept = {name: np.concatenate([one.kept[name] for one in seen]) for name in seen[0].kept}
        parts = self.decomposition
        values = {str(one): final(one, kept, self.measures) for one in parts.aggregates}
        batch = pa.record_batch({name: column for name, (column, _) in values.items()})
        score = numbers_of(self._score, batch)
        outside = [mask for name, (_, mask) in values.items() if mask is not None and name in parts.part.columns]
        unfit = int(np.count_nonzero(np.logical_or.reduce(outside) & np.isnan(score))) if outside else 0
        if self._having is not None:
            chosen = self._having.mask(batch)
            edges = np.append(0, np.cumsum(chosen))[edges]
            objects, latest, score, batch = objects[chosen], latest[chosen], score[chosen], batch.filter(chosen)

        def pick(rows: IntArray) -> tuple[pa.Array, pa.Array | None, pa.Table | None]:
            mine = objects[rows]
            shown = batch.take(pa.array(rows)) if self.query.columns else None
            return (
                self._objects.ids(mine),
                None if self.partition is None else self._objects.partitions(mine),
                None if shown is None else pa.table({one.name: one.values(shown) for one in parts.outputs}),
            )

        return Scored(edges, score, latest, self._objects.partition_ranks(objects), [""] * len(seen), pick), unfit

    # What has vanished.

    def _forget_objects(self) -> None:
        """Give the numbers of objects that are in no pane any more to others, once these are most of them."""
        count = len(self._objects)
        if count < max(FEW_OBJECTS, 2 * self._checked):
            return
        alive = np.zeros(count, bool)
        for part in (part for parts in self._held.values() for part in parts):
            alive[part.objects] = True
        kept = np.flatnonzero(alive)
        self._checked = count
        if 2 * len(kept) > count:
            return
        number = np.full(count, -1, np.int32)
        number[kept] = self._objects.keep(kept)
        self._held = {
            pane: [part._replace(objects=number[part.objects]) for part in parts] for pane, parts in self._held.items()
        }
        self._last, self._checked = [], len(kept)
        self._sliding.reset()

    # Snapshots.

    def _table(self) -> pa.Table:
        """Return all partials as a table."""
        panes = sorted(self._held)  # of all time with the shortest slide, their numbers are larger than any time
        parts = [self._pane(pane) for pane in panes]
        numbers = np.concatenate([part.objects for part in parts])
        columns: dict[str, Any] = {PANE: np.repeat(panes, [len(part.objects) for part in parts])}
        columns |= {} if self.partition is None else {PART: self._objects.partitions(numbers)}
        columns |= {ID: self._objects.ids(numbers)}
        columns |= {name: np.concatenate([part[column] for part in parts]) for name, column in ((TIME, 2), (ROWS, 1))}
        for place, fold in enumerate(self._folds):
            arrays = zip(*(part.folds[place] for part in parts), strict=True)
            columns |= dict(zip(fold.names, map(np.concatenate, arrays), strict=True))
        return pa.table(columns)

    def state(self) -> State:
        """Return everything as plain values and tables."""
        meta, tables = super().state()
        kept = self._table() if self._held else self._loaded
        return meta, tables | ({} if kept is None else {"partials": kept})

    def load(self, state: State) -> None:
        """Take over what `state` returned, of the same query; what is kept, once it is bound."""
        super().load(state)
        self._loaded = state[1].get("partials")


class _Seen(NamedTuple):
    """The objects of one window, when each was seen last, and what is kept of them."""

    objects: IntArray
    latest: IntArray
    kept: dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class _Runs:
    """Rows pane by pane: run r begins at ``starts[r]`` of `rows`, and is of ``panes[r]``."""

    starts: IntArray
    panes: IntArray
    rows: slice | IntArray = field(default_factory=lambda: slice(None))

    @classmethod
    def by(cls, pane: IntArray) -> Self:
        """Sort rows by their panes; those of a pane stay in their order."""
        if not len(pane):
            return cls(np.zeros(1, np.int64), pane)
        since = pane - pane.min()
        short = since.astype(np.uint16) if since.max() < 1 << 16 else since  # these are sorted digit by digit
        order = np.argsort(short, kind="stable")
        ranked = pane[order]
        starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
        return cls(np.append(starts, len(pane)), ranked[starts], order)

    @classmethod
    def one(cls, rows: int) -> Self:
        """Take all rows for those of one pane."""
        return cls(np.array([0, rows]), np.zeros(1, np.int64))

    def row(self, run: int) -> int:
        """Return the first row of a run."""
        start = int(self.starts[run])
        return start if isinstance(self.rows, slice) else int(self.rows[start])

    def pane_of_rows(self) -> IntArray:
        """Return the pane of each row."""
        panes = np.repeat(self.panes, np.diff(self.starts))
        if isinstance(self.rows, slice):
            return panes
        found = np.empty_like(panes)
        found[self.rows] = panes
        return found

    def split(self, size: int) -> list[_Runs]:
        """Return runs in parts of at least so many rows each, but for the last."""
        edges = [0]
        for run, start in enumerate(self.starts.tolist()):
            if start - self.starts[edges[-1]] >= size:
                edges.append(run)
        edges += [len(self.panes)] if edges[-1] < len(self.panes) else []
        return [self._part(*runs) for runs in pairwise(edges)]

    def _part(self, first: int, behind: int) -> _Runs:
        low, high = int(self.starts[first]), int(self.starts[behind])
        rows = slice(low, high) if isinstance(self.rows, slice) else self.rows[low:high]
        return _Runs(self.starts[first : behind + 1] - low, self.panes[first:behind], rows)
