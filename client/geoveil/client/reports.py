"""Make a report from a private value, without I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast

from google.protobuf.message import DecodeError

from geoveil.campaign import (
    REPORT_ID_BYTES,
    Answers,
    AttributeCampaign,
    Campaign,
    Charge,
    FormCampaign,
    NotInstalled,
    PublicKey,
    Value,
    decode,
    digest,
    moved_on,
    open_envelope,
    require_attribute,
    signer,
)
from geoveil.client.contributions import MICROSECOND, CampaignPoint, Contribution, Reading
from geoveil.client.errors import (
    AnswerNotYet,
    CampaignInvalid,
    FamilyMissing,
    PolicyRefused,
    exactly,
)
from geoveil.client.limits import Epoch, Limit
from geoveil.client.policy import CampaignCost, Policy
from geoveil.client.values import kind_of
from geoveil.gp import (
    Coarsening,
    GeoPrivacy,
    GeoVeilError,
    ParameterError,
    PlanarLaplace,
    PrivateValueError,
    RandomSource,
    SystemSource,
    lazy,
    validation,
)
from geoveil.proto.v1 import report_pb2


@dataclass(frozen=True)
class AcceptedCampaign:
    """A valid and permitted campaign, made by `ReportBuilder.accept`."""

    campaign: Campaign
    digest: bytes
    """SHA-256 of the campaign's bytes."""
    signer: PublicKey | None
    """The key of its valid signature; None if it is unsigned."""
    policy: Policy | None = field(default=None, repr=False, compare=False)
    """The policy that permitted it."""
    limits: tuple[Limit, ...] = field(default=(), repr=False, compare=False)
    """The policy's limit for the attribute of each charge."""
    work: int = field(default=0, repr=False, compare=False)
    """The most processor microseconds to read the campaign and draw one report."""

    @lazy
    def epoch(self) -> Epoch | None:
        """The epoch whose reading answers it; None if each answer has new noise, as in forms."""
        campaign = self.campaign
        if not self.limits or not isinstance(campaign, AttributeCampaign) or not campaign.nests:
            return None
        epoch = self.limits[0].epoch
        if epoch is None and campaign.readings is not None:
            return Epoch(privacy=campaign.answer_privacy, length=campaign.readings.every)
        return epoch

    @lazy
    def asks(self) -> AttributeCampaign:
        """The campaign, about one attribute; UnsupportedError if it is a form."""
        return require_attribute(self.campaign)

    @lazy
    def space(self) -> str:
        """The coordinates of its readings, with the campaign if no other shares them."""
        kind, scale = repr(kind_of(self.asks)), self.asks.attribute.scale
        if scale is not None:
            kind = f"{kind} on {scale}"
        if self.limits and self.limits[0].epoch is None:
            # Not shared, so that no campaign decides how coarse or old another's answers are.
            return f"{kind} for {self.campaign.campaign_id}"
        return kind

    def before(
        self, latest: Reading | None, readings: Iterable[Reading], now: datetime
    ) -> Reading | None:
        """Return the earlier reading for an extrapolated answer; None if it needs none.

        It is at least as long before the latest as the latest is before now [MATH §13]. If `latest`
        is None, that reading is made now.

        Raises:
            AnswerNotYet: if there is no such reading, and the latest is not made now.
        """
        rule = self.asks.readings
        if rule is None or not rule.extrapolated or latest is None or now <= latest.drawn:
            return None
        most = latest.drawn - (now - latest.drawn)
        earlier = (r for r in readings if r.drawn <= most and _serves(r, self.asks))
        last = max(earlier, key=lambda reading: reading.drawn, default=None)
        if last is None:
            raise AnswerNotYet(self.campaign.campaign_id, latest.ends)
        return last


