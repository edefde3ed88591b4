"""Ledger, outbox and history are one table: a row per report, made when it is drawn, kept for ever.

What a report cost, its bytes and that they wait to be sent become durable together or not at all,
so no crash can part them. A journal holds perturbed reports, public campaigns, prices and times;
nothing private.

Every row ends with a checksum of its other values, so that what a disk has changed is not believed.
Triggers keep the exclusive or of all checksums, so that neither are rows that are missing, or of
another state of the file or another device.
"""

# ruff: noqa: S608 - no input is ever part of a statement

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from google.protobuf.message import DecodeError

from geoveil.campaign import LABEL_UNIT
from geoveil.client.errors import JournalError, OutboxFull
from geoveil.client.ledger import HistoryOf, Spending, SpendingHistory, Telling
from geoveil.client.reports import (
    CampaignPoint,
    Contribution,
    DeliveryStatus,
    Entry,
    Reading,
    Rejection,
)
from geoveil.client.state_file import StateFile, commits_of
from geoveil.gp import GeoPrivacy, blake2b
from geoveil.proto.v1 import campaign_pb2 as pb

FILE_NAME = "journal.sqlite3"
Permit: TypeAlias = Callable[[HistoryOf], None]
"""Raises unless the limits leave room; is given what returns an attribute's history."""
_Result = TypeVar("_Result")

