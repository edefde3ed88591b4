"""Test the bell's bound at reach ∞, from cells in the source, against brute force."""

import math

import numpy as np
import pytest

from geoveil.gp.exact import BALL, settled_down, settled_up, working_precision
from geoveil.gp.queries.profiles.bell_chords import bell_cells
from geoveil.gp.queries.profiles.gaussian import Gaussian
from geoveil.gp.smooth.growth import DECAYS, Smoothness


def steepest(z: np.ndarray) -> np.ndarray:
    """The steepest chord of the bell from each z, over a grid of other ends."""
    w = np.linspace(-8, 8, 4_001)
    gap = np.abs(z[:, None] - w)
    rise = np.abs(np.exp(-(z[:, None] ** 2) / 2) - np.exp(-(w**2) / 2))
    chord = np.divide(rise, gap, out=np.zeros_like(rise), where=gap > 1e-9)
    return np.maximum(chord.max(axis=1), np.abs(z) * np.exp(-z * z / 2))


def test_cells_bound_every_chord_and_hardly_more():
    edges, most = bell_cells()
    inside = edges[:-1] < 1_000
    low, high = edges[:-1][inside], edges[1:][inside]
    low, high, most = low[::5], high[::5], most[inside][::5]
    z = np.concatenate([low, (low + high) / 2])
    above = np.tile(most, 2) / steepest(z)
    assert above.min() >= 1
    assert above.max() <= 1.011
    assert (above / 1.002).min() < 1  # the control: cells a little lower are no bound


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("growth", DECAYS)
@pytest.mark.parametrize("beta", [0.03, 0.3, 3.0])
def test_the_bound_is_the_least_smooth_function_above_chords(growth, beta):
    h = 1.7
    y = np.linspace(-40, 40, 1_601)
    x = np.linspace(0, 30, 61)
    decay = {
        "exponential": lambda t: np.exp(-t),
        "linear": lambda t: 1 / (1 + t),
    }[growth]
    least = (steepest(y / h) / h * decay(beta * np.abs(x[:, None] - y))).max(axis=1)
    with working_precision(200):
        found = [
            float(
                Gaussian(h).noise_bound(
                    BALL.constant(float(s)), Smoothness(beta, growth, math.inf), BALL
                )
            )
            for s in x
        ]
    ratio = np.array(found) / least
    assert ratio.min() >= 1 - 2e-5  # of the grid of brute force
    assert ratio.max() <= 1.012


def test_settled_numbers_are_the_same_at_every_precision():
    for number in (2.0, 1 / 3, 0.3):
        for settled, neighbour in ((settled_down, 0.0), (settled_up, math.inf)):
            found = set()
            for bits in (120, 160, 300):
                with working_precision(bits):
                    thin = BALL.sqrt(BALL.constant(number) * BALL.constant(number))
                    found.add(settled(thin))
            assert found == {math.nextafter(number, neighbour)}
