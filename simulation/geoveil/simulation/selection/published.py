"""Smooth noisy max as [SNM] prints it, with each of its noises, and what that really costs.

Algorithm 1 and, for utilities that say who wins, S = e^{−εk} of Proposition 6.4 and Theorem 7.3. S
drops β, and so is neither smooth enough nor, at a lead k of 1, an upper bound.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import validation
from geoveil.gp.noise.base import Noise
from geoveil.gp.noise.laplace import Laplace
from geoveil.selection import (
    HeavyStudentT,
    LaplaceLogNormal,
    PublishedCalibrationWarning,
    SmoothNoisyMax,
    SmoothUtilities,
)
from geoveil.selection.smooth_privacy import shift_cost, spent

Array = NDArray[np.float64]
DELTA = 1e-5
"""Of the noises that need one; the paper names none."""

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
