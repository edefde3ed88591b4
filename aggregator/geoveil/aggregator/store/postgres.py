"""A store in PostgreSQL 14 or later, which many independent processes share.

It counts each report exactly once at READ COMMITTED, because:

* A report is the row of its slot (`schema.slots`), which is unique. An INSERT waits for any other
  transaction that takes the same slot, and then takes it or finds it permanently taken, by the same
  id or another one. In the latter case the report goes to a second table, whose key is the whole id
  and where the same holds. A slot stays taken until all reports of the campaign are deleted, after
  which it takes no more, so an id is in only one of the two tables.
* Transactions take locks in the same order, so they don't deadlock: campaigns by key, reports by
  slot, the second table's likewise, and last the counters, of which each process has its own shard.
* One transaction writes rows and counters. If the outcome of its COMMIT is unknown, the reports are
  sent again, and the rows decide.
* Commits share a lock on the campaign, which closing it and deleting its reports take exclusively:
  every commit either comes entirely before or sees that the campaign takes no reports.
* Reports with a deletion date are in one partition per campaign, which is dropped as a whole.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import Connection, create_engine, delete, event, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.store_contract import (
    CampaignRecord,
    Extent,
    Outcome,
    StoredAnswers,
    Submission,
)
from geoveil.aggregator.store.postgres_counting import (
    CAMPAIGN_LOCKS,
    SCHEMA_LOCK,
    SHARD_LOCKS,
    count,
    register,
)
from geoveil.aggregator.store.schema import REPORT, REPORT_BESIDE, REPORT_KEY, SLOT_BITS
from geoveil.aggregator.store.sql import SQLStore
from geoveil.campaign import REPORT_ID_BYTES
from geoveil.gp import ParameterError

_TRANSIENT = {"40001", "40P01"}  # serialization failure, deadlock
_SCHEMES = ("postgresql://", "postgres://")
_PARAMETERS = {
    "connect_timeout": 10,  # seconds
    # Give up a silently vanished server after half a minute instead of hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,  # milliseconds
}
"""Defaults that the URL may override."""
_ROWS_READ = 1 << 14


class PostgresStore(SQLStore):
    """A `Store` in a PostgreSQL database, which any number of servers may share.

    The database of "postgresql://user:password@host/database" is empty or geoveil's;
    "?options=-csearch_path%3Dname" chooses a schema. The URL may lead to a session pooler, but not
    to a transaction pooler, since settings and shard locks belong to a session.

    Raises:
        ParameterError: if the URL is not PostgreSQL's.

    Example:
        >>> PostgresStore("mysql://host/reports")
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: database must be a URL postgresql://… (it is not \
shown), got database='...'
    """

    _unusable = Code.STORE_UNAVAILABLE
    _insert = staticmethod(insert)

    def __init__(self, url: str, *, busy_timeout_s: float = 5.0, create: bool = True) -> None:
        parameters = self._parameters = _parameters(url)
        engine = create_engine(
            "postgresql+psycopg://",
            creator=lambda: psycopg.connect(**parameters),
            isolation_level="READ COMMITTED",
            pool_size=1,
            max_overflow=0,
            pool_pre_ping=True,  # silently replaces a connection lost while idle
            hide_parameters=True,  # they are reports; no error may show them
        )
        event.listen(engine, "connect", lambda c, _: _configure(c, busy_timeout_s))
        super().__init__(engine, create=create)

    def _prepare(self, connection: Connection, record: CampaignRecord) -> None:
        if record.delete_after is not None:
            named = {"id": record.campaign_id}
            key, report_key = connection.execute(_KEYS, named).one()
            first, end = (at << SLOT_BITS for at in (report_key, report_key + 1))
            # Attached afterwards: creation as a partition would wait for backups and block others.
            for statement in (
                f"CREATE TABLE report_{key} (LIKE report INCLUDING ALL)",
                f"ALTER TABLE report ATTACH PARTITION report_{key}"
                f" FOR VALUES FROM ({first}) TO ({end})",
            ):
                connection.exec_driver_sql(statement)

    def _count(self, by_campaign: Mapping[str, Sequence[Submission]]) -> dict[str, list[Outcome]]:
        with self.transaction(write=True) as connection:
            return count(connection, by_campaign)

    def _exclude_commits(self, connection: Connection, key: int) -> None:
        # Not a row lock, which successive commits could share forever.
        lock = text("SELECT pg_advisory_xact_lock(:space, :key)")
        connection.execute(lock, {"space": CAMPAIGN_LOCKS, "key": key})

    def exclude_creation(self, connection: Connection) -> None:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": SCHEMA_LOCK})

    def freeze(self, connection: Connection) -> None:
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))

    def read_reports(self, connection: Connection, key: int) -> Iterator[tuple[bytes, bytes]]:
        options = {"yield_per": _ROWS_READ}
        report_key = _report_key(connection, key)
        for query in (_in_slots(report_key), _beside(report_key)):
            for partition in connection.execute(query, execution_options=options).partitions():
                _, ids, answers = zip(*partition, strict=True)
                yield b"".join([report_id.bytes for report_id in ids]), b"".join(answers)

    def read_answers(
        self, connection: Connection, key: int, after: bytes, limit: int
    ) -> StoredAnswers:
        # First the reports in slots, by slot; then those in the second table, by id.
        rows: list[Any] = []
        report_key = _report_key(connection, key)
        beside = _beside(report_key)
        if len(after) == REPORT_ID_BYTES:
            beside = beside.where(REPORT_BESIDE.c.report_id > UUID(bytes=after))
        else:
            query = _in_slots(report_key)
            if after:
                query = query.where(REPORT.c.slot > int.from_bytes(after, signed=True))
            rows = [*connection.execute(query.order_by(REPORT.c.slot).limit(limit))]
        following = rows[-1].slot.to_bytes(8, signed=True) if len(rows) == limit else None
        if following is None:
            query = beside.order_by(REPORT_BESIDE.c.report_id).limit(limit - len(rows))
            rows = [*rows, *connection.execute(query)]
            following = rows[-1].report_id.bytes if len(rows) == limit else None
        return StoredAnswers(b"".join([row.answers for row in rows]), following)

    def _delete(self, connection: Connection, key: int, limit: int) -> bool:
        connection.exec_driver_sql(_SHORT_WAIT)
        of_campaign = REPORT_BESIDE.c.campaign_key == _report_key(connection, key)
        connection.execute(delete(REPORT_BESIDE).where(of_campaign))
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS report_{key}")
        return False

    def extent(self) -> Extent:
        row = self.run(lambda connection: connection.execute(_EXTENT, {"space": SHARD_LOCKS}).one())
        return Extent(int(row[0]), max(int(row[1]), 1))

    def copy(self, target: Path) -> None:
        _require_dump(self.run(_server_version))
        _dump(self._parameters, target)

    def _is_transient(self, error: SQLAlchemyError) -> bool:
        return getattr(getattr(error, "orig", None), "sqlstate", None) in _TRANSIENT

    def _reason(self, error: SQLAlchemyError) -> str:
        """Return the message without its details, which may contain a row's key."""
        if not isinstance(error, DBAPIError):
            return type(error).__name__
        state = getattr(error.orig, "sqlstate", None)
        lines = str(error.orig).splitlines() or [type(error.orig).__name__]
        return f"{lines[0]} ({state})" if state else lines[0]

    def _cause(self, error: SQLAlchemyError) -> SQLAlchemyError | None:
        # A refusal by the server may quote values; an error without a state never reached it.
        return None if getattr(getattr(error, "orig", None), "sqlstate", None) else error


