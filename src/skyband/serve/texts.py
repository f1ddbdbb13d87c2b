"""Text from outside into queries, within limits: parsed, never pasted into anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skyband.errors import InputError, QueryError
from skyband.events.batch import StreamColumns
from skyband.files.queries import queries_of
from skyband.languages import Mapping, read_rspql, read_sql
from skyband.languages.toml import MAX_DIGITS, read_toml
from skyband.queries.query import MAX_ROWS, Query
from skyband.times import format_duration, parse_duration


@dataclass(frozen=True)
class Limits:
    """How much may be asked for over HTTP."""

    queries: int = 100  # how many queries the stream may have
    k: int = 1_000  # how many rows an answer may have
    size: str = "7 days"  # how long a time window may be
    events: int = 10_000_000  # how long a count window may be
    panes: int = 10_000  # how often a window may slide before an event leaves it
    text: int = 16_384  # how many bytes of query text are taken
    name: int = 120  # how many characters a query's name may have
    budget: int = 1_000  # how many remote ids may be refreshed for one answer; a join without a budget has this one
    rows: int = MAX_ROWS  # how many rows a set or an answer with ties may have; one that may have more is held to that

    def admit(self, new: Sequence[Query], there: int) -> list[Query]:
        """Return new queries as they may run beside those that are `there`; refuse those that ask for too much.

        What a query leaves open, the budget of a join and the rows of a set or of ties, is held to what this server
        allows.
        """
        if there + len(new) > self.queries:
            msg = f"the stream has {there} queries and may have {self.queries}; remove some first"
            raise QueryError(msg)
        for query in new:
            if problems := self._problems(query):
                raise QueryError(problems, query.name[: self.name])
        return [self._held(query) for query in new]

    def _held(self, query: Query) -> Query:
        if query.join is not None and query.join.budget is None:
            query = replace(query, join=replace(query.join, budget=self.budget))
        if query.ties is not None:
            query = replace(query, max_ties=max(min(query.max_ties, self.rows), query.most_rows))
        return replace(query, max_rows=min(query.max_rows, self.rows)) if query.is_set else query

    def _problems(self, query: Query) -> list[str]:
        window, problems = query.window, []
        if len(query.name) > self.name or not query.name.isprintable() or not query.name.strip("./"):
            problems.append(f"the name must have at most {self.name} printable characters, and more than dots")
        if isinstance(query.k, int) and query.k > self.k:
            problems.append(f"k is {query.k:,}; this server allows at most {self.k:,}")
        if window.counts and window.size > self.events:
            problems.append(f"size is {window.size:,} events; this server allows at most {self.events:,}")
        extent = window.size if window.periods is None else window.periods.shortest
        grows = window.kind in ("cumulative", "all_time")  # its panes become one
        small = query.ranks_events and window.kind in ("all_time", "calendar")  # k events are all that is kept
        if not (window.counts or small) and extent > parse_duration(self.size, "size"):
            sliding = window.kind == "sliding"
            said = f"size is {format_duration(window.size)}" if sliding else f"the window is {window!r}"
            problems.append(f"{said}; this server allows at most {self.size}")
        if window.size > self.panes * window.slide and not grows:
            problems.append(
                f"size is {window.size // window.slide:,} times the slide; this server allows at most {self.panes:,}"
            )
        if query.join is not None and query.join.budget is not None and query.join.budget > self.budget:
            problems.append(f"budget is {query.join.budget:,}; this server allows at most {self.budget:,}")
        if query.join is not None and query.join.n > self.k:
            problems.append(f"n is {query.join.n:,}; this server allows at most {self.k:,}")
        return problems


@dataclass(frozen=True)
class Reading:
    """How texts are read for one stream.

    A text may name the columns of time and id, but not change them. It can join with the stream's services, but neither
    with another nor say where one is. The mapping is for RSP-QL.

    Examples
    --------
    >>> reading = Reading(StreamColumns("ts", "id"))
    >>> reading.read('{"name": "top", "k": 3, "size": "1 hour", "score": "price"}', "json")[0].k
    3
    """

    source: StreamColumns
    services: Collection[str] = ()
    mapping: Mapping = field(default_factory=Mapping)

    def read(self, text: str, language: str) -> list[Query]:
        """Return the queries of a text; raises QueryError with what is wrong."""
        try:
            found = LANGUAGES[language](self, text)
        except RecursionError:
            msg = "the text is nested too deeply"
            raise QueryError(msg) from None
        for query in found:
            if query.join is not None and query.join.service not in self.services:
                known = ", ".join(map(repr, self.services)) or "none"
                msg = f"it joins with the service {query.join.service!r}; this server has {known}"
                raise QueryError(msg, query.name)
        return found

    def _json(self, text: str) -> list[Query]:
        try:
            given = json.loads(text, parse_int=_integer)
        except ValueError as error:
            msg = f"the text is no JSON: {error}"
            raise QueryError(msg) from None
        return _queries(given if isinstance(given, list) else [given])

    def _toml(self, text: str) -> list[Query]:
        try:
            given = read_toml(text)
        except InputError as error:
            raise QueryError(str(error)) from None
        if unknown := [key for key in given if key not in ("query", "time", "id")]:
            msg = f"the text has {', '.join(map(repr, unknown))}; over HTTP only [[query]] tables are taken"
            raise QueryError(msg)
        self._check("time", given.get("time"), self.source.time)
        self._check("id", given.get("id"), self.source.id)
        return _queries(given.get("query"))

    def _rspql(self, text: str) -> list[Query]:
        mapping = self.mapping if self.mapping.id else replace(self.mapping, id=self.source.id)
        return [found.query for found in read_rspql(text, mapping)]

    def _sql(self, text: str) -> list[Query]:
        found = read_sql(text)
        for one in found:  # which column is the id, no SQL says
            self._check("time", one.time, self.source.time)
        return [one.query for one in found]

    def _check(self, what: str, named: Any, served: str) -> None:
        if named not in (None, served):
            msg = f"the text names {named!r} as the column of the {what}, and the stream has {served!r} for it"
            raise QueryError(msg)


LANGUAGES: dict[str, Callable[[Reading, str], list[Query]]] = {
    "json": Reading._json,
    "toml": Reading._toml,
    "rspql": Reading._rspql,
    "sql": Reading._sql,
}


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        msg = f"a number has {len(text):,} digits; at most {MAX_DIGITS} are allowed"
        raise ValueError(msg)
    return int(text)


def _queries(tables: Any) -> list[Query]:
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        msg = "the text is no query; give a table with name, k, size and score, or a list of such"
        raise QueryError(msg)
    queries, problems = queries_of(tables)
    if problems:
        raise QueryError(problems)
    return queries


def as_problem(error: QueryError) -> dict[str, Any]:
    """Return an error for JSON: what is wrong, and, where that is known, at which place of the text."""
    place = {key: getattr(error, key) for key in ("line", "column") if isinstance(getattr(error, key, None), int)}
    return {"error": str(error), "problems": list(error.problems), **place}
