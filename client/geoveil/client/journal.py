"""One draw per campaign: what was drawn is kept, and only that is ever sent.

A journal holds perturbed reports, digests, guarantees, states and times; nothing private. The first
report recorded for a campaign is the one that counts, whoever else tries.
"""

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from typing import ClassVar

from geoveil.client.contribution import Contribution, Receipt
from geoveil.client.errors import JournalError, ReportRejected


class Status(IntEnum):
    """What became of a report. It only ever goes up."""

    PENDING = 0
    """Kept, not known to be counted."""
    REJECTED = 1
    """Refused by the server for good."""
    ACKNOWLEDGED = 2
    """Counted."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a server refused a report for good."""

    reason: str
    """Name of the rejection reason, for example "NOT_OPEN"."""
    detail: str
    """What the server says about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A report and what became of it."""

    contribution: Contribution
    """The report; these bytes never change."""
    recorded: datetime
    """When it was drawn, with a time zone."""
    status: Status = Status.PENDING
    """Whether it was counted."""
    rejection: Rejection | None = None
    """Why not, if it was rejected."""
    settled: datetime | None = None
    """When the server's answer came."""

    def receipt(self) -> Receipt:
        """Return the receipt.

        Raises:
            ReportRejected: if the report was rejected.
        """
        receipt = self.contribution.receipt(acknowledged=self.status is Status.ACKNOWLEDGED)
        if self.rejection is not None:
            raise ReportRejected(receipt, self.rejection.reason, self.rejection.detail)
        return receipt


class Journal(ABC):
    """Keeps at most one report per campaign. Safe to share between threads.

    Every method raises JournalError if what is kept can't be read or written.
    """

    durable: ClassVar[bool]
    """Whether it is on disk: it then survives a crash, and takes its time."""

    @abstractmethod
    def find(self, campaign_id: str) -> Entry | None:
        """Return the entry of a campaign, if there is one."""

    @abstractmethod
    def record(self, entry: Entry) -> Entry:
        """Keep an entry unless its campaign has one, and return the one that is kept.

        When it returns, the entry of a durable journal survives any crash.
        """

    @abstractmethod
    def settle(
        self, campaign_id: str, status: Status, at: datetime, rejection: Rejection | None = None
    ) -> Entry:
        """Note what became of a report, unless a higher status is known, and return the entry."""

    @abstractmethod
    def pending(self) -> tuple[Entry, ...]:
        """Return the entries that are neither acknowledged nor rejected, oldest first."""


class MemoryJournal(Journal):
    """Forgets everything when the process ends; the same value can then be drawn for again."""

    durable = False

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._lock = threading.Lock()

    def find(self, campaign_id: str) -> Entry | None:
        """See `Journal.find`."""
        with self._lock:
            return self._entries.get(campaign_id)

    def record(self, entry: Entry) -> Entry:
        """See `Journal.record`."""
        with self._lock:
            return self._entries.setdefault(entry.contribution.campaign_id, entry)

    def settle(
        self, campaign_id: str, status: Status, at: datetime, rejection: Rejection | None = None
    ) -> Entry:
        """See `Journal.settle`."""
        with self._lock:
            entry = self._entries.get(campaign_id)
            if entry is None:
                raise JournalError("memory", f"it has no entry for {campaign_id!r}")
            if status > entry.status:
                entry = replace(entry, status=status, rejection=rejection, settled=at)
                self._entries[campaign_id] = entry
            return entry

    def pending(self) -> tuple[Entry, ...]:
        """See `Journal.pending`."""
        with self._lock:
            waiting = [e for e in self._entries.values() if e.status is Status.PENDING]
        return tuple(sorted(waiting, key=_age))


def _age(entry: Entry) -> tuple[datetime, str]:
    return entry.recorded, entry.contribution.campaign_id
