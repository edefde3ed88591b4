"""Soft steps: 0 before a band of width w and 1 after it [SGP §4.1; MATH §2.1, §5.1].

With t = clip(1/2 + s/w, 0, 1) the ramp is t and the smoothstep 3t² − 2t³. Only the latter has a
Lipschitz slope, so that noise before it can be undone.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Exact, Real
from geoveil.gp.arrays import Array, distinct, np
from geoveil.gp.queries.profiles.base import solutions
from geoveil.gp.queries.profiles.closed_form import ClosedFormProfile
from geoveil.gp.smooth.frontier import Frontier
from geoveil.gp.smooth.growth import DECAYS, EXPONENTIAL, Smoothness


@dataclass(frozen=True, slots=True)
class SoftStep(ClosedFormProfile):
    """A step that never falls: 0 up to s = −w/2, 1 from s = w/2 on, w > 0 in the unit of s."""

    width: float

    name: ClassVar[str]
    """The name of the profile of a band."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", validation.positive("width", self.width))

    @property
    def length_scale(self) -> float:
        return self.width

    @property
    def breakpoints(self) -> tuple[float, ...]:
        return (-self.width / 2, self.width / 2)

    @property
    def limits(self) -> tuple[float, float]:
        return (0.0, 1.0)

    @property
    def plateaus(self) -> tuple[tuple[float, float, float], ...]:
        return ((-math.inf, -self.width / 2, 0.0), (self.width / 2, math.inf, 1.0))

    def cells(self, b: float) -> Array:
        return np.array(self.breakpoints)

    def slope_breakpoints(self, reach: float) -> tuple[float, ...]:
        edge = self.width / 2
        if reach == math.inf:
            return (0.0, edge)
        return (0.0, edge, edge + reach, edge + max(reach - self.width, 0.0))

    @abstractmethod
    def maximizer(self, z: Real, smoothness: Smoothness, ops: Arithmetic) -> Real:
        """Return the c ≥ 0 that maximises L_Λ(c)/g(β|z−c|), for z ≥ 0 and Λ = 0 or ∞."""

    def closed_form(self, z: Real, smoothness: Smoothness, ops: Arithmetic = FLOAT) -> Real | None:
        """Return max(L_Λ(z), L_Λ(c)/g(β|z − c|)), c = maximizer(z), at Λ = 0 and ∞.

        Both candidates are lower bounds of the supremum, so the larger one is right.
        """
        reach = smoothness.reach
        if 0 < reach < math.inf:
            return None
        c = self.maximizer(z, smoothness, ops)
        distance = ops.constant(smoothness.beta) * ops.absolute(z - c)
        decay = DECAYS[smoothness.growth](ops, distance)
        bound = self.local_lipschitz(c, reach, ops) * decay
        # At reach 0 the maximizer already is z wherever z is the best.
        return bound if reach == 0 else ops.maximum(bound, self.local_lipschitz(z, reach, ops))


@dataclass(frozen=True, slots=True)
class Ramp(SoftStep):
    """A straight ramp from 0 at s = −w/2 to 1 at s = w/2."""

    name: ClassVar[str] = "linear"

    @property
    def lipschitz(self) -> float:
        return 1 / self.width

    def frontier(self, growth: str, reach: float) -> Frontier:
        """Return the cross: B is constant where f varies, and f where B varies."""
        return Frontier.CROSS

    def value(self, s: Real, ops: Arithmetic = FLOAT) -> Real:
        t = s / ops.constant(self.width) + ops.constant(0.5)
        return ops.clip(t, ops.constant(0), ops.constant(1))

    def local_lipschitz(self, z: Real, reach: float, ops: Arithmetic = FLOAT) -> Real:
        """Return the steepest chord of length up to Λ: 1/w inside the band [SGP Lemma 4.1].

        From a distance d beyond it the best chord ends at u = min(Λ, d + w): (u − d)/(wu). At reach
        0 the maximizer lies inside.
        """
        width = ops.constant(self.width)
        if reach == 0:
            return 1 / width
        zero = ops.constant(0)
        d = ops.maximum(z - width / 2, zero)
        if reach == math.inf:
            return 1 / (width + d)
        u = ops.minimum(ops.constant(reach), d + width)
        return ops.maximum(u - d, zero) / u / width

    def maximizer(self, z: Real, smoothness: Smoothness, ops: Arithmetic) -> Real:
        """Return the nearest point of the band, for either growth [SGP Lemma 4.1, App. C.3]."""
        return ops.minimum(z, ops.constant(self.width) / 2)

    def debiased_preimages(self, y: Array, b: float) -> tuple[Array, Array]:
        if b != 0:
            raise self._not_debiasable()
        y = np.asarray(y, dtype=np.float64)
        v = np.where((y > 0) & (y < 1), (y - 0.5) * self.width, np.nan)
        return v[None], np.full((1, *y.shape), 1 / self.width)


