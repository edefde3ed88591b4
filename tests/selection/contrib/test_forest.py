"""Test the private random forest: ε over all small leaves, its structure, and refusals."""

import pickle
from itertools import product

import numpy as np
import pytest

from geoveil.gp import ParameterError, PrivateValueError, SeededSource
from geoveil.selection.contrib.classifier import NotFittedError
from geoveil.selection.contrib.forest import LABEL_RECIPES, LabelName, PrivateRandomForest, labeller
from geoveil.selection.contrib.random_trees import random_trees

EPSILON = 0.8
DOMAINS = [(0.0, 1.0), 5, (-3.0, 3.0), 2]


def _worst(name: LabelName, epsilon: float, classes: int, most: int) -> float:
    """Return the largest log-ratio between leaves and those with one record more."""
    counts = np.array(list(product(range(most + 1), repeat=classes)))
    choose = labeller(name, epsilon, classes)
    here = choose.probabilities(counts)
    return max(
        float(np.abs(np.log(here / choose.probabilities(counts + more))).max())
        for more in np.eye(classes, dtype=np.int64)
    )


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(("classes", "most"), [(3, 4), (2, 8)])
@pytest.mark.parametrize("name", LABEL_RECIPES)
def test_a_label_keeps_its_epsilon_on_all_small_leaves(name, classes, most):
    # Smooth noisy max by quadrature, to its stated error of about 1e-12.
    assert _worst(name, EPSILON, classes, most) <= EPSILON * (1 + 1e-7)


@pytest.mark.parametrize("name", ["stability", "permute_and_flip", "exponential"])
def test_a_label_with_less_noise_would_be_found_out(name):
    """Control: at 1.2 ε the auditor above sees more than ε."""
    assert _worst(name, 1.2 * EPSILON, 3, 4) > 1.1 * EPSILON


def _records(n: int, seed: int = 1) -> np.ndarray:  # type: ignore[type-arg]
    rng = np.random.default_rng(seed)
    return np.stack(
        [rng.random(n), rng.integers(0, 5, n), rng.uniform(-3, 3, n), rng.integers(0, 2, n)], axis=1
    )


def test_every_leaf_of_every_tree_is_there_and_can_be_reached():
    trees = random_trees(DOMAINS, 3, 3, np.random.default_rng(1))
    assert trees.attribute.shape == (3, 7)
    records = _records(20_000)
    for tree in range(3):
        leaves = trees.leaf(records, np.full(len(records), tree))
        assert set(leaves.tolist()) == set(range(8))


def test_a_leaf_holds_one_side_of_every_split_on_its_path():
    trees = random_trees(DOMAINS, 2, 4, np.random.default_rng(2))
    for record in _records(200):
        node = 0
        for _ in range(4):
            attribute, threshold = trees.attribute[1, node], trees.threshold[1, node]
            value = record[attribute]
            second = trees.second[1, node, int(value)] if np.isnan(threshold) else value > threshold
            node = 2 * node + 1 + int(second)
        assert trees.leaf(record[None], np.array([1]))[0] == node - 15


