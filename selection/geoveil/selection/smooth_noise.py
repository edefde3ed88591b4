"""Two-sided noise with tails too heavy for a mean, which selection can do with."""

from dataclasses import dataclass

from geoveil.gp import validation
from geoveil.gp.noise.generalized_cauchy import GeneralizedCauchy
from geoveil.gp.noise.student_t import StudentT


@dataclass(frozen=True, slots=True)
class HeavyGeneralizedCauchy(GeneralizedCauchy):
    """h ∝ 1/(1+|z|^γ), variance or not.

    [SPS Theorem 6] gives the scale cost as γ − 1 for any γ > 1. Below γ = 2 it is 1, as everywhere:
    at z = 0 a change of scale changes the density by its whole factor.

    Args:
        gamma: γ in [1.5, 101].

    Raises:
        ParameterError: if gamma is out of range.

    Example:
        >>> HeavyGeneralizedCauchy(1.5).scale_cost, HeavyGeneralizedCauchy(4.0).scale_cost
        (1.0, 3.0)
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", validation.between("gamma", self.gamma, 1.5, 101))


@dataclass(frozen=True, slots=True)
class HeavyStudentT(StudentT):
    """h ∝ (1+z²/ν)^{−(ν+1)/2}, variance or not. Its scale cost is ν, but never less than 1.

    Args:
        nu: ν in [0.5, 100].

    Raises:
        ParameterError: if nu is out of range.

    Example:
        >>> HeavyStudentT(1.0).variance
        inf
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "nu", validation.between("nu", self.nu, 0.5, 100))

    @property
    def variance(self) -> float:
        """See `Noise.variance`."""
        return self.absolute_moment(2)
