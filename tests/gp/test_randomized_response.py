"""Randomised response: ε-LDP, the exact mean, and the bits that decide it.

The oracle is the definition: a bit with P[1] = q + (1−2q)f, q = 1/(1+e^ε), in mpmath; and for what
is released, the two integers, whose probabilities follow from the mean f and from nothing else.
"""

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import (
    Disc,
    FormulaProfile,
    GaussianKernel,
    Linear,
    LocalLaplace,
    LocalPrivacy,
    ParameterError,
    Query,
    SeededSource,
    Threshold,
)
from geoveil.gp.mechanisms.local import RandomizedResponse
from geoveil.gp.smooth.cells import _Search

MAKERS: dict[str, Callable[[], Query]] = {
    "linear": lambda: Threshold(at=10.0, width=4.0),
    "smoothstep": lambda: Threshold(at=10.0, width=4.0, profile="smoothstep"),
    "kernel": lambda: GaussianKernel(center=10.0, bandwidth=2.0),
}
EPSILONS = [1e-50, 1e-30, 1e-12, 1e-3, 0.1, 1.0, 5.0, 20.0, 36.0, 60.0, 700.0, 800.0, 1e6, 1e50]
POINTS = [-1e9, -3.0, 8.0, 8.001, 9.0, 10.0, 10.9, 12.0, 14.0, 1e9]


def excess(epsilon: float) -> Any:
    """c = 1/(e^ε − 1) in mpmath."""
    with mp.workdps(60):
        return 1 / mp.expm1(mp.mpf(epsilon)) if epsilon < 1e5 else mp.mpf(0)


def integers(mechanism: RandomizedResponse) -> tuple[Any, Any]:
    """The two outputs as exact numbers, from the range and the step."""
    low, high = mechanism.grid_range
    unit = mp.mpf(2) ** mechanism.step_exponent
    return low * unit, high * unit


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_ratio_of_probabilities_is_at_most_exp_epsilon(epsilon):
    """From the integers alone: the mean f fixes p(f) = (f − low)/(high − low), f in [0, 1]."""
    for step in (None, 1.0, 2.0**-10):
        try:
            mechanism = RandomizedResponse(MAKERS["linear"](), LocalPrivacy(epsilon), step=step)
        except ParameterError:
            assert step is not None
            assert epsilon < 1e-9, "the only grids refused are those too fine for 64 bits"
            continue
        with mp.workdps(80):
            low, high = integers(mechanism)
            above, below = ((1 - low) / -low, high / (high - 1))
            worst = max(mp.log(above), mp.log(below))
            assert worst <= mp.mpf(epsilon)
            if step is None and 1e-50 < epsilon < 36:
                assert worst >= mp.mpf(epsilon) * (1 - mp.mpf(2) ** -16), "more noise than needed"
        assert -(2**63) <= mechanism.grid_range[0] < 0 < mechanism.grid_range[1] < 2**63


def test_control_atoms_rounded_inwards_break_the_guarantee():
    """What rounding c down, or to the nearest, would cost: more than ε for some ε."""
    broken = 0
    for epsilon in np.linspace(0.3, 6.0, 40).tolist():
        with mp.workdps(40):
            nearest = mp.nint(excess(epsilon) * 2**10) / 2**10
            broken += int(nearest == 0 or mp.log((1 + nearest) / nearest) > epsilon)
    assert 10 <= broken <= 30


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("name", MAKERS)
def test_audit_of_the_density(name, epsilon):
    """sup over all pairs of points and both atoms of the log-ratio: at most ε, and ε."""
    mechanism = RandomizedResponse(MAKERS[name](), LocalPrivacy(epsilon))
    x = np.concatenate([np.linspace(0, 20, 801), [-1e9, 1e9]])
    log_density = mechanism.log_density(np.array(mechanism.atoms)[:, None], x)
    worst = float(np.max(log_density.max(axis=1) - log_density.min(axis=1)))
    assert 0.999 * epsilon <= worst <= epsilon * (1 + 1e-9)
    np.testing.assert_allclose(np.exp(log_density).sum(axis=0), 1.0, rtol=1e-12)
    others = np.array([0.0, 1.0, mechanism.atoms[0] * (1 + 1e-9), math.inf, -7.0])
    assert np.all(mechanism.log_density(others[:, None], x) == -math.inf)


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("name", MAKERS)
def test_moments_are_those_of_the_definition(oracles, name, epsilon):
    """Mean f, variance p(1−p)/(1−2q)², probabilities q + (1−2q)f; to the grid's rounding."""
    query = MAKERS[name]()
    mechanism = RandomizedResponse(query, LocalPrivacy(epsilon))
    assert mechanism.unbiased
    variance, mean = mechanism.variance(POINTS), mechanism.mean(POINTS)
    low = mechanism.log_density(mechanism.atoms[0], POINTS)
    high = mechanism.log_density(mechanism.atoms[1], POINTS)
    with mp.workdps(50):
        q = 1 / (1 + mp.exp(mp.mpf(epsilon)))
        for index, x in enumerate(POINTS):
            f = oracles.value(query, oracles.signed_distance(query, x))
            p = q + (1 - 2 * q) * f
            expected = p * (1 - p) / (1 - 2 * q) ** 2
            assert float(mean[index]) == pytest.approx(float(f), rel=1e-14, abs=0)
            assert float(variance[index]) == pytest.approx(float(expected), rel=1e-6, abs=0)
            assert float(low[index]) == pytest.approx(float(mp.log(1 - p)), rel=1e-6, abs=1e-12)
            assert float(high[index]) == pytest.approx(float(mp.log(p)), rel=1e-6, abs=1e-12)
        atoms = [float(-q / (1 - 2 * q)), float((1 - q) / (1 - 2 * q))]
        assert list(mechanism.atoms) == pytest.approx(atoms, rel=1e-7, abs=0)


