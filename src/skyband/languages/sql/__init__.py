"""SQL: the rankings that stream engineers write, as the queries that they are.

sqlglot reads the grammar (`text`, `dialects`); statements, nested queries, CTEs and views become one normal form
(`statements`, `selects`, `relations`), and that becomes a `Query` (`translate`). Each rule notes which parts of the
parsed text it used, and in the end whatever is left is refused by its name: nothing that was written is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokens import Token

from skyband.errors import LanguageError
from skyband.events.keys import is_key
from skyband.expressions.parse import check_text
from skyband.languages.sql.dialects import DEFAULT, find
from skyband.languages.sql.relations import Relation, Scan
from skyband.languages.sql.selects import Selects
from skyband.languages.sql.statements import Statement, read_statement
from skyband.languages.sql.tables import Table, table_of
from skyband.languages.sql.text import SqlText
from skyband.languages.sql.translate import EVERY, Translator
from skyband.queries.query import Query
from skyband.times import Duration

MAX_LENGTH = 20_000


@dataclass(frozen=True)
class Selected:
    """A query, and what its text says of the stream.

    Parameters
    ----------
    query
        The query.
    table
        The name of the stream.
    time
        The column of event times, where the text says it.
    ids
        Columns that may serve as ids, the likeliest first.
    watermark
        How late events may come, by CREATE TABLE.
    time_unit
        The unit of times that are numbers, by CREATE TABLE.
    noted
        What the text says about where rows come from and go to, which is not used.
    """

    query: Query
    table: str
    time: str | None
    ids: tuple[str, ...] = ()
    watermark: str | None = None
    time_unit: str | None = None
    noted: tuple[str, ...] = ()

    @property
    def id(self) -> str | None:
        """The likeliest column of ids."""
        return self.ids[0] if self.ids else None


def read_sql(
    text: str,
    *,
    name: str = "query",
    dialect: str = DEFAULT,
    columns: Sequence[str] | pa.Schema | Mapping[str, pa.Schema] | None = None,
    time: str | None = None,
    every: Duration | None = None,
) -> list[Selected]:
    """Read all queries of a text in SQL, with what it says of the stream.

    Parameters
    ----------
    text
        Statements that end in ``;``, of which at least one is a ranking.
    name
        What a single query without a name is called.
    dialect
        ``"flink"``, ``"spark"``, ``"postgres"`` or ``"ksqldb"``: quotes, division, windows.
    columns
        The columns of tables that no CREATE TABLE describes, for ``*``; with their types, where these are known. A
        mapping has them by the name of the table, and there are no other tables then.
    time
        The column of event times of such tables, where a query does not name it.
    every
        How often rankings of all time are answered; every second when left out.
    """
    check_text(text, "text", MAX_LENGTH, LanguageError)
    reader = SqlText(text, find(dialect))
    try:
        known = columns if isinstance(columns, Mapping) else {"": columns}
        scans = {table: _described(given, time) for table, given in known.items()}
        return _Script(reader, scans, EVERY if every is None else every).read(name)
    except RecursionError:
        reader.fail("the query is nested too deeply")


def _described(columns: Sequence[str] | pa.Schema | None, time: str | None) -> Scan:
    """Return what is known of tables that no CREATE TABLE describes."""
    if not isinstance(columns, pa.Schema):
        return Scan("", time, columns=None if columns is None else tuple(columns))
    moments = (one.name for one in columns if pa.types.is_timestamp(one.type) or pa.types.is_date(one.type))
    return Scan("", time, columns=tuple(columns.names), moments=tuple(moments))


class _Script:
    """The statements of one text."""

    def __init__(self, text: SqlText, scans: dict[str, Scan], every: Duration) -> None:
        self.text, self.every = text, every
        self.selects = Selects(text, scans)
        self.scans, self.tables = scans, dict[str, Table]()
        self.views: dict[str, Callable[[], Relation]] = {}
        self.used: set[str] = set()
        self.noted: list[str] = []

    def read(self, name: str) -> list[Selected]:
        """Return the queries: what is written somewhere or shown, and views that no other statement uses."""
        queries: list[tuple[Statement, exp.Expression | None]] = []
        for tokens in self.text.words():
            statement = read_statement(self.text, tokens, self.selects.clauses)
            if statement.noted:
                self.noted.append(f"{statement.name}: {statement.noted}")
            if statement.kind == "table":
                self._declare(statement)
                continue
            body = self._body(statement.query) if statement.query else None
            queries.append((statement, body))
            if statement.kind == "view":
                self._view(statement, body)
        found = []
        for statement, body in reversed(queries):
            if statement.kind == "query" or statement.name not in self.used:
                found.append((statement, self._relation(statement, body)))
        if not found:
            self.text.fail("there is no query; write SELECT … FROM HOP(…) … ORDER BY … LIMIT 10")
        self._check_all(queries)
        alone = name if len(found) == 1 else None
        return [self._selected(statement, relation, alone) for statement, relation in reversed(found)]

    def _declare(self, statement: Statement) -> None:
        table, name = table_of(self.selects, statement), str(statement.name)
        known = self.scans.get(name) or self.scans.get("")
        if table.scan.time is None and known is not None:
            table.scan = replace(table.scan, time=known.time)
        self.tables[name], self.scans[name], self.selects.computed[name] = table, table.scan, table.computed

    def _body(self, tokens: list[Token]) -> exp.Expression:
        return self.text.parsed(tokens)

    def _view(self, statement: Statement, body: exp.Expression | None) -> None:
        known, name = dict(self.views), str(statement.name)

        def read() -> Relation:
            self.used.add(name)
            assert body is not None
            return self.selects.called(self.selects.query(body, known), statement.columns, body)

        self.views[name] = read

    def _relation(self, statement: Statement, body: exp.Expression | None) -> Relation:
        if statement.of is not None:
            if statement.of not in self.views:
                self.text.fail(f"there is no view {statement.of!r} before this", statement.place)
            return self.views[statement.of]()
        assert body is not None
        return self.selects.called(self.selects.query(body, self.views), statement.columns, body)

    def _check_all(self, queries: list[tuple[Statement, exp.Expression | None]]) -> None:
        """Refuse what no rule used."""
        for _, body in queries:
            if body is not None:
                self.selects.refuse_unused(body)
        for tokens in self.selects.clauses.values():
            self.text.fail("this WINDOW stands behind no table", tokens[0].start)

    def _selected(self, statement: Statement, relation: Relation, name: str | None) -> Selected:
        name = statement.name or name
        if name is None:
            message = "there are several queries, and this one has no name; write CREATE VIEW name AS SELECT …"
            self.text.fail(message, statement.place)
        found = Translator(self.selects, relation, statement.place).translate(name, statement.emit, self.every)
        scan = relation.scan
        table = self.tables.get(scan.table) or self.tables.get(scan.table.split(".")[-1])
        key = () if table is None or table.key is None else (table.key,)
        return Selected(
            found.query, scan.table, scan.time, tuple(dict.fromkeys((*found.forced, *key, *found.ids))),
            None if table is None else table.watermark, None if table is None else table.time_unit, tuple(self.noted),
        )  # fmt: skip


def only_time(schema: pa.Schema | None) -> str | None:
    """Return the only column of timestamps, which has the event times where nobody says otherwise."""
    found = [] if schema is None else [field.name for field in schema if pa.types.is_timestamp(field.type)]
    return found[0] if len(found) == 1 else None


def common_id(found: Sequence[Selected], schema: pa.Schema | None, lacking: Collection[str] = ()) -> str | None:
    """Return the column of ids: the first that queries name, and that can hold ids; they must agree on it.

    Columns that are `lacking` values come last, since rows without an id are rejected.
    """

    def serves(name: str) -> bool:
        return schema is None or (name in schema.names and is_key(schema.field(name).type))

    whole = [sorted(one.ids, key=lambda name: name in lacking) for one in found]
    chosen = [next(filter(serves, names), None) for names in whole]
    ranked = [name for one, name in zip(found, chosen, strict=True) if one.query.ranks_events] or chosen[:1]
    return ranked[0] if len(set(ranked)) == 1 else None
