"""A run from files to files: what to read, which columns the answers have, and the loop between."""

from __future__ import annotations

import logging
import time as clock
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from skyband import algorithms
from skyband.engine.intake import Sink
from skyband.engine.run import run
from skyband.engine.schema import answer_schema, fit, used_columns
from skyband.engine.stats import Stats
from skyband.errors import InputError
from skyband.events.batch import StreamColumns
from skyband.files.stream import FileStream, read
from skyband.files.writers import STDOUT, Output, Outputs, check, outputs
from skyband.queries.query import Query
from skyband.remote.remote import Remote
from skyband.times import not_negative

WARM_ROWS = 1_000


@dataclass(frozen=True)
class Job:
    """What to run: queries, where the events are, where the answers go."""

    queries: Sequence[Query]
    inputs: Sequence[Path]
    output: Path
    source: StreamColumns
    algorithm: str = "staircase"
    watermark: str | None = None
    late: Path | None = None
    rejected: Path | None = None
    overwrite: bool = False
    services: Mapping[str, Remote] = field(default_factory=dict)
    max_ahead: str | None = None

    @cached_property
    def not_after(self) -> int | None:
        """The last event time that is taken: the clock is read once."""
        ahead = not_negative(self.max_ahead, "max_ahead")
        return None if ahead is None else clock.time_ns() // 1_000 + ahead

    def check(self) -> None:
        """Refuse what can be seen to be wrong before anything is read."""
        algorithms.find(self.algorithm)
        not_negative(self.watermark, "watermark")
        not_negative(self.max_ahead, "max_ahead")
        targets = [path for path in (self.output, self.late, self.rejected) if path is not None]
        for path in targets:
            if path != self.output or str(path) != STDOUT:
                check(path, self.overwrite)
        if len({path.resolve() for path in targets}) < len(targets):
            msg = "--output, --late and --rejected name the same file; give each its own"
            raise InputError(msg)
        counting = [query.name for query in self.queries if query.window.counts]
        if counting and len(counting) < len(self.queries):
            timed = next(query.name for query in self.queries if not query.window.counts)
            msg = (
                f"query {counting[0]!r} counts events and query {timed!r} measures time, so the starts and ends of "
                "their windows do not go into one column; put them into two query files"
            )
            raise InputError(msg)

    def stream(self) -> FileStream:
        """Open the files, with only the columns that the queries use."""
        whole = read(self.inputs)
        return whole.select(used_columns(self.queries, self.source, whole.schema), self.source.time)

    def open_answers(self, opened: Outputs, queries: Sequence[Query], schema: pa.Schema) -> Output:
        """Begin the file of answers to queries over a stream with these columns."""
        columns = answer_schema(queries, self.source, algorithms.find(self.algorithm), schema)
        return opened.open(None if str(self.output) == STDOUT else self.output, columns)

    def warm_up(self, first: Sequence[pa.RecordBatch]) -> None:
        """Run the queries over a few of the first rows and forget about it: that loads or compiles the kernels."""
        few = [batch.slice(0, WARM_ROWS) for batch in first]
        queries = [query for query in self.queries if query.join is None]  # a warm-up asks no services
        if not queries:
            return
        trial = run(
            queries, few, time=self.source.time, id=self.source.id, time_unit=self.source.time_unit,
            algorithm=self.algorithm, not_after=self.not_after,
        )  # fmt: skip
        log = logging.getLogger("skyband.engine.monitor")
        log.disabled = True  # the real run says it all again
        try:
            list(trial.parts())
        finally:
            log.disabled = False


@dataclass
class Report:
    """How a run goes; `kept` and `bound` are those of the moment when most was kept."""

    rows: int = 0
    late: int = 0
    partly_late: int = 0
    rejected: int = 0
    ahead: int = 0
    answers: int = 0
    kept: int = 0
    bound: int = 0
    seconds: float = 0.0
    written: int = 0

    def note(self, stats: Stats) -> None:
        """Take over the numbers of a monitor."""
        self.rows, self.answers = stats.rows, stats.answers
        self.late, self.partly_late, self.rejected = stats.late, stats.partly_late, stats.rejected
        self.ahead = stats.ahead
        self.keep(stats.kept, stats.bound)

    def keep(self, kept: int, bound: int) -> None:
        """Note how many candidates there are, and how many there can be."""
        if kept >= self.kept:
            self.kept, self.bound = kept, bound


class RunObserver(Protocol):
    """Observes a run."""

    def starting_spark(self) -> AbstractContextManager[object]:
        """Surround the start of Spark, which takes some seconds."""

    def warming_up(self) -> AbstractContextManager[object]:
        """Surround the first use of the kernels, which may have to be compiled."""

    def seen(self, report: Report, share: float) -> None:
        """Take the numbers so far, and the share of the input that has been read."""


def execute(job: Job, observer: RunObserver) -> Report:
    """Run a job; its files appear when all is done, or not at all."""
    job.check()
    stream, report, source = job.stream(), Report(), job.source

    def note() -> None:
        report.note(going.monitor.stats())
        observer.seen(report, stream.done / stream.size)

    def noted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            note()

    with outputs() as opened, closing(iter(stream)) as batches:
        answers = job.open_answers(opened, job.queries, stream.schema)
        sinks = [_sink(opened, path, stream.schema) for path in (job.late, job.rejected)]
        first = list(islice(batches, 1))
        with observer.warming_up():
            job.warm_up(first)
        began = clock.perf_counter()
        going = run(
            job.queries, noted(chain(first, batches)), time=source.time, id=source.id, time_unit=source.time_unit,
            watermark=job.watermark, algorithm=job.algorithm, on_late=sinks[0], on_rejected=sinks[1],
            services=job.services, not_after=job.not_after,
        )  # fmt: skip
        del first  # or its memory would be held until the end
        for part in going.parts():
            answers.write(fit(part, answers.schema))
        note()
        report.seconds, report.written = clock.perf_counter() - began, answers.rows
    return report


def _sink(opened: Outputs, path: Path | None, schema: pa.Schema) -> Sink | None:
    if path is None:
        return None
    output = opened.open(path, schema)
    return lambda batch: output.write(pa.Table.from_batches([batch]))
