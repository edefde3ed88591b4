"""Estimators of a distribution: three from geoveil's reports, and six protocols of ε-LDP."""

from collections.abc import Callable, Mapping
from itertools import product
from types import MappingProxyType

import numpy as np

from geoveil.analyst import Softness
from geoveil.gp import GeoPrivacy, LocalPrivacy, Threshold
from geoveil.simulation.distribution import local
from geoveil.simulation.distribution.attributes import (
    BARS,
    CELLS,
    Distribution,
    NumericAttribute,
    proper,
)
from geoveil.simulation.distribution.cells import Cells
from geoveil.simulation.distribution.perturbed import PerturbedNumbers
from geoveil.simulation.experiments.own import MakeReports
from geoveil.simulation.populations import Array

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
