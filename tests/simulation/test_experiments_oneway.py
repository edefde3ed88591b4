"""Test the experiment on one threshold: formula against draws, weights, and surveys."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from geoveil.gp import GeneralizedCauchy, Laplace, ParameterError, StudentT
from geoveil.simulation import household_incomes
from geoveil.simulation.experiments import oneway
from geoveil.simulation.experiments.oneway import ONE_WAY, PANELS, SURVEYS, aimed, incomes_in
from geoveil.simulation.experiments.own import AS_PUBLISHED, distinct_values
from geoveil.simulation.experiments.published import PaperRun
from geoveil.simulation.experiments.sums import sampler, summed

ALPHA = 1e-6
PANEL = replace(PANELS[8], people=(20_000,))  # T = 500,000, 1/ε = 40,000


def test_the_settings_are_those_of_the_paper():
    """[MATH §12]: twelve panels, widths min(0.2T, 2/ε), ε_L = ε·footing."""
    assert len(PANELS) == 12
    widths = [panel.setting.seed.width for panel in PANELS]
    assert widths[:6] == [1_600, 2_000, 2_000, 16_000, 20_000, 20_000]
    assert widths[6:] == [32_000, 48_000, 80_000, 64_000, 96_000, 160_000]
    assert {p.threshold: p.footing for p in PANELS} == {
        10_000: 1_200,
        100_000: 12_000,
        500_000: 24_000,
        1_000_000: 48_000,
    }
    for panel in PANELS:
        assert panel.setting.privacy.at(panel.per) == 1
        assert panel.people == (400_000, 800_000, 1_600_000, 3_200_000, 6_400_000)


@pytest.mark.deep
@pytest.mark.parametrize("name", ["DebiasedLaplace", "Student-t", "GP_loc"])
def test_the_exact_error_is_that_of_the_weighted_rows(name):
    """Row by row over the census, instead of over distinct incomes."""
    people = household_incomes()
    answer = ONE_WAY[name].build(PANEL.setting)
    mean, hard = answer.mean(people.values), people.values > PANEL.threshold
    bias = np.average(mean - hard, weights=people.weights)
    # E D² = E[v + (m − h)²]
    second = np.average(
        answer.variance(people.values) + np.square(mean - hard), weights=people.weights
    )
    (row,) = oneway.exact(PANEL, name)
    assert row.error == pytest.approx(bias**2 + (second - bias**2) / 20_000, rel=1e-9)
    assert row.squared_bias == pytest.approx(bias**2, rel=1e-9)
    unweighted = np.mean(mean - hard)
    assert row.squared_bias != pytest.approx(unweighted**2, rel=1e-2)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("name", [name for name in ONE_WAY if "aimed" not in name])
def test_drawn_errors_have_the_exact_mean_and_variance(name):
    """150 repetitions of 20,000 people; z and chi-square at α = 1e-6 each; errors are near normal.

    Control: without the noise the variance must be refuted.
    """
    repetitions, n = 150, 20_000
    errors = np.array([PANEL.drawn_once(name, n, r, seed=5) for r in range(repetitions)])
    answer = ONE_WAY[name].build(PANEL.setting)
    squared_bias, noise, spread = oneway.moments(PANEL, answer)
    x, shares = distinct_values(AS_PUBLISHED)
    bias = np.sum(shares * (answer.mean(x) - (x > PANEL.threshold)))
    assert bias**2 == pytest.approx(squared_bias)
    variance = (noise + spread) / n
    z = (errors.mean() - bias) / math.sqrt(variance / repetitions)
    assert abs(z) < stats.norm.isf(ALPHA / 2)
    assert _consistent(errors, variance)
    assert not _consistent(errors, variance / 3)


def _consistent(errors, variance):
    statistic = (len(errors) - 1) * errors.var(ddof=1) / variance
    return (
        stats.chi2.ppf(ALPHA / 2, len(errors) - 1)
        < statistic
        < stats.chi2.isf(ALPHA / 2, len(errors) - 1)
    )


@pytest.mark.parametrize("noise", [GeneralizedCauchy(4), Laplace(2.0), StudentT(3)])
def test_samplers_draw_their_noise(noise):
    """100,000 draws, Kolmogorov-Smirnov at α = 1e-6; control: 5 % wider must be refuted."""
    n = 100_000
    z = sampler(noise)(np.random.default_rng(3), n)
    limit = math.sqrt(math.log(2 / ALPHA) / 2 / n)

    def distance(z):
        z = np.sort(z)
        tail = noise.survival(np.abs(z))
        cdf = np.where(z > 0, 1 - tail, tail)
        return max(np.max(np.arange(1, n + 1) / n - cdf), np.max(cdf - np.arange(n) / n))

    assert distance(z) < limit
    assert distance(1.05 * z) > limit


def test_sums_by_value_and_by_person_are_of_the_same_law():
    """400 sums of 3,000 reports each way; their variances within the F quantiles at α = 1e-6."""
    values, counts = np.array([480_000.0, 505_000.0, 700_000.0]), np.array([1_000, 1_500, 500])
    answer = ONE_WAY["Student-t"].build(PANEL.setting)
    rng = np.random.default_rng(4)
    people = np.repeat(values, counts)
    by_value, by_person = (
        np.array([total(many, rng) for _ in range(400)])
        for total, many in (
            (summed(answer, values), counts),
            (summed(answer, people), np.ones(len(people), np.int64)),
        )
    )
    expected = counts @ answer.mean(values), counts @ answer.variance(values)
    for sums in (by_value, by_person):
        z = (sums.mean() - expected[0]) / math.sqrt(expected[1] / 400)
        assert abs(z) < stats.norm.isf(ALPHA / 2)
        assert _consistent(sums, expected[1])


def test_points_on_a_line_answer_like_debiased_laplace():
    x, _ = distinct_values(AS_PUBLISHED)
    points, queries = (ONE_WAY[n].build(PANEL.setting) for n in ("deconvolved", "DebiasedLaplace"))
    assert points.mean(x) == pytest.approx(queries.mean(x), abs=1e-12)
    assert points.variance(x) == pytest.approx(queries.variance(x), rel=1e-6, abs=1e-12)


def test_the_aim_agrees_with_the_survey_and_uses_nothing_else(monkeypatch):
    query = aimed(PANEL.setting, 0).soft
    x, shares = incomes_in(0)
    soft, hard = np.sum(shares * query.value(x)), shares[x > PANEL.threshold].sum()
    assert soft == pytest.approx(hard, abs=1e-9)
    ramp = aimed(PANEL.setting, 0, "seed").seed
    assert np.sum(shares * ramp.value(x)) == pytest.approx(hard, abs=1e-9)
    plain = PANEL.setting.soft
    assert abs(np.sum(shares * plain.value(x)) - hard) > 1e-5
    assert len({aimed(PANEL.setting, survey).soft.at for survey in range(SURVEYS)}) == SURVEYS
    monkeypatch.setattr(oneway, "distinct_values", lambda given: pytest.fail("private"))
    aimed.cache_clear()
    assert aimed(PANEL.setting, 0).soft == query


def test_privacy_is_the_same_for_all_but_the_local_one():
    for name, contestant in ONE_WAY.items():
        for build in contestant.versions:
            answer = build(PANEL.setting)
            privacy = getattr(answer, "privacy", None) or answer.mechanism.privacy
            if name == "ε-LDP":
                assert privacy.epsilon == pytest.approx(24_000 / 40_000)
            else:
                assert privacy == PANEL.setting.privacy


@pytest.mark.parametrize("repetitions", [1])
def test_too_few_repetitions_are_refused(repetitions):
    with pytest.raises(ParameterError, match="repetitions"):
        PaperRun(mode="monte-carlo", repetitions=repetitions)


@pytest.mark.parametrize("field", ["threshold", "per", "footing"])
@pytest.mark.parametrize("value", [0.0, math.inf])
def test_unsound_panels_are_refused(field, value):
    with pytest.raises(ParameterError, match=field):
        replace(PANEL, **{field: value})
