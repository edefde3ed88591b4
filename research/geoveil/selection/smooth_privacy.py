"""The privacy cost of selection with a smooth sensitivity: shifts and changes of scale, in nats.

docs/selection.md proves the prices: αL + β max(ν, c R_m) for one-sided noise; the density's shift
and β times a `ScaleCost` for two-sided noise [SPS Theorems 1, 2 and 6].
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from geoveil.gp import (
    BALL,
    BITS,
    Laplace,
    Noise,
    ParameterError,
    UnsupportedError,
    round_down,
    round_up,
    upper,
    validation,
    working_precision,
)
from geoveil.selection.one_sided import OneSidedNoise
from geoveil.selection.two_sided import LaplaceLogNormal


@lru_cache(maxsize=1024)
def tilted_depth(outcomes: int) -> float:
    """Return R_m for m ≥ 1 outcomes, rounded up; R_1 = 0 and R_m ≤ ln m.

    R = (1 + W(k e^{−2−1/k}))/(1 + 1/k), k = m − 1, W the Lambert function.

    Raises:
        ParameterError: if `outcomes` is not an integer ≥ 1.

    Example:
        >>> [round(tilted_depth(m), 3) for m in (2, 10, 10000)]
        [0.524, 1.439, 6.504]
    """
    validation.require_count("outcomes", outcomes)
    if outcomes == 1:
        return 0.0
    with working_precision(BITS):
        k = BALL.constant(outcomes - 1)
        return round_up(upper(k / (k + 1) * (1 + (k * (-2 - 1 / k).exp()).lambertw())))


def scale_price(noise: OneSidedNoise, outcomes: int) -> Fraction:
    """Return max(ν, c R_m), the cost of a unit of β in nats, rounded up.

    Example:
        >>> from geoveil.selection.one_sided import ExponentialPareto
        >>> float(scale_price(ExponentialPareto(3.0), 2))
        3.0
    """
    depth = Fraction(noise.log_cdf_scale_cost) * Fraction(tilted_depth(outcomes))
    return max(Fraction(noise.tail_index), depth)


@dataclass(frozen=True, slots=True)
class Split:
    """A budget ε divided between shifts and changes of scale.

    Attributes:
        alpha: how far gaps may change, in units of the noise.
        beta: the largest |ln S(x)/S(y)| between neighbours.
        epsilon: αL + β·price, rounded up; no more than the budget.
    """

    alpha: float
    beta: float
    epsilon: float


def split_budget(epsilon: float, hazard: float, price: Fraction, share: float) -> Split:
    """Return α and β with αL + β·price ≤ ε, in exact arithmetic.

    Args:
        epsilon: ε > 0, nats.
        hazard: the price of a unit of α in nats, such as L.
        price: the price of a unit of β in nats.
        share: the part of ε in (0, 1) that pays for β.

    Raises:
        ParameterError: if epsilon or share is out of range.

    Example:
        >>> split_budget(1.0, 1.0, Fraction(3), 0.75)
        Split(alpha=0.25, beta=0.25, epsilon=1.0)
    """
    budget = Fraction(validation.positive("epsilon", epsilon))
    share = validation.between("share", share, 0, 1, low_open=True, high_open=True)
    beta = round_down(budget * Fraction(share) / price)
    alpha = round_down((budget - Fraction(beta) * price) / Fraction(hazard))
    if min(alpha, beta) < validation.LEAST:
        raise ParameterError(
            "epsilon", epsilon, f"large enough for alpha, beta >= {validation.LEAST:g}"
        )
    spent = Fraction(alpha) * Fraction(hazard) + Fraction(beta) * price
    return Split(alpha, beta, round_up(spent))


def best_share(
    epsilon: float, price: Fraction, smooth_sensitivity: Callable[[float], float]
) -> float:
    """Return the share of ε for β at which S(β)/α is least.

    The share is public, so β ↦ S(β) > 0 must be a planned database's, such as S(β) = e^{−(j−1)β}
    for a margin of j.

    Args:
        epsilon: ε > 0, nats.
        price: the price of a unit of β in nats.
        smooth_sensitivity: β ↦ S(β).

    Raises:
        ParameterError: if epsilon is out of range.

    Example:
        >>> round(best_share(1.0, Fraction(3), lambda beta: math.exp(-9 * beta)), 4)
        0.6667
    """
    from scipy.optimize import minimize_scalar

    budget = validation.positive("epsilon", epsilon)

    def log_scale(share: float) -> float:
        return math.log(smooth_sensitivity(share * budget / float(price))) - math.log1p(-share)

    minimum = minimize_scalar(
        log_scale, bounds=(1e-6, 1 - 1e-6), method="bounded", options={"xatol": 1e-9}
    )
    return float(minimum.x)


class ScaleCost(ABC):
    """The price of a change of scale."""

    source = "[SPS Theorem 2]"

    def checked(self, delta: float) -> float:
        """Return δ in (0, 0.5].

        Raises:
            ParameterError: if this noise can't use it.
        """
        return validation.between("delta", delta, 0, 0.5, low_open=True)

    @abstractmethod
    def cost(self, beta: float, outcomes: int, delta: float) -> Fraction:
        """Return the cost of m changes by e^β in nats, rounded up, with a total of δ."""

    @abstractmethod
    def affordable(self, budget: Fraction, outcomes: int, delta: float) -> Fraction:
        """Return a β that costs about the budget."""

    @abstractmethod
    def published(self, epsilon: Fraction, delta: float) -> Fraction:
        """Return the papers' β for one variable, with ε/2 for the shift."""


