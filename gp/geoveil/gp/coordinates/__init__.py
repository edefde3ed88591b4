"""Project places on the Earth to a plane in which mechanisms work [MATH §11].

With plane distances at most κ times true ones, an ε-GP mechanism is κε-GP in true metres.
"""

from geoveil.gp.coordinates.area import Area
from geoveil.gp.coordinates.earth import POLAR_RADIUS_M
from geoveil.gp.coordinates.projections import AzimuthalEquidistant, Projection

__all__ = [
    "POLAR_RADIUS_M",
    "Area",
    "AzimuthalEquidistant",
    "Projection",
]
