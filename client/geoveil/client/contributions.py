"""The stored parts of an answer: its status, receipt, reading, point and report."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from math import ldexp
from typing import TypeAlias

from geoveil.campaign import Charge
from geoveil.gp import GeoPrivacy, UnsupportedError, enum_repr
from geoveil.proto.v1 import report_pb2

MICROSECOND = timedelta(microseconds=1)
ReadingKey: TypeAlias = tuple[str, datetime]
"""The space and the beginning of the epoch of a reading."""


class DeliveryStatus(IntEnum):
    """The delivery status of a report. It never goes down."""

    __repr__ = enum_repr

    PENDING = 0
    """Kept, to be sent; not known to be counted."""
    EXPIRED = 1
    """Given up: its campaign closed long ago, and no answer came."""
    REJECTED = 2
    """Refused by the server for good."""
    ACKNOWLEDGED = 3
    """Counted."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a server refused a report for good."""

    reason: str
    """Name of the rejection reason, for example "NOT_OPEN"."""
    detail: str
    """The server's message about it."""


@dataclass(frozen=True, slots=True)
class PerturbedAnswer:
    """One perturbed answer, as it left the device."""

    query_index: int
    """Counts from 0 in the campaign's list of queries, cohort after cohort."""
    value: int
    """An integer on the campaign's grid: it stands for value · 2^step_exponent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Everything that leaves the device for one campaign. All of it is perturbed or public."""

    campaign_id: str
    period: int
    """The period of a recurring campaign, counted from 0; else 0."""
    charges: tuple[Charge, ...]
    """Its charges: one, or for a form one per field that is not open. Its price for any two values
    counts this report alone."""
    report_id: str
    """The id of the report, in hexadecimal: random."""
    digest: str
    """SHA-256 of the campaign's bytes, in hexadecimal."""
    answers: tuple[PerturbedAnswer, ...]
    """All that the server learns about the value."""
    step_exponent: int
    """The answers lie on the grid of multiples of 2^step_exponent; 0 of a form, whose fields have
    grids of their own."""
    drawn: datetime
    """When the value was perturbed."""
    status: DeliveryStatus
    sent: datetime | None = None
    """The time when it first left the device, or was about to; None if it has not."""
    settled: datetime | None = None
    """When it was acknowledged, rejected or given up."""
    rejection: Rejection | None = None
    failure: str | None = None
    """Why it could not be sent the last time, if it is still pending."""
    epoch: datetime | None = None
    """The start of the epoch of the reading that answered; all answers from the reading cost
    `privacy` together. None if the report has its own noise."""
    departs: datetime | None = None
    """When it leaves at the earliest, uniform in its campaign's window; None: at once."""
    fresh: bool = field(default=False, compare=False)
    """Whether this call of `contribute` drew it; otherwise the period had been answered, and the
    given value has no effect. Receipts of a report are equal either way."""

    def to_dict(self) -> dict[str, object]:
        """Return what JSON can hold: ε with its distance and unit, times in ISO 8601."""
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
        """Name of the attribute; UnsupportedError if there are several or none: see `charges`."""
        return self._charge.attribute

    @property
    def privacy(self) -> GeoPrivacy:
        """The cost of a report about one attribute; raises as `attribute` does."""
        return self._charge.privacy

    @property
    def any_two(self) -> float:
        """ε between any two values, however far; infinite: no promise. Raises like `attribute`."""
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
        """Whether the server has confirmed that the report is counted."""
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
    """One perturbed value, which answers campaigns about it for an epoch.

    It holds neither the value nor its noise.
    """

    attribute: str
    space: str
    """The plane or scale of the coordinates, so that points of different planes are not
    confused."""
    begins: datetime
    """When its epoch began, with a time zone."""
    ends: datetime
    privacy: GeoPrivacy
    """The joint cost of all answers made from it."""
    point: tuple[int, ...]
    """Integers on the grid of the mechanism of that guarantee."""
    drawn: datetime
    """When the value was perturbed."""

    @property
    def key(self) -> ReadingKey:
        """Identifies it among the readings of its attribute."""
        return self.space, self.begins


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPoint:
    """The point of one campaign in one epoch: a reading coarsened to the campaign's rate.

    It is drawn once, so all its periods in the epoch tell the campaign no more than one.
    """

    campaign_id: str
    reading: Reading
    point: tuple[int, ...]
    """Integers on the grid of the campaign's `point_mechanism`."""
    drawn: datetime
    """When it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """One report to one campaign, drawn once and sent until the server confirms it."""

    campaign_id: str
    digest: bytes
    """SHA-256 of the campaign bytes that the report was made for."""
    report: bytes
    """A serialised Report. These bytes are sent; they are never made again."""
    charges: tuple[Charge, ...]
    """Price of each attribute; of a report from a reading there is no ε between any two values."""
    step_exponent: int
    """Its answers lie on the grid of multiples of 2^step_exponent; 0 of a form."""
    closes: datetime
    """When the campaign closes, with a time zone."""
    period: int = 0
    """The period of a recurring campaign, counted from 0; else 0."""
    epoch: datetime | None = None
    """The start of the epoch of its reading, paid once; None if it has its own noise."""
    before: datetime | None = None
    """The start of the epoch of the earlier reading, if it is extrapolated; None otherwise."""
    departs: datetime | None = None
    """Before when it must not be sent: uniform in the campaign's window; None: it may at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A report and what became of it."""

    contribution: Contribution
    """The report; these bytes never change."""
    drawn: datetime
    """When it was drawn, with a time zone."""
    status: DeliveryStatus = DeliveryStatus.PENDING
    """Whether it was counted."""
    sent: datetime | None = None
    """When it left the device first."""
    settled: datetime | None = None
    """When its status was settled."""
    rejection: Rejection | None = None
    failure: str | None = None
    """Why it could not be sent the last time."""
    fresh: bool = field(default=False, compare=False)
    """Whether it was drawn just now, not found."""

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
            departs=made.departs,
        )
