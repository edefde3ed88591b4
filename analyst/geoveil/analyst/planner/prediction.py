"""Predict bias and noise of a mechanism from exact moments, without simulation [MATH §8].

With m and v the mean and the variance of one report at x, expectations over the prior, bias = E[m −
truth] and noise = E[v], the mean of n reports misses the mean m of the **participants** by noise/n;
that of the **population** of which they are a random sample by (noise + Var[m])/n, the standard
error which an estimate prints; and the **hard question**, which m only stands for, by bias²
besides.

Ways to ask are chosen by bias² + Var[m − truth]/N + noise/n, the part that they affect, where the
prior is worth a sample of N people; with scenarios, by the largest over all of them. If each person
answers only one of several questions, that adds to the error: see `partitioned`. The interval for
the hard question is that of `analyst.hard_question`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from geoveil.analyst.hard_question import reach
from geoveil.gp import (
    UNLIMITED,
    Array,
    Limits,
    MomentsAskedOnce,
    ReportMoments,
    interval_of_mean,
    validation,
)

NORMAL_95 = 1.959963984540054
"""Standard deviations that a normal number exceeds, on either side, once in twenty."""
CONFIDENCE = 0.95
"""The confidence of the intervals of plans."""
_FEWEST = 2.0
"""The least number of reports with an interval."""
_FAR = 0.2
"""How far one person may move a mean that is treated as normal, in standard errors."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The error of the mean of n reports. Numbers are in the unit of the truth, or its square."""

    bias: float
    """E[m − truth]: does not shrink with n."""
    noise: float
    """E[v]: variance of one report, averaged over people; infinite if it does not exist."""
    bias_variance: float
    """Var[m − truth] over people."""
    varied: float
    """Var[m] over people: matters if only some of them answer."""
    prior_size: float
    """The effective number of people behind the prior; see `Prior.size`."""
    scenarios: tuple["Prediction", ...] = ()
    """The predictions for the same reports in each of `Prior.scenarios`, in order."""
    mean: float | None = None
    """E[m], if it is known."""
    limits: Limits = UNLIMITED
    """The ranges of reports and of their mean over any people: intervals are longer near the
    ends."""

    def within(self, limits: Limits) -> "Prediction":
        """Return the same prediction for reports with limits, in each scenario."""
        scenarios = tuple(replace(scenario, limits=limits) for scenario in self.scenarios)
        return replace(self, limits=limits, scenarios=scenarios)

    @property
    def believed(self) -> "Prediction":
        """The prediction if the prior is right: without scenarios, with nothing subtracted."""
        return replace(self, scenarios=())

    def worst(self, n: float) -> "Prediction":
        """Return the prediction with the largest expected error, of this and its scenarios.

        Its bias is what remains after subtracting the middle of the scenarios.
        """
        return max(self._corrected, key=lambda p: p._expected_error(n))

    @property
    def bias_uncertainty(self) -> float:
        """Variance of the prior's estimate of the bias: Var[m − truth]/N."""
        return self.bias_variance / self.prior_size

    def mean_squared_error(self, n: float) -> float:
        """Return bias² + noise/n: the error if the prior is right."""
        return self.bias**2 + self.noise / validation.positive("n", n)

    def expected_error(self, n: float) -> float:
        """Return the mean squared error to expect in the worst scenario, the prior being a sample.

        See the module.
        """
        return self.worst(n)._expected_error(n)

    def _expected_error(self, n: float) -> float:
        return self.mean_squared_error(n) + self.bias_uncertainty

    def share_of_bias(self, n: float) -> float:
        """Return the part of the squared error in the population that does not shrink with n."""
        worst = self.worst(n)
        error = worst._expected_error(n) + worst.varied / n
        return worst.fixed / error if 0 < error < math.inf else 0.0

    @property
    def fixed(self) -> float:
        """The expected square of the bias if the prior is right; it does not shrink with n."""
        return self.bias**2 + self.bias_uncertainty

    @property
    def softness(self) -> tuple[float, float]:
        """Soft minus hard: the correction of an estimate, and its largest error.

        The uncertainty of a prior, as a sample, counts with 1.96 standard deviations. With
        scenarios, the correction is the middle of what they permit, which minimises the bound.
        """
        unknown = [(p.bias, NORMAL_95 * math.sqrt(p.bias_uncertainty)) for p in self._all]
        low = min(bias - more for bias, more in unknown)
        high = max(bias + more for bias, more in unknown)
        return (low + high) / 2, (high - low) / 2

    def bias_bound(self, scenario: "Prediction") -> float:
        """Return the largest remaining bias in a scenario, or in this, after the correction."""
        unknown = NORMAL_95 * math.sqrt(scenario.bias_uncertainty)
        return abs(scenario.bias - self._taken_off) + unknown

    @property
    def _all(self) -> tuple["Prediction", ...]:
        return (self, *self.scenarios)

    @property
    def _corrected(self) -> list["Prediction"]:
        """This and its scenarios, after the correction of an estimate."""
        off = self._taken_off
        return [replace(p, bias=p.bias - off, scenarios=()) for p in self._all]

    @property
    def _taken_off(self) -> float:
        """The correction of an estimate; no interval relies on it if it comes only from a prior."""
        return self.softness[0] if self.scenarios else 0.0

    def margin(self, n: float) -> float:
        """Return the half-width of the 95 % interval for the hard question."""
        return self.targets(n).hard_question

    def targets(self, n: float, error: Callable[["Prediction"], float] | None = None) -> "Targets":
        """Return the expected half-widths of an estimate from n people, for the three targets.

        People are assumed to be as in the prior; doubt about that makes the interval for the hard
        question longer.

        Args:
            n: > 0.
            error: of a prediction, for an allocation among several questions; `expected_error` by
                default.
        """
        alone = self.believed
        noise = (alone.expected_error(n) if error is None else error(alone)) - alone.fixed
        varied = self.varied / n
        population = self._reach(max(noise + varied, 0.0))
        return Targets(
            participants=NORMAL_95 * math.sqrt(max(noise, 0.0)),
            population=population,
            hard_question=reach(population / NORMAL_95, max(map(self.bias_bound, self._all))),
            price_of_privacy=(noise + varied) / varied if varied > 0 else math.inf,
        )

    def _reach(self, squared_error: float) -> float:
        """Return the half-width of the population interval that an estimate prints.

        It is the mean over two plausible sets of reports, whose mean has the expected mean,
        variance and skewness: if it is skewed, reports vary more the farther it is off, as if all
        of that came from a few people [MATH §8]. So it is mostly within 5 % of the mean length of
        intervals, however few people are near the question. The squared error determines the
        number of reports, whatever the allocation.
        """
        normal = NORMAL_95 * math.sqrt(squared_error)
        variance = self.noise + self.varied
        if not 0 < squared_error < math.inf or self.mean is None:
            return normal
        n = variance / squared_error
        if n < _FEWEST or self.limits == UNLIMITED:
            return normal
        low, high = self.limits.means
        mean = min(max(self.mean, low), high)
        limits = replace(self.limits, moments=self._moments_asked_once)
        error, skewness = math.sqrt(variance / n), 0.0
        if max(mean - limits.reports[0], limits.reports[1] - mean) > _FAR * n * error:
            third = sum(limits.third_moments(mean, variance)) / 2
            skewness = third / (variance * error * n)
        spread = math.hypot(1.0, skewness / 2)
        ends = skewness / 2 - spread, skewness / 2 + spread
        lengths = [
            interval_of_mean(
                n, mean + end * error, variance * end * end * (n - 1) / n, CONFIDENCE, limits
            )
            for end in ends
        ]
        halves = [(interval.high - interval.low) / 2 for interval in lengths]
        return (ends[1] * halves[0] - ends[0] * halves[1]) / (2 * spread)

    def _moments_asked_once(self) -> ReportMoments | None:
        moments = self.limits.moments()
        if moments is None:
            return None
        return MomentsAskedOnce(moments.points, moments.laws, origin=moments.origin)

    def partitioned(self, n: int, questions: int) -> float:
        """Return the mean squared error if each of n people answers one of m questions at random.

        N of them answer this one, N ~ Binomial(n, 1/m): besides the noise, their mean has the
        variance Var[m(x)]·(1/N − 1/n) of a sample drawn without replacement [MATH §7, §8]. The
        prior's uncertainty and the worst scenario count as in `expected_error`.

        Args:
            n: people, ≥ 1.
            questions: m ≥ 1.
        """
        share = mean_reciprocal(n, 1 / questions) if questions > 1 else 1 / n
        return max(p.fixed + p.noise * share + p.varied * (share - 1 / n) for p in self._corrected)


