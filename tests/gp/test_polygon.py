"""Test polygons: distances by brute force at 60 digits, bounds over pairs of points."""

import dataclasses
import math
import random
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import shapely
from flint import arb

from geoveil.gp import (
    GeoPrivacy,
)
from geoveil.gp.exact import BALL, working_precision
from geoveil.gp.queries import polygon
from geoveil.gp.queries.polygon import Polygon
from tests.gp.ideal import ideal
from tests.gp.pairs import largest_rate, mechanisms_of, moved

PRIVACY = GeoPrivacy(epsilon=0.5, per=2.0)
RATE = 0.25
INFINITY = math.inf


def box(x0: float, y0: float, x1: float, y1: float) -> list[tuple[float, float]]:
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


def star(count: int, radius: float, seed: int, center: float = 0.0) -> list[tuple[float, float]]:
    rng = np.random.default_rng(seed)
    angle = np.arange(count) * 2 * np.pi / count
    length = radius * rng.uniform(0.3, 1.0, size=count)
    return [
        (float(center + r * math.cos(a)), float(center + r * math.sin(a)))
        for a, r in zip(angle, length, strict=True)
    ]


REGIONS: dict[str, Any] = {
    "square": box(0, 0, 10, 10),
    "square with a hole": [box(0, 0, 10, 10), box(3, 3, 7, 6)],
    "islands": [
        [box(-9, -9, 4, 4), box(-6, -6, 1, 1), box(2, -8, 3, -6)],
        [box(-4, -4, -1, -2)],
        [[(6, 6), (14, 5), (7, 9)]],
    ],
    "comb": [(0, 0), (9, 0), (9, 7), (8, 7), (8, 1), (6, 1), (6, 7), (4, 1), (3, 7), (0, 1)],
    "splinter": [(-10.0, 0.1), (11.0, 0.3), (-10.0, 0.1 + 2**-30)],
    "clockwise star": star(31, 12.0, 1)[::-1],
    "mercator": star(17, 12.0, 2, center=8_237_642.0),
}
PROFILES = ("linear", "smoothstep")


def make(region: str, width: float = 5.0, profile: str = "linear") -> Polygon:
    return Polygon(REGIONS[region], width, profile)


def edges(query: Polygon) -> list[tuple[Any, Any]]:
    return [
        (ring[i - 1], ring[i]) for part in query.region for ring in part for i in range(len(ring))
    ]


def around(query: Polygon, count: int, seed: int) -> np.ndarray:
    """Points of all sizes around a region; its corners; points on and next to its edges."""
    rng = np.random.default_rng(seed)
    start, end = (np.array(points) for points in zip(*edges(query), strict=True))
    points = rng.normal(size=(count, 2)) * 10.0 ** rng.uniform(-0.5, 1.7, size=(count, 1))
    points += start.mean(axis=0)
    along = rng.uniform(size=(len(start), 1))
    near = start + along * (end - start)
    far = np.array([[1e9, -1e9], [-1e15, 3.0], [1e90, 1e90]])
    return np.concatenate([points, start, (start + end) / 2, near, near + 1e-7, far])


def signed_distance(query: Polygon, x: Any) -> Any:
    """Return s(x) in mpmath: the least distance to an edge; inside by the angles the rings turn."""
    px, py = mp.mpf(x[0]), mp.mpf(x[1])
    least = mp.inf
    inside = False
    for part in query.region:
        for ring in part:
            turned = mp.mpf(0)
            for i in range(len(ring)):
                ax, ay = mp.mpf(ring[i - 1][0]) - px, mp.mpf(ring[i - 1][1]) - py
                bx, by = mp.mpf(ring[i][0]) - px, mp.mpf(ring[i][1]) - py
                ex, ey = (mp.mpf(b) - mp.mpf(a) for a, b in zip(ring[i - 1], ring[i], strict=True))
                t = min(max(-(ax * ex + ay * ey) / (ex * ex + ey * ey), mp.mpf(0)), mp.mpf(1))
                least = min(least, mp.hypot(ax + t * ex, ay + t * ey))
                turned += mp.atan2(ax * by - ay * bx, ax * bx + ay * by)
            inside ^= abs(turned) > mp.pi
    return least if inside else -least


def exact_square(query: Polygon, x: Any) -> Fraction:
    """Return the squared distance to the boundary as a fraction."""
    px, py = map(Fraction, x)
    squares = []
    for a, b in edges(query):
        (ax, ay), (bx, by) = map(Fraction, a), map(Fraction, b)
        ex, ey = bx - ax, by - ay
        t = ((px - ax) * ex + (py - ay) * ey) / (ex * ex + ey * ey)
        t = min(max(t, Fraction(0)), Fraction(1))
        squares.append((px - ax - t * ex) ** 2 + (py - ay - t * ey) ** 2)
    return min(squares)


