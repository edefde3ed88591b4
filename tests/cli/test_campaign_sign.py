"""Test a campaign made on one machine, signed on another and published from a third."""

from datetime import UTC, datetime, timedelta

import pytest

from geoveil.analyst import Analyst, ShareAbove, campaign_asking
from geoveil.campaign import SigningKey, decode, encode, open_envelope, seal, signer
from geoveil.gp import GeoPrivacy, GeoVeilError, ParameterError


@pytest.fixture
def key(tmp_path):
    made = SigningKey.generate()
    (tmp_path / "key.pem").write_bytes(made.to_pem())
    return made


def unsigned(tmp_path, campaign_id):
    now = datetime.now(UTC)
    campaign = campaign_asking(
        [ShareAbove(100_000)],
        attribute="household income",
        privacy=GeoPrivacy(1.0, per=8_000.0, unit="dollar"),
        campaign_id=campaign_id,
        title="Income above 100k",
        opens=now,
        closes=now + timedelta(days=1),
    )
    file = tmp_path / "income.campaign"
    file.write_bytes(seal(encode(campaign)))
    return file, campaign


def test_what_is_signed_is_said_and_can_be_published(geoveil, server, tmp_path, key):
    file, campaign = unsigned(tmp_path, "signed-elsewhere")
    at_home = ("campaign", "sign", str(file), "--sign-key", str(tmp_path / "key.pem"))
    said = geoveil(*at_home, to_server=False).output
    assert "Income above 100k" in said
    assert "ε = 1 per 8000 dollar" in said
    assert str(key.public) in said
    made = tmp_path / "income.signed.campaign"
    envelope = open_envelope(made.read_bytes())
    assert signer(envelope) == key.public
    assert decode(envelope.campaign) == campaign
    told = geoveil("campaign", "publish", str(made)).output
    assert str(key.public)[:24] in told
    with Analyst(server) as analyst:
        listed = {one.campaign.campaign_id: one for one in analyst.campaigns()}
        assert signer(listed["signed-elsewhere"].envelope) == key.public
        assert analyst.publish(made.read_bytes())  # the same again is welcome


def test_nothing_is_overwritten_and_nothing_signed_twice(geoveil, tmp_path, key):
    file, _ = unsigned(tmp_path, "twice")
    at_home = ("--sign-key", str(tmp_path / "key.pem"))
    geoveil("campaign", "sign", str(file), *at_home, to_server=False)
    with pytest.raises(ParameterError, match="never overwritten"):
        geoveil("campaign", "sign", str(file), *at_home, to_server=False)
    signed = str(tmp_path / "income.signed.campaign")
    with pytest.raises(ParameterError, match="nobody has signed yet"):
        geoveil("campaign", "sign", signed, *at_home, to_server=False)


@pytest.mark.parametrize("command", ["sign", "publish"])
@pytest.mark.parametrize("content", [b"rubbish", bytes(2 << 20)])
def test_files_that_hold_no_campaign_are_refused(geoveil, tmp_path, key, command, content):
    file = tmp_path / "rubbish.campaign"
    file.write_bytes(content)
    more = ("--sign-key", str(tmp_path / "key.pem")) if command == "sign" else ()
    with pytest.raises(GeoVeilError):
        geoveil("campaign", command, str(file), *more, to_server=command == "publish")
    assert [one.name for one in tmp_path.glob("*.signed.campaign")] == []
