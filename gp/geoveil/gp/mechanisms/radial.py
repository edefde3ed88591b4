"""Laplace noise on the distance, plugged into the query: the seed's GP_rad [SGP §5; MATH §6]."""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp._convolution import laplace_expectation
from geoveil.gp.mechanisms.base import Array
from geoveil.gp.mechanisms.distance import DistanceLaplace

_UNDONE = Fraction(0)


class RadialLaplace(DistanceLaplace):
    """y = φ(s(x) + Laplace(1/ε)): ε-GP, and biased for every query that is not linear.

    A baseline. The bias does not shrink with n; `DebiasedLaplace` adds the same noise and has none.

    Args:
        query: a kernel, or any other query: its distance is perturbed, a distance or a signed one.
        privacy: the guarantee, in the unit of x.
        step: see `Mechanism`.

    Example:
        >>> from geoveil.gp import GaussianKernel, GeoPrivacy
        >>> q = GaussianKernel(center=(0.0, 0.0), bandwidth=1000.0)
        >>> m = RadialLaplace(q, GeoPrivacy(epsilon=1.0, per=500.0))
        >>> m.mean([[0.0, 0.0]]).round(3).tolist(), q.value([[0.0, 0.0]]).tolist()
        ([0.843], [1.0])
    """

    @property
    def unbiased(self) -> bool:
        """See `Mechanism.unbiased`."""
        return False

    @property
    def _undo(self) -> Fraction:
        return _UNDONE

    def mean(self, x: ArrayLike) -> Array:
        """See `Mechanism.mean`: φ smoothed by the noise."""
        return self._mean(self._distance(x))

    def _mean(self, s: Array) -> Array:
        profile = self.query.profile
        left, right = self._limits()
        return laplace_expectation(
            self._g,
            np.asarray(s),
            self.scale,
            breakpoints=profile.breakpoints,
            length_scale=profile.length_scale,
            left=left,
            right=right,
        )
