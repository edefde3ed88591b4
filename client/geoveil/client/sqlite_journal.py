"""A journal on disk, shared by all threads and processes that use one state directory.

Every operation opens and closes its own connection: nothing is held that a fork could copy, and
nothing is left open. Contributions are rare, so a few milliseconds each do not matter.
"""

import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from geoveil.client.contribution import Contribution
from geoveil.client.errors import JournalError
from geoveil.client.journal import Entry, Journal, Rejection, Status
from geoveil.gp import GeoPrivacy

FILE_NAME = "journal.sqlite3"
_VERSION = 1
_BUSY_TIMEOUT_S = 5.0
_SCHEMA = f"""
PRAGMA journal_mode = WAL;
CREATE TABLE entry (
    campaign_id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    report BLOB NOT NULL,
    epsilon REAL NOT NULL,
    per REAL NOT NULL,
    unit TEXT NOT NULL,
    recorded TEXT NOT NULL,
    status INTEGER NOT NULL,
    reason TEXT,
    detail TEXT,
    settled TEXT
);
PRAGMA user_version = {_VERSION};
"""
_INSERT = """
INSERT INTO entry (campaign_id, digest, report, epsilon, per, unit, recorded, status)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (campaign_id) DO NOTHING
"""
_SETTLE = """
UPDATE entry SET status = :status, reason = :reason, detail = :detail, settled = :settled
WHERE campaign_id = :campaign_id AND status < :status
"""
_SELECT = """
SELECT campaign_id, digest, report, epsilon, per, unit, recorded, status, reason, detail, settled
FROM entry
"""


class SqliteJournal(Journal):
    """Survives crashes of the process and of the machine (WAL, synchronous = FULL).

    Args:
        state_dir: made with mode 0700 if it is missing; if it exists, nobody but its owner may
            have access. On a local file system that knows hard links.

    Raises:
        JournalError: if the directory can't be used, or a newer version wrote the journal.
    """

    durable = True

    def __init__(self, state_dir: str | os.PathLike[str]) -> None:
        directory = Path(state_dir).absolute()
        self._path = directory / FILE_NAME
        try:
            _make_private(directory)
            if not self._path.exists():
                _create(self._path)
        except (OSError, sqlite3.Error) as error:
            raise JournalError(str(directory), str(error)) from error
        with self._connection() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != _VERSION:
            raise JournalError(
                str(self._path), f"its format is {version}, this geoveil knows {_VERSION}"
            )

    def find(self, campaign_id: str) -> Entry | None:
        """See `Journal.find`."""
        with self._connection() as connection:
            return _find(connection, campaign_id)

    def record(self, entry: Entry) -> Entry:
        """See `Journal.record`."""
        made = entry.contribution
        with self._connection() as connection:
            connection.execute(
                _INSERT,
                (
                    made.campaign_id,
                    made.digest,
                    made.report,
                    made.privacy.epsilon,
                    made.privacy.per,
                    made.privacy.unit,
                    _text(entry.recorded),
                    int(Status.PENDING),
                ),
            )
            return self._found(connection, made.campaign_id)

    def settle(
        self, campaign_id: str, status: Status, at: datetime, rejection: Rejection | None = None
    ) -> Entry:
        """See `Journal.settle`."""
        reason, detail = (None, None) if rejection is None else (rejection.reason, rejection.detail)
        with self._connection() as connection:
            connection.execute(
                _SETTLE,
                {
                    "status": int(status),
                    "reason": reason,
                    "detail": detail,
                    "settled": _text(at),
                    "campaign_id": campaign_id,
                },
            )
            return self._found(connection, campaign_id)

    def pending(self) -> tuple[Entry, ...]:
        """See `Journal.pending`."""
        with self._connection() as connection:
            rows = connection.execute(
                _SELECT + "WHERE status = ? ORDER BY recorded, campaign_id", (int(Status.PENDING),)
            )
            return tuple(_entry(row) for row in rows)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(_connect(self._path)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except (sqlite3.Error, ValueError) as error:  # ValueError: a row that nobody wrote so
            raise JournalError(str(self._path), str(error)) from error

    def _found(self, connection: sqlite3.Connection, campaign_id: str) -> Entry:
        entry = _find(connection, campaign_id)
        if entry is None:
            raise JournalError(str(self._path), f"it has no entry for {campaign_id!r}")
        return entry


def _connect(path: Path) -> sqlite3.Connection:
    # mode=rw: a journal that has vanished is an error, never silently a new and empty one.
    return sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None
    )


def _make_private(directory: Path) -> None:
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        _sync_directory(directory.parent)
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & 0o077:
        raise PermissionError(
            f"others have access to it (mode {mode:04o}): chmod 700, or name a directory in it"
        )


def _create(path: Path) -> None:
    """Put an empty journal into place, whole or not at all, unless another process did."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with closing(_connect(draft)) as connection:
            connection.executescript(_SCHEMA)
        # Not a rename: that would replace the journal of a process that was faster.
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        _sync_directory(path.parent)
    finally:
        draft.unlink()


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _find(connection: sqlite3.Connection, campaign_id: str) -> Entry | None:
    row = connection.execute(_SELECT + "WHERE campaign_id = ?", (campaign_id,)).fetchone()
    return None if row is None else _entry(row)


def _text(date: datetime) -> str:
    """Return a date in UTC, so that dates are in order as text."""
    return date.astimezone(UTC).isoformat()


def _entry(row: tuple[Any, ...]) -> Entry:
    campaign_id, digest, report, epsilon, per, unit, recorded, status, reason, detail, settled = row
    return Entry(
        contribution=Contribution(
            campaign_id=campaign_id,
            digest=digest,
            report=report,
            privacy=GeoPrivacy(epsilon, per, unit),
        ),
        recorded=datetime.fromisoformat(recorded),
        status=Status(status),
        rejection=None if reason is None else Rejection(reason, detail),
        settled=None if settled is None else datetime.fromisoformat(settled),
    )
