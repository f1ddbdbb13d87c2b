"""Text from outside into queries, within limits: parsed, never pasted into anything."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skyband.durations import microseconds, spoken
from skyband.errors import QueryError
from skyband.files.queries import parse as parse_tables
from skyband.query import Query
from skyband.rows import Source

WHAT = "the text"


@dataclass(frozen=True)
class Limits:
    """How much may be asked for over HTTP.

    Parameters
    ----------
    queries
        How many queries the stream may have.
    k
        How many rows an answer may have.
    size
        How far a time window may reach.
    events
        How far a count window may reach.
    panes
        How often a window may slide before an event leaves it.
    text
        How many bytes of query text are taken.
    name
        How many characters a query's name may have.
    """

    queries: int = 100
    k: int = 1_000
    size: str = "7 days"
    events: int = 10_000_000
    panes: int = 10_000
    text: int = 16_384
    name: int = 120

    def check(self, new: Sequence[Query], there: int) -> None:
        """Refuse queries that ask for too much; `there` is how many the stream has already."""
        if there + len(new) > self.queries:
            msg = f"the stream has {there} queries and may have {self.queries}; remove some first"
            raise QueryError(msg)
        for query in new:
            if problems := self._problems(query):
                raise QueryError(problems, query.name[: self.name])

    def _problems(self, query: Query) -> list[str]:
        window, problems = query.window, []
        if len(query.name) > self.name or not query.name.isprintable() or not query.name.strip("./"):
            problems.append(f"the name must have at most {self.name} printable characters, and more than dots")
        if query.k > self.k:
            problems.append(f"k is {query.k:,}; this server allows at most {self.k:,}")
        if window.counts and window.size > self.events:
            problems.append(f"size is {window.size:,} events; this server allows at most {self.events:,}")
        if not window.counts and window.size > microseconds(self.size, "size"):
            problems.append(f"size is {spoken(window.size)}; this server allows at most {self.size}")
        if window.size > self.panes * window.slide:
            problems.append(
                f"size is {window.size // window.slide:,} times the slide; this server allows at most {self.panes:,}"
            )
        return problems


def read(text: str, language: str, source: Source) -> tuple[Query, ...]:
    """Return the queries of a text.

    Parameters
    ----------
    text
        As it came.
    language
        One of `LANGUAGES`.
    source
        The stream's columns of time and id, which the text may name but not change.

    Raises
    ------
    QueryError
        With all that is wrong.

    Examples
    --------
    >>> read('{"name": "top", "k": 3, "size": "1 hour", "score": "price"}', "json", Source("ts", "id"))[0].k
    3
    """
    try:
        return LANGUAGES[language](text, source)
    except RecursionError:
        msg = f"{WHAT} is nested too deeply"
        raise QueryError(msg) from None


def _from_json(text: str, source: Source) -> tuple[Query, ...]:  # noqa: ARG001 - as the others
    try:
        given = json.loads(text)
    except ValueError as error:
        msg = f"{WHAT} is no JSON: {error}"
        raise QueryError(msg) from None
    tables = given if isinstance(given, list) else [given]
    if not all(isinstance(table, Mapping) for table in tables) or not tables:
        msg = f"{WHAT} is no query; give an object with name, k, size and score, or a list of such"
        raise QueryError(msg)
    return parse_tables({"query": tables}, WHAT).queries


def _from_toml(text: str, source: Source) -> tuple[Query, ...]:
    try:
        given = tomllib.loads(text)
    except ValueError as error:
        msg = f"{WHAT} is no TOML: {error}"
        raise QueryError(msg) from None
    file = parse_tables(given, WHAT)
    for what, named, served in (("time", file.time, source.time), ("id", file.id, source.id)):
        if named not in (None, served):
            msg = f"{WHAT} names {named!r} as the column of the {what}, and the stream has {served!r} for it"
            raise QueryError(msg)
    return file.queries


LANGUAGES: dict[str, Callable[[str, Source], tuple[Query, ...]]] = {"json": _from_json, "toml": _from_toml}


def as_problem(error: QueryError) -> dict[str, Any]:
    """Return an error for JSON: what is wrong, and, where that is known, at which place of the text."""
    place = {key: getattr(error, key) for key in ("line", "column") if isinstance(getattr(error, key, None), int)}
    return {"error": str(error), "problems": list(error.problems), **place}
