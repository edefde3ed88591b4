"""Test element local sensitivity of information gain against brute force over small tables."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from geoveil.selection.contrib.criteria import (
    GAIN_STEP,
    Counts,
    NodeCounts,
    entropy_change,
    entropy_change_at,
    gain_sensitivities,
    information_gain,
)

Cell = tuple[int, ...]
FARTHEST = 4


def _neighbours(cell: Cell) -> Iterator[Cell]:
    for place in range(len(cell)):
        for change in (1, -1):
            if cell[place] + change >= 0:
                yield (*cell[:place], cell[place] + change, *cell[place + 1 :])


def _within(cell: Cell, changes: int) -> set[Cell]:
    reached = {cell}
    for _ in range(changes):
        reached |= {near for each in reached for near in _neighbours(each)}
    return reached


def _value(cell: Cell, classes: int) -> float:
    table = np.array(cell).reshape(-1, classes)
    counts = NodeCounts(table=table, starts=np.array([0]), most_records=1000)
    return float(information_gain(counts)[0])


def _local_sensitivity(cell: Cell, classes: int) -> float:
    here = _value(cell, classes)
    return max(abs(_value(near, classes) - here) for near in _neighbours(cell))


def _delta(cell: Cell, classes: int, most: int = FARTHEST) -> list[float]:
    table = np.array(cell).reshape(-1, classes)
    counts = NodeCounts(table=table, starts=np.array([0]), most_records=1000)
    row = gain_sensitivities(counts)
    return [float(row(changes)[0]) for changes in range(most + 1)]


def _candidates(total: int, count: int, size: int, changes: int) -> set[tuple[int, int]]:
    """Return [LD Algorithm 3] as printed; `size` is τ."""
    pairs = {(total, count)}
    for _ in range(changes):
        less = {(a - 1, b - 1) for a, b in pairs if a > 0 and b > 0}
        pairs = less | {(a + 1, b) for a, b in pairs if a < size}
    return pairs


@pytest.mark.deep
@pytest.mark.parametrize(("shape", "most"), [((1, 2), 7), ((1, 3), 3), ((2, 2), 2)])
def test_the_sensitivity_at_a_distance_is_the_largest_that_is_near(shape, most):
    values, classes = shape
    for cell in product(range(most + 1), repeat=values * classes):
        delta = _delta(cell, classes, 2 if values > 1 else FARTHEST)
        for changes, bound in enumerate(delta):
            brute = max(_local_sensitivity(near, classes) for near in _within(cell, changes))
            # Above by the slack alone, which is 2 steps for each change.
            assert brute <= bound <= brute + (2 * changes + 4) * GAIN_STEP


def test_the_sensitivities_are_admissible():
    for cell in product(range(4), repeat=4):
        own = _delta(cell, 2)
        for near in _neighbours(cell):
            # Without tolerance: the slack pays for rounding.
            assert all(
                after >= before for after, before in zip(own[1:], _delta(near, 2), strict=False)
            )


@pytest.mark.deep
def test_large_counts_keep_the_sensitivities_admissible():
    rng = np.random.default_rng(3)
    for cell in rng.integers(0, 2000, size=(40, 4)).tolist():
        own = _delta(tuple(cell), 2, 1500)
        for near in _neighbours(tuple(cell)):
            assert np.all(np.array(own[1:]) >= _delta(near, 2, 1500)[:-1])


def test_two_candidates_are_as_good_as_all():
    rng = np.random.default_rng(4)
    for _ in range(100):
        total = int(rng.integers(0, 30))
        count = int(rng.integers(0, total + 1))
        changes = int(rng.integers(0, 30))
        pairs = {p for t in range(changes + 1) for p in _candidates(total, count, 10**6, t)}
        every = max(float(entropy_change(a, b)) for a, b in pairs)
        assert float(entropy_change_at(total, count, changes)) == pytest.approx(every, abs=1e-12)


def test_rows_agree_with_the_formula_for_many_values_and_changes():
    rng = np.random.default_rng(5)
    for _ in range(40):
        classes = int(rng.integers(2, 4))
        sizes = rng.integers(1, 5, size=3)
        table: Counts = rng.integers(0, rng.choice([3, 30, 200]), size=(int(sizes.sum()), classes))
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        row = gain_sensitivities(NodeCounts(table=table, starts=starts, most_records=1000))
        for changes in (0, 1, 17, 511, 512, 700):
            each = entropy_change_at(table.sum(axis=1)[:, None], table, changes).max(axis=1)
            expected = np.maximum.reduceat(each, starts) + 2 * GAIN_STEP * (changes + 1)
            assert row(changes) == pytest.approx(expected, abs=1e-9)
