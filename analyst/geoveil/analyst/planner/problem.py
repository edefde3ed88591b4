"""The problem of planning: a question, a guarantee, and a prior with nodes where it matters.

An analyst's question is a hard share, or the mean of a soft query. ε does not permit a hard share
itself, so a hard question leaves open which soft query stands in for it: the width and place of its
band. Softening is bias, which the planner weighs [MATH §8].

Nodes of a prior that is a density on the line are densest where the question varies. A question
bounds the distance from there (`clearance`), and intervals that are not far shorter are halved.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from geoveil.analyst.planner.candidates import ReportLaw
from geoveil.analyst.planner.prediction import Prediction, predicted
from geoveil.analyst.planner.priors import Prior
from geoveil.gp import (
    Array,
    Disc,
    GeoPrivacy,
    ParameterError,
    Polygon,
    Query,
    Range,
    SoftIndicator,
    Threshold,
    distinct,
    geometry,
    validation,
)

_MITRE = 2.0
"""How far a corner may move, in multiples of its sides' move: right angles stay, spikes are cut."""


class PopulationMean(ABC):
    """A question: the mean of `truth` over the people."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of coordinates of a point."""

    @abstractmethod
    def truth(self, points: Array) -> Array:
        """Return the contribution of each point to the truth, (n,)."""

    def clearance(self, points: Array) -> Array:
        """Return a lower bound of each point's distance to where the truth varies, (n,), ≥ 0.

        By default 0: it may vary anywhere.
        """
        return np.zeros(len(points))

    @property
    def length_scale(self) -> float:
        """Length over which the truth varies; ∞ for a jump, which has only a place."""
        return math.inf

    @property
    def ends(self) -> tuple[float, ...]:
        """The values at which the truth jumps, increasing, in one dimension; by default none."""
        return ()


@dataclass(frozen=True, slots=True)
class SoftQuestion(PopulationMean):
    """The mean of a soft query."""

    query: Query

    def __post_init__(self) -> None:
        validation.require_kind("query", self.query, Query, "GaussianKernel(...)")

    @property
    def dimension(self) -> int:
        return self.query.dimension

    def truth(self, points: Array) -> Array:
        return self.query.value(points)

    def clearance(self, points: Array) -> Array:
        return self.query.clearance(points)

    @property
    def length_scale(self) -> float:
        return self.query.profile.length_scale


class HardQuestion(PopulationMean):
    """The share of people inside a region."""

    shifts: ClassVar[bool] = True
    """Whether moving the boundary inwards by d lowers every signed distance by d."""
    boundaries: ClassVar[int] = 1
    """How many boundaries can be moved independently."""

    @property
    def dimension(self) -> int:
        return 1

    @abstractmethod
    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """Return a stand-in.

        Args:
            width: of the band.
            profile: "linear" or "smoothstep".
            inwards: how far each boundary moves into the region, `boundaries` numbers.

        Raises:
            ParameterError: if the region is too small for the band.
        """

    def fits(self, width: float, profile: str, inwards: Sequence[float]) -> bool:
        """Return whether there is a stand-in: see `soft`."""
        try:
            self.soft(width, profile, inwards)
        except ParameterError:
            return False
        return True

    @property
    def still(self) -> tuple[float, ...]:
        """The move of no boundary: see `soft`."""
        return (0.0,) * self.boundaries

    @property
    def room(self) -> float:
        """The width of the widest band."""
        return math.inf

    def signed(self, points: Array) -> Array:
        """Return the signed distances to the boundary, > 0 inside, (n,)."""
        narrow = self.soft(min(1.0, self.room), "linear", self.still)
        return np.asarray(narrow.signed_distance(points))

    def clearance(self, points: Array) -> Array:
        """Return the distance of each point to the boundary, (n,)."""
        return np.abs(self.signed(points))


@dataclass(frozen=True, slots=True)
class HardThreshold(HardQuestion):
    """The share of values above `at`, not at it.

    Example:
        >>> HardThreshold(100_000).truth(np.array([99_999.0, 100_000.0, 100_001.0])).tolist()
        [0.0, 0.0, 1.0]
    """

    at: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", validation.real("at", self.at))

    @property
    def ends(self) -> tuple[float, ...]:
        return (self.at,)

    def truth(self, points: Array) -> Array:
        return np.asarray(points > self.at, dtype=np.float64)

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """Return a soft threshold."""
        return Threshold(self.at + inwards[0], width, profile)


