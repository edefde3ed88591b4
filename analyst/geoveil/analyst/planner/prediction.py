"""What bias and noise a mechanism will have: exact moments, no simulation.

**Three targets.** With m and v the mean and the variance of one report at x, expectations over the
prior, bias = E[m − truth] and noise = E[v], the mean of n reports misses

* the mean m of the **participants** by noise/n: who takes part is no source of error;
* the mean m of the **population** of which they are a random sample by (noise + Var[m])/n: that is
  the standard error which an estimate prints;
* the **hard question** in the population, which m only stands for, by bias² besides.

Ways to ask are chosen by bias² + noise/n, what they can do about it. Where each person is asked
only one question of several, who answers which is random, and that counts: see `partitioned`.

**The prior is a sample.** The bias of a band that was placed where the prior says it is unbiased is
0 for that prior and no other. If the prior is worth N people, its estimate of the bias has the
variance Var[m − truth]/N; with nothing else known of the bias, its expected square is

    bias² + Var[m − truth]/N,

and that is what choices are made by, and what errors of the hard question are shown with.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import validation

Array = NDArray[np.float64]

NORMAL_95 = 1.959963984540054
"""Standard deviations that a normal number exceeds, on either side, once in twenty times."""


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
    """Var[m] over people: matters where only some of them are asked."""
    prior_size: float
    """How many people the prior is worth; see `Prior.size`."""

    @property
    def bias_uncertainty(self) -> float:
        """Variance of the bias, as far as the prior can tell it: Var[m − truth]/N."""
        return self.bias_variance / self.prior_size

    def variance(self, n: float) -> float:
        """Return the variance of the mean of n reports, given who the people are."""
        return self.noise / validation.positive("n", n)

    def mean_squared_error(self, n: float) -> float:
        """Return bias² + noise/n: the error if people are as the prior says."""
        return self.bias**2 + self.variance(n)

    def expected_error(self, n: float) -> float:
        """Return the mean squared error to expect, the prior being a sample. See the module."""
        return self.mean_squared_error(n) + self.bias_uncertainty

    def share_of_bias(self, n: float) -> float:
        """Return which part of the squared error in the population does not shrink with n."""
        error = self.expected_error(n) + self.varied / n
        return self.fixed / error if 0 < error < math.inf else 0.0

    @property
    def fixed(self) -> float:
        """The expected square of the bias, which does not shrink with n."""
        return self.bias**2 + self.bias_uncertainty

    def margin(self, n: float) -> float:
        """Return what the error in the population exceeds once in twenty times: 1.96 √error."""
        return self.targets(n).hard_question

    def targets(self, n: float, error: float | None = None) -> "Targets":
        """Return what to expect of an estimate from n people, for each of the three targets.

        Args:
            n: > 0.
            error: that an allocation has among several questions; `expected_error` by default.
        """
        error = self.expected_error(n) if error is None else error
        varied = self.varied / n
        population = error - self.fixed + varied
        return Targets(
            participants=NORMAL_95 * math.sqrt(max(error - self.fixed, 0.0)),
            population=NORMAL_95 * math.sqrt(max(population, 0.0)),
            hard_question=NORMAL_95 * math.sqrt(error + varied),
            price_of_privacy=population / varied if varied > 0 else math.inf,
        )

    def partitioned(self, n: int, questions: int, *, expected: bool = True) -> float:
        """Return the mean squared error if each of n people answers one of m questions at random.

        N of them answer this one, N ~ Binomial(n, 1/m): their mean has, besides the noise, the
        variance Var[m(x)]·(1/N − 1/n) of a sample drawn without replacement [MATH §7, §8].

        Args:
            n: people, ≥ 1.
            questions: m ≥ 1.
            expected: whether to count what the prior does not know, as `expected_error` does.
        """
        share = mean_reciprocal(n, 1 / questions) if questions > 1 else 1 / n
        fixed = self.bias**2 + (self.bias_uncertainty if expected else 0.0)
        return fixed + self.noise * share + self.varied * (share - 1 / n)


@dataclass(frozen=True, slots=True)
class Targets:
    """What an estimate misses, at most in 95 % of cases, of each of the three targets.

    Numbers are in the unit of the truth.
    """

    participants: float
    """The mean of the soft query over those who take part."""
    population: float
    """That over the population of which they are a random sample: what an estimate prints."""
    hard_question: float
    """The truth in the population, the bias of what is asked softly counted as the prior says."""
    price_of_privacy: float
    """The variance for the population, in multiples of what the same question has of the same
    people in the clear: so many times fewer people would do there."""


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
    from scipy.special import gammaln, xlog1py, xlogy  # scipy.stats takes a second to import

    mean, rest = n * share, 1 - share
    if mean > 500:
        return (1 + rest / mean + rest * (1 + rest) / mean**2) / mean
    counts = np.arange(1, int(min(n, mean + 40 * math.sqrt(mean) + 40)) + 1)
    ways = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    probability = np.exp(ways + xlogy(counts, share) + xlog1py(n - counts, -share))
    return float(np.sum(probability / counts) / np.sum(probability))


def predicted(
    mean: Array, variance: Array, truth: Array, weights: Array, prior_size: float
) -> Prediction:
    """Return the prediction from moments at the nodes of a prior.

    Args:
        mean: of one report, (m,).
        variance: of one report, (m,).
        truth: (m,).
        weights: of the nodes, with sum 1, (m,).
        prior_size: see `Prior.size`.
    """
    error = mean - truth
    bias = float(np.sum(weights * error))
    center = float(np.sum(weights * mean))
    return Prediction(
        bias=bias,
        noise=float(np.sum(weights * variance)),
        bias_variance=float(np.sum(weights * np.square(error - bias))),
        varied=float(np.sum(weights * np.square(mean - center))),
        prior_size=prior_size,
    )
