"""Test that many draws at once equal single draws word by word, also undecided ones."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from flint import arb

from geoveil.gp import ParameterError, RandomSource, SeededSource
from geoveil.gp.exact import BALL
from geoveil.gp.randomness import LazyUniform
from geoveil.selection import (
    ExponentialMechanism,
    HalfStudentT,
    Margin,
    PermuteAndFlip,
    SmoothNoisyMax,
    SmoothUtilities,
    StabilityMechanism,
)
from geoveil.selection.draws import (
    Continued,
    Indices,
    exact_argmax,
    noisy_argmax,
    random_words,
    weighted_index,
    weighted_indices,
)
from geoveil.selection.global_sensitivity import exponential_enclosure

ALPHA = 1e-6
ROW_DRAWS = 5_000
DRAWS = 20_000
THIRD = (1 << 64) // 3


def indices(size: int, weights: Callable[[], list[arb]], source: RandomSource) -> Indices:
    """Draw by weights whose bounds are the doubles next to them."""
    doubles = np.array([float(weight) for weight in weights()])
    return weighted_indices(size, (doubles, doubles), weights, source)


class Scripted(RandomSource):
    """Gives the words that it was told, 64 bits at a time or many at once, and then zeros."""

    def __init__(self, *words: int) -> None:
        self._words = list(words)

    def bits(self, count: int) -> int:
        value = 0
        for _ in range(count // 64):
            value = (value << 64) | (self._words.pop(0) if self._words else 0)
        return value


@pytest.mark.deep(keep=4)
def test_draws_have_the_probabilities(row, p_value):
    make, scores = row
    known = scores([0.0, 1.0, 0.5, 1.0] if make(1.0)._kind is not Margin else [3.0, 0, 0, 0])
    drawn = make(0.7).select_many(known, ROW_DRAWS, SeededSource(20))
    counts = np.bincount(drawn, minlength=4)
    assert p_value(counts, make(0.7).probabilities(known)) > ALPHA


@pytest.mark.deep(keep=3)
def test_draws_with_noise_of_another_scale_are_told_apart(row, p_value):
    make, scores = row
    known = scores([0.0, 5.0, 5.0, 0.0] if make(1.0)._kind is not Margin else [3.0, 0, 0, 0])
    drawn = make(0.7).select_many(known, ROW_DRAWS, SeededSource(21))
    counts = np.bincount(drawn, minlength=4)
    assert p_value(counts, make(1.0).probabilities(known)) < ALPHA


@pytest.mark.parametrize("size", [0, 2.0])
def test_how_many_is_checked(row, size):
    make, scores = row
    with pytest.raises(ParameterError, match="size"):
        make(1.0).select_many(scores([1.0, 2.0]), size)


def test_one_draw_does_not_tell_of_the_next(p_value):
    # Pairs of neighbours in the sequence, seed 5; alpha = 1e-6.
    mechanism = PermuteAndFlip(1.0, 1.0)
    drawn = mechanism.select_many([0.0, 1.0, 0.5], 2 * DRAWS, SeededSource(5))
    p = mechanism.probabilities([0.0, 1.0, 0.5])
    pairs = np.bincount(3 * drawn[::2] + drawn[1::2], minlength=9)
    assert p_value(pairs, np.outer(p, p).ravel()) > ALPHA


def test_an_index_is_the_one_that_the_same_bits_give_alone():
    def weights() -> list[arb]:
        return [arb(1) / 7, arb(2).sqrt(), arb(3) ** -60, arb(1)]

    words = random_words(SeededSource(6), 3_000).tolist()
    together = indices(3_000, weights, Scripted(*words))
    alone = [weighted_index(Continued(Scripted(), [word]), weights) for word in words]
    assert together.tolist() == alone


def test_an_argmax_is_the_one_that_the_same_bits_give_alone():
    mechanism = SmoothNoisyMax(2.0, 4)
    scores = SmoothUtilities([0.0, 3.0, 2.9, -1e6], 0.5, beta=mechanism.beta)
    words = random_words(SeededSource(7), 2 * 4 * 2_000)
    together = mechanism.select_many(scores, 2_000, Scripted(*words.tolist()))
    scale = arb(scores.smooth_sensitivity) / BALL.constant(mechanism.exact_rate)
    alone = [
        exact_argmax(
            scores.values.tolist(),
            lambda: scale,
            mechanism._law.ball_noise,
            [Continued(Scripted(), pair) for pair in row],
        )
        for row in words.reshape(-1, 4, 2).tolist()
    ]
    assert together.tolist() == alone


@pytest.mark.parametrize(("later", "expected"), [(0, 0), ((1 << 64) - 1, 1)])
def test_a_word_at_an_edge_draws_more_bits(later, expected):
    """A third is 0.0101…: only the bits that follow tell on which side of it U is."""

    def weights() -> list[arb]:
        return [arb(1), arb(2)]

    assert indices(1, weights, Scripted(THIRD, later)).tolist() == [expected]
    assert indices(1, weights, Scripted(THIRD - 1)).tolist() == [0]
    assert indices(1, weights, Scripted(THIRD + 1)).tolist() == [1]


def test_outcomes_rarer_than_any_word_can_be_drawn():
    rare = arb(2) ** -80
    largest = (1 << 64) - 1
    assert indices(1, lambda: [arb(1), rare], Scripted(largest, largest, largest)).tolist() == [1]
    assert indices(1, lambda: [arb(1), rare], Scripted(largest)).tolist() == [0]
    assert indices(1, lambda: [rare, arb(1)], Scripted(0, 0)).tolist() == [0]
    assert indices(1, lambda: [rare, arb(1)], Scripted(0, largest)).tolist() == [1]


def test_noise_that_is_close_or_unresolved_is_decided_by_balls():
    asked: list[list[int]] = []

    def decide(places: Sequence[int], uniforms: Sequence[LazyUniform]) -> int:
        asked.append([u.numerator for u in uniforms])
        assert places == list(range(len(uniforms)))
        return 1

    middle, least = 1 << 63, 0
    clear = noisy_argmax(
        1, np.zeros(2), exponential_enclosure, decide, Scripted(middle, 0, 1 << 60, 0)
    )
    assert (clear.tolist(), asked) == ([1], [])
    for pair in ([middle, middle + 1], [middle, least]):
        script = Scripted(pair[0], 5, pair[1], 7)
        assert noisy_argmax(1, np.zeros(2), exponential_enclosure, decide, script).tolist() == [1]
        assert asked.pop() == [(pair[0] << 64) + 5, (pair[1] << 64) + 7]
    # Of four outcomes only those that may win are looked at.
    far = np.array([0.0, 0.0, 3.0, 0.0])
    script = Scripted(middle, 0, middle + 1, 0, middle, 0, 3 << 62, 0)
    assert noisy_argmax(1, far, exponential_enclosure, decide, script).tolist() == [1]
    assert len(asked.pop()) == 2


def test_gaps_that_no_double_holds_are_never_bridged():
    drawn = PermuteAndFlip(1e50, 1e-50).select_many([0.0, 1e80], 5, SeededSource(8))
    assert drawn.tolist() == [1] * 5


def test_noise_without_a_formula_is_drawn_between_the_nodes_of_a_table():
    mechanism = SmoothNoisyMax(2.0, 2, HalfStudentT(3.0))
    scores = SmoothUtilities([0.0, 1.0], 1e-40, beta=mechanism.beta)
    assert mechanism.select_many(scores, 4, SeededSource(9)).tolist() == [1] * 4


def test_an_impossible_weight_is_never_drawn():
    known = Margin(2, 2**53, 3)
    assert set(StabilityMechanism(1.0).select_many(known, 50, SeededSource(2)).tolist()) == {2}
    assert ExponentialMechanism(1e40, 1.0).select_many([0.0, 9.0], 5).tolist() == [1] * 5
