"""Three replicas in this process on one PostgreSQL, each behind a proxy that can cut it off."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from geoveil.aggregator import Store
from geoveil.aggregator.domain.threads import Reader
from geoveil.aggregator.store import open_store
from geoveil.aggregator.store.maintenance import check_database
from geoveil.aggregator.store.schema import VERSION, tables_of

from ..cutting_proxy import CuttingProxy  # noqa: TID252 - tests are no package
from ..postgres import PostgresServer  # noqa: TID252 - tests are no package
from .campaigns import require
from .in_process import InProcess, Parts, Replica
from .traps import Death

_FAULTS = """
    CREATE SCHEMA faults;
    CREATE TABLE faults.disk AS SELECT false AS is_full;
    CREATE FUNCTION faults.write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT is_full FROM faults.disk) THEN
            RAISE EXCEPTION 'could not extend file: No space left on device'
            USING ERRCODE = 'disk_full';
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER write AFTER INSERT OR UPDATE ON campaign EXECUTE FUNCTION faults.write();
    CREATE TRIGGER write AFTER INSERT OR UPDATE ON query_sum EXECUTE FUNCTION faults.write()
"""
"""Rows and their number are written by then, in the same transaction."""


def prepare(url: str) -> None:
    """Make the tables, and what fails when it is told to."""
    open_store(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_FAULTS)


def empty(url: str) -> None:
    """Delete what a history left: every check reads all there is."""
    tables = [table for table in tables_of("postgresql") if table is not VERSION]
    names = [sql.Identifier(table.name) for table in tables]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(names)))


class InProcessPostgres(InProcess):
    """Replicas in this process on one PostgreSQL database.

    Args:
        server: that runs the database.
        url: of the database, prepared; empty, or of earlier histories.
        proxies: one per replica.
        reader: of the database, started.
        tag: of this history.
        whole_server: whether the server restarts, and not only its connections end.
    """

    replicas = 3

    def __init__(
        self,
        server: PostgresServer,
        url: str,
        proxies: Sequence[CuttingProxy],
        reader: Reader,
        tag: str,
        *,
        whole_server: bool = False,
    ) -> None:
        super().__init__()
        self.tag = tag
        self._server = server
        self._url = url
        self._proxies = proxies
        self._reader = reader
        self._cuts = [0] * self.replicas
        self._whole_server = whole_server
        self._full = False

    async def _replica(self, i: int) -> Replica:
        def open_writer() -> Store:
            return open_store(self._proxies[i].url)

        return Replica(open_writer, self._reader, lambda: self.now[i], Parts())

    def _end_thread(self, connection: Any) -> None:
        if connection is not None:
            connection.invalidate()  # closed without a ROLLBACK
        raise Death

    def troubled(self, replica: int) -> bool:
        cut = self._proxies[replica].rounds < self._cuts[replica]
        return cut or self._full or super().troubled(replica)

    async def cut(self, replica: int, at: int, *, done: bool) -> None:
        """Lose a round to the server, or only its answer."""
        self._cuts[replica] = at
        self._proxies[replica].arm(at, None if done else lambda: None)

    async def fill_disk(self, full: bool) -> None:
        """Let the last write of every transaction fail as it does where there is no room."""
        if full != self._full:
            self._full = full
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute("UPDATE faults.disk SET is_full = %s", (full,))

    async def restart_database(self) -> None:
        """End all connections, or the server itself."""
        if self._whole_server:
            self._server.stop()
            self._server.start()
        else:
            self._server.kill_connections(self._url)

    async def heal(self) -> None:
        for i, proxy in enumerate(self._proxies):
            proxy.arm(None)
            self._cuts[i] = 0
        await super().heal()

    def check(self) -> None:
        require(check_database(self._url).faults == (), "what is stored is what is counted")
