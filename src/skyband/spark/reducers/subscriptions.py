"""Which events of a batch any subscription may still want: for those who read the stream elsewhere, in parts.

Holds a copy of what is needed to tell, small enough to be sent around, and of no use for anything else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.algorithms.topkw.prefilter_kernels import mark_survivors
from skyband.engine.subscription_group import SubscriptionGroup
from skyband.engine.subscriptions import Subscriptions
from skyband.events.batch import EventBatch, StreamColumns
from skyband.order import BoolArray
from skyband.windows import NEVER

DEPTH = 4  # so many times k of a row are looked at: some of them may have left the window


class Shortlist(NamedTuple):
    """What the subscriptions of a circle look at, and the costs of their best."""

    circle: SubscriptionGroup
    longest: int
    functions: tuple[Any, ...]
    queries: tuple[Any, ...]
    best: tuple[Any, ...]


class SubscriptionPrefilter:
    """Tells which rows of a batch may still matter to subscriptions, as they were when this was made.

    A row that is left out can neither be among the best of anybody when it comes, nor later: k later rows of its batch
    beat it. Rows that lack something, or come late, are let through to be counted.

    Parameters
    ----------
    subscriptions
        Whose.

    Examples
    --------
    >>> import skyband as sb
    >>> near = sb.Subscription("near", k=1, score=sb.Distance({"x": 0.0}), last=100)
    >>> following = sb.Subscriptions([near], time="t", id="t")
    >>> _ = following.push({"t": [1], "x": [3.0]})
    >>> SubscriptionPrefilter(following).mask(pa.record_batch({"t": [2, 3, 4], "x": [5.0, 2.0, 4.0]})).tolist()
    [False, True, True]
    """

    def __init__(self, subscriptions: Subscriptions) -> None:
        self.source: StreamColumns = subscriptions.source
        self.newest = subscriptions.newest
        self.counted = any(kind.counts for kind in subscriptions.circles)
        self.everything = self.counted or any(c.engine is None for c in subscriptions.circles.values())
        self.everything |= bool(subscriptions.waiting or subscriptions.ends)
        self.shortlists = [] if self.everything else [_shortlist(c) for c in subscriptions.circles.values()]

    def mask(self, batch: pa.RecordBatch) -> BoolArray:
        """Return which rows may matter."""
        if self.everything:
            return np.ones(batch.num_rows, bool)
        rows = EventBatch(batch, self.source)
        kept = np.zeros(batch.num_rows, bool) if rows.valid is None else ~rows.valid
        for circle, longest, functions, queries, best in self.shortlists:
            circle.bind(batch.schema, self.source.id)
            taken, x, rejected = circle.columns(rows)
            kept[rejected] = True
            if self.newest != NEVER:
                kept |= rows.time <= self.newest - longest
            if len(taken):
                order = np.argsort(rows.time[taken], kind="stable")
                marked = np.zeros(len(taken), bool)
                columns = (np.ascontiguousarray(x[order]), rows.time[taken][order])
                mark_survivors(functions, queries, *best, *columns, marked)
                kept[taken[order[marked]]] = True
        return kept


def _shortlist(circle: SubscriptionGroup) -> Shortlist:
    engine = circle.engine
    assert engine is not None
    cost, position, _, _, size = engine.band[:5]
    deep = min(DEPTH * int(engine.k[engine.used].max(initial=1)), cost.shape[1])
    used = engine.used
    best = (cost[used, :deep].copy(), position[used, :deep].copy(), np.minimum(size[used], deep))
    bare = SubscriptionGroup(circle.kind, circle.algorithm, ())
    queries = (used, engine.k, engine.size, engine.since)
    return Shortlist(bare, int(engine.size[used].max(initial=0)), engine.functions(), queries, best)
