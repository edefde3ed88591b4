"""One estimate of a server: its error, interval, noise, price of privacy, and the hard share."""

import math
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from geoveil.analyst.contamination import Contamination
from geoveil.analyst.hard_question import HardShare, Heap, hard_share
from geoveil.analyst.results import SMOOTH, estimated, finite, possible
from geoveil.campaign import Difference
from geoveil.gp import (
    Accumulator,
    Array,
    Basis,
    ContradictionError,
    ForgedShare,
    GeoPrivacy,
    IntervalMethod,
    Limits,
    NoiseVariance,
    QueryMechanism,
    estimate,
    interval_of_mean,
)

_INFEASIBLE = 2
"""The solver's status for an infeasible programme."""
_CONSTANT = 1e-9
"""Negligible variance, relative to the greatest."""
_HARDLY = 0.01
"""The probability of an answer beyond the ends that are assumed, relative to that of a miss."""
_HEAVIEST = 2.02
"""The exponent a of a tail up to which that is too much: with P(|Z| > u) = Cu^−a, noise has about
2C/(a − 2), and the upper end of an interval that misses α is at least 50 C/α."""


@dataclass(frozen=True, slots=True)
class Price:
    """The variance of answers as a multiple of the variance without noise, for the same people."""

    value: float | None
    """None if there are only bounds; infinite if all of the variance may be noise."""
    low: float
    high: float
    basis: Basis

    @classmethod
    def of(cls, noise: NoiseVariance, variance: float, ends: tuple[float, float]) -> "Price":
        """Return the price of privacy for answers of a variance > 0, itself between two ends."""

        def ratio(part: float, whole: float) -> float:
            return 1 / (1 - part / whole) if part < whole else math.inf

        value = None if noise.value is None else ratio(noise.value, variance)
        least, most = ends
        return cls(value, ratio(noise.low, most), ratio(noise.high, least), noise.basis)


@lru_cache(maxsize=1024)
def bounded_noise_variance(
    mechanism: QueryMechanism,
    n: int,
    mean: tuple[float, float],
    excess: float,
    limits: Limits,
    confidence: float,
) -> NoiseVariance:
    """Return bounds of the noise variance that hold for any people.

    At the distance s, a mechanism has a public mean m(s) and variance V(s). Answers reveal E m(s)
    and, if they have ends, E[V(s) + (m(s) − a)(m(s) − b)], a and b the ends of means, up to
    sampling errors. The bounds are the least and greatest E V(s) over all laws of s that agree: two
    linear programmes, whose dual solutions prove them. They are equal if all noise is the same.

    Args:
        mechanism: the mechanism of one query; if it is biased, answers reveal nothing about s.
        n: answers, ≥ 2.
        mean: the ends of a confidence interval for the mean of answers.
        excess: the mean of (y − a)(y − b) over the answers: of shares, of y² − y.
        confidence: confidence of the allowance for sampling errors, in (0, 1).

    Raises:
        ContradictionError: if no people give such answers, for example as some are forged.

    Example:
        >>> from geoveil.gp import DebiasedLaplace, GeoPrivacy, Threshold
        >>> query = Threshold(at=100_000, width=24_000, profile="smoothstep")
        >>> mechanism = DebiasedLaplace(query, GeoPrivacy(1.0, per=8_000.0))
        >>> limits = Limits(mechanism.range, (0.0, 1.0))
        >>> found = bounded_noise_variance(mechanism, 10**6, (0.48, 0.5), 0.03, limits, 0.95)
        >>> round(found.low, 3), round(found.high, 3)
        (0.029, 0.119)
    """
    # Some people's answers may be made from points, which no cap clips.
    law = (mechanism.report_moments() if mechanism.query.nests else None) or mechanism.law()
    if law is None or law.noise is None:  # of biased noise no variance is a mean of others
        return NoiseVariance(None, 0.0, math.inf, Basis.BOUNDED)
    (value, second, _), noise, origin = law.points.T, law.variances, law.origin
    least, greatest, total = float(noise.min()), float(noise.max()), math.inf
    if greatest - least <= _CONSTANT * greatest:
        return NoiseVariance(greatest, greatest, greatest, Basis.EXACT)
    rows, ends = [], []
    if mechanism.unbiased:
        rows += [value, -value]
        ends += [mean[1] - origin, origin - mean[0]]
    if mechanism.unbiased and limits.bounded:
        low, high = limits.means
        square = second + (2 * origin - low - high) * value + (origin - low) * (origin - high)
        lowest, top = -((high - low) ** 2) / 4, max((y - low) * (y - high) for y in limits.reports)
        rows += [square, -square]
        fewest, most = _mean_between(excess, (lowest, top), n, confidence)
        ends += [most, -fewest]
        middle = min(max(mean[0], (low + high) / 2), mean[1])
        total = most + (middle - low) * (high - middle)  # no noise exceeds reports'
    if rows:
        low = max(_least(noise[0], np.array(rows), np.array(ends)), least)
        high = min(-_least(-noise[1], np.array(rows), np.array(ends)), greatest)
    else:
        low, high = least, greatest
    low = low if low > _CONSTANT * greatest else 0.0  # rounding
    basis = Basis.LOOSE if law.loose else Basis.BOUNDED
    return NoiseVariance(None, low, max(low, min(high, total)), basis)


