"""Transactions of reports by SQLite's own driver, as SQLAlchemy takes several times as long."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError


class Driver:
    """Sends statements on a connection of an SQLite engine, taken at the first transaction."""

    _connection: Connection | None = None
    _driver: sqlite3.Connection

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._heard: tuple[Callable[..., Any], ...] = ()
        """Who listens to the statements of the transaction."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a transaction: commit or roll back; errors are SQLAlchemy's DBAPIError."""
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
                # It shows no parameters: they are reports.
                hidden = DBAPIError.instance(None, None, error, sqlite3.Error)
                raise hidden from error
            raise

    def execute(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Send a statement of the transaction that has begun; return its rows."""
        cursor = self._driver.cursor()
        for heard in self._heard:
            statement, parameters = heard(
                self._connection, cursor, statement, parameters, None, False
            )
        return cursor.execute(statement, parameters)

    def close(self) -> None:
        """Return the connection to its pool, if there is one; idempotent."""
        if self._connection is not None:
            self._connection.close()
