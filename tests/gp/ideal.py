"""The integer that a release of one query must be: the rounded ideal output, at 200 digits."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp

from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    LipschitzMechanism,
    LocalLaplace,
    QueryMechanism,
    SmoothMechanism,
)
from tests import oracles

ROUND_UP = 1 + mp.mpf(2) ** -48


def ideal(
    mechanism: QueryMechanism,
    x: Any,
    numerator: int,
    count: int,
    signed_distance: Callable[[Any, Any], Any] = oracles.signed_distance,
) -> list[int]:
    """Return the correctly rounded ideal output, for the least and greatest scale permitted.

    The scale of a Lipschitz mechanism may be rounded up by less than 2^-48, all others are exact.
    """
    query = mechanism.query
    with mp.workdps(max(200, mp.mp.dps)):
        s = signed_distance(query, x)
        if isinstance(mechanism, DebiasedLaplace):
            b = 1 / oracles.exact(Fraction(mechanism.privacy.epsilon))
            b *= oracles.exact(Fraction(mechanism.privacy.per))
            unit = oracles.quantile(oracles.STANDARD_LAPLACE, numerator, count)
            y = oracles.debiased(query, s + b * unit, b)
            return [oracles.round_to_grid(y, mechanism.step)]
        z = oracles.quantile(mechanism.noise, numerator, count)  # type: ignore[attr-defined]
        f = oracles.value(query, s)
        if isinstance(mechanism, LocalLaplace):
            scales = [1 / oracles.exact(mechanism.privacy.epsilon)]
        else:
            assert isinstance(mechanism.privacy, GeoPrivacy)
            rate = oracles.exact(
                Fraction(mechanism.privacy.epsilon) / Fraction(mechanism.privacy.per)
            )
            if isinstance(mechanism, LipschitzMechanism):
                least = oracles.lipschitz(query) / rate
                scales = [least, least * ROUND_UP]
            else:
                assert isinstance(mechanism, SmoothMechanism)
                # The best noise is made for ε = 1, and η = ε: B has its β, in units of ε.
                assert mechanism.noise.epsilon == 1  # type: ignore[attr-defined]
                beta = rate * oracles.exact(mechanism.noise.beta)  # type: ignore[attr-defined]
                scales = [oracles.bound(query, s, beta, mechanism.reach) / rate]
        return [oracles.round_to_grid(f + scale * z, mechanism.step) for scale in scales]