_VERSION = 9
# Times are microseconds since 1970: in order as numbers, exact. Up to version 2 the reports were in
# a table `entry`, without checksums, and version 3 counted commits in a table of that name: a
# process that still runs one of them lacks its table, and writes nothing.
# Version 4 lacked the tables of readings. A process that still runs it goes on with the others, and
# charges what was answered from a reading as if it had noise of its own: more than it cost.
# Version 5 lacked the table of campaigns' points, and made a coarser point for each report.
# Up to version 7 it was not kept which reading a report goes on from.
_REPORTS = """
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
    delta REAL NOT NULL,
    reach REAL NOT NULL,
    any_two REAL NOT NULL,
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
CREATE INDEX pending ON report (drawn) WHERE status = 0;
CREATE INDEX told ON report (attribute, unit, coalesce(settled, 9223372036854775807));
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
_READINGS = """
CREATE TABLE reading (
    attribute TEXT NOT NULL,
    unit TEXT NOT NULL,
    space TEXT NOT NULL,
    begins INTEGER NOT NULL,
    ends INTEGER NOT NULL,
    epsilon REAL NOT NULL,
    per REAL NOT NULL,
    point TEXT NOT NULL,
    drawn INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (attribute, unit, space, begins)
);
CREATE TABLE answered (
    campaign_id TEXT NOT NULL,
    period INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (campaign_id, period, epoch)
);
CREATE TRIGGER read AFTER INSERT ON reading BEGIN
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
CREATE TRIGGER linked AFTER INSERT ON answered BEGIN
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
"""
_POINTS = """
CREATE TABLE campaign_point (
    campaign_id TEXT NOT NULL,
    attribute TEXT NOT NULL,
    unit TEXT NOT NULL,
    space TEXT NOT NULL,
    begins INTEGER NOT NULL,
    epsilon REAL NOT NULL,
    per REAL NOT NULL,
    point TEXT NOT NULL,
    drawn INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (campaign_id, begins)
);
CREATE TRIGGER coarsened AFTER INSERT ON campaign_point BEGIN
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
"""
_SCHEMA = _REPORTS + _READINGS + _POINTS
_COLUMNS = (
    "campaign_id, period, digest, report, attribute, unit, epsilon, per, delta, reach,"
    " any_two, step_exponent, closes,"
    " drawn, status, sent, settled, reason, detail, failure"
)
_ALL = f"SELECT {_COLUMNS}, checksum FROM report"
_PENDING = f"{_ALL} WHERE status = 0 ORDER BY drawn, campaign_id, period"
_HISTORY = f"{_ALL} ORDER BY drawn, campaign_id, period"
_FIND = f"{_ALL} WHERE campaign_id = ? AND period = ?"
_PUT = f"INSERT INTO report ({_COLUMNS}, checksum) VALUES ({', '.join('?' * 21)})"
_WRITTEN_ONCE = 14
"""Columns that never change, from the first: what was drawn and what it cost."""
_CHANGE = """
UPDATE report
SET status = ?, sent = ?, settled = ?, reason = ?, detail = ?, failure = ?, checksum = ?
WHERE campaign_id = ? AND period = ?
"""
_PIN = """
INSERT INTO campaign (campaign_id, digest, envelope, seen, checksum) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
_PINNED = "SELECT campaign_id, digest, envelope, seen, checksum FROM campaign"
_PINNED_AS = f"{_PINNED} WHERE campaign_id = ?"
_WAITING = "SELECT count(*), coalesce(sum(length(report)), 0) FROM report WHERE status = 0"
_SINCE = """
SELECT rowid, campaign_id, length(report), attribute, epsilon, per, unit, delta, reach,
    EXISTS (SELECT * FROM answered WHERE answered.campaign_id = report.campaign_id
        AND answered.period = report.period)
FROM report WHERE rowid > ?
UNION ALL
SELECT rowid, NULL, 0, attribute, epsilon, per, unit, 0.0, 9e999, 0
FROM reading WHERE rowid > ?
"""
_READING_COLUMNS = "attribute, unit, space, begins, ends, epsilon, per, point, drawn"
_ALL_READINGS = f"SELECT {_READING_COLUMNS}, checksum FROM reading"
_READINGS_OF = f"{_ALL_READINGS} WHERE attribute = ? AND unit = ? AND space = ? ORDER BY begins"
_READ = f"INSERT INTO reading ({_READING_COLUMNS}, checksum) VALUES ({', '.join('?' * 10)})"
_ANSWER = "INSERT INTO answered (campaign_id, period, epoch, checksum) VALUES (?, ?, ?, ?)"
_ANSWERED = "SELECT campaign_id, period, epoch, checksum FROM answered"
_ANSWERED_AS = f"{_ANSWERED} WHERE campaign_id = ? AND period = ?"
_POINT_COLUMNS = "campaign_id, attribute, unit, space, begins, epsilon, per, point, drawn"
_ALL_POINTS = f"SELECT {_POINT_COLUMNS}, checksum FROM campaign_point"
_POINTS_OF = f"{_ALL_POINTS} WHERE campaign_id = ?"
_POINT_OF = f"{_POINTS_OF} AND begins = ?"
_COARSEN = f"INSERT INTO campaign_point ({_POINT_COLUMNS}, checksum) VALUES ({', '.join('?' * 10)})"
_POINTS_SINCE = """
SELECT rowid, campaign_id, attribute, epsilon, per, unit, begins FROM campaign_point
WHERE rowid > ?
"""
_TOLD = """
SELECT point.space, answered.epoch, coalesce(point.epsilon, report.epsilon),
    coalesce(point.per, report.per), report.unit, report.delta, report.reach,
    max(coalesce(report.settled, 9223372036854775807))
FROM report LEFT JOIN answered
    ON answered.campaign_id = report.campaign_id AND answered.period = report.period
LEFT JOIN campaign_point AS point
    ON point.campaign_id = answered.campaign_id AND point.begins = answered.epoch
WHERE report.attribute = ? AND report.unit = ?
    AND coalesce(report.settled, 9223372036854775807) > ?
GROUP BY coalesce(point.space, report.rowid), answered.epoch
"""
_LABELLED = "SELECT count(*) FROM report WHERE campaign_id = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a report was made from that is new: kept with it, or nothing is."""

    reading: Reading | None = None
    """The epoch's reading."""
    points: tuple[CampaignPoint, ...] = ()
    """The campaign's points."""


