"""The most influential nodes: how many of the true k are found, over the budget [LD Figure 5].

Each of the k choices spends B/k. Noise is drawn: a hundred runs, a mean and its standard error. The
degree bound is a round number above the graph's own largest degree and taken as public; with the
latter itself, as in the paper, Δ is not a guarantee: those rows are nominal, and nothing is proved
of them. Local dampening without shift needs no bound.
"""

import gzip
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.audit import OwnSelection
from geoveil.gp import ParameterError
from geoveil.selection import (
    ExponentialMechanism,
    LocalDampening,
    PermuteAndFlip,
    SmoothNoisyMax,
)
from geoveil.selection.contrib.graphs import Graph
from geoveil.selection.contrib.influence import (
    NODE_RECIPES,
    Influence,
    NodeSetting,
    Remaining,
    safe_sensitivity,
)
from geoveil.simulation.selection.experiment import (
    KEPT,
    NOMINAL,
    OWN,
    Array,
    Compute,
    Options,
    SelectionExperiment,
    SelectionRow,
)


@dataclass(frozen=True, slots=True)
class NoisyScores:
    """A mechanism as scores and standard noise, whose argmax is a choice: quick, and not private.

    Attributes:
        values: the scores in units of the noise, shape (n,).
        draw: the noise, for a generator and a number of nodes.
        repeats: whether each choice needs noise of its own. Without it the k largest of one draw
            are k choices: of Gumbel noise, those of the exponential mechanism.
        epsilon: what is proved of a choice, nats.
    """

    values: Array
    draw: Callable[[np.random.Generator, int], NDArray[np.floating[Any]]]
    repeats: bool
    epsilon: float


# Single precision is enough here, and thrice as fast.


def _gumbel(rng: np.random.Generator, size: int) -> NDArray[np.float32]:
    return -np.log(np.maximum(_exponential(rng, size), np.finfo(np.float32).tiny))


def _exponential(rng: np.random.Generator, size: int) -> NDArray[np.float32]:
    return rng.standard_exponential(size, dtype=np.float32)


def noisy_scores(name: str, known: Influence, epsilon: float) -> NoisyScores:
    """Return one of `NODE_RECIPES` as scores and noise: permute-and-flip by [PF Theorem 5]."""
    recipe = NODE_RECIPES[name]
    mechanism = recipe.build(epsilon, NodeSetting(known.outcomes, known.degree_bound))
    scores: Any = recipe.score(Remaining(known, np.arange(known.outcomes)), mechanism)
    proved = mechanism.guarantee.epsilon
    if isinstance(mechanism, SmoothNoisyMax):
        noise = mechanism.noise
        values = scores.values / mechanism.scale(scores.smooth_sensitivity)
        return NoisyScores(values, lambda rng, size: noise.sample(rng, size), True, proved)
    if isinstance(mechanism, LocalDampening):
        return NoisyScores(mechanism.dampened(scores) * (epsilon / 2), _gumbel, False, proved)
    assert isinstance(mechanism, ExponentialMechanism | PermuteAndFlip)
    values = scores.values * float(mechanism.exact_rate)
    flips = isinstance(mechanism, PermuteAndFlip)
    return NoisyScores(values, _exponential if flips else _gumbel, flips, proved)


