"""Tables: even functions of a distance r ≥ 0, evaluated once and interpolated many times."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_GHOSTS = 2
_BLOCK = 2**15
"""Points interpolated at a time: what stays in the cache."""


class Table:
    """A function of r on [0, reach], cubic between nodes that are equidistant in asinh(r/near).

    The nodes are dense where the function varies at the length `near` and sparse where it has
    become a power or an exponential. The interpolant is the cubic Hermite, slopes by the central
    difference of fourth order; its error is about Δ⁴/384 times the fourth derivative in asinh.

    Args:
        function: vectorised, even in r.
        near: length > 0 over which the function varies near 0.
        reach: last r > 0 of the table.
        step: distance of the nodes Δ in asinh(r/near).
    """

    def __init__(
        self, function: Callable[[Array], Array], near: float, reach: float, step: float
    ) -> None:
        self._near = near
        self._step = step
        self.reach = reach
        self._last = int(np.ceil(np.arcsinh(reach / near) / step))
        nodes = near * np.sinh(step * np.arange(self._last + 1 + _GHOSTS))
        right = function(nodes)
        value = np.concatenate([right[_GHOSTS:0:-1], right])  # even
        slope = (8 * (value[3:-1] - value[1:-3]) - (value[4:] - value[:-4])) / 12
        value = value[_GHOSTS:-_GHOSTS]
        rise = np.diff(value)
        self._coefficients = np.stack(
            [
                value[:-1],
                slope[:-1],
                3 * rise - 2 * slope[:-1] - slope[1:],
                slope[:-1] + slope[1:] - 2 * rise,
            ],
            axis=1,
        )

    def __call__(self, r: Array, beyond: float) -> Array:
        """Return the function at r ≥ 0, and `beyond` where r exceeds the reach."""
        flat = np.ravel(r)
        result = np.empty_like(flat)
        for start in range(0, flat.size, _BLOCK):
            at = flat[start : start + _BLOCK]
            t = np.arcsinh(at / self._near) / self._step
            cell = np.minimum(t, self._last - 1).astype(np.intp)
            t -= cell
            c = self._coefficients[cell]
            value = c[:, 0] + t * (c[:, 1] + t * (c[:, 2] + t * c[:, 3]))
            result[start : start + _BLOCK] = np.where(at > self.reach, beyond, value)
        return result.reshape(np.shape(r))