def as_ball(query: Polygon, x: Any) -> arb:
    return query.signed_distance([BALL.private(float(c)) for c in x], BALL)


def ends(ball: arb) -> tuple[Any, Any]:
    """Return the ends of a ball in mpmath, at its working precision, rounded outwards."""
    middle, radius = (
        mp.ldexp(mp.mpf(int(m)), int(e))
        for m, e in (ball.mid().man_exp(), ball.rad().man_exp())  # both are exact
    )
    slack = abs(middle) * mp.mpf(2) ** (4 - mp.mp.prec)
    return middle - radius - slack, middle + radius + slack


@pytest.mark.parametrize("region", REGIONS)
class TestDistance:
    @pytest.mark.deep(keep=2)
    def test_in_floats(self, region):
        query = make(region)
        points = around(query, 120, 1)
        ours = query.signed_distance(points)
        with mp.workdps(40):
            expected = np.array([float(signed_distance(query, x)) for x in points.tolist()])
        # A double near 8·10⁶ is known to 1e-9.
        size = max(abs(c) for part in query.region for ring in part for p in ring for c in p)
        np.testing.assert_allclose(ours, expected, rtol=1e-14, atol=1e-15 * size)

    @pytest.mark.deep(keep=1)
    def test_in_balls(self, region):
        query = make(region)
        with mp.workdps(400), working_precision(200):
            for x in around(query, 60, 2).tolist():
                low, high = ends(as_ball(query, x))
                expected = signed_distance(query, x)
                assert low <= expected <= high
                assert high - low <= abs(expected) * mp.mpf(2) ** -190

    @pytest.mark.deep(keep=2)
    def test_in_balls_of_several_points(self, region):
        """A point known only to some digits: every point of the ball has its distance in ours."""
        query = make(region)
        rng = np.random.default_rng(3)
        with mp.workdps(400), working_precision(100):
            for x in around(query, 20, 3)[:-3:5].tolist():
                radius = 10.0 ** rng.uniform(-6, 0)
                ball = query.signed_distance([arb(c, radius) for c in x], BALL)
                low, high = ends(ball)
                for corner in rng.uniform(-1, 1, size=(4, 2)):
                    inside = [
                        mp.mpf(c) + radius * mp.mpf(u) for c, u in zip(x, corner, strict=True)
                    ]
                    assert low <= signed_distance(query, inside) <= high
                assert high - low <= 5 * radius

    @pytest.mark.deep(keep=3)
    def test_squared_distance_is_exact(self, region):
        """Zero on the boundary and nowhere else, wherever a double happens to lie."""
        query = make(region)
        for x in around(query, 40, 4).tolist():
            square = exact_square(query, x)
            with working_precision(300):
                ball = as_ball(query, x)
                assert (ball == 0) == (square == 0)
                assert (ball * ball).overlaps(arb(square.numerator) / square.denominator)
        for corner, _ in edges(query):
            assert as_ball(query, corner) == 0
            assert query.signed_distance(np.array(corner)) == 0

    def test_against_shapely(self, region):
        query = make(region)
        points = around(query, 20_000, 5)[:20_000]
        geometry = polygon.geometry(query.region)
        distance = shapely.distance(shapely.boundary(geometry), shapely.points(points))
        expected = np.where(shapely.covers(geometry, shapely.points(points)), distance, -distance)
        np.testing.assert_allclose(query.signed_distance(points), expected, rtol=1e-13, atol=1e-8)