@dataclass(frozen=True, slots=True)
class BoundedScaleCost(ScaleCost):
    """The price of a change of scale for noise whose log-ratio is at most `each` per unit of β.

    Example:
        >>> round(float(BoundedScaleCost(Fraction(3)).cost(0.25, 4, 0.0)), 12)
        3.0
    """

    each: Fraction

    def checked(self, delta: float) -> float:
        """Return 0, the only δ that this noise accepts."""
        if delta != 0:
            raise ParameterError("delta", delta, "0: this noise needs none")
        return 0.0

    def cost(self, beta: float, outcomes: int, delta: float) -> Fraction:
        return Fraction(beta) * self.each * outcomes

    def affordable(self, budget: Fraction, outcomes: int, delta: float) -> Fraction:
        return self.published(2 * budget / outcomes, delta)

    def published(self, epsilon: Fraction, delta: float) -> Fraction:
        """Return the β of [SPS Theorem 6], with the true cost of a change of scale."""
        return epsilon / 2 / self.each


class LaplaceScaleCost(ScaleCost):
    """The price of a change of scale for Laplace noise."""

    def cost(self, beta: float, outcomes: int, delta: float) -> Fraction:
        with working_precision(BITS):
            b = BALL.constant(beta)
            log = -(BALL.constant(delta) / outcomes).log()
            far = upper(b.expm1() * log - b)
        return max(far, Fraction(beta)) * outcomes

    def affordable(self, budget: Fraction, outcomes: int, delta: float) -> Fraction:
        return self.published(2 * budget / outcomes, delta / outcomes)

    def published(self, epsilon: Fraction, delta: float) -> Fraction:
        """Return ε/(2 ln(2/δ))."""
        return epsilon / 2 / Fraction(math.log(2 / delta))


