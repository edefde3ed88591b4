"""Mechanisms of selection as papers print them, and what is proved of them.

*Smooth noisy max* [SNM]: Algorithm 1 and, for utilities that say who wins, S = e^{−εk} of
Proposition 6.4 and Theorem 7.3. S drops β, and so is neither smooth enough nor, at a lead k of 1,
an upper bound.

*Percentiles* [SNM Propositions 5.3, 5.4]: with j the fewer repeats of the percentile on either side
of its position, δ = 1 from t = 2j + 1 on, and S' = e^{−(2j+1)β}. Both are wrong: a record more or
less changes j by up to 1, so 2j + 1 by up to 2, and where the percentile is about to change j = 0
but the local sensitivity is 1. So e^β S' is a 2β-smooth upper bound, and no better is known: the
shift costs e^β times what it should, the change of scale what 2β costs. In local dampening D moves
by 2 where it should by 1: 2ε.

*One-sided smooth private selection* [SPS Theorem 3]: with α' = α(kε), β' = β(lε) and
k + (m − 1) l/2 = 1 the mechanism was said to keep ε; its authors have withdrawn the proof. For the
half of 1/(1 + z⁴) the one-sided theorem gives less than ε.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import validation
from geoveil.gp.noise.base import Laplace, Noise
from geoveil.selection import (
    HeavyStudentT,
    LaplaceLogNormal,
    LocalDampening,
    LocalUtilities,
    PublishedCalibrationWarning,
    SmoothNoisyMax,
    SmoothUtilities,
)
from geoveil.selection.contrib.transmission import Transmission
from geoveil.selection.contrib.transmission_sensitivity import threshold_beta
from geoveil.selection.one_sided import HalfGeneralizedCauchy
from geoveil.selection.smooth_privacy import scale_price, shift_cost, spent
from geoveil.selection.two_sided import HeavyGeneralizedCauchy

Array = NDArray[np.float64]
DELTA = 1e-5
"""The δ of the noises that need one; the paper names none."""

PUBLISHED_NOISE: Mapping[str, Noise] = MappingProxyType(
    {"SNM-T": HeavyStudentT(3.0), "SNM-LAP": Laplace(), "SNM-LLN": LaplaceLogNormal(1.0)}
)
"""Name in the paper → its noise. Of the log-normal scale it gives no σ."""


def delta_of(noise: Noise) -> float:
    """Return δ: 0 where the noise needs none."""
    return 0.0 if math.isfinite(noise.scale_cost) else DELTA


def published_mechanism(epsilon: float, outcomes: int, noise: Noise) -> SmoothNoisyMax:
    """Return Algorithm 1, without the warning: rows say that they are nominal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        return SmoothNoisyMax(
            epsilon, outcomes, noise, calibration="published", delta=delta_of(noise)
        )


@cache
def published_law(
    epsilon: float, noise: Noise = PUBLISHED_NOISE["SNM-T"]
) -> Callable[[int, int], tuple[float, float]]:
    """Return the probabilities of the winner and of each other outcome, by lead and outcomes.

    Args:
        epsilon: what the paper promises, nats.
        noise: of `PUBLISHED_NOISE`.
    """
    mechanism = published_mechanism(epsilon, 2**20, noise)

    @cache
    def law(lead: int, outcomes: int) -> tuple[float, float]:
        if outcomes == 1:
            return 1.0, 0.0
        bound = max(float(np.exp(-epsilon * lead)), 1 / validation.FARTHEST)
        indicator = np.zeros(outcomes)
        indicator[0] = 1.0
        scores = SmoothUtilities(indicator, bound, beta=mechanism.beta)
        return winner_and_other(mechanism.probabilities(scores))

    return law


def published_bound(
    epsilon: float, outcomes: int, noise: Noise = PUBLISHED_NOISE["SNM-T"]
) -> float:
    """Return what is proved of the published mechanism, in nats, with `delta_of` the noise.

    e^ε S is ε-smooth and an upper bound of the local sensitivity: the noise is that of α e^ε.

    Args:
        epsilon: what the paper promises.
        outcomes: m ≥ 2.
        noise: of `PUBLISHED_NOISE`.
    """
    alpha = epsilon / 2 / float(shift_cost(noise))
    return spent(noise, math.exp(epsilon) * alpha, epsilon, outcomes, delta_of(noise))


