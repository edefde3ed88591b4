"""Open the store of a path or a URL.

Another package adds a store with an entry point in `geoveil.stores`: a function from the URL to a
`Store`, named after the URL's scheme.
"""

from collections.abc import Callable
from pathlib import Path
from typing import cast

from geoveil.aggregator.domain.store_contract import Store
from geoveil.aggregator.store.database_url import SCHEMES, STORES, DatabaseURL
from geoveil.aggregator.store.sql import SQLStore
from geoveil.aggregator.store.sqlite import SQLiteStore
from geoveil.campaign import load
from geoveil.gp import GeoVeilError, ParameterError, UnsupportedError

_SEPARATOR = "://"


def open_store(
    database: Path | str | DatabaseURL, *, busy_timeout_s: float = 5.0, create: bool = True
) -> SQLStore:
    """Open the store of a database.

    Args:
        database: the path of a SQLite file, or a URL postgresql://user:password@host/database.
        busy_timeout_s: seconds to wait for another writer.
        create: whether to make the tables in an empty database and refuse other versions.

    Raises:
        ParameterError: if `database` is neither.
        ServiceError: as in `Store`.

    Example:
        >>> open_store("mysql://host/reports")
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: database must be a URL postgresql://… (it is not \
shown), got database='...'
    """
    if isinstance(database, DatabaseURL):
        database = database.reveal()
    if isinstance(database, str) and _SEPARATOR in database:
        # Imported here, since an embedded aggregator does not need the driver.
        from geoveil.aggregator.store.postgres import PostgresStore

        return PostgresStore(database, busy_timeout_s=busy_timeout_s, create=create)
    if not str(database) or str(database) == ":memory:":
        raise ParameterError("database", database, "the path of a file or a URL postgresql://…")
    return SQLiteStore(Path(database), busy_timeout_s=busy_timeout_s, create=create)


def open_any_store(database: Path | str | DatabaseURL, *, busy_timeout_s: float = 5.0) -> Store:
    """Open a database's store for serving; other packages may add schemes.

    Raises:
        ParameterError: if `database` is neither a path nor a known URL.
        ServiceError: as in `Store`.
        UnsupportedError: if the scheme's package can't open it.
    """
    if isinstance(database, DatabaseURL):
        database = database.reveal()
    scheme, separator, _ = str(database).partition(_SEPARATOR)
    if not separator or scheme in SCHEMES:
        return open_store(database, busy_timeout_s=busy_timeout_s)
    opens = cast(Callable[[str], Store], load(STORES, scheme, SCHEMES))
    store, failed = None, ""
    try:
        store = opens(str(database))
    except GeoVeilError:
        raise
    except Exception as error:  # noqa: BLE001 - its text may quote the URL, with a password
        failed = type(error).__name__
    if failed:
        raise UnsupportedError(f"the store of {scheme}:// can't be opened: {failed}")
    if not isinstance(store, Store):
        raise UnsupportedError(f"the entry point {scheme!r} in {STORES!r} opens no Store")
    return store
