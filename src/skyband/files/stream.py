"""Files and folders as one stream of record batches, read a few batches ahead of their processing."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Full, Queue
from threading import Event
from typing import TypeVar

import pyarrow as pa

from skyband.errors import InputError
from skyband.events.batch import StreamColumns, event_times
from skyband.expressions.bind import find_column
from skyband.files.readers import KNOWN, PARQUET, format_of, known_format, naming

PIECES_AHEAD = 3  # one being worked on, two being read
BATCHES_AHEAD = 2
PAUSE = 0.25  # seconds between two looks into a folder
T = TypeVar("T")


@dataclass
class FileStream:
    """The rows of several files, one after the other.

    Iterating it reads the files in threads, a few batches ahead; memory does not grow with their number or size. It can
    be iterated more than once.
    """

    files: tuple[Path, ...]  # in the order in which they are read
    stored: pa.Schema  # the columns to read, as the files hold them
    schema: pa.Schema  # the columns of the batches: as stored, but text that holds the event time becomes timestamps
    done: float = field(default=0.0, compare=False)  # how many bytes of the files have been read

    @property
    def size(self) -> int:
        """How many bytes all files have."""
        return sum(path.stat().st_size for path in self.files)

    def select(self, columns: Sequence[str], time: str | None = None) -> FileStream:
        """Return a stream of only some columns, whose names may differ in case where that is clear.

        The column `time` has the event time: if it holds text, it becomes timestamps, all with or all without a zone.
        """
        found = [find_column(name, self.stored) for name in dict.fromkeys(columns)]
        stored = pa.schema(list(dict.fromkeys(found)))
        schema = stored
        if time in stored.names and pa.types.is_string(stored.field(time).type):
            schema = stored.set(stored.get_field_index(time), pa.field(time, self._time_type(stored.field(time))))
        return replace(self, stored=stored, schema=schema)

    def check(self, path: Path) -> pa.Schema:
        """Refuse a file that lacks a column or has another type there; return all its columns."""
        kind, found = known_format(path), _schema_of(path)
        for column in self.stored:
            if column.name not in found.names:
                has = ", ".join(found.names)
                msg = f"{path} has no column {column.name!r}, which the files before it have; it has {has}"
                raise InputError(msg)
            now, was = found.field(column.name).type, column.type
            times = pa.types.is_timestamp(now) and pa.types.is_timestamp(was)
            zoned = [one.tz is not None for one in (now, was)] if times else []
            same = now == was or (times and all(zoned) and now.unit == was.unit)  # which zone is shown does not matter
            if kind.typed and not same:
                zones = "; all files must have a time zone there, or none" if len(set(zoned)) == 2 else ""
                msg = f"{path}: column {column.name!r} is {now}, but {was} in the files before it{zones}"
                raise InputError(msg)
        return found

    def __iter__(self) -> Generator[pa.RecordBatch]:
        self.done = 0.0
        pieces = (self._piece(path, piece) for path in self.files for piece in self._pieces(path))
        with closing(side_by_side(pieces, PIECES_AHEAD, BATCHES_AHEAD)) as reading:
            for batch, share in reading:
                self.done += share
                if batch.num_rows:
                    yield batch

    def _pieces(self, path: Path) -> list[range]:
        """Return the pieces of a file, whose columns are checked first."""
        self.check(path)
        with naming(path):
            return known_format(path).pieces(path)

    def _piece(self, path: Path, piece: range) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Yield the batches of a piece of a file, and how many of the file's bytes each took."""
        size, before = path.stat().st_size, 0.0
        with naming(path):
            for batch, share in known_format(path).parts(path, self.stored, piece):
                yield _conform(batch, self.schema, path), (share - before) * size
                before = share

    def _time_type(self, column: pa.Field) -> pa.DataType:
        """Return which timestamps the first rows' text is: with a zone or without, as fine as need be."""
        alone = replace(self, stored=pa.schema([column]), schema=pa.schema([column]))
        parts = alone._piece(self.files[0], alone._pieces(self.files[0])[0])
        sample = next((batch.column(0) for batch, _ in parts if batch.num_rows), pa.array([], column.type))
        if sample.null_count == len(sample):
            return column.type
        for unit in ("us", "ns"):
            for zone in ("UTC", None):
                with suppress(pa.ArrowInvalid):
                    sample.cast(pa.timestamp(unit, zone))
                    return pa.timestamp(unit, zone)
        return event_times(sample, StreamColumns(column.name, column.name)).type  # says what is wrong


