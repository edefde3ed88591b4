"""Test percentiles: distances, margins and smooth sensitivities against exhaustive search."""

import math
from collections import deque
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from geoveil.audit import worst_pair
from geoveil.gp import ParameterError, PrivateValueError, SeededSource
from geoveil.selection.contrib import PERCENTILE_RECIPES, Percentile, percentile
from geoveil.selection.contrib.percentile import PERCENTILE_RECIPES as METHODS

CANDIDATES = 3
RECORDS, FARTHEST = 5, 11
"""Databases that are checked, and how large those are that the search passes through."""
REPEATED = [(a, b, c) for a in range(4) for b in range(2, 33) for c in range(4)]
"""Databases with many repeats of one value."""
PERCENTS = (1, 10, 33.3, 50, 75, 90, 99)


def _percentile_of(counts: tuple[int, ...], p: Fraction) -> int:
    """Return the candidate by the definition; the first for an empty database."""
    ordered = [value for value, count in enumerate(counts) for _ in range(count)]
    return ordered[math.floor(p * len(ordered) / 100)] if ordered else 0


def _neighbours(counts, most=FARTHEST):
    for place in range(CANDIDATES):
        for change in (-1, 1):
            other = (*counts[:place], counts[place] + change, *counts[place + 1 :])
            if min(other) >= 0 and sum(other) <= most:
                yield other


def _databases(most: int):
    return [c for c in product(range(most + 1), repeat=CANDIDATES) if sum(c) <= most]


def _searched(p: Fraction, targets) -> dict[tuple[int, ...], int]:
    """Return the number of changes to the nearest of the targets, by breadth-first search."""
    distance = dict.fromkeys(targets, 0)
    queue = deque(distance)
    while queue:
        counts = queue.popleft()
        for other in _neighbours(counts):
            if other not in distance:
                distance[other] = distance[counts] + 1
                queue.append(other)
    return distance


def _known(counts, p) -> Percentile:
    records = np.repeat(np.arange(CANDIDATES, dtype=float), counts)
    return Percentile(records, p, range(CANDIDATES))


@pytest.mark.parametrize("p", PERCENTS)
def test_distances_are_those_of_a_search_over_all_databases(p):
    exact = Fraction(str(p))
    winners = {c: _percentile_of(c, exact) for c in _databases(FARTHEST)}
    searched = [
        _searched(exact, [c for c, w in winners.items() if w == r]) for r in range(CANDIDATES)
    ]
    for counts in _databases(RECORDS):
        known = _known(counts, p)
        assert known.distances.tolist() == [distance[counts] for distance in searched]
        assert known.winner == winners[counts]
        away = [d[counts] for r, d in enumerate(searched) if r != winners[counts]]
        assert known.margin == min(away)


@pytest.mark.parametrize("p", [50, 90])
def test_smooth_sensitivity_is_that_of_a_search_over_all_databases(p):
    beta, exact = 0.3, Fraction(p)
    winners = {c: _percentile_of(c, exact) for c in _databases(FARTHEST)}
    sensitive = [
        c for c in winners if any(winners[other] != winners[c] for other in _neighbours(c))
    ]
    distance = _searched(exact, sensitive)
    for counts in _databases(RECORDS):
        smooth = _known(counts, p).as_smooth(beta).smooth_sensitivity
        assert smooth == pytest.approx(math.exp(-beta * distance[counts]), rel=1e-12)


def _repeats(counts, p) -> int:
    """Return the j of [SNM Proposition 5.3]."""
    total, winner = sum(counts), _percentile_of(counts, Fraction(p))
    at = math.floor(p * total / 100)
    below = sum(counts[:winner])
    return min(at - below, below + counts[winner] - 1 - at)


def test_the_papers_margin_is_right_or_one_short_for_the_median_and_too_long_elsewhere():
    lead = {p: {_known(c, p).margin - (2 * _repeats(c, p) + 1) for c in REPEATED} for p in (50, 90)}
    assert lead[50] == {0, 1}
    assert min(lead[90]) < 0


