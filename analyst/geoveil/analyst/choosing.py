"""How many people are needed so that the greatest of several answers is named [MATH §8]."""

import math

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.contamination import liars_in
from geoveil.analyst.plan_files import Chosen
from geoveil.analyst.planner.candidates import PointReports
from geoveil.analyst.planner.problem import PlanningProblem
from geoveil.analyst.planning import PlannedQuestions
from geoveil.analyst.request import PlanRequest
from geoveil.analyst.root_finding import boundary, enough
from geoveil.analyst.statistics.simultaneous import normal_draws
from geoveil.campaign import Allocation
from geoveil.gp import ParameterError, validation

Array = NDArray[np.float64]

_PEOPLE = 1 << 15
"""People drawn from the prior, for covariances."""
_DRAWS = 20_000
"""Draws of the errors of all estimates: a probability of 95 % is known to 0.15 points."""
_SEED = 20_260_102
_FEWEST, _MOST = 2, 1e10


def participants_to_name_the_top(
    planned: PlannedQuestions,
    count: int = 1,
    confidence: float = 0.95,
    contamination: float = 0.0,
) -> int | None:
    """Return how many people it takes so that the k greatest estimates are the true top k.

    With so many, and if people are as the prior says, the k questions with the greatest estimates
    are in that share of campaigns those with the greatest true answers. That is less than to be
    sure of them: `Top` then says who else may be.

    Args:
        planned: for several questions, with mechanisms and an allocation, which are kept.
        count: k, less than the number of questions.
        confidence: how often the top is to be named, in (0, 1).
        contamination: the fraction of the participants who may be liars, in [0, 1); it is to be
            named whatever these do.

    Returns:
        The number of people, to three digits; None if no number does, as questions asked softly
        have another order, or two are equal, or liars can make them so.

    Raises:
        ParameterError: if an argument is out of range, or there is one question only.
        UnsupportedError: if campaigns cannot hold what was chosen.
    """
    m = len(planned.request.questions)
    if not 1 <= count < m:
        raise ParameterError("count", count, f"from 1 to {m - 1}, for {m} questions")
    confidence = validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
    chosen = planned.chosen()
    truths, means = _expected(planned.request, chosen)
    top = set(np.argsort(-truths, kind="stable")[:count].tolist())
    errors = normal_draws(_covariance(planned.request, chosen), _DRAWS, _SEED)

    inside = np.isin(np.arange(m), list(top))
    moved = np.array([liars.moved for liars in liars_in(planned, contamination)])
    means = np.where(inside, means - moved, means + moved)

    def missed(n: float) -> float:
        estimates = means + errors / np.sqrt(n)
        named = estimates[:, inside].min(axis=1) > estimates[:, ~inside].max(axis=1)
        return confidence - float(named.mean())

    if missed(_FEWEST) <= 0:
        return _FEWEST
    near = boundary(missed, _FEWEST, 4.0, _MOST)
    participants = None if near is None else enough(missed, near, up=True)
    return None if participants is None else math.ceil(participants)


def _expected(request: PlanRequest, chosen: Chosen) -> tuple[Array, Array]:
    """Return the true answers under the prior, and what estimates are on average, (m,) each."""
    truths = []
    for question in request.questions:
        nodes = PlanningProblem.of(question, request.plane_privacy, request.prior).nodes
        truths.append(float(np.sum(nodes.weights * nodes.truth)))
    biases = [alternative.prediction.bias for alternative in chosen.alternatives]
    return np.array(truths), np.array(truths) + np.array(biases)


def _covariance(request: PlanRequest, chosen: Chosen) -> Array:
    """Return n times the covariance of the estimates from n people, (m, m)."""
    variances = np.array(
        [
            alternative.prediction.noise + alternative.prediction.varied
            for alternative in chosen.alternatives
        ]
    )
    several = [alternative.reports for alternative in chosen.alternatives]
    together = all(isinstance(reports, PointReports) for reports in several)
    if chosen.allocation is Allocation.PARTITION and not together:
        return np.asarray(np.diag(variances * len(variances)))
    rng = np.random.default_rng(_SEED)
    points, weights = request.prior.nodes()
    people = points[rng.choice(len(points), _PEOPLE, p=weights / weights.sum())]
    if together:
        first = several[0]
        assert isinstance(first, PointReports)
        sent = first.mechanism.simulate(people, rng)
        answers = [r.estimator.value(sent) for r in several if isinstance(r, PointReports)]
        return np.asarray(np.cov(answers))
    covariance = np.cov([reports.mean(people) for reports in several])
    return np.asarray(
        covariance + np.diag([alternative.prediction.noise for alternative in chosen.alternatives])
    )
