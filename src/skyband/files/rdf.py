"""Files of RDF as Parquet files, which either engine reads as any other.

Numbers become float64 (whole numbers too, but for times), and all else but true and false text. The first events of the
first file decide what a column holds.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.errors import InputError
from skyband.files.readers import suffix_of

if TYPE_CHECKING:
    from skyband.files.queries import QueryFile
    from skyband.languages.rdf import Pattern

READERS = {".nq": "from_quads", ".nquads": "from_quads", ".jsonld": "from_json"}
ROWS = 20_000


def is_rdf(path: Path) -> bool:
    """Tell whether a file holds RDF, by its suffix.

    Examples
    --------
    >>> is_rdf(Path("mentions.nq.gz")), is_rdf(Path("mentions.csv"))
    (True, False)
    """
    return suffix_of(path)[0] in READERS


def rdf_files(inputs: Sequence[Path]) -> list[Path]:
    """Return the RDF files among inputs, those of folders in order of their names; none where there are others too."""
    found = []
    for path in inputs:
        inside = [one for one in path.rglob("*") if is_rdf(one) and one.is_file()] if path.is_dir() else [path]
        found += sorted(one for one in inside if one is path or not one.name.startswith((".", "_")))
    return found if any(map(is_rdf, found)) else []


def pattern_of(files: Sequence[Path], queries: QueryFile, time: str | None, checkpoint: Path | None) -> Pattern:
    """Return how queries read RDF files; refuse queries that have no pattern, and what needs the files again."""
    if not queries.paths:
        msg = f"{files[0]} is RDF, which is read by the window pattern of queries in RSP-QL; write them into a .rq file"
        raise InputError(msg)
    if checkpoint is not None:
        msg = "RDF is read anew in every run; leave --checkpoint out, or put the events into Parquet files first"
        raise InputError(msg)
    from skyband.languages.rdf import Pattern

    return Pattern(queries.paths, str(queries.id or queries.subject), time or queries.time or "time")


def as_columns(files: Sequence[Path], pattern: Pattern, folder: Path) -> list[Path]:
    """Write the events of RDF files into Parquet files in a folder; return these, in the order of the files."""
    if other := next((path for path in files if not is_rdf(path)), None):
        msg = f"{other} is no RDF, and {next(filter(is_rdf, files))} is; give files of one kind"
        raise InputError(msg)
    making = Columns(pattern, folder)
    return [making.convert(path) for path in files]


class Columns:
    """Converts RDF files to Parquet files in a folder; each appears as a whole, and the first decides the types."""

    def __init__(self, pattern: Pattern, folder: Path) -> None:
        self.pattern, self.folder = pattern, folder
        self.schema: pa.Schema | None = None
        self.count = 0

    def convert(self, path: Path) -> Path:
        """Make a Parquet file of an RDF file; InputError, and no file, where that cannot be read."""
        rows = _rows(path, self.pattern)
        part = list(islice(rows, ROWS))
        self.schema = self.schema or _schema(part, self.pattern)
        made = self.folder / f"{self.count:06d}.parquet"
        with pq.ParquetWriter(draft := made.with_name(f".{made.name}"), self.schema) as writer:
            while part:
                writer.write_table(_table(part, self.schema, path))
                part = list(islice(rows, ROWS))
        self.count += 1
        return draft.rename(made)


def _rows(path: Path, pattern: Pattern) -> Iterator[dict[str, Any]]:
    rdf = import_module("skyband.languages.rdf")
    try:
        with _opened(path) as lines:
            yield from rdf.rows(getattr(rdf, READERS[suffix_of(path)[0]])(lines), pattern)
    except InputError as error:
        msg = f"{path}: {error}"
        raise InputError(msg) from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        msg = f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        raise InputError(msg) from None


def _opened(path: Path) -> IO[str]:
    return gzip.open(path, "rt", encoding="utf-8") if suffix_of(path)[1] else path.open(encoding="utf-8")


def _schema(rows: Sequence[dict[str, Any]], pattern: Pattern) -> pa.Schema:
    names = dict.fromkeys([pattern.time, pattern.id, *pattern.paths.values()])
    kinds = {name: {type(row[name]) for row in rows if row.get(name) is not None} for name in names}
    return pa.schema([(name, _type(kinds[name], whole=name == pattern.time)) for name in names])


def _type(kinds: set[type], whole: bool) -> pa.DataType:
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int} and whole:
        return pa.int64()
    return pa.float64() if kinds and kinds <= {int, float} else pa.string()


def _table(rows: Sequence[dict[str, Any]], schema: pa.Schema, path: Path) -> pa.Table:
    columns = []
    for field in schema:
        values = [_fit(row.get(field.name), field.type) for row in rows]
        try:
            columns.append(pa.array(values, field.type))
        except (pa.ArrowException, OverflowError) as error:
            msg = f"{path}: column {field.name!r} is {field.type} in the first events, and not in a later one: {error}"
            raise InputError(msg) from None
    return pa.table(columns, schema=schema)


def _fit(value: Any, kind: pa.DataType) -> Any:
    if value is None or isinstance(value, bool):
        return value if not pa.types.is_string(kind) or value is None else str(value).lower()
    if pa.types.is_string(kind):
        return str(value)
    return float(value) if pa.types.is_floating(kind) and isinstance(value, int) else value
