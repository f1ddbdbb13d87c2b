"""Tables into files: Parquet, CSV or JSON lines by suffix, part by part, and all there or not at all.

Every file is written under a temporary name in its folder and gets its own name when everything is done. Times
are ISO 8601 in UTC in text. JSON has no infinite numbers: they are written as the texts "Infinity", "-Infinity"
and "NaN".
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from skyband.errors import InputError
from skyband.files import durable
from skyband.files.readers import CSV, JSON, KNOWN, PARQUET, Format, format_of, known_format, suffix_of

ENOUGH_ROWS = 1 << 17
STDOUT = "-"


# Formats.


class CsvWriter:
    """Writes CSV with a header; text is quoted, so that empty text and NULL differ."""

    def __init__(self, stream: pa.NativeFile, schema: pa.Schema) -> None:
        self.writer = pacsv.CSVWriter(stream, pa.schema([(f.name, _csv_type(f.type)) for f in schema]))
        self.close = self.writer.close

    def write_table(self, table: pa.Table) -> None:
        """Add rows."""
        columns = [column if _csv_type(column.type) == column.type else as_text(column) for column in table.columns]
        self.writer.write_table(pa.table(columns, table.column_names))


class JsonWriter:
    """Writes one JSON object a line, with all columns in each."""

    def __init__(self, stream: pa.NativeFile, _: pa.Schema) -> None:
        self.stream = stream

    def write_table(self, table: pa.Table) -> None:
        """Add rows, made column by column."""
        if not table.num_rows:
            return
        cells: list[Any] = []
        for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
            cells += [("{" if place == 0 else ", ") + json.dumps(name, ensure_ascii=False) + ": ", _json(column)]
        lines = pc.binary_join_element_wise(*cells, "}\n", "")
        self.stream.write("".join(lines.to_pylist()).encode())

    def close(self) -> None:
        """Nothing is left to write."""


WRITERS: dict[Format, Callable[[pa.NativeFile, pa.Schema], Any]] = {
    PARQUET: pq.ParquetWriter, CSV: CsvWriter, JSON: JsonWriter,
}  # fmt: skip
"""Arrow's own writer of Parquet, in which each table becomes a row group, and others with its words."""


# Columns as text.


def _csv_type(kind: pa.DataType) -> pa.DataType:
    simple = pa.types.is_primitive(kind) and not pa.types.is_temporal(kind)
    return kind if simple or pa.types.is_string(kind) or pa.types.is_decimal(kind) else pa.string()


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as ISO 8601, anything else that is no simple value as JSON."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        zoned = column.cast(pa.timestamp(kind.unit, "UTC")) if kind.tz else column
        return pc.replace_substring(zoned.cast(pa.string()), " ", "T", max_replacements=1)
    if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.string())
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type).cast(pa.string())
    write = _dumps if pa.types.is_nested(kind) else _plainly
    return pa.chunked_array([pa.array([None if v is None else write(v) for v in column.to_pylist()], pa.string())])


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plainly)


def _plainly(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _json(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values as JSON."""
    kind = column.type
    if pa.types.is_floating(kind):
        made = _json_numbers(column.cast(pa.float64()))
    elif _csv_type(kind) == kind and not pa.types.is_string(kind):  # whole numbers, decimals, true and false
        made = column.cast(pa.string())
    elif pa.types.is_nested(kind):
        made = as_text(column)
    else:
        made = _quoted(column if pa.types.is_string(kind) else as_text(column))
    return made.fill_null("null")


def _json_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    text = column.cast(pa.string())
    whole = pc.match_substring_regex(text, r"^-?\d+$")
    text = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
    for word, meant in (("inf", '"Infinity"'), ("-inf", '"-Infinity"'), ("nan", '"NaN"')):
        text = pc.if_else(pc.equal(text, word), meant, text)
    return text


def _quoted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts as JSON; each different one is escaped once."""
    coded = column.combine_chunks().dictionary_encode()
    escaped = pa.array([_dumps(value) for value in coded.dictionary.to_pylist()], pa.string())
    return pa.chunked_array([escaped.take(coded.indices)])


# Whole files.


def check(path: Path, overwrite: bool) -> None:
    """Refuse a place where nothing can be written, before any work is done."""
    if format_of(path) is None:
        msg = f"cannot tell from {path} how to write it; known suffixes are {KNOWN}"
        raise InputError(msg)
    if not path.parent.is_dir():
        msg = f"there is no folder {path.parent} to write {path.name} to; make it first"
        raise InputError(msg)
    if path.is_dir():
        msg = f"{path} is a folder; name a file"
        raise InputError(msg)
    if path.exists() and not overwrite:
        msg = f"{path} exists already; name another file, or add --overwrite to replace it"
        raise InputError(msg)


class Output:
    """Rows on their way into one file, under a temporary name until `keep`; without a path, to standard output."""

    def __init__(self, path: Path | None, schema: pa.Schema) -> None:
        self.path = path
        self.schema = schema
        self.rows = 0
        self._waiting: list[pa.Table] = []
        if path is None:
            self._stream = pa.PythonFile(sys.stdout.buffer, mode="w")
        else:
            self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
            self._stream = pa.output_stream(str(self._part), compression="gzip" if suffix_of(path)[1] else None)
        self._writer = WRITERS[JSON if path is None else known_format(path)](self._stream, schema)

    def write(self, table: pa.Table) -> None:
        """Add rows; small tables are gathered first, so that Parquet gets no small row groups."""
        self.rows += table.num_rows
        self._waiting.append(table)
        if sum(waiting.num_rows for waiting in self._waiting) >= ENOUGH_ROWS or self.path is None:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
            self._waiting = []

    def close(self) -> None:
        """Write what is waiting and end the file."""
        self._flush()
        self._end()

    def _end(self) -> None:
        self._writer.close()
        if self.path is None:
            sys.stdout.buffer.flush()  # and leave it open for others
        else:
            self._stream.close()

    def keep(self) -> None:
        """Give the file its name; then it outlives a power cut."""
        if self.path is not None:
            durable.keep(self._part, self.path)

    def drop(self) -> None:
        """Remove what was written so far."""
        with suppress(OSError, pa.ArrowException):  # what made the run fail matters more
            self._end()
        if self.path is not None:
            self._part.unlink(missing_ok=True)


class Outputs:
    """The files of one run, which appear together at its end."""

    def __init__(self) -> None:
        self.all: list[Output] = []

    def open(self, path: Path | None, schema: pa.Schema) -> Output:
        """Begin one more file; None writes JSON lines to standard output."""
        output = Output(path, schema)
        self.all.append(output)
        return output


@contextmanager
def outputs() -> Iterator[Outputs]:
    """Keep all files if the block ends well, else none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder, "answers.jsonl")
    ...     with outputs() as opened:
    ...         opened.open(target, pa.schema([("x", pa.float64())])).write(pa.table({"x": [1.0, float("inf")]}))
    ...     print(target.read_text(), end="")
    {"x": 1.0}
    {"x": "Infinity"}
    """
    made = Outputs()
    try:
        yield made
        for output in made.all:
            output.close()
    except BaseException:
        for output in made.all:
            output.drop()
        raise
    for output in made.all:
        output.keep()
