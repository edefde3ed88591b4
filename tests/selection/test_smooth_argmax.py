"""Test that exact draws follow the probabilities, at ties, far gaps and close calls."""

from collections.abc import Callable

import numpy as np
import pytest
from flint import arb

from geoveil.gp import RandomSource, SeededSource
from geoveil.gp.errors import GeoVeilError
from geoveil.gp.randomness import LazyUniform
from geoveil.selection import SelectionMechanism
from geoveil.selection.draws import exact_argmax
from geoveil.selection.noise_law import by_quantile
from geoveil.selection.one_sided import HalfGeneralizedCauchy, HalfStudentT
from geoveil.selection.scores import SmoothUtilities
from geoveil.selection.smooth import SmoothNoisyMax, SmoothPrivateSelection
from geoveil.selection.two_sided import HeavyGeneralizedCauchy, HeavyStudentT, LaplaceLogNormal

MECHANISMS: dict[str, Callable[[], SmoothNoisyMax | SmoothPrivateSelection]] = {
    "exponential-pareto": lambda: SmoothNoisyMax(2.0, 6),
    "half t": lambda: SmoothNoisyMax(2.0, 6, HalfStudentT(3.0)),
    "half cauchy": lambda: SmoothNoisyMax(2.0, 6, HalfGeneralizedCauchy(4.0)),
    "cauchy": lambda: SmoothPrivateSelection(2.0, 6, HeavyGeneralizedCauchy(2.0)),
    "t": lambda: SmoothPrivateSelection(2.0, 6, HeavyStudentT(3.0), monotone=True),
    "log-normal": lambda: SmoothPrivateSelection(2.0, 6, LaplaceLogNormal(0.7), delta=1e-5),
}


def uniforms(count: int, source: RandomSource) -> list[LazyUniform]:
    return [LazyUniform(source) for _ in range(count)]


class CountedSource(SeededSource):
    """Says how many bits were asked for."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn = 0

    def bits(self, count: int) -> int:
        self.drawn += count
        return super().bits(count)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", MECHANISMS)
def test_draws_have_the_stated_probabilities(name, p_value):
    # 1,500 draws, seed 3; alpha = 1e-6, and the control is beyond it.
    mechanism, source = MECHANISMS[name](), SeededSource(3)
    scores = SmoothUtilities([0.0, 4.0, 4.0, 9.0, -2.0, 6.0], 0.5, beta=mechanism.beta)
    winners = [mechanism.select(scores, source) for _ in range(1500)]
    counts = np.bincount(winners, minlength=6)
    assert p_value(counts, mechanism.probabilities(scores)) > 1e-6
    doubled = SmoothUtilities(scores.values, 1.5, beta=mechanism.beta)
    assert p_value(counts, mechanism.probabilities(doubled)) < 1e-6


def test_ten_thousand_outcomes_are_few_in_balls():
    mechanism = SmoothNoisyMax(1.0, 10_000, HalfStudentT(3.0))
    utilities = np.random.default_rng(1).normal(size=10_000)
    source = CountedSource(1)
    winner = mechanism.select(SmoothUtilities(utilities, 0.01, beta=mechanism.beta), source)
    assert 0 <= winner < 10_000
    # Nobody needed more than the first bits: the outcomes compared were far apart.
    assert source.drawn == 10_000 * LazyUniform.FIRST


def uniform(p: arb) -> arb:
    """The quantile of the uniform distribution."""
    return p


class Replayed(RandomSource):
    """The given words, each of the length that is asked for."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def bits(self, count: int) -> int:
        return self.words.pop(0) % (1 << count)


def test_a_tie_of_the_first_bits_is_decided_by_more():
    source = Replayed([7, 7, 1, 4])
    assert exact_argmax([0.0, 0.0], lambda: arb(1), by_quantile(uniform), uniforms(2, source)) == 1
    assert not source.words


def test_a_lead_below_the_last_bit_is_seen():
    # U_0 leads by 2^-128, the utility of 1 by a little less or a little more.
    step = 2.0**-128
    for lead, expected in ((0.25 * step, 0), (3.75 * step, 1)):
        source = Replayed([8, 7, 1 << 63, 1 << 63])
        assert (
            exact_argmax([0.0, lead], lambda: arb(1), by_quantile(uniform), uniforms(2, source))
            == expected
        )


def test_a_source_that_never_decides_is_reported():
    class Stuck(RandomSource):
        def bits(self, count: int) -> int:
            return 0

    with pytest.raises(GeoVeilError, match="random source"):
        exact_argmax([0.0, 0.0], lambda: arb(1), by_quantile(uniform), uniforms(2, Stuck()))


def test_a_mechanism_is_one_of_the_contract():
    for make in MECHANISMS.values():
        assert isinstance(make(), SelectionMechanism)
