"""Test categories: laws by enumerated draws, estimators by exact sums, variances by formulas."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import bmat, identity, vstack

from geoveil.gp import (
    ParameterError,
    PrivateValueError,
    RandomSource,
    SeededSource,
)
from geoveil.gp.mechanisms import categories
from geoveil.gp.mechanisms.categories import (
    ONE,
    CategoryMechanism,
    KaryResponse,
    OrdinalResponse,
    SubsetResponse,
    UnaryEncoding,
    category_mechanism,
)

Law = dict[tuple[int, ...], Fraction]
SHARES = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
EVERY: list[CategoryMechanism] = [
    KaryResponse(2, 0.7), KaryResponse(5, 1.0), KaryResponse(9, 3.0), OrdinalResponse(2, 1.0),
    OrdinalResponse(5, 0.3), OrdinalResponse(7, 2.0), UnaryEncoding(2, 1.0), UnaryEncoding(6, 0.4),
    SubsetResponse(1, 1.0), SubsetResponse(4, 0.8), SubsetResponse(5, 2.0, most=2),
]  # fmt: skip


def values_of(mechanism: CategoryMechanism) -> range:
    """Return all values: of sets of options too many ticks as well, whose laws are the same."""
    many = mechanism.options
    return range(2**many if isinstance(mechanism, SubsetResponse) else many)


def distance(mechanism: CategoryMechanism, x: int, y: int) -> int:
    """Return in what multiples of ε two values may differ."""
    if isinstance(mechanism, SubsetResponse):
        return (x ^ y).bit_count()
    return abs(x - y) if isinstance(mechanism, OrdinalResponse) else int(x != y)


def law(mechanism: CategoryMechanism, x: int) -> Law:
    """Return the law of a report as the docstrings state it, by sums of fractions."""
    weight, many = mechanism.weight, mechanism.options
    lie = Fraction(ONE, weight + ONE)
    if isinstance(mechanism, KaryResponse):
        total = weight + (many - 1) * ONE
        return {(y,): Fraction(weight if y == x else ONE, total) for y in range(many)}
    if isinstance(mechanism, OrdinalResponse):
        a = Fraction(ONE, weight)
        found = {(y,): a ** abs(x - y) * (1 - a) / (1 + a) for y in range(many)}
        found[0,], found[many - 1,] = a**x / (1 + a), a ** (many - 1 - x) / (1 + a)
        return found
    on = [lie] * many
    if isinstance(mechanism, UnaryEncoding):
        on[x] = Fraction(1, 2)
    else:
        on = [1 - lie if x >> j & 1 else lie for j in range(many)]
    return {
        (sum(bit << j for j, bit in enumerate(bits)),): math.prod(
            (p if bit else 1 - p for p, bit in zip(on, bits, strict=True)), start=Fraction(1)
        )
        for bits in itertools.product((0, 1), repeat=many)
    }


class UndecidedError(Exception):
    """A draw for which the script says nothing: its bound."""


class Script(RandomSource):
    """Gives the integers of a script, whatever the bound; raises the bound after the last."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self.rest = list(script)

    def bits(self, count: int) -> int:
        return self.below(1 << count)

    def below(self, bound: int) -> int:
        if not self.rest:
            raise UndecidedError(bound)
        return self.rest.pop(0)