@pytest.mark.deep(keep=0)
def test_rays_through_corners():
    """Lattice points beside a lattice polygon: the ray to the right meets corners and edges."""
    rng = random.Random(9)
    met = 0
    for _ in range(60):
        rings = [[(rng.randrange(7), rng.randrange(7)) for _ in range(rng.choice([3, 4, 5, 7]))]]
        region = shapely.Polygon(rings[0])
        if not region.is_valid:
            continue
        met += 1
        query = Polygon(rings[0], width=1.0)
        for x in range(-1, 8):
            for y in range(-1, 8):
                point = shapely.Point(x, y)
                side = int(region.contains(point)) - int(not region.covers(point))
                ball = as_ball(query, (x, y))
                assert (ball > 0, ball < 0, ball == 0) == (side > 0, side < 0, side == 0)
                assert float(np.sign(query.signed_distance(np.array([x, y])))) == side
    assert met >= 20


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize("region", REGIONS)
def test_a_raster_changes_no_bit(region, monkeypatch):
    """The distances of many points are those to all edges: on lines of its cells, and beyond it."""
    query = make(region)
    raster = polygon._raster(query.region)
    assert raster is not None
    rng = np.random.default_rng(7)
    lines = raster.origin + raster.step * rng.integers(-3, polygon._SIDE + 4, size=(800, 2))
    beside = np.nextafter(lines, rng.choice([-math.inf, math.inf], size=lines.shape))
    inside = raster.origin + raster.step * polygon._SIDE * rng.uniform(size=(4_000, 2))
    points = np.concatenate([around(query, 500, 3), lines, beside, inside])
    expected = polygon._by_edges(query.region, points)
    assert len(points) < polygon._MANY
    assert np.array_equal(query.signed_distance(points), expected)
    found = polygon._by_raster(query.region, raster, points)
    assert np.array_equal(found, expected)
    # Control: half as many candidates are too few.
    few = dataclasses.replace(raster, count=np.maximum(raster.count // 2, 1).astype(np.uint16))
    if region != "mercator":
        assert not np.array_equal(polygon._by_raster(query.region, few, points), expected)
    monkeypatch.setattr(polygon, "_MANY", 0)
    monkeypatch.setattr(polygon, "_STEP", 1_000)
    monkeypatch.setattr(polygon, "_BLOCK", 5)
    assert np.array_equal(query.signed_distance(points), expected)
    assert query.signed_distance(points[:0]).shape == (0,)


def test_no_raster_where_it_takes_too_long_or_rounding_counts():
    assert polygon._raster(Polygon(star(512, 12.0, 1), 1.0).region) is not None
    assert polygon._raster(Polygon(star(513, 12.0, 1), 1.0).region) is None
    assert polygon._raster(Polygon(box(1e9, 1e9, 1e9 + 1e-3, 1e9 + 1), 1.0).region) is None


def test_corners_of_every_size():
    """From 1e-300 to 1e50: neither an overflow nor a division by zero; warnings are errors."""
    points = np.array([[0.0, 0.0], [1e-301, 1e-302], [1e40, -1e30], [-1e90, 1e90], [5e-324, 0.0]])
    for ring in (
        [(0.0, 0.0), (1e-300, 0.0), (0.0, 1.0)],
        [(-1e50, -1e50), (1e50, -1e50), (1e50, 1e50)],
        [(-1e-30, -1e-30), (1e-30, 0.0), (0.0, 1e-30)],
    ):
        query = Polygon(ring, width=1.0)
        ours = query.signed_distance(points)
        with mp.workdps(450), working_precision(200):
            for x, s in zip(points.tolist(), ours, strict=True):
                low, high = ends(as_ball(query, x))
                expected = signed_distance(query, x)
                assert low <= expected <= high
                assert float(s) == pytest.approx(float(expected), rel=1e-13, abs=1e-16 * 1e50)
        for reach in (0.0, INFINITY):
            bound = query.smooth_bound(points, 0.1, reach=reach)
            assert np.all((bound >= 0) & (bound <= query.lipschitz))


@pytest.mark.parametrize("growth", ["exponential", "linear"])
@pytest.mark.parametrize("reach", [0.0, 1.5, 6.0, INFINITY])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("region", ["square", "square with a hole", "clockwise star"])
class TestBound:
    def brute(
        self, oracles: Any, query: Polygon, line: np.ndarray, beta: float, growth: str, reach: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return points of the plane, those of `line` first, and sup_y L_Λ(y)/g(β|x−y|) there."""
        axis = np.linspace(-6, 16, 22)
        plane = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2) + 1e-3
        points = np.concatenate([line, plane])
        start, end = (np.array(p) for p in zip(*edges(query), strict=True))
        vector = end - start
        offset = points[:, None, :] - start
        t = np.clip((offset * vector).sum(axis=2) / (vector**2).sum(axis=1), 0, 1)
        s = np.linalg.norm(offset - t[..., None] * vector, axis=2).min(axis=1)
        s *= np.where(shapely.contains_xy(polygon.geometry(query.region), points), 1, -1)
        f = oracles.float_value(query, s)
        gap = np.linalg.norm(points[:, None, :] - points[None, :, :], axis=2)
        steepest = oracles.float_slope(query, s)
        if reach:
            chord = np.abs(f[:, None] - f[None, :]) / np.maximum(gap, 1e-3)
            within = np.where(gap <= reach * (1 + 1e-12), chord, 0.0)
            steepest = np.maximum(steepest, within.max(axis=1))
        t = beta * gap
        decay = np.exp(-t) if growth == "exponential" else 1 / (1 + t)
        return points, np.max(steepest * decay, axis=1)

    @pytest.mark.deep(keep=2)
    def test_bound(self, oracles, region, profile, reach, growth):
        query = make(region, 2.0, profile)
        # Straight out of the left side of the square, across the band, in steps of 1/64.
        line = np.stack([np.arange(-6, 2.01, 1 / 64), np.full(513, 5.0)], axis=1)
        for beta in (0.1, 0.7):
            points, brute = self.brute(oracles, query, line, beta, growth, reach)
            ours = query.smooth_bound(points, beta, growth=growth, reach=reach)
            assert np.all(ours >= brute * (1 - 1e-9))
            if region != "clockwise star":
                # Here the way to the nearest edge goes on into a region wider than the band.
                outside = slice(0, 449)
                assert np.all(ours[outside] <= brute[outside] * (1 + 1e-3))
                # Control: a β five per cent too large is told apart.
                wrong = query.smooth_bound(points, beta * 1.05, growth=growth, reach=reach)
                if reach == 0:
                    assert np.any(wrong[outside] < brute[outside] * (1 - 1e-3))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("region", ["islands", "comb", "mercator"])
class TestMechanisms:
    def test_guarantee(self, region, profile):
        query = make(region, 3.0, profile)
        rng = np.random.default_rng(11)
        here = around(query, 500, 11)[:-3]
        there = moved(here, 10 ** rng.uniform(-2, 1.3, size=len(here)) / RATE, rng)
        for mechanism in mechanisms_of(query, PRIVACY):
            worst = largest_rate(mechanism, here, there)
            rounding = 1e-6 if region == "mercator" else 1e-9
            assert worst <= RATE * (1 + rounding)
            assert worst >= 0.5 * RATE

    @pytest.mark.deep(keep=5)
    def test_release(self, fixed_bits, region, profile):
        """The rounded ideal output for the same bits; corners and edges included."""
        query = make(region, 3.0, profile)
        points = around(query, 12, 12).tolist()
        for seed, x in enumerate([*points[:20], *points[-5:]]):
            value = random.Random(seed).getrandbits(1024)
            smooth, _, *others = mechanisms_of(query, PRIVACY)
            for mechanism in (smooth, *others):
                expected = ideal(mechanism, x, value, 1024, signed_distance)
                released = mechanism.release(x, fixed_bits(value, 1024))
                assert min(expected) <= released <= max(expected)


SLANTED = np.array([[math.cos(0.6), math.sin(0.6)], [-math.sin(0.6), math.cos(0.6)]])


def slanted(corners: list[tuple[float, float]]) -> Polygon:
    """Return a polygon at a slant, far from 0."""
    moved = np.array(corners) @ SLANTED + [1e4, 5e4]
    return Polygon([tuple(map(tuple, moved.tolist()))], width=2.0)


@pytest.mark.parametrize("long", [1.0, 30.0, 1_000.0])
def test_the_depth_of_a_strip_is_known_to_one_in_a_hundred(long, monkeypatch):
    """A strip of the width 1. Control: few points of the boundary."""
    strip = slanted(box(0.0, 0.0, long, 1.0))
    assert 0.5 <= strip.attained_range[1] <= 0.5 * 1.01
    polygon._deepest.cache_clear()
    monkeypatch.setattr(polygon, "_ALONG", 5.0)
    assert strip.attained_range[1] > 0.5 * 1.05
    polygon._deepest.cache_clear()


@pytest.mark.deep(keep=1, rest=1)
@pytest.mark.parametrize("shape", ["hook", "straight", "branch"])
def test_the_depth_of_a_very_long_region_is_known_to_one_in_a_hundred(shape, monkeypatch):
    """A strip of the width 1; two that meet, deepest in the corner; and one that leaves another.

    The largest circle touches the outer sides, and the corners that point inwards. Control: points
    of the boundary alone, which are farther apart than the strip is wide.
    """
    end = 100_000.0
    corners, depth = {
        "straight": (box(0, 0, end, 1), 0.5),
        "hook": ([(0, 0), (end, 0), (end, end), (end - 1, end), (end - 1, 1), (0, 1)], 2 - 2**0.5),
        "branch": (
            [*box(-end, 0, end, 1)[:3], (0.5, 1), (0.5, end), (-0.5, end), (-0.5, 1), (-end, 1)],
            0.625,
        ),
    }[shape]
    region = slanted(corners)
    assert depth <= region.attained_range[1] <= depth * 1.01
    polygon._deepest.cache_clear()
    monkeypatch.setattr(polygon, "_eroded", lambda shape, bound: bound)
    assert region.attained_range[1] > depth * 2
    polygon._deepest.cache_clear()
