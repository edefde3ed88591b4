"""Test later questions about values compared by ratio: shares, quantiles and curves in dollars.

The oracle is what the same people say in the clear, their values blurred as the soft thresholds
blur them; and, of what reports hold, the same questions asked of logarithms by hand.
"""

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from geoveil.analyst import (
    ChosenBands,
    Contaminated,
    Density,
    DistributionFunction,
    GeometricMean,
    Gini,
    Histogram,
    LogNormalPrior,
    Means,
    MeanValue,
    PlanRequest,
    PublicPrior,
    Quantiles,
    ReportRows,
    Reports,
    ShareAbove,
    ShareBetween,
    TopShare,
    ask_changes,
    asked_of_points,
    pilot_prior,
    plan_for,
    reports_of,
    softness_of_points,
)
from geoveil.analyst.campaigns import campaign_for_points, expected_text
from geoveil.analyst.hard_question import Heap
from geoveil.campaign import ValueCampaign, unbiased_for, what_it_tells, what_to_ask
from geoveil.gp import GeoPrivacy, LogScale, ParameterError, Threshold, UnsupportedError

pytestmark = pytest.mark.usefixtures("few_draws")

Array = NDArray[np.float64]
OPENS = datetime(2026, 1, 1, tzinfo=UTC)
SCALE = LogScale(1_000.0)
PRIVACY = GeoPrivacy.per_factor(2.0, 2, "dollar")
WIDTH = 4.0
"""A factor: soft thresholds go from half to twice of what is asked."""


def campaign(**changes: Any) -> ValueCampaign:
    given: dict[str, Any] = {
        "attribute": "household income",
        "privacy": PRIVACY,
        "scale": SCALE,
        "campaign_id": "ratio",
        "title": "By ratio",
        "opens": OPENS,
        "closes": OPENS.replace(month=2),
    }
    return campaign_for_points(**(given | changes))


def people(n: int, rng: np.random.Generator) -> Array:
    """One in twenty has nothing; the others' logarithms are normal around 50,000 dollar."""
    incomes = rng.lognormal(math.log(50_000.0), 0.9, n)
    return np.where(rng.random(n) < 0.05, 0.0, incomes)


def reports(incomes: Array, rng: np.random.Generator, of: ValueCampaign | None = None) -> Reports:
    """Perturbed as devices do, but in doubles."""
    of = of or campaign()
    logs = np.log(np.maximum(incomes, SCALE.floor))
    noisy = logs + rng.laplace(0.0, 1 / of.privacy.rate, len(logs))
    column = np.rint(noisy / of.point_mechanism.step).astype(np.int64)
    return reports_of(ReportRows(np.zeros(len(logs), np.uint32), None, (column,)), of)


def means(of: ValueCampaign, *asked: Any, width: float | None = WIDTH) -> Means:
    return Means(asked_of_points(of, asked, softness_of_points(of, width)))


def soft_share(incomes: Array, at: float, factor: float = WIDTH) -> float:
    """By its formula: a smoothstep of the logarithm, from at/√factor to at·√factor."""
    logs = np.log(np.maximum(incomes, 1_000.0) / at)
    t = np.clip(logs / math.log(factor) + 0.5, 0.0, 1.0)
    return float((t * t * (3 - 2 * t)).mean())


@pytest.mark.deep(keep=0, rest=1)
@pytest.mark.parametrize("campaigns", [40, 2_000])
def test_intervals_of_shares_cover_what_people_hold_in_the_clear(campaigns):
    """2,000 campaigns of 1,000 people at 95 %: ± 4 standard errors, 1.95 %, are α = 6e-5.

    The truth is that of a million people. Control: of thresholds a tenth off, far fewer cover.
    """
    rng = np.random.default_rng(351)
    crowd, of = people(1_000_000, rng), campaign()
    asked = means(of, ShareAbove(40_000), ShareBetween(20_000, 90_000))
    above = soft_share(crowd, 40_000)
    truths = [above, soft_share(crowd, 20_000) - soft_share(crowd, 90_000)]
    hits, controls, values = np.zeros(2), 0, []
    for _ in range(campaigns):
        found = reports(rng.choice(crowd, 1_000), rng).ask(asked)
        low, high = found.intervals()
        hits += (low <= truths) & (truths <= high)
        controls += bool(low[0] <= soft_share(crowd, 50_000) <= high[0])
        values.append(found.values)
    slack = 4 * math.sqrt(0.95 * 0.05 / campaigns)
    assert (np.abs(hits / campaigns - 0.95) < slack).all()
    spread = np.std(values, axis=0) / math.sqrt(campaigns)
    assert (np.abs(np.mean(values, axis=0) - truths) < 4.9 * spread).all()
    assert controls / campaigns < 0.5


