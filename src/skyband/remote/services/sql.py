"""A database as a service, by SQLAlchemy; ids are bound parameters."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from skyband.errors import InputError, optional
from skyband.remote.services.base import Id, ServiceError, ServiceTimeout, matched

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

FORM = "dialect+driver://user:password@host:port/database, such as postgresql+psycopg://me:secret@localhost/shop"
UNREADABLE = f"cannot read the URL of the database (not shown, as it may hold a password); write {FORM}"


class Sql:
    """A statement that selects ids and values.

    An id without a row does not exist. Databases bound how many parameters a statement may have: some at 999, so keep
    the gateway's batches below that. A statement that takes too long is cancelled, where the driver can do that (those
    of PostgreSQL, SQLite, DuckDB and Oracle can); elsewhere the answer goes out without it, and it lasts until the
    database ends it.

    Parameters
    ----------
    engine
        A URL as SQLAlchemy writes it, or an engine.
    statement
        Selects two columns, the id and its value, for the ids in ``:ids``.

    Examples
    --------
    >>> import sqlalchemy as sa
    >>> engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    >>> with engine.begin() as connection:
    ...     _ = connection.execute(sa.text("CREATE TABLE users (name TEXT, followers INT)"))
    ...     _ = connection.execute(sa.text("INSERT INTO users VALUES ('ann', 120), ('bob', 80)"))
    >>> users = Sql(engine, "SELECT name, followers FROM users WHERE name IN :ids")
    >>> users.fetch(["ann", "eve"])
    {'ann': 120, 'eve': None}
    """

    def __init__(self, engine: str | Engine, statement: str) -> None:
        sa = _sqlalchemy()
        if ":ids" not in statement:
            msg = f"the statement {statement!r} does not name :ids; write SELECT id, value FROM … WHERE id IN :ids"
            raise InputError(msg)
        self._given = engine, statement
        self._statement = sa.text(statement).bindparams(sa.bindparam("ids", expanding=True))
        self._own = isinstance(engine, str)
        try:
            self._engine: Engine = sa.create_engine(engine) if isinstance(engine, str) else engine
        except (sa.exc.ArgumentError, ValueError):
            raise InputError(UNREADABLE) from None
        except ImportError as error:
            msg = f"cannot load the driver of the database: {error}; install it, or name another: {FORM}"
            raise InputError(msg) from None

    def __reduce__(self) -> Any:
        """Carry it elsewhere: connections are opened anew there."""
        return Sql, self._given

    def close(self) -> None:
        """Close the connections, unless the engine was given."""
        if self._own:
            self._engine.dispose()

    def fetch(self, ids: Sequence[Id], timeout: float = 10.0) -> Mapping[Any, Any]:
        """Run the statement for ids."""
        sa = _sqlalchemy()
        late = threading.Event()
        try:
            with self._engine.connect() as connection, _cancelled_after(timeout, connection, late):
                rows = [tuple(row) for row in connection.execute(self._statement, {"ids": list(ids)})]
        except sa.exc.DBAPIError as error:
            if late.is_set():
                msg = f"the database did not answer within {timeout:g} seconds"
                raise ServiceTimeout(msg) from error
            msg = f"the database did not answer: {type(error.orig).__name__}"  # its text may hold parameters
            raise ServiceError(msg) from error
        if rows and len(rows[0]) != 2:
            msg = f"the statement gave {len(rows[0])} columns; select two: the id and its value"
            raise ServiceError(msg, retry=False)
        return matched(ids, rows, complete=True)


def _sqlalchemy() -> Any:
    with optional("a service in SQL", "remote"):
        import sqlalchemy
    return sqlalchemy


@contextmanager
def _cancelled_after(seconds: float, connection: Connection, late: threading.Event) -> Iterator[None]:
    """Cancel what a connection is doing when it takes too long, and say so, where its driver can."""
    driver = connection.connection.driver_connection
    cancel = getattr(driver, "cancel", None) or getattr(driver, "interrupt", None)

    def stop() -> None:
        late.set()
        if cancel is not None:
            cancel()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
