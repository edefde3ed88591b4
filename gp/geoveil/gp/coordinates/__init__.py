"""From places on the Earth to a plane in which mechanisms work [MATH §11].

A projection distorts distance. With κ an upper bound of plane over true distance, a mechanism that
is ε-GP in projected metres is κε-GP in true metres, so it is calibrated with ε/κ.
"""

from geoveil.gp.coordinates.area import Area
from geoveil.gp.coordinates.base import Projection
from geoveil.gp.coordinates.earth import POLAR_RADIUS_M
from geoveil.gp.coordinates.projections import AzimuthalEquidistant

__all__ = [
    "POLAR_RADIUS_M",
    "Area",
    "AzimuthalEquidistant",
    "Projection",
]
