"""Planar Laplace: noise on the point itself, for any later query [ABCP13; MATH §5.2]."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlanarLaplace:
    """x + N with density ∝ e^{−ε|N|} in k dimensions: ε-GP.

    The radius is Gamma(k, 1/ε) and the direction uniform: a normal vector, normalised.

    Args:
        privacy: the guarantee, in the unit of the points.
        dimension: k ≥ 1.

    Example:
        >>> from geoveil.gp import GeoPrivacy
        >>> z = PlanarLaplace(GeoPrivacy(1.0, per=500.0, unit="metre"), dimension=2)
        >>> z.simulate([[0.0, 0.0], [10.0, 20.0]], np.random.default_rng(1)).shape
        (2, 2)
    """

    privacy: GeoPrivacy
    dimension: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.privacy, GeoPrivacy):
            raise ParameterError("privacy", self.privacy, "a GeoPrivacy")
        number = self.dimension
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ParameterError("dimension", number, "an integer >= 1")

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return perturbed points. NOT private on a computer: for experiments [MATH §10].

        Args:
            x: points, (n, k), or (n,) for k = 1.
            rng: a NumPy generator.

        Returns:
            An array of the shape of x.
        """
        points = validation.points(x, self.dimension)
        scale = 1 / self.privacy.rate
        if self.dimension == 1:
            return points + rng.laplace(scale=scale, size=points.shape)
        direction = rng.standard_normal(points.shape)
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        radius = rng.gamma(self.dimension, scale, size=points.shape[:-1])
        return points + radius[..., None] * direction

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density of the perturbed point y given x, the two broadcast together."""
        y = validation.points(y, self.dimension)
        x = validation.points(x, self.dimension)
        k, rate = self.dimension, self.privacy.rate
        difference = np.abs(y - x) if k == 1 else np.linalg.norm(y - x, axis=-1)
        norm = k * math.log(rate) + math.lgamma(k / 2) - math.lgamma(k)
        norm -= math.log(2) + k / 2 * math.log(math.pi)
        return np.asarray(norm - rate * difference)

    @property
    def variance(self) -> float:
        """Variance of each coordinate of the noise: (k+1)/ε²."""
        return (self.dimension + 1) / self.privacy.rate**2

    def estimator(self, query: Query, *, debias: bool = False) -> "PointEstimator":
        """Return what to average over perturbed points to estimate the mean of `query`.

        Args:
            query: f, of the same dimension.
            debias: False plugs the noisy points into f, which is biased and never goes away with
                n; True undoes the noise [MATH §5.1], for k = 1 and profiles with a Lipschitz slope.

        Raises:
            ParameterError: if the dimensions differ.
            UnsupportedError: if no debiased form is available.
        """
        if not isinstance(query, Query):
            raise ParameterError("query", query, "a Query, for example GaussianKernel(...)")
        if query.dimension != self.dimension:
            raise ParameterError("query.dimension", query.dimension, f"{self.dimension}")
        if debias:
            if self.dimension != 1:
                raise UnsupportedError(
                    "points in more than one dimension are not debiased: use DebiasedLaplace on"
                    " the query, or debias=False and accept its bias"
                )
            query.profile.debiased_range(1 / self.privacy.rate)  # refuses where there is no form
        return PointEstimator(query, 1 / self.privacy.rate if debias else 0.0)


@dataclass(frozen=True, slots=True)
class PointEstimator:
    """A function of a perturbed point whose mean estimates the mean of a query.

    Args:
        query: f.
        undo: scale b of the Laplace noise to undo; 0 plugs in.
    """

    query: Query
    undo: float

    @property
    def unbiased(self) -> bool:
        """Whether its mean over the noise is f(x)."""
        return self.undo > 0

    def value(self, points: ArrayLike) -> Array:
        """Return one number per perturbed point, shape (n,)."""
        if self.undo == 0:
            return self.query.value(points)
        scalar = self.query.scalar(validation.points(points, 1))
        return np.asarray(self.query.profile.debiased(scalar, self.undo))