def test_the_papers_bound_is_not_smooth_but_e_to_beta_of_it_is_for_twice_beta():
    beta, databases = 0.3, REPEATED
    for p in (50, 90):
        bound = {c: math.exp(-(2 * _repeats(c, p) + 1) * beta) for c in databases}
        steps = [
            abs(math.log(bound[c] / bound[o]))
            for c in databases
            for o in _neighbours(c, most=99)
            if o in bound
        ]
        assert beta * 1.01 < max(steps) <= 2 * beta * (1 + 1e-12)
        for counts in databases:
            if _known(counts, p).margin <= 1:  # where the local sensitivity is 1
                assert bound[counts] * math.exp(beta) >= 1 - 1e-12
                assert bound[counts] < 1


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", PERCENTILE_RECIPES)
def test_no_mechanism_exceeds_its_epsilon_between_neighbouring_databases(name):
    recipe = PERCENTILE_RECIPES[name]
    mechanism = recipe.build(1.0, CANDIDATES)
    databases = [c for c in _databases(6) if sum(c) > 0]
    scores = {c: recipe.score(_known(c, 90), mechanism) for c in databases}
    pairs = [(scores[c], scores[o]) for c in databases for o in _neighbours(c) if o in scores]
    found = worst_pair(mechanism, pairs).epsilon
    assert found <= mechanism.guarantee.epsilon * (1 + 1e-9)
    assert mechanism.guarantee.epsilon <= 1.0
    assert found > 0.01  # the auditor sees something


def test_too_large_a_margin_is_found_out():
    """The control: the margin of the paper, for p = 90, breaks the stability mechanism."""
    from geoveil.selection import Margin, StabilityMechanism

    scores = {
        c: Margin(_percentile_of(c, Fraction(90)), 2 * _repeats(c, 90) + 1, CANDIDATES)
        for c in REPEATED
    }
    pairs = [(scores[c], scores[o]) for c in REPEATED for o in _neighbours(c, 99) if o in scores]
    assert worst_pair(StabilityMechanism(1.0), pairs).epsilon > 1.05


@pytest.mark.parametrize("name", METHODS)
def test_a_clear_percentile_is_found_by_every_mechanism(name):
    records = [3.2] * 400
    found = percentile(records, 50, range(5), epsilon=40.0, mechanism=name, source=SeededSource(1))
    assert found.value == 3.0
    assert found.guarantee.epsilon <= 40.0


def test_records_count_as_the_nearest_candidate_the_lower_of_two():
    assert Percentile([0.5, 0.5, 0.6], 10, [0, 1, 2]).winner == 0
    assert Percentile([0.6], 10, [0, 1, 2]).winner == 1
    assert Percentile([-99.0, 99.0], 50, [0, 1, 2]).winner == 2


def test_an_empty_database_has_the_first_candidate():
    known = Percentile([], 50, [7, 8])
    assert (known.winner, known.margin, known.distances.tolist()) == (0, 1, [0, 1])


@pytest.mark.parametrize("p", [0, 100, -1, math.nan, 1e-9, "50"])
def test_percentages_out_of_range_are_refused(p):
    with pytest.raises(ParameterError, match="p must be"):
        Percentile([1.0], p, [0, 1])


@pytest.mark.parametrize("candidates", [[], [1, 1], [2, 1], [0, math.inf], [[0, 1]]])
def test_candidates_have_to_increase(candidates):
    with pytest.raises(ParameterError, match="candidates"):
        Percentile([1.0], 50, candidates)


def test_bad_records_are_refused_without_showing_them():
    with pytest.raises(PrivateValueError) as caught:
        percentile([123.25, math.nan], 50, [0, 1], epsilon=1.0)
    assert "123" not in str(caught.value)


def test_unknown_mechanisms_are_refused():
    with pytest.raises(ParameterError, match="mechanism"):
        percentile([1.0], 50, [0, 1], epsilon=1.0, mechanism="guess")


def test_nothing_private_is_shown():
    assert repr(Percentile([41.0] * 3, 50, range(99))) == (
        "Percentile(p=50, 99 candidates, values not shown)"
    )
