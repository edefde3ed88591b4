"""What a value is. The app says it, in its policy; a campaign that takes it for else is refused.

Two numbers may be metres on a shop floor or degrees on the Earth, and a server that could choose
would have one read as the other: degrees stand for distances a hundred thousand times as long, so
that the privacy promised per metre would hide next to nothing.
"""

from dataclasses import dataclass
from typing import TypeAlias

from geoveil.campaign import Campaign
from geoveil.gp import ParameterError
from geoveil.gp.coordinates import Area


@dataclass(frozen=True, slots=True)
class Number:
    """One number in the unit of its limit, for example an income.

    Example:
        >>> print(Number())
        one number
    """

    def permits(self, asked: "ValueKind") -> bool:
        """Return whether a campaign that takes a value for `asked` may be answered."""
        return asked == self

    def __str__(self) -> str:
        return "one number"


@dataclass(frozen=True, slots=True)
class Point:
    """Several numbers in the unit of their limit, for example metres on a shop floor.

    Args:
        dimension: how many numbers, 2 or more; distances between points are Euclidean.

    Raises:
        ParameterError: if it is no such integer.

    Example:
        >>> print(Point(2))
        a point of 2 coordinates
    """

    dimension: int

    def __post_init__(self) -> None:
        many = self.dimension
        if isinstance(many, bool) or not isinstance(many, int) or many < 2:
            raise ParameterError("dimension", many, "an integer >= 2; Number() stands for one")

    def permits(self, asked: "ValueKind") -> bool:
        """Return whether a campaign that takes a value for `asked` may be answered."""
        return asked == self

    def __str__(self) -> str:
        return f"a point of {self.dimension} coordinates"


@dataclass(frozen=True, slots=True)
class Place:
    """A place on the Earth: longitude and latitude in degrees, with limits per metre.

    Args:
        area: where questions may lie: a campaign's area must be inside. None, which has to be said:
            anywhere.

    Raises:
        ParameterError: if the area is neither.

    Example:
        >>> print(Place(Area(longitude_deg=2.35, latitude_deg=48.86, radius_m=15_000)))
        a place within 15,000 m of longitude 2.35, latitude 48.86
        >>> print(Place(None))
        a place anywhere
    """

    area: Area | None

    def __post_init__(self) -> None:
        if self.area is not None and not isinstance(self.area, Area):
            raise ParameterError("area", self.area, "an Area, or None for anywhere")

    def permits(self, asked: "ValueKind") -> bool:
        """Return whether `asked` is a place whose area, all of it, is in this one.

        Raises:
            UnsupportedError: if pyproj, which compares areas, is not installed.
        """
        if not isinstance(asked, Place) or self.area is None or asked.area is None:
            return isinstance(asked, Place) and self.area is None
        return asked == self or self.area.contains(asked.area)

    def __str__(self) -> str:
        if self.area is None:
            return "a place anywhere"
        return (
            f"a place within {self.area.radius_m:,.0f} m of longitude {self.area.longitude_deg:g},"
            f" latitude {self.area.latitude_deg:g}"
        )


ValueKind: TypeAlias = Number | Point | Place
"""What a value is taken for."""


def kind_of(campaign: Campaign) -> ValueKind:
    """Return what a campaign takes a value for."""
    plane = campaign.attribute.coordinates
    if plane is not None:
        return Place(plane.area)
    return Number() if campaign.dimension == 1 else Point(campaign.dimension)
