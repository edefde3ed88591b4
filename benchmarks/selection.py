"""Applications of private selection, compared with simple implementations in the same run.

It fits a tree to Adult, and a forest of 32 trees to 80 % of it; computes egocentric betweenness for
37,700 nodes; and finds the smooth bound of [SPS Theorem 5] for 1,000 variants of 150 families. The
references have no privacy, or follow the definition: contingency tables column by column, random
splits tree by tree, pairs of neighbours node by node, and all tables by increasing distance. The
last two run on a part and are scaled up by the numbers of pairs and of variants.

The graph is random, with as many nodes and about as many edges and triangles as the graph of
GitHub's developers; GEOVEIL_GRAPH may name a file (.npz, arrays u, v and n) with another.
"""

import os
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from benchmarks.timing import Figure, seconds_of, show
from geoveil.selection.contrib.forest import PrivateRandomForest
from geoveil.selection.contrib.graphs import Graph, egocentric_betweenness
from geoveil.selection.contrib.transmission_sensitivity import (
    local_sensitivity,
    threshold_beta,
    threshold_bound,
    threshold_distance,
    transmission_distance,
)
from geoveil.selection.contrib.tree import PrivateDecisionTree
from geoveil.simulation.selection.influence import read_graph
from geoveil.simulation.selection.tables import ADULT_EDGES, table as adult_table

ROUNDS = 5
NODES, EDGES, SLOPE = 37_700, 289_003, 0.78
CENTRES = 1_000
FAMILIES, VARIANTS, SAMPLE, THRESHOLD = 150, 1_000, 40, 6.0
DEPTH = 5

Rng: TypeAlias = np.random.Generator
Run: TypeAlias = Callable[[], object]


class TimedPair(NamedTuple):
    """A measured function, with its reference."""

    name: str
    run: Run
    reference: str
    straightforward: Run
    share: float = 1.0
    """The part of the work that the reference does, in (0, 1]."""


def table() -> list[Figure]:
    """Print seconds of processor time, and the ratio to those of the reference."""
    figures = []
    for row in (*_trees(), *_nodes(), *_variants()):
        seconds = seconds_of({row.reference: row.straightforward, row.name: row.run}, ROUNDS)
        seconds[row.reference] /= row.share
        figures += show("selection", "s", 1, seconds, row.reference)
    return figures


def _trees() -> Iterator[TimedPair]:
    whole = adult_table("adult")
    coded = whole.discretised(ADULT_EDGES)
    values = [d for d in coded.domains if isinstance(d, int)]
    codes, labels = coded.records.astype(np.int64), coded.labels
    tree = PrivateDecisionTree(1.0, values=values, classes=[0, 1], depth=DEPTH)
    yield TimedPair(
        f"tree, Adult, depth {DEPTH}",
        lambda: tree.fit(coded.records, labels),
        "ID3 in NumPy, not private",
        lambda: _id3(codes, labels, values, list(range(len(values))), DEPTH),
    )
    learnt = np.random.default_rng(1).permutation(len(whole)) >= len(whole) // 5
    records, own = whole.records[learnt], whole.labels[learnt]
    forest = PrivateRandomForest(domains=whole.domains, classes=[0, 1], trees=32, depth=9)
    yield TimedPair(
        "forest of 32 trees, Adult, depth 9",
        lambda: forest.fit(records, own),
        "random trees in NumPy, not private",
        lambda: _random_forest(records, own, forest.trees, forest.depth),
    )


def _id3(
    codes: np.ndarray, labels: np.ndarray, values: list[int], unused: list[int], depth: int
) -> object:
    """Return nested dictionaries that split by the greatest information gain while there is any."""
    if depth == 0 or len(np.unique(labels)) < 2:
        return int(labels.mean() > 0.5) if len(labels) else 0
    best = min(unused, key=lambda a: _entropy(codes[:, a], labels, values[a]))
    rest = [a for a in unused if a != best]
    return best, {
        value: _id3(codes[here], labels[here], values, rest, depth - 1)
        for value in range(values[best])
        for here in [codes[:, best] == value]
    }


