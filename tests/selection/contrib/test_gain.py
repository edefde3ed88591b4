"""Test criteria of splits: values, and sensitivities over all small tables."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from geoveil.gp import ParameterError
from geoveil.selection.contrib.criteria import (
    CRITERIA,
    GAIN_STEP,
    MOST_RECORDS,
    Counts,
    NodeCounts,
    gain_sensitivity,
    gini,
    information_gain,
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
