"""Test planar Laplace noise: the law of its radius, its covariance, and its estimators."""

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.stats
from scipy.special import gammaincinv, lambertw

from geoveil.gp import (
    Disc,
    GaussianKernel,
    GeoPrivacy,
    ParameterError,
    PlanarLaplace,
    PointEstimator,
    PrivateValueError,
    Range,
    Threshold,
    TwoWayThreshold,
    UnsupportedError,
)
from geoveil.gp.deconvolution import SmoothedRegion

PRIVACY = GeoPrivacy(epsilon=0.9, per=3.6)
RATE = 0.25
DISC = Disc((0.0, 0.0), 3.0, 2.0)


@pytest.mark.parametrize("p", [0.0, 5e-324, 1e-300, 1e-9, 0.1, 0.5, 0.95, 1 - 1e-9])
def test_radius_of_the_plane_is_lamberts(p):
    """k = 2: −(W₋₁((p − 1)/e) + 1)/ε [ABCP13]."""
    with mp.workdps(700):
        expected = -(mp.re(mp.lambertw((mp.mpf(p) - 1) / mp.e, -1)) + 1) / RATE
    radius = PlanarLaplace(PRIVACY, 2).radius_quantile(p)
    assert radius == pytest.approx(float(expected), rel=1e-15, abs=0)
    # The quantile of Gamma(2, 1/ε), as SciPy has it where p is not tiny, and Lambert's W.
    if p > 1e-100:
        assert radius == pytest.approx(gammaincinv(2, p) / RATE, rel=1e-15, abs=0)
    if 1e-3 < p < 0.999:
        assert radius == pytest.approx(
            -(lambertw((p - 1) / math.e, -1).real + 1) / RATE, rel=1e-13, abs=0
        )


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 20])
def test_radius_quantile(dimension):
    """Against the integral of ε^k r^{k−1} e^{−εr}/Γ(k), in mpmath."""
    mechanism = PlanarLaplace(PRIVACY, dimension)
    for radius in (0.3, 4.0, 30.0):
        expected = mp.gammainc(dimension, 0, mp.mpf(RATE) * radius, regularized=True)
        assert mechanism.radius_quantile(float(expected)) == pytest.approx(radius, rel=1e-9)


@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
def test_characteristic_function(oracles, dimension):
    """(1 + b²|t|²)^{−(k+1)/2}: n = 200,000, z-test, α = 1e-6; one power more or less must fail."""
    mechanism = PlanarLaplace(PRIVACY, dimension)
    count = 200_000
    shape = (count,) if dimension == 1 else (count, dimension)
    noise = mechanism.simulate(np.zeros(shape), np.random.default_rng(21)).reshape(count, -1)
    limit = scipy.stats.norm.isf(oracles.ALPHA / 2)
    for t in (0.1, 0.25):
        direction = np.arange(1.0, dimension + 1) / np.linalg.norm(np.arange(1.0, dimension + 1))
        sample = np.cos(noise @ (t * direction))
        error = sample.std() / math.sqrt(count)
        base = 1 + (t / RATE) ** 2
        assert abs(sample.mean() - base ** (-(dimension + 1) / 2)) <= limit * error
        for wrong in (dimension / 2, (dimension + 2) / 2):
            assert abs(sample.mean() - base**-wrong) > limit * error, "the control must fail"


@pytest.mark.parametrize("bad", [-0.1, 1.0, math.nan, "0.5"])
def test_a_probability_is_one(bad):
    with pytest.raises(ParameterError, match="probability"):
        PlanarLaplace(PRIVACY, 2).radius_quantile(bad)


