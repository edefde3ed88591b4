"""Test exact draws: the bits of a decision, and that it is that of real numbers."""

from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest

from geoveil.gp import GeoVeilError, RandomSource
from geoveil.gp.exact import BALL
from geoveil.gp.randomness import LazyUniform
from geoveil.selection import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax, draws
from geoveil.selection.draws import largest, weighted_index


def test_an_index_on_the_edge_takes_more_bits(fixed_bits):
    weights = [Fraction(1), Fraction(0), Fraction(2)]
    agree = (1 << 128) // 3
    for more, index in ((0, 0), ((1 << 64) - 1, 2)):
        source = fixed_bits(agree << 64 | more, 192)
        drawn = weighted_index(LazyUniform(source), lambda: [BALL.constant(w) for w in weights])
        assert drawn == index


def test_the_exponential_mechanism_inverts_its_distribution(fixed_bits):
    u, epsilon = [0.3, -1.75, 2.0, 2.0, 0.1], 1.7
    mechanism = ExponentialMechanism(epsilon, 1.0)
    with mp.workdps(60):
        weights = [mp.exp(mp.mpf(epsilon) / 2 * mp.mpf(value)) for value in u]
        edges = [sum(weights[: r + 1]) / sum(weights) for r in range(5)]
        for edge, index in zip(edges[:-1], range(4), strict=True):
            at = int(mp.floor(edge * 2**128))
            assert mechanism.select(u, fixed_bits(at - 1, 128)) == index
            assert mechanism.select(u, fixed_bits(at + 1, 128)) == index + 1
            # Between them lies the edge itself, which needs more bits.
            rest = int(mp.floor((edge * 2**128 - at) * 2**64))
            assert mechanism.select(u, fixed_bits(at << 64 | (rest - 1), 192)) == index
            assert mechanism.select(u, fixed_bits(at << 64 | (rest + 1), 192)) == index + 1


def test_noisy_max_compares_the_real_numbers(fixed_bits):
    """U and 1 − U of exponential noise, with the utilities a last place apart, either way."""
    u = 0.6180339887498949
    for larger, other in ((u, 0.618033988749895), (0.618033988749895, u)):
        tie = fixed_bits((1 << 127) << 128 | 1 << 127, 256)
        chosen = ReportNoisyMax(1.0, 1.0).select([larger, other], tie)
        assert chosen == (0 if larger > other else 1)


def test_equal_noise_on_equal_utilities_takes_more_bits(fixed_bits):
    # Both start with the same 128 bits; the first then goes on with 0, the second with 1.
    bits = ((1 << 127) << 128 | 1 << 127) << 128 | ((1 << 64) - 1)
    source = fixed_bits(bits, 384)
    # Exponential noise is −ln U: the smaller U wins.
    assert ReportNoisyMax(1.0, 1.0).select([2.5, 2.5], source) == 0
    assert source.drawn == 384


def test_numbers_that_may_be_equal_have_no_largest():
    one, wide = BALL.constant(1), BALL.uniform(0, 0)
    assert largest([one, BALL.constant(2)]) == 1
    assert largest([one, wide]) is None
    assert largest([one]) == 0


class Stuck(RandomSource):
    def bits(self, count: Any) -> Any:
        return (1 << count) - 1 if count else 0


def test_a_source_that_decides_nothing_is_an_error(monkeypatch):
    monkeypatch.setattr(draws, "_MOST_BITS", 1 << 13)
    with pytest.raises(GeoVeilError, match="random source is broken"):
        ExponentialMechanism(1.0, 1.0).select([1.0, 2.0], Stuck())


def test_huge_exponents_are_zero_and_no_error(fixed_bits):
    mechanism = ExponentialMechanism(1e50, 1e-50)
    assert mechanism.select([-1e90, 1e90], fixed_bits(1, 128)) == 1
    # Outcome 1 first, and a U of one half for each coin.
    source = fixed_bits(1 << 256 | 1 << 255 | 1 << 127, 257)
    assert PermuteAndFlip(1e50, 1e-50).select([1e90, -1e90], source) == 0
