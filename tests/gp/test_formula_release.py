"""Test releases of formulas, their two arithmetics, and what no double holds."""

import math
import random
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from flint import arb

from geoveil.audit import black_box_bound
from geoveil.gp import (
    DebiasedLaplace,
    FormulaProfile,
    GeoPrivacy,
    Linear,
    LipschitzMechanism,
    ParameterError,
    Radial,
    SeededSource,
    SmoothMechanism,
)
from geoveil.gp.arithmetic import FLOAT
from geoveil.gp.exact import BALL, working_precision
from geoveil.gp.smooth.growth import Smoothness
from geoveil.gp.smooth.jet import FLOAT_JETS, BallJets, Jet
from tests.gp.test_formula import CASES, FAR, SPIKE, step, walk


def notch(middle: float, depth: float, exponent: Any) -> Callable[[Any, Any], Any]:
    """A smooth step down and up again, by a power of a base that changes its sign."""

    def formula(u: Any, ops: Any) -> Any:
        t = ops.clip((ops.power(u - middle, exponent) - depth) * 40, 0, 1)
        return t * t * (3 - 2 * t)

    return formula


@pytest.mark.deep(keep=0)
def test_releases_do_not_tell_points_apart(monkeypatch):
    """2,000 releases each at 0.055 and 0.065: ε = 50 per unit permits 0.5; 1e-6 to fail.

    The control takes a base for ≥ 0, whatever the exponent.
    """

    def shown(extent: float) -> float:
        profile = FormulaProfile(notch(0.2499, 0.02, 2), scale=1.0, extent=extent)
        mechanism = SmoothMechanism(Linear(profile, 1.0), GeoPrivacy(1.0, per=0.02))
        samples = [
            [mechanism.release(x, SeededSource(k + seed)) for k in range(2000)]
            for seed, x in ((0, 0.055), (10_000, 0.065))
        ]
        return black_box_bound(*samples, distance=0.01).rate

    assert shown(8.0) <= 50

    def old_power(self: Any, base: Any, exponent: Any) -> Any:
        return BALL.power(base.nonnegative_part(), exponent)

    monkeypatch.setattr(BallJets, "_power", old_power)
    with pytest.raises(ParameterError, match="float64 cannot evaluate"):
        shown(7.0)
    monkeypatch.setattr(FormulaProfile, "_require_floats", lambda *_: None)
    assert shown(7.0) > 60


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", CASES)
def test_two_arithmetics(name):
    """Float64 and balls agree to 1e-12 of the range, at knots and ends too."""
    case = CASES[name]
    profile = case.profile(scale=2.5)
    rng = np.random.default_rng(5)
    ends = [-case.extent, case.extent, 0.0, 0.5, -0.5, 1.0, -1.0, 1e80]
    u = np.concatenate([rng.normal(size=20) * 2, 3.1 + rng.normal(size=5) * SPIKE, ends])
    s = 2.5 * (np.abs(u) if case.ray else u)
    beta = Fraction(1, 3)
    low, high = profile.bounds
    steep = 1e-12 * (high - low) + 4e-16 * profile.lipschitz * np.minimum(np.abs(s), 50)
    floats: dict[str, Any] = {
        "value": (profile.value(s), steep),
        "bound": (profile.smooth_bound(s, Smoothness(beta)), 1e-12 * profile.lipschitz),
        "plugged in": (profile.debiased(s, Fraction(0)), steep),
    }
    ball: dict[str, Callable[[Any], Any]] = {
        "value": lambda t: profile.value(t, BALL),
        "bound": lambda t: profile.smooth_bound(t, Smoothness(beta), BALL),
        "plugged in": lambda t: profile.debiased(t, Fraction(0), BALL),
    }
    if name in FAR:
        smoothness = Smoothness(beta, reach=math.inf)
        far = profile.smooth_bound(s, smoothness)
        floats["far bound"] = (far, 1e-12 * profile.lipschitz)
        ball["far bound"] = lambda t: profile.smooth_bound(t, smoothness, BALL)
    if name in ("walk", "smoothstep", "spike"):
        low, high = profile.debiased_range(0.7)
        # Where pieces meet g jumps: either side will do there.
        keep = ~np.isin(np.abs(u), [0.0, 0.5] if name in ("smoothstep", "walk") else [])
        curvature = np.where(keep, 1e-12 * (high - low) + 40 * steep, high - low)
        floats["debiased"] = (profile.debiased(s, Fraction(0.7)), curvature)
        ball["debiased"] = lambda t: profile.debiased(t, Fraction(0.7), BALL)
    for part, (found, slack) in floats.items():
        slack = np.broadcast_to(slack, s.shape)
        for i, point in enumerate(s.tolist()):
            with working_precision(200):
                enclosed = ball[part](arb(point))
            assert abs(float(enclosed.mid()) - found[i]) <= slack[i] + float(enclosed.rad()), part