NOTHING = Drawn()
"""What is drawn for a report that has noise of its own."""


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
            check=_check,
        )
        self.durable = self._file.durable
        self._seen: _SeenReports | None = None
        self._room: tuple[int, tuple[object, ...]] | None = None
        """What was admitted last, and how many commits there were: no other may have come since."""

    def pin(self, campaign_id: str, digest: bytes, envelope: bytes, at: datetime) -> bytes:
        """Keep a campaign unless one of that id is kept; return the digest of the one that is."""
        with self._file.transaction(writes=True) as connection:
            connection.execute(_PIN, _checked((campaign_id, digest, envelope, _number(at))))
            _, pinned, _, _ = _content(connection.execute(_PINNED_AS, (campaign_id,)).fetchone())
        return bytes(pinned)

    def envelope(self, campaign_id: str) -> bytes | None:
        """Return the campaign that is kept, in its envelope."""
        with self._file.transaction(writes=False) as connection:
            row = connection.execute(_PINNED_AS, (campaign_id,)).fetchone()
        return None if row is None else bytes(_content(row)[2])

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
            entry = self._admitted(connection, campaign_id, period, permit, bounds)
            room_for = (campaign_id, period, permit, bounds)
            self._room = None if entry is not None else (commits_of(connection), room_for)
        return entry

    def readings(self, attribute: str, unit: str, space: str) -> tuple[Reading, ...]:
        """Return the readings of a value, by when their epochs began."""
        with self._file.transaction(writes=False) as connection:
            rows = connection.execute(_READINGS_OF, (attribute, unit, space)).fetchall()
        return tuple(map(_reading, rows))

    def points(self, campaign_id: str, readings: Iterable[Reading]) -> tuple[CampaignPoint, ...]:
        """Return a campaign's points, of some readings of its attribute."""
        of = {_number(reading.begins): reading for reading in readings}
        with self._file.transaction(writes=False) as connection:
            rows = connection.execute(_POINTS_OF, (campaign_id,)).fetchall()
        made_from = ((row, of.get(row[4])) for row in rows)
        return tuple(
            _point(row, reading)
            for row, reading in made_from
            if reading is not None and reading.space == row[3]
        )

    def record(
        self,
        made: Contribution,
        permit: Permit,
        at: datetime,
        bounds: Bounds,
        new: Drawn = NOTHING,
    ) -> Entry | None:
        """Keep a report, unless there is one; return the one that is kept.

        A report that is not kept must never be sent. It is drawn before, as a draw may take longer
        than anybody should wait for the file: `admit` says whether to.

        Args:
            made: the report.
            permit: raises unless the limits leave room.
            at: when it was drawn.
            bounds: what may wait to be sent.
            new: what it was made from that is new.

        Returns:
            The entry; None if the epoch has got another reading, or the campaign another point,
            meanwhile: then nothing was kept, and the report is to be made from that one.

        Raises:
            OutboxFull: if too much waits.
        """
        with self._file.transaction(writes=True) as connection:
            room_for = (made.campaign_id, made.period, permit, bounds)
            entry = None
            if self._room != (self._file.counted - 1, room_for):  # another report came in between
                entry = self._admitted(connection, *room_for)
            if entry is None:
                if new is not NOTHING and _is_known(connection, new, at):
                    return None
                if new.reading is not None:
                    connection.execute(_READ, _reading_row(new.reading))
                connection.executemany(_COARSEN, map(_point_row, new.points))
                entry = Entry(contribution=made, drawn=at, fresh=True)
                connection.execute(_PUT, _row(entry))
                of = (made.campaign_id, made.period)
                links = [(*of, _number(began)) for began in (made.before, made.epoch) if began]
                connection.executemany(_ANSWER, map(_checked, links))
        return entry

    def pending(self) -> tuple[Entry, ...]:
        """Return the entries that wait to be sent, oldest first."""
        with self._file.transaction(writes=False) as connection:
            rows = connection.execute(_PENDING).fetchall()
            links = connection.execute(_ANSWERED).fetchall()
        return tuple(_entries(rows, links))

    def mark_sent(self, entries: Iterable[Entry], at: datetime) -> None:
        """Note that entries are about to leave; when it returns, that survives any crash."""
        with self._file.transaction(writes=True) as connection:
            for entry in entries:
                kept = _stored(connection, entry.contribution)
                if kept is not None and kept[_SENT] is None:
                    kept[_SENT] = _number(at)
                    _change(connection, kept)
        self._file.sync()

    def settle(self, outcome: "EntryOutcome") -> None:
        """Note what became of an entry, unless more is known; a status never goes down."""
        with self._file.transaction(writes=True) as connection:
            kept = _stored(connection, outcome.entry.contribution)
            if kept is None:
                return
            if outcome.status is DeliveryStatus.PENDING:
                kept[_FAILURE] = outcome.failure
            elif kept[_STATUS] < outcome.status:
                why = outcome.rejection
                kept[_STATUS], kept[_SETTLED] = int(outcome.status), _number(outcome.at)
                kept[_REASON], kept[_DETAIL] = (why.reason, why.detail) if why else (None, None)
            else:
                return
            _change(connection, kept)

    def history(self) -> tuple[Entry, ...]:
        """Return all entries, oldest first."""
        with self._file.transaction(writes=False) as connection:
            rows = connection.execute(_HISTORY).fetchall()
            links = connection.execute(_ANSWERED).fetchall()
        # Made outside the lock: many take longer than anybody should wait.
        return tuple(_entries(rows, links))

    def counts(self) -> tuple[dict[DeliveryStatus, int], int]:
        """Return how many entries have each status, and the bytes of those that wait."""
        with self._file.transaction(writes=False) as connection:
            rows = connection.execute("SELECT status, count(*) FROM report GROUP BY status")
            of_status = dict(rows.fetchall())
            _, size = connection.execute(_WAITING).fetchone()
        if not of_status.keys() <= set(DeliveryStatus):
            raise JournalError(self._file.place, "it is damaged: a status is none")
        return {status: of_status.get(status, 0) for status in DeliveryStatus}, size

    def spent(
        self, attribute: str, unit: str, use: Callable[[SpendingHistory], _Result]
    ) -> _Result:
        """Return use(history) for the history of an attribute."""
        with self._file.transaction(writes=False) as connection:
            return use(self._up_to_date(connection).history(attribute, unit))

    def close(self) -> None:
        """Close the file; a journal in memory is gone."""
        self._file.close()
        self._seen = None

    def _admitted(
        self,
        connection: sqlite3.Connection,
        campaign_id: str,
        period: int,
        permit: Permit,
        bounds: Bounds,
    ) -> Entry | None:
        entry = _find(connection, campaign_id, period)
        if entry is None:
            seen = self._up_to_date(connection)
            # All together are fewer, as a rule: those that wait need not be counted.
            if seen.reports >= bounds.most_reports or seen.size >= bounds.most_bytes:
                reports, size = connection.execute(_WAITING).fetchone()
                if reports >= bounds.most_reports or size >= bounds.most_bytes:
                    raise OutboxFull(
                        campaign_id,
                        reports=reports,
                        size=size,
                        most_reports=bounds.most_reports,
                        most_bytes=bounds.most_bytes,
                    )
            permit(seen.history)
        return entry

    def _up_to_date(self, connection: sqlite3.Connection) -> "_SeenReports":
        """Return all reports, in a transaction that has added none yet."""
        if self._seen is None or self._seen.connection is not connection:
            self._seen = _SeenReports(connection)
        self._seen.read()
        return self._seen