@dataclass(frozen=True, slots=True)
class HardRange(HardQuestion):
    """The share of values above `low` and up to `high`: adjacent brackets share nobody.

    Example:
        >>> HardRange(1.0, 2.0).truth(np.array([1.0, 1.5, 2.0])).tolist()
        [0.0, 1.0, 1.0]
    """

    boundaries: ClassVar[int] = 2  # both ends can be moved
    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", validation.real("low", self.low))
        object.__setattr__(self, "high", validation.real("high", self.high))
        if not self.high > self.low:
            raise ParameterError("high", self.high, f"greater than low={self.low:g}")

    @property
    def room(self) -> float:
        return self.high - self.low

    @property
    def ends(self) -> tuple[float, ...]:
        return self.low, self.high

    def truth(self, points: Array) -> Array:
        return np.asarray((points > self.low) & (points <= self.high), dtype=np.float64)

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """Return a soft range, each end moved separately."""
        return Range(self.low + inwards[0], self.high - inwards[1], width, profile)


@dataclass(frozen=True, slots=True)
class HardDisc(HardQuestion):
    """The share of points within `radius` of a centre, in k ≥ 2 dimensions.

    Example:
        >>> HardDisc((0.0, 0.0), 5.0).truth(np.array([[3.0, 4.0], [4.0, 4.0]])).tolist()
        [1.0, 0.0]
    """

    center: tuple[float, ...]
    radius: float

    def __post_init__(self) -> None:
        disc = Disc(self.center, self.radius, self.radius)  # checks its arguments
        object.__setattr__(self, "center", disc.center)
        object.__setattr__(self, "radius", disc.radius)

    @property
    def dimension(self) -> int:
        return len(self.center)

    @property
    def room(self) -> float:
        return 2 * self.radius

    def truth(self, points: Array) -> Array:
        return np.asarray(self.signed(points) >= 0, dtype=np.float64)

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """Return a soft disc."""
        radius = validation.positive("radius", self.radius - inwards[0])
        return Disc(self.center, radius, width, profile)


@dataclass(frozen=True, slots=True)
class HardPolygon(HardQuestion):
    """The share of points inside a polygon.

    Args:
        region: any argument that `Polygon` takes.

    Example:
        >>> square = HardPolygon([(0, 0), (4, 0), (4, 4), (0, 4)])
        >>> square.truth(np.array([[1.0, 2.0], [5.0, 2.0]])).tolist()
        [1.0, 0.0]
    """

    shifts: ClassVar[bool] = False
    region: Any
    _polygon: Polygon = field(init=False, repr=False)

    def __post_init__(self) -> None:
        polygon = Polygon(self.region, width=1.0)
        object.__setattr__(self, "_polygon", polygon)
        object.__setattr__(self, "region", polygon.region)  # tuples, as questions are hashed

    @property
    def dimension(self) -> int:
        return 2

    def truth(self, points: Array) -> Array:
        """Return 1 for each point inside, else 0, (n,)."""
        from shapely import contains_xy

        inside = contains_xy(geometry(self._polygon.region), points[..., 0], points[..., 1])
        return np.asarray(inside, dtype=np.float64)

    def fits(self, width: float, profile: str, inwards: Sequence[float]) -> bool:
        """Return whether there is room, without moving every corner."""
        return inwards[0] < _inscribed(self._polygon)

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """Return a soft polygon, shrunk or grown with mitred corners."""
        if inwards[0] == 0:
            return Polygon(self._polygon.region, width, profile)
        moved = geometry(self._polygon.region).buffer(
            -inwards[0], join_style="mitre", mitre_limit=_MITRE
        )
        if moved.is_empty:
            raise ParameterError("width", width, "less than what the polygon has room for")
        return Polygon(moved, width, profile)


@lru_cache(maxsize=64)
def _inscribed(polygon: Polygon) -> float:
    """Return the radius of the largest circle inside: shrunk by more, nothing is left."""
    from shapely import maximum_inscribed_circle

    return float(maximum_inscribed_circle(geometry(polygon.region)).length)


MOST_REPEATED = 0.5
"""The largest part of an answer that may come from the prior instead of from people."""
_AFTER_ALL = 1e6
_FINE, _FARTHER = 1 / 8, 1 / 16
"""Length of the shortest cells of a mesh, relative to the shortest length over which reports vary,
and of farther cells, relative to their distance from where the question varies."""
_MOST = 20_000
"""The most cells of a mesh."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of a prior for a question, and the question's values there."""

    question: PopulationMean
    prior: Prior
    points: Array
    """(m,) or (m, k), in the unit of the values."""
    weights: Array
    """Shares of the people, with sum 1, (m,)."""
    again: Array | None = None
    """Weights for redrawn data, (draws, m): see `Prior.again`."""

    @cached_property
    def truth(self) -> Array:
        """The contribution of each point to the truth, (m,)."""
        return self.question.truth(self.points)

    @cached_property
    def jumps(self) -> Array:
        """The ends of a hard question within reach of the prior, in one dimension."""
        low, high = _around(self.prior)
        return np.array([end for end in self.question.ends if low <= end <= high])

    @cached_property
    def signed(self) -> Array:
        """The signed distances of the points to the boundary of a hard region, (m,)."""
        assert isinstance(self.question, HardQuestion)
        return self.question.signed(self.points)