def test_a_category_that_is_used_up_is_not_split_again():
    trees = random_trees([2], 1, 2, np.random.default_rng(1))
    leaves = {int(trees.leaf(np.array([[c]]), np.array([0]))[0]) for c in (0.0, 1.0)}
    assert len({leaf // 2 for leaf in leaves}) == 2


def test_a_record_more_is_one_count_more():
    forest = PrivateRandomForest(EPSILON, domains=DOMAINS, classes=list("abc"), trees=4, depth=3)
    records = _records(51)
    labels, tree = np.arange(51) % 3, np.arange(51) % 4
    less = forest.leaf_counts(records[:50], labels[:50], tree[:50])
    more = forest.leaf_counts(records, labels, tree)
    assert less.sum() == 50
    assert sorted((more - less).ravel().tolist())[-2:] == [0, 1]
    assert (more >= less).all()


def test_labels_come_back_from_the_orders_of_the_leaves():
    forest = PrivateRandomForest(EPSILON, domains=DOMAINS, classes=list("abc"), trees=4, depth=3)
    records = _records(400)
    labels, tree = np.arange(400) % 3, np.arange(400) % 4
    counts = forest.leaf_counts(records, labels, tree)
    by_label = forest.by_label(counts.astype(float))
    assert by_label.sum(axis=(0, 1)).tolist() == np.bincount(labels).tolist()
    winners = forest.labels_at(counts.argmax(axis=2))
    best = np.take_along_axis(by_label, winners[:, :, None], axis=2)[:, :, 0]
    assert (best == by_label.max(axis=2)).all()


def test_empty_leaves_favour_no_label():
    forest = PrivateRandomForest(5.0, domains=DOMAINS, classes=[0, 1], trees=4, depth=9)
    forest.fit(np.empty((0, 4)), np.empty(0, dtype=int), SeededSource(1))
    assert forest.labels_ is not None
    # 2,048 fair coins: 5 standard deviations.
    assert abs(forest.labels_.mean() - 0.5) < 5 * 0.5 / np.sqrt(2048)


def test_the_structure_depends_on_the_seed_and_not_on_the_data():
    def grown(seed: int) -> PrivateRandomForest:
        return PrivateRandomForest(
            1.0, domains=DOMAINS, classes=list("ab"), trees=2, depth=3, seed=seed
        )

    records = _records(50)
    before = grown(1).leaves(records)
    forest = grown(1).fit(records, np.array(["a"] * 50), SeededSource(1))
    assert (forest.leaves(records) == before).all()
    assert (grown(2).leaves(records) != before).any()


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("name", LABEL_RECIPES)
def test_a_forest_learns_what_there_is_to_learn(name):
    records = _records(20_000)
    labels = np.where(records[:, 0] + 0.2 * records[:, 3] > 0.6, "high", "low")
    forest = PrivateRandomForest(
        5.0, domains=DOMAINS, classes=["low", "high"], trees=16, depth=6, mechanism=name
    )
    assert forest.fit(records, labels, SeededSource(1)).score(records, labels) > 0.9
    kept = pickle.loads(pickle.dumps(forest))
    assert (kept.predict(records) == forest.predict(records)).all()


def test_adding_a_record_leaves_the_trees_of_the_others_alone():
    forest = PrivateRandomForest(1.0, domains=DOMAINS, classes=list("ab"), trees=7, depth=1)
    few, many = forest._assigned(1000, SeededSource(1)), forest._assigned(10_000, SeededSource(2))
    assert set(few.tolist()) == set(range(7))
    # Each of 7 within 5 standard deviations of n/7.
    assert np.abs(np.bincount(many) - 10_000 / 7).max() < 5 * np.sqrt(10_000 * 6 / 49)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"epsilon": -1}, "epsilon"),
        ({"domains": []}, "domains"),
        ({"domains": [(1, 1)]}, "domains"),
        ({"trees": 0}, "trees"),
        ({"depth": 17}, "depth"),
        ({"mechanism": "laplace"}, "mechanism"),
        ({"seed": -1}, "seed"),
    ],
)
def test_parameters_out_of_range_are_refused(wrong, name):
    right: dict[str, object] = {"domains": DOMAINS, "classes": list("ab")}
    with pytest.raises(ParameterError, match=name):
        PrivateRandomForest(**{**right, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("record", [[0.5, 7, 0, 0], [np.nan, 1, 0, 0], [0.5, 1, 0]])
def test_private_records_out_of_range_are_refused_unseen(record):
    forest = PrivateRandomForest(1.0, domains=DOMAINS, classes=list("ab"))
    with pytest.raises(PrivateValueError) as error:
        forest.fit([record], ["a"], SeededSource(1))
    assert "7" not in str(error.value)
    assert forest.labels_ is None


def test_numbers_are_clipped_to_the_range():
    forest = PrivateRandomForest(1.0, domains=[(0, 1)], classes=list("ab"), trees=2, depth=2)
    forest.fit([[0.5]], ["a"], SeededSource(1))
    assert forest.predict([[-9.0], [0.0]])[0] == forest.predict([[0.0]])[0]


def test_a_forest_is_fitted_before_it_predicts():
    with pytest.raises(NotFittedError):
        PrivateRandomForest(1.0, domains=DOMAINS, classes=list("ab")).predict([[0.5, 1, 0, 0]])
