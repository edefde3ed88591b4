"""Test that the interval of the median of means covers as often as stated, for any tail."""

import numpy as np
import pytest
from scipy import stats

from geoveil.aggregator.domain.median_of_means import median_of_means
from geoveil.gp import ParameterError
from geoveil.gp.estimation import Accumulator
from geoveil.gp.noise import Noise, PowerLaw, StudentT

ALPHA, REPEATS, BLOCKS, OF_BLOCK = 1e-6, 2_000, 32, 64
STEP = -12
FINITE_VARIANCE = [StudentT(3.0), PowerLaw(1.0, 0.3)]
INFINITE_VARIANCE = PowerLaw(1.0, 0.6)


def covered(noise: Noise, share: float, seed: int, confidence: float = 0.95) -> int:
    """Return how many of the repeats cover the truth: a share of 1 among 0, plus noise."""
    rng = np.random.default_rng(seed)
    count = 0
    for _ in range(REPEATS):
        size = (BLOCKS, OF_BLOCK)
        reports = (rng.random(size) < share) + noise.sample(rng, size)
        integers = np.rint(np.ldexp(reports, -STEP)).astype(np.int64)
        sums = [
            Accumulator(OF_BLOCK, int(total), int(squares))
            for total, squares in zip(
                integers.sum(axis=1), (integers.astype(object) ** 2).sum(axis=1), strict=True
            )
        ]
        got = median_of_means(sums, STEP, confidence)
        assert got is not None
        count += got.ci_low <= share <= got.ci_high
    return count


def level(confidence: float) -> float:
    """Return what the sign test of 32 blocks truly has."""
    rank = int(stats.binom.ppf((1 - confidence) / 2, BLOCKS, 0.5))
    rank -= stats.binom.cdf(rank, BLOCKS, 0.5) > (1 - confidence) / 2
    return float(1 - 2 * stats.binom.cdf(rank, BLOCKS, 0.5))


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("noise", [*FINITE_VARIANCE, INFINITE_VARIANCE], ids=repr)
def test_coverage_of_symmetric_reports_is_that_of_the_sign_test(noise):
    """2,000 repeats of n = 2,048, against the binomial at alpha = 1e-6, from both sides."""
    low, high = stats.binom.interval(1 - ALPHA, REPEATS, level(0.95))
    assert 0.95 <= level(0.95) < 0.985
    assert low <= covered(noise, 0.0, seed=11) <= high


@pytest.mark.deep
@pytest.mark.parametrize("noise", [*FINITE_VARIANCE, INFINITE_VARIANCE], ids=repr)
def test_coverage_is_kept_where_few_answers_are_one(noise):
    """A share of 5 % makes reports skewed; 2,000 repeats, alpha = 1e-6, from below."""
    low, _ = stats.binom.interval(1 - ALPHA, REPEATS, 0.95)
    assert covered(noise, 0.05, seed=12) >= low


@pytest.mark.deep(keep=0)
def test_an_interval_that_is_too_narrow_is_caught():
    """That for 85 % has to fail as one for 95 %."""
    low, _ = stats.binom.interval(1 - ALPHA, REPEATS, 0.95)
    assert covered(StudentT(3.0), 0.0, seed=11, confidence=0.85) < low


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999999])
@pytest.mark.parametrize("count", [3, 8, 31, 32])
def test_ranks_are_those_of_the_binomial(confidence, count):
    blocks = [Accumulator.of([i] * count) for i in range(1, count + 1)]
    rank = 0
    while stats.binom.cdf(rank, count, 0.5) <= (1 - confidence) / 2:
        rank += 1
    got = median_of_means(blocks, 0, confidence)
    if rank == 0:
        assert got is None
    else:
        assert got is not None
        assert (got.ci_low, got.ci_high) == (rank, count + 1 - rank)
        assert got.value == (count + 1) / 2


def test_blocks_without_answers_are_left_out_and_too_few_answers_show_nothing():
    full = [Accumulator.of([i] * 64) for i in range(20)]
    got = median_of_means([*full, *[Accumulator()] * 12], 0)
    assert got is not None
    assert got.blocks == 20
    assert median_of_means([Accumulator()] * 32, 0) is None
    few = [Accumulator.of([i] * 31) for i in range(32)]
    assert median_of_means(few, 0) is None
    assert median_of_means([*few[1:], Accumulator.of([0] * 63)], 0) is not None


@pytest.mark.parametrize("bad", [0, 1, -0.5, float("nan")])
def test_confidence_out_of_range_is_named(bad):
    with pytest.raises(ParameterError, match="confidence"):
        median_of_means([], 0, bad)