def _mean_between(
    mean: float, ends: tuple[float, float], n: int, confidence: float
) -> tuple[float, float]:
    """Return an interval for the expected mean of numbers between ends.

    Those at the ends vary most, so it is that of a share [CP34]: a few people may have most of the
    mean, whom no answer shows, or all of whom happen to be shown.
    """
    from scipy.special import betaincinv

    low, length = ends[0], ends[1] - ends[0]
    share, missed = min(max((mean - low) / length, 0.0), 1.0), (1 - confidence) / 2
    least = betaincinv(n * share, n - n * share + 1, missed) if share > 0 else 0.0
    most = betaincinv(n * share + 1, n - n * share, 1 - missed) if share < 1 else 1.0
    return min(low + length * float(least), mean), max(low + length * float(most), mean)


def _least(goal: Array, rows: Array, ends: Array) -> float:
    """Return a lower bound of a goal's mean over all laws whose means of rows stay below ends.

    Any weights w >= 0 prove the least of goal + w·(rows − ends) over all people.
    """
    from scipy.optimize import linprog

    size = np.maximum(np.abs(rows).max(axis=1), np.abs(ends))
    size[size == 0] = 1.0
    rows, ends, unit = rows / size[:, None], ends / size, float(np.abs(goal).max())
    for method in ("highs", "highs-ipm"):  # the first is quicker, and may not tell
        solved = linprog(
            goal / unit,
            A_ub=rows,
            b_ub=ends,
            A_eq=np.ones((1, len(goal))),
            b_eq=[1.0],
            method=method,
            options={"presolve": False},  # it takes as long again, and five full rows have nothing
        )
        if solved.success or solved.status == _INFEASIBLE:
            break
    if solved.status == _INFEASIBLE:
        raise ContradictionError("no people give such answers through this mechanism")
    weights = np.maximum(-solved.ineqlin.marginals, 0.0) if solved.success else np.zeros(len(ends))
    return unit * float((goal / unit + weights @ (rows - ends[:, None])).min())


@dataclass(frozen=True, slots=True)
class RobustInterval:
    """The median of the means of disjoint blocks, and the distribution-free interval for it."""

    value: float
    ci_low: float
    ci_high: float
    blocks: int
    """The number of blocks with answers."""


