"""Query files: TOML with one ``[[query]]`` table a query, and what they have in common above, services included."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skyband.errors import InputError, QueryError
from skyband.files.services import remote_of
from skyband.query import Query
from skyband.remotes import Remote

DEFAULTS = ("time", "id", "time_unit", "watermark")


@dataclass(frozen=True)
class QueryFile:
    """The queries of a file, and the columns, the watermark and the services that it names for them."""

    queries: tuple[Query, ...]
    time: str | None = None
    id: str | None = None
    time_unit: str | None = None
    watermark: str | None = None
    services: Mapping[str, Remote] = field(default_factory=dict)


def load(path: Path) -> QueryFile:
    r"""Read a query file.

    Raises
    ------
    InputError
        When it cannot be read.
    QueryError
        With the problems of all its queries.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "queries.toml")
    ...     _ = file.write_text('time = "ts"\n[[query]]\nname = "top"\nk = 3\nsize = "1 hour"\nscore = "price"\n')
    ...     load(file).queries[0].name
    'top'
    """
    if path.suffix.lower() == ".rq":
        msg = f"{path} is RSP-QL, which this version cannot read yet; write the queries into a .toml file"
        raise InputError(msg)
    if path.suffix.lower() != ".toml":
        msg = f"{path} is no query file; queries are written in a .toml file"
        raise InputError(msg)
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"cannot read {path}: {(error.strerror or str(error)).lower()}"
        raise InputError(msg) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path} is no TOML: {error}"
        raise InputError(msg) from None
    return parse(given, path.name)


def parse(given: Mapping[str, Any], file: str) -> QueryFile:
    """Make queries of what a file holds."""
    queries, problems = queries_of(_tables(given))
    problems = _top_problems(given) + problems
    services: dict[str, Remote] = {}
    for name, table in given.get("service", {}).items() if isinstance(given.get("service", {}), Mapping) else ():
        try:
            services[name] = remote_of(name, table)
        except InputError as error:
            problems.append(str(error))
    asked = {query.name: query.join.service for query in queries if query.join is not None}
    problems += [
        f"query {name!r}: it joins with the service {service!r}, and there is no table [service.{service}]"
        for name, service in asked.items()
        if service not in given.get("service", {})
    ]
    if problems:
        raise QueryError([f"{file}: {problems[0]}"] if len(problems) == 1 else problems)
    return QueryFile(tuple(queries), **{key: given[key] for key in DEFAULTS if key in given}, services=services)


def queries_of(tables: Iterable[Mapping[str, Any]]) -> tuple[list[Query], list[str]]:
    """Make queries of plain values; returns all that is wrong with them as well."""
    queries, problems = [], []
    for number, table in enumerate(tables, 1):
        try:
            queries.append(Query.from_dict(table))
        except QueryError as error:
            head = f"query {error.name!r}" if error.name else f"query number {number}"
            problems += [f"{head}: {problem}" for problem in error.problems]
    twice = [name for name, count in Counter(query.name for query in queries).items() if count > 1]
    problems += [f"query {name!r}: there is more than one of this name; give each its own" for name in twice]
    return queries, problems


def _tables(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    tables = given.get("query", [])
    return [table for table in tables if isinstance(table, Mapping)] if isinstance(tables, list) else []


def _top_problems(given: Mapping[str, Any]) -> list[str]:
    problems = []
    if unknown := [key for key in given if key not in (*DEFAULTS, "query", "service")]:
        problems.append(
            f"unknown key {', '.join(map(repr, unknown))} above the queries; "
            f"allowed are {', '.join(DEFAULTS)}, [service.NAME] and [[query]]"
        )
    problems += [
        f"{key} is {given[key]!r}; give a text" for key in DEFAULTS if key in given and not isinstance(given[key], str)
    ]
    if not isinstance(given.get("service", {}), Mapping):
        problems.append("service is no table; write a table [service.NAME] for each service")
    if isinstance(given.get("query"), Mapping):
        problems.append("there is a [query] table; write [[query]], in double brackets, for each query")
    elif not _tables(given):
        problems.append("there is no query; write a [[query]] table with name, k, size and score for each")
    return problems
