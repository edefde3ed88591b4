"""Permute-and-flip: exact enumeration, and report-noisy-max with exponential noise [PF Theorem 5].

Probabilities are enumerated in rational arithmetic for the coins as they are in float64.
"""

from fractions import Fraction
from itertools import combinations, permutations
from math import factorial, prod
from typing import Any

import numpy as np
import pytest

from geoveil.selection import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
from geoveil.selection.global_sensitivity import first_heads


def coins(values: Any, rate: Any) -> Any:
    return [Fraction(float(q)) for q in np.exp(rate * (np.asarray(values) - max(values)))]


def by_permutations(q: Any) -> Any:
    """PF Algorithm 2, literally: all orders."""
    result = [Fraction(0)] * len(q)
    for order in permutations(range(len(q))):
        tails = Fraction(1)
        for outcome in order:
            result[outcome] += tails * q[outcome]
            tails *= 1 - q[outcome]
    return [share / factorial(len(q)) for share in result]


def by_predecessors(q: Any) -> Any:
    """The same, with orders put together that have the same set before an outcome."""
    m, result = len(q), []
    for r in range(m):
        others = [q[j] for j in range(m) if j != r]
        total = sum(
            Fraction(factorial(k) * factorial(m - 1 - k), factorial(m))
            * prod((1 - coin for coin in before), start=Fraction(1))
            for k in range(m)
            for before in combinations(others, k)
        )
        result.append(q[r] * total)
    return result


def by_noisy_max(q: Any) -> Any:
    """PF Algorithm 1: ∫ over the winner's noise, whose survival beyond the best utility is q t.

    The others stay below with probability Π (1 − t q_j), multiplied out and integrated over t.
    """
    m, result = len(q), []
    for r in range(m):
        others = [q[j] for j in range(m) if j != r]
        total = sum(
            (-1) ** k * prod(chosen, start=Fraction(1)) / (k + 1)
            for k in range(m)
            for chosen in combinations(others, k)
        )
        result.append(q[r] * total)
    return result


CASES = [[0.0] * m for m in range(1, 9)] + [
    np.random.default_rng(seed).normal(size=m).round(2) * 3
    for m in range(2, 9)
    for seed in range(5)
]


@pytest.mark.parametrize("values", [v for v in CASES if len(v) <= 6], ids=len)
def test_enumeration_of_orders_agrees_with_that_of_predecessors(values):
    q = coins(values, 0.6)
    assert by_permutations(q) == by_predecessors(q)


@pytest.mark.parametrize("values", CASES, ids=len)
def test_permute_and_flip_is_noisy_max_with_exponential_noise(values):
    q = coins(values, 0.6)
    exact = by_predecessors(q)
    assert exact == by_noisy_max(q)
    expected = np.array([float(p) for p in exact])
    for mechanism in (PermuteAndFlip(1.2, 1.0), ReportNoisyMax(1.2, 1.0)):
        assert np.abs(mechanism.probabilities(values) - expected).max() < 1e-12
        assert mechanism.probabilities(values) == pytest.approx(expected, rel=1e-12)


def test_the_exponential_mechanism_is_another_one():
    """The control: the distance that the test above would see."""
    values = [0.0, 0.5, 3.0]
    p = ExponentialMechanism(1.2, 1.0).probabilities(values)
    expected = [float(x) for x in by_predecessors(coins(values, 0.6))]
    assert np.abs(p - expected).max() > 1e-3


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize("m", [1, 2, 9, 40, 1_000, 20_000])
def test_equal_coins_have_a_closed_form(m):
    """One sure coin and m − 1 coins q: P(best) = (1 − (1 − q)^m)/(m q)."""
    for q in (1.0, 0.5, 1e-3, 1e-9):
        p = first_heads(np.array([1.0] + [q] * (m - 1)))
        best = -np.expm1(m * np.log1p(-q)) / (m * q) if q < 1 else 1 / m
        assert p[0] == pytest.approx(best, rel=2e-13, abs=0)
        assert p[1:] == pytest.approx(np.full(m - 1, (1 - best) / max(m - 1, 1)), rel=1e-6)
        assert p.sum() == pytest.approx(1, abs=2e-13)


def test_monotone_utilities_need_half_the_noise():
    values = [1.0, 4.0, 4.5]
    assert PermuteAndFlip(1.0, 2.0, monotone=True).probabilities(values) == pytest.approx(
        PermuteAndFlip(2.0, 2.0).probabilities(values)
    )


def test_expected_utility_is_never_below_that_of_the_exponential_mechanism():
    """McKenna and Sheldon 2020."""
    rng = np.random.default_rng(8)
    for _ in range(200):
        values = rng.normal(size=rng.integers(2, 30)) * rng.choice([0.1, 1, 10])
        flip = PermuteAndFlip(1.0, 1.0).probabilities(values) @ values
        assert flip >= ExponentialMechanism(1.0, 1.0).probabilities(values) @ values - 1e-12
