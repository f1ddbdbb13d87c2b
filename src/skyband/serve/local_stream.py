"""A stream on the local engine: a thread takes batches in as they come."""

from __future__ import annotations

import logging
import threading
import time as clock
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from skyband.answers.answer import Answer
from skyband.answers.place import Place
from skyband.engine.limits import WindowLimits
from skyband.engine.monitor import Monitor
from skyband.engine.schema import check_names, used_columns
from skyband.errors import TooManyWindows
from skyband.events.ahead import ahead_time, doubt
from skyband.events.batch import StreamColumns
from skyband.queries.query import Query
from skyband.serve.streams import SPENT, UNREAD, AnswerView, Running, StreamStats, StreamUpdate
from skyband.times import DAY, moment_of
from skyband.windows import watermark_of

logger = logging.getLogger(__name__)


class LocalStream:
    """A stream on the local engine; what it knows ends with the process.

    Events come in `batches`, which may wait between two of them, and should end when `stopping` is set. By `delay` and
    `max_ahead`, in microseconds, they may be late or ahead of the clock (None: as far as they like); `limits` say how
    finely windows may cut their time. `services` are what queries may be joined with, by name.
    """

    engine = "local"
    fixed = False

    def __init__(
        self,
        queries: Sequence[Query],
        batches: Iterable[pa.RecordBatch],
        *,
        schema: pa.Schema,
        source: StreamColumns,
        delay: int,
        algorithm: str = "staircase",
        services: Mapping[str, Any] | None = None,
        max_ahead: int | None = DAY,
        limits: WindowLimits | None = None,
        stopping: threading.Event | None = None,
    ) -> None:
        self.schema, self.source, self.delay = schema, source, delay
        self.services = dict(services or {})
        self.max_ahead = max_ahead
        self.degraded: str | None = None
        self.limits = (limits or WindowLimits()).over(source, schema)
        self.monitor = Monitor(
            algorithm=algorithm, time=source.time, id=source.id, time_unit=source.time_unit, services=self.services
        )
        self.algorithm = self.monitor.stream.algorithm.notation()
        self.monitor.declare(schema)
        self.stopping = stopping or threading.Event()
        self._lock = threading.RLock()
        self._suspended: dict[str, tuple[Query, str]] = {}
        self._unread: deque[Answer] = deque(maxlen=UNREAD)
        self._durations: deque[float] = deque(maxlen=UNREAD)
        self._running: Running = "running"
        self._last_batch: float | None = None
        self.busy = False
        self._changed = True
        self.register(*queries)
        self._thread = threading.Thread(target=self._run, args=(batches,), name="skyband-local", daemon=True)
        self._thread.start()

    # Events.

    def _run(self, batches: Iterable[pa.RecordBatch]) -> None:
        try:
            for batch in batches:
                with self._lock:
                    self.busy = True
                    self._push(batch)
                    self.busy = False
                if self.stopping.is_set():
                    break
            ended: Running = "ended"
        except Exception:
            logger.exception("the stream has failed")
            ended = "failed"
        with self._lock:
            self._running, self._changed = ended, True

    def _push(self, batch: pa.RecordBatch) -> None:
        """Take in a batch; a query that would have absurdly many windows is suspended, and all is done again."""
        began = clock.perf_counter()
        before, rejected = self.monitor.snapshot(), self.monitor.stats().ahead
        limit = None if self.max_ahead is None else clock.time_ns() // 1_000 + self.max_ahead
        while True:
            try:
                answers = [self.monitor.push(batch, not_after=limit)]
                answers.append(self.monitor.advance(watermark_of(self.monitor.newest, self.delay)))
                break
            except TooManyWindows as error:
                self.monitor = Monitor.restore(before, services=self.services)
                if error.query is None:
                    raise
                self._suspend(error.query, str(error))
                before = self.monitor.snapshot()
        if limit is not None and batch.num_rows:
            example = ahead_time(pa.Table.from_batches([batch]), self.source, limit)
            ahead = self.monitor.stats().ahead - rejected
            self.degraded = doubt(batch.num_rows, ahead, example, limit, self.source, self.schema)
        for part in answers:
            self._unread.extend(part[-UNREAD:])
        self._changed = True
        self._durations.append(clock.perf_counter() - began)
        if batch.num_rows:
            self._last_batch = clock.time()

    def _suspend(self, name: str, error: str) -> None:
        logger.warning("query %r is suspended: %s", name, error)
        query = next(query for query in self.monitor.queries if query.name == name)
        self.monitor.unregister(name)
        self._suspended[name] = (query, error)

    # Queries that come and go.

    def _check(self, queries: Sequence[Query]) -> None:
        check_names(queries, [*self.monitor.statuses(), *self._suspended])
        used_columns(queries, self.source, self.schema)
        self.limits.check(queries, self.monitor.queries)

    def plan(self, *queries: Query) -> str:
        """Refuse queries that could not be registered; say of others which of them share what."""
        with self._lock:
            self._check(queries)
        return Monitor(queries, algorithm=self.algorithm, services=self.services).explain()

    def register(self, *queries: Query) -> None:
        """Serve more queries from the next batch on: all of these, or none."""
        with self._lock:
            self._check(queries)
            self.monitor.register(*queries)
            self._changed = True

    def unregister(self, name: str) -> None:
        """Stop serving a query."""
        with self._lock:
            if self._suspended.pop(name, None) is None:
                self.monitor.unregister(name)
            self._unread = deque((answer for answer in self._unread if answer.query != name), UNREAD)
            self._changed = True

    def pause(self, name: str) -> None:
        """Stop showing a query's answers; what its windows need is kept."""
        with self._lock:
            self.monitor.pause(name)
            self._changed = True

    def resume(self, name: str) -> None:
        """Show a paused query's answers again, from its next window on."""
        with self._lock:
            self.monitor.resume(name)
            self._changed = True

    # Looking at it.

    def explain(self) -> str:
        """Say which queries share what, and what is kept."""
        with self._lock:
            return self.monitor.explain()

    def rank_of(self, name: str, id: int | str, *, partition: Any = None) -> Place:  # noqa: A002 - the word for it
        """Tell where an id stands in a query, who is just above and who just below."""
        with self._lock:
            return self.monitor.rank_of(name, id, partition=partition)

    def poll(self) -> StreamUpdate | None:
        """Return what is new; None where nothing is."""
        with self._lock:
            if not self._changed:
                return None
            self._changed = False
            answers = [self._view(answer) for answer in self._unread]
            self._unread.clear()
            states = self.monitor.statuses()
            listed = [{"name": q.name, "state": states[q.name], "query": q.as_dict()} for q in self.monitor.queries]
            listed += [
                {"name": name, "state": "suspended", "query": query.as_dict(), "error": error}
                for name, (query, error) in self._suspended.items()
            ]
            durations = list(self._durations)
            self._durations.clear()
            return StreamUpdate(listed, answers, self._stats(), durations)

    def _view(self, answer: Answer) -> AnswerView:
        spent = {name: getattr(answer, name) for name in SPENT} if answer.refreshes is not None else None
        return AnswerView(
            answer.query, answer.start, answer.end, answer.rows, answer.exact, answer.why, answer.provisional, spent
        )

    def _stats(self) -> StreamStats:
        stats, mark = self.monitor.stats(), self.monitor.watermark
        plain = self.source.is_plain(self.schema)
        return StreamStats(
            self._running, stats.batches, stats.rows, stats.late, stats.partly_late, stats.rejected,
            stats.kept, stats.bound, mark if mark is None or plain else moment_of(mark), self._last_batch,
            stats.ahead, self.degraded,
        )  # fmt: skip

    def close(self) -> None:
        """End the stream."""
        self.stopping.set()
        self._thread.join(10.0)
