"""The seed paper's GP_rad: Laplace noise on the distance, without debiasing [SGP §5]."""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import DebiasedLaplace, laplace_expectation

Array = NDArray[np.float64]


class RadialLaplace(DebiasedLaplace):
    """y = φ(s(x) + Laplace(1/ε)): ε-GP, and biased for every query that is not linear.

    A baseline, whose bias does not shrink with n; `DebiasedLaplace` adds the same noise without it.

    Example:
        >>> from geoveil.gp import GaussianKernel, GeoPrivacy
        >>> q = GaussianKernel(center=(0.0, 0.0), bandwidth=1000.0)
        >>> m = RadialLaplace(q, GeoPrivacy(epsilon=1.0, per=500.0))
        >>> m.mean([[0.0, 0.0]]).round(3).tolist(), q.value([[0.0, 0.0]]).tolist()
        ([0.843], [1.0])
    """

    @property
    def unbiased(self) -> bool:
        return False

    @property
    def _undo(self) -> Fraction:
        return Fraction(0)

    def mean(self, x: ArrayLike) -> Array:
        """Return the expected report: φ smoothed by the noise."""
        profile = self.query.profile
        return laplace_expectation(
            self._g,
            self._distance(x),
            self.scale,
            panels=profile.panels(0.0),
            limits=profile.limits,
        )
