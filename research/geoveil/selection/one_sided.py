"""One-sided noise: its contract, its families, and the three constants behind its privacy.

Z ≥ 0 has a nonincreasing density f, survival F̄ = 1 − F and hazard f/F̄. Its constants
    L = sup f/F̄,    ν = sup t f/F̄,    c = sup t f/(F (−ln F))
are the prices of a shift, of a smaller scale for the winner, and of a smaller scale for the losers.

The families are the positive halves |Z| of Student's t and the generalized Cauchy, and exponential
noise with a Pareto tail, which has the largest hazard that L and ν permit. Bisection finds L and c
of the halves, certified in ball arithmetic.
"""

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import TypeAlias

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from geoveil.gp import (
    BALL,
    BITS,
    FLOAT,
    Arithmetic,
    Array,
    GeoVeilError,
    InvertedNoise,
    Real,
    round_up,
    upper,
    validation,
    working_precision,
)
from geoveil.selection.two_sided import HeavyGeneralizedCauchy, HeavyStudentT

LogFunction: TypeAlias = Callable[[arb, arb], tuple[arb, arb]]
"""Encloses log g and its derivative over the interval between two points."""

TOLERANCE = 2.0**-17
"""The relative excess of a certified bound over the supremum."""
_MOST_CELLS = 1 << 17


def supremum(function: LogFunction, low: arb, high: arb, floor: arb) -> Fraction:
    """Return a number ≥ g everywhere on [low, high], and ≥ `floor`, which is > 0.

    `function` encloses log g and its derivative. On each cell log g ≤ log g(middle) +
    max |(log g)'| · radius. The cell with the largest bound is halved until that bound is within
    `TOLERANCE` of a value of g or of the floor.

    Raises:
        GeoVeilError: if the bisection does not end.
    """
    with working_precision(BITS):
        best = floor.log().lower()
        order = count()
        cells: list[tuple[float, int, arb, arb, arb]] = []

        def add(a: arb, b: arb) -> None:
            nonlocal best
            middle = ((a + b) / 2).mid()
            value = function(middle, middle)[0]
            best = best.max(value.lower())
            bound = (value + abs(function(a, b)[1]) * (b - a)).upper()
            # Floats order the heap; the balls are certified.
            heapq.heappush(
                cells, (-float(bound) if bound.is_finite() else -1e300, next(order), a, b, bound)
            )

        add(low, high)
        for _ in range(_MOST_CELLS):
            _, _, a, b, bound = cells[0]
            if bound < best + TOLERANCE:
                # No other cell's rounded bound exceeds this one's.
                return upper(bound.max(best).exp() * (1 + arb(2) ** -48))
            heapq.heappop(cells)
            middle = ((a + b) / 2).mid()
            add(a, middle)
            add(middle, b)
    raise GeoVeilError("a supremum could not be enclosed")


Score: TypeAlias = Callable[[arb, arb], arb]
"""Encloses ψ = −(ln f)' over the interval between two points ≥ 0."""


class _Enclosure:
    """f, F̄ and F over an interval of t, from its ends, since all three are monotone."""

    def __init__(self, whole: InvertedNoise, score: Score, low: arb, high: arb) -> None:
        self.score = score(low, high)
        self.density = 2 * whole.ball_density(low).union(whole.ball_density(high))
        self.survival = 2 * whole.ball_tail(low).union(whole.ball_tail(high))
        self.cdf = 2 * whole.ball_center(low).union(whole.ball_center(high))

    @property
    def minus_log_cdf(self) -> arb:
        """−ln F, from the smaller of F and F̄."""
        return -self.cdf.log() if self.cdf < 0.5 else -(-self.survival).log1p()


def hazard_bound(whole: InvertedNoise, score: Score) -> Fraction:
    """Return L; beyond T = ν/f(0) the hazard is below ν/T, its value at 0."""
    with working_precision(BITS):
        at_zero = 2 * whole.ball_density(arb(0))
        end = (BALL.constant(whole.tail_exponent) / at_zero).upper()
        floor = at_zero.lower()

    def log_hazard(low: arb, high: arb) -> tuple[arb, arb]:
        at = _Enclosure(whole, score, low, high)
        hazard = at.density / at.survival
        return hazard.log(), hazard - at.score

    return supremum(log_hazard, arb(0), end, floor)