def walked(y: Any) -> Any:
    """φ(u) = e^{−u}, constant from 256 on, extended evenly."""
    return mp.exp(-min(abs(y), mp.mpf(256)))


def undone(v: Any, c: Any) -> Any:
    """g = φ − c²φ'' of the odd extension 2φ(0) − φ(−v)."""
    if v < 0:
        return 2 - undone(-v, c)
    return walked(v) * (1 - c * c) if v < 256 else walked(v)


@pytest.mark.parametrize("kind", ["smooth", "lipschitz", "debiased"])
def test_release_is_the_rounded_ideal_output(oracles, fixed_bits, kind):
    """e^{−r/500} in the plane, each part evaluated in mpmath at 120 digits.

    At reach 0 the smooth bound is e^{−u} up to β = 1/scale, to within the half percent of a cell.
    """
    profile = FormulaProfile(walk, scale=500.0)
    query = Radial(profile, center=(10.0, -20.0))
    privacy = GeoPrivacy(epsilon=0.75, per=300.0)
    mechanism: Any = {
        "smooth": SmoothMechanism,
        "lipschitz": LipschitzMechanism,
        "debiased": DebiasedLaplace,
    }[kind](query, privacy)
    rng = random.Random(7)
    bits = 1024
    for x in ((10.0, -20.0), (11.0, 30.0), (400.0, 500.0), (1e15, 3.0), (250.25, -1e4)):
        for lead in (0, 0, 3, 60):
            value = rng.getrandbits(bits) >> lead
            released = mechanism.release(x, fixed_bits(value, bits))
            with mp.workdps(150):
                rate = mp.mpf(0.75) / 300
                u = mp.hypot(mp.mpf(x[0]) - 10, mp.mpf(x[1]) + 20) / 500
                c = 1 / (rate * 500)
                if kind == "debiased":
                    z = oracles.quantile(oracles.STANDARD_LAPLACE, value, bits)
                    v = u + c * z
                    y = [undone(v, c)] * 2
                else:
                    z = oracles.quantile(mechanism.noise, value, bits)
                    if kind == "lipschitz":
                        least = 1 / mp.mpf(500)
                    else:
                        # The slope e^{−u} falls slower than e^{−βd} iff β > 1/500.
                        beta = rate * mp.mpf(mechanism.noise.beta)
                        assert beta < 1 / mp.mpf(500)
                        least = mp.exp(-beta * 500 * u) / 500
                    scales = [least / rate, least / rate * mp.mpf(1.0051)]
                    y = [walked(u) + scale * z for scale in scales]
                expected = [oracles.round_to_grid(one, mechanism.step) for one in y]
            assert min(expected) <= released <= max(expected)
            low, high = mechanism.grid_range
            assert low <= released <= high


