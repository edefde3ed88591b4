"""Test influential nodes: centrality, its sensitivity on all small graphs, and choices."""

from itertools import combinations

import numpy as np
import pytest

from geoveil.audit import admissible, worst_pair
from geoveil.gp import ParameterError, PrivateValueError, SeededSource
from geoveil.selection import LocalDampening
from geoveil.selection.contrib import (
    NODE_RECIPES,
    Graph,
    Influence,
    egocentric_betweenness,
    graphs as products,
    top_k_nodes,
)
from geoveil.selection.contrib.influence import (
    NodeSetting,
    Remaining,
    global_sensitivity,
    safe_sensitivity,
    sensitivity_at,
    shift,
    smooth_sensitivity,
)

NODES = 5
PAIRS = list(combinations(range(NODES), 2))


def _brute_force(nodes: int, edges) -> list[float]:
    """Return the centrality by its definition: shortest paths in the graph of the neighbours."""
    near: list[set[int]] = [set() for _ in range(nodes)]
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    result = []
    for centre in range(nodes):
        ego = near[centre] | {centre}
        total = 0.0
        for u, v in combinations(sorted(near[centre]), 2):
            if v not in near[u]:  # else the path of one edge is the shortest
                middles = near[u] & near[v] & ego
                total += (centre in middles) / len(middles)
        result.append(total)
    return result


def _random_edges(nodes: int, density: float, rng: np.random.Generator) -> np.ndarray:
    return np.array([p for p in combinations(range(nodes), 2) if rng.random() < density])


@pytest.fixture(scope="module")
def all_graphs():
    """Every graph of five nodes, in the order of its edges' bits."""
    return [
        Graph(NODES, [pair for bit, pair in enumerate(PAIRS) if mask >> bit & 1])
        for mask in range(1 << len(PAIRS))
    ]


def _neighbours(all_graphs):
    """Graphs that differ in the first edge: with other names of nodes it is any edge."""
    return zip(all_graphs[::2], all_graphs[1::2], strict=True)


