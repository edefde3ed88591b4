"""Who tells a distribution: geoveil's reports, in three ways, and five protocols of ε-LDP."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.questions import Softness
from geoveil.gp import GeoPrivacy, LocalPrivacy, Threshold
from geoveil.simulation.distribution.attributes import BARS, CELLS, Distribution, NumericAttribute
from geoveil.simulation.distribution.cells import Cells
from geoveil.simulation.distribution.hierarchy import FrequencyOracle, HierarchicalHistogram
from geoveil.simulation.distribution.means import HybridMechanism, LocalMean, PiecewiseMechanism
from geoveil.simulation.distribution.perturbed import PerturbedNumbers
from geoveil.simulation.distribution.square_wave import SquareWave
from geoveil.simulation.experiments.own import MakeReports

Array = NDArray[np.float64]
LocalProtocol = Callable[[NumericAttribute, LocalPrivacy, Array, np.random.Generator], Distribution]

CLEAR = "values in the clear"
DEBIASED, ADAPTED, SMOOTHED = "Laplace, debiased", "Laplace, adapted", "Laplace, EMS"
WAVE_CELLS = 256
"""Cells of the square wave. With 1,024, as in [LWLSS20], it takes 10 to 30 times as long; most
errors are about the same, those of the histogram at ε = 1 larger."""


def perturbed(
    attribute: NumericAttribute, privacy: GeoPrivacy, values: Array, rng: np.random.Generator
) -> dict[str, Distribution]:
    """Return what one perturbed number of each person tells, in three ways.

    They are debiased thresholds as an analyst is told by default; the same with widths that the
    reports choose; and smoothed expectation-maximisation.
    """
    points = PerturbedNumbers(privacy, attribute.cells)
    reports = points.simulate(values, rng)
    smoothed = points.smoothed(reports)
    told = {
        DEBIASED: points.debiased(reports),
        ADAPTED: points.adapted(reports, smoothed),
        SMOOTHED: smoothed,
    }
    return {name: _from_shares(attribute, below) for name, below in told.items()}


def asked_once(
    attribute: NumericAttribute,
    privacy: GeoPrivacy,
    make: MakeReports,
    values: Array,
    rng: np.random.Generator,
) -> Distribution:
    """Return what a mechanism tells that answers one question of each person.

    Everybody is asked the smoothstep about one edge between two bars, drawn at random; between
    edges the distribution function is straight.
    """
    edges = attribute.cells.edges[:: CELLS // BARS]
    asked = rng.integers(1, BARS, len(values))
    below = np.linspace(0.0, 1.0, BARS + 1)  # stands where nobody was asked
    band = Softness(1 / privacy.rate).band()
    for edge in np.unique(asked).tolist():
        mechanism = make(Threshold(float(edges[edge]), band, "smoothstep"), privacy)
        below[edge] = 1 - mechanism.simulate(values[asked == edge], rng).mean()
    straight = np.interp(attribute.cells.edges, edges, attribute.proper(below))
    return _from_shares(attribute, straight)


def _from_shares(attribute: NumericAttribute, below: Array) -> Distribution:
    """Return a distribution whose mean is the area above the distribution function."""
    above = 1 - (below[1:] + below[:-1]) / 2
    mean = attribute.cells.low + float(above.sum()) * attribute.cells.width
    return Distribution(mean, attribute.proper(below))


def _mean_by(mechanism: Callable[[LocalPrivacy], LocalMean]) -> LocalProtocol:
    def told(
        attribute: NumericAttribute, privacy: LocalPrivacy, values: Array, rng: np.random.Generator
    ) -> Distribution:
        reports = mechanism(privacy).simulate(2 * _unit(attribute, values) - 1, rng)
        share = (float(reports.mean()) + 1) / 2
        return Distribution(attribute.cells.low + share * attribute.diameter)

    return told


def _square_wave(
    attribute: NumericAttribute, privacy: LocalPrivacy, values: Array, rng: np.random.Generator
) -> Distribution:
    wave = SquareWave(privacy)
    shares = wave.distribution(wave.simulate(_unit(attribute, values), rng), WAVE_CELLS)
    coarse = Cells(attribute.cells.low, attribute.cells.high, WAVE_CELLS)
    below = np.interp(attribute.cells.edges, coarse.edges, np.append(0.0, np.cumsum(shares)))
    return _from_shares(attribute, below)


def _hierarchy(oracle: Callable[[LocalPrivacy], FrequencyOracle]) -> LocalProtocol:
    def told(
        attribute: NumericAttribute, privacy: LocalPrivacy, values: Array, rng: np.random.Generator
    ) -> Distribution:
        tree = HierarchicalHistogram(oracle(privacy))
        assert tree.cells == CELLS
        shares = tree.simulate(attribute.cells.counts(values), rng)
        return _from_shares(attribute, np.append(0.0, np.cumsum(shares)))

    return told


def _unit(attribute: NumericAttribute, values: Array) -> Array:
    """Return numbers in [0, 1]; those beyond the range are moved to its ends."""
    return np.clip((values - attribute.cells.low) / attribute.diameter, 0.0, 1.0)


LOCAL_PROTOCOLS: Mapping[str, LocalProtocol] = MappingProxyType(
    {
        "square wave, EMS": _square_wave,
        "hierarchy, OUE": _hierarchy(FrequencyOracle.unary_encoding),
        "hierarchy, OLH": _hierarchy(FrequencyOracle.local_hashing),
        "piecewise": _mean_by(PiecewiseMechanism),
        "hybrid": _mean_by(HybridMechanism),
    }
)
"""Name → a protocol of ε-LDP, with the parameters of its paper: the square wave with smoothed
expectation-maximisation [LWLSS20]; a tree of fan 4 made consistent [CKS19], asked by optimised
unary encoding or optimised local hashing [WBLJ17]; two that tell the mean only [WXYZHSSY19]."""
