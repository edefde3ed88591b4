"""All solutions of g(v) = y for a function known only by its values."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_BLOCK = 256


def preimages(
    function: Callable[[Array], Array], mesh: Array, y: Array, step: float
) -> tuple[Array, Array]:
    """Return where the function takes given values, and how fast it changes there.

    Args:
        function: vectorised; smooth but for jumps.
        mesh: increasing points, so close that of three neighbours the function turns at most
            once between them, and with a pair of close neighbours around every jump.
        y: values, any shape.
        step: for the differences that give the slope.

    Returns:
        Two arrays of shape (m, *y.shape); NaN where there are fewer than m solutions.
    """
    mesh = np.unique(np.concatenate([mesh, _turns(function, mesh)]))
    values = function(mesh)
    flat = np.asarray(y, dtype=np.float64).ravel()
    rows, cells = [], []
    for start in range(0, flat.size, _BLOCK):
        above = values > flat[start : start + _BLOCK, None]
        row, cell = np.nonzero(above[:, 1:] != above[:, :-1])
        rows.append(row + start)
        cells.append(cell)
    row, cell = np.concatenate(rows), np.concatenate(cells)
    low, high = mesh[cell], mesh[cell + 1]
    rising, target = values[cell + 1] > values[cell], flat[row]
    for _ in range(60):
        middle = (low + high) / 2
        short = (function(middle) < target) == rising
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    v = (low + high) / 2
    # Where the function jumps over y it does not take it.
    apart = np.abs(function(low) - target) + np.abs(function(high) - target)
    taken = apart < 1e-9 * np.ptp(values)
    row, v = row[taken], v[taken]
    slope = np.abs(function(v + step) - function(v - step)) / (2 * step)
    order = np.arange(len(row)) - np.searchsorted(row, row)  # rows are sorted
    count = int(order.max(initial=0)) + 1
    result = np.full((2, count, flat.size), np.nan)
    result[0, order, row], result[1, order, row] = v, slope
    return result[0].reshape(count, *np.shape(y)), result[1].reshape(count, *np.shape(y))


def _turns(function: Callable[[Array], Array], mesh: Array) -> Array:
    """Return where the function turns between the points of the mesh."""
    step = np.sign(np.diff(function(mesh)))
    at = np.flatnonzero(step[1:] * step[:-1] < 0)
    low, high, rising = mesh[at], mesh[at + 2], step[at]
    for _ in range(80):
        third = (high - low) / 3
        on = (function(low + third) - function(high - third)) * rising < 0
        low, high = np.where(on, low + third, low), np.where(on, high, high - third)
    return np.asarray((low + high) / 2)
