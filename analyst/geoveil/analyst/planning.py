"""From a request to a plan: one question, or several that share the privacy of a person.

request = PlanRequest.of([ShareAbove(100_000)], epsilon=1, per=8_000, source=..., participants=...)
planned = plan_for(request, for_campaign=True)
planned.report()                                     # as plain numbers
planned.campaign(campaign_id="income", title="Income", opens=..., closes=...)
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from geoveil.analyst.nearest import (
    check_comparison,
    check_people,
    check_plan,
    check_prior,
    compared,
)
from geoveil.analyst.plan_files import (
    Chosen,
    chosen_alone,
    chosen_together,
    planned_campaign,
    write_plan,
)
from geoveil.analyst.planner import KINDS, Alternative, Comparison, Plan
from geoveil.analyst.planner.allocation import Searches
from geoveil.analyst.planner.channels import (
    WORTH_SOLVING,
    bands_like,
    channels,
    next_to_optimal,
    saves_noise,
)
from geoveil.analyst.planner.kinds import POINTS, fits_campaigns
from geoveil.analyst.planner.plan import planned, ranked
from geoveil.analyst.report import Record, comparison_report, plan_report
from geoveil.analyst.request import PlanRequest
from geoveil.analyst.rounds import TwoRounds, two_rounds
from geoveil.campaign import Campaign
from geoveil.gp import ParameterError, Query, UnsupportedError

_NODES = 16
"""Distances for a quick bound; more where a band is wide."""


class PlanOutcome(ABC):
    """A plan that can be read, written, and made a campaign of."""

    request: PlanRequest

    @abstractmethod
    def report(self) -> Record:
        """Return all that is said of it, as plain numbers and words: what JSON can hold."""

    @abstractmethod
    def chosen(self) -> Chosen:
        """Return what a campaign is made of.

        Raises:
            UnsupportedError: if campaigns cannot hold what was chosen.
        """

    def campaign(self, **later: Any) -> Campaign:
        """Return the campaign.

        Args:
            later: campaign_id, title, opens, closes, and what else a `Campaign` has.

        Raises:
            UnsupportedError: if campaigns cannot hold what was chosen.
        """
        return planned_campaign(self.request, self.chosen(), **later)

    def write(self, file: Path) -> None:
        """Write a plan that `campaign_of` and 'geoveil campaign create --plan' read (TOML).

        Raises:
            ParameterError: if the file cannot be written.
            UnsupportedError: if campaigns cannot hold what was chosen.
        """
        write_plan(file, self.request, self.chosen())


@dataclass(frozen=True)
class PlannedQuestion(PlanOutcome):
    """The plan for one question."""

    request: PlanRequest
    found: Plan
    least_noise: float | None
    """Variance of a report that no unbiased mechanism can beat; None if it was not computed."""
    rounds: TwoRounds | None = None
    """What a pilot would gain; None if it was not asked for."""

    def report(self) -> Record:
        return plan_report(self.request, self.found, self.least_noise, self.rounds)

    def chosen(self) -> Chosen:
        return chosen_alone(self.request, self.found)


@dataclass(frozen=True)
class PlannedQuestions(PlanOutcome):
    """The plan for several questions: how the privacy is shared out among them."""

    request: PlanRequest
    found: Comparison
    searches: Searches

    def report(self) -> Record:
        return comparison_report(self.request, self.found)

    def chosen(self) -> Chosen:
        return chosen_together(self.request, self.found, self.searches)


def plan_for(
    request: PlanRequest,
    *,
    for_campaign: bool = False,
    bound: bool = True,
    rounds: bool = False,
    searches: Searches | None = None,
) -> PlannedQuestion | PlannedQuestions:
    """Return the plan for a request, in seconds.

    Args:
        request: what is asked for.
        for_campaign: whether to choose among mechanisms that campaigns can hold; of several
            questions that is decided when a campaign is made.
        bound: whether to compute how good any unbiased mechanism could be, for one question in one
            dimension.
        rounds: whether to say what a pilot would gain, for one share of numbers: see `two_rounds`.
        searches: takes up what was found out, to be given again with the same questions and prior:
            see `PlanningSession`, which keeps them.

    Raises:
        ParameterError: if the request cannot be met, with the nearest that can.
    """
    searches = Searches() if searches is None else searches
    if rounds and len(request.questions) > 1:
        raise ParameterError("two_rounds", rounds, "left out unless there is one question")
    check_prior(request, searches)
    check_people(request)
    if len(request.questions) > 1:
        together = compared(request, searches, request.participants, channels=request.channels)
        check_comparison(request, together, searches)
        return PlannedQuestions(request, together, searches)
    found, least = planned_alone(request, searches, restricted=for_campaign, bound=bound)
    check_plan(request, found)
    return PlannedQuestion(request, found, least, two_rounds(request, found) if rounds else None)


def kinds_for(request: PlanRequest, *, restricted: bool) -> tuple[str, ...]:
    """Return the kinds of mechanisms that one question is planned with, but for channels.

    Args:
        request: what is asked for.
        restricted: to mechanisms that campaigns can hold.
    """
    if request.allocation == "points":
        return (POINTS,)
    return tuple(kind for kind in KINDS if fits_campaigns(kind) or not restricted)


def without_channel(request: PlanRequest, found: Plan) -> bool:
    """Return whether it is known without solving anything that no channel is to be chosen."""
    return request.allocation == "points" or next_to_optimal(found.question, found.choice)


def planned_alone(
    request: PlanRequest, searches: Searches, *, restricted: bool = False, bound: bool = True
) -> tuple[Plan, float | None]:
    """Return the plan for the first question, and the noise that no unbiased mechanism can beat.

    A channel for the band that was chosen has at least the noise of the lower bound. Where even
    that would save less than a twentieth of the noise, none is solved; nor where the band is so
    wide that this is known beforehand (`next_to_optimal`). It is taken where it saves as much.

    Args:
        request: what is asked for.
        searches: what was found out before.
        restricted: to mechanisms that campaigns can hold.
        bound: whether to compute the bound; there is one in one dimension only.
    """
    search = searches.of(0, request.questions[0], request.plane_privacy, request.prior)
    found = planned(search, request.participants, kinds_for(request, restricted=restricted))
    on_line = found.question.dimension == 1
    settled = without_channel(request, found)
    least = None if settled and not (bound and on_line) else _least(found)
    if not settled and least is not None and saves_noise(found.choice.prediction, least):
        better = _with_channel(found, least)
        if better.choice.query != found.choice.query and bound and on_line:
            least = _least(better)
        found = better
    return found, least if bound and on_line else None


def _least(found: Plan) -> float | None:
    """Return the lower bound on the noise for the query that was chosen, if it says anything."""
    query = found.choice.query
    if not isinstance(query, Query):
        return None
    try:
        least = found.search.lower_bound(query, _NODES, quick=True).value
    except UnsupportedError:
        return None
    # A biased mechanism may have less noise; the bound is not about those.
    return least if 0 < least <= found.choice.prediction.noise else None


def _with_channel(found: Plan, least: float) -> Plan:
    """Return the plan with the best channel among the alternatives.

    Only one that saves a twentieth of the noise, as devices check its table. A narrower band than
    that which was chosen has more noise, and the gain is what the prior need not know: it is tried
    where a channel could save a twentieth of the whole squared error, and has to.

    Args:
        found: without channels.
        least: lower bound of the noise for the query that was chosen.
    """
    plain, n = found.choice, found.n
    assert isinstance(plain.query, Query)

    def error(alternative: Alternative) -> float:
        return alternative.prediction.expected_error(n)

    enough = WORTH_SOLVING * error(plain)
    bands = bands_like(found.search, plain.query)
    if (plain.prediction.noise - least) / n < enough:
        bands = bands[-1:]
    solved = sorted(channels(found.search, bands), key=error)
    worth = [
        channel
        for channel in solved
        if saves_noise(plain.prediction, channel.prediction.noise)
        or error(channel) <= error(plain) - enough
    ]
    alternatives = sorted(
        (*found.alternatives, *worth[:1]),
        key=lambda a: (not a.satisfies_guarantee, ranked(a, error(a))),
    )
    return replace(found, alternatives=tuple(alternatives))
