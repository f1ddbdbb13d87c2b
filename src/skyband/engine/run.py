"""Local runs: any source of columns or rows in, answers out, no engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from skyband.answers.answer import Answer, Answers
from skyband.engine.intake import MOST_ROWS, Sink
from skyband.engine.monitor import Monitor
from skyband.errors import InputError, QueryError
from skyband.events.batch import TimeUnit, as_batches
from skyband.queries.query import Query
from skyband.times import Duration, not_negative
from skyband.windows import watermark_of

WATERMARKED_ROWS = 1 << 20
MOST_ANSWER_ROWS = 1 << 22


class Run:
    """A bounded run: iterate it for answers, or take them as tables.

    The input is read as the answers are asked for. A run can be walked once.
    """

    def __init__(
        self,
        monitor: Monitor,
        batches: Iterator[pa.RecordBatch],
        delay: int | None,
        not_after: int | datetime | None = None,
    ) -> None:
        self.monitor = monitor
        self._batches = batches
        self._delay = delay
        self._not_after = not_after

    def __iter__(self) -> Iterator[Answer]:
        for answers in self.parts():
            yield from answers

    def parts(self) -> Iterator[Answers]:
        """Yield answers as columns, after each batch that gave any and at the end."""
        for batch in self._batches:
            pushed = self.monitor.push(batch, not_after=self._not_after)
            closed = self.monitor.advance(watermark_of(self.monitor.newest, self._delay))
            yield from (part for part in (pushed, closed) if len(part))
        last = self.monitor.finish()
        if len(last):
            yield last

    def table(self) -> pa.Table:
        """Return all answers as one table; see `Answers.table`."""
        tables = [part.table() for part in self.parts()]
        return pa.concat_tables(tables, promote_options="permissive") if tables else Answers().table()

    def to_pandas(self) -> Any:
        """Return all answers as a pandas DataFrame."""
        return self.table().to_pandas()


def run(
    queries: Query | Sequence[Query],
    source: Any,
    *,
    time: str,
    id: str,  # noqa: A002 - the word for it
    watermark: Duration | None = None,
    algorithm: str = "staircase",
    time_unit: TimeUnit | None = None,
    batch_rows: int | None = None,
    on_late: Sink | None = None,
    on_rejected: Sink | None = None,
    services: Mapping[str, Any] | None = None,
    not_after: int | datetime | None = None,
) -> Run:
    """Answer queries over a bounded source.

    Parameters
    ----------
    queries
        One or several.
    source
        An Arrow table or record-batch reader, a pandas or Polars frame, a dict of columns, or an iterable of
        batches or of dicts (one event each).
    time, id
        The columns of event times and ids.
    watermark
        How late events may come: windows are answered when event time has gone so far beyond them. Left out, all
        windows wait for the end of the input, and the order of the rows does not matter.
    algorithm
        Which algorithm keeps the candidates, perhaps with options, as in ``"pa(error=1e-4)"``.
    time_unit
        The unit of times that are whole numbers; microseconds when left out.
    batch_rows
        How many rows to take in at once at most. Fewer give earlier answers, more are faster; the answers are the
        same.
    on_late, on_rejected
        Called with the rows that missed all their windows, and with those that lack a score, a time or an id.
    services
        What joined queries join with, by name: a `skyband.Remote`, a service, or a function from ids to values.
    not_after
        Rows with a later time are rejected, so that one impossible time cannot end all windows.

    Examples
    --------
    >>> import skyband as sb
    >>> trades = {"ts": [0, 5, 9, 12], "symbol": ["A", "B", "C", "A"], "price": [3.0, 8.0, 5.0, 1.0]}
    >>> q = sb.Query("dearest", k=2, score="price", window=sb.Window(10))
    >>> for answer in sb.run(q, trades, time="ts", id="symbol"):
    ...     print(answer.start, answer.end, [(row.rank, row.id, row.score) for row in answer.rows])
    0 10 [(1, 'B', 8.0), (2, 'C', 5.0)]
    10 20 [(1, 'A', 1.0)]
    """
    chosen = [queries] if isinstance(queries, Query) else list(queries)
    if not chosen:
        msg = "no query was given; give at least one"
        raise QueryError(msg)
    delay = not_negative(watermark, "watermark")
    monitor = Monitor(
        chosen,
        algorithm=algorithm,
        time=time,
        id=id,
        time_unit=time_unit,
        on_late=on_late,
        on_rejected=on_rejected,
        services=services,
    )
    rows = batch_rows or (MOST_ROWS if delay is None else WATERMARKED_ROWS)
    if rows < 0:
        msg = f"batch_rows is {batch_rows}; it must be at least 1"
        raise InputError(msg)
    return Run(monitor, iter(as_batches(source, _batch_rows(chosen, rows))), delay, not_after)


def _batch_rows(queries: Sequence[Query], rows: int) -> int:
    """Return how many rows to push at once so that the answers of count windows fit into memory."""
    per_row = sum(query.most_rows / query.window.slide for query in queries if query.window.counts)
    return max(1, min(rows, int(MOST_ANSWER_ROWS / per_row))) if per_row else rows
