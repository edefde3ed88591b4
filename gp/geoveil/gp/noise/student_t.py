"""Student-t noise: h ∝ (1+z²/ν)^{−(ν+1)/2} [BS19; SGP Lemma 3.5]."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp import _validation
from geoveil.gp.errors import ParameterError
from geoveil.gp.noise.base import Array, Noise


@dataclass(frozen=True, slots=True)
class StudentT(Noise):
    """The noise that the seed paper runs, with ν = 3.

    Args:
        nu: degrees of freedom ν > 2, so that the variance is finite.

    Example:
        >>> StudentT(3).variance
        3.0
    """

    nu: float = 3.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "nu", _validation.real("nu", self.nu))
        if self.nu <= 2:
            raise ParameterError("nu", self.nu, "a finite number > 2, for a finite variance")

    def logpdf(self, z: ArrayLike) -> Array:
        """See `Noise.logpdf`."""
        z = np.asarray(z, dtype=np.float64)
        nu = self.nu
        norm = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - math.log(nu * math.pi) / 2
        return np.asarray(norm - (nu + 1) / 2 * np.log1p(z * z / nu))

    def survival(self, u: ArrayLike) -> Array:
        """See `Noise.survival`."""
        from scipy import special

        return np.asarray(special.stdtr(self.nu, -np.asarray(u, dtype=np.float64)))

    def _ppf(self, p: Array) -> Array:
        """See `Noise._ppf`."""
        from scipy import special

        return np.asarray(special.stdtrit(self.nu, p))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] | None = None) -> Array:
        """See `Noise.sample`."""
        return np.asarray(rng.standard_t(self.nu, size))

    @property
    def variance(self) -> float:
        """See `Noise.variance`."""
        return self.nu / (self.nu - 2)

    def score(self, u: ArrayLike) -> Array:
        """See `Noise.score`."""
        u = np.asarray(u, dtype=np.float64)
        return np.asarray((self.nu + 1) / (self.nu / u + u))

    @property
    def dilation(self) -> float:
        """See `Noise.dilation`."""
        return self.nu

    @property
    def sliding(self) -> float:
        """See `Noise.sliding`: reached at u = √ν."""
        return (self.nu + 1) / (2 * math.sqrt(self.nu))
