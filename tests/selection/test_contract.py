"""Test the contract of every selection mechanism."""

import math
from typing import Any

import numpy as np
import pytest

from geoveil.gp import ParameterError, PrivateValueError, SeededSource, UnsupportedError
from geoveil.selection import (
    ExponentialMechanism,
    Guarantee,
    LocalDampening,
    LocalUtilities,
    Margin,
    PermuteAndFlip,
    ReportNoisyMax,
    SmoothPrivateSelection,
    SmoothUtilities,
    Utilities,
)

UTILITIES = [3.0, 0.0, 1.5, 3.25, 3.25 - 2.0]


def test_probabilities_add_up_to_one(row):
    make, scores = row
    for values in ([0.0], [1.0, 1.0], UTILITIES, np.sin(np.arange(50.0)) * 9):
        p = make(1.3).probabilities(scores(values))
        assert p.dtype == np.float64
        assert p.shape == (len(values),)
        assert (p >= 0).all()
        assert p.sum() == pytest.approx(1, abs=1e-13)


def test_a_sole_outcome_is_certain(row):
    make, scores = row
    known = scores([4.0])
    assert make(1.0).probabilities(known) == pytest.approx([1.0], abs=1e-15)
    assert make(1.0).select(known, SeededSource(3)) == 0


def test_ties_share_alike(row):
    make, scores = row
    known = scores([2.0, 2.0, 2.0])
    if isinstance(known, LocalUtilities):  # a tie is one of sensitivities as well
        known = LocalUtilities(known.values, np.full((2, 3), 0.5))
    assert make(0.8).probabilities(known) == pytest.approx([1 / 3] * 3, abs=1e-14)
    assert {make(0.8).select(known, SeededSource(seed)) for seed in range(60)} == {0, 1, 2}


def test_a_huge_gap_decides(light_row):
    make, scores = light_row
    known = scores([0.0, 1e15, 3.0])
    p = make(1.0).probabilities(known)
    assert p[1] == pytest.approx(1, abs=1e-15)
    assert p[[0, 2]].max() < 1e-300
    assert [make(1.0).select(known, SeededSource(seed)) for seed in range(5)] == [1] * 5


@pytest.mark.parametrize("epsilon", [1e-50, 1e50])
def test_extreme_guarantees_have_their_limits(light_row, epsilon):
    make, scores = light_row
    known = scores([0.0, 5.0, 1.0])
    p = make(epsilon).probabilities(known)
    limit = [1 / 3] * 3 if epsilon < 1 else [0, 1, 0]
    assert p == pytest.approx(limit, abs=1e-10)
    assert make(epsilon).select(known, SeededSource(5)) in range(3)


@pytest.mark.parametrize("gap", [1e6, 1e9])
def test_a_heavy_tail_forgives_a_huge_gap_by_a_power(gap):
    """With noise 1/(1+z⁴) it is the third power: a thousandfold gap has 1e-9 of the chance."""
    mechanism = SmoothPrivateSelection(1.0, 3)
    lost = [
        mechanism.probabilities(SmoothUtilities([0.0, g, 3.0], 1.0, beta=1e-6))[0]
        for g in (gap, 1000 * gap)
    ]
    assert lost[1] / lost[0] == pytest.approx(1e-9, rel=1e-4)


@pytest.mark.deep(keep=3)
def test_ten_thousand_outcomes(row):
    make, scores = row
    values = np.random.default_rng(4).normal(size=10_000)
    known = scores(values)
    p = make(1.0).probabilities(known)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert p.min() > 0
    assert 0 <= make(1.0).select(known, SeededSource(6)) < 10_000


def test_the_order_of_outcomes_does_not_matter(row):
    make, scores = row
    known, turned = scores(UTILITIES[:3]), None
    if isinstance(known, LocalUtilities):
        rows = [known.sensitivity(t)[::-1] for t in range(2)]
        turned = LocalUtilities(known.values[::-1], rows)
    elif isinstance(known, Margin):
        turned = Margin(2 - known.winner, known.margin, 3)
    elif isinstance(known, SmoothUtilities):
        turned = SmoothUtilities(known.values[::-1], known.smooth_sensitivity, beta=known.beta)
    else:
        turned = Utilities(known.values[::-1])
    p, q = make(1.1).probabilities(known), make(1.1).probabilities(turned)
    assert q[::-1] == pytest.approx(p, rel=1e-12)


def test_the_guarantee_is_stated(row):
    make, _ = row
    guarantee = make(1.25).guarantee
    assert guarantee.epsilon == 1.25
    assert guarantee.delta == 0
    assert guarantee.source.startswith("[")
    assert "ε = 1.25" in str(guarantee)


