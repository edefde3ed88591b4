"""Estimators of the Gaussian kernel from perturbed points, in any dimension [MATH §5.2]."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.deconvolution.base import PointEstimator, any_query, point_estimator
from geoveil.gp.deconvolution.gaussian import debiased_bell
from geoveil.gp.deconvolution.line import ProfileEstimator, radial_on_the_line
from geoveil.gp.deconvolution.radial import planar_expectation
from geoveil.gp.deconvolution.table import Table
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.queries.kernel import GaussianKernel
from geoveil.gp.queries.profiles import Gaussian
from geoveil.gp.queries.projected import Radial

Array = NDArray[np.float64]

_NOISIEST = 1000.0
"""Noise scale in bandwidths beyond which the variance for k = 2 exceeds 10¹²."""
_FARTHEST = 100.0
_STEP = 1 / 80


class KernelEstimator(PointEstimator):
    """A Gaussian kernel in k ≥ 2 dimensions, the noise undone or not.

    The variance is a quadrature, interpolated in a table over the distance to the centre that is
    made at its first use (about a second). For b from 10⁻⁵ bandwidths it is accurate to 1e-6 of
    itself within 100 noise scales of the centre; beyond, where it is negligible, it is 0.

    Args:
        query: the kernel.
        scale: noise scale b > 0, in the unit of the points.
        debias: whether to undo the noise.

    Raises:
        UnsupportedError: if b exceeds 1000 bandwidths.
    """

    def __init__(self, query: GaussianKernel, scale: float, debias: bool) -> None:
        super().__init__(query.dimension, scale, debias)
        self.query = query
        self._c = scale / query.bandwidth
        if self._c > _NOISIEST:
            raise UnsupportedError(
                f"the noise has {self._c:.3g} times the bandwidth of {query!r}; beyond"
                f" {_NOISIEST:g} times no number of points gives an estimate: widen the kernel"
            )

    def _value(self, points: Array) -> Array:
        return _function(self._distance(points), self._c, self.dimension, self.debias)

    def _distance(self, x: Array) -> Array:
        """Return the distance to the centre, in bandwidths."""
        return np.asarray(self.query.signed_distance(x)) / self.query.bandwidth

    def _mean(self, x: Array) -> Array:
        if self.debias:
            return self.query.value(x)
        return _mean(self._distance(x), self._c, self.dimension, self.debias)

    def _variance(self, x: Array) -> Array:
        table = _log_variance(self._c, self.dimension, self.debias)
        return np.asarray(np.exp(table(self._distance(x), -np.inf)))


def _function(r: Array, c: float, dimension: int, debias: bool) -> Array:
    """Return g, or f, at r bandwidths from the centre."""
    return debiased_bell(r, c, dimension) if debias else np.asarray(np.exp(-r * r / 2))


def _mean(r: Array, c: float, dimension: int, debias: bool) -> Array:
    """Return the expectation over the noise at r bandwidths from the centre."""
    if debias:
        return np.asarray(np.exp(-r * r / 2))
    return np.asarray(np.exp(_log_mean(c, dimension)(r, -np.inf)))


@lru_cache(maxsize=16)
def _log_mean(c: float, dimension: int) -> Table:
    """Return the logarithm of the mean of the bell itself."""

    def mean(r: Array) -> Array:
        return np.log(planar_expectation(lambda rho, _: np.exp(-rho * rho / 2), r, c, dimension))

    return Table(mean, min(1.0, c), _FARTHEST * c + 13, _STEP)


@lru_cache(maxsize=16)
def _log_variance(c: float, dimension: int, debias: bool) -> Table:
    """Return the logarithm of the variance.

    Narrow noise moves g by little, and E[g²] − mean² is a difference of nearly equal numbers: then
    moments are taken about the mean.
    """

    def square(rho: Array, r: Array) -> Array:
        g = _function(rho, c, dimension, debias)
        return np.square(g - _mean(r, c, dimension, debias) if c < 1 else g)

    def variance(r: Array) -> Array:
        second = planar_expectation(square, r, c, dimension)
        return np.log(second - (_mean(r, c, dimension, debias) ** 2 if c >= 1 else 0))

    return Table(variance, min(1.0, c), _FARTHEST * c + 13, _STEP)


@point_estimator.register
def _(query: GaussianKernel, scale: float, debias: bool) -> PointEstimator:
    if query.dimension == 1:
        return ProfileEstimator(query.profile, query.center[0], scale, debias)
    return KernelEstimator(query, scale, debias)


@point_estimator.register
def _(query: Radial, scale: float, debias: bool) -> PointEstimator:
    if query.dimension == 1:
        return radial_on_the_line(query, scale, debias)
    if isinstance(query.profile, Gaussian):
        return KernelEstimator(GaussianKernel(query.center, query.profile.bandwidth), scale, debias)
    return any_query(query, scale, debias)