@dataclass(frozen=True, slots=True)
class ChosenBand:
    """A band chosen from the reports, and its assumptions about people there."""

    profile: str
    width: float
    """In the unit of the values."""
    slope_bound: float
    """Their density changes by at most this, in shares per (unit of the values)²."""
    from_reports: bool
    """Whether the bound comes from the reports, and so certifies nothing; otherwise it was
    stated."""
    heaps: tuple[Heap, ...]
    """People who hold exactly one value, as stated."""
    by_ratio: bool = False
    """Whether values are compared by ratio: width and slope are of their logarithms."""

    @property
    def words(self) -> str:
        """The choice and its assumptions, in sentences."""
        held = [f"{heap.share:.3g} hold exactly {heap.at:,.15g}" for heap in self.heaps]
        heaps = (
            f"of the people {', '.join(held)}, as stated"
            if held
            else "no value near the question is one that many hold exactly (state it if one is)"
        )
        basis = (
            "as the reports suggest, which proves nothing: they do not show people crowded more "
            "closely than the noise" + ("" if self.by_ratio else "; state a bound that you know")
            if self.from_reports
            else "as stated"
        )
        wide, of = f"{self.width:,.6g} wide", "people"
        if self.by_ratio:
            wide, of = f"a factor of {math.exp(self.width):,.6g} wide", "people's logarithms"
        return (
            f"The band, {self.profile} and {wide}, is the one with the shortest interval. It was"
            f" assumed that the density of {of} changes by at most {self.slope_bound:.3g} shares"
            f" per unit² ({basis}), and that {heaps}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledEstimate:
    """The estimate of one query; its numbers are None while there are too few reports."""

    label: str
    """The name of the query."""
    value: float | None
    """The unbiased estimate, which may lie outside the interval: see `possible`."""
    standard_error: float | None
    """Noise and sampling together."""
    ci_low: float | None
    ci_high: float | None
    method: IntervalMethod | None
    """The method of the interval; None without one, or if an earlier server made a normal one."""
    confidence: float
    """The confidence of the interval, in (0, 1)."""
    n: int
    """The number of answers."""
    one_report: float | None = None
    """How far a single report can move the estimate; None without reports, for questions to points,
    and without a bound."""
    privacy: GeoPrivacy
    """The privacy of a whole report."""
    period: int
    """The period of a recurring campaign, from 0."""
    robust: RobustInterval | None = None
    """For noise with so heavy a tail that the interval above may fail, from 1,024 answers on."""
    sums: tuple[int, int]
    """Σk and Σk² of the reported integers."""
    step_exponent: int
    """The step of their grid is 2 to this power."""
    limits: Limits
    """The ranges of answers and of their mean."""
    softness: Difference | None = None
    """The difference from the hard share that the campaign's plan expects, if it has one."""
    band: ChosenBand | None = None
    """The band, if it was chosen from the reports."""
    around: tuple["LabelledEstimate", "LabelledEstimate"] | None = None
    """For points: shares that bound the hard share from below and above, however people crowd."""
    noise: NoiseVariance | None = None
    """The part of an answer's variance that is noise, if known; see `noise_variance`."""
    mechanism: QueryMechanism | None = None
    """The mechanism of the answers, for a query of the campaign."""
    forged: ForgedShare | None = None
    """A lower bound of the forged share of the answers; None if it can't be tested."""
    cohort: int | None = None
    """The cohort, from 0, if devices reveal theirs; None: everybody's answers."""

    def with_interval(self, method: IntervalMethod | None) -> "LabelledEstimate":
        """Return the same with another interval, from the same reports.

        Args:
            method: None: of one look, the sharpest.

        Raises:
            ParameterError: if the method needs answers with ends, and these have none.
        """
        if method is self.method:  # the server knows the law of every estimator from points
            return self
        sums = Accumulator(self.n, *self.sums)
        made = estimate(sums, self.step_exponent, self.confidence, self.limits, method)
        around = self.around
        if around is not None:
            around = around[0].with_interval(method), around[1].with_interval(method)
        return replace(
            self, ci_low=made.ci_low, ci_high=made.ci_high, method=made.method, around=around
        )

    def contaminated(self, fraction: float) -> "ContaminatedEstimate":
        """Return the estimate if a fraction of the answers may be false.

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
        """The part of an answer's variance that is noise; None for fewer than two answers.

        The mechanism bounds it, and so do answers without noise: with the mean m and the ends a, b
        their variance is at most (m − a)(b − m), for the m in the interval that makes it greatest.
        Any variance of answers beyond that is noise, and noise has at most the answers' variance:
        at most as much as a few equal answers allow.
        """
        if self.standard_error is None or self.ci_low is None or self.ci_high is None:
            return None
        variance, noise = self._variance, self.noise
        if noise is None and self.mechanism is not None and self.value is not None:
            low, high = self.limits.means
            excess = variance + (self.value - low) * (self.value - high)
            ends = self.ci_low, self.ci_high
            try:
                noise = bounded_noise_variance(
                    self.mechanism, self.n, ends, excess, self.limits, self.confidence
                )
            except ContradictionError:
                noise = NoiseVariance(None, 0.0, math.inf, Basis.CONTRADICTED)
        if noise is None:
            noise = NoiseVariance(None, 0.0, math.inf, Basis.BOUNDED)
        low, high = self.limits.means
        middle = min(max((low + high) / 2, self.ci_low), self.ci_high)
        clear = (middle - low) * (high - middle) if math.isfinite(high - low) else math.inf
        least, most = self._variances
        return noise.within(max(least - clear, 0.0), most)

    @property
    def price(self) -> Price | None:
        """The price of privacy: the variance as a multiple of that of answers without noise."""
        noise, spread = self.noise_variance, self._variance
        return Price.of(noise, spread, self._variances) if noise and spread > 0 else None

    @property
    def _variance(self) -> float:
        """The mean square deviation of the answers from their mean."""
        return 0.0 if self.standard_error is None else self.standard_error**2 * (self.n - 1)

    @property
    def _variances(self) -> tuple[float, float]:
        """An interval for the variance of answers, the mean of squares that have two ends.

        Answers without ends have those that hardly any campaign's leave, unless noise beyond them
        may have most of its variance, or has none.
        """
        variance, (low, high) = self._variance, self.limits.reports
        tail = getattr(getattr(self.mechanism, "noise", None), "tail_exponent", math.inf)
        if not math.isfinite(high - low) and self.mechanism is not None and tail > _HEAVIEST:
            beyond = _HARDLY * (1 - self.confidence) / self.n
            low, high = (k * self.mechanism.step for k in self.mechanism.likely_range(beyond))
        if self.value is None or not math.isfinite(high - low):
            return 0.0, math.inf
        ends = 0.0, max(high - self.value, self.value - low) ** 2
        spread = variance * max(ends[1] - variance, 0.0)  # their largest variance [BD00]
        interval = interval_of_mean(self.n, variance, spread, self.confidence, Limits(ends, ends))
        return interval.low, interval.high

    def _targets(self) -> dict[str, object]:
        """Return the estimates of the three targets, in the words of a plan."""
        noise, price = self.noise_variance, self.price

        def error(variance: float | None) -> Any:
            return None if variance is None else finite(math.sqrt(variance / self.n))

        def people(ratio: float | None) -> int | None:
            return None if ratio is None else round(self.n / ratio)

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
                "variance_ratio": finite(price.value),
                "variance_ratio_at_least": finite(price.low),
                "variance_ratio_at_most": finite(price.high),
                "participants_in_the_clear": people(price.value),
                "participants_in_the_clear_at_least": people(price.high),
                "participants_in_the_clear_at_most": people(price.low),
            },
        }

    @property
    def hard(self) -> HardShare | None:
        """The hard share of the question, by the plan; None without a plan or an interval."""
        if (
            self.softness is None
            or self.value is None
            or self.ci_low is None
            or self.ci_high is None
        ):
            return None
        return hard_share(self.value, self.ci_low, self.ci_high, self.softness, self.confidence)

    @property
    def any_crowd(self) -> tuple[float, float] | None:
        """The ends of an interval of the hard share, in [0, 1], valid however people crowd."""
        if self.around is None or self.around[0].ci_low is None or self.around[1].ci_high is None:
            return None
        low, high = max(self.around[0].ci_low, 0.0), min(self.around[1].ci_high, 1.0)
        hard = self.hard
        return (low, high) if hard is None else (min(low, hard.value), max(high, hard.value))

    @property
    def possible(self) -> float | None:
        """The number in the interval nearest to the value; the value itself without an interval."""
        nearest: float | None = possible(self.value, self.ci_low, self.ci_high)["estimate"]
        return nearest

    @property
    def holds(self) -> str:
        """The assumption or smoothing behind the interval of the hard share, in few words."""
        if self.band is None:
            return "as planned"
        return SMOOTH if self.band.from_reports else "slope as stated"

    def to_dict(self) -> dict[str, object]:
        """Return JSON values, ε with its distance and unit."""
        planned: dict[str, object] = {}
        if self.softness is not None:
            planned["expected_difference"] = asdict(self.softness)
            if self.band is not None:
                planned["band"] = asdict(self.band)
            planned["hard_share"] = self.hard and asdict(self.hard) | {"holds": self.holds}
        if self.any_crowd is not None:
            planned["any_crowd"] = dict(zip(("ci_low", "ci_high"), self.any_crowd, strict=True))
        return {
            "name": self.label,
            **estimated(self.value, self.standard_error, self.ci_low, self.ci_high),
            "interval": None
            if self.method is None
            else {"method": self.method.value, "promise": self.method.promise},
            "n": self.n,
            "one_report": self.one_report,
            "forged_share_at_least": self.forged and self.forged.at_least,
            "epsilon": self.privacy.epsilon,
            "per": self.privacy.per,
            "unit": self.privacy.unit,
            **({"delta": self.privacy.delta} if self.privacy.delta else {}),
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
    """An estimate from answers of which some may be false."""

    contamination: Contamination
    """How far false answers can move the estimate."""
    ci_low: float | None
    """Lower end of the interval of the mean over honest people."""
    ci_high: float | None
    hard: HardShare | None
    """The hard share, with an interval over honest people."""

    def to_dict(self) -> dict[str, object]:
        """Return JSON values."""
        hard = {} if self.hard is None else {"hard_share": asdict(self.hard)}
        ends = {"ci_low": self.ci_low, "ci_high": self.ci_high}
        return self.contamination.to_dict() | ends | hard
