"""The tables of a journal, and how their rows are written and read.

Every row ends with a checksum of its other values, so that what a disk has changed is not believed.
Triggers keep the exclusive or of all checksums, so that neither are rows that are missing, or of
another state of the file or another device.
"""

# ruff: noqa: S608 - no input is ever part of a statement

import hashlib
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from geoveil.client.errors import JournalError
from geoveil.client.ledger import Spending, SpendingHistory
from geoveil.client.reports import Contribution, Entry, Rejection, Status
from geoveil.client.state_format import run
from geoveil.gp import GeoPrivacy

VERSION = 4
# Times are microseconds since 1970: in order as numbers, exact. Up to version 2 the reports were in
# a table `entry`, without checksums, and version 3 counted commits in a table of that name: a
# process that still runs one of them lacks its table, and writes nothing.
SCHEMA = """
CREATE TABLE campaign (
    campaign_id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    envelope BLOB NOT NULL,
    seen INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE report (
    campaign_id TEXT NOT NULL,
    period INTEGER NOT NULL,
    digest BLOB NOT NULL,
    report BLOB NOT NULL,
    attribute TEXT NOT NULL,
    unit TEXT NOT NULL,
    epsilon REAL NOT NULL,
    per REAL NOT NULL,
    step_exponent INTEGER NOT NULL,
    closes INTEGER NOT NULL,
    drawn INTEGER NOT NULL,
    status INTEGER NOT NULL,
    sent INTEGER,
    settled INTEGER,
    reason TEXT,
    detail TEXT,
    failure TEXT,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (campaign_id, period)
);
CREATE INDEX spent ON report (attribute, unit, drawn, epsilon, per);
CREATE INDEX pending ON report (drawn) WHERE status = 0;
CREATE TRIGGER pinned AFTER INSERT ON campaign BEGIN
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
CREATE TRIGGER recorded AFTER INSERT ON report BEGIN
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
CREATE TRIGGER changed AFTER UPDATE OF checksum ON report BEGIN
    UPDATE state SET rows = (rows | OLD.checksum) - (rows & OLD.checksum);
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
"""
_COLUMNS = (
    "campaign_id, period, digest, report, attribute, unit, epsilon, per, step_exponent, closes,"
    " drawn, status, sent, settled, reason, detail, failure"
)
_ALL = f"SELECT {_COLUMNS}, checksum FROM report"
PENDING = f"{_ALL} WHERE status = 0 ORDER BY drawn, campaign_id, period"
HISTORY = f"{_ALL} ORDER BY drawn, campaign_id, period"
FIND = f"{_ALL} WHERE campaign_id = ? AND period = ?"
_CHANGING = ("status", "sent", "settled", "reason", "detail", "failure", "checksum")
"""Columns. The others, what was drawn and what it cost, are written once."""
PUT = (
    f"INSERT INTO report ({_COLUMNS}, checksum) VALUES ({', '.join('?' * 18)})"
    f" ON CONFLICT DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _CHANGING)}"
)
PIN = """
INSERT INTO campaign (campaign_id, digest, envelope, seen, checksum) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
PINNED = "SELECT campaign_id, digest, envelope, seen, checksum FROM campaign"
PINNED_AS = f"{PINNED} WHERE campaign_id = ?"
WAITING = "SELECT count(*), coalesce(sum(length(report)), 0) FROM report WHERE status = 0"
SPENT = """
SELECT epsilon, per, count(*) FROM report
WHERE attribute = :attribute AND unit = :unit
    AND (:campaign_id IS NULL OR campaign_id = :campaign_id) AND (:after IS NULL OR drawn > :after)
