"""Streams joined with a service of changing values: what `core` and `spark` measure of joins.

The peer keeps the latest event of every id of the window, asks the same service for the values of all, and sorts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.baselines import window_numbers
from benchmarks.measure import Job, Row
from benchmarks.plots import speeds
from benchmarks.workloads import SECOND, SEED
from skyband.engine.monitor import Monitor
from skyband.order import NEVER, FloatArray, IntArray
from skyband.queries.join import Join
from skyband.queries.query import Query
from skyband.remote import Limits, Remote
from skyband.windows import Window

SPAN = 100  # seconds of event time in a batch
SERVICE = "followers"


def query() -> Query:
    """Return the joined query: the best 100 ids of the last 600 seconds, every 60 seconds."""
    return Query(
        "joined", k=100, score=f"score + {SERVICE}", window=Window(600 * SECOND, slide=60 * SECOND), join=Join(SERVICE)
    )


def events(rows: int, ids: int, batch: int) -> pa.Table:
    """Return one batch of the stream, in order of time."""
    chance = np.random.default_rng([SEED, ids, batch])
    time = np.sort(chance.integers(batch * SPAN * SECOND, (batch + 1) * SPAN * SECOND, rows))
    return pa.table({"time": time, "id": chance.integers(0, ids, rows), "score": chance.random(rows)})


@dataclass
class Service:
    """A service that answers at once; its values never change."""

    ids: int
    values: dict[int, float] = field(init=False)

    def __post_init__(self) -> None:
        self.values = dict(enumerate(np.random.default_rng(SEED).random(self.ids).tolist()))

    def fetch(self, ids: Sequence[Any]) -> Mapping[int, float]:
        """Return the values of ids."""
        return {name: self.values[name] for name in ids}

    def remote(self) -> Remote:
        """Return the service as a query's remote side, asked in large requests, as the peer asks."""
        return Remote(self, limits=Limits(batch=100_000, timeout=60, deadline=60))


@dataclass
class ByHand:
    """What one writes by hand: the latest event per pane and id, a value for each id from the service, one sort."""

    query: Query
    service: Service
    delay: int = 0
    answers: list[pa.Table] = field(default_factory=list)
    _window: int | None = None
    _panes: dict[int, tuple[IntArray, IntArray, FloatArray]] = field(default_factory=dict)

    def take(self, pane: IntArray, ids: IntArray, time: IntArray, score: FloatArray) -> None:
        """Take in the latest events of panes."""
        for number in np.unique(pane).tolist():
            rows = pane == number
            before = self._panes.get(number, (ids[:0], time[:0], score[:0]))
            both = [np.concatenate(pair) for pair in zip(before, (ids[rows], time[rows], score[rows]), strict=True)]
            self._panes[number] = self._latest(*both)

    def _latest(self, ids: IntArray, time: IntArray, score: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        newest = np.full(self.service.ids, NEVER)
        np.maximum.at(newest, ids, time)
        rows = time == newest[ids]
        return ids[rows], time[rows], score[rows]

    def answer(self, watermark: int) -> None:
        """Answer the windows that end by then."""
        size, slide = self.query.window.size, self.query.window.slide
        if self._window is None:
            self._window = int(window_numbers(self.query, min(self._panes) * slide, min(self._panes) * slide)[0])
        while self._window * slide + size <= watermark:
            inside = range(self._window, self._window + size // slide)
            parts = [self._panes[pane] for pane in inside if pane in self._panes]
            ids, _, score = self._latest(*(np.concatenate(column) for column in zip(*parts, strict=True)))
            values = self.service.fetch(ids.tolist())
            total = score + np.fromiter((values[name] for name in ids.tolist()), np.float64, len(ids))
            best = np.argsort(-total)[: self.query.most_rows]
            window = np.full(len(best), self._window)
            self.answers.append(pa.table({"window": window, "id": ids[best], "score": total[best]}))
            self._panes.pop(self._window, None)
            self._window += 1

    def finish(self) -> None:
        """Answer the windows that are left."""
        self.answer((max(self._panes) + 1) * self.query.window.slide + self.query.window.size - 1)

    def table(self) -> pa.Table:
        """Return all answers."""
        return pa.concat_tables(self.answers)


def plot(rows: Sequence[Row], path: Path) -> None:
    """Events per second, by way and number of ids."""
    named = [replace(row, way=f"{row.way}, {int(row.value):,} ids") for row in rows if row.ratio is not None]
    speeds(named, path)


def skyband_here(service: Service, batches: Sequence[pa.Table], _: Sequence[Query]) -> Job:
    """Answer with the local monitor, batch by batch."""

    def job() -> Mapping[str, pa.Table]:
        asked = query()
        monitor = Monitor([asked], time="time", id="id", services={SERVICE: service.remote()})
        parts = []
        for batch in batches:
            parts += [monitor.push(batch), monitor.advance(batch["time"][-1].as_py())]
        parts.append(monitor.finish())
        blocks = [block for part in parts for block in part.blocks]
        columns = [
            (np.repeat(block.start // asked.window.slide, np.diff(block.offsets)), block.id, block.score)
            for block in blocks
        ]
        window, ids, score = (np.concatenate(column) for column in zip(*columns, strict=True))
        return {asked.name: pa.table({"window": window, "id": ids, "score": score})}

    return job


def by_hand_here(service: Service, batches: Sequence[pa.Table], _: Sequence[Query]) -> Job:
    """Answer by hand in NumPy, batch by batch."""

    def job() -> Mapping[str, pa.Table]:
        asked = query()
        merge = ByHand(asked, service)
        for batch in batches:
            time, ids, score = (batch[name].to_numpy() for name in ("time", "id", "score"))
            merge.take(time // asked.window.slide, ids, time, score)
            merge.answer(int(time[-1]))
        merge.finish()
        return {asked.name: merge.table()}

    return job
