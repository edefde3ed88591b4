"""Test predictions against draws: bias, noise, and sampling."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import foldnorm

from geoveil.analyst.planner import HardThreshold, Prediction, SamplePrior
from geoveil.analyst.planner.prediction import mean_reciprocal, predicted
from geoveil.analyst.planner.problem import PlanningProblem
from geoveil.gp import DebiasedLaplace, GeoPrivacy, Threshold
from geoveil.gp.intervals import interval_of_mean
from geoveil.gp.limits import UNLIMITED
from geoveil.simulation.comparison import RadialLaplace

UNIT = GeoPrivacy(1.0, per=1.0)
PEOPLE = np.random.default_rng(3).normal(size=60).round(1)


def problem():
    return PlanningProblem.of(HardThreshold(0.2), UNIT, SamplePrior(PEOPLE))


@pytest.mark.parametrize("kind", [DebiasedLaplace, RadialLaplace])
def test_bias_and_noise_against_draws(kind):
    """n = 60 people, 40,000 repetitions: the standard error of a mean square is below 1 %."""
    reports = kind(Threshold(0.9, 2.0, "smoothstep"), UNIT)
    found = problem().predict(reports)
    rng = np.random.default_rng(11)
    drawn = np.asarray(reports.simulate(np.tile(PEOPLE, (40_000, 1)), rng))
    errors = drawn.mean(axis=1) - (PEOPLE > 0.2).mean()
    measured = float(np.mean(errors**2))
    assert found.mean_squared_error(60) == pytest.approx(measured, rel=0.04)
    assert found.bias == pytest.approx(errors.mean(), abs=6 * errors.std() / 200)
    assert found.noise / 60 < 0.9 * measured  # control: without the bias it would not fit


def test_a_partition_against_draws():
    """Each of 60 people answers with probability 1/3; 40,000 repetitions."""
    reports = DebiasedLaplace(Threshold(0.5, 2.0, "smoothstep"), UNIT)
    found = problem().predict(reports)
    rng = np.random.default_rng(12)
    drawn = np.asarray(reports.simulate(np.tile(PEOPLE, (40_000, 1)), rng))
    asked = rng.random(drawn.shape) < 1 / 3
    estimates = (drawn * asked).sum(axis=1) / np.maximum(asked.sum(axis=1), 1)
    measured = float(np.mean((estimates - (PEOPLE > 0.2).mean()) ** 2))
    exact = replace(found, prior_size=math.inf)
    assert exact.partitioned(60, 3) == pytest.approx(measured, rel=0.05)
    assert found.mean_squared_error(20) < 0.95 * measured  # control: who is asked counts


def test_what_a_prior_does_not_know_of_the_bias_against_surveys():
    """The bias in 4,000 surveys of 60 of these people varies by Var[m − truth]/60."""
    query = Threshold(0.2, 2.0, "smoothstep")
    found = problem().predict(DebiasedLaplace(query, UNIT))
    rng = np.random.default_rng(13)
    drawn = rng.choice(PEOPLE, size=(4_000, 60))
    biases = (query.value(drawn) - (drawn > 0.2)).mean(axis=1)
    assert found.prior_size == 60
    assert found.bias_uncertainty == pytest.approx(biases.var(), rel=0.1)
    assert found.expected_error(100) == pytest.approx(
        found.mean_squared_error(100) + found.bias_uncertainty
    )


@pytest.mark.parametrize(
    ("n", "share"),
    [
        (1, Fraction(1)),
        (60, Fraction(1, 3)),
        (900, Fraction(3, 5)),  # by its series
    ],
)
def test_the_mean_reciprocal_is_the_sum_over_the_law(n, share):
    law = [math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(1, n + 1)]
    expected = float(sum(p / k for k, p in enumerate(law, start=1)) / sum(law))
    rel = 1e-7 if n * share > 500 else 1e-12
    assert mean_reciprocal(n, float(share)) == pytest.approx(expected, rel=rel)


def test_shares_and_margins():
    found = Prediction(bias=0.03, noise=16.0, bias_variance=0.0, varied=1.0, prior_size=math.inf)
    assert found.expected_error(10_000) == pytest.approx(0.0025)
    assert found.share_of_bias(10_000) == pytest.approx(0.36 * 0.0025 / 0.0026)
    reached = foldnorm(0.03 / math.sqrt(0.0017)).ppf(0.95) * math.sqrt(0.0017)
    assert found.margin(10_000) == pytest.approx(reached, rel=1e-9)
    targets = found.targets(10_000)
    assert targets.participants == pytest.approx(1.96 * 0.04, rel=1e-4)
    assert targets.population == pytest.approx(1.96 * math.sqrt(0.0017), rel=1e-4)
    assert targets.hard_question == found.margin(10_000)
    assert targets.price_of_privacy == pytest.approx(17.0)
    assert Prediction(0.0, 1.0, 0.0, 0.0, 9.0).targets(5).price_of_privacy == math.inf
    # A third of the people answer: sampling in the clear has them all.
    parted = found.targets(900, lambda p: p.partitioned(900, 3))
    share = mean_reciprocal(900, 1 / 3)
    assert parted.population == pytest.approx(1.96 * math.sqrt(17 * share), rel=1e-4)
    assert parted.price_of_privacy == pytest.approx(17 * 900 * share)
    endless = Prediction(0.0, math.inf, 0.0, 1.0, math.inf)
    assert endless.expected_error(10) == math.inf
    assert endless.share_of_bias(10) == 0.0


def test_the_worst_scenario_counts():
    """The bias of the same reports may be −0.02, 0 or 0.06: 0.02 is taken off, 0.04 may be left."""
    low, high = (Prediction(bias, 4.0, 0.0, 1.0, math.inf) for bias in (-0.02, 0.06))
    found = Prediction(0.0, 4.0, 0.01, 1.0, 100.0, scenarios=(low, high))
    unknown = 1.96 * 0.01
    assert found.softness == pytest.approx((0.02, 0.04))
    assert found.worst(10_000) == replace(high, bias=pytest.approx(0.04))
    assert found.expected_error(10_000) == pytest.approx(0.04**2 + 4 / 10_000)
    assert found.partitioned(10_000, 1) == pytest.approx(found.expected_error(10_000))
    assert found.partitioned(10_000, 3) > 3 * 4 / 10_000 + 0.04**2
    targets = found.targets(10_000)
    alone = found.believed.targets(10_000)
    assert targets.population == alone.population
    assert targets.hard_question > alone.hard_question
    assert targets.hard_question == pytest.approx(
        foldnorm(0.04 / math.sqrt(5e-4)).ppf(0.95) * math.sqrt(5e-4)
    )
    # What the prior does not know may be more than any scenario.
    wide = replace(found, bias_variance=1.0, scenarios=(low,))
    assert wide.softness == pytest.approx((0.0, 10 * unknown), rel=1e-4)


@pytest.mark.deep(rest=2)
@pytest.mark.parametrize(("at", "n"), [(1e6, 50), (1e6, 1_000), (5e5, 200), (1e6, 200), (1e4, 50)])
def test_the_interval_is_as_long_as_estimates_have_it_on_average(at, n):
    """Within 5 % of the mean of 1,000 intervals of lognormal incomes, few of whom are near.

    Controls: 1.96 standard errors are more than a twelfth too short. An interval of the expected
    mean and variance is 5.9 % too long for 1,000 people, as s varies, and E s < √(E s²).
    """
    rng = np.random.default_rng(int(at) + n)
    mechanism = DebiasedLaplace(Threshold(at, 24_000.0, "smoothstep"), GeoPrivacy(1.0, per=8_000.0))
    people = rng.lognormal(11.4, 0.9, 40_000)
    weights = np.full(len(people), 1 / len(people))
    moments = mechanism.mean(people), mechanism.variance(people)
    found = predicted(*moments, moments[0], weights, math.inf).within(mechanism.limits)
    lengths = []
    for _ in range(1_000):
        answers = np.asarray(mechanism.simulate(rng.choice(people, n), rng))
        ends = interval_of_mean(n, answers.mean(), answers.var(), 0.95, mechanism.limits)
        lengths.append((ends.high - ends.low) / 2)
    assert found.targets(n).population == pytest.approx(np.mean(lengths), rel=0.05)
    plain = found.within(UNLIMITED).targets(n).population
    assert plain < 11 / 12 * np.mean(lengths)
    variance = (found.noise + found.varied) * (n - 1) / n
    expected = interval_of_mean(n, found.mean, variance, 0.95, mechanism.limits)
    assert n != 1_000 or (expected.high - expected.low) / 2 > 1.05 * np.mean(lengths)
