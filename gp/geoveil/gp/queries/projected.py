"""Queries of one number of a point: its distance to a place, or its component in a direction.

Both reduce any dimension to one [SGP Lemma 4.8], for every profile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.arrays import np
from geoveil.gp.errors import ParameterError
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.profiles import Gaussian, Profile, TabulatedProfile
from geoveil.gp.queries.profiles.enclosed import EnclosedProfile

_EXAMPLE = "FormulaProfile(formula, scale=...)"


class _Central(Query):
    """A query of the distance to a center of k coordinates."""

    center: tuple[float, ...]

    @property
    def dimension(self) -> int:
        return len(self.center)

    def signed_distance(self, x: Real, ops: Arithmetic = FLOAT) -> Real:
        if self.dimension == 1:
            return ops.absolute(x - ops.constant(self.center[0]))
        return ops.distance(x, self.center)

    @property
    def signed_range(self) -> tuple[Fraction, float]:
        return Fraction(0), math.inf


@dataclass(frozen=True, slots=True, init=False)
class Radial(_Central):
    """f(x) = φ(|x − center|).

    Args:
        profile: φ, a function of a distance ≥ 0: a `FormulaProfile`, or one of the library.
        center: k coordinates, or one number for k = 1, in the unit of the points.

    Example:
        >>> from geoveil.gp import FormulaProfile
        >>> walk = FormulaProfile(lambda u, ops: ops.exp(-u), scale=500.0)
        >>> near_the_station = Radial(walk, center=(0.0, 0.0))
        >>> near_the_station.value([[0.0, 0.0], [300.0, 400.0]]).round(4)
        array([1.    , 0.3679])
    """

    profile: Profile  # pyright: ignore[reportIncompatibleMethodOverride]  # read-only: frozen
    center: tuple[float, ...]

    def __init__(self, profile: Profile, center: float | Iterable[float]) -> None:
        validation.require_kind("profile", profile, Profile, _EXAMPLE)
        object.__setattr__(self, "profile", profile.on_ray())
        object.__setattr__(self, "center", _coordinates("center", center))

    def tabulated(self, tolerance: float = 1e-4) -> Radial:
        """Return the query with a table as its profile, for campaigns.

        Tolerance and errors as `TabulatedProfile.of`.
        """
        return Radial(TabulatedProfile.of(self.profile, tolerance, ray=True), self.center)


@dataclass(frozen=True, slots=True, init=False)
class Linear(Query):
    """f(x) = φ(⟨direction, x⟩/|direction| − offset).

    Args:
        profile: φ, a function of a signed length: a `FormulaProfile`, or one of the library; not
            that of a ray.
        direction: k numbers, not all 0, or one number for k = 1; only its direction counts.
        offset: where φ has its 0 along the direction, in the unit of the points.

    Example:
        >>> from geoveil.gp import FormulaProfile
        >>> capped = FormulaProfile(lambda u, ops: u, scale=200_000.0, extent=1.0)
        >>> mean_income = Linear(capped, direction=1.0)
        >>> mean_income.value([50_000.0, 900_000.0])
        array([0.25, 1.  ])
    """

    profile: Profile  # pyright: ignore[reportIncompatibleMethodOverride]  # read-only: frozen
    direction: tuple[float, ...]
    offset: float

    def __init__(
        self, profile: Profile, direction: float | Iterable[float], offset: float = 0.0
    ) -> None:
        components = _coordinates("direction", direction)
        largest = max(map(abs, components))
        if not validation.LEAST <= largest <= validation.MOST:
            raise ParameterError("direction", direction, "a vector that is not 0, below 1e+50")
        validation.require_kind("profile", profile, Profile, _EXAMPLE)
        if isinstance(profile, EnclosedProfile) and profile.ray:
            raise ParameterError("profile", profile, "one of a line: leave out ray=True")
        object.__setattr__(self, "profile", profile)
        object.__setattr__(self, "direction", components)
        object.__setattr__(self, "offset", validation.real("offset", offset))

    @property
    def dimension(self) -> int:
        return len(self.direction)

    def tabulated(self, tolerance: float = 1e-4) -> Linear:
        """Return the query with a table as its profile; see `Radial.tabulated`."""
        return Linear(TabulatedProfile.of(self.profile, tolerance), self.direction, self.offset)

    def signed_distance(self, x: Real, ops: Arithmetic = FLOAT) -> Real:
        weights = [ops.constant(w) for w in self.direction]
        if self.dimension == 1:
            along = x * ops.constant(float(np.sign(self.direction[0])))
        else:
            along = sum(
                (ops.coordinate(x, i) * w for i, w in enumerate(weights)), start=ops.constant(0)
            ) / ops.norm(weights)
        return along - ops.constant(self.offset)

    @property
    def nests(self) -> bool:
        return self.dimension == 1


def _coordinates(name: str, value: float | Iterable[float]) -> tuple[float, ...]:
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    numbers = validation.numbers(name, value if isinstance(value, Iterable) else (value,))
    if not numbers:
        raise ParameterError(name, value, "at least one number")
    return numbers


@dataclass(frozen=True, slots=True)
class GaussianKernel(_Central):
    """f(x) = exp(−|x − center|²/(2 bandwidth²)).

    Args:
        center: k coordinates, or one number for k = 1, in the unit of the points.
        bandwidth: h > 0, in the same unit.

    Example:
        >>> q = GaussianKernel(center=(0.0, 0.0), bandwidth=1000.0)
        >>> q.value([[0.0, 0.0], [1000.0, 0.0]]).round(4)
        array([1.    , 0.6065])
    """

    center: tuple[float, ...]
    bandwidth: float
    profile: Gaussian = field(init=False, repr=False, compare=False)  # pyright: ignore[reportIncompatibleMethodOverride]  # read-only: frozen

    def __init__(self, center: float | Iterable[float], bandwidth: float) -> None:
        profile = Gaussian(bandwidth)
        object.__setattr__(self, "center", _coordinates("center", center))
        object.__setattr__(self, "bandwidth", profile.bandwidth)
        object.__setattr__(self, "profile", profile)

    @property
    def nests(self) -> bool:
        return self.dimension == 1