def _is_known(connection: sqlite3.Connection, new: Drawn, at: datetime) -> bool:
    """Return whether there is by now what was drawn anew."""
    if new.reading is not None:
        row = _reading_row(new.reading)
        stored = map(_reading, connection.execute(_READINGS_OF, row[:3]).fetchall())
        if any(reading.begins <= at < reading.ends for reading in stored):
            return True
    return any(
        connection.execute(_POINT_OF, (point.campaign_id, _number(point.reading.begins))).fetchone()
        for point in new.points
    )


def _find(connection: sqlite3.Connection, campaign_id: str, period: int) -> Entry | None:
    row = connection.execute(_FIND, (campaign_id, period)).fetchone()
    if row is None:
        return None
    links = connection.execute(_ANSWERED_AS, (campaign_id, period)).fetchall()
    (entry,) = _entries([row], links)
    return entry


def _entries(reports: Iterable[tuple[Any, ...]], links: Iterable[tuple[Any, ...]]) -> list[Entry]:
    """Return the entries of rows, and which reading each was made from.

    Args:
        reports: rows of the table of reports.
        links: all rows of `answered` that belong to them.
    """
    epochs: dict[tuple[str, int], list[datetime]] = {}
    for campaign, period, epoch in map(_content, links):
        epochs.setdefault((campaign, period), []).append(_date(epoch))
    entries = []
    for entry in map(_entry, reports):
        made = entry.contribution
        began = sorted(epochs.get((made.campaign_id, made.period), ()))
        if began:
            before = began[0] if len(began) > 1 else None
            entry = replace(entry, contribution=replace(made, epoch=began[-1], before=before))
        entries.append(entry)
    return entries


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryOutcome:
    """What became of an entry, or of a try to send it."""

    entry: Entry
    """The entry."""
    at: datetime
    """When."""
    status: DeliveryStatus = DeliveryStatus.PENDING
    """PENDING: it is to be sent again."""
    rejection: Rejection | None = None
    """Why it was rejected."""
    failure: str | None = None
    """Why it could not be sent; of one that is pending."""