@cache
def published_cost(epsilon: float, outcomes: int) -> float:
    """Return the largest log-ratio found between neighbours with Student-t noise, in nats.

    A lower bound of its true ε: leads k and k + 1, and another winner at leads 0 and 1.

    Args:
        epsilon: what the paper promises.
        outcomes: m ≥ 2.
    """
    law = published_law(epsilon)
    winner, other = law(1, outcomes)
    tied, beaten = law(0, outcomes)
    worst = max(np.log(winner / other), np.log(tied / other), np.log(winner / beaten))
    for lead in _leads(epsilon):
        near, far = law(lead, outcomes), law(lead + 1, outcomes)
        worst = max(worst, abs(np.log(near[0] / far[0])), abs(np.log(near[1] / far[1])))
    return float(worst)


def _leads(epsilon: float) -> Iterator[int]:
    # Beyond e^{-εk} = e^{-12} the ratio of the tails, e^{3ε}, is all that is left.
    yield from sorted({int(k) for k in np.linspace(0, 12 / epsilon + 1, 40)})


def winner_and_other(probabilities: Array) -> tuple[float, float]:
    """Return the probabilities of the first outcome and of the last."""
    return float(probabilities[0]), float(probabilities[-1])


def repeats(records: Array, p: float) -> int:
    """Return j: how often the percentile is repeated before or after its position, the fewer."""
    ordered = np.sort(records)
    at = math.floor(p * len(ordered) / 100)
    value = ordered[at]
    before = at - int(np.searchsorted(ordered, value, "left"))
    after = int(np.searchsorted(ordered, value, "right")) - 1 - at
    return min(before, after)


def published_dampening(epsilon: float, indicator: Array, j: int) -> tuple[Array, float]:
    """Return the probabilities of local dampening as printed, and what is proved of its ε."""
    steps = np.zeros(len(indicator)), np.ones(len(indicator))
    scores = LocalUtilities(indicator, lambda t: steps[int(t >= 2 * j + 1)])
    return LocalDampening(epsilon, 1.0).probabilities(scores), 2 * epsilon


def published_noisy_max(
    epsilon: float, indicator: Array, j: int, noise: Noise
) -> tuple[Array, float, float]:
    """Return the probabilities of smooth noisy max as printed, what is proved of its ε, and δ."""
    delta = delta_of(noise)
    mechanism = published_mechanism(epsilon, len(indicator), noise)
    beta = mechanism.beta
    bound = math.exp(-min((2 * j + 1) * beta, 200.0))
    scores = SmoothUtilities(indicator, bound, beta=beta)
    proved = spent(noise, mechanism.alpha * math.exp(beta), 2 * beta, len(indicator), delta)
    return mechanism.probabilities(scores), proved, delta


def published_one_sided(
    epsilon: float, known: Transmission, threshold: float, gamma: float = 4.0
) -> tuple[Array, float]:
    """Return the probabilities at the nominal ε, and what is proved of it.

    As in the authors' code β' is the largest that the threshold permits, but at most β/(m − 1):
    that is l, and leaves k at least a half.

    Args:
        epsilon: the nominal ε, nats.
        known: of the database, with two variants or more.
        threshold: T.
        gamma: of the half of 1/(1 + z^γ), at least 2.
    """
    whole, half = HeavyGeneralizedCauchy(gamma), HalfGeneralizedCauchy(gamma)
    m = known.outcomes
    most = epsilon / (2 * whole.scale_cost)
    beta = min(threshold_beta(known.families, threshold), most / (m - 1))
    k = 1 - (m - 1) * beta / (2 * most)
    # S/α' with α' = kε/2 over the price of a shift is 2S/α with this α.
    alpha = k * epsilon / whole.max_score
    price = float(scale_price(half, m))
    proved = alpha * half.hazard + beta * price
    mechanism = SmoothNoisyMax(proved, m, half, share=beta * price / proved)
    scores = known.as_threshold(min(beta, mechanism.beta), threshold)
    return mechanism.probabilities(scores), mechanism.guarantee.epsilon
