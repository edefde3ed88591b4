"""Test that every coordinate of a released point is the rounded ideal one, at 200 digits.

The random numbers are U₁, …, U_m, drawn one after the other with 128 bits each, then 64 more of
each in the same order whenever they do not settle the integers. The first k make the radius.
"""

import math
import random
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st

from geoveil.gp import (
    GeoPrivacy,
    ParameterError,
    PlanarLaplace,
    SeededSource,
    UnsupportedError,
)

NUMBERS = {1: 2, 2: 3, 3: 5}
ROUNDS = 24
INT64 = (-(2**63), 2**63 - 1)
PRIVACY = GeoPrivacy(1.0, per=500.0)
COUNT = 20_000


def dealt(numbers: list[int]) -> tuple[int, int]:
    """Return the stream of bits in which these numbers of 128 + 64·ROUNDS bits are dealt."""
    stream, count, left = 0, 0, 128 + 64 * ROUNDS
    for size in [128] + [64] * ROUNDS:
        left -= size
        for number in numbers:
            stream = stream << size | (number >> left) & ((1 << size) - 1)
            count += size
    return stream, count


def uniform(number: int) -> Any:
    """Return the middle of what is known of U."""
    return (2 * number + 1) / mp.mpf(2) ** (129 + 64 * ROUNDS)


def direction(dimension: int, shares: list[Any]) -> list[Any]:
    """Return the unit vector that the remaining numbers say, from the definition."""
    if dimension == 1:
        return [mp.mpf(1 if shares[0] > 0.5 else -1)]
    angle = 2 * mp.pi * shares[-1]
    circle = [mp.cos(angle), mp.sin(angle)]
    if dimension == 2:
        return circle
    height = 2 * shares[0] - 1
    return [mp.sqrt(1 - height**2) * part for part in circle] + [height]


def rate(oracles: Any, privacy: GeoPrivacy) -> Any:
    return oracles.exact(privacy.epsilon) / oracles.exact(privacy.per)


def ideal(oracles: Any, mechanism: PlanarLaplace, x: Any, numbers: list[int]) -> tuple[int, ...]:
    """Return the correctly rounded ideal point."""
    k = mechanism.dimension
    with mp.workdps(max(200, mp.mp.dps)):
        shares = [uniform(number) for number in numbers]
        radius = -mp.fsum(map(mp.log, shares[:k])) / rate(oracles, mechanism.privacy)
        point = x if isinstance(x, tuple) else (x,)
        moved = [
            oracles.exact(c) + radius * d
            for c, d in zip(point, direction(k, shares[k:]), strict=True)
        ]
        return tuple(oracles.round_to_grid(y, mechanism.step) for y in moved)


@st.composite
def cases(draw: st.DrawFn) -> tuple[PlanarLaplace, Any, list[int]]:
    """A mechanism with random parameters, a point, and its random numbers."""
    k = draw(st.sampled_from([1, 2, 3]))
    epsilon, per = 10.0 ** draw(st.floats(-12, 3)), 10.0 ** draw(st.floats(-3, 6))
    step = draw(st.sampled_from([0.0, 0.0, 2.0**-30, 0.25, 1024.0, 2.0**40]))
    mechanism = PlanarLaplace(GeoPrivacy(epsilon, per=per), k, step)
    coordinate = st.one_of(
        # On a grid point, on a boundary between two of them, and just beside it.
        st.integers(-(10**6), 10**6).map(lambda i: i * mechanism.step),
        st.integers(-(10**6), 10**6).map(lambda i: (i + 0.5) * mechanism.step),
        st.integers(-1000, 1000).map(lambda i: math.nextafter((i + 0.5) * mechanism.step, 1e99)),
        st.floats(-1e6, 1e6),
        st.sampled_from([0.0, -0.0, 1e15, -1e15, 5e-324, 1e90]),
    )
    x = draw(coordinate) if k == 1 else tuple(draw(coordinate) for _ in range(k))
    bits = random.Random(draw(st.integers(0, 2**32)))
    numbers = []
    for _ in range(NUMBERS[k]):
        # Equal bits lead to radii near 0 and far out, and to the ends of angles and heights.
        lead = draw(st.sampled_from([0, 0, 0, 1, 5, 30, 128, 140, 300]))
        number = bits.getrandbits(128 + 64 * ROUNDS) >> lead
        top = (1 << 128 + 64 * ROUNDS) - 1
        numbers.append(top - number if draw(st.booleans()) else number)
    return mechanism, x, numbers


