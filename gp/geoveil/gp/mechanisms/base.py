"""The contract of a mechanism: a randomised report about a person's point.

`release` is one exact report for a person; `simulate` is vectorised float64 for experiments. Both
use the same formulas. Moments and densities are those of the ideal mechanism, per point.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import ClassVar, Generic, TypeAlias, TypeVar

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.arrays import Array, ArrayLike, NDArray, np
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact import BALL, INT64_MAX, INT64_MIN, release_integers, round_up
from geoveil.gp.lazy import lazy
from geoveil.gp.limits import UNLIMITED, Limits
from geoveil.gp.mechanisms.grids import MOST_RATIO, grid_exponent, levels_of
from geoveil.gp.not_private import Simulated, warn_beside_holder
from geoveil.gp.privacy import GeoPrivacy, LocalPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.randomness import LazyUniform, RandomSource, chosen_source
from geoveil.gp.report_moments import ReportMoments
from geoveil.gp.reprs import ValueObject

Report = TypeVar("Report")
"""The type that one release returns: an integer, or a tuple of them."""
Ideal: TypeAlias = Callable[[Sequence[Real]], Sequence[Real]]
"""Encloses ideal outputs, given balls that enclose uniform numbers."""

_BLOCK = 1 << 14
"""Points simulated together, few enough for the processor's cache."""


class PrivatePoint:
    """A person's point as balls at the current working precision; its repr hides the point."""

    def __init__(self, coordinates: Sequence[float]) -> None:
        self.balls = [BALL.private(c) for c in coordinates]

    def distance(self, query: Query) -> Real:
        """Enclose s(x) of a query."""
        return query.signed_distance(self.balls if query.dimension > 1 else self.balls[0], BALL)

    def __repr__(self) -> str:
        return "PrivatePoint(not shown)"