ErrorOf: TypeAlias = Callable[[Prediction], float]
"""A prediction → the expected squared error that is compared."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The half-width of a 95 % interval for each of the three targets.

    Numbers are in the unit of the truth.
    """

    participants: float
    """The mean of the soft query over those who take part."""
    population: float
    """The mean over the population of which they are a random sample; an estimate prints it."""
    hard_question: float
    """The truth in the population; the interval allows for the largest bias of the soft
    question."""
    price_of_privacy: float
    """The variance for the population as a multiple of that without noise, which would need as many
    times fewer people."""


@lru_cache(maxsize=256)
def mean_reciprocal(n: int, share: float) -> float:
    """Return E[1/N | N ≥ 1] for N ~ Binomial(n, share).

    With μ = np > 500 by its series (1 + q/μ + q(1 + q)/μ²)/μ, q = 1 − p; else by summing the law.

    Args:
        n: ≥ 1.
        share: p in (0, 1].

    Example:
        >>> round(200 / 4 * mean_reciprocal(200, 0.25), 4)
        1.0156
    """
    mean, rest = n * share, 1 - share
    if mean > 500:
        return (1 + rest / mean + rest * (1 + rest) / mean**2) / mean
    counts = np.arange(1, int(min(n, mean + 40 * math.sqrt(mean) + 40)) + 1)
    probability = binomial(counts.astype(np.float64), n, share)
    return float(np.sum(probability / counts) / np.sum(probability))


