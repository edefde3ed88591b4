"""The gain of a split: global, local and margin."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import exp
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from geoveil.gp import ParameterError
from geoveil.selection.contrib.criteria import (
    CRITERIA,
    GAIN_STEP,
    MOST_RECORDS,
    Counts,
    NodeCounts,
    entropy_step,
    gain_sensitivities,
    gain_sensitivity,
    gini,
    information_gain,
    max_operator,
)
from geoveil.selection.stability import (
    count_margin,
    distance_utilities,
    indicator_utilities,
    winners_and_margins,
)


def _node(table: Counts, most_records: int = 100) -> NodeCounts:
    return NodeCounts(table=table, starts=np.array([0]), most_records=most_records)


def _small_tables(values: int, classes: int, most: int) -> Iterator[Counts]:
    for cells in product(range(most + 1), repeat=values * classes):
        yield np.array(cells).reshape(values, classes)


def _additions(name: str, table: Counts, most_records: int) -> Iterator[float]:
    """Yield how far a criterion moves with each record that may be added."""
    criterion = CRITERIA[name].values
    before = criterion(_node(table, most_records))[0]
    for cell in range(table.size):
        more = table.copy()
        more.flat[cell] += 1
        yield float(criterion(_node(more, most_records))[0] - before)


def test_information_gain_is_the_conditional_entropy_of_the_records():
    rng = np.random.default_rng(1)
    for _ in range(50):
        table = rng.integers(0, 30, size=(4, 3))
        share = (
            table[table > 0] / np.broadcast_to(table.sum(axis=1)[:, None], table.shape)[table > 0]
        )
        entropy = -(table[table > 0] * np.log2(share)).sum()
        # A count of n is a sum of n steps, each rounded down.
        assert information_gain(_node(table, 1000))[0] == pytest.approx(
            -entropy, abs=2 * table.sum() * GAIN_STEP
        )


def test_gini_is_its_definition_to_a_step_per_value():
    for table in _small_tables(2, 2, 4):
        exact = Fraction(0)
        for row in table.tolist():
            if sum(row):
                exact += Fraction(sum(n * n for n in row), sum(row)) - sum(row)
        assert 0 <= exact - Fraction(float(gini(_node(table))[0])) < 2 * Fraction(1, 1 << 16)


def test_several_attributes_are_as_good_as_each_alone():
    rng = np.random.default_rng(2)
    first, second = rng.integers(0, 9, size=(3, 2)), rng.integers(0, 9, size=(2, 2))
    both = NodeCounts(
        table=np.concatenate([first, second]), starts=np.array([0, 3]), most_records=100
    )
    for criterion in CRITERIA.values():
        alone = [criterion.values(_node(table))[0] for table in (first, second)]
        assert criterion.values(both).tolist() == alone


@pytest.mark.deep(keep=11)
@pytest.mark.parametrize(("values", "classes", "most"), [(1, 2, 12), (2, 2, 4), (1, 3, 6)])
@pytest.mark.parametrize("most_records", [2, 100])
@pytest.mark.parametrize("name", CRITERIA)
def test_an_added_record_moves_a_criterion_one_way_and_within_its_sensitivity(
    name, values, classes, most, most_records
):
    sensitivity = CRITERIA[name].sensitivity(most_records)
    sign = 1 if name == "max_operator" else -1
    for table in _small_tables(values, classes, most):
        for change in _additions(name, table, most_records):
            # Without tolerance: the criteria are exact.
            assert 0 <= sign * change <= sensitivity


@pytest.mark.parametrize(
    ("name", "share"), [("information_gain", 1.0), ("gini", 0.99), ("max_operator", 1.0)]
)
def test_the_sensitivity_is_needed(name, share):
    table = np.array([[1000, 0]])
    needed = max(abs(change) for change in _additions(name, table, 1000))
    assert needed >= share * CRITERIA[name].sensitivity(1000)


@pytest.mark.deep
def test_the_sensitivity_of_information_gain_is_below_the_published_one():
    for records in (1, 45_222, MOST_RECORDS):
        published = np.log2(records + 1) + 1 / np.log(2)
        assert published - 2 / records < gain_sensitivity(records) <= published


@pytest.mark.parametrize("records", [0, 1.5, MOST_RECORDS + 1])
def test_a_bound_on_records_is_checked(records):
    for criterion in CRITERIA.values():
        with pytest.raises(ParameterError, match="most_records"):
            criterion.sensitivity(records)


def test_counts_are_not_shown():
    assert "37" not in repr(_node(np.array([[37, 37]])))


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


def entropy_change(total: Any, count: Any) -> NDArray[np.float64]:
    """Return h(a, b) in bits: how far one record of a class with b of a can move the cell."""
    removed = (np.asarray(count) > 0).astype(np.int64)
    return np.asarray(entropy_step(total - removed) - entropy_step(count - removed))


def entropy_change_at(total: Any, count: Any, changes: int) -> NDArray[np.float64]:
    """Return the largest h(a', b') within some changes of (a, b) [LD Lemma 5.6]."""
    gone = np.minimum(np.maximum(count - 1, 0), changes)
    fewer = entropy_change(total + changes - 2 * gone, count - gone)
    return np.maximum(entropy_change(total + changes, count), fewer)


def candidates(total: int, count: int, size: float, changes: int) -> set[tuple[int, int]]:
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
        pairs = {p for t in range(changes + 1) for p in candidates(total, count, 10**6, t)}
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


Votes = tuple[int, ...]


def _margin_neighbours(votes: Votes) -> Iterator[Votes]:
    for place in range(len(votes)):
        for change in (1, -1):
            if votes[place] + change >= 0:
                yield (*votes[:place], votes[place] + change, *votes[place + 1 :])


def _distance(votes: Votes) -> int:
    """Return how many votes have to change until another one wins."""
    winner, reached, changes = int(np.argmax(votes)), {votes}, 0
    while all(int(np.argmax(each)) == winner for each in reached):
        reached |= {near for each in reached for near in _margin_neighbours(each)}
        changes += 1
    return changes


@pytest.mark.parametrize(("outcomes", "most"), [(2, 6), (3, 3)])
def test_the_margin_of_votes_is_the_number_of_changes(outcomes, most):
    for votes in product(range(most + 1), repeat=outcomes):
        assert count_margin(votes).margin == _distance(votes)


def test_neighbours_have_margins_that_fit_the_stability_mechanism():
    for votes in product(range(5), repeat=3):
        here = count_margin(votes)
        for near in map(count_margin, _margin_neighbours(votes)):
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
        for near in _margin_neighbours(votes):
            assert np.abs(distance_utilities(count_margin(near)) - here).max() <= 1


@pytest.mark.parametrize("beta", [1e-3, 0.4, 30.0])
def test_the_indicator_comes_with_a_smooth_bound(beta):
    for votes in product(range(6), repeat=2):
        here = indicator_utilities(count_margin(votes), beta)
        near = [indicator_utilities(count_margin(v), beta) for v in _margin_neighbours(votes)]
        felt = max(float(np.abs(n.values - here.values).max()) for n in near)
        assert felt <= here.smooth_sensitivity
        assert all(n.smooth_sensitivity <= exp(beta) * here.smooth_sensitivity for n in near)


def _felt(votes: Votes) -> bool:
    """Return whether one vote can make another one win."""
    return any(np.argmax(near) != np.argmax(votes) for near in _margin_neighbours(votes))


@pytest.mark.parametrize(("outcomes", "most"), [(2, 6), (3, 3)])
def test_the_smooth_sensitivity_of_votes_is_that_of_a_search(outcomes, most):
    for votes in product(range(most + 1), repeat=outcomes):
        reached, changes = {votes}, 0
        while not any(map(_felt, reached)):
            reached |= {near for each in reached for near in _margin_neighbours(each)}
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
