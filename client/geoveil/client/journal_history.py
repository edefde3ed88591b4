"""The journal's spending, for the ledger."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from geoveil.client.errors import JournalError
from geoveil.client.journal_rows import WAITS, date_of, microseconds, price_of
from geoveil.client.journal_schema import CHARGED_SINCE, POINTS_SINCE, SINCE, TOLD
from geoveil.client.ledger import SpendingHistory, Telling
from geoveil.gp import GeoPrivacy


class SeenReports:
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

    def history(self, attribute: str, unit: str) -> SpendingHistory:
        """Return the history that counts against an attribute's limits."""
        return _StoredHistory(self, attribute, unit)


class _StoredHistory(SpendingHistory):
    """An attribute's `SpendingHistory`, read in a connection's transaction."""

    def __init__(self, seen: SeenReports, attribute: str, unit: str) -> None:
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
