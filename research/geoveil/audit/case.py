"""Rows of the audit: a mechanism with points, outputs and pairs to test."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import GeoPrivacy, LocalPrivacy, Mechanism, ParameterError, Query

Array = NDArray[np.float64]
Pair = tuple[Array, Array]


class Audited(Protocol):
    """The interface of a mechanism for both auditors."""

    @property
    def privacy(self) -> GeoPrivacy | LocalPrivacy:
        """The stated guarantee."""
        ...

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report per point."""
        ...

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density at output y given the point x, the two broadcast together."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """A mechanism audited against a guarantee other than its own."""

    mechanism: Audited
    privacy: GeoPrivacy | LocalPrivacy

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report per point of the original mechanism."""
        return self.mechanism.simulate(x, rng)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density of those reports at output y given the point x."""
        return self.mechanism.log_density(y, x)


def first_number(reports: Array) -> Array:
    """Return the first number of every report, (n,)."""
    return reports.reshape(len(reports), -1)[:, 0]


def all_numbers_added(reports: Array) -> Array:
    """Return the sum of every report, (n,), for (n, m)."""
    return np.asarray(reports.sum(axis=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of the audit. All of its numbers are public and synthetic."""

    name: str
    """The mechanism's class."""
    variant: str
    """Its noise, calibration and reach, if there is a choice."""
    query: str
    """The query that it answers."""
    mechanism: Audited = field(repr=False)
    """The mechanism; the audit tests the promise of its `privacy`."""
    path: Array = field(repr=False)
    """Points for the exact auditor, (n,) or (n, k), neighbours close together."""
    outputs: Array = field(repr=False)
    """Outputs for the exact auditor, (m,) or (m, j); increasing where δ > 0."""
    pairs: tuple[Pair, ...] = field(repr=False)
    """Pairs of points for the black-box auditor, at several distances."""
    atoms: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    """Outputs that have a probability instead of a density, where δ > 0."""
    statistic: Callable[[Array], Array] = field(default=first_number, repr=False)
    """The function of a report that the black-box auditor uses; any function is valid."""
    own: bool = False
    """Whether a user's function makes the mechanism, whatever its class."""
    again: Callable[[], Audited] | None = field(default=None, repr=False)
    """The function that makes the mechanism, if it is a user's."""
    plane: bool = field(default=False, repr=False)
    """Whether points are of a plane, where distances are Euclidean and all directions alike."""

    @property
    def per(self) -> float:
        """Unit of distances: `per` of the promise, or a twentieth of the path without one."""
        span = float(np.ptp(self.path)) / 20
        return float(getattr(self.mechanism.privacy, "per", span))

    def two_alike(self) -> tuple[Any, Any]:
        """Return two mechanisms in the same state: a user's are both made anew."""
        if self.again is not None:
            return self.again(), self.again()
        return copied(self.mechanism), copied(self.mechanism)


def copied(mechanism: Any) -> Any:
    """Return a copy; what can't be copied is returned itself."""
    try:
        return deepcopy(mechanism)
    except TypeError:
        return mechanism


def devices_call(mechanism: Any) -> Callable[..., Any]:
    """Return the function that releases many reports one by one, if there is one."""
    if isinstance(mechanism, Mechanism):
        return partial(Mechanism.release_many, mechanism)
    released: Callable[..., Any] = mechanism.release_many
    return released


def moving(path: Array) -> NDArray[np.bool_]:
    """Return whether each point of a path differs from the one before, in floats."""
    steps = np.diff(path, axis=0).reshape(len(path) - 1, -1)
    return np.append(True, steps.any(axis=1))


_PATH = tuple((np.arange(-320, 321) / 40).tolist())
_TURNS, _APART, _OF_A_TURN = 10, 0.8, 96
"""A spiral about the origin of a plane: turns, their distance in `per`, and points on each."""
_PAIRS = ((-0.2, 0.2), (0.2, 0.6), (0.0, 1.5), (1.0, 3.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A query, a guarantee, and a line of points through the query's band."""

    name: str
    query: Query
    privacy: GeoPrivacy
    origin: tuple[float, ...]
    """The line's point 0, in the unit of the points; the line follows the first axis."""
    path: tuple[float, ...] = field(default=_PATH, repr=False)
    """Steps along the line, in units of `privacy.per`."""
    pairs: tuple[tuple[float, float], ...] = _PAIRS
    """Pairs of such steps."""

    def points(self, steps: ArrayLike) -> Array:
        """Return points at distances in `per` from the origin: (n,), or (n, k) for k > 1."""
        along = np.asarray(steps, dtype=np.float64) * self.privacy.per
        if len(self.origin) == 1:
            return along + self.origin[0]
        direction = np.eye(len(self.origin))[0]
        return np.asarray(np.asarray(self.origin) + along[..., None] * direction)

    def way(self) -> Array:
        """Return the points of the path; in a plane, also a spiral and the other axis."""
        line = self.points(self.path)
        line = line[moving(line)]
        if len(self.origin) != 2:
            return line
        turns = np.arange(_TURNS * _OF_A_TURN, 0, -1) / _OF_A_TURN
        angle, radius = 2 * np.pi * turns, _APART * self.privacy.per * turns
        spiral = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        centre = np.asarray(self.origin)
        return np.concatenate([line, centre + spiral, centre + (line - centre)[::2, ::-1]])

    def case(
        self,
        mechanism: Audited,
        outputs: ArrayLike,
        variant: str = "",
        *,
        name: str | None = None,
        statistic: Callable[[Array], Array] = first_number,
    ) -> Case:
        """Return a row for a mechanism that answers the query, named after its class."""
        return Case(
            name=type(mechanism).__name__ if name is None else name,
            variant=variant,
            query=self.name,
            mechanism=mechanism,
            path=self.way(),
            outputs=np.asarray(outputs, dtype=np.float64),
            pairs=tuple((self.points(a), self.points(b)) for a, b in self.pairs),
            statistic=statistic,
            plane=len(self.origin) == 2,
        )


def additive_outputs(scale: float) -> Array:
    """Return outputs for f + scale(x)·Z: dense around 0 and 1, and 10⁵ largest scales beyond."""
    spread = scale * np.geomspace(1e-5, 1e5, 121)
    around = np.concatenate([-spread[::-1], [0.0], spread])
    return np.unique(np.concatenate([around, 1 + around, np.linspace(-scale, 1 + scale, 81)]))


def bounded_outputs(low: float, high: float, atoms: tuple[float, ...] = ()) -> Array:
    """Return outputs strictly between two bounds, and the atoms exactly."""
    return np.unique(np.concatenate([np.linspace(low, high, 62)[1:-1], atoms]))


def require_whole(name: str, value: object, low: int, high: int) -> None:
    """Refuse everything but integers in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ParameterError(name, value, f"an integer in [{low}, {high}]")
