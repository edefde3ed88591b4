"""The most influential nodes: how many of the true k are found, over the budget [LD Figure 5].

Each of the k choices spends B/k. Noise is drawn: a hundred runs, a mean and its standard error. The
degree bound is a round number above the graph's own largest degree and taken as public; with the
latter itself, as in the paper, Δ is not a guarantee: those rows are nominal, and nothing is proved
of them. Local dampening without shift needs no bound.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import ParameterError
from geoveil.selection.contrib.graphs import Graph
from geoveil.selection.contrib.influence import (
    NODE_RECIPES,
    Influence,
    NodeSetting,
)
from geoveil.simulation.selection.influence_noisy import NOISY, NoisyScores, noisy_top_k
from geoveil.simulation.selection.rows import KEPT, NOMINAL, Row
from geoveil.simulation.selection.settings import Experiment, Options
from geoveil.simulation.selection.settings_figures import draw_curves

Array = NDArray[np.float64]
SIZES = (5, 10, 20)
BUDGETS = tuple(10.0**k for k in range(-3, 5))
_QUICK = (0.1, 10.0, 1_000.0)
RUNS = 100
_QUICK_RUNS = 20
_GENERATED_NODES = 5_000
MEASURE = "share of the true top k"
_PUBLISHED = ("exponential", "shifted local dampening")
"""What the paper sets up with the graph's own largest degree."""


def read_graph(file: Path) -> Graph:
    """Return the graph in a file of numpy's (.npz): arrays u and v, and the number of nodes n.

    Raises:
        ParameterError: if it holds none.
        PrivateValueError: if an edge is no pair of two different nodes.
    """
    try:
        with np.load(file, allow_pickle=False) as arrays:
            edges = np.stack([arrays["u"], arrays["v"]], axis=1)
            nodes = int(arrays["n"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ParameterError("data", str(file), "a graph (.npz): arrays u, v and n") from error
    return Graph(nodes, edges)


def generated_graph(nodes: int, rng: np.random.Generator) -> Graph:
    """Return a random graph whose expected degrees fall as 1/√rank [Chung and Lu 2002]."""
    weight = 1 / np.sqrt(1.0 + np.arange(nodes))
    ends = rng.choice(nodes, size=(5 * nodes, 2), p=weight / weight.sum())
    return Graph(nodes, ends[ends[:, 0] != ends[:, 1]])


def public_bound(graph: Graph) -> int:
    """Return the least of 1, 2 or 5 times a power of ten above all degrees, at most n − 1.

    It stands for one that is known without the graph.
    """
    most = int(graph.degrees.max())
    steps = (m * 10**k for k in range(len(str(most)) + 1) for m in (1, 2, 5))
    bound: int = next(s for s in steps if s > most)
    return max(min(bound, graph.nodes - 1), 1)


def run(options: Options) -> list[Row]:
    """Return the rows; `data` is graphs, and one is generated without any.

    Raises:
        ParameterError: if a file can't be read.
        PrivateValueError: if an edge is no pair of two different nodes.
    """
    rng = np.random.default_rng(options.seed)
    graphs = {file.stem: read_graph(file) for file in options.data}
    if not graphs:
        graphs = {"generated": generated_graph(_GENERATED_NODES, rng)}
    runs, budgets = (_QUICK_RUNS, _QUICK) if options.quick else (RUNS, BUDGETS)
    return [
        row for name, graph in graphs.items() for row in rows_of(name, graph, budgets, runs, rng)
    ]


def rows_of(
    name: str, graph: Graph, budgets: Sequence[float], runs: int, rng: np.random.Generator
) -> Iterator[Row]:
    """Yield the rows of one graph."""
    known = Influence(graph, public_bound(graph))
    own = Influence(graph, max(int(graph.degrees.max()), 1))
    order = np.argsort(-known.betweenness, kind="stable")
    for k in SIZES:
        found = partial(_shares, order[:k], k, runs, rng)
        for budget in budgets:
            for mechanism, noisy in NOISY.items():
                proved = _proved(mechanism, known, budget, k)
                shares = found(noisy(known, budget / k))
                yield _row(name, k, mechanism, KEPT, budget, proved, shares)
            for mechanism in _PUBLISHED:
                shares = found(NOISY[mechanism](own, budget / k))
                label = f"{mechanism}, own degree"
                yield _row(name, k, label, NOMINAL, budget, math.inf, shares)


def _proved(mechanism: str, known: Influence, budget: float, k: int) -> float:
    setting = NodeSetting(known.outcomes, known.degree_bound)
    return k * NODE_RECIPES[mechanism].build(budget / k, setting).guarantee.epsilon


def _shares(
    truth: NDArray[np.int64], k: int, runs: int, rng: np.random.Generator, scores: NoisyScores
) -> Array:
    return np.array([np.isin(noisy_top_k(scores, k, rng), truth).mean() for _ in range(runs)])


def _row(
    dataset: str, k: int, mechanism: str, standing: str, budget: float, proved: float, shares: Array
) -> Row:
    return Row.averaged(
        shares,
        application="nodes",
        dataset=dataset,
        setting=f"k={k}",
        mechanism=mechanism,
        standing=standing,
        epsilon=budget,
        proved_epsilon=proved,
        measure=MEASURE,
        mode="monte-carlo",
    )


def draw(rows: Sequence[Row], directory: Path) -> list[Path]:
    """Draw the shares."""
    file = directory / "selection-nodes.png"
    draw_curves(rows, file)
    return [file]


EXPERIMENT = Experiment("nodes", run, draw)
