"""Ledger, outbox and history are one table: a row per report, made when it is drawn, kept for ever.

What a report cost, its bytes and that they wait to be sent become durable together or not at all,
so no crash can part them. A journal holds perturbed reports, public campaigns, prices and times;
nothing private.
"""

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from geoveil.client.contribution import Contribution, Entry, Rejection, Status
from geoveil.client.errors import JournalError, OutboxFull
from geoveil.client.journal_rows import (
    EXPIRE,
    FIND,
    GIVE_UP,
    HISTORY,
    INSERT,
    PENDING,
    SCHEMA,
    SETTLE,
    VERSION,
    WAITING,
    RowBook,
    entry_of,
    number,
    row,
)
from geoveil.client.ledger import Book, BookOf
from geoveil.client.state_file import StateFile

_LOG = logging.getLogger(__name__)
FILE_NAME = "journal.sqlite3"
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

    Every method raises JournalError if the state directory can't be read or written, and has then
    changed nothing.

    Args:
        state_dir: see `StateFile`; None keeps everything in memory, until `close`.
    """

    def __init__(self, state_dir: str | os.PathLike[str] | None) -> None:
        self._file = StateFile(state_dir, FILE_NAME, SCHEMA, VERSION)

    @property
    def durable(self) -> bool:
        """Whether it is on disk: it then survives a crash, and takes its time."""
        return self._file.durable

    def pin(self, campaign_id: str, digest: bytes, envelope: bytes, at: datetime) -> bytes:
        """Keep a campaign unless one of that id is kept; return the digest of the one that is."""
        with self._file.writing() as connection:
            connection.execute(
                "INSERT INTO campaign (campaign_id, digest, envelope, seen) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (campaign_id, digest, envelope, number(at)),
            )
            query = "SELECT digest FROM campaign WHERE campaign_id = ?"
            (pinned,) = connection.execute(query, (campaign_id,)).fetchone()
        return bytes(pinned)

    def envelope(self, campaign_id: str) -> bytes | None:
        """Return the campaign that is kept, in its envelope."""
        query = "SELECT envelope FROM campaign WHERE campaign_id = ?"
        with self._file.reading() as connection:
            found = connection.execute(query, (campaign_id,)).fetchone()
        return None if found is None else bytes(found[0])

    def find(self, campaign_id: str, period: int) -> Entry | None:
        """Return the entry of a campaign and period, if there is one."""
        with self._file.reading() as connection:
            return _find(connection, campaign_id, period)

    def record(
        self,
        campaign_id: str,
        period: int,
        draw: Callable[[BookOf], Contribution],
        at: datetime,
        bounds: Bounds,
    ) -> Entry:
        """Draw and keep a report, unless there is one; return the one that is kept.

        Everything happens in one transaction, so that no second draw is ever made. What `draw`
        raises undoes it.

        Args:
            campaign_id: of the campaign.
            period: of the campaign.
            draw: makes the report; it is given a function that returns the `Book` of an attribute,
                by its name and unit.
            at: when.
            bounds: what may wait to be sent.

        Raises:
            OutboxFull: if too much waits.
        """
        with self._file.writing() as connection:
            entry = _find(connection, campaign_id, period)
            if entry is None:
                _check_room(connection, campaign_id, bounds)
                made = draw(lambda attribute, unit: RowBook(connection, attribute, unit))
                entry = Entry(contribution=made, drawn=at, fresh=True)
                connection.execute(INSERT, row(entry))
        return entry

    def pending(self, at: datetime) -> tuple[Entry, ...]:
        """Return the entries that wait to be sent, oldest first.

        Those that can't be read are given up first, so that they hold up no other.

        Args:
            at: when.
        """
        with self._file.reading() as connection:
            found = connection.execute(PENDING).fetchall()
        entries: list[Entry] = []
        damaged: list[int] = []
        for *values, row_id in found:
            entry = _deliverable(tuple(values))
            if entry is None:
                damaged.append(row_id)
            else:
                entries.append(entry)
        if damaged:
            self._give_up(damaged, at)
        return tuple(entries)

    def depart(self, entries: Sequence[Entry], at: datetime) -> None:
        """Note that entries are about to leave; when it returns, they survive any crash."""
        with self._file.writing() as connection:
            connection.executemany(
                "UPDATE entry SET sent = ? WHERE campaign_id = ? AND period = ? AND sent IS NULL",
                [(number(at), *_key(entry)) for entry in entries],
            )
        self._file.sync()

    def settle(
        self, entries: Iterable[tuple[Entry, Status, Rejection | None]], at: datetime
    ) -> None:
        """Note what became of entries; a status never goes down."""
        with self._file.writing() as connection:
            for entry, status, rejection in entries:
                campaign_id, period = _key(entry)
                connection.execute(
                    SETTLE,
                    {
                        "campaign_id": campaign_id,
                        "period": period,
                        "status": int(status),
                        "at": number(at),
                        "reason": rejection and rejection.reason,
                        "detail": rejection and rejection.detail,
                    },
                )

    def fail(self, entries: Sequence[Entry], failure: str) -> None:
        """Note why entries could not be sent."""
        with self._file.writing() as connection:
            connection.executemany(
                "UPDATE entry SET failure = ? WHERE campaign_id = ? AND period = ?",
                [(failure, *_key(entry)) for entry in entries],
            )

    def expire(self, closed_before: datetime, at: datetime) -> int:
        """Give up what waits although its campaign closed before a time; return how many."""
        with self._file.writing() as connection:
            values = (int(Status.EXPIRED), number(at), number(closed_before))
            return connection.execute(EXPIRE, values).rowcount

    def history(self) -> tuple[Entry, ...]:
        """Return all entries, oldest first.

        Raises:
            JournalError: also if what one of them cost, or when, can't be read: a history without
                it would say that less was spent.
        """
        with self._file.reading() as connection:
            found = connection.execute(HISTORY).fetchall()
        # Made outside the lock: many take longer than anybody should wait.
        return tuple(map(entry_of, found))

    def counts(self) -> tuple[dict[Status, int], int]:
        """Return how many entries have each status, and the bytes of those that wait."""
        with self._file.reading() as connection:
            rows = connection.execute("SELECT status, count(*) FROM entry GROUP BY status")
            found = dict.fromkeys(Status, 0)
            for status, count in rows:
                found[Status(status) if status in set(Status) else Status.UNDELIVERABLE] += count
            _, size = connection.execute(WAITING).fetchone()
        return found, size

    def spent(self, attribute: str, unit: str, use: Callable[[Book], _Result]) -> _Result:
        """Return use(book) for the book of an attribute."""
        with self._file.reading() as connection:
            return use(RowBook(connection, attribute, unit))

    def _give_up(self, row_ids: Sequence[int], at: datetime) -> None:
        with self._file.writing() as connection:
            values = [(int(Status.UNDELIVERABLE), number(at), row_id) for row_id in row_ids]
            connection.executemany(GIVE_UP, values)
        _LOG.warning(
            "%s is damaged: %d of the reports that wait can't be read, and are given up",
            self._file.place,
            len(row_ids),
        )

    def close(self) -> None:
        """Close the file; a journal in memory is gone."""
        self._file.close()


def _check_room(connection: sqlite3.Connection, campaign_id: str, bounds: Bounds) -> None:
    reports, size = connection.execute(WAITING).fetchone()
    if reports >= bounds.most_reports or size >= bounds.most_bytes:
        raise OutboxFull(
            campaign_id,
            reports=reports,
            size=size,
            most_reports=bounds.most_reports,
            most_bytes=bounds.most_bytes,
        )


def _deliverable(values: tuple[Any, ...]) -> Entry | None:
    """Return the entry of a row, if it can be sent."""
    try:
        entry = entry_of(values)
    except JournalError:
        return None
    return None if entry.contribution.content() is None else entry


def _find(connection: sqlite3.Connection, campaign_id: str, period: int) -> Entry | None:
    found = connection.execute(FIND, (campaign_id, period)).fetchone()
    return None if found is None else entry_of(found)


def _key(entry: Entry) -> tuple[str, int]:
    return entry.contribution.campaign_id, entry.contribution.period
