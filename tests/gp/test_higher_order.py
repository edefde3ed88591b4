"""Steps of order 4 and 6: the kernels from their definition, by mpmath, quadrature and brute force.

Oracles: the factored kernels k(v), whose integral is φ and whose slope is its curvature.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.campaign import QUERIES
from geoveil.gp import (
    DebiasedLaplace,
    FourthOrderStep,
    GeoPrivacy,
    RandomizedResponse,
    SixthOrderStep,
    SmoothMechanism,
    Smoothstep,
    Threshold,
)
from geoveil.gp.exact import BALL, working_precision
from geoveil.gp.privacy import LocalPrivacy
from geoveil.gp.queries.profiles.soft_step import SoftStep

KERNELS: dict[type[SoftStep], Callable[[Any], Any]] = {
    Smoothstep: lambda v: (1 - v * v) * 3 / 4,
    FourthOrderStep: lambda v: (1 - v * v) ** 2 * (1 - 3 * v * v) * 105 / 64,
    SixthOrderStep: lambda v: (1 - v * v) ** 2 * (15 - 110 * v * v + 143 * v**4) * 315 / 2048,
}
ORDERS = {Smoothstep: 2, FourthOrderStep: 4, SixthOrderStep: 6}
HIGHER = (FourthOrderStep, SixthOrderStep)
PRIVACY = GeoPrivacy(1.0, per=1.0)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(300)


def kernel_of(step: SoftStep, s: Any) -> Any:
    """φ'(s), from the definition."""
    v = 2 * s / step.width
    return KERNELS[type(step)](v) * 2 / step.width if abs(v) < 1 else 0 * v


def soft_minus_hard(step: SoftStep, density: Callable[[Any], Any]) -> Any:
    """Bias against the hard step under a density, by quadrature of the library's own φ."""
    edge = mp.mpf(step.width) / 2
    with working_precision(100):

        def value(s: Any) -> Any:
            at = step.value(BALL.constant(Fraction(int(s * 2**90), 2**90)), BALL)
            return mp.mpf(str(at.mid().str(28, radius=False)))

        below = mp.quad(lambda s: value(s) * density(s), [-edge, 0])
        return below + mp.quad(lambda s: (value(s) - 1) * density(s), [0, edge])