_STATUS, _SENT, _SETTLED, _REASON, _DETAIL, _FAILURE = range(_WRITTEN_ONCE, _WRITTEN_ONCE + 6)
"""Places of what changes in a row."""


def _stored(connection: sqlite3.Connection, made: Contribution) -> list[Any] | None:
    """Return the values of the row of a report, if there is one."""
    row = connection.execute(_FIND, (made.campaign_id, made.period)).fetchone()
    return None if row is None else list(_content(row))


def _change(connection: sqlite3.Connection, values: list[Any]) -> None:
    checked = _checked(tuple(values))
    connection.execute(_CHANGE, (*checked[_WRITTEN_ONCE:], *checked[:2]))


def _check(connection: sqlite3.Connection) -> None:
    """Read every row, so that the sums of the ledger need not.

    Raises:
        JournalError: if one is not as it was written, or they are not those that were written last.
    """
    counted = 0
    for values in connection.execute(_HISTORY):
        _entry(values)
        counted ^= values[-1]
    for values in connection.execute(_ALL_READINGS):
        _reading(values)
        counted ^= values[-1]
    for table in (_ANSWERED, _PINNED, _ALL_POINTS):
        for values in connection.execute(table):
            _content(values)
            counted ^= values[-1]
    if connection.execute("SELECT rows FROM state").fetchone() != (counted,):
        raise JournalError("rows", "some are missing, or of another time")


