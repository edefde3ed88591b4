"""Place the bands of soft queries that approximate a hard question [MATH §8].

For each width and profile the boundary moves until the prior's soft share equals its hard share.
Under the prior, errors on either side of it then cancel: with heaped values the band lies just
above the heap.
"""

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner.question import HardQuestion, HardRange, HardThreshold
from geoveil.gp import PROFILES, ParameterError, Profile, SoftIndicator

Array = NDArray[np.float64]

_HALVINGS = 36
_CORRECTIONS = 8
_CELLS = 64
"""Cells per width, in which points of the plane are joined while a boundary moves."""
_LITTLE = 3e-6
"""The share of all people by which the soft share may miss the hard one."""


def aimed(
    question: HardQuestion,
    width: float,
    profile: str,
    points: Array,
    weights: Array,
    signed: Array | None = None,
    truth: Array | None = None,
) -> SoftIndicator | None:
    """Return the soft query of this width with the prior's hard share, if there is one.

    A boundary never moves by more than the width; a region without room for the band has no such
    query.

    Args:
        question: the hard question.
        width: of the band, in the unit of the points.
        profile: "linear" or "smoothstep".
        points: nodes of the prior.
        weights: of the nodes.
        signed: `question.signed(points)`, if it is known.
        truth: `question.truth(points)`, if it is known.
    """
    truth = question.truth(points) if truth is None else truth
    inwards: tuple[float, ...]
    if isinstance(question, HardRange):
        inwards = _ends(question, width, profile, points, weights)
    else:
        signed = question.signed(points) if signed is None else signed
        inwards = (_corrected(question, width, profile, points, weights, signed, truth),)
    try:
        return question.soft(width, profile, inwards)
    except ParameterError:
        return None


def moved(signed: Array, truth: Array, weights: Array, width: float, profile: str) -> float:
    """Return how far inwards to move a boundary if the move lowers all distances equally.

    Args:
        signed: distances to the boundary, > 0 inside.
        truth: the contribution of each to the hard share.
        weights: of the distances.
        width: of the band, in their unit.
        profile: "linear" or "smoothstep".
    """
    near = np.abs(signed) <= 2 * width  # beyond, nothing changes
    if not near.any():
        return 0.0
    s, w, shape = signed[near], weights[near], PROFILES[profile](width)
    target = float(np.sum(w * truth[near]))
    return _shift(s, w, shape, target, width)


def _ends(
    question: HardRange, width: float, profile: str, points: Array, weights: Array
) -> tuple[float, float]:
    """Aim both ends of a range separately, as thresholds."""
    low, high = (
        moved(points - at, HardThreshold(at).truth(points), weights, width, profile)
        for at in (question.low, question.high)
    )
    return (low, -high)


def _corrected(
    question: HardQuestion,
    width: float,
    profile: str,
    points: Array,
    weights: Array,
    signed: Array,
    truth: Array,
) -> float:
    """Return how far inwards to move the boundary; the soft share falls with the move.

    Moving the boundary by d lowers the distance by d, but only roughly near corners. So the share
    is measured with the moved boundary, and the secant method finds the root within a bracket.
    """
    near = np.abs(signed) <= 2 * width
    if not near.any():
        return 0.0
    s, x, w, shape = signed[near], points[near], weights[near], PROFILES[profile](width)
    target = float(np.sum(w * truth[near]))
    inwards = _shift(s, w, shape, target, width)
    if question.shifts:
        return inwards
    before, excess = 0.0, float(np.sum(w * shape.value(s))) - target
    # A corner moves at most twice as far as its sides, and half the width is the band.
    changed = np.abs(s) <= width + 2 * abs(inwards)
    target -= float(np.sum(w[~changed] * shape.value(s[~changed])))
    x, w = _joined(x[changed], w[changed], width / _CELLS)
    low, high = -width, width
    for _ in range(_CORRECTIONS):
        try:
            s = np.asarray(question.soft(width, profile, (inwards,)).signed_distance(x))
        except ParameterError:
            break  # no room left
        previous, excess = excess, float(np.sum(w * shape.value(s))) - target
        if abs(excess) <= _LITTLE or excess == previous:
            break
        low, high = (inwards, high) if excess > 0 else (low, inwards)
        secant = inwards - excess * (inwards - before) / (excess - previous)
        before, inwards = inwards, secant if low < secant < high else (low + high) / 2
    return inwards


def _joined(points: Array, weights: Array, cell: float) -> tuple[Array, Array]:
    """Join the points of each square of a lattice at their mean: shares change to second order."""
    at = np.floor(points / cell).astype(np.int64)
    at -= at.min(axis=0)
    _, index = np.unique(at[:, 0] * (at[:, 1].max() + 1) + at[:, 1], return_inverse=True)
    mass = np.asarray(np.bincount(index, weights), np.float64)
    used = mass > 0
    sums = [np.bincount(index, weights * axis)[used] for axis in points.T]
    return np.stack(sums, axis=1) / mass[used, None], mass[used]


def _shift(s: Array, weights: Array, shape: Profile, target: float, width: float) -> float:
    """Return the decrease of distances, at most a width, at which the soft share is the target."""
    low, high = -width, width
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = np.sum(weights * shape.value(s - middle)) > target
        low, high = (middle, high) if above else (low, middle)
    return high
