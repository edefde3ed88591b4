"""Tables of smooth functions of one variable: Chebyshev polynomials on panels that fit them.

A panel is halved until the polynomial agrees with the function, at points between its nodes, to the
tolerance; so the table states an error that was measured, not hoped for.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray

from geoveil.gp.errors import UnsupportedError

Array = NDArray[np.float64]

_DEGREE = 11
_NODES = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
_FIT = np.linalg.inv(chebyshev.chebvander(_NODES, _DEGREE))
# Where a polynomial through the nodes is farthest from what it interpolates: between them.
_CHECKS = np.concatenate([[-1.0, 1.0], np.cos(np.pi * np.arange(1, _DEGREE + 1) / (_DEGREE + 1))])
_AT_CHECKS = chebyshev.chebvander(_CHECKS, _DEGREE)
_MOST_PANELS = 4096
_BLOCK = 1 << 16


class Table:
    """A function on [edges[0], edges[-1]], to a stated error.

    Args:
        function: vectorised; smooth between the given edges.
        edges: increasing; the panels are subdivisions of theirs.
        tolerance: largest absolute error wanted.

    Raises:
        UnsupportedError: if 4096 panels do not suffice.
    """

    error: float
    """Largest deviation found at the check points, between the nodes of all panels."""

    def __init__(
        self, function: Callable[[Array], Array], edges: Sequence[float], tolerance: float
    ) -> None:
        pending = [(low, high) for low, high in pairwise(edges) if high > low]
        panels: list[tuple[float, float, Array]] = []
        self.error = 0.0
        while pending:
            if len(panels) + len(pending) > _MOST_PANELS:
                raise UnsupportedError(
                    "the moments vary over too many scales to be tabulated: bring the bandwidth or"
                    " width closer to per/epsilon"
                )
            low, high = np.asarray(pending).T[..., None]
            middle, half = (low + high) / 2, (high - low) / 2
            points = middle + half * np.concatenate([_NODES, _CHECKS])
            values = function(points.ravel()).reshape(points.shape)
            coefficients = values[:, : _DEGREE + 1] @ _FIT.T
            deviation = np.abs(coefficients @ _AT_CHECKS.T - values[:, _DEGREE + 1 :]).max(axis=1)
            # Closer than this its points are one double.
            settled = (deviation <= tolerance) | (half[:, 0] <= 1e-13 * np.abs(middle[:, 0]))
            halves: list[tuple[float, float]] = []
            for index, (start, end) in enumerate(pending):
                if settled[index]:
                    panels.append((start, end, coefficients[index]))
                    self.error = max(self.error, float(deviation[index]))
                else:
                    halves += [(start, (start + end) / 2), ((start + end) / 2, end)]
            pending = halves
        panels.sort(key=lambda panel: panel[0])
        self.edges = np.array([panel[0] for panel in panels] + [panels[-1][1]])
        self._coefficients = np.array([panel[2] for panel in panels])

    def __call__(self, x: ArrayLike) -> Array:
        """Return the function at x, which is first moved into the range of the table."""
        x = np.asarray(x, dtype=np.float64)
        flat, result = x.ravel(), np.empty(x.size)
        for start in range(0, flat.size, _BLOCK):
            block = np.clip(flat[start : start + _BLOCK], self.edges[0], self.edges[-1])
            index = np.searchsorted(self.edges, block, side="right") - 1
            index = np.minimum(index, len(self.edges) - 2)
            low, high = self.edges[index], self.edges[index + 1]
            t = (2 * block - low - high) / (high - low)
            # One column of coefficients per degree, as chebval sums over the first axis.
            result[start : start + _BLOCK] = chebyshev.chebval(
                t, self._coefficients[index].T, tensor=False
            )
        return result.reshape(x.shape)
