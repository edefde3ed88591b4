"""The shipped populations are the published ones."""

import numpy as np
import pytest

from geoveil.gp import ParameterError
from geoveil.simulation import Population, collisions, household_incomes


def test_household_incomes_have_their_published_quantiles():
    """Figures published with the data: 13,797,644 households, weighted shares above thresholds."""
    households = household_incomes()
    assert len(households.values) == 141_199
    assert households.size == 13_797_644
    shares = {10_000: 0.9519, 50_000: 0.7365, 100_000: 0.4868, 500_000: 0.0291, 1_000_000: 0.0030}
    for threshold, share in shares.items():
        assert households.mean(lambda x, t=threshold: x > t) == pytest.approx(share, abs=5e-5)
    assert households.mean(lambda x: x) == pytest.approx(138_542, abs=1)


def test_collisions_lie_in_new_york():
    places = collisions().values
    assert places.shape == (200_000, 2)
    assert places.min(axis=0).tolist() == pytest.approx([-74.255, 40.500], abs=1e-3)
    assert places.max(axis=0).tolist() == pytest.approx([-73.701, 40.913], abs=1e-3)


def test_sampling_follows_the_weights():
    """n = 200,000 draws of three values; chi-square at alpha = 1e-6 is 27.63 for 2 degrees."""
    population = Population(
        "things", "unit", np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 5.0]), ""
    )
    drawn = population.sample(200_000, np.random.default_rng(2))
    counts = np.array([(drawn == v).sum() for v in (1, 2, 3)])
    expected = 200_000 * np.array([1, 2, 5]) / 8
    assert ((counts - expected) ** 2 / expected).sum() < 27.63
    uniform = np.full(3, 200_000 / 3)
    assert ((counts - uniform) ** 2 / uniform).sum() > 27.63


@pytest.mark.parametrize(
    ("values", "weights"),
    [([], []), ([1.0], [1.0, 2.0]), ([1.0], [0.0]), ([np.nan], [1.0]), ([1.0], [-1.0])],
)
def test_unsound_populations_are_refused(values, weights):
    with pytest.raises(ParameterError):
        Population("p", "u", np.array(values), np.array(weights), "")
