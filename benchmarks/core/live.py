"""A stream that is running: small batches, answers after every event, queries that come and go beside it.

Peers answer after every event by hand, with a sorted list of the window (`bisect`): the best plain form there is.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks import baselines
from benchmarks.measure import Row, side_by_side
from benchmarks.workloads import SECOND, events, many_queries, one_query
from skyband.answers.answer import Answers
from skyband.engine.monitor import Monitor
from skyband.queries.query import Query
from skyband.windows import Window

if TYPE_CHECKING:
    from benchmarks.core import Scale

RATE = 1_000_000  # events per second of the stream beside which queries come and go
LIVE = 1_000  # queries that are served all the time
BATCH = 10_000  # rows of its batches
COUNTED = Query("last", k=10, score="score", window=Window("1000 events", slide="1 event"))


def live(scale: Scale) -> Iterator[Row]:
    """Small batches, answers after every event, and queries that come and go."""
    yield from _batches(scale)
    yield from _every_event(scale)
    yield from _registrations(scale)


def _batches(scale: Scale) -> Iterator[Row]:
    """Push and advance after every few rows, five times for each second of event time."""
    count = max(scale.events // 10_000, 20)
    for rows in (1, 10, 100):
        source = events(rows * count, 5 * rows)
        pieces = source.to_batches(max_chunksize=rows)

        def job(pieces: Sequence[pa.RecordBatch] = pieces) -> list[Answers]:
            monitor = Monitor(one_query(60, 1, 10), time="time", id="id")
            found = []
            for piece in pieces:
                monitor.push(piece)
                found.append(monitor.advance(piece["time"][-1].as_py()))
            return found

        (timing,) = side_by_side({"skyband": job}, scale.patience).values()
        row = baselines.row(timing, "live", "task", f"batches of {rows}", "skyband", source.num_rows)
        yield replace(row, amount=timing.best / count * 1e3)  # milliseconds of a batch


def _every_event(scale: Scale) -> Iterator[Row]:
    """The best 10 of the last 1,000 events, after every event."""
    source, task = events(scale.events // 20, RATE), "after every event"
    named = {"skyband": baselines.skyband, "sorted list": _sorted_list}
    few = source.slice(0, 5_000)
    ours = baselines.skyband(few, [COUNTED])()
    theirs = _sorted_list(few, [COUNTED])()["id"]
    if not np.array_equal(np.concatenate([block.id for part in ours for block in part.blocks]), theirs):
        msg = f"{task}: skyband and the sorted list give different answers; correct the one that is wrong"
        raise baselines.DisagreementError(msg)
    timings = side_by_side({name: way(source, [COUNTED]) for name, way in named.items()}, scale.patience)
    for name, timing in timings.items():
        row = baselines.row(timing, "live", "task", task, name, source.num_rows)
        yield replace(row, ratio=timing.best / timings["skyband"].best, baseline="skyband")


def _sorted_list(source: pa.Table, queries: Sequence[Query]) -> Any:
    """Keep the window as a sorted list; a row of it is worst last."""
    (query,) = queries
    score, ids = source["score"].to_numpy().tolist(), source["id"].to_numpy().tolist()
    size, k = query.window.size, query.most_rows

    def job() -> dict[str, Any]:
        held: list[tuple[float, int]] = []
        found: list[int] = []
        for place, one in enumerate(zip(score, ids, strict=True)):
            if place >= size:
                del held[bisect_left(held, (score[place - size], ids[place - size]))]
            insort(held, one)
            found += [row[1] for row in held[: -k - 1 : -1]]
        return {"id": np.array(found)}

    return job


def _registrations(scale: Scale) -> Iterator[Row]:
    """A second of a stream with a thousand queries: alone, and with a thousand that come and as many that go."""
    count = min(LIVE, scale.events // 1_000)
    source = events(max(scale.events // 10, 100_000), RATE // 100)
    begun, rest = source.num_rows // 2, source.num_rows - source.num_rows // 2
    second = source.slice(begun, min(rest, RATE))
    queries = many_queries(2 * count, (10, 100))
    state = Monitor(queries[:count], time="time", id="id")
    state.push(source.slice(0, begun))
    state.advance(source["time"][begun - 1].as_py() - SECOND)
    blob = state.snapshot()

    def job(changes: int) -> list[Answers]:
        monitor, found, gone = Monitor.restore(blob), [], 0
        pieces = second.to_batches(max_chunksize=BATCH)
        for number, piece in enumerate(pieces, 1):
            monitor.push(piece)
            found.append(monitor.advance(piece["time"][-1].as_py() - SECOND))
            while gone < changes * number // len(pieces):
                monitor.register(queries[count + gone])
                monitor.unregister(queries[gone].name)
                gone += 1
        return found

    timings = side_by_side({"alone": lambda: job(0), "skyband": lambda: job(count)}, scale.patience)
    for name, timing in timings.items():
        row = baselines.row(timing, "live", "task", f"{count:,} queries come and go", name, second.num_rows)
        yield replace(row, ratio=timing.best / timings["alone"].best, baseline="alone")
