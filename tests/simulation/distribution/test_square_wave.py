"""Test the square wave: its optimal width, its densities, and its transition matrix."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from geoveil.gp import LocalPrivacy
from geoveil.simulation.distribution.cells import Cells
from geoveil.simulation.distribution.local import SquareWave

N = 200_000
Z = 4.9
"""α = 10⁻⁶ for each comparison."""
EPSILONS = (0.05, 0.5, 1.0, 3.0, 5.0)


def information(b, epsilon):
    """The bound that [LWLSS20] maximises: entropies of reports, uniform less given v."""
    p = math.exp(epsilon) / (2 * b * math.exp(epsilon) + 1)
    q = p / math.exp(epsilon)
    return math.log(2 * b + 1) + 2 * b * p * math.log(p) + q * math.log(q)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_width_maximises_the_information(epsilon):
    found = minimize_scalar(
        lambda b: -information(b, epsilon), bounds=(1e-6, 2), options={"xatol": 1e-10}
    )
    assert SquareWave.of(LocalPrivacy(epsilon)).reach == pytest.approx(found.x, rel=1e-4)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-5, 0.99e-4, 1.01e-4, 50.0, 1e4])
def test_extreme_epsilon_keeps_its_densities(epsilon):
    wave = SquareWave.of(LocalPrivacy(epsilon))
    assert 0 < wave.reach <= 0.5
    assert 2 * wave.reach * wave.near + wave.far == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("v", [0.0, 0.3, 1.0])
def test_reports_follow_their_density(epsilon, v):
    """Shares of eight parts, and the variance by quadrature; a wave of 1.1 ε is refused."""
    wave = SquareWave.of(LocalPrivacy(epsilon))
    b = wave.reach
    reports = wave.simulate(np.full(N, v), np.random.default_rng(3))
    assert np.all((reports >= -b) & (reports <= 1 + b))

    def moment(power, of=wave):
        parts = [(-b, v - b, of.far), (v - b, v + b, of.near), (v + b, 1 + b, of.far)]
        return sum(h * quad(lambda y: y**power, low, high)[0] for low, high, h in parts)

    variance = moment(2) - moment(1) ** 2
    assert abs(reports.mean() - moment(1)) < Z * math.sqrt(variance / N)
    squares = (reports - moment(1)) ** 2
    assert abs(squares.mean() - variance) < Z * squares.std() / math.sqrt(N)
    inside = (np.abs(reports - v) < b).mean()
    error = Z * math.sqrt(2 * b * wave.near * (1 - 2 * b * wave.near) / N)
    assert abs(inside - 2 * b * wave.near) < error
    wrong = math.exp(1.1 * epsilon)
    assert abs(inside - 2 * b * wrong / (2 * b * wrong + 1)) > error


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 12.0])
def test_transition_is_the_chance_from_cell_to_cell(epsilon):
    """By averaging over 4,000 points of a cell how much of the wave each outcome holds."""
    wave, cells = SquareWave.of(LocalPrivacy(epsilon)), 16
    b, found = wave.reach, wave.transition(cells)
    assert found.sum(axis=0) == pytest.approx(np.ones(cells), abs=1e-12)
    edges = Cells(-b, 1 + b, cells).edges
    for k in (0, 7, 15):
        v = (k + (np.arange(4_000) + 0.5) / 4_000) / cells
        low, high = edges[:-1, None], edges[1:, None]
        near = np.clip(np.minimum(high, v + b) - np.maximum(low, v - b), 0, None).mean(axis=1)
        expected = wave.far * (high - low)[:, 0] + (wave.near - wave.far) * near
        assert found[:, k] == pytest.approx(expected, abs=2e-5 * wave.near * b + 1e-6)


def test_distribution_of_many_reports_is_near_the_truth():
    """Half a million triangular numbers at ε = 2: within 0.01; the reports themselves are not."""
    rng = np.random.default_rng(8)
    values = rng.triangular(0.0, 0.3, 1.0, 500_000)
    wave = SquareWave.of(LocalPrivacy(2.0))
    reports = wave.simulate(values, rng)
    edges = Cells(0.0, 1.0, 64).edges
    truth = np.searchsorted(np.sort(values), edges) / len(values)
    found = np.append(0.0, np.cumsum(wave.distribution(reports, 64)))
    raw = np.searchsorted(np.sort(reports), edges) / len(reports)
    assert np.abs(found - truth).max() < 0.01 < np.abs(raw - truth).max()
