"""Growth functions g: g(0) = 1, increasing, g(s+t) ≤ g(s)g(t) [SGP Def. 9].

A bound B is smooth for g at rate β if B(x) ≤ g(β|x−x'|)·B(x'). Formulas use the decay 1/g.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from geoveil.gp.arithmetic import Arithmetic, Real

EXPONENTIAL = "exponential"
LINEAR = "linear"

DECAYS: Mapping[str, Callable[[Arithmetic, Real], Real]] = MappingProxyType(
    {
        EXPONENTIAL: lambda ops, t: ops.exp(-t),
        LINEAR: lambda ops, t: 1 / (1 + t),
    }
)
"""Name of a growth function → the decay 1/g(t), t = β·distance ≥ 0."""
