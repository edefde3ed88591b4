"""Report transactions with SQLite's own driver, which is several times as fast as SQLAlchemy."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError


class Driver:
    """Sends statements on an SQLite engine's connection, taken at the first transaction."""

    _connection: Connection | None = None
    _driver: sqlite3.Connection

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._heard: tuple[Callable[..., Any], ...] = ()
        """The listeners to the transaction's statements."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a transaction, which commits or rolls back; errors are SQLAlchemy's DBAPIError."""
        if self._connection is None:
            self._connection = self._engine.connect()
            driver: Any = self._connection.connection.driver_connection
            self._driver = driver
        dispatch = self._connection.dispatch
        self._heard = tuple(dispatch.before_cursor_execute)
        try:
            self.execute("BEGIN IMMEDIATE")
            yield
            for heard in dispatch.commit:
                heard(self._connection)
            self._driver.commit()
        except BaseException as error:
            self._driver.rollback()
            if isinstance(error, sqlite3.Error):
                # The error hides the parameters, which are reports.
                hidden = DBAPIError.instance(None, None, error, sqlite3.Error)
                raise hidden from error
            raise

    def execute(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Send a statement within the transaction and return its rows."""
        cursor = self._driver.cursor()
        for heard in self._heard:
            statement, parameters = heard(
                self._connection, cursor, statement, parameters, None, False
            )
        return cursor.execute(statement, parameters)

    def close(self) -> None:
        """Return the connection, if any, to its pool; idempotent."""
        if self._connection is not None:
            self._connection.close()