def test_the_words_never_promise_less_than_the_loss():
    words = str(Guarantee(epsilon=1.2345641, delta=1.2345641e-7, statement="all", source="[here]"))
    assert f"{1.2345641:g}" == "1.23456"  # rounded to the nearest they would
    assert words == "ε = 1.23457, δ = 1.23457e-07: all [here]"
    unbounded = Guarantee(epsilon=math.inf, delta=1.0, statement="none", source="[here]")
    assert str(unbounded) == "ε = inf, δ = 1: none [here]"


def test_epsilon_is_checked(row):
    make, _ = row
    wrong: list[Any] = [0, -1, math.nan, math.inf, True, "1", None]
    for epsilon in wrong:
        with pytest.raises(ParameterError, match="epsilon"):
            make(epsilon)


@pytest.mark.parametrize("epsilon", [-1, math.nan])
def test_a_guarantee_checks_epsilon(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        Guarantee(epsilon=epsilon, statement="", source="")
    with pytest.raises(ParameterError, match="delta"):
        Guarantee(epsilon=1, delta=2, statement="", source="")


@pytest.mark.parametrize("make", [ExponentialMechanism, PermuteAndFlip, ReportNoisyMax])
def test_smooth_sensitivity_is_refused_with_the_reason(make):
    scores = SmoothUtilities([1.0, 0.0], 0.1, beta=0.2)
    for use in (make(1, 1).probabilities, make(1, 1).select):
        with pytest.raises(UnsupportedError, match=rf"^{make.__name__} .*\[SNM Theorem 7\.2\]"):
            use(scores)


def test_the_reason_is_true_as_printed():
    """SNM Theorem 7.2: votes 22 and 17, ε = 0.5, S = e^{−jε}: .04 and .10, more than e^ε apart."""
    winner = [1.0, 0.0, 0.0, 0.0, 0.0]
    x, y = (ExponentialMechanism(0.5, math.exp(-j * 0.5)).probabilities(winner) for j in (5, 4))
    assert round(math.exp(-4 * 0.5), 3) == 0.135
    assert (round(x[2], 2), round(y[2], 2)) == (0.04, 0.10)
    assert round(math.log(y[2] / x[2]), 2) == 0.88 > 0.5


@pytest.mark.parametrize("beta", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("make", [ExponentialMechanism, PermuteAndFlip])
def test_the_reason_is_true_for_every_beta(make, beta):
    epsilon, exponent = beta / 10, 600.0
    utilities = [0.0, exponent * 2 / epsilon]
    x, y = (make(epsilon, scale).probabilities(utilities) for scale in (1.0, math.exp(beta)))
    assert math.log(y[0] / x[0]) > 1000 * epsilon


def test_scores_of_another_kind_are_refused(row):
    make, _ = row
    mechanism = make(1.0)
    others = [Margin(0, 1, 2), LocalUtilities([1.0, 0.0], [[1.0, 1.0]])]
    for scores in others:
        if type(scores) is not mechanism._kind:
            with pytest.raises(ParameterError, match="scores must be"):
                mechanism.probabilities(scores)


def test_a_bare_array_is_utilities():
    mechanism = ExponentialMechanism(1, 1)
    assert mechanism.probabilities([1, 2]) == pytest.approx(
        mechanism.probabilities(Utilities([1, 2]))
    )
    with pytest.raises(ParameterError, match="LocalUtilities"):
        LocalDampening(1, 1).probabilities([1.0, 2.0])


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]]])
def test_utilities_have_one_axis(values):
    with pytest.raises(ParameterError, match="utilities"):
        ReportNoisyMax(1, 1).select(values)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e91, "4711"])
def test_a_private_number_is_refused_unseen(value):
    with pytest.raises(PrivateValueError) as caught:
        ExponentialMechanism(1, 1).select([4711.25, value])
    assert "4711" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("bad", [0.0, math.nan, "4711"])
def test_a_smooth_sensitivity_is_refused_unseen(bad):
    with pytest.raises(PrivateValueError) as caught:
        SmoothUtilities([1.0], bad, beta=1.0)
    assert "4711" not in str(caught.value)
    with pytest.raises(ParameterError, match="beta"):
        SmoothUtilities([1.0], 1.0, beta=0.0)


def test_nothing_private_is_shown():
    known = [
        Utilities([4711.25]),
        SmoothUtilities([4711.25], 4711.25, beta=0.5),
        LocalUtilities([4711.25], [[4711.25]]),
        Margin(0, 4711, 1),
    ]
    for scores in known:
        assert "4711" not in repr(scores) + str(scores)


def test_the_source_is_checked(row):
    make, scores = row
    with pytest.raises(ParameterError, match="source"):
        make(1.0).select(scores([1.0, 2.0]), np.random.default_rng(1))
