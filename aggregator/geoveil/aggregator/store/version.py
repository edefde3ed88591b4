"""The version of a database's schema; creates the tables of an empty database."""

import re

from sqlalchemy import Connection, insert, inspect, select

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.store.schema import METADATA, SCHEMA_VERSION, VERSION, tables_of


def schema_version(connection: Connection) -> int:
    """Return the schema's version, 0 if empty; DATABASE_UNUSABLE for another program's."""
    tables = inspect(connection).get_table_names()
    if not tables:
        return 0
    if VERSION.name in tables:
        stored = connection.execute(select(VERSION.c.version_num)).scalars().all()
        if len(stored) == 1 and re.fullmatch("[0-9]{1,9}", str(stored[0])):
            return int(stored[0])
    raise ServiceError(Code.DATABASE_UNUSABLE, "it holds another program's tables")


def require_current(version: int) -> None:
    """Refuse a database of another version with DATABASE_UNUSABLE, and say what to do.

    Example:
        >>> require_current(1)
        Traceback (most recent call last):
        geoveil.aggregator.domain.errors.ServiceError: the database can't be used: its schema has \
version 1, this version of geoveil needs 10: use the version of geoveil that made it, or a new \
database
    """
    if version == SCHEMA_VERSION:
        return
    advice = "install a later geoveil"
    if version < SCHEMA_VERSION:
        advice = "use the version of geoveil that made it, or a new database"
    raise ServiceError(
        Code.DATABASE_UNUSABLE,
        f"its schema has version {version}, this version of geoveil needs {SCHEMA_VERSION}:"
        f" {advice}",
    )


def create_tables(connection: Connection) -> None:
    """Create the tables of an empty database within the open transaction."""
    METADATA.create_all(connection, tables_of(connection.dialect.name), checkfirst=False)
    connection.execute(insert(VERSION).values(version_num=f"{SCHEMA_VERSION:04}"))
