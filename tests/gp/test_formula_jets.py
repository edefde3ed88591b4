"""Test values, slopes and curvatures of formulas against mpmath, at points and on balls."""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from flint import arb

from geoveil.gp.smooth.jet import FLOAT_JETS, Jet, enclosure, jet

OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "exp, minus": (lambda u, o: o.exp(-u * u), lambda u: mp.exp(-u * u)),
    "log": (lambda u, o: o.log(3 + u), lambda u: mp.log(3 + u)),
    "expm1": (lambda u, o: o.expm1(u) / 7, lambda u: mp.expm1(u) / 7),
    "log1p": (lambda u, o: o.log1p(u * u), lambda u: mp.log1p(u * u)),
    "sqrt": (lambda u, o: o.sqrt(1 + u * u), lambda u: mp.sqrt(1 + u * u)),
    "power": (lambda u, o: o.power(2 + u, 1.7), lambda u: mp.power(2 + u, mp.mpf(1.7))),
    "negative power": (lambda u, o: o.power(1 + u * u, -2), lambda u: (1 + u * u) ** -2),
    "power of u": (lambda u, o: o.power(2, u), lambda u: mp.power(2, u)),
    "u to the u": (lambda u, o: o.power(3 + u, u), lambda u: mp.power(3 + u, u)),
    "integer powers": (lambda u, o: u**0 + u**1 - u**2 + u**3, lambda u: 1 + u - u**2 + u**3),
    "even powers": (lambda u, o: 1 / (1 + u**4 + u**6), lambda u: 1 / (1 + u**4 + u**6)),
    "quotients": (
        lambda u, o: (u / 3 - 2 / (u * u + 1)) / (2 + u),
        lambda u: (u / 3 - 2 / (u * u + 1)) / (2 + u),
    ),
    "numbers on the left": (
        lambda u, o: 1 - 2 * u + 3 + 0.5 / (4 + u),
        lambda u: 4 - 2 * u + 0.5 / (4 + u),
    ),
    "constants": (
        lambda u, o: o.constant(Fraction(1, 3)) * u * o.exp(-1) + u * o.sqrt(2),
        lambda u: u * mp.exp(-1) / 3 + u * mp.sqrt(2),
    ),
    "minimum": (lambda u, o: o.minimum(u * u, 1 + u), lambda u: min(u * u, 1 + u)),
    "maximum": (lambda u, o: o.maximum(0, o.exp(u) - 1), lambda u: max(mp.mpf(0), mp.exp(u) - 1)),
    "clip": (lambda u, o: o.clip(u * u * u, -1, 0.5), lambda u: min(max(u**3, -1), mp.mpf(0.5))),
    "absolute": (lambda u, o: o.exp(-o.absolute(u - 0.2)), lambda u: mp.exp(-abs(u - mp.mpf(0.2)))),
    "piecewise": (
        lambda u, o: o.piecewise(
            u, (-0.5, o.constant(0.5)), (lambda v: -v, lambda v: v * v + 0.25, lambda v: v)
        ),
        lambda u: -u if u < -0.5 else (u * u + mp.mpf(0.25) if u < 0.5 else u),
    ),
    "nested": (
        lambda u, o: o.maximum(o.minimum(u, 1 - u), o.absolute(u) / 4) ** 2,
        lambda u: max(min(u, 1 - u), abs(u) / 4) ** 2,
    ),
    "positive": (lambda u, o: o.log(o.positive(2 + u)), lambda u: mp.log(2 + u)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_jets(name):
    """Value, slope and curvature at a point; and balls around them on wide balls."""
    formula, exact = OPERATIONS[name]
    rng = random.Random(name)
    for _ in range(8):
        at = rng.uniform(-1.6, 1.6)
        with mp.workdps(40):
            expected = [exact(mp.mpf(at)), mp.diff(exact, at), mp.diff(exact, at, 2)]
        floats = jet(formula(Jet(np.array([at]), 1.0, 0.0), FLOAT_JETS))
        found = [floats.value, floats.slope, floats.curvature]
        for ours, theirs in zip(found, expected, strict=True):
            assert float(np.asarray(ours).reshape(-1)[0]) == pytest.approx(
                float(theirs), rel=1e-11, abs=1e-11
            )
        for radius in (0.0, 1e-9, 1e-3, 0.3, 1.1):
            middle = at + rng.uniform(-1, 1) * radius
            balls, _ = enclosure(formula, arb(middle, radius * 1.000001))
            for ball, theirs in zip(
                (balls.value, balls.slope, balls.curvature), expected, strict=True
            ):
                # mpmath differentiates numerically.
                assert (ball + arb(0, 1e-15)).contains(arb(mp.nstr(theirs, 30)))
            if radius <= 1e-9:
                assert float(balls.value.rad()) <= 1e-7


POWERS = (0, 1, 2, 3, 4, 7, -1, -2, -3, 2.0, -1.0, 0.5, 1.5, 2.5, -0.5, Fraction(4, 3), 1.1)
BASES = ((-1.0, 2.0), (-2.0, 1.0), (-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0), (-0.3, -0.1), (0.2, 4.0))


@pytest.mark.parametrize("exponent", POWERS, ids=str)
@pytest.mark.parametrize("how", ["number", "constant"])
def test_powers_of_bases_that_change_sign(exponent, how):
    """Value, slope and curvature at points of cells on both sides of 0, or no finite enclosure."""

    def formula(u: Any, ops: Any) -> Any:
        return ops.power(u - 0.25, exponent if how == "number" else ops.constant(exponent))

    p = Fraction(exponent)
    for low, high in BASES:
        j, _ = enclosure(formula, arb(low + 0.25).union(arb(high + 0.25)))
        # Elsewhere there may be nothing to enclose, or no end to it.
        if p.denominator == 1 and (p >= 0 or low * high > 0):
            assert j.value.is_finite()
            assert j.slope.is_finite()
            assert j.curvature.is_finite()
        for x in np.linspace(low, high, 12).tolist():
            if x == 0 or (x < 0 and p.denominator != 1):
                continue
            with mp.workdps(60):
                q, y = mp.mpf(p.numerator) / p.denominator, mp.mpf(x)
                expected = [y**q, q * y ** (q - 1), q * (q - 1) * y ** (q - 2)]
            for ball, number in zip((j.value, j.slope, j.curvature), expected, strict=True):
                near = arb(mp.nstr(number, 40)) + arb(0, 1e-30)
                assert not ball.is_finite() or ball.overlaps(near), (low, high, x)
