"""Mechanisms of ε-LDP for means: unbiased, their published variance, and their guarantee."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from geoveil.gp import LocalPrivacy
from geoveil.simulation.distribution.local import (
    HYBRID_FROM,
    hybrid,
    piecewise,
    piecewise_variance,
    two_points,
)

N = 200_000
Z = 4.9
"""α = 10⁻⁶ for each comparison."""
VALUES = (-1.0, -0.4, 0.0, 0.7, 1.0)
EPSILONS = (0.3, 1.0, 3.0)


def published_variance(kind, t, epsilon):
    half, whole = math.exp(epsilon / 2), math.exp(epsilon)
    if kind is piecewise:  # [WXYZHSSY19]
        return t**2 / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)
    two_point = ((whole + 1) / (whole - 1)) ** 2 - t**2  # [DJW18]
    if kind is two_points or epsilon <= HYBRID_FROM:
        return two_point
    # [WXYZHSSY19]: the same for every t
    return (half + 3) / (3 * half * (half - 1)) + (whole + 1) ** 2 / (half * (whole - 1) ** 2)


@pytest.mark.parametrize("kind", [piecewise, two_points, hybrid])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_reports_have_the_mean_and_the_published_variance(kind, epsilon):
    privacy = LocalPrivacy(epsilon)
    rng = np.random.default_rng(17)
    for t in VALUES:
        published = published_variance(kind, t, epsilon)
        if kind is piecewise:
            assert piecewise_variance(t, privacy) == pytest.approx(published, rel=1e-9)
        reports = kind(np.full(N, t), privacy, rng)
        assert abs(reports.mean() - t) < Z * math.sqrt(published / N)
        squares = (reports - t) ** 2
        error = squares.std() / math.sqrt(N) + 1e-12
        assert abs(squares.mean() - published) < Z * error
        if kind is not two_points:  # the control, where squares vary
            assert abs(squares.mean() - 1.1 * published) > Z * error


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_piecewise_has_the_published_density(epsilon):
    """Exactly: the density of [WXYZHSSY19], by quadrature, and by drawing."""
    half = math.exp(epsilon / 2)
    most = (half + 1) / (half - 1)
    high = (math.exp(epsilon) - half) / (2 * half + 2)
    reports = piecewise(np.full(N, 0.3), LocalPrivacy(epsilon), np.random.default_rng(5))
    left = (most + 1) / 2 * 0.3 - (most - 1) / 2
    right = left + most - 1

    def density(y):
        return high if left <= y <= right else high * math.exp(-epsilon)

    ends = [-most, left, right, most]
    total = sum(quad(density, a + 1e-12, b - 1e-12)[0] for a, b in pairwise(ends))
    assert total == pytest.approx(1.0, abs=1e-6)
    assert np.all(np.abs(reports) <= most)
    for low, up in ((-most, left), (left, right), (right, most)):
        inside = quad(density, low + 1e-12, up - 1e-12)[0]
        seen = ((reports >= low) & (reports < up)).mean()
        assert abs(seen - inside) < Z * math.sqrt(inside * (1 - inside) / N) + 1e-9


def test_hybrid_is_never_worse_than_either_part():
    """[WXYZHSSY19]: in the worst case over t; and it changes at the ε where that holds."""
    for epsilon in np.linspace(0.1, 8.0, 80):
        found, one, other = (
            max(published_variance(kind, t, epsilon) for t in (0.0, 1.0))
            for kind in (hybrid, piecewise, two_points)
        )
        assert found <= min(one, other) * (1 + 1e-9)
    rng = np.random.default_rng(3)
    for epsilon, many in ((HYBRID_FROM - 1e-6, False), (HYBRID_FROM + 1e-6, True)):
        reports = hybrid(np.zeros(1_000), LocalPrivacy(epsilon), rng)
        assert (len(np.unique(reports)) > 100) is many
    assert pytest.approx(0.61, abs=0.005) == HYBRID_FROM
