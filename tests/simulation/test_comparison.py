"""Test the demonstration's error under ε-LDP: the lesser noise of two mechanisms."""

import math

import numpy as np
import pytest

from geoveil.gp import GaussianKernel, GeoPrivacy, Threshold
from geoveil.simulation.comparison import Setting
from geoveil.simulation.demo import predict_local

PRIVACY = GeoPrivacy(1.0, per=8.0)


def two_noises(f, epsilon):
    """Randomised response: (f + c)(1 + c − f), c = 1/(e^ε − 1); piecewise, of t = 2f − 1."""
    c, half = 1 / math.expm1(epsilon), math.expm1(epsilon / 2)
    piecewise = (2 * f - 1) ** 2 / half + (half + 4) / (3 * half**2)
    return ((f + c) * (1 + c - f)).mean(), (piecewise / 4).mean()


@pytest.mark.parametrize(("scales", "least"), [(1.0, 0), (5.0, 1), (12.5, 1)])
def test_local_noise_is_the_lesser_of_two(scales, least):
    query = GaussianKernel(0.0, 16.0)
    points = np.array([0.0, 10.0, 20.0, 300.0, 400.0, 500.0, 600.0, 700.0])
    f = query.value(points)
    noises = two_noises(f, scales)
    assert noises.index(min(noises)) == least
    found = predict_local(Setting(query, query, PRIVACY, 8 * scales), points, np.ones(len(points)))
    assert found.noise == pytest.approx(min(noises), rel=1e-6)
    assert found.varied == pytest.approx(f.var(), rel=1e-12)
    assert min(noises) < 2 / scales**2  # control: Laplace noise, as the paper's


def test_a_hard_answer_is_randomised_response():
    """1/(4 sinh²(ε/2)) for answers that are 0 or 1, weights counted."""
    query = Threshold(0.0, 2.0)
    points, weights = np.array([-9.0, 9.0, 30.0]), np.array([1.0, 2.0, 1.0])
    found = predict_local(Setting(query, query, PRIVACY, 24.0), points, weights)
    assert found.noise == pytest.approx(1 / (4 * math.sinh(1.5) ** 2), rel=1e-6)
    assert found.varied == pytest.approx(3 / 16)
