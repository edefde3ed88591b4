"""What leaves the device, and what the person gets to see of it."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from math import ldexp

from google.protobuf.message import DecodeError

from geoveil.gp import GeoPrivacy
from geoveil.gp.shown import member
from geoveil.proto.v1 import report_pb2


class Status(IntEnum):
    """What became of a report. It only ever goes up."""

    __repr__ = member

    PENDING = 0
    """Kept, to be sent; not known to be counted."""
    EXPIRED = 1
    """Given up: its campaign closed long ago, and no answer came."""
    REJECTED = 2
    """Refused by the server for good."""
    ACKNOWLEDGED = 3
    """Counted."""
    UNDELIVERABLE = 4
    """Given up by an earlier version of geoveil, which could not read any more what was to be sent.
    This one does not use a state directory that is damaged."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a server refused a report for good."""

    reason: str
    """Name of the rejection reason, for example "NOT_OPEN"."""
    detail: str
    """What the server says about it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A perturbed answer, as it left the device."""

    query_index: int
    """Counts from 0 in the campaign's list of queries."""
    value: int
    """An integer on the campaign's grid: it stands for value · 2^step_exponent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What leaves the device for one campaign. All of it is perturbed or public."""

    campaign_id: str
    """Of the campaign."""
    period: int
    """Of a recurring campaign, from 0; else 0."""
    attribute: str
    """Name of what was asked about."""
    report_id: str
    """Of the report, in hexadecimal: random, and tied to nothing else; "" if it can't be read."""
    digest: str
    """SHA-256 of the campaign's bytes, in hexadecimal."""
    answers: tuple[Answer, ...]
    """All that the server learns about the value; none if they can't be read any more."""
    step_exponent: int
    """Of the grid that the answers lie on."""
    privacy: GeoPrivacy
    """What it cost, all its answers together, with its unit."""
    drawn: datetime
    """When the value was perturbed."""
    status: Status
    """What became of it."""
    sent: datetime | None = None
    """When it left the device first, or was about to; None: it has not."""
    settled: datetime | None = None
    """When it was acknowledged, rejected or given up."""
    rejection: Rejection | None = None
    """Why it was rejected."""
    failure: str | None = None
    """Why it could not be sent the last time, if it is still pending."""
    fresh: bool = field(default=False, compare=False)
    """Whether the call of `contribute` that returned it drew it. False: that campaign and period
    had been answered already, nothing was drawn, and the value given has no effect. Receipts of one
    report are equal either way."""

    @property
    def acknowledged(self) -> bool:
        """Whether the server has confirmed that the report is counted."""
        return self.status is Status.ACKNOWLEDGED

    @property
    def perturbed(self) -> tuple[float, ...]:
        """The answers as numbers, in the order of `answers`."""
        return tuple(ldexp(answer.value, self.step_exponent) for answer in self.answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """One report to one campaign, drawn once and ready to be sent as often as it takes."""

    campaign_id: str
    """Of the campaign."""
    digest: bytes
    """SHA-256 of the campaign bytes that the report was made for."""
    report: bytes
    """A serialised Report. These bytes are sent; they are never made again."""
    privacy: GeoPrivacy
    """What the report costs, all its answers together."""
    attribute: str
    """Name of what was asked about."""
    step_exponent: int
    """Of the grid that its answers lie on."""
    closes: datetime
    """When the campaign does."""
    period: int = 0
    """Of a recurring campaign."""

    def content(self) -> report_pb2.Report | None:
        """Return the report; None if these bytes are none, as a damaged disk leaves them."""
        try:
            return report_pb2.Report.FromString(self.report)
        except DecodeError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A report and what became of it."""

    contribution: Contribution
    """The report; these bytes never change."""
    drawn: datetime
    """When it was drawn, with a time zone."""
    status: Status = Status.PENDING
    """Whether it was counted."""
    sent: datetime | None = None
    """When it left first."""
    settled: datetime | None = None
    """When its status was settled."""
    rejection: Rejection | None = None
    """Why it was rejected."""
    failure: str | None = None
    """Why it could not be sent the last time."""
    fresh: bool = field(default=False, compare=False)
    """Whether it was drawn just now, not found."""

    def receipt(self) -> Receipt:
        """Return what the person may see of it."""
        made = self.contribution
        report = made.content() or report_pb2.Report()
        return Receipt(
            campaign_id=made.campaign_id,
            period=made.period,
            attribute=made.attribute,
            report_id=report.report_id.hex(),
            digest=made.digest.hex(),
            answers=tuple(Answer(a.query_index, a.value) for a in report.answers),
            step_exponent=made.step_exponent,
            privacy=made.privacy,
            drawn=self.drawn,
            status=self.status,
            sent=self.sent,
            settled=self.settled,
            rejection=self.rejection,
            failure=self.failure if self.status is Status.PENDING else None,
            fresh=self.fresh,
        )
