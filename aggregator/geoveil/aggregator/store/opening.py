"""Which store is meant by a path or a URL."""

from pathlib import Path

from geoveil.aggregator.store.sql import SQLStore
from geoveil.aggregator.store.sqlite import SQLiteStore
from geoveil.gp import ParameterError

_SEPARATOR = "://"


def open_store(
    database: Path | str, *, busy_timeout_s: float = 5.0, create: bool = True
) -> SQLStore:
    """Open the store of a database.

    Args:
        database: path of a SQLite file, or a URL postgresql://user:password@host/database.
        busy_timeout_s: how long to wait, in seconds, for another writer.
        create: whether to make the tables of an empty database, and refuse other versions.

    Raises:
        ParameterError: if it is neither.
        ServiceError: as `Store`.

    Example:
        >>> open_store("mysql://host/reports")
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: database must be a URL postgresql://… (it is not \
shown), got database='...'
    """
    if isinstance(database, str) and _SEPARATOR in database:
        # Imported here: an embedded aggregator does without the driver.
        from geoveil.aggregator.store.postgres import PostgresStore

        return PostgresStore(database, busy_timeout_s=busy_timeout_s, create=create)
    if not str(database) or str(database) == ":memory:":
        raise ParameterError("database", database, "a path of a file or a URL postgresql://…")
    return SQLiteStore(Path(database), busy_timeout_s=busy_timeout_s, create=create)
