"""geoveil card: equal to that of a second program, and saying where a campaign says nothing."""

import json
import math
import re
from datetime import UTC, datetime, timedelta

import pytest

from geoveil.analyst import card_of
from geoveil.campaign import (
    Asker,
    Attribute,
    ChoiceField,
    FormCampaign,
    NumberField,
    PlaceField,
    PlanarLaplaceSpec,
    Question,
    SignatureInvalid,
    SigningKey,
    StatisticCampaign,
    ValueCampaign,
    encode,
    open_envelope,
    seal,
)
from geoveil.cli.connection import CommandError
from geoveil.gp import (
    AzimuthalEquidistant,
    Cap,
    GeoPrivacy,
    LogScale,
    ParameterError,
    Threshold,
    __version__,
)
from tests.cli.card_again import card as card_again

OPENS = datetime(2026, 1, 1, tzinfo=UTC)
DATES = {"opens": OPENS, "closes": OPENS + timedelta(days=28)}
METRES, DOLLARS = GeoPrivacy(1, 500, "metre"), GeoPrivacy(1, 8_000, "dollar")
HOME = Attribute(name="home", unit="metre", coordinates=AzimuthalEquidistant(-73.98, 40.72, 20_000))
INCOME = Attribute(name="income", unit="dollar", least=0, most=60_000)
ASKER = Asker(
    organisation="City of Bergen",
    purpose="where buses stop",
    contact="data@bergen.example",
    notice="https://bergen.example/survey",
)
HOSTILE = "Homes <script>alert(1)</script> [x](y) {sha256} {0} %s"


REGISTRY = {
    "basic": "name data_curators intended_use data_product_type data_product_region description"
    " publication_date data_product_sector",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters"
    " privacy_parameters_details",
    "deployment_model": "model_name model_name_details actors release_type release_type_details"
    " data_source_type access_type access_type_details",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources notes registry_authors",
}
"""The fields that schemas/deployments-schema.yaml of opendp/deployments-registry-data permits, at
3e9c812, without `data_source_type_details`."""


def a_question(**more):
    return StatisticCampaign(
        campaign_id="above", title="Income above 100k", privacy=DOLLARS,
        attribute=Attribute(name="income", unit="dollar"),
        questions=(Question("above 100k", Threshold(100_000, 8_000, "smoothstep")),),
        **DATES, **more,
    )  # fmt: skip


CAMPAIGNS = {
    "places": ValueCampaign(
        campaign_id="homes", title=HOSTILE, attribute=HOME, privacy=METRES,
        mechanism=PlanarLaplaceSpec(2), period=timedelta(days=7), minimum_participants=50, **DATES,
    ),
    "numbers": ValueCampaign(
        campaign_id="incomes", title="Incomes", attribute=INCOME, privacy=DOLLARS,
        mechanism=PlanarLaplaceSpec(1), minimum_participants=100, window=timedelta(days=2),
        relay_operator=SigningKey.generate().public, token_key=b"\x81" * 256, **DATES,
    ),
    "a form": FormCampaign(
        campaign_id="household", title="Household",
        fields=(
            PlaceField(attribute=HOME, privacy=METRES),
            NumberField(attribute=INCOME, privacy=DOLLARS),
            ChoiceField(name="rents", options=("yes", "no"), epsilon=2.0),
            ChoiceField(name="side", options=("left", "right")),
        ),
        asker=ASKER, delete_after=OPENS + timedelta(days=60), **DATES,
    ),
    "choices": FormCampaign(
        campaign_id="rents", title="Rents", period=timedelta(days=7), window=timedelta(hours=36),
        token_key=bytes(range(128)),
        fields=(ChoiceField(name="rents", options=("yes", "no"), epsilon=2.0),), **DATES,
    ),
    "a capped question": a_question(cap=Cap(0.5, 0.5), minimum_participants=60),
}  # fmt: skip


