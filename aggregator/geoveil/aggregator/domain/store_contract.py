"""The contract of a store: campaigns, reports counted once, exact sums.

A store is synchronous, and only the thread that opened it may use it. Several stores, in one or
more processes, may be open on the same database.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple, Self

from geoveil.aggregator.domain.reports import (
    Bins,
    PackedColumns,
    PackedReport,
    in_columns,
    not_shown,
)
from geoveil.campaign import State
from geoveil.gp import Accumulator, UnsupportedError, enum_repr

_FIRST, _LAST = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """A published campaign and its status."""

    campaign_id: str
    published: bytes
    """The bytes whose SHA-256 is the digest."""
    queries: int
    """The number of queries, at least 1."""
    block_key: bytes | None = field(default=None, repr=False)
    """The secret key of `Layout`, from the record that created the campaign."""
    closed: bool = False
    opens: datetime = _FIRST
    """The signed time from which the campaign takes reports."""
    closes: datetime = _LAST
    """The signed time from which it takes no more."""
    delete_after: datetime | None = None
    """The signed time after which its reports are deleted; None if they are kept."""
    reports: int = 0

    def state(self, now: datetime) -> State:
        """Return the state like `Campaign.state`, without decoding the published bytes."""
        if self.closed or now >= self.closes:
            return State.CLOSED
        return State.PENDING if now < self.opens else State.OPEN


class Progress(NamedTuple):
    """Daily report counts of a campaign."""

    planned: int | None
    """The number of participants that its analyst expects; None if not given."""
    days: Sequence[tuple[int, int]]
    """Increasing days since 1970-01-01 (UTC) with new reports, and the total by then. Day 0 stands
    for the time before days were recorded."""


class Extent(NamedTuple):
    """The size of a database, and the number of servers that share it."""

    size_bytes: int
    writers: int
    """Connected servers that have counted reports in it; at least 1."""


@not_shown
class Submission(NamedTuple):
    """Validated reports to one campaign that are counted together."""

    campaign_id: str
    reports: Sequence[PackedReport]
    admit: bool
    """Whether the campaign's dates permit new reports. Stored reports are always recognised."""
    bins: Bins | None = None
    """Additional counts in the same transaction, the same for all of a campaign's submissions."""


class Outcome(Enum):
    """What the store did with a report."""

    __repr__ = enum_repr
    __hash__ = object.__hash__  # `Enum`'s is a Python function, and it is called for each report

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    ID_CONFLICT = "id conflict"
    NOT_OPEN = "not open"


@not_shown
class StoredAnswers(NamedTuple):
    """The answers of some of a campaign's reports."""

    packed: bytes
    """Joined results of `pack`; the answers of one report are adjacent."""
    after: bytes | None
    """The token of the next page; None on the last page."""


@not_shown
class StoredSums(NamedTuple):
    """The sums and counts of a campaign's reports at one moment."""

    totals: list[Accumulator]
    """The exact sums, one per query."""
    bin_counts: Mapping[int, int]
    """The number of answers in each row of `Bins`; empty without bins."""


class CampaignPage(NamedTuple):
    """Consecutively created campaigns."""

    records: Sequence[CampaignRecord]
    more: bool
    """Whether there are later campaigns."""