def test_statistics_are_those_of_logarithms_mapped_back():
    """The same reports as numbers of their own, asked of logarithms by hand."""
    rng = np.random.default_rng(353)
    ours = reports(people(3_000, rng), rng)
    plain = campaign(privacy=GeoPrivacy(2.0, PRIVACY.per, "nat"), scale=None)
    theirs = reports_of(next(iter(ours.blocks())), plain)
    found, by_hand = (r.ask(Quantiles(levels=(0.2, 0.5))) for r in (ours, theirs))
    for ends in ("values", "low", "high"):
        assert getattr(found, ends) == pytest.approx(np.exp(getattr(by_hand, ends)), rel=1e-12)
    assert found.standard_errors == pytest.approx(by_hand.standard_errors * found.values)
    doubt = Contaminated(Quantiles(levels=(0.5,)), 0.02)
    found, by_hand = ours.ask(doubt), theirs.ask(doubt)
    assert found.low == pytest.approx(np.exp(by_hand.low))
    honest = np.exp(by_hand.low + by_hand.moved[0]), np.exp(by_hand.high - by_hand.moved[1])
    assert found.moved == pytest.approx(np.stack([honest[0] - found.low, found.high - honest[1]]))
    curve = ours.ask(DistributionFunction(at=(20_000.0, 50_000.0, 80_000.0), width=WIDTH))
    logs = [math.log(t) for t in (20_000, 50_000, 80_000)]
    same = theirs.ask(DistributionFunction(at=logs, width=math.log(WIDTH)))
    assert curve.at == pytest.approx([20_000, 50_000, 80_000])
    assert curve.values == pytest.approx(same.values)
    parts = ours.ask(Histogram(edges=(20_000.0, 50_000.0)))
    assert parts.labels == ("up to 20,000", "20,000 to 50,000", "above 50,000")
    assert parts.values == pytest.approx(theirs.ask(Histogram(edges=logs[:2])).values)
    mean = theirs.ask(MeanValue())
    geometric = ours.ask(GeometricMean())
    assert geometric.value == pytest.approx(math.exp(mean.value))
    assert (geometric.ci_low, geometric.ci_high) == pytest.approx(
        (math.exp(mean.ci_low), math.exp(mean.ci_high))
    )
    assert geometric.label == "geometric mean"


@pytest.mark.deep(keep=0, rest=1)
def test_what_is_said_is_in_dollars_and_factors():
    rng = np.random.default_rng(354)
    taken, of = reports(people(2_000, rng), rng), campaign()
    assert "over a factor of 4: a quantile" in str(taken.ask(Quantiles(width=WIDTH)))
    curve = taken.ask(DistributionFunction(width=WIDTH, points=11))
    assert "over a factor of 4" in str(curve)
    assert "T/2 and at 2·T" in str(curve)
    assert curve.axis_names == ("value, dollar", "distribution function")
    assert "by up to a factor of 2 either way" in str(curve.quantiles([0.5]))
    assert np.diff(np.log(curve.at)) == pytest.approx(np.log(curve.at[1] / curve.at[0]))
    assert curve.plot().get_xscale() == "log"
    assert "a factor of" in str(taken.ask(Histogram(edges=(20_000.0, 90_000.0))))
    assert "whose exponential is the geometric mean" in unbiased_for(of)
    assert of.words_for("x") == "logarithm of household income"
    assert "a factor of 1.414, up or down," in expected_text(of, 1_000)
    assert "within a factor of 2.9 of yours 95.4 % of the time." in what_it_tells(of)[-1]
    assert [what_to_ask(of, value) for value in (0, 52_000, 1e9)] == ["", "", ""]
    assert "You wrote -1." in what_to_ask(of, -1)
    narrow = softness_of_points(of, 1.1).caution
    assert narrow is not None
    assert "a width of a factor of 1.1 is below PER/ε = a factor of 1.41421" in narrow


