"""Drawing one choice, many choices, and choices of exact scores."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import mpmath as mp
import numpy as np
import pytest
from flint import arb

from geoveil.gp import GeoVeilError, ParameterError, PrivateValueError, RandomSource, SeededSource
from geoveil.gp.exact import BALL
from geoveil.gp.randomness import LazyUniform
from geoveil.selection import (
    ExponentialMechanism,
    HalfStudentT,
    LocalDampening,
    LocalUtilities,
    Margin,
    PermuteAndFlip,
    ReportNoisyMax,
    SmoothNoisyMax,
    SmoothUtilities,
    StabilityMechanism,
    Utilities,
    count_margin,
    draws,
)
from geoveil.selection.draws import (
    Continued,
    Indices,
    exact_argmax,
    largest,
    noisy_argmax,
    random_words,
    weighted_index,
    weighted_indices,
)
from geoveil.selection.global_sensitivity import exponential_enclosure


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


BIG = 2**53 + 1
LOST: dict[str, Any] = {
    "integers": [BIG, 2**53],
    "an integer beside a fraction": [BIG, 0.5],
    "int64": np.array([BIG, 0]),
    "integers of two kinds": [np.uint64(2**63 + 1), np.int64(-1)],
    "beyond doubles": [10**400, 0],
    "a range": range(BIG, BIG + 2),
    "a buffer": np.array([BIG, 0]).data,
    "fractions": [Fraction(1, 3), 0],
    "truth values": [True, 0.5],
    "text": ["1", 0.5],
}
if np.finfo(np.longdouble).nmant > 52:
    LOST["long doubles"] = np.array([np.longdouble(1) + np.longdouble(2) ** -60, 0])
    LOST["long doubles in a list"] = [np.longdouble(1) / 3, 0]
KEPT: dict[str, Any] = {
    "integers": [2**60, 2**53 + 2],
    "large": [2**70, 0.5],
    "uint64": np.array([2**63, 0], dtype=np.uint64),
    "int64": np.array([-(2**63), 0]),
    "float32": np.array([0.1, 3], dtype=np.float32),
    "float32 in a list": [np.float32(0.1), 2],
    "fractions": [Fraction(1, 4), 3],
    "decimals": [Decimal("0.5"), 3],
    "long doubles": np.array([0.25, 3], dtype=np.longdouble),
    "a range": range(2),
}


@pytest.mark.parametrize("kind", LOST)
def test_a_score_that_no_double_holds_is_refused(kind):
    values = LOST[kind]
    wide = [[v, v] for v in values]
    for use in (
        lambda: PermuteAndFlip(1.0, 1.0).select(values),
        lambda: ReportNoisyMax(1.0, 1.0).select(values, gap=True),
        lambda: ExponentialMechanism(1.0, 1.0).probabilities(values),
        lambda: PermuteAndFlip(1.0, 1.0).select(dict(enumerate(values))),
        lambda: SmoothUtilities(values, 1.0, beta=1.0),
        lambda: SmoothUtilities([1.0], next(iter(values)), beta=1.0),
        lambda: LocalUtilities([1.0, 2.0], wide),
        lambda: LocalDampening(1.0, 2.0**80).probabilities(
            LocalUtilities([1.0, 2.0], lambda _: values)
        ),
    ):
        with pytest.raises(PrivateValueError, match="hold") as caught:
            use()
        assert str(BIG) not in str(caught.value)
        assert caught.value.__context__ is None


@pytest.mark.parametrize("kind", KEPT)
def test_a_score_that_a_double_holds_is_kept(kind):
    found = Utilities(KEPT[kind]).values.tolist()
    given = [v if isinstance(v, (int, Fraction, Decimal)) else v.item() for v in _list(KEPT[kind])]
    assert [Fraction(v) for v in found] == [Fraction(*v.as_integer_ratio()) for v in given]


def _list(values: Any) -> list[Any]:
    """Return the elements as they were given, floats as NumPy's."""
    return [np.float64(v) if type(v) is float else v for v in values]


