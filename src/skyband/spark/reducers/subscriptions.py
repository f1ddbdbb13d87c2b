"""Which events of a batch any subscription may still want: for those who read the stream elsewhere, in parts.

Holds a copy of what is needed to tell, small enough to be sent around, and of no use for anything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.algorithms.topkw.prefilter_kernels import mark_candidates
from skyband.engine.subscription_group import SubscriptionGroup
from skyband.engine.subscriptions import Subscriptions
from skyband.events.ahead import ahead_time
from skyband.events.batch import EventBatch, StreamColumns
from skyband.order import BoolArray
from skyband.spark import columns
from skyband.spark.reducers.base import BatchProgress
from skyband.windows import NEVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEPTH = 4  # so many times k of a row are looked at: some of them may have left the window


def in_order(rows: pa.Table, source: StreamColumns) -> pa.Array:
    """Return the rows' places in the order in which they are taken in: by time, id, and whatever tells them apart.

    Examples
    --------
    >>> in_order(pa.table({"t": [2, 1, 1], "id": ["a", "b", "a"]}), StreamColumns("t", "id")).to_pylist()
    [2, 1, 0]
    """
    rest = [f.name for f in rows.schema if not pa.types.is_nested(f.type) and f.name not in (source.time, source.id)]
    return pc.sort_indices(rows, [(name, "ascending") for name in (source.time, source.id, *rest)])


class Shortlist(NamedTuple):
    """What the subscriptions of a group look at, and the costs of their best."""

    group: SubscriptionGroup
    longest: int
    functions: tuple[Any, ...]
    queries: tuple[Any, ...]
    best: tuple[Any, ...]


class SubscriptionPrefilter:
    """Tells which rows of a batch may still matter to subscriptions, as they were when this was made.

    A row that is left out is at no moment among the best of anybody: when it comes, k others dominate it, and when
    these begin to leave, k later rows of its batch do. Rows that lack something, or come late, are let through to be
    counted, and the latest so that time passes.

    Parameters
    ----------
    subscriptions
        Whose.
    not_after
        Rows with a later time are let through to be counted, and nothing else.

    Examples
    --------
    >>> import skyband as sb
    >>> near = sb.Subscription("near", k=1, score=sb.Distance({"x": 0.0}), last=100)
    >>> following = sb.Subscriptions([near], time="t", id="t")
    >>> _ = following.push({"t": [1], "x": [3.0]})
    >>> SubscriptionPrefilter(following).mask(pa.record_batch({"t": [2, 3, 4], "x": [5.0, 2.0, 4.0]})).tolist()
    [False, True, True]
    """

    def __init__(self, subscriptions: Subscriptions, not_after: int | None = None) -> None:
        self.not_after = not_after
        self.source: StreamColumns = subscriptions.source
        self.newest = subscriptions.newest
        self.counted = any(kind.counts for kind in subscriptions.groups)
        self.everything = self.counted or any(c.engine is None for c in subscriptions.groups.values())
        self.everything |= bool(subscriptions.waiting)
        self.shortlists = [] if self.everything else [_shortlist(c) for c in subscriptions.groups.values()]

    def mask(self, batch: pa.RecordBatch) -> BoolArray:
        """Return which rows may matter."""
        if self.everything:
            return np.ones(batch.num_rows, bool)
        rows = EventBatch(batch, self.source, self.not_after)
        kept = np.zeros(batch.num_rows, bool) if rows.valid is None else ~rows.valid
        if len(kept):
            kept[np.argmax(np.where(kept, NEVER, rows.time))] = True
            order = in_order(pa.Table.from_batches([batch]), self.source).to_numpy()
        for group, longest, functions, queries, best in self.shortlists:
            group.bind(batch.schema, self.source)
            taken, x, rejected = group.columns(rows)
            kept[rejected] = True
            if self.newest != NEVER:
                kept |= rows.time <= self.newest - longest
            if len(taken):
                place = np.full(batch.num_rows, -1)
                place[taken] = np.arange(len(taken))
                coming = place[order][place[order] >= 0]
                marked = np.zeros(len(taken), bool)
                values = (np.ascontiguousarray(x[coming]), rows.time[taken][coming])
                mark_candidates(functions, queries, *best, self.newest, *values, marked)
                kept[taken[coming[marked]]] = True
        return kept


class SubscriptionReducer:
    """Takes batches into subscriptions: executors leave out what nobody can want, the rest comes in order."""

    def reduce(self, df: DataFrame, target: Subscriptions, progress: BatchProgress) -> BatchProgress:
        """Take a batch in, in order of time and id."""
        prefilter, limit = SubscriptionPrefilter(target, progress.not_after), progress.not_after

        def leave_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.filter(pa.array(prefilter.mask(batch.cast(columns.in_utc(batch.schema)))))

        progress.scans += 1
        with progress.phase("scan"):
            table = (df if prefilter.everything else df.mapInArrow(leave_out, df.schema)).toArrow()
            table = table.cast(columns.in_utc(table.schema))
            table = table.take(in_order(table, target.source))
        progress.candidate_rows = table.num_rows
        before = target.stats().ahead
        with progress.phase("push"):
            progress.answers.append(target.push(table, not_after=limit))
        progress.ahead = target.stats().ahead - before
        progress.ahead_at = None if limit is None else ahead_time(table, target.source, limit)
        return progress


def _shortlist(group: SubscriptionGroup) -> Shortlist:
    engine = group.engine
    assert engine is not None
    cost, position, size = engine.band.cost, engine.band.position, engine.band.size
    deep = min(DEPTH * int(engine.k[engine.used].max(initial=1)), cost.shape[1])
    used = engine.used
    best = (cost[used, :deep].copy(), position[used, :deep].copy(), np.minimum(size[used], deep))
    bare = SubscriptionGroup(group.kind, group.algorithm, ())
    bare.conditions = group.conditions
    queries = engine.queries()
    return Shortlist(bare, int(engine.size[used].max(initial=0)), engine.functions(), queries, best)
