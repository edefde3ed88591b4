"""Test expectation-maximisation: maximum likelihood without smoothing, smooth shares with it."""

import numpy as np
import pytest
from scipy.optimize import minimize

from geoveil.analyst import pilot
from geoveil.analyst.pilot import SMOOTHING, expectation_maximisation
from geoveil.gp import ParameterError


def laplace_law(cells: int, scale: float) -> np.ndarray:
    """Return the law of cell + Laplace noise, rounded to a cell, what is beyond at the ends."""
    edges = np.arange(cells - 1)[:, None] + 0.5 - np.arange(cells)[None]
    below = np.where(edges < 0, np.exp(edges / scale) / 2, 1 - np.exp(-edges / scale) / 2)
    return np.diff(np.vstack([np.zeros(cells), below, np.ones(cells)]), axis=0)


def log_likelihood(law: np.ndarray, counts: np.ndarray, shares: np.ndarray) -> float:
    return float(np.sum(counts * np.log(law @ shares)))


def test_without_smoothing_it_finds_the_likeliest_shares(monkeypatch):
    """The oracle is a general optimiser over the logarithms of the shares, from 3 starts."""
    rng = np.random.default_rng(1)
    law = laplace_law(6, 1.0)
    counts = rng.multinomial(500, law @ rng.dirichlet(np.ones(6))).astype(float)
    smooth = expectation_maximisation(law, counts)
    for name, value in (("SMOOTHING", (1.0,)), ("_TOLERANCE", 1e-12), ("_ITERATIONS", 100_000)):
        monkeypatch.setattr(pilot, name, value)
    found = expectation_maximisation(law, counts)

    def lost(logits: np.ndarray) -> float:
        shares = np.exp(logits - logits.max())
        return -log_likelihood(law, counts, shares / shares.sum())

    best = -min(minimize(lost, rng.normal(size=6), method="BFGS").fun for _ in range(3))
    assert log_likelihood(law, counts, found) == pytest.approx(best, abs=1e-4)
    assert log_likelihood(law, counts, smooth) < best - 0.1  # control: it is something else


def test_smoothing_convolves_and_loses_nobody(monkeypatch):
    """With a law that tells all, a step of the maximisation gives the shares of the counts."""
    rng = np.random.default_rng(2)
    counts = np.zeros(40)
    counts[1:-1] = rng.integers(1, 9, 38)
    monkeypatch.setattr(pilot, "_ITERATIONS", 1)
    told = expectation_maximisation(np.eye(counts.size), counts + 1e-12)
    expected = np.convolve(counts / counts.sum(), SMOOTHING, "same")
    assert told == pytest.approx(expected, abs=1e-9)
    assert told.sum() == pytest.approx(1.0)


def test_people_at_the_ends_stay_there():
    law = laplace_law(30, 2.0)
    counts = 1e4 * law[:, 0]
    found = expectation_maximisation(law, counts)
    assert found.sum() == pytest.approx(1.0)
    assert found[:3].sum() > 0.9


def test_smoothing_errs_less_on_a_smooth_population(monkeypatch):
    """Integrated squared error of the distribution function, n = 5,000, 5 samples, fixed seed."""
    rng = np.random.default_rng(3)
    law = laplace_law(60, 4.0)
    truth = np.exp(-(((np.arange(60) - 30) / 9) ** 2) / 2)
    truth /= truth.sum()
    errors = np.zeros(2)
    for _ in range(5):
        counts = rng.multinomial(5_000, law @ truth)
        for i, smoothing in enumerate([SMOOTHING, (1.0,)]):
            monkeypatch.setattr(pilot, "SMOOTHING", smoothing)
            found = expectation_maximisation(law, counts)
            errors[i] += np.sum(np.cumsum(found - truth) ** 2)
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize(
    ("law", "counts", "named"),
    [
        ([[0.5, 0.5], [0.4, 0.5]], [1, 1], "transition"),
        ([[1.0, 0.0], [0.0, 1.0]], [1, -1], "counts"),
        ([[1.0, 0.0], [0.0, 1.0]], [0, 0], "counts"),
        ([[1.0, 1.0], [0.0, 0.0]], [1, 1], "counts"),
    ],
)
def test_what_is_no_law_is_refused(law, counts, named):
    with pytest.raises(ParameterError, match=named):
        expectation_maximisation(law, counts)
