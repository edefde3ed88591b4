"""The contract of a mechanism: what one report about one query is.

`simulate` is vectorised float64 for experiments; `release` is one exact integer for a person. Both
come from the same formulas, in two arithmetics. Moments and densities are those of the ideal
mechanism, per point.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact.ball import BALL
from geoveil.gp.exact.bits import LazyUniform, RandomSource, chosen_source
from geoveil.gp.exact.release import INT64_MAX, INT64_MIN, release_integer
from geoveil.gp.mechanisms.grid import grid_exponent, levels_of
from geoveil.gp.not_private import Simulated, warn_beside_holder
from geoveil.gp.privacy import GeoPrivacy, LocalPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.shown import ValueObject

Array = NDArray[np.float64]

_BLOCK = 1 << 14
"""Points that are simulated together: what they need stays in the processor's cache."""
_MOST_RATIO = 1e8
"""Between the noise scale and the length over which a query varies, either way."""


class Mechanism(ValueObject, ABC):
    """A randomised report about f(x).

    Args:
        query: f.
        privacy: the guarantee, in the unit of x.
        step: spacing of the public output grid, a power of two; by default fine enough that
            rounding adds less than 0.01 % to the variance.
    """

    _privacy_kind: ClassVar[type] = GeoPrivacy

    def __init__(self, query: Query, privacy: GeoPrivacy | LocalPrivacy, **options: object) -> None:
        self._check(query, privacy)
        self.query = query
        self.privacy = privacy
        self._options = options
        self.step_exponent = 0

    @classmethod
    def _check(cls, query: Query, privacy: GeoPrivacy | LocalPrivacy) -> None:
        """Refuse what no mechanism of this kind can be made of."""
        if not isinstance(query, Query):
            raise ParameterError(
                "query", query, "a Query, for example Threshold(at=..., width=...)"
            )
        if not isinstance(privacy, cls._privacy_kind):
            raise ParameterError("privacy", privacy, f"a {cls._privacy_kind.__name__}")
        if isinstance(privacy, GeoPrivacy):
            require_comparable(query, privacy)

    def _choose_step(self, step: float | None) -> None:
        """Set the grid; a subclass calls this when it knows its scale."""
        self.step_exponent = grid_exponent(
            step,
            default=self._default_step_exponent(),
            spread=max(self._spread(), *map(abs, self.query.profile.bounds)),
            levels=self._levels(),
        )

    def _levels(self) -> set[float]:
        """Return what reports are where there is next to no noise."""
        return levels_of(self.query.profile)

    @property
    @abstractmethod
    def unbiased(self) -> bool:
        """Whether the mean of a report is f(x) for every x."""

    @property
    def bias_bound(self) -> float:
        """Bound on |mean − f| over all points; infinite if none is known."""
        return 0.0 if self.unbiased else math.inf

    @property
    def step(self) -> float:
        """Spacing of the output grid: a release k stands for k·step."""
        return math.ldexp(1.0, self.step_exponent)

    @property
    def grid_range(self) -> tuple[int, int]:
        """The least and greatest integer that `release` can return."""
        return INT64_MIN, INT64_MAX

    def likely_range(self, beyond: float) -> tuple[int, int]:
        """Return integers between which `release` stays, for every x, but with a probability.

        Proved, not estimated: what a server may bring to its ends, so that no report that was made
        up can outweigh all others, and next to none that was drawn is changed.

        Args:
            beyond: that probability, in (0, 1).

        Returns:
            The least and the greatest; `grid_range`, which nothing leaves, where it is finite.

        Example:
            >>> from geoveil.gp import GeoPrivacy, LipschitzMechanism, Threshold
            >>> m = LipschitzMechanism(Threshold(at=0, width=16_000), GeoPrivacy(1.0, per=8000.0))
            >>> [round(k * m.step, 2) for k in m.likely_range(2.0**-41)]
            [-14.49, 15.49]
        """
        validation.between("beyond", beyond, 0, 1, low_open=True, high_open=True)
        return self.grid_range

    @property
    def outputs(self) -> tuple[int, ...] | None:
        """All that `release` can return, increasing; None if that is all of `grid_range`."""
        return None

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Simulated:
        """Return one float64 report per point. NOT private on a computer: for experiments.

        Float noise has gaps and spacings that betray f(x) [MATH §10]; `geoveil audit --attack`
        shows how. Use `release` for people; where the device's SDK is loaded, this warns once.

        Args:
            x: points, as `Query.value` takes them.
            rng: a NumPy generator.

        Returns:
            An array of shape (n,).
        """
        if not isinstance(rng, np.random.Generator):
            raise ParameterError("rng", rng, "a numpy.random.Generator")
        warn_beside_holder()
        points = validation.points(x, self.query.dimension)
        inner = points.shape[points.ndim if self.query.dimension == 1 else -1 :]
        shape = points.shape[: points.ndim - len(inner)]
        flat = points.reshape(-1, *inner)
        reports = np.empty(len(flat))
        for start in range(0, len(flat), _BLOCK):
            block = slice(start, start + _BLOCK)
            reports[block] = self._simulate(
                np.asarray(self.query.signed_distance(flat[block])), rng
            )
        return Simulated(reports.reshape(shape))

    def release(self, x: ArrayLike, source: RandomSource | None = None) -> int:
        """Return one exact, private report: the integer k that stands for k·step.

        The ideal output, correctly rounded to the grid [MATH §10]; a post-processing of the ideal
        mechanism, so its guarantee carries over exactly. The first 128 random bits are drawn
        before the value is looked at.

        Args:
            x: one point: a number, or k coordinates.
            source: random bits; the operating system's by default.

        Raises:
            PrivateValueError: if x is not one finite point.
            UnsupportedError: if the noise has no closed-form quantile.
        """
        uniform = LazyUniform(chosen_source(source))
        distance_of = _PrivateDistance(self.query, validation.point(x, self.query.dimension))
        known = self._known(distance_of, uniform)
        if known is not None:
            return known
        return release_integer(uniform, lambda u: self._ideal(distance_of(), u), self.step_exponent)

    def mean(self, x: ArrayLike) -> Array:
        """Return the expected report at each point; NaN where it does not exist."""
        value = self.query.value(x)
        return value if self.unbiased else np.full_like(value, np.nan)

    def variance(self, x: ArrayLike) -> Array:
        """Return the variance of the report at each point; infinite where it does not exist."""
        return self._variance(self._distance(x))

    @property
    def largest_variance(self) -> float:
        """The largest variance of a report over all points; infinite where it does not exist.

        Found to a per cent on a grid of distances, three times as wide as where f varies.

        Example:
            >>> from geoveil.gp import DebiasedLaplace, GeoPrivacy, Threshold
            >>> query = Threshold(at=100_000, width=24_000, profile="smoothstep")
            >>> round(DebiasedLaplace(query, GeoPrivacy(1.0, per=8_000.0)).largest_variance, 3)
            0.338
        """
        low, high = self.query.profile.breakpoints[0], self.query.profile.breakpoints[-1]
        grid = np.linspace(2 * low - high, 2 * high - low, 201)
        return float(np.max(self._variance(grid)))

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density at output y given the point x, the two broadcast together.

        Args:
            y: outputs, shape broadcastable against (n,).
            x: points, as `Query.value` takes them.
        """
        return self._log_density(validation.outputs(y), self._distance(x))

    def _known(self, distance: Callable[[], Real], uniform: LazyUniform) -> int | None:
        """Return the integer to release where a family knows it by constant work, if it does."""
        return None

    @abstractmethod
    def _simulate(self, s: Array, rng: np.random.Generator) -> Array:
        """Return reports for the distances s."""

    @abstractmethod
    def _ideal(self, s: Real, u: Real) -> Real:
        """Enclose the ideal output for the distance s and the uniform number U, as balls."""

    @abstractmethod
    def _variance(self, s: Array) -> Array:
        """Return the variance at the distances s."""

    @abstractmethod
    def _log_density(self, y: Array, s: Array) -> Array:
        """Return the log-density of y at the distances s."""

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


class _PrivateDistance:
    """s(x) as a ball at the working precision of the moment; shows nothing of x."""

    def __init__(self, query: Query, coordinates: Sequence[float]) -> None:
        self._query = query
        balls = [BALL.private(c) for c in coordinates]
        self._point = balls if query.dimension > 1 else balls[0]

    def __call__(self) -> Real:
        return self._query.signed_distance(self._point, BALL)

    def __repr__(self) -> str:
        return "_PrivateDistance(not shown)"


def require_comparable(query: Query, privacy: GeoPrivacy) -> None:
    """Refuse a noise scale that is out of all proportion to what the query resolves."""
    unit = privacy.epsilon * query.profile.length_scale
    if not unit / _MOST_RATIO <= privacy.per <= unit * _MOST_RATIO:
        raise ParameterError(
            "privacy.per",
            privacy.per,
            f"a distance in [{unit / _MOST_RATIO:g}, {unit * _MOST_RATIO:g}] for"
            f" epsilon={privacy.epsilon:g} and a query that varies over"
            f" {query.profile.length_scale:g}",
        )
