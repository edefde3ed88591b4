"""Planar Laplace: noise on the point itself, for any later query [ABCP13; MATH §5.2].

The radius of the noise is Gamma(k, 1), the sum of k exponentials −log U; the direction is uniform:
a sign, an angle, or by Archimedes a height and an angle. All uniform numbers are refined together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.arrays import Array, ArrayLike, NDArray, np
from geoveil.gp.deconvolution import PointEstimator, SmoothedRegion, point_estimator
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.exact import BALL, step_exponent_of, working_precision
from geoveil.gp.lazy import lazy
from geoveil.gp.mechanisms.base import Ideal, Mechanism, PrivatePoint
from geoveil.gp.mechanisms.grids import exponent_below
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.randomness import LazyUniform, RandomSource, chosen_source

_STEP_BITS = 20
"""Rounding to 2^-20 of the scale adds less than 10^-13 to the variance; the range of int64 then
ends 2^43 scales from the origin."""
_OFF = 2.0**-40
"""Relative error of doubles."""
_EDGE = 2.0**-20
"""Distance from 0 and 1 within which balls handle uniform numbers, because errors grow there."""
_TOGETHER = 1 << 12
"""The most points released at once."""
_REACH_BITS = 128
"""Working precision for a radius at a public probability."""


def _sign(u: Sequence[Real], ops: Arithmetic) -> list[Real]:
    """Return −1 or 1."""
    unit = ops.constant(1)
    return [ops.piecewise(u[0], [ops.constant(0.5)], [lambda _: -unit, lambda _: unit])]


def _angle(u: Sequence[Real], ops: Arithmetic) -> list[Real]:
    """Return a point of the circle."""
    return list(ops.turn(u[0]))


def _height_and_angle(u: Sequence[Real], ops: Arithmetic) -> list[Real]:
    """Return a point of the sphere, whose height is uniform in [−1, 1]."""
    height = 2 * u[0] - 1
    ring = ops.sqrt(4 * u[0] * (1 - u[0]))
    return [ring * part for part in ops.turn(u[1])] + [height]


DIRECTIONS: Mapping[int, tuple[int, Callable[[Sequence[Real], Arithmetic], list[Real]]]] = (
    MappingProxyType({1: (1, _sign), 2: (1, _angle), 3: (2, _height_and_angle)})
)
"""Dimension → how many uniform numbers a uniform direction takes, and the function of them."""

DIMENSIONS = tuple(DIRECTIONS)
"""The dimensions k with an exact release."""


def uniforms_needed(dimension: int) -> int:
    """Return the number of uniform numbers that one noise vector takes."""
    return dimension + DIRECTIONS[dimension][0]


def planar_noise(u: Sequence[Real], ops: Arithmetic) -> list[Real]:
    """Return the coordinates of a noise vector, from the uniform numbers for its dimension."""
    dimension = next(k for k in DIMENSIONS if uniforms_needed(k) == len(u))
    radius = -ops.log(u[0])
    for share in u[1:dimension]:
        radius = radius - ops.log(share)
    return [radius * part for part in DIRECTIONS[dimension][1](u[dimension:], ops)]


@dataclass(frozen=True)
class PlanarLaplace(Mechanism[tuple[int, ...]]):
    """x + N with density ∝ e^{−ε|N|} in k dimensions: ε-GP.

    The radius is Gamma(k, 1/ε) and the direction uniform: a normal vector, normalised.

    Args:
        privacy: the guarantee, in the unit of the points.
        dimension: k ≥ 1; points are released in 1, 2 and 3.
        step: spacing of the public grid of released coordinates, a power of two in the unit of the
            points; by default 2^-20 of 1/ε, rounded to one.

    Raises:
        ParameterError: if a parameter is out of range, or the step is not from 2^-200 to 2^200.

    Example:
        >>> from geoveil.gp import GeoPrivacy, SeededSource
        >>> z = PlanarLaplace(GeoPrivacy(1.0, per=500.0, unit="metre"), dimension=2)
        >>> k = z.release((120.0, -40.0), SeededSource(1))
        >>> [round(coordinate * z.step) for coordinate in k]
        [1185, 1342]
        >>> z.simulate([[0.0, 0.0], [10.0, 20.0]], np.random.default_rng(1)).shape
        (2, 2)
    """

    privacy: GeoPrivacy
    dimension: int = 2  # pyright: ignore[reportIncompatibleVariableOverride]  # read-only: frozen
    step: float = 0.0  # pyright: ignore[reportIncompatibleMethodOverride]  # read-only: frozen

    def __post_init__(self) -> None:
        validation.require_kind("privacy", self.privacy, GeoPrivacy)
        validation.require_count("dimension", self.dimension)
        exponent = exponent_below(1 / self.privacy.rate, _STEP_BITS)
        if isinstance(self.step, bool) or self.step != 0.0:  # the default
            exponent = step_exponent_of(self.step)
        # A scale beyond all grids is refused here, not when somebody's point is to be released.
        object.__setattr__(self, "step", math.ldexp(1.0, exponent))
        step_exponent_of(self.step)

    @property
    def step_exponent(self) -> int:  # type: ignore[override]  # read-only: frozen
        """The exponent e of the step 2^e."""
        return step_exponent_of(self.step)

    @property
    def unbiased(self) -> bool:
        return True

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.dimension,)

    @lazy
    def _uniforms(self) -> tuple[int, ...]:
        if self.dimension not in DIMENSIONS:
            raise UnsupportedError(f"points are released in {DIMENSIONS} dimensions")
        return (uniforms_needed(self.dimension),)

    def _ideals(self, point: PrivatePoint) -> Sequence[Ideal]:
        def moved(u: Sequence[Real]) -> list[Real]:
            b = BALL.constant(1 / self.privacy.exact_rate)
            noise = planar_noise(u, BALL)
            return [c + b * n for c, n in zip(point.balls, noise, strict=True)]

        return (moved,)

    def _report(self, integers: tuple[int, ...]) -> tuple[int, ...]:
        return integers

    def release_many(self, x: ArrayLike, source: RandomSource | None = None) -> NDArray[np.int64]:
        """Return one exact, private report for each of many points, equal to those of `release`.

        Doubles find most of them, from the same bits: where a number lies farther from a boundary
        of the grid than 2^-40 of its inputs, 4,000 times the possible error of logarithms and
        sines. The others are found as `release` does.
        """
        source = chosen_source(source)
        points = validation.points(x, self.dimension).reshape(-1, self.dimension)
        blocks = [
            self._released(points[start : start + _TOGETHER], source)
            for start in range(0, len(points), _TOGETHER)
        ]
        return np.concatenate([np.empty((0, self.dimension), np.int64), *blocks])

    def _released(self, points: Array, source: RandomSource) -> NDArray[np.int64]:
        (many,), size = self._uniforms, LazyUniform.FIRST // 8
        drawn = source.bits(8 * size * many * len(points)).to_bytes(size * many * len(points))
        words = np.frombuffer(drawn, ">u8").reshape(len(points), many, 2)
        u = (words @ np.array([2.0**-64, 2.0**-128])).T
        noise = np.stack(planar_noise(list(np.clip(u, _EDGE, 1 - _EDGE)), FLOAT), axis=-1)
        scale, middle = 1 / self.privacy.rate, np.abs(u - 0.5)
        reach = np.abs(points) + scale * (1 + np.linalg.norm(noise, axis=-1, keepdims=True))
        ideal, off = (points + scale * noise) / self.step + 0.5, _OFF / self.step * reach
        low = np.floor(ideal - off)
        sure = (low == np.floor(ideal + off)).all(axis=-1)
        sure &= ((middle > _OFF) & (middle < 0.5 - _EDGE)).all(axis=0)
        integers = np.where(sure[:, None], low, 0.0).astype(np.int64)
        for row in np.flatnonzero(~sure).tolist():
            first = [int.from_bytes(word.tobytes()) for word in words[row]]
            uniforms = [LazyUniform(source, number) for number in first]
            integers[row] = self._integers(PrivatePoint(points[row].tolist()), [uniforms])
        return integers

    def _draw(self, points: Array, rng: np.random.Generator) -> Array:
        scale = 1 / self.privacy.rate
        if self.dimension == 1:
            return points + rng.laplace(scale=scale, size=points.shape)
        direction = rng.standard_normal(points.shape)
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        radius = rng.gamma(self.dimension, scale, size=len(points))
        return points + radius[:, None] * direction

    def mean(self, x: ArrayLike) -> Array:
        return np.array(validation.points(x, self.dimension))

    def variance(self, x: ArrayLike) -> Array:
        """Return the variance of each coordinate, (k+1)/ε²; coordinates are uncorrelated."""
        points = validation.points(x, self.dimension)
        return np.full(points.shape, (self.dimension + 1) / self.privacy.rate**2)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        y = validation.points(y, self.dimension)
        x = validation.points(x, self.dimension)
        k, rate = self.dimension, self.privacy.rate
        difference = np.abs(y - x) if k == 1 else np.linalg.norm(y - x, axis=-1)
        norm = k * math.log(rate) + math.lgamma(k / 2) - math.lgamma(k)
        norm -= math.log(2) + k / 2 * math.log(math.pi)
        return np.asarray(norm - rate * difference)

    def radius_quantile(self, probability: float) -> float:
        """Return the radius within which noise stays with the given probability.

        For k = 2 it is −(W₋₁((p − 1)/e) + 1)/ε, W₋₁ the lower branch of the Lambert W function
        [ABCP13]; for every k the quantile of Gamma(k, 1/ε).

        Args:
            probability: p in [0, 1).

        Example:
            >>> from geoveil.gp import GeoPrivacy
            >>> round(PlanarLaplace(GeoPrivacy(1.0, per=500.0), 2).radius_quantile(0.95), 1)
            2371.9
        """
        p = validation.between("probability", probability, 0, 1, high_open=True)
        if self.dimension == 2 and p > 0:
            # Near p = 0, the branch point −1/e, W₋₁ + 1 has half the digits of its argument.
            with working_precision(_REACH_BITS - 2 * math.frexp(p)[1]):
                w = ((BALL.constant(p) - 1) * BALL.constant(-1).exp()).lambertw(-1)
                return float(-(w + 1)) / self.privacy.rate
        from scipy.special import gammaincinv

        return float(gammaincinv(self.dimension, p)) / self.privacy.rate

    def likely_reach(self, beyond: float) -> float:
        """Return a radius, in the points' unit, that noise exceeds with at most this probability.

        Proved, where `radius_quantile` is computed: P(|N| > r/ε) = e^{−r} Σ_{j<k} r^j/j!, enclosed
        for one whole r after the other.

        Args:
            beyond: probability of a point farther away, in (0, 1).

        Example:
            >>> from geoveil.gp import GeoPrivacy
            >>> PlanarLaplace(GeoPrivacy(1.0, per=500.0), 2).likely_reach(2.0**-41)
            16000.000000000018
        """
        beyond = validation.between("beyond", beyond, 0, 1, low_open=True, high_open=True)
        with working_precision(_REACH_BITS):
            reach = next(
                r
                for r in count(1)
                if BALL.constant(r).gamma_upper(self.dimension, 1) < BALL.constant(beyond)
            )
        return reach / self.privacy.rate * (1 + 1e-15)

    def estimator(self, query: Query | SmoothedRegion, *, debias: bool = False) -> PointEstimator:
        """Return the function to average over perturbed points to estimate the mean of `query`.

        The noise can be undone for the Gaussian kernel in every dimension, for a `SmoothedRegion`
        in two, and in one for thresholds, ranges and `Linear` queries of a profile whose slope does
        not jump, and `Radial` ones that are flat at their centre. Further queries of the same
        points cost no more privacy. The variance grows fast once the noise is wider than the band
        or bandwidth: see `PointEstimator.variance`.

        Args:
            query: f, of the same dimension.
            debias: False plugs the noisy points into f, which is biased and never goes away with
                n; True undoes the noise [MATH §5.1, §5.2].

        Raises:
            ParameterError: if the dimensions differ, or an argument is of the wrong kind.
            UnsupportedError: if no debiased form with a finite variance is available.

        Example:
            >>> from geoveil.gp import GaussianKernel, GeoPrivacy
            >>> z = PlanarLaplace(GeoPrivacy(1.0, per=500.0, unit="metre"), dimension=2)
            >>> e = z.estimator(GaussianKernel((0.0, 0.0), bandwidth=1000.0), debias=True)
            >>> e.value([[0.0, 0.0], [1500.0, 0.0]]).round(4).tolist()
            [1.908, 0.2637]
        """
        validation.require_kind("query", query, Query | SmoothedRegion, "GaussianKernel(...)")
        if query.dimension != self.dimension:
            raise ParameterError("query.dimension", query.dimension, f"{self.dimension}")
        validation.require_flag("debias", debias)
        return point_estimator(query, 1 / self.privacy.rate, debias)
