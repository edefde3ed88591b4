"""Test users' scores: jets against mpmath, solutions against regressions, refusals."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.special import expit

from geoveil.analyst.relations.estimand import OwnScore, TaylorJet, corrected
from geoveil.analyst.relations.regression import fit
from geoveil.analyst.relations.scores import Category, Design
from geoveil.analyst.relations.solving import sandwich, solve
from geoveil.gp import UnsupportedError


def formula(x: Any, y: Any, of: Any) -> Any:
    """Every kind of step that jets know."""
    curved = of.exp(0.3 * x) * of.tanh(y * x) / (1 + x**2) - of.sin(x) / (2 - of.cos(y))
    return curved + of.sqrt(3 + y * y) * of.log(4 + of.cos(x)) ** 1.5 - (2 - y) ** 3 / of.exp(x)


def test_jets_are_the_mixed_derivatives() -> None:
    at = np.array([[0.3, 0.5], [-1.2, 2.0], [0.0, -0.4]])
    b, c = 0.7, 0.4
    x, y = TaylorJet(0, at[:, 0], 1.0, 0.0), TaylorJet(1, at[:, 1], 1.0, 0.0)
    made = corrected(formula(x, y, np), {0: b, 1: c})
    with mpmath.workdps(40):
        for value, place in zip(made, at.tolist(), strict=True):

            def of(*orders: int, place: list[float] = place) -> Any:
                return mpmath.diff(lambda u, v: formula(u, v, mpmath), place, orders)

            exact = of(0, 0) - b**2 * of(2, 0) - c**2 * of(0, 2) + b**2 * c**2 * of(2, 2)
            assert value == pytest.approx(float(exact), rel=1e-12)


def people(rng: Any, n: int) -> tuple[Design, Design]:
    """Return a randomised answer and two numbers: as a response, and as a covariate."""
    x, b = rng.normal(size=(n, 2)), np.array([0.3, 0.2])
    y = rng.random(n) < expit(0.3 + x @ np.array([0.5, -0.8]))
    z = x + b * rng.laplace(size=(n, 2))
    reported = np.where(rng.random(n) < 0.9, y, ~y)
    h = (reported - 0.1) / 0.8
    options = Category(np.stack([1 - h, h], axis=1), np.array([[0.0], [1.0]]))
    return Design(h, z, b, 2 * b**2), Design(np.zeros(n), z, b, 2 * b**2, (options,))


def logistic(x: Any, theta: Any) -> Any:
    residual = x["y"] - expit(theta[0] + theta[1] * x["age"] + theta[2] * x["hours"])
    return residual, x["age"] * residual, x["hours"] * residual


@pytest.mark.deep(keep=0)
def test_a_logistic_score_of_ones_own_is_the_logistic_regression() -> None:
    response, covariate = people(np.random.default_rng(1), 40_000)
    weights = np.random.default_rng(2).uniform(1, 3, 40_000)
    ours = fit(response, weights, "logistic", plain=True)
    score = OwnScore(covariate, ["y", "age", "hours"], logistic, weights, 3)
    own = solve(score, np.zeros(3), lambda _: True, weights, "")
    assert own.theta == pytest.approx(ours.theta, abs=1e-9)
    covariance = sandwich(own.influence, weights).covariance
    assert covariance == pytest.approx(ours.errors.covariance, rel=1e-9, abs=1e-14)
    clear = Design(covariate.response, covariate.numbers, 0 * covariate.noise, covariate.variances,
                   covariate.categories)  # fmt: skip
    uncorrected = OwnScore(clear, ["y", "age", "hours"], logistic, weights, 3)
    naive = solve(uncorrected, np.zeros(3), lambda _: True, weights, "")
    assert abs(naive.theta[1] - 0.5) > 4 * np.sqrt(covariance[1, 1])


def test_a_score_is_for_any_mean() -> None:
    """E[tanh x] of people, which noise would shrink, with its exact error."""
    rng = np.random.default_rng(3)
    x, b = rng.normal(1.0, 0.5, 20_000), np.array([0.6])
    z = (x + b * rng.laplace(size=20_000))[:, None]
    score = OwnScore(Design(np.zeros(20_000), z, b, 2 * b**2), ["x"],
                     lambda x, t: [np.tanh(x["x"]) - t[0]], np.ones(20_000), 1)  # fmt: skip
    score.check(np.array([[-1.0, 1.0]]))
    root = solve(score, np.zeros(1), lambda _: True, np.ones(20_000), "")
    t = np.tanh(z[:, 0])
    by_hand = t + 2 * b**2 * t * (1 - t * t)
    assert root.theta[0] == pytest.approx(by_hand.mean(), rel=1e-12)
    assert sandwich(root.influence, np.ones(20_000)).covariance[0, 0] == pytest.approx(
        by_hand.var() / 20_000, rel=1e-9
    )


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize(
    ("score", "text"),
    [
        (lambda x, t: [x["y"] - np.exp(2 * t[0] * x["age"])], "no finite variance"),
        (lambda x, t: [x["y"] - np.exp(t[0] * x["age"] * x["hours"])], "no finite variance"),
        (lambda x, t: [x["y"] - t[0] * np.log(x["age"])], "no finite variance"),
        (lambda x, t: [x["y"] - t[0] / (1 + x["age"])], "not finite near age"),
        (lambda x, t: [np.abs(x["age"]) - t[0]], "absolute in a score"),
    ],
)
def test_a_score_without_a_variance_is_refused(score: Callable[..., Any], text: str) -> None:
    _, design = people(np.random.default_rng(4), 100)
    own = OwnScore(design, ["y", "age", "hours"], score, np.ones(100), 1)
    with pytest.raises(UnsupportedError, match=text):
        own.check(np.array([[-1.0, 1.0]]))


@pytest.mark.deep(keep=0)
def test_scores_that_grow_slowly_or_have_no_poles_are_not_refused() -> None:
    _, design = people(np.random.default_rng(4), 100)
    for score in (
        lambda x, t: [x["y"] - np.exp(1.5 * t[0] * x["age"])],  # 1.5·0.3 < 1/2
        lambda x, t: [x["y"] * x["hours"] ** 4 - t[0] / (1 + x["age"] ** 2)],
    ):
        own = OwnScore(design, ["y", "age", "hours"], score, np.ones(100), 1)
        own.check(np.array([[-1.0, 1.0]]))
