"""Quantiles, means, Gini coefficients and top shares from reports at hand."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, norm

from geoveil.analyst import ReportRows, reports_of
from geoveil.analyst.statistics import inequality, quantiles
from geoveil.analyst.statistics.distribution import Density, DistributionFunction
from geoveil.analyst.statistics.inequality import Gini, MeanValue, TopShare
from geoveil.analyst.statistics.partition import Histogram
from geoveil.analyst.statistics.quantiles import Quantiles
from geoveil.analyst.statistics.statistic import driven, shares_above
from geoveil.campaign import PointQuestion
from geoveil.gp import GeoPrivacy, ParameterError, Threshold

from .populations import Array, campaign, campaigns, incomes, joint_of, poor, reports

pytestmark = pytest.mark.usefixtures("few_draws")


def gini(x: Array) -> float:
    """Return half the mean difference of two people over the mean, by its definition."""
    parts = [np.abs(np.subtract.outer(part, x)).mean() for part in np.split(x, 100)]
    return float(np.mean(parts) / 2 / x.mean())


def blurred(x: Array, width: float) -> Array:
    """Return values less what a smoothstep's slope draws: Beta(2, 2) over the width."""
    return np.asarray(x - width * (np.random.default_rng(5).beta(2, 2, len(x)) - 0.5))


GRID = np.concatenate([np.arange(-48_000.0, 300_000.0, 5_000.0), np.geomspace(3e5, 4e6, 20)])
"""Thresholds from below everybody's income to above."""


def near(low: float, high: float) -> Any:
    """Return what asks only a few thresholds where many are asked to find out where people are."""

    def few(campaign: Any, width: float) -> Any:
        return (yield from shares_above(GRID[(low < GRID) & (high > GRID)], width))

    return few


def asked(statistic: Any, points: Array) -> Any:
    """Return a statistic of points, its questions answered by numpy's covariance."""
    return driven(
        statistic.steps(campaign(), 0.95),
        lambda questions: joint_of([question.query for question in questions], points),
    )


@pytest.mark.deep
@pytest.mark.parametrize("count", [5, pytest.param(400, marks=pytest.mark.deep)])
def test_intervals_of_quantiles_cover(count, monkeypatch):
    """400 campaigns at 95 %: standard error 1.1 %; 5: at least 3 (chance: 1 in 300).

    The spread is known to 3.5 %; errors may be said too large by more than too small: where few
    people are, as at the first level, intervals are longer by what the law of reports permits.

    Where quantiles are is found out by the few; the many are asked every 5,000 dollars.
    """
    levels = (0.1, 0.5, 0.9)
    right = np.quantile(np.concatenate([blurred(incomes(), 24_000.0)] * 20), levels)
    if count > 5:
        monkeypatch.setattr(quantiles, "octaves", near(-5e4, 3e5))
        monkeypatch.setattr(quantiles, "_ROUNDS", 0)
        monkeypatch.setattr(quantiles, "_CLOSE", 0)
    found, errors = [], []
    for points in campaigns(incomes(), 2_000, count):
        wanted = Quantiles(levels=levels)
        made = asked(wanted, points) if count > 5 else reports(points).ask(wanted)
        found.append((made.low <= right) & (right <= made.high))
        errors.append([*made.values, *made.standard_errors])
    if count < 100:
        assert (np.sum(found, axis=0) >= 3).all()
    else:
        covered = np.mean(found, axis=0)
        assert (covered > 0.925).all()
        assert (covered < 0.98).all()
        spread = np.std(errors, axis=0)[:3]
        ratio = np.mean(errors, axis=0)[3:] / spread
        assert (ratio > 0.92).all()
        assert (ratio < 1.15).all()