class _SeenReports:
    """What was ever drawn, counted by campaign and price.

    Rows are never taken away, nor their prices changed, so that only those are read that are new:
    what one more costs does not grow with how many there are.

    Args:
        connection: of the file; a new one, which may be to another state of it, needs a new object.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.reports = 0
        """How many there are, whether sent or not."""
        self.size = 0
        """Their bytes."""
        self._last = self._last_reading = self._last_point = 0
        self._used: set[tuple[str, int]] = set()
        """Campaigns, each with the epochs whose readings it has been answered from."""
        self.drawn: dict[tuple[str, str, str | None], Counter[GeoPrivacy]] = {}
        """How many were drawn, by attribute, unit and campaign (None: all), and by price."""

    def read(self) -> None:
        """Read the rows that are new, in an open transaction that has added none."""
        since = (self._last, self._last_reading)
        for row, campaign_id, size, attribute, *price, nested in self.connection.execute(
            _SINCE, since
        ).fetchall():
            if campaign_id is None:
                self._last_reading = row
            else:
                self.reports += 1
                self.size += size
                self._last = row
            if not nested:  # else the reading has paid for all, and a point for its campaign
                for scope in {campaign_id, None}:
                    self._count(scope, attribute, price)
        if self._last_reading:
            points = self.connection.execute(_POINTS_SINCE, (self._last_point,)).fetchall()
            for row, campaign_id, attribute, *price, begins in points:
                self._used.add((campaign_id, begins))
                self._count(campaign_id, attribute, price)
                self._last_point = row

    def used(self, campaign_id: str, epoch: datetime) -> bool:
        """Return whether a campaign has been answered from the reading of an epoch."""
        return (campaign_id, _number(epoch)) in self._used

    def _count(self, campaign_id: str | None, attribute: str, price: Sequence[Any]) -> None:
        try:
            privacy = _price(*price)
            self.drawn.setdefault((attribute, privacy.unit, campaign_id), Counter())[privacy] += 1
        except (TypeError, ValueError, OverflowError) as error:
            raise JournalError("row", type(error).__name__) from error

    def history(self, attribute: str, unit: str) -> SpendingHistory:
        """Return what counts against the limits of an attribute."""
        kind = _LabelHistory if unit == LABEL_UNIT else _StoredHistory
        return kind(self, attribute, unit)


class _StoredHistory(SpendingHistory):
    """The `SpendingHistory` of an attribute, read in the transaction of a connection."""

    def __init__(self, seen: _SeenReports, attribute: str, unit: str) -> None:
        self._seen = seen
        self._attribute = attribute
        self._unit = unit

    def spendings(self, *, campaign_id: str | None = None) -> Iterable[Spending]:
        scope = (self._attribute, self._unit, campaign_id)
        for privacy, count in self._seen.drawn.get(scope, Counter()).items():
            yield Spending(privacy=privacy, count=count)

    def tellings(self, *, after: datetime | None) -> Iterable[Telling]:
        parameters = (self._attribute, self._unit, _after(after))
        for space, begins, *price, last in self._seen.connection.execute(
            _TOLD, parameters
        ).fetchall():
            try:
                yield Telling(
                    privacy=_price(*price),
                    last=None if last == _WAITS else _date(last),
                    reading=None if begins is None else (space, _date(begins)),
                )
            except (TypeError, ValueError, OverflowError) as error:
                raise JournalError("row", type(error).__name__) from error

    def used(self, campaign_id: str, epoch: datetime) -> bool:
        return self._seen.used(campaign_id, epoch)


class _LabelHistory(_StoredHistory):
    """The history of labels of one name: of reports to the kept campaigns that asked for them."""

    def spendings(self, *, campaign_id: str | None = None) -> Iterable[Spending]:
        yield from super().spendings(campaign_id=campaign_id)
        for of_campaign, privacy in self._asked():
            if campaign_id in (None, of_campaign):
                (count,) = self._seen.connection.execute(_LABELLED, (of_campaign,)).fetchone()
                yield Spending(privacy=privacy, count=count)

    def _asked(self) -> Iterable[tuple[str, GeoPrivacy]]:
        """Yield the campaigns that asked for labels of this name, and what one costs."""
        for campaign_id, _, envelope, _, _ in self._seen.connection.execute(_PINNED).fetchall():
            try:
                content = pb.CampaignEnvelope.FromString(envelope).campaign
                strata = pb.Campaign.FromString(content).strata
                if strata.name == self._attribute and strata.HasField("epsilon"):
                    yield campaign_id, GeoPrivacy(strata.epsilon, 1.0, LABEL_UNIT)
            except (DecodeError, ValueError) as error:
                raise JournalError(f"row of {campaign_id!r}", type(error).__name__) from error


_price = lru_cache(maxsize=1024)(GeoPrivacy)
"""Remembers prices, which are few: to make one anew takes as long as to read its row."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WAITS = 2**63 - 1
"""Stands for when a report that waits is settled."""
_MICROSECOND = timedelta(microseconds=1)


