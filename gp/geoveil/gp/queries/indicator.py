"""Soft indicators: the share of people inside a region, softened over a band [SGP §4.1, §4.2].

Each is a soft step of a signed distance, positive inside the region [MATH §2.1].
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.profiles import Ramp, Smoothstep
from geoveil.gp.queries.profiles.soft_step import SoftStep
from geoveil.gp.reprs import ReprByArguments

PROFILES: Mapping[str, type[SoftStep]] = MappingProxyType({p.name: p for p in (Ramp, Smoothstep)})
"""Name of the profile of a band → its class."""


class SoftIndicator(ReprByArguments, Query):
    """The share of points inside a region: a soft step of the signed distance to it.

    f is 1/2 on the boundary, 0 from half the width outside and 1 from half the width inside. The
    profile is given by its name in `PROFILES`.
    """

    width: float
    profile: SoftStep  # pyright: ignore[reportIncompatibleMethodOverride]  # read-only: frozen

    def _arguments(self) -> Mapping[str, Any]:
        return {**super()._arguments(), "profile": self.profile.name}


class _OnLine(SoftIndicator):
    """A soft indicator of numbers."""

    @property
    def dimension(self) -> int:
        return 1

    @property
    def nests(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Threshold(_OnLine):
    """The share of values above `at`.

    Args:
        at: the threshold T, in the unit of the values.
        width: width w > 0 of the band centred at T, in the same unit.
        profile: "linear" or "smoothstep".

    Example:
        >>> q = Threshold(at=100_000, width=16_000, profile="linear")
        >>> q.value([90_000, 100_000, 104_000])
        array([0.  , 0.5 , 0.75])
        >>> q.lipschitz
        6.25e-05
    """

    at: float
    width: float
    profile: SoftStep

    def __init__(self, at: float, width: float, profile: str | SoftStep = "linear") -> None:
        _set(self, at=validation.real("at", at), **_band(width, profile))

    def signed_distance(self, x: Real, ops: Arithmetic = FLOAT) -> Real:
        return x - ops.constant(self.at)

    @property
    def varies_within(self) -> tuple[tuple[Fraction, Fraction], ...]:
        return (_around(self.at, self.width),)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Range(_OnLine):
    """The share of values between `low` and `high` [SGP App. C.3].

    Args:
        low: lower end a, in the unit of the values.
        high: upper end b > a.
        width: width w of the bands at both ends, in (0, b − a].
        profile: "linear" or "smoothstep".

    Example:
        >>> Range(low=20_000, high=60_000, width=8_000).value([20_000, 40_000, 58_000])
        array([0.5 , 1.  , 0.75])
    """

    low: float
    high: float
    width: float
    profile: SoftStep

    def __init__(
        self, low: float, high: float, width: float, profile: str | SoftStep = "linear"
    ) -> None:
        low = validation.real("low", low)
        high = validation.real("high", high)
        if not high > low:
            raise ParameterError("high", high, f"greater than low={low:g}")
        band = _band(width, profile)
        if band["width"] > high - low:
            raise ParameterError("width", width, f"at most high − low = {high - low:g}")
        _set(self, low=low, high=high, **band)

    def signed_distance(self, x: Real, ops: Arithmetic = FLOAT) -> Real:
        return ops.minimum(x - ops.constant(self.low), ops.constant(self.high) - x)

    @property
    def signed_range(self) -> tuple[float, Fraction]:
        return -math.inf, (Fraction(self.high) - Fraction(self.low)) / 2

    @property
    def varies_within(self) -> tuple[tuple[Fraction, Fraction], ...]:
        return (_around(self.low, self.width), _around(self.high, self.width))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TwoWayThreshold(SoftIndicator):
    """The share of pairs with both values above their thresholds [SGP §4.2, Lemma 4.3].

    Args:
        at: (T₁, T₂), in the common unit of the two values.
        width: width w > 0 of the band, in the same unit.
        profile: "linear" or "smoothstep".

    Example:
        >>> q = TwoWayThreshold(at=(0.0, 0.0), width=2.0)
        >>> q.value([[5.0, 5.0], [5.0, 0.0], [-3.0, 5.0]])
        array([1. , 0.5, 0. ])
    """

    at: tuple[float, float]
    width: float
    profile: SoftStep

    def __init__(
        self, at: tuple[float, float], width: float, profile: str | SoftStep = "linear"
    ) -> None:
        thresholds = validation.numbers("at", at)
        if len(thresholds) != 2:
            raise ParameterError("at", at, "two thresholds (T1, T2)")
        _set(self, at=thresholds, **_band(width, profile))

    @property
    def dimension(self) -> int:
        return 2

    def signed_distance(self, x: Real, ops: Arithmetic = FLOAT) -> Real:
        """Return s(x): a quadrant whose corner is rounded [SGP Lemma 4.3; MATH §2.1].

        With u = x₁−T₁, v = x₂−T₂ and R = w(1/√2 + 1/2): R − √((R−u)₊² + (R−v)₊²), and min(u, v)
        where both are beyond R.
        """
        radius = ops.constant(self.width) * (1 / ops.sqrt(ops.constant(2)) + ops.constant(0.5))
        u = ops.coordinate(x, 0) - ops.constant(self.at[0])
        v = ops.coordinate(x, 1) - ops.constant(self.at[1])
        zero = ops.constant(0)
        corner = ops.norm([ops.maximum(radius - u, zero), ops.maximum(radius - v, zero)])
        return radius - corner + ops.maximum(ops.minimum(u, v) - radius, zero)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Disc(SoftIndicator):
    """The share of points within `radius` of a centre, in any dimension k ≥ 2.

    Args:
        center: k ≥ 2 coordinates, in the unit of the points.
        radius: r > 0, in the same unit.
        width: width w of the band around the circle, in (0, 2r].
        profile: "linear" or "smoothstep".

    Example:
        >>> q = Disc(center=(0.0, 0.0), radius=1_000.0, width=500.0)
        >>> q.value([[0.0, 0.0], [0.0, 1_000.0], [0.0, 1_125.0]])
        array([1.  , 0.5 , 0.25])
    """

    center: tuple[float, ...]
    radius: float
    width: float
    profile: SoftStep

    def __init__(
        self,
        center: Sequence[float],
        radius: float,
        width: float,
        profile: str | SoftStep = "linear",
    ) -> None:
        coordinates = validation.numbers("center", center)
        if len(coordinates) < 2:
            raise ParameterError("center", center, "at least two coordinates; in one, use Range")
        radius = validation.positive("radius", radius)
        band = _band(width, profile)
        if band["width"] > 2 * radius:
            raise ParameterError("width", width, f"at most the diameter {2 * radius:g}")
        _set(self, center=coordinates, radius=radius, **band)

    @property
    def dimension(self) -> int:
        return len(self.center)

    def signed_distance(self, x: Real, ops: Arithmetic = FLOAT) -> Real:
        return ops.constant(self.radius) - ops.distance(x, self.center)

    @property
    def signed_range(self) -> tuple[float, Fraction]:
        return -math.inf, Fraction(self.radius)


def _around(place: float, width: float) -> tuple[Fraction, Fraction]:
    half = Fraction(width) / 2
    return Fraction(place) - half, Fraction(place) + half


def _band(width: float, profile: str | SoftStep) -> dict[str, Any]:
    """Return the checked fields that all soft indicators share."""
    width = validation.positive("width", width)
    name = profile.name if isinstance(profile, SoftStep) else profile
    return {
        "width": width,
        "profile": PROFILES[validation.choice("profile", name, PROFILES)](width),
    }


def _set(query: Query, **fields: Any) -> None:
    for name, value in fields.items():
        object.__setattr__(query, name, value)
