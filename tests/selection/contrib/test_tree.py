"""Test the private decision tree: ε over all small databases, its law, and refusals."""

import pickle
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from geoveil.gp import ParameterError, PrivateValueError, SeededSource
from geoveil.selection import LocalDampening, LocalUtilities, PermuteAndFlip, StabilityMechanism
from geoveil.selection.contrib.criteria import (
    NodeCounts,
    gain_sensitivity,
    gain_sensitivity_rows,
    information_gain,
)
from geoveil.selection.contrib.splitters import (
    SPLITTERS,
    Splitter,
    shifted_gain,
    splitter,
)
from geoveil.selection.contrib.tree import CodedRecords, PrivateDecisionTree, TreePlan

Array = NDArray[np.float64]
EPSILON = 0.7
ALPHA = 1e-6
ROWS = [(name, criterion) for name, (_, permitted) in SPLITTERS.items() for criterion in permitted]
KINDS = np.array(list(product(range(2), repeat=3)))
"""Records of two attributes and a class, all binary."""


def _records(multiset: tuple[int, ...]) -> CodedRecords:
    rows = np.repeat(KINDS, multiset, axis=0)
    return CodedRecords(rows[:, :2], rows[:, 2], [2, 2], 2, 50)


def _node(multiset: tuple[int, ...]) -> NodeCounts:
    records = _records(multiset)
    return records.counts(records.everyone(), np.arange(2))


def _databases(most: int) -> Iterator[tuple[int, ...]]:
    for counts in product(range(most + 1), repeat=8):
        if sum(counts) <= most:
            yield counts
    yield from ((40, 0, 0, 9, 0, 12, 0, 1), (10, 0, 0, 10, 0, 0, 0, 0), (0, 0, 30, 0, 0, 0, 0, 0))


def _worst(chooser: Splitter, most: int = 2) -> float:
    """Return the largest log-ratio between databases and those with one record more."""
    known: dict[tuple[int, ...], Array] = {}

    def law(database: tuple[int, ...]) -> Array:
        if database not in known:
            known[database] = chooser.probabilities(_node(database))
        return known[database]

    worst = 0.0
    for database in _databases(most):
        for kind in range(8):
            more = (*database[:kind], database[kind] + 1, *database[kind + 1 :])
            worst = max(worst, float(np.abs(np.log(law(database) / law(more))).max()))
    return worst


def _splitter(name: str, criterion: str | None, epsilon: float) -> Splitter:
    return splitter(name, criterion, epsilon, attributes=2, most_records=50)  # type: ignore[arg-type]


@pytest.mark.deep(keep=6)
@pytest.mark.parametrize(("name", "criterion"), ROWS)
def test_a_choice_keeps_its_epsilon_on_all_small_databases(name, criterion):
    assert _worst(_splitter(name, criterion, EPSILON)) <= EPSILON * (1 + 1e-9)


@pytest.mark.parametrize("name", ["stability", "permute_and_flip", "exponential"])
def test_a_choice_with_more_noise_than_its_epsilon_asks_for_would_be_found_out(name):
    """Control: at 1.3 ε the auditor above sees more than ε."""
    assert _worst(_splitter(name, "max_operator", 1.3 * EPSILON)) > 1.2 * EPSILON


def test_shifted_gain_is_shifted_local_dampening():
    rng = np.random.default_rng(1)
    for _ in range(20):
        table = rng.integers(0, 40, size=(5, 2))
        node = NodeCounts(table=table, starts=np.array([0, 2]), most_records=200)
        delta = gain_sensitivity(200)
        mechanism = LocalDampening(EPSILON, delta, shifted=True)
        scores = LocalUtilities(information_gain(node), gain_sensitivity_rows(node)(0, 64))
        chosen = mechanism.probabilities(scores)
        weights = np.exp(EPSILON / (2 * delta) * shifted_gain(node, delta, reach=64))
        assert chosen == pytest.approx(weights / weights.sum(), rel=1e-9)


