"""The tables of a journal, and how their rows are written and read."""

# ruff: noqa: S608 - no input is ever part of a statement

import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from geoveil.client.contribution import Contribution, Entry, Rejection, Status
from geoveil.client.errors import JournalError
from geoveil.client.ledger import Spending
from geoveil.gp import GeoPrivacy

VERSION = 2
# Times are microseconds since 1970: in order as numbers, exact.
SCHEMA = """
CREATE TABLE campaign (
    campaign_id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    envelope BLOB NOT NULL,
    seen INTEGER NOT NULL
);
CREATE TABLE entry (
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
    PRIMARY KEY (campaign_id, period)
);
CREATE INDEX spent ON entry (attribute, unit, drawn, epsilon, per);
CREATE INDEX pending ON entry (drawn) WHERE status = 0;
"""
COLUMNS = (
    "campaign_id, period, digest, report, attribute, unit, epsilon, per, step_exponent, closes,"
    " drawn, status, sent, settled, reason, detail, failure"
)
PENDING = f"SELECT {COLUMNS}, rowid FROM entry WHERE status = 0 ORDER BY drawn, campaign_id, period"
HISTORY = f"SELECT {COLUMNS} FROM entry ORDER BY drawn, campaign_id, period"
FIND = f"SELECT {COLUMNS} FROM entry WHERE campaign_id = ? AND period = ?"
INSERT = f"INSERT INTO entry ({COLUMNS}) VALUES ({', '.join('?' * 17)})"
SETTLE = """
UPDATE entry SET status = :status, settled = :at, reason = :reason, detail = :detail
WHERE campaign_id = :campaign_id AND period = :period AND status < :status
"""
GIVE_UP = "UPDATE entry SET status = ?, settled = ? WHERE status = 0 AND rowid = ?"
EXPIRE = "UPDATE entry SET status = ?, settled = ? WHERE status = 0 AND closes < ?"
WAITING = "SELECT count(*), coalesce(sum(length(report)), 0) FROM entry WHERE status = 0"
SPENT = """
SELECT epsilon, per, count(*) FROM entry
WHERE attribute = :attribute AND unit = :unit
    AND (:campaign_id IS NULL OR campaign_id = :campaign_id) AND (:after IS NULL OR drawn > :after)
GROUP BY epsilon, per
"""
TIMES = """
SELECT drawn, epsilon, per FROM entry
WHERE attribute = ? AND unit = ? AND drawn > ? ORDER BY drawn
"""


class RowBook:
    """The `Book` of an attribute, read in the transaction of a connection."""

    def __init__(self, connection: sqlite3.Connection, attribute: str, unit: str) -> None:
        self._connection = connection
        self._attribute = attribute
        self._unit = unit

    def spendings(
        self, *, campaign_id: str | None = None, after: datetime | None = None
    ) -> Iterable[Spending]:
        """See `Book.spendings`."""
        values = {
            "attribute": self._attribute,
            "unit": self._unit,
            "campaign_id": campaign_id,
            "after": None if after is None else number(after),
        }
        for epsilon, per, count in self._connection.execute(SPENT, values):
            yield Spending(privacy=_price(epsilon, per, self._unit), count=count)

    def times(self, *, after: datetime) -> Iterable[tuple[datetime, Spending]]:
        """See `Book.times`."""
        values = (self._attribute, self._unit, number(after))
        for drawn, epsilon, per in self._connection.execute(TIMES, values):
            yield date(drawn), Spending(privacy=_price(epsilon, per, self._unit))


def _price(epsilon: float, per: float, unit: str) -> GeoPrivacy:
    try:
        return GeoPrivacy(epsilon, per, unit)
    except ValueError as error:
        raise JournalError("row", type(error).__name__) from error


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def number(when: datetime) -> int:
    """Return a time as it is stored."""
    return (when - _EPOCH) // timedelta(microseconds=1)


def date(stored: int) -> datetime:
    """Return the time that `number` has stored."""
    return _EPOCH + timedelta(microseconds=stored)


_TYPES = (str, int, bytes, bytes, str, str, float, float, int, int, int, int)
"""Of the columns that are never NULL."""


def row(entry: Entry) -> tuple[Any, ...]:
    """Return a new entry as the values of COLUMNS."""
    made = entry.contribution
    return (
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
        *(None,) * 5,
    )


def entry_of(values: tuple[Any, ...]) -> Entry:
    """Return the entry that a row holds.

    Raises:
        JournalError: if nobody wrote it so.
    """
    try:
        return _read(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise JournalError(f"row of {values[0]!r}", type(error).__name__) from error


def _read(values: tuple[Any, ...]) -> Entry:
    if not all(map(isinstance, values, _TYPES)):
        raise TypeError  # SQLite keeps any type in any column
    (campaign_id, period, digest, report, attribute, unit, epsilon, per, step_exponent, closes) = (
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
            step_exponent=step_exponent,
            closes=date(closes),
        ),
        drawn=date(drawn),
        status=Status(status),
        sent=None if sent is None else date(sent),
        settled=None if settled is None else date(settled),
        rejection=None if reason is None else Rejection(reason, detail),
        failure=failure,
    )