def noisy_top_k(scores: NoisyScores, k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return k nodes, chosen one after the other among those that are left. Not private."""
    n = len(scores.values)
    if not scores.repeats:
        noisy = scores.values + scores.draw(rng, n)
        return np.argpartition(noisy, n - k)[n - k :]
    left = scores.values.copy()
    nodes = []
    for _ in range(k):
        nodes.append(int(np.argmax(left + scores.draw(rng, n))))
        left[nodes[-1]] = -math.inf
    return np.array(nodes)


def found(truth: NDArray[np.int64], nodes: NDArray[np.int64]) -> float:
    """Return the share of the true nodes among those chosen."""
    return float(np.isin(nodes, truth).mean())


SIZES = (5, 10, 20)
BUDGETS = tuple(10.0**k for k in range(-3, 5))
_QUICK = (0.1, 10.0, 1_000.0)
RUNS = 100
_QUICK_RUNS = 20
_PUBLISHED = ("exponential", "shifted local dampening")
"""What the paper sets up with the graph's own largest degree."""


_GRAPH = "a graph (.npz): arrays u, v and n; or text (packed by gzip or not): two nodes on a line"


def read_graph(file: Path) -> Graph:
    """Return the graph in a file.

    That is either numpy's (.npz: arrays u and v, and the number of nodes n), or text, packed by
    gzip or not: two whole numbers a line, apart by a blank or a comma, which name the nodes of an
    edge, as the Stanford collection publishes its graphs. Lines that begin otherwise are left out,
    and so are loops and repetitions; nodes are those that have an edge.

    Raises:
        ParameterError: if it holds none.
        PrivateValueError: if an edge of a file of arrays is no pair of two different nodes.
    """
    try:
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                nodes, edges = int(arrays["n"]), np.stack([arrays["u"], arrays["v"]], axis=1)
        else:
            nodes, edges = _edges(file.read_bytes())
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ParameterError("data", str(file), _GRAPH) from error
    return Graph(nodes, edges)


def _edges(text: bytes) -> tuple[int, NDArray[np.int64]]:
    if text[:2] == b"\x1f\x8b":
        text = gzip.decompress(text)
    pairs = re.findall(rb"^(\d+)[ \t,]+(\d+)[ \t]*\r?$", text, re.MULTILINE)
    ends = np.array(pairs, dtype="S20").astype(np.int64).reshape(-1, 2)
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    if not len(ends):
        raise ValueError(_GRAPH)
    names, edges = np.unique(ends, return_inverse=True)
    return len(names), edges.reshape(-1, 2)


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


def parts(options: Options) -> Mapping[str, Compute]:
    """Return what is computed, by graph; `data` is graphs, and one is generated without any."""
    runs, budgets = (_QUICK_RUNS, _QUICK) if options.quick else (RUNS, BUDGETS)

    def rows(name: str, file: Path | None) -> Iterator[SelectionRow]:
        rng = np.random.default_rng(options.seed)
        graph = generated_graph(5_000, rng) if file is None else read_graph(file)
        return rows_of(name, graph, budgets, runs, rng, options.own)

    names: dict[str, Path | None] = {file.name.split(".")[0]: file for file in options.data}
    asked = names or {"generated": None}
    return {name: partial(rows, name, file) for name, file in asked.items()}


def rows_of(
    name: str,
    graph: Graph,
    budgets: Sequence[float],
    runs: int,
    rng: np.random.Generator,
    own: Mapping[str, OwnSelection] = MappingProxyType({}),
) -> Iterator[SelectionRow]:
    """Yield the rows of one graph; one's own mechanisms choose by the betweenness."""
    known = Influence(graph, public_bound(graph))
    itself = Influence(graph, max(int(graph.degrees.max()), 1))
    order = np.argsort(-known.betweenness, kind="stable")
    for k, budget in product(SIZES, budgets):
        row = partial(_row, order[:k], runs, dataset=name, setting=f"k={k}", epsilon=budget)
        for key in NODE_RECIPES:
            scores = noisy_scores(key, known, budget / k)
            choose = partial(noisy_top_k, scores, k, rng)
            yield row(choose, mechanism=key, standing=KEPT, proved_epsilon=k * scores.epsilon)
        row = partial(row, proved_epsilon=math.inf)
        for key in _PUBLISHED:
            choose = partial(noisy_top_k, noisy_scores(key, itself, budget / k), k, rng)
            yield row(choose, mechanism=f"{key}, own degree", standing=NOMINAL)
        for key, given in own.items():
            mechanism = given.at(budget / k, safe_sensitivity(known.degree_bound))
            yield row(partial(_chosen, mechanism, known, k, rng), mechanism=key, standing=OWN)


def _row(
    truth: NDArray[np.int64], runs: int, choose: Callable[[], NDArray[np.int64]], **place: Any
) -> SelectionRow:
    values = [found(truth, choose()) for _ in range(runs)]
    place |= {"application": "nodes", "measure": "share of the true top k", "mode": "monte-carlo"}
    return SelectionRow.averaged(values, **place)


def _chosen(
    mechanism: OwnSelection, known: Influence, k: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return k nodes, each drawn among those that are left."""
    left, nodes = np.arange(known.outcomes), []
    for _ in range(k):
        p = mechanism.probabilities(known.betweenness[left])
        nodes.append(int(rng.choice(left, p=p / p.sum())))
        left = left[left != nodes[-1]]
    return np.array(nodes)


EXPERIMENT = SelectionExperiment("nodes", parts)
