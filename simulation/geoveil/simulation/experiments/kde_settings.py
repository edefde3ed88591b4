"""The settings of the kernel experiment: who is where, and which centres are asked about [SGP §5].

The public code of the paper lays its 61 × 61 centres over the bounding box of its sample, edges
included, and takes the diagonal of a cell between them for the unit of h. Here the box is that of
the population, so that all samples share it.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import GeoPrivacy, ParameterError
from geoveil.gp.coordinates import Area, AzimuthalEquidistant, SphericalMercator
from geoveil.gp.validation import positive, require_count
from geoveil.simulation.experiments.kde_moments import Places
from geoveil.simulation.experiments.own import AS_PUBLISHED, OwnInput
from geoveil.simulation.populations import collisions

Array = NDArray[np.float64]

WINDOW_M = ((-8.3e6, -8.19e6), (4.91e6, 5.0e6))
"""The part of the Mercator plane that the paper keeps: (x from, to), (y from, to)."""
PLANE = SphericalMercator(Area(-73.95, 40.7, radius_m=80_000))
"""The paper's plane. A rate ε in its metres is κε in true ones, κ ≈ 1.33 (`PLANE.distortion`)."""
GRID_SIZE = 61
REPETITIONS = 10
IN_ALL = "ε in all"
"""Marks a panel in which ε pays for the whole grid, and not for each centre."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSetting:
    """One setting of the paper: n people, 1/ε, and the bandwidth in diagonals of a grid cell."""

    n: int = 200_000
    """Number of people, ≥ 1."""
    per_m: float = 1_000.0
    """1/ε: places this far apart are 1-indistinguishable, in metres of the plane."""
    factor: float = 1.0
    """Bandwidth in diagonals of a cell, before it is rounded down to whole metres."""

    def __post_init__(self) -> None:
        require_count("n", self.n)
        positive("per_m", self.per_m)
        positive("factor", self.factor)

    @property
    def label(self) -> str:
        """Names the panel: all but n."""
        return f"1/ε={self.per_m:g}, h={self.factor:g} cell diagonals"

    @property
    def privacy(self) -> GeoPrivacy:
        """The guarantee in the plane."""
        return GeoPrivacy(1.0, per=self.per_m, unit="metre")


DEFAULT = KernelSetting()
SETTINGS = (
    *(KernelSetting(per_m=per) for per in (500.0, 1_000.0, 2_000.0)),
    *(KernelSetting(factor=factor) for factor in (0.8, 1.2)),
    *(KernelSetting(n=n) for n in (100_000, 400_000)),
)
"""The paper's: one of ε, h and n is varied at a time [MATH §12]."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelGrid:
    """Centres on a lattice over the bounding box of the people, its edges included.

    Args:
        low: south-western corner, metres, shape (2,).
        high: north-eastern corner.
        size: centres along each side, ≥ 2.
    """

    low: Array
    high: Array
    size: int = GRID_SIZE

    def __post_init__(self) -> None:
        require_count("size", self.size, 2)
        if not (self.high > self.low).all():
            raise ParameterError("high", self.high.tolist(), "north-east of low")

    @classmethod
    def over(cls, places: Places, size: int = GRID_SIZE) -> "KernelGrid":
        """Return the grid over the bounding box of some people."""
        return cls(places.points.min(axis=0), places.points.max(axis=0), size)

    @property
    def m(self) -> int:
        """Number of centres."""
        return self.size**2

    @property
    def axes(self) -> tuple[Array, Array]:
        """Coordinates of the columns and of the rows of centres."""
        east, north = (
            np.linspace(low, high, self.size) for low, high in zip(self.low, self.high, strict=True)
        )
        return east, north

    @property
    def centres(self) -> Array:
        """All centres, row by row from the south-west, shape (size², 2)."""
        east, north = np.meshgrid(*self.axes)
        return np.stack([east.ravel(), north.ravel()], axis=1)

    def thinned(self, size: int) -> NDArray[np.intp]:
        """Return the indices of `size`² of the centres, spread evenly, corners included."""
        require_count("size", size, 2, self.size)
        chosen = np.rint(np.linspace(0, self.size - 1, size)).astype(np.intp)
        return (chosen[:, None] * self.size + chosen).ravel()

    def bandwidth(self, factor: float) -> float:
        """Return h: `factor` diagonals of a cell, rounded down to whole metres."""
        diagonal = float(np.hypot(*(self.high - self.low))) / (self.size - 1)
        return float(math.floor(factor * diagonal))


@lru_cache(maxsize=2)
def collision_places(given: OwnInput = AS_PUBLISHED) -> Places:
    """Return the collisions inside the paper's window, in the paper's plane.

    Args:
        given: other places instead, of which the plane is true to distances from their middle.
    """
    people = given.people(2)
    if people is None:
        points = PLANE.project(collisions().values)
        inside = np.ones(len(points), dtype=bool)
        for coordinate, (low, high) in zip(points.T, WINDOW_M, strict=True):
            inside &= (coordinate >= low) & (coordinate <= high)
        return Places.of(points[inside])
    low, high = people.values.min(axis=0), people.values.max(axis=0)
    east, north = (float(x) for x in (low + high) / 2)
    reach = 1.5 * float(np.hypot(*(111_200.0 * (high - low) / 2)))
    points = AzimuthalEquidistant(east, north, max(reach, 1_000.0)).project(people.values)
    distinct, row = np.unique(points, axis=0, return_inverse=True)
    return Places(distinct, np.bincount(row.ravel(), people.weights).astype(np.float64))
