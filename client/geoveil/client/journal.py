"""Ledger, outbox and history: one row per report and one per charge, never removed.

A report's price, bytes and place in the outbox become durable together, so no crash can separate
them. The journal stores only perturbed reports, public campaigns, prices and times. Every row ends
with a checksum of its values, and triggers maintain the exclusive or of all checksums, which
detects changed, missing or foreign rows.
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias, TypeVar

from geoveil.campaign import Charge
from geoveil.client.contributions import (
    CampaignPoint,
    Contribution,
    DeliveryStatus,
    Entry,
    Reading,
)
from geoveil.client.errors import JournalError, OutboxFull
from geoveil.client.journal_rows import (
    WAITS,
    charge_of,
    charge_rows,
    checked_row,
    content_of,
    date_of,
    entry_of,
    microseconds,
    point_of,
    point_row,
    price_of,
    reading_of,
    reading_row,
    row_of,
)
from geoveil.client.journal_schema import (
    ALL_POINTS,
    ALL_READINGS,
    CHANGE,
    CHARGE,
    CHARGED,
    CHARGED_AS,
    CHARGED_PENDING,
    CHARGED_SINCE,
    COARSEN,
    FIND,
    HISTORY,
    PENDING,
    PIN,
    PINNED,
    PINNED_AS,
    POINT_OF,
    POINTS_OF,
    POINTS_SINCE,
    PUT,
    READ,
    READINGS_OF,
    SCHEMA,
    SINCE,
    TOLD,
    VERSION,
    WAITING,
    WRITTEN_ONCE,
)
from geoveil.client.ledger import HistoryOf, SpendingHistory, Telling
from geoveil.client.state_file import StateFile, commits_of
from geoveil.gp import GeoPrivacy

FILE_NAME = "journal.sqlite3"
Permit: TypeAlias = Callable[[HistoryOf], None]
"""Raises unless the limits leave room; takes a function that returns an attribute's history."""
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A report's new reading and point, which are stored together with it or not at all."""

    reading: Reading | None = None
    points: tuple[CampaignPoint, ...] = ()


NOTHING = Drawn()
"""The draws of a report with its own noise: no reading and no point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits on waiting reports; beyond them a report is refused before anything is drawn."""

    most_reports: int
    most_bytes: int
    """The most bytes; the report that reaches them is still accepted."""


