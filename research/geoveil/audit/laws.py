"""The laws of the integers that `release` returns, in the form that tests need.

Independent parts of a report are compared, each with a closed law: a number, or a radius or angle
of noise in the plane.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import (
    FLOAT,
    AdditiveMechanism,
    DebiasedLaplace,
    Laplace,
    Noise,
    PlanarLaplace,
    QueryMechanism,
    RandomizedResponse,
    VectorSmoothMechanism,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Placed:
    """The places of n reports of c parts in their stated law."""

    below: Array
    """Probability of less than each part, (n, c), exact in relative terms in the lower tail."""
    above: Array
    """Probability of more, in the upper tail."""
    once: Array
    """Probability of exactly this report, (n,)."""
    rare: Array
    """An upper bound of the probability of reports as improbable as this one, (n,)."""

    def of(self, reports: slice) -> Placed:
        """Return the places of several reports."""
        every = (self.below, self.above, self.once, self.rare)
        return Placed(*(numbers[reports] for numbers in every))

    @property
    def equal(self) -> Array:
        """Probability of each part itself, (n, c); 0 if too small for a difference."""
        return np.maximum(1 - self.below - self.above, 0.0)


def placed(mechanism: Any, x: Array, reports: Integers) -> Placed | None:
    """Return the places in their law of integers (n,) or (n, m) released for one point.

    None if it is not one of geoveil's mechanisms with a known law.
    """
    if isinstance(mechanism, PlanarLaplace):
        return _around(mechanism, x, reports)
    if hasattr(mechanism, "placed"):
        return Placed(*mechanism.placed(x, reports))
    if isinstance(mechanism, VectorSmoothMechanism):
        distances = mechanism._distances(x)
        values = mechanism._value(distances)
        scale = np.broadcast_to(mechanism._scale(distances), values.shape)
        parts = [
            _additive(mechanism.noise, value, size, reports[:, j], mechanism.step)
            for j, (value, size) in enumerate(zip(values, scale, strict=True))
        ]
        return together(parts)
    if not isinstance(mechanism, QueryMechanism):
        return None
    s = np.asarray(mechanism.query.signed_distance(x, FLOAT))
    if isinstance(mechanism, AdditiveMechanism):
        value = np.asarray(mechanism.query.profile.value(s, FLOAT))
        scale = np.asarray(mechanism._scale(s, FLOAT), dtype=np.float64)
        return _additive(mechanism.noise, value, scale, reports, mechanism.step)
    if isinstance(mechanism, RandomizedResponse):
        return _of_two(mechanism, s, reports)
    return _undone(mechanism, s, reports) if isinstance(mechanism, DebiasedLaplace) else None


def variance_of(mechanism: Any, kind: Any, s: Array) -> Array:
    """Return the variance of one of geoveil's kinds of mechanism; of added noise, by its tail."""
    if not isinstance(mechanism, AdditiveMechanism):
        return np.asarray(kind._variance(mechanism, s))
    moment = _second_moment(mechanism.noise)
    if moment == math.inf:
        return np.full(s.shape, math.inf)
    return np.asarray(np.square(mechanism._scale(s, FLOAT)) * moment)


def _second_moment(noise: Noise) -> float:
    """Return E Z² = ∫ 4u²·P(Z > u) d log u, by trapezoids, with a power of u for the far tail."""
    if noise.tail_exponent <= 2:
        return math.inf
    u, step = np.geomspace(1e-9, 1e9, 2001), math.log(1e18) / 2000
    area = 4 * u * u * noise.survival(u)
    end = float(area[-1])
    return step * (float(area.sum()) - end / 2) + end / (noise.tail_exponent - 2)


def _additive(noise: Noise, value: Any, scale: Any, reports: Integers, step: float) -> Placed:
    """Place rounded f + scale·Z by both ends of a cell, each computed from its own tail."""
    # Steps are counted from the grid's number nearest to f: half a step is lost beside large ones.
    nearest = round(float(value) / step)
    rest = float(value) - nearest * step
    k = (reports - nearest).astype(np.float64)
    width = max(float(scale), 1e-300)
    low, high = (((k + side) * step - rest) / width for side in (-0.5, 0.5))
    tails = [np.asarray(noise.survival(np.abs(end))) for end in (low, high)]
    below = np.where(low < 0, tails[0], 1 - tails[0])
    above = np.where(high > 0, tails[1], 1 - tails[1])
    apart = (low > 0) | (high < 0)
    once = np.where(apart, np.abs(tails[0] - tails[1]), 1 - tails[0] - tails[1])
    # The noise falls off on both sides of f.
    rare = np.where(apart, 2 * np.maximum(tails[0], tails[1]), 1.0)
    return Placed(below[:, None], above[:, None], once, rare)


