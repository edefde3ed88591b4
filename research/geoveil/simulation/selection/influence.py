"""The most influential nodes: the share of the true top k found, by budget [LD Figure 5].

Each of the k choices spends B/k. A hundred runs draw noise and give a mean with its standard error.
The degree bound is a round number above the graph's largest degree, assumed public. The paper uses
the largest degree itself; such rows are nominal, and nothing is proved.
"""

import gzip
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count, product
from pathlib import Path
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
    NOMINAL,
    Choice,
    Compute,
    Made,
    Options,
    SelectionContestant,
    SelectionRow,
    brought,
    compared,
)

Nodes = NDArray[np.int64]


def chosen_nodes(
    name: str, known: Influence, rng: np.random.Generator, epsilon: float, k: int
) -> Made:
    """Return k choices of one of `NODE_RECIPES` as the argmax of noisy scores. Not private.

    One draw of Gumbel noise makes all k choices; permute-and-flip draws exponential noise for each
    [PF Theorem 5]. Single precision is enough, and three times as fast.
    """
    recipe = NODE_RECIPES[name]
    part = epsilon / k
    mechanism = recipe.build(part, NodeSetting(known.outcomes, known.degree_bound))
    scores: Any = recipe.score(Remaining(known, np.arange(known.outcomes)), mechanism)
    n = known.outcomes
    draw: Callable[[int], Any] = partial(rng.standard_exponential, dtype=np.float32)
    if isinstance(mechanism, SmoothNoisyMax):
        values = scores.values / mechanism.scale(scores.smooth_sensitivity)
        draw = partial(mechanism.noise.sample, rng)
    elif isinstance(mechanism, LocalDampening):
        values = mechanism.dampened(scores) * (part / 2)
    else:
        assert isinstance(mechanism, ExponentialMechanism | PermuteAndFlip)
        values = scores.values * float(mechanism.exact_rate)

    def at_once(k: int) -> Nodes:
        noisy = values - np.log(np.maximum(draw(n), np.finfo(np.float32).tiny))
        return np.argpartition(noisy, n - k)[n - k :]

    def one_by_one(k: int) -> Nodes:
        left, nodes = values.copy(), []
        for _ in range(k):
            nodes.append(int(np.argmax(left + draw(n))))
            left[nodes[-1]] = -math.inf
        return np.array(nodes)

    anew = isinstance(mechanism, SmoothNoisyMax | PermuteAndFlip)
    return Made(one_by_one if anew else at_once, k * mechanism.guarantee.epsilon)


def found(truth: Nodes, nodes: Nodes) -> float:
    """Return the share of the true nodes among those chosen."""
    return float(np.isin(nodes, truth).mean())


SIZES = (5, 10, 20)
BUDGETS = tuple(10.0**k for k in range(-3, 5))
_PAPERS = ("exponential", "shifted local dampening")
"""Mechanisms that the paper calibrates to the graph's own largest degree."""


def read_graph(file: Path) -> Graph:
    """Return the graph in a file: numpy's (.npz: arrays u and v, number of nodes n), or text.

    A line of text, gzipped or not, has an edge's two nodes as whole numbers, separated by a blank
    or a comma. Other lines, loops, repetitions, and nodes without an edge are left out.

    Raises:
        ParameterError: if the file holds no graph.
        PrivateValueError: if an edge of a file of arrays is not a pair of different nodes.
    """
    permitted = (
        "a graph (.npz): arrays u, v and n; or text (packed by gzip or not): two nodes on a line"
    )
    try:
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                nodes, edges = int(arrays["n"]), np.stack([arrays["u"], arrays["v"]], axis=1)
        else:
            text = file.read_bytes()
            text = gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text
            pairs = re.findall(rb"^(\d+)[ \t,]+(\d+)[ \t]*\r?$", text, re.MULTILINE)
            ends = np.array(pairs, dtype="S20").astype(np.int64).reshape(-1, 2)
            names, edges = np.unique(ends[ends[:, 0] != ends[:, 1]], return_inverse=True)
            nodes, edges = len(names), edges.reshape(-1, 2)
            if not nodes:
                raise ValueError("no edge")
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ParameterError("data", str(file), permitted) from error
    return Graph(nodes, edges)


def generated_graph(nodes: int, rng: np.random.Generator) -> Graph:
    """Return a random graph whose expected degrees fall as 1/√rank [Chung and Lu 2002]."""
    weight = 1 / np.sqrt(1.0 + np.arange(nodes))
    ends = rng.choice(nodes, size=(5 * nodes, 2), p=weight / weight.sum())
    return Graph(nodes, ends[ends[:, 0] != ends[:, 1]])


def public_bound(graph: Graph) -> int:
    """Return the least 1, 2 or 5 times a power of ten above all degrees, at most n − 1."""
    most = int(graph.degrees.max())
    bound: int = next(m * 10**k for k in count() for m in (1, 2, 5) if m * 10**k > most)
    return max(min(bound, graph.nodes - 1), 1)


def parts(options: Options) -> Mapping[str, Compute]:
    """Return parts by graph: the files in `data`, or a generated graph."""
    names: dict[str, Path | None] = {file.name.split(".")[0]: file for file in options.data}
    graphs = names or {"generated": None}
    return {name: partial(_rows, name, file, options) for name, file in graphs.items()}


def _rows(name: str, file: Path | None, options: Options) -> Iterator[SelectionRow]:
    runs, budgets = (20, (0.1, 10.0, 1_000.0)) if options.quick else (100, BUDGETS)
    rng = np.random.default_rng(options.seed)
    graph = generated_graph(5_000, rng) if file is None else read_graph(file)
    influence = Influence(graph, public_bound(graph))
    itself = Influence(graph, max(int(graph.degrees.max()), 1))
    order = np.argsort(-influence.betweenness, kind="stable")

    def printed(key: str, epsilon: float, k: int) -> Made:
        return replace(chosen_nodes(key, itself, rng, epsilon, k), epsilon=math.inf)

    def by_betweenness(given: OwnSelection) -> Choice:
        def choice(k: int) -> Nodes:
            mechanism = given.at(given.epsilon / k, safe_sensitivity(influence.degree_bound))
            left = np.arange(influence.outcomes)
            for _ in range(k):
                p = mechanism.probabilities(influence.betweenness[left])
                left = left[left != rng.choice(left, p=p / p.sum())]
            return np.setdiff1d(np.arange(influence.outcomes), left)

        return choice

    contestants = [
        *(
            SelectionContestant(key, partial(chosen_nodes, key, influence, rng))
            for key in NODE_RECIPES
        ),
        *(SelectionContestant(f"{k}, own degree", partial(printed, k), NOMINAL) for k in _PAPERS),
        *brought(options.own, by_betweenness),
    ]

    def shares(choice: Choice, k: int) -> Mapping[str, list[float]]:
        return {"share of the true top k": [found(order[:k], choice(k)) for _ in range(runs)]}

    for k, budget in product(SIZES, budgets):
        place = {"application": "nodes", "dataset": name, "setting": f"k={k}"}
        yield from compared(contestants, [budget], k, [k], shares, mode="monte-carlo", **place)
