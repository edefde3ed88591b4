"""Test values compared by ratio on a device: mapping, answers, refusals and charges."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

from geoveil.campaign import (
    Attribute,
    PlanarLaplaceSpec,
    SmoothSpec,
    decode,
    encode,
    seal,
    unbiased_for,
    what_to_ask,
)
from geoveil.campaign.consent import likelihood
from geoveil.client import (
    BudgetExceeded,
    Epoch,
    Limit,
    Number,
    Policy,
    PolicyRefused,
    PrivateValueError,
    ReportBuilder,
)
from geoveil.gp import (
    GaussianKernel,
    GeoPrivacy,
    LogScale,
    ParameterError,
    Query,
    Range,
    Threshold,
)

Make = Callable[..., Any]
NAME = "household income"
HALF = GeoPrivacy.per_factor(1.0, 2, "dollar")
LINEAR = GeoPrivacy(1.0, 8_000.0, "dollar")
INCOME = Attribute(name=NAME, unit=HALF.unit, scale=LogScale(1_000.0))
ABOVE = Threshold(math.log(100_000), 2.0, "smoothstep")


@pytest.fixture
def ratio(make_campaign, collector):
    """Make campaigns about ratios that the collector has."""

    def make(campaign_id: str, query: Query = ABOVE, **more: Any) -> Any:
        asked: dict[str, Any] = {"attribute": INCOME, "privacy": HALF, "queries": (query,)}
        made = make_campaign(campaign_id, **(asked | more))
        collector.add(made)
        return made

    return make


def test_values_below_the_floor_are_not_told_apart(ratio):
    point = ratio("ratio").attribute.point
    assert {point(value, 1) for value in (1_000, 999.9, 0, -0.0, -7e9)} == {math.log(1_000)}
    assert point(np.float64(2_000), 1) == point([2_000], 1) == math.log(2_000)
    for wrong in (math.nan, math.inf, "7", (1, 2)):
        with pytest.raises(PrivateValueError, match="a finite number, in dollar"):
            point(wrong, 1)


@pytest.mark.parametrize("factor", [2.0, 1.5], ids=["as-stated", "control"])
def test_reports_are_as_alike_as_the_ratio_says(ratio, factor):
    """The largest log-ratio of probabilities of any report, atoms and density, at random pairs."""
    campaign = ratio("ratio", privacy=GeoPrivacy.per_factor(1.0, factor, "dollar"))
    (mechanism,) = campaign.mechanisms
    low, high = mechanism.range
    reports = np.concatenate([[0.0, 1.0], np.linspace(low, high, 401)[1:-1]])
    draw, worst = Random(36), 0.0
    for _ in range(150):
        value, times = math.exp(draw.uniform(4, 16)), math.exp(draw.uniform(0.01, 2))
        a, b = (np.array([campaign.attribute.point(v, 1)]) for v in (value, value * times))
        apart = np.abs(mechanism.log_density(reports, a) - mechanism.log_density(reports, b))
        worst = max(worst, float(np.nanmax(apart)) / math.log2(times))
    assert (worst <= 1 + 1e-9) is (factor == 2.0)
    assert worst > 0.99


def test_limits_of_ratios_and_of_differences_are_apart(make_either, ratio):
    ratio("ratio")
    for most in (GeoPrivacy(1e9, 8_000.0, "dollar"), GeoPrivacy.per_factor(1.0, 4, "dollar")):
        with pytest.raises(PolicyRefused, match="privacy loss"):
            make_either(policy=Policy({NAME: most})).fetch("ratio")
    for most in (HALF, GeoPrivacy.per_factor(2.0, 4, "dollar")):
        client = make_either(policy=Policy({NAME: most}), fetched=("ratio",))
        assert client.contribute("ratio", 50_000).privacy == HALF


def test_no_limit_of_ratios_admits_differences(make_either: Make, make_campaign: Make,
                                               collector: Any) -> None:  # fmt: skip
    collector.add(make_campaign("linear"))
    most = GeoPrivacy.per_factor(1e9, 2, "dollar")
    with pytest.raises(PolicyRefused, match="privacy loss"):
        make_either(policy=Policy({NAME: most})).fetch("linear")
    make_either(policy=Policy({NAME: LINEAR})).fetch("linear")


def test_the_ledger_keeps_them_apart(make_client, ratio, make_campaign, collector, tmp_path):
    """By factor 2 and by factor 4 they add up; a difference costs nothing of them."""
    ratio("half")
    ratio("quarter", privacy=GeoPrivacy.per_factor(2.0, 4, "dollar"))
    collector.add(make_campaign("linear"))
    lifetime = GeoPrivacy.per_factor(1.0, 2, "dollar")
    with make_client(state_dir=tmp_path, policy=Policy({NAME: LINEAR})) as client:
        client.fetch("linear")
        client.contribute("linear", 97_000)
    both = replace(lifetime, epsilon=2.0)
    policy = Policy({NAME: Limit(campaign=HALF, lifetime=both)})
    with make_client(state_dir=tmp_path, policy=policy) as client:
        for name in ("half", "quarter"):
            client.fetch(name)
            client.contribute(name, 97_000)
        (budget,) = client.budgets()
        assert (budget.spent, budget.limit) == (2.0, both)
        ratio("third")
        client.fetch("third")
        with pytest.raises(BudgetExceeded):
            client.contribute("third", 97_000)


def test_one_reading_serves_campaigns_of_the_same_floor(make_either, ratio):
    other = replace(INCOME, scale=LogScale(2_000.0))
    for name, attribute in (("a", INCOME), ("b", INCOME), ("c", other)):
        ratio(name, attribute=attribute)
    epoch = Epoch(privacy=HALF, length=timedelta(days=400))
    policy = Policy({NAME: Limit(campaign=HALF, lifetime=replace(HALF, epsilon=9.0), epoch=epoch)})
    client = make_either(policy=policy, fetched=("a", "b", "c"))
    spent = []
    for name in ("a", "b", "c"):
        client.contribute(name, 97_000)
        spent.append(client.budgets()[0].spent)
    assert spent == [1.0, 1.0, 2.0]


def test_what_has_no_log_scale_is_refused_by_name(make_campaign):
    given: dict[str, Any] = {"attribute": INCOME, "privacy": HALF}
    with pytest.raises(ParameterError, match=r"queries\[0\] must be a Threshold or a Range on a"):
        make_campaign(queries=(GaussianKernel((11.0,), 1.0),), **given)
    with pytest.raises(ParameterError, match="must be 1 on a log scale"):
        make_campaign(queries=(), mechanism=PlanarLaplaceSpec(2), **given)
    laplace = SmoothSpec(noise="laplace", calibration="paper")
    slack = replace(HALF, delta=1e-6, reach=2.0)
    with pytest.raises(ParameterError, match="infinite on a log scale"):
        make_campaign(queries=(ABOVE,), mechanism=laplace, attribute=INCOME, privacy=slack)
    for wrong in ({"unit": "dollar", "scale": LogScale(1.0)}, {"unit": "log dollar"}):
        with pytest.raises(ParameterError, match=r"attribute\.unit must be 'log' and the unit"):
            Attribute(name=NAME, **wrong)
    with pytest.raises(ParameterError, match=r"attribute\.scale must be a LogScale"):
        Attribute(name=NAME, unit="log dollar", scale=1_000.0)  # type: ignore[arg-type]


def test_the_scale_is_signed_and_said(ratio):
    campaign = ratio("ratio")
    assert decode(encode(campaign)) == campaign
    other = ratio("ratio", attribute=replace(INCOME, scale=LogScale(999.0)))
    assert encode(other) != encode(campaign)
    assert "values below 1,000 dollar counted as that" in unbiased_for(campaign)


def test_a_slip_is_asked_about_in_the_unit_of_values(ratio):
    campaign = ratio("ratio")
    assert [what_to_ask(campaign, value) for value in (0, 50, 52_000, 999_999)] == ["", "", "", ""]
    for slip, shown in ((-5, "-5"), (1_000_001, "1,000,001")):
        asked = f"You wrote {shown}. Is that your {NAME}, in dollar?"
        assert what_to_ask(campaign, slip) == asked


def test_people_are_told_a_factor():
    said = likelihood(HALF, "report", "your income")
    assert said.endswith("2.72 times as likely for your income as for one half or twice as much.")
    third = GeoPrivacy.per_factor(1.0, Fraction(3, 2), "dollar")
    assert "one a factor of 1.5 larger or smaller." in likelihood(third, "report", "yours")
    assert str(replace(HALF, delta=0.1, reach=2.0)).endswith("up to factor 7.38905 in dollar")


def test_ranges_are_on_the_scale_too(make_either, ratio):
    between = Range(math.log(20_000), math.log(90_000), 0.5, "smoothstep")
    wide = GeoPrivacy.per_factor(500.0, 2, "dollar")  # so that noise hardly moves a report
    ratio("range", between, privacy=wide, step_exponent=None)
    client = make_either(policy=Policy({NAME: wide}), fetched=("range",))
    assert client.contribute("range", 50_000).perturbed == (1.0,)


def test_ranges_are_of_values_and_not_of_their_logarithms(ratio):
    """The app's refuses, the campaign's asks; 11.5 and not 100,000 is the coordinate of 100,000."""
    stated = replace(INCOME, least=1_000, most=10_000_000)
    campaign = ratio("ranged", attribute=stated)
    limit = Limit(campaign=HALF, value=Number(0, 10_000_000))
    builder = ReportBuilder(policy=Policy({NAME: limit}))
    accepted = builder.accept("ranged", seal(encode(campaign)))
    for value in (0, 52_000, 10_000_000):
        builder.prepare(accepted, value)
    for value in (-5, 10_000_001):
        with pytest.raises(PrivateValueError, match=r"at most 10,000,000, in dollar"):
            builder.prepare(accepted, value)
    assert what_to_ask(campaign, 52_000) == ""
    assert what_to_ask(campaign, 999) == (
        "You wrote 999. Is that your household income, in dollar? The survey expects at least 1,000"
        " and at most 10,000,000."
    )
