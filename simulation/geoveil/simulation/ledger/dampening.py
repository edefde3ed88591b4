"""Local dampening [LD]: its examples, influential nodes and decision trees."""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from geoveil.selection import ExponentialMechanism, LocalDampening, LocalUtilities
from geoveil.selection.contrib.criteria import gain_sensitivity
from geoveil.selection.contrib.graphs import Graph, egocentric_betweenness
from geoveil.selection.contrib.influence import Influence, global_sensitivity
from geoveil.simulation.ledger.reproduction import Numbers, Told, bisected, readable
from geoveil.simulation.selection import tree
from geoveil.simulation.selection.experiment import Options
from geoveil.simulation.selection.influence import found, noisy_scores, noisy_top_k, read_graph
from geoveil.simulation.selection.tables import ADULT_EDGES, table

_DEGREES = {"Enron": 1_383, "DBLP": 343, "GitHub": 9_458}
_NODES = {36_692: "Enron", 317_080: "DBLP", 37_700: "GitHub"}
_RECORDS = {"Adult": 45_222, "NLTCS": 21_574, "ACS": 47_461}
_SHIFTED = "shifted local dampening"
_K = 10
_SAMPLES, _RUNS, _SAMPLE_NODES = 10, 10, 50
_BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0)


def _betweenness(options: Options) -> Iterator[Told]:
    spokes = [(hub, node) for hub in (0, 1) for node in range(2, 8)]
    for what, edges in (("", [*spokes, (0, 1)]), (" without the edge (a, b)", spokes)):
        yield "drawn graph", f"EBC of a{what}", float(egocentric_betweenness(Graph(8, edges))[0])


def _example(values: NDArray[np.float64], first: float, second: float) -> LocalUtilities:
    """Return utilities of sensitivity 3, then 5, then 7.5 for a and b; first, second, … for v."""
    pairs = [(3.0, first), (5.0, second), (7.5, 7.5)]
    return LocalUtilities(values, lambda t: np.repeat(pairs[min(t, 2)], (2, 6)))


def _local(options: Options) -> Iterator[Told]:
    values = np.repeat([6.5, 0.0], (2, 6))
    scores, mechanism = _example(values, 3.0, 5.0), LocalDampening(2.0, 7.5)
    place = "Example 3.9, ε = 2"
    yield place, "dampened EBC of a", float(mechanism.dampened(scores)[0])
    plain = ExponentialMechanism(2.0, 7.5).probabilities(values)
    for name, law in (("local dampening", mechanism.probabilities(scores)), ("exponential", plain)):
        yield place, f"{name}, a", float(law[0])
        yield place, f"{name}, one v", float(law[-1])


def _shifted(options: Options) -> Iterator[Told]:
    values = np.repeat([-0.5, -7.0], (2, 6))
    scores, mechanism = _example(values, 2.0, 5.0), LocalDampening(2.0, 7.5)
    dampened, chances = mechanism.dampened(scores), mechanism.probabilities(scores)
    for node, position in (("a", 0), ("one v", -1)):
        place = "Example 4.2, ε = 2"
        yield place, f"dampened, shifted EBC of {node}", float(dampened[position])
        yield place, f"probability of {node}", float(chances[position])


def _inverted(options: Options) -> Iterator[Told]:
    scores = LocalUtilities(np.array([3.0, 4.0]), lambda t: np.array([1.0 if t == 0 else 2.0, 4.0]))
    dampened = LocalDampening(1.0, 4.0).dampened(scores)
    for name, value in zip(("first", "second"), dampened.tolist(), strict=True):
        yield "Example 4.1", f"dampened utility of the {name}", value


def _named(options: Options) -> Iterator[tuple[str, Graph]]:
    for graph in readable(options.data, (".npz", ".txt", ".csv", ".gz"), read_graph):
        if graph.nodes in _NODES:
            yield _NODES[graph.nodes], graph


