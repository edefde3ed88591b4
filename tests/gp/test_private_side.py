"""Test that numbers are rounded to the private side, against 60-digit arithmetic."""

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import (
    Gaussian,
    GaussianKernel,
    GeoPrivacy,
    LipschitzMechanism,
    LocalPrivacy,
    Ramp,
    RandomizedResponse,
    Smoothstep,
    Threshold,
)
from geoveil.gp.arrays import np as its_np
from geoveil.gp.exact import BALL, working_precision
from geoveil.gp.mechanisms.additive import ROUND_UP
from geoveil.gp.mechanisms.approximate import paper_cost
from geoveil.gp.smooth.certified import ExponentialBound, LinearBound
from geoveil.gp.smooth.hockey_stick import largest_eta

DIGITS = 60
RNG = np.random.default_rng(11)
WIDTHS = [*(10.0 ** RNG.uniform(-49, 49, 300)), *RNG.uniform(0.5, 2, 300), 1e-50, 1e50, 3.0]


def number(q: Fraction) -> Any:
    return mp.mpf(q.numerator) / q.denominator


@pytest.mark.parametrize(
    ("profile", "slope"),
    [
        (Ramp, lambda: mp.mpf(1)),
        (Smoothstep, lambda: mp.mpf("1.5")),
        (Gaussian, lambda: mp.exp(mp.mpf("-0.5"))),
    ],
)
def test_noise_for_the_steepest_slope(profile, slope):
    """The double L may be rounded down by an ulp or two; ROUND_UP is eight."""
    with mp.workdps(DIGITS):
        for width in WIDTHS:
            assert number(Fraction(profile(width).lipschitz) * ROUND_UP) >= slope() / mp.mpf(width)


def test_the_scale_of_a_mechanism_is_no_less_than_its_slope_over_epsilon():
    with mp.workdps(DIGITS):
        for width in (0.7, 3.3, 9.1):
            privacy = GeoPrivacy(0.7, per=1.3)
            for query, slope in (
                (Threshold(0.0, width), 1 / mp.mpf(width)),
                (GaussianKernel(0.0, width), mp.exp(mp.mpf("-0.5")) / width),
            ):
                scale = LipschitzMechanism(query, privacy)._exact_scale
                assert number(scale) * mp.mpf(0.7) / mp.mpf(1.3) >= slope


def test_randomised_response_never_answers_truly_too_often():
    """c ≥ 1/(e^ε − 1), for any ε, as the atoms say it: (1 + c)/c ≤ e^ε."""
    for epsilon in (1e-50, 1e-9, *RNG.uniform(1e-3, 40, 300), 41.0, 139.0, 700.0, 1e50):
        mechanism = RandomizedResponse(Threshold(0.0, 1.0), LocalPrivacy(float(epsilon)))
        with mp.workdps(120):
            if epsilon < 200:
                odds = number((1 + mechanism._excess) / mechanism._excess)
                assert odds <= mp.exp(mp.mpf(float(epsilon)))
            assert mechanism._excess >= Fraction(1, 2**200)
            low, high = mechanism._low, mechanism._high
            assert (number(high / -low)) <= mp.exp(min(mp.mpf(float(epsilon)), 10_000))


def test_the_noise_for_a_slack_is_never_too_little():
    for delta in (5e-324, 1e-300, 1e-50, 1e-6, 0.3, 1 / math.e, 0.9, math.nextafter(1, 0)):
        for beta, reach in ((1e-50, 1e-50), (1e-3, 2.0), (0.1, 10.0), (3.0, 1e9)):
            with mp.workdps(DIGITS + 100):
                log = -mp.log(mp.mpf(delta))
                assert number(paper_cost(delta)) >= max(log, 1)
                # Rounded up to a double, which every language finds.
                assert number(paper_cost(delta)) <= max(log, 1) * (1 + mp.mpf(2) ** -51)
                k = mp.mpf(beta) * mp.mpf(reach)
                log_h = mp.log(k / (1 + k)) - mp.log1p(k) / k
                rate = 3 * beta * max(1.0, float(log))
                # The step is so wide that all pairs are close to each other.
                found = largest_eta(Smoothstep(1e3 * reach), rate, delta, reach, Fraction(beta))
                allowed = mp.mpf(beta) * mp.acosh(mp.exp(mp.mpf(rate) / beta - log - log_h))
                allowed = min(allowed, mp.mpf(rate) - mp.mpf(beta))
                assert allowed * (1 - mp.mpf(10) ** -9) <= found <= allowed


def test_a_certified_bound_does_not_rest_on_the_logarithm_of_float64(monkeypatch):
    steepest = RNG.uniform(0, 2, 200) ** 9
    log = np.log
    monkeypatch.setattr(its_np, "log", lambda x: log(x) - 1e-9)
    bound = ExponentialBound(np.linspace(-1, 1, 201), steepest, 0.3)
    with mp.workdps(DIGITS):
        for level, slope in zip(bound._cells[1:-1], steepest, strict=True):
            assert mp.exp(mp.mpf(float(level))) >= mp.mpf(float(slope))
    assert np.allclose(np.exp(bound._cells[1:-1]), steepest, rtol=1e-14)
    assert ExponentialBound(np.array([0.0, 1.0]), np.array([0.0]), 0.3)(0.5) == 0


def test_a_certified_bound_is_the_largest_of_its_terms_however_far_out():
    """A double near a million is up to 6e-11 away, over which terms change by 6e-4 here."""
    at, beta = Fraction(10**6) + Fraction(3, 10**11), 1e7
    edge = math.nextafter(1e6, 2e6)
    steepest = (1.0, 1.0011)
    bound = LinearBound(np.array([0.0, edge, 2e6]), np.array(steepest), beta)
    away = Fraction(edge) - at
    largest = max(Fraction(1), Fraction(steepest[1]) / (1 + Fraction(beta) * away))
    assert largest > 1.0002
    with working_precision(200):
        found = bound(BALL.constant(at), BALL)
        assert found.overlaps(BALL.constant(largest))
