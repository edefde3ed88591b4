"""What each participant holds, and how it becomes the point that queries are asked of."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.campaign.text import plain
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.gp.errors import ParameterError, PrivateValueError
from geoveil.gp.validation import HELD, exact_array

Value = float | int | Sequence[float] | NDArray[np.float64]
"""A number, a list of numbers, or (longitude, latitude) in degrees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """A metric space in which every participant has one point."""

    name: str
    """For example "household income" or "location"."""
    unit: str
    """Unit of distance, for example "dollar"; "metre" for places."""
    coordinates: AzimuthalEquidistant | None = None
    """The plane of places given as (longitude, latitude); None if values are used as they are."""

    def __post_init__(self) -> None:
        plain("attribute.name", self.name, 64)
        plain("attribute.unit", self.unit, 64)
        if not isinstance(self.coordinates, AzimuthalEquidistant | None):
            raise ParameterError(
                "attribute.coordinates", self.coordinates, "an AzimuthalEquidistant, or None"
            )
        if self.coordinates is not None and self.unit != "metre":
            raise ParameterError("attribute.unit", self.unit, "'metre' for places on the Earth")

    @property
    def distortion(self) -> float:
        """κ: how much longer a distance may be in the queries' coordinates than in truth."""
        return 1.0 if self.coordinates is None else self.coordinates.distortion

    def point(self, value: Value, dimension: int) -> NDArray[np.float64]:
        """Return one participant's value in the coordinates of the queries.

        Args:
            value: what the participant holds.
            dimension: of the queries.

        Raises:
            PrivateValueError: if it is no finite number (or numbers) of the kind asked for.
        """
        if self.coordinates is not None:
            return self.coordinates.project(
                _numbers(value, 2, "a longitude and a latitude, in degrees")
            )
        many = "a finite number" if dimension == 1 else f"{dimension} finite numbers"
        return _numbers(value, dimension, f"{many}, in {self.unit}")


def _numbers(value: Value, count: int, expected: str) -> NDArray[np.float64]:
    """Return `count` finite numbers that doubles hold: shape () for one, else (count,)."""
    array = None if isinstance(value, (bool, str, bytes)) else exact_array(value)
    if array is None:
        raise PrivateValueError(f"{expected}, {HELD}")
    if array.size != count or array.ndim > 1 or not np.isfinite(array).all():
        raise PrivateValueError(expected)
    return array.reshape(()) if count == 1 else array
