"""What a shift and a change of scale cost for two-sided noise [SPS Theorems 1, 2 and 6].

The density of the winner is shifted, at `sliding` per unit; every one of the m variables changes
its scale, at `dilation` each per unit of β. Laplace noise has no finite dilation: its log-ratio is
(e^β − 1)|z| − β, which stays below t except with probability e^{−(t+β)/(e^β−1)}; to the other side
it is at most β. With that probability δ/m for each of the m variables, changing the scale first and
shifting then costs δ in all.
"""

import math
from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.exact.ball import BALL, working_precision
from geoveil.gp.noise.base import Noise
from geoveil.gp.noise.laplace import Laplace
from geoveil.gp.privacy.rounding import BITS, round_down, round_up, upper
from geoveil.gp.selection.one_sided_theorem import Split

_ROUNDED = 1 + Fraction(1, 1 << 48)
"""More than the few roundings in the constants of a noise can amount to."""


def sliding_price(noise: Noise) -> Fraction:
    """Return what a shift by one unit of the noise costs, rounded up, in nats."""
    return Fraction(noise.sliding) * _ROUNDED


def checked_delta(noise: Noise, delta: float) -> float:
    """Return δ if the noise can use it: 0 where the dilation is finite, above 0 for Laplace.

    Raises:
        ParameterError: if delta does not go with the noise.
        UnsupportedError: if nothing is proved of the noise.
    """
    if math.isfinite(noise.dilation):
        if delta != 0:
            raise ParameterError("delta", delta, "0: this noise needs none")
        return 0.0
    if not isinstance(noise, Laplace):
        raise UnsupportedError(f"a change of scale of {noise} has no bounded cost; use StudentT")
    return validation.between("delta", delta, 0, 0.5, low_open=True)


def scale_cost(noise: Noise, beta: float, outcomes: int, delta: float) -> Fraction:
    """Return what a change of scale by e^β costs, rounded up, in nats, with δ in all.

    Example:
        >>> from geoveil.gp.noise import StudentT
        >>> round(float(scale_cost(StudentT(3.0), 0.25, 4, 0.0)), 12)
        3.0
    """
    if delta == 0:
        return Fraction(beta) * Fraction(noise.dilation) * _ROUNDED * outcomes
    with working_precision(BITS):
        b = BALL.constant(beta)
        log = -(BALL.constant(delta) / outcomes).log()
        far = upper(b.expm1() * log - b)
    return max(far, Fraction(beta)) * outcomes


def published_beta(noise: Noise, epsilon: Fraction, delta: float) -> Fraction:
    """Return β(ε) of one variable: ε/2 over the dilation, or ε/(2 ln(2/δ)) for Laplace."""
    price = noise.dilation if delta == 0 else math.log(2 / delta)
    return epsilon / 2 / Fraction(price)


def split_two_sided(
    noise: Noise, epsilon: float, outcomes: int, share: float, delta: float
) -> Split:
    """Return α and β for which α · sliding and m changes of scale cost at most ε.

    Args:
        noise: Z.
        epsilon: ε > 0, nats.
        outcomes: m.
        share: m l/2 of [SPS Theorem 2], the part of ε that pays for β; k is the rest.
        delta: see `checked_delta`.

    Raises:
        ParameterError: if nothing is left of ε for α, or share is out of range.
    """
    share = validation.between("share", share, 0, 1, low_open=True, high_open=True)
    budget = Fraction(epsilon)
    each = 2 * budget * Fraction(share) / outcomes
    beta = round_down(published_beta(noise, each, delta / outcomes) / _ROUNDED)
    cost = scale_cost(noise, beta, outcomes, delta)
    if cost >= budget or beta < validation.LEAST:
        raise ParameterError("share", share, "less, as epsilon is used up by changes of scale")
    alpha = round_down((budget - cost) / sliding_price(noise))
    return Split(alpha, beta, spent(noise, alpha, beta, outcomes, delta))


def spent(noise: Noise, alpha: float, beta: float, outcomes: int, delta: float) -> float:
    """Return the ε that α and β cost, rounded up."""
    shift = Fraction(alpha) * sliding_price(noise)
    return round_up(shift + scale_cost(noise, beta, outcomes, delta))
