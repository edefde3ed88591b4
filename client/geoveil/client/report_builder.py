"""The private part, without any I/O: from campaign bytes and a value to the bytes of one report."""

from dataclasses import dataclass, field

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from geoveil.campaign import (
    Campaign,
    NotInstalled,
    PublicKey,
    Value,
    decode,
    digest,
    open_envelope,
    signer,
)
from geoveil.campaign.admission import REPORT_ID_BYTES
from geoveil.client.errors import CampaignInvalid, FamilyMissing, PolicyRefused
from geoveil.client.policy import Demand, Policy
from geoveil.client.reports import Contribution
from geoveil.gp import (
    GeoVeilError,
    ParameterError,
    PrivateValueError,
    RandomSource,
    SystemSource,
)
from geoveil.proto.v1 import report_pb2


@dataclass(frozen=True, slots=True)
class AcceptedCampaign:
    """A campaign that was understood and is permitted; `ReportBuilder.accept` makes it."""

    campaign: Campaign
    digest: bytes
    """SHA-256 of the campaign's bytes."""
    signer: PublicKey | None
    """The key whose valid signature it has; None: it is not signed."""
    policy: Policy | None = field(default=None, repr=False, compare=False)
    """What permitted it."""
    work: int = field(default=0, repr=False, compare=False)
    """Microseconds of a processor, at most, to read the campaign and draw one report."""


class ReportBuilder:
    """Makes reports: holds a policy and a source of randomness, and nothing of any person.

    Args:
        policy: what the app permits. Limits over several campaigns are a ledger's, not checked
            here.
        source: random bits; the operating system's by default.

    Raises:
        ParameterError: if the bits of the source can be predicted.
    """

    def __init__(self, *, policy: Policy, source: RandomSource | None = None) -> None:
        if not isinstance(policy, Policy):
            raise ParameterError("policy", policy, "a Policy, which says what the app permits")
        self.policy = policy
        self._source = SystemSource() if source is None else source
        if not isinstance(self._source, RandomSource) or not self._source.is_secure:
            raise ParameterError(
                "source",
                type(source).__name__,
                "a RandomSource whose bits nobody can predict (is_secure), as SystemSource",
            )

    def accept(self, campaign_id: str, envelope: bytes) -> AcceptedCampaign:
        """Return the campaign that an envelope holds, if it may be answered.

        Args:
            campaign_id: of the campaign that was asked for.
            envelope: a serialised CampaignEnvelope that a server sent, which may be anything.

        Raises:
            CampaignInvalid: if it is not a sound campaign of that id, or its signature is not.
            FamilyMissing: if it needs a package that this app does not have.
            PolicyRefused: if it asks for what the policy does not permit; for too much work before
                anything is made of it.
        """
        try:
            message = open_envelope(envelope)
            demand = Demand.of(message.campaign)
            self.policy.check_demand(campaign_id, demand)
            signed_by = signer(message)
            campaign = decode(message.campaign)
        except PolicyRefused:
            raise
        except DecodeError:
            raise CampaignInvalid(campaign_id, "its bytes can't be read") from None
        except NotInstalled as error:
            raise FamilyMissing(campaign_id, str(error), error.name, error.group) from error
        except (GeoVeilError, ArithmeticError) as error:
            # ArithmeticError: numbers so extreme that a formula of the campaign gives up.
            raise CampaignInvalid(campaign_id, str(error)) from error
        if campaign.campaign_id != campaign_id:
            raise CampaignInvalid(campaign_id, f"the server sent {campaign.campaign_id!r} instead")
        self.policy.check(campaign, signed_by)
        return AcceptedCampaign(
            campaign, digest(message.campaign), signed_by, self.policy, demand.work
        )

    def point(self, accepted: AcceptedCampaign, value: Value) -> NDArray[np.float64]:
        """Return a value in the coordinates of the campaign's queries.

        Args:
            accepted: the campaign.
            value: a number, a list of numbers, or (longitude, latitude) in degrees.

        Raises:
            PolicyRefused: if the policy does not permit the campaign, whoever accepted it; the
                value was not looked at.
            PrivateValueError: if the value is not of the kind that the campaign asks about.
        """
        campaign = accepted.campaign
        if accepted.policy is not self.policy:
            self.policy.check(campaign, accepted.signer)
        try:
            return campaign.attribute.point(value, campaign.dimension)
        except PrivateValueError as error:
            expected = error.expected
        # Raised outside the handler: the error must not hold on, as its context, to one of NumPy's
        # that quotes the value, nor to the frames that saw it.
        raise PrivateValueError(expected)

    def draw(
        self, accepted: AcceptedCampaign, point: NDArray[np.float64], period: int = 0
    ) -> Contribution:
        """Draw the one report about a point, for one period.

        Every call draws anew, so its result must be kept, and a second draw for the same person
        and period never sent.

        Args:
            accepted: the campaign.
            point: what `point` returned.
            period: of a recurring campaign.
        """
        campaign = accepted.campaign
        columns = campaign.draw_columns(self._source)
        report = report_pb2.Report(
            report_id=self._source.bits(8 * REPORT_ID_BYTES).to_bytes(REPORT_ID_BYTES),
            period=period,
        )
        released = campaign.release(point, columns, self._source)
        for column, value in zip(columns, released, strict=True):
            report.answers.add(query_index=column, value=value)
        return Contribution(
            campaign_id=campaign.campaign_id,
            period=period,
            digest=accepted.digest,
            report=report.SerializeToString(deterministic=True),
            privacy=campaign.report_privacy,
            attribute=campaign.attribute.name,
            step_exponent=campaign.grid_exponent,
            closes=campaign.closes,
        )

    def prepare(self, accepted: AcceptedCampaign, value: Value, *, period: int = 0) -> Contribution:
        """Return draw(point(value)): for a host that acts for many devices and keeps no ledger.

        Raises:
            PolicyRefused: if the policy does not permit the campaign; nothing was drawn.
            PrivateValueError: if the value is not of the kind that the campaign asks about;
                nothing was drawn.
        """
        return self.draw(accepted, self.point(accepted, value), period)
