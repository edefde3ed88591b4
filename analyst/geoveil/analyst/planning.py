"""Plan a request: one question, or several that share a person's privacy.

request = PlanRequest.of([ShareAbove(100_000)], epsilon=1, per=8_000, source=..., participants=...)
planned = plan_for(request)
planned.report()                                     # as plain numbers
planned.campaign(campaign_id="income", title="Income", opens=..., closes=...)
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geoveil.analyst.central import central_record, of_one_question
from geoveil.analyst.feasible_alternatives import (
    check_comparison,
    check_people,
    check_plan,
    check_prior,
    compared,
)
from geoveil.analyst.plan_files import (
    Chosen,
    as_if_published,
    chosen_alone,
    chosen_together,
    planned_campaign,
    write_plan,
)
from geoveil.analyst.planner import KINDS, Comparison, Plan
from geoveil.analyst.planner.allocation import Searches
from geoveil.analyst.planner.candidates import POINTS, in_words
from geoveil.analyst.planner.caps import CAPPED_WIDTH, ChosenCap, default_cap
from geoveil.analyst.planner.coarse import WIDEST
from geoveil.analyst.planner.plan import planned
from geoveil.analyst.report import Record, comparison_report, plan_report
from geoveil.analyst.request import PlanRequest
from geoveil.campaign import AttributeCampaign
from geoveil.gp import lazy


class PlanOutcome(ABC):
    """A plan that can be read, written, and turned into a campaign."""

    request: PlanRequest

    @abstractmethod
    def report(self) -> Record:
        """Return the plan's report as JSON values."""

    @abstractmethod
    def chosen(self) -> Chosen:
        """Return the parts of the campaign.

        Raises:
            UnsupportedError: if no mechanism serves all questions.
        """

    def campaign(self, **later: Any) -> AttributeCampaign:
        """Return the campaign.

        Args:
            later: campaign_id, title, opens, closes, and what else a `Campaign` has: its cap is
                `cap` unless another is given, or None.

        Raises:
            UnsupportedError: if no mechanism serves all questions.
        """
        if later.get("readings") is None and "cap" not in later and self.cap is not None:
            later["cap"] = self.cap.cap
        return planned_campaign(self.request, self.chosen(), **later)

    @lazy
    def cap(self) -> ChosenCap | None:
        """The cap with the least ε of any two values that adds at most 5 % to a report's variance.

        Under the plan's prior; None where none that cheap promises anything, and of points.
        """
        return default_cap(as_if_published(self.request, self.chosen()), self.request.prior)

    def central(self, honest: int | None = None, delta: float | None = None) -> Record | None:
        """Return the central ε of the campaign with the `cap`, in random order.

        Args:
            honest: how many honest people answer the same question; by default all planned.
            delta: in (0, 1); None: 10⁻⁶, or 0.01/honest if that is less.

        Returns:
            None where none is proven, as without a cap.

        Raises:
            ParameterError: if the number is not from 1 to 10⁸, or δ out of range.
            UnsupportedError: if no mechanism serves all questions.
        """
        if self.cap is None:
            return None
        campaign = as_if_published(self.request, self.chosen(), self.cap.cap)
        people = of_one_question(campaign, self.request.participants)
        return central_record(campaign, people if honest is None else honest, delta)

    def write(self, file: Path, *, capped: bool = True) -> None:
        """Write a plan that `campaign_of` and 'geoveil campaign create --plan' read (TOML).

        Args:
            capped: whether the campaign has the `cap`.

        Raises:
            ParameterError: if the file cannot be written.
            UnsupportedError: if no mechanism serves all questions.
        """
        write_plan(file, self.request, self.chosen(), self.cap if capped else None)


@dataclass(frozen=True)
class PlannedQuestion(PlanOutcome):
    """The plan for one question."""

    request: PlanRequest
    result: Plan

    def report(self) -> Record:
        return plan_report(self.request, self.result)

    def chosen(self) -> Chosen:
        return chosen_alone(self.request, self.result)


@dataclass(frozen=True)
class PlannedQuestions(PlanOutcome):
    """The plan for several questions, with the division of privacy among them."""

    request: PlanRequest
    result: Comparison
    searches: Searches

    def report(self) -> Record:
        return comparison_report(self.request, self.result)

    def chosen(self) -> Chosen:
        return chosen_together(self.request, self.result, self.searches)


def plan_for(
    request: PlanRequest,
    *,
    capped: bool = False,
    searches: Searches | None = None,
) -> PlannedQuestion | PlannedQuestions:
    """Return the plan for a request, in seconds.

    Args:
        capped: whether bands have to fit within a cap of 4 noise scales a side.
        searches: takes up what was found out, to be given again with the same questions and prior:
            see `PlanningSession`, which keeps them.

    Raises:
        ParameterError: if the request cannot be met, with the nearest that can.
    """
    if searches is None:
        searches = Searches(widest=CAPPED_WIDTH if capped else WIDEST)
    check_prior(request, searches)
    check_people(request)
    if len(request.questions) > 1:
        together = compared(request, searches, request.participants)
        check_comparison(request, together, searches)
        return PlannedQuestions(request, together, searches)
    question = next(iter(request.questions))
    search = searches.of(0, question, request.plane_privacy, request.prior)
    kinds = kinds_for(request)
    plan = planned(search, request.participants, kinds, wanted=request.mechanism)
    check_plan(request, plan)
    return PlannedQuestion(request, plan)


def kinds_for(request: PlanRequest) -> tuple[str, ...]:
    """Return the kinds of mechanisms to plan one question with."""
    if request.allocation == "points":
        return (POINTS,)
    return (*KINDS, *in_words(request.privacy, request.mechanism))
