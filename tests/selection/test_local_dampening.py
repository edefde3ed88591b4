"""Test local dampening: the paper's examples, its literal definition, and conditions on δ."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from geoveil.audit import admissible, database_pairs, worst_pair
from geoveil.gp import ParameterError, PrivateValueError, SeededSource
from geoveil.gp.exact import working_precision
from geoveil.selection import ExponentialMechanism, LocalDampening, LocalUtilities, SmoothUtilities
from geoveil.selection.local_dampening import _BALLS

SCORES = np.array([6.5, 6.5, 0, 0, 0, 0, 0, 0])  # of the nodes a, b, v0 … v5 [LD Figure 2a]


def by_definition(u: Any, delta: Any, end: Any) -> Any:
    """LD Definition 3.6: the i with b(i) ≤ u < b(i + 1), and the line between; in fractions."""

    def b(i: Any) -> Any:
        if i < 0:
            return -b(-i)
        steps = [delta[t] if t < len(delta) else end for t in range(i)]
        return sum((Fraction(s) for s in steps), Fraction(0))

    i = -200
    while not b(i) <= Fraction(u) < b(i + 1):
        i += 1
    return (Fraction(u) - b(i)) / (b(i + 1) - b(i)) + i


def test_example_3_9():
    """D = 1.7, weight 5.47, probabilities .32 and .06; exponential mechanism .22 and .09."""
    mechanism = LocalDampening(2.0, 7.5)
    scores = LocalUtilities(SCORES, [[3.0] * 8, [5.0] * 8])
    assert mechanism.dampened(scores) == pytest.approx([1.7] * 2 + [0] * 6, abs=1e-15)
    assert round(math.exp(1.7), 2) == 5.47
    p = mechanism.probabilities(scores)
    assert p.round(2).tolist() == [0.32] * 2 + [0.06] * 6
    assert p.round(3).tolist() == [0.323] * 2 + [0.059] * 6
    p = ExponentialMechanism(2.0, 7.5).probabilities(SCORES)
    assert p.round(2).tolist() == [0.22] * 2 + [0.09] * 6
    assert p.round(3).tolist() == [0.221] * 2 + [0.093] * 6


def test_example_4_2_is_not_what_the_paper_prints():
    """D = −1/6 and −2, weights .846 and .135, probabilities .338 and .054.

    Printed are 0.1 and −2, weights .44 and .13, probabilities .472 and .0046, which do not add up
    to 1. δ(v, 1) = LS(G, 1) = 5, of which the example says nothing.
    """
    scores = LocalUtilities(SCORES - 7, [[3.0] * 2 + [2.0] * 6, [5.0] * 8])
    mechanism = LocalDampening(2.0, 7.5)
    dampened = mechanism.dampened(scores)
    assert dampened == pytest.approx([-1 / 6] * 2 + [-2] * 6, abs=1e-15)
    assert np.exp(dampened).round(3).tolist() == [0.846] * 2 + [0.135] * 6
    assert mechanism.probabilities(scores).round(3).tolist() == [0.338] * 2 + [0.054] * 6
    printed = 2 * 0.472 + 6 * 0.0046
    assert round(printed, 4) == 0.9716


def test_example_4_1_inverts_and_replacement_does_not():
    scores = LocalUtilities([3.0, 4.0], [[1.0, 4.0], [2.0, 4.0]])
    assert LocalDampening(1.0, 4.0).dampened(scores).tolist() == [2.0, 1.0]
    replaced = LocalDampening(1.0, 4.0, replace=True).dampened(scores)
    assert replaced.tolist() == [0.75, 1.0]


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(6))
def test_dampening_is_the_definition(seed):
    rng = np.random.default_rng(seed)
    table = np.sort(rng.integers(1, 40, size=(5, 7)) / 8, axis=0)
    values = np.append(rng.integers(-90, 90, size=6) / 4, 0.0)
    mechanism = LocalDampening(1.0, 5.0)
    expected = [by_definition(u, table[:, r], 5.0) for r, u in enumerate(values)]
    scores = LocalUtilities(values, table)
    assert mechanism.dampened(scores) == pytest.approx(
        [float(x) for x in expected], rel=1e-14, abs=0
    )
    with working_precision(200):
        balls = mechanism._dampened(scores, _BALLS)
        for ball, exact in zip(balls, expected, strict=True):
            assert (ball * exact.denominator).contains(exact.numerator)
            assert ball.rad() < 1e-50


def test_a_knot_is_enclosed_though_no_comparison_decides_it():
    # b(3) = 0.1 + 0.1 + 0.1 of doubles is no double: at few bits the ball holds it and its like.
    u = float(sum([Fraction(0.1)] * 2, Fraction(0)))
    scores = LocalUtilities([u, math.nextafter(u, 1)], np.full((3, 2), 0.1))
    with working_precision(20):
        balls = LocalDampening(1.0, 1.0)._dampened(scores, _BALLS)
    assert balls[0].contains(2)


@pytest.mark.parametrize("replace", [False, True])
def test_shifted_dampening_is_the_limit(replace):
    rng = np.random.default_rng(7)
    values, table = rng.normal(size=6) * 4, np.sort(rng.random((4, 6)) * 3, axis=0)
    limit = LocalDampening(1.5, 3.0, shifted=True, replace=replace)
    plain = LocalDampening(1.5, 3.0, replace=replace)
    expected = limit.probabilities(LocalUtilities(values, table))
    # It is reached as soon as every utility is more than b(4) below 0.
    for shift in (40.0, 1e3, 1e6):
        p = plain.probabilities(LocalUtilities(values - shift, table))
        assert p == pytest.approx(expected, rel=1e-8)
    near = plain.probabilities(LocalUtilities(values, table))
    assert np.abs(near - expected).max() > 1e-3


def test_functions_and_tables_agree():
    table = np.array([[1.0, 2.0], [1.5, 2.5], [3.0, 3.0]])
    for shifted in (False, True):
        mechanism = LocalDampening(1.0, 3.0, shifted=shifted)
        function = LocalUtilities([7.0, -9.0], lambda t: table[min(t, 2)])
        assert mechanism.probabilities(function) == pytest.approx(
            mechanism.probabilities(LocalUtilities([7.0, -9.0], table)), rel=1e-15
        )
        assert mechanism.select(function, SeededSource(1)) in (0, 1)
    free = LocalDampening(1.0)  # no Δ: as long as the function adds up to the utilities
    assert free.dampened(LocalUtilities([6.0, 0.0], lambda t: [1.0 + t, 1.0])).tolist() == [3.0, 0]


def test_the_global_sensitivity_makes_the_exponential_mechanism():
    values = [3.0, -1.0, 0.5]
    for shifted in (False, True):
        p = LocalDampening(1.0, 2.0, shifted=shifted).probabilities(
            LocalUtilities(values, np.full((2, 3), 9.0))
        )
        assert p == pytest.approx(
            ExponentialMechanism(1.0, 2.0).probabilities(values), rel=1e-14, abs=0
        )


def votes(records: Any) -> Any:
    return np.bincount(records, minlength=3)


def squares(records: Any) -> Any:
    """A utility whose sensitivity depends on the database: (votes² − 2)/2."""
    return (votes(records) ** 2 - 2) / 2


def winner(records: Any) -> Any:
    """A utility that only says who wins: steps of sensitivity 0 [SELECTION]."""
    return np.eye(3)[int(np.argmax(votes(records)))]


def brute_force(utility: Any, values: Any, records: Any, most: Any) -> Any:
    """LS(x, t, r) by its definition [LD Def. 3.1], over all databases."""
    pairs = {}
    table = {}

    def note(database: Any) -> Any:
        table[database] = np.asarray(utility(database), dtype=float)
        return LocalUtilities(table[database], np.zeros((1, 3)))

    list(database_pairs(values, records, note))
    for x, own in table.items():
        neighbours = [y for y in table if sum(a != b for a, b in zip(x, y, strict=True)) == 1]
        pairs[x] = np.max([np.abs(own - table[y]) for y in neighbours], axis=0)

    def sensitivities(x: Any) -> Any:
        apart = {y: sum(a != b for a, b in zip(x, y, strict=True)) for y in table}
        return [np.max([pairs[y] for y in table if apart[y] <= t], axis=0) for t in range(most + 1)]

    return {x: LocalUtilities(table[x], sensitivities(x)) for x in table}


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize("utility", [squares, winner])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("replace", [False, True])
def test_no_two_neighbouring_databases_are_told_apart_by_more_than_epsilon(
    utility, shifted, replace
):
    known = brute_force(utility, 3, 4, most=4)
    pairs = list(database_pairs(3, 4, lambda records: known[records]))
    assert admissible(pairs, changes=3)
    greatest = max(float(scores.sensitivity(4).max()) for scores in known.values())
    mechanism = LocalDampening(1.0, greatest, shifted=shifted, replace=replace)
    assert worst_pair(mechanism, pairs).epsilon <= 1 + 1e-12
    dampened = [[mechanism.dampened(scores) for scores in pair] for pair in pairs]
    assert max(np.abs(a - b).max() for a, b in dampened) <= 1 + 1e-12  # [LD Lemma 3.7]


@pytest.mark.deep(keep=0)
def test_the_local_sensitivity_alone_is_not_admissible_and_costs_more():
    """The control: δ(x, t, ·) = LS(x, 0, ·) for all t forgets that neighbours differ."""
    known = brute_force(lambda records: squares(records) + 20, 3, 4, most=0)
    constant = {
        x: LocalUtilities(scores.values, np.repeat(scores.sensitivity(0)[None], 200, axis=0))
        for x, scores in known.items()
    }
    pairs = list(database_pairs(3, 4, lambda records: constant[records]))
    assert not admissible(pairs, changes=3)
    assert worst_pair(LocalDampening(1.0, 9.0), pairs).epsilon > 2


@pytest.mark.parametrize("table", [[[2.0, 1.0], [1.0, 1.0]], [[-1.0, 1.0]], [[4711.0, "x"]]])
def test_a_table_that_cannot_be_admissible_is_refused_unseen(table):
    with pytest.raises(PrivateValueError) as caught:
        LocalUtilities([1.0, 2.0], table)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("table", [[1.0, 1.0], [[1.0, 1.0, 1.0]]])
def test_a_table_has_a_row_per_change_and_a_column_per_outcome(table):
    with pytest.raises(ParameterError, match="sensitivities"):
        LocalUtilities([1.0, 2.0], table)


def test_functions_are_checked_as_they_are_used(monkeypatch):
    mechanism = LocalDampening(1.0, 5.0)
    with pytest.raises(ParameterError, match=r"sensitivities\(t\)"):
        mechanism.probabilities(LocalUtilities([1.0, 2.0], lambda t: [1.0]))
    with pytest.raises(PrivateValueError):
        mechanism.probabilities(LocalUtilities([1.0, 2.0], lambda t: [-1.0, 1.0]))
    monkeypatch.setattr("geoveil.selection.local_dampening._MOST_CHANGES", 100)
    with pytest.raises(PrivateValueError, match="100000 changes"):
        LocalDampening(1.0).select(LocalUtilities([1.0], lambda t: [0.0]))


def test_a_table_needs_a_global_sensitivity():
    scores = LocalUtilities([1.0, 9.0], [[2.0, 2.0]])
    with pytest.raises(ParameterError, match="sensitivity"):
        LocalDampening(1.0).probabilities(scores)
    # Also where the table would have done: that is private.
    with pytest.raises(ParameterError, match="sensitivity"):
        LocalDampening(1.0).select(LocalUtilities([1.0, 2.0], [[2.0, 2.0]]))
    with pytest.raises(ParameterError, match="sensitivity"):
        LocalDampening(1.0, shifted=True)


def test_a_smooth_sensitivity_is_no_local_one():
    with pytest.raises(ParameterError, match="LocalUtilities"):
        LocalDampening(1.0, 1.0).select(SmoothUtilities([1.0], 1.0, beta=1.0))
