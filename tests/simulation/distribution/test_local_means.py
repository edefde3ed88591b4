"""Mechanisms of ε-LDP for means: unbiased, their published variance, and their guarantee."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from geoveil.gp import LocalPrivacy
from geoveil.simulation.distribution.means import (
    HybridMechanism,
    PiecewiseMechanism,
    TwoPointMechanism,
)

N = 200_000
Z = 4.9
"""α = 10⁻⁶ for each comparison."""
VALUES = (-1.0, -0.4, 0.0, 0.7, 1.0)
EPSILONS = (0.3, 1.0, 3.0)


def published_variance(kind, t, epsilon):
    half, whole = math.exp(epsilon / 2), math.exp(epsilon)
    if kind is PiecewiseMechanism:  # [WXYZHSSY19]
        return t**2 / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)
    two_point = ((whole + 1) / (whole - 1)) ** 2 - t**2  # [DJW18]
    if kind is TwoPointMechanism or epsilon <= 0.61:
        return two_point
    # [WXYZHSSY19]: the same for every t
    return (half + 3) / (3 * half * (half - 1)) + (whole + 1) ** 2 / (half * (whole - 1) ** 2)


@pytest.mark.parametrize("kind", [PiecewiseMechanism, TwoPointMechanism, HybridMechanism])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_reports_have_the_mean_and_the_published_variance(kind, epsilon):
    mechanism = kind(LocalPrivacy(epsilon))
    rng = np.random.default_rng(17)
    for t in VALUES:
        published = published_variance(kind, t, epsilon)
        assert mechanism.variance(t) == pytest.approx(published, rel=1e-9)
        reports = mechanism.simulate(np.full(N, t), rng)
        assert abs(reports.mean() - t) < Z * math.sqrt(published / N)
        squares = (reports - t) ** 2
        error = squares.std() / math.sqrt(N) + 1e-12
        assert abs(squares.mean() - published) < Z * error
        if kind is not TwoPointMechanism:  # the control, where squares vary
            assert abs(squares.mean() - 1.1 * published) > Z * error


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_piecewise_has_the_published_density(epsilon):
    """Exactly: the density of [WXYZHSSY19], by quadrature, and by drawing."""
    half = math.exp(epsilon / 2)
    most = (half + 1) / (half - 1)
    high = (math.exp(epsilon) - half) / (2 * half + 2)
    reports = PiecewiseMechanism(LocalPrivacy(epsilon)).simulate(
        np.full(N, 0.3), np.random.default_rng(5)
    )
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
    """[WXYZHSSY19]: in the worst case over t."""
    for epsilon in np.linspace(0.1, 8.0, 80):
        privacy = LocalPrivacy(float(epsilon))
        hybrid, one, other = (
            kind(privacy).variance([0.0, 1.0]).max()
            for kind in (HybridMechanism, PiecewiseMechanism, TwoPointMechanism)
        )
        assert hybrid <= min(one, other) * (1 + 1e-9)
