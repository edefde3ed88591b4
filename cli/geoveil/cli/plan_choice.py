"""The plan for one question, in seconds: a channel is solved only where it may help."""

from dataclasses import replace

from geoveil.cli.plan_file import ON_DEVICES
from geoveil.cli.plan_wishes import Wish
from geoveil.gp import Query, UnsupportedError
from geoveil.gp.planner import KINDS, Alternative, Plan, plan

WORTH_SOLVING = 0.05
"""Part of the squared error that a channel must be able to save."""


def planned_for(
    wish: Wish, *, restricted: bool = False, bound: bool = True
) -> tuple[Plan, float | None]:
    """Return the plan for the first question, and the noise that no unbiased mechanism can beat.

    A channel for the band that was chosen has at least the noise of the lower bound. Where even
    that would save less than a twentieth of the squared error, none is solved.

    Args:
        wish: what is asked for.
        restricted: to mechanisms that campaigns can hold.
        bound: whether to compute the bound; there is one in one dimension only.
    """
    kinds = tuple(ON_DEVICES) if restricted else tuple(KINDS)
    found = plan(wish.questions[0], wish.plane_privacy, wish.prior, wish.participants, kinds=kinds)
    least = least_noise(found) if bound else None
    if restricted or _saved(found, least) < WORTH_SOLVING:
        return found, least
    better = _with_channels(found)
    if bound and better.choice is not found.choice:
        least = least_noise(better)
    return better, least


def least_noise(found: Plan) -> float | None:
    """Return the lower bound on the noise for the query that was chosen, if it says anything."""
    if found.question.dimension != 1:
        return None
    try:
        least = found.lower_bound().value
    except UnsupportedError:
        return None
    # A biased mechanism may have less noise; the bound is not about those.
    return least if 0 < least <= found.choice.prediction.noise else None


def _saved(found: Plan, least: float | None) -> float:
    """Return which part of the squared error a channel could save; 1 if that is not known."""
    best, n = found.choice.prediction, found.n
    if least is None:
        return 1.0
    return (best.noise - least) / n / best.expected_error(n)


def _with_channels(found: Plan) -> Plan:
    """Return the plan with the best channel among the alternatives."""

    def error(a: Alternative) -> float:
        return a.prediction.expected_error(found.n)

    queries = [a.query for a in found.alternatives if a.keeps and isinstance(a.query, Query)]
    channels = list(found.survey.channels(queries[0])) if queries else []
    if not channels:
        return found
    best = min(channels, key=error)
    alternatives = sorted((*found.alternatives, best), key=lambda a: (not a.keeps, error(a)))
    return replace(found, alternatives=tuple(alternatives))
