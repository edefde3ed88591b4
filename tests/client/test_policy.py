"""Test the app's policy as a matrix: each refusal names the requested and the permitted value."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from geoveil.campaign import Attribute, Campaign, SigningKey, encode, seal
from geoveil.client import (
    CampaignInvalid,
    Epoch,
    Limit,
    ParameterError,
    Place,
    Policy,
    PolicyRefused,
    PublicKey,
    ReportBuilder,
    Window,
)
from geoveil.client.errors import exactly
from geoveil.gp import Cap, GeoPrivacy, LocalPrivacy
from geoveil.gp.coordinates import Area, AzimuthalEquidistant
from geoveil.proto.v1 import campaign_pb2

LIMIT = GeoPrivacy(1, 8000, "dollar")
ABOVE = math.nextafter(1.0, 2.0)
CLOSES = datetime(2027, 1, 1, tzinfo=UTC)
CITY = Area(longitude_deg=-73.95, latitude_deg=40.72, radius_m=70_000)
TICK = timedelta(microseconds=1)


def refusal(policy: Policy, campaign: Campaign, signer: PublicKey | None = None) -> PolicyRefused:
    with pytest.raises(PolicyRefused) as raised:
        policy.check(campaign, signer)
    error = raised.value
    assert error.campaign_id == campaign.campaign_id
    assert error.stated in str(error)
    assert error.permitted in str(error)
    return error


@pytest.mark.parametrize(
    ("epsilon", "per", "unit", "permitted"),
    [
        (1.0, 8000.0, "dollar", True),
        (0.5, 8000.0, "dollar", True),
        (2.0, 16_000.0, "dollar", True),
        (0.1, 800.0, "dollar", False),  # the double 0.1 is a little more than 1/10
        (0.125, 1000.0, "dollar", True),
        (ABOVE, 8000.0, "dollar", False),  # an ulp too much
        (1.0, math.nextafter(8000.0, 0), "dollar", False),
        (1.0, math.nextafter(8000.0, math.inf), "dollar", True),
        (2.0, 8000.0, "dollar", False),
        (1.0, 8000.0, "euro", False),
        (1e-3, 8000.0, "cent", False),
        (1.0, 8000.0, "Dollar", False),
    ],
)
def test_the_rate_and_the_unit_decide(make_campaign, epsilon, per, unit, permitted):
    asked = GeoPrivacy(epsilon, per, unit)
    campaign = make_campaign(attribute=Attribute(name="household income", unit=unit), privacy=asked)
    policy = Policy({"household income": LIMIT})
    if permitted:
        policy.check(campaign, None)
        return
    error = refusal(policy, campaign)
    assert error.aspect == "privacy loss of 'household income'"
    shown = [repr(x).removesuffix(".0") for x in (epsilon, per)]
    assert error.stated == f"ε = {shown[0]} per {shown[1]} {unit}"
    assert error.permitted == "at most ε = 1 per 8000 dollar"


def test_permitting_a_recurring_campaign_permits_every_period_to_the_last_bit(make_campaign):
    """Ten times the double 0.1 is more than 1: a product of doubles would refuse the last."""
    once, day = GeoPrivacy(0.1, 8_000, "dollar"), timedelta(days=1)
    opens = CLOSES - 10 * day
    campaign = make_campaign(privacy=once, opens=opens, closes=CLOSES, period=day)
    most = Policy.permitting(campaign).limit(campaign.attribute.name).campaign.exact_rate
    assert most >= 10 * once.exact_rate > GeoPrivacy(0.1 * 10, 8_000).exact_rate


@pytest.mark.parametrize(
    "name",
    ["Household income", "household  income", "income", "debt", "h\u043eusehold \u0131ncome"],
)
def test_an_attribute_that_is_not_listed_is_refused(make_campaign, name):
    campaign = make_campaign(attribute=Attribute(name=name, unit="dollar"))
    error = refusal(Policy({"household income": LIMIT}), campaign)
    assert (error.aspect, error.stated) == ("attribute", repr(name))
    assert error.permitted == "'household income'"
    assert refusal(Policy({}), campaign).permitted == "nothing"


@pytest.mark.parametrize(
    ("longitude", "latitude", "radius", "permitted"),
    [
        (-73.98, 40.72, 60_000, True),
        (-73.95, 40.72, 70_000, True),
        (-73.95, 40.72, 70_001, False),
        (-73.98, 40.72, 69_000, False),  # 2.5 km off the centre
        (2.35, 48.86, 10_000, False),
    ],
)
def test_the_area_of_a_campaign_is_inside_the_one_permitted(
    make_campaign, longitude, latitude, radius, permitted
):
    plane = AzimuthalEquidistant(longitude, latitude, radius)
    campaign = _places(make_campaign, plane)
    price = GeoPrivacy(1, 1000, "metre")
    Policy({"location": Limit(campaign=price, value=Place(None))}).check(campaign, None)
    policy = Policy({"location": Limit(campaign=price, value=Place(CITY))})
    if permitted:
        policy.check(campaign, None)
        return
    error = refusal(policy, campaign)
    assert error.aspect == "value of 'location'"
    where = f"a place within {radius:,} m of longitude {longitude:g}, latitude {latitude:g}"
    assert error.stated == where
    assert error.permitted == "a place within 70,000 m of longitude -73.95, latitude 40.72"


@pytest.mark.parametrize(
    ("latest", "permitted"),
    [
        (CLOSES, True),
        (CLOSES.astimezone(timezone(timedelta(hours=14))), True),
        (CLOSES + TICK, True),
        (CLOSES - TICK, False),
    ],
)
def test_a_campaign_closes_in_time(campaign, latest, permitted):
    policy = Policy({"household income": LIMIT}, latest_close=latest)
    if permitted:
        policy.check(campaign, None)
        return
    error = refusal(policy, campaign)
    assert (error.aspect, error.stated) == ("closing date", CLOSES.isoformat())
    assert error.permitted == f"at latest {latest.isoformat()}"


def test_a_campaign_promises_to_have_enough_participants(make_campaign):
    policy = Policy({"household income": LIMIT}, minimum_participants=1000)
    policy.check(make_campaign(minimum_participants=1000), None)
    error = refusal(policy, make_campaign(minimum_participants=999))
    assert error.aspect == "minimum of participants"
    assert (error.stated, error.permitted) == ("999", "at least 1,000")


KEY, OTHER = SigningKey.generate(), SigningKey.generate()


@pytest.mark.parametrize(
    ("trusted", "key", "permitted"),
    [
        (None, None, True),
        (None, KEY, True),
        ([KEY.public], KEY, True),
        ([OTHER.public, KEY.public], KEY, True),
        ([OTHER.public], KEY, False),
        ([KEY.public], None, False),
        ([], KEY, False),
        ([], None, False),
    ],
)
def test_only_the_trusted_are_answered(campaign, trusted, key, permitted):
    policy = Policy({"household income": LIMIT}, trusted_keys=trusted)
    builder = ReportBuilder(policy=policy)
    envelope = seal(encode(campaign), key)
    if permitted:
        signer = builder.accept("income", envelope).signer
        assert signer == (None if key is None else key.public)
        return
    with pytest.raises(PolicyRefused) as raised:
        builder.accept("income", envelope)
    assert raised.value.aspect == "signature"
    assert raised.value.stated == ("nobody's" if key is None else str(key.public))
    assert raised.value.permitted == "one of a trusted key"


def another_title(envelope: campaign_pb2.CampaignEnvelope) -> None:
    envelope.campaign = envelope.campaign.replace(b"Households", b"HouseholdS")


def another_key(envelope: campaign_pb2.CampaignEnvelope) -> None:
    envelope.signature.public_key = KEY.public.data


def cut_short(envelope: campaign_pb2.CampaignEnvelope) -> None:
    envelope.signature.signature = envelope.signature.signature[:-1]


def empty(envelope: campaign_pb2.CampaignEnvelope) -> None:
    envelope.signature.Clear()
    envelope.signature.SetInParent()


@pytest.mark.parametrize("forge", [another_title, another_key, cut_short, empty])
@pytest.mark.parametrize("trusted", [None, [KEY.public, OTHER.public]])
def test_a_signature_that_is_not_valid_is_refused_even_if_none_is_needed(campaign, trusted, forge):
    builder = ReportBuilder(policy=Policy({"household income": LIMIT}, trusted_keys=trusted))
    genuine = seal(encode(campaign), OTHER)
    builder.accept("income", genuine)
    envelope = campaign_pb2.CampaignEnvelope.FromString(genuine)
    forge(envelope)
    with pytest.raises(CampaignInvalid, match="signature of the campaign is not valid"):
        builder.accept("income", envelope.SerializeToString())


NO_LIMITS: list[Any] = [
    {"income": GeoPrivacy(1, 8000)},
    {"income": GeoPrivacy(1, 8000, "dollar", reach=1000)},
    {"income": 1.0},
    {"": LIMIT},
    {3: LIMIT},
    [("income", LIMIT)],
    None,
]


@pytest.mark.parametrize("limits", NO_LIMITS)
def test_a_limit_has_a_unit_and_a_reach_only_with_a_slack(limits):
    with pytest.raises(ParameterError):
        Policy(limits)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("trusted_keys", {"trusted_keys": KEY.public}),
        ("trusted_keys", {"trusted_keys": [str(KEY.public)]}),
        ("trusted_keys", {"trusted_keys": str(KEY.public)}),
        ("latest_close", {"latest_close": datetime(2027, 1, 1)}),
        ("latest_close", {"latest_close": "2027-01-01"}),
        ("minimum_participants", {"minimum_participants": -1}),
        ("minimum_participants", {"minimum_participants": 1.0}),
        ("minimum_participants", {"minimum_participants": True}),
    ],
)
def test_the_rest_of_a_policy_is_checked(name, settings):
    with pytest.raises(ParameterError, match=name):
        Policy({"income": LIMIT}, **settings)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("campaign", {"campaign": GeoPrivacy(1, 8000)}),
        ("campaign", {"campaign": 1.0}),
        ("lifetime", {"lifetime": GeoPrivacy(1, 8000, "dollar", reach=9.0)}),
        ("units of the limits", {"lifetime": GeoPrivacy(1, 8000, "euro")}),
        ("lifetime", {"lifetime": "any"}),
        ("windows", {"windows": (LIMIT,)}),
        ("windows", {"windows": Window(limit=LIMIT, length=timedelta(days=1))}),
        ("value", {"value": CITY}),
        ("value", {"value": "place"}),
        ("unit of the limits", {"value": Place(None)}),
        (
            "units of the limits",
            {"windows": [Window(limit=GeoPrivacy(1, 1, "euro"), length=timedelta(days=1))]},
        ),
    ],
)
def test_a_limit_is_checked(name, settings):
    with pytest.raises(ParameterError, match=name):
        Limit(**({"campaign": LIMIT} | settings))


@pytest.mark.parametrize(
    "length", [timedelta(0), timedelta(days=-1), timedelta(days=36_526), timedelta.max, 86_400]
)
def test_a_window_has_a_length(length):
    with pytest.raises(ParameterError, match="length"):
        Window(limit=LIMIT, length=length)
    with pytest.raises(ParameterError, match="limit"):
        Window(limit=GeoPrivacy(1, 8000), length=timedelta(days=1))
    Window(limit=LIMIT, length=timedelta(days=36_525))


def test_a_policy_can_not_be_loosened_afterwards():
    limits: dict[str, Any] = {"household income": LIMIT}
    keys = [KEY.public]
    policy = Policy(limits, trusted_keys=keys)
    limits["household income"] = GeoPrivacy(100, 1, "dollar")
    keys.append(OTHER.public)
    assert policy.limit("household income") == Limit(campaign=LIMIT, lifetime=LIMIT)
    assert policy.limit("debt") is None
    assert policy.trusted_keys == frozenset([KEY.public])
    with pytest.raises(TypeError):
        policy.limits["household income"] = LIMIT  # type: ignore[index]
    with pytest.raises(AttributeError):
        policy.limits = {}  # type: ignore[misc]


def test_a_hostile_unit_can_not_write_lines_of_its_own():
    unit = "dollar\n2026-05-01 INFO all is well\x1b[2J"
    with pytest.raises(ParameterError) as raised:
        Attribute(name="household income", unit=unit)
    assert str(raised.value).isprintable()
    assert exactly(GeoPrivacy(1, 8000, unit)).isprintable()


def _places(make_campaign: Any, plane: AzimuthalEquidistant) -> Campaign:
    from geoveil.gp import GaussianKernel

    made: Campaign = make_campaign(
        "places",
        attribute=Attribute(name="location", unit="metre", coordinates=plane),
        privacy=GeoPrivacy(1, 1000, "metre"),
        queries=(GaussianKernel((0.0, 0.0), 3000.0),),
    )
    return made


@pytest.mark.parametrize(
    ("cap", "most", "permitted"),
    [
        (Cap(4.0, 4.0), math.log(1000), False),
        (Cap(3.4, 3.5), math.log(1000), True),
        (Cap(4.0, 4.0), 8.0, True),
        (Cap(4.0, 4.0), math.nextafter(8.0, 0.0), False),
        (None, 1e6, False),
    ],
)
def test_an_app_that_requires_a_cap_refuses_a_looser_one_and_none(
    make_campaign, cap, most, permitted
):
    limit = Limit(campaign=LIMIT, any_two=LocalPrivacy(most))
    campaign = make_campaign(cap=cap)
    if permitted:
        Policy({"household income": limit}).check(campaign, None)
        return
    error = refusal(Policy({"household income": limit}), campaign)
    assert error.aspect == "cap on the odds of any two values of 'household income'"
    assert error.stated == ("2,981 to 1" if cap else "none that protects")
    if most == math.log(1000):
        assert error.permitted == "at most 1,000 to 1"


def test_all_periods_count_and_what_an_epoch_answers_has_no_cap(make_campaign):
    weekly = make_campaign(cap=Cap(1.5, 1.5), period=timedelta(days=7))
    wide = GeoPrivacy(1000, 8000, "dollar")
    limit = Limit(campaign=wide, any_two=LocalPrivacy(3.0 * weekly.periods))
    Policy({"household income": limit}).check(weekly, None)
    fewer = replace(limit, any_two=LocalPrivacy(3.0 * weekly.periods - 1))
    refusal(Policy({"household income": fewer}), weekly)
    epoch = Epoch(privacy=LIMIT, length=timedelta(days=30))
    Policy({"household income": replace(limit, any_two=None, epoch=epoch)}).check(weekly, None)
    refusal(Policy({"household income": replace(limit, epoch=epoch)}), weekly)


@pytest.mark.parametrize("any_two", [3.0, LIMIT, "1,000 to 1"])
def test_a_cap_that_is_required_is_a_local_privacy(any_two):
    with pytest.raises(ParameterError, match=r"^any_two must be a LocalPrivacy, or None"):
        Limit(campaign=LIMIT, any_two=any_two)
