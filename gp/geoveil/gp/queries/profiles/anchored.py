"""The contract of a profile φ: R → R.

The smooth bound has one shape for all profiles: with z = |s|,

    B = max( L_Λ(z), L_Λ(c) / g(β|z − c|) ),   c = anchor(z),

where L_Λ is the steepest chord of length ≤ Λ and the anchor is where the supremum over all other
points is attained. A profile supplies L_Λ and, where there is a closed form, its anchor. Since
every candidate is a lower bound of the supremum, an anchor can be taken without asking whether it
is the winner. Where there is no closed form, `smooth.envelope` finds the anchors.
"""

from abc import ABC, abstractmethod
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Exact, Real
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.smooth.envelope import ENVELOPES, Envelope
from geoveil.gp.smooth.frontier import Frontier
from geoveil.gp.smooth.growth import DECAYS, EXPONENTIAL

Array = NDArray[np.float64]


class Profile(ABC):
    """A bounded function of a signed distance s, with |φ'| symmetric in s."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """Supremum of |φ'|, in 1/(unit of s)."""

    @property
    @abstractmethod
    def feature(self) -> float:
        """Length over which φ varies, in the unit of s."""

    @property
    @abstractmethod
    def knots(self) -> tuple[float, ...]:
        """Increasing; φ is smooth between them and equals its limits outside."""

    @property
    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """φ(−∞) and φ(∞)."""

    @abstractmethod
    def value(self, s: Real, ops: Arithmetic = FLOAT) -> Real:
        """Return φ(s)."""

    @abstractmethod
    def steepest_chord(self, z: Real, reach: float, ops: Arithmetic = FLOAT) -> Real:
        """Return L_Λ(z) for z ≥ 0: the steepest chord of length ≤ Λ from z; the slope for Λ = 0."""

    @abstractmethod
    def anchor(
        self, z: Real, beta: Exact, ops: Arithmetic = FLOAT, *, growth: str, reach: float
    ) -> Real | None:
        """Return the c ≥ 0 that maximises L_Λ(c)/g(β|z−c|), for z ≥ 0; None if none is known."""

    @abstractmethod
    def landmarks(self, reach: float) -> tuple[float, ...]:
        """Return the points ≥ 0 where L_Λ changes its behaviour, its peak among them."""

    def frontier(self, growth: str, reach: float) -> Frontier:
        """Return which rates of change f and B attain together; the rectangle holds for all."""
        return Frontier.RECTANGLE

    def smooth_bound(
        self,
        s: Real,
        beta: Exact,
        ops: Arithmetic = FLOAT,
        *,
        growth: str = EXPONENTIAL,
        reach: float = 0.0,
    ) -> Real:
        """Return B(s): see the module docstring and `Query.smooth_bound`."""
        z = ops.absolute(s)
        c = self.anchor(z, beta, ops, growth=growth, reach=reach)
        if c is None:
            if ops is not FLOAT:
                raise UnsupportedError(
                    f"exact release with {self!r} needs reach=0 and exponential growth,"
                    " which suffice for ε-GP"
                )
            return _envelope(self, float(beta), growth, reach)(z)
        decay = DECAYS[growth](ops, ops.constant(beta) * ops.absolute(z - c))
        bound = self.steepest_chord(c, reach, ops) * decay
        # At reach 0 the anchor already is z wherever z is the best.
        return bound if reach == 0 else ops.maximum(bound, self.steepest_chord(z, reach, ops))

    # Noise before the function: g = φ − b²φ'' has E[g(s + Laplace(b))] = φ(s) [MATH §5.1].

    def debiased(self, v: Real, b: Exact, ops: Arithmetic = FLOAT) -> Real:
        """Return g(v) for the noisy scalar v and the noise scale b."""
        raise self._not_debiasable()

    def debiased_range(self, b: float) -> tuple[float, float]:
        """Return the least and the greatest value of g."""
        raise self._not_debiasable()

    def debiased_preimages(self, y: Array, b: float) -> tuple[Array, Array]:
        """Return all v with g(v) = y where g is not constant, and |g'(v)| there.

        Args:
            y: values, shape (...).
            b: noise scale.

        Returns:
            Two arrays of shape (m, ...); v is NaN where there are fewer than m solutions.
        """
        raise self._not_debiasable()

    def _not_debiasable(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self!r} has no bounded debiased form, because its slope jumps:"
            " use the smoothstep profile"
        )


@lru_cache(maxsize=256)
def _envelope(profile: Profile, beta: float, growth: str, reach: float) -> Envelope:
    return ENVELOPES[growth](
        lambda z: np.asarray(profile.steepest_chord(z, reach)),
        beta,
        profile.landmarks(reach),
        profile.feature,
    )
