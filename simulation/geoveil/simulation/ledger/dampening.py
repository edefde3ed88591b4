"""Local dampening [LD]: its examples, influential nodes and decision trees."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from geoveil.selection import ExponentialMechanism, LocalDampening, LocalUtilities, Utilities
from geoveil.selection.contrib.criteria import gain_sensitivity
from geoveil.selection.contrib.graphs import Graph, egocentric_betweenness
from geoveil.selection.contrib.influence import Influence, global_sensitivity
from geoveil.simulation.ledger.reproduction import Key, Numbers, Own
from geoveil.simulation.selection import tree
from geoveil.simulation.selection.experiment import Options
from geoveil.simulation.selection.influence import NOISY, given_graphs, noisy_top_k
from geoveil.simulation.selection.tables import ADULT_EDGES, table

_DEGREES = {"Enron": 1_383, "DBLP": 343, "GitHub": 9_458}
_NODES = {36_692: "Enron", 317_080: "DBLP", 37_700: "GitHub"}
_RECORDS = {"Adult": 45_222, "NLTCS": 21_574, "ACS": 47_461}
_K = 10
_SAMPLES, _RUNS, _SAMPLE_NODES = 10, 10, 50
_BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0)


def _betweenness(options: Options) -> Mapping[Key, Own]:
    spokes = [(hub, node) for hub in (0, 1) for node in range(2, 8)]
    joined, apart = (
        float(egocentric_betweenness(Graph(8, edges))[0]) for edges in ([*spokes, (0, 1)], spokes)
    )
    return {
        ("drawn graph", "EBC of a"): (joined, 0.0),
        ("drawn graph", "EBC of a without the edge (a, b)"): (apart, 0.0),
    }


def _example(values: NDArray[np.float64], first: float, second: float) -> LocalUtilities:
    """Return utilities of sensitivity 3, then 5, then 7.5 for a and b; first, second, … for v."""

    def delta(t: int) -> NDArray[np.float64]:
        own = (3.0, 5.0)[t] if t < 2 else 7.5
        other = (first, second)[t] if t < 2 else 7.5
        return np.array([own, own, *[other] * 6])

    return LocalUtilities(values, delta)


def _local(options: Options) -> Mapping[Key, Own]:
    values = np.array([6.5, 6.5, *[0.0] * 6])
    scores, mechanism = _example(values, 3.0, 5.0), LocalDampening(2.0, 7.5)
    chances = mechanism.probabilities(scores)
    plain = ExponentialMechanism(2.0, 7.5).probabilities(Utilities(values))
    place = "Example 3.9, ε = 2"
    return {
        (place, "dampened EBC of a"): (float(mechanism.dampened(scores)[0]), 0.0),
        (place, "local dampening, a"): (float(chances[0]), 0.0),
        (place, "local dampening, one v"): (float(chances[-1]), 0.0),
        (place, "exponential, a"): (float(plain[0]), 0.0),
        (place, "exponential, one v"): (float(plain[-1]), 0.0),
    }


def _shifted(options: Options) -> Mapping[Key, Own]:
    values = np.array([-0.5, -0.5, *[-7.0] * 6])
    scores, mechanism = _example(values, 2.0, 5.0), LocalDampening(2.0, 7.5)
    dampened, chances = mechanism.dampened(scores), mechanism.probabilities(scores)
    place = "Example 4.2, ε = 2"
    return {
        (place, "dampened, shifted EBC of a"): (float(dampened[0]), 0.0),
        (place, "dampened, shifted EBC of one v"): (float(dampened[-1]), 0.0),
        (place, "probability of a"): (float(chances[0]), 0.0),
        (place, "probability of one v"): (float(chances[-1]), 0.0),
    }


def _inverted(options: Options) -> Mapping[Key, Own]:
    scores = LocalUtilities(np.array([3.0, 4.0]), lambda t: np.array([1.0 if t == 0 else 2.0, 4.0]))
    dampened = LocalDampening(1.0, 4.0).dampened(scores)
    return {
        ("Example 4.1", "dampened utility of the first"): (float(dampened[0]), 0.0),
        ("Example 4.1", "dampened utility of the second"): (float(dampened[1]), 0.0),
    }


def _named(options: Options) -> Iterator[tuple[str, Graph]]:
    for graph in given_graphs(options.data):
        if graph.nodes in _NODES:
            yield _NODES[graph.nodes], graph


def _nodes(options: Options) -> Mapping[Key, Own]:
    found: dict[Key, Own] = {
        (name, "Δ EBC"): (global_sensitivity(degree), 0.0) for name, degree in _DEGREES.items()
    }
    rng = np.random.default_rng(options.seed)
    for name, graph in _named(options):
        if name == "DBLP":  # stated of all three; its large budgets take hours
            continue
        known = Influence(graph, int(graph.degrees.max()))
        truth = np.argsort(-known.betweenness, kind="stable")[:_K]
        budgets = [
            _budget(known, truth, mechanism, 3 if options.quick else 10, rng)
            for mechanism in ("exponential", "shifted local dampening")
        ]
        quantity = "budget of GlobalPrivTopk over that of ShiftedLocalPrivTopk, powers of ten"
        found[name, quantity] = (math.log10(budgets[0] / budgets[1]), 0.05)
    return found


def _budget(
    known: Influence,
    truth: NDArray[np.int64],
    mechanism: str,
    runs: int,
    rng: np.random.Generator,
) -> float:
    """Return the budget with which half of the true nodes are found, by bisection of its log."""
    low, high = math.log(1e-3), math.log(1e6)
    for _ in range(12):
        budget = math.exp((low + high) / 2)
        scores = NOISY[mechanism](known, budget / _K)
        share = np.mean([np.isin(noisy_top_k(scores, _K, rng), truth).mean() for _ in range(runs)])
        low, high = (math.log(budget), high) if share < 0.5 else (low, math.log(budget))
    return math.exp((low + high) / 2)


def neighbours_of(graph: Graph) -> list[NDArray[np.int64]]:
    """Return the neighbours of each node."""
    ends = np.concatenate([graph.edges, graph.edges[:, ::-1]])
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    return np.split(ends[:, 1], np.searchsorted(ends[:, 0], np.arange(1, graph.nodes)))


def breadth_first(neighbours: Sequence[NDArray[np.int64]], start: int, nodes: int) -> Graph:
    """Return the graph of the first nodes that a breadth-first search reaches.

    Args:
        neighbours: of each node of the whole graph.
        start: where it begins.
        nodes: how many it keeps, at most.
    """
    order, seen, place = [start], {start: 0}, 0
    while len(order) < nodes and place < len(order):
        for node in neighbours[order[place]].tolist():
            if node not in seen and len(order) < nodes:
                seen[node] = len(order)
                order.append(node)
        place += 1
    edges = [
        (seen[node], seen[other])
        for node in order
        for other in neighbours[node].tolist()
        if node < other and other in seen
    ]
    return Graph(len(order), edges)


def _samples(options: Options) -> Mapping[Key, Own]:
    rng = np.random.default_rng(options.seed)
    samples = 3 if options.quick else _SAMPLES
    found: dict[Key, Own] = {}
    for name, graph in _named(options):
        starts = rng.choice(np.flatnonzero(graph.degrees > 0), samples, replace=False)
        shares: dict[float, list[float]] = {budget: [] for budget in _BUDGETS}
        neighbours = neighbours_of(graph)
        for start in starts.tolist():
            sample = breadth_first(neighbours, start, _SAMPLE_NODES)
            known = Influence(sample, max(int(sample.degrees.max()), 1))
            order = np.argsort(-known.betweenness, kind="stable")
            for budget in _BUDGETS:
                share = [
                    np.isin(noisy_top_k(scores, k, rng), order[:k]).mean()
                    for k in (1, 2, 3)
                    for scores in [NOISY["shifted local dampening"](known, budget / k)]
                    for _ in range(_RUNS)
                ]
                shares[budget].append(float(np.mean(share)))
        for budget, values in shares.items():
            error = float(np.std(values, ddof=1)) / len(values) ** 0.5
            found[name, f"PTK, B = {budget:g}"] = (float(np.mean(values)), error)
    return found


def _trees(options: Options) -> Mapping[Key, Own]:
    found: dict[Key, Own] = {}
    for name, records in _RECORDS.items():
        bits = gain_sensitivity(records)
        for bound in ("least of the range 13 to 17", "most of that range"):
            found[name, f"sensitivity of information gain, bits, {bound}"] = (bits, 0.0)
    wanted = {
        "Global": "exponential, information gain",
        "Local": "local dampening",
        "Shifted": "shifted local dampening",
    }
    chosen = tuple(c for c in tree.CONTESTANTS if c.name in wanted.values())
    setting = (
        tree.TreeSetting(depths=(2,), budgets=(0.1, 1.0), folds=2)
        if options.quick
        else tree.TreeSetting(most_draws=4)
    )
    data = table("adult").discretised(ADULT_EDGES)
    rows = list(tree.rows_of(data, setting, options.seed, chosen))
    for depth in setting.depths:
        of = {(row.mechanism, row.epsilon): row for row in rows if row.setting == f"depth {depth}"}
        for other in ("Local", "Global"):
            gains = [
                (
                    of[wanted["Shifted"], epsilon].value - of[wanted[other], epsilon].value,
                    of[wanted["Shifted"], epsilon].standard_error,
                )
                for epsilon in setting.budgets
            ]
            quantity = f"ShiftedLocalDiffPID3 over {other}DiffPID3, most of all ε"
            found[f"Adult, depth {depth}", quantity] = max(gains)
    return found


NUMBERS: Mapping[str, Numbers] = {
    "ld-figure-1": _betweenness,
    "ld-figure-2": _local,
    "ld-figure-3": _shifted,
    "ld-figure-4": _inverted,
    "ld-figure-5": _nodes,
    "ld-table-2": _samples,
    "ld-figure-6": _trees,
}
"""Row of the ledger → what computes its numbers."""
