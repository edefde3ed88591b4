"""Enclose quantiles without a closed form, as the root of a distribution function in balls.

Steps of fourth order approach the root; the interval form of Newton's method encloses it
[Moore 1966]. A bad guess makes the result slow, never wrong.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from flint import arb, ctx

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.exact import working_precision
from geoveil.gp.noise.base import Noise

_COARSE = 64
"""The precision in bits of the search for a root, before it is enclosed."""
_NEWTON = 0.25
"""Relative size of Newton's step below which higher terms improve it."""
_CLOSE = 0.025
"""Size of a step after which the root is mostly within its fourth power."""
_FINEST = 2.0**-48
_MOST_STEPS = 200
_SPARE_BITS = 14
"""Factor by which a practically exact ball may be wider than the precision."""

_Increasing: TypeAlias = Callable[[arb], arb]


class InvertedNoise(Noise):
    """A family released by inverting its distribution function.

    It inverts the tail P[Z > u] for p ≤ 1/4, and the centre P[0 < Z < u] above, where 1/2 − S loses
    digits.
    """

    @abstractmethod
    def ball_tail(self, u: arb) -> arb:
        """Enclose P[Z > u] for u > 0."""

    @abstractmethod
    def ball_center(self, u: arb) -> arb:
        """Enclose P[0 < Z < u] for u > 0."""

    @abstractmethod
    def ball_density(self, u: arb) -> arb:
        """Enclose h(u) for u > 0; on the whole ball where h decreases."""

    @abstractmethod
    def _guess(self, tail: float, center: float) -> float:
        """Return, roughly, the u > 0 with P[Z > u] = tail and P[0 < Z < u] = center."""

    @abstractmethod
    def _swing(self, u: float) -> tuple[float, float]:
        """Return uψ(u), the slope of −log h in log u, and its own slope in log u."""

    @property
    def coarse_bits(self) -> int | None:
        """A few bits: more make a distribution function slower, and few nearly always decide."""
        return _COARSE

    def isf(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        if ops.rounded:
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
        u, off = self._approximate(level, increasing)
        narrow = arb(2) ** (_SPARE_BITS - ctx.prec)
        radius, enclosed = u * off, None
        excess = increasing(u) - level
        while radius < u / 2:
            around = u + arb(0, 1) * radius
            density = self.ball_density(around)
            root = u - excess / density
            if around.contains(root):
                # As narrow as the level itself allows, or as this precision does.
                width = root.rad()
                if width < u * narrow or width < 8 * level.rad() / density or width * 4 > radius:
                    return root
                enclosed, u, radius = root, root.mid(), width * 2
                excess = increasing(u) - level
            elif enclosed is not None:
                return enclosed  # this precision tells nothing more
            else:
                radius *= 16
        return arb("nan")

    def _approximate(self, level: arb, increasing: _Increasing) -> tuple[arb, float]:
        """Return an approximate root, exactly representable, and its relative error.

        With x = log u, F = log|T/level| and σ = uψ the slopes are F' = −μ, F''/F' = A = 1 − σ + μ
        and F'''/F' = A² − σ' + μA; for the centre μ is negative.
        """
        falls = level < 0
        with working_precision(_COARSE):
            target = abs(level.mid())
            near = float(target)
            u = arb(self._guess(near, 0.5 - near) if falls else self._guess(0.5 - near, near))
            for _ in range(_MOST_STEPS):
                value = abs(increasing(u))
                slope = float((u * self.ball_density(u) / value).mid())
                mu = slope if falls else -slope
                step = float((value / target).log().mid()) / mu
                if abs(step) < _NEWTON:
                    swing, bend = self._swing(float(u))
                    a = 1 - swing + mu
                    step *= 1 - step * (a / 2 - step * (a * a / 3 + (bend - mu * a) / 6))
                step = min(max(step, -8.0), 8.0)
                u = (u * arb(step).exp()).mid()
                if abs(step) < _CLOSE:
                    return u, max(step**4, _FINEST)
            return u, _FINEST
