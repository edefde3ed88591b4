"""Wishes that cannot be met, and the nearest ones that can: found by planning for them."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn, Protocol

import numpy as np

from geoveil.analyst.planner import (
    Comparison,
    HardDisc,
    HardQuestion,
    HardThreshold,
    Plan,
    Prediction,
    Question,
    SoftQuestion,
    compare_allocations,
)
from geoveil.analyst.planner.allocation import Searches
from geoveil.analyst.planner.kinds import KINDS, POINTS
from geoveil.analyst.planner.plan import screened
from geoveil.analyst.planner.prediction import NORMAL_95
from geoveil.analyst.planner.problem import PlanningProblem
from geoveil.analyst.planner.search import Search
from geoveil.cli.plan_search import boundary, enough, rounded
from geoveil.cli.plan_wishes import Wish
from geoveil.gp import ParameterError

USELESS = 0.5
"""A 95 % error of a share that is known without asking anybody."""
MOST_REPEATED = 0.5
"""Part of what is asked that an answer may take from the prior instead of from people."""
_NOBODY = 1e-3
"""Of the people a prior is worth: fewer are nobody."""
_MOST_PEOPLE = 1e10
_LEAST_PER = 1e-9
_TINY = 1e-300
_NUDGE = 1.02
_LEADING = 3
"""Kinds that wishes are planned for, the best ones: more would be no worse."""
_CLOSE = 1.05
"""Kinds that may yet be the best when their errors are exact."""
_USUAL = "DebiasedLaplace"


def margin_wanted(wish: Wish) -> float:
    """Return the largest 95 % error that is of any use."""
    return USELESS if wish.target_error is None else min(wish.target_error, USELESS)


def repeated(found: Plan) -> float:
    """Return which part of what is asked the answer takes from the prior: 0 to 1.

    Var[m − truth]/Var[truth] over people: 0 if a report is right about everybody, on average; 1 if
    it does not depend on who sent it, so that only where the band was put makes it come out right.
    """
    return _repeated(found.problem, found.choice.prediction)


def _repeated(problem: PlanningProblem, prediction: Prediction) -> float:
    if not isinstance(problem.question, HardQuestion):
        return 0.0
    share = float(np.sum(problem.nodes.weights * problem.nodes.truth))
    return min(prediction.bias_variance / (share * (1 - share)), 1.0)


def excess(wish: Wish, found: Plan) -> float:
    """Return by how much a plan misses what was wished for: a logarithm, ≤ 0 if it does not."""
    return _excess(wish, found.problem, found.choice.prediction, found.n)


def _excess(wish: Wish, problem: PlanningProblem, prediction: Prediction, n: float) -> float:
    margin = prediction.margin(n) / margin_wanted(wish)
    return math.log(max(margin, _repeated(problem, prediction) / MOST_REPEATED, _TINY))


def check_prior(wish: Wish) -> None:
    """Refuse questions of which the prior knows the answer: nobody, or everybody.

    Raises:
        ParameterError: with the nearest question to which the answer is open.
    """
    for label, question in zip(wish.labels, wish.questions, strict=True):
        nodes = PlanningProblem.of(question, wish.plane_privacy, wish.prior).nodes
        points, weights = nodes.points, nodes.weights
        share = float(np.sum(weights * nodes.truth))
        people = min(wish.prior.size, 1e12)
        if min(share, 1 - share) * people >= _NOBODY:
            continue
        who = "nobody" if share < 0.5 else "everybody"
        nearest = _NEAREST.get(type(question), _near_values)(question, points, weights, people)
        raise ParameterError(
            "question",
            label,
            f"one with an open answer: to {wish.source.name} it is {who}. {nearest}",
        )


def _near_threshold(_: Question, x: np.ndarray, weights: np.ndarray, people: float) -> str:
    low, high = _span(x, weights, people)
    return f"--above in [{low:.15g}, {high:.15g}) would do"


def _near_values(_: Question, x: np.ndarray, weights: np.ndarray, people: float) -> str:
    if x.ndim > 1:
        return "Ask about a region or a place where it has some, and not all"
    low, high = _span(x, weights, people)
    return f"Its values are from {low:.15g} to {high:.15g}"


def _near_disc(question: Question, x: np.ndarray, weights: np.ndarray, people: float) -> str:
    assert isinstance(question, HardDisc)
    distance = np.linalg.norm(x - np.array(question.center), axis=-1)
    low, high = _span(distance, weights, people)
    return f"A radius from {rounded(low, up=True):.15g} to {rounded(high, up=False):.15g} would do"


def _span(x: np.ndarray, weights: np.ndarray, people: float) -> tuple[float, float]:
    """Return the least and greatest number that anybody has."""
    order = np.argsort(x)
    below = np.cumsum(weights[order]) * people
    first = int(np.searchsorted(below, _NOBODY))
    last = int(np.searchsorted(below, people - _NOBODY))
    return float(x[order][first]), float(x[order][min(last, len(x) - 1)])


_NEAREST: Mapping[type, Callable[[Question, np.ndarray, np.ndarray, float], str]] = (
    MappingProxyType({HardThreshold: _near_threshold, HardDisc: _near_disc})
)


def check_people(wish: Wish) -> None:
    """Refuse a plan for nobody.

    Raises:
        ParameterError: with how many people would do.
    """
    if wish.participants > _MOST_PEOPLE:
        raise ParameterError("--participants", wish.participants, f"at most {_MOST_PEOPLE:,.0f}")
    if wish.participants >= 1:
        return
    least = None
    if len(wish.questions) == 1:
        problem = PlanningProblem.of(wish.questions[0], wish.plane_privacy, wish.prior)
        least = least_people(wish.but(participants=1), Search(problem), (_USUAL,))
    more = "" if least is None else f"; {least:,} would do for {_what(wish)}"
    raise ParameterError("--participants", wish.participants, f"an integer >= 1{more}")


def check_plan(wish: Wish, found: Plan) -> None:
    """Refuse a plan that is not what was wished for.

    Raises:
        ParameterError: with the nearest wishes that can be met: more people, or less privacy.
    """
    if excess(wish, found) <= 0:
        return
    kinds = _cheap(found)
    people, per = least_people(wish, found.search, kinds), largest_per(wish, found.search, kinds)
    ways = [] if people is None else [f"--participants at least {people:,}"]
    if per is not None:
        unit = wish.privacy.unit
        epsilon = rounded(wish.privacy.epsilon * wish.privacy.per / per, up=True)
        ways.append(f"--per at most {per:.15g} {unit}".rstrip())
        ways.append(f"--epsilon at least {epsilon:.15g}")
    margin = found.choice.prediction.margin(found.n)
    if wish.target_error is not None and margin > wish.target_error:
        least = rounded(margin, up=True)
        _refuse("--target-error", wish.target_error, f"at least {least:.15g}", ways)
    why = (
        f"±{margin:.2g} is known without asking"
        if margin > USELESS
        else f"{repeated(found):.0%} of the answer would be the prior's, not people's"
    )
    _refuse("--epsilon", wish.privacy.epsilon, f"larger to be of use: {why}", ways)


def check_comparison(wish: Wish, found: Comparison, searches: Searches) -> None:
    """Refuse allocations of which none is what was wished for.

    Args:
        wish: what was asked for.
        found: the comparison.
        searches: that it was made with.

    Raises:
        ParameterError: with how many people would do.
    """
    wanted = margin_wanted(wish)
    alone = [PlanningProblem.of(q, wish.plane_privacy, wish.prior) for q in wish.questions]

    def from_prior(of: Comparison) -> float:
        predictions = wish.chosen(of).predictions
        return max(_repeated(s, p) for s, p in zip(alone, predictions, strict=True))

    def excess_of(of: Comparison) -> float:
        return math.log(max(_worst(wish, of) / wanted, from_prior(of) / MOST_REPEATED, _TINY))

    def missed(n: float) -> float:
        again = compare_allocations(
            wish.questions, wish.plane_privacy, wish.prior, math.ceil(n), searches=searches
        )
        return excess_of(again)

    if excess_of(found) <= 0:
        return
    people = boundary(missed, wish.participants, 4.0, _MOST_PEOPLE / 4)
    ways = []
    if people is not None:
        ways.append(f"--participants at least {enough(missed, people, up=True):,.0f}")
    worst = _worst(wish, found)
    if wish.target_error is not None and worst > wish.target_error:
        least = f"at least {rounded(worst, up=True):.15g} for all of them"
        _refuse("--target-error", wish.target_error, least, ways)
    why = (
        f"±{worst:.2g} is known without asking"
        if worst > USELESS
        else f"{from_prior(found):.0%} of an answer would be the prior's, not people's"
    )
    _refuse("--epsilon", wish.privacy.epsilon, f"larger to be of use: {why}", ways)


def _worst(wish: Wish, found: Comparison) -> float:
    """Return the largest 95 % error of the allocation that is chosen."""
    return NORMAL_95 * math.sqrt(max(wish.chosen(found).errors))


def least_people(wish: Wish, search: Search, kinds: Sequence[str]) -> int | None:
    """Return how many people meet the wish, to three digits; None if no number does.

    Args:
        wish: with a number of people that does not.
        search: for its question.
        kinds: of mechanisms.
    """

    def missed(n: float, *, exact: bool = True) -> float:
        return _missed(wish, search, math.ceil(n), kinds, exact=exact)

    if missed(wish.participants) <= 0:
        return wish.participants
    found = _settled(missed, wish.participants, 4.0, _MOST_PEOPLE / 4)
    return None if found is None else math.ceil(found)


def largest_per(wish: Wish, search: Search, kinds: Sequence[str]) -> float | None:
    """Return which distance meets the wish, to three digits; None if none does."""

    def missed(per: float, *, exact: bool = True) -> float:
        other = Search(search.problem.under(wish.but(per=per).plane_privacy))
        return _missed(wish, other, wish.participants, kinds, exact=exact)

    return _settled(missed, wish.privacy.per, 0.5, wish.privacy.per * _LEAST_PER)


class _Missed(Protocol):
    def __call__(self, number: float, /, *, exact: bool = True) -> float: ...


def _settled(missed: _Missed, start: float, factor: float, end: float) -> float | None:
    """Return the first number that will do: looked for by what screening says, then verified."""

    def quickly(number: float) -> float:
        return missed(number, exact=False)

    try:
        near = boundary(quickly, start, factor, end)
        if near is None:
            return None
        slope = (quickly(near * _NUDGE) - quickly(near)) / math.log(_NUDGE)
        near *= math.exp(-missed(near) / slope) if slope else 1.0
        return enough(missed, near, up=factor > 1)
    except ParameterError:  # the distance is out of all proportion to the question
        return None


def _cheap(found: Plan) -> tuple[str, ...]:
    """Return the kinds among those of a plan that are quickly predicted; more are no worse."""
    kinds = [a.kind for a in found.alternatives if a.satisfies_guarantee and a.kind in KINDS]
    quick = [k for k in kinds if k != POINTS or found.question.dimension == 1]
    return tuple(quick[:_LEADING]) or (_USUAL,)


def _missed(wish: Wish, search: Search, n: int, kinds: Sequence[str], *, exact: bool) -> float:
    """Plan again: for the best, or for what screening takes for the best."""

    def error(prediction: Prediction) -> float:
        return prediction.expected_error(n)

    if exact:
        found = screened(search, kinds, error, within=_CLOSE)
        best = [a.prediction for a in found if a.satisfies_guarantee][:1]
    elif isinstance(search.problem.question, SoftQuestion):
        best = [a.prediction for kind in kinds for a in search.asked_softly(kind)]
    else:
        tried = (search.best_band(kind, error) for kind in kinds)
        best = [candidate.prediction for candidate in tried if candidate is not None]
    return _excess(wish, search.problem, min(best, key=error), n) if best else math.inf


def _what(wish: Wish) -> str:
    return "an answer of use" if wish.target_error is None else f"±{wish.target_error:g}"


def _refuse(name: str, value: object, expected: str, ways: list[str]) -> NoReturn:
    others = f"; or {', or '.join(ways)}" if ways else "; nothing else would do"
    raise ParameterError(name, value, expected + others)
