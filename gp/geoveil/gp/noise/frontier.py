"""What the noises made for a privacy frontier share [MATH §4].

1/ψ is piecewise linear in u: level or falling in the core, which ends at the knee u = v, where
ψ = ε, and then rising with the slope 1/(1+a), a = ε/β.
"""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.noise.base import Noise


@dataclass(frozen=True, slots=True)
class FrontierNoise(Noise):
    """A noise that uses up, at every u, what a frontier allows at ε and β."""

    epsilon: float
    beta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.positive("epsilon", self.epsilon))
        beta = validation.between("beta", self.beta, validation.LEAST, self.epsilon)
        object.__setattr__(self, "beta", beta)

    @property
    def _a(self) -> float:
        return self.epsilon / self.beta

    @property
    @abstractmethod
    def _exact_knee(self) -> Fraction:
        """v, in the unit of Z."""

    @property
    def tail_exponent(self) -> float:
        """See `Noise.tail_exponent`: ε/β."""
        return self._a

    @property
    def exact_scale_cost(self) -> Fraction:
        """See `Noise.exact_scale_cost`: what the tail reaches, ε/β."""
        return Fraction(self.epsilon) / Fraction(self.beta)

    @property
    def max_score(self) -> float:
        """See `Noise.max_score`: reached where the core ends, ε."""
        return self.epsilon

    def least_quotient(self, constant: Fraction, factor: Fraction) -> Fraction:
        """See `Noise.least_quotient`: exact.

        constant/ψ + factor·u is piecewise linear, and does not fall beyond the knee, where its
        slope is that of the numerator's limit, which is not negative.
        """
        start = constant / self._score_at_zero if self._score_at_zero else None
        knee = constant / Fraction(self.epsilon) + factor * self._exact_knee
        return knee if start is None else min(start, knee)

    @property
    @abstractmethod
    def _score_at_zero(self) -> Fraction:
        """ψ(0), at most ε."""
