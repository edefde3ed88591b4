"""What a plan says, as plain numbers: tables and JSON are both made of these."""

import math
from typing import Any

from geoveil.analyst.nearest import repeated
from geoveil.analyst.plan_files import shape_of
from geoveil.analyst.planner import ALLOCATIONS, Allocated, Alternative, Comparison, Plan
from geoveil.analyst.planner.kinds import fits_campaigns
from geoveil.analyst.planner.prediction import NORMAL_95
from geoveil.analyst.request import PlanRequest
from geoveil.gp import GeoPrivacy

DISTANCES = (1, 2, 5)
"""Multiples of `per` at which privacy is put into words."""
Record = dict[str, Any]


def plan_report(request: PlanRequest, found: Plan, least: float | None) -> Record:
    """Return all that is said of one question.

    Args:
        request: what was asked for.
        found: its plan.
        least: the noise that no unbiased mechanism can beat; None if it is not known.
    """
    n, choice = found.n, found.choice
    return {
        **_heading(request),
        "question": request.labels[0],
        "choice": choice.kind,
        "reason": found.reason,
        "from_prior": repeated(found),
        "alternatives": [_alternative(a, found) for a in found.alternatives],
        "errors": [
            {"participants": people, "error_95": margin, "share_of_bias": share}
            for people, margin, share in found.at(several(n))
        ],
        "bound": None if least is None else _bound(found, least),
    }


def comparison_report(request: PlanRequest, found: Comparison) -> Record:
    """Return all that is said of several questions."""
    best = request.chosen(found)
    rows = [_allocation(row, best, request.privacy) for row in found.rows]
    return {
        **_heading(request),
        "questions": [
            {"question": label, "error_95": NORMAL_95 * math.sqrt(error)}
            for label, error in zip(request.labels, best.errors, strict=True)
        ],
        "choice": best.allocation,
        "asked_for": request.allocation is not None,
        "channels": request.channels,
        "crossover": found.crossover,
        "allocations": rows,
        "errors": [
            {"participants": people, "error_95": typical_error(best, people, found.questions)}
            for people in several(found.n)
        ],
    }


def odds(privacy: GeoPrivacy) -> list[Record]:
    """Return how far a report can move somebody who finds two values equally likely.

    By Bayes' rule even odds become at most e^{εk} : 1 for two values k distances apart, which is a
    probability of 1/(1 + e^{−εk}).

    Example:
        >>> [round(row["probability"], 3) for row in odds(GeoPrivacy(1.0, per=8_000.0))]
        [0.731, 0.881, 0.993]
    """
    return [
        {
            "distance": times * privacy.per,
            "epsilon": privacy.at(times * privacy.per),
            "probability": 1 / (1 + math.exp(-privacy.at(times * privacy.per))),
            "other_probability": 1 / (1 + math.exp(min(privacy.at(times * privacy.per), 700.0))),
        }
        for times in DISTANCES
    ]


def several(n: int) -> list[int]:
    """Return numbers of people around n, from a tenth to ten times as many."""
    return sorted({max(round(n * factor), 1) for factor in (0.1, 0.3, 1, 3, 10)})


def typical_error(row: Allocated, n: int, questions: int) -> float:
    """Return 1.96 times the root of the mean squared error over the questions."""
    error = ALLOCATIONS[row.allocation].error
    total = math.fsum(error(p, n, questions) for p in row.predictions)
    return NORMAL_95 * math.sqrt(total / len(row.predictions))


def _heading(request: PlanRequest) -> Record:
    return {
        "privacy": {
            "epsilon": request.privacy.epsilon,
            "per": request.privacy.per,
            "unit": request.privacy.unit,
        },
        "participants": request.participants,
        "prior": {"name": request.source.name, "worth_people": _finite(request.prior.size)},
        "odds": odds(request.privacy),
    }


def _alternative(a: Alternative, found: Plan) -> Record:
    error, best = (x.prediction.expected_error(found.n) for x in (a, found.choice))
    profile, center, width = shape_of(a.query)
    return {
        "mechanism": a.kind,
        "parameters": dict(a.parameters),
        "profile": profile,
        "center": center,
        "width": width,
        "error_95": _finite(a.prediction.margin(found.n)),
        "share_of_bias": a.prediction.share_of_bias(found.n),
        "times": _finite(error / best) if best else 1.0,
        "keeps_promise": a.satisfies_guarantee,
        "campaign": a.satisfies_guarantee and fits_campaigns(a.kind),
    }


def _allocation(row: Allocated, chosen: Allocated, privacy: GeoPrivacy) -> Record:
    total, best = row.total_error, chosen.total_error
    return {
        "allocation": row.allocation,
        "mechanisms": sorted(set(row.kinds)),
        "epsilon": row.in_all.epsilon,
        "typical_error_95": NORMAL_95 * math.sqrt(total / len(row.errors)),
        "worst_error_95": NORMAL_95 * math.sqrt(max(row.errors)),
        "times": total / best if best else 1.0,
        "same_promise": row.in_all.exact_rate <= privacy.scaled(1 + 1e-9).exact_rate,
    }


def _bound(found: Plan, least: float) -> Record:
    noise = found.choice.prediction.noise
    return {"noise": noise, "least": least, "within_percent": 100 * (noise / least - 1)}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
