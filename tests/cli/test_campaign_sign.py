"""Keys of analysts, and campaigns that are signed, on one machine or over three."""

import json
import stat
from datetime import UTC, datetime, timedelta

import pytest

from geoveil.analyst import Analyst, ShareAbove, campaign_asking
from geoveil.campaign import PublicKey, SigningKey, decode, encode, open_envelope, seal, signer
from geoveil.gp import GeoPrivacy, GeoVeilError, ParameterError
from geoveil.simulation.local_server import local_server

from .conftest import ABOVE


@pytest.fixture
def key_file(geoveil, tmp_path):
    file = tmp_path / "key.pem"
    assert geoveil("campaign", "keygen", file, to_server=False).exit_code == 0
    return file


def test_a_new_key_is_its_owners_alone_and_never_overwritten(geoveil, tmp_path):
    file = tmp_path / "analyst.pem"
    printed = geoveil("campaign", "keygen", file, to_server=False).output
    key = SigningKey.from_pem(file.read_bytes())
    assert PublicKey.parse(printed.strip()) == key.public
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(ParameterError, match="never overwritten"):
        geoveil("campaign", "keygen", file, to_server=False)
    assert SigningKey.from_pem(file.read_bytes()).public == key.public
    with pytest.raises(ParameterError, match="a file to write"):
        geoveil("campaign", "keygen", tmp_path / "missing" / "k.pem", to_server=False)


def test_a_signed_campaign_says_by_whom(create, geoveil, key_file):
    public = str(SigningKey.from_pem(key_file.read_bytes()).public)
    assert f"signed by {public}" in create("Signed", *ABOVE, "--sign-key", key_file).output
    create("Unsigned", *ABOVE)
    rows = json.loads(geoveil("campaign", "list", "--json").stdout)
    record = {row["campaign_id"]: row for row in rows}
    assert (record["signed"]["signed_by"], record["unsigned"]["signed_by"]) == (public, None)
    assert (record["signed"]["state"], record["signed"]["reports"]) == ("open", 0)
    listed = geoveil("campaign", "list").output.splitlines()
    for name, by in (("signed", f"signed by {public[:15]}"), ("unsigned", "signed by nobody")):
        (at,) = (i for i, line in enumerate(listed) if line.startswith(f"{name}  open, 0 reports"))
        assert listed[at + 1].startswith(by)
        assert listed[at + 2] == f"  {name.title()}"


def test_a_server_without_campaigns_is_said_to_have_none(geoveil, tmp_path):
    with local_server(tmp_path / "empty.db") as address:
        at = ("--server", address)
        listed = geoveil("campaign", "list", *at, to_server=False)
        geoveil("campaign", "create", "Own", *ABOVE, *at, to_server=False)
        state = tmp_path / "state"
        ada = ("contribute", "own", "--yes", "--state-dir", state, *at)
        geoveil(*ada, stdin="87500\n", to_server=False)
        of_one = geoveil("campaign", "list", *at, to_server=False)
    assert (listed.stdout, listed.stderr) == ("", "no campaigns\n")
    assert of_one.stdout.startswith("own  open, 1 report, closes")
    assert of_one.stderr == ""


def test_a_file_that_is_no_key_publishes_nothing(create, geoveil, tmp_path):
    file = tmp_path / "not-a-key.pem"
    file.write_text("secret 31415")
    with pytest.raises(ParameterError, match="Ed25519") as caught:
        create("Not published", *ABOVE, "--sign-key", file)
    assert "31415" not in str(caught.value)
    assert "not-published" not in geoveil("campaign", "list").output


@pytest.fixture
def unsigned(tmp_path):
    """A campaign, in a file that nobody has signed yet."""
    now = datetime.now(UTC)
    campaign = campaign_asking(
        [ShareAbove(100_000)],
        attribute="household income",
        privacy=GeoPrivacy(1.0, per=8_000.0, unit="dollar"),
        campaign_id="signed-elsewhere",
        title="Income above 100k",
        opens=now,
        closes=now + timedelta(days=1),
    )
    file = tmp_path / "income.campaign"
    file.write_bytes(seal(encode(campaign)))
    return file, campaign


def test_what_is_signed_is_said_once_and_can_be_published(
    geoveil, server, tmp_path, key_file, unsigned
):
    file, campaign = unsigned
    public = SigningKey.from_pem(key_file.read_bytes()).public
    at_home = ("campaign", "sign", file, "--sign-key", key_file)
    said = geoveil(*at_home, to_server=False).output
    for part in ("Income above 100k", "ε = 1 per 8000 dollar", str(public)):
        assert part in said
    made = tmp_path / "income.signed.campaign"
    envelope = open_envelope(made.read_bytes())
    assert signer(envelope) == public
    assert decode(envelope.campaign) == campaign
    with pytest.raises(ParameterError, match="never overwritten"):
        geoveil(*at_home, to_server=False)
    with pytest.raises(ParameterError, match="nobody has signed yet"):
        geoveil("campaign", "sign", made, "--sign-key", key_file, to_server=False)
    assert str(public)[:24] in geoveil("campaign", "publish", made).output
    with Analyst(server) as analyst:
        listed = {one.campaign.campaign_id: one for one in analyst.campaigns()}
        assert signer(listed["signed-elsewhere"].envelope) == public
        assert analyst.publish(made.read_bytes())  # the same again is welcome


@pytest.mark.parametrize("command", ["sign", "publish"])
@pytest.mark.parametrize("content", [b"rubbish", bytes(2 << 20)])
def test_files_that_hold_no_campaign_are_refused(geoveil, tmp_path, key_file, command, content):
    file = tmp_path / "rubbish.campaign"
    file.write_bytes(content)
    more = ("--sign-key", key_file) if command == "sign" else ()
    with pytest.raises(GeoVeilError):
        geoveil("campaign", command, file, *more, to_server=command == "publish")
    assert list(tmp_path.glob("*.signed.campaign")) == []
