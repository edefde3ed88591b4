"""Estimate a distribution under geo-privacy from each person's number plus Laplace noise.

For experiments only: floating-point draws are NOT private [MATH §10].
"""

from dataclasses import dataclass

import numpy as np

from geoveil.analyst import Softness, expectation_maximisation
from geoveil.gp import GeoPrivacy, PlanarLaplace, Smoothstep, SoftStep
from geoveil.simulation.distribution.cells import Cells, moved
from geoveil.simulation.experiments.sums import at_nodes
from geoveil.simulation.populations import Array

_FINE, _MOST_NODES = 128, 64
"""The fewest nodes per noise scale and the most per cell for convolving reports."""
_AROUND = 8
"""The number of places around a node at which a debiased step is evaluated."""
_MARGIN = 8.0
"""Noise scales beyond each end that the cells of expectation-maximisation cover."""
_FINEST = 4
"""The most cells of expectation-maximisation per noise scale."""


@dataclass(frozen=True, slots=True)
class PerturbedNumbers:
    """Reports x + Laplace(1/ε), and two estimates of the distribution of x."""

    privacy: GeoPrivacy
    cells: Cells

    @property
    def scale(self) -> float:
        """The noise scale b."""
        return 1 / self.privacy.rate

    def simulate(self, values: Array, rng: np.random.Generator) -> Array:
        """Return one report for each number."""
        return PlanarLaplace(self.privacy, 1).simulate(values, rng)

    def debiased(self, reports: Array) -> Array:
        """Return the share below each edge by debiased smoothsteps, three noise scales wide."""
        return self._soft(reports, Smoothstep(Softness(self.scale).band()))[0]

    def _soft(self, reports: Array, step: SoftStep) -> tuple[Array, Array]:
        """Return the share below each edge by a debiased step, and its variance."""
        nodes, offsets = self._nodes(step)
        # A mean around the node, since at a jump a single value would represent one side only.
        around = self.cells.width / nodes * ((np.arange(_AROUND) + 0.5) / _AROUND - 0.5)
        g = step.debiased(offsets[:, None] + around, self.scale)
        each = np.full(len(reports), 1 / len(reports))
        share, square = (
            self._means(reports, each, nodes, values.mean(axis=1)) for values in (g, g**2)
        )
        return 1 - share, np.maximum(square - share**2, 0.0) / len(reports)

    def _nodes(self, step: SoftStep) -> tuple[int, Array]:
        """Return the number of nodes per cell, and the distances of nearby nodes from an edge."""
        cells = self.cells.width
        nodes = int(np.ceil(min(_FINE * cells / self.scale, _MOST_NODES)))
        beyond = int(np.ceil(step.width / 2 * nodes / cells)) + 1
        return nodes, np.arange(-beyond, beyond + 1, dtype=np.float64) * (cells / nodes)

    def _means(self, points: Array, weights: Array, nodes: int, steps: Array) -> Array:
        """Return the weighted sum of a step at each edge, given its values at the nodes."""
        from scipy.signal import fftconvolve

        beyond = len(steps) // 2
        count = self.cells.count * nodes + 2 * beyond
        places = (points - self.cells.low) * (nodes / self.cells.width) + beyond
        put = at_nodes(np.clip(places, 0.0, count), count + 1, weights)
        # Beyond its end a step keeps its last value.
        above = np.append(np.cumsum(put[::-1])[::-1], 0.0)[len(steps) :]
        part = fftconvolve(put, steps[::-1], mode="valid")
        return np.asarray(part + steps[-1] * above[: len(part)])[::nodes]

    def smoothed(self, reports: Array) -> Array:
        """Return the share below each edge of the cells by EMS [LWLSS20], smooth but biased."""
        cells, b = self.cells, self.scale
        margin = int(np.ceil(_MARGIN * b / cells.width))
        width = cells.width * max(1, int(b / _FINEST / cells.width))
        low = cells.low - margin * cells.width
        count = int(np.ceil((cells.high + margin * cells.width - low) / width))
        wide = Cells(low, low + count * width, count)
        law = np.zeros((count + 2, count + 2))  # below, the cells, above; people as reports
        from_below = np.append(-np.inf, wide.edges)
        law[:-1, 1:-1] = moved(self._twice_integrated, wide.edges, from_below)
        law[-1, 1:-1] = np.maximum(1 - law[:-1, 1:-1].sum(axis=0), 0.0)
        law[0, 0] = law[-1, -1] = 1.0
        counts = np.histogram(reports, np.append(from_below, np.inf))[0]
        below = np.cumsum(expectation_maximisation(law, counts))[:-1]
        return np.interp(cells.edges, wide.edges, below)

    def _twice_integrated(self, z: Array) -> Array:
        """Return A with A'' the density of the noise: max(z, 0) + (b/2)e^{−|z|/b}."""
        return np.maximum(z, 0.0) + self.scale / 2 * np.exp(-np.abs(z) / self.scale)
