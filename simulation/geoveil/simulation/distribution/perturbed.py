"""A distribution under geo-privacy: everybody's number plus Laplace noise, which is undone.

For experiments: drawn in floating point, which is NOT private on a computer [MATH §10].
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import GeoPrivacy, PlanarLaplace
from geoveil.gp.expectation_maximisation import expectation_maximisation
from geoveil.gp.queries.profiles import FourthOrderStep
from geoveil.simulation.distribution.cells import Cells, moved

Array = NDArray[np.float64]

WIDTHS = (3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
"""Widths of the band between which a threshold chooses, in noise scales."""
_FINE, _MOST_NODES = 16, 64
"""Nodes in a noise scale, at least, on which reports are put for the convolution; and in a cell, at
most, where cells are so much wider than the noise that nothing is left to be undone."""
_MARGIN = 8.0
"""Noise scales beyond both ends for which expectation-maximisation has cells."""
_FINEST = 4
"""Cells of expectation-maximisation in a noise scale, at most."""


@dataclass(frozen=True, slots=True)
class PerturbedNumbers:
    """Reports x + Laplace(1/ε), and the distribution of x from them, twice.

    Args:
        privacy: the guarantee, in the unit of the numbers.
        cells: where the distribution is wanted; numbers may lie outside.
    """

    privacy: GeoPrivacy
    cells: Cells

    @property
    def scale(self) -> float:
        """The noise scale b."""
        return 1 / self.privacy.rate

    def simulate(self, values: Array, rng: np.random.Generator) -> Array:
        """Return one report for each number."""
        return PlanarLaplace(self.privacy, 1).simulate(values, rng)

    def debiased(self, reports: Array, pilot: Array) -> Array:
        """Return the share below each edge of the cells, by soft thresholds without noise's bias.

        Each threshold asks a step of order 4 [MATH §2.1], at the width whose mean squared error
        against the hard one is estimated to be least: the variance from the reports, the bias from
        the pilot.

        Args:
            reports: (n,).
            pilot: share below each edge, (count + 1,), as `smoothed` returns.
        """
        found = [self._soft(reports, pilot, width * self.scale) for width in WIDTHS]
        errors = np.array([error for _, error in found])
        below = np.array([share for share, _ in found])
        return np.asarray(np.take_along_axis(below, errors.argmin(axis=0)[None], axis=0)[0])

    def _soft(self, reports: Array, pilot: Array, width: float) -> tuple[Array, Array]:
        """Return the share below each edge by steps of one width, and its estimated error."""
        cells, step, n = self.cells, FourthOrderStep(width), len(reports)
        nodes = int(np.ceil(min(_FINE * cells.width / self.scale, _MOST_NODES)))  # per cell
        spacing = cells.width / nodes
        beyond = int(np.ceil(width / 2 / spacing)) + 1  # where steps are 0 and 1
        offsets = spacing * np.arange(-beyond, beyond + 1)
        counts = _spread(reports, cells, spacing, beyond)
        debiased = step.debiased(offsets, self.scale)
        first, second = (_correlated(counts, g) / n for g in (debiased, debiased**2))
        mass = np.diff(pilot, prepend=0.0, append=1.0)  # below, in each cell, above
        middles = cells.edges[:-1] + cells.width / 2
        at = np.concatenate([[-np.inf], middles, [np.inf]])
        soft = _correlated(_spread(at, cells, spacing, beyond, mass), step.value(offsets))
        share, square, expected = (found[::nodes] for found in (first, second, soft))
        variance = np.maximum(square - share**2, 0.0) / n
        return 1 - share, variance + (expected - (1 - pilot)) ** 2

    def smoothed(self, reports: Array) -> Array:
        """Return the share below each edge of the cells, by EMS [LWLSS20]: smooth, and biased."""
        cells, b = self.cells, self.scale
        margin = int(np.ceil(_MARGIN * b / cells.width))
        width = cells.width * max(1, int(b / _FINEST / cells.width))
        low = cells.low - margin * cells.width
        count = int(np.ceil((cells.high + margin * cells.width - low) / width))
        wide = Cells(low, low + count * width, count)
        law = np.zeros((count + 2, count + 2))  # below, the cells, above; people as reports
        law[1:-1, 1:-1] = moved(self._twice_integrated, wide.edges, wide.edges)
        law[0, 1:-1] = -np.diff(self._twice_integrated(wide.low - wide.edges)) / width
        law[-1, 1:-1] = np.maximum(1 - law[:-1, 1:-1].sum(axis=0), 0.0)
        law[0, 0] = law[-1, -1] = 1.0
        inside = (reports >= wide.low) & (reports < wide.high)
        counts = np.zeros(count + 2)
        counts[0], counts[-1] = (reports < wide.low).sum(), (reports >= wide.high).sum()
        counts[1:-1] = wide.counts(reports[inside])
        below = np.cumsum(expectation_maximisation(law, counts))[:-1]
        return np.interp(cells.edges, wide.edges, below)

    def _twice_integrated(self, z: Array) -> Array:
        """Return A with A'' the density of the noise: max(z, 0) + (b/2)e^{−|z|/b}."""
        return np.maximum(z, 0.0) + self.scale / 2 * np.exp(-np.abs(z) / self.scale)


def _spread(
    points: Array, cells: Cells, spacing: float, beyond: int, weights: Array | None = None
) -> Array:
    """Return the weight at each node, every point shared by the two next to it."""
    count = cells.count * round(cells.width / spacing) + 2 * beyond
    place = np.clip((points - cells.low) / spacing + beyond, 0.0, count)
    left = np.minimum(place.astype(np.int64), count - 1)
    right = place - left
    own = np.ones(len(points)) if weights is None else weights
    nodes: Array = np.bincount(left, own * (1 - right), count + 1).astype(np.float64)
    nodes[1:] += np.bincount(left, own * right, count)
    return nodes


def _correlated(counts: Array, steps: Array) -> Array:
    """Return Σⱼ counts[i + j]·steps[j]; what lies beyond the last step has its last value."""
    from scipy.signal import fftconvolve

    part = fftconvolve(counts, steps[::-1], mode="valid")
    above = np.append(np.cumsum(counts[::-1])[::-1], 0.0)[len(steps) :]
    return np.asarray(part + steps[-1] * above[: len(part)])
