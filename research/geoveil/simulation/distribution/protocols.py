"""Estimators of a distribution: three from geoveil's reports, and six protocols of ε-LDP.

For experiments only: floating-point draws are NOT private [MATH §10].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

import numpy as np

from geoveil.analyst import Softness, expectation_maximisation
from geoveil.gp import GeoPrivacy, LocalPrivacy, PlanarLaplace, Smoothstep, SoftStep, Threshold
from geoveil.simulation.distribution import local
from geoveil.simulation.distribution.attributes import (
    BARS,
    CELLS,
    Distribution,
    NumericAttribute,
    proper,
)
from geoveil.simulation.distribution.cells import Cells, moved
from geoveil.simulation.experiments.own import MakeReports
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


LocalProtocol = Callable[[Array, LocalPrivacy, np.random.Generator], Array | float]
"""Numbers in [0, 1] → the share of people in each of several equal cells, or only their mean."""

CLEAR = "values in the clear"
DEBIASED, SMOOTHED = "Laplace, debiased", "Laplace, EMS"
WAVE_CELLS = 256
"""Cells of the square wave. The 1,024 cells of [LWLSS20] take 10 to 30 times as long with nearly
the same error, except for the histogram at ε = 1."""


def told_by_all(
    attribute: NumericAttribute,
    privacy: GeoPrivacy,
    own: Mapping[str, MakeReports],
    values: Array,
    rng: Callable[[str], np.random.Generator],
) -> dict[tuple[str, float | None], Distribution]:
    """Return the results of all protocols and the user's, by name and footing (None without one).

    `rng` makes a separate generator for each name.
    """
    estimates = {CLEAR: attribute.of(values, np.ones(len(values)))}
    estimates |= _perturbed(attribute, privacy, values, rng("perturbed"))
    for name, make in own.items():
        estimates[name] = _asked_once(attribute, privacy, make, values, rng(name))
    by_footing: dict[tuple[str, float | None], Distribution] = {
        (of, None): estimates[of] for of in estimates
    }
    for footing, (of, protocol) in product(attribute.footings, LOCAL_PROTOCOLS.items()):
        given = privacy.local(footing), protocol, values, rng(f"{of} {footing}")
        by_footing[of, footing] = _told_locally(attribute, *given)
    return by_footing


def _perturbed(
    attribute: NumericAttribute, privacy: GeoPrivacy, values: Array, rng: np.random.Generator
) -> dict[str, Distribution]:
    """Return estimates from each person's perturbed number, by thresholds and by smoothed EM."""
    points = PerturbedNumbers(privacy, attribute.cells)
    reports = points.simulate(values, rng)
    shares_below = {DEBIASED: points.debiased(reports), SMOOTHED: points.smoothed(reports)}
    return {name: _from_shares(attribute, below) for name, below in shares_below.items()}


def _asked_once(
    attribute: NumericAttribute,
    privacy: GeoPrivacy,
    make: MakeReports,
    values: Array,
    rng: np.random.Generator,
) -> Distribution:
    """Return a distribution from one smoothstep per person, at a random edge between two bars.

    The distribution function is linear between edges.
    """
    edges = attribute.cells.edges[:: CELLS // BARS]
    edge_asked = rng.integers(1, BARS, len(values))
    below = np.linspace(0.0, 1.0, BARS + 1)  # kept where nobody answers
    band = Softness(1 / privacy.rate).band()
    for edge in np.unique(edge_asked).tolist():
        mechanism = make(Threshold(float(edges[edge]), band, "smoothstep"), privacy)
        below[edge] = 1 - mechanism.simulate(values[edge_asked == edge], rng).mean()
    return _from_shares(attribute, np.interp(attribute.cells.edges, edges, proper(below)))


def _from_shares(attribute: NumericAttribute, below: Array) -> Distribution:
    """Return a distribution whose mean is computed from the area above its function."""
    above = 1 - (below[1:] + below[:-1]) / 2
    mean = attribute.cells.low + float(above.sum()) * attribute.cells.width
    return Distribution(mean, proper(below))


def _told_locally(
    attribute: NumericAttribute,
    privacy: LocalPrivacy,
    protocol: LocalProtocol,
    values: Array,
    rng: np.random.Generator,
) -> Distribution:
    """Return a protocol's estimate from numbers, clamped to the range."""
    low, edges = attribute.cells.low, attribute.cells.edges
    answer = protocol(np.clip((values - low) / attribute.diameter, 0.0, 1.0), privacy, rng)
    if isinstance(answer, np.ndarray):
        own = edges[:: CELLS // len(answer)]
        return _from_shares(attribute, np.interp(edges, own, np.append(0.0, np.cumsum(answer))))
    return Distribution(low + answer * attribute.diameter)


def _mean(reported: Callable[[Array, LocalPrivacy, np.random.Generator], Array]) -> LocalProtocol:
    return lambda unit, privacy, rng: (float(reported(2 * unit - 1, privacy, rng).mean()) + 1) / 2


def _square_wave(unit: Array, privacy: LocalPrivacy, rng: np.random.Generator) -> Array:
    wave = local.SquareWave.of(privacy)
    return wave.distribution(wave.simulate(unit, rng), WAVE_CELLS)


def _hierarchy(oracle: Callable[[LocalPrivacy], local.FrequencyOracle]) -> LocalProtocol:
    count = Cells(0.0, 1.0, CELLS).counts
    return lambda unit, privacy, rng: local.tree_shares(oracle(privacy), count(unit), rng)


def _bars(unit: Array, privacy: LocalPrivacy, rng: np.random.Generator) -> Array:
    return local.bar_shares(Cells(0.0, 1.0, BARS).counts(unit), privacy, rng)


LOCAL_PROTOCOLS: Mapping[str, LocalProtocol] = MappingProxyType(
    {
        "square wave, EMS": _square_wave,
        "hierarchy, OUE": _hierarchy(local.unary_encoding),
        "hierarchy, OLH": _hierarchy(local.local_hashing),
        f"{BARS} bars, k-ary or OUE": _bars,
        "piecewise": _mean(local.piecewise),
        "hybrid": _mean(local.hybrid),
    }
)
"""Name → a protocol of ε-LDP with the parameters of its paper: the square wave with smoothed
expectation-maximisation [LWLSS20]; a consistent tree of fan 4 [CKS19], with optimised unary
encoding or optimised local hashing [WBLJ17]; the bars of the histogram, with the better of k-ary
response and optimised unary encoding [WBLJ17]; two that estimate only the mean [WXYZHSSY19]."""
PROTOCOLS = (CLEAR, DEBIASED, SMOOTHED, *LOCAL_PROTOCOLS)
