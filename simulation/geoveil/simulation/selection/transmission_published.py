"""One-sided smooth private selection as it was printed, and what is proved of it [SPS Theorem 3].

With α' = α(kε), β' = β(lε) and k + (m − 1) l/2 = 1 the mechanism was said to keep ε; its authors
have withdrawn the proof. For the half of 1/(1 + z⁴) the one-sided theorem gives less than ε.
"""

from geoveil.selection.base import Array
from geoveil.selection.contrib.transmission import Transmission
from geoveil.selection.contrib.transmission_sensitivity import threshold_beta
from geoveil.selection.one_sided import HalfGeneralizedCauchy
from geoveil.selection.smooth import SmoothNoisyMax
from geoveil.selection.smooth_privacy import scale_price
from geoveil.selection.two_sided import HeavyGeneralizedCauchy

_GAMMA = 4.0


def published_one_sided(
    epsilon: float, known: Transmission, threshold: float
) -> tuple[Array, float] | None:
    """Return the probabilities at the nominal ε, and what is proved of it.

    As in the paper β' is the largest that the threshold permits, and sets l. None where that leaves
    nothing for k.

    Args:
        epsilon: the nominal ε, nats.
        known: of the database.
        threshold: T.
    """
    whole, half = HeavyGeneralizedCauchy(_GAMMA), HalfGeneralizedCauchy(_GAMMA)
    m = known.outcomes
    beta = threshold_beta(known.families, threshold)
    k = 1 - (m - 1) * beta * whole.scale_cost / epsilon
    if k <= 0:
        return None
    # S/α' with α' = kε/2 over the price of a shift is 2S/α with this α.
    alpha = k * epsilon / whole.max_score
    price = float(scale_price(half, m))
    proved = alpha * half.hazard + beta * price
    mechanism = SmoothNoisyMax(proved, m, half, share=beta * price / proved)
    scores = known.as_threshold(min(beta, mechanism.beta), threshold)
    return mechanism.probabilities(scores), mechanism.guarantee.epsilon
