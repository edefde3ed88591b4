"""Judge bands for a hard question coarsely, by tables of moments that all questions share.

A mechanism's reports about a soft step depend on the signed distance alone, and with distances in
units of 1/ε, not even on ε. So moments for a kind, its parameters, a profile and a width in noise
scales are computed once per process, at nodes between which they are interpolated: for all
thresholds and regions, all rates and all priors. The prior is merged into a few thousand atoms of
the signed distance, so that a band costs one sum over the atoms [MATH §8]. Final results are
computed at every point of the prior.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner.band_placement import aimed, moved
from geoveil.analyst.planner.candidates import DEBIASED, KINDS, POINTS
from geoveil.analyst.planner.prediction import Prediction
from geoveil.analyst.planner.problem import Nodes, PlanningProblem
from geoveil.analyst.planner.question import HardQuestion
from geoveil.gp import (
    PROFILES,
    GeoPrivacy,
    Profile,
    SoftIndicator,
    Threshold,
    UnsupportedError,
)

Array = NDArray[np.float64]
Table = tuple[Array, Array]
"""(mean − f, variance) at `nodes`."""

NARROWEST, WIDEST = -6, 26
"""Bands to try, as arguments of `width`: from 0.35 to 91 noise scales."""
FINENESS = 4
"""Widths per octave; `width` takes integers."""
STANDARD = GeoPrivacy(1.0, per=1.0)
"""The guarantee, in noise scales, of everything without a δ."""
_TABLE_PER_NEAR = 16
"""Nodes per shortest length at the boundary; moments are off by less than 1 %."""
_BEND = 4.0
"""Shortest lengths from the boundary beyond which the nodes' distances grow with theirs."""
_FARTHEST = 1e5
"""Noise scales beyond which moments are taken to be constant."""
_PER_NEAR = 40
"""Atoms per shortest length at 0; farther away they are sparser."""


@dataclass(frozen=True, slots=True)
class CoarseCandidate:
    """A band, and a kind that queries it, with the error predicted by the tables."""

    kind: str
    option: int
    """The index of the kind's parameters."""
    profile: str
    index: int
    """The index of its width: see `width`."""
    prediction: Prediction


@dataclass(frozen=True)
class Band:
    """A soft stand-in for a hard question, and the prior's people near it."""

    profile: Profile
    query: SoftIndicator | None
    """The soft query, in one dimension."""
    points: Array
    """Values in one dimension, otherwise signed distances to the moved boundary."""
    signed: Array
    truth: Array
    weights: Array
    again: Array | None
    """Weights for redrawn data: see `Nodes.again`."""
    inwards: float = 0.0
    """How far the boundary was moved, in more dimensions."""

    def among(self, atoms: "Atoms") -> "Band":
        """Return the same band, with other people near it."""
        points, truth, weights, again = atoms
        if self.query is None:
            signed = points - self.inwards
        else:
            signed = np.asarray(self.query.signed_distance(points))
        return replace(
            self, points=points, signed=signed, truth=truth, weights=weights, again=again
        )


Atoms: TypeAlias = tuple[Array, Array, Array, Array | None]
"""Values in one dimension, otherwise signed distances; with their truth, weights and redrawn
weights."""


def width(index: int) -> float:
    """Return the width of a band in noise scales: 2^(index/4).

    Example:
        >>> width(0), width(8)
        (1.0, 4.0)
    """
    return float(2.0 ** (index / FINENESS))


def widest_within(scales: float) -> int:
    """Return the index of the widest band up to a width in noise scales.

    Example:
        >>> widest_within(8.0), width(widest_within(6.0))
        (12, 5.656854249492381)
    """
    return math.floor(FINENESS * math.log2(scales)) if scales > 0 else NARROWEST - 1


