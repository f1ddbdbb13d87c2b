"""Files through Spark into files: `skyband run` with the Spark engine.

Each micro-batch keeps its answers inside the checkpoint folder; when all files have been read, they and the
answers of the windows that are still open make the output. So a run that was cut short goes on where it was, and
a later run over more files reads only the new ones: its output is that of one run over all of them.
"""

from __future__ import annotations

import re
import time as clock
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.engine.schema import fit, fit_table
from skyband.errors import InputError
from skyband.files.job import Job, Report, RunObserver
from skyband.files.stream import FileStream
from skyband.files.writers import outputs
from skyband.queries.query import Query
from skyband.spark.file_source import Feed, read_stream, size_of
from skyband.spark.handle import Handle
from skyband.spark.session import session
from skyband.spark.sinks import Files
from skyband.spark.start import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWERS, LATE, REJECTED, INPUT = "answers", "late", "rejected", "input"  # folders inside the checkpoint
BATCH_BYTES = 256 << 20
REFRESH = 0.2


def execute(
    job: Job,
    *,
    observer: RunObserver,
    checkpoint: Path | None = None,
    master: str | None = None,
    remote: str | None = None,
) -> Report:
    """Run a job on Spark; its files appear when all is done, or not at all.

    The `checkpoint` folder lets a run go on where it was; without it, a folder is made and removed. Spark runs in this
    process, or at the URL of a `master` or of a Spark Connect server (`remote`).
    """
    job.check()
    stream = job.stream()
    with ExitStack() as stack:
        folder = (checkpoint or Path(stack.enter_context(TemporaryDirectory(prefix="skyband-")))).absolute()
        feed = Feed(folder / INPUT, stream)
        with observer.starting_spark():
            spark = stack.enter_context(session(master, remote))
        with observer.warming_up():
            job.warm_up(list(islice(stream, 1)))
        return _Run(job, folder, stream, feed, observer).go(spark)


@dataclass
class _Run:
    job: Job
    folder: Path
    stream: FileStream
    feed: Feed
    observer: RunObserver
    totals: BatchTotals = field(default_factory=lambda: BatchTotals())

    def go(self, spark: SparkSession) -> Report:
        """Read all files, then write all answers."""
        began, job = clock.perf_counter(), self.job
        with _reasons():
            handle = start(
                read_stream(spark, self.folder / INPUT, self.stream, job.source.time), job.queries,
                time=job.source.time, id=job.source.id, time_unit=job.source.time_unit,
                watermark=job.watermark, max_ahead=job.max_ahead, algorithm=job.algorithm,
                checkpoint=self.folder, services=job.services,
                sink=Files(self.folder / ANSWERS),
                late=None if job.late is None else Files(self.folder / LATE),
                rejected=None if job.rejected is None else Files(self.folder / REJECTED),
                max_window_ends=None, max_cuts=None, trial_budget=None,  # nobody else waits for this run
            )  # fmt: skip
        try:
            self._read(handle)
        finally:
            handle.stop()
        report = self.totals.report
        self._write(handle, report)
        report.seconds = clock.perf_counter() - began
        return report

    # Reading.

    def _read(self, handle: Handle) -> None:
        """Give the stream its files; where their order matters, one by one, so that each is a batch of its own."""
        job, size = self.job, max(1, size_of(self.feed.files))
        ordered = job.watermark is not None or job.rejected is not None or any(q.window.counts for q in job.queries)
        done = 0
        if self.feed.given:
            self._wait(handle, 0.0, self.feed.given)  # what an earlier run was given, but did not come to read
        for batch in self.feed.batches(1 if ordered else BATCH_BYTES):
            self._wait(handle, done / size, batch)
            done += size_of(batch)
            self.totals.note(handle)
            self.observer.seen(self.totals.report, done / size)

    def _wait(self, handle: Handle, share: float, files: Sequence[Path]) -> None:
        with _reasons(replace(self.stream, files=tuple(files))):
            catch_up(handle, lambda: self.observer.seen(self.totals.report, share))

    # Writing.

    def _write(self, handle: Handle, report: Report) -> None:
        """Make the output files of what was kept in the checkpoint folder."""
        queries, last = self._queries(handle), handle.finish()
        with outputs() as opened:
            answers = self.job.open_answers(opened, queries, self.stream.schema)
            names = pa.array([query.name for query in queries], pa.string())
            for table in kept(self.folder / ANSWERS):
                answers.write(fit_table(table.filter(pc.is_in(table["query"], names)), answers.schema))
            answers.write(fit(last, answers.schema))
            for path, name in ((self.job.late, LATE), (self.job.rejected, REJECTED)):
                if path is not None:
                    output = opened.open(path, self.stream.schema)
                    for table in kept(self.folder / name):
                        output.write(fit_table(table, output.schema))
        report.answers += len(last)
        report.written = answers.rows

    def _queries(self, handle: Handle) -> list[Query]:
        """Return the queries that the stream serves now, those of the job first; all of these must be among them."""
        ours, more = {query.name: query for query in self.job.queries}, []
        for entry in handle.queries:
            if entry["name"] not in ours:
                more.append(Query.from_dict(entry["query"]))
            elif entry["state"] == "suspended":
                msg = f"query {entry['name']!r}: {entry['error']}"
                raise InputError(msg)
        return [*self.job.queries, *more]


