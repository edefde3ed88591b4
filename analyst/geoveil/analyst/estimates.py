"""The estimates of all questions of a campaign, with notes."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from geoveil.analyst.central import central_record, central_text
from geoveil.analyst.contamination import (
    MEAN_MOVES,
    UNSTATED,
    WORST_CASE,
    note_of_invited,
    worst_case,
)
from geoveil.analyst.labelled_estimate import LabelledEstimate, Price
from geoveil.analyst.results import (
    ANY_CROWD,
    Answer,
    Result,
    amount_answer,
    estimated,
    of_people,
    share_answer,
)
from geoveil.analyst.statistics.comparison import People
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.over_time import FALSE_ALARMS, OverTime, over_time
from geoveil.analyst.statistics.statistic import ONE_LOOK, period_of
from geoveil.analyst.statistics.trends import Trends, trend
from geoveil.campaign import AttributeCampaign, Difference, StatisticCampaign, of_any_two
from geoveil.gp import (
    Array,
    Basis,
    GeoPrivacy,
    IntervalMethod,
    NoiseVariance,
    ParameterError,
    PrivateValueError,
    UnsupportedError,
)

_WHY_ALL_LOOKS = {
    "open": "Reports still come in, so the interval holds at all looks; after the closing date it"
    " is narrower, for one look.",
    "closed": "The campaign was closed by hand before its date, perhaps because of its result, so"
    " the interval still holds at all looks.",
}
"""State → why the interval is a sequence."""


@dataclass(frozen=True)
class CampaignEstimates(Result):
    """The estimates of a campaign so far."""

    campaign: AttributeCampaign
    state: str
    """pending, open or closed; "at hand" for estimates made without a server."""
    estimates: tuple[LabelledEstimate, ...]
    """One per query, period after period."""
    unbiased_for: str
    """The quantity that every value estimates without bias, in words."""
    privacy: GeoPrivacy
    """The privacy that a participant spent, in total or in each period with an answer."""
    privacy_at_most: GeoPrivacy
    """The privacy of a participant who answered in every period that has begun."""
    contamination: float | None = None
    """The fraction of the answers that may be false; None if no fraction was given."""
    of_cohorts: tuple[LabelledEstimate, ...] = ()
    """The estimates of each cohort, if devices reveal theirs."""
    invited: int | None = None
    """The people who were invited, in each period; None if that is not stated."""

    def over_time(
        self,
        question: str | None = None,
        *,
        confidence: float = 0.95,
        false_alarms: float = FALSE_ALARMS,
    ) -> OverTime:
        """Return the curve of one question over the periods of a recurring campaign.

        Args:
            question: its label; the only one by default.
            confidence: with which all intervals hold simultaneously, in (0, 1).
            false_alarms: the probability of any flag in the curve while the mean drifts as before.

        Raises:
            ParameterError: if the campaign does not recur, there is no such question, or no period
                with two reports.
            UnsupportedError: if some of the answers may be false.
        """
        if self.contamination is not None:
            raise UnsupportedError("no curve bounds false answers: compare its periods one by one")
        return over_time(
            self.campaign,
            self.estimates,
            self.of_cohorts,
            question,
            confidence=confidence,
            false_alarms=false_alarms,
        )

    @property
    def title(self) -> str:
        recurs = self.campaign.period is not None
        each = f" in each period, at most {self.privacy_at_most} so far" if recurs else ""
        far = of_any_two(self.campaign)
        return f"{self.campaign.title} ({self.privacy}{far}, for each participant{each})"

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes())

    @property
    def axis_label(self) -> str:
        return f"estimate and {100 * self.estimates[0].confidence:g} % interval, of the population"

    @property
    def latest(self) -> tuple[LabelledEstimate, ...]:
        """The estimates of the latest period."""
        last = max((row.period for row in self.estimates), default=0)
        return tuple(row for row in self.estimates if row.period == last)

    @property
    def sentences(self) -> tuple[Answer, ...]:
        if self.place is not None:
            return (self.place,)
        trends = (answer for trend_of in self.trends() for answer in trend_of.sentences)
        return (*map(self.answer_of, self.latest), *trends)

    def answer_of(self, row: LabelledEstimate) -> Answer:
        """Return the sentence of one estimate, of the hard share if a plan gives it."""
        campaign, label = self.campaign, row.label
        unit, scale = campaign.attribute.value_unit, campaign.attribute.scale
        if row.possible is None:
            return Answer(None, "", "", f"Nobody has answered “{campaign.words_for(label)}” yet")
        ends: tuple[float, float | None, float | None] = row.possible, row.ci_low, row.ci_high
        if label in campaign.labels and not isinstance(campaign, StatisticCampaign):
            rest = f"is the mean {campaign.words_for(label)}"
            if scale is not None:
                rest = f"is the geometric mean {campaign.attribute.name}"
                low, high = (x and float(scale.from_log(x)) for x in ends[1:])
                ends = float(scale.from_log(row.possible)), low, high
            return amount_answer(*ends, unit, rest)
        if row.limits.estimates != (0.0, 1.0):
            return amount_answer(*ends, "", f"is the mean of “{label}”")
        rest, hard = f"of people: {label}", row.hard
        if hard is not None:
            ends = hard.value, hard.ci_low, hard.ci_high
        if isinstance(campaign, StatisticCampaign):
            query = campaign.questions[campaign.labels.index(label)].query.unclipped
            about = "" if hard is not None else "about "
            rest = of_people(query, label, campaign.attribute, about)
        return share_answer(*ends, rest)

    def trends(self) -> list[Trends]:
        """Return the trend of each question over the periods of a recurring campaign."""
        trends = []
        for label in self.campaign.labels if self.campaign.period is not None else ():
            joints = {}
            for period in sorted({row.period for row in self.estimates}):
                with suppress(UnsupportedError, ParameterError):  # too few answers
                    joints[period] = self.joint([label], period)
            if len(joints) > 1:
                trends.append(trend(*joints.values(), people=People.SAME, times=[*joints]))
        return trends

    @property
    def place(self) -> Answer | None:
        """The sentence of the mean place in the latest period; None if these are not places."""
        rows = self.latest
        plane, labels = self.campaign.attribute.coordinates, tuple(row.label for row in rows)
        point = [row.value for row in rows]
        if plane is None or labels != self.campaign.labels or len(rows) != 2 or None in point:
            return None
        try:
            longitude, latitude = plane.unproject(np.array(point, np.float64)).tolist()
        except PrivateValueError:  # no place lies there
            return None
        north, east = "N" if latitude >= 0 else "S", "E" if longitude >= 0 else "W"
        halves = [(row.ci_high - row.ci_low) / 2 for row in rows if row.ci_low and row.ci_high]
        within = f"± {math.hypot(*halves) / 1000:.1g} km" if len(halves) == 2 else ""
        number = f"{abs(latitude):.3f}° {north}, {abs(longitude):.3f}° {east}"
        rest = f"is the mean of everybody's {self.campaign.attribute.name}"
        return Answer(None, number, within, rest)

    def with_interval(self, method: IntervalMethod | None) -> "CampaignEstimates":
        """Return the same with other intervals, from the same reports.

        Args:
            method: None: of one look, the sharpest.

        Raises:
            ParameterError: if the method needs answers with ends, and these have none.
        """
        return replace(self, estimates=tuple(of.with_interval(method) for of in self.estimates))

    def with_differences(self, known: Mapping[str, Difference]) -> "CampaignEstimates":
        """Return the estimates with hard shares as well as soft ones.

        Args:
            known: label → a plan's expected difference of soft and hard answers.
        """
        rows = (replace(row, softness=known.get(row.label)) for row in self.estimates)
        return replace(self, estimates=tuple(rows))

    def contaminated(self, fraction: float) -> "CampaignEstimates":
        """Return the estimates with the effect of a fraction of false answers on each.

        Raises:
            ParameterError: if the fraction is not in [0, 1), or the contribution of an answer is
                unbounded.
        """
        for row in self.estimates:
            row.contaminated(fraction)
        return replace(self, contamination=fraction)

    def among_invited(self, invited: int) -> "CampaignEstimates":
        """Return the estimates with worst-case intervals for the means over everybody invited.

        Args:
            invited: the number of people who were invited in each period.

        Raises:
            ParameterError: if fewer were invited than answered, or a mean has no ends.
        """
        among = replace(self, invited=invited)
        for row in self.estimates:
            among._worst_case(row)
        return among

    def _answered(self, row: LabelledEstimate) -> int:
        """Return how many people answered in an estimate's period, any question."""
        campaign = self.campaign
        if not isinstance(campaign, StatisticCampaign) or campaign.answers_all:
            return row.n
        return sum(other.n for other in self.estimates if other.period == row.period)

    def _worst_case(self, row: LabelledEstimate) -> tuple[float | None, float | None]:
        assert self.invited is not None  # asked only where it is stated
        low, high = row.ci_low, row.ci_high
        if self.contamination is not None:
            widened = row.contaminated(self.contamination)
            low, high = widened.ci_low, widened.ci_high
        ends, answered = row.limits.estimates, self._answered(row)
        if low is None or high is None:
            low, high = ends
        return worst_case(low, high, answered, self.invited, ends)

    def joint(
        self, labels: Sequence[str] | None = None, period: int | None = None
    ) -> JointEstimates:
        """Return the estimates of one period for differences and trends.

        If different people answer each question, errors are uncorrelated. If one person answers
        several questions, the correlations cannot be known, as nobody can link reports: then name
        one label.

        Args:
            labels: of the questions wanted; None: all.
            period: of a recurring campaign; None: the only one.

        Raises:
            ParameterError: if there is no such estimate, or the period is not stated.
            UnsupportedError: if covariances are not known, or there are fewer than two answers.
        """
        wanted = period_of(self.campaign, period)
        rows = [row for row in self.estimates if row.period == wanted]
        if not rows:
            raise ParameterError("period", period, "one that has estimates")
        labels_of_rows = tuple(row.label for row in rows)
        for label in labels or ():
            if label not in labels_of_rows:
                raise ParameterError("labels", label, f"some of {labels_of_rows}")
        rows = [row for row in rows if labels is None or row.label in labels]
        apart = isinstance(self.campaign, StatisticCampaign) and not self.campaign.answers_all
        if len(rows) > 1 and not apart:
            raise UnsupportedError(
                "how the errors of several questions are correlated is unknown where one person "
                "answers them all: name one label, or ask points of a value campaign (Means)"
            )
        errors = [row.standard_error for row in rows]
        if None in errors:
            raise UnsupportedError("a standard error needs two answers or more")
        honest = joint_of(self.campaign, rows, np.diag(np.square(np.array(errors, np.float64))))
        return replace(honest, contamination=self.contamination or 0.0)

    def rows(self) -> list[dict[str, Any]]:
        campaign, rows = self.campaign, []
        for row in self.estimates:
            begins = {}
            if campaign.period is not None:
                begins = {"period": row.period, "begins": self._begins(row)}
            columns: dict[str, Any] = {
                "query": campaign.words_for(row.label),
                **begins,
                **estimated(row.value, row.standard_error, row.ci_low, row.ci_high),
            }
            if any(other.softness is not None for other in self.estimates):
                names = "hard_share", "hard_share_low", "hard_share_high"
                ends = (None, None, None) if row.hard is None else astuple(row.hard)
                columns |= dict(zip(names, ends, strict=True)) | {"holds": row.hard and row.holds}
            if any(other.around is not None for other in self.estimates):
                columns |= dict(zip(ANY_CROWD, row.any_crowd or (None, None), strict=True))
            if any(other.robust is not None for other in self.estimates):
                columns["median_of_means_low"] = row.robust and row.robust.ci_low
                columns["median_of_means_high"] = row.robust and row.robust.ci_high
            if self.contamination is not None:
                widened = row.contaminated(self.contamination)
                columns |= {
                    "contaminated_low": widened.ci_low,
                    "contaminated_high": widened.ci_high,
                }
            if self.invited is not None:
                columns |= dict(zip(WORST_CASE, self._worst_case(row), strict=True))
            columns["n"] = row.n
            if any(other.one_report is not None for other in self.estimates):
                columns["one_report_at_most"] = row.one_report
            rows.append(columns)
        return rows

    def to_dict(self) -> dict[str, Any]:
        return {
            "campaign_id": self.campaign.campaign_id,
            "unbiased_for": self.unbiased_for,
            "epsilon_at_most": self.privacy_at_most.epsilon,
            "estimates": [
                row.to_dict() | {"period": row.period} | self._bounded(row)
                for row in self.estimates
            ],
            "central": self._central,
            "notes": list(self.notes),
        }

    @property
    def _central(self) -> dict[str, Any] | None:
        """The central ε of one period's reports, excluding those that liars may have sent."""
        honest = (1 - (self.contamination or 0.0)) * min(row.n for row in self.estimates)
        return central_record(self.campaign, math.floor(honest))

    def _bounded(self, row: LabelledEstimate) -> dict[str, object]:
        """Return how far liars and people who did not answer could move an estimate."""
        bounds: dict[str, object] = {}
        if self.contamination is not None:
            bounds["contamination"] = row.contaminated(self.contamination).to_dict()
        if self.invited is not None:
            ends = dict(zip(("ci_low", "ci_high"), self._worst_case(row), strict=True))
            bounds["worst_case"] = {"invited": self.invited, **ends}
        return bounds

    def _begins(self, row: LabelledEstimate) -> str:
        assert self.campaign.period is not None  # asked of recurring campaigns only
        return f"{self.campaign.opens + row.period * self.campaign.period:%Y-%m-%d %H:%M} UTC"

    def _notes(self) -> Iterator[str]:
        rows = self.estimates
        yield f"{self.unbiased_for} The error holds noise and sampling."
        yield "The interval is for the population of which the participants are a random sample."
        if self.invited is None:
            yield UNSTATED
        else:
            counts = {row.period: self._answered(row) for row in rows}
            yield from (note_of_invited(n, self.invited) for n in dict.fromkeys(counts.values()))
        yield from _of_forgers(rows)
        if any(row.n < 2 for row in rows):
            yield "An error and an interval need two answers (n ≥ 2)."
        yield from _of_privacy(rows)
        if self._central is not None:
            yield central_text(self._central, self.campaign.report_privacy)
        methods = dict.fromkeys(row.method for row in rows if row.method is not None)
        for method in methods:
            looks = "all looks" if method is IntervalMethod.SEQUENCE else "one look"
            yield f"{100 * rows[0].confidence:g} % interval for {looks}: it {method.promise}."
        if IntervalMethod.SEQUENCE in methods:
            yield _WHY_ALL_LOOKS.get(self.state, _WHY_ALL_LOOKS["open"])
        if methods.keys() - {IntervalMethod.SEQUENCE}:
            yield ONE_LOOK
        for row in rows:
            if row.hard is not None and row.softness is not None:
                begins = "" if self.campaign.period is None else f", {self._begins(row)}"
                expects = "The plan expects" if row.band is None else f"{row.band.words} Expect"
                yield (
                    f"Hard share, {row.label}{begins}: {row.hard.value:.4f}, bias-aware"
                    f" {100 * row.confidence:g} % interval {row.hard.ci_low:z.4f} –"
                    f" {row.hard.ci_high:z.4f}. {expects} the soft share, the estimate above,"
                    f" to be {_beside(row.softness)} from it."
                )
        if self.contamination is not None:
            yield from self._of_liars(self.contamination)
        if any(row.robust is not None for row in rows):
            yield (
                "Where noise has a heavy tail, the interval by the median of means stands even"
                " without a variance."
            )
        if any(row.one_report is not None for row in rows):
            yield (
                "No single report, whatever it says, moves an estimate by more than the last"
                " column."
            )
        of_points = rows[0].label not in self.campaign.labels
        if math.isinf(self.campaign.most_from_one(0)) and not of_points:
            yield MEAN_MOVES

    def _of_liars(self, fraction: float) -> Iterator[str]:
        for row in self.estimates:
            contaminated = row.contaminated(fraction)
            liars, hard = contaminated.contamination, contaminated.hard
            begins = "" if self.campaign.period is None else f", {self._begins(row)}"
            holds = (
                ""
                if hard is None
                else f" The hard share is held by {hard.ci_low:z.4f} – {hard.ci_high:z.4f}."
            )
            yield (
                f"Liars, {row.label}{begins}: {100 * fraction:g} % of the answers move the estimate"
                f" {liars.words}.{holds}"
            )
        yield (
            "The contaminated interval holds the mean over honest people whatever liars say, at the"
            " same confidence."
        )


