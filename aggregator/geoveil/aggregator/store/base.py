"""The contract of a store: campaigns, reports counted once, exact sums.

A store is synchronous and used by the one thread that opened it. Several may be open on the same
database, in one process or in many.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple, Self

from geoveil.aggregator.domain.reports import Bins, PackedColumns, PackedReport, in_columns
from geoveil.campaign import State
from geoveil.gp import Accumulator, UnsupportedError, enum_repr

_FIRST, _LAST = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """A campaign as published, and its status."""

    campaign_id: str
    published: bytes
    """The bytes whose SHA-256 is the digest."""
    queries: int
    """The number of queries, at least 1."""
    block_key: bytes | None = field(default=None, repr=False)
    """The secret key of `Layout`; of the record that created the campaign."""
    closed: bool = False
    opens: datetime = _FIRST
    """The signed time from which it takes reports."""
    closes: datetime = _LAST
    """The signed time from which it takes none."""
    delete_after: datetime | None = None
    """The signed time after which its reports are deleted; None: they are kept."""
    reports: int = 0

    def state(self, now: datetime) -> State:
        """Return the state like `Campaign.state`, without decoding the published bytes."""
        if self.closed or now >= self.closes:
            return State.CLOSED
        return State.PENDING if now < self.opens else State.OPEN


class Progress(NamedTuple):
    """Daily report counts of a campaign."""

    planned: int | None
    """Participants that its analyst expects; None: nobody said."""
    days: Sequence[tuple[int, int]]
    """Increasing days since 1970-01-01 (UTC) that added reports, and all reports by then. Day 0
    stands for all before days were noted."""


class Extent(NamedTuple):
    """The size of a database, and who shares it."""

    size_bytes: int
    writers: int
    """Servers that have counted reports to it and are still connected; at least 1."""


class Submission(NamedTuple):
    """Validated reports to one campaign, counted together."""

    campaign_id: str
    reports: Sequence[PackedReport]
    admit: bool
    """Whether the campaign's dates allow new reports. Known ones are recognised in any case."""
    bins: Bins | None = None
    """Additional counts in the same transaction, equal for every submission."""

    def __repr__(self) -> str:
        return "Submission(not shown)"


class Outcome(Enum):
    """The store's outcome for a report."""

    __repr__ = enum_repr
    __hash__ = object.__hash__  # that of `Enum` is a function of Python, called for each report

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    ID_CONFLICT = "id conflict"
    NOT_OPEN = "not open"


class StoredAnswers(NamedTuple):
    """The answers of some reports of a campaign."""

    packed: bytes
    """Answers as `pack` returns them, joined; those of one report stand together."""
    after: bytes | None
    """The token of the next page; None on the last page."""

    def __repr__(self) -> str:
        return "StoredAnswers(not shown)"


class StoredSums(NamedTuple):
    """The sums and counts of a campaign's reports, at one moment."""

    totals: list[Accumulator]
    """The exact sums, one per query."""
    bin_counts: Mapping[int, int]
    """The answers in each row of `Bins`; empty without bins."""

    def __repr__(self) -> str:
        return "StoredSums(not shown)"


class CampaignPage(NamedTuple):
    """Campaigns that were created one after the other."""

    records: Sequence[CampaignRecord]
    more: bool
    """Whether there are later ones."""


