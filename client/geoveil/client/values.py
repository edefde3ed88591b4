"""The kinds of values, stated by the app's policy; campaigns of other kinds are refused.

A server that could choose might interpret metres on a shop floor as degrees on the Earth, distances
a hundred thousand times as long, and the privacy promised per metre would hide almost nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

from geoveil.campaign import (
    OPTION,
    STEP,
    Attribute,
    AttributeCampaign,
    CategoryField,
    MultipleField,
    OrdinalField,
    PointField,
    Value,
    between,
)
from geoveil.gp import Area, ParameterError, PrivateValueError, ReprByArguments, validation


@dataclass(frozen=True, slots=True, repr=False)
class Number(ReprByArguments):
    """One number in the unit of its limit, for example an income.

    Args:
        least: smaller numbers are refused as slips; None for no limit.
        most: larger numbers are refused as slips; None for no limit.

    Raises:
        ParameterError: if the limits are not finite and in order.

    Example:
        >>> print(Number(), Number(0), Number(0, 10_000_000), sep="; ")
        one number; one number, at least 0; one number, at least 0 and at most 10,000,000
    """

    least: float | None = None
    most: float | None = None
    unit: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        validation.require_ends("", self.least, self.most)

    def permits(self, asked: "ValueKind") -> bool:
        """Return whether a campaign that takes a value for `asked` may be answered."""
        return isinstance(asked, Number)

    def check(self, attribute: Attribute, value: Value) -> None:
        """Raise PrivateValueError, with the range but not the number, if it is out of range."""
        if attribute.scale is not None:  # the ends are values, not logarithms
            attribute = replace(attribute, scale=None, unit=attribute.value_unit)
        number = float(attribute.point(value, 1))
        low, high = self.least, self.most
        if (low is not None and number < low) or (high is not None and number > high):
            raise PrivateValueError(f"{self}, in {attribute.unit}")

    def __str__(self) -> str:
        stated = between(self.least, self.most)
        return f"one number, {stated}" if stated else "one number"


@dataclass(frozen=True, slots=True)
class Point:
    """Several numbers in the unit of their limit, for example metres on a shop floor.

    Args:
        dimension: the number of coordinates, ≥ 2; distances between points are Euclidean.

    Raises:
        ParameterError: if it is not such an integer.

    Example:
        >>> print(Point(2))
        a point of 2 coordinates
    """

    dimension: int
    unit: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        validation.require_count("dimension", self.dimension, 2)

    def permits(self, asked: "ValueKind") -> bool:
        """Return whether a campaign that takes a value for `asked` may be answered."""
        return asked == self

    def check(self, attribute: Attribute, value: Value) -> None:
        """Accept any point."""

    def __str__(self) -> str:
        return f"a point of {self.dimension} coordinates"


@dataclass(frozen=True, slots=True, repr=False)
class Place(ReprByArguments):
    """A place on the Earth: longitude and latitude in degrees, with limits per metre.

    Args:
        area: the area that must contain a campaign's. An explicit None permits any area.
        outside: "moved" moves a place outside the campaign's area to its nearest place, so that
            neither silence nor an error reveals where somebody is not; with "refused",
            `contribute` raises PrivateValueError, so that no slip is sent.

    Raises:
        ParameterError: if the area or `outside` is invalid.

    Example:
        >>> print(Place(Area(longitude_deg=2.35, latitude_deg=48.86, radius_m=15_000)))
        a place within 15,000 m of longitude 2.35, latitude 48.86
        >>> print(Place(None))
        a place anywhere
    """

    area: Area | None
    outside: Literal["moved", "refused"] = "moved"
    unit: ClassVar[str | None] = "metre"

    def __post_init__(self) -> None:
        validation.require_kind("area", self.area, Area | None)
        validation.choice("outside", self.outside, ("moved", "refused"))

    def permits(self, asked: "ValueKind") -> bool:
        """Return whether this area contains the other's; UnsupportedError without pyproj."""
        if not isinstance(asked, Place) or self.area is None or asked.area is None:
            return isinstance(asked, Place) and self.area is None
        return asked.area == self.area or self.area.contains(asked.area)

    def check(self, attribute: Attribute, value: Value) -> None:
        """Raise PrivateValueError, without the place, if it is outside and must not be moved."""
        plane = attribute.coordinates
        if self.outside == "refused" and plane is not None and not plane.area.holds(value):
            raise PrivateValueError(str(Place(plane.area)))

    def __str__(self) -> str:
        if self.area is None:
            return "a place anywhere"
        return (
            f"a place within {self.area.radius_m:,.0f} m of longitude {self.area.longitude_deg:g},"
            f" latitude {self.area.latitude_deg:g}"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Choice(ReprByArguments):
    """One of several options, with limits per option; any two options are 1 apart.

    Args:
        options: the options that a form may offer, or some of them; None for any.

    Raises:
        ParameterError: if they are not distinct texts.

    Example:
        >>> print(Choice(), Choice(("yes", "no")), sep="; ")
        one of some options; one of the options yes, no
    """

    options: Sequence[str] | None = None
    unit: ClassVar[str | None] = OPTION
    _words: ClassVar[str] = "one of"

    def __post_init__(self) -> None:
        if self.options is None:
            return
        options = validation.items("options", self.options, str)
        if not options or len(set(options)) < len(options):
            raise ParameterError("options", self.options, "distinct texts, or None for any")
        object.__setattr__(self, "options", options)

    def permits(self, asked: "ValueKind") -> bool:
        """Return whether a field that takes an answer for `asked` may be answered."""
        if not isinstance(asked, Choice) or type(asked) is not type(self):
            return False
        if self.options is None:
            return True
        # In this order, which is an ordinal field's scale.
        offered = () if asked.options is None else tuple(asked.options)
        return [option for option in self.options if option in offered] == list(offered)

    def check(self, attribute: Attribute, value: Any) -> None:
        """Accept any answer, since the field itself refuses other options."""

    def __str__(self) -> str:
        if self.options is None:
            return f"{self._words} some options"
        few = ", ".join(self.options[:20]) + (", …" if len(self.options) > 20 else "")
        return f"{self._words} the options {few}"


class Ordinal(Choice):
    """One of several ordered options, from the least to the greatest, with limits per step.

    Example:
        >>> print(Ordinal(("bad", "good")))
        one, in order, of the options bad, good
    """

    __slots__ = ()
    unit = STEP
    _words = "one, in order, of"


class Multiple(Choice):
    """Any number of several options, with limits per option.

    Example:
        >>> print(Multiple())
        any of some options
    """

    __slots__ = ()
    _words = "any of"


ValueKind: TypeAlias = Number | Point | Place | Choice
"""The kind of a value."""


def kind_of(asked: AttributeCampaign | PointField | CategoryField) -> ValueKind:
    """Return the kind of value for a campaign or a form's field."""
    if isinstance(asked, CategoryField):
        ordered = Ordinal if isinstance(asked, OrdinalField) else Choice
        return (Multiple if isinstance(asked, MultipleField) else ordered)(asked.options)
    plane = asked.attribute.coordinates
    if plane is not None:
        return Place(plane.area)
    dimension = asked.dimension
    return Number() if dimension == 1 else Point(dimension)
