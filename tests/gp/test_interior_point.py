"""The interior-point method against a solver that knows nothing of the programme's shape."""

import numpy as np
import pytest
from scipy import optimize

from geoveil.gp.mechanisms.interior_point import least_cost

ENOUGH = 2e-6
"""Relative; the method ends nearly always at 1e-9, and takes 1e-4 where rounding leaves no more."""
ROUNDING = 1e-16
"""Error of a probability; what a device draws from is checked in integers."""


def by_simplex(costs, ratios, places, means):
    """The same programme in dense matrices."""
    n, m = costs.shape
    rows = np.zeros((2 * (m - 1) * n, n * m))
    conditions = np.zeros((2 * m, n * m))
    for y in range(n):
        for j in range(m):
            conditions[j, y * m + j], conditions[m + j, y * m + j] = 1.0, places[y]
        for j, r in enumerate(ratios):
            at = 2 * (y * (m - 1) + j)
            rows[at, y * m + j], rows[at, y * m + j + 1] = 1.0, -r
            rows[at + 1, y * m + j], rows[at + 1, y * m + j + 1] = -r, 1.0
    solved = optimize.linprog(
        costs.ravel(), rows, np.zeros(len(rows)), conditions,
        np.concatenate([np.ones(m), means]), method="highs-ds",
    )  # fmt: skip
    return solved.fun


@pytest.mark.parametrize("rate", [2.0, 0.3, 0.02])
@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_that_of_the_simplex_method(rate, seed):
    """Neighbours far apart, and so near that all rows are nearly the same; rows without weight."""
    rng = np.random.default_rng(seed)
    m, n = 9, 15
    ratios = np.exp(rate * rng.uniform(0.2, 1.0, m - 1))
    means = 0.2 * np.tanh(np.linspace(-2.0, 2.0, m)) * min(rate, 1.0)
    means[: seed + 1] = means[0]
    weights = rng.dirichlet(np.ones(m)) * (rng.random(m) > 0.2)
    places = np.sort(rng.uniform(-1, 1, n))
    places[[0, -1]] = -1.0, 1.0
    costs = weights * (places[:, None] - means) ** 2
    found = least_cost(costs, ratios, places, means)
    assert found is not None
    assert found.cost == pytest.approx(by_simplex(costs, ratios, places, means), rel=ENOUGH)
    # What it returns is a channel, and its dual proves the cost.
    assert np.abs(found.table.sum(axis=0) - 1).max() < 1e-9
    assert np.abs(places @ found.table - means).max() < 1e-9
    low, high = found.table[:, :-1], found.table[:, 1:]
    assert (high <= ratios * low).all()
    assert (low <= ratios * high).all()
    assert found.alpha.sum() + found.beta @ means == pytest.approx(found.cost, rel=ENOUGH)


@pytest.mark.parametrize("less", [1e-6, 4e-11, 1e-12])
def test_two_rows_may_be_all_but_one(less):
    """They differ by about the rounding of either; the optimum is that of the rows as one."""
    places, means = np.linspace(-1, 1, 15), np.array([-0.2, -0.1, 0.0, 0.15, 0.15])
    ratios, weights = np.array([1.6, 1.4, 1.9, 1 + less]), np.array([0.3, 0.2, 0.2, 0.2, 0.1])
    costs = weights * (places[:, None] - means) ** 2
    found = least_cost(costs, ratios, places, means)
    assert found is not None
    as_one = np.column_stack([costs[:, :3], costs[:, 3:].sum(axis=1)])
    best = by_simplex(as_one, ratios[:3], places, means[:4])
    assert found.cost == pytest.approx(best, rel=ENOUGH)
    assert found.alpha.sum() + found.beta @ means == pytest.approx(best, rel=ENOUGH)
    assert np.abs(found.table.sum(axis=0) - 1).max() < 1e-9
    assert np.abs(places @ found.table - means).max() < 1e-9
    low, high = found.table[:, :-1], found.table[:, 1:]
    assert (high <= ratios * low + ROUNDING).all()
    assert (low <= ratios * high + ROUNDING).all()


def test_a_cost_changed_by_more_than_that_is_noticed():
    """Control."""
    places, means, ratios = np.linspace(-1, 1, 7), np.array([-0.1, 0.1]), np.array([1.5])
    costs = 0.5 * (places[:, None] - means) ** 2
    dearer = by_simplex(costs * (1 + 1e-5), ratios, places, means)
    found = least_cost(costs, ratios, places, means)
    assert found is not None
    assert found.cost != pytest.approx(dearer, rel=ENOUGH)


def test_without_a_channel_there_is_none():
    places = np.linspace(-1, 1, 7)
    assert least_cost(np.ones((7, 2)), np.array([1.01]), places, np.array([-0.9, 0.9])) is None