@lru_cache(maxsize=256)
def nodes(index: int) -> Array:
    """Return signed distances in noise scales, for bands of a width, increasing."""
    near = min(1.0, width(index))
    last = int(np.arcsinh(_FARTHEST / (_BEND * near)) * _BEND * _TABLE_PER_NEAR) + 1
    return _BEND * near * np.sinh(np.arange(-last, last + 1) / (_BEND * _TABLE_PER_NEAR))


@lru_cache(maxsize=1 << 14)
def table(
    name: str,
    option: int,
    profile: str,
    index: int,
    standard: GeoPrivacy = STANDARD,
) -> Table | None:
    """Return the moments of reports about a soft step; None if the kind refuses it.

    Args:
        name: of a kind, a key of `KINDS`.
        option: which of its parameters.
        profile: "linear" or "smoothstep".
        index: see `width`.
        standard: the guarantee, in noise scales.
    """
    if name == POINTS:  # on a line, noise on the point is noise on the distance
        return table(DEBIASED, 0, profile, index)
    kind, x = KINDS[name], nodes(index)
    query = Threshold(0.0, width(index), profile)
    try:
        reports = kind.build(query, standard, kind.options[option])
        bias = reports.mean(x) - np.asarray(PROFILES[profile](query.width).value(x))
        return bias, reports.variance(x)
    except UnsupportedError:
        return None


def interpolated(u: Array, index: int, found: Table) -> tuple[Array, Array]:
    """Return mean − f and variance at signed distances u, in noise scales.

    A variance that is infinite somewhere is treated as infinite everywhere.
    """
    x, (bias, variance) = nodes(index), found
    if not np.isfinite(variance).all():
        return np.zeros_like(u), np.full_like(u, np.inf)
    return np.interp(u, x, bias), np.interp(u, x, variance)


def joined(problem: PlanningProblem, nodes: Nodes) -> Atoms:
    """Return atoms for nodes.

    Nodes within a fraction of the narrowest band of each other are merged at their mean if they
    are on the same side of the same end of the question.

    Args:
        problem: of a hard question.
        nodes: of the problem, or of one of its scenarios.
    """
    points, weights, truth = nodes.points, nodes.weights, nodes.truth
    if problem.question.dimension == 1:
        # Without an end within reach of the prior, nobody is near one.
        ends = nodes.jumps if len(nodes.jumps) else np.zeros(1)
        end = np.abs(points[:, None] - ends).argmin(axis=1)
        origin = ends[end]
        distance = points - origin
    else:
        end, origin = np.zeros(len(points), np.intp), np.zeros(len(points))
        distance = nodes.signed
    bend = _BEND * width(NARROWEST) * problem.scale
    place = np.rint(np.arcsinh(distance / bend) * (_BEND * _PER_NEAR))
    key = (place * 2 + truth) * (end.max() + 1) + end
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    mass = np.asarray(np.bincount(index, weights), np.float64)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(index, weights * distance) / mass
    used = mass > 0
    again = None
    if nodes.again is not None:
        drawn = [np.bincount(index, weights)[used] for weights in nodes.again]
        again = np.array(drawn, np.float64)
    return (mean + origin[first])[used], truth[first][used], mass[used], again


def placed(problem: PlanningProblem, atoms: Atoms, profile: str, index: int) -> Band | None:
    """Return a band placed where the soft share of the atoms is their hard one, if it has room."""
    question, wide = problem.question, width(index) * problem.scale
    assert isinstance(question, HardQuestion)
    points, truth, weights, again = atoms
    shape = PROFILES[profile](wide)
    if question.dimension == 1:
        query = aimed(question, wide, profile, points, weights, truth=truth)
        if query is None:
            return None
        signed = np.asarray(query.signed_distance(points))
        return Band(shape, query, points, signed, truth, weights, again)
    inwards = moved(points, truth, weights, wide, profile)
    if not question.fits(wide, profile, (inwards,)):
        return None
    return Band(shape, None, points, points - inwards, truth, weights, again, inwards)