class Store(ABC):
    """Campaigns and counted reports. Every method does all of its work, durably, or nothing.

    After an error the store remains usable: the next call connects anew.

    Raises:
        ServiceError: CAMPAIGN_NOT_FOUND for an unknown campaign, DATABASE_UNUSABLE on opening
            another program's database or another schema, STORE_UNAVAILABLE if it can't be reached
            or written. Nothing was changed then, unless the connection was lost while a transaction
            ended. A repeated call is right in either case: nothing counts twice.
    """

    @abstractmethod
    def create_campaign(self, record: CampaignRecord) -> None:
        """Publish a campaign; the same bytes again change nothing.

        Raises:
            ServiceError: CAMPAIGN_ID_TAKEN if the id has other bytes.
        """

    @abstractmethod
    def close_campaign(self, campaign_id: str) -> None:
        """Take no new reports; idempotent."""

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
        """Return the campaigns after one, in order of creation.

        Pages return every campaign that was there before the first call once, and later ones after
        them; of those that two processes create at once, one may be missed.

        Args:
            after: id of a campaign; "": from the first.
            limit: most campaigns, at least 1. The content of no more than these is read.
            most_bytes: of their envelopes together; the first is returned in any case.
            only: ids of those to return; None: all.
            open_at: leave out campaigns that are closed at this time; None: leave out none.

        Raises:
            ServiceError: CAMPAIGN_NOT_FOUND if there is no campaign `after`.
        """

    def list_campaigns(self) -> list[CampaignRecord]:
        """Return all campaigns, in order of creation; use `campaign_page` for many."""
        page = self.campaign_page()
        campaigns = list(page.records)
        while page.more:
            page = self.campaign_page(campaigns[-1].campaign_id)
            campaigns += page.records
        return campaigns

    def note_day(self, day: int) -> None:  # noqa: B027 - a store need not
        """Note each campaign's number of reports as the latest of a day since 1970-01-01, in UTC.

        The default keeps nothing.
        """

    def plan_participants(self, campaign_id: str, participants: int | None) -> None:
        """Keep how many participants are expected, None if unknown; default: UnsupportedError."""
        raise UnsupportedError("this kind of database keeps no plans")

    def progress(self, campaign_ids: Collection[str]) -> Mapping[str, Progress]:
        """Return the daily report counts of existing campaigns; the default knows none."""
        return {campaign_id: Progress(None, ()) for campaign_id in campaign_ids}

    def extent(self) -> Extent | None:
        """Return the size of the database, and the number of servers that write to it, if known."""
        return None

    def free_bytes(self) -> int | None:
        """Return the free bytes of the disk; None, the default, if unknown."""
        return None

    def verify(self) -> None:  # noqa: B027 - a store need not
        """Refuse a database whose files are damaged, with DATABASE_UNUSABLE; default: no check."""

    @abstractmethod
    def probe(self) -> None:
        """Run an empty transaction that could write; ServiceError STORE_UNAVAILABLE if it can't."""

    @abstractmethod
    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        """Count reports, in one transaction: their rows and the sums, or neither.

        A report counts if its id is new to its campaign, its submission is admitted and the
        campaign is not closed. The first of several with one id wins. Outcomes have the order and
        shape of the batch.
        """

    @abstractmethod
    def sums(self, campaign_id: str) -> StoredSums:
        """Return the sums and counts of a campaign, at one moment."""

    def totals(self, campaign_id: str) -> list[Accumulator]:
        """Return the exact sums of one moment, one per query of the campaign."""
        return self.sums(campaign_id).totals

    @abstractmethod
    def answers(self, campaign_id: str, after: bytes = b"", limit: int = 1 << 16) -> StoredAnswers:
        """Return the answers of the next reports, without their ids.

        Calls from `after=b""` on, each with the last one's result, return every report counted
        before the first call once, none twice, and some counted meanwhile. A store may return more
        reports than `limit` ≥ 1, up to 256.
        """

    @abstractmethod
    def due(self, now: datetime) -> Sequence[str]:
        """Return the ids of the campaigns with reports that are to be deleted by a time."""

    @abstractmethod
    def delete_reports(self, campaign_id: str, limit: int = 1 << 16) -> bool:
        """Delete reports for good, keep the sums; return whether any may be left.

        Of a campaign that signs a date: about `limit` ≥ 1 of them, or all at once. From the first
        call on the campaign takes no report, nor knows one that was deleted.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the database; idempotent. Nothing else may be called afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def gathered(
    submissions: Sequence[Submission],
) -> tuple[Sequence[PackedReport], Sequence[bool]]:
    """Return the reports of submissions to one campaign, and whether each is admitted if new.

    They are columns if all of them came as columns.
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
    """Return an outcome per report of one campaign, in order, and the reports to store.

    `admit` says whether each is admitted if new; `stored` maps the position of a stored id to
    whether its answers are the same.
    """
    accepted = [Outcome.ACCEPTED] * len(reports)
    if type(reports) is PackedColumns and not stored and all(admit) and reports.distinct:
        return accepted, reports
    pairs = list(zip(reports, admit, strict=True))
    fresh = {} if stored else {report.report_id: report for report, new in pairs if new}
    if fresh and len(fresh) == len(pairs):  # none is known, refused or given twice
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
