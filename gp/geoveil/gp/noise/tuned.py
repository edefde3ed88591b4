"""What the noises made for a privacy frontier share [MATH §4]."""

from dataclasses import dataclass
from typing import ClassVar

from geoveil.gp import validation
from geoveil.gp.noise.base import Noise
from geoveil.gp.smooth.frontier import Frontier


@dataclass(frozen=True, slots=True)
class TunedNoise(Noise):
    """A noise that uses up, at every u, what a frontier allows at ε and β."""

    epsilon: float
    beta: float

    frontier: ClassVar[Frontier]
    """What the noise was made for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.positive("epsilon", self.epsilon))
        beta = validation.between("beta", self.beta, validation.LEAST, self.epsilon)
        object.__setattr__(self, "beta", beta)

    @property
    def _a(self) -> float:
        return self.epsilon / self.beta

    @property
    def tail_exponent(self) -> float:
        """See `Noise.tail_exponent`: ε/β."""
        return self._a

    @property
    def dilation(self) -> float:
        """See `Noise.dilation`: what the tail reaches, ε/β."""
        return self._a

    @property
    def sliding(self) -> float:
        """See `Noise.sliding`: reached where the core ends, ε."""
        return self.epsilon

    @property
    def tuned(self) -> tuple[Frontier, float]:
        """See `Noise.tuned`."""
        return (self.frontier, self.beta / self.epsilon)
