"""Query files: TOML with one ``[[query]]`` table a query, and what they have in common above, services included.

Or a text in RSP-QL or SQL, with a mapping beside it that says what the text does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from skyband import algorithms
from skyband.errors import InputError, LanguageError, QueryError
from skyband.files.services import remote_of
from skyband.files.stream import read
from skyband.languages import read_rspql, read_sql
from skyband.languages.mapping import SETTINGS, mapping_of
from skyband.languages.sql import common_id, only_time
from skyband.languages.sql.dialects import DEFAULT
from skyband.languages.toml import load_toml, read_text
from skyband.queries.query import Query
from skyband.remote.remote import Remote

_LENGTHS = ("size", "slide", "offset", "cumulative", "step", "every")


@dataclass(frozen=True)
class QueryFile:
    """The queries of a file, and the columns, the watermark, the algorithm and the services that it names for them."""

    queries: tuple[Query, ...]
    time: str | None = None
    id: str | None = None
    time_unit: str | None = None
    watermark: str | None = None
    algorithm: str | None = None
    services: Mapping[str, Remote] = field(default_factory=dict)
    subject: str | None = None
    """What a text calls its ids: their column, unless `id` or an option names another."""
    paths: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """The columns of the windows' patterns, by the predicates that lead to them; only RSP-QL has them."""
    noted: tuple[str, ...] = ()
    """What a text in SQL says about where rows come from and go to, which is not used."""


@dataclass(frozen=True)
class SqlOptions:
    """What is known when a text in SQL is read, besides the text."""

    dialect: str = DEFAULT
    every: str | None = None
    """How often rankings of all time are answered."""
    time: str | None = None
    schema: pa.Schema | None = None
    """The columns of the input."""
    lacking: frozenset[str] = frozenset()
    """Those that have NULL among the first rows."""

    @classmethod
    def over(cls, inputs: Sequence[Path], **options: Any) -> Self:
        """Look at the first rows of some files."""
        stream = read(inputs)
        with closing(iter(stream)) as rows:
            first = next(rows, None)
        lacking = () if first is None else (name for name in first.schema.names if first[name].null_count)
        return cls(schema=stream.schema, lacking=frozenset(lacking), **options)


def load(path: Path, mapping: Path | None = None, sql: SqlOptions | None = None) -> QueryFile:
    r"""Read a query file: TOML, RSP-QL or SQL, by its suffix.

    The mapping, for RSP-QL and SQL, is a ``.toml`` file with what the text does not say. Raises InputError for a file
    that cannot be read, and QueryError with the problems of all queries.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "queries.toml")
    ...     _ = file.write_text('time = "ts"\n[[query]]\nname = "top"\nk = 3\nsize = "1 hour"\nscore = "price"\n')
    ...     load(file).queries[0].name
    'top'
    """
    match path.suffix.lower():
        case ".rq":
            return _load_rspql(path, mapping)
        case ".sql":
            return _load_sql(path, mapping, sql or SqlOptions())
        case ".toml" if mapping is None:
            given = load_toml(path)
            queries, problems = queries_of(_tables(given))
            return _query_file(queries, _top_problems(given) + problems, given, path)
        case ".toml":
            msg = f"{path} says all by itself; --mapping is for queries in RSP-QL and SQL"
            raise InputError(msg)
    msg = f"{path} is no query file; queries are written in a .toml, .rq (RSP-QL) or .sql file"
    raise InputError(msg)


def _load_rspql(path: Path, mapping: Path | None) -> QueryFile:
    given = {} if mapping is None else load_toml(mapping)
    names = {key: value for key, value in given.items() if key != "service"}
    meaning = mapping_of(names, "" if mapping is None else mapping.name)
    with _naming(path):
        found = read_rspql(read_text(path), meaning)
    queries = [one.query for one in found]
    paths = {way: column for one in found for way, column in one.paths.items()}
    file = _query_file(queries, repeated(queries), given, path)
    return replace(file, subject=_same("id", [one.id for one in found], path), paths=paths)


def _load_sql(path: Path, mapping: Path | None, sql: SqlOptions) -> QueryFile:
    given = {} if mapping is None else load_toml(mapping)
    if unknown := [key for key in given if key not in SETTINGS]:
        msg = f"{mapping}: unknown key {', '.join(map(repr, unknown))}; for SQL, allowed are {', '.join(SETTINGS)}"
        raise QueryError(msg)
    if problems := _not_text(given):
        raise QueryError([f"{mapping}: {problem}" for problem in problems])
    time = sql.time or given.get("time") or only_time(sql.schema)
    with _naming(path):
        found = read_sql(
            read_text(path), name=path.stem, dialect=sql.dialect, time=time, columns=sql.schema, every=sql.every
        )
    _same("table", [one.table.split(".")[-1] for one in found], path)
    queries, said = [one.query for one in found], {"watermark": found[0].watermark, "time_unit": found[0].time_unit}
    times = [one.time for one in found if one.time is not None]
    if times:
        said["time"] = _same("time", times, path)
    known = {key: value for key, value in said.items() if value is not None}
    file = _query_file(queries, repeated(queries), {**known, **given}, path)
    return replace(file, subject=common_id(found, sql.schema, sql.lacking), noted=found[0].noted)