def scale_cost_bound(whole: InvertedNoise, score: Score) -> Fraction:
    """Return c, by bisection in ln t between two ends, with formulas beyond them.

    F ≥ t f, since f is nonincreasing; so the quotient is below ν if −ln F ≥ 1/ν. In the tail it is
    at most ν/F, because −ln F ≥ F̄.
    """
    with working_precision(BITS):
        nu = BALL.constant(whole.tail_exponent)
        low, high = arb(1), arb(1)
        while not -(-(2 * whole.ball_tail(low))).log1p() * nu > 1:
            low = low / 2
        while not whole.ball_tail(high) < TOLERANCE / 8:
            high = high * 2
        beyond = nu / (2 * whole.ball_center(high))
        begin, end = low.log().mid() - TOLERANCE, high.log().mid() + TOLERANCE

    def log_quotient(low: arb, high: arb) -> tuple[arb, arb]:
        t = low.exp(), high.exp()
        at = _Enclosure(whole, score, *t)
        between = t[0].union(t[1])
        ratio, depth = between * at.density / at.cdf, at.minus_log_cdf
        return (ratio / depth).log(), 1 - between * at.score - ratio + ratio / depth

    return max(supremum(log_quotient, begin, end, nu), upper(beyond))


class OneSidedNoise(ABC):
    """A standard noise variable Z ≥ 0, which mechanisms scale; methods take arrays of any shape."""

    @abstractmethod
    def logpdf(self, t: ArrayLike) -> Array:
        """Return log f(t) for t ≥ 0, and −∞ below."""

    @abstractmethod
    def survival(self, t: ArrayLike) -> Array:
        """Return F̄(t) = P[Z > t] with a small relative error; 1 for t ≤ 0."""

    @abstractmethod
    def quantile(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        """Return t with P[Z ≤ t] = p in the given arithmetic, for p in (0, 1)."""

    @property
    @abstractmethod
    def hazard(self) -> float:
        """L, at least the supremum of the hazard, in 1/(unit of Z)."""

    @property
    @abstractmethod
    def tail_index(self) -> float:
        """ν, the supremum of t f/F̄: P[e^b Z > t] is at most e^{νb} P[Z > t]."""

    @property
    @abstractmethod
    def log_cdf_scale_cost(self) -> float:
        """c, at least the supremum of t f/(F (−ln F)) and its limit ν."""

    @property
    def knees(self) -> tuple[float, ...]:
        """The points except 0 at which the density is not smooth."""
        return ()

    @property
    def certified_isf(self) -> Callable[[Array], Array] | None:
        """T → the t with F̄(t) = T in float64, within 2^-40 (1 + t); None if not available."""
        return None

    def pdf(self, t: ArrayLike) -> Array:
        """Return f(t)."""
        return np.exp(self.logpdf(t))

    def log_cdf(self, t: ArrayLike) -> Array:
        """Return log F(t), −∞ for t ≤ 0."""
        t = np.asarray(t, dtype=np.float64)
        with np.errstate(divide="ignore"):  # near 0 the survival rounds to 1
            inside = np.log1p(-self.survival(np.maximum(t, 0)))
        return np.where(t > 0, inside, -math.inf)

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] | None = None) -> Array:
        """Return float64 draws, which are not private: for simulation only [MATH §10]."""
        # 1 − U is never 0, and has the survival's small values.
        return np.asarray(self._isf(1 - rng.random(size)))

    @abstractmethod
    def _isf(self, tail: Array) -> Array:
        """Return the t with F̄(t) = tail in float64, for tail in (0, 1]."""


Whole: TypeAlias = HeavyStudentT | HeavyGeneralizedCauchy


class HalfNoise(OneSidedNoise):
    """|Z| for a symmetric Z whose score ψ = −(ln f)' has t ψ ≤ 1 + ν.

    Then f(s) ≥ f(t) (t/s)^{1+ν} for s > t, and integrated F̄(t) ≥ t f(t)/ν: the tail index is ν.
    """

    @property
    @abstractmethod
    def whole(self) -> Whole:
        """Z."""

    @abstractmethod
    def score_ball(self, low: arb, high: arb) -> arb:
        """Enclose ψ over the interval from `low` ≥ 0 to `high`."""

    def logpdf(self, t: ArrayLike) -> Array:
        t = np.asarray(t, dtype=np.float64)
        return np.where(t < 0, -math.inf, self.whole.logpdf(t) + math.log(2))

    def survival(self, t: ArrayLike) -> Array:
        t = np.maximum(np.asarray(t, dtype=np.float64), 0)
        return np.asarray(2 * self.whole.survival(t))

    def quantile(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        # Each side has half of the probability of |Z| > t.
        return self.whole.isf((1 - p) / 2, ops)

    @property
    def tail_index(self) -> float:
        return self.whole.tail_exponent

    @property
    def hazard(self) -> float:
        """L, certified and within 1e-5 of the supremum, in 1/(unit of Z)."""
        return _hazard(self)

    @property
    def log_cdf_scale_cost(self) -> float:
        """c, certified and within 1e-5 of the supremum."""
        return _log_cdf_scale_cost(self)

    def _isf(self, tail: Array) -> Array:
        return np.abs(self.whole.ppf(tail / 2))


@dataclass(frozen=True)
class HalfStudentT(HalfNoise):
    """|Z| for Student's t: f ∝ (1+t²/ν)^{−(ν+1)/2}, ν in [0.5, 20].

    Raises:
        ParameterError: if nu is out of range.

    Example:
        >>> round(HalfStudentT(1.0).log_cdf_scale_cost, 3)
        1.048
    """

    nu: float = 3.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "nu", validation.between("nu", self.nu, 0.5, 20))

    @property
    def whole(self) -> HeavyStudentT:
        return HeavyStudentT(self.nu)

    def score_ball(self, low: arb, high: arb) -> arb:
        nu, t = BALL.constant(self.nu), low.union(high)
        return (nu + 1) * t / (nu + t * t)


