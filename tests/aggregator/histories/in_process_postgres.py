"""Three replicas in this process on one PostgreSQL, each behind a proxy that can cut it off."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from geoveil.aggregator import Store
from geoveil.aggregator.store import open_store
from geoveil.aggregator.store.maintenance import check

from ..cutting_proxy import CuttingProxy  # noqa: TID252 - tests are no package
from ..postgres import PostgresServer  # noqa: TID252 - tests are no package
from .campaigns import require
from .in_process import InProcess, Replica
from .traps import Death


class InProcessPostgres(InProcess):
    """See the module.

    Args:
        server: that runs the database.
        url: of the database, empty or of earlier histories.
        proxies: one per replica.
        tag: of this history.
        whole_server: whether the server restarts, and not only its connections end.
    """

    replicas = 3

    def __init__(
        self,
        server: PostgresServer,
        url: str,
        proxies: Sequence[CuttingProxy],
        tag: str,
        *,
        whole_server: bool = False,
    ) -> None:
        super().__init__()
        self.tag = tag
        self._server = server
        self._url = url
        self._proxies = proxies
        self._cuts = [0] * self.replicas
        self._whole_server = whole_server
        self._full = False

    def _replica(self, i: int) -> Replica:
        def open_writer() -> Store:
            return open_store(self._proxies[i].url)

        return Replica(open_writer, partial(open_store, self._url), lambda: self.now[i])

    def _end_thread(self, connection: Any) -> None:
        if connection is not None:
            connection.invalidate()  # closed without a ROLLBACK
        raise Death

    def troubled(self, replica: int) -> bool:
        """See `World.troubled`."""
        cut = self._proxies[replica].rounds < self._cuts[replica]
        return cut or self._full or super().troubled(replica)

    async def cut(self, replica: int, at: int, *, done: bool) -> None:
        """Lose a round to the server, or only its answer."""
        self._cuts[replica] = at
        self._proxies[replica].arm(at, None if done else lambda: None)

    async def fill_disk(self, full: bool) -> None:
        """Let the database refuse every write, as one does that has no room."""
        if full == self._full:
            return
        self._full = full
        with psycopg.connect(self._url, autocommit=True) as connection:
            name = sql.Identifier(connection.info.dbname)
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}").format(
                    name, sql.Literal(full)
                )
            )
        self._server.kill_connections(self._url)

    async def restart_database(self) -> None:
        """End all connections, or the server itself."""
        if self._whole_server:
            self._server.stop()
            self._server.start()
        else:
            self._server.kill_connections(self._url)

    async def heal(self) -> None:
        """See `World.heal`."""
        for i, proxy in enumerate(self._proxies):
            proxy.arm(None)
            self._cuts[i] = 0
        await super().heal()

    def check(self) -> None:
        """See `World.check`."""
        require(check(self._url).faults == (), "what is stored is what is counted")
