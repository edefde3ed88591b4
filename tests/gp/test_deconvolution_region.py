"""Smoothed regions of the plane from perturbed points [MATH §5.2].

Oracles: products of normal probabilities for boxes, the non-central χ² for discs, quadrature of the
kernel over the region, quadrature and Monte Carlo over the noise.
"""

import math
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.stats
from scipy.special import j0, ndtr

from geoveil.gp import (
    Disc,
    GeoPrivacy,
    ParameterError,
    PlanarLaplace,
    PrivateValueError,
    Threshold,
    TwoWayThreshold,
    UnsupportedError,
)
from geoveil.gp.deconvolution import SmoothedRegion
from geoveil.gp.queries import Polygon

H = 0.7
BOX = (-3.0, -2.0, 4.1, 5.03)
SLIVER = (-0.4, -0.31, 0.37, -0.22)
HUGE = (-20.0, -0.123, 20.0, 20.0)
RASTER_ERROR, POLYGON_ERROR = 3e-5, 1e-7
"""Four corners of 8e-6 each where a boundary is taken for straight; polygons are cut exactly."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
shapely = pytest.importorskip("shapely")


def everywhere(points: np.ndarray) -> np.ndarray:
    return np.full(len(points), np.inf)


def box_f(points: np.ndarray, box: tuple[float, float, float, float], h: float) -> np.ndarray:
    sides = [
        ndtr((box[i + 2] - points[:, i]) / h) - ndtr((box[i] - points[:, i]) / h) for i in (0, 1)
    ]
    return np.asarray(sides[0] * sides[1])


def turned(box: tuple[float, float, float, float], angle: float) -> tuple[Any, np.ndarray]:
    """A polygon, the box turned around the origin, and the matrix that turns points (n, 2)."""
    cosine, sine = math.cos(angle), math.sin(angle)
    turn = np.array([[cosine, sine], [-sine, cosine]])
    corners = np.array(shapely.box(*box).exterior.coords)
    return shapely.Polygon(corners @ turn), turn


def noise(per: float) -> PlanarLaplace:
    return PlanarLaplace(GeoPrivacy(1.0, per=per), 2)


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize("box", [BOX, SLIVER, HUGE], ids=["box", "sliver", "half plane"])
@pytest.mark.parametrize("angle", [0.0, 0.3, math.pi / 4])
def test_boxes(box, angle):
    """The product of normal probabilities, for boxes at any angle."""
    points = np.random.default_rng(1).uniform(-5, 6, (5000, 2))
    expected = box_f(points, box, H)
    polygon, turn = turned(box, angle)
    region = SmoothedRegion(polygon, H)
    assert np.max(np.abs(region.value(points @ turn) - expected)) <= POLYGON_ERROR
    if angle == 0:
        cut = SmoothedRegion(everywhere, H, box)
        limit = 1e-6 if box is HUGE else RASTER_ERROR  # without a corner
        assert np.max(np.abs(cut.value(points) - expected)) <= limit
    control = SmoothedRegion(polygon, 1.01 * H)
    error = np.max(np.abs(control.value(points @ turn) - expected))
    assert error > RASTER_ERROR, "the control must fail"


@pytest.mark.parametrize("radius", [0.05, 1.0, 6.0])
def test_discs(radius):
    """P(|x + hZ| ≤ r): non-central χ² with two degrees of freedom."""
    center = np.array([0.31, -0.2])
    query = Disc(tuple(center), radius, radius / 10)
    points = center + np.random.default_rng(2).uniform(-8, 8, (3000, 2))
    distance = np.linalg.norm(points - center, axis=1)
    expected = scipy.stats.ncx2.cdf((radius / H) ** 2, 2, (distance / H) ** 2)
    assert np.max(np.abs(SmoothedRegion(query, H).value(points) - expected)) <= RASTER_ERROR


def test_a_quadrant_ends_at_its_bounds():
    """Far from its rounded corner the two-way threshold is a half plane; the bounds cut it."""
    query = TwoWayThreshold((0.0, 0.0), 0.5)
    region = SmoothedRegion(query, H, (-1.0, -1.0, 12.0, 13.0))
    points = np.array([[0.2, 6.0], [6.0, -0.4], [12.1, 6.0], [6.0, 12.6], [12.0, 13.0]])
    expected = box_f(points, (0.0, 0.0, 12.0, 13.0), H)
    assert np.max(np.abs(region.value(points) - expected)) <= RASTER_ERROR


def test_rings_and_pieces():
    """A multipolygon with a hole is the sum of its boxes."""
    outer, hole, other = (-3.0, -3.0, 3.0, 3.0), (-1.0, -1.5, 2.0, 1.0), (5.0, 0.0, 7.0, 1.0)
    shape = shapely.box(*outer).difference(shapely.box(*hole)).union(shapely.box(*other))
    assert shape.geom_type == "MultiPolygon"
    points = np.random.default_rng(3).uniform(-5, 8, (3000, 2))
    expected = box_f(points, outer, H) - box_f(points, hole, H) + box_f(points, other, H)
    for region in (shape, Polygon(shape, width=0.3), shape.__geo_interface__):
        value = SmoothedRegion(region, H).value(points)
        assert np.max(np.abs(value - expected)) <= POLYGON_ERROR


@pytest.mark.parametrize("angle", [0.3, math.pi / 4])
@pytest.mark.parametrize("tip", [0.01, 0.3])
def test_a_needle_counts_by_its_area(angle, tip):
    """By quadrature along it; it is `tip` bandwidths wide at one end, and pointed at the other.

    Control: with the boundary taken for straight within a part of a cell, as of any callable, it
    misses a tenth of the narrow one.
    """
    x = 2 * H * (NODES + 1)
    half = tip * H * x / (8 * H)
    points = np.random.default_rng(4).uniform(-2, 4, (500, 2))
    away = ((x - points[:, :1]) / H, (half - points[:, 1:]) / H, (-half - points[:, 1:]) / H)
    height = ndtr(away[1]) - ndtr(away[2])
    expected = (2 * WEIGHTS * np.exp(-(away[0] ** 2) / 2) * height).sum(axis=1) / math.sqrt(
        2 * math.pi
    )
    turn = turned(BOX, angle)[1]
    needle = np.array([(0.0, 0.0), (4 * H, -tip * H / 2), (4 * H, tip * H / 2)]) @ turn
    region = SmoothedRegion(needle.tolist(), H)
    for function in (region.value, noise(0.2 * H).estimator(region, debias=True).mean):
        assert np.max(np.abs(function(points @ turn) - expected)) <= POLYGON_ERROR
    straight = SmoothedRegion(region.signed_distance, H, region.bounds)
    error = np.max(np.abs(straight.value(points @ turn) - expected))
    assert error > 100 * POLYGON_ERROR
    assert tip > 0.1 or error > 0.1 * expected.max()


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("c", [0.1, 0.5, 1.5])
def test_g_is_the_debiased_kernel_integrated_over_the_region(c):
    """The kernel by its Hankel integral, over the box by Gauss-Legendre."""
    box = (-1.0, -0.7, 1.3, 1.9)
    edges = np.linspace(0, 12, 31)
    half = np.diff(edges)[:, None] / 2
    kappa = (edges[:-1, None] + half * (1 + NODES)).ravel()
    weight = (half * WEIGHTS).ravel() * kappa * np.exp(-kappa * kappa / 2)
    weight *= (1 + (c * kappa) ** 2) ** 1.5
    table = np.linspace(0, 14, 3001)
    kernel = scipy.interpolate.CubicSpline(table, j0(np.multiply.outer(table, kappa)) @ weight)
    sides, side_weights = [], []
    for i in (0, 1):
        marks = np.linspace(box[i], box[i + 2], 5)
        widths = np.diff(marks)[:, None] / 2
        sides.append((marks[:-1, None] + widths * (1 + NODES)).ravel())
        side_weights.append((widths * WEIGHTS).ravel())
    cells = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = np.multiply.outer(*side_weights).ravel() / (2 * math.pi * H * H)
    points = np.random.default_rng(4).uniform(-3, 4, (60, 2))
    distance = np.linalg.norm(points[:, None] - cells, axis=2) / H
    expected = kernel(distance) @ mass
    estimator = noise(c * H).estimator(SmoothedRegion(everywhere, H, box), debias=True)
    # Undoing the noise enlarges the error of the raster as it enlarges the kernel.
    bound = RASTER_ERROR * float(kernel(0.0))
    assert np.max(np.abs(estimator.value(points) - expected)) <= bound
    control = noise(1.05 * c * H).estimator(SmoothedRegion(everywhere, H, box), debias=True)
    assert np.max(np.abs(control.value(points) - expected)) > bound, "the control must fail"


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("debias", [False, True])
@pytest.mark.parametrize("c", [0.15, 0.6, 1.5])
def test_moments_by_quadrature_over_the_noise(c, debias):
    """Mean and variance: Gauss-Legendre over the radius, 256 equidistant angles.

    The mean is that of the raster to 1e-6, and f to RASTER_ERROR; the variance to 1e-5 of its
    largest value.
    """
    estimator = noise(c * H).estimator(SmoothedRegion(everywhere, H, BOX), debias=debias)
    x = np.array([[0.5, 1.0], [-3.0, 0.0], [-3.0, -2.0], [4.5, 5.5], [8.0, 1.0], [-3.3, 4.7]])
    marks = np.concatenate([np.linspace(0, 12, 25), [14, 17, 20, 25, 30, 40]])
    half = np.diff(marks)[:, None] / 2
    radius = (marks[:-1, None] + half * (1 + NODES)).ravel()
    weight = radius * np.exp(-radius) * (half * WEIGHTS).ravel() / 256
    angle = 2 * math.pi * (np.arange(256) + 0.5) / 256
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    values = estimator.value(x[:, None, None] + c * H * radius[:, None, None] * circle)
    mean = np.sum(values * weight[:, None], axis=(1, 2))
    second = np.sum(values**2 * weight[:, None], axis=(1, 2))
    top = float(np.max(second))
    np.testing.assert_allclose(estimator.mean(x), mean, rtol=0, atol=1e-6 * top)
    np.testing.assert_allclose(estimator.variance(x), second - mean**2, rtol=0, atol=1e-5 * top)
    bias = np.max(np.abs(mean - box_f(x, BOX, H)))
    assert bias <= RASTER_ERROR if debias else bias > 10 * RASTER_ERROR
    assert estimator.unbiased == debias


@pytest.mark.deep
def test_monte_carlo(oracles):
    """z-test of mean and variance: n = 200,000, α = 1e-6; plugged in, or b off by 5 %, fails."""
    query = SmoothedRegion(Disc((0.0, 0.0), 1.5, 1.0), H)
    mechanism = noise(0.8 * H)
    estimator, plugged = (mechanism.estimator(query, debias=flag) for flag in (True, False))
    wrong = [noise(0.8 * H * factor).estimator(query, debias=True) for factor in (1.05, 1 / 1.05)]
    count, limit = 200_000, scipy.stats.norm.isf(oracles.ALPHA / 2)
    z = oracles.standard_errors
    rng = np.random.default_rng(7)
    failed = [False] * 4
    for r in (0.0, 1.1, 2.0, 3.0):
        x = np.array([[r, 0.0]])
        points = mechanism.simulate(np.broadcast_to(x, (count, 2)), rng)
        f = scipy.stats.ncx2.cdf((1.5 / H) ** 2, 2, (r / H) ** 2) if r else None
        f = -math.expm1(-((1.5 / H) ** 2) / 2) if f is None else float(f)
        y = estimator.value(points)
        assert z(y, f) <= limit
        assert z((y - f) ** 2, estimator.variance(x)[0]) <= limit
        failed[3] |= z((y - f) ** 2, 1.1 * estimator.variance(x)[0]) > limit
        for i, control in enumerate([plugged, *wrong]):
            failed[i] |= z(control.value(points), f) > limit
    assert all(failed), "the controls must fail"


def test_far_away_nothing_is_left():
    estimator = noise(0.8 * H).estimator(SmoothedRegion(Disc((0.0, 0.0), 3.0, 1.0), H), debias=True)
    far = [[1e3, 0.0], [0.0, -1e80]]
    for result in (estimator.value(far), estimator.mean(far), estimator.variance(far)):
        assert np.array_equal(result, [0, 0])


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ((everywhere, 0.0, BOX), "bandwidth"),
        ((everywhere, "1", BOX), "bandwidth"),
        ((everywhere, H, None), "bounds"),
        ((everywhere, H, BOX[:3]), "bounds"),
        ((everywhere, H, (1, 0, 0, 1)), "bounds"),
        ((everywhere, H, (0, 0, math.nan, 1)), "bounds"),
        (("disc", H, BOX), "region"),
        ((Threshold(0.0, 1.0), H, BOX), "region"),
        ((Disc((0.0, 0.0, 0.0), 1.0, 1.0), H, BOX), "region"),
        ((shapely.Polygon(), H, BOX), "region"),
        ((shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]), H, BOX), "region"),
    ],
)
def test_what_is_no_region_is_refused(arguments, parameter):
    with pytest.raises(ParameterError, match=parameter):
        SmoothedRegion(*arguments)


@pytest.mark.parametrize(
    "bad", [lambda p: p[:, 0] > 0, lambda p: p, lambda p: np.full(len(p), np.nan), lambda p: None]
)
def test_a_callable_returns_signed_distances(bad):
    with pytest.raises(ParameterError, match="signed distances"):
        SmoothedRegion(bad, H, BOX).value([[0.0, 0.0]])


def test_points_and_sizes_are_checked():
    region = SmoothedRegion(everywhere, H, BOX)
    for bad in ([[0.0, math.nan]], [[1.0]], 5.0, [["a", "b"]]):
        with pytest.raises(PrivateValueError):
            region.value(bad)
    with pytest.raises(UnsupportedError, match="larger bandwidth"):
        SmoothedRegion(everywhere, 1e-6, BOX).value([[0.0, 0.0]])
    assert region.value((0.5, 0.5)).shape == ()


def test_estimators_are_copied_with_their_answers():
    estimator = noise(H).estimator(SmoothedRegion(Disc((0.0, 0.0), 1.0, 1.0), H), debias=True)
    copied = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(copied.value([[0.3, 0.4]]), estimator.value([[0.3, 0.4]]))


def test_a_region_that_the_raster_would_misjudge_is_refused():
    noise = PlanarLaplace(GeoPrivacy(1.0, per=1.0))
    for radius, told in ((0.1 * H, True), (0.04 * H, False), (0.001 * H, False)):
        region = SmoothedRegion(Disc((0.0, 0.0), radius, radius), bandwidth=H)
        if not told:
            with pytest.raises(UnsupportedError, match="its area is at least"):
                noise.estimator(region)
            continue
        of_points = (radius / H) ** 2 / 2  # of so small a disc f is a bell
        assert region.value([[0.0, 0.0]])[0] == pytest.approx(of_points, abs=RASTER_ERROR)
        assert noise.estimator(region) is not None