@pytest.mark.parametrize("depth", [1, 5])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0])
def test_no_path_spends_more_than_the_tree_has(depth, epsilon):
    plan = TreePlan(epsilon, depth, 4, 2)
    for level in range(depth + 1):
        # Above the last level: whether to split, everywhere; the attribute, above the leaf.
        decisions = 2 * level + (level < depth)
        spent = decisions * plan.part + plan.left(level)
        assert epsilon * (1 - 1e-12) <= spent <= epsilon * (1 + 1e-15)


def test_the_decision_to_split_compares_a_count_plus_geometric_noise():
    plan = TreePlan(1.0, 1, 2, 2)
    q = np.exp(-plan.part)
    noise = np.arange(-2000, 2001)
    law = (1 - q) / (1 + q) * q ** np.abs(noise)
    for records in (0, plan.fewest - 1, plan.fewest, plan.fewest + 3):
        expected = law[records + noise >= plan.fewest].sum()
        got = StabilityMechanism(plan.part).probabilities(plan.split(records))[1]
        assert got == pytest.approx(expected, rel=1e-9)


def _law_of_trees(multiset: tuple[int, ...], plan: TreePlan, chooser: Splitter) -> Array:
    """Return the probabilities of all trees of depth 1: 2 leaves, and 2 attributes × 4 labels."""
    records = _records(multiset)
    rows = records.everyone()
    split = StabilityMechanism(plan.part).probabilities(plan.split(len(rows)))

    def labels(level: int, part: NDArray[np.intp]) -> Array:
        mechanism = PermuteAndFlip(plan.left(level), 1.0, monotone=True)
        return mechanism.probabilities(records.label_counts(part))

    law = [split[0] * labels(0, rows)]
    for attribute, chosen in enumerate(chooser.probabilities(_node(multiset))):
        first, second = (labels(1, part) for part in records.parts(rows, attribute))
        law.append(split[1] * chosen * np.outer(first, second).ravel())
    return np.concatenate(law)


@pytest.mark.deep
def test_a_tree_keeps_its_epsilon_as_a_whole():
    plan = TreePlan(EPSILON, 1, 2, 2)
    chooser = _splitter("permute_and_flip", "max_operator", plan.part)
    large = (plan.fewest // 2, 0, 3, plan.fewest // 3, 0, 1, 0, plan.fewest // 6)
    worst = 0.0
    for database in (*_databases(2), large):
        law = _law_of_trees(database, plan, chooser)
        assert law.sum() == pytest.approx(1, abs=1e-12)
        for kind in range(8):
            more = (*database[:kind], database[kind] + 1, *database[kind + 1 :])
            ratio = np.log(law / _law_of_trees(more, plan, chooser))
            worst = max(worst, float(np.abs(ratio).max()))
    assert 0.7 * EPSILON < worst <= EPSILON * (1 + 1e-9)


@pytest.mark.deep(keep=0)
def test_fit_draws_from_the_law_of_trees():
    multiset = (25, 8, 5, 22, 3, 9, 4, 20)
    rows = np.repeat(KINDS, multiset, axis=0)
    tree = PrivateDecisionTree(0.5, values=[2, 2], classes=[0, 1], depth=1)
    plan = TreePlan(0.5, 1, 2, 2)
    law = _law_of_trees(multiset, plan, _splitter("permute_and_flip", None, plan.part))
    source, draws = SeededSource(1), 1500
    seen = np.zeros(10, dtype=int)
    for _ in range(draws):
        root = tree.fit(rows[:, :2], rows[:, 2], source).tree_
        assert root is not None
        if root.attribute is None:
            seen[root.label] += 1
        else:
            labels = [child.label for child in root.children]
            seen[2 + 4 * root.attribute + 2 * (labels[0] or 0) + (labels[1] or 0)] += 1
    tails = [
        2 * min(binom.cdf(k, draws, p), binom.sf(k - 1, draws, p))
        for k, p in zip(seen, law, strict=True)
    ]
    assert min(tails) > ALPHA / 10
    # Control: the law at twice the ε does not fit.
    double = TreePlan(1.0, 1, 2, 2)
    wrong = _law_of_trees(multiset, double, _splitter("permute_and_flip", None, double.part))
    tails = [
        2 * min(binom.cdf(k, draws, p), binom.sf(k - 1, draws, p))
        for k, p in zip(seen, wrong, strict=True)
    ]
    assert min(tails) < ALPHA / 10


def _learnable(n: int = 4000) -> tuple[NDArray[np.int64], NDArray[np.str_]]:
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, size=(n, 4))  # scikit-learn's name
    return X, np.where((X[:, 1] == 2) & (X[:, 3] > 0), "yes", "no")


