"""Repeated plans while an analyst explores questions, with a cache of shared results.

    session = PlanningSession(source)
    wish = {"epsilon": 1.0, "per": 8_000.0, "participants": 50_000}
    session.forecast(session.request([ShareAbove(100_000)], **wish))    # as a slider moves
    session.plan(session.request([ShareAbove(100_000)], **wish))        # where it came to rest

A forecast is a plan without its slow parts: perturbed places, and the search for the nearest wish
that can be met, are left to the plan. It states whether the plan could choose differently; if both
choose the same, they have the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from geoveil.analyst.feasible_alternatives import (
    check_people,
    check_prior,
    compared,
    excess,
    excess_of_all,
)
from geoveil.analyst.planner.allocation import Searches
from geoveil.analyst.planner.candidates import POINTS
from geoveil.analyst.planner.plan import CLOSE, planned
from geoveil.analyst.planning import (
    PlannedQuestion,
    PlannedQuestions,
    kinds_for,
    plan_for,
)
from geoveil.analyst.public_prior import PublicPrior
from geoveil.analyst.questions import AnalystQuestion
from geoveil.analyst.request import PlanRequest
from geoveil.gp import ParameterError

_PLANES = 4
_QUESTIONS, _GUARANTEES = 4, 6
"""Lists of questions in the cache, and guarantees of each."""
_PLANS = 64


@dataclass(frozen=True)
class Forecast:
    """A preview of a plan, computed at once."""

    planned: PlannedQuestion | PlannedQuestions
    """The plan from a few alternatives only."""
    settled: bool
    """Whether the full plan chooses the same, and so has these numbers."""
    met: bool
    """Whether it meets the request; if not, the plan is refused with the nearest wishes."""


class PlanningSession:
    """Makes repeated plans for one prior, with a cache; for one thread.

    Args:
        source: public knowledge about people.

    Example:
        >>> from geoveil.analyst import LogNormalPrior, ShareAbove
        >>> session = PlanningSession(PublicPrior.of_numbers(LogNormalPrior(11.5, 0.8), "dollar"))
        >>> wish = session.request([ShareAbove(1e5)], epsilon=1, per=8_000, participants=1_000)
        >>> forecast = session.forecast(wish)
        >>> forecast.met, forecast.settled, forecast.planned.report()["choice"]
        (True, True, 'DebiasedLaplace')
    """

    def __init__(self, source: PublicPrior) -> None:
        self._source = replace(source, make=lru_cache(_PLANES)(source.make))
        self._searches = lru_cache(_QUESTIONS)(lambda questions, prior: Searches(_GUARANTEES))
        self._plans = lru_cache(_PLANS)(self._made)

    def request(self, questions: Sequence[AnalystQuestion], **wishes: Any) -> PlanRequest:
        """Return a request for a plan.

        Args:
            questions: see `PlanRequest.of`.
            wishes: its other arguments, except the source.

        Raises:
            ParameterError: naming the parameter, its value and what is permitted.
        """
        return PlanRequest.of(questions, source=self._source, **wishes)

    def forecast(self, request: PlanRequest) -> Forecast:
        """Return a preview of the plan, in a fraction of a second.

        Raises:
            ParameterError: if it cannot be planned at all: for nobody, or if the prior determines
                the answer.
        """
        searches = self._known(request)
        check_prior(request, searches)
        check_people(request)
        alone = len(request.questions) == 1
        return self._alone(request, searches) if alone else self._together(request, searches)

    def _alone(self, request: PlanRequest, searches: Searches) -> Forecast:
        question = request.questions[0]
        search = searches.of(0, question, request.plane_privacy, request.prior)
        kinds = kinds_for(request)
        # Perturbed places take longer to predict than everything else, and seldom win.
        slow = question.dimension > 1 and len(kinds) > 1
        if slow:
            kinds = tuple(kind for kind in kinds if kind != POINTS)
        if request.mechanism is not None:
            kinds = (request.mechanism,)
        plan = planned(search, request.participants, kinds, within=CLOSE)
        return Forecast(
            PlannedQuestion(request, plan),
            settled=not slow,
            met=excess(request, plan) <= 0,
        )

    def _together(self, request: PlanRequest, searches: Searches) -> Forecast:
        comparison = compared(request, searches, request.participants)
        return Forecast(
            PlannedQuestions(request, comparison, searches),
            settled=True,
            met=excess_of_all(request, comparison, searches) <= 0,
        )

    def plan(self, request: PlanRequest) -> PlannedQuestion | PlannedQuestions:
        """Return the plan: see `plan_for`.

        Raises:
            ParameterError: if the request cannot be met, with the nearest that can.
        """
        made = self._plans(request)
        if isinstance(made, ParameterError):
            raise made.with_traceback(None)
        return made

    def _made(self, request: PlanRequest) -> PlannedQuestion | PlannedQuestions | ParameterError:
        try:
            return plan_for(request, searches=self._known(request))
        except ParameterError as error:
            return error

    def _known(self, request: PlanRequest) -> Searches:
        return self._searches(request.questions, request.prior)
