"""What a server says of campaigns: who published them, what is estimated, which reports it has."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.contamination import Contamination
from geoveil.analyst.results import Result
from geoveil.analyst.statistics.groups import GroupEstimates, RandomizedGroupEstimates
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.separate import SeparateEstimates
from geoveil.analyst.statistics.statistic import period_of
from geoveil.campaign import Campaign, StatisticCampaign, ValueCampaign, decode
from geoveil.gp import GeoPrivacy, ParameterError, QueryMechanism, UnsupportedError
from geoveil.gp.estimation import Accumulator, estimate
from geoveil.gp.hard_question import Difference, HardShare, Heap, hard_share
from geoveil.gp.intervals import UNLIMITED, IntervalMethod, Limits
from geoveil.gp.price import Basis, NoiseVariance, Price, bounded_noise_variance
from geoveil.gp.report_moments import ReportMoments
from geoveil.proto.v1 import analyst_pb2, campaign_pb2

_STATES: dict[int, str] = {
    number: name.removeprefix("CAMPAIGN_STATE_").lower()
    for name, number in campaign_pb2.CampaignState.items()
}
_METHODS: dict[int, IntervalMethod] = {
    analyst_pb2.IntervalMethod.Value(f"INTERVAL_METHOD_{method.name}"): method
    for method in IntervalMethod
}
POINTS_EXPONENT = -30
"""What is computed from points is rounded to 2 to this power, as the protocol says."""


@dataclass(frozen=True, slots=True)
class PublishedCampaign:
    """A campaign as a server lists it."""

    envelope: campaign_pb2.CampaignEnvelope
    """Its bytes and their signature: see `geoveil.campaign.signer`."""
    state: str
    """pending, open or closed."""
    reports: int
    """Counted so far, over all queries and periods."""

    @property
    def campaign(self) -> Campaign:
        """The campaign that the bytes say.

        Raises:
            GeoVeilError: if they are no sound campaign.
        """
        return decode(self.envelope.campaign)


@dataclass(frozen=True, slots=True)
class RobustInterval:
    """The median of the means of disjoint blocks, and the distribution-free interval for it."""

    value: float
    ci_low: float
    ci_high: float
    blocks: int
    """How many blocks hold answers."""


@dataclass(frozen=True, slots=True)
class ChosenBand:
    """A band that was chosen after the reports came, and what was assumed of people there."""

    profile: str
    width: float
    """In the unit of the values."""
    slope_bound: float
    """Their density changes by at most this, in shares per (unit of the values)²."""
    from_reports: bool
    """Whether the bound is what the reports suggest, and no certificate; else it was stated."""
    heaps: tuple[Heap, ...]
    """People who hold exactly one value, as stated."""

    @property
    def words(self) -> str:
        """What was chosen and assumed, in sentences."""
        held = [f"{heap.share:.3g} hold exactly {heap.at:,.15g}" for heap in self.heaps]
        heaps = (
            f"of the people {', '.join(held)}, as stated"
            if held
            else "no value near the question is one that many hold exactly (state it if one is)"
        )
        basis = (
            "as the reports suggest, which is no certificate: they do not show people who are"
            " crowded into less room than the noise; state a bound that you know"
            if self.from_reports
            else "as stated"
        )
        return (
            f"The band, {self.profile} and {self.width:,.6g} wide, is the one with the shortest"
            f" interval. It was assumed that the density of people changes by at most"
            f" {self.slope_bound:.3g} shares per unit² ({basis}), and that {heaps}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledEstimate:
    """The unbiased estimate of one query; None where there are too few reports."""

    label: str
    """The name of the query."""
    value: float | None
    standard_error: float | None
    """Noise and sampling together."""
    ci_low: float | None
    ci_high: float | None
    method: IntervalMethod | None
    """How the interval was found; None if there is none, or an earlier server made a normal one."""
    confidence: float
    """How often the interval is to cover, in (0, 1)."""
    n: int
    """Answers counted."""
    one_report: float | None
    """How far a single report can move the estimate; None for points and without reports."""
    privacy: GeoPrivacy
    """What a whole report promises."""
    period: int
    """The period of a recurring campaign, from 0."""
    robust: RobustInterval | None
    """For noise with so heavy a tail that the interval above may not stand, from 1,024 answers."""
    sums: tuple[int, int]
    """Σk and Σk² of the integers that were reported."""
    step_exponent: int
    """The grid of those integers is 2 to this power."""
    limits: Limits
    """What answers, and their mean, can be."""
    softness: Difference | None
    """How far the plan in the campaign expects this to be from the hard share, if there is one."""
    band: ChosenBand | None = None
    """The band that was chosen after the reports, if it was."""
    noise: NoiseVariance | None = None
    """Which part of the variance of an answer is noise, where that can be told; see
    `noise_variance`."""
    mechanism: QueryMechanism | None = None
    """What made the answers, if these are to a query of the campaign."""

    def with_interval(self, method: IntervalMethod) -> "LabelledEstimate":
        """Return the same with another interval, from the same reports.

        Raises:
            ParameterError: if the method needs answers with ends, and these have none.
        """
        if method is self.method:  # the server knows the law of every estimator from points
            return self
        sums = Accumulator(self.n, *self.sums)
        found = estimate(sums, self.step_exponent, self.confidence, self.limits, method)
        return replace(self, ci_low=found.ci_low, ci_high=found.ci_high, method=found.method)

    def contaminated(self, fraction: float) -> "ContaminatedEstimate":
        """Return what is known if a fraction of the answers may be false.

        Raises:
            ParameterError: if the fraction is not in [0, 1), or nothing is known of what an answer
                counts for.
        """
        low, high = self.limits.reports
        width = high - low
        if self.one_report is not None:
            width = min(width, self.one_report * self.n)
        liars = Contamination(fraction, width, self.limits.means)
        if self.ci_low is None or self.ci_high is None:
            return ContaminatedEstimate(liars, None, None, None)
        hard = self.hard
        if hard is not None:
            of_shares = Contamination(fraction, width, (0.0, 1.0))
            hard = HardShare(hard.value, *of_shares.widened(hard.ci_low, hard.ci_high))
        return ContaminatedEstimate(liars, *liars.widened(self.ci_low, self.ci_high), hard)

    @property
    def noise_variance(self) -> NoiseVariance | None:
        """Which part of the variance of an answer is noise; None for fewer than two answers.

        Bounds are those of the mechanism, and of answers in the clear: with the mean m and the
        ends a, b these have a variance of at most (m − a)(b − m), for the m in the interval where
        that is greatest. What answers vary more than that is noise.
        """
        if self.standard_error is None or self.ci_low is None or self.ci_high is None:
            return None
        variance, found = self._variance, self.noise
        if found is None and self.mechanism is not None and self.value is not None:
            excess = variance + self.value**2 - self.value
            ends = self.ci_low, self.ci_high
            found = bounded_noise_variance(
                self.mechanism, self.n, ends, excess, self.limits, self.confidence
            )
        if found is None:
            found = NoiseVariance(None, 0.0, math.inf, Basis.BOUNDED)
        low, high = self.limits.means
        middle = min(max((low + high) / 2, self.ci_low), self.ci_high)
        clear = (middle - low) * (high - middle) if math.isfinite(high - low) else math.inf
        return found.within(max(variance - clear, 0.0), variance)

    @property
    def price(self) -> Price | None:
        """The price of privacy: the variance in multiples of that of answers in the clear."""
        noise = self.noise_variance
        return noise.price(self._variance) if noise is not None and self._variance > 0 else None

    @property
    def _variance(self) -> float:
        """The mean square deviation of the answers from their mean."""
        return 0.0 if self.standard_error is None else self.standard_error**2 * (self.n - 1)

    def _targets(self) -> dict[str, object]:
        """Return what is known of the three targets, in the words of a plan."""
        noise, price = self.noise_variance, self.price

        def error(variance: float | None) -> float | None:
            known = variance is not None and math.isfinite(variance)
            return math.sqrt(variance / self.n) if known and variance is not None else None

        def people(ratio: float | None) -> int | None:
            return None if ratio is None else round(self.n / ratio)

        def shown(ratio: float | None) -> float | None:
            return ratio if ratio is not None and math.isfinite(ratio) else None

        return {
            "targets": {
                "participants": {
                    "basis": None if noise is None else noise.basis.value,
                    "standard_error": noise and error(noise.value),
                    "standard_error_at_least": noise and error(noise.low),
                    "standard_error_at_most": noise and error(noise.high),
                },
                "population": {
                    "standard_error": self.standard_error,
                    "ci_low": self.ci_low,
                    "ci_high": self.ci_high,
                },
                "hard_question": None if self.hard is None else asdict(self.hard),
            },
            "price_of_privacy": None
            if price is None
            else {
                "basis": price.basis.value,
                "variance_ratio": shown(price.value),
                "variance_ratio_at_least": shown(price.low),
                "variance_ratio_at_most": shown(price.high),
                "participants_in_the_clear": people(price.value),
                "participants_in_the_clear_at_least": people(price.high),
                "participants_in_the_clear_at_most": people(price.low),
            },
        }

    @property
    def hard(self) -> HardShare | None:
        """The hard share that was asked for, by the plan; None without a plan or an interval."""
        if self.softness is None or self.value is None:
            return None
        if self.ci_low is None or self.ci_high is None:
            return None
        return hard_share(self.value, self.ci_low, self.ci_high, self.softness, self.confidence)

    def to_dict(self) -> dict[str, object]:
        """Return what JSON can hold, ε with its distance and unit."""
        planned: dict[str, object] = {}
        if self.softness is not None:
            planned["expected_difference"] = asdict(self.softness)
            if self.band is not None:
                planned["band"] = asdict(self.band)
            planned["hard_share"] = None if self.hard is None else asdict(self.hard)
        return {
            "name": self.label,
            "estimate": self.value,
            "standard_error": self.standard_error,
            "ci_low": self.ci_low,
            "ci_high": self.ci_high,
            "interval": None
            if self.method is None
            else {"method": self.method.value, "promise": self.method.promise},
            "n": self.n,
            "one_report": self.one_report,
            "epsilon": self.privacy.epsilon,
            "per": self.privacy.per,
            "unit": self.privacy.unit,
            "median_of_means": self.robust
            and {
                "estimate": self.robust.value,
                "ci_low": self.robust.ci_low,
                "ci_high": self.robust.ci_high,
            },
            **self._targets(),
            **planned,
        }


@dataclass(frozen=True, slots=True)
class ContaminatedEstimate:
    """What is known of an estimate if some answers may be false."""

    contamination: Contamination
    """How far these can move it."""
    ci_low: float | None
    """Lower end of the interval that holds the mean over honest people, too."""
    ci_high: float | None
    hard: HardShare | None
    """The hard share, with an interval that does."""

    def to_dict(self) -> dict[str, object]:
        """Return what JSON can hold."""
        hard = {} if self.hard is None else {"hard_share": asdict(self.hard)}
        ends = {"ci_low": self.ci_low, "ci_high": self.ci_high}
        return self.contamination.to_dict() | ends | hard


@dataclass(frozen=True)
class CampaignEstimates(Result):
    """What the reports of a campaign say so far."""

    campaign: Campaign
    state: str
    """pending, open or closed."""
    estimates: tuple[LabelledEstimate, ...]
    """One per query, period after period."""
    unbiased_for: str
    """What every value is an unbiased estimate of, in words."""
    privacy: GeoPrivacy
    """What a participant spent, in all or in every period in which they answered."""
    privacy_at_most: GeoPrivacy
    """What a participant spent who answered in every period that has begun."""
    contamination: float | None = None
    """Which fraction of the answers may be false; None: it is not asked."""
    groups: tuple[GroupEstimates, ...] = ()
    """The estimates by group, of a campaign with strata: one per query, period after period;
    without groups of which nothing can be told yet."""

    def by_group(self, question: str | None = None, period: int = 0) -> GroupEstimates:
        """Return the means of one question within groups.

        Args:
            question: its label; the only one by default.
            period: of a recurring campaign, from 0.

        Raises:
            ParameterError: if there is no such question or period, or nothing can be told.
        """
        found = [g for g in self.groups if g.question == question or question is None]
        found = [g for g in found if (g.period or 0) == period]
        if len(found) != 1:
            known = ", ".join(dict.fromkeys(g.question for g in self.groups)) or "none: no strata"
            raise ParameterError("question", question, f"one of a period with groups ({known})")
        return found[0]

    @property
    def title(self) -> str:
        recurs = self.campaign.period is not None
        each = f" in each period, at most {self.privacy_at_most} so far" if recurs else ""
        return f"{self.campaign.title} ({self.privacy}, for each participant{each})"

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes())

    def with_interval(self, method: IntervalMethod) -> "CampaignEstimates":
        """Return the same with other intervals, from the same reports.

        Raises:
            ParameterError: if the method needs answers with ends, and these have none.
        """
        rows = tuple(row.with_interval(method) for row in self.estimates)
        return replace(self, estimates=rows)

    def contaminated(self, fraction: float) -> "CampaignEstimates":
        """Return the same with what a fraction of false answers can do to each estimate.

        Raises:
            ParameterError: if the fraction is not in [0, 1), or nothing is known of what an answer
                counts for.
        """
        for row in self.estimates:
            row.contaminated(fraction)
        return replace(self, contamination=fraction)

    def joint(
        self, labels: Sequence[str] | None = None, period: int | None = None
    ) -> JointEstimates:
        """Return estimates of one period as those that differences and trends are made of.

        Of a campaign whose questions are answered by different people each, errors do not go
        together. Where one person answers several, how they do is not known from reports that
        nobody can link: then one label is to be named.

        Args:
            labels: of the questions wanted; None: all.
            period: of a recurring campaign; None: the only one.

        Raises:
            ParameterError: if there is no such estimate, or the period is not said.
            UnsupportedError: if covariances are not known, or there are fewer than two answers.

        Example:
            `compare(may.joint(), june.joint(), people="different")`
        """
        wanted = period_of(self.campaign, period)
        rows = [row for row in self.estimates if row.period == wanted]
        if not rows:
            raise ParameterError("period", period, "one that has estimates")
        known = tuple(row.label for row in rows)
        for label in labels or ():
            if label not in known:
                raise ParameterError("labels", label, f"some of {known}")
        rows = [row for row in rows if labels is None or row.label in labels]
        apart = isinstance(self.campaign, StatisticCampaign) and not self.campaign.answers_all
        if len(rows) > 1 and not apart:
            raise UnsupportedError(
                "how the errors of several questions go together is not known where one person"
                " answers them all: name one label, or ask points of a value campaign (Means)"
            )
        errors = [row.standard_error for row in rows]
        if None in errors:
            raise UnsupportedError("an error needs two answers (n ≥ 2)")
        return _joint(self.campaign, rows, np.diag(np.square(np.array(errors, np.float64))))

    def rows(self) -> list[dict[str, Any]]:
        campaign, rows = self.campaign, []
        for row in self.estimates:
            begins = (
                {}
                if campaign.period is None
                else {"period": row.period, "begins": self._begins(row)}
            )
            told: dict[str, Any] = {
                "query": row.label,
                **begins,
                "estimate": row.value,
                "standard_error": row.standard_error,
                "ci_low": row.ci_low,
                "ci_high": row.ci_high,
            }
            if any(other.robust is not None for other in self.estimates):
                ends = row.robust and (row.robust.ci_low, row.robust.ci_high)
                told["median_of_means_low"], told["median_of_means_high"] = ends or (None, None)
            if self.contamination is not None:
                widened = row.contaminated(self.contamination)
                told["contaminated_low"] = widened.ci_low
                told["contaminated_high"] = widened.ci_high
            told["n"] = row.n
            if any(other.one_report is not None for other in self.estimates):
                told["one_report_at_most"] = row.one_report
            rows.append(told)
        return rows

    def to_dict(self) -> dict[str, Any]:
        return {
            "campaign_id": self.campaign.campaign_id,
            "unbiased_for": self.unbiased_for,
            "epsilon_at_most": self.privacy_at_most.epsilon,
            "estimates": [
                row.to_dict() | {"period": row.period} | self._contaminated(row)
                for row in self.estimates
            ],
            "notes": list(self.notes),
        }

    def _contaminated(self, row: LabelledEstimate) -> dict[str, object]:
        if self.contamination is None:
            return {}
        return {"contamination": row.contaminated(self.contamination).to_dict()}

    def _begins(self, row: LabelledEstimate) -> str:
        assert self.campaign.period is not None  # asked of recurring campaigns only
        return f"{self.campaign.opens + row.period * self.campaign.period:%Y-%m-%d %H:%M} UTC"

    def _notes(self) -> Iterator[str]:
        rows = self.estimates
        yield f"{self.unbiased_for} The error holds noise and sampling."
        yield "The interval is for the population of which the participants are a random sample."
        if any(row.n < 2 for row in rows):
            yield "An error and an interval need two answers (n ≥ 2)."
        yield from _of_privacy(rows)
        for method in dict.fromkeys(row.method for row in rows if row.method is not None):
            yield f"{100 * rows[0].confidence:g} % interval ({method}): {method.promise}."
        for row in rows:
            if row.hard is not None and row.softness is not None:
                begins = "" if self.campaign.period is None else f", {self._begins(row)}"
                expects = "The plan expects" if row.band is None else f"{row.band.words} Expect"
                yield (
                    f"Hard share, {row.label}{begins}: {row.hard.value:.4f}, bias-aware"
                    f" {100 * row.confidence:g} % interval {row.hard.ci_low:.4f} –"
                    f" {row.hard.ci_high:.4f}. {expects} the soft share, the estimate above,"
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

    def _of_liars(self, fraction: float) -> Iterator[str]:
        for row in self.estimates:
            found = row.contaminated(fraction)
            liars, hard = found.contamination, found.hard
            begins = "" if self.campaign.period is None else f", {self._begins(row)}"
            holds = (
                ""
                if hard is None
                else f" The hard share is held by {hard.ci_low:.4f} – {hard.ci_high:.4f}."
            )
            yield (
                f"Liars, {row.label}{begins}: {100 * fraction:g} % of the answers move the estimate"
                f" by at most {liars.moved:.3g}, whatever they say, and by at most"
                f" {liars.moved_by_values:.3g} if they are an honest app's about false values."
                f"{holds}"
            )
        yield (
            "The contaminated interval holds the mean over honest people whatever liars say, at the"
            " same confidence."
        )


@dataclass(frozen=True, slots=True)
class ReportRows:
    """Some reports of a campaign: integers on its grid, without ids.

    A row is an answer of a statistic campaign, or a point of a value campaign.
    """

    periods: NDArray[np.uint32]
    query_indices: NDArray[np.uint32] | None
    """None for a value campaign."""
    columns: tuple[NDArray[np.int64], ...]
    """One of a statistic campaign, one for each coordinate of a value campaign."""
    strata: NDArray[np.uint32] | None = None
    """The labels that rows came with, from 0; None without strata."""


def _beside(softness: Difference) -> str:
    """Return an expected difference and its bound, with the decimals that the bound calls for."""
    if not softness.bound:
        return f"{softness.expected:+.3g}"
    decimals = max(1 - math.floor(math.log10(softness.bound)), 0)
    return f"{softness.expected:+.{decimals}f} ± {softness.bound:.{decimals}f}"


def published(message: analyst_pb2.CampaignSummary) -> PublishedCampaign:
    """Return what a message says of a campaign."""
    return PublishedCampaign(message.envelope, _state(message.state), message.reports)


def estimates_in(
    message: analyst_pb2.GetEstimateResponse, *, of_points: bool = False
) -> CampaignEstimates:
    """Return what a message says of estimates.

    Args:
        message: of the server.
        of_points: whether its queries were asked of the points of a value campaign.
    """
    campaign = decode(message.envelope.campaign)
    of_all = [shown for shown in message.estimates if not shown.stratum]
    rows = tuple(
        # Period after period.
        _estimate(campaign, number % campaign.columns, shown, of_points)
        for number, shown in enumerate(of_all)
    )
    by_question: dict[tuple[int, str], list[analyst_pb2.Estimate]] = {}
    for shown in message.estimates:
        if shown.stratum:
            by_question.setdefault((shown.period, shown.label), []).append(shown)
    groups = [group_estimates(campaign, of, of_points=False) for of in by_question.values()]
    return CampaignEstimates(
        campaign,
        _state(message.state),
        rows,
        message.unbiased_for,
        _privacy(campaign, message.privacy),
        _privacy(campaign, message.privacy_at_most),
        groups=tuple(found for found in groups if found is not None),
    )


def group_estimates(
    campaign: Campaign, of_labels: Sequence[analyst_pb2.Estimate], *, of_points: bool
) -> GroupEstimates | None:
    """Return the means of one question within groups; None if nothing can be told.

    Args:
        campaign: with strata.
        of_labels: estimates from the reports that came with each label, in their order.
        of_points: whether the question was asked of the points of a value campaign.
    """
    strata, first = campaign.strata, of_labels[0]
    if strata is None or len(of_labels) != len(strata.labels):
        return None
    exponent = POINTS_EXPONENT if of_points else campaign.grid_exponent
    limits = _limits(campaign, first, of_points)
    common: dict[str, Any] = {
        "confidence": first.confidence,
        "limits": limits,
        "question": first.label,
        "privacy": campaign.report_privacy,
        "period": None if campaign.period is None else first.period,
    }
    sums = tuple(Accumulator(e.n, int(e.sum or 0), int(e.sum_of_squares or 0)) for e in of_labels)
    if strata.randomized is not None:
        return RandomizedGroupEstimates.of(strata.labels, strata.randomized, sums, exponent, common)
    told = [(label, e) for label, e in zip(strata.labels, of_labels, strict=True) if e.n > 1]
    if not told:
        return None
    return GroupEstimates.independent(
        {label: e.value for label, e in told},
        {label: e.standard_error for label, e in told},
        {label: e.n for label, e in told},
        **common,
    )


def joint_in(message: analyst_pb2.GetEstimateResponse) -> JointEstimates:
    """Return what a message says of questions to the points of one period, with covariances.

    Raises:
        UnsupportedError: if there are none: too few points, or a server that does not know them.
    """
    found = estimates_in(message, of_points=True)
    if not message.covariances:
        reports = max((estimate.n for estimate in found.estimates), default=0)
        told = "have no covariances" if reports < 2 else "came without covariances: an old server"
        raise UnsupportedError(f"estimates of {reports} reports {told}")
    size = len(found.estimates)
    covariance = np.zeros((size, size))
    covariance[np.tril_indices(size)] = message.covariances[0].lower_triangle
    covariance += np.tril(covariance, -1).T
    return _joint(found.campaign, found.estimates, covariance)


def _joint(
    campaign: Campaign, rows: Sequence[LabelledEstimate], covariance: NDArray[np.float64]
) -> JointEstimates:
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


def separate_in(message: analyst_pb2.GetEstimateResponse) -> SeparateEstimates:
    """Return what a message says of questions to the points of one period.

    Raises:
        UnsupportedError: if there are too few points.
    """
    found = estimates_in(message, of_points=True)
    rows = found.estimates
    values = [row.value for row in rows if row.value is not None]
    errors = [row.standard_error for row in rows if row.standard_error is not None]
    if len(errors) < len(rows) or not rows:
        reports = max((row.n for row in rows), default=0)
        raise UnsupportedError(f"estimates of {reports} reports have no standard error")
    return SeparateEstimates(
        labels=tuple(row.label for row in rows),
        values=np.array(values),
        standard_errors=np.array(errors),
        n=rows[0].n,
        confidence=rows[0].confidence,
        limits=tuple(row.limits for row in rows),
        privacy=rows[0].privacy,
        period=None if found.campaign.period is None else rows[0].period,
    )


def rows_in(message: analyst_pb2.ExportReportsResponse) -> ReportRows:
    """Return the rows of a message."""

    def array(numbers: Any, kind: Any) -> Any:
        return np.fromiter(numbers, kind, len(numbers))

    return ReportRows(
        array(message.periods, np.uint32),
        array(message.query_indices, np.uint32) if message.query_indices else None,
        tuple(array(column.values, np.int64) for column in message.columns),
        array(message.strata, np.uint32) if message.strata else None,
    )


def _estimate(
    campaign: Campaign, column: int, shown: analyst_pb2.Estimate, of_points: bool
) -> LabelledEstimate:
    several = shown.HasField("standard_error")
    found = shown.median_of_means
    return LabelledEstimate(
        label=shown.label,
        value=shown.value if shown.HasField("value") else None,
        standard_error=shown.standard_error if several else None,
        ci_low=shown.ci_low if several else None,
        ci_high=shown.ci_high if several else None,
        method=_METHODS.get(shown.interval_method),
        confidence=shown.confidence,
        n=shown.n,
        one_report=(
            campaign.most_from_one(column) / shown.n if shown.n > 0 and not of_points else None
        ),
        privacy=campaign.report_privacy,
        period=shown.period,
        robust=(
            RobustInterval(found.value, found.ci_low, found.ci_high, found.blocks)
            if shown.HasField("median_of_means")
            else None
        ),
        sums=(int(shown.sum or 0), int(shown.sum_of_squares or 0)),
        step_exponent=POINTS_EXPONENT if of_points else campaign.grid_exponent,
        limits=_limits(campaign, shown, of_points),
        softness=(
            campaign.questions[column].softness
            if isinstance(campaign, StatisticCampaign) and not of_points
            else None
        ),
        noise=_noise(campaign, column, shown, of_points),
        mechanism=campaign.mechanisms[column] if isinstance(campaign, StatisticCampaign) else None,
    )


def _limits(campaign: Campaign, shown: analyst_pb2.Estimate, of_points: bool) -> Limits:
    """Return what the server tells, and the law of the mechanism, which the campaign tells."""

    def moments() -> ReportMoments | None:
        return campaign.limits[campaign.labels.index(shown.label)].moments()

    told = shown.limits
    if not shown.HasField("limits"):
        return UNLIMITED
    return Limits(
        (told.least_answer, told.greatest_answer),
        (told.least_mean, told.greatest_mean),
        UNLIMITED.moments if of_points else moments,
    )


def _noise(
    campaign: Campaign, column: int, shown: analyst_pb2.Estimate, of_points: bool
) -> NoiseVariance | None:
    """Return the noise variance that the server or the campaign tells."""
    if shown.HasField("noise_variance"):
        told = shown.noise_variance
        return NoiseVariance(told.value, told.ci_low, told.ci_high, Basis.ESTIMATED)
    if not isinstance(campaign, ValueCampaign) or of_points:
        return None
    mechanism = campaign.point_mechanism
    of_point = np.ravel(mechanism.variance(np.zeros((1, mechanism.dimension))))
    exact = float(of_point[column])
    return NoiseVariance(exact, exact, exact, Basis.EXACT)


def _of_privacy(rows: Iterable[LabelledEstimate]) -> Iterator[str]:
    """Yield what privacy cost: a sentence for all estimates for which it is known in one way."""
    known: dict[Basis, list[tuple[int, NoiseVariance, Price]]] = {}
    for row in rows:
        noise, price = row.noise_variance, row.price
        if noise is not None and price is not None:
            known.setdefault(price.basis, []).append((row.n, noise, price))
    for basis, of_basis in known.items():
        errors, ratios, people = [], [], []
        for n, noise, price in of_basis:
            noises = [noise.low, noise.high] if noise.value is None else [noise.value]
            prices = [price.low, price.high] if price.value is None else [price.value]
            errors += [math.sqrt(of_one / n) for of_one in noises]
            ratios += prices
            people += [round(n / ratio) for ratio in prices]
        cost, same = _between(ratios, ".3g"), _between(people, ",")
        if max(ratios) == math.inf:
            cost, same = f"at least {min(ratios):.3g}", f"at most {max(people):,}"
        yield (
            f"Of the participants themselves the standard error is {_between(errors, '.3g')}. Price"
            f" of privacy: {cost} × the variance that the same people would give in the clear, as"
            f" good as {same} participants in the clear ({basis.words})."
        )


def _between(numbers: Sequence[float], style: str) -> str:
    least, most = format(min(numbers), style), format(max(numbers), style)
    return least if least == most else f"{least} to {most}"


def _privacy(campaign: Campaign, message: campaign_pb2.Privacy) -> GeoPrivacy:
    return GeoPrivacy(message.epsilon, message.per, campaign.privacy.unit)


def _state(number: int) -> str:
    return _STATES.get(number, f"state {number}")
