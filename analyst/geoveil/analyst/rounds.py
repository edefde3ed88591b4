"""Two rounds, a pilot and a campaign planned from it, against one: what a plan would gain."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.pilot import PilotPrior
from geoveil.analyst.planner import Alternative, HardQuestion, Plan, plan
from geoveil.analyst.request import PlanRequest
from geoveil.analyst.statistics.smoothed import LEAST_REPORTS, MOST_CELLS, PER_SCALE, transition
from geoveil.gp import ParameterError

Array = NDArray[np.float64]

SPLITS = (0.01, 0.03, 0.1, 0.3)
"""Parts of the people that are tried as a pilot."""
_SEED = 1
_READING = ("DebiasedLaplace",)
"""Noise on a number before the step: perturbed numbers, read at a band, have that of it."""


@dataclass(frozen=True)
class TwoRounds:
    """How far 95 % intervals for the hard question reach, for the same people in all."""

    pilot: int
    """People in the pilot, of the best split that was tried."""
    main: int
    """People in the campaign that is planned from it."""
    error_95: float
    """Half the width of the interval that the second campaign gives."""
    one_round: float
    """That of a campaign planned from the prior, and for its scenarios."""
    points: float
    """That of one value campaign, its band chosen from its own reports as from a pilot's."""


def two_rounds(request: PlanRequest, found: Plan) -> TwoRounds:
    """Return what a pilot would gain, by drawing one from the prior.

    Args:
        request: of one hard question about numbers, with at least 10,000 people.
        found: its plan for one round.

    Raises:
        ParameterError: if it is another question, or there are fewer people.
    """
    if not isinstance(found.question, HardQuestion) or found.question.dimension != 1:
        raise ParameterError("two_rounds", True, "left out unless a hard share of numbers is asked")
    if request.prior.assumed is not None:
        told = "left out beside a bound on the slope: a pilot says more of it"
        raise ParameterError("two_rounds", True, told)
    if found.n * SPLITS[0] < LEAST_REPORTS:
        fewest = round(LEAST_REPORTS / SPLITS[0])
        raise ParameterError("participants", found.n, f"at least {fewest:,} for two rounds")
    ways = [(round(share * found.n), found.n) for share in SPLITS]
    errors = [
        _planned_from(request, found, pilot, n - pilot).prediction.margin(n - pilot)
        for pilot, n in ways
    ]
    best = int(np.argmin(errors))
    pilot, n = ways[best]
    alone = _planned_from(request, found, n, n).prediction.margin(n)
    return TwoRounds(pilot, n - pilot, errors[best], found.choice.prediction.margin(n), alone)


def _planned_from(request: PlanRequest, found: Plan, pilot: int, people: int) -> Alternative:
    """Return the choice for so many people, from a pilot that is drawn of the prior."""
    scale, nodes = found.problem.scale, found.problem.nodes
    edges = _cells_of(nodes.points, scale)
    law = transition(edges, scale)
    inside = np.clip(nodes.points, edges[0], edges[-1])
    expected = law @ np.histogram(inside, edges, weights=nodes.weights)[0]
    counts = np.random.default_rng(_SEED).multinomial(pilot, expected / expected.sum())
    prior = PilotPrior.of_counts(edges, law, counts)
    return plan(found.question, request.plane_privacy, prior, people, kinds=_READING).choice


def _cells_of(people: Array, scale: float) -> Array:
    """Return the edges of cells that a pilot of such people would have."""
    width = scale / PER_SCALE
    middle = round(float(np.median(people)) / width)
    low = max(math.floor(float(people.min()) / width), middle - MOST_CELLS // 2)
    high = min(math.ceil(float(people.max()) / width), middle + MOST_CELLS // 2)
    return np.arange(low, max(high, low + 1) + 1, dtype=np.float64) * width
