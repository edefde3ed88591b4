"""The private part, without any I/O: from campaign bytes and a value to the bytes of one report."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.campaign import Campaign, Value, decode, digest
from geoveil.client.contribution import Contribution
from geoveil.client.errors import CampaignInvalid
from geoveil.client.policy import Policy
from geoveil.gp import (
    GeoVeilError,
    ParameterError,
    PrivateValueError,
    RandomSource,
    SystemSource,
    paced,
)
from geoveil.gp.validation import between
from geoveil.proto.v1 import report_pb2

REPORT_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class AcceptedCampaign:
    """A campaign that was understood and that the policy permits. Made by `Contributor.accept`."""

    campaign: Campaign
    digest: bytes
    """SHA-256 of the bytes it was read from."""


class Contributor:
    """Makes reports: holds a policy and a source of randomness, and nothing of any person.

    Args:
        policy: what the app permits.
        source: random bits; the operating system's by default.
        floor_s: least time, in seconds, that making a report takes; see `geoveil.gp.paced`.

    Raises:
        ParameterError: if the bits of the source can be predicted, or the floor is out of range.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        source: RandomSource | None = None,
        floor_s: float | None = None,
    ) -> None:
        if not isinstance(policy, Policy):
            raise ParameterError("policy", policy, "a Policy, which says what the app permits")
        self._policy = policy
        self._source = SystemSource() if source is None else source
        if not isinstance(self._source, RandomSource) or not self._source.is_secure:
            raise ParameterError(
                "source",
                type(source).__name__,
                "a RandomSource whose bits nobody can predict (is_secure), as SystemSource",
            )
        self._floor_s = None if floor_s is None else between("floor_s", floor_s, 1e-6, 60)

    @property
    def waits(self) -> bool:
        """Whether `prepare` takes at least a stated time."""
        return self._floor_s is not None

    def accept(self, campaign_id: str, published: bytes) -> AcceptedCampaign:
        """Return the campaign that `published` describes, if it may be answered.

        Args:
            campaign_id: of the campaign that was asked for.
            published: the bytes a server sent, which may be anything.

        Raises:
            CampaignInvalid: if the bytes are not a sound campaign of that id.
            PolicyRefused: if it asks for more than the policy permits.
        """
        try:
            campaign = decode(published)
        except (GeoVeilError, ArithmeticError) as error:
            # ArithmeticError: numbers so extreme that a formula of the campaign gives up.
            raise CampaignInvalid(campaign_id, str(error)) from error
        if campaign.campaign_id != campaign_id:
            raise CampaignInvalid(campaign_id, f"the server sent {campaign.campaign_id!r} instead")
        self._policy.check(campaign)
        return AcceptedCampaign(campaign, digest(published))

    def prepare(self, accepted: AcceptedCampaign, value: Value) -> Contribution:
        """Draw the one report about `value`.

        The value is checked before the first random bit is drawn. Every call draws anew, so its
        result must be kept, and a second draw for the same person never sent.

        Args:
            accepted: the campaign.
            value: a number, a list of numbers, or (longitude, latitude) in degrees.

        Raises:
            PrivateValueError: if the value is not of the kind that the campaign asks about.
        """
        if self._floor_s is None:
            return self._prepare(accepted, value)
        return paced(lambda: self._prepare(accepted, value), self._floor_s)

    def _prepare(self, accepted: AcceptedCampaign, value: Value) -> Contribution:
        campaign = accepted.campaign
        point = _point(campaign, value)
        indices = campaign.allocation.draw(len(campaign.questions), self._source)
        report = report_pb2.Report(
            report_id=self._source.bits(8 * REPORT_ID_BYTES).to_bytes(REPORT_ID_BYTES),
            answers=[
                report_pb2.Answer(
                    query_index=index,
                    value=campaign.mechanisms[index].release(point, self._source),
                )
                for index in indices
            ],
        )
        return Contribution(
            campaign_id=campaign.campaign_id,
            digest=accepted.digest,
            report=report.SerializeToString(deterministic=True),
            privacy=campaign.privacy,
        )


def _point(campaign: Campaign, value: Value) -> NDArray[np.float64]:
    try:
        return campaign.attribute.point(value, campaign.dimension)
    except PrivateValueError as error:
        expected = error.expected
    # Raised outside the handler: the error must not hold on, as its context, to one of NumPy's
    # that quotes the value, nor to the frames that saw it.
    raise PrivateValueError(expected)
