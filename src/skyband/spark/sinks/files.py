"""Rows into files, one for each batch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import pyarrow as pa

from skyband.errors import InputError
from skyband.files import durable
from skyband.files.writers import ENOUGH_ROWS, outputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Format = Literal["parquet", "jsonl", "csv"]


class Files:
    """A folder with one file for each batch: ``batch-00000012.parquet``.

    A file appears under its name when it is complete and on the disk, and a replayed batch replaces it: who reads the
    folder sees the old file or the new one, never a part, and a batch that is done outlives a power cut. The same rows
    give the same bytes. ``spark.read.parquet(folder)``
    reads it all; add the option ``mergeSchema`` where queries with other columns came or went.

    Batches are numbered by the checkpoint: give each stream, each of its side outputs and each new checkpoint a
    folder of its own.

    Parameters
    ----------
    folder
        On the driver's machine or mounted there (with Spark Connect: the server's); made if it does not exist.
    format
        ``"parquet"``, ``"jsonl"`` or ``"csv"``.
    """

    def __init__(self, folder: str | os.PathLike[str], format: Format = "parquet") -> None:  # noqa: A002 - Spark's word
        text = os.fspath(folder)
        if format not in get_args(Format):
            msg = f"format is {format!r}; files can be {', '.join(map(repr, get_args(Format)))}"
            raise InputError(msg)
        if not text or "://" in text:  # no more than the scheme is shown: there may be a password behind it
            shown = text.partition("://")[0] + "://…" if text else "''"
            msg = (
                f"{shown} is no folder of this machine; mount it, or give a function that writes a DataFrame there, "
                "and for a database Sql(url)"
            )
            raise InputError(msg)
        self.folder = Path(text)
        self.format = format
        self._clean = False

    def __repr__(self) -> str:
        return f"Files({str(self.folder)!r}, format={self.format!r})"

    def write(self, answers: pa.Table, batch_id: int, session: SparkSession) -> None:  # noqa: ARG002 - as every sink
        """Write or replace the file of a batch; a batch without rows has none."""
        if not self._clean:
            self._prepare()
            self._clean = True
        path = self.folder / f"batch-{batch_id:08}.{self.format}"
        if not len(answers):
            durable.remove(path)
            return
        whole = answers.combine_chunks()  # how rows were cut into chunks shows in the bytes of Parquet
        with outputs() as opened:
            file = opened.open(path, whole.schema)
            for start in range(0, len(whole), ENOUGH_ROWS):
                file.write(whole.slice(start, ENOUGH_ROWS))

    def _prepare(self) -> None:
        """Make the folder, and remove what a killed process left half written."""
        try:
            durable.make(self.folder)
        except OSError as error:
            msg = f"cannot make the folder {self.folder}: {error.strerror}; name another"
            raise InputError(msg) from None
        for left in self.folder.glob(".batch-*.part"):
            durable.remove(left)
