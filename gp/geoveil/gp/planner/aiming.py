"""Which soft queries may stand in for a hard question, and where their bands are put [MATH §8].

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
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.indicator import STEPS

Array = NDArray[np.float64]

WIDTHS = tuple(2.0 ** (k / 2) for k in range(-3, 14))
"""Widths of bands that are tried first, in noise scales 1/ε: from 0.35 to 91."""
PROFILES = tuple(STEPS)
_HALVINGS = 36
_CORRECTIONS = 8
_EXACT = 1e-6


def stand_ins(
    question: HardQuestion, scale: float, points: Array, weights: Array
) -> list[tuple[float, str, Query]]:
    """Return (width, step, query) for all widths and profiles that the region has room for.

    Args:
        question: what is wanted.
        scale: 1/ε, in the unit of the points.
        points: nodes of the prior.
        weights: of the nodes.
    """
    found: list[tuple[float, str, Query]] = []
    for factor in WIDTHS:
        for step in PROFILES:
            query = aimed(question, factor * scale, step, points, weights)
            if query is not None:
                found.append((factor * scale, step, query))
    return found


def aimed(
    question: HardQuestion, width: float, step: str, points: Array, weights: Array
) -> Query | None:
    """Return the soft query of this width whose share of the prior is the hard one, if there is.

    Where the boundary would have to be moved by more than the width, it stays at that; a region
    without room for the band has none.
    """
    inwards: tuple[float, ...]
    if isinstance(question, HardRange):
        inwards = _ends(question, width, step, points, weights)
    else:
        inwards = (_moved(question, width, step, points, weights),)
    try:
        return question.soft(width, step, inwards)
    except ParameterError:
        return None


def _ends(
    question: HardRange, width: float, step: str, points: Array, weights: Array
) -> tuple[float, float]:
    """Aim both ends of a range by themselves: each is a threshold."""
    low = _moved(HardThreshold(question.low), width, step, points, weights)
    high = _moved(HardThreshold(question.high), width, step, points, weights)
    return (low, -high)


def _moved(question: HardQuestion, width: float, step: str, points: Array, weights: Array) -> float:
    """Return how far inwards the boundary is to be moved: the soft share falls with that.

    To move the boundary by d lowers the signed distance by d, next to corners only about so; what
    that misses is measured and added to the share aimed at.
    """
    try:
        query = question.soft(width, step, (0.0,))
    except ParameterError:
        return 0.0
    middle = np.asarray(query.scalar(points))
    near = np.abs(middle) <= 2 * width  # beyond, nothing changes
    if not near.any():
        return 0.0
    s, x, w, profile = middle[near], points[near], weights[near], query.profile
    target = wanted = float(np.sum(w * question.truth(x)))
    inwards = 0.0
    for _ in range(_CORRECTIONS):
        inwards = _root(lambda moved: np.sum(w * profile.value(s - moved)), target, width)
        try:
            share = float(np.sum(w * question.soft(width, step, (inwards,)).value(x)))
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