class Journal:
    """At most one report per campaign and period. Threads and processes may share it.

    Every method raises JournalError, without changes, if the state directory is unusable or
    damaged.

    Args:
        state_dir: the file's directory; None keeps everything in memory until `close`.

    Attributes:
        durable: whether it is on disk, and survives a crash.
    """

    def __init__(self, state_dir: str | os.PathLike[str] | None) -> None:
        self._file = StateFile(state_dir, FILE_NAME, SCHEMA, VERSION, check=_check)
        self.durable = self._file.durable
        self._seen: _SeenReports | None = None
        self._room: tuple[int, tuple[object, ...]] | None = None
        """The last admitted report and the number of commits then, to detect later commits."""

    def pin(self, campaign_id: str, digest: bytes, envelope: bytes, at: datetime) -> bytes:
        """Store a campaign unless its id has one; return the stored one's digest."""
        with self._file.transaction(writes=True) as connection:
            connection.execute(PIN, checked_row((campaign_id, digest, envelope, microseconds(at))))
            _, pinned, _, _ = content_of(connection.execute(PINNED_AS, (campaign_id,)).fetchone())
        return bytes(pinned)

    def envelope(self, campaign_id: str) -> bytes | None:
        """Return the stored campaign in its envelope."""
        with self._file.transaction(writes=False) as connection:
            row = connection.execute(PINNED_AS, (campaign_id,)).fetchone()
        return None if row is None else bytes(content_of(row)[2])

    def find(self, campaign_id: str, period: int) -> Entry | None:
        """Return the entry for a campaign and period, if any."""
        with self._file.transaction(writes=False) as connection:
            return _find(connection, campaign_id, period)

    def admit(self, campaign_id: str, period: int, permit: Permit, bounds: Bounds) -> Entry | None:
        """Return a period's entry or None; raise an error if no new entry is permitted."""
        with self._file.transaction(writes=False) as connection:
            entry = self._admitted(connection, campaign_id, period, permit, bounds)
            room_for = (campaign_id, period, permit, bounds)
            self._room = None if entry is not None else (commits_of(connection), room_for)
        return entry

    def readings(self, attribute: str, unit: str, space: str) -> tuple[Reading, ...]:
        """Return a value's readings in order of their epochs."""
        with self._file.transaction(writes=False) as connection:
            rows = connection.execute(READINGS_OF, (attribute, unit, space)).fetchall()
        return tuple(map(reading_of, rows))

    def points(self, campaign_id: str, readings: Iterable[Reading]) -> tuple[CampaignPoint, ...]:
        """Return a campaign's points made from the given readings of its attribute."""
        of = {microseconds(reading.begins): reading for reading in readings}
        with self._file.transaction(writes=False) as connection:
            rows = connection.execute(POINTS_OF, (campaign_id,)).fetchall()
        made_from = ((row, of.get(row[4])) for row in rows)
        return tuple(
            point_of(row, reading)
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
        """Store a report unless there is one, and return the stored entry.

        A report that is not stored must never be sent. Call `admit` first, and draw the report
        before this call, which locks the file.

        Args:
            permit: raises unless the limits leave room.
            at: the time when the report was drawn.
            bounds: the limits on waiting reports.
            new: the reading and point drawn for it.

        Returns:
            The entry; None if the epoch now has another reading, or the campaign another
            point: then make the report from that one; nothing was stored.

        Raises:
            OutboxFull: if too many reports wait.
        """
        with self._file.transaction(writes=True) as connection:
            room_for = (made.campaign_id, made.period, permit, bounds)
            entry = None
            if self._room != (self._file.counted - 1, room_for):  # another report came between
                entry = self._admitted(connection, *room_for)
            if entry is None:
                if _is_known(connection, new, at):
                    return None
                if new.reading is not None:
                    connection.execute(READ, reading_row(new.reading))
                connection.executemany(COARSEN, map(point_row, new.points))
                entry = Entry(contribution=made, drawn=at, fresh=True)
                connection.execute(PUT, row_of(entry))
                connection.executemany(CHARGE, charge_rows(made))
        return entry

    def pending(self) -> tuple[Entry, ...]:
        """Return the entries that wait for sending, oldest first."""
        return self._every(PENDING, CHARGED_PENDING)

    def mark_sent(self, entries: Iterable[Entry], at: datetime) -> list[Entry]:
        """Record durably that entries are about to leave; return those that still wait."""
        waiting = []
        with self._file.transaction(writes=True) as connection:
            for entry in entries:
                made = entry.contribution
                kept = _find(connection, made.campaign_id, made.period)
                if kept is not None and kept.status is DeliveryStatus.PENDING:
                    waiting.append(entry)
                    if kept.sent is None:
                        _change(connection, replace(kept, sent=at))
        self._file.sync()
        return waiting

    def record_outcome(self, outcome: Entry) -> None:
        """Record how an entry was settled, or why sending it failed; its status never decreases."""
        with self._file.transaction(writes=True) as connection:
            made = outcome.contribution
            kept = _find(connection, made.campaign_id, made.period)
            if kept is None:
                return
            if outcome.status is DeliveryStatus.PENDING:
                _change(connection, replace(kept, failure=outcome.failure))
            elif kept.status < outcome.status:
                settled = replace(
                    kept,
                    status=outcome.status,
                    settled=outcome.settled,
                    rejection=outcome.rejection,
                )
                _change(connection, settled)

    def history(self) -> tuple[Entry, ...]:
        """Return all entries, oldest first."""
        return self._every(HISTORY, CHARGED)

    def counts(self) -> tuple[dict[DeliveryStatus, int], int]:
        """Return the number of entries by status, and the bytes of waiting ones."""
        with self._file.transaction(writes=False) as connection:
            rows = connection.execute("SELECT status, count(*) FROM report GROUP BY status")
            of_status = dict(rows.fetchall())
            _, size = connection.execute(WAITING).fetchone()
        if not of_status.keys() <= set(DeliveryStatus):
            raise JournalError(self._file.place, "it is damaged: a status is invalid")
        return {status: of_status.get(status, 0) for status in DeliveryStatus}, size

    def spent(
        self, attribute: str, unit: str, use: Callable[[SpendingHistory], _Result]
    ) -> _Result:
        """Return use(history) for an attribute's history."""
        with self._file.transaction(writes=False) as connection:
            return use(_StoredHistory(self._up_to_date(connection), attribute, unit))

    def close(self) -> None:
        """Close the file; a journal in memory is lost."""
        self._file.close()
        self._seen = None

    def _every(self, reports: str, charges: str) -> tuple[Entry, ...]:
        with self._file.transaction(writes=False) as connection:
            report_rows = connection.execute(reports).fetchall()
            rows_of_charges = connection.execute(charges).fetchall()
        # Outside the lock, since making many entries takes long.
        costs: dict[tuple[str, int], list[Charge]] = {}
        for row in rows_of_charges:
            costs.setdefault(row[:2], []).append(charge_of(row))
        return tuple(entry_of(row, tuple(costs.get(row[:2], ()))) for row in report_rows)

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
            # Usually even the total is below the limit, so waiting reports need not be counted.
            if seen.reports >= bounds.most_reports or seen.size >= bounds.most_bytes:
                reports, size = connection.execute(WAITING).fetchone()
                if reports >= bounds.most_reports or size >= bounds.most_bytes:
                    raise OutboxFull(
                        campaign_id,
                        reports=reports,
                        size=size,
                        most_reports=bounds.most_reports,
                        most_bytes=bounds.most_bytes,
                    )
            permit(partial(_StoredHistory, seen))
        return entry

    def _up_to_date(self, connection: sqlite3.Connection) -> "_SeenReports":
        """Return the counts of all reports, in a transaction that has not added one yet."""
        if self._seen is None or self._seen.connection is not connection:
            self._seen = _SeenReports(connection)
        self._seen.read()
        return self._seen


def _is_known(connection: sqlite3.Connection, new: Drawn, at: datetime) -> bool:
    """Return whether the journal already has the drawn reading or point."""
    if new.reading is not None:
        row = reading_row(new.reading)
        stored = map(reading_of, connection.execute(READINGS_OF, row[:3]).fetchall())
        if any(reading.begins <= at < reading.ends for reading in stored):
            return True
    return any(
        connection.execute(POINT_OF, (of.campaign_id, microseconds(of.reading.begins))).fetchone()
        for of in new.points
    )


class _SeenReports:
    """All reports ever drawn, counted by campaign and price.

    Prices are never removed or changed, so only new rows are read. Another connection may see
    another state of the file, so it needs a new object.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.reports = 0
        """The number of reports, sent or not."""
        self.size = 0
        """The bytes of all reports."""
        self._last = self._last_charge = self._last_reading = self._last_point = 0
        self.used: set[tuple[str, int]] = set()
        """Pairs of a campaign and an epoch whose reading has answered it."""
        self.drawn: dict[tuple[str, str, str | None], Counter[GeoPrivacy]] = {}
        """The number of draws by attribute, unit and campaign (None for all), and by price."""

    def read(self) -> None:
        """Read the new rows, in an open transaction that has not added any."""
        for row, size in self.connection.execute(SINCE, (self._last,)).fetchall():
            self.reports += 1
            self.size += size
            self._last = row
        since = (self._last_charge, self._last_reading)
        for row, campaign_id, attribute, *price, nested in self.connection.execute(
            CHARGED_SINCE, since
        ).fetchall():
            if campaign_id is None:
                self._last_reading = row
            else:
                self._last_charge = row
            if not nested:  # otherwise the reading has paid for all, and a point for its campaign
                for scope in {campaign_id, None}:
                    self._count(scope, attribute, price)
        if self._last_reading:
            points = self.connection.execute(POINTS_SINCE, (self._last_point,)).fetchall()
            for row, campaign_id, attribute, *price, begins in points:
                self.used.add((campaign_id, begins))
                self._count(campaign_id, attribute, price)
                self._last_point = row

    def _count(self, campaign_id: str | None, attribute: str, price: Sequence[Any]) -> None:
        try:
            privacy = price_of(*price)
            self.drawn.setdefault((attribute, privacy.unit, campaign_id), Counter())[privacy] += 1
        except (TypeError, ValueError, OverflowError) as error:
            raise JournalError("row", type(error).__name__) from error


class _StoredHistory(SpendingHistory):
    """An attribute's `SpendingHistory`, read in a connection's transaction."""

    def __init__(self, seen: _SeenReports, attribute: str, unit: str) -> None:
        self._seen = seen
        self._attribute = attribute
        self._unit = unit

    def spendings(self, *, campaign_id: str | None = None) -> Mapping[GeoPrivacy, int]:
        return self._seen.drawn.get((self._attribute, self._unit, campaign_id), Counter())

    def tellings(self, *, after: datetime | None) -> Iterable[Telling]:
        since = -(2**63) if after is None else microseconds(after)
        parameters = (self._attribute, self._unit, since)
        for space, begins, *price, last in self._seen.connection.execute(
            TOLD, parameters
        ).fetchall():
            try:
                yield Telling(
                    privacy=price_of(*price),
                    last=None if last == WAITS else date_of(last),
                    reading=None if begins is None else (space, date_of(begins)),
                )
            except (TypeError, ValueError, OverflowError) as error:
                raise JournalError("row", type(error).__name__) from error

    def used(self, campaign_id: str, epoch: datetime) -> bool:
        return (campaign_id, microseconds(epoch)) in self._seen.used


def _find(connection: sqlite3.Connection, campaign_id: str, period: int) -> Entry | None:
    row = connection.execute(FIND, (campaign_id, period)).fetchone()
    if row is None:
        return None
    charges = connection.execute(CHARGED_AS, (campaign_id, period)).fetchall()
    return entry_of(row, tuple(map(charge_of, charges)))


def _change(connection: sqlite3.Connection, entry: Entry) -> None:
    row = row_of(entry)
    connection.execute(CHANGE, (*row[WRITTEN_ONCE:], *row[:2]))


def _check(connection: sqlite3.Connection) -> None:
    """Check every row, so that sums can rely on them; JournalError if one has changed."""
    counted = 0
    for table in (PINNED, HISTORY, CHARGED, ALL_READINGS, ALL_POINTS):
        for values in connection.execute(table):
            content_of(values)
            counted ^= values[-1]
    if connection.execute("SELECT rows FROM state").fetchone() != (counted,):
        raise JournalError("rows", "some are missing, or from another time")
