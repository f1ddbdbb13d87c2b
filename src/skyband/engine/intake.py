"""Intake: the stream's rows turned into the columns of one ranking, and its survivors into the arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from skyband.algorithms.base import Columns
from skyband.errors import InputError
from skyband.events.batch import EventBatch
from skyband.events.keys import Keys, is_text, move
from skyband.events.store import EventStore
from skyband.expressions import Bound, Expression
from skyband.order import BoolArray, IntArray, SlotArray, merit_of
from skyband.queries.query import Distinct, Order, Query

WARMING_UP = "warming up"
APPROXIMATE = "approximate"
_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Ranking:
    """What queries must have in common to share one staircase."""

    score: Expression
    where: Expression | None
    partition_by: Expression | None
    distinct: Distinct | None
    order: Order
    counts: bool

    @classmethod
    def of(cls, query: Query) -> Ranking:
        """Return how a query ranks."""
        return cls(
            query.score_expression, query.where_expression, query.partition_expression, query.distinct, query.order,
            query.window.counts,
        )  # fmt: skip

    def __str__(self) -> str:
        parts = [f"score {self.score} {self.order}"]
        parts += [f"where {self.where}"] if self.where else []
        parts += [f"partition by {self.partition_by}"] if self.partition_by else []
        parts += [f"distinct {self.distinct}"] if self.distinct else []
        return ", ".join([*parts, "count windows" if self.counts else "time windows"])


@dataclass
class Bounds:
    """The ranking's expressions bound to the stream's columns."""

    score: Bound
    where: Bound | None
    partition_by: Bound | None
    text_ids: bool


@dataclass
class Counts:
    """What a group has seen."""

    events: int = 0
    rejected: int = 0
    late: int = 0
    partly_late: int = 0


@dataclass
class BatchOutcome:
    """What became of the rows of one batch in one group: which passed, which were rejected, which came too late."""

    passed: BoolArray | None
    rejected: IntArray
    late: IntArray = field(default_factory=lambda: _NO_ROWS)
    partly: IntArray = field(default_factory=lambda: _NO_ROWS)
    newest: int | None = None  # the latest time of all rows, where the group looked at all of them


class Intake:
    """Evaluates a ranking over batches, and keeps the keys of its ids and partitions.

    Parameters
    ----------
    ranking
        What to evaluate.
    arena
        Where survivors go.
    select
        Columns to carry along.
    """

    def __init__(self, ranking: Ranking, arena: EventStore, select: Sequence[str]) -> None:
        self.ranking = ranking
        self.arena = arena
        self.select = tuple(select)
        self.id_keys = Keys()
        self.partitions = Keys()
        self.arrived = 0
        self.bounds: Bounds | None = None

    @property
    def text_ids(self) -> bool:
        """Whether ids are text."""
        return self.bounds is not None and self.bounds.text_ids

    def ids(self, keys: IntArray) -> IntArray | pa.Array:
        """Return the ids of keys."""
        return self.id_keys.decode(keys) if self.text_ids else keys

    def bind(self, schema: pa.Schema, id_column: str) -> None:
        """Look up the columns of the expressions; InputError where one is missing or of a wrong type."""
        missing = [name for name in self.select if name not in schema.names]
        if missing:
            msg = f"select names {', '.join(map(repr, missing))}; the stream's columns are {', '.join(schema.names)}"
            raise InputError(msg)
        ranking = self.ranking
        self.bounds = Bounds(
            ranking.score.bind(schema, "score"),
            None if ranking.where is None else ranking.where.bind(schema, "filter"),
            None if ranking.partition_by is None else ranking.partition_by.bind(schema),
            is_text(schema.field(id_column).type),
        )

    def columns(self, rows: EventBatch) -> tuple[Columns, IntArray | None, BatchOutcome]:
        """Evaluate filter and score; leave only the rows that passed and have what they need."""
        assert self.bounds is not None
        bounds, batch = self.bounds, rows.batch
        passed = None if bounds.where is None else bounds.where.mask(batch)
        score, known = bounds.score.scores(batch)
        good = _both(rows.valid, known)
        if self.ranking.counts:  # only events have arrival numbers, so NaN goes before they are given out
            good = _both(good, ~np.isnan(score))
        taken = _both(passed, good)
        rejected = _NO_ROWS if good is None else np.flatnonzero(~good if passed is None else passed & ~good)
        index = None if taken is None else np.flatnonzero(taken)
        merit, time = merit_of(score, self.ranking.order), rows.time
        if index is not None:
            merit, time = merit[index], time[index]
        if self.ranking.counts:
            position = np.arange(self.arrived, self.arrived + len(merit))
            self.arrived += len(merit)
        else:
            position = time
        part, ident = self._parts(rows, index), self._ident(rows, index)
        partitions = 1 if part is None else len(self.partitions.values) + 1
        columns = Columns(merit, time, position, part, partitions, ident, bool(self.select))
        return columns, index, BatchOutcome(passed, rejected)

    def _parts(self, rows: EventBatch, index: IntArray | None) -> IntArray | None:
        assert self.bounds is not None
        if self.bounds.partition_by is None:
            return None
        values = self.bounds.partition_by.values(rows.batch)
        part, moved = self.partitions.encode(values if index is None else values.take(pa.array(index)))
        move(self.arena.part, moved)
        return part

    def _ident(self, rows: EventBatch, index: IntArray | None) -> IntArray | None:
        if self.ranking.distinct is None:
            return None
        ids = rows.ids if index is None else rows.ids.take(pa.array(index))
        if pa.types.is_integer(ids.type):
            return ids.cast(pa.int64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
        coded = ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()
        return coded.indices.cast(pa.int64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    def store(self, columns: Columns, survivors: IntArray, rows: EventBatch, index: IntArray | None) -> SlotArray:
        """Put the rows that may matter into the arena, with their ids and what is carried along."""
        assert self.bounds is not None
        source = pa.array(survivors if index is None else index[survivors])
        ids = rows.ids.take(source)
        if self.bounds.text_ids:
            key, moved = self.id_keys.encode(ids)
            move(self.arena.key, moved)
        else:
            key = ids.cast(pa.int64()).to_numpy(zero_copy_only=False)
        payload = None
        if self.select:
            payload = pa.Table.from_batches([rows.batch.select(list(self.select)).take(source)])
        part = 0 if columns.part is None else columns.part[survivors]
        return self.arena.append(
            columns.merit[survivors], columns.time[survivors], key, part, columns.position[survivors], payload
        )

    def forget_unused(self) -> None:
        """Drop the keys of ids and partitions that the arena no longer holds."""
        if self.text_ids:
            move(self.arena.key, self.id_keys.retain(self.arena.key))
        move(self.arena.part, self.partitions.retain(self.arena.part))


def _both(a: BoolArray | None, b: BoolArray | None) -> BoolArray | None:
    if a is None or b is None:
        return a if b is None else b
    return a & b


def outcome(seen: Sequence[BatchOutcome], rows: int) -> tuple[IntArray, int, IntArray]:
    """Return the rows late for every group they concern, how many were late for some, and the rejected rows."""
    rejected = np.unique(np.concatenate([s.rejected for s in seen])) if seen else np.empty(0, np.int64)
    touched = [s for s in seen if len(s.late) or len(s.partly)]
    if not touched:
        return np.empty(0, np.int64), 0, rejected
    concerned, missed, some = (np.zeros(rows, np.int64) for _ in range(3))
    for s in seen:
        concerned += 1 if s.passed is None else s.passed
        missed[s.late] += 1
        some[s.late] += 1
        some[s.partly] += 1
    late = (missed > 0) & (missed == concerned)
    return np.flatnonzero(late), int(np.count_nonzero((some > 0) & ~late)), rejected
