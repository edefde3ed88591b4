"""The version of a database's schema: read it, judge it, raise it by Alembic."""

import re
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.store.schema import SCHEMA_VERSION

VERSION_TABLE = "geoveil_revision"
"""Where Alembic keeps the revision."""
_OLD_VERSION_TABLE = "geoveil_schema"
"""Where version 1 kept its number."""
_SCRIPTS = Path(__file__).parent / "migrations"


def schema_version(connection: Connection) -> int:
    """Return the version of the schema; 0 if the database is empty.

    Raises:
        ServiceError: DATABASE_UNUSABLE if it holds the tables of something else.
    """
    tables = inspect(connection).get_table_names()
    if not tables:
        return 0
    for table, column in ((VERSION_TABLE, "version_num"), (_OLD_VERSION_TABLE, "version")):
        if table in tables:
            query = text(f"SELECT {column} FROM {table}")  # noqa: S608 - no input in it
            found = connection.execute(query).scalars().all()
            if len(found) == 1 and re.fullmatch("[0-9]{1,9}", str(found[0])):
                return int(found[0])
    raise ServiceError(Code.DATABASE_UNUSABLE, "it holds the tables of something else")


def require_current(version: int) -> None:
    """Refuse a database of another version.

    Raises:
        ServiceError: DATABASE_UNUSABLE, saying what to do.

    Example:
        >>> require_current(1)
        Traceback (most recent call last):
        geoveil.aggregator.domain.errors.ServiceError: the database can't be used: its schema has \
version 1, this version of geoveil needs 6: run `geoveil db upgrade`
    """
    if version == SCHEMA_VERSION:
        return
    advice = "run `geoveil db upgrade`" if version < SCHEMA_VERSION else "install a later geoveil"
    raise ServiceError(
        Code.DATABASE_UNUSABLE,
        f"its schema has version {version}, this version of geoveil needs {SCHEMA_VERSION}:"
        f" {advice}",
    )


def upgrade_schema(connection: Connection) -> None:
    """Bring an empty or older database to the current version, within the open transaction.

    Raises:
        ServiceError: DATABASE_UNUSABLE if it is of a later version, or of something else.
    """
    if schema_version(connection) > SCHEMA_VERSION:
        require_current(schema_version(connection))
    # Imported here: processes that find their database in order don't pay for it.
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    head = f"{SCHEMA_VERSION:04}"
    with EnvironmentContext(
        config, script, fn=lambda revision, _: script._upgrade_revs(head, revision)
    ) as environment:
        environment.configure(connection=connection, version_table=VERSION_TABLE)
        environment.run_migrations()
