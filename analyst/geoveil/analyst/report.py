"""The report of a plan as plain numbers, for tables and JSON."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from geoveil.analyst.campaigns import slack_of
from geoveil.analyst.hard_question import reach
from geoveil.analyst.plan_files import shape_of
from geoveil.analyst.planner import (
    ALLOCATIONS,
    KINDS,
    NORMAL_95,
    Allocated,
    Alternative,
    Comparison,
    DoubtedPrior,
    HardQuestion,
    Plan,
    PlanningProblem,
    PopulationMean,
    Prediction,
    Targets,
)
from geoveil.analyst.public_prior import scaled
from geoveil.analyst.request import PlanRequest
from geoveil.analyst.results import finite
from geoveil.gp import GeoPrivacy, reach_at_all_looks

AS_EXPECTED = "as the prior says"
"""The name of the case in which the prior is right."""
UNSTATED_SCALE = 0.1
"""Fraction by which values are lower or higher in the default scenarios."""
DISTANCES = (1, 2, 5)
"""Multiples of `per` at which the report explains privacy."""
Record = dict[str, Any]


def plan_report(request: PlanRequest, found: Plan) -> Record:
    """Return the report on one question."""
    n, choice, prediction = found.n, found.choice, found.choice.prediction
    return {
        **_heading(request),
        "question": request.labels[0],
        "choice": choice.kind,
        "uses_delta": KINDS[choice.kind].has_slack,
        "reason": found.reason,
        "from_prior": found.problem.repeated(prediction),
        "targets": _targets(prediction.targets(n), found.question),
        "price_of_privacy": _price(prediction.targets(n), n),
        "scenarios": _scenarios_of(request, found),
        "alternatives": [_alternative(a, found, request) for a in found.alternatives],
        "errors": [
            {
                "participants": people,
                "error_95": prediction.margin(people),
                "share_of_bias": prediction.share_of_bias(people),
                "targets": _targets(prediction.targets(people), found.question),
            }
            for people in several(n)
        ],
    }


def comparison_report(request: PlanRequest, found: Comparison) -> Record:
    """Return the report on several questions."""
    best = request.chosen(found)

    def best_error(p: Prediction) -> float:
        return ALLOCATIONS[best.allocation].error(p, found.n, found.questions)

    rows = [_allocation(row, best, request.privacy) for row in found.rows]
    return {
        **_heading(request),
        "questions": [
            {
                "question": label,
                "error_95": targets.hard_question,
                "targets": _targets(targets, question),
                "price_of_privacy": _price(targets, found.n),
                "scenarios": _scenarios(request.prior.scenarios, prediction, found.n, best_error),
            }
            for label, question, targets, prediction in zip(
                request.labels, request.questions, best.targets, best.predictions, strict=True
            )
        ],
        "choice": best.allocation,
        "uses_delta": any(KINDS[kind].has_slack for kind in best.kinds),
        "asked_for": request.allocation is not None,
        "crossover": found.crossover,
        "allocations": rows,
        "errors": [
            {"participants": people, "error_95": typical_error(best, people, found.questions)}
            for people in several(found.n)
        ],
    }


def odds(privacy: GeoPrivacy) -> list[Record]:
    """Return how certain a report can make somebody who finds two values equally likely.

    By Bayes' rule, even odds become at most e^{εk} : 1 for two values k distances apart, that is,
    a probability of 1/(1 + e^{−εk}).

    Example:
        >>> [round(row["probability"], 3) for row in odds(GeoPrivacy(1.0, per=8_000.0))]
        [0.731, 0.881, 0.993]
    """
    distances = [times * privacy.per for times in DISTANCES]
    return [
        {
            "distance": distance,
            "epsilon": epsilon,
            "probability": 1 / (1 + math.exp(-epsilon)),
            "other_probability": 1 / (1 + math.exp(min(epsilon, 700.0))),
        }
        for distance, epsilon in zip(distances, map(privacy.at, distances), strict=True)
    ]


def several(n: int) -> list[int]:
    """Return numbers of people from a tenth of n to ten times n."""
    return sorted({max(round(n * factor), 1) for factor in (0.1, 0.3, 1, 3, 10)})


def typical_error(row: Allocated, n: int, questions: int) -> float:
    """Return 1.96 times the root of the mean squared error over the questions."""
    error = ALLOCATIONS[row.allocation].error
    return _typical([p.targets(n, lambda p: error(p, n, questions)) for p in row.predictions])


def _typical(targets: Sequence[Targets]) -> float:
    return math.sqrt(math.fsum(t.hard_question**2 for t in targets) / len(targets))


def _targets(targets: Targets, question: PopulationMean) -> Record:
    """Return the three targets; a soft question has no hard target."""
    hard = targets.hard_question if isinstance(question, HardQuestion) else None
    return {
        "participants": {"error_95": finite(targets.participants)},
        "population": {"error_95": finite(targets.population)},
        "hard_question": None if hard is None else {"error_95": finite(hard)},
    }


def _price(targets: Targets, n: int) -> Record | None:
    """Return the price of privacy, and how many people would do without noise; None if none would.

    If a question has the same answer for everybody, nobody needs to be asked without noise.
    """
    price = targets.price_of_privacy
    if not math.isfinite(price):
        return None
    return {"variance_ratio": price, "participants_in_the_clear": round(n / price)}


def _heading(request: PlanRequest) -> Record:
    return {
        "privacy": {
            "epsilon": request.privacy.epsilon,
            "per": request.privacy.per,
            "unit": request.privacy.unit,
            **slack_of(request.privacy),
        },
        **({} if request.scale is None else {"ratios_from": request.scale.floor}),
        "participants": request.participants,
        "times_at_all_looks": reach_at_all_looks(request.participants, 0.95) / NORMAL_95,
        "prior": {
            "name": request.source.name,
            "worth_people": finite(request.prior.size),
            "caution": request.source.caution,
        },
        "odds": odds(request.privacy),
    }


def _alternative(a: Alternative, found: Plan, request: PlanRequest) -> Record:
    error, best = (x.prediction.expected_error(found.n) for x in (a, found.choice))
    profile, center, width = shape_of(a.query)
    return {
        "mechanism": a.kind,
        "parameters": dict(a.parameters),
        "profile": profile,
        "center": request.held(center).tolist(),
        "width": None if width is None else float(request.held(width)),
        "error_95": finite(a.prediction.margin(found.n)),
        "share_of_bias": a.prediction.share_of_bias(found.n),
        "times": finite(error / best) if best else 1.0,
    }


def _allocation(row: Allocated, chosen: Allocated, privacy: GeoPrivacy) -> Record:
    total, best = row.total_error, chosen.total_error
    return {
        "allocation": row.allocation,
        "mechanisms": sorted(set(row.kinds)),
        "epsilon": row.in_all.epsilon,
        "typical_error_95": _typical(row.targets),
        "worst_error_95": max(targets.hard_question for targets in row.targets),
        "times": total / best if best else 1.0,
        "same_promise": row.in_all.exact_rate <= privacy.scaled(1 + 1e-9).exact_rate,
    }


def _scenarios_of(request: PlanRequest, found: Plan) -> Record | None:
    """Return the errors of the choice in the scenarios of the prior.

    For a hard question about numbers without scenarios, the report shows the errors if numbers are
    a tenth lower or higher; the campaign signs nothing about that.
    """
    prediction, names = found.choice.prediction, list(request.prior.scenarios)
    stated = bool(names)
    if not stated:
        if not isinstance(found.question, HardQuestion) or found.question.dimension != 1:
            return None
        doubted = DoubtedPrior(request.prior, scaled(request.prior, UNSTATED_SCALE))
        problem = PlanningProblem.of(found.question, found.privacy, doubted)
        prediction, names = problem.predict(found.choice.reports), list(doubted.scenarios)
    shown = _scenarios(names, prediction, found.n, stated=stated)
    return None if shown is None else {**shown, "stated": stated}


def _scenarios(
    names: Iterable[str],
    prediction: Prediction,
    n: int,
    error: Callable[[Prediction], float] | None = None,
    *,
    stated: bool = True,
) -> Record | None:
    """Return the errors in each scenario, and the name of the worst; None without scenarios.

    Args:
        prediction: with as many scenarios, or none.
        error: see `Prediction.targets`.
        stated: whether the plan allows for all of them; else, not for the worst.
    """
    if not prediction.scenarios:
        return None
    expected = prediction.targets(n, error).population
    rows: list[Record] = []
    for name, p in zip(
        (AS_EXPECTED, *names), (prediction.believed, *prediction.scenarios), strict=True
    ):
        population = p.targets(n, error).population
        hard = reach(population / NORMAL_95, prediction.bias_bound(p))
        people = n * (population / expected) ** 2 if 0 < expected < math.inf else n
        rows.append(
            {
                "scenario": name,
                "bias": p.bias,
                "population": {"error_95": finite(population)},
                "hard_question": {"error_95": finite(hard)},
                "participants": math.ceil(people),
            }
        )
    doubted = rows if stated else rows[1:]
    worst = max(doubted, key=lambda row: row["hard_question"]["error_95"] or math.inf)
    return {"worst": worst["scenario"], "rows": rows}
