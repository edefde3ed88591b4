"""Test margins of counts against brute force over all small counts."""

from collections.abc import Iterator
from itertools import product
from math import exp
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from geoveil.selection.contrib.criteria import NodeCounts, max_operator
from geoveil.selection.stability import (
    count_margin,
    distance_utilities,
    indicator_utilities,
    winners_and_margins,
)

Votes = tuple[int, ...]


def _neighbours(votes: Votes) -> Iterator[Votes]:
    for place in range(len(votes)):
        for change in (1, -1):
            if votes[place] + change >= 0:
                yield (*votes[:place], votes[place] + change, *votes[place + 1 :])


def _distance(votes: Votes) -> int:
    """Return how many votes have to change until another one wins."""
    winner, reached, changes = int(np.argmax(votes)), {votes}, 0
    while all(int(np.argmax(each)) == winner for each in reached):
        reached |= {near for each in reached for near in _neighbours(each)}
        changes += 1
    return changes


@pytest.mark.parametrize(("outcomes", "most"), [(2, 6), (3, 3)])
def test_the_margin_of_votes_is_the_number_of_changes(outcomes, most):
    for votes in product(range(most + 1), repeat=outcomes):
        assert count_margin(votes).margin == _distance(votes)


def test_neighbours_have_margins_that_fit_the_stability_mechanism():
    for votes in product(range(5), repeat=3):
        here = count_margin(votes)
        for near in map(count_margin, _neighbours(votes)):
            same = near.winner == here.winner
            limit = abs(near.margin - here.margin) if same else max(near.margin, here.margin)
            assert limit <= 1


def _max_operators(records: tuple[int, ...]) -> Votes:
    """Return both attributes' maximum operators; records are counts by (A, B, class)."""
    cube = np.array(records).reshape(2, 2, 2)
    table = np.concatenate([cube.sum(axis=1), cube.sum(axis=0)])
    counts = NodeCounts(table=table, starts=np.array([0, 2]), most_records=100)
    return tuple(int(v) for v in max_operator(counts))


@pytest.mark.deep
def test_neighbouring_tables_have_margins_that_fit_the_stability_mechanism():
    for records in product(range(3), repeat=8):
        here = count_margin(_max_operators(records))
        for place in range(8):
            more = (*records[:place], records[place] + 1, *records[place + 1 :])
            near = count_margin(_max_operators(more))
            same = near.winner == here.winner
            limit = abs(near.margin - here.margin) if same else max(near.margin, here.margin)
            assert limit <= 1


def test_utilities_by_distance_have_a_sensitivity_of_1():
    for votes in product(range(4), repeat=3):
        here = distance_utilities(count_margin(votes))
        for near in _neighbours(votes):
            assert np.abs(distance_utilities(count_margin(near)) - here).max() <= 1


@pytest.mark.parametrize("beta", [1e-3, 0.4, 30.0])
def test_the_indicator_comes_with_a_smooth_bound(beta):
    for votes in product(range(6), repeat=2):
        here = indicator_utilities(count_margin(votes), beta)
        near = [indicator_utilities(count_margin(v), beta) for v in _neighbours(votes)]
        felt = max(float(np.abs(n.values - here.values).max()) for n in near)
        assert felt <= here.smooth_sensitivity
        assert all(n.smooth_sensitivity <= exp(beta) * here.smooth_sensitivity for n in near)


def _felt(votes: Votes) -> bool:
    """Return whether one vote can make another one win."""
    return any(np.argmax(near) != np.argmax(votes) for near in _neighbours(votes))


@pytest.mark.parametrize(("outcomes", "most"), [(2, 6), (3, 3)])
def test_the_smooth_sensitivity_of_votes_is_that_of_a_search(outcomes, most):
    for votes in product(range(most + 1), repeat=outcomes):
        reached, changes = {votes}, 0
        while not any(map(_felt, reached)):
            reached |= {near for each in reached for near in _neighbours(each)}
            changes += 1
        smooth = indicator_utilities(count_margin(votes), 0.4).smooth_sensitivity
        assert smooth == pytest.approx(exp(-0.4 * changes), rel=1e-5)


def _shifts(grid: NDArray[Any]) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield views of a grid of databases that are a record apart."""
    for axis in range(grid.ndim):
        moved = np.moveaxis(grid, axis, 0)
        yield moved[1:], moved[:-1]


def _changes_until_felt(winners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how far each database is from one with a neighbour that has another winner."""
    distance = np.full(winners.shape, 99)
    for (here, there), (d_here, d_there) in zip(_shifts(winners), _shifts(distance), strict=True):
        d_here[here != there] = d_there[here != there] = 0
    for _ in range(6):
        last = distance.copy()
        for (here, there), (l_here, l_there) in zip(_shifts(distance), _shifts(last), strict=True):
            np.minimum(here, l_there + 1, out=here)
            np.minimum(there, l_here + 1, out=there)
    return distance


@pytest.mark.deep
def test_the_smooth_sensitivity_of_maximum_operators_is_the_largest_of_their_databases():
    # All databases of up to 5 records each of two attributes' and the class's values; those of up
    # to 2 are looked at, so that what is beyond the edge does not matter.
    cube = np.indices((6,) * 8).reshape(2, 2, 2, -1)
    first = cube.sum(axis=1).max(axis=1).sum(axis=0)
    second = cube.sum(axis=0).max(axis=1).sum(axis=0)
    small = (slice(0, 3),) * 8
    changes = _changes_until_felt((second > first).astype(np.int64).reshape((6,) * 8))[small]
    least: dict[Votes, int] = {}
    for pair, felt in zip(
        zip(first.reshape((6,) * 8)[small].flat, second.reshape((6,) * 8)[small].flat, strict=True),
        changes.flat,
        strict=True,
    ):
        counts = int(pair[0]), int(pair[1])
        least[counts] = min(least.get(counts, 99), int(felt))
    assert len(least) == 41
    for counts, felt in least.items():
        smooth = indicator_utilities(count_margin(counts), 0.4).smooth_sensitivity
        # A first record raises both maxima: the empty database is safe for one change more.
        assert smooth == pytest.approx(exp(-0.4 * (felt - (counts == (0, 0)))), rel=1e-5)


def test_one_outcome_has_no_margin():
    winners, margins = winners_and_margins([[3], [0]])
    assert (winners.tolist(), margins.tolist()) == ([0, 0], [0, 0])