def _entropy(column: np.ndarray, labels: np.ndarray, values: int) -> float:
    counts = np.zeros((values, 2))
    np.add.at(counts, (column, labels), 1)
    total = counts.sum(axis=1, keepdims=True)
    share = np.divide(counts, total, out=np.ones_like(counts), where=counts > 0)
    return float(-(counts * np.log2(share)).sum())


def _random_tree(
    records: np.ndarray, labels: np.ndarray, highest: np.ndarray, depth: int, rng: Rng
) -> object:
    """Return nested tuples of random attributes and thresholds, whatever the records."""
    if depth == 0:
        return int(labels.mean() > 0.5) if len(labels) else 0
    attribute = int(rng.integers(len(highest)))
    threshold = float(rng.uniform(0, highest[attribute]))
    above = records[:, attribute] > threshold
    parts = (
        _random_tree(records[here], labels[here], highest, depth - 1, rng)
        for here in (~above, above)
    )
    return attribute, threshold, tuple(parts)


def _random_forest(records: np.ndarray, labels: np.ndarray, trees: int, depth: int) -> object:
    rng, highest = np.random.default_rng(1), records.max(axis=0)
    chunk = rng.integers(trees, size=len(records))
    return [
        _random_tree(records[chunk == tree], labels[chunk == tree], highest, depth, rng)
        for tree in range(trees)
    ]


def _nodes() -> Iterator[TimedPair]:
    graph = _graph()
    near: list[set[int]] = [set() for _ in range(graph.nodes)]
    for u, v in graph.edges.tolist():
        near[u].add(v)
        near[v].add(u)
    chosen = np.random.default_rng(1).choice(graph.nodes, CENTRES, replace=False)
    pairs = graph.degrees * (graph.degrees - 1)
    yield TimedPair(
        f"egocentric betweenness, {graph.nodes:,} nodes",
        lambda: egocentric_betweenness(graph),
        f"node by node, {CENTRES} of them",
        lambda: [_by_definition(near, centre) for centre in chosen.tolist()],
        float(pairs[chosen].sum() / pairs.sum()),
    )


def _graph() -> Graph:
    file = os.environ.get("GEOVEIL_GRAPH")
    if file:
        return read_graph(Path(file))
    weight = np.arange(1.0, NODES + 1) ** -SLOPE
    ends = np.random.default_rng(1).choice(NODES, size=(EDGES, 2), p=weight / weight.sum())
    return Graph(NODES, ends[ends[:, 0] != ends[:, 1]])


def _by_definition(near: list[set[int]], centre: int) -> float:
    own = near[centre]
    return sum(
        1 / (1 + len(near[u] & near[v] & own)) for u, v in combinations(own, 2) if v not in near[u]
    )


def _variants() -> Iterator[TimedPair]:
    rng = np.random.default_rng(1)
    total = rng.binomial(2 * FAMILIES, 2 / 3, VARIANTS)
    b = rng.binomial(total, 0.5)
    c = total - b
    beta = threshold_beta(FAMILIES, THRESHOLD)

    def bound() -> float:
        return threshold_bound(b, c, FAMILIES, THRESHOLD, beta)

    def first_bound() -> float:
        threshold_beta.cache_clear()
        return bound()

    def all_tables() -> list[int]:
        x, y = np.indices((2 * FAMILIES + 1, 2 * FAMILIES + 1)).reshape(2, -1)
        x, y = x[x + y <= 2 * FAMILIES], y[x + y <= 2 * FAMILIES]
        beyond = local_sensitivity(x, y, FAMILIES) > THRESHOLD
        return [
            int(transmission_distance(i, j, x[beyond], y[beyond]).min())
            for i, j in zip(b[:SAMPLE], c[:SAMPLE], strict=True)
        ]

    assert all_tables() == threshold_distance(b, c, FAMILIES, THRESHOLD)[:SAMPLE].tolist()
    for name, run in (("", bound), (", β included", first_bound)):
        yield TimedPair(
            f"Theorem 5, {VARIANTS:,} variants{name}",
            run,
            f"all tables, {SAMPLE} variants",
            all_tables,
            SAMPLE / VARIANTS,
        )