def joint_of(
    campaign: AttributeCampaign, rows: Sequence[LabelledEstimate], covariance: Array
) -> JointEstimates:
    """Return estimates of one period with their covariance, (rows, rows), or variances, (rows,)."""
    counts = tuple(row.n for row in rows)
    return JointEstimates(
        labels=tuple(row.label for row in rows),
        values=np.array([row.value for row in rows]),
        covariance=covariance,
        n=sum(counts) if len(set(counts)) > 1 else counts[0],
        confidence=rows[0].confidence,
        limits=tuple(row.limits for row in rows),
        privacy=rows[0].privacy,
        period=None if campaign.period is None else rows[0].period,
        answers=counts if len(set(counts)) > 1 else None,
    )


def _of_forgers(rows: Iterable[LabelledEstimate]) -> Iterator[str]:
    """Yield sentences on forged reports, detected ones first."""
    for row in rows:
        if row.forged is not None and row.forged.shows:
            least = math.floor(1e4 * row.forged.at_least) / 100
            yield (
                f"WARNING, {row.label}: at least {least:g} % of the reports are forged (confidence"
                f" {100 * row.forged.confidence:g} %): no honest device sends so many of them where"
                " these lie."
            )
    if any(row.mechanism is not None and row.forged is None for row in rows):
        yield "Forged reports are not tested: only bounded noise, not extrapolated, shows them."