def _same(what: str, columns: Sequence[str], path: Path) -> str:
    """Return the column that all queries of a text have for something."""
    if len(set(columns)) > 1:
        msg = (
            f"{path}: the queries have different {what if what == 'table' else 'columns as the ' + what}"
            f"{'s' if what == 'table' else ''}: {', '.join(dict.fromkeys(columns))}; put them into files of their own"
        )
        raise QueryError(msg)
    return columns[0]


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file of a text that cannot be read."""
    try:
        yield
    except LanguageError as error:
        msg = f"{path}: {error}"
        raise QueryError(msg) from None


def _query_file(queries: Sequence[Query], problems: list[str], given: Mapping[str, Any], path: Path) -> QueryFile:
    """Add the settings and services of a file or mapping to its queries; refuse it with all its problems."""
    services: dict[str, Remote] = {}
    if isinstance(algorithm := given.get("algorithm"), str):
        try:
            algorithms.find(algorithm)
        except QueryError as error:
            problems.append(str(error))
    tables = given["service"] if isinstance(given.get("service"), Mapping) else {}
    for name, table in tables.items():
        try:
            services[name] = remote_of(name, table)
        except InputError as error:
            problems.append(str(error))
    problems += [
        f"query {query.name!r}: it joins with the service {query.join.service!r}, and there is no table "
        f"[service.{query.join.service}]"
        for query in queries
        if query.join is not None and query.join.service not in tables
    ]
    if problems:
        raise QueryError([f"{path.name}: {problem}" for problem in problems])
    return QueryFile(tuple(queries), **{key: given[key] for key in SETTINGS if key in given}, services=services)


def queries_of(tables: Iterable[Mapping[str, Any]]) -> tuple[list[Query], list[str]]:
    """Make queries of plain values; returns all that is wrong with them as well."""
    queries, problems = [], []
    for number, table in enumerate(tables, 1):
        found: list[str] = []
        given = _with_units(table, found)
        if isinstance(window := table.get("window"), Mapping):
            given["window"] = _with_units(window, found)
        try:
            queries.append(Query.from_dict(given))
        except QueryError as error:
            found += error.problems
        name = table.get("name")
        head = f"query {name!r}" if isinstance(name, str) else f"query number {number}"
        problems += [f"{head}: {problem}" for problem in found]
    return queries, problems + repeated(queries)


def _with_units(table: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """Return what a table holds; of lengths that have no unit, say so, and go on with some unit."""
    bare = {key: table[key] for key in _LENGTHS if _is_bare(table.get(key))}
    problems += [_without_unit(key, value) for key, value in bare.items()]
    return {**table, **{key: f"{value} us" for key, value in bare.items()}}


def _is_bare(value: Any) -> bool:
    """Tell whether a length of time or of events has no unit; 0 needs none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value != 0


def _without_unit(key: str, value: float) -> str:
    events = f", or '{value} events'" if key in ("size", "slide") else ""
    return f"{key} is {value}, without a unit; write for example '{value} seconds'{events}"


def repeated(queries: Sequence[Query]) -> list[str]:
    """List the names that more than one query has."""
    twice = [name for name, count in Counter(query.name for query in queries).items() if count > 1]
    return [f"query {name!r}: there is more than one of this name; give each its own" for name in twice]


def _tables(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    tables = given.get("query", [])
    return [table for table in tables if isinstance(table, Mapping)] if isinstance(tables, list) else []


def _not_text(given: Mapping[str, Any]) -> list[str]:
    return [
        f"{key} is {given[key]!r}; give a text" for key in SETTINGS if key in given and not isinstance(given[key], str)
    ]


def _top_problems(given: Mapping[str, Any]) -> list[str]:
    problems = []
    if unknown := [key for key in given if key not in (*SETTINGS, "query", "service")]:
        problems.append(
            f"unknown key {', '.join(map(repr, unknown))} above the queries; "
            f"allowed are {', '.join(SETTINGS)}, [service.NAME] and [[query]]"
        )
    problems += _not_text(given)
    if not isinstance(given.get("service", {}), Mapping):
        problems.append("service is no table; write a table [service.NAME] for each service")
    if isinstance(given.get("query"), Mapping):
        problems.append("there is a [query] table; write [[query]], in double brackets, for each query")
    elif not _tables(given):
        problems.append("there is no query; write a [[query]] table with name, k, size (or window) and score for each")
    return problems
