"""Files as they come into a folder: a stream that does not end by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pyarrow as pa

from skyband.files.stream import FileStream, walk

PAUSE = 0.25


def follow(folder: Path, stream: FileStream, stopping: Event) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a folder's files, and of those that appear there, until someone wants it to stop.

    Files are taken in the order in which they were last written, then of their names. Each must appear as a whole:
    write it under a name that begins with a dot, and rename it.

    Parameters
    ----------
    folder
        Where the files are.
    stream
        The files that are there at the beginning, which say what columns all have.
    stopping
        Set by who wants it to stop.
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
    """Return what files are taken in the order of: when they were last written, then their names."""
    return file.stat().st_mtime_ns, file.name