def test_no_epsilon_is_so_large_that_nothing_is_left():
    """c below the finest grid is rounded up to it: a report still has two values."""
    for epsilon in (60.0, 800.0, 1e50):
        mechanism = RandomizedResponse(MAKERS["linear"](), LocalPrivacy(epsilon))
        assert mechanism.step == 2.0**-61
        assert mechanism.grid_range == (-1, 2**61 + 1)
        variance = mechanism.variance([0.0, 10.0, 20.0])
        np.testing.assert_allclose(variance, [2.0**-61, 0.25, 2.0**-61], rtol=1e-12)


def test_less_variance_than_laplace_for_small_epsilon():
    """It is less up to ε = 2.3 everywhere, and at ε = 2.4 no longer where f = 1/2."""
    x = np.linspace(7.0, 13.0, 61)
    for epsilon, less in ((0.1, True), (1.0, True), (2.3, True), (2.4, False)):
        privacy = LocalPrivacy(epsilon)
        ours = RandomizedResponse(MAKERS["linear"](), privacy).variance(x)
        laplace = LocalLaplace(MAKERS["linear"](), privacy).variance(x)
        assert bool(np.all(ours < laplace)) is less
        assert ours[0] == pytest.approx(1 / (4 * math.sinh(epsilon / 2) ** 2), rel=1e-6, abs=0)
        assert ours.max() == pytest.approx(1 / (4 * math.tanh(epsilon / 2) ** 2), rel=1e-6, abs=0)


@pytest.mark.parametrize("epsilon", EPSILONS[1:])
@pytest.mark.parametrize("name", [*MAKERS, "plane"])
def test_release_is_the_ideal_bit(oracles, fixed_bits, name, epsilon):
    """For U below or above 1 − p, both chosen close to it and far from it."""
    query: Any = MAKERS[name]() if name in MAKERS else Disc((0.0, 0.0), 5.0, 4.0)
    points: list[Any] = POINTS if name in MAKERS else [(1.0, 2.0), (3.5, 3.6), (4.0, 4.0), (9, 9)]
    mechanism = RandomizedResponse(query, LocalPrivacy(epsilon))
    assert isinstance(mechanism.step_exponent, int)
    rng = random.Random(17)
    for x in points:
        with mp.workdps(400):
            low, high = integers(mechanism)
            f = oracles.value(query, oracles.signed_distance(query, x))
            cut = (high - f) / (high - low)
            at = int(mp.floor(cut * mp.mpf(2) ** 1024))
            near = [at + sign * (1 << bits) for sign in (1, -1) for bits in (700, 900, 960)]
            values = [v for v in near if 0 <= v < 1 << 1024] + [rng.getrandbits(1024)]
            for value in values:
                u = (mp.mpf(value) + mp.mpf(1) / 2) / mp.mpf(2) ** 1024
                source = fixed_bits(value << 256, 1280)
                released = mechanism.release(x, source)
                assert released == mechanism.grid_range[1 if u > cut else 0]
                assert source.draws[0] == 128


