"""Cells for a slope that is known as a number, not as a formula: chords of a finite or no end.

The slope rises to one peak and falls again, so on a cell that has the peak at an end, if at all, it
is at most the larger of its values at the two ends.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LEAST = 1e-300
"""Stands for all smaller slopes, relative to the largest. They must not count as 0."""
_ROUND_UP = 1 + 1e-12
"""Above the rounding of a slope in float64."""
_FARTHEST = 1e95
"""Farther than any point of a campaign."""


def tabulate(
    slope: Callable[[Array], Array],
    breakpoints: tuple[float, ...],
    scale: float,
    *,
    tightness: float,
    negligible: float,
) -> tuple[Array, Array]:
    """Return edges (m + 1,) from 0 outwards and upper bounds of the slope between them, (m,).

    Args:
        slope: L ≥ 0, vectorised over z ≥ 0.
        breakpoints: points ≥ 0 where L changes its behaviour, its peak among them.
        scale: length over which L varies at the breakpoints.
        tightness: > 1; a cell is cut until the slope at one end is at most this times the other.
        negligible: slopes below this fraction of the largest need no such care.
    """
    offsets = scale * np.concatenate([np.geomspace(1e-6, 16, 60), [0.0]])
    near = (np.asarray(breakpoints)[:, None] + np.concatenate([-offsets, offsets])).ravel()
    last = float(near.max())
    far = [last * 1.02 ** np.arange(1, 700), last * 1e6 * 2.0 ** np.arange(480)]
    edges = np.unique(np.concatenate([[0.0], near, *far]))
    edges = edges[(edges >= 0) & (edges <= _FARTHEST)]
    values = slope(edges)
    floor = _LEAST * float(values.max())
    for _ in range(12):
        values = np.maximum(values, floor)
        low, high = np.sort([values[:-1], values[1:]], axis=0)
        steep = (
            (high > tightness * low) & (high > negligible * values.max()) & (edges[1:] < 1e4 * last)
        )
        if not steep.any():
            break
        middle = (edges[:-1] + edges[1:])[steep] / 2
        order = np.argsort(np.concatenate([edges, middle]), kind="stable")
        edges = np.concatenate([edges, middle])[order]
        values = np.concatenate([values, slope(middle)])[order]
    values = np.maximum(values, floor) * _ROUND_UP
    return edges, np.maximum(values[:-1], values[1:])