def test_rounded_scores_would_lose_more_than_epsilon():
    """The control: what NumPy makes of two databases whose scores differ by 1."""
    mechanism = PermuteAndFlip(1.0, 1.0, monotone=True)
    x, y = (
        mechanism.probabilities(np.array([n, 2**53], dtype=np.float64)) for n in (BIG, 2**53 + 2)
    )
    assert np.abs(np.log(x / y)).max() > 1.0
    # An error of at most 1 in each is what a sensitivity of 1 + 2 pays for, as the docs say.
    wider = PermuteAndFlip(1.0, 1.0 + 2, monotone=True)
    x, y = (wider.probabilities(np.array([n, 2**53], dtype=np.float64)) for n in (BIG, 2**53 + 2))
    assert np.abs(np.log(x / y)).max() <= 1.0


@pytest.mark.parametrize("number", [Fraction(1, 3), Fraction(2, 3), Decimal("0.1"), 0.3])
def test_parameters_are_rounded_to_the_private_side(number):
    mechanism = PermuteAndFlip(number, sensitivity=number)
    assert Fraction(mechanism.epsilon) <= Fraction(number) <= Fraction(mechanism.sensitivity)
    near = (mechanism.epsilon, mechanism.sensitivity)
    assert near[1] in (near[0], math.nextafter(near[0], 1))
    dampening = LocalDampening(1.0, number)
    assert Fraction(dampening.sensitivity or 0.0) >= Fraction(number)
    assert Fraction(SmoothUtilities([0.0], 1.0, beta=number).beta) >= Fraction(number)


def test_an_integer_parameter_that_no_double_holds_is_refused():
    with pytest.raises(ParameterError, match=r"sensitivity must be .* that a double holds exactly"):
        PermuteAndFlip(1.0, sensitivity=BIG)


# Scores by name
VOTES = {"bus": 22, "tram": 8, "bicycle": 17}


def test_a_dict_is_answered_by_its_keys():
    mechanism = PermuteAndFlip(0.3, 1.0)
    bare = list(VOTES.values())
    for seed in range(20):
        index = mechanism.select(bare, SeededSource(seed))
        assert mechanism.select(VOTES, SeededSource(seed)) == list(VOTES)[index]
    drawn = mechanism.select_many(bare, 50, SeededSource(3))
    named = mechanism.select_many(VOTES, 50, SeededSource(3))
    assert named == [list(VOTES)[r] for r in drawn]
    assert set(named) == set(VOTES)
    assert (mechanism.probabilities(VOTES) == mechanism.probabilities(bare)).all()
    noisy = ReportNoisyMax(0.3, 1.0)
    lead = noisy.select(VOTES, SeededSource(1), gap=True)
    unnamed = noisy.select(bare, SeededSource(1), gap=True)
    assert lead.outcome == list(VOTES)[unnamed.outcome]
    assert lead.steps == unnamed.steps


def test_a_dict_without_a_key_or_for_another_kind_is_refused():
    with pytest.raises(ParameterError, match="utilities"):
        PermuteAndFlip(1.0, 1.0).select({})
    with pytest.raises(ParameterError, match="scores must be Margin"):
        StabilityMechanism(1.0).select(VOTES)
    with pytest.raises(PrivateValueError):
        PermuteAndFlip(1.0, 1.0).select(cast(Any, {"a": "22", "b": 1}))


# Margins of counts
def test_the_margin_of_counts_is_public():
    margin = count_margin(list(VOTES.values()))
    assert (margin.winner, margin.margin, margin.outcomes) == (0, 6, 3)
    assert count_margin(np.array([3.0, 5.0])).margin == 2
    assert StabilityMechanism(50.0).select(margin, SeededSource(1)) == 0


@pytest.mark.parametrize("counts", [[22.7, 3], [BIG, 3], [-1, 3], [[1, 2]], ["1", "2"]])
def test_what_is_no_count_is_refused_unseen(counts):
    with pytest.raises((PrivateValueError, ParameterError)) as caught:
        count_margin(counts)
    assert "22" not in str(caught.value)
