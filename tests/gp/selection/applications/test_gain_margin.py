"""Margins of counts against brute force over all small ones."""

from collections.abc import Iterator
from itertools import product
from math import exp

import numpy as np
import pytest

from geoveil.gp.selection.applications.gain import NodeCounts, max_operator
from geoveil.gp.selection.applications.gain_margin import (
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
def test_the_margin_of_votes_is_the_number_of_changes(outcomes: int, most: int) -> None:
    for votes in product(range(most + 1), repeat=outcomes):
        assert count_margin(votes).margin == _distance(votes)


def test_neighbours_have_margins_that_fit_the_stability_mechanism() -> None:
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


def test_neighbouring_tables_have_margins_that_fit_the_stability_mechanism() -> None:
    for records in product(range(3), repeat=8):
        here = count_margin(_max_operators(records))
        for place in range(8):
            more = (*records[:place], records[place] + 1, *records[place + 1 :])
            near = count_margin(_max_operators(more))
            same = near.winner == here.winner
            limit = abs(near.margin - here.margin) if same else max(near.margin, here.margin)
            assert limit <= 1


def test_utilities_by_distance_have_a_sensitivity_of_1() -> None:
    for votes in product(range(4), repeat=3):
        here = distance_utilities(count_margin(votes))
        for near in _neighbours(votes):
            assert np.abs(distance_utilities(count_margin(near)) - here).max() <= 1


@pytest.mark.parametrize("beta", [1e-3, 0.4, 30.0])
def test_the_indicator_comes_with_a_smooth_bound(beta: float) -> None:
    for votes in product(range(6), repeat=2):
        here = indicator_utilities(count_margin(votes), beta)
        near = [indicator_utilities(count_margin(v), beta) for v in _neighbours(votes)]
        felt = max(float(np.abs(n.values - here.values).max()) for n in near)
        assert felt <= here.smooth_sensitivity
        assert all(n.smooth_sensitivity <= exp(beta) * here.smooth_sensitivity for n in near)


def test_one_outcome_has_no_margin() -> None:
    winners, margins = winners_and_margins([[3], [0]])
    assert (winners.tolist(), margins.tolist()) == ([0, 0], [0, 0])
