"""What can be served: a stream on Spark or on the local engine, with one set of words for both.

The words for queries that come and go are those of `skyband.spark.Control`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import pyarrow as pa

from skyband.answers.answer import Row
from skyband.answers.place import Place
from skyband.events.batch import StreamColumns
from skyband.queries.query import Query
from skyband.times import Moment

UNREAD = 1_000  # answers that wait for a poll, at most
SPENT = ("refreshes", "failures", "stale")
Running = Literal["running", "ended", "failed", "elsewhere", "gone"]


@dataclass(frozen=True)
class AnswerView:
    """One answer, as rows."""

    query: str
    start: Moment | None
    end: Moment
    rows: Sequence[Row]
    exact: bool = True
    why: str | None = None
    provisional: bool = False
    spent: dict[str, int] | None = None  # of a joined query: remote ids that were refreshed and failed, and stale rows


@dataclass(frozen=True)
class StreamStats:
    """How a stream does. `rows` is None where only the process that runs the stream knows it."""

    running: Running
    batch: int = -1
    rows: int | None = None
    late: int = 0
    partly_late: int = 0
    rejected: int = 0
    kept: int = 0
    bound: int = 0
    watermark: Moment | None = None
    last_batch: float | None = None  # when the last batch of events ended, in seconds since 1970
    ahead: int = 0  # how many of the rejected rows were too far ahead of the clock
    degraded: str | None = None  # what is wrong with the last batch, where most of it was rejected
    sign_of_life: float | None = None  # of a stream in another process: when it last gave one, in seconds since 1970


@dataclass(frozen=True)
class StreamUpdate:
    """What is new: all queries as they stand now, and the answers and batches since the last update, oldest first."""

    queries: Sequence[dict[str, Any]]
    answers: Sequence[AnswerView]
    stats: StreamStats
    durations: Sequence[float] = ()  # seconds that each new batch took, where that is known


class ServedStream(Protocol):
    """A stream that can be served."""

    engine: str
    schema: pa.Schema
    source: StreamColumns
    algorithm: str
    fixed: bool  # whether its queries cannot be changed while it runs

    @property
    def busy(self) -> bool:
        """Whether a batch is being taken in just now; never waits for it."""

    @property
    def services(self) -> Collection[str]:
        """With what queries may be joined."""

    def plan(self, *queries: Query) -> str:
        """Refuse queries that could not be registered; say of others which of them share what."""

    def register(self, *queries: Query) -> None:
        """Serve more queries: all of these, or none."""

    def unregister(self, name: str) -> None:
        """Stop serving a query."""

    def pause(self, name: str) -> None:
        """Stop showing a query's answers."""

    def resume(self, name: str) -> None:
        """Show them again."""

    def explain(self) -> str:
        """Say which queries share what."""

    def rank_of(self, name: str, id: int | str, *, partition: Any = None) -> Place:  # noqa: A002 - the word for it
        """Tell where an id stands in a query, who is just above and who just below."""

    def poll(self) -> StreamUpdate | None:
        """Return what is new; None where nothing is."""

    def close(self) -> None:
        """End what was started for it."""