def _beside(softness: Difference) -> str:
    """Return an expected difference and its bound, with as many decimals as the bound needs."""
    if not softness.bound:
        return f"{softness.expected:+.3g}"
    decimals = max(1 - math.floor(math.log10(softness.bound)), 0)
    return f"{softness.expected:+z.{decimals}f} ± {softness.bound:.{decimals}f}"


def _of_privacy(rows: Iterable[LabelledEstimate]) -> Iterator[str]:
    """Yield the price of privacy: a sentence for all estimates with the same basis."""
    by_basis: dict[Basis, list[tuple[int, NoiseVariance, Price]]] = {}
    for row in rows:
        noise, price = row.noise_variance, row.price
        if noise is not None and price is not None:
            by_basis.setdefault(price.basis, []).append((row.n, noise, price))
    for basis, of_basis in by_basis.items():
        errors, ratios, people = [], [], []
        for n, noise, price in of_basis:
            noises = [noise.low, noise.high] if noise.value is None else [noise.value]
            prices = [price.low, price.high]  # the noise may be exact, and the variance is not
            errors += [math.sqrt(of_one / n) for of_one in noises]
            ratios += prices
            people += [round(n / ratio) for ratio in prices]
        cost, same = _between(ratios, ".3g"), _between(people, ",")
        same = f"at most {max(people):,}" if max(ratios) == math.inf else same
        paid = (
            f"{cost} × the variance that the same people would give in the clear, as good as"
            f" {same} participant{'' if same == '1' else 's'} in the clear"
        )
        if min(ratios) == math.inf:
            paid = "not known, as all of the variance of these answers may be noise"
        yield (
            f"For the participants themselves the standard error is {_between(errors, '.3g')}."
            f" Price of privacy: {paid} ({basis.words})."
        )


def _between(numbers: Sequence[float], style: str) -> str:
    least, most = format(min(numbers), style), format(max(numbers), style)
    both = f"at least {least}" if max(numbers) == math.inf else f"{least} to {most}"
    return least if least == most else both
