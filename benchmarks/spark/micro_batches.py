"""Micro-batches of different sizes: what each costs over only scanning it, and where its time goes."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Patience, Row, Timing, side_by_side
from benchmarks.spark import spark_baselines
from benchmarks.workloads import one_query
from skyband.spark import Handle

if TYPE_CHECKING:
    from benchmarks.spark import Setting
    from benchmarks.spark.spark_baselines import Stream

SCAN, HAND, OURS = "noop", "panes by hand", "skyband"
TINY, TINY_SPAN = 1_000, 5.25  # events, and seconds of event time, of the smallest micro-batches
LARGE_FILES = 10  # of a micro-batch, five times as many as usually
PARAMETER = "events of a micro-batch"


def sizes(setting: Setting) -> Iterator[Row]:
    """One query over the same files, a few or many with each micro-batch: a whole run, and a warm micro-batch of it."""
    for stream, patience in _streams(setting):
        ways = (SCAN, OURS) if stream.per_batch == 1 else (SCAN, OURS, HAND)
        yield from _compared(stream, {way: WAYS[way] for way in ways}, patience)


WAYS = {
    SCAN: spark_baselines.to_nowhere(spark_baselines.scan),
    OURS: spark_baselines.skyband,
    HAND: spark_baselines.panes,
}


def _streams(setting: Setting) -> Iterator[tuple[Stream, Patience]]:
    """Return the streams, by the size of their micro-batches: the smallest ones first."""
    scale = setting.scale
    yield setting.tiny_batches(TINY, TINY_SPAN), scale.patience
    yield setting.stream(), scale.patience
    large = setting.stream(rows=scale.large, files=scale.large * scale.files // scale.events)
    yield replace(large, per_batch=min(LARGE_FILES, scale.files)), scale.patience


def _compared(stream: Stream, ways: Mapping[str, Any], patience: Patience) -> Iterator[Row]:
    """Time ways in turn: the rows of whole runs, of warm micro-batches, and of the phases of ours."""
    batches: dict[str, list[dict[str, float]]] = defaultdict(list)

    def noting(way: str, job: Any) -> Any:
        def run() -> Any:
            query = job()
            if way != HAND:
                batches[way].append(query)
            return query

        return run

    jobs = {way: noting(way, make(stream, one_query())) for way, make in ways.items()}
    timings = side_by_side(jobs, patience)
    files = len(list(stream.folder.glob("*.parquet")))
    size = stream.rows * stream.per_batch // files
    ours = timings[OURS].best
    for way, timing in timings.items():
        row = timing.row("micro-batches", PARAMETER, size, way, stream.rows)
        yield replace(row, ratio=timing.best / ours, baseline=OURS, amount=files / stream.per_batch / timing.best)
    spent = {way: _phases(runs[-len(timings[way].seconds) :]) for way, runs in batches.items()}
    noop = statistics.median(spent[SCAN]["spark: triggerExecution"])
    for way, phases in spent.items():
        for phase, seconds in phases.items():
            name = phase if way == OURS else f"{way}: {phase.removeprefix('spark: ')}"
            row = Timing(seconds).row("hundredths", PARAMETER, size, name, size)
            yield replace(row, ratio=row.seconds_median / noop, baseline=SCAN)


def _phases(runs: Iterable[Any]) -> dict[str, list[float]]:
    """Return the seconds of each phase of the warm micro-batches of some runs, and of the first ones of them as such.

    `callback` is what lies between Spark's call and our handler, there and back.
    """
    spent: dict[str, list[float]] = defaultdict(list)
    for query in runs:
        for entry in _progress(query):
            theirs, ours = entry["durationMs"], entry.get("skyband", {}).get("durationMs", {})
            if entry["batchId"] == 0:
                spent["first micro-batch"].append(theirs["triggerExecution"] / 1_000)
                continue
            found = {f"spark: {name}": value for name, value in theirs.items()}
            found |= {f"skyband: {name}": value for name, value in ours.items()}
            if ours:
                found["callback"] = theirs["addBatch"] - ours["total"]
            for name, milliseconds in found.items():
                spent[name].append(milliseconds / 1_000)
    return spent


def _progress(query: Any) -> list[dict[str, Any]]:
    if isinstance(query, Handle):
        return query.recentProgress
    return [json.loads(entry.json) for entry in query.recentProgress]