@pytest.mark.deep
@pytest.mark.parametrize("count", [1, pytest.param(120, marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    ("statistic", "value"),
    [
        (MeanValue(), np.mean),
        pytest.param(Gini(), gini, marks=pytest.mark.deep),
        (TopShare(share=0.2), lambda x: np.sort(x)[-len(x) // 5 :].sum() / x.sum()),
    ],
    ids=["mean", "Gini", "top share"],
)
def test_moments_are_near_the_truth_with_the_error_that_is_stated(
    statistic, value, count, monkeypatch
):
    """Blur moves the top share by less than 0.002. Errors of 120: within 20 % (3 of its own).

    Where people are is found out by one; the many are asked at fixed thresholds.
    """
    right = value(incomes())
    if count > 1:
        monkeypatch.setattr(inequality, "everywhere", near(-math.inf, math.inf))
    made = [
        asked(statistic, points) if count > 1 else reports(points).ask(statistic)
        for points in campaigns(incomes(), 2_000, count)
    ]
    values, error = [one.value for one in made], np.mean([one.standard_error for one in made])
    assert np.mean(values) == pytest.approx(right, abs=4 * error / np.sqrt(count) + 2e-3)
    if count > 100:
        assert np.std(values) == pytest.approx(error, rel=0.2)
        covered = [one.ci_low <= right <= one.ci_high for one in made]
        assert np.mean(covered) > 0.89


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(("statistic", "least"), [(Gini(), 0.0), (TopShare(share=0.3), 0.3)])
def test_too_few_for_the_delta_method_are_told_so(statistic, least):
    """Nobody's Gini coefficient is below 0; the top 30 % hold 30 % at least."""
    at_all_alike = np.full(60, 60_000.0)
    (points,) = campaigns(at_all_alike, 60, 1)
    made = reports(points).ask(statistic)
    assert made.ci_low >= least if least else made.ci_low == 0.0
    assert made.ci_high > least
    assert any("Too few answered" in note for note in made.notes)
    (points,) = campaigns(incomes(), 200, 1)
    assert not any("Too few" in note for note in reports(points).ask(statistic).notes)


@pytest.mark.deep
def test_the_mean_is_that_of_the_points():
    """The noise has mean 0, and the blur too: they are the same number, and the same error."""
    (points,) = campaigns(incomes(), 20_000, 1)
    made = reports(points).ask(MeanValue())
    assert made.value == pytest.approx(points.mean(), rel=1e-3)
    assert made.standard_error == pytest.approx(points.std() / np.sqrt(20_000), rel=0.01)
    total = made.scaled(1e6, "total")
    assert total.value == pytest.approx(1e6 * made.value)
    assert total.ci_high == pytest.approx(1e6 * made.ci_high)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("middle", "spread", "per"), [(-40.0, 3.0, 0.5), (1985.0, 12.0, 1.0), (3e9, 1e8, 1e6)]
)
def test_values_are_found_wherever_they_lie(middle, spread, per):
    """Years of birth and temperatures below 0, without a word on where they are."""
    of = campaign(GeoPrivacy(1.0, per=per, unit="unit"))
    rng = np.random.default_rng(1)
    points = rng.normal(middle, spread, 5_000) + rng.laplace(0, per, 5_000)
    made = reports(points, of).ask(Quantiles(levels=(0.05, 0.5)))
    right = [middle - 1.645 * spread, middle]
    assert np.abs(made.values - right) == pytest.approx([0, 0], abs=0.25 * spread)
    assert (made.high - made.low).max() < 0.3 * spread
    curve = reports(points, of).ask(DistributionFunction())
    assert middle - 6 * spread < curve.at[0] < middle - 2 * spread
    assert middle + 2 * spread < curve.at[-1] < middle + 6 * spread
    assert reports(points, of).ask(MeanValue()).value == pytest.approx(middle, abs=4 * spread / 70)


def test_the_interquartile_range_knows_how_its_ends_go_together():
    (points,) = campaigns(incomes(), 5_000, 1)
    made = reports(points).ask(Quantiles(levels=(0.25, 0.5, 0.75)))
    found = made.interquartile_range
    assert found.label == "interquartile range"
    assert found.value == pytest.approx(made.values[2] - made.values[0])
    a, b, rho = made.standard_errors[0], made.standard_errors[2], made.correlations[0, 2]
    assert rho > 0.1
    assert found.standard_error == pytest.approx(np.sqrt(a * a + b * b - 2 * a * b * rho))
    length = found.ci_high - found.ci_low
    assert length == pytest.approx(2 * 1.96 * found.standard_error, rel=0.05)
    with pytest.raises(ParameterError, match="level"):
        made.difference(0.1, 0.5)


def test_the_difference_of_quantiles_holds_across_a_gap():
    """24.9 % of all people hold 0, the others 1 million, so both quartiles are near a million.

    In a sample of 2,000 people 25.4 % hold 0, half a standard error more, so its first quartile is
    near 0. The law Beta(2, 2) gives the true difference. The control is the normal interval, which
    is half as long as the gap.
    """
    rng = np.random.default_rng(12)
    points = np.where(np.arange(2_000) < 508, 0.0, 1e6) + rng.laplace(0, 8_000.0, 2_000)
    found = reports(points).ask(Quantiles(levels=(0.25, 0.75))).interquartile_range
    places = beta(2, 2).ppf((np.array([0.25, 0.75]) - 0.249) / 0.751)
    right = 24_000.0 * (places[1] - places[0])
    assert found.ci_low < right < found.ci_high < 1.1e6
    assert found.value - 1.96 * found.standard_error > right


def test_the_difference_of_quantiles_holds_across_two_gaps():
    """24.9 % of people hold 0 and 24.9 % hold 2 million; the others, and both quartiles, 1 million.

    In a sample of 2,000 people with 25.4 % at either end, half a standard error more, they are 2
    million apart. Control: margins combined as those of normal errors.
    """
    rng = np.random.default_rng(12)
    points = np.repeat([0.0, 1e6, 2e6], [508, 984, 508]) + rng.laplace(0, 8_000.0, 2_000)
    made = reports(points).ask(Quantiles(levels=(0.25, 0.75)))
    found, rho = made.interquartile_range, made.correlations[0, 1]
    places = beta(2, 2).ppf((np.array([0.25, 0.75]) - 0.249) / 0.502)
    right = 24_000.0 * (places[1] - places[0])
    assert found.ci_low < right < 1.9e6 < found.value < found.ci_high < 2.1e6
    one, other = made.high[0] - made.values[0], made.values[1] - made.low[1]
    assert found.value - math.sqrt(one**2 + other**2 - 2 * rho * one * other) > right + 5e5


def test_joint_margins_of_a_quantile_reach_across_a_gap():
    """544 of 1,000 people hold 0, which is 2.8 errors more than half; the others hold 400,000.

    At 95 % the median is held near 0, at the confidence of 3.2 errors not. Control: margins that
    grow like those of a normal error.
    """
    rng = np.random.default_rng(15)
    points = np.repeat([0.0, 4e5], [544, 456]) + rng.laplace(0, 8_000.0, 1_000)
    made = reports(points).ask(Quantiles(levels=(0.5,)))
    surer = 2 * norm.cdf(3.2) - 1
    end = made.values[0] + made.margins_at(surer)[1, 0]
    question = PointQuestion("above", Threshold(end, made.width, "smoothstep"))
    held = replace(reports(points).ask([question]), confidence=surer).intervals()[1][0] <= 0.5
    assert held
    assert made.high[0] < 1e5 < 3.9e5 < end < 4.5e5
    assert made.margins_at(0.95)[1] == pytest.approx(made.high - made.values)


@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.0, 0.5])
def test_two_errors_go_as_far_as_their_ellipse(rho):
    """The oracle tries all pairs on a mesh, for proportional, bent and stepped margins."""
    x, y = np.meshgrid(*[np.linspace(0.0, 2.0, 1_001)] * 2)
    inside = x * x + y * y - 2 * rho * x * y <= 4 * (1 - rho * rho)
    bent = (lambda z: 3.0 * z, lambda z: z**1.5, lambda z: z + 10.0 * (z > 0.2))
    for one, other in product(bent, bent):
        right = np.max((one(x) + other(y))[inside])
        found = quantiles.farthest_of_two(
            *(lambda c, of=of: of(norm.ppf((1 + c) / 2)) for of in (one, other)),
            2 * norm.cdf(2) - 1,
            rho,
        )
        joint = math.sqrt(one(2) ** 2 + other(2) ** 2 + 2 * rho * one(2) * other(2))
        assert found == pytest.approx(max(right, joint, one(2), other(2)), rel=0.01)


def test_quantiles_end_outside_where_thresholds_are_still_far_apart(monkeypatch):
    """Rounds may end before thresholds of many levels are close. Control: linear ends."""
    rng, levels = np.random.default_rng(14), np.array([0.2, 0.4, 0.6])
    points = rng.integers(0, 20, 1_000) * 1e8 + rng.laplace(0, 8_000.0, 1_000)
    monkeypatch.setattr(quantiles, "_ROUNDS", 1)

    def held() -> tuple[Any, Any]:
        made = reports(points).ask(Quantiles(levels=levels.tolist()))
        ends = np.concatenate([made.low, made.high]).tolist()
        asked = [PointQuestion(f"{t}", Threshold(t, made.width, "smoothstep")) for t in ends]
        low, high = reports(points).ask(asked).intervals()
        return 1 - low[:3] <= levels, 1 - high[3:] >= levels

    assert np.all(held())
    monkeypatch.setattr(quantiles, "_outside", lambda at, low, high: (low, high))
    assert not np.all(held())


@pytest.mark.parametrize(
    ("people", "far", "within"), [((100, 100), 1e7, 0.01), ((994, 1_006), 4e5, 0.002)]
)
def test_ends_far_apart_are_where_the_intervals_of_shares_end(people, far, within):
    """Half hold nothing and half 10 million, so any value between is a median of all people.

    A noise scale of 8,000 is a thousandth of that. Control: a scale farther, no share is a half.
    """
    rng = np.random.default_rng(11)
    points = np.repeat([0.0, far], people) + rng.laplace(0, 8_000.0, sum(people))
    made = reports(points).ask(Quantiles(levels=(0.5,)))
    ends = np.array([made.low[0], made.high[0]])
    asked = [PointQuestion(f"{t}", Threshold(t, made.width, "smoothstep")) for t in ends]
    low, high = reports(points).ask(asked).intervals()
    assert [low[0], high[1]] == pytest.approx([0.5, 0.5], abs=within)
    assert made.any_crowd[0] <= 0
    assert made.any_crowd[1] >= far
    beyond = zip(ends, (-8_000.0, 8_000.0), strict=True)
    farther = [
        PointQuestion(f"{t}", Threshold(t + by, made.width, "smoothstep")) for t, by in beyond
    ]
    low, high = reports(points).ask(farther).intervals()
    assert low[0] > 0.5
    assert high[1] < 0.5


def test_a_quantile_that_reports_do_not_bound_says_so():
    (points,) = campaigns(incomes(), 20, 1)
    made = reports(points).ask(Quantiles(levels=(0.5, 0.99)))
    assert np.isfinite([made.low[0], made.high[0]]).all()
    assert made.high[1] == np.inf
    assert 50_000 < made.low[1] < 300_000
    assert made.to_dict()["rows"][1]["ci_high"] is None


@pytest.mark.deep(keep=0)
def test_many_quantiles_share_their_thresholds():
    """Those of several that are the same but for rounding are asked for once."""
    (points,) = campaigns(incomes(), 2_000, 1)
    levels = np.linspace(0.05, 0.95, 19)
    made = reports(points).ask(Quantiles(levels=levels.tolist()))
    right = np.quantile(blurred(incomes(), 24_000.0), levels)
    assert (np.diff(made.values) > 0).all()
    assert (np.abs(made.values - right) < 4 * made.standard_errors).all()
    (alone,) = reports(points).ask(Quantiles(levels=(levels[9],))).values
    assert made.values[9] == pytest.approx(alone, abs=0.1 * made.standard_errors[9])


def test_a_curve_is_asked_where_it_is_wanted():
    (points,) = campaigns(incomes(), 1_000, 1)
    asked = reports(points).ask(DistributionFunction(at=[50_000.0, 100_000.0], width=20_000.0))
    assert asked.at.tolist() == [50_000.0, 100_000.0]
    assert asked.width == 20_000.0
    share = PointQuestion("share", Threshold(50_000.0, 20_000.0, "smoothstep"))
    assert asked.values[0] == pytest.approx(1 - reports(points).ask([share]).values[0])
    even = reports(points).ask(DistributionFunction(low=0.0, high=200_000.0, points=5))
    assert even.at.tolist() == [0.0, 50_000.0, 100_000.0, 150_000.0, 200_000.0]
    density = reports(points).ask(Density(of=DistributionFunction(at=[0.0, 5e4, 1e5])))
    assert density.at.tolist() == [25_000.0, 75_000.0]


def test_a_histogram_is_of_everybody():
    (points,) = campaigns(incomes(), 5_000, 1)
    made = reports(points).ask(Histogram(edges=(40_000.0, 60_000.0, 120_000.0)))
    assert made.labels == ("up to 40,000", "40,000 to 60,000", "60,000 to 120,000", "above 120,000")
    assert made.values.sum() == pytest.approx(1)
    right = np.histogram(incomes(), [-np.inf, 4e4, 6e4, 1.2e5, np.inf])[0] / 20_000
    assert made.values == pytest.approx(right, abs=0.04)
    assert "soft over 20,000" in made.notes[-1]  # as wide as the narrowest part lets it be
    nobody = reports(next(campaigns(poor(), 100, 1))).ask(Histogram(edges=(2e5, 3e5)))
    assert nobody.high[2] > 0.01


@pytest.mark.parametrize(
    "made",
    [
        lambda: DistributionFunction(at=[2.0, 1.0]),
        lambda: DistributionFunction(at=[]),
        lambda: DistributionFunction(points=1),
        lambda: DistributionFunction(points=901),
        lambda: DistributionFunction(low=1.0),
        lambda: DistributionFunction(low=1.0, high=0.0),
        lambda: Quantiles(levels=(0.5, 0.2)),
        lambda: Quantiles(levels=np.linspace(0.1, 0.9, 21)),
        lambda: TopShare(share=0.0),
        lambda: Histogram(edges=()),
        lambda: Histogram(edges=(1.0, 1.0)),
        lambda: Histogram(edges=(1.0,), width=0.0),
    ],
)
def test_what_is_no_statistic_is_refused(made):
    with pytest.raises(ParameterError):
        made()


def test_places_have_no_quantiles():
    plane = campaign(dimension=2)
    rows = ReportRows(np.zeros(2, np.uint32), None, (np.arange(2), np.arange(2)))
    for statistic in (Quantiles(), Histogram(edges=(1.0,)), Gini(), DistributionFunction()):
        with pytest.raises(ParameterError, match="value campaign of numbers"):
            reports_of(rows, plane).ask(statistic)
    with pytest.raises(ParameterError, match="width"):
        reports(np.zeros(3)).ask(Quantiles(width=-1.0))


def uneven(spread: float) -> Array:
    """Return people next to 60,000, evenly within a spread either side."""
    return 60_000.0 + np.linspace(-spread, spread, 2_000)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("spread", [0.0, 4_000.0, 12_000.0, 40_000.0])
@pytest.mark.parametrize(
    ("statistic", "true"),
    [(Gini(), gini), (TopShare(share=0.2), lambda x: np.sort(x)[-len(x) // 5 :].sum() / x.sum())],
)
def test_inequality_of_crowds_narrower_than_the_noise_is_held(statistic, true, spread):
    """10 campaigns of 10,000 people: at least 6 hold (of 95 %, α = 1e-4); none is out of range.

    The control, the error by itself, holds fewer of equal people: the blur is not theirs.
    """
    people, least = uneven(spread), 0.2 if isinstance(statistic, TopShare) else 0.0
    right = true(people)
    held = by_error = 0
    for points in campaigns(people, 10_000, 10):
        made = reports(points).ask(statistic)
        assert least <= made.ci_low <= made.value <= made.ci_high
        held += made.ci_low - 1e-9 <= right <= made.ci_high + 1e-9
        by_error += abs(made.value - right) <= 1.96 * made.standard_error
    assert held >= 6
    assert spread or by_error < 6


@pytest.mark.parametrize("within", [None, (0.0, 1e6)])
def test_a_gini_coefficient_of_equal_people_may_be_0(within: Any, monkeypatch: Any) -> None:
    """500 people hold 40,000. Control: the estimated density is taken for the true one."""
    points = 40_000.0 + np.random.default_rng(12).laplace(0, 8_000.0, 500)
    assert reports(points).ask(Gini(within=within)).ci_low == 0
    monkeypatch.setattr(inequality, "_gradient_of_square", lambda found: 0 * found.at)
    assert reports(points).ask(Gini(within=within)).ci_low > 0


def test_the_squared_density_moves_with_shares_by_its_gradient():
    (of,) = (joint_of([Threshold(t, 24_000.0, "smoothstep") for t in GRID], incomes()[:500]),)
    found = inequality._Found(GRID, of, 24_000.0, None, "")
    moved = np.random.default_rng(1).normal(0, 1e-6, len(GRID))
    after = replace(found, above=replace(of, values=of.values + moved))
    by = inequality._squared_density(after) - inequality._squared_density(found)
    assert by == pytest.approx(inequality._gradient_of_square(found) @ moved, rel=1e-3)