def together(parts: list[Placed]) -> Placed:
    """Return the places of reports in their law, given those of their independent parts."""
    return Placed(
        np.concatenate([part.below for part in parts], axis=1),
        np.concatenate([part.above for part in parts], axis=1),
        np.prod([part.once for part in parts], axis=0),
        np.minimum(1.0, len(parts) * np.min([part.rare for part in parts], axis=0)),
    )


def _around(mechanism: PlanarLaplace, x: Array, reports: Integers) -> Placed | None:
    """Place points: directly on a line, by radius and angle in the plane.

    A step is 2^-20 of the noise: rounding shows only in reports seen once.
    """
    noise, step, rate = Laplace(1 / mechanism.privacy.rate), mechanism.step, mechanism.privacy.rate
    if mechanism.dimension == 1:
        return _additive(noise, np.ravel(x)[0], 1.0, reports[:, 0], step)
    if mechanism.dimension != 2:
        return None
    moved = reports * step - x
    radius = rate * np.hypot(*moved.T)
    turn = np.mod(np.arctan2(moved[:, 1], moved[:, 0]) / (2 * math.pi), 1.0)
    beyond = (1 + radius) * np.exp(-radius)
    within = np.where(radius < 1e-3, radius**2 / 2, 1 - beyond)
    once = (rate * step) ** 2 / (2 * math.pi) * np.exp(-radius)
    return Placed(
        np.stack([within, turn], axis=1), np.stack([beyond, 1 - turn], axis=1), once, beyond
    )


def _of_two(mechanism: RandomizedResponse, s: Array, reports: Integers) -> Placed:
    share_low, share_high = (float(share) for share in mechanism._shares(s))
    low, high = mechanism.grid_range
    below = np.select([reports <= low, reports <= high], [0.0, share_low], 1.0)
    above = np.select([reports >= high, reports >= low], [0.0, share_high], 1.0)
    once = np.select([reports == low, reports == high], [share_low, share_high], 0.0)
    return Placed(below[:, None], above[:, None], once, once)


def _undone(mechanism: DebiasedLaplace, s: Array, reports: Integers) -> Placed:
    """Place rounded g(s + noise): cut where g crosses an end of a cell, jumps or is flat."""
    profile, step = mechanism.query.profile, mechanism.step
    distinct, back = np.unique(reports, return_inverse=True)
    ends = np.asarray(
        (distinct[:, None] + np.array([-0.5, 0.5])) * step, dtype=np.float64
    )  # (d, 2)
    crossings = profile.debiased_preimages(ends.ravel(), float(mechanism._undo))[0].T  # (2d, m)
    fixed = {*profile.breakpoints, *(e for p in profile.plateaus for e in p[:2])}
    knots = np.array(sorted(k for k in fixed if math.isfinite(k)))
    cuts = np.concatenate([crossings, np.broadcast_to(knots, (len(crossings), len(knots)))], axis=1)
    cuts = cuts.reshape(len(distinct), -1)  # those of both ends
    first, last = np.nanmin(cuts, axis=1), np.nanmax(cuts, axis=1)
    cuts = np.sort(np.where(np.isnan(cuts), last[:, None], cuts), axis=1)
    inside = (cuts[:, 1:] + cuts[:, :-1]) / 2
    away = profile.length_scale + mechanism.scale
    middles = np.concatenate([first[:, None] - away, inside, last[:, None] + away], axis=1)
    taken = mechanism._g(middles)
    infinite = np.full((len(distinct), 1), math.inf)
    edges = (np.concatenate([-infinite, cuts, infinite], axis=1) - float(s)) / mechanism.scale
    tails = np.exp(-np.abs(edges)) / 2
    left, right = edges[:, :-1], edges[:, 1:]
    mass = np.where(
        right <= 0,
        tails[:, 1:] - tails[:, :-1],
        np.where(left >= 0, tails[:, :-1] - tails[:, 1:], 1 - tails[:, :-1] - tails[:, 1:]),
    )
    below = (mass * (taken < ends[:, :1])).sum(axis=1)[back]
    above = (mass * (taken >= ends[:, 1:])).sum(axis=1)[back]
    once = (mass * ((taken >= ends[:, :1]) & (taken < ends[:, 1:]))).sum(axis=1)[back]
    # All integers in the range that are less probable have at most this much together.
    low, high = mechanism.grid_range
    return Placed(below[:, None], above[:, None], once, np.minimum(1.0, once * (high - low + 1)))