def enumerated(
    mechanism: CategoryMechanism, x: int, script: tuple[int, ...] = (), p: Fraction = Fraction(1)
) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Yield every report that any integers lead to, with the probability of these integers."""
    try:
        yield mechanism.release(x, Script(script)), p
    except UndecidedError as undecided:
        (bound,) = undecided.args
        for drawn in range(bound):
            yield from enumerated(mechanism, x, (*script, drawn), p / bound)


def enumerated_law(mechanism: CategoryMechanism, x: int) -> Law:
    found: Law = {}
    for report, p in enumerated(mechanism, x):
        found[report] = found.get(report, Fraction(0)) + p
    return found


@pytest.fixture
def coarse(monkeypatch):
    """Make M = 4 and words of 2 bits, with which every draw can be looked at: T = 12 at ε = 1.1."""
    categories._weight.cache_clear()
    monkeypatch.setattr(categories, "ONE", 4)
    monkeypatch.setattr(categories, "_WORD", 2)
    yield 4
    categories._weight.cache_clear()


def worst(laws: list[Law], mechanism: CategoryMechanism, ratio: Fraction) -> Fraction:
    """Return the largest ratio of probabilities between two values, over its bound."""
    return max(
        (of_x[y] / laws[other].get(y, Fraction(0)) if y in laws[other] else Fraction(10**9))
        / ratio ** distance(mechanism, x, other)
        for x, of_x in enumerate(laws)
        for other in range(len(laws))
        for y in of_x
    )


SMALL = [
    KaryResponse(2, 1.0), KaryResponse(4, 1.0), OrdinalResponse(2, 0.7), OrdinalResponse(3, 0.7),
    OrdinalResponse(4, 0.7), UnaryEncoding(2, 1.1), UnaryEncoding(4, 1.1), SubsetResponse(1, 1.1),
    SubsetResponse(4, 1.1),
]  # fmt: skip
"""With probabilities of events that have two binary digits at M = 4: ¼, and ½ of further steps."""


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("mechanism", SMALL, ids=str)
def test_every_draw_makes_the_law_of_the_docstring(mechanism, coarse, monkeypatch):
    """All integers of a coarse M, for all values: equal fractions, and no ratio above (T/M)^d."""
    monkeypatch.setattr(f"{__name__}.ONE", coarse)
    laws = [enumerated_law(mechanism, x) for x in values_of(mechanism)]
    assert laws == [law(mechanism, x) for x in values_of(mechanism)]
    assert worst(laws, mechanism, Fraction(mechanism.weight, coarse)) == 1


class TruthfulBit(UnaryEncoding):
    """Keeps the true bit with probability ¾: not ε."""

    def _draw(self, source: RandomSource) -> tuple[int, ...]:
        kept, *masks = super()._draw(source)
        return (kept | source.bits(1), *masks)


class OpenEnd(OrdinalResponse):
    """Sends the first option as it is."""

    def _report(self, value: int, drawn: tuple[int, ...]) -> tuple[int, ...]:
        return super()._report(value, drawn) if value else (0,)


class OneMore(KaryResponse):
    """Tells the truth in one integer too many."""

    def _draw(self, source: RandomSource) -> tuple[int, ...]:
        return (super()._draw(source)[0] - 1,)


class FewerFlips(SubsetResponse):
    """Never inverts the first option."""

    def _report(self, value: int, drawn: tuple[int, ...]) -> tuple[int, ...]:
        return (super()._report(value, drawn)[0] & ~1 | value & 1,)


@pytest.mark.parametrize(
    "fault",
    [TruthfulBit(2, 1.1), OpenEnd(3, 0.7), OneMore(3, 1.0), FewerFlips(2, 1.1)],
    ids=lambda fault: type(fault).__name__,
)
def test_planted_faults_are_caught(fault, coarse):
    laws = [enumerated_law(fault, x) for x in values_of(fault)]
    assert worst(laws, fault, Fraction(fault.weight, coarse)) > 1


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, math.log(2), 1.0, math.log(3), 7.5, 16.0])
def test_the_weight_is_the_integer_below(epsilon):
    """T/M is at most e^ε by mpmath, and less than 1/M below it."""
    with mpmath.workdps(60):
        exact = mpmath.e ** mpmath.mpf(epsilon) * ONE
        assert exact - 1 < KaryResponse(2, epsilon).weight <= exact


@pytest.mark.parametrize(
    ("mechanism", "ends"),
    [
        (KaryResponse(4, 1.0), lambda t: [0, t, t + ONE, t + 2 * ONE, t + 3 * ONE]),
        (OrdinalResponse(2, 1.0), lambda t: [0, ONE, t, t + ONE]),
    ],
    ids=["k-ary", "ordinal"],
)
def test_the_integers_of_devices_end_where_the_proof_says(mechanism, ends):
    """The first and the last integer of every stretch; stretches as long as the law says."""
    stretches = ends(mechanism.weight)
    for x in range(mechanism.options):
        found: Law = {}
        for start, end in itertools.pairwise(stretches):
            # Ordinal scales of two options draw no word after it: of no bits.
            said = {mechanism.release(x, Script((at, 0))) for at in (start, end - 1)}
            (report,) = said
            found[report] = found.get(report, Fraction(0)) + Fraction(end - start, stretches[-1])
        assert found == law(mechanism, x)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 16.0])
def test_events_of_devices_have_their_probability(epsilon):
    """Three words decide: the events that happen, and those left open, enclose M/(T + M)."""
    total = KaryResponse(2, epsilon).weight + ONE
    least = Fraction(0)
    before: tuple[int, ...] = ()
    for rounds in (1, 2, 3):
        low, high = 0, 2**32  # the first word that does not happen at once, by bisection
        while low < high:
            middle = (low + high) // 2
            try:
                happens = categories._events(Script((*before, middle)), 1, ONE, total)[0]
            except UndecidedError:
                happens = False
            low, high = (middle + 1, high) if happens else (low, middle)
        with pytest.raises(UndecidedError):
            categories._events(Script((*before, low)), 1, ONE, total)
        assert not categories._events(Script((*before, low + 1)), 1, ONE, total)[0]
        least += Fraction(low, 2 ** (32 * rounds))
        assert least <= Fraction(ONE, total) < least + Fraction(1, 2 ** (32 * rounds))
        before = (*before, low)


def scores_of(mechanism: CategoryMechanism) -> list[np.ndarray]:
    many = mechanism.options
    spread = np.random.default_rng(3).normal(size=many)
    return [np.arange(many) + 1.0, np.eye(many)[many // 2], spread]


def true_score(mechanism: CategoryMechanism, scores: np.ndarray, x: int) -> float:
    if isinstance(mechanism, SubsetResponse):
        return float(sum(s for j, s in enumerate(scores) if x >> j & 1))
    return float(scores[x])


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize("mechanism", EVERY, ids=str)
def test_estimators_are_unbiased_and_vary_as_they_say(mechanism):
    """Exact sums over all reports, for every value. Control: another ε is biased."""
    values = values_of(mechanism)
    laws = [law(mechanism, x) for x in values]
    reports = list(laws[0])
    for scores in scores_of(mechanism):
        attained = mechanism.estimator(scores)(np.array(reports))
        other = type(mechanism)(mechanism.options, 1.2 * mechanism.epsilon).estimator(scores)
        wrong = other(np.array(reports))
        limits, variance = mechanism.limits(scores), mechanism.variance(scores)
        assert (attained.min(), attained.max()) == pytest.approx(limits, rel=1e-12)
        exact, size = [Fraction(float(number)) for number in attained], float(abs(attained).max())
        biases = []
        for x in values:
            p = [laws[x][y] for y in reports]
            mean = sum(share * number for share, number in zip(p, exact, strict=True))
            score = true_score(mechanism, scores, x)
            assert float(mean) == pytest.approx(score, abs=1e-13 * size)
            second = sum(share * (n - mean) ** 2 for share, n in zip(p, exact, strict=True))
            stated = variance[0 if isinstance(mechanism, SubsetResponse) else x]
            assert float(second) == pytest.approx(stated, rel=1e-10)
            biases.append(abs(np.array(p, float) @ wrong - score))
        assert max(biases) > 0.002


@pytest.mark.parametrize("epsilon", [0.1, 1.0, math.log(3), 5.0])
def test_variances_are_the_closed_forms(epsilon):
    """Warner's as RRreg states it, k-ary response, unary encoding, and yes or no, to 1e-8.

    RRreg: π(1 − π)/n + p(1 − p)/(n(2p − 1)²), of which the second term is ours.
    """
    e = math.exp(epsilon)
    p = e / (1 + e)
    warner = KaryResponse(2, epsilon).variance([0.0, 1.0])
    assert warner == pytest.approx(p * (1 - p) / (2 * p - 1) ** 2, rel=1e-8)
    assert SubsetResponse(3, epsilon).variance([0, 0, 1]) == pytest.approx(warner[0], rel=1e-8)
    assert OrdinalResponse(2, epsilon).variance([0, 1]) == pytest.approx(warner, rel=1e-8)
    for k in (3, 20):
        share = np.eye(k)[0]
        of_rare = KaryResponse(k, epsilon).variance(share)[1]
        assert of_rare == pytest.approx((e + k - 2) / (e - 1) ** 2, rel=1e-8)
        p, q = e / (e + k - 1), 1 / (e + k - 1)
        of_true = KaryResponse(k, epsilon).variance(share)[0]
        assert of_true == pytest.approx(p * (1 - p) / (p - q) ** 2, rel=1e-8)
        unary = UnaryEncoding(k, epsilon).variance(share)
        assert unary[1] == pytest.approx(4 * e / (e - 1) ** 2, rel=1e-8)
        assert unary[0] == pytest.approx(4 * e / (e - 1) ** 2 + 1, rel=1e-8)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0, 3.7])
def test_unary_encoding_is_taken_where_it_varies_less(epsilon):
    """Up to 3e^ε + 2 options: on both sides of it, by the variances of the share of a rare one."""
    most = math.floor(3 * math.exp(epsilon) + 2)
    for k in (2, most, most + 1, 2 * most):
        share = np.eye(k)[0]
        response, unary = KaryResponse(k, epsilon), UnaryEncoding(k, epsilon)
        better = unary.variance(share)[1] < response.variance(share)[1]
        assert category_mechanism(k, epsilon) == (unary if better else response)


def least_variance(epsilon: float, shares: np.ndarray, outputs: int = 161) -> float:
    """Return the least variance of an unbiased mean score over all channels, by linear programme.

    A channel is a table of probabilities of reports that are numbers on a grid; nothing else is
    asked of them than their mean, and e^ε between neighbours.
    """
    k, factor = len(shares), math.exp(epsilon)
    reach = (k - 1) / 2 + 2 / (factor - 1) + 1
    numbers = (k - 1) / 2 + np.linspace(-reach, reach, outputs)
    same = identity(outputs)
    pairs = [(x, y) for x in range(k) for y in (x - 1, x + 1) if 0 <= y < k]
    blocks = [
        [same if j == x else -factor * same if j == y else 0 * same for j in range(k)]
        for x, y in pairs
    ]
    means = np.concatenate([np.kron(np.eye(k), np.ones(outputs)), np.kron(np.eye(k), numbers)])
    solved = linprog(
        np.outer(shares, numbers**2).ravel(),
        A_ub=vstack([bmat([row]) for row in blocks]).tocsr(),
        b_ub=np.zeros(len(pairs) * outputs),
        A_eq=means,
        b_eq=np.concatenate([np.ones(k), np.arange(k)]),
    )
    return float(solved.fun - shares @ np.arange(k) ** 2)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("shares", [SHARES, np.array([0.7, 0.2, 0.1])], ids=len)
def test_no_channel_has_less_variance_of_the_mean_score(epsilon, shares):
    """The best table on a grid of numbers is at most 0.5 % better, and no worse by 1 %."""
    scores = np.arange(len(shares))
    geometric = shares @ OrdinalResponse(len(shares), epsilon).variance(scores)
    assert 0.99 < geometric / least_variance(epsilon, shares) < 1.005


def test_for_small_epsilon_the_variance_grows_as_stated():
    """As 1/ε² for scores in a line, and as 1/ε³ for a share."""
    for scores, power in ((np.arange(5), 2), (np.eye(5)[2], 3)):
        large, small = (OrdinalResponse(5, e).variance(scores).max() for e in (1e-4, 1e-3))
        assert np.log10(large / small) == pytest.approx(power, abs=0.001)


def chi_square(mechanism: CategoryMechanism, x: int, reports: Any) -> float:
    """Return (χ² − cells)/√(2·cells) of reports, about standard normal."""
    of_x, counts = law(mechanism, x), {}
    for report in map(tuple, reports):
        counts[report] = counts.get(report, 0) + 1
    n = len(reports)
    terms = [(counts.get(y, 0) - n * float(p)) ** 2 / (n * float(p)) for y, p in of_x.items()]
    assert set(counts) <= set(of_x)
    return (sum(terms) - len(terms) + 1) / math.sqrt(2 * (len(terms) - 1))


DRAWN: list[tuple[Callable[[float], CategoryMechanism], int]] = [
    (lambda e: KaryResponse(4, e), 1), (lambda e: OrdinalResponse(4, e), 1),
    (lambda e: UnaryEncoding(3, e), 1), (lambda e: SubsetResponse(3, e), 5),
]  # fmt: skip


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(("make", "x"), DRAWN)
def test_releases_and_simulations_have_the_law(make, x):
    """20,000 of each; a bound of 6 for a number that is about normal. Control: 1.2 ε is seen."""
    mechanism, source = make(1.0), SeededSource(5)
    released = [mechanism.release(x, source) for _ in range(20_000)]
    simulated = mechanism.simulate(np.full(20_000, x), np.random.default_rng(6))
    for reports in (released, simulated.tolist()):
        assert chi_square(mechanism, x, reports) < 6
        assert chi_square(make(1.2), x, reports) > 6


class Counting(RandomSource):
    """Counts draws, and the bits of each."""

    def __init__(self) -> None:
        self.source, self.draws = SeededSource(1), []

    def bits(self, count: int) -> int:
        self.draws.append(count)
        return self.source.bits(count)


@pytest.mark.parametrize("mechanism", EVERY, ids=str)
def test_draws_do_not_depend_on_the_value(mechanism):
    """The same seed: the same draws for every value, and for one that is refused after them."""
    drawn = []
    for x in (0, 1, -1):
        source = Counting()
        if x < 0:
            with pytest.raises(PrivateValueError):
                mechanism.release(x, source)
        else:
            report = mechanism.release(x, source)
            assert len(report) == mechanism.columns == len(mechanism.ranges)
            assert all(
                low <= y <= high for y, (low, high) in zip(report, mechanism.ranges, strict=True)
            )
        drawn.append(source.draws)
    assert drawn[0] == drawn[1] == drawn[2]


def test_masks_take_several_columns():
    """130 options in 62, 62 and 6 bits: the estimators of release and simulation read each bit."""
    mask = 1 << 129 | 1 << 62 | 1 << 3
    subset, unary = SubsetResponse(130, 16.0), UnaryEncoding(130, 16.0)
    assert subset.columns == unary.columns == 3
    assert unary.ranges == ((0, 2**62 - 1), (0, 2**62 - 1), (0, 63))
    source = SeededSource(2)
    report = subset.release(mask, source)
    assert report == (1 << 3, 1, 1 << 5)
    scores = np.arange(130.0)
    assert subset.estimator(scores)(np.array([report]))[0] == pytest.approx(194, abs=0.01)
    simulated = subset.simulate(np.array([report] * 2), np.random.default_rng(1))
    assert simulated.tolist() == [list(report)] * 2
    reports = np.array([unary.release(127, source) for _ in range(40)])
    assert set(unary.estimator(np.eye(130)[127])(reports).round(4).tolist()) == {0.0, 2.0}
    assert unary.simulate([64, 129], np.random.default_rng(3)).shape == (2, 3)


@pytest.mark.parametrize("kind", [KaryResponse, OrdinalResponse, UnaryEncoding, SubsetResponse])
def test_what_is_out_of_range_is_refused(kind):
    for options, epsilon in ((0, 1.0), (2.0, 1.0), (10_001, 1.0), (3, 0.0), (3, 16.1), (3, None)):
        with pytest.raises(ParameterError):
            kind(options, epsilon)
    mechanism = kind(3, 1.0)
    for scores in ([1, 2], [1, 2, math.inf], [[1, 2, 3]], "abc"):
        with pytest.raises(ParameterError, match="3 finite numbers"):
            mechanism.estimator(scores)
    for value in (-1, 8, 3.0, True, "1"):
        with pytest.raises(PrivateValueError) as refused:
            mechanism.release(value, SeededSource(1))
        assert str(value) not in str(refused.value).replace("from 0 to 2", "").split()
    with pytest.raises(ParameterError, match="2\\^-32"):
        kind(3, 1e-12).estimator([1, 2, 3])


def test_sets_hold_at_most_so_many_options():
    few = SubsetResponse(5, 0.5, most=2)
    assert (few.largest_epsilon, SubsetResponse(5, 0.5).largest_epsilon) == (2.0, 2.5)
    assert SubsetResponse(5, 0.5, most=4).largest_epsilon == 2.5
    with pytest.raises(PrivateValueError, match="at most 2 of 5"):
        few.release(0b111, SeededSource(1))
    few.release(0b101, SeededSource(1))
    for most in (0, 6, True):
        with pytest.raises(ParameterError, match="most"):
            SubsetResponse(5, 0.5, most=most)


def test_an_ordinal_scale_has_at_most_100_options():
    with pytest.raises(ParameterError, match="from 2 to 100"):
        OrdinalResponse(101, 1.0)
    response = OrdinalResponse(100, 0.01)
    assert np.isfinite(response.variance(np.eye(100)[50])).all()