class Store(ABC):
    """Campaigns and counted reports. Every method does all of its work durably, or nothing.

    After an error the store remains usable: the next call reconnects.

    Raises:
        ServiceError: CAMPAIGN_NOT_FOUND for an unknown campaign, DATABASE_UNUSABLE on opening
            another program's database or another schema, STORE_UNAVAILABLE if it can't be reached
            or written. Then nothing has changed, unless the connection was lost at the end of a
            transaction. Repeating the call is safe in any case: nothing counts twice.
    """

    @abstractmethod
    def create_campaign(self, record: CampaignRecord) -> None:
        """Publish a campaign; repeating the same bytes has no effect.

        Raises:
            ServiceError: CAMPAIGN_ID_TAKEN if the id has other bytes.
        """

    @abstractmethod
    def close_campaign(self, campaign_id: str) -> None:
        """Stop taking a campaign's new reports; idempotent."""

    @abstractmethod
    def get_campaign(self, campaign_id: str) -> CampaignRecord:
        """Return one campaign."""

    @abstractmethod
    def campaign_page(
        self,
        after: str = "",
        *,
        limit: int = 100,
        most_bytes: int = 2 << 20,
        only: Collection[str] | None = None,
        open_at: datetime | None = None,
    ) -> CampaignPage:
        """Return at most `limit` ≥ 1 campaigns after the one with an id, in order of creation.

        Pages return each campaign that existed before the first call once, followed by later ones;
        if two processes create campaigns at once, one may be missed. Only what is returned is read.

        Args:
            most_bytes: the most bytes of their envelopes; the first is always returned.
            only: the ids to return; None for all.
            open_at: leave out campaigns closed at this time; None for none.
        """

    def note_day(self, day: int) -> None:  # noqa: B027 - a store need not
        """Record each campaign's number of reports as a day's latest (since 1970-01-01, in UTC).

        The default does nothing.
        """

    def plan_participants(self, campaign_id: str, participants: int | None) -> None:
        """Store the expected number of participants, None if unknown; default: UnsupportedError."""
        raise UnsupportedError("this kind of database keeps no plans")

    def progress(self, campaign_ids: Collection[str]) -> Mapping[str, Progress]:
        """Return the daily report counts of existing campaigns; the default has none."""
        return {campaign_id: Progress(None, ()) for campaign_id in campaign_ids}

    def extent(self) -> Extent | None:
        """Return the size of the database, and the number of servers that write to it, if known."""
        return None

    def free_bytes(self) -> int | None:
        """Return the free bytes of the disk; None, the default, if unknown."""
        return None

    def verify(self) -> None:  # noqa: B027 - a store need not
        """Refuse damaged database files with DATABASE_UNUSABLE; the default does not check."""

    @abstractmethod
    def probe(self) -> None:
        """Run an empty write transaction; ServiceError STORE_UNAVAILABLE if it fails."""

    @abstractmethod
    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        """Count reports in one transaction, which writes both their rows and the sums.

        A report counts if its id is new to its campaign, its submission is admitted and the
        campaign is not closed. The first of several with the same id wins. Outcomes have the
        order and shape of the batch.
        """

    @abstractmethod
    def sums(self, campaign_id: str) -> StoredSums:
        """Return the sums and counts of a campaign at one moment."""

    def totals(self, campaign_id: str) -> list[Accumulator]:
        """Return the exact sums at one moment, one per query of the campaign."""
        return self.sums(campaign_id).totals

    @abstractmethod
    def answers(self, campaign_id: str, after: bytes = b"", limit: int = 1 << 16) -> StoredAnswers:
        """Return the answers of the next reports, without their ids.

        Successive calls, starting with `after=b""` and passing each result's token on, return every
        report counted before the first call exactly once, and perhaps later ones. A store may
        return up to 256 reports even if `limit` ≥ 1 is less.
        """

    @abstractmethod
    def due(self, now: datetime) -> Sequence[str]:
        """Return the ids of the campaigns whose reports must be deleted by a given time."""

    @abstractmethod
    def delete_reports(self, campaign_id: str, limit: int = 1 << 16) -> bool:
        """Delete reports permanently, keep the sums, and return whether any may be left.

        The campaign must sign a deletion date. A call deletes about `limit` ≥ 1 reports, or all.
        From the first call on the campaign takes no reports and does not recognise deleted ones.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the database; idempotent. No other method may be called afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def gathered(
    submissions: Sequence[Submission],
) -> tuple[Sequence[PackedReport], Sequence[bool]]:
    """Return the reports of one campaign's submissions, and whether each is admitted if new.

    The reports are columns if all submissions have columns.
    """
    admit: list[bool] = []
    for submission in submissions:
        admit += [submission.admit] * len(submission.reports)
    parts = [submission.reports for submission in submissions]
    if len(parts) == 1:
        return parts[0], admit
    if any(type(part) is not PackedColumns for part in parts):
        return [report for part in parts for report in part], admit
    ids, answers = zip(*map(in_columns, parts), strict=True)
    return PackedColumns(b"".join(ids), b"".join(answers)), admit


def classify(
    reports: Sequence[PackedReport], admit: Sequence[bool], stored: Mapping[int, bool]
) -> tuple[list[Outcome], Sequence[PackedReport]]:
    """Return an outcome for each of one campaign's reports, in order, and the reports to store.

    `admit` says whether each is admitted if new; `stored` maps the positions of stored ids to
    whether their answers are equal.
    """
    accepted = [Outcome.ACCEPTED] * len(reports)
    if type(reports) is PackedColumns and not stored and all(admit) and reports.distinct:
        return accepted, reports
    pairs = list(zip(reports, admit, strict=True))
    fresh = {} if stored else {report.report_id: report for report, new in pairs if new}
    if fresh and len(fresh) == len(pairs):  # none is stored, refused or repeated
        return accepted, list(fresh.values())
    outcomes = []
    fresh = {}
    for position, (report, new) in enumerate(pairs):
        same = stored.get(position)
        if same is None and report.report_id in fresh:
            same = fresh[report.report_id].answers == report.answers
        if same is not None:
            outcomes.append(Outcome.DUPLICATE if same else Outcome.ID_CONFLICT)
        elif new:
            fresh[report.report_id] = report
            outcomes.append(Outcome.ACCEPTED)
        else:
            outcomes.append(Outcome.NOT_OPEN)
    return outcomes, list(fresh.values())
