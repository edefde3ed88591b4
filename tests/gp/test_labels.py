"""Groups by randomised labels, over hidden populations; draws are in test_categories.py."""

import math
from fractions import Fraction

import numpy as np
import pytest

from geoveil.gp import ParameterError
from geoveil.gp.estimation import Accumulator
from geoveil.gp.intervals import UNLIMITED, Limits
from geoveil.gp.labels import RandomizedLabels
from geoveil.gp.mechanisms.categories import MOST_EPSILON

ONE = 2**32
MEANS = np.array([0.2, 0.5, 0.7])
SHARES = np.array([0.5, 0.3, 0.2])


def sent(lies: RandomizedLabels, people: int, rng: np.random.Generator, spread: float = 0.5):
    """Return the sums of reports by the label that came with them."""
    true = rng.choice(3, people, p=SHARES)
    p = float(lies.truth)
    others = (true + rng.integers(1, 3, people)) % 3
    labels = np.where(rng.random(people) < p, true, others)
    y = (rng.random(people) < MEANS[true]) + spread * rng.laplace(size=people)
    integers = np.rint(y * 1024).astype(int)
    return [Accumulator.of(integers[labels == label].tolist()) for label in range(3)]


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("epsilon", [1.0, 1.4, 2.0])
def test_means_within_groups_err_and_cover_as_they_say(epsilon):
    """400 populations of 4,000. Errors within 15 % (4 standard errors of 3.6 %), 95 % within 3.3 %.

    Controls: the labels taken for true are off by more than ten standard errors, and groups taken
    for independent overstate the error of the mean of all by more than 30 %.
    """
    lies, rng = RandomizedLabels(3, epsilon), np.random.default_rng(5)
    found, raw, held, stated = [], [], [], []
    for _ in range(400):
        sums = sent(lies, 4_000, rng)
        means = lies.means(sums, -10, 0.95, UNLIMITED)
        found.append(means.values)
        stated.append(means.covariance)
        held.append((means.low <= MEANS) & (means.high >= MEANS))
        raw.append([s.total / s.n / 1024 for s in sums])
    values, covariance = np.array(found), np.mean(stated, axis=0)
    real = np.cov(values.T)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance) / np.diag(real)), 1, atol=0.15)
    spread = math.sqrt(SHARES @ real @ SHARES)  # of the mean of all, by known shares
    assert math.sqrt(SHARES @ covariance @ SHARES) == pytest.approx(spread, rel=0.15)
    assert math.sqrt(np.diag(covariance) @ SHARES**2) / spread > 1.3
    error = np.sqrt(np.diag(real) / len(values))
    assert (abs(values.mean(axis=0) - MEANS) < 4 * error + 0.004).all()
    assert (abs(np.mean(raw, axis=0) - MEANS)[[0, 2]] > 10 * error[[0, 2]]).all()
    assert (np.mean(held, axis=0) > 0.917).all()
    assert (np.mean(held, axis=0) < 0.983).all()


def test_without_lies_it_is_the_mean_of_each_group():
    """At ε = 16 one in four million lies: next to what the mean of each label says."""
    sums = sent(RandomizedLabels(3, MOST_EPSILON), 3_000, np.random.default_rng(1))
    found = RandomizedLabels(3, MOST_EPSILON).means(sums, -10, 0.95, UNLIMITED)
    for i, s in enumerate(sums):
        mean = s.total / s.n / 1024
        assert found.values[i] == pytest.approx(mean, abs=1e-5)
        variance = (s.total_of_squares / s.n / 2**20 - mean**2) / s.n
        assert found.covariance[i, i] == pytest.approx(variance, rel=2e-3)
    assert abs(found.covariance[0, 1]) < 1e-4 * found.covariance[0, 0]


def test_covariances_are_those_of_the_scores_by_brute_force():
    lies, rng = RandomizedLabels(3, 1.5), np.random.default_rng(3)
    labels, y = rng.integers(0, 3, 500), rng.integers(-900, 900, 500)
    sums = [Accumulator.of(y[labels == label].tolist()) for label in range(3)]
    found = lies.means(sums, -10, 0.9, UNLIMITED)
    p, q = float(lies.truth), float((1 - lies.truth) / 2)
    towards = ((labels[:, None] == np.arange(3)) - q) / (p - q)
    values = y[:, None] / 1024
    means = (towards * values).sum(0) / towards.sum(0)
    scores = towards * (values - means) / towards.sum(0)
    np.testing.assert_allclose(found.values, means, rtol=1e-12)
    np.testing.assert_allclose(found.covariance, 500 * np.cov(scores.T), rtol=1e-9)
    for i in range(3):  # at its ends, the test of Fieller's interval is just not passed
        for end in (found.low[i], found.high[i]):
            u = towards[:, i] * (values[:, 0] - end)
            assert abs(u.mean()) / (u.std(ddof=1) / math.sqrt(500)) == pytest.approx(1.6449, 1e-3)


def test_reports_far_from_0_lose_no_digit():
    near = [Accumulator.of([1, 2, 5, 9]), Accumulator.of([3, 3, 4])]
    far = [Accumulator.of([k + 10**17 for k in ks]) for ks in ([1, 2, 5, 9], [3, 3, 4])]
    lies = RandomizedLabels(2, 3.0)
    a, b = (lies.means(sums, 0, 0.5, UNLIMITED) for sums in (near, far))
    np.testing.assert_allclose(a.covariance, b.covariance, rtol=1e-12)


def test_of_too_few_nothing_is_told():
    lies = RandomizedLabels(2, 0.1)
    none, one = Accumulator(), Accumulator.of([5])
    for sums in ([none, none], [one, none], [one, one]):
        assert np.isnan(lies.means(sums, 0, 0.95, UNLIMITED).values).all()
        for shown in lies.estimates(sums, 0, 0.95, UNLIMITED):
            assert (shown.value, shown.standard_error, shown.ci_low) == (None, None, None)


def test_what_no_mean_can_be_is_cut_off():
    sums = sent(RandomizedLabels(3, 2.0), 300, np.random.default_rng(2))
    found = RandomizedLabels(3, 2.0).means(sums, -10, 0.999, Limits((-9, 9), (0.0, 1.0)))
    told = np.isfinite(found.low)
    assert (found.low[told] >= 0).all()
    assert (found.high[told] <= 1).all()


@pytest.mark.parametrize(
    ("labels", "epsilon"), [(1, 1.0), (2, 0.0), (2, 16.1), (2, math.nan), (2.0, 1.0)]
)
def test_what_is_out_of_range_is_refused(labels, epsilon):
    with pytest.raises(ParameterError):
        RandomizedLabels(labels, epsilon)


def test_sums_of_every_label_are_asked_for():
    with pytest.raises(ParameterError, match="one for each label"):
        RandomizedLabels(3, 1.0).means([Accumulator()], 0, 0.95, UNLIMITED)
    assert RandomizedLabels(3, 1.0).truth == Fraction(
        RandomizedLabels(3, 1.0).weight, RandomizedLabels(3, 1.0).weight + 2 * ONE
    )