@dataclass(frozen=True, slots=True)
class Smoothstep(SoftStep):
    """A cubic step from 0 at s = −w/2 to 1 at s = w/2, flat at both ends."""

    name: ClassVar[str] = "smoothstep"

    @property
    def lipschitz(self) -> float:
        return 1.5 / self.width

    def value(self, s: Real, ops: Arithmetic = FLOAT) -> Real:
        t = ops.clip(
            s / ops.constant(self.width) + ops.constant(0.5), ops.constant(0), ops.constant(1)
        )
        return t * t * (3 - 2 * t)

    def local_lipschitz(self, z: Real, reach: float, ops: Arithmetic = FLOAT) -> Real:
        """Return the steepest chord of length up to Λ.

        Reach 0: (6/w)(1/4 − y²), y = z/w. Reach ∞: from inside the band it touches φ at
        t = 1/2 + y/2, with slope (3/2w)(1 − y²); from outside, at distance δw, at t = 1 − v, v the
        smaller root of 4v² − (5 + 6δ)v + 1 = 0. At a finite reach it ends there, or at Λ if nearer.
        """
        if 0 < reach < math.inf:
            return self._chord_within(np.asarray(z) / self.width, reach / self.width)
        width = ops.constant(self.width)
        y = z / width
        half = ops.constant(0.5)
        if reach == 0:
            y = ops.minimum(y, half)
            return 6 / width * (ops.constant(0.25) - y * y)
        inside = ops.minimum(y, half)
        delta = ops.maximum(y - half, ops.constant(0))
        lead = 5 + 6 * delta
        v = 2 / (lead + ops.sqrt(lead * lead - 16))
        # At the edge of the band both forms give 9/(8w); below it δ = 0 and v = 1/4.
        outside = 6 * v * (1 - v) / width
        return outside + 3 / (2 * width) * (ops.constant(0.25) - inside * inside)

    def _chord_within(self, y: Array, reach: float) -> Array:
        """Return L_Λ at y = z/w for Λ/w = reach: the chord from 1/2 − y up to t."""
        start = 0.5 - y
        inside = np.maximum(start, 0.0)
        lead = 5 - 6 * np.minimum(start, 0.0)
        touch = 1 - 2 / (lead + np.sqrt(lead * lead - 16)) - inside / 2
        t = np.maximum(np.minimum(start + reach, touch), 0.0)
        # (φ(t) − φ(inside))/(t − inside) without the division; from outside the way is longer.
        slope = 3 * (t + inside) - 2 * (t * t + t * inside + inside * inside)
        share = np.divide(t - inside, t - start, out=np.ones_like(t), where=start < 0)
        return np.asarray(slope * share / self.width)

    def maximizer(self, z: Real, smoothness: Smoothness, ops: Arithmetic) -> Real:
        """Return the point that attains the bound.

        The slope is proportional to q² − z², q = w/2 at reach 0, w at ∞. Exponential growth:
        c = (√(1 + β²q²) − 1)/β. Linear: c = ((1 + βz) − √((1 + βz)² − β²q²))/β, or z if not real.
        """
        rate = ops.constant(smoothness.beta)
        q = ops.constant(self.width) / (2 if smoothness.reach == 0 else 1)
        bq2 = rate * q * q
        if smoothness.growth == EXPONENTIAL:
            return ops.minimum(z, bq2 / (ops.sqrt(1 + rate * bq2) + 1))
        lead = 1 + rate * z
        discriminant = lead * lead - rate * bq2
        root = ops.sqrt(ops.maximum(discriminant, ops.constant(0)))
        return ops.minimum(z, bq2 / (lead + root))

    def debiased(self, v: Real, b: Exact, ops: Arithmetic = FLOAT) -> Real:
        """Return g(v): φ − (b/w)²(6 − 12t) inside the band, exactly 0 or 1 outside."""
        width = ops.constant(self.width)
        ratio = ops.constant(b) / width
        lift = 6 * ratio * ratio

        def inside(v: Real) -> Real:
            t = v / width + ops.constant(0.5)
            return t * t * (3 - 2 * t) - lift * (1 - 2 * t)

        zero, full = ops.constant(0), ops.constant(1)
        return ops.piecewise(v, (-width / 2, width / 2), (lambda v: zero, inside, lambda v: full))

    def debiased_range(self, b: float) -> tuple[float, float]:
        """Return the range of g, which increases inside the band, from −6b²/w²."""
        lift = 6 * (b / self.width) ** 2
        return (-lift, 1 + lift)

    def cells(self, b: float) -> Array:
        turn = self.width * math.sqrt(max(0.25 - (b / self.width) ** 2, 0.0))
        return distinct(np.array([*self.breakpoints, -turn, 0.0, turn]))

    def estimated_variance(self, v: Array, b: float) -> Array:
        c2 = (b / self.width) ** 2
        y2 = np.square(np.asarray(v) / self.width)
        variance = 72 * c2 * np.square(0.25 - y2) + 144 * c2 * c2 * y2
        return np.where(y2 < 0.25, variance, 0.0)

    def debiased_preimages(self, y: Array, b: float) -> tuple[Array, Array]:
        """Return the only v with g(v) = y, if any, since g increases inside the band.

        With τ = 2t − 1 ∈ [−1, 1] and l = 6b²/w²: g = 1/2 + (3τ − τ³)/4 + lτ.
        """
        lift = 6 * (b / self.width) ** 2
        low, high = self.debiased_range(b)

        def g(tau: Array) -> Array:
            return np.asarray((0.75 + lift - tau * tau / 4) * tau + 0.5)

        inside = np.where((y > low) & (y < high), y, np.nan)
        tau = solutions(g, np.array([-1.0, 1.0]), inside)
        return tau * self.width / 2, (0.75 * (1 - tau * tau) + lift) * 2 / self.width
