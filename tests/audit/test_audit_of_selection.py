"""Test that the auditor measures the promised ε of right mechanisms, and more of wrong ones."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from geoveil.audit import (
    OwnSelection,
    admissible,
    database_pairs,
    margin_pairs,
    utility_pairs,
    worst_pair,
    worst_utilities,
)
from geoveil.gp import ParameterError
from geoveil.selection import (
    ExponentialMechanism,
    LocalDampening,
    LocalUtilities,
    Margin,
    PermuteAndFlip,
    ReportNoisyMax,
    Utilities,
)

MAKERS = {
    "exponential": ExponentialMechanism,
    "permute-and-flip": PermuteAndFlip,
    "noisy max, laplace": lambda *a, **k: ReportNoisyMax(*a, "laplace", **k),
    "noisy max, gumbel": lambda *a, **k: ReportNoisyMax(*a, "gumbel", **k),
    "noisy max, exponential": lambda *a, **k: ReportNoisyMax(*a, "exponential", **k),
}
# Laplace noise takes quadrature, and its far levels many panels.
LEVELS = (0.0, 0.5, 2.0, 12.0)


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("outcomes", [2, 3])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_no_mechanism_exceeds_its_epsilon_and_each_reaches_it(name, monotone, outcomes, epsilon):
    mechanism = MAKERS[name](epsilon, 2.0, monotone=monotone)
    found = worst_utilities(mechanism, outcomes, 2.0, monotone=monotone, levels=LEVELS)
    assert found.epsilon <= mechanism.guarantee.epsilon * (1 + 1e-9)
    assert found.epsilon > 0.9 * epsilon
    gap = np.abs(found.first.values - found.second.values)
    assert gap.max() <= 2.0 * (1 + 1e-12)


@pytest.mark.deep
@pytest.mark.parametrize("name", MAKERS)
def test_four_outcomes_keep_epsilon(name):
    pairs = utility_pairs(4, 1.0, levels=(0.0, 1.0, 6.0))
    assert 0.9 < worst_pair(MAKERS[name](1.0, 1.0), pairs).epsilon <= 1 + 1e-9


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", MAKERS)
def test_noise_of_seven_tenths_of_the_scale_is_caught(name):
    found = worst_utilities(MAKERS[name](1.0, 0.7), 3, 1.0, levels=LEVELS)
    assert found.epsilon > 1.3


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", MAKERS)
def test_half_the_noise_for_utilities_that_are_not_monotone_is_caught(name):
    mechanism = MAKERS[name](1.0, 1.0, monotone=True)
    assert worst_utilities(mechanism, 2, 1.0, levels=LEVELS).epsilon > 1.8


def test_the_search_ends_above_the_grid():
    """From a grid on which nothing can be lost."""
    mechanism = ExponentialMechanism(1.0, 1.0)
    start = worst_pair(mechanism, utility_pairs(2, 1.0, levels=(0.0,))).epsilon
    found = worst_utilities(mechanism, 2, 1.0, levels=(0.0,)).epsilon
    assert found > start + 0.1
    assert found <= 1 + 1e-9


class Certain:
    """Always the largest."""

    def probabilities(self, scores: Any) -> Any:
        return np.eye(scores.outcomes)[int(np.argmax(scores.values))]


def test_an_outcome_that_becomes_impossible_is_an_infinite_loss():
    found = worst_utilities(Certain(), 2, 1.0)
    assert found.epsilon == math.inf
    assert Certain().probabilities(found.first)[found.outcome] == 1
    assert Certain().probabilities(found.second)[found.outcome] == 0


def test_what_underflows_is_no_loss():
    pairs = [(Utilities([0.0, 5_000.0]), Utilities([1.0, 5_000.0]))]
    assert worst_pair(ExponentialMechanism(1.0, 1.0), pairs).epsilon == 0.0


def test_pairs_of_utilities_are_all_changes_on_the_grid():
    pairs = list(utility_pairs(2, 0.5, levels=(0.0, 3.0)))
    assert len(pairs) == 4 * 9
    assert {tuple(b.values - a.values) for a, b in pairs} == {
        (i / 2, j / 2) for i in (-1, 0, 1) for j in (-1, 0, 1)
    }
    assert max(a.values.max() for a, _ in pairs) == 1.5
    one_way = {tuple(b.values - a.values) for a, b in utility_pairs(2, 0.5, monotone=True)}
    assert one_way == {(0.0, 0.0), (0.0, 0.5), (0.5, 0.0), (0.5, 0.5)}


def test_pairs_of_margins_are_all_that_neighbours_may_have():
    pairs = [(a.winner, a.margin, b.winner, b.margin) for a, b in margin_pairs(3, most=2)]
    assert pairs[:2] == [(0, 0, 0, 1), (0, 1, 0, 2)]
    assert set(pairs[2:]) == {(0, i, 1, j) for i in (0, 1) for j in (0, 1)}
    assert len(list(margin_pairs(1, most=2))) == 2


def test_pairs_of_databases_differ_in_one_record():
    seen = list(database_pairs(3, 2, lambda records: Margin(0, 3 * records[0] + records[1], 1)))
    decoded = [tuple(divmod(scores.margin, 3) for scores in pair) for pair in seen]
    assert len(decoded) == len(set(decoded)) == 9 * 4 // 2
    assert all(sum(a != b for a, b in zip(x, y, strict=True)) == 1 for x, y in decoded)


def test_admissible_tells_both_conditions():
    def pair(first: Any, second: Any) -> Any:
        return [(LocalUtilities([0.0], first), LocalUtilities([1.0], second))]

    assert admissible(pair([[1.0], [2.0]], [[1.0], [2.0]]), changes=1)
    assert not admissible(pair([[0.9], [2.0]], [[1.0], [2.0]]), changes=1)  # δ(x, 0) < |u − u'|
    assert not admissible(pair([[1.0], [1.0]], [[2.0], [2.0]]), changes=1)  # δ(x, 1) < δ(y, 0)
    assert not admissible(pair([[2.0], [2.0]], [[1.0], [1.0]]), changes=1)  # the other way round
    with pytest.raises(ParameterError, match="changes"):
        admissible(pair([[1.0]], [[1.0]]), changes=1)


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, None])
def test_counts_are_checked(bad):
    for call in (
        lambda: list(utility_pairs(bad, 1.0)),
        lambda: list(margin_pairs(bad, 1)),
        lambda: list(margin_pairs(1, bad)),
        lambda: list(database_pairs(2, bad, lambda _: Margin(0, 0, 1))),
        lambda: admissible([], bad),
    ):
        with pytest.raises(ParameterError):
            call()


def test_no_pairs_is_an_error():
    with pytest.raises(ParameterError, match="pairs"):
        worst_pair(ExponentialMechanism(1.0, 1.0), [])


@pytest.mark.deep(keep=0, rest=3)
@pytest.mark.parametrize(
    ("rate", "refused"),
    [
        (lambda scores, epsilon: epsilon * (2.5 if len(scores) > 3 else 1), True),
        (lambda scores, epsilon: epsilon, False),
        (lambda scores, epsilon: epsilon / 1.7, False),
        (lambda scores, epsilon: epsilon * (9.0 if np.diff(np.sort(scores))[-1] > 12 else 1), True),
        (lambda scores, epsilon: epsilon * (2 if scores.min() < -50 else 1), True),
        (lambda scores, epsilon: epsilon**2, True),
        (lambda scores, epsilon: epsilon * (2 if len(scores) == 13 else 1), True),
        (lambda scores, epsilon: epsilon * (2 if len(scores) > 40 else 1), True),
        (lambda scores, epsilon: epsilon * (2 if 0.4 < epsilon < 0.6 else 1), True),
        (lambda scores, epsilon: epsilon * (2 if epsilon > 5 else 1), True),
        (lambda scores, epsilon: epsilon * (9.0 if np.ptp(scores) > 500 else 1), True),
    ],
)
def test_selections_of_ones_own_are_audited_beyond_three_outcomes(rate, refused):
    def make(epsilon: float, sensitivity: float) -> Any:
        class Own:
            def probabilities(self, scores: Any) -> Any:
                values = np.asarray(scores) / sensitivity
                return softmax(rate(values, epsilon) * values / 2)

        return Own()

    assert (OwnSelection("own", make).audited() > 1 + 1e-6) == refused


@pytest.mark.deep(keep=0)
def test_the_score_of_the_page_is_audited_and_one_that_moves_farther_is_refuted():
    page = (Path(__file__).parents[2] / "docs" / "selection.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page.split("## A score of your own")[1], re.DOTALL)[0]
    known: dict[str, Any] = {}
    exec(code, known)
    assert known["worst"].epsilon == pytest.approx(0.898, abs=0.001)
    exec(re.sub(r"(return )(np.sqrt.least.*)", r"\1(\2) / 2", code).split("neighbours =")[0], known)
    pairs = list(database_pairs(3, 6, known["roots"]))
    assert not admissible(pairs, 6)
    assert worst_pair(LocalDampening(1.0, 1.0), pairs).epsilon > 1
