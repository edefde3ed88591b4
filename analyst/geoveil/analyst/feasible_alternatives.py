"""Find the nearest feasible requests to one that cannot be met, by planning them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from geoveil.analyst.planner import (
    CLOSE,
    DEBIASED,
    KINDS,
    MOST_REPEATED,
    POINTS,
    Comparison,
    HardDisc,
    HardQuestion,
    HardThreshold,
    Plan,
    PlanningProblem,
    PopulationMean,
    Prediction,
    Search,
    Searches,
    Targets,
    compare_allocations,
    screened,
)
from geoveil.analyst.request import PlanRequest, first_enough, rounded
from geoveil.gp import ParameterError

USELESS = 0.5
"""The 95 % error of a share that is known without asking anybody."""
_NOBODY = 1e-3
"""A share of the people behind a prior below which it counts as nobody."""
_MOST_PEOPLE = 1e10
_LEAST_PER = 1e-9
_TINY = 1e-300
_LEADING = 3
"""How many of the best kinds are planned for a request; more would not help."""


class UnmetWishError(ParameterError):
    """A wish that cannot be met, and the nearest that can.

    Args:
        name: the parameter that asks too much: "target_error" or "epsilon".
        expected: its permitted range.
        others: changes of which each suffices alone: name → the least number of participants or ε,
            or the largest `per`.
        least: the least feasible `target_error`, if that is the parameter.

    Attributes:
        nearest: name → a number that is feasible in place of the requested one.
    """

    def __init__(
        self,
        request: PlanRequest,
        name: str,
        expected: str,
        others: Mapping[str, float],
        least: float | None = None,
    ) -> None:
        unit = request.privacy.unit
        if request.scale is not None and "per" in others:  # rounded down: its logarithm will do
            factor = 1 + rounded(math.expm1(others["per"]), up=False)
            others, unit = {**others, "per": factor}, ""
        changes = [_SAID[other].format(number, unit).rstrip() for other, number in others.items()]
        ways = f"; or {', or '.join(changes)}" if changes else "; nothing else would do"
        value = request.target_error if name == "target_error" else request.privacy.epsilon
        super().__init__(name, value, expected + ways)
        own = {} if least is None else {name: least}
        self.nearest: Mapping[str, float] = MappingProxyType({**own, **others})


_SAID: Mapping[str, str] = MappingProxyType(
    {
        "participants": "participants at least {:,.0f}",
        "per": "per at most {:.15g} {}",
        "epsilon": "epsilon at least {:.15g}",
    }
)


def times_wanted(request: PlanRequest, targets: Targets) -> float:
    """Return the 95 % error over the wanted one, at most 1 if it is met.

    The desired error is for the population, as an estimate will print it; with the bias of the soft
    question, the error must still be useful.
    """
    wanted = math.inf if request.target_error is None else request.target_error
    return max(targets.population / wanted, targets.hard_question / USELESS)


def excess(request: PlanRequest, found: Plan) -> float:
    """Return the logarithm of how much a plan misses its request, ≤ 0 if it does not."""
    return _excess(request, found.problem, found.choice.prediction, found.n)


def _excess(
    request: PlanRequest, problem: PlanningProblem, prediction: Prediction, n: float
) -> float:
    times = times_wanted(request, prediction.targets(n))
    return math.log(max(times, problem.repeated(prediction) / MOST_REPEATED, _TINY))


def check_prior(request: PlanRequest, searches: Searches) -> None:
    """Refuse questions that the prior answers: nobody, or everybody; name the nearest open one."""
    for i, (label, question) in enumerate(zip(request.labels, request.questions, strict=True)):
        nodes = searches.of(i, question, request.plane_privacy, request.prior).problem.nodes
        points, weights = nodes.points, nodes.weights
        share = float(np.sum(weights * nodes.truth))
        people = min(request.prior.size, 1e12)
        if min(share, 1 - share) * people >= _NOBODY:
            continue
        who = "nobody" if share < 0.5 else "everybody"
        held = request.held(points)
        nearest = _nearest(question, held, weights, people)
        raise ParameterError(
            "question",
            label,
            f"one to which some say yes and some no: of {request.source.name}, {who} says yes."
            f" {nearest}",
        )


def _nearest(question: PopulationMean, x: np.ndarray, weights: np.ndarray, people: float) -> str:
    """Return a sentence on the nearest question that not everybody answers alike."""
    if isinstance(question, HardDisc):
        distance = np.linalg.norm(x - np.array(question.center), axis=-1)
        low, high = _span(distance, weights, people)
        ends = f"{rounded(low, up=True):.15g} to {rounded(high, up=False):.15g}"
        return f"A radius from {ends} would do"
    if x.ndim > 1:
        return "Ask about a region or a place where it has some, and not all"
    low, high = _span(x, weights, people)
    if not isinstance(question, HardThreshold):
        return f"Its values are from {low:.12g} to {high:.12g}"
    if low == high:
        return f"All of them hold {low:.12g}, so no threshold would do"
    return f"A threshold in [{low:.12g}, {high:.12g}) would do"


def _span(x: np.ndarray, weights: np.ndarray, people: float) -> tuple[float, float]:
    """Return the least and the greatest number of anybody."""
    order = np.argsort(x)
    below = np.cumsum(weights[order]) * people
    first = int(np.searchsorted(below, _NOBODY))
    last = int(np.searchsorted(below, people - _NOBODY))
    return float(x[order][first]), float(x[order][min(last, len(x) - 1)])


def check_people(request: PlanRequest) -> None:
    """Refuse a plan for nobody, and say how many people would do."""
    if request.participants > _MOST_PEOPLE:
        raise ParameterError("participants", request.participants, f"at most {_MOST_PEOPLE:,.0f}")
    if request.participants >= 1:
        return
    least = None
    if len(request.questions) == 1:
        problem = PlanningProblem.of(request.questions[0], request.plane_privacy, request.prior)
        least = least_people(replace(request, participants=1), Search(problem), (DEBIASED,))
    wanted = request.target_error
    what = "an answer of use" if wanted is None else f"±{wanted:g}"
    more = "" if least is None else f"; {least:,} would do for {what}"
    raise ParameterError("participants", request.participants, f"an integer >= 1{more}")


def check_plan(request: PlanRequest, found: Plan) -> None:
    """Refuse a plan that misses its request; name more people, or less privacy, that would do."""
    if excess(request, found) <= 0:
        return
    kinds = _cheap(found)
    people, per = (
        least_people(request, found.search, kinds),
        largest_per(request, found.search, kinds),
    )
    nearest: dict[str, float] = {} if people is None else {"participants": people}
    if per is not None:
        epsilon = rounded(request.privacy.epsilon * request.privacy.per / per, up=True)
        nearest |= {"per": per, "epsilon": epsilon}
    targets = found.choice.prediction.targets(found.n)
    part = f"{found.problem.repeated(found.choice.prediction):.0%} of the answer"
    raise _unmet(request, [targets], nearest, part)


def compared(request: PlanRequest, searches: Searches, participants: int) -> Comparison:
    """Return the ways to share out the privacy among the questions: see `compare_allocations`."""
    return compare_allocations(
        request.questions, request.plane_privacy, request.prior, participants, searches=searches,
        mechanism=request.mechanism,
    )  # fmt: skip


def check_comparison(request: PlanRequest, found: Comparison, searches: Searches) -> None:
    """Refuse allocations if none meets the request, and say how many people would do."""
    if excess_of_all(request, found, searches) <= 0:
        return
    people = _first_people(
        request, lambda n: excess_of_all(request, compared(request, searches, n), searches)
    )
    nearest = {} if people is None else {"participants": people}
    part = f"{_from_prior(request, found, searches):.0%} of an answer"
    raise _unmet(request, request.chosen(found).targets, nearest, part, " for all of them")


def _unmet(
    request: PlanRequest,
    targets: Sequence[Targets],
    nearest: Mapping[str, float],
    part: str,
    of: str = "",
) -> UnmetWishError:
    """Return the error of a request that cannot be met.

    Args:
        nearest: see `UnmetWishError`.
        part: how much of an answer would be the prior's, in words.
        of: what the least error is of, in words.
    """
    population = max(each.population for each in targets)
    if request.target_error is not None and population > request.target_error:
        least = rounded(population, up=True)
        return UnmetWishError(request, "target_error", f"at least {least:.15g}{of}", nearest, least)
    worst = max(each.hard_question for each in targets)
    without = f"±{worst:.2g} is known without asking"
    why = without if worst > USELESS else f"{part} would be the prior's, not people's"
    return UnmetWishError(request, "epsilon", f"larger to be of use: {why}", nearest)


def excess_of_all(request: PlanRequest, found: Comparison, searches: Searches) -> float:
    """Return how much the chosen allocation misses its request: see `excess`."""
    times = max(times_wanted(request, targets) for targets in request.chosen(found).targets)
    return math.log(max(times, _from_prior(request, found, searches) / MOST_REPEATED, _TINY))


def _from_prior(request: PlanRequest, found: Comparison, searches: Searches) -> float:
    """Return the greatest part of any answer that comes from the prior."""
    privacy, prior = request.plane_privacy, request.prior
    predicted = zip(request.questions, request.chosen(found).predictions, strict=True)
    parts = (
        searches.of(i, question, privacy, prior).problem.repeated(p)
        for i, (question, p) in enumerate(predicted)
        if isinstance(question, HardQuestion)
    )
    return max(parts, default=0.0)


def least_people(request: PlanRequest, search: Search, kinds: Sequence[str]) -> int | None:
    """Return the number of people that meets the request, to three digits; None if none does."""
    return _first_people(request, lambda n: _missed(request, search, n, kinds))


def _first_people(request: PlanRequest, missed: Callable[[int], float]) -> int | None:
    first, last = request.participants, _MOST_PEOPLE / 4
    people = first_enough(lambda n: missed(math.ceil(n)), first, 4.0, last)
    return None if people is None else math.ceil(people)


def largest_per(request: PlanRequest, search: Search, kinds: Sequence[str]) -> float | None:
    """Return the distance that meets the request, to three digits; None if none does."""

    def missed(per: float) -> float:
        other = replace(request, privacy=replace(request.privacy, per=per))
        search_of_other = Search(search.problem.under(other.plane_privacy))
        return _missed(request, search_of_other, request.participants, kinds)

    start = request.privacy.per
    try:
        return first_enough(missed, start, 0.5, start * _LEAST_PER)
    except ParameterError:  # the distance is out of all proportion to the question
        return None


def _cheap(found: Plan) -> tuple[str, ...]:
    """Return those kinds of a plan that are quick to predict; the others would not help."""
    if found.wanted is not None:
        return (found.wanted,)
    kinds = [a.kind for a in found.alternatives if a.kind in KINDS]
    quick = [k for k in kinds if k != POINTS or found.question.dimension == 1]
    return tuple(quick[:_LEADING]) or (DEBIASED,)


def _missed(request: PlanRequest, search: Search, n: int, kinds: Sequence[str]) -> float:
    """Return how much a plan with the best of these kinds misses the request: see `excess`."""
    problem = search.problem
    best = screened(search, kinds, lambda p: problem.error_from_people(p, n), within=CLOSE)
    return _excess(request, problem, best[0].prediction, n) if best else math.inf
