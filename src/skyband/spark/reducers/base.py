"""What all reducers have in common: executors reduce a batch, the driver merges what is left of it.

A reducer takes batches into a monitor, or into subscriptions: all that any window still to be answered needs of them.
"""

from __future__ import annotations

import time as clock
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.events.batch import EventBatch, StreamColumns
from skyband.order import BoolArray
from skyband.spark.columns import in_utc
from skyband.windows import NEVER


@dataclass
class BatchProgress:
    """What one batch took: scans of it, rows that came back, thresholds guessed, panes read again.

    `contests` counts in how many groups Spark chose the best of each pane, since their scores were too equal;
    `discarded` the rows that came before it was known that too many would. `reduced_by` says who left rows out: the
    "filter" that Spark compiled, or the "core", run by each task; None where all rows come.
    """

    not_after: int | None = None  # rows with a later time are rejected
    scans: int = 0
    candidate_rows: int = 0
    discarded: int = 0
    input_rows: int | None = None  # of the batch; None where nobody counted them
    ahead: int = 0  # rows that are later than they may be
    ahead_at: int | None = None  # the time of such a row
    contests: int = 0
    reduced_by: str | None = None
    guessed_thresholds: int = 0
    rereads: int = 0
    durations: dict[str, float] = field(default_factory=dict)  # in seconds, by phase
    answers: list[Any] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)
    began: float = field(default_factory=clock.perf_counter)

    @property
    def rows(self) -> pa.Table:
        """All rows that came back."""
        return pa.concat_tables(self.tables)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a phase."""
        began = clock.perf_counter()
        try:
            yield
        finally:
            self.durations[name] = self.durations.get(name, 0.0) + clock.perf_counter() - began

    def milliseconds(self) -> dict[str, int]:
        """Return how long each phase took, and the whole batch so far, as Spark's progress has it."""
        found = self.durations | {"total": clock.perf_counter() - self.began}
        return {name: round(1_000 * seconds) for name, seconds in found.items()}


class Prefilter(ABC):
    """Finds the rows of a task that may matter, as things were when this was made.

    Rows that lack something, come late, or are later than `not_after` pass to be counted. The latest row passes so
    that time does.
    """

    def __init__(self, source: StreamColumns, not_after: int | None) -> None:
        self.source, self.not_after = source, not_after

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Leave out of a task's rows what cannot matter; for ``mapInArrow``."""
        for batch in batches:
            yield batch.filter(pa.array(self.mask(batch.cast(in_utc(batch.schema)))))

    @abstractmethod
    def mask(self, batch: pa.RecordBatch) -> BoolArray:
        """Return which rows may matter."""

    def always(self, batch: pa.RecordBatch) -> tuple[EventBatch, BoolArray]:
        """Return the rows as events, and which of them pass whatever their scores: the incomplete and the latest."""
        rows = EventBatch(batch, self.source, self.not_after)
        kept = np.zeros(batch.num_rows, bool) if rows.valid is None else ~rows.valid
        if len(kept):
            kept[np.argmax(np.where(kept, NEVER, rows.time))] = True
        return rows, kept
