"""Where the bands of soft queries are put that stand in for a hard question [MATH §8].

For each width and profile the boundary is moved until the soft share of the prior is its hard one.
The misjudged then cancel, as far as the prior can tell: with heaped values the band comes to lie
just above the heap.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.errors import ParameterError
from geoveil.gp.planner.hard import HardRange, HardThreshold
from geoveil.gp.planner.question import HardQuestion
from geoveil.gp.queries.indicator import STEPS, SoftIndicator

Array = NDArray[np.float64]

_HALVINGS = 36
_CORRECTIONS = 8
_BEYOND = 0.75
"""Widths from the moved boundary to which distances are measured anew, half a width being the band;
corners move by a little more than the sides."""
_EXACT = 1e-5
"""Of the share, where to move the boundary is no shift of the distances."""


def aimed(
    question: HardQuestion,
    width: float,
    step: str,
    points: Array,
    weights: Array,
    signed: Array | None = None,
    truth: Array | None = None,
) -> SoftIndicator | None:
    """Return the soft query of this width whose share of the prior is the hard one, if there is.

    Where the boundary would have to be moved by more than the width, it stays at that; a region
    without room for the band has none.

    Args:
        question: what is wanted.
        width: of the band, in the unit of the points.
        step: "linear" or "smoothstep".
        points: nodes of the prior.
        weights: of the nodes.
        signed: `question.signed(points, width)`, if it is known.
        truth: `question.truth(points)`, if it is known.
    """
    truth = question.truth(points) if truth is None else truth
    inwards: tuple[float, ...]
    if isinstance(question, HardRange):
        inwards = _ends(question, width, step, points, weights)
    else:
        if signed is None:
            try:
                signed = question.signed(points, width)
            except ParameterError:
                return None
        inwards = (_corrected(question, width, step, points, weights, signed, truth),)
    try:
        return question.soft(width, step, inwards)
    except ParameterError:
        return None


def moved(signed: Array, truth: Array, weights: Array, width: float, step: str) -> float:
    """Return how far inwards a boundary is to be moved, if that lowers the signed distance so much.

    Args:
        signed: distances to the boundary, > 0 inside.
        truth: what each contributes to the hard share.
        weights: of the distances.
        width: of the band, in their unit.
        step: "linear" or "smoothstep".
    """
    near = np.abs(signed) <= 2 * width  # beyond, nothing changes
    if not near.any():
        return 0.0
    s, w, profile = signed[near], weights[near], STEPS[step](width)
    target = float(np.sum(w * truth[near]))
    return _root(lambda d: np.sum(w * profile.value(s - d)), target, width)


def _ends(
    question: HardRange, width: float, step: str, points: Array, weights: Array
) -> tuple[float, float]:
    """Aim both ends of a range by themselves: each is a threshold."""
    low, high = (
        moved(points - at, HardThreshold(at).truth(points), weights, width, step)
        for at in (question.low, question.high)
    )
    return (low, -high)


def _corrected(
    question: HardQuestion,
    width: float,
    step: str,
    points: Array,
    weights: Array,
    signed: Array,
    truth: Array,
) -> float:
    """Return how far inwards the boundary is to be moved: the soft share falls with that.

    To move the boundary by d lowers the signed distance by d, next to corners only about so; what
    that misses is measured and added to the share aimed at.
    """
    near = np.abs(signed) <= 2 * width
    if not near.any():
        return 0.0
    s, x, w, profile = signed[near], points[near], weights[near], STEPS[step](width)
    target = wanted = float(np.sum(w * truth[near]))
    inwards = 0.0
    for _ in range(_CORRECTIONS):
        inwards = _root(lambda d: np.sum(w * profile.value(s - d)), target, width)
        if question.shifts:
            break
        band = np.abs(s - inwards) <= _BEYOND * width  # outside of it a step is 0 or 1
        share = float(np.sum(w[~band] * (s[~band] > inwards)))
        try:
            soft = question.soft(width, step, (inwards,))
            share += float(np.sum(w[band] * soft.value(x[band])))
        except ParameterError:
            break  # no room left
        if abs(share - wanted) <= _EXACT:
            break
        target += wanted - share
    return inwards


def _root(share: Callable[[float], float], target: float, width: float) -> float:
    """Return where a falling function reaches a target, within a width of 0."""
    low, high = -width, width
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) > target else (low, middle)
    return high