@pytest.mark.parametrize(
    ("query", "word"),
    [
        (Threshold(0.0, 2.0), "smoothstep"),
        (Range(0.0, 9.0, 2.0), "smoothstep"),
        (DISC, "SmoothedRegion"),
        (Disc((0.0, 0.0), 3.0, 2.0, "smoothstep"), "SmoothedRegion"),
        (TwoWayThreshold((0.0, 0.0), 2.0, "smoothstep"), "DebiasedLaplace"),
        (Disc((0.0, 0.0, 0.0), 3.0, 2.0), "DebiasedLaplace"),
        (GaussianKernel((0.0, 0.0), 1e-4), "widen"),
        (SmoothedRegion(DISC, 1e-3), "larger bandwidth"),
    ],
    ids=repr,
)
def test_what_cannot_be_debiased_says_what_can(query, word):
    with pytest.raises(UnsupportedError, match=word):
        PlanarLaplace(PRIVACY, query.dimension).estimator(query, debias=True)


@pytest.mark.parametrize(
    "query",
    [Threshold(0.0, 2.0), DISC, TwoWayThreshold((0.0, 0.0), 2.0), SmoothedRegion(DISC, 2.0)],
    ids=repr,
)
def test_plugged_in_is_the_query_at_the_noisy_point(query):
    estimator = PlanarLaplace(PRIVACY, query.dimension).estimator(query)
    assert isinstance(estimator, PointEstimator)
    assert not estimator.unbiased
    points = np.random.default_rng(1).normal(size=(50, query.dimension)) * 4
    points = points[:, 0] if query.dimension == 1 else points
    np.testing.assert_allclose(estimator.value(points), query.value(points), rtol=0, atol=3e-5)


@pytest.mark.parametrize("query", [DISC, TwoWayThreshold((0.0, 0.0), 2.0)], ids=repr)
def test_plug_in_without_quadrature_says_so(query):
    estimator = PlanarLaplace(PRIVACY, 2).estimator(query)
    for moment in (estimator.mean, estimator.variance):
        with pytest.raises(UnsupportedError, match="simulate"):
            moment([[0.0, 0.0]])


@pytest.mark.parametrize("bad", [None, 1])
def test_debias_is_yes_or_no(bad):
    with pytest.raises(ParameterError, match="debias"):
        PlanarLaplace(PRIVACY, 2).estimator(GaussianKernel((0.0, 0.0), 1.0), debias=bad)


@pytest.mark.parametrize("query", [DISC, GaussianKernel(0.0, 1.0), SmoothedRegion(DISC, 2.0)])
def test_dimensions_agree(query):
    with pytest.raises(ParameterError, match="dimension"):
        PlanarLaplace(PRIVACY, 3).estimator(query)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("debias", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        Threshold(0.0, 2.0, "smoothstep"),
        Range(0.0, 9.0, 2.0, "smoothstep"),
        GaussianKernel((0.0, 1.0), 4.0),
        GaussianKernel((0.0, 1.0, 2.0), 4.0),
        SmoothedRegion(DISC, 4.0),
    ],
    ids=repr,
)
def test_bad_points_are_refused_and_not_shown(query, debias):
    estimator = PlanarLaplace(PRIVACY, query.dimension).estimator(query, debias=debias)
    secret = 123456.789
    row = [secret] * query.dimension
    for bad in (math.nan, math.inf, 1e99, "7"):
        point: Any = [[*row[:-1], bad]] if query.dimension > 1 else [bad]
        for call in (estimator.value, estimator.mean, estimator.variance):
            with pytest.raises(PrivateValueError) as caught:
                call(point)
            assert "123456" not in f"{caught.value!r} {caught.value}"
    if query.dimension > 1:
        with pytest.raises(PrivateValueError):
            estimator.value([[*row, 1.0]])
    empty = np.empty((0, query.dimension)) if query.dimension > 1 else np.empty(0)
    for call in (estimator.value, estimator.mean, estimator.variance):
        assert call(empty).shape == (0,)
    one = np.zeros(query.dimension) if query.dimension > 1 else 0.0
    assert np.shape(estimator.value(one)) == ()
    assert np.shape(estimator.variance(one)) == ()
