"""The points at which an audit draws reports: near a row's points, along its path, and far away."""

import math
from bisect import bisect

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.case import Case

Array = NDArray[np.float64]

_ASIDE = 0.02
"""Largest distance, in `per`, of a point from that of the row."""
_ALONG, _MANY = (12, 32, 64), (10_000, 50_000)
"""Numbers of points along the path, and the least releases for the second and the third number."""
_IN_A_PLANE = 3
"""Factor by which a plane has more points."""
_GOLDEN = math.pi * (3 - math.sqrt(5))
"""The angle between directions, of which many cover the circle evenly."""


def points_beside(case: Case, ends: Array, rng: np.random.Generator) -> Array:
    """Return a row's points, moved a little, the ends of its path and two far points."""
    ends = ends + case.per * _ASIDE * rng.uniform(-1, 1, ends.shape)
    far = case.path[[0, -1]] + 3 * (case.path[[0, -1]] - case.path.mean(axis=0))
    return np.concatenate([ends, case.path[[0, -1]], far])


def points_along(case: Case, rng: np.random.Generator, releases: int) -> Array:
    """Return points along the whole path of a row; more releases permit more points.

    Of three, the second is moved to an odd number and the third to a multiple of a power of 2.
    """
    path = case.path
    count = _ALONG[bisect(_MANY, releases)] * (_IN_A_PLANE if _planar(path) else 1)
    step = (np.arange(count) + rng.random(count)) * (len(path) - 1) / count
    before = np.minimum(step.astype(np.intp), len(path) - 2)
    share = (step - before).reshape(-1, *(1,) * (path.ndim - 1))
    points = np.asarray(path[before] + share * (path[before + 1] - path[before]))
    points[1::3] = 2 * np.floor(points[1::3] / 2) + 1
    dyadic = 2.0 ** math.floor(math.log2(case.per / 8))
    points[2::3] = dyadic * np.rint(points[2::3] / dyadic)
    return points


def points_afar(case: Case, releases: int) -> Array:
    """Return 0, and points up to 10⁶ `per` beyond the path of a row: in a plane, all around it."""
    path, count = case.path, max(_ALONG[bisect(_MANY, releases)] // 5, 12)
    ahead = (path[-1] - path[0]) / np.linalg.norm(path[-1] - path[0])
    if _planar(path):
        angle = _GOLDEN * np.arange(count)
        ahead = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    # Half of them where decaying noise has not vanished.
    steps = np.append(
        np.geomspace(3.0, 60.0, count - count // 2), np.geomspace(150.0, 1e6, count // 2)
    )
    far = case.per * steps.reshape(-1, *(1,) * (path.ndim - 1)) * ahead
    return np.concatenate([0 * path[:1], path[0] - far, path[-1] + far])


def _planar(path: Array) -> bool:
    return path.ndim == 2 and path.shape[1] == 2
