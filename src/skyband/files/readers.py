"""One file as record batches: Parquet, CSV and JSON lines, only the wanted columns, block by block.

Parquet says what its columns are. For CSV and JSON lines the first block of the first file decides, and what
comes later must fit. Times in JSON lines are taken as text, since whether they have a time zone must not be lost.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from skyband.errors import InputError

PARQUET_ROWS = 1 << 20
TEXT_BLOCK = 4 << 20

Part = tuple[pa.RecordBatch, float]
"""A batch, and how much of its file the piece has come to by then, from 0 to 1."""


@dataclass(frozen=True)
class Format:
    """How files of one kind are read."""

    schema: Callable[[Path], pa.Schema]  # returns the columns of a file: stored in it, or inferred from its first block
    pieces: Callable[[Path], list[range]]  # returns the pieces of a file that can be read in parallel
    parts: Callable[[Path, pa.Schema, range], Iterator[Part]]  # yields the columns of a schema, typed so, of one piece
    typed: bool  # whether files store their types


def format_of(path: Path) -> Format | None:
    """Return how a file is read, by its suffix; None where there is no way.

    Examples
    --------
    >>> format_of(Path("trades.csv.gz")) is CSV, format_of(Path("trades.txt"))
    (True, None)
    """
    suffix, zipped = suffix_of(path)
    found = FORMATS.get(suffix)
    return None if zipped and found is PARQUET else found


def known_format(path: Path) -> Format:
    """Return how a file is read that is known to be one of ours."""
    return FORMATS[suffix_of(path)[0]]


def suffix_of(path: Path) -> tuple[str, bool]:
    """Return what a file holds, by its suffix in small letters, and whether it is gzipped."""
    name = path.name.lower()
    return Path(name.removesuffix(".gz")).suffix, name.endswith(".gz")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in whatever goes wrong while it is read."""
    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, OSError, EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"cannot read {path}: {_reason(path, error)}") from None  # noqa: EM102


