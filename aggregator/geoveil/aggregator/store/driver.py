"""Transactions sent by SQLite's driver itself: those of reports, which are the most by far.

SQLAlchemy takes several times as long to send a statement as SQLite takes to do it, and as long
again to begin and to end a transaction. Who listens to its engine hears of these all the same.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError


class Driver:
    """Sends statements on a connection of SQLAlchemy, in its place.

    Args:
        connection: of an engine; in no transaction, and used for nothing else.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        driver: Any = connection.connection.driver_connection
        self._driver: sqlite3.Connection = driver

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction that writes; commit it, or roll it back if there is an error.

        Raises:
            DBAPIError: of SQLAlchemy, in place of the driver's error.
        """
        try:
            self.execute("BEGIN IMMEDIATE")
            yield
            for heard in self._connection.dispatch.commit:
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
        for heard in self._connection.dispatch.before_cursor_execute:
            statement, parameters = heard(
                self._connection, cursor, statement, parameters, None, False
            )
        return cursor.execute(statement, parameters)

    def close(self) -> None:
        """Give the connection back; idempotent."""
        self._connection.close()