@pytest.mark.parametrize("density", [0.05, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("nodes", [2, 7, 40])
def test_centrality_is_that_of_the_definition(nodes, density):
    edges = _random_edges(nodes, density, np.random.default_rng(nodes))
    found = egocentric_betweenness(Graph(nodes, edges))
    assert found == pytest.approx(_brute_force(nodes, edges), abs=1e-9)


def test_groups_of_few_rows_give_the_same(monkeypatch):
    edges = _random_edges(30, 0.4, np.random.default_rng(3))
    whole = egocentric_betweenness(Graph(30, edges))
    monkeypatch.setattr(products, "_PRODUCTS", 50)
    monkeypatch.setattr(products, "_EXPANDED", 7)
    assert egocentric_betweenness(Graph(30, edges)) == pytest.approx(whole, rel=1e-12)


def test_two_hubs_that_share_leaves():
    edges = [(0, 1), *((0, leaf) for leaf in range(2, 6)), (1, 2), (1, 3)]
    found = egocentric_betweenness(Graph(6, edges))
    # Hub 0: 10 pairs of neighbours, 2 adjacent, and one that hub 1 joins as well counts half.
    assert found.tolist() == [7.5, 0.5, 0.0, 0.0, 0.0, 0.0]


def test_repeated_edges_count_once_in_either_direction():
    graph = Graph(3, [(0, 1), (1, 0), (1, 2), (1, 2)])
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.degrees.tolist() == [1, 2, 1]


@pytest.mark.deep
def test_no_edge_moves_a_node_by_more_than_its_local_sensitivity(all_graphs):
    worst = 0.0
    for first, second in _neighbours(all_graphs):
        moved = np.abs(egocentric_betweenness(first) - egocentric_betweenness(second))
        for graph in (first, second):
            bound = sensitivity_at(graph.degrees, 0)
            assert (moved <= bound + 1e-12).all()
        worst = max(worst, float((moved / np.maximum(sensitivity_at(first.degrees, 0), 1)).max()))
    assert worst == 1.0  # and the bound is reached


@pytest.mark.deep
def test_local_sensitivities_are_admissible_on_all_graphs(all_graphs):
    nodes = np.arange(NODES)
    pairs = (
        (Influence(first).as_local(nodes), Influence(second).as_local(nodes))
        for first, second in _neighbours(all_graphs)
    )
    assert admissible(pairs, changes=3)


def test_smooth_sensitivity_is_smooth_and_bounds_the_local_one():
    bound, beta = 40, 0.07
    values = [smooth_sensitivity(d, bound, beta) for d in range(1, bound + 1)]
    searched = [
        max(np.exp(-beta * t) * sensitivity_at(d + t, 0) for t in range(bound - d + 1))
        for d in range(1, bound + 1)
    ]
    assert values == pytest.approx(searched)
    assert np.abs(np.diff(np.log(values))).max() <= beta * (1 + 1e-12)


@pytest.mark.deep
@pytest.mark.parametrize("name", NODE_RECIPES)
def test_no_mechanism_exceeds_its_epsilon_between_neighbouring_graphs(name, all_graphs):
    recipe = NODE_RECIPES[name]
    mechanism = recipe.build(1.0, NodeSetting(NODES, NODES - 1))
    nodes = np.arange(NODES)
    some = [pair for place, pair in enumerate(_neighbours(all_graphs)) if place % 17 == 0]
    pairs = [
        tuple(recipe.score(Remaining(Influence(graph), nodes), mechanism) for graph in pair)
        for pair in some
    ]
    found = worst_pair(mechanism, pairs).epsilon
    assert 0.01 < found <= mechanism.guarantee.epsilon * (1 + 1e-9)
    assert mechanism.guarantee.epsilon <= 1.0


def test_shifted_scores_are_those_of_shifted_local_dampening():
    rng = np.random.default_rng(5)
    graph = Graph(25, _random_edges(25, 0.3, rng))
    known, nodes = Influence(graph), np.arange(25)
    dampened = LocalDampening(1.0, known.sensitivity, shifted=True).dampened(known.as_local(nodes))
    assert known.shifted / known.sensitivity == pytest.approx(dampened, rel=1e-6)


def test_the_shift_is_the_sum_of_what_is_missing():
    for degree in (0, 3, 8):
        missing = sum(global_sensitivity(8) - sensitivity_at(degree, t) for t in range(8 - degree))
        assert shift(np.array([degree]), 8)[0] == missing


def test_global_sensitivities_are_those_the_paper_prints():
    printed = {9458: 22_361_076.5, 1383: 477_826.5, 343: 29_326.5}
    assert {d: global_sensitivity(d) for d in printed} == printed
    assert 1 < safe_sensitivity(9458) / 22_361_076.5 < 1 + 1e-8


@pytest.mark.parametrize("name", NODE_RECIPES)
def test_hubs_are_found_by_every_mechanism_with_a_large_epsilon(name):
    edges = [(0, leaf) for leaf in range(2, 30)] + [(1, leaf) for leaf in range(30, 50)]
    found = top_k_nodes(
        Graph(50, edges), 2, epsilon=4_000.0, mechanism=name, source=SeededSource(1)
    )
    assert len(set(found.nodes)) == 2
    if name != "local dampening":  # which inverts the order of what it dampens
        assert set(found.nodes) == {0, 1}
    assert found.guarantee.epsilon == 4_000.0


def test_all_nodes_can_be_chosen_each_once():
    found = top_k_nodes(Graph(4, [(0, 1)]), 4, epsilon=1.0, source=SeededSource(2))
    assert sorted(found.nodes) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "edges", [[(0, 3)], [(1, 1)], [(-1, 0)], [(0.5, 1.0)], [(0, 1, 2)], [0, 1]]
)
def test_edges_that_are_none_are_refused(edges):
    with pytest.raises(PrivateValueError, match="edges"):
        Graph(3, edges)


@pytest.mark.parametrize("k", [0, 4, True, 1.0])
def test_numbers_of_nodes_out_of_range_are_refused(k):
    with pytest.raises(ParameterError, match="k must be"):
        top_k_nodes(Graph(3, [(0, 1)]), k, epsilon=1.0)


def test_a_graph_above_its_degree_bound_is_refused_without_saying_by_how_much():
    star = Graph(9, [(0, leaf) for leaf in range(1, 9)])
    with pytest.raises(PrivateValueError) as caught:
        top_k_nodes(star, 1, epsilon=1.0, degree_bound=5)
    assert "8" not in str(caught.value)


def test_nothing_private_is_shown():
    graph = Graph(3, [(0, 1)])
    assert repr(graph) == "Graph(3 nodes, edges not shown)"
    assert "edges not shown" in repr(Influence(graph))