def test_hard_shares_come_from_bands_that_reports_choose():
    rng = np.random.default_rng(355)
    incomes, of = people(20_000, rng), campaign()
    bands = ChosenBands(of, [ShareAbove(50_000)], heaps=(Heap(52_000.0, 0.001),))
    (row,) = bands.answered(reports(incomes, rng).estimates(bands.questions)).estimates
    assert row.hard is not None
    assert row.band is not None
    assert row.hard.ci_low < float((incomes > 50_000).mean()) < row.hard.ci_high
    assert "density of people's logarithms" in row.band.words
    assert "hold exactly 52,000" in row.band.words
    with pytest.raises(ParameterError, match="slope_bound must be left out on a log scale"):
        ChosenBands(of, [ShareAbove(50_000)], slope_bound=1e-9)


def test_changes_are_of_campaigns_on_one_scale():
    rng = np.random.default_rng(356)
    first, second = (reports(people(2_000, rng) * times, rng) for times in (1.0, 2.0))
    of = [campaign(), campaign()]
    asking = [first.ask, second.ask]
    change = ask_changes(asking, GeometricMean(), of, people="different")
    (row,) = change.rows()
    assert row["ci_low"] > 0
    curves = ask_changes(asking, DistributionFunction(points=11), of, people="different")
    assert (curves.at > 100).all()
    other = [campaign(), campaign(scale=LogScale(2_000.0))]
    with pytest.raises(ParameterError, match=r"attribute\.scale must be"):
        ask_changes(asking, GeometricMean(), other, people="different")


@pytest.mark.parametrize("statistic", [MeanValue(), Gini(), TopShare(), Density()])
def test_what_has_no_meaning_for_ratios_is_refused_by_name(statistic):
    rng = np.random.default_rng(357)
    taken = reports(people(100, rng), rng)
    with pytest.raises(ParameterError, match="GeometricMean"):
        taken.ask(statistic)


def test_further_refusals():
    rng = np.random.default_rng(358)
    taken, of = reports(people(500, rng), rng), campaign()
    plain = campaign(privacy=GeoPrivacy(2.0, 8_000.0, "dollar"), scale=None)
    with pytest.raises(ParameterError, match="values are not compared by ratio"):
        reports_of(next(iter(taken.blocks())), plain).ask(GeometricMean())
    with pytest.raises(UnsupportedError, match="values that are compared by ratio have no density"):
        taken.ask(DistributionFunction(points=11)).density()
    for asked in (ShareAbove(1_000), ShareBetween(500, 2_000)):
        with pytest.raises(ParameterError, match="must be above 1,000"):
            means(of, asked)
    for wrong in (
        DistributionFunction(at=(0.0, 5.0)),
        Histogram(edges=(-1.0, 5.0)),
        Quantiles(width=1.0),
    ):
        with pytest.raises(ParameterError):
            taken.ask(wrong)
    with pytest.raises(ParameterError, match="1 on a log scale"):
        campaign(dimension=2)


@pytest.mark.deep(keep=0, rest=1)
def test_a_pilot_by_ratio_is_a_prior_in_dollars():
    """For plans by ratio and by difference; its median is that of the people."""
    rng = np.random.default_rng(359)
    incomes = people(20_000, rng)
    source = pilot_prior(reports(incomes, rng), heaps=(Heap(0.0, 0.05),))
    assert source.unit == "dollar"
    share = source.make(None).expectation(lambda x: x > 50_000, breaks=[50_000.0])
    assert share == pytest.approx(float((incomes > 50_000).mean()), abs=0.02)
    for scale, per in ((SCALE, 2.0), (None, 20_000.0)):
        request = PlanRequest.of(
            [ShareAbove(50_000)], epsilon=2.0, per=per, source=source, participants=50_000,
            scale=scale,
        )  # fmt: skip
        assert plan_for(request).report()["choice"]


def test_a_campaign_of_a_plan_for_points_has_the_scale():
    request = PlanRequest.of(
        [ShareAbove(50_000)], epsilon=2.0, per=2, participants=50_000, allocation="points",
        source=PublicPrior.of_numbers(LogNormalPrior(10.8, 0.9), "dollar"), scale=SCALE,
    )  # fmt: skip
    made = plan_for(request).campaign(
        campaign_id="planned", title="Planned", opens=OPENS, closes=OPENS.replace(month=2)
    )
    assert isinstance(made, ValueCampaign)
    assert (made.attribute.scale, made.privacy) == (SCALE, PRIVACY)
    (asked,) = asked_of_points(made, [ShareAbove(50_000)], softness_of_points(made, WIDTH))
    assert isinstance(asked.query, Threshold)
    assert (asked.query.at, asked.query.width) == (SCALE.coordinate(50_000), math.log(4))
