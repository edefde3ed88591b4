"""An attribute: a metric space in which every participant has one point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from geoveil.campaign.text import require_printable
from geoveil.gp import (
    LOG,
    Array,
    AzimuthalEquidistant,
    LogScale,
    ParameterError,
    PrivateValueError,
    validation,
)

Value: TypeAlias = "float | int | Sequence[float] | Array"
"""A number, a list of numbers, or (longitude, latitude) in degrees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """A metric space in which every participant has one point."""

    name: str
    """The name, for example "household income" or "location"."""
    unit: str
    """The unit of distances, for example "dollar"; "metre" for places, "log dollar" for ratios."""
    coordinates: AzimuthalEquidistant | None = None
    """The plane onto which (longitude, latitude) is projected; None if values are used as given."""
    scale: LogScale | None = None
    """Turns numbers into logarithms, whose distances are ratios; None to use values as given."""
    least: float | None = None
    """The least expected number, a public fact; None for any. A person with a number beyond must
    confirm it. In a value campaign with both ends it then counts as the nearer end
    (`Campaign.clamped`), otherwise unchanged."""
    most: float | None = None
    """The greatest expected number, treated in the same way."""

    def __post_init__(self) -> None:
        require_printable("attribute.name", self.name, 64)
        require_printable("attribute.unit", self.unit, 64)
        validation.require_kind(
            "attribute.coordinates", self.coordinates, AzimuthalEquidistant | None
        )
        if self.coordinates is not None and self.unit != "metre":
            raise ParameterError("attribute.unit", self.unit, "'metre' for places on the Earth")
        validation.require_kind("attribute.scale", self.scale, LogScale | None)
        # Policies and ledgers distinguish ratios from differences by their units.
        if (self.scale is None) is self.unit.startswith(LOG):
            expected = f"{LOG.strip()!r} and the unit of values on a log scale, and only there"
            raise ParameterError("attribute.unit", self.unit, expected)
        validation.require_ends("attribute.", self.least, self.most)

    @property
    def value_unit(self) -> str:
        """The unit of participants' values: "dollar" if distances are in "log dollar"."""
        return self.unit if self.scale is None else self.unit.removeprefix(LOG)

    @property
    def distortion(self) -> float:
        """κ, the largest ratio of a distance in the queries' coordinates to the true distance."""
        return 1.0 if self.coordinates is None else self.coordinates.distortion

    def point(self, value: Value, dimension: int) -> float | Array:
        """Return one participant's value in the queries' `dimension` coordinates.

        Raises:
            PrivateValueError: unless it is finite and of the attribute's kind.
        """
        expected = "a longitude and a latitude, in degrees"
        if self.coordinates is None:
            many = "a finite number" if dimension == 1 else f"{dimension} finite numbers"
            expected = f"{many}, in {self.value_unit}"
        if isinstance(value, (bool, str, bytes)):
            raise PrivateValueError(f"{expected}, and neither a text nor a truth value")
        if dimension == 1 and self.coordinates is None and validation.is_plain(value):
            if not math.isfinite(value):
                raise PrivateValueError(expected)
            # The usual value of a device, which needs no array.
            return float(value) if self.scale is None else self.scale.coordinate(float(value))
        array = validation.exact_array(value)
        if array is None:
            raise PrivateValueError(f"{expected}, {validation.HELD}")
        finite = all(map(math.isfinite, array.ravel().tolist()))
        if array.size != dimension or array.ndim > 1 or not finite:
            raise PrivateValueError(expected)
        if self.coordinates is not None:
            return self.coordinates.project(array)
        if self.scale is not None:
            return self.scale.coordinate(array.item())
        return array.reshape(()) if dimension == 1 else array
