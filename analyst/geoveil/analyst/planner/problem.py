"""The problem of planning: a question, a guarantee, and a prior with nodes where it matters.

Every stage of a plan is a function of it and changes nothing in it.

Nodes of a prior that is a density on the line are densest where the question varies. A question
gives a lower bound of a point's distance from there (`clearance`), and the places where it jumps
(`ends`). So a shorter interval around the point is finished at once, and other intervals are
halved: no place is missed, however narrow.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from geoveil.analyst.planner.candidates import ReportLaw
from geoveil.analyst.planner.prediction import Prediction, predicted
from geoveil.analyst.planner.priors import Prior
from geoveil.analyst.planner.question import HardQuestion, PopulationMean
from geoveil.gp import Array, GeoPrivacy, ParameterError, distinct, validation

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
            points, weights = nodes_near([question], law, near)
            drawn = [nodes_near([question], other, near)[1] for other in law.again]
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


def check_promise(privacy: object, prior: object) -> None:
    """Refuse a guarantee that no plan can use.

    Raises:
        ParameterError: if they are not a guarantee and a prior.
    """
    validation.require_kind("privacy", privacy, GeoPrivacy)
    if not isinstance(prior, Prior):
        raise ParameterError("prior", prior, "a Prior, for example SamplePrior(values)")


def nodes_near(
    questions: Sequence[PopulationMean], prior: Prior, near: float
) -> tuple[Array, Array]:
    """Return points and weights of a prior, dense where one of the questions varies.

    Args:
        questions: of the prior's dimension.
        prior: unless it is a density on the line, its nodes are fixed.
        near: the shortest length over which reports vary.
    """
    if prior.dimension > 1 or not prior.continuous:
        return prior.nodes()

    def clearance(points: Array) -> Array:
        return np.asarray(np.min([q.clearance(points) for q in questions], axis=0))

    breaks = [mesh(clearance, _around(prior), near)]
    breaks += [np.array(q.ends, np.float64) for q in questions]
    return prior.nodes(distinct(np.concatenate(breaks)).tolist())


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