def _nodes(options: Options) -> Iterator[Told]:
    for name, degree in _DEGREES.items():
        yield name, "Δ EBC", global_sensitivity(degree)
    rng = np.random.default_rng(options.seed)
    quantity = "budget of GlobalPrivTopk over that of ShiftedLocalPrivTopk, powers of ten"
    for name, graph in _named(options):
        if name == "DBLP":  # stated of all three; its large budgets take hours
            continue
        known = Influence(graph, int(graph.degrees.max()))
        finds = partial(_finds_half, known, rng, 3 if options.quick else 10)
        budgets = [
            bisected(partial(finds, mechanism), 1e-3, 1e6, 12)
            for mechanism in ("exponential", _SHIFTED)
        ]
        yield name, quantity, math.log10(budgets[0] / budgets[1]), 0.05


def _finds_half(
    known: Influence, rng: np.random.Generator, runs: int, mechanism: str, budget: float
) -> bool:
    truth = np.argsort(-known.betweenness, kind="stable")[:_K]
    scores = noisy_scores(mechanism, known, budget / _K)
    shares = [found(truth, noisy_top_k(scores, _K, rng)) for _ in range(runs)]
    return bool(np.mean(shares) >= 0.5)


def breadth_first(graph: Graph, start: int, nodes: int) -> Graph:
    """Return the graph of the first nodes that a breadth-first search from one reaches."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    ends = graph.edges
    matrix = csr_array((np.ones(len(ends)), tuple(ends.T)), shape=(graph.nodes, graph.nodes))
    reached = breadth_first_order(matrix, start, directed=False, return_predecessors=False)[:nodes]
    place = np.full(graph.nodes, -1)
    place[reached] = np.arange(len(reached))
    kept = place[ends]
    return Graph(len(reached), kept[(kept >= 0).all(axis=1)])


def _samples(options: Options) -> Iterator[Told]:
    rng = np.random.default_rng(options.seed)
    samples = 3 if options.quick else _SAMPLES
    for name, graph in _named(options):
        starts = rng.choice(np.flatnonzero(graph.degrees > 0), samples, replace=False)
        shares = [
            _shares(breadth_first(graph, start, _SAMPLE_NODES), rng) for start in starts.tolist()
        ]
        for budget, values in zip(_BUDGETS, np.transpose(shares), strict=True):
            error = float(np.std(values, ddof=1)) / len(values) ** 0.5
            yield name, f"PTK, B = {budget:g}", float(np.mean(values)), error


def _shares(sample: Graph, rng: np.random.Generator) -> list[float]:
    """Return the mean share of the true one, two and three that are found, by budget."""
    known = Influence(sample, max(int(sample.degrees.max()), 1))
    order = np.argsort(-known.betweenness, kind="stable")
    means = []
    for budget in _BUDGETS:
        values = []
        for k in (1, 2, 3):
            scores = noisy_scores(_SHIFTED, known, budget / k)
            values += [found(order[:k], noisy_top_k(scores, k, rng)) for _ in range(_RUNS)]
        means.append(float(np.mean(values)))
    return means


def _trees(options: Options) -> Iterator[Told]:
    for name, records in _RECORDS.items():
        for bound in ("least of the range 13 to 17", "most of that range"):
            quantity = f"sensitivity of information gain, bits, {bound}"
            yield name, quantity, gain_sensitivity(records)
    paper = {"exponential, information gain": "Global", "local dampening": "Local"}
    chosen = [c for c in tree.CONTESTANTS if c.name in (_SHIFTED, *paper)]
    setting = tree.QUICK if options.quick else tree.TreeSetting(most_draws=4)
    data = table("adult").discretised(ADULT_EDGES)
    rows = {
        (row.setting, row.mechanism, row.epsilon): row
        for row in tree.rows_of(data, setting, options.seed, chosen)
    }
    for place, (mechanism, other) in product(
        (f"depth {depth}" for depth in setting.depths), reversed(paper.items())
    ):
        gains = []
        for epsilon in setting.budgets:
            ours = rows[place, _SHIFTED, epsilon]
            gains.append((ours.value - rows[place, mechanism, epsilon].value, ours.standard_error))
        quantity = f"ShiftedLocalDiffPID3 over {other}DiffPID3, most of all ε"
        yield f"Adult, {place}", quantity, *max(gains)


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
