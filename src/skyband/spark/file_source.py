"""Files as a streaming DataFrame with the very columns, types and order that a local run has.

Types are those that the local reader found. Text is read as text and turned into numbers and times here, so that
what is empty, what is a time and what is an error are the same in both engines.

Spark takes files in the order of their changes, and people mean the order of their names. So the stream reads a
folder of links, and gets them one after the other: see `Feed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from skyband.errors import InputError
from skyband.events.keys import is_text
from skyband.files import durable
from skyband.files.readers import CSV, PARQUET, format_of, naming
from skyband.files.stream import FileStream
from skyband.spark.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOREVER = "36500d"
CSV_OPTIONS = {"header": True, "escape": '"', "columnPruning": False}
"""Quotes are doubled, as everywhere but in Spark; all columns are parsed, so that a line with too few is noticed."""
_SIMPLE = {
    pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT",
    pa.uint8(): "SMALLINT", pa.uint16(): "INT", pa.uint32(): "BIGINT", pa.uint64(): "DECIMAL(20, 0)",
    pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "STRING", pa.large_string(): "STRING",
    pa.binary(): "BINARY", pa.large_binary(): "BINARY", pa.date32(): "DATE",
}  # fmt: skip
_ZONED = "[T ].*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_TO_THE_MINUTE = "([T ][0-9]{2}:[0-9]{2})(Z|[+-].*)?$"


def read_stream(session: SparkSession, folder: Path, stream: FileStream, time: str) -> DataFrame:
    """Return the files, or links to them, that come into a folder as a streaming DataFrame.

    The folder must exist, the session have the settings of `skyband.spark.session`. `stream` has the same files as the
    local engine sees them; `time` is the column of event times.
    """
    first = stream.files[0]
    kind, reader = format_of(first), session.readStream.option("maxFileAge", FOREVER).option("mode", "FAILFAST")
    if kind is PARQUET:
        stored = _parquet_types(first, stream.stored)
        raw = reader.schema(_ddl_of(stored)).parquet(str(folder))
        columns = [_from_parquet(name, stored[name], stream.schema.field(name).type, time) for name in stored]
    elif kind is CSV:
        places = stream.check(first).names
        texts = _ddl_of(dict.fromkeys(_different(places), "STRING"))
        raw = reader.options(**CSV_OPTIONS).schema(texts).csv(str(folder))
        columns = [_from_text(quoted(name), stream.schema.field(name).type, _NOTHING) for name in stream.schema.names]
    else:
        stored = {field.name: _ddl(field.type, field.name) for field in stream.stored}
        raw = reader.schema(_ddl_of(stored)).json(str(folder))
        columns = [_from_json(name, stored[name], stream.schema.field(name).type) for name in stored]
    names = map(quoted, stream.schema.names)
    return raw.selectExpr(*(f"{column} AS {name}" for column, name in zip(columns, names, strict=True)))


def _different(names: Sequence[str]) -> list[str]:
    """Give columns of the same name, which no query can use, different ones.

    Examples
    --------
    >>> _different(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    return [name if names.index(name) == place else f"{name} ({place})" for place, name in enumerate(names)]


# Types.


def _ddl_of(columns: dict[str, str]) -> str:
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())


def _ddl(kind: pa.DataType, name: str) -> str:
    """Return Spark's word for a type.

    Examples
    --------
    >>> _ddl(pa.list_(pa.struct([("a", pa.int64())])), "x")
    'ARRAY<STRUCT<`a`: BIGINT>>'
    """
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if pa.types.is_timestamp(kind):
        return "BIGINT" if kind.unit == "ns" else "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    if pa.types.is_decimal(kind) and kind.precision <= 38:
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_dictionary(kind):
        return _ddl(kind.value_type, name)
    if pa.types.is_duration(kind):
        return "BIGINT"
    if pa.types.is_fixed_size_binary(kind):
        return "BINARY"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{_ddl(kind.value_type, name)}>"
    if pa.types.is_map(kind):
        return f"MAP<{_ddl(kind.key_type, name)}, {_ddl(kind.item_type, name)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {_ddl(f.type, name)}' for f in kind)}>"
    msg = f"column {name!r} is {kind}, which Spark cannot read; leave it out of the queries, or add --engine local"
    raise InputError(msg)


def _parquet_types(file: Path, schema: pa.Schema) -> dict[str, str]:
    with naming(file):
        found = pq.read_metadata(file).schema
    old = {column.path for column in map(found.column, range(len(found))) if column.physical_type == "INT96"}
    return {f.name: "TIMESTAMP" if f.name in old else _ddl(f.type, f.name) for f in schema}


