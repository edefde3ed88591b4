"""Soft steps of higher order: their bias against a hard step is of order w⁴ or w⁶ [MATH §2.1].

The slope of φ is a kernel k(v), v = 2s/w, with ∫k = 1 and no moments ∫v^j k, 0 < j < p: the least
polynomials that vanish at both ends of the band as (1 − v²)² does. So φ is a polynomial of v,

    φ = 1/2 + v·P(v²),

which overshoots 0 and 1. Being odd about 1/2 alone makes smoothstep a step of order 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Exact, Real
from geoveil.gp.arrays import Array, np
from geoveil.gp.queries.profiles.enclosed import EnclosedProfile
from geoveil.gp.queries.profiles.soft_step import SoftStep
from geoveil.gp.smooth.cells import SlopeCells
from geoveil.gp.smooth.jet import Jet

_CELLS = 1024
_ROUNDING = 1e-14
"""Bound on the rounding of a polynomial in float64, relative to the sum of its coefficients."""


class HigherOrderStep(SoftStep, EnclosedProfile):
    """A polynomial step from 0 at s = −w/2 to 1 at s = w/2."""

    ray: bool = False
    order: ClassVar[int]
    """p: the bias is of order w^p where the density has as many derivatives."""
    coefficients: ClassVar[tuple[int, ...]]
    """The coefficients of P: all over `divisor`, which makes them exact."""
    divisor: ClassVar[int]

    @property
    def scale(self) -> float:  # type: ignore[override]  # pyright: ignore  # read-only: frozen
        """The width: u runs from −1/2 to 1/2."""
        return self.width

    @property
    def length_scale(self) -> float:
        """Width of a ramp that is as steep at the centre."""
        return self.width * self.divisor / (2 * self.coefficients[0])

    def on_ray(self) -> HigherOrderStep:
        return self

    def slope(self, s: Array) -> Array:
        u = np.clip(np.asarray(s) / self.width, -0.5, 0.5)
        return np.asarray(self._jet(u, FLOAT).slope / self.width)

    @property
    def _cells(self) -> SlopeCells:
        return _enclosed(self.coefficients, self.divisor)

    @property
    def _ends(self) -> tuple[float, float]:
        return (-0.5, 0.5)

    def _at(self, u: Real, ops: Arithmetic) -> Real:
        v = 2 * u
        square = v * v
        result = ops.constant(0)
        for coefficient in reversed(self.coefficients):
            result = result * square + coefficient
        return ops.constant(0.5) + v * result / self.divisor

    def _jet(self, u: Real, ops: Arithmetic) -> Jet:
        v = 2 * u
        square = v * v
        first = second = ops.constant(0)
        for i, coefficient in reversed(list(enumerate(self.coefficients))):
            first = first * square + coefficient * (2 * i + 1)
            if i:
                second = second * square + coefficient * (2 * i + 1) * 2 * i
        return Jet(self._at(u, ops), 2 * first / self.divisor, 4 * v * second / self.divisor)

    def debiased(self, v: Real, b: Exact, ops: Arithmetic = FLOAT) -> Real:
        """Return g(v): a polynomial inside the band, exactly 0 or 1 outside."""
        half = ops.constant(self.width) / 2
        lift = (ops.constant(b) / half) * (ops.constant(b) / half)

        def inside(v: Real) -> Real:
            t = v / half
            square, result, last = t * t, ops.constant(0), 0
            for i, coefficient in reversed(list(enumerate(self.coefficients))):
                result = result * square + (coefficient - lift * (last * (2 * i + 3) * (2 * i + 2)))
                last = coefficient
            return ops.constant(0.5) + t * result / self.divisor

        zero, one = ops.constant(0), ops.constant(1)
        return ops.piecewise(v, (-half, half), (lambda v: zero, inside, lambda v: one))

    def debiased_range(self, b: float) -> tuple[float, float]:
        """Return the range of g: certified, at most a thousandth of it too wide."""
        lift = np.polynomial.Polynomial(_step(self.coefficients, self.divisor))
        low, high = _bounds(lift - (2 * b / self.width) ** 2 * lift.deriv(2))
        return min(float(low.min()), 0.0), max(float(high.max()), 1.0)


@dataclass(frozen=True, slots=True)
class FourthOrderStep(HigherOrderStep):
    """A step of order 4: φ' = (2/w)·(105/64)(1 − v²)²(1 − 3v²), v = 2s/w.

    Args:
        width: w > 0, in the unit of s.
    """

    name: ClassVar[str] = "fourth-order"
    order: ClassVar[int] = 4
    coefficients: ClassVar[tuple[int, ...]] = (105, -175, 147, -45)
    divisor: ClassVar[int] = 64


@dataclass(frozen=True, slots=True)
class SixthOrderStep(HigherOrderStep):
    """A step of order 6: φ' = (2/w)·(315/2048)(1 − v²)²(15 − 110v² + 143v⁴), v = 2s/w.

    Args:
        width: w > 0, in the unit of s.
    """

    name: ClassVar[str] = "sixth-order"
    order: ClassVar[int] = 6
    coefficients: ClassVar[tuple[int, ...]] = (4725, -14700, 23814, -17820, 5005)
    divisor: ClassVar[int] = 2048


def _step(coefficients: tuple[int, ...], divisor: int) -> Array:
    """Return the coefficients of φ by powers of v."""
    found = np.zeros(2 * len(coefficients))
    found[0] = 0.5
    found[1::2] = np.array(coefficients) / divisor
    return found


@lru_cache(maxsize=8)
def _enclosed(coefficients: tuple[int, ...], divisor: int) -> SlopeCells:
    """Return the cells of a step in u = s/w, between −1/2 and 1/2."""
    step = np.polynomial.Polynomial(_step(coefficients, divisor))
    steepest = 2 * coefficients[0] / divisor  # k is largest at the centre
    return SlopeCells(
        np.linspace(-0.5, 0.5, _CELLS + 1),
        _bounds(step),
        np.clip(2 * _bounds(step.deriv()), -steepest, steepest),
        4 * _bounds(step.deriv(2)),
        (),
        (),
        (0.0, 1.0),
        ray=False,
    )


def _bounds(polynomial: np.polynomial.Polynomial) -> Array:
    """Return bounds of a polynomial on each cell of [−1, 1], (2, n).

    Between the ends of a cell it differs from the chord by at most h²/8 of its largest curvature,
    and that from its own chord likewise.
    """
    ends, share = np.linspace(-1.0, 1.0, _CELLS + 1), 1 / (2 * _CELLS**2)
    at, curvature = polynomial(ends), polynomial.deriv(2)
    bent = share * float(np.abs(polynomial.deriv(4).coef).sum())
    rounding = _ROUNDING * float(np.abs(polynomial.coef).sum())
    slack = share * (float(np.abs(curvature(ends)).max()) + bent) + rounding
    return np.stack([np.minimum(at[1:], at[:-1]) - slack, np.maximum(at[1:], at[:-1]) + slack])
