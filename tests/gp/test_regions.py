"""Test ranges, quadrants and discs: signed distances, bounds, guarantees and exact releases."""

import math
import random
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import (
    DebiasedLaplace,
    Disc,
    GeoPrivacy,
    Query,
    QueryMechanism,
    Range,
    SmoothMechanism,
    TwoWayThreshold,
)
from tests.gp.ideal import ideal
from tests.gp.pairs import largest_rate, mechanisms_of, moved

PRIVACY = GeoPrivacy(epsilon=0.5, per=2.0)
RATE = 0.25
REGIONS: dict[str, Callable[[str], Query]] = {
    "range": lambda profile: Range(-3.0, 9.0, 5.0, profile),
    "range, touching bands": lambda profile: Range(1.0, 6.0, 5.0, profile),
    "quadrant": lambda profile: TwoWayThreshold((2.0, -1.0), 5.0, profile),
    "disc": lambda profile: Disc((2.0, -1.0), 6.0, 5.0, profile),
    "small disc": lambda profile: Disc((2.0, -1.0), 2.5, 5.0, profile),
    "ball": lambda profile: Disc((2.0, -1.0, 0.5), 6.0, 5.0, profile),
}


def around(query: Query, count: int, seed: int) -> np.ndarray:
    """Points on all sides of a region's boundary, and far away."""
    rng = np.random.default_rng(seed)
    k = query.dimension
    points = rng.normal(size=(count, k)) * 10.0 ** rng.uniform(-0.5, 1.7, size=(count, 1)) + 1.0
    return points[:, 0] if k == 1 else points


def as_point(x: Any) -> Any:
    return float(x) if np.ndim(x) == 0 else [float(c) for c in x]


@pytest.mark.parametrize("profile", ["linear", "smoothstep"])
@pytest.mark.parametrize("region", REGIONS)
class TestRegions:
    @pytest.mark.deep(keep=5)
    def test_value_and_bound(self, oracles, region, profile):
        query = REGIONS[region](profile)
        points = around(query, 200, 1)
        for reach in (0.0, math.inf):
            bound = query.smooth_bound(points, 0.07, reach=reach)
            values = query.value(points)
            with mp.workdps(30):
                for x, f, b in zip(points, values, bound, strict=True):
                    s = oracles.signed_distance(query, as_point(x))
                    assert f == pytest.approx(float(oracles.value(query, s)), rel=1e-12, abs=1e-14)
                    expected = float(oracles.bound(query, s, mp.mpf(0.07), reach))
                    assert b == pytest.approx(expected, rel=1e-10, abs=0)

    @pytest.mark.deep(keep=1)
    def test_pairs_of_points(self, region, profile):
        """s is 1-Lipschitz, B at reach ∞ bounds every chord, and B is smooth."""
        query = REGIONS[region](profile)
        points = around(query, 900, 2)
        flat = points[:, None] if query.dimension == 1 else points
        gap = np.linalg.norm(flat[:, None, :] - flat[None, :, :], axis=2)
        np.fill_diagonal(gap, math.inf)
        s = np.asarray(query.signed_distance(points))
        # The points have up to 100 units, of which doubles keep 2e-14.
        assert np.all(np.abs(s[:, None] - s[None, :]) <= gap + 1e-13)
        f = query.value(points)
        rise = np.maximum(np.abs(f[:, None] - f[None, :]) - 1e-13, 0)
        chord = rise / gap
        assert np.max(chord) <= query.lipschitz * (1 + 1e-12)
        for growth in ("exponential", "linear"):
            for reach in (0.0, 4.0, math.inf):
                bound = query.smooth_bound(points, 0.07, growth=growth, reach=reach)
                within = np.where(gap <= reach, chord, 0.0)
                assert np.all(bound >= within.max(axis=1) * (1 - 1e-9))
                t = 0.07 * np.where(np.isfinite(gap), gap, 0.0)
                log_growth = t if growth == "exponential" else np.log1p(t)
                log_bound = np.log(bound)
                excess = log_bound[:, None] - log_bound[None, :] - log_growth
                assert np.max(excess) <= 1e-10

    @pytest.mark.deep(keep=2)
    def test_guarantee(self, region, profile):
        query = REGIONS[region](profile)
        rng = np.random.default_rng(3)
        here = around(query, 700, 4)
        there = moved(here, 10 ** rng.uniform(-3, 1.3, size=700) / RATE, rng)
        for mechanism in mechanisms_of(query, PRIVACY):
            worst = largest_rate(mechanism, here, there, rounding=1e-11)
            assert worst <= RATE * (1 + 1e-9)
            assert worst >= 0.5 * RATE

    def test_release(self, fixed_bits, region, profile):
        """The rounded ideal output, on the ridges and corners of s as well."""
        query = REGIONS[region](profile)
        k = query.dimension
        points: list[Any] = [as_point(x) for x in around(query, 20, 5)]
        points += [3.0, -3.0, 1e15, 3.5] if k == 1 else [[2.0, -1.0, 0.5][:k], [1e15] * k]
        points += [] if k == 1 else [[8.0, -1.0, 0.5][:k], [2.0, 5.0, -1e15][:k]]
        mechanisms: list[QueryMechanism] = [SmoothMechanism(query, PRIVACY)]
        if profile == "smoothstep":
            mechanisms.append(DebiasedLaplace(query, PRIVACY))
        for seed, x in enumerate(points):
            value = random.Random(seed).getrandbits(1024)
            for mechanism in mechanisms:
                released = mechanism.release(x, fixed_bits(value, 1024))
                assert [released] == ideal(mechanism, x, value, 1024)


def test_the_quadrant_is_rounded_at_its_corner_and_straight_along_its_edges():
    """MATH §2.1: far along an edge f is that of one threshold; on the diagonal, of the arc."""
    query = TwoWayThreshold((0.0, 0.0), 2.0)
    t = np.linspace(-2, 2, 41)
    along = query.value(np.stack([np.full(41, 50.0), t], axis=1))
    np.testing.assert_allclose(along, np.clip(0.5 + t / 2, 0, 1), atol=1e-15)
    radius = 2 * (1 / math.sqrt(2) + 0.5)
    on_arc = radius * (1 - 1 / math.sqrt(2))
    assert float(query.value((on_arc, on_arc))) == pytest.approx(0.5, abs=1e-14)
    # The corner of the quadrant itself lies outside the arc.
    corner = float(query.signed_distance(np.array([0.0, 0.0])))
    assert corner == pytest.approx(radius * (1 - math.sqrt(2)), abs=1e-14)