# Columns as SQL.

_WORDS = ", ".join(f"'{word}'" for word in pacsv.ConvertOptions().null_values)
_NOTHING = f"{{0}} IN ({_WORDS})"  # what stands for nothing in a CSV file, but in a column of text


def _from_parquet(name: str, stored: str, wanted: pa.DataType, time: str) -> str:
    column = quoted(name)
    if pa.types.is_timestamp(wanted) and stored == "BIGINT":  # Spark has no nanoseconds
        instant = f"timestamp_micros(({column} - pmod({column}, 1000L)) div 1000L)"
        return instant if wanted.tz else f"cast({instant} AS TIMESTAMP_NTZ)"
    if pa.types.is_uint64(wanted) and name == time:
        return f"cast({column} AS BIGINT)"
    return _from_json(name, stored, wanted)


def _from_json(name: str, stored: str, wanted: pa.DataType) -> str:
    """Return a column as it is, or as a time where it is text that holds the event time."""
    column = quoted(name)
    return _from_text(column, wanted, "false") if stored == "STRING" and not is_text(wanted) else column


def _from_text(column: str, wanted: pa.DataType, nothing: str) -> str:
    """Return text as values of a type; what is no such value stops the run, as it does locally."""
    if pa.types.is_timestamp(wanted):
        value = _time_from_text(column, wanted)
    elif wanted in _SIMPLE and not is_text(wanted):
        value = f"cast({column} AS {_SIMPLE[wanted]})"
    else:
        return column  # empty text is NULL already
    return f"CASE WHEN {nothing.format(column)} THEN NULL ELSE {value} END"


def _time_from_text(column: str, wanted: pa.DataType) -> str:
    """Return ISO 8601 text as times; all with a zone, or all without, as the first file began."""
    kind, fits = ("TIMESTAMP", "") if wanted.tz else ("TIMESTAMP_NTZ", "NOT ")
    longer = f"regexp_replace({column}, '{_TO_THE_MINUTE}', '$1:00$2')"  # Spark wants seconds
    time = f"coalesce(try_cast({column} AS {kind}), cast({longer} AS {kind}))"
    other = f"raise_error('the times are not all with a time zone, or all without: ' || {column})"
    return f"CASE WHEN {column} IS NULL THEN NULL WHEN {fits}{column} RLIKE '{_ZONED}' THEN {time} ELSE {other} END"


# Files in order.


class Feed:
    """Gives files to a stream: links in a folder, numbered in the order in which they were given.

    The links also say what has been given already, so a later run goes on with the rest.
    """

    def __init__(self, folder: Path, stream: FileStream) -> None:
        self.folder, self.stream = folder, stream
        durable.make(folder)
        self.given = [link.readlink() for link in sorted(folder.iterdir())]
        self.files: list[Path] = []
        before = Counter(self.given)
        for file in (file.resolve() for file in stream.files):
            if before[file]:
                before[file] -= 1  # a file that is named twice is read twice
            else:
                self.files.append(file)
        first, *others = [*self.given, *self.files]
        if other := next((file for file in others if format_of(file) is not format_of(first)), None):
            msg = (
                f"{first} and {other} have different formats, and Spark reads one at a time; run them apart, or add "
                "--engine local"
            )
            raise InputError(msg)
        self.columns = stream.check(stream.files[0]).names

    def batches(self, size: int) -> Iterator[list[Path]]:
        """Give the files, about so many bytes at a time but at least one; yields each batch once it is there."""
        batch: list[Path] = []
        for file in self.files:
            if batch and size_of([*batch, file]) > size:
                yield self._give(batch)
                batch = []
            self._check(file)
            batch.append(file)
        if batch:
            yield self._give(batch)

    def _check(self, file: Path) -> None:
        """Refuse a file that differs from the first."""
        found = self.stream.check(file).names
        if format_of(file) is CSV and found != self.columns:
            msg = (
                f"{file} has the columns {', '.join(found)}, and the first file has {', '.join(self.columns)}; Spark "
                "reads CSV by place, so give all files the same columns in the same order, or add --engine local"
            )
            raise InputError(msg)

    def _give(self, batch: list[Path]) -> list[Path]:
        links = {}
        for number, file in enumerate(batch, len(self.given)):
            links[f"{number:012}{'.gz' if file.name.lower().endswith('.gz') else ''}"] = file
        self.given += batch
        durable.link(self.folder, links)
        return batch


def size_of(files: Iterable[Path]) -> int:
    """Return how many bytes files have."""
    return sum(file.stat().st_size for file in files)