def _number(when: datetime | None) -> int | None:
    """Return a time as it is stored."""
    return None if when is None else (when - _EPOCH) // _MICROSECOND


def _after(when: datetime | None) -> int:
    """Return a time as it is stored; for none, one before all."""
    return -(2**63) if when is None else (when - _EPOCH) // _MICROSECOND


def _date(stored: int) -> datetime:
    return _EPOCH + timedelta(microseconds=stored)


def _checked(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with its checksum: 7 bytes of BLAKE2b over its values in ASCII."""
    shown = ascii(values).encode()
    return (*values, int.from_bytes(blake2b(shown, digest_size=7).digest()))


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
            made.privacy.delta,
            made.privacy.reach,
            made.any_two,
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


def _reading_row(reading: Reading) -> tuple[Any, ...]:
    """Return a reading as the values of a row."""
    return _checked(
        (
            reading.attribute,
            reading.privacy.unit,
            reading.space,
            _number(reading.begins),
            _number(reading.ends),
            reading.privacy.epsilon,
            reading.privacy.per,
            " ".join(map(str, reading.point)),
            _number(reading.drawn),
        )
    )


def _reading(stored: tuple[Any, ...]) -> Reading:
    """Return the reading that a row holds.

    Raises:
        JournalError: if it is not as it was written.
    """
    values = _content(stored)
    try:
        attribute, unit, space, begins, ends, epsilon, per, point, drawn = values
        return Reading(
            attribute=attribute,
            space=space,
            begins=_date(begins),
            ends=_date(ends),
            privacy=_price(epsilon, per, unit),
            point=tuple(map(int, point.split())),
            drawn=_date(drawn),
        )
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise JournalError(f"row of {values[0]!r}", type(error).__name__) from error


def _point_row(made: CampaignPoint) -> tuple[Any, ...]:
    """Return a campaign's point as the values of a row: the price is that of its reading."""
    reading = made.reading
    return _checked(
        (
            made.campaign_id,
            reading.attribute,
            reading.privacy.unit,
            reading.space,
            _number(reading.begins),
            reading.privacy.epsilon,
            reading.privacy.per,
            " ".join(map(str, made.point)),
            _number(made.drawn),
        )
    )


def _point(stored: tuple[Any, ...], reading: Reading) -> CampaignPoint:
    """Return the campaign's point that a row holds, of a reading.

    Raises:
        JournalError: if it is not as it was written.
    """
    values = _content(stored)
    try:
        return CampaignPoint(
            campaign_id=values[0],
            reading=reading,
            point=tuple(map(int, values[7].split())),
            drawn=_date(values[8]),
        )
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise JournalError(f"row of {values[0]!r}", type(error).__name__) from error


_TYPES = (str, int, bytes, bytes, str, str, *[float] * 5, int, int, int, int)
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
        campaign_id, period, digest, report, attribute, unit, epsilon, per, *others = values
        delta, reach, any_two, exponent, closes, drawn, status, *outcome = others
        sent, settled, reason, detail, failure = outcome
        return Entry(
            contribution=Contribution(
                campaign_id=campaign_id,
                period=period,
                digest=digest,
                report=report,
                privacy=_price(epsilon, per, unit, delta, reach),
                any_two=any_two,
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
