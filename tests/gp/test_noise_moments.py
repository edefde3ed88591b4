"""Absolute moments of every noise family against quadrature in mpmath."""

import math

import mpmath as mp
import pytest

from geoveil.gp import (
    GeneralizedCauchy,
    Laplace,
    LaplacePareto,
    Noise,
    ParameterError,
    PowerLaw,
    StudentT,
)

FAMILIES = [
    Laplace(0.7),
    GeneralizedCauchy(3.5),
    GeneralizedCauchy(8.0),
    StudentT(2.5),
    StudentT(9.0),
    LaplacePareto(2.0, 0.3),
    LaplacePareto(1.0, 0.9),
    PowerLaw(2.0, 0.3),
    PowerLaw(1.0, 0.9),
    PowerLaw(1.0, 1.0),
]


def quadrature(noise: Noise, order: float) -> float:
    """2 ∫ u^p h(u) du, in the variable log u."""
    knees = {0.0, 1.0}
    for epsilon, a in [(getattr(noise, "epsilon", 1.0), noise.tail_exponent)]:
        if a < math.inf:
            knees |= {math.log(1 / epsilon), math.log((1 + a) / epsilon)}
    far = 60 / max(noise.tail_exponent - order, 0.05) if noise.tail_exponent < math.inf else 8

    def integrand(t: mp.mpf) -> mp.mpf:
        log_density = float(noise.logpdf(math.exp(t)))
        return mp.exp((order + 1) * t + log_density)

    stops = sorted({-60.0, -5.0, *knees, 4.0, 10.0, 25.0, far + 5})
    return float(2 * mp.quad(integrand, stops, maxdegree=8))


@pytest.mark.deep(keep=8)
@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 1.7, 2.0, 3.0, 6.2])
@pytest.mark.parametrize("noise", FAMILIES, ids=repr)
def test_absolute_moments_agree_with_quadrature(noise, order):
    moment = noise.absolute_moment(order)
    if order >= noise.tail_exponent:
        assert moment == math.inf
        return
    assert moment == pytest.approx(quadrature(noise, order), rel=1e-8)


@pytest.mark.parametrize("noise", FAMILIES, ids=repr)
def test_special_moments(noise):
    assert noise.absolute_moment(0) == pytest.approx(1, rel=1e-12)
    assert noise.absolute_moment(2) == pytest.approx(noise.variance, rel=1e-10)
    assert noise.has_mean == (noise.absolute_moment(1) < math.inf)


@pytest.mark.parametrize("order", [-0.1, math.nan, math.inf, "2", None])
def test_orders_out_of_range_are_named(order):
    with pytest.raises(ParameterError, match="order"):
        StudentT(3).absolute_moment(order)
