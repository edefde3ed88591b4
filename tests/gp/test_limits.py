"""Test what limits of reports and means say of somebody unseen and of third moments."""

import math

import numpy as np
import pytest

from geoveil.gp import ParameterError
from geoveil.gp.intervals import IntervalMethod
from geoveil.gp.limits import UNLIMITED, Limits
from geoveil.gp.report_moments import ReportMoments

SHARE = Limits((0.0, 1.0), (0.0, 1.0))
STUDENT = IntervalMethod.STUDENT


def test_jumps_are_half_way_between_ends_of_means_and_of_reports():
    assert Limits((-2.0, 4.0), (0.0, 1.0)).jumps(0.25) == (1.25, 2.25)
    assert Limits(means=(0.0, 1.0), imagined=(-2.0, 4.0)).jumps(0.25) == (2.25, 3.75)
    assert Limits(means=(0.0, 1.0)).jumps(0.25) == (0.25, 0.75)
    assert Limits((-2.0, 4.0)).jumps(0.25) == (2.25, 3.75)
    assert SHARE.jumps(1.5) == (1.5, 0.0)
    assert SHARE.jumps(-0.5) == (0.0, 1.5)
    assert Limits((0.0, math.inf), (0.0, 1.0)).jumps(0.25) == (0.25, 0.75)
    assert UNLIMITED.jumps(0.25) == (math.inf, math.inf)


THREE_ANSWERS = ReportMoments(np.array([[0.0, 0, 0], [1, 1, 1], [0.5, 0.25, 0.125]]))
"""Moments of the answers 0, 1/2 and 1 without noise."""


def test_jumps_and_third_moments_are_those_of_the_law_where_it_is_known():
    limits = Limits((0.0, 1.0), (0.0, 1.0), lambda: THREE_ANSWERS)
    assert limits == SHARE, "the law is no part of what limits say"
    assert limits.jumps(0.25) == (0.25, 0.75)
    assert limits.jumps(1.5) == (1.5, 0.0)
    assert limits.jumps(-0.5) == (0.0, 1.5)
    # A mean of 1/2 and a variance of 1/10 leave one population, which is symmetric; with 0.3 and
    # 0.2 it has p of answers 1/2 and q of 1, p/2 + q = 0.3 and p/4 + q = 0.29.
    assert limits.third_moments(0.5, 0.1) == pytest.approx((0, 0), abs=1e-9)
    cubes = (0.04 / 8 + 0.28) - 3 * 0.3 * 0.29 + 2 * 0.3**3
    assert limits.third_moments(0.3, 0.2) == pytest.approx((cubes, cubes), abs=1e-9)
    endless = Limits(moments=lambda: THREE_ANSWERS)
    assert endless.third_moments(0.3, 0.2) == pytest.approx((cubes, cubes), abs=1e-9)
    assert endless.jumps(0.25) == (math.inf, math.inf), "noise may be anything"


def test_third_moments_are_within_those_of_two_points_of_which_one_is_an_end():
    assert SHARE.third_moments(0.5, 0.1) == pytest.approx((-0.03, 0.03))
    assert Limits((-1.0, 2.0), (0.0, 1.0)).third_moments(0.5, 0.1)[1] == pytest.approx(0.43 / 3)
    for mean in (-0.5, 0.0, 1.0, 1.5):
        assert SHARE.third_moments(mean, 0.1) == (0, 0)
    for means in ((-math.inf, 1.0), (0.0, math.inf)):
        assert Limits(means=means).third_moments(0.5, 0.1) == (0, 0)
    # More variance than there can be.
    assert SHARE.third_moments(0.4, 0.3) == pytest.approx((0.0675, 0.0675))


def test_third_moments_of_numbers_hold_those_of_people_with_any_noise():
    """Three people have random weights and symmetric noise. The control takes noise for people."""
    numbers, rng, held = Limits(means=(0.0, 1.0)), np.random.default_rng(3), np.zeros(2)
    for noise in np.geomspace(1e-9, 10.0, 500):
        at, weights = rng.choice([0.0, 1.0, rng.random()], 3), rng.dirichlet(np.ones(3))
        mean = float(weights @ at)
        variance, third = (float(weights @ (at - mean) ** power) for power in (2, 3))
        for i, of in enumerate((numbers, SHARE)):
            least, most = of.third_moments(mean, variance + noise)
            held[i] += least - 1e-9 <= third <= most + 1e-9
    assert held[0] == 500 > held[1] + 100
    assert numbers.third_moments(0.1, 0.09 + 1e-9)[1] == pytest.approx(0.09 * 0.8)


def test_limits_are_bounded_on_both_sides_and_methods_promise_something():
    assert SHARE.bounded
    assert not Limits((0.0, math.inf)).bounded
    assert STUDENT.promise.startswith("covers at its confidence once")
    assert Limits(possible=(0.0, 2.0), means=(-1.0, 3.0)).estimates == (0.0, 2.0)
    assert SHARE.estimates == (0.0, 1.0)
    with pytest.raises(ParameterError, match="low < high"):
        Limits((1.0, 1.0))
