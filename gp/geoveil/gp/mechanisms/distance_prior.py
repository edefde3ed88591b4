"""Where the distances of people are expected to lie: what an optimal channel is optimal for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT
from geoveil.gp.arrays import Array, ArrayLike, distinct, np
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.profiles.base import Profile

SETTLED = 2.0**-12
"""A profile this close to its limit, relative to its range, has settled there."""
_MARGIN = 0.05
"""Part of its length by which a region of variation is extended where no plateau ends it."""
_MESH = 1 << 13
_UNIFORM = 512


@dataclass(frozen=True, slots=True)
class DistancePrior:
    """A public guess of how the distances s(x) are distributed: points with weights.

    Privacy and the mean of a report do not depend on it; the variance does.

    Args:
        distances: distances s at which people are, in the unit of the points.
        weights: one per distance, ≥ 0 and not all 0; they are divided by their sum.

    Raises:
        ParameterError: if a number is not finite, a weight negative, or the lengths differ.

    Example:
        >>> DistancePrior([-1.0, 0.0, 1.0], [1, 2, 1]).weights
        (0.25, 0.5, 0.25)
    """

    distances: tuple[float, ...]
    weights: tuple[float, ...]

    def __init__(self, distances: Iterable[float], weights: Iterable[float] | None = None) -> None:
        places = validation.numbers("distances", distances)
        if not places:
            raise ParameterError("distances", distances, "at least one number")
        if max(map(abs, places)) > validation.FARTHEST:
            raise ParameterError("distances", distances, f"numbers up to {validation.FARTHEST:g}")
        shares = (1.0,) * len(places) if weights is None else validation.numbers("weights", weights)
        if len(shares) != len(places):
            raise ParameterError(
                "weights", f"{len(shares)} numbers", f"{len(places)}, as distances"
            )
        total = math.fsum(shares)
        if min(shares) < 0 or not validation.LEAST <= total <= validation.MOST:
            raise ParameterError("weights", weights, "numbers >= 0, not all 0")
        order = np.argsort(places, kind="stable")
        object.__setattr__(self, "distances", tuple(np.asarray(places)[order].tolist()))
        object.__setattr__(self, "weights", tuple((np.asarray(shares)[order] / total).tolist()))

    @classmethod
    def uniform(cls, low: float, high: float) -> DistancePrior:
        """Return the uniform prior on [low, high], as the middles of 512 equal parts.

        Raises:
            ParameterError: if the ends are not finite or not in order.
        """
        start, end = validation.real("low", low), validation.real("high", high)
        if not end > start:
            raise ParameterError("high", high, f"greater than low={start:g}")
        return cls((start + (np.arange(_UNIFORM) + 0.5) * ((end - start) / _UNIFORM)).tolist())

    @classmethod
    def of_points(
        cls, query: Query, points: ArrayLike, weights: Iterable[float] | None = None
    ) -> DistancePrior:
        """Return the prior of public or synthetic points, (n,) or (n, k), for a query.

        Args:
            query: the query whose distance s(x) is meant.
            points: public: never the people who are to report.
            weights: one per point; equal by default.
        """
        checked = validation.points(points, query.dimension)
        return cls(np.ravel(query.signed_distance(checked, FLOAT)).tolist(), weights)


def is_even(profile: Profile) -> bool:
    """Return whether φ(−s) = φ(s), so that |s| will do for a distance."""
    mesh = _mesh(profile)
    s = distinct(np.abs(mesh))
    return bool((profile.value(s, FLOAT) == profile.value(-s, FLOAT)).all())


def variation(profile: Profile, settled: float = SETTLED) -> tuple[float, float]:
    """Return the interval outside which φ is settled at its limits; from 0 on if φ is even.

    Args:
        profile: φ.
        settled: how close to a limit counts as settled, relative to the range of φ.

    Raises:
        UnsupportedError: if φ is constant.
    """
    mesh = _mesh(profile)
    value = np.asarray(profile.value(mesh, FLOAT))
    span = float(value.max() - value.min())
    low, high = (mesh[np.abs(value - limit) > settled * span] for limit in profile.limits)
    if not span or not low.size or not high.size:
        raise UnsupportedError(f"{profile!r} does not vary: there is nothing to ask")
    start, end = float(low[0]), float(high[-1])
    margin = _MARGIN * (end - start)
    before = [b for a, b, _ in profile.plateaus if a == -math.inf]
    after = [a for a, b, _ in profile.plateaus if b == math.inf]
    start, end = max([start - margin, *before]), min([end + margin, *after])
    return (0.0, end) if is_even(profile) else (start, end)


def default_prior(profile: Profile) -> DistancePrior:
    """Return the uniform prior over the region of variation."""
    return DistancePrior.uniform(*variation(profile))


def _mesh(profile: Profile) -> Array:
    breakpoints = profile.breakpoints
    spread = np.linspace(breakpoints[0], breakpoints[-1], _MESH + 1)
    # A profile may be much narrower than the interval between its breakpoints.
    near = profile.length_scale * np.linspace(-8.0, 8.0, _MESH + 1)
    inside = near[(near >= breakpoints[0]) & (near <= breakpoints[-1])]
    return distinct(np.concatenate([spread, inside, breakpoints]))
