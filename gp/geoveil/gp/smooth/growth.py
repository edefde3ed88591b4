"""Growth functions g: g(0) = 1, increasing, g(s+t) ≤ g(s)g(t) [SGP Def. 9].

A bound B is smooth for g at rate β if B(x) ≤ g(β|x−x'|)·B(x'). Formulas use the decay 1/g.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from geoveil.gp.arithmetic import Arithmetic, Exact, Real

EXPONENTIAL = "exponential"
LINEAR = "linear"

DECAYS: Mapping[str, Callable[[Arithmetic, Real], Real]] = MappingProxyType(
    {
        EXPONENTIAL: lambda ops, t: ops.exp(-t),
        LINEAR: lambda ops, t: 1 / (1 + t),
    }
)
"""Name of a growth function → the decay 1/g(t), t = β·distance ≥ 0."""


@dataclass(frozen=True, slots=True)
class Smoothness:
    """How a bound of the slope may vary, and which slopes it bounds."""

    beta: Exact
    """β > 0, in 1/(unit of the points)."""
    growth: str = EXPONENTIAL
    """The name of g in `DECAYS`."""
    reach: float = 0.0
    """Λ ≥ 0, the longest chord, in the unit of the points: 0 for slopes at points, ∞ for all."""
