"""Test smooth bounds with long chords, and at far points.

At reach ∞ the Gaussian kernel's bound has no closed form; the oracles here find the supremum by
searching over pairs of points, and evaluate it in mpmath.
"""

import math
from functools import lru_cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.special import lambertw

from geoveil.gp import GaussianKernel, Query
from geoveil.gp.queries.profiles.gaussian import touching_point_of_top
from geoveil.gp.smooth.growth import Smoothness
from tests.oracles import MAKERS

INFINITY = math.inf
BETAS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 3.0, 5.0, 10.0)
RADII = (0.0, 1e-3, 0.1, 0.4, 0.8, 0.9999, 1.0, 1.0001, 1.2, 1.6, 2.0, 2.7, 4.0, 7.0, 15.0, 50.0)
BANDWIDTH = 4.0


def steepest(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the steepest chord from z ≥ 0 ends and its slope, by search over the chords.

    The chord's slope has one maximum over ends on the other side of the inflection. It is flat
    there, so that the slope is exact to rounding though the end is not.
    """
    z = np.asarray(z, dtype=np.float64)
    low, high = np.where(z < 1, 1.0, 0.0), np.where(z < 1, 3.0, np.minimum(z, 1.0))

    def chord(w: np.ndarray) -> np.ndarray:
        gap, middle = np.abs(w - z), (w + z) / 2
        least = np.minimum(w, z)
        rise = -np.expm1(-gap * middle) / np.where(gap > 0, gap, 1.0)
        return np.asarray(np.exp(-least * least / 2) * np.where(gap > 0, rise, z))

    for _ in range(70):
        third = (high - low) / 3
        left_wins = chord(low + third) > chord(high - third)
        low, high = np.where(left_wins, low, low + third), np.where(left_wins, high - third, high)
    end = (low + high) / 2
    return end, chord(end)


def chord_slope(z: Any, w: Any) -> Any:
    """Return the slope of the chord between two points of the bell, in mpmath."""
    if abs(z - w) < mp.mpf(10) ** -12:
        return abs(z) * mp.exp(-z * z / 2)
    return abs(mp.exp(-z * z / 2) - mp.exp(-w * w / 2)) / abs(z - w)


MESH = np.unique(
    np.concatenate(
        [
            np.linspace(0, 8, 2001),
            np.geomspace(8, 60, 400),
            *(1 + s * np.geomspace(1e-9, 1, 400) for s in (-1, 1)),
        ]
    )
)


@lru_cache(maxsize=1)
def _mesh_log_slopes() -> np.ndarray:
    return np.asarray(np.log(steepest(MESH)[1]))


def supremum(beta_h: float, radii: tuple[float, ...]) -> list[Any]:
    """Return h·B at reach ∞ for each radius: pairs found in float64, evaluated at 30 digits.

    A lower bound of the supremum, and off by the square of what the search is off.
    """
    r = np.asarray(radii)[:, None]
    log_slope = _mesh_log_slopes() - beta_h * np.abs(MESH - r)
    # The best starting point, refined between its neighbours; and r itself, a corner.
    best = [mp.mpf(0)] * len(radii)
    at = np.clip(np.argmax(log_slope, axis=1), 1, MESH.size - 2)
    starts = [np.asarray(radii)]
    for first, last in ((at - 1, at), (at, at + 1)):
        low, high = MESH[first], MESH[last]
        for _ in range(60):
            third = (high - low) / 3
            a, b = low + third, high - third
            value = [np.log(steepest(z)[1]) - beta_h * np.abs(z - r[:, 0]) for z in (a, b)]
            left = value[0] > value[1]
            low, high = np.where(left, low, a), np.where(left, b, high)
        starts.append((low + high) / 2)
    with mp.workdps(30):
        for z in starts:
            for i, (start, end) in enumerate(zip(z, steepest(z)[0], strict=True)):
                slope = chord_slope(mp.mpf(start), mp.mpf(end))
                decay = mp.exp(-mp.mpf(beta_h) * abs(mp.mpf(start) - mp.mpf(radii[i])))
                best[i] = max(best[i], slope * decay)
    return best


@pytest.mark.deep
@pytest.mark.parametrize("beta_h", BETAS)
def test_kernel_at_reach_infinity_to_nine_digits(beta_h):
    """16 rates × 16 radii: the supremum over pairs of points, neither below nor above."""
    query = GaussianKernel(center=0.0, bandwidth=BANDWIDTH)
    ours = query.smooth_bound(np.asarray(RADII) * BANDWIDTH, beta_h / BANDWIDTH, reach=INFINITY)
    for r, found, reference in zip(RADII, ours * BANDWIDTH, supremum(beta_h, RADII), strict=True):
        assert found >= float(reference) * (1 - 1e-13), f"below the supremum at r = {r}h"
        assert found <= float(reference) * (1 + 1e-9), f"above the supremum at r = {r}h"


@pytest.mark.deep
@pytest.mark.parametrize("beta_h", [1e-5, 0.2, 5.0])
def test_the_two_oracles_agree(oracles, beta_h):
    """Pairs of points, and roots of the equation of tangency, which shares nothing with them."""
    radii = (0.1, 0.9999, 2.0, 50.0)
    with mp.workdps(30):
        other = [oracles.kernel_bound_everywhere(mp.mpf(beta_h), mp.mpf(r)) for r in radii]
    for a, b in zip(supremum(beta_h, radii), other, strict=True):
        assert float(a) == pytest.approx(float(b), rel=1e-12, abs=0)
    # Control: a rate one part in ten thousand off is told apart where the rate counts.
    if beta_h == 0.2:
        wrong = [float(b) for b in supremum(beta_h * 1.0001, radii)]
        assert any(abs(w / float(b) - 1) > 1e-6 for w, b in zip(wrong, other, strict=True))


def test_the_chord_from_the_centre_ends_where_lambert_says():
    """z = 0: w² = −2 W₋₁(−½ e^{−1/2}) − 1 [SGP Lemma 4.7]; B(0) is its slope once β is large."""
    with mp.workdps(40):
        lambert = mp.lambertw(-mp.exp(-mp.mpf(1) / 2) / 2, -1).real
        w = mp.sqrt(-2 * lambert - 1)
        assert touching_point_of_top() == float(w)
        scipys = lambertw(-math.exp(-0.5) / 2, -1).real
        assert touching_point_of_top() == pytest.approx(
            math.sqrt(-2 * scipys - 1), rel=1e-15, abs=0
        )
        # The tangent at w, and so the steepest of all chords from the top.
        assert abs(1 - (1 + w * w) * mp.exp(-w * w / 2)) < mp.mpf(10) ** -35
        slope = chord_slope(mp.mpf(0), w)
        assert slope == max(slope, *(chord_slope(mp.mpf(0), w * s) for s in (0.9, 0.999, 1.001)))
    assert float(steepest(np.asarray([0.0]))[0][0]) == pytest.approx(float(w), rel=1e-6)
    for h, center in ((1.0, (0.0, 0.0)), (250.0, (3.0, -4.0, 7.0))):
        query = GaussianKernel(center, h)
        # The chord's slope rises away from the top at the relative rate 1/w = 0.63.
        for beta_h in (0.65, 1.0, 10.0, 500.0):
            found = float(query.smooth_bound(center, beta_h / h, reach=INFINITY)) * h
            assert found == pytest.approx(float(slope), rel=1e-10, abs=0)
        lower = float(query.smooth_bound(center, 0.6 / h, reach=INFINITY)) * h
        assert lower > float(slope) * (1 + 1e-4), "below that rate, better chords start elsewhere"
        flat = float(query.smooth_bound(center, 1e-9 / h, reach=INFINITY)) * h
        assert flat == pytest.approx(math.exp(-0.5), rel=1e-8, abs=0), "with β → 0 it is L"


# What the authors of the seed paper compute in public code [SGP Lemmas 4.6, 4.7]: the largest
# of a few candidates. The chords among them touch at the maximizers w = r∓ of the *local* slope,
# which is not where the slope of a chord, as its start moves, changes at the rate β.


def tangent_start(w: float) -> float | None:
    """Return the z ≠ w from which the steepest chord touches at w; None if there is none."""

    def miss(z: float) -> float:
        return math.exp(-z * z / 2) - (1 + w * (w - z)) * math.exp(-w * w / 2)

    near, step = w, (w - 1) * -1e-3
    if step == 0:
        return None
    near += step
    far = near
    sign = miss(near) > 0
    while (miss(far) > 0) == sign:
        far += 50 * step
        if abs(far) > 1e4:
            return None
    for _ in range(200):
        middle = (near + far) / 2
        near, far = (middle, far) if (miss(middle) > 0) == sign else (near, middle)
    return (near + far) / 2


def published_bound(beta_h: float, r: float, *, found: bool = True) -> float:
    """Return h times the largest of the seed's candidates for B at reach ∞, r > 0 [SGP 4.6].

    The candidates: chords that touch at r∓, from where they start; from r itself the steepest
    chord, and the one to the centre; the local slope at r∓, and at r. One counts if it starts on
    the side of r on which the decay it was derived with is the true one. The code looks for the
    end of the steepest chord from r with a solver that starts between h and r, and for many r > h
    it comes out hundreds of h away: `found` False leaves that chord out.
    """
    root = math.sqrt(beta_h**2 + 4)
    low, high = (root - beta_h) / 2, (root + beta_h) / 2

    def decayed(slope: float, start: float) -> float:
        return slope * math.exp(-beta_h * abs(start - r))

    def slope(u: float) -> float:
        return u * math.exp(-u * u / 2)

    candidates = [slope(r), -math.expm1(-r * r / 2) / r]
    if found or r <= 1:
        candidates.append(float(steepest(np.asarray([r]))[1][0]))
    for maximizer, beyond in ((low, True), (high, False)):
        candidates += [
            decayed(slope(maximizer), start)
            for start in (maximizer, tangent_start(maximizer))
            if start is not None and start > 0 and (start > r) == beyond
        ]
    return max(candidates)


PUBLISHED = [
    # βh, r/h, h·B by the public code, whether it finds the end of the steepest chord from r.
    (0.1, 2.1, 0.5447336338928875, True),
    (0.3, 1.5, 0.5737026084346271, True),
    (0.3, 2.5, 0.39598507149077705, False),
    (0.3, 3.5, 0.29335295607832024, False),
    (1.0, 0.5, 0.5663085753746386, True),
    (1.0, 1.6, 0.5609899651750972, True),
    (1.0, 2.0, 0.43233235838169365, False),
    (1.0, 3.0, 0.3296303344872526, False),
]


@pytest.mark.deep
@pytest.mark.parametrize(("beta_h", "r", "value", "found"), PUBLISHED)
def test_published_bound_is_what_the_public_code_computes(beta_h, r, value, found):
    """Recorded values of it, which are never above the supremum."""
    assert published_bound(beta_h, r, found=found) == pytest.approx(value, rel=1e-9)
    (reference,) = supremum(beta_h, (r,))
    assert value <= float(reference) * (1 + 1e-9)


def at_the_centre(beta_h: float, ratio: float) -> float:
    """Return how far the seed's equation at r = 0 is from holding, for w = ratio·z [SGP 4.7].

    Its z has w² + βz = 1, and the chord from z is to touch at w.
    """
    z = (-beta_h + math.sqrt(beta_h**2 + 4 * ratio**2)) / (2 * ratio**2)
    w = ratio * z
    return math.exp(-z * z / 2) - (1 + w * (w - z)) * math.exp(-w * w / 2)


# Far away.

FAR = np.array([1e3, 1e4, 1e5, 1e6])
SLACK = {"smooth": 1.01, "noise": 1.025}
"""How far above the supremum the two bounds may be; the cells grow from 100,000 length scales."""


def both_bounds(
    query: Query, points: np.ndarray, beta: float, growth: str, reach: float
) -> dict[str, np.ndarray]:
    """Return the smooth bound, and the one for which noise is drawn, at points on the line."""
    noise = query.profile.noise_bound(points, Smoothness(beta, growth, reach))
    return {
        "smooth": np.asarray(query.smooth_bound(points, beta, growth=growth, reach=reach)),
        "noise": np.asarray(noise),
    }


@pytest.mark.deep
@pytest.mark.parametrize("reach", [0.0, 0.5, 400.0, INFINITY])
@pytest.mark.parametrize("growth", ["exponential", "linear"])
@pytest.mark.parametrize("name", MAKERS)
def test_bound_far_away_is_the_supremum(oracles, name, growth, reach):
    """1,000 to 1,000,000 length scales away: at least the brute force, little above, never 0."""
    size = 2.0
    query: Query = MAKERS[name](size)
    # Where chords start that just reach the band the brute force needs a finer grid.
    fine = np.linspace(max(reach - 1, 0), reach + 3, 200) if reach < INFINITY else FAR
    points = np.concatenate([FAR, -FAR, fine, -fine]) * size
    for beta in (1e-7 / size, 6e-4 / size, 0.3 / size):
        brute = oracles.brute_force_bound(query, points, beta, growth, reach * size)[:8]
        far = points[:8]
        assert np.all(brute >= 0)
        for kind, bound in both_bounds(query, far, beta, growth, reach * size).items():
            assert np.all(bound >= brute * (1 - 1e-9))
            settled = brute > 1e-300
            assert np.all(bound[settled] <= brute[settled] * SLACK[kind])
            assert np.all(bound[settled] > 0)
            assert settled[:1].all()
            assert growth == "exponential" or settled.all()


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("reach", [0.0, 0.5, 400.0, INFINITY])
@pytest.mark.parametrize("growth", ["exponential", "linear"])
@pytest.mark.parametrize("name", MAKERS)
def test_bound_is_never_zero(name, growth, reach):
    """Except where e^{−βd}/h is no double. A bound of 0 would be a report without noise."""
    query = MAKERS[name](1.0)
    points = np.concatenate([np.geomspace(1e-3, 1e90, 50), [0.0]])
    points = np.concatenate([points, -points])
    for beta in (1e-7, 0.3):
        for bound in both_bounds(query, points, beta, growth, reach).values():
            assert np.all(np.isfinite(bound))
            representable = np.ones(points.shape, dtype=bool)
            if growth == "exponential" and reach < INFINITY:
                representable = beta * np.abs(points) < 690
            assert np.all(bound[representable] > 0)
            assert np.all(bound <= query.lipschitz * 1.01)


@pytest.mark.deep
@pytest.mark.parametrize("beta_h", [1e-3, 0.3, 5.0])
@pytest.mark.parametrize("reach", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("growth", ["exponential", "linear"])
def test_kernel_at_finite_reach(oracles, growth, reach, beta_h):
    """At least the brute force and at most 1 % above, in all of the transition and beyond."""
    query = GaussianKernel(0.0, BANDWIDTH)
    points = np.array([0.0, 0.05, 0.3, 0.7, 0.95, 1.0, 1.05, 1.4, 2.0, 2.9, 4.0, 6.5, 11.0, 28.0])
    points = np.concatenate([points, [reach, reach + 1, reach + 2]]) * BANDWIDTH
    beta, span = beta_h / BANDWIDTH, reach * BANDWIDTH
    brute = oracles.brute_force_bound(query, points.tolist(), beta, growth, span)
    for ours in both_bounds(query, points, beta, growth, span).values():
        assert np.all(ours >= brute * (1 - 1e-9))
        assert np.all(ours <= brute * 1.01)
    # Control: the bound of a reach a tenth shorter is below, if chords of this length matter.
    if reach == 1.0 and beta_h == 5.0:
        short = query.smooth_bound(points, beta, growth=growth, reach=span * 0.9)
        assert np.any(short < brute * (1 - 1e-3)), "the control must fail"