def kept(folder: Path) -> Iterator[pa.Table]:
    """Yield what a sink of files has written, in order."""
    for file in sorted(folder.glob("batch-*.parquet")):
        for batch in pq.ParquetFile(file).iter_batches():
            yield pa.Table.from_batches([batch])


def catch_up(handle: Handle, meanwhile: Callable[[], None]) -> None:
    """Wait until a stream has read all that is there; this thread stays free for signals and for something else."""

    def read_all() -> None:
        # A look at the folder that began before a file was there may end the first wait, but not the second.
        handle.processAllAvailable()
        handle.processAllAvailable()

    with ThreadPoolExecutor(1, "skyband-wait") as pool:
        reading = pool.submit(read_all)
        try:
            while not wait([reading], REFRESH).done:
                meanwhile()
        except BaseException:
            handle.stop()  # or the thread would go on waiting
            raise
        reading.result()


class BatchTotals:
    """Adds up the progress of a stream's batches."""

    def __init__(self) -> None:
        self.report = Report()
        self.batches: dict[int, dict[str, Any]] = {}

    def note(self, handle: Handle) -> None:
        """Take note of the batches that have ended since the last time."""
        self.batches |= {entry["batchId"]: entry for entry in handle.recentProgress if entry["skyband"]}
        found, report = self.batches.values(), self.report
        ours = [entry["skyband"] for entry in found]
        read = [sum(source["numInputRows"] for source in entry["sources"]) for entry in found]  # once for each scan
        report.rows = sum(rows // entry["scans"] for rows, entry in zip(read, ours, strict=True))
        report.late, report.partly_late = sum(e["late"] for e in ours), sum(e["partlyLate"] for e in ours)
        report.rejected, report.answers = sum(e["rejected"] for e in ours), sum(e["answers"] for e in ours)
        report.ahead = sum(e["ahead"] for e in ours)
        report.seconds = sum(e["durationMs"]["total"] for e in ours) / 1_000
        for entry in ours:
            report.keep(entry["kept"], entry["keptLimit"])


@contextmanager
def _reasons(stream: FileStream | None = None) -> Iterator[None]:
    """Turn what Spark says into a sentence; of files that it stumbled over, the local reader knows more."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        text = str(error)
        if ours := re.findall(r"^skyband\.errors\.\w+: (.+)", text, re.MULTILINE):
            raise InputError(ours[-1]) from None
        for _ in stream or ():
            pass
        theirs = re.findall(r"\[[A-Z_.]+\] .+", text) or [text]
        msg = f"Spark failed: {theirs[-1].split(' SQLSTATE')[0]}"
        raise InputError(msg) from error
