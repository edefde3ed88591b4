"""The percentile mechanisms as they were printed, and what is proved of them [SNM §5].

[SNM Propositions 5.3, 5.4]: with j the fewer repeats of the percentile on either side of its
position, δ = 1 from t = 2j + 1 on, and S' = e^{−(2j+1)β}. Both are wrong: a record more or less
changes j by up to 1, so 2j + 1 by up to 2, and where the percentile is about to change j = 0 but
the local sensitivity is 1. So e^β S' is a 2β-smooth upper bound, and no better is known: the shift
costs e^β times what it should, the change of scale what 2β costs. In local dampening D moves by 2
where it should by 1: 2ε.
"""

import math

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.noise.base import Noise
from geoveil.selection import LocalDampening, LocalUtilities, SmoothUtilities
from geoveil.selection.smooth_privacy import spent
from geoveil.simulation.selection.published import delta_of, published_mechanism

Array = NDArray[np.float64]


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
