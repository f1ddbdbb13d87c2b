"""Subscriptions: executors leave out the events that cannot be among anybody's best; the driver takes in the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.algorithms.topkw.block_kernels import mark_candidates
from skyband.engine.subscription_group import SubscriptionGroup
from skyband.engine.subscriptions import Subscriptions
from skyband.events.ahead import ahead_time
from skyband.events.batch import StreamColumns
from skyband.order import BoolArray
from skyband.spark import columns
from skyband.spark.reducers.base import BatchProgress, Prefilter
from skyband.windows import NEVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEPTH = 4  # so many times k of a row are looked at: some of them may have left the window


def in_order(rows: pa.Table, source: StreamColumns) -> pa.Array:
    """Return the rows' places in the order in which they are taken in: by time, id, and their other columns.

    Examples
    --------
    >>> in_order(pa.table({"t": [2, 1, 1], "id": ["a", "b", "a"]}), StreamColumns("t", "id")).to_pylist()
    [2, 1, 0]
    """
    rest = [f.name for f in rows.schema if not pa.types.is_nested(f.type) and f.name not in (source.time, source.id)]
    return pc.sort_indices(rows, [(name, "ascending") for name in (source.time, source.id, *rest)])


class Shortlist(NamedTuple):
    """What tasks need of a subscription group: its scoring functions, and the costs of each subscription's best."""

    group: SubscriptionGroup
    longest: int
    functions: tuple[Any, ...]
    queries: tuple[Any, ...]
    best: tuple[Any, ...]


class SubscriptionPrefilter(Prefilter):
    """Finds the rows of a task that may still matter to subscriptions.

    A row that is left out is at no moment among the best of anybody: when it comes, k others dominate it, and when
    these begin to leave, k later rows of its batch do.

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
        super().__init__(subscriptions.source, not_after)
        self.newest = subscriptions.newest
        groups = subscriptions.groups
        unbounded = any(kind.counts or group.engine is None for kind, group in groups.items())
        self.pass_all = unbounded or bool(subscriptions.waiting)
        self.shortlists = [] if self.pass_all else [_shortlist(group) for group in groups.values()]

    def mask(self, batch: pa.RecordBatch) -> BoolArray:
        """Return which rows may matter."""
        if self.pass_all:
            return np.ones(batch.num_rows, bool)
        rows, kept = self.always(batch)
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


def reduce(df: DataFrame, target: Subscriptions, progress: BatchProgress) -> None:
    """Take into subscriptions what executors leave of a batch, in order of time and id."""
    limit = progress.not_after
    prefilter = SubscriptionPrefilter(target, limit)
    progress.scans += 1
    with progress.phase("scan"):
        table = columns.collected(df if prefilter.pass_all else df.mapInArrow(prefilter, df.schema))
        table = table.take(in_order(table, target.source))
    progress.candidate_rows = table.num_rows
    with progress.phase("push"):
        progress.answers.append(target.push(table, not_after=limit))
    progress.ahead_at = None if limit is None else ahead_time(table, target.source, limit)


def _shortlist(group: SubscriptionGroup) -> Shortlist:
    engine = group.engine
    assert engine is not None
    band, used = engine.band, engine.used
    deep = min(DEPTH * int(engine.k[used].max(initial=1)), band.cost.shape[1])
    best = (band.cost[used, :deep].copy(), band.position[used, :deep].copy(), np.minimum(band.size[used], deep))
    bare = SubscriptionGroup(group.kind, group.algorithm, ())
    bare.conditions = group.conditions
    return Shortlist(bare, int(engine.size[used].max(initial=0)), engine.functions(), engine.queries(), best)
