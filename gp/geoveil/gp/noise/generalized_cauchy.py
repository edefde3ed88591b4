"""Generalized Cauchy noise: h ∝ 1/(1+|z|^γ) [NRS07; SGP Lemma 3.3; SPS Theorem 6]."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp import _validation
from geoveil.gp.errors import ParameterError
from geoveil.gp.noise.base import Array, Noise


@dataclass(frozen=True, slots=True)
class GeneralizedCauchy(Noise):
    """The noise of smooth sensitivity as first published.

    Args:
        gamma: γ > 3, so that the variance is finite.

    Example:
        >>> round(GeneralizedCauchy(4).variance, 12)
        1.0
    """

    gamma: float = 4.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", _validation.real("gamma", self.gamma))
        if self.gamma <= 3:
            raise ParameterError("gamma", self.gamma, "a finite number > 3, for a finite variance")

    def logpdf(self, z: ArrayLike) -> Array:
        """See `Noise.logpdf`: the half-mass is (π/γ)/sin(π/γ)."""
        u = np.abs(np.asarray(z, dtype=np.float64))
        # log(1 + u^γ) without overflow.
        log_power = self.gamma * np.log(np.maximum(u, 1e-300))
        angle = math.pi / self.gamma
        return np.asarray(-np.logaddexp(0, log_power) - math.log(2 * angle / math.sin(angle)))

    def _share(self, u: Array) -> Array:
        """Return 1/(1+u^γ) ∈ (0, 1], the complement of the t of the incomplete beta function."""
        return np.asarray(np.exp(-np.logaddexp(0, self.gamma * np.log(np.maximum(u, 1e-300)))))

    def survival(self, u: ArrayLike) -> Array:
        """See `Noise.survival`: ½ I_{1/(1+u^γ)}(1 − 1/γ, 1/γ)."""
        from scipy import special

        u = np.asarray(u, dtype=np.float64)
        return np.asarray(special.betainc(1 - 1 / self.gamma, 1 / self.gamma, self._share(u)) / 2)

    def _ppf(self, p: Array) -> Array:
        """See `Noise._ppf`: the inverse of the incomplete beta function, from the nearer end."""
        from scipy import special

        tail = np.minimum(p, 1 - p)
        k = 1 / self.gamma
        share = special.betaincinv(1 - k, k, 2 * tail)
        near = special.betaincinv(k, 1 - k, 1 - 2 * tail)
        ratio = np.where(tail < 0.25, (1 - share) / np.maximum(share, 1e-300), near / (1 - near))
        return np.asarray(np.sign(p - 0.5) * ratio**k)

    @property
    def variance(self) -> float:
        """See `Noise.variance`."""
        angle = math.pi / self.gamma
        return math.sin(angle) / math.sin(3 * angle)

    def score(self, u: ArrayLike) -> Array:
        """See `Noise.score`: γw/u with w = u^γ/(1+u^γ)."""
        u = np.asarray(u, dtype=np.float64)
        log_power = self.gamma * np.log(np.maximum(u, 1e-300))
        return np.asarray(self.gamma * np.exp(-np.logaddexp(0, -log_power)) / u)

    @property
    def dilation(self) -> float:
        """See `Noise.dilation`."""
        return self.gamma - 1

    @property
    def sliding(self) -> float:
        """See `Noise.sliding`."""
        return float((self.gamma - 1) ** ((self.gamma - 1) / self.gamma))
