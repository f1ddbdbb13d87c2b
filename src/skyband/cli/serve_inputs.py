"""Streams to serve: files that come into a folder, on either engine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rich.console import Console

from skyband.cli.progress import compiling, starting_spark
from skyband.engine.limits import WindowLimits
from skyband.errors import InputError
from skyband.events.batch import StreamColumns
from skyband.files.job import Job
from skyband.files.rdf import Columns, rdf_files
from skyband.files.stream import PAUSE, FileStream, age, follow, read
from skyband.files.writers import STDOUT
from skyband.queries.query import Query
from skyband.remote.remote import Remote
from skyband.serve.local_stream import LocalStream
from skyband.serve.spark_stream import Recorder, SparkStream
from skyband.serve.streams import ServedStream
from skyband.times import not_negative, parse_duration

if TYPE_CHECKING:
    from skyband.languages.rdf import Pattern

logger = logging.getLogger(__name__)
WATERMARK = "10 seconds"
MAX_AHEAD = "1 day"
TRIAL_BUDGET = "30 seconds"


@dataclass(frozen=True)
class Input:
    """Files that come into a folder, and the queries over them to begin with."""

    folder: Path
    queries: Sequence[Query]
    source: StreamColumns
    watermark: str = WATERMARK
    algorithm: str = "staircase"
    services: Mapping[str, Remote] = field(default_factory=dict)
    limits: WindowLimits = field(default_factory=WindowLimits)
    max_ahead: str = MAX_AHEAD
    trial_budget: str = TRIAL_BUDGET

    def stream(self) -> FileStream:
        """Return the files that are there, with all their columns."""
        if not self.folder.is_dir():
            msg = f"{self.folder} is no folder; give one in which files appear (the first must be there already)"
            raise InputError(msg)
        whole = read([self.folder])
        self.source.check(whole.schema)
        return whole.select(whole.schema.names, self.source.time)

    def warm_up(self, stream: FileStream, console: Console) -> None:
        """Load or compile the kernels before anyone waits for an answer."""
        job = Job(self.queries, [self.folder], Path(STDOUT), self.source, self.algorithm, max_ahead=self.max_ahead)
        with compiling(console):
            job.warm_up(list(islice(stream, 1)))


@contextmanager
def from_rdf(folder: Path, pattern: Pattern) -> Iterator[Path]:
    """Give a folder in which the events of RDF files appear as columns, as long as the block lasts.

    A file that comes later and cannot be read is left out, and the log says so.
    """
    stopping, seen = threading.Event(), rdf_files([folder])
    with TemporaryDirectory(prefix="skyband-") as made:
        making = Columns(pattern, Path(made))
        for file in seen:
            making.convert(file)
        thread = threading.Thread(target=_follow_rdf, args=(folder, making, set(seen), stopping), daemon=True)
        thread.start()
        try:
            yield making.folder
        finally:
            stopping.set()
            thread.join()


def _follow_rdf(folder: Path, making: Columns, seen: set[Path], stopping: threading.Event) -> None:
    while not stopping.wait(PAUSE):
        for file in sorted({*rdf_files([folder])} - seen, key=age):
            seen.add(file)
            try:
                making.convert(file)
            except InputError:
                logger.exception("a file is left out")


def locally(given: Input, console: Console) -> LocalStream:
    """Start a stream on the local engine."""
    stream, stopping = given.stream(), threading.Event()
    given.warm_up(stream, console)
    return LocalStream(
        given.queries, follow(given.folder, stream, stopping), schema=stream.schema, source=given.source,
        delay=parse_duration(given.watermark, "watermark"), algorithm=given.algorithm, services=given.services,
        limits=given.limits, max_ahead=not_negative(given.max_ahead, "max_ahead"), stopping=stopping,
    )  # fmt: skip


@contextmanager
def on_spark(given: Input, checkpoint: Path | None, master: str | None, console: Console) -> Iterator[ServedStream]:
    """Run a stream on Spark, as long as the block lasts."""
    from skyband.spark.file_source import read_stream
    from skyband.spark.session import session
    from skyband.spark.start import start

    stream, recorder, source = given.stream(), Recorder(), given.source
    with ExitStack() as stack:
        with starting_spark(console):
            spark = stack.enter_context(session(master))
        given.warm_up(stream, console)
        frame = read_stream(spark, given.folder.absolute(), stream, source.time)
        handle = start(
            frame, given.queries, time=source.time, id=source.id, time_unit=source.time_unit, sink=recorder,
            watermark=given.watermark, max_ahead=given.max_ahead, checkpoint=checkpoint, algorithm=given.algorithm,
            services=given.services, max_window_ends=given.limits.ends, max_cuts=given.limits.cuts,
            trial_budget=given.trial_budget,
        )  # fmt: skip
        served = SparkStream(handle, recorder)
        stack.callback(served.close)
        yield served
