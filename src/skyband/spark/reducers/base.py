"""What all reducers have in common: executors reduce a batch, the driver merges what is left of it."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T", contravariant=True)


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


class Reducer(Protocol[T]):
    """Takes batches into a monitor, or into subscriptions: all that any window still to be answered needs of them."""

    def reduce(self, df: DataFrame, target: T, progress: BatchProgress) -> BatchProgress:
        """Let the executors reduce a batch, and merge what is left; as often as that takes."""
