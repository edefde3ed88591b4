"""Transactions sent by SQLite's driver itself: those of reports, which are the most by far.

SQLAlchemy takes several times as long to send a statement as SQLite takes to do it, and as long
again to begin and to end a transaction. Who listens to its engine hears of these all the same.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError


class Driver:
    """Sends statements on a connection of SQLAlchemy, in its place.

    Args:
        engine: of SQLite; the first transaction takes a connection, for nothing else.
    """

    _connection: Connection | None = None
    _driver: sqlite3.Connection

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._heard: tuple[Callable[..., Any], ...] = ()
        """Who listens to the statements of the transaction."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Let what is executed meanwhile be a transaction: it is committed, or rolled back.

        Raises:
            DBAPIError: of SQLAlchemy, in place of the driver's error.
        """
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
        """Give the connection back, if there is one; idempotent."""
        if self._connection is not None:
            self._connection.close()
