"""Where on the line a question varies: searched for with what the question says, and found.

A question says how far a point is, at least, from the places where it varies (`clearance`). So an
interval shorter than that, about the point, is done with at once, and what is left is halved. No
name of a field is looked at, and no place is missed, however narrow.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner.prior import Prior
from geoveil.analyst.planner.question import HardQuestion, Question

Array = NDArray[np.float64]

_FINE, _FARTHER = 1 / 8, 1 / 16
"""Length of the shortest cells of a mesh, in the shortest length over which reports vary, and of
those farther away, in their distance from where the question varies."""
_MOST = 20_000
"""Cells of a mesh that are worth while."""
_LEAST = 2.0**-80
"""Length to which a jump is located, relative to the interval."""


def nodes_near(questions: Sequence[Question], prior: Prior, near: float) -> tuple[Array, Array]:
    """Return points and weights of a prior, dense where one of the questions varies.

    Args:
        questions: of the prior's dimension.
        prior: one that is no density on the line has the nodes that it has.
        near: the shortest length over which reports vary.
    """
    if prior.dimension > 1 or not prior.continuous:
        return prior.nodes()

    def clearance(points: Array) -> Array:
        return np.asarray(np.min([q.clearance(points) for q in questions], axis=0))

    breaks = [mesh(clearance, _around(prior), near)]
    breaks += [jumps(q, prior) for q in questions if isinstance(q, HardQuestion)]
    return prior.nodes(np.unique(np.concatenate(breaks)).tolist())


def mesh(clearance: Callable[[Array], Array], interval: tuple[float, float], near: float) -> Array:
    """Return increasing edges of cells, short where something varies and longer farther away.

    Args:
        clearance: see `Question.clearance`; vectorised.
        interval: ends of the first cell.
        near: the shortest length over which reports vary.
    """
    edges, low, high = [np.array(interval)], *(np.array([end]) for end in interval)
    while len(low) and sum(map(len, edges)) < _MOST:
        middle, length = (low + high) / 2, high - low
        away = clearance(middle) - length / 2  # of all points of the cell
        cut = length > np.maximum(_FINE * near, _FARTHER * away)
        edges.append(middle[cut])
        low, high = np.append(low[cut], middle[cut]), np.append(middle[cut], high[cut])
    return np.sort(np.concatenate(edges))


def jumps(question: HardQuestion, prior: Prior) -> Array:
    """Return where the truth of a hard question jumps within reach of a prior on the line."""
    start, end = _around(prior)
    edges = np.array([[start], [end]])
    while edges.shape[1] < _MOST:
        low, high = edges
        middle, length = (low + high) / 2, high - low
        # A boundary within the cell is no farther from the middle than half of it.
        kept = question.clearance(middle) <= length
        low, high, middle, length = low[kept], high[kept], middle[kept], length[kept]
        if not ((low < middle) & (middle < high) & (length > _LEAST * (end - start))).any():
            edges = np.array([low, high])
            break
        edges = np.array([np.append(low, middle), np.append(middle, high)])
    low, high = edges
    return np.unique(low[question.truth(low) != question.truth(high)])


def _around(prior: Prior) -> tuple[float, float]:
    """Return an interval that holds all of a prior on the line, with room on either side."""
    points, _ = prior.nodes()
    low, high = float(points.min()), float(points.max())
    room = max(high - low, 1e-9 * max(abs(low), abs(high)), 1e-50)
    return low - room, high + room
