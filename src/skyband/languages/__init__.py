"""Languages in which queries can be written, RSP-QL and SQL; both become the same `Query`.

RSP-QL is read with rdflib, which is only imported when a text in it is: ``pip install 'skyband[rdf]'``.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyband.errors import InputError, LanguageError
from skyband.languages.mapping import Mapping, load_mapping
from skyband.languages.sql import read_sql
from skyband.queries.query import Query

if TYPE_CHECKING:
    from skyband.languages.rspql.reader import Registered

__all__ = ["Mapping", "load_mapping", "parse", "parse_sql", "read_rspql", "read_sql", "to_rspql"]


def parse(text: str, mapping: Mapping | None = None) -> Query:
    """Read a query in RSP-QL.

    Parameters
    ----------
    text
        One ``REGISTER STREAM … AS SELECT …``.
    mapping
        Which column a predicate is, which service an IRI is, and what functions mean; left out, columns and services
        are called as the last part of their IRIs.

    Raises
    ------
    LanguageError
        When it cannot be read or uses something that is not supported; it says where.

    Examples
    --------
    >>> q = parse('''
    ... REGISTER STREAM :volatile AS
    ... SELECT ?trade (?price * ?volume AS ?score)
    ... FROM NAMED WINDOW :W ON :trades [RANGE 1h STEP 10m]
    ... WHERE { WINDOW :W { ?trade :price ?price ; :volume ?volume } FILTER (?price > 10) }
    ... ORDER BY DESC(?score) LIMIT 10
    ... ''')
    >>> q.name, q.k, q.score, q.where
    ('volatile', 10, 'price * volume', 'price > 10')
    >>> q.window
    Window('1 hour', slide='10 minutes', closed='right')
    """
    found = read_rspql(text, mapping)
    if len(found) > 1:
        msg = f"the text registers {len(found)} queries; give one, or read all of them with read_rspql"
        raise LanguageError(msg, text)
    return found[0].query


def read_rspql(text: str, mapping: Mapping | None = None) -> list[Registered]:
    """Read all queries of a text in RSP-QL, with what it says of the stream."""
    return _with_rdflib("rspql.reader").read(text, mapping)  # type: ignore[no-any-return]


def to_rspql(query: Query, *, id: str = "id", stream: str = "S") -> str:  # noqa: A002 - as everywhere
    """Write a query in RSP-QL; `parse` reads it back as the same.

    Parameters
    ----------
    query
        The query. How it joins a service (policy, budget and so on) is not part of the text: a mapping says it.
    id
        The column of ids, by which the subject of the pattern is called.
    stream
        What the stream is called.

    Raises
    ------
    QueryError
        For what RSP-QL has no words for.

    Examples
    --------
    >>> from skyband import Window
    >>> q = Query("top", k=3, score="price * volume", window=Window("1 hour", closed="right"), select=("venue",))
    >>> print(to_rspql(q, id="trade"))
    REGISTER STREAM :top AS
    SELECT ?trade ?venue (?price * ?volume AS ?score)
    FROM NAMED WINDOW :W ON :S [RANGE 1h STEP 1h]
    WHERE {
      WINDOW :W {
        ?trade :price ?price .
        ?trade :volume ?volume .
        OPTIONAL { ?trade :venue ?venue }
      }
    }
    ORDER BY DESC(?score)
    LIMIT 3
    """
    return _with_rdflib("rspql.writer").write(query, id, stream)  # type: ignore[no-any-return]


def parse_sql(text: str, *, name: str = "query", dialect: str = "flink", columns: Sequence[str] | None = None) -> Query:
    """Read a query in SQL.

    Parameters
    ----------
    text
        One ``SELECT … FROM HOP(…) … ORDER BY … LIMIT k``, Flink's Top-N form, or another of those on the page SQL.
    name
        What the query is called, where the text does not say it by ``CREATE VIEW name AS`` or ``INSERT INTO name``.
    dialect
        ``"flink"``, ``"spark"``, ``"postgres"`` or ``"ksqldb"``: what quotes and ``/`` mean.
    columns
        The stream's columns, for which ``*`` stands; a ``CREATE TABLE`` in the text says them as well.

    Raises
    ------
    LanguageError
        When it cannot be read or uses something that is not supported; it says where.

    Examples
    --------
    >>> q = parse_sql('''
    ...     SELECT symbol, price * volume AS score
    ...     FROM HOP(trades, ts, INTERVAL 10 MINUTES, INTERVAL 1 HOUR)
    ...     ORDER BY score DESC LIMIT 10
    ... ''', name="volatile")
    >>> q.k, q.score, q.window, q.select
    (10, 'price * volume', Window('1 hour', slide='10 minutes'), ('symbol',))
    """
    found = read_sql(text, name=name, dialect=dialect, columns=columns)
    if len(found) > 1:
        msg = f"the text holds {len(found)} queries; give one, or read all of them with read_sql"
        raise LanguageError(msg, text)
    return found[0].query


def _with_rdflib(module: str) -> Any:
    try:
        return import_module(f"skyband.languages.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("skyband"):
            raise
        msg = f"RSP-QL needs the package {error.name!r}; install it with: pip install 'skyband[rdf]'"
        raise InputError(msg) from None
