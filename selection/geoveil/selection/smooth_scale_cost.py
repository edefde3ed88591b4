"""What it costs when all of m noise variables change their scale by e^β, noise by noise.

*Bounded.* The log-ratio is at most β times the scale cost of the noise, for each of them: the
supremum of |tψ − 1|, which is no less than 1. [SPS Theorem 6] has γ − 1 for 1/(1+|z|^γ) and any
γ > 1; below γ = 2 that is less than 1, and false.

*Laplace.* It is (e^β − 1)|z| − β, which stays below t except with probability
e^{−(t+β)/(e^β−1)}; to the other side it is at most β. The exception has δ/m for each.

*Laplace log-normal.* Z = X e^{σY}: a change of scale moves Y by β/σ. That is a shift of the normal
vector of all Y by μ = β√m/σ, and whatever is computed from them costs no more: the log-ratio is
normal with mean μ²/2 and deviation μ, and exceeds μ²/2 + μ√(2 ln 1/δ) with probability at most δ.
So the price grows with √m. It is μ²/2-zCDP [BS19], and never ε without a δ.

The scale is to change first, and the utilities then: so δ is all that is lost.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.exact.ball import BALL, working_precision
from geoveil.gp.noise.base import Noise
from geoveil.gp.noise.laplace import Laplace
from geoveil.gp.privacy.rounding import BITS, upper
from geoveil.selection.laplace_log_normal import LaplaceLogNormal


class ScaleCost(ABC):
    """The price of a change of scale."""

    source = "[SPS Theorem 2]"

    def checked(self, delta: float) -> float:
        """Return δ in (0, 0.5].

        Raises:
            ParameterError: if it is not one that this noise can use.
        """
        return validation.between("delta", delta, 0, 0.5, low_open=True)

    @abstractmethod
    def cost(self, beta: float, outcomes: int, delta: float) -> Fraction:
        """Return what m changes by e^β cost, rounded up, in nats, with δ in all."""

    @abstractmethod
    def affordable(self, budget: Fraction, outcomes: int, delta: float) -> Fraction:
        """Return a β that costs about the budget."""

    @abstractmethod
    def published(self, epsilon: Fraction, delta: float) -> Fraction:
        """Return the β of one variable that the papers pair with ε/2 for the shift."""


@dataclass(frozen=True, slots=True)
class BoundedScaleCost(ScaleCost):
    """Of noise whose log-ratio is bounded.

    Args:
        each: by how much, per unit of β.

    Example:
        >>> round(float(BoundedScaleCost(Fraction(3)).cost(0.25, 4, 0.0)), 12)
        3.0
    """

    each: Fraction

    def checked(self, delta: float) -> float:
        """Return 0; see `ScaleCost.checked`."""
        if delta != 0:
            raise ParameterError("delta", delta, "0: this noise needs none")
        return 0.0

    def cost(self, beta: float, outcomes: int, delta: float) -> Fraction:
        """See `ScaleCost.cost`."""
        return Fraction(beta) * self.each * outcomes

    def affordable(self, budget: Fraction, outcomes: int, delta: float) -> Fraction:
        """See `ScaleCost.affordable`."""
        return self.published(2 * budget / outcomes, delta)

    def published(self, epsilon: Fraction, delta: float) -> Fraction:
        """See `ScaleCost.published`: [SPS Theorem 6], with what a change of scale really costs."""
        return epsilon / 2 / self.each


class LaplaceScaleCost(ScaleCost):
    """Of Laplace noise."""

    def cost(self, beta: float, outcomes: int, delta: float) -> Fraction:
        """See `ScaleCost.cost`."""
        with working_precision(BITS):
            b = BALL.constant(beta)
            log = -(BALL.constant(delta) / outcomes).log()
            far = upper(b.expm1() * log - b)
        return max(far, Fraction(beta)) * outcomes

    def affordable(self, budget: Fraction, outcomes: int, delta: float) -> Fraction:
        """See `ScaleCost.affordable`."""
        return self.published(2 * budget / outcomes, delta / outcomes)

    def published(self, epsilon: Fraction, delta: float) -> Fraction:
        """See `ScaleCost.published`: ε/(2 ln(2/δ))."""
        return epsilon / 2 / Fraction(math.log(2 / delta))


@dataclass(frozen=True, slots=True)
class LogNormalScaleCost(ScaleCost):
    """Of Laplace log-normal noise.

    Args:
        sigma: σ of its scale.

    Example:
        >>> round(float(LogNormalScaleCost(1.0).cost(0.05, 4, 1e-5)), 6)  # μ = 0.1
        0.484853
    """

    source = "[proof: geoveil.selection.smooth_scale_cost]"
    sigma: float

    def cost(self, beta: float, outcomes: int, delta: float) -> Fraction:
        """See `ScaleCost.cost`."""
        with working_precision(BITS):
            shift = BALL.constant(beta) * BALL.constant(outcomes).sqrt()
            shift = shift / BALL.constant(self.sigma)
            far = (-2 * BALL.constant(delta).log()).sqrt()
            return upper(shift * shift / 2 + shift * far)

    def affordable(self, budget: Fraction, outcomes: int, delta: float) -> Fraction:
        """See `ScaleCost.affordable`."""
        with working_precision(BITS):
            far = (-2 * BALL.constant(delta).log()).sqrt()
            spent = 2 * BALL.constant(budget)
            # √(far² + spent) − far, without its cancellation.
            shift = spent / ((far * far + spent).sqrt() + far)
            scaled = shift * BALL.constant(self.sigma) / BALL.constant(outcomes).sqrt()
            return -upper(-scaled)

    def published(self, epsilon: Fraction, delta: float) -> Fraction:
        """See `ScaleCost.published`: β/σ = ε/2 in ε = e^{3σ²/2}α + β/σ [SNM Corollary 4.5]."""
        return epsilon / 2 * Fraction(self.sigma)


_UNBOUNDED: Mapping[type[Noise], Callable[..., ScaleCost]] = MappingProxyType(
    {
        Laplace: lambda noise: LaplaceScaleCost(),
        LaplaceLogNormal: lambda noise: LogNormalScaleCost(noise.sigma),
    }
)
"""Noises whose log-ratio is not bounded, and what is proved of them."""


def scale_cost_of(noise: Noise) -> ScaleCost:
    """Return the price for a noise.

    Raises:
        UnsupportedError: if nothing is proved of it.
    """
    if noise.exact_scale_cost is not None:
        return BoundedScaleCost(noise.exact_scale_cost)
    known = _UNBOUNDED.get(type(noise))
    if known is None:
        raise UnsupportedError(f"a change of scale of {noise} has no bounded cost; use StudentT")
    return known(noise)
