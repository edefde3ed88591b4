"""Quantiles without a closed form, enclosed: the root of a distribution function in balls.

Newton's method in logarithms finds the root to about 2^-60; the interval form of it then encloses
the root: for S' = −h and a root u* in U, u* = u₀ + (S(u₀) − p)/h(ξ) with ξ in U, and if that ball
lies within U there is such a root [mean value theorem; Moore 1966].
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from flint import arb

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.exact import working_precision
from geoveil.gp.noise.base import Noise

_COARSE = 64
"""Bits in which the root is looked for before it is enclosed."""
_MOST_STEPS = 200

_Increasing: TypeAlias = Callable[[arb], arb]


class InvertedNoise(Noise):
    """A family that is released by inverting its distribution function.

    The tail S(u) = P[Z > u] serves for p ≤ 1/4, the centre C(u) = P[0 < Z < u] above, where 1/2 − S
    would lose what p has.
    """

    @abstractmethod
    def ball_tail(self, u: arb) -> arb:
        """Enclose P[Z > u] for u > 0."""

    @abstractmethod
    def ball_center(self, u: arb) -> arb:
        """Enclose P[0 < Z < u] for u > 0."""

    @abstractmethod
    def ball_density(self, u: arb) -> arb:
        """Enclose h(u) for u > 0; where it falls, on the whole ball."""

    def isf(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        if ops is FLOAT:
            return abs(self._ppf(p))
        if not p > 0:
            return arb("nan")  # the ball reaches 0: more bits will part them
        # Both are increasing functions of u here, T = −S or C, with T' = h.
        if p < 0.25:
            return self._root(-p, lambda u: -self.ball_tail(u))
        return self._root(arb(0.5) - p, self.ball_center)

    def _root(self, level: arb, increasing: _Increasing) -> arb:
        """Enclose the u > 0 with increasing(u) = level, |increasing| being log-concave in log u."""
        if level.contains(0):
            # So close to the median that it can't be told on which side: from 0 to the far end.
            far = abs(level).upper() / self.ball_density(arb(1)) + arb(2) ** -64
            return arb(0).union(far if far < 1 else arb("nan"))
        u = self._approximate(level, increasing)
        radius, enclosed = u * arb(2) ** -48, None
        while radius < u / 2:
            around = u + arb(0, 1) * radius
            density = self.ball_density(around)
            found = u - (increasing(u) - level) / density
            if around.contains(found):
                # As narrow as the level itself allows, or as this precision does.
                if found.rad() < 8 * level.rad() / density or found.rad() * 4 > radius:
                    return found
                enclosed, u, radius = found, found.mid(), found.rad() * 2
            elif enclosed is not None:
                return enclosed  # this precision tells nothing more
            else:
                radius *= 16
        return arb("nan")

    def _approximate(self, level: arb, increasing: _Increasing) -> arb:
        """Return the root to about 60 bits, exactly representable."""
        with working_precision(_COARSE):
            target = abs(level.mid())
            u = arb(1)
            for _ in range(_MOST_STEPS):
                value = abs(increasing(u))
                # d log|T| / d log u
                slope = u * self.ball_density(u) / value
                step = (value / target).log() / slope
                if level < 0:  # the tail falls
                    step = -step
                step = step.mid().max(arb(-8)).min(arb(8))
                u = (u * (-step).exp()).mid()
                if abs(step) < arb(2) ** -52:
                    return u
            return u