@pytest.mark.deep
@settings(max_examples=5 * settings().max_examples)
@given(case=cases())
def test_release_is_the_rounded_ideal_point(oracles, fixed_bits, case):
    mechanism, x, numbers = case
    source = fixed_bits(*dealt(numbers))
    released = mechanism.release(x, source)
    with mp.workdps(500):
        expected = ideal(oracles, mechanism, x, numbers)
    assert released == expected
    assert all(type(k) is int and INT64[0] <= k <= INT64[1] for k in released)
    first = [128] * len(numbers)
    assert source.draws[: len(first)] == first
    assert set(source.draws[len(first) :]) <= {64}
    assert len(source.draws) % len(first) == 0, "the numbers are refined together"


@pytest.mark.parametrize("agree", [128, 129, 191, 193, 600])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_bits_beyond_the_first_decide_where_they_must(oracles, fixed_bits, k, agree):
    """U₁ agrees in its first bits with one that puts a coordinate on a rounding boundary."""
    mechanism = PlanarLaplace(PRIVACY, k, step=2.0**-4)
    bits, size = random.Random(agree), 128 + 64 * ROUNDS
    numbers = [bits.getrandbits(size) for _ in range(NUMBERS[k])]
    x = (10.3, -7.7, 4.1)[:k] if k > 1 else 10.3
    with mp.workdps(500):
        shares = [uniform(number) for number in numbers]
        heading = direction(k, shares[k:])[0]
        y0 = mp.mpf(10.3)
        others = -mp.fsum(map(mp.log, shares[1:k]))
        rough = y0 + (others / rate(oracles, PRIVACY) + 300) * heading
        boundary = (mp.floor(rough / mechanism.step) + mp.mpf(1) / 2) * mechanism.step
        radius = (boundary - y0) / heading * rate(oracles, PRIVACY)
        at = mp.exp(-(radius - others))
        assert 0 < at < 1
        near = int(mp.floor(at * mp.mpf(2) ** size))
    found = []
    for side in (-1, 1):
        numbers[0] = near + side * (1 << size - agree - 3)
        assert abs(numbers[0] - near) <= 1 << size - agree - 3
        source = fixed_bits(*dealt(numbers))
        released = mechanism.release(x, source)
        with mp.workdps(500):
            assert released == ideal(oracles, mechanism, x, numbers)
        assert source.draws[: len(numbers)] == [128] * len(numbers)
        each = source.drawn // len(numbers)
        assert agree - 16 <= each <= 128 + 64 * math.ceil((agree + 40 - 128) / 64)
        found.append(released[0])
    assert abs(found[0] - found[1]) == 1, "the two sides of one boundary"


def released_noise(k: int) -> np.ndarray:
    """Return COUNT released points of a person at the origin, in units of the noise scale."""
    mechanism, source = PlanarLaplace(GeoPrivacy(1.0, per=1.0), k), SeededSource(70 + k)
    origin = (0.0,) * k if k > 1 else 0.0
    return np.array([mechanism.release(origin, source) for _ in range(COUNT)]) * mechanism.step


def spherical_angles_kept(noise: np.ndarray) -> np.ndarray:
    """Return the points with a polar angle uniform in [0, π], as the seed paper's authors draw."""
    radius, azimuth = np.linalg.norm(noise, axis=1), np.arctan2(noise[:, 1], noise[:, 0])
    polar = np.pi * (1 + noise[:, 2] / radius) / 2
    ring = radius * np.sin(polar)
    parts = [ring * np.cos(azimuth), ring * np.sin(azimuth), radius * np.cos(polar)]
    return np.stack(parts, axis=1)


def heights_within(oracles: Any, noise: np.ndarray) -> bool:
    """Return whether every coordinate of the direction is uniform in [−1, 1], as on a sphere."""
    heights = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    distances = [oracles.ks_distance(heights[:, i], lambda h: (h + 1) / 2) for i in range(3)]
    return bool(max(distances) <= oracles.ks_limit(COUNT))


