"""Ledger, outbox and history are one table: a row per report, made when it is drawn, kept for ever.

What a report cost, its bytes and that they wait to be sent become durable together or not at all,
so no crash can part them. A journal holds perturbed reports, public campaigns, prices and times;
nothing private.

Every row ends with a checksum of its other values, so that what a disk has changed is not believed.
Triggers keep the exclusive or of all checksums, so that neither are rows that are missing, or of
another state of the file or another device.
"""

# ruff: noqa: S608 - no input is ever part of a statement

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

from google.protobuf.message import DecodeError

from geoveil.campaign.strata import LABEL_UNIT
from geoveil.client.errors import JournalError, OutboxFull
from geoveil.client.ledger import HistoryOf, Spending, SpendingHistory
from geoveil.client.reports import Contribution, DeliveryStatus, Entry, Rejection
from geoveil.client.state_file import StateFile, run
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import campaign_pb2 as pb

FILE_NAME = "journal.sqlite3"
Permit: TypeAlias = Callable[[HistoryOf], None]
"""Raises unless the limits leave room; is given what returns an attribute's history."""
_Result = TypeVar("_Result")

_VERSION = 4
# Times are microseconds since 1970: in order as numbers, exact. Up to version 2 the reports were in
# a table `entry`, without checksums, and version 3 counted commits in a table of that name: a
# process that still runs one of them lacks its table, and writes nothing.
_SCHEMA = """
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
_PENDING = f"{_ALL} WHERE status = 0 ORDER BY drawn, campaign_id, period"
_HISTORY = f"{_ALL} ORDER BY drawn, campaign_id, period"
_FIND = f"{_ALL} WHERE campaign_id = ? AND period = ?"
_CHANGING = ("status", "sent", "settled", "reason", "detail", "failure", "checksum")
"""Columns. The others, what was drawn and what it cost, are written once."""
_PUT = (
    f"INSERT INTO report ({_COLUMNS}, checksum) VALUES ({', '.join('?' * 18)})"
    f" ON CONFLICT DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _CHANGING)}"
)
_PIN = """
INSERT INTO campaign (campaign_id, digest, envelope, seen, checksum) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
_PINNED = "SELECT campaign_id, digest, envelope, seen, checksum FROM campaign"
_PINNED_AS = f"{_PINNED} WHERE campaign_id = ?"
_WAITING = "SELECT count(*), coalesce(sum(length(report)), 0) FROM report WHERE status = 0"
_SPENT = """
SELECT epsilon, per, count(*) FROM report
WHERE attribute = :attribute AND unit = :unit
    AND (:campaign_id IS NULL OR campaign_id = :campaign_id) AND (:after IS NULL OR drawn > :after)
GROUP BY epsilon, per
"""
_TIMES = """
SELECT drawn, epsilon, per FROM report
WHERE attribute = :attribute AND unit = :unit AND (:after IS NULL OR drawn > :after)
ORDER BY drawn
"""
_LABELLED = """
SELECT drawn FROM report
WHERE campaign_id = :campaign_id AND (:after IS NULL OR drawn > :after)
"""


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
            _SCHEMA,
            _VERSION,
            upgrades={2: _upgrade_2, 3: _upgrade_3},
            check=_check,
        )
        self.durable = self._file.durable

    def pin(self, campaign_id: str, digest: bytes, envelope: bytes, at: datetime) -> bytes:
        """Keep a campaign unless one of that id is kept; return the digest of the one that is."""
        with self._file.transaction(writes=True) as connection:
            connection.execute(_PIN, _checked((campaign_id, digest, envelope, _number(at))))
            _, pinned, _, _ = _content(connection.execute(_PINNED_AS, (campaign_id,)).fetchone())
        return bytes(pinned)

    def envelope(self, campaign_id: str) -> bytes | None:
        """Return the campaign that is kept, in its envelope."""
        with self._file.transaction(writes=False) as connection:
            found = connection.execute(_PINNED_AS, (campaign_id,)).fetchone()
        return None if found is None else bytes(_content(found)[2])

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
            permit: raises unless the limits leave room.
            at: when it was drawn.
            bounds: what may wait to be sent.

        Raises:
            OutboxFull: if too much waits.
        """
        with self._file.transaction(writes=True) as connection:
            entry = _admitted(connection, made.campaign_id, made.period, permit, bounds)
            if entry is None:
                entry = Entry(contribution=made, drawn=at, fresh=True)
                connection.execute(_PUT, _row(entry))
        return entry

    def pending(self) -> tuple[Entry, ...]:
        """Return the entries that wait to be sent, oldest first."""
        with self._file.transaction(writes=False) as connection:
            found = connection.execute(_PENDING).fetchall()
        return tuple(map(_entry, found))

    def mark_sent(self, entry: Entry, at: datetime) -> None:
        """Note that an entry is about to leave; when it returns, that survives any crash."""
        made = entry.contribution
        with self._file.transaction(writes=True) as connection:
            kept = _find(connection, made.campaign_id, made.period)
            if kept is not None:
                connection.execute(_PUT, _row(replace(kept, sent=kept.sent or at)))
        self._file.sync()

    def record_result(
        self, entry: Entry, status: DeliveryStatus, at: datetime, rejection: Rejection | None = None
    ) -> None:
        """Note what became of an entry; a status never goes down."""
        made = entry.contribution
        with self._file.transaction(writes=True) as connection:
            kept = _find(connection, made.campaign_id, made.period)
            if kept is not None and kept.status < status:
                kept = replace(kept, status=status, settled=at, rejection=rejection)
                connection.execute(_PUT, _row(kept))

    def fail(self, entry: Entry, failure: str) -> None:
        """Note why an entry could not be sent."""
        made = entry.contribution
        with self._file.transaction(writes=True) as connection:
            kept = _find(connection, made.campaign_id, made.period)
            if kept is not None:
                connection.execute(_PUT, _row(replace(kept, failure=failure)))

    def history(self) -> tuple[Entry, ...]:
        """Return all entries, oldest first."""
        with self._file.transaction(writes=False) as connection:
            found = connection.execute(_HISTORY).fetchall()
        # Made outside the lock: many take longer than anybody should wait.
        return tuple(map(_entry, found))

    def counts(self) -> tuple[dict[DeliveryStatus, int], int]:
        """Return how many entries have each status, and the bytes of those that wait."""
        with self._file.transaction(writes=False) as connection:
            rows = connection.execute("SELECT status, count(*) FROM report GROUP BY status")
            found = dict(rows.fetchall())
            _, size = connection.execute(_WAITING).fetchone()
        if not found.keys() <= set(DeliveryStatus):
            raise JournalError(self._file.place, "it is damaged: a status is none")
        return {status: found.get(status, 0) for status in DeliveryStatus}, size

    def spent(
        self, attribute: str, unit: str, use: Callable[[SpendingHistory], _Result]
    ) -> _Result:
        """Return use(history) for the history of an attribute."""
        with self._file.transaction(writes=False) as connection:
            return use(_history(connection, attribute, unit))

    def close(self) -> None:
        """Close the file; a journal in memory is gone."""
        self._file.close()


def _admitted(
    connection: sqlite3.Connection, campaign_id: str, period: int, permit: Permit, bounds: Bounds
) -> Entry | None:
    entry = _find(connection, campaign_id, period)
    if entry is None:
        reports, size = connection.execute(_WAITING).fetchone()
        if reports >= bounds.most_reports or size >= bounds.most_bytes:
            raise OutboxFull(
                campaign_id,
                reports=reports,
                size=size,
                most_reports=bounds.most_reports,
                most_bytes=bounds.most_bytes,
            )
        permit(partial(_history, connection))
    return entry


def _find(connection: sqlite3.Connection, campaign_id: str, period: int) -> Entry | None:
    found = connection.execute(_FIND, (campaign_id, period)).fetchone()
    return None if found is None else _entry(found)


def _check(connection: sqlite3.Connection) -> None:
    """Read every row, so that the sums of the ledger need not.

    Raises:
        JournalError: if one is not as it was written, or they are not those that were written last.
    """
    found = 0
    for values in connection.execute(_HISTORY):
        _entry(values)
        found ^= values[-1]
    for values in connection.execute(_PINNED):
        _content(values)
        found ^= values[-1]
    if connection.execute("SELECT rows FROM state").fetchone() != (found,):
        raise JournalError("rows", "some are missing, or of another time")


def _upgrade_2(connection: sqlite3.Connection) -> None:
    """Make the tables of a file of version 2 those of this version, in an open transaction.

    Raises:
        JournalError: if a row is not one that version 2 wrote.
    """
    stored = connection.execute(f"SELECT {_COLUMNS} FROM entry")
    reports = [_entry(_checked(values)) for values in stored]
    pins = connection.execute("SELECT campaign_id, digest, envelope, seen FROM campaign").fetchall()
    connection.execute("DROP TABLE entry")
    _fill(connection, reports, map(_checked, pins))


def _upgrade_3(connection: sqlite3.Connection) -> None:
    """Make the tables of a file of version 3 those of this version, and count its commits on.

    Raises:
        JournalError: if a row is not as it was written.
    """
    reports = [_entry(values) for values in connection.execute(_HISTORY)]
    pins = connection.execute(_PINNED).fetchall()
    for values in pins:
        _content(values)
    connection.execute("UPDATE state SET commits = (SELECT made FROM commits)")
    for table in ("report", "commits"):
        connection.execute(f"DROP TABLE {table}")
    _fill(connection, reports, pins)


def _fill(
    connection: sqlite3.Connection, reports: Iterable[Entry], pins: Iterable[tuple[Any, ...]]
) -> None:
    connection.execute("DROP TABLE campaign")
    run(connection, _SCHEMA)
    connection.executemany(_PUT, map(_row, reports))
    connection.executemany(_PIN, pins)


class _StoredHistory(SpendingHistory):
    """The `SpendingHistory` of an attribute, read in the transaction of a connection."""

    def __init__(self, connection: sqlite3.Connection, attribute: str, unit: str) -> None:
        self._connection = connection
        self._of_attribute = {"attribute": attribute, "unit": unit}

    def spendings(
        self, *, campaign_id: str | None = None, after: datetime | None = None
    ) -> Iterable[Spending]:
        values = self._of_attribute | {"campaign_id": campaign_id, "after": _number(after)}
        for epsilon, per, count in self._connection.execute(_SPENT, values):
            yield Spending(privacy=self._price(epsilon, per), count=count)

    def times(self, *, after: datetime | None) -> Iterable[tuple[datetime, Spending]]:
        values = self._of_attribute | {"after": _number(after)}
        for drawn, epsilon, per in self._connection.execute(_TIMES, values):
            yield _date(drawn), Spending(privacy=self._price(epsilon, per))

    def _price(self, epsilon: float, per: float) -> GeoPrivacy:
        try:
            return GeoPrivacy(epsilon, per, self._of_attribute["unit"])
        except ValueError as error:
            raise JournalError("row", type(error).__name__) from error


class _LabelHistory(_StoredHistory):
    """The history of labels of one name: of reports to the kept campaigns that asked for them."""

    def spendings(
        self, *, campaign_id: str | None = None, after: datetime | None = None
    ) -> Iterable[Spending]:
        yield from super().spendings(campaign_id=campaign_id, after=after)
        for asked, privacy in self._asked():
            if campaign_id in (None, asked):
                yield Spending(privacy=privacy, count=len(self._drawn(asked, after)))

    def times(self, *, after: datetime | None) -> Iterable[tuple[datetime, Spending]]:
        found = list(super().times(after=after))
        for asked, privacy in self._asked():
            found += [(when, Spending(privacy=privacy)) for when in self._drawn(asked, after)]
        return sorted(found, key=itemgetter(0))

    def _drawn(self, campaign_id: str, after: datetime | None) -> list[datetime]:
        values = {"campaign_id": campaign_id, "after": _number(after)}
        return [_date(drawn) for (drawn,) in self._connection.execute(_LABELLED, values)]

    def _asked(self) -> Iterable[tuple[str, GeoPrivacy]]:
        """Yield the campaigns that asked for labels of this name, and what one costs."""
        name = self._of_attribute["attribute"]
        for campaign_id, _, envelope, _, _ in self._connection.execute(_PINNED).fetchall():
            try:
                content = pb.CampaignEnvelope.FromString(envelope).campaign
                strata = pb.Campaign.FromString(content).strata
                if strata.name == name and strata.HasField("epsilon"):
                    yield campaign_id, GeoPrivacy(strata.epsilon, 1.0, LABEL_UNIT)
            except (DecodeError, ValueError) as error:
                raise JournalError(f"row of {campaign_id!r}", type(error).__name__) from error


def _history(connection: sqlite3.Connection, attribute: str, unit: str) -> SpendingHistory:
    kind = _LabelHistory if unit == LABEL_UNIT else _StoredHistory
    return kind(connection, attribute, unit)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _number(when: datetime | None) -> int | None:
    """Return a time as it is stored."""
    return None if when is None else (when - _EPOCH) // timedelta(microseconds=1)


def _date(stored: int) -> datetime:
    return _EPOCH + timedelta(microseconds=stored)


def _checked(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with its checksum: 7 bytes of BLAKE2b over its values in ASCII."""
    shown = ascii(values).encode()
    return (*values, int.from_bytes(hashlib.blake2b(shown, digest_size=7).digest()))