@dataclass(frozen=True, slots=True)
class LogNormalScaleCost(ScaleCost):
    """The price of a change of scale for Laplace log-normal noise.

    Example:
        >>> round(float(LogNormalScaleCost(1.0).cost(0.05, 4, 1e-5)), 6)  # μ = 0.1
        0.484853
    """

    source = "[proof: docs/selection.md]"
    sigma: float

    def cost(self, beta: float, outcomes: int, delta: float) -> Fraction:
        with working_precision(BITS):
            shift = BALL.constant(beta) * BALL.constant(outcomes).sqrt()
            shift = shift / BALL.constant(self.sigma)
            far = (-2 * BALL.constant(delta).log()).sqrt()
            return upper(shift * shift / 2 + shift * far)

    def affordable(self, budget: Fraction, outcomes: int, delta: float) -> Fraction:
        with working_precision(BITS):
            far = (-2 * BALL.constant(delta).log()).sqrt()
            spent = 2 * BALL.constant(budget)
            # √(far² + spent) − far, without its cancellation.
            shift = spent / ((far * far + spent).sqrt() + far)
            scaled = shift * BALL.constant(self.sigma) / BALL.constant(outcomes).sqrt()
            return -upper(-scaled)

    def published(self, epsilon: Fraction, delta: float) -> Fraction:
        """Return σε/2: β/σ = ε/2 in ε = e^{3σ²/2}α + β/σ [SNM Corollary 4.5]."""
        return epsilon / 2 * Fraction(self.sigma)


_UNBOUNDED: Mapping[type[Noise], Callable[..., ScaleCost]] = MappingProxyType(
    {
        Laplace: lambda noise: LaplaceScaleCost(),
        LaplaceLogNormal: lambda noise: LogNormalScaleCost(noise.sigma),
    }
)
"""Noise with unbounded log-ratios → its proved price."""


def scale_cost_of(noise: Noise) -> ScaleCost:
    """Return a noise's price; UnsupportedError without a proof."""
    if noise.exact_scale_cost is not None:
        return BoundedScaleCost(noise.exact_scale_cost)
    cost = _UNBOUNDED.get(type(noise))
    if cost is None:
        raise UnsupportedError(f"a change of scale of {noise} has no bounded cost; use StudentT")
    return cost(noise)


def shift_cost(noise: Noise) -> Fraction:
    """Return the cost of a shift by one unit of the noise in nats, rounded up."""
    return Fraction(noise.max_score)


def published_split(noise: Noise, epsilon: float, outcomes: int, delta: float) -> Split:
    """Return the papers' α and β for one variable, and the cost of m variables.

    Raises:
        UnsupportedError: if nothing is proved of the noise.
    """
    half = Fraction(epsilon) / 2
    alpha = round_down(half / shift_cost(noise))
    beta = round_down(scale_cost_of(noise).published(2 * half, delta))
    return Split(alpha, beta, spent(noise, alpha, beta, outcomes, delta))


def split_two_sided(
    noise: Noise, epsilon: float, outcomes: int, share: float, delta: float
) -> Split:
    """Return α and β for which α · max_score and m changes of scale cost at most ε.

    `share` is m l/2 in [SPS Theorem 2], the part of ε that pays for β. δ is in (0, 0.5] for noise
    that needs it, otherwise 0.

    Raises:
        ParameterError: if no ε is left for α, or share is out of range.
        UnsupportedError: if nothing is proved of the noise.
    """
    share = validation.between("share", share, 0, 1, low_open=True, high_open=True)
    budget, scale_cost = Fraction(epsilon), scale_cost_of(noise)
    beta = round_down(scale_cost.affordable(budget * Fraction(share), outcomes, delta))
    cost = scale_cost.cost(beta, outcomes, delta)
    if cost >= budget or beta < validation.LEAST:
        raise ParameterError("share", share, "less, as epsilon is used up by changes of scale")
    alpha = round_down((budget - cost) / shift_cost(noise))
    return Split(alpha, beta, spent(noise, alpha, beta, outcomes, delta))


def spent(noise: Noise, alpha: float, beta: float, outcomes: int, delta: float) -> float:
    """Return the cost ε of α and β, rounded up."""
    shift = Fraction(alpha) * shift_cost(noise)
    return round_up(shift + scale_cost_of(noise).cost(beta, outcomes, delta))
