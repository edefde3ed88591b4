"""The stored parts of an answer: its status, receipt, reading, point and report.

Reports are packed into requests, whose response has a result for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from math import ldexp
from typing import Self, TypeAlias

from geoveil.campaign import MOST_REPORTS, Charge, one_line
from geoveil.client.errors import TransportError
from geoveil.gp import GeoPrivacy, UnsupportedError, enum_repr
from geoveil.proto.v1 import collector_pb2, report_pb2

MICROSECOND = timedelta(microseconds=1)
MOST_BYTES = 4 << 20
"""The most bytes of one request: gRPC's limit unless a server raises it."""
_FIELD_OVERHEAD = 6
"""The most bytes of the tag and length of a report of up to 4 GiB."""
_COUNTED = (report_pb2.REPORT_STATUS_ACCEPTED, report_pb2.REPORT_STATUS_DUPLICATE)
ReadingKey: TypeAlias = tuple[str, datetime]
"""A reading's space and the beginning of its epoch."""


class DeliveryStatus(IntEnum):
    """The delivery status of a report, which never decreases."""

    __repr__ = enum_repr

    PENDING = 0
    """Stored for sending; not confirmed as counted."""
    EXPIRED = 1
    """Given up, because its campaign closed long ago and no response came."""
    REJECTED = 2
    """Permanently refused by the server."""
    ACKNOWLEDGED = 3
    """Counted by the server."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason why a server permanently refused a report."""

    reason: str
    """The name of the reason, for example "NOT_OPEN"."""
    detail: str
    """The server's message about it."""


@dataclass(frozen=True, slots=True)
class PerturbedAnswer:
    """One perturbed answer, as it left the device."""

    query_index: int
    """The index in the campaign's list of queries, from 0, repeated for each cohort."""
    value: int
    """An integer on the campaign's grid, which means value · 2^step_exponent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Everything that leaves the device for one campaign. All of it is perturbed or public."""

    campaign_id: str
    period: int
    """The period of a recurring campaign, from 0; otherwise 0."""
    charges: tuple[Charge, ...]
    """Its charges: one, or for a form one per field that is not open. The price for any two values
    is only this report's."""
    report_id: str
    """The report's random id in hexadecimal."""
    digest: str
    """SHA-256 of the campaign's bytes, in hexadecimal."""
    answers: tuple[PerturbedAnswer, ...]
    """All that the server learns about the value."""
    step_exponent: int
    """The answers are on the grid of multiples of 2^step_exponent; 0 for a form, whose fields have
    separate grids."""
    drawn: datetime
    """When the value was perturbed."""
    status: DeliveryStatus
    sent: datetime | None = None
    """The time when it first left the device, or was about to; None before that."""
    settled: datetime | None = None
    """The time when it was acknowledged, rejected or given up."""
    rejection: Rejection | None = None
    failure: str | None = None
    """The reason for the last failure to send it, if it is still pending."""
    epoch: datetime | None = None
    """The start of the epoch of its reading, which costs `privacy` once for all answers from it.
    None if the report has its own noise."""
    before: datetime | None = None
    """The start of the epoch of the earlier reading, paid for as well, of which an extrapolated
    answer also tells; otherwise None."""
    departs: datetime | None = None
    """The earliest time to send it, uniform in its campaign's window; None for at once."""
    fresh: bool = field(default=False, compare=False)
    """Whether this call of `contribute` drew it; otherwise the period already had an answer, and
    the given value has no effect. It does not affect the equality of receipts."""

    def to_dict(self) -> dict[str, object]:
        """Return JSON values: ε with its distance and unit, times in ISO 8601."""
        return {
            "campaign_id": self.campaign_id,
            "period": self.period,
            "charges": [_shown(charge) for charge in self.charges],
            "report_id": self.report_id,
            "campaign_sha256": self.digest,
            "perturbed": [
                {"query_index": answer.query_index, "value": value}
                for answer, value in zip(self.answers, self.perturbed, strict=True)
            ],
            "epoch": self.epoch and self.epoch.isoformat(),
            "before": self.before and self.before.isoformat(),
            "drawn": self.drawn.isoformat(),
            "departs": self.departs and self.departs.isoformat(),
            "sent": self.sent and self.sent.isoformat(),
            "settled": self.settled and self.settled.isoformat(),
            "status": self.status.name.lower(),
            "failure": self.failure,
            "rejection": self.rejection and self.rejection.reason,
        }

    @property
    def attribute(self) -> str:
        """The attribute's name; UnsupportedError unless there is exactly one: see `charges`."""
        return self._charge.attribute

    @property
    def privacy(self) -> GeoPrivacy:
        """The cost of a report about one attribute; raises like `attribute`."""
        return self._charge.privacy

    @property
    def any_two(self) -> float:
        """ε between any two values at any distance; may be infinite. Raises like `attribute`."""
        return self._charge.any_two

    @property
    def _charge(self) -> Charge:
        if len(self.charges) != 1:
            raise UnsupportedError(
                f"the report to {self.campaign_id!r} is not about one attribute: see its `charges`"
            )
        return self.charges[0]

    @property
    def acknowledged(self) -> bool:
        """Whether the server has confirmed that it counted the report."""
        return self.status is DeliveryStatus.ACKNOWLEDGED

    @property
    def perturbed(self) -> tuple[float, ...]:
        """The answers as numbers, in the order of `answers`."""
        return tuple(ldexp(answer.value, self.step_exponent) for answer in self.answers)