def binomial(k: Array, of: Array | int, chance: float) -> Array:
    """Return the probability of k of so many, each of which has the same chance."""
    from scipy.special import gammaln, xlog1py, xlogy  # scipy.stats takes a second to import

    ways = gammaln(np.add(of, 1)) - gammaln(k + 1) - gammaln(of - k + 1)
    return np.asarray(np.exp(ways + xlogy(k, chance) + xlog1py(of - k, -chance)))


def predicted(
    mean: Array,
    variance: Array,
    truth: Array,
    weights: Array,
    prior_size: float,
    again: Array | None = None,
) -> Prediction:
    """Return the prediction from moments at the nodes of a prior.

    Args:
        mean: of one report, (m,).
        variance: of one report, (m,).
        truth: (m,).
        weights: of the nodes, with sum 1, (m,).
        prior_size: see `Prior.size`.
        again: weights of the nodes for redrawn data, (draws, m): see `Prior.again`. The prior is
            then worth as many people as would determine this bias equally well.
    """
    error = mean - truth
    bias = float(np.sum(weights * error))
    center = float(np.sum(weights * mean))
    bias_variance = float(np.sum(weights * np.square(error - bias)))
    if again is not None:
        variance_of_bias = float(np.var((again * error).sum(axis=1), ddof=1))
        prior_size = bias_variance / variance_of_bias if variance_of_bias > 0 else math.inf
    return Prediction(
        bias=bias,
        noise=float(np.sum(weights * variance)),
        bias_variance=bias_variance,
        varied=float(np.sum(weights * np.square(mean - center))),
        prior_size=prior_size,
        mean=center,
    )
