"""The stability mechanism: its proof's constraints, its recursion, and its accuracy."""

from itertools import count, pairwise
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.audit import margin_pairs, worst_pair
from geoveil.gp import ParameterError, PrivateValueError
from geoveil.gp.exact import BALL, working_precision
from geoveil.selection import ExponentialMechanism, Margin, PermuteAndFlip, StabilityMechanism
from geoveil.selection.stability import _RULES


def recursion(epsilon: Any, outcomes: Any, most: Any) -> Any:
    """p_0, p_1, …, as the recursion says, at the working precision of mpmath."""
    factor = mp.exp(mp.mpf(epsilon))
    p = [mp.mpf(1) / outcomes, factor / (factor + outcomes - 1)]
    while len(p) <= most:
        p.append(min(factor * p[-1], 1 - (1 - p[-1]) / factor))
    return p


EPSILONS = [1e-3, 0.05, 0.5, 1.0, 3.0, 20.0, 800.0]
OUTCOMES = [2, 3, 10, 1_000, 10**9]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("outcomes", OUTCOMES)
def test_the_closed_form_of_the_optimum_is_the_recursion(epsilon, outcomes):
    with mp.workdps(60):
        expected = recursion(epsilon, outcomes, 400)
        for margin in (*range(60), 200, 399, 400):
            with working_precision(170):
                winner, other = _RULES["optimal"](epsilon, margin, outcomes, BALL)
                for ball, exact in (
                    (winner, expected[margin]),
                    (other, (1 - expected[margin]) / (outcomes - 1)),
                ):
                    # mpmath lost digits where e^{-εj} is beyond its 60.
                    assert abs(mp.mpf(ball.mid().str(50, radius=False)) - exact) < mp.mpf(10) ** -45


@pytest.mark.parametrize("rule", ["ratio", "optimal"])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_float64_has_what_the_balls_enclose(rule, epsilon):
    for outcomes in (2, 10, 1_000):
        for margin in (0, 1, 2, 7, 50):
            p = StabilityMechanism(epsilon, rule).probabilities(Margin(0, margin, outcomes))
            with working_precision(200):
                for value, ball in zip(
                    p[:2], _RULES[rule](epsilon, margin, outcomes, BALL), strict=True
                ):
                    exact = float(ball.mid())
                    assert value == pytest.approx(exact, rel=1e-12 * max(1, epsilon), abs=1e-290)


