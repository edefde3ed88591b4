"""The Gaussian bell: φ(s) = e^{−s²/2h²}, s a distance, extended evenly [SGP §4.3; MATH §2.2, §5.1].

At reach ∞ the steepest chord from z touches the bell at w on the other side of h [SGP Lemma 4.7].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Exact, Real
from geoveil.gp.arrays import Array, distinct, np
from geoveil.gp.exact import BALL, BITS, round_down, working_precision
from geoveil.gp.queries.profiles.base import solutions
from geoveil.gp.queries.profiles.bell_chords import bell_bound
from geoveil.gp.queries.profiles.closed_form import ClosedFormProfile
from geoveil.gp.smooth.growth import EXPONENTIAL, Smoothness

_ROUND_UP = 1 + 1e-11
"""Factor that covers the error of the touching points, so that the bound remains valid."""
_FAINT = 3.7169221888498383
"""√(2 log 1000), the nearest double."""


@dataclass(frozen=True, slots=True)
class Gaussian(ClosedFormProfile):
    """A bell of height 1; the bandwidth h > 0 is in the unit of s."""

    bandwidth: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", validation.positive("bandwidth", self.bandwidth))

    @property
    def lipschitz(self) -> float:
        return math.exp(-0.5) / self.bandwidth

    @property
    def length_scale(self) -> float:
        return self.bandwidth

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """The ends of the bell: beyond 10h it is below 1e−21."""
        return (-10 * self.bandwidth, 10 * self.bandwidth)

    @property
    def tails(self) -> tuple[Array, Array]:
        return np.array([20 * self.bandwidth]), np.array([1e-21])  # farther out it falls faster

    @property
    def settled(self) -> tuple[float, float]:
        """The distance at which the bell is 0.001, a tenth of the smallest mean of interest."""
        return (-_FAINT * self.bandwidth, _FAINT * self.bandwidth)

    @property
    def limits(self) -> tuple[float, float]:
        return (0.0, 0.0)

    def value(self, s: Real, ops: Arithmetic = FLOAT) -> Real:
        u = s / ops.constant(self.bandwidth)
        return ops.exp(-(u * u) / 2)

    def local_lipschitz(self, z: Real, reach: float, ops: Arithmetic = FLOAT) -> Real:
        """Return the slope, here or where the steepest chord touches."""
        h = ops.constant(self.bandwidth)
        u = z / h
        if reach == 0:
            return u * ops.exp(-(u * u) / 2) / h
        w = _touching_point(np.asarray(u, dtype=np.float64))
        span = reach / self.bandwidth
        end = np.clip(w, u - span, u + span)
        return _chord(np.minimum(end, u), np.maximum(end, u)) / self.bandwidth * _ROUND_UP

    def slope_breakpoints(self, reach: float) -> tuple[float, ...]:
        h = self.bandwidth
        return (0.0, h) if reach == math.inf else (0.0, h, reach, reach + h)

    def closed_form(self, z: Real, smoothness: Smoothness, ops: Arithmetic = FLOAT) -> Real | None:
        """Return (c/h²)·e^{−c²/2h² − β|z−c|} at reach 0, z clipped to c in [c₋, c₊].

        At c∓ = (√(β²h⁴ + 4h²) ∓ βh²)/2 the bell's log-slope changes at the rate ±β.
        """
        if smoothness.growth != EXPONENTIAL or smoothness.reach > 0:
            return None
        h = ops.constant(self.bandwidth)
        c = ops.clip(z, *_maximizers(self.bandwidth, smoothness.beta, ops, ops.precision))
        u = c / h
        exponent = u * u / 2 + ops.constant(smoothness.beta) * ops.absolute(z - c)
        return u * ops.exp(-exponent) / h

    def noise_bound(self, s: Real, smoothness: Smoothness, ops: Arithmetic = FLOAT) -> Real:
        """Return the bound in closed form at reach 0, and at reach ∞ from cells of the bell."""
        if smoothness.reach < math.inf:
            return ClosedFormProfile.noise_bound(self, s, smoothness, ops)
        h = ops.constant(self.bandwidth)
        rate = round_down(Fraction(smoothness.beta) * Fraction(self.bandwidth))
        return bell_bound(rate, smoothness.growth)(ops.absolute(s) / h, ops) / h

    def debiased(self, v: Real, b: Exact, ops: Arithmetic = FLOAT) -> Real:
        h = ops.constant(self.bandwidth)
        u2 = v / h * (v / h)
        c = ops.constant(b) / h
        return ops.exp(-u2 / 2) * (1 + c * c * (1 - u2))

    def debiased_range(self, b: float) -> tuple[float, float]:
        """Return the range of g, with its minimum at u² = 3 + 1/c² and its maximum at 0."""
        if b == 0:
            return self.bounds
        c2 = (b / self.bandwidth) ** 2
        return (-2 * c2 * math.exp(-(3 + 1 / c2) / 2), 1 + c2)

    def cells(self, b: float) -> Array:
        """Return places a bandwidth apart, and where g or h turns: u² = 1, 3 + 1/c², 3 − 2/c²."""
        c2 = (b / self.bandwidth) ** 2
        turns = [3 + 1 / c2, 3 - 2 / c2] if c2 else []
        u = np.concatenate([np.arange(11.0), [math.sqrt(t) for t in turns if 0 < t < 100]])
        return distinct(np.concatenate([-u, u])) * self.bandwidth

    def estimated_variance(self, v: Array, b: float) -> Array:
        u2 = np.square(np.asarray(v) / self.bandwidth)
        c2 = (b / self.bandwidth) ** 2
        return np.asarray(np.exp(-u2) * (2 * c2 * u2 + np.square(c2 * (1 - u2))))

    def debiased_preimages(self, y: Array, b: float) -> tuple[Array, Array]:
        """Return up to four v: ±u on the falling and the rising branch."""
        c2 = (b / self.bandwidth) ** 2
        low, high = self.debiased_range(b)
        valley = math.sqrt(3 + 1 / c2) if b else 40.0
        turns = np.array([0.0, valley, valley + 40])

        def g(u: Array) -> Array:
            return np.asarray(np.exp(-(u * u) / 2) * (1 + c2 * (1 - u * u)))

        mesh = np.concatenate([-turns[:0:-1], turns])
        u = solutions(g, mesh, np.where((y > low) & (y < high), y, np.nan))
        slope = np.abs(u * np.exp(-(u * u) / 2) * (1 + 3 * c2 - c2 * u * u)) / self.bandwidth
        return u * self.bandwidth, slope


@lru_cache(maxsize=256)
def _maximizers(
    bandwidth: float, beta: Exact, ops: Arithmetic, precision: int
) -> tuple[Real, Real]:
    """Return c₋ and c₊ of reach 0, in the unit of s."""
    h = ops.constant(bandwidth)
    bh2 = ops.constant(beta) * h * h
    root = ops.sqrt(bh2 * bh2 + 4 * h * h)
    # The difference of nearly equal numbers, written as a quotient.
    return 2 * h * h / (root + bh2), (root + bh2) / 2


def _chord(low: Array, high: Array) -> Array:
    """Return (e^{−low²/2} − e^{−high²/2})/(high − low), and its limit where they are equal."""
    length, middle = high - low, (high + low) / 2
    rise = np.divide(-np.expm1(-length * middle), length, out=np.array(middle), where=length > 0)
    return np.asarray(np.exp(-low * low / 2) * rise)


@lru_cache(maxsize=1)
def touching_point_of_top() -> float:
    """Return the w of the chord from the top, z = 0, in units of h [SGP Lemma 4.7].

    w² = −2W₋₁(−e^{−1/2}/2) − 1, W₋₁ the lower branch of the Lambert W function.
    """
    with working_precision(BITS):
        half = BALL.constant(Fraction(-1, 2))
        return float((-2 * (half * half.exp()).lambertw(-1) - 1).sqrt())


def _touching_point(z: Array) -> Array:
    """Return w with e^{−z²/2} = (1 + w(w−z)) e^{−w²/2}, w ≠ z, for z ≥ 0 [SGP Lemma 4.7].

    F(w) = 1 + w(w−z) − e^{(w²−z²)/2} has a double root at z; the other one, beyond 1, is bisected.
    Near 1, where all three meet, w − 1 ≈ −(z − 1)/2.
    """
    z = np.asarray(z, dtype=np.float64)
    below = z < 1
    beyond = np.maximum(z, 1.0)
    left = np.where(below, 1.0, -np.expm1((1 - beyond * beyond) / 2) / beyond)
    right = np.where(below, touching_point_of_top(), np.minimum(1.0, 2 / beyond))
    for _ in range(60):
        w = (left + right) / 2
        # F falls through its root for z < 1 and, as w decreases from 1, rises through it for z > 1.
        with np.errstate(under="ignore"):
            positive = 1 + w * (w - z) > np.exp((w * w - z * z) / 2)
        left, right = np.where(positive, w, left), np.where(positive, right, w)
    return np.where(np.abs(z - 1) < 1e-4, 1 - (z - 1) / 2, (left + right) / 2)
