"""The experiment on influential nodes: drawn choices against exact ones, rows, figures."""

import math
from itertools import permutations

import numpy as np
import pytest

from geoveil.gp import ParameterError
from geoveil.selection.contrib import NODE_RECIPES, Graph, Influence
from geoveil.selection.contrib.influence import NodeSetting, Remaining
from geoveil.simulation.experiment import compute_cells
from geoveil.simulation.selection import Options, experiment
from geoveil.simulation.selection.experiment import KEPT, NOMINAL
from geoveil.simulation.selection.influence import (
    chosen_nodes,
    generated_graph,
    public_bound,
    read_graph,
)

NODES, CHOICES, DRAWS = 6, 2, 20_000
Z = 5.0
"""Standard errors that a frequency may be off; 7 mechanisms × 6 nodes: α < 3e-5 in all."""


@pytest.fixture
def graph():
    """A small graph of uneven degrees."""
    return Graph(NODES, [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (1, 5), (3, 4)])


def _exact_inclusion(name: str, known: Influence, epsilon: float) -> np.ndarray:
    """Return the probability of each node to be among two choices, by enumeration."""
    recipe = NODE_RECIPES[name]
    mechanism = recipe.build(epsilon, NodeSetting(known.outcomes, known.degree_bound))

    def p(among):
        nodes = np.array(among)
        return mechanism.probabilities(recipe.score(Remaining(known, nodes), mechanism))

    everybody = list(range(NODES))
    first = p(everybody)
    result = np.zeros(NODES)
    for a, b in permutations(everybody, CHOICES):
        left = [node for node in everybody if node != a]
        both = first[a] * p(left)[left.index(b)]
        result[[a, b]] += both
    return result


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", NODE_RECIPES)
def test_drawn_choices_have_the_probabilities_of_the_mechanism(name, graph):
    epsilon, rng = 3.0, np.random.default_rng(11)
    known = Influence(graph)
    made = chosen_nodes(name, known, rng, CHOICES * epsilon, CHOICES)
    counts = np.zeros(NODES)
    for _ in range(DRAWS):
        counts[made.choice(CHOICES)] += 1
    exact = _exact_inclusion(name, known, epsilon)
    assert exact.sum() == pytest.approx(CHOICES)
    error = np.sqrt(exact * (1 - exact) / DRAWS)
    assert (np.abs(counts / DRAWS - exact) < Z * error).all()
    # The control: with another ε the same counts are refused.
    other = _exact_inclusion(name, known, 2 * epsilon)
    assert (np.abs(counts / DRAWS - other) > Z * error).any()


@pytest.mark.deep
def test_rows_keep_their_epsilon_and_nominal_ones_promise_nothing(tmp_path, graph):
    file = tmp_path / "small.npz"
    edges = generated_graph(60, np.random.default_rng(2)).edges
    np.savez(file, u=edges[:, 0], v=edges[:, 1], n=60)
    rows = compute_cells(experiment("nodes", Options(data=(file,), quick=True)).cells)
    assert {row.dataset for row in rows} == {"small"}
    assert {row.mechanism for row in rows if row.standing == KEPT} == set(NODE_RECIPES)
    assert {row.setting for row in rows} == {"k=5", "k=10", "k=20"}
    for row in rows:
        assert 0 <= row.value <= 1
        if row.standing == KEPT:
            assert row.proved_epsilon <= row.epsilon * (1 + 1e-9)
        else:
            assert row.proved_epsilon == math.inf
    assert NOMINAL in {row.standing for row in rows}


def test_a_large_budget_finds_the_top(graph):
    known = Influence(graph)
    best = set(np.argsort(-known.betweenness)[:2].tolist())
    made = chosen_nodes("exponential", known, np.random.default_rng(1), 2e4, 2)
    assert set(made.choice(2).tolist()) == best


def test_bounds_are_round_and_above_all_degrees(graph):
    assert public_bound(graph) == 5
    assert public_bound(Graph(300, [(0, leaf) for leaf in range(1, 150)])) == 200


def test_files_that_hold_no_graph_are_refused(tmp_path):
    file = tmp_path / "counts.npz"
    np.savez(file, X=np.arange(3))
    for missing in (file, tmp_path / "absent.npz"):
        with pytest.raises(ParameterError, match="data"):
            read_graph(missing)
