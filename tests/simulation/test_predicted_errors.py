"""Test the predicted errors of the demonstration against repeated estimates of its population."""

import math

import numpy as np
from scipy import stats

from geoveil.simulation.demo import experiments

REPEATS, ALPHA = 1_500, 1e-6


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
