"""Plan a request: one question, or several that share a person's privacy.

request = PlanRequest.of([ShareAbove(100_000)], epsilon=1, per=8_000, source=..., participants=...)
planned = plan_for(request)
planned.report()                                     # as plain numbers
planned.campaign(campaign_id="income", title="Income", opens=..., closes=...)
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from geoveil.analyst.central import central_cap, central_record, of_one_question, out_of_reach
from geoveil.analyst.contamination import Contamination
from geoveil.analyst.feasible_alternatives import (
    check_comparison,
    check_people,
    check_plan,
    check_prior,
    compared,
    excess,
    excess_of_all,
)
from geoveil.analyst.plan_files import (
    Chosen,
    as_if_published,
    chosen_alone,
    chosen_together,
    planned_campaign,
    write_plan,
)
from geoveil.analyst.planner import (
    CAPPED_WIDTH,
    CLOSE,
    KINDS,
    NARROWEST,
    POINTS,
    WIDEST,
    ChosenCap,
    Comparison,
    Plan,
    PointReports,
    Searches,
    default_cap,
    in_words,
    planned,
    widest_within,
    width,
)
from geoveil.analyst.public_prior import PublicPrior
from geoveil.analyst.questions import AnalystQuestion
from geoveil.analyst.report import Record, comparison_report, plan_report
from geoveil.analyst.request import PlanRequest
from geoveil.campaign import AttributeCampaign
from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    ParameterError,
    PlanarLaplace,
    Query,
    UnsupportedError,
    lazy,
    validation,
)


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
            later: campaign_id, title, opens, closes, and other fields of a `Campaign`; its cap is
                `cap` by default; None for no cap.

        Raises:
            UnsupportedError: if no mechanism serves all questions.
        """
        if later.get("readings") is None and "cap" not in later and self.cap is not None:
            later["cap"] = self.cap.cap
        return planned_campaign(self.request, self.chosen(), **later)

    @lazy
    def cap(self) -> ChosenCap | None:
        """The cap with the least ε of any two values that adds at most 5 % to a report's variance.

        It holds under the plan's prior; None if no cap so cheap promises anything, and for points.
        With `PlanRequest.central`, it is the cheapest cap that keeps it.

        Raises:
            ParameterError: if no cap keeps it.
        """
        campaign, wish = as_if_published(self.request, self.chosen()), self.request.central
        if wish is None:
            return default_cap(campaign, self.request.prior)
        return central_cap(campaign, wish, self.request.prior)

    def price_of_central(self, free: "PlanOutcome") -> Record:
        """Return the cost of the cap for a wanted central ε, compared with a plan without it.

        "error_95" is the largest of a question's errors, and "times" the largest quotient of them
        with and without, both at most: the cap's share counts as if all of an error were variance.

        Raises:
            ParameterError: if they exceed the `target_error`.
        """
        assert self.cap is not None  # or it was refused
        cap, factor = self.cap.cap, self.cap.factor or 1.0
        mine = [error * math.sqrt(factor) for error in _errors(self.report())]
        wanted = self.request.target_error
        if wanted is not None and max(mine) > wanted:
            expected = f"at least {max(mine):.3g} with the cap for that central ε"
            raise ParameterError("target_error", wanted, expected)
        times = max(a / b for a, b in zip(mine, _errors(free.report()), strict=True))
        return {
            "below": cap.below, "above": cap.above, "variance_factor": factor,
            "error_95": max(mine), "times": times,
        }  # fmt: skip

    def central(self, honest: int | None = None, delta: float | None = None) -> Record | None:
        """Return the central ε of the campaign with the `cap`, in random order.

        Args:
            honest: how many honest people answer the same question; by default everybody planned.
            delta: in (0, 1); None: 10⁻⁶, or 0.01/honest if that is less.

        Returns:
            None if no central ε is proven, such as without a cap.

        Raises:
            ParameterError: if the number is not from 1 to 10⁸, or δ out of range.
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
    request: PlanRequest, *, capped: bool = False, searches: Searches | None = None
) -> PlannedQuestion | PlannedQuestions:
    """Return the plan for a request, in seconds.

    Args:
        capped: whether bands have to fit within a cap of 4 noise scales a side.
        searches: a cache of results, to be passed again with the same questions and prior: see
            `PlanningSession`, which keeps one.

    Raises:
        ParameterError: if the request cannot be met, with the nearest that can.
    """
    if searches is None:
        widest = CAPPED_WIDTH if capped else WIDEST
        if request.central is not None:
            # A side is in eighths of a noise scale, and has to reach to half of a band.
            answers = len(request.questions) if request.allocation in ("split", "repeat") else 1
            most = math.floor(4 * request.central.largest_epsilon / answers) / 4
            widest = min(widest, widest_within(most))
            if widest < NARROWEST:
                raise out_of_reach(request.central, math.ceil(4 * width(NARROWEST)) / 4)
        searches = Searches(widest=widest)
    check_prior(request, searches)
    check_people(request)
    question, *others = request.questions
    if others:
        together = compared(request, searches, request.participants)
        check_comparison(request, together, searches)
        return PlannedQuestions(request, together, searches)
    search = searches.of(0, question, request.plane_privacy, request.prior)
    plan = planned(search, request.participants, kinds_for(request), wanted=request.mechanism)
    check_plan(request, plan)
    return PlannedQuestion(request, plan)


def _errors(report: Record) -> list[float]:
    """Return the 95 % error of each question, hard or soft."""
    rows = [report] if "targets" in report else report["questions"]
    targets = [row["targets"] for row in rows]
    return [float((of["hard_question"] or of["population"])["error_95"]) for of in targets]


def kinds_for(request: PlanRequest) -> tuple[str, ...]:
    """Return the kinds of mechanisms to plan one question with."""
    if request.allocation == "points":
        return (POINTS,)
    return (*KINDS, *in_words(request.privacy, request.mechanism))


_MOST = 10_000


def planned_periods(
    planned: PlannedQuestion | PlannedQuestions, periods: int, drift: float = 0.0
) -> dict[str, Any]:
    """Return the cost and the error of answers in many periods, for each way to ask.

    The ways are: fresh noise in every period, at ε each; noise at ε/k in each of k periods; and one
    reading, perturbed once at ε, from which all periods are answered: carried forward, or
    extrapolated from it and an earlier one. Errors are for the participants: from noise, averaged
    over the prior, and, for carried readings, from the drift since a reading, whose time each
    device draws; all devices have read three times. The ε of a reading covers any k consecutive
    periods: a campaign of k meets two readings of most devices, as each sets its own epochs.

    Args:
        planned: a plan for one question about numbers, which one perturbed number answers.
        periods: how many there are, k ≥ 2.
        drift: how far the answer, a share, moves in a period.

    Returns:
        `ways`: name, total ε and root mean squared error of an answer in a period, the best for its
        total ε first; `drift_carried` and `drift_split`: the drift up to which carried readings
        have smaller errors than extrapolated ones, and than noise at ε/k.

    Raises:
        ParameterError: if there are several questions, no reading answers the one, or a number is
            out of range.
    """
    if not isinstance(planned, PlannedQuestion):
        raise ParameterError("periods", periods, "left out unless there is one question")
    query, request, n = planned.result.choice.query, planned.request, planned.result.n
    privacy, prior = request.privacy, request.prior
    try:
        if not isinstance(query, Query) or prior.dimension != 1 or not query.nests:
            raise UnsupportedError("no perturbed number answers it")
        kept = PlanarLaplace(privacy, 1).estimator(query, debias=True)
    except UnsupportedError:
        expected = "left out: no perturbed number answers this question through its mechanism"
        raise ParameterError("periods", periods, expected) from None
    validation.require_count("periods", periods, 2, _MOST)
    validation.between("drift", drift, -1, 1)
    # Noise is added to a number that is kept, and to the distance for an answer of its own.
    rates = [GeoPrivacy(privacy.epsilon / k, privacy.per, privacy.unit) for k in (1, periods)]
    noise = kept.variance, *(DebiasedLaplace(query, rate).variance for rate in rates)
    read, fresh, split = (prior.expectation(variance) / n for variance in noise)
    # Devices answer once a period, so that ages of readings are 0 to k − 1 periods, equally often.
    ages = np.arange(periods) / periods
    delay = periods * float(ages.mean())
    moved = (drift * delay) ** 2
    extrapolated = read * float(((1 + ages) ** 2 + ages**2).mean())
    ways = [
        ("one reading, carried", privacy.epsilon, read + moved),
        ("one reading, extrapolated", privacy.epsilon, extrapolated),
        ("split", privacy.epsilon, split),
        ("fresh", privacy.epsilon * periods, fresh),
    ]
    ways[:3] = sorted(ways[:3], key=lambda way: way[2])
    return {
        "periods": periods,
        "drift": drift,
        "ways": [
            {"way": name, "epsilon": epsilon, "error": math.sqrt(square)}
            for name, epsilon, square in ways
        ],
        "drift_carried": math.sqrt(extrapolated - read) / delay,
        "drift_split": math.sqrt(max(split - read, 0.0)) / delay,
    }


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
        question, *others = request.questions
        if others:
            comparison = compared(request, searches, request.participants)
            return Forecast(
                PlannedQuestions(request, comparison, searches),
                settled=True,
                met=excess_of_all(request, comparison, searches) <= 0,
            )
        kinds = kinds_for(request)
        search = searches.of(0, question, request.plane_privacy, request.prior)
        # Perturbed places take longer to predict than everything else, and seldom win.
        slow = question.dimension > 1 and len(kinds) > 1
        if slow:
            kinds = tuple(kind for kind in kinds if kind != POINTS)
        if request.mechanism is not None:
            kinds = (request.mechanism,)
        plan = planned(search, request.participants, kinds, within=CLOSE)
        return Forecast(
            PlannedQuestion(request, plan), settled=not slow, met=excess(request, plan) <= 0
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


def planned_contamination(planned: PlanOutcome, fraction: float) -> list[dict[str, Any]]:
    """Return the effect of a fraction of the participants on each estimate of a plan.

    If each participant answers one of several questions, all liars may answer the same one.

    Args:
        planned: a plan from which a campaign can be made.
        fraction: of the participants, in [0, 1).

    Raises:
        ParameterError: if the fraction is out of range.
    """
    validation.between("contamination", fraction, 0, 1, high_open=True)
    chosen = planned.chosen()
    campaign = as_if_published(planned.request, chosen)
    rows = []
    for column, alternative in enumerate(chosen.alternatives):
        if isinstance(alternative.reports, PointReports):
            limits = alternative.reports.estimator.limits
            width, means = limits.reports[1] - limits.reports[0], limits.means
        else:
            width, means = campaign.most_from_one(column), campaign.limits[column].means
        of_answers = fraction / (fraction + (1 - fraction) / chosen.parts)
        liars = Contamination(of_answers, width, means)
        row = {"question": planned.request.labels[column], "fraction_of_participants": fraction}
        rows.append(row | liars.to_dict())
    return rows


def further_report(
    planned: PlannedQuestion | PlannedQuestions,
    contamination: float | None = None,
    periods: int | None = None,
    drift: float = 0.0,
) -> Record:
    """Return what a report adds on request: the effect of false reports, and many periods.

    Args:
        contamination: see `planned_contamination`.
        periods: see `planned_periods`, which drift is for as well.
    """
    further: Record = {}
    if contamination is not None:
        further["contamination"] = planned_contamination(planned, contamination)
    if periods is not None:
        further["periods"] = planned_periods(planned, periods, drift)
    return further


def central_report(
    planned: PlannedQuestion | PlannedQuestions,
    honest: int | None,
    delta: float | None,
    *,
    capped: bool,
) -> Record:
    """Return the central ε of a plan, and the cost of a wanted one; see `plan_for`."""
    report = {"central": planned.central(honest, delta)}
    if planned.request.central is None:
        return report
    free = plan_for(replace(planned.request, central=None), capped=capped)
    return {**report, "cap": planned.price_of_central(free)}
