"""A stream on Spark, in this process or in another one, known by its checkpoint folder."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.answers.answer import Row
from skyband.engine.monitor import Monitor
from skyband.queries.query import Query
from skyband.remote.remote import Remote
from skyband.serve.streams import SPENT, UNREAD, AnswerView, Running, StreamStats, StreamUpdate
from skyband.spark.control import Control
from skyband.spark.handle import Handle
from skyband.times import Moment, moment_of, read_moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOMENTS = ("window_start", "window_end", "time")


class Recorder:
    """A sink that keeps the answers of all windows for the next poll; the checkpoint shows only the last of each query.

    For a stream in this process; it may be given to `skyband.spark.start`.
    """

    def __init__(self) -> None:
        self.tables: deque[pa.Table] = deque(maxlen=UNREAD)

    def write(self, answers: pa.Table, batch_id: int, session: SparkSession) -> None:  # noqa: ARG002 - a sink's
        """Take the answers of a batch."""
        self.tables.append(answers)


class SparkStream:
    """A stream on Spark, in this process (a `Handle`, with a `Recorder` if that is its sink) or elsewhere."""

    engine = "spark"

    def __init__(self, control: Control, recorder: Recorder | None = None) -> None:
        self.control, self.recorder = control, recorder
        self.schema, self.source = control.checkpoint.schema(), control.source
        self.fixed, self.services = control.fixed, control.checkpoint.services()
        self.algorithm = str(control.checkpoint.identity["algorithm"])
        self.register, self.unregister = control.register, control.unregister
        self.pause, self.resume, self.explain = control.pause, control.resume, control.explain
        self.rank_of = control.rank_of
        self._plain = self.source.is_plain(self.schema)
        self._rows, self._counted = 0, -1
        self._durations: list[float] = []
        self._before: tuple[object, ...] = ()

    def plan(self, *queries: Query) -> str:
        """Refuse queries that could not be registered; say of others which of them share what."""
        self.control.check(*queries)
        nobody = dict.fromkeys(self.services, Remote(lambda _: {}))  # for a plan, none need be asked
        return Monitor(queries, algorithm=self.algorithm, services=nobody).explain()

    def poll(self) -> StreamUpdate | None:
        """Return what is new; None where nothing is."""
        self._count()
        now = (self.control.checkpoint.version(), self._running(), self._rows)
        if now == self._before:
            return None
        self._before = now
        queries, status = self.control.queries, self.control.checkpoint.status()
        durations, self._durations = self._durations, []
        return StreamUpdate(queries, self._answers(queries), self._stats(status), durations)

    def close(self) -> None:
        """Stop the stream if it runs in this process."""
        if isinstance(self.control, Handle):
            self.control.stop()

    @property
    def busy(self) -> bool:
        """Whether a batch is being taken in just now."""
        return self.control.checkpoint.in_a_batch()

    def _running(self) -> Running:
        if not isinstance(self.control, Handle):
            return self.control.observer.look()
        if self.control.isActive:
            return "running"
        return "ended" if self.control.exception() is None else "failed"

    def _count(self) -> None:
        """Add up how many rows Spark has read, each once, and note how long its batches took."""
        if isinstance(self.control, Handle):
            for entry in self.control.recentProgress:
                if entry["skyband"] and entry["batchId"] > self._counted:
                    self._rows += entry["numInputRows"] // entry["skyband"].get("scans", 1)
                    self._durations.append(entry["durationMs"]["triggerExecution"] / 1_000)
                    self._counted = entry["batchId"]

    def _answers(self, queries: Sequence[dict[str, Any]]) -> list[AnswerView]:
        """Return the answers of all windows where they were recorded, then the latest of each query."""
        given = {entry["name"]: entry["query"] for entry in queries}
        found: list[AnswerView] = []
        while self.recorder is not None and self.recorder.tables:
            found += _by_window(_listed(self.recorder.tables.popleft(), self._plain), given)
        latest = self.control.checkpoint.latest()
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in [] if latest is None else _listed(latest, self._plain):
            rows.setdefault(row["query"], []).append(row)
        for entry in queries:
            if window := entry.get("latest"):
                listed = rows.get(entry["name"], []) if window["rows"] else []
                start = window["window_start"] and read_moment(window["window_start"])
                end = read_moment(window["window_end"])
                provisional = any(row.get("provisional") for row in listed)
                found.append(_view(entry["query"], start, end, listed, window["exact"], window["why"], provisional))
        return found

    def _stats(self, status: dict[str, Any]) -> StreamStats:
        progress, totals = status.get("progress", [{}]), status.get("totals", {})
        last = progress[-1] if progress else {}
        mark = last.get("watermark")
        return StreamStats(
            self._running(), status.get("batch", -1), self._rows if isinstance(self.control, Handle) else None,
            totals.get("late", 0), totals.get("partlyLate", 0), totals.get("rejected", 0),
            last.get("kept") or 0, last.get("keptLimit") or 0, mark and read_moment(mark),
            self.control.checkpoint.shown_at(), totals.get("ahead", 0), status.get("degraded"),
            self.control.observer.heard,
        )  # fmt: skip


def _listed(table: pa.Table, plain: bool) -> list[dict[str, Any]]:
    """Return the rows of answers, with moments as `Answer` has them: also those that `datetime` cannot hold."""
    times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    rows: list[dict[str, Any]] = table.drop_columns(times).to_pylist()
    for name in times:
        zone = table.schema.field(name).type.tz
        numbers = table[name].cast(pa.timestamp("us", zone), safe=False).cast(pa.int64()).to_pylist()
        bare = plain and name in MOMENTS
        for row, number in zip(rows, numbers, strict=True):
            row[name] = number if bare or number is None else moment_of(number)
    return rows


def _by_window(listed: Sequence[dict[str, Any]], given: dict[str, dict[str, Any]]) -> list[AnswerView]:
    """Return the answers in a sink's table; of changes, the checkpoint has the latest answer as a whole."""
    windows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    whole = {name for name, query in given.items() if query.get("emit", "final") in ("final", "early")}
    for row in listed:
        if row["query"] in whole:
            key = (row["query"], row["window_start"], row["window_end"], row["provisional"])
            windows.setdefault(key, []).append(row)
    return [
        _view(given[name], start, end, rows, rows[0]["exact"], rows[0]["why"], provisional)
        for (name, start, end, provisional), rows in windows.items()
    ]


def _view(
    query: dict[str, Any], start: Moment | None, end: Moment, rows: Sequence[dict[str, Any]], exact: bool,
    why: str | None, provisional: bool,
) -> AnswerView:  # fmt: skip
    spent = {name: rows[0][name] for name in SPENT} if rows and rows[0].get("refreshes") is not None else None
    return AnswerView(query["name"], start, end, [_row(row, query) for row in rows], exact, why, provisional, spent)


def _row(row: dict[str, Any], query: dict[str, Any]) -> Row:
    remote = [query["join"]["service"]] if "join" in query else []
    values = {name: row.get(name) for name in (*remote, *query.get("select", ()))}
    age = row.get("age") if remote else None
    return Row.of(row, values, age)
