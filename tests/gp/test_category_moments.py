"""Test the moments of reports of categories, by exact sums over all reports."""

import math

import numpy as np
import pytest

from geoveil.gp import Limits, ReportMoments, interval_of_mean
from geoveil.gp.mechanisms.categories import SubsetResponse, UnaryEncoding

from .test_categories import EVERY, law, scores_of


@pytest.mark.parametrize("mechanism", EVERY, ids=str)
def test_moments_are_exact_sums_over_all_reports(mechanism):
    """For each option. Control: the moments at another ε differ."""
    options = range(mechanism.options)
    values = [1 << x for x in options] if isinstance(mechanism, SubsetResponse) else options
    laws = [law(mechanism, x) for x in values]
    other = type(mechanism)(mechanism.options, 1.2 * mechanism.epsilon)
    for scores in scores_of(mechanism):
        attained = mechanism.estimator(scores)(np.array(list(laws[0])))
        moments = mechanism.moments(scores)
        powers = (attained - moments.origin)[:, None] ** np.array([1, 2, 3])
        summed = [np.array(list(of.values()), float) @ powers for of in laws]
        expected, wrong = np.unique(np.round(summed, 9), axis=0), other.moments(scores).points
        found = np.unique(np.round(moments.points, 9), axis=0)
        assert found == pytest.approx(expected, rel=1e-8, abs=2e-9)
        assert wrong != pytest.approx(expected, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("mechanism", EVERY[:6], ids=str)
def test_scores_far_from_zero_lose_no_third_moment(mechanism):
    """10⁶ is added to scores; the shares are even. Control: moments measured from 0."""
    close = np.arange(mechanism.options) ** 2 / 64
    scores = 1e6 + close
    moments = mechanism.moments(scores)
    laws = [law(mechanism, x) for x in range(mechanism.options)]
    away = mechanism.estimator(close)(np.array(list(laws[0]))) - close.mean()
    shares = np.mean([[float(p) for p in of.values()] for of in laws], axis=0)
    variance, third = shares @ away**2, shares @ away**3
    low, high = moments.third(scores.mean(), variance)
    rounding = 1e-6 * variance**1.5
    assert low - rounding <= third <= high + rounding
    assert high - low <= variance**1.5
    first, second, cubes = moments.points.T
    raw = (
        first + 1e6,
        second + 2e6 * first + 1e12,
        cubes + 3e6 * second + 3e12 * first + 1e18,
    )
    wide = ReportMoments(np.stack(raw, axis=1)).third(scores.mean(), variance)
    assert wide[1] - wide[0] > 100 * variance**1.5


def test_the_ends_bound_the_third_moment_if_no_facet_does():
    """At ε = 10⁻⁵ all options have the same E y², to 10 digits. Control: less noise."""
    scores = np.arange(5.0)
    for epsilon, endless in [(1e-5, True), (0.1, False)]:
        mechanism = UnaryEncoding(5, epsilon)
        moments = mechanism.moments(scores)
        variance = float(mechanism.variance(scores)[2])
        assert (moments.third(2.0, variance)[0] == -math.inf) == endless
        limits = Limits(mechanism.limits(scores), (0.0, 4.0), lambda moments=moments: moments)
        low, high = limits.third_moments(2.0, variance)
        reports = law(mechanism, 2)
        away = mechanism.estimator(scores)(np.array(list(reports))) - 2
        third = np.array(list(reports.values()), float) @ away**3
        assert low - 1e-6 * abs(third) <= third <= high + 1e-6 * abs(third)
        assert interval_of_mean(5, 2.0, variance, 0.95, limits).high == 4.0
