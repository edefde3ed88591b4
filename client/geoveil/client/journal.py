"""Ledger, outbox and history are one table: a row per report, made when it is drawn, kept for ever.

What a report cost, its bytes and that they wait to be sent become durable together or not at all,
so no crash can part them. A journal holds perturbed reports, public campaigns, prices and times;
nothing private.
"""

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias, TypeVar

from geoveil.client.errors import JournalError, OutboxFull
from geoveil.client.journal_rows import (
    FIND,
    HISTORY,
    PENDING,
    PIN,
    PINNED_AS,
    PUT,
    SCHEMA,
    VERSION,
    WAITING,
    StoredHistory,
    check,
    checked,
    content,
    entry_of,
    number,
    row,
    upgrade_2,
    upgrade_3,
)
from geoveil.client.ledger import HistoryOf, SpendingHistory
from geoveil.client.reports import Contribution, Entry, Rejection, Status
from geoveil.client.state_file import StateFile

FILE_NAME = "journal.sqlite3"
Permit: TypeAlias = Callable[[HistoryOf], None]
"""Raises unless the limits leave room; is given what returns an attribute's history."""
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much may wait to be sent. What is over is refused before anything is drawn."""

    most_reports: int
    """Reports."""
    most_bytes: int
    """Bytes; the report that reaches it is still taken."""


class Journal:
    """At most one report per campaign and period. Shared by threads and processes.

    Every method raises JournalError if the state directory can't be read or written, or what it
    holds is damaged, and has then changed nothing.

    Args:
        state_dir: directory of the file; None keeps everything in memory, until `close`.

    Attributes:
        durable: whether it is on disk: it then survives a crash, and takes its time.
    """

    def __init__(self, state_dir: str | os.PathLike[str] | None) -> None:
        self._file = StateFile(
            state_dir,
            FILE_NAME,
            SCHEMA,
            VERSION,
            upgrades={2: upgrade_2, 3: upgrade_3},
            check=check,
        )
        self.durable = self._file.durable

    def pin(self, campaign_id: str, digest: bytes, envelope: bytes, at: datetime) -> bytes:
        """Keep a campaign unless one of that id is kept; return the digest of the one that is."""
        with self._file.transaction(writes=True) as connection:
            connection.execute(PIN, checked((campaign_id, digest, envelope, number(at))))
            _, pinned, _, _ = content(connection.execute(PINNED_AS, (campaign_id,)).fetchone())
        return bytes(pinned)

    def envelope(self, campaign_id: str) -> bytes | None:
        """Return the campaign that is kept, in its envelope."""
        with self._file.transaction(writes=False) as connection:
            found = connection.execute(PINNED_AS, (campaign_id,)).fetchone()
        return None if found is None else bytes(content(found)[2])

    def find(self, campaign_id: str, period: int) -> Entry | None:
        """Return the entry of a campaign and period, if there is one."""
        with self._file.transaction(writes=False) as connection:
            return _find(connection, campaign_id, period)

    def admit(self, campaign_id: str, period: int, permit: Permit, bounds: Bounds) -> Entry | None:
        """Return the entry of a campaign and period; if there is none, whether one may be made.

        Raises:
            OutboxFull: if too much waits.
        """
        with self._file.transaction(writes=False) as connection:
            return _admitted(connection, campaign_id, period, permit, bounds)

    def record(self, made: Contribution, permit: Permit, at: datetime, bounds: Bounds) -> Entry:
        """Keep a report, unless there is one; return the one that is kept.

        A report that is not kept must never be sent. It is drawn before, as a draw may take longer
        than anybody should wait for the file: `admit` says whether to.

        Args:
            made: the report.
            permit: see `Permit`.
            at: when it was drawn.
            bounds: what may wait to be sent.

        Raises:
            OutboxFull: if too much waits.
        """
        with self._file.transaction(writes=True) as connection:
            entry = _admitted(connection, made.campaign_id, made.period, permit, bounds)
            if entry is None:
                entry = Entry(contribution=made, drawn=at, fresh=True)
                connection.execute(PUT, row(entry))
        return entry

    def pending(self) -> tuple[Entry, ...]:
        """Return the entries that wait to be sent, oldest first."""
        with self._file.transaction(writes=False) as connection:
            found = connection.execute(PENDING).fetchall()
        return tuple(map(entry_of, found))

    def mark_sent(self, entry: Entry, at: datetime) -> None:
        """Note that an entry is about to leave; when it returns, that survives any crash."""
        made = entry.contribution
        with self._file.transaction(writes=True) as connection:
            kept = _find(connection, made.campaign_id, made.period)
            if kept is not None:
                connection.execute(PUT, row(replace(kept, sent=kept.sent or at)))
        self._file.sync()

    def record_result(
        self, entry: Entry, status: Status, at: datetime, rejection: Rejection | None = None
    ) -> None:
        """Note what became of an entry; a status never goes down."""
        made = entry.contribution
        with self._file.transaction(writes=True) as connection:
            kept = _find(connection, made.campaign_id, made.period)
            if kept is not None and kept.status < status:
                kept = replace(kept, status=status, settled=at, rejection=rejection)
                connection.execute(PUT, row(kept))

    def fail(self, entry: Entry, failure: str) -> None:
        """Note why an entry could not be sent."""
        made = entry.contribution
        with self._file.transaction(writes=True) as connection:
            kept = _find(connection, made.campaign_id, made.period)
            if kept is not None:
                connection.execute(PUT, row(replace(kept, failure=failure)))

    def history(self) -> tuple[Entry, ...]:
        """Return all entries, oldest first."""
        with self._file.transaction(writes=False) as connection:
            found = connection.execute(HISTORY).fetchall()
        # Made outside the lock: many take longer than anybody should wait.
        return tuple(map(entry_of, found))

    def counts(self) -> tuple[dict[Status, int], int]:
        """Return how many entries have each status, and the bytes of those that wait."""
        with self._file.transaction(writes=False) as connection:
            rows = connection.execute("SELECT status, count(*) FROM report GROUP BY status")
            found = dict(rows.fetchall())
            _, size = connection.execute(WAITING).fetchone()
        if not found.keys() <= set(Status):
            raise JournalError(self._file.place, "it is damaged: a status is none")
        return {status: found.get(status, 0) for status in Status}, size

    def spent(
        self, attribute: str, unit: str, use: Callable[[SpendingHistory], _Result]
    ) -> _Result:
        """Return use(history) for the history of an attribute."""
        with self._file.transaction(writes=False) as connection:
            return use(StoredHistory(connection, attribute, unit))

    def close(self) -> None:
        """Close the file; a journal in memory is gone."""
        self._file.close()


def _admitted(
    connection: sqlite3.Connection, campaign_id: str, period: int, permit: Permit, bounds: Bounds
) -> Entry | None:
    entry = _find(connection, campaign_id, period)
    if entry is None:
        reports, size = connection.execute(WAITING).fetchone()
        if reports >= bounds.most_reports or size >= bounds.most_bytes:
            raise OutboxFull(
                campaign_id,
                reports=reports,
                size=size,
                most_reports=bounds.most_reports,
                most_bytes=bounds.most_bytes,
            )
        permit(partial(StoredHistory, connection))
    return entry


def _find(connection: sqlite3.Connection, campaign_id: str, period: int) -> Entry | None:
    found = connection.execute(FIND, (campaign_id, period)).fetchone()
    return None if found is None else entry_of(found)
