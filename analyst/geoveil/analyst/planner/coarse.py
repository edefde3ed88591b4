"""Judge bands for a hard question coarsely, by tables of moments that all questions share.

A mechanism's reports about a soft step depend on the signed distance alone and, in units of 1/ε,
not even on ε. So moments for a kind, its parameters, a profile and a width are computed once per
process. The prior is merged into a few thousand atoms of the signed distance, so that a band costs
one sum over the atoms [MATH §8]. Final results are computed at every point of the prior.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from geoveil.analyst.planner.candidates import DEBIASED, KINDS, POINTS
from geoveil.analyst.planner.prediction import Prediction
from geoveil.analyst.planner.problem import (
    HardQuestion,
    HardRange,
    HardThreshold,
    Nodes,
    PlanningProblem,
)
from geoveil.gp import (
    PROFILES,
    Array,
    GeoPrivacy,
    ParameterError,
    Profile,
    SoftIndicator,
    Threshold,
    UnsupportedError,
)

_HALVINGS = 36
_CORRECTIONS = 8
_CELLS = 64
"""Cells per width, in which points of the plane are joined while a boundary moves."""
_LITTLE = 3e-6
"""The share of all people by which the soft share may miss the hard one."""


def aimed(nodes: Nodes, width: float, profile: str) -> SoftIndicator | None:
    """Return the soft query of this width with the prior's hard share, if there is one.

    A boundary never moves by more than the width; a region without room for the band has no such
    query.

    Args:
        nodes: of a hard question.
        width: of the band, in the unit of the points.
        profile: "linear" or "smoothstep".
    """
    question = nodes.question
    assert isinstance(question, HardQuestion)
    if isinstance(question, HardRange):  # each end is aimed separately, as a threshold
        points, weights = nodes.points, nodes.weights
        low, high = (
            moved(points - at, HardThreshold(at).truth(points), weights, width, profile)
            for at in question.ends
        )
        inwards: tuple[float, ...] = (low, -high)
    else:
        inwards = (_corrected(nodes, question, width, profile),)
    try:
        return question.soft(width, profile, inwards)
    except ParameterError:
        return None


def moved(signed: Array, truth: Array, weights: Array, width: float, profile: str) -> float:
    """Return how far inwards to move a boundary if the move lowers all distances equally.

    Args:
        signed: distances to the boundary, > 0 inside.
        truth: the contribution of each to the hard share.
        weights: of the distances.
        width: of the band, in their unit.
    """
    near = np.abs(signed) <= 2 * width  # beyond, nothing changes
    if not near.any():
        return 0.0
    s, w, shape = signed[near], weights[near], PROFILES[profile](width)
    target = float(np.sum(w * truth[near]))
    low, high = -width, width
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = np.sum(w * shape.value(s - middle)) > target
        low, high = (middle, high) if above else (low, middle)
    return high


def _corrected(nodes: Nodes, question: HardQuestion, width: float, profile: str) -> float:
    """Return how far inwards to move the boundary; the soft share falls with the move.

    Moving the boundary by d lowers the distance by d, but only roughly near corners. So the share
    is measured with the moved boundary, and the secant method finds the root within a bracket.
    """
    inwards = moved(nodes.signed, nodes.truth, nodes.weights, width, profile)
    if question.shifts or inwards == 0:
        return inwards
    near = np.abs(nodes.signed) <= 2 * width
    s, x, w = nodes.signed[near], nodes.points[near], nodes.weights[near]
    shape, target = PROFILES[profile](width), float(np.sum(w * nodes.truth[near]))
    before, excess = 0.0, float(np.sum(w * shape.value(s))) - target
    # A corner moves at most twice as far as its sides, and half the width is the band.
    changed = np.abs(s) <= width + 2 * abs(inwards)
    target -= float(np.sum(w[~changed] * shape.value(s[~changed])))
    x, w = _joined(x[changed], w[changed], width / _CELLS)
    low, high = -width, width
    for _ in range(_CORRECTIONS):
        try:
            s = np.asarray(question.soft(width, profile, (inwards,)).signed_distance(x))
        except ParameterError:
            break  # no room left
        previous, excess = excess, float(np.sum(w * shape.value(s))) - target
        if abs(excess) <= _LITTLE or excess == previous:
            break
        low, high = (inwards, high) if excess > 0 else (low, inwards)
        secant = inwards - excess * (inwards - before) / (excess - previous)
        before, inwards = inwards, secant if low < secant < high else (low + high) / 2
    return inwards


def _joined(points: Array, weights: Array, cell: float) -> tuple[Array, Array]:
    """Join the points of each square of a lattice at their mean: shares change to second order."""
    at = np.floor(points / cell).astype(np.int64)
    at -= at.min(axis=0)
    return merged(at[:, 0] * (at[:, 1].max() + 1) + at[:, 1], points, weights)


def merged(key: Array, points: Array, weights: Array) -> tuple[Array, Array]:
    """Return the mean of the points with one key, (keys, k), and their weight, if it is above 0."""
    _, index = np.unique(key, return_inverse=True)
    mass = np.asarray(np.bincount(index, weights), np.float64)
    used = mass > 0
    sums = [np.bincount(index, weights * axis)[used] for axis in points.T]
    return np.stack(sums, axis=1) / mass[used, None], mass[used]


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


class Atoms(NamedTuple):
    """People of one place, joined."""

    points: Array
    """Values in one dimension, otherwise signed distances."""
    truth: Array
    weights: Array
    again: Array | None
    """Weights for redrawn data: see `Nodes.again`."""


@dataclass(frozen=True)
class Band:
    """A soft stand-in for a hard question, and the prior's people near it."""

    profile: Profile
    query: SoftIndicator | None
    """The soft query, in one dimension."""
    atoms: Atoms
    inwards: float = 0.0
    """How far the boundary was moved, in more dimensions."""

    @cached_property
    def signed(self) -> Array:
        """The signed distances of the atoms to the band's middle."""
        if self.query is None:
            return self.atoms.points - self.inwards
        return np.asarray(self.query.signed_distance(self.atoms.points))


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
    name: str, option: int, profile: str, index: int, standard: GeoPrivacy = STANDARD
) -> Table | None:
    """Return the moments of reports about a soft step; None if the kind refuses it.

    Args:
        name: of a kind, a key of `KINDS`.
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
    return Atoms((mean + origin[first])[used], truth[first][used], mass[used], again)


def placed(problem: PlanningProblem, atoms: Atoms, profile: str, index: int) -> Band | None:
    """Return a band placed where the soft share of the atoms is their hard one, if it has room."""
    question, wide = problem.question, width(index) * problem.scale
    assert isinstance(question, HardQuestion)
    shape = PROFILES[profile](wide)
    if question.dimension == 1:
        people = Nodes(question, problem.prior, atoms.points, atoms.weights)
        query = aimed(people, wide, profile)
        return None if query is None else Band(shape, query, atoms)
    inwards = moved(atoms.points, atoms.truth, atoms.weights, wide, profile)
    fits = question.fits(wide, profile, (inwards,))
    return Band(shape, None, atoms, inwards) if fits else None