class ReportBuilder:
    """Makes reports from a policy and a random source, and stores nothing about a person.

    A ledger, not this class, checks limits over several campaigns.

    Raises:
        ParameterError: if the source's bits are predictable.
    """

    def __init__(self, *, policy: Policy, source: RandomSource | None = None) -> None:
        validation.require_kind("policy", policy, Policy)
        self.policy = policy
        self._source = SystemSource() if source is None else source
        if not isinstance(self._source, RandomSource) or not self._source.is_secure:
            raise ParameterError(
                "source",
                type(source).__name__,
                "a RandomSource whose bits nobody can predict (is_secure), as SystemSource",
            )

    def accept(self, campaign_id: str, envelope: bytes) -> AcceptedCampaign:
        """Return the campaign with this id from an untrusted envelope, if the policy permits it.

        Raises:
            CampaignInvalid: if it is not a valid campaign with this id and a valid signature.
            FamilyMissing: if it needs a package that this app lacks.
            PolicyRefused: if the policy does not permit it; too much work is refused before the
                campaign is built.
        """
        try:
            message = open_envelope(envelope)
            cost = CampaignCost.of(message.campaign)
            self.policy.check_cost(campaign_id, cost)
            signed_by = signer(message)
            campaign = decode(message.campaign)
        except PolicyRefused:
            raise
        except DecodeError:
            raise CampaignInvalid(campaign_id, "its bytes can't be read") from None
        except NotInstalled as error:
            raise FamilyMissing(campaign_id, str(error), error.name, error.group) from error
        except (GeoVeilError, ArithmeticError) as error:
            # ArithmeticError: a formula of the campaign fails on extreme numbers.
            raise CampaignInvalid(campaign_id, str(error)) from error
        if campaign.campaign_id != campaign_id:
            raise CampaignInvalid(campaign_id, f"the server sent {campaign.campaign_id!r} instead")
        limits = self.policy.check(campaign, signed_by)
        return AcceptedCampaign(
            campaign, digest(message.campaign), signed_by, self.policy, limits, cost.work
        )

    def point(self, accepted: AcceptedCampaign, value: Value | Answers) -> Any:
        """Return a value in the coordinates of the campaign's queries; for a form, all answers.

        Args:
            value: a number, a list of numbers, or (longitude, latitude) in degrees; for a form,
                name of a field → answer.

        Raises:
            PolicyRefused: if the policy does not permit the campaign; it does not read the value.
            PrivateValueError: if the value, or a form's answer, has the wrong kind or is outside
                the policy's range.
        """
        campaign, limits = accepted.campaign, accepted.limits
        if accepted.policy is not self.policy:
            limits = self.policy.check(campaign, accepted.signer)
        try:
            if isinstance(campaign, FormCampaign):
                return _prepared(campaign, limits, value)
            attribute, given = accepted.asks.attribute, cast(Value, value)
            point = attribute.point(given, accepted.asks.dimension)
            limits[0].value.check(attribute, given)
            return point
        except PrivateValueError as error:
            expected = error.expected
        # Raised outside the handler, since the error's context must not contain NumPy's error,
        # which quotes the value, nor the frames that saw it.
        raise PrivateValueError(expected)

    def draw(
        self,
        accepted: AcceptedCampaign,
        point: Any,
        period: int = 0,
        cohort: int = 0,
    ) -> Contribution:
        """Draw the report about a point, or of a form, for one period.

        Every call draws anew, so store its result and never send a second draw for the same person
        and period. The point comes from `point`; period and cohort count from 0, and are 0 without
        periods and cohorts.
        """
        campaign, source = accepted.campaign, self._source
        if isinstance(campaign, FormCampaign):
            answers = partial(campaign.release, point, source)
            return self._report(accepted, range(campaign.columns), answers, period)
        campaign = accepted.asks
        columns = campaign.draw_columns(source)
        release = partial(campaign.release, point, columns, source)
        return self._report(accepted, columns, release, period, cohort)

    def _report(
        self,
        accepted: AcceptedCampaign,
        columns: Sequence[int],
        release: Callable[[], Sequence[int]],
        period: int,
        cohort: int = 0,
    ) -> Contribution:
        campaign = accepted.campaign
        first, departs = cohort * campaign.columns, None
        if campaign.window is not None:  # independent of the value, the time and the network
            into = self._source.below(campaign.window // MICROSECOND)
            departs = campaign.answered_until(period) + into * MICROSECOND
        report = report_pb2.Report(
            report_id=self._source.bits(8 * REPORT_ID_BYTES).to_bytes(REPORT_ID_BYTES),
            period=period,
        )
        for column, value in zip(columns, release(), strict=True):
            report.answers.add(query_index=first + column, value=value)
        return Contribution(
            campaign_id=campaign.campaign_id,
            period=period,
            digest=accepted.digest,
            report=report.SerializeToString(deterministic=True),
            charges=campaign.charges,
            step_exponent=0 if isinstance(campaign, FormCampaign) else accepted.asks.grid_exponent,
            closes=campaign.closes,
            departs=departs,
        )

    def read(
        self,
        accepted: AcceptedCampaign,
        value: Value,
        earlier: Sequence[Reading],
        now: datetime,
    ) -> Reading:
        """Perturb a value, as in `point`, once for all campaigns of an epoch.

        Every call draws anew, so store its result and use only one per epoch.

        Args:
            accepted: a campaign whose policy has an epoch for its attribute.
            value: as in `point`.
            earlier: the stored readings in order of their epochs, which continue forwards and
                backwards. Without any, the start of the first epoch is drawn independently of the
                value.
            now: the date, in an epoch without a reading.

        Raises:
            PrivateValueError: if the value is not of the campaign's kind.
        """
        epoch = accepted.epoch
        assert epoch is not None
        if earlier:
            last = earlier[-1].ends
            begins = last + (now - last) // epoch.length * epoch.length
            ends = begins + epoch.length
            # The epochs' length may have changed.
            begins = max([begins, *(reading.ends for reading in earlier if reading.ends <= now)])
        else:
            begins = now - timedelta(microseconds=self._source.below(epoch.length // MICROSECOND))
            ends = begins + epoch.length
        released = _reader(accepted.asks, epoch.privacy).release(
            self.point(accepted, value), self._source
        )
        return Reading(
            attribute=accepted.asks.attribute.name,
            space=accepted.space,
            begins=begins,
            ends=ends,
            privacy=epoch.privacy,
            point=released,
            drawn=now,
        )

    def coarsen(self, accepted: AcceptedCampaign, reading: Reading, now: datetime) -> CampaignPoint:
        """Make the campaign's point for an epoch from a reading, without the value.

        Every call draws anew, so store its result and use only one per epoch.

        Raises:
            PolicyRefused: if the reading is coarser than the campaign's rate.
        """
        campaign = accepted.asks
        if not _serves(reading, campaign):
            raise PolicyRefused(
                campaign.campaign_id,
                f"privacy loss of {campaign.attribute.name!r} in an epoch",
                exactly(campaign.answer_privacy),
                f"at most {exactly(reading.privacy)} until {reading.ends.isoformat()}",
            )
        nested = Coarsening(_reader(campaign, reading.privacy), campaign.point_mechanism)
        return CampaignPoint(
            campaign_id=campaign.campaign_id,
            reading=reading,
            point=nested.release(reading.point, self._source),
            drawn=now,
        )

    def answer(
        self,
        accepted: AcceptedCampaign,
        latest: CampaignPoint,
        before: CampaignPoint | None = None,
        *,
        now: datetime,
        period: int = 0,
    ) -> Contribution:
        """Make a report from the campaign's latest point, without the value.

        `before` is the point of the reading from `AcceptedCampaign.before`, if any.
        """
        campaign, source = accepted.asks, self._source
        columns = campaign.draw_columns(source)

        def release() -> Sequence[int]:
            answers = campaign.answers_from(latest.point, columns, source)
            if before is None:
                return answers
            age, gap = now - latest.reading.drawn, latest.reading.drawn - before.reading.drawn
            earlier = campaign.answers_from(before.point, columns, source)
            return [moved_on(y, was, age, gap) for y, was in zip(answers, earlier, strict=True)]

        begins, readings = latest.reading.begins, campaign.readings
        cohort = 0 if readings is None else readings.cohort(begins)
        made = self._report(accepted, columns, release, period, cohort)
        began = None if before is None else before.reading.begins
        of = latest.reading
        charges = (Charge(of.attribute, of.privacy, math.inf),)
        return replace(made, charges=charges, epoch=of.begins, before=began)

    def prepare(
        self, accepted: AcceptedCampaign, value: Value | Answers, *, period: int = 0
    ) -> Contribution:
        """Return draw(point(value)), for hosts that act for many devices without a ledger.

        Raises the errors of `point`, before drawing anything.
        """
        point, cohorts = self.point(accepted, value), accepted.campaign.cohorts
        # As if its first epoch had just begun.
        cohort = self._source.below(cohorts) if cohorts > 1 else 0
        return self.draw(accepted, point, period, cohort)


def _prepared(form: FormCampaign, limits: Sequence[Limit], answers: Any) -> Sequence[Any]:
    """Return a form's answers in its coordinates, if all are within the policy's ranges."""
    prepared = form.prepare(answers)
    of = {charge.attribute: limit for charge, limit in zip(form.charges, limits, strict=True)}
    for answered in form.applying(answers):
        if answered.name in of:
            of[answered.name].value.check(answered.attribute, answers[answered.name])
    return prepared


def _serves(reading: Reading, campaign: AttributeCampaign) -> bool:
    """Return whether a reading is as fine as a campaign requires."""
    return campaign.answer_privacy.exact_rate <= reading.privacy.exact_rate


def _reader(campaign: AttributeCampaign, privacy: GeoPrivacy) -> PlanarLaplace:
    """Return the mechanism that perturbs a value once per epoch, in a campaign's coordinates."""
    plane = campaign.attribute.coordinates
    return PlanarLaplace(
        privacy if plane is None else plane.privacy(privacy), dimension=campaign.dimension
    )
