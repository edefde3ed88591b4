"""Campaigns as they are published: an envelope, checked once and relayed unchanged."""

from collections.abc import Collection

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.store import CampaignRecord
from geoveil.campaign import PublicKey, decode, digest, open_envelope, signer
from geoveil.campaign.admission import Admission


class Publication:
    """A stored campaign ready for use. Campaigns never change, so neither does this.

    Args:
        record: of the campaign.

    Raises:
        GeoVeilError: if the record holds no sound campaign.
    """

    def __init__(self, record: CampaignRecord) -> None:
        content = open_envelope(record.published).campaign
        self.campaign = decode(content)
        self.digest = digest(content)
        self.layout = Layout.stored(self.campaign, record.queries, record.block_key)
        self.admission = Admission(self.campaign)


def publish(
    published: bytes, trusted_keys: Collection[PublicKey] | None
) -> tuple[CampaignRecord, bytes]:
    """Return the record of a new campaign, and its digest.

    Args:
        published: what `geoveil.campaign.seal` returned.
        trusted_keys: one of which must have signed; None takes campaigns of anybody, and unsigned.

    Raises:
        SignatureInvalid: if there is a signature that is not of its key over these bytes.
        ServiceError: SIGNER_NOT_TRUSTED.
        GeoVeilError: if the campaign is not sound.
    """
    envelope = open_envelope(published)
    key = signer(envelope)
    if trusted_keys is not None and key not in trusted_keys:
        raise ServiceError(Code.SIGNER_NOT_TRUSTED)
    campaign = decode(envelope.campaign)
    layout = Layout.of(campaign)
    record = CampaignRecord(
        campaign_id=campaign.campaign_id,
        published=published,
        queries=layout.sums,
        block_key=layout.key,
    )
    return record, digest(envelope.campaign)
