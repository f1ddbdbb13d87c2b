"""Rows into a table of an SQL database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.answers.table import column_as_text
from skyband.errors import InputError, optional
from skyband.events.keys import is_text
from skyband.files import durable
from skyband.files.writers import as_text
from skyband.remote.services.sql import FORM, UNREADABLE
from skyband.spark.sinks.rows import NUMBER, holds_answers, keyed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from sqlalchemy import Connection, Engine, Table
    from sqlalchemy.types import TypeEngine

ROWS_AT_ONCE = 10_000


class Sql:
    """A table that holds each answer once: a batch is one transaction, which replaces every window it answers.

    So a replayed batch changes nothing, the final answer of a window takes the place of its provisional ones, and
    of ``emit="changes"`` the changes of a window are replaced together. The primary key is `query`, `window_end`
    and `row_number`, which counts the rows of a window. (Ranks would not do: they start again in every
    partition, whose value may be NULL, and a row that left an answer has none.) Partitions are text.

    Late and rejected rows have the key `batch_id` and `row_number`, and replace those of the same batch. Batches
    are numbered by the checkpoint, so give a new checkpoint a new table for them.

    The table is made if it does not exist, and columns that new queries bring are added. Tested with SQLite and
    PostgreSQL.

    Parameters
    ----------
    url
        Of the database, as SQLAlchemy writes it: ``"postgresql+psycopg://me:secret@localhost/shop"``.
    table
        Name of the table.
    """

    def __init__(self, url: str, table: str = "answers") -> None:
        sa = _sqlalchemy()
        try:
            self._url = sa.make_url(url)
        except (sa.exc.ArgumentError, ValueError):
            raise InputError(UNREADABLE) from None
        self.table = table
        self._engine: Engine | None = None

    def __repr__(self) -> str:
        return f"Sql({self._shown!r}, table={self.table!r})"

    @property
    def _shown(self) -> str:
        return str(self._url.set(query={}).render_as_string(hide_password=True))

    def write(self, answers: pa.Table, batch_id: int, session: SparkSession) -> None:  # noqa: ARG002 - as every sink
        """Replace the windows that are answered here, all or none."""
        if not len(answers):
            return
        sa = _sqlalchemy()
        if holds_answers(answers.column_names):
            answers = column_as_text(answers, "partition")  # else its type could change when queries come and go
        rows, key = keyed(_simple(answers), batch_id)
        table = _table(self.table, rows.schema, (*key, NUMBER))
        with self._connection() as connection:
            _prepare(connection, table)
            replaced = sa.delete(table).where(*(table.c[name] == sa.bindparam(name) for name in key))
            durable.step("execute", connection.execute, replaced, rows.group_by(list(key)).aggregate([]).to_pylist())
            for start in range(0, len(rows), ROWS_AT_ONCE):
                part = rows.slice(start, ROWS_AT_ONCE).to_pylist()
                durable.step("execute", connection.execute, sa.insert(table), part)

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Open a connection for one transaction; none is left open between batches."""
        sa = _sqlalchemy()
        try:
            if self._engine is None:
                self._engine = sa.create_engine(self._url, poolclass=sa.NullPool)
            connection = self._engine.connect()
        except (sa.exc.ArgumentError, ImportError) as error:
            msg = f"cannot load the driver for {self._shown}: {error}; install it, or name another: {FORM}"
            raise InputError(msg) from None
        except sa.exc.DBAPIError as error:
            reason = str(error.orig).strip().replace(str(self._url.password or "\0"), "***")
            msg = f"cannot open the database {self._shown}: {reason}; check the URL, and that the server runs"
            raise InputError(msg) from None
        with connection:  # which rolls back what is not committed
            connection.begin()
            yield connection
            durable.step("commit", connection.commit)


def _sqlalchemy() -> Any:
    with optional("the SQL sink", "sql"):
        import sqlalchemy
    return sqlalchemy


def _type(kind: pa.DataType) -> TypeEngine[Any]:
    import sqlalchemy as sa

    if pa.types.is_boolean(kind):
        return sa.Boolean()
    if pa.types.is_integer(kind):
        return sa.BigInteger()
    if pa.types.is_floating(kind):
        return sa.Double()
    if pa.types.is_decimal(kind):
        return sa.Numeric(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return sa.DateTime(timezone=kind.tz is not None)
    if pa.types.is_date(kind):
        return sa.Date()
    return sa.LargeBinary() if pa.types.is_binary(kind) else sa.Text()


def _table(name: str, schema: pa.Schema, key: tuple[str, ...]) -> Table:
    import sqlalchemy as sa

    def quoted(text: str) -> str:  # always: not every word that a database reserves is known
        return sa.quoted_name(text, quote=True)

    columns = [sa.Column(quoted(field.name), _type(field.type)) for field in schema]
    return sa.Table(quoted(name), sa.MetaData(), *columns, sa.PrimaryKeyConstraint(*key))


def _prepare(connection: Connection, table: Table) -> None:
    """Make the table, or add the columns that it lacks."""
    import sqlalchemy as sa

    inspector = sa.inspect(connection)
    if not inspector.has_table(table.name):
        table.create(connection)
        return
    known = {column["name"] for column in inspector.get_columns(table.name)}
    if missing := [column.name for column in table.primary_key if column.name not in known]:
        msg = (
            f"the table {table.name!r} has no column {missing[0]!r}, so it was not made for such rows by this sink; "
            "name another table, which is then made"
        )
        raise InputError(msg)
    for column in table.columns:
        if column.name not in known:
            name = connection.dialect.identifier_preparer.format_table(table)
            added = sa.schema.CreateColumn(column).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {added}")


def _simple(rows: pa.Table) -> pa.Table:
    """Return lists, structures and other columns that are kept as text, as text."""
    columns = [
        as_text(column) if isinstance(_type(column.type), _sqlalchemy().Text) and not is_text(column.type) else column
        for column in rows.columns
    ]
    return pa.table(columns, rows.column_names)
