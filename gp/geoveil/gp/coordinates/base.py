"""The contract of a projection: its largest stretch, and the change of ε."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from fractions import Fraction

from geoveil.gp.arrays import ArrayLike, NDArray, np
from geoveil.gp.exact import round_up
from geoveil.gp.privacy import GeoPrivacy


class Projection(ABC):
    """A κ-Lipschitz map from places on the Earth to a plane, in metres.

    Places outside the area have an image, too: a refusal would tell that somebody is not inside.
    """

    @property
    def dimension(self) -> int:
        """Coordinates in the plane: 2."""
        return 2

    @property
    @abstractmethod
    def distortion(self) -> float:
        """κ: an upper bound of plane over true distance, for all pairs of places."""

    @abstractmethod
    def project(self, places: ArrayLike) -> NDArray[np.float64]:
        """Return metres east and north, for (longitude, latitude) in degrees, shape (n, 2) or (2,).

        Raises:
            PrivateValueError: if a place is no longitude and latitude.
        """

    @abstractmethod
    def unproject(self, points: ArrayLike) -> NDArray[np.float64]:
        """Return (longitude, latitude) of metres east and north; inverts `project` inside the area.

        Raises:
            PrivateValueError: if a point is not finite, or no place lies there.
        """

    def privacy(self, true: GeoPrivacy) -> GeoPrivacy:
        """Return the guarantee in the plane for which `true` holds on the Earth.

        Places d apart have points at most κd apart: the rate is ε/κ and the reach κΛ, rounded in
        the safe direction.

        Example:
            >>> from geoveil.gp.coordinates import AzimuthalEquidistant
            >>> plane = AzimuthalEquidistant(-73.95, 40.7, radius_m=500_000)
            >>> print(plane.privacy(GeoPrivacy(epsilon=1.0, per=500.0, unit="metre")))
            ε = 0.998969 per 500 metre
        """
        kappa = Fraction(self.distortion)
        reach = true.reach
        if reach < math.inf:
            reach = round_up(Fraction(reach) * kappa)
        return replace(true.scaled(1 / kappa), reach=reach)