@dataclass(frozen=True, eq=False)
class PlanningProblem:
    """A question under a guarantee, with the nodes of the prior that predictions need."""

    nodes: Nodes
    privacy: GeoPrivacy
    """The guarantee of each report, in the unit of the points."""
    scenarios: tuple[Nodes, ...] = ()
    """The nodes of each of `Prior.scenarios`, in order."""

    @classmethod
    def of(cls, question: PopulationMean, privacy: GeoPrivacy, prior: Prior) -> "PlanningProblem":
        """Return the problem, with nodes where the question varies."""
        near = min(1 / privacy.rate, question.length_scale)

        def nodes_of(law: Prior) -> Nodes:
            points, weights = nodes_near(question, law, near)
            drawn = [nodes_near(question, other, near)[1] for other in law.again]
            return Nodes(question, law, points, weights, np.array(drawn) if drawn else None)

        nodes, *scenarios = map(nodes_of, (prior, *prior.scenarios.values()))
        return cls(nodes, privacy, tuple(scenarios))

    @property
    def question(self) -> PopulationMean:
        """The question."""
        return self.nodes.question

    @property
    def prior(self) -> Prior:
        """Public knowledge about the people."""
        return self.nodes.prior

    @property
    def scale(self) -> float:
        """1/ε, in the unit of the points."""
        return 1 / self.privacy.rate

    @property
    def standard(self) -> GeoPrivacy:
        """The guarantee in noise scales."""
        p = self.privacy
        return GeoPrivacy(1.0, 1.0, delta=p.delta, reach=p.reach * p.rate)

    def under(self, privacy: GeoPrivacy) -> "PlanningProblem":
        """Return the same question and prior under another guarantee."""
        if self.prior.continuous:  # nodes may lie elsewhere
            return PlanningProblem.of(self.question, privacy, self.prior)
        return replace(self, privacy=privacy)

    def predict(self, reports: ReportLaw) -> Prediction:
        """Return the error of reports, from their exact moments at every node."""
        return self.prediction(lambda at: (reports.mean(at.points), reports.variance(at.points)))

    def repeated(self, prediction: Prediction) -> float:
        """Return the part of a hard question's answer that comes from the prior, 0 to 1.

        Var[m − truth]/Var[truth] over people: 0 if a report is right about everybody, on average;
        1 if it does not depend on who sent it, so that it comes out right only because of where the
        band was put.
        """
        if not isinstance(self.question, HardQuestion):
            return 0.0
        share = float(np.sum(self.nodes.weights * self.nodes.truth))
        spread = share * (1 - share)
        return min(prediction.bias_variance / spread, 1.0) if spread > 0 else 0.0

    def error_from_people(self, prediction: Prediction, n: float) -> float:
        """Return the error that a plan minimises: `Prediction.expected_error` of n reports.

        Reports that take more than `MOST_REPEATED` from the prior come after all others.
        """
        again = self.repeated(prediction)
        return prediction.expected_error(n) + (_AFTER_ALL * again if again > MOST_REPEATED else 0)

    def prediction(self, moments: Callable[[Nodes], tuple[Array, Array]]) -> Prediction:
        """Return the error of reports from their mean and variance at nodes, (m,) each."""

        def at(nodes: Nodes) -> Prediction:
            mean, variance = moments(nodes)
            law = (nodes.truth, nodes.weights, nodes.prior.size, nodes.again)
            return predicted(mean, variance, *law)

        return replace(at(self.nodes), scenarios=tuple(map(at, self.scenarios)))


def nodes_near(question: PopulationMean, prior: Prior, near: float) -> tuple[Array, Array]:
    """Return points and weights of a prior, in cells as short as `near` where a question varies."""
    if prior.dimension > 1 or not prior.continuous:
        return prior.nodes()
    breaks = np.append(mesh(question.clearance, _around(prior), near), question.ends)
    return prior.nodes(distinct(breaks).tolist())


def mesh(clearance: Callable[[Array], Array], interval: tuple[float, float], near: float) -> Array:
    """Return increasing edges of cells, short where the question varies and longer farther away.

    Args:
        clearance: see `PopulationMean.clearance`; vectorised.
        interval: ends of the first cell.
        near: the shortest length over which reports vary.
    """
    edges, low, high = [np.array(interval)], *(np.array([end]) for end in interval)
    while len(low) and sum(map(len, edges)) < _MOST:
        middle, length = (low + high) / 2, high - low
        away = clearance(middle) - length / 2  # of all points of the cell
        cut = length > np.maximum(_FINE * near, _FARTHER * away)
        edges.append(middle[cut])
        low, high = np.append(low[cut], middle[cut]), np.append(middle[cut], high[cut])
    return np.sort(np.concatenate(edges))


def _around(prior: Prior) -> tuple[float, float]:
    """Return an interval that contains a prior on the line, with a margin on either side."""
    points, _ = prior.nodes()
    low, high = float(points.min()), float(points.max())
    room = max(high - low, 1e-9 * max(abs(low), abs(high)), 1e-50)
    return low - room, high + room