@dataclass(frozen=True)
class HalfGeneralizedCauchy(HalfNoise):
    """|Z| for the generalized Cauchy: f ∝ 1/(1+t^γ), γ in [1.5, 21]; the tail index is γ − 1.

    Raises:
        ParameterError: if gamma is out of range.

    Example:
        >>> round(HalfGeneralizedCauchy(3.0).log_cdf_scale_cost / 2, 3)
        1.004
    """

    gamma: float = 4.0

    def __post_init__(self) -> None:
        gamma = validation.between("gamma", self.gamma, 1.5, 21)
        object.__setattr__(self, "gamma", gamma)

    @property
    def whole(self) -> HeavyGeneralizedCauchy:
        return HeavyGeneralizedCauchy(self.gamma)

    def score_ball(self, low: arb, high: arb) -> arb:
        gamma = BALL.constant(self.gamma)
        power = (low ** (gamma - 1)).union(high ** (gamma - 1))
        return gamma * power / (1 + (low**gamma).union(high**gamma))


@lru_cache(maxsize=256)
def _hazard(noise: HalfNoise) -> float:
    return round_up(hazard_bound(noise.whole, noise.score_ball))


@lru_cache(maxsize=256)
def _log_cdf_scale_cost(noise: HalfNoise) -> float:
    return round_up(scale_cost_bound(noise.whole, noise.score_ball))


@dataclass(frozen=True)
class ExponentialPareto(OneSidedNoise):
    """F̄ = e^−t up to t = ν, then e^−ν (t/ν)^−ν: hazard min(1, ν/t), the largest permitted.

    With x = e^−t, c is the supremum of x ln x/((1−x) ln(1−x)) over the core. This decreases in x,
    because the logarithmic means of 1 with x and with 1 − x exceed √x + √(1−x) ≥ 1; in the tail
    x ν/((1−x)(−ln(1−x))) increases in x. So both are largest at the knee, x = e^−ν.

    Args:
        nu: ν in [0.5, 100]. The lighter the tail, the more a change of scale costs. If S falls
            exponentially with a margin, the required margin is least near ν = 1 for m ≥ 10
            outcomes, and near 0.5 for two.

    Raises:
        ParameterError: if nu is out of range.

    Example:
        >>> noise = ExponentialPareto(3.0)
        >>> round(noise.log_cdf_scale_cost, 3)
        3.078
        >>> float(noise.survival(3.0)) == math.exp(-3)
        True
    """

    nu: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "nu", validation.between("nu", self.nu, 0.5, 100))

    def logpdf(self, t: ArrayLike) -> Array:
        t = np.asarray(t, dtype=np.float64)
        beyond = np.log(np.maximum(t / self.nu, 1))
        inside = -np.clip(t, 0, self.nu) - (self.nu + 1) * beyond
        return np.where(t < 0, -math.inf, inside)

    def survival(self, t: ArrayLike) -> Array:
        t = np.asarray(t, dtype=np.float64)
        beyond = np.log(np.maximum(t / self.nu, 1))
        return np.asarray(np.exp(-np.clip(t, 0, self.nu) - self.nu * beyond))

    def quantile(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        # A logarithm in the core, a power in the tail.
        nu, zero = ops.constant(self.nu), ops.constant(0)
        depth = -ops.log1p(-p)
        return ops.minimum(depth, nu) * ops.exp(ops.maximum(depth - nu, zero) / nu)

    @property
    def hazard(self) -> float:
        """L = 1, the hazard of the core, in 1/(unit of Z)."""
        return 1.0

    @property
    def tail_index(self) -> float:
        return self.nu

    @property
    def log_cdf_scale_cost(self) -> float:
        """c, which is the quotient at the knee, rounded up."""
        with working_precision(BITS):
            nu = BALL.constant(self.nu)
            x = (-nu).exp()
            bound: arb = nu * x / ((1 - x) * -(-x).log1p())
        return round_up(upper(bound))

    @property
    def knees(self) -> tuple[float, ...]:
        return (self.nu,)

    @property
    def certified_isf(self) -> Callable[[Array], Array]:
        # −ln T moves by 2^-40, Z by 2^-39 of itself.
        return self._isf

    def _isf(self, tail: Array) -> Array:
        depth = -np.log(tail)
        return np.asarray(np.minimum(depth, self.nu) * np.exp(np.maximum(depth / self.nu - 1, 0)))