def read(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], columns: Sequence[str] | None = None
) -> FileStream:
    """Open files and folders as one stream.

    Parameters
    ----------
    paths
        Parquet, CSV and JSON-lines files (the latter two also gzipped), and folders of them: read in order of
        their names, folders within as well; what begins with a dot or an underscore is left out.
    columns
        Which columns to read; all of them when left out.

    Raises
    ------
    InputError
        For what is not there or cannot be read; while iterating, also for a file that differs from the first.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for day in ("mon", "tue"):
    ...         pq.write_table(pa.table({"ts": [1, 2], "price": [3.0, 4.0]}), f"{folder}/{day}.parquet")
    ...     stream = read(folder, ["price"])
    ...     stream.schema.names, sum(batch.num_rows for batch in stream)
    (['price'], 4)
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = _with_content([file for path in given for file in _files(Path(path))])
    schema = _schema_of(files[0])
    stream = FileStream(files, schema, schema)
    return stream if columns is None else stream.select(columns)


def follow(folder: Path, stream: FileStream, stopping: Event) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a folder's files, and of those that appear there, until `stopping` is set.

    All files have the columns of `stream`. They are read in the order in which they were last written, then of their
    names. Each must appear as a whole: write it under a name that begins with a dot, and rename it.
    """
    seen: set[Path] = set()
    while not stopping.is_set():
        fresh = sorted((file for file in walk(folder) if file not in seen and file.stat().st_size), key=age)
        for file in fresh:
            seen.add(file)
            for batch in replace(stream, files=(file,)):
                yield batch
                if stopping.is_set():
                    return
        if not fresh:
            stopping.wait(PAUSE)


def age(file: Path) -> tuple[int, str]:
    """Return the sort key of a file: when it was last written, then its name."""
    return file.stat().st_mtime_ns, file.name


# Which files.


def _files(path: Path) -> list[Path]:
    if not path.exists():
        msg = f"there is no file or folder {path}"
        raise InputError(msg)
    if not path.is_dir():
        if not path.is_file():
            msg = f"{path} is neither a file nor a folder; a stream that cannot be read twice must go into a file first"
            raise InputError(msg)
        if format_of(path) is None:
            msg = f"{path} has no suffix that says how to read it; known are {KNOWN}"
            raise InputError(msg)
        return [path]
    found = sorted(walk(path))
    if not found:
        msg = f"the folder {path} holds no file to read; known suffixes are {KNOWN}"
        raise InputError(msg)
    return found


def walk(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that can be read, in order of their names."""
    with naming(folder):
        entries = sorted(folder.iterdir())
    for entry in entries:
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            yield from walk(entry)
        elif format_of(entry) is not None:
            yield entry


def _with_content(files: Sequence[Path]) -> tuple[Path, ...]:
    """Leave out text files without a byte: they have no rows, and no header that could differ."""
    kept = []
    for path in files:
        with naming(path):
            if format_of(path) is PARQUET or path.stat().st_size:
                kept.append(path)
    if not kept:
        msg = f"there is nothing to read: {', '.join(map(str, files))} {'is' if len(files) == 1 else 'are'} empty"
        raise InputError(msg)
    return tuple(kept)


# One schema.


def _schema_of(path: Path) -> pa.Schema:
    with naming(path):
        return known_format(path).schema(path).remove_metadata()


def _conform(batch: pa.RecordBatch, schema: pa.Schema, path: Path) -> pa.RecordBatch:
    """Give a batch the stream's types: text becomes times, other zones the first file's."""
    if batch.schema.equals(schema):
        return batch
    columns = [_cast(column, field, path) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, wanted: pa.Field, path: Path) -> pa.Array:
    if column.type == wanted.type:
        return column
    try:
        return column.cast(wanted.type)
    except pa.ArrowInvalid as error:
        found = str(error).split(": ", 1)[-1].strip().rstrip(".")
        msg = f"{path}: column {wanted.name!r} is {wanted.type} in what was read before, but here: {found}"
        raise InputError(msg) from None


# Threads that read ahead.


class Ahead(Iterator[T]):
    """An iterator run by a thread of a pool, from the start on, at most `depth` items ahead.

    The threads of the pool stay, so the memory that one piece was read into serves the next.

    Examples
    --------
    >>> with ThreadPoolExecutor(1) as pool:
    ...     list(Ahead(iter("abc"), 2, pool))
    ['a', 'b', 'c']
    """

    def __init__(self, items: Iterator[T], depth: int, pool: ThreadPoolExecutor) -> None:
        self._items = items
        self._queue: Queue[T | None] = Queue(depth)  # None at the end
        self._stop = Event()
        self._filling = pool.submit(self._fill)

    def __next__(self) -> T:
        if self._stop.is_set():
            raise StopIteration
        item = self._queue.get()
        if item is not None:
            return item
        self.close()
        self._filling.result()  # raises the error that ended the reading, if one did
        raise StopIteration

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._stop.set()
        wait([self._filling])

    def _fill(self) -> None:
        try:
            for item in self._items:
                if not self._put(item):
                    return
        finally:
            self._put(None)

    def _put(self, item: T | None) -> bool:
        """Wait for room; False when the iterator was closed meanwhile."""
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except Full:
                continue
            return True
        return False


def side_by_side(sources: Iterable[Iterator[T]], width: int, depth: int) -> Generator[T]:
    """Yield the items of one source after the other, while the next ones are being read already.

    Examples
    --------
    >>> list(side_by_side((iter(word) for word in ("ab", "", "c")), 2, 2))
    ['a', 'b', 'c']
    """
    running: deque[Ahead[T]] = deque()
    with ThreadPoolExecutor(width, "skyband-reader") as pool:
        try:
            for source in sources:
                running.append(Ahead(source, depth, pool))
                if len(running) == width:
                    yield from running[0]
                    running.popleft()
            while running:
                yield from running[0]
                running.popleft()
        finally:
            for one in running:
                one.close()
