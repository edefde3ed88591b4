"""What a shift and a change of scale cost for two-sided noise [SPS Theorems 1, 2 and 6].

The density of the winner is shifted, at `max_score` per unit; every one of the m variables changes
its scale, at the price of its `ScaleCost`.
"""

from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError
from geoveil.gp.noise.base import Noise
from geoveil.gp.privacy.rounding import round_down, round_up
from geoveil.selection.one_sided_theorem import Split
from geoveil.selection.smooth_scale_cost import scale_cost_of


def shift_cost(noise: Noise) -> Fraction:
    """Return what a shift by one unit of the noise costs, rounded up, in nats."""
    return Fraction(noise.max_score)


def published_split(noise: Noise, epsilon: float, outcomes: int, delta: float) -> Split:
    """Return the α and β that the papers take for one variable, and what m of them cost.

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

    Args:
        noise: Z.
        epsilon: ε > 0, nats.
        outcomes: m.
        share: m l/2 of [SPS Theorem 2], the part of ε that pays for β; k is the rest.
        delta: see `ScaleCost.checked`.

    Raises:
        ParameterError: if nothing is left of ε for α, or share is out of range.
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
    """Return the ε that α and β cost, rounded up."""
    shift = Fraction(alpha) * shift_cost(noise)
    return round_up(shift + scale_cost_of(noise).cost(beta, outcomes, delta))
