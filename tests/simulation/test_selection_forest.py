"""Test the forest experiment: votes against enumeration, mechanisms against the library."""

from itertools import product

import numpy as np
import pytest

from geoveil.selection.contrib.forest import LABEL_RECIPES, LabelName, labeller
from geoveil.simulation.experiment import compute_cells
from geoveil.simulation.selection import experiment
from geoveil.simulation.selection.experiment import (
    KEPT,
    LEAF_CONTESTANTS,
    OWN,
    STANDINGS,
    Options,
)
from geoveil.simulation.selection.forest import (
    drawn_votes,
    expected_votes,
)

BY_NAME = {contestant.name: contestant for contestant in LEAF_CONTESTANTS}
LIBRARY: dict[str, LabelName] = {
    "permute-and-flip, counts": "permute_and_flip",
    "exponential, counts": "exponential",
    "stability, optimal": "stability",
    "permute-and-flip, distance": "distance_permute_and_flip",
    "exponential, distance": "distance_exponential",
    "smooth noisy max, proved": "smooth_noisy_max",
}


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", LIBRARY)
def test_a_contestant_is_the_mechanism_of_the_library(name, classes):
    counts = np.random.default_rng(1).integers(0, 12, size=(20, classes))
    got = BY_NAME[name].make(0.4, classes).choice(counts)
    assert got == pytest.approx(labeller(LIBRARY[name], 0.4, classes).probabilities(counts))


def test_every_contestant_but_the_printed_ones_is_compared_with_the_library():
    assert {c.name for c in LEAF_CONTESTANTS if c.standing == KEPT} == set(LIBRARY)
    assert set(LIBRARY.values()) == set(LABEL_RECIPES)


@pytest.mark.deep
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
@pytest.mark.parametrize("classes", [2, 7])
def test_what_is_proved_of_the_printed_mechanisms_holds(epsilon, classes):
    counts = np.array([c for c in product(range(3), repeat=classes) if sum(c) <= 6])[:800]
    for contestant in LEAF_CONTESTANTS:
        made = contestant.make(epsilon, classes)
        here = made.choice(counts)
        for more in np.eye(classes, dtype=np.int64):
            ratio = np.abs(np.log(here / made.choice(counts + more))).max()
            assert ratio <= made.epsilon * (1 + 1e-7), contestant.name


def test_the_exponential_mechanism_as_printed_costs_half_its_epsilon():
    made = BY_NAME["exponential, 0/1"].make(1.0, 3)
    switch = made.choice(np.array([[4, 3, 0], [4, 5, 0]]))
    assert np.abs(np.log(switch[0] / switch[1])).max() == pytest.approx(0.5)


def test_votes_of_two_labels_agree_with_enumeration():
    rng = np.random.default_rng(1)
    for trees in (1, 4, 5):
        p = rng.random((trees, 3))
        probabilities = np.stack([1 - p, p], axis=2)
        leaves, labels = rng.integers(0, 3, size=(trees, 6)), rng.integers(0, 2, size=6)
        expected = 0.0
        for record in range(6):
            own = p[np.arange(trees), leaves[:, record]]
            for votes in product((0, 1), repeat=trees):
                chance = np.prod([q if v else 1 - q for v, q in zip(votes, own, strict=True)])
                expected += float(chance) * (int(sum(votes) > trees / 2) == labels[record]) / 6
        assert expected_votes(probabilities, leaves, labels) == pytest.approx(expected, abs=1e-12)


def test_drawn_votes_agree_with_expected_ones():
    rng = np.random.default_rng(2)
    p = rng.random((5, 40))
    probabilities = np.stack([1 - p, p], axis=2)
    leaves, labels = rng.integers(0, 40, size=(5, 300)), rng.integers(0, 2, size=300)
    exact = expected_votes(probabilities, leaves, labels)
    drawn = [drawn_votes(probabilities, leaves, labels, 1, rng) for _ in range(1000)]
    # n = 1000; 4.9 standard errors is α = 1e-6. The control is the other label.
    error = 4.9 * np.std(drawn) / np.sqrt(1000)
    assert abs(np.mean(drawn) - exact) < error
    assert abs(np.mean(drawn) - (1 - exact)) > error


@pytest.mark.deep
def test_the_quick_experiment_runs_and_draws(tmp_path):
    rows = compute_cells(experiment("forest", Options(quick=True)).cells)
    assert rows == compute_cells(experiment("forest", Options(quick=True)).cells)
    assert {row.standing for row in rows} == set(STANDINGS) - {OWN}
    assert {row.mode for row in rows if row.dataset == "Mushroom"} == {"exact"}
    assert {row.mode for row in rows if row.dataset == "Wall-sensor"} == {"monte-carlo"}
    value = {(r.dataset, r.mechanism, r.epsilon): r.value for r in rows}
    assert value["Mushroom", "permute-and-flip, counts", 1.0] > 0.9
    assert (
        value["Mushroom", "permute-and-flip, counts", 0.1]
        > value["Mushroom", "smooth noisy max, proved", 0.1] + 0.1
    )
    for file in experiment("forest", Options(quick=True)).draw(rows, tmp_path / "all.png"):
        assert file.read_bytes()[:4] == b"\x89PNG"
