"""Test that the first campaign seen under an id counts, with its signature."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from geoveil.campaign import Campaign, SigningKey, digest, encode, seal
from geoveil.client import (
    CampaignChanged,
    CampaignInvalid,
    CampaignNotFetched,
    CampaignNotFound,
    CampaignNotOpen,
    Client,
    InMemoryCollector,
    InMemoryTransport,
    Limit,
    Policy,
    PolicyRefused,
    TransportError,
)
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import campaign_pb2, collector_pb2

Make = Callable[..., Any]


@pytest.fixture
def other(make_campaign):
    """Another campaign under the same id."""
    made: Campaign = make_campaign(title="Another question")
    return made


def test_a_changed_campaign_is_refused_with_both_digests(
    make_either, state_dir, collector, campaign, other
):
    client = make_either(state_dir=state_dir, fetched=("income",))
    collector.add(other)
    for _ in range(2):
        with pytest.raises(CampaignChanged) as raised:
            client.fetch("income")
        error = raised.value
        assert error.pinned == digest(encode(campaign)).hex()
        assert error.current == digest(encode(other)).hex()
        assert error.pinned in str(error)
        assert error.current in str(error)
    # What was seen first can still be answered, and still be fetched.
    assert client.contribute("income", 52_000).digest == digest(encode(campaign)).hex()
    collector.add(campaign)
    assert client.fetch("income") == campaign


def test_the_pin_outlives_the_client(make_either, tmp_path, collector, other):
    make_either(state_dir=tmp_path / "state", fetched=("income",)).close()
    collector.add(other)
    with pytest.raises(CampaignChanged):
        make_either(state_dir=tmp_path / "state").fetch("income")


def test_a_report_is_sent_for_the_campaign_it_was_made_for(
    make_either: Make, state_dir: Path | None, tape: Any, collector: Any, campaign: Campaign,
    other: Campaign,
) -> None:  # fmt: skip
    client = make_either(state_dir=state_dir, fetched=("income",))
    client.contribute("income", 52_000)
    collector.add(other)
    result = client.flush()
    assert (result.acknowledged, result.rejected, result.pending) == (0, 0, 1)
    (receipt,) = client.history()
    assert receipt.failure is not None
    assert "another digest" in receipt.failure
    assert collector.reports("income") == ()
    # Were the campaign itself to come back, the report would still be good.
    collector.add(campaign)
    assert client.flush().acknowledged == 1
    assert len(set(tape.submitted)) == 1
    requests = [r for r in tape.requests if isinstance(r, collector_pb2.SubmitReportsRequest)]
    assert {r.campaign_digest for r in requests} == {digest(encode(campaign))}


def test_the_one_that_a_faster_process_pinned_counts(
    make_either: Make, tmp_path: Path, tape: Any, campaign: Campaign, other: Campaign,
    policy: Policy,
) -> None:  # fmt: skip
    """Another process pins version 1 while the server shows version 2 to this one."""
    state = tmp_path / "state"
    slower = make_either(state_dir=state)
    envelope = campaign_pb2.CampaignEnvelope.FromString(seal(encode(other)))

    def handler(request: Any) -> Any:
        transport = InMemoryTransport(InMemoryCollector([campaign]))
        with Client(policy=policy, state_dir=state, transport=transport, background=False) as fast:
            fast.fetch("income")
        return collector_pb2.GetCampaignResponse(envelope=envelope)

    tape.handler = handler
    with pytest.raises(CampaignChanged) as raised:
        slower.fetch("income")
    assert raised.value.pinned == digest(encode(campaign)).hex()
    assert slower.contribute("income", 1).digest == digest(encode(campaign)).hex()


def test_the_signature_is_kept_with_the_campaign(make_either, tmp_path, tape, campaign):
    """A policy that comes to trust only some keys holds for campaigns fetched before it."""
    key = SigningKey.generate()
    tape.handler = InMemoryCollector([campaign], key=key)
    limits = {"household income": Limit(campaign=GeoPrivacy(1, 8000, "dollar"))}
    make_either(state_dir=tmp_path / "state", fetched=("income",)).close()
    asked = len(tape.requests)
    stranger = Policy(limits, trusted_keys=[SigningKey.generate().public])
    with pytest.raises(PolicyRefused, match="signature"):
        make_either(state_dir=tmp_path / "state", policy=stranger).contribute("income", 1)
    friend = Policy(limits, trusted_keys=[key.public])
    assert make_either(state_dir=tmp_path / "state", policy=friend).contribute("income", 1)
    assert len(tape.requests) == asked


@pytest.mark.parametrize("published", [b"", b"\xff" * 1000, b"\x00" * (3 << 20), None])
def test_what_is_no_campaign_is_never_pinned(
    make_either: Make, state_dir: Path | None, tape: Any, places: Campaign, make_source: Any,
    published: bytes | None,
) -> None:  # fmt: skip
    genuine = tape.handler
    envelope = campaign_pb2.CampaignEnvelope(
        campaign=encode(places) if published is None else published
    )
    tape.handler = lambda request: collector_pb2.GetCampaignResponse(envelope=envelope)
    source = make_source(0)
    client = make_either(state_dir=state_dir, source=source)
    with pytest.raises(CampaignInvalid):
        client.fetch("income")
    with pytest.raises(CampaignNotFetched):
        client.contribute("income", 52_000)
    assert source.draws == []
    tape.handler = genuine
    client.fetch("income")
    assert client.contribute("income", 52_000)


JUNK = b"\x7a\x80\x40" + bytes(8192)
"""Field 15, 8 KiB of zeros: one that no version knows."""


def append(envelope: bytes) -> bytes:
    return envelope + JUNK


def append_to_the_signature(envelope: bytes) -> bytes:
    message = campaign_pb2.CampaignEnvelope.FromString(envelope)
    message.signature.MergeFromString(JUNK)
    return message.SerializeToString()


def append_to_the_campaign(envelope: bytes) -> bytes:
    """Add bytes to a campaign, as a stranger may, since it is not signed."""
    campaign = campaign_pb2.CampaignEnvelope.FromString(envelope).campaign
    return seal(campaign + JUNK)


def outgrow(envelope: bytes) -> bytes:
    message = campaign_pb2.CampaignEnvelope.FromString(envelope)
    message.signature.signature = bytes((1 << 20) + 256)
    return message.SerializeToString()


@pytest.mark.parametrize(
    "spoil", [append, append_to_the_signature, append_to_the_campaign, outgrow]
)
def test_an_envelope_holds_a_campaign_and_its_signature_and_nothing_else(
    make_either: Make, tmp_path: Path, tape: Any, campaign: Campaign,
    spoil: Callable[[bytes], bytes],
) -> None:  # fmt: skip
    """A server could otherwise fill the disk with what nobody looks at."""
    genuine = seal(encode(campaign), SigningKey.generate())
    tape.handler = lambda request: collector_pb2.GetCampaignResponse(
        envelope=campaign_pb2.CampaignEnvelope.FromString(spoil(genuine))
    )
    client = make_either(state_dir=tmp_path / "state")
    with pytest.raises(CampaignInvalid):
        client.fetch("income")
    with pytest.raises(CampaignNotFetched):
        client.contribute("income", 52_000)
    tape.handler = lambda request: collector_pb2.GetCampaignResponse(
        envelope=campaign_pb2.CampaignEnvelope.FromString(genuine)
    )
    assert client.fetch("income") == campaign


def test_what_the_policy_refuses_is_not_pinned(make_either, collector, make_campaign, campaign):
    collector.add(make_campaign(privacy=GeoPrivacy(3, 8000, "dollar")))
    client = make_either()
    with pytest.raises(PolicyRefused):
        client.fetch("income")
    collector.add(campaign)
    assert client.fetch("income") == campaign


def test_a_campaign_that_its_analyst_closed_is_not_kept(make_either, collector):
    collector.close("income")
    client = make_either()
    with pytest.raises(CampaignNotOpen, match="is closed"):
        client.fetch("income")
    with pytest.raises(CampaignNotFetched):
        client.contribute("income", 1)


def test_a_campaign_that_opens_later_can_be_kept_for_then(make_either, tape, fake_time, campaign):
    fake_time.date = campaign.opens.replace(year=2025)
    tape.handler = InMemoryCollector([campaign], clock=lambda: fake_time.date)
    client = make_either(fetched=("income",))
    with pytest.raises(CampaignNotOpen, match="is pending"):
        client.contribute("income", 1)
    fake_time.date = campaign.opens
    assert client.contribute("income", 1)


def test_a_campaign_that_the_server_does_not_know_is_told(make_either):
    with pytest.raises(CampaignNotFound, match="'unknown'") as raised:
        make_either().fetch("unknown")
    assert isinstance(raised.value.__cause__, TransportError)


def test_fetch_tries_again_until_its_time_is_up(make_either, tape, fake_time):
    failures = iter(["UNAVAILABLE", "ABORTED"])

    def fail(request: Any) -> None:
        for code in failures:
            raise TransportError(code)

    tape.before = fail
    client = make_either()
    client.fetch("income")
    assert fake_time.slept == pytest.approx([0.1, 0.2])

    def always(request: Any) -> None:
        raise TransportError("UNAVAILABLE", "down")

    tape.before = always
    start = fake_time.now_s
    with pytest.raises(TransportError, match="UNAVAILABLE: down"):
        client.fetch("income", timeout_s=3.0)
    assert fake_time.now_s - start <= 3.0
