"""Two-sided noise for selection; it needs no mean, so its tails may be heavy.

Laplace log-normal noise is a Laplace variable whose scale is log-normal [BS19].
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import (
    BALL,
    BITS,
    FLOAT,
    Arithmetic,
    Array,
    GeneralizedCauchy,
    Laplace,
    LazyUniform,
    Noise,
    Real,
    StudentT,
    UnsupportedError,
    round_up,
    upper,
    validation,
    working_precision,
)


@dataclass(frozen=True, slots=True)
class HeavyGeneralizedCauchy(GeneralizedCauchy):
    """h ∝ 1/(1+|z|^γ), γ in [1.5, 101], with or without a variance.

    [SPS Theorem 6] states the scale cost γ − 1 for any γ > 1. Below γ = 2 it is 1, since at z = 0
    the density changes by the whole factor of the scale.

    Raises:
        ParameterError: if gamma is out of range.

    Example:
        >>> HeavyGeneralizedCauchy(1.5).scale_cost, HeavyGeneralizedCauchy(4.0).scale_cost
        (1.0, 3.0)
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", validation.between("gamma", self.gamma, 1.5, 101))

    @property
    def variance(self) -> float:
        return GeneralizedCauchy(self.gamma).variance if self.gamma > 3 else math.inf


@dataclass(frozen=True, slots=True)
class HeavyStudentT(StudentT):
    """h ∝ (1+z²/ν)^{−(ν+1)/2}, ν in [0.5, 100], even without variance; the scale cost is max(ν, 1).

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
        return StudentT(self.nu).variance if self.nu > 2 else math.inf


_STEP = 1 / 32
"""The step of the trapezoidal rule, whose error is below 1e-16 for bounded integrands."""
_REACH = 10.0
"""The integrand beyond this is below 1e-21 of its peak: its exponent is as concave as −y²/2."""
_LEAST, _MOST = -40, 100
"""ln t below which M rounds to 1, and above which ln M is below −1,000."""
_DEGREE = 20
_PIECES = 2
"""The number of polynomials per unit of ln t."""


@dataclass(frozen=True, slots=True)
class LaplaceLogNormal(Noise):
    """Z = X e^{σY} with standard Laplace X and standard normal Y, σ in [0.1, 2].

    With M(t) = E[exp(−t e^{−σY})], M' is −e^{σ²/2} M(t e^{σ²}): the survival is M/2, the density
    e^{σ²/2} M(t e^{σ²})/2, and the score e^{3σ²/2} M(t e^{2σ²})/M(t e^{σ²}).

    Raises:
        ParameterError: if sigma is out of range.

    Example:
        >>> noise = LaplaceLogNormal(1.0)
        >>> round(noise.max_score, 6), float(noise.survival(0.0))
        (4.481689, 0.5)
        >>> float(noise.survival(10.0)).__round__(9)
        0.011496107
    """

    sigma: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", validation.between("sigma", self.sigma, 0.1, 2))

    def logpdf(self, z: ArrayLike) -> Array:
        square = self.sigma**2
        return self._log_m(np.abs(np.asarray(z)), square) + square / 2 - math.log(2)

    def survival(self, u: ArrayLike) -> Array:
        return np.asarray(np.exp(self._log_m(np.asarray(u), 0.0)) / 2)

    @property
    def variance(self) -> float:
        return 2 * math.exp(2 * self.sigma**2)

    @property
    def exact_scale_cost(self) -> None:
        """None, since uψ grows without bound, although slowly."""

    @property
    def max_score(self) -> float:
        """e^{3σ²/2}, the score at 0, where it is largest, rounded up."""
        with working_precision(BITS):
            exponent = BALL.constant(Fraction(3, 2) * Fraction(self.sigma) ** 2)
            return round_up(upper(BALL.exp(exponent)))

    def isf(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        """Raise UnsupportedError: there is no formula, and `sample` and `ball_noise` need none."""
        raise UnsupportedError("Laplace log-normal noise has no quantile; it is a product of two")

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] | None = None) -> Array:
        return np.asarray(rng.laplace(size=size) * np.exp(self.sigma * rng.normal(size=size)))

    def ball_noise(self, uniform: LazyUniform) -> Real:
        """Enclose Z: X from every other bit of a uniform number, Y from the bits between."""
        bits = f"{uniform.numerator:0{uniform.count}b}"
        count = uniform.count // 2
        first, second = (BALL.uniform(int(part, 2), count) for part in (bits[::2], bits[1::2]))
        normal = arb(2).sqrt() * (2 * second - 1).erfinv()
        return Laplace().quantile(first, BALL) * (BALL.constant(self.sigma) * normal).exp()

    def _log_m(self, t: Array, shift: float) -> Array:
        """Return ln M(t e^shift) for t ≥ 0."""
        with np.errstate(divide="ignore"):
            x = np.log(np.asarray(t, dtype=np.float64)) + shift
        place = (np.clip(x, _LEAST, _MOST - 1e-9) - _LEAST) * _PIECES
        piece = place.astype(np.intp)
        inside = 2 * (place - piece) - 1
        table = _polynomials(self.sigma)
        # Clenshaw's recurrence.
        last, before = np.zeros_like(inside), np.zeros_like(inside)
        for coefficient in table[:0:-1]:
            last, before = coefficient[piece] + 2 * inside * last - before, last
        value = table[0][piece] + inside * last - before
        return np.where(x < _LEAST, 0.0, np.where(x >= _MOST, -math.inf, value))


@lru_cache(maxsize=16)
def _polynomials(sigma: float) -> NDArray[np.float64]:
    """Return Chebyshev coefficients of ln M by ln t, shape (degree + 1, pieces)."""
    nodes = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    starts = _LEAST + np.arange((_MOST - _LEAST) * _PIECES) / _PIECES
    values = log_laplace_transform(sigma, starts[:, None] + (nodes + 1) / (2 * _PIECES))
    fit = np.polynomial.chebyshev.chebfit(nodes, values.T, _DEGREE)
    return np.asarray(fit, dtype=np.float64)


def log_laplace_transform(sigma: float, log_t: Array) -> Array:
    """Return ln E[exp(−t e^{−σY})] for standard normal Y and ln t ≤ 240 of any shape.

    The trapezoidal rule is centred at the maximum of −y²/2 − t e^{−σy}, y = W(σ²t)/σ, where W is
    the Lambert function.

    Example:
        >>> float(np.exp(log_laplace_transform(1.0, np.array(-60.0))))
        1.0
    """
    from scipy.special import lambertw, logsumexp

    x = np.asarray(log_t, dtype=np.float64)
    top = lambertw(sigma**2 * np.exp(x)).real / sigma
    y = top[..., None] + np.arange(-_REACH, _REACH + _STEP, _STEP)
    with np.errstate(over="ignore"):
        exponent = -y * y / 2 - np.exp(x[..., None] - sigma * y)
    total = np.asarray(logsumexp(exponent, axis=-1), dtype=np.float64)
    return np.asarray(total + math.log(_STEP / math.sqrt(2 * math.pi)))