def _content(stored: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row without its checksum.

    Raises:
        JournalError: if it is not as it was written.
    """
    values = tuple(stored[:-1])
    if _checked(values) != tuple(stored):
        raise JournalError(f"row of {values[0]!r}", "it is damaged")
    return values


def _row(entry: Entry) -> tuple[Any, ...]:
    """Return an entry as the values of a row."""
    made = entry.contribution
    return _checked(
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
            _number(made.closes),
            _number(entry.drawn),
            int(entry.status),
            _number(entry.sent),
            _number(entry.settled),
            entry.rejection and entry.rejection.reason,
            entry.rejection and entry.rejection.detail,
            entry.failure,
        )
    )


_TYPES = (str, int, bytes, bytes, str, str, float, float, int, int, int, int)
"""Types of the columns that are never NULL, in their order."""


def _entry(stored: tuple[Any, ...]) -> Entry:
    """Return the entry that a row holds.

    Raises:
        JournalError: if it is not as it was written.
    """
    values = _content(stored)
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
            status=DeliveryStatus(status),
            sent=None if sent is None else _date(sent),
            settled=None if settled is None else _date(settled),
            rejection=None if reason is None else Rejection(reason, detail),
            failure=failure,
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise JournalError(f"row of {values[0]!r}", type(error).__name__) from error