def _reason(path: Path, error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if FORMATS.get(suffix_of(path)[0]) is JSON and (found := _broken_line(path)):
        return found
    first = str(error).strip().splitlines()[0].rstrip(".")
    if "Parquet" in first and "magic bytes" in first:
        return "it is no Parquet file, or its end is missing"
    said = first.removeprefix("JSON parse error: ").split(" in row ")[0].split(". If these")[0]
    decided = "; the first rows of the first file decided the types"
    return said + (decided if "conver" in said or "changed from" in said else "")


def _broken_line(path: Path) -> str | None:
    """Look for the first line that is no JSON object; Arrow's own row numbers count from its block."""
    with suppress(OSError, EOFError), gzip.open(path) if suffix_of(path)[1] else path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip() and not _is_object(line):
                return f"line {number:,} is no JSON object: {line[:60].decode(errors='replace').strip()!r}"
    return None


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


# Parquet.


def _footer(path: Path) -> pq.FileMetaData:
    """Return what a file says of itself; read once, as long as the file is the same."""
    stat = path.stat()
    return _footer_of(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(64)
def _footer_of(path: Path, _modified: int, _size: int) -> pq.FileMetaData:
    return pq.read_metadata(path)


def _parquet_pieces(path: Path) -> list[range]:
    """Cut a file into runs of row groups of about a million rows."""
    footer = _footer(path)
    pieces, start, rows = [], 0, 0
    for group in range(footer.num_row_groups):
        rows += footer.row_group(group).num_rows
        if rows >= PARQUET_ROWS or group == footer.num_row_groups - 1:
            pieces.append(range(start, group + 1))
            start, rows = group + 1, 0
    return pieces


def _parquet_parts(path: Path, schema: pa.Schema, piece: range) -> Iterator[Part]:
    """Read some row groups: one thread a piece, since pieces are read side by side."""
    done = 0
    footer = _footer(path)
    with pq.ParquetFile(path, metadata=footer, memory_map=True) as file:
        rows = sum(footer.row_group(group).num_rows for group in piece)
        if rows <= 2 * PARQUET_ROWS:  # at once, which is faster than batch by batch
            batches = iter(file.read_row_groups(list(piece), schema.names, use_threads=False).to_batches())
        else:
            batches = file.iter_batches(PARQUET_ROWS, list(piece), schema.names, use_threads=False)
        for batch in batches:
            done += batch.num_rows
            yield batch.select(schema.names).replace_schema_metadata(None), done / footer.num_rows


# Text: CSV and JSON lines.


@contextmanager
def _opened(path: Path) -> Iterator[tuple[pa.NativeFile, Callable[[], float]]]:
    """Open a file, unzip it if need be; also return a function that says how much has been read."""
    with pa.OSFile(str(path)) as raw:
        size = max(1, raw.size())
        stream = pa.CompressedInputStream(raw, "gzip") if suffix_of(path)[1] else raw
        yield stream, lambda: min(1.0, raw.tell() / size)


def _guessed(schema: pa.Schema, change: Callable[[pa.DataType], pa.DataType]) -> pa.Schema:
    return pa.schema([(field.name, change(field.type)) for field in schema])


def _csv_schema(path: Path) -> pa.Schema:
    with _opened(path) as (stream, _):
        return _guessed(_csv(stream, None).schema, _csv_type)


def _csv_type(kind: pa.DataType) -> pa.DataType:
    """Leave room for what later blocks may hold: fractions of a second, text where all was empty so far."""
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("us", kind.tz)
    return pa.string() if pa.types.is_null(kind) else kind


def _csv(stream: pa.NativeFile, schema: pa.Schema | None) -> pacsv.CSVStreamingReader:
    options = pacsv.ConvertOptions()
    if schema is not None:
        options.column_types = schema
        options.include_columns = schema.names
    return pacsv.open_csv(stream, read_options=pacsv.ReadOptions(block_size=TEXT_BLOCK), convert_options=options)


def _csv_parts(path: Path, schema: pa.Schema, _: range) -> Iterator[Part]:
    with _opened(path) as (stream, done):
        for batch in _csv(stream, schema):
            columns = [_without_blanks(column) for column in batch.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=schema), done()


def _without_blanks(column: pa.Array) -> pa.Array:
    """Make empty text NULL: CSV has no other way to leave a text out."""
    if not pa.types.is_string(column.type):
        return column
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)


def _json_schema(path: Path) -> pa.Schema:
    with _opened(path) as (stream, _):
        return _guessed(_json(stream, None).schema, _json_type)


def _json_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_timestamp(kind) or pa.types.is_null(kind) else kind


def _json(stream: pa.NativeFile, schema: pa.Schema | None) -> pa.RecordBatchReader:
    behaviour = "infer" if schema is None else "ignore"
    parsing = pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior=behaviour)
    return pajson.open_json(stream, read_options=pajson.ReadOptions(block_size=TEXT_BLOCK), parse_options=parsing)


def _json_parts(path: Path, schema: pa.Schema, _: range) -> Iterator[Part]:
    with _opened(path) as (stream, done):
        for batch in _json(stream, _guessed(schema, _json_type)):
            yield batch.select(schema.names), done()


PARQUET = Format(lambda path: _footer(path).schema.to_arrow_schema(), _parquet_pieces, _parquet_parts, typed=True)
CSV = Format(_csv_schema, lambda _: [range(0)], _csv_parts, typed=False)  # text is one piece
JSON = Format(_json_schema, lambda _: [range(0)], _json_parts, typed=False)
FORMATS = {".parquet": PARQUET, ".pq": PARQUET, ".csv": CSV, ".json": JSON, ".jsonl": JSON, ".ndjson": JSON}
KNOWN = f"{', '.join(FORMATS)}, and .gz behind those of text"
