"""What a stream is, what people see of it, and what each kind of stream does with a micro-batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.table import joined
from skyband.engine.limits import WindowLimits
from skyband.events.batch import StreamColumns
from skyband.remote.remote import Remote
from skyband.spark.checkpoint import Checkpoint, State
from skyband.spark.history import History
from skyband.spark.reducers.base import BatchProgress
from skyband.spark.services import Changes
from skyband.spark.sinks import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ASKED = "someone asked to suspend it"
Blamed = dict[str, dict[str, Any]]
"""Queries that a batch is handled without, each with its `error`, and whether it was on `trial`."""


@dataclass
class StreamSpec:
    """What a stream is: its columns, its delay, where answers and side rows go, and where it is kept."""

    source: StreamColumns
    schema: pa.Schema
    delay: int | None
    algorithm: str
    checkpoint: Checkpoint
    sink: Sink | None = None
    late: Sink | None = None
    rejected: Sink | None = None
    history: History | None = None
    services: Mapping[str, Remote] = field(default_factory=dict)
    limits: WindowLimits = field(default_factory=WindowLimits)
    ahead: int | None = None
    budget: float | None = 30.0

    @property
    def feeds(self) -> dict[str, Changes]:
        """The services that push their changes."""
        asked = {name: remote.gateway.service for name, remote in self.services.items()}
        return {name: service for name, service in asked.items() if isinstance(service, Changes)}


@dataclass
class Shown:
    """What people see of a stream: progress, totals, and each query's latest window and answer."""

    progress: list[dict[str, Any]] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    windows: dict[str, dict[str, Any]] = field(default_factory=dict)
    degraded: str | None = None
    latest: pa.Table | None = None

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> Shown:
        """Return what is shown now."""
        status = checkpoint.status()
        found = {name: status[name] for name in ("progress", "totals", "windows", "degraded") if name in status}
        return cls(**found, latest=checkpoint.latest())

    def note(self, windows: Mapping[str, dict[str, Any]], answers: pa.Table) -> None:
        """Show the latest windows of some queries, and their answers; those of others stay."""
        self.windows |= windows
        others = [] if self.latest is None else [
            self.latest.filter(pc.invert(pc.is_in(self.latest["query"], answers["query"].unique())))
        ]  # fmt: skip
        self.latest = joined([answers, *others])


class StreamJob(ABC):
    """What is its own of one kind of stream; `skyband.spark.loop` does what all have in common.

    A job can be pickled before it is resumed.

    Parameters
    ----------
    spec
        What the stream is.
    """

    durable = True
    """Whether the driver keeps the state, and takes commands; else Spark's state store keeps it."""
    retried: str | None = None
    """The suspended query that this batch tries again."""

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self.state, self.shown = State(b""), Shown()

    @abstractmethod
    def resume(self, state: State | None) -> None:
        """Take up the state after the batch before; begin anew where there is none."""

    # Queries that come and go; of a job that has no commands, none do.

    def apply(self, command: dict[str, Any], suspended: Mapping[str, Any]) -> None:  # noqa: B027 - as said
        """Do what was asked for; whoever wrote the command must not be able to stop the stream."""

    def coming(self, commands: Sequence[dict[str, Any]]) -> set[str]:  # noqa: ARG002 - for those that have some
        """Return the queries that a batch with these commands is handled with, and that can be suspended."""
        return set()

    def suspend(self, suspended: Blamed) -> None:  # noqa: B027 - as said
        """Handle the batch without some queries, and perhaps with one that deserves another attempt."""

    def on_trial(self, suspended: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 - for those that have some
        """Return the served queries that have not proved themselves yet, the newest last."""
        return []

    # One batch.

    @abstractmethod
    def reduce(self, df: DataFrame, progress: BatchProgress) -> None:
        """Take the batch in."""

    @abstractmethod
    def advance(self, df: DataFrame, batch_id: int, progress: BatchProgress) -> pa.Table | None:
        """Return the answers that the batch gives, and show the latest."""

    def side_rows(self) -> list[tuple[Sink | None, pa.Table]]:
        """Return what else the batch brought, and where it goes."""
        return []

    def snapshot(self) -> bytes:
        """Return the state after the batch."""
        return b""

    @abstractmethod
    def report(self, batch_id: int, progress: BatchProgress) -> dict[str, Any]:
        """Return the batch's progress, and add up the totals."""

    def queries(self) -> list[dict[str, Any]]:
        """List the queries, and how each stands."""
        return []


def datetime_of(microseconds: int) -> datetime:
    """Return a moment; the first or last that there is where it lies beyond."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC) if microseconds < 0 else datetime.max.replace(tzinfo=UTC)
