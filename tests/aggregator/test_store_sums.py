"""Exact sums, by NumPy and without, against Python's own integers."""

from random import Random

import pytest

from geoveil.aggregator.domain import reports
from geoveil.aggregator.domain.reports import pack, tally
from geoveil.gp.estimation import Accumulator

LOW, HIGH = -(2**63), 2**63 - 1
# Around each limb, where a wrong mask or sign would show.
EDGES = [s * 2**k + d for k in (0, 21, 22, 43, 44, 62) for s in (1, -1) for d in (-1, 0, 1)]


def expected(answers: list[tuple[int, int]]) -> dict[int, Accumulator]:
    values: dict[int, list[int]] = {}
    for query, value in answers:
        values.setdefault(query, []).append(value)
    return {query: Accumulator.of(of_query) for query, of_query in values.items()}


@pytest.mark.parametrize("count", [1, reports._FEW, reports._FEW + 1])  # NumPy adds the last
def test_answers_alike(count):
    for value in (LOW, HIGH, *EDGES):
        answers = pack([(2**32 - 1, value)]) * count
        expected = Accumulator(count, count * value, count * value * value)
        assert tally(answers) == {2**32 - 1: expected}


@pytest.mark.parametrize("count", range(1, 2 * reports._FEW, 7))
def test_a_few_answers(count):
    rng = Random(count)
    answers = [(rng.randrange(5), rng.randrange(LOW, HIGH + 1)) for _ in range(count)]
    assert tally(pack(answers)) == expected(answers)


@pytest.mark.parametrize("queries", [1, 7, 5000])
def test_many_answers(queries):
    rng = Random(queries)
    kinds = [lambda: rng.choice([LOW, HIGH, *EDGES]), lambda: rng.randrange(LOW, HIGH + 1)]
    answers = [(rng.randrange(queries), rng.choice(kinds)()) for _ in range(20_000)]
    assert tally(pack(answers)) == expected(answers)


@pytest.mark.parametrize("value", [LOW, HIGH, -1])
def test_more_answers_than_64_bits_can_add(value):
    count = 600_000
    found = tally(pack([(3, value)]) * count)
    assert found == {3: Accumulator(count, count * value, count * value * value)}


def test_nothing_has_no_sums():
    assert tally(b"") == {}