def test_exact_mean_of_what_is_released():
    """A dyadic share of all U: the midpoint of the ramp at ε = log 3, by enumeration of 2^10 U."""
    query = Threshold(at=0.0, width=8.0)
    mechanism = RandomizedResponse(query, LocalPrivacy(math.log(3.0)), step=2.0**-3)
    low, high = mechanism.grid_range
    for x in (-5.0, -2.0, 0.0, 1.0, 3.0, 5.0):
        total = Fraction(0)
        for lead in range(1 << 10):
            # The middle of each of 2^10 intervals stands for all of it, but for the one cut.
            source = SeededSource(0)
            source.bits = lambda count, lead=lead: (  # type: ignore[method-assign, misc]
                (2 * lead + 1) << (count - 11) if count == 128 else 1 << (count - 1)
            )
            total += mechanism.release(x, source) * Fraction(1, 1 << 10)
        expected = Fraction(float(query.value(x))) / Fraction(mechanism.step)
        assert abs(total - expected) <= Fraction(high - low, 1 << 10)


def capped(u: Any, ops: Any) -> Any:
    """From −4 at u = −1 to 6 at u = 1."""
    return 1 + 5 * u


def test_bounds_other_than_0_and_1():
    """f in [−4, 6]: all is stretched by 10; ε-LDP, the mean f, the variance (f − A)(B − f)."""
    query = Linear(FormulaProfile(capped, scale=3.0, extent=1.0), direction=1.0)
    for epsilon in (0.2, 1.0, 4.0):
        mechanism = RandomizedResponse(query, LocalPrivacy(epsilon))
        x = np.linspace(-5.0, 5.0, 201)
        f = np.clip(1 + 5 * x / 3, -4.0, 6.0)
        c = 10 / math.expm1(epsilon)
        np.testing.assert_allclose(mechanism.atoms, [-4 - c, 6 + c], rtol=1e-6)
        np.testing.assert_allclose(mechanism.variance(x), (f + 4 + c) * (6 + c - f), rtol=1e-5)
        log_density = mechanism.log_density(np.array(mechanism.atoms)[:, None], x)
        worst = float(np.max(log_density.max(axis=1) - log_density.min(axis=1)))
        assert 0.999 * epsilon <= worst <= epsilon * (1 + 1e-12)
        mean = np.array(mechanism.atoms) @ np.exp(log_density)
        np.testing.assert_allclose(mean, f, rtol=0, atol=1e-9)
        # Control: the atoms for [0, 1] would give probabilities outside [0, 1].
        assert (6 + c / 10) / (1 + c / 5) > 1
        released = {mechanism.release(2.0, SeededSource(seed)) for seed in range(60)}
        assert released <= set(mechanism.grid_range)


def test_values_outside_the_bounds_cannot_break_the_guarantee():
    """A profile that is wrong about its bounds is answered as if it were at the nearer end."""
    query = Threshold(10.0, 4.0)
    object.__setattr__(query, "profile", WRONG)
    mechanism = RandomizedResponse(MAKERS["linear"](), LocalPrivacy(1.0))
    wrong = RandomizedResponse(query, LocalPrivacy(1.0))
    atoms = np.array(wrong.atoms)[:, None]
    x = np.array([-100.0, 0.0, 9.0, 11.0, 1e6])
    np.testing.assert_array_equal(
        wrong.log_density(atoms, x), mechanism.log_density(atoms, [0.0, 0.0, 0.0, 20.0, 20.0])
    )
    for point, end in ((1e6, 20.0), (-1e6, 0.0)):
        for seed in range(50):
            theirs = wrong.release(point, SeededSource(seed))
            assert theirs == mechanism.release(end, SeededSource(seed))


class _Wrong(type(Threshold(0.0, 4.0).profile)):  # type: ignore[misc]
    """The ramp's parameters and bounds, but the value s itself."""

    def value(self, s: Any, ops: Any = None) -> Any:
        return s


WRONG = _Wrong(4.0)


def test_the_law_of_a_narrow_formula_is_that_of_its_values(monkeypatch):
    """Where the profile is known from long cells, bounds of its values are far from them."""
    monkeypatch.setattr(_Search, "_is_short", lambda self, low, high: high - low < 0.002)
    monkeypatch.setattr(_Search, "_near_attained", lambda self, j: True)

    def wave(u: Any, ops: Any) -> Any:
        step, z = ops.clip(u, ops.constant(0), ops.constant(1)), (u - 0.5) * 780
        return step * step * (3 - 2 * step) + 1.67 * z * ops.exp(-z * z)

    profile = FormulaProfile(wave, scale=1.0, extent=3.0)
    mean = RandomizedResponse(Linear(profile, 1.0), LocalPrivacy(1.0)).law().points[:, 0]
    attained = profile.value(0.5 + np.linspace(-0.6, 0.6, 100_001))
    assert mean.min() <= attained.min()
    assert attained.max() <= mean.max()
    assert np.ptp(mean) <= 1.02 * np.ptp(attained)
    assert np.ptp(profile.bounds) > 1.1 * np.ptp(attained)  # before cells were cut