class Mechanism(ValueObject, ABC, Generic[Report]):
    """A randomised report about a person's point x; `privacy` is its guarantee, in the unit of x.

    This class draws the bits, rounds to the public grid and reads x after the draws. A family
    states how many uniform numbers it needs, and its ideal function of them.
    """

    step_exponent: int
    """e, where the spacing of the public grid of outputs is 2^e."""

    @lazy
    @abstractmethod
    def dimension(self) -> int:
        """Number of coordinates of a point."""

    @property
    def step(self) -> float:
        """Spacing of the output grid: a released k stands for k·step."""
        return math.ldexp(1.0, self.step_exponent)

    @property
    def grid_range(self) -> tuple[int, int]:
        """The least and greatest integer that `release` can return."""
        return INT64_MIN, INT64_MAX

    @property
    @abstractmethod
    def unbiased(self) -> bool:
        """Whether the mean of a report is the answer, for every x."""

    def release(self, x: ArrayLike, source: RandomSource | None = None) -> Report:
        """Return one exact, private report: integers k that stand for k·step.

        It is the ideal output, correctly rounded to the grid [MATH §10], so the ideal guarantee
        carries over exactly. Numbers beyond 64 bits saturate. The first 128 bits of every random
        number are drawn before the value is read.

        Args:
            x: one point: a number, or k coordinates.

        Returns:
            An integer for one query, a tuple for several or for a perturbed point.

        Raises:
            PrivateValueError: if x is not one finite point.
            UnsupportedError: if the noise has no closed-form quantile, or none in this dimension.
        """
        source = chosen_source(source)
        drawn = [source.bits(LazyUniform.FIRST) for _ in range(sum(self._uniforms))]
        point = validation.point(x, self.dimension)
        first = iter(drawn)
        uniforms = [[LazyUniform(source, next(first)) for _ in range(n)] for n in self._uniforms]
        return self._report(self._integers(PrivatePoint(point), uniforms))

    def release_many(self, x: ArrayLike, source: RandomSource | None = None) -> NDArray[np.int64]:
        """Return one exact, private report for each of many points, by `release` in turn.

        For holders of many people's data. The time that it takes depends a little on the values:
        if somebody may measure it, pace each release (docs/guarantees.md).

        Args:
            x: n points, as `Query.value` takes them.

        Returns:
            Integers k that stand for k·step: (n,) for one query, (n, m) for m, and (n, k) for
            perturbed points of k coordinates.

        Raises:
            PrivateValueError: if a coordinate is not finite or the shape does not fit.
            UnsupportedError: as `release`.
        """
        source = chosen_source(source)
        points = validation.points(x, self.dimension)
        points = points.reshape(-1) if self.dimension == 1 else points.reshape(-1, self.dimension)
        reports = [self.release(point, source) for point in points.tolist()]
        return np.array(reports, np.int64).reshape(len(points), *self._shape)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Simulated:
        """Return one float64 report per point. NOT private on a computer: for experiments.

        Float noise has gaps and spacings that betray x [MATH §10]; `geoveil audit --attack` shows
        how. Where the device's SDK is loaded, this warns once.

        Returns:
            (n,) for one query, (n, m) for m, and the points' shape for perturbed points.
        """
        if not isinstance(rng, np.random.Generator):
            raise ParameterError("rng", rng, "a numpy.random.Generator")
        warn_beside_holder()
        points = validation.points(x, self.dimension)
        shape = points.shape if self.dimension == 1 else points.shape[:-1]
        reports = self._draw(points.reshape(-1, *points.shape[len(shape) :]), rng)
        return Simulated(reports.reshape(*shape, *reports.shape[1:]))

    @abstractmethod
    def mean(self, x: ArrayLike) -> Array:
        """Return the expected report at each point; NaN where it does not exist."""

    @abstractmethod
    def variance(self, x: ArrayLike) -> Array:
        """Return the variance of each number of the report, at each point; it may be infinite."""

    @abstractmethod
    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density at output y given the point x, the two broadcast together.

        Outputs are (...) for one query, (..., m) for m, (..., k) for perturbed points.

        In float64: y − f(x) is rounded by 10⁻¹⁶ of the larger, so that the figure says nothing
        where noise is narrower than that. A scale below 2.3·10⁻³⁰⁸ counts as that, and outputs
        beyond 10³⁰⁸ scales get −∞.
        """

    def _integers(
        self, point: PrivatePoint, uniforms: Sequence[Sequence[LazyUniform]]
    ) -> tuple[int, ...]:
        """Return the released integers, from uniform numbers whose first bits are drawn."""
        integers: tuple[int, ...] = ()
        for drawn, ideal in zip(uniforms, self._ideals(point), strict=True):
            integers += release_integers(drawn, ideal, self.step_exponent, self._coarse_bits)
        return integers

    @property
    def _coarse_bits(self) -> int | None:
        """Precision of a first attempt at a release; None if an attempt would not be faster."""
        return None

    @property
    @abstractmethod
    def _shape(self) -> tuple[int, ...]:
        """The shape of a report: () for a number."""

    @lazy
    @abstractmethod
    def _uniforms(self) -> tuple[int, ...]:
        """Number of uniform numbers for each part that is rounded separately."""

    @abstractmethod
    def _ideals(self, point: PrivatePoint) -> Sequence[Ideal]:
        """Return, for each part, the ideal outputs as a function of its uniform numbers."""

    @abstractmethod
    def _report(self, integers: tuple[int, ...]) -> Report:
        """Return the integers in the form that `release` returns."""

    @abstractmethod
    def _draw(self, points: Array, rng: np.random.Generator) -> Array:
        """Return float64 reports for points of shape (n,) or (n, k)."""


class QueryMechanism(Mechanism[int]):
    """A randomised report about f(x): one number.

    Args:
        privacy: the guarantee, in the unit of x.
        step: spacing of the public output grid, a power of two; by default fine enough that
            rounding adds less than 0.01 % to the variance.
    """

    _privacy_kind: ClassVar[type] = GeoPrivacy

    def __init__(self, query: Query, privacy: GeoPrivacy | LocalPrivacy, **options: object) -> None:
        validation.require_kind("query", query, Query, "Threshold(at=..., width=...)")
        validation.require_kind("privacy", privacy, self._privacy_kind)
        if isinstance(privacy, GeoPrivacy):
            require_comparable(query, privacy)
        self.query = query
        self.privacy = privacy
        self._options = options
        self.step_exponent = 0

    def _choose_step(self, step: float | None) -> None:
        """Set the grid; a subclass calls this when it knows its scale."""
        self.step_exponent = grid_exponent(
            step,
            default=self._default_step_exponent(),
            spread=max(self._spread(), *map(abs, self.query.profile.bounds)),
            levels=levels_of(self.query.profile),
        )

    @lazy
    def dimension(self) -> int:
        return self.query.dimension

    @property
    def bias_bound(self) -> float:
        """Bound on |mean − f| over all points, f unclipped; infinite if unknown."""
        return self.query.clipping_bias if self.unbiased else math.inf

    def likely_range(self, beyond: float) -> tuple[int, int]:
        """Return the integers between which `release` stays, except with the probability `beyond`.

        It is proved for every x. A server may clip reports to these ends, so that no forged report
        outweighs all others. If `grid_range` is finite, it is returned: no report leaves it.

        Example:
            >>> from geoveil.gp import GeoPrivacy, LipschitzMechanism, Threshold
            >>> m = LipschitzMechanism(Threshold(at=0, width=16_000), GeoPrivacy(1.0, per=8000.0))
            >>> [round(k * m.step, 2) for k in m.likely_range(2.0**-41)]
            [-14.49, 15.49]
        """
        validation.between("beyond", beyond, 0, 1, low_open=True, high_open=True)
        return self.grid_range

    @property
    def limits(self) -> Limits:
        """Bounds of reports, and of their mean over any people, in the unit of f."""
        low, high = self.grid_range
        endless = (low, high) == (INT64_MIN, INT64_MAX)
        least, greatest = self.query.profile.bounds
        return Limits(
            UNLIMITED.reports if endless else (low * self.step, high * self.step),
            (least - self.bias_bound, greatest + self.bias_bound),
            self.report_moments,
        )

    def mean(self, x: ArrayLike) -> Array:
        value = self.query.value(x)
        return value if self.unbiased else np.full_like(value, np.nan)

    def variance(self, x: ArrayLike) -> Array:
        return self._variance(self._distance(x))

    def moments(self, s: ArrayLike) -> tuple[Array, Array]:
        """Return the mean and variance of a report at signed distances (unit of x), in their shape.

        The mean is NaN where it is not f.
        """
        distances = validation.points(s, 1)
        value = np.asarray(self.query.profile.value(distances))
        return value if self.unbiased else np.full_like(value, np.nan), self._variance(distances)

    def report_moments(self) -> ReportMoments | None:
        """Return the first three moments of a report, for all possible people; None if unknown.

        They improve intervals from few reports. Privacy does not rest on them.
        """
        return None

    @abstractmethod
    def law(self) -> ReportMoments | None:
        """Return points whose hull contains a report's moments; None without a variance.

        Unlike `report_moments`, it includes the variances.
        """

    @property
    def largest_variance(self) -> float:
        """The largest variance of a report at any point, at most 5 % too high; may be infinite.

        Reports made from a perturbed number are included: see `DebiasedLaplace.answer`.
        """
        law = self.law()
        return math.inf if law is None or law.noise is None else float(law.variances[1].max())

    @property
    def largest_epsilon(self) -> float:
        """ε of any two points, however far apart, rounded up; may be infinite.

        s takes all its values on a segment at the rate 1: ε is at most that of the segment's ends.
        """
        if not isinstance(self.privacy, GeoPrivacy):
            return self.privacy.epsilon
        least, most = self.query.signed_range
        if math.isinf(most - least) or most - least > self.privacy.reach:
            return math.inf
        return round_up(self.privacy.exact_rate * Fraction(most - least))

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        return self._log_density(validation.outputs(y), self._distance(x))

    @property
    def _shape(self) -> tuple[int, ...]:
        return ()

    @lazy
    def _uniforms(self) -> tuple[int, ...]:
        return (1,)

    def _ideals(self, point: PrivatePoint) -> Sequence[Ideal]:
        return (lambda u: (self._ideal(point.distance(self.query), u[0], BALL),),)

    def _report(self, integers: tuple[int, ...]) -> int:
        return integers[0]

    def _draw(self, points: Array, rng: np.random.Generator) -> Array:
        reports = np.empty(len(points))
        for start in range(0, len(points), _BLOCK):
            block = slice(start, start + _BLOCK)
            reports[block] = self._simulate(self._distance(points[block]), rng)
        return reports

    @abstractmethod
    def _simulate(self, s: Array, rng: np.random.Generator) -> Array:
        """Return reports for the distances s."""

    @abstractmethod
    def _ideal(self, s: Real, u: Real, ops: Arithmetic) -> Real:
        """Enclose the ideal output for the distance s and the uniform number U."""

    @abstractmethod
    def _variance(self, s: Array) -> Array:
        """Return the variance at the distances s."""

    @abstractmethod
    def _log_density(self, y: Array, s: Array) -> Array:
        """Return the log-density of y at the distances s."""

    @property
    def atoms(self) -> tuple[float, ...]:
        """Outputs of positive probability before rounding."""
        return ()

    def own_side(self, x: ArrayLike) -> Array | None:
        """Return the probability that a report lies on f(x)'s side of 1/2, (n,); None if unknown.

        For a soft indicator: how often "at least 1/2 means inside" is right. Of the ideal
        mechanism: rounding moves it by at most a step's probability.
        """
        return self._own_side(self._distance(x))

    def _own_side(self, s: Array) -> Array | None:
        return None

    @abstractmethod
    def _spread(self) -> float:
        """Return the order of magnitude of the widest reports."""

    @abstractmethod
    def _default_step_exponent(self) -> int:
        """Return the exponent of the default step; a function of public parameters only."""

    def _distance(self, x: ArrayLike) -> Array:
        points = validation.points(x, self.query.dimension)
        return np.asarray(self.query.signed_distance(points, FLOAT))

    def _arguments(self) -> Mapping[str, object]:
        return {"query": self.query, "privacy": self.privacy, **self._options}


def require_comparable(query: Query, privacy: GeoPrivacy) -> None:
    """Refuse a noise scale out of proportion to the query."""
    unit = privacy.epsilon * query.profile.length_scale
    if not unit / MOST_RATIO <= privacy.per <= unit * MOST_RATIO:
        raise ParameterError(
            "privacy.per",
            privacy.per,
            f"a distance in [{unit / MOST_RATIO:g}, {unit * MOST_RATIO:g}] for"
            f" epsilon={privacy.epsilon:g} and a query that varies over"
            f" {query.profile.length_scale:g}",
        )