def near(a, b):
    """Whether two cards are equal; numbers to 8 digits, the words letter for letter."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(near(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(near, a, b))
    return a == (b if isinstance(b, str) else pytest.approx(b, rel=1e-8))


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_second_program_writes_the_same_card(name):
    key = SigningKey.generate() if name != "numbers" else None
    sealed = seal(encode(CAMPAIGNS[name]), key)
    card, again = card_of(open_envelope(sealed)), card_again(sealed, __version__)
    for section in card:
        assert near(card[section], again[section]), (card[section], again[section])
    assert list(card) == list(again)
    other = card_again(seal(encode(a_question())), __version__)
    assert not near(card, other)  # control


def test_what_the_registry_takes_is_stated_only_where_the_campaign_supports_it():
    def parameters(campaign):
        card = card_of(open_envelope(seal(encode(campaign))))
        deployment = card["Registry of deployments (OpenDP)"]["deployment"]
        epsilon = deployment["privacy_loss"]["privacy_parameters"]
        return deployment["dp_variant"]["variant_name"], epsilon["epsilon"], epsilon["delta"]

    deployment = card_of(open_envelope(seal(encode(CAMPAIGNS["a form"]))))[
        "Registry of deployments (OpenDP)"
    ]["deployment"]
    assert {part: " ".join(fields) for part, fields in deployment.items()} == REGISTRY
    assert parameters(CAMPAIGNS["places"]) == ("Custom", 4.0, 0.0)
    assert parameters(CAMPAIGNS["a capped question"]) == ("Pure DP", 1.0, 0.0)
    assert parameters(CAMPAIGNS["a form"]) == ("Custom", "not stated", "not stated")
    card = card_of(open_envelope(seal(encode(a_question()))))
    guarantee = card["Guarantee (NIST SP 800-226)"]
    assert guarantee["central ε"] == "not stated"
    assert guarantee["fewest answers that are shown"] == "not stated"
    assert card["Campaign"]["signed by"] == "not stated"
    assert set(card["Places"].values()) == {"not stated"}


def test_a_card_says_839_and_2372_metres():
    card = card_of(open_envelope(seal(encode(CAMPAIGNS["places"]))))
    (said,) = card["Places"]["how far reports lie from the truth"]
    assert said == "home: half of the reported places within 839.2 metre, 95 % within 2,372 metre."


def test_a_card_says_how_near_numbers_on_a_log_scale_lie():
    """Control: e^1,440 is no number of a computer."""

    def said(epsilon):
        ratios = ValueCampaign(
            campaign_id="pay", title="Pay", privacy=GeoPrivacy.per_factor(epsilon, 2, "dollar"),
            attribute=Attribute(name="pay", unit="log dollar", scale=LogScale(1_000.0)),
            mechanism=PlanarLaplaceSpec(1), **DATES,
        )  # fmt: skip
        card = card_of(open_envelope(seal(encode(ratios))))
        (noise,) = card["Guarantee (NIST SP 800-226)"]["utility"]
        return noise

    assert said(1_000) == (
        "pay: half of the reported values within a factor of 1.000481, 95 % within a factor of"
        " 1.00208."
    )
    assert said(0.001).endswith("95 % within a factor of e^2,080.")
    with pytest.raises(OverflowError):
        math.exp(2_080)


def test_pages_hold_every_field_and_a_title_is_no_markup(geoveil, tmp_path):
    file = tmp_path / "homes.signed.campaign"
    file.write_bytes(seal(encode(CAMPAIGNS["places"]), SigningKey.generate()))
    page = geoveil("card", str(file)).stdout
    html = geoveil("card", str(file), "--format", "html").stdout
    record = json.loads(geoveil("card", str(file), "--format", "json").stdout)
    assert record["Campaign"]["title"] == HOSTILE
    assert "<script" not in html
    assert "Homes &lt;script&gt;" in html
    assert r"Homes \<script\>alert(1)\</script\> \[x\](y)" in page
    for section in record:
        assert f"## {section}\n" in page
        assert re.search(rf"<h2>{re.escape(section)}</h2>", html)
    made = tmp_path / "card.md"
    said = geoveil("card", str(file), "--out", str(made)).stdout
    assert made.read_text() == page
    assert f"{page.count('not stated')} times 'not stated'" in " ".join(said.split())
    with pytest.raises(ParameterError, match="never overwritten"):
        geoveil("card", str(file), "--out", str(made))


def test_a_card_is_of_a_campaign_at_a_server_as_well(geoveil, tmp_path):
    create = ("campaign", "create", "Carded", "--attribute", "income", "--unit", "dollar")
    geoveil(*create, "--epsilon", "1", "--per", "8000", "--threshold", "100000")
    assert "# Privacy card: Carded\n" in geoveil("card", "carded").stdout
    with pytest.raises(CommandError, match="no aggregator answers"):
        geoveil("card", "carded", "--server", "127.0.0.1:1", to_server=False)


def test_what_is_no_sound_campaign_has_no_card(geoveil, tmp_path):
    rubbish = tmp_path / "rubbish.campaign"
    rubbish.write_bytes(b"rubbish")
    with pytest.raises(ParameterError, match="a campaign that the console"):
        geoveil("card", str(rubbish))
    envelope = open_envelope(seal(encode(a_question()), SigningKey.generate()))
    envelope.signature.signature = bytes(64)
    rubbish.write_bytes(envelope.SerializeToString())
    with pytest.raises(SignatureInvalid):
        geoveil("card", str(rubbish))