@pytest.mark.parametrize(("name", "criterion"), ROWS)
def test_a_tree_learns_what_there_is_to_learn(name, criterion):
    X, y = _learnable()
    tree = PrivateDecisionTree(
        20.0,
        values=[3] * 4,
        classes=["no", "yes"],
        depth=2,
        mechanism=name,  # type: ignore[arg-type]
        criterion=criterion,  # type: ignore[arg-type]
        most_records=5000,
    )
    assert tree.fit(X, y, SeededSource(1)).score(X, y) > 0.99
    assert (pickle.loads(pickle.dumps(tree)).predict(X) == tree.predict(X)).all()
    assert tree.guarantee.epsilon == 20.0


def test_parameters_are_those_it_was_made_with():
    tree = PrivateDecisionTree(0.5, values=(2, 3), classes=["a", "b"], depth=2)
    assert tree.get_params()["epsilon"] == 0.5
    assert PrivateDecisionTree(**tree.get_params()).get_params() == tree.get_params()
    tree.set_params(depth=3, mechanism="stability")
    assert (tree.depth, tree.mechanism) == (3, "stability")
    with pytest.raises(ParameterError, match="depth"):
        tree.set_params(epsilon=2.0, depth=0)
    with pytest.raises(ParameterError, match="parameter"):
        tree.set_params(leaves=3)
    assert (tree.epsilon, tree.depth) == (0.5, 3)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"values": [2, 0]}, "values"),
        ({"classes": ["a", "a"]}, "classes"),
        ({"depth": 0}, "depth"),
        ({"mechanism": "laplace"}, "mechanism"),
        ({"mechanism": "stability", "criterion": "gini"}, "criterion"),
        ({"most_records": 0}, "most_records"),
    ],
)
def test_parameters_out_of_range_are_refused(wrong, name):
    right: dict[str, object] = {"values": [2, 3], "classes": ["a", "b"]}
    with pytest.raises(ParameterError, match=name):
        PrivateDecisionTree(**{**right, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[0, 7]], ["a"]),
        ([[0, 0.5]], ["a"]),
        ([[0]], ["a"]),
        ([[0, 1]], ["secret"]),
        ([[0, 1]], ["a", "b"]),
        ([["x", "y"]], ["a"]),
    ],
)
def test_private_records_out_of_range_are_refused_unseen(X, y):
    tree = PrivateDecisionTree(1.0, values=[2, 3], classes=["a", "b"])
    with pytest.raises(PrivateValueError) as error:
        tree.fit(X, y, SeededSource(1))  # type: ignore[arg-type]
    assert "secret" not in str(error.value)
    assert "7" not in str(error.value)
    assert tree.tree_ is None


def test_no_records_are_learnt_from_like_any_others():
    tree = PrivateDecisionTree(1.0, values=[2], classes=["a", "b"])
    tree.fit(np.empty((0, 1)), np.empty(0, dtype=str), SeededSource(1))
    assert set(tree.predict([[0], [1]])) <= {"a", "b"}
    with pytest.raises(PrivateValueError):
        tree.score(np.empty((0, 1)), np.empty(0, dtype=str))
