"""A store in one SQLite file: nothing to install, and every acknowledged report on disk."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.store.base import Outcome, StoredAnswers, Submission
from geoveil.aggregator.store.id_index import IdIndex
from geoveil.aggregator.store.private_file import make_private_database, protect_database
from geoveil.aggregator.store.schema import REPORT_PAGE
from geoveil.aggregator.store.sql import SQLStore
from geoveil.aggregator.store.sqlite_counting import count, read_sums
from geoveil.aggregator.store.sqlite_pages import Page, read_answers
from geoveil.gp.estimation import Accumulator

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",  # an acknowledged report survives a power failure
    "foreign_keys = ON",
    "cache_size = -16384",  # 16 MiB: reports are appended
    "wal_autocheckpoint = 4000",  # pages
)
_PAGES_READ = 1024


class SQLiteStore(SQLStore):
    """A `Store` in a file of SQLite.

    It holds 8 bytes of memory per report of the campaigns that it counts reports to.

    Args:
        path: of the file; made if absent, and its owner's alone in any case.
        busy_timeout_s: how long to wait, in seconds, for another writer.
        create: see `SQLStore`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with SQLiteStore(Path(folder) / "reports.sqlite") as store:
        ...         store.list_campaigns()
        []
    """

    _unusable = Code.DATABASE_UNUSABLE
    _insert = staticmethod(insert)

    def __init__(self, path: Path, *, busy_timeout_s: float = 5.0, create: bool = True) -> None:
        self._path = path
        make_private_database(path)
        engine = create_engine(
            URL.create("sqlite", database=str(path)),
            connect_args={
                "isolation_level": None,  # transactions begin where we say
                "check_same_thread": True,
                "timeout": busy_timeout_s,
            },
            pool_size=1,
            max_overflow=0,
            hide_parameters=True,  # they are reports; no error may show them
        )
        event.listen(engine, "connect", _configure)
        event.listen(engine, "begin", _begin)
        self._indices: dict[int, IdIndex] = {}
        self._written: list[tuple[int, list[Page], int]] = []
        super().__init__(engine, create=create)

    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        outcomes = super().commit(batch)
        # Only now: what was rolled back is stored nowhere, so it must not be indexed.
        for key, pages, reports in self._written:
            self._indices[key].add_new([(page.first, page.fresh_ids) for page in pages])
            self._indices[key].reports = reports
        return outcomes

    def _count(
        self, connection: Connection, by_campaign: Mapping[str, Sequence[Submission]]
    ) -> dict[str, list[Outcome]]:
        self._written = []
        outcomes = {}
        for campaign_id, submissions in by_campaign.items():
            counted = count(connection, campaign_id, submissions, self._indices)
            outcomes[campaign_id] = counted.outcomes
            if counted.pages:
                self._written.append((counted.campaign_key, counted.pages, counted.reports))
        return outcomes

    def read_sums(self, connection: Connection, key: int) -> dict[int, Accumulator]:
        return read_sums(connection, key)

    def read_reports(self, connection: Connection, key: int) -> Iterator[tuple[bytes, bytes]]:
        query = select(REPORT_PAGE.c.ids, REPORT_PAGE.c.answers)
        rows = connection.execute(query.where(REPORT_PAGE.c.campaign_key == key))
        for some in rows.partitions(_PAGES_READ):
            yield b"".join([row.ids for row in some]), b"".join([row.answers for row in some])

    def read_answers(
        self, connection: Connection, key: int, after: bytes, limit: int
    ) -> StoredAnswers:
        first = int.from_bytes(after)
        packed, following = read_answers(connection, key, first, limit)
        return StoredAnswers(packed, None if following is None else following.to_bytes(8))

    def protect(self) -> None:
        protect_database(self._path)

    def copy(self, target: Path) -> None:
        try:
            with closing(self._engine.raw_connection()) as connection:  # not in a transaction
                connection.cursor().execute("VACUUM INTO ?", (str(target),))
        except sqlite3.Error as error:
            raise ServiceError(Code.STORE_UNAVAILABLE, str(error)) from error

    def faults(self, connection: Connection) -> Sequence[str]:
        lines = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        return [] if lines == ["ok"] else lines

    def _reason(self, error: SQLAlchemyError) -> str:
        # SQLite's own words, for example "database or disk is full": they hold no parameters.
        return str(error.orig) if isinstance(error, DBAPIError) else type(error).__name__


def _configure(connection: Any, _record: object) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("geoveil_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN DEFERRED")