@pytest.mark.parametrize("rule", ["ratio", "optimal"])
@pytest.mark.parametrize("outcomes", [2, 3, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_no_pair_of_margins_exceeds_epsilon(rule, outcomes, epsilon):
    found = worst_pair(StabilityMechanism(epsilon, rule), margin_pairs(outcomes, most=60))
    assert epsilon * 0.9 < found.epsilon <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("rule", ["ratio", "optimal"])
def test_noise_for_another_epsilon_is_caught(rule):
    found = worst_pair(StabilityMechanism(1 / 0.7, rule), margin_pairs(10, most=60))
    assert found.epsilon > 1.4


class Greedy:
    """The recursion started one too early, at p_1 = min(e^ε p_0, …): the control."""

    def __init__(self, epsilon: Any) -> None:
        self.epsilon = epsilon

    def probabilities(self, scores: Any) -> Any:
        p = [mp.mpf(1) / scores.outcomes]
        factor = mp.exp(self.epsilon)
        while len(p) <= scores.margin:
            p.append(min(factor * p[-1], 1 - (1 - p[-1]) / factor))
        winner = float(p[scores.margin])
        result = np.full(scores.outcomes, (1 - winner) / (scores.outcomes - 1))
        result[scores.winner] = winner
        return result


@pytest.mark.parametrize(
    ("epsilon", "outcomes", "cost"), [(1.0, 2, 1.49), (1.0, 10, 1.21), (0.01, 2, 1.99)]
)
def test_starting_the_recursion_at_one_is_caught_at_margins_one_and_one(epsilon, outcomes, cost):
    found = worst_pair(Greedy(epsilon), margin_pairs(outcomes, most=20))
    assert round(found.epsilon / epsilon, 2) == cost
    assert {found.first.winner, found.second.winner} == {0, 1}
    assert found.first.margin == found.second.margin == 1


def test_the_optimum_is_never_below_the_ratio_and_no_larger_p_keeps_epsilon():
    for outcomes in (2, 3, 10, 100):
        optimal, ratio = StabilityMechanism(1.0), StabilityMechanism(1.0, "ratio")
        for margin in range(30):
            scores = Margin(0, margin, outcomes)
            best, p = optimal.probabilities(scores)[0], ratio.probabilities(scores)[0]
            assert best >= p - 1e-15
            assert margin in (0, 1) or best > p * (1 + 1e-15) or p > 1 - 1e-9
        # Each p_j is bound by the one before, or, p_1, by its like of another winner.
        p = [optimal.probabilities(Margin(0, j, outcomes)) for j in range(30)]
        for before, after in pairwise(p[1:]):
            grown = np.log(after[0] / before[0])
            shrunk = np.log(before[1] / after[1])
            assert max(grown, shrunk) == pytest.approx(1, abs=1e-9)
        assert np.log(p[1][0] / p[1][1]) == pytest.approx(1, abs=1e-12)


def least_margin(probability: Any) -> Any:
    return next(j for j in count() if probability(j) >= 0.95)


def on_the_distance(mechanism: Any, outcomes: Any) -> Any:
    """P[winner] for utilities j and 0: what it takes to win, or to lose."""

    def probability(margin: Any) -> Any:
        return mechanism.probabilities([float(margin)] + [0.0] * (outcomes - 1))[0]

    return probability


@pytest.mark.parametrize(
    ("outcomes", "stability", "optimal", "exponential", "permute_and_flip"),
    [(2, 3, 3, 6, 5), (10, 6, 4, 11, 9), (100, 8, 7, 16, 14)],
)
def test_margins_for_95_percent_accuracy(
    outcomes, stability, optimal, exponential, permute_and_flip
):
    """At ε = 1; utilities on the distance have sensitivity 1."""
    for rule, expected in (("ratio", stability), ("optimal", optimal)):
        mechanism = StabilityMechanism(1.0, rule)
        found = least_margin(
            lambda j, m=mechanism: m.probabilities(Margin(0, j, outcomes))[0],
        )
        assert found == expected
    for other, expected in (
        (ExponentialMechanism(1.0, 1.0), exponential),
        (PermuteAndFlip(1.0, 1.0), permute_and_flip),
    ):
        assert least_margin(on_the_distance(other, outcomes)) == expected
    # The exponential mechanism never gets there on a utility of 0 and 1.
    assert ExponentialMechanism(1.0, 1.0).probabilities([1.0] + [0.0] * (outcomes - 1))[0] < 0.7


def test_the_whole_range_of_margins_and_epsilons_is_answered():
    for epsilon in (1e-50, 1e-15, 1e50):
        for margin in (0, 1, 2, 2**53):
            for rule in ("ratio", "optimal"):
                p = StabilityMechanism(epsilon, rule).probabilities(Margin(2, margin, 3))
                assert p.sum() == pytest.approx(1, abs=1e-15)
                assert p[2] >= 1 / 3 - 1e-15


@pytest.mark.parametrize("rule", ["best", None])
def test_the_rule_is_checked(rule):
    with pytest.raises(ParameterError, match="rule must be one of"):
        StabilityMechanism(1.0, rule)


@pytest.mark.parametrize("bad", [-1, 3, 1.0, "4711"])
def test_the_winner_is_an_index(bad):
    with pytest.raises(PrivateValueError) as caught:
        Margin(bad, 1, 3)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("bad", [-1, 2**53 + 1, 4711.0])
def test_the_margin_is_an_integer_and_not_shown(bad):
    with pytest.raises(PrivateValueError) as caught:
        Margin(0, bad, 3)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("bad", [0, 2.0])
def test_the_number_of_outcomes_is_checked(bad):
    with pytest.raises(ParameterError, match="outcomes"):
        Margin(0, 1, bad)


def test_a_bare_array_is_no_margin():
    with pytest.raises(ParameterError, match="Margin"):
        StabilityMechanism(1.0).select([1.0, 2.0])
