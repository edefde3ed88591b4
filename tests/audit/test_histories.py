"""Test histories of nested answers: densities against quadrature, and over random pairs."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate

from geoveil.audit import NestedHistory, worst_history
from geoveil.audit.catalogue import catalogue
from geoveil.audit.derived_histories import AnsweredHistory, ExtrapolatedHistory, _key
from geoveil.audit.faults import (
    AnsweredApart,
    MovedAtom,
    ReadOnceAbove,
    Redrawn,
    WronglyExtrapolated,
)
from geoveil.audit.refinement import with_far_points
from geoveil.gp import GaussianKernel, GeoPrivacy, ParameterError, Range, Threshold

Array = NDArray[np.float64]
CAP, HALF, THIRD = (GeoPrivacy(rate, per=1.0) for rate in (1.0, 0.5, 1 / 3))

ASKED = (
    Threshold(0.5, 3.0, "smoothstep"),
    Range(-2.0, 3.0, 3.0, "smoothstep"),
    GaussianKernel(1.0, 1.5),
)


def laplace(t: float, rate: float) -> float:
    return rate / 2 * math.exp(-rate * abs(t))


def density(y: Sequence[float], rates: Sequence[float], x: float) -> float:
    """Return the density of distinct answers: each may be the point, or none of them is."""
    rest = [(rate**2, rate) for rate in rates]

    def given(z: float, atom: int | None) -> float:
        parts = [
            share if j == atom else (1 - share) * laplace(y[j] - z, rate)
            for j, (share, rate) in enumerate(rest)
        ]
        return laplace(z - x, 1.0) * math.prod(parts)

    shown = sum(given(y[j], j) for j in range(len(y)))
    hidden = integrate.quad(lambda z: given(z, None), -60, 60, points=sorted([x, *y]), limit=200)
    return float(shown + hidden[0])


@pytest.mark.parametrize("y", [(0.3, -1.2, 2.0), (5.0, 5.5, -0.25), (-3.0, 0.1, 0.2)])
@pytest.mark.parametrize("x", [0.0, 0.3, -4.0])
def test_the_density_of_coarser_answers_is_that_of_quadrature(y, x):
    history = NestedHistory(CAP, (HALF, THIRD, HALF))
    expected = density(y, (0.5, 1 / 3, 0.5), x)
    assert float(history.log_density(y, [x])) == pytest.approx(math.log(expected), abs=1e-8)


def test_answers_that_are_equal_show_the_point():
    """The atoms of both, and the third made from it; two pairs of equal answers are impossible."""
    history = NestedHistory(CAP, (HALF, HALF, THIRD))
    expected = laplace(1.0, 1.0) * 0.25 * 0.25 * (1 - 1 / 9) * laplace(2.0, 1 / 3)
    found = history.log_density([1.0, 1.0, 3.0], [0.0])
    assert float(found) == pytest.approx(math.log(expected))
    four = NestedHistory(CAP, (HALF, HALF, THIRD, THIRD))
    assert four.log_density([1.0, 1.0, 3.0, 3.0], [0.0]) == -math.inf


def test_an_answer_at_the_rate_of_the_point_is_the_point():
    history = NestedHistory(CAP, (HALF, CAP))
    expected = laplace(1.5, 1.0) * 0.75 * laplace(0.5, 0.5)
    found = history.log_density([2.0, 1.5], [0.0])
    assert float(found) == pytest.approx(math.log(expected))


def test_epochs_are_independent():
    both = NestedHistory(CAP, (HALF, THIRD), epochs=2)
    one = NestedHistory(CAP, (HALF, THIRD))
    y, x = np.array([0.4, -1.0, 2.0, 7.0]), np.array([0.1, 3.0])
    parts = one.log_density(y[:2], x[:1]) + one.log_density(y[2:], x[1:])
    assert float(both.log_density(y, x)) == pytest.approx(float(parts))


def test_simulated_histories_have_that_density():
    """How often both answers are below 0.5: counted, and integrated. n = 100,000, α = 1e-6."""
    n, x = 100_000, 0.2
    history = NestedHistory(CAP, (HALF, THIRD))
    drawn = history.simulate(np.full((n, 1), x), np.random.default_rng(4))
    counted = float((drawn < 0.5).all(axis=1).mean())

    def both(z: float) -> float:
        below = [
            share * (z < 0.5) + (1 - share) * _below(0.5 - z, rate)
            for share, rate in ((0.25, 0.5), (1 / 9, 1 / 3))
        ]
        return laplace(z - x, 1.0) * math.prod(below)

    expected = integrate.quad(both, -40, 40, points=[x, 0.5], limit=200)[0]
    assert counted == pytest.approx(expected, abs=4.9 * 0.5 / math.sqrt(n))
    equal = float((drawn[:, 0] == drawn[:, 1]).mean())
    assert equal == pytest.approx(0.25 / 9, abs=4.9 * 0.5 / math.sqrt(n))


def _below(t: float, rate: float) -> float:
    return math.exp(rate * t) / 2 if t < 0 else 1 - math.exp(-rate * t) / 2


@pytest.mark.parametrize(
    ("answers", "epochs"),
    [((CAP,), 1), ((CAP, HALF, HALF), 4), ((HALF, HALF), 2), ((THIRD,) * 5, 3)],
)
def test_ten_thousand_pairs_of_trajectories_show_no_more_than_the_point_costs(answers, epochs):
    worst = worst_history(NestedHistory(CAP, answers, epochs), epochs)
    assert worst.rate <= 1 + 1e-9
    assert len(worst.x) == len(worst.other) == epochs


def test_one_coarser_answer_alone_costs_its_own_rate():
    worst = worst_history(NestedHistory(CAP, (HALF,), 2), 2)
    assert worst.rate == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("answers", [(CAP, HALF), (HALF, HALF), (THIRD,) * 4])
def test_charging_less_than_the_point_is_found(answers):
    """Control: the largest rate asked is 1/2 or 1/3, and the histories of the last two cost 1."""
    found = worst_history(NestedHistory(CAP, answers), 1).rate
    assert found > 0.99


@pytest.mark.parametrize("y", [(0.3, -1.2), (9.0, 2.0), (-20.0, 0.0)])
@pytest.mark.parametrize("x", [(0.0, 0.0, 0.0), (3.0, -2.0, 5.0)])
def test_the_density_of_extrapolated_answers_is_that_of_quadrature(y, x):
    """Three epochs, the first point unseen: every other is what it and the reports say."""

    def given(first: float) -> float:
        second = (y[0] + 0.25 * first) / 1.25
        third = (y[1] + 0.8 * second) / 1.8
        told = math.prod(
            laplace(z - v, 1.0) for z, v in zip((first, second, third), x, strict=True)
        )
        return told / 1.25 / 1.8

    breaks = [x[0], 5 * x[1] - 4 * y[0], ((1.8 * x[2] - y[1]) / 0.8 * 1.25 - y[0]) / 0.25]
    expected = integrate.quad(given, -300, 300, points=sorted(breaks), limit=400, epsabs=0)[0]
    found = ExtrapolatedHistory(CAP, (0.25, 0.8)).log_density(y, x)
    assert float(found) == pytest.approx(math.log(expected), abs=1e-7)
    seen = ExtrapolatedHistory(CAP, (0.25, 0.8), from_the_first=True).log_density((1.0, *y), x)
    assert float(seen) == pytest.approx(math.log(given(1.0)))


def test_simulated_extrapolations_have_that_density():
    """How often a report is below 0.5: counted, and integrated. n = 100,000, α = 1e-6."""
    history, x = ExtrapolatedHistory(CAP, (0.5,)), (0.2, 1.0)
    drawn = history.simulate(np.full((100_000, 2), x), np.random.default_rng(4))
    expected = integrate.quad(
        lambda y: math.exp(float(history.log_density([y], x))), -60, 0.5, limit=200
    )[0]
    assert float((drawn < 0.5).mean()) == pytest.approx(expected, abs=4.9 * 0.5 / 100_000**0.5)


def test_answers_to_questions_have_their_probability():
    """All answers together have 1; the commonest is counted: n = 100,000, α = 1e-6. What no point
    answers has none."""
    history = AnsweredHistory(CAP, ASKED)
    distinct = history._answers[np.unique(_key(history._answers), axis=0, return_index=True)[1]]
    logs = history.log_density(distinct, np.full((len(distinct), 1), 0.7))
    assert float(np.exp(logs).sum()) == pytest.approx(1.0)
    drawn = history.simulate(np.full((100_000, 1), 0.7), np.random.default_rng(4))
    common = distinct[logs.argmax()]
    share = float((np.abs(drawn - common) < 1e-9).all(axis=1).mean())
    assert share == pytest.approx(math.exp(logs.max()), abs=4.9 * 0.5 / 100_000**0.5)
    assert history.log_density([0.2, 0.2, 0.2], [0.7]) == -math.inf


@pytest.mark.parametrize(
    "history",
    [
        ExtrapolatedHistory(CAP, (0.3, 1.0, 0.7)),
        ExtrapolatedHistory(CAP, (0.3, 1.0, 0.7), from_the_first=True),
        AnsweredHistory(CAP, ASKED[:1], epochs=4),
        AnsweredHistory(CAP, ASKED, epochs=4),
    ],
)
def test_what_is_made_of_the_points_shows_no_more_than_they_do(history):
    """10,000 random pairs of trajectories and histories of four epochs."""
    worst = worst_history(history, 4)
    assert 0.9 < worst.rate <= 1 + 1e-9


@pytest.mark.parametrize(
    ("fault", "epochs", "truth"),
    [
        (AnsweredApart(CAP, ASKED[::2]), 1, 2.0),
        (WronglyExtrapolated(CAP, 0.5, redrawn=False), 2, 1.5),
        (WronglyExtrapolated(CAP, 1.0, redrawn=True), 2, 1.5),
        (Redrawn(CAP, (1.0, 1.0)), 1, 2.0),
        (Redrawn(CAP, (1.0, 0.5)), 1, 1.5),
        (ReadOnceAbove(CAP, 0.5), 2, math.inf),
        (MovedAtom(CAP, HALF, atoms=()), 2, 1.5),
    ],
)
def test_faulty_histories_are_found_among_random_pairs(fault, epochs, truth):
    found = worst_history(fault, epochs).rate
    assert 0.95 * truth < found <= truth * (1 + 1e-9) or found == truth


def test_far_trajectories_move_in_one_epoch_at_a_time():
    """Costs add up over epochs: a step in both costs up to √2 times that of its length."""
    for case in catalogue("History"):
        steps = np.diff(with_far_points(case), axis=0)
        assert (np.count_nonzero(steps, axis=1) == 1).all(), case.variant


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: NestedHistory(CAP, ()), "answers"),
        (lambda: NestedHistory(HALF, (CAP,)), "coarser.privacy"),
        (lambda: NestedHistory(CAP, (HALF,), 0), "epochs"),
        (lambda: ExtrapolatedHistory(CAP, ()), "ages"),
        (lambda: ExtrapolatedHistory(CAP, (0.0,)), "ages"),
        (lambda: AnsweredHistory(CAP, ()), "queries"),
        (lambda: AnsweredHistory(CAP, ASKED, 0), "epochs"),
        (lambda: worst_history(NestedHistory(CAP, (HALF,)), 0), "epochs"),
        (lambda: worst_history(NestedHistory(CAP, (HALF,)), 1, 0), "count"),
        (lambda: worst_history(NestedHistory(CAP, (HALF,)), 1, 10, -1), "seed"),
    ],
)
def test_bad_input_is_named(call, name):
    assert callable(call)
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.name == name
