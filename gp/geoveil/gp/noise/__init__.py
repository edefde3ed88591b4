"""Noise families with one contract and one registry; a new family is a file and a line here."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from geoveil.gp.noise.algebraic import GeneralizedCauchy, StudentT
from geoveil.gp.noise.base import Laplace, Noise
from geoveil.gp.noise.frontier import LaplacePareto, PowerLaw
from geoveil.gp.smooth.frontier import Frontier

NOISES: Mapping[str, type[Noise]] = MappingProxyType(
    {
        "laplace": Laplace,
        "generalized-cauchy": GeneralizedCauchy,
        "student-t": StudentT,
        "laplace-pareto": LaplacePareto,
        "power-law": PowerLaw,
    }
)
"""Name of a family → its class."""

_BEST: Mapping[Frontier, Callable[[float, float], Noise]] = MappingProxyType(
    {Frontier.CROSS: LaplacePareto, Frontier.RECTANGLE: PowerLaw}
)


def best_noise(frontier: Frontier, beta_fraction: float) -> Noise:
    """Return the noise with the least variance on a frontier, for ε = 1 and β = `beta_fraction`.

    `beta_fraction` must be in (0, 1].
    """
    return _BEST[frontier](1.0, beta_fraction)


__all__ = [
    "NOISES",
    "GeneralizedCauchy",
    "Laplace",
    "LaplacePareto",
    "Noise",
    "PowerLaw",
    "StudentT",
    "best_noise",
]