def _shown(charge: Charge) -> dict[str, object]:
    name, privacy, any_two = charge
    return {
        "attribute": name,
        "epsilon": privacy.epsilon,
        "per": privacy.per,
        "unit": privacy.unit,
        "delta": privacy.delta,
        "reach": None if math.isinf(privacy.reach) else privacy.reach,
        "any_two_epsilon": None if math.isinf(any_two) else any_two,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One perturbed value, which answers campaigns for an epoch.

    It contains neither the value nor its noise.
    """

    attribute: str
    space: str
    """The plane or scale of the coordinates, which distinguishes points of different planes."""
    begins: datetime
    """The beginning of its epoch, with a time zone."""
    ends: datetime
    privacy: GeoPrivacy
    """The joint cost of all answers from it."""
    point: tuple[int, ...]
    """Integers on the grid of the mechanism with that guarantee."""
    drawn: datetime
    """The time when the value was perturbed."""

    @property
    def key(self) -> ReadingKey:
        """The key that identifies it among its attribute's readings."""
        return self.space, self.begins


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPoint:
    """A campaign's point in one epoch: a reading coarsened to the campaign's rate.

    It is drawn only once, so the periods of an epoch tell the campaign no more than one period.
    """

    campaign_id: str
    reading: Reading
    point: tuple[int, ...]
    """Integers on the grid of the campaign's `point_mechanism`."""
    drawn: datetime
    """The time when it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """One report to one campaign, drawn once and sent until the server confirms it."""

    campaign_id: str
    digest: bytes
    """SHA-256 of the campaign bytes that the report was made for."""
    report: bytes
    """A serialised Report. Exactly these bytes are sent."""
    charges: tuple[Charge, ...]
    """Each attribute's price; reports from a reading have no ε between any two values."""
    step_exponent: int
    """The answers are on the grid of multiples of 2^step_exponent; 0 for a form."""
    closes: datetime
    """The time when the campaign closes, with a time zone."""
    period: int = 0
    """The period of a recurring campaign, from 0; otherwise 0."""
    epoch: datetime | None = None
    """The start of the epoch of its reading, which is paid once; None if it has its own noise."""
    before: datetime | None = None
    """The start of the earlier reading's epoch if it is extrapolated; otherwise None."""
    departs: datetime | None = None
    """The earliest time to send it, uniform in the campaign's window; None for at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A report and its outcome."""

    contribution: Contribution
    """The report; these bytes never change."""
    drawn: datetime
    """The time when it was drawn, with a time zone."""
    status: DeliveryStatus = DeliveryStatus.PENDING
    """The delivery status."""
    sent: datetime | None = None
    """The time when it first left the device."""
    settled: datetime | None = None
    """The time when its status became final."""
    rejection: Rejection | None = None
    failure: str | None = None
    """The reason for the last failure to send it."""
    fresh: bool = field(default=False, compare=False)
    """Whether it was drawn just now."""

    def receipt(self) -> Receipt:
        """Return the receipt for the person."""
        made = self.contribution
        report = report_pb2.Report.FromString(made.report)
        return Receipt(
            campaign_id=made.campaign_id,
            period=made.period,
            charges=made.charges,
            report_id=report.report_id.hex(),
            digest=made.digest.hex(),
            answers=tuple(PerturbedAnswer(a.query_index, a.value) for a in report.answers),
            step_exponent=made.step_exponent,
            drawn=self.drawn,
            status=self.status,
            sent=self.sent,
            settled=self.settled,
            rejection=self.rejection,
            failure=self.failure if self.status is DeliveryStatus.PENDING else None,
            fresh=self.fresh,
            epoch=made.epoch,
            before=made.before,
            departs=made.departs,
        )


@dataclass(frozen=True, slots=True)
class SubmissionResult:
    """The outcome of one report."""

    status: DeliveryStatus
    """ACKNOWLEDGED or REJECTED."""
    rejection: Rejection | None = None


@dataclass(slots=True)
class ReportBatch:
    """The reports of one request, up to its limits."""

    campaign_id: str
    """The id of the campaign that all its reports answer."""
    digest: bytes
    """SHA-256 of the campaign bytes that the reports answer."""
    contributions: list[Contribution] = field(default_factory=list)
    """The reports in the request's order."""
    _size: int | None = field(default=None, init=False)

    @classmethod
    def of(cls, contribution: Contribution) -> Self:
        """Return a request with one report."""
        return cls(contribution.campaign_id, contribution.digest, [contribution])

    def add(self, contribution: Contribution) -> bool:
        """Add a contribution to the same campaign, unless it makes the request too large."""
        size = self.request().ByteSize() if self._size is None else self._size
        size += len(contribution.report) + _FIELD_OVERHEAD
        if size > MOST_BYTES or len(self.contributions) == MOST_REPORTS:
            return False
        self.contributions.append(contribution)
        self._size = size
        return True

    def request(self) -> collector_pb2.SubmitReportsRequest:
        """Return the request, with the reports' bytes unchanged."""
        return collector_pb2.SubmitReportsRequest(
            campaign_id=self.campaign_id,
            campaign_digest=self.digest,
            reports=[report_pb2.Report.FromString(c.report) for c in self.contributions],
        )

    def results(
        self, response: collector_pb2.SubmitReportsResponse
    ) -> tuple[SubmissionResult, ...]:
        """Return the result of each contribution, in order.

        Raises:
            TransportError: INTERNAL if the response breaks the contract; all reports may be sent
                again.
        """
        if len(response.results) != len(self.contributions):
            raise TransportError(
                "INTERNAL",
                f"the server gave {len(response.results)} results for"
                f" {len(self.contributions)} reports",
            )
        each = []
        for result in response.results:
            if result.status in _COUNTED:
                each.append(SubmissionResult(DeliveryStatus.ACKNOWLEDGED))
            elif result.status == report_pb2.REPORT_STATUS_REJECTED:
                why = Rejection(_reason(result.reason), one_line(result.detail))
                each.append(SubmissionResult(DeliveryStatus.REJECTED, why))
            else:
                unknown = f"the server gave the unknown status {result.status}"
                raise TransportError("INTERNAL", unknown)
        return tuple(each)


def gather(contributions: Iterable[Contribution]) -> Iterator[ReportBatch]:
    """Yield batches of at most 10,000 reports and 4 MiB, each for one period of one campaign.

    A batch has at most one report per participant, so no request shows which reports belong
    together. Reports of one campaign and period keep their order; at most one unfinished batch of
    each is in memory.

    Example:
        >>> [batch.request() for batch in gather([])]
        []
    """
    open_batches: dict[tuple[str, bytes, int], ReportBatch] = {}
    for contribution in contributions:
        key = (contribution.campaign_id, contribution.digest, contribution.period)
        batch = open_batches.get(key)
        if batch is not None and batch.add(contribution):
            continue
        open_batches[key] = ReportBatch.of(contribution)
        if batch is not None:
            yield batch
    yield from open_batches.values()


def _reason(number: report_pb2.RejectionReason.ValueType) -> str:
    """Return the name of a rejection reason, or its number if it is newer than this version."""
    if number not in report_pb2.RejectionReason.values():
        return str(number)
    return report_pb2.RejectionReason.Name(number).removeprefix("REJECTION_REASON_")