def test_awkward_formulas_release_what_they_evaluate_to():
    """Numbers where a ball is expected, and pieces that are numbers."""

    def awkward(u: Any, ops: Any) -> Any:
        top = ops.maximum(0, ops.minimum(1, 1 - ops.absolute(u)))
        return top * ops.exp(-0.5) + ops.piecewise(u, (1,), (lambda v: 0, lambda v: 0))

    profile = FormulaProfile(awkward, 2.0, extent=4.0)
    mechanism = LipschitzMechanism(Linear(profile, 1.0), GeoPrivacy(1.0, per=1e-6))
    for x in (-9.0, -2.0, -1.3, 0.0, 0.5, 2.0, 3.0):
        released = mechanism.release(x, SeededSource(3)) * mechanism.step
        assert released == pytest.approx(max(1 - abs(x) / 2, 0) * math.exp(-0.5), abs=1e-4)


@pytest.mark.deep
def test_first_use_in_many_threads():
    """Each thread meets a formula that no cache knows, in the middle of a release."""

    def fresh(k: int) -> Callable[[Any, Any], Any]:
        return lambda u, ops: ops.exp(-u * u / (k + 2))

    def run(formula: Callable[[Any, Any], Any]) -> list[int]:
        query = Linear(FormulaProfile(formula, scale=10.0, extent=4.0), direction=1.0)
        mechanism = SmoothMechanism(query, GeoPrivacy(1.0, per=5.0))
        return [mechanism.release(0.7 * i, SeededSource(i)) for i in range(10)]

    alone = [run(fresh(k)) for k in range(3)]
    formulas = [fresh(k) for k in range(3) for _ in range(2)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(run, formulas))
    assert together == [alone[k] for k in range(3) for _ in range(2)]


@pytest.mark.deep(keep=0)
def test_float_arithmetic_stays_silent():
    """An overflow on the way to a number, or in a piece that is not taken, is no warning."""

    def softplus(u: Any, ops: Any) -> Any:
        return ops.piecewise(u, (1,), (lambda v: v, lambda v: 1 + ops.log(v))) / (1 + ops.exp(-u))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profile = FormulaProfile(softplus, 1.0, extent=300.0)
        assert np.isfinite(profile.value(np.linspace(-400, 400, 81))).all()
        assert profile.value(np.asarray(-2.0), FLOAT) == pytest.approx(-2 / (1 + math.exp(2)))


def test_no_outputs_have_no_preimages():
    profile = FormulaProfile(step, scale=2.0)
    for y in (np.empty(0), np.array([9.0]), np.empty((0, 2))):
        v, slope = profile.debiased_preimages(y, 0.5)
        assert v.shape[1:] == slope.shape[1:] == y.shape
        assert np.isnan(v).all()


@pytest.mark.deep(keep=1, rest=0)
@pytest.mark.parametrize(
    ("formula", "exact"),
    [
        (lambda u, ops: 1 / (1 + ops.exp(-8 * u)), lambda u: 1 / (1 + mp.exp(-8 * u))),
        (lambda u, ops: ops.exp(-ops.exp(6 * u)), lambda u: mp.exp(-mp.exp(6 * u))),
        (lambda u, ops: 2 / (ops.exp(9 * u) + ops.exp(-9 * u)), lambda u: mp.sech(9 * u)),
    ],
)
def test_what_overflows_far_from_a_narrow_step_has_slopes_and_a_law(formula, exact) -> None:
    """Oracle: mpmath. Control: float64 alone finds no number."""
    profile = FormulaProfile(formula, scale=3.0, extent=60.0)
    u = np.array([-59.0, -41.0, -1.0, 0.1, 1.0, 41.0, 59.0])
    with np.errstate(all="ignore"):
        assert not np.isfinite(formula(Jet(u, 1.0, 0.0), FLOAT_JETS).curvature).all()
    j = profile._jet(u, FLOAT)
    with mp.workdps(60):
        for order, numbers in enumerate((j.value, j.slope, j.curvature)):
            expected = [float(mp.diff(exact, mp.mpf(x), order)) for x in u]
            np.testing.assert_allclose(numbers, expected, rtol=1e-9, atol=1e-12)
    mechanism = DebiasedLaplace(Linear(profile, 1.0), GeoPrivacy(1.0, per=3.0))
    assert np.isfinite(mechanism.law().points).all()
    assert np.isfinite(mechanism.simulate(3 * u, np.random.default_rng(1))).all()
