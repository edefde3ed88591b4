"""Guarantees: what a release promises, with its unit.

A randomised map M is (ε, δ, Λ)-GP if P[M(x)∈S] ≤ e^{ε|x−x'|} P[M(x')∈S] + δ for all S and all
|x−x'| ≤ Λ; ε-GP is δ=0, Λ=∞ [SGP Def. 5]. ε is a rate: it has the unit 1/distance.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError


@dataclass(frozen=True, slots=True)
class GeoPrivacy:
    """Two values `per` apart are at most `epsilon`-distinguishable.

    Args:
        epsilon: log-ratio of probabilities (nats) that two values `per` apart may reach, > 0.
        per: a distance > 0, in `unit`.
        unit: the unit of `per`; empty if the caller keeps track of it.
        delta: additive slack in [0, 1).
        reach: largest distance Λ > 0, in `unit`, at which the guarantee is stated.

    Raises:
        ParameterError: if a parameter is NaN, infinite (`reach` may be), or out of range.

    Example:
        >>> p = GeoPrivacy(epsilon=1.0, per=8000.0, unit="dollar")
        >>> p.rate
        0.000125
        >>> p.at(4000)
        0.5
        >>> print(p)
        ε = 1 per 8000 dollar
    """

    epsilon: float
    per: float
    unit: str = ""
    delta: float = 0.0
    reach: float = math.inf

    def __post_init__(self) -> None:
        if not isinstance(self.unit, str):
            raise ParameterError("unit", self.unit, "a string")
        object.__setattr__(self, "epsilon", validation.positive("epsilon", self.epsilon))
        object.__setattr__(self, "per", validation.positive("per", self.per, self.unit))
        object.__setattr__(
            self, "delta", validation.between("delta", self.delta, 0, 1, high_open=True)
        )
        object.__setattr__(self, "reach", validation.non_negative("reach", self.reach))
        if self.reach == 0:
            raise ParameterError("reach", self.reach, "a number > 0 (infinity is permitted)")

    @property
    def exact_rate(self) -> Fraction:
        """ε/per as an exact fraction: exact release must not owe an ulp."""
        return Fraction(self.epsilon) / Fraction(self.per)

    @property
    def rate(self) -> float:
        """ε per unit of distance."""
        return self.epsilon / self.per

    def at(self, distance: float) -> float:
        """Return how distinguishable (nats) two values `distance` apart may be.

        Stated for distances up to `reach`; a guarantee with delta = 0 then holds for every
        distance, by a walk in small steps [MATH §1].
        """
        return self.rate * validation.non_negative("distance", distance)

    def scaled(self, factor: float | Fraction) -> "GeoPrivacy":
        """Return the guarantee whose rate is `factor` > 0 times this one, never more."""
        number = validation.positive("factor", factor)
        exact = Fraction(self.epsilon) * (
            factor if isinstance(factor, Fraction) else Fraction(number)
        )
        epsilon = float(exact)
        if Fraction(epsilon) > exact:
            epsilon = math.nextafter(epsilon, 0)
        return GeoPrivacy(epsilon, self.per, self.unit, self.delta, self.reach)

    def __str__(self) -> str:
        parts = [f"ε = {self.epsilon:g} per {self.per:g} {self.unit}".rstrip()]
        if self.delta:
            parts.append(f"δ = {self.delta:g}")
        if self.reach < math.inf:
            parts.append(f"up to {self.reach:g} {self.unit}".rstrip())
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class LocalPrivacy:
    """ε-LDP: any two values, however far apart, are at most `epsilon`-distinguishable.

    It is geo-privacy in the discrete metric, where all distances are 1; ε has no unit.

    Raises:
        ParameterError: if epsilon is not a finite number > 0.

    Example:
        >>> LocalPrivacy(epsilon=1.0).at(8000)
        1.0
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.positive("epsilon", self.epsilon))

    def at(self, distance: float) -> float:
        """Return how distinguishable (nats) two values may be: epsilon, unless they are equal."""
        return self.epsilon if validation.non_negative("distance", distance) > 0 else 0.0

    def __str__(self) -> str:
        return f"ε = {self.epsilon:g} between any two values"
