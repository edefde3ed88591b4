"""What the app permits, as a matrix."""

import math
from typing import Any

import pytest

from geoveil.campaign import Attribute
from geoveil.client import ParameterError, Policy, PolicyRefused
from geoveil.gp import GeoPrivacy

LIMIT = GeoPrivacy(1, 8000, "dollar")
ABOVE = math.nextafter(1.0, 2.0)


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
def test_the_rate_and_the_unit_decide(
    make_campaign: Any, epsilon: float, per: float, unit: str, permitted: bool
) -> None:
    asked = GeoPrivacy(epsilon, per, unit)
    campaign = make_campaign(attribute=Attribute(name="household income", unit=unit), privacy=asked)
    policy = Policy({"household income": LIMIT})
    if permitted:
        policy.check(campaign)
        return
    with pytest.raises(PolicyRefused) as raised:
        policy.check(campaign)
    assert (raised.value.asked, raised.value.limit) == (asked, LIMIT)
    for part in (repr(epsilon), repr(per), unit, "1.0 per 8000.0 dollar", "household income"):
        assert part in str(raised.value)


@pytest.mark.parametrize("name", ["Household income", "household  income", "income", "debt"])
def test_an_attribute_that_is_not_listed_is_refused(make_campaign: Any, name: str) -> None:
    campaign = make_campaign(attribute=Attribute(name=name, unit="dollar"))
    with pytest.raises(PolicyRefused, match="does not list this attribute") as raised:
        Policy({"household income": LIMIT}).check(campaign)
    assert raised.value.limit is None


@pytest.mark.parametrize(
    "limits",
    [
        {"income": GeoPrivacy(1, 8000)},
        {"income": GeoPrivacy(1, 8000, "dollar", delta=1e-6)},
        {"income": GeoPrivacy(1, 8000, "dollar", reach=1000)},
        {"income": 1.0},
        {"": LIMIT},
        {3: LIMIT},
        [("income", LIMIT)],
        None,
    ],
)
def test_a_limit_is_pure_and_has_a_unit(limits: Any) -> None:
    with pytest.raises(ParameterError):
        Policy(limits)


def test_a_policy_can_not_be_loosened_afterwards(make_campaign: Any) -> None:
    limits = {"household income": LIMIT}
    policy = Policy(limits)
    limits["household income"] = GeoPrivacy(100, 1, "dollar")
    assert policy.limits["household income"] == LIMIT
    with pytest.raises(TypeError):
        policy.limits["household income"] = LIMIT  # type: ignore[index]
    with pytest.raises(AttributeError):
        policy.limits = {}  # type: ignore[misc]


def test_a_hostile_unit_can_not_write_lines_of_its_own(make_campaign: Any) -> None:
    unit = "dollar\n2026-05-01 INFO all is well\x1b[2J"
    campaign = make_campaign(
        attribute=Attribute(name="household income", unit=unit),
        privacy=GeoPrivacy(1, 8000, unit),
    )
    with pytest.raises(PolicyRefused) as raised:
        Policy({"household income": LIMIT}).check(campaign)
    assert str(raised.value).isprintable()
