"""Test that signatures are checked when a campaign is created, and relayed unchanged."""

import hashlib

import pytest

from geoveil.aggregator import Code
from geoveil.campaign import SignatureInvalid, SigningKey, seal, signer
from geoveil.gp import GeoVeilError, UnsupportedError
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope

from .refusals import refused

KEY, OTHER = SigningKey.generate(), SigningKey.generate()


async def test_a_signature_is_relayed_and_the_digest_is_of_the_campaign_alone(service, publish):
    content = publish().published
    signed = seal(content, KEY)
    assert await service.create_campaign(signed) == hashlib.sha256(content).digest()
    status = await service.get_campaign("income")
    assert status.record.published == signed
    assert signer(CampaignEnvelope.FromString(status.record.published)) == KEY.public


async def test_another_signature_is_another_campaign(service, publish):
    content = publish().published
    await service.create_campaign(seal(content, KEY))
    await service.create_campaign(seal(content, KEY))
    for other in (seal(content, OTHER), seal(content)):
        await refused(Code.CAMPAIGN_ID_TAKEN, service.create_campaign(other))
    assert (await service.get_campaign("income")).record.published == seal(content, KEY)


@pytest.mark.parametrize("part", ["signature", "public_key", "campaign", "short", "empty"])
async def test_signatures_that_are_not_valid_are_refused(service, publish, part):
    envelope = CampaignEnvelope.FromString(seal(publish().published, KEY))
    if part == "signature":
        envelope.signature.signature = OTHER.sign(envelope.campaign)
    elif part == "public_key":
        envelope.signature.public_key = OTHER.public.data
    elif part == "campaign":
        envelope.campaign = publish(title="Another title").published
    elif part == "short":
        envelope.signature.signature = envelope.signature.signature[:-1]
    else:
        envelope.signature.Clear()
        envelope.signature.SetInParent()
    with pytest.raises(SignatureInvalid):
        await service.create_campaign(envelope.SerializeToString(deterministic=True))
    assert (await service.list_campaigns()).statuses == []


async def test_only_trusted_keys_may_ask_if_there_are_any(start_service, publish):
    content = publish().published
    service = (await start_service(trusted_keys=(KEY.public,))).service
    for wrong in (seal(content), seal(content, OTHER)):
        await refused(Code.SIGNER_NOT_TRUSTED, service.create_campaign(wrong))
    assert (await service.list_campaigns()).statuses == []
    await service.create_campaign(seal(content, KEY))
    assert (await service.get_campaign("income")).record.campaign_id == "income"


async def test_an_envelope_that_says_something_unknown_is_refused(service, publish):
    published = seal(publish().published, KEY)
    with pytest.raises(UnsupportedError, match="update geoveil"):
        await service.create_campaign(published + b"\xf8\x07\x01")
    for malformed in (b"", b"\xff\xff\xff", published[:-3]):
        with pytest.raises(GeoVeilError):
            await service.create_campaign(malformed)
    assert (await service.list_campaigns()).statuses == []
