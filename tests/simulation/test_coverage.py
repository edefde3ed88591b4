"""Over repeated campaigns the 95 % interval covers the soft truth as often as it says.

Devices are drawn from the real populations and perturbed as in the demonstration; coverage is
compared with a binomial at alpha = 1e-6. An interval 0.75 × as wide must fail.
"""

import math

import numpy as np
import pytest
from scipy import stats

from geoveil.gp.estimation import Accumulator, estimate
from geoveil.simulation.demo import experiments

REPEATS, ALPHA = 1_500, 1e-6


def covered(experiment, question, n, seed, shrink=1.0):
    rng = np.random.default_rng(seed)
    mechanism = experiment.campaign.mechanisms[question]
    truth = experiment.truths[question]
    weights = experiment.population.weights / experiment.population.size
    count = 0
    for chosen in rng.choice(len(weights), size=(REPEATS, n), p=weights):
        reports = mechanism.simulate(experiment.points[chosen], rng) / mechanism.step
        integers = np.rint(reports).astype(np.int64)
        got = estimate(Accumulator.of(integers.tolist()), mechanism.step_exponent)
        margin = shrink * (got.ci_high - got.value)
        count += abs(got.value - truth) <= margin
    return count


@pytest.mark.deep
@pytest.mark.parametrize(("which", "question", "n"), [(0, 0, 2_000), (1, 0, 2_500), (1, 2, 2_500)])
def test_intervals_cover_the_truth_as_often_as_they_say(which, question, n):
    """Places are rare, so their mean is a little skewed at n = 2,500: 94 % is what to expect."""
    low, high = stats.binom.interval(1 - ALPHA, REPEATS, 0.95 if which == 0 else 0.945)
    assert low <= covered(experiments()[which], question, n, seed=5) <= high


@pytest.mark.deep
def test_intervals_that_are_too_narrow_are_caught():
    low, _ = stats.binom.interval(1 - ALPHA, REPEATS, 0.945)
    assert covered(experiments()[0], 0, 2_000, seed=5, shrink=0.75) < low


def test_predicted_errors_are_those_of_repeated_estimates():
    """Variance of 1,500 means against the prediction: chi-square, alpha = 1e-6; ÷1.3² must fail."""
    experiment = experiments()[0]
    found = experiment.predictions()[0]["DebiasedLaplace"]
    predicted = math.sqrt((found.noise + found.varied) / 500)
    rng = np.random.default_rng(8)
    mechanism = experiment.campaign.mechanisms[0]
    weights = experiment.population.weights / experiment.population.size
    chosen = rng.choice(len(weights), size=(REPEATS, 500), p=weights)
    means = mechanism.simulate(experiment.points[chosen], rng).mean(axis=1)
    statistic = (REPEATS - 1) * means.var(ddof=1) / predicted**2
    low, high = stats.chi2.interval(1 - ALPHA, REPEATS - 1)
    assert low < statistic < high
    assert not low < statistic / 1.3**2 < high
    assert abs(means.mean() - experiment.truths[0]) < 6 * predicted / math.sqrt(REPEATS)
