"""Value campaigns with a range: values are clamped to it, and any two are alike to its length."""

import math
from datetime import timedelta

import numpy as np
import pytest

from geoveil.campaign import (
    Attribute,
    PlanarLaplaceSpec,
    Readings,
    of_any_two,
    unbiased_for,
    what_it_tells,
    what_it_tells_of,
)
from geoveil.gp import GeoPrivacy, LogScale, PrivateValueError, SeededSource
from tools.vectors.chance import PARIS
from tools.vectors.examples import small_campaign

ENDS = {"least": -4_000.0, "most": 60_000.0}
POINTS = PlanarLaplaceSpec(1)


def numbers(mechanism=POINTS, readings=None, **ends):
    attribute = Attribute(name="household income", unit="dollar", **ends)
    return small_campaign("c", attribute=attribute, mechanism=mechanism, readings=readings)


def by_ratio(least, most):
    unit, scale = "log dollar", LogScale(1_000.0)
    attribute = Attribute(name="pay", unit=unit, scale=scale, least=least, most=most)
    privacy = GeoPrivacy.per_factor(1.0, 2, "dollar")
    return small_campaign("c", attribute=attribute, privacy=privacy, mechanism=POINTS)


def released(campaign, value, seed):
    point = campaign.attribute.point(value, 1)
    return campaign.release(point, (0,), SeededSource(seed))


@pytest.mark.parametrize(
    ("value", "counts_as"),
    [
        (-5e9, -4_000.0),
        (-4_000.0, -4_000.0),
        (17.25, 17.25),
        (60_000.5, 60_000.0),
        (1e80, 60_000.0),
    ],
)
def test_a_value_beyond_is_released_as_the_nearer_end_bit_for_bit(value, counts_as):
    clamped, free = numbers(**ENDS), numbers()
    assert clamped.clamped
    assert not free.clamped
    for seed in range(20):
        assert released(clamped, value, seed) == released(free, counts_as, seed)
    if value != counts_as:  # the control: without a range it is another report
        assert released(free, value, 1) != released(free, counts_as, 1)


@pytest.mark.parametrize("point", [math.inf, -math.inf, math.nan, [], [1.0, 2.0]])
def test_what_is_no_point_is_refused_and_not_clamped(point):
    with pytest.raises(PrivateValueError):
        numbers(**ENDS).release(point, (0,), SeededSource(1))


def test_any_two_values_differ_by_the_length_of_the_range_and_no_less():
    """The largest log-ratio of two densities, over a grid of outputs and all pairs of 9 values."""
    campaign = numbers(**ENDS)
    law = campaign.point_mechanism
    y = np.linspace(-2e5, 3e5, 4001)[:, None]
    held = [-1e7, -4_000.0, 0.0, 8e3, 3e4, 59_999.0, 60_000.0, 61_000.0, 1e9]
    logs = np.array([law.log_density(y, np.clip([[x]], -4_000.0, 60_000.0)) for x in held])
    worst = max(float(np.max(one - other)) for one in logs for other in logs)
    assert campaign.largest_epsilon == 8.0  # 64,000 dollar at 1 per 8,000
    assert worst == pytest.approx(8.0, rel=1e-12)
    unclamped = law.log_density(y, [[-1e7]]) - law.log_density(y, [[1e9]])
    assert float(np.max(unclamped)) > 1_000  # the control


def test_by_ratio_the_range_is_of_logarithms_from_the_floor_on():
    campaign = by_ratio(500.0, 64_000.0)
    assert campaign.largest_epsilon == pytest.approx(6.0, rel=1e-12)  # 1,000 to 64,000: 2^6
    for seed in range(10):
        assert released(campaign, 1e9, seed) == released(campaign, 64_000.0, seed)
        assert released(campaign, 3.0, seed) == released(campaign, 1_000.0, seed)


def test_places_have_the_diameter_of_their_area():
    attribute = Attribute(name="home", unit="metre", coordinates=PARIS)
    privacy = GeoPrivacy(1.0, 1.01 * PARIS.radius_m, "metre")
    campaign = small_campaign(
        "c", attribute=attribute, privacy=privacy, mechanism=PlanarLaplaceSpec(2)
    )
    rate = campaign.point_mechanism.privacy.rate
    assert campaign.largest_epsilon == pytest.approx(2 * PARIS.radius_m * rate, rel=1e-8)
    assert campaign.largest_epsilon >= 2 * PARIS.radius_m * rate
    assert of_any_two(campaign).startswith(", any two values 7.")


@pytest.mark.parametrize(
    "campaign",
    [
        numbers(),
        numbers(least=0.0),
        numbers(most=0.0),
        numbers(readings=Readings(every=timedelta(days=7)), **ENDS),
        numbers(mechanism=PlanarLaplaceSpec(3)),
        small_campaign("c"),
    ],
    ids=["none", "least", "most", "reading", "space", "question"],
)
def test_without_a_range_and_from_a_reading_nothing_is_clamped_and_it_is_said(campaign):
    assert not campaign.clamped
    assert campaign.largest_epsilon == math.inf
    assert of_any_two(campaign) == ", no protection of values far apart"
    assert "does not hide which of two very different values you have." in " ".join(
        what_it_tells(campaign)
    )
    assert "clamped" not in unbiased_for(campaign)
    if campaign.columns == 1 and campaign.mechanisms == ():
        one, other = released(campaign, 1e9, 3), released(numbers(), 1e9, 3)
        assert (one == other) or campaign.readings is not None


def test_it_is_said_to_people_and_of_statistics():
    campaign = numbers(**ENDS)
    told = " ".join(what_it_tells(campaign))
    assert "2,981 times as likely for your household income as for any other" in told
    assert (
        "Less than -4,000 dollar counts as -4,000 dollar, and more than 60,000 as 60,000." in told
    )
    assert "counts as" not in " ".join(what_it_tells(campaign, campaign.privacy))  # of a reading
    (near, *_) = what_it_tells_of(campaign, 52_000)
    assert near.endswith("; values far apart may be told apart, with odds of up to 2,981 to 1.")
    assert not what_it_tells_of(campaign, 52_000, read=True)[0].endswith("2,981 to 1.")
    for later in (False, True):
        words = unbiased_for(campaign, later=later)
        assert words.endswith("of values clamped to [-4,000, 60,000] dollar.")


def test_means_are_those_of_clamped_values():
    """n = 2,000, α = 1e-6 (4.9 standard errors), seed 5; the control is the mean as it is."""
    campaign, source = numbers(**ENDS), SeededSource(5)
    held = np.random.default_rng(5).lognormal(10.5, 1.0, 2_000)
    sent = np.array([campaign.release(x, (0,), source)[0] for x in held.tolist()])
    noise = sent * campaign.point_mechanism.step - np.clip(held, -4_000, 60_000)
    error = 4.9 * float(np.std(noise)) / math.sqrt(len(held))
    assert abs(float(np.mean(noise))) < error
    assert abs(float(np.mean(sent * campaign.point_mechanism.step - held))) > error