@pytest.mark.parametrize("kind", HIGHER)
def test_value_is_the_integral_of_the_kernel(kind: type[SoftStep]) -> None:
    step = kind(3.0)
    with mp.workdps(25):
        for s in (-1.5, -1.4, -0.9, -0.2, 0.0, 1e-9, 0.5, 0.8660254, 1.3, 1.5):
            expected: Any = mp.quad(lambda t: kernel_of(step, t), [-mp.mpf("1.5"), s])
            assert float(step.value(np.array(s))) == pytest.approx(float(expected), abs=2e-15)
            slope = float(step.slope(np.array(s)))
            assert slope == pytest.approx(float(kernel_of(step, mp.mpf(s))), abs=1e-14)
    beyond = np.array([-9.0, -1.5, 1.5, 4.0])
    assert step.value(beyond).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert step.debiased(beyond, Fraction(2)).tolist()[0] == 0.0
    assert step.debiased(beyond, Fraction(2)).tolist()[3] == 1.0


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("claimed", [4, 6])
def test_moments_below_the_order_vanish(kind: type[SoftStep], claimed: int) -> None:
    """∫k = 1 and ∫v^j k = 0 for 0 < j < p. Control: a smoothstep called order 4 fails."""
    with mp.workdps(30):
        moment: list[Any] = [
            mp.quad(lambda v, j=j: v**j * KERNELS[kind](v), [-1, 0, 1]) for j in (0, 2, 4)
        ]
        is_of_order = abs(moment[0] - 1) < 1e-25 and all(
            abs(found) < 1e-25 for found in moment[1 : claimed // 2]
        )
    assert is_of_order == (ORDERS[kind] >= claimed)


@pytest.mark.parametrize("kind", KERNELS)
def test_the_bias_falls_with_the_order_of_the_width(kind: type[SoftStep]) -> None:
    """Half the width has 2^−p of the bias, to 5 %, under a smooth density without symmetry.

    Control: a smoothstep, called order 4, has 1/4 of it and not 1/16.
    """
    with mp.workdps(25):
        wide, narrow = (
            soft_minus_hard(kind(w), lambda s: mp.npdf(s, mp.mpf("0.7"), 1)) for w in (0.8, 0.4)
        )
    found = math.log2(float(wide / narrow))
    assert found == pytest.approx(ORDERS[kind], abs=0.07)
    assert (abs(found - 4) < 0.07) == (kind is FourthOrderStep)


@pytest.mark.parametrize("kind", HIGHER)
@pytest.mark.parametrize("b", [0.1, 0.4, 1.0])
def test_debiased_undoes_the_noise(kind: type[SoftStep], b: float) -> None:
    """E[g(s + bZ)] = φ(s), by quadrature. Control: φ itself is off."""
    step, exact = kind(3.0), Fraction(b)
    for s in (-2.0, -1.1, 0.0, 0.6, 1.49, 2.5):
        marks = sorted({s - 40 * b, min(-1.5, s), s, -1.5, 1.5, max(1.5, s), s + 40 * b})
        means = []
        for undone in (exact, Fraction(0)):
            total = 0.0
            for low, high in pairwise(marks):
                v = low + (high - low) * (1 + NODES) / 2
                law = np.exp(-np.abs(v - s) / b) / (2 * b)
                total += float(np.sum(WEIGHTS * step.debiased(v, undone) * law)) * (high - low) / 2
            means.append(total)
        assert means[0] == pytest.approx(float(step.value(np.array(s))), abs=1e-9)
        if s == -1.1:
            assert abs(means[1] - means[0]) > 1e-4


@pytest.mark.parametrize("kind", HIGHER)
@pytest.mark.parametrize("b", [0.0, 1e-3, 0.1, 1 / 3, 1.0, 5.0])
def test_the_stated_range_holds_all_and_is_tight(kind: type[SoftStep], b: float) -> None:
    step = kind(1.0)
    low, high = step.debiased_range(b)
    found = step.debiased(np.linspace(-0.6, 0.6, 600_001), Fraction(b))
    assert low <= found.min()
    assert found.max() <= high
    assert high - low <= (found.max() - found.min()) * 1.001
    assert low == pytest.approx(1 - high, rel=1e-12)
    if b == 0:
        assert step.bounds == pytest.approx((low, high), abs=1e-6)


def test_the_range_of_published_widths() -> None:
    assert FourthOrderStep(3.0).debiased_range(1.0) == pytest.approx((-1.75, 2.75), abs=0.005)
    assert FourthOrderStep(6.0).debiased_range(1.0) == pytest.approx((-0.45, 1.45), abs=0.005)


@pytest.mark.parametrize("kind", HIGHER)
def test_preimages_are_all_that_give_a_report(kind: type[SoftStep]) -> None:
    """Where g takes a value, with its slope there: as often as a fine grid crosses it."""
    step, b = kind(3.0), 1.0
    grid = np.linspace(-1.6, 1.6, 400_001)
    g = step.debiased(grid, Fraction(1))
    for y in (-1.2, -0.3, 0.4, 0.5, 1.02, 2.1):
        v, slope = step.debiased_preimages(np.array(y), b)
        v = np.sort(v[~np.isnan(v)])
        crossed = np.flatnonzero(np.diff(g > y))
        assert v == pytest.approx(grid[crossed], abs=1e-5)
        assert np.nansum(1 / slope) == pytest.approx(
            np.sum(1 / np.abs(np.gradient(g, grid)[crossed])), rel=1e-3
        )


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("growth", ["exponential", "linear"])
@pytest.mark.parametrize("reach", [0.0, 0.7, math.inf])
@pytest.mark.parametrize("kind", HIGHER)
def test_bound_is_the_supremum(kind: type[SoftStep], reach: float, growth: str) -> None:
    """At least the definition over a grid, and at most 2.5 % above: far cells are 2 % long.

    Control: a β 10 % too large is below it.
    """
    step, y = kind(2.0), np.linspace(-6.0, 6.0, 1201)
    phi = step.value(y)
    rise = np.abs(phi[:, None] - phi)
    gap = np.abs(y[:, None] - y)
    steepest = np.abs(np.gradient(phi, y))
    if reach:
        within = (gap > 0) & (gap <= reach * (1 + 1e-12))
        steepest = np.where(within, rise / np.where(gap > 0, gap, 1), 0).max(axis=1)
    told = False
    for beta in (0.1, 1.0):
        decay = np.exp(-beta * gap) if growth == "exponential" else 1 / (1 + beta * gap)
        brute = (steepest * decay).max(axis=1)
        ours = step.smooth_bound(y, beta, growth=growth, reach=reach)
        assert np.all(ours >= brute * (1 - 2e-4))
        assert np.all(ours <= brute * 1.025)
        wrong = step.smooth_bound(y, beta * 1.1, growth=growth, reach=reach)
        told |= bool(np.any(wrong < brute * (1 - 1e-5)))
    assert told


@pytest.mark.parametrize("kind", HIGHER)
def test_reports_keep_their_guarantee(kind: type[SoftStep]) -> None:
    """Every event of the debiased report, by brute force: P[y | s] ≤ e^{|s − s'|} P[y | s'].

    The noisy distance is put on a fine grid and its masses are summed by the report they lead to.
    Control: noise of a scale a tenth too small breaks it.
    """

    def largest_loss(b: float) -> float:
        step, edges = kind(3.0), np.linspace(-14.0, 14.0, 56_001)
        middle = (edges[1:] + edges[:-1]) / 2
        cell = np.round(step.debiased(middle, Fraction(b)) * 256).astype(int)
        cell -= cell.min()
        laws = []
        for s in (-2.0, -0.5, 0.0, 0.4, 1.0, 1.7):
            below = np.exp(-np.abs(edges - s) / b) / 2
            cdf = np.where(edges < s, below, 1 - below)
            laws.append((s, np.bincount(cell, np.diff(cdf)) + 1e-300))
        return max(
            float(np.max(np.log(p / q)[p + q > 1e-9])) / abs(s - t)
            for s, p in laws
            for t, q in laws
            if s != t
        )

    assert largest_loss(1.0) <= 1 + 1e-6
    assert largest_loss(0.9) > 1.02


@pytest.mark.parametrize("kind", HIGHER)
def test_mechanisms_take_what_overshoots(kind: type[SoftStep]) -> None:
    """The variance of additive noise, and the atoms of two numbers, count the whole range."""
    query = Threshold(0.0, 3.0, kind.name)
    low, high = query.profile.bounds
    assert low < -0.05
    assert high > 1.05
    least, most = RandomizedResponse(query, LocalPrivacy(1.0)).atoms
    excess = (high - low) / (math.e - 1)
    assert least == pytest.approx(low - excess, rel=1e-6)
    assert most == pytest.approx(high + excess, rel=1e-6)
    assert SmoothMechanism(query, PRIVACY).variance(0.0) > 0
    found = DebiasedLaplace(query, PRIVACY)
    assert found.unbiased
    assert found.range == query.profile.debiased_range(1.0)


@pytest.mark.parametrize("profile", ["linear", "smoothstep", "fourth-order", "sixth-order"])
def test_campaigns_carry_the_name(profile: str) -> None:
    query = Threshold(1.0, 2.0, profile)
    wire: Any = QUERIES["threshold"].wire
    message = wire.write(query)
    assert wire.read(message) == query
    assert message.profile == {"linear": 1, "smoothstep": 2, "fourth-order": 3}.get(profile, 4)
