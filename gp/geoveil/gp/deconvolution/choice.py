"""Ways to sum many estimators over points, and their costs.

Times are for a shared processor of 2023: accurate enough to choose, and to tell seconds from hours.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from geoveil.gp.deconvolution.bands import BandTotals, DebiasedBand, bands_of
from geoveil.gp.deconvolution.base import PointEstimator
from geoveil.gp.deconvolution.lattice import ORDER, DebiasedKernel, Lattice, LatticeTotals
from geoveil.gp.deconvolution.region import RegionEstimator
from geoveil.gp.deconvolution.totals import MOST_AT_ONCE, EachTotals, Products, Totals

_EACH_S = 50e-9
"""The cost of most estimators at a point."""
_REGION_S = 150e-9
_BANDS_S = 15e-9
_BANDS_BLOCK_S = 60e-6
"""The cost of each group in a block, besides its points."""
_BANDS_CELL_S = 0.3e-6
_COVARIANCES_S, _COVARIANCES_BAND_S, _COVARIANCES_CUBE_S = 200e-6, 40e-6, 8e-10
"""The cost of the covariances of bands in a group, for each band, and for the cube of these."""
_NODE_S = 5e-9
_TRANSFORMS_S = 90e-9
"""The cost of each node of a lattice, once."""
_PRODUCT_S = 35e-12
"""The cost of the product of two values at a point."""
_MOST_BAND_CELLS = 1 << 18
"""The most cells of all groups together, at 112 bytes each."""
_MOST_NODES = 1 << 23
"""The most nodes of all lattices and groups, at 16 bytes each, or 50 during a transform."""


class Way(NamedTuple):
    """A way to sum estimators."""

    totals: Totals
    seconds: float
    """The approximate processor time for all points, in seconds."""


def ways(
    estimators: Mapping[str, PointEstimator], step: float, points: int = 0, groups: int = 1
) -> list[Way]:
    """Return the cheapest ways to sum estimators of one perturbation; each label is in one way.

    `step` is the spacing of the points' grid, in their unit. `points` is how many there will be in
    all `groups`; 0 means few, and no lattice is made for them.
    """
    chosen, rest = [], dict(estimators)
    bands = {name: of for name, e in rest.items() if (of := bands_of(e, step))}
    fits = groups * BandTotals.cells(bands) <= _MOST_BAND_CELLS
    if bands and fits and _bands_s(bands, groups) < len(bands) * _EACH_S:
        seconds = points * _bands_s(bands, groups)
        chosen.append(Way(BandTotals(bands, step), seconds))
        rest = {name: e for name, e in rest.items() if name not in bands}
    nodes = 0
    for kernels in _kernels_alike(rest):
        lattice = Lattice(kernels)
        seconds = groups * lattice.cells * _TRANSFORMS_S
        seconds += points * _NODE_S * ORDER**lattice.dimension
        fits = nodes + groups * lattice.cells <= _MOST_NODES
        if fits and seconds < points * len(kernels) * _EACH_S:
            nodes += groups * lattice.cells
            chosen.append(Way(LatticeTotals(kernels, lattice, step), seconds))
            rest = {name: e for name, e in rest.items() if name not in kernels}
    chosen += [
        Way(EachTotals(name, estimator, step, points // groups), points * _each_s(estimator))
        for name, estimator in rest.items()
    ]
    return chosen


class JointWay(NamedTuple):
    """A way to sum estimators and their pairwise products."""

    totals: BandTotals | Products
    seconds: float


def joint_way(
    chosen: Sequence[Way],
    estimators: Mapping[str, PointEstimator],
    step: float,
    points: int = 0,
    groups: int = 1,
) -> JointWay:
    """Return the cheapest way to compute covariances of estimators; arguments as in `ways`.

    An earlier choice that gives all covariances is returned.

    Raises:
        UnsupportedError: if an estimator has no bound.
    """
    size = len(estimators)
    if len(chosen) == 1 and isinstance(chosen[0].totals, BandTotals):
        each = _COVARIANCES_S + size * _COVARIANCES_BAND_S + size**3 * _COVARIANCES_CUBE_S
        return JointWay(chosen[0].totals, groups * each)
    each = sum(map(_each_s, estimators.values()))
    return JointWay(Products(estimators, step), points * (each + size**2 * _PRODUCT_S))


def _each_s(estimator: PointEstimator) -> float:
    return _REGION_S if isinstance(estimator, RegionEstimator) else _EACH_S


def _bands_s(bands: Mapping[str, tuple[DebiasedBand, ...]], groups: int) -> float:
    """Return the seconds per point, including its share of a block's cost."""
    of_block = groups * (_BANDS_BLOCK_S + BandTotals.cells(bands) * _BANDS_CELL_S)
    return _BANDS_S + of_block / MOST_AT_ONCE


def _kernels_alike(estimators: Mapping[str, PointEstimator]) -> list[dict[str, DebiasedKernel]]:
    """Return the kernels among estimators, grouped by bandwidth."""
    alike: defaultdict[float, dict[str, DebiasedKernel]] = defaultdict(dict)
    for name, estimator in estimators.items():
        if kernel := DebiasedKernel.of(estimator):
            alike[kernel.bandwidth][name] = kernel
    return list(alike.values())
