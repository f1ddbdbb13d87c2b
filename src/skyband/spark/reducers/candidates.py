"""Rows of a batch that any ranking may answer with, found by the core: for more rankings than one filter can hold.

Spark compiles the thresholds of all rankings into one filter, and the code it makes grows with each of them. Beyond
`MOST_FILTERED` rankings each task runs the core instead: it evaluates every filter and score over whole columns, keeps
the best K of each pane and partition of the rows that it reads, and sends only these. No threshold is guessed, so one
pass is enough.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from skyband.engine.intake import Ranking
from skyband.engine.monitor import Monitor
from skyband.errors import SkybandError
from skyband.events.batch import StreamColumns
from skyband.expressions.bind import find_column
from skyband.order import BoolArray
from skyband.spark import columns
from skyband.spark.reducers.base import Prefilter

MOST_FILTERED = 20
"""So many rankings at most are compared with thresholds in Spark's own filter."""
ROWS_AT_ONCE = 1 << 18


def used(source: StreamColumns, schema: pa.Schema, monitor: Monitor) -> list[str]:
    """Return the columns that the core needs of a stream to evaluate all rankings by itself."""
    plans = monitor.ranking_plans()
    outputs = [output for plan in plans for output in plan.outputs]
    expressions = columns.expressions_of((plan.ranking for plan in plans), outputs)
    named = [find_column(name, schema).name for e in expressions for name in e.columns]
    return list(dict.fromkeys([source.time, source.id, *named]))


class RankingPrefilter(Prefilter):
    """Finds the rows of a task that may matter to any ranking of a monitor.

    A row that is left out is never in an answer: K others of its task, pane and partition are better.

    Examples
    --------
    >>> import skyband as sb
    >>> top = sb.Query("top", k=1, score="x", window=sb.Window(10))
    >>> prefilter = RankingPrefilter(sb.Monitor([top], time="t", id="t"))
    >>> prefilter.mask(pa.record_batch({"t": [1, 2, 3, 11, 12], "x": [4.0, 5.0, 3.0, None, 1.0]})).tolist()
    [False, True, False, True, True]
    """

    def __init__(self, monitor: Monitor, not_after: int | None = None) -> None:
        super().__init__(monitor.source, not_after)
        self.rankings = [(plan.ranking, plan.emptied()) for plan in monitor.ranking_plans()]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Leave out of a task's rows what cannot matter, many rows at once."""
        return super().__call__(gathered(batches, ROWS_AT_ONCE))

    def mask(self, batch: pa.RecordBatch) -> BoolArray:
        """Return which rows of the next piece may matter."""
        rows, kept = self.always(batch)
        for ranking, part in self.rankings:
            try:
                found = None if part is None else part.candidates(rows)
            except SkybandError:  # the monitor will meet it too, and say which query is to blame
                found = None
            kept[_passing(ranking, batch) if found is None else found] = True
        return kept


def _passing(ranking: Ranking, batch: pa.RecordBatch) -> BoolArray:
    """Return which rows pass a ranking's filter."""
    if ranking.where is None:
        return np.ones(batch.num_rows, bool)
    return ranking.where.bind(batch.schema, "filter").mask(batch)


def gathered(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Put small batches together: what the core does for a batch costs the same for one row and for many."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(part.num_rows for part in held) >= most:
            yield pa.concat_batches(held)
            held = []
    if held:
        yield pa.concat_batches(held)