GROUP BY epsilon, per
"""
TIMES = """
SELECT drawn, epsilon, per FROM report
WHERE attribute = :attribute AND unit = :unit AND (:after IS NULL OR drawn > :after)
ORDER BY drawn
"""


def check(connection: sqlite3.Connection) -> None:
    """Read every row, so that the sums of the ledger need not.

    Raises:
        JournalError: if one is not as it was written, or they are not those that were written last.
    """
    found = 0
    for values in connection.execute(HISTORY):
        entry_of(values)
        found ^= values[-1]
    for values in connection.execute(PINNED):
        content(values)
        found ^= values[-1]
    if connection.execute("SELECT rows FROM state").fetchone() != (found,):
        raise JournalError("rows", "some are missing, or of another time")


def upgrade_2(connection: sqlite3.Connection) -> None:
    """Make the tables of a file of version 2 those of this version, in an open transaction.

    Raises:
        JournalError: if a row is not one that version 2 wrote.
    """
    reports = [_read(v) for v in connection.execute(f"SELECT {_COLUMNS} FROM entry")]
    pins = connection.execute("SELECT campaign_id, digest, envelope, seen FROM campaign").fetchall()
    connection.execute("DROP TABLE entry")
    _fill(connection, reports, map(checked, pins))


def upgrade_3(connection: sqlite3.Connection) -> None:
    """Make the tables of a file of version 3 those of this version, and count its commits on.

    Raises:
        JournalError: if a row is not as it was written.
    """
    reports = [entry_of(values) for values in connection.execute(HISTORY)]
    pins = connection.execute(PINNED).fetchall()
    for values in pins:
        content(values)
    connection.execute("UPDATE state SET commits = (SELECT made FROM commits)")
    for table in ("report", "commits"):
        connection.execute(f"DROP TABLE {table}")
    _fill(connection, reports, pins)


def _fill(
    connection: sqlite3.Connection, reports: Iterable[Entry], pins: Iterable[tuple[Any, ...]]
) -> None:
    connection.execute("DROP TABLE campaign")
    run(connection, SCHEMA)
    connection.executemany(PUT, map(row, reports))
    connection.executemany(PIN, pins)


class StoredHistory(SpendingHistory):
    """The `SpendingHistory` of an attribute, read in the transaction of a connection."""

    def __init__(self, connection: sqlite3.Connection, attribute: str, unit: str) -> None:
        self._connection = connection
        self._of_attribute = {"attribute": attribute, "unit": unit}

    def spendings(
        self, *, campaign_id: str | None = None, after: datetime | None = None
    ) -> Iterable[Spending]:
        values = self._of_attribute | {"campaign_id": campaign_id, "after": number(after)}
        for epsilon, per, count in self._connection.execute(SPENT, values):
            yield Spending(privacy=self._price(epsilon, per), count=count)

    def times(self, *, after: datetime | None) -> Iterable[tuple[datetime, Spending]]:
        values = self._of_attribute | {"after": number(after)}
        for drawn, epsilon, per in self._connection.execute(TIMES, values):
            yield _date(drawn), Spending(privacy=self._price(epsilon, per))

    def _price(self, epsilon: float, per: float) -> GeoPrivacy:
        try:
            return GeoPrivacy(epsilon, per, self._of_attribute["unit"])
        except ValueError as error:
            raise JournalError("row", type(error).__name__) from error


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def number(when: datetime | None) -> int | None:
    """Return a time as it is stored."""
    return None if when is None else (when - _EPOCH) // timedelta(microseconds=1)


def _date(stored: int) -> datetime:
    return _EPOCH + timedelta(microseconds=stored)


def checked(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with its checksum: 7 bytes of BLAKE2b over its values in ASCII."""
    shown = ascii(values).encode()
    return (*values, int.from_bytes(hashlib.blake2b(shown, digest_size=7).digest()))


def content(stored: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row without its checksum.

    Raises:
        JournalError: if it is not as it was written.
    """
    values = tuple(stored[:-1])
    if checked(values) != tuple(stored):
        raise JournalError(f"row of {values[0]!r}", "it is damaged")
    return values


def row(entry: Entry) -> tuple[Any, ...]:
    """Return an entry as the values of a row."""
    made = entry.contribution
    return checked(
        (
            made.campaign_id,
            made.period,
            made.digest,
            made.report,
            made.attribute,
            made.privacy.unit,
            made.privacy.epsilon,
            made.privacy.per,
            made.step_exponent,
            number(made.closes),
            number(entry.drawn),
            int(entry.status),
            number(entry.sent),
            number(entry.settled),
            entry.rejection and entry.rejection.reason,
            entry.rejection and entry.rejection.detail,
            entry.failure,
        )
    )


def entry_of(stored: tuple[Any, ...]) -> Entry:
    """Return the entry that a row holds.

    Raises:
        JournalError: if it is not as it was written.
    """
    return _read(content(stored))


_TYPES = (str, int, bytes, bytes, str, str, float, float, int, int, int, int)
"""Types of the columns that are never NULL, in their order."""


def _read(values: tuple[Any, ...]) -> Entry:
    try:
        if not all(map(isinstance, values, _TYPES)):
            raise TypeError  # SQLite keeps any type in any column
        (campaign_id, period, digest, report, attribute, unit, epsilon, per, exponent, closes) = (
            values[:10]
        )
        drawn, status, sent, settled, reason, detail, failure = values[10:]
        return Entry(
            contribution=Contribution(
                campaign_id=campaign_id,
                period=period,
                digest=digest,
                report=report,
                privacy=GeoPrivacy(epsilon, per, unit),
                attribute=attribute,
                step_exponent=exponent,
                closes=_date(closes),
            ),
            drawn=_date(drawn),
            status=Status(status),
            sent=None if sent is None else _date(sent),
            settled=None if settled is None else _date(settled),
            rejection=None if reason is None else Rejection(reason, detail),
            failure=failure,
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise JournalError(f"row of {values[0]!r}", type(error).__name__) from error