_EXTENT = text(
    "SELECT pg_database_size(current_database()), (SELECT count(*) FROM pg_locks"
    " WHERE locktype = 'advisory' AND granted AND classid::bigint = :space"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)
"""Each connected server that has counted reports holds its shard's lock."""

_KEYS = text(f"SELECT campaign_key, {REPORT_KEY} FROM campaign WHERE campaign_id = :id")  # noqa: S608
_REPORT_KEY = text(f"SELECT {REPORT_KEY} FROM campaign WHERE campaign_key = :key")  # noqa: S608
_SHORT_WAIT = "SET LOCAL lock_timeout = '1s'"
"""Commits wait for a drop, which itself waits for readers of all tables, such as a backup."""


def _report_key(connection: Connection, key: int) -> int:
    return int(connection.execute(_REPORT_KEY, {"key": key}).scalar_one())


def _in_slots(key: int) -> Any:
    first = key << SLOT_BITS
    last = first + (1 << SLOT_BITS) - 1
    slot = REPORT.c.slot
    return select(slot, REPORT.c.report_id, REPORT.c.answers).where(slot.between(first, last))


def _beside(key: int) -> Any:
    column = REPORT_BESIDE.c
    query = select(column.campaign_key, column.report_id, column.answers)
    return query.where(column.campaign_key == key)


def _parameters(url: str) -> dict[str, Any]:
    """Return a URL's parameters, as libpq reads it."""
    if url.startswith(_SCHEMES):
        # Suppressed, since the error quotes the URL and perhaps a password.
        with suppress(psycopg.ProgrammingError):
            return {**_PARAMETERS, **conninfo_to_dict(url)}
    raise ParameterError("database", "...", "a URL postgresql://… (it is not shown)")


def _server_version(connection: Connection) -> int:
    version = connection.execute(text("SELECT current_setting('server_version_num')")).scalar_one()
    return int(version) // 10_000


def _configure(connection: Any, busy_timeout_s: float) -> None:
    register(connection)
    milliseconds = max(1, round(1000 * busy_timeout_s))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('lock_timeout', %s, false), set_config('TimeZone', 'UTC', false),"
            # A process that hangs in a transaction must not block the others forever.
            " set_config('idle_in_transaction_session_timeout', '60s', false)",
            (f"{milliseconds}ms",),
        )
        # Acknowledged reports survive a power failure, even with another server default.
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') = 'off'"
        )
    connection.commit()


def _require_dump(server: int) -> None:
    """Raise STORE_UNAVAILABLE unless there is a pg_dump of the server's major version or later."""
    program = shutil.which("pg_dump")
    problem = "there is none"
    if program is not None:
        shown = _run([program, "--version"]).stdout
        version = re.search(r"\) (\d+)", shown)
        if version and int(version[1]) >= server:
            return
        problem = f"{program} is of {f'version {version[1]}' if version else 'an unknown version'}"
    raise ServiceError(
        Code.STORE_UNAVAILABLE,
        f"a copy of it takes pg_dump of PostgreSQL {server} or later on the PATH, and {problem}:"
        " install PostgreSQL's client programs of that version",
    )


def _dump(parameters: Mapping[str, Any], target: Path) -> None:
    """Write a file for `pg_restore`; a STORE_UNAVAILABLE quotes pg_dump's error.

    The connection's `parameters` have libpq's names.
    """
    # Without the password, since every user of the machine can list the arguments.
    password = parameters.get("password")
    environment = {**os.environ, "PGPASSWORD": password} if password else None
    shown = make_conninfo(**{**parameters, "password": None})
    done = _run(
        ["pg_dump", "--format=custom", f"--file={target}", f"--dbname={shown}"], environment
    )
    if done.returncode:
        raise ServiceError(Code.STORE_UNAVAILABLE, done.stderr.strip())


def _run(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the operator's own programs and database
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
