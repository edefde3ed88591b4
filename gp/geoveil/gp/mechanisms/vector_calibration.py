"""The noise of several reports together and its scale; `VectorSmoothMechanism` has the proof."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.noise import LaplacePareto, Noise, PowerLaw
from geoveil.gp.smooth.frontier import CALIBRATIONS, Frontier, least_slack

Array = NDArray[np.float64]


def best_vector_noise(size: int, beta_fraction: float) -> Noise:
    """Return the default noise for m = `size` queries at β/ε = `beta_fraction`.

    `LaplacePareto(1, φ)` has the score min(1, (1 + 1/φ)/u), so that η = 1 − mβ/φ is exact; φ is
    the one of 0.01, 0.02, …, 0.49, the last with a variance, that makes Var/η² least.
    """
    if size == 1:
        return PowerLaw(1.0, beta_fraction)
    best, least = LaplacePareto(1.0, 0.49), math.inf
    for hundredth in range(1, 50):
        phi = hundredth / 100
        eta = 1 - size * beta_fraction / phi
        if eta <= 0:
            continue
        noise = LaplacePareto(1.0, phi)
        if noise.variance / eta**2 < least:
            best, least = noise, noise.variance / eta**2
    return best


def vector_eta(noise: Noise, size: int, beta_fraction: float, calibration: str) -> float:
    """Return η (in units of ε) for m = `size` reports with independent noise.

    Raises:
        UnsupportedError: if the noise cannot be private with a data-dependent scale.
        ParameterError: if β is too large for this noise and this many queries.
    """
    if size == 1:
        return CALIBRATIONS[calibration](noise, Frontier.RECTANGLE, beta_fraction)
    if noise.dilation == math.inf:
        raise UnsupportedError(
            f"{noise!r} has no power-law tail, so a data-dependent scale is not ε-GP for any"
            " beta > 0: divide the rate among LipschitzMechanisms, or use another noise"
        )
    if calibration == "paper" and noise.tuned is not None:
        raise UnsupportedError(f"{noise!r} is calibrated exactly only; it is not in the paper")
    eta = _ETAS[calibration](noise, size, beta_fraction)
    # At the end of the range η tends to 0, and what is computed is rounding.
    if eta * noise.sliding <= 1e-9:
        raise ParameterError(
            "beta / rate",
            beta_fraction,
            f"in (0, {1 / (size * noise.dilation):.6g}) for {size} queries and the noise {noise!r}",
        )
    return eta


def _paper_eta(noise: Noise, size: int, beta_fraction: float) -> float:
    """Return η of ε = mDβ + sliding·η, rounded down."""
    return (1 - size * noise.dilation * beta_fraction) / noise.sliding * _ROUND_DOWN


def _exact_eta(noise: Noise, size: int, beta_fraction: float) -> float:
    """Minimise (1 − β·max((m−1)D + w − 1, m − w))/ψ over u > 0, w = uψ, rounded down."""

    def slack(u: Array) -> Array:
        score = noise.score(u)
        change = u * score - 1
        others = size - 1
        swing = np.maximum(others * noise.dilation + change, others - change)
        with np.errstate(divide="ignore", over="ignore"):
            # The difference may be all rounding: take that off.
            return np.asarray((1 - beta_fraction * swing - 1e-15) / score)

    return least_slack(slack, noise) * _ROUND_DOWN


_ROUND_DOWN = 1 - 1e-12
"""Below by far more than the rounding of doubles, so that the guarantee is never exceeded."""
_ETAS: Mapping[str, Callable[[Noise, int, float], float]] = MappingProxyType(
    {"exact": _exact_eta, "paper": _paper_eta}
)