@pytest.mark.deep
@pytest.mark.parametrize("k", [1, 2, 3])
def test_radius_is_gamma_and_direction_uniform(oracles, k):
    """n = 20,000 releases, Kolmogorov-Smirnov, α = 1e-6 each; wrong shapes must fail."""
    noise = released_noise(k)
    radius = np.linalg.norm(noise, axis=1)
    limit = oracles.ks_limit(COUNT)
    laws = {shape: scipy.stats.gamma(shape).cdf for shape in (k - 0.25, k, k + 0.25)}
    assert oracles.ks_distance(radius, laws[k]) <= limit
    assert oracles.ks_distance(radius, laws[k - 0.25]) > limit, "the control must fail"
    assert oracles.ks_distance(radius, laws[k + 0.25]) > limit, "the control must fail"
    # Nor does the direction say anything about the radius.
    for half in (noise[:, 0] > 0, noise[:, -1] < 0):
        assert oracles.ks_distance(radius[half], laws[k]) <= oracles.ks_limit(int(half.sum()))
    if k == 1:
        right = int((noise > 0).sum())
        assert scipy.stats.binomtest(right, COUNT, 0.5).pvalue >= oracles.ALPHA
        assert scipy.stats.binomtest(right, COUNT, 0.52).pvalue < oracles.ALPHA, "the control"
        return
    turn = np.arctan2(noise[:, 1], noise[:, 0]) / (2 * np.pi) + 0.5
    assert oracles.ks_distance(turn, lambda t: t) <= limit
    assert oracles.ks_distance(turn**1.1, lambda t: t) > limit, "the control must fail"
    if k == 3:
        assert heights_within(oracles, noise)
        assert not heights_within(oracles, spherical_angles_kept(noise)), "the control must fail"


@pytest.mark.parametrize("k", [1, 2, 3])
def test_coordinates_that_do_not_fit_become_the_largest_that_do(k):
    mechanism = PlanarLaplace(PRIVACY, k, step=2.0**-20)
    for sign, end in ((1.0, INT64[1]), (-1.0, INT64[0])):
        far = sign * 2.0**60
        x = far if k == 1 else (far, *(0.0,) * (k - 1))
        released = mechanism.release(x, SeededSource(5))
        assert released[0] == end
        assert all(abs(other) < 2**40 for other in released[1:])
    # One step of noise on either side of the end, where only some of the points saturate.
    edge = 2.0**43
    x = edge if k == 1 else (edge, *(0.0,) * (k - 1))
    firsts = [mechanism.release(x, SeededSource(i))[0] for i in range(40)]
    assert all(value <= INT64[1] for value in firsts)
    assert 5 < firsts.count(INT64[1]) < 35


@pytest.mark.parametrize("k", [4, 5, 30])
def test_more_than_three_dimensions_are_simulated_only(k):
    source = SeededSource(1)
    with pytest.raises(UnsupportedError, match="1, 2, 3"):
        PlanarLaplace(PRIVACY, k).release((0.0,) * k, source)
    assert source.bits(128) == SeededSource(1).bits(128), "no bits were spent"
    assert PlanarLaplace(PRIVACY, k).simulate(np.zeros((3, k)), np.random.default_rng(1)).any()


@pytest.mark.parametrize(
    "step", [3.0, 0.3, -1.0, 2.0**201, 2.0**-201, math.nan, math.inf, "1", None, True, False, []]
)
def test_a_step_is_a_power_of_two(step):
    with pytest.raises(ParameterError, match="step"):
        PlanarLaplace(PRIVACY, 2, step)


def test_what_can_be_made_can_be_released():
    """From end to end of the permitted parameters, or it is refused before a point is given."""
    for epsilon in (1e-50, 1e-10, 1.0, 1e10, 1e50):
        for per in (1e-50, 1e-10, 1.0, 1e10, 1e50):
            try:
                mechanism = PlanarLaplace(GeoPrivacy(epsilon, per=per), 2)
            except ParameterError:
                # 1/ε may be any number but those no grid is made for.
                assert not 1e-50 <= per / epsilon <= 1e50
                continue
            released = mechanism.release((0.5, -3.0), SeededSource(1))
            assert all(isinstance(k, int) for k in released)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_rounding_is_lost_in_the_noise(oracles, k):
    """The default step adds less than 0.01 % to the variance (k+1)/ε² of a coordinate."""
    for exponent in np.linspace(-9, 9, 37):
        privacy = GeoPrivacy(1.0, per=10.0**exponent)
        mechanism = PlanarLaplace(privacy, k)
        variance = float((k + 1) / rate(oracles, privacy) ** 2)
        assert mechanism.step**2 / 12 <= 1e-4 * variance
        assert math.frexp(mechanism.step)[0] == 0.5
        # And 2^40 noise scales fit into 64 bits.
        assert mechanism.step * 2.0**63 >= 2.0**40 * float(1 / rate(oracles, privacy))
