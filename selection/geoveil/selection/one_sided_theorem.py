"""What selection with one-sided noise costs: ε = αL + β max(ν, c R_m).

The winner of argmax u_r + (2S/α) Z_r is looked at in units of the scale 2S/α, where its lead over
outcome s is w_s. S is a β-smooth upper bound of the sensitivity, Z_r ≥ 0 are independent with the
constants L, ν, c of `OneSidedNoise`, and m counts the outcomes.

*A shift.* The utilities move by at most S each, so the others come closer by at most α. The winner
wins with probability E[F̄(M)], M = max(Z_s − w_s, 0), and F̄(M + α) ≥ e^{−αL} F̄(M).

*Gaps shrink*, the scale being larger by e^b: M does not fall below e^−b M, because Z_s ≥ 0. And
F̄(e^−b M) ≤ e^{νb} F̄(M).

*Gaps grow*, the scale being smaller: log P = log ∫ f(t) Π F(t + w_s) dt rises at a rate (in b) of
at most E[Σ w_s f/F(t + w_s)] ≤ c E[H], H = −Σ ln F(t + w_s), both sums over w_s > 0, and t drawn
with density ∝ f(t) Π F(t + w_s). Outcomes with w_s ≤ 0 tilt that density to larger t, where H is
smaller; without them E[H] is a quotient E[H e^−H]/E[e^−H] with t drawn from f. In it H ≤ kτ,
k = m − 1, where τ = −ln F(Z) is exponential. The quotient exceeds no R with
    E[(min(kτ, R+1) − R) e^{−min(kτ, R+1)}] ≤ 0,
as (h − R) e^−h rises up to h = R + 1 and falls beyond. R_m makes this an equality.

A neighbour shifts first and scales then, or the other way: αL + β max(ν, c R_m).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact.ball import BALL, working_precision
from geoveil.gp.privacy.rounding import BITS, require_count, round_down, round_up, upper
from geoveil.selection.one_sided import OneSidedNoise


@lru_cache(maxsize=1024)
def tilted_depth(outcomes: int) -> float:
    """Return R_m, rounded up.

    With a = 1 + 1/k the integral is elementary, and leaves aR − 1 = k e^{−a(R+1)}; hence
        R = (1 + W(k e^{−2−1/k})) / a, W the Lambert function. R_1 = 0, and R_m ≤ ln m.

    Args:
        outcomes: m ≥ 1.

    Raises:
        ParameterError: if `outcomes` is not an integer ≥ 1.

    Example:
        >>> [round(tilted_depth(m), 3) for m in (2, 10, 10000)]
        [0.524, 1.439, 6.504]
    """
    require_count("outcomes", outcomes)
    if outcomes == 1:
        return 0.0
    with working_precision(BITS):
        k = BALL.constant(outcomes - 1)
        return round_up(upper(k / (k + 1) * (1 + (k * (-2 - 1 / k).exp()).lambertw())))


def scale_price(noise: OneSidedNoise, outcomes: int) -> Fraction:
    """Return max(ν, c R_m), rounded up: what a unit of β costs, in nats.

    Example:
        >>> from geoveil.selection.one_sided_pareto import ExponentialPareto
        >>> float(scale_price(ExponentialPareto(3.0), 2))
        3.0
    """
    depth = Fraction(noise.log_cdf_scale_cost) * Fraction(tilted_depth(outcomes))
    return max(Fraction(noise.tail_index), depth)


@dataclass(frozen=True, slots=True)
class Split:
    """A budget ε divided between shifts and changes of scale.

    Attributes:
        alpha: how far the others may come closer, in units of the noise.
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
        hazard: L, or what else a unit of α costs.
        price: what a unit of β costs, nats.
        share: of ε, in (0, 1), that pays for β.

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

    The share is public, so the sensitivity has to be that of a database one plans for, such as
    S(β) = e^{−(j−1)β} for a margin of j.

    Args:
        epsilon: ε > 0, nats.
        price: what a unit of β costs, nats.
        smooth_sensitivity: β ↦ S(β) > 0.

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

    found = minimize_scalar(
        log_scale, bounds=(1e-6, 1 - 1e-6), method="bounded", options={"xatol": 1e-9}
    )
    return float(found.x)
