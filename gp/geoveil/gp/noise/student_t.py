"""Student-t noise: h ∝ (1+z²/ν)^{−(ν+1)/2} [BS19; SGP Lemma 3.5]."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from geoveil.gp import validation
from geoveil.gp.exact.ball import BALL
from geoveil.gp.noise.algebraic import AlgebraicNoise
from geoveil.gp.noise.base import FAR_TAIL, Array


@dataclass(frozen=True, slots=True)
class StudentT(AlgebraicNoise):
    """The noise that the seed paper runs, with ν = 3.

    With w = u²/(ν+u²) the score is (ν+1)·√(w(1−w)/ν), and uψ = (ν+1)w.

    Args:
        nu: degrees of freedom ν in (2, 100]; above 2 the variance is finite.

    Raises:
        ParameterError: if nu is out of range.

    Example:
        >>> StudentT(3).variance
        3.0
    """

    nu: float = 3.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "nu", validation.between("nu", self.nu, 2, 100, low_open=True))

    def logpdf(self, z: ArrayLike) -> Array:
        """See `Noise.logpdf`."""
        z = np.asarray(z, dtype=np.float64)
        nu = self.nu
        norm = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - math.log(nu * math.pi) / 2
        # hypot instead of a square, which would overflow.
        return np.asarray(norm - (nu + 1) * np.log(np.hypot(1, z / math.sqrt(nu))))

    def survival(self, u: ArrayLike) -> Array:
        """See `Noise.survival`."""
        from scipy import special

        u = np.asarray(u, dtype=np.float64)
        # Beyond, the first order is exact to double precision, and SciPy underflows.
        limit = 1e9 * self.nu
        middle = special.stdtr(self.nu, -np.minimum(u, limit))
        return np.where(u > limit, self._far_survival(np.maximum(u, limit)), middle)

    @property
    def _log_height(self) -> float:
        """Logarithm of lim u^ν·survival(u) = h(0)·ν^{(ν−1)/2}."""
        return float(self.logpdf(0.0)) + (self.nu - 1) / 2 * math.log(self.nu)

    def _far_survival(self, u: Array) -> Array:
        return np.asarray(np.exp(self._log_height - self.nu * np.log(u)))

    def _tail_isf(self, tail: Array) -> Array:
        """See `Noise._tail_isf`."""
        return np.asarray(np.exp((self._log_height - np.log(tail)) / self.nu))

    def _ppf(self, p: Array) -> Array:
        """See `Noise._ppf`."""
        from scipy import special

        middle = special.stdtrit(self.nu, np.clip(p, FAR_TAIL, 1 - FAR_TAIL))
        return self._with_far_tail(p, np.abs(middle))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] | None = None) -> Array:
        """See `Noise.sample`."""
        return np.asarray(rng.standard_t(self.nu, size))

    @property
    def variance(self) -> float:
        """See `Noise.variance`."""
        return self.nu / (self.nu - 2)

    @property
    def tail_exponent(self) -> float:
        """See `Noise.tail_exponent`: ν."""
        return self.nu

    def _absolute_moment(self, order: float) -> float:
        """See `Noise.absolute_moment`: ν^{p/2} Γ((p+1)/2) Γ((ν−p)/2) / (√π Γ(ν/2))."""
        gammas = math.lgamma((order + 1) / 2) + math.lgamma((self.nu - order) / 2)
        norm = math.log(math.pi) / 2 + math.lgamma(self.nu / 2)
        return math.exp(order / 2 * math.log(self.nu) + gammas - norm)

    def score(self, u: ArrayLike) -> Array:
        """See `Noise.score`."""
        u = np.asarray(u, dtype=np.float64)
        return np.asarray((self.nu + 1) / (self.nu / u + u))

    @property
    def _steepness(self) -> Fraction:
        return Fraction(self.nu) + 1

    @property
    def _share(self) -> Fraction:
        return Fraction(1, 2)

    def _ball_max_score(self) -> arb:
        """See `AlgebraicNoise`: reached at u = √ν."""
        nu = BALL.constant(self.nu)
        return (nu + 1) / (2 * nu.sqrt())

    def ball_tail(self, u: arb) -> arb:
        """See `InvertedNoise.ball_tail`: ½ I(ν/2, ½) at ν/(ν+u²)."""
        nu = BALL.constant(self.nu)
        return (nu / (nu + u * u)).beta_lower(nu / 2, BALL.constant(0.5), True) / 2

    def ball_center(self, u: arb) -> arb:
        """See `InvertedNoise.ball_center`: ½ I(½, ν/2) at u²/(ν+u²)."""
        nu = BALL.constant(self.nu)
        return (u * u / (nu + u * u)).beta_lower(BALL.constant(0.5), nu / 2, True) / 2

    def ball_density(self, u: arb) -> arb:
        """See `InvertedNoise.ball_density`."""
        nu = BALL.constant(self.nu)
        half = BALL.constant(0.5)
        norm = ((nu + 1) / 2).gamma() / ((nu / 2).gamma() * (nu * arb.pi()).sqrt())
        return norm * (1 + u * u / nu) ** (-(nu + 1) * half)
