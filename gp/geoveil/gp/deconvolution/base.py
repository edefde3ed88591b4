"""The contract of an estimator from perturbed points, and the registry of estimators.

From points x + N the mean of f is estimated by that of the debiased g = (1 − b²Δ)^{(k+1)/2} f, as
E[g(x + N)] = f(x) [MATH §5.2]. The plain mean of f over the points is biased, however many there
are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import singledispatch

from geoveil.gp import validation
from geoveil.gp.arrays import Array, ArrayLike
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.limits import Limits
from geoveil.gp.queries.base import Query
from geoveil.gp.reprs import ValueObject


class PointEstimator(ValueObject, ABC):
    """A function of a perturbed point of k = `dimension` numbers, to estimate the mean of a query.

    The noise has the scale b = 1/ε > 0, in the unit of the points; `debias` undoes it.
    """

    def __init__(self, dimension: int, scale: float, debias: bool) -> None:
        self.dimension = dimension
        self.scale = scale
        self.debias = debias

    @property
    def debias_scale(self) -> float:
        """The scale of the noise that debiasing removes: b, or 0."""
        return self.scale if self.debias else 0.0

    @property
    def unbiased(self) -> bool:
        """Whether its mean over the noise is f(x)."""
        return self.debias

    @property
    @abstractmethod
    def limits(self) -> Limits:
        """The least and the greatest value at any point, and mean over any people."""

    def value(self, points: ArrayLike) -> Array:
        """Return one number per perturbed point, (n,); average it.

        Points have any shape for k = 1, else (..., k).

        Raises:
            PrivateValueError: if a coordinate is not finite or the shape does not fit.
        """
        return self._value(validation.points(points, self.dimension))

    def mean(self, x: ArrayLike) -> Array:
        """Return the expectation over the noise at true points x: f(x), if it is unbiased.

        Raises:
            PrivateValueError: as `value`.
            UnsupportedError: if the query has no quadrature here (a biased estimator only).
        """
        return self._mean(validation.points(x, self.dimension))

    def variance(self, x: ArrayLike) -> Array:
        """Return the variance over the noise at true points x; errors as `mean`."""
        return self._variance(validation.points(x, self.dimension))

    def estimated_variance(self, points: ArrayLike) -> Array:
        """Return one number per perturbed point, whose mean over the noise is `variance(x)`.

        Its average over people is the part of the variance of `value` that is noise [MATH §8]. At a
        point it may be below 0 where k > 1.

        Raises:
            PrivateValueError: as `value`.
            UnsupportedError: if there is no such function here: `variance_limits` is None.
        """
        return self._estimated_variance(validation.points(points, self.dimension))

    @property
    def variance_limits(self) -> tuple[float, float] | None:
        """The least and the greatest estimated variance at any point; None if undefined."""
        return None

    @abstractmethod
    def _value(self, points: Array) -> Array:
        """Return the value at checked points."""

    @abstractmethod
    def _mean(self, x: Array) -> Array:
        """Return the expectation at checked points."""

    @abstractmethod
    def _variance(self, x: Array) -> Array:
        """Return the variance at checked points."""

    def _estimated_variance(self, points: Array) -> Array:
        raise UnsupportedError(f"{self!r} has no unbiased estimate of its variance")


class PlugIn(PointEstimator):
    """Any query, applied to the perturbed point: biased."""

    def __init__(self, query: Query, scale: float) -> None:
        super().__init__(query.dimension, scale, debias=False)
        self.query = query

    @property
    def limits(self) -> Limits:
        return Limits(self.query.profile.bounds, self.query.profile.bounds)

    def _value(self, points: Array) -> Array:
        return self.query.value(points)

    def _mean(self, x: Array) -> Array:
        raise self._no_quadrature()

    def _variance(self, x: Array) -> Array:
        raise self._no_quadrature()

    def _no_quadrature(self) -> UnsupportedError:
        return UnsupportedError(
            f"the moments of {self.query!r} over the noise have no quadrature here: simulate them,"
            " or estimate without bias from a SmoothedRegion"
        )


@singledispatch
def point_estimator(query: object, scale: float, debias: bool) -> PointEstimator:
    """Return the estimator for a query; a family registers its own for its type.

    Raises:
        ParameterError: if `query` is no query.
        UnsupportedError: if there is no unbiased estimator with a finite variance here.
    """
    raise ParameterError("query", query, "a Query or a SmoothedRegion")


@point_estimator.register
def any_query(query: Query, scale: float, debias: bool) -> PointEstimator:
    """Return the plug-in estimator of a query without a debiased form; refuse `debias`."""
    if debias:
        raise UnsupportedError(
            f"{query!r} has no debiased form from points in {query.dimension} dimensions: use"
            " SmoothedRegion for a region in two, DebiasedLaplace on the query, or debias=False and"
            " accept the bias"
        )
    return PlugIn(query, scale)
